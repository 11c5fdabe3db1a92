/* What the planner may know of a device: sizes, not functions. */
#ifndef HR_BASE_LIMITS_H
#define HR_BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of a CPU's core beside its sizes: src/device/cores.def. */
typedef enum hr_core_fact {
    HR_CORE_KNOWN = 1 << 0,
    HR_CORE_SEES_FAR = 1 << 1,   /* room for 350 operations and more in flight */
    HR_CORE_STORES_WAIT = 1 << 2 /* few lines fill its way to memory: what comes behind a store waits, too */
} hr_core_fact;

typedef struct hr_device_limits {
    int threads;                          /* hardware threads in use, or multiprocessors */
    int vector_bytes;                     /* the widest vector register: 64, 32 or 16 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* l1, l2 a core */
    int matrix_bf16;                      /* a CPU's matrix unit for bf16 (AMX): 0 = none */
    int matrix_bytes;                     /* the same for dots of bytes */
    int dots_bf16;                        /* a CPU's vectors multiply pairs of bf16 faster than f32: 0 = no */
    int dots_bytes;                       /* a CPU's vectors multiply bytes in fours (AVX512-VNNI): 0 = no */
    unsigned core;                        /* of hr_core_fact; without HR_CORE_KNOWN its caches tell */
    double little_work;                   /* operations that one thread does before others start; 0 = none */
    char isa[64];                         /* "avx512", "avx2", "neon", "generic" or "sm_90a" */
    int compute;                          /* 80, 90, 100: compute capability of a CUDA device; 0 = a CPU */
    int64_t shared_bytes;                 /* CUDA: shared memory that one block may have */
    int cluster_blocks;                   /* CUDA: blocks of a cluster, 1 = none */
    bool tensor_maps;                     /* CUDA: copies of boxes of a tensor, which the driver describes */
} hr_device_limits;

/* A core's caches; small ones where the device does not say. */
static inline int64_t hr_limits_l1(const hr_device_limits *limits) {
    return limits->l1_bytes ? limits->l1_bytes : 1 << 15;
}

static inline int64_t hr_limits_l2(const hr_device_limits *limits) {
    return limits->l2_bytes ? limits->l2_bytes : 1 << 18;
}

static inline int64_t hr_limits_threads(const hr_device_limits *limits) {
    return limits->threads > 0 ? limits->threads : 1;
}

/* What a core finds again in a cache: of the second level, or in half of its share of the third, which others
 * use, too; of that no more than adds up to 64 MB. */
static inline int64_t hr_limits_stash(const hr_device_limits *limits) {
    int64_t third = limits->l3_bytes / 2 < 64 << 20 ? limits->l3_bytes / 2 : 64 << 20;
    int64_t share = third / hr_limits_threads(limits);
    return share > hr_limits_l2(limits) ? share : hr_limits_l2(limits);
}

/* The 32-bit lanes of a CPU's vectors; those of the widest where the device does not say. */
static inline int hr_limits_lanes(const hr_device_limits *limits) {
    return limits->vector_bytes ? limits->vector_bytes / 4 : 16;
}

/* Less than a cache line in a vector. */
static inline bool hr_limits_are_short(const hr_device_limits *limits) {
    return hr_limits_lanes(limits) < 16;
}

/* A core that the table lacks is taken for one of those in it whose caches are like its own: 48 KB of the
 * first level have only cores that see far, and 2 MB of the second besides only those whose stores wait. */
static inline bool hr_limits_see_far(const hr_device_limits *limits) {
    if (limits->core & HR_CORE_KNOWN) return limits->core & HR_CORE_SEES_FAR;
    return hr_limits_l1(limits) >= 48 << 10;
}

/* docs/facts.md, "Where stores wait for long". */
static inline bool hr_limits_stores_wait(const hr_device_limits *limits) {
    if (limits->core & HR_CORE_KNOWN) return limits->core & HR_CORE_STORES_WAIT;
    return hr_limits_see_far(limits) && hr_limits_l2(limits) >= 2 << 20;
}

#endif
