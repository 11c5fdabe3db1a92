/* How a matrix product lies on the tensor cores. In: a stage. Out: numbers. See choose_gemm.h. */
#include "schedule/cuda/choose_gemm.h"
#include "schedule/cuda/gemm_walk.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ROWS: of a swizzle. */
enum {
    STEP_16 = 64,
    GROUP_TILE = 64,
    ALIGNMENT = 256,
    LEFT_ROWS = 64,
    ROWS = 8,
    AMPERE_THREADS = 256,
    HOPPER_THREADS = 384
};

/* What is laid out anew, in words. */
static const char *laid_words(const hr_cuda_gemm *gemm) {
    static const char *const words[2][2] = {
        {"", "; the right operand is laid out anew"},
        {"; the left operand is laid out anew", "; both operands are laid out anew"}};
    bool right = false;
    for (int i = 0; i < gemm->rights; i++)
        right = right || hr_gemm_right(gemm, i)->parts;
    if (gemm->left.parts == 1 && gemm->left.value->op != HR_OP_ELEMENT && !right)
        return "; the left operand is laid out anew, once: in registers each tile of columns would compute "
               "it";
    return words[gemm->left.parts > 0][right];
}

static void explain(hr_cuda_gemm *gemm) {
    const hr_gemm_tile *tile = &gemm->tile;
    char splits[96] = "", pairs[128] = "", stacked[96] = "";
    const char *chosen = gemm->left.view.member || gemm->right.view.member
                             ? "; an operand's matrices lie apart, a table says where"
                         : gemm->left.choice || gemm->right.choice
                             ? "; which matrix of an operand it is follows from data"
                             : "";
    if (gemm->rights > 1)
        snprintf(stacked, sizeof stacked, "; %d products of one left operand in one walk, stacked along n",
                 gemm->rights);
    if (tile->splits > 1)
        snprintf(splits, sizeof splits, ", k in %d parts that a second kernel adds up in order",
                 tile->splits);
    if (tile->stream)
        snprintf(splits, sizeof splits, ", the last %d shared along k by %d blocks, added up in order",
                 tile->stream * tile->cluster, tile->stream_clusters * tile->cluster);
    if (gemm->pair_count > 1)
        snprintf(pairs, sizeof pairs, " in parts of bf16, f32 as %d products of them", gemm->pair_count);
    else if (hr_gemm_is_raw(gemm))
        snprintf(pairs, sizeof pairs,
                 "; the left operand is computed in registers, %d bytes of each 64 along k come%s",
                 gemm->left.raw_bytes, gemm->left.scale_count ? ", its factors meet the sums" : "");
    else if (hr_gemm_is_f8(gemm))
        snprintf(pairs, sizeof pairs,
                 "; f8, added up in f32 every 128 of k%s, 2^-13 of the largest addend is lost",
                 hr_gemm_is_scaled(gemm) ? " times their scales" : "");
    else if (hr_gemm_is_whole(gemm))
        snprintf(pairs, sizeof pairs, "; bytes, sums exact");
    if (gemm->mainloop == HR_GEMM_HOPPER)
        snprintf(
            gemm->why, sizeof gemm->why,
            "on the tensor cores by wgmma: tiles of %d x %d, %s, %d stages, clusters of %d, %s%s%s%s%s%s",
            tile->m, tile->n, tile->roles == HR_GEMM_PING_PONG ? "ping-pong" : "cooperative", tile->stages,
            tile->cluster, gemm->result_count ? "results leave by the copy engine" : "threads store results",
            splits, laid_words(gemm), pairs, stacked, chosen);
    else
        snprintf(gemm->why, sizeof gemm->why,
                 "on the tensor cores by mma.sync: tiles of %d x %d, %d stages%s", tile->m, tile->n,
                 tile->stages, stacked);
}

