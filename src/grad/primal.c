/* Values of the forward kernel in the graph of the derivation. In: nodes of the source. Out: the same over
 * one number an index, with elementwise locals written out, and results read where they hold the value. */
#include "grad/affine.h"
#include "grad/derivation.h"
#include "grad/slope.h"
#include "ir/extent_form.h"
#include "ir/types.h"

#include <math.h>
#include <string.h>

/* ---- indices ---- */

/* The first index of the same name and extent stands for all of them. Those of left sides have the first
 * bits, in their order: locals are laid out like what they are made for. */
static void indices_unify(hr_derivation *derivation) {
    const hr_function *source = derivation->source;
    for (int i = 0; i < source->index_count; i++) {
        int first = 0;
        while (strcmp(source->indices[first].name, source->indices[i].name) != 0 ||
               !hr_extent_identical(source->indices[first].extent, source->indices[i].extent))
            first++;
        derivation->index_of[i] = first;
    }
    for (int s = 0; s < source->statement_count; s++)
        for (int i = 0; i < source->statements[s].domain_count; i++)
            hr_index_bit(derivation->algebra, derivation->index_of[source->statements[s].domain[i]]);
}

static hr_index_set bit_of(hr_derivation *derivation, int source_index) {
    return hr_index_bit(derivation->algebra, derivation->index_of[source_index]);
}

static void note_open(void *context, const hr_expr *node) {
    hr_derivation *derivation = context;
    hr_index_set set = node->op == HR_OP_INDEX ? bit_of(derivation, node->index) : 0;
    for (int i = 0; i < node->arg_count; i++)
        set |= derivation->open[node->args[i]->id];
    for (int i = 0; i < node->bound_count; i++) {
        const hr_index_set bit = bit_of(derivation, node->bound[i]);
        if (hr_op_is_reduction(node->op))
            set &= ~bit;
        else
            set |= bit;
    }
    derivation->open[node->id] = set;
}

/* ---- what nodes become ---- */

hr_index_set hr_bound_indices(hr_derivation *derivation, const hr_expr *node) {
    hr_index_set set = 0;
    for (int i = 0; i < node->bound_count; i++)
        set |= bit_of(derivation, node->bound[i]);
    return set;
}

static hr_visit is_reduction(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_op_is_reduction(node->op));
}

/* A local is written out; one with a reduction, or one that is rounded for products, stays a local where it
 * is read at other places. */
static hr_expr *element(hr_derivation *derivation, const hr_expr *node, hr_expr *const *args) {
    const hr_tensor *tensor = &derivation->source->tensors[node->tensor];
    const int s = derivation->statement_of[node->tensor];
    if (tensor->role == HR_ROLE_INOUT && s >= 0) derivation->refusal = tensor->name;
    if (tensor->role == HR_ROLE_INPUT || tensor->role == HR_ROLE_INOUT || derivation->saved[node->tensor])
        return hr_graph_element(derivation->graph, node->tensor, node->arg_count, args);
    const hr_statement *statement = &derivation->source->statements[s];
    hr_expr *value = derivation->values[s];
    int from[HR_RANK_MAX];
    bool plain = true;
    for (int i = 0; i < statement->domain_count; i++) {
        from[i] = derivation->index_of[statement->domain[i]];
        plain = plain && args[i]->op == HR_OP_INDEX && args[i]->index == from[i];
    }
    if (!plain && (hr_rounds_to_half(value) || hr_expr_find(value, is_reduction, NULL)))
        value = hr_hold(derivation->algebra, value);
    return hr_replace_indices(derivation->algebra, value, statement->domain_count, from, args);
}

/* exp(where(c, a, -inf) - b) is where(c, exp(a - b), 0): a row with all of it masked gives 0, not NaN. */
static hr_expr *exponential(hr_algebra *algebra, hr_expr *arg) {
    hr_expr *choice = arg->op == HR_OP_SUB ? arg->args[0] : arg;
    if (choice->op != HR_OP_WHERE) return hr_make_unary(algebra, HR_OP_EXP, arg);
    const int masked = hr_expr_is_minus_infinity(choice->args[2])   ? 2
                       : hr_expr_is_minus_infinity(choice->args[1]) ? 1
                                                                    : 0;
    if (!masked) return hr_make_unary(algebra, HR_OP_EXP, arg);
    hr_expr *kept = choice->args[3 - masked];
    if (arg->op == HR_OP_SUB) kept = hr_make_binary(algebra, HR_OP_SUB, kept, arg->args[1]);
    hr_expr *condition = masked == 2 ? choice->args[0] : hr_make_not(algebra, choice->args[0]);
    hr_expr *args[] = {condition, exponential(algebra, kept), hr_make_number(algebra, 0)};
    return hr_make(algebra, HR_OP_WHERE, 3, args);
}

