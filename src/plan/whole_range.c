/* Intervals of whole numbers. In: an expression and numbers for extents. Out: bounds. See whole_range.h. */
#include "plan/whole_range.h"

#include "plan/assumption.h"

enum { STEPS_MOST = 4096 };

typedef struct walk {
    const hr_function *function;
    const int64_t *extents;
    int steps; /* an expression may be a graph that is as deep as the text is long */
} walk;

static const interval unknown = {0, 0, false};

static interval range_of(walk *w, const hr_expr *e);

hr_interval_operation hr_interval_operation_of(hr_op op) {
    static const hr_interval_operation operations[] = {
        [HR_OP_ADD] = {"interval_add", interval_add},
        [HR_OP_SUB] = {"interval_sub", interval_sub},
        [HR_OP_MUL] = {"interval_mul", interval_mul},
        [HR_OP_FLOORDIV] = {"interval_floordiv", interval_floordiv},
        [HR_OP_MOD] = {"interval_mod", interval_mod},
        [HR_OP_MIN] = {"interval_min", interval_min},
        [HR_OP_MAX] = {"interval_max", interval_max},
        [HR_OP_WHERE] = {"interval_either", interval_either},
    };
    const hr_interval_operation none = {0};
    return (size_t)op < sizeof operations / sizeof *operations ? operations[op] : none;
}

interval hr_interval_of_dtype(hr_dtype dtype) {
    return dtype == HR_I8   ? interval_of(INT8_MIN, INT8_MAX)
           : dtype == HR_U8 ? interval_of(0, UINT8_MAX)
                            : unknown;
}

static interval range_of_operation(walk *w, const hr_expr *e) {
    const hr_interval_operation operation = hr_interval_operation_of(e->op);
    const int first = e->op == HR_OP_WHERE;
    if (e->op == HR_OP_NEG) return interval_neg(range_of(w, e->args[0]));
    if (!operation.value) return unknown; /* a scalar, say, which has no arguments */
    const interval a = range_of(w, e->args[first]);
    return a.known ? operation.value(a, range_of(w, e->args[first + 1])) : a;
}

static interval extent_of(const walk *w, const hr_expr *extent) {
    int64_t size = extent->whole;
    const bool known = extent->op == HR_OP_NUMBER ||
                       (w->extents && hr_extent_value(w->function, extent, w->extents, &size) == HR_OK);
    return known ? interval_number(size) : unknown;
}

static interval range_of(walk *w, const hr_expr *e) {
    if (++w->steps > STEPS_MOST) return unknown;
    switch (e->op) {
    case HR_OP_NUMBER:
        return interval_number(e->whole);
    case HR_OP_EXTENT:
        return extent_of(w, e);
    case HR_OP_INDEX:
        return interval_index(extent_of(w, w->function->indices[e->index].extent));
    case HR_OP_ELEMENT:
        return hr_interval_of_dtype(w->function->tensors[e->tensor].dtype);
    default:
        return e->type == HR_I64 || e->type == HR_I32 ? range_of_operation(w, e) : unknown;
    }
}

interval hr_whole_range_of(const hr_function *function, const int64_t *extents, const hr_expr *expr) {
    walk w = {.function = function, .extents = extents};
    return range_of(&w, expr);
}

bool hr_whole_fits_lanes(hr_graph *graph, const int64_t *extents, const hr_expr *expr) {
    if (expr->op == HR_OP_CONVERT && (expr->args[0]->type == HR_I32 || expr->args[0]->type == HR_BOOL))
        return true;
    const int64_t *known = graph->any_extents ? NULL : extents;
    const bool fits = hr_whole_range_of(graph->function, known, expr).known;
    if (fits) hr_assume_fits(graph, expr);
    return fits;
}

bool hr_whole_is_small(const hr_function *function, const hr_expr *expr, int *count) {
    const interval range = hr_whole_range_of(function, NULL, expr);
    const bool small = range.known && range.low >= 0 && range.high < HR_SMALL;
    *count = small ? (int)range.high + 1 : 0;
    return small;
}

bool hr_element_is_small(const hr_function *function, const hr_expr *element) {
    const hr_tensor *tensor = &function->tensors[element->tensor];
    int count;
    if (element->arg_count != tensor->rank || !tensor->rank) return false;
    const hr_expr *axis = tensor->shape[tensor->rank - 1];
    return hr_whole_is_small(function, element->args[tensor->rank - 1], &count) && axis->op == HR_OP_NUMBER &&
           count <= axis->whole;
}
