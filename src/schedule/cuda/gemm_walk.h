/* Products of several stages that one launch multiplies: a walk.
 *
 * In: a plan whose stages have schedules, numbers for its extents. Out: walks, which the schedules of their
 * stages point to. Each stage stays what it is, with its own indices, operands and epilogue; what they share
 * is the ring of tiles and the blocks that go through it. Along n: products of one left operand, x of q, k
 * and v. Along m: products of one right operand, as gradients of such weights are. Along k: products that
 * nothing is done with but adding them, as the gradient of such an x is; sums of all but the last are never
 * in memory.
 */
#ifndef HR_SCHEDULE_CUDA_GEMM_WALK_H
#define HR_SCHEDULE_CUDA_GEMM_WALK_H

#include "schedule/cuda/choose_gemm.h"

enum { HR_GEMM_WALK_MOST = 8 };

typedef enum hr_gemm_walk_kind {
    HR_GEMM_WALK_COLUMNS, /* tiles behind each other along n */
    HR_GEMM_WALK_ROWS,    /* along m */
    HR_GEMM_WALK_SUM,     /* steps behind each other along k */
} hr_gemm_walk_kind;

typedef struct hr_gemm_walk {
    hr_gemm_walk_kind kind;
    int count;
    /* The first has the launch, in its place among the stages; of a sum it is the one with the epilogue. */
    int stage[HR_GEMM_WALK_MOST];
    hr_cuda_gemm gemm[HR_GEMM_WALK_MOST]; /* of one tile */
} hr_gemm_walk;

/* The walk that the stage is part of; NULL = none. */
static inline const hr_gemm_walk *hr_gemm_walk_of(const hr_stage *stage) {
    return stage->schedule->kind == HR_SCHEDULE_CUDA_PRODUCT ? stage->schedule->gemm_walk : NULL;
}

/* It is launched with another stage. */
static inline bool hr_gemm_walk_joins(const hr_plan *plan, const hr_stage *stage) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(stage);
    return walk && stage != &plan->stages[walk->stage[0]];
}

/* Its sum is a part of another stage's, which has the epilogue. */
static inline bool hr_gemm_walk_is_term(const hr_plan *plan, const hr_stage *stage) {
    return hr_gemm_walk_joins(plan, stage) && hr_gemm_walk_of(stage)->kind == HR_GEMM_WALK_SUM;
}
/* Its place in its walk; 0 where it is in none. */
static inline int hr_gemm_walk_place(const hr_plan *plan, const hr_stage *stage) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(stage);
    int place = 0;
    while (walk && stage != &plan->stages[walk->stage[place]])
        place++;
    return place;
}

/* How it is multiplied in its walk; NULL = it is in none. */
const hr_cuda_gemm *hr_gemm_walk_member(const hr_plan *plan, const hr_stage *stage);
/* The operand of product `i` is that of the first one, too: its tiles, if they are laid out anew, and its
 * tensor map are. */
static inline bool hr_gemm_walk_shares_left(const hr_gemm_walk *walk, int i) {
    return walk->kind == HR_GEMM_WALK_COLUMNS && i > 0;
}
static inline bool hr_gemm_walk_shares_right(const hr_gemm_walk *walk, int i) {
    return walk->kind == HR_GEMM_WALK_ROWS && i > 0;
}

/* Finds the walks of a plan. */
hr_status hr_gemm_walks_find(hr_plan *plan, const int64_t *extents);

#endif
