/* Derived gradients: every kernel of the library and texts that stretch each rule agree with central
 * differences; random kernels do; what must stay readable reads as it does here; what has no gradient says
 * so. */
#include "reference/interpreter_functions.h"
#include "support/fixture.h"
#include "support/kernel_library.h"
#include "support/lang_text.h"
#include "support/random_program.h"

#include <math.h>

/* ---- against differences ---- */

static void agrees(const char *path, const char *text, size_t length, const char *kernel) {
    hr_gradient_check found = {.size = sizeof found};
    const hr_status status = hr_gradient_verify(path, text, length, kernel, NULL, &found);
    if (status != HR_OK) fail_msg("%s:%s: %s", path, kernel, hr_last_error());
    if (!found.points) fail_msg("%s:%s has no finite value", path, kernel);
    if (!(found.transposed < 1e-13)) fail_msg("%s:%s: transposed %g", path, kernel, found.transposed);
}

/* These have none: they change what they read, or have no float parameter that they do not. */
static bool refuses(const char *kernel) {
    static const char *const names[] = {"adamw", "adamw_in_place", "clip_norm",
                                        "cross_entropy_backward_in_place"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], kernel) == 0) return true;
    return false;
}

static void test_library(void **state) {
    (void)state;
    kernel_library *library = calloc(1, sizeof *library);
    assert_non_null(library);
    assert_int_equal(kernel_library_open(library), HR_OK);
    for (int i = 0; i < library->count; i++) {
        const hr_program *program = library->files[i].program;
        for (int k = 0; k < program->function_count; k++) {
            const char *name = program->functions[k].name;
            char *out, *notes;
            if (refuses(name))
                assert_int_equal(hr_gradient_text(program->origin.path, program->origin.text,
                                                  program->origin.length, name, NULL, &out, &notes),
                                 HR_BAD_INPUT);
            else
                agrees(program->origin.path, program->origin.text, program->origin.length, name);
        }
    }
    kernel_library_close(library);
    free(library);
}

