/* A part of a kernel's work on the same arrays: fewer steps of the outermost extent.
 *
 * A version of a kernel that keeps locals in memory may need as much again as the arrays; on a part it does
 * with little, and takes its share of the time. In: the extents of the arrays. Out: those of the part.
 */
#include "ir/visit.h"
#include "run/kernel.h"

/* Whether every array that has the extent has it as its first axis alone: then the part is the arrays'
 * beginning. */
static bool is_outermost(const hr_kernel *kernel, int extent) {
    bool found = false;
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        for (int axis = 0; axis < tensor->rank; axis++) {
            const hr_expr *size = tensor->shape[axis];
            if (!hr_expr_has_extent(size, extent)) continue;
            if (axis > 0 || size->op != HR_OP_EXTENT) return false;
            found = true;
        }
    }
    return found;
}

hr_status hr_extents_divide(const hr_kernel *kernel, int64_t divisor, int64_t *extents) {
    const hr_function *function = kernel->function;
    for (int e = 0; e < function->extent_count; e++)
        if (extents[e] >= divisor && is_outermost(kernel, e)) {
            extents[e] /= divisor;
            return hr_extent_check(function, extents);
        }
    return hr_fail(HR_BAD_INPUT, "kernel %s has no extent that can be cut into %lld parts", function->name,
                   (long long)divisor);
}

double hr_extents_share(const hr_kernel *kernel, const int64_t *part, const int64_t *whole) {
    double share = 1;
    for (int e = 0; e < kernel->function->extent_count; e++)
        if (part[e] != whole[e]) share *= (double)part[e] / (double)whole[e];
    return share;
}
