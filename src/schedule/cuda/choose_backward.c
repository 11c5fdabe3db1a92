/* The gradients of attention as two kernels. In: a plan, its scores. Out: whether, and how. See
 * choose_backward.h. */
#include "schedule/cuda/choose_backward.h"

#include "base/dtype.h"
#include "base/saturate.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_attention.h"

#include <stdio.h>

/* WIDTH_MOST: a thread's sums of both gradients are registers, deep + wide of them by two. SUMS_MOST: with
 * more there are none for what the next tile needs. */
enum {
    TILE_M = 128,
    TILE_N = 64,
    SPAN = 64,
    PLACES_MOST = 4,
    WIDTH_MOST = 128,
    WIDTH_STEP = 8,
    SUMS_MOST = 192,
    BARRIERS = 32 /* bytes of those of owned rows */
};

static const hr_contract *contract_of(const hr_plan *plan, const hr_cuda_backward *b,
                                      hr_backward_stage which) {
    return plan->stages[b->text.stage[which]].contract;
}

static bool is_width(int64_t width) {
    return width >= WIDTH_STEP && width <= WIDTH_MOST && width % WIDTH_STEP == 0;
}

static hr_status view_of(const hr_plan *plan, const int64_t *extents, const hr_contract *c, const hr_expr *e,
                         bool right, hr_gemm_view *view) {
    const hr_gemm_indices batch = {c->batch_count, c->batch}, deep = {c->k_count, c->k},
                          rows = right ? (hr_gemm_indices){c->n_count, c->n}
                                       : (hr_gemm_indices){c->m_count, c->m};
    return hr_gemm_view_make(plan, extents, e->tensor, e->args, deep, rows, batch, view);
}

static hr_status views_of(const hr_plan *plan, const int64_t *extents, hr_cuda_backward *out) {
    const hr_contract *scores = contract_of(plan, out, HR_BACKWARD_SCORES),
                      *products = contract_of(plan, out, HR_BACKWARD_PRODUCTS);
    HR_TRY(view_of(plan, extents, scores, scores->left, false, &out->query));
    HR_TRY(view_of(plan, extents, scores, scores->right, true, &out->key));
    HR_TRY(view_of(plan, extents, products, products->left, false, &out->given));
    return view_of(plan, extents, products, products->right, true, &out->value);
}

/* ---- what is one for each query ---- */

typedef struct of_query_search {
    const hr_contract *scores;
    hr_cuda_backward *out;
} of_query_search;

static bool is_of_query(const hr_contract *scores, const hr_expr *node) {
    for (int i = 0; i < node->arg_count; i++)
        if (node->args[i]->op != HR_OP_INDEX ||
            (node->args[i]->index != scores->m[0] &&
             !hr_indices_have(scores->batch, scores->batch_count, node->args[i]->index)))
            return false;
    return node->type == HR_F32;
}

static hr_visit take_of_query(const hr_expr *node, const void *context) {
    const of_query_search *s = context;
    hr_cuda_backward *b = s->out;
    if (node->op != HR_OP_ELEMENT || node->arg_count == 0 || !is_of_query(s->scores, node))
        return HR_VISIT_ON;
    for (int i = 0; i < b->of_query_count; i++)
        if (b->of_query[i]->tensor == node->tensor) return HR_VISIT_ON;
    if (b->of_query_count < HR_BACKWARD_OF_QUERY_MAX) b->of_query[b->of_query_count++] = node;
    return HR_VISIT_ON;
}

/* Another element of a tensor that has one taken. */
static hr_visit is_another(const hr_expr *node, const void *context) {
    const hr_expr *taken = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT && node->tensor == taken->tensor && node != taken);
}

/* Of these expressions, of which the others read the same elements or none of their tensors. */
static void find_of_query(const hr_plan *plan, hr_cuda_backward *out) {
    const hr_expr *values[2 + 2 * 64];
    int count = 0;
    values[count++] = out->text.weight;
    values[count++] = out->text.gradient;
    for (int which = HR_BACKWARD_SCORES; which <= HR_BACKWARD_PRODUCTS; which++) {
        const hr_stage *stage = &plan->stages[out->text.stage[which]];
        if (stage->step_count > 64) return;
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].stored) values[count++] = stage->steps[i].value;
    }
    of_query_search s = {.scores = contract_of(plan, out, HR_BACKWARD_SCORES), .out = out};
    for (int i = 0; i < count; i++)
        hr_expr_find(values[i], take_of_query, &s);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < out->of_query_count; k++)
            if (hr_expr_find(values[i], is_another, out->of_query[k]))
                out->of_query[k--] = out->of_query[--out->of_query_count];
}

