/* Counters of the fake CUPTI: as many as the metric's name has letters, times the number of the launch.
 *
 * In: FAKE_CUPTI_COUNTERS: the code that its profilers answer with; FAKE_CUPTI_UNSUPPORTED: the GPU offers
 * none; FAKE_CUPTI_LACKS: a metric that the chip has not. Out: images with the number of launches, or the
 * times of samples, that only this file reads. */
#include "fake/fake_cupti_parts.h"
#include "record/inject/cupti_abi.h"
#include "record/inject/cupti_counters_abi.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN        __attribute__((visibility("default")))
#define SAMPLES_MOST 1000
#define INVALID      1

typedef struct range_image {
    uint64_t ranges, launches;
} range_image;

typedef struct sample_image {
    uint64_t count, from, interval;
} sample_image;

static bool started;
static uint64_t launches, ranges, sampled_until, interval = 1;
static range_image *image;

bool fake_counts(void) {
    if (started) {
        ranges++;
        launches++;
    }
    return started;
}

static int answer(void) {
    const char *code = getenv("FAKE_CUPTI_COUNTERS");
    return code ? atoi(code) : CUPTI_OK;
}

SHOWN int cuptiProfilerInitialize(cupti_initialize *params) {
    return params->size == sizeof *params ? CUPTI_OK : INVALID;
}

SHOWN int cuptiProfilerDeviceSupported(cupti_device_supported *params) {
    bool none = getenv("FAKE_CUPTI_UNSUPPORTED") != NULL;
    params->supported = params->architecture = none ? CUPTI_UNSUPPORTED : CUPTI_SUPPORTED;
    return CUPTI_OK;
}

SHOWN int cuptiDeviceGetChipName(cupti_chip_name *params) {
    params->name = "GH100";
    return params->device == 0 ? CUPTI_OK : INVALID;
}

SHOWN int cuptiProfilerHostInitialize(cupti_host_initialize *params) {
    params->host = &launches;
    return strcmp(params->chip, "GH100") == 0 ? CUPTI_OK : CUPTI_CHIP_UNKNOWN;
}

SHOWN int cuptiProfilerHostDeinitialize(cupti_host_end *params) {
    return params->host == &launches ? CUPTI_OK : INVALID;
}

SHOWN int cuptiProfilerHostConfigAddMetrics(cupti_host_metrics *params) {
    const char *lacks = getenv("FAKE_CUPTI_LACKS");
    for (size_t i = 0; i < params->count; i++)
        if (lacks && strcmp(params->names[i], lacks) == 0) return INVALID;
    return CUPTI_OK;
}

SHOWN int cuptiProfilerHostGetConfigImageSize(cupti_host_config_size *params) {
    params->bytes = 16;
    return CUPTI_OK;
}

SHOWN int cuptiProfilerHostGetConfigImage(cupti_host_config *params) {
    memset(params->config, 7, params->bytes);
    return CUPTI_OK;
}

SHOWN int cuptiProfilerHostGetNumOfPasses(cupti_host_passes *params) {
    params->passes = 3;
    return CUPTI_OK;
}

SHOWN int cuptiProfilerHostEvaluateToGpuValues(cupti_host_evaluate *params) {
    uint64_t times = 1;
    if (params->image_bytes == sizeof(range_image)) memcpy(&times, params->image + 8, sizeof times);
    for (size_t i = 0; i < params->count; i++)
        params->values[i] = (double)(times * strlen(params->names[i]));
    return CUPTI_OK;
}

/* ---- ranges ---- */

SHOWN int cuptiRangeProfilerEnable(cupti_range_enable *params) {
    params->profiler = &launches;
    return answer();
}

SHOWN int cuptiRangeProfilerDisable(cupti_range_object *params) {
    return params->profiler == &launches ? CUPTI_OK : INVALID;
}

SHOWN int cuptiRangeProfilerGetCounterDataSize(cupti_range_image_size *params) {
    params->bytes = sizeof(range_image);
    return CUPTI_OK;
}

