/* What one execution of a plan launches on a CUDA device, and the scratch memory that it takes. In: a plan
 * and numbers for its extents. Out: launches, sizes. */
#include "schedule/cuda/launches_cuda.h"

#include "base/dtype.h"
#include "plan/assumption.h"
#include "schedule/cuda/cuda_follow.h"

#include <stdio.h>

/* Of the scratch memory, what stages use one after the other. */
hr_status hr_cuda_work_bytes(const hr_plan *plan, const int64_t *extents, int64_t *most) {
    *most = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        hr_cuda_gemm gemm = {0};
        const hr_cuda_attention *attention = hr_cuda_attention_of(stage);
        const hr_cuda_backward *backward = hr_cuda_backward_of(stage);
        if (attention && attention->work_bytes > *most) *most = attention->work_bytes;
        if (backward && backward->work_bytes > *most) *most = backward->work_bytes;
        if (hr_cuda_is_joined(stage) || (plan->general && hr_stage_is_ordered(stage))) continue;
        if (hr_cuda_is_product(stage))
            HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, hr_gemm_mainloop_most(plan), &gemm));
        int64_t bytes = hr_cuda_is_product(stage) ? gemm.work_bytes : hr_grid_of(stage)->work_bytes;
        if (bytes > *most) *most = bytes;
    }
    return HR_OK;
}

/* ---- tensor maps ---- */

static hr_map_type type_of(hr_dtype dtype) {
    if (hr_dtype_size(dtype) == 1) return HR_MAP_U8;
    return dtype == HR_F32 ? HR_MAP_F32 : dtype == HR_BF16 ? HR_MAP_BF16 : HR_MAP_F16;
}

/* A row of a box is swizzled over all of its bytes, 32, 64 or 128. */
static hr_tensor_map map_of(const hr_gemm_view *view, hr_dtype dtype, hr_gemm_box box) {
    int size = (int)hr_dtype_size(dtype);
    hr_tensor_map map = {.type = type_of(dtype),
                         .rank = view->rank,
                         .swizzle = box.columns * size == 128  ? HR_MAP_SWIZZLE_128
                                    : box.columns * size == 64 ? HR_MAP_SWIZZLE_64
                                                               : HR_MAP_SWIZZLE_32,
                         .promotion = HR_MAP_L2_256};
    for (int a = 0; a < view->rank; a++) {
        map.dims[a] = view->size[a];
        map.strides[a] = view->stride[a] * size;
        map.box[a] = a == 0 ? box.columns : a == 1 ? box.rows : 1;
    }
    return map;
}

/* Bytes of the locals that stand before `tensor` in scratch memory. */
static hr_status locals_before(const hr_plan *plan, int tensor, const int64_t *extents, int64_t *out) {
    return hr_plan_locals_bytes(plan, tensor, extents, HR_CUDA_LOCAL_MORE, HR_CUDA_LOCAL_UNIT, out);
}

/* Of a tensor. `work`: bytes of the scratch memory in front of the first local. */
static hr_status tensor_map(const hr_plan *plan, const int64_t *extents, const hr_gemm_view *view,
                            hr_gemm_box box, int64_t work, hr_tensor_map *out) {
    const int tensor = plan->storage[view->tensor];
    *out = map_of(view, plan->normal->tensors[view->tensor].dtype, box);
    out->tensor = tensor;
    if (tensor < hr_function_arguments(plan->source)) return HR_OK;
    HR_TRY(locals_before(plan, tensor, extents, &out->offset));
    out->offset += work;
    out->tensor = HR_MAP_SCRATCH;
    return HR_OK;
}

/* A launch whose maps are being made. `work`: bytes of the scratch memory in front of the first local. */
typedef struct map_list {
    const hr_plan *plan;
    const int64_t *extents;
    int64_t work;
    hr_launch *launch;
} map_list;

/* Map `number` of a product, in the order of its kernel's parameters: left, right and those stacked on it,
 * results, what is staged. */
