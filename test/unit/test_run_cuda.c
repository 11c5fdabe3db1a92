/* Kernels on the CUDA device over a fake driver: the main job, arrays in memory that the host reaches only by
 * copies, launches that nobody waits for. The test computes what the kernels would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "support/fake_device.h"

#include "base/dtype.h"
#include "run/check_compare.h"
#include "run/check_guard.h"
#include "run/kernel.h"

static const char text[] =
    "kernel twice(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = 2 * x[m, n] }\n"
    "kernel add(x: inout f32[N], s: f32) { x[n] = x[n] + s }\n"
    "kernel pick(table: f32[V], at: i32[N]) -> (y: f32[N]) { y[n] = table[at[n]] }\n"
    "kernel norm(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = x[m, n] / sum[k](x[m, k]^2) }\n"
    "kernel product(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * w[n, k]) }\n";

static hr_device *device;
static hr_kernel *kernel;
static double spoil;        /* added to the last element of what `twice` computes */
static hr_fault fault_next; /* what `pick` leaves */

/* ---- what the emitted kernels would do, from their words (base/launch.h) ---- */

static void fill_kernel(const char *name, const int64_t *words) {
    static const struct {
        const char *name;
        hr_dtype dtype;
    } ways[] = {{"hr_fill_f32", HR_F32}, {"hr_fill_whole4", HR_I32}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(name, ways[i].name) != 0) continue;
        hr_filling filling = {
            .seed = (uint64_t)words[3], .low = words[4], .high = words[5], .magnitude = words[6] != 0};
        hr_fill_array(ways[i].dtype, (void *)(intptr_t)words[0], words[2], &filling);
    }
}

/* Of src/device/cuda/check_kernels.cuh, as the host does it. */
static void digest_kernel(const int64_t *words) { /* data, a scalar, bytes, out */
    uint64_t *out = (uint64_t *)(intptr_t)words[3];
    memset(out, 0, HR_COMPARE_BLOCKS * sizeof *out);
    *out = hr_digest_host((const void *)(intptr_t)words[0], words[2]);
}

static void compare_kernel(const int64_t *words) { /* got expected, error and a scalar, count format, out */
    struct {
        double apart, allowed;
        int64_t at;
    } *out = (void *)(intptr_t)words[6];
    hr_suspect worst[HR_COMPARE_BLOCKS];
    hr_comparing comparing = {HR_F32, (const void *)(intptr_t)words[0], (const void *)(intptr_t)words[1],
                              words[4], 0};
    memcpy(&comparing.error, &words[2], sizeof comparing.error);
    hr_compare_host(&comparing, worst);
    for (int block = 0; block < HR_COMPARE_BLOCKS; block++) {
        out[block].apart = worst[block].score;
        out[block].allowed = 1;
        out[block].at = worst[block].at;
    }
}

static void twice_kernel(const int64_t *words) { /* x y, 2 scalars, M N, 2 + 2 strides */
    const float *x = (const float *)(intptr_t)words[0];
    float *y = (float *)(intptr_t)words[1];
    for (int64_t m = 0; m < words[4]; m++)
        for (int64_t n = 0; n < words[5]; n++)
            y[m * words[8] + n * words[9]] = 2 * x[m * words[6] + n * words[7]];
    y[(words[4] - 1) * words[8] + (words[5] - 1) * words[9]] += (float)spoil;
}

static int64_t grid_rows; /* that `norm` was launched for */

static void norm_kernel(const int64_t *words) { /* x y, 2 scalars, M N, 2 + 2 strides */
    grid_rows = words[4];
}

static void add_kernel(const int64_t *words) { /* x -, 2 scalars, N, stride */
    float *x = (float *)(intptr_t)words[0];
    double s;
    memcpy(&s, &words[3], sizeof s);
    for (int64_t n = 0; n < words[4]; n++)
        x[n * words[5]] += (float)s;
}

static void pick_kernel(const int64_t *words) { /* table at y, 3 scalars, V N, 3 strides, scratch, fault */
    const float *table = (const float *)(intptr_t)words[0];
    const int32_t *at = (const int32_t *)(intptr_t)words[1];
    float *y = (float *)(intptr_t)words[2];
    for (int64_t n = 0; n < words[7]; n++)
        if (at[n] >= 0 && at[n] < words[6]) y[n] = table[at[n]];
    if (fault_next.access) *(hr_fault *)(intptr_t)words[12] = fault_next;
}

