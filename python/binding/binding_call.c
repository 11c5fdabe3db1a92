/* One execution: kernel(x, w) -> y.
 *
 * In: Python's arguments. Out: the results, as arrays of the framework that the inputs came from. What the
 * results look like is kept by the inputs' dtypes and shapes, so a call that has been seen reads its arrays,
 * allocates results and executes. The GIL is released meanwhile.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#define WORD_MOST 1024

typedef struct call {
    kernel_object *kernel;
    binding *binding;
    int count; /* operands that have been begun */
    bool redirected;
    const operand *like; /* the first array; NULL where none is given */
    adapter *adapter;    /* of the results */
    int device;
    PyObject *given[ARGUMENT_MOST];   /* borrowed; NULL: nothing */
    PyObject *results[ARGUMENT_MOST]; /* owned, by argument */
    operand operands[ARGUMENT_MOST];
    int64_t words[WORD_MOST];
    int word_count;
} call;

static bool is_scalar(const hr_argument *argument) {
    return argument->rank == 0 && argument->role == HR_ARGUMENT_INPUT;
}

static bool is_result(const hr_argument *argument) {
    return argument->role == HR_ARGUMENT_RESULT;
}

/* ---- arguments by position and by name ---- */

static int argument_named(const kernel_object *kernel, PyObject *name) {
    for (int i = 0; i < kernel->count; i++)
        if (kernel->names[i] == name) return i;
    for (int i = 0; i < kernel->count; i++)
        if (PyUnicode_Compare(kernel->names[i], name) == 0) return i;
    return -1;
}

static bool take_named(call *call, PyObject *named) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(named, &at, &name, &value)) {
        int i = argument_named(call->kernel, name);
        if (i < 0 || is_result(&call->kernel->arguments[i])) {
            PyErr_Format(PyExc_TypeError, "kernel %s has no parameter `%U`",
                         hr_kernel_name(call->kernel->kernel), name);
            return false;
        }
        if (call->given[i]) {
            PyErr_Format(PyExc_TypeError, "kernel %s got `%U` twice", hr_kernel_name(call->kernel->kernel),
                         name);
            return false;
        }
        call->given[i] = value;
    }
    return true;
}

static bool take_missing(const call *call) {
    for (int i = 0; i < call->kernel->inputs; i++) {
        const hr_argument *argument = &call->kernel->arguments[i];
        if (call->given[i] || (is_scalar(argument) && argument->has_default)) continue;
        PyErr_Format(PyExc_TypeError, "kernel %s needs `%s`", hr_kernel_name(call->kernel->kernel),
                     argument->name);
        return false;
    }
    return true;
}

/* `out`: None, one array, a sequence in the order of the results, or a dict by name. */
static bool take_out(call *call, PyObject *out) {
    const kernel_object *kernel = call->kernel;
    int results = kernel->count - kernel->inputs;
    if (out == Py_None) return true;
    if (PyDict_Check(out)) {
        PyObject *name, *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(out, &at, &name, &value)) {
            int i = PyUnicode_Check(name) ? argument_named(kernel, name) : -1;
            if (i < kernel->inputs) {
                PyErr_Format(PyExc_TypeError, "kernel %s has no result %R for `out`",
                             hr_kernel_name(kernel->kernel), name);
                return false;
            }
            if (value != Py_None) call->given[i] = value;
        }
        return true;
    }
    if (results == 1 && !PyTuple_Check(out) && !PyList_Check(out)) {
        call->given[kernel->inputs] = out;
        return true;
    }
    Py_ssize_t size = PyTuple_Check(out) || PyList_Check(out) ? PySequence_Size(out) : -1;
    if (size != results) {
        PyErr_Format(
            PyExc_TypeError,
            "kernel %s has %d results: `out` is a tuple of as many arrays (None: make one), or a dict",
            hr_kernel_name(kernel->kernel), results);
        return false;
    }
    for (int r = 0; r < results; r++) {
        PyObject *item = PyTuple_Check(out) ? PyTuple_GetItem(out, r) : PyList_GetItem(out, r);
        if (item != Py_None) call->given[kernel->inputs + r] = item;
    }
    return true;
}