/* Each rule of docs/gradients.md, and ways in which they meet. */
static const char *const rules[] = {
    "def swish(x) = x / (1 + exp(-x))\n"
    "kernel defs(gate: f32[M, N], up: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = swish(swish(gate[m, n])) * "
    "up[m, n] }",
    "kernel packed_swiglu(x: bf16[M, 2 * N]) -> (y: bf16[M, N]) { y[m, n] = silu(x[m, n + 0]) * x[m, n + N] "
    "}",
    "kernel shift(x: f32[T, C]) -> (y: f32[T, C]) { y[t, c] = where(t > 0, x[t - 1, c]^2, 0) }",
    "kernel reverse(x: f32[N]) -> (y: f32[N]) { y[n] = x[N - 1 - n] * x[n] }",
    "kernel transpose(x: f32[N, N]) -> (y: f32[N, N]) { y[i, j] = x[j, i] * x[i, j] }",
    "kernel diagonal(x: f32[N, N]) -> (y: f32[N]) { y[n] = x[n, n]^3 }",
    "kernel diagonal_out(d: f32[N]) -> (a: f32[N, N]) { a[n, n] += d[n] * d[n] }",
    "kernel row_zero(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = x[m, n] * x[m, 0] }",
    "kernel pooling(x: f32[C, 2 * H, 2 * W]) -> (y: f32[C, H, W]) { y[c, h, w] = max[i < 2, j < 2](x[c, 2 * "
    "h + i, 2 * w + j]) }",
    "kernel average(x: f32[C, 2 * H]) -> (y: f32[C, H]) { y[c, h] = mean[i < 2](x[c, 2 * h + i]^2) }",
    "kernel maxrow(x: f32[M, N]) -> (y: f32[M], z: f32[M]) { y[m] = max[n](x[m, n]^2)\n"
    " z[m] = min[n](x[m, n]) * sum[n](x[m, n]) }",
    "kernel conv1d(x: f32[B, C, T + K - 1], w: f32[O, C, K]) -> (y: f32[B, O, T]) { y[b, o, t] = sum[c, "
    "k](x[b, c, t + k] * w[o, c, k]) }",
    "kernel conv_same(x: f32[B, C, T], w: f32[O, C, 3]) -> (y: f32[B, O, T]) { y[b, o, t] = sum[c, "
    "k](where(t + k >= 1 and t + k <= T, x[b, c, t + k - 1], 0) * w[o, c, k]) }",
    "kernel conv_stride(x: f32[C, 2 * T + K], w: f32[O, C, K]) -> (y: f32[O, T]) { y[o, t] = sum[c, k](x[c, "
    "2 * t + k] * w[o, c, k]) }",
    "kernel conv2d(x: f32[C, H + 2, W + 2], w: f32[O, C, 3, 3]) -> (y: f32[O, H, W]) { y[o, h, w0] = sum[c, "
    "i, j](x[c, h + i, w0 + j] * w[o, c, i, j]) }",
    "kernel gqa(q: f32[B, H * 2, T, D], k: f32[B, H, T, D]) -> (y: f32[B, H * 2, T, T]) { y[b, h, i, j] = "
    "sum[d](q[b, h, i, d] * k[b, h // 2, j, d]) }",
    "kernel group_scale(x: f32[N, 4 * K], s: f32[N, K]) -> (y: f32[N, 4 * K]) { y[n, k] = x[n, k] * s[n, k "
    "// 4] }",
    "kernel modulo(x: f32[N], s: f32[3]) -> (y: f32[N]) { y[n] = x[n] * s[n % 3] }",
    "kernel embed(token: i32[T], table: f32[V, C], pos: f32[T, C]) -> (y: f32[T, C]) { y[t, c] = "
    "table[token[t], c] * pos[t, c] }",
    "kernel tied(token: i32[T], table: f32[V, C], h: f32[T, C]) -> (y: f32[T, V]) { e[t, c] = "
    "table[token[t], c] + h[t, c]\n"
    " y[t, v] = sum[c](e[t, c] * table[v, c]) }",
    "kernel norm_linear(x: f32[M, K], g: f32[K], w: f32[N, K]) -> (y: f32[M, N]) { r[m] = rsqrt(sum[k](x[m, "
    "k]^2) / K + 1e-5)\n"
    " h[m, k] = x[m, k] * r[m] * g[k]\n"
    " y[m, n] = sum[k](h[m, k] * w[n, k]) }",
    "kernel mlp(x: f32[M, K], w1: f32[N, K], w2: f32[K, N]) -> (y: f32[M, K]) { h[m, n] = gelu(sum[k](x[m, "
    "k] * w1[n, k]))\n"
    " y[m, k] = x[m, k] + sum[n](h[m, n] * w2[k, n]) }",
    "kernel batchnorm(x: f32[B, C], g: f32[C], b: f32[C]) -> (y: f32[B, C]) { mean[c] = mean[i < B](x[i, "
    "c])\n"
    " var[c] = mean[i < B]((x[i, c] - mean[c])^2)\n"
    " y[i, c] = (x[i, c] - mean[c]) * rsqrt(var[c] + 1e-5) * g[c] + b[c] }",
    "kernel groupnorm(x: f32[B, G, C, T], g: f32[G, C], b: f32[G, C]) -> (y: f32[B, G, C, T]) { mean[i, k] = "
    "sum[c, t](x[i, k, c, t]) / (C * T)\n"
    " rstd[i, k] = rsqrt(sum[c, t]((x[i, k, c, t] - mean[i, k])^2) / (C * T) + 1e-5)\n"
    " y[i, k, c, t] = (x[i, k, c, t] - mean[i, k]) * rstd[i, k] * g[k, c] + b[k, c] }",
    "kernel smoothing(logits: f32[T, V], target: i32[T], e: f32 = 0.1) -> (loss: f32) { lse[t] = "
    "logsumexp[v](logits[t, v])\n"
    " loss = sum[t](lse[t] - (1 - e) * logits[t, target[t]] - e * sum[v](logits[t, v]) / V) / T }",
    "kernel kl(p: f32[T, V], q: f32[T, V]) -> (loss: f32) { lp[t, v] = p[t, v] - logsumexp[u](p[t, u])\n"
    " lq[t, v] = q[t, v] - logsumexp[u](q[t, u])\n"
    " loss = sum[t, v](exp(lp[t, v]) * (lp[t, v] - lq[t, v])) / T }",
    "kernel grpo(logp: f32[T], old: f32[T], adv: f32[T], ref: f32[T], clip: f32 = 0.2, beta: f32 = 0.04) -> "
    "(loss: f32) { r[t] = exp(logp[t] - old[t])\n"
    " k[t] = exp(ref[t] - logp[t]) - (ref[t] - logp[t]) - 1\n"
    " loss = sum[t](beta * k[t] - min(r[t] * adv[t], clamp(r[t], 1 - clip, 1 + clip) * adv[t])) / T }",
    "kernel softcap(q: f32[I, D], k: f32[J, D], v: f32[J, E]) -> (o: f32[I, E], lse: f32[I]) { s[i, j] = "
    "where(j <= i and i - j < 3, 5 * tanh(sum[d](q[i, d] * k[j, d]) / 5), -inf)\n"
    " lse[i] = logsumexp[j](s[i, j])\n"
    " o[i, e] = sum[j](exp(s[i, j] - lse[i]) * v[j, e]) }",
    "kernel gqa_attention(q: f32[H * 2, I, D], k: f32[H, J, D], v: f32[H, J, E]) -> (o: f32[H * 2, I, E]) { "
    "s[h, i, j] = where(j <= i, sum[d](q[h, i, d] * k[h // 2, j, d]), -inf)\n"
    " o[h, i, e] = sum[j](softmax[j](s[h, i, j]) * v[h // 2, j, e]) }",
    "kernel functions(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[n] = sin(x[n]) * cos(y[n]) + exp2(x[n]) * "
    "erf(y[n]) + sigmoid(x[n] * y[n]) + relu(x[n]) * abs(y[n]) + max(x[n], y[n]) * min(x[n] * 2, y[n]) + "
    "clamp(x[n], -1, 0.5) }",
    "kernel roots(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[n] = log(x[n]) * log2(y[n]) + sqrt(x[n]) / "
    "rsqrt(y[n]) + x[n]^1.5 + x[n]^y[n] + x[n]^-3 + x[n] % y[n] + 2^x[n] }",
    "kernel lerp(x: f32[N], t: f32[N]) -> (y: f32[N]) { y[n] = where(x[n] > 0.5 and t[n] < 1, x[n] * t[n], "
    "x[n] / (t[n]^2 + 1)) }",
    "kernel series(x: f32[N, N], power: i32) -> (y: f32[N]) { y[i] = sum[k < K](x[i, 0]^2 * k / K) }",
    "kernel outer(x: f32[M], y: f32[N]) -> (z: f32[M, N], t: f32) { z[m, n] = x[m] * y[n]\n"
    " t = sum[m, n](z[m, n]^2) }",
    "kernel softmax_temperature(x: f32[M, N], t: f32) -> (y: f32[M, N]) { y[m, n] = softmax[n](x[m, n] / "
    "t)^2 }",
    "kernel two_axis_softmax(x: f32[M, N, K]) -> (y: f32[M, N, K]) { y[m, n, k] = softmax[n, k](x[m, n, k] * "
    "2) }",
    "kernel straight(x: f32[N], s: f32) -> (y: f32[N]) { y[n] = round(x[n] / s) * s + floor(x[n]) }",
    "kernel prefix(x: f32[N]) -> (y: f32[N]) { y[n] = sum[k < N](where(k <= n, x[k], 0)) }",
    "kernel lookup(i: i32[N], x: f32[N]) -> (y: f32[N]) { y[n] = x[i[n]] * x[n] }",
    /* a sum that may be read only under a condition, inside of other choices */
    "kernel guarded(x: f32[T, K], w: f32[T, K]) -> (y: f32[T]) {"
    " y[t] = tanh(where(t > 0, max[k](x[t - 1, k]), 0.5)) * sum[k](w[t, k])^2 }",
    "kernel guarded_softmax(x: f32[T, K], i: i32[T]) -> (y: f32[T]) {"
    " y[t] = sum[k](where(i[t] < T, softmax[k](x[i[t], k]), 0.5) * x[t, k]) }",
    "kernel product(x: f32[M, N], w: f32[M, N]) -> (y: f32[M]) {"
    " y[m] = prod[n](where(n % 3 == 0, 0, x[m, n]) + w[m, n] * where(n == 1, 0, 1)) }",
    "kernel recurrence(a: f32[B, T, C], b: f32[B, T, C], h0: f32[B, C]) -> (h: f32[B, T, C], s: f32[B]) {"
    " h[i, -1, c] = h0[i, c]\n h[i, t, c] = exp(-a[i, t, c]^2) * h[i, t - 1, c] + b[i, t, c]\n"
    " s[i] = sum[t, c](h[i, t, c]^2 * b[i, t, c]) }",
    "kernel back(a: f32[B, T], b: f32[B, T], h0: f32[B]) -> (y: f32[B, T], s: f32[B]) {"
    " h[i, T] = h0[i]\n h[i, t] = b[i, t] - sigmoid(a[i, t]) * h[i, t + 1] / 2\n"
    " y[i, t] = h[i, t]^2 * b[i, t]\n s[i] = sum[t](cumsum[t](h[i, t]) * a[i, t]) }",
    "kernel largest(x: f32[M, N], w: f32[M, K]) -> (y: f32[M], v: f32[M, K], p: i64[M, K]) {"
    " v[m, r], p[m, r] = topk[n, r < K](x[m, n]^3)\n y[m] = sum[r](v[m, r] * w[m, r]) }",
    "kernel held(x: f32[M, N], z: f32[M, N]) -> (y: f32[M, N]) { t[m, n] = softmax[n](x[m, n])\n"
    " y[m, n] = where(m > 0, t[m - 1, N - 1 - n], 0.5) * z[m, n] }",
    /* attention in parts: a peak passes no gradient, whatever is added beside its sum */
    "kernel sinks(q: f32[I, D], k: f32[J, D], v: f32[J, E], sink: f32) -> (o: f32[I, E]) {\n"
    " s[i, j] = where(j <= i, sum[d](q[i, d] * k[j, d]), -inf)\n m[i] = max(max[j](s[i, j]), sink)\n"
    " t[i] = sum[j](exp(s[i, j] - m[i])) + exp(sink - m[i])\n"
    " o[i, e] = sum[j](exp(s[i, j] - m[i]) / t[i] * v[j, e]) }",
    "kernel lengths(q: f32[I, D], k: f32[J, D], v: f32[J, E], n: i32[I]) -> (o: f32[I, E]) {\n"
    " s[i, j] = sum[d](q[i, d] * k[j, d])\n m[i] = max[j < n[i] + 1](s[i, j])\n"
    " t[i] = sum[j < n[i] + 1](exp(s[i, j] - m[i]))\n"
    " o[i, e] = sum[j < n[i] + 1](exp(s[i, j] - m[i]) / t[i] * v[j, e]) }",
    "kernel dropped(q: f32[I, D], k: f32[J, D], v: f32[J, E], g: f32[I, E]) -> (o: f32[I, E]) {\n"
    " o[i, e] = g[i, e] * sum[j](softmax[j](sum[d](q[i, d] * k[j, d])) * where(random(3, i * J + j) < 0.7, 1 "
    "/ 0.7, 0) * v[j, e]) }",
    "kernel turned(q: f32[I, D], k: f32[J, G, D], v: f32[J, E], c: f32[J, D]) -> (o: f32[H, I, E]) {\n"
    " r[j, g, d] = bf16(k[j, g, d] + where(d < D // 2, -k[j, g, d + D // 2], k[j, g, d - D // 2]) * c[j, "
    "d])\n"
    " o[h, i, e] = sum[j](softmax[j](sum[d](q[i, d] * r[j, h // (H // G), d]) + f32(h)) * v[j, e]) }",
    /* a place that the condition keeps on its axis */
    "kernel relative(q: f32[I, D], k: f32[J, D], v: f32[J, E], bias: f32[W]) -> (o: f32[I, E]) {\n"
    " s[i, j] = where(j <= i and i - j < W, sum[d](q[i, d] * k[j, d]) + bias[min(i - j, W - 1)], -inf)\n"
    " o[i, e] = sum[j](softmax[j](s[i, j]) * v[j, e]) }",
    "kernel smax(x: f32[M, N]) -> (y: f32[M]) { p[m] = max[n](x[m, n])\n"
    " y[m] = log(sum[n](exp(x[m, n] - p[m]))) + p[m] }",
};

