/* Which elements a statement with subscripts from data really hits. In: a statement. Out: the subscripts of
 * one. */
#define _GNU_SOURCE
#include "run/check.h"
#include "run/check_sample.h"
#include "run/mirror.h"

#include "base/dtype.h"

#include <stdlib.h>

typedef struct looking {
    const hr_kernel *kernel;
    hr_mirror *mirrors;
    const int64_t *extents;
} looking;

static bool whole_value(const looking *looking, const hr_expr *expr, const int64_t *indices, int depth,
                        int64_t *out);

/* An element of a bound whole array; false where it is none, or outside of it. */
static bool element_value(const looking *looking, const hr_expr *expr, const int64_t *indices, int depth,
                          int64_t *out) {
    const hr_kernel *kernel = looking->kernel;
    const hr_tensor *tensor = &kernel->function->tensors[expr->tensor];
    int64_t offset = 0, subscript;
    if (expr->tensor >= kernel->argument_count || tensor->role != HR_ROLE_INPUT || !tensor->rank ||
        hr_dtype_is_float(tensor->dtype))
        return false;
    const hr_binding *binding = &kernel->bindings[expr->tensor];
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (!whole_value(looking, expr->args[axis], indices, depth + 1, &subscript) || subscript < 0 ||
            subscript >= binding->shape[axis])
            return false;
        offset += subscript * binding->strides[axis];
    }
    hr_mirror *mirror = &looking->mirrors[expr->tensor];
    hr_mirror_need(mirror, offset, 0, 1);
    *out = hr_dtype_load_whole(tensor->dtype, mirror->data + offset * (int64_t)mirror->element, 0);
    return true;
}

/* A whole-number expression of indices, extents and elements of bound whole arrays. */
static bool whole_value(const looking *looking, const hr_expr *expr, const int64_t *indices, int depth,
                        int64_t *out) {
    int64_t left, right;
    if (depth > 32) return false;
    switch (expr->op) {
    case HR_OP_NUMBER:
        *out = expr->whole;
        return true;
    case HR_OP_EXTENT:
        *out = looking->extents[expr->extent];
        return true;
    case HR_OP_INDEX:
        *out = indices[expr->index];
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        if (!whole_value(looking, expr->args[0], indices, depth + 1, &left) ||
            !whole_value(looking, expr->args[1], indices, depth + 1, &right))
            return false;
        return !(expr->op == HR_OP_ADD   ? __builtin_add_overflow(left, right, out)
                 : expr->op == HR_OP_SUB ? __builtin_sub_overflow(left, right, out)
                                         : __builtin_mul_overflow(left, right, out));
    case HR_OP_WHERE: /* of an element that is left out: as good as any other beside it */
        return hr_subscript_leaves_out(expr) && whole_value(looking, expr->args[1], indices, depth + 1, out);
    case HR_OP_CONVERT:
        return expr->dtype == HR_I64 && expr->args[0]->type == HR_I32 &&
               whole_value(looking, expr->args[0], indices, depth + 1, out);
    case HR_OP_ELEMENT:
        return element_value(looking, expr, indices, depth, out);
    default:
        return false;
    }
}

bool hr_point_hit(const hr_kernel *kernel, hr_mirror *mirrors, const int64_t *all,
                  const hr_statement *statement, int64_t number, int64_t *subscripts) {
    const looking at = {kernel, mirrors, all}, *looking = &at;
    const hr_function *function = kernel->function;
    int64_t extents[statement->domain_count + 1], point[statement->domain_count + 1];
    int64_t *indices = calloc((size_t)function->index_count + 1, sizeof *indices);
    bool known = indices != NULL;
    for (int k = 0; known && k < statement->domain_count; k++) {
        const hr_expr *extent = function->indices[statement->domain[k]].extent;
        known = hr_extent_value(function, extent, looking->extents, &extents[k]) == HR_OK && extents[k] > 0;
    }
    if (known) {
        hr_check_point(statement->domain_count, extents, number, 7, point);
        for (int k = 0; k < statement->domain_count; k++)
            indices[statement->domain[k]] = point[k];
    }
    for (int axis = 0; known && axis < statement->subscript_count; axis++)
        known = whole_value(looking, statement->subscripts[axis], indices, 0, &subscripts[axis]) &&
                subscripts[axis] >= 0 && subscripts[axis] < kernel->bindings[statement->tensor].shape[axis];
    free(indices);
    return known;
}
