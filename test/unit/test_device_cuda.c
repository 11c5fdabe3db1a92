/* The CUDA device over a fake driver: what it is given, what it makes of every error, what it leaves behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fake_device.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE "extern \"C\" __global__ void first(); extern \"C\" __global__ void second();"

static hr_device *device_open(void) {
    hr_device *device = NULL;
    assert_int_equal(hr_device_open("cuda", &device), HR_OK);
    return device;
}

static hr_module *module_make(hr_device *device, const hr_launch *launches, int count) {
    hr_module *module = NULL;
    assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_OK);
    assert_int_equal(device->ops->launches(device, module, launches, count), HR_OK);
    return module;
}

/* ---- opening ---- */

static void test_open(void **state) {
    (void)state;
    hr_device *device = device_open();
    assert_string_equal(hr_device_kind(device), "cuda");
    assert_string_equal(hr_device_name(device), "Fake 0");
    assert_int_equal(device->limits.threads, 132);
    assert_int_equal(device->limits.compute, 90);
    assert_int_equal(device->limits.shared_bytes, 232448);
    assert_int_equal(device->limits.l1_bytes, 233472);
    assert_int_equal(device->limits.l2_bytes, 1 << 20);
    assert_int_equal(device->limits.cluster_blocks, 16);
    assert_string_equal(device->limits.isa, "sm_90a");
    assert_false(hr_device_memory_is_host(device));
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);

    assert_int_equal(hr_device_open(NULL, &device), HR_OK); /* the best there is */
    assert_string_equal(hr_device_kind(device), "cuda");
    hr_device_destroy(device);
    fake->device_count = 2;
    assert_int_equal(hr_device_open("cuda:1", &device), HR_OK);
    assert_string_equal(hr_device_name(device), "Fake 1");
    hr_device_destroy(device);
    fake->compute = 80;
    assert_int_equal(hr_device_open("cuda:0", &device), HR_OK);
    assert_string_equal(device->limits.isa, "sm_80");
    assert_int_equal(device->limits.cluster_blocks, 1);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

static void open_fails(const char *name, hr_status status, const char *words) {
    hr_device *device = NULL;
    assert_int_equal(hr_device_open(name, &device), status);
    assert_null(device);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" is not in: %s", words, hr_last_error());
    assert_int_equal(fake_living(), 0);
}

static void test_open_fails(void **state) {
    (void)state;
    open_fails("cuda:1", HR_NOT_AVAILABLE, "there is no cuda:1: the driver shows 1 device, counted from 0");
    open_fails("cuda:x", HR_BAD_INPUT, "'cuda:x' is no device");
    open_fails("cuda:", HR_BAD_INPUT, "'cuda:' is no device");
    open_fails("cuda:-1", HR_BAD_INPUT, "'cuda:-1' is no device");
    open_fails("cuda:sm_70", HR_BAD_INPUT, "use cuda:sm_80, cuda:sm_90a or cuda:sm_100a");
    fake->compute = 75;
    open_fails("cuda", HR_NOT_AVAILABLE, "Fake 0 has compute capability 7.5, and 8.0 (Ampere) is needed");
    fake->compute = 90;
    fake->version = 11060;
    open_fails("cuda", HR_NOT_AVAILABLE, "serves CUDA 11.6 and 11.8 is needed");
    fake->version = 13000;
    fake->device_count = 0;
    open_fails("cuda", HR_NOT_AVAILABLE, "shows 0 devices; use --device cpu");
    fake->fail_symbol = "cuInit";
    fake->fail_at = 1;
    fake->fail_result = 100;
    open_fails("cuda", HR_NOT_AVAILABLE,
               "starting the driver failed with CUDA_ERROR_FAKE (as the test wants it)");
    setenv("HEADROOM_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    open_fails("cuda", HR_NOT_AVAILABLE, "there is no CUDA driver here (/nonexistent/libcuda.so.1");
    assert_int_equal(hr_status_exit_code(HR_NOT_AVAILABLE), 3);
    setenv("HEADROOM_LIBCUDA", "libm.so.6", 1);
    open_fails("cuda", HR_NOT_AVAILABLE, "libm.so.6 has no cuInit");
    hr_device *device = NULL;
    assert_int_equal(hr_device_open(NULL, &device), HR_OK); /* then the CPU is the best there is */
    assert_string_equal(hr_device_kind(device), "cpu");
    hr_device_destroy(device);
}

static void test_target(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int compute;
    } targets[] = {{"cuda:sm_80", 80}, {"cuda:sm_90", 90}, {"cuda:sm_90a", 90}, {"cuda:sm_100a", 100}};
    setenv("HEADROOM_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        hr_device *device = NULL;
        void *data = NULL;
        hr_roof roof;
        hr_module *module;
        assert_int_equal(hr_device_open(targets[i].name, &device), HR_OK);
        assert_string_equal(hr_device_kind(device), "cuda");
        assert_int_equal(device->limits.compute, targets[i].compute);
        assert_int_equal(hr_device_allocate(device, 64, &data), HR_NOT_AVAILABLE);
        assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_NOT_AVAILABLE);
        assert_int_equal(device->ops->measure_roof(device, NULL, NULL, NULL, &roof), HR_NOT_AVAILABLE);
        assert_non_null(strstr(hr_last_error(), "is a target to plan and emit for"));
        hr_device_destroy(device);
    }
}

