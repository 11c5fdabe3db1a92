/* Products with rows between them: a block of rows goes through all before the next block does. In: the
 * plan's regions, scheduled stages. Out: `joins`, `in_blocks`.
 *
 * A thread that takes a block of queries through both products has its scores in cache between them, and no
 * others are ever in memory.
 */
#include "ir/graph.h"
#include "schedule/cpu/passes_cpu.h"

#include <math.h>
#include <string.h>

enum {
    KEYS_LEAST = 64,
    ROWS_SHARE = 4,         /* a row for so many columns of what is packed */
    PACKED_MOST = 10 << 20, /* elements of a batch's packed operands, */
    PACKED_SHARE = 8        /* or one for so many scores */
};

/* Why blocks do not pay, in words; NULL = they do. Right operands are packed whole, which takes memory, and
 * time that many rows make up for. */
static hr_status refusal(const hr_plan *plan, const hr_region *region, const int64_t *extents,
                         const char **out) {
    const hr_function *function = plan->normal;
    const hr_contract *c = plan->stages[region->first].contract;
    double batch, rows, keys, widths = 0;
    HR_TRY(hr_function_points(function, c->batch, c->batch_count, extents, &batch));
    HR_TRY(hr_function_points(function, c->m, c->m_count, extents, &rows));
    HR_TRY(hr_function_points(function, c->n, c->n_count, extents, &keys));
    for (int k = region->first; k <= region->last; k++) {
        const hr_contract *product = plan->stages[k].contract;
        double width;
        if (!product) continue;
        const bool sums = k >= region->sums;
        HR_TRY(hr_function_points(function, sums ? product->n : product->k,
                                  sums ? product->n_count : product->k_count, extents, &width));
        widths += width;
    }
    const double packed = keys * widths, scores = batch * rows * keys;
    *out = NULL;
    if (keys < KEYS_LEAST)
        *out = hr_arena_format(plan->arena, "fewer than %d keys stay in a cache", KEYS_LEAST);
    if (rows * ROWS_SHARE < widths) *out = "few queries do not make up for keys and values that are packed";
    if (packed > fmax(PACKED_MOST, scores / PACKED_SHARE))
        *out = "packed keys and values take more than they save";
    return HR_OK;
}

static void join(hr_plan *plan, const hr_region *region) {
    for (int k = region->first; k <= region->last; k++) {
        hr_stage *stage = &plan->stages[k];
        stage->schedule->joins = k > region->first;
        if (stage->schedule->joins)
            stage->why =
                hr_arena_format(plan->arena, "%s; each block of rows right after stage %d's%s", stage->why, k,
                                plan->stages[region->first].mask_bound ? ", up to where its mask ends" : "");
    }
    for (int t = 0; t < plan->normal->tensor_count; t++)
        plan->in_blocks[t] = plan->in_blocks[t] || region->inner[t];
}

static bool are_vectors(const hr_plan *plan, const hr_region *region) {
    for (int k = region->first + 1; k < region->sums; k++)
        if (!plan->stages[k].contract && !hr_stage_is_vector(&plan->stages[k])) return false;
    return true;
}

hr_status hr_pass_attend_blocks(const int64_t *extents, hr_plan *plan) {
    size_t tensors = (size_t)plan->normal->tensor_count + 1;
    int done = -1; /* the last stage that is part of such a run */
    plan->in_blocks = hr_arena_alloc(plan->arena, tensors * sizeof *plan->in_blocks);
    memset(plan->in_blocks, 0, tensors * sizeof *plan->in_blocks);
    for (int i = 0; i < plan->region_count; i++) {
        const hr_region *region = &plan->regions[i];
        const hr_join_knob join_knob = hr_stage_knobs(&plan->stages[region->first])->join;
        if (region->first <= done) continue;
        const char **why = &plan->stages[region->first].apart;
        HR_TRY(refusal(plan, region, extents, why));
        if (!are_vectors(plan, region)) *why = "their rows are no vectors of 32 bits";
        if (join_knob == HR_JOIN_OFF) *why = "a knob says so: join off";
        if (*why) continue;
        join(plan, region);
        done = region->last;
    }
    return HR_OK;
}
