/* Few vectors times a matrix whose every number is read once. In: a stage. Out: how blocks walk the matrix.
 *
 * What it costs is to read the matrix. Bytes in flight decide: each warp has a ring of its own, of which all
 * places but one are under way. The vectors stand in shared memory, whole along a block's k: more rows of a
 * block read them less often, fewer rows make more blocks.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cuda/choose_gemm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { WARP = 32, ROWS = 32, LINE = 128, CHUNK = 16, WARPS = 8, WARPS_MOST = 16, ROW_WARPS_MOST = 4 };
enum {
    PLACES_MOST = 4,
    PLACES_LEAST = 2,
    PARTS_MOST = 16,
    PART_LINES_LEAST = 16,
    ROUNDS_MOST = 64,
    VECTORS_MOST = 64,
    COLUMNS = 8,
    ALIGNMENT = 16
};

/* gemm_direct.h: rows of a warp, bytes of a row's chunk, chunks on their way, floats of a row's sums; what
 * a block takes of shared memory beside; blocks for each multiprocessor before they have more rows. */
enum {
    DIRECT_ROWS = 16,
    DIRECT_CHUNK = 64,
    DIRECT_AHEAD = 2,
    DIRECT_PITCH = 9,
    DIRECT_RESERVE = 1024,
    DIRECT_WAVES = 6
};

/* Blocks for so many of the device's multiprocessors take all that memory gives. */
static const double enough = 0.75;
/* Bytes a clock and multiprocessor; clocks of another kernel. */
static const double memory_rate = 13, l2_rate = 48, fold_clocks = 2500;
/* Multiply-adds of mma.sync; and until vectors of a round are there. */
static const double tensor_rate = 900, latency_clocks = 1500;

/* ---- operands ---- */

/* The index, or what counts groups along it. */
static bool counts(const hr_expr *e, int index, int64_t group) {
    if (e->op == HR_OP_FLOORDIV && e->args[1]->op == HR_OP_NUMBER && e->args[1]->whole == group)
        e = e->args[0];
    return e->op == HR_OP_INDEX && e->index == index;
}

/* Scales of a row of the matrix that lie side by side, group after group: as many as 16 bytes hold. */
static int scale_run(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                     const hr_packed *matrix, int64_t groups) {
    const hr_function *function = plan->normal;
    if (matrix->scale_count != 1 || matrix->scale[0]->op != HR_OP_ELEMENT) return 1;
    const hr_expr *scale = matrix->scale[0];
    const hr_tensor *tensor = &function->tensors[scale->tensor];
    const int size = (int)hr_dtype_size(tensor->dtype);
    const bool floats = tensor->dtype == HR_F32 || tensor->dtype == HR_F16 || tensor->dtype == HR_BF16;
    int64_t last;
    if (!floats || !scale->arg_count || scale->arg_count != tensor->rank || groups * size % ALIGNMENT ||
        hr_plan_layout(plan, scale->tensor) != HR_LAYOUT_DENSE ||
        hr_extent_value(function, tensor->shape[tensor->rank - 1], extents, &last) != HR_OK || last != groups)
        return 1;
    int along = 0;
    for (int i = 0; i < c->k_count; i++) {
        if (!hr_expr_has_index(scale, c->k[i])) continue;
        along++;
        if (!counts(scale->args[tensor->rank - 1], c->k[i], matrix->group)) return 1;
    }
    for (int a = 0; a < scale->arg_count - 1; a++)
        if (scale->args[a]->op != HR_OP_INDEX) return 1;
    return along == 1 ? ALIGNMENT / size : 1;
}

static hr_status vectors_lie(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                             const hr_packed_product *product, bool *lie) {
    const hr_expr *value = product->side == HR_OPERAND_LEFT ? c->right : c->left;
    const hr_gemm_indices k = {c->k_count, c->k}, batch = {c->batch_count, c->batch},
                          mn = product->side == HR_OPERAND_LEFT ? (hr_gemm_indices){c->n_count, c->n}
                                                                : (hr_gemm_indices){c->m_count, c->m};
    hr_gemm_view view = {0};
    *lie = false;
    if (value->op != HR_OP_ELEMENT || plan->normal->tensors[value->tensor].dtype != product->dtype)
        return HR_OK;
    for (int a = 0; a < value->arg_count; a++)
        if (value->args[a]->op != HR_OP_INDEX) return HR_OK;
    HR_TRY(hr_gemm_view_make(plan, extents, value->tensor, value->args, k, mn, batch, &view));
    *lie = view.rank > 0;
    return HR_OK;
}

