/* The interpreter against values worked out by hand: reducers and their edges, guards, gathers, scatters,
 * inout, rounding on the way, whole numbers, random, long and deeply shared chains, and what it costs at full
 * size. */
#include "base/dtype.h"
#include "base/text.h"
#include "reference/philox.h"
#include "support/fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void open_text(hr_fixture *f, const char *text) {
    if (hr_fixture_open(text, NULL, f) != HR_OK) fail_msg("%s", hr_last_error());
}

static void allocate(hr_fixture *f) {
    if (hr_fixture_allocate(f) != HR_OK) fail_msg("%s", hr_last_error());
}

static hr_meaning meaning(hr_fixture *f, const char *name, int64_t position) {
    hr_meaning m = {0};
    if (hr_fixture_value(f, name, position, &m) != HR_OK) fail_msg("%s", hr_last_error());
    return m;
}

static double value(hr_fixture *f, const char *name, int64_t position) {
    return meaning(f, name, position).value;
}

static void expect(hr_fixture *f, const char *name, int64_t position, double expected) {
    double got = value(f, name, position);
    if (got != expected && !(isnan(got) && isnan(expected)))
        fail_msg("%s[%lld] is %.17g, not %.17g", name, (long long)position, got, expected);
}

static void expect_near(hr_fixture *f, const char *name, int64_t position, double expected) {
    double got = value(f, name, position);
    if (!(fabs(got - expected) <= 1e-14 * (1 + fabs(expected))))
        fail_msg("%s[%lld] is %.17g, not %.17g", name, (long long)position, got, expected);
}

/* A kernel of x: f32[N] whose results are all asked. */
static void open_vector(hr_fixture *f, const char *text, int64_t n, const double *x) {
    open_text(f, text);
    hr_fixture_extent(f, "N", n);
    allocate(f);
    hr_fixture_set(f, "x", x);
}

static const char reducers[] =
    "kernel reducers(x: f32[N]) -> (s: f32, m: f32, hi: f32, lo: f32, ahi: i64, alo: i64, l: f32, p: "
    "f32[N])\n"
    "{\n s = sum[n](x[n])\n m = mean[n](x[n])\n hi = max[n](x[n])\n lo = min[n](x[n])\n"
    " ahi = argmax[n](x[n])\n alo = argmin[n](x[n])\n l = logsumexp[n](x[n])\n p[n] = softmax[n](x[n])\n}\n";

/* Nothing errs where f32 holds every value; a rounding is a few units of its value, through locals, too, and
 * what it is multiplied with multiplies it. */
static void test_errors_are_those_of_roundings(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(
        &f,
        "kernel k(x: f32[N]) -> (y: f32[N], z: f32[N], w: f32[N], i: i64[N])\n{\n"
        " t[n] = x[n] * x[n]\n y[n] = t[n] * 2 - x[n]\n z[n] = t[n] / 3\n w[n] = 1000 * (z[n] - t[n] * "
        "0.33333334)\n i[n] = n * 2 + 1\n}\n",
        3, (double[]){1, -2, 4});
    const double unit = 0x1p-24;
    assert_true(meaning(&f, "y", 1).error == 0);
    assert_true(meaning(&f, "i", 1).error == 0);
    const double third = meaning(&f, "z", 2).error / (16.0 / 3);
    assert_true(third > 2 * unit && third < 32 * unit);
    assert_true(meaning(&f, "w", 2).error > 1000 * meaning(&f, "z", 2).error);
    assert_true(meaning(&f, "w", 2).error < 4000 * meaning(&f, "z", 2).error);
    hr_fixture_close(&f);
}

/* Sums: where f32 holds every partial sum nothing is lost; addends that are alike err alike. */
static void test_errors_of_sums(void **state) {
    (void)state;
    enum { N = 4096 };
    hr_fixture f;
    static double one[N], tenth[N], mixed[N];
    for (int i = 0; i < N; i++) {
        one[i] = 1;
        tenth[i] = (double)0.1f;
        mixed[i] = (double)(float)sin(i * i);
    }
    const char *text = "kernel k(x: f32[N]) -> (s: f32)\n{\n s = sum[n](x[n])\n}\n";
    open_vector(&f, text, N, one);
    const double exact = meaning(&f, "s", 0).error;
    hr_fixture_close(&f);
    open_vector(&f, text, N, tenth);
    const double alike = meaning(&f, "s", 0).error;
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += 0.1f;
    const double lost = fabs((double)sum - N * (double)0.1f);
    assert_true(alike > lost && alike < 16 * lost);
    hr_fixture_close(&f);
    open_vector(&f, text, N, mixed);
    const double random = meaning(&f, "s", 0).error;
    hr_fixture_close(&f);
    assert_true(exact == 0);
    assert_true(random < 0x1p-10);
    open_vector(&f, "kernel k(x: f32[N]) -> (s: f32)\n{\n s = sum[n](x[n] / 3 * 3 - x[n])\n}\n", N, one);
    assert_true(meaning(&f, "s", 0).value == 0 && meaning(&f, "s", 0).error > 0); /* 0 that f32 may miss */
    hr_fixture_close(&f);
}

