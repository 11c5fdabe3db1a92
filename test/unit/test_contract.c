/* Matrix products from text to result: planned, emitted, compiled, run and compared with plain sums in f64.
 */
#include "base/dtype.h"
#include "device/device.h"
#include "emit/c/emit_c_contract.h"
#include "emit/emit.h"
#include "ir/extent.h"
#include "lang/program.h"
#include "schedule/target.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TENSORS_MAX = 6, LENGTH_MAX = 1 << 20 };

/* The arrays of one launch, as stored and as doubles. */
typedef struct arrays {
    const int64_t *extent;
    void *data[TENSORS_MAX];
    double *value[TENSORS_MAX];
    int64_t count[TENSORS_MAX];
} arrays;

/* One element of a result, from the operands; `magnitude` gets the sum of the terms' sizes. */
typedef double meaning_fn(const arrays *a, int64_t element, double *magnitude);

/* ---- the harness ---- */

static char folder[64];
static struct hr_device *device;

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/headroom-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setenv("HEADROOM_CACHE", folder, 1);
    return hr_device_cpu_open(&device) == HR_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    device->ops->destroy(device);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void expect_ok(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static double random_double(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / 16777216.0 - 0.5;
}

/* Operands are random; results hold a value that no product has, so that an element left out shows. */
static void make_arrays(const hr_function *function, const int64_t *extents, arrays *a) {
    uint32_t seed = 7;
    int declared = function->parameter_count + function->result_count;
    assert_true(declared <= TENSORS_MAX);
    a->extent = extents;
    for (int t = 0; t < declared; t++) {
        const hr_tensor *tensor = &function->tensors[t];
        a->count[t] = 1;
        for (int axis = 0; axis < tensor->rank; axis++) {
            int64_t size;
            expect_ok(hr_extent_value(function, tensor->shape[axis], extents, &size));
            a->count[t] *= size;
        }
        assert_true(a->count[t] <= LENGTH_MAX * 4);
        size_t bytes = (size_t)a->count[t] * hr_dtype_size(tensor->dtype) + 1;
        assert_int_equal(posix_memalign(&a->data[t], 64, bytes), 0); /* whole lines of results are streamed */
        a->value[t] = malloc((size_t)a->count[t] * sizeof(double) + 1);
        assert_non_null(a->value[t]);
        double scale = hr_dtype_is_float(tensor->dtype) ? 1 : 200;
        for (int64_t i = 0; i < a->count[t]; i++) {
            double value = tensor->role == HR_ROLE_RESULT ? 12345 : scale * random_double(&seed);
            hr_dtype_store(tensor->dtype, a->data[t], (size_t)i, value);
            a->value[t][i] = hr_dtype_load(tensor->dtype, a->data[t], (size_t)i);
        }
    }
}

static void free_arrays(const hr_function *function, arrays *a) {
    for (int t = 0; t < function->parameter_count + function->result_count; t++) {
        free(a->data[t]);
        free(a->value[t]);
    }
}

static void launch(const hr_plan *plan, const arrays *a, int threads) {
    int64_t bytes, strides[TENSORS_MAX * 8] = {0};
    double scalars[TENSORS_MAX] = {0};
    hr_emitted emitted;
    hr_module *module;
    expect_ok(hr_emit_scratch(plan, a->extent, threads, &bytes));
    void *scratch = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, (size_t)bytes);
    expect_ok(hr_emit_c_loaded(plan, &emitted));
    expect_ok(device->ops->compile(device, emitted.source.data, emitted.source.length, HR_COMPILE_VECTOR_512,
                                   &module));
    hr_execution launched = {
        .pointers = a->data, .scalars = scalars, .extents = a->extent, .strides = strides};
    launched.scratch = scratch;
    launched.threads = threads;
    hr_fault fault = {0, 0};
    expect_ok(device->ops->launch(device, module, &launched, &fault));
    assert_int_equal(fault.access, 0);
    device->ops->unload(device, module);
    hr_emitted_clear(&emitted);
    free(scratch);
}