static hr_status add_gemm_map(map_list *list, const hr_cuda_gemm *gemm, int number) {
    const int first = 1 + gemm->rights, results = first + gemm->result_count;
    const hr_gemm_view *view = number == 0        ? &gemm->left.view
                               : number < first   ? &hr_gemm_right(gemm, number - 1)->view
                               : number < results ? &gemm->results[number - first]
                                                  : &gemm->staged_view;
    const hr_gemm_box box = hr_cuda_gemm_box(gemm, number);
    if (list->launch->map_count == HR_LAUNCH_MAPS_MAX)
        return hr_fail(HR_INTERNAL, "a launch of more than %d tensor maps", HR_LAUNCH_MAPS_MAX);
    hr_tensor_map *map = &list->launch->maps[list->launch->map_count++];
    if (view->tensor != HR_GEMM_SCRATCH)
        return tensor_map(list->plan, list->extents, view, box, list->work, map);
    *map = map_of(view, number < first ? gemm->dtype : HR_F32, box);
    map->tensor = HR_MAP_SCRATCH;
    map->offset = view->offset;
    return HR_OK;
}

/* Of all products of a walk, but those that they share with the first. Nothing where the main loop takes no
 * maps. */
static hr_status gemm_maps(map_list *list, const hr_stage *stage, const hr_cuda_gemm *gemm) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(stage);
    if (gemm->mainloop != HR_GEMM_HOPPER) return HR_OK;
    for (int i = 0; i < (walk ? walk->count : 1); i++) {
        const hr_cuda_gemm *of = walk ? &walk->gemm[i] : gemm;
        const int first = 1 + of->rights, count = first + of->result_count + (of->staged_block != NULL);
        for (int m = 0; m < count; m++) {
            if (walk && m == 0 && hr_gemm_walk_shares_left(walk, i)) continue;
            if (walk && m > 0 && m < first && hr_gemm_walk_shares_right(walk, i)) continue;
            HR_TRY(add_gemm_map(list, of, m));
        }
    }
    return HR_OK;
}

static hr_status attention_maps(const hr_plan *plan, const int64_t *extents,
                                const hr_cuda_attention *attention, int64_t work, hr_launch *launch) {
    const hr_gemm_view *views[] = {&attention->query, &attention->key, &attention->value};
    if (attention->mainloop == HR_ATTENTION_SPLIT || attention->widens) return HR_OK;
    launch->map_count = 3;
    for (int i = 0; i < launch->map_count; i++) {
        const hr_gemm_box box = {HR_ATTENTION_SPAN, i ? attention->tile_n : attention->tile_m};
        HR_TRY(tensor_map(plan, extents, views[i], box, work, &launch->maps[i]));
    }
    return HR_OK;
}

static hr_status backward_maps(const hr_plan *plan, const int64_t *extents, const hr_cuda_backward *b,
                               bool keys, int64_t work, hr_launch *launch) {
    static const hr_backward_side sides[2][4] = {
        {HR_BACKWARD_OF_QUERIES, HR_BACKWARD_GIVEN, HR_BACKWARD_OF_KEYS, HR_BACKWARD_OF_VALUES},
        {HR_BACKWARD_OF_KEYS, HR_BACKWARD_OF_VALUES, HR_BACKWARD_OF_QUERIES, HR_BACKWARD_GIVEN}};
    if (b->mainloop == HR_BACKWARD_AMPERE) return HR_OK;
    launch->map_count = 4;
    for (int i = 0; i < launch->map_count; i++) {
        const hr_gemm_box box = {HR_ATTENTION_SPAN, i < 2 ? b->tile_m : b->tile_n};
        HR_TRY(tensor_map(plan, extents, &b->view[sides[keys][i]], box, work, &launch->maps[i]));
    }
    return HR_OK;
}

/* ---- launches ---- */

static int64_t blocks_of(hr_launch_shape s, int64_t total) {
    int64_t blocks = hr_divide_up(total, s.run);
    if (blocks < s.least) blocks = s.least;
    if (blocks > s.limit) blocks = s.limit;
    return hr_saturate_product(blocks, s.slices);
}

