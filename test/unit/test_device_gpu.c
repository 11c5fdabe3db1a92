/* The CUDA device on a real GPU: memory, launches of every kind, faults, time, made-up inputs. Skipped where
 * there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "device/device_cuda.h"
#include "run/kernel.h"

static hr_device *device;

static const char source[] =
    "struct words { int *out; double scalar; long long extent, stride; void *scratch;"
    "               unsigned long long *fault; };\n"
    "extern \"C\" __global__ void plain(const __grid_constant__ words w) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i < w.extent) w.out[i * w.stride] = (int)(w.scalar * i);\n"
    "}\n"
    "extern \"C\" __global__ void faulty(const __grid_constant__ words w) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i >= w.extent && atomicCAS(w.fault, 0ull, 3ull) == 0) w.fault[1] = (unsigned long "
    "long)w.extent;\n"
    "}\n"
    "extern \"C\" __global__ void clustered(const __grid_constant__ words w) {\n"
    "    extern __shared__ int room[];\n"
    "    unsigned rank, count;\n"
    "    asm(\"mov.u32 %0, %cluster_ctarank;\" : \"=r\"(rank));\n"
    "    asm(\"mov.u32 %0, %cluster_nctarank;\" : \"=r\"(count));\n"
    "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "    room[threadIdx.x] = count * 100 + rank;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) w.out[blockIdx.x] += room[blockDim.x - 1];\n"
    "}\n"
    "extern \"C\" __global__ void copy(const __grid_constant__ words w) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    ((uint4 *)w.out)[w.extent + i] = ((uint4 *)w.out)[i];\n"
    "}\n";

typedef struct arguments {
    void *pointer;
    double scalar;
    int64_t extent, stride;
    hr_execution execution;
} arguments;

static hr_module *prepare(arguments *arguments, const hr_launch *launches, int count) {
    hr_module *module = NULL;
    if (device->ops->compile(device, source, strlen(source), 0, &module) != HR_OK)
        fail_msg("%s", hr_last_error());
    if (device->ops->launches(device, module, launches, count) != HR_OK) fail_msg("%s", hr_last_error());
    arguments->execution = (hr_execution){.pointers = &arguments->pointer,
                                          .scalars = &arguments->scalar,
                                          .extents = &arguments->extent,
                                          .strides = &arguments->stride,
                                          .launches = launches,
                                          .launch_count = count,
                                          .count = 1,
                                          .extent_count = 1,
                                          .stride_count = 1};
    return module;
}

static void test_launch(void **state) {
    (void)state;
    enum { COUNT = 1000003 };
    hr_launch launch = {.entry = "plain", .grid = {(COUNT + 255) / 256, 1, 1}, .threads = 256, .cluster = 1};
    arguments given = {.scalar = 3, .extent = COUNT, .stride = 2};
    int *out = malloc(2 * COUNT * sizeof *out);
    hr_module *module = prepare(&given, &launch, 1);
    hr_fault fault = {9, 9};
    assert_int_equal(hr_device_allocate(device, 2 * COUNT * sizeof *out, &given.pointer), HR_OK);
    memset(out, 0xff, 2 * COUNT * sizeof *out);
    assert_int_equal(hr_device_upload(device, given.pointer, out, 2 * COUNT * sizeof *out), HR_OK);
    assert_int_equal(device->ops->launch(device, module, &given.execution, &fault), HR_OK);
    assert_int_equal(fault.access, 0);
    assert_int_equal(hr_device_download(device, out, given.pointer, 2 * COUNT * sizeof *out), HR_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(out[2 * i] == 3 * i && out[2 * i + 1] == -1);
    assert_int_equal(module->functions[0].local_bytes, 0);
    assert_true(module->functions[0].registers > 0);
    assert_true(module->functions[0].parameter_bytes == 48 || module->functions[0].parameter_bytes == 0);
    hr_device_release(device, given.pointer, 2 * COUNT * sizeof *out);
    device->ops->unload(device, module);
    free(out);
}

static void test_fault(void **state) {
    (void)state;
    hr_launch launch = {.entry = "faulty", .grid = {1000, 1, 1}, .threads = 256, .cluster = 1};
    arguments given = {.extent = 255999};
    hr_module *module = prepare(&given, &launch, 1);
    hr_fault fault = {0};
    assert_int_equal(device->ops->launch(device, module, &given.execution, &fault), HR_OUT_OF_RANGE);
    assert_int_equal(fault.access, 3);
    assert_int_equal(fault.value, 255999);
    assert_int_equal(device->ops->launch(device, module, &given.execution, NULL), HR_OK);
    assert_int_equal(device->ops->synchronise(device), HR_OK);
    assert_int_equal(device->ops->launch(device, module, &given.execution, NULL), HR_OUT_OF_RANGE);
    device->ops->fault(device, module, &fault);
    assert_int_equal(fault.access, 3);
    given.extent = 256000;
    assert_int_equal(device->ops->launch(device, module, &given.execution, &fault), HR_OK);
    device->ops->unload(device, module);
}

static void test_clusters(void **state) {
    (void)state;
    if (device->limits.compute < 90) skip();
    for (int cluster = 1; cluster <= 16; cluster *= 2) {
        int out[64] = {0};
        int64_t shared = cluster < 8 ? device->limits.shared_bytes : 4096;
        hr_launch launches[] = {
            {.entry = "clustered", .grid = {64, 1, 1}, .threads = 128, .cluster = cluster, .shared = shared},
            {.entry = "clustered",
             .grid = {64, 1, 1},
             .threads = 128,
             .cluster = cluster,
             .shared = shared,
             .overlaps = true}};
        arguments given = {0};
        hr_module *module = prepare(&given, launches, 2);
        assert_int_equal(hr_device_allocate(device, sizeof out, &given.pointer), HR_OK);
        assert_int_equal(hr_device_upload(device, given.pointer, out, sizeof out), HR_OK);
        for (int i = 0; i < 10; i++)
            if (device->ops->launch(device, module, &given.execution, NULL) != HR_OK)
                fail_msg("%s", hr_last_error());
        assert_int_equal(hr_device_download(device, out, given.pointer, sizeof out), HR_OK);
        for (int i = 0; i < 64; i++)
            assert_int_equal(out[i], 20 * (cluster * 100 + i % cluster));
        hr_device_release(device, given.pointer, sizeof out);
        device->ops->unload(device, module);
    }
}

static void test_time(void **state) {
    (void)state;
    size_t bytes = (size_t)512 << 20;
    hr_launch launch = {
        .entry = "copy", .grid = {(int64_t)(bytes / 16 / 256), 1, 1}, .threads = 256, .cluster = 1};
    arguments given = {.extent = (int64_t)(bytes / 16)};
    hr_module *module = prepare(&given, &launch, 1);
    double seconds[5];
    hr_fault fault;
    assert_int_equal(hr_device_allocate(device, 2 * bytes, &given.pointer), HR_OK);
    assert_int_equal(device->ops->launch(device, module, &given.execution, &fault), HR_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(device->ops->time(device, module, &given.execution, &seconds[i]), HR_OK);
    double rate = 2 * (double)bytes / seconds[4];
    printf("copy: %.0f GB/s\n", rate * 1e-9);
    assert_true(rate > 100e9 && rate < 20e12);
    for (int i = 1; i < 5; i++)
        assert_true(seconds[i] < 1.5 * seconds[0] && seconds[i] > seconds[0] / 1.5);
    hr_device_release(device, given.pointer, 2 * bytes);
    device->ops->unload(device, module);
}

/* The same bits as on the host, for every dtype, whatever the end of the array. */
static void test_fill(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 7, 4097, 1000001};
    hr_kernel kernel = {.device = device};
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        for (int c = 0; c < 4; c++)
            for (int magnitude = 0; magnitude < 2; magnitude++) {
                bool narrow = hr_dtype_size((hr_dtype)dtype) == 1;
                hr_filling filling = {.seed = 0x123456789abcull + (uint64_t)dtype,
                                      .magnitude = magnitude,
                                      .mean = c % 2,
                                      .low = narrow ? 0 : -5,
                                      .high = dtype == HR_BOOL ? 1
                                              : narrow         ? 100
                                              : magnitude      ? 30000
                                                               : 7};
                if (dtype == HR_I64 && magnitude) filling.high = (int64_t)1 << 40;
                size_t size = (size_t)counts[c] * hr_dtype_size((hr_dtype)dtype);
                void *data = NULL, *expected = malloc(size), *found = malloc(size);
                hr_fill_array((hr_dtype)dtype, expected, counts[c], &filling);
                assert_int_equal(hr_device_allocate(device, size, &data), HR_OK);
                if (hr_fill_cuda(&kernel, (hr_dtype)dtype, data, counts[c], &filling) != HR_OK)
                    fail_msg("%s", hr_last_error());
                assert_int_equal(hr_device_download(device, found, data, size), HR_OK);
                if (memcmp(expected, found, size) != 0)
                    fail_msg("%s, %lld elements differ", hr_dtype_name((hr_dtype)dtype),
                             (long long)counts[c]);
                hr_device_release(device, data, size);
                free(expected);
                free(found);
            }
    device->ops->unload(device, kernel.filler);
}

