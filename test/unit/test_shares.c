/* Work that threads take in pieces: every element is there, and the same bits whatever the threads are;
 * pieces are handed out once each, also where a thread does none of its own.
 */
#include "base/dtype.h"
#include "device/device.h"
#include "prelude_all.h"
#include "support/core_kinds.h"
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <omp.h>

static void good(hr_status status, const char *text) {
    if (status != HR_OK) fail_msg("%s in\n%s", hr_last_error(), text);
}

/* Two or three pieces a share for three threads, one or two for five. */
static const struct shared_kernel {
    int64_t rows, columns;
    const char *text;
} kernels[] = {
    {1, 2700001, "kernel k(x: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = 2 * x[m, n] + 1\n}\n"},
    {3001, 901,
     "kernel k(x: bf16[M, N], b: f32[N]) -> (y: bf16[M, N])\n{\n    y[m, n] = gelu(x[m, n] + b[n])\n}\n"},
    {3001, 901,
     "kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n"
     "    y[m, n] = where(random(3, m * N + n) >= 0.5, x[m, n] * 2, 0)\n}\n"},
    {901, 3001,
     "kernel k(x: bf16[M, N], w: bf16[N]) -> (y: bf16[M, N], r: f32[M])\n{\n"
     "    r[m] = rsqrt(sum[n](x[m, n]^2) / N)\n    y[m, n] = x[m, n] * r[m] * w[n]\n}\n"},
    {661, 4096,
     "kernel k(x: f32[M, N]) -> (y: f32[M, N])\n{\n    top[m] = max[n](x[m, n])\n"
     "    e[m, n] = exp(x[m, n] - top[m])\n    y[m, n] = e[m, n] / sum[j](e[m, j])\n}\n"},
    {73001, 37,
     "kernel k(x: bf16[M, N]) -> (y: bf16[M, N], s: f32[M])\n{\n    s[m] = sum[n](x[m, n])\n"
     "    y[m, n] = x[m, n] - s[m]\n}\n"},
};

/* With sums over tasks, whose order is that of the pieces, however many threads there are. */
static const struct shared_kernel summing[] = {
    {73001, 37,
     "kernel k(x: f32[M, N], d: f32[N]) -> (y: f32[M, N], t: f32[N])\n{\n    y[m, n] = x[m, n] * d[n]\n"
     "    t[n] = sum[m](x[m, n])\n}\n"},
    {4001, 777,
     "kernel k(x: bf16[M, N], g: bf16[M, N]) -> (y: bf16[M, N], t: f32[N], u: f32[N])\n{\n"
     "    s[m] = sum[n](x[m, n] * g[m, n]) / N\n    y[m, n] = g[m, n] - x[m, n] * s[m]\n"
     "    t[n] = sum[m](g[m, n] * x[m, n])\n    u[n] = sum[m](g[m, n])\n}\n"},
    {151, 33001,
     "kernel k(x: f32[M, N]) -> (y: f32[M, N], t: f32[N])\n{\n    s[m] = sum[n](x[m, n]) / N\n"
     "    y[m, n] = x[m, n] - s[m]\n    t[n] = sum[m](x[m, n] * s[m])\n}\n"}, /* rows too long for pieces */
    {3001, 901, "kernel k(x: f32[M, N]) -> (s: f32[1])\n{\n    s[i] = sum[m, n](x[m, n]^2) * (i + 1)\n}\n"},
    {3001, 901,
     "kernel k(x: bf16[M, N]) -> (r: f32[M], s: f32[1])\n{\n    r[m] = max[n](x[m, n])\n"
     "    s[i] = sum[m](r[m]) * (i + 1)\n}\n"},
};

enum { KERNELS = sizeof kernels / sizeof *kernels, SUMMING = sizeof summing / sizeof *summing };

enum { POINTS = 400 };

/* What the kernel makes, one result after the other; to be freed. `points` of it are compared with the text's
 * meaning. */
static char *results_of(const struct shared_kernel *k, int threads, int points, size_t *bytes) {
    static const char *const names[] = {"y", "r", "s", "t", "u"};
    hr_kernel *kernel;
    hr_check check = {0};
    device->limits.threads = threads;
    good(hr_kernel_load(device, "share.hr", k->text, strlen(k->text), NULL, &kernel), k->text);
    good(hr_kernel_bind_extent(kernel, "M", k->rows), k->text);
    good(hr_kernel_bind_extent(kernel, "N", k->columns), k->text);
    good(hr_kernel_fill(kernel, 11), k->text);
    good(hr_kernel_prepare(kernel, NULL), k->text);
    good(points ? hr_kernel_check(kernel, points, &check) : hr_kernel_launch(kernel), k->text);
    if (points && !check.ok)
        fail_msg("%d threads: error %g, tolerance %g: %s in\n%s", threads, check.max_error, check.tolerance,
                 check.where, k->text);
    char *all = NULL;
    *bytes = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hr_array array = {.size = sizeof array};
        if (hr_kernel_array(kernel, names[i], &array) != HR_OK) continue;
        size_t size = hr_dtype_size(array.dtype);
        for (int axis = 0; axis < array.rank; axis++)
            size *= (size_t)array.shape[axis];
        all = realloc(all, *bytes + size);
        assert_non_null(all);
        memcpy(all + *bytes, array.data, size);
        *bytes += size;
    }
    hr_kernel_destroy(kernel);
    return all;
}

