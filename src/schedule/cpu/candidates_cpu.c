/* The choices worth measuring on a CPU, likeliest first. In: a stage. Out: knobs for the tuner. */
#include "schedule/cpu/candidates_cpu.h"
#include "schedule/schedule.h"

static int copy_of(const hr_knobs *choices, int count, hr_knobs *out, int max) {
    if (count > max) count = max;
    for (int i = 0; i < count; i++)
        out[i] = choices[i];
    return count;
}

/* One pass on a CPU: how far ahead memory is prefetched, how results leave, how tasks are shared out. */
static int map_candidates(const hr_stage *stage, hr_knobs *out, int max) {
    static const hr_knobs choices[] = {
        {0},
        {.prefetch = HR_PREFETCH_2K},
        {.prefetch = HR_PREFETCH_8K},
        {.random_strip = 768},
        {.prefetch = HR_PREFETCH_8K, .random_strip = 768},
        {.chunk = 16},
        {.prefetch = HR_PREFETCH_OFF},
        {.chunk = 64},
        {.short_axis = HR_SHORT_AXIS_LOOP},
        {.store = HR_STORE_CACHED},
        {.store = HR_STORE_STREAMING},
        {.prefetch = HR_PREFETCH_8K, .chunk = 16},
        {.random_strip = 1536},
    };
    static const hr_knobs gathered[] = {
        {0},
        {.order = HR_ORDER_AS_THEY_COME, .join = HR_JOIN_BLOCKS},
        {.prefetch = HR_PREFETCH_2K},
        {.prefetch = HR_PREFETCH_4K},
        {.order = HR_ORDER_AS_THEY_COME, .join = HR_JOIN_BLOCKS, .prefetch = HR_PREFETCH_4K}};
    if (hr_cpu_walk_of(stage)->gathered)
        return copy_of(gathered, (int)(sizeof gathered / sizeof *gathered), out, max);
    return copy_of(choices, (int)(sizeof choices / sizeof *choices), out, max);
}

static int walk_candidates(const hr_stage *stage, hr_knobs *out, int max) {
    const bool lanes = hr_stage_is_vector(stage), scatters = stage->shape == HR_SHAPE_SCATTER;
    if (stage->dots) {
        out[0] = (hr_knobs){0}; /* its loops are fixed */
        return 1;
    }
    if (stage->shape == HR_SHAPE_MAP && lanes) return map_candidates(stage, out, max);
    static const hr_knobs choices[] = {
        {0},
        {.accumulators = 2},
        {.pipeline = HR_PIPELINE_OFF, .order = HR_ORDER_AS_THEY_COME, .join = HR_JOIN_BLOCKS},
        {.jam = 4},
        {.prefetch = HR_PREFETCH_2K},
        {.pipeline = HR_PIPELINE_ON, .order = HR_ORDER_BY_ROW},
        {.throttle = HR_THROTTLE_ADDRESSES},
        {.jam = 1, .join = HR_JOIN_OFF},
        {.throttle = HR_THROTTLE_NONE},
        {.jam = 1, .join = HR_JOIN_OFF, .throttle = HR_THROTTLE_NONE},
        {.jam = 2, .throttle = HR_THROTTLE_ADDRESSES},
        {.jam = 1, .join = HR_JOIN_OFF, .prefetch = HR_PREFETCH_4K},
        {.prefetch = HR_PREFETCH_4K},
        {.pipeline = HR_PIPELINE_OFF,
         .order = HR_ORDER_AS_THEY_COME,
         .join = HR_JOIN_BLOCKS,
         .prefetch = HR_PREFETCH_4K},
        {.accumulators = 8},
        {.prefetch = HR_PREFETCH_4K, .accumulators = 8},
        {.prefetch = HR_PREFETCH_8K},
        {.random_strip = 768},
        {.prefetch = HR_PREFETCH_OFF},
        {.store = HR_STORE_CACHED},
        {.chunk = 16},
        {.prefetch = HR_PREFETCH_4K, .chunk = 16},
        {.store = HR_STORE_CACHED, .prefetch = HR_PREFETCH_4K},
        {.store = HR_STORE_CACHED, .prefetch = HR_PREFETCH_OFF},
        {.prefetch = HR_PREFETCH_8K, .accumulators = 8},
        {.random_strip = 1536},
        {.prefetch = HR_PREFETCH_OFF, .accumulators = 8},
        {.prefetch = HR_PREFETCH_4K, .accumulators = 2},
        {.chunk = 64},
    };
    int count = 0;
    for (int i = 0; i < (int)(sizeof choices / sizeof *choices) && count < max; i++)
        if (i == 0 || lanes || (scatters && choices[i].pipeline && !choices[i].prefetch))
            out[count++] = choices[i];
    return count;
}

int hr_cpu_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max) {
    return stage->contract ? hr_contract_candidates(plan, stage, out, max) : walk_candidates(stage, out, max);
}
