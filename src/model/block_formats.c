/* How files store weights: blocks of values and their bytes. What the bytes mean is said by the kernels of
 * models/weights.hr, which are given arrays over whole blocks: those have no gaps, so that kernels are fast
 * on a file as it lies. */
#include "model/weight_file.h"

#include "base/dtype.h"

#include <string.h>

/* name, number in GGUF, values and bytes of a block, the dtypes as which its bytes are given; its form */
static const hr_block_format formats[] = {
    {"f32", 0, 1, 4, 1, {HR_F32}, NULL},
    {"f16", 1, 1, 2, 1, {HR_F16}, NULL},
    {"bf16", 30, 1, 2, 1, {HR_BF16}, NULL},
    {"q4_0", 2, 32, 18, 2, {HR_F16, HR_U8}, "int4"},
    {"q4_1", 3, 32, 20, 2, {HR_F16, HR_U8}, "int4_least"},
    {"q5_0", 6, 32, 22, 2, {HR_F16, HR_U8}, "int8"},
    {"q5_1", 7, 32, 24, 2, {HR_F16, HR_U8}, "int8_least"},
    {"q8_0", 8, 32, 34, 2, {HR_F16, HR_I8}, "int8"},
    {"q4_k", 12, 256, 144, 2, {HR_F16, HR_U8}, "int4_least"},
    {"q5_k", 13, 256, 176, 2, {HR_F16, HR_U8}, "int8_least"},
    {"q6_k", 14, 256, 210, 3, {HR_F16, HR_I8, HR_U8}, "int8"},
};
#define FORMATS ((int)(sizeof formats / sizeof *formats))

const hr_block_format *hr_block_format_numbered(int64_t number) {
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].number == number) return &formats[i];
    return NULL;
}

const hr_block_format *hr_block_format_named(const char *name) {
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

void hr_weight_view_make(const hr_weight *weight, int view, hr_weight_view *out) {
    const hr_block_format *format = weight->format;
    int last = weight->rank - 1, elements = format->bytes / (int)hr_dtype_size(format->views[view]);
    memcpy(out->shape, weight->shape, sizeof weight->shape);
    out->shape[last] = weight->shape[last] / format->values;
    if (elements > 1) out->shape[last + 1] = elements;
    out->array = (hr_array){.size = sizeof out->array,
                            .data = (void *)(uintptr_t)weight->data,
                            .dtype = format->views[view],
                            .rank = weight->rank + (elements > 1),
                            .shape = out->shape};
}

hr_status hr_weight_place(const hr_weight_file *file, hr_weight *weight, const unsigned char *data,
                          size_t length, uint64_t start, uint64_t offset) {
    const hr_block_format *format = weight->format;
    int64_t row = weight->rank ? weight->shape[weight->rank - 1] : 1, blocks = row / format->values, bytes;
    if (row % format->values != 0)
        return hr_fail(HR_BAD_INPUT,
                       "%s: tensor %s has rows of %lld values, which are no whole blocks of %d (%s)",
                       file->path, weight->name, (long long)row, format->values, format->name);
    bool beyond = false;
    for (int axis = 0; axis < weight->rank - 1; axis++)
        beyond |= __builtin_mul_overflow(blocks, weight->shape[axis], &blocks);
    beyond |= __builtin_mul_overflow(blocks, format->bytes, &bytes);
    uint64_t begin;
    beyond |= __builtin_add_overflow(start, offset, &begin);
    if (beyond || begin > length || (uint64_t)bytes > length - begin)
        return hr_fail(HR_BAD_INPUT,
                       "%s: tensor %s does not lie in the file's %zu bytes: it is cut short, or broken",
                       file->path, weight->name, length);
    if (begin % hr_dtype_size(format->views[0]) != 0)
        return hr_fail(HR_BAD_INPUT, "%s: tensor %s begins at byte %llu, which its elements may not",
                       file->path, weight->name, (unsigned long long)begin);
    weight->data = data + begin;
    weight->bytes = (size_t)bytes;
    return HR_OK;
}
