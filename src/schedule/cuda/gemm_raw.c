/* Operands of a product that are computed in the registers of whom they are multiplied by. In: a stage. Out:
 * the operands' part of hr_cuda_gemm, or that the product is none of these.
 *
 * The copy engine brings the left operand's elements as they lie in memory. A warpgroup takes them out of
 * shared memory, computes what the text makes of them and multiplies them out of its registers, which is
 * wgmma's left operand alone: a product whose right operand is such has its sides exchanged.
 *
 * - Whole numbers of 8 and 4 bits and f8, times factors that are one for groups of neighbours along k. Sums
 * of a group are multiplied by its factors, so that numbers are multiplied as they are.
 *
 * - Any other text whose values are all bf16, or all f16, where no more columns stand beside it than it would
 * be evaluated for about once, and it is cheap: else a kernel before the product lays it out, once.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_gemm.h"

/* STEP: along k. STEP_BYTES_MOST: a row of a swizzle. BLOCK: along k of an instruction. */
enum { STEP = 64, STEP_BYTES_MOST = 128, STEP_BYTES_LEAST = 32, BLOCK = 16, ALIGNMENT = 256 };
/* Columns beside a text that is evaluated for each of their tiles, which are two at most; elements of a dear
 * text, which costs less to lay out where there are more than pay for another launch. Vectors past which a
 * packed matrix streams no more (gemm_thin.c). */
enum { COLUMNS_FEW = 256, DEAR_MOST = 1 << 20, VECTORS_FEW = 64 };

typedef struct finder {
    const hr_plan *plan;
    const hr_contract *contract;
    const int64_t *extents;
    const hr_gemm_sizes *sizes;
} finder;

/* ---- packed numbers ---- */

/* The element's axes are those of the rows, in order, and then what follows from k. */
static hr_status rows_view(const finder *f, const hr_packed *packed, hr_gemm_view *view) {
    const hr_function *function = f->plan->normal;
    const hr_expr *element = packed->element;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    const hr_contract *c = f->contract;
    int64_t row = (int64_t)hr_dtype_size(tensor->dtype);
    *view = (hr_gemm_view){.tensor = element->tensor};
    if (c->batch_count || tensor->rank <= c->m_count ||
        hr_plan_layout(f->plan, element->tensor) != HR_LAYOUT_DENSE)
        return HR_OK;
    for (int a = 0; a < tensor->rank; a++) {
        int64_t size, index;
        HR_TRY(hr_extent_value(function, tensor->shape[a], f->extents, &size));
        if (a >= c->m_count) {
            row = hr_saturate_product(row, size);
            continue;
        }
        HR_TRY(hr_extent_value(function, function->indices[c->m[a]].extent, f->extents, &index));
        if (element->args[a]->op != HR_OP_INDEX || element->args[a]->index != c->m[a] || index != size)
            return HR_OK;
    }
    if (row != packed->row_bytes) return HR_OK;
    const int64_t elements = row / (int64_t)hr_dtype_size(tensor->dtype);
    view->rank = 2;
    view->size[0] = view->stride[1] = elements;
    view->size[1] = f->sizes->m;
    view->stride[0] = 1;
    return HR_OK;
}

/* So many bytes hold each STEP numbers along k. */
static bool steps_lie(const hr_packed *packed) {
    const int unit = hr_packed_numbers(packed), run = 4 * unit;
    if (STEP % run == 0) return true;
    for (int i = 0; i < run; i++) {
        const int at = packed->place[i % unit] + i / unit * packed->apart; /* of number i in memory */
        if (at / STEP != i / STEP) return false;
    }
    return run % STEP == 0;
}

