/* Adjoints, from the last statement to the first. In: cotangents of the results. Out: what each element of
 * each parameter is given. */
#include "grad/affine.h"
#include "grad/derivation.h"
#include "grad/invert.h"
#include "grad/slope.h"
#include "ir/extent_form.h"
#include "ir/types.h"

#include <string.h>

enum { TERMS_MOST = 6 }; /* of a node before they are taken together */

typedef struct statement_walk {
    hr_derivation *derivation;
    const hr_statement *statement;
    int count;
    const hr_expr **order; /* nodes that carry a gradient, arguments before those that use them */
    hr_terms *adjoints;    /* by the number of the node */
} statement_walk;

/* ---- which nodes carry a gradient ---- */

bool hr_op_passes_gradient(hr_op op) {
    if (hr_op_finds_position(op) || op == HR_OP_TOPK || op == HR_OP_RANDOM || op == HR_OP_STOP) return false;
    return op != HR_OP_FLOOR && op != HR_OP_CEIL && op != HR_OP_ROUND && op != HR_OP_FLOORDIV;
}

static bool carries(const hr_derivation *derivation, const hr_expr *node) {
    if (!hr_type_is_float(node->type)) return false;
    if (node->op == HR_OP_ELEMENT) return derivation->adjoints[node->tensor].active;
    if (!hr_op_passes_gradient(node->op)) return false;
    for (int i = node->op == HR_OP_WHERE; i < node->arg_count; i++)
        if (derivation->carries[node->args[i]->id]) return true;
    return false;
}

static void note_node(statement_walk *walk, const hr_expr *node) {
    hr_derivation *derivation = walk->derivation;
    derivation->carries[node->id] = carries(derivation, node);
    if (derivation->carries[node->id]) walk->order[walk->count++] = node;
}

static hr_visit order_enter(void *context, const hr_expr *node) {
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    note_node(context, node);
    return HR_VISIT_PAST; /* subscripts carry nothing */
}

static void order_leave(void *context, const hr_expr *node) {
    note_node(context, node);
}

/* ---- what a node hands on ---- */

/* `sum` is a part of what `node` is given; indices that it does not depend on are summed at once. */
static void give(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_derivation *derivation = walk->derivation;
    hr_algebra *algebra = derivation->algebra;
    if (!derivation->carries[node->id]) return;
    hr_terms *all = &walk->adjoints[node->id];
    for (int i = 0; i < sum.count; i++) {
        const hr_index_set scope = sum.terms[i].scope, open = derivation->open[node->id];
        hr_terms part = hr_terms_over(algebra, (hr_terms){1, &sum.terms[i]}, scope & ~open);
        part = hr_terms_in_scope(algebra, part, open);
        *all = hr_terms_add(algebra, *all, part);
    }
    if (all->count > TERMS_MOST) *all = hr_terms_joined(algebra, *all);
}

static hr_expr *value_of(const statement_walk *walk, const hr_expr *node) {
    return hr_primal_of(walk->derivation, node);
}

static void give_function(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_expr *args[HR_ARGS_MOST];
    for (int i = 0; i < node->arg_count; i++)
        args[i] = value_of(walk, node->args[i]);
    for (int i = 0; i < node->arg_count; i++) {
        if (!walk->derivation->carries[node->args[i]->id]) continue;
        hr_expr *slope = hr_slope(walk->derivation->algebra, node->op, i, args, value_of(walk, node));
        if (slope) give(walk, node->args[i], hr_terms_times(walk->derivation->algebra, sum, slope));
    }
}

/* max and min: all of it goes to the first of equals, as argmax finds it. */
static hr_terms at_extreme(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    return hr_terms_guard(walk->derivation->algebra, sum, hr_extreme_condition(walk->derivation, node));
}

/* logsumexp: times exp(e - y). */
static hr_terms at_logsumexp(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_algebra *algebra = walk->derivation->algebra;
    return hr_terms_times(
        algebra, sum, hr_primal_exponential(algebra, value_of(walk, node->args[0]), value_of(walk, node)));
}