/* A condition that rounding may turn over makes both sides possible, and a position that of a rival. */
static void test_doubt(void **state) {
    (void)state;
    hr_fixture f;
    const double x[] = {1, 3, 5};
    open_vector(
        &f,
        "kernel k(x: f32[N]) -> (y: f32[N], p: i64, b: bool[N])\n{\n t[n] = x[n] / 3\n"
        " y[n] = where(t[n] * 3 > x[n] - 1 + 1, 10.0, 20.0)\n p = argmax[n](0 * x[n] + 1 / 3 + x[0] / 3)\n"
        " b[n] = t[n] > 0.5\n}\n",
        3, x);
    assert_true(meaning(&f, "y", 0).error >= 10 && meaning(&f, "y", 0).error < 11);
    assert_true(isinf(meaning(&f, "p", 0).error));
    for (int i = 0; i < 3; i++)
        assert_true(meaning(&f, "b", i).error == 0);
    hr_fixture_close(&f);
}

/* Of positions in doubt only those are right whose elements the errors let stand for the largest. */
static void test_rivals(void **state) {
    (void)state;
    hr_fixture f;
    bool stands;
    open_vector(&f,
                "kernel k(x: f32[N]) -> (y: i64, p: i64, e: i64)\n{\n y = argmax[n](x[n] / 3)\n"
                " p = argmin[n](-x[n] / 3)\n e = argmax[n](x[n])\n}\n",
                4, (double[]){1, 3, 2.9999998, 3});
    for (int result = 1; result < 3; result++) {
        const char *name = result == 1 ? "y" : "p";
        assert_true(meaning(&f, name, 0).value == 1 && meaning(&f, name, 0).rivals);
        for (int64_t at = -1; at <= 4; at++) {
            assert_int_equal(hr_reference_rivals(f.reference, result, NULL, at, &stands), HR_OK);
            assert_int_equal(stands, at >= 1 && at <= 3);
        }
    }
    assert_true(meaning(&f, "e", 0).error == 0 && !meaning(&f, "e", 0).rivals);
    hr_fixture_close(&f);
}

/* f32 overflows where f64 does not: honest arithmetic may give anything from there on. */
static void test_overflow_is_unbounded(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(&f,
                "kernel k(x: f32[N]) -> (y: f32[N], z: f32[N])\n{\n t[n] = x[n] * x[n]\n y[n] = sqrt(t[n])\n"
                " z[n] = x[n] - 1 / (x[n] - x[n])\n}\n",
                2, (double[]){3e38, 2});
    assert_true(isinf(meaning(&f, "y", 0).error));
    assert_true(meaning(&f, "y", 1).error < 1e-5);
    assert_true(meaning(&f, "z", 1).error == 0 && meaning(&f, "z", 1).value == -INFINITY);
    hr_fixture_close(&f);
}

static void test_reducers(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(&f, reducers, 5, (double[]){1, -2, 4, 4, -2});
    expect(&f, "s", 0, 5);
    expect(&f, "m", 0, 1);
    expect(&f, "hi", 0, 4);
    expect(&f, "lo", 0, -2);
    expect(&f, "ahi", 0, 2);
    expect(&f, "alo", 0, 1);
    double sum = exp(1) + 2 * exp(-2) + 2 * exp(4);
    expect_near(&f, "l", 0, log(sum));
    for (int i = 0; i < 5; ++i)
        expect_near(&f, "p", i, exp((double[]){1, -2, 4, 4, -2}[i]) / sum);
    assert_true(meaning(&f, "s", 0).error < 13 * 4 * 0x1p-24);
    hr_fixture_close(&f);
}

static void test_reducers_of_nothing(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(&f, reducers, 0, NULL);
    expect(&f, "s", 0, 0);
    expect(&f, "m", 0, NAN);
    expect(&f, "hi", 0, -INFINITY);
    expect(&f, "lo", 0, INFINITY);
    expect(&f, "ahi", 0, 0);
    expect(&f, "l", 0, -INFINITY);
    hr_fixture_close(&f);
}

