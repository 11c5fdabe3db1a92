/* A function: statements over indices. What src/lang makes of a text, and what every later stage reads.
 *
 * Names are resolved, expressions have compute types and indices have extents. Extents stay symbolic;
 * ir/extent.h binds them to numbers.
 *
 * Expressions are a graph, not a tree: a `def` used twice shares the nodes of its argument. ir/visit.h walks
 * them in time that is in proportion to the nodes.
 */
#ifndef HR_IR_FUNCTION_H
#define HR_IR_FUNCTION_H

#include "ir/ops.h"
#include <stddef.h>
#include <stdint.h>

#define HR_RANK_MAX   8  /* axes of a tensor */
#define HR_DOMAIN_MAX 16 /* indices of a statement, or of one reduction */
#define HR_LIVE_MAX   64 /* indices in scope at one place */

#define HR_DTYPE_VARIABLE_MAX 8 /* of a kernel */
#define HR_SYMBOL_MAX         67

typedef struct hr_place {
    int line, column; /* from 1; columns count bytes */
} hr_place;

typedef struct hr_expr hr_expr;
struct hr_expr {
    hr_op op;
    hr_dtype type;                            /* the compute type: f64, f32, i64, i32 or bool */
    hr_dtype dtype;                           /* HR_OP_CONVERT: the dtype that it rounds to */
    const struct hr_dtype_variable *variable; /* HR_OP_CONVERT: what the text names in the place of the dtype;
                                                 NULL = the dtype itself */
    int id;                                   /* dense within its kernel: 0 .. hr_function.expr_count-1 */
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
    bool constant;   /* grad leaves it out */
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

/* What a statement does to its tensor. */
typedef enum hr_statement_store {
    HR_STORE_WHOLE, /* = : gives every element its value */
    HR_STORE_ADD,   /* += : adds to the places that its subscripts name, to one as often as it is named */
    HR_STORE_PLACE  /* = : gives the places of an inout that its subscripts name their values, each at most
                       once. All others keep theirs. */
} hr_statement_store;

/* Of a statement that does not store the whole: a subscript that leaves the element out. The condition of
 * `y[at[t]] = x[t] if c` stands in its subscripts, where(c, at[t], HR_LEFT_OUT), and in its value. */
#define HR_LEFT_OUT (-((int64_t)1 << 62))

typedef struct hr_statement {
    int tensor;
    int domain_count; /* the indices of the left side, in the order in which they first stand there */
    int *domain;
    int subscript_count; /* = rank of the tensor */
    hr_expr **subscripts;
    hr_statement_store store;
    hr_expr *value; /* its .type is a compute type; the store converts it to the tensor's dtype */
    hr_place place;
} hr_statement;

/* A file that a text uses. Its lines are numbered from `first_line` on, behind those of the text. */
typedef struct hr_source {
    const char *path, *text;
    size_t length;
    int first_line;
} hr_source;

/* What the comment in front of a kernel says that src/grad wrote: "# NAME: the gradient of ..., derived by
 * ...". */
#define HR_DERIVED_BY "derived by `headroom grad`"

/* The text that functions were read from, as it was read: what a message about them shows. */
typedef struct hr_origin {
    const char *path;
    const char *text;
    size_t length;
    int source_count; /* files that it uses */
    hr_source *sources;
    hr_dtype dtype_default; /* of dtype variables that nothing else binds */
} hr_origin;

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
    const hr_origin *origin;
} hr_function;

static inline bool hr_expr_is_left_out(const hr_expr *subscript) {
    return subscript->op == HR_OP_NUMBER && subscript->type == HR_I64 && subscript->whole == HR_LEFT_OUT;
}
/* The subscript leaves elements out: all, or those for which its condition does not hold. */
static inline bool hr_subscript_leaves_out(const hr_expr *subscript) {
    return hr_expr_is_left_out(subscript) ||
           (subscript->op == HR_OP_WHERE && hr_expr_is_left_out(subscript->args[2]));
}
/* The condition of the statement, or NULL. */
static inline const hr_expr *hr_statement_condition(const hr_statement *statement) {
    for (int a = 0; statement->store != HR_STORE_WHOLE && a < statement->subscript_count; a++)
        if (statement->subscripts[a]->op == HR_OP_WHERE && hr_subscript_leaves_out(statement->subscripts[a]))
            return statement->subscripts[a]->args[0];
    return NULL;
}

/* The index of the left side that a scan goes along, or that counts the ranks of topk; -1: it is neither. */
static inline int hr_ordered_along(const hr_expr *value) {
    return hr_op_is_scan(value->op) ? value->bound[0] : value->op == HR_OP_TOPK ? value->args[1]->index : -1;
}

/* Parameters and results: the first of the tensors. */
static inline int hr_function_arguments(const hr_function *function) {
    return function->parameter_count + function->result_count;
}

/* The used file that the line is of; NULL = it is one of the text itself. */
static inline const hr_source *hr_origin_source(const hr_origin *origin, int line) {
    for (int i = origin->source_count - 1; i >= 0; i--)
        if (line >= origin->sources[i].first_line) return &origin->sources[i];
    return NULL;
}
/* Which file's line it is, and the number that it has there. */
static inline const char *hr_origin_path(const hr_origin *origin, int *line) {
    const hr_source *source = hr_origin_source(origin, *line);
    if (source) *line -= source->first_line - 1;
    return source ? source->path : origin->path;
}

static inline bool hr_tensor_is_scalar(const hr_tensor *tensor) { /* passed by value */
    return tensor->rank == 0 && tensor->role == HR_ROLE_INPUT;
}

#endif
