/* How a GPU walks a plan's stages: the list of passes. In: a plan. Out: its schedules. */
#include "ir/graph.h"
#include "plan/passes.h"
#include "schedule/cuda/candidates_cuda.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"
#include "schedule/cuda/choose_gemm.h"
#include "schedule/cuda/choose_scan.h"
#include "schedule/cuda/cuda_follow.h"
#include "schedule/cuda/gemm_walk.h"
#include "schedule/schedule_passes.h"
#include "schedule/stash.h"
#include "schedule/target.h"

#include <string.h>

/* A cluster of blocks adds up a row's sums in its registers: the columns that are too many for that, and more
 * vectors beside a matrix than a block reads it once for. */
enum { COLUMNS_LONG = 1 << 17, THIN = 8 };
/* Two waves of tiles of 128 x 256: three products in one walk take 1.13 of the time of three walks where each
 * is four of these. */
enum { STACKED_TILES = 2, STACKED_TILE = 128 * 256 };
/* A wave of tiles: with less, k is in parts. */
enum { PARTIALS_TILE = 128 * 128 };

/* The smallest tile of four products on `mma.sync`: four stages of 64 + 256 rows of 128 bytes. */
enum { STACKED_SHARED = 4 * (64 + 256) * 128 };

static hr_facts facts_of(const hr_device_limits *limits) {
    const unsigned stacked = limits->shared_bytes >= STACKED_SHARED ? HR_FACT_STACKED_PRODUCTS : 0;
    const unsigned few = limits->compute >= 80
                             ? HR_FACT_AXES_SPLIT | HR_FACT_FEW_QUERIES | HR_FACT_PACKED_PRODUCTS |
                                   HR_FACT_GROUPED_PRODUCTS | HR_FACT_ROWS_CHOOSE | HR_FACT_PARTIAL_SUMS |
                                   HR_FACT_ROWS_KEPT | HR_FACT_BACKWARD_JOINED | stacked
                             : 0;
    return (hr_facts){.set = HR_FACT_BYTE_PRODUCTS | few,
                      .thin_f32 = THIN,
                      .thin = THIN,
                      .guess_bytes = sizeof(float),
                      .stacked_most = (double)limits->threads * STACKED_TILES * STACKED_TILE,
                      .partials_least = (double)limits->threads * PARTIALS_TILE,
                      .columns_most = COLUMNS_LONG - 1};
}

/* ---- what a row's passes keep in registers ---- */

/* What alone uses the node, if that is one other and no step ends with the node; else NULL. */
static hr_expr *only_user(const hr_stashing *s, const hr_expr *node) {
    const hr_graph *graph = s->plan->graph;
    const hr_stage *stage = s->stage;
    hr_expr *user = NULL;
    for (int i = 0; i < stage->step_count; i++)
        if (hr_step_is_emitted(&stage->steps[i]) && stage->steps[i].value == node) return NULL;
    for (int i = 0; i < graph->table_size; i++) {
        hr_expr *other = graph->table[i];
        for (int a = 0; other && s->passes[other->id] && a < other->arg_count; a++) {
            if (other->args[a] != node) continue;
            if (user && user != other) return NULL;
            user = other;
        }
    }
    return user;
}

/* On a GPU a register holds any value as well as any other: the one that most follows from the node in all
 * passes that need it. A random number's own place would not even be used where it is drawn to be compared.
 */
static hr_expr *most_of(const hr_stashing *s, hr_expr *node) {
    hr_expr *most = node, *user = node;
    while ((user = only_user(s, user)) && s->repeats[user->id])
        if (user->type == HR_F32) most = user;
    return most;
}

static hr_status stash(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_stashing s;
    if (stage->contract) return HR_OK;
    HR_TRY(hr_stash_begin(plan, stage, extents, &s));
    hr_stash_functions(&s, most_of);
    hr_stash_end(&s);
    return HR_OK;
}

/* ---- variances ---- */

/* Each thread adds up about the mean of its own elements, or about that of the row: with a first guess, of
 * what is left of both. */
static void centre(hr_plan *plan, hr_stage *stage) {
    hr_pass_variance(plan->graph, stage);
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].variance) stage->steps[i].value = stage->steps[i].variance->centred;
}

/* ---- products ---- */

/* Of a product whose results are summed as they leave. */
static const char *partial_words(const hr_plan *plan, const hr_cuda_gemm *gemm) {
    if (!gemm->partial_count) return "";
    return hr_arena_format(plan->arena,
                           "; its results are summed as they leave, %d beside each other, for %d sum%s of a "
                           "later stage, which read%s no result again",
                           HR_PARTIAL, gemm->partial_count, gemm->partial_count == 1 ? "" : "s",
                           gemm->partial_count == 1 ? "s" : "");
}

/* A product whose right operand is computed in registers has its sides exchanged. */
static hr_status swap_sides(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_contract *swapped = hr_arena_alloc(plan->arena, sizeof *swapped);
    bool swaps;
    if (plan->general || !hr_gemm_has_maps(plan)) return HR_OK;
    HR_TRY(hr_gemm_swap_sides(plan, stage, extents, swapped, &swaps));
    if (swaps) stage->contract = swapped;
    return HR_OK;
}

/* Which unit takes it, and how, or what keeps the tensor cores from it. */
static hr_status explain_product(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_cuda_gemm gemm;
    HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, hr_gemm_mainloop_most(plan), &gemm));
    stage->schedule->matrix_rows = gemm.mainloop == HR_GEMM_THIN ? gemm.tile.m : 0;
    hr_knobs *ranked = hr_arena_alloc(plan->arena, sizeof gemm.ranked);
    memcpy(ranked, gemm.ranked, sizeof gemm.ranked);
    stage->schedule->ranked = ranked;
    stage->schedule->ranked_count = gemm.ranked_count;
    stage->why = hr_arena_format(plan->arena, "%s; %s%s", stage->why, gemm.why, partial_words(plan, &gemm));
    return HR_OK;
}

