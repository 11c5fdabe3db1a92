/* What a CPU stashes in its caches between passes over a row. In: a stage whose pipeline is chosen. Out: its
 * `stash`. */
#include "schedule/cpu/passes_cpu.h"
#include "schedule/stash.h"

#include "base/dtype.h"
#include "ir/graph.h"

/* Of an element: the value that is stashed and what is read beside it. */
enum { STASH_BYTES = 8 };

/* bf16 is widened as fast as f32 is loaded from a cache that it fills. */
static bool is_narrow_element(const hr_stashing *s, const hr_expr *node) {
    return node->op == HR_OP_ELEMENT && hr_dtype_size(s->plan->normal->tensors[node->tensor].dtype) <= 2 &&
           s->plan->normal->tensors[node->tensor].dtype != HR_BF16;
}

/* Narrow elements that every task widens anew (`once`), or that two passes widen: it pays within the
 * first-level cache. `budget`: bytes of it that are still to spend. */
static void stash_narrow(hr_stashing *s, bool once, int64_t *budget) {
    const hr_graph *graph = s->plan->graph;
    for (int i = 0; i < graph->table_size && !hr_stash_is_full(s); i++) {
        hr_expr *node = graph->table[i];
        if (!node || node->type != HR_F32 || !s->passes[node->id] ||
            hr_cpu_walk_of(s->stage)->pipeline.depth || !is_narrow_element(s, node) || s->row * 4 > *budget)
            continue;
        bool shared = s->stage->task_count > 0 && !hr_varies_by_task(&s->depends, node);
        if (shared != once || (!once && !s->repeats[node->id])) continue;
        hr_stash_add(s, node, once);
        *budget -= s->row * 4;
    }
}

/* What is stored as bf16 and needed again, rounded, by a later pass: rounding costs more than reading. */
static void stash_words(hr_stashing *s) {
    const hr_graph *graph = s->plan->graph;
    const hr_stage *stage = s->stage;
    for (int i = 0; i < graph->table_size && !hr_stash_is_full(s); i++) {
        hr_expr *node = graph->table[i];
        bool stored = false;
        if (!node || !hr_expr_is_words(node) || !s->repeats[node->id]) continue;
        for (int j = 0; j < stage->step_count; j++)
            stored = stored || (stage->steps[j].kind == HR_STEP_ELEMENT && stage->steps[j].stored &&
                                stage->steps[j].value == node->args[0]);
        if (stored) hr_stash_add(s, node, false);
    }
}

/* f32 rows that all tasks share stand wherever the caller's arrays do, mostly all at the same place of a
 * page, where the first-level cache mixes them up with the task's own row. Where there are two or more,
 * copies a thread at places of our own choice pay once there are some tens of tasks. */
static hr_status stash_copies(hr_stashing *s, const int64_t *extents) {
    enum { TASKS_LEAST = 64, SHARED_MOST = HR_STASH_MAX };
    const hr_graph *graph = s->plan->graph;
    const hr_function *function = s->plan->normal;
    const hr_stage *stage = s->stage;
    hr_expr *shared[SHARED_MOST];
    int64_t count = 0, tasks = 1, size, l1 = hr_limits_l1(&s->plan->limits);
    for (int i = 0; i < stage->task_count; i++) {
        HR_TRY(hr_extent_value(function, function->indices[stage->task[i]].extent, extents, &size));
        if (__builtin_mul_overflow(tasks, size, &tasks)) tasks = INT64_MAX;
    }
    for (int i = 0; i < graph->table_size && count < SHARED_MOST; i++) {
        hr_expr *node = graph->table[i];
        if (!node || node->op != HR_OP_ELEMENT || !s->passes[node->id]) continue;
        const hr_tensor *tensor = &function->tensors[node->tensor];
        if (tensor->dtype == HR_F32 && tensor->role == HR_ROLE_INPUT &&
            hr_varies_by_lane(&s->depends, node) && !hr_varies_by_task(&s->depends, node))
            shared[count++] = node;
    }
    bool pays = count > 1 && tasks >= TASKS_LEAST && count * s->row * 4 <= l1;
    for (int i = 0; i < count && pays && !hr_stash_is_full(s); i++)
        hr_stash_add(s, shared[i], true);
    return HR_OK;
}

hr_status hr_pass_stash(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_stashing s;
    int64_t budget = hr_limits_l1(&plan->limits) * 2 / 3;
    if (!hr_stage_is_vector(stage) || stage->contract) return HR_OK;
    if (hr_cpu_walk_of(stage)->gathered || hr_cpu_walk_of(stage)->strip)
        return HR_OK; /* its scratch memory is the order's, or a strip's */
    HR_TRY(hr_stash_begin(plan, stage, extents, &s));
    bool stays = s.row <= hr_limits_stash(&plan->limits) / STASH_BYTES;
    if (stays) hr_stash_functions(&s, NULL);
    stash_narrow(&s, true, &budget);
    stash_narrow(&s, false, &budget);
    if (stays) stash_words(&s);
    hr_status status = stage->row_count == 1 ? stash_copies(&s, extents) : HR_OK;
    hr_stash_end(&s);
    return status;
}
