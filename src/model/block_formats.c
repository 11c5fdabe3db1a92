/* How files store weights: blocks of values, their bytes and the arrays that lie in them. What the fields
 * mean is said by the kernels of models/weights.hr. */
#include "model/weight_file.h"

#include "base/dtype.h"

#include <string.h>

/* name, number in GGUF, values and bytes of a block; its fields: name, dtype, first byte, axes */
static const hr_block_format formats[] = {
    {"f32", 0, 1, 4, 1, {{"w", HR_F32, 0, 1, 1}}},
    {"f16", 1, 1, 2, 1, {{"w", HR_F16, 0, 1, 1}}},
    {"bf16", 30, 1, 2, 1, {{"w", HR_BF16, 0, 1, 1}}},
    {"q4_0", 2, 32, 18, 2, {{"d", HR_F16, 0, 1, 1}, {"q", HR_U8, 2, 1, 16}}},
    {"q4_1", 3, 32, 20, 3, {{"d", HR_F16, 0, 1, 1}, {"m", HR_F16, 2, 1, 1}, {"q", HR_U8, 4, 1, 16}}},
    {"q5_0", 6, 32, 22, 3, {{"d", HR_F16, 0, 1, 1}, {"h", HR_U8, 2, 1, 4}, {"q", HR_U8, 6, 1, 16}}},
    {"q5_1",
     7,
     32,
     24,
     4,
     {{"d", HR_F16, 0, 1, 1}, {"m", HR_F16, 2, 1, 1}, {"h", HR_U8, 4, 1, 4}, {"q", HR_U8, 8, 1, 16}}},
    {"q8_0", 8, 32, 34, 2, {{"d", HR_F16, 0, 1, 1}, {"q", HR_I8, 2, 1, 32}}},
    {"q4_k",
     12,
     256,
     144,
     4,
     {{"d", HR_F16, 0, 1, 1}, {"m", HR_F16, 2, 1, 1}, {"s", HR_U8, 4, 1, 12}, {"q", HR_U8, 16, 4, 32}}},
    {"q5_k",
     13,
     256,
     176,
     5,
     {{"d", HR_F16, 0, 1, 1},
      {"m", HR_F16, 2, 1, 1},
      {"s", HR_U8, 4, 1, 12},
      {"h", HR_U8, 16, 1, 32},
      {"q", HR_U8, 48, 4, 32}}},
    {"q6_k",
     14,
     256,
     210,
     4,
     {{"d", HR_F16, 208, 1, 1}, {"s", HR_I8, 192, 1, 16}, {"h", HR_U8, 128, 2, 32}, {"q", HR_U8, 0, 2, 64}}},
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

static void axis_add(hr_weight_view *view, int64_t extent, int64_t stride) {
    view->shape[view->rank] = extent;
    view->strides[view->rank++] = stride;
}

void hr_weight_field(const hr_weight *weight, int field, hr_weight_view *out) {
    const hr_block_field *of = &weight->format->fields[field];
    int64_t step =
        weight->format->bytes / (int64_t)hr_dtype_size(of->dtype); /* elements from block to block */
    out->rank = 0;
    for (int axis = 0; axis < weight->rank; axis++) {
        int64_t stride = step;
        for (int inner = axis + 1; inner < weight->rank; inner++)
            stride *= weight->shape[inner] / (inner == weight->rank - 1 ? weight->format->values : 1);
        bool blocks = axis == weight->rank - 1;
        axis_add(out, weight->shape[axis] / (blocks ? weight->format->values : 1), stride);
    }
    if (of->outer > 1) axis_add(out, of->outer, of->inner);
    if (of->inner > 1) axis_add(out, of->inner, 1);
    out->array = (hr_array){sizeof out->array, (void *)(uintptr_t)(weight->data + of->offset),
                            of->dtype,         out->rank,
                            out->shape,        out->strides};
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
    if (begin % hr_dtype_size(format->fields[0].dtype) != 0)
        return hr_fail(HR_BAD_INPUT, "%s: tensor %s begins at byte %llu, which its elements may not",
                       file->path, weight->name, (unsigned long long)begin);
    weight->data = data + begin;
    weight->bytes = (size_t)bytes;
    return HR_OK;
}