/* ---- attention ---- */

/* The stage is a part of what stage `first` is scheduled as, `what` in words. */
static void say_joined(hr_plan *plan, hr_stage *stage, int first, const char *what) {
    if (stage != &plan->stages[first])
        stage->why = hr_arena_format(plan->arena, "%s; in the %s of stage %d", stage->why, what, first + 1);
}

/* The region's stages are one kernel; what they make for each other is in its registers. */
static void join(hr_plan *plan, const hr_region *region, const hr_cuda_attention *attention) {
    for (int k = region->first; k <= region->last; k++) {
        hr_stage *stage = &plan->stages[k];
        stage->schedule->kind = HR_SCHEDULE_CUDA_ATTENTION;
        stage->schedule->joins = k > region->first;
        say_joined(plan, stage, region->first, "kernel");
        stage->schedule->attention = attention;
    }
    for (int t = 0; t < plan->normal->tensor_count; t++)
        plan->in_blocks[t] =
            plan->in_blocks[t] || (region->inner[t] && !hr_cuda_attention_reads(plan, region, t));
}

static hr_status attend(const int64_t *extents, hr_plan *plan) {
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    int done = -1;
    plan->in_blocks = hr_arena_alloc(plan->arena, tensors * sizeof *plan->in_blocks);
    memset(plan->in_blocks, 0, tensors * sizeof *plan->in_blocks);
    for (int i = 0; i < plan->region_count; i++) {
        const hr_region *region = &plan->regions[i];
        hr_stage *first = &plan->stages[region->first];
        if (region->first <= done) continue;
        hr_cuda_attention *attention = hr_arena_alloc(plan->arena, sizeof *attention);
        HR_TRY(hr_cuda_attention_choose(plan, region, extents, attention));
        first->why = hr_arena_format(plan->arena, "%s; %s", first->why, attention->why);
        first->apart = attention->fits ? NULL : attention->why;
        if (!attention->fits) continue;
        join(plan, region, attention);
        done = region->last;
    }
    return HR_OK;
}

/* The five stages are two kernels; stage `first` says so. */
static void join_backward(hr_plan *plan, int first, const hr_cuda_backward *backward) {
    for (int i = 0; i < HR_BACKWARD_STAGES; i++) {
        hr_stage *stage = &plan->stages[backward->text.stage[i]];
        stage->schedule->kind = HR_SCHEDULE_CUDA_BACKWARD;
        say_joined(plan, stage, first, "two kernels");
        stage->schedule->backward = backward;
    }
    for (int t = 0; t < plan->normal->tensor_count; t++)
        plan->in_blocks[t] = plan->in_blocks[t] || backward->text.inner[t];
}

static hr_status attend_backward(const int64_t *extents, hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        hr_stage *stage = &plan->stages[i];
        if (stage->schedule->kind != HR_SCHEDULE_CUDA_PRODUCT) continue;
        hr_cuda_backward *backward = hr_arena_alloc(plan->arena, sizeof *backward);
        HR_TRY(hr_cuda_backward_choose(plan, i, extents, backward));
        if (*backward->why) stage->why = hr_arena_format(plan->arena, "%s; %s", stage->why, backward->why);
        if (*backward->why && !backward->fits) stage->apart = backward->why;
        if (backward->fits) join_backward(plan, i, backward);
    }
    return HR_OK;
}

/* ---- the passes ---- */

static hr_status schedule(const int64_t *extents, bool unfused, hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        hr_stage *stage = &plan->stages[i];
        hr_schedule *schedule = stage->schedule;
        if (hr_stage_is_ordered(stage)) {
            schedule->kind = HR_SCHEDULE_CUDA_ORDERED;
            HR_TRY(hr_cuda_choose_scan(plan, stage, extents, &schedule->grid));
            hr_schedule_describe(plan, stage);
            continue;
        }
        const struct hr_assumption *before = plan->graph->assumptions;
        HR_TRY(hr_schedule_lanes(extents, false, plan, stage));
        plan->graph->assumptions = before; /* a GPU's whole numbers are as wide as the text says */
        if (!stage->contract) centre(plan, stage);
        HR_TRY(hr_graph_status(plan->graph));
        HR_TRY(stash(extents, plan, stage));
        hr_schedule_describe(plan, stage);
        schedule->kind = stage->contract ? HR_SCHEDULE_CUDA_PRODUCT : HR_SCHEDULE_CUDA_GRID;
        schedule->chain = HR_CHAIN_ADDENDS;
        if (!stage->contract) HR_TRY(hr_cuda_choose(plan, stage, extents, &schedule->grid));
    }
    if (!unfused) HR_TRY(attend(extents, plan));
    if (!unfused) HR_TRY(attend_backward(extents, plan));
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].schedule->kind == HR_SCHEDULE_CUDA_PRODUCT)
            HR_TRY(swap_sides(extents, plan, &plan->stages[i]));
    if (!unfused) HR_TRY(hr_gemm_walks_find(plan, extents));
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].schedule->kind == HR_SCHEDULE_CUDA_PRODUCT)
            HR_TRY(explain_product(extents, plan, &plan->stages[i]));
    return unfused ? HR_OK : hr_cuda_find_followers(plan, extents);
}

const hr_target hr_target_cuda = {
    HR_TARGET_CUDA, "cuda", facts_of, schedule, hr_cuda_candidates,
};