SHOWN int cuptiRangeProfilerCounterDataImageInitialize(cupti_range_image *params) {
    memset(params->image, 0, params->bytes);
    return CUPTI_OK;
}

SHOWN int cuptiRangeProfilerSetConfig(cupti_range_config *params) {
    bool good = params->config_bytes == 16 && params->config[0] == 7 &&
                params->range_mode == CUPTI_AUTO_RANGES && params->replay_mode == CUPTI_KERNEL_REPLAY;
    image = (range_image *)(void *)params->image;
    return good ? CUPTI_OK : INVALID;
}

SHOWN int cuptiRangeProfilerStart(cupti_range_object *params) {
    if (started || params->profiler != &launches) return INVALID;
    ranges = 0;
    started = true;
    return CUPTI_OK;
}

SHOWN int cuptiRangeProfilerStop(cupti_range_stop *params) {
    if (!started) return INVALID;
    started = false;
    params->all_passes = 1;
    return CUPTI_OK;
}

SHOWN int cuptiRangeProfilerDecodeData(cupti_range_decode *params) {
    *image = (range_image){ranges, launches};
    params->dropped = 0;
    return CUPTI_OK;
}

SHOWN int cuptiRangeProfilerGetCounterDataInfo(cupti_range_image_info *params) {
    uint64_t count;
    memcpy(&count, params->image, sizeof count);
    params->ranges = count;
    return CUPTI_OK;
}

/* ---- samples ---- */

SHOWN int cuptiPmSamplingEnable(cupti_sampling_enable *params) {
    params->sampling = &sampled_until;
    return answer();
}

SHOWN int cuptiPmSamplingDisable(cupti_sampling_object *params) {
    return params->sampling == &sampled_until ? CUPTI_OK : INVALID;
}

SHOWN int cuptiPmSamplingSetConfig(cupti_sampling_config *params) {
    interval = params->interval;
    return params->trigger == CUPTI_TRIGGER_TIME && interval ? CUPTI_OK : INVALID;
}

SHOWN int cuptiPmSamplingGetCounterDataSize(cupti_sampling_image_size *params) {
    params->bytes = sizeof(sample_image);
    return params->samples_most == SAMPLES_MOST ? CUPTI_OK : INVALID;
}

SHOWN int cuptiPmSamplingCounterDataImageInitialize(cupti_sampling_image *params) {
    memset(params->image, 0, params->bytes);
    return CUPTI_OK;
}

SHOWN int cuptiPmSamplingStart(cupti_sampling_object *params) {
    sampled_until = fake_now();
    return params->sampling == &sampled_until ? CUPTI_OK : INVALID;
}

SHOWN int cuptiPmSamplingStop(cupti_sampling_object *params) {
    return params->sampling == &sampled_until ? CUPTI_OK : INVALID;
}

SHOWN int cuptiPmSamplingDecodeData(cupti_sampling_decode *params) {
    sample_image samples = {.from = sampled_until, .interval = interval};
    while (samples.count < SAMPLES_MOST && sampled_until + interval <= fake_now()) {
        samples.count++;
        sampled_until += interval;
    }
    memcpy(params->image, &samples, sizeof samples);
    params->stopped = samples.count == SAMPLES_MOST ? CUPTI_DECODE_IMAGE_FULL : 2;
    params->overflow = 0;
    return CUPTI_OK;
}

SHOWN int cuptiPmSamplingGetCounterDataInfo(cupti_sampling_image_info *params) {
    uint64_t count;
    memcpy(&count, params->image, sizeof count);
    params->samples = params->begun = params->complete = count;
    return CUPTI_OK;
}

SHOWN int cuptiPmSamplingCounterDataGetSampleInfo(cupti_sampling_sample *params) {
    sample_image samples;
    memcpy(&samples, params->image, sizeof samples);
    params->start = samples.from + params->place * samples.interval;
    params->end = params->start + samples.interval;
    return CUPTI_OK;
}
