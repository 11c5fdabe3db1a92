/* Devices and kernels as Python objects: opening, loading, what a kernel's text declares. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* ---- Device ---- */

static PyObject *device_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"name", NULL};
    const char *name;
    hr_device *device;
    hr_status status;
    binding *binding = PyType_GetModuleState(type);
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "z", names, &name)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_device_open(name, &device);
    Py_END_ALLOW_THREADS if (status != HR_OK) return binding_fail(binding, status);
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    device_object *self = (device_object *)allocate(type, 0);
    if (!self) {
        hr_device_destroy(device);
        return NULL;
    }
    self->binding = binding;
    self->device = device;
    self->number = DEVICE_HOST;
    if (strcmp(hr_device_kind(device), "cuda") == 0)
        self->number = name && strncmp(name, "cuda:", 5) == 0 ? atoi(name + 5) : 0;
    return (PyObject *)self;
}

static void device_destroy(PyObject *self) {
    hr_device_destroy(((device_object *)self)->device);
    object_free(self);
}

static PyObject *device_kind(PyObject *self, void *nothing) {
    (void)nothing;
    return PyUnicode_FromString(hr_device_kind(((device_object *)self)->device));
}

static PyObject *device_name(PyObject *self, void *nothing) {
    (void)nothing;
    return PyUnicode_FromString(hr_device_name(((device_object *)self)->device));
}

static PyObject *roof_report(const device_object *self, const hr_roof *roof, const char *form) {
    char *text = NULL;
    hr_status status = strcmp(form, "text") == 0   ? hr_report_roof_text(self->device, roof, NULL, &text)
                       : strcmp(form, "html") == 0 ? hr_report_roof_html(self->device, roof, &text)
                                                   : hr_report_roof_json(self->device, roof, &text);
    return status == HR_OK ? binding_text(text) : binding_fail(self->binding, status);
}

/* roof(again, form): what the device can do at best, measured once and kept. */
static PyObject *device_roof(PyObject *self, PyObject *arguments) {
    device_object *device = (device_object *)self;
    int again;
    const char *form;
    hr_roof roof;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "ps", &again, &form)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_device_roof(device->device, again != 0, NULL, NULL, &roof);
    Py_END_ALLOW_THREADS return status == HR_OK ? roof_report(device, &roof, form)
                                                : binding_fail(device->binding, status);
}

static PyObject *device_synchronise(PyObject *self, PyObject *nothing) {
    device_object *device = (device_object *)self;
    hr_status status;
    (void)nothing;
    Py_BEGIN_ALLOW_THREADS status = hr_device_synchronise(device->device);
    Py_END_ALLOW_THREADS return binding_none(device->binding, status);
}