/* ---- memory ---- */

static void test_memory(void **state) {
    (void)state;
    hr_device *device = device_open();
    void *data = NULL;
    char back[5] = {0};
    assert_int_equal(hr_device_allocate(device, 5, &data), HR_OK);
    assert_int_equal(hr_device_upload(device, data, "abcd", 5), HR_OK);
    assert_int_equal(hr_device_download(device, back, data, 5), HR_OK);
    assert_string_equal(back, "abcd");
    assert_int_equal(hr_device_upload(device, data, NULL, 0), HR_OK);
    fake->fail_symbol = "cuMemAlloc_v2";
    fake->fail_at = 1;
    fake->fail_result = 2;
    void *more = NULL;
    assert_int_equal(hr_device_allocate(device, 3000000, &more), HR_OUT_OF_MEMORY);
    assert_null(more);
    assert_non_null(
        strstr(hr_last_error(), "3.0 MB of memory of Fake 0 are asked for and 1048.6 of its 2097 MB"));
    fake->fail_symbol = "cuMemcpyDtoHAsync_v2";
    fake->fail_at = 1;
    fake->fail_result = 700;
    assert_int_equal(hr_device_download(device, back, data, 5), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    fake->fail_symbol = NULL;
    hr_device_release(device, data, 5);
    hr_device_release(device, NULL, 0);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* Ordinary memory goes through pinned pieces, pinned memory at once; sizes around whole pieces. */
static void test_large_copies(void **state) {
    (void)state;
    static const size_t sizes[] = {(8 << 20) + 1, (12 << 20) - 3, 12 << 20, (12 << 20) + 1, (20 << 20) + 77};
    hr_device *device = device_open();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned pinned = 0; pinned < 2; pinned++) {
            unsigned *from = malloc(sizes[i] + 4), *back = malloc(sizes[i] + 4);
            void *data = NULL;
            fake->pinned = pinned;
            for (size_t k = 0; k < sizes[i] / 4 + 1; k++)
                from[k] = (unsigned)k * 2654435761u;
            memset(back, 0xee, sizes[i] + 4);
            assert_int_equal(hr_device_allocate(device, sizes[i], &data), HR_OK);
            *fake->calls = 0;
            assert_int_equal(hr_device_upload(device, data, from, sizes[i]), HR_OK);
            int copies = 0;
            for (const char *at = fake->calls; (at = strstr(at, "cuMemcpyHtoDAsync_v2")); at++)
                copies++;
            assert_int_equal(copies, pinned ? 1 : (int)((sizes[i] + (4 << 20) - 1) >> 22));
            assert_int_equal(hr_device_download(device, back, data, sizes[i]), HR_OK);
            assert_memory_equal(from, back, sizes[i]);
            assert_int_equal(((unsigned char *)back)[sizes[i]], 0xee);
            hr_device_release(device, data, sizes[i]);
            free(from);
            free(back);
        }
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* ---- launching ---- */

static void test_words(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch launches[] = {{.entry = "first", .grid = {7, 1, 1}, .threads = 256, .cluster = 1},
                            {.entry = "second", .grid = {0, 1, 1}, .threads = 32, .cluster = 1},
                            {.entry = "second",
                             .grid = {32, 1, 1},
                             .threads = 1024,
                             .cluster = 16,
                             .shared = 200000,
                             .overlaps = true}};
    hr_module *module = module_make(device, launches, 3);
    double scalars[3] = {0, 1.5, 0};
    int64_t extents[2] = {11, 12}, strides[3] = {21, 22, 23};
    hr_execution execution = {.pointers = (void *[]){(void *)1, NULL, (void *)3},
                              .scalars = scalars,
                              .extents = extents,
                              .strides = strides,
                              .scratch = (void *)99,
                              .launches = launches,
                              .launch_count = 3,
                              .count = 3,
                              .extent_count = 2,
                              .stride_count = 3};
    fake->launch_count = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_int_equal(fake->launch_count, 2); /* no blocks, no launch */
    const fake_launch *first = &fake->launches[0], *second = &fake->launches[1];
    int64_t bits;
    memcpy(&bits, &scalars[1], sizeof bits);
    const int64_t expected[] = {1, 0, 3, 0, bits, 0, 11, 12, 21, 22, 23, 99};
    assert_memory_equal(first->words, expected, sizeof expected);
    assert_true(first->words[12] == (int64_t)(intptr_t)module->fault);
    assert_string_equal(first->name, "first");
    assert_int_equal(first->grid[0], 7);
    assert_int_equal(first->grid[1] * first->grid[2] * first->block[1] * first->block[2], 1);
    assert_int_equal(first->block[0], 256);
    assert_int_equal(first->cluster, 0);
    assert_int_equal(first->overlaps, 0);
    assert_int_equal(first->shared, 0);
    assert_string_equal(second->name, "second");
    assert_int_equal(second->cluster, 16);
    assert_int_equal(second->overlaps, 1);
    assert_int_equal(second->shared, 200000);
    assert_memory_equal(second->words, first->words, 13 * sizeof *second->words);

    hr_device_stream_set(device, (void *)0x1234);
    fake->launch_count = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_ptr_equal(fake->launches[0].stream, (void *)0x1234);
    hr_device_stream_set(device, NULL);
    execution.launch_count = 2;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_INTERNAL);
    device->ops->unload(device, module);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* ---- tensor maps ---- */

/* 100 x 60 bf16 in rows of 208 bytes, in boxes of 64 x 16. */
static hr_tensor_map map_make(int tensor) {
    return (hr_tensor_map){.tensor = tensor,
                           .offset = 32,
                           .type = HR_MAP_BF16,
                           .rank = 2,
                           .dims = {100, 60},
                           .strides = {2, 208},
                           .box = {64, 16},
                           .swizzle = HR_MAP_SWIZZLE_128,
                           .promotion = HR_MAP_L2_256,
                           .fill = HR_MAP_NANS};
}

static void test_launch_with_maps(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch launch = {.entry = "first",
                        .grid = {2, 3, 4},
                        .threads = 128,
                        .cluster = 1,
                        .maps = {map_make(1), map_make(HR_MAP_SCRATCH)},
                        .map_count = 2};
    hr_module *module = module_make(device, &launch, 1);
    void *pointers[2] = {(void *)16, (void *)0x1000};
    hr_execution execution = {.pointers = pointers,
                              .scalars = (double[2]){0},
                              .scratch = (void *)0x4000,
                              .launches = &launch,
                              .launch_count = 1,
                              .count = 2};
    fake->launch_count = 0;
    fake->map_count = 2;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    const fake_launch *seen = &fake->launches[0];
    const fake_map expected = {9, 2, 0, 3, 3, 1, 0x1020, {100, 60}, {64, 16}, {1, 1}, {208}};
    assert_memory_equal(&seen->maps[0], &expected, sizeof expected);
    assert_int_equal(seen->maps[1].address, 0x4020);
    assert_int_equal(seen->grid[0] * 100 + seen->grid[1] * 10 + seen->grid[2], 234);
    assert_int_equal(seen->words[0], 16);
    assert_int_equal(seen->words[4], 0x4000);

    *fake->calls = 0; /* kept while the arrays stay */
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_null(strstr(fake->calls, "cuTensorMapEncodeTiled"));
    pointers[1] = (void *)0x2000;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_int_equal(fake->launches[2].maps[0].address, 0x2020);
    assert_int_equal(fake->launches[2].maps[1].address, 0x4020);
    launch.maps[0].dims[1] = 61; /* other extents: prepared anew */
    assert_int_equal(device->ops->launches(device, module, &launch, 1), HR_OK);
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_int_equal(fake->launches[3].maps[0].dims[1], 61);
    pointers[1] = (void *)0x2008;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(),
                           "kernel first copies tensor 1 by a map, which must begin at a multiple of 16"));
    fake->map_count = 0;
    device->ops->unload(device, module);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* Arrays that a map cannot begin at take the function without maps. */
static void test_maps_of_unaligned(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch launch = {.entry = "first",
                        .unaligned = "second",
                        .grid = {1, 1, 1},
                        .threads = 32,
                        .cluster = 1,
                        .maps = {map_make(0)},
                        .map_count = 1};
    hr_module *module = module_make(device, &launch, 1);
    const hr_tensor_set aligned = {{1}};
    hr_execution execution = {.pointers = (void *[]){(void *)24},
                              .scalars = (double[]){0},
                              .launches = &launch,
                              .launch_count = 1,
                              .aligned = &aligned,
                              .count = 1};
    fake->launch_count = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_string_equal(fake->launches[0].name, "second");
    assert_int_equal(fake->launches[0].words[0], 24);
    device->ops->unload(device, module);
    hr_device_destroy(device);
}

static void map_refused(hr_device *device, hr_module *module, hr_tensor_map map, const char *words) {
    hr_launch launch = {
        .entry = "first", .grid = {1, 1, 1}, .threads = 32, .cluster = 1, .maps = {map}, .map_count = 1};
    hr_status status = device->ops->launches(device, module, &launch, 1);
    if (status == HR_OK || !strstr(hr_last_error(), words))
        fail_msg("\"%s\" is not in: %s", words, status == HR_OK ? "success" : hr_last_error());
}

static void test_maps_refused(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch plain = {.entry = "first", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &plain, 1);
    hr_tensor_map map = map_make(0);
    map.rank = 6;
    map_refused(device, module, map, "has 6 axes");
    map = map_make(0);
    map.dims[1] = 0;
    map_refused(device, module, map, "axis 1 of the map of tensor 0 has an extent below 1");
    map = map_make(0);
    map.strides[1] = 200;
    map_refused(device, module, map, "no multiple of 16 bytes");
    map = map_make(0);
    map.box[0] = 72;
    map_refused(device, module, map, "longer than its swizzle");
    map = map_make(0);
    map.box[1] = 257;
    map_refused(device, module, map, "beyond 256");
    device->ops->unload(device, module);
    hr_device_destroy(device);
    fake->compute = 80;
    device = device_open();
    module = module_make(device, &plain, 1);
    map_refused(device, module, map_make(0), "copies by tensor maps, which Fake 0 (sm_80) does not have");
    device->ops->unload(device, module);
    hr_device_destroy(device);
    fake->compute = 90;
}

/* Of a launch's two functions runs the one for the tensors as they lie; only those that are asked about
 * count.
 */
static void test_launch_of_unaligned(void **state) {
    (void)state;
    static const struct {
        uintptr_t pointers[3];
        const char *name;
    } cases[] = {
        {{64, 32, 16}, "first"}, {{64, 36, 16}, "first"}, {{64, 32, 20}, "second"}, {{72, 32, 16}, "second"}};
    hr_device *device = device_open();
    hr_launch launch = {
        .entry = "first", .unaligned = "second", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &launch, 1);
    const hr_tensor_set aligned = {{1 << 0 | 1 << 2}};
    hr_execution execution = {
        .launches = &launch, .launch_count = 1, .aligned = &aligned, .count = 3, .scalars = (double[3]){0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *pointers[3];
        for (int t = 0; t < 3; t++)
            pointers[t] = (void *)cases[i].pointers[t];
        execution.pointers = pointers;
        fake->launch_count = 0;
        assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
        assert_string_equal(fake->launches[0].name, cases[i].name);
    }
    device->ops->unload(device, module);
    hr_device_destroy(device);
}

/* Nothing but the driver's call: what a launch may cost the host. */
static void test_launch_is_short(void **state) {
    (void)state;
    hr_device *device = device_open();
    bool pushed;
    hr_launch launch = {.entry = "first", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &launch, 1);
    hr_execution execution = {.launches = &launch, .launch_count = 1};
    assert_int_equal(hr_cuda_enter((hr_device_cuda *)device, &pushed), HR_OK);
    *fake->calls = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    assert_string_equal(fake->calls, "cuCtxGetCurrent cuLaunchKernelEx ");
    hr_cuda_leave((hr_device_cuda *)device, pushed);
    device->ops->unload(device, module);
    hr_device_destroy(device);
}

static void grid_refused(hr_device *device, hr_module *module, hr_launch launch, const char *words) {
    assert_int_equal(device->ops->launches(device, module, &launch, 1), HR_INTERNAL);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" is not in: %s", words, hr_last_error());
}

static void test_grids_refused(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch good = {.entry = "first", .grid = {4, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &good, 1);
    hr_launch bad = good;
    bad.threads = 1025;
    grid_refused(device, module, bad, "4 x 1 x 1 blocks of 1025 threads");
    bad = good;
    bad.grid[0] = (int64_t)1 << 31;
    grid_refused(device, module, bad, "2147483648 x 1 x 1 blocks");
    bad = good;
    bad.cluster = 3;
    grid_refused(device, module, bad, "3 a cluster");
    bad.cluster = 32;
    bad.grid[0] = 32;
    grid_refused(device, module, bad, "32 a cluster");
    bad = good;
    bad.shared = 232449;
    grid_refused(device, module, bad, "232449 bytes");
    bad = good;
    strcpy(bad.entry, "third");
    grid_refused(device, module, bad, "preparing kernel third failed");
    fake->parameter_bytes = 24;
    assert_int_equal(device->ops->launches(device, module, &good, 1), HR_OK);
    hr_execution execution = {.launches = &good,
                              .launch_count = 1,
                              .count = 1,
                              .pointers = (void *[]){NULL},
                              .scalars = (double[]){0}};
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "kernel first takes 24 bytes of parameters and is given 32"));
    fake->parameter_bytes = 32;
    assert_int_equal(device->ops->launches(device, module, &good, 1), HR_OK);
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    execution.stride_count = 509;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_BAD_INPUT);
    device->ops->unload(device, module);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* ---- faults ---- */

