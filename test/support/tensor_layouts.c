/* See tensor_layouts.h: layouts after docs of the hardware, each formula at one place. */
#include "support/tensor_layouts.h"

#include "base/dtype.h"
#include "emit/cuda/launcher_text.h"
#include "emit/prelude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 110 << 10, BEGIN_B = 40 << 10, NO_SWIZZLE = 16 };

/* ---- elements ---- */

static int bytes_of(hr_tensor_type type) {
    return type == HR_TENSOR_TF32 ? 4 : type <= HR_TENSOR_F16 ? 2 : 1;
}

static void element_put(hr_tensor_type type, void *data, size_t i, int value) {
    static const hr_dtype dtypes[] = {
        [HR_TENSOR_BF16] = HR_BF16,   [HR_TENSOR_F16] = HR_F16,     [HR_TENSOR_TF32] = HR_F32,
        [HR_TENSOR_E4M3] = HR_F8E4M3, [HR_TENSOR_E5M2] = HR_F8E5M2, [HR_TENSOR_S8] = HR_I8};
    hr_dtype_store(dtypes[type], data, i, value);
}

static int code(int row, int k, int salt) { /* -3 to 3 */
    uint32_t x = (uint32_t)(row * 4099 + k * 17 + salt * 7919);
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (int)((x ^ x >> 16) % 7) - 3;
}

void tensor_data_make(hr_tensor_type type, tensor_data *out) {
    int size = bytes_of(type), k_count = TENSOR_K_BYTES / size;
    memset(out, 0, sizeof *out);
    for (int k = 0; k < k_count; k++) {
        for (int m = 0; m < TENSOR_ROWS; m++) {
            element_put(type, out->a_k, (size_t)(m * k_count + k), code(m, k, 1));
            element_put(type, out->a_mn, (size_t)(k * TENSOR_ROWS + m), code(m, k, 1));
        }
        for (int n = 0; n < TENSOR_COLUMNS; n++) {
            element_put(type, out->b_k, (size_t)(n * k_count + k), code(n, k, 2));
            element_put(type, out->b_mn, (size_t)(k * TENSOR_COLUMNS + n), code(n, k, 2));
        }
    }
    for (int m = 0; m < TENSOR_ROWS; m++)
        for (int n = 0; n < TENSOR_COLUMNS; n++)
            for (int k = 0; k < k_count; k++)
                out->expected[m][n] += code(m, k, 1) * code(n, k, 2);
}

/* ---- source ---- */

int tensor_products(hr_tensor_type type, const int *columns, hr_tensor_core *out) {
    int count = 0;
    hr_tensor_sum sum = type == HR_TENSOR_S8 ? HR_TENSOR_SUM_S32 : HR_TENSOR_SUM_F32;
    for (; *columns; columns++)
        for (int a = HR_TENSOR_K_MAJOR; a <= HR_TENSOR_REGISTERS; a++)
            for (int b = HR_TENSOR_K_MAJOR; b <= HR_TENSOR_MN_MAJOR; b++) {
                hr_tensor_core one = {HR_TENSOR_WARPGROUP, type, type, sum, *columns, (hr_tensor_place)a,
                                      (hr_tensor_place)b};
                if (count < TENSOR_PRODUCTS_MAX && hr_tensor_core_check(&one) == HR_OK) out[count++] = one;
            }
    return count;
}

static hr_status kernels_read(hr_text *out) {
    char part[4096];
    FILE *file = fopen(HR_SOURCE_DIR "/test/support/tensor_layouts.cuh", "r");
    if (!file) return hr_fail(HR_IO, "tensor_layouts.cuh is missing");
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        hr_text_append(out, part, got);
    fclose(file);
    return hr_text_status(out);
}

static void kernel_print(const hr_tensor_core *product, hr_text *out) {
    char name[96];
    bool registers = product->a_place == HR_TENSOR_REGISTERS;
    const char *sum = product->sum == HR_TENSOR_SUM_S32 ? "int32_t" : "float";
    hr_tensor_core_name(product, name, sizeof name);
    hr_text_format(
        out,
        "struct of_%s {\n    typedef %s sum;\n    static constexpr int columns = %d;\n"
        "    static constexpr bool registers = %s;\n"
        "    static __device__ __forceinline__ void make(%s (&d)[%d], const uint32_t (&a)[4], uint64_t x, "
        "uint64_t y, int accumulate) {\n        %s(d, %s, y, accumulate);\n    }\n};\n",
        name, sum, product->columns, registers ? "true" : "false", sum, product->columns / 2, name,
        registers ? "a" : "x");
    hr_text_format(
        out,
        "extern \"C\" __global__ void __launch_bounds__(128, 1) k%s(const __grid_constant__ tensor_map "
        "map_a, const __grid_constant__ tensor_map map_b, const __grid_constant__ arguments w) {\n"
        "    multiply<of_%s>(map_a, map_b, w);\n}\n\n",
        name + strlen("ptx_wgmma"), name);
}

hr_status tensor_source(const hr_tensor_core *products, int count, hr_text *out) {
    hr_text body = {0};
    hr_status status = kernels_read(&body);
    for (int i = 0; i < count; i++)
        kernel_print(&products[i], &body);
    hr_text_format(out, "%s\n", (const char *)hr_cuda_file_head_text);
    hr_text_format(out, "struct fault_record {\n    int64_t access, value;\n};\n\n");
    if (status == HR_OK) status = hr_prelude_append(HR_PRELUDE_CUDA, hr_text_data(&body), NULL, out);
    if (status == HR_OK) status = hr_tensor_core_append(products, count, out);
    hr_text_append(out, hr_text_data(&body), body.length);
    hr_text_clear(&body);
    return status != HR_OK ? status : hr_text_status(out);
}