static void compare(const hr_function *function, const arrays *a, meaning_fn *meaning) {
    int t = function->parameter_count;
    hr_dtype dtype = function->tensors[t].dtype;
    double unit = dtype == HR_F64 ? 1e-15 : 3e-7, rounding = hr_dtype_rounding(dtype);
    int64_t step = a->count[t] > 20000 ? a->count[t] / 9973 : 1;
    for (int64_t i = 0; i < a->count[t]; i++) {
        double got = hr_dtype_load(dtype, a->data[t], (size_t)i), magnitude = 0;
        if (i % step && got != 12345) continue;
        double want = meaning(a, i, &magnitude);
        if (!(fabs(got - want) <= unit * (magnitude + fabs(want)) + 1.01 * rounding * fabs(want)))
            fail_msg("%s at element %lld: %.9g, should be %.9g", function->name, (long long)i, got, want);
    }
}

/* Runs the one kernel of `text` with this choice; `meaning` is of its first result. */
static void check_tuned(const char *text, const int64_t *extents, int threads, const hr_choice *choice,
                        meaning_fn *meaning) {
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    hr_schedule_options options = {.choice = *choice};
    arrays a = {0};
    expect_ok(hr_program_parse("test.hr", text, strlen(text), &program));
    expect_ok(hr_program_find(program, NULL, &function));
    expect_ok(hr_schedule_create(function, extents, NULL, &device->limits, &options, &plan));
    assert_int_equal(plan->stages[0].shape, HR_SHAPE_CONTRACT);
    make_arrays(function, extents, &a);
    launch(plan, &a, threads);
    compare(function, &a, meaning);
    free_arrays(function, &a);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
}

static void check(const char *text, const int64_t *extents, int threads, meaning_fn *meaning) {
    check_tuned(text, extents, threads, &(hr_choice){0}, meaning);
}

/* sum over count of x[i * x_step] * w[i * w_step] */
static double dot(const double *x, int64_t x_step, const double *w, int64_t w_step, int64_t count,
                  double *magnitude) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i * x_step] * w[i * w_step];
        *magnitude += fabs(x[i * x_step] * w[i * w_step]);
    }
    return sum;
}

/* ---- sizes ---- */

static const char plain[] = "kernel plain(x: f32[M, K], w: f32[K, N]) -> (y: f32[M, N])\n"
                            "{ y[m, n] = sum[k](x[m, k] * w[k, n]) }\n";

static double plain_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[1], n = a->extent[2];
    return dot(a->value[0] + i / n * k, 1, a->value[1] + i % n, n, k, magnitude);
}

static void test_every_odd_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 17, 31, 33, 255};
    for (int i = 0; i < 7 * 7 * 7; i++) {
        int64_t extents[] = {sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49]};
        if (i % 6 == 0) check(plain, extents, 1 + i / 6 % 3, plain_meaning);
    }
    check(plain, (int64_t[]){1023, 1023, 1023}, 2, plain_meaning);
    check(plain, (int64_t[]){300, 7001, 65}, 2, plain_meaning); /* sums in several passes */
}

static void test_empty(void **state) {
    (void)state;
    check(plain, (int64_t[]){0, 5, 7}, 2, plain_meaning);
    check(plain, (int64_t[]){5, 5, 0}, 2, plain_meaning);
    check(plain, (int64_t[]){50, 0, 70}, 2, plain_meaning); /* sums of nothing */
}

/* ---- layouts and index groups ---- */

static const char transposed[] = "kernel turned(x: f32[K, M], w: f32[N, K]) -> (y: f32[M, N])\n"
                                 "{ y[m, n] = sum[k](x[k, m] * w[n, k]) }\n";

static double transposed_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[0], m = a->extent[1], n = a->extent[2];
    return dot(a->value[0] + i / n, m, a->value[1] + i % n * k, 1, k, magnitude);
}

static void test_transposed_operands(void **state) {
    (void)state;
    check(transposed, (int64_t[]){129, 100, 61}, 2, transposed_meaning);
    check(transposed, (int64_t[]){513, 301, 7}, 3, transposed_meaning);
}

