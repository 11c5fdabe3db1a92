/* Every statement becomes a map, one reduction or a scatter. In: a checked function. Out: graph->function.
 *
 * A reduction inside an expression moves to a local of its own, over the indices that it depends on. Under a
 * `where` it takes the condition along on those elements that could leave their axes.
 */
#include "base/memory.h"
#include "plan/fold.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct guarded_copy {
    int id;
    const hr_expr *guard;
    hr_expr *copy;
} guarded_copy;

typedef struct normaliser {
    hr_graph *graph;
    const hr_function *source;
    const int64_t *extents; /* NULL = no sum is taken apart */
    int *version;           /* source tensor -> the tensor of the graph that now holds its value */
    hr_expr **plain; /* copies by source id of nodes that no guard changes, valid for the versions of one
                        statement */
    signed char *sensitive; /* 1: holds a reduction or a checked element; 0: does not; -1: not known */
    guarded_copy *copies;
    int copy_count, copy_capacity;
    int *scope; /* indices in force, outermost first */
    int scope_count;
    int local_number;
} normaliser;

static hr_expr *rewrite(normaliser *n, const hr_expr *expr, hr_expr *guard);

/* ---- what a guard changes ---- */

static bool source_element_is_checked(const normaliser *n, const hr_expr *element) {
    const hr_tensor *tensor = &n->source->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        if (subscript->op != HR_OP_INDEX) return true;
        hr_expr *extent = n->graph->function->indices[subscript->index].extent;
        hr_expr *axis = hr_graph_substitute(n->graph, tensor->shape[a], 0, NULL, NULL);
        if (extent != axis) return true;
    }
    return false;
}

static bool is_sensitive(normaliser *n, const hr_expr *expr) {
    signed char *known = &n->sensitive[expr->id];
    if (*known >= 0) return *known;
    bool result = hr_op_is_reduction(expr->op) || hr_op_leaves_free(expr->op) ||
                  (expr->op == HR_OP_ELEMENT && source_element_is_checked(n, expr));
    for (int i = 0; i < expr->arg_count; i++)
        if (is_sensitive(n, expr->args[i])) result = true;
    *known = result;
    return result;
}

/* ---- locals for reductions ---- */

/* The indices in scope that occur in `expr`, in scope order. Returns how many; `out` has room for the scope.
 */
static int free_indices(normaliser *n, const hr_expr *expr, int *out) {
    int count = 0;
    bool *seen = hr_memory_zeros((size_t)n->graph->function->index_count + 1, 1);
    if (!seen) {
        n->graph->full = true;
        return 0;
    }
    hr_expr_mark_indices(expr, seen);
    for (int i = 0; i < n->scope_count; i++)
        if (seen[n->scope[i]]) out[count++] = n->scope[i];
    free(seen);
    return count;
}

static const char peak_name[] = "peak";

static bool is_peak(const hr_graph *graph, int tensor) {
    const hr_peak *p = graph->peaks;
    while (p && p->peak != tensor)
        p = p->next;
    return p != NULL;
}

/* local[free indices] = value; returns the element that stands for it. A peak is shared with peaks alone. */
static hr_expr *hoist(normaliser *n, hr_expr *value, const char *what, hr_place place) {
    hr_graph *graph = n->graph;
    if (graph->full) return graph->placeholder;
    int *domain = hr_arena_alloc(graph->arena, (size_t)(n->scope_count + 1) * sizeof *domain);
    int count = free_indices(n, value, domain);
    hr_expr **shape = hr_arena_alloc(graph->arena, (size_t)(count + 1) * sizeof *shape);
    hr_expr **subscripts = hr_arena_alloc(graph->arena, (size_t)(count + 1) * sizeof *subscripts);
    for (int i = 0; i < count; i++) {
        shape[i] = graph->function->indices[domain[i]].extent;
        subscripts[i] = hr_graph_index_value(graph, domain[i]);
    }
    for (int s = 0; s < graph->function->statement_count; s++) { /* the same reduction was hoisted before */
        const hr_statement *old = &graph->function->statements[s];
        if (old->value == value && old->domain_count == count &&
            graph->function->tensors[old->tensor].role == HR_ROLE_LOCAL &&
            graph->storage[old->tensor] == old->tensor &&
            is_peak(graph, old->tensor) == (what == peak_name) &&
            memcmp(old->domain, domain, (size_t)count * sizeof *domain) == 0)
            return hr_graph_element(graph, old->tensor, count, subscripts);
    }
    const char *name = hr_arena_format(graph->arena, "%s_%d", what, ++n->local_number);
    int tensor = hr_graph_add_local(graph, name, value->type, count, shape, -1);
    hr_graph_add_statement(graph, tensor, count, domain, value, place);
    return hr_graph_element(graph, tensor, count, subscripts);
}

