/* NumPy's .npy files: in mapped, out whole.
 *
 * In: a path, hostile until proven an array. Out: an hr_array over a private mapping; or, the other way, a
 * file that np.load reads. A file is magic, version, the length of a header and the header: a Python
 * dictionary of 'descr', 'fortran_order' and 'shape'; then the elements.
 */
#include "base/dtype.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANK_MAX   32
#define HEADER_MAX (1u << 20) /* NumPy itself reads 10,000 bytes without being asked twice */
#define DESCR_MAX  32

struct hr_npy {
    hr_handle handle;
    hr_mapping mapping;
    hr_array array;
    int64_t shape[RANK_MAX], strides[RANK_MAX];
};

/* What a header says. */
typedef struct npy_header {
    char descr[DESCR_MAX];
    bool fortran_order;
    int rank;
    int64_t shape[RANK_MAX];
    bool has_descr, has_order, has_shape;
} npy_header;

/* The text of a header while it is read. */
typedef struct npy_reader {
    const char *path, *at, *end;
} npy_reader;

/* Element types by the part of 'descr' after the byte order. */
typedef enum npy_meaning {
    PLAIN,   /* NumPy's own */
    NAMED,   /* NumPy has no such type, but these elements can be no other of ours */
    CARRIED, /* they mean `dtype` only where the kernel declares it */
} npy_meaning;

static const struct {
    const char *name;
    hr_dtype dtype;
    npy_meaning meaning;
} npy_types[] = {
    {"f8", HR_F64, PLAIN},
    {"f4", HR_F32, PLAIN},
    {"f2", HR_F16, PLAIN},
    {"i8", HR_I64, PLAIN},
    {"i4", HR_I32, PLAIN},
    {"i2", HR_I16, PLAIN},
    {"i1", HR_I8, PLAIN},
    {"V2", HR_BF16, NAMED},
    {"u2", HR_BF16, CARRIED},
    {"bfloat16", HR_BF16, NAMED},
    {"V1", HR_F8E4M3, CARRIED},
    {"V1", HR_F8E5M2, CARRIED},
    {"f1", HR_F8E4M3, CARRIED}, /* ml_dtypes' float8_e4m3fn and float8_e5m2, by their kind and size */
    {"f1", HR_F8E5M2, CARRIED},
    {"float8_e4m3fn", HR_F8E4M3, NAMED},
    {"float8_e5m2", HR_F8E5M2, NAMED},
    {"u1", HR_F8E4M3, CARRIED},
    {"u1", HR_F8E5M2, CARRIED},
    {"u1", HR_U8, PLAIN},
    {"b1", HR_BOOL, PLAIN},
};
#define NPY_TYPES (sizeof npy_types / sizeof *npy_types)

/* ---- the header's dictionary ---- */

static hr_status header_broken(const npy_reader *reader, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s: its .npy header is broken: %s; write it again with np.save",
                   reader->path, what);
}

static void skip_space(npy_reader *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
}

static bool take(npy_reader *reader, char c) {
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != c) return false;
    reader->at++;
    return true;
}

/* A Python string without escapes. */
static hr_status read_string(npy_reader *reader, char *out, size_t size) {
    skip_space(reader);
    char quote = reader->at < reader->end ? *reader->at : 0;
    if (quote != '\'' && quote != '"') return header_broken(reader, "a quoted name was expected");
    const char *start = ++reader->at;
    while (reader->at < reader->end && *reader->at != quote)
        reader->at++;
    if (reader->at == reader->end) return header_broken(reader, "a string does not end");
    size_t length = (size_t)(reader->at++ - start);
    if (length >= size || memchr(start, 0, length))
        return header_broken(reader, "a string is longer than any that belongs there");
    memcpy(out, start, length);
    out[length] = 0;
    return HR_OK;
}

static hr_status read_whole(npy_reader *reader, int64_t *out) {
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == '-')
        return header_broken(reader, "a negative number stands in 'shape'");
    const char *start = reader->at;
    int64_t value = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *reader->at - '0', &value))
            return header_broken(reader, "a number in 'shape' is too large");
    if (reader->at == start) return header_broken(reader, "'shape' is no tuple of whole numbers");
    if (reader->at < reader->end && *reader->at == 'L') reader->at++; /* as Python 2 wrote them */
    *out = value;
    return HR_OK;
}

static hr_status read_shape(npy_reader *reader, npy_header *header) {
    if (!take(reader, '(')) return header_broken(reader, "'shape' is no tuple");
    header->rank = 0;
    while (!take(reader, ')')) {
        if (header->rank == RANK_MAX) return header_broken(reader, "it has more than 32 axes");
        HR_TRY(read_whole(reader, &header->shape[header->rank++]));
        if (take(reader, ',')) continue;
        if (!take(reader, ')')) return header_broken(reader, "'shape' does not end");
        break;
    }
    header->has_shape = true;
    return HR_OK;
}

