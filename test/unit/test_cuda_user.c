/* Kernels of the kinds that users write, not of the library: their plan for a GPU, and what the emitted code
 * does on the emulated device, at odd, small and empty extents, in arrays that begin anywhere or have gaps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 4, SIZES_MAX = 4 };

static const struct user_case {
    const char *text;
    int64_t large[EXTENTS_MAX]; /* where the plan is looked at */
    const char *plan;
    const char *emitted;                   /* is in its text; NULL: anything */
    int64_t small[SIZES_MAX][EXTENTS_MAX]; /* and where it is run; the first extent negative: no more */
} cases[] = {
    /* ---- few terms beside each other are part of a map ---- */
    {"kernel convolve(x: bf16[B, T, C], w: bf16[C, 4], bias: bf16[C]) -> (y: bf16[B, T, C]) {\n"
     "    y[b, t, c] = silu(bias[c] + sum[k < 4](where(t >= k, x[b, t - k, c] * w[c, k], 0))) }",
     {8, 4096, 2048},
     "1 stage: map",
     "group<uint16_t, 32> run",
     {{2, 9, 33}, {1, 1, 1}, {3, 5, 16}, {2, 0, 5}}},
    {"kernel convolve_time(x: f32[B, C, T], w: f32[C, 3]) -> (y: f32[B, C, T]) {\n"
     "    y[b, c, t] = sum[k < 3](where(t >= k, x[b, c, t - k] * w[c, k], 0)) }",
     {8, 2048, 4096},
     "1 stage: map",
     NULL,
     {{2, 3, 33}, {1, 1, 1}, {2, 5, 64}, {0, 3, 7}}},
    {"kernel pool(x: bf16[C, 2 * H, 2 * W]) -> (y: bf16[C, H, W]) {\n"
     "    y[c, h, w] = mean[i < 2, j < 2](x[c, 2 * h + i, 2 * w + j]) }",
     {16384, 32, 32},
     "1 stage: map",
     "group<uint16_t, 16> run",
     {{3, 5, 7}, {1, 1, 1}, {2, 4, 16}, {3, 0, 8}}},
    {"kernel ends(x: bf16[C, 2 * H, 2 * W], l: f32[C, H, W]) -> (y: bf16[C, H, W]) {\n"
     "    y[c, h, w] = max[i < 2, j < 2](x[c, 2 * h + i, 2 * w + j]) + l[c, h, w] *\n"
     "                 min[i < 2](x[c, 2 * h + i, 2 * w]) }",
     {16384, 28, 28},
     "1 stage: map",
     NULL,
     {{3, 5, 7}, {1, 1, 1}, {2, 4, 16}, {3, 0, 2}}},
    /* whole numbers add up as i64 */
    {"kernel votes(x: u8[M, 3, N]) -> (y: i32[M, N]) { y[m, n] = sum[k](x[m, k, n]) }",
     {4096, 4096},
     "1 stage: map",
     NULL,
     {{3, 33}, {1, 1}, {2, 64}, {-1}}},
    /* used again, it is a row */
    {"kernel shares(x: f32[M, 8]) -> (y: f32[M, 8]) { y[m, n] = softmax[n](x[m, n]) }",
     {1 << 20},
     "1 stage: row",
     NULL,
     {{33}, {1}, {0}, {-1}}},
    /* ---- what is read beside the element in hand is computed there ---- */
    {"kernel turn(x: bf16[T, H, 2, D], w: bf16[2, D], co: f32[T, D], si: f32[T, D]) -> (y: bf16[T, H, 2, D]) "
     "{\n"
     "    r[t, h] = rsqrt(sum[p, d](x[t, h, p, d]^2) / (2 * D) + 1e-6)\n"
     "    u[t, h, p, d] = x[t, h, p, d] * r[t, h] * w[p, d]\n"
     "    y[t, h, p, d] = u[t, h, p, d] * co[t, d] + (2 * p - 1) * u[t, h, 1 - p, d] * si[t, d] }",
     {32768, 32, 64},
     "1 stage: row",
     NULL,
     {{3, 2, 7}, {1, 1, 1}, {2, 3, 64}, {2, 0, 8}}},
    {"kernel slope(x: f32[M, N], b: f32[N]) -> (y: f32[M, N]) {\n"
     "    u[m, n] = x[m, n] + b[n]\n"
     "    y[m, n] = where(n > 0, u[m, n] - u[m, n - 1], u[m, 0]) }",
     {4096, 4096},
     "1 stage: map",
     NULL,
     {{3, 33}, {1, 1}, {2, 64}, {0, 3}}},
    /* but not what is dear, or where data say */
    {"kernel dear(x: f32[M, N]) -> (y: f32[M, N]) {\n"
     "    u[m, n] = exp(x[m, n])\n"
     "    y[m, n] = where(n > 0, u[m, n] - u[m, n - 1], 0) }",
     {4096, 4096},
     "2 stages: map, map",
     NULL,
     {{3, 33}, {1, 1}, {-1}}},
    {"kernel found(x: f32[V, C], at: i32[T]) -> (y: f32[T, C]) {\n"
     "    u[v, c] = 2 * x[v, c]\n"
     "    y[t, c] = u[at[t], c] }",
     {4096, 1024, 4096},
     "2 stages: map, map",
     NULL,
     {{5, 33, 7}, {1, 1, 1}, {-1}}},
    /* ---- sums into few places are a block's own first ---- */
    {"kernel count(at: i32[T]) -> (n: i32[E]) { n[at[t]] += 1 }",
     {1 << 22, 64},
     "2 stages: scatter, map",
     "__shared__ int32_t places[64]",
     {{1023, 7}, {130, 1}, {5, 5}, {0, 3}}},
    {"kernel weigh(at: u8[T], w: bf16[T]) -> (n: f32[257]) { n[at[t] + 1] += w[t] }",
     {1 << 22},
     "1 stage: scatter",
     "__shared__ double places[512]",
     {{40000}, {1}, {0}, {-1}}},
    {"kernel sums(at: i32[T], x: f32[T, C]) -> (y: f32[E, C]) { y[at[t], c] += x[t, c] }",
     {1 << 16, 64, 8},
     "1 stage: scatter",
     "__shared__ double places[512]",
     {{300, 33, 3}, {70, 1, 1}, {129, 64, 4}, {0, 3, 2}}},
    {"kernel many(at: i32[T], n: inout f32[E]) { n[at[t]] += 1 }",
     {1 << 22, 1 << 16},
     "1 stage: scatter",
     "add_to(t_n",
     {{1023, 512}, {-1}}},
    /* ---- what goes to places of its own behind a map has that one's launch ---- */
    {"kernel put(a: f32[H + 2 * K, 8], at: i32[1], keys: inout f16[S, K, 8], values: inout f16[S, K, 8])\n"
     "    -> (q: f16[H, 8]) {\n"
     "    q[h, d] = 2 * a[h + 0, d]\n    keys[at[0], h, d] = a[h + H, d] + 1\n"
     "    values[at[0], h, d] = a[h + (H + K), d] }",
     {32, 8, 4096},
     "3 stages: map, scatter, scatter",
     "else\n        stage_1_work<false>(a);\n    if ((((uint64_t)a.t_a",
     {{5, 3, 7}, {1, 1, 1}, {33, 33, 2}, {0, 2, 3}}},
    /* but not where it is the larger one, or reads what the map makes */
    {"kernel put_more(a: f32[H + K, 8], at: i32[1], keys: inout f16[S, K, 8]) -> (q: f16[H, 8]) {\n"
     "    q[h, d] = 2 * a[h + 0, d]\n    keys[at[0], h, d] = a[h + H, d] }",
     {8, 32, 4096},
     "2 stages: map, scatter",
     "\nstage_1(const __grid_constant__ arguments a) {",
     {{3, 5, 7}, {1, 2, 1}, {-1}}},
    {"kernel put_made(a: f32[H, 8], at: i32[1], keys: inout f16[S, H, 8]) -> (q: f16[H, 8]) {\n"
     "    q[h, d] = exp(a[h, d])\n    keys[at[0], h, d] = f32(q[h, 7 - d]) }",
     {32, 4096},
     "2 stages: map, scatter",
     "\nstage_1(const __grid_constant__ arguments a) {",
     {{5, 7}, {1, 1}, {-1}}},
    /* ---- bits ---- */
    {"kernel bits(a: i32[N], b: i32[N], u: u8[N]) -> (x: i32[N], l: u8[N], r: i32[N], w: i64[N]) {\n"
     "    x[n] = a[n] xor b[n] & 255 | 1 << (b[n] & 31)\n"
     "    l[n] = u[n] >> 4\n    r[n] = a[n] >> b[n]\n    w[n] = i64(a[n]) << 20 | n }",
     {1 << 22},
     "2 stages: map, map",
     NULL,
     {{1033}, {1}, {0}, {-1}}},
    /* ---- ranges that end where data say ---- */
    {"kernel parts(x: f32[B, N], begin: i32[B], end: i32[B]) -> (t: f32[B], m: f32[B], p: f32[B, N]) {\n"
     "    t[b] = sum[n from begin[b] to end[b]](x[b, n])\n"
     "    m[b] = max[n < end[b]](x[b, n])\n"
     "    p[b, n] = softmax[n < end[b] + 1](x[b, n]) }",
     {4096, 4096},
     "1 stage: row",
     NULL,
     {{9, 33}, {1, 1}, {3, 1030}, {2, 0}}},
    {"kernel places(x: f32[B, N], begin: i32[B], end: i32[B]) -> (k: i64[B], l: i32[B]) {\n"
     "    k[b] = argmax[n from begin[b] to end[b]](round(x[b, n] / 4))\n"
     "    l[b] = argmin[n from begin[b] to end[b]](x[b, n]) }",
     {4096, 4096},
     "1 stage: row",
     NULL,
     {{9, 33}, {1, 1}, {3, 1030}, {2, 0}}},
    /* ---- rows in order ---- */
    {"kernel sums(x: bf16[M, N]) -> (y: f32[M, N], z: f32[M, N]) {\n"
     "    y[m, n] = cumsum[n](x[m, n])\n    z[m, n] = cumsum[m](2 * x[m, n]) }",
     {4096, 4096},
     "2 stages: scan, scan",
     "scan_tile<true",
     {{3, 2100}, {1, 33000}, {40, 33}, {2, 0}}},
    {"kernel follow(a: f32[B, T, C], b: f32[B, T, C], h0: f32[B, C], n: i32[B, T])\n"
     "    -> (h: f32[B, T, C], back: f32[B, T], whole: i64[B, T]) {\n"
     "    h[i, -1, c] = h0[i, c]\n"
     "    h[i, t, c] = a[i, t, c] / 4 * h[i, t - 1, c] + b[i, t, c]\n"
     "    back[i, t] = b[i, t, 0] - 0.5 * back[i, t + 1]\n"
     "    whole[i, t] = n[i, t] + 3 * whole[i, t - 1] }",
     {8, 4096, 1024},
     "3 stages: scan, scan, scan",
     NULL,
     {{2, 2100, 3}, {1, 1, 1}, {3, 77, 130}, {2, 0, 5}}},
    {"kernel largest(x: bf16[M, N], i: i64[M, N]) -> (v: f32[M, K], p: i32[M, K], j: i64[M, 3]) {\n"
     "    v[m, r], p[m, r] = topk[n, r < K](x[m, n])\n"
     "    _, j[m, r] = topk[n, r](i[m, n] % 5) }",
     {64, 32768, 64},
     "3 stages: topk, map, topk",
     "topk_select(",
     {{3, 1100, 1050}, {2, 70, 5}, {1, 3, 3}, {2, 7000, 2}}},
    {"kernel few(x: f32[M, N], i: i32[M, N]) -> (p: i32[M, K], j: i32[M, K]) {\n"
     "    _, p[m, r] = topk[n, r < K](x[m, n])\n"
     "    _, j[m, r] = topk[n, r < K](abs(i[m, n] % 9 - 4)) }",
     {4096, 256, 8},
     "2 stages: topk, topk",
     "topk_warp<",
     {{19, 150, 7}, {3, 1, 1}, {2, 1000, 32}, {9, 2500, 40}}},
    {"kernel products(x: f32[M, N], i: i8[M, N]) -> (p: f32[M], q: f32[N], w: i64[M]) {\n"
     "    p[m] = prod[n](1 + x[m, n] / 64)\n    q[n] = prod[m](1 + x[m, n] / 64)\n"
     "    w[m] = prod[n](i[m, n] % 2) }",
     {4096, 4096},
     "2 stages: row, row",
     "reduce_prod",
     {{9, 33}, {1, 1}, {40, 1030}, {2, 0}}},
    /* ---- places that are given their values ---- */
    {"kernel keep(k: bf16[T, H, D], slot: i32[T], cache: inout bf16[S, H, D]) {\n"
     "    cache[slot[t], h, d] = k[t, h, d] if slot[t] % 3 != 0 }",
     {4096, 8, 128, 8192},
     "1 stage: scatter",
     NULL,
     {{5, 2, 64, 9}, {1, 1, 1, 1}, {33, 3, 17, 40}, {0, 2, 8, 4}}},
    {"kernel one(k: f32[H, D], position: i32, cache: inout f32[S, H, D]) -> (y: f32[H, D]) {\n"
     "    cache[position, h, d] = 2 * k[h, d]\n"
     "    y[h, d] = sum[s](cache[s, h, d]) }",
     {8, 128, 4096},
     "2 stages: scatter, column",
     NULL,
     {{2, 64, 9}, {1, 1, 1}, {3, 17, 40}}},
    {"kernel diagonal(x: f32[N], keep: bool[N], a: inout f32[N, N], b: inout i8[N]) {\n"
     "    a[n, n] = x[n] if keep[n]\n"
     "    b[n] = 50 * x[n] if keep[n] }",
     {4096},
     "2 stages: scatter, map",
     NULL,
     {{33}, {1}, {0}, {-1}}},
    /* ---- what is read across is read in tiles ---- */
    {"kernel turned(x: bf16[M, N]) -> (y: bf16[N, M]) { y[n, m] = x[m, n] }",
     {8192, 8192},
     "1 stage: map",
     "tile < tiles",
     {{64, 65}, {16, 16}, {72, 31}, {0, 40}}},
    {"kernel channels(x: f32[B, C, P], b: f32[C]) -> (y: f32[B, P, C]) { y[k, p, c] = relu(x[k, c, p] + "
     "b[c]) }",
     {64, 256, 3136},
     "1 stage: map",
     "tile < tiles",
     {{2, 20, 37}, {1, 16, 16}, {3, 36, 70}, {2, 16, 0}}},
    {"kernel heads(x: f32[T, H, D], z: f32[D, H, T]) -> (y: f32[T, H, D]) { y[t, h, d] = x[t, h, d] + z[d, "
     "h, t] }",
     {4096, 16, 128},
     "1 stage: map",
     "tile < tiles",
     {{33, 3, 20}, {40, 1, 16}, {100, 2, 32}, {0, 2, 16}}},
    /* ---- positions in all of a tensor ---- */
    {"kernel place(x: bf16[N]) -> (at: i64, low: i32, peak: f32) {\n"
     "    at = argmax[n](x[n])\n    low = argmin[n](x[n])\n    peak = max[n](x[n]) }",
     {1 << 26},
     "1 stage: column",
     "reduce_found<true>::find(total_0",
     {{4097}, {1}, {0}, {100000}}},
    {"kernel place_of_two(x: f32[M, N]) -> (at: i64) { at = argmax[m, n](x[m, n]) }",
     {4096, 4096},
     "1 stage: column",
     NULL,
     {{33, 31}, {1, 1}, {0, 3}, {64, 128}}},
    {"kernel place_across(x: i32[M, N]) -> (at: i64) { at = argmin[n, m](x[m, n]) }",
     {4096, 4096},
     "1 stage: column",
     NULL,
     {{33, 31}, {1, 1}, {3, 0}, {64, 128}}},
    {"kernel place_of_rows(x: bf16[M, N]) -> (at: i32[M]) { at[m] = argmax[n](x[m, n]) }",
     {4096, 50304},
     "1 stage: row",
     NULL,
     {{5, 1031}, {1, 1}, {7, 20000}, {2, 8}}},
    /* ---- a matrix times a few vectors streams past them where it is of 16 bits, else is rows ---- */
    {"kernel thin(w: bf16[M, K], x: bf16[B, K], b: f32[M]) -> (y: bf16[B, M]) {\n"
     "    y[k, m] = relu(sum[i](w[m, i] * x[k, i]) + b[m]) }",
     {28672, 4096, 4},
     "1 stage: contract",
     NULL,
     {{1030, 40, 3}, {1024, 1, 1}, {1024, 264, 8}, {1024, 0, 2}}},
    {"kernel thin_left(x: f32[B, K], w: f32[M, K]) -> (y: f32[M, B]) { y[m, k] = sum[i](w[m, i] * x[k, i]) }",
     {2, 4096, 28672},
     "1 stage: row",
     NULL,
     {{3, 40, 1030}, {1, 1, 1024}, {8, 264, 1024}, {2, 0, 1024}}},
    {"kernel thick(x: f32[B, K], w: f32[M, K]) -> (y: f32[M, B]) { y[m, k] = sum[i](w[m, i] * x[k, i]) }",
     {9, 4096, 28672},
     "1 stage: contract",
     NULL,
     {{-1}}},
    /* ---- a value of random numbers that passes need is kept ---- */
    {"kernel drop(x: bf16[M, N], r: bf16[M, N], w: bf16[N]) -> (s: bf16[M, N], y: bf16[M, N]) {\n"
     "    s[m, n] = r[m, n] + where(random(1, m * N + n) >= 0.1, x[m, n] / 0.9, 0)\n"
     "    v[m] = mean[n](s[m, n]^2)\n    y[m, n] = s[m, n] * rsqrt(v[m] + 1e-6) * w[n] }",
     {32768, 2048},
     "1 stage: row",
     " * 8 + v] = r",
     {{3, 1024}, {1, 1}, {5, 513}, {2, 8}}},
};

