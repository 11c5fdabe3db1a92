/* The gradients of attention as one kernel or two. In: a plan, its scores. Out: whether, and how. See
 * choose_backward.h. */
#include "schedule/cuda/choose_backward.h"

#include "base/dtype.h"
#include "base/saturate.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_attention.h"

#include <stdio.h>

/* Of wgmma. WIDTH_MOST: a thread's sums of both gradients are registers, deep + wide of them by two.
 * SUMS_MOST: with more there are none for what the next tile needs. */
enum {
    TILE_M = 128,
    TILE_N = 64,
    SPAN = 64,
    PLACES_MOST = 4,
    WIDTH_MOST = 256,
    NARROW_MOST = 128, /* of tiles of TILE_N rows, whose sums are registers of one block */
    WIDTH_STEP = 8,
    SUMS_MOST = 192,
    BARRIERS = 32 /* bytes of those of owned rows */
};

/* Of the one kernel. Its rings' tiles have as many queries as registers hold scores and products of beside
 * both gradients. A head's blocks of keys begin SECTION_STEPS tiles after each other at least, where so many
 * heads go together that this is no waiting for the turn. */
enum {
    FUSED_BARRIERS = 64 + 64,
    FUSED_NARROW = 64,
    FUSED_PLACES = 2,
    WORK_ALIGNED = 1024,
    COLUMN_BYTES = 2 * 128 * 2,
    CLEAR_RUN = 4096,
    SECTION_STEPS = 3
};

/* Of mma.sync: rows of a warp's products, owned rows of a block; columns that a block sums, each half a
 * register of a thread. */
enum { WARP_ROWS = 16, WARPS = 4, PART_STEP = 16, PART_MOST = 256, RING_PLACES = 2, ANY_WIDTH_MOST = 256 };

/* Tiles whose classes have room in the shared memory that every kernel may have. */
enum { LISTED_MOST = 48 << 10 };

typedef struct backward_sizes {
    int64_t batch, queries, keys, deep, wide;
} backward_sizes;

static const hr_contract *contract_of(const hr_plan *plan, const hr_cuda_backward *b,
                                      hr_backward_stage which) {
    return plan->stages[b->text.stage[which]].contract;
}

static bool is_width(int64_t width) {
    return width >= WIDTH_STEP && width <= WIDTH_MOST && width % WIDTH_STEP == 0;
}

const hr_expr *hr_cuda_backward_operand(const hr_plan *plan, const hr_cuda_backward *b,
                                        hr_backward_side side) {
    const bool scores = side == HR_BACKWARD_OF_QUERIES || side == HR_BACKWARD_OF_KEYS;
    const hr_contract *c = contract_of(plan, b, scores ? HR_BACKWARD_SCORES : HR_BACKWARD_PRODUCTS);
    return side == HR_BACKWARD_OF_QUERIES || side == HR_BACKWARD_GIVEN ? c->left : c->right;
}

/* Queries and what is given have a row for each query and batch; batches may share keys and values. */
static hr_status views_of(const hr_plan *plan, const int64_t *extents, hr_cuda_backward *out) {
    for (int side = 0; side < HR_BACKWARD_SIDES; side++) {
        const hr_expr *e = hr_cuda_backward_operand(plan, out, side);
        const bool deep = side == HR_BACKWARD_OF_QUERIES || side == HR_BACKWARD_OF_KEYS;
        const hr_contract *c = contract_of(plan, out, deep ? HR_BACKWARD_SCORES : HR_BACKWARD_PRODUCTS);
        const hr_gemm_indices batch = {c->batch_count, c->batch}, rows = {c->m_count, c->m},
                              inner = {c->k_count, c->k};
        out->group[side] = 1;
        if (side == HR_BACKWARD_OF_QUERIES || side == HR_BACKWARD_GIVEN)
            HR_TRY(
                hr_gemm_view_make(plan, extents, e->tensor, e->args, inner, rows, batch, &out->view[side]));
        else
            HR_TRY(hr_cuda_attention_view(plan, c, extents, e, inner, &out->view[side], &out->group[side]));
    }
    return HR_OK;
}