static void test_reducers_with_nan(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(&f, reducers, 5, (double[]){1, NAN, 9, NAN, -INFINITY});
    static const char *const names[] = {"s", "m", "hi", "lo", "l"};
    for (int i = 0; i < 5; ++i)
        expect(&f, names[i], 0, NAN);
    expect(&f, "p", 2, NAN);
    expect(&f, "ahi", 0, 1);
    expect(&f, "alo", 0, 1);
    hr_fixture_close(&f);
}

static void test_reducers_with_infinities(void **state) {
    (void)state;
    hr_fixture f;
    open_vector(&f, reducers, 3, (double[]){-INFINITY, -INFINITY, -INFINITY});
    expect(&f, "l", 0, -INFINITY);
    expect(&f, "ahi", 0, 0);
    expect(&f, "hi", 0, -INFINITY);
    expect(&f, "p", 1, NAN);
    hr_fixture_close(&f);
    open_vector(&f, reducers, 3, (double[]){0, -INFINITY, 1000});
    expect(&f, "l", 0, 1000);
    expect(&f, "p", 0, 0);
    expect(&f, "p", 1, 0);
    expect(&f, "p", 2, 1);
    assert_true(isfinite(meaning(&f, "p", 1).error));
    hr_fixture_close(&f);
    open_vector(&f, reducers, 2, (double[]){0, INFINITY});
    expect(&f, "l", 0, INFINITY);
    expect(&f, "s", 0, INFINITY);
    expect(&f, "p", 0, NAN); /* exp(inf - inf) is in the sum that both are divided by */
    expect(&f, "p", 1, NAN);
    hr_fixture_close(&f);
}

/* Rows longer than a strip, crossed rows, and what cancels in a sum. */
static void test_long_and_crossed_reductions(void **state) {
    (void)state;
    hr_fixture f;
    open_text(&f, "kernel k(x: f64[M, N, L]) -> (s: f64, w: i64, a: i64)\n"
                  "{\n s = sum[m, n, l](x[m, n, l])\n w = sum[m < M, n < N, l < L](m * 10000 + n * 100 + l)\n"
                  " a = argmax[m, n, l](x[m, n, l])\n}\n");
    hr_fixture_extent(&f, "M", 7);
    hr_fixture_extent(&f, "N", 67);
    hr_fixture_extent(&f, "L", 3);
    allocate(&f);
    static double x[7 * 67 * 3];
    double whole = 0;
    for (int i = 0; i < 7 * 67 * 3; ++i) {
        x[i] = i == 3 ? 1e17 : i == 1000 ? -1e17 : 1;
        whole += i / 201 * 10000 + i / 3 % 67 * 100 + i % 3;
    }
    hr_fixture_set(&f, "x", x);
    expect(&f, "s", 0, 7 * 67 * 3 - 2);
    expect(&f, "w", 0, whole);
    expect(&f, "a", 0, 3);
    hr_fixture_close(&f);
}

/* More points than are chained: what is expected is found in one walk, what is not in another. */
static void test_scattered_over_many_points(void **state) {
    (void)state;
    enum { N = (1 << 19) + 1000, V = 7 };
    hr_fixture f;
    double *at = malloc(N * sizeof *at), counts[V] = {0}, sums[V] = {0};
    assert_non_null(at);
    open_text(&f, "kernel k(at: i32[N]) -> (h: f32[V], s: f64[V], y: f32[V])\n{\n h[at[n]] += 1\n"
                  " s[at[n]] += n * 0.5\n y[v] = h[V - 1 - v] / 2\n}\n");
    hr_fixture_extent(&f, "N", N);
    hr_fixture_extent(&f, "V", V);
    allocate(&f);
    for (int n = 0; n < N; ++n) {
        const int v = (int)((unsigned)n * 2654435761u >> 16) % V;
        at[n] = v;
        counts[v] += 1;
        sums[v] += n * 0.5;
    }
    hr_fixture_set(&f, "at", at);
    for (int v = 0; v < V; ++v) {
        expect(&f, "y", v, counts[V - 1 - v] / 2);
        expect(&f, "h", v, counts[v]);
        expect(&f, "s", v, sums[v]);
    }
    free(at);
    hr_fixture_close(&f);
}

