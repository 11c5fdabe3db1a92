/* A CUDA device without a GPU: emitted CUDA source as a shared object of the host's C++ compiler, its threads
 * as fibers, each access to memory checked.
 *
 * In: source, arrays taken from the emulation, launches. Out: the arrays as a GPU would leave them, or the
 * sentence that says which thread broke which rule:
 *   - an access lies in an array, in the shared memory of a block that still runs, or in the thread's own
 * stack, and at a multiple of its width;
 *   - results and scratch are read only after a write; an element of a result is written once;
 *   - two accesses to one byte, one of them a write, by threads that nothing orders (a barrier of their block
 * or cluster, __syncwarp, the end of a launch) are a race;
 *   - every thread reaches every barrier, the lanes of a warp exchange values together.
 * The order of blocks, warps and lanes, and whether asynchronous copies happen at once or as late as they
 * may, come from a seed.
 */
#ifndef HR_TEST_CUDA_EMULATION_H
#define HR_TEST_CUDA_EMULATION_H

#include "base/launch.h"
#include "base/status.h"

#include <stddef.h>

typedef struct cuda_emulation cuda_emulation;
typedef struct cuda_object cuda_object; /* compiled source */

typedef enum cuda_access {
    CUDA_READ = 1,
    CUDA_WRITE = 2,
    CUDA_FILLED = 4, /* holds values: may be read before anybody writes */
    CUDA_ONCE = 8,   /* a byte is stored to at most once; reductions by atomics do not count */
    CUDA_ANY = 64,   /* any of several threads may be the last to write: no race */
} cuda_access;

/* ---- compiling ---- */

/* HR_NOT_AVAILABLE where there is no C++ compiler (g++, or $HEADROOM_CXX). `entries`: names of the __global__
 * functions, `count` of them. Objects are kept in a folder beside the running program, by hash. */
hr_status cuda_object_compile(const char *source, const char *const *entries, int count, cuda_object **out);
void cuda_object_destroy(cuda_object *object);

/* ---- memory ---- */

/* One at a time: hooks in the compiled source find it by itself. */
hr_status cuda_emulation_create(cuda_emulation **out);
void cuda_emulation_destroy(cuda_emulation *emulation);
/* Gives all arrays back. */
void cuda_emulation_clear(cuda_emulation *emulation);
/* `bytes` at an address that is `offset` (< 256) past a multiple of 256, red zones around; poisoned. `name`
 * is for sentences and must live as long. Access is a sum of CUDA_*; 0: allowed by pieces, with
 * cuda_emulation_allow. NULL: no room. */
void *cuda_emulation_array(cuda_emulation *emulation, const char *name, size_t bytes, size_t offset,
                           unsigned access);
void cuda_emulation_allow(cuda_emulation *emulation, void *data, size_t bytes, unsigned access);
/* Whether something was stored to every one of these bytes. */
bool cuda_emulation_written(const cuda_emulation *emulation, const void *data, size_t bytes);

/* ---- running ---- */

/* One grid; `words` as base/launch.h says. HR_WRONG_RESULT with the sentence where a rule is broken. */
hr_status cuda_emulation_launch(cuda_emulation *emulation, const cuda_object *object, const hr_launch *launch,
                                const void *words, uint64_t seed);
/* Bytes of arrays read and written by all launches since the last clear. */
void cuda_emulation_traffic(const cuda_emulation *emulation, int64_t *read, int64_t *written);

#endif
