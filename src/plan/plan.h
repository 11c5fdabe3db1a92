/* From a checked function and its extents to stages that an emitter prints.
 *
 * In: a function, numbers for its extents, the layout of each array, the device's limits and facts about the
 * target. Out: a plan, which src/schedule goes on with. The passes, in order, stand in plan/passes.h with
 * what each requires and provides; src/plan/plan.c is the list of their calls: normalise, guards, unify,
 * operands, group, values, dots, regions.
 */
#ifndef HR_PLAN_PLAN_H
#define HR_PLAN_PLAN_H

#include "base/arena.h"
#include "base/limits.h"
#include "base/text.h"
#include "ir/count.h"
#include "ir/extent.h"
#include "ir/function.h"
#include "ir/size.h"
#include "plan/facts.h"

typedef enum hr_shape {
    HR_SHAPE_MAP,
    HR_SHAPE_ROW,
    HR_SHAPE_COLUMN,
    HR_SHAPE_CONTRACT,
    HR_SHAPE_DOTS,
    HR_SHAPE_SCATTER,
    HR_SHAPE_GENERIC,
    HR_SHAPE_SCAN,
    HR_SHAPE_TOPK
} hr_shape;

const char *hr_shape_name(hr_shape shape);

/* Where a step's value lives in its stage: one an element of the domain, one a task (row), or one a column.
 */
typedef enum hr_step_kind {
    HR_STEP_ELEMENT,       /* map over task and row indices */
    HR_STEP_ROW,           /* map over the task indices: a scalar between passes */
    HR_STEP_REDUCE_ROW,    /* reduction over the row indices */
    HR_STEP_REDUCE_COLUMN, /* reduction over the task indices, one accumulator an element of a row */
    HR_STEP_REDUCE_ALL, /* reduction over task indices of a row-level or element-level value, one accumulator
                         */
    HR_STEP_ORDERED,    /* along the row in order: a scan, or the largest of it */
    HR_STEP_SCATTER,    /* into places that depend on data or are named repeatedly */
    HR_STEP_PARTIAL,    /* of a product: sums over neighbours of an element, along its rows or columns */
} hr_step_kind;

/* How a sum of (f - about)^2 follows from sums that an earlier pass can make beside each other: that of f,
 * which is the step `sum`, and that of f^2. */
typedef struct hr_variance_sums {
    int sum;         /* into hr_stage.steps */
    hr_expr *square; /* f^2 */
    hr_expr *about;  /* the same for the whole row */
    hr_expr
        *centred; /* the step's value, made of f and `about`: what parts of a row add up about their own */
} hr_variance_sums;

/* What values are in each HR_SEGMENT elements of a run of them along an axis: schedule/cpu/segments.c. */
enum { HR_SEGMENT = 16 };

typedef struct hr_segments {
    int run;         /* elements; 0 = there are no segments */
    int group;       /* index that counts runs along the axis; -1 = a run is all of it */
    int lane;        /* index of the place in a segment */
    int count;       /* values */
    hr_expr **value; /* all of the first segment, then all of the second one, ... */
} hr_segments;

/* A statement of the normalised function as placed in a stage. */
typedef struct hr_step {
    int statement; /* into hr_plan.normal->statements */
    hr_step_kind kind;
    int pass;     /* the pass over the row in which it is computed; HR_STEP_ROW: after that pass */
    hr_op reduce; /* reductions: HR_OP_REDUCE_SUM, MAX, MIN, PROD, ARGMAX, ARGMIN; ordered: SCAN, SCAN_BACK,
                   * TOPK
                   */
    hr_expr *
        value; /* over the stage's indices; references to values of this stage are replaced or by tensor id */
    hr_expr **subscripts; /* where it is stored: the statement's, with numbers for an axis that is written out
                           */
    bool stored;          /* the tensor exists in memory */
    bool estimated;  /* CPU: taken from the first lanes of the row, and again from all of them where a sum of
                        the pass shows that it was too small: see schedule/cpu/estimate.c */
    bool settles;    /* such a sum */
    hr_expr *target; /* HR_STEP_SCATTER: the element that is written */
    /* HR_STEP_REDUCE_ROW: its own pass is skipped where this suffices; else NULL */
    const hr_variance_sums *variance;
} hr_step;

