/* The main loop of matrix products, as the text that is emitted, against plain loops in f64.
 *
 * Built three times: as plain C by vectors, and for this machine with MATRIX_UNIT by its matrix unit and with
 * DOTS_UNIT by dot products of pairs, where it has them.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#if defined MATRIX_UNIT || defined DOTS_UNIT
#define PAIRS
#endif

#ifdef PAIRS
#define HR_LANES 16
enum { CONTRACT_F32_ROWS = 14, CONTRACT_F32_VECTORS = 2, CONTRACT_F32_STRIP = 1 };
#else
#define HR_LANES 4
enum { CONTRACT_F32_ROWS = 6, CONTRACT_F32_VECTORS = 2, CONTRACT_F32_STRIP = 32 };
#endif
#include "schedule/cpu/contract_blocks.h"

static inline void thread_barrier(void) {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

#include "contract_f32.h" /* generated */

#ifdef PAIRS
#include "emit/templates/cpu/contract_pairs.h"
#endif
#ifdef MATRIX_UNIT
#include "emit/templates/cpu/contract_tiles.h"
#elif defined DOTS_UNIT
#include "emit/templates/cpu/contract_dots.h"
#endif

/* The choice of the unit that is tested. */
static struct contract_choice choice_of(int64_t left_bytes, int64_t right_bytes) {
    struct contract_choice choice = {.element = 4,
                                     .rows = CONTRACT_F32_ROWS,
                                     .columns = CONTRACT_F32_COLUMNS,
                                     .depth = 64,
                                     .left_bytes = left_bytes,
                                     .right_bytes = right_bytes,
                                     .flat_bytes = left_bytes / 2,
                                     .task_rows = 3 * CONTRACT_F32_ROWS,
                                     .together = 1,
                                     .step = 1,
                                     .group_rows = 32,
                                     .beside = 3,
                                     .parts = 3};
#ifdef PAIRS
    choice.rows = choice.columns = 32;
    choice.task_rows = 96;
    choice.together = 2;
    choice.step = 16;
#endif
    return choice;
}

static void run_thread(const struct contract_f32 *product, const struct contract_choice *choice, int thread,
                       int threads, char *scratch) {
#ifdef CONTRACT_PAIRS_UNIT
    contract_pairs_begin();
    contract_f32_run(product, &contract_pairs_unit, choice, thread, threads, scratch);
    contract_pairs_end();
#else
    contract_f32_run(product, &contract_f32_vectors, choice, thread, threads, scratch);
#endif
}

/* A product of doubles with every stride free: x[b, m, k], w[b, n, k], y[b, m, n]. */
struct arguments {
    int64_t x_stride[3], w_stride[3], y_stride[3];
    const double *x, *w;
    double *y;
    bool x_along_k, w_along_k;
};

static void fill(const double *from, const int64_t *stride, bool along_k, int64_t rows, int64_t depth,
                 float *to, int64_t to_stride) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < depth; j++)
            to[along_k ? i * to_stride + j : j * to_stride + i] = (float)from[i * stride[1] + j * stride[2]];
}

static void fill_left(const struct arguments *o, int64_t batch, int64_t row, int64_t rows, int64_t k,
                      int64_t depth, float *to, int64_t stride, int64_t ahead) {
    (void)ahead;
    const double *from = o->x + batch * o->x_stride[0] + row * o->x_stride[1] + k * o->x_stride[2];
    fill(from, o->x_stride, o->x_along_k, rows, depth, to, stride);
}

static void fill_right(const struct arguments *o, int64_t batch, int64_t row, int64_t rows, int64_t k,
                       int64_t depth, float *to, int64_t stride, int64_t ahead) {
    (void)ahead;
    const double *from = o->w + batch * o->w_stride[0] + row * o->w_stride[1] + k * o->w_stride[2];
    fill(from, o->w_stride, o->w_along_k, rows, depth, to, stride);
}

/* Adds, so that a sum that is handed out twice shows. */
static void finish(const struct arguments *o, int64_t batch, int64_t m, int64_t rows, int64_t n,
                   int64_t columns, const float *tile, int64_t stride) {
    double *to = o->y + batch * o->y_stride[0] + m * o->y_stride[1] + n * o->y_stride[2];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[i * o->y_stride[1] + j * o->y_stride[2]] += tile[i * stride + j];
}

