/* safetensors: the length of a header, the header as JSON, the tensors' bytes.
 *
 * In: the bytes of one file, hostile until proven. Out: its tensors, added to those of an hr_weight_file.
 */
#include "model/weight_file.h"

#include "base/json_read.h"

#include <string.h>

#define HEADER_MOST (100u << 20) /* as the format says */

typedef struct dtype_name {
    const char *name, *format;
} dtype_name;

static const dtype_name dtype_names[] = {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};

static const hr_block_format *format_find(const char *name) {
    for (size_t i = 0; name && i < sizeof dtype_names / sizeof *dtype_names; i++)
        if (strcmp(dtype_names[i].name, name) == 0) return hr_block_format_named(dtype_names[i].format);
    return NULL;
}

static hr_status broken(const char *path, const char *tensor, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s: tensor %.200s: %s", path, tensor, what);
}

static hr_status shape_read(const char *path, const json_t *of, hr_weight *weight) {
    if (!json_is_array(of) || json_array_size(of) > HR_WEIGHT_RANK_MOST)
        return broken(path, weight->name, "its shape is no list of up to 4 whole numbers");
    weight->rank = (int)json_array_size(of);
    for (int axis = 0; axis < weight->rank; axis++) {
        const json_t *extent = json_array_get(of, (size_t)axis);
        weight->shape[axis] = json_integer_value(extent);
        if (!json_is_integer(extent) || weight->shape[axis] < 0)
            return broken(path, weight->name, "its shape is no list of whole numbers");
    }
    if (weight->rank == 0) weight->shape[weight->rank++] = 1;
    return HR_OK;
}

/* `data` is what follows the header. */
static hr_status tensor_read(hr_weight_file *file, const char *path, const char *name, const json_t *of,
                             const unsigned char *data, size_t length, hr_weight *weight) {
    const json_t *offsets = json_object_get(of, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    weight->name = hr_arena_copy(file->arena, name, strlen(name));
    weight->format = format_find(json_string_value(json_object_get(of, "dtype")));
    if (!weight->format) return broken(path, name, "its dtype is none of F32 F16 BF16");
    HR_TRY(shape_read(path, json_object_get(of, "shape"), weight));
    if (!json_is_integer(begin) || !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return broken(path, name, "its data_offsets are no two rising whole numbers");
    uint64_t first = (uint64_t)json_integer_value(begin);
    HR_TRY(hr_weight_place(file, weight, data, length, 0, first));
    if (weight->bytes != (uint64_t)json_integer_value(end) - first)
        return broken(path, name, "its data_offsets hold another number of bytes than its shape");
    return HR_OK;
}

static hr_status header_read(hr_weight_file *file, const char *path, json_t *header,
                             const unsigned char *data, size_t length) {
    const char *name;
    json_t *of;
    size_t most = (size_t)file->weight_count + json_object_size(header);
    if (hr_arena_room(file->arena) / 2 < most * sizeof *file->weights)
        return hr_fail(HR_BAD_INPUT, "%s: has more tensors than a model", path);
    hr_weight *grown = hr_arena_alloc(file->arena, most * sizeof *grown);
    if (file->weight_count > 0) memcpy(grown, file->weights, (size_t)file->weight_count * sizeof *grown);
    file->weights = grown;
    json_object_foreach(header, name, of) {
        if (strcmp(name, "__metadata__") == 0) continue;
        if (strlen(name) > 4096 || hr_arena_room(file->arena) < 8192)
            return hr_fail(HR_BAD_INPUT, "%s: has longer names than a model", path);
        HR_TRY(tensor_read(file, path, name, of, data, length, &grown[file->weight_count]));
        file->weight_count++;
    }
    return HR_OK;
}

hr_status hr_safetensors_read(hr_weight_file *file, const char *path, const unsigned char *data,
                              size_t length) {
    uint64_t size;
    if (length < sizeof size)
        return hr_fail(HR_BAD_INPUT, "%s: is neither GGUF nor safetensors: it is too short", path);
    memcpy(&size, data, sizeof size);
    if (size > HEADER_MOST || size > length - sizeof size)
        return hr_fail(
            HR_BAD_INPUT,
            "%s: is neither GGUF nor safetensors, whose header would have %llu bytes: more than there are",
            path, (unsigned long long)size);
    json_t *header;
    hr_status status = hr_json_read((const char *)data + sizeof size, (size_t)size, path, 1, &header);
    if (status == HR_BAD_INPUT)
        return hr_fail(HR_BAD_INPUT, "%s; it is neither GGUF nor safetensors", hr_last_error());
    if (status != HR_OK) return status;
    status = json_is_object(header) ? header_read(file, path, header, data + sizeof size + size,
                                                  length - sizeof size - (size_t)size)
                                    : hr_fail(HR_BAD_INPUT, "%s: its header is no JSON object", path);
    json_decref(header);
    return status;
}