static void test_rules(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        agrees("rules.hr", rules[i], strlen(rules[i]), NULL);
}

/* The derivative of a derivative is one, too. */
static void test_second_order(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kernel k(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = softmax[n](x[m, n]) }",
        "kernel k(x: f32[M, N], w: f32[N]) -> (y: f32[M, N]) { r[m] = rsqrt(sum[n](x[m, n]^2) / N + 1e-5)\n"
        " y[m, n] = x[m, n] * r[m] * w[n] }",
        "kernel k(x: f32[N]) -> (y: f32[N]) { y[n] = tanh(x[n]) * sigmoid(x[n])^2 }",
        "kernel k(x: f32[T, V], target: i32[T]) -> (loss: f32) {\n"
        " loss = sum[t](logsumexp[v](x[t, v]) - x[t, target[t]]) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *first, *notes;
        if (hr_gradient_text("k.hr", texts[i], strlen(texts[i]), NULL, NULL, &first, &notes) != HR_OK)
            fail_msg("%s", hr_last_error());
        agrees("second.hr", first, strlen(first), NULL);
        free(first);
        free(notes);
    }
}

/* Kernels that nobody wrote; those that change an inout tensor on the way have no gradient. */
static void test_random_programs(void **state) {
    (void)state;
    const int seeds = getenv("HR_TEST_LONG") ? 200 : 20;
    int derived = 0;
    for (int seed = 1; derived < seeds && seed < 10 * seeds; seed++) {
        hr_text text = {0};
        hr_random_extent extents[HR_RANDOM_EXTENTS];
        hr_gradient_check found = {.size = sizeof found};
        assert_int_equal(hr_random_program((uint64_t)seed, &text, extents), HR_OK);
        const hr_status status =
            hr_gradient_verify("random.hr", hr_text_data(&text), text.length, NULL, NULL, &found);
        if (status != HR_OK && status != HR_BAD_INPUT)
            fail_msg("seed %d: %s\n%s", seed, hr_last_error(), hr_text_data(&text));
        derived += status == HR_OK && found.points;
        hr_text_clear(&text);
    }
    assert_int_equal(derived, seeds);
}

