/* The choices worth measuring on a CPU, likeliest first. In: a plan. Out: tunables for the tuner. */
#include "schedule/cpu/candidates_cpu.h"

static int copy_of(const hr_tunables *choices, int count, hr_tunables *out, int max) {
    if (count > max) count = max;
    for (int i = 0; i < count; i++)
        out[i] = choices[i];
    return count;
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

static int walk_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    bool flat = true;
    for (int i = 0; i < plan->stage_count; i++)
        flat = flat && plan->stages[i].shape == HR_SHAPE_MAP;
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

int hr_cpu_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].shape == HR_SHAPE_CONTRACT) return hr_contract_candidates(plan, out, max);
    return walk_candidates(plan, out, max);
}