static hr_status packed_find(const finder *f, hr_dtype dtype, hr_gemm_side *side, int64_t *group) {
    hr_packed packed;
    if (!hr_packed_find(f->plan->normal, f->extents, f->contract, f->contract->left, dtype, &packed) ||
        packed.word_numbers < 4 || !steps_lie(&packed) || f->sizes->n <= VECTORS_FEW)
        return HR_OK;
    HR_TRY(rows_view(f, &packed, &side->view));
    if (!side->view.rank) return HR_OK;
    side->raw = packed.element;
    side->raw_bytes = STEP * 4 / packed.word_numbers;
    hr_gemm_scales_take(&packed, side);
    side->number =
        hr_packed_factors(f->plan->normal, f->extents, f->contract, f->contract->left, &(hr_packed){0});
    *group = packed.scale_count ? packed.group : 0;
    return HR_OK;
}

/* ---- elements where they are asked for ---- */

static hr_status plain_view(const finder *f, const hr_expr *element, hr_gemm_view *view) {
    const hr_contract *c = f->contract;
    *view = (hr_gemm_view){0};
    return hr_gemm_view_make(f->plan, f->extents, element->tensor, element->args,
                             (hr_gemm_indices){c->k_count, c->k}, (hr_gemm_indices){c->m_count, c->m},
                             (hr_gemm_indices){c->batch_count, c->batch}, view);
}

/* Elements of eight bits as they are, with or without factors. */
static hr_status bytes_find(const finder *f, hr_gemm_side *side, int64_t *group) {
    const hr_function *function = f->plan->normal;
    hr_packed factors;
    const hr_expr *number = hr_packed_factors(function, f->extents, f->contract, f->contract->left, &factors);
    const hr_expr *element = number;
    while (element && element->op == HR_OP_CONVERT && (element->dtype == HR_F32 || element->dtype == HR_I32))
        element = element->args[0];
    if (!element || element->op != HR_OP_ELEMENT ||
        hr_dtype_size(function->tensors[element->tensor].dtype) != 1 ||
        function->tensors[element->tensor].dtype == HR_BOOL)
        return HR_OK;
    const bool whole = !hr_dtype_is_float(function->tensors[element->tensor].dtype);
    if (whole && f->sizes->n <= VECTORS_FEW) return HR_OK;
    HR_TRY(plain_view(f, element, &side->view));
    if (!side->view.rank) return HR_OK;
    side->raw = element;
    side->number = number;
    side->raw_bytes = STEP;
    hr_gemm_scales_take(&factors, side);
    *group = factors.scale_count ? factors.group : 0;
    return HR_OK;
}

typedef struct search {
    const finder *f;
    const hr_expr *element; /* the one of all rows and all of k */
    int count;
    hr_gemm_view view;
    hr_status status;
} search;

