/* How one launch of emitted code covers a device with grids: made by the emitter, used by the device. */
#ifndef HR_BASE_GRID_H
#define HR_BASE_GRID_H

#include <stdbool.h>
#include <stdint.h>

#define HR_GRID_TENSORS_MAX 256 /* of a launch: their words are its parameters */

/* One launch of a device with grids. The launches of one execution run in order. The entry takes one
 * parameter by value, 8-byte words in this order: pointers, scalars (f64), extents, strides, scratch, fault
 * (the address of an hr_fault in the device's memory). */
typedef struct hr_grid {
    char entry[64];     /* name of the __global__ function */
    char unaligned[64]; /* what runs in its place where !hr_tensors_are_aligned(); "" = it takes all */
    int64_t blocks;     /* x; 0 = nothing to do */
    int threads;        /* of a block */
    int cluster;        /* blocks of a cluster, 1 = none */
    int64_t shared;     /* bytes of dynamic shared memory */
    int64_t pieces;     /* over lists: blocks is the number of pieces, from 1 to this many; 0 = no list */
    bool overlaps;      /* may start while the launch before it ends: the code waits by griddepcontrol */
} hr_grid;

/* Of a kernel's parameters and results: bit t is that of the t-th. */
typedef struct hr_tensor_set {
    uint64_t bits[HR_GRID_TENSORS_MAX / 64];
} hr_tensor_set;

/* Those of `tensors` begin at whole 16 bytes, so that what runs is a grid's `entry`, not `unaligned`.
 * `pointers`: one a parameter or result. */
static inline bool hr_tensors_are_aligned(const hr_tensor_set *tensors, void *const *pointers,
                                          int64_t count) {
    uint64_t bits = 0;
    for (int64_t t = 0; t < count && t < HR_GRID_TENSORS_MAX; t++)
        if (tensors->bits[t / 64] >> (t % 64) & 1) bits |= (uint64_t)(uintptr_t)pointers[t];
    return bits % 16 == 0;
}

#endif
