/* What a device can do at best. In: its name as the trace has it, or measured roofs. Out: rates, and what its
 * multiprocessors hold. Figures of products are those that their makers publish, and are said to be; measured
 * ones take their place where they exist. */
#include "diagnose/diagnose.h"

#include <stdio.h>
#include <string.h>

typedef struct product {
    const char *word;    /* of its name; the first row that fits decides */
    double least_memory; /* bytes: tells versions of one name apart */
    double memory, vector_f32, tensor_tf32, tensor_half, link;
    int multiprocessors, compute;
} product;

static const product products[] = {
    {"B200", 0, 8.0e12, 75e12, 1100e12, 2250e12, 55e9, 148, 100},
    {"GH200", 0, 4.0e12, 67e12, 495e12, 989e12, 200e9, 132, 90},
    {"H200", 0, 4.8e12, 67e12, 495e12, 989e12, 55e9, 132, 90},
    {"H100 NVL", 0, 3.9e12, 60e12, 418e12, 835e12, 52e9, 132, 90},
    {"H100 PCIe", 0, 2.0e12, 51e12, 378e12, 756e12, 52e9, 114, 90},
    {"H100", 0, 3.35e12, 67e12, 495e12, 989e12, 52e9, 132, 90},
    {"H800", 0, 3.35e12, 67e12, 495e12, 989e12, 52e9, 132, 90},
    {"A100", 60e9, 2.0e12, 19.5e12, 156e12, 312e12, 24e9, 108, 80},
    {"A100", 0, 1.555e12, 19.5e12, 156e12, 312e12, 24e9, 108, 80},
    {"A800", 0, 2.0e12, 19.5e12, 156e12, 312e12, 24e9, 108, 80},
    {"A30", 0, 0.933e12, 10.3e12, 82e12, 165e12, 24e9, 56, 80},
    {"A10", 0, 0.6e12, 31.2e12, 62.5e12, 125e12, 24e9, 72, 86},
    {"A40", 0, 0.696e12, 37.4e12, 74.8e12, 149.7e12, 24e9, 84, 86},
    {"L40S", 0, 0.864e12, 91.6e12, 183e12, 362e12, 24e9, 142, 89},
    {"L40", 0, 0.864e12, 90.5e12, 90.5e12, 181e12, 24e9, 142, 89},
    {"L4", 0, 0.3e12, 30.3e12, 60e12, 121e12, 24e9, 58, 89},
    {"RTX 4090", 0, 1.008e12, 82.6e12, 82.6e12, 165e12, 24e9, 128, 89},
    {"RTX 3090", 0, 0.936e12, 35.6e12, 35.6e12, 71e12, 24e9, 82, 86},
    {"RTX 3080", 0, 0.76e12, 29.8e12, 29.8e12, 59.5e12, 24e9, 68, 86},
    {"V100", 0, 0.9e12, 15.7e12, 0, 125e12, 12e9, 80, 70},
    {"T4", 0, 0.32e12, 8.1e12, 0, 65e12, 12e9, 40, 75},
    {"P100", 0, 0.732e12, 10.6e12, 0, 21.2e12, 12e9, 56, 60},
    {"RTX 5090", 0, 1.792e12, 104.8e12, 104.8e12, 209.5e12, 55e9, 170, 120},
    {"H20", 0, 4.0e12, 44e12, 74e12, 148e12, 55e9, 78, 90},
    /* AMD: a device is a whole package, or one die where it is two (MI250); multiprocessors are compute units
     */
    {"MI355X", 0, 8.0e12, 157.3e12, 0, 2516e12, 55e9, 256, 0},
    {"MI350X", 0, 8.0e12, 144.2e12, 0, 2307e12, 55e9, 256, 0},
    {"MI325X", 0, 6.0e12, 163.4e12, 653.7e12, 1307e12, 55e9, 304, 0},
    {"MI300X", 0, 5.3e12, 163.4e12, 653.7e12, 1307e12, 55e9, 304, 0},
    {"MI300A", 0, 5.3e12, 122.6e12, 490.3e12, 980.6e12, 55e9, 228, 0},
    {"MI250X", 0, 1.638e12, 23.9e12, 0, 191.5e12, 24e9, 110, 0},
    {"MI250", 0, 1.638e12, 22.6e12, 0, 181e12, 24e9, 104, 0},
    {"MI210", 0, 1.638e12, 22.6e12, 0, 181e12, 24e9, 104, 0},
    {"MI100", 0, 1.229e12, 23.1e12, 0, 184.6e12, 24e9, 120, 0},
    {"7900 XTX", 0, 0.96e12, 61.4e12, 0, 122.8e12, 24e9, 96, 0},
    /* Intel: multiprocessors are Xe cores */
    {"GPU Max 1550", 0, 3.277e12, 52.4e12, 419e12, 839e12, 55e9, 128, 0},
    {"GPU Max 1100", 0, 1.229e12, 22.2e12, 177e12, 355e12, 55e9, 56, 0},
    {"Arc(TM) B580", 0, 0.456e12, 13.7e12, 0, 116.7e12, 12e9, 20, 0},
    {"Arc(TM) A770", 0, 0.56e12, 19.7e12, 0, 137.6e12, 24e9, 32, 0},
};

