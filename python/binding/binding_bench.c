/* What takes longer than a call: binding, tuning, checking, measuring, and the results of these.
 *
 * In: a Kernel and arrays by name. Out: Run objects, dicts and texts. One thread at a time: the package holds
 * a lock.
 */
#include "binding.h"

#include <string.h>

/* ---- binding ---- */

static int argument_find(const kernel_object *self, PyObject *name) {
    for (int i = 0; i < self->count; i++)
        if (PyUnicode_Compare(self->names[i], name) == 0) return i;
    PyErr_Format(PyExc_TypeError, "kernel %s has no argument `%U`", hr_kernel_name(self->kernel), name);
    return -1;
}

static void operand_capsule_free(PyObject *capsule) {
    operand *operand = PyCapsule_GetPointer(capsule, NULL);
    operand_release(operand);
    PyMem_Free(operand);
}

/* What holds the memory of a bound array: the array, and a capsule of what was read from it. */
static PyObject *holder_make(PyObject *object, operand *operand) {
    PyObject *capsule = PyCapsule_New(operand, NULL, operand_capsule_free);
    if (!capsule) {
        operand_release(operand);
        PyMem_Free(operand);
        return NULL;
    }
    PyObject *holder = PyTuple_Pack(2, object, capsule);
    Py_DECREF(capsule);
    return holder;
}

/* Reads an array for argument `i`, and gives what holds it; NULL and an exception where it is none. */
static PyObject *array_hold(kernel_object *self, int i, PyObject *object, hr_array *out) {
    operand *operand = PyMem_Calloc(1, sizeof *operand);
    if (!operand) return PyErr_NoMemory();
    if (!operand_read(self->binding, self->arguments[i].name, object, operand)) {
        PyMem_Free(operand);
        return NULL;
    }
    *out = operand->array;
    self->bound_by = operand->adapter;
    self->bound_device = operand->device;
    return holder_make(object, operand);
}

/* The device works on a stream of its own: what the framework has queued to fill the array ends first. */
static hr_status filled_wait(kernel_object *self, void *stream) {
    hr_device *device = self->device->device;
    if (self->bound_device == DEVICE_HOST || self->device->number == DEVICE_HOST) return HR_OK;
    hr_device_stream_set(device, stream);
    hr_status status = hr_device_synchronise(device);
    hr_device_stream_set(device, NULL);
    return status;
}

/* None, with `holder` kept for as long as the arrays are bound; or the exception of `status`. */
static PyObject *bound_keep(kernel_object *self, int i, const hr_array *array, hr_status status,
                            PyObject *holder) {
    hr_argument argument;
    void *stream = NULL;
    bool good = false;
    if (status == HR_BAD_INPUT && array && hr_kernel_argument(self->kernel, i, &argument) == HR_OK &&
        argument.rank == array->rank && argument.dtype != array->dtype)
        PyErr_SetString(self->binding->dtype_error, hr_last_error());
    else if (status != HR_OK)
        binding_fail(self->binding, status);
    else
        good = PyDict_SetItem(self->bound, self->names[i], holder) == 0 &&
               adapter_stream(self->bound_by, self->bound_device, &stream);
    Py_DECREF(holder);
    return good ? binding_none(self->binding, filled_wait(self, stream)) : NULL;
}

static PyObject *bind_array(kernel_object *self, int i, PyObject *object) {
    hr_array array;
    PyObject *holder = array_hold(self, i, object, &array);
    if (!holder) return NULL;
    return bound_keep(self, i, &array, hr_kernel_bind(self->kernel, self->arguments[i].name, &array), holder);
}

/* A tensor of one axis that is several arrays. */
static PyObject *bind_list(kernel_object *self, int i, PyObject *list) {
    Py_ssize_t count = PyList_Size(list);
    PyObject *holders = PyTuple_New(count);
    hr_array *arrays = PyMem_Calloc((size_t)count + 1, sizeof *arrays);
    bool good = holders && arrays;
    for (Py_ssize_t m = 0; m < count && good; m++) {
        PyObject *holder = array_hold(self, i, PyList_GetItem(list, m), &arrays[m]);
        good = holder && PyTuple_SetItem(holders, m, holder) == 0;
    }
    PyObject *result = NULL;
    if (good && !self->bound_by) self->bound_by = adapter_of(self->binding, Py_TYPE(Py_None));
    if (good && self->bound_by)
        result = bound_keep(self, i, count ? arrays : NULL,
                            hr_kernel_bind_list(self->kernel, self->arguments[i].name, arrays, (int)count),
                            holders);
    else
        Py_XDECREF(holders);
    PyMem_Free(arrays);
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    return result;
}

