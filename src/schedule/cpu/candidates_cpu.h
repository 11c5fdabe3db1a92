/* The choices of a stage that are worth measuring on a CPU, the schedule's own first, then likeliest first.
 */
#ifndef HR_SCHEDULE_CPU_CANDIDATES_CPU_H
#define HR_SCHEDULE_CPU_CANDIDATES_CPU_H

#include "plan/plan.h"
#include "schedule/knobs.h"

int hr_cpu_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max);
/* Of a product. */
int hr_contract_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max);

#endif