static hr_expr *points(normaliser *n, const hr_expr *reduction) {
    hr_expr *product = hr_graph_whole(n->graph, 1);
    for (int i = 0; i < reduction->bound_count; i++) {
        hr_expr *extent = n->graph->function->indices[reduction->bound[i]].extent;
        product = i ? hr_graph_binary(n->graph, HR_OP_MUL, HR_I64, product, extent) : extent;
    }
    return product;
}

/* ---- spelling out ---- */

/* A reduction of few terms that depends on all indices in scope: nothing else would use it again. NULL: it
 * stays one. */
static hr_expr *write_out(normaliser *n, const hr_expr *expr, hr_expr *body) {
    if (n->graph->full) return NULL;
    int *indices = hr_arena_alloc(n->graph->arena, (size_t)(n->scope_count + 1) * sizeof *indices);
    return free_indices(n, body, indices) == n->scope_count
               ? hr_reduction_written(n->graph, expr, body, n->scope_count)
               : NULL;
}

/* The largest element, or 0 where that is infinite: x - peak is then never inf - inf for finite x. */
static hr_expr *finite_peak(hr_graph *graph, hr_expr *peak) {
    hr_expr *infinity = hr_graph_number(graph, peak->type, (double)INFINITY);
    hr_expr *size = hr_graph_unary(graph, HR_OP_ABS, peak->type, peak);
    hr_expr *is_infinite = hr_graph_binary(graph, HR_OP_EQ, HR_BOOL, size, infinity);
    return hr_graph_where(graph, is_infinite, hr_graph_number(graph, peak->type, 0), peak);
}

static hr_expr *exp_shifted(hr_graph *graph, hr_expr *body, hr_expr *peak) {
    return hr_graph_unary(graph, HR_OP_EXP, body->type,
                          hr_graph_binary(graph, HR_OP_SUB, body->type, body, peak));
}

static void note_peak(hr_graph *graph, const hr_expr *peak, const hr_expr *total) {
    if (graph->full) return;
    hr_peak *noted = hr_arena_alloc(graph->arena, sizeof *noted);
    *noted = (hr_peak){peak->tensor, total->tensor, graph->peaks};
    graph->peaks = noted;
}

static hr_expr *logsumexp(normaliser *n, const hr_expr *expr, hr_expr *body) {
    hr_graph *graph = n->graph;
    const hr_dtype type = body->type;
    hr_expr *peak = hr_graph_reduce(graph, HR_OP_REDUCE_MAX, type, expr->bound_count, expr->bound, body);
    hr_expr *written = write_out(n, peak, body);
    hr_expr *largest = written ? written : hoist(n, peak, peak_name, expr->place);
    peak = finite_peak(graph, largest);
    hr_expr *shifted = exp_shifted(graph, body, peak);
    hr_expr *sum = hr_graph_reduce(graph, HR_OP_REDUCE_SUM, type, expr->bound_count, expr->bound, shifted);
    hr_expr *total = written ? write_out(n, sum, shifted) : NULL;
    if (!total) total = hoist(n, sum, "total", expr->place);
    if (!written) note_peak(graph, largest, total);
    return hr_graph_binary(graph, HR_OP_ADD, type, hr_graph_unary(graph, HR_OP_LOG, type, total), peak);
}

