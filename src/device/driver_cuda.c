/* Opens libcuda and looks its functions up by the names that cuda.h maps them to.
 *
 * In: the environment. Out: a table of functions, or a sentence that says what is missing.
 */
#include "device/driver_cuda.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define OLDEST  11080 /* cuLaunchKernelEx */

typedef struct entry {
    const char *symbol;
    size_t offset;
} entry;

#define HR_CUDA_ENTRY(member, symbol, parameters) {symbol, offsetof(hr_cuda_driver, member)},
static const entry needed[] = {HR_CUDA_FUNCTIONS(HR_CUDA_ENTRY)};
static const entry newer[] = {HR_CUDA_NEWER_FUNCTIONS(HR_CUDA_ENTRY)};
#undef HR_CUDA_ENTRY
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- errors ---- */

static const char *error_word(hr_cu_result (*ask)(hr_cu_result, const char **), hr_cu_result result) {
    const char *word = NULL;
    return ask && ask(result, &word) == 0 && word ? word : "an error without a name";
}

static hr_status code_of(hr_cu_result result) {
    switch (result) {
    case HR_CU_OUT_OF_MEMORY:
        return HR_OUT_OF_MEMORY;
    case HR_CU_STUB_LIBRARY:
    case HR_CU_INSUFFICIENT_DRIVER:
    case HR_CU_DEVICE_UNAVAILABLE:
    case HR_CU_NO_DEVICE:
    case HR_CU_INVALID_DEVICE:
    case HR_CU_NO_BINARY_FOR_GPU:
    case HR_CU_ECC_UNCORRECTABLE:
    case HR_CU_NVLINK_UNCORRECTABLE:
    case HR_CU_OPERATING_SYSTEM:
    case HR_CU_SYSTEM_NOT_READY:
    case HR_CU_SYSTEM_DRIVER_MISMATCH:
    case HR_CU_UNKNOWN:
        return HR_NOT_AVAILABLE;
    default:
        return HR_INTERNAL;
    }
}

static const char *mend_of(hr_cu_result result) {
    switch (result) {
    case HR_CU_OUT_OF_MEMORY:
        return ": use smaller extents, or free the device's memory";
    case HR_CU_STUB_LIBRARY:
        return ": this libcuda is the toolkit's stub; put the driver's own first on the library path";
    case HR_CU_INSUFFICIENT_DRIVER:
    case HR_CU_SYSTEM_DRIVER_MISMATCH:
        return ": update the driver (a reboot loads a new one), or use --device cpu";
    case HR_CU_NO_DEVICE:
        return ": is CUDA_VISIBLE_DEVICES empty? Otherwise use --device cpu";
    case HR_CU_ECC_UNCORRECTABLE:
    case HR_CU_NVLINK_UNCORRECTABLE:
    case HR_CU_OPERATING_SYSTEM:
    case HR_CU_UNKNOWN:
        return ": the device is lost to this process; start again, and look at nvidia-smi if it stays";
    case HR_CU_ILLEGAL_ADDRESS:
    case HR_CU_LAUNCH_FAILED:
        return ": the device is lost to this process; compute-sanitizer names the access";
    default:
        return "";
    }
}

hr_status hr_cuda_fail(const hr_cuda_driver *driver, hr_cu_result result, const char *what, ...) {
    char attempted[256];
    va_list values;
    va_start(values, what);
    vsnprintf(attempted, sizeof attempted, what, values);
    va_end(values);
    return hr_fail(code_of(result), "cuda: %s failed with %s (%s)%s", attempted,
                   error_word(driver->error_name, result), error_word(driver->error_text, result),
                   mend_of(result));
}

/* ---- opening ---- */

static bool functions_find(hr_cuda_driver *driver, const entry *entries, size_t count, const char **missing) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(driver->library, entries[i].symbol);
        if (!symbol && missing) {
            *missing = entries[i].symbol;
            return false;
        }
        memcpy((char *)driver + entries[i].offset, &symbol, sizeof symbol);
    }
    return true;
}

hr_status hr_cuda_driver_open(hr_cuda_driver *out) {
    hr_cuda_driver driver = {0};
    const char *given = getenv("HEADROOM_LIBCUDA"), *missing = NULL;
    const char *path = given && *given ? given : LIBRARY;
    driver.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver.library)
        return hr_fail(HR_NOT_AVAILABLE,
                       "there is no CUDA driver here (%s): install NVIDIA's driver, or use --device cpu",
                       dlerror());
    if (!functions_find(&driver, needed, COUNT(needed), &missing))
        return hr_fail(HR_NOT_AVAILABLE,
                       "the CUDA driver %s has no %s: it is older than CUDA 11.8; update it, or use "
                       "--device cpu",
                       path, missing);
    functions_find(&driver, newer, COUNT(newer), NULL);
    hr_cu_result result = driver.init(0);
    if (result) return hr_cuda_fail(&driver, result, "starting the driver");
    if ((result = driver.driver_version(&driver.version)))
        return hr_cuda_fail(&driver, result, "asking the driver for its version");
    if (driver.version < OLDEST)
        return hr_fail(HR_NOT_AVAILABLE,
                       "the CUDA driver serves CUDA %d.%d and 11.8 is needed: update it, or use --device cpu",
                       driver.version / 1000, driver.version % 1000 / 10);
    *out = driver;
    return HR_OK;
}