/* ---- slopes against the interpreter's ---- */

/* y = op(x) over f64; the gradient at each x with dy = 1. */
static void slope_agrees(hr_op op) {
    static const double points[] = {0.05, 0.3, 0.75, 1.25, 2.5, -0.4, -1.75};
    enum { POINTS = sizeof points / sizeof *points };
    const hr_gradient_options options = {.size = sizeof options, .recompute = "y"};
    const bool positive = op == HR_OP_LOG || op == HR_OP_LOG2 || op == HR_OP_SQRT || op == HR_OP_RSQRT;
    const char *name = hr_op_info_of(op)->name;
    char text[128], *derived, *notes;
    hr_fixture fixture;
    snprintf(text, sizeof text,
             op == HR_OP_NEG ? "kernel k(x: f64[N]) -> (y: f64[N]) { y[n] = %s x[n] }"
                             : "kernel k(x: f64[N]) -> (y: f64[N]) { y[n] = %s(x[n]) }",
             name);
    if (hr_gradient_text("k.hr", text, strlen(text), NULL, &options, &derived, &notes) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr_fixture_open(derived, NULL, &fixture), HR_OK);
    hr_fixture_extent(&fixture, "N", POINTS);
    assert_int_equal(hr_fixture_allocate(&fixture), HR_OK);
    hr_fixture_set(&fixture, "dy", (double[]){1, 1, 1, 1, 1, 1, 1});
    if (hr_fixture_tensor(&fixture, "x") < fixture.function->parameter_count &&
        hr_fixture_tensor(&fixture, "x") >= 0)
        hr_fixture_set(&fixture, "x", points);
    for (int i = 0; i < POINTS; i++) {
        hr_meaning meaning;
        const double x = points[i], slope = hr_unary_slope(op, x, hr_unary(op, x));
        if (positive && x < 0) continue;
        assert_int_equal(hr_fixture_value(&fixture, "dx", i, &meaning), HR_OK);
        const double wanted = op == HR_OP_RELU && x < 0 ? 0
                              : op == HR_OP_SIN         ? fabs(cos(x))
                              : op == HR_OP_COS         ? fabs(sin(x))
                                                        : slope;
        if (fabs(fabs(meaning.value) - fabs(wanted)) > 1e-9 * fmax(1, fabs(wanted)))
            fail_msg("the slope of %s at %g is %g, the interpreter has %g\n%s", name, x, meaning.value,
                     wanted, derived);
    }
    hr_fixture_close(&fixture);
    free(derived);
    free(notes);
}