/* ---- registers ---- */

/* Which number of a unit, byte by byte and low bits first, is in place `slot` of its registers: see
 * thin_halves_bf16() and its kin. */
static int number_of(const hr_packed *matrix, int slot) {
    const int word = slot / matrix->word_numbers, at = slot % matrix->word_numbers, pair = at / 2;
    return matrix->word_numbers == 8 ? (word * 4 + pair % 2 * 2 + at % 2) * 2 + pair / 2 : slot;
}

/* A run of `count` of the eight, which begins at slots of its own. */
static bool has_runs(const hr_gemm_thin *thin, int count) {
    for (int i = 0; i < 8; i += count) {
        int first = thin->order[i], last = thin->order[i];
        for (int j = i; j < i + count; j++) {
            if (thin->order[j] < first) first = thin->order[j];
            if (thin->order[j] > last) last = thin->order[j];
        }
        if (first % count || last - first != count - 1) return false;
    }
    return thin->product.matrix.apart % count == 0 && thin->piece_apart % count == 0;
}

/* False where pieces of eight are not all alike. */
static bool order_make(hr_gemm_thin *thin) {
    const hr_packed *matrix = &thin->product.matrix;
    const int numbers = hr_packed_numbers(matrix);
    for (int slot = 0; slot < numbers; slot++) {
        const int here = matrix->place[number_of(matrix, slot)];
        if (slot < 8) thin->order[slot] = here;
        if (slot == 8) thin->piece_apart = here - thin->order[0];
        if (here != thin->order[slot % 8] + slot / 8 * thin->piece_apart) return false;
    }
    thin->run = has_runs(thin, 8) ? 8 : has_runs(thin, 4) ? 4 : 1;
    return true;
}

/* ---- straight into registers ---- */

static hr_visit is_made(const hr_expr *e, const void *context) {
    const hr_function *function = context;
    return hr_visit_until(e->op == HR_OP_ELEMENT && function->tensors[e->tensor].role != HR_ROLE_INPUT);
}

/* Nothing that comes before the stage in its kernel makes the matrix, or its scales. */
static bool is_early(const hr_plan *plan, const hr_packed *matrix) {
    const hr_function *function = plan->normal;
    bool early = !hr_expr_find(matrix->element, is_made, function);
    for (int i = 0; i < matrix->scale_count; i++)
        early = early && !hr_expr_find(matrix->scale[i], is_made, function);
    return early;
}

/* Numbers of two registers, each of which has a word of four lanes' 16 bytes. */
static void direct_order(hr_gemm_thin *thin) {
    const hr_packed *matrix = &thin->product.matrix;
    for (int slot = 0; slot < 8; slot++)
        thin->order[slot] = slot / 4 * 16 + matrix->place[slot % 4];
    thin->run = has_runs(thin, 8) ? 8 : has_runs(thin, 4) ? 4 : 1;
}

static int64_t direct_bytes(const hr_gemm_thin *thin) {
    const int64_t chunks = hr_divide_up(thin->product.matrix.row_bytes, DIRECT_CHUNK);
    const int64_t vectors = chunks * DIRECT_CHUNK * thin->vectors * 2;
    const int64_t sums =
        (int64_t)thin->k_warps * DIRECT_ROWS * thin->row_warps * DIRECT_PITCH * (int64_t)sizeof(float);
    return vectors > sums ? vectors : sums;
}

/* Up to eight vectors that stand in shared memory whole, two blocks of a multiprocessor's. */
static bool direct_make(const hr_plan *plan, const hr_gemm_sizes *s, hr_gemm_thin *thin) {
    const hr_packed *matrix = &thin->product.matrix;
    const int64_t processors = hr_limits_threads(&plan->limits);
    if (thin->all_vectors > COLUMNS || !matrix->scale_count || matrix->group % 16 != 0) return false;
    direct_order(thin);
    thin->scale_run = 1;
    thin->ahead = DIRECT_AHEAD;
    thin->early = is_early(plan, matrix);
    thin->row_warps = 1;
    while (thin->row_warps < WARPS &&
           s->batch * hr_divide_up(thin->rows, (int64_t)DIRECT_ROWS * 2 * thin->row_warps) >=
               DIRECT_WAVES * processors)
        thin->row_warps *= 2;
    thin->k_warps = WARPS / thin->row_warps;
    return (direct_bytes(thin) + DIRECT_RESERVE) * HR_GEMM_DIRECT_BLOCKS <= plan->limits.shared_bytes;
}