static double *random_doubles(int64_t count, uint32_t seed) {
    double *data = malloc(((size_t)count + 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (double)(seed >> 24) / 256 - 0.5; /* a bf16 value, as pairs need */
    }
    return data;
}

static double plain_sum(const struct arguments *o, int64_t b, int64_t m, int64_t n, int64_t depth) {
    double sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        double x = o->x[b * o->x_stride[0] + m * o->x_stride[1] + k * o->x_stride[2]];
        double w = o->w[b * o->w_stride[0] + n * o->w_stride[1] + k * o->w_stride[2]];
        sum += x * w;
    }
    return sum;
}

static void run(const struct contract_f32 *product, const struct contract_choice *choice, int threads,
                char *scratch) {
#pragma omp parallel num_threads(threads)
    {
        assert_int_equal(omp_get_num_threads(), threads);
        run_thread(product, choice, omp_get_thread_num(), threads, scratch);
    }
}

typedef struct sizes {
    int64_t batch, m, n, k, threads;
} sizes;

/* The product's sums, checked; free() them. `thin`: up to so many rows or columns the other operand stays in
 * its place. */
static double *sums_of(sizes s, bool x_along_k, bool w_along_k, int64_t left_bytes, int64_t right_bytes,
                       int64_t thin) {
    struct arguments o = {.x_along_k = x_along_k, .w_along_k = w_along_k};
    memcpy(o.x_stride, ((int64_t[]){s.m * s.k, x_along_k ? s.k : 1, x_along_k ? 1 : s.m}), sizeof o.x_stride);
    memcpy(o.w_stride, ((int64_t[]){s.n * s.k, w_along_k ? s.k : 1, w_along_k ? 1 : s.n}), sizeof o.w_stride);
    memcpy(o.y_stride, ((int64_t[]){s.m * s.n, s.n, 1}), sizeof o.y_stride);
    double *x = random_doubles(s.batch * s.m * s.k, 1), *w = random_doubles(s.batch * s.n * s.k, 2);
    o.x = x, o.w = w;
    o.y = calloc((size_t)(s.batch * s.m * s.n) + 1, sizeof *o.y);
    assert_non_null(o.y);
    struct contract_choice choice = choice_of(left_bytes, right_bytes);
    choice.thin_m = w_along_k ? thin : 0;
    choice.thin_n = x_along_k ? thin : 0;
    struct contract_blocks blocks = contract_blocks(&choice, s.batch, s.m, s.n, s.k, s.threads);
    size_t bytes = (size_t)blocks.bytes;
    char *scratch = aligned_alloc(64, bytes + 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes + 64); /* NaN everywhere */
    struct contract_f32 product = {
        s.batch, s.m,  s.n, s.k, {fill_left, x_along_k}, {fill_right, w_along_k}, finish, &o,
        NULL,    NULL, {0}, 0};
    run(&product, &choice, (int)s.threads, scratch);
    for (int i = 0; i < 64; i++)
        assert_int_equal((unsigned char)scratch[bytes + (size_t)i], 0xff);
    double tolerance = 1e-6 * (1 + sqrt((double)s.k));
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t m = 0; m < s.m; m++)
            for (int64_t n = 0; n<s.n; n += s.n * s.k> 100000 ? 5 : 1) {
                double want = plain_sum(&o, b, m, n, s.k), got = o.y[(b * s.m + m) * s.n + n];
                if (!(fabs(got - want) <= tolerance))
                    fail_msg("%d x (%d x %d x %d), %d threads, at %d, %d, %d: %.9g, should be %.9g",
                             (int)s.batch, (int)s.m, (int)s.n, (int)s.k, (int)s.threads, (int)b, (int)m,
                             (int)n, got, want);
            }
    free(scratch);
    free(x);
    free(w);
    return o.y;
}

static void check_thin(sizes s, bool x_along_k, bool w_along_k, int64_t left_bytes, int64_t right_bytes,
                       int64_t thin) {
    free(sums_of(s, x_along_k, w_along_k, left_bytes, right_bytes, thin));
}

static void check(sizes s, bool x_along_k, bool w_along_k, int64_t left_bytes, int64_t right_bytes) {
    check_thin(s, x_along_k, w_along_k, left_bytes, right_bytes, (s.m + s.n + s.k) % 2 ? 16 : 0);
}

