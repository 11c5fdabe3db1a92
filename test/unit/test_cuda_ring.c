/* Long rows through a ring of places in shared memory, on the emulated device: several kinds of rows, one
 * block or a cluster a row, places that go round many times, results that leave through the place of what
 * came, arrays that the copy engine cannot take. */
#include "emit/cuda_choice.h"
#include "emit/emit.h"
#include "support/kernel_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_test.h"

static const struct ring_case {
    const char *kernel;
    int64_t rows, columns;
    int processors, offset;
    hr_tunables tunables;
    int slices, depth; /* that are expected; 0: no ring */
} cases[] = {
    {"softmax", 23, 1024, 3, 0, {.prefetch = 5, .row_threads = 64}, 1, 6},
    {"softmax", 23, 1024, 5, 0, {.prefetch = 5, .row_threads = 64, .cluster = 2}, 2, 6},
    {"softmax_f32", 17, 4100, 4, 0, {.prefetch = 5, .row_threads = 128}, 2, 5},
    {"layernorm", 19, 2056, 8, 0, {.prefetch = 5, .row_threads = 64, .unroll = 2, .cluster = 4}, 4, 6},
    {"layernorm", 11, 2056, 8, 1, {.prefetch = 5, .row_threads = 64, .unroll = 2}, 4, 6},
    {"layernorm", 9, 3000, 4, 0, {.prefetch = 5, .row_threads = 96, .unroll = 2}, 2, 6},
    {"layernorm_f32", 9, 2500, 4, 0, {.prefetch = 5, .row_threads = 96, .unroll = 2, .cluster = 4}, 4, 6},
    {"layernorm", 5, 1544, 4, 0, {.prefetch = 5, .row_threads = 64}, 1, 5},
    {"residual_norm", 13, 1032, 6, 0, {.prefetch = 5, .row_threads = 64}, 2, 5},
    {"residual_norm_f32", 13, 1032, 6, 3, {.prefetch = 5, .row_threads = 64, .cluster = 2}, 4, 5},
    {"rmsnorm", 0, 1024, 3, 0, {.prefetch = 5, .row_threads = 64}, 1, 6},
    {"rmsnorm", 3, 0, 3, 0, {.prefetch = 5, .row_threads = 64}, 0, 0},
    {"rmsnorm", 1, 1024, 3, 0, {.prefetch = 5, .row_threads = 64}, 1, 6},
    {"softmax", 23, 1025, 3, 0, {.prefetch = 5, .row_threads = 64}, 0, 0},
    {"softmax", 64, 16400, 8, 0, {0}, 2, 6},
    {"softmax", 31, 16400, 8, 0, {0}, 0, 0},
    {"rmsnorm_f32", 32, 40000, 8, 0, {0}, 8, 5},
};

static void check_choice(const struct ring_case *one, const hr_function *function, const int64_t *extents) {
    hr_device_limits limits = cuda_case_limits(90, one->processors);
    hr_plan_options options = {.tunables = one->tunables};
    hr_cuda_choice choice;
    hr_plan *plan;
    assert_int_equal(hr_plan_create(function, extents, NULL, &limits, &options, &plan), HR_OK);
    assert_int_equal(plan->stage_count, 1);
    assert_int_equal(hr_cuda_choose(plan, &plan->stages[0], extents, &choice), HR_OK);
    if (choice.ring != (one->slices > 0) ||
        (choice.ring && (choice.slices != one->slices || choice.depth != one->depth)))
        fail_msg("%s, %lld columns: ring %d, %d slices, %d places", one->kernel, (long long)one->columns,
                 choice.ring, choice.slices, choice.depth);
    hr_plan_destroy(plan);
}

static void test_rows(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct ring_case *one = &cases[i];
        const hr_function *function = kernel_library_function(&library, one->kernel);
        const int64_t extents[] = {one->rows, one->columns};
        assert_non_null(function);
        check_choice(one, function, extents);
        cuda_case run = {.function = function,
                         .extents = extents,
                         .limits = cuda_case_limits(90, one->processors),
                         .options = {.tunables = one->tunables},
                         .offset = one->offset,
                         .nonfinite = i % 4 == 3,
                         .seed = i,
                         .points = 400};
        expect_right(&run, (int)i);
    }
    kernel_library_close(&library);
}

/* Source to paste asks for clusters of more than 8 blocks, which a launch without that is refused. */
static void test_pasted(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    const hr_function *function = kernel_library_function(&library, "softmax");
    for (int64_t columns = 65536; columns <= 131072; columns *= 2) {
        const int64_t extents[] = {4096, columns};
        hr_device_limits limits = cuda_case_limits(90, 132);
        hr_emitted emitted;
        hr_plan *plan;
        limits.cluster_blocks = 16;
        assert_int_equal(hr_plan_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_emit_cuda(plan, extents, false, &emitted), HR_OK);
        const char *text = hr_text_data(&emitted.source);
        assert_int_equal(strstr(text, "__cluster_dims__(16, 1, 1)") != NULL, columns == 131072);
        assert_int_equal(strstr(text, "cudaFuncAttributeNonPortableClusterSizeAllowed, 1") != NULL,
                         columns == 131072);
        hr_emitted_clear(&emitted);
        hr_plan_destroy(plan);
    }
    kernel_library_close(&library);
}

int main(void) {
    if (!can_emulate()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_pasted)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
