/* hr_kernel_execute: arrays by position, many threads on one kernel, shapes that change, results that nobody
 * wants, and what it says where it cannot. */
#define _GNU_SOURCE
#include "support/run_device.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define ARRAY(dtype, data, ...)                                                                              \
    (hr_array) {                                                                                             \
        sizeof(hr_array), data, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),            \
            (const int64_t[]){__VA_ARGS__}, NULL                                                             \
    }
#define VALUE(dtype, data)                                                                                   \
    (hr_array) {                                                                                             \
        sizeof(hr_array), data, dtype, 0, NULL, NULL                                                         \
    }

static void bad(hr_status status, hr_status wanted, const char *words) {
    assert_int_equal(status, wanted);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" says nothing of \"%s\"", hr_last_error(), words);
}

static void scale_check(const float *x, const float *y, int64_t count, float a) {
    for (int64_t i = 0; i < count; i++)
        assert_true(y[i] == a * x[i] + 1);
}

/* ---- values ---- */

static void test_by_position(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    double three = 3;
    int64_t four = 4;
    hr_array arrays[] = {ARRAY(HR_F32, x, 2, 3), VALUE(HR_F64, NULL), ARRAY(HR_F32, y, 2, 3)};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    scale_check(x, y, 6, 2); /* the default */
    arrays[1].data = &three;
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    scale_check(x, y, 6, 3);
    arrays[1] = VALUE(HR_I64, &four);
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    scale_check(x, y, 6, 4);
    good(hr_kernel_bind_scalar(kernel, "a", 5));
    arrays[1].data = NULL;
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    scale_check(x, y, 6, 5);
    assert_int_equal(device.compiles, 1);
    hr_kernel_destroy(kernel);
}

static void test_strides(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    float x[12], y[16] = {0};
    const int64_t columns[] = {1, 3}, every[] = {8, 2};
    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    hr_array arrays[] = {ARRAY(HR_F32, x, 3, 2), VALUE(HR_F32, NULL), ARRAY(HR_F32, y, 3, 2)};
    arrays[0].strides = columns; /* as Fortran has it */
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    for (int m = 0; m < 3; m++)
        for (int n = 0; n < 2; n++)
            assert_true(y[2 * m + n] == 2 * x[m + 3 * n] + 1);
    memset(y, 0, sizeof y);
    arrays[0] = ARRAY(HR_F32, x, 2, 3);
    arrays[2] = ARRAY(HR_F32, y, 2, 3);
    arrays[2].strides = every;
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    for (int i = 0; i < 16; i++) { /* rows of 8, every second column */
        const int m = i / 8, n = i % 8 / 2;
        assert_true(y[i] == (i % 2 || n > 2 ? 0 : 2 * x[3 * m + n] + 1));
    }
    hr_kernel_destroy(kernel);
}

/* ---- shapes ---- */

static void execute_scale(hr_kernel *kernel, int64_t rows, int64_t columns) {
    static float x[4096 * 4], y[4096 * 4];
    assert_true(rows * columns <= 4096 * 4);
    for (int64_t i = 0; i < rows * columns; i++) {
        x[i] = (float)(i % 977);
        y[i] = -1;
    }
    hr_array arrays[] = {ARRAY(HR_F32, x, rows, columns), VALUE(HR_F32, NULL),
                         ARRAY(HR_F32, y, rows, columns)};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    scale_check(x, y, rows * columns, 2);
}

/* A batch that grows compiles nothing within a factor of two; every extent is right. */
static void test_a_batch_that_changes(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    execute_scale(kernel, 64, 33);
    assert_int_equal(device.compiles, 1);
    for (int rows = 65; rows < 128; rows++)
        execute_scale(kernel, rows, 33);
    execute_scale(kernel, 64, 63);
    assert_int_equal(device.compiles, 1);
    execute_scale(kernel, 128, 33);
    assert_int_equal(device.compiles, 2);
    for (int64_t rows = 0; rows < 300; rows++) /* more than are kept */
        execute_scale(kernel, rows, 33);
    const int compiles = device.compiles;
    for (int64_t rows = 250; rows < 300; rows++)
        execute_scale(kernel, rows, 33);
    assert_int_equal(device.compiles, compiles);
    hr_kernel_destroy(kernel);
}

