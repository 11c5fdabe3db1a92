/* Opens files of weights and finds values in them. In: a path. Out: tables. See weight_file.h. */
#include "model/weight_file.h"

#include "model/tokenizer_json.h"

#include "base/dtype.h"
#include "base/json_read.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ARENA_SIZE ((size_t)1 << 30) /* of address space */
#define PATH_MOST  4096

/* ---- what a file says ---- */

hr_weight *hr_weight_find(const hr_weight_file *file, const char *name) {
    for (int64_t i = 0; i < file->weight_count; i++)
        if (strcmp(file->weights[i].name, name) == 0) return &file->weights[i];
    return NULL;
}

const hr_file_value *hr_file_value_find(const hr_weight_file *file, const char *key) {
    for (int64_t i = 0; i < file->value_count; i++)
        if (strcmp(file->values[i].key, key) == 0) return &file->values[i];
    return NULL;
}

size_t hr_file_type_size(hr_file_type type) {
    static const unsigned char sizes[HR_FILE_TYPES] = {
        [HR_FILE_U8] = 1,  [HR_FILE_I8] = 1,  [HR_FILE_U16] = 2, [HR_FILE_I16] = 2,
        [HR_FILE_U32] = 4, [HR_FILE_I32] = 4, [HR_FILE_F32] = 4, [HR_FILE_BOOL] = 1,
        [HR_FILE_U64] = 8, [HR_FILE_I64] = 8, [HR_FILE_F64] = 8};
    return sizes[type];
}

static double number_load(hr_file_type type, const char *at) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } of;
    memcpy(&of, at, hr_file_type_size(type));
    switch (type) {
    case HR_FILE_U8:
    case HR_FILE_BOOL:
        return of.u8;
    case HR_FILE_I8:
        return of.i8;
    case HR_FILE_U16:
        return of.u16;
    case HR_FILE_I16:
        return of.i16;
    case HR_FILE_U32:
        return of.u32;
    case HR_FILE_I32:
        return of.i32;
    case HR_FILE_F32:
        return of.f32;
    case HR_FILE_U64:
        return (double)of.u64;
    case HR_FILE_I64:
        return (double)of.i64;
    default:
        return of.f64;
    }
}

double hr_file_element(const hr_file_value *value, uint64_t i) {
    return number_load(value->element, value->bytes.at + i * hr_file_type_size(value->element));
}

hr_bytes hr_file_next_string(const char **at) {
    uint64_t length;
    memcpy(&length, *at, sizeof length);
    hr_bytes bytes = {*at + sizeof length, (size_t)length};
    *at = bytes.at + length;
    return bytes;
}

/* a.b.c -> the value of key c in the object b in the object a. */
static json_t *config_find(json_t *config, const char *key) {
    const char *dot = strchr(key, '.');
    if (!dot || !config) return config ? json_object_get(config, key) : NULL;
    char part[64];
    if ((size_t)(dot - key) >= sizeof part) return NULL;
    memcpy(part, key, (size_t)(dot - key));
    part[dot - key] = 0;
    return config_find(json_object_get(config, part), dot + 1);
}

bool hr_file_number(const hr_weight_file *file, const char *key, double *out) {
    const json_t *configured = config_find(file->config, key);
    if (json_is_boolean(configured)) *out = json_is_true(configured);
    if (json_is_number(configured)) *out = json_number_value(configured);
    if (json_is_number(configured) || json_is_boolean(configured)) return true;
    const hr_file_value *value = hr_file_value_find(file, key);
    if (!value || value->type == HR_FILE_STRING || value->type == HR_FILE_ARRAY) return false;
    *out = number_load(value->type, value->bytes.at);
    return true;
}

static bool json_number_of(const json_t *value, const char *word, double *out) {
    if (word ? !json_is_string(value) : !json_is_number(value) && !json_is_boolean(value)) return false;
    *out = word                    ? strcmp(json_string_value(value), word) == 0
           : json_is_number(value) ? json_number_value(value)
                                   : json_is_true(value);
    return true;
}

bool hr_file_number_of(const hr_weight_file *file, const char *key, const char *word, int64_t i,
                       double *out) {
    const json_t *configured = config_find(file->config, key);
    if (json_is_array(configured)) return json_number_of(json_array_get(configured, (size_t)i), word, out);
    const hr_file_value *value = hr_file_value_find(file, key);
    if (word || !value || value->type != HR_FILE_ARRAY || hr_file_type_size(value->element) == 0 ||
        (uint64_t)i >= value->count)
        return false;
    *out = hr_file_element(value, (uint64_t)i);
    return true;
}

bool hr_file_string(const hr_weight_file *file, const char *key, hr_bytes *out) {
    const json_t *configured = config_find(file->config, key);
    if (json_is_array(configured)) configured = json_array_get(configured, 0);
    if (json_is_string(configured)) {
        *out = (hr_bytes){json_string_value(configured), json_string_length(configured)};
        return true;
    }
    const hr_file_value *value = hr_file_value_find(file, key);
    if (!value || value->type != HR_FILE_STRING) return false;
    *out = value->bytes;
    return true;
}

/* ---- layout ---- */