/* exp(x - peak) * (1 / total), over fresh indices inside the two reductions. */
static hr_expr *softmax(normaliser *n, const hr_expr *expr, hr_expr *body) {
    hr_graph *graph = n->graph;
    int count = expr->bound_count;
    int *fresh = hr_arena_alloc(graph->arena, (size_t)count * sizeof *fresh);
    hr_expr **to = hr_arena_alloc(graph->arena, (size_t)count * sizeof *to);
    for (int i = 0; i < count; i++) {
        const hr_index *index = &graph->function->indices[expr->bound[i]];
        fresh[i] = hr_graph_add_index(graph, index->name, index->extent);
        to[i] = hr_graph_index_value(graph, fresh[i]);
    }
    hr_expr *inner = hr_graph_substitute(graph, body, count, expr->bound, to);
    hr_expr *peak = hr_graph_reduce(graph, HR_OP_REDUCE_MAX, body->type, count, fresh, inner);
    peak = hoist(n, peak, peak_name, expr->place);
    hr_expr *total =
        hr_graph_reduce(graph, HR_OP_REDUCE_SUM, body->type, count, fresh, exp_shifted(graph, inner, peak));
    total = hoist(n, total, "total", expr->place);
    note_peak(graph, peak, total);
    hr_expr *share =
        hr_graph_binary(graph, HR_OP_DIV, body->type, hr_graph_number(graph, body->type, 1), total);
    return hr_graph_binary(graph, HR_OP_MUL, body->type, exp_shifted(graph, body, peak), share);
}

/* The spelled-out value of a reduction whose body is rewritten: a reduction node, or an expression over
 * locals. */
static hr_expr *spell_out(normaliser *n, const hr_expr *expr, hr_expr *body) {
    hr_graph *graph = n->graph;
    if (expr->op == HR_OP_SOFTMAX) return softmax(n, expr, body);
    if (expr->op == HR_OP_REDUCE_LOGSUMEXP) return logsumexp(n, expr, body);
    if (expr->op != HR_OP_REDUCE_MEAN)
        return hr_graph_reduce(graph, expr->op, expr->type, expr->bound_count, expr->bound, body);
    hr_expr *value = hr_graph_convert(graph, expr->type, body);
    hr_expr *sum =
        hr_graph_reduce(graph, HR_OP_REDUCE_SUM, expr->type, expr->bound_count, expr->bound, value);
    hr_expr *count = hr_graph_convert(graph, expr->type, points(n, expr));
    return hr_graph_binary(graph, HR_OP_DIV, expr->type, hoist(n, sum, "sum", expr->place), count);
}

static const char *reduction_name(hr_op op) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod", "argmax", "argmin", "logsumexp"};
    return names[op - HR_OP_REDUCE_SUM];
}

/* ---- sums over products ---- */

typedef struct product {
    int bound_count, *bound; /* of the sum over it */
    int factor_count;
    hr_expr *factors[HR_FACTORS_MOST];
} product;

/* False where there are too many. */
static bool add_factors(product *p, hr_expr *value) {
    if (value->op == HR_OP_MUL) return add_factors(p, value->args[0]) && add_factors(p, value->args[1]);
    if (p->factor_count == HR_FACTORS_MOST) return false;
    p->factors[p->factor_count++] = value;
    return true;
}

static hr_expr *product_of(hr_graph *graph, const product *p, hr_dtype type) {
    hr_expr *value = p->factors[0];
    for (int f = 1; f < p->factor_count; f++)
        value = hr_graph_binary(graph, HR_OP_MUL, type, value, p->factors[f]);
    return value;
}

/* The factors of one side, and the bound indices of the inner sum or those that are left. */
static product part_of(normaliser *n, const product *whole, const hr_factoring *inner, bool inside) {
    product part = {0};
    part.bound = hr_arena_alloc(n->graph->arena, (size_t)(whole->bound_count + 1) * sizeof *part.bound);
    for (int i = 0; i < whole->bound_count; i++)
        if (hr_indices_have(inner->bound, inner->bound_count, whole->bound[i]) == inside)
            part.bound[part.bound_count++] = whole->bound[i];
    for (int f = 0; f < whole->factor_count; f++)
        if ((inner->factors >> f & 1) == inside) part.factors[part.factor_count++] = whole->factors[f];
    return part;
}

/* The sum, with sums of some of its factors in locals where that pays. */
static hr_expr *sum_apart(normaliser *n, const hr_expr *expr, const product *whole) {
    hr_graph *graph = n->graph;
    hr_factoring inner;
    if (graph->full || !hr_sum_factored(graph->function, n->extents, whole->bound, whole->bound_count,
                                        whole->factors, whole->factor_count, &inner)) {
        hr_expr *value = product_of(graph, whole, expr->type);
        if (whole->bound_count == 0) return value;
        return hr_graph_reduce(graph, HR_OP_REDUCE_SUM, expr->type, whole->bound_count, whole->bound, value);
    }
    graph->sums_apart = true;
    const product inside = part_of(n, whole, &inner, true);
    product rest = part_of(n, whole, &inner, false);
    for (int i = 0; i < rest.bound_count; i++)
        n->scope[n->scope_count++] = rest.bound[i];
    rest.factors[rest.factor_count++] = hoist(n, sum_apart(n, expr, &inside), "sum", expr->place);
    n->scope_count -= rest.bound_count;
    return sum_apart(n, expr, &rest);
}

