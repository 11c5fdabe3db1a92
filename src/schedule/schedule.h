/* How a target walks a stage. In: a stage and what was chosen by hand or by a tuner. Out: a schedule, all
 * that the printer of its kind asks for.
 */
#ifndef HR_SCHEDULE_SCHEDULE_H
#define HR_SCHEDULE_SCHEDULE_H

#include "plan/plan.h"
#include "schedule/knobs.h"

typedef struct hr_schedule {
    const hr_knobs *knobs; /* those that the stage obeys */
} hr_schedule;

static inline const hr_knobs *hr_stage_knobs(const hr_stage *stage) {
    return stage->schedule->knobs;
}

#endif