typedef struct grid_list {
    hr_launch *out;
    int max, count;
    int64_t work_bytes;
} grid_list;

static hr_status add_grid(grid_list *list, int stage, const char *suffix, int64_t blocks, int threads) {
    if (list->count == list->max)
        return hr_fail(HR_BAD_INPUT, "a kernel of more than %d launches", list->max);
    hr_launch *grid = &list->out[list->count];
    *grid =
        (hr_launch){.grid = {blocks, 1, 1}, .threads = threads, .cluster = 1, .overlaps = list->count > 0};
    snprintf(grid->entry, sizeof grid->entry, "stage_%d%s", stage, suffix);
    list->count++;
    return HR_OK;
}

/* A kernel that has nothing to do where a product's unaligned one runs. */
static hr_status add_side_grid(grid_list *list, int stage, const char *suffix, int64_t blocks, int threads) {
    HR_TRY(add_grid(list, stage, suffix, blocks, threads));
    hr_launch *launch = &list->out[list->count - 1];
    snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d%s_unaligned", stage, suffix);
    return HR_OK;
}

static hr_status add_product_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_stage *stage = &plan->stages[i];
    hr_cuda_gemm gemm;
    if (hr_gemm_walk_joins(plan, stage)) return HR_OK;
    HR_TRY(hr_cuda_gemm_choose(plan, stage, extents, hr_gemm_mainloop_most(plan), &gemm));
    if (gemm.mainloop == HR_GEMM_PLAIN) {
        int64_t blocks;
        hr_sizes sizes = {0};
        HR_TRY(hr_size_value(hr_cuda_contract_size(&sizes, plan, stage), plan->normal, extents, &blocks));
        return add_grid(list, i, "", blocks, HR_CUDA_CONTRACT_THREADS);
    }
    if (gemm.groups) HR_TRY(add_grid(list, i, "_begin", 1, HR_GEMM_SORT_THREADS));
    if (gemm.lay_blocks) HR_TRY(add_side_grid(list, i, "_begin", gemm.lay_blocks, HR_GEMM_LAY_THREADS));
    HR_TRY(add_grid(list, i, "", gemm.blocks, gemm.threads));
    hr_launch *launch = &list->out[list->count - 1];
    launch->shared = gemm.shared_bytes;
    launch->cluster = gemm.tile.cluster;
    if (hr_cuda_gemm_checks_alignment(&gemm))
        snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d_unaligned", i);
    HR_TRY(gemm_maps(&(map_list){plan, extents, list->work_bytes, launch}, stage, &gemm));
    if (!hr_cuda_gemm_folds(&gemm)) return HR_OK;
    if (gemm.mainloop == HR_GEMM_THIN) /* whichever kernel ran left parts */
        return add_grid(list, i, "_end", gemm.fold_blocks, HR_GEMM_FOLD_THREADS);
    return add_side_grid(list, i, "_end", gemm.fold_blocks, HR_GEMM_FOLD_THREADS);
}

static hr_status add_attention_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_cuda_attention *attention = hr_cuda_attention_of(&plan->stages[i]);
    if (i != attention->first) return HR_OK;
    if (attention->begin_blocks) {
        HR_TRY(add_grid(list, i, "_begin", attention->begin_blocks, HR_ATTENTION_BEGIN_THREADS));
        list->out[list->count - 1].shared = attention->begin_shared_bytes;
    }
    HR_TRY(add_grid(list, i, "", attention->blocks, attention->threads));
    hr_launch *launch = &list->out[list->count - 1];
    launch->shared = attention->shared_bytes;
    snprintf(launch->unaligned, sizeof launch->unaligned, "stage_%d_unaligned", i);
    HR_TRY(attention_maps(plan, extents, attention, list->work_bytes, launch));
    if (!attention->end_blocks) return HR_OK;
    HR_TRY(add_grid(list, i, "_end", attention->end_blocks, HR_ATTENTION_END_THREADS));
    list->out[list->count - 1].shared = attention->end_shared_bytes;
    return HR_OK;
}