/* bind(name, value): an array, or a list of them, for a tensor; a number for a scalar. */
static PyObject *bind(PyObject *object, PyObject *arguments) {
    kernel_object *self = (kernel_object *)object;
    PyObject *name, *value;
    if (!PyArg_ParseTuple(arguments, "UO", &name, &value)) return NULL;
    int i = argument_find(self, name);
    if (i < 0) return NULL;
    if (self->arguments[i].rank > 0 || self->arguments[i].role != HR_ARGUMENT_INPUT)
        return PyList_Check(value) ? bind_list(self, i, value) : bind_array(self, i, value);
    double number = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return NULL;
    return binding_none(self->binding, hr_kernel_bind_scalar(self->kernel, self->arguments[i].name, number));
}

static PyObject *fill(PyObject *object, PyObject *arguments) {
    const kernel_object *self = (kernel_object *)object;
    unsigned long long seed;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "K", &seed)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_fill(self->kernel, seed);
    Py_END_ALLOW_THREADS return binding_none(self->binding, status);
}

/* ---- long work ---- */

static const char *const tunes[] = {[HR_TUNE_DEFAULT] = "default",
                                    [HR_TUNE_NONE] = "none",
                                    [HR_TUNE_QUICK] = "quick",
                                    [HR_TUNE_FULL] = "full"};

static bool tune_find(const char *word, hr_tune *out) {
    for (int i = 0; i < (int)(sizeof tunes / sizeof *tunes); i++)
        if (strcmp(tunes[i], word) == 0) {
            *out = (hr_tune)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "tuning is \"none\", \"quick\" or \"full\", not \"%s\"", word);
    return false;
}

/* Interrupts stop long work between two of its steps; their exception stays with this thread. */
static bool progress(void *context, const char *what, double done, double total) {
    (void)context, (void)what, (void)done, (void)total;
    PyGILState_STATE state = PyGILState_Ensure();
    const bool on = PyErr_CheckSignals() == 0;
    PyGILState_Release(state);
    return on;
}

static PyObject *prepare(PyObject *object, PyObject *arguments) {
    const kernel_object *self = (kernel_object *)object;
    hr_prepare_options options = {.size = sizeof options, .progress = progress};
    const char *tune;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "si", &tune, &options.threads) || !tune_find(tune, &options.tune))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_prepare(self->kernel, &options);
    Py_END_ALLOW_THREADS return binding_none(self->binding, status);
}

/* launch(): one execution on what is bound, on the framework's current stream. */
static PyObject *launch(PyObject *object, PyObject *nothing) {
    const kernel_object *self = (kernel_object *)object;
    void *stream = NULL;
    hr_status status;
    (void)nothing;
    if (self->bound_by && !adapter_stream(self->bound_by, self->bound_device, &stream)) return NULL;
    hr_device_stream_set(self->device->device, stream);
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_launch(self->kernel);
    Py_END_ALLOW_THREADS return binding_none(self->binding, status);
}

/* run(tune, seconds, threads) */
static PyObject *run(PyObject *object, PyObject *arguments) {
    const kernel_object *self = (kernel_object *)object;
    hr_run_options options = {.size = sizeof options, .progress = progress};
    hr_run_result *result;
    const char *tune;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "sdi", &tune, &options.seconds, &options.threads) ||
        !tune_find(tune, &options.tune))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_run(self->kernel, &options, &result);
    Py_END_ALLOW_THREADS return status == HR_OK ? run_wrap(self->binding, result)
                                                : binding_fail(self->binding, status);
}

static PyObject *explain(PyObject *object, PyObject *nothing) {
    const kernel_object *self = (kernel_object *)object;
    hr_run_result *result;
    (void)nothing;
    hr_status status = hr_kernel_explain(self->kernel, &result);
    return status == HR_OK ? run_wrap(self->binding, result) : binding_fail(self->binding, status);
}

static PyObject *plan(PyObject *object, PyObject *nothing) {
    const kernel_object *self = (kernel_object *)object;
    const char *words;
    (void)nothing;
    hr_status status = hr_kernel_plan(self->kernel, &words);
    return status == HR_OK ? PyUnicode_FromString(words) : binding_fail(self->binding, status);
}

static PyObject *source(PyObject *object, PyObject *nothing) {
    const kernel_object *self = (kernel_object *)object;
    const char *text, *header;
    (void)nothing;
    hr_status status = hr_kernel_source(self->kernel, &text, &header);
    return status == HR_OK ? Py_BuildValue("(ss)", text, header) : binding_fail(self->binding, status);
}

static PyObject *floor_dict(const hr_floor *floor) {
    return Py_BuildValue("{sdsssdsdsdsdsdsd}", "seconds", floor->seconds, "bound",
                         floor->bound ? floor->bound : "", "bytes", floor->bytes, "tensor_flops",
                         floor->tensor_flops, "vector_flops", floor->vector_flops, "special_ops",
                         floor->special_ops, "memory", floor->memory, "others", floor->others);
}