hr_expr *hr_primal_exponential(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    return exponential(algebra, hr_make_binary(algebra, HR_OP_SUB, a, b));
}

static hr_expr *softmax(hr_derivation *derivation, const hr_expr *node, hr_expr *arg) {
    hr_algebra *algebra = derivation->algebra;
    hr_expr *lse =
        hr_make_reduction(algebra, HR_OP_REDUCE_LOGSUMEXP, hr_bound_indices(derivation, node), arg);
    lse = hr_known_element(algebra, lse);
    return hr_primal_exponential(algebra, arg, lse);
}

/* ---- scans ---- */

/* Along an index of the graph, in order: an element of the local that holds it. */
static hr_expr *ordered(hr_algebra *algebra, hr_op op, hr_dtype type, int along, int count, hr_expr **args) {
    const hr_expr model = {.op = op,
                           .type = type,
                           .dtype = type,
                           .arg_count = count,
                           .args = args,
                           .bound_count = 1,
                           .bound = &along,
                           .extent = -1,
                           .index = -1,
                           .tensor = -1};
    return hr_hold(algebra, hr_graph_intern(algebra->graph, &model));
}

hr_expr *hr_make_scan(hr_algebra *algebra, hr_op op, int along, hr_expr *const *args) {
    hr_argument_type types[3];
    hr_expr *converted[3];
    for (int i = 0; i < 3; i++)
        types[i] = hr_argument_type_of(args[i]);
    const hr_dtype type = hr_op_types_of(op, 3, types).result;
    for (int i = 0; i < 3; i++)
        converted[i] = hr_graph_convert(algebra->graph, type, args[i]);
    return ordered(algebra, op, type, along, 3, converted);
}

/* `value` one element further along the index, by `step`; `beyond` where there is none. */
static hr_expr *shifted(hr_algebra *algebra, hr_expr *value, int along, int step, hr_expr *beyond) {
    hr_graph *graph = algebra->graph;
    if (!(hr_free_indices(algebra, value) & hr_index_bit(algebra, along))) return value;
    hr_expr *index = hr_graph_index_value(graph, along), *extent = graph->function->indices[along].extent;
    hr_expr *one = hr_graph_whole(graph, 1);
    hr_expr *next = hr_make_binary(algebra, step < 0 ? HR_OP_SUB : HR_OP_ADD, index, one);
    hr_expr *there = step < 0 ? hr_make_binary(algebra, HR_OP_GT, index, hr_graph_whole(graph, 0))
                              : hr_make_binary(algebra, HR_OP_LT, next, extent);
    hr_expr *moved = hr_replace_indices(algebra, value, 1, &along, &next);
    return hr_make(algebra, HR_OP_WHERE, 3, (hr_expr *[]){there, moved, beyond});
}

int hr_scan_along(const hr_derivation *derivation, const hr_expr *scan) {
    return derivation->index_of[scan->bound[0]];
}

hr_expr *hr_scan_before(hr_derivation *derivation, const hr_expr *scan) {
    hr_algebra *algebra = derivation->algebra;
    const int along = hr_scan_along(derivation, scan);
    hr_expr *start = hr_primal_of(derivation, scan->args[2]);
    return shifted(algebra, hr_primal_of(derivation, scan), along, scan->op == HR_OP_SCAN ? -1 : 1, start);
}

hr_expr *hr_scan_adjoint(hr_derivation *derivation, const hr_expr *scan, hr_expr *cotangent) {
    hr_algebra *algebra = derivation->algebra;
    const int along = hr_scan_along(derivation, scan);
    const bool forward = scan->op == HR_OP_SCAN;
    hr_expr *zero = hr_make_number(algebra, 0);
    hr_expr *factor =
        shifted(algebra, hr_primal_of(derivation, scan->args[0]), along, forward ? 1 : -1, zero);
    return hr_make_scan(algebra, forward ? HR_OP_SCAN_BACK : HR_OP_SCAN, along,
                        (hr_expr *[]){factor, cotangent, zero});
}

