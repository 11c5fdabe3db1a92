/* How a matrix product lies on the tensor cores. In: a stage. Out: numbers. See choose_gemm.h. */
#include "schedule/cuda/choose_gemm.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>

/* CHUNK: elements of 16 bytes. */
enum { CHUNK = 8, AMPERE_THREADS = 256, HOPPER_THREADS = 384 };

/* ---- operands ---- */

bool hr_cuda_runs_along(const hr_function *function, const hr_expr *e, int index) {
    if (e->op == HR_OP_ELEMENT) {
        int rank = function->tensors[e->tensor].rank;
        if (rank && e->args[rank - 1]->op == HR_OP_INDEX && e->args[rank - 1]->index == index) return true;
    }
    for (int i = 0; i < e->arg_count; i++)
        if (hr_cuda_runs_along(function, e->args[i], index)) return true;
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

/* Chunks lie whole in memory and begin at whole 16 bytes: the innermost index and the axis that it runs along
 * are whole chunks. */
static bool has_chunks(const hr_plan *plan, const int64_t *extents, const hr_expr *value, int inner) {
    const hr_function *function = plan->normal;
    if (!is_plain(function, value) || hr_plan_layout(plan, value->tensor) != HR_LAYOUT_DENSE) return false;
    const hr_tensor *tensor = &function->tensors[value->tensor];
    return value->args[tensor->rank - 1]->index == inner &&
           is_in_chunks(plan, extents, function->indices[inner].extent) &&
           is_in_chunks(plan, extents, tensor->shape[tensor->rank - 1]);
}

static hr_status side_make(const hr_plan *plan, const int64_t *extents, const hr_contract *c,
                           const hr_expr *value, hr_gemm_indices mn, hr_gemm_side *out) {
    hr_gemm_indices k = {c->k_count, c->k}, batch = {c->batch_count, c->batch};
    int k_inner = c->k[c->k_count - 1], mn_inner = mn.index[mn.count - 1];
    *out = (hr_gemm_side){.value = value};
    out->k_major = hr_cuda_runs_along(plan->normal, value, k_inner) ||
                   !hr_cuda_runs_along(plan->normal, value, mn_inner);
    if (has_chunks(plan, extents, value, out->k_major ? k_inner : mn_inner)) out->load = HR_GEMM_CHUNKS;
    if (!is_plain(plan->normal, value)) return HR_OK;
    return hr_gemm_view_make(plan, extents, value->tensor, value->args, out->k_major ? k : mn,
                             out->k_major ? mn : k, batch, &out->view);
}

/* ---- whether, and which ---- */

/* In words, what keeps the tensor cores from it; NULL = nothing. */
static const char *refusal(const hr_plan *plan, const hr_contract *contract, hr_dtype *dtype) {
    if (plan->limits.compute < 80) return "the device has none for these dtypes";
    if (contract->left->type == HR_F64) return "f64 operands";
    *dtype = hr_contract_fits(plan->normal, contract, HR_BF16) ? HR_BF16 : HR_F16;
    if (!hr_contract_fits(plan->normal, contract, *dtype))
        return "an operand's values are not all bf16, or all f16: they would round it";
    return NULL;
}

static void tile_take(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_gemm_tile *tile,
                      hr_cuda_gemm *out) {
    bool hopper = out->mainloop == HR_GEMM_HOPPER;
    out->tile = *tile;
    out->threads = hopper ? HOPPER_THREADS : AMPERE_THREADS;
    out->warps_m = 2;
    /* A block's registers are 168 a thread at its beginning; the warpgroups share them out anew, by what the
     * sums of a thread leave. */
    int sums = hr_gemm_sums(tile);
    out->producer_registers = sums > 160 ? 24 : sums > 128 ? 40 : 56;
    out->consumer_registers = sums > 160 ? 240 : sums > 128 ? 232 : 224;
    out->n_run = sizes->n % tile->n == 0 ? 0 : sizes->n % 8 == 0 ? 8 : 1;
    out->shared_bytes = hr_gemm_shared_bytes(out, tile);
    out->blocks = hr_gemm_blocks(plan, sizes, out->mainloop, tile);
    if (hopper)
        snprintf(out->why, sizeof out->why,
                 "on the tensor cores by wgmma: tiles of %d x %d, %s, %d stages, clusters of %d, %s", tile->m,
                 tile->n, tile->roles == HR_GEMM_PING_PONG ? "ping-pong" : "cooperative", tile->stages,
                 tile->cluster,
                 out->result_count ? "results leave by the copy engine" : "threads store results");
    else
        snprintf(out->why, sizeof out->why, "on the tensor cores by mma.sync: tiles of %d x %d, %d stages",
                 tile->m, tile->n, tile->stages);
}

static hr_status sizes_of(const hr_plan *plan, const hr_contract *c, const int64_t *extents,
                          hr_gemm_sizes *out) {
    HR_TRY(hr_plan_points(plan, c->batch, c->batch_count, extents, &out->batch));
    HR_TRY(hr_plan_points(plan, c->m, c->m_count, extents, &out->m));
    HR_TRY(hr_plan_points(plan, c->n, c->n_count, extents, &out->n));
    return hr_plan_points(plan, c->k, c->k_count, extents, &out->k);
}

hr_status hr_cuda_gemm_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_gemm_mainloop most, hr_cuda_gemm *out) {
    const hr_contract *c = stage->contract;
    hr_gemm_sizes sizes;
    hr_gemm_tile tiles[HR_GEMM_TILES_MAX];
    *out = (hr_cuda_gemm){.mainloop = HR_GEMM_PLAIN};
    HR_TRY(sizes_of(plan, c, extents, &sizes));
    const char *why = refusal(plan, c, &out->dtype);
    if (why) {
        snprintf(out->why, sizeof out->why, "not on the tensor cores: %s", why);
        return HR_OK;
    }
    HR_TRY(side_make(plan, extents, c, c->left, (hr_gemm_indices){c->m_count, c->m}, &out->left));
    HR_TRY(side_make(plan, extents, c, c->right, (hr_gemm_indices){c->n_count, c->n}, &out->right));
    HR_TRY(hr_gemm_epilogue(plan, stage, extents, out));
    bool maps =
        out->left.view.rank && out->right.view.rank && plan->limits.compute == 90 && plan->limits.tensor_maps;
    out->mainloop = maps && most == HR_GEMM_HOPPER ? HR_GEMM_HOPPER : HR_GEMM_AMPERE;
    if (!hr_gemm_tiles(plan, hr_stage_knobs(stage), &sizes, out, tiles)) {
        out->mainloop = HR_GEMM_AMPERE;
        if (!hr_gemm_tiles(plan, hr_stage_knobs(stage), &sizes, out, tiles))
            return hr_fail(HR_NOT_AVAILABLE, "no tile of the matrix product of kernel %.60s fits this device",
                           plan->source->name);
    }
    tile_take(plan, &sizes, &tiles[0], out);
    return HR_OK;
}

/* 384 threads have 168 registers each, too few for a thread's share of a larger tile. */
hr_status hr_cuda_gemm_sibling(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                               const hr_cuda_gemm *gemm, hr_cuda_gemm *out) {
    *out = *gemm;
    if (gemm->mainloop != HR_GEMM_HOPPER) return HR_OK;
    HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_AMPERE, out));
    out->tile.m = out->tile.n = 64;
    return HR_OK;
}
