/* Forward mode: what the results change by when the parameters do, from the same rules. In: a function. Out:
 * a kernel that takes a tangent a parameter and gives one a result.
 *
 * It checks the backward pass without a step size: <dy, J v> must be <J' dy, v>.
 */
#include "grad/derivation.h"
#include "grad/slope.h"
#include "ir/types.h"

enum { TERMS_MOST = 6 }; /* of a node before they are taken together */

typedef struct tangents {
    hr_derivation *derivation;
    hr_terms *of; /* a node of the source -> what it changes by */
    int *tensors; /* a tensor of the source -> the one that holds its tangent, -1 = it does not change */
} tangents;

static hr_expr *value_of(const tangents *t, const hr_expr *node) {
    return hr_primal_of(t->derivation, node);
}

static hr_terms of_element(const tangents *t, const hr_expr *node) {
    hr_expr *subscripts[HR_RANK_MAX];
    const int tensor = t->tensors[node->tensor];
    if (tensor < 0) return (hr_terms){0};
    for (int a = 0; a < node->arg_count; a++)
        subscripts[a] = value_of(t, node->args[a]);
    return hr_terms_of(t->derivation->algebra,
                       hr_graph_element(t->derivation->graph, tensor, node->arg_count, subscripts));
}

static hr_terms of_function(const tangents *t, const hr_expr *node) {
    hr_algebra *algebra = t->derivation->algebra;
    hr_terms all = {0};
    hr_expr *args[HR_ARGS_MOST];
    for (int i = 0; i < node->arg_count; i++)
        args[i] = value_of(t, node->args[i]);
    for (int i = 0; i < node->arg_count; i++) {
        const hr_terms arg = t->of[node->args[i]->id];
        hr_expr *slope = arg.count ? hr_slope(algebra, node->op, i, args, value_of(t, node)) : NULL;
        if (slope) all = hr_terms_add(algebra, all, hr_terms_times(algebra, arg, slope));
    }
    return all;
}

static hr_terms of_reduction(const tangents *t, const hr_expr *node) {
    hr_algebra *algebra = t->derivation->algebra;
    const hr_index_set bound = hr_bound_indices(t->derivation, node);
    hr_terms body = t->of[node->args[0]->id];
    if (node->op == HR_OP_REDUCE_MAX || node->op == HR_OP_REDUCE_MIN)
        body = hr_terms_guard(algebra, body, hr_extreme_condition(t->derivation, node));
    if (node->op == HR_OP_REDUCE_LOGSUMEXP)
        body = hr_terms_times(algebra, body,
                              hr_primal_exponential(algebra, value_of(t, node->args[0]), value_of(t, node)));
    if (node->op == HR_OP_REDUCE_PROD)
        body = hr_terms_times(algebra, body, hr_product_of_others(t->derivation, node));
    body = hr_terms_over(algebra, body, bound);
    return node->op == HR_OP_REDUCE_MEAN ? hr_terms_divide(algebra, body, hr_make_points(algebra, bound))
                                         : body;
}

/* p * (t - sum(p * t)) */
static hr_terms of_softmax(const tangents *t, const hr_expr *node) {
    hr_algebra *algebra = t->derivation->algebra;
    hr_expr *p = value_of(t, node);
    const hr_terms body = hr_terms_joined(algebra, t->of[node->args[0]->id]);
    const hr_terms along =
        hr_terms_over(algebra, hr_terms_times(algebra, body, p), hr_bound_indices(t->derivation, node));
    const hr_terms apart = hr_terms_add(algebra, body, hr_terms_negate(algebra, along));
    return hr_terms_times(algebra, hr_terms_joined(algebra, apart), p);
}

/* The same recurrence of what is added, and of the factor's tangent times what stood before. */
static hr_terms of_scan(const tangents *t, const hr_expr *node) {
    hr_algebra *algebra = t->derivation->algebra;
    const hr_terms a = t->of[node->args[0]->id], b = t->of[node->args[1]->id],
                   start = t->of[node->args[2]->id];
    if (!a.count && !b.count && !start.count) return (hr_terms){0};
    hr_terms rest = b;
    if (a.count)
        rest = hr_terms_add(algebra, rest, hr_terms_times(algebra, a, hr_scan_before(t->derivation, node)));
    hr_expr *zero = hr_make_number(algebra, 0);
    hr_expr *args[] = {value_of(t, node->args[0]), rest.count ? hr_terms_compose(algebra, rest) : zero,
                       start.count ? hr_terms_compose(algebra, start) : zero};
    return hr_terms_of(algebra, hr_make_scan(algebra, node->op, hr_scan_along(t->derivation, node), args));
}