static void test_odd_sizes(void **state) {
    (void)state;
    static const int64_t sizes_of[] = {1, 2, 3, 7, 17, 31, 33, 64, 255};
    enum { COUNT = sizeof sizes_of / sizeof *sizes_of };
    int which = 0;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            for (int l = 0; l < COUNT; l++, which++) {
                sizes s = {1, sizes_of[i], sizes_of[j], sizes_of[l], 1 + which % 3};
                check(s, which & 1, which & 2, which & 4 ? 2048 : 65536, which & 8 ? 4096 : 1 << 20);
            }
}

static void test_empty_sizes(void **state) {
    (void)state;
    check((sizes){1, 0, 5, 3, 2}, true, false, 65536, 1 << 20);
    check((sizes){1, 5, 0, 3, 2}, true, false, 65536, 1 << 20);
    check((sizes){0, 5, 5, 3, 2}, true, false, 65536, 1 << 20);
    check((sizes){1, 5, 7, 0, 2}, true, false, 65536, 1 << 20); /* sums of nothing are 0 */
    check((sizes){2, 300, 7, 0, 2}, false, true, 65536, 1 << 20);
}

static void test_batches(void **state) {
    (void)state;
    for (int64_t batch = 2; batch <= 9; batch++) {
        check((sizes){batch, 13, 37, 29, 3}, true, true, 65536, 1 << 20);
        check((sizes){batch, 130, 150, 111, 3}, batch % 2, true, 2048, 1 << 20);
    }
}

static void test_deep_products_take_several_passes(void **state) {
    (void)state;
    struct contract_choice choice = choice_of(65536, 1 << 20);
    assert_int_equal(contract_blocks(&choice, 1, 100, 50, 3072 * choice.together, 1).passes, 1);
    assert_int_equal(contract_blocks(&choice, 1, 100, 50, 7000 * choice.together, 1).passes, 3);
    check((sizes){1, 100, 50, 7001, 2}, true, true, 65536, 1 << 20);
    check((sizes){2, 61, 9, 7001, 1}, false, false, 65536, 4096);
}

static void test_few_rows_take_panels_side_by_side(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 4, 15, 29, 32};
    struct contract_choice choice = choice_of(65536, 1 << 20);
    assert_true(contract_blocks(&choice, 1, 4, 2100, 70, 2).group > 1);
    for (int i = 0; i < 5; i++) {
        check((sizes){1, rows[i], 2100, 70 + 63 * i, 1 + i % 3}, i % 2, false, 65536, 1 << 20);
        check((sizes){1, rows[i], 2100, 70, 2}, true, true, 65536, 1 << 20);
        check((sizes){1, 2100, rows[i], 131, 2}, false, i % 2, 65536, 1 << 20);
    }
}

static void test_few_rows_leave_the_other_operand_in_its_place(void **state) {
    (void)state;
    struct contract_choice choice = choice_of(65536, 1 << 20);
    choice.thin_m = 16;
    assert_true(contract_blocks(&choice, 1, 16, 2100, 70, 2).thin);
    assert_false(contract_blocks(&choice, 1, 17, 2100, 70, 2).thin);
    assert_false(
        contract_blocks(&choice, 1, 16, 2100, 70000, 2).thin); /* the second-level cache holds no more */
    assert_false(
        contract_blocks(&choice, 1, 2100, 16, 70, 2).thin); /* of the left operand nothing is known */
    static const int64_t depths[] = {0, 1, 15, 16, 70, 511, 512, 513, 1100};
    for (int64_t rows = 1; rows <= 16; rows++)
        for (int i = 0; i < 9; i++) {
            const int64_t many = 17 + rows * 13 + i;
            check_thin((sizes){1 + i % 2, rows, many, depths[i], 1 + i % 3}, rows % 2, true, 65536, 1 << 20,
                       16);
            check_thin((sizes){1 + i % 2, many + 64, rows, depths[i], 1 + i % 3}, true, rows % 3, 65536,
                       1 << 20, 16);
        }
}