/* The factors of a sum over a product; false where it is none, or has too many. */
static bool factors_of(const normaliser *n, const hr_expr *expr, hr_expr *body, product *whole) {
    const bool real = expr->type == HR_F32 || expr->type == HR_F64;
    *whole = (product){expr->bound_count, expr->bound, 0, {0}};
    return n->extents && expr->op == HR_OP_REDUCE_SUM && real && body->type == expr->type &&
           add_factors(whole, body) && whole->factor_count > 1;
}

/* NULL where it is no sum over a product that may be taken apart. */
static hr_expr *take_apart(normaliser *n, const hr_expr *expr, hr_expr *body) {
    product whole;
    if (n->graph->full || expr->bound_count < 2 || !factors_of(n, expr, body, &whole)) return NULL;
    return sum_apart(n, expr, &whole);
}

/* Some index in force is in one of the factors and not in another. */
static bool factors_differ(const normaliser *n, const product *p) {
    bool differ = false;
    for (int i = 0; i < n->scope_count; i++)
        for (int f = 1; f < p->factor_count; f++)
            differ = differ || hr_expr_has_index(p->factors[f], n->scope[i]) !=
                                   hr_expr_has_index(p->factors[0], n->scope[i]);
    return differ;
}

/* A matrix product times constants, or of elements of 8 and 16 bits times what does not vary along the sum (a
 * norm's factor of a row): these leave the sum, whose operands stay what they are in memory. NULL where it is
 * none. */
static hr_expr *pull_factors(normaliser *n, const hr_expr *expr, hr_expr *body) {
    product whole, rest = {expr->bound_count, expr->bound, 0, {0}};
    hr_expr *outside = NULL;
    if (!factors_of(n, expr, body, &whole)) return NULL;
    const bool narrow = hr_factors_are_narrow(n->graph->function, whole.factors, whole.factor_count,
                                              expr->bound, expr->bound_count);
    for (int f = 0; f < whole.factor_count; f++) {
        hr_expr *factor = whole.factors[f];
        if (hr_factor_stays(factor, expr->bound, expr->bound_count, narrow))
            rest.factors[rest.factor_count++] = factor;
        else
            outside = outside ? hr_graph_binary(n->graph, HR_OP_MUL, expr->type, outside, factor) : factor;
    }
    if (!outside || rest.factor_count < 2 || !factors_differ(n, &rest)) return NULL;
    return hr_graph_binary(n->graph, HR_OP_MUL, expr->type, outside,
                           hoist(n, sum_apart(n, expr, &rest), "sum", expr->place));
}

/* What a scan reads it reads wherever its own value is asked for. */
static hr_expr *rewrite_scan(normaliser *n, const hr_expr *expr, bool top) {
    hr_expr *args[3];
    for (int i = 0; i < 3; i++)
        args[i] = rewrite(n, expr->args[i], NULL);
    hr_expr *value = hr_graph_with_args(n->graph, expr, args);
    return top ? value : hoist(n, value, "scan", expr->place);
}

static hr_expr *rewrite_topk(normaliser *n, const hr_expr *expr, bool top) {
    hr_expr *args[2] = {NULL, rewrite(n, expr->args[1], NULL)};
    n->scope[n->scope_count++] = expr->bound[0];
    args[0] = rewrite(n, expr->args[0], NULL);
    n->scope_count--;
    hr_expr *value = hr_graph_with_args(n->graph, expr, args);
    return top ? value : hoist(n, value, "place", expr->place);
}

static hr_expr *rewrite_reduction(normaliser *n, const hr_expr *expr, hr_expr *guard, bool top) {
    if (hr_op_is_scan(expr->op)) return rewrite_scan(n, expr, top);
    if (expr->op == HR_OP_TOPK) return rewrite_topk(n, expr, top);
    bool binds = expr->op != HR_OP_SOFTMAX;
    for (int i = 0; binds && i < expr->bound_count; i++)
        n->scope[n->scope_count++] = expr->bound[i];
    hr_expr *body = rewrite(n, expr->args[0], guard);
    if (binds) n->scope_count -= expr->bound_count;
    hr_expr *value = write_out(n, expr, body);
    if (!value) value = pull_factors(n, expr, body);
    if (!value) value = take_apart(n, expr, body);
    if (!value) value = spell_out(n, expr, body);
    if (top || !hr_op_is_reduction(value->op)) return value;
    return hoist(n, value, reduction_name(value->op), expr->place);
}

