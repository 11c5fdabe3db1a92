/* Prints the functions of emit/cuda/tensor_core.h: inline assembly with as many operands as the product has
 * registers. */
#include "emit/cuda/tensor_core.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 96, K_BYTES = 32 };

/* ---- what there is ---- */

static const struct {
    const char *name;
    int bytes;
} types[] = {[HR_TENSOR_BF16] = {"bf16", 2}, [HR_TENSOR_F16] = {"f16", 2},   [HR_TENSOR_TF32] = {"tf32", 4},
             [HR_TENSOR_E4M3] = {"e4m3", 1}, [HR_TENSOR_E5M2] = {"e5m2", 1}, [HR_TENSOR_S8] = {"s8", 1},
             [HR_TENSOR_U8] = {"u8", 1}};

static const struct {
    const char *name, *type, *constraint;
    int packed; /* elements of a register */
} sums[] = {[HR_TENSOR_SUM_F32] = {"f32", "float", "+f", 1},
            [HR_TENSOR_SUM_F16] = {"f16", "uint32_t", "+r", 2},
            [HR_TENSOR_SUM_S32] = {"s32", "int32_t", "+r", 1}};

static const char *const places[] = {
    [HR_TENSOR_K_MAJOR] = "k", [HR_TENSOR_MN_MAJOR] = "mn", [HR_TENSOR_REGISTERS] = "r"};

static bool is_f8(hr_tensor_type type) {
    return type == HR_TENSOR_E4M3 || type == HR_TENSOR_E5M2;
}

static bool is_whole(hr_tensor_type type) {
    return type == HR_TENSOR_S8 || type == HR_TENSOR_U8;
}

static bool types_agree(hr_tensor_type a, hr_tensor_type b) {
    return a == b || (is_f8(a) && is_f8(b)) || (is_whole(a) && is_whole(b));
}

static bool sum_exists(const hr_tensor_core *product) {
    if (is_whole(product->a)) return product->sum == HR_TENSOR_SUM_S32;
    if (product->sum == HR_TENSOR_SUM_F16) return product->a == HR_TENSOR_F16 || is_f8(product->a);
    return product->sum == HR_TENSOR_SUM_F32;
}

static bool columns_exist(const hr_tensor_core *product) {
    int n = product->columns;
    if (product->threads == HR_TENSOR_WARP) return n == 8;
    return n >= 8 && n <= 256 && (is_whole(product->a) && n > 32 ? n % 16 == 0 || n == 24 : n % 8 == 0);
}

static bool places_exist(const hr_tensor_core *product) {
    bool transposed = product->a_place == HR_TENSOR_MN_MAJOR || product->b_place == HR_TENSOR_MN_MAJOR;
    if (product->threads == HR_TENSOR_WARP) return true;
    return product->b_place != HR_TENSOR_REGISTERS && (!transposed || types[product->a].bytes == 2);
}

hr_status hr_tensor_core_check(const hr_tensor_core *product) {
    char name[NAME_MAX_BYTES];
    const char *why = !types_agree(product->a, product->b) ? "its operands differ in type"
                      : !sum_exists(product)               ? "it has no sum of that type"
                      : !columns_exist(product)            ? "it has no such number of columns"
                      : !places_exist(product)
                          ? "an operand cannot lie so: the other axis than k comes first "
                            "for 16-bit types alone, and B is never in registers"
                          : NULL;
    if (!why) return HR_OK;
    hr_tensor_core_name(product, name, sizeof name);
    return hr_fail(HR_BAD_INPUT, "tensor cores have no %s: %s", name, why);
}

/* ---- printing ---- */

static int k_of(const hr_tensor_core *product) {
    return K_BYTES / types[product->a].bytes;
}

/* Of d, in each thread. */
static int registers_of(const hr_tensor_core *product) {
    int elements = product->threads == HR_TENSOR_WARP ? 4 : product->columns / 2;
    return elements / sums[product->sum].packed;
}

void hr_tensor_core_name(const hr_tensor_core *product, char *out, size_t size) {
    const char *sum = sums[product->sum].name, *a = types[product->a].name, *b = types[product->b].name;
    if (product->threads == HR_TENSOR_WARP)
        snprintf(out, size, "ptx_mma_m16n8k%d_%s_%s_%s", k_of(product), sum, a, b);
    else
        snprintf(out, size, "ptx_wgmma_m64n%dk%d_%s_%s_%s_%s_%s", product->columns, k_of(product), sum, a, b,
                 places[product->a_place], places[product->b_place]);
}

/* "%4, %5, %6": `count` operands from `first` on, in lines of 16. */
static void print_operands(hr_text *out, int first, int count) {
    for (int i = 0; i < count; i++)
        hr_text_format(out, "%s%%%d", i == 0 ? "" : i % 16 ? ", " : ", \"\n                 \"", first + i);
}