/* Few rows and columns: all threads have parts of k, and the sums are the same for any number of them. */
static void test_long_sums_of_few_are_in_parts(void **state) {
    (void)state;
    struct contract_choice choice = choice_of(65536, 1 << 20);
    assert_int_equal(contract_blocks(&choice, 1, 4, 50, 3000 * choice.together, 4).parts, 0);
    assert_true(contract_blocks(&choice, 1, 4, 50, 14000 * choice.together, 4).parts >= 4);
    assert_true(contract_blocks(&choice, 8, 50, 4, 14000 * choice.together, 16).parts >= 4);
    assert_int_equal(contract_blocks(&choice, 1, 4, 600, 14000 * choice.together, 4).parts, 0);
    static const int64_t rows[] = {1, 4, 16};
    for (int i = 0; i < 3; i++) {
        const int64_t depth = 12500 * choice.together + i, batch = 1 + i % 2;
        double *one = sums_of((sizes){batch, rows[i], 37, depth, 1}, true, i % 2, 65536, 1 << 20, 0);
        for (int64_t threads = 2; threads <= 5; threads += 3) {
            double *more =
                sums_of((sizes){batch, rows[i], 37, depth, threads}, true, i % 2, 65536, 1 << 20, 0);
            assert_memory_equal(one, more, (size_t)(batch * rows[i] * 37) * sizeof *one);
            free(more);
        }
        free(one);
    }
    check((sizes){1, 150, 3, 12500, 3}, false, false, 65536, 1 << 20); /* swapped */
}

/* A sum is finished where it is finite beside one that is not: padding must not leak. */
static void test_not_a_number_stays_in_its_row(void **state) {
    (void)state;
    double x[3 * 5], w[2 * 5], y[3 * 2] = {0};
    for (int i = 0; i < 15; i++)
        x[i] = i == 7 ? NAN : 1;
    for (int i = 0; i < 10; i++)
        w[i] = i == 3 ? INFINITY : 2;
    struct arguments o = {{15, 5, 1}, {10, 5, 1}, {6, 2, 1}, x, w, y, true, true};
    for (int thin = 0; thin <= 16; thin += 16) {
        struct contract_choice choice = choice_of(65536, 1 << 20);
        choice.thin_m = choice.thin_n = thin;
        struct contract_blocks blocks = contract_blocks(&choice, 1, 3, 2, 5, 1);
        char *scratch = aligned_alloc(64, ((size_t)blocks.bytes + 63) / 64 * 64);
        assert_non_null(scratch);
        struct contract_f32 product = {1,    3,    2,   5, {fill_left, true}, {fill_right, true}, finish, &o,
                                       NULL, NULL, {0}, 0};
        memset(y, 0, sizeof y);
        run(&product, &choice, 1, scratch);
        free(scratch);
        assert_true(y[0] == INFINITY && y[1] == 10 && isnan(y[2]) && isnan(y[3]) && y[4] == INFINITY &&
                    y[5] == 10);
    }
}

static void test_memory_is_bounded(void **state) {
    (void)state;
    struct contract_choice choice = choice_of(512 << 10, 16 << 20);
    static const int64_t edges[] = {1, 100, 1024, 4097, 100000, 4000000};
    enum { COUNT = sizeof edges / sizeof *edges };
    for (int i = 0; i < COUNT * COUNT * COUNT; i++) {
        int64_t m = edges[i % COUNT], n = edges[i / COUNT % COUNT], k = edges[i / COUNT / COUNT];
        assert_true(contract_blocks(&choice, 1, m, n, k, 4).bytes <= (44 << 20));
        assert_true(contract_blocks(&choice, 64, m, n, k, 16).bytes <= (68 << 20));
    }
}