static int64_t fault_value;

static void kernel_faults(const char *name, void *words) {
    hr_fault *fault = *(hr_fault **)((int64_t *)words + 1); /* after the scratch */
    if (strcmp(name, "first") != 0 || !fault_value) return;
    *fault = (hr_fault){.access = 2, .value = fault_value};
}

static void test_fault(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch launch = {.entry = "first", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &launch, 1), *other = module_make(device, &launch, 1);
    hr_execution execution = {.launches = &launch, .launch_count = 1};
    hr_fault fault = {9, 9};
    fake->kernel = kernel_faults;
    fault_value = -7;
    assert_int_equal(device->ops->launch(device, module, &execution, &fault), HR_OUT_OF_RANGE);
    assert_int_equal(fault.access, 2);
    assert_int_equal(fault.value, -7);
    assert_non_null(strstr(hr_last_error(), "the value -7"));
    fault_value = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, &fault), HR_OK); /* forgotten */
    assert_int_equal(fault.access, 0);
    fault_value = 5;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK); /* only queued */
    fault_value = 0;
    assert_int_equal(device->ops->launch(device, other, &execution, NULL), HR_OK); /* another module's */
    fake->launch_count = 0;
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OUT_OF_RANGE);
    assert_int_equal(fake->launch_count, 0);
    device->ops->fault(device, module, &fault);
    assert_int_equal(fault.access, 2);
    assert_int_equal(fault.value, 5);
    assert_int_equal(device->ops->launch(device, module, &execution, NULL), HR_OK);
    device->ops->unload(device, module);
    device->ops->unload(device, other);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* More modules than a page of fault words has; each its own. */
