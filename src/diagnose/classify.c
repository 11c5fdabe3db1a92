/* Names -> classes: kernels, calls, ranges and operators.
 *
 * In: a name as it stands in the trace. Out: its class. Tables of words, the first one that occurs decides; a
 * new library of kernels is a new line here.
 */
#include "diagnose/analysis.h"

#include <string.h>
#include <strings.h>

/* Whether `word` occurs in `name`, in any case of its letters. */
static bool holds(const char *name, const char *word) {
    size_t length = strlen(word);
    char low = word[0], high = low >= 'a' && low <= 'z' ? (char)(low - 32) : low;
    for (; *name; name++)
        if ((*name == low || *name == high) && strncasecmp(name, word, length) == 0) return true;
    return false;
}

/* ---- kernels ---- */

typedef struct kernel_row {
    const char *word;
    hr_time_kind kind;
    unsigned flags;
} kernel_row;

/* Words in lower case. */
static const kernel_row kernel_rows[] = {
    {"nccl", HR_TIME_COMMUNICATION, 0},
    {"rccl", HR_TIME_COMMUNICATION, 0},
    {"nvshmem", HR_TIME_COMMUNICATION, 0},
    {"cross_device_reduce", HR_TIME_COMMUNICATION, 0},
    {"flash", HR_TIME_ATTENTION, 0},
    {"fmha", HR_TIME_ATTENTION, 0},
    {"attention", HR_TIME_ATTENTION, 0},
    {"mha_varlen", HR_TIME_ATTENTION, 0},
    {"paged_kv", HR_TIME_ATTENTION, 0},
    {"fusedadam", HR_TIME_OPTIMIZER, HR_WORK_MULTI},
    {"fusedsgd", HR_TIME_OPTIMIZER, HR_WORK_MULTI},
    {"multi_tensor", HR_TIME_OPTIMIZER, HR_WORK_MULTI},
    {"adamw", HR_TIME_OPTIMIZER, 0},
    {"lamb_", HR_TIME_OPTIMIZER, 0},
    {"splitkreduce", HR_TIME_MATRIX, 0},
    {"softmax", HR_TIME_NORMALISATION, HR_WORK_SOFTMAX},
    {"layer_norm", HR_TIME_NORMALISATION, 0},
    {"layernorm", HR_TIME_NORMALISATION, 0},
    {"gammabeta", HR_TIME_NORMALISATION, 0},
    {"rowwisemoments", HR_TIME_NORMALISATION, 0},
    {"rms_norm", HR_TIME_NORMALISATION, 0},
    {"rmsnorm", HR_TIME_NORMALISATION, 0},
    {"group_norm", HR_TIME_NORMALISATION, 0},
    {"groupnorm", HR_TIME_NORMALISATION, 0},
    {"batch_norm", HR_TIME_NORMALISATION, 0},
    {"batchnorm", HR_TIME_NORMALISATION, 0},
    {"instance_norm", HR_TIME_NORMALISATION, 0},
    {"::bn_fw", HR_TIME_NORMALISATION, 0},
    {"::bn_bw", HR_TIME_NORMALISATION, 0},
    {"split_embedding", HR_TIME_OTHER, 0},
    {"nchwtonhwc", HR_TIME_COPY, 0},
    {"nhwctonchw", HR_TIME_COPY, 0},
    {"nvjet", HR_TIME_MATRIX, HR_WORK_TENSOR},
    {"gemv", HR_TIME_MATRIX, 0},
    {"gemm", HR_TIME_MATRIX, 0},
    {"scudnn", HR_TIME_MATRIX, HR_WORK_FULL | HR_WORK_CONVOLUTION},
    {"winograd", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"wgrad", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"dgrad", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"fprop", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"convol", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"conv2d", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"conv_depthwise", HR_TIME_MATRIX, HR_WORK_CONVOLUTION},
    {"cutlass", HR_TIME_MATRIX, 0},
    {"xmma", HR_TIME_MATRIX, 0},
    {"wgmma", HR_TIME_MATRIX, HR_WORK_TENSOR},
    {"matmul", HR_TIME_MATRIX, 0},
    {"triton_tem", HR_TIME_MATRIX, 0},
    {"dot_kernel", HR_TIME_MATRIX, 0},
    {"cublas", HR_TIME_MATRIX, 0},
    {"catarraybatched", HR_TIME_COPY, 0},
    {"direct_copy", HR_TIME_COPY, HR_WORK_FUSABLE},
    {"bfloat16_copy", HR_TIME_COPY, HR_WORK_FUSABLE},
    {"float16_copy", HR_TIME_COPY, HR_WORK_FUSABLE},
    {"transpose", HR_TIME_COPY, 0},
    {"fillfunctor", HR_TIME_COPY, 0},
    {"reduce_kernel", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"triton_red", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"triton_per", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"devicereduce", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"reduction", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"logsumexp", HR_TIME_REDUCTION, HR_WORK_REDUCES},
    {"cross_entropy", HR_TIME_REDUCTION, 0},
    {"nll_loss", HR_TIME_REDUCTION, 0},
    {"scatter_gather_elementwise", HR_TIME_OTHER, 0},
    {"index_elementwise", HR_TIME_OTHER, 0},
    {"embedding", HR_TIME_OTHER, 0},
    {"elementwise_kernel", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"elementwise", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"pointwise", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"triton_poi", HR_TIME_ELEMENTWISE, 0},
    {"dropout", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"distribution", HR_TIME_ELEMENTWISE, 0},
    {"activation", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"gelu", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"silu", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
    {"memcpy", HR_TIME_COPY, 0},
    {"memset", HR_TIME_COPY, 0},
};

static bool holds_any(const char *name, const char *const *words) {
    for (; *words; words++)
        if (holds(name, *words)) return true;
    return false;
}

/* Which unit a product runs on, by what libraries put into names. */
static unsigned product_flags(const char *name) {
    static const char *const full[] = {"simt", "sgemm", "f32f32_f32f32", "scudnn", "gemmsn", "sgemv", NULL};
    static const char *const tensor[] = {"tensorop", "s1688", "s16816", "h16816",  "h1688", "s884",
                                         "h884",     "hmma",  "gmma",   "tf32",    "bf16",  "nvjet",
                                         "fp16",     "f16",   "i16832", "tensor1", NULL};
    static const char *const generic[] = {"<float, ", "float, float, float", NULL};
    unsigned flags = 0;
    if (holds(name, "align1") && !holds(name, "align16")) flags |= HR_WORK_MISALIGNED;
    if (holds(name, "tf32f32")) return flags | HR_WORK_TENSOR;
    if (holds_any(name, full)) return flags | HR_WORK_FULL;
    if (holds_any(name, tensor)) return flags | HR_WORK_TENSOR;
    return holds_any(name, generic) && !holds(name, "half") ? flags | HR_WORK_FULL : flags;
}

hr_kernel_class hr_classify_kernel(const char *name) {
    bool other_library = holds(name, "fbgemm_gpu"); /* of embeddings, in spite of its name */
    static const char *const roots[] = {"rsqrt", "exp_kernel", "sqrt_kernel", NULL};
    static const char *const steps[] = {"addcmul", "addcdiv", "sqrt_kernel", "lerp", NULL};
    for (size_t i = 0; i < sizeof kernel_rows / sizeof kernel_rows[0]; i++) {
        const kernel_row *row = &kernel_rows[i];
        if (!holds(name, row->word) || (other_library && strcmp(row->word, "gemm") == 0)) continue;
        unsigned flags = row->flags;
        if (row->kind == HR_TIME_MATRIX) flags |= product_flags(name);
        if ((flags & HR_WORK_FUSABLE) && holds_any(name, roots)) flags |= HR_WORK_ROOT;
        if ((flags & HR_WORK_FUSABLE) && holds_any(name, steps)) flags |= HR_WORK_STEPPING;
        return (hr_kernel_class){(uint8_t)row->kind, (uint16_t)flags};
    }
    return (hr_kernel_class){HR_TIME_OTHER, 0};
}

/* ---- calls ---- */

hr_call_class hr_classify_call(const char *name) {
    static const struct {
        const char *word;
        hr_call_class kind;
    } rows[] = {
        {"graphlaunch", HR_CALL_GRAPH_LAUNCH},
        {"launch", HR_CALL_LAUNCH},
        {"synchronize", HR_CALL_SYNCHRONISE},
        {"streamwaitevent", HR_CALL_STREAM_WAIT},
        {"eventrecord", HR_CALL_EVENT_RECORD},
        {"memset", HR_CALL_LAUNCH},
        {"memcpy", HR_CALL_COPY},
        {"moduleload", HR_CALL_FIRST_USE},
        {"moduleunload", HR_CALL_FIRST_USE},
        {"libraryload", HR_CALL_FIRST_USE},
        {"linkcreate", HR_CALL_FIRST_USE},
        {"linkadd", HR_CALL_FIRST_USE},
        {"linkcomplete", HR_CALL_FIRST_USE},
        {"nvrtc", HR_CALL_FIRST_USE},
        {"graphinstantiate", HR_CALL_FIRST_USE},
        {"ctxcreate", HR_CALL_FIRST_USE},
        {"primaryctxretain", HR_CALL_FIRST_USE},
        {"malloc", HR_CALL_ALLOCATE},
        {"cudafree", HR_CALL_ALLOCATE},
        {"hostalloc", HR_CALL_ALLOCATE},
        {"hostregister", HR_CALL_ALLOCATE},
        {"hostunregister", HR_CALL_ALLOCATE},
        {"memalloc", HR_CALL_ALLOCATE},
        {"memfree", HR_CALL_ALLOCATE},
        {"memcreate", HR_CALL_ALLOCATE},
        {"memmap", HR_CALL_ALLOCATE},
        {"memunmap", HR_CALL_ALLOCATE},
        {"memrelease", HR_CALL_ALLOCATE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (holds(name, rows[i].word)) return rows[i].kind;
    return HR_CALL_OTHER;
}

/* ---- ranges and operators ---- */

unsigned hr_classify_range(const char *name) {
    static const struct {
        const char *word;
        unsigned bits;
    } rows[] = {
        {"dataloader", HR_RANGE_LOADER},
        {"data_load", HR_RANGE_LOADER},
        {"dataload", HR_RANGE_LOADER},
        {"data loading", HR_RANGE_LOADER},
        {"data loader", HR_RANGE_LOADER},
        {"load batch", HR_RANGE_LOADER},
        {"load_batch", HR_RANGE_LOADER},
        {"load data", HR_RANGE_LOADER},
        {"next batch", HR_RANGE_LOADER},
        {"get_batch", HR_RANGE_LOADER},
        {"next_batch", HR_RANGE_LOADER},
        {"fetch_data", HR_RANGE_LOADER},
        {"optimizer", HR_RANGE_OPTIMIZER},
        {"optim step", HR_RANGE_OPTIMIZER},
        {"backward", HR_RANGE_BACKWARD},
        {"torchdynamo", HR_RANGE_COMPILE},
        {"compile_fx", HR_RANGE_COMPILE},
        {"triton_compile", HR_RANGE_COMPILE},
        {"layer_norm", HR_RANGE_NORMALISATION},
        {"batch_norm", HR_RANGE_NORMALISATION},
        {"group_norm", HR_RANGE_NORMALISATION},
        {"softmax", HR_RANGE_NORMALISATION},
        {"rms_norm", HR_RANGE_NORMALISATION},
        {"dot_product_flash", HR_RANGE_ATTENTION},
        {"dot_product_efficient", HR_RANGE_ATTENTION},
        {"dot_product_cudnn", HR_RANGE_ATTENTION},
        {"aten::mm", HR_RANGE_MATRIX},
        {"aten::bmm", HR_RANGE_MATRIX},
        {"aten::addmm", HR_RANGE_MATRIX},
        {"aten::baddbmm", HR_RANGE_MATRIX},
        {"aten::cudnn_convolution", HR_RANGE_MATRIX},
        {"aten::convolution", HR_RANGE_MATRIX},
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (holds(name, rows[i].word)) bits |= rows[i].bits;
    if (holds(name, "zero_grad")) bits &= ~(unsigned)HR_RANGE_OPTIMIZER;
    return bits;
}
