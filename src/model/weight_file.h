/* A file of weights, opened: named tensors, and what the file says of the model.
 *
 * In: a path of a GGUF file, a safetensors file, or a folder of those; hostile until proven. Out: tensors
 * described as blocks where they lie in the mapped file, and values by name. Every offset has been checked
 * against the file when opening succeeds. gguf.c and safetensors.c read; this header is what they fill.
 */
#ifndef HR_MODEL_WEIGHT_FILE_H
#define HR_MODEL_WEIGHT_FILE_H

#include "base/arena.h"
#include "base/mapping.h"

#include <jansson.h>

/* ---- how weights are stored ---- */

#define HR_BLOCK_VIEWS_MOST 3

typedef struct hr_block_format {
    const char *name;
    int number; /* in GGUF */
    int values, bytes;
    int view_count;
    hr_dtype views[HR_BLOCK_VIEWS_MOST]; /* as what a block's bytes are given to kernels */
    const char *form; /* of models/blocks.hr, in which place_NAME lays it out; NULL: not in blocks */
} hr_block_format;

/* NULL where this number, or name, is none that is known. */
const hr_block_format *hr_block_format_numbered(int64_t number);
const hr_block_format *hr_block_format_named(const char *name);

#define HR_WEIGHT_RANK_MOST 4

typedef struct hr_weight {
    const char *name;
    const hr_block_format *format;
    int rank;
    int64_t shape[HR_WEIGHT_RANK_MOST]; /* slowest first, in values; the last is whole blocks */
    const unsigned char *data;          /* in the mapped file, or where a model put it */
    size_t bytes;
    void *transposed; /* memory of its own, where a family reads the matrix with its axes exchanged; else NULL
                       */
} hr_weight;

/* An array over all bytes of a weight, as elements of one dtype: the weight's axes, the last one counting
 * blocks, then the elements of a block, where there are several. */
typedef struct hr_weight_view {
    int64_t shape[HR_WEIGHT_RANK_MOST + 1];
    hr_array array; /* points into this struct */
} hr_weight_view;

void hr_weight_view_make(const hr_weight *weight, int view, hr_weight_view *out);

/* ---- what a file says of the model ---- */

typedef enum hr_file_type {
    HR_FILE_U8,
    HR_FILE_I8,
    HR_FILE_U16,
    HR_FILE_I16,
    HR_FILE_U32,
    HR_FILE_I32,
    HR_FILE_F32,
    HR_FILE_BOOL,
    HR_FILE_STRING,
    HR_FILE_ARRAY,
    HR_FILE_U64,
    HR_FILE_I64,
    HR_FILE_F64,
    HR_FILE_TYPES
} hr_file_type;

/* Bytes of a value; 0 for a STRING or an ARRAY, which say how long they are. */
size_t hr_file_type_size(hr_file_type type);

/* Bytes in the mapped file, not terminated. */
typedef struct hr_bytes {
    const char *at;
    size_t length;
} hr_bytes;

typedef struct hr_file_value {
    const char *key;
    hr_file_type type, element; /* element: of an ARRAY */
    uint64_t count;             /* elements of an ARRAY */
    hr_bytes bytes;             /* the value where it lies: a STRING's letters, an ARRAY's elements */
} hr_file_value;

/* ---- the file ---- */

typedef enum hr_weight_kind { HR_WEIGHTS_GGUF, HR_WEIGHTS_SAFETENSORS } hr_weight_kind;

typedef struct hr_weight_file {
    const char *path;
    hr_weight_kind kind;
    hr_arena *arena;      /* names and tables */
    hr_mapping *mappings; /* one a shard */
    int mapping_count;
    hr_weight *weights;
    int64_t weight_count;
    hr_file_value *values; /* GGUF's pairs, or of tokenizer.json what they would be */
    int64_t value_count;
    json_t *config; /* safetensors: config.json beside it; NULL where there is none */
} hr_weight_file;

hr_status hr_weight_file_open(const char *path, hr_weight_file **out);
void hr_weight_file_close(hr_weight_file *file);
hr_weight *hr_weight_find(const hr_weight_file *file, const char *name);
const hr_file_value *hr_file_value_find(const hr_weight_file *file, const char *key);
/* A number by its name in GGUF or in config.json, `a.b` being a key inside of an object. False where there is
 * no number of this name. */
bool hr_file_number(const hr_weight_file *file, const char *key, double *out);
/* The same of element `i` of an array of numbers, or of whether element `i` of an array of strings is `word`.
 */
bool hr_file_number_of(const hr_weight_file *file, const char *key, const char *word, int64_t i, double *out);
/* A string; false where there is none of this name. */
bool hr_file_string(const hr_weight_file *file, const char *key, hr_bytes *out);
/* Element `i` of an ARRAY of numbers. */
double hr_file_element(const hr_file_value *value, uint64_t i);
/* Walks an ARRAY of strings: `at` begins with value->bytes.at. */
hr_bytes hr_file_next_string(const char **at);

/* ---- readers ---- */

/* Adds what the bytes of one file hold. `file->path` is for messages. */
hr_status hr_gguf_read(hr_weight_file *file, const unsigned char *data, size_t length);
hr_status hr_safetensors_read(hr_weight_file *file, const char *path, const unsigned char *data,
                              size_t length);
/* Exchanges the axes of a matrix, once: its bytes are laid out anew. HR_BAD_INPUT where it is in blocks. */
hr_status hr_weight_transpose(const hr_weight_file *file, hr_weight *weight);
/* HR_BAD_INPUT where the weight is not whole blocks or does not lie in `length` bytes from `start`. */
hr_status hr_weight_place(const hr_weight_file *file, hr_weight *weight, const unsigned char *data,
                          size_t length, uint64_t start, uint64_t offset);

#endif
