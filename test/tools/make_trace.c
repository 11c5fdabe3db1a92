/* Writes a trace as PyTorch's profiler does, of a size of one's choice, to measure readers with. For tests
 * only.
 *
 * make_trace MEGABYTES >FILE     steps of a training loop: operators with shapes, calls, kernels; first the
 * host's events of all steps, then the device's, as the profiler orders them
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define KERNELS_A_STEP 1000
#define BYTES_A_KERNEL 1300 /* of its operator, call, arrow and itself */

static const char *const operators[] = {"aten::mm", "aten::add_", "aten::native_layer_norm", "aten::gelu",
                                        "autograd::engine::evaluate_function: AddmmBackward0"};
static const char *const kernels[] = {
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float "
    "const*, float const*, float const*, float*, float*, float*)",
};

static void host_event(int64_t i) {
    int64_t time = INT64_C(1700000000000000) + i * 20;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 4037, \"tid\": 4037,\n"
           "    \"ts\": %" PRId64 ".%03d, \"dur\": 15.250,\n    \"args\": {\n      \"External id\": %" PRId64
           ",\"Record function id\": 0, \"Sequence number\": %" PRId64
           ", \"Fwd thread id\": 0, \"Input Dims\": "
           "[[4096, 1024], [1024, 4096]], \"Input type\": [\"float\", \"float\"], \"Ev Idx\": %" PRId64
           "\n    }\n  },\n",
           operators[i % 5], time, (int)(i % 1000), i + 1, i + 7, i);
    printf("  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": "
           "4037, \"tid\": "
           "4037,\n    \"ts\": %" PRId64
           ".125, \"dur\": 5.500,\n    \"args\": {\n      \"External id\": %" PRId64
           ", \"cbid\": 211, \"correlation\": %" PRId64 "\n    }\n  },\n",
           time + 4, i + 1, i + 1000000);
}

static void device_event(int64_t i) {
    int64_t time = INT64_C(1700000000000000) + i * 20 + 12;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n    "
           "\"ts\": %" PRId64 ".500, \"dur\": 14.336,\n    \"args\": {\n      \"External id\": %" PRId64
           ",\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": "
           "%" PRId64 ",\n      \"registers per thread\": 32,\n      \"shared memory\": 0,\n      \"blocks "
           "per SM\": 4.848485,\n "
           "     \"warps per SM\": 38.787880,\n      \"grid\": [640, 1, 1],\n      \"block\": [256, 1, 1],\n "
           "     "
           "\"est. achieved occupancy %%\": 61\n    }\n  },\n",
           kernels[i % 3], time, i + 1, i + 1000000);
    printf("  {\n    \"ph\": \"s\", \"id\": %" PRId64 ", \"pid\": 4037, \"tid\": 4037, \"ts\": %" PRId64
           ".125,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n",
           i + 1000000, time - 8);
}

static void step_event(int64_t step) {
    printf("  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%" PRId64
           "\", \"pid\": 4037, \"tid\": 4037,\n    \"ts\": %" PRId64
           ", \"dur\": %d,\n    \"args\": {}\n  },\n",
           step, INT64_C(1700000000000000) + step * KERNELS_A_STEP * 20, KERNELS_A_STEP * 20 - 1);
}

int main(int count, char **words) {
    if (count != 2 || atoll(words[1]) < 1) {
        fprintf(stderr, "usage: make_trace MEGABYTES >FILE\n");
        return 2;
    }
    int64_t total = atoll(words[1]) * 1000000 / BYTES_A_KERNEL;
    printf("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\"id\": 0, \"name\": \"NVIDIA "
           "A100-SXM4-80GB\", "
           "\"computeMajor\": 8, \"computeMinor\": 0, \"numSms\": 108}\n  ],\n  \"traceEvents\": [\n");
    for (int64_t i = 0; i < total; i++) {
        if (i % KERNELS_A_STEP == 0) step_event(i / KERNELS_A_STEP);
        host_event(i);
    }
    for (int64_t i = 0; i < total; i++)
        device_event(i);
    printf("  {\n    \"name\": \"process_name\", \"ph\": \"M\", \"ts\": 1700000000000000, \"pid\": 4037, "
           "\"tid\": 0,\n"
           "    \"args\": {\"name\": \"python\"}\n  }\n  ],\n  \"displayTimeUnit\": \"ms\"\n}\n");
    return 0;
}