static bool arguments_take(call *call, PyObject *positional, PyObject *named, PyObject *out) {
    const kernel_object *kernel = call->kernel;
    Py_ssize_t count = PyTuple_Size(positional);
    if (count > kernel->inputs) {
        PyErr_Format(PyExc_TypeError, "kernel %s has %d parameters, and %zd are given",
                     hr_kernel_name(kernel->kernel), kernel->inputs, count);
        return false;
    }
    memset(call->given, 0, (size_t)kernel->count * sizeof *call->given);
    memset(call->results, 0, (size_t)kernel->count * sizeof *call->results);
    for (int i = 0; i < count; i++)
        call->given[i] = PyTuple_GetItem(positional, i);
    if (named != Py_None && !take_named(call, named)) return false;
    return take_missing(call) && take_out(call, out);
}

/* ---- reading ---- */

static bool written_check(const call *call, int i) {
    const hr_argument *argument = &call->kernel->arguments[i];
    if (argument->role == HR_ARGUMENT_INPUT || !call->operands[i].read_only) return true;
    PyErr_Format(PyExc_ValueError, "`%s` of kernel %s is written, and the array given is read-only",
                 argument->name, hr_kernel_name(call->kernel->kernel));
    return false;
}

/* A result that is to be made, or a scalar that has a default: nothing is given. */
static void operand_none(operand *out) {
    out->array = (hr_array){.size = sizeof out->array};
    out->adapter = NULL;
    out->held = NULL;
    out->viewed = out->redirected = false;
    out->device = DEVICE_HOST;
}

static bool operands_read(call *call) {
    const kernel_object *kernel = call->kernel;
    for (int i = 0; i < kernel->count; i++) {
        const hr_argument *argument = &kernel->arguments[i];
        operand *operand = &call->operands[i];
        if (!call->given[i])
            operand_none(operand);
        else if (is_scalar(argument)) {
            if (!operand_read_scalar(argument->name, call->given[i], operand)) return false;
        } else {
            if (!operand_read(call->binding, argument->name, call->given[i], operand)) return false;
            if (!call->like) call->like = operand;
            call->redirected |= operand->redirected;
        }
        call->count = i + 1;
        if (call->given[i] && !written_check(call, i)) return false;
    }
    return true;
}

/* All arrays are in one memory; the kernel is the one that was loaded for it. */
static bool device_find(call *call) {
    if (!call->like) {
        call->device = call->kernel->device->number;
        call->adapter = adapter_of(call->binding, Py_TYPE(Py_None));
        return call->adapter != NULL;
    }
    call->device = call->like->device;
    call->adapter = call->like->adapter;
    for (int i = 0; i < call->count; i++) {
        const operand *operand = &call->operands[i];
        if (!operand->adapter || operand->device == call->device) continue;
        PyErr_Format(PyExc_ValueError,
                     "the arrays of kernel %s are in different memories: `%s` is in that of %s",
                     hr_kernel_name(call->kernel->kernel), call->kernel->arguments[i].name,
                     operand->device == DEVICE_HOST ? "the host" : "another GPU than the first array");
        return false;
    }
    if (call->device == call->kernel->device->number) return true;
    char name[32];
    PyOS_snprintf(name, sizeof name, call->device == DEVICE_HOST ? "cpu" : "cuda:%d", call->device);
    PyObject *other = PyObject_CallFunction(call->kernel->route, "s", name);
    if (!other) return false;
    Py_DECREF(other); /* whoever routes keeps it */
    call->kernel = (kernel_object *)other;
    return true;
}

/* ---- what results look like ---- */

