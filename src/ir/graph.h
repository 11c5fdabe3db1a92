/* The function that the planner rewrites: a growing copy of a checked one, its expressions interned.
 *
 * Two equal expressions are one node, so that "the same value" is a pointer comparison in every later pass.
 * The copy says two things that the checked function does not:
 *   - storage[t]: the tensor whose memory `t` uses. An inout that is assigned gets a local as its new
 * version, whose storage is the inout; every other tensor is its own storage.
 *   - an ELEMENT with one argument more than its tensor's rank is guarded: the last one says when it is read.
 */
#ifndef HR_IR_GRAPH_H
#define HR_IR_GRAPH_H

#include "base/arena.h"
#include "ir/extent.h"
#include "ir/function.h"

#include <math.h>

#define HR_AXES_MAX 32 /* axes of one tensor, indices of one statement */

/* A maximum that softmax or logsumexp takes off its elements, and the sum of the exponentials of what is
 * left: any other number in its place gives the same results, as long as no exponential leaves f32's range.
 */
typedef struct hr_peak {
    int peak, total; /* locals */
    const struct hr_peak *next;
} hr_peak;

/* Neighbours that a partial sum adds up, and how many such sums of one product's results there are at most.
 */
enum { HR_PARTIAL = 16, HR_PARTIALS_MOST = 4 };

/* A local whose elements are sums over HR_PARTIAL neighbours of `body`, which is made of a product's results:
 * its kernel can leave them. */
typedef struct hr_partial {
    int tensor;
    hr_expr *body; /* over the product's indices */
    const struct hr_partial *next;
} hr_partial;

typedef struct hr_graph {
    hr_arena *arena;
    const hr_function *source;
    hr_function *function;
    int *storage;
    int tensor_capacity, index_capacity, statement_capacity;
    hr_expr **table; /* open addressing, a power of two */
    int table_size;
    hr_expr *placeholder; /* stands for any expression once the arena is full */
    hr_statement nowhere; /* and this for any statement */
    const hr_peak *peaks;
    const hr_partial *partials;
    bool keeps_variables;                    /* of conversions: for what is written as text again */
    const struct hr_assumption *assumptions; /* about extents, the last first: plan/assumption.h */
    const int64_t *fixed;   /* by extent: the number that stands for it, HR_EXTENT_UNKNOWN = none; NULL = for
                             * none */
    hr_expr **fixed_extent; /* by extent: itself, where a number stands for it */
    bool rows_written;      /* sums over rows of a few elements are their terms */
    bool any_extents;       /* no choice may be right at some extents alone */
    bool sums_apart; /* sums over products are nested ones that take fewer operations than the text says */
    bool full;
} hr_graph;

/* That of a local that is one; NULL = it is none. */
static inline const hr_partial *hr_partial_of(const hr_graph *graph, int tensor) {
    const hr_partial *p = graph->partials;
    while (p && p->tensor != tensor)
        p = p->next;
    return p;
}

/* An empty copy: extents, parameters and results are there, indices keep their numbers; no locals, no
 * statements. */
hr_graph *hr_graph_create(const hr_function *source, hr_arena *arena);
/* The same with numbers for some extents: see hr_graph.fixed. */
hr_graph *hr_graph_create_fixed(const hr_function *source, const int64_t *fixed, hr_arena *arena);
/* Of a plan's arena, what the graph leaves for all that is made from it. */
enum { HR_PLAN_RESERVE = 192 << 20 };
/* HR_BAD_INPUT */
hr_status hr_graph_too_large(const hr_graph *graph);
/* The same where the program outgrew the arena. */
hr_status hr_graph_status(const hr_graph *graph);