/* ---- blocks ---- */

static int64_t row_blocks(const hr_gemm_sizes *s, const hr_gemm_thin *thin) {
    const int64_t vectors = hr_divide_up(thin->all_vectors, thin->vectors);
    return hr_saturate_product(hr_saturate_product(s->batch, vectors),
                               hr_divide_up(thin->rows, (int64_t)ROWS * thin->row_warps));
}

static int64_t all_lines(const hr_gemm_thin *thin) {
    return hr_divide_up(thin->product.matrix.row_bytes, LINE);
}

/* Groups that a part touches. */
static int64_t groups_of(const hr_gemm_thin *thin) {
    const hr_packed *matrix = &thin->product.matrix;
    const int64_t numbers = (int64_t)thin->part_lines * hr_packed_line(matrix);
    if (!matrix->scale_count) return 0;
    return hr_divide_up(numbers, matrix->group) + (numbers % matrix->group != 0);
}

static int64_t shared_bytes(const hr_gemm_thin *thin) {
    const hr_packed *matrix = &thin->product.matrix;
    const int64_t rows = (int64_t)ROWS * thin->row_warps;
    const int64_t pitch = matrix->unit_bytes == 4 ? LINE + CHUNK : LINE; /* thin_memory: line_pitch */
    const int64_t ring = (int64_t)thin->row_warps * thin->k_warps * thin->places * ROWS * pitch;
    const int64_t vectors = (int64_t)thin->part_lines * hr_packed_line(matrix) * thin->vectors * 2;
    return ring + vectors + rows * hr_gemm_thin_pitch(thin) * (int64_t)sizeof(float) +
           rows * (int64_t)sizeof(int);
}

/* All of them, or equal shares of whole columns of the tensor cores. */
static int vectors_of_block(int64_t all) {
    const int64_t blocks = hr_divide_up(all, VECTORS_MOST);
    return (int)(blocks > 1 ? hr_divide_up(all, blocks * 8) * 8 : all);
}

/* As deep a ring as there is room for; false where there is none for the shallowest. */
static bool fits(const hr_plan *plan, hr_gemm_thin *thin, int warps) {
    thin->k_warps = warps / thin->row_warps;
    const int64_t lines = hr_divide_up((int64_t)thin->part_lines * thin->rounds, thin->k_warps);
    thin->places = lines + 1 < PLACES_MOST ? (int)lines + 1 : PLACES_MOST;
    while (thin->places > PLACES_LEAST && shared_bytes(thin) > plan->limits.shared_bytes)
        thin->places--;
    return shared_bytes(thin) <= plan->limits.shared_bytes;
}

/* Parts of k of so many rounds, about `splits` of them. Lines of a round are whole turns of the warps. */
static bool part(const hr_plan *plan, hr_gemm_thin *thin, int splits, int rounds, int warps) {
    const int64_t turn = rounds > 1 ? warps / thin->row_warps : 1;
    thin->rounds = rounds;
    thin->part_lines = hr_saturate_int(
        hr_saturate_product(hr_divide_up(all_lines(thin), (int64_t)splits * rounds * turn), turn));
    thin->part_groups = hr_saturate_int(groups_of(thin));
    return fits(plan, thin, warps);
}

/* Clocks. Memory gives its bytes to blocks that are enough; a multiprocessor takes what its blocks read of
 * the L2; vectors are waited for; a second kernel adds up parts. */
