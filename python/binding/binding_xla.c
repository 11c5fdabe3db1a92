/* Kernels as custom calls of XLA, which JAX compiles into its programs, on a CPU or a GPU.
 *
 * In: a call frame with the buffers of parameters and results in the device's memory, and as attributes the
 * values of scalars that are no buffers and a kernel for each device. Out: one execution, on a thread of
 * XLA's and without Python; on a GPU on XLA's stream. The structures are those of XLA's typed FFI, version 0;
 * they only grow at their ends.
 */
#include "binding.h"

#include <string.h>

/* ---- XLA's side, as far as it is used ---- */

enum { XLA_EXTENSION_METADATA = 1, XLA_STAGE_EXECUTE = 3, XLA_API_MAJOR = 0, XLA_API_MINOR = 1 };
enum { XLA_INVALID_ARGUMENT = 3, XLA_INTERNAL = 13 };

typedef struct xla_extension {
    size_t size;
    int32_t kind;
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t size;
    xla_extension *extensions;
    int32_t major, minor;
} xla_version;

typedef struct xla_metadata {
    xla_extension base;
    struct {
        size_t size;
        xla_version version;
        uint32_t traits;
        int64_t state;
    } * out;
} xla_metadata;

typedef struct xla_error_arguments {
    size_t size;
    xla_extension *extensions;
    const char *message;
    int32_t code;
} xla_error_arguments;

typedef struct xla_stream {
    size_t size;
    xla_extension *extensions;
    void *context, *stream;
} xla_stream;

typedef struct xla_ordinal {
    size_t size;
    xla_extension *extensions;
    void *context;
    int32_t device;
} xla_ordinal;

typedef struct xla_api {
    size_t size;
    xla_extension *extensions;
    xla_version version;
    const void *internal;
    void *(*error_create)(xla_error_arguments *arguments);
    void *before_stream[3];
    void *(*stream_get)(xla_stream *arguments);
    void *before_ordinal[12];
    void *(*ordinal_get)(xla_ordinal *arguments);
} xla_api;

typedef struct xla_buffer {
    size_t size;
    xla_extension *extensions;
    int32_t dtype;
    void *data;
    int64_t rank;
    int64_t *shape;
} xla_buffer;

typedef struct xla_buffers {
    size_t size;
    xla_extension *extensions;
    int64_t count;
    int32_t *types;
    xla_buffer **list;
} xla_buffers;

typedef struct xla_attribute { /* a list of numbers */
    int32_t dtype;
    size_t count;
    void *data;
} xla_attribute;

typedef struct xla_attributes {
    size_t size;
    xla_extension *extensions;
    int64_t count;
    int32_t *types;
    const void *names;
    xla_attribute **list;
} xla_attributes;

typedef struct xla_frame {
    size_t size;
    xla_extension *extensions;
    const xla_api *api;
    void *context;
    int32_t stage;
    xla_buffers arguments, results;
    xla_attributes attributes;
} xla_frame;

static const struct {
    int32_t xla;
    hr_dtype dtype;
} xla_dtypes[] = {{1, HR_BOOL}, {2, HR_I8},   {3, HR_I16},  {4, HR_I32},   {5, HR_I64},     {6, HR_U8},
                  {10, HR_F16}, {11, HR_F32}, {12, HR_F64}, {16, HR_BF16}, {20, HR_F8E4M3}, {19, HR_F8E5M2}};

/* ---- the call ---- */

/* By name, as XLA sorts them. `fixed`: a value for each scalar; `given`: 1 where that is meant, 0 where the
 * scalar is a buffer; `kernels`: the address of one for each device. */
enum { ATTRIBUTE_FIXED, ATTRIBUTE_GIVEN, ATTRIBUTE_KERNELS, ATTRIBUTES };

static void *fail(const xla_frame *frame, int32_t code, const char *message) {
    xla_error_arguments arguments = {.size = sizeof arguments, .message = message, .code = code};
    return frame->api->error_create(&arguments);
}

static bool buffer_read(const xla_buffer *buffer, hr_array *out) {
    *out = (hr_array){
        .size = sizeof *out, .data = buffer->data, .rank = (int)buffer->rank, .shape = buffer->shape};
    for (size_t i = 0; i < sizeof xla_dtypes / sizeof *xla_dtypes; i++)
        if (xla_dtypes[i].xla == buffer->dtype) {
            out->dtype = xla_dtypes[i].dtype;
            return true;
        }
    return false;
}

