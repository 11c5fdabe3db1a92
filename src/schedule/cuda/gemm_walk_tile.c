/* The tile of a walk's products. In: products that may be one walk. Out: how each is multiplied in it.
 *
 * A walk fills the device once where launches fill it once each: along n and m products are one where the
 * model of tiles takes that for no slower. Sums along k are always one, for those that are added are never in
 * memory.
 */
#include "base/launch.h"
#include "schedule/cuda/gemm_walk_parts.h"

#include <math.h>

/* Of a kernel: the oldest drivers take no more. */
enum { PARAMETER_BYTES = 4096, ALIGNMENT = 256 };
/* A kernel begins when the one before has ended. */
static const double launch_clocks = 2000;
/* The model's tiles of one product were measured; how it orders those of several is finer than it is right.
 */
static const double nearly_as_good = 1.04;

/* Bytes of tensor maps and arguments. */
static bool parameters_fit(const hr_walker *w, const hr_gemm_walk *walk) {
    const hr_function *source = w->plan->source;
    int words = 2 + w->plan->normal->extent_count, maps = 0;
    for (int t = 0; t < hr_function_arguments(source); t++)
        words += 2 + source->tensors[t].rank;
    for (int i = 0; i < walk->count; i++) {
        const hr_cuda_gemm *gemm = &walk->gemm[i];
        maps += !hr_gemm_walk_shares_left(walk, i) + (hr_gemm_walk_shares_right(walk, i) ? 0 : gemm->rights) +
                gemm->result_count + (gemm->staged_block != NULL);
    }
    return maps <= HR_LAUNCH_MAPS_MAX && maps * HR_MAP_BYTES + words * 8 <= PARAMETER_BYTES;
}

/* Of all its products as one, for the model of tiles. */
static hr_cuda_gemm merged_of(const hr_gemm_walk *walk) {
    hr_cuda_gemm merged = walk->gemm[0];
    for (int i = 1; i < walk->count; i++) {
        const hr_cuda_gemm *gemm = &walk->gemm[i];
        if (gemm->sums_most < merged.sums_most) merged.sums_most = gemm->sums_most;
        if (gemm->epilogue_clocks > merged.epilogue_clocks) merged.epilogue_clocks = gemm->epilogue_clocks;
        if (gemm->partial_count > merged.partial_count) merged.partial_count = gemm->partial_count;
    }
    return merged;
}

static hr_gemm_sizes sizes_of(const hr_walker *w, const hr_gemm_walk *walk) {
    hr_gemm_sizes sizes = w->members[walk->stage[0]].sizes;
    for (int i = 1; i < walk->count; i++) {
        const hr_gemm_sizes *more = &w->members[walk->stage[i]].sizes;
        if (walk->kind == HR_GEMM_WALK_COLUMNS) sizes.n += more->n;
        if (walk->kind == HR_GEMM_WALK_ROWS) sizes.m += more->m;
        if (walk->kind == HR_GEMM_WALK_SUM) sizes.k += more->k;
    }
    return sizes;
}

/* Several results of a product have no more room on their way out than one has. */
static hr_gemm_tile tile_of(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    hr_gemm_tile own = *tile;
    if (own.pieces > 1 && gemm->result_count > 1)
        own.pieces = own.pieces > gemm->result_count ? own.pieces / gemm->result_count : 1;
    return own;
}

/* All products hold their sums in the tile, and what they need beside it fits: with fewer stages, if need be.
 */
static bool tile_fits(const hr_walker *w, hr_gemm_walk *walk, const hr_gemm_sizes *sizes,
                      hr_gemm_tile *tile) {
    const int least = walk->gemm[0].mainloop == HR_GEMM_HOPPER ? 3 : 2;
    int64_t group = 0, column = 0;
    for (int i = 0; i < walk->count; i++) {
        hr_cuda_gemm *gemm = &walk->gemm[i];
        const hr_gemm_tile own = tile_of(gemm, tile);
        gemm->group_bytes = gemm->column_bytes = 0;
        if (hr_gemm_group_bytes(gemm, &own) > group) group = hr_gemm_group_bytes(gemm, &own);
        if (hr_gemm_column_bytes(gemm, &own) > column) column = hr_gemm_column_bytes(gemm, &own);
    }
    for (int i = 0; i < walk->count; i++)
        walk->gemm[i].group_bytes = group, walk->gemm[i].column_bytes = column;
    hr_gemm_tile first = tile_of(&walk->gemm[0], tile);
    while (first.stages > least &&
           hr_gemm_shared_bytes(&walk->gemm[0], &first) > w->plan->limits.shared_bytes)
        first.stages--;
    tile->stages = first.stages;
    for (int i = 0; i < walk->count; i++) {
        const hr_gemm_tile own = tile_of(&walk->gemm[i], tile);
        if (!hr_gemm_tile_fits(w->plan, sizes, &walk->gemm[i], &own)) return false;
    }
    return true;
}

