/* Locals that are read beside the element in hand: rope's other half of a row that was normalised before; and
 * those that are operands of products: weights that are scaled. In: a graph whose statements are maps,
 * reductions and scatters. Out: the same, where such an element of a cheap local is what the local is made
 * from.
 *
 * Read as a local, it would have to be in memory before: a stage of its own, one write and one read of the
 * whole tensor for a few operations.
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MOST = 24, DEPTH_MOST = 8, REWRITTEN_MOST = 4096 };

typedef struct inlining {
    hr_graph *graph;
    int *maker; /* tensor -> the statement that a local may be replaced by, else -1 */
    bool all;   /* every element of such a local is replaced, not those beside the one in hand alone */
    const bool *products;  /* then: in these statements alone, or NULL = in all */
    const bool *elsewhere; /* by tensor: it is in memory anyway; NULL = none is */
    const bool *chosen;    /* by tensor: such locals alone, or NULL = all that are cheap */
    int budget;            /* nodes still to be visited, of all statements */
} inlining;

/* ---- which locals are cheap ---- */

/* Nodes, as often as they are computed anew; more than there may be where that would cost or change
 * something. A product evaluates each element of an operand about once, and compares as often. */
static int cost(const inlining *s, const hr_expr *node) {
    const hr_function *function = s->graph->function;
    int nodes = 1;
    if (hr_op_is_dear(node->op)) return NODES_MOST + 1;
    if (node->op == HR_OP_ELEMENT && ((!s->products && hr_element_is_checked(function, node)) ||
                                      function->tensors[node->tensor].role == HR_ROLE_INOUT))
        return NODES_MOST + 1;
    for (int i = 0; i < node->arg_count && nodes <= NODES_MOST; i++)
        nodes += cost(s, node->args[i]);
    return nodes;
}

static bool is_cheap(const inlining *s, const hr_statement *statement) {
    const int tensor = statement->tensor;
    bool local =
        s->graph->function->tensors[tensor].role == HR_ROLE_LOCAL && s->graph->storage[tensor] == tensor;
    return local && !(s->elsewhere && s->elsewhere[tensor]) && (!s->chosen || s->chosen[tensor]) &&
           statement->store == HR_STORE_WHOLE && !hr_op_is_reduction(statement->value->op) &&
           !hr_op_is_scan(statement->value->op) && cost(s, statement->value) <= NODES_MOST;
}

/* ---- elements that are what they are made from ---- */

/* An element that stands at that index alone: there a place beyond the axis is noticed. */
static hr_visit stands_at(const hr_expr *node, const void *index) {
    for (int a = 0; a < node->arg_count && node->op == HR_OP_ELEMENT; a++)
        if (node->args[a]->op == HR_OP_INDEX && node->args[a]->index == *(const int *)index)
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

/* Every place that the element's condition keeps on its axes, or does not, is one in what it is made from. */
static bool keeps_checks(const hr_statement *maker) {
    for (int i = 0; i < maker->domain_count; i++)
        if (!hr_expr_find(maker->value, stands_at, &maker->domain[i])) return false;
    return true;
}

/* Not at indices alone, and not where data say. */
static bool is_inlined(const inlining *s, const hr_expr *element) {
    const hr_function *function = s->graph->function;
    int maker = s->maker[element->tensor];
    bool plain = true;
    for (int a = 0; a < function->tensors[element->tensor].rank; a++) {
        if (!hr_expr_is_affine(element->args[a])) return false;
        plain = plain && element->args[a]->op == HR_OP_INDEX;
    }
    return maker >= 0 && (s->all ? function->tensors[element->tensor].rank > 1 : !plain) &&
           (!hr_element_is_guarded(function, element) || keeps_checks(&function->statements[maker]));
}

typedef struct guarding {
    hr_graph *graph;
    hr_expr *guard;
} guarding;

static hr_expr *with_guard(void *context, const hr_expr *node, hr_expr *const *args) {
    const guarding *g = context;
    hr_expr *all[HR_AXES_MAX + 2];
    if (node->op != HR_OP_ELEMENT || !node->arg_count || node->arg_count > HR_AXES_MAX)
        return hr_graph_with_args(g->graph, node, args);
    memcpy(all, args, (size_t)node->arg_count * sizeof *all);
    all[node->arg_count] = g->guard;
    return hr_graph_element(g->graph, node->tensor, node->arg_count + 1, all);
}

/* Its elements are read where the guard says. */
static hr_expr *guarded(hr_graph *graph, hr_expr *expr, hr_expr *guard) {
    guarding g = {graph, guard};
    hr_rewriting rewriting = {.graph = graph, .after = with_guard, .context = &g};
    hr_expr *value = hr_rewriting_of(&rewriting, expr);
    hr_rewriting_end(&rewriting);
    return value;
}

static hr_expr *rewrite(inlining *s, hr_expr *node, int depth);

/* The local's value at the element's place. The place was checked on the local's axes; on those of what it is
 * made from, which are as long, it is checked where it was. */
static hr_expr *made_at(inlining *s, hr_expr *element, int depth) {
    const hr_statement *maker = &s->graph->function->statements[s->maker[element->tensor]];
    int rank = maker->domain_count;
    hr_expr *value = hr_graph_substitute(s->graph, maker->value, rank, maker->domain, element->args);
    if (hr_element_is_guarded(s->graph->function, element))
        value = guarded(s->graph, value, element->args[rank]);
    value = hr_graph_round(s->graph, s->graph->function->tensors[element->tensor].dtype, value);
    return rewrite(s, value, depth + 1);
}

static hr_expr *rewrite(inlining *s, hr_expr *node, int depth) {
    hr_expr *args[HR_AXES_MAX + 2];
    if (!node->arg_count || s->graph->full || --s->budget < 0) return node;
    for (int i = 0; i < node->arg_count; i++)
        args[i] = rewrite(s, node->args[i], depth);
    hr_expr *result = hr_graph_with_args(s->graph, node, args);
    if (result->op != HR_OP_ELEMENT || depth >= DEPTH_MOST) return result;
    return is_inlined(s, result) ? made_at(s, result, depth) : result;
}

/* Whether some element of a local that could be inlined is read beside the element in hand. */
static hr_visit asks(void *context, const hr_expr *node) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && is_inlined(context, node));
}

