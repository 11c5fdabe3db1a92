/* A step as the compiler and the device take it.
 *
 * In: a step, the function that it computes, extents. Out: CUDA C that stands alone, and launches.
 */
#include "emit/cuda/launcher_text.h"
#include "emit/prelude.h"
#include "ir/extent.h"
#include "ladder/ladder.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

#define MAP_COLUMNS 64 /* elements of a box's row: 128 bytes */

/* ---- source ---- */

/* In the order of hr_execution's words: pointers, scalars, extents, strides, scratch, fault. */
static void arguments_print(const hr_function *function, hr_text *out) {
    const int count = function->parameter_count + function->result_count;
    hr_text_format(out, "struct arguments {\n");
    for (int i = 0; i < count; i++)
        hr_text_format(out, "    %suint16_t *%s;\n", i < function->parameter_count ? "const " : "",
                       function->tensors[i].name);
    hr_text_format(out, "    double scalars[%d];\n", count);
    for (int e = 0; e < function->extent_count; e++)
        hr_text_format(out, "    int64_t %s;\n", function->extents[e]);
    for (int i = 0; i < count; i++)
        hr_text_format(out, "    int64_t %s_strides[%d];\n", function->tensors[i].name,
                       function->tensors[i].rank);
    hr_text_format(out, "    char *scratch;\n    void *fault;\n};\n\n");
}

hr_status hr_ladder_source(const hr_ladder_step *step, const hr_function *function, hr_text *out) {
    hr_text body = {0};
    if (step->shared_text) hr_text_format(&body, "%s\n", (const char *)step->shared_text);
    hr_text_format(&body, "%s", (const char *)step->text);
    hr_status status = hr_text_status(&body);
    hr_text_format(out, "%s\n", (const char *)hr_cuda_file_head_text);
    arguments_print(function, out);
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_CUDA, hr_text_data(&body), NULL, out);
    if (status == HR_OK) status = hr_tensor_core_append(step->products, step->product_count, out);
    hr_text_append(out, hr_text_data(&body), body.length);
    hr_text_clear(&body);
    return status == HR_OK ? hr_text_status(out) : status;
}

/* ---- launches ---- */

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* A tensor's last two sizes, and how many such matrices it holds. */
typedef struct matrices {
    int64_t count, rows, columns;
} matrices;

static hr_status matrices_of(const hr_function *function, int tensor, const int64_t *extents, matrices *out) {
    const hr_tensor *of = &function->tensors[tensor];
    int64_t size[HR_RANK_MAX];
    *out = (matrices){.count = 1};
    for (int axis = 0; axis < of->rank; axis++) {
        HR_TRY(hr_extent_value(function, of->shape[axis], extents, &size[axis]));
        if (axis < of->rank - 2) out->count *= size[axis];
    }
    out->rows = size[of->rank - 2];
    out->columns = size[of->rank - 1];
    return HR_OK;
}

static hr_status map_make(const hr_ladder_map *map, const hr_function *function, const int64_t *extents,
                          hr_tensor_map *out) {
    matrices of;
    HR_TRY(matrices_of(function, map->tensor, extents, &of));
    const int64_t size = (int64_t)hr_dtype_size(HR_BF16);
    *out = (hr_tensor_map){.tensor = map->tensor,
                           .type = HR_MAP_BF16,
                           .rank = function->tensors[map->tensor].rank > 2 ? 3 : 2,
                           .dims = {of.columns, of.rows, of.count},
                           .strides = {size, of.columns * size, of.rows * of.columns * size},
                           .box = {MAP_COLUMNS, map->rows, 1},
                           .swizzle = HR_MAP_SWIZZLE_128,
                           .promotion = HR_MAP_L2_256};
    return HR_OK;
}

static void grid_make(const hr_ladder_launch *launch, const matrices *result, const hr_device_limits *limits,
                      int64_t grid[3]) {
    const int64_t rows = divide_up(result->rows, launch->tile[0]);
    const int64_t columns = launch->tile[1] ? divide_up(result->columns, launch->tile[1]) : 1;
    grid[1] = grid[2] = 1;
    if (launch->blocks == HR_LADDER_PERSISTENT) {
        const int64_t clusters = divide_up(rows, launch->cluster) * columns * result->count,
                      most = limits->threads / launch->cluster;
        grid[0] = (clusters < most ? clusters : most) * launch->cluster;
    } else if (launch->tile[1]) {
        grid[0] = columns;
        grid[1] = rows;
        grid[2] = result->count;
    } else {
        grid[0] = rows * launch->cluster;
        grid[1] = result->count;
    }
}

hr_status hr_ladder_launches(const hr_ladder_step *step, const hr_function *function, const int64_t *extents,
                             const hr_device_limits *limits, hr_launch *out) {
    matrices result;
    HR_TRY(matrices_of(function, function->parameter_count, extents, &result));
    for (int i = 0; i < step->launch_count; i++) {
        const hr_ladder_launch *launch = &step->launches[i];
        out[i] = (hr_launch){.threads = launch->threads,
                             .cluster = launch->cluster,
                             .shared = launch->shared,
                             .map_count = launch->map_count};
        snprintf(out[i].entry, sizeof out[i].entry, "%s", launch->entry);
        grid_make(launch, &result, limits, out[i].grid);
        for (int m = 0; m < launch->map_count; m++)
            HR_TRY(map_make(&launch->maps[m], function, extents, &out[i].maps[m]));
    }
    return HR_OK;
}

/* ---- extents ---- */

hr_status hr_ladder_extents_check(const hr_ladder *ladder, const hr_function *function,
                                  const int64_t *extents) {
    for (int i = 0; i < HR_LADDER_EXTENTS_MAX && ladder->extents[i].name; i++)
        for (int e = 0; e < function->extent_count; e++) {
            const int64_t unit = ladder->extents[i].unit, most = ladder->extents[i].most;
            if (strcmp(function->extents[e], ladder->extents[i].name) != 0) continue;
            if (extents[e] > 0 && extents[e] % unit == 0 && (most == 0 || extents[e] <= most)) continue;
            if (most)
                return hr_fail(HR_BAD_INPUT, "%s = %lld: the steps of %s take multiples of %lld up to %lld",
                               function->extents[e], (long long)extents[e], ladder->name, (long long)unit,
                               (long long)most);
            return hr_fail(HR_BAD_INPUT, "%s = %lld: the steps of %s take multiples of %lld",
                           function->extents[e], (long long)extents[e], ladder->name, (long long)unit);
        }
    return HR_OK;
}

/* The scores of attention: the sizes of every extent but the widths of a row, multiplied. */
int64_t hr_ladder_scratch(const hr_ladder_step *step, const hr_function *function, const int64_t *extents) {
    int64_t scores = step->scratch_a_score;
    for (int e = 0; e < function->extent_count && scores; e++)
        if (strchr("BHIJ", function->extents[e][0])) scores *= extents[e];
    return scores;
}