static PyMethodDef device_methods[] = {
    {"roof", device_roof, METH_VARARGS, "roof(again, form): the measured roof as text, json or html."},
    {"synchronise", device_synchronise, METH_NOARGS, "Waits for all launches."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef device_fields[] = {{"kind", device_kind, NULL, "cpu or cuda", NULL},
                                      {"name", device_name, NULL, "the product's name", NULL},
                                      {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot device_slots[] = {{Py_tp_doc, "Device(name): one of \"cpu\", \"cuda:0\", ..."},
                                     {Py_tp_new, (void *)device_new},
                                     {Py_tp_dealloc, (void *)device_destroy},
                                     {Py_tp_methods, device_methods},
                                     {Py_tp_getset, device_fields},
                                     {0, NULL}};
PyType_Spec device_spec = {.name = "headroom._headroom.Device",
                           .basicsize = sizeof(device_object),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = device_slots};

/* ---- loading ---- */

static int dtype_find(const char *name) {
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        if (strcmp(hr_dtype_name((hr_dtype)i), name) == 0) return i;
    return -1;
}

/* Extents have whole numbers, dtype variables the names of dtypes. */
static bool give(const kernel_object *self, hr_kernel *kernel) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(self->given, &at, &key, &value)) {
        PyObject *name = PyUnicode_AsUTF8String(key), *word = NULL;
        hr_status status = HR_OK;
        if (!name) return false;
        if (PyUnicode_Check(value)) {
            word = PyUnicode_AsUTF8String(value);
            int dtype = word ? dtype_find(PyBytes_AsString(word)) : -1;
            if (dtype >= 0)
                status = hr_kernel_bind_dtype(kernel, PyBytes_AsString(name), (hr_dtype)dtype);
            else if (word)
                PyErr_Format(PyExc_ValueError, "%R is no dtype of the language", value);
        } else {
            long long extent = PyLong_AsLongLong(value);
            if (!PyErr_Occurred()) status = hr_kernel_bind_extent(kernel, PyBytes_AsString(name), extent);
        }
        Py_DECREF(name);
        Py_XDECREF(word);
        if (status != HR_OK) binding_fail(self->binding, status);
        if (PyErr_Occurred()) return false;
    }
    return true;
}

bool kernel_load(kernel_object *self, hr_kernel **out) {
    const char *path, *text, *name;
    Py_ssize_t length;
    hr_kernel *kernel;
    if (!PyArg_ParseTuple(self->source, "ss#z", &path, &text, &length, &name)) return false;
    hr_status status = hr_kernel_load(self->device->device, path, text, (size_t)length, name, &kernel);
    if (status != HR_OK) return binding_fail(self->binding, status), false;
    if (!give(self, kernel)) {
        hr_kernel_destroy(kernel);
        return false;
    }
    *out = kernel;
    return true;
}

/* ---- Kernel ---- */

static bool arguments_list(kernel_object *self) {
    self->count = hr_kernel_argument_count(self->kernel);
    if (self->count > ARGUMENT_MOST) {
        PyErr_Format(PyExc_ValueError, "kernel %s has %d arguments; at most %d can be given",
                     hr_kernel_name(self->kernel), self->count, ARGUMENT_MOST);
        self->count = 0;
        return false;
    }
    for (int i = 0; i < self->count; i++) {
        hr_status status = hr_kernel_argument(self->kernel, i, &self->arguments[i]);
        if (status != HR_OK) return binding_fail(self->binding, status), false;
        self->names[i] = PyUnicode_InternFromString(self->arguments[i].name);
        if (!self->names[i]) return false;
        self->inputs += self->arguments[i].role != HR_ARGUMENT_RESULT;
    }
    return true;
}

static PyObject *kernel_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    static char *names[] = {"device", "source", "given", "route", "pack", NULL};
    binding *binding = PyType_GetModuleState(type);
    PyObject *device, *source, *given, *route, *pack;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!O!OO", names, binding->device_type, &device,
                                     &PyTuple_Type, &source, &PyDict_Type, &given, &route, &pack))
        return NULL;
    allocfunc allocate = PyType_GetSlot(type, Py_tp_alloc);
    kernel_object *self = (kernel_object *)allocate(type, 0);
    if (!self) return NULL;
    self->binding = binding;
    self->device = (device_object *)Py_NewRef(device);
    self->source = Py_NewRef(source);
    self->given = Py_NewRef(given);
    self->route = Py_NewRef(route);
    self->pack = Py_NewRef(pack);
    self->bound = PyDict_New();
    if (self->bound && kernel_load(self, &self->kernel) && arguments_list(self)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int kernel_traverse(PyObject *self, visitproc visit, void *arg) {
    const kernel_object *kernel = (kernel_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(kernel->route);
    Py_VISIT(kernel->pack);
    Py_VISIT(kernel->bound);
    return 0;
}

static int kernel_clear(PyObject *self) {
    kernel_object *kernel = (kernel_object *)self;
    Py_CLEAR(kernel->route);
    Py_CLEAR(kernel->pack);
    return 0;
}

static void kernel_destroy(PyObject *self) {
    kernel_object *kernel = (kernel_object *)self;
    PyObject_GC_UnTrack(self);
    signatures_clear(kernel);
    hr_kernel_destroy(kernel->asker);
    hr_kernel_destroy(kernel->kernel);
    kernel_clear(self);
    for (int i = 0; i < kernel->count; i++)
        Py_CLEAR(kernel->names[i]);
    Py_CLEAR(kernel->bound); /* after the kernel that uses their memory */
    Py_CLEAR(kernel->source);
    Py_CLEAR(kernel->given);
    Py_CLEAR(kernel->device);
    object_free(self);
}

/* ---- what the text declares ---- */

/* One axis as arithmetic in the language: "M", "(2 * N)". */
static PyObject *axis_words(const kernel_object *self, int i, int axis) {
    enum { STEPS = 128 };
    static const char *const signs[] = {
        [HR_SHAPE_ADD] = "+", [HR_SHAPE_SUB] = "-", [HR_SHAPE_MUL] = "*", [HR_SHAPE_FLOORDIV] = "//"};
    hr_shape_step steps[STEPS];
    PyObject *stack[STEPS];
    int count = 0, depth = 0;
    hr_status status = hr_argument_shape(self->kernel, i, axis, steps, STEPS, &count);
    if (status != HR_OK) return binding_fail(self->binding, status);
    for (int s = 0; s < count; s++) {
        PyObject *words;
        if (steps[s].op == HR_SHAPE_NUMBER)
            words = PyUnicode_FromFormat("%lld", (long long)steps[s].value);
        else if (steps[s].op == HR_SHAPE_EXTENT)
            words = PyUnicode_FromString(hr_kernel_extent_name(self->kernel, (int)steps[s].value));
        else {
            depth -= 2;
            words = PyUnicode_FromFormat("(%U %s %U)", stack[depth], signs[steps[s].op], stack[depth + 1]);
            Py_DECREF(stack[depth]);
            Py_DECREF(stack[depth + 1]);
        }
        if (!words) {
            while (depth)
                Py_DECREF(stack[--depth]);
            return NULL;
        }
        stack[depth++] = words;
    }
    return stack[0];
}

static PyObject *argument_describe(const kernel_object *self, int i) {
    static const char *const roles[] = {"input", "inout", "result"};
    const hr_argument *argument = &self->arguments[i];
    PyObject *axes = PyTuple_New(argument->rank);
    for (int axis = 0; axes && axis < argument->rank; axis++) {
        PyObject *words = axis_words(self, i, axis);
        if (!words || PyTuple_SetItem(axes, axis, words) < 0) Py_CLEAR(axes);
    }
    PyObject *start =
        argument->has_default ? PyFloat_FromDouble(argument->default_value) : Py_NewRef(Py_None);
    if (!axes || !start) {
        Py_XDECREF(axes);
        Py_XDECREF(start);
        return NULL;
    }
    return Py_BuildValue("(OssNNii)", self->names[i], roles[argument->role],
                         argument->dtype_variable ? argument->dtype_variable : hr_dtype_name(argument->dtype),
                         axes, start, argument->line, argument->column);
}

static PyObject *kernel_arguments(PyObject *self, void *nothing) {
    const kernel_object *kernel = (kernel_object *)self;
    (void)nothing;
    PyObject *list = PyTuple_New(kernel->count);
    for (int i = 0; list && i < kernel->count; i++) {
        PyObject *one = argument_describe(kernel, i);
        if (!one || PyTuple_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *names_list(const hr_kernel *kernel, int count,
                            const char *(*name)(const hr_kernel *kernel, int i)) {
    PyObject *list = PyTuple_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *one = PyUnicode_FromString(name(kernel, i));
        if (!one || PyTuple_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *kernel_extents(PyObject *self, void *nothing) {
    const hr_kernel *kernel = ((kernel_object *)self)->kernel;
    (void)nothing;
    return names_list(kernel, hr_kernel_extent_count(kernel), hr_kernel_extent_name);
}

static PyObject *kernel_variables(PyObject *self, void *nothing) {
    const hr_kernel *kernel = ((kernel_object *)self)->kernel;
    (void)nothing;
    return names_list(kernel, hr_kernel_dtype_count(kernel), hr_kernel_dtype_name);
}

static PyObject *kernel_name(PyObject *self, void *nothing) {
    (void)nothing;
    return PyUnicode_FromString(hr_kernel_name(((kernel_object *)self)->kernel));
}

static PyObject *kernel_address(PyObject *self, void *nothing) {
    (void)nothing;
    return PyLong_FromVoidPtr(((kernel_object *)self)->kernel);
}

static PyGetSetDef kernel_fields[] = {
    {"address", kernel_address, NULL, "of the hr_kernel, for as long as this object lives", NULL},
    {"name", kernel_name, NULL, "the kernel's name in the text", NULL},
    {"arguments", kernel_arguments, NULL, "(name, role, dtype, axes, default, line, column) of each", NULL},
    {"extents", kernel_extents, NULL, "names of extents", NULL},
    {"variables", kernel_variables, NULL, "names of dtype variables", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "Kernel(device, source, given, route, pack): a kernel of a text, loaded for a device."},
    {Py_tp_new, (void *)kernel_new},
    {Py_tp_dealloc, (void *)kernel_destroy},
    {Py_tp_traverse, (void *)kernel_traverse},
    {Py_tp_clear, (void *)kernel_clear},
    {Py_tp_methods, kernel_bench_methods},
    {Py_tp_getset, kernel_fields},
    {0, NULL}};
PyType_Spec kernel_spec = {.name = "headroom._headroom.Kernel",
                           .basicsize = sizeof(kernel_object),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           .slots = kernel_slots};
