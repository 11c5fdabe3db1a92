/* GGUF, version 3: numbers and strings by name, then tensors, then their bytes.
 *
 * In: the bytes of a file, hostile until proven. Out: the tables of an hr_weight_file, whose strings and
 * tensors lie in those bytes. Counts are believed only as far as the bytes that are left could hold them.
 */
#include "model/weight_file.h"

#include <inttypes.h>
#include <string.h>

#define VERSION        3
#define ALIGNMENT      32 /* of the tensors, where the file does not say */
#define ALIGNMENT_MOST (1 << 20)
#define NAME_MOST      65535
#define PAIR_LEAST     13 /* bytes: an empty name, a type, a value of one byte */
#define TENSOR_LEAST   24
#define STRING_LEAST   8

typedef struct gguf_reader {
    hr_weight_file *file;
    const unsigned char *data;
    size_t length, at;
} gguf_reader;

/* ---- bytes ---- */

static hr_status cut_short(const gguf_reader *reader, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s: is cut short: at byte %zu of %zu %s was expected", reader->file->path,
                   reader->at, reader->length, what);
}

static size_t left(const gguf_reader *reader) {
    return reader->length - reader->at;
}

static hr_status take(gguf_reader *reader, void *out, size_t size, const char *what) {
    if (left(reader) < size) return cut_short(reader, what);
    memcpy(out, reader->data + reader->at, size);
    reader->at += size;
    return HR_OK;
}

static hr_status take_string(gguf_reader *reader, hr_bytes *out, const char *what) {
    uint64_t length = 0;
    HR_TRY(take(reader, &length, sizeof length, what));
    if (length > left(reader)) return cut_short(reader, what);
    *out = (hr_bytes){(const char *)reader->data + reader->at, (size_t)length};
    reader->at += (size_t)length;
    return HR_OK;
}

static hr_status take_name(gguf_reader *reader, const char **out, const char *what) {
    hr_bytes name;
    HR_TRY(take_string(reader, &name, what));
    if (name.length > NAME_MOST || memchr(name.at, 0, name.length))
        return hr_fail(HR_BAD_INPUT, "%s: the name before byte %zu is none that a tensor or a value can have",
                       reader->file->path, reader->at);
    if (hr_arena_room(reader->file->arena) < name.length + 64)
        return hr_fail(HR_BAD_INPUT, "%s: has more names than a file of a model", reader->file->path);
    *out = hr_arena_copy(reader->file->arena, name.at, name.length);
    return HR_OK;
}

/* ---- pairs ---- */

static hr_status take_array(gguf_reader *reader, hr_file_value *value) {
    uint32_t element = 0;
    HR_TRY(take(reader, &element, sizeof element, "the type of an array"));
    HR_TRY(take(reader, &value->count, sizeof value->count, "the length of an array"));
    if (element >= HR_FILE_TYPES || element == HR_FILE_ARRAY)
        return hr_fail(HR_BAD_INPUT, "%s: %s is an array of type %" PRIu32 ", which is not known",
                       reader->file->path, value->key, element);
    value->element = (hr_file_type)element;
    size_t size = element == HR_FILE_STRING ? STRING_LEAST : hr_file_type_size(value->element),
           start = reader->at;
    if (value->count > left(reader) / size) return cut_short(reader, "the elements of an array");
    if (element != HR_FILE_STRING)
        reader->at += (size_t)value->count * size;
    else
        for (uint64_t i = 0; i < value->count; i++) {
            hr_bytes string;
            HR_TRY(take_string(reader, &string, "a string of an array"));
        }
    value->bytes = (hr_bytes){(const char *)reader->data + start, reader->at - start};
    return HR_OK;
}

static hr_status take_pair(gguf_reader *reader, hr_file_value *value) {
    uint32_t type = 0;
    HR_TRY(take_name(reader, &value->key, "the name of a value"));
    HR_TRY(take(reader, &type, sizeof type, "the type of a value"));
    if (type >= HR_FILE_TYPES)
        return hr_fail(HR_BAD_INPUT, "%s: %s is of type %" PRIu32 ", which is not known", reader->file->path,
                       value->key, type);
    value->type = (hr_file_type)type;
    if (type == HR_FILE_STRING) return take_string(reader, &value->bytes, "a string");
    if (type == HR_FILE_ARRAY) return take_array(reader, value);
    size_t size = hr_file_type_size(value->type);
    if (left(reader) < size) return cut_short(reader, "a value");
    value->bytes = (hr_bytes){(const char *)reader->data + reader->at, size};
    reader->at += size;
    return HR_OK;
}

/* ---- tensors ---- */

