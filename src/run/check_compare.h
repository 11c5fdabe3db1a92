/* Two arrays that should hold the same: the elements of which that is least certain.
 *
 * In: `got` and `expected`, row-major without gaps. Out: the worst element of each block. At the speed of
 * memory, so that one wrong element in 10^8 is found; whether it is wrong, its meaning decides.
 */
#ifndef HR_RUN_CHECK_COMPARE_H
#define HR_RUN_CHECK_COMPARE_H

#include "run/kernel.h"

#define HR_COMPARE_BLOCKS 256

/* How far apart two elements are: over a unit of the dtype in its last place and what roundings on the way
 * may make of it. Infinite where one is NaN and the other is not. */
typedef struct hr_suspect {
    double score; /* 0 = none */
    int64_t at;
} hr_suspect;

typedef struct hr_comparing {
    hr_dtype dtype;
    const void *got, *expected;
    int64_t count;
    double error; /* of roundings on the way */
} hr_comparing;

double hr_compare_score(hr_dtype dtype, double got, double expected, double error);
/* One a block of count / HR_COMPARE_BLOCKS elements, rounded up. */
void hr_compare_host(const hr_comparing *comparing, hr_suspect out[HR_COMPARE_BLOCKS]);
/* The same by the device, in whose memory both are. */
hr_status hr_compare_cuda(hr_kernel *kernel, const hr_comparing *comparing,
                          hr_suspect out[HR_COMPARE_BLOCKS]);

#endif
