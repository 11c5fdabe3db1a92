/* The module headroom._headroom: the C API as Python objects.
 *
 * In: Python's arguments. Out: Python's results, and an exception for each hr_status. It is built for the
 * stable ABI, so one file serves Python 3.11 and all later ones. What happens once a shape (words, defaults,
 * frameworks) is in the package's Python; what happens at every call is here.
 */
#ifndef HEADROOM_BINDING_H
#define HEADROOM_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <headroom.h>

#define STATUS_COUNT  (HR_INTERNAL + 1)
#define DEVICE_HOST   (-1) /* instead of a GPU's number */
#define ARGUMENT_MOST 128  /* of a kernel, as hr_kernel_execute has it */
#define AXIS_MOST     32

/* Attributes that are asked of arrays and scalars. */
#define BINDING_NAMES(X)                                                                                     \
    X(data_ptr)                                                                                              \
    X(shape)                                                                                                 \
    X(stride) X(dtype) X(view) X(requires_grad) X(is_cpu) X(get_device) X(__dlpack__) X(__dlpack_device__)

/* ---- the module ---- */

typedef struct binding {
    PyObject *error;                /* headroom.Error, which the others are derived from */
    PyObject *dtype_error;          /* headroom.DtypeError: also a TypeError */
    PyObject *errors[STATUS_COUNT]; /* by hr_status; none for HR_OK */
    PyObject *adapters;             /* dict: an array's type -> its Adapter */
    PyObject *adapter_make;         /* callable: an array's type -> a new Adapter; NULL until it is given */
    PyTypeObject *adapter_type, *device_type, *kernel_type, *run_type, *diagnosis_type, *recording_type,
        *fixed_type;
#define BINDING_NAME(name) PyObject *name_##name;
    BINDING_NAMES(BINDING_NAME)
#undef BINDING_NAME
} binding;

/* Raises the exception of `status` with this thread's sentence; NULL, to be returned. */
PyObject *binding_fail(const binding *binding, hr_status status);
/* None, or the exception. */
PyObject *binding_none(const binding *binding, hr_status status);
/* Takes over a text of the library's; NULL and an exception where there is no memory. */
PyObject *binding_text(char *text);

/* ---- arrays ---- */

/* How an array's type says where its elements are. */
typedef enum reader {
    READER_BUFFER,  /* the buffer protocol; and `view` for what that has no format of, as bf16 */
    READER_TENSOR,  /* PyTorch's methods: data_ptr, shape, stride, dtype */
    READER_DLPACK,  /* __dlpack__ */
    READER_REDIRECT /* none: the package knows another way to call a kernel with it */
} reader;

/* What the package says of a type of arrays. */
typedef struct adapter {
    PyObject_HEAD reader reader;
    PyObject *empty;    /* callable: (like, shape, dtype) -> an array of the same framework and device */
    PyObject *dtypes;   /* tuple by hr_dtype: the framework's dtype, or None */
    PyObject *codes;    /* dict: the framework's dtype -> hr_dtype */
    PyObject *stream;   /* callable: a GPU's number -> the address of its current stream; or None */
    PyObject *redirect; /* callable: whether a tensor that requires a gradient goes another way; or None */
} adapter;

/* An argument that has been read. Its memory lives as long as `held` or `view` and the object do. */
typedef struct operand {
    hr_array array;   /* its shape and strides are those below, or NULL */
    PyObject *object; /* borrowed */
    adapter *adapter; /* borrowed; NULL for a scalar and for what is not given */
    PyObject *held;
    Py_buffer view;
    int device; /* DEVICE_HOST or a GPU's number */
    bool viewed, read_only, redirected;
    union {
        double real;
        int64_t whole;
    } scalar;
    int64_t shape[AXIS_MOST], strides[AXIS_MOST];
} operand;

/* Reads an array; `name` is for messages. False and an exception where it is none, and nothing is held. */
bool operand_read(binding *binding, const char *name, PyObject *object, operand *out);
/* A number, or an array without axes; None is no value. */
bool operand_read_scalar(const char *name, PyObject *object, operand *out);
void operand_release(operand *operand);
/* The Adapter of a type, borrowed; NULL and an exception where there is none. */
adapter *adapter_of(binding *binding, PyTypeObject *type);
/* The framework's current stream of a GPU; NULL for the host, or where the framework has none. */
bool adapter_stream(const adapter *adapter, int device, void **out);

/* ---- devices and kernels ---- */

typedef struct device_object {
    PyObject_HEAD binding *binding;
    hr_device *device;
    int number; /* DEVICE_HOST or the GPU's */
} device_object;

/* What a call with arrays of these dtypes and shapes gives. */
typedef struct signature {
    uint64_t hash;
    int64_t *words; /* the framework, then each array's dtype and shape; NULL: an empty place */
    int count;
    PyObject **shapes, **dtypes; /* of each result: a tuple, the framework's dtype */
} signature;

#define SIGNATURE_MOST 32

typedef struct kernel_object {
    PyObject_HEAD binding *binding;
    device_object *device;
    hr_kernel *kernel; /* executed, by any number of threads */
    hr_kernel *asker;  /* the same text: what is bound to it says the shapes of results. NULL until needed */
    PyObject *source;  /* tuple: path, text, name: as loaded */
    PyObject *given;   /* dict: extents and dtype variables that were given by name */
    PyObject *route;   /* callable: the name of a device -> the same kernel there */
    PyObject *pack;    /* callable: several results -> a named tuple */
    PyObject *bound;   /* dict: name -> what hr_kernel_bind has the address of */
    adapter *bound_by; /* of an array that is bound, borrowed from the module; NULL: none is */
    int bound_device;  /* that it is on */
    int count, inputs; /* arguments; those of them that are parameters */
    hr_argument arguments[ARGUMENT_MOST]; /* names belong to `kernel` */
    PyObject *names[ARGUMENT_MOST];
    signature signatures[SIGNATURE_MOST];
    int signature_next; /* the place that a new one takes */
} kernel_object;

/* Kernel.call(arguments, named, out): one execution. */
PyObject *kernel_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
void signatures_clear(kernel_object *self);
/* Loads the kernel's text once more, with what was given by name. */
bool kernel_load(kernel_object *self, hr_kernel **out);

/* Methods of Kernel that work on what is bound. */
extern PyMethodDef kernel_bench_methods[];

/* ---- types, made with the module ---- */

extern PyType_Spec adapter_spec, device_spec, kernel_spec, run_spec, diagnosis_spec, recording_spec,
    fixed_spec;

/* A Run that owns `result`. */
PyObject *run_wrap(binding *binding, hr_run_result *result);

PyObject *binding_diagnose(PyObject *module, PyObject *arguments);
PyObject *binding_record_begin(PyObject *module, PyObject *arguments);
PyObject *binding_xla_handler(PyObject *module, PyObject *platform);
PyObject *binding_gradient(PyObject *module, PyObject *arguments, PyObject *named);

/* Releases what a heap type's object holds; the fields are the caller's. */
void object_free(PyObject *self);

#endif
