/* A kernel whose arrays always have the same shapes: what a compiled graph calls hundreds of times a step.
 *
 * In: tensors of PyTorch's whose shapes and dtypes are known from the time of compiling; where they lie and
 * with which strides is read at each call. Out: the results, in tensors that the given functions make. A
 * general call reads and compares some ten times as much.
 */
#include "binding.h"

#include <string.h>

/* A tensor as the text declares it: `axes` are those of the tensor, in the text's order. */
typedef struct fixed_operand {
    int rank;
    int axes[AXIS_MOST];
    int64_t shape[AXIS_MOST];
} fixed_operand;

typedef struct fixed_object {
    PyObject_HEAD binding *binding;
    kernel_object *kernel;
    fixed_operand *operands; /* by argument */
    PyObject *makers;        /* tuple: of each result a function without arguments */
} fixed_object;

/* ---- making one ---- */

static bool whole_take(PyObject *tuple, Py_ssize_t at, int64_t *out) {
    PyObject *item = PyTuple_GetItem(tuple, at);
    *out = item ? PyLong_AsLongLong(item) : -1;
    return !PyErr_Occurred();
}

/* ((size, ...), (axis, ...)) */
static bool operand_take(PyObject *given, fixed_operand *out) {
    PyObject *sizes, *axes;
    if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &sizes, &PyTuple_Type, &axes)) return false;
    Py_ssize_t rank = PyTuple_Size(sizes);
    if (rank > AXIS_MOST || PyTuple_Size(axes) != rank) {
        PyErr_SetString(PyExc_ValueError, "a tensor has a size and a place for each axis of the text");
        return false;
    }
    out->rank = (int)rank;
    for (Py_ssize_t axis = 0; axis < rank; axis++) {
        int64_t place;
        if (!whole_take(sizes, axis, &out->shape[axis]) || !whole_take(axes, axis, &place)) return false;
        out->axes[axis] = (int)place;
    }
    return true;
}

static bool operands_take(fixed_object *self, PyObject *given) {
    int count = self->kernel->count;
    if (PyTuple_Size(given) != count || PyTuple_Size(self->makers) != count - self->kernel->inputs) {
        PyErr_Format(PyExc_ValueError, "kernel %s has %d arguments, %d of them results",
                     hr_kernel_name(self->kernel->kernel), count, count - self->kernel->inputs);
        return false;
    }
    self->operands = PyMem_Calloc((size_t)count + 1, sizeof *self->operands);
    if (!self->operands) return PyErr_NoMemory() != NULL;
    for (int i = 0; i < count; i++) {
        const hr_argument *argument = &self->kernel->arguments[i];
        if (!operand_take(PyTuple_GetItem(given, i), &self->operands[i])) return false;
        if (self->operands[i].rank != argument->rank || argument->dtype_variable) {
            PyErr_Format(PyExc_ValueError, "`%s` of kernel %s has %d axes and one dtype", argument->name,
                         hr_kernel_name(self->kernel->kernel), argument->rank);
            return false;
        }
    }
    return true;
}