typedef struct results {
    char *data;
    size_t bytes;
} results;

/* Bits that are those of results that were compared with the meaning are right. */
static void compare(const struct shared_kernel *k, const results *right, int threads) {
    results other;
    other.data = results_of(k, threads, 0, &other.bytes);
    assert_int_equal(other.bytes, right->bytes);
    if (memcmp(right->data, other.data, other.bytes) != 0)
        fail_msg("%d threads have other bits: %s", threads, k->text);
    free(other.data);
}

static void same_bits_whatever_the_threads(void **state) {
    (void)state;
    for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);)
        for (int number = 0; number < KERNELS; number++) {
            results one;
            one.data = results_of(&kernels[number], 1, POINTS, &one.bytes);
            compare(&kernels[number], &one, 3);
            compare(&kernels[number], &one, 5);
            free(one.data);
        }
}

static void same_sums_at_any_time(void **state) {
    (void)state;
    for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);)
        for (int number = 0; number < SUMMING; number++)
            for (int threads = 1; threads <= 5; threads += 2) {
                results once;
                once.data = results_of(&summing[number], threads, POINTS, &once.bytes);
                compare(&summing[number], &once, threads);
                free(once.data);
            }
}

static void every_piece_once(void **state) {
    (void)state;
    enum { THREADS = 5, PIECES = 7 };
    for (int idle = -1; idle < THREADS; idle++) {
        work_share shares[THREADS] = {{0}};
        int done[THREADS * PIECES] = {0};
#pragma omp parallel num_threads(THREADS)
        if (omp_get_thread_num() != idle || omp_get_num_threads() < THREADS)
            for (int64_t piece, other = 0;
                 (piece = work_piece(shares, PIECES, omp_get_thread_num(), THREADS, &other)) >= 0;) {
#pragma omp atomic
                done[piece]++;
            }
        for (int i = 0; i < THREADS * PIECES; i++)
            assert_int_equal(done[i], 1);
    }
}

static void own_pieces_first(void **state) {
    (void)state;
    work_share shares[3] = {{0}};
    int64_t other = 0;
    static const int64_t wanted[] = {2, 3, 4,  5,
                                     0, 1, -1, -1}; /* of three threads with two each, the second */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(work_piece(shares, 2, 1, 3, &other), wanted[i]);
}

static void pieces_of_small_work(void **state) {
    (void)state;
    assert_int_equal(work_pieces_of(0, 4), 1);
    assert_int_equal(work_pieces_of(1 << 19, 4), 1);
    assert_int_equal(work_pieces_of(INT64_C(1) << 21, 4), 2);
    assert_int_equal(work_pieces_of(INT64_C(1) << 40, 4), WORK_PIECES);
    assert_int_equal(work_pieces_of(INT64_C(1) << 40, 1), 1);
    assert_int_equal(work_sums_of(INT64_C(1) << 40, WORK_AREA, 4), WORK_SUMS);
    assert_int_equal(work_sums_of(INT64_C(1) << 40, WORK_AREA + 1, 4), 1);
    assert_int_equal(work_sums_of(INT64_C(1) << 40, 1, 1), 1);
    assert_int_equal(work_sums_of((INT64_C(1) << 20) - 4, 1, 4), 1); /* halves would be too short */
    assert_int_equal(work_sums_of(INT64_C(1) << 20, 1, 4), 2);
    assert_int_equal(work_sums_of(INT64_C(1) << 21, 1, 4), 3);
}

/* Each task once, in order, half of a share's rest at a time. */
static void halves_of_shares(void **state) {
    (void)state;
    enum { TASKS = 1000003 };
    for (int64_t threads = 1; threads <= 7; threads += 3)
        for (int64_t pieces = 1; pieces <= WORK_SUMS; pieces++) {
            int64_t next = 0;
            for (int64_t piece = 0; piece < threads * pieces; piece++) {
                const int64_t part = work_half(piece, pieces), parts = threads * work_halving(piece, pieces);
                const int64_t begin = TASKS * part / parts, end = TASKS * (part + 1) / parts;
                const int64_t share = TASKS * (piece / pieces + 1) / threads;
                assert_int_equal(begin, next);
                if ((piece + 1) % pieces == 0)
                    assert_int_equal(end, share);
                else
                    assert_in_range(share - end, end - begin - 1, end - begin + 1);
                next = end;
            }
            assert_int_equal(next, TASKS);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_whatever_the_threads),
                                       cmocka_unit_test(same_sums_at_any_time),
                                       cmocka_unit_test(every_piece_once),
                                       cmocka_unit_test(own_pieces_first),
                                       cmocka_unit_test(pieces_of_small_work),
                                       cmocka_unit_test(halves_of_shares)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
