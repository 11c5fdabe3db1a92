/* Weights in blocks laid out for products, once: by pack_FORMAT of models/packed.hr for whole-number dots,
 * and by place_FORMAT of models/blocks.hr where the device does not see the host's memory.
 *
 * In: a matrix in blocks, as in its file, where the device sees it. Out: the arrays that
 * linear_packed_FORMAT, or linear_FORM, begins with, in memory of the device.
 */
#include "model/model.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "run/kernel.h"

#include <string.h>

enum {
    ROWS = 16 /* side by side */,
    EXTENTS_MOST = 2,
    ARGUMENTS_MOST = HR_BLOCK_VIEWS_MOST + HR_PACKED_MOST
};

typedef struct packing {
    const hr_kernel *kernel;
    int64_t rows; /* of the weight, in one of the kernel's */
    int64_t extents[EXTENTS_MOST];
    int64_t shapes[ARGUMENTS_MOST][HR_SEQUENCE_RANK];
    hr_array arrays[ARGUMENTS_MOST];
} packing;

/* N groups of rows, G blocks a row. */
static hr_status extents_find(const hr_weight *weight, packing *out) {
    const int count = hr_kernel_extent_count(out->kernel);
    for (int i = 0; i < count; i++) {
        const char *name = hr_kernel_extent_name(out->kernel, i);
        const bool rows = strcmp(name, "N") == 0, blocks = strcmp(name, "G") == 0;
        if (i == EXTENTS_MOST || (!rows && !blocks))
            return hr_fail(HR_INTERNAL, "a kernel that packs %s has another extent than N and G: %s",
                           weight->format->name, name);
        out->extents[i] = rows ? weight->shape[0] / out->rows : weight->shape[1] / weight->format->values;
    }
    return HR_OK;
}

/* Argument `i` in the shape that the kernel declares; its bytes. */
static hr_status array_make(packing *packing, int i, size_t *bytes) {
    hr_argument argument;
    HR_TRY(hr_kernel_argument(packing->kernel, i, &argument));
    HR_TRY(hr_argument_sizes(packing->kernel, i, packing->extents, packing->shapes[i]));
    packing->arrays[i] = (hr_array){.size = sizeof(hr_array),
                                    .dtype = argument.dtype,
                                    .rank = argument.rank,
                                    .shape = packing->shapes[i]};
    *bytes = hr_dtype_size(argument.dtype);
    for (int axis = 0; axis < argument.rank; axis++)
        *bytes *= (size_t)packing->shapes[i][axis];
    return HR_OK;
}

static void result_keep(const packing *packing, int i, hr_packed_weight *out) {
    const hr_array *array = &packing->arrays[i];
    hr_sequence_array *kept = &out->arrays[out->count++];
    *kept = (hr_sequence_array){
        .size = sizeof *kept, .buffer = -1, .data = array->data, .dtype = array->dtype, .rank = array->rank};
    for (int axis = 0; axis < array->rank; axis++)
        kept->shape[axis].fixed = array->shape[axis];
}

