/* Hardware counters of the program's GPUs at an interval. In: which contexts the program has made, whether
 * the window is open. Out: a record an interval, on the recorder's clock.
 *
 * The hardware writes samples into a buffer while the program runs as ever; the drain thread reads it. A GPU
 * counts for one program at a time. */
#include "record/inject/recorder.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_NS  200000      /* 5000 samples a second take a quarter of a core to decode */
#define BUFFER_BYTES (256 << 20) /* of raw samples: several seconds */
#define IMAGE_MOST   1000        /* samples decoded at once, 28 KB each */
#define DEVICES      16
#define CONTEXTS     64

enum { PERCENTAGES = 4 }; /* of counter_metrics_of_samples, the first ones */

typedef struct sampler {
    int device;
    void *object;
    counter_set set;
    uint8_t *image;
    size_t image_bytes;
    bool running;
} sampler;

static const cupti_library *cupti;
static cupti_counter_library library;
static bool wanted, told_overflow;
static sampler samplers[DEVICES];
static int sampler_count;
static void *contexts[CONTEXTS];
static atomic_int context_count;
static int contexts_known;

void sampled_counters_start(const cupti_library *opened) {
    char sentence[768];
    cupti = opened;
    wanted = counter_library_open(cupti, &library, sentence, sizeof sentence);
    if (!wanted) recorder_note("%s", sentence);
}

void sampled_counters_context(void *context) {
    int place = atomic_load(&context_count);
    if (place < CONTEXTS) {
        contexts[place] = context;
        atomic_store(&context_count, place + 1);
    }
}

/* ---- setting up ---- */

static int reset_image(const sampler *sampler) {
    cupti_sampling_image image = {.size = CUPTI_SIZE(cupti_sampling_image, image),
                                  .sampling = sampler->object,
                                  .bytes = sampler->image_bytes,
                                  .image = sampler->image};
    return library.sampling_image(&image);
}

static int configure(sampler *sampler) {
    cupti_sampling_config config = {.size = CUPTI_SIZE(cupti_sampling_config, keeps_latest),
                                    .sampling = sampler->object,
                                    .config_bytes = sampler->set.config_bytes,
                                    .config = sampler->set.config,
                                    .buffer_bytes = BUFFER_BYTES,
                                    .interval = INTERVAL_NS,
                                    .trigger = CUPTI_TRIGGER_TIME};
    int code = library.sampling_config(&config);
    if (code != CUPTI_OK) return code;
    cupti_sampling_image_size size = {.size = CUPTI_SIZE(cupti_sampling_image_size, bytes),
                                      .sampling = sampler->object,
                                      .names = sampler->set.names,
                                      .count = (size_t)sampler->set.count,
                                      .samples_most = IMAGE_MOST};
    code = library.sampling_image_size(&size);
    if (code != CUPTI_OK) return code;
    sampler->image = calloc(1, size.bytes + 1);
    sampler->image_bytes = size.bytes;
    return sampler->image ? reset_image(sampler) : CUPTI_NO_MEMORY;
}

static void prepare_device(int device) {
    char chip[64], sentence[512];
    for (int i = 0; i < sampler_count; i++)
        if (samplers[i].device == device) return;
    if (sampler_count == DEVICES) return;
    sampler *sampler = &samplers[sampler_count++];
    *sampler = (struct sampler){.device = device};
    if (!counter_device_prepare(&library, device, CUPTI_API_PM_SAMPLING, chip, sentence, sizeof sentence)) {
        recorder_note("%s", sentence);
        return;
    }
    int code = counter_set_make(&library, CUPTI_PM_SAMPLING, chip, counter_metrics_of_samples,
                                COUNTER_METRICS_OF_SAMPLES, &sampler->set);
    cupti_sampling_enable enable = {.size = CUPTI_SIZE(cupti_sampling_enable, sampling),
                                    .device = (size_t)device};
    if (code == CUPTI_OK) code = library.sampling_enable(&enable);
    sampler->object = enable.sampling;
    if (code == CUPTI_OK) code = configure(sampler);
    recorder_end_before(); /* CUPTI has loaded libraries for it */
    if (code == CUPTI_OK) return;
    sampler->object = NULL;
    recorder_note("counters of GPU %d were not recorded: sampling does not start: %s (CUPTI's code %d)",
                  device, activity_code_words(code), code);
}