static void test_out_of_memory(void **state) {
    (void)state;
    void *data = NULL;
    assert_int_equal(hr_device_allocate(device, (size_t)1 << 46, &data), HR_OUT_OF_MEMORY);
    assert_non_null(strstr(hr_last_error(), "are free: use smaller extents"));
    assert_int_equal(hr_device_allocate(device, 1 << 20, &data), HR_OK); /* and all else goes on */
    hr_device_release(device, data, 1 << 20);
}

/* The last test: after it the device is lost to this process. */
static void test_lost(void **state) {
    (void)state;
    hr_launch launch = {.entry = "plain", .grid = {1, 1, 1}, .threads = 32, .cluster = 1};
    arguments given = {.pointer = (void *)0x10, .extent = 32, .stride = 1};
    hr_module *module = prepare(&given, &launch, 1);
    hr_fault fault = {0};
    void *data = NULL;
    assert_int_equal(device->ops->launch(device, module, &given.execution, &fault), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "kernel plain failed with CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_not_equal(hr_device_allocate(device, 64, &data), HR_OK);
    assert_int_not_equal(hr_device_synchronise(device), HR_OK);
    assert_int_equal(hr_status_exit_code(HR_INTERNAL), 3);
    device->ops->unload(device, module);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch), cmocka_unit_test(test_fault), cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_time),   cmocka_unit_test(test_fill),  cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_lost),
    };
    if (hr_device_open("cuda", &device) != HR_OK) {
        printf("skipped: %s\n", hr_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hr_device_destroy(device);
    return failed;
}
