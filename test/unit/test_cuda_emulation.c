/* The emulated CUDA device on kernels written by hand: right ones run and leave the right values, and each
 * planted fault is caught with a sentence that names it. Every case runs in several orders of its threads. */
#include "support/cuda_emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_planted.h"

enum { COUNT = 1000, SEEDS = 4 };

/* Entry `k` gets x (COUNT floats, x[i] = i), y (COUNT floats, nobody wrote to them, each to be written once),
 * t (COUNT floats of scratch) and n = COUNT. */
static const char *const opening = "typedef __UINT64_TYPE__ u64;\n"
                                   "struct words { const float *x; float *y; float *t; u64 n; };\n"
                                   "extern \"C\" __global__ void k(const __grid_constant__ words a) {\n"
                                   "    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
                                   "    unsigned t = threadIdx.x;\n";

struct emulated_case {
    const char *name, *body;
    hr_launch launch;
    const char *fault; /* part of the sentence; NULL: there is none, and y[i] is `value` */
    double (*value)(int i);
    bool some; /* it is enough that one order of the threads shows the fault */
};

static double twice(int i) {
    return 2.0 * i;
}

/* Of 128 neighbours. */
static double block_total(int i) {
    double total = 0;
    for (int j = i / 128 * 128; j < i / 128 * 128 + 128 && j < COUNT; j++)
        total += j;
    return total;
}

/* The element at the same place of the other block of a pair. */
static double partner(int i) {
    int j = i / 128 % 2 ? i - 128 : i + 128;
    return j < COUNT ? j : 0;
}

#define GRID(count, size, bytes, together)                                                                   \
    { .entry = "k", .grid = {(count), 1, 1}, .threads = (size), .shared = (bytes), .cluster = (together) }

