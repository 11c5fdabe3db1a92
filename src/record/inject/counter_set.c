/* The host's half of hardware counters. In: names of metrics, a chip; images of counts. Out: what the
 * hardware is to be set to; values.
 *
 * None of it touches a device but counter_device_prepare(), so that it is tested without one. */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const counter_metrics_of_one_run[COUNTED_VALUES] = {
    [COUNTED_TIME] = "gpu__time_duration.sum",
    [COUNTED_DRAM_READ] = "dram__bytes_read.sum",
    [COUNTED_DRAM_WRITTEN] = "dram__bytes_write.sum",
    [COUNTED_DRAM_PART] = "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    [COUNTED_VECTOR] = "sm__inst_executed_pipe_fma.sum",
    [COUNTED_ALU] = "sm__inst_executed_pipe_alu.sum",
    [COUNTED_WARPS] = "sm__warps_active.avg.pct_of_peak_sustained_active",
    [COUNTED_L1] = "l1tex__t_sector_hit_rate.pct",
    [COUNTED_L2_HITS] = "lts__t_tag_requests_hit.sum",
    [COUNTED_L2_MISSES] = "lts__t_tag_requests_miss.sum",
    [COUNTED_BUSY] = "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    [COUNTED_TENSOR_ACTIVE] = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
};

const char *const counter_metrics_of_replays[COUNTED_VALUES] = {
    [COUNTED_TIME] = "gpu__time_duration.sum",
    [COUNTED_DRAM_READ] = "dram__bytes_read.sum",
    [COUNTED_DRAM_WRITTEN] = "dram__bytes_write.sum",
    [COUNTED_DRAM_PART] = "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    [COUNTED_TENSOR] = "sm__inst_executed_pipe_tensor.sum",
    [COUNTED_HALVES] = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    [COUNTED_VECTOR] = "sm__inst_executed_pipe_fma.sum",
    [COUNTED_ALU] = "sm__inst_executed_pipe_alu.sum",
    [COUNTED_WARPS] = "sm__warps_active.avg.pct_of_peak_sustained_active",
    [COUNTED_L1] = "l1tex__t_sector_hit_rate.pct",
    [COUNTED_L2_HITS] = "lts__t_sectors_lookup_hit.sum",
    [COUNTED_L2_MISSES] = "lts__t_sectors_lookup_miss.sum",
    [COUNTED_LOAD_SECTORS] = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    [COUNTED_LOAD_REQUESTS] = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    [COUNTED_STORE_SECTORS] = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    [COUNTED_STORE_REQUESTS] = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    [COUNTED_BUSY] = "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    [COUNTED_TENSOR_ACTIVE] = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
};

const char *const counter_metrics_of_samples[COUNTER_METRICS_OF_SAMPLES] = {
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
};

