/* A recording of this process, from begin to end. */
#include "binding.h"

typedef struct recording_object {
    PyObject_HEAD binding *binding;
    hr_recording *recording;
} recording_object;

/* record_begin(output, seconds, from_range, steps) */
PyObject *binding_record_begin(PyObject *module, PyObject *arguments) {
    binding *binding = PyModule_GetState(module);
    hr_record_options options = {.size = sizeof options};
    PyObject *output;
    long long steps;
    if (!PyArg_ParseTuple(arguments, "O&dzL", PyUnicode_FSConverter, &output, &options.seconds,
                          &options.from_range, &steps))
        return NULL;
    options.output = PyBytes_AsString(output);
    options.steps = steps;
    allocfunc allocate = PyType_GetSlot(binding->recording_type, Py_tp_alloc);
    recording_object *self = (recording_object *)allocate(binding->recording_type, 0);
    hr_status status = self ? hr_recording_begin(&options, &self->recording) : HR_OUT_OF_MEMORY;
    Py_DECREF(output);
    if (!self) return NULL;
    self->binding = binding;
    if (status == HR_OK) return (PyObject *)self;
    binding_fail(binding, status);
    Py_DECREF(self);
    return NULL;
}

static PyObject *file_dict(const hr_recorded_file *file) {
    PyObject *path = PyUnicode_DecodeFSDefault(file->path);
    if (!path) return NULL;
    return Py_BuildValue("{sNsisLsLsLsLsLsz}", "path", path, "rank", file->rank, "process",
                         (long long)file->process, "kernels", (long long)file->kernels, "calls",
                         (long long)file->calls, "ranges", (long long)file->ranges, "dropped",
                         (long long)file->dropped, "notes", file->notes);
}

/* end() -> a dict for each file */
static PyObject *recording_end(PyObject *object, PyObject *nothing) {
    const recording_object *self = (recording_object *)object;
    hr_status status;
    (void)nothing;
    Py_BEGIN_ALLOW_THREADS status = hr_recording_end(self->recording);
    Py_END_ALLOW_THREADS if (status != HR_OK) return binding_fail(self->binding, status);
    int count = hr_recording_file_count(self->recording);
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *one = file_dict(hr_recording_file(self->recording, i));
        if (!one || PyList_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static void recording_destroy(PyObject *self) {
    hr_recording_destroy(((recording_object *)self)->recording);
    object_free(self);
}

static PyMethodDef recording_methods[] = {
    {"end", recording_end, METH_NOARGS, "end(): writes the files; a dict for each."}, {NULL, NULL, 0, NULL}};
static PyType_Slot recording_slots[] = {{Py_tp_doc, "A recording of this process."},
                                        {Py_tp_dealloc, (void *)recording_destroy},
                                        {Py_tp_methods, recording_methods},
                                        {0, NULL}};
PyType_Spec recording_spec = {.name = "headroom._headroom.Recording",
                              .basicsize = sizeof(recording_object),
                              .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              .slots = recording_slots};
