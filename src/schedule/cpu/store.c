/* How a stage stores its results: through the caches or past them. In: a stage whose loop is chosen. Out:
 * `store`, `whole_lines`, rows that are collected to whole cache lines. */
#include "base/dtype.h"
#include "schedule/cpu/passes_cpu.h"

bool hr_cpu_walk_streams(const hr_cpu_walk *walk, const hr_tensor *target) {
    const hr_dtype dtype = target->dtype;
    if (hr_dtype_size(dtype) != 4 && dtype != HR_F16 && dtype != HR_BF16) return false;
    return walk->store == HR_STORES_PAST_CACHES ||
           (walk->store == HR_RESULTS_PAST_CACHES && target->role == HR_ROLE_RESULT);
}

/* An inout's lines are in cache already, and scratch is read again soon: ordinary stores cost them no extra
 * traffic. */
static hr_store store_of(const hr_stage *stage, const hr_cpu_walk *walk, hr_store_knob asked) {
    if (!hr_stage_is_vector(stage) || asked == HR_STORE_CACHED) return HR_STORES_CACHED;
    if (asked == HR_STORE_STREAMING) return HR_STORES_PAST_CACHES;
    return walk->row_ends == HR_ROWS_RAGGED && walk->loop != HR_LOOP_FLAT ? HR_STORES_CACHED
                                                                          : HR_RESULTS_PAST_CACHES;
}

/* A thread goes through its tasks in order. */
static bool is_in_order(const hr_cpu_walk *walk) {
    return walk->loop == HR_LOOP_TASKS || walk->loop == HR_LOOP_PIPELINE || walk->loop == HR_LOOP_JAM;
}

void hr_pass_store(hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    const hr_store_knob asked = hr_stage_knobs(stage)->store;
    walk->store = store_of(stage, walk, asked);
    walk->whole_lines =
        hr_stage_is_vector(stage) && asked != HR_STORE_CACHED && !walk->chunk && is_in_order(walk);
    if (hr_stage_jam(stage) && walk->row_ends == HR_ROWS_RAGGED && !asked) walk->row_ends = HR_ROWS_COLLECTED;
}
