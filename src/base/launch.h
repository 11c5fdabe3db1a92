/* One launch of emitted code on a device with grids: made by the emitter, used by the device. */
#ifndef HR_BASE_LAUNCH_H
#define HR_BASE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define HR_LAUNCH_TENSORS_MAX 256 /* of an execution: their words are its parameters */
#define HR_LAUNCH_MAPS_MAX    16  /* of a launch */
#define HR_MAP_RANK_MAX       5
#define HR_MAP_SCRATCH        (-1)
#define HR_MAP_BYTES          128 /* of a map as a parameter */

/* ---- tensor maps ---- */

/* CUtensorMapDataType, by its values. TF32 rounds f32 to nearest even on the way in, F32 does not. */
typedef enum hr_map_type {
    HR_MAP_U8 = 0,
    HR_MAP_U16 = 1,
    HR_MAP_U32 = 2,
    HR_MAP_S32 = 3,
    HR_MAP_U64 = 4,
    HR_MAP_S64 = 5,
    HR_MAP_F16 = 6,
    HR_MAP_F32 = 7,
    HR_MAP_F64 = 8,
    HR_MAP_BF16 = 9,
    HR_MAP_TF32 = 11
} hr_map_type;

/* CUtensorMapSwizzle, L2promotion and FloatOOBfill, by their values. */
typedef enum hr_map_swizzle {
    HR_MAP_PLAIN,
    HR_MAP_SWIZZLE_32,
    HR_MAP_SWIZZLE_64,
    HR_MAP_SWIZZLE_128
} hr_map_swizzle;
typedef enum hr_map_promotion { HR_MAP_L2_NONE, HR_MAP_L2_64, HR_MAP_L2_128, HR_MAP_L2_256 } hr_map_promotion;
typedef enum hr_map_fill { HR_MAP_ZEROS, HR_MAP_NANS } hr_map_fill;

/* What copies by a tensor map move: boxes out of a tensor in memory. Axes are innermost first. */
typedef struct hr_tensor_map {
    int tensor;     /* of the kernel's parameters and results, or HR_MAP_SCRATCH */
    int64_t offset; /* bytes from its start to the first element; tensor and offset make a multiple of 16 */
    hr_map_type type;
    int rank;
    int64_t dims[HR_MAP_RANK_MAX];    /* elements; what lies outside reads as `fill` and is not written */
    int64_t strides[HR_MAP_RANK_MAX]; /* bytes, multiples of 16; strides[0] is the element's size */
    int box[HR_MAP_RANK_MAX]; /* elements, up to 256; box[0] in bytes a multiple of 16, at most the swizzle's
                               */
    hr_map_swizzle swizzle;
    hr_map_promotion promotion;
    hr_map_fill fill;
} hr_tensor_map;

static inline int hr_map_type_bytes(hr_map_type type) {
    switch (type) {
    case HR_MAP_U8:
        return 1;
    case HR_MAP_U16:
    case HR_MAP_F16:
    case HR_MAP_BF16:
        return 2;
    case HR_MAP_U64:
    case HR_MAP_S64:
    case HR_MAP_F64:
        return 8;
    default:
        return 4;
    }
}

/* ---- launches ---- */

/* The first data-dependent subscript that left its axis. access = 0: none. */
typedef struct hr_fault {
    int64_t access; /* 1 + the plan's number of the access, or: */
    int64_t value;
} hr_fault;

/* A choice that the code was made with does not hold for these extents; nothing was read or written. */
#define HR_FAULT_EXTENTS (-1)

/* The launches of one execution run in order. The entry takes its tensor maps, each a __grid_constant__
 * parameter, and after them one parameter by value, 8-byte words in this order: pointers, scalars (f64),
 * extents, strides, scratch, fault (the address of an hr_fault in the device's memory). */
typedef struct hr_launch {
    char entry[64];     /* name of the __global__ function */
    char unaligned[64]; /* what runs in its place where !hr_tensors_are_aligned(), without maps; "" = it takes
                           all */
    int64_t grid[3];    /* blocks along x, y and z; 0 = nothing to do */
    int threads;        /* of a block */
    int cluster;        /* blocks of a cluster, along x; 1 = none */
    int64_t shared;     /* bytes of dynamic shared memory */
    int64_t pieces;     /* over lists: grid[0] is the number of pieces, from 1 to this many; 0 = no list */
    bool overlaps;      /* may start while the launch before it ends: the code waits by griddepcontrol */
    hr_tensor_map maps[HR_LAUNCH_MAPS_MAX];
    int map_count;
} hr_launch;

static inline bool hr_launch_is_empty(const hr_launch *launch) {
    return launch->grid[0] == 0 || launch->grid[1] == 0 || launch->grid[2] == 0;
}

/* ---- alignment ---- */

/* Of a kernel's parameters and results: bit t is that of the t-th. */
typedef struct hr_tensor_set {
    uint64_t bits[HR_LAUNCH_TENSORS_MAX / 64];
} hr_tensor_set;

/* Those of `tensors` begin at whole 16 bytes, so that what runs is a launch's `entry`, not `unaligned`.
 * `pointers`: one a parameter or result. */
static inline bool hr_tensors_are_aligned(const hr_tensor_set *tensors, void *const *pointers,
                                          int64_t count) {
    uint64_t bits = 0;
    for (int64_t t = 0; t < count && t < HR_LAUNCH_TENSORS_MAX; t++)
        if (tensors->bits[t / 64] >> (t % 64) & 1) bits |= (uint64_t)(uintptr_t)pointers[t];
    return bits % 16 == 0;
}

#endif
