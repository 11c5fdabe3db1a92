/* What the inputs of a kernel may hold, so that a run on made-up data means something. */
#ifndef HR_RUN_FILL_H
#define HR_RUN_FILL_H

#include "run/kernel.h"

/* One hr_filling an argument (its seed is left alone): whole numbers that are subscripts stay in their axis,
 * those that are compared with an index in its range, others small; floats under a root or a logarithm are
 * magnitudes. */
hr_status hr_fill_ranges(const hr_function *function, const int64_t *extents, int argument_count,
                         hr_filling *out);

#endif