static _Atomic int refusals, refused;

/* A code that is right at few extents only: it refuses as the emitted guard does. */
static hr_status refusing_launch(struct hr_device *self, hr_module *module, const hr_execution *execution,
                                 hr_fault *fault) {
    if (refusals-- > 0) {
        refused++;
        fault->access = HR_FAULT_EXTENTS;
        return hr_fail(HR_NOT_AVAILABLE, "not for these extents");
    }
    return counting_launch(self, module, execution, fault);
}

static void test_refused_extents_are_planned_anew(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    hr_device_ops ops = counting_ops;
    ops.launch = refusing_launch;
    device.base.ops = &ops;
    execute_scale(kernel, 64, 33);
    refusals = 1;
    refused = 0;
    execute_scale(kernel, 70, 33);
    assert_int_equal(refused, 1);
    assert_int_equal(device.compiles, 2); /* for 70 rows */
    execute_scale(kernel, 70, 33);
    execute_scale(kernel, 64, 33);
    assert_int_equal(device.compiles, 2); /* and remembered */
    device.base.ops = &counting_ops;
    hr_kernel_destroy(kernel);
}

static void test_dtypes(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel twice(x: T[N]) -> (y: T[N])\n{\n    y[n] = 2 * x[n]\n}\n");
    float x[3] = {1, 2, 3}, y[3];
    double wide[3] = {1, 2, 1.0 / 3}, got[3];
    for (int round = 0; round < 2; round++) {
        good(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F32, x, 3), ARRAY(HR_F32, y, 3)}, 2, NULL));
        good(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F64, wide, 3), ARRAY(HR_F64, got, 3)}, 2, NULL));
        for (int i = 0; i < 3; i++)
            assert_true(y[i] == 2 * x[i] && got[i] == 2 * wide[i]);
    }
    assert_int_equal(device.compiles, 2);
    bad(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F32, x, 3), ARRAY(HR_F64, got, 3)}, 2, NULL),
        HR_BAD_INPUT, "one dtype");
    hr_kernel_destroy(kernel);
}

/* ---- results that nobody wants ---- */

static const char norm_text[] = "kernel norm(x: f32[M, N]) -> (y: f32[M, N], mean: f16[M], total: f32)\n"
                                "{\n    mean[m] = sum[n](x[m, n]) / N\n    y[m, n] = x[m, n] - mean[m]\n"
                                "    total = sum[m, n](y[m, n])\n}\n";

static void test_results_left_out(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    float x[12], all[12], y[12], total = -1, again = -1;
    uint16_t mean[3], mean_again[3];
    for (int i = 0; i < 12; i++)
        x[i] = (float)(i * i) / 7;
    hr_array given = ARRAY(HR_F32, x, 3, 4), none = {.size = sizeof none};
    hr_array y_all = ARRAY(HR_F32, all, 3, 4), y_alone = ARRAY(HR_F32, y, 3, 4);
    good(hr_kernel_execute(kernel, (hr_array[]){given, y_all, ARRAY(HR_F16, mean, 3), VALUE(HR_F32, &total)},
                           4, NULL));
    good(hr_kernel_execute(kernel, (hr_array[]){given, y_alone, none, none}, 4, NULL));
    assert_memory_equal(all, y, sizeof y); /* the mean is rounded to f16 all the same */
    good(hr_kernel_execute(kernel, (hr_array[]){given, none, none, VALUE(HR_F32, &again)}, 4, NULL));
    assert_true(fabsf(again - total) < 1e-5f);
    good(hr_kernel_execute(kernel, (hr_array[]){given, none, ARRAY(HR_F16, mean_again, 3), none}, 4, NULL));
    assert_memory_equal(mean, mean_again, sizeof mean);
    bad(hr_kernel_execute(kernel, (hr_array[]){given, none, none, none}, 4, NULL), HR_BAD_INPUT,
        "nothing left to compute");
    bad(hr_kernel_execute(kernel, (hr_array[]){none, y_alone, none, none}, 4, NULL), HR_BAD_INPUT, "x");
    hr_kernel_destroy(kernel);
    kernel = load("kernel count(i: i32[N], w: f32[N]) -> (sums: f32[K], y: f32[N])\n"
                  "{\n    sums[i[n]] += w[n]\n    y[n] = sums[i[n]]\n}\n");
    int32_t at[2] = {1, 0};
    float w[2] = {1, 2}, sums[2];
    good(hr_kernel_execute(
        kernel,
        (hr_array[]){ARRAY(HR_I32, at, 2), ARRAY(HR_F32, w, 2), ARRAY(HR_F32, sums, 2), ARRAY(HR_F32, y, 2)},
        4, NULL));
    assert_true(sums[0] == 2 && sums[1] == 1 && y[0] == 1 && y[1] == 2);
    good(hr_kernel_execute(
        kernel, (hr_array[]){ARRAY(HR_I32, at, 2), ARRAY(HR_F32, w, 2), ARRAY(HR_F32, sums, 2), none}, 4,
        NULL));
    bad(hr_kernel_execute(kernel,
                          (hr_array[]){ARRAY(HR_I32, at, 2), ARRAY(HR_F32, w, 2), none, ARRAY(HR_F32, y, 2)},
                          4, NULL),
        HR_BAD_INPUT, "left out");
    hr_kernel_destroy(kernel);
}

