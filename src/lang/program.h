/* A checked program: what src/lang makes of a text, and what every later stage reads.
 *
 * In: the text of a .hr file. Out: kernels whose names are resolved, whose expressions have compute types and
 * whose indices have extents. Extents stay symbolic; hr_extent_* binds them to numbers.
 *
 * Expressions are a graph, not a tree: a `def` used twice shares the nodes of its argument, so a pass over
 * expressions keeps a table by hr_expr.id or it may take exponential time.
 */
#ifndef HR_LANG_PROGRAM_H
#define HR_LANG_PROGRAM_H

#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

#define HR_RANK_MAX   8  /* axes of a tensor */
#define HR_DOMAIN_MAX 16 /* indices of a statement, or of one reduction */
#define HR_LIVE_MAX   64 /* indices in scope at one place */

#define HR_DTYPE_VARIABLE_MAX 8 /* of a kernel */
#define HR_SYMBOL_MAX         67

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
    X(RANDOM, "random", 2, 0, RANDOM)                                                                        \
    X(REDUCE_SUM, "sum", 1, 1, NONE) /* args[0] over .bound[0..bound_count) */                               \
    X(REDUCE_MEAN, "mean", 1, 1, NONE)                                                                       \
    X(REDUCE_MAX, "max", 1, 1, NONE)                                                                         \
    X(REDUCE_MIN, "min", 1, 1, NONE)                                                                         \
    X(REDUCE_ARGMAX, "argmax", 1, 1, NONE) /* over several indices: the row-major position */                \
    X(REDUCE_ARGMIN, "argmin", 1, 1, NONE)                                                                   \
    X(REDUCE_LOGSUMEXP, "logsumexp", 1, 2, EXP)                                                              \
    X(SOFTMAX, "softmax", 1, 3, EXP) /* normalised over .bound, which are indices of the scope around it */

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
    return op >= HR_OP_REDUCE_SUM && op <= HR_OP_REDUCE_LOGSUMEXP;
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

typedef struct hr_place {
    int line, column; /* from 1; columns count bytes */
} hr_place;

typedef struct hr_expr hr_expr;
struct hr_expr {
    hr_op op;
    hr_dtype type;  /* the compute type: f64, f32, i64, i32 or bool */
    hr_dtype dtype; /* HR_OP_CONVERT: the dtype that it rounds to */
    int id;         /* dense within its kernel: 0 .. hr_function.expr_count-1 */
    hr_place place;
    int arg_count;
    hr_expr **args;
    double number; /* HR_OP_NUMBER */
    int64_t whole; /* HR_OP_NUMBER of a whole type */
    int extent;    /* HR_OP_EXTENT: into hr_function.extents */
    int index;     /* HR_OP_INDEX: into hr_function.indices */
    int tensor;    /* HR_OP_ELEMENT: into hr_function.tensors */
    int bound_count;
    int *bound; /* reductions and SOFTMAX: into hr_function.indices. A softmax's bound indices are those of
                   the enclosing scope: inside args[0] the same index id means the index that is normalised
                   over. */
};

typedef enum hr_role { HR_ROLE_INPUT, HR_ROLE_INOUT, HR_ROLE_RESULT, HR_ROLE_LOCAL } hr_role;

/* A capital name in the place of a dtype. A checked kernel is an instance: each variable stands for one
 * dtype, and every type follows from that. */
typedef struct hr_dtype_variable {
    const char *name;
    hr_dtype dtype;   /* what it stands for in this instance */
    uint32_t allowed; /* bit d: it may stand for hr_dtype d */
    hr_place place;   /* where it stands first */
} hr_dtype_variable;

/* A tensor or scalar: parameter, result or local. */
typedef struct hr_tensor {
    const char *name;
    hr_role role;
    hr_dtype dtype;                    /* a local's: the compute type of its expression */
    const hr_dtype_variable *variable; /* that the declaration names; NULL = it names the dtype itself */
    int rank;                          /* 0 = scalar */
    hr_expr **shape; /* rank whole-number expressions over NUMBER, EXTENT, ADD, SUB, MUL, FLOORDIV */
    bool has_default;
    double default_value;
    hr_place place;
} hr_tensor;

/* One binding of an index: by a statement's left side or by a reduction. Two bindings of one name are two. */
typedef struct hr_index {
    const char *name;
    hr_expr *extent; /* as hr_tensor.shape */
    hr_place place;
} hr_index;

typedef struct hr_statement {
    int tensor;
    int domain_count; /* the indices of the left side, in the order in which they first stand there */
    int *domain;
    int subscript_count; /* = rank of the tensor */
    hr_expr **subscripts;
    bool accumulate; /* += */
    hr_expr *value;  /* its .type is a compute type; the store converts it to the tensor's dtype */
    hr_place place;
} hr_statement;

/* A checked kernel of the text. (hr_kernel is the public handle of one that is loaded on a device.) */
typedef struct hr_function {
    const char *name;
    const char *title;  /* "softmax T=bf16": the name and what each dtype variable stands for */
    const char *symbol; /* "kernel_softmax_bf16": what emitted code calls it, at most HR_SYMBOL_MAX bytes */
    int variable_count; /* dtype variables, in the order in which they first stand in the text */
    hr_dtype_variable *variables;
    int extent_count;
    const char **extents;
    int tensor_count; /* parameters in order, then results in order, then locals in order of assignment */
    int parameter_count, result_count;
    hr_tensor *tensors;
    int index_count;
    hr_index *indices;
    int statement_count;
    hr_statement *statements;
    int expr_count;
    hr_place place;
    const struct hr_program *program;
} hr_function;

