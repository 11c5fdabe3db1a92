/* Two products with rows between them, a block of rows at a time: attention as people write it, and what must
 * not go that way. Against the text's meaning in f64, infinities and NaN in every place included.
 */
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

/* ---- texts ---- */

#define ATTENTION(name, type, parameters, results, scores, more)                                             \
    "kernel " name "(q: " type "[B, H, I, D], k: " type "[B, H, J, D], v: " type "[B, H, J, E]" parameters   \
    ") -> (o: " type "[B, H, I, E]" results ")\n{\n    s[b, h, i, j] = " scores "\n" more "}\n"
#define DOT    "sum[d](q[b, h, i, d] * k[b, h, j, d]) * rsqrt(D)"
#define OUT    "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h, j, e])\n"
#define CAUSAL "where(j <= i, " DOT ", -inf)"

/* `reaches`: what a mask leaves out is left out. Those up to OFTEN go through everything. */
static const struct attend_case {
    const char *text;
    bool joins, reaches;
} cases[] = {
    {ATTENTION("causal", "f32", "", "", CAUSAL, OUT), true, true},
    {ATTENTION("causal_bf16", "bf16", "", "", CAUSAL, OUT), true, true},
    {ATTENTION("all", "f32", "", "", DOT, OUT), true, false},
    {ATTENTION("strict", "f32", "", "", "where(j < i, " DOT ", -inf)", OUT), true, true}, /* rows of none */
    {ATTENTION("rounded", "bf16", "", "", CAUSAL,
               "    o[b, h, i, e] = sum[j](bf16(softmax[j](s[b, h, i, j])) * v[b, h, j, e])\n"),
     true, true},
    {ATTENTION("sums", "f32", "", ", l: f32[B, H, I]", CAUSAL,
               "    l[b, h, i] = logsumexp[j](s[b, h, i, j])\n"
               "    o[b, h, i, e] = sum[j](exp(s[b, h, i, j] - l[b, h, i]) * v[b, h, j, e])\n"),
     true, true},
    {ATTENTION("scores", "f32", "", ", s: f32[B, H, I, J]", CAUSAL, OUT), true, false},
    {ATTENTION("linear", "f32", "", "", "where(j <= i, " DOT ", 0)",
               "    o[b, h, i, e] = sum[j](s[b, h, i, j] * v[b, h, j, e])\n"),
     true, true},
    {"kernel shared(q: bf16[B, H, I, D], k: bf16[B, J, D], v: bf16[B, J, E]) -> (o: bf16[B, H, I, E])\n{\n"
     "    s[b, h, i, j] = where(j <= i, sum[d](q[b, h, i, d] * k[b, j, d]) * rsqrt(D), -inf)\n"
     "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, j, e])\n}\n",
     true, true},
    {ATTENTION("causal_f16", "f16", "", "", CAUSAL, OUT), true, true},
    {ATTENTION("shifted", "f32", "", "", "where(i + (J - I) > j, " DOT ", -inf)", OUT), true, true},
    {ATTENTION("window", "bf16", "", "", "where(j <= i and j > i - 20, " DOT ", -inf)", OUT), true, true},
    {ATTENTION("narrow", "f32", "", "", "where(j > i - 3 and j <= i + 2, " DOT ", -inf)", OUT), true, true},
    {ATTENTION("other_half", "f32", "", "", "where(j >= i, " DOT ", -inf)", OUT), true, false},
    {ATTENTION("lengths", "f32", ", length: i32[B]", "", "where(j < length[b] % 50, " DOT ", -inf)", OUT),
     true, true},
    {ATTENTION("ranges", "bf16", ", length: i32[B]", "", DOT,
               "    o[b, h, i, e] = sum[j from length[b] % 5 to length[b] % 50](\n"
               "        softmax[j from length[b] % 5 to length[b] % 50](s[b, h, i, j]) * v[b, h, j, e])\n"),
     true, true},
    {ATTENTION("slopes", "f32", ", slope: f32[H]", "", "where(i >= j, " DOT " - slope[h] * f32(i - j), -inf)",
               OUT),
     true, true},
    {ATTENTION("bias", "bf16", ", m: f32[I, J]", "", DOT " + m[i, j]", OUT), true, false},
    {ATTENTION("capped", "bf16", "", "", "where(j <= i, 30 * tanh(" DOT " / 30), -inf)", OUT), true, true},
    {ATTENTION("sinks", "f32", ", sink: f32[H]", "",
               CAUSAL "\n    m[b, h, i] = max(max[j](s[b, h, i, j]), sink[h])\n"
                      "    t[b, h, i] = sum[j](exp(s[b, h, i, j] - m[b, h, i])) + exp(sink[h] - m[b, h, i])",
               "    o[b, h, i, e] = sum[j](exp(s[b, h, i, j] - m[b, h, i]) / t[b, h, i] * v[b, h, j, e])\n"),
     true, true},
    {ATTENTION("dropout", "bf16", ", seed: i64 = 3", "", CAUSAL,
               "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * where(random(seed, ((b * H + h) * I + "
               "i) * J "
               "+ j) < 0.75, 1.25, 0) * v[b, h, j, e])\n"),
     true, true},
    {ATTENTION("weights", "f32", "", ", p: f32[B, H, I, J]", CAUSAL,
               "    p[b, h, i, j] = softmax[j](s[b, h, i, j])\n"
               "    o[b, h, i, e] = sum[j](p[b, h, i, j] * v[b, h, j, e])\n"),
     true, false},
    {ATTENTION("later", "f32", "", ", t: f32[B, H, J]", CAUSAL,
               OUT "    t[b, h, j] = max[i](s[b, h, i, j])\n"),
     true, false},
    {ATTENTION("documents", "f32", "", "", "where(i // 16 == j // 16, " DOT ", -inf)", OUT), true, false},
    {ATTENTION("packed", "bf16", ", document: i32[I], other: i32[J]", "",
               "where(j <= i and document[i] == other[j], " DOT ", -inf)", OUT),
     true, true},
    {ATTENTION("not_softmax", "f32", "", "", CAUSAL, /* a factor that may be infinite */
               "    o[b, h, i, e] = sum[j](exp(s[b, h, i, j]) * (1 / f32(i)) * v[b, h, j, e])\n"),
     true, false},
    {ATTENTION("least", "f32", "", "", "where(j <= i, " DOT ", -10)", OUT), true, false},
    {ATTENTION("two_masks", "f32", "", "", CAUSAL,
               "    m[b, h, i] = max[j](s[b, h, i, j])\n"
               "    o[b, h, i, e] = sum[j](exp(where(j < i, s[b, h, i, j], -inf) - m[b, h, i]) * "
               "v[b, h, j, e])\n"),
     true, false},
    {ATTENTION("doubles", "f64", "", "", CAUSAL, OUT), false, false},
    {ATTENTION("across", "f32", "", "", DOT,
               "    o[b, h, i, e] = sum[j](s[b, h, i, j] / (1 + sum[a](s[b, h, a, j]^2)) * v[b, h, j, e])\n"),
     false, false},
    {"kernel turned(q: f32[B, I, H, D], k: f32[B, J, H, D], v: f32[B, J, H, E]) -> (o: f32[B, I, H, E])\n{\n"
     "    s[b, h, i, j] = where(j <= i, sum[d](q[b, i, h, d] * k[b, j, h, d]) * rsqrt(D), -inf)\n"
     "    o[b, i, h, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, j, h, e])\n}\n",
     true, true},
    {"kernel grouped(q: f32[B, H, I, D], k: f32[B, 2, J, D], v: f32[B, 2, J, E]) -> (o: f32[B, H, I, E])\n{\n"
     "    s[b, h, i, j] = where(j <= i, sum[d](q[b, h, i, d] * k[b, h // 2, j, d]) * rsqrt(D), -inf)\n"
     "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h // 2, j, e])\n}\n",
     true, true},
    {"kernel groups(q: f32[B, H, I, D], k: f32[B, 2, J, D], v: f32[B, 2, J, E]) -> (o: f32[B, H, I, E])\n{\n"
     "    s[b, h, i, j] = sum[d](q[b, h, i, d] * k[b, h % 2, j, d]) * rsqrt(D)\n"
     "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h % 2, j, e])\n}\n",
     true, false},
};
enum { OFTEN = 9, CASES = sizeof cases / sizeof *cases };