/* ---- threads ---- */

enum { THREADS = 8, ROUNDS = 60 };

static atomic_int wrong;

static hr_kernel *of_threads[2]; /* of one device */

static void *thread_run(void *context) {
    static atomic_int number;
    (void)context;
    const int own = number++;
    hr_kernel *kernel = of_threads[own % 2];
    float x[40 * 17], y[40 * 17], mean[40];
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t rows = 1 + (own * 7 + round * 3) % 40, columns = 17;
        for (int i = 0; i < rows * columns; i++)
            x[i] = (float)(own + i % 13);
        hr_array arrays[] = {ARRAY(HR_F32, x, rows, columns), ARRAY(HR_F32, y, rows, columns),
                             ARRAY(HR_F32, mean, rows)};
        if (round % 3 == 0) arrays[2] = (hr_array){.size = sizeof(hr_array)};
        if (hr_kernel_execute(kernel, arrays, 3, NULL) != HR_OK) wrong++;
        for (int m = 0; m < rows; m++) {
            double sum = 0;
            for (int n = 0; n < columns; n++)
                sum += (double)x[m * columns + n];
            if (round % 3 && fabs(mean[m] - sum / (double)columns) > 1e-4) wrong++;
            for (int n = 0; n < columns; n++)
                if (fabs(y[m * columns + n] - ((double)x[m * columns + n] - sum / (double)columns)) > 1e-4)
                    wrong++;
        }
    }
    return NULL;
}

/* With locals in memory of the call's own. */
static const char threads_text[] = "kernel centre(x: f32[M, N]) -> (y: f32[M, N], mean: f32[M])\n"
                                   "{\n    c[n] = sum[m](x[m, n]) * 0\n    mean[m] = sum[n](x[m, n] + c[n]) "
                                   "/ N\n    y[m, n] = x[m, n] - mean[m]\n}\n";

static void test_many_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (int k = 0; k < 2; k++)
        of_threads[k] = load(threads_text);
    wrong = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_run, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    for (int k = 0; k < 2; k++)
        hr_kernel_destroy(of_threads[k]);
}

/* ---- what it costs ---- */

static int allocations;

static hr_status counted_allocate(struct hr_device *self, size_t size, void **out) {
    allocations++;
    return counting_allocate(self, size, out);
}

/* What the program allocates; where a sanitizer has its own malloc nothing is counted. */
static atomic_int mallocs;

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);

void *malloc(size_t size) {
    mallocs++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    mallocs++;
    return __libc_calloc(count, size);
}
#endif

/* A plan takes hundreds of allocations and more: a batch that changes takes what remembers its shapes, and
 * nothing for a launch once they are known. */
static void test_what_a_call_allocates(void **state) {
    (void)state;
    enum { MOST = 3 * 6 + 8 }; /* three arguments are bound for their extents */
    hr_kernel *kernel = load(threads_text);
    static float x[127 * 17], y[127 * 17], mean[127];
    for (int64_t rows = 64; rows < 128; rows++) {
        hr_array arrays[] = {ARRAY(HR_F32, x, rows, 17), ARRAY(HR_F32, y, rows, 17),
                             ARRAY(HR_F32, mean, rows)};
        const int before = mallocs;
        good(hr_kernel_execute(kernel, arrays, 3, NULL));
        const int first = mallocs;
        good(hr_kernel_execute(kernel, arrays, 3, NULL));
        assert_int_equal(mallocs, first);
        if (rows > 64) assert_in_range(first - before, 0, MOST);
    }
    assert_int_equal(device.compiles, 1);
    hr_kernel_destroy(kernel);
}

