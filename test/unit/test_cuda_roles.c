/* Roles, barriers with phases, the copy engine and the tensor cores on the emulated device: right kernels run
 * in several orders of their threads, and each planted fault is caught with a sentence that names it. */
#include "support/cuda_emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_planted.h"

enum { COUNT = 8192, SEEDS = 6 };

/* Entry `k` gets x (COUNT floats, x[i] = i % 1024) and y (COUNT floats, each to be written once). Maps: x as
 * 64 x 128, boxes of 16 x 8 (map 0, plain); y alike (map 1). `s`: dynamic shared memory, `at` its address;
 * `full` and `empty` are two barriers each, which `begin` begins. */
static const char *const opening =
    "typedef __UINT64_TYPE__ u64;\n"
    "typedef unsigned u32;\n"
    "struct words { const float *x; float *y; };\n"
    "static inline void begin(u32 full, u32 empty, int come, int leave) {\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int i = 0; i < 2; i++) ptx_mbarrier_init(full + 8 * i, come), ptx_mbarrier_init(empty + 8 "
    "* i, leave);\n"
    "        ptx_fence_mbarrier_init();\n"
    "    }\n"
    "    __syncthreads();\n"
    "}\n"
    "extern \"C\" __global__ void k(const __grid_constant__ tensor_map x_map, const __grid_constant__ "
    "tensor_map y_map,\n"
    "                             const __grid_constant__ words a) {\n"
    "    float *s = (float *)hr_emulated_shared();\n"
    "    const u32 at = ptx_shared_address(s), t = threadIdx.x;\n"
    "    __shared__ u64 barriers[4];\n"
    "    const u32 full = ptx_shared_address(barriers), empty = full + 16;\n"
    "    (void)at; (void)t; (void)full; (void)empty; (void)x_map; (void)y_map;\n";

struct role_case {
    const char *name, *body;
    hr_launch launch;
    const char *fault; /* part of the sentence; NULL: there is none, and y is twice x where `whole` */
    bool whole;
    bool some; /* it is enough that one order of the threads shows the fault */
};

#define GRID(count, size, bytes, together)                                                                   \
    { .entry = "k", .grid = {(count), 1, 1}, .threads = (size), .shared = (bytes), .cluster = (together) }

/* A ring of two places of 512 floats: warp 0's first thread brings them, warps 1 to 4 double them, REFILL,
 * RELEASE and ARRIVAL are what a fault changes. */
#define RING(WAIT_EMPTY, WAIT_FULL, RELEASE)                                                                 \
    "begin(full, empty, 1, 4);\n"                                                                            \
    "if (t < 32) {\n"                                                                                        \
    "    if (t == 0) for (int i = 0; i < 8; i++) {\n"                                                        \
    "        int p = i % 2; " WAIT_EMPTY "\n"                                                                \
    "        ptx_mbarrier_arrive_expect(full + 8 * p, 2048);\n"                                              \
    "        ptx_bulk_load(at + 2048 * p, a.x + blockIdx.x * 4096 + 512 * i, 2048, full + 8 * p);\n"         \
    "    }\n"                                                                                                \
    "} else for (int i = 0; i < 8; i++) {\n"                                                                 \
    "    int p = i % 2; " WAIT_FULL "\n"                                                                     \
    "    for (int j = 0; j < 4; j++) { int q = (t - 32) * 4 + j; a.y[blockIdx.x * 4096 + 512 * i + q] = 2 "  \
    "* s[512 * p + q]; }\n"                                                                                  \
    "    " RELEASE "\n"                                                                                      \
    "}"
#define WAIT_EMPTY "ptx_mbarrier_wait(empty + 8 * p, i / 2 % 2 ^ 1);"
#define WAIT_FULL  "ptx_mbarrier_wait(full + 8 * p, i / 2 % 2);"
#define RELEASE    "__syncwarp(); if (t % 32 == 0) ptx_mbarrier_arrive(empty + 8 * p);"

/* Doubles in place a box of 16 x 8 (`b` of the 64 x 8 there are) and stores it by the map. */
#define BOXES(FENCE, READ)                                                                                   \
    "begin(full, empty, 1, 1);\n"                                                                            \
    "for (int b = blockIdx.x; b < 64; b += 2) {\n"                                                           \
    "    int i = b / 2; if (t == 0) { ptx_mbarrier_arrive_expect(full, 512);\n"                              \
    "        ptx_tensor_load_2d(at, &x_map, b % 4 * 16, b / 4 * 8, full); }\n"                               \
    "    ptx_mbarrier_wait(full, i % 2);\n"                                                                  \
    "    s[t] = 2 * s[t];\n    " FENCE "\n    __syncthreads();\n"                                            \
    "    if (t == 0) { ptx_tensor_store_2d(&y_map, b % 4 * 16, b / 4 * 8, at); ptx_bulk_commit(); " READ     \
    " }\n"                                                                                                   \
    "    __syncthreads();\n}\n"