static void give_reduction(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_algebra *algebra = walk->derivation->algebra;
    const hr_index_set bound = hr_bound_indices(walk->derivation, node);
    if (node->op == HR_OP_REDUCE_MEAN) sum = hr_terms_divide(algebra, sum, hr_make_points(algebra, bound));
    if (node->op == HR_OP_REDUCE_MAX || node->op == HR_OP_REDUCE_MIN) sum = at_extreme(walk, node, sum);
    if (node->op == HR_OP_REDUCE_LOGSUMEXP) sum = at_logsumexp(walk, node, sum);
    if (node->op == HR_OP_REDUCE_PROD)
        sum = hr_terms_times(algebra, sum, hr_product_of_others(walk->derivation, node));
    if (sum.count) give(walk, node->args[0], hr_terms_in_scope(algebra, sum, sum.terms[0].scope | bound));
}

/* softmax: p * (d - sum(p * d)) */
static void give_softmax(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_algebra *algebra = walk->derivation->algebra;
    hr_expr *p = value_of(walk, node);
    const hr_index_set bound = hr_bound_indices(walk->derivation, node);
    const hr_terms one = hr_terms_joined(algebra, hr_terms_within(algebra, sum, p));
    const hr_terms weighted = hr_terms_times(algebra, one, p);
    hr_terms along = hr_terms_over(algebra, weighted, bound);
    along = hr_terms_in_scope(algebra, along, one.terms[0].scope);
    const hr_terms inner =
        hr_terms_joined(algebra, hr_terms_add(algebra, one, hr_terms_negate(algebra, along)));
    give(walk, node->args[0], hr_terms_times(algebra, inner, p));
}

/* h[t] = a[t] * h[t - 1] + b[t]: what b is given is a scan from the other end, and a is given that times what
 * stood before. */
static void give_scan(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_derivation *derivation = walk->derivation;
    hr_algebra *algebra = derivation->algebra;
    if (!sum.count) return;
    const hr_index_set scope = sum.terms[0].scope;
    hr_expr *adjoint =
        hr_scan_adjoint(derivation, node, hr_terms_compose(algebra, hr_terms_joined(algebra, sum)));
    const hr_terms all = hr_terms_in_scope(algebra, hr_terms_of(algebra, adjoint), scope);
    give(walk, node->args[1], all);
    if (derivation->carries[node->args[0]->id])
        give(walk, node->args[0], hr_terms_times(algebra, all, hr_scan_before(derivation, node)));
    if (derivation->carries[node->args[2]->id])
        give(walk, node->args[2],
             hr_terms_guard(algebra, hr_terms_times(algebra, all, value_of(walk, node->args[0])),
                            hr_scan_at_first(derivation, node)));
}

/* ---- elements ---- */

/* An axis is called by an index that stands alone on it somewhere. */
static hr_visit note_axes(void *context, const hr_expr *node) {
    hr_derivation *derivation = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_tensor *tensor = &derivation->source->tensors[node->tensor];
    hr_adjoint *adjoint = &derivation->adjoints[node->tensor];
    for (int a = 0; a < tensor->rank && !adjoint->has_axes; a++) {
        const hr_expr *subscript = node->args[a];
        if (subscript->op != HR_OP_INDEX || adjoint->named[a]) continue;
        const int index = derivation->index_of[subscript->index];
        bool used = false;
        for (int b = 0; b < tensor->rank; b++)
            used = used || (adjoint->named[b] && adjoint->axes[b] == index);
        adjoint->named[a] = !used;
        adjoint->axes[a] = index;
    }
    return HR_VISIT_ON;
}

static bool is_axis(const hr_adjoint *adjoint, int rank, int index) {
    for (int a = 0; a < rank; a++)
        if (adjoint->named[a] && adjoint->axes[a] == index) return true;
    return false;
}