static void test_many_modules(void **state) {
    (void)state;
    enum { COUNT = 2 * HR_CUDA_FAULTS_A_PAGE + 3 };
    hr_device *device = device_open();
    static hr_module *modules[COUNT];
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &modules[i]), HR_OK);
        modules[i]->fault->value = i;
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(modules[i]->fault->value, i);
    assert_int_equal(fake->host_allocations, 3);
    assert_int_equal(fake->compiles, 1);
    for (int i = 0; i < COUNT; i++)
        device->ops->unload(device, modules[i]);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* ---- compiling ---- */

static int cubins(char *path, size_t size) {
    int count = 0;
    DIR *listing = opendir(fake_folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strstr(entry->d_name, ".cubin")) {
            count++;
            snprintf(path, size, "%s/%s", fake_folder, entry->d_name);
        }
    closedir(listing);
    return count;
}

static void compiles_to(hr_device *device, int compiles) {
    hr_module *module = NULL;
    assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_OK);
    assert_int_equal(fake->compiles, compiles);
    device->ops->unload(device, module);
}

static void test_cache(void **state) {
    (void)state;
    char path[512];
    hr_device *device = device_open();
    compiles_to(device, 1);
    compiles_to(device, 1);
    assert_int_equal(cubins(path, sizeof path), 1);
    hr_device_destroy(device);
    device = device_open();
    compiles_to(device, 1);
    for (int damage = 0; damage < 4; damage++) {
        int file = open(path, O_RDWR);
        struct stat info;
        assert_true(file >= 0 && fstat(file, &info) == 0);
        off_t at = damage == 0 ? 5 : damage == 1 ? info.st_size / 2 : info.st_size - 20;
        if (damage == 3)
            assert_int_equal(ftruncate(file, 0), 0);
        else {
            char byte;
            assert_int_equal(pread(file, &byte, 1, at), 1);
            byte ^= 1;
            assert_int_equal(pwrite(file, &byte, 1, at), 1);
        }
        close(file);
        compiles_to(device, 2 + damage);
        compiles_to(device, 2 + damage);
    }
    fake->fail_symbol = "cuModuleLoadData"; /* the driver refuses what the cache holds: built again, once */
    fake->fail_at = 1;
    fake->fail_result = 200;
    compiles_to(device, 6);
    hr_device_destroy(device);
    fake->compute = 80; /* other code */
    device = device_open();
    compiles_to(device, 7);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

static void test_compile_fails(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_module *module = NULL;
    char path[512];
    fake->nvrtc_result = 6;
    fake->nvrtc_log = "kernel.cu(3): error: expected a \";\"";
    assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "for sm_90a:\nkernel.cu(3): error: expected a \";\""));
    assert_null(module);
    assert_int_equal(cubins(path, sizeof path), 0);
    hr_device_destroy(device);

    setenv("HEADROOM_NVRTC", "/nonexistent/libnvrtc.so", 1);
    device = device_open();
    assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "HEADROOM_NVRTC=/nonexistent/libnvrtc.so is no file"));
    setenv("HEADROOM_NVRTC", "/etc/passwd", 1);
    assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), 0, &module), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "NVRTC cannot be loaded from /etc/passwd"));
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* Of 12.8 and of 12.9, which says nothing of what its own cache has. */
static void test_compile_hears(void **state) {
    (void)state;
    fake->nvrtc_log = "ptxas         .     8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n";
    for (int version = 12080; version <= 12090; version += 10) {
        hr_device *device = device_open();
        hr_module *module = NULL;
        fake->nvrtc_version = version;
        assert_int_equal(device->ops->compile(device, SOURCE, strlen(SOURCE), HR_COMPILE_STRICT, &module),
                         HR_NOT_AVAILABLE);
        assert_non_null(strstr(hr_last_error(), "its registers spill: 8 bytes are stored and 8 read back"));
        hr_device_destroy(device);
    }
}

