/* What the program's GPUs are. In: the driver that the program has loaded. Out: a record a device, once. */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <string.h>

/* cuda.h's CUdevice_attribute */
enum {
    ATTRIBUTE_WARP_SIZE = 10,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MEMORY_CLOCK = 36, /* kHz */
    ATTRIBUTE_BUS_WIDTH = 37,    /* bits */
    ATTRIBUTE_THREADS_MULTIPROCESSOR = 39,
    ATTRIBUTE_COMPUTE_MAJOR = 75,
    ATTRIBUTE_COMPUTE_MINOR = 76,
    ATTRIBUTE_SHARED_MULTIPROCESSOR = 81,
    ATTRIBUTE_REGISTERS_MULTIPROCESSOR = 82,
    ATTRIBUTE_SHARED_BLOCK = 97
};

typedef struct driver {
    int (*count)(int *count);
    int (*name)(char *name, int size, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*memory)(size_t *bytes, int device);
} driver;

static bool open_driver(driver *out) {
    void *library = library_open("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return false;
    *(void **)&out->count = dlsym(library, "cuDeviceGetCount");
    *(void **)&out->name = dlsym(library, "cuDeviceGetName");
    *(void **)&out->attribute = dlsym(library, "cuDeviceGetAttribute");
    *(void **)&out->memory = dlsym(library, "cuDeviceTotalMem_v2");
    return out->count && out->name && out->attribute && out->memory;
}

static int64_t attribute(const driver *driver, int which, int device) {
    int value = 0;
    return driver->attribute(&value, which, device) == 0 ? value : 0;
}

static void put_device(const driver *driver, int id) {
    char name[128] = "";
    size_t memory = 0;
    driver->name(name, sizeof name - 1, id);
    driver->memory(&memory, id);
    int64_t threads = attribute(driver, ATTRIBUTE_THREADS_MULTIPROCESSOR, id);
    int64_t warp = attribute(driver, ATTRIBUTE_WARP_SIZE, id);
    hr_record_device record = {
        .id = id,
        .name = record_string(name, strlen(name)),
        .multiprocessors = attribute(driver, ATTRIBUTE_MULTIPROCESSORS, id),
        .compute = 10 * attribute(driver, ATTRIBUTE_COMPUTE_MAJOR, id) +
                   attribute(driver, ATTRIBUTE_COMPUTE_MINOR, id),
        .warps = warp ? threads / warp : 0,
        .registers = attribute(driver, ATTRIBUTE_REGISTERS_MULTIPROCESSOR, id),
        .shared = attribute(driver, ATTRIBUTE_SHARED_MULTIPROCESSOR, id),
        .shared_block = attribute(driver, ATTRIBUTE_SHARED_BLOCK, id),
        .threads = threads,
        .memory = (int64_t)memory,
        .bandwidth = 2000 * attribute(driver, ATTRIBUTE_MEMORY_CLOCK, id) *
                     attribute(driver, ATTRIBUTE_BUS_WIDTH, id) / 8, /* two transfers a clock */
    };
    record_put(HR_RECORD_device, &record);
}

void driver_put_devices(void) {
    driver driver;
    int count = 0;
    if (!open_driver(&driver) || driver.count(&count) != 0) return;
    for (int i = 0; i < count; i++)
        put_device(&driver, i);
}