/* What is laid out anew stands behind each other, what they share once. */
static void lay_out(hr_gemm_walk *walk) {
    hr_cuda_gemm *first = &walk->gemm[0];
    for (int i = 1; i < walk->count; i++)
        if (walk->gemm[i].lay_blocks > first->lay_blocks) first->lay_blocks = walk->gemm[i].lay_blocks;
    int64_t at =
        hr_gemm_has_flags(first) ? hr_round_up(first->lay_blocks * (int64_t)sizeof(int), ALIGNMENT) : 0;
    for (int i = 0; i < walk->count; i++) {
        hr_cuda_gemm *gemm = &walk->gemm[i];
        for (int s = 0; s <= gemm->rights; s++) {
            hr_gemm_side *side = s == 0 ? &gemm->left : s == 1 ? &gemm->right : &gemm->stacked[s - 2];
            const hr_gemm_side *first_side = s == 0 ? &first->left : &first->right;
            if (!side->parts) continue;
            const bool shared =
                s == 0 ? hr_gemm_walk_shares_left(walk, i) : hr_gemm_walk_shares_right(walk, i);
            side->view.offset = shared ? first_side->view.offset : at;
            if (shared) continue;
            at += hr_round_up(
                hr_saturate_product(side->view.size[2], side->view.stride[2] * (int64_t)sizeof(uint16_t)),
                ALIGNMENT);
        }
        gemm->work_bytes = 0;
    }
    first->work_bytes = at;
}

/* Of a product by itself. */
static double clocks_alone(const hr_walker *w, int number) {
    const hr_walk_member *m = &w->members[number];
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX];
    hr_cuda_gemm gemm = m->gemm;
    if (!hr_gemm_tiles(w->plan, hr_stage_knobs(&w->plan->stages[number]), &m->sizes, &gemm, tiles)) return 0;
    if (tiles[0].splits > 1) gemm = hr_gemm_in_parts(&gemm, &m->sizes, tiles[0].splits);
    return hr_gemm_tile_clocks(w->plan, &m->sizes, &gemm, &tiles[0]) + launch_clocks;
}

/* Sums of all members but the first are terms of its: they have no epilogue. */
static void members_take(const hr_walker *w, hr_gemm_walk *walk) {
    for (int i = 0; i < walk->count; i++) {
        walk->gemm[i] = w->members[walk->stage[i]].gemm;
        if (walk->kind != HR_GEMM_WALK_SUM || i == 0) continue;
        walk->gemm[i].result_count = walk->gemm[i].column_count = walk->gemm[i].partial_count = 0;
        walk->gemm[i].sums_most = walk->gemm[0].sums_most;
    }
}

/* What the model takes the walk for with this tile; infinite where it is none for it. */
static double tile_clocks(const hr_walker *w, hr_gemm_walk *walk, const hr_cuda_gemm *merged,
                          hr_gemm_tile *tile) {
    const hr_gemm_sizes sizes = sizes_of(w, walk);
    hr_cuda_gemm parts = *merged;
    if (tile->stream) return INFINITY; /* its pieces are of one product */
    if (tile->splits > 1 && walk->kind != HR_GEMM_WALK_SUM) return INFINITY;
    if (tile->splits > 1)
        parts = hr_gemm_in_parts(merged, &sizes, tile->splits);
    else if (!tile_fits(w, walk, &sizes, tile))
        return INFINITY;
    return hr_gemm_tile_clocks(w->plan, &sizes, &parts, tile);
}

