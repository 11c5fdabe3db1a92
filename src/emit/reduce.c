/* What a reduction accumulates in, begins with and combines by, in C. See reduce.h. */
#include "emit/reduce.h"

const char *hr_reduce_type(hr_op op, hr_dtype type) {
    if (op != HR_OP_REDUCE_SUM) return hr_c_compute(type);
    return type == HR_F32 || type == HR_F64 ? "double" : "int64_t";
}

const char *hr_reduce_identity(hr_op op, hr_dtype type) {
    if (op == HR_OP_REDUCE_SUM) return "0";
    if (op == HR_OP_REDUCE_PROD) return "1";
    bool largest = hr_op_seeks_largest(op);
    switch (type) {
    case HR_F64:
        return largest ? "-(double)INFINITY" : "(double)INFINITY";
    case HR_F32:
        return largest ? "-INFINITY" : "INFINITY";
    case HR_I64:
        return largest ? "INT64_MIN" : "INT64_MAX";
    case HR_I32:
        return largest ? "INT32_MIN" : "INT32_MAX";
    default:
        return largest ? "false" : "true";
    }
}

const char *hr_reduce_combine(hr_printer *p, hr_op op, hr_dtype type, const char *a, const char *b) {
    if (op == HR_OP_REDUCE_SUM) return hr_format(p, "%s + %s", a, b);
    if (op == HR_OP_REDUCE_PROD) return hr_format(p, "%s * %s", a, b);
    if (type == HR_BOOL) return hr_format(p, "%s %s %s", a, hr_op_seeks_largest(op) ? "||" : "&&", b);
    return hr_format(p, "%s_%s(%s, %s)", hr_type_prefix(type), hr_op_seeks_largest(op) ? "max" : "min", a, b);
}

const char *hr_reduce_combine_lanes(hr_printer *p, hr_op op, hr_dtype type, const char *a, const char *b) {
    if (op == HR_OP_REDUCE_SUM) return hr_format(p, "%s + %s", a, b);
    if (op == HR_OP_REDUCE_PROD) return hr_format(p, "%s * %s", a, b);
    return hr_format(p, "%s_%s(%s, %s)", hr_lane_prefix(type), hr_op_seeks_largest(op) ? "max" : "min", a, b);
}

/* ---- zeros before a result that is added into ---- */

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
    if (!hr_layout_has_strides(hr_plan_layout(p->plan, tensor))) {
        hr_print(p, "%s[%s] = 0;", name, flat);
        return;
    }
    hr_print(p, "int64_t rest = %s, place = 0;", flat);
    for (int a = t->rank - 1; a >= 0; a--) {
        const char *size = hr_emit_size(p, t->shape[a]);
        hr_print(p, "place += %s;", hr_emit_axis_offset(p, tensor, a, hr_format(p, "rest %% %s", size)));
        if (a) hr_print(p, "rest /= %s;", size);
    }
    hr_print(p, "%s[place] = 0;", name);
}

bool hr_scan_is_sum(const hr_expr *scan) {
    return scan->args[0]->op == HR_OP_NUMBER && (scan->args[0]->number == 1 || scan->args[0]->whole == 1);
}

void hr_emit_scan_place(hr_printer *p, const hr_expr *scan, int along, const char *at) {
    if (scan->op == HR_OP_SCAN_BACK)
        hr_print(p, "const int64_t %s = %s - 1 - (%s);", hr_emit_index(p, along),
                 hr_emit_index_size(p, along), at);
    else
        hr_print(p, "const int64_t %s = %s;", hr_emit_index(p, along), at);
}
