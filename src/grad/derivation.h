/* What the files of src/grad share: a function under derivation, its values and its adjoints.
 *
 * In: a checked function, which results are derived and for which parameters. gradient.c says in which order
 * the files do what: primal.c, adjoints.c, then share.c.
 */
#ifndef HR_GRAD_DERIVATION_H
#define HR_GRAD_DERIVATION_H

#include "grad/algebra.h"
#include "grad/gradient.h"
#include "ir/visit.h"

/* What the elements of a tensor are given. */
typedef struct hr_adjoint {
    bool active;             /* a wanted gradient passes through it */
    bool has_axes;           /* its axes have indices */
    bool named[HR_RANK_MAX]; /* the axis has one already */
    int axes[HR_RANK_MAX];
    hr_terms sum; /* over these */
    /* x[subscripts] += sum, over `domain`, where x is given nothing else */
    bool scatters;
    hr_index_set domain;
    hr_expr *subscripts[HR_RANK_MAX];
    hr_expr *condition; /* places are left out where it does not hold; NULL = none is */
    hr_terms scattered;
    int contributions, gradient; /* the tensor that it becomes, -1 = none */
    bool asked;                  /* each element asks whether a place that data decides is its own */
} hr_adjoint;

typedef struct hr_named_value {
    const hr_expr *value;
    const char *name;
} hr_named_value;

typedef enum hr_gradient_mode { HR_MODE_BACKWARD, HR_MODE_FORWARD } hr_gradient_mode;

typedef struct hr_derivation {
    const hr_function *source;
    const hr_gradient_options *options;
    hr_gradient_mode mode;
    bool chosen;            /* what is saved was chosen by cost */
    const int64_t *extents; /* with `work`: at these */
    hr_work *work;          /* to be filled instead of a text; NULL = not wanted */
    hr_graph *graph; /* its tensors: the source's by the same numbers, then cotangents, gradients, locals */
    hr_algebra *algebra;
    int *index_of;        /* an index of the source -> the one that stands for all of its name and extent */
    hr_index_set *open;   /* a node of the source -> the indices that it depends on */
    bool *carries;        /* a node of the source -> a wanted gradient passes through it */
    hr_expr **values;     /* a statement -> its value, in the graph */
    hr_rewriting primal;  /* a node of the source -> its value */
    hr_adjoint *adjoints; /* a tensor of the source */
    int *cotangents;   /* a result of the source -> its cotangent; in forward mode a parameter -> its tangent;
                          -1 = none */
    int *statement_of; /* a tensor of the source -> the statement that assigns it, -1 = none */
    bool *saved;       /* a tensor of the source: a parameter of the derived kernel holds it */
    int name_count, name_capacity;
    struct hr_named_value *names; /* what values that become locals are called */
    int carrier_count, carrier_capacity;
    int *carriers;                   /* cotangents, and locals that are made from them */
    hr_gradient_argument *arguments; /* to be filled; NULL = not wanted */
    hr_text *notes;
    const char *refusal; /* an inout tensor that the gradient would need; NULL = none */
} hr_derivation;

/* ---- names.c ---- */

/* What `value` is called where it becomes a local. */
void hr_name_value(hr_derivation *derivation, const hr_expr *value, const char *name);
/* A name that nothing else has: as it was given to `meaning`, else by what `value` is, which the kernel has
 * for it. */
const char *hr_name_of(hr_derivation *derivation, const hr_expr *meaning, const hr_expr *value);
/* The same of two factors that stand together in several products. */
const char *hr_name_of_product(hr_derivation *derivation, const hr_expr *product);
/* `name` where it is free, else with a number behind it. */
const char *hr_name_free(hr_derivation *derivation, const char *name);

/* The tensor is a cotangent or made from one; whether a value is. */
void hr_carry_cotangent(hr_derivation *derivation, int tensor);
bool hr_carries_cotangent(const hr_derivation *derivation, const hr_expr *value);

bool hr_is_cotangent(const hr_derivation *derivation, int tensor);

/* ---- primal.c: values of the forward kernel ---- */