bool counter_library_open(const cupti_library *cupti, cupti_counter_library *out, char *sentence,
                          size_t size) {
    const char *missing = NULL;
#define CUPTI_COUNTER_TAKE(member, symbol, params)                                                           \
    *(void **)&out->member = dlsym(cupti->handle, #symbol);                                                  \
    if (!out->member && !missing) missing = #symbol;
    CUPTI_COUNTER_FUNCTIONS(CUPTI_COUNTER_TAKE)
#undef CUPTI_COUNTER_TAKE
    if (missing)
        snprintf(sentence, size,
                 "counters were not recorded: they need the CUPTI of CUDA 12.6 or later, and %s has no %s",
                 cupti->path, missing);
    return !missing;
}

static void refuse(char *sentence, size_t size, const char *what, int code) {
    snprintf(sentence, size, "counters were not recorded: %s: %s (CUPTI's code %d)", what,
             activity_code_words(code), code);
}

bool counter_device_prepare(const cupti_counter_library *library, int device, int api, char chip[64],
                            char *sentence, size_t size) {
    cupti_initialize start = {.size = sizeof start};
    int code = library->initialize(&start);
    if (code != CUPTI_OK) {
        refuse(sentence, size, "CUPTI's profiler does not start", code);
        return false;
    }
    cupti_device_supported ask = {
        .size = CUPTI_SIZE(cupti_device_supported, api), .device = device, .api = api};
    code = library->device_supported(&ask);
    if (code == CUPTI_OK && ask.supported != CUPTI_SUPPORTED) {
        const char *reason = ask.architecture != CUPTI_SUPPORTED   ? "it is older than Volta"
                             : ask.virtual_gpu == CUPTI_DISABLED   ? "its host has switched them off"
                             : ask.virtual_gpu != CUPTI_SUPPORTED  ? "a virtual GPU has none"
                             : ask.confidential != CUPTI_SUPPORTED ? "confidential computing forbids them"
                             : ask.wsl != CUPTI_SUPPORTED          ? "WSL has none"
                                                                   : "it has none for this";
        snprintf(sentence, size, "counters were not recorded: GPU %d does not offer them: %s", device,
                 reason);
        return false;
    }
    cupti_chip_name name = {.size = CUPTI_SIZE(cupti_chip_name, name), .device = (size_t)device};
    code = library->chip_name(&name);
    if (code != CUPTI_OK || !name.name) {
        refuse(sentence, size, "the GPU has no name that CUPTI knows", code);
        return false;
    }
    snprintf(chip, 64, "%s", name.name);
    return true;
}

/* One metric that a chip lacks would refuse all. */
static bool has_metric(const cupti_counter_library *library, enum cupti_profiler_kind kind, const char *chip,
                       const char *metric) {
    cupti_host_initialize begin = {
        .size = CUPTI_SIZE(cupti_host_initialize, host), .kind = kind, .chip = chip};
    if (library->host_initialize(&begin) != CUPTI_OK) return false;
    cupti_host_metrics add = {
        .size = CUPTI_SIZE(cupti_host_metrics, count), .host = begin.host, .names = &metric, .count = 1};
    bool has = library->host_metrics(&add) == CUPTI_OK;
    cupti_host_end end = {.size = sizeof end, .host = begin.host};
    library->host_end(&end);
    return has;
}

static int make_config(const cupti_counter_library *library, counter_set *set) {
    cupti_host_metrics add = {.size = CUPTI_SIZE(cupti_host_metrics, count),
                              .host = set->host,
                              .names = set->names,
                              .count = (size_t)set->count};
    int code = library->host_metrics(&add);
    if (code != CUPTI_OK) return code;
    cupti_host_config_size size = {.size = CUPTI_SIZE(cupti_host_config_size, bytes), .host = set->host};
    code = library->host_config_size(&size);
    if (code != CUPTI_OK) return code;
    set->config = calloc(1, size.bytes + 1);
    set->config_bytes = size.bytes;
    cupti_host_config image = {.size = CUPTI_SIZE(cupti_host_config, config),
                               .host = set->host,
                               .bytes = size.bytes,
                               .config = set->config};
    code = set->config ? library->host_config(&image) : CUPTI_NO_MEMORY;
    if (code != CUPTI_OK) return code;
    cupti_host_passes passes = {
        .size = CUPTI_SIZE(cupti_host_passes, passes), .bytes = size.bytes, .config = set->config};
    code = library->host_passes(&passes);
    set->passes = passes.passes;
    return code;
}

int counter_set_make(const cupti_counter_library *library, enum cupti_profiler_kind kind, const char *chip,
                     const char *const *names, int count, counter_set *out) {
    *out = (counter_set){.wanted = count};
    cupti_host_initialize begin = {
        .size = CUPTI_SIZE(cupti_host_initialize, host), .kind = (int)kind, .chip = chip};
    int code = library->host_initialize(&begin);
    if (code != CUPTI_OK) return code;
    out->host = begin.host;
    for (int i = 0; i < count && i < COUNTER_SET_MOST; i++) {
        if (!names[i] || !has_metric(library, kind, chip, names[i])) continue;
        out->places[out->count] = i;
        out->names[out->count++] = names[i];
    }
    return out->count ? make_config(library, out) : CUPTI_METRIC_UNKNOWN;
}

int counter_set_evaluate(const cupti_counter_library *library, const counter_set *set, const uint8_t *image,
                         size_t bytes, size_t range, double *values) {
    double found[COUNTER_SET_MOST];
    cupti_host_evaluate evaluate = {.size = CUPTI_SIZE(cupti_host_evaluate, values),
                                    .host = set->host,
                                    .image = image,
                                    .image_bytes = bytes,
                                    .range = range,
                                    .names = (const char **)set->names,
                                    .count = (size_t)set->count,
                                    .values = found};
    for (int i = 0; i < set->wanted; i++)
        values[i] = NAN;
    int code = library->host_evaluate(&evaluate);
    for (int i = 0; code == CUPTI_OK && i < set->count; i++)
        values[set->places[i]] = found[i];
    return code;
}
