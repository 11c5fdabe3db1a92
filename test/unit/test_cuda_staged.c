/* Short rows of odd length that are staged through shared memory, on the emulated device: which rows are,
 * how many threads have one, last blocks with fewer rows, several tensors, results in the place of what came
 * and in places of their own, arrays that the copy engine cannot take. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cuda_rows.h"

static const struct staged_case {
    row_case row;
    int threads, block_rows, block_slots; /* that are expected; 0: not staged */
} cases[] = {
    {{"softmax T=bf16", 24, 1023, 90, 4, 0, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 17, 1023, 90, 4, 1, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 9, 1022, 90, 4, 0, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 131, 257, 90, 4, 0, {0}}, 16, 8, 1},
    {{"layernorm T=bf16", 129, 31, 90, 4, 0, {0}}, 2, 64, 1},
    {{"layernorm T=bf16", 129, 9, 90, 4, 3, {0}}, 1, 128, 1},
    {{"layernorm T=bf16", 10, 1279, 90, 4, 0, {0}}, 32, 8, 1},
    {{"residual_norm T=bf16", 15, 1021, 90, 4, 0, {0}}, 32, 8, 2},
    {{"softmax T=f32", 13, 301, 90, 4, 0, {0}}, 32, 8, 1},
    {{"rmsnorm T=f32", 65, 33, 90, 4, 1, {0}}, 4, 32, 1},
    {{"cross_entropy F=bf16", 20, 515, 90, 4, 0, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 0, 1023, 90, 4, 0, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 1, 1023, 90, 4, 0, {0}}, 32, 8, 1},
    {{"softmax T=bf16", 9, 1024, 90, 4, 0, {0}}, 0, 0, 0},
    {{"softmax T=bf16", 9, 1281, 90, 4, 0, {0}}, 0, 0, 0},
    {{"softmax T=f32", 9, 513, 90, 4, 0, {0}}, 0, 0, 0},
    {{"softmax T=bf16", 9, 1023, 80, 4, 0, {0}}, 0, 0, 0},
    {{"softmax T=bf16", 9, 1023, 90, 4, 0, {.groups = 4}}, 0, 0, 0},
};

static void check_choice(const hr_cuda_choice *choice, int number) {
    const struct staged_case *one = &cases[number];
    if ((choice->rows == HR_CUDA_ROWS_BLOCK) != (one->threads > 0) ||
        choice->block_slot_count != one->block_slots ||
        (choice->rows == HR_CUDA_ROWS_BLOCK &&
         (choice->row_threads != one->threads || choice->block_rows != one->block_rows)))
        fail_msg("%s, %lld columns: staged %d, %d threads a row, %d rows a block, %d slots", one->row.kernel,
                 (long long)one->row.columns, choice->rows == HR_CUDA_ROWS_BLOCK, choice->row_threads,
                 choice->block_rows, choice->block_slot_count);
}

static void test_rows(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_row(&library, &cases[i].row, (int)i, check_choice);
    kernel_library_close(&library);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
