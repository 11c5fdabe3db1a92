/* A target: what a plan may know of it, and how it schedules a plan's stages.
 *
 * Who adds one writes a folder here and one in src/emit, and a row in target.c and in src/emit/emit_target.c.
 */
#ifndef HR_SCHEDULE_TARGET_H
#define HR_SCHEDULE_TARGET_H

#include "schedule/choice.h"
#include "schedule/schedule.h"

typedef enum hr_target_kind { HR_TARGET_CPU, HR_TARGET_CUDA, HR_TARGET_COUNT } hr_target_kind;

enum { HR_STAGE_CANDIDATES = 48 };

typedef struct hr_target {
    hr_target_kind kind;
    const char *name; /* as in --device */
    hr_facts (*facts)(const hr_device_limits *limits);
    /* How the target walks each stage. `unfused`: each for itself. */
    hr_status (*schedule)(const int64_t *extents, bool unfused, hr_plan *plan);
    /* Choices of a stage worth measuring, the best first by the cost model; [0] is the schedule's own. At
     * most `max`, of which there are HR_STAGE_CANDIDATES and no more; returns how many. */
    int (*candidates)(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max);
} hr_target;

typedef struct hr_schedule_options {
    bool unfused; /* a stage a statement, each for itself */
    bool general; /* for any extents, none of which is a number in a CUDA text; unfused */
    hr_choice choice;
} hr_schedule_options;

/* A row of kinds.def. */
typedef struct hr_kind {
    hr_target_kind target;
    unsigned scope; /* the knobs that it obeys, of hr_knob_scope */
    const char *word;
    const char *what; /* shapes of stages, in words */
    const char *when;
} hr_kind;

extern const hr_kind hr_kind_list[HR_SCHEDULE_KINDS];

extern const hr_target hr_target_cpu, hr_target_cuda;

/* The target that a device with these limits belongs to. */
const hr_target *hr_target_of(const hr_device_limits *limits);

/* A plan and its schedules, checked. In: as hr_plan_create. HR_BAD_INPUT where a knob is not legal. */
hr_status hr_schedule_create(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                             const hr_device_limits *limits, const hr_schedule_options *options,
                             hr_plan **out);
/* Parameters of a schedule that cannot be combined, or do not fit its stage, are refused: HR_INTERNAL with a
 * sentence, for passes are to set none such. */
hr_status hr_schedule_check(const hr_plan *plan);
/* HR_BAD_INPUT with a sentence where the plan's stages have no schedules that obey it. */
hr_status hr_schedule_obeys(const hr_plan *plan, const hr_choice *choice);
/* What hr_target.candidates says of each stage, the others' left to their schedules: in turn, so that the
 * first few have something of each stage. */
int hr_schedule_candidates(const hr_plan *plan, hr_choice *out, int max);

#endif
