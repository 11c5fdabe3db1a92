/* The whole way from text to a measured, checked result, on the CPU with a cache of its own; and mutants of
 * right results, which the check must catch. */
#define _GNU_SOURCE
#include "headroom.h"

#include "base/dtype.h"
#include "device/device_cpu.h"
#include "run/kernel.h"
#include "support/run_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void bind(hr_kernel *kernel, const char *name, hr_dtype dtype, void *data, int rank,
                 const int64_t *shape, const int64_t *strides) {
    hr_array array = {
        .size = sizeof array, .data = data, .dtype = dtype, .rank = rank, .shape = shape, .strides = strides};
    good(hr_kernel_bind(kernel, name, &array));
}

/* ---- launching ---- */

static void test_launch_and_launch_again(void **state) {
    (void)state;
    float x[6] = {0, 1, 2, 3, 4, 5}, y[6], z[6];
    hr_kernel *kernel = load(scale_text);
    bind(kernel, "x", HR_F32, x, 2, SHAPE(2, 3), NULL);
    bind(kernel, "y", HR_F32, y, 2, SHAPE(2, 3), NULL);
    good(hr_kernel_launch(kernel));
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i] + 1);
    good(hr_kernel_bind_scalar(kernel, "a", 3)); /* no compile, no plan */
    bind(kernel, "y", HR_F32, z, 2, SHAPE(2, 3), NULL);
    good(hr_kernel_launch(kernel));
    for (int i = 0; i < 6; i++)
        assert_true(z[i] == 3 * x[i] + 1 && y[i] == 2 * x[i] + 1);
    assert_int_equal(device.compiles, 1);
    hr_kernel_destroy(kernel);
}

static void test_states_are_kept_by_shape(void **state) {
    (void)state;
    float x[12], y[12];
    hr_kernel *kernel = load(scale_text);
    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    for (int round = 0; round < 3; round++)
        for (int64_t rows = 2; rows <= 4; rows++) {
            memset(y, 0, sizeof y);
            bind(kernel, "x", HR_F32, x, 2, SHAPE(rows, 3), NULL);
            bind(kernel, "y", HR_F32, y, 2, SHAPE(rows, 3), NULL);
            good(hr_kernel_launch(kernel));
            for (int i = 0; i < 12; i++)
                assert_true(y[i] == (i < 3 * rows ? 2 * x[i] + 1 : 0));
        }
    assert_true(device.compiles <= 3);
    for (int64_t rows = 12; rows > 0; rows--) { /* more shapes than are kept */
        bind(kernel, "x", HR_F32, x, 2, SHAPE(rows, 1), NULL);
        bind(kernel, "y", HR_F32, y, 2, SHAPE(rows, 1), NULL);
        good(hr_kernel_launch(kernel));
    }
    hr_kernel_destroy(kernel);
}

static void test_strided_and_empty_arrays(void **state) {
    (void)state;
    float x[24], y[24];
    hr_kernel *kernel = load(scale_text);
    for (int i = 0; i < 24; i++) {
        x[i] = (float)i;
        y[i] = -1;
    }
    bind(kernel, "x", HR_F32, x, 2, SHAPE(3, 4), SHAPE(1, 6));       /* transposed, with gaps */
    bind(kernel, "y", HR_F32, y + 16, 2, SHAPE(3, 4), SHAPE(-8, 2)); /* rows backwards, every other column */
    good(hr_kernel_launch(kernel));
    for (int m = 0; m < 3; m++)
        for (int n = 0; n < 4; n++)
            assert_true(y[16 - 8 * m + 2 * n] == 2 * x[m + 6 * n] + 1);
    for (int i = 1; i < 24; i += 2)
        assert_true(y[i] == -1);
    bind(kernel, "x", HR_F32, NULL, 2, SHAPE(0, 4), NULL);
    bind(kernel, "y", HR_F32, NULL, 2, SHAPE(0, 4), NULL);
    good(hr_kernel_launch(kernel));
    hr_kernel_destroy(kernel);
}

