/* C functions around bodies. In: a body. Out: the function. See function_c.h. */
#include "emit/c/function_c.h"

static void declare_tensor(hr_printer *p, int tensor) {
    const hr_tensor *t = &p->function->tensors[tensor];
    const char *name = hr_emit_tensor_name(p, tensor), *strides = hr_format(p, "%s_strides", name);
    if (p->plan->storage[tensor] != tensor || hr_emit_is_list(p, tensor)) return;
    if (hr_plan_is_in_strips(p->plan, tensor)) return; /* where it stands the stage knows */
    if (hr_is_used(p, name)) {
        if (hr_tensor_is_scalar(t))
            hr_print(p,
                     (p->forms & HR_FORM_CLEAN) && t->dtype == HR_F32 ? "const %s %s = f32_short_nan(a->%s);"
                                                                      : "const %s %s = a->%s;",
                     hr_c_compute(hr_compute_type(t->dtype)), name, name);
        else
            hr_print(p, "%s%s *const restrict %s = a->%s;", t->role == HR_ROLE_INPUT ? "const " : "",
                     hr_c_storage(t->dtype), name, name);
    }
    if (hr_is_used(p, strides)) hr_print(p, "const int64_t *const %s = a->%s;", strides, strides);
}

void hr_emit_extents_used(hr_printer *p, const char *source) {
    for (int e = 0; e < p->function->extent_count; e++) {
        const char *extent = hr_emit_extent_name(p, e);
        if (hr_is_used(p, extent)) hr_print(p, "const int64_t %s = %s%s;", extent, source, extent);
    }
}

void hr_emit_function(hr_printer *p, const char *type, const char *name, const char *parameters,
                      hr_text *body) {
    hr_print(p, "%s %s(%s) {", type, hr_define(p, HR_IDENTIFIER, name), parameters);
    p->indent++;
    hr_emit_extents_used(p, "a->");
    for (int t = 0; t < p->function->tensor_count; t++)
        declare_tensor(p, t);
    if (hr_is_used(p, "fault")) hr_print(p, "fault_record *const fault = a->fault;");
    p->indent--;
    hr_print_body(p, body);
    hr_print(p, "}");
    hr_print(p, "%s", "");
    hr_uses_begin(p);
}

/* ---- pieces of a list ---- */

void hr_list_c_loop(hr_printer *p, hr_text *body) {
    hr_print(p, "const pieces *const list = a->pieces;");
    hr_print(p, "const int64_t stop = list->count * (thread + 1) / threads;");
    hr_print(p, "for (int64_t number = list->count * thread / threads; number < stop; number++) {");
    p->indent++;
    hr_print(p, "const piece run = list->piece[number];");
    hr_print(p, "const int64_t first = 0, last = run.count;");
    for (int t = 0; t < p->function->tensor_count; t++) {
        const hr_tensor *tensor = &p->function->tensors[t];
        const char *name = hr_emit_tensor_name(p, t), *type = hr_c_storage(tensor->dtype);
        const char *constant = tensor->role == HR_ROLE_INPUT ? "const " : "";
        if (!hr_emit_is_list(p, t) || !hr_is_used(p, name)) continue;
        hr_print(p, "%s%s *const restrict %s = (%s%s *)a->%s[run.member] + run.start;", constant, type, name,
                 constant, type, name);
    }
    p->indent--;
    hr_print_body(p, body);
    hr_print(p, "}");
}