/* ---- expressions ---- */

static hr_expr *rewrite_element(normaliser *n, const hr_expr *expr, hr_expr *guard) {
    hr_graph *graph = n->graph;
    hr_expr *subscripts[HR_AXES_MAX + 1] = {0};
    int count = expr->arg_count;
    for (int i = 0; i < count; i++)
        subscripts[i] = rewrite(n, expr->args[i], guard);
    int tensor = n->version[expr->tensor];
    if (guard && count) {
        hr_expr *element = hr_graph_element(graph, tensor, count, subscripts);
        bool safe = true;
        for (int i = 0; i < count; i++)
            safe = safe && hr_subscript_is_safe(graph->function, subscripts[i],
                                                graph->function->tensors[tensor].shape[i]);
        if (safe) return element;
        subscripts[count++] = guard;
    }
    return hr_graph_element(graph, tensor, count, subscripts);
}

static hr_expr *conjunction(hr_graph *graph, hr_expr *a, hr_expr *b) {
    return a ? hr_graph_binary(graph, HR_OP_AND, HR_BOOL, a, b) : b;
}

static hr_expr *rewrite_node(normaliser *n, const hr_expr *expr, hr_expr *guard) {
    hr_graph *graph = n->graph;
    if (hr_op_is_reduction(expr->op) || hr_op_leaves_free(expr->op))
        return rewrite_reduction(n, expr, guard, false);
    if (expr->op == HR_OP_ELEMENT) return rewrite_element(n, expr, guard);
    if (expr->op == HR_OP_STOP) return rewrite(n, expr->args[0], guard);
    hr_expr *args[8];
    if (expr->op == HR_OP_WHERE) {
        args[0] = rewrite(n, expr->args[0], guard);
        args[1] = rewrite(n, expr->args[1], conjunction(graph, guard, args[0]));
        hr_expr *otherwise = hr_graph_unary(graph, HR_OP_NOT, HR_BOOL, args[0]);
        args[2] = rewrite(n, expr->args[2], conjunction(graph, guard, otherwise));
    } else {
        for (int i = 0; i < expr->arg_count; i++)
            args[i] = rewrite(n, expr->args[i], guard);
    }
    return graph->fixed ? hr_fold(graph, expr, args) : hr_graph_with_args(graph, expr, args);
}

static bool copies_add(normaliser *n, int id, const hr_expr *guard, hr_expr *copy) {
    if (n->copy_count == n->copy_capacity) {
        int capacity = n->copy_capacity ? n->copy_capacity * 2 : 64;
        guarded_copy *copies = hr_memory_resize(n->copies, (size_t)capacity * sizeof *copies);
        if (!copies) return false;
        n->copies = copies;
        n->copy_capacity = capacity;
    }
    n->copies[n->copy_count++] = (guarded_copy){id, guard, copy};
    return true;
}

static hr_expr *rewrite(normaliser *n, const hr_expr *expr, hr_expr *guard) {
    if (n->graph->full) return n->graph->placeholder;
    bool plain = !is_sensitive(n, expr);
    if (plain && n->plain[expr->id]) return n->plain[expr->id];
    if (!plain)
        for (int i = n->copy_count - 1; i >= 0; i--)
            if (n->copies[i].id == expr->id && n->copies[i].guard == guard) return n->copies[i].copy;
    hr_expr *copy = rewrite_node(n, expr, guard);
    if (plain)
        n->plain[expr->id] = copy;
    else if (!copies_add(n, expr->id, guard, copy))
        n->graph->full = true;
    return copy;
}

/* ---- statements ---- */

static bool is_plain_left_side(const hr_statement *statement) {
    if (statement->domain_count != statement->subscript_count) return false;
    for (int i = 0; i < statement->subscript_count; i++) {
        if (statement->subscripts[i]->op != HR_OP_INDEX) return false;
        for (int j = 0; j < i; j++)
            if (statement->subscripts[j] == statement->subscripts[i] ||
                statement->subscripts[j]->index == statement->subscripts[i]->index)
                return false;
    }
    return true;
}