/* An index of the kernel over all of the axis, that no other axis has; a new one where there is none. */
static int index_of_axis(hr_derivation *derivation, const hr_adjoint *adjoint, const hr_tensor *tensor,
                         int axis) {
    hr_algebra *algebra = derivation->algebra;
    static const char *const names[] = {"i", "j", "k", "n", "u", "v"};
    for (int i = 0; i < algebra->index_count; i++) {
        const int index = algebra->indices[i];
        const hr_expr *extent = derivation->graph->function->indices[index].extent;
        if (hr_extent_identical(extent, tensor->shape[axis]) && !is_axis(adjoint, tensor->rank, index))
            return index;
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(hr_name_free(derivation, names[n]), names[n]) == 0)
            return hr_index_fresh(algebra, names[n], tensor->shape[axis]);
    return hr_index_fresh(algebra, "i", tensor->shape[axis]);
}

/* Axes on which none does. */
static void finish_axes(hr_derivation *derivation, int t) {
    hr_adjoint *adjoint = &derivation->adjoints[t];
    for (int a = 0; a < derivation->graph->function->tensors[t].rank && !adjoint->has_axes; a++) {
        if (adjoint->named[a]) continue;
        adjoint->axes[a] = index_of_axis(derivation, adjoint, &derivation->graph->function->tensors[t], a);
        adjoint->named[a] = true;
    }
    adjoint->has_axes = true;
}

static void give_element(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_derivation *derivation = walk->derivation;
    hr_adjoint *adjoint = &derivation->adjoints[node->tensor];
    const hr_tensor *tensor = &derivation->source->tensors[node->tensor];
    hr_expr *subscripts[HR_RANK_MAX];
    bool scatters;
    if (tensor->role == HR_ROLE_INOUT) derivation->refusal = tensor->name;
    if (!sum.count) return;
    for (int a = 0; a < tensor->rank; a++)
        subscripts[a] = value_of(walk, node->args[a]);
    const hr_terms gathered =
        hr_gather(derivation->algebra, sum, tensor->rank, subscripts, adjoint->axes, &scatters);
    if (scatters && !adjoint->contributions && tensor->role == HR_ROLE_INPUT) {
        adjoint->scatters = true;
        adjoint->domain = sum.terms[0].scope;
        adjoint->scattered = sum;
        for (int a = 0; a < tensor->rank; a++)
            adjoint->subscripts[a] = subscripts[a];
        const hr_expr *place = hr_graph_element(derivation->graph, node->tensor, tensor->rank, subscripts);
        adjoint->condition =
            hr_is_in_range(derivation->algebra, place) ? NULL : hr_terms_condition(derivation->algebra, sum);
    } else {
        adjoint->scatters = false;
    }
    adjoint->asked = adjoint->asked || scatters;
    adjoint->contributions++;
    adjoint->sum = hr_terms_add(derivation->algebra, adjoint->sum, gathered);
}

/* ---- nodes ---- */

static void hand_on(statement_walk *walk, const hr_expr *node, hr_terms sum) {
    hr_algebra *algebra = walk->derivation->algebra;
    switch (node->op) {
    case HR_OP_ELEMENT:
        give_element(walk, node, sum);
        break;
    case HR_OP_ADD:
    case HR_OP_SUB:
        give(walk, node->args[0], sum);
        give(walk, node->args[1], node->op == HR_OP_SUB ? hr_terms_negate(algebra, sum) : sum);
        break;
    case HR_OP_MUL:
        for (int i = 0; i < 2; i++)
            if (walk->derivation->carries[node->args[i]->id])
                give(walk, node->args[i], hr_terms_times(algebra, sum, value_of(walk, node->args[1 - i])));
        break;
    case HR_OP_CONVERT: /* straight through, also where it rounds */
        give(walk, node->args[0], sum);
        break;
    case HR_OP_WHERE: {
        hr_expr *condition = value_of(walk, node->args[0]);
        give(walk, node->args[1], hr_terms_guard(algebra, sum, condition));
        give(walk, node->args[2], hr_terms_guard(algebra, sum, hr_make_not(algebra, condition)));
        break;
    }
    case HR_OP_SOFTMAX:
        give_softmax(walk, node, sum);
        break;
    case HR_OP_SCAN:
    case HR_OP_SCAN_BACK:
        give_scan(walk, node, sum);
        break;
    default:
        if (hr_op_is_reduction(node->op))
            give_reduction(walk, node, sum);
        else
            give_function(walk, node, sum);
    }
}