/* Parameters and results: the first of the tensors. */
static inline int hr_function_arguments(const hr_function *function) {
    return function->parameter_count + function->result_count;
}

static inline bool hr_tensor_is_scalar(const hr_tensor *tensor) { /* passed by value */
    return tensor->rank == 0 && tensor->role == HR_ROLE_INPUT;
}

typedef struct hr_program {
    const char *path; /* for messages */
    const char *text;
    size_t length;
    hr_dtype dtype_default; /* as it was parsed for */
    int function_count;
    hr_function *functions;
    hr_arena *arena;
} hr_program;

/* What the dtype variables of a text stand for. */
typedef struct hr_parse_options {
    hr_dtype
        dtype_default;  /* or, where a constraint forbids that, the first dtype that the constraint names */
    const char *kernel; /* the variables of this kernel stand for `dtypes`, in their order; NULL = of none */
    const hr_dtype *dtypes;
} hr_parse_options;

/* Parses and checks a whole text (copied). All mistakes that can be found together stand in hr_last_error(),
 * each as path:line:column: error: what is wrong; the mend the line
 *            ^
 * Text is hostile: any bytes, any length; nesting is limited, the text to 16 MB. HR_BAD_INPUT on a mistake.
 */
hr_status hr_program_parse(const char *path, const char *text, size_t length, hr_program **out);
/* The same; hr_program_parse has f32 as the default. */
hr_status hr_program_parse_for(const char *path, const char *text, size_t length,
                               const hr_parse_options *options, hr_program **out);
/* The kernel with its dtype variables standing for `dtypes` (function->variable_count of them), in a program
 * of its own: nothing of the old one changes, so threads may do this side by side, and what an instance takes
 * goes with its program. HR_BAD_INPUT where a constraint forbids a dtype, or the text has no meaning with it.
 */
hr_status hr_function_instantiate(const hr_function *function, const hr_dtype *dtypes, hr_program **out,
                                  const hr_function **instance);
/* The number of the dtype variable of this name, or -1. */
int hr_function_variable(const hr_function *function, const char *name);
/* HR_BAD_INPUT with what it may stand for, where its constraint forbids `dtype`. */
hr_status hr_dtype_variable_check(const hr_function *function, int variable, hr_dtype dtype);
void hr_program_destroy(hr_program *program);
/* NULL or "" for the only kernel of the file, or of several the one that bears the file's name (softmax of
 * softmax.hr). HR_BAD_INPUT names the kernels there are. */
hr_status hr_program_find(const hr_program *program, const char *name, const hr_function **out);
/* The text of one statement's line(s) as the user wrote it, without the end of line; for comments and
 * reports. */
const char *hr_program_line(const hr_program *program, int line, size_t *length);

/* ---- extents bound to numbers (lang/extent.c) ---- */

#define HR_EXTENT_UNKNOWN INT64_MIN

/* The value of a shape expression. HR_BAD_INPUT on a negative result, an unknown extent or overflow. */
hr_status hr_extent_value(const hr_function *function, const hr_expr *expr, const int64_t *extents,
                          int64_t *out);
/* Elements and bytes of a tensor, as they would be: no arithmetic overflows. 0 where an extent has no value.
 */
double hr_extent_elements(const hr_function *function, const hr_tensor *tensor, const int64_t *extents);
double hr_extent_bytes(const hr_function *function, const hr_tensor *tensor, const int64_t *extents);
/* Solves one axis for its one unknown extent where that is linear; does nothing where it is not solvable yet;
 * HR_BAD_INPUT (with tensor, axis, both numbers) where the known value disagrees or no whole number fits. */
hr_status hr_extent_solve(const hr_function *function, int tensor, int axis, int64_t size, int64_t *extents);
/* Fills extents still unknown with defaults (docs/language.md says which) so that a plain `headroom run`
 * works. */
hr_status hr_extent_default(const hr_function *function, int64_t *extents);
/* Affine subscripts that are not inside a `where` are in range for these extents, or HR_BAD_INPUT with all
 * that are not, each with its line, its range and the axis. Others are checked as the kernel runs. */
hr_status hr_extent_check(const hr_function *function, const int64_t *extents);

/* ---- work (lang/count.c) ---- */

typedef struct hr_work {
    double bytes_read, bytes_written; /* each touched element of a parameter once; each result once */
    double tensor_flops;              /* 2 a multiply-add of a contraction */
    double products[HR_DTYPE_COUNT];  /* of these, by hr_product_dtype() of the operands */
    double vector_flops;
    double special[HR_SPECIAL_COUNT];
} hr_work;

/* What a product's operands have in common: the dtype of elements as they lie in memory or of values rounded
 * to it, which a unit for that dtype takes as they are; elsewhere f64 or f32, as they are computed. */
hr_dtype hr_product_dtype(const hr_function *function, const hr_expr *a, const hr_expr *b);

/* What the text asks for at these extents, however it is computed. */
hr_status hr_work_count(const hr_function *function, const int64_t *extents, hr_work *out);

#endif