static bool is_rewritten(const inlining *s, int statement) {
    return !s->products || s->products[statement];
}

/* What a product's kernel sums over neighbours reads them, too. */
static void rewrite_partial(inlining *s, int tensor) {
    const hr_partial *partial = hr_partial_of(s->graph, tensor);
    if (!partial || s->graph->full) return;
    hr_partial *made = hr_arena_alloc(s->graph->arena, sizeof *made);
    *made = (hr_partial){tensor, rewrite(s, partial->body, 0), s->graph->partials};
    s->graph->partials = made;
}

/* Whether anything was read so. */
static bool inline_locals(inlining s) {
    hr_graph *graph = s.graph;
    hr_function *function = graph->function;
    s.budget = REWRITTEN_MOST;
    s.maker = hr_memory_take(((size_t)function->tensor_count + 1) * sizeof *s.maker);
    hr_walk walk = {.enter = asks, .context = &s};
    for (int t = 0; t < function->tensor_count && s.maker; t++)
        s.maker[t] = -1;
    bool any = false;
    for (int i = 0; i < function->statement_count && s.maker; i++) {
        const hr_statement *statement = &function->statements[i];
        if (is_rewritten(&s, i) && hr_walk_through(&walk, statement->value)) {
            any = true;
            break;
        }
        if (is_cheap(&s, statement)) s.maker[statement->tensor] = i;
    }
    for (int i = 0; i < function->statement_count && any; i++) {
        hr_statement *statement = &function->statements[i];
        if (is_cheap(&s, statement)) s.maker[statement->tensor] = i;
        if (!is_rewritten(&s, i)) continue;
        hr_expr *value = rewrite(&s, statement->value, 0);
        function->statements[i].value = value;
        rewrite_partial(&s, function->statements[i].tensor);
    }
    if (!s.maker) graph->full = true;
    free(s.maker);
    hr_walk_end(&walk);
    return any;
}

void hr_graph_inline_shifted(hr_graph *graph) {
    inline_locals((inlining){.graph = graph});
}

bool hr_graph_inline_chosen(hr_graph *graph, const bool *chosen) {
    return inline_locals((inlining){.graph = graph, .all = true, .chosen = chosen});
}

/* ---- operands of products ---- */

/* Which tensors are read by more than products and what becomes a part of those; readers come after what they
 * read. */
static void find_elsewhere(const inlining *s, bool *elsewhere) {
    const hr_function *function = s->graph->function;
    for (int i = function->statement_count - 1; i >= 0; i--) {
        const hr_statement *statement = &function->statements[i];
        if (s->products[i] || is_cheap(s, statement)) continue;
        hr_expr_mark_read(statement->value, elsewhere);
        for (int a = 0; a < statement->subscript_count; a++)
            hr_expr_mark_read(statement->subscripts[a], elsewhere);
    }
}