/* ---- plans and results ---- */

typedef struct attend_shape {
    int64_t b, h, i, j, d, e;
} attend_shape;

static hr_kernel *load(const struct attend_case *c, const attend_shape *shape) {
    static const char *const names[] = {"B", "H", "I", "J", "D", "E"};
    const int64_t sizes[] = {shape->b, shape->h, shape->i, shape->j, shape->d, shape->e};
    hr_kernel *kernel;
    good(hr_kernel_load(device, "attend.hr", c->text, strlen(c->text), NULL, &kernel));
    for (int i = 0; i < 6; i++)
        good(hr_kernel_bind_extent(kernel, names[i], sizes[i]));
    good(hr_kernel_fill(kernel, 7));
    return kernel;
}

static void check(hr_kernel *kernel, const struct attend_case *c, const attend_shape *s) {
    hr_check result = {0};
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 500, &result));
    if (!result.ok)
        fail_msg("%lld x %lld, %lld x %lld, %lld and %lld deep: error %g, tolerance %g: %s in\n%s",
                 (long long)s->b, (long long)s->h, (long long)s->i, (long long)s->j, (long long)s->d,
                 (long long)s->e, result.max_error, result.tolerance, result.where, c->text);
}

static void check_case(const struct attend_case *c, const attend_shape *shape) {
    hr_kernel *kernel = load(c, shape);
    check(kernel, c, shape);
    hr_kernel_destroy(kernel);
}