static double cost(const hr_plan *plan, const hr_gemm_sizes *s, const hr_gemm_thin *thin, int splits) {
    const hr_packed *matrix = &thin->product.matrix;
    const double processors = (double)hr_limits_threads(&plan->limits);
    const double blocks = (double)row_blocks(s, thin) * splits;
    const double lines = (double)thin->part_lines * thin->rounds, numbers = lines * hr_packed_line(matrix);
    const double matrix_bytes = (double)ROWS * thin->row_warps * lines * LINE;
    const double vector_bytes = numbers * thin->vectors * 2;
    const double at_once = shared_bytes(thin) * 2 <= plan->limits.shared_bytes ? 2 : 1;
    const double waves = ceil(blocks / (processors * at_once)),
                 share = fmin(1, blocks / (enough * processors));
    const double memory = (double)s->batch * (double)thin->rows * (double)matrix->row_bytes /
                          (memory_rate * processors * share);
    const double l2 = waves * at_once * (matrix_bytes + vector_bytes) / l2_rate;
    const double tensor = waves * at_once * numbers * ROWS * thin->row_warps *
                          (double)hr_divide_up(thin->vectors, 8) * 8 / tensor_rate;
    return fmax(fmax(memory, l2), tensor) +
           waves * (vector_bytes / l2_rate / 2 + thin->rounds * latency_clocks) +
           (splits > 1 ? fold_clocks : 0);
}

/* By the tuner, if it asks for any. */
static bool is_asked_for(const hr_knobs *knobs, const hr_gemm_thin *thin, int splits) {
    return !knobs || ((!knobs->tile_m || knobs->tile_m == ROWS * thin->row_warps) &&
                      (!knobs->split_k || knobs->split_k == splits));
}

typedef struct search {
    const hr_plan *plan;
    const hr_knobs *knobs;
    const hr_gemm_sizes *sizes;
    double least;
    hr_gemm_thin best;
} search;

/* Scales are read so many at once where rounds begin at a whole number of them. */
static bool has_scale_runs(const hr_gemm_thin *thin, int splits) {
    const hr_packed *matrix = &thin->product.matrix;
    const int64_t numbers = (int64_t)thin->part_lines * hr_packed_line(matrix);
    return (splits == 1 && thin->rounds == 1) || numbers % (matrix->group * thin->scale_run) == 0;
}

/* All depths of rounds and numbers of warps, of one number of parts. */
static void consider(search *s, hr_gemm_thin thin, int splits) {
    const int most = thin.row_warps == ROW_WARPS_MOST && thin.vectors <= COLUMNS ? WARPS_MOST : WARPS;
    for (int rounds = 1; rounds <= ROUNDS_MOST; rounds *= 2)
        for (int warps = most; warps >= WARPS; warps /= 2) {
            if (!part(s->plan, &thin, splits, rounds, warps)) continue;
            const double mine = cost(s->plan, s->sizes, &thin, splits);
            if (mine >= s->least) continue;
            s->least = mine;
            s->best = thin;
        }
}

/* The best of blocks of 32, 64 and 128 rows and of parts of k. False where none fits. */
static bool blocks_make(const hr_plan *plan, const hr_knobs *knobs, const hr_gemm_sizes *s,
                        hr_gemm_thin *thin, int *splits) {
    const int64_t most = all_lines(thin) / PART_LINES_LEAST;
    search search = {.plan = plan, .knobs = knobs, .sizes = s, .least = INFINITY};
    for (int count = 1; count <= PARTS_MOST && (count == 1 || count <= most); count++)
        for (thin->row_warps = ROW_WARPS_MOST; thin->row_warps > 0; thin->row_warps /= 2)
            if (is_asked_for(knobs, thin, count)) consider(&search, *thin, count);
    if (search.least == INFINITY) return false;
    *thin = search.best;
    *splits = hr_saturate_int(hr_divide_up(all_lines(thin), (int64_t)thin->part_lines * thin->rounds));
    return true;
}

static void explain_direct(hr_cuda_gemm *gemm) {
    const hr_gemm_thin *thin = &gemm->thin;
    snprintf(gemm->why, sizeof gemm->why,
             "on the tensor cores by mma.sync, the matrix streams past %" PRId64
             " vectors straight into registers: numbers of %d bits become %s, sums of %" PRId64
             " along k times their scale in f32; blocks of %d rows, %d warps along k",
             thin->all_vectors, 32 / thin->product.matrix.word_numbers, hr_dtype_name(gemm->dtype),
             thin->product.matrix.group, DIRECT_ROWS * thin->row_warps, thin->k_warps);
}

