/* Long rows through a ring of places in shared memory, on the emulated device: several kinds of rows, one
 * block or a cluster a row, places that go round many times, results that leave through the place of what
 * came, arrays that the copy engine cannot take. */
#include "emit/emit.h"
#include "schedule/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_rows.h"

static const struct ring_case {
    row_case row;
    int slices, depth; /* that are expected; 0: no ring */
} cases[] = {
    {{"softmax T=bf16", 23, 1024, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 1, 6},
    {{"softmax T=bf16", 23, 1024, 90, 5, 0, {.staging = HR_STAGING_RING, .row_threads = 64, .cluster = 2}},
     2,
     6},
    {{"layernorm T=bf16", 9, 256, 90, 4, 0, {.staging = HR_STAGING_RING, .row_threads = 64}},
     0,
     0}, /* one warp */
    {{"softmax T=bf16", 7, 136, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 96}}, 0, 0},
    {{"softmax T=f32", 17, 4100, 90, 4, 0, {.staging = HR_STAGING_RING, .row_threads = 128}}, 2, 5},
    {{"layernorm T=bf16",
      19,
      2056,
      90,
      8,
      0,
      {.staging = HR_STAGING_RING, .row_threads = 64, .groups = 2, .cluster = 4}},
     4,
     6},
    {{"layernorm T=bf16", 11, 2056, 90, 8, 1, {.staging = HR_STAGING_RING, .row_threads = 64, .groups = 2}},
     4,
     6},
    {{"layernorm T=bf16", 9, 3000, 90, 4, 0, {.staging = HR_STAGING_RING, .row_threads = 96, .groups = 2}},
     2,
     6},
    {{"layernorm T=f32",
      9,
      2500,
      90,
      4,
      0,
      {.staging = HR_STAGING_RING, .row_threads = 96, .groups = 2, .cluster = 4}},
     4,
     6},
    {{"layernorm T=bf16", 5, 1544, 90, 4, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 1, 5},
    {{"residual_norm T=bf16", 13, 1032, 90, 6, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 2, 5},
    {{"residual_norm T=f32",
      13,
      1032,
      90,
      6,
      3,
      {.staging = HR_STAGING_RING, .row_threads = 64, .cluster = 2}},
     4,
     5},
    {{"rmsnorm T=bf16", 0, 1024, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 1, 6},
    {{"rmsnorm T=bf16", 3, 0, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 0, 0},
    {{"rmsnorm T=bf16", 1, 1024, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 1, 6},
    {{"softmax T=bf16", 23, 1025, 90, 3, 0, {.staging = HR_STAGING_RING, .row_threads = 64}}, 0, 0},
    {{"softmax T=bf16", 64, 16400, 90, 8, 0, {0}}, 2, 6},
    {{"softmax T=bf16", 31, 16400, 90, 8, 0, {0}}, 0, 0},
    {{"rmsnorm T=f32", 32, 40000, 90, 8, 0, {0}}, 8, 5},
};

static void check_choice(const hr_cuda_choice *choice, int number) {
    const struct ring_case *one = &cases[number];
    if ((choice->rows == HR_CUDA_ROWS_RING) != (one->slices > 0) ||
        (choice->rows == HR_CUDA_ROWS_RING && (choice->slices != one->slices || choice->depth != one->depth)))
        fail_msg("%s, %lld columns: ring %d, %d slices, %d places", one->row.kernel,
                 (long long)one->row.columns, choice->rows == HR_CUDA_ROWS_RING, choice->slices,
                 choice->depth);
}

static void test_rows(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_row(&library, &cases[i].row, (int)i, check_choice);
    kernel_library_close(&library);
}

/* Source to paste asks for clusters of more than 8 blocks, which a launch without that is refused. */
static void test_pasted(void **state) {
    (void)state;
    kernel_library library;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    const hr_function *function = kernel_library_function(&library, "softmax T=bf16");
    for (int64_t columns = 65536; columns <= 131072; columns *= 2) {
        const int64_t extents[] = {4096, columns};
        hr_device_limits limits = cuda_case_limits(90, 132);
        hr_emitted emitted;
        hr_plan *plan;
        limits.cluster_blocks = 16;
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_emit_cuda(plan, extents, NULL, &emitted), HR_OK);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_pasted)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
