/* The choices worth measuring on a CPU, likeliest first: those of a plan's products where it has any. */
#ifndef HR_SCHEDULE_CPU_CANDIDATES_CPU_H
#define HR_SCHEDULE_CPU_CANDIDATES_CPU_H

#include "plan/plan.h"
#include "schedule/knobs.h"

int hr_cpu_candidates(const hr_plan *plan, hr_knobs *out, int max);
/* Of the plan's products, the plan's own choice first. */
int hr_contract_candidates(const hr_plan *plan, hr_knobs *out, int max);

#endif