hr_status hr_weight_transpose(const hr_weight_file *file, hr_weight *weight) {
    enum { TILE = 16 }; /* a tile's lines, of both sides, stay in the L1 cache */
    if (weight->transposed) return HR_OK;
    if (weight->rank != 2 || weight->format->values != 1)
        return hr_fail(HR_BAD_INPUT, "%s: tensor %s is no matrix of numbers, whose axes could be exchanged",
                       file->path, weight->name);
    const size_t size = (size_t)weight->format->bytes, rows = (size_t)weight->shape[0],
                 columns = (size_t)weight->shape[1];
    unsigned char *to = weight->transposed = hr_memory_zeros(weight->bytes ? weight->bytes : 1, 1);
    if (!to) return hr_fail(HR_OUT_OF_MEMORY, "%s: no memory for tensor %s", file->path, weight->name);
    for (size_t top = 0; top < rows; top += TILE)
        for (size_t left = 0; left < columns; left += TILE)
            for (size_t i = top; i < rows && i < top + TILE; i++)
                for (size_t k = left; k < columns && k < left + TILE; k++)
                    memcpy(to + (k * rows + i) * size, weight->data + (i * columns + k) * size, size);
    weight->data = to;
    weight->shape[0] = (int64_t)columns;
    weight->shape[1] = (int64_t)rows;
    return HR_OK;
}

/* ---- opening ---- */

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_there(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

/* Maps one more file; its bytes in *out. */
static hr_status shard_map(hr_weight_file *file, const char *path, hr_mapping **out) {
    hr_mapping *grown = hr_memory_resize(file->mappings, (size_t)(file->mapping_count + 1) * sizeof *grown);
    if (!grown) return hr_fail(HR_OUT_OF_MEMORY, "%s: no memory for its table of files", path);
    file->mappings = grown;
    HR_TRY(hr_mapping_open(path, &grown[file->mapping_count]));
    *out = &grown[file->mapping_count++];
    return HR_OK;
}

static hr_status safetensors_open(hr_weight_file *file, const char *path) {
    hr_mapping *mapping;
    HR_TRY(shard_map(file, path, &mapping));
    return hr_safetensors_read(file, path, mapping->data, mapping->length);
}

static hr_status json_open(const char *path, json_t **out) {
    HR_TRY(hr_json_read_file(path, out));
    if (json_is_object(*out)) return HR_OK;
    json_decref(*out);
    *out = NULL;
    return hr_fail(HR_BAD_INPUT, "%s: is no JSON object", path);
}

/* Each file that `weight_map` names, once. */
static hr_status shards_open(hr_weight_file *file, const char *folder, const json_t *index) {
    json_t *map = json_object_get(index, "weight_map"), *seen = json_object(), *value;
    const char *tensor;
    hr_status status = HR_OK;
    json_object_foreach(map, tensor, value) {
        const char *name = json_string_value(value);
        char path[PATH_MOST];
        if (!name || strchr(name, '/'))
            status =
                hr_fail(HR_BAD_INPUT, "%s/model.safetensors.index.json: the file of %s is no name of a file",
                        folder, tensor);
        else if (!json_object_get(seen, name)) {
            snprintf(path, sizeof path, "%s/%s", folder, name);
            status = json_object_set_new(seen, name, json_true())
                         ? hr_fail(HR_OUT_OF_MEMORY, "%s: no memory for its table of files", folder)
                         : safetensors_open(file, path);
        }
        if (status != HR_OK) break;
    }
    json_decref(seen);
    return status;
}

/* tokenizer.json with tokenizer_config.json beside it, where they are there. */
static hr_status tokenizer_open(hr_weight_file *file, const char *folder) {
    char path[PATH_MOST];
    json_t *settings = NULL, *tokenizer;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (is_there(path)) HR_TRY(json_open(path, &settings));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    hr_status status = HR_OK;
    if (is_there(path)) {
        status = json_open(path, &tokenizer);
        if (status == HR_OK) {
            status = hr_tokenizer_json_read(file, path, tokenizer, settings);
            json_decref(tokenizer);
        }
    }
    json_decref(settings);
    return status;
}

static hr_status folder_open(hr_weight_file *file, const char *folder) {
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (is_there(path)) HR_TRY(json_open(path, &file->config));
    HR_TRY(tokenizer_open(file, folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (is_there(path)) return safetensors_open(file, path);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (!is_there(path))
        return hr_fail(HR_BAD_INPUT, "%s: holds neither model.safetensors nor model.safetensors.index.json",
                       folder);
    json_t *index;
    HR_TRY(json_open(path, &index));
    hr_status status = shards_open(file, folder, index);
    json_decref(index);
    return status;
}

/* One file, told by its first bytes. */
static hr_status path_open(hr_weight_file *file, const char *path) {
    if (is_folder(path)) {
        file->kind = HR_WEIGHTS_SAFETENSORS;
        return folder_open(file, path);
    }
    hr_mapping *mapping;
    HR_TRY(shard_map(file, path, &mapping));
    if (mapping->length >= 4 && memcmp(mapping->data, "GGUF", 4) == 0) {
        file->kind = HR_WEIGHTS_GGUF;
        return hr_gguf_read(file, mapping->data, mapping->length);
    }
    file->kind = HR_WEIGHTS_SAFETENSORS;
    return hr_safetensors_read(file, path, mapping->data, mapping->length);
}

hr_status hr_weight_file_open(const char *path, hr_weight_file **out) {
    hr_weight_file *file = hr_memory_zeros(1, sizeof *file);
    if (!file) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while opening %s", path);
    hr_status status = hr_arena_create(ARENA_SIZE, &file->arena);
    if (status == HR_OK) {
        file->path = hr_arena_copy(file->arena, path, strlen(path));
        status = path_open(file, path);
    }
    if (status == HR_OK)
        *out = file;
    else
        hr_weight_file_close(file);
    return status;
}

void hr_weight_file_close(hr_weight_file *file) {
    if (!file) return;
    for (int i = 0; i < file->mapping_count; i++)
        hr_mapping_close(&file->mappings[i]);
    for (int64_t i = 0; i < file->weight_count; i++)
        free(file->weights[i].transposed);
    free(file->mappings);
    json_decref(file->config);
    hr_arena_destroy(file->arena);
    free(file);
}