#define FENCE "ptx_fence_proxy_async();"
#define READ  "ptx_bulk_wait_read<0>();"

/* One product of a warpgroup: 64 x 8 of zeros. */
#define PRODUCT(FENCE_PROXY, FENCE_GROUP, COMMIT, AFTER)                                                     \
    "for (int i = t; i < 576; i += 128) s[i] = 0;\n" FENCE_PROXY " __syncthreads();\n"                       \
    "float d[4] = {1, 1, 1, 1};\n"                                                                           \
    "u64 da = ptx_wgmma_descriptor(at, 1024, 128, 0), db = ptx_wgmma_descriptor(at + 2048, 128, 128, "       \
    "0);\n" FENCE_GROUP " ptx_wgmma_m64n8k16_f32_bf16_bf16_k_k(d, da, db, 0);\n" COMMIT "\n" AFTER           \
    "if (d[0] != 0 || d[3] != 0) a.y[t] = 1;"

static const struct role_case cases[] = {
    {"a ring", RING(WAIT_EMPTY, WAIT_FULL, RELEASE), GRID(2, 160, 4096, 1), NULL, true, false},
    {"a ring, peeking",
     RING(WAIT_EMPTY, "while (!ptx_mbarrier_try_wait(full + 8 * p, i / 2 % 2)) {}", RELEASE),
     GRID(2, 160, 4096, 1), NULL, true, false},
    {"boxes", BOXES(FENCE, READ), GRID(2, 128, 512, 1), NULL, true, false},
    {"named barriers, in turn",
     "if (t < 64) { for (int i = 0; i < 64; i++) { s[t] = a.x[i * 64 + t + blockIdx.x * 4096]; "
     "ptx_barrier_sync(1, 128); "
     "ptx_barrier_sync(2, 128); } }\n"
     "else for (int i = 0; i < 64; i++) { ptx_barrier_sync(1, 128); a.y[i * 64 + 127 - t + blockIdx.x * "
     "4096] = 2 * s[127 - t]; "
     "ptx_barrier_arrive(2, 128); if (i < 63) continue; }\n",
     GRID(2, 128, 512, 1), NULL, true, false},
    {"multicast: each block brings half for both",
     "begin(full, empty, 1, 2);\nptx_cluster_arrive(); ptx_cluster_wait();\nint r = ptx_cluster_rank();\n"
     "for (int i = 0; i < 32; i++) {\n"
     "    if (t == 0) { if (i > 0) ptx_mbarrier_wait(empty, i % 2 ^ 1); ptx_mbarrier_arrive_expect(full, "
     "1024);\n"
     "        ptx_tensor_load_2d_multicast(at + 512 * r, &x_map, i % 4 * 16, i / 4 * 16 + 8 * r, full, 3); "
     "}\n"
     "    ptx_mbarrier_wait(full, i % 2);\n"
     "    int q = t + 128 * r, row = i / 4 * 16 + q / 16, column = i % 4 * 16 + q % 16;\n"
     "    a.y[row * 64 + column] = 2 * s[q];\n"
     "    __syncthreads();\n"
     "    if (t < 2) ptx_mbarrier_arrive_cluster(ptx_cluster_address(empty, t));\n"
     "}\nptx_cluster_arrive(); ptx_cluster_wait();",
     GRID(2, 128, 1024, 2), NULL, true, false},
    {"a box over the edges: what is outside reads as zeros",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 512);\n"
     "ptx_tensor_load_2d(at, &x_map, 56, -4, full); }\nptx_mbarrier_wait(full, 0);\n"
     "int r = (int)t / 16 - 4, c = (int)t % 16 + 56;\n"
     "if (s[t] != (r >= 0 && c < 64 ? (float)((r * 64 + c) % 1024) : 0)) a.y[9000] = 1;",
     GRID(1, 128, 512, 1), NULL, false, false},
    {"a box over the edges: what is outside is not written",
     "begin(full, empty, 1, 1);\ns[t] = (float)t;\n" FENCE "__syncthreads();\nif (t > 0) return;\n"
     "ptx_tensor_store_2d(&y_map, 56, 124, at);\nptx_bulk_commit();\nptx_bulk_wait<0>();\n"
     "for (int i = 0; i < 128; i++) if (i / 16 < 4 && i % 16 < 8 && a.y[(124 + i / 16) * 64 + 56 + i % 16] "
     "!= i) "
     "a.y[9000] = 1;",
     GRID(1, 128, 512, 1), NULL, false, false},
    {"registers that there are", "if (t < 128) ptx_registers_give<40>(); else ptx_registers_take<232>();",
     GRID(1, 384, 0, 1), NULL, false, false},
    {"a product", PRODUCT(FENCE, "ptx_wgmma_fence();", "ptx_wgmma_commit();", "ptx_wgmma_wait<0>();\n"),
     GRID(1, 128, 2304, 1), NULL, false, false},
    {"a block of a grid of three sizes",
     "int b = blockIdx.x + 2 * (blockIdx.y + 2 * blockIdx.z);\nif (gridDim.x != 2 || gridDim.y != 2 || "
     "gridDim.z != 4) "
     "return;\nfor (int i = 0; i < 4; i++) { int q = b * 512 + i * 128 + t; a.y[q] = 2 * a.x[q]; }",
     {.entry = "k", .grid = {2, 2, 4}, .threads = 128, .cluster = 1},
     NULL,
     true,
     false},
    /* ---- barriers ---- */
    {"full is not waited for", RING(WAIT_EMPTY, "", RELEASE), GRID(2, 160, 4096, 1), "reads shared memory",
     false, false},
    {"a place is filled again before it is released", RING("", WAIT_FULL, RELEASE), GRID(2, 160, 4096, 1),
     "with nothing in between", false, true},
    {"released before it is read",
     RING(WAIT_EMPTY, WAIT_FULL "if (t % 32 == 0) ptx_mbarrier_arrive(empty + 8 * p);", ""),
     GRID(2, 160, 4096, 1), "with nothing in between", false, true},
    {"one lane releases what all read, and nothing orders them",
     RING(WAIT_EMPTY, WAIT_FULL, "if (t % 32 == 0) ptx_mbarrier_arrive(empty + 8 * p);"),
     GRID(2, 160, 4096, 1), "with nothing in between", false, true},
    {"the wrong parity", RING("ptx_mbarrier_wait(empty + 8 * p, i / 2 % 2);", WAIT_FULL, RELEASE),
     GRID(2, 160, 4096, 1), "waits for parity 0 of the barrier", false, false},
    {"nobody releases", RING(WAIT_EMPTY, WAIT_FULL, ""), GRID(2, 160, 4096, 1),
     "4 arrivals and 0 bytes missing", false, false},
    {"fewer bytes than expected",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 32); ptx_bulk_load(at, a.x, "
     "16, full); }\n"
     "ptx_mbarrier_wait(full, 0);",
     GRID(1, 128, 512, 1), "0 arrivals and 16 bytes missing", false, false},
    {"more arrivals than counted",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 16); "
     "ptx_mbarrier_arrive(full); }",
     GRID(1, 128, 0, 1), "has all its 1 arrivals", false, false},
    {"a barrier that nobody began", "if (t == 0) ptx_mbarrier_arrive(full);", GRID(1, 128, 0, 1),
     "nobody began", false, false},
    {"used before its beginning is known",
     "if (t == 0) ptx_mbarrier_init(full, 128);\nif (t >= 32) ptx_mbarrier_arrive(full);", GRID(1, 128, 0, 1),
     "with nothing in between", false, true},
    {"no fence after its beginning",
     "if (t == 0) { ptx_mbarrier_init(full, 1); ptx_mbarrier_arrive_expect(full, 16); ptx_bulk_load(at, a.x, "
     "16, full); }",
     GRID(1, 128, 512, 1), "without fence.mbarrier_init", false, false},
    {"a copy that nobody waited for",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 16); ptx_bulk_load(at, a.x, "
     "16, full); }",
     GRID(1, 128, 512, 1), "bytes are expected", false, true},
    {"a named barrier that some miss", "if (t < 64) ptx_barrier_sync(1, 96);", GRID(1, 128, 0, 1),
     "waits at barrier 1", false, false},
    {"a named barrier of two sizes", "ptx_barrier_sync(1, t < 64 ? 64 : 128);", GRID(1, 128, 0, 1),
     "of which others came", false, true},
    {"a named barrier of others orders nothing",
     "if (t < 64) { s[t] = 1; ptx_barrier_sync(1, 64); } else if (s[t - 64] == 7) a.y[t] = 1;",
     GRID(1, 128, 512, 1), "with nothing in between", false, true},
    /* ---- copies ---- */
    {"no fence before a store", BOXES("", READ), GRID(2, 128, 512, 1), "without fence.proxy.async", false,
     false},
    {"a place that is still stored from", BOXES(FENCE, ""), GRID(2, 128, 512, 1),
     "a bulk store may still read", false, false},
    {"ends while it is stored from",
     "begin(full, empty, 1, 1);\ns[t] = 0;\n" FENCE
     "__syncthreads();\nif (t == 0) { ptx_tensor_store_2d(&y_map, 0, 0, at); ptx_bulk_commit(); }",
     GRID(1, 128, 512, 1), "may still read shared memory", false, false},
    {"a box at no multiple of 128",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 512);\n"
     "ptx_tensor_load_2d(at + 64, &x_map, 0, 0, full); }",
     GRID(1, 128, 1024, 1), "misaligned", false, false},
    {"a map of another rank",
     "begin(full, empty, 1, 1);\nif (t == 0) ptx_tensor_load_3d(at, &x_map, 0, 0, 0, full);",
     GRID(1, 128, 1024, 1), "copies 3 axes by a map of 2", false, false},
    {"into a block that may not have begun its barrier",
     "begin(full, empty, 1, 1);\nif (t == 0) { ptx_mbarrier_arrive_expect(full, 512); if (ptx_cluster_rank() "
     "== 0)\n"
     "ptx_tensor_load_2d_multicast(at, &x_map, 0, 0, full, 3); }\nptx_mbarrier_wait(full, 0);\n"
     "ptx_cluster_arrive(); ptx_cluster_wait();",
     GRID(2, 128, 512, 2), "may not have started", false, true},
    /* ---- products, registers ---- */
    {"more registers than there are",
     "if (t < 128) ptx_registers_give<40>(); else ptx_registers_take<240>();", GRID(1, 384, 0, 1),
     "setmaxnreg asks for", false, false},
    {"a product of what was written without a fence",
     PRODUCT("", "ptx_wgmma_fence();", "ptx_wgmma_commit();", "ptx_wgmma_wait<0>();\n"),
     GRID(1, 128, 2304, 1), "without fence.proxy.async", false, false},
    {"a product without wgmma.fence", PRODUCT(FENCE, "", "ptx_wgmma_commit();", "ptx_wgmma_wait<0>();\n"),
     GRID(1, 128, 2304, 1), "without wgmma.fence", false, false},
    {"operands overwritten while they are read",
     PRODUCT(FENCE, "ptx_wgmma_fence();", "ptx_wgmma_commit();", "s[t] = 0; ptx_wgmma_wait<0>();\n"),
     GRID(1, 128, 2304, 1), "the tensor cores may still read", false, false},
    {"a product that some threads miss", "ptx_wgmma_fence();\nif (t < 96) ptx_wgmma_commit();",
     GRID(1, 128, 0, 1), "waits for its warp or warpgroup", false, false},
};