/* ---- statements ---- */

static hr_visit is_reduction(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_op_is_reduction(node->op) || node->op == HR_OP_SOFTMAX);
}

/* Terms with sums as large as all of them: matrix products, which add up before anything is made of them. */
static int sums_in(hr_algebra *algebra, hr_terms sum) {
    hr_index_set all = 0;
    int count = 0;
    for (int i = 0; i < sum.count; i++)
        all |= hr_term_free(algebra, &sum.terms[i]);
    for (int i = 0; i < sum.count; i++) {
        bool large = false;
        for (int f = 0; f < sum.terms[i].factor_count; f++) {
            const hr_expr *base = sum.terms[i].factors[f].base;
            large = large || (base->op == HR_OP_REDUCE_SUM && hr_free_indices(algebra, base) == all);
        }
        count += large;
    }
    return count;
}

/* The statement reads something that has more axes than what it gives: what is given to it is used many
 * times. */
static hr_visit reads_wider(const hr_expr *node, const void *context) {
    const statement_walk *walk = context;
    const hr_function *source = walk->derivation->source;
    return hr_visit_until(node->op == HR_OP_ELEMENT && walk->derivation->carries[node->id] &&
                          node->arg_count > source->tensors[walk->statement->tensor].rank);
}

/* Some factor is a sum, or an element of a local that will hold one. */
static bool has_sum(hr_algebra *algebra, hr_terms sum) {
    for (int i = 0; i < sum.count; i++)
        for (int f = 0; f < sum.terms[i].factor_count; f++) {
            const hr_expr *base = sum.terms[i].factors[f].base;
            const hr_held_value *held = hr_held_by(algebra, base);
            if ((held ? held->value : base)->op == HR_OP_REDUCE_SUM) return true;
        }
    return false;
}

/* A local that is rounded to 16 bits has its gradient rounded so, where that is a sum of its own: products
 * take it, and it is kept, in 16 bits. */
static hr_terms rounded_as(hr_derivation *derivation, const hr_statement *statement, hr_terms sum) {
    hr_algebra *algebra = derivation->algebra;
    const hr_expr *value = statement->value;
    if (derivation->source->tensors[statement->tensor].role != HR_ROLE_LOCAL || !hr_rounds_to_half(value) ||
        !has_sum(algebra, sum))
        return sum;
    hr_expr *arg = hr_terms_compose(algebra, hr_terms_joined(algebra, sum));
    return hr_terms_of(algebra, hr_graph_with_args(derivation->graph, value, &arg));
}

/* What the statement's elements were given, over its own indices. */
static hr_terms statement_adjoint(statement_walk *walk) {
    hr_derivation *derivation = walk->derivation;
    hr_algebra *algebra = derivation->algebra;
    const hr_statement *statement = walk->statement;
    hr_adjoint *adjoint = &derivation->adjoints[statement->tensor];
    hr_expr *to[HR_RANK_MAX];
    hr_index_set domain = 0;
    for (int a = 0; a < statement->subscript_count; a++)
        to[a] = value_of(walk, statement->subscripts[a]);
    for (int i = 0; i < statement->domain_count; i++)
        domain |= hr_index_bit(algebra, derivation->index_of[statement->domain[i]]);
    hr_terms sum = hr_terms_replace(algebra, adjoint->sum, statement->subscript_count, adjoint->axes, to);
    sum = hr_terms_reduced(algebra, sum);
    if (sum.count > 1 && (hr_expr_find(statement->value, is_reduction, NULL) ||
                          hr_expr_find(statement->value, reads_wider, walk) || sums_in(algebra, sum) > 1))
        sum = hr_terms_joined(algebra, sum);
    sum = rounded_as(derivation, statement, sum);
    if (derivation->source->tensors[statement->tensor].role == HR_ROLE_LOCAL && sum.count)
        hr_name_value(derivation, hr_terms_compose(algebra, sum),
                      hr_arena_format(derivation->graph->arena, "d%s",
                                      derivation->source->tensors[statement->tensor].name));
    return hr_terms_in_scope(algebra, sum, domain);
}

