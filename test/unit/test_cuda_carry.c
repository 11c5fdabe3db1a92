/* Short rows of odd length that are carried through shared memory, on the emulated device: which rows are,
 * how many threads have one, last blocks with fewer rows, several tensors, results in the place of what came
 * and in places of their own, arrays that the copy engine cannot take. */
#include "emit/cuda_choice.h"
#include "support/kernel_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cuda_test.h"

static const struct carry_case {
    const char *kernel;
    int64_t rows, columns;
    int compute, offset;
    hr_tunables tunables;
    int threads, block_rows, carriers; /* that are expected; 0: not carried */
} cases[] = {
    {"softmax", 24, 1023, 90, 0, {0}, 32, 8, 1},      {"softmax", 17, 1023, 90, 1, {0}, 32, 8, 1},
    {"softmax", 9, 1022, 90, 0, {0}, 32, 8, 1},       {"softmax", 131, 257, 90, 0, {0}, 16, 8, 1},
    {"layernorm", 129, 31, 90, 0, {0}, 2, 64, 1},     {"layernorm", 129, 9, 90, 3, {0}, 1, 128, 1},
    {"layernorm", 10, 1279, 90, 0, {0}, 32, 8, 1},    {"residual_norm", 15, 1021, 90, 0, {0}, 32, 8, 2},
    {"softmax_f32", 13, 301, 90, 0, {0}, 32, 8, 1},   {"rmsnorm_f32", 65, 33, 90, 1, {0}, 4, 32, 1},
    {"cross_entropy", 20, 515, 90, 0, {0}, 32, 8, 1}, {"softmax", 0, 1023, 90, 0, {0}, 32, 8, 1},
    {"softmax", 1, 1023, 90, 0, {0}, 32, 8, 1},       {"softmax", 9, 1024, 90, 0, {0}, 0, 0, 0},
    {"softmax", 9, 1281, 90, 0, {0}, 0, 0, 0},        {"softmax_f32", 9, 513, 90, 0, {0}, 0, 0, 0},
    {"softmax", 9, 1023, 80, 0, {0}, 0, 0, 0},        {"softmax", 9, 1023, 90, 0, {.unroll = 4}, 0, 0, 0},
};

static void check_choice(const struct carry_case *one, const hr_function *function, const int64_t *extents) {
    hr_device_limits limits = cuda_case_limits(one->compute, 4);
    hr_plan_options options = {.tunables = one->tunables};
    hr_cuda_choice choice;
    hr_plan *plan;
    assert_int_equal(hr_plan_create(function, extents, NULL, &limits, &options, &plan), HR_OK);
    assert_int_equal(hr_cuda_choose(plan, &plan->stages[0], extents, &choice), HR_OK);
    if (choice.carried != (one->threads > 0) || choice.carrier_count != one->carriers ||
        (choice.carried && (choice.row_threads != one->threads || choice.block_rows != one->block_rows)))
        fail_msg("%s, %lld columns: carried %d, %d threads a row, %d rows a block, %d carriers", one->kernel,
                 (long long)one->columns, choice.carried, choice.row_threads, choice.block_rows,
                 choice.carrier_count);
    hr_plan_destroy(plan);
}

static void test_rows(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct carry_case *one = &cases[i];
        const hr_function *function = kernel_library_function(&library, one->kernel);
        const int64_t extents[] = {one->rows, one->columns};
        assert_non_null(function);
        check_choice(one, function, extents);
        cuda_case run = {.function = function,
                         .extents = extents,
                         .limits = cuda_case_limits(one->compute, 4),
                         .options = {.tunables = one->tunables},
                         .offset = one->offset,
                         .nonfinite = i % 4 == 3,
                         .seed = i,
                         .points = 400};
        expect_right(&run, (int)i);
    }
    kernel_library_close(&library);
}

int main(void) {
    if (!can_emulate()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