/* ---- samples ---- */

static void put_sample(const sampler *sampler, size_t place) {
    double values[COUNTER_METRICS_OF_SAMPLES];
    cupti_sampling_sample sample = {.size = CUPTI_SIZE(cupti_sampling_sample, end),
                                    .sampling = sampler->object,
                                    .image = sampler->image,
                                    .image_bytes = sampler->image_bytes,
                                    .place = place};
    if (library.sampling_sample(&sample) != CUPTI_OK || sample.end <= sample.start) return;
    if (sample.end - sample.start > 4 * INTERVAL_NS) return; /* the first one begins before the sampling */
    if (counter_set_evaluate(&library, &sampler->set, sampler->image, sampler->image_bytes, place, values) !=
        CUPTI_OK)
        return;
    hr_record_sample record = {.time = (int64_t)sample.start,
                               .duration = (int64_t)(sample.end - sample.start),
                               .device = sampler->device};
    int64_t *fields = &record.sm_active;
    for (int i = 0; i < COUNTER_METRICS_OF_SAMPLES; i++) {
        double value = i < PERCENTAGES ? 1e4 * values[i] : values[i];
        fields[i] = value >= 0 && value < 9e18 ? (int64_t)(value + 0.5) : -1;
    }
    record_put(HR_RECORD_sample, &record);
}

static void give_up(sampler *sampler, int code) {
    sampler->running = false;
    sampler->object = NULL;
    recorder_note("sampling the counters of GPU %d stopped: %s (CUPTI's code %d)", sampler->device,
                  activity_code_words(code), code);
}

static void read_samples(sampler *sampler) {
    bool more = true;
    for (int turns = 0; more && turns < 64; turns++) {
        cupti_sampling_decode decode = {.size = CUPTI_SIZE(cupti_sampling_decode, overflow),
                                        .sampling = sampler->object,
                                        .image = sampler->image,
                                        .image_bytes = sampler->image_bytes};
        cupti_sampling_image_info info = {.size = CUPTI_SIZE(cupti_sampling_image_info, complete),
                                          .image = sampler->image,
                                          .bytes = sampler->image_bytes};
        int code = library.sampling_decode(&decode);
        if (code == CUPTI_OK) code = library.sampling_image_info(&info);
        for (size_t i = 0; code == CUPTI_OK && i < info.complete; i++)
            put_sample(sampler, i);
        if (code == CUPTI_OK) code = reset_image(sampler);
        if (code != CUPTI_OK) {
            give_up(sampler, code);
            return;
        }
        if (decode.overflow && !told_overflow) {
            told_overflow = true;
            recorder_note("some samples of counters were lost: the program's threads left no core to read "
                          "them");
        }
        more = decode.stopped == CUPTI_DECODE_IMAGE_FULL;
    }
}

static void switch_sampling(sampler *sampler, bool on) {
    cupti_sampling_object object = {.size = sizeof object, .sampling = sampler->object};
    if (sampler->running == on) return;
    int code = on ? library.sampling_start(&object) : library.sampling_stop(&object);
    if (code != CUPTI_OK)
        give_up(sampler, code);
    else if (!on)
        read_samples(sampler);
    if (sampler->object) sampler->running = on;
}

void sampled_counters_follow(bool open) {
    if (!wanted) return;
    activity_lock();
    for (int count = atomic_load(&context_count); contexts_known < count; contexts_known++) {
        uint32_t device = 0;
        if (cupti->device_id(contexts[contexts_known], &device) == CUPTI_OK) prepare_device((int)device);
    }
    for (int i = 0; i < sampler_count; i++) {
        if (!samplers[i].object) continue;
        switch_sampling(&samplers[i], open);
        if (samplers[i].running) read_samples(&samplers[i]);
    }
    activity_unlock();
}

void sampled_counters_forget(void) {
    wanted = false;
}