/* Sums of values of every size, exact in f64 up to rounding: what no unit may flush to 0. */
static void check_range(int from, int to, bool x_along_k, bool w_along_k, int64_t m, int64_t n, int64_t k) {
    struct arguments o = {.x_along_k = x_along_k, .w_along_k = w_along_k};
    memcpy(o.x_stride, ((int64_t[]){0, x_along_k ? k : 1, x_along_k ? 1 : m}), sizeof o.x_stride);
    memcpy(o.w_stride, ((int64_t[]){0, w_along_k ? k : 1, w_along_k ? 1 : n}), sizeof o.w_stride);
    memcpy(o.y_stride, ((int64_t[]){0, n, 1}), sizeof o.y_stride);
    double *x = random_doubles(m * k, 3), *w = random_doubles(n * k, 4);
    for (int64_t i = 0; i < m * k; i++)
        x[i] =
            ldexp(1 + floor(64 * (x[i] + 0.5)) / 64, from + (int)(i % 11)); /* a bf16 denormal has few bits */
    for (int64_t i = 0; i < m * k; i++)
        x[i] = ldexp(rint(ldexp(x[i], 133)), -133) * (i % 3 ? 1 : -1);
    for (int64_t i = 0; i < n * k; i++)
        w[i] = ldexp(rint(ldexp(1 + floor(64 * (w[i] + 0.5)) / 64, to + (int)(i % 7) + 133)), -133);
    o.x = x, o.w = w;
    o.y = calloc((size_t)(m * n), sizeof *o.y);
    struct contract_choice choice = choice_of(65536, 1 << 20);
    struct contract_blocks blocks = contract_blocks(&choice, 1, m, n, k, 2);
    char *scratch = aligned_alloc(64, (size_t)blocks.bytes + 64);
    assert_true(o.y && scratch);
    struct contract_f32 product = {
        1, m, n, k, {fill_left, x_along_k}, {fill_right, w_along_k}, finish, &o, NULL, NULL, {0}, 0};
    run(&product, &choice, 2, scratch);
    for (int64_t i = 0; i < m * n; i++) {
        double want = 0, magnitude = 0;
        for (int64_t j = 0; j < k; j++) {
            double term =
                x[i / n * o.x_stride[1] + j * o.x_stride[2]] * w[i % n * o.w_stride[1] + j * o.w_stride[2]];
            want += term, magnitude += fabs(term);
        }
        double least = 1.4e-45 * (double)k; /* each sum in f32 may round to its denormal */
        if (!(fabs(o.y[i] - want) <= 1e-6 * magnitude + least))
            fail_msg("2^%d x 2^%d, sum %d of %dx%dx%d: %.9g, should be %.9g", from, to, (int)i, (int)m,
                     (int)n, (int)k, o.y[i], want);
    }
    free(scratch), free(o.y), free(x), free(w);
}

static void test_every_magnitude(void **state) {
    (void)state;
    for (int from = -133; from <= 100; from += 9)
        for (int to = -133; to <= 100; to += 31)
            if (from + to <= 100) check_range(from, to, from & 1, to & 1, 41, 67, 77);
    check_range(-130, 60, true, true, 1, 1, 1);
    check_range(60, -130, false, true, 5, 300, 2);
    check_range(-70, -60, true, false, 300, 5, 129);
}

static void test_zero_beside_denormal_and_infinity(void **state) {
    (void)state;
    double x[] = {0, 0x1p-130, INFINITY, 1}, w[] = {0x1p-130, 0, 0x1p-130, 0x1p-133}, y[2] = {0};
    struct arguments o = {{4, 2, 1}, {4, 2, 1}, {2, 2, 1}, x, w, y, true, true};
    double scratch[1 << 16] __attribute__((aligned(64)));
    struct contract_choice choice = choice_of(65536, 1 << 20);
    assert_true(contract_blocks(&choice, 1, 1, 2, 2, 1).bytes <= (int64_t)sizeof scratch);
    struct contract_f32 product = {1,    1,    2,   2, {fill_left, true}, {fill_right, true}, finish, &o,
                                   NULL, NULL, {0}, 0};
    run(&product, &choice, 1, (char *)scratch); /* x's first row: 0, 2^-130 */
    assert_true(y[0] == 0 && y[1] == 0);
    o.x = x + 2, y[0] = y[1] = 0; /* infinity, 1 */
    run(&product, &choice, 1, (char *)scratch);
    assert_true(y[0] == INFINITY && y[1] == INFINITY);
    x[2] = 0x1p127, y[0] = y[1] = 0; /* a denormal times a large number is no 0 */
    run(&product, &choice, 1, (char *)scratch);
    assert_true(y[0] == 0x1p-3 && y[1] == 0x1p-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_empty_sizes),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_deep_products_take_several_passes),
        cmocka_unit_test(test_few_rows_take_panels_side_by_side),
        cmocka_unit_test(test_few_rows_leave_the_other_operand_in_its_place),
        cmocka_unit_test(test_long_sums_of_few_are_in_parts),
        cmocka_unit_test(test_not_a_number_stays_in_its_row),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_every_magnitude),
        cmocka_unit_test(test_zero_beside_denormal_and_infinity),
    };
#ifdef PAIRS
#ifdef CONTRACT_PAIRS_UNIT
    const struct contract_f32 square = {.m = 32, .n = 32, .k = 32}, row = {.m = 1, .n = 32, .k = 32};
    if (contract_pairs_serve(&row)) return puts("one row is not worth packing pairs across"), 1;
    if (!contract_pairs_serve(&square)) return puts("skipped: the system grants no matrix unit"), 77;
#else
    return puts("skipped: this machine has no unit for pairs of bf16"), 77;
#endif
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
