/* Sums of products over an interned graph: what gradients are computed with.
 *
 * A term is a number times powers of factors, where all of its guards hold, else 0. Its guards are outermost,
 * so that the side that a `where` did not choose never makes a NaN. A sum of terms with like ones added up
 * and common factors in front is the one form of an expression: equal values become one node.
 *
 * Indices are told apart by their number; a reduction binds its own, whatever has the same number around it.
 */
#ifndef HR_GRAD_ALGEBRA_H
#define HR_GRAD_ALGEBRA_H

#include "ir/graph.h"

enum { HR_GRAD_INDICES = 64 }; /* of one gradient: a set of them is a word */

typedef uint64_t hr_index_set;

typedef struct hr_factor {
    hr_expr *base;
    int power; /* never 0 */
} hr_factor;

typedef struct hr_term {
    double coefficient;
    int factor_count, guard_count;
    hr_factor *factors; /* by the number of their bases */
    hr_expr **guards;   /* likewise */
    hr_index_set scope; /* while a statement is walked: the indices that are open around the term */
} hr_term;

typedef struct hr_terms {
    int count;
    hr_term *terms;
} hr_terms;

typedef struct hr_algebra {
    hr_graph *graph;
    int index_count; /* of those in `indices`: their places are the bits of a set */
    int indices[HR_GRAD_INDICES];
    int widest;         /* the most indices that a product of the kernel has; 0 = not known yet */
    int memo_capacity;  /* of the two below, by the number of a node */
    hr_index_set *free; /* indices that the node's value depends on */
    bool *free_known;
    int known_count, known_capacity;
    struct hr_known_value *known;
    int made_count, made_capacity;
    struct hr_known_value *made; /* sums that statements make, and what they become there */
    int held_count, held_capacity;
    struct hr_held_value *held;
    int quotient_count;
    const hr_expr **quotients; /* of extents, as linear forms have them */
    int like_count;
    hr_expr **like; /* elements of the source's tensors: locals over the same indices are laid out so */
    int sum_capacity;
    struct hr_known_sum *sums; /* what nodes are as sums */
} hr_algebra;

hr_algebra *hr_algebra_create(hr_graph *graph);
/* Of the graph's arena; once it is nearly used up the graph is full, and callers end soon. */
void *hr_algebra_take(hr_algebra *algebra, size_t size);

/* ---- indices ---- */

hr_index_set hr_index_bit(hr_algebra *algebra, int index);
/* Those that the node binds. */
hr_index_set hr_index_bits(hr_algebra *algebra, const hr_expr *node);
/* The indices of a set in their order; their number. */
int hr_index_list(const hr_algebra *algebra, hr_index_set set, int *out);
hr_index_set hr_free_indices(hr_algebra *algebra, const hr_expr *expr);
/* `name`, or that with a number behind it: no index or tensor of the graph has it. */
const char *hr_name_fresh(const hr_graph *graph, const char *name);
/* A new index over `extent`, called `name`, with a number behind it where that is taken. */
int hr_index_fresh(hr_algebra *algebra, const char *name, hr_expr *extent);
/* One over the same extent that is called so but for a number, and is not in `taken`; else a new one. */
int hr_index_like(hr_algebra *algebra, const char *name, hr_expr *extent, hr_index_set taken);
/* Each free index from[i] becomes to[i], all at once. Bound indices that would capture are renamed. */
hr_expr *hr_replace_indices(hr_algebra *algebra, hr_expr *expr, int count, const int *from,
                            hr_expr *const *to);

/* ---- expressions, with the types that the language gives them ---- */

hr_expr *hr_make(hr_algebra *algebra, hr_op op, int count, hr_expr *const *args);
hr_expr *hr_make_unary(hr_algebra *algebra, hr_op op, hr_expr *a);
hr_expr *hr_make_binary(hr_algebra *algebra, hr_op op, hr_expr *a, hr_expr *b);
hr_expr *hr_make_number(hr_algebra *algebra, double value);
/* The operation of `node` over other arguments. */
hr_expr *hr_make_same(hr_algebra *algebra, const hr_expr *node, hr_expr *const *args);
hr_expr *hr_make_power(hr_algebra *algebra, hr_expr *base, int power);
hr_expr *hr_make_reduction(hr_algebra *algebra, hr_op op, hr_index_set bound, hr_expr *body);
/* Where `condition` does not hold. */
hr_expr *hr_make_not(hr_algebra *algebra, hr_expr *condition);
hr_expr *hr_make_and(hr_algebra *algebra, int count, hr_expr *const *conditions);
/* The number of points of the indices, as a float. */
hr_expr *hr_make_points(hr_algebra *algebra, hr_index_set indices);

