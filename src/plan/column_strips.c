/* Whether the columns of sums are shared out instead of the tasks. In: a stage. Out: `strip`.
 *
 * While a core's second-level cache holds the sums of all columns, each thread adds up its share of the
 * tasks, and what the threads have is combined. Longer sums would go to memory and back for every few tasks,
 * in as many copies as there are threads: then each thread takes a strip of its share of the columns through
 * all tasks, stores that, and goes on to the next.
 */
#include "plan/passes.h"

#include <stdlib.h>

/* A strip's sums take this part of the second-level cache: they stay there beside the rows that are asked
 * for, and a row's part of a strip is some pages of memory. */
enum { STRIP_PART = 8, LINE = 64 };
/* Of a row under loops: shorter ones are better added up all together. */
enum { LANES_LEAST = 256 };

typedef enum part { PART_UNSEEN, PART_OF_TASK, PART_OF_LANE, PART_HINDERS } part;

/* What is drawn, checked or written over hinders. */
static bool is_fixed(const hr_plan *plan, const hr_function *function, const hr_stage *stage,
                     const hr_expr *node) {
    if (node->op != HR_OP_ELEMENT) return node->op != HR_OP_RANDOM;
    if (hr_element_is_checked(function, node)) return false;
    for (int i = 0; i < stage->step_count; i++) {
        int made = function->statements[stage->steps[i].statement].tensor;
        if (plan->storage[made] == plan->storage[node->tensor]) return false;
    }
    return true;
}

/* So does what is dear and one for a task: strips would compute it anew for every few columns. */
static part part_of(const hr_plan *plan, const hr_function *function, const hr_stage *stage,
                    const hr_expr *node, part *parts) {
    if (parts[node->id]) return parts[node->id];
    hr_special special = hr_op_info_of(node->op)->special;
    bool lane = node->op == HR_OP_INDEX && node->index == stage->row[stage->row_count - 1];
    part found = !is_fixed(plan, function, stage, node) ? PART_HINDERS : lane ? PART_OF_LANE : PART_OF_TASK;
    for (int i = 0; i < node->arg_count; i++) {
        part argument = part_of(plan, function, stage, node->args[i], parts);
        if (argument > found) found = argument;
    }
    if (found == PART_OF_TASK && special != HR_SPECIAL_NONE && special != HR_SPECIAL_ROOT)
        found = PART_HINDERS;
    return parts[node->id] = found;
}

static hr_status can_strip(const hr_plan *plan, const hr_function *function, const hr_stage *stage,
                           bool *out) {
    *out = false;
    if (!stage->vector || !stage->row_count || !stage->task_count) return HR_OK;
    if (!hr_stage_has_only(stage, HR_STEP_REDUCE_COLUMN)) return HR_OK;
    part *parts = calloc((size_t)function->expr_count + 1, sizeof *parts);
    if (!parts) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    *out = true;
    for (int i = 0; i < stage->step_count && *out; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        *out =
            step->value->type == HR_F32 && part_of(plan, function, stage, step->value, parts) != PART_HINDERS;
    }
    free(parts);
    return HR_OK;
}

hr_status hr_pass_column_strips(hr_graph *graph, const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    const hr_function *function = graph->function;
    int64_t lanes = 1, sums = 0;
    double columns = 1;
    bool can;
    if (plan->limits.compute || plan->tunables.chunk || plan->tunables.group == 1) return HR_OK;
    HR_TRY(can_strip(plan, function, stage, &can));
    if (!can) return HR_OK;
    for (int i = 0; i < stage->row_count; i++) {
        HR_TRY(hr_extent_value(function, function->indices[stage->row[i]].extent, extents, &lanes));
        columns *= (double)lanes;
    }
    for (int i = 0; i < stage->step_count; i++)
        sums += stage->steps[i].kind == HR_STEP_REDUCE_COLUMN;
    const int64_t most = hr_limits_l2(&plan->limits) / (4 * sums), strip = most / STRIP_PART / LINE * LINE;
    if (stage->row_count > 1 && lanes < LANES_LEAST) return HR_OK;
    if (columns > (double)most / 2) stage->strip = strip > LINE ? strip : LINE;
    return HR_OK;
}