static hr_dtype wider(hr_dtype a, hr_dtype b) {
    static const int rank[HR_DTYPE_COUNT] = {
        [HR_BOOL] = 0, [HR_I32] = 1, [HR_I64] = 2, [HR_F32] = 3, [HR_F64] = 4};
    return rank[a] > rank[b] ? a : b;
}

/* The tensor that a statement writes: a result, a local under its number in the graph, or an inout's new
 * version, kept in the inout's memory. */
static int written_tensor(normaliser *n, const hr_statement *statement) {
    const hr_tensor *tensor = &n->source->tensors[statement->tensor];
    if (tensor->role == HR_ROLE_RESULT) return statement->tensor;
    hr_expr *shape[HR_AXES_MAX];
    for (int a = 0; a < tensor->rank; a++)
        shape[a] = hr_graph_substitute(n->graph, tensor->shape[a], 0, NULL, NULL);
    int storage = tensor->role == HR_ROLE_INOUT ? statement->tensor : -1;
    return hr_graph_add_local(n->graph, tensor->name, tensor->dtype, tensor->rank, shape, storage);
}

static void add_scatter(normaliser *n, const hr_statement *from, int tensor, hr_expr *const *subscripts,
                        hr_expr *value) {
    hr_graph *graph = n->graph;
    if (from->store == HR_STORE_ADD)
        value = hr_graph_convert(
            graph, wider(value->type, hr_compute_type(graph->function->tensors[tensor].dtype)), value);
    hr_statement *statement =
        hr_graph_add_statement(graph, tensor, from->domain_count, from->domain, value, from->place);
    statement->store = from->store;
    statement->subscript_count = from->subscript_count;
    statement->subscripts =
        hr_arena_alloc(graph->arena, (size_t)(from->subscript_count + 1) * sizeof *subscripts);
    memcpy(statement->subscripts, subscripts, (size_t)from->subscript_count * sizeof *subscripts);
}

/* new[i...] = old[i...] + more[i...] (old only for an inout), over fresh indices. */
static void add_sum_over(normaliser *n, int target, int old, int more, hr_place place) {
    hr_graph *graph = n->graph;
    const hr_tensor *tensor = &graph->function->tensors[target];
    int rank = tensor->rank, domain[HR_AXES_MAX + 1];
    hr_expr *subscripts[HR_AXES_MAX + 1];
    for (int a = 0; a < rank; a++) {
        domain[a] = hr_graph_add_index(graph, hr_arena_format(graph->arena, "i%d", a), tensor->shape[a]);
        tensor = &graph->function->tensors[target];
        subscripts[a] = hr_graph_index_value(graph, domain[a]);
    }
    hr_expr *value = hr_graph_element(graph, more, rank, subscripts);
    if (old >= 0) {
        hr_expr *before = hr_graph_element(graph, old, rank, subscripts);
        hr_dtype type = wider(before->type, value->type);
        value = hr_graph_binary(graph, HR_OP_ADD, type, hr_graph_convert(graph, type, before),
                                hr_graph_convert(graph, type, value));
    }
    hr_graph_add_statement(graph, target, rank, domain, value, place);
}

static bool accumulates_in_place(hr_dtype dtype) {
    return dtype == HR_F32 || dtype == HR_F64 || dtype == HR_I64;
}

static void normalise_scatter(normaliser *n, const hr_statement *statement) {
    hr_graph *graph = n->graph;
    hr_expr *subscripts[HR_AXES_MAX + 1], *value = rewrite(n, statement->value, NULL);
    for (int i = 0; i < statement->subscript_count; i++)
        subscripts[i] = rewrite(n, statement->subscripts[i], NULL);
    int target = written_tensor(n, statement);
    const hr_tensor *tensor = &graph->function->tensors[statement->tensor];
    bool inout = tensor->role == HR_ROLE_INOUT;
    if (statement->store == HR_STORE_PLACE ||
        (accumulates_in_place(tensor->dtype) &&
         wider(value->type, hr_compute_type(tensor->dtype)) == tensor->dtype)) {
        add_scatter(n, statement, target, subscripts, value);
    } else { /* many small addends: gather them in a wide local first */
        hr_dtype wide = hr_compute_type(tensor->dtype) == HR_F32 ? HR_F32 : HR_I64;
        wide = wider(wide, value->type);
        int sums = hr_graph_add_local(graph, tensor->name, wide, tensor->rank, tensor->shape, -1);
        add_scatter(n, statement, sums, subscripts, value);
        add_sum_over(n, target, inout ? statement->tensor : -1, sums, statement->place);
    }
    n->version[statement->tensor] = target;
}