static hr_status read_order(npy_reader *reader, npy_header *header) {
    skip_space(reader);
    size_t left = (size_t)(reader->end - reader->at);
    header->fortran_order = left >= 4 && memcmp(reader->at, "True", 4) == 0;
    if (!header->fortran_order && !(left >= 5 && memcmp(reader->at, "False", 5) == 0))
        return header_broken(reader, "'fortran_order' is neither True nor False");
    reader->at += header->fortran_order ? 4 : 5;
    header->has_order = true;
    return HR_OK;
}

static hr_status read_descr(npy_reader *reader, npy_header *header) {
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == '[')
        return hr_fail(HR_BAD_INPUT, "%s: holds records of several fields; save each field as its own array",
                       reader->path);
    header->has_descr = true;
    return read_string(reader, header->descr, sizeof header->descr);
}

static hr_status read_header(npy_reader *reader, npy_header *header) {
    char key[DESCR_MAX];
    if (!take(reader, '{')) return header_broken(reader, "it is no dictionary");
    while (!take(reader, '}')) {
        HR_TRY(read_string(reader, key, sizeof key));
        if (!take(reader, ':')) return header_broken(reader, "a colon is missing");
        if (strcmp(key, "descr") == 0 && !header->has_descr)
            HR_TRY(read_descr(reader, header));
        else if (strcmp(key, "fortran_order") == 0 && !header->has_order)
            HR_TRY(read_order(reader, header));
        else if (strcmp(key, "shape") == 0 && !header->has_shape)
            HR_TRY(read_shape(reader, header));
        else
            return header_broken(reader, "a key is repeated or none of 'descr', 'fortran_order', 'shape'");
        if (take(reader, ',')) continue;
        if (!take(reader, '}')) return header_broken(reader, "it does not end");
        break;
    }
    if (!header->has_descr || !header->has_order || !header->has_shape)
        return header_broken(reader, "one of 'descr', 'fortran_order' and 'shape' is missing");
    return HR_OK;
}

/* ---- reading ---- */

/* The dtype that `descr` means to a kernel that declares `wanted`. */
static hr_status npy_type(const char *path, const char *descr, hr_dtype wanted, hr_dtype *out) {
    bool ordered = descr[0] && strchr("<>=|", descr[0]);
    const char *name = ordered ? descr + 1 : descr, *carries = NULL;
    if (strcmp(name, "O") == 0)
        return hr_fail(HR_BAD_INPUT,
                       "%s: holds Python objects; convert it to numbers, as in "
                       "np.save(path, array.astype(np.float32))",
                       path);
    for (size_t i = 0; i < NPY_TYPES; i++) {
        if (strcmp(npy_types[i].name, name) != 0) continue;
        hr_dtype dtype = npy_types[i].dtype;
        bool named = wanted == HR_DTYPE_COUNT && npy_types[i].meaning == NAMED;
        if (npy_types[i].meaning != PLAIN && dtype != wanted && !named) {
            carries = hr_dtype_name(dtype);
            continue;
        }
        if (descr[0] == '>' && hr_dtype_size(dtype) > 1)
            return hr_fail(HR_BAD_INPUT,
                           "%s: its elements are big-endian ('%s'); convert it, as in "
                           "np.save(path, array.astype('<%s'))",
                           path, descr, name);
        *out = dtype;
        return HR_OK;
    }
    if (carries && wanted == HR_DTYPE_COUNT)
        return hr_fail(HR_BAD_INPUT, "%s: its elements ('%s') do not say what they are: they could carry %s",
                       path, descr, carries);
    if (carries)
        return hr_fail(
            HR_BAD_INPUT, "%s: its elements are raw ('%s') and could carry %s, but %s is wanted here", path,
            descr, carries, (int)wanted < HR_DTYPE_COUNT ? hr_dtype_name(wanted) : "no such dtype");
    return hr_fail(HR_BAD_INPUT,
                   "%s: its elements are '%s'; possible are <f8 <f4 <f2 <i8 <i4 <i2 |i1 |u1 |b1, "
                   "and V2 or u2 for bf16, V1 or u1 for f8",
                   path, descr);
}