static const char batched[] =
    "kernel batched(x: f32[B, H, M, K], w: f32[B, N, H, K]) -> (y: f32[B, M, H, N])\n"
    "{ y[b, m, h, n] = sum[k](x[b, h, m, k] * w[b, n, h, k]) }\n";

static double batched_meaning(const arrays *a, int64_t i, double *magnitude) {
    const int64_t *e = a->extent; /* B H M K N */
    int64_t n = i % e[4], h = i / e[4] % e[1], m = i / e[4] / e[1] % e[2], b = i / e[4] / e[1] / e[2];
    return dot(a->value[0] + ((b * e[1] + h) * e[2] + m) * e[3], 1,
               a->value[1] + ((b * e[4] + n) * e[1] + h) * e[3], 1, e[3], magnitude);
}

static void test_batches(void **state) {
    (void)state;
    check(batched, (int64_t[]){2, 3, 33, 17, 31}, 2, batched_meaning);
    check(batched, (int64_t[]){1, 5, 255, 65, 70}, 3, batched_meaning);
    check(batched, (int64_t[]){4, 4, 1, 64, 129}, 2, batched_meaning);
}

static const char grouped[] =
    "kernel grouped(x: f32[P, Q, U, V], w: f32[U, R, V, S]) -> (y: f32[P, Q, R, S])\n"
    "{ y[p, q, r, s] = sum[u, v](x[p, q, u, v] * w[u, r, v, s]) + r }\n";

static double grouped_meaning(const arrays *a, int64_t i, double *magnitude) {
    const int64_t *e = a->extent; /* P Q U V R S */
    int64_t s = i % e[5], r = i / e[5] % e[4], row = i / e[5] / e[4];
    double sum = (double)r;
    for (int64_t u = 0; u < e[2]; u++)
        sum += dot(a->value[0] + (row * e[2] + u) * e[3], 1, a->value[1] + ((u * e[4] + r) * e[3]) * e[5] + s,
                   e[5], e[3], magnitude);
    return sum;
}

static void test_groups_of_indices(void **state) {
    (void)state;
    check(grouped, (int64_t[]){3, 5, 4, 7, 3, 11}, 2, grouped_meaning);
    check(grouped, (int64_t[]){20, 13, 5, 37, 9, 21}, 2, grouped_meaning);
    check(grouped, (int64_t[]){7, 1, 1, 3, 70, 1}, 2, grouped_meaning);
}

/* ---- dtypes, operands and epilogues ---- */

static const char doubled[] = "kernel doubled(x: f64[M, K], w: f64[N, K], b: f64[N]) -> (y: f64[M, N])\n"
                              "{ y[m, n] = sum[k](x[m, k] * w[n, k]) * 2 + b[n] }\n";

static double doubled_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[1], n = a->extent[2];
    double sum = dot(a->value[0] + i / n * k, 1, a->value[1] + i % n * k, 1, k, magnitude);
    *magnitude *= 4;
    return sum * 2 + a->value[2][i % n];
}

static void test_f64(void **state) {
    (void)state;
    check(doubled, (int64_t[]){255, 300, 33}, 2, doubled_meaning);
    check(doubled, (int64_t[]){3, 1, 2}, 1, doubled_meaning);
}

static const char linear[] =
    "kernel linear_gelu(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> (y: bf16[M, N])\n"
    "{ y[m, n] = gelu_tanh(sum[k](x[m, k] * w[n, k]) + b[n]) }\n";

static double linear_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[1], n = a->extent[2];
    double z = dot(a->value[0] + i / n * k, 1, a->value[1] + i % n * k, 1, k, magnitude) + a->value[2][i % n];
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

static void test_bf16_with_an_epilogue(void **state) {
    (void)state;
    check(linear, (int64_t[]){33, 255, 130}, 2, linear_meaning);
    check(linear, (int64_t[]){300, 64, 100}, 2, linear_meaning);
}

/* What each row reads alike, what it reads of its own, and a condition on the row, over columns of two
 * indices. */