/* What `headroom explain` says of the region. */
static void check_words(hr_kernel *kernel, const struct attend_case *c) {
    const char *words;
    good(hr_kernel_plan(kernel, &words));
    const bool joins = strstr(words, "\nregion stages 1 to ") != NULL,
               none = strstr(words, "\nregion none from stage 1 on: ") != NULL,
               reaches = strstr(words, "       mask: blocks are left out but for j ") != NULL;
    if (joins != c->joins || none == c->joins || reaches != (c->reaches && c->joins))
        fail_msg("explained otherwise than planned:\n%s\nof\n%s", words, c->text);
}

static void test_plans(void **state) {
    (void)state;
    const attend_shape shape = {2, 3, 150, 170, 40, 40};
    for (int i = 0; i < CASES; i++) {
        const char *source;
        hr_kernel *kernel = load(&cases[i], &shape);
        good(planned_source(kernel, &source));
        bool joins = strstr(source, "contract_attend_run(&attend") != NULL,
             reaches = strstr(source, "contract_attend_limit(attend") != NULL;
        hr_floor floor;
        good(hr_kernel_floor(kernel, &floor));
        check_words(kernel, &cases[i]);
        if (joins != cases[i].joins || reaches != (cases[i].reaches && cases[i].joins))
            fail_msg("stages %sgo together, %s, in\n%s", joins ? "" : "do not ",
                     reaches ? "and what is masked is left out" : "with what is masked", cases[i].text);
        const bool looks = strstr(source, "keys = contract_attend_seen(") != NULL;
        if (looks != (joins && (strstr(cases[i].text, "i // 16 == ") || strstr(cases[i].text, "document[") ||
                                strstr(cases[i].text, "j >= i"))))
            fail_msg("the ends of a mask are %ssought in\n%s", looks ? "" : "not ", cases[i].text);
        const bool windowed = strstr(cases[i].text, "j > i - ") || strstr(cases[i].text, "j from");
        if (joins && windowed != (strstr(source, "contract_attend_begin(attend") != NULL))
            fail_msg("the first keys are %s in\n%s", windowed ? "not left out" : "left out", cases[i].text);
        const bool by_data = strstr(cases[i].text, "length[b]") != NULL; /* how much is left out */
        double all = 2.0 * 2 * 3 * 150 * 170 * 80;
        if (floor.tensor_flops > all || (floor.tensor_flops < all) != (cases[i].reaches && !by_data))
            fail_msg("the floor counts %g of %g in\n%s", floor.tensor_flops, all, cases[i].text);
        hr_kernel_destroy(kernel);
    }
}