/* The interpreter bounds sin, cos and relu by 1: their slopes are libm's. */
static void test_slopes(void **state) {
    (void)state;
    for (hr_op op = HR_OP_EXP; op <= HR_OP_ABS; op++)
        slope_agrees(op);
    slope_agrees(HR_OP_NEG);
}

/* A transformer's block, 14 lines: its backward pass is no longer than a person would write it, and asks for
 * no more than two forward passes beside the values that it computes again. */
static void test_block(void **state) {
    (void)state;
    size_t length;
    char *block = file_text(HR_SOURCE_DIR "/examples/gpt2_block.hr", &length);
    assert_non_null(block);
    char *out, *notes;
    int lines = 0;
    hr_gradient_check found = {.size = sizeof found};
    agrees("block.hr", block, length, NULL);
    if (hr_gradient_text("block.hr", block, length, NULL, NULL, &out, &notes) != HR_OK)
        fail_msg("%s", hr_last_error());
    for (const char *at = strstr(out, "\n{\n") + 3; *at && *at != '}'; at = strchr(at, '\n') + 1)
        lines++;
    if (lines > 60) fail_msg("%d lines:\n%s", lines, out);
    assert_int_equal(hr_gradient_verify("block.hr", block, length, NULL, NULL, &found), HR_OK);
    assert_true(found.backward.operations <= 3 * found.forward.operations);
    free(block);
    free(out);
    free(notes);
}