static PyObject *fixed_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"kernel", "operands", "makers", NULL};
    binding *binding = PyType_GetModuleState(type);
    PyObject *kernel, *operands, *makers;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!O!", names, binding->kernel_type, &kernel,
                                     &PyTuple_Type, &operands, &PyTuple_Type, &makers))
        return NULL;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    fixed_object *self = (fixed_object *)allocate(type, 0);
    if (!self) return NULL;
    self->binding = binding;
    self->kernel = (kernel_object *)Py_NewRef(kernel);
    self->makers = Py_NewRef(makers);
    if (operands_take(self, operands)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int fixed_traverse(PyObject *self, visitproc visit, void *arg) {
    const fixed_object *fixed = (fixed_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(fixed->kernel);
    Py_VISIT(fixed->makers);
    return 0;
}

static int fixed_clear(PyObject *self) {
    fixed_object *fixed = (fixed_object *)self;
    Py_CLEAR(fixed->kernel);
    Py_CLEAR(fixed->makers);
    return 0;
}

static void fixed_destroy(PyObject *self) {
    PyObject_GC_UnTrack(self);
    PyMem_Free(((fixed_object *)self)->operands);
    fixed_clear(self);
    object_free(self);
}

/* ---- a call ---- */

typedef struct fixed_call {
    hr_array arrays[ARGUMENT_MOST];
    int64_t strides[ARGUMENT_MOST][AXIS_MOST];
} fixed_call;

/* Without gaps, as a result is made. */
static bool tensor_place(const fixed_object *self, int i, PyObject *tensor, fixed_call *call) {
    const fixed_operand *operand = &self->operands[i];
    PyObject *address = PyObject_CallMethodObjArgs(tensor, self->binding->name_data_ptr, NULL);
    if (!address) return false;
    call->arrays[i] = (hr_array){.size = sizeof call->arrays[i],
                                 .data = PyLong_AsVoidPtr(address),
                                 .dtype = self->kernel->arguments[i].dtype,
                                 .rank = operand->rank,
                                 .shape = operand->shape};
    Py_DECREF(address);
    return !PyErr_Occurred();
}

static bool input_place(const fixed_object *self, int i, PyObject *tensor, fixed_call *call) {
    const fixed_operand *operand = &self->operands[i];
    PyObject *strides = PyObject_CallMethodObjArgs(tensor, self->binding->name_stride, NULL);
    if (!strides) return false;
    for (int axis = 0; axis < operand->rank && !PyErr_Occurred(); axis++)
        if (operand->shape[axis] == 1) /* a tensor of one element may have no axes */
            call->strides[i][axis] = 1;
        else
            whole_take(strides, operand->axes[axis], &call->strides[i][axis]);
    Py_DECREF(strides);
    if (PyErr_Occurred() || !tensor_place(self, i, tensor, call)) return false;
    call->arrays[i].strides = call->strides[i];
    return true;
}

/* Whether they have elements: what traces a call comes with others. The adapter of the first says the stream.
 */
static bool are_tensors(const fixed_object *self, PyObject *const *given, bool *out, adapter **first) {
    *out = true;
    *first = NULL;
    for (int i = 0; i < self->kernel->inputs; i++) {
        adapter *adapter = adapter_of(self->binding, Py_TYPE(given[i]));
        if (!adapter) return false;
        *out &= adapter->reader == READER_TENSOR;
        if (!*first) *first = adapter;
    }
    return true;
}

static PyObject *results_make(const fixed_object *self, fixed_call *call) {
    int count = self->kernel->count - self->kernel->inputs;
    PyObject *results = PyTuple_New(count);
    for (int r = 0; results && r < count; r++) {
        PyObject *made = PyObject_CallNoArgs(PyTuple_GetItem(self->makers, r));
        if (!made || !tensor_place(self, self->kernel->inputs + r, made, call)) {
            Py_XDECREF(made);
            Py_CLEAR(results);
        } else if (PyTuple_SetItem(results, r, made) < 0)
            Py_CLEAR(results);
    }
    return results;
}

/* call(*inputs): a tuple of results; NotImplemented where an input is no plain tensor. */
static PyObject *fixed_run(PyObject *object, PyObject *const *given, Py_ssize_t count) {
    const fixed_object *self = (fixed_object *)object;
    fixed_call call;
    adapter *first;
    bool plain;
    void *stream = NULL;
    if (count != self->kernel->inputs)
        return PyErr_Format(PyExc_TypeError, "kernel %s has %d parameters, and %zd are given",
                            hr_kernel_name(self->kernel->kernel), self->kernel->inputs, count);
    if (!are_tensors(self, given, &plain, &first)) return NULL;
    if (!plain) return Py_NewRef(Py_NotImplemented);
    for (int i = 0; i < self->kernel->inputs; i++)
        if (!input_place(self, i, given[i], &call)) return NULL;
    PyObject *results = results_make(self, &call);
    if (!results) return NULL;
    if (first && !adapter_stream(first, self->kernel->device->number, &stream)) {
        Py_DECREF(results);
        return NULL;
    }
    hr_status status;
    Py_BEGIN_ALLOW_THREADS status =
        hr_kernel_execute(self->kernel->kernel, call.arrays, self->kernel->count, stream);
    Py_END_ALLOW_THREADS if (status == HR_OK) return results;
    Py_DECREF(results);
    return binding_fail(self->binding, status);
}

static PyMethodDef fixed_methods[] = {
    {"call", (PyCFunction)(void (*)(void))fixed_run, METH_FASTCALL,
     "call(*inputs): the results; NotImplemented for what has no elements."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot fixed_slots[] = {
    {Py_tp_doc,
     "Fixed(kernel, operands, makers): a kernel whose arrays always have these shapes. An operand is "
     "(sizes, axes) in the text's order; a maker makes a result."},
    {Py_tp_new, (void *)fixed_new},
    {Py_tp_dealloc, (void *)fixed_destroy},
    {Py_tp_traverse, (void *)fixed_traverse},
    {Py_tp_clear, (void *)fixed_clear},
    {Py_tp_methods, fixed_methods},
    {0, NULL}};
PyType_Spec fixed_spec = {.name = "headroom._headroom.Fixed",
                          .basicsize = sizeof(fixed_object),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                          .slots = fixed_slots};