static hr_status loads_of(const hr_plan *plan, const int64_t *extents, hr_cuda_backward *out) {
    for (int side = 0; side < HR_BACKWARD_SIDES; side++) {
        const bool deep = side == HR_BACKWARD_OF_QUERIES || side == HR_BACKWARD_OF_KEYS;
        const hr_contract *c = contract_of(plan, out, deep ? HR_BACKWARD_SCORES : HR_BACKWARD_PRODUCTS);
        out->group[side] = 1;
        out->load[side] = HR_GEMM_ELEMENTS;
        if (c->k_count == 1)
            HR_TRY(hr_cuda_attention_load(plan, extents, hr_cuda_backward_operand(plan, out, side), c->k[0],
                                          &out->load[side]));
    }
    return HR_OK;
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

/* ---- which of them ---- */

/* In words, what keeps both from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const backward_sizes *sizes, hr_cuda_backward *out) {
    if (plan->limits.compute < 80) return "the device has no tensor cores for it";
    out->dtype =
        hr_cuda_attention_takes(plan, hr_cuda_backward_operand(plan, out, HR_BACKWARD_OF_QUERIES), HR_BF16)
            ? HR_BF16
            : HR_F16;
    for (int side = 0; side < HR_BACKWARD_SIDES; side++)
        if (!hr_cuda_attention_takes(plan, hr_cuda_backward_operand(plan, out, side), out->dtype))
            return "queries, keys, values and the result's gradient are not all plain elements of bf16, or "
                   "of f16; products of f32 are kept exact; rounded by statements of their own, they are "
                   "taken";
    if (sizes->deep < 1 || sizes->wide < 1 || sizes->deep > ANY_WIDTH_MOST || sizes->wide > ANY_WIDTH_MOST)
        return "a query or a value has more than 256 elements, or none";
    const int64_t most = sizes->queries > sizes->keys ? sizes->queries : sizes->keys;
    if (hr_saturate_product(sizes->batch, most) > INT32_MAX / 2)
        return "it has more queries or keys than 32 bits count";
    return NULL;
}

/* What keeps wgmma from it; NULL = nothing. */
static hr_status hopper_refusal(const hr_plan *plan, const backward_sizes *sizes, const int64_t *extents,
                                hr_cuda_backward *out, const char **why) {
    *why = NULL;
    if (plan->limits.compute != 90 || !plan->limits.tensor_maps)
        *why = "the device is no Hopper";
    else if (!is_width(sizes->deep) || !is_width(sizes->wide))
        *why = "a query or a value is not a multiple of 8 elements";
    if (*why) return HR_OK;
    HR_TRY(views_of(plan, extents, out));
    for (int side = 0; side < HR_BACKWARD_SIDES; side++)
        if (!out->view[side].rank) *why = "the copy engine cannot walk what it reads";
    return HR_OK;
}

/* They take turns. */
static int64_t blocks_of(const hr_plan *plan, int64_t batch, int64_t rows) {
    const int64_t items = batch * hr_divide_up(rows, TILE_M);
    return items < plan->limits.threads ? items : plan->limits.threads;
}

static void hopper_take(const hr_plan *plan, const backward_sizes *sizes, hr_cuda_backward *out) {
    const bool narrow = out->deep <= NARROW_MOST && out->wide <= NARROW_MOST;
    const int parts = narrow ? 1 : 2;
    out->deep_spans = (int)hr_divide_up(hr_divide_up(out->deep, SPAN), parts) * parts;
    out->wide_spans = (int)hr_divide_up(hr_divide_up(out->wide, SPAN), parts) * parts;
    out->tile_n = narrow ? TILE_N : TILE_N / 2;
    const int64_t spans = out->deep_spans + out->wide_spans;
    const int64_t own = spans * TILE_M * SPAN * 2,
                  place = (spans * SPAN * 2 + out->of_query_count * 4) * out->tile_n + 16;
    const int64_t shared = plan->limits.shared_bytes - BARRIERS;
    out->mainloop = HR_BACKWARD_HOPPER;
    out->tile_m = TILE_M;
    out->threads = 3 * 128;
    out->own_places = 2 * own + 2 * place <= shared ? 2 : 1;
    const int64_t room = (shared - out->own_places * own) / place;
    out->places = room < PLACES_MOST ? (int)room : PLACES_MOST;
    out->shared_bytes = out->own_places * own + out->places * place + BARRIERS;
    out->kernel[1] = (hr_backward_kernel){.blocks = blocks_of(plan, parts * sizes->batch, sizes->keys),
                                          .parts = parts,
                                          .deep_part = narrow ? out->deep : out->deep_spans * SPAN / parts,
                                          .wide_part = narrow ? out->wide : out->wide_spans * SPAN / parts};
    out->kernel[0] = (hr_backward_kernel){.blocks = blocks_of(plan, sizes->batch, sizes->queries),
                                          .parts = 1,
                                          .deep_part = out->deep,
                                          .wide_part = out->kernel[1].wide_part};
    out->waits = out->kernel[1].deep_part + out->kernel[1].wide_part > SUMS_MOST;
}

/* Heads that go together: with fewer, blocks of one head begin in a row and wait for their turns. */
static int64_t fused_section(const hr_plan *plan, const backward_sizes *sizes, int64_t section) {
    const int64_t least =
        hr_divide_up(SECTION_STEPS * plan->limits.threads, hr_divide_up(sizes->keys, TILE_M));
    if (section < least) section = least;
    return section < sizes->batch ? section : sizes->batch;
}

/* As one kernel, from what two have, where it takes the widths. */
static void fused_take(const hr_plan *plan, const backward_sizes *sizes, hr_cuda_backward *out) {
    const bool narrow = out->deep <= FUSED_NARROW;
    if (out->deep > NARROW_MOST || out->wide > (narrow ? FUSED_NARROW : NARROW_MOST)) return;
    const int tile_n = narrow ? 2 * TILE_N : TILE_N, columns = narrow ? out->deep : SPAN;
    const int64_t spans = hr_divide_up(out->deep, SPAN) + hr_divide_up(out->wide, SPAN);
    const int64_t sum_bytes = (int64_t)columns * COLUMN_BYTES,
                  place = (spans * SPAN * 2 + out->of_query_count * 4) * tile_n + 24;
    const int64_t bytes =
        spans * TILE_M * SPAN * 2 + 4 * TILE_M * tile_n + FUSED_PLACES * place + sum_bytes + FUSED_BARRIERS;
    if (bytes > plan->limits.shared_bytes) return;
    out->mainloop = HR_BACKWARD_FUSED;
    out->tile_n = tile_n;
    out->waits = true;
    out->own_places = 1;
    out->places = FUSED_PLACES;
    out->shared_bytes = bytes;
    out->query_columns = columns;
    out->kernel[0] = (hr_backward_kernel){0};
    out->kernel[1].end_blocks = hr_saturate_product(sizes->batch, hr_divide_up(sizes->queries, out->tile_n));
    out->section = fused_section(plan, sizes, out->section);
}

static int64_t aligned(int64_t bytes) {
    return hr_saturate_product(hr_divide_up(bytes, WORK_ALIGNED), WORK_ALIGNED);
}

/* Behind the lists. */
static void fused_lay(const backward_sizes *sizes, hr_cuda_backward *out) {
    hr_backward_kernel *kernel = &out->kernel[1];
    const int64_t tiles = kernel->end_blocks, lists = out->lists ? kernel->begin_blocks : 0;
    out->adders_at = aligned(out->work_bytes);
    out->turns_at =
        aligned(out->adders_at + hr_saturate_product(lists, hr_divide_up(sizes->queries, out->tile_n)));
    out->sums_at = aligned(out->turns_at + hr_saturate_product(tiles + 1, sizeof(int)));
    out->work_bytes = out->sums_at + hr_saturate_product(tiles, (int64_t)out->query_columns * COLUMN_BYTES);
    if (!out->lists) kernel->begin_blocks = hr_divide_up(tiles + 1, CLEAR_RUN);
}

/* Columns of a block where an item has so many. */
static int part_of(int columns, int parts) {
    return (int)hr_divide_up(hr_divide_up(columns, PART_STEP), parts) * PART_STEP;
}

/* False where shared memory has no room for it. */
static bool ampere_take(const hr_plan *plan, const backward_sizes *sizes, hr_cuda_backward *out) {
    const int64_t spans = hr_divide_up(out->deep, SPAN) + hr_divide_up(out->wide, SPAN);
    out->mainloop = HR_BACKWARD_AMPERE;
    out->tile_m = WARPS * WARP_ROWS;
    out->threads = WARPS * 32;
    out->own_places = 1;
    out->places = RING_PLACES;
    for (out->tile_n = 2 * WARP_ROWS; out->tile_n >= WARP_ROWS; out->tile_n -= WARP_ROWS) {
        const int64_t place = (spans * SPAN * 2 + out->of_query_count * 4) * out->tile_n;
        out->shared_bytes = spans * out->tile_m * SPAN * 2 + out->places * place;
        if (out->shared_bytes <= plan->limits.shared_bytes) break;
    }
    for (int keys = 0; keys < 2; keys++) {
        hr_backward_kernel *kernel = &out->kernel[keys];
        const int sums = part_of(out->deep, 1) + (keys ? part_of(out->wide, 1) : 0);
        kernel->parts = sums > PART_MOST ? 2 : 1;
        kernel->deep_part = part_of(out->deep, kernel->parts);
        kernel->wide_part = part_of(out->wide, kernel->parts);
        kernel->blocks =
            sizes->batch * kernel->parts * hr_divide_up(keys ? sizes->keys : sizes->queries, out->tile_m);
    }
    return out->tile_n >= WARP_ROWS;
}

/* Lists of tiles for a mask that is more than bounds. */
static hr_status lists_take(const hr_plan *plan, const hr_contract *scores, const backward_sizes *sizes,
                            const int64_t *extents, hr_cuda_backward *out) {
    const int64_t most = sizes->queries > sizes->keys ? sizes->queries : sizes->keys;
    int64_t batches;
    if (out->bounds.whole || hr_divide_up(most, out->tile_n) > LISTED_MOST ||
        !hr_mask_classes_find(plan, scores, out->text.mask, &out->classes))
        return HR_OK;
    HR_TRY(hr_plan_points(plan, out->classes.batch, out->classes.batch_count, extents, &batches));
    for (int keys = out->mainloop == HR_BACKWARD_FUSED; keys < 2; keys++) {
        const int64_t own = keys ? sizes->keys : sizes->queries, walk = keys ? sizes->queries : sizes->keys;
        const int64_t tiles = hr_divide_up(walk, out->tile_n);
        hr_backward_kernel *kernel = &out->kernel[keys];
        kernel->begin_blocks = hr_saturate_product(batches, hr_divide_up(own, out->tile_m));
        kernel->begin_shared_bytes = hr_divide_up(tiles, 16) * 16;
        const int64_t bytes = hr_saturate_product(kernel->begin_blocks, (tiles + 2) * (int64_t)sizeof(int));
        if (bytes > out->work_bytes) out->work_bytes = bytes;
    }
    out->lists = out->work_bytes > 0;
    return HR_OK;
}

static void refuse(hr_cuda_backward *out, const char *why) {
    snprintf(out->why, sizeof out->why, "not one with the other products of attention's gradients: %s", why);
}

static void explain(hr_cuda_backward *out) {
    const bool fused = out->mainloop == HR_BACKWARD_FUSED;
    snprintf(out->why, sizeof out->why,
             "%s with the other products of attention's gradients, on the tensor cores by %s: "
             "scores are made again in registers, weights are rounded to %s%s%s",
             fused ? "one kernel" : "two kernels", out->mainloop == HR_BACKWARD_AMPERE ? "mma.sync" : "wgmma",
             hr_dtype_name(out->dtype),
             out->lists && fused ? "; a kernel before it lists the tiles that the mask leaves"
             : out->lists        ? "; a kernel before each lists the tiles that the mask leaves"
             : out->bounds.bound ? ", keys past the mask are left out"
                                 : "",
             fused ? ", gradients of queries are added up in f32 in the order of keys" : "");
}

static hr_status sizes_of(const hr_plan *plan, const int64_t *extents, const hr_cuda_backward *b,
                          backward_sizes *out) {
    const hr_contract *s = contract_of(plan, b, HR_BACKWARD_SCORES),
                      *p = contract_of(plan, b, HR_BACKWARD_PRODUCTS);
    HR_TRY(hr_plan_points(plan, s->batch, s->batch_count, extents, &out->batch));
    HR_TRY(hr_plan_points(plan, s->m, s->m_count, extents, &out->queries));
    HR_TRY(hr_plan_points(plan, s->n, s->n_count, extents, &out->keys));
    HR_TRY(hr_plan_points(plan, s->k, s->k_count, extents, &out->deep));
    return hr_plan_points(plan, p->k, p->k_count, extents, &out->wide);
}

hr_status hr_cuda_backward_choose(const hr_plan *plan, int scores, const int64_t *extents,
                                  hr_cuda_backward *out) {
    backward_sizes sizes;
    const char *slow = NULL;
    *out = (hr_cuda_backward){0};
    out->found = hr_backward_find(plan, scores, &out->text);
    if (!out->found) {
        if (out->text.why) refuse(out, out->text.why);
        return HR_OK;
    }
    const hr_contract *s = contract_of(plan, out, HR_BACKWARD_SCORES);
    HR_TRY(sizes_of(plan, extents, out, &sizes));
    const char *why = refusal(plan, &sizes, out);
    if (!why) {
        out->deep = (int)sizes.deep;
        out->wide = (int)sizes.wide;
        find_of_query(plan, out);
        HR_TRY(hopper_refusal(plan, &sizes, extents, out, &slow));
        if (!slow)
            hopper_take(plan, &sizes, out);
        else if (ampere_take(plan, &sizes, out))
            HR_TRY(loads_of(plan, extents, out));
        else
            why = "shared memory has no room for its tiles";
    }
    if (why) {
        refuse(out, why);
        return HR_OK;
    }
    out->fits = true;
    if (out->text.mask) hr_key_bounds_find(plan, s, out->text.mask, &out->bounds);
    out->section =
        hr_cuda_attention_section(2 * (sizes.queries + sizes.keys) * (sizes.deep + sizes.wide), sizes.batch);
    if (out->mainloop == HR_BACKWARD_HOPPER) fused_take(plan, &sizes, out);
    HR_TRY(lists_take(plan, s, &sizes, extents, out));
    if (out->mainloop == HR_BACKWARD_FUSED) fused_lay(&sizes, out);
    explain(out);
    return HR_OK;
}