/* sum over k of left(batch, m, k) * right(batch, n, k), then the stage's steps as epilogue:
 * HR_STEP_ELEMENT with domain batch+m+n, or HR_STEP_PARTIAL with such a value (hr_graph.partials), in which
 * ELEMENT of `product` with the plain indices batch, m, n stands for the finished sum. The three groups are
 * flattened row-major. m and n are never empty; batch may be. */
/* Along which index an operand of a matrix product is evaluated. */
typedef struct hr_contract_lane {
    bool along_k; /* else along the last index of the operand's rows */
    bool vector;  /* by vectors; otherwise scalars */
} hr_contract_lane;

/* Of matrices that rows choose among. */
enum { HR_CONTRACT_GROUPS_MAX = 1024 };

/* Another product of the same left operand, over the same indices. */
enum { HR_STACKED_MAX = 3, HR_ADDED_MAX = 6 };

typedef struct hr_stacked {
    int product;
    hr_expr *right;
} hr_stacked;

typedef struct hr_contract {
    int product; /* tensor id of the sum in normal->tensors */
    int batch_count, m_count, n_count, k_count;
    int *batch, *m, *n, *k; /* indices of hr_plan.normal->indices */
    hr_expr *left, *right;  /* element expressions; .type f32 (f64: f64) */
    /* Not NULL where each row chooses its matrix: a whole number that follows from m, a subscript of the
     * element `grouped` of `right`, which otherwise follows from n and k alone. */
    const hr_expr *group, *grouped;
    /* One walk makes these products, too: their right operands are stacked along n, and the epilogue has all
     * sums of a place. */
    int stacked_count;
    hr_stacked stacked[HR_STACKED_MAX];
    /* Its sum holds those of these products, too, which are nothing but added to it: a schedule's walk. */
    int added_count;
    int added[HR_ADDED_MAX];
    /* Some products do not count: those of a left operand that is 0 under a condition that the right one has
     * not all indices of. What the right operand holds there must change nothing. */
    bool leaves_out;
    /* Of a sum whose left operand is 0 where a mask of attention does not hold: 1 where a product counts,
     * over batch, m and k, else 0. What the right operand holds elsewhere changes nothing. NULL = all count.
     */
    hr_expr *seen;
    /* Of scores in a region whose mask is more than bounds, or none: 1 where it holds, over batch, m and n,
     * else 0. Columns before the first and past the last where it does change nothing. NULL = bounds say it
     * all. */
    hr_expr *mask;
    hr_contract_lane mask_lane;
    hr_contract_lane left_lane, right_lane;
    hr_segments left_segments, right_segments;
} hr_contract;

/* The tensor is its product, or one that is stacked or added. */
static inline bool hr_contract_makes(const hr_contract *contract, int tensor) {
    bool makes = tensor == contract->product;
    for (int i = 0; i < contract->stacked_count; i++)
        makes = makes || tensor == contract->stacked[i].product;
    for (int i = 0; i < contract->added_count; i++)
        makes = makes || tensor == contract->added[i];
    return makes;
}

/* Of a whole-number dot the factors: `bytes`, u8 arithmetic over elements [..., lane, byte], and `word`, an
 * element of i8 [..., byte], the same for all lanes. */
typedef struct hr_dot {
    const hr_expr *bytes, *word;
} hr_dot;

/* The whole-number sum[words, byte](dot + dot + ...). In the value of a stage that sums over groups of such
 * dots, elements of `sum` stand for it: plan/dots.c. */