static bool word_add(call *call, int64_t word) {
    if (call->word_count < WORD_MOST) {
        call->words[call->word_count++] = word;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "the arrays of kernel %s have too many axes together",
                 hr_kernel_name(call->kernel->kernel));
    return false;
}

static bool words_list(call *call) {
    call->word_count = 0;
    if (!word_add(call, (int64_t)(intptr_t)call->adapter)) return false;
    for (int i = 0; i < call->count; i++) {
        const operand *operand = &call->operands[i];
        if (!word_add(call, operand->adapter ? (int64_t)operand->array.dtype << 8 | operand->array.rank : -1))
            return false;
        for (int axis = 0; operand->adapter && axis < operand->array.rank; axis++)
            if (!word_add(call, operand->shape[axis])) return false;
    }
    return true;
}

/* FNV-1a over words. */
static uint64_t words_hash(const call *call) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < call->word_count; i++)
        hash = (hash ^ (uint64_t)call->words[i]) * 0x100000001b3u;
    return hash;
}

static void signature_clear(signature *signature, int results) {
    for (int r = 0; r < results && signature->shapes; r++)
        Py_CLEAR(signature->shapes[r]);
    for (int r = 0; r < results && signature->dtypes; r++)
        Py_CLEAR(signature->dtypes[r]);
    free(signature->words);
    free(signature->shapes);
    free(signature->dtypes);
    *signature = (struct signature){0};
}

void signatures_clear(kernel_object *self) {
    for (int s = 0; s < SIGNATURE_MOST; s++)
        signature_clear(&self->signatures[s], self->count - self->inputs);
}

static bool fail_bound(const call *call, int i, hr_status status) {
    const operand *operand = &call->operands[i];
    hr_argument argument;
    bool other = status == HR_BAD_INPUT && hr_kernel_argument(call->kernel->asker, i, &argument) == HR_OK &&
                 argument.rank == operand->array.rank && argument.dtype != operand->array.dtype;
    if (other)
        PyErr_SetString(call->binding->dtype_error, hr_last_error());
    else
        binding_fail(call->binding, status);
    return false;
}

/* One dtype variable has one meaning in a call. */
static bool variables_agree(const call *call) {
    const hr_argument *arguments = call->kernel->arguments;
    for (int i = 0; i < call->count; i++)
        for (int j = 0; j < i; j++) {
            const char *variable = arguments[i].dtype_variable, *other = arguments[j].dtype_variable;
            hr_dtype dtype = call->operands[i].array.dtype, before = call->operands[j].array.dtype;
            if (!variable || !other || strcmp(variable, other) != 0 || dtype == before ||
                !call->operands[i].adapter || !call->operands[j].adapter)
                continue;
            PyErr_Format(
                call->binding->dtype_error,
                "`%s` of kernel %s has the dtype %s, which is %s by `%s`; the array given is %s: convert it "
                "first",
                arguments[i].name, hr_kernel_name(call->kernel->kernel), variable, hr_dtype_name(before),
                arguments[j].name, hr_dtype_name(dtype));
            return false;
        }
    return true;
}

/* The extents that the arrays mean. Their addresses are bound, too, and never used. */
static bool extents_ask(const call *call, int64_t *extents) {
    kernel_object *kernel = call->kernel;
    hr_status status = HR_OK;
    if (!kernel->asker && !kernel_load(kernel, &kernel->asker)) return false;
    for (int i = 0; i < call->count; i++) {
        if (!call->operands[i].adapter) continue;
        status = hr_kernel_bind(kernel->asker, kernel->arguments[i].name, &call->operands[i].array);
        if (status != HR_OK) return fail_bound(call, i, status);
    }
    for (int e = 0; e < hr_kernel_extent_count(kernel->asker) && status == HR_OK; e++)
        status = hr_kernel_extent(kernel->asker, e, NULL, &extents[e]);
    if (status != HR_OK) binding_fail(call->binding, status);
    return status == HR_OK;
}

