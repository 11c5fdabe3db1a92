/* What the device's memory holds over time, as the allocations in a trace tell.
 *
 * In: allocations of one rank and device with the ranges and operators around them, steps. Out: the peak and
 * what it is made of, a curve, what grows with the batch, how much the caching allocator holds in pieces that
 * nobody uses.
 */
#ifndef HR_DIAGNOSE_MEMORY_USE_H
#define HR_DIAGNOSE_MEMORY_USE_H

#include "base/arena.h"
#include "trace/trace.h"

/* By when memory was taken and given back. name in JSON, words, whether it grows with the batch */
#define HR_MEMORY_USES(X)                                                                                    \
    X(BEFORE, "before", "held since before the trace (parameters, state)", false)                            \
    X(STATE, "state", "made once and kept (parameters, optimizer state)", false)                             \
    X(GRADIENTS, "gradients", "gradients: from the backward pass to the optimizer", false)                   \
    X(ACTIVATIONS, "activations", "activations: from the forward pass to the backward", true)                \
    X(INPUTS, "inputs", "inputs: made by the loader or copied in", true)                                     \
    X(TEMPORARY, "temporary", "temporary: given back soon, in the pass that took it", true)                  \
    X(UNTOLD, "untold", "not told apart: the file has no addresses", false)

typedef enum hr_memory_category {
#define HR_MEMORY_ENUM(id, name, words, grows) HR_MEMORY_##id##_USE,
    HR_MEMORY_USES(HR_MEMORY_ENUM)
#undef HR_MEMORY_ENUM
        HR_MEMORY_USE_COUNT
} hr_memory_category;
const char *hr_memory_use_name(hr_memory_category category);
const char *hr_memory_use_words(hr_memory_category category);

#define HR_MEMORY_POINTS 200 /* of the curve, at most */

typedef struct hr_memory_point {
    int64_t time; /* ns of the trace */
    int64_t bytes[HR_MEMORY_USE_COUNT];
} hr_memory_point;

typedef struct hr_memory_use {
    int64_t allocations; /* 0: the trace tells nothing of memory, and nothing below is set */
    bool of_driver;      /* cudaMalloc and its kin, not what a caching allocator gives out */
    int64_t peak, peak_time;
    int64_t at_peak[HR_MEMORY_USE_COUNT];
    int32_t peak_event;            /* the allocation that reached it */
    int64_t reserved;              /* most that the caching allocator took from the driver; 0 = not known */
    int64_t idle_reserved;         /* reserved, but not given out, when that was most */
    double capacity;               /* bytes of the device; 0 = not known */
    double batch_factor;           /* how many times the batch would fit; 0 = not known */
    const hr_memory_point *points; /* the most of each stretch of time, in order */
    int point_count;
} hr_memory_use;

struct hr_analysis;
/* Needs steps. Strings and points from `keep`. */
void hr_analysis_memory(const struct hr_analysis *analysis, hr_arena *keep, hr_memory_use *out);

#endif