static void test_where_reads_one_side(void **state) {
    (void)state;
    hr_fixture f;
    const double x[] = {5, 6, 7};
    open_vector(&f,
                "kernel k(x: f32[N]) -> (y: f32[N], z: f32)\n"
                "{\n y[n] = where(n > 0, x[n - 1], 0) + where(n + 1 < N, x[n + 1], 0)\n"
                " z = sum[n](where(n > 0, x[n] - x[n - 1], 100))\n}\n",
                3, x);
    expect(&f, "y", 0, 6);
    expect(&f, "y", 1, 12);
    expect(&f, "y", 2, 6);
    expect(&f, "z", 0, 102);
    hr_fixture_close(&f);
}

static void test_gather_out_of_range(void **state) {
    (void)state;
    hr_fixture f;
    hr_meaning m;
    open_text(&f, "kernel k(token: i32[T], table: f32[V, C]) -> (y: f32[T, C], safe: f32[T, C])\n"
                  "{\n y[t, c] = table[token[t], c]\n"
                  " safe[t, c] = where(token[t] >= 0 and token[t] < V, table[token[t], c], -1)\n}\n");
    hr_fixture_extent(&f, "T", 3);
    hr_fixture_extent(&f, "V", 4);
    hr_fixture_extent(&f, "C", 2);
    allocate(&f);
    hr_fixture_set(&f, "token", (double[]){3, 4, -1});
    hr_fixture_set(&f, "table", (double[]){0, 1, 10, 11, 20, 21, 30, 31});
    expect(&f, "y", 1, 31);
    assert_int_equal(hr_fixture_value(&f, "y", 2, &m), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "test.hr:3: subscript 1 of table is 4, but that axis has 4"));
    assert_int_equal(hr_fixture_value(&f, "y", 5, &m), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "is -1"));
    expect(&f, "safe", 0, 30);
    expect(&f, "safe", 2, -1);
    expect(&f, "safe", 5, -1);
    hr_fixture_close(&f);
}

static void test_gather_of_a_local_inside_a_reduction(void **state) {
    (void)state;
    hr_fixture f;
    open_text(&f, "kernel k(x: f32[N], at: i32[M]) -> (y: f32, z: f32)\n"
                  "{\n t[n] = 2 * x[n]\n r[n] = sum[m](x[n] * at[m])\n"
                  " y = sum[m](t[at[m]])\n z = sum[m](where(at[m] < N, r[at[m]], 1000))\n}\n");
    hr_fixture_extent(&f, "N", 3);
    hr_fixture_extent(&f, "M", 4);
    allocate(&f);
    hr_fixture_set(&f, "x", (double[]){1, 2, 3});
    hr_fixture_set(&f, "at", (double[]){2, 0, 0, 1});
    expect(&f, "y", 0, 14);
    expect(&f, "z", 0, 21);
    hr_fixture_close(&f);
    open_text(
        &f, "kernel k(x: f32[N], at: i32[M]) -> (y: f32, z: f32)\n"
            "{\n t[n] = 2 * x[n]\n y = sum[m](t[at[m]])\n z = sum[m](where(at[m] < N, t[at[m]], 1000))\n}\n");
    hr_fixture_extent(&f, "N", 3);
    hr_fixture_extent(&f, "M", 4);
    allocate(&f);
    hr_fixture_set(&f, "x", (double[]){1, 2, 3});
    hr_fixture_set(&f, "at", (double[]){2, 3, 0, 1});
    hr_meaning m;
    assert_int_equal(hr_fixture_value(&f, "y", 0, &m), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "subscript 1 of t is 3"));
    expect(&f, "z", 0, 1012);
    hr_fixture_close(&f);
}