static void normalise_statement(normaliser *n, const hr_statement *statement) {
    hr_graph *graph = n->graph;
    n->scope_count = 0;
    for (int i = 0; i < statement->domain_count; i++)
        n->scope[n->scope_count++] = statement->domain[i];
    if (statement->store == HR_STORE_PLACE ||
        (statement->store == HR_STORE_ADD && !is_plain_left_side(statement))) {
        normalise_scatter(n, statement);
        return;
    }
    const hr_expr *value = statement->value;
    const bool whole = hr_op_is_reduction(value->op) || hr_op_is_scan(value->op);
    hr_expr *copy = whole && statement->store == HR_STORE_WHOLE ? rewrite_reduction(n, value, NULL, true)
                                                                : rewrite(n, value, NULL);
    bool inout = n->source->tensors[statement->tensor].role == HR_ROLE_INOUT;
    int order[HR_AXES_MAX + 1];
    hr_expr *subscripts[HR_AXES_MAX + 1];
    for (int i = 0; i < statement->subscript_count; i++) {
        order[i] = statement->subscripts[i]->index;
        subscripts[i] = hr_graph_index_value(graph, order[i]);
    }
    if (statement->store != HR_STORE_WHOLE && inout) {
        hr_expr *before = hr_graph_element(graph, statement->tensor, statement->subscript_count, subscripts);
        hr_dtype type = wider(before->type, copy->type);
        copy = hr_graph_binary(graph, HR_OP_ADD, type, hr_graph_convert(graph, type, before),
                               hr_graph_convert(graph, type, copy));
    }
    int target = written_tensor(n, statement);
    hr_graph_add_statement(graph, target, statement->subscript_count, order, copy, statement->place);
    n->version[statement->tensor] = target;
}

/* ---- locals that nobody reads ---- */

void hr_graph_drop_unread(hr_graph *graph) {
    hr_function *function = graph->function;
    bool *read = hr_memory_zeros((size_t)function->tensor_count + 1, 1);
    int kept = function->statement_count;
    for (int s = function->statement_count - 1; read && s >= 0; s--) {
        const hr_statement statement = function->statements[s];
        int t = statement.tensor;
        bool local = function->tensors[t].role == HR_ROLE_LOCAL && graph->storage[t] == t;
        if (local && !read[t]) continue;
        hr_expr_mark_read(statement.value, read);
        for (int a = 0; a < statement.subscript_count; a++)
            hr_expr_mark_read(statement.subscripts[a], read);
        function->statements[--kept] = statement;
    }
    if (read) {
        function->statement_count -= kept;
        memmove(function->statements, function->statements + kept,
                (size_t)function->statement_count * sizeof *function->statements);
    }
    free(read);
}

hr_status hr_pass_normalise(hr_graph *graph, const int64_t *extents) {
    const hr_function *source = graph->source;
    int ids = source->expr_count + 1, tensors = source->tensor_count + 1;
    normaliser n = {.graph = graph, .source = source, .extents = extents};
    n.version = hr_memory_zeros((size_t)tensors, sizeof *n.version);
    n.plain = hr_memory_zeros((size_t)ids, sizeof *n.plain);
    n.sensitive = hr_memory_take((size_t)ids);
    n.scope = hr_memory_zeros((size_t)source->index_count * 2 + 64, sizeof *n.scope);
    bool memory = n.version && n.plain && n.sensitive && n.scope;
    if (memory) memset(n.sensitive, -1, (size_t)ids);
    for (int t = 0; memory && t < hr_function_arguments(source); t++)
        n.version[t] = t;
    for (int s = 0; memory && s < source->statement_count && !graph->full; s++) {
        const hr_statement *statement = &source->statements[s];
        memset(n.plain, 0, (size_t)ids * sizeof *n.plain); /* versions of inouts change between statements */
        n.copy_count = 0;
        normalise_statement(&n, statement);
    }
    free(n.version);
    free(n.plain);
    free(n.sensitive);
    free(n.scope);
    free(n.copies);
    if (!memory) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning kernel %.60s", source->name);
    if (!graph->full) hr_graph_inline_shifted(graph);
    if (!graph->full) hr_graph_drop_unread(graph);
    return hr_graph_status(graph);
}