static void test_a_fault_is_a_sentence(void **state) {
    (void)state;
    int32_t t[3] = {0, 4, 2};
    float x[10] = {0}, y[6];
    hr_kernel *kernel = load("kernel gather(t: i32[T], x: f32[V, C]) -> (y: f32[T, C])\n"
                             "{\n    y[i, c] = x[t[i], c]\n}\n");
    bind(kernel, "t", HR_I32, t, 1, SHAPE(3), NULL);
    bind(kernel, "x", HR_F32, x, 2, SHAPE(5, 2), NULL);
    bind(kernel, "y", HR_F32, y, 2, SHAPE(3, 2), NULL);
    good(hr_kernel_launch(kernel));
    t[1] = 5;
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "test.hr:3:17: "));
    assert_non_null(strstr(hr_last_error(), "`x` had the value 5; its axis 0 has 5 elements"));
    t[1] = -1;
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "value -1"));
    hr_check check;
    assert_int_equal(hr_kernel_check(kernel, 20, &check), HR_OUT_OF_RANGE);
    hr_run_result *result;
    assert_int_equal(hr_kernel_run(kernel, NULL, &result), HR_OUT_OF_RANGE);
    t[1] = 4;
    good(hr_kernel_launch(kernel));
    hr_kernel_destroy(kernel);
}

static void test_a_fault_of_a_scatter(void **state) {
    (void)state;
    int32_t t[3] = {0, 4, -7};
    float x[3] = {1, 2, 3}, y[7] = {0};
    hr_kernel *kernel = load("kernel scatter(t: i32[T], x: f32[T], y: inout f32[V])\n"
                             "{\n    y[t[i]] += x[i]\n}\n");
    bind(kernel, "t", HR_I32, t, 1, SHAPE(3), NULL);
    bind(kernel, "x", HR_F32, x, 1, SHAPE(3), NULL);
    bind(kernel, "y", HR_F32, y + 1, 1, SHAPE(5), NULL);
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
    if (!strstr(hr_last_error(), "3:7: a subscript of `y` had the value -7"))
        print_message("%s\n", hr_last_error());
    assert_non_null(
        strstr(hr_last_error(), "test.hr:3:7: a subscript of `y` had the value -7; its axis 0 has 5 "));
    assert_true(y[0] == 0 && y[6] == 0);
    hr_kernel_destroy(kernel);
}

/* ---- the check against mutants ---- */

static const char norm_text[] =
    "kernel norm(x: f32[M, N], w: f32[N], eps: f32 = 1e-5) -> (y: f32[M, N], mean: f32[M])\n"
    "{\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    d[m, n] = x[m, n] - mean[m]\n"
    "    r[m] = rsqrt(sum[n](d[m, n]^2) / N + eps)\n"
    "    y[m, n] = d[m, n] * r[m] * w[n]\n"
    "}\n";
enum { ROWS = 37, COLUMNS = 131 };
static float *norm_y(const hr_execution *execution) {
    return execution->pointers[3];
}

static float kept;
static void keep_last(const hr_execution *execution) {
    kept = norm_y(execution)[ROWS * COLUMNS - 1];
}
static void mutant_last_not_written(const hr_execution *execution) {
    norm_y(execution)[ROWS * COLUMNS - 1] = kept;
}
static void mutant_slightly_scaled(const hr_execution *execution) { /* as if eps were 1e-4 */
    for (int i = 0; i < ROWS * COLUMNS; i++)
        norm_y(execution)[i] *= 1 - 4.5e-5f;
}
static void mutant_shifted(const hr_execution *execution) { /* off by one column */
    memmove(norm_y(execution), norm_y(execution) + 1, (ROWS * COLUMNS - 1) * sizeof(float));
}
static void mutant_tail_of_rows(const hr_execution *execution) { /* the last vector of each row is garbage */
    for (int m = 0; m < ROWS; m++)
        norm_y(execution)[m * COLUMNS + COLUMNS - 1] += 0.01f;
}
static void mutant_dropped_term(const hr_execution *execution) {
    const float *x = execution->pointers[0];
    float *mean = execution->pointers[4];
    for (int m = 0; m < ROWS; m++)
        mean[m] -= x[m * COLUMNS + COLUMNS - 1] / COLUMNS;
}
static void mutant_nan(const hr_execution *execution) {
    for (int m = 0; m < ROWS; m++)
        norm_y(execution)[m * COLUMNS + 64] = NAN;
}
static void mutant_none(const hr_execution *execution) {
    (void)execution;
}

