/* What the checking files share: the state of a check, and the steps that they take for each other.
 *
 * In: the tree of a file. Out: hr_functions. checker.c walks kernels and statements, check_expr.c expressions
 * and names, check_reduction.c reductions and their ranges, check_condition.c the condition behind a
 * statement, check_call.c calls of kernels. check_type.c gives operations their types, check_extent.c says
 * over what an index runs, check_dtype.c what a dtype variable stands for. A step that fails has added its
 * message and returns NULL or false; what hangs on it then stays silent.
 */
#ifndef HR_LANG_CHECKER_H
#define HR_LANG_CHECKER_H

#include "lang/program.h"
#include "lang/syntax.h"

#define HR_EXPR_MAX       (1 << 18) /* nodes of a file, defs written out */
#define HR_EXPR_DEPTH_MAX 1000

/* An expression with what only the check needs to know of it. */
typedef struct hr_checked_expr {
    hr_expr expr; /* first: an hr_expr of the check is one of these */
    int depth;
} hr_checked_expr;

/* Extents and dtype variables are named with a capital first, all else is not. */
static inline bool hr_symbol_is_capital(const hr_symbol *symbol) {
    return symbol->name[0] >= 'A' && symbol->name[0] <= 'Z';
}

typedef struct hr_index_state {
    hr_symbol *symbol;
    bool live;
    bool failed;         /* its extents disagree, which was said */
    int normalised;      /* softmaxes over it that enclose the present place */
    const char *origin;  /* in words, what gave it its extent */
    hr_expr *stands_for; /* what it is read as; NULL = itself */
} hr_index_state;

typedef struct hr_tensor_state {
    bool assigned;
    bool failed;                             /* its statement was no good: uses of it say nothing */
    int line;                                /* of its statement */
    const struct hr_statement_syntax *start; /* of a recurrence: what stands before its first element */
} hr_tensor_state;

/* A def while its body is expanded. */
typedef struct hr_frame {
    const struct hr_frame *outer;
    const hr_def_syntax *def;
} hr_frame;

typedef struct hr_checker {
    hr_arena *arena; /* of the program */
    hr_messages *messages;
    const hr_file_syntax *file;
    hr_symbols *symbols;
    const hr_parse_options *options;
    const hr_kernel_syntax *kernel; /* that is checked, and what becomes of it: */
    hr_function *function;
    int scope; /* number of the kernel that is checked */
    int index_capacity, extent_capacity, tensor_capacity, statement_capacity;
    hr_index_state *indices;
    hr_tensor_state *tensors;
    int live_count; /* indices in scope */
    hr_symbol *live[HR_LIVE_MAX];
    const hr_frame *frame; /* NULL outside defs */
    int nesting;
    int guards;                           /* where(c, a, b) whose a or b encloses the present place */
    long expr_total;                      /* of the file */
    bool full;                            /* HR_EXPR_MAX was reported */
    const struct hr_expansion *expansion; /* the call that is written out, NULL = none */
    int written_out;                      /* statements of calls in this kernel */
    /* the statement that is checked */
    int target;                       /* its tensor, -1 while the left side is read */
    const hr_statement *own;          /* non-NULL where an inout's own element may be read */
    struct hr_recurrence *recurrence; /* non-NULL where the element before may be read */
    const struct hr_topk *topk;       /* non-NULL in a statement that is one */
} hr_checker;

/* ---- suggestions ---- */

/* The candidate nearest to a misspelled name. */
typedef struct hr_nearest {
    const char *name, *best;
    int distance;
} hr_nearest;

/* Finds nothing, at no cost, where `messages` keeps no more; NULL = it does. */
hr_nearest hr_nearest_to(const hr_messages *messages, const char *name);
void hr_nearest_consider(hr_nearest *nearest, const char *candidate);
/* What other languages call a dtype: "float32" is f32. NULL where it is none of these. */
const char *hr_dtype_habit(const char *name);
/* "; did you mean x?" or "". */
hr_shown hr_nearest_words(const hr_nearest *nearest);

/* ---- check_expr.c ---- */

/* The symbol with its meanings in this kernel. */
hr_symbol *hr_check_bind(hr_checker *checker, hr_symbol *symbol);
hr_expr *hr_check_expression(hr_checker *checker, const hr_syntax *syntax);
/* A subscript: an expression of a whole type. `tensor` may be -1. */
hr_expr *hr_check_subscript(hr_checker *checker, const hr_syntax *syntax);
/* Brings a new index into scope; -1 after a message. */
int hr_check_open_index(hr_checker *checker, hr_symbol *symbol, hr_place place);
/* Takes the last `count` indices out of scope. */
void hr_check_close_indices(hr_checker *checker, int count);
/* The function of the language with this name, or HR_OP_COUNT. */
hr_op hr_check_function_named(const char *name);
/* The reducer, softmax included, or HR_OP_COUNT. */
hr_op hr_check_reducer_named(const char *name);
/* What is to be written for what other languages call it; NULL = not known. */
const char *hr_check_habit(const char *name);
void hr_check_consider_ops(hr_nearest *nearest, hr_op first, hr_op last);
void hr_check_unknown_function(hr_checker *checker, const hr_syntax *syntax);
bool hr_check_arity(hr_checker *checker, const hr_syntax *call, int arity);

/* ---- check_reduction.c ---- */

/* sum[k < K](x[k]) */
hr_expr *hr_check_reduced(hr_checker *checker, const hr_syntax *syntax);