/* Of nothing, of one, of no multiple of anything, deeper than one pass over k; more keys than rows, fewer. */
static void test_shapes(void **state) {
    (void)state;
    static const attend_shape shapes[] = {
        {2, 3, 77, 131, 33, 65}, {1, 2, 131, 67, 64, 16}, {1, 2, 40, 1100, 20, 33}, {3, 4, 64, 64, 16, 8},
        {1, 2, 1, 70, 8, 8},     {1, 2, 70, 1, 8, 8},     {2, 2, 70, 0, 8, 8},      {0, 2, 70, 70, 8, 8},
        {1, 2, 70, 70, 0, 8},    {1, 2, 70, 70, 8, 0},    {1, 2, 0, 70, 8, 8}};
    for (int i = 0; i < CASES; i++)
        for (size_t s = 0; s < (i < OFTEN ? sizeof shapes / sizeof *shapes : 2); s++)
            if (sample_takes((size_t)i * 11 + s, 19)) check_case(&cases[i], &shapes[s]);
}

/* Blocks of the fewest rows; batches alone and shared by threads. */
static void test_small_caches(void **state) {
    (void)state;
    static const attend_shape shapes[] = {{1, 1, 333, 300, 24, 40}, {4, 4, 130, 130, 24, 40}};
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 16 << 10;
    for (int threads = 1; threads < 4; threads++)
        for (int i = 0; i < OFTEN; i++)
            for (int s = 0; s < 2; s++) {
                device->limits.threads = threads;
                if (sample_takes((size_t)((threads * OFTEN + i) * 2 + s), 7))
                    check_case(&cases[i], &shapes[s]);
            }
    device->limits = own;
}

/* ---- a query a head ---- */

/* Each product goes as far as the lengths of its batch: what lies beyond is not read, whatever it holds. */
static const char decode[] = "kernel k(q: f32[B, H, D], k: f32[B, J, 2, D], v: f32[B, J, 2, E], length: "
                             "i32[B]) -> (o: f32[B, H, E])\n{\n"
                             "    s[b, h, j] = sum[d](q[b, h, d] * k[b, j, h // (H // 2), d])\n"
                             "    o[b, h, e] = sum[j < length[b]](softmax[j < length[b]](s[b, h, j]) * v[b, "
                             "j, h // (H // 2), e])\n}\n";

static hr_kernel *decode_load(const int64_t sizes[5]) {
    static const char *const names[] = {"B", "H", "J", "D", "E"};
    hr_kernel *kernel;
    good(hr_kernel_load(device, "decode.hr", decode, strlen(decode), NULL, &kernel));
    for (int i = 0; i < 5; i++)
        good(hr_kernel_bind_extent(kernel, names[i], sizes[i]));
    good(hr_kernel_fill(kernel, 7));
    return kernel;
}

