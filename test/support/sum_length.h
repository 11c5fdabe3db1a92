/* How much longer f32 sums are that a machine with shorter vectors adds up: its lanes are fewer accumulators,
 * and the roundings of equal elements all point one way. For tests only. */
#ifndef HR_TEST_SUPPORT_SUM_LENGTH_H
#define HR_TEST_SUPPORT_SUM_LENGTH_H

#include "device/device.h"

/* Of what holds for 16 lanes. */
static inline double sum_length(const hr_device *device) {
    return 16.0 / hr_limits_lanes(&((const struct hr_device *)device)->limits);
}

#endif