hr_expr *hr_scan_at_first(hr_derivation *derivation, const hr_expr *scan) {
    hr_algebra *algebra = derivation->algebra;
    hr_graph *graph = algebra->graph;
    const int along = hr_scan_along(derivation, scan);
    hr_expr *one = hr_graph_whole(graph, 1), *extent = graph->function->indices[along].extent;
    hr_expr *first =
        scan->op == HR_OP_SCAN ? hr_graph_whole(graph, 0) : hr_make_binary(algebra, HR_OP_SUB, extent, one);
    return hr_make_binary(algebra, HR_OP_EQ, hr_graph_index_value(graph, along), first);
}

static hr_expr *made(hr_derivation *derivation, const hr_expr *node, hr_expr *const *args) {
    hr_algebra *algebra = derivation->algebra;
    switch (node->op) {
    case HR_OP_ELEMENT:
        return element(derivation, node, args);
    case HR_OP_STOP:
        return args[0];
    case HR_OP_EXP:
        return exponential(algebra, args[0]);
    case HR_OP_SILU:
    case HR_OP_GELU:
    case HR_OP_GELU_TANH:
        return hr_value_beside_slope(algebra, node->op, args[0]);
    case HR_OP_SOFTMAX:
        return softmax(derivation, node, args[0]);
    case HR_OP_SCAN:
    case HR_OP_SCAN_BACK:
        return hr_make_scan(algebra, node->op, hr_scan_along(derivation, node), args);
    case HR_OP_TOPK:
        return ordered(algebra, HR_OP_TOPK, HR_I64, hr_scan_along(derivation, node), 2,
                       (hr_expr *[]){args[0], args[1]});
    case HR_OP_REDUCE_MEAN: {
        const hr_index_set bound = hr_bound_indices(derivation, node);
        return hr_make_binary(algebra, HR_OP_DIV,
                              hr_make_reduction(algebra, HR_OP_REDUCE_SUM, bound, args[0]),
                              hr_make_points(algebra, bound));
    }
    default:
        return hr_op_is_reduction(node->op)
                   ? hr_make_reduction(algebra, node->op, hr_bound_indices(derivation, node), args[0])
                   : hr_whole_remade(algebra, node, args);
    }
}

static hr_expr *primal_before(void *context, hr_expr *node) {
    hr_derivation *derivation = context;
    if (node->op == HR_OP_INDEX)
        return hr_graph_index_value(derivation->graph, derivation->index_of[node->index]);
    return NULL;
}

static hr_expr *primal_after(void *context, const hr_expr *node, hr_expr *const *args) {
    hr_derivation *derivation = context;
    return hr_known_element(derivation->algebra, made(derivation, node, args));
}

hr_expr *hr_primal_of(hr_derivation *derivation, const hr_expr *node) {
    return hr_known_element(derivation->algebra, hr_rewriting_of(&derivation->primal, (hr_expr *)node));
}

/* The row-major position of the indices in their ranges. */
static hr_expr *position_of(hr_derivation *derivation, const hr_expr *node) {
    hr_algebra *algebra = derivation->algebra;
    hr_expr *position = NULL;
    for (int i = 0; i < node->bound_count; i++) {
        const int index = derivation->index_of[node->bound[i]];
        hr_expr *value = hr_graph_index_value(algebra->graph, index);
        hr_expr *extent = algebra->graph->function->indices[index].extent;
        hr_expr *before = position ? hr_make_binary(algebra, HR_OP_MUL, position, extent) : NULL;
        position = before ? hr_make_binary(algebra, HR_OP_ADD, before, value) : value;
    }
    return position;
}

hr_expr *hr_extreme_condition(hr_derivation *derivation, const hr_expr *node) {
    hr_algebra *algebra = derivation->algebra;
    int bound[HR_DOMAIN_MAX];
    for (int i = 0; i < node->bound_count; i++)
        bound[i] = derivation->index_of[node->bound[i]];
    const hr_op finder = node->op == HR_OP_REDUCE_MAX ? HR_OP_REDUCE_ARGMAX : HR_OP_REDUCE_ARGMIN;
    hr_expr *found = hr_graph_reduce(algebra->graph, finder, HR_I64, node->bound_count, bound,
                                     hr_primal_of(derivation, node->args[0]));
    return hr_make_binary(algebra, HR_OP_EQ, position_of(derivation, node), hr_known_element(algebra, found));
}