static hr_program *parse(const char *text, const hr_function **function) {
    hr_program *program;
    if (hr_program_parse("user.hr", text, strlen(text), &program) != HR_OK ||
        hr_program_find(program, NULL, function) != HR_OK)
        fail_msg("%s\n%s", hr_last_error(), text);
    return program;
}

static void test_plans(void **state) {
    (void)state;
    hr_device_limits limits = cuda_case_limits(90, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hr_function *function;
        hr_program *program = parse(cases[i].text, &function);
        hr_plan *plan;
        if (hr_schedule_create(function, cases[i].large, NULL, &limits, NULL, &plan) != HR_OK)
            fail_msg("%s\n%s", hr_last_error(), cases[i].text);
        if (strcmp(plan->summary, cases[i].plan) != 0)
            fail_msg("%s is a plan of %s, not of %s", function->name, plan->summary, cases[i].plan);
        hr_emitted emitted = {0};
        assert_int_equal(hr_emit_cuda_loaded(plan, cases[i].large, &emitted), HR_OK);
        if (cases[i].emitted && !strstr(hr_text_data(&emitted.source), cases[i].emitted))
            fail_msg("%s has no '%s' in\n%s", function->name, cases[i].emitted,
                     hr_text_data(&emitted.source));
        hr_emitted_clear(&emitted);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

static void expect_size(const struct user_case *one, const int64_t *extents, int number) {
    cuda_case run = {.extents = extents,
                     .limits = cuda_case_limits(90, number % 2 ? 2 : 132),
                     .offset = number % 3 == 1,
                     .strided = number % 5 == 4,
                     .nonfinite = number % 4 == 3,
                     .seed = (uint64_t)number,
                     .points = 300};
    hr_program *program = parse(one->text, &run.function);
    expect_right(&run, number);
    hr_program_destroy(program);
}

static void test_runs(void **state) {
    (void)state;
    int number = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < SIZES_MAX && cases[i].small[k][0] >= 0; k++)
            for (int way = 0; way < 2; way++, number++)
                if (sample_takes((size_t)number, 11)) expect_size(&cases[i], cases[i].small[k], number);
}

/* Whatever the tuner may choose, of rows that are whole groups and of others. */
static void test_candidates(void **state) {
    (void)state;
    enum { CANDIDATES_MAX = 64 };
    static const char text[] = "kernel largest(x: bf16[M, N]) -> (a: f32[N]) { a[n] = max[m](abs(x[m, n])) }";
    static const int64_t extents[][2] = {{300, 4096}, {5, 1029}, {2, 65537}};
    for (size_t k = 0; k < sizeof extents / sizeof *extents; k++) {
        cuda_case run = {.extents = extents[k], .limits = cuda_case_limits(90, 8), .seed = k, .points = 200};
        hr_choice choices[CANDIDATES_MAX];
        hr_program *program = parse(text, &run.function);
        hr_plan *plan;
        assert_int_equal(hr_schedule_create(run.function, extents[k], NULL, &run.limits, NULL, &plan), HR_OK);
        int count = hr_schedule_candidates(plan, choices, CANDIDATES_MAX);
        hr_plan_destroy(plan);
        assert_true(count > 1);
        for (int i = 0; i < count; i++) {
            run.options.choice = choices[i];
            if (sample_takes((size_t)i, 3)) expect_right(&run, i);
        }
        hr_program_destroy(program);
    }
}

/* Subscripts beyond the few places are reported as those beyond many are. */
static void test_wild_places(void **state) {
    (void)state;
    const int64_t extents[] = {2000, 7};
    cuda_case run = {.extents = extents, .limits = cuda_case_limits(90, 2), .wild = true, .points = 300};
    cuda_outcome outcome;
    hr_program *program = parse("kernel count(at: i32[T]) -> (n: i32[E]) { n[at[t]] += 1 }", &run.function);
    assert_int_equal(run_or_skip(&run, &outcome), HR_OUT_OF_RANGE);
    hr_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_candidates), cmocka_unit_test(test_wild_places)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
