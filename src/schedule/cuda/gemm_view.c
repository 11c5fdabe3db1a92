/* Axes of a tensor as the copy engine walks them. In: subscripts. Out: sizes and strides. See gemm_view.h. */
#include "schedule/cuda/gemm_view.h"

#include "base/dtype.h"

/* ALIGNMENT: bytes of which a tensor map's strides are multiples. COORDINATE: a map's coordinates are 32
 * bits. */
enum { ALIGNMENT = 16 };
/* Of members: steps of ALIGNMENT, so many of them, and those of all addresses of 47 bits. */
#define STEPS          (INT64_C(1) << 16)
#define STRETCH        (INT64_C(1) << 27)
#define COORDINATE_MAX (INT64_C(1) << 31)

typedef struct axis {
    int64_t size, stride;
} axis;

typedef struct viewer {
    const hr_plan *plan;
    const int64_t *extents;
    const hr_tensor *tensor;
    hr_expr *const *subscripts;
} viewer;

/* Where the index stands among the subscripts; -1 = nowhere, or not once. */
static int place_of(const viewer *v, int index) {
    int place = -1;
    for (int a = 0; a < v->tensor->rank; a++) {
        if (v->subscripts[a]->op != HR_OP_INDEX) return -1;
        if (v->subscripts[a]->index != index) continue;
        if (place >= 0) return -1;
        place = a;
    }
    return place;
}

static hr_status axis_of(const viewer *v, int index, axis *out, bool *good) {
    int place = place_of(v, index);
    *good = place >= 0;
    if (!*good) return HR_OK;
    HR_TRY(hr_extent_value(v->plan->normal, v->plan->normal->indices[index].extent, v->extents, &out->size));
    out->stride = 1;
    for (int a = v->tensor->rank - 1; a > place; a--) {
        int64_t size;
        HR_TRY(hr_extent_value(v->plan->normal, v->tensor->shape[a], v->extents, &size));
        if (__builtin_mul_overflow(out->stride, size, &out->stride))
            return hr_fail(HR_BAD_INPUT, "tensor %.60s is too large", v->tensor->name);
    }
    return HR_OK;
}

/* The group's indices as at most `max` axes, the innermost first; *count > max where they are more. */
static hr_status merge(const viewer *v, hr_gemm_indices group, axis *out, int max, int *count) {
    *count = 0;
    for (int i = group.count - 1; i >= 0; i--) {
        axis next;
        bool good;
        HR_TRY(axis_of(v, group.index[i], &next, &good));
        if (!good) {
            *count = max + 1;
            return HR_OK;
        }
        axis *last = *count ? &out[*count - 1] : NULL;
        if (last && next.stride == last->stride * last->size)
            last->size *= next.size;
        else if (*count < max)
            out[(*count)++] = next;
        else
            *count = max + 1;
        if (*count > max) return HR_OK;
    }
    return HR_OK;
}

static bool is_walkable(const hr_gemm_view *view, size_t size) {
    for (int a = 0; a < view->rank; a++) {
        if (view->size[a] < 1 || view->size[a] >= COORDINATE_MAX) return false;
        if (a == 0 ? view->stride[a] != 1 : view->stride[a] * (int64_t)size % ALIGNMENT) return false;
    }
    return true;
}

hr_status hr_gemm_view_make(const hr_plan *plan, const int64_t *extents, int tensor,
                            hr_expr *const *subscripts, hr_gemm_indices inner, hr_gemm_indices outer,
                            hr_gemm_indices batch, hr_gemm_view *view) {
    viewer v = {plan, extents, &plan->normal->tensors[tensor], subscripts};
    axis axes[HR_GEMM_VIEW_AXES];
    int inners, outers, batches;
    *view = (hr_gemm_view){.tensor = tensor};
    if (hr_plan_layout(plan, tensor) != HR_LAYOUT_DENSE ||
        v.tensor->rank != inner.count + outer.count + batch.count)
        return HR_OK;
    HR_TRY(merge(&v, inner, axes, 1, &inners));
    HR_TRY(merge(&v, outer, axes + 1, 1, &outers));
    HR_TRY(merge(&v, batch, axes + 2, HR_GEMM_BATCH_AXES, &batches));
    if (inners != 1 || outers != 1 || batches > HR_GEMM_BATCH_AXES) return HR_OK;
    view->rank = 2 + batches;
    for (int a = 0; a < view->rank; a++) {
        view->size[a] = axes[a].size;
        view->stride[a] = axes[a].stride;
    }
    if (!is_walkable(view, hr_dtype_size(v.tensor->dtype))) view->rank = 0;
    return HR_OK;
}

hr_status hr_gemm_members_view_make(const hr_plan *plan, const int64_t *extents, int tensor,
                                    hr_expr *const *subscripts, hr_gemm_indices inner, hr_gemm_indices outer,
                                    hr_gemm_indices batch, hr_gemm_view *view) {
    viewer v = {plan, extents, &plan->normal->tensors[tensor], subscripts};
    const int64_t step = ALIGNMENT / (int64_t)hr_dtype_size(v.tensor->dtype);
    axis axes[2];
    int inners, outers;
    *view = (hr_gemm_view){.tensor = tensor};
    if (hr_plan_layout(plan, tensor) != HR_LAYOUT_MEMBERS || batch.count != 1 || step < 1 ||
        v.tensor->rank != inner.count + outer.count + 1 || place_of(&v, batch.index[0]) != 0)
        return HR_OK;
    HR_TRY(merge(&v, inner, axes, 1, &inners));
    HR_TRY(merge(&v, outer, axes + 1, 1, &outers));
    if (inners != 1 || outers != 1) return HR_OK;
    *view = (hr_gemm_view){.tensor = tensor,
                           .rank = 4,
                           .size = {axes[0].size, axes[1].size, STEPS, STRETCH},
                           .stride = {axes[0].stride, axes[1].stride, step, step * STEPS},
                           .member = subscripts[0]};
    if (!is_walkable(view, hr_dtype_size(v.tensor->dtype))) view->rank = 0;
    return HR_OK;
}
