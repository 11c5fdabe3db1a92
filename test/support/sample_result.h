/* A run's result filled by hand, for the tests of reports: a bf16 layer normalisation near the copy roof. */
#ifndef HR_TEST_SAMPLE_RESULT_H
#define HR_TEST_SAMPLE_RESULT_H

#include "headroom.h"

static inline hr_roof sample_roof(void) {
    hr_roof roof = {.copy = 38.5e9,
                    .read = 41.2e9,
                    .write = 33.9e9,
                    .triad = 37.6e9,
                    .cache = {{"L1", 48 << 10, 812e9, 640e9, 318e9, 655e9},
                              {"L2", 2 << 20, 301e9, 212e9, 146e9, 224e9},
                              {"L3", 105 << 20, 58e9, 49e9, 36e9, 47e9}},
                    .cache_count = 3,
                    .vector_f32 = 412e9,
                    .vector_f64 = 205e9,
                    .vector_bf16 = 790e9,
                    .vector_f16 = 801e9,
                    .vector_i32 = 203e9,
                    .vector_i8 = 1590e9,
                    .tensor_f32 = 412e9,
                    .tensor_bf16 = 3100e9,
                    .tensor_i8 = 6200e9,
                    .launch = 4.1e-6,
                    .threads = 2,
                    .measured_at = 1.7e9};
    const double special[HR_SPECIAL_COUNT] = {0, 23.2e9, 17.9e9, 9.8e9, 8.1e9, 6.4e9, 28.0e9, 5.6e9};
    for (int unit = 0; unit < HR_SPECIAL_COUNT; unit++)
        roof.special[unit] = special[unit];
    return roof;
}

static const char *const sample_extent_names[] = {"M", "N"}, *const sample_dtype_names[] = {"T"};
static const hr_dtype sample_dtypes[] = {HR_BF16};
static const int64_t sample_extents[] = {32768, 4096};
static const hr_stage_info sample_stages[] = {
    {"row", "row over n a task m",
     "two reductions over n feed every element of the same row: the row stays in cache between its passes",
     "", 536887296, 939524096, 13.945e-3},
};
static const hr_variant sample_variants[] = {
    {"stream, unroll 2, prefetch 1", 14.21e-3, true},
    {"stream, unroll 4, prefetch 1", 14.26e-3, false},
    {"stream, unroll 2", 14.61e-3, false},
    {"stream, unroll 1", 15.32e-3, false},
    {"unroll 2, prefetch 1", 18.05e-3, false},
    {"unroll 1", 19.47e-3, false},
    {"unroll 1, one thread", 27.10e-3, false},
};

static inline hr_run_result sample_result(void) {
    return (hr_run_result){
        .kernel = "layernorm",
        .file = "kernels/layernorm.hr",
        .device_kind = "cpu",
        .device_name = "Intel(R) Xeon(R) Processor",
        .extent_count = 2,
        .extent_names = sample_extent_names,
        .extents = sample_extents,
        .dtype_count = 1,
        .dtype_names = sample_dtype_names,
        .dtypes = sample_dtypes,
        .plan_summary = "1 stage: row (1 read, 1 write)",
        .stage_count = 1,
        .stages = sample_stages,
        .seconds = {14.21e-3, 14.10e-3, 14.93e-3, 25},
        .unfused = {48.3e-3, 47.9e-3, 50.2e-3, 9},
        .floor = {13.945e-3, "memory", 536887296, 0, 939524096, 32768, 13.945e-3, 3.7e-3},
        .headroom = 14.21 / 13.945,
        .roof_fraction = 13.945 / 14.21,
        .verify_done = true,
        .verified = {4096, 3.1e-3, 7.8e-3, true, "y[31021, 17] = 1.2578125, should be 1.2617043"},
        .tune = {28, 3.14, false},
        .variant_count = sizeof sample_variants / sizeof *sample_variants,
        .variants = sample_variants,
        .source = "/* layernorm: written by headroom */\n#include <stdint.h>\n\n"
                  "static void stage_0(const uint16_t *t0_x, float scale) {\n"
                  "    for (int64_t m = 0; m < 10; m++) { // rows\n"
                  "        const char *text = \"a < b && c > d\";\n"
                  "        t0_x[m] * 1.5e-3f;\n    }\n}\n",
        .roof = sample_roof(),
        .baseline = {.copy = 0.932, .rate = 25.8e9, .floor = 20.8e-3, .roof_fraction = 0.937},
    };
}

#endif