/* ---- as it is written ---- */

static void is_derived_as(const char *text, const hr_gradient_options *options, const char *body,
                          const char *notes) {
    char *out, *said;
    if (hr_gradient_text("k.hr", text, strlen(text), NULL, options, &out, &said) != HR_OK)
        fail_msg("%s", hr_last_error());
    const char *from = strstr(out, "\nkernel ");
    assert_non_null(from);
    assert_string_equal(from + 1, body);
    if (!strstr(said, notes) || (!*notes && *said)) fail_msg("\"%s\" is not in \"%s\"", notes, said);
    free(out);
    free(said);
}

static void test_text(void **state) {
    (void)state;
    is_derived_as(
        "kernel rmsnorm(x: T[M, N], weight: T[N]) -> (y: T[M, N], rstd: f32[M]) {\n"
        " rstd[m] = rsqrt(sum[n](x[m, n]^2) / N + 1e-5)\n y[m, n] = x[m, n] * rstd[m] * weight[n] }",
        NULL,
        "kernel rmsnorm_backward(dy: T[M, N], x: T[M, N], weight: T[N], rstd: f32[M])\n"
        "    -> (dx: T[M, N], dweight: f32[N])\n{\n"
        "    g[m, n] = dy[m, n] * weight[n]\n"
        "    along[m] = rstd[m]^2 * sum[n](x[m, n] * g[m, n]) / N\n"
        "    dx[m, n] = (g[m, n] - x[m, n] * along[m]) * rstd[m]\n"
        "    dweight[n] = sum[m](dy[m, n] * x[m, n] * rstd[m])\n}\n",
        "");
    is_derived_as(
        "kernel embed(token: i32[T], table: f32[V, C]) -> (y: f32[T, C]) { y[t, c] = table[token[t], c] }",
        &(hr_gradient_options){.size = sizeof(hr_gradient_options), .accumulate = true, .name = "back"},
        "kernel back(dy: f32[T, C], token: i32[T], dtable: inout f32[V, C])\n{\n"
        "    dtable[token[t], c] += dy[t, c]\n}\n",
        "");
    is_derived_as(
        "kernel shift(x: f32[T], z: f32[T]) -> (y: f32[T]) { y[t] = where(t > 0, x[t - 1]^2, floor(z[t])) }",
        NULL,
        "kernel shift_backward(dy: f32[T], x: f32[T]) -> (dx: f32[T], dz: f32[T])\n{\n"
        "    dx[t] = where(t < T - 1, dy[t + 1] * x[t] * 2, 0)\n"
        "    dz[t] = 0.0\n}\n",
        "z has no way to a result");
    is_derived_as(/* a product of each head; then heads that share values */
                  "kernel k(w: f32[H, I, J], v: f32[G, J, D]) -> (o: f32[H, I, D]) {\n"
                  " o[h, i, d] = sum[j](w[h, i, j] * v[h // 4, j, d]) }",
                  &(hr_gradient_options){.size = sizeof(hr_gradient_options), .wrt = "v"},
                  "kernel k_backward(do: f32[H, I, D], w: f32[H, I, J]) -> (dv: f32[G, J, D])\n{\n"
                  "    along[h, j, d] = sum[i](do[h, i, d] * w[h, i, j])\n"
                  "    dv[k, j, d] = sum[r < 4](where(4 * k + r < H, along[4 * k + r, j, d], 0))\n}\n",
                  "");
}

/* ---- what the backward pass takes ---- */

/* What is saved of the text, and what the forward kernel then gives; "" = nothing. */
static void is_saved(const char *text, const char *save, const char *taken, const char *given) {
    const hr_gradient_options options = {.size = sizeof options, .save = save};
    char *backward, *notes, *forward;
    if (hr_gradient_text("k.hr", text, strlen(text), NULL, &options, &backward, &notes) != HR_OK ||
        hr_gradient_forward_text("k.hr", text, strlen(text), NULL, &options, &forward) != HR_OK)
        fail_msg("%s", hr_last_error());
    const char *words = strstr(backward, "It takes "), *end = strchr(backward, '\n');
    if (!*taken ? words != NULL
                : !words || words > end || strncmp(words + 9, taken, strlen(taken)) != 0 ||
                      strncmp(words + 9 + strlen(taken), " from", 5) != 0)
        fail_msg("%s is not what this takes:\n%s", *taken ? taken : "nothing", backward);
    if (!strstr(forward, given)) fail_msg("%s is not in:\n%s", given, forward);
    const hr_status status =
        save ? HR_OK
             : hr_gradient_verify("k.hr", text, strlen(text), NULL, NULL,
                                  &(hr_gradient_check){.size = sizeof(hr_gradient_check)});
    if (status != HR_OK) fail_msg("%s", hr_last_error());
    free(backward);
    free(notes);
    free(forward);
}