static void softmax_kernel(const int64_t *words) { /* x y, 2 scalars, M N */
    const uint16_t *x = (const uint16_t *)(intptr_t)words[0];
    uint16_t *y = (uint16_t *)(intptr_t)words[1];
    const int64_t columns = words[5];
    for (int64_t m = 0; m < words[4]; m++) {
        double total = 0;
        for (int64_t n = 0; n < columns; n++)
            total += exp(hr_dtype_load(HR_BF16, x, (size_t)(m * columns + n)));
        for (int64_t n = 0; n < columns; n++)
            hr_dtype_store(HR_BF16, y, (size_t)(m * columns + n),
                           exp(hr_dtype_load(HR_BF16, x, (size_t)(m * columns + n))) / total + spoil);
    }
}

static void run_kernel(const char *name, void *words) {
    if (strcmp(hr_kernel_name(kernel), "softmax") == 0)
        softmax_kernel(words);
    else if (strncmp(name, "hr_fill", 7) == 0)
        fill_kernel(name, words);
    else if (strcmp(name, "hr_digest") == 0)
        digest_kernel(words);
    else if (strcmp(name, "hr_compare_f32") == 0)
        compare_kernel(words);
    else if (strcmp(name, "stage_0") != 0 || strcmp(hr_kernel_name(kernel), "product") == 0)
        return;
    else if (strcmp(hr_kernel_name(kernel), "twice") == 0)
        twice_kernel(words);
    else if (strcmp(hr_kernel_name(kernel), "norm") == 0)
        norm_kernel(words);
    else if (strcmp(hr_kernel_name(kernel), "add") == 0)
        add_kernel(words);
    else
        pick_kernel(words);
}

/* ---- around a test ---- */

static int set_up(void **state) {
    if (fake_set_up(state)) return -1;
    spoil = 0;
    fault_next = (hr_fault){0};
    fake->kernel = run_kernel;
    return hr_device_open("cuda", &device) == HR_OK ? 0 : -1;
}

static int tear_down(void **state) {
    hr_kernel_destroy(kernel);
    kernel = NULL;
    hr_device_destroy(device);
    bool clean = fake_living() == 0;
    return fake_tear_down(state) || !clean;
}

static void load(const char *name) {
    if (hr_kernel_load(device, "test.hr", text, sizeof text - 1, name, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
}

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* Memory of the device that holds `count` elements of `values`. */
static void *put(const void *values, size_t count, size_t size) {
    void *data = NULL;
    good(hr_device_allocate(device, count * size, &data));
    good(hr_device_upload(device, data, values, count * size));
    return data;
}

static void bind(const char *name, void *data, hr_dtype dtype, int rank, const int64_t *shape,
                 const int64_t *strides) {
    hr_array array = {sizeof array, data, dtype, rank, shape, strides};
    good(hr_kernel_bind(kernel, name, &array));
}

/* ---- the main job ---- */

static void test_run(void **state) {
    (void)state;
    hr_run_result *result = NULL;
    load("twice");
    good(hr_kernel_bind_extent(kernel, "M", 37));
    good(hr_kernel_bind_extent(kernel, "N", 129));
    good(hr_kernel_fill(kernel, 1));
    good(hr_kernel_run(kernel, NULL, &result));
    assert_string_equal(result->device_kind, "cuda");
    assert_true(result->verify_done && result->verified.ok);
    assert_true(result->verified.points >= 512);
    assert_int_equal(result->verified.compared, 37 * 129);
    assert_true(result->seconds.median > 0.00199 && result->seconds.median < 0.00201);
    assert_non_null(strstr(result->source, "__global__"));
    assert_int_equal(result->roof.threads, 132);
    hr_run_result_destroy(result);

    spoil = 0.25; /* a corner, which is always among the elements that are looked at */
    good(hr_kernel_run(kernel, NULL, &result));
    assert_true(result->verify_done && !result->verified.ok);
    assert_non_null(strstr(result->verified.where, "y[36, 128]"));
    hr_run_result_destroy(result);
}

/* Arrays by position on the caller's stream: queued, nothing waited for, and a fault told by the next call.
 */
static void test_execute(void **state) {
    (void)state;
    int mine, other;
    const float x[] = {1, 2, 3, 4, 5, 6};
    float y[6];
    void *from, *to;
    load("twice");
    from = put(x, 6, sizeof *x);
    to = put(x, 6, sizeof *x);
    const int64_t shape[] = {2, 3};
    hr_array arrays[] = {{sizeof *arrays, from, HR_F32, 2, shape, NULL},
                         {sizeof *arrays, to, HR_F32, 2, shape, NULL}};
    good(hr_kernel_execute(kernel, arrays, 2, &mine));
    fake->launch_count = 0;
    const int compiles = fake->compiles;
    good(hr_kernel_execute(kernel, arrays, 2, &mine));
    good(hr_kernel_execute(kernel, arrays, 2, &other));
    good(hr_kernel_execute(kernel, arrays, 2, NULL));
    assert_int_equal(fake->launch_count, 3);
    assert_int_equal(fake->compiles, compiles);
    assert_ptr_equal(fake->launches[0].stream, &mine);
    assert_ptr_equal(fake->launches[1].stream, &other);
    assert_true(fake->launches[2].stream && fake->launches[2].stream != &mine &&
                fake->launches[2].stream != &other);
    good(hr_device_download(device, y, to, sizeof y));
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i]);
    const int64_t longer[] = {3, 2};
    arrays[0].shape = arrays[1].shape = longer;
    good(hr_kernel_execute(kernel, arrays, 2, NULL));
    hr_device_release(device, from, sizeof x);
    hr_device_release(device, to, sizeof x);
}

