/* Rows with sums over rows beside them, on the emulated device: groups that registers hold, that are read
 * again from shared memory, and rows so long that what is the same for all of them waits there, too; places
 * that go round several times, arrays that are not aligned, no rows; sums that two blocks add up before they
 * leave them, and those that each leaves alone. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cuda_rows.h"

typedef enum column_way { HELD, READ_AGAIN, ALL_SHARED, OTHER } column_way;

static const struct column_case {
    row_case row;
    column_way way; /* and what else is expected */
    int threads, groups, depth, partners;
} cases[] = {
    {{"layernorm_backward T=bf16", 41, 1024, 90, 2, 0, {0}}, HELD, 128, 1, 3, 2},
    {{"layernorm_backward T=bf16", 43, 520, 90, 2, 0, {0}}, HELD, 96, 1, 3, 2},
    {{"layernorm_backward T=bf16", 37, 1032, 90, 2, 3, {0}}, HELD, 160, 1, 3, 2},
    {{"layernorm_backward T=bf16", 13, 2048, 90, 2, 0, {.row_threads = 128, .groups = 2, .blocks = 2}},
     HELD,
     128,
     2,
     3,
     2},
    {{"rmsnorm_backward T=bf16", 17, 5120, 90, 2, 0, {0}}, HELD, 320, 2, 3, 1},
    {{"layernorm_backward T=bf16", 9, 6144, 90, 1, 0, {0}}, READ_AGAIN, 256, 3, 3, 2},
    {{"rmsnorm_backward T=bf16", 7, 12280, 90, 2, 5, {0}}, READ_AGAIN, 512, 3, 3, 1},
    {{"layernorm_backward T=bf16", 5, 16384, 90, 2, 0, {0}}, ALL_SHARED, 1024, 2, 2, 2},
    {{"layernorm_backward T=f32", 15, 2052, 90, 2, 0, {0}}, HELD, 160, 4, 3, 2},
    {{"layernorm_backward T=f32", 3, 10240, 90, 1, 0, {0}}, READ_AGAIN, 512, 5, 2, 1},
    {{"rmsnorm_backward T=f32", 11, 4100, 90, 1, 1, {0}}, READ_AGAIN, 288, 4, 3, 1},
    {{"layernorm_backward T=bf16", 19, 1022, 90, 1, 1, {0}}, HELD, 128, 4, 3, 1},
    {{"layernorm_backward T=bf16", 11, 2050, 90, 2, 0, {0}}, HELD, 160, 8, 3, 1},
    {{"rmsnorm_backward T=f32", 23, 1023, 90, 1, 1, {0}}, HELD, 256, 4, 3, 1},
    {{"layernorm_backward T=bf16", 21, 1024, 80, 2, 0, {0}}, HELD, 128, 1, 3, 1},
    {{"layernorm_backward T=bf16", 0, 1024, 90, 2, 0, {0}}, HELD, 128, 1, 3, 1},
    {{"layernorm_backward T=bf16", 1, 1024, 90, 2, 0, {0}}, HELD, 128, 1, 3, 1},
    {{"layernorm_backward T=bf16", 31, 1023, 90, 2, 0, {0}}, OTHER, 0, 0, 0, 1},
    {{"layernorm_backward T=bf16", 7, 2049, 90, 2, 1, {0}}, OTHER, 0, 0, 0, 1},
    {{"layernorm_backward T=bf16", 12, 1024, 90, 2, 0, {.staging = HR_STAGING_AHEAD}}, OTHER, 0, 0, 0, 1},
    {{"rmsnorm_backward T=f32",
      61,
      4096,
      90,
      2,
      0,
      {.staging = HR_STAGING_SHARED, .row_threads = 256, .groups = 4}},
     READ_AGAIN,
     256,
     4,
     2,
     1},
};

static void check_choice(const hr_cuda_choice *c, int number) {
    const struct column_case *one = &cases[number];
    column_way way = !hr_cuda_is_staged(c)            ? OTHER
                     : hr_cuda_is_resident(c)         ? HELD
                     : c->same != HR_CUDA_SAME_SHARED ? READ_AGAIN
                                                      : ALL_SHARED;
    bool same =
        way == one->way && c->partners == one->partners &&
        (way == OTHER || (c->threads == one->threads && c->groups == one->groups && c->depth == one->depth));
    if (!same)
        fail_msg("%s, %lld columns: way %d, %d threads, %d groups, %d places, %d partners", one->row.kernel,
                 (long long)one->row.columns, way, c->threads, c->groups, c->depth, c->partners);
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