static hr_visit find_element(void *context, const hr_expr *e) {
    search *s = context;
    hr_gemm_view view;
    if (e->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    if (e == s->element || s->status != HR_OK) return HR_VISIT_PAST;
    s->status = plain_view(s->f, e, &view);
    const size_t size = hr_dtype_size(s->f->plan->normal->tensors[e->tensor].dtype);
    if (view.rank && size <= 2) {
        s->element = e;
        s->view = view;
        s->count++;
    }
    return HR_VISIT_PAST;
}

/* What takes longer than the element comes: special functions, random numbers, loads beside it. */
static hr_visit is_dear(const hr_expr *e, const void *element) {
    return hr_visit_until(hr_op_is_dear(e->op) || e->op == HR_OP_RANDOM ||
                          (e->op == HR_OP_ELEMENT && e != element));
}

/* A text whose values are all of `dtype`, over one such element. */
static hr_status text_find(const finder *f, hr_dtype dtype, hr_gemm_side *side) {
    const hr_function *function = f->plan->normal;
    const hr_expr *left = f->contract->left;
    search s = {.f = f};
    if (left->op == HR_OP_ELEMENT || !hr_value_fits(function, left, dtype) || f->sizes->n > COLUMNS_FEW)
        return HR_OK;
    hr_expr_visit(left, find_element, &s);
    HR_TRY(s.status);
    if (s.count != 1) return HR_OK;
    const int64_t elements =
        hr_saturate_product(f->sizes->batch, hr_saturate_product(f->sizes->m, f->sizes->k));
    if (elements > DEAR_MOST && hr_expr_find(left, is_dear, s.element)) return HR_OK;
    side->raw = s.element;
    side->number = left;
    side->raw_bytes = STEP * (int)hr_dtype_size(function->tensors[s.element->tensor].dtype);
    side->view = s.view;
    return HR_OK;
}

/* ---- which ---- */

/* Groups of k are whole instructions: whole steps, or steps whole groups. */
static bool groups_fit(int64_t group) {
    return group == 0 || group % STEP == 0 || (STEP % group == 0 && group % BLOCK == 0);
}

static void take(const finder *f, const hr_gemm_side *left, const hr_gemm_side *right, int64_t group,
                 hr_cuda_gemm *out) {
    out->left = *left;
    out->right = *right;
    out->left.value = f->contract->left;
    out->left.k_major = true;
    out->dtype = out->left.dtype = right->dtype;
    out->pair_count = 1;
    out->by_threads_unaligned = !hr_contract_fits(f->plan->normal, f->contract, right->dtype);
    out->k_whole = f->sizes->k % STEP == 0;
    out->scale_k = (int)group;
    if (!left->scale_count) return;
    out->lay_blocks = hr_limits_threads(&f->plan->limits);
    out->work_bytes = hr_round_up(out->lay_blocks * (int64_t)sizeof(int), ALIGNMENT);
}

hr_status hr_gemm_raw_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                             const hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *taken) {
    const hr_contract *c = stage->contract;
    const finder f = {plan, c, extents, sizes};
    hr_gemm_side left = {0}, right = {.value = c->right};
    int64_t group = 0;
    *taken = false;
    if (c->group || c->stacked_count || !hr_gemm_has_maps(plan) || c->right->op != HR_OP_ELEMENT ||
        sizes->batch < 1 || sizes->m < 1 || sizes->n < 1 || sizes->k < 1)
        return HR_OK;
    const hr_dtype dtype = plan->normal->tensors[c->right->tensor].dtype;
    if (dtype != HR_BF16 && dtype != HR_F16) return HR_OK;
    HR_TRY(hr_gemm_side_make(plan, extents, c, c->right, (hr_gemm_indices){c->n_count, c->n}, &right));
    right.dtype = dtype;
    if (!right.view.rank) return HR_OK;
    HR_TRY(packed_find(&f, right.dtype, &left, &group));
    if (!left.raw) HR_TRY(bytes_find(&f, &left, &group));
    if (!left.raw) HR_TRY(text_find(&f, right.dtype, &left));
    if (group >= sizes->k) group = 0;
    *taken = left.raw && left.raw_bytes >= STEP_BYTES_LEAST && left.raw_bytes <= STEP_BYTES_MOST &&
             groups_fit(group);
    if (*taken) take(&f, &left, &right, group, out);
    return HR_OK;
}

hr_status hr_gemm_swap_sides(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                             hr_contract *swapped, bool *swaps) {
    const hr_contract *c = stage->contract;
    hr_cuda_gemm gemm = {.rights = 1};
    hr_gemm_sizes sizes;
    hr_stage other = *stage;
    *swaps = false;
    HR_TRY(hr_gemm_sizes_of(plan, c, extents, &sizes));
    HR_TRY(hr_gemm_raw_choose(plan, stage, extents, &sizes, &gemm, swaps));
    if (*swaps || c->group || c->stacked_count) {
        *swaps = false;
        return HR_OK;
    }
    *swapped = *c;
    swapped->m_count = c->n_count, swapped->m = c->n, swapped->left = c->right;
    swapped->n_count = c->m_count, swapped->n = c->m, swapped->right = c->left;
    other.contract = swapped;
    sizes = (hr_gemm_sizes){sizes.batch, sizes.n, sizes.m, sizes.k};
    return hr_gemm_raw_choose(plan, &other, extents, &sizes, &gemm, swaps);
}