/* ---- values that an element holds ---- */

typedef struct hr_known_value {
    hr_expr *value, *element;
} hr_known_value;

/* `element` is `value`: of a result of the forward kernel. */
void hr_known_add(hr_algebra *algebra, hr_expr *value, hr_expr *element);
/* The element that holds the value, else the value. */
hr_expr *hr_known_element(const hr_algebra *algebra, hr_expr *value);
/* A statement makes `sum`, as `value`: rounded, maybe. What it becomes there, or NULL. */
void hr_made_add(hr_algebra *algebra, hr_expr *sum, hr_expr *value);
hr_expr *hr_made_value(const hr_algebra *algebra, const hr_expr *sum);
/* The value that the element holds, else the element. */
hr_expr *hr_known_meaning(const hr_algebra *algebra, hr_expr *element);

/* ---- locals ---- */

/* A local over `set` that is to hold `value`, laid out as what that is made from; its element. */
hr_expr *hr_local_create(hr_algebra *algebra, const char *name, const hr_expr *value, hr_index_set set);

/* A value that is to be a local whatever indices its element is read with. */
typedef struct hr_held_value {
    hr_expr *value, *element;
    hr_expr *holder; /* the element of what holds it in the end; NULL = no statement is written yet */
} hr_held_value;

/* The element of a local that will hold `value`, without a name yet. */
hr_expr *hr_hold(hr_algebra *algebra, hr_expr *value);
/* NULL = the element is of none of these. */
hr_held_value *hr_held_by(hr_algebra *algebra, const hr_expr *element);

/* ---- terms and sums ---- */

hr_terms hr_terms_of(hr_algebra *algebra, const hr_expr *expr);
hr_expr *hr_terms_compose(hr_algebra *algebra, hr_terms sum);
hr_expr *hr_term_compose(hr_algebra *algebra, const hr_term *term);
hr_terms hr_terms_add(hr_algebra *algebra, hr_terms a, hr_terms b);
hr_terms hr_terms_negate(hr_algebra *algebra, hr_terms sum);
/* Each term times `factor`, which stays together where it is a sum. */
hr_terms hr_terms_times(hr_algebra *algebra, hr_terms sum, const hr_expr *factor);
/* `power` is not 0. */
hr_terms hr_terms_times_power(hr_algebra *algebra, hr_terms sum, hr_expr *factor, int power);
hr_terms hr_terms_divide(hr_algebra *algebra, hr_terms sum, const hr_expr *divisor);
hr_terms hr_terms_guard(hr_algebra *algebra, hr_terms sum, hr_expr *condition);
/* The same with all in one term: common factors in front, the rest in brackets. */
hr_terms hr_terms_joined(hr_algebra *algebra, hr_terms sum);
/* a / (a + b) + b / (a + b) is 1. */
hr_terms hr_terms_reduced(hr_algebra *algebra, hr_terms sum);
/* The same times `factor`: without the guards outside of which that is 0. */
hr_terms hr_terms_within(hr_algebra *algebra, hr_terms sum, const hr_expr *factor);
/* Outside of it all terms are 0; NULL = nothing is known. */
hr_expr *hr_terms_condition(hr_algebra *algebra, hr_terms sum);
/* exp(s - m) / t is one value where it is multiplied with what else the sum goes over: a matrix product. */
hr_terms hr_term_with_weights(hr_algebra *algebra, const hr_term *term, hr_index_set over);
/* The same terms with these indices open around them. */
hr_terms hr_terms_in_scope(hr_algebra *algebra, hr_terms sum, hr_index_set scope);
hr_terms hr_terms_replace(hr_algebra *algebra, hr_terms sum, int count, const int *from, hr_expr *const *to);
hr_index_set hr_term_free(hr_algebra *algebra, const hr_term *term);
/* The term is 0 where the guard does not hold. */
bool hr_term_implies(const hr_term *term, const hr_expr *guard);
/* The same factors under the same guards, whatever the numbers are. */
bool hr_term_is_like(const hr_term *a, const hr_term *b);

/* The sum over some indices: what does not depend on them stands in front. */
hr_terms hr_terms_over(hr_algebra *algebra, hr_terms sum, hr_index_set over);

/* The factors of a term by the indices that they depend on, most first: what is one a row is multiplied once
 * a row. Numbers are with the class of the fewest indices, but not with that of all. */
typedef struct hr_term_classes {
    int count;
    hr_term classes[HR_GRAD_INDICES + 1];
    hr_index_set sets[HR_GRAD_INDICES + 1], all;
} hr_term_classes;

void hr_term_classify(hr_algebra *algebra, const hr_term *term, hr_term_classes *out);

#endif