static PyObject *shape_tuple(int rank, const int64_t *sizes) {
    PyObject *tuple = PyTuple_New(rank);
    for (int axis = 0; tuple && axis < rank; axis++) {
        PyObject *size = PyLong_FromLongLong(sizes[axis]);
        if (!size || PyTuple_SetItem(tuple, axis, size) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/* A result that is to be made. */
static bool result_describe(const call *call, int i, const int64_t *extents, PyObject **shape,
                            PyObject **dtype) {
    int64_t sizes[AXIS_MOST];
    hr_argument argument;
    if (call->kernel->arguments[i].rank > AXIS_MOST)
        return PyErr_SetString(PyExc_ValueError, "a result has more axes than Python's arrays"), false;
    hr_status status = hr_argument_sizes(call->kernel->asker, i, extents, sizes);
    if (status == HR_OK) status = hr_kernel_argument(call->kernel->asker, i, &argument);
    if (status != HR_OK) return binding_fail(call->binding, status), false;
    *shape = shape_tuple(argument.rank, sizes);
    *dtype = Py_XNewRef(PyTuple_GetItem(call->adapter->dtypes, (Py_ssize_t)argument.dtype));
    if (!*shape || !*dtype) return false;
    if (*dtype != Py_None) return true;
    PyErr_Format(
        call->binding->dtype_error,
        "the result `%s` is %s, which the arrays' framework has no dtype for: give `out` (for NumPy, "
        "ml_dtypes adds bf16 and f8)",
        argument.name, hr_dtype_name(argument.dtype));
    return false;
}

static bool signature_fill(const call *call, signature *out) {
    const kernel_object *kernel = call->kernel;
    size_t results = (size_t)(kernel->count - kernel->inputs);
    int64_t *extents = calloc((size_t)hr_kernel_extent_count(kernel->kernel) + 1, sizeof *extents);
    *out = (signature){.hash = words_hash(call),
                       .words = malloc((size_t)call->word_count * sizeof *out->words),
                       .count = call->word_count,
                       .shapes = calloc(results + 1, sizeof(PyObject *)),
                       .dtypes = calloc(results + 1, sizeof(PyObject *))};
    bool good = extents && out->words && out->shapes && out->dtypes;
    if (!good) PyErr_NoMemory();
    good = good && variables_agree(call) && extents_ask(call, extents);
    for (int r = 0; good && r < (int)results; r++)
        if (!call->given[kernel->inputs + r])
            good = result_describe(call, kernel->inputs + r, extents, &out->shapes[r], &out->dtypes[r]);
    if (good) memcpy(out->words, call->words, (size_t)call->word_count * sizeof *out->words);
    free(extents);
    if (!good) signature_clear(out, (int)results);
    return good;
}

static const signature *signature_find(call *call) {
    kernel_object *kernel = call->kernel;
    if (!words_list(call)) return NULL;
    uint64_t hash = words_hash(call);
    for (int s = 0; s < SIGNATURE_MOST; s++) {
        const signature *known = &kernel->signatures[s];
        if (known->words && known->hash == hash && known->count == call->word_count &&
            memcmp(known->words, call->words, (size_t)call->word_count * sizeof *call->words) == 0)
            return known;
    }
    signature made; /* asking may run Python, and so other calls: the table is touched afterwards */
    if (!signature_fill(call, &made)) return NULL;
    signature *place = &kernel->signatures[kernel->signature_next++ % SIGNATURE_MOST];
    signature_clear(place, kernel->count - kernel->inputs);
    *place = made;
    return place;
}

/* ---- results ---- */

/* The framework may collect garbage, and so run other calls, while it allocates: what is used of the
 * signature is held. */
static PyObject *result_make(const call *call, PyObject *shape, PyObject *dtype) {
    PyObject *like = call->like ? call->like->object : Py_None;
    Py_INCREF(shape);
    Py_INCREF(dtype);
    PyObject *made = PyObject_CallFunctionObjArgs(call->adapter->empty, like, shape, dtype, NULL);
    Py_DECREF(shape);
    Py_DECREF(dtype);
    return made;
}

static bool results_make(call *call, const signature *signature) {
    const kernel_object *kernel = call->kernel;
    int results = kernel->count - kernel->inputs;
    PyObject *shapes[ARGUMENT_MOST], *dtypes[ARGUMENT_MOST];
    bool good = true;
    for (int r = 0; r < results; r++) {
        shapes[r] = Py_XNewRef(signature->shapes[r]);
        dtypes[r] = Py_XNewRef(signature->dtypes[r]);
    }
    for (int r = 0; r < results; r++) {
        int i = kernel->inputs + r;
        if (good && call->given[i]) call->results[i] = Py_NewRef(call->given[i]);
        if (good && !call->given[i]) {
            call->results[i] = result_make(call, shapes[r], dtypes[r]);
            good = call->results[i] && operand_read(call->binding, kernel->arguments[i].name,
                                                    call->results[i], &call->operands[i]);
        }
        Py_XDECREF(shapes[r]);
        Py_XDECREF(dtypes[r]);
    }
    return good;
}

/* One result as it is, several as a named tuple, none as None. */
static PyObject *results_pack(const call *call) {
    const kernel_object *kernel = call->kernel;
    int results = kernel->count - kernel->inputs;
    if (results == 0) return Py_NewRef(Py_None);
    if (results == 1) return Py_NewRef(call->results[kernel->inputs]);
    PyObject *tuple = PyTuple_New(results);
    for (int r = 0; tuple && r < results; r++)
        if (PyTuple_SetItem(tuple, r, Py_NewRef(call->results[kernel->inputs + r])) < 0) Py_CLEAR(tuple);
    PyObject *packed = tuple ? PyObject_CallFunctionObjArgs(kernel->pack, tuple, NULL) : NULL;
    Py_XDECREF(tuple);
    return packed;
}

/* ---- the execution ---- */

static bool execute(call *call) {
    kernel_object *kernel = call->kernel;
    hr_array arrays[ARGUMENT_MOST];
    hr_status status;
    void *stream;
    if (!adapter_stream(call->adapter, call->device, &stream)) return false;
    for (int i = 0; i < kernel->count; i++)
        arrays[i] = call->operands[i].array;
    Py_INCREF((PyObject *)kernel);
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_execute(kernel->kernel, arrays, kernel->count, stream);
    Py_END_ALLOW_THREADS Py_DECREF((PyObject *)kernel);
    if (status != HR_OK) binding_fail(call->binding, status);
    return status == HR_OK;
}

static void call_end(call *call) {
    for (int i = 0; i < call->kernel->count; i++) {
        if (i < call->count) operand_release(&call->operands[i]);
        Py_CLEAR(call->results[i]);
    }
}

static PyObject *call_run(call *call) {
    if (!operands_read(call)) return NULL;
    if (call->redirected) return Py_NewRef(Py_NotImplemented);
    if (!device_find(call)) return NULL;
    const signature *signature = signature_find(call);
    if (!signature || !results_make(call, signature) || !execute(call)) return NULL;
    return results_pack(call);
}

PyObject *kernel_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    call call;
    if (count != 3 || !PyTuple_Check(arguments[0]) ||
        (arguments[1] != Py_None && !PyDict_Check(arguments[1]))) {
        PyErr_SetString(PyExc_TypeError, "call takes a tuple of arguments, a dict of named ones and `out`");
        return NULL;
    }
    call.kernel = (kernel_object *)self;
    call.binding = call.kernel->binding;
    call.count = 0;
    call.redirected = false;
    call.like = NULL;
    if (!arguments_take(&call, arguments[0], arguments[1], arguments[2])) return NULL;
    PyObject *result = call_run(&call);
    call_end(&call);
    return result;
}
