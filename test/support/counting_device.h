/* The CPU device, watched: counts compiles and launches, can spoil what a launch computed, and has a roof
 * that is known. */
#ifndef TEST_SUPPORT_COUNTING_DEVICE_H
#define TEST_SUPPORT_COUNTING_DEVICE_H

#include "device/device.h"
#include "support/given_roof.h"

#include <stdatomic.h>
#include <string.h>

typedef struct counting_device {
    struct hr_device base;
    struct hr_device *real;
    atomic_int compiles, launches, timings;
    double clock;                                  /* seconds that measuring sees */
    _Atomic(hr_module *) running;                  /* what is launched */
    void (*before)(const hr_execution *execution); /* around a launch; NULL = nothing */
    void (*after)(const hr_execution *execution);
} counting_device;

static hr_status counting_allocate(struct hr_device *device, size_t size, void **out) {
    struct hr_device *real = ((counting_device *)device)->real;
    return real->ops->allocate(real, size, out);
}

static void counting_release(struct hr_device *device, void *data, size_t size) {
    struct hr_device *real = ((counting_device *)device)->real;
    real->ops->release(real, data, size);
}

static hr_status counting_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                  hr_module **out) {
    counting_device *counting = (counting_device *)device;
    counting->compiles++;
    return counting->real->ops->compile(counting->real, source, length, flags, out);
}

static void counting_unload(struct hr_device *device, hr_module *module) {
    struct hr_device *real = ((counting_device *)device)->real;
    real->ops->unload(real, module);
}

static hr_status counting_launch(struct hr_device *device, hr_module *module, const hr_execution *execution,
                                 hr_fault *fault) {
    counting_device *counting = (counting_device *)device;
    counting->launches++;
    counting->running = module;
    if (counting->before) counting->before(execution);
    hr_status status = counting->real->ops->launch(counting->real, module, execution, fault);
    if (counting->after) counting->after(execution);
    return status;
}

static hr_status counting_time(struct hr_device *device, hr_module *module, const hr_execution *execution,
                               double *seconds) {
    counting_device *counting = (counting_device *)device;
    counting->timings++;
    return counting->real->ops->time(counting->real, module, execution, seconds);
}

/* A machine that nobody else uses; its clock goes on by a millisecond with each reading. */
static void counting_load(void *context, hr_load_reading *out) {
    double *clock = context;
    *clock += 1e-3;
    *out = (hr_load_reading){.seconds = *clock};
}

static const hr_device_ops counting_ops = {.kind = "cpu",
                                           .allocate = counting_allocate,
                                           .release = counting_release,
                                           .compile = counting_compile,
                                           .unload = counting_unload,
                                           .launch = counting_launch,
                                           .time = counting_time,
                                           .measure_roof = given_roof};

static hr_status counting_open(counting_device *out) {
    struct hr_device *real;
    hr_status status = hr_device_open("cpu", &real);
    if (status != HR_OK) return status;
    *out = (counting_device){.base = *real, .real = real};
    out->base.ops = &counting_ops;
    out->base.load = (hr_load_source){.read = counting_load, .context = &out->clock};
    out->base.limits.little_work = 0; /* small cases are to meet all threads, too */
    return HR_OK;
}

static void counting_close(counting_device *device) {
    hr_device_destroy(device->real);
}

#endif