static void test_lengths(void **state) {
    (void)state;
    static const int64_t sizes[][5] = {{7, 8, 2000, 32, 40}, {3, 16, 300, 90, 64}, {2, 6, 5000, 40, 40}};
    for (int c = 0; c < 3; c++) {
        const int64_t *size = sizes[c], row_k = 2 * size[3], row_v = 2 * size[4];
        hr_kernel *kernel = decode_load(size);
        const char *source;
        hr_check result = {0};
        good(planned_source(kernel, &source));
        if (!strstr(source, ".columns = stage_0_limit")) fail_msg("case %d goes through all keys", c);
        assert_non_null(strstr(source, ".depths = stage_2_limit"));
        int32_t *length = array_of(kernel, "length");
        float *k = array_of(kernel, "k"), *v = array_of(kernel, "v");
        for (int64_t b = 0; b < size[0]; b++) {
            length[b] = (int32_t)(b == 0 ? size[2] + 3 : b == 1 ? -4 : size[2] * b / 9);
            for (int64_t j = length[b] < 0 ? 0 : length[b]; j < size[2]; j++) {
                for (int64_t i = 0; i < row_k; i++)
                    k[(b * size[2] + j) * row_k + i] = NAN;
                for (int64_t i = 0; i < row_v; i++)
                    v[(b * size[2] + j) * row_v + i] = i % 2 ? NAN : INFINITY;
            }
        }
        good(hr_kernel_prepare(kernel, NULL));
        good(hr_kernel_check(kernel, 500, &result));
        if (!result.ok || result.max_error != result.max_error)
            fail_msg("case %d: error %g, tolerance %g: %s", c, result.max_error, result.tolerance,
                     result.where);
        hr_kernel_destroy(kernel);
    }
}

/* ---- gradients ---- */

#define BACKWARD(type, mask)                                                                                 \
    "kernel k(do: " type "[B, H, I, E], q: " type "[B, H, I, D], k: " type "[B, H, J, D], v: " type          \
    "[B, H, J, E], along: f32[B, H, I], lse: f32[B, H, I])\n    -> (dv: " type "[B, H, J, E], dq: " type     \
    "[B, H, I, D], dk: " type "[B, H, J, D])\n{\n"                                                           \
    "    s[b, h, i, j] = sum[d](q[b, h, i, d] * k[b, h, j, d]) * rsqrt(D)\n"                                 \
    "    p[b, h, i, j] = " mask "\n"                                                                         \
    "    dv[b, h, j, e] = sum[i](" type "(p[b, h, i, j]) * do[b, h, i, e])\n"                                \
    "    ds[b, h, i, j] = p[b, h, i, j] * (sum[e](do[b, h, i, e] * v[b, h, j, e]) - along[b, h, i])\n"       \
    "    dk[b, h, j, d] = sum[i](" type "(ds[b, h, i, j]) * q[b, h, i, d]) * rsqrt(D)\n"                     \
    "    dq[b, h, i, d] = sum[j](" type "(ds[b, h, i, j]) * k[b, h, j, d]) * rsqrt(D)\n}\n"
#define WEIGHT "exp(s[b, h, i, j] - lse[b, h, i])"

/* `joins`: no scores are in memory. Long ones are sums of several chains. */
static const struct backward_case {
    struct attend_case c;
    attend_shape shape;
} backwards[] = {
    {{BACKWARD("f32", "where(j <= i, " WEIGHT ", 0)"), true, true}, {1, 2, 300, 300, 24, 40}},
    {{BACKWARD("bf16", "where(j <= i + J - I, " WEIGHT ", 0)"), true, true}, {2, 1, 260, 310, 40, 24}},
    {{BACKWARD("f32", "where(j <= i, " WEIGHT ", 0)"), true, true}, {1, 1, 310, 260, 8, 8}},
    {{BACKWARD("f32", "where(j <= i and j > i - 70, " WEIGHT ", 0)"), true, true}, {1, 1, 400, 400, 16, 16}},
    {{BACKWARD("f32", "where(j <= i, " WEIGHT ", 0)"), true, true}, {1, 1, 1400, 1400, 8, 8}},
    {{BACKWARD("f32", "where(j < i, " WEIGHT ", 0)"), true, true}, {1, 1, 290, 290, 8, 8}}, /* rows of none */
    {{BACKWARD("f32", "where(j <= i and i // 64 == j // 64, " WEIGHT ", 0)"), true, true},
     {1, 1, 600, 600, 8, 8}},
    {{BACKWARD("f32", WEIGHT), false, false}, {1, 2, 300, 300, 24, 40}},
    {{BACKWARD("f32", "where(j <= i, " WEIGHT ", 0)"), false, false}, {2, 3, 60, 70, 24, 40}},
};

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

