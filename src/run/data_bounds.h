/* The work of a kernel whose rows end where its arrays say. In: what is bound. Out: hr_work. */
#ifndef HR_RUN_DATA_BOUNDS_H
#define HR_RUN_DATA_BOUNDS_H

#include "run/kernel.h"

/* hr_plan_work, less what lies beyond bounds that arrays hold: of plain reductions, where inputs are bound.
 */
hr_status hr_bounded_work(const hr_kernel *kernel, const hr_prepared *state, hr_work *out);

#endif
