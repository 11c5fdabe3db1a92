/* Arrays of any framework -> hr_array.
 *
 * In: an object. Out: where its elements are, their dtype, shape and strides; never a copy, never a
 * conversion. What is read stays alive until operand_release, and the object is the caller's to hold.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#define STRIDE_MOST   ((int64_t)1 << 46) /* elements: more than a processor has addresses for */
#define STREAM_LEGACY ((void *)1)        /* CU_STREAM_LEGACY: what frameworks call stream 0 */

/* ---- DLPack, as far as it is read: version 1's structures ---- */

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };

typedef struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, number;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* in elements; strides may be NULL */
    uint64_t byte_offset;
} dlpack_tensor;

static const struct {
    uint8_t code, bits;
    hr_dtype dtype;
} dlpack_dtypes[] = {{2, 64, HR_F64}, {2, 32, HR_F32}, {2, 16, HR_F16},    {4, 16, HR_BF16},
                     {0, 64, HR_I64}, {0, 32, HR_I32}, {0, 16, HR_I16},    {0, 8, HR_I8},
                     {1, 8, HR_U8},   {6, 8, HR_BOOL}, {10, 8, HR_F8E4M3}, {12, 8, HR_F8E5M2}};

/* ---- words ---- */

static bool fail_dtype(const binding *binding, const char *name, PyObject *dtype) {
    PyErr_Format(binding->dtype_error,
                 "`%s` has elements of %S, which the language has no dtype for: convert it first", name,
                 dtype);
    return false;
}

static bool fail_rank(const char *name, long long rank) {
    PyErr_Format(PyExc_ValueError, "`%s` has %lld axes; at most %d can be given", name, rank, AXIS_MOST);
    return false;
}

/* ---- the buffer protocol ---- */