static hr_terms of_node(const tangents *t, const hr_expr *node) {
    hr_algebra *algebra = t->derivation->algebra;
    const hr_terms a = node->arg_count > 0 ? t->of[node->args[0]->id] : (hr_terms){0};
    const hr_terms b = node->arg_count > 1 ? t->of[node->args[1]->id] : (hr_terms){0};
    switch (node->op) {
    case HR_OP_ADD:
        return hr_terms_add(algebra, a, b);
    case HR_OP_SUB:
        return hr_terms_add(algebra, a, hr_terms_negate(algebra, b));
    case HR_OP_MUL:
        return hr_terms_add(algebra, hr_terms_times(algebra, a, value_of(t, node->args[1])),
                            hr_terms_times(algebra, b, value_of(t, node->args[0])));
    case HR_OP_CONVERT:
        return a;
    case HR_OP_WHERE: {
        hr_expr *condition = value_of(t, node->args[0]);
        return hr_terms_add(
            algebra, hr_terms_guard(algebra, b, condition),
            hr_terms_guard(algebra, t->of[node->args[2]->id], hr_make_not(algebra, condition)));
    }
    case HR_OP_SOFTMAX:
        return a.count ? of_softmax(t, node) : a;
    case HR_OP_SCAN:
    case HR_OP_SCAN_BACK:
        return of_scan(t, node);
    default:
        if (!hr_op_passes_gradient(node->op)) return (hr_terms){0};
        if (hr_op_is_reduction(node->op)) return a.count ? of_reduction(t, node) : a;
        return of_function(t, node);
    }
}

static void note(tangents *t, const hr_expr *node) {
    hr_terms *own = &t->of[node->id];
    *own = (hr_terms){0};
    if (!hr_type_is_float(node->type) || t->derivation->graph->full) return;
    *own = node->op == HR_OP_ELEMENT ? of_element(t, node) : of_node(t, node);
    if (own->count > TERMS_MOST) *own = hr_terms_joined(t->derivation->algebra, *own);
}

static hr_visit enter(void *context, const hr_expr *node) {
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    note(context, node);
    return HR_VISIT_PAST; /* subscripts do not change */
}

static void leave(void *context, const hr_expr *node) {
    note(context, node);
}

/* The statement's tangent as a statement; false where its tensor does not change. */
static bool statement_of(tangents *t, const hr_statement *source, hr_gradient_statement *out) {
    hr_derivation *derivation = t->derivation;
    const hr_tensor *tensor = &derivation->source->tensors[source->tensor];
    hr_walk walk = {.enter = enter, .leave = leave, .context = t};
    hr_walk_through(&walk, source->value);
    if (hr_walk_end(&walk) != HR_OK) derivation->graph->full = true;
    const hr_terms value = t->of[source->value->id];
    const bool wanted = hr_is_derived(derivation, source->tensor);
    if (derivation->graph->full || (!value.count && !wanted)) return false;
    const char *name =
        hr_name_free(derivation, hr_arena_format(derivation->graph->arena, "t%s", tensor->name));
    out->tensor = hr_like_tensor(derivation, tensor, name, hr_compute_type(tensor->dtype), NULL);
    if (derivation->graph->full) return false;
    if (wanted) {
        derivation->graph->function->tensors[out->tensor].role = HR_ROLE_RESULT;
        derivation->adjoints[source->tensor].gradient = out->tensor;
    }
    t->tensors[source->tensor] = value.count ? out->tensor : -1;
    out->accumulate = source->store == HR_STORE_ADD;
    out->domain_count = source->domain_count;
    for (int i = 0; i < source->domain_count; i++)
        out->domain[i] = derivation->index_of[source->domain[i]];
    for (int a = 0; a < source->subscript_count; a++)
        out->subscripts[a] = value_of(t, source->subscripts[a]);
    out->value = hr_terms_compose(derivation->algebra, value);
    return true;
}

hr_status hr_tangents(hr_derivation *derivation, int *count, hr_gradient_statement **out) {
    const hr_function *source = derivation->source;
    hr_arena *arena = derivation->graph->arena;
    tangents t = {.derivation = derivation};
    t.of = hr_arena_alloc(arena, ((size_t)source->expr_count + 1) * sizeof *t.of);
    t.tensors = hr_arena_alloc(arena, ((size_t)source->tensor_count + 1) * sizeof *t.tensors);
    *out = hr_arena_alloc(arena, ((size_t)source->statement_count + 1) * sizeof **out);
    *count = 0;
    for (int i = 0; i < source->tensor_count; i++)
        t.tensors[i] = i < source->parameter_count ? derivation->cotangents[i] : -1;
    for (int s = 0; s < source->statement_count; s++)
        *count += statement_of(&t, &source->statements[s], &(*out)[*count]);
    return hr_graph_status(derivation->graph);
}