static void test_check_catches_mutants(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*before)(const hr_execution *), (*after)(const hr_execution *);
        bool ok;
    } mutants[] = {{"none", NULL, mutant_none, true},
                   {"last not written", keep_last, mutant_last_not_written, false},
                   {"slightly scaled", NULL, mutant_slightly_scaled, false},
                   {"shifted", NULL, mutant_shifted, false},
                   {"tail of rows", NULL, mutant_tail_of_rows, false},
                   {"dropped term", NULL, mutant_dropped_term, false},
                   {"nan", NULL, mutant_nan, false}};
    hr_kernel *kernel = load(norm_text);
    fill(kernel, ROWS, COLUMNS, 11);
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        hr_check check;
        device.before = mutants[i].before;
        device.after = mutants[i].after;
        good(hr_kernel_check(kernel, 0, &check));
        if (check.ok != mutants[i].ok)
            print_message("%s: error %g, tolerance %g, %s\n", mutants[i].name, check.max_error,
                          check.tolerance, check.where);
        assert_int_equal(check.ok, mutants[i].ok);
        assert_true(check.points >= 100);
        assert_true(check.ok == (check.max_error <= check.tolerance));
        assert_true(strlen(check.where) > 10);
    }
    hr_kernel_destroy(kernel);
}

static void test_check_counts_points(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_check check;
    fill(kernel, 40, 50, 1);
    good(hr_kernel_check(kernel, 60, &check));
    assert_int_equal(check.points, 60);
    good(hr_kernel_bind_extent(kernel, "M", 0));
    good(hr_kernel_fill(kernel, 1));
    good(hr_kernel_check(kernel, 0, &check)); /* nothing to be wrong about */
    assert_int_equal(check.points, 0);
    assert_true(check.ok);
    hr_kernel_destroy(kernel);
}

static void scatter_spoil(const hr_execution *execution) {
    ((float *)execution->pointers[2])[3] += 1; /* the one row that is hit */
}

static void test_check_looks_where_a_scatter_hits(void **state) {
    (void)state;
    static float dy[64], table[100000];
    static int32_t token[64];
    hr_kernel *kernel = load("kernel add(token: i32[T], dy: f32[T], table: inout f32[V])\n"
                             "{\n    table[token[t]] += dy[t]\n}\n");
    hr_check check;
    for (int t = 0; t < 64; t++) {
        dy[t] = 1;
        token[t] = 3;
    }
    bind(kernel, "token", HR_I32, token, 1, SHAPE(64), NULL);
    bind(kernel, "dy", HR_F32, dy, 1, SHAPE(64), NULL);
    bind(kernel, "table", HR_F32, table, 1, SHAPE(100000), NULL);
    good(hr_kernel_check(kernel, 40, &check));
    assert_true(check.ok);
    assert_true(table[3] == 64);
    device.after = scatter_spoil;
    good(hr_kernel_check(kernel, 40, &check));
    assert_false(check.ok);
    assert_non_null(strstr(check.where, "table[3] = 129, should be 128"));
    hr_kernel_destroy(kernel);
}

/* ---- the main job ---- */

static hr_status count_saved(void *context, hr_kernel *kernel) {
    hr_array array;
    (void)context;
    HR_TRY(hr_kernel_array(kernel, "p", &array));
    const float *p = array.data;
    for (int i = 0; i < 1000; i++)
        if (p[i] != (float)i + 1)
            return hr_fail(HR_INTERNAL, "p[%d] = %g: not one application", i, (double)p[i]);
    ++*(int *)context;
    return HR_OK;
}

static int restored;
static hr_status restore(void *context, const char *name, const hr_array *array) {
    float *p = array->data;
    assert_string_equal(name, "p");
    assert_ptr_equal(context, &restored);
    for (int i = 0; i < 1000; i++)
        p[i] = (float)i;
    restored++;
    return HR_OK;
}

