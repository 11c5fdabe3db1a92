/* How a target walks a stage. In: a stage and what was chosen by hand or by a tuner. Out: a schedule, all
 * that the printer of its kind asks for.
 */
#ifndef HR_SCHEDULE_SCHEDULE_H
#define HR_SCHEDULE_SCHEDULE_H

#include "plan/plan.h"
#include "schedule/cpu/contract_choice.h"
#include "schedule/cpu/cpu_walk.h"
#include "schedule/cuda/cuda_choice.h"
#include "schedule/knobs.h"

typedef enum hr_schedule_kind {
#define KIND(name, target, scope, word, what, when) name,
#include "schedule/kinds.def"
#undef KIND
    HR_SCHEDULE_KINDS
} hr_schedule_kind;

typedef enum hr_lanes {
    HR_LANES_SCALAR, /* loops for `omp simd` */
    HR_LANES_VECTOR  /* vectors of 32-bit values */
} hr_lanes;

/* Values that one pass over a row computes and a later one reads again: a CPU has them in a cache, a GPU in
 * registers. */
enum { HR_STASH_MAX = 8 };

typedef struct hr_stash {
    int count;
    hr_expr *value[HR_STASH_MAX];
    bool once[HR_STASH_MAX]; /* the same for every task: stashed before the first */
} hr_stash;

/* Sums of f32 are added up in chains: so many addends in f32, then what they come to goes into a total of f64
 * and the next chain begins at 0. So a sum of any length errs as one of so many addends does. */
enum { HR_CHAIN_ADDENDS = 128 };
/* Places that are added into: few enough for totals on the stack. */
enum { HR_SCATTER_NEAR = 2048 };

typedef struct hr_schedule {
    hr_schedule_kind kind;
    hr_knobs knobs; /* what was chosen for this stage */
    hr_lanes lanes;
    bool joins; /* each strip of columns, or block of rows, goes through this stage right after the one before
                   it */
    hr_stash stash;
    int64_t chain; /* addends of a chain of f32, at most; 0 = sums of the stage have no totals */
    union {
        struct {
            hr_cpu_walk walk;           /* both kinds of a CPU */
            hr_contract_choice product; /* HR_SCHEDULE_CPU_PRODUCT */
        };
        hr_cuda_choice grid;                      /* HR_SCHEDULE_CUDA_GRID */
        struct {                                  /* HR_SCHEDULE_CUDA_PRODUCT */
            int matrix_rows;                      /* of few vectors: that a block has; 0 = of any other */
            const struct hr_gemm_walk *gemm_walk; /* that it is part of; NULL = none */
            const hr_knobs *ranked; /* what the tuner may ask for, the best first by the model */
            int ranked_count;
        };
        /* HR_SCHEDULE_CUDA_ATTENTION: of the region's first stage; the others join it */
        const struct hr_cuda_attention *attention;
        const struct hr_cuda_backward *backward; /* HR_SCHEDULE_CUDA_BACKWARD: of all five stages */
    };
} hr_schedule;

static inline const hr_knobs *hr_stage_knobs(const hr_stage *stage) {
    return &stage->schedule->knobs;
}

static inline hr_stash *hr_stash_of(const hr_stage *stage) {
    return &stage->schedule->stash;
}

/* Of a stage that is scheduled for a CPU. */
static inline hr_cpu_walk *hr_cpu_walk_of(const hr_stage *stage) {
    return &stage->schedule->walk;
}

/* Rows that go through a pass together where passes are no pipeline; 0 = one by one. */
static inline int hr_stage_jam(const hr_stage *stage) {
    return hr_cpu_walk_jam(hr_cpu_walk_of(stage));
}

static inline bool hr_stage_is_vector(const hr_stage *stage) {
    return stage->schedule->lanes == HR_LANES_VECTOR;
}

/* Of a stage that is scheduled as a grid. */
static inline const hr_cuda_choice *hr_grid_of(const hr_stage *stage) {
    return &stage->schedule->grid;
}

/* The stages, the given one among them, that go through the same strips of columns, or blocks of rows,
 * together. */
typedef struct hr_run {
    int first, last;
} hr_run;
hr_run hr_schedule_run(const hr_plan *plan, int stage);
/* The stage goes through blocks of rows together with others: the first and the last are products. */
bool hr_schedule_attends(const hr_plan *plan, int stage);
/* Rows that are a task's own are stashed. */
bool hr_stash_has_rows(const hr_stage *stage);
/* CPU: the step is among the lanes of its pass. */
bool hr_cpu_step_is_of_lanes(const hr_plan *plan, const hr_stage *stage, const hr_step *step);
/* CPU: what it does for values of less than 32 bits takes a core longer than memory does. */
bool hr_stage_is_bound_by_operations(const hr_plan *plan, const hr_stage *stage);
/* CPU: whether sums that are added into places are totals of f64 until all is added: where the places are
 * few, or so many points are added to each that the totals' memory is little beside them. */
bool hr_scatter_may_be_totalled(const hr_plan *plan, const hr_stage *stage);
bool hr_scatter_is_totalled(const hr_plan *plan, const hr_stage *stage, int64_t places, int64_t points);
/* Words for `headroom explain`: stages, why, what is materialised. */
void hr_schedule_explain(const hr_plan *plan, const int64_t *extents, hr_text *out);

#endif
