/* Prints what emit/cuda/launcher_maps.h says. */
#include "emit/cuda/launcher_maps.h"

#include "emit/cuda/launcher_text.h"
#include "emit/expression.h"

#include <inttypes.h>

void hr_cuda_print_map_maker(hr_printer *p) {
    hr_text_format(p->out, "%s\n", (const char *)hr_cuda_launcher_maps_text);
}

static const char *numbers(hr_printer *p, const int64_t *list, int count) {
    const char *text = "";
    for (int i = 0; i < count; i++)
        text = hr_format(p, "%s%s%" PRId64, text, i ? ", " : "", list[i]);
    return text;
}

static void print_map(hr_printer *p, const hr_launch *launch, int number) {
    const hr_tensor_map *map = &launch->maps[number];
    int64_t box[HR_MAP_RANK_MAX];
    for (int axis = 0; axis < map->rank; axis++)
        box[axis] = map->box[axis];
    hr_print(p, "tensor_map map_%d;", number);
    hr_print(p, "const tensor_boxes boxes_%d = {%d, %d, {%s}, {%s}, {%s}, %d, %d, %d};", number, map->type,
             map->rank, numbers(p, map->dims, map->rank), numbers(p, map->strides, map->rank),
             numbers(p, box, map->rank), map->swizzle, map->promotion, map->fill);
    const char *base = map->tensor == HR_MAP_SCRATCH ? "scratch" : hr_emit_tensor(p, map->tensor);
    hr_print(p,
             "if (const int error = make_map(&map_%d, boxes_%d, (const char *)a.%s + %" PRId64
             ")) return error;",
             number, number, base, map->offset);
}

void hr_cuda_print_mapped_launch(hr_printer *p, const hr_launch *launch) {
    const char *maps = "";
    for (int i = 0; i < launch->map_count; i++) {
        print_map(p, launch, i);
        maps = hr_format(p, "%smap_%d, ", maps, i);
    }
    hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeMaxDynamicSharedMemorySize, %" PRId64 ");",
             launch->entry, launch->shared);
    if (launch->cluster > 8)
        hr_print(p, "cudaFuncSetAttribute(%s, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);",
                 launch->entry);
    hr_print(p, "cudaLaunchAttribute cluster = {};");
    hr_print(p, "cluster.id = cudaLaunchAttributeClusterDimension;");
    hr_print(p, "cluster.val.clusterDim = {%d, 1, 1};", launch->cluster);
    hr_print(p, "cudaLaunchConfig_t config = {};");
    hr_print(p, "config.gridDim = dim3(%" PRId64 ", %" PRId64 ", %" PRId64 ");", launch->grid[0],
             launch->grid[1], launch->grid[2]);
    hr_print(p, "config.blockDim = dim3(%d);", launch->threads);
    hr_print(p, "config.dynamicSmemBytes = %" PRId64 ";", launch->shared);
    hr_print(p, "config.stream = (cudaStream_t)stream;");
    hr_print(p, "config.attrs = &cluster;");
    hr_print(p, "config.numAttrs = 1;");
    hr_print(p, "const cudaError_t error = cudaLaunchKernelEx(&config, %s, %sa);", launch->entry, maps);
    hr_print(p, "if (error != cudaSuccess) return (int)error;");
}