/* By cost: products and statistics are saved, scores and what is elementwise are computed again. */
static void test_saving(void **state) {
    (void)state;
    const char *norm =
        "kernel k(x: f32[M, N], w: f32[N]) -> (y: f32[M, N]) {\n"
        " mean[m] = sum[n](x[m, n]) / N\n rstd[m] = rsqrt(sum[n]((x[m, n] - mean[m])^2) / N + 1e-5)\n"
        " h[m, n] = (x[m, n] - mean[m]) * rstd[m]\n y[m, n] = h[m, n] * w[n] }";
    is_saved(norm, NULL, "mean and rstd", "-> (y: f32[M, N], mean: f32[M], rstd: f32[M])");
    is_saved(norm, "", "", "-> (y: f32[M, N])\n");
    is_saved(norm, "h", "h", "-> (y: f32[M, N], h: f32[M, N])");
    const char *mlp = "kernel k(x: T[M, K], u: T[N, K], w: T[K, N]) -> (y: T[M, K]) {\n"
                      " q[m, n] = T(sum[k](x[m, k] * u[n, k]))\n"
                      " y[m, k] = sum[n](q[m, n] * gelu(sum[j < K](x[m, j] * u[n, j]) * 2) * w[k, n]) }";
    is_saved(mlp, NULL, "q and pre", "-> (y: T[M, K], q: T[M, N], pre: f32[M, N])");
    is_saved("kernel k(x: T[M, K], w: T[N, K], b: T[N]) -> (y: T[M, N]) {"
             " y[m, n] = silu(sum[k](x[m, k] * w[n, k]) + b[n]) }",
             NULL, "pre", "-> (y: T[M, N], pre: T[M, N])");
    const char *attention =
        "kernel k(q: T[H, I, D], k: T[H, J, D], v: T[H, J, E], x: T[M, K], r: T[K, K]) -> (o: T[H, I, E], y: "
        "T[M, K]) {\n"
        " s[h, i, j] = sum[d](q[h, i, d] * k[h, j, d])\n"
        " o[h, i, e] = sum[j](softmax[j](s[h, i, j]) * v[h, j, e])\n y[m, i] = sum[j](x[m, j] * r[i, j]) }";
    is_saved(attention, NULL, "lse", "lse: f32[H, I])");
    is_saved("kernel k(x: f32[M, N]) -> (y: f32[M, N]) { h[m, n] = exp(x[m, n])\n y[m, n] = h[m, n]^2 }",
             NULL, "", "-> (y: f32[M, N])\n");
    is_saved("kernel k(x: f32[M, N]) -> (y: f32[M, N]) {"
             " y[m, n] = where(m > 0, softmax[n](x[m - 1, n]), 0) * x[m, n] }",
             NULL, "", "-> (y: f32[M, N])\n");
}

/* ---- what cannot be derived ---- */

static void is_refused(const char *text, const hr_gradient_options *options, const char *words) {
    char *out, *notes;
    assert_int_equal(hr_gradient_text("k.hr", text, strlen(text), NULL, options, &out, &notes), HR_BAD_INPUT);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" is not in \"%s\"", words, hr_last_error());
}

/* stop(e) passes a value, const keeps a parameter out, T(e) stays T(e). */
static void test_left_out(void **state) {
    (void)state;
    const char *text = "kernel k(x: T[M, K], w: const W[N, K], s: T[N]) -> (y: T[M, N]) where T: f32 | bf16, "
                       "W: f32 | f16 {\n"
                       " y[m, n] = sum[k](x[m, k] * T(w[n, k])) * stop(s[n]) + s[n] }";
    is_derived_as(text, NULL,
                  "kernel k_backward(dy: T[M, N], w: const W[N, K], s: T[N]) -> (dx: T[M, K], ds: f32[N])\n"
                  "    where T: f32 | bf16, W: f32 | f16\n{\n"
                  "    dx[m, k] = sum[n](dy[m, n] * T(w[n, k]) * s[n])\n"
                  "    ds[n] = sum[m](dy[m, n])\n}\n",
                  "");
    hr_gradient_check found = {.size = sizeof found};
    assert_int_equal(hr_gradient_verify("k.hr", text, strlen(text), NULL, NULL, &found), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "stop"));
}