/* A batch that changes is a launch of another grid: within a factor of two nothing is planned or compiled. An
 * extent that is a number in the code is. */
static void test_execute_at_other_extents(void **state) {
    (void)state;
    enum { COLUMNS = 129, ROWS = 127 };
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    load("norm");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)i;
    void *from = put(x, ROWS * COLUMNS, sizeof *x), *to = put(y, ROWS * COLUMNS, sizeof *y);
    int compiles = 0;
    for (int64_t rows = 64; rows <= ROWS; rows++) {
        const int64_t shape[] = {rows, COLUMNS};
        hr_array arrays[] = {{sizeof *arrays, from, HR_F32, 2, shape, NULL},
                             {sizeof *arrays, to, HR_F32, 2, shape, NULL}};
        fake->launch_count = 0;
        good(hr_kernel_execute(kernel, arrays, 2, NULL));
        if (rows == 64) compiles = fake->compiles;
        assert_int_equal(fake->launch_count, 1);
        assert_true(fake->launches[0].grid[0] >= rows / 8 && fake->launches[0].grid[0] <= rows);
        assert_int_equal(grid_rows, rows); /* as the kernel is told */
    }
    assert_int_equal(fake->compiles, compiles);
    const int64_t narrow[] = {64, COLUMNS - 1};
    hr_array arrays[] = {{sizeof *arrays, from, HR_F32, 2, narrow, NULL},
                         {sizeof *arrays, to, HR_F32, 2, narrow, NULL}};
    good(hr_kernel_execute(kernel, arrays, 2, NULL));
    assert_int_equal(fake->compiles, compiles + 1);
    hr_device_release(device, from, sizeof x);
    hr_device_release(device, to, sizeof y);
}

static void test_execute_leaves_its_axis(void **state) {
    (void)state;
    const float table[] = {10, 20};
    const int32_t at[] = {1, 7};
    void *tables, *places, *to;
    const int64_t two[] = {2};
    load("pick");
    tables = put(table, 2, sizeof *table);
    places = put(at, 2, sizeof *at);
    to = put(table, 2, sizeof *table);
    const hr_array arrays[] = {{sizeof *arrays, tables, HR_F32, 1, two, NULL},
                               {sizeof *arrays, places, HR_I32, 1, two, NULL},
                               {sizeof *arrays, to, HR_F32, 1, two, NULL}};
    fault_next = (hr_fault){1, 7};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    assert_int_equal(hr_device_synchronise(device), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "7"));
    fault_next = (hr_fault){0};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
    good(hr_device_synchronise(device));
    hr_device_release(device, tables, sizeof table);
    hr_device_release(device, places, sizeof at);
    hr_device_release(device, to, sizeof table);
}

