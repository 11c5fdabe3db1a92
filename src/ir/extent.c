/* Extents bound to numbers. In: shape expressions, array sizes. Out: values, solutions. Defaults stand in
 * extent_default.c. */
#include "ir/extent.h"

#include "base/dtype.h"
#include "base/status.h"
#include "ir/extent_form.h"
#include "ir/visit.h"

/* constant + factor * extents[unknown]; unknown -1 = none */
typedef struct linear {
    bool solvable;
    bool overflow, divided_by_zero;
    int unknown;
    int64_t constant, factor;
} linear;

static linear combine(const hr_expr *expr, linear a, linear b);

static linear linear_of(const hr_expr *expr, const int64_t *extents) {
    if (expr->op == HR_OP_NUMBER) return (linear){.solvable = true, .unknown = -1, .constant = expr->whole};
    if (expr->op == HR_OP_EXTENT) {
        int64_t value = extents[expr->extent];
        if (value != HR_EXTENT_UNKNOWN) return (linear){.solvable = true, .unknown = -1, .constant = value};
        return (linear){.solvable = true, .unknown = expr->extent, .factor = 1};
    }
    return combine(expr, linear_of(expr->args[0], extents), linear_of(expr->args[1], extents));
}

static int64_t floor_division(int64_t a, int64_t b) {
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static linear combine(const hr_expr *expr, linear a, linear b) {
    linear out = {.solvable = a.solvable && b.solvable,
                  .overflow = a.overflow || b.overflow,
                  .divided_by_zero = a.divided_by_zero || b.divided_by_zero,
                  .unknown = a.unknown >= 0 ? a.unknown : b.unknown};
    if (a.unknown >= 0 && b.unknown >= 0 && a.unknown != b.unknown) out.solvable = false;
    if (!out.solvable) return out;
    bool over = false;
    switch (expr->op) {
    case HR_OP_ADD:
        over |= __builtin_add_overflow(a.constant, b.constant, &out.constant);
        over |= __builtin_add_overflow(a.factor, b.factor, &out.factor);
        break;
    case HR_OP_SUB:
        over |= __builtin_sub_overflow(a.constant, b.constant, &out.constant);
        over |= __builtin_sub_overflow(a.factor, b.factor, &out.factor);
        break;
    case HR_OP_MUL: {
        linear fixed = a.unknown < 0 ? a : b, other = a.unknown < 0 ? b : a;
        out.solvable = fixed.unknown < 0;
        over |= __builtin_mul_overflow(fixed.constant, other.constant, &out.constant);
        over |= __builtin_mul_overflow(fixed.constant, other.factor, &out.factor);
        break;
    }
    default: /* FLOORDIV */
        out.solvable = out.unknown < 0;
        if (out.solvable && b.constant == 0)
            out.divided_by_zero = true;
        else if (out.solvable && b.constant == -1)
            over |= __builtin_sub_overflow((int64_t)0, a.constant, &out.constant);
        else if (out.solvable)
            out.constant = floor_division(a.constant, b.constant);
    }
    out.overflow |= over;
    if (!out.factor) out.unknown = out.solvable ? -1 : out.unknown;
    return out;
}

static hr_status sound(const hr_function *function, const hr_expr *expr, const linear *form) {
    if (form->overflow)
        return hr_fail(HR_BAD_INPUT, "%s: the extent %s is beyond i64", function->name,
                       hr_extent_text(function, expr).text);
    if (form->divided_by_zero)
        return hr_fail(HR_BAD_INPUT, "%s: the extent %s divides by 0", function->name,
                       hr_extent_text(function, expr).text);
    return HR_OK;
}

static hr_visit is_unknown(const hr_expr *node, const void *extents) {
    return hr_visit_until(node->op == HR_OP_EXTENT &&
                          ((const int64_t *)extents)[node->extent] == HR_EXTENT_UNKNOWN);
}

hr_status hr_extent_value(const hr_function *function, const hr_expr *expr, const int64_t *extents,
                          int64_t *out) {
    const hr_expr *unknown = hr_expr_find(expr, is_unknown, extents);
    if (unknown)
        return hr_fail(HR_BAD_INPUT, "%s: the extent %s is not known; give it as %s=NUMBER", function->name,
                       function->extents[unknown->extent], function->extents[unknown->extent]);
    linear form = linear_of(expr, extents);
    HR_TRY(sound(function, expr, &form));
    if (form.constant < 0)
        return hr_fail(HR_BAD_INPUT, "%s: the extent %s is %lld, and an extent is never negative",
                       function->name, hr_extent_text(function, expr).text, (long long)form.constant);
    *out = form.constant;
    return HR_OK;
}

double hr_extent_elements(const hr_function *function, const hr_tensor *tensor, const int64_t *extents) {
    double elements = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        int64_t size = 0;
        if (hr_extent_value(function, tensor->shape[axis], extents, &size) != HR_OK) return 0;
        elements *= (double)size;
    }
    return elements;
}

double hr_extent_bytes(const hr_function *function, const hr_tensor *tensor, const int64_t *extents) {
    return (double)hr_dtype_size(tensor->dtype) * hr_extent_elements(function, tensor, extents);
}

hr_status hr_extent_solve(const hr_function *function, int tensor, int axis, int64_t size, int64_t *extents) {
    const hr_tensor *entry = &function->tensors[tensor];
    const hr_expr *expr = entry->shape[axis];
    linear form = linear_of(expr, extents);
    HR_TRY(sound(function, expr, &form));
    if (!form.solvable) return HR_OK;
    if (form.unknown < 0) {
        if (form.constant == size) return HR_OK;
        return hr_fail(HR_BAD_INPUT, "axis %d of %s has %lld elements, and its extent %s is %lld", axis,
                       entry->name, (long long)size, hr_extent_text(function, expr).text,
                       (long long)form.constant);
    }
    const char *name = function->extents[form.unknown];
    int64_t rest;
    bool over = __builtin_sub_overflow(size, form.constant, &rest);
    if (over || rest % form.factor != 0 || (form.factor == -1 && rest == INT64_MIN))
        return hr_fail(HR_BAD_INPUT,
                       "axis %d of %s has %lld elements, and no whole number %s makes its extent %s so many",
                       axis, entry->name, (long long)size, name, hr_extent_text(function, expr).text);
    if (rest / form.factor < 0)
        return hr_fail(HR_BAD_INPUT,
                       "axis %d of %s has %lld elements, too few for its extent %s: %s would be %lld", axis,
                       entry->name, (long long)size, hr_extent_text(function, expr).text, name,
                       (long long)(rest / form.factor));
    extents[form.unknown] = rest / form.factor;
    return HR_OK;
}