static hr_status add_backward_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_cuda_backward *backward = hr_cuda_backward_of(&plan->stages[i]);
    if (i != backward->text.last) return HR_OK;
    for (int keys = backward->mainloop == HR_BACKWARD_FUSED; keys < 2; keys++) {
        const hr_backward_kernel *kernel = &backward->kernel[keys];
        if (kernel->begin_blocks) {
            HR_TRY(add_grid(list, i, keys ? "_keys_begin" : "_begin", kernel->begin_blocks,
                            HR_BACKWARD_BEGIN_THREADS));
            list->out[list->count - 1].shared = kernel->begin_shared_bytes;
        }
        HR_TRY(add_side_grid(list, i, keys ? "_keys" : "", kernel->blocks, backward->threads));
        hr_launch *launch = &list->out[list->count - 1];
        launch->shared = backward->shared_bytes;
        HR_TRY(backward_maps(plan, extents, backward, keys, list->work_bytes, launch));
        if (kernel->end_blocks)
            HR_TRY(add_grid(list, i, "_keys_end", kernel->end_blocks, HR_BACKWARD_END_THREADS));
    }
    return HR_OK;
}

/* Of a plan for any extents. */
static hr_status add_general_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_stage *stage = &plan->stages[i];
    hr_sizes sizes = {0};
    int64_t total;
    if (hr_cuda_general_begins(plan, stage)) {
        HR_TRY(hr_size_value(hr_cuda_cleared_size(&sizes, plan, stage), plan->normal, extents, &total));
        HR_TRY(add_grid(list, i, "_begin", blocks_of(hr_cuda_clear_shape(plan), total),
                        HR_CUDA_GENERAL_THREADS));
    }
    HR_TRY(hr_size_value(hr_cuda_general_size(&sizes, plan, stage), plan->normal, extents, &total));
    return add_grid(list, i, "", blocks_of(hr_cuda_general_shape(plan, stage), total),
                    HR_CUDA_GENERAL_THREADS);
}

static hr_status add_stage_grids(const hr_plan *plan, const int64_t *extents, int i, grid_list *list) {
    const hr_stage *stage = &plan->stages[i];
    hr_sizes sizes = {0};
    int64_t total;
    if (hr_cuda_attention_of(stage)) return add_attention_grids(plan, extents, i, list);
    if (hr_cuda_backward_of(stage)) return add_backward_grids(plan, extents, i, list);
    if (stage->shape == HR_SHAPE_CONTRACT) return add_product_grids(plan, extents, i, list);
    if (hr_stage_is_ordered(stage)) {
        HR_TRY(hr_size_value(hr_cuda_ordered_size(&sizes, plan, stage), plan->normal, extents, &total));
        const int64_t blocks = blocks_of(hr_cuda_ordered_shape(plan, stage), total);
        const int threads = hr_cuda_ordered_threads(plan, stage);
        if (hr_cuda_ordered_parts(plan, stage) > 1) HR_TRY(add_grid(list, i, "_begin", blocks, threads));
        return add_grid(list, i, "", blocks, threads);
    }
    if (plan->general) return add_general_grids(plan, extents, i, list);
    if (hr_cuda_follows(stage)) return HR_OK;
    const hr_cuda_choice c = *hr_grid_of(stage);
    hr_stage_kernels kernels = hr_stage_kernels_of(plan, stage, &c);
    if (c.rows == HR_CUDA_ROWS_RING) HR_TRY(add_grid(list, i, "_begin", 1, HR_CUDA_CLEAR_THREADS));
    if (kernels.begin && c.rows != HR_CUDA_ROWS_RING) {
        HR_TRY(hr_size_value(hr_cuda_cleared_size(&sizes, plan, stage), plan->normal, extents, &total));
        HR_TRY(
            add_grid(list, i, "_begin", blocks_of(hr_cuda_clear_shape(plan), total), HR_CUDA_CLEAR_THREADS));
    }
    HR_TRY(hr_size_value(hr_cuda_total_size(&sizes, plan, stage, &c), plan->normal, extents, &total));
    HR_TRY(add_grid(list, i, "", blocks_of(hr_cuda_shape_of(&c), total), c.threads));
    hr_launch *work = &list->out[list->count - 1];
    if (c.walk == HR_CUDA_WALK_LISTS) work->pieces = c.blocks_limit;
    work->cluster = hr_cuda_cluster_blocks(&c);
    work->shared = c.shared_bytes;
    if (hr_cuda_checks_alignment(&c))
        snprintf(work->unaligned, sizeof work->unaligned, "stage_%d_unaligned", i);
    return kernels.end ? add_grid(list, i, "_end", hr_cuda_end_blocks(&c), HR_CUDA_END_THREADS) : HR_OK;
}