/* An element that no thread writes shows, whatever lay there. */
static void leave_alone(const char *name, void *words) {
    if (strncmp(name, "hr_fill", 7) == 0) fill_kernel(name, words);
}

static void test_unwritten(void **state) {
    (void)state;
    hr_check check;
    load("twice");
    good(hr_kernel_bind_extent(kernel, "M", 3));
    good(hr_kernel_bind_extent(kernel, "N", 5));
    good(hr_kernel_fill(kernel, 1));
    fake->kernel = leave_alone;
    good(hr_kernel_check(kernel, 0, &check));
    assert_false(check.ok);
}

/* A graph runs whenever its owner likes: what it has captured writes to scratch that no other call shares. */
static void test_scratch_of_graphs(void **state) {
    (void)state;
    enum { ROWS = 4096, COLUMNS = 8, SCRATCH = 9 }; /* the word behind 2 arrays, 2 extents and 3 strides */
    static const char column[] = "kernel column(x: f32[M, N]) -> (y: f32[N]) { y[n] = sum[m](x[m, n]) }\n";
    static const unsigned long long graphs[] = {0, 7, 7, 8, 0};
    static float x[ROWS * COLUMNS];
    const int64_t shape[] = {ROWS, COLUMNS};
    int64_t scratch[5];
    fake->kernel = leave_alone;
    good(hr_kernel_load(device, "column.hr", column, sizeof column - 1, NULL, &kernel));
    void *from = put(x, ROWS * COLUMNS, sizeof *x), *to = put(x, COLUMNS, sizeof *x);
    const hr_array arrays[] = {{sizeof *arrays, from, HR_F32, 2, shape, NULL},
                               {sizeof *arrays, to, HR_F32, 1, shape + 1, NULL}};
    for (int i = 0; i < 5; i++) {
        fake->capture = graphs[i];
        fake->launch_count = 0;
        good(hr_kernel_execute(kernel, arrays, 2, NULL));
        scratch[i] = fake->launches[0].words[SCRATCH];
    }
    assert_true(scratch[0] && scratch[1] && scratch[3]);
    assert_true(scratch[1] != scratch[0] && scratch[3] != scratch[0] && scratch[3] != scratch[1]);
    assert_true(scratch[2] == scratch[1] && scratch[4] == scratch[0]);
    hr_device_release(device, from, sizeof x);
    hr_device_release(device, to, COLUMNS * sizeof *x);
}

/* Views that go backwards and leave gaps are looked at where they lie. */
static void test_views(void **state) {
    (void)state;
    enum { M = 40, N = 300 };
    static float values[2 * M * N];
    hr_check check;
    const int64_t shape[] = {M, N}, backwards[] = {-2 * N, 2}, columns[] = {1, M};
    for (int i = 0; i < 2 * M * N; i++)
        values[i] = (float)(i % 1009);
    float *x = put(values, 2 * M * N, sizeof *values), *y = put(values, M * N, sizeof *values);
    load("twice");
    bind("x", x + 2 * N * (M - 1), HR_F32, 2, shape, backwards);
    bind("y", y, HR_F32, 2, shape, columns);
    good(hr_kernel_check(kernel, 2000, &check));
    if (!check.ok) fail_msg("%s", check.where);
    hr_device_release(device, x, sizeof values);
    hr_device_release(device, y, sizeof values / 2);
}

/* ---- inout arrays ---- */

static void test_restore(void **state) {
    (void)state;
    enum { N = 1000 };
    float values[2 * N], back[2 * N];
    const int64_t shape[] = {N}, stride[] = {2};
    hr_prepare_options options = {.size = sizeof options, .tune = HR_TUNE_QUICK};
    for (int i = 0; i < 2 * N; i++)
        values[i] = (float)i;
    float *x = put(values, 2 * N, sizeof *values);
    load("add");
    bind("x", x, HR_F32, 1, shape, stride);
    good(hr_kernel_bind_scalar(kernel, "s", 3));
    good(hr_kernel_prepare(kernel, &options));
    good(hr_device_download(device, back, x, sizeof back));
    assert_memory_equal(back, values, sizeof back);
    good(hr_kernel_launch(kernel));
    good(hr_device_download(device, back, x, sizeof back));
    for (int i = 0; i < 2 * N; i++)
        assert_true(back[i] == values[i] + (i % 2 ? 0 : 3));
    hr_device_release(device, x, sizeof values);
}