/* A scalar's value, where it is an attribute. */
static bool scalar_read(const xla_frame *frame, size_t scalar, hr_array *out) {
    const xla_attribute *fixed = frame->attributes.list[ATTRIBUTE_FIXED];
    const xla_attribute *given = frame->attributes.list[ATTRIBUTE_GIVEN];
    if (scalar >= fixed->count || scalar >= given->count || !((int64_t *)given->data)[scalar]) return false;
    *out = (hr_array){.size = sizeof *out, .data = (double *)fixed->data + scalar, .dtype = HR_F64};
    return true;
}

/* XLA's results are the inout arrays, which share the memory of their parameters, and then the kernel's. */
static bool buffers_read(const xla_frame *frame, const hr_kernel *kernel, hr_array *arrays) {
    int64_t given = 0, made = 0;
    size_t scalars = 0;
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
        hr_argument argument;
        if (hr_kernel_argument(kernel, i, &argument) != HR_OK) return false;
        if (argument.role == HR_ARGUMENT_INPUT && argument.rank == 0 &&
            scalar_read(frame, scalars++, &arrays[i]))
            continue;
        const xla_buffers *from = argument.role == HR_ARGUMENT_INPUT ? &frame->arguments : &frame->results;
        int64_t *at = argument.role == HR_ARGUMENT_INPUT ? &given : &made;
        if (*at >= from->count || !buffer_read(from->list[(*at)++], &arrays[i])) return false;
        given += argument.role == HR_ARGUMENT_INOUT;
    }
    return true;
}

static hr_kernel *kernel_for(const xla_frame *frame, int32_t device) {
    const xla_attribute *kernels = frame->attributes.list[ATTRIBUTE_KERNELS];
    hr_kernel *kernel = NULL;
    if (device >= 0 && (size_t)device < kernels->count)
        memcpy(&kernel, (int64_t *)kernels->data + device, sizeof kernel);
    return kernel;
}

static void *frame_execute(const xla_frame *frame, int32_t device, void *stream) {
    hr_array arrays[ARGUMENT_MOST];
    if (frame->attributes.count != ATTRIBUTES)
        return fail(frame, XLA_INTERNAL, "headroom: the call names no kernel");
    hr_kernel *kernel = kernel_for(frame, device);
    if (!kernel) return fail(frame, XLA_INVALID_ARGUMENT, "headroom: the call has no kernel for this device");
    if (!buffers_read(frame, kernel, arrays))
        return fail(frame, XLA_INVALID_ARGUMENT,
                    "headroom: the buffers are not those of the kernel's arguments");
    hr_status status = hr_kernel_execute(kernel, arrays, hr_kernel_argument_count(kernel), stream);
    return status == HR_OK ? NULL : fail(frame, XLA_INVALID_ARGUMENT, hr_last_error());
}

/* On XLA's stream; an XLA that does not say which device it is has one. */
static void *frame_execute_cuda(const xla_frame *frame) {
    const xla_api *api = frame->api;
    xla_stream stream = {.size = sizeof stream, .context = frame->context};
    xla_ordinal ordinal = {.size = sizeof ordinal, .context = frame->context};
    void *error = api->stream_get(&stream);
    if (!error && api->size >= sizeof *api) error = api->ordinal_get(&ordinal);
    return error ? error : frame_execute(frame, ordinal.device, stream.stream);
}

/* XLA asks first for the version that this is written for. */
static bool version_told(const xla_frame *frame) {
    if (!frame->extensions || frame->extensions->kind != XLA_EXTENSION_METADATA) return false;
    xla_metadata *metadata = (xla_metadata *)(void *)frame->extensions;
    metadata->out->version.major = XLA_API_MAJOR;
    metadata->out->version.minor = XLA_API_MINOR;
    return true;
}

static void *handler(xla_frame *frame) {
    if (version_told(frame) || frame->stage != XLA_STAGE_EXECUTE) return NULL;
    return frame_execute(frame, 0, NULL);
}

static void *handler_cuda(xla_frame *frame) {
    if (version_told(frame) || frame->stage != XLA_STAGE_EXECUTE) return NULL;
    return frame_execute_cuda(frame);
}

PyObject *binding_xla_handler(PyObject *module, PyObject *platform) {
    (void)module;
    bool is_cuda = PyUnicode_Check(platform) && PyUnicode_CompareWithASCIIString(platform, "CUDA") == 0;
    return PyCapsule_New(is_cuda ? (void *)handler_cuda : (void *)handler, NULL, NULL);
}
