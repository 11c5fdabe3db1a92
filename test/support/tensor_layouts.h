/* Every way in which an operand of a warpgroup's product may lie, as launches with known results: on the
 * emulated device and, by test/gpu, on a real one.
 *
 * In: types, places, widths. Out: source with a kernel for each product, what it is launched with, and
 * whether the result is right. Elements are small whole numbers, so that every sum is exact and a wrong
 * layout cannot pass.
 */
#ifndef HR_TEST_TENSOR_LAYOUTS_H
#define HR_TEST_TENSOR_LAYOUTS_H

#include "base/launch.h"
#include "base/text.h"
#include "emit/cuda/tensor_core.h"

enum {
    TENSOR_ROWS = 128,
    TENSOR_COLUMNS = 256,
    TENSOR_K_BYTES = 256,
    TENSOR_NUMBERS = 26,
    TENSOR_PRODUCTS_MAX = 64
};

/* The arrays of one type, on the host. */
typedef struct tensor_data {
    unsigned char a_k[TENSOR_ROWS * TENSOR_K_BYTES], a_mn[TENSOR_ROWS * TENSOR_K_BYTES];
    unsigned char b_k[TENSOR_COLUMNS * TENSOR_K_BYTES], b_mn[TENSOR_COLUMNS * TENSOR_K_BYTES];
    int expected[TENSOR_ROWS][TENSOR_COLUMNS];
} tensor_data;

void tensor_data_make(hr_tensor_type type, tensor_data *out);

/* Products of one type: each pair of places, each of these widths (0 ends them). Returns how many. */
int tensor_products(hr_tensor_type type, const int *columns, hr_tensor_core *out);
hr_status tensor_source(const hr_tensor_core *products, int count, hr_text *out);

/* One launch: operands a, b, a with K contiguous, out (their places among the parameters), numbers after
 * them. */
typedef struct tensor_launch {
    hr_launch launch;
    int64_t numbers[TENSOR_NUMBERS];
    const unsigned char *a, *b;
} tensor_launch;

/* `width`: bytes of the swizzle, 16 for none. */
void tensor_launch_make(const hr_tensor_core *product, int width, bool by_maps, const tensor_data *data,
                        tensor_launch *out);
/* How many elements of the result are wrong. */
int tensor_wrong(const hr_tensor_core *product, const tensor_data *data, const void *result);

#endif
