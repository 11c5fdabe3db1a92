/* The part of CUPTI's interface for hardware counters that the recorder uses: the range profiler, sampling at
 * an interval, and the host's half that turns names of metrics into configurations and counts into values.
 * All of it is there since CUDA 12.6; test/unit/test_cupti_abi.c compares it with NVIDIA's headers.
 *
 * Each call takes one struct that begins with its own size.
 */
#ifndef HR_RECORD_CUPTI_COUNTERS_ABI_H
#define HR_RECORD_CUPTI_COUNTERS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cupti_profiler_kind { CUPTI_RANGE_PROFILER = 0, CUPTI_PM_SAMPLING = 1 };
/* As cuptiProfilerDeviceSupported() numbers what it is asked about. */
enum cupti_profiler_api { CUPTI_API_RANGES = 0, CUPTI_API_PM_SAMPLING = 3 };
enum cupti_support { CUPTI_UNSUPPORTED = 1, CUPTI_DISABLED = 2, CUPTI_SUPPORTED = 3 };
enum cupti_range_mode { CUPTI_AUTO_RANGES = 1 };
enum cupti_replay_mode { CUPTI_KERNEL_REPLAY = 2 };
enum cupti_trigger { CUPTI_TRIGGER_CLOCK = 0, CUPTI_TRIGGER_TIME = 1 };
enum cupti_decode_stop { CUPTI_DECODE_IMAGE_FULL = 1 };

#define CUPTI_PARAMS                                                                                         \
    size_t size;                                                                                             \
    void *reserved

typedef struct cupti_initialize {
    CUPTI_PARAMS;
} cupti_initialize;

typedef struct cupti_device_supported {
    CUPTI_PARAMS;
    int device;
    int supported, architecture, sli, virtual_gpu, confidential, mining, wsl; /* enum cupti_support */
    int api;
} cupti_device_supported;

typedef struct cupti_chip_name {
    CUPTI_PARAMS;
    size_t device;
    const char *name;
} cupti_chip_name;

/* ---- host ---- */

typedef struct cupti_host_initialize {
    CUPTI_PARAMS;
    int kind;
    const char *chip;
    const uint8_t *availability;
    void *host;
} cupti_host_initialize;

typedef struct cupti_host_end {
    CUPTI_PARAMS;
    void *host;
} cupti_host_end;

typedef struct cupti_host_metrics {
    CUPTI_PARAMS;
    void *host;
    const char **names;
    size_t count;
} cupti_host_metrics;

typedef struct cupti_host_config_size {
    CUPTI_PARAMS;
    void *host;
    size_t bytes;
} cupti_host_config_size;

typedef struct cupti_host_config {
    CUPTI_PARAMS;
    void *host;
    size_t bytes;
    uint8_t *config;
} cupti_host_config;

typedef struct cupti_host_passes {
    CUPTI_PARAMS;
    size_t bytes;
    uint8_t *config;
    size_t passes;
} cupti_host_passes;

typedef struct cupti_host_evaluate {
    CUPTI_PARAMS;
    void *host;
    const uint8_t *image;
    size_t image_bytes;
    size_t range;
    const char **names;
    size_t count;
    double *values;
} cupti_host_evaluate;

/* ---- ranges ---- */

typedef struct cupti_range_enable {
    CUPTI_PARAMS;
    void *context;
    void *profiler;
} cupti_range_enable;

/* Start, disable and decode have a prefix of this. */
typedef struct cupti_range_object {
    CUPTI_PARAMS;
    void *profiler;
} cupti_range_object;

typedef struct cupti_range_config {
    CUPTI_PARAMS;
    void *profiler;
    size_t config_bytes;
    const uint8_t *config;
    size_t image_bytes;
    uint8_t *image;
    int range_mode, replay_mode;
    size_t ranges_most;
    uint16_t levels, level_least;
    size_t pass;
    uint16_t level;
} cupti_range_config;

typedef struct cupti_range_stop {
    CUPTI_PARAMS;
    void *profiler;
    size_t pass, level;
    uint8_t all_passes;
} cupti_range_stop;

typedef struct cupti_range_decode {
    CUPTI_PARAMS;
    void *profiler;
    size_t dropped;
} cupti_range_decode;

typedef struct cupti_range_image_size {
    CUPTI_PARAMS;
    void *profiler;
    const char **names;
    size_t count;
    size_t ranges_most;
    uint32_t nodes_most;
    size_t bytes;
} cupti_range_image_size;

typedef struct cupti_range_image {
    CUPTI_PARAMS;
    void *profiler;
    size_t bytes;
    uint8_t *image;
} cupti_range_image;

typedef struct cupti_range_image_info {
    CUPTI_PARAMS;
    const uint8_t *image;
    size_t bytes;
    size_t ranges;
} cupti_range_image_info;

/* ---- samples ---- */

typedef struct cupti_sampling_enable {
    CUPTI_PARAMS;
    size_t device;
    void *sampling;
} cupti_sampling_enable;

/* Start, stop and disable. */
typedef struct cupti_sampling_object {
    CUPTI_PARAMS;
    void *sampling;
} cupti_sampling_object;

typedef struct cupti_sampling_config {
    CUPTI_PARAMS;
    void *sampling;
    size_t config_bytes;
    const uint8_t *config;
    size_t buffer_bytes;
    uint64_t interval; /* ns, or clocks of the system where the trigger is the clock */
    int trigger;
    int keeps_latest;
} cupti_sampling_config;

