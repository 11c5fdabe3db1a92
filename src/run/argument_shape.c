/* The shape of an argument as arithmetic, so that a binding needs no parser.
 *
 * In: a kernel, an argument. Out: the steps that say how many elements an axis has, or that number itself.
 */
#include "run/kernel.h"

#include "ir/extent.h"

#include <stddef.h>

typedef struct steps {
    hr_shape_step *list; /* NULL: they are counted only */
    int most, count;
} steps;

static void step_add(steps *steps, hr_shape_op op, int64_t value) {
    if (steps->list && steps->count < steps->most) steps->list[steps->count] = (hr_shape_step){op, value};
    steps->count++;
}

static hr_shape_op shape_op(hr_op op) {
    return op == HR_OP_ADD   ? HR_SHAPE_ADD
           : op == HR_OP_SUB ? HR_SHAPE_SUB
           : op == HR_OP_MUL ? HR_SHAPE_MUL
                             : HR_SHAPE_FLOORDIV;
}

/* Operands first; a text's shapes are at most 64 levels deep. */
static void steps_list(const hr_expr *expr, steps *steps) {
    if (expr->op == HR_OP_NUMBER)
        step_add(steps, HR_SHAPE_NUMBER, expr->whole);
    else if (expr->op == HR_OP_EXTENT)
        step_add(steps, HR_SHAPE_EXTENT, expr->extent);
    else {
        for (int a = 0; a < expr->arg_count; a++)
            steps_list(expr->args[a], steps);
        step_add(steps, shape_op(expr->op), 0);
    }
}

static hr_status argument_check(const hr_kernel *kernel, int i, const char *function) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, function));
    if (i >= 0 && i < kernel->argument_count) return HR_OK;
    return hr_fail(HR_BAD_INPUT, "kernel %s has %d arguments; there is no number %d", kernel->function->name,
                   kernel->argument_count, i);
}

hr_status hr_argument_shape(const hr_kernel *kernel, int i, int axis, hr_shape_step *list, int most,
                            int *count) {
    HR_TRY(argument_check(kernel, i, __func__));
    HR_TRY(hr_pointer_check(count, "place for the number of steps", __func__));
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    if (axis < 0 || axis >= tensor->rank)
        return hr_fail(HR_BAD_INPUT, "`%s` of kernel %s has %d axes; there is no number %d", tensor->name,
                       kernel->function->name, tensor->rank, axis);
    steps steps = {.list = list, .most = most};
    steps_list(tensor->shape[axis], &steps);
    if (list && steps.count > most)
        return hr_fail(HR_BAD_INPUT, "axis %d of `%s` has %d steps, and there is room for %d", axis,
                       tensor->name, steps.count, most);
    *count = steps.count;
    return HR_OK;
}

hr_status hr_argument_sizes(const hr_kernel *kernel, int i, const int64_t *extents, int64_t *sizes) {
    int64_t found[HR_RANK_MAX];
    HR_TRY(argument_check(kernel, i, __func__));
    HR_TRY(hr_pointer_check(extents, "extents", __func__));
    HR_TRY(hr_pointer_check(sizes, "place for the sizes", __func__));
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    for (int axis = 0; axis < tensor->rank; axis++)
        HR_TRY(hr_extent_value(kernel->function, tensor->shape[axis], extents, &found[axis]));
    for (int axis = 0; axis < tensor->rank; axis++)
        sizes[axis] = found[axis];
    return HR_OK;
}
