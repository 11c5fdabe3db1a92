/* The loop over the pieces of a list, in C. See list_c.h. */
#include "emit/c/list_c.h"

#include "emit/c/function_c.h"
#include "emit/list_emit.h"

void hr_list_c_loop(hr_printer *p, hr_text *body) {
    hr_print(p, "const pieces *const list = a->pieces;");
    hr_print(p, "const int64_t stop = list->count * (thread + 1) / threads;");
    hr_print(p, "for (int64_t number = list->count * thread / threads; number < stop; number++) {");
    p->indent++;
    hr_print(p, "const piece run = list->piece[number];");
    hr_print(p, "const int64_t first = 0, last = run.count;");
    for (int t = 0; t < p->function->tensor_count; t++) {
        const hr_tensor *tensor = &p->function->tensors[t];
        const char *name = hr_emit_tensor(p, t), *type = hr_c_storage(tensor->dtype);
        const char *constant = tensor->role == HR_ROLE_INPUT ? "const " : "";
        if (!hr_emit_is_list(p, t) || !hr_emit_occurs(hr_text_data(body), name)) continue;
        hr_print(p, "%s%s *const restrict %s = (%s%s *)a->%s[run.member] + run.start;", constant, type, name,
                 constant, type, name);
    }
    p->indent--;
    hr_print_body(p, body);
    hr_print(p, "}");
}
