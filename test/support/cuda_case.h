/* One kernel of a text at given extents on the emulated CUDA device: planned, emitted, launched, compared
 * with its meaning. */
#ifndef HR_TEST_CUDA_CASE_H
#define HR_TEST_CUDA_CASE_H

#include "schedule/target.h"
#include "support/cuda_emulation.h"

/* The steps of the first axis of arrays of two axes or more as members that lie apart, the last one first:
 * all at whole 16 bytes, or some not. Of inputs the last two are one; those whose names begin with "dense"
 * are whole. */
typedef enum cuda_members { CUDA_MEMBERS_NONE, CUDA_MEMBERS_ALIGNED, CUDA_MEMBERS_ODD } cuda_members;

typedef struct cuda_case {
    const hr_function *function;
    const hr_function *meaning; /* what it is compared with, of the same arguments; NULL = itself */
    const int64_t *extents;
    const int64_t *planned; /* extents that the code is made for; NULL = those that it runs at */
    hr_device_limits limits;
    hr_schedule_options options;
    int offset;   /* of every array, in elements past a multiple of 256 bytes */
    bool strided; /* arrays with room between the elements of their last axis but one, and every other element
                   */
    cuda_members members;
    bool nonfinite;      /* some elements of float inputs are NaN, infinite or denormal */
    const char *spoiled; /* a few elements of this input alone are; NULL = of none */
    bool wild;           /* a few elements of whole inputs are beyond every axis */
    uint64_t seed;       /* of the order of threads */
    int points;          /* elements compared, of each result */
    /* Puts other values into an input, row-major, and looks at what came out of arrays without gaps, one a
     * argument: HR_WRONG_RESULT with a sentence. NULL = neither. */
    void (*give)(const struct cuda_case *one, const char *name, void *values, int64_t count);
    hr_status (*look)(const struct cuda_case *one, void *const *arrays);
} cuda_case;

typedef struct cuda_outcome {
    double seconds_compile, seconds_run;
    int64_t points;
    double read, written; /* bytes of arrays, over those that the text needs */
} cuda_outcome;

/* What an H200 has; `processors` 0: as many as it has. Few make a small problem go round in a persistent
 * grid. */
hr_device_limits cuda_case_limits(int compute, int processors);
/* HR_WRONG_RESULT with a sentence; HR_BAD_INPUT where these extents are refused, as a run
 * would; HR_OUT_OF_RANGE where a subscript is reported. */
hr_status cuda_case_run(cuda_emulation *device, const cuda_case *one, cuda_outcome *out);

#endif
