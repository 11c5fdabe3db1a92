/* The arrays of a kernel, for tests that fill and read them: a failure ends the test. For tests only, behind
 * cmocka.h. */
#ifndef TEST_SUPPORT_KERNEL_ARRAYS_H
#define TEST_SUPPORT_KERNEL_ARRAYS_H

#include "headroom.h"

static inline void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* The memory of what is bound, or was filled, by this name. */
static inline void *array_of(const hr_kernel *kernel, const char *name) {
    hr_array array = {.size = sizeof array};
    good(hr_kernel_array(kernel, name, &array));
    return array.data;
}

#endif