static void test_usage(void **state) {
    (void)state;
    hr_cuda_usage usage = hr_cuda_usage_read(
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
        "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 30 registers, used 0 barriers\n"
        "ptxas         .     8 bytes stack frame, 0 bytes spill stores, 100 bytes spill loads\n"
        "ptxas info    : Used 128 registers, 20 bytes smem\n");
    assert_int_equal(usage.registers, 128);
    assert_int_equal(usage.stack, 24);
    assert_int_equal(usage.stores, 8);
    assert_int_equal(usage.loads, 104);
    usage = hr_cuda_usage_read("ptxas info    : (C7507) no\nptxas info    : (C7512) wgmma serialized\n");
    assert_int_equal(usage.remark, 7512);
    usage = hr_cuda_usage_read("");
    assert_int_equal(usage.registers + usage.stack + usage.stores + usage.loads + usage.remark, 0);
}

/* ---- timing ---- */

static void test_time(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_launch launch = {.entry = "first", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    hr_module *module = module_make(device, &launch, 1);
    hr_execution execution = {.launches = &launch, .launch_count = 1};
    double seconds = 0;
    fake->launch_count = 0;
    fake->milliseconds = 0.125f;
    assert_int_equal(device->ops->time(device, module, &execution, &seconds), HR_OK);
    assert_true(seconds == 0.125e-3);
    assert_int_equal(fake->launch_count, 3);
    assert_string_equal(fake->launches[0].name, "hr_cool");
    assert_string_equal(fake->launches[1].name, "hr_hold");
    assert_string_equal(fake->launches[2].name, "first");
    assert_int_equal(*((hr_device_cuda *)device)->gate, 1);
    *fake->calls = 0;
    assert_int_equal(device->ops->time(device, module, &execution, &seconds), HR_OK);
    const char *order =
        "cuStreamSynchronize cuLaunchKernelEx cuLaunchKernelEx cuEventRecord cuLaunchKernelEx "
        "cuEventRecord cuEventSynchronize cuEventElapsedTime";
    assert_non_null(strstr(fake->calls, order)); /* nothing else once the gate is shut */
    device->ops->unload(device, module);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
}

/* ---- every call fails once ---- */

static hr_status scenario(void) {
    hr_device *device = NULL;
    hr_module *module = NULL;
    hr_launch launch = {.entry = "first", .grid = {16, 1, 1}, .threads = 32, .cluster = 16, .shared = 1024};
    hr_execution execution = {.launches = &launch, .launch_count = 1};
    hr_fault fault;
    double seconds;
    void *data = NULL, *other = NULL;
    static char bytes[(8 << 20) + 64]; /* more than goes at once */
    hr_status status = hr_device_open("cuda", &device);
    if (status != HR_OK) return status;
    const hr_device_ops *ops = device->ops;
    status = ops->allocate(device, sizeof bytes, &data);
    if (status == HR_OK) status = ops->allocate(device, sizeof bytes, &other);
    if (status == HR_OK) status = ops->upload(device, data, bytes, sizeof bytes);
    if (status == HR_OK) status = ops->copy(device, other, data, sizeof bytes);
    if (status == HR_OK) status = ops->compile(device, SOURCE, strlen(SOURCE), 0, &module);
    if (status == HR_OK) status = ops->launches(device, module, &launch, 1);
    if (status == HR_OK) status = ops->launch(device, module, &execution, NULL);
    if (status == HR_OK) status = ops->launch(device, module, &execution, &fault);
    if (status == HR_OK) status = ops->time(device, module, &execution, &seconds);
    if (status == HR_OK) status = ops->download(device, bytes, other, sizeof bytes);
    if (status == HR_OK) status = hr_device_synchronise(device);
    ops->unload(device, module);
    ops->release(device, data, sizeof bytes);
    ops->release(device, other, sizeof bytes);
    hr_device_destroy(device);
    return status;
}

static const char *const symbols[] = {
#define SYMBOL(member, symbol, parameters) symbol,
    HR_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static void fails_once(const char *symbol) {
    static const char *const forgiven[] = {
        /* cleaning up, tried again, or told by the allocation that follows */
        "cuDevicePrimaryCtxRelease_v2",
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuModuleUnload",
        "cuCtxPopCurrent_v2",
        "cuModuleLoadData",
        "cuPointerGetAttributes",
        "cuThreadExchangeStreamCaptureMode"};
    for (int at = 1; at < 100; at++) {
        bool may_be_good = false;
        for (size_t i = 0; i < sizeof forgiven / sizeof *forgiven; i++)
            may_be_good |= strcmp(symbol, forgiven[i]) == 0;
        fake->fail_symbol = symbol;
        fake->fail_at = at;
        fake->fail_result = 719;
        hr_status status = scenario();
        bool reached = fake->fail_at <= 0;
        fake->fail_symbol = NULL;
        if (!reached) {
            assert_int_equal(status, HR_OK);
            return;
        }
        if (status == HR_OK && !may_be_good && strcmp(symbol, "cuStreamSynchronize") != 0 &&
            strncmp(symbol, "cuCtx", 5) != 0)
            fail_msg("%s failed (call %d) and nobody said so", symbol, at);
        if (status != HR_OK && !strstr(hr_last_error(), "CUDA_ERROR_FAKE"))
            fail_msg("%s failed and the sentence does not say how: %s", symbol, hr_last_error());
        if (strncmp(symbol, "cuCtxP", 6) == 0 || strcmp(symbol, "cuCtxGetCurrent") == 0) {
            /* a thread that cannot enter the context cannot give back what lies in it */
            fake->allocations = fake->host_allocations = fake->modules = fake->streams = fake->events = 0;
            fake->pushed = fake->contexts = 0;
        }
        if (fake_living() != 0)
            fail_msg("%s failed (call %d) and %d things are left", symbol, at, fake_living());
    }
    fail_msg("%s is called a hundred times", symbol);
}

static void test_every_call_fails(void **state) {
    (void)state;
    assert_int_equal(scenario(), HR_OK);
    assert_int_equal(fake_living(), 0);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        fails_once(symbols[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_large_copies),
        TEST(test_open),
        TEST(test_open_fails),
        TEST(test_target),
        TEST(test_launch_with_maps),
        TEST(test_maps_of_unaligned),
        TEST(test_maps_refused),
        TEST(test_memory),
        TEST(test_words),
        TEST(test_launch_of_unaligned),
        TEST(test_launch_is_short),
        TEST(test_grids_refused),
        TEST(test_fault),
        TEST(test_many_modules),
        TEST(test_cache),
        TEST(test_compile_fails),
        TEST(test_compile_hears),
        TEST(test_usage),
        TEST(test_time),
        TEST(test_every_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
