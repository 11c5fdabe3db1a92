/* The parts of a stage's text that its task loop and the pipelined one share. In: a stage. Out: text.
 */
#ifndef HR_EMIT_C_STAGE_PARTS_H
#define HR_EMIT_C_STAGE_PARTS_H

#include "emit/c/lane_pass.h"

enum { HR_STEPS_MAX = 64 };

/* Lane steps that sum squares for the variance of step i have the id HR_SQUARES + i. */
enum { HR_SQUARES = HR_STEPS_MAX };

typedef struct hr_stage_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_plan *plan;
    const hr_function *function;
    int number;
    int together; /* in a pipeline: vectors that each pass does before the next one */
    int block;    /* with groups of rows: vectors of a block of columns */
    const char *stash_name[HR_STASH_MAX];
    bool stash_done[HR_STASH_MAX];
    const char *next_row[HR_STREAMS_MAX];
    const char *ahead[HR_STEPS_MAX]; /* of jammed rows: lines before the loop */
    int ahead_count;
    int lines; /* results that leave in whole lines although each is less: see stage_line.h */
    signed char line[HR_STEPS_MAX]; /* by step: which of them it is, from 1 on; 0 = none */
    const hr_step *meeting;         /* the one whose rows meet in lines; NULL = none */
} hr_stage_printer;

static inline bool hr_stage_goes_by(const hr_stage_printer *s, hr_cpu_loop loop) {
    return hr_cpu_walk_of(s->stage)->loop == loop;
}

static inline const hr_statement *hr_stage_statement(const hr_stage_printer *s, const hr_step *step) {
    return &s->function->statements[step->statement];
}

/* What the step gives values to. */
static inline const hr_tensor *hr_stage_target(const hr_stage_printer *s, const hr_step *step) {
    return &s->function->tensors[hr_stage_statement(s, step)->tensor];
}

static inline hr_dtype hr_stage_reduced_type(const hr_stage_printer *s, const hr_step *step) {
    return hr_stage_statement(s, step)->value->type;
}

/* A value of the task level, as a scalar; prints the lines that it takes. */
const char *hr_stage_scalar(hr_stage_printer *s, const hr_expr *value);

/* The lane loop of one pass; `steps` has HR_STEPS_MAX entries. */
hr_lane_pass hr_stage_lane_pass(hr_stage_printer *s, int pass, hr_lane_step *steps);
/* What a task computes once before this pass, and what it stores at its end. */
void hr_stage_row_steps(hr_stage_printer *s, int pass);
void hr_stage_row_stores(hr_stage_printer *s);
/* The lanes of a pass and what they add up to, as values of the task. */
void hr_stage_pass(hr_stage_printer *s, int pass);
/* The task's indices are variables that the loop over tasks counts on. */
bool hr_stage_counts_tasks(const hr_stage_printer *s);
/* The task's indices from `task`, and how many tasks there are. */
void hr_stage_task_indices(hr_stage_printer *s);
const char *hr_stage_task_total(hr_stage_printer *s);

#endif
