/* The choices worth measuring on a GPU, likeliest first. In: a stage. Out: knobs for the tuner. */
#include "schedule/cuda/candidates_cuda.h"

#include "schedule/cuda/gemm_walk.h"

static int copy_of(const hr_knobs *choices, int count, hr_knobs *out, int max) {
    if (count > max) count = max;
    for (int i = 0; i < count; i++)
        out[i] = choices[i];
    return count;
}

/* Groups of a thread and threads of a block; what is read leaves the L2 last or not; blocks that stay. */
static int flat_candidates(hr_knobs *out, int max) {
    static const hr_knobs choices[] = {
        {0},
        {.groups = 1},
        {.row_threads = 512, .groups = 1},
        {.groups = 4},
        {.eviction = HR_EVICTION_USUAL, .groups = 4},
        {.eviction = HR_EVICTION_USUAL},
        {.groups = 2},
        {.row_threads = 128, .groups = 4},
        {.row_threads = 1024, .groups = 1},
        {.eviction = HR_EVICTION_LAST},
        {.row_threads = 512, .groups = 2},
        {.row_threads = 128, .groups = 8},
        {.blocks = 8},
        {.eviction = HR_EVICTION_LAST, .groups = 1},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

/* Threads that hold a row and the groups of each; persistent blocks; what is read leaves the L2
 * last or not. */
static int grid_candidates(hr_knobs *out, int max) {
    static const hr_knobs choices[] = {
        {0},
        {.groups = 4},
        {.groups = 2},
        {.groups = 1},
        {.row_threads = 256, .groups = 4},
        {.row_threads = 512, .groups = 2},
        {.eviction = HR_EVICTION_USUAL},
        {.eviction = HR_EVICTION_LAST},
        {.row_threads = 128, .groups = 8},
        {.blocks = 4},
        {.row_threads = 32, .groups = 4, .blocks = 1},
        {.blocks = 1},
        {.staging = HR_STAGING_AHEAD, .blocks = 2},
        {.staging = HR_STAGING_DOUBLE, .row_threads = 256, .blocks = 3},
        {.staging = HR_STAGING_DOUBLE},
        {.staging = HR_STAGING_RING, .row_threads = 256},
        {.staging = HR_STAGING_RING, .row_threads = 512},
        {.row_threads = 1024},
        {.staging = HR_STAGING_SHARED, .row_threads = 256, .groups = 4},
        {.staging = HR_STAGING_SHARED, .row_threads = 256, .groups = 4, .cluster = 1},
        {.row_threads = 1024, .cluster = 2},
        {.row_threads = 512, .groups = 4, .cluster = 8},
        {.staging = HR_STAGING_DOUBLE, .row_threads = 1024, .blocks = 1},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

/* Few vectors: rows of the matrix in a block, parts of k. */
static int thin_candidates(hr_knobs *out, int max) {
    static const hr_knobs choices[] = {
        {0},
        {.tile_m = 32, .split_k = 1},
        {.tile_m = 64, .split_k = 1},
        {.tile_m = 128, .split_k = 1},
        {.tile_m = 32, .split_k = 2},
        {.tile_m = 64, .split_k = 2},
        {.tile_m = 128, .split_k = 2},
        {.tile_m = 128, .split_k = 4},
        {.tile_n = 64}, /* not as few vectors */
        {.tile_n = 128},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

/* Several products in a walk: tiles for all of them. */
static int walk_candidates(hr_knobs *out, int max) {
    static const hr_knobs choices[] = {
        {0},
        {.tile_m = 128, .tile_n = 256, .sharers = 1},
        {.tile_m = 128, .tile_n = 256, .sharers = 2},
        {.tile_m = 128, .tile_n = 192, .sharers = 2},
        {.tile_m = 128, .tile_n = 160, .sharers = 2},
        {.tile_m = 128, .tile_n = 128, .sharers = 1},
        {.tile_m = 128, .tile_n = 128, .sharers = 2},
        {.tile_m = 64, .tile_n = 256, .sharers = 2},
        {.tile_m = 64, .tile_n = 128, .sharers = 1},
        {.tile_m = 64, .tile_n = 64, .sharers = 1},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

/* The model's own choice, then what it ranks. */
static int product_candidates(const hr_stage *stage, hr_knobs *out, int max) {
    if (stage->schedule->gemm_walk) return walk_candidates(out, max);
    const int first = copy_of(&(hr_knobs){0}, 1, out, max);
    return first + copy_of(stage->schedule->ranked, stage->schedule->ranked_count, out + first, max - first);
}

int hr_cuda_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max) {
    if (hr_gemm_walk_joins(plan, stage)) return copy_of(&(hr_knobs){0}, 1, out, max);
    if (stage->schedule->kind == HR_SCHEDULE_CUDA_PRODUCT)
        return stage->schedule->matrix_rows ? thin_candidates(out, max) : product_candidates(stage, out, max);
    if (stage->schedule->kind != HR_SCHEDULE_CUDA_GRID)
        return copy_of(&(hr_knobs){0}, 1, out, max); /* attention has no tunables yet */
    return stage->shape == HR_SHAPE_MAP ? flat_candidates(out, max) : grid_candidates(out, max);
}