static void test_scatter(void **state) {
    (void)state;
    hr_fixture f;
    open_text(
        &f,
        "kernel k(token: i32[T], dy: f32[T, C], table: inout f32[V, C]) -> (hits: i32[V], after: f32[V])\n"
        "{\n table[token[t], c] += dy[t, c]\n hits[token[t]] += 1\n"
        " after[v] = sum[c](table[v, c])\n}\n");
    hr_fixture_extent(&f, "T", 5);
    hr_fixture_extent(&f, "V", 3);
    hr_fixture_extent(&f, "C", 2);
    allocate(&f);
    hr_fixture_set(&f, "token", (double[]){2, 0, 2, 2, 0});
    hr_fixture_set(&f, "dy", (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    hr_fixture_set(&f, "table", (double[]){100, 200, 300, 400, 500, 600});
    expect(&f, "table", 0, 112);
    expect(&f, "table", 1, 214);
    expect(&f, "table", 2, 300);
    expect(&f, "table", 4, 513);
    expect(&f, "table", 5, 616);
    expect(&f, "hits", 0, 2);
    expect(&f, "hits", 1, 0);
    expect(&f, "hits", 2, 3);
    expect(&f, "after", 2, 1129);
    hr_fixture_close(&f);
}

static void test_scatter_of_two_indices_into_one_axis(void **state) {
    (void)state;
    hr_fixture f;
    open_text(&f, "kernel k(x: f32[M], w: f32[K]) -> (y: f32[M + K])\n{\n y[m + k] += x[m] * w[k]\n}\n");
    hr_fixture_extent(&f, "M", 3);
    hr_fixture_extent(&f, "K", 2);
    allocate(&f);
    hr_fixture_set(&f, "x", (double[]){1, 2, 3});
    hr_fixture_set(&f, "w", (double[]){10, 1});
    static const double full[] = {10, 21, 32, 3, 0};
    for (int i = 0; i < 5; ++i)
        expect(&f, "y", i, full[i]);
    hr_fixture_close(&f);
}

static void test_scatter_out_of_range(void **state) {
    (void)state;
    hr_fixture f;
    hr_meaning m;
    open_text(&f, "kernel k(at: i32[T]) -> (y: f32[V])\n{\n y[at[t]] += 1\n}\n");
    hr_fixture_extent(&f, "T", 2);
    hr_fixture_extent(&f, "V", 2);
    allocate(&f);
    hr_fixture_set(&f, "at", (double[]){0, 2});
    assert_int_equal(hr_fixture_value(&f, "y", 0, &m), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "test.hr:3: subscript 1 of y is 2, but that axis has 2"));
    hr_fixture_close(&f);
}

static void test_inout_is_old_before_and_new_after(void **state) {
    (void)state;
    hr_fixture f;
    open_text(
        &f, "kernel k(a: inout f32[N], b: inout bf16[N]) -> (before: f32[N], after: f32[N])\n"
            "{\n before[n] = a[n] + b[n]\n a[n] = a[n] + 1\n b[n] = b[n] + 1\n after[n] = a[n] + b[n]\n}\n");
    hr_fixture_extent(&f, "N", 1);
    allocate(&f);
    hr_fixture_set(&f, "a", (double[]){5});
    hr_fixture_set(&f, "b", (double[]){256});
    expect(&f, "before", 0, 261);
    expect(&f, "a", 0, 6);
    expect(&f, "b", 0, 257);
    expect(&f, "after", 0, 262); /* 257 is no bf16: the tie rounds to 256 when it is stored */
    hr_fixture_close(&f);
}

static void test_rounding_on_the_way(void **state) {
    (void)state;
    hr_fixture f;
    const double x[] = {1.00390625, 300.7};
    open_vector(&f,
                "kernel k(x: f32[N]) -> (y: bf16[N], z: f32[N], c: f32[N], l: f32[N], i: f32[N])\n"
                "{\n y[n] = x[n]\n z[n] = y[n]\n c[n] = f8e4m3(x[n])\n t[n] = x[n]\n l[n] = t[n]\n"
                " i[n] = i8(x[n])\n}\n",
                2, x);
    expect(&f, "y", 0, 1.00390625); /* before the store's rounding */
    expect(&f, "z", 0, 1);          /* read back from the result, rounded */
    expect(&f, "l", 0, 1.00390625); /* a local has no dtype */
    expect(&f, "c", 1, 288 + 0);
    expect(&f, "i", 1, 127);
    assert_true(meaning(&f, "z", 0).error == 0); /* on the tie, but no error on the way to it */
    assert_true(meaning(&f, "l", 0).error == 0);
    hr_fixture_close(&f);
}

/* What an error of the argument could make jump is judged by the jump; what it could not, by itself alone. */
static void test_jumps(void **state) {
    (void)state;
    hr_fixture f;
    const double x[] = {127, 64, 62.6, 254};
    open_vector(&f,
                "kernel k(x: f32[N]) -> (r: f32[N], f: f32[N], q: f32[N], m: f32[N])\n"
                "{\n s = max[n](x[n]) / 127\n t[n] = x[n] / s\n r[n] = round(t[n])\n f[n] = floor(t[n])\n"
                " q[n] = t[n] // 1.0\n m[n] = t[n] % 1.0\n}\n",
                4, x);
    static const double rounded[] = {64, 32, 31, 127}, down[] = {63, 32, 31, 127};
    for (int i = 0; i < 4; ++i) {
        expect(&f, "r", i, rounded[i]);
        expect(&f, "f", i, down[i]);
        assert_true((meaning(&f, "r", i).error > 0.5) == (i == 0)); /* 63.5 */
        assert_true((meaning(&f, "f", i).error > 0.5) == (i == 1 || i == 3));
        assert_true((meaning(&f, "q", i).error > 0.5) == (i == 1 || i == 3));
        assert_true((meaning(&f, "m", i).error > 0.5) == (i == 1 || i == 3));
    }
    hr_fixture_close(&f);
}

static void test_whole_numbers(void **state) {
    (void)state;
    hr_fixture f;
    open_text(
        &f,
        "kernel k(a: i64[N], b: i64[N]) -> (q: i64[N], r: i64[N], p: i64[N], s: i64, f: f64[N], h: f32[N])\n"
        "{\n q[n] = a[n] // b[n]\n r[n] = a[n] % b[n]\n p[n] = a[n]^3\n s = sum[n](a[n])\n"
        " f[n] = a[n] / b[n]\n h[n] = (a[n] * 0.5) // 1.0 + (a[n] * 1.0) % 3.0\n}\n");
    hr_fixture_extent(&f, "N", 5);
    allocate(&f);
    hr_fixture_set(&f, "a", (double[]){7, -7, 7, -7, 0x1p62});
    hr_fixture_set(&f, "b", (double[]){2, 2, -2, 0, 1});
    static const double quotients[] = {3, -4, -4, 0, 0x1p62}, rests[] = {1, 1, -1, 0, 0};
    for (int i = 0; i < 5; ++i) {
        expect(&f, "q", i, quotients[i]);
        expect(&f, "r", i, rests[i]);
    }
    expect(&f, "p", 1, -343);
    expect(&f, "s", 0, 0x1p62);
    expect(&f, "f", 0, 3.5);
    expect(&f, "f", 3, -INFINITY);
    expect(&f, "h", 0, 4);
    expect(&f, "h", 1, -4 + 2);
    hr_fixture_close(&f);
}

static void test_functions(void **state) {
    (void)state;
    hr_fixture f;
    const double x[] = {-1.5, 0.5, 2.5, NAN, INFINITY};
    open_vector(
        &f,
        "def twice(x) = x + x\n"
        "kernel k(x: f64[N]) -> (a: f64[N], b: f64[N], c: f64[N], d: f64[N], e: f64[N], g: f64[N], h: "
        "f64[N])\n"
        "{\n a[n] = gelu(x[n])\n b[n] = gelu_tanh(x[n])\n c[n] = silu(x[n])\n d[n] = round(x[n])\n"
        " e[n] = clamp(x[n], -1, 2)\n g[n] = twice(relu(x[n])) + max(x[n], 0)\n h[n] = rsqrt(abs(x[n]))\n}\n",
        5, x);
    expect_near(&f, "a", 0, -1.5 * 0.5 * (1 + erf(-1.5 / sqrt(2))));
    expect_near(&f, "b", 1, 0.25 * (1 + tanh(sqrt(2 / M_PI) * (0.5 + 0.044715 * 0.125))));
    expect_near(&f, "c", 2, 2.5 / (1 + exp(-2.5)));
    expect(&f, "d", 0, -2);
    expect(&f, "d", 1, 0);
    expect(&f, "d", 2, 2);
    expect(&f, "e", 0, -1);
    expect(&f, "e", 1, 0.5);
    expect(&f, "e", 2, 2);
    expect(&f, "e", 3, NAN);
    expect(&f, "g", 0, 0);
    expect(&f, "g", 2, 7.5);
    expect(&f, "g", 3, NAN);
    expect_near(&f, "h", 0, 1 / sqrt(1.5));
    expect(&f, "h", 4, 0);
    hr_fixture_close(&f);
}

static void test_philox(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        uint32_t out[4];
        hr_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
    hr_fixture f;
    open_text(&f, "kernel k(seed: i64) -> (y: f32[N])\n{\n y[i] = random(seed, i)\n}\n");
    hr_fixture_extent(&f, "N", 8);
    allocate(&f);
    hr_fixture_set_scalar(&f, "seed", 0);
    expect(&f, "y", 0, (double)0x6627e8 * 0x1p-24);
    expect(&f, "y", 3, (double)0x9b00db * 0x1p-24);
    uint32_t next[4];
    hr_philox((uint32_t[]){1, 0, 0, 0}, (uint32_t[]){0, 0}, next);
    expect(&f, "y", 6, (double)(next[2] >> 8) * 0x1p-24);
    hr_fixture_close(&f);
    assert_true(hr_philox_uniform(-1, (int64_t)1 << 40) < 1);
    hr_philox((uint32_t[]){0, 1u << 6, 0, 0}, (uint32_t[]){~0u, ~0u}, next);
    assert_true(hr_philox_uniform(-1, (int64_t)1 << 40) == (double)(next[0] >> 8) * 0x1p-24);
}

/* Each statement reads the one before it twice: exponential without memory, and too deep for the C stack. */
static void test_long_chains(void **state) {
    (void)state;
    enum { LENGTH = 5000 };
    hr_text text = {0};
    hr_text_format(&text, "kernel k(x: f64[N]) -> (y: f64[N], z: f64)\n{\n t0[n] = x[n]\n");
    for (int i = 1; i < LENGTH; ++i)
        hr_text_format(&text, " t%d[n] = (t%d[n] + t%d[n]) * 0.5\n", i, i - 1, i - 1);
    hr_text_format(&text, " y[n] = t%d[n]\n z = sum[n < N](t%d[N - 1 - n])\n}\n", LENGTH - 1, LENGTH - 1);
    hr_fixture f;
    open_vector(&f, hr_text_data(&text), 3, (double[]){1, 2, 4});
    expect(&f, "y", 2, 4);
    expect(&f, "z", 0, 7);
    hr_fixture_close(&f);
    hr_text_clear(&text);
}

/* The same with a reduction at every step, and with one softmax inside the other: each is one row's work,
 * once. */
static void test_deep_reductions(void **state) {
    (void)state;
    hr_text text = {0};
    hr_text_format(&text, "kernel k(x: f64[N]) -> (y: f64[N], p: f64[N])\n{\n t0[n] = x[n]\n");
    for (int i = 1; i < 1000; ++i)
        hr_text_format(&text, " t%d[n] = t%d[n] + t%d[n] - mean[k < N](t%d[k])\n", i, i - 1,
                       i % 2 ? i - 1 : 0, i - 1);
    hr_text_format(&text, " y[n] = t999[n]\n p[n] = ");
    for (int i = 0; i < 100; ++i)
        hr_text_format(&text, "softmax[n](");
    hr_text_format(&text, "x[n]");
    for (int i = 0; i < 100; ++i)
        hr_text_format(&text, ")");
    hr_text_format(&text, "\n}\n");
    hr_fixture f;
    open_vector(&f, hr_text_data(&text), 3, (double[]){1, 2, 4});
    double t[3] = {1, 2, 4}, mean, sum, p[3] = {1, 2, 4};
    for (int i = 1; i < 1000; ++i) {
        mean = (t[0] + t[1] + t[2]) / 3;
        for (int n = 0; n < 3; ++n)
            t[n] += (i % 2 ? t[n] : (double[]){1, 2, 4}[n]) - mean;
    }
    for (int i = 0; i < 100; ++i) {
        sum = exp(p[0]) + exp(p[1]) + exp(p[2]);
        for (int n = 0; n < 3; ++n)
            p[n] = exp(p[n]) / sum;
    }
    for (int n = 0; n < 3; ++n) {
        double got = value(&f, "y", n);
        assert_true(fabs(got - t[n]) <= 1e-9 * fabs(t[n]));
        expect_near(&f, "p", n, p[n]);
    }
    hr_fixture_close(&f);
    hr_text_clear(&text);
}

/* Addends that are 0 times what is not finite change nothing in a sum that leaves them out, also where they
 * were rounded and multiplied on their way; what is no number by itself does. */
static void test_sums_that_leave_out(void **state) {
    (void)state;
    static const struct {
        const char *addend;
        double all, rest;
    } sums[] = {{"where(n < 2, 1, 0) * x[n]", NAN, 3},
                {"3 * bf16(where(n < 2, 1, 0) * x[n])", NAN, 9},
                {"f16(where(n < 2, 1, 0) * (x[n] - 1)) * x[n]", NAN, 2},
                {"x[n] + 1", NAN, NAN}};
    for (size_t i = 0; i < 2 * sizeof sums / sizeof *sums; i++) {
        char text[200];
        hr_fixture f;
        snprintf(text, sizeof text,
                 "kernel k(x: f32[N]) -> (s: f32, one: f32)\n{\n s = sum[n](%s)\n one = x[0]\n}\n",
                 sums[i / 2].addend);
        open_vector(&f, text, 4, (double[]){1, 2, NAN, INFINITY});
        expect(&f, "one", 0, 1);
        const hr_sum_order order = {
            .place = f.function->statements[0].value->place, .chains = 1, .growth = 1, .leaves_out = i % 2};
        hr_reference_orders(f.reference, &order, 1);
        expect(&f, "s", 0, i % 2 ? sums[i / 2].rest : sums[i / 2].all);
        hr_fixture_close(&f);
    }
}

static void test_unbound_and_mismatched_arrays(void **state) {
    (void)state;
    hr_fixture f;
    hr_reference *reference = NULL;
    open_text(&f, "kernel k(x: f32[N]) -> (y: f32[N])\n{\n y[n] = x[n]\n}\n");
    hr_fixture_extent(&f, "N", 3);
    int64_t shape = 4, stride = 1;
    float data[4] = {0};
    hr_operand operand = {.data = data, .shape = &shape, .strides = &stride};
    assert_int_equal(hr_reference_create(f.function, f.extents, &operand, &reference), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "axis 1 of x has 4 elements, but the kernel's extents say 3");
    operand = (hr_operand){0};
    assert_int_equal(hr_reference_create(f.function, f.extents, &operand, &reference), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "x is not bound to an array");
    assert_null(reference);
    hr_reference_destroy(reference);
    hr_fixture_close(&f);
}

static void test_strides_and_empty_arrays(void **state) {
    (void)state;
    hr_fixture f;
    open_text(&f, "kernel k(x: f32[M, N]) -> (y: f32[M])\n{\n y[m] = sum[n](x[m, n])\n}\n");
    hr_fixture_extent(&f, "M", 2);
    hr_fixture_extent(&f, "N", 3);
    allocate(&f);
    hr_fixture_set(&f, "x", (double[]){1, 2, 3, 4, 5, 6});
    f.strides[0][0] = 1; /* transposed: x[m, n] lies at m + 2 n */
    f.strides[0][1] = 2;
    expect(&f, "y", 0, 1 + 3 + 5);
    expect(&f, "y", 1, 2 + 4 + 6);
    hr_meaning m;
    assert_int_equal(hr_reference_value(f.reference, hr_fixture_tensor(&f, "y"), (int64_t[]){2}, &m),
                     HR_BAD_INPUT);
    hr_fixture_close(&f);
}

/* Samples of a matrix product cost their own sums and no more: 500 of 2048 terms each. Were all elements
 * computed for each, this would not end. */
static void test_samples_are_cheap(void **state) {
    (void)state;
    enum { SIZE = 2048 };
    hr_fixture f;
    open_text(&f, "kernel k(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N])\n{\n c[m, n] = sum[k](a[m, k] * "
                  "b[k, n])\n}\n");
    hr_fixture_extent(&f, "M", 3);
    hr_fixture_extent(&f, "K", SIZE);
    hr_fixture_extent(&f, "N", SIZE);
    allocate(&f);
    static double a[3 * SIZE];
    for (int i = 0; i < 3 * SIZE; ++i)
        a[i] = i % 7 - 3;
    hr_fixture_set(&f, "a", a);
    double *b = calloc((size_t)SIZE * SIZE, sizeof *b);
    for (int i = 0; i < SIZE * SIZE; ++i)
        b[i] = (i / SIZE + i % SIZE) % 5 - 2;
    hr_fixture_set(&f, "b", b);
    for (int sample = 0; sample < 500; ++sample) {
        int n = sample * 37 % SIZE, m = sample % 3;
        double sum = 0;
        for (int k = 0; k < SIZE; ++k)
            sum += a[m * SIZE + k] * b[k * SIZE + n];
        expect(&f, "c", (int64_t)m * SIZE + n, sum);
    }
    free(b);
    hr_fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_those_of_roundings),
        cmocka_unit_test(test_errors_of_sums),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_rivals),
        cmocka_unit_test(test_overflow_is_unbounded),
        cmocka_unit_test(test_reducers),
        cmocka_unit_test(test_reducers_of_nothing),
        cmocka_unit_test(test_reducers_with_nan),
        cmocka_unit_test(test_reducers_with_infinities),
        cmocka_unit_test(test_long_and_crossed_reductions),
        cmocka_unit_test(test_scattered_over_many_points),
        cmocka_unit_test(test_where_reads_one_side),
        cmocka_unit_test(test_gather_out_of_range),
        cmocka_unit_test(test_gather_of_a_local_inside_a_reduction),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scatter_of_two_indices_into_one_axis),
        cmocka_unit_test(test_scatter_out_of_range),
        cmocka_unit_test(test_inout_is_old_before_and_new_after),
        cmocka_unit_test(test_rounding_on_the_way),
        cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_deep_reductions),
        cmocka_unit_test(test_sums_that_leave_out),
        cmocka_unit_test(test_unbound_and_mismatched_arrays),
        cmocka_unit_test(test_strides_and_empty_arrays),
        cmocka_unit_test(test_samples_are_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
