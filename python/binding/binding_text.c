/* Texts from texts and files: gradients and diagnoses. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* ---- gradients ---- */

/* gradient_text(path, text, name, of, wrt, save, recompute, new_name, accumulate, forward) -> (text, notes)
 */
PyObject *binding_gradient(PyObject *module, PyObject *arguments, PyObject *named) {
    static char *names[] = {"path",      "text",     "name",       "of",      "wrt", "save",
                            "recompute", "new_name", "accumulate", "forward", NULL};
    const binding *binding = PyModule_GetState(module);
    hr_gradient_options options = {.size = sizeof options};
    const char *path, *text, *name;
    Py_ssize_t length;
    int accumulate = 0, forward = 0;
    char *made = NULL, *notes = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "ss#z|zzzzzpp", names, &path, &text, &length, &name,
                                     &options.of, &options.wrt, &options.save, &options.recompute,
                                     &options.name, &accumulate, &forward))
        return NULL;
    options.accumulate = accumulate != 0;
    hr_status status = forward ? hr_gradient_forward_text(path, text, (size_t)length, name, &options, &made)
                               : hr_gradient_text(path, text, (size_t)length, name, &options, &made, &notes);
    if (status != HR_OK) return binding_fail(binding, status);
    PyObject *out = Py_BuildValue("(ss)", made, notes ? notes : "");
    free(made);
    free(notes);
    return out;
}

/* ---- diagnoses ---- */

typedef struct diagnosis_object {
    PyObject_HEAD binding *binding;
    hr_diagnosis *diagnosis;
} diagnosis_object;

static const char *const modes[] = {
    [HR_DIAGNOSE_AUTO] = "auto", [HR_DIAGNOSE_RANKS] = "ranks", [HR_DIAGNOSE_COMPARE] = "compare"};

static bool mode_find(const char *word, hr_diagnose_mode *out) {
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
        if (strcmp(modes[i], word) == 0) {
            *out = (hr_diagnose_mode)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "several files are \"auto\", \"ranks\" or \"compare\", not \"%s\"", word);
    return false;
}

/* The paths of a tuple of str; the bytes live as long as `kept`. */
static const char **paths_list(PyObject *tuple, PyObject **kept) {
    Py_ssize_t count = PyTuple_Size(tuple);
    const char **paths = PyMem_Calloc((size_t)count + 1, sizeof *paths);
    *kept = PyTuple_New(count);
    bool good = paths && *kept;
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(PyTuple_GetItem(tuple, i));
        good = bytes && PyTuple_SetItem(*kept, i, bytes) == 0;
        if (good) paths[i] = PyBytes_AsString(bytes);
    }
    if (good) return paths;
    PyMem_Free(paths);
    Py_CLEAR(*kept);
    return NULL;
}

/* diagnose(paths, mode) */
PyObject *binding_diagnose(PyObject *module, PyObject *arguments) {
    binding *binding = PyModule_GetState(module);
    hr_diagnose_options options = {.size = sizeof options};
    hr_diagnosis *diagnosis = NULL;
    PyObject *tuple, *kept;
    const char *mode;
    hr_status status;
    if (!PyArg_ParseTuple(arguments, "O!s", &PyTuple_Type, &tuple, &mode) || !mode_find(mode, &options.mode))
        return NULL;
    int count = (int)PyTuple_Size(tuple);
    const char **paths = paths_list(tuple, &kept);
    if (!paths) return NULL;
    Py_BEGIN_ALLOW_THREADS status = hr_diagnose(paths, count, &options, &diagnosis);
    Py_END_ALLOW_THREADS PyMem_Free(paths);
    Py_DECREF(kept);
    if (status != HR_OK) return binding_fail(binding, status);
    allocfunc allocate = PyType_GetSlot(binding->diagnosis_type, Py_tp_alloc);
    diagnosis_object *self = (diagnosis_object *)allocate(binding->diagnosis_type, 0);
    if (!self) {
        hr_diagnosis_destroy(diagnosis);
        return NULL;
    }
    self->binding = binding;
    self->diagnosis = diagnosis;
    return (PyObject *)self;
}

static void diagnosis_destroy(PyObject *self) {
    hr_diagnosis_destroy(((diagnosis_object *)self)->diagnosis);
    object_free(self);
}

static PyObject *diagnosis_report(PyObject *object, PyObject *arguments) {
    const diagnosis_object *self = (diagnosis_object *)object;
    const char *form;
    char *text = NULL;
    hr_report_style style = {.size = sizeof style, .unicode = true};
    if (!PyArg_ParseTuple(arguments, "si", &form, &style.width)) return NULL;
    const hr_diagnosis *diagnosis = self->diagnosis;
    hr_status status = strcmp(form, "text") == 0       ? hr_report_diagnosis_text(diagnosis, &style, &text)
                       : strcmp(form, "html") == 0     ? hr_report_diagnosis_html(diagnosis, &text)
                       : strcmp(form, "perfetto") == 0 ? hr_report_diagnosis_perfetto(diagnosis, &text)
                                                       : hr_report_diagnosis_json(diagnosis, &text);
    return status == HR_OK ? binding_text(text) : binding_fail(self->binding, status);
}

static PyObject *finding_dict(const hr_finding_info *info) {
    return Py_BuildValue("{szszszszszsdsdsd}", "id", info->id, "title", info->title, "remedy", info->remedy,
                         "code", info->code, "effort", info->effort, "gain", info->gain, "seconds_saved",
                         info->seconds_saved, "confidence", info->confidence);
}

static PyObject *diagnosis_findings(PyObject *object, void *nothing) {
    const diagnosis_object *self = (diagnosis_object *)object;
    int count = hr_diagnosis_finding_count(self->diagnosis);
    (void)nothing;
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        hr_finding_info info;
        hr_status status = hr_diagnosis_finding(self->diagnosis, i, &info);
        PyObject *one = status == HR_OK ? finding_dict(&info) : binding_fail(self->binding, status);
        if (!one || PyList_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *diagnosis_step(PyObject *object, void *nothing) {
    (void)nothing;
    return PyFloat_FromDouble(hr_diagnosis_step(((diagnosis_object *)object)->diagnosis));
}

static PyMethodDef diagnosis_methods[] = {
    {"report", diagnosis_report, METH_VARARGS, "report(form, width): text, json, html or perfetto."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef diagnosis_fields[] = {
    {"findings", diagnosis_findings, NULL, "a dict for each finding, the largest gain first", NULL},
    {"step", diagnosis_step, NULL, "seconds of a step", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot diagnosis_slots[] = {{Py_tp_doc, "What limits a program, and what to do."},
                                        {Py_tp_dealloc, (void *)diagnosis_destroy},
                                        {Py_tp_methods, diagnosis_methods},
                                        {Py_tp_getset, diagnosis_fields},
                                        {0, NULL}};
PyType_Spec diagnosis_spec = {.name = "headroom._headroom.Diagnosis",
                              .basicsize = sizeof(diagnosis_object),
                              .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              .slots = diagnosis_slots};