/* The results, of as many threads; free() them. */
static float *gradients_of(const struct backward_case *one, int threads, float value) {
    const attend_shape *s = &one->shape;
    const int64_t sizes[] = {s->j * s->e, s->i * s->d, s->j * s->d};
    static const char *const names[] = {"dv", "dq", "dk"};
    const bool narrow = strstr(one->c.text, "bf16") != NULL;
    device->limits.threads = threads;
    hr_kernel *kernel = load(&one->c, s);
    float *v = array_of(kernel, "v");
    if (value != 0 && !narrow) v[(s->j - 1) * s->e] = value;
    good(hr_kernel_prepare(kernel, NULL));
    hr_check result = {0};
    good(hr_kernel_check(kernel, 60, &result));
    if (!result.ok)
        fail_msg("%d threads: error %g: %s in\n%s", threads, result.max_error, result.where, one->c.text);
    char *all = calloc(1, (size_t)(s->b * s->h * (sizes[0] + sizes[1] + sizes[2])) * sizeof(float)),
         *to = all;
    assert_non_null(all);
    for (int t = 0; t < 3; t++) {
        const size_t bytes = (size_t)(s->b * s->h * sizes[t]) * (narrow ? 2 : 4);
        memcpy(to, array_of(kernel, names[t]), bytes);
        to += bytes;
    }
    hr_kernel_destroy(kernel);
    return (float *)(void *)all;
}

static void test_gradients(void **state) {
    (void)state;
    const hr_device_limits own = device->limits;
    for (size_t i = 0; i < sizeof backwards / sizeof *backwards; i++) {
        const struct backward_case *one = &backwards[i];
        const attend_shape *s = &one->shape;
        const char *source;
        hr_floor floor;
        hr_kernel *kernel = load(&one->c, s);
        good(planned_source(kernel, &source));
        good(hr_kernel_floor(kernel, &floor));
        if (count_of(source, "contract_attend_run(&attend") != (one->c.joins ? 2 : 0))
            fail_msg("case %zu: other loops than were to be", i);
        const double all = 2.0 * (double)(s->b * s->h * s->i * s->j) * (double)(3 * s->d + 2 * s->e);
        if (one->c.joins != (floor.tensor_flops < 0.8 * all) || floor.tensor_flops < 0.1 * all)
            fail_msg("case %zu: the floor counts %g of %g", i, floor.tensor_flops, all);
        hr_kernel_destroy(kernel);
        float *one_thread = gradients_of(one, 1, 0), *more = gradients_of(one, 3, 0);
        assert_memory_equal(one_thread, more,
                            (size_t)(s->b * s->h * (s->j * (s->d + s->e) + s->i * s->d)) * sizeof(float));
        free(one_thread);
        free(more);
        free(gradients_of(one, 2, NAN));
    }
    device->limits = own;
}

/* ---- infinities and NaN ---- */

enum { SIDE = 70, DEEP = 8, SIZE = SIDE * DEEP };

static hr_array array_with(float *data) {
    static const int64_t shape[] = {1, 1, SIDE, DEEP};
    return (hr_array){.size = sizeof(hr_array), .data = data, .dtype = HR_F32, .rank = 4, .shape = shape};
}

/* One value of q, k or v is not finite, in a row that a mask leaves out of most rows or of none. */
static void check_value(const struct attend_case *c, int which, int row, float value) {
    static float data[3][SIZE];
    static const char *const names[] = {"q", "k", "v"};
    const attend_shape shape = {1, 1, SIDE, SIDE, DEEP, DEEP};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < SIZE; i++)
            data[t][i] = (float)((i * 7919 + t * 31) % 41 - 20) / 10;
    data[which][row * DEEP + 3] = value;
    hr_kernel *kernel = load(c, &shape);
    for (int t = 0; t < 3; t++) {
        hr_array array = array_with(data[t]);
        good(hr_kernel_bind(kernel, names[t], &array));
    }
    check(kernel, c, &shape);
    hr_kernel_destroy(kernel);
}

