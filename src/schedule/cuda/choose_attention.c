/* Attention as one kernel. In: a region. Out: whether, and how. See choose_attention.h. */
#include "schedule/cuda/choose_attention.h"

#include "base/dtype.h"
#include "base/saturate.h"
#include "ir/graph.h"

#include <inttypes.h>
#include <stdio.h>

/* GROUP_ROWS: of a warpgroup's product. SPAN: elements of 128 bytes, which a box is wide. STAGES: of the ring
 * of keys and of that of values. */
enum { GROUP_ROWS = 64, SPAN = 64, STAGES = 2, BARRIERS = 6 * STAGES, WIDTH_MOST = 256, WIDTH_STEP = 8 };

/* Registers of a thread that loads and of one that multiplies, by how many groups multiply: what setmaxnreg
 * makes of the 65536 of a multiprocessor. */
static const struct { int load, multiply; } registers[] = {[2] = {40, 232}, [3] = {32, 160}};

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

bool hr_cuda_attention_takes(const hr_plan *plan, const hr_expr *e, hr_dtype dtype) {
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

/* Its one result is 16 bits wide, and a row of values lies in whole 16 bytes. */
static hr_status leaves_rows(const hr_plan *plan, const hr_contract *scores, const hr_stage *last,
                             const int64_t *extents, bool *out) {
    const hr_contract *values = last->contract;
    hr_gemm_indices batch = {scores->batch_count, scores->batch}, rows = {scores->m_count, scores->m},
                    wide = {values->n_count, values->n};
    const hr_step *stored = NULL;
    hr_gemm_view view;
    *out = false;
    for (int i = 0; i < last->step_count; i++) {
        if (!last->steps[i].stored) continue;
        if (stored) return HR_OK;
        stored = &last->steps[i];
    }
    if (!stored) return HR_OK;
    const hr_statement *made = &plan->normal->statements[stored->statement];
    if (hr_dtype_size(plan->normal->tensors[made->tensor].dtype) != 2) return HR_OK;
    HR_TRY(hr_gemm_view_make(plan, extents, made->tensor, made->subscripts, wide, rows, batch, &view));
    *out = view.rank > 0;
    return HR_OK;
}

static bool is_width(int64_t width) {
    return width >= WIDTH_STEP && width <= WIDTH_MOST && width % WIDTH_STEP == 0;
}

/* In words, what keeps the kernel from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                           const attention_sizes *sizes, hr_cuda_attention *out) {
    if (plan->limits.compute != 90 || !plan->limits.tensor_maps) return "the device is no Hopper";
    out->dtype = hr_cuda_attention_takes(plan, scores->left, HR_BF16) ? HR_BF16 : HR_F16;
    if (!hr_cuda_attention_takes(plan, scores->left, out->dtype) ||
        !hr_cuda_attention_takes(plan, scores->right, out->dtype) ||
        !hr_cuda_attention_takes(plan, values->right, out->dtype))
        return "queries, keys and values are not all plain elements of bf16, or of f16";
    if (!is_width(sizes->deep) || !is_width(sizes->wide))
        return "a query or a value is not a multiple of 8 elements, up to 256";
    if (hr_saturate_product(sizes->batch, sizes->m) > INT32_MAX || sizes->n > INT32_MAX)
        return "it has more queries or keys than 32 bits count";
    return NULL;
}

/* A number above 0, whatever the arrays hold. */
static bool is_positive(const hr_plan *plan, const int64_t *extents, const hr_expr *e) {
    int64_t size;
    switch (e->op) {
    case HR_OP_NUMBER:
        return e->number > 0;
    case HR_OP_EXTENT:
        return hr_extent_value(plan->normal, e, extents, &size) == HR_OK && size > 0;
    case HR_OP_RSQRT:
    case HR_OP_CONVERT:
        return is_positive(plan, extents, e->args[0]);
    case HR_OP_MUL:
    case HR_OP_DIV:
        return is_positive(plan, extents, e->args[0]) && is_positive(plan, extents, e->args[1]);
    default:
        return false;
    }
}

static const hr_expr *scale_of(const hr_plan *plan, const int64_t *extents, const hr_expr *open,
                               int product) {
    if (open->op != HR_OP_MUL) return NULL;
    for (int i = 0; i < 2; i++)
        if (open->args[i]->op == HR_OP_ELEMENT && open->args[i]->tensor == product &&
            is_positive(plan, extents, open->args[1 - i]))
            return open->args[1 - i];
    return NULL;
}

static int64_t spans(int64_t width) {
    return (width + SPAN - 1) / SPAN;
}

static int64_t shared_bytes(const attention_sizes *sizes, const hr_cuda_attention *a, int query_places) {
    const int64_t deep = spans(sizes->deep), wide = spans(sizes->wide);
    const int64_t queries = a->leaves_rows && wide > deep ? wide : deep;
    return (queries * query_places * a->tile_m + (deep + wide) * STAGES * a->tile_n) * SPAN * 2 +
           BARRIERS * 8;
}

/* Nothing is between the product and softmax but a factor and bounds: a thread needs few registers for it. */
static bool is_plain(const hr_cuda_attention *a) {
    return a->scale && (a->softmax.bounded || !a->softmax.mask);
}

/* Scores, sums and weights of a thread are registers: the wider the values, the fewer keys; where both are
 * narrow a third group has room. */
static void tile_take(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const int64_t most = spans(sizes->deep > sizes->wide ? sizes->deep : sizes->wide);
    const int groups = most == 1 && is_plain(out) && sizes->m > 2 * GROUP_ROWS ? 3 : 2;
    out->tile_m = groups * GROUP_ROWS;
    out->tile_n = most <= 2 ? 128 : most == 3 ? 96 : 64;
    out->threads = 128 * (1 + groups);
    out->load_registers = registers[groups].load;
    out->multiply_registers = registers[groups].multiply;
    out->query_places = shared_bytes(sizes, out, 2) <= plan->limits.shared_bytes ? 2 : 1;
    out->shared_bytes = shared_bytes(sizes, out, out->query_places);
    out->blocks = sizes->batch * hr_divide_up(sizes->m, out->tile_m);
    if (out->blocks > plan->limits.threads) out->blocks = plan->limits.threads;
}

int64_t hr_cuda_attention_section(int64_t bytes, int64_t heads) {
    const int64_t section = bytes > 0 ? SECTION_BYTES / bytes : 1;
    if (section > heads) return heads > 0 ? heads : 1;
    return section < 1 ? 1 : section;
}

/* Under a mask the longest tiles of many heads go first. Otherwise those of a head follow each other. */
static int64_t section_of(const attention_sizes *sizes, int64_t group, bool masked) {
    const int64_t bytes = sizes->n * (sizes->deep + sizes->wide) * 2 / group;
    return masked ? hr_cuda_attention_section(bytes, sizes->batch) : 1;
}

static void explain(const hr_plan *plan, hr_cuda_attention *out) {
    const hr_stage *first = &plan->stages[out->first];
    const char *mask = !first->mask_bound  ? ""
                       : first->mask_begin ? ", keys before and past the mask are left out"
                                           : ", keys past the mask are left out";
    snprintf(
        out->why, sizeof out->why,
        "one kernel with the products around it, on the tensor cores by wgmma: %d queries and %d keys at "
        "a time, scores stay in registers, weights are rounded to %s%s",
        out->tile_m, out->tile_n, hr_dtype_name(out->dtype), mask);
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
    out->scale = scale_of(plan, extents, out->softmax.open, scores->product);
    HR_TRY(leaves_rows(plan, scores, &plan->stages[out->last], extents, &out->leaves_rows));
    tile_take(plan, &sizes, out);
    out->section = section_of(&sizes, out->key_group, plan->stages[out->first].mask_bound != NULL);
    explain(plan, out);
    return HR_OK;
}