hr_status hr_cuda_stage_launches(const hr_plan *plan, const int64_t *extents, int stage, int64_t work_bytes,
                                 hr_launch *out, int max, int *count) {
    grid_list list = {.out = out, .max = max, .work_bytes = work_bytes};
    HR_TRY(add_stage_grids(plan, extents, stage, &list));
    *count = list.count;
    return HR_OK;
}

hr_status hr_cuda_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max, int *count) {
    grid_list list = {.out = out, .max = max};
    HR_TRY(hr_cuda_work_bytes(plan, extents, &list.work_bytes));
    for (int i = 0; i < plan->stage_count; i++)
        HR_TRY(add_stage_grids(plan, extents, i, &list));
    *count = list.count;
    return HR_OK;
}

/* ---- extents that the same code serves ---- */

/* How a product is cut, and what maps copy, follows from all extents. */
static bool stage_serves(const hr_plan *plan, const hr_stage *stage, const int64_t *extents) {
    hr_sizes sizes = {0};
    int64_t total;
    if (hr_stage_is_ordered(stage))
        return hr_size_value(hr_cuda_ordered_size(&sizes, plan, stage), plan->normal, extents, &total) ==
                   HR_OK &&
               total <= hr_cuda_ordered_most(plan, stage);
    if (stage->contract || hr_cuda_is_joined(stage)) return false;
    const hr_cuda_choice *c = hr_grid_of(stage);
    return hr_size_value(hr_cuda_total_size(&sizes, plan, stage, c), plan->normal, extents, &total) ==
               HR_OK &&
           total <= hr_cuda_total_most(c);
}

bool hr_cuda_serves(const hr_plan *plan, const int64_t *made, const int64_t *extents) {
    for (int e = 0; e < plan->normal->extent_count; e++)
        if (hr_cuda_is_constant(plan, e) && made[e] != extents[e]) return false;
    for (const hr_assumption *a = plan->graph->assumptions; a; a = a->next)
        if (!hr_assumption_holds(plan->normal, a, extents)) return false;
    for (int i = 0; i < plan->stage_count && !plan->general; i++)
        if (!stage_serves(plan, &plan->stages[i], extents)) return false;
    return true;
}

void hr_cuda_aligned(const hr_plan *plan, hr_tensor_set *out) {
    *out = (hr_tensor_set){0};
    for (int t = 0; t < hr_function_arguments(plan->source) && t < HR_LAUNCH_TENSORS_MAX; t++)
        if (hr_cuda_may_be_aligned(plan, t)) out->bits[t / 64] |= (uint64_t)1 << (t % 64);
}

/* ---- scratch: partial results first, which stages use one after the other, then locals ---- */

hr_status hr_cuda_scratch(const hr_plan *plan, const int64_t *extents, int64_t *out) {
    int64_t locals;
    HR_TRY(hr_cuda_work_bytes(plan, extents, out));
    HR_TRY(locals_before(plan, plan->normal->tensor_count, extents, &locals));
    if (__builtin_add_overflow(*out, locals, out))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s needs more memory than there are addresses",
                       plan->source->name);
    return HR_OK;
}
