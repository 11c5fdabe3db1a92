/* The planner's passes, in the order in which src/plan/plan.c calls them. Each says what it requires and
 * provides. */
#ifndef HR_PLAN_PASSES_H
#define HR_PLAN_PASSES_H

#include "ir/visit.h"
#include "plan/plan.h"

/* The statement's value is rounded to 16 bits: as a local it takes two bytes. */
static inline bool hr_statement_is_half(const hr_statement *statement) {
    const hr_expr *value = statement->value;
    return value->op == HR_OP_CONVERT && (value->dtype == HR_BF16 || value->dtype == HR_F16);
}

/* Before there is a graph. The extents of short axes that a window walks, and, with `rows`, of short rows and
 * of few rows that are added up, by extent, for hr_graph_create_fixed(): as numbers of the text they are
 * written out. NULL = there is none, or no memory. */
const int64_t *hr_short_axes(const hr_function *function, const int64_t *extents, bool rows, hr_arena *arena);

/* Requires a checked function. Provides: each statement is a map or one sum, max, min, argmax or argmin of a
 * map, over plain distinct indices of the left side or a scatter; softmax, mean and logsumexp are spelled
 * out; an element that could leave its axis where its `where` does not choose it carries that guard; an
 * assigned inout has a new version. `extents`: sums over products may be taken apart at these; NULL = they
 * stay as they are. */
hr_status hr_pass_normalise(hr_graph *graph, const int64_t *extents);

/* Requires normalise. Provides: elements carry no guard where their subscripts stay inside their axes. */
hr_status hr_pass_guards(hr_graph *graph, const int64_t *extents);

/* Requires guards. Provides plan->splits: indices that are counted in groups are two, and the axes that they
 * walk. */
hr_status hr_pass_split_axes(hr_graph *graph, const int64_t *extents, hr_plan *plan);

/* Requires normalise. Provides: indices of different statements that walk the same axes are one index. */
hr_status hr_pass_unify(hr_graph *graph);

/* Requires unify. Provides: operands of products are what cheap locals are made from. `facts`: see
 * hr_contract_match. */
hr_status hr_pass_operands(hr_graph *graph, const int64_t *extents, unsigned facts);
/* A local that is an operand of the product is kept: what a stage before it has in hand, as rows that it
 * normalises or sums, or another local but for its rounding. */
bool hr_operand_is_kept(const hr_function *function, const int64_t *extents, const hr_contract *contract,
                        int tensor);
/* The statement `sum` adds up what the map, rounded to 16 bits, is made from: it has that in hand. */
bool hr_operand_is_summed_by(const hr_function *function, int map, int sum);

/* Requires operands. Provides: sums over queries of what follows from scores have scores of their own, keys
 * before queries; plan->again_begin, again_end. */
hr_status hr_pass_scores_again(hr_graph *graph, const int64_t *extents, hr_plan *plan);

/* Requires operands. Provides: sums of rows, which are no products, leave out what a mask makes 0;
 * plan->masked. */
hr_status hr_pass_masked_rows(hr_graph *graph, hr_plan *plan);

/* Requires unify. Provides: where sums of columns are long, what they read are no cheap locals. */
hr_status hr_pass_long_columns(hr_graph *graph, const int64_t *extents, const hr_plan *plan);
/* So many sums leave a core's caches or a cluster's registers, or take much memory. They are no part of
 * another stage then. */
bool hr_columns_are_long(const hr_plan *plan, double columns);

/* Requires unify. Provides: argmax and argmin of elements along an axis that is not the last are sums of
 * columns. */
hr_status hr_pass_positions(hr_graph *graph, const int64_t *extents);

/* Requires unify. Provides: sums of rows that become means, beside their variances, are sums about the rows'
 * first elements, where elements have at least so many bytes. */
hr_status hr_pass_first_guess(hr_graph *graph, const int64_t *extents, int bytes);

/* Requires unify. Provides: sums of columns that become means, beside their variances, are sums about guesses
 * of their own, and so are the variances' sums of squares. */
hr_status hr_pass_column_guess(hr_graph *graph, const int64_t *extents);

/* Requires unify. Provides: divisions, roots and functions of what is one a column are locals. */
hr_status hr_pass_once_a_column(hr_graph *graph, const int64_t *extents);

/* Requires unify. Provides graph->partials: sums over the results of products are sums over these. */
hr_status hr_pass_partial_sums(hr_graph *graph, const int64_t *extents, const hr_plan *plan);

/* Requires unify. Provides that a row which what follows a product reads stands before it, where it can. */
hr_status hr_pass_rows_first(hr_graph *graph, const hr_plan *plan);

/* Requires unify. Provides plan->stages with task and row indices and steps in order, kinds and passes.
 * Values are those of the statements. */
hr_status hr_pass_group(hr_graph *graph, const int64_t *extents, hr_plan *plan, bool unfused);

/* Requires group. Provides plan->materialised and which steps are stored. */
hr_status hr_pass_materialise(hr_graph *graph, hr_plan *plan);

/* Requires group. Provides: locals that cost less to make anew than to keep are made anew by their readers.
 * `any`: some were, group again. */
hr_status hr_pass_recompute(hr_graph *graph, const int64_t *extents, const hr_plan *plan, bool *any);

/* Requires group. Provides: step values in which elements of the same stage are replaced, passes in which
 * what is overwritten was read, shapes. */
hr_status hr_pass_values(hr_graph *graph, hr_plan *plan);