enum { HR_DOTS_MOST = 8 };

typedef struct hr_dots {
    int sum;                              /* tensor id */
    int byte;                             /* index of the four bytes of a word */
    int word_count, words[HR_DOMAIN_MAX]; /* the sum's other indices */
    int count;
    hr_dot dot[HR_DOTS_MOST];
} hr_dots;

typedef struct hr_stage {
    struct hr_schedule *schedule; /* how the target walks it, schedule/schedule.h; NULL = not known yet */
    hr_shape shape;
    const char *name; /* "row over n a task m" in words */
    const char *why;
    int task_count, *task; /* indices, outermost first; spread over threads */
    int row_count, *row;   /* indices, outermost first; the last is the lane */
    int pass_count;
    int fallback_pass; /* one that rows take only where the variances of all that it sums do not suffice; 0 =
                        * none
                        */
    int step_count;
    hr_step *steps;
    hr_contract *contract; /* HR_SHAPE_CONTRACT only */
    int dots_count;        /* HR_SHAPE_DOTS only; 0 elsewhere */
    hr_dots *dots;
    /* Of two products with rows between them the first: scores of a row, and what follows from them, count
     * just for keys below this, + 1 with `mask_bound_more`; NULL = all do. And of those from `mask_begin` on,
     * + 1 with `mask_begin_more`; NULL = from the first. `mask_whole`: the mask leaves out no other key. */
    hr_expr *mask_bound, *mask_begin;
    bool mask_bound_more, mask_begin_more, mask_whole;
    int mask_bound_last; /* with `mask_bound`: the last stage of the region */
    /* Of scores, over whose columns a later stage sums: why these stages do not go together, in words; NULL =
     * they do, or it makes none. */
    const char *apart;
} hr_stage;

/* Its one step goes along the row in order. */
static inline bool hr_stage_is_ordered(const hr_stage *stage) {
    return stage->step_count == 1 && stage->steps[0].kind == HR_STEP_ORDERED;
}

/* It is computed for itself, not as a part of other values. */
static inline bool hr_step_is_emitted(const hr_step *step) {
    return step->kind != HR_STEP_ELEMENT || step->stored;
}

/* The index that lanes run along; -1 = the stage has no row. */
static inline int hr_stage_lane(const hr_stage *stage) {
    return stage->row_count ? stage->row[stage->row_count - 1] : -1;
}

/* How many passes that every row takes come before `pass`, and how many there are in all. */
static inline int hr_stage_pass_position(const hr_stage *stage, int pass) {
    return pass - (stage->fallback_pass && pass > stage->fallback_pass);
}

static inline int hr_stage_main_passes(const hr_stage *stage) {
    return hr_stage_pass_position(stage, stage->pass_count);
}

/* The pass at this position. */
static inline int hr_stage_pass_at(const hr_stage *stage, int position) {
    return position + (stage->fallback_pass && position >= stage->fallback_pass);
}

/* How an argument lies in memory. LIST: in members of unequal length, base/pieces.h. MEMBERS: the steps of
 * its first axis lie anywhere, each without gaps; in the place of that axis's stride stands the address of a
 * table that has for each of them, in elements, how far it is from the array's address. */
typedef enum hr_layout { HR_LAYOUT_DENSE, HR_LAYOUT_STRIDED, HR_LAYOUT_LIST, HR_LAYOUT_MEMBERS } hr_layout;

/* Code reads the argument's strides. */
static inline bool hr_layout_has_strides(hr_layout layout) {
    return layout == HR_LAYOUT_STRIDED || layout == HR_LAYOUT_MEMBERS;
}

/* An axis that is two in `normal`: of `groups` and `by` elements each. */
typedef struct hr_split {
    const hr_expr *groups, *by;
} hr_split;

enum { HR_REGION_PRODUCTS_MOST = 4 };

/* Stages from a product to a product, with rows between them, that can go through the rows of both a block at
 * a time. Before the rows there may be more products over the same indices, and after them more sums. */
