/* Hardware counters in the model: of kernels, of devices over time.
 *
 * In: counters of some launches; samples. Out: counters of all launches of the same kernel; events. */
#include "trace/trace_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *hr_sample_kind_words(hr_sample_kind kind) {
    static const char *const words[HR_SAMPLE_KIND_COUNT] = {"",
                                                            "SM active",
                                                            "tensor cores active",
                                                            "warps active",
                                                            "DRAM bandwidth",
                                                            "DRAM read bandwidth",
                                                            "DRAM write bandwidth"};
    return kind < HR_SAMPLE_KIND_COUNT ? words[kind] : "";
}

void hr_trace_build_sample(hr_trace_build *build, int32_t device, int64_t time, int64_t duration,
                           hr_sample sample, int32_t name) {
    const char *words = hr_sample_kind_words(sample.kind);
    hr_event event = {
        .kind = HR_EVENT_COUNTER,
        .start = time,
        .duration = duration,
        .name = sample.kind == HR_SAMPLE_OTHER ? name : hr_trace_build_string(build, words, strlen(words)),
        .track = hr_trace_build_stream(build, device, HR_STREAM_OF_SAMPLES)};
    hr_trace_build_event(build, event, &sample);
}

/* ---- counters of kernels ---- */

/* What is alike where two launches are of one kernel. */
typedef struct kernel_key {
    int32_t name, grid[3], block[3];
} kernel_key;

enum { COUNTERS = sizeof(hr_counters) / sizeof(double) };

typedef struct kernel_sum {
    kernel_key key;
    int64_t launches; /* with counters; 0 = a free slot */
    double sum[COUNTERS];
    int64_t known[COUNTERS];
    int32_t mean; /* into counters */
} kernel_sum;

typedef struct kernel_sums {
    kernel_sum *slots;
    uint64_t mask;
} kernel_sums;

static kernel_key key_of(const hr_trace *trace, const hr_event *event) {
    const hr_kernel_work *work = &trace->kernels.items[event->detail];
    kernel_key key = {.name = event->name};
    memcpy(key.grid, work->grid, sizeof key.grid);
    memcpy(key.block, work->block, sizeof key.block);
    return key;
}

/* The kernel's slot, or the free one for it. */
static kernel_sum *find_sum(const kernel_sums *sums, const kernel_key *key) {
    uint64_t hash = 0;
    const int32_t *words = (const int32_t *)key;
    for (size_t i = 0; i < sizeof *key / sizeof *words; i++)
        hash = (hash ^ (uint32_t)words[i]) * 0x9e3779b97f4a7c15u;
    for (uint64_t slot = hash >> 32 & sums->mask;; slot = (slot + 1) & sums->mask)
        if (!sums->slots[slot].launches || memcmp(&sums->slots[slot].key, key, sizeof *key) == 0)
            return &sums->slots[slot];
}

static bool is_kernel(const hr_event *event) {
    return event->kind == HR_EVENT_KERNEL && event->detail >= 0;
}

static void add_to_sum(kernel_sum *sum, const kernel_key *key, const hr_counters *counters) {
    double values[COUNTERS];
    memcpy(values, counters, sizeof values);
    sum->key = *key;
    sum->launches++;
    for (int i = 0; i < COUNTERS; i++) {
        if (isnan(values[i])) continue;
        sum->sum[i] += values[i];
        sum->known[i]++;
    }
}

static int32_t make_mean(hr_trace_build *build, const kernel_sum *sum) {
    double values[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        values[i] = sum->known[i] ? sum->sum[i] / (double)sum->known[i] : NAN;
    hr_counters mean;
    memcpy(&mean, values, sizeof mean);
    return hr_trace_build_counters(build, &mean);
}

static bool has_counters(const hr_trace *trace, const hr_event *event) {
    return is_kernel(event) && trace->kernels.items[event->detail].counters >= 0;
}

/* Each launch whose kernel was counted anywhere in the file has what it counted in the mean. */
static void give_mean(hr_trace *trace, const hr_event *event, const kernel_sum *sum) {
    hr_kernel_work *work = &trace->kernels.items[event->detail];
    if (!sum->launches || sum->mean < 0) return;
    work->counters = sum->mean;
    double warps = trace->counters.items[sum->mean].warps_active;
    if (warps >= 0 && warps <= 1) work->occupancy = (float)warps;
}

void hr_trace_build_share_counters(hr_trace_build *build) {
    hr_trace *trace = build->trace;
    int64_t first = build->files.count ? build->files.items[build->files.count - 1].first_event : 0,
            count = 0;
    for (int64_t i = first; i < trace->events.count; i++)
        count += has_counters(trace, &trace->events.items[i]);
    if (!count) return;
    uint64_t size = 16;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    kernel_sums sums = {calloc(size, sizeof *sums.slots), size - 1};
    if (!sums.slots) {
        build->failed = true;
        return;
    }
    for (int64_t i = first; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (!has_counters(trace, event)) continue;
        kernel_key key = key_of(trace, event);
        add_to_sum(find_sum(&sums, &key), &key,
                   &trace->counters.items[trace->kernels.items[event->detail].counters]);
    }
    for (uint64_t i = 0; i < size; i++)
        if (sums.slots[i].launches) sums.slots[i].mean = make_mean(build, &sums.slots[i]);
    for (int64_t i = first; i < trace->events.count; i++) {
        if (!is_kernel(&trace->events.items[i])) continue;
        kernel_key key = key_of(trace, &trace->events.items[i]);
        give_mean(trace, &trace->events.items[i], find_sum(&sums, &key));
    }
    free(sums.slots);
}
