/* The text that the roof of a GPU measures the special functions with: the emitted code's own, on registers.
 *
 * A kernel a way, `special_<name>_<way>`, as src/device/roof_cuda_units.c launches it: HR_STEPS times
 * HR_CHAINS functions a round, which is what it counts. Arguments lie in [0.5, 4) and go up by
 * a unit in the last place each time, so that no value can be kept.
 */
#include "emit/cuda/stage_cuda.h"
#include "emit/prelude.h"
#include <string.h>

static const char words_text[] = "struct rate_words {\n"
                                 "    uint32_t *never;\n"
                                 "    int rounds;\n"
                                 "};\n\n";

static const char kernel_text[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) special_%s_%d(const __grid_constant__ rate_words "
    "w) {\n"
    "    float x[8];\n"
    "    uint32_t bits = 0;\n"
    "#pragma unroll\n"
    "    for (int c = 0; c < 8; c++)\n"
    "        x[c] = 0.5f + (float)((threadIdx.x * 8 + c) * 37 %% 2048) * 0x1.cp-10f;\n"
    "#pragma unroll 1\n"
    "    for (int step = 0; step < 16 * w.rounds; step++) {\n"
    "#pragma unroll\n"
    "        for (int c = 0; c < 8; c++) {\n"
    "            x[c] = f32_of_bits(f32_bits(x[c]) + 1);\n"
    "            bits ^= (uint32_t)f32_bits(%s);\n"
    "        }\n"
    "    }\n"
    "    if (bits == 0x5eed5eed) *w.never = bits;\n"
    "}\n\n";

/* Eight numbers from two blocks, as neighbours are drawn. */
static const char random_text[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) special_random_0(const __grid_constant__ "
    "rate_words w) {\n"
    "    float x[8], sum = 0;\n"
    "#pragma unroll 1\n"
    "    for (int step = 0; step < 16 * w.rounds; step++) {\n"
    "        random_group<8>(x, 1, 8 * ((uint64_t)step * 1024 + threadIdx.x));\n"
    "#pragma unroll\n"
    "        for (int c = 0; c < 8; c++)\n"
    "            sum += x[c];\n"
    "    }\n"
    "    if (sum == 0.5f) *w.never = 1;\n"
    "}\n";

static const struct {
    hr_special special;
    int way;
    const char *value;
} ways[] = {
    {HR_SPECIAL_EXP, 0, "f32_exp(x[c])"},        {HR_SPECIAL_EXP, 1, "fast_exp(x[c])"},
    {HR_SPECIAL_LOG, 0, "f32_log(x[c])"},        {HR_SPECIAL_TANH, 0, "f32_tanh(x[c])"},
    {HR_SPECIAL_TANH, 1, "f32_gelu_tanh(x[c])"}, {HR_SPECIAL_ERF, 0, "f32_erf(x[c])"},
    {HR_SPECIAL_ERF, 1, "f32_gelu(x[c])"},       {HR_SPECIAL_TRIG, 0, "f32_sin(x[c])"},
    {HR_SPECIAL_ROOT, 0, "f32_div(1.0f, x[c])"}, {HR_SPECIAL_ROOT, 1, "f32_rsqrt(x[c])"},
};

hr_status hr_prelude_cuda_rates_source(hr_text *out) {
    hr_text body = {0};
    hr_text_append(&body, words_text, strlen(words_text));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        hr_text_format(&body, kernel_text, hr_special_name(ways[i].special), ways[i].way, ways[i].value);
    hr_text_append(&body, random_text, strlen(random_text));
    hr_status status = hr_text_status(&body);
    hr_text_append(out, hr_cuda_file_head, strlen(hr_cuda_file_head));
    if (status == HR_OK) status = hr_prelude_cuda_append(hr_text_data(&body), out);
    if (status == HR_OK) hr_text_append(out, body.data, body.length);
    hr_text_clear(&body);
    return status != HR_OK ? status : hr_text_status(out);
}