struct arrays {
    float *x, *y;
};

static hr_tensor_map map_make(int tensor) {
    return (hr_tensor_map){.tensor = tensor,
                           .type = HR_MAP_F32,
                           .rank = 2,
                           .dims = {64, COUNT / 64},
                           .strides = {4, 256},
                           .box = {16, 8}};
}

/* The sentence of one run, "" where all is right. */
static const char *sentence_of(const void *planted, const cuda_object *object, uint64_t seed) {
    const struct role_case *one = planted;
    struct arrays arrays;
    hr_launch launch = one->launch;
    size_t bytes = COUNT * sizeof(float);
    cuda_emulation_clear(device);
    arrays.x = cuda_emulation_array(device, "x", bytes, 0, CUDA_READ | CUDA_FILLED);
    arrays.y = cuda_emulation_array(device, "y", bytes, 0, CUDA_READ | CUDA_WRITE | CUDA_ONCE);
    assert_non_null(arrays.y);
    for (int i = 0; i < COUNT; i++)
        arrays.x[i] = (float)(i % 1024);
    launch.maps[0] = map_make(0);
    launch.maps[1] = map_make(1);
    launch.map_count = 2;
    if (cuda_emulation_launch(device, object, &launch, &arrays, seed) != HR_OK) return hr_last_error();
    for (int i = 0; i < COUNT && one->whole; i++)
        if (arrays.y[i] != 2 * arrays.x[i]) return "a wrong value";
    return "";
}

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_told(&(cuda_planted){cases[i].name, opening, cases[i].body, cases[i].fault, cases[i].some,
                                    SEEDS, sentence_of, &cases[i]});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