hr_status hr_primal_prepare(hr_derivation *derivation);
hr_expr *hr_primal_of(hr_derivation *derivation, const hr_expr *node);
/* The indices that a reduction binds, a softmax normalises over. */
hr_index_set hr_bound_indices(hr_derivation *derivation, const hr_expr *node);
/* Where a maximum or minimum lies: the first of equals. */
hr_expr *hr_extreme_condition(hr_derivation *derivation, const hr_expr *node);
/* Of a product, what each factor is multiplied with: right with zeros among them. */
hr_expr *hr_product_of_others(hr_derivation *derivation, const hr_expr *node);
/* A scan along an index of the graph: an element of the local that holds it. */
hr_expr *hr_make_scan(hr_algebra *algebra, hr_op op, int along, hr_expr *const *args);
/* Of a scan of the source: the index in the graph; the element before, or the start; what `cotangent`, of its
 * elements, comes to from the other end: that of what is added; whether the element is the first. */
int hr_scan_along(const hr_derivation *derivation, const hr_expr *scan);
hr_expr *hr_scan_before(hr_derivation *derivation, const hr_expr *scan);
hr_expr *hr_scan_adjoint(hr_derivation *derivation, const hr_expr *scan, hr_expr *cotangent);
hr_expr *hr_scan_at_first(hr_derivation *derivation, const hr_expr *scan);
/* exp(a - b), with the mask of `a` outside. */
hr_expr *hr_primal_exponential(hr_algebra *algebra, hr_expr *a, hr_expr *b);

/* The value is rounded to bf16, f16 or a dtype that is bound later. */
bool hr_rounds_to_half(const hr_expr *value);

/* ---- adjoints.c: adjoints ---- */

/* Some argument of it may have a gradient. */
bool hr_op_passes_gradient(hr_op op);
/* Elements of results begin with their cotangents. */
void hr_adjoints_begin(hr_derivation *derivation);
hr_status hr_backward(hr_derivation *derivation);

/* ---- share.c: statements ---- */

/* A gradient as it is to be assigned. */
typedef struct hr_gradient_statement {
    int tensor;
    int domain_count, domain[HR_GRAD_INDICES];
    bool accumulate;
    hr_expr *subscripts[HR_RANK_MAX]; /* of one that accumulates */
    hr_expr *condition; /* likewise: elements are left out where it does not hold; NULL = none */
    hr_expr *value;
} hr_gradient_statement;

/* ---- sum_part.c ---- */

/* A sum that holds all of a local's is that local and the rest: dx = dr + ... */
hr_expr *hr_with_parts(hr_algebra *algebra, hr_expr *value);
/* The condition outside of which the local is 0 by its statement, all of whose indices it has; NULL = none.
 */
hr_expr *hr_mask_of_local(const hr_derivation *derivation, const hr_expr *element);

/* ---- round_operands.c ---- */

/* The body of a sum over `bound` as a matrix product takes it: in 16 bits; the same where it is none. */
hr_expr *hr_product_rounded(hr_derivation *derivation, hr_expr *body, hr_index_set bound);
/* Locals that products take rounded, and sums alone as they are, are rounded by their statements. */
void hr_round_once(hr_derivation *derivation);

/* ---- tangent.c: forward mode ---- */

/* The tangent of each statement that changes, or that is wanted; those of parameters are in `cotangents`. */
hr_status hr_tangents(hr_derivation *derivation, int *count, hr_gradient_statement **out);

/* ---- saving.c ---- */

/* The local as a result of the forward kernel: one that its statement rounds to 16 bits has these. */
void hr_saved_as(const hr_function *source, int local, hr_tensor *out);

/* ---- scores.c ---- */

/* Whether the function has attention; of its tensors which are scores, of its extents which count keys. */
bool hr_scores_find(const hr_function *function, bool *scores, bool *keys);

/* ---- gradient.c ---- */

/* The result is one whose gradient is asked for. */
bool hr_is_derived(const hr_derivation *derivation, int tensor);
/* A tensor of the shape of `like`, a local as yet. */
int hr_like_tensor(hr_derivation *derivation, const hr_tensor *like, const char *name, hr_dtype dtype,
                   const hr_dtype_variable *variable);

/* Adds the statements to the graph, each behind the locals that it needs. */
void hr_share(hr_derivation *derivation, int count, hr_gradient_statement *statements);

#endif