static void test_inout_is_applied_once_when_saved(void **state) {
    (void)state;
    static float p[1000];
    for (int way = 0; way < 3; way++) {
        hr_kernel *kernel = load(way ? "kernel step(p: inout f32[N])\n{\n    p[i] = p[i] + 1\n}\n"
                                     : "kernel step2(p: inout f32[N])\n{\n    p[i] = 1 + p[i]\n}\n");
        int saved = 0;
        hr_run_options options = {.size = sizeof options,
                                  .tune = way == 2 ? HR_TUNE_FULL : HR_TUNE_QUICK,
                                  .seconds = 0.01,
                                  .saved = count_saved,
                                  .saved_context = &saved};
        hr_run_result *result = NULL;
        if (way == 2) {
            options.restore = restore;
            options.restore_context = &restored;
        }
        for (int i = 0; i < 1000; i++)
            p[i] = (float)i;
        bind(kernel, "p", HR_F32, p, 1, SHAPE(1000), NULL);
        good(hr_kernel_run(kernel, &options, &result));
        assert_int_equal(saved, 1);
        assert_true(result->verified.ok);
        hr_run_result_destroy(result);
        hr_kernel_destroy(kernel);
    }
}

static void test_run_says_everything(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_run_options options = {.size = sizeof options, .tune = HR_TUNE_QUICK, .seconds = 0.05};
    hr_run_result *result = NULL;
    fill(kernel, 301, 515, 1);
    good(hr_kernel_run(kernel, &options, &result));
    hr_kernel_destroy(kernel); /* the result stands on its own */
    assert_string_equal(result->kernel, "norm");
    assert_string_equal(result->file, "test.hr");
    assert_string_equal(result->device_kind, "cpu");
    assert_int_equal(result->extent_count, 2);
    assert_string_equal(result->extent_names[0], "M");
    assert_int_equal(result->extents[0], 301);
    assert_int_equal(result->extents[1], 515);
    assert_true(result->seconds.runs >= 5);
    assert_true(result->seconds.min > 0 && result->seconds.min <= result->seconds.median &&
                result->seconds.median <= result->seconds.max);
    assert_true(result->verify_done && result->verified.ok && result->verified.points > 100);
    assert_int_equal((int)result->floor.bytes, 301 * 515 * 8 + 515 * 4 + 301 * 4 + 4); /* eps, too */
    assert_string_equal(result->floor.bound, "memory");
    assert_true(result->floor.seconds > result->floor.bytes / 25e9 &&
                result->floor.seconds < result->floor.bytes / 15e9);
    assert_true(fabs(result->headroom * result->roof_fraction - 1) < 1e-12);
    assert_true(result->stage_count >= 1 && result->stages[0].bytes > 0 &&
                strlen(result->stages[0].shape) > 0);
    assert_true(strlen(result->plan_summary) > 0);
    assert_true(strlen(result->source) > 100);
    assert_true(result->variant_count >= 1);
    int chosen = 0;
    for (int v = 0; v < result->variant_count; v++)
        chosen += result->variants[v].chosen;
    assert_int_equal(chosen, 1);
    assert_true(result->roof.copy == 20e9);
    hr_run_result_destroy(result);
    hr_run_result_destroy(NULL);
}

static double peak_bytes(void) {
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lf", &kilobytes) == 1) break;
    if (file) fclose(file);
    return 1024 * kilobytes;
}

/* From now on. */
static void peak_reset(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) fputs("5", file);
    if (file) fclose(file);
}

/* The clock shows a nanosecond a point of all extents. */
static hr_status time_by_points(struct hr_device *self, hr_module *module, const hr_execution *execution,
                                double *seconds) {
    HR_TRY(counting_time(self, module, execution, seconds));
    *seconds = 1e-9;
    for (int64_t e = 0; e < execution->extent_count; e++)
        *seconds *= (double)execution->extents[e];
    return HR_OK;
}

/* A pass a statement would keep 128 MB of locals: it is timed on a part, and the run takes the arrays and 64
 * MB. */