static const char scaled[] =
    "kernel scaled(x: f32[P, U], w: f32[R, S, U], b: bf16[R, S], g: f32[S], c: f32[P, R, S]) -> (y: f32[P, "
    "R, S])\n"
    "{ y[p, r, s] = sum[u](x[p, u] * w[r, s, u]) * (g[s] + 1) + where(p > 1, b[r, s], g[s]) + c[p, r, s] }\n";
static const char scaled_bf16[] =
    "kernel scaled_bf16(x: f32[P, U], w: f32[S, U], b: bf16[S], g: f32[S], c: f32[P, S]) -> (y: bf16[P, S])\n"
    "{ y[p, s] = sum[u](x[p, u] * w[s, u]) * (g[s] + 1) + where(p > 1, b[s], g[s]) + c[p, s] }\n";

static double scaled_value(const arrays *a, int64_t i, int64_t u, int64_t columns, int64_t last,
                           double *magnitude) {
    int64_t p = i / columns, n = i % columns;
    double sum = dot(a->value[0] + p * u, 1, a->value[1] + n * u, 1, u, magnitude), g = a->value[3][n % last];
    *magnitude = *magnitude * 2 + 2;
    return sum * (g + 1) + (p > 1 ? a->value[2][n] : g) + a->value[4][i];
}

static double scaled_meaning(const arrays *a, int64_t i, double *magnitude) {
    const int64_t *e = a->extent; /* P U R S */
    return scaled_value(a, i, e[1], e[2] * e[3], e[3], magnitude);
}

static double scaled_bf16_meaning(const arrays *a, int64_t i, double *magnitude) {
    const int64_t *e = a->extent; /* P U S */
    return scaled_value(a, i, e[1], e[2], e[2], magnitude);
}

static void test_epilogue_of_rows_and_columns(void **state) {
    (void)state;
    check(scaled, (int64_t[]){37, 61, 3, 37}, 2, scaled_meaning);
    check(scaled, (int64_t[]){300, 70, 9, 21}, 2, scaled_meaning);
    check(scaled, (int64_t[]){129, 30, 1, 7}, 2, scaled_meaning); /* as rows */
    check(scaled_bf16, (int64_t[]){300, 70, 83}, 2, scaled_bf16_meaning);
    check(scaled_bf16, (int64_t[]){300, 70, 64}, 2, scaled_bf16_meaning);
    check(scaled_bf16, (int64_t[]){129, 30, 7}, 2, scaled_bf16_meaning);
    check(linear, (int64_t[]){300, 64, 5}, 2, linear_meaning);
}

/* Both operands bf16: for a unit that multiplies pairs, where this machine has one. */
static const char halves[] = "kernel halves(x: bf16[M, K], w: bf16[K, N]) -> (y: f32[M, N])\n"
                             "{ y[m, n] = sum[k](x[m, k] * w[k, n]) }\n";
static const char halves_transposed[] =
    "kernel halves_turned(x: bf16[K, M], w: bf16[N, K]) -> (y: f32[M, N])\n"
    "{ y[m, n] = sum[k](x[k, m] * w[n, k]) }\n";
static const char halves_batched[] =
    "kernel halves_batched(x: bf16[B, H, M, K], w: bf16[B, N, H, K]) -> (y: f32[B, M, H, N])\n"
    "{ y[b, m, h, n] = sum[k](x[b, h, m, k] * w[b, n, h, k]) }\n";
static const char halves_grouped[] =
    "kernel halves_grouped(x: bf16[P, Q, U, V], w: bf16[U, R, V, S]) -> (y: f32[P, Q, R, S])\n"
    "{ y[p, q, r, s] = sum[u, v](x[p, q, u, v] * w[u, r, v, s]) + r }\n";