/* What a multiprocessor holds, by compute capability. */
static void residents(int compute, hr_ceiling *out) {
    static const struct {
        int compute, warps, blocks;
        int64_t shared;
    } rows[] = {{100, 64, 32, 233472}, {90, 64, 32, 233472}, {89, 48, 24, 102400}, {86, 48, 16, 102400},
                {80, 64, 32, 167936},  {75, 32, 16, 65536},  {70, 64, 32, 98304},  {60, 64, 32, 65536}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (compute < rows[i].compute) continue;
        out->warps = rows[i].warps;
        out->blocks = rows[i].blocks;
        out->threads = 32 * rows[i].warps;
        out->registers = 65536;
        out->shared = rows[i].shared;
        return;
    }
}

void hr_ceiling_of_product(const hr_trace_device *device, hr_ceiling *out) {
    *out = (hr_ceiling){.multiprocessors = device->multiprocessors, .compute = device->compute};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const product *row = &products[i];
        if (!strstr(device->name, row->word) || device->memory_bytes < row->least_memory) continue;
        snprintf(out->source, sizeof out->source, "its maker's figures for %s, not measured", row->word);
        out->memory = row->memory;
        out->vector_f32 = row->vector_f32;
        out->tensor_tf32 = row->tensor_tf32;
        out->tensor_half = row->tensor_half;
        out->link = row->link;
        if (!out->multiprocessors) out->multiprocessors = row->multiprocessors;
        if (!out->compute) out->compute = row->compute;
        break;
    }
    if (!out->memory && device->bandwidth > 0) {
        out->memory = device->bandwidth;
        snprintf(out->source, sizeof out->source, "figures in the trace");
    }
    if (!out->multiprocessors && !device->name[0]) { /* who recorded it did not say; most are of this size */
        out->multiprocessors = 132;
        out->compute = 90;
    }
    residents(out->compute, out);
    if (device->warps_multiprocessor > 0) out->warps = device->warps_multiprocessor;
    if (device->threads_multiprocessor > 0) {
        out->threads = device->threads_multiprocessor;
        out->warps = device->threads_multiprocessor / 32;
    }
    if (device->registers_multiprocessor > 0) out->registers = device->registers_multiprocessor;
    if (device->shared_multiprocessor > 0) out->shared = device->shared_multiprocessor;
}

void hr_ceiling_of_roof(const hr_roof *roof, const char *device, hr_ceiling *out) {
    hr_trace_device named = {.id = 0};
    snprintf(named.name, sizeof named.name, "%s", device);
    hr_ceiling_of_product(&named, out);
    snprintf(out->source, sizeof out->source, "roofs measured on %.60s", device);
    if (roof->copy > 0) out->memory = roof->copy;
    if (roof->read > out->memory) out->memory = roof->read;
    if (roof->vector_f32 > 0) out->vector_f32 = roof->vector_f32;
    if (roof->tensor_tf32 > 0) out->tensor_tf32 = roof->tensor_tf32;
    if (roof->tensor_bf16 > 0) out->tensor_half = roof->tensor_bf16;
    if (roof->link_to > 0) out->link = roof->link_to;
    if (roof->launch > 0) out->launch = roof->launch;
    if (roof->threads > 0 && roof->threads < 512) out->multiprocessors = roof->threads;
}