static PyObject *floor_of(PyObject *object, PyObject *nothing) {
    const kernel_object *self = (kernel_object *)object;
    hr_floor floor;
    hr_status status;
    (void)nothing;
    Py_BEGIN_ALLOW_THREADS status = hr_kernel_floor(self->kernel, &floor);
    Py_END_ALLOW_THREADS return status == HR_OK ? floor_dict(&floor) : binding_fail(self->binding, status);
}

static PyObject *check_dict(const hr_check *check) {
    return Py_BuildValue("{sOsLsdsdsssLsdssss}", "right", check->ok ? Py_True : Py_False, "points",
                         (long long)check->points, "max_error", check->max_error, "tolerance",
                         check->tolerance, "where", check->where, "compared", (long long)check->compared,
                         "relative_error", check->relative_error, "relative_where", check->relative_where,
                         "warning", check->warning);
}

/* A wrong result is an answer here, no exception. */
static PyObject *check(PyObject *object, PyObject *arguments) {
    const kernel_object *self = (kernel_object *)object;
    long long points;
    hr_check check;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "L", &points)) return NULL;
    Py_BEGIN_ALLOW_THREADS status =
        points ? hr_kernel_check(self->kernel, points, &check) : hr_kernel_check_all(self->kernel, &check);
    Py_END_ALLOW_THREADS if (status != HR_OK && status != HR_WRONG_RESULT) return binding_fail(self->binding,
                                                                                               status);
    return check_dict(&check);
}

PyMethodDef kernel_bench_methods[] = {
    {"call", (PyCFunction)(void (*)(void))kernel_call, METH_FASTCALL,
     "call(arguments, named, out): one execution."},
    {"bind", bind, METH_VARARGS,
     "bind(name, value): an array, or a list of them, for a tensor; a number for a scalar."},
    {"fill", fill, METH_VARARGS, "fill(seed): gives every unbound tensor memory and values."},
    {"prepare", prepare, METH_VARARGS, "prepare(tune, threads): plans, compiles and tunes."},
    {"launch", launch, METH_NOARGS, "launch(): one execution on what is bound."},
    {"run", run, METH_VARARGS, "run(tune, seconds, threads): tunes, checks and measures."},
    {"explain", explain, METH_NOARGS, "The plan and the floor, without running anything."},
    {"plan", plan, METH_NOARGS, "The plan in words."},
    {"source", source, METH_NOARGS, "The generated source and its header."},
    {"floor", floor_of, METH_NOARGS, "The least time that the device needs."},
    {"check", check, METH_VARARGS, "check(points): compares with the text's meaning in f64; 0: all."},
    {NULL, NULL, 0, NULL}};

/* ---- Run ---- */

typedef struct run_object {
    PyObject_HEAD binding *binding;
    hr_run_result *result;
} run_object;

PyObject *run_wrap(binding *binding, hr_run_result *result) {
    allocfunc allocate = PyType_GetSlot(binding->run_type, Py_tp_alloc);
    run_object *self = (run_object *)allocate(binding->run_type, 0);
    if (!self) {
        hr_run_result_destroy(result);
        return NULL;
    }
    self->binding = binding;
    self->result = result;
    return (PyObject *)self;
}

static void run_destroy(PyObject *self) {
    hr_run_result_destroy(((run_object *)self)->result);
    object_free(self);
}

/* report(form, width): "text", "json", "plan" (what explain prints, as JSON) or "html". */
static PyObject *run_report(PyObject *object, PyObject *arguments) {
    const run_object *self = (run_object *)object;
    const char *form;
    char *text = NULL;
    hr_report_style style = {.size = sizeof style, .unicode = true};
    if (!PyArg_ParseTuple(arguments, "si", &form, &style.width)) return NULL;
    hr_status status = strcmp(form, "text") == 0   ? hr_report_run_text(self->result, &style, &text)
                       : strcmp(form, "html") == 0 ? hr_report_run_html(self->result, &text)
                       : strcmp(form, "plan") == 0 ? hr_report_explain_json(self->result, &text)
                                                   : hr_report_run_json(self->result, &text);
    return status == HR_OK ? binding_text(text) : binding_fail(self->binding, status);
}

static PyMethodDef run_methods[] = {
    {"report", run_report, METH_VARARGS, "report(form, width): text, json, plan or html."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot run_slots[] = {{Py_tp_doc, "All that a report says of a run."},
                                  {Py_tp_dealloc, (void *)run_destroy},
                                  {Py_tp_methods, run_methods},
                                  {0, NULL}};
PyType_Spec run_spec = {.name = "headroom._headroom.Run",
                        .basicsize = sizeof(run_object),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = run_slots};