/* Bytes of the elements, or false where they overflow. */
static bool npy_bytes(const npy_header *header, size_t element, size_t *out) {
    size_t bytes = element;
    bool overflow = false;
    for (int axis = 0; axis < header->rank; axis++) {
        if (header->shape[axis] == 0) {
            *out = 0;
            return true;
        }
        overflow |= __builtin_mul_overflow(bytes, (size_t)header->shape[axis], &bytes);
    }
    *out = bytes;
    return !overflow && bytes <= (size_t)PTRDIFF_MAX;
}

static void npy_strides(int rank, const int64_t *shape, bool fortran_order, int64_t *strides) {
    int64_t stride = 1;
    for (int i = 0; i < rank; i++) {
        int axis = fortran_order ? i : rank - 1 - i;
        strides[axis] = stride;
        /* An empty array's other axes may be of any length: its strides may wrap, nothing follows them. */
        (void)__builtin_mul_overflow(stride, shape[axis] ? shape[axis] : 1, &stride);
    }
}

static hr_status npy_read(const char *path, hr_dtype wanted, hr_npy *npy) {
    const unsigned char *bytes = npy->mapping.data;
    if (npy->mapping.length < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return hr_fail(HR_BAD_INPUT, "%s: is no .npy file; write it with np.save", path);
    int major = bytes[6];
    if (major < 1 || major > 3 || bytes[7] != 0)
        return hr_fail(HR_BAD_INPUT, "%s: .npy version %d.%d is not known; 1.0, 2.0 and 3.0 are", path, major,
                       bytes[7]);
    size_t start = major == 1 ? 10 : 12;
    if (npy->mapping.length < start) return hr_fail(HR_BAD_INPUT, "%s: ends inside its header", path);
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > HEADER_MAX)
        return hr_fail(HR_BAD_INPUT, "%s: its header claims %zu bytes; none of an array is so long", path,
                       length);
    if (npy->mapping.length - start < length)
        return hr_fail(HR_BAD_INPUT, "%s: ends inside its header", path);

    npy_header header = {0};
    npy_reader reader = {path, (const char *)bytes + start, (const char *)bytes + start + length};
    HR_TRY(read_header(&reader, &header));
    hr_dtype dtype = HR_F32;
    HR_TRY(npy_type(path, header.descr, wanted, &dtype));
    size_t element = hr_dtype_size(dtype), offset = start + length, need;
    if (!npy_bytes(&header, element, &need))
        return hr_fail(HR_BAD_INPUT, "%s: its shape has more elements than memory has places", path);
    if (npy->mapping.length - offset < need)
        return hr_fail(HR_BAD_INPUT, "%s: is cut short: its shape needs %zu bytes of elements, %zu are there",
                       path, need, npy->mapping.length - offset);
    if (offset % element != 0)
        return hr_fail(HR_BAD_INPUT,
                       "%s: its elements begin at byte %zu, which is no multiple of their %zu bytes; "
                       "write it again with np.save",
                       path, offset, element);
    memcpy(npy->shape, header.shape, sizeof npy->shape);
    npy_strides(header.rank, npy->shape, header.fortran_order, npy->strides);
    npy->array = (hr_array){
        sizeof npy->array, (char *)npy->mapping.data + offset, dtype, header.rank, npy->shape, npy->strides};
    return HR_OK;
}

hr_status hr_npy_open(const char *path, hr_dtype wanted, hr_npy **out) {
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_npy *npy = calloc(1, sizeof *npy);
    if (!npy) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while opening %s", path);
    npy->handle.kind = HR_HANDLE_NPY;
    hr_status status = hr_mapping_open(path, &npy->mapping);
    if (status == HR_OK) status = npy_read(path, wanted, npy);
    if (status == HR_OK)
        *out = npy;
    else
        hr_npy_destroy(npy);
    return status;
}

const hr_array *hr_npy_array(const hr_npy *npy) {
    if (hr_handle_check(npy, HR_HANDLE_NPY, __func__) != HR_OK) return NULL;
    return &npy->array;
}

