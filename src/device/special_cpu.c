/* How fast the special functions are while a kernel is measured: cores that another machine's threads share
 * compute at a speed of that moment, and so do the functions that a floor counts.
 *
 * In: the text whose loops `headroom roof` measures, and which function. Out: functions a second of all
 * threads. The first call compares the ways and numbers of threads that the roof compares; the calls after it
 * take the one that was fastest.
 */
#include "device/device_cpu.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_SECONDS 0.0008
#define SAMPLES        5 /* their median: a slice of time that another program took is no speed */
#define ROUNDS_MOST    ((int64_t)1 << 40)

typedef struct hr_special_cpu {
    hr_module *module;
    char *results; /* of all threads */
    int special, way, threads;
    int64_t rounds; /* of a sample */
} hr_special_cpu;

static size_t results_size(const struct hr_device *device) {
    return (size_t)device->limits.threads * HR_SPECIAL_BYTES;
}

void hr_special_cpu_destroy(struct hr_device *device) {
    hr_special_cpu *special = ((hr_device_cpu *)device)->special;
    if (!special) return;
    device->ops->release(device, special->results, results_size(device));
    device->ops->unload(device, special->module);
    free(special);
    ((hr_device_cpu *)device)->special = NULL;
}

/* Functions a second; 0 where there is no such way. */
static double sample(const hr_special_cpu *special, double *seconds) {
    double work = 0, start = hr_clock_seconds();
    void *results = special->results;
    hr_fault fault = {0};
    hr_execution execution = {.pointers = &results,
                              .threads = special->threads,
                              .scratch = &work,
                              .tuning =
                                  (int64_t[]){(int64_t)special->special * HR_SPECIAL_WAYS + special->way,
                                              HR_SPECIAL_BYTES, HR_SPECIAL_BYTES, special->rounds}};
    int missing = special->module->entry(&execution, &fault);
    *seconds = hr_clock_seconds() - start;
    return missing || !(*seconds > 0) ? 0 : work / *seconds;
}

static double rate_now(const hr_special_cpu *special) {
    double rates[SAMPLES], seconds;
    for (int i = 0; i < SAMPLES; i++)
        rates[i] = sample(special, &seconds);
    return hr_median(rates, SAMPLES);
}

/* The rate of the way that `special` names, with as many rounds as fill a sample; 0 where it is missing. */
static double rate_of_way(hr_special_cpu *special) {
    double seconds = 0;
    for (special->rounds = 16; special->rounds < ROUNDS_MOST; special->rounds *= 2)
        if (sample(special, &seconds) == 0 || seconds >= 0.5 * SAMPLE_SECONDS) break;
    return rate_now(special);
}

static hr_status fastest_find(const struct hr_device *device, hr_special_cpu *special) {
    hr_special_cpu best = *special, tried = *special;
    double most = 0;
    for (int part = 1; part <= 2; part++) { /* two threads on one core may be in each other's way */
        tried.threads = device->limits.threads / part;
        for (tried.way = 0; tried.way < HR_SPECIAL_WAYS && tried.threads > 0; tried.way++) {
            double rate = rate_of_way(&tried);
            if (!(rate > most)) continue;
            most = rate;
            best = tried;
        }
    }
    *special = best;
    return most > 0 ? HR_OK : hr_fail(HR_NOT_AVAILABLE, "no loop of this function was compiled");
}

static hr_status prepare(struct hr_device *device, const char *source, hr_special_cpu *special) {
    void *results;
    HR_TRY(device->ops->compile(device, source, strlen(source), HR_COMPILE_VECTOR_512, &special->module));
    HR_TRY(device->ops->allocate(device, results_size(device), &results));
    special->results = results;
    memset(results, 0, results_size(device));
    return fastest_find(device, special);
}

hr_status hr_special_cpu_rate(struct hr_device *device, const char *source, hr_special special,
                              double *rate) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    if (special <= HR_SPECIAL_NONE || special >= HR_SPECIAL_COUNT)
        return hr_fail(HR_INTERNAL, "special function %d", (int)special);
    if (!cpu->special || cpu->special->special != (int)special) {
        hr_special_cpu_destroy(device);
        cpu->special = calloc(1, sizeof *cpu->special);
        if (!cpu->special) return hr_fail(HR_OUT_OF_MEMORY, "no memory for functions beside the kernel");
        cpu->special->special = (int)special;
        hr_status status = prepare(device, source, cpu->special);
        if (status != HR_OK) hr_special_cpu_destroy(device);
        HR_TRY(status);
    }
    *rate = rate_now(cpu->special);
    return HR_OK;
}
