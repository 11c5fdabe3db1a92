/* A sum over a few elements beside each other, or the place of their largest, written out: a convolution's
 * taps, a pooling's window, a row of three. In: a reduction whose body is rewritten. Out: an expression
 * without it.
 *
 * As a reduction it would be a row of its own, of four elements, say, for each element of the result. Written
 * out it is part of a map, whose lanes run along the result, and equal expressions are one node.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>

enum { TERMS_MOST = 16, ROW_MOST = 8, NODES_MOST = 1024 };

typedef struct survey {
    const hr_function *function;
    const bool *bound; /* by index: of the reduction */
    bool local;        /* an element of a local that varies along the reduction */
    int rank;          /* of the largest tensor with an element that varies along it */
    bool along;        /* of those, one runs along memory as the result does, or aside of it */
    bool row;          /* all of those are rows of it: it is the last subscript */
    int nodes;
} survey;

static hr_visit is_bound(const hr_expr *node, const void *bound) {
    return hr_visit_until(node->op == HR_OP_INDEX && ((const bool *)bound)[node->index]);
}

static hr_visit is_free(const hr_expr *node, const void *bound) {
    return hr_visit_until(node->op == HR_OP_INDEX && !((const bool *)bound)[node->index]);
}

static void look_at_element(survey *s, const hr_expr *element) {
    const hr_tensor *tensor = &s->function->tensors[element->tensor];
    if (!hr_expr_find(element, is_bound, s->bound)) return;
    s->local |= tensor->role == HR_ROLE_LOCAL;
    const hr_expr *last = element->args[tensor->rank - 1];
    if (tensor->rank > s->rank) s->along = false, s->row = true;
    if (tensor->rank >= s->rank) {
        s->along |= hr_expr_find(last, is_free, s->bound) != NULL;
        s->row &= last->op == HR_OP_INDEX && s->bound[last->index];
    }
    if (tensor->rank > s->rank) s->rank = tensor->rank;
}

static hr_visit look(void *context, const hr_expr *node) {
    survey *s = context;
    if (++s->nodes > NODES_MOST) return HR_VISIT_STOP;
    if (node->op == HR_OP_ELEMENT) look_at_element(s, node);
    return HR_VISIT_ON;
}

/* The number of terms; 0 where that is not a small number of the text. */
static int64_t terms_of(const hr_function *function, const hr_expr *reduction) {
    int64_t terms = 1;
    for (int i = 0; i < reduction->bound_count; i++) {
        const hr_expr *extent = function->indices[reduction->bound[i]].extent;
        if (extent->op != HR_OP_NUMBER || extent->whole < 1 || extent->whole > TERMS_MOST) return 0;
        terms *= extent->whole;
    }
    return terms <= TERMS_MOST ? terms : 0;
}

static hr_op operation_of(hr_op reduce) {
    switch (reduce) {
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MEAN:
        return HR_OP_ADD;
    case HR_OP_REDUCE_MAX:
        return HR_OP_MAX;
    case HR_OP_REDUCE_MIN:
        return HR_OP_MIN;
    case HR_OP_REDUCE_PROD:
        return HR_OP_MUL;
    default:
        return HR_OP_REDUCE_SUM; /* none */
    }
}

/* Lanes along the result read what the reduction reads; along the reduction itself a row would, unless that
 * is less than a vector or two: then each result reads a row of its own. */
static bool pays(const hr_graph *graph, const hr_expr *reduction, const hr_expr *body, int scope,
                 int64_t terms) {
    bool *bound = hr_memory_zeros((size_t)graph->function->index_count + 1, sizeof *bound);
    survey s = {.function = graph->function, .bound = bound};
    for (int i = 0; i < reduction->bound_count && bound; i++)
        bound[reduction->bound[i]] = true;
    if (bound) hr_expr_visit(body, look, &s);
    free(bound);
    const bool rows =
        graph->rows_written && s.row && terms <= ROW_MOST && s.rank == scope + reduction->bound_count;
    return bound && (s.along || rows) && !s.local && s.nodes * terms <= NODES_MOST;
}

/* The body at one place of the reduction, counted in row-major order. */
static hr_expr *term_of(hr_graph *graph, const hr_expr *reduction, hr_expr *body, int64_t term) {
    for (int i = reduction->bound_count - 1; i >= 0; i--) {
        const int64_t size = graph->function->indices[reduction->bound[i]].extent->whole;
        body = hr_expr_at(graph, body, reduction->bound[i], term % size);
        term /= size;
    }
    return body;
}

static hr_expr *folded(hr_graph *graph, hr_op op, const hr_expr *reduction, hr_expr *body, int64_t terms) {
    hr_expr *value = NULL;
    for (int64_t term = 0; term < terms && !graph->full; term++) {
        hr_expr *one = hr_graph_convert(graph, reduction->type, term_of(graph, reduction, body, term));
        value = value ? hr_graph_binary(graph, op, reduction->type, value, one) : one;
    }
    return value ? value : graph->placeholder;
}

/* The first of the best: a NaN is better than any number, and nothing is better than a NaN. */
static hr_expr *place_of_best(hr_graph *graph, const hr_expr *reduction, hr_expr *body, int64_t terms) {
    if (body->type == HR_BOOL) body = hr_graph_convert(graph, HR_I32, body);
    const hr_op worse = hr_op_seeks_largest(reduction->op) ? HR_OP_LE : HR_OP_GE;
    hr_expr *place = hr_graph_convert(graph, reduction->type, hr_graph_whole(graph, 0));
    hr_expr *best = term_of(graph, reduction, body, 0);
    for (int64_t term = 1; term < terms && !graph->full; term++) {
        hr_expr *one = term_of(graph, reduction, body, term);
        hr_expr *better =
            hr_graph_unary(graph, HR_OP_NOT, HR_BOOL, hr_graph_binary(graph, worse, HR_BOOL, one, best));
        if (hr_dtype_is_float(best->type))
            better = hr_graph_binary(graph, HR_OP_AND, HR_BOOL, better,
                                     hr_graph_binary(graph, HR_OP_EQ, HR_BOOL, best, best));
        hr_expr *here = hr_graph_convert(graph, reduction->type, hr_graph_whole(graph, term));
        place = hr_graph_where(graph, better, here, place);
        best = hr_graph_where(graph, better, one, best);
    }
    return graph->full ? graph->placeholder : place;
}

hr_expr *hr_reduction_written(hr_graph *graph, const hr_expr *reduction, hr_expr *body, int scope) {
    const hr_op op = operation_of(reduction->op);
    const bool finds = hr_op_finds_position(reduction->op);
    const int64_t terms = terms_of(graph->function, reduction);
    if ((op == HR_OP_REDUCE_SUM && !finds) || !terms || !pays(graph, reduction, body, scope, terms))
        return NULL;
    if (finds) return place_of_best(graph, reduction, body, terms);
    hr_expr *value = folded(graph, op, reduction, body, terms);
    if (reduction->op != HR_OP_REDUCE_MEAN || graph->full) return value;
    hr_expr *count = hr_graph_convert(graph, reduction->type, hr_graph_whole(graph, terms));
    return hr_graph_binary(graph, HR_OP_DIV, reduction->type, value, count);
}