/* Requires unify. The statement is an inner sum of such, where the target has these: no product of its own.
 */
bool hr_dots_have(hr_graph *graph, hr_plan *plan, const hr_statement *statement);
/* Requires values. Provides hr_stage.dots: sums of groups of whole-number dots are one stage. */
hr_status hr_pass_dots(hr_graph *graph, hr_plan *plan);

/* Its shape, by its steps as they are now. */
hr_shape hr_stage_shape_of(const hr_function *function, const hr_stage *stage);

/* Requires values. Provides: stages that read what attention's gradients are come behind all five of their
 * products, which one schedule may join. */
void hr_pass_backward(hr_plan *plan);

/* Requires values. Provides plan->regions and the `mask_bound` of their first stages. */
hr_status hr_pass_regions(const hr_graph *graph, hr_plan *plan);

/* Part of scheduling, after what changes a stage's steps. Provides its fallback_pass and the variances of
 * that pass's steps. */
void hr_pass_variance(hr_graph *graph, hr_stage *stage);

/* Elements of a short axis that is written out */
enum { HR_WRITTEN_MOST = 4 };

/* The expression with a number for an index, and what follows from that as numbers. */
hr_expr *hr_expr_at(hr_graph *graph, hr_expr *expr, int index, int64_t value);

/* The same for many expressions, each of whose nodes is looked at once. */
typedef struct hr_substitution {
    int index; /* that `number` stands for */
    hr_expr *number;
    hr_rewriting rewriting;
} hr_substitution;
/* `out` stays where it is until its end. */
void hr_substitution_begin(hr_graph *graph, int index, int64_t value, hr_substitution *out);
hr_expr *hr_substituted(hr_substitution *substitution, hr_expr *node);
void hr_substitution_end(hr_substitution *substitution);

/* Part of normalise. What a reduction is, spelled out term by term, over a body without reductions; NULL
 * where it is better left one. `scope`: of how many indices there is a value each. */
hr_expr *hr_reduction_written(hr_graph *graph, const hr_expr *reduction, hr_expr *body, int scope);

/* Part of normalise. Of a sum over a product the factors, as bits, and the indices that are a sum of their
 * own beside the rest; false where it is better left one. */
enum { HR_FACTORS_MOST = 8 };

typedef struct hr_factoring {
    unsigned factors;
    int bound_count, bound[HR_FACTORS_MOST];
} hr_factoring;

bool hr_sum_factored(const hr_function *function, const int64_t *extents, const int *bound, int bound_count,
                     hr_expr *const *factors, int factor_count, hr_factoring *out);
/* Part of normalise. Of a sum over a product, the factors that vary along the sum are elements of 16 bits of
 * one dtype, or of 8. */
bool hr_factors_are_narrow(const hr_function *function, hr_expr *const *factors, int factor_count,
                           const int *bound, int bound_count);
/* A factor is no constant; with `narrow`: it varies along the sum, or is drawn for each term. */
bool hr_factor_stays(const hr_expr *factor, const int *bound, int bound_count, bool narrow);

/* Part of normalise, after all statements. An element of a cheap local beside the one in hand becomes what
 * the local is made from. */
void hr_graph_inline_shifted(hr_graph *graph);

/* The same for every element of a cheap local of two axes and more, but those in 16 bits that products share.
 */
hr_status hr_graph_inline_cheap(hr_graph *graph, unsigned facts);

/* The same for the cheap ones of those locals, by tensor; whether there was one. */
bool hr_graph_inline_chosen(hr_graph *graph, const bool *chosen);

/* Statements of locals that nothing reads are left out. */
void hr_graph_drop_unread(hr_graph *graph);

/* Part of regions. Provides its first stage's `mask_bound`. `elsewhere`: by tensor, other stages read it. */
void hr_mask_bound_find(hr_plan *plan, const hr_region *region, const bool *elsewhere);
/* Part of regions. Provides hr_contract.seen of all sums that have none yet. */
void hr_masked_sums_find(hr_plan *plan);

/* Requires schedules. HR_INTERNAL where an element of a result is not written exactly once or a use comes
 * before its definition: a bug of ours, found before it becomes a wrong result. */
hr_status hr_pass_check(const hr_plan *plan);

/* sum[k](left * right) with two free index groups? Fills `out` (from the arena) where it is. `facts`: of
 * hr_fact: products of 8-bit whole numbers, too, whose operands are then f64; those whose rows choose their
 * matrix. */
bool hr_contract_match(hr_graph *graph, const hr_statement *statement, unsigned facts, hr_contract *out);
/* hr_contract_fits, once locals that are rounded to 16 bits are kept in these. */
bool hr_contract_will_fit(const hr_function *function, const hr_contract *contract, hr_dtype dtype);
/* One walk can make both: operands of 16 bits, the left one the same, over the same indices. */
bool hr_contracts_stack(const hr_function *function, const hr_facts *facts, const int64_t *size,
                        const hr_contract *contract, const hr_contract *other);
/* Of the products of a function's statements (NULL = it is none), those that are rows instead move from
 * `contracts` to `thin`: a matrix times a few vectors, both along memory, is as fast as the matrix can be
 * read: rows of products, those of the same row of the matrix side by side. `size`: of each index. */
void hr_contracts_part_thin(const hr_function *function, const hr_facts *facts, const int64_t *extents,
                            const int64_t *size, hr_contract **contracts, hr_contract **thin);

#endif