static void explain(hr_cuda_gemm *gemm) {
    const hr_gemm_thin *thin = &gemm->thin;
    const hr_packed *matrix = &thin->product.matrix;
    char scales[96] = "", splits[64] = "";
    if (matrix->scale_count)
        snprintf(scales, sizeof scales, ", sums of %" PRId64 " along k times their scale in f32",
                 matrix->group);
    if (gemm->tile.splits > 1)
        snprintf(splits, sizeof splits, ", k in %d parts that a second kernel adds up in order",
                 gemm->tile.splits);
    snprintf(
        gemm->why, sizeof gemm->why,
        "on the tensor cores by mma.sync, the matrix streams past %" PRId64
        " vectors: numbers of %d bits become %s in registers%s; blocks of %d rows, %d warps along k, rings "
        "of %d lines%s",
        thin->all_vectors, 32 / matrix->word_numbers, hr_dtype_name(gemm->dtype), scales,
        ROWS * thin->row_warps, thin->k_warps, thin->places, splits);
}

static void direct_take(const hr_gemm_sizes *sizes, const hr_gemm_thin *thin, hr_cuda_gemm *out) {
    const int rows = DIRECT_ROWS * thin->row_warps;
    *out = (hr_cuda_gemm){
        .mainloop = HR_GEMM_THIN,
        .rights = 1,
        .dtype = thin->product.dtype,
        .pair_count = 1,
        .thin = *thin,
        .tile = {.m = rows, .n = 16, .stages = thin->ahead, .cluster = 1, .raster = 1, .splits = 1},
        .threads = WARP * WARPS,
        .shared_bytes = direct_bytes(thin),
        .blocks = hr_saturate_product(sizes->batch, hr_divide_up(thin->rows, rows))};
    out->left.dtype = out->right.dtype = out->dtype;
    explain_direct(out);
}

hr_status hr_gemm_thin_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              const hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *taken) {
    const hr_contract *c = stage->contract;
    hr_gemm_thin thin = {0};
    int splits;
    *taken = false;
    const hr_knobs *knobs = hr_stage_knobs(stage);
    if (!hr_plan_knows(plan, HR_FACT_PACKED_PRODUCTS) || sizes->batch < 1 || (knobs && knobs->tile_n) ||
        !hr_packed_product_find(plan->normal, extents, c, &thin.product))
        return HR_OK;
    const hr_packed *matrix = &thin.product.matrix;
    if (hr_plan_layout(plan, matrix->element->tensor) != HR_LAYOUT_DENSE) return HR_OK;
    thin.all_vectors = thin.product.side == HR_OPERAND_LEFT ? sizes->n : sizes->m;
    thin.vectors = vectors_of_block(thin.all_vectors);
    thin.rows = thin.product.side == HR_OPERAND_LEFT ? sizes->m : sizes->n;
    thin.k = sizes->k;
    thin.scale_run = scale_run(plan, extents, c, matrix, sizes->k / matrix->group);
    HR_TRY(vectors_lie(plan, extents, c, &thin.product, &thin.vectors_lie));
    if (hr_packed_numbers(matrix) < 8) {
        if (!direct_make(plan, sizes, &thin)) return HR_OK;
        direct_take(sizes, &thin, out);
        *taken = out->blocks <= INT32_MAX;
        return HR_OK;
    }
    if (!order_make(&thin) ||
        (!blocks_make(plan, knobs, sizes, &thin, &splits) && !blocks_make(plan, NULL, sizes, &thin, &splits)))
        return HR_OK;
    if (!has_scale_runs(&thin, splits)) thin.scale_run = 1;
    *out = (hr_cuda_gemm){.mainloop = HR_GEMM_THIN,
                          .rights = 1,
                          .dtype = thin.product.dtype,
                          .pair_count = 1,
                          .thin = thin,
                          .tile = {.m = ROWS * thin.row_warps,
                                   .n = 16,
                                   .stages = thin.places,
                                   .cluster = 1,
                                   .raster = 1,
                                   .splits = splits},
                          .threads = WARP * thin.row_warps * thin.k_warps,
                          .shared_bytes = shared_bytes(&thin),
                          .blocks = hr_saturate_product(row_blocks(sizes, &thin), splits)};
    out->left.dtype = out->right.dtype = out->dtype;
    if (splits > 1) {
        const int64_t sums =
            hr_saturate_product(sizes->batch, hr_saturate_product(thin.rows, thin.all_vectors));
        out->work_bytes = hr_saturate_product(sums, (int64_t)splits * (int64_t)sizeof(float));
        out->fold_blocks = hr_divide_up(sums, HR_GEMM_FOLD_THREADS);
    }
    explain(out);
    *taken = out->blocks <= INT32_MAX;
    return HR_OK;
}