static void walk_back(statement_walk *walk) {
    hr_derivation *derivation = walk->derivation;
    const hr_expr *root = walk->statement->value;
    if (!derivation->carries[root->id]) return;
    for (int i = 0; i < walk->count; i++)
        walk->adjoints[walk->order[i]->id] = (hr_terms){0};
    give(walk, root, statement_adjoint(walk));
    for (int i = walk->count; i-- && !derivation->graph->full;)
        if (walk->adjoints[walk->order[i]->id].count)
            hand_on(walk, walk->order[i], walk->adjoints[walk->order[i]->id]);
}

static void find_order(statement_walk *walk) {
    hr_walk nodes = {.enter = order_enter, .leave = order_leave, .context = walk};
    walk->count = 0;
    hr_walk_through(&nodes, walk->statement->value);
    if (hr_walk_end(&nodes) != HR_OK) walk->derivation->graph->full = true;
}

/* A tensor's elements begin with their cotangent; axes are the indices of their statement. */
static void begin_statement(hr_derivation *derivation, const hr_statement *statement) {
    hr_algebra *algebra = derivation->algebra;
    hr_adjoint *adjoint = &derivation->adjoints[statement->tensor];
    const hr_tensor *tensor = &derivation->graph->function->tensors[statement->tensor];
    hr_expr *subscripts[HR_RANK_MAX];
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = statement->subscripts[a];
        adjoint->axes[a] = statement->store == HR_STORE_WHOLE && subscript->op == HR_OP_INDEX
                               ? derivation->index_of[subscript->index]
                               : hr_index_fresh(algebra, "place", tensor->shape[a]);
        subscripts[a] = hr_graph_index_value(derivation->graph, adjoint->axes[a]);
    }
    adjoint->has_axes = true;
    const int cotangent = derivation->cotangents[statement->tensor];
    if (cotangent >= 0)
        adjoint->sum =
            hr_terms_of(algebra, hr_graph_element(derivation->graph, cotangent, tensor->rank, subscripts));
}

void hr_adjoints_begin(hr_derivation *derivation) {
    for (int s = 0; s < derivation->source->statement_count; s++)
        begin_statement(derivation, &derivation->source->statements[s]);
    for (int s = 0; s < derivation->source->statement_count; s++)
        hr_expr_visit(derivation->source->statements[s].value, note_axes, derivation);
    for (int t = 0; t < derivation->source->parameter_count; t++)
        finish_axes(derivation, t);
}

hr_status hr_backward(hr_derivation *derivation) {
    const hr_function *source = derivation->source;
    hr_arena *arena = derivation->graph->arena;
    const size_t nodes = (size_t)source->expr_count + 1;
    statement_walk walk = {.derivation = derivation,
                           .order = hr_arena_alloc(arena, nodes * sizeof *walk.order),
                           .adjoints = hr_arena_alloc(arena, nodes * sizeof *walk.adjoints)};
    derivation->carries = hr_arena_alloc(arena, nodes * sizeof *derivation->carries);
    for (int s = 0; s < source->statement_count; s++) { /* what passes a gradient on, forwards */
        walk.statement = &source->statements[s];
        find_order(&walk);
        if (derivation->carries[walk.statement->value->id])
            derivation->adjoints[walk.statement->tensor].active = true;
    }
    for (int s = source->statement_count; s-- && !derivation->graph->full;) {
        walk.statement = &source->statements[s];
        find_order(&walk);
        walk_back(&walk);
    }
    return HR_OK;
}