hr_expr *hr_product_of_others(hr_derivation *derivation, const hr_expr *node) {
    hr_algebra *algebra = derivation->algebra;
    const hr_index_set bound = hr_bound_indices(derivation, node);
    hr_expr *x = hr_primal_of(derivation, node->args[0]);
    hr_expr *one = hr_make_number(algebra, 1), *zero = hr_make_number(algebra, 0);
    hr_expr *is_zero = hr_make_binary(algebra, HR_OP_EQ, x, zero);
    hr_expr *other = hr_make(algebra, HR_OP_WHERE, 3, (hr_expr *[]){is_zero, one, x});
    hr_expr *own = hr_make(algebra, HR_OP_WHERE, 3, (hr_expr *[]){is_zero, one, zero});
    hr_expr *product = hr_make_reduction(algebra, HR_OP_REDUCE_PROD, bound, other);
    hr_expr *zeros = hr_make_reduction(algebra, HR_OP_REDUCE_SUM, bound, own);
    hr_expr *others = hr_make_binary(algebra, HR_OP_DIV, product, other);
    return hr_make(algebra, HR_OP_WHERE, 3,
                   (hr_expr *[]){hr_make_binary(algebra, HR_OP_EQ, zeros, own), others, zero});
}

bool hr_rounds_to_half(const hr_expr *value) {
    return value->op == HR_OP_CONVERT && hr_type_is_float(value->args[0]->type) &&
           (value->variable || value->dtype == HR_BF16 || value->dtype == HR_F16);
}

/* ---- what elements hold ---- */

/* A sum of products as it is made elsewhere. */
static hr_expr *normal_sum(hr_algebra *algebra, hr_expr *value) {
    if (value->op != HR_OP_REDUCE_SUM) return value;
    const hr_index_set bound = hr_index_bits(algebra, value);
    hr_terms body = hr_terms_of(algebra, value->args[0]);
    if (body.count == 1) body = hr_term_with_weights(algebra, body.terms, bound);
    return hr_make_reduction(algebra, HR_OP_REDUCE_SUM, bound, hr_terms_compose(algebra, body));
}

/* o = sum[j](p * v) / t is the sum over t: whoever wants the sum has it as o * t. */
static void know_part(hr_algebra *algebra, const hr_expr *sum, hr_expr *element) {
    if (sum->op != HR_OP_REDUCE_SUM) return;
    const hr_terms all =
        hr_terms_over(algebra, hr_terms_of(algebra, sum->args[0]), hr_index_bits(algebra, sum));
    if (all.count != 1 || all.terms->guard_count) return;
    hr_term rest = *all.terms;
    hr_expr *part = NULL;
    rest.factors = hr_algebra_take(algebra, (size_t)rest.factor_count * sizeof(hr_factor));
    rest.factor_count = 0;
    for (int f = 0; f < all.terms->factor_count; f++) {
        const hr_factor factor = all.terms->factors[f];
        if (factor.power < 0) {
            rest.factors[rest.factor_count++] = factor;
        } else if (!part && factor.power == 1 && factor.base->op == HR_OP_REDUCE_SUM) {
            part = factor.base;
        } else {
            return; /* it may be 0 */
        }
    }
    if (!part || part == sum) return;
    const hr_terms whole =
        hr_terms_divide(algebra, hr_terms_of(algebra, element), hr_term_compose(algebra, &rest));
    hr_known_add(algebra, part, hr_terms_compose(algebra, whole));
}

/* A position fits the whole-number dtype that it is stored in. */
static bool holds_all(const hr_derivation *derivation, int tensor, const hr_expr *value) {
    const hr_dtype dtype = derivation->source->tensors[tensor].dtype;
    const int64_t most = dtype == HR_I8 ? 127 : dtype == HR_U8 ? 255 : dtype == HR_I16 ? 32767 : INT64_MAX;
    int64_t points = 1;
    if (most == INT64_MAX) return dtype != HR_BOOL;
    if (!hr_op_finds_position(value->op)) return false;
    for (int i = 0; i < value->bound_count; i++) {
        const hr_expr *extent = derivation->graph->function->indices[value->bound[i]].extent;
        if (extent->op != HR_OP_NUMBER || __builtin_mul_overflow(points, extent->whole, &points))
            return false;
    }
    return points - 1 <= most;
}