/* The tile that the largest of the products has by itself; false where there is none. */
static bool tile_of_largest(const hr_walker *w, const hr_gemm_walk *walk, hr_gemm_tile *out) {
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX];
    const hr_walk_member *largest = &w->members[walk->stage[0]];
    for (int i = 1; i < walk->count; i++) {
        const hr_walk_member *other = &w->members[walk->stage[i]];
        if (other->sizes.m * other->sizes.n > largest->sizes.m * largest->sizes.n) largest = other;
    }
    if (!hr_gemm_tiles(w->plan, NULL, &largest->sizes, &largest->gemm, tiles)) return false;
    *out = tiles[0];
    return true;
}

static bool are_alike(const hr_gemm_tile *a, const hr_gemm_tile *b) {
    return a->roles == b->roles && a->m == b->m && a->n == b->n && a->cluster == b->cluster &&
           a->splits <= 1 && b->splits <= 1 && !a->stream && !b->stream;
}

/* A tile for all of them, the best by the model, or that of the largest where it is nearly as good; false
 * where there is none, or where a launch each is faster. */
static bool tile_choose(const hr_walker *w, hr_gemm_walk *walk, hr_gemm_tile *out) {
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX], own = {0};
    const hr_gemm_sizes sizes = sizes_of(w, walk);
    const hr_cuda_gemm merged = merged_of(walk);
    const hr_knobs *knobs = hr_stage_knobs(&w->plan->stages[walk->stage[0]]);
    const int count = hr_gemm_tiles(w->plan, knobs, &sizes, &merged, tiles);
    const bool has_own = walk->kind != HR_GEMM_WALK_SUM && tile_of_largest(w, walk, &own);
    double alone = 0, best = INFINITY;
    for (int i = 0; i < walk->count; i++)
        alone += clocks_alone(w, walk->stage[i]);
    for (int t = 0; t < count; t++) {
        const double clocks = tile_clocks(w, walk, &merged, &tiles[t]);
        if (clocks == INFINITY) continue;
        const bool nearly = has_own && clocks <= best * nearly_as_good && are_alike(&tiles[t], &own);
        if (clocks >= best && !nearly) continue;
        if (clocks < best) best = clocks;
        *out = tiles[t];
        if (nearly) break;
    }
    if (best == INFINITY || (walk->kind != HR_GEMM_WALK_SUM && best + launch_clocks > alone)) return false;
    tile_clocks(w, walk, &merged, out); /* what products take of shared memory is of this tile again */
    return true;
}

/* Each product as it is multiplied with this tile. */
static void tile_take(const hr_walker *w, hr_gemm_walk *walk, const hr_gemm_tile *tile) {
    const hr_gemm_sizes sizes = sizes_of(w, walk);
    int left_rows = 0;
    lay_out(walk);
    if (tile->splits > 1) walk->gemm[0] = hr_gemm_in_parts(&walk->gemm[0], &sizes, tile->splits);
    for (int i = 0; i < walk->count; i++) {
        hr_cuda_gemm *gemm = &walk->gemm[i];
        hr_gemm_sizes own = w->members[walk->stage[i]].sizes;
        if (tile->splits > 1) gemm->group_bytes = gemm->column_bytes = 0;
        const hr_gemm_tile of = tile_of(gemm, tile);
        hr_gemm_tile_take(w->plan, &own, &of, gemm);
        if (gemm->left_rows > left_rows) left_rows = gemm->left_rows;
    }
    hr_cuda_gemm *first = &walk->gemm[0];
    first->blocks = hr_gemm_blocks(w->plan, &sizes, first->mainloop, tile);
    for (int i = 0; i < walk->count; i++) {
        walk->gemm[i].left_rows = left_rows;
        walk->gemm[i].group_bytes = first->group_bytes;
        walk->gemm[i].column_bytes = first->column_bytes;
    }
}

bool hr_gemm_walk_multiply(const hr_walker *w, hr_gemm_walk *walk) {
    hr_gemm_tile tile;
    members_take(w, walk);
    while (walk->kind != HR_GEMM_WALK_SUM && walk->count > 2 && !parameters_fit(w, walk))
        walk->count--;
    if (!parameters_fit(w, walk) || !tile_choose(w, walk, &tile)) return false;
    tile_take(w, walk, &tile);
    return true;
}