static const struct emulated_case cases[] = {
    /* ---- right ---- */
    {"map", "if (i < a.n) a.y[i] = 2 * a.x[i];", GRID(8, 128, 0, 1), NULL, twice, false},
    {"vectors of four",
     "if (4 * i < a.n) { float4 v = ((const float4 *)a.x)[i]; v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;\n"
     "__stcs((float4 *)a.y + i, v); }",
     GRID(2, 128, 0, 1), NULL, twice, false},
    {"a warp's sum and a block's",
     "__shared__ float part[4];\nfloat v = i < a.n ? a.x[i] : 0;\n"
     "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);\n"
     "if (t % 32 == 0) part[t / 32] = v;\n__syncthreads();\n"
     "v = part[0] + part[1] + part[2] + part[3];\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 1), NULL, block_total, false},
    {"dynamic shared memory, in turns",
     "float *s = (float *)hr_emulated_shared();\nfor (int r = 0; r < 3; r++) { s[t] = i < a.n ? a.x[i] : 0; "
     "__syncthreads();\n"
     "float v = 0; for (int j = 0; j < 128; j++) v += s[j];\n__syncthreads();\nif (r == 2 && i < a.n) a.y[i] "
     "= v; }",
     GRID(8, 128, 512, 1), NULL, block_total, false},
    {"what a warp wrote, after __syncwarp",
     "__shared__ float s[128];\ns[t] = i < a.n ? a.x[i] : 0;\n__syncwarp();\nfloat v = s[t ^ 1] + s[t];\n"
     "v = __shfl_xor_sync(0xffffffff, v, 1);\nif (i < a.n) a.y[i] = v - a.x[i ^ 1] + a.x[i];",
     GRID(8, 128, 0, 1), NULL, twice, false},
    {"the other block's shared memory",
     "__shared__ float s[128];\ns[t] = i < a.n ? a.x[i] : 0;\nhr_emulated_cluster_barrier();\nfloat v;\n"
     "hr_emulated_cluster_load(&v, &s[t], hr_emulated_cluster_rank() ^ 1, 4);\n"
     "hr_emulated_cluster_barrier();\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 2), NULL, partner, false},
    {"into the other block's shared memory",
     "float *s = (float *)hr_emulated_shared(), v = i < a.n ? a.x[i] : 0;\n"
     "hr_emulated_cluster_barrier();\nhr_emulated_cluster_store(&s[t], hr_emulated_cluster_rank() ^ 1, &v, "
     "4);\n"
     "hr_emulated_cluster_barrier();\nif (i < a.n) a.y[i] = s[t];",
     GRID(8, 128, 512, 2), NULL, partner, false},
    {"asynchronous copies",
     "float *s = (float *)hr_emulated_shared();\nif (t < 32) hr_emulated_copy_async(s + 4 * t, a.x + "
     "blockIdx.x * 128 + 4 * t, "
     "blockIdx.x * 128 + 4 * t < a.n ? 16 : 0, 16);\nhr_emulated_copy_commit();\nhr_emulated_copy_wait(0);\n"
     "__syncthreads();\nif (i < a.n) a.y[i] = 2 * s[t];",
     GRID(8, 128, 512, 1), NULL, twice, false},
    {"votes",
     "unsigned b = __ballot_sync(0xffffffff, t % 2);\nint any = __syncthreads_or(i == 5), n = "
     "__syncthreads_count(t < 7);\n"
     "if (i < a.n) a.y[i] = b == 0xaaaaaaaa && any == (blockIdx.x == 0) && n == 7 ? 2 * a.x[i] : -1;",
     GRID(8, 128, 0, 1), NULL, twice, false},
    {"atomics, a launch's order apart",
     "__shared__ int s;\nif (t == 0) s = 0;\n__syncthreads();\natomicAdd(&s, 2);\n__syncthreads();\n"
     "if (i < a.n) a.y[i] = s == 256 ? 2 * a.x[i] : -1;",
     GRID(8, 128, 0, 1), NULL, twice, false},
    /* ---- range and alignment ---- */
    {"one element too far", "if (i <= a.n) a.y[i] = a.x[i < a.n ? i : 0];", GRID(8, 128, 0, 1),
     "out of range", NULL, false},
    {"one before the first", "if (i < a.n) a.y[i] = a.x[i - 1];", GRID(8, 128, 0, 1),
     "reads 4 bytes at x - 4 bytes", NULL, false},
    {"a vector over the end", "if (4 * i < a.n) a.y[4 * i] = ((const float4 *)(a.x + 4))[i].w;",
     GRID(2, 128, 0, 1), "out of range", NULL, false},
    {"a misaligned vector",
     "if (4 * i + 4 < a.n) { float4 v = *(const float4 *)(a.x + 4 * i + 1); a.y[i] = v.x; }",
     GRID(2, 128, 0, 1), "misaligned", NULL, false},
    {"a misaligned store", "if (i == 0) *(float2 *)(a.y + 1) = make_float2(1, 2);", GRID(2, 128, 0, 1),
     "misaligned", NULL, false},
    {"a store into an input", "if (i < a.n) ((float *)a.x)[i] = 0;", GRID(8, 128, 0, 1), "not for this", NULL,
     false},
    {"a wild pointer", "if (i == 77) a.y[i] = *(const float *)(a.n * 4096);", GRID(8, 128, 0, 1),
     "touches no array", NULL, false},
    {"too far in shared memory", "float *s = (float *)hr_emulated_shared();\ns[t + 1] = 0;",
     GRID(8, 128, 512, 1), "+ 512: out of range", NULL, false},
    {"more shared memory than there is", "", GRID(1, 128, 232449, 1), "more than a block can have", NULL,
     false},
    {"more threads than there are", "", GRID(1, 1056, 0, 1), "no such grid", NULL, false},
    /* ---- what is written ---- */
    {"an element written twice", "if (i < a.n) a.y[i] = 1;\nif (i == 31) a.y[30] = 1;", GRID(8, 128, 0, 1),
     "a second time", NULL, true},
    {"written by two blocks", "if (t < a.n) a.y[t] = 1;", GRID(2, 128, 0, 1), "a second time", NULL, false},
    {"a tail that nobody writes", "if (4 * i + 4 < a.n) for (int j = 0; j < 4; j++) a.y[4 * i + j] = 0;",
     GRID(2, 128, 0, 1), "y is not written whole", NULL, false},
    {"a result read before it is written", "if (i < a.n) a.y[i] += a.x[i];", GRID(8, 128, 0, 1),
     "nobody wrote", NULL, false},
    {"scratch read before it is written", "if (i < a.n) a.y[i] = a.t[i];", GRID(8, 128, 0, 1), "nobody wrote",
     NULL, false},
    {"shared memory read before it is written", "__shared__ float s[128];\nif (i < a.n) a.y[i] = s[t];",
     GRID(8, 128, 0, 1), "nobody wrote", NULL, false},
    /* ---- order ---- */
    {"no barrier before the read", "__shared__ float s[128];\ns[t] = 1;\nif (i < a.n) a.y[i] = s[127 - t];",
     GRID(8, 128, 0, 1), "thread", NULL, false},
    {"a shuffle is no barrier",
     "__shared__ float s[128];\ns[t] = 1;\n__shfl_xor_sync(0xffffffff, 1, 1);\nif (i < a.n) a.y[i] = s[t ^ "
     "1];",
     GRID(8, 128, 0, 1), "with nothing in between", NULL, false},
    {"__syncwarp is no barrier of the block",
     "__shared__ float s[128];\ns[t] = 1;\n__syncwarp();\nif (i < a.n) a.y[i] = s[t ^ 32];",
     GRID(8, 128, 0, 1), "thread", NULL, false},
    {"no barrier before it is used again",
     "__shared__ float s;\nfor (int r = 0; r < 2; r++) { if (t == 0) s = r; __syncthreads(); if (r == 1 && i "
     "< a.n) a.y[i] = s; else if (s > 9) return; }",
     GRID(8, 128, 0, 1), "with nothing in between", NULL, false},
    {"two threads write one place", "__shared__ float s;\ns = 1;\n__syncthreads();\nif (i < a.n) a.y[i] = s;",
     GRID(8, 128, 0, 1), "with nothing in between", NULL, false},
    {"another block's scratch",
     "if (i < a.n) a.t[i] = 1;\nint j = (i + 128) % (int)a.n;\n__syncthreads();\nif (i < a.n) a.y[i] = "
     "a.t[j];",
     GRID(8, 128, 0, 1), "a.t", NULL, false},
    {"the block ended",
     "__shared__ float s[128];\ns[t] = 1;\nhr_emulated_cluster_barrier();\nfloat v;\n"
     "hr_emulated_cluster_load(&v, &s[t], hr_emulated_cluster_rank() ^ 1, 4);\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 2), "a block with threads that have ended", NULL, false},
    {"before the other block has started",
     "__shared__ float s[128];\ns[t] = 1;\n__syncthreads();\nfloat v;\nhr_emulated_cluster_load(&v, &s[t], "
     "hr_emulated_cluster_rank() ^ 1, 4);\n"
     "hr_emulated_cluster_barrier();\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 2), "may not have started", NULL, false},
    {"no second barrier of the cluster",
     "__shared__ float s[128];\nhr_emulated_cluster_barrier();\ns[t] = 1;\n__syncthreads();\nfloat v;\n"
     "hr_emulated_cluster_load(&v, &s[t], hr_emulated_cluster_rank() ^ 1, 4);\n"
     "hr_emulated_cluster_barrier();\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 2), "shared memory of block", NULL, false},
    {"a copy that nobody waited for",
     "float *s = (float *)hr_emulated_shared();\nif (t < 32) hr_emulated_copy_async(s + 4 * t, a.x + 4 * t, "
     "16, 16);\n"
     "hr_emulated_copy_commit();\nhr_emulated_copy_wait(1);\n__syncthreads();\nif (i < a.n) a.y[i] = s[t];",
     GRID(8, 128, 512, 1), "nobody wrote", NULL, true},
    {"a copy into what is still read",
     "float *s = (float *)hr_emulated_shared();\ns[t] = 1;\n__syncthreads();\nfloat v = s[127 - t];\n"
     "if (t < 32) hr_emulated_copy_async(s + 4 * t, a.x + 4 * t, 16, "
     "16);\nhr_emulated_copy_commit();\nhr_emulated_copy_wait(0);\n"
     "__syncthreads();\nif (i < a.n) a.y[i] = v + s[t];",
     GRID(8, 128, 512, 1), "with nothing in between", NULL, true},
    /* ---- waiting ---- */
    {"a barrier that some threads miss", "if (t < 64) __syncthreads();\nif (i < a.n) a.y[i] = 0;",
     GRID(8, 128, 0, 1), "never ends", NULL, false},
    {"a shuffle that some lanes miss",
     "float v = 1;\nif (t % 32 < 16) v = __shfl_xor_sync(0xffffffff, v, 1);\n__syncthreads();\nif (i < a.n) "
     "a.y[i] = v;",
     GRID(8, 128, 0, 1), "never ends", NULL, false},
    {"a lane outside of its own mask",
     "float v = __shfl_xor_sync(0xffff, 1.0f, 1);\nif (i < a.n) a.y[i] = v;", GRID(8, 128, 0, 1),
     "not in its own mask", NULL, false},
    {"a lane that takes no part",
     "float v = 1;\nif (t % 32 < 16) v = __shfl_xor_sync(0xffff, v, 16);\nif (i < a.n) a.y[i] = v;",
     GRID(8, 128, 0, 1), "takes no part", NULL, false},
    {"a cluster's barrier that one block misses", "if (blockIdx.x % 2) hr_emulated_cluster_barrier();",
     GRID(8, 128, 0, 2), "never ends", NULL, false},
};

struct arrays {
    float *x, *y, *t;
    uint64_t n;
};

static void arrays_make(struct arrays *out) {
    size_t bytes = COUNT * sizeof(float);
    cuda_emulation_clear(device);
    out->x = cuda_emulation_array(device, "x", bytes, 0, CUDA_READ | CUDA_FILLED);
    out->y = cuda_emulation_array(device, "y", bytes, 0, CUDA_READ | CUDA_WRITE | CUDA_ONCE);
    out->t = cuda_emulation_array(device, "a.t", bytes, 0, CUDA_READ | CUDA_WRITE);
    out->n = COUNT;
    assert_non_null(out->x);
    assert_non_null(out->y);
    assert_non_null(out->t);
    for (int i = 0; i < COUNT; i++)
        out->x[i] = (float)i;
}

/* The sentence of one run, "" where all is right. */
static const char *sentence_of(const void *planted, const cuda_object *object, uint64_t seed) {
    const struct emulated_case *one = planted;
    struct arrays arrays;
    arrays_make(&arrays);
    if (cuda_emulation_launch(device, object, &one->launch, &arrays, seed) != HR_OK) return hr_last_error();
    if (!cuda_emulation_written(device, arrays.y, COUNT * sizeof(float))) return "y is not written whole";
    for (int i = 0; one->value && i < COUNT; i++)
        if (arrays.y[i] != (float)one->value(i)) return "a wrong value";
    return "";
}

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_told(&(cuda_planted){cases[i].name, opening, cases[i].body, cases[i].fault, cases[i].some,
                                    SEEDS, sentence_of, &cases[i]});
}

static void test_traffic(void **state) {
    (void)state;
    int64_t read, written;
    struct arrays arrays;
    cuda_object *object =
        compile_or_skip(&(cuda_planted){.name = cases[1].name, .opening = opening, .body = cases[1].body});
    arrays_make(&arrays);
    assert_int_equal(cuda_emulation_launch(device, object, &cases[1].launch, &arrays, 0), HR_OK);
    cuda_emulation_traffic(device, &read, &written);
    assert_int_equal(read, COUNT * sizeof(float));
    assert_int_equal(written, COUNT * sizeof(float));
    cuda_object_destroy(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_traffic)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
