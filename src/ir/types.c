/* Types of operations. In: an operation and what its arguments are. Out: what they become, and its own type.
 */
#include "ir/types.h"

#define PRODUCT_POWER_MAX 64 /* whole powers beyond are computed by exp and log */

hr_dtype hr_compute_type(hr_dtype dtype) {
    switch (dtype) {
    case HR_F64:
    case HR_I64:
    case HR_BOOL:
        return dtype;
    case HR_I32:
    case HR_I16:
    case HR_I8:
    case HR_U8:
        return HR_I32;
    default:
        return HR_F32;
    }
}

hr_argument_type hr_argument_type_of(const hr_expr *expr) {
    return (hr_argument_type){
        .type = expr->type, .weak = expr->op == HR_OP_NUMBER && expr->type != HR_BOOL, .whole = expr->whole};
}

/* ---- which type two arguments meet in ---- */

static int width(hr_dtype type) {
    return type == HR_F64 ? 4 : type == HR_F32 ? 3 : type == HR_I64 ? 2 : type == HR_I32 ? 1 : 0;
}

static hr_dtype at_least(hr_dtype type, hr_dtype least) {
    return width(type) < width(least) ? least : type;
}

static hr_dtype float_of(hr_dtype type) {
    return type == HR_F64 ? HR_F64 : HR_F32;
}

static hr_dtype weak_meets(const hr_argument_type *weak, hr_dtype other) {
    if (hr_type_is_float(weak->type)) return at_least(other, HR_F32);
    if (hr_type_is_float(other)) return other;
    const bool fits = weak->whole >= INT32_MIN && weak->whole <= INT32_MAX;
    return fits ? at_least(other, HR_I32) : HR_I64;
}

static hr_dtype common(int count, const hr_argument_type *args) {
    hr_dtype type = HR_BOOL;
    int strong = 0;
    for (int i = 0; i < count; i++) {
        if (args[i].weak) continue;
        type = at_least(args[i].type, type);
        strong++;
    }
    for (int i = 0; i < count; i++)
        if (args[i].weak) type = strong ? weak_meets(&args[i], type) : at_least(args[i].type, type);
    return type;
}

/* ---- operations ---- */

static hr_op_types all(hr_dtype args, hr_dtype result) {
    return (hr_op_types){{args, args, args}, result};
}

static hr_op_types power(const hr_argument_type *args) {
    const hr_argument_type *base = &args[0], *exponent = &args[1];
    const bool product = exponent->weak && exponent->type == HR_I64 && exponent->whole <= PRODUCT_POWER_MAX &&
                         exponent->whole >= (hr_type_is_float(base->type) ? -PRODUCT_POWER_MAX : 0);
    const hr_dtype type = product ? at_least(base->type, HR_I32) : float_of(common(2, args));
    return (hr_op_types){{type, product ? HR_I64 : type}, type};
}

hr_op_types hr_op_types_of(hr_op op, int count, const hr_argument_type *args) {
    const hr_dtype type = common(count, args), number = at_least(type, HR_I32);
    switch (op) {
    case HR_OP_POW:
        return power(args);
    case HR_OP_LT:
    case HR_OP_LE:
    case HR_OP_GT:
    case HR_OP_GE:
    case HR_OP_EQ:
    case HR_OP_NE:
        return all(number, HR_BOOL);
    case HR_OP_AND:
    case HR_OP_OR:
    case HR_OP_NOT:
        return all(HR_BOOL, HR_BOOL);
    case HR_OP_WHERE: {
        const hr_dtype sides = common(2, args + 1);
        return (hr_op_types){{HR_BOOL, sides, sides}, sides};
    }
    case HR_OP_RANDOM:
        return all(HR_I64, HR_F32);
    case HR_OP_FLOOR:
    case HR_OP_CEIL:
    case HR_OP_ROUND:
    case HR_OP_STOP:
        return all(type, type);
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
    case HR_OP_FLOORDIV:
    case HR_OP_MOD:
    case HR_OP_NEG:
    case HR_OP_ABS:
    case HR_OP_RELU:
    case HR_OP_MIN:
    case HR_OP_MAX:
    case HR_OP_CLAMP:
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_MIN:
        return all(number, number);
    case HR_OP_REDUCE_SUM:
        return all(number, hr_type_is_float(number) ? number : HR_I64);
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        return all(number, HR_I64);
    default: /* division; exp and its kin; mean, logsumexp, softmax */
        return all(float_of(type), float_of(type));
    }
}
