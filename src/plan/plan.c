/* The planner: the list of its passes. In: a checked function. Out: a plan. */
#include "base/memory.h"
#include "plan/assumption.h"
#include "plan/passes.h"

#include <string.h>

/* A graph may fill a quarter of the arena; what a stage and its printing take may grow with the whole graph.
 */
enum { PLAN_ARENA = HR_PLAN_RESERVE + (64 << 20), STAGES_TIMES_NODES = 8000000, INDICES_MAX = 4096 };

static hr_status check_sizes(const hr_function *function) {
    for (int t = 0; t < function->tensor_count; t++)
        if (function->tensors[t].rank > HR_AXES_MAX)
            return hr_fail(HR_BAD_INPUT, "%.60s has %d axes; at most %d can be planned",
                           function->tensors[t].name, function->tensors[t].rank, HR_AXES_MAX);
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].domain_count > HR_AXES_MAX)
            return hr_fail(HR_BAD_INPUT, "line %d: a statement over %d indices; at most %d can be planned",
                           function->statements[s].place.line, function->statements[s].domain_count,
                           HR_AXES_MAX);
    if (function->index_count > INDICES_MAX)
        return hr_fail(HR_BAD_INPUT, "kernel %.60s has more than %d indices: split it", function->name,
                       INDICES_MAX);
    return HR_OK;
}

static hr_status check_stages(const hr_graph *graph, const hr_plan *plan) {
    const hr_function *normal = graph->function;
    double nodes = (double)normal->expr_count + normal->tensor_count;
    return plan->stage_count * nodes > STAGES_TIMES_NODES ? hr_graph_too_large(graph) : HR_OK;
}

/* What is rounded to 16 bits before it is kept takes 16 bits. */
static void narrow_locals(hr_graph *graph, const hr_plan *plan) {
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count; s++) {
        const hr_statement *statement = &function->statements[s];
        hr_tensor *tensor = &function->tensors[statement->tensor];
        const bool local =
            tensor->role == HR_ROLE_LOCAL && graph->storage[statement->tensor] == statement->tensor;
        if (local && plan->materialised[statement->tensor] && statement->store == HR_STORE_WHOLE &&
            hr_statement_is_half(statement))
            tensor->dtype = statement->value->dtype;
    }
}

static hr_status group_once(hr_graph *graph, const int64_t *extents, hr_plan *plan, bool unfused) {
    plan->stage_count = 0;
    HR_TRY(hr_pass_group(graph, extents, plan, unfused));
    HR_TRY(hr_pass_materialise(graph, plan));
    if (!unfused) narrow_locals(graph, plan);
    return HR_OK;
}

/* Stages, and once more where locals that they would keep are better made anew. */
static hr_status group(hr_graph *graph, const int64_t *extents, hr_plan *plan, bool unfused) {
    bool again = false;
    HR_TRY(group_once(graph, extents, plan, unfused));
    if (!unfused) HR_TRY(hr_pass_recompute(graph, extents, plan, &again));
    return again ? group_once(graph, extents, plan, false) : HR_OK;
}

/* What is done to statements before they meet in stages. */
static hr_status rewrite(hr_graph *graph, const int64_t *extents, hr_plan *plan) {
    const unsigned products = plan->facts.set & (HR_FACT_BYTE_PRODUCTS | HR_FACT_ROWS_CHOOSE |
                                                 HR_FACT_FEW_QUERIES | HR_FACT_ROWS_KEPT);
    const bool again = !graph->any_extents && hr_plan_knows(plan, HR_FACT_SCORES_AGAIN);
    const int guess = plan->facts.guess_bytes;
    if (hr_plan_knows(plan, HR_FACT_AXES_SPLIT)) HR_TRY(hr_pass_split_axes(graph, extents, plan));
    HR_TRY(hr_pass_unify(graph));
    HR_TRY(hr_pass_operands(graph, extents, products));
    HR_TRY(hr_pass_masked_rows(graph, plan));
    if (again) HR_TRY(hr_pass_scores_again(graph, extents, plan));
    HR_TRY(hr_pass_long_columns(graph, extents, plan));
    if (hr_plan_knows(plan, HR_FACT_COLUMN_POSITIONS)) HR_TRY(hr_pass_positions(graph, extents));
    if (hr_plan_knows(plan, HR_FACT_COLUMNS_ONCE)) HR_TRY(hr_pass_once_a_column(graph, extents));
    if (guess) HR_TRY(hr_pass_first_guess(graph, extents, guess));
    if (guess) HR_TRY(hr_pass_column_guess(graph, extents));
    if (hr_plan_knows(plan, HR_FACT_PARTIAL_SUMS)) HR_TRY(hr_pass_partial_sums(graph, extents, plan));
    return hr_plan_knows(plan, HR_FACT_BACKWARD_JOINED) ? hr_pass_rows_first(graph, plan) : HR_OK;
}

static hr_status plan_passes(hr_graph *graph, const int64_t *extents, hr_plan *plan, bool unfused) {
    HR_TRY(hr_pass_normalise(graph, unfused ? NULL : extents));
    HR_TRY(hr_pass_guards(graph, extents));
    HR_TRY(unfused ? hr_pass_unify(graph) : rewrite(graph, extents, plan));
    HR_TRY(group(graph, extents, plan, unfused));
    HR_TRY(check_stages(graph, plan));
    plan->normal = graph->function;
    HR_TRY(hr_pass_values(graph, plan));
    if (unfused) return HR_OK;
    if (hr_plan_knows(plan, HR_FACT_BYTE_DOTS)) HR_TRY(hr_pass_dots(graph, plan));
    if (hr_plan_knows(plan, HR_FACT_BACKWARD_JOINED)) hr_pass_backward(plan);
    return hr_pass_regions(graph, plan);
}

hr_status hr_plan_create(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                         const hr_device_limits *limits, const hr_facts *facts, bool unfused, hr_plan **out) {
    const long before = hr_memory_wants();
    HR_TRY(check_sizes(function));
    hr_arena *arena;
    HR_TRY(hr_arena_create(PLAN_ARENA, &arena));
    int declared = hr_function_arguments(function);
    hr_plan *plan = hr_arena_alloc(arena, sizeof *plan);
    hr_layout *kept = hr_arena_alloc(arena, (size_t)(declared + 1) * sizeof *kept);
    if (layouts && declared) memcpy(kept, layouts, (size_t)declared * sizeof *kept);
    *plan =
        (hr_plan){.source = function, .layouts = kept, .limits = *limits, .facts = *facts, .arena = arena};
    const int64_t *fixed =
        unfused ? NULL
                : hr_short_axes(function, extents, (facts->set & HR_FACT_AXES_WRITTEN_OUT) != 0, arena);
    hr_graph *graph = hr_graph_create_fixed(function, fixed, arena);
    plan->graph = graph;
    graph->rows_written = !unfused && hr_plan_knows(plan, HR_FACT_AXES_WRITTEN_OUT);
    graph->any_extents = hr_plan_knows(plan, HR_FACT_ANY_EXTENTS);
    hr_assume_fixed(graph);
    hr_status status = plan_passes(graph, extents, plan, unfused);
    const hr_status memory = hr_memory_status(before, "planning a kernel");
    if (memory != HR_OK) status = memory; /* a graph without memory counts as full */
    if (status != HR_OK) {
        hr_arena_destroy(arena);
        return status;
    }
    *out = plan;
    return HR_OK;
}

void hr_plan_destroy(hr_plan *plan) {
    if (plan) hr_arena_destroy(plan->arena);
}