/* Nothing is planned, compiled, read or allocated for shapes that are known. */
static void test_an_execution_is_only_a_launch(void **state) {
    (void)state;
    hr_kernel *kernel = load(threads_text);
    hr_device_ops ops = counting_ops;
    ops.allocate = counted_allocate;
    device.base.ops = &ops;
    float x[6] = {0}, y[6], mean[2];
    hr_array arrays[] = {ARRAY(HR_F32, x, 2, 3), ARRAY(HR_F32, y, 2, 3), ARRAY(HR_F32, mean, 2)};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    const int compiles = device.compiles, launches = device.launches;
    allocations = 0;
    for (int i = 0; i < 100; i++)
        good(hr_kernel_execute(kernel, arrays, 3, NULL));
    assert_int_equal(device.compiles, compiles);
    assert_int_equal(device.launches, launches + 100);
    assert_int_equal(allocations, 0);
    device.base.ops = &counting_ops;
    hr_kernel_destroy(kernel);
}

/* ---- what it refuses ---- */

static void test_mistakes(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    float x[6] = {0}, y[6];
    double half = 0.5;
    const hr_array in = ARRAY(HR_F32, x, 2, 3), none = {.size = sizeof none}, out = ARRAY(HR_F32, y, 2, 3);
    bad(hr_kernel_execute(NULL, &in, 1, NULL), HR_BAD_INPUT, "no kernel (NULL)");
    bad(hr_kernel_execute(kernel, NULL, 3, NULL), HR_BAD_INPUT, "NULL");
    bad(hr_kernel_execute(kernel, &in, 1, NULL), HR_BAD_INPUT, "3 arguments");
    bad(hr_kernel_execute(kernel, (hr_array[]){{0}, none, out}, 3, NULL), HR_BAD_INPUT, "size");
    bad(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F64, x, 2, 3), none, out}, 3, NULL), HR_BAD_INPUT,
        "f64");
    bad(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F32, x, 6), none, out}, 3, NULL), HR_BAD_INPUT,
        "axes");
    bad(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F32, x, 3, 2), none, out}, 3, NULL), HR_BAD_INPUT,
        "elements");
    bad(hr_kernel_execute(kernel, (hr_array[]){ARRAY(HR_F32, x, -2, 3), none, out}, 3, NULL), HR_BAD_INPUT,
        "-2");
    bad(hr_kernel_execute(kernel, (hr_array[]){in, none, ARRAY(HR_F32, x, 2, 3)}, 3, NULL), HR_BAD_INPUT,
        "share memory");
    bad(hr_kernel_execute(kernel, (hr_array[]){in, ARRAY(HR_F32, y, 1), out}, 3, NULL), HR_BAD_INPUT,
        "rank 0");
    good(hr_kernel_execute(kernel, (hr_array[]){in, none, out}, 3, NULL)); /* and works as before */
    hr_kernel_destroy(kernel);
    kernel = load("kernel shift(x: i32[N], by: i32) -> (y: i32[N])\n{\n    y[n] = x[n] + by\n}\n");
    int32_t from[2] = {1, 2}, to[2];
    hr_array whole[] = {ARRAY(HR_I32, from, 2), VALUE(HR_F64, &half), ARRAY(HR_I32, to, 2)};
    bad(hr_kernel_execute(kernel, whole, 3, NULL), HR_BAD_INPUT, "0.5");
    whole[1].data = NULL;
    bad(hr_kernel_execute(kernel, whole, 3, NULL), HR_BAD_INPUT, "scalar");
    hr_kernel_destroy(kernel);
    kernel = load("kernel pick(x: f32[N], at: i32[M]) -> (y: f32[M])\n{\n    y[m] = x[at[m]]\n}\n");
    int32_t beyond[2] = {0, 7};
    bad(hr_kernel_execute(kernel,
                          (hr_array[]){ARRAY(HR_F32, x, 6), ARRAY(HR_I32, beyond, 2), ARRAY(HR_F32, y, 2)}, 3,
                          NULL),
        HR_OUT_OF_RANGE, "value 7; its axis 0 has 6 elements");
    hr_kernel_destroy(kernel);
}