static void test_not_finite(void **state) {
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static const int rows[] = {0, 5, SIDE - 1};
    for (int i = 0; i < CASES; i++) {
        if (!strstr(cases[i].text, "q: f32[B, H, I, D], k: f32[B, H, J, D]")) continue;
        for (int which = 0; which < 3; which++)
            for (int row = 0; row < 3; row++)
                for (int value = 0; value < 3; value++)
                    if (sample_takes((size_t)(((i * 3 + which) * 3 + row) * 3 + value), 5))
                        check_value(&cases[i], which, rows[row], values[value]);
    }
}

/* ---- what a mask leaves out changes nothing ---- */

static bool causal(int64_t i, int64_t j) {
    return j <= i;
}

static bool strict(int64_t i, int64_t j) {
    return j < i;
}

static bool narrow(int64_t i, int64_t j) {
    return j > i - 3 && j <= i + 2;
}

static bool other_half(int64_t i, int64_t j) {
    return j >= i;
}

static bool documents(int64_t i, int64_t j) {
    return i / 16 == j / 16;
}

/* Blocks of rows, stages apart, few rows of many keys, more columns than rows. */
static const struct left_out {
    const char *name;
    bool (*sees)(int64_t i, int64_t j);
    attend_shape shape;
    int row;
} left_outs[] = {
    {"causal", causal, {1, 2, 130, 130, 8, 40}, 100},
    {"causal", causal, {2, 1, 40, 40, 8, 8}, 20},
    {"strict", strict, {1, 1, 70, 70, 8, 8}, 30},
    {"narrow", narrow, {1, 1, 150, 150, 8, 8}, 70},
    {"linear", causal, {1, 1, 70, 70, 8, 8}, 69},
    {"slopes", causal, {1, 2, 90, 90, 16, 8}, 33},
    {"sinks", causal, {1, 1, 70, 70, 8, 8}, 50},
    {"other_half", other_half, {1, 1, 2, 1100, 8, 8}, 0},
    {"other_half", other_half, {1, 1, 3, 90, 8, 70}, 1},
    {"sums", causal, {1, 1, 70, 70, 8, 8}, 68},
    {"documents", documents, {1, 1, 700, 700, 8, 8}, 300},
    {"documents", documents, {1, 1, 96, 96, 8, 8}, 40},
    {"documents", documents, {1, 1, 33, 33, 8, 8}, 31},
};

static const struct attend_case *case_of(const char *name) {
    char head[64];
    snprintf(head, sizeof head, "kernel %s(", name);
    for (int i = 0; i < CASES; i++)
        if (strncmp(cases[i].text, head, strlen(head)) == 0) return &cases[i];
    fail_msg("no case %s", name);
    return NULL;
}

/* Results with this value in column 1 of value `row` of each head; free() them. */
static float *results_with(const struct left_out *one, float value) {
    const attend_shape *s = &one->shape;
    hr_kernel *kernel = load(case_of(one->name), s);
    float *v = array_of(kernel, "v");
    for (int64_t head = 0; head < s->b * s->h; head++)
        v[(head * s->j + one->row) * s->e + 1] = value;
    check(kernel, case_of(one->name), s);
    const size_t bytes = (size_t)(s->b * s->h * s->i * s->e) * sizeof(float);
    float *results = malloc(bytes);
    assert_non_null(results);
    memcpy(results, array_of(kernel, "o"), bytes);
    hr_kernel_destroy(kernel);
    return results;
}

static void test_left_out(void **state) {
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t c = 0; c < sizeof left_outs / sizeof *left_outs; c++) {
        const struct left_out *one = &left_outs[c];
        const attend_shape *s = &one->shape;
        float *finite = results_with(one, 0.5f), *other = results_with(one, values[c % 3]);
        for (int64_t at = 0; at < s->b * s->h * s->i * s->e; at++) {
            const int64_t i = at / s->e % s->i;
            const bool meets = at % s->e == 1 && one->sees(i, one->row);
            const bool none = isnan(finite[at]); /* a query without keys */
            const bool same = none ? isnan(other[at]) : fabsf(finite[at] - other[at]) <= 1e-5f;
            if (meets ? isfinite(other[at]) : !same)
                fail_msg("%s: value %d is %g: query %d has %g, with a finite one %g", one->name, one->row,
                         (double)values[c % 3], (int)i, (double)other[at], (double)finite[at]);
        }
        free(finite);
        free(other);
    }
}

