/* The loop over the pieces of lists of arrays, in CUDA. See list_cuda.h and base/pieces.h.
 *
 * The body of a flat stage stands twice, for aligned arrays and for others, because a list may have both.
 */
#include "emit/cuda/list_cuda.h"

const char *hr_list_cuda_table(hr_printer *p) {
    for (int t = 0; t < p->function->tensor_count; t++)
        if (hr_emit_is_list(p, t))
            return hr_format(p, "((const pieces *)a.%s_strides[0])", hr_emit_tensor_name(p, t));
    return "";
}

/* Where the piece's elements are, of each list that the body uses; returns their addresses' bits in one. */
static const char *print_places(hr_printer *p) {
    const char *bits = NULL;
    for (int t = 0; t < p->function->tensor_count; t++) {
        const hr_tensor *tensor = &p->function->tensors[t];
        const char *name = hr_emit_tensor_name(p, t), *type = hr_c_storage(tensor->dtype);
        const char *constant = tensor->role == HR_ROLE_INPUT ? "const " : "";
        if (!hr_emit_is_list(p, t) || !hr_is_used(p, name)) continue;
        hr_print(p,
                 "%s%s *const __restrict__ %s = ((%s%s *const *)a.%s)[piece_now.member] + piece_now.start;",
                 constant, type, name, constant, type, name);
        bits = bits ? hr_format(p, "%s | (uint64_t)%s", bits, name) : hr_format(p, "(uint64_t)%s", name);
    }
    return bits ? bits : "0";
}

void hr_list_cuda_loop(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    int run = s->c->threads * s->c->groups;
    hr_text body;
    hr_print(p, "const pieces *const list = %s;", hr_list_cuda_table(p));
    hr_print(p, "for (int64_t number = blockIdx.x; number < list->count; number += gridDim.x) {");
    p->indent++;
    hr_text *out = hr_print_aside(p, &body);
    p->indent++;
    for (int pass = 0; pass < s->stage->pass_count; pass++)
        hr_cuda_print_pass(s, pass);
    p->indent--;
    hr_print_back(p, out);
    /* Every other stage goes backwards: it begins with what the one before left in the cache. */
    hr_print(p, s->number % 2 ? "const piece piece_now = list->run[list->count - 1 - number];"
                              : "const piece piece_now = list->run[number];");
    hr_print(p, "const int64_t total = piece_now.count;");
    const char *bits = print_places(p);
    for (int aligned = 1; aligned >= 0; aligned--) {
        if (aligned)
            hr_print(p, "if (((%s) & 15) == 0) {", bits);
        else
            hr_print(p, "} else {");
        hr_print(p, "    constexpr bool ALIGNED = %s;", aligned ? "true" : "false");
        hr_print(p, "    for (int64_t base = 0; base * %d < total; base += %d) {", s->c->vector, run);
        hr_text_append(out, hr_text_data(&body), body.length);
        hr_print(p, "    }");
    }
    hr_print(p, "}");
    if (body.failed) out->failed = true;
    p->indent--;
    hr_print(p, "}");
    hr_text_clear(&body);
}