/* A format of the struct module for one native element. */
static bool format_dtype(const char *format, Py_ssize_t size, hr_dtype *out) {
    static const char wholes[] = "bhilqn";
    if (!format) format = "B";
    if (*format == '@' || *format == '=' ||
        *format == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>'))
        format++;
    if (!*format || format[1]) return false;
    if (strchr(wholes, *format))
        *out = size == 8 ? HR_I64 : size == 4 ? HR_I32 : size == 2 ? HR_I16 : HR_I8;
    else if (*format == 'd' && size == 8)
        *out = HR_F64;
    else if (*format == 'f' && size == 4)
        *out = HR_F32;
    else if (*format == 'e' && size == 2)
        *out = HR_F16;
    else if (*format == 'B' && size == 1)
        *out = HR_U8;
    else if (*format == '?' && size == 1)
        *out = HR_BOOL;
    else
        return false;
    return true;
}

static bool view_strides(const char *name, operand *out) {
    for (int axis = 0; axis < out->view.ndim; axis++) {
        out->shape[axis] = out->view.shape[axis];
        out->strides[axis] = out->view.strides[axis] / out->view.itemsize;
        if (out->view.strides[axis] % out->view.itemsize == 0 || out->view.shape[axis] <= 1) continue;
        PyErr_Format(PyExc_ValueError,
                     "`%s` has a stride of %zd bytes on axis %d, no multiple of its element's %zd: copy it "
                     "first",
                     name, out->view.strides[axis], axis, out->view.itemsize);
        return false;
    }
    return true;
}

static bool view_take(const binding *binding, const char *name, const hr_dtype *known, operand *out) {
    hr_dtype dtype;
    if (known)
        dtype = *known;
    else if (!format_dtype(out->view.format, out->view.itemsize, &dtype)) {
        PyObject *format = PyUnicode_FromFormat("format '%s'", out->view.format);
        if (format) fail_dtype(binding, name, format);
        Py_XDECREF(format);
        return false;
    }
    if (out->view.ndim > AXIS_MOST) return fail_rank(name, out->view.ndim);
    if (!view_strides(name, out)) return false;
    out->array.dtype = dtype;
    out->array.data = out->view.buf;
    out->array.rank = out->view.ndim;
    out->read_only = out->view.readonly;
    return true;
}

/* The hr_dtype that an adapter knows a framework's dtype by; -1 without an exception where it knows none. */
static int adapter_code(const adapter *adapter, PyObject *dtype) {
    PyObject *code = PyDict_GetItemWithError(adapter->codes, dtype);
    return code ? (int)PyLong_AsLong(code) : -1;
}

/* bf16 and f8 have no format: they are viewed as the whole numbers of their size. */
static bool read_viewed(const binding *binding, const char *name, PyObject *object, operand *out) {
    PyObject *dtype = PyObject_GetAttr(object, binding->name_dtype), *viewed = NULL;
    if (!dtype) return false;
    int code = adapter_code(out->adapter, dtype);
    if (code < 0 || (code != HR_BF16 && code != HR_F8E4M3 && code != HR_F8E5M2)) {
        if (!PyErr_Occurred()) fail_dtype(binding, name, dtype);
        Py_DECREF(dtype);
        return false;
    }
    Py_DECREF(dtype);
    viewed = PyObject_CallMethod(object, "view", "s", code == HR_BF16 ? "u2" : "u1");
    if (!viewed) return false;
    out->viewed = PyObject_GetBuffer(viewed, &out->view, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
    Py_DECREF(viewed); /* the buffer holds it */
    const hr_dtype known = (hr_dtype)code;
    return out->viewed && view_take(binding, name, &known, out);
}

static bool read_buffer(const binding *binding, const char *name, PyObject *object, operand *out) {
    out->viewed = PyObject_GetBuffer(object, &out->view, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
    if (out->viewed) return view_take(binding, name, NULL, out);
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError)) return false;
    PyErr_Clear();
    return read_viewed(binding, name, object, out);
}

/* ---- PyTorch ---- */

static bool tuple_take(PyObject *tuple, int rank, int64_t *out) {
    for (int axis = 0; axis < rank; axis++) {
        PyObject *item = PyTuple_GetItem(tuple, axis);
        out[axis] = item ? PyLong_AsLongLong(item) : -1;
        if (out[axis] == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

static bool tensor_shape(const binding *binding, const char *name, PyObject *object, operand *out) {
    PyObject *shape = PyObject_GetAttr(object, binding->name_shape);
    PyObject *strides = shape ? PyObject_CallMethodObjArgs(object, binding->name_stride, NULL) : NULL;
    Py_ssize_t rank = strides ? PyTuple_Size(shape) : -1;
    bool good = rank >= 0 && (rank <= AXIS_MOST || fail_rank(name, rank)) &&
                tuple_take(shape, (int)rank, out->shape) && tuple_take(strides, (int)rank, out->strides);
    out->array.rank = (int)rank;
    Py_XDECREF(strides);
    Py_XDECREF(shape);
    return good;
}

static bool tensor_dtype(const binding *binding, const char *name, PyObject *object, operand *out) {
    PyObject *dtype = PyObject_GetAttr(object, binding->name_dtype);
    if (!dtype) return false;
    int code = adapter_code(out->adapter, dtype);
    if (code < 0 && !PyErr_Occurred()) fail_dtype(binding, name, dtype);
    Py_DECREF(dtype);
    out->array.dtype = (hr_dtype)code;
    return code >= 0;
}

static bool attribute_true(PyObject *object, PyObject *name, bool *out) {
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value) return false;
    *out = value == Py_True;
    Py_DECREF(value);
    return true;
}

/* A GPU's number, or the host. */
static bool tensor_device(const binding *binding, const char *name, PyObject *object, operand *out) {
    bool host;
    if (!attribute_true(object, binding->name_is_cpu, &host)) return false;
    out->device = DEVICE_HOST;
    if (host) return true;
    PyObject *number = PyObject_CallMethodObjArgs(object, binding->name_get_device, NULL);
    out->device = number ? (int)PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (out->device >= 0) return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "`%s` is neither in the memory of the host nor of a CUDA GPU", name);
    return false;
}

static bool read_tensor(const binding *binding, const char *name, PyObject *object, operand *out) {
    bool gradient;
    if (!attribute_true(object, binding->name_requires_grad, &gradient)) return false;
    if (gradient && out->adapter->redirect != Py_None) {
        PyObject *goes = PyObject_CallFunctionObjArgs(out->adapter->redirect, NULL);
        if (!goes) return false;
        out->redirected = goes == Py_True;
        Py_DECREF(goes);
        if (out->redirected) return true;
    }
    if (!tensor_device(binding, name, object, out) || !tensor_dtype(binding, name, object, out) ||
        !tensor_shape(binding, name, object, out))
        return false;
    PyObject *address = PyObject_CallMethodObjArgs(object, binding->name_data_ptr, NULL);
    if (!address) return false;
    out->array.data = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return !PyErr_Occurred();
}

/* ---- DLPack ---- */

static bool dlpack_take(const binding *binding, const char *name, const dlpack_tensor *tensor, operand *out) {
    const int type = tensor->device.type;
    int64_t stride = 1;
    bool found = false;
    for (size_t i = 0; i < sizeof dlpack_dtypes / sizeof *dlpack_dtypes && !found; i++) {
        found = tensor->dtype.lanes == 1 && dlpack_dtypes[i].code == tensor->dtype.code &&
                dlpack_dtypes[i].bits == tensor->dtype.bits;
        if (found) out->array.dtype = dlpack_dtypes[i].dtype;
    }
    if (!found) {
        PyErr_Format(
            binding->dtype_error,
            "`%s` has elements of DLPack's type %d with %d bits, which the language has no dtype for", name,
            tensor->dtype.code, tensor->dtype.bits);
        return false;
    }
    if (type != DLPACK_CPU && type != DLPACK_CUDA && type != DLPACK_CUDA_HOST &&
        type != DLPACK_CUDA_MANAGED) {
        PyErr_Format(PyExc_TypeError, "`%s` is neither in the memory of the host nor of a CUDA GPU", name);
        return false;
    }
    if (tensor->rank > AXIS_MOST) return fail_rank(name, tensor->rank);
    out->device = type == DLPACK_CPU || type == DLPACK_CUDA_HOST ? DEVICE_HOST : tensor->device.number;
    out->array.rank = tensor->rank;
    out->array.data = (char *)tensor->data + tensor->byte_offset;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        out->shape[axis] = tensor->shape[axis];
        out->strides[axis] = tensor->strides ? tensor->strides[axis] : stride;
        stride *= tensor->shape[axis];
        if (tensor->shape[axis] > 1 && llabs(out->strides[axis]) > STRIDE_MOST) {
            PyErr_Format(
                PyExc_ValueError,
                "`%s` comes with a stride that no memory has on axis %d (CuPy hands on views that go "
                "backwards so): copy it first",
                name, axis);
            return false;
        }
    }
    return true;
}

/* The stream that the elements must be ready on, as __dlpack__ wants it: the caller's own, so that nothing
 * waits. */
static PyObject *dlpack_stream(const binding *binding, PyObject *object, const adapter *adapter) {
    long type, number;
    PyObject *device = PyObject_CallMethodObjArgs(object, binding->name___dlpack_device__, NULL);
    if (!device) return NULL;
    PyObject *first = PyTuple_GetItem(device, 0), *second = first ? PyTuple_GetItem(device, 1) : NULL;
    type = second ? PyLong_AsLong(first) : -1;
    number = second ? PyLong_AsLong(second) : -1;
    Py_DECREF(device);
    if (PyErr_Occurred()) return NULL;
    void *stream = NULL;
    bool is_gpu = type == DLPACK_CUDA || type == DLPACK_CUDA_MANAGED;
    if (!adapter_stream(adapter, is_gpu ? (int)number : DEVICE_HOST, &stream)) return NULL;
    return stream ? PyLong_FromVoidPtr(stream) : Py_NewRef(Py_None);
}

static bool read_dlpack(const binding *binding, const char *name, PyObject *object, operand *out) {
    PyObject *stream = dlpack_stream(binding, object, out->adapter);
    if (!stream) return false;
    PyObject *named = stream == Py_None ? NULL : Py_BuildValue("{sO}", "stream", stream);
    PyObject *none = PyTuple_New(0), *export = PyObject_GetAttr(object, binding->name___dlpack__);
    if (export && none && (named || stream == Py_None)) out->held = PyObject_Call(export, none, named);
    Py_XDECREF(export);
    Py_XDECREF(none);
    Py_XDECREF(named);
    Py_DECREF(stream);
    if (!out->held) return false;
    const dlpack_tensor *tensor = PyCapsule_GetPointer(out->held, "dltensor"); /* freed with the capsule */
    return tensor && dlpack_take(binding, name, tensor, out);
}

/* ---- any ---- */

adapter *adapter_of(binding *binding, PyTypeObject *type) {
    PyObject *found = PyDict_GetItemWithError(binding->adapters, (PyObject *)type);
    if (found || PyErr_Occurred()) return (adapter *)found;
    PyObject *made = PyObject_CallFunctionObjArgs(binding->adapter_make, (PyObject *)type, NULL);
    if (made && !PyObject_TypeCheck(made, binding->adapter_type)) {
        PyErr_SetString(PyExc_TypeError, "what makes adapters made something else");
        Py_CLEAR(made);
    }
    if (made && PyDict_SetItem(binding->adapters, (PyObject *)type, made) < 0) Py_CLEAR(made);
    Py_XDECREF(made); /* the dictionary holds it */
    return (adapter *)made;
}

static void operand_begin(PyObject *object, operand *out) {
    out->array = (hr_array){.size = sizeof out->array, .shape = out->shape, .strides = out->strides};
    out->object = object;
    out->adapter = NULL;
    out->held = NULL;
    out->device = DEVICE_HOST;
    out->viewed = out->read_only = out->redirected = false;
}

bool operand_read(binding *binding, const char *name, PyObject *object, operand *out) {
    bool good = false;
    operand_begin(object, out);
    out->adapter = adapter_of(binding, Py_TYPE(object));
    if (!out->adapter) return false;
    switch (out->adapter->reader) {
    case READER_BUFFER:
        good = read_buffer(binding, name, object, out);
        break;
    case READER_TENSOR:
        good = read_tensor(binding, name, object, out);
        break;
    case READER_DLPACK:
        good = read_dlpack(binding, name, object, out);
        break;
    case READER_REDIRECT:
        good = out->redirected = true;
        break;
    }
    if (!good) operand_release(out);
    return good;
}

bool operand_read_scalar(const char *name, PyObject *object, operand *out) {
    operand_begin(object, out);
    out->array.shape = out->array.strides = NULL;
    if (object == Py_None) return true;
    if (PyIndex_Check(object)) { /* bool and NumPy's whole numbers, too */
        PyObject *whole = PyNumber_Index(object);
        out->array.dtype = HR_I64;
        out->scalar.whole = whole ? PyLong_AsLongLong(whole) : -1;
        Py_XDECREF(whole);
    } else {
        out->array.dtype = HR_F64;
        out->scalar.real = PyFloat_AsDouble(object);
    }
    out->array.data = &out->scalar;
    if (!PyErr_Occurred()) return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "`%s` is a scalar: give it a number", name);
    return false;
}

