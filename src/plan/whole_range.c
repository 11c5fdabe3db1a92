/* Intervals of whole numbers. In: an expression and numbers for extents. Out: bounds. See whole_range.h. */
#include "plan/whole_range.h"

enum { LIMIT = 1 << 30, STEPS_MOST = 4096 };

typedef struct walk {
    const hr_function *function;
    const int64_t *extents;
    int steps; /* an expression may be a graph that is as deep as the text is long */
} walk;

static bool range_of(walk *w, const hr_expr *e, hr_whole_range *out);

static hr_whole_range product(hr_whole_range a, hr_whole_range b) {
    int64_t corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    hr_whole_range range = {corners[0], corners[0]};
    for (int i = 1; i < 4; i++) {
        if (corners[i] < range.low) range.low = corners[i];
        if (corners[i] > range.high) range.high = corners[i];
    }
    return range;
}

static int64_t floor_quotient(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* By whole numbers above 0. */
static hr_whole_range remainder_of(hr_whole_range a, hr_whole_range b) {
    return a.low >= 0 && a.high < b.low ? a : (hr_whole_range){0, b.high - 1};
}

static bool has_range(hr_op op) {
    return op == HR_OP_NEG || op == HR_OP_ADD || op == HR_OP_SUB || op == HR_OP_MUL || op == HR_OP_FLOORDIV ||
           op == HR_OP_MOD || op == HR_OP_MIN || op == HR_OP_MAX || op == HR_OP_WHERE;
}

static bool range_of_operation(walk *w, const hr_expr *e, hr_whole_range *out) {
    hr_whole_range a, b = {0, 0};
    int first = e->op == HR_OP_WHERE;
    if (!has_range(e->op)) return false; /* a scalar, say, which has no arguments */
    if (!range_of(w, e->args[first], &a)) return false;
    if (e->arg_count > first + 1 && !range_of(w, e->args[first + 1], &b)) return false;
    switch (e->op) {
    case HR_OP_ADD:
        *out = (hr_whole_range){a.low + b.low, a.high + b.high};
        return true;
    case HR_OP_SUB:
        *out = (hr_whole_range){a.low - b.high, a.high - b.low};
        return true;
    case HR_OP_NEG:
        *out = (hr_whole_range){-a.high, -a.low};
        return true;
    case HR_OP_MUL:
        *out = product(a, b);
        return true;
    case HR_OP_FLOORDIV:
        if (b.low <= 0 || b.low != b.high) return false;
        *out = (hr_whole_range){floor_quotient(a.low, b.low), floor_quotient(a.high, b.low)};
        return true;
    case HR_OP_MOD:
        if (b.low <= 0) return false;
        *out = remainder_of(a, b);
        return true;
    case HR_OP_MIN:
        *out = (hr_whole_range){least(a.low, b.low), least(a.high, b.high)};
        return true;
    case HR_OP_MAX:
        *out = (hr_whole_range){most(a.low, b.low), most(a.high, b.high)};
        return true;
    default: /* one of the two */
        *out = (hr_whole_range){least(a.low, b.low), most(a.high, b.high)};
        return true;
    }
}

static bool range_of_dtype(hr_dtype dtype, hr_whole_range *out) {
    *out = dtype == HR_I8 ? (hr_whole_range){INT8_MIN, INT8_MAX} : (hr_whole_range){0, UINT8_MAX};
    return dtype == HR_I8 || dtype == HR_U8;
}

static bool extent_of(const walk *w, const hr_expr *extent, int64_t *out) {
    *out = extent->whole;
    if (extent->op == HR_OP_NUMBER) return true;
    return w->extents && hr_extent_value(w->function, extent, w->extents, out) == HR_OK;
}

static bool range_of(walk *w, const hr_expr *e, hr_whole_range *out) {
    int64_t size = 0;
    if (++w->steps > STEPS_MOST) return false;
    switch (e->op) {
    case HR_OP_NUMBER:
        *out = (hr_whole_range){e->whole, e->whole};
        break;
    case HR_OP_EXTENT:
        if (!extent_of(w, e, &size)) return false;
        *out = (hr_whole_range){size, size};
        break;
    case HR_OP_INDEX:
        if (!extent_of(w, w->function->indices[e->index].extent, &size)) return false;
        *out = (hr_whole_range){0, size > 0 ? size - 1 : 0};
        break;
    case HR_OP_ELEMENT:
        return range_of_dtype(w->function->tensors[e->tensor].dtype, out);
    default:
        if (e->type != HR_I64 && e->type != HR_I32) return false;
        if (!range_of_operation(w, e, out)) return false;
    }
    return out->low > -LIMIT && out->high < LIMIT;
}

bool hr_whole_range_of(const hr_function *function, const int64_t *extents, const hr_expr *expr,
                       hr_whole_range *out) {
    walk w = {.function = function, .extents = extents};
    return range_of(&w, expr, out);
}

bool hr_whole_fits_lanes(const hr_function *function, const int64_t *extents, const hr_expr *expr) {
    hr_whole_range range;
    if (expr->op == HR_OP_CONVERT && (expr->args[0]->type == HR_I32 || expr->args[0]->type == HR_BOOL))
        return true;
    return hr_whole_range_of(function, extents, expr, &range);
}

bool hr_whole_is_small(const hr_function *function, const hr_expr *expr, int *count) {
    hr_whole_range range;
    bool small = hr_whole_range_of(function, NULL, expr, &range) && range.low >= 0 && range.high < HR_SMALL;
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
