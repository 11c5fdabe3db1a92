/* Locals of a derived kernel. In: values. Out: tensors that will hold them, and their elements. */
#include "grad/algebra.h"
#include "ir/visit.h"

#include <string.h>

/* The order in which one element has the most of the indices. */
typedef struct index_order {
    hr_algebra *algebra;
    hr_index_set wanted;
    int count, indices[HR_GRAD_INDICES];
} index_order;

static hr_visit note_order(void *context, const hr_expr *node) {
    index_order *order = context;
    int count = 0, indices[HR_RANK_MAX + 1];
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    for (int a = 0; a < node->arg_count; a++)
        if (node->args[a]->op == HR_OP_INDEX &&
            order->wanted & hr_index_bit(order->algebra, node->args[a]->index) &&
            !hr_indices_have(indices, count, node->args[a]->index))
            indices[count++] = node->args[a]->index;
    if (count <= order->count) return HR_VISIT_PAST;
    order->count = count;
    memcpy(order->indices, indices, (size_t)count * sizeof *indices);
    return HR_VISIT_PAST;
}

/* The last axis of the widest element that is no part of a sum. */
static hr_visit note_last(void *context, const hr_expr *node) {
    index_order *order = context;
    if (hr_op_is_reduction(node->op)) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT || node->arg_count <= order->count) return HR_VISIT_ON;
    const hr_expr *last = node->args[node->arg_count - 1];
    if (last->op != HR_OP_INDEX || !(order->wanted & hr_index_bit(order->algebra, last->index)))
        return HR_VISIT_ON;
    order->count = node->arg_count;
    order->indices[0] = last->index;
    return HR_VISIT_PAST;
}

/* Of those that are not rounded for the product at hand. */
static hr_visit note_last_plain(void *context, const hr_expr *node) {
    return node->op == HR_OP_CONVERT ? HR_VISIT_PAST : note_last(context, node);
}

/* A product's columns are those of the operand that is as it lies: they come last, and its rows follow each
 * other. */
static void order_columns(hr_algebra *algebra, const hr_expr *value, hr_index_set set, int count, int *out) {
    index_order last = {.algebra = algebra, .wanted = set};
    if (value->op == HR_OP_CONVERT) value = value->args[0];
    if (value->op != HR_OP_REDUCE_SUM) return;
    hr_expr_visit(value->args[0], note_last_plain, &last);
    if (!last.count) hr_expr_visit(value->args[0], note_last, &last);
    for (int i = 0; last.count && i + 1 < count; i++)
        if (out[i] == last.indices[0]) {
            memmove(&out[i], &out[i + 1], (size_t)(count - 1 - i) * sizeof *out);
            out[count - 1] = last.indices[0];
        }
}

/* As what it is made from lies in memory, or what it is like, where one element has all of the indices. */
static int order_indices(hr_algebra *algebra, const hr_expr *value, hr_index_set set, int *out) {
    index_order order = {.algebra = algebra, .wanted = set};
    hr_expr_visit(value, note_order, &order);
    const int wanted = __builtin_popcountll(set);
    for (int i = 0; i < algebra->like_count && order.count < wanted; i++)
        note_order(&order, algebra->like[i]);
    if (order.count < wanted) order.count = 0;
    memcpy(out, order.indices, (size_t)order.count * sizeof *out);
    for (int i = 0; i < order.count; i++)
        set &= ~hr_index_bit(algebra, out[i]);
    const int count = order.count + hr_index_list(algebra, set, out + order.count);
    if (!order.count) order_columns(algebra, value, set, count, out);
    return count;
}

hr_expr *hr_local_create(hr_algebra *algebra, const char *name, const hr_expr *value, hr_index_set set) {
    int indices[HR_GRAD_INDICES];
    hr_expr *shape[HR_GRAD_INDICES], *subscripts[HR_GRAD_INDICES];
    hr_graph *graph = algebra->graph;
    const hr_dtype type = hr_compute_type(value->type);
    const int rank = order_indices(algebra, value, set, indices);
    if (rank > HR_RANK_MAX) {
        graph->full = true;
        return graph->placeholder;
    }
    for (int i = 0; i < rank; i++) {
        shape[i] = graph->function->indices[indices[i]].extent;
        subscripts[i] = hr_graph_index_value(graph, indices[i]);
    }
    const int tensor = hr_graph_add_local(graph, name, type, rank, shape, -1);
    return hr_graph_element(graph, tensor, rank, subscripts);
}

hr_expr *hr_hold(hr_algebra *algebra, hr_expr *value) {
    for (int i = 0; i < algebra->held_count; i++)
        if (algebra->held[i].value == value) return algebra->held[i].element;
    hr_expr *element = hr_local_create(algebra, "", value, hr_free_indices(algebra, value));
    if (algebra->graph->full) return element;
    if (algebra->held_count == algebra->held_capacity) {
        const int capacity = algebra->held_capacity ? 2 * algebra->held_capacity : 16;
        hr_held_value *held = hr_algebra_take(algebra, (size_t)capacity * sizeof *held);
        if (algebra->held_count) memcpy(held, algebra->held, (size_t)algebra->held_count * sizeof *held);
        algebra->held = held;
        algebra->held_capacity = capacity;
    }
    algebra->held[algebra->held_count++] = (hr_held_value){.value = value, .element = element};
    return element;
}

hr_held_value *hr_held_by(hr_algebra *algebra, const hr_expr *element) {
    if (element->op != HR_OP_ELEMENT) return NULL;
    for (int i = 0; i < algebra->held_count; i++)
        if (algebra->held[i].element->tensor == element->tensor) return &algebra->held[i];
    return NULL;
}