/* ---- what the assembler says ---- */

/* Prepares `product` where sources that have the text `of` get this log, with the cache folder `cache`. The
 * plan's words. */
static const char *plan_with(const char *log, const char *of, const char *cache) {
    const char *plan = NULL;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/%s", fake_folder, cache);
    setenv("HEADROOM_CACHE", folder, 1);
    hr_kernel_destroy(kernel);
    fake->nvrtc_log = log;
    fake->log_of = of;
    load("product");
    good(hr_kernel_bind_extent(kernel, "M", 4096));
    good(hr_kernel_bind_extent(kernel, "N", 4096));
    good(hr_kernel_bind_extent(kernel, "K", 4096));
    good(hr_kernel_fill(kernel, 1));
    fake->compiles = 0;
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_plan(kernel, &plan));
    return plan;
}

/* A tile that the assembler remarks on, or that spills, is not taken; what was taken is known without a
 * compiler. Where all are like that, the first is. */
static void test_refused_tiles(void **state) {
    static const char remark[] = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
                                 "instructions are serialized due to ...\n";
    static const char spill[] =
        "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n";
    static const char own[] = "tile_m = 128, tile_n = 256,";
    (void)state;
    const char *plan = plan_with(NULL, NULL, "good");
    assert_null(strstr(plan, "refused"));
    assert_non_null(strstr(plan, "tiles of 128 x 256"));
    assert_null(strstr(plan_with(spill, NULL, "good"), "refused")); /* the cache has what was good */

    plan = plan_with(remark, own, "remark");
    assert_non_null(strstr(plan, "refused: default: the assembler remarks C7510"));
    assert_null(strstr(plan, "tiles of 128 x 256"));
    assert_non_null(strstr(plan, "chosen: tile m"));
    plan = plan_with(spill, own, "spill");
    assert_non_null(strstr(plan, "refused: default: its registers spill: 8 bytes are stored and 12 read"));
    plan = plan_with(spill, NULL, "all");
    assert_non_null(strstr(plan, "tiles of 128 x 256"));
    assert_int_equal(fake->compiles, 9); /* eight refusals */
}

/* ---- launches ---- */

static void test_launch_only_queues(void **state) {
    (void)state;
    load("twice");
    good(hr_kernel_bind_extent(kernel, "M", 4));
    good(hr_kernel_bind_extent(kernel, "N", 4));
    good(hr_kernel_fill(kernel, 1));
    good(hr_kernel_launch(kernel));
    *fake->calls = 0;
    good(hr_kernel_launch(kernel));
    assert_string_equal(fake->calls,
                        "cuCtxGetCurrent cuCtxPushCurrent_v2 cuLaunchKernelEx cuCtxPopCurrent_v2 ");
    *fake->calls = 0;
    good(hr_device_synchronise(device));
    assert_non_null(strstr(fake->calls, "cuStreamSynchronize"));
}

/* The number that the emitted code gives to its one checked subscript. */
static int64_t access_of(const hr_prepared *prepared) {
    const char *check = strstr(prepared->loadable.source.data, ", n_V, ");
    assert_non_null(check);
    return strtoll(check + 7, NULL, 10);
}