/* ---- the same for one query a row, in f64, and in gradients ---- */

/* `rows`: "i, " or none. */
#define BOUNDED(shape, rows)                                                                                 \
    "kernel k(q: T[H, " shape "D], k: T[H, J, D], v: T[H, J, D], n: i32[H]) -> (o: T[H, " shape "D]) {\n"    \
    " s[h, " rows "j] = where(j < n[h], sum[d](q[h, " rows "d] * k[h, j, d]), -inf)\n"                       \
    " o[h, " rows "d] = sum[j](softmax[j](s[h, " rows "j]) * v[h, j, d]) }\n"
static const char one_query[] = BOUNDED("", ""), some_queries[] = BOUNDED("I, ", "i, ");

static void element_set(void *data, hr_dtype dtype, int64_t at, double value) {
    if (dtype == HR_F64)
        ((double *)data)[at] = value;
    else
        ((float *)data)[at] = (float)value;
}

static bool is_finite_at(const void *data, hr_dtype dtype, int64_t at) {
    return isfinite(dtype == HR_F64 ? ((const double *)data)[at] : ((const float *)data)[at]);
}

/* Past the bound keys are NaN and values infinite: no result, and no gradient, is. */
static void check_bounded(const char *text, hr_dtype dtype, int64_t keys, const char *const *results) {
    enum { HEADS = 2, QUERIES = 3, WIDE = 8 };
    hr_kernel *kernel;
    hr_check result = {0};
    good(hr_kernel_load(device, "bounded.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_dtype(kernel, "T", dtype));
    good(hr_kernel_bind_extent(kernel, "H", HEADS));
    if (strstr(text, "[H, I")) good(hr_kernel_bind_extent(kernel, "I", QUERIES));
    good(hr_kernel_bind_extent(kernel, "J", keys));
    good(hr_kernel_bind_extent(kernel, "D", WIDE));
    good(hr_kernel_fill(kernel, 3));
    for (int64_t h = 0; h < HEADS; h++) {
        ((int32_t *)array_of(kernel, "n"))[h] = (int32_t)(keys / (2 + h));
        for (int64_t at = (h * keys + keys / (2 + h)) * WIDE; at < (h + 1) * keys * WIDE; at++) {
            element_set(array_of(kernel, "k"), dtype, at, NAN);
            element_set(array_of(kernel, "v"), dtype, at, INFINITY);
        }
    }
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 500, &result));
    if (!result.ok) fail_msg("%s in\n%s", result.where, text);
    for (; *results; results++)
        for (int64_t at = 0; at < HEADS * WIDE; at++)
            if (!is_finite_at(array_of(kernel, *results), dtype, at))
                fail_msg("%s[%d] is not finite in\n%s", *results, (int)at, text);
    hr_kernel_destroy(kernel);
}

static void test_bounded(void **state) {
    (void)state;
    static const char *const forward[] = {"o", NULL}, *const backward[] = {"dq", "dk", "dv", NULL};
    for (int several = 0; several < 2; several++) {
        const char *text = several ? some_queries : one_query;
        const hr_gradient_options options = {.size = sizeof options};
        const hr_dtype dtype = several ? HR_F32 : HR_F64;
        char *derived, *notes;
        good(hr_gradient_text("bounded.hr", text, strlen(text), NULL, &options, &derived, &notes));
        check_bounded(text, dtype, 90, forward);
        check_bounded(derived, dtype, 90, backward);
        free(derived);
        free(notes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),        cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_small_caches), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_gradients),    cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_left_out),     cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
