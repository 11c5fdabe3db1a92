/* Whether a scatter takes its tasks in the order of the rows that they add to. In: a stage. Out: `ordered`.
 *
 * In the order of the tasks a row that several of them add to comes from memory and goes back each time, and
 * which one is next is known too late to ask for it. Putting the tasks in order costs about 15 ns each, which
 * pays where rows are long and the tensor is larger than the second-level cache.
 */
#include "base/dtype.h"
#include "plan/passes.h"

#include <stdlib.h>

enum { ROW_BYTES = 1024 };

/* A check, or the index, is among what the node is made of; nodes that were visited are not asked again. */
static bool hinders(const hr_function *function, const hr_expr *node, int index, bool *visited) {
    if (visited[node->id]) return false;
    visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT && hr_element_is_checked(function, node)) return true;
    if (node->op == HR_OP_INDEX && node->index == index) return true;
    for (int i = 0; i < node->arg_count; i++)
        if (hinders(function, node->args[i], index, visited)) return true;
    return false;
}

/* Tasks of one index that each add to a whole row. Nothing but where the row is may need a check: faults are
 * told in the order of the tasks. */
static bool adds_rows(const hr_function *function, const hr_stage *stage, bool *visited) {
    if (!stage->step_count || stage->steps[0].kind != HR_STEP_SCATTER) return false;
    const hr_statement *statement = &function->statements[stage->steps[0].statement];
    int rank = statement->subscript_count;
    if (stage->task_count != 1 || stage->row_count != 1 || rank < 2) return false;
    const hr_expr *last = statement->subscripts[rank - 1];
    if (last->op != HR_OP_INDEX || last->index != stage->row[0]) return false;
    for (int a = 0; a < rank - 1; a++)
        if (hinders(function, statement->subscripts[a], stage->row[0], visited)) return false;
    return !hinders(function, stage->steps[0].value, -1, visited);
}

hr_status hr_pass_scatter_order(hr_graph *graph, const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    const hr_function *function = graph->function;
    int choice = plan->tunables.skew;
    if (choice == 1 || plan->limits.compute) return HR_OK;
    bool *visited = calloc((size_t)function->expr_count + 1, sizeof *visited);
    if (!visited) return hr_fail(HR_OUT_OF_MEMORY, "no memory to plan kernel %.60s", plan->source->name);
    bool rows = adds_rows(function, stage, visited);
    free(visited);
    if (!rows) return HR_OK;
    const hr_tensor *tensor = &function->tensors[function->statements[stage->steps[0].statement].tensor];
    int64_t row = 0, bytes = (int64_t)hr_dtype_size(tensor->dtype);
    for (int a = tensor->rank - 1; a >= 0; a--) {
        int64_t size;
        HR_TRY(hr_extent_value(function, tensor->shape[a], extents, &size));
        if (__builtin_mul_overflow(bytes, size, &bytes))
            return hr_fail(HR_BAD_INPUT, "extents are too large");
        if (a == tensor->rank - 1) row = bytes;
    }
    stage->ordered = choice == 2 || (row >= ROW_BYTES && bytes > hr_limits_l2(&plan->limits));
    return HR_OK;
}