void operand_release(operand *operand) {
    if (operand->viewed) PyBuffer_Release(&operand->view);
    operand->viewed = false;
    Py_CLEAR(operand->held);
}

bool adapter_stream(const adapter *adapter, int device, void **out) {
    *out = NULL;
    if (device == DEVICE_HOST || adapter->stream == Py_None) return true;
    PyObject *number = PyLong_FromLong(device);
    PyObject *address = number ? PyObject_CallFunctionObjArgs(adapter->stream, number, NULL) : NULL;
    Py_XDECREF(number);
    if (!address) return false;
    *out = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    if (PyErr_Occurred()) return false;
    if (!*out) *out = STREAM_LEGACY;
    return true;
}

/* ---- adapters as Python objects ---- */

static PyObject *adapter_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"reader", "empty", "dtypes", "codes", "stream", "redirect", NULL};
    int reader;
    PyObject *empty, *dtypes, *codes, *stream = Py_None, *redirect = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "iOO!O!|OO", names, &reader, &empty, &PyTuple_Type,
                                     &dtypes, &PyDict_Type, &codes, &stream, &redirect))
        return NULL;
    if (reader < READER_BUFFER || reader > READER_REDIRECT || PyTuple_Size(dtypes) != HR_DTYPE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "an adapter has a reader from 0 to 3 and a place for each dtype");
        return NULL;
    }
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    adapter *self = (adapter *)allocate(type, 0);
    if (!self) return NULL;
    self->reader = (enum reader)reader;
    self->empty = Py_NewRef(empty);
    self->dtypes = Py_NewRef(dtypes);
    self->codes = Py_NewRef(codes);
    self->stream = Py_NewRef(stream);
    self->redirect = Py_NewRef(redirect);
    return (PyObject *)self;
}

