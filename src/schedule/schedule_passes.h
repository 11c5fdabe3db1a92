/* What the schedules of all targets have in common. */
#ifndef HR_SCHEDULE_SCHEDULE_PASSES_H
#define HR_SCHEDULE_SCHEDULE_PASSES_H

#include "schedule/schedule.h"

/* Provides the stage's lanes. `gathers`: vectors can be put together from elements at any places. */
hr_status hr_schedule_lanes(const int64_t *extents, bool gathers, const hr_plan *plan, hr_stage *stage);
/* Provides the name and the reason of a stage, and the summary of a plan, once they are scheduled. */
void hr_schedule_describe(hr_plan *plan, hr_stage *stage);
/* What `headroom explain` says of regions. */
void hr_schedule_explain_regions(const hr_plan *plan, hr_text *out);
void hr_schedule_summarise(hr_plan *plan);

#endif
