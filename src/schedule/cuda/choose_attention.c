/* Attention as one kernel. In: a region. Out: whether, and how. See choose_attention.h. */
#include "schedule/cuda/choose_attention.h"

#include "base/dtype.h"
#include "base/saturate.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/whole_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* GROUP_ROWS: of a warpgroup's product. SPAN: elements of 128 bytes, which a box is wide. STAGES: of the ring
 * of keys and of that of values. */
enum { GROUP_ROWS = 64, SPAN = 64, STAGES = 2, BARRIERS = 6 * STAGES, WIDTH_MOST = 256, WIDTH_STEP = 8 };

/* Few queries: rows of a tile and keys of a step, both those of a product of mma.sync; warps that take steps
 * in turn; lanes. QUERY_REGISTERS: elements of a query that registers hold. FEW_MOST: queries for which
 * reading the keys once for each tile is cheaper than a tile of wgmma. */
enum {
    TILE_ROWS = 16,
    TILE_KEYS = 16,
    WARPS = 4,
    LANES = 32,
    PLACES_MOST = 4,
    SPLITS_MOST = 64,
    QUERY_REGISTERS = 128,
    FEW_MOST = 32
};

/* What the start and the end of a block cost, and the kernel that adds up parts, in bytes that the memory
 * brings to a block meanwhile: 3 us at 12 bytes a ns, two blocks a multiprocessor. PART_MOST: of lengths
 * that data tells, so small that a long row is many blocks. */
#define BLOCK_BYTES (INT64_C(36) << 10)
#define PART_MOST   (INT64_C(2) << 20)

/* Registers of a thread that loads and of one that multiplies, by how many groups multiply: what setmaxnreg
 * makes of the 65536 of a multiprocessor. Threads that widen what they load hold many pieces. */
static const struct {
    int load, multiply;
} registers[] = {[2] = {40, 232}, [3] = {32, 160}}, registers_widening = {56, 224};

/* Keys and values of a section, a good half of an L2 of 50 MB. */
#define SECTION_BYTES (INT64_C(32) << 20)

/* Tiles of keys from which on items of unequal length are blocks of their own: of 8 the beginnings and ends
 * of blocks cost more (330 to 293 TFLOP/s), of 32 they gain 8 % and more. */
enum { UNEVEN_LEAST = 16 };

/* Tiles of keys whose classes have room in the shared memory that every kernel may have; steps of a block
 * whose classes leave room for its rings. */
enum { LISTED_MOST = 48 << 10, CLASSED_MOST = 16 << 10 };

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