/* ---- check_scan.c ---- */

/* h[t, c] = a[t, c] * h[t - 1, c] + b[t, c]: how the statement reads the element before the one that it
 * assigns. */
typedef struct hr_recurrence {
    const hr_statement *statement;
    int axis;   /* that it goes along; -1 = it has not been read */
    hr_op scan; /* HR_OP_SCAN; HR_OP_SCAN_BACK where it reads h[t + 1] */
} hr_recurrence;

/* The element may be one before: of a tensor that is no inout, in its own statement. */
bool hr_check_may_be_before(const hr_checker *checker, int tensor, const hr_syntax *syntax);
/* Its type until hr_check_recurrence(): the result's, or that of a small number, which the others widen. */
hr_dtype hr_check_before_type(const hr_checker *checker, int tensor);
/* Notes it; false after a message. */
bool hr_check_before(hr_checker *checker, const hr_expr *element);
/* The statement's value where it reads the element before: a scan. */
hr_expr *hr_check_recurrence(hr_checker *checker, const hr_recurrence *recurrence, hr_expr *value);
/* h[-1, c] = h0[c]: what stands before a first element. Takes it, or says what is wrong; false: it is none.
 */
bool hr_check_start(hr_checker *checker, const hr_statement_syntax *syntax);
/* The sum so far of `arg` along the index. */
hr_expr *hr_check_cumsum(hr_checker *checker, hr_place place, int index, hr_expr *arg);

/* ---- check_topk.c ---- */

/* value[m, r], place[m, r] = topk[n, r < K](x[m, n]). False: it is none. */
bool hr_check_topk(hr_checker *checker, const hr_statement_syntax *syntax);
/* What stands behind the = of either of the two statements that it is. */
hr_expr *hr_check_topk_value(hr_checker *checker, const hr_syntax *syntax);

/* ---- check_def.c ---- */

/* Names, numbers of arguments and recursion of all defs, called or not. */
void hr_check_defs(hr_checker *checker);
/* Capital letters begin the names of extents only. */
bool hr_check_small(hr_checker *checker, const hr_symbol *symbol, hr_place place, const char *what);

/* ---- check_type.c ---- */

/* A new node without arguments filled in; NULL after a message where there are too many. */
hr_expr *hr_check_node(hr_checker *checker, hr_op op, hr_dtype type, hr_place place, int arg_count);
hr_expr *hr_check_number(hr_checker *checker, hr_place place, hr_dtype type, double number, int64_t whole);
/* Types, folds literals, inserts conversions. `args` is copied. */
hr_expr *hr_check_operation(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args);
hr_expr *hr_check_reduction(hr_checker *checker, hr_op op, hr_place place, hr_expr *arg);
/* A node over these arguments, of the given types. */
hr_expr *hr_check_node_of(hr_checker *checker, hr_op op, hr_dtype type, hr_place place, int count,
                          hr_expr **args);
hr_expr *hr_check_conversion(hr_checker *checker, hr_dtype dtype, hr_place place, hr_expr *arg);

/* ---- check_extent.c ---- */

/* An extent of a declaration or a range; new names become extents. */
hr_expr *hr_check_extent(hr_checker *checker, const hr_syntax *syntax);
/* False, with a message each, where one of the indices has no range. */
bool hr_check_has_extents(hr_checker *checker, const int *indices, int count);
/* Index `index` ranges over `extent`, says `origin` at `place`: the first word or one that must agree.
 * `mend`: what the message advises; NULL: that a part of the axis is written m + 0. */
bool hr_check_range(hr_checker *checker, int index, hr_expr *extent, hr_place place, const char *origin,
                    const char *mend);
/* "axis 1 of x", in the arena. */
const char *hr_check_axis_words(hr_checker *checker, int tensor, int axis);

/* ---- check_dtype.c ---- */

/* The variable in the place of the parameter's dtype; NULL after a message. */
const hr_dtype_variable *hr_check_variable(hr_checker *checker, const hr_parameter_syntax *syntax);
/* The constraints of the kernel are of its variables, one each. */
void hr_check_constraints(hr_checker *checker);
/* What the function is called in words and in emitted code. */
void hr_check_titles(hr_checker *checker);
/* No kernel bears the name that another has for a dtype. */
void hr_check_symbols(const hr_checker *checker, const hr_program *program);
/* " (here T is f32)" for a message that follows from it, "" in a kernel without variables. */
hr_shown hr_check_assumed(const hr_checker *checker);

/* ---- check_condition.c ---- */

bool hr_check_condition(hr_checker *checker, const hr_syntax *syntax, hr_statement *statement);

/* ---- check_call.c ---- */

/* Checks the statements that the call stands for. */
void hr_check_call(hr_checker *checker, const hr_statement_syntax *statement, const hr_syntax *call);
/* The names before = that have no value yet are spoken for: their uses say nothing. */
void hr_check_fail_results(hr_checker *checker, const hr_statement_syntax *statement);

/* ---- checker.c ---- */

void hr_check_statement(hr_checker *checker, const hr_statement_syntax *syntax);
/* False after a message. */
bool hr_check_add_local(hr_checker *checker, hr_symbol *symbol, hr_place place);
void hr_check_file(const hr_file_syntax *file, const hr_parse_options *options, hr_symbols *symbols,
                   hr_messages *messages, hr_program *program);

#endif
