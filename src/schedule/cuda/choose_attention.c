/* Attention as one kernel. In: a region. Out: whether, and how. See choose_attention.h. */
#include "schedule/cuda/choose_attention.h"

#include "base/dtype.h"
#include "ir/graph.h"

#include <inttypes.h>
#include <stdio.h>

/* GROUP_ROWS: of a warpgroup's product. SPAN: elements of 128 bytes, which a box is wide. STAGES: of the ring
 * of keys and of that of values. */
enum {
    GROUP_ROWS = 64,
    GROUPS = 2,
    SPAN = 64,
    STAGES = 2,
    BARRIERS = 1 + 4 * STAGES,
    WIDTH_MOST = 256,
    WIDTH_STEP = 8
};

/* Keys and values of a section, a good half of an L2 of 50 MB. */
#define SECTION_BYTES (INT64_C(32) << 20)

typedef struct attention_sizes {
    int64_t batch, m, n, deep, wide;
} attention_sizes;

static hr_status sizes_of(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                          const int64_t *extents, attention_sizes *out) {
    HR_TRY(hr_plan_points(plan, scores->batch, scores->batch_count, extents, &out->batch));
    HR_TRY(hr_plan_points(plan, scores->m, scores->m_count, extents, &out->m));
    HR_TRY(hr_plan_points(plan, scores->n, scores->n_count, extents, &out->n));
    HR_TRY(hr_plan_points(plan, scores->k, scores->k_count, extents, &out->deep));
    return hr_plan_points(plan, values->n, values->n_count, extents, &out->wide);
}

static bool is_16_bits(const hr_plan *plan, const hr_expr *e, hr_dtype dtype) {
    return e->op == HR_OP_ELEMENT && e->arg_count == plan->normal->tensors[e->tensor].rank &&
           plan->normal->tensors[e->tensor].dtype == dtype;
}

/* The subscripts, with h for h // by where h is the last index of batches; *group: by, 1 where there is none.
 */
static void ungroup(const hr_plan *plan, const hr_contract *scores, const int64_t *extents, const hr_expr *e,
                    hr_expr **subscripts, int64_t *group) {
    const int last = scores->batch_count ? scores->batch[scores->batch_count - 1] : -1;
    *group = 1;
    for (int i = 0; i < e->arg_count; i++) {
        hr_expr *subscript = subscripts[i] = e->args[i];
        int64_t by, size;
        if (subscript->op != HR_OP_FLOORDIV || subscript->args[0]->op != HR_OP_INDEX ||
            subscript->args[0]->index != last ||
            hr_extent_value(plan->normal, subscript->args[1], extents, &by) != HR_OK ||
            hr_extent_value(plan->normal, plan->normal->indices[last].extent, extents, &size) != HR_OK ||
            by < 1 || size % by != 0)
            continue;
        subscripts[i] = subscript->args[0];
        *group = by;
    }
}

/* The same for an operand that neighbouring batches share: the axis has an element for all of them. */
static hr_status shared_view(const hr_plan *plan, const hr_contract *scores, const int64_t *extents,
                             const hr_expr *e, hr_gemm_indices inner, hr_gemm_view *view, int64_t *group) {
    hr_gemm_indices batch = {scores->batch_count, scores->batch}, keys = {scores->n_count, scores->n};
    hr_expr *subscripts[HR_AXES_MAX];
    ungroup(plan, scores, extents, e, subscripts, group);
    HR_TRY(hr_gemm_view_make(plan, extents, e->tensor, subscripts, inner, keys, batch, view));
    if (*group > 1 && view->rank > 2) view->size[2] /= *group;
    return HR_OK;
}

static hr_status views_of(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                          const int64_t *extents, hr_cuda_attention *out) {
    hr_gemm_indices batch = {scores->batch_count, scores->batch}, rows = {scores->m_count, scores->m},
                    deep = {scores->k_count, scores->k}, wide = {values->n_count, values->n};
    const hr_expr *q = scores->left;
    HR_TRY(hr_gemm_view_make(plan, extents, q->tensor, q->args, deep, rows, batch, &out->query));
    HR_TRY(shared_view(plan, scores, extents, scores->right, deep, &out->key, &out->key_group));
    return shared_view(plan, scores, extents, values->right, wide, &out->value, &out->value_group);
}

static bool is_width(int64_t width) {
    return width >= WIDTH_STEP && width <= WIDTH_MOST && width % WIDTH_STEP == 0;
}

