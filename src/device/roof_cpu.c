/* What this processor can do at best: measured. In: a device. Out: an hr_roof. */
#include "device/device_cpu.h"

hr_status hr_roof_cpu_measure(struct hr_device *device, hr_progress_fn progress, void *context,
                              hr_roof *out) {
    (void)device, (void)progress, (void)context, (void)out;
    return hr_fail(HR_NOT_AVAILABLE, "the roof of the cpu is not measured yet");
}