typedef struct hr_region {
    int first, last; /* stages */
    int sums;        /* the first of those that sum over the columns of the first product */
    bool *inner;     /* by tensor: of it the block in hand is enough */
} hr_region;

typedef struct hr_plan {
    const hr_function *source;
    const hr_function *normal; /* parameters and results as in source, but for splits; more locals, indices,
                                  statements */
    const hr_layout *layouts;  /* one a parameter or result */
    int stage_count;
    hr_stage *stages;
    const int *storage; /* one a tensor of `normal`: the tensor whose memory it uses, mostly itself */
    bool *materialised; /* one a tensor of `normal`: a local that exists in memory */
    bool *in_strips;    /* one a tensor of `normal`: of what exists, only the strip in hand; NULL = of none */
    bool *in_blocks;    /* the same for the block of rows in hand */
    int region_count;
    hr_region *regions;
    int split_count;
    hr_split *splits;
    int again_begin, again_end; /* locals of `normal` that are scores made again: plan/scores_again.c */
    int masked_count;           /* of the sums of `normal` that leave out what a mask makes 0: tensors */
    int *masked;                /* plan/masked_rows.c */
    bool general;               /* made for any extents: hr_schedule_options */
    hr_device_limits limits;
    hr_facts facts;
    struct hr_graph *graph; /* the expressions of `normal` */
    const char *summary;    /* one line: "1 stage: row (1 read, 1 write)" */
    hr_arena *arena;
} hr_plan;

/* `unfused`: a stage a statement. The stages have no schedules yet: schedule/target.h has the call that gives
 * both. */
hr_status hr_plan_create(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                         const hr_device_limits *limits, const hr_facts *facts, bool unfused, hr_plan **out);
void hr_plan_destroy(hr_plan *plan);

/* ---- what is asked of a plan ---- */

/* How the memory lies that a tensor of `normal` uses; that of locals has no gaps. */
static inline hr_layout hr_plan_layout(const hr_plan *plan, int tensor) {
    int memory = plan->storage[tensor];
    return memory < hr_function_arguments(plan->source) ? plan->layouts[memory] : HR_LAYOUT_DENSE;
}
/* A local of which only the strip in hand is in memory, in the scratch memory of a thread. */
bool hr_plan_is_in_strips(const hr_plan *plan, int tensor);
/* The same for the block of rows in hand. */
bool hr_plan_is_in_blocks(const hr_plan *plan, int tensor);
/* One or the other. */
bool hr_plan_is_in_hand(const hr_plan *plan, int tensor);
/* A local that has memory of its own. */
bool hr_plan_is_scratch(const hr_plan *plan, int tensor);
/* What it takes: its bytes and `more`, in units of `unit`; and what all of them before tensor `end` take. */
const hr_size *hr_plan_local_size(hr_sizes *sizes, const hr_plan *plan, int tensor, int64_t more,
                                  int64_t unit);
hr_status hr_plan_locals_bytes(const hr_plan *plan, int end, const int64_t *extents, int64_t more,
                               int64_t unit, int64_t *out);
/* The axis of the text's tensor that axis `axis` of `normal`'s is, or is a part of. */
int hr_plan_source_axis(const hr_plan *plan, int tensor, int axis);
/* The product of the indices' sizes. */
hr_status hr_plan_points(const hr_plan *plan, const int *indices, int count, const int64_t *extents,
                         int64_t *out);
static inline bool hr_plan_knows(const hr_plan *plan, hr_fact fact) {
    return (plan->facts.set & fact) != 0;
}
/* Some step of the stage is of that kind; all are, but for elements that are not stored. */
bool hr_stage_has(const hr_stage *stage, hr_step_kind kind);
bool hr_stage_has_only(const hr_stage *stage, hr_step_kind kind);
/* All its sums of columns are 0 but where this holds of a column: without such columns nothing is walked.
 * NULL = there is no such condition that is known before the stage. */