static void test_products_of_bf16(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 15, 33, 64, 255};
    for (int i = 0; i < 7 * 7 * 7; i++) {
        int64_t extents[] = {sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49]};
        if (i % 11 == 0) check(halves, extents, 1 + i / 11 % 3, plain_meaning);
    }
    check(halves, (int64_t[]){50, 0, 70}, 2, plain_meaning);
    check(halves, (int64_t[]){300, 7001, 65}, 2, plain_meaning); /* sums in several passes */
    check(halves, (int64_t[]){1023, 511, 777}, 2, plain_meaning);
    check(halves_transposed, (int64_t[]){129, 100, 61}, 2, transposed_meaning);
    check(halves_transposed, (int64_t[]){513, 301, 7}, 3, transposed_meaning);
    check(halves_batched, (int64_t[]){2, 3, 33, 17, 31}, 2, batched_meaning);
    check(halves_batched, (int64_t[]){4, 4, 1, 64, 129}, 2, batched_meaning);
    check(halves_grouped, (int64_t[]){20, 13, 5, 37, 9, 21}, 2, grouped_meaning);
    check(halves_grouped, (int64_t[]){7, 1, 1, 3, 70, 1}, 2, grouped_meaning);
}

static const char rounded[] = "kernel rounded(x: bf16[M, K], w: bf16[K, N]) -> (y: bf16[M, N])\n"
                              "{ y[m, n] = sum[k](x[m, k] * w[k, n]) }\n";

static const char bytes[] = "kernel bytes(x: i8[M, K], w: i8[K, N]) -> (y: f32[M, N])\n"
                            "{ y[m, n] = sum[k](x[m, k] * w[k, n]) }\n";

static void check_candidates(const char *text) {
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    hr_choice candidates[64];
    const int64_t extents[] = {61, 401, 77};
    expect_ok(hr_program_parse("test.hr", text, strlen(text), &program));
    expect_ok(hr_program_find(program, NULL, &function));
    expect_ok(hr_schedule_create(function, extents, NULL, &device->limits, NULL, &plan));
    int count = hr_schedule_candidates(plan, candidates, 64);
    assert_in_range(count, 4, 64);
    for (int i = 0; i < count; i += count / 3)
        check_tuned(text, extents, 2, &candidates[i], plain_meaning);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
}

static void test_every_candidate(void **state) {
    (void)state;
    check_candidates(plain);
    check_candidates(halves);
    check_candidates(bytes);
}

/* Whether the text emitted for `halves` has the word, on a machine with these units. */
static bool emits(int matrix_bf16, int dots_bf16, const char *word) {
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    hr_emitted emitted;
    hr_device_limits limits = {.threads = 2, .vector_bytes = 64, .l1_bytes = 48 << 10, .isa = "avx512"};
    limits.matrix_bf16 = matrix_bf16, limits.dots_bf16 = dots_bf16;
    expect_ok(hr_program_parse("test.hr", halves, strlen(halves), &program));
    expect_ok(hr_program_find(program, NULL, &function));
    expect_ok(hr_schedule_create(function, (int64_t[]){64, 64, 64}, NULL, &limits, NULL, &plan));
    expect_ok(hr_emit_c_loaded(plan, &emitted));
    bool found = strstr(hr_text_data(&emitted.source), word) != NULL;
    hr_emitted_clear(&emitted);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
    return found;
}

static void test_unit_follows_the_machine(void **state) {
    (void)state;
    assert_true(emits(1, 0, "contract_tiles_multiply") && emits(1, 0, "the matrix unit multiplies"));
    assert_true(emits(0, 1, "contract_dots_multiply") && emits(0, 1, "vectors multiply them in pairs"));
    assert_false(emits(1, 0, "contract_dots_multiply") || emits(0, 1, "contract_tiles_multiply"));
    assert_false(emits(0, 0, "contract_dots_multiply")); /* vdpbf16ps may be slower than f32 there */
}

static void test_operands_are_asked_for_ahead(void **state) {
    (void)state;
    assert_true(emits(0, 1, " + i + ahead);") && emits(0, 1, " + i + ahead * n_N);"));
}

