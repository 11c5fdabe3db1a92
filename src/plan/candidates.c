/* The choices worth measuring, likeliest first. In: a plan. Out: tunables for the tuner. */
#include "plan/plan.h"

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

/* One pass on a CPU: how far ahead memory is asked for, how results leave, how tasks are shared out. */
static int map_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    static const hr_tunables choices[] = {
        {0},
        {.prefetch = 2},
        {.prefetch = 4},
        {.tile = 768},
        {.prefetch = 4, .tile = 768},
        {.chunk = 16},
        {.prefetch = 1},
        {.chunk = 64},
        {.unroll = 1},
        {.stream = 2},
        {.stream = 1},
        {.prefetch = 4, .chunk = 16},
        {.tile = 1536},
    };
    static const hr_tunables gathered[] = {
        {0}, {.skew = 1}, {.prefetch = 2}, {.prefetch = 3}, {.skew = 1, .prefetch = 3}};
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].gathered)
            return copy_of(gathered, (int)(sizeof gathered / sizeof *gathered), out, max);
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

int hr_plan_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    bool flat = true;
    for (int i = 0; i < plan->stage_count; i++)
        flat = flat && plan->stages[i].shape == HR_SHAPE_MAP;
    if (plan->limits.compute) return flat ? flat_candidates(out, max) : grid_candidates(out, max);
    bool lanes = false, scatters = false;
    for (int i = 0; i < plan->stage_count; i++) {
        lanes = lanes || plan->stages[i].vector;
        scatters = scatters || plan->stages[i].shape == HR_SHAPE_SCATTER;
    }
    if (flat && lanes) return map_candidates(plan, out, max);
    static const hr_tunables choices[] = {
        {0},
        {.unroll = 2},
        {.skew = 1},
        {.group = 4},
        {.prefetch = 2},
        {.skew = 2},
        {.pace = HR_PACE_ENDED},
        {.pace = HR_PACE_READ},
        {.group = 1},
        {.skew = 3},
        {.pace = HR_PACE_FREE},
        {.group = 1, .pace = HR_PACE_ENDED},
        {.group = 1, .pace = HR_PACE_FREE},
        {.group = 2, .pace = HR_PACE_READ},
        {.group = 1, .prefetch = 3},
        {.prefetch = 3},
        {.skew = 1, .prefetch = 3},
        {.unroll = 8},
        {.prefetch = 3, .unroll = 8},
        {.prefetch = 4},
        {.tile = 768},
        {.prefetch = 1},
        {.stream = 2},
        {.chunk = 16},
        {.prefetch = 3, .chunk = 16},
        {.stream = 2, .prefetch = 3},
        {.stream = 2, .prefetch = 1},
        {.prefetch = 4, .unroll = 8},
        {.tile = 1536},
        {.prefetch = 1, .unroll = 8},
        {.prefetch = 3, .unroll = 2},
        {.chunk = 64},
    };
    int count = 0;
    for (int i = 0; i < (int)(sizeof choices / sizeof *choices) && count < max; i++)
        if (i == 0 || lanes || (scatters && choices[i].skew && !choices[i].prefetch))
            out[count++] = choices[i];
    return count;
}