hr_status hr_npy_scalar(const hr_npy *npy, double *out) {
    HR_TRY(hr_handle_check(npy, HR_HANDLE_NPY, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const hr_array *array = &npy->array;
    if (array->rank > 0)
        return hr_fail(HR_BAD_INPUT,
                       "an array of %d %s is wanted as a scalar: give one without axes (np.save of x[()])",
                       array->rank, array->rank == 1 ? "axis" : "axes");
    *out = hr_dtype_load(array->dtype, array->data, 0);
    if (array->dtype != HR_I64) return HR_OK;
    int64_t whole = hr_dtype_load_whole(HR_I64, array->data, 0);
    if (*out >= 0x1p63 || (int64_t)*out != whole)
        return hr_fail(HR_BAD_INPUT, "%lld is handed over as an f64, which does not hold this whole number",
                       (long long)whole);
    return HR_OK;
}

void hr_npy_destroy(hr_npy *npy) {
    if (!npy || hr_handle_check(npy, HR_HANDLE_NPY, __func__) != HR_OK) return;
    hr_mapping_close(&npy->mapping);
    hr_handle_free(npy);
}

hr_status hr_npy_reset(hr_npy *npy) {
    HR_TRY(hr_handle_check(npy, HR_HANDLE_NPY, __func__));
    /* a private page that was written to is dropped; the next access finds the file's */
    if (madvise(npy->mapping.data, npy->mapping.length, MADV_DONTNEED) != 0)
        return hr_fail(HR_IO, "cannot bring back the elements of a mapped file: %s", strerror(errno));
    return HR_OK;
}

/* ---- writing ---- */

static const char *npy_descr(hr_dtype dtype, bool as_unsigned) {
    switch (dtype) {
    case HR_F64:
        return "<f8";
    case HR_F32:
        return "<f4";
    case HR_F16:
        return "<f2";
    case HR_BF16:
        return as_unsigned ? "<u2" : "|V2";
    case HR_F8E4M3:
    case HR_F8E5M2:
        return as_unsigned ? "|u1" : "|V1";
    case HR_I64:
        return "<i8";
    case HR_I32:
        return "<i4";
    case HR_I16:
        return "<i2";
    case HR_I8:
        return "|i1";
    case HR_U8:
        return "|u1";
    case HR_BOOL:
        return "|b1";
    default:
        return NULL;
    }
}

/* Magic, version 1.0, length and dictionary, padded so that the elements begin on a multiple of 64 bytes. */
static size_t npy_format_header(const hr_array *array, const char *descr, char out[1024]) {
    char *at = out + 10;
    at += sprintf(at, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int axis = 0; axis < array->rank; axis++)
        at += sprintf(at, "%s%" PRId64, axis ? ", " : "", array->shape[axis]);
    at += sprintf(at, "%s), }", array->rank == 1 ? "," : "");
    while ((at + 1 - out) % 64 != 0)
        *at++ = ' ';
    *at++ = '\n';
    size_t length = (size_t)(at - out) - 10;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(length & 255);
    out[9] = (char)(length >> 8);
    return length + 10;
}

static bool array_is_dense(const hr_array *array) {
    int64_t dense[RANK_MAX];
    if (!array->strides) return true;
    npy_strides(array->rank, array->shape, false, dense);
    for (int axis = 0; axis < array->rank; axis++)
        if (array->shape[axis] > 1 && array->strides[axis] != dense[axis]) return false;
    return true;
}

/* Elements with gaps or in another order, in row-major order, a buffer at a time. */
static hr_status npy_append_strided(hr_file *file, const hr_array *array, size_t element) {
    char buffer[1 << 14];
    int64_t at[RANK_MAX] = {0}, offset = 0;
    size_t filled = 0;
    for (int axis = 0; axis >= 0;) {
        memcpy(buffer + filled, (const char *)array->data + offset * (int64_t)element, element);
        filled += element;
        if (filled == sizeof buffer) {
            HR_TRY(hr_file_append(file, buffer, filled));
            filled = 0;
        }
        for (axis = array->rank - 1; axis >= 0; axis--) { /* to the next element */
            offset += array->strides[axis];
            if (++at[axis] < array->shape[axis]) break;
            offset -= array->strides[axis] * array->shape[axis];
            at[axis] = 0;
        }
    }
    return hr_file_append(file, buffer, filled);
}

hr_status hr_npy_save(const char *path, const hr_array *array, bool as_unsigned) {
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(array, "array", __func__));
    char header[1024];
    const char *descr = npy_descr(array->dtype, as_unsigned);
    if (!descr || array->rank < 0 || array->rank > RANK_MAX)
        return hr_fail(HR_BAD_INPUT, "%s: an array of dtype %d and rank %d cannot be written", path,
                       (int)array->dtype, array->rank);
    size_t element = hr_dtype_size(array->dtype), bytes = element;
    for (int axis = 0; axis < array->rank; axis++)
        bytes *= (size_t)array->shape[axis];
    size_t length = npy_format_header(array, descr, header);
    hr_file file;
    HR_TRY(hr_file_begin(path, &file));
    hr_status status = hr_file_append(&file, header, length);
    if (status == HR_OK && bytes > 0)
        status = array_is_dense(array) ? hr_file_append(&file, array->data, bytes)
                                       : npy_append_strided(&file, array, element);
    if (status == HR_OK) return hr_file_commit(&file);
    hr_file_abandon(&file);
    return status;
}
