/* Locals that cost less to compute again than to keep: x[m, n] - mean[m], which a row's stage makes, and a
 * later stage would read. In: a graph and the stages that its statements were gathered into. Out: the same,
 * where whoever reads such a local makes it anew; and whether there was one: then the stages are gathered
 * again.
 *
 * Kept, the local is written once and read by each later stage. Made anew, what it is made from is read by
 * each of them instead.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct readers {
    int last;  /* stage that was seen to read it, -1 = none yet */
    int count; /* stages but for its own */
    int most;  /* indices of a statement that reads it: of more than its own it would be made for each of them
                */
} readers;

/* ---- what is read ---- */

typedef struct stage_reading {
    const int *stage_of; /* a tensor -> the stage that makes it, -1 = none */
    readers *of;         /* by tensor */
    int stage, indices;  /* of the statement in hand */
} stage_reading;

static hr_visit note_reader(void *context, const hr_expr *node) {
    const stage_reading *r = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    readers *of = &r->of[node->tensor];
    if (r->indices > of->most) of->most = r->indices;
    if (r->stage_of[node->tensor] == r->stage || of->last == r->stage) return HR_VISIT_ON;
    of->last = r->stage;
    of->count++;
    return HR_VISIT_ON;
}

static void find_readers(const hr_graph *graph, const hr_plan *plan, int *stage_of, readers *of) {
    const hr_function *function = graph->function;
    for (int t = 0; t < function->tensor_count; t++) {
        stage_of[t] = of[t].last = -1;
        of[t].count = of[t].most = 0;
    }
    for (int i = 0; i < plan->stage_count; i++)
        for (int j = 0; j < plan->stages[i].step_count; j++)
            stage_of[function->statements[plan->stages[i].steps[j].statement].tensor] = i;
    for (int i = 0; i < plan->stage_count; i++) {
        for (int j = 0; j < plan->stages[i].step_count; j++) {
            const hr_statement *statement = &function->statements[plan->stages[i].steps[j].statement];
            stage_reading r = {stage_of, of, i, statement->domain_count};
            hr_expr_visit(statement->value, note_reader, &r);
        }
    }
}

/* ---- what it costs ---- */

typedef struct sources {
    const hr_graph *graph;
    const hr_plan *plan;
    const hr_statement *maker;
    int bytes;  /* of an element: what is as large as the local */
    bool there; /* all of it is in memory anyway */
} sources;

static bool is_as_large(const hr_statement *maker, const hr_expr *element) {
    for (int i = 0; i < maker->domain_count; i++) {
        bool has = false;
        for (int a = 0; a < element->arg_count; a++)
            has = has || hr_expr_has_index(element->args[a], maker->domain[i]);
        if (!has) return false;
    }
    return true;
}

static hr_visit note_source(void *context, const hr_expr *node) {
    sources *s = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_tensor *tensor = &s->graph->function->tensors[node->tensor];
    const bool local = tensor->role == HR_ROLE_LOCAL;
    if (!is_as_large(s->maker, node)) return HR_VISIT_ON;
    if (local && !s->plan->materialised[node->tensor]) s->there = false;
    s->bytes += (int)hr_dtype_size(tensor->dtype);
    return HR_VISIT_ON;
}

static bool costs_less(const hr_graph *graph, const hr_plan *plan, const hr_statement *maker, int readers) {
    sources s = {.graph = graph, .plan = plan, .maker = maker, .there = true};
    hr_expr_visit(maker->value, note_source, &s);
    const int own = (int)hr_dtype_size(graph->function->tensors[maker->tensor].dtype);
    return s.there && s.bytes * readers <= own * (1 + readers);
}

static bool is_element_of(const hr_expr *operand, int tensor) {
    return operand->op == HR_OP_ELEMENT && operand->tensor == tensor;
}

/* Queries, keys or values of attention, which one kernel brings as they lie: a product sums over the columns
 * of another one. */
static bool is_brought(const hr_graph *graph, const hr_plan *plan, int tensor) {
    if (!hr_plan_knows(plan, HR_FACT_FEW_QUERIES) ||
        hr_dtype_size(graph->function->tensors[tensor].dtype) > 2)
        return false;
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_contract *scores = plan->stages[i].contract;
        if (!scores || scores->n_count != 1) continue;
        for (int j = i + 1; j < plan->stage_count; j++) {
            const hr_contract *values = plan->stages[j].contract;
            if (values && values->k_count == 1 && values->k[0] == scores->n[0] &&
                (is_element_of(scores->left, tensor) || is_element_of(scores->right, tensor) ||
                 is_element_of(hr_expr_within(values->right), tensor)))
                return true;
        }
    }
    return false;
}

/* Rows that the stage which normalises them has in hand, as a product takes them. */
static bool is_kept(const hr_function *function, const hr_plan *plan, const int64_t *extents, int tensor) {
    bool kept = false;
    for (int i = 0; hr_plan_knows(plan, HR_FACT_ROWS_KEPT) && i < plan->stage_count && !kept; i++)
        kept = plan->stages[i].contract &&
               hr_operand_is_kept(function, extents, plan->stages[i].contract, tensor);
    return kept;
}

hr_status hr_pass_recompute(hr_graph *graph, const int64_t *extents, const hr_plan *plan, bool *any) {
    const hr_function *function = graph->function;
    const size_t tensors = (size_t)function->tensor_count + 1;
    int *stage_of = hr_memory_take(tensors * sizeof *stage_of);
    readers *of = hr_memory_take(tensors * sizeof *of);
    bool *again = hr_memory_zeros(tensors, sizeof *again);
    const bool there = stage_of && of && again;
    *any = false;
    if (there) {
        find_readers(graph, plan, stage_of, of);
        for (int s = 0; s < function->statement_count; s++) {
            const hr_statement *maker = &function->statements[s];
            const int count = of[maker->tensor].count;
            again[maker->tensor] =
                plan->materialised[maker->tensor] && count && maker->domain_count > 1 &&
                of[maker->tensor].most <= maker->domain_count && !is_brought(graph, plan, maker->tensor) &&
                !is_kept(function, plan, extents, maker->tensor) && costs_less(graph, plan, maker, count);
        }
        *any = hr_graph_inline_chosen(graph, again);
    }
    free(stage_of);
    free(of);
    free(again);
    if (!there) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    if (*any && !graph->full) hr_graph_drop_unread(graph);
    return hr_graph_status(graph);
}