/* Each result begins on a cache line. */
static size_t line_of(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static hr_status arrays_make(struct hr_model *model, const hr_weight *weight, packing *packing, int count,
                             hr_packed_weight *out) {
    const int views = weight->format->view_count;
    size_t bytes, all = 0;
    for (int i = 0; i < count; i++) {
        HR_TRY(array_make(packing, i, &bytes));
        if (i < views)
            packing->arrays[i].data = (void *)(uintptr_t)weight->data;
        else
            all += line_of(bytes);
    }
    HR_TRY(hr_device_allocate(model->device, all, &out->data));
    out->bytes = all;
    char *at = out->data;
    for (int i = views; i < count; i++) {
        HR_TRY(array_make(packing, i, &bytes));
        packing->arrays[i].data = at;
        at += line_of(bytes);
    }
    return HR_OK;
}

static hr_status pack(struct hr_model *model, const hr_weight *weight, int64_t rows, hr_kernel *kernel,
                      hr_packed_weight *out) {
    const int count = hr_kernel_argument_count(kernel), views = weight->format->view_count;
    packing packing = {.kernel = kernel, .rows = rows};
    if (count > ARGUMENTS_MOST || count <= views || count - views > HR_PACKED_MOST)
        return hr_fail(HR_INTERNAL, "a kernel that packs %s has %d arguments", weight->format->name, count);
    HR_TRY(extents_find(weight, &packing));
    HR_TRY(arrays_make(model, weight, &packing, count, out));
    kernel->threads = model->threads;
    HR_TRY(hr_kernel_execute(kernel, packing.arrays, count, NULL));
    for (int i = views; i < count; i++)
        result_keep(&packing, i, out);
    return HR_OK;
}

static int64_t packed_count(const struct hr_model *model) {
    return model->file->weight_count + model->joined_weight_count;
}

/* Where what is packed of a weight stands: of the file's, or of one that is joined of them. */
static hr_packed_weight *packed_at(const struct hr_model *model, const hr_weight *weight) {
    const hr_weight *first = model->file->weights, *joined = model->joined_weights;
    const int64_t count = model->file->weight_count;
    for (int64_t i = 0; i < model->joined_weight_count; i++)
        if (weight == &joined[i]) return &model->packed[count + i];
    return &model->packed[weight - first];
}

static void packed_release(struct hr_model *model, hr_packed_weight *packed) {
    if (packed->data) hr_device_release(model->device, packed->data, packed->bytes);
    *packed = (hr_packed_weight){0};
}

/* A matrix of which packing failed is packed anew by the next step. */
hr_status hr_model_weight_pack(struct hr_model *model, const hr_weight *weight,
                               const hr_packed_weight **out) {
    const bool here = hr_device_memory_is_host(model->device);
    const int64_t rows = here ? ROWS : 1;
    const hr_model_kernel *of;
    *out = NULL;
    if (weight->rank != 2 || weight->shape[0] % rows) return HR_OK;
    HR_TRY(hr_model_kernel_of(model, here ? "pack" : "place", weight->format->name, &of));
    if (!of) return HR_OK;
    if (!model->packed)
        model->packed = hr_memory_zeros((size_t)packed_count(model) + 1, sizeof *model->packed);
    if (!model->packed) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a model");
    hr_packed_weight *packed = packed_at(model, weight);
    const hr_status status = packed->count ? HR_OK : pack(model, weight, rows, of->kernel, packed);
    if (status == HR_OK)
        *out = packed;
    else
        packed_release(model, packed);
    return status;
}

const hr_packed_weight *hr_model_weight_packed(const struct hr_model *model, const hr_weight *weight) {
    const bool known = model->packed && weight->format->values > 1;
    const hr_packed_weight *packed = known ? packed_at(model, weight) : NULL;
    return packed && packed->count ? packed : NULL;
}

void hr_model_weight_part(struct hr_model *model, const hr_weight *whole, const hr_weight *part,
                          int64_t row) {
    const hr_packed_weight *of = packed_at(model, whole);
    hr_packed_weight *out = packed_at(model, part);
    out->count = of->count;
    for (int i = 0; i < of->count; i++) {
        hr_sequence_array *array = &out->arrays[i];
        *array = of->arrays[i];
        size_t bytes = hr_dtype_size(array->dtype);
        for (int axis = 1; axis < array->rank; axis++)
            bytes *= (size_t)array->shape[axis].fixed;
        array->data = (char *)array->data + (size_t)row * bytes;
        array->shape[0].fixed = part->shape[0];
    }
}

void hr_model_packed_release(struct hr_model *model) {
    for (int64_t i = 0; model->packed && i < packed_count(model); i++)
        packed_release(model, &model->packed[i]);
    free(model->packed);
}