/* "+f"(d[0]), "+f"(d[1]): lines of 8. */
static void print_values(hr_text *out, const char *constraint, const char *name, int count) {
    for (int i = 0; i < count; i++)
        hr_text_format(out, "%s\"%s\"(%s[%d])",
                       i == 0  ? ""
                       : i % 8 ? ", "
                               : ",\n                   ",
                       constraint, name, i);
}

static void print_mma(const hr_tensor_core *product, const char *name, hr_text *out) {
    int count = registers_of(product);
    const char *sum = sums[product->sum].name;
    hr_text_format(out,
                   "static __device__ __forceinline__ void %s(%s (&d)[%d], const uint32_t (&a)[4],\n"
                   "    const uint32_t (&b)[2]) {\n"
                   "    asm volatile(\"mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s {",
                   name, sums[product->sum].type, count, k_of(product), sum, types[product->a].name,
                   types[product->b].name, sum);
    print_operands(out, 0, count);
    hr_text_format(out, "}, {");
    print_operands(out, count, 4);
    hr_text_format(out, "}, {");
    print_operands(out, count + 4, 2);
    hr_text_format(out, "}, {");
    print_operands(out, 0, count);
    hr_text_format(out, "};\"\n                 : ");
    print_values(out, sums[product->sum].constraint, "d", count);
    hr_text_format(out, "\n                 : ");
    print_values(out, "r", "a", 4);
    hr_text_format(out, ", ");
    print_values(out, "r", "b", 2);
    hr_text_format(out, ");\n}\n\n");
}

/* Signs of A and B, and which operands in shared memory are transposed. */
static void print_immediates(const hr_tensor_core *product, hr_text *out) {
    if (is_whole(product->a)) return;
    hr_text_format(out, ", 1, 1");
    if (types[product->a].bytes != 2) return;
    if (product->a_place != HR_TENSOR_REGISTERS)
        hr_text_format(out, ", %d", product->a_place == HR_TENSOR_MN_MAJOR);
    hr_text_format(out, ", %d", product->b_place == HR_TENSOR_MN_MAJOR);
}

static void print_wgmma(const hr_tensor_core *product, const char *name, hr_text *out) {
    int count = registers_of(product), a = product->a_place == HR_TENSOR_REGISTERS ? 4 : 1;
    hr_text_format(out,
                   "static __device__ __forceinline__ void %s(%s (&d)[%d], %s, uint64_t b,\n"
                   "    int accumulate) {\n"
                   "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %%%d, 0;\\n\"\n"
                   "                 \"wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s \"\n"
                   "                 \"{",
                   name, sums[product->sum].type, count, a == 4 ? "const uint32_t (&a)[4]" : "uint64_t a",
                   count + a + 1, product->columns, k_of(product), sums[product->sum].name,
                   types[product->a].name, types[product->b].name);
    print_operands(out, 0, count);
    hr_text_format(out, "}, \"\n                 \"%s", a == 4 ? "{" : "");
    print_operands(out, count, a);
    hr_text_format(out, "%s, %%%d, p", a == 4 ? "}" : "", count + a);
    print_immediates(product, out);
    hr_text_format(out, ";\\n}\"\n                 : ");
    print_values(out, sums[product->sum].constraint, "d", count);
    hr_text_format(out, "\n                 : ");
    if (a == 4)
        print_values(out, "r", "a", 4);
    else
        hr_text_format(out, "\"l\"(a)");
    hr_text_format(out, ", \"l\"(b), \"r\"(accumulate));\n}\n\n");
}

static bool is_first(const hr_tensor_core *products, int i) {
    char name[NAME_MAX_BYTES], other[NAME_MAX_BYTES];
    hr_tensor_core_name(&products[i], name, sizeof name);
    for (int j = 0; j < i; j++) {
        hr_tensor_core_name(&products[j], other, sizeof other);
        if (strcmp(name, other) == 0) return false;
    }
    return true;
}

hr_status hr_tensor_core_append(const hr_tensor_core *products, int count, hr_text *out) {
    char name[NAME_MAX_BYTES];
    if (count) hr_text_format(out, "#ifndef HR_EMULATED\n");
    for (int i = 0; i < count; i++) {
        HR_TRY(hr_tensor_core_check(&products[i]));
        hr_tensor_core_name(&products[i], name, sizeof name);
        if (!is_first(products, i)) continue;
        if (products[i].threads == HR_TENSOR_WARP)
            print_mma(&products[i], name, out);
        else
            print_wgmma(&products[i], name, out);
    }
    if (count) hr_text_format(out, "#endif\n\n");
    return hr_text_status(out);
}