/* In words, what keeps the kernel from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                           const attention_sizes *sizes, hr_cuda_attention *out) {
    if (plan->limits.compute != 90 || !plan->limits.tensor_maps) return "the device is no Hopper";
    out->dtype = is_16_bits(plan, scores->left, HR_BF16) ? HR_BF16 : HR_F16;
    if (!is_16_bits(plan, scores->left, out->dtype) || !is_16_bits(plan, scores->right, out->dtype) ||
        !is_16_bits(plan, values->right, out->dtype))
        return "queries, keys and values are not all plain elements of bf16, or of f16";
    if (!is_width(sizes->deep) || !is_width(sizes->wide))
        return "a query or a value is not a multiple of 8 elements, up to 256";
    return NULL;
}

/* A number above 0, whatever the extents are. */
static bool is_positive(const hr_expr *e) {
    switch (e->op) {
    case HR_OP_NUMBER:
        return e->number > 0;
    case HR_OP_RSQRT:
        return e->args[0]->op == HR_OP_EXTENT || is_positive(e->args[0]);
    case HR_OP_CONVERT:
        return is_positive(e->args[0]);
    case HR_OP_MUL:
    case HR_OP_DIV:
        return is_positive(e->args[0]) && is_positive(e->args[1]);
    default:
        return false;
    }
}

static const hr_expr *scale_of(const hr_expr *open, int product) {
    if (open->op != HR_OP_MUL) return NULL;
    for (int i = 0; i < 2; i++)
        if (open->args[i]->op == HR_OP_ELEMENT && open->args[i]->tensor == product &&
            is_positive(open->args[1 - i]))
            return open->args[1 - i];
    return NULL;
}

static int64_t spans(int64_t width) {
    return (width + SPAN - 1) / SPAN;
}

/* Scores, sums and weights of a thread are registers: the wider the values, the fewer keys. */
static void tile_take(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const int64_t most = spans(sizes->deep > sizes->wide ? sizes->deep : sizes->wide);
    out->tile_m = GROUPS * GROUP_ROWS;
    out->tile_n = most <= 2 ? 128 : most == 3 ? 96 : 64;
    out->threads = 128 * (1 + GROUPS);
    out->shared_bytes = (spans(sizes->deep) * (out->tile_m + STAGES * out->tile_n) +
                         spans(sizes->wide) * STAGES * out->tile_n) *
                            SPAN * 2 +
                        BARRIERS * 8;
    out->blocks = sizes->batch * ((sizes->m + out->tile_m - 1) / out->tile_m);
    /* Under a mask the longest tiles of many heads go first. Otherwise those of a head follow each other. */
    const int64_t bytes = sizes->n * (sizes->deep + sizes->wide) * 2 / out->key_group;
    out->section = plan->stages[out->first].mask_bound && bytes > 0 ? SECTION_BYTES / bytes : 1;
    if (out->section < 1) out->section = 1;
    if (out->section > sizes->batch) out->section = sizes->batch > 0 ? sizes->batch : 1;
    snprintf(
        out->why, sizeof out->why,
        "one kernel with the products around it, on the tensor cores by wgmma: %d queries and %d keys at "
        "a time, scores stay in registers, weights are rounded to %s%s",
        out->tile_m, out->tile_n, hr_dtype_name(out->dtype),
        plan->stages[out->first].mask_bound ? ", keys past the mask are left out" : "");
}

hr_status hr_cuda_attention_choose(const hr_plan *plan, const hr_region *region, const int64_t *extents,
                                   hr_cuda_attention *out) {
    const hr_contract *scores = plan->stages[region->first].contract,
                      *values = plan->stages[region->last].contract;
    attention_sizes sizes;
    const char *why;
    *out = (hr_cuda_attention){.first = region->first, .last = region->last};
    HR_TRY(sizes_of(plan, scores, values, extents, &sizes));
    why = refusal(plan, scores, values, &sizes, out);
    if (!why) hr_softmax_find(plan, region, &out->softmax, &why);
    if (!why) {
        HR_TRY(views_of(plan, scores, values, extents, out));
        if (!out->query.rank || !out->key.rank || !out->value.rank)
            why = "the copy engine cannot walk queries, keys or values: an axis has a gap, or rows are no "
                  "whole 16 bytes";
    }
    if (why) {
        snprintf(out->why, sizeof out->why, "not one kernel with the products around it: %s", why);
        return HR_OK;
    }
    out->fits = true;
    out->deep = (int)sizes.deep;
    out->wide = (int)sizes.wide;
    out->scale = scale_of(out->softmax.open, scores->product);
    tile_take(plan, &sizes, out);
    return HR_OK;
}