/* `offset` as the file says it. */
static hr_status take_tensor(gguf_reader *reader, hr_weight *weight, uint64_t *offset) {
    uint32_t rank = 0, number = 0;
    uint64_t extents[HR_WEIGHT_RANK_MOST];
    HR_TRY(take_name(reader, &weight->name, "the name of a tensor"));
    HR_TRY(take(reader, &rank, sizeof rank, "the number of a tensor's axes"));
    if (rank < 1 || rank > HR_WEIGHT_RANK_MOST)
        return hr_fail(HR_BAD_INPUT, "%s: tensor %s has %" PRIu32 " axes; 1 to %d are possible",
                       reader->file->path, weight->name, rank, HR_WEIGHT_RANK_MOST);
    HR_TRY(take(reader, extents, rank * sizeof *extents, "the extents of a tensor"));
    HR_TRY(take(reader, &number, sizeof number, "the type of a tensor"));
    HR_TRY(take(reader, offset, sizeof *offset, "the place of a tensor"));
    weight->format = hr_block_format_numbered(number);
    if (!weight->format)
        return hr_fail(HR_BAD_INPUT,
                       "%s: tensor %s is of type %" PRIu32
                       "; known are F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 "
                       "Q4_K Q5_K Q6_K",
                       reader->file->path, weight->name, number);
    weight->rank = (int)rank;
    for (uint32_t axis = 0; axis < rank; axis++) { /* fastest first, there */
        if (extents[axis] > INT64_MAX)
            return hr_fail(HR_BAD_INPUT, "%s: tensor %s has %" PRIu64 " elements along an axis",
                           reader->file->path, weight->name, extents[axis]);
        weight->shape[rank - 1 - axis] = (int64_t)extents[axis];
    }
    return HR_OK;
}

static hr_status alignment_find(const gguf_reader *reader, size_t *out) {
    double alignment = ALIGNMENT;
    hr_file_number(reader->file, "general.alignment", &alignment);
    size_t whole = alignment >= 1 && alignment <= ALIGNMENT_MOST ? (size_t)alignment : 0;
    if (whole == 0 || (double)whole != alignment || (whole & (whole - 1)) != 0)
        return hr_fail(HR_BAD_INPUT, "%s: general.alignment is %g, which is no power of two up to %d",
                       reader->file->path, alignment, ALIGNMENT_MOST);
    *out = whole;
    return HR_OK;
}

static hr_status take_tensors(gguf_reader *reader, uint64_t count) {
    hr_weight_file *file = reader->file;
    if (count > left(reader) / TENSOR_LEAST) return cut_short(reader, "the table of tensors");
    if (hr_arena_room(file->arena) / 2 < count * (sizeof *file->weights + sizeof(uint64_t)))
        return hr_fail(HR_BAD_INPUT, "%s: has %" PRIu64 " tensors, more than a model", file->path, count);
    file->weights = hr_arena_alloc(file->arena, (size_t)count * sizeof *file->weights);
    uint64_t *offsets = hr_arena_alloc(file->arena, (size_t)count * sizeof *offsets);
    for (uint64_t i = 0; i < count; i++)
        HR_TRY(take_tensor(reader, &file->weights[i], &offsets[i]));
    size_t alignment = ALIGNMENT;
    HR_TRY(alignment_find(reader, &alignment));
    uint64_t start = (reader->at + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < count; i++) {
        if (offsets[i] % alignment != 0)
            return hr_fail(HR_BAD_INPUT,
                           "%s: tensor %s begins at byte %" PRIu64 ", which is no multiple of %zu",
                           file->path, file->weights[i].name, offsets[i], alignment);
        HR_TRY(hr_weight_place(file, &file->weights[i], reader->data, reader->length, start, offsets[i]));
    }
    file->weight_count = (int64_t)count;
    return HR_OK;
}

/* ---- the file ---- */

hr_status hr_gguf_read(hr_weight_file *file, const unsigned char *data, size_t length) {
    gguf_reader reader = {file, data, length, 0};
    char magic[4];
    uint32_t version = 0;
    uint64_t tensors = 0, pairs = 0;
    HR_TRY(take(&reader, magic, sizeof magic, "GGUF"));
    if (memcmp(magic, "GGUF", 4) != 0)
        return hr_fail(HR_BAD_INPUT, "%s: is no GGUF file: it does not begin with GGUF", file->path);
    HR_TRY(take(&reader, &version, sizeof version, "the version"));
    if (version != VERSION)
        return hr_fail(HR_BAD_INPUT,
                       "%s: is GGUF of version %" PRIu32 "; version 3, little-endian, is read here",
                       file->path, version);
    HR_TRY(take(&reader, &tensors, sizeof tensors, "the number of tensors"));
    HR_TRY(take(&reader, &pairs, sizeof pairs, "the number of values"));
    if (pairs > left(&reader) / PAIR_LEAST) return cut_short(&reader, "the table of values");
    if (hr_arena_room(file->arena) / 4 < pairs * sizeof *file->values)
        return hr_fail(HR_BAD_INPUT, "%s: has %" PRIu64 " values, more than a model", file->path, pairs);
    file->values = hr_arena_alloc(file->arena, (size_t)pairs * sizeof *file->values);
    for (uint64_t i = 0; i < pairs; i++) {
        HR_TRY(take_pair(&reader, &file->values[i]));
        file->value_count = (int64_t)i + 1;
    }
    double parts = 1;
    hr_file_number(file, "split.count", &parts);
    if (parts != 1)
        return hr_fail(HR_BAD_INPUT, "%s: is one of %g parts of a model; join them to one file first",
                       file->path, parts);
    return take_tensors(&reader, tensors);
}