static void statement_prepare(hr_derivation *derivation, int s) {
    hr_algebra *algebra = derivation->algebra;
    const hr_statement *statement = &derivation->source->statements[s];
    hr_walk walk = {.leave = note_open, .context = derivation};
    for (int a = 0; a < statement->subscript_count; a++)
        hr_walk_through(&walk, statement->subscripts[a]);
    hr_walk_through(&walk, statement->value);
    if (hr_walk_end(&walk) != HR_OK) derivation->graph->full = true;
    hr_expr *value = hr_rewriting_of(&derivation->primal, statement->value);
    derivation->values[s] = value;
    hr_name_value(derivation, value, derivation->source->tensors[statement->tensor].name);
    hr_expr *inner = hr_rounds_to_half(value) ? value->args[0] : value;
    if (inner->op == HR_OP_REDUCE_SUM) hr_made_add(algebra, normal_sum(algebra, inner), value);
    const bool element_is_it = statement->store == HR_STORE_WHOLE && derivation->saved[statement->tensor] &&
                               (value->arg_count || value->op == HR_OP_INDEX);
    if (!element_is_it || value->op == HR_OP_ELEMENT || !holds_all(derivation, statement->tensor, value))
        return;
    hr_expr *subscripts[HR_RANK_MAX];
    for (int a = 0; a < statement->subscript_count; a++)
        subscripts[a] = hr_rewriting_of(&derivation->primal, statement->subscripts[a]);
    hr_expr *element =
        hr_graph_element(derivation->graph, statement->tensor, statement->subscript_count, subscripts);
    hr_known_add(algebra, value, element);
    hr_expr *normal = normal_sum(algebra, value);
    if (normal != value) hr_known_add(algebra, normal, element);
    know_part(algebra, normal, element);
}

/* What each statement gives its values, as it lies. */
static void orders_prepare(hr_derivation *derivation) {
    hr_algebra *algebra = derivation->algebra;
    const hr_function *source = derivation->source;
    algebra->like = hr_algebra_take(algebra, ((size_t)source->statement_count + 1) * sizeof *algebra->like);
    for (int s = 0; s < source->statement_count; s++) {
        const hr_statement *statement = &source->statements[s];
        hr_expr *subscripts[HR_RANK_MAX];
        bool plain = statement->subscript_count > 0;
        for (int a = 0; a < statement->subscript_count; a++) {
            plain = plain && statement->subscripts[a]->op == HR_OP_INDEX;
            if (plain)
                subscripts[a] = hr_graph_index_value(derivation->graph,
                                                     derivation->index_of[statement->subscripts[a]->index]);
        }
        if (plain)
            algebra->like[algebra->like_count++] = hr_graph_element(derivation->graph, statement->tensor,
                                                                    statement->subscript_count, subscripts);
    }
}

hr_status hr_primal_prepare(hr_derivation *derivation) {
    const hr_function *source = derivation->source;
    hr_arena *arena = derivation->graph->arena;
    derivation->index_of = hr_arena_alloc(arena, (size_t)(source->index_count + 1) * sizeof(int));
    derivation->open = hr_arena_alloc(arena, (size_t)(source->expr_count + 1) * sizeof(hr_index_set));
    derivation->values = hr_arena_alloc(arena, (size_t)(source->statement_count + 1) * sizeof(hr_expr *));
    derivation->primal = (hr_rewriting){
        .graph = derivation->graph, .before = primal_before, .after = primal_after, .context = derivation};
    indices_unify(derivation);
    hr_adjoints_begin(derivation); /* cotangents have the first numbers, and so stand first in products */
    orders_prepare(derivation);
    for (int s = 0; s < source->statement_count && !derivation->graph->full; s++) {
        const hr_statement *statement = &source->statements[s];
        if (statement->value->op == HR_OP_TOPK && !derivation->saved[statement->tensor])
            return hr_fail(
                HR_BAD_INPUT,
                "line %d: the gradient of topk goes to the places that it found: give them as a result of "
                "kernel %.60s, in i32 or i64",
                statement->place.line, source->name);
        statement_prepare(derivation, s);
    }
    return HR_OK;
}