static void test_fault(void **state) {
    (void)state;
    float table[7] = {0, 1, 2, 3, 4, 5, 6}, y[3];
    int32_t at[3] = {6, 0, 3};
    const int64_t shape_table[] = {7}, shape[] = {3};
    void *on_device[] = {put(table, 7, 4), put(at, 3, 4), put(y, 3, 4)};
    load("pick");
    bind("table", on_device[0], HR_F32, 1, shape_table, NULL);
    bind("at", on_device[1], HR_I32, 1, shape, NULL);
    bind("y", on_device[2], HR_F32, 1, shape, NULL);
    good(hr_kernel_launch(kernel));
    good(hr_device_synchronise(device));
    fault_next = (hr_fault){.access = access_of(kernel->current), .value = 99};
    good(hr_kernel_launch(kernel)); /* only queued */
    assert_int_equal(hr_device_synchronise(device), HR_OUT_OF_RANGE);
    const char *sentence =
        "test.hr:3:70: a subscript of `table` had the value 99; its axis 0 has 7 elements (0 to 6)";
    if (strncmp(hr_last_error(), sentence, strlen(sentence)) != 0) fail_msg("%s", hr_last_error());
    good(hr_device_synchronise(device)); /* told once */
    good(hr_kernel_launch(kernel));
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE); /* or by the next launch */
    assert_non_null(strstr(hr_last_error(), "in an earlier launch"));
    assert_non_null(strstr(hr_last_error(), "the value 99"));
    fault_next = (hr_fault){0};
    good(hr_kernel_launch(kernel));
    good(hr_device_synchronise(device));
    good(hr_device_download(device, y, on_device[2], sizeof y));
    assert_true(y[0] == 6 && y[1] == 0 && y[2] == 3);
    for (int i = 0; i < 3; i++)
        hr_device_release(device, on_device[i], 28);
}

/* ---- the device fails in the middle of the job ---- */

static void test_failures(void **state) {
    (void)state;
    static const char *const symbols[] = {
        "cuMemAlloc_v2",       "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernelEx",
        "cuModuleGetFunction", "cuEventElapsedTime",   "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        for (int at = 1; at < 60; at += 7) {
            hr_run_options options = {
                .size = sizeof options, .tune = HR_TUNE_QUICK, .seconds = 1e-3, .points = 20};
            hr_run_result *result = NULL;
            load("twice");
            good(hr_kernel_bind_extent(kernel, "M", 3));
            good(hr_kernel_bind_extent(kernel, "N", 8));
            hr_status status = hr_device_roof(device, false, NULL, NULL, &(hr_roof){0});
            fake->fail_symbol = symbols[i];
            fake->fail_at = at;
            fake->fail_result = 719;
            if (status == HR_OK) status = hr_kernel_fill(kernel, 1);
            if (status == HR_OK) status = hr_kernel_run(kernel, &options, &result);
            bool reached = fake->fail_at <= 0;
            fake->fail_symbol = NULL;
            if (status != HR_OK) assert_non_null(strstr(hr_last_error(), "CUDA_ERROR_FAKE"));
            if (!reached) assert_int_equal(status, HR_OK);
            hr_run_result_destroy(status == HR_OK ? result : NULL);
            hr_kernel_destroy(kernel);
            kernel = NULL;
        }
}

/* ---- ladders ---- */

enum { LADDER_SOFTMAX = 1, LADDER_ROWS = 3, LADDER_COLUMNS = 8, LADDER_STEPS = 6 };

static const char softmax_text[] =
    "kernel softmax(x: T[M, N]) -> (y: T[M, N]) { y[m, n] = softmax[n](x[m, n]) }\n";

static void load_softmax(hr_dtype dtype) {
    uint16_t values[LADDER_ROWS * LADDER_COLUMNS];
    const int64_t shape[] = {LADDER_ROWS, LADDER_COLUMNS};
    for (size_t i = 0; i < LADDER_ROWS * LADDER_COLUMNS; i++)
        hr_dtype_store(HR_BF16, values, i, (double)(i % 5) / 4);
    good(hr_kernel_load(device, "softmax.hr", softmax_text, sizeof softmax_text - 1, NULL, &kernel));
    good(hr_kernel_bind_dtype(kernel, "T", dtype));
    kernel->roof =
        (hr_roof){.copy = 1e9, .read = 1e9, .write = 1e9, .vector_f32 = 1e12, .launch = 1e-6, .threads = 132};
    kernel->roof_known = true; /* measuring it takes longer than all else here */
    if (dtype != HR_BF16) return;
    bind("x", put(values, LADDER_ROWS * LADDER_COLUMNS, sizeof *values), HR_BF16, 2, shape, NULL);
    bind("y", put(values, LADDER_ROWS * LADDER_COLUMNS, sizeof *values), HR_BF16, 2, shape, NULL);
}

static void unload_softmax(void) {
    const char *names[] = {"x", "y"};
    for (size_t i = 0; i < 2; i++) {
        hr_array array = {.size = sizeof array};
        good(hr_kernel_array(kernel, names[i], &array));
        hr_device_release(device, array.data, LADDER_ROWS * LADDER_COLUMNS * 2);
    }
}