static void test_unfused_takes_little_memory(void **state) {
    (void)state;
    static const char text[] = "kernel gate(x: bf16[M, N], w: bf16[N, M]) -> (y: bf16[M, N])\n"
                               "{\n    g[m, n] = exp(-x[m, n]^2)\n    y[m, n] = g[m, n] * x[m, n]\n}\n";
    const double arrays = 2 * 2 * 4096 * 8000.0;
    hr_run_options options = {.size = sizeof options, .seconds = 0.05};
    hr_run_result *result;
    hr_device_ops ops = counting_ops;
    ops.time = time_by_points;
    device.base.ops = &ops;
    for (int cut = 0; cut < 2; cut++) { /* w has M as its second axis: no part of M is the beginning of w */
        char part[256];
        snprintf(part, sizeof part, "%s", text);
        if (cut) memcpy(strstr(part, ", w: bf16[N, M]"), "               ", 15);
        hr_kernel *kernel = load(part);
        fill(kernel, cut ? 4096 : 512, cut ? 8000 : 32768, 1);
        peak_reset();
        double before = peak_bytes();
        good(hr_kernel_run(kernel, &options, &result));
        assert_true(result->verified.ok);
        if (cut) {
            assert_true(result->unfused.runs > 0);
            assert_true(result->unfused_part == 1.0 / 4);
            assert_true(fabs(result->unfused.median / result->seconds.median - 1) < 1e-9);
#ifndef __SANITIZE_THREAD__ /* whose own memory counts, too */
            assert_true(peak_bytes() <
                        before + arrays / 2 + 64e6); /* the result's half was not touched yet */
#endif
        } else
            assert_int_equal(result->unfused.runs, 0);
        hr_run_result_destroy(result);
        hr_kernel_destroy(kernel);
    }
    device.base.ops = &counting_ops;
}

static void test_tuning_is_remembered(void **state) {
    (void)state;
    hr_run_options options = {.size = sizeof options, .tune = HR_TUNE_QUICK, .seconds = 0.01};
    const int64_t l1 = device.base.limits.l1_bytes;
    int tried[4];
    for (int run = 0; run < 4; run++) {
        device.base.compiler = run == 2 ? "another" : "one"; /* nothing is known of it */
        device.base.limits.l1_bytes = run == 3 ? 1024 : l1;  /* other code is emitted: nor of that */
        hr_kernel *kernel = load(norm_text);
        hr_run_result *result = NULL;
        fill(kernel, 123, 457, 1);
        good(hr_kernel_run(kernel, &options, &result));
        assert_int_equal(result->tune.cached, run == 1 && result->tune.tried > 0);
        tried[run] = result->tune.tried;
        hr_run_result_destroy(result);
        hr_kernel_destroy(kernel);
    }
    device.base.compiler = NULL;
    device.base.limits.l1_bytes = l1;
    assert_int_equal(tried[0], tried[1]);
}

/* Without random numbers a tile, which three candidates of a map are about, is nothing to choose. */
static void test_same_code_is_not_timed_twice(void **state) {
    (void)state;
    hr_kernel *kernel = load(scale_text);
    const int candidates = 13;
    hr_run_options options = {.size = sizeof options, .tune = HR_TUNE_FULL, .seconds = 0.01};
    hr_run_result *result = NULL;
    fill(kernel, 50, 70, 1);
    good(hr_kernel_run(kernel, &options, &result));
    assert_in_range(result->tune.tried, 2, candidates - 3);
    hr_run_result_destroy(result);
    hr_kernel_destroy(kernel);
}

static bool stop(void *context, const char *what, double done, double total) {
    (void)what;
    (void)done;
    (void)total;
    return --*(int *)context > 0;
}

static void test_run_can_be_stopped(void **state) {
    (void)state;
    for (int steps = 1; steps < 60; steps += 19) {
        hr_kernel *kernel = load(scale_text);
        int left = steps;
        hr_run_options options = {.size = sizeof options,
                                  .tune = HR_TUNE_QUICK,
                                  .seconds = 0.05,
                                  .progress = stop,
                                  .progress_context = &left};
        hr_run_result *result = NULL;
        fill(kernel, 10 + steps, 33, 1);
        assert_int_equal(hr_kernel_run(kernel, &options, &result), HR_CANCELLED);
        assert_null(result);
        good(hr_kernel_launch(kernel)); /* and the kernel still works */
        hr_kernel_destroy(kernel);
        if (left > 0) break;
    }
}

static void test_words_without_arrays(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    const char *plan, *source, *header;
    hr_floor floor;
    good(hr_kernel_bind_extent(kernel, "N", 1000));
    good(hr_kernel_plan(kernel, &plan));
    good(hr_kernel_source(kernel, &source, &header));
    good(hr_kernel_floor(kernel, &floor));
    assert_true(strlen(plan) > 20 && strlen(source) > 100 && strlen(header) > 20);
    assert_null(strstr(source, HR_ENTRY_NAME));
    assert_true(floor.seconds > 0);
    assert_int_equal(device.compiles, 0);
    hr_kernel_destroy(kernel);
}

