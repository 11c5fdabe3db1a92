/* How a matrix product lies on the tensor cores. In: a stage. Out: numbers. See choose_gemm.h. */
#include "schedule/cuda/choose_gemm.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>

/* CHUNK: elements of 16 bytes. STEP: elements along k of a stage of the ring. THREADS: eight warps of 64 sums
 * a thread each; with two blocks of a multiprocessor their registers would spill. STAGES: at most. */
enum { CHUNK = 8, STEP = 64, THREADS = 256, STAGES = 4, RASTER = 8 };

typedef struct gemm_sizes {
    int64_t batch, m, n, k;
} gemm_sizes;

/* ---- operands ---- */

/* Some element in it has `index` as its last subscript. */
static bool ends_with(const hr_function *function, const hr_expr *e, int index) {
    if (e->op == HR_OP_ELEMENT) {
        int rank = function->tensors[e->tensor].rank;
        if (rank && e->args[rank - 1]->op == HR_OP_INDEX && e->args[rank - 1]->index == index) return true;
    }
    for (int i = 0; i < e->arg_count; i++)
        if (ends_with(function, e->args[i], index)) return true;
    return false;
}

/* An element as it stands in memory, its subscripts plain indices. */
static bool is_plain(const hr_function *function, const hr_expr *e) {
    if (e->op != HR_OP_ELEMENT || e->arg_count != function->tensors[e->tensor].rank || !e->arg_count)
        return false;
    for (int i = 0; i < e->arg_count; i++)
        if (e->args[i]->op != HR_OP_INDEX) return false;
    return true;
}

static bool is_in_chunks(const hr_plan *plan, const int64_t *extents, const hr_expr *extent) {
    int64_t size;
    return hr_extent_value(plan->normal, extent, extents, &size) == HR_OK && size % CHUNK == 0;
}

/* `mn`: the innermost index of its rows. Chunks lie whole in memory and begin at whole 16 bytes: the
 * innermost index and the axis that it runs along are whole chunks. */
static hr_gemm_side side_of(const hr_plan *plan, const int64_t *extents, const hr_expr *value, int mn,
                            int k) {
    const hr_function *function = plan->normal;
    hr_gemm_side side = {.value = value, .k_major = ends_with(function, value, k)};
    if (!side.k_major && !ends_with(function, value, mn)) side.k_major = true;
    int inner = side.k_major ? k : mn;
    if (!is_plain(function, value) || hr_plan_layout(plan, value->tensor) != HR_LAYOUT_DENSE) return side;
    const hr_tensor *tensor = &function->tensors[value->tensor];
    if (value->args[tensor->rank - 1]->index == inner &&
        is_in_chunks(plan, extents, function->indices[inner].extent) &&
        is_in_chunks(plan, extents, tensor->shape[tensor->rank - 1]))
        side.load = HR_GEMM_CHUNKS;
    return side;
}

/* ---- tiles ---- */

static int64_t tiles_of(const gemm_sizes *s, int tile_m, int tile_n) {
    return s->batch * ((s->m + tile_m - 1) / tile_m) * ((s->n + tile_n - 1) / tile_n);
}

/* A wave of tiles takes as long as its products, or as its operands take from the L2: a row or a column of 64
 * is as much work there as 48 x 64 products of it. */
static double time_of(const hr_plan *plan, const gemm_sizes *s, int tile_m, int tile_n) {
    int64_t together = hr_limits_threads(&plan->limits);
    int64_t waves = (tiles_of(s, tile_m, tile_n) + together - 1) / together;
    return (double)waves * ((double)tile_m * tile_n + 48.0 * (tile_m + tile_n));
}

static void choose_tile(const hr_plan *plan, const gemm_sizes *s, hr_cuda_gemm *out) {
    static const int tiles[][2] = {{128, 128}, {128, 64}, {64, 128}, {64, 64}};
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        double time = time_of(plan, s, tiles[i][0], tiles[i][1]);
        if (i > 0 && time >= best) continue;
        best = time;
        out->tile_m = tiles[i][0];
        out->tile_n = tiles[i][1];
    }
    out->threads = THREADS;
    out->warps_m = 2;
    out->stages = STAGES;
    while (out->stages > 2 &&
           (int64_t)out->stages * (out->tile_m + out->tile_n) * STEP * 2 > plan->limits.shared_bytes)
        out->stages--;
    out->raster = RASTER;
    out->shared_bytes = (int64_t)out->stages * (out->tile_m + out->tile_n) * STEP * 2;
    int64_t count = tiles_of(s, out->tile_m, out->tile_n);
    out->blocks = count < INT32_MAX ? count : INT32_MAX; /* which take the others in turn */
}

/* ---- whether ---- */

/* In words, what keeps the tensor cores from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *contract, hr_dtype *dtype) {
    if (plan->limits.compute < 80) return "the device has none for these dtypes";
    if (contract->left->type == HR_F64) return "f64 operands";
    *dtype = hr_contract_fits(plan->normal, contract, HR_BF16) ? HR_BF16 : HR_F16;
    if (!hr_contract_fits(plan->normal, contract, *dtype))
        return "an operand's values are not all bf16, or all f16: they would round it";
    return NULL;
}

hr_status hr_cuda_gemm_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_cuda_gemm *out) {
    const hr_contract *c = stage->contract;
    gemm_sizes s;
    *out = (hr_cuda_gemm){.mainloop = HR_GEMM_PLAIN};
    HR_TRY(hr_plan_points(plan, c->batch, c->batch_count, extents, &s.batch));
    HR_TRY(hr_plan_points(plan, c->m, c->m_count, extents, &s.m));
    HR_TRY(hr_plan_points(plan, c->n, c->n_count, extents, &s.n));
    HR_TRY(hr_plan_points(plan, c->k, c->k_count, extents, &s.k));
    const char *why = refusal(plan, c, &out->dtype);
    if (why) {
        snprintf(out->why, sizeof out->why, "not on the tensor cores: %s", why);
        return HR_OK;
    }
    int k = c->k[c->k_count - 1];
    out->mainloop = HR_GEMM_AMPERE;
    out->left = side_of(plan, extents, c->left, c->m[c->m_count - 1], k);
    out->right = side_of(plan, extents, c->right, c->n[c->n_count - 1], k);
    choose_tile(plan, &s, out);
    snprintf(out->why, sizeof out->why, "on the tensor cores by mma.sync, tiles of %d x %d", out->tile_m,
             out->tile_n);
    return HR_OK;
}
