/* Tensor maps of a product. In: views of its operands and results. Out: maps. See gemm_maps.h. */
#include "emit/cuda/gemm_maps.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"

static hr_map_type type_of(hr_dtype dtype) {
    if (hr_dtype_size(dtype) == 1) return HR_MAP_U8;
    return dtype == HR_F32 ? HR_MAP_F32 : dtype == HR_BF16 ? HR_MAP_BF16 : HR_MAP_F16;
}

/* A row of a box is swizzled over all of its bytes, 64 or 128. */
static hr_tensor_map map_of(const hr_gemm_view *view, hr_dtype dtype, hr_gemm_box box) {
    int size = (int)hr_dtype_size(dtype);
    hr_tensor_map map = {.type = type_of(dtype),
                         .rank = view->rank,
                         .swizzle = box.columns * size == 128 ? HR_MAP_SWIZZLE_128 : HR_MAP_SWIZZLE_64,
                         .promotion = HR_MAP_L2_256};
    for (int a = 0; a < view->rank; a++) {
        map.dims[a] = view->size[a];
        map.strides[a] = view->stride[a] * size;
        map.box[a] = a == 0 ? box.columns : a == 1 ? box.rows : 1;
    }
    return map;
}

hr_status hr_cuda_gemm_maps(const hr_plan *plan, const int64_t *extents, const hr_cuda_gemm *gemm,
                            int64_t work, hr_launch *launch) {
    if (gemm->mainloop != HR_GEMM_HOPPER) return HR_OK;
    int results = 2 + gemm->result_count;
    launch->map_count = results + (gemm->staged_block != NULL);
    for (int i = 0; i < launch->map_count; i++) {
        const hr_gemm_view *view = i == 0        ? &gemm->left.view
                                   : i == 1      ? &gemm->right.view
                                   : i < results ? &gemm->results[i - 2]
                                                 : &gemm->staged_view;
        hr_tensor_map *map = &launch->maps[i];
        if (view->tensor == HR_GEMM_SCRATCH) {
            *map = map_of(view, i < 2 ? gemm->dtype : HR_F32, hr_cuda_gemm_box(gemm, i));
            map->tensor = HR_MAP_SCRATCH;
            map->offset = view->offset;
            continue;
        }
        int tensor = plan->storage[view->tensor];
        *map = map_of(view, plan->normal->tensors[view->tensor].dtype, hr_cuda_gemm_box(gemm, i));
        map->tensor = tensor < hr_function_arguments(plan->source) ? tensor : HR_MAP_SCRATCH;
        if (map->tensor != HR_MAP_SCRATCH) continue;
        HR_TRY(hr_cuda_locals_before(plan, tensor, extents, &map->offset));
        map->offset += work;
    }
    return HR_OK;
}
