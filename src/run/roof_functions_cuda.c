/* The texts that the roof of a GPU measures special functions and products with: the emitted code's own.
 *
 * A kernel a way, `special_<name>_<way>`, as src/device/roof_cuda_units.c launches it: HR_STEPS times
 * HR_CHAINS functions a round, which is what it counts. Arguments lie in [0.5, 4) and go up by
 * a unit in the last place each time, so that no value can be kept.
 */
#include "run/roof_functions.h"

#include "emit/cuda/launcher_text.h"
#include "emit/cuda/rates_text.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/tensor_core.h"
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

/* The body with what it uses in front of it. */
static hr_status source_complete(const hr_text *body, const hr_text *functions, hr_text *out) {
    HR_TRY(hr_text_status(body));
    hr_text_format(out, "%s\n", (const char *)hr_cuda_file_head_text);
    HR_TRY(hr_prelude_append(HR_PRELUDE_CUDA, hr_text_data(body), NULL, out));
    if (functions) hr_text_append(out, hr_text_data(functions), functions->length);
    hr_text_append(out, body->data, body->length);
    return hr_text_status(out);
}

hr_status hr_roof_functions_cuda_source(hr_text *out) {
    hr_text body = {0};
    hr_text_append(&body, words_text, strlen(words_text));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        hr_text_format(&body, kernel_text, hr_special_name(ways[i].special), ways[i].way, ways[i].value);
    hr_text_append(&body, random_text, strlen(random_text));
    hr_status status = source_complete(&body, NULL, out);
    hr_text_clear(&body);
    return status;
}

/* ---- products: a kernel a type, `product_<name>`, as src/device/roof_cuda_units.c launches it ---- */

enum { SHARED_COLUMNS = 256, REGISTER_COLUMNS = 8 };

static const struct {
    const char *name;
    hr_tensor_type type;
    hr_tensor_sum sum;
    int compute; /* from which on mma.sync has it */
} products[] = {
    {"bf16", HR_TENSOR_BF16, HR_TENSOR_SUM_F32, 800}, {"f16", HR_TENSOR_F16, HR_TENSOR_SUM_F32, 800},
    {"tf32", HR_TENSOR_TF32, HR_TENSOR_SUM_F32, 800}, {"f8", HR_TENSOR_E4M3, HR_TENSOR_SUM_F32, 890},
    {"i8", HR_TENSOR_S8, HR_TENSOR_SUM_S32, 800},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static void product_print(int i, const hr_tensor_core *product, const char *loop, hr_text *out) {
    char name[96];
    bool warp = product->threads == HR_TENSOR_WARP;
    const char *sum = product->sum == HR_TENSOR_SUM_S32 ? "int32_t" : "float";
    hr_tensor_core_name(product, name, sizeof name);
    hr_text_format(out, "struct %s_of_%s {\n    typedef %s sum;\n", loop, products[i].name, sum);
    if (warp)
        hr_text_format(
            out,
            "    static __device__ __forceinline__ void make(sum (&d)[4], const uint32_t (&a)[4],\n"
            "                                                const uint32_t (&b)[2]) {\n"
            "        %s(d, a, b);\n",
            name);
    else
        hr_text_format(
            out,
            "    static __device__ __forceinline__ void make(sum (&d)[%d], uint64_t a, uint64_t b,\n"
            "                                                int accumulate) {\n"
            "        %s(d, a, b, accumulate);\n",
            product->columns / 2, name);
    hr_text_format(
        out,
        "    }\n};\n"
        "extern \"C\" __global__ void __launch_bounds__(256, 1) product_%s(const __grid_constant__ "
        "product_words w) {\n"
        "    %s<%s_of_%s>(w);\n}\n\n",
        products[i].name, loop, loop, products[i].name);
}

/* Those of a warpgroup where there are any, else those of a warp. */
static void products_print(const hr_tensor_core *list, hr_text *out) {
    hr_text_format(out, "#if __CUDA_ARCH_FEAT_SM90_ALL\n");
    for (int i = 0; i < PRODUCTS; i++)
        product_print(i, &list[i], "repeat_shared", out);
    hr_text_format(out, "#else\n");
    for (int i = 0; i < PRODUCTS; i++) {
        hr_text_format(out, "#if __CUDA_ARCH__ >= %d\n", products[i].compute);
        product_print(i, &list[PRODUCTS + i], "repeat_registers", out);
        hr_text_format(out, "#endif\n");
    }
    hr_text_format(out, "#endif\n");
}

hr_status hr_roof_products_cuda_source(hr_text *out) {
    hr_tensor_core list[2 * PRODUCTS];
    hr_text body = {0}, functions = {0};
    for (int i = 0; i < PRODUCTS; i++) {
        list[i] = (hr_tensor_core){.threads = HR_TENSOR_WARPGROUP,
                                   .a = products[i].type,
                                   .b = products[i].type,
                                   .sum = products[i].sum,
                                   .columns = SHARED_COLUMNS};
        list[PRODUCTS + i] = list[i];
        list[PRODUCTS + i].threads = HR_TENSOR_WARP;
        list[PRODUCTS + i].columns = REGISTER_COLUMNS;
    }
    hr_text_format(&body, "%s\n", (const char *)hr_cuda_roof_products_text);
    products_print(list, &body);
    hr_status status = hr_tensor_core_append(list, 2 * PRODUCTS, &functions);
    if (status == HR_OK) status = source_complete(&body, &functions, out);
    hr_text_clear(&body);
    hr_text_clear(&functions);
    return status;
}
