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

/* What an operation makes of its arguments' common type. */
typedef enum rule {
    FLOATS,     /* division; exp and its kin; mean, logsumexp, softmax */
    NUMBERS,    /* of at least i32, and so is the result */
    KEEPS,      /* as they are */
    COMPARES,   /* numbers to a condition */
    CONDITIONS, /* to a condition */
    SUMS,       /* of whole numbers in i64 */
    MULTIPLIES, /* whole numbers as i64 */
    FINDS,      /* numbers to a position */
    CHOOSES,    /* a condition and two sides */
    DRAWS,      /* whole numbers to f32 */
    POWERS
} rule;

static const unsigned char rules[HR_OP_COUNT] = {
    [HR_OP_ADD] = NUMBERS,          [HR_OP_SUB] = NUMBERS,
    [HR_OP_MUL] = NUMBERS,          [HR_OP_FLOORDIV] = NUMBERS,
    [HR_OP_MOD] = NUMBERS,          [HR_OP_NEG] = NUMBERS,
    [HR_OP_ABS] = NUMBERS,          [HR_OP_RELU] = NUMBERS,
    [HR_OP_MIN] = NUMBERS,          [HR_OP_MAX] = NUMBERS,
    [HR_OP_CLAMP] = NUMBERS,        [HR_OP_REDUCE_MAX] = NUMBERS,
    [HR_OP_REDUCE_MIN] = NUMBERS,   [HR_OP_POW] = POWERS,
    [HR_OP_LT] = COMPARES,          [HR_OP_LE] = COMPARES,
    [HR_OP_GT] = COMPARES,          [HR_OP_GE] = COMPARES,
    [HR_OP_EQ] = COMPARES,          [HR_OP_NE] = COMPARES,
    [HR_OP_AND] = CONDITIONS,       [HR_OP_OR] = CONDITIONS,
    [HR_OP_NOT] = CONDITIONS,       [HR_OP_FLOOR] = KEEPS,
    [HR_OP_CEIL] = KEEPS,           [HR_OP_ROUND] = KEEPS,
    [HR_OP_STOP] = KEEPS,           [HR_OP_REDUCE_SUM] = SUMS,
    [HR_OP_REDUCE_ARGMAX] = FINDS,  [HR_OP_REDUCE_ARGMIN] = FINDS,
    [HR_OP_BIT_AND] = NUMBERS,      [HR_OP_BIT_XOR] = NUMBERS,
    [HR_OP_BIT_OR] = NUMBERS,       [HR_OP_SHIFT_LEFT] = NUMBERS,
    [HR_OP_SHIFT_RIGHT] = NUMBERS,  [HR_OP_WHERE] = CHOOSES,
    [HR_OP_RANDOM] = DRAWS,         [HR_OP_REDUCE_PROD] = MULTIPLIES,
    [HR_OP_TOPK] = FINDS,           [HR_OP_SCAN] = MULTIPLIES,
    [HR_OP_SCAN_BACK] = MULTIPLIES,
};

hr_op_types hr_op_types_of(hr_op op, int count, const hr_argument_type *args) {
    const hr_dtype type = common(count, args), number = at_least(type, HR_I32);
    switch ((rule)rules[op]) {
    case NUMBERS:
        return all(number, number);
    case KEEPS:
        return all(type, type);
    case COMPARES:
        return all(number, HR_BOOL);
    case CONDITIONS:
        return all(HR_BOOL, HR_BOOL);
    case SUMS:
        return all(number, hr_type_is_float(number) ? number : HR_I64);
    case MULTIPLIES: {
        const hr_dtype wide = hr_type_is_float(number) ? number : HR_I64;
        return all(wide, wide);
    }
    case FINDS:
        return all(number, HR_I64);
    case CHOOSES: {
        const hr_dtype sides = common(2, args + 1);
        return (hr_op_types){{HR_BOOL, sides, sides}, sides};
    }
    case DRAWS:
        return all(HR_I64, HR_F32);
    case POWERS:
        return power(args);
    default:
        return all(float_of(type), float_of(type));
    }
}