void hr_gemm_tile_take(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_gemm_tile *tile,
                       hr_cuda_gemm *out) {
    bool hopper = out->mainloop == HR_GEMM_HOPPER;
    out->tile = *tile;
    out->threads = hopper ? HOPPER_THREADS : AMPERE_THREADS;
    out->warps_m = 2;
    /* A block's registers are 168 a thread at its beginning; the warpgroups share them out anew, by what the
     * sums of a thread leave. */
    int sums = hr_gemm_sums(tile) * (hr_gemm_chain(out) ? 3 : 2) / 2; /* those of a chain come beside */
    out->producer_registers = sums > 160 ? 24 : sums > 128 ? 40 : 56;
    out->consumer_registers = sums > 160 ? 240 : sums > 128 ? 232 : 224;
    /* The copy engine is slow where most of a box lies outside. */
    bool few = out->left.k_major && !hr_gemm_is_raw(out) && tile->m == LEFT_ROWS && sizes->m < tile->m;
    out->left_columns = hr_gemm_step(out);
    if (hr_gemm_is_raw(out))
        out->left_columns =
            out->left.raw_bytes / (int)hr_dtype_size(plan->normal->tensors[out->left.raw->tensor].dtype);
    out->left_rows = few ? (int)hr_divide_up(sizes->m, ROWS) * ROWS : tile->m;
    const int64_t n = sizes->n / out->rights, columns = hr_gemm_right_columns(out, tile);
    out->n_run = n % columns == 0 ? 0 : n % 8 == 0 ? 8 : 1;
    out->group_bytes = hr_gemm_group_bytes(out, tile);
    out->column_bytes = hr_gemm_column_bytes(out, tile);
    out->shared_bytes = hr_gemm_shared_bytes(out, tile);
    out->blocks = hr_gemm_blocks(plan, sizes, out->mainloop, tile);
    if (tile->stream) hr_gemm_stream_take(tile, out);
    explain(out);
}

hr_status hr_gemm_sizes_of(const hr_plan *plan, const hr_contract *c, const int64_t *extents,
                           hr_gemm_sizes *out) {
    HR_TRY(hr_plan_points(plan, c->batch, c->batch_count, extents, &out->batch));
    HR_TRY(hr_plan_points(plan, c->m, c->m_count, extents, &out->m));
    HR_TRY(hr_plan_points(plan, c->n, c->n_count, extents, &out->n));
    return hr_plan_points(plan, c->k, c->k_count, extents, &out->k);
}

/* ---- rows that choose their right operand ---- */

static int64_t group_tiles(const hr_cuda_gemm *gemm, int64_t rows) {
    const int64_t tiles = hr_divide_up(rows, gemm->tile.m) + gemm->groups - 1;
    return tiles < rows ? tiles : rows;
}

/* Low tiles where few rows choose the same. */
static hr_status grouped_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                const hr_gemm_sizes *sizes, hr_cuda_gemm *out) {
    enum { ROWS_FEW = 96 };
    const hr_expr *grouped = stage->contract->grouped;
    const hr_tensor *tensor = &plan->normal->tensors[grouped->tensor];
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX];
    const char *why;
    HR_TRY(hr_gemm_operands(plan, stage, extents, sizes, HR_GEMM_AMPERE, out, &why));
    for (int a = 0; a < tensor->rank; a++)
        if (grouped->args[a] == stage->contract->group)
            HR_TRY(hr_extent_value(plan->normal, tensor->shape[a], extents, &out->groups));
    if (why || out->groups > HR_CONTRACT_GROUPS_MAX)
        return hr_fail(HR_NOT_AVAILABLE,
                       "kernel %.60s: rows of a product choose among %" PRId64 " matrices: %s",
                       plan->source->name, out->groups, why ? why : "too many");
    if (out->groups < 1) out->groups = 1; /* that no row can choose */
    out->mainloop = HR_GEMM_AMPERE;
    const int count = hr_gemm_tiles(plan, NULL, sizes, out, tiles);
    const bool few = out->groups > 0 && sizes->m / out->groups < ROWS_FEW;
    int best = 0;
    while (few && best + 1 < count && tiles[best].m > GROUP_TILE)
        best++;
    hr_gemm_tile_take(plan, sizes, &tiles[best], out);
    out->group_tiles = group_tiles(out, sizes->m);
    out->blocks = hr_saturate_product(out->group_tiles, hr_divide_up(sizes->n, out->tile.n));
    out->tiles_at = hr_divide_up(sizes->m * (int64_t)sizeof(int), ALIGNMENT) * ALIGNMENT;
    out->work_bytes = out->tiles_at + (out->group_tiles + 1) * (int64_t)(4 * sizeof(int));
    const size_t used = strlen(out->why);
    snprintf(out->why + used, sizeof out->why - used,
             "; a kernel before it sorts the rows by which of %" PRId64
             " matrices they chose: tiles of one each",
             out->groups);
    return HR_OK;
}

