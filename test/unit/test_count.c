/* Work: bytes and operations of small kernels, counted by hand. */
#include "ir/count.h"
#include "ir/extent.h"
#include "lang/program.h"
#include "support/lang_text.h"

static hr_work work_of(const char *text, const char *const *names, const int64_t *values, int count) {
    hr_program *program = program_of(text);
    const hr_function *f = &program->functions[0];
    int64_t extents[16];
    hr_work work;
    assert_int_equal(f->extent_count, count);
    for (int i = 0; i < count; i++)
        extents[extent_named(f, names[i])] = values[i];
    assert_int_equal(hr_work_count(f, extents, &work), HR_OK);
    hr_program_destroy(program);
    return work;
}

#define M 6
#define N 10
#define K 4

/* x, w, b over extents M, N, K in the order of a kernel that names them all */
static hr_work work_of_body(const char *body) {
    char text[1024];
    snprintf(text, sizeof text,
             "kernel k(x: bf16[M, N], w: f32[K, N], b: f32[N], t: i32[M], s: f32, p: inout f32[N], q: inout "
             "f64[K]) "
             "-> (y: bf16[M, N], r: f32[M, K], l: f32)\n{\n    %s\n    y[m, n] = 0\n    r[m, k] = 0\n    l = "
             "0\n}\n",
             body);
    hr_work work = work_of(text, (const char *const[]){"M", "N", "K"}, (const int64_t[]){M, N, K}, 3);
    work.bytes_written -= M * N * 2 + M * K * 4 + 4; /* the three zeros */
    return work;
}

static void test_reads(void **state) {
    (void)state;
    const struct {
        const char *body;
        double bytes;
    } cases[] = {
        {"a[m, n] = x[m, n]", M * N * 2},
        {"a[m, n] = x[m, n] + x[m, n]", M * N * 2},
        {"a[m, n] = x[m, n]\n    c[n, m] = x[m, n]",
         M * N * 2}, /* in another order: still each element once */
        {"a[m] = x[m, 0]", M * 2},
        {"a[m] = x[m, 0] + x[m, 1]", M * 2 * 2},
        {"a[m, n] = x[m, n] + x[m, 0]", M * N * 2}, /* never more than there are */
        {"a[m] = x[m, t[m]]", M * 2 + M * 4},
        {"a[m < M, n] = b[n] * s", N * 4 + 4},
        {"a[m] = sum[n](x[m, n] * b[n])", M * N * 2 + N * 4},
        {"a = 1\n    c = a + 1", 0},
        {"p[n] = b[n]", N * 4}, /* an inout that is only written is not read */
        {"p[n] = p[n] + b[n]", N * 4 * 2},
        {"q[k] += 1", K * 8},
        {"q[t[m] % K] += 1", M * 4 + K * 8}, /* six adds into four places */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double bytes = work_of_body(cases[i].body).bytes_read;
        if (bytes != cases[i].bytes)
            fail_msg("%s reads %g bytes, not %g", cases[i].body, bytes, cases[i].bytes);
    }
}

static void test_writes(void **state) {
    (void)state;
    assert_true(work_of_body("a[m, n] = x[m, n]").bytes_written == 0);
    assert_true(work_of_body("p[n] = b[n]").bytes_written == N * 4);
    assert_true(work_of_body("q[k] += 1").bytes_written == K * 8);
    assert_true(work_of_body("q[t[m] % K] += 1").bytes_written == K * 8);
    hr_work work = work_of("kernel k(x: f32[N]) -> (h: f32[V])\n{\n    h[i % V] += x[i]\n}\n",
                           (const char *const[]){"N", "V"}, (const int64_t[]){3, 100}, 2);
    assert_true(work.bytes_written == 400); /* a result is written whole: it starts at zero */
    assert_true(work.bytes_read == 12);
}