typedef struct cupti_sampling_decode {
    CUPTI_PARAMS;
    void *sampling;
    uint8_t *image;
    size_t image_bytes;
    int stopped; /* enum cupti_decode_stop */
    uint8_t overflow;
} cupti_sampling_decode;

typedef struct cupti_sampling_image_size {
    CUPTI_PARAMS;
    void *sampling;
    const char **names;
    size_t count;
    uint32_t samples_most;
    size_t bytes;
} cupti_sampling_image_size;

typedef struct cupti_sampling_image {
    CUPTI_PARAMS;
    void *sampling;
    size_t bytes;
    uint8_t *image;
} cupti_sampling_image;

typedef struct cupti_sampling_image_info {
    CUPTI_PARAMS;
    const uint8_t *image;
    size_t bytes;
    size_t samples, begun, complete;
} cupti_sampling_image_info;

typedef struct cupti_sampling_sample {
    CUPTI_PARAMS;
    void *sampling;
    const uint8_t *image;
    size_t image_bytes;
    size_t place;
    uint64_t start, end; /* ns of the device's clock */
} cupti_sampling_sample;

#undef CUPTI_PARAMS

/* ---- what a launch is called with ---- */

/* As it stands behind the function in cuLaunchKernel()'s arguments, and at the beginning of what
 * cuLaunchKernelEx() points to. */
typedef struct cuda_launch_shape {
    uint32_t grid[3], block[3], shared;
    void *stream;
} cuda_launch_shape;

typedef struct cuda_launch {
    void *function;
    cuda_launch_shape shape;
} cuda_launch;

typedef struct cuda_launch_extended {
    const cuda_launch_shape *shape;
    void *function;
} cuda_launch_extended;

/* The size that CUPTI expects: up to the end of the last member, without padding behind it. */
#define CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* name of the member, CUPTI's name, its struct */
#define CUPTI_COUNTER_FUNCTIONS(X)                                                                           \
    X(initialize, cuptiProfilerInitialize, cupti_initialize)                                                 \
    X(device_supported, cuptiProfilerDeviceSupported, cupti_device_supported)                                \
    X(chip_name, cuptiDeviceGetChipName, cupti_chip_name)                                                    \
    X(host_initialize, cuptiProfilerHostInitialize, cupti_host_initialize)                                   \
    X(host_end, cuptiProfilerHostDeinitialize, cupti_host_end)                                               \
    X(host_metrics, cuptiProfilerHostConfigAddMetrics, cupti_host_metrics)                                   \
    X(host_config_size, cuptiProfilerHostGetConfigImageSize, cupti_host_config_size)                         \
    X(host_config, cuptiProfilerHostGetConfigImage, cupti_host_config)                                       \
    X(host_passes, cuptiProfilerHostGetNumOfPasses, cupti_host_passes)                                       \
    X(host_evaluate, cuptiProfilerHostEvaluateToGpuValues, cupti_host_evaluate)                              \
    X(range_enable, cuptiRangeProfilerEnable, cupti_range_enable)                                            \
    X(range_disable, cuptiRangeProfilerDisable, cupti_range_object)                                          \
    X(range_config, cuptiRangeProfilerSetConfig, cupti_range_config)                                         \
    X(range_start, cuptiRangeProfilerStart, cupti_range_object)                                              \
    X(range_stop, cuptiRangeProfilerStop, cupti_range_stop)                                                  \
    X(range_decode, cuptiRangeProfilerDecodeData, cupti_range_decode)                                        \
    X(range_image_size, cuptiRangeProfilerGetCounterDataSize, cupti_range_image_size)                        \
    X(range_image, cuptiRangeProfilerCounterDataImageInitialize, cupti_range_image)                          \
    X(range_image_info, cuptiRangeProfilerGetCounterDataInfo, cupti_range_image_info)                        \
    X(sampling_enable, cuptiPmSamplingEnable, cupti_sampling_enable)                                         \
    X(sampling_disable, cuptiPmSamplingDisable, cupti_sampling_object)                                       \
    X(sampling_config, cuptiPmSamplingSetConfig, cupti_sampling_config)                                      \
    X(sampling_start, cuptiPmSamplingStart, cupti_sampling_object)                                           \
    X(sampling_stop, cuptiPmSamplingStop, cupti_sampling_object)                                             \
    X(sampling_decode, cuptiPmSamplingDecodeData, cupti_sampling_decode)                                     \
    X(sampling_image_size, cuptiPmSamplingGetCounterDataSize, cupti_sampling_image_size)                     \
    X(sampling_image, cuptiPmSamplingCounterDataImageInitialize, cupti_sampling_image)                       \
    X(sampling_image_info, cuptiPmSamplingGetCounterDataInfo, cupti_sampling_image_info)                     \
    X(sampling_sample, cuptiPmSamplingCounterDataGetSampleInfo, cupti_sampling_sample)

typedef struct cupti_counter_library {
#define CUPTI_COUNTER_MEMBER(member, symbol, params) int (*member)(params *);
    CUPTI_COUNTER_FUNCTIONS(CUPTI_COUNTER_MEMBER)
#undef CUPTI_COUNTER_MEMBER
} cupti_counter_library;

#endif