/* ---- which ---- */

hr_status hr_gemm_prepare(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                          hr_gemm_mainloop most, hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *complete) {
    const char *why = NULL;
    bool raw = false;
    *out = (hr_cuda_gemm){.mainloop = HR_GEMM_PLAIN, .rights = 1};
    *complete = true;
    if (most == HR_GEMM_PLAIN) {
        snprintf(out->why, sizeof out->why, "not on the tensor cores: it is for any extents");
        return HR_OK;
    }
    HR_TRY(hr_gemm_sizes_of(plan, stage->contract, extents, sizes));
    if (stage->contract->group) return grouped_choose(plan, stage, extents, sizes, out);
    if (most == HR_GEMM_HOPPER) HR_TRY(hr_gemm_raw_choose(plan, stage, extents, sizes, out, &raw));
    if (!raw && !hr_stage_has(stage, HR_STEP_PARTIAL)) {
        bool thin = false;
        HR_TRY(hr_gemm_thin_choose(plan, stage, extents, sizes, out, &thin));
        if (thin) return HR_OK;
    }
    if (!raw) HR_TRY(hr_gemm_operands(plan, stage, extents, sizes, most, out, &why));
    if (why) {
        snprintf(out->why, sizeof out->why, "not on the tensor cores: %s", why);
        return HR_OK;
    }
    HR_TRY(hr_gemm_epilogue(plan, stage, extents, out));
    bool maps = out->left.view.rank && hr_gemm_has_maps(plan);
    for (int i = 0; i < out->rights; i++)
        maps = maps && hr_gemm_right(out, i)->view.rank;
    out->mainloop = maps && most == HR_GEMM_HOPPER ? HR_GEMM_HOPPER : HR_GEMM_AMPERE;
    /* Each pair of parts goes along all of k. Tiles are chosen as for 16 bits, by steps. */
    sizes->k = hr_saturate_product(hr_divide_up(sizes->k, hr_gemm_step(out)) * STEP_16, out->pair_count);
    sizes->n = hr_saturate_product(sizes->n, out->rights);
    *complete = false;
    return HR_OK;
}

hr_status hr_cuda_gemm_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_gemm_mainloop most, hr_cuda_gemm *out) {
    hr_gemm_sizes sizes;
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX];
    bool complete;
    const hr_cuda_gemm *member = most == HR_GEMM_HOPPER ? hr_gemm_walk_member(plan, stage) : NULL;
    if (member) {
        *out = *member;
        return HR_OK;
    }
    HR_TRY(hr_gemm_prepare(plan, stage, extents, most, &sizes, out, &complete));
    if (complete) return HR_OK;
    const int count = hr_gemm_tiles(plan, hr_stage_knobs(stage), &sizes, out, tiles);
    const bool fits = count > 0;
    for (int i = 0; i < count && i < HR_GEMM_RANKED; i++)
        out->ranked[out->ranked_count++] = hr_gemm_tile_knobs(&tiles[i]);
    if (!fits && most == HR_GEMM_HOPPER)
        return hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_AMPERE, out);
    if (!fits)
        return hr_fail(HR_NOT_AVAILABLE, "no tile of the matrix product of kernel %.60s fits this device",
                       plan->source->name);
    if (tiles[0].splits > 1) *out = hr_gemm_in_parts(out, &sizes, tiles[0].splits);
    hr_gemm_tile_take(plan, &sizes, &tiles[0], out);
    return HR_OK;
}

/* 384 threads have 168 registers each, too few for a thread's share of a larger tile. */
hr_status hr_cuda_gemm_sibling(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                               const hr_cuda_gemm *gemm, hr_cuda_gemm *out) {
    *out = *gemm;
    if (gemm->mainloop != HR_GEMM_HOPPER) return HR_OK;
    HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_AMPERE, out));
    if (out->mainloop != HR_GEMM_PLAIN) out->tile.m = 64, out->tile.n = 64 * out->rights;
    return HR_OK;
}