static void test_operations(void **state) {
    (void)state;
    const struct {
        const char *body;
        double vector, tensor, exp, log, root;
    } cases[] = {
        {"a[m, n] = x[m, n] + b[n]", M * N, 0, 0, 0, 0},
        {"a[m, n] = x[m, n] + b[n] * s", M * N + N, 0, 0, 0, 0}, /* b[n] * s does not depend on m */
        {"a[m] = sum[n](x[m, n])", M * N, 0, 0, 0, 0},
        {"a[m] = sum[n](x[m, n]) / N", M * N + M + 1, 0, 0, 0, M}, /* N becomes a float once */
        {"a[m] = sum[n](x[m, n]) / 3", M * N + M, 0, 0, 0, 0},
        {"a[m, n] = exp(x[m, n])", 0, 0, M * N, 0, 0},
        {"a[m, n] = softmax[n](x[m, n])", 3 * M * N, 0, M * N, 0, 0},
        {"a[m] = logsumexp[n](x[m, n])", 2 * M * N, 0, M * N, M, 0},
        {"a[m, n] = x[m, n]^2", M * N, 0, 0, 0, 0},
        {"a[m, n] = x[m, n]^7", 4 * M * N, 0, 0, 0, 0},
        {"a[m, n] = x[m, n]^-2", M * N, 0, 0, 0, M * N},
        {"a[m, n] = x[m, n]^s", M * N, 0, M * N, 0, 0},
        {"a[m, n] = sigmoid(x[m, n])", 2 * M * N, 0, M * N, 0, 0},
        {"a[m, k] = sum[n](x[m, n] * w[k, n])", 0, 2 * M * K * N, 0, 0, 0},
        {"a[m, k] = s * sum[n](x[m, n] * w[k, n])", M * K, 2 * M * K * N, 0, 0, 0},
        {"a[m, k] = sum[n](exp(x[m, n]) * w[k, n])", 0, 2 * M * K * N, M * N, 0, 0},
        {"a[m] = sum[n](x[m, n] * b[n])", 2 * M * N, 0, 0, 0,
         0}, /* b lacks no index of x: a product with a vector */
        {"a[m, k] = sum[n](x[m, n] + w[k, n])", 2 * M * K * N, 0, 0, 0, 0},
        {"q[k] += 1", K, 0, 0, 0, 0},
        {"a[m, n] = where(n < m, x[m, n], 0)", 2 * M * N, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_work w = work_of_body(cases[i].body);
        if (w.vector_flops != cases[i].vector || w.tensor_flops != cases[i].tensor ||
            w.special[HR_SPECIAL_EXP] != cases[i].exp || w.special[HR_SPECIAL_LOG] != cases[i].log ||
            w.special[HR_SPECIAL_ROOT] != cases[i].root)
            fail_msg("%s: vector %g, tensor %g, exp %g, log %g, root %g", cases[i].body, w.vector_flops,
                     w.tensor_flops, w.special[HR_SPECIAL_EXP], w.special[HR_SPECIAL_LOG],
                     w.special[HR_SPECIAL_ROOT]);
    }
}

/* Addresses are no work, wherever they come from. */
static void test_subscripts_are_free(void **state) {
    (void)state;
    hr_work w = work_of_body("a[m] = x[m, (t[m] * 3 + 1) % N]");
    assert_true(w.vector_flops == 0 && w.special[HR_SPECIAL_ROOT] == 0);
    assert_true(w.bytes_read == M * 4 + M * 2);
}

static void test_shared_argument_counts_once(void **state) {
    (void)state;
    hr_work w = work_of("def square(x) = x * x\nkernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = "
                        "square(square(exp(x[i])))\n}\n",
                        (const char *const[]){"N"}, (const int64_t[]){5}, 1);
    assert_true(w.vector_flops == 10 && w.special[HR_SPECIAL_EXP] == 5);
    assert_true(w.bytes_read == 20 && w.bytes_written == 20);
}

static void test_empty_extents(void **state) {
    (void)state;
    hr_work w = work_of("kernel k(x: f32[N]) -> (y: f32)\n{\n    y = sum[i](x[i])\n}\n",
                        (const char *const[]){"N"}, (const int64_t[]){0}, 1);
    assert_true(w.vector_flops == 0 && w.bytes_read == 0 && w.bytes_written == 4);
}

static void test_unknown_extent(void **state) {
    (void)state;
    hr_program *program = program_of("kernel k(x: f32[N]) -> (y: f32)\n{\n    y = sum[i](x[i])\n}\n");
    int64_t extent = HR_EXTENT_UNKNOWN;
    hr_work work = {.bytes_read = 7};
    assert_int_equal(hr_work_count(&program->functions[0], &extent, &work), HR_BAD_INPUT);
    assert_true(work.bytes_read == 7);
    hr_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads),
                                       cmocka_unit_test(test_writes),
                                       cmocka_unit_test(test_operations),
                                       cmocka_unit_test(test_subscripts_are_free),
                                       cmocka_unit_test(test_shared_argument_counts_once),
                                       cmocka_unit_test(test_empty_extents),
                                       cmocka_unit_test(test_unknown_extent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