static int adapter_traverse(PyObject *self, visitproc visit, void *arg) {
    const adapter *adapter = (struct adapter *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(adapter->empty);
    Py_VISIT(adapter->stream);
    Py_VISIT(adapter->redirect);
    return 0;
}

static int adapter_clear(PyObject *self) {
    adapter *adapter = (struct adapter *)self;
    Py_CLEAR(adapter->empty);
    Py_CLEAR(adapter->dtypes);
    Py_CLEAR(adapter->codes);
    Py_CLEAR(adapter->stream);
    Py_CLEAR(adapter->redirect);
    return 0;
}

static void adapter_destroy(PyObject *self) {
    PyObject_GC_UnTrack(self);
    adapter_clear(self);
    object_free(self);
}

static PyType_Slot adapter_slots[] = {{Py_tp_doc, "Adapter(reader, empty, dtypes, codes, stream=None, "
                                                  "redirect=None): how arrays of a type are read and made."},
                                      {Py_tp_new, (void *)adapter_new},
                                      {Py_tp_dealloc, (void *)adapter_destroy},
                                      {Py_tp_traverse, (void *)adapter_traverse},
                                      {Py_tp_clear, (void *)adapter_clear},
                                      {0, NULL}};

PyType_Spec adapter_spec = {.name = "headroom._headroom.Adapter",
                            .basicsize = sizeof(adapter),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                            .slots = adapter_slots};