/* Rows of 64 bytes times n leave past the caches, and what is left over of others does not. */
static void test_streamed_results(void **state) {
    (void)state;
    static const int64_t columns[] = {16, 32, 48, 64, 96, 112, 128, 129};
    assert_true(emits(0, 0, "rows > 8 && stream_lines(q0 + i, (last - i) * 4)") &&
                emits(0, 0, "stream_end();"));
    for (int i = 0; i < 8; i++) {
        check(plain, (int64_t[]){37, 29, columns[i]}, 2, plain_meaning);
        check(rounded, (int64_t[]){37, 40, columns[i]}, 2, plain_meaning);
    }
}

static const char masked_halves[] = "kernel masked_halves(x: bf16[M, K], w: f32[K, N]) -> (y: f32[M, N])\n"
                                    "{ y[m, n] = sum[k](where(k <= m, -x[m, k], 0) * bf16(w[k, n])) }\n";

static double masked_halves_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[1], n = a->extent[2], m = i / n;
    double sum = 0;
    for (int64_t j = 0; j <= m && j < k; j++) {
        double term = -a->value[0][m * k + j] * hr_dtype_round(HR_BF16, a->value[1][j * n + i % n]);
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

static void test_values_that_are_bf16(void **state) {
    (void)state;
    check(masked_halves, (int64_t[]){63, 70, 37}, 2, masked_halves_meaning);
    check(masked_halves, (int64_t[]){300, 111, 45}, 2, masked_halves_meaning);
}

static const char dequantised[] =
    "kernel dequantised(x: f32[M, K], w: i8[N, K], scale: f32[N, G]) -> (y: f32[M, N])\n"
    "{ y[m, n] = sum[k](x[m, k] * (w[n, k] * scale[n, k // 32])) }\n";

static double dequantised_meaning(const arrays *a, int64_t i, double *magnitude) {
    const int64_t *e = a->extent; /* M K N G */
    int64_t n = i % e[2], m = i / e[2];
    double sum = 0;
    for (int64_t k = 0; k < e[1]; k++) {
        double term =
            a->value[0][m * e[1] + k] * (a->value[1][n * e[1] + k] * a->value[2][n * e[3] + k / 32]);
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

static void test_int8_dequantised_while_packing(void **state) {
    (void)state;
    check(dequantised, (int64_t[]){40, 96, 50, 3}, 2, dequantised_meaning);
    check(dequantised, (int64_t[]){1, 1024, 31, 32}, 2, dequantised_meaning);
}

static const char masked[] =
    "kernel masked(x: f32[M, K], w: f32[K, N], s: f32[M, N]) -> (y: f32[M, N], z: i32[M, N])\n"
    "{ p[m, n] = sum[k](where(k <= m, exp(x[m, k]), 0) * w[k, n])\n"
    "  y[m, n] = where(s[m, n] > 0, p[m, n], -s[m, n])\n"
    "  z[m, n] = y[m, n] * 16 }\n";

static double masked_meaning(const arrays *a, int64_t i, double *magnitude) {
    int64_t k = a->extent[1], n = a->extent[2], m = i / n;
    double sum = 0;
    for (int64_t j = 0; j <= m && j < k; j++) {
        double term = exp(a->value[0][m * k + j]) * a->value[1][j * n + i % n];
        sum += term;
        *magnitude += 4 * fabs(term);
    }
    return a->value[2][i] > 0 ? sum : -a->value[2][i];
}

static void test_masked_operand_and_two_results(void **state) {
    (void)state;
    check(masked, (int64_t[]){63, 70, 37}, 2, masked_meaning);
    check(masked, (int64_t[]){300, 111, 45}, 2, masked_meaning);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_odd_size),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_transposed_operands),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_groups_of_indices),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_bf16_with_an_epilogue),
        cmocka_unit_test(test_epilogue_of_rows_and_columns),
        cmocka_unit_test(test_products_of_bf16),
        cmocka_unit_test(test_every_candidate),
        cmocka_unit_test(test_unit_follows_the_machine),
        cmocka_unit_test(test_operands_are_asked_for_ahead),
        cmocka_unit_test(test_streamed_results),
        cmocka_unit_test(test_values_that_are_bf16),
        cmocka_unit_test(test_int8_dequantised_while_packing),
        cmocka_unit_test(test_masked_operand_and_two_results),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