static void test_refusals(void **state) {
    (void)state;
    const char *plain =
        "kernel k(x: f32[N], i: i32[N]) -> (y: f32[N]) { h[n] = x[n]^2\n y[n] = h[n] * x[n] }";
    const hr_gradient_options wrt = {.size = sizeof wrt, .wrt = "x,q"};
    const hr_gradient_options whole = {.size = sizeof whole, .wrt = "i"};
    const hr_gradient_options of = {.size = sizeof of, .of = "x"};
    const hr_gradient_options save = {.size = sizeof save, .save = "y"};
    is_refused(plain, &wrt, "q is no float parameter of kernel k");
    is_refused(plain, &whole, "i is no float parameter of kernel k");
    is_refused(plain, &of, "x is no float result of kernel k");
    is_refused(plain, &save, "y is no local of kernel k");
    is_refused("kernel k(x: const f32[N], q: f32[N]) -> (y: f32[N]) { y[n] = x[n] * q[n] }", &wrt,
               "x of kernel k is const");
    is_refused("kernel k(p: inout f32[N], x: f32[N]) -> (y: f32[N]) { y[n] = p[n] * x[n]\n p[n] = p[n] * 2 }",
               NULL, "p of kernel k is inout and on the way of the gradient");
    is_refused("kernel k(i: i32[N]) -> (y: f32[N]) { y[n] = i[n] }", NULL, "no float tensor to derive for");
    is_refused("kernel k(x: f32[N]) -> (y: f32[N]) { y[n] = z[n] }", NULL, "there is no tensor 'z'");
    char *out, *notes;
    assert_int_equal(hr_gradient_text(NULL, NULL, 0, NULL, NULL, &out, &notes), HR_BAD_INPUT);
    assert_int_equal(hr_gradient_text("k.hr", plain, strlen(plain), NULL, NULL, NULL, NULL), HR_BAD_INPUT);
}

/* A row of which all is masked gives 0, not NaN. */
static void test_masked_rows(void **state) {
    (void)state;
    const char *text = "kernel k(x: f32[M, N], keep: i32[M, N]) -> (y: f32[M, N], lse: f32[M]) {\n"
                       " s[m, n] = where(keep[m, n] != 0, x[m, n], -inf)\n lse[m] = logsumexp[n](s[m, n])\n"
                       " y[m, n] = where(keep[m, n] != 0, exp(s[m, n] - lse[m]), 0) }";
    char *derived, *notes;
    assert_int_equal(hr_gradient_text("k.hr", text, strlen(text), NULL, NULL, &derived, &notes), HR_OK);
    hr_fixture fixture;
    assert_int_equal(hr_fixture_open(derived, NULL, &fixture), HR_OK);
    hr_fixture_extent(&fixture, "M", 2);
    hr_fixture_extent(&fixture, "N", 3);
    assert_int_equal(hr_fixture_allocate(&fixture), HR_OK);
    hr_fixture_set(&fixture, "dy", (double[]){1, 2, 3, 4, 5, 6});
    hr_fixture_set(&fixture, "keep", (double[]){0, 0, 0, 1, 0, 1});
    if (hr_fixture_tensor(&fixture, "lse") >= 0)
        hr_fixture_set(&fixture, "lse", (double[]){-INFINITY, log(2)});
    if (hr_fixture_tensor(&fixture, "y") >= 0)
        hr_fixture_set(&fixture, "y", (double[]){0, 0, 0, 0.5, 0, 0.5});
    for (int i = 0; i < 6; i++) {
        hr_meaning meaning;
        assert_int_equal(hr_fixture_value(&fixture, "dx", i, &meaning), HR_OK);
        const double wanted = i == 3 ? -0.5 : i == 5 ? 0.5 : 0; /* p * (dy - sum(p * dy)) */
        if (fabs(meaning.value - wanted) > 1e-6)
            fail_msg("dx[%d] is %g, should be %g\n%s", i, meaning.value, wanted, derived);
    }
    hr_fixture_close(&fixture);
    free(derived);
    free(notes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library),      cmocka_unit_test(test_rules),
        cmocka_unit_test(test_second_order), cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_text),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_masked_rows),  cmocka_unit_test(test_saving),
        cmocka_unit_test(test_slopes),       cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