/* ---- what it costs ---- */

/* All of it lies in the cache: the compiler is gone. */
static void test_a_second_start_compiles_nothing(void **state) {
    (void)state;
    static float x[64 * 65], y[64 * 65], mean[64], w[65];
    char *path = ((hr_device_cpu *)device.real)->compiler.path,
         there[sizeof((hr_device_cpu *)0)->compiler.path];
    strcpy(there, path);
    for (int start = 0; start < 3; start++) {
        hr_kernel *kernel = load(norm_text);
        bind(kernel, "x", HR_F32, x, 2, SHAPE(64, 65), NULL);
        bind(kernel, "w", HR_F32, w, 1, SHAPE(65), NULL);
        bind(kernel, "y", HR_F32, y, 2, SHAPE(64, 65), NULL);
        bind(kernel, "mean", HR_F32, mean, 1, SHAPE(64), NULL);
        good(hr_kernel_launch(kernel));
        hr_kernel_destroy(kernel);
        strcpy(path, "/nowhere/cc");
    }
    strcpy(path, there);
}

static hr_status empty_launch(struct hr_device *self, hr_module *module, const hr_execution *execution,
                              hr_fault *fault) {
    (void)self;
    (void)module;
    (void)execution;
    (void)fault;
    return HR_OK;
}

static int allocations;

static hr_status counted_allocate(struct hr_device *self, size_t size, void **out) {
    allocations++;
    return counting_allocate(self, size, out);
}

/* Nothing is planned, compiled or allocated anew where nothing has changed. */
static void test_a_launch_is_only_a_launch(void **state) {
    (void)state;
    float x[6] = {0}, y[6];
    hr_device_ops ops = counting_ops;
    ops.launch = empty_launch;
    ops.allocate = counted_allocate;
    hr_kernel *kernel = load(scale_text);
    bind(kernel, "x", HR_F32, x, 2, SHAPE(2, 3), NULL);
    bind(kernel, "y", HR_F32, y, 2, SHAPE(2, 3), NULL);
    good(hr_kernel_launch(kernel));
    const hr_prepared *ready = kernel->current;
    const int compiles = device.compiles;
    const char *plan = ready->plan->summary;
    device.base.ops = &ops;
    for (int i = 0; i < 100; i++)
        good(hr_kernel_launch(kernel));
    device.base.ops = &counting_ops;
    assert_ptr_equal(kernel->current, ready);
    assert_ptr_equal(ready->plan->summary, plan);
    assert_int_equal(device.compiles, compiles);
    assert_int_equal(allocations, 0);
    hr_kernel_destroy(kernel);
}

/* A run is not faster than starting its threads: where it is, these start sooner than the roof says. */
static void test_not_below_a_launch(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_run_options options = {.size = sizeof options, .repeat = 5, .seconds = 0.01};
    hr_run_result *result;
    fill(kernel, 301, 515, 1);
    good(hr_kernel_roof(kernel, NULL, NULL));
    kernel->roof.launch = 3600;
    good(hr_kernel_run(kernel, &options, &result));
    assert_true(result->floor.seconds < 60); /* memory's, by the roof that is given */
    assert_true(strcmp(result->floor.bound, "launch") != 0 || result->floor.seconds <= result->seconds.min);
    hr_run_result_destroy(result);
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_launch_and_launch_again),
        TEST(test_states_are_kept_by_shape),
        TEST(test_strided_and_empty_arrays),
        TEST(test_a_fault_is_a_sentence),
        TEST(test_a_fault_of_a_scatter),
        TEST(test_check_catches_mutants),
        TEST(test_check_counts_points),
        TEST(test_check_looks_where_a_scatter_hits),
        TEST(test_not_below_a_launch),
        TEST(test_inout_is_applied_once_when_saved),
        TEST(test_run_says_everything),
        TEST(test_unfused_takes_little_memory),
        TEST(test_tuning_is_remembered),
        TEST(test_same_code_is_not_timed_twice),
        TEST(test_run_can_be_stopped),
        TEST(test_words_without_arrays),
        TEST(test_a_second_start_compiles_nothing),
        TEST(test_a_launch_is_only_a_launch),
    };
    return cmocka_run_group_tests(tests, start, end);
}
