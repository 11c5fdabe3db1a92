/* The functions of a C file for its caller. In: a plan, through its printer. Out: text. See signature_c.h. */
#include "emit/c/signature_c.h"
#include "emit/expression.h"

static const struct {
    const char *type, *suffix;
    bool arrays;                   /* takes tensors, too */
    const char *last, *last_names; /* parameters after those of the kernel */
} functions[] = {
    [HR_C_SCRATCH] = {"int64_t", "_scratch", false, "int threads", "threads"},
    [HR_C_RUN] = {"int", "", true, "void *scratch, int threads", "scratch, threads"},
    [HR_C_TEAM] = {"int64_t", "_team", false, "int parts", "parts"},
    [HR_C_PART] = {"int", "_part", true, "void *scratch, void *team, int part, int parts",
                   "scratch, team, part, parts"},
};

const char *hr_emit_c_function(hr_printer *p, const char *name, hr_c_function function) {
    return hr_format(p, "%s%s", name, functions[function].suffix);
}

static void print_extents(hr_printer *p, hr_c_function function, const char *type) {
    for (int i = 0; i < p->function->extent_count && function != HR_C_TEAM; i++)
        hr_text_format(p->out, "%s%s, ", type, hr_emit_extent(p, i));
}

static int array_count(const hr_printer *p, hr_c_function function) {
    return functions[function].arrays ? hr_function_arguments(p->plan->source) : 0;
}

static bool is_strided(const hr_printer *p, int tensor) {
    return hr_layout_has_strides(p->plan->layouts[tensor]);
}

void hr_emit_c_signature(hr_printer *p, const char *name, hr_c_function function) {
    hr_text *out = p->out;
    hr_text_format(out, "%s %s(", functions[function].type, hr_emit_c_function(p, name, function));
    print_extents(p, function, "int64_t ");
    for (int t = 0; t < array_count(p, function); t++) {
        const hr_tensor *tensor = &p->function->tensors[t];
        const char *of = hr_emit_tensor(p, t);
        if (hr_tensor_is_scalar(tensor))
            hr_text_format(out, "%s %s, ", hr_c_compute(hr_compute_type(tensor->dtype)), of);
        else
            hr_text_format(out, "%s%s *%s, ", tensor->role == HR_ROLE_INPUT ? "const " : "",
                           hr_c_storage(tensor->dtype), of);
        if (is_strided(p, t)) hr_text_format(out, "const int64_t *%s_strides, ", of);
    }
    hr_text_format(out, "%s)", functions[function].last);
}

void hr_emit_c_arguments(hr_printer *p, hr_c_function function) {
    print_extents(p, function, "");
    for (int t = 0; t < array_count(p, function); t++) {
        hr_text_format(p->out, "%s, ", hr_emit_tensor(p, t));
        if (is_strided(p, t)) hr_text_format(p->out, "%s_strides, ", hr_emit_tensor(p, t));
    }
    hr_text_format(p->out, "%s", functions[function].last_names);
}
