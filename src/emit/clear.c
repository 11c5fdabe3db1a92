/* Zeros before a result that is added into. In: a tensor. Out: text. See clear.h. */
#include "emit/clear.h"

const char *hr_emit_elements(hr_printer *p, int tensor) {
    const hr_tensor *t = &p->function->tensors[tensor];
    const char *size = "1";
    for (int a = 0; a < t->rank; a++)
        size = a ? hr_format(p, "%s * %s", size, hr_emit_size(p, t->shape[a])) : hr_emit_size(p, t->shape[a]);
    return size;
}

void hr_emit_clear_element(hr_printer *p, int tensor, const char *flat) {
    const hr_tensor *t = &p->function->tensors[tensor];
    const char *name = hr_emit_tensor(p, tensor);
    if (hr_plan_layout(p->plan, tensor) != HR_LAYOUT_STRIDED) {
        hr_print(p, "%s[%s] = 0;", name, flat);
        return;
    }
    hr_print(p, "int64_t rest = %s, place = 0;", flat);
    for (int a = t->rank - 1; a >= 0; a--) {
        const char *size = hr_emit_size(p, t->shape[a]);
        hr_print(p, "place += rest %% %s * %s_strides[%d];", size, name, a);
        if (a) hr_print(p, "rest /= %s;", size);
    }
    hr_print(p, "%s[place] = 0;", name);
}
