/* The emulated tensor cores: every layout of a warpgroup's operands against a plain product on the host. */
#include "support/cuda_emulation.h"
#include "support/tensor_layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_test.h"

static const int widths[] = {16, 32, 64, 128};
static tensor_data data;

typedef struct words {
    const unsigned char *a, *b, *a_rows;
    void *out;
    double scalars[4];
    int64_t numbers[TENSOR_NUMBERS];
    void *scratch, *fault;
} words;

static void *array(const char *name, const void *from, size_t bytes, unsigned access) {
    void *made = cuda_emulation_array(device, name, bytes, 0, access);
    assert_non_null(made);
    if (from) memcpy(made, from, bytes);
    return made;
}

static void run_one(const cuda_object *object, const hr_tensor_core *product, int width, bool by_maps,
                    uint64_t seed) {
    tensor_launch made;
    words w = {0};
    const unsigned input = CUDA_READ | CUDA_FILLED;
    tensor_launch_make(product, width, by_maps, &data, &made);
    cuda_emulation_clear(device);
    w.a = array("a", made.a, sizeof data.a_k, input);
    w.b = array("b", made.b, sizeof data.b_k, input);
    w.a_rows = array("a_rows", data.a_k, sizeof data.a_k, input);
    w.out =
        array("out", NULL, sizeof(int) * TENSOR_ROWS * TENSOR_COLUMNS, CUDA_READ | CUDA_WRITE | CUDA_ONCE);
    memcpy(w.numbers, made.numbers, sizeof w.numbers);
    hr_status status = cuda_emulation_launch(device, object, &made.launch, &w, seed);
    int wrong = status == HR_OK ? tensor_wrong(product, &data, w.out) : -1;
    if (wrong)
        fail_msg("%s, swizzle %d, %s: %d wrong; %s", made.launch.entry, width, by_maps ? "maps" : "stores",
                 wrong, status == HR_OK ? "" : hr_last_error());
}

static void check_type(hr_tensor_type type, int expected) {
    static const int columns[] = {8, 24, 64, 96, 256, 0};
    hr_tensor_core products[TENSOR_PRODUCTS_MAX];
    const char *entries[TENSOR_PRODUCTS_MAX];
    static char names[TENSOR_PRODUCTS_MAX][64];
    int count = tensor_products(type, columns, products);
    hr_text source = {0};
    cuda_object *object;
    assert_int_equal(count, expected);
    tensor_data_make(type, &data);
    assert_int_equal(tensor_source(products, count, &source), HR_OK);
    for (int i = 0; i < count; i++) {
        tensor_launch made;
        tensor_launch_make(&products[i], 128, true, &data, &made);
        memcpy(names[i], made.launch.entry, sizeof names[i]);
        entries[i] = names[i];
    }
    hr_status status = cuda_object_compile(hr_text_data(&source), entries, count, &object);
    if (status == HR_NOT_AVAILABLE) {
        print_message("skipped: %s\n", hr_last_error());
        exit(77);
    }
    if (status != HR_OK) fail_msg("%s", hr_last_error());
    for (int i = 0; i < count; i++)
        for (int w = 0; w < 4; w++)
            for (int by_maps = 0; by_maps < 2; by_maps++)
                run_one(object, &products[i], widths[w], by_maps, (uint64_t)(i + w + by_maps));
    cuda_object_destroy(object);
    hr_text_clear(&source);
}

static void test_16_bit(void **state) {
    (void)state;
    check_type(HR_TENSOR_BF16, 5 * 6);
    check_type(HR_TENSOR_F16, 5 * 6);
}

static void test_tf32(void **state) {
    (void)state;
    check_type(HR_TENSOR_TF32, 5 * 2);
}

static void test_8_bit(void **state) {
    (void)state;
    check_type(HR_TENSOR_E4M3, 5 * 2);
    check_type(HR_TENSOR_E5M2, 5 * 2);
    check_type(HR_TENSOR_S8, 5 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_16_bit), cmocka_unit_test(test_tf32),
                                       cmocka_unit_test(test_8_bit)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