/* The axis of what batches share has an element for all of them. */
hr_status hr_cuda_attention_view(const hr_plan *plan, const hr_contract *scores, const int64_t *extents,
                                 const hr_expr *e, hr_gemm_indices inner, hr_gemm_view *view,
                                 int64_t *group) {
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
    HR_TRY(hr_cuda_attention_view(plan, scores, extents, scores->right, deep, &out->key, &out->key_group));
    return hr_cuda_attention_view(plan, scores, extents, out->softmax.value, wide, &out->value,
                                  &out->value_group);
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

static hr_dtype dtype_of(const hr_plan *plan, const hr_expr *e) {
    return e->op == HR_OP_ELEMENT ? plan->normal->tensors[e->tensor].dtype : e->type;
}

static bool is_f8(hr_dtype dtype) {
    return dtype == HR_F8E4M3 || dtype == HR_F8E5M2;
}

/* bf16 where one of the three is, else f16. False where one is neither that nor f8. */
static bool dtype_take(const hr_plan *plan, const hr_expr *const sides[3], hr_cuda_attention *out) {
    bool fits = true;
    out->dtype = HR_F16;
    for (int i = 0; i < 3; i++) {
        const hr_dtype dtype = dtype_of(plan, sides[i]);
        if (dtype == HR_BF16) out->dtype = HR_BF16;
        out->widens = out->widens || is_f8(dtype);
    }
    for (int i = 0; i < 3; i++)
        fits = fits && (dtype_of(plan, sides[i]) == out->dtype || is_f8(dtype_of(plan, sides[i])));
    return fits;
}

/* Queries, keys and values of f8, with scales of keys: as factors of weights bf16 holds them, however small
 * they are. */
static bool is_of_scaled_eighths(const hr_plan *plan, const hr_region *region, const hr_cuda_attention *a) {
    const hr_contract *scores = plan->stages[region->first].contract;
    return is_f8(dtype_of(plan, scores->left)) && is_f8(dtype_of(plan, scores->right)) &&
           is_f8(dtype_of(plan, a->softmax.value)) && hr_softmax_has_pairs(&a->softmax);
}

/* One of them is a conversion, or an element of 16 bits. */
static bool rounds_to_half(const hr_plan *plan, const hr_expr *const sides[3]) {
    for (int i = 0; i < 3; i++)
        if (sides[i]->op == HR_OP_CONVERT || hr_dtype_size(dtype_of(plan, sides[i])) == 2) return true;
    return false;
}

/* In words, what keeps both kernels from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                           const attention_sizes *sizes, hr_cuda_attention *out) {
    if (plan->limits.compute < 80) return "the device has no tensor cores for it";
    const hr_expr *sides[] = {scores->left, scores->right, hr_expr_within(values->right)};
    if (!dtype_take(plan, sides, out) ||
        !hr_cuda_attention_takes(plan, scores->left, dtype_of(plan, scores->left)))
        return rounds_to_half(plan, sides) ? "queries, keys or values are rounded where they are read, or "
                                             "are not all of bf16, of f16 or "
                                             "of f8: round each by a statement of its own"
                                           : "queries, keys and values are not all elements of bf16, of f16 "
                                             "or of f8; products of f32 "
                                             "are kept exact; rounded by statements of their own, qh[b, i, "
                                             "d] = bf16(q[b, i, d]), they "
                                             "are one kernel";
    if (sizes->deep > WIDTH_MOST || sizes->wide > WIDTH_MOST || sizes->deep < 1 || sizes->wide < 1)
        return "a query or a value has more than 256 elements";
    if (hr_saturate_product(sizes->batch, sizes->m) > INT32_MAX / SPLITS_MOST || sizes->n > INT32_MAX)
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

typedef struct conversion {
    const hr_plan *plan;
    const int64_t *extents;
} conversion;

static hr_visit is_small_conversion(const hr_expr *node, const void *context) {
    const conversion *c = context;
    if (node->op != HR_OP_CONVERT || node->dtype != HR_F32 || node->args[0]->op == HR_OP_EXTENT)
        return HR_VISIT_ON;
    const interval range = hr_whole_range_of(c->plan->normal, c->extents, node->args[0]);
    return hr_visit_until(range.known && range.low > -HR_ATTENTION_SMALL && range.high < HR_ATTENTION_SMALL);
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
    return a->scale && (a->softmax.bounded || !a->softmax.mask) && a->softmax.normalised &&
           !hr_softmax_has_pairs(&a->softmax);
}

/* Keys of a tile, by how many spans queries or values have. Scores, sums and weights of a thread are
 * registers: the wider the values, the fewer keys, and the fewer the more the text does with a score. */
static int tile_keys(const hr_plan *plan, const hr_cuda_attention *a, int64_t most) {
    const bool more = hr_softmax_has_pairs(&a->softmax) || !a->softmax.normalised,
               some = more || !is_plain(a) || a->widens || plan->stages[a->first].mask_begin;
    if (most > 3) return more ? 32 : some ? 48 : 64;
    if (most > 2) return more ? 64 : some ? 80 : 96;
    return hr_softmax_has_pairs(&a->softmax) ? 64 : 128;
}

/* Where both are narrow a third group has room. */
static void tile_take(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const int64_t most = spans(sizes->deep > sizes->wide ? sizes->deep : sizes->wide);
    const bool third = most == 1 && is_plain(out) && !out->widens && sizes->m > 2 * GROUP_ROWS;
    const int groups = third ? 3 : 2;
    out->tile_m = groups * GROUP_ROWS;
    out->tile_n = tile_keys(plan, out, most);
    out->threads = 128 * (1 + groups);
    out->load_registers = out->widens ? registers_widening.load : registers[groups].load;
    out->multiply_registers = out->widens ? registers_widening.multiply : registers[groups].multiply;
    out->query_places = shared_bytes(sizes, out, 2) <= plan->limits.shared_bytes ? 2 : 1;
    out->shared_bytes = shared_bytes(sizes, out, out->query_places);
}

/* Blocks that take items in turn begin the next one while the last one's results leave. Where a mask makes
 * long items and short ones, each is a block of its own: whichever multiprocessor is free takes the next. */
static void blocks_take(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const hr_stage *first = &plan->stages[out->first];
    const bool uneven = first->mask_bound && !first->mask_begin && !out->begin_blocks &&
                        sizes->n >= UNEVEN_LEAST * out->tile_n;
    out->blocks = sizes->batch * hr_divide_up(sizes->m, out->tile_m);
    if (out->blocks > plan->limits.threads && (!uneven || out->blocks > INT32_MAX))
        out->blocks = plan->limits.threads;
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

/* Lists of tiles for a mask that is more than bounds, one for each tile of queries of the batches that it
 * has.
 */
static hr_status lists_take(const hr_plan *plan, const hr_contract *scores, const attention_sizes *sizes,
                            const int64_t *extents, hr_cuda_attention *out) {
    const int64_t tiles = hr_divide_up(sizes->n, out->tile_n);
    int64_t batches;
    const hr_expr *mask = out->softmax.bounded ? NULL : out->softmax.mask;
    if (!hr_mask_classes_find(plan, scores, mask, &out->classes) || tiles > LISTED_MOST) return HR_OK;
    HR_TRY(hr_plan_points(plan, out->classes.batch, out->classes.batch_count, extents, &batches));
    out->begin_blocks = hr_saturate_product(batches, hr_divide_up(sizes->m, out->tile_m));
    out->begin_shared_bytes = hr_divide_up(tiles, 16) * 16;
    out->work_bytes = hr_saturate_product(out->begin_blocks, (tiles + 2) * (int64_t)sizeof(int));
    return HR_OK;
}

/* ---- words ---- */

static bool is_local(const hr_plan *plan, const hr_expr *e) {
    e = hr_expr_within(e);
    return e->op == HR_OP_ELEMENT && plan->normal->tensors[e->tensor].role == HR_ROLE_LOCAL;
}

/* Which of its operands the text makes: turned or normalised queries and keys. */
static void explain_made(const hr_plan *plan, hr_cuda_attention *out) {
    const hr_contract *scores = plan->stages[out->first].contract;
    const bool queries = is_local(plan, scores->left), keys = is_local(plan, scores->right),
               values = is_local(plan, out->softmax.value);
    const size_t length = strlen(out->why);
    if (queries || keys || values)
        snprintf(
            out->why + length, sizeof out->why - length,
            "; %s%s%s that the text makes are made once, by a stage before it: for each tile they would be "
            "made again",
            queries ? "queries" : "", keys ? (queries ? " and keys" : "keys") : "",
            values ? (queries || keys ? " and values" : "values") : "");
}

static void explain(const hr_plan *plan, hr_cuda_attention *out) {
    const hr_stage *first = &plan->stages[out->first];
    const char *mask = !first->mask_bound  ? ""
                       : first->mask_begin ? ", keys before and past the mask are left out"
                                           : ", keys past the mask are left out";
    if (out->mainloop == HR_ATTENTION_SPLIT) {
        char parts[96] = "";
        if (out->splits > 1)
            snprintf(parts, sizeof parts, ", keys in %d parts that a second kernel adds up in order",
                     out->splits);
        snprintf(out->why, sizeof out->why,
                 "one kernel with the products around it, on the tensor cores by mma.sync: %d queries at a "
                 "time%s, scores stay in registers, weights are rounded to %s%s%s",
                 TILE_ROWS, parts, hr_dtype_name(out->dtype), mask,
                 out->class_bytes ? "; each block finds the steps that the mask leaves" : "");
        return;
    }
    snprintf(
        out->why, sizeof out->why,
        "one kernel with the products around it, on the tensor cores by wgmma: %d queries and %d keys at "
        "a time, scores stay in registers, weights are rounded to %s%s%s",
        out->tile_m, out->tile_n, hr_dtype_name(out->dtype),
        out->widens ? ", f8 widens to it as threads bring it" : "",
        out->begin_blocks ? "; a kernel before it lists the tiles that the mask leaves" : mask);
}

/* ---- few queries ---- */

hr_status hr_cuda_attention_load(const hr_plan *plan, const int64_t *extents, const hr_expr *e, int inner,
                                 hr_gemm_load *out) {
    const hr_tensor *tensor = &plan->normal->tensors[e->tensor];
    const hr_expr *last = tensor->rank ? e->args[tensor->rank - 1] : NULL;
    int64_t size = 0;
    *out = HR_GEMM_ELEMENTS;
    if (!last || last->op != HR_OP_INDEX || last->index != inner ||
        hr_plan_layout(plan, e->tensor) != HR_LAYOUT_DENSE)
        return HR_OK;
    for (int a = 0; a < e->arg_count; a++)
        if (a != tensor->rank - 1 && hr_expr_has_index(e->args[a], inner)) return HR_OK;
    HR_TRY(hr_extent_value(plan->normal, tensor->shape[tensor->rank - 1], extents, &size));
    if (size % WIDTH_STEP == 0) *out = HR_GEMM_CHUNKS;
    return HR_OK;
}

static hr_status choose_loads(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                              const int64_t *extents, hr_cuda_attention *out) {
    const int deep = scores->k[scores->k_count - 1], wide = values->n[values->n_count - 1];
    if (scores->k_count == 1) {
        HR_TRY(hr_cuda_attention_load(plan, extents, scores->left, deep, &out->query_load));
        HR_TRY(hr_cuda_attention_load(plan, extents, scores->right, deep, &out->key_load));
    }
    if (values->n_count == 1)
        HR_TRY(hr_cuda_attention_load(plan, extents, out->softmax.value, wide, &out->value_load));
    return HR_OK;
}

/* Of one place of a warp's ring: pieces of 16 bytes for each lane. */
static int64_t place_bytes(const attention_sizes *sizes) {
    return (2 * hr_divide_up(sizes->deep, 32) + 4 * hr_divide_up(sizes->wide, 64)) * LANES * 16;
}

/* What blocks take in all, in bytes of a block's memory traffic, where keys are in so many parts. */
static double cost_of(const hr_plan *plan, const attention_sizes *sizes, int splits) {
    const int64_t units = sizes->batch * hr_divide_up(sizes->m, TILE_ROWS);
    const int64_t keys = hr_divide_up(hr_divide_up(sizes->n, TILE_KEYS), splits) * TILE_KEYS;
    const int64_t waves = hr_divide_up(units * splits, 2 * hr_limits_threads(&plan->limits));
    const double block = (double)keys * (double)(sizes->deep + sizes->wide) * 2 + (double)BLOCK_BYTES;
    return (double)waves * block + (splits > 1 ? (double)BLOCK_BYTES : 0);
}

/* Parts of as many keys whatever there is room for: where data tell a row's length, its bits depend on that
 * alone. Long ones, where as many units are a wave. */
static int splits_by_data(const hr_plan *plan, const attention_sizes *sizes) {
    const int64_t units = sizes->batch * hr_divide_up(sizes->m, TILE_ROWS),
                  wave = hr_limits_threads(&plan->limits);
    int64_t keys = WARPS * TILE_KEYS, bytes = keys * (sizes->deep + sizes->wide) * 2;
    while (2 * bytes <= PART_MOST && (2 * bytes <= 4 * BLOCK_BYTES || 2 * bytes * wave < PART_MOST * units)) {
        keys *= 2;
        bytes *= 2;
    }
    const int64_t splits = hr_divide_up(sizes->n, keys);
    return splits < SPLITS_MOST ? (int)splits : SPLITS_MOST;
}

/* Each warp has two steps at least. */
static int splits_of(const hr_plan *plan, const attention_sizes *sizes) {
    const int64_t most = sizes->n / (2 * WARPS * TILE_KEYS);
    int best = 1;
    for (int splits = 2; splits <= SPLITS_MOST && splits <= most; splits++)
        if (cost_of(plan, sizes, splits) < 0.98 * cost_of(plan, sizes, best)) best = splits;
    return best;
}

static hr_visit is_element(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_ELEMENT);
}

/* A mask that is more than bounds says of some steps that they do not count. */
static int64_t class_bytes_of(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const int64_t steps = hr_divide_up(hr_divide_up(sizes->n, TILE_KEYS), out->splits);
    const hr_expr *mask = out->softmax.bounded ? NULL : out->softmax.mask;
    const bool classed = steps <= CLASSED_MOST &&
                         hr_mask_classes_find(plan, plan->stages[out->first].contract, mask, &out->classes);
    return classed ? hr_divide_up(steps, 16) * 16 : 0;
}

/* Parts of a tile leave through shared memory, where the ring was. */
static void split_take(const hr_plan *plan, const attention_sizes *sizes, hr_cuda_attention *out) {
    const hr_expr *bound = plan->stages[out->first].mask_bound;
    const int64_t ring = WARPS * place_bytes(sizes), pitch = hr_cuda_attention_part_bytes(out);
    const int64_t meeting = WARPS * TILE_ROWS * pitch, tiles = hr_divide_up(sizes->m, TILE_ROWS);
    out->mainloop = HR_ATTENTION_SPLIT;
    out->tile_m = TILE_ROWS;
    out->tile_n = TILE_KEYS;
    out->threads = WARPS * LANES;
    const bool by_data = bound && hr_expr_find(bound, is_element, NULL);
    out->splits = by_data ? splits_by_data(plan, sizes) : splits_of(plan, sizes);
    const int64_t queries =
        sizes->deep > QUERY_REGISTERS ? hr_divide_up(sizes->deep, 32) * 2 * LANES * 16 : 0;
    out->class_bytes = class_bytes_of(plan, sizes, out);
    out->places = (int)((plan->limits.shared_bytes / 2 - queries - out->class_bytes) / ring);
    out->places = out->places > PLACES_MOST ? PLACES_MOST : out->places < 2 ? 2 : out->places;
    out->shared_bytes = ring * out->places + queries + out->class_bytes;
    if (out->shared_bytes < meeting) out->shared_bytes = meeting;
    out->blocks = sizes->batch * tiles * out->splits;
    out->end_blocks = out->splits > 1 ? sizes->batch * sizes->m : 0;
    out->end_shared_bytes = HR_ATTENTION_END_THREADS / LANES * pitch;
    out->work_bytes = out->splits > 1 ? out->blocks * TILE_ROWS * pitch : 0;
}

/* ---- which of them ---- */

bool hr_cuda_attention_reads(const hr_plan *plan, const hr_region *region, int tensor) {
    const hr_stage *last = &plan->stages[region->last];
    for (int i = 0; i < last->step_count; i++)
        if (hr_expr_reads(last->steps[i].value, tensor)) return true;
    return false;
}

/* In words, what keeps the kernel for many queries from it; NULL = nothing. */
static hr_status hopper_refusal(const hr_plan *plan, const hr_contract *scores, const hr_contract *values,
                                const attention_sizes *sizes, const int64_t *extents, hr_cuda_attention *out,
                                const char **why) {
    *why = NULL;
    if (plan->limits.compute != 90 || !plan->limits.tensor_maps)
        *why = "the device is no Hopper";
    else if (!hr_cuda_attention_takes(plan, scores->right, dtype_of(plan, scores->right)) ||
             !hr_cuda_attention_takes(plan, out->softmax.value, dtype_of(plan, out->softmax.value)))
        *why = "elements are there under a condition alone";
    else if (!is_width(sizes->deep) || !is_width(sizes->wide))
        *why = "a query or a value is not a multiple of 8 elements";
    if (*why) return HR_OK;
    if (out->widens) return choose_loads(plan, scores, values, extents, out);
    HR_TRY(views_of(plan, scores, values, extents, out));
    if (!out->query.rank || !out->key.rank || !out->value.rank)
        *why = "the copy engine cannot walk queries, keys or values";
    return HR_OK;
}

hr_status hr_cuda_attention_choose(const hr_plan *plan, const hr_region *region, const int64_t *extents,
                                   hr_cuda_attention *out) {
    const hr_contract *scores = plan->stages[region->first].contract,
                      *values = plan->stages[region->last].contract;
    attention_sizes sizes;
    const char *why, *few;
    *out =
        (hr_cuda_attention){.first = region->first, .last = region->last, .key_group = 1, .value_group = 1};
    HR_TRY(sizes_of(plan, scores, values, extents, &sizes));
    why = refusal(plan, scores, values, &sizes, out);
    if (!why) hr_softmax_find(plan, region, &out->softmax, &why);
    if (!why && is_of_scaled_eighths(plan, region, out)) out->dtype = HR_BF16;
    if (why) {
        snprintf(out->why, sizeof out->why, "not one kernel with the products around it: %s", why);
        return HR_OK;
    }
    out->fits = true;
    for (int t = 0; t < plan->normal->tensor_count; t++)
        out->reads_rows = out->reads_rows || (region->inner[t] && hr_cuda_attention_reads(plan, region, t));
    out->deep = (int)sizes.deep;
    out->wide = (int)sizes.wide;
    const conversion conversion = {plan, extents};
    out->small = hr_expr_find(out->softmax.open, is_small_conversion, &conversion);
    out->scale = scale_of(plan, extents, out->softmax.open, scores->product);
    HR_TRY(hopper_refusal(plan, scores, values, &sizes, extents, out, &few));
    if (few || sizes.m <= FEW_MOST) {
        HR_TRY(choose_loads(plan, scores, values, extents, out));
        split_take(plan, &sizes, out);
    } else {
        HR_TRY(leaves_rows(plan, scores, &plan->stages[out->last], extents, &out->leaves_rows));
        tile_take(plan, &sizes, out);
        out->section = section_of(&sizes, out->key_group, plan->stages[out->first].mask_bound != NULL);
        HR_TRY(lists_take(plan, scores, &sizes, extents, out));
        blocks_take(plan, &sizes, out);
    }
    explain(plan, out);
    explain_made(plan, out);
    return HR_OK;
}
