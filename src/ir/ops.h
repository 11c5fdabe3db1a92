/* The operations of expressions: their names, numbers of arguments and costs. */
#ifndef HR_IR_OPS_H
#define HR_IR_OPS_H

#include "headroom.h"
#include <stdbool.h>

/* op, name in the text ("" = written otherwise), number of arguments (-1 = its own), operations a use counts
 * as vector (one a lane) and the special unit it loads (none, exp, log, tanh, erf, trig, root, random). */
#define HR_OPS(X)                                                                                            \
    X(NUMBER, "", 0, 0, NONE)   /* .number, .whole when .type is whole */                                    \
    X(EXTENT, "", 0, 0, NONE)   /* the value of extents[.extent] */                                          \
    X(INDEX, "", 0, 0, NONE)    /* the value of indices[.index] */                                           \
    X(ELEMENT, "", -1, 0, NONE) /* tensors[.tensor][args...]; a scalar has no args */                        \
    X(CONVERT, "", 1, 1, NONE)  /* rounded to .dtype, then computed with as .type */                         \
    X(ADD, "+", 2, 1, NONE)                                                                                  \
    X(SUB, "-", 2, 1, NONE)                                                                                  \
    X(MUL, "*", 2, 1, NONE)                                                                                  \
    X(DIV, "/", 2, 1, ROOT)                                                                                  \
    X(FLOORDIV, "//", 2, 1, ROOT)                                                                            \
    X(MOD, "%", 2, 1, ROOT)                                                                                  \
    X(NEG, "-", 1, 1, NONE)                                                                                  \
    X(POW, "^", 2, 1, EXP) /* a whole-number literal power counts as products */                             \
    X(LT, "<", 2, 1, NONE)                                                                                   \
    X(LE, "<=", 2, 1, NONE)                                                                                  \
    X(GT, ">", 2, 1, NONE)                                                                                   \
    X(GE, ">=", 2, 1, NONE)                                                                                  \
    X(EQ, "==", 2, 1, NONE)                                                                                  \
    X(NE, "!=", 2, 1, NONE)                                                                                  \
    X(AND, "and", 2, 1, NONE)                                                                                \
    X(OR, "or", 2, 1, NONE)                                                                                  \
    X(NOT, "not", 1, 1, NONE)                                                                                \
    X(BIT_AND, "&", 2, 1, NONE)                                                                              \
    X(BIT_XOR, "xor", 2, 1, NONE)                                                                            \
    X(BIT_OR, "|", 2, 1, NONE)                                                                               \
    X(SHIFT_LEFT, "<<", 2, 1, NONE)                                                                          \
    X(SHIFT_RIGHT, ">>", 2, 1, NONE) /* of a number below 0, too, it rounds down */                          \
    X(EXP, "exp", 1, 0, EXP)                                                                                 \
    X(EXP2, "exp2", 1, 0, EXP)                                                                               \
    X(LOG, "log", 1, 0, LOG)                                                                                 \
    X(LOG2, "log2", 1, 0, LOG)                                                                               \
    X(SQRT, "sqrt", 1, 0, ROOT)                                                                              \
    X(RSQRT, "rsqrt", 1, 0, ROOT)                                                                            \
    X(SIN, "sin", 1, 0, TRIG)                                                                                \
    X(COS, "cos", 1, 0, TRIG)                                                                                \
    X(TANH, "tanh", 1, 0, TANH)                                                                              \
    X(ERF, "erf", 1, 0, ERF)                                                                                 \
    X(SIGMOID, "sigmoid", 1, 2, EXP)                                                                         \
    X(RELU, "relu", 1, 1, NONE)                                                                              \
    X(GELU, "gelu", 1, 3, ERF)                                                                               \
    X(GELU_TANH, "gelu_tanh", 1, 6, TANH)                                                                    \
    X(SILU, "silu", 1, 2, EXP)                                                                               \
    X(ABS, "abs", 1, 1, NONE)                                                                                \
    X(FLOOR, "floor", 1, 1, NONE)                                                                            \
    X(CEIL, "ceil", 1, 1, NONE)                                                                              \
    X(ROUND, "round", 1, 1, NONE) /* half to even */                                                         \
    X(MIN, "min", 2, 1, NONE)                                                                                \
    X(MAX, "max", 2, 1, NONE)                                                                                \
    X(CLAMP, "clamp", 3, 2, NONE) /* clamp(x, low, high) */                                                  \
    X(WHERE, "where", 3, 1, NONE)                                                                            \
    X(STOP, "stop", 1, 0, NONE) /* its argument, to which no gradient passes */                              \
    X(RANDOM, "random", 2, 0, RANDOM)                                                                        \
    X(REDUCE_SUM, "sum", 1, 1, NONE) /* args[0] over .bound[0..bound_count) */                               \
    X(REDUCE_MEAN, "mean", 1, 1, NONE)                                                                       \
    X(REDUCE_MAX, "max", 1, 1, NONE)                                                                         \
    X(REDUCE_MIN, "min", 1, 1, NONE)                                                                         \
    X(REDUCE_PROD, "prod", 1, 1, NONE)                                                                       \
    X(REDUCE_ARGMAX, "argmax", 1, 1, NONE) /* over several indices: the row-major position */                \
    X(REDUCE_ARGMIN, "argmin", 1, 1, NONE)                                                                   \
    X(REDUCE_LOGSUMEXP, "logsumexp", 1, 2, EXP)                                                              \
    X(TOPK, "topk", 2, 2, NONE)      /* position over .bound[0] of the element of rank args[1], an index */  \
    X(SOFTMAX, "softmax", 1, 3, EXP) /* normalised over .bound, which are indices of the scope around it */  \
    X(SCAN, "cumsum", 3, 2, NONE)    /* y[n] = args[0] * y[n - 1] + args[1] over .bound[0], an index of the  \
                                        scope around it; y[-1] = args[2]. cumsum: args[0] is the number 1 */ \
    X(SCAN_BACK, "", 3, 2, NONE)     /* the same from the end: y[n + 1] in the place of y[n - 1] */

