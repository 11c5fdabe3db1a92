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

/* As what it is made from lies in memory, where one element has all of the indices. */
static int order_indices(hr_algebra *algebra, const hr_expr *value, hr_index_set set, int *out) {
    index_order order = {.algebra = algebra, .wanted = set};
    hr_expr_visit(value, note_order, &order);
    if (order.count < __builtin_popcountll(set)) order.count = 0;
    memcpy(out, order.indices, (size_t)order.count * sizeof *out);
    for (int i = 0; i < order.count; i++)
        set &= ~hr_index_bit(algebra, out[i]);
    return order.count + hr_index_list(algebra, set, out + order.count);
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