/* In words, what keeps the kernels from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, hr_cuda_backward *out, int64_t batch, int64_t queries,
                           int64_t keys, int64_t deep, int64_t wide) {
    const hr_contract *scores = contract_of(plan, out, HR_BACKWARD_SCORES),
                      *products = contract_of(plan, out, HR_BACKWARD_PRODUCTS);
    const hr_expr *sides[] = {scores->left, scores->right, products->left, products->right};
    if (plan->limits.compute != 90 || !plan->limits.tensor_maps) return "the device is no Hopper";
    out->dtype = hr_cuda_attention_takes(plan, sides[0], HR_BF16) ? HR_BF16 : HR_F16;
    for (int i = 0; i < 4; i++)
        if (!hr_cuda_attention_takes(plan, sides[i], out->dtype))
            return "queries, keys, values and the result's gradient are not all plain elements of bf16, or "
                   "of f16";
    if (!is_width(deep) || !is_width(wide))
        return "a query or a value is not a multiple of 8 elements, up to 128";
    if (hr_saturate_product(batch, queries > keys ? queries : keys) > INT32_MAX)
        return "it has more queries or keys than 32 bits count";
    return NULL;
}

/* They take turns. */
static int64_t blocks_of(const hr_plan *plan, int64_t batch, int64_t rows) {
    const int64_t items = batch * hr_divide_up(rows, TILE_M);
    return items < plan->limits.threads ? items : plan->limits.threads;
}

static void tile_take(const hr_plan *plan, int64_t batch, int64_t queries, int64_t keys,
                      hr_cuda_backward *out) {
    const int64_t spans = (out->deep + SPAN - 1) / SPAN + (out->wide + SPAN - 1) / SPAN;
    const int64_t own = spans * TILE_M * SPAN * 2,
                  place = (spans * SPAN * 2 + out->of_query_count * 4) * TILE_N + 16;
    const int64_t shared = plan->limits.shared_bytes - BARRIERS;
    out->tile_m = TILE_M;
    out->tile_n = TILE_N;
    out->threads = 3 * 128;
    out->waits = out->deep + out->wide > SUMS_MOST;
    out->own_places = 2 * own + 2 * place <= shared ? 2 : 1;
    const int64_t room = (shared - out->own_places * own) / place;
    out->places = room < PLACES_MOST ? (int)room : PLACES_MOST;
    out->shared_bytes = out->own_places * own + out->places * place + BARRIERS;
    out->query_blocks = blocks_of(plan, batch, queries);
    out->key_blocks = blocks_of(plan, batch, keys);
    const int64_t bytes = 2 * (queries + keys) * (out->deep + out->wide);
    out->section = hr_cuda_attention_section(bytes, batch);
}

hr_status hr_cuda_backward_choose(const hr_plan *plan, int scores, const int64_t *extents,
                                  hr_cuda_backward *out) {
    int64_t batch, queries, keys, deep, wide;
    *out = (hr_cuda_backward){0};
    out->found = hr_backward_find(plan, scores, &out->text);
    if (!out->found) return HR_OK;
    const hr_contract *s = contract_of(plan, out, HR_BACKWARD_SCORES),
                      *p = contract_of(plan, out, HR_BACKWARD_PRODUCTS);
    HR_TRY(hr_plan_points(plan, s->batch, s->batch_count, extents, &batch));
    HR_TRY(hr_plan_points(plan, s->m, s->m_count, extents, &queries));
    HR_TRY(hr_plan_points(plan, s->n, s->n_count, extents, &keys));
    HR_TRY(hr_plan_points(plan, s->k, s->k_count, extents, &deep));
    HR_TRY(hr_plan_points(plan, p->k, p->k_count, extents, &wide));
    const char *why = refusal(plan, out, batch, queries, keys, deep, wide);
    if (!why) {
        HR_TRY(views_of(plan, extents, out));
        if (!out->query.rank || !out->given.rank || !out->key.rank || !out->value.rank)
            why =
                "the copy engine cannot walk what it reads: an axis has a gap, or rows are no whole 16 bytes";
    }
    if (why) {
        snprintf(out->why, sizeof out->why, "not one with the other products of attention's gradients: %s",
                 why);
        return HR_OK;
    }
    out->fits = true;
    out->deep = (int)deep;
    out->wide = (int)wide;
    if (out->text.mask) hr_key_bounds_find(plan, s, out->text.mask, &out->bounds);
    find_of_query(plan, out);
    tile_take(plan, batch, queries, keys, out);
    snprintf(out->why, sizeof out->why,
             "two kernels with the other products of attention's gradients, on the tensor cores by wgmma: "
             "scores are made again in registers, weights are rounded to %s%s",
             hr_dtype_name(out->dtype), out->bounds.bound ? ", keys past the mask are left out" : "");
    return HR_OK;
}
