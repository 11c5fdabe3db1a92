/* The choices worth measuring on a GPU, likeliest first. In: a plan. Out: tunables for the tuner. */
#include "schedule/cuda/candidates_cuda.h"

static int copy_of(const hr_tunables *choices, int count, hr_tunables *out, int max) {
    if (count > max) count = max;
    for (int i = 0; i < count; i++)
        out[i] = choices[i];
    return count;
}

/* Groups of a thread and threads of a block; what is read leaves the L2 last or not; blocks that stay. */
static int flat_candidates(hr_tunables *out, int max) {
    static const hr_tunables choices[] = {
        {0},
        {.unroll = 1},
        {.row_threads = 512, .unroll = 1},
        {.unroll = 4},
        {.stream = 2, .unroll = 4},
        {.stream = 2},
        {.unroll = 2},
        {.row_threads = 128, .unroll = 4},
        {.row_threads = 1024, .unroll = 1},
        {.stream = 1},
        {.row_threads = 512, .unroll = 2},
        {.row_threads = 128, .unroll = 8},
        {.waves = 8},
        {.stream = 1, .unroll = 1},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

/* Threads that hold a row and the groups of each; blocks that take rows in turn; what is read leaves the L2
 * last or not. */
static int grid_candidates(hr_tunables *out, int max) {
    static const hr_tunables choices[] = {
        {0},
        {.unroll = 4},
        {.unroll = 2},
        {.unroll = 1},
        {.row_threads = 256, .unroll = 4},
        {.row_threads = 512, .unroll = 2},
        {.stream = 2},
        {.stream = 1},
        {.row_threads = 128, .unroll = 8},
        {.waves = 4},
        {.row_threads = 32, .unroll = 4, .waves = 1},
        {.waves = 1},
        {.prefetch = 3, .waves = 2},
        {.prefetch = 4, .row_threads = 256, .waves = 3},
        {.prefetch = 4},
        {.prefetch = 5, .row_threads = 256},
        {.prefetch = 5, .row_threads = 512},
        {.row_threads = 1024},
        {.prefetch = 2, .row_threads = 256, .unroll = 4},
        {.prefetch = 2, .row_threads = 256, .unroll = 4, .cluster = 1},
        {.row_threads = 1024, .cluster = 2},
        {.row_threads = 512, .unroll = 4, .cluster = 8},
        {.prefetch = 4, .row_threads = 1024, .waves = 1},
    };
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

int hr_cuda_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    bool flat = true;
    for (int i = 0; i < plan->stage_count; i++)
        flat = flat && plan->stages[i].shape == HR_SHAPE_MAP;
    return flat ? flat_candidates(out, max) : grid_candidates(out, max);
}