static void test_threads_out_of_range(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    fill(kernel, 3, 4, 1);
    const int most = device.base.limits.threads;
    for (int round = 0; round < 2; round++) {
        hr_prepare_options options = {.size = sizeof options, .threads = round ? most + 1 : -1};
        char words[64];
        snprintf(words, sizeof words, "threads is %d; there are 1 to %d", options.threads, most);
        bad(hr_kernel_prepare(kernel, &options), HR_BAD_INPUT, words);
    }
    good(hr_kernel_prepare(kernel, &(hr_prepare_options){.size = sizeof(hr_prepare_options), .threads = 1}));
    hr_kernel_destroy(kernel);
}

/* ---- shapes as arithmetic ---- */

static int64_t evaluate(const hr_shape_step *steps, int count, const int64_t *extents) {
    int64_t stack[64];
    int top = 0;
    for (int i = 0; i < count; i++) {
        if (steps[i].op == HR_SHAPE_NUMBER || steps[i].op == HR_SHAPE_EXTENT) {
            stack[top++] = steps[i].op == HR_SHAPE_NUMBER ? steps[i].value : extents[steps[i].value];
            continue;
        }
        const int64_t right = stack[--top], left = stack[--top];
        stack[top++] = steps[i].op == HR_SHAPE_ADD   ? left + right
                       : steps[i].op == HR_SHAPE_SUB ? left - right
                       : steps[i].op == HR_SHAPE_MUL ? left * right
                                                     : left / right;
    }
    assert_int_equal(top, 1);
    return stack[0];
}

static void test_shape_is_arithmetic(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel odd(x: f32[2 * N + 1, (M - 3) * N, 5], s: f32) -> (y: f32[N // 2])\n"
                             "{\n    y[i] = s * x[i, 0, 4]\n}\n");
    hr_shape_step steps[16];
    int64_t extents[2], sizes[3];
    int count = 0;
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++)
        extents[e] = strcmp(hr_kernel_extent_name(kernel, e), "N") == 0 ? 7 : 10;
    const int64_t right[] = {15, 49, 5};
    for (int axis = 0; axis < 3; axis++) {
        good(hr_argument_shape(kernel, 0, axis, NULL, 0, &count));
        assert_true(count > 0 && count <= 16);
        good(hr_argument_shape(kernel, 0, axis, steps, 16, &count));
        assert_true(evaluate(steps, count, extents) == right[axis]);
    }
    assert_int_equal(count, 1); /* "5" */
    good(hr_argument_sizes(kernel, 0, extents, sizes));
    assert_memory_equal(sizes, right, sizeof right);
    good(hr_argument_sizes(kernel, 2, extents, sizes));
    assert_true(sizes[0] == 3);
    bad(hr_argument_shape(kernel, 0, 0, steps, 2, &count), HR_BAD_INPUT, "room for 2");
    bad(hr_argument_shape(kernel, 0, 3, steps, 16, &count), HR_BAD_INPUT, "3 axes");
    bad(hr_argument_shape(kernel, 1, 0, steps, 16, &count), HR_BAD_INPUT, "0 axes");
    bad(hr_argument_shape(kernel, 3, 0, steps, 16, &count), HR_BAD_INPUT, "3 arguments");
    for (int e = 0; e < 2; e++)
        extents[e] = 1;
    bad(hr_argument_sizes(kernel, 0, extents, sizes), HR_BAD_INPUT, "never negative");
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_by_position),
        TEST(test_strides),
        TEST(test_a_batch_that_changes),
        TEST(test_refused_extents_are_planned_anew),
        TEST(test_dtypes),
        TEST(test_results_left_out),
        TEST(test_many_threads),
        TEST(test_an_execution_is_only_a_launch),
        TEST(test_what_a_call_allocates),
        TEST(test_mistakes),
        TEST(test_threads_out_of_range),
        TEST(test_shape_is_arithmetic),
    };
    return cmocka_run_group_tests(tests, start, end);
}