/* ---- launches ---- */

/* As operand of tensor_layouts.cuh. */
typedef struct operand {
    int64_t boxes, rows, width, elements, pitch;
    int64_t leading, stride, swizzle;
    int64_t steps_per_part, step, part, rows_64;
} operand;

static int64_t swizzle_code(int width) {
    return width == 128 ? 1 : width == 64 ? 2 : width == 32 ? 3 : 0;
}

/* [width bytes of K][row][width]. */
static operand k_major(int rows, int width, int size) {
    operand o = {.boxes = TENSOR_K_BYTES / width,
                 .rows = rows,
                 .width = width,
                 .elements = width / size,
                 .pitch = TENSOR_K_BYTES,
                 .swizzle = swizzle_code(width)};
    if (width == NO_SWIZZLE) {
        o.leading = rows * 16, o.stride = 128;
        o.steps_per_part = 1, o.part = 32 * rows, o.rows_64 = 64 * 16;
    } else {
        o.leading = 16, o.stride = 8 * width;
        o.steps_per_part = width / 32, o.step = 32, o.part = rows * width, o.rows_64 = 64 * width;
    }
    return o;
}

/* Of 16-bit elements: [width / 2 rows][k][width], all 128 of k. */
static operand mn_major(int rows, int width, int rows_in_memory) {
    const int k = TENSOR_K_BYTES / 2, wide = width / 2;
    operand o = {.boxes = (rows + wide - 1) / wide,
                 .rows = k,
                 .width = width,
                 .elements = wide,
                 .pitch = rows_in_memory * 2,
                 .swizzle = swizzle_code(width),
                 .steps_per_part = 1};
    if (width == NO_SWIZZLE) {
        o.leading = 128, o.stride = k * 16;
        o.part = 256, o.rows_64 = 8 * k * 16;
    } else {
        o.leading = k * width, o.stride = 8 * width;
        o.part = 16 * width, o.rows_64 = 64 / wide * k * width;
    }
    return o;
}

static operand operand_of(hr_tensor_place place, int rows, int width, int size, int rows_in_memory) {
    return place == HR_TENSOR_MN_MAJOR ? mn_major(rows, width, rows_in_memory) : k_major(rows, width, size);
}

static hr_tensor_map map_of(const operand *o, hr_tensor_type type, hr_tensor_place place, int tensor,
                            int rows_in_memory) {
    static const hr_map_type types[] = {
        [HR_TENSOR_BF16] = HR_MAP_BF16, [HR_TENSOR_F16] = HR_MAP_F16, [HR_TENSOR_TF32] = HR_MAP_F32,
        [HR_TENSOR_E4M3] = HR_MAP_U8,   [HR_TENSOR_E5M2] = HR_MAP_U8, [HR_TENSOR_S8] = HR_MAP_U8};
    int64_t k = TENSOR_K_BYTES / bytes_of(type);
    bool k_first = place != HR_TENSOR_MN_MAJOR;
    return (hr_tensor_map){.tensor = tensor,
                           .type = types[type],
                           .rank = 2,
                           .dims = {k_first ? k : rows_in_memory, k_first ? rows_in_memory : k},
                           .strides = {bytes_of(type), o->pitch},
                           .box = {(int)o->elements, (int)o->rows},
                           .swizzle = (hr_map_swizzle)(o->width == NO_SWIZZLE ? 0
                                                       : o->width == 32       ? 1
                                                       : o->width == 64       ? 2
                                                                              : 3),
                           .promotion = HR_MAP_L2_256};
}

void tensor_launch_make(const hr_tensor_core *product, int width, bool by_maps, const tensor_data *data,
                        tensor_launch *out) {
    char name[96];
    int size = bytes_of(product->a);
    operand a = operand_of(product->a_place, TENSOR_ROWS, width, size, TENSOR_ROWS);
    operand b = operand_of(product->b_place, product->columns, width, size, TENSOR_COLUMNS);
    memset(out, 0, sizeof *out);
    hr_tensor_core_name(product, name, sizeof name);
    snprintf(out->launch.entry, sizeof out->launch.entry, "k%.50s", name + strlen("ptx_wgmma"));
    out->launch.grid[0] = out->launch.grid[1] = out->launch.grid[2] = 1;
    out->launch.threads = 128;
    out->launch.cluster = 1;
    out->launch.shared = SHARED;
    out->launch.maps[0] = map_of(&a, product->a, product->a_place, 0, TENSOR_ROWS);
    out->launch.maps[1] = map_of(&b, product->b, product->b_place, 1, TENSOR_COLUMNS);
    out->launch.map_count = 2;
    memcpy(out->numbers, &a, sizeof a);
    memcpy(out->numbers + 12, &b, sizeof b);
    out->numbers[24] = by_maps;
    out->numbers[25] = BEGIN_B;
    out->a = product->a_place == HR_TENSOR_MN_MAJOR ? data->a_mn : data->a_k;
    out->b = product->b_place == HR_TENSOR_MN_MAJOR ? data->b_mn : data->b_k;
}

int tensor_wrong(const hr_tensor_core *product, const tensor_data *data, const void *result) {
    int wrong = 0;
    for (int m = 0; m < TENSOR_ROWS; m++)
        for (int n = 0; n < product->columns; n++) {
            size_t i = (size_t)(m * product->columns + n);
            double got = product->sum == HR_TENSOR_SUM_S32 ? ((const int *)result)[i]
                                                           : (double)((const float *)result)[i];
            wrong += got != data->expected[m][n];
        }
    return wrong;
}