/* A local in 16 bits is kept where a product makes it, or several products take it: made anew as an operand
 * it would be read in f32, or made several times. */
static void find_kept(const inlining *s, bool *elsewhere) {
    const hr_function *function = s->graph->function;
    for (int i = 0; i < function->statement_count; i++) {
        const hr_statement *statement = &function->statements[i];
        if (!hr_statement_is_half(statement)) continue;
        int takers = 0;
        bool made = false;
        for (int j = 0; j < function->statement_count; j++) {
            if (!s->products[j]) continue;
            takers += hr_expr_reads(function->statements[j].value, statement->tensor);
            made = made || hr_expr_reads(statement->value, function->statements[j].tensor);
        }
        if (made || takers > 1) elsewhere[statement->tensor] = true;
    }
}

hr_status hr_graph_inline_cheap(hr_graph *graph, unsigned facts) {
    const hr_function *function = graph->function;
    bool *products = hr_memory_zeros((size_t)function->statement_count + 1, sizeof *products),
         *kept = hr_memory_zeros((size_t)function->tensor_count + 1, sizeof *kept);
    const bool there = products && kept;
    hr_contract contract;
    for (int i = 0; there && i < function->statement_count; i++)
        products[i] = hr_contract_match(graph, &function->statements[i], facts, &contract);
    if (there) find_kept(&(inlining){.graph = graph, .products = products}, kept);
    if (there) inline_locals((inlining){.graph = graph, .all = true, .elsewhere = kept});
    free(products);
    free(kept);
    return there ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
}

static bool rounds(const hr_graph *graph, int tensor) {
    for (int i = 0; i < graph->function->statement_count; i++)
        if (graph->function->statements[i].tensor == tensor)
            return hr_statement_is_half(&graph->function->statements[i]);
    return false;
}

/* The product that sums over what are this one's columns: these are scores. NULL = none does. */
static const hr_contract *sum_over(const inlining *s, const hr_contract *contracts,
                                   const hr_contract *scores) {
    for (int i = 0; i < s->graph->function->statement_count; i++)
        if (s->products[i] && contracts[i].k_count == 1 && scores->n_count == 1 &&
            contracts[i].k[0] == scores->n[0])
            return &contracts[i];
    return NULL;
}

/* Where softmax between products is one kernel, queries, keys and values that are rounded to 16 bits are
 * brought as such: they are made once, before it. */
static void keep_rounded(const inlining *s, const hr_contract *contracts, const hr_contract *scores,
                         bool *elsewhere) {
    const hr_contract *values = sum_over(s, contracts, scores);
    if (!values) return;
    const hr_expr *sides[] = {scores->left, scores->right, hr_expr_within(values->right)};
    for (int side = 0; side < 3; side++)
        if (sides[side]->op == HR_OP_ELEMENT && rounds(s->graph, sides[side]->tensor))
            elsewhere[sides[side]->tensor] = true;
}

hr_status hr_pass_operands(hr_graph *graph, const int64_t *extents, unsigned facts) {
    const hr_function *function = graph->function;
    const size_t statements = (size_t)function->statement_count + 1,
                 tensors = (size_t)function->tensor_count + 1;
    bool *products = hr_memory_zeros(statements, sizeof *products),
         *elsewhere = hr_memory_zeros(tensors, sizeof *elsewhere);
    hr_contract *contracts = hr_memory_zeros(statements, sizeof *contracts);
    const bool there = products && elsewhere && contracts;
    for (int i = 0; there && i < function->statement_count; i++)
        products[i] = hr_contract_match(graph, &function->statements[i], facts, &contracts[i]);
    bool any = false;
    if (there) {
        inlining s = {.graph = graph, .all = true, .products = products, .elsewhere = elsewhere};
        find_elsewhere(&s, elsewhere);
        find_kept(&s, elsewhere);
        for (int i = 0; (facts & HR_FACT_FEW_QUERIES) && i < function->statement_count; i++)
            if (products[i]) keep_rounded(&s, contracts, &contracts[i], elsewhere);
        for (int t = 0; (facts & HR_FACT_ROWS_KEPT) && t < function->tensor_count; t++)
            for (int i = 0; i < function->statement_count && !elsewhere[t]; i++)
                elsewhere[t] = products[i] && hr_operand_is_kept(function, extents, &contracts[i], t);
        any = inline_locals(s);
    }
    free(products);
    free(elsewhere);
    free(contracts);
    if (!there) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    if (any && !graph->full) hr_graph_drop_unread(graph);
    return hr_graph_status(graph);
}