typedef enum hr_op {
#define HR_OP_ENUM(op, name, arity, vector, special) HR_OP_##op,
    HR_OPS(HR_OP_ENUM)
#undef HR_OP_ENUM
        HR_OP_COUNT
} hr_op;

typedef struct hr_op_info {
    const char *name;
    int arity, vector;
    hr_special special;
} hr_op_info;

const hr_op_info *hr_op_info_of(hr_op op);

/* A function that takes a core much longer than a product does: exp and its kin, random numbers. */
static inline bool hr_op_is_dear(hr_op op) {
    hr_special special = hr_op_info_of(op)->special;
    return special != HR_SPECIAL_NONE && special != HR_SPECIAL_ROOT;
}
static inline bool hr_op_is_reduction(hr_op op) {
    return op >= HR_OP_REDUCE_SUM && op <= HR_OP_TOPK;
}
/* A value that follows from the one before it on an axis. */
static inline bool hr_op_is_scan(hr_op op) {
    return op == HR_OP_SCAN || op == HR_OP_SCAN_BACK;
}
/* Of a row in order: a stage of its own. */
static inline bool hr_op_is_ordered(hr_op op) {
    return hr_op_is_scan(op) || op == HR_OP_TOPK;
}
/* It goes along indices of the scope around it, and leaves them free. */
static inline bool hr_op_leaves_free(hr_op op) {
    return op == HR_OP_SOFTMAX || hr_op_is_scan(op);
}
/* <, <=, >, >=, == or !=. */
static inline bool hr_op_is_comparison(hr_op op) {
    return op >= HR_OP_LT && op <= HR_OP_NE;
}
/* Whether a comparison holds where of its operands this is so; none of the three where one is NaN. */
static inline bool hr_op_holds(hr_op op, bool less, bool equal, bool greater) {
    switch (op) {
    case HR_OP_LT:
        return less;
    case HR_OP_LE:
        return less || equal;
    case HR_OP_GT:
        return greater;
    case HR_OP_GE:
        return greater || equal;
    case HR_OP_EQ:
        return equal;
    default: /* NE */
        return !equal;
    }
}
/* and, or, not: of conditions. */
static inline bool hr_op_is_logical(hr_op op) {
    return op >= HR_OP_AND && op <= HR_OP_NOT;
}
/* Of the bits of whole numbers. */
static inline bool hr_op_is_bitwise(hr_op op) {
    return op >= HR_OP_BIT_AND && op <= HR_OP_SHIFT_RIGHT;
}
/* Its result says where the value is, not what it is. */
static inline bool hr_op_finds_position(hr_op op) {
    return op == HR_OP_REDUCE_ARGMAX || op == HR_OP_REDUCE_ARGMIN;
}
/* Of max, min, argmax and argmin. */
static inline bool hr_op_seeks_largest(hr_op op) {
    return op == HR_OP_REDUCE_MAX || op == HR_OP_REDUCE_ARGMAX;
}

/* The type that an element of `dtype` computes in: f64 f32 i64 i32 or bool. */
hr_dtype hr_compute_type(hr_dtype dtype);

#endif
