/* A roof that is known, in place of measuring one: some twelve seconds of all processors. For tests only. */
#ifndef HR_TEST_SUPPORT_GIVEN_ROOF_H
#define HR_TEST_SUPPORT_GIVEN_ROOF_H

#include "device/device.h"

#include <time.h>

static inline hr_status given_roof(struct hr_device *device, const hr_roof_sources *sources,
                                   hr_progress_fn progress, void *context, hr_roof *out) {
    (void)device;
    (void)sources;
    (void)progress;
    (void)context;
    *out = (hr_roof){.copy = 20e9,
                     .read = 25e9,
                     .write = 15e9,
                     .triad = 21e9,
                     .vector_f32 = 200e9,
                     .tensor_f32 = 200e9,
                     .launch = 1e-6,
                     .threads = 2,
                     .measured_at = (double)time(NULL)};
    for (int s = 1; s < HR_SPECIAL_COUNT; s++)
        out->special[s] = 10e9;
    return HR_OK;
}

#endif