/* The one node equal to `model` (its id and place aside). */
hr_expr *hr_graph_intern(hr_graph *graph, const hr_expr *model);
hr_expr *hr_graph_whole(hr_graph *graph, int64_t value);
hr_expr *hr_graph_number(hr_graph *graph, hr_dtype type, double value);
hr_expr *hr_graph_index_value(hr_graph *graph, int index);
hr_expr *hr_graph_unary(hr_graph *graph, hr_op op, hr_dtype type, hr_expr *a);
hr_expr *hr_graph_binary(hr_graph *graph, hr_op op, hr_dtype type, hr_expr *a, hr_expr *b);
hr_expr *hr_graph_where(hr_graph *graph, hr_expr *condition, hr_expr *a, hr_expr *b);
/* `a` as a value of compute type `type`. */
hr_expr *hr_graph_convert(hr_graph *graph, hr_dtype type, hr_expr *a);
/* `a` after a store into `dtype` and a load. */
hr_expr *hr_graph_round(hr_graph *graph, hr_dtype dtype, hr_expr *a);
hr_expr *hr_graph_element(hr_graph *graph, int tensor, int count, hr_expr *const *subscripts);
hr_expr *hr_graph_reduce(hr_graph *graph, hr_op op, hr_dtype type, int count, const int *bound,
                         hr_expr *body);
/* The same node with other arguments. */
hr_expr *hr_graph_with_args(hr_graph *graph, const hr_expr *node, hr_expr *const *args);

int hr_graph_add_index(hr_graph *graph, const char *name, hr_expr *extent);
int hr_graph_add_local(hr_graph *graph, const char *name, hr_dtype dtype, int rank, hr_expr *const *shape,
                       int storage);
hr_statement *hr_graph_add_statement(hr_graph *graph, int tensor, int domain_count, const int *domain,
                                     hr_expr *value, hr_place place);
/* The statements that were added last come before that one, in their order. */
void hr_graph_move_before(hr_graph *graph, int statement, int added);

/* Replaces each use of index from[i] by to[i], bound lists of reductions included where to[i] is an index. */
hr_expr *hr_graph_substitute(hr_graph *graph, hr_expr *expr, int count, const int *from, hr_expr *const *to);

/* The product of the indices' sizes, which may be more than 2^63. */
hr_status hr_function_points(const hr_function *function, const int *indices, int count,
                             const int64_t *extents, double *out);
bool hr_indices_have(const int *set, int count, int index);
/* The same indices in any order. */
bool hr_indices_same(const int *a, int a_count, const int *b, int b_count);
/* How many points they have together; `size`: of each index. */
double hr_indices_points(const int64_t *size, const int *set, int count);
/* Sets seen[i] for each index that occurs in `expr`, bound ones included, and read[t] for each tensor of
 * which it reads an element. */
void hr_expr_mark_indices(const hr_expr *expr, bool *seen);
void hr_expr_mark_read(const hr_expr *expr, bool *read);

/* A sum of indices and extents with constant factors: no data, no division. */
bool hr_expr_is_affine(const hr_expr *expr);
/* Random numbers are part of it. */
bool hr_expr_draws(const hr_expr *expr);
/* The subscript is an index over just this axis, or a literal inside it, whatever the extents are. */
bool hr_subscript_is_safe(const hr_function *function, const hr_expr *subscript, const hr_expr *axis_extent);
/* Some subscript must be compared with its axis as the kernel runs. */
bool hr_element_is_checked(const hr_function *function, const hr_expr *element);
/* The value is rounded to bf16: a row of it is kept as words. */
static inline bool hr_expr_is_words(const hr_expr *expr) {
    return expr->op == HR_OP_CONVERT && expr->dtype == HR_BF16;
}

static inline bool hr_expr_is_zero(const hr_expr *expr) {
    return expr->op == HR_OP_NUMBER && expr->number == 0 && expr->whole == 0;
}

/* As a number, or as the text has it: -inf. */
static inline bool hr_expr_is_minus_infinity(const hr_expr *expr) {
    if (expr->op == HR_OP_NEG) return expr->args[0]->op == HR_OP_NUMBER && expr->args[0]->number == INFINITY;
    return expr->op == HR_OP_NUMBER && expr->type != HR_BOOL && expr->number == -INFINITY;
}

/* Of where(condition, value, 0), which counts under a condition, the value; else the expression itself. */
static inline const hr_expr *hr_expr_within(const hr_expr *expr) {
    return expr->op == HR_OP_WHERE && hr_expr_is_zero(expr->args[2]) ? expr->args[1] : expr;
}

static inline bool hr_element_is_guarded(const hr_function *function, const hr_expr *element) {
    return element->arg_count > function->tensors[element->tensor].rank;
}

#endif
