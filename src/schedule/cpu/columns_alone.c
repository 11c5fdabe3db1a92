/* Column sums of a stage of nothing else. In: a stage. Out: `alone`, `strip`.
 *
 * A few tasks at a time are added up in registers, so that sums are taken up and put back once for all of
 * them. While a core's second-level cache holds the sums of all columns, each thread adds up its share of the
 * tasks, and what the threads have is combined. Longer sums would go to memory and back for every few tasks,
 * in as many copies as there are threads: then each thread takes a strip of its share of the columns through
 * all tasks, stores that, and goes on to the next.
 */
#include "base/memory.h"
#include "ir/graph.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>

/* A strip's sums take this part of the second-level cache: they stay there beside the rows that are
 * prefetched, and a row's part of a strip is some pages of memory. */
enum { STRIP_PART = 8, LINE = 64 };
/* Of a row under loops: shorter ones are better added up all together. */
enum { LANES_LEAST = 256 };

typedef enum part { PART_UNSEEN, PART_OF_TASK, PART_OF_LANE, PART_HINDERS } part;

/* What is drawn, checked or written over hinders, and what is dear and one for a task: it would be computed
 * anew for every few columns. */
static part part_of(const hr_plan *plan, const hr_stage *stage, const hr_expr *node, part *parts) {
    if (parts[node->id]) return parts[node->id];
    bool element = node->op == HR_OP_ELEMENT;
    part found = PART_OF_TASK;
    if (node->op == HR_OP_INDEX && node->index == hr_stage_lane(stage)) found = PART_OF_LANE;
    if (node->op == HR_OP_RANDOM || (element && (hr_element_is_checked(plan->normal, node) ||
                                                 hr_stage_overwrites(plan, stage, node->tensor))))
        found = PART_HINDERS;
    for (int i = 0; i < node->arg_count; i++) {
        part argument = part_of(plan, stage, node->args[i], parts);
        if (argument > found) found = argument;
    }
    if (found == PART_OF_TASK && hr_op_is_dear(node->op)) found = PART_HINDERS;
    return parts[node->id] = found;
}

hr_status hr_columns_stand_alone(const hr_plan *plan, const hr_stage *stage, bool *out) {
    *out = false;
    if (!hr_stage_is_vector(stage) || !stage->row_count || !stage->task_count) return HR_OK;
    if (!hr_stage_has_only(stage, HR_STEP_REDUCE_COLUMN)) return HR_OK;
    part *parts = hr_memory_zeros((size_t)plan->normal->expr_count + 1, sizeof *parts);
    if (!parts) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    *out = true;
    for (int i = 0; i < stage->step_count && *out; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        *out = step->value->type == HR_F32 && part_of(plan, stage, step->value, parts) != PART_HINDERS;
    }
    free(parts);
    return HR_OK;
}

hr_status hr_pass_columns_alone(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    int64_t lanes, sums = 0;
    double columns;
    bool apart;
    if (hr_stage_knobs(stage)->chunk || hr_stage_knobs(stage)->jam == 1) return HR_OK;
    HR_TRY(hr_columns_stand_alone(plan, stage, &apart));
    if (!apart) return HR_OK;
    HR_TRY(hr_function_points(plan->normal, stage->row, stage->row_count, extents, &columns));
    HR_TRY(hr_plan_points(plan, stage->row + stage->row_count - 1, 1, extents, &lanes));
    for (int i = 0; i < stage->step_count; i++)
        sums += stage->steps[i].kind == HR_STEP_REDUCE_COLUMN;
    const int64_t most = hr_limits_l2(&plan->limits) / (4 * sums), strip = most / STRIP_PART / LINE * LINE;
    bool one = stage->row_count == 1;
    if (columns > (double)most / 2 && (one || lanes >= LANES_LEAST))
        walk->partition = HR_PARTITION_COLUMNS, walk->strip = strip > LINE ? strip : LINE;
    if (walk->strip || (one && stage->task_count == 1)) walk->sums = HR_SUMS_IN_REGISTERS;
    return HR_OK;
}