const hr_expr *hr_stage_columns_chosen(const hr_plan *plan, const hr_stage *stage);
/* Some step of it gives the tensor its values. */
bool hr_stage_makes(const hr_plan *plan, const hr_stage *stage, int tensor);
/* A result that nothing needs to have in memory but the caller: of a whole row of what is computed there is
 * one, as of the statistics that a backward pass reads. Emitted code takes NULL for it, and leaves it out. */
bool hr_plan_result_is_optional(const hr_plan *plan, int tensor);
/* Some step of it writes the memory that the tensor uses. */
bool hr_stage_overwrites(const hr_plan *plan, const hr_stage *stage, int tensor);
/* Some step of it is a maximum that is estimated from the beginning of a row. */
bool hr_stage_estimates(const hr_stage *stage);
/* Some step of it gives values of less than 32 bits. */
bool hr_stage_is_narrow(const hr_plan *plan, const hr_stage *stage);
/* What the plan has to do: what the text asks for, but for scores past their mask bound and what follows from
 * them. */
hr_status hr_plan_work(const hr_plan *plan, const int64_t *extents, hr_work *out);
/* The part of all scores that counts in a stage of two products with rows between them; 1 elsewhere. */
hr_status hr_plan_unmasked(const hr_plan *plan, int stage, const int64_t *extents, double *out);
/* HR_STEP_REDUCE_ALL over a value that is one a task: it is no part of a lane loop. */
bool hr_step_is_row_total(const hr_plan *plan, const hr_stage *stage, const hr_step *step);
/* The elements of the stage's only index can be shared out: nothing needs all of them, and what is one for
 * the whole stage changes nothing that it reads, so that everybody may compute it. */
bool hr_stage_can_split(const hr_plan *plan, const hr_stage *stage);
/* The keys that a mask leaves to a query: from `begin` to below `bound`, each + 1 with `more`. */
typedef struct hr_key_bounds {
    hr_expr *bound, *begin; /* over the queries' last index, no smaller where that is larger; NULL = all do */
    bool bound_more, begin_more;
    bool whole; /* the mask says nothing else */
} hr_key_bounds;
/* What a condition on queries and keys of scores says of keys. */
void hr_key_bounds_find(const hr_plan *plan, const hr_contract *scores, const hr_expr *condition,
                        hr_key_bounds *out);
/* Some argument is bound as a list. */
bool hr_plan_has_lists(const hr_plan *plan);
/* Whether such a plan can run over lists: maps and total reductions over one axis, all of whose tensors are
 * lists. HR_BAD_INPUT says what is in the way. */
hr_status hr_plan_check_lists(const hr_plan *plan);
/* A subscript that is checked as the code runs; `access` is hr_fault.access. */
typedef struct hr_access {
    int tensor, axis; /* into normal->tensors, and which of its axes */
    hr_place place;   /* of the subscript in the text */
} hr_access;
/* False where there is no such access. */
bool hr_plan_access(const hr_plan *plan, int64_t access, hr_access *out);
/* Whether each value of an operand is a value of `dtype`, whatever the arguments are; `function`:
 * hr_plan.normal.
 */
bool hr_value_fits(const hr_function *function, const hr_expr *value, hr_dtype dtype);
/* Of both operands. */
bool hr_contract_fits(const hr_function *function, const hr_contract *contract, hr_dtype dtype);
/* The dtype of the bytes that all values of an operand of f64 are, HR_I8 or HR_U8; otherwise HR_F64. */
hr_dtype hr_value_bytes(const hr_function *function, const hr_expr *value);
/* Both operands are bytes. */
bool hr_contract_of_bytes(const hr_function *function, const hr_contract *contract);
/* Somewhere in it is an exp, tanh or their kin. */
bool hr_expr_computes_special(const hr_expr *expr);

#endif
