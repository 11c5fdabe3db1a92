/* What a reduction accumulates in, begins with and combines by, in C. See reduce.h. */
#include "emit/reduce.h"

const char *hr_reduce_type(hr_op op, hr_dtype type) {
    if (op != HR_OP_REDUCE_SUM) return hr_c_compute(type);
    return type == HR_F32 || type == HR_F64 ? "double" : "int64_t";
}

const char *hr_reduce_identity(hr_op op, hr_dtype type) {
    if (op == HR_OP_REDUCE_SUM) return "0";
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
    if (type == HR_BOOL) return hr_format(p, "%s %s %s", a, hr_op_seeks_largest(op) ? "||" : "&&", b);
    return hr_format(p, "%s_%s(%s, %s)", hr_type_prefix(type), hr_op_seeks_largest(op) ? "max" : "min", a, b);
}

const char *hr_reduce_combine_lanes(hr_printer *p, hr_op op, hr_dtype type, const char *a, const char *b) {
    if (op == HR_OP_REDUCE_SUM) return hr_format(p, "%s + %s", a, b);
    return hr_format(p, "%s_%s(%s, %s)", hr_lane_prefix(type), hr_op_seeks_largest(op) ? "max" : "min", a, b);
}
