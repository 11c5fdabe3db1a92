/* The module itself: exceptions, types, functions that belong to no object. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

/* status, name, the builtin that it also is, what it says */
#define EXCEPTIONS(X)                                                                                        \
    X(WRONG_RESULT, "WrongResult", PyExc_ArithmeticError, "A result differs from the text's meaning.")       \
    X(BAD_INPUT, "InputError", PyExc_ValueError, "A text, an array or an option cannot be used as it is.")   \
    X(OUT_OF_RANGE, "OutOfRange", PyExc_IndexError, "A subscript left its axis while the kernel ran.")       \
    X(NOT_AVAILABLE, "NotAvailable", PyExc_RuntimeError,                                                     \
      "The device, or a tool that it needs, is not there.")                                                  \
    X(OUT_OF_MEMORY, "OutOfMemory", PyExc_MemoryError, "There is not enough memory.")                        \
    X(IO, "FileError", PyExc_OSError, "A file could not be read or written.")                                \
    X(CANCELLED, "Cancelled", PyExc_RuntimeError, "Stopped by the caller.")                                  \
    X(INTERNAL, "InternalError", PyExc_RuntimeError, "A fault in headroom itself.")

PyObject *binding_fail(const binding *binding, hr_status status) {
    if (PyErr_Occurred()) return NULL; /* from a callback */
    PyObject *kind = (unsigned)status < STATUS_COUNT ? binding->errors[status] : NULL;
    PyErr_SetString(kind ? kind : binding->error, hr_last_error());
    return NULL;
}

PyObject *binding_none(const binding *binding, hr_status status) {
    if (status != HR_OK) return binding_fail(binding, status);
    return Py_NewRef(Py_None);
}

PyObject *binding_text(char *text) {
    PyObject *out = text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : NULL;
    free(text);
    return out;
}

/* headroom.NAME, derived from Error and from a builtin, so that either may be caught. */
static PyObject *exception_make(PyObject *module, const char *name, PyObject *bases, const char *words) {
    char full[64];
    PyOS_snprintf(full, sizeof full, "headroom.%s", name);
    PyObject *made = PyErr_NewExceptionWithDoc(full, words, bases, NULL);
    if (made && PyModule_AddObjectRef(module, name, made) < 0) Py_CLEAR(made);
    return made;
}

static PyObject *exception_derive(PyObject *module, const binding *binding, const char *name,
                                  PyObject *builtin, const char *words) {
    PyObject *bases = PyTuple_Pack(2, binding->error, builtin);
    PyObject *made = bases ? exception_make(module, name, bases, words) : NULL;
    Py_XDECREF(bases);
    return made;
}

static int exceptions_make(PyObject *module, binding *binding) {
    binding->error = exception_make(module, "Error", PyExc_Exception, "What headroom could not do, and why.");
    if (!binding->error) return -1;
#define EXCEPTION(status, name, builtin, words)                                                              \
    binding->errors[HR_##status] = exception_derive(module, binding, name, builtin, words);                  \
    if (!binding->errors[HR_##status]) return -1;
    EXCEPTIONS(EXCEPTION)
#undef EXCEPTION
    binding->dtype_error = exception_derive(module, binding, "DtypeError", PyExc_TypeError,
                                            "An array has another dtype than the text declares.");
    return binding->dtype_error ? 0 : -1;
}

/* ---- functions ---- */

static PyObject *adapter_maker_set(PyObject *module, PyObject *maker) {
    binding *binding = PyModule_GetState(module);
    PyObject *before = binding->adapter_make;
    binding->adapter_make = Py_NewRef(maker);
    Py_XDECREF(before);
    return Py_NewRef(Py_None);
}

static PyObject *version(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyUnicode_FromString(hr_version());
}

static PyObject *dtype_names(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    PyObject *names = PyTuple_New(HR_DTYPE_COUNT);
    for (int i = 0; names && i < HR_DTYPE_COUNT; i++) {
        PyObject *name = PyUnicode_InternFromString(hr_dtype_name((hr_dtype)i));
        if (!name || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

static PyObject *library_folder(PyObject *module, PyObject *nothing) {
    char folder[4096];
    (void)nothing;
    hr_status status = hr_library_folder(folder, sizeof folder);
    return status == HR_OK ? PyUnicode_DecodeFSDefault(folder)
                           : binding_fail(PyModule_GetState(module), status);
}

static PyMethodDef functions[] = {
    {"adapter_maker_set", adapter_maker_set, METH_O,
     "Names the callable that makes an Adapter for a type of arrays at its first sight."},
    {"version", version, METH_NOARGS, "The library's version."},
    {"library_folder", library_folder, METH_NOARGS, "Where the library's kernels lie."},
    {"dtype_names", dtype_names, METH_NOARGS, "The names of the language's dtypes, by their numbers."},
    {"diagnose", binding_diagnose, METH_VARARGS, "Reads traces and says what limits the program."},
    {"record_begin", binding_record_begin, METH_VARARGS, "Records this process from now on."},
    {"gradient_text", (PyCFunction)(void (*)(void))binding_gradient, METH_VARARGS | METH_KEYWORDS,
     "The gradient of a kernel as a text, and notes."},
    {"xla_handler", binding_xla_handler, METH_O,
     "The custom call that JAX compiles into its programs, on this platform."},
    {NULL, NULL, 0, NULL}};

/* ---- the module ---- */

static int types_make(PyObject *module, binding *binding) {
    const struct {
        PyType_Spec *spec;
        PyTypeObject **place;
    } types[] = {{&adapter_spec, &binding->adapter_type},     {&device_spec, &binding->device_type},
                 {&kernel_spec, &binding->kernel_type},       {&run_spec, &binding->run_type},
                 {&diagnosis_spec, &binding->diagnosis_type}, {&recording_spec, &binding->recording_type},
                 {&fixed_spec, &binding->fixed_type}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        *types[i].place = (PyTypeObject *)PyType_FromModuleAndSpec(module, types[i].spec, NULL);
        if (!*types[i].place || PyModule_AddType(module, *types[i].place) < 0) return -1;
    }
    return 0;
}

static int module_make(PyObject *module) {
    binding *binding = PyModule_GetState(module);
    binding->adapters = PyDict_New();
    if (!binding->adapters) return -1;
#define NAME_MAKE(name)                                                                                      \
    binding->name_##name = PyUnicode_InternFromString(#name);                                                \
    if (!binding->name_##name) return -1;
    BINDING_NAMES(NAME_MAKE)
#undef NAME_MAKE
    if (exceptions_make(module, binding) < 0) return -1;
    return types_make(module, binding);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    binding *binding = PyModule_GetState(module);
    Py_VISIT(binding->adapters);
    Py_VISIT(binding->adapter_make);
    return 0;
}

static int module_clear(PyObject *module) {
    binding *binding = PyModule_GetState(module);
    Py_CLEAR(binding->adapters);
    Py_CLEAR(binding->adapter_make);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)module_make}, {0, NULL}};

static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "headroom._headroom",
                                 .m_doc = "The C API of headroom as Python objects.",
                                 .m_size = sizeof(binding),
                                 .m_methods = functions,
                                 .m_slots = slots,
                                 .m_traverse = module_traverse,
                                 .m_clear = module_clear};

PyMODINIT_FUNC PyInit__headroom(void) {
    return PyModuleDef_Init(&definition);
}

void object_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}