/* What the fake device's kernel computes is right: so is each step, and all take the same time. */
static void test_ladder(void **state) {
    (void)state;
    hr_ladder_options options = {.size = sizeof options, .seconds = 1e-3};
    hr_ladder_result *result = NULL;
    load_softmax(HR_BF16);
    good(hr_ladder_run(kernel, LADDER_SOFTMAX, &options, &result));
    assert_int_equal(result->row_count, LADDER_STEPS);
    assert_string_equal(result->sizes, "M=3 N=8");
    for (int i = 0; i < LADDER_STEPS; i++) {
        const hr_ladder_row *row = &result->rows[i];
        assert_int_equal(row->number, i + 1);
        assert_null(row->fault);
        assert_true(row->verified.ok && row->verified.points > 0);
        assert_true(row->seconds.median > 0.00199 && row->seconds.median < 0.00201);
        assert_true(i ? fabs(row->gain - 1) < 1e-3 : row->gain == 0);
        assert_true(row->headroom > 0);
    }
    hr_ladder_result_destroy(result);

    spoil = 0.25;
    options.only = 4;
    good(hr_ladder_run(kernel, LADDER_SOFTMAX, &options, &result));
    assert_int_equal(result->row_count, 1);
    assert_int_equal(result->rows[0].number, 4);
    assert_true(!result->rows[0].verified.ok && result->rows[0].gain > 0);
    hr_ladder_result_destroy(result);
    unload_softmax();
}

/* The cluster is a lever of sm_90: an older card says so, and goes on. */
static void test_ladder_on_an_older_card(void **state) {
    hr_ladder_result *result = NULL;
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(fake_set_up(state), 0);
    spoil = 0;
    fake->kernel = run_kernel;
    fake->compute = 80;
    good(hr_device_open("cuda", &device));
    load_softmax(HR_BF16);
    good(hr_ladder_run(kernel, LADDER_SOFTMAX,
                       &(hr_ladder_options){sizeof(hr_ladder_options), .seconds = 1e-3}, &result));
    assert_int_equal(result->row_count, LADDER_STEPS);
    assert_string_equal(result->rows[4].fault, "needs sm_90");
    assert_true(!result->rows[5].fault && result->rows[5].verified.ok && result->rows[5].gain == 0);
    hr_ladder_result_destroy(result);
    unload_softmax();
}

static bool never(void *context, const char *what, double done, double total) {
    (void)context, (void)what, (void)done, (void)total;
    return false;
}

static void test_ladder_refuses(void **state) {
    (void)state;
    hr_ladder_options options = {.size = sizeof options, .only = LADDER_STEPS + 1};
    hr_ladder_result *result = NULL;
    load_softmax(HR_BF16);
    assert_int_equal(hr_ladder_run(kernel, LADDER_SOFTMAX, &options, &result), HR_BAD_INPUT);
    assert_int_equal(hr_ladder_run(kernel, 99, NULL, &result), HR_BAD_INPUT);
    assert_int_equal(hr_ladder_run(kernel, 0, NULL, &result), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "of kernel matmul, not of softmax"));
    options = (hr_ladder_options){.size = sizeof options, .progress = never};
    assert_int_equal(hr_ladder_run(kernel, LADDER_SOFTMAX, &options, &result), HR_CANCELLED);
    unload_softmax();
    hr_kernel_destroy(kernel);
    load_softmax(HR_F32);
    assert_int_equal(hr_ladder_run(kernel, LADDER_SOFTMAX, NULL, &result), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "take bf16, and x is f32"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_run),
                                       TEST(test_unwritten),
                                       TEST(test_views),
                                       TEST(test_restore),
                                       TEST(test_refused_tiles),
                                       TEST(test_launch_only_queues),
                                       TEST(test_fault),
                                       TEST(test_failures),
                                       TEST(test_execute),
                                       TEST(test_execute_at_other_extents),
                                       TEST(test_execute_leaves_its_axis),
                                       TEST(test_scratch_of_graphs),
                                       TEST(test_ladder),
                                       TEST(test_ladder_on_an_older_card),
                                       TEST(test_ladder_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
