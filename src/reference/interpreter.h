/* The interpreter's parts: code compiled from expressions, rules made of statements, tables of what is known.
 *
 * An expression becomes a flat list of instructions in an order in which operands come first; running it
 * computes one value a lane (interpreter_lanes.h) and needs no recursion. Reductions have code of their own,
 * which runs over strips of up to `width` points; a tensor that another statement assigns is read by running
 * that statement's rule at the subscripts asked for. What a rule or a reduction gave is remembered under a
 * 128-bit hash of what it was asked.
 *
 *     interpreter_compile.c   expressions -> code          interpreter_run.c      code -> lanes
 *     interpreter_elements.c  elements of tensors          interpreter_values.c   faults, doubt, conversions
 *     interpreter_reduce.c    reductions and softmax       interpreter_scatter.c  +=
 *     interpreter_sum.c       how sums err                 interpreter_errors.c   how arithmetic does
 *     interpreter_order.c     scans and topk               interpreter_memo.c     the tables
 *     reference.c             the public functions
 */
#ifndef HR_REFERENCE_INTERPRETER_H
#define HR_REFERENCE_INTERPRETER_H

#include "base/arena.h"
#include "reference/interpreter_lanes.h"
#include "reference/reference.h"

/* What an instruction does: an hr_op, or one of the interpreter's own. */
enum {
    HR_CODE_TO_FLOAT = HR_OP_COUNT,
    HR_CODE_TO_WHOLE,
    HR_CODE_TO_BOOL,
    HR_CODE_BRANCH, /* the condition of a `where` is known: which of its sides has a lane that is wanted? */
};

typedef struct hr_instruction {
    int op;
    const hr_expr *expr;
    bool whole;  /* the value is whole (or bool); otherwise float */
    bool varies; /* with the indices that a reduction runs over: again for each strip */
    bool shared; /* a float that does not depend on all indices that its code runs over: several points have
                    it, and its error, in common */
    int region;  /* the side of a `where` on which alone this value is used; 0 = everywhere */
    int arg_count;
    int *args;  /* instructions */
    int target; /* ELEMENT: the rule that is read, or -1 for an operand. Reductions and SOFTMAX: the fold.
                   WHERE and BRANCH: the region of the second argument; that of the third follows. */
} hr_instruction;

/* The instruction has a loop, with code of its own. */
static inline bool hr_code_is_fold(int op) {
    return op < HR_OP_COUNT && (hr_op_is_reduction((hr_op)op) || hr_op_leaves_free((hr_op)op));
}

typedef struct hr_region {
    int parent, depth;
    int condition; /* instruction */
    bool side;
    bool live;   /* at run time: some lane is on this side */
    bool varies; /* as hr_instruction.varies */
} hr_region;

typedef struct hr_code {
    int count, region_count;
    hr_instruction *instructions;
    hr_lanes *lanes; /* the value of each */
    hr_region *regions;
    bool heavy; /* contains a reduction or a softmax */
} hr_code;

/* One value for good. */
typedef struct hr_known {
    double value, bound, noise;
    int64_t whole;
    double peak; /* softmax: the row's largest value; `value` is then the sum of exponentials */
    int32_t fault;
} hr_known;

/* How one sum errs, while it is added up: interpreter_sum.c. */
typedef struct hr_sum hr_sum;

typedef struct hr_scan_rows hr_scan_rows;

/* A reduction's, a softmax row's or a scan's loop. */
typedef struct hr_fold {
    const hr_expr *expr;
    hr_code body;
    int free_count, *free; /* the indices of the surroundings on which the result depends */
    int64_t *extents, total;
    int64_t **walk;  /* lanes of each bound index while a strip crosses rows */
    hr_lanes *saved; /* of free indices, then of bound ones */
    hr_sum_order order;
    hr_sum *sum;           /* NULL until it adds up for the first time */
    hr_code factor, start; /* scans: args[0] and args[2]; `body` is args[1] */
    hr_scan_rows *rows;    /* scans: what is known of rows; NULL until one is asked for */
} hr_fold;

/* Which points of a statement that writes places hit an element: see interpreter_scatter.c. */
typedef struct hr_scatter hr_scatter;

typedef struct hr_rule {
    const hr_statement *statement;
    int number; /* of the statement */
    hr_code value;
    hr_code *subscripts; /* of one that writes places: one an axis */
    hr_sum_order order;  /* += only */
    hr_scatter *scatter; /* the same */
} hr_rule;

/* A request that must be met before a deeper one can be: the indices of a rule's statement. */
typedef struct hr_pending {
    int rule, count;
    hr_lanes *indices; /* with arrays of their own */
} hr_pending;

typedef struct hr_fault_record {
    int tensor, axis, line;
    int64_t value;
} hr_fault_record;

typedef struct hr_memo hr_memo;
typedef struct hr_strips hr_strips;

struct hr_reference {
    const hr_function *function;
    hr_arena *arena;
    int64_t *extents;
    hr_operand *operands;
    int64_t **shapes; /* one a tensor */
    int *writer;      /* one a tensor: the statement that assigns it, or -1 */
    int64_t *index_extents;
    hr_lanes *indices; /* the current value of each index */
    hr_rule *rules;    /* one a statement */
    int fold_count;
    hr_fold *folds;
    int width; /* lanes of a strip */
    int64_t *offsets;
    hr_memo *memo;
    hr_strips *strips;
    int depth; /* rules under way */
    int scatter_depth;
    int pending_count, pending_capacity;
    hr_pending *pending;
    hr_loss loss;
    int fault_count;
    hr_fault_record *faults; /* from 1 */
};

/* Not a failure: the request was put on the list of pending ones because it lies too deep; ask again when it
 * is met. Never leaves this folder. */
#define HR_DEFERRED ((hr_status)(HR_INTERNAL + 1))

/* ---- interpreter_compile.c ---- */

hr_status hr_interpreter_compile(hr_reference *reference);

/* ---- interpreter_run.c ---- */

/* The instruction's lanes are valid until the code runs again. `first`: not a later strip of the same loop.
 */
hr_status hr_code_run(hr_reference *reference, hr_code *code, int count, bool first);
static inline hr_lanes *hr_code_result(const hr_code *code) {
    return &code->lanes[code->count - 1];
}
bool hr_lane_live(const hr_code *code, int region, int lane);

/* ---- interpreter_elements.c ---- */

/* The instruction `made`: an element at the subscripts that stand in the code's lanes. */
hr_status hr_element_read(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                          hr_lanes *out);
/* The rule's value where its statement's indices stand now; all of them uniform for a `known` one. */
hr_status hr_rule_known(hr_reference *reference, hr_rule *rule, hr_known *out);
/* The same for several lanes, into the result of the rule's code. */
hr_status hr_rule_lanes(hr_reference *reference, hr_rule *rule, int count);
/* Element `subscripts` of a parameter as it was before the launch. */
hr_known hr_operand_known(const hr_reference *reference, int tensor, const int64_t *subscripts);

/* ---- interpreter_values.c ---- */

/* Allocates on the first fault of these lanes, and marks one. */
hr_status hr_fault_mark(hr_reference *reference, hr_lanes *lanes, int lane, const hr_fault_record *record);
/* HR_OUT_OF_RANGE with the sentence that says what was accessed where. */
hr_status hr_fault_fail(const hr_reference *reference, const hr_fault_record *record);
hr_status hr_fault_carry(hr_reference *reference, hr_lanes *lanes, int lane, int32_t fault);

/* ---- interpreter_reduce.c ---- */

/* The instruction `number` of `code`: a reduction, or a softmax at the current point. */
hr_status hr_fold_run(hr_reference *reference, hr_code *code, int number, int count);

/* ---- interpreter_order.c: scans and topk ---- */

/* The element of a scan where all indices stand now, that of the scan too. */
hr_status hr_scan_known(hr_reference *reference, hr_fold *fold, hr_known *out);
void hr_scan_rows_destroy(hr_scan_rows *rows);
/* The place of the element whose rank the index of ranks says. */
hr_status hr_topk_known(hr_reference *reference, hr_fold *fold, hr_known *out);
/* Sets the bound indices of a fold to the points from `start` on; returns how many. */
int hr_fold_points(hr_reference *reference, const hr_fold *fold, int64_t start);

/* ---- interpreter_sum.c ---- */

/* For sums of `total` values of `type`, 0 = unknown; clears what the sum before left. */
hr_status hr_sum_begin(hr_sum **sum, hr_dtype type, hr_sum_order order, int64_t total);
/* Adds a value whose error is at most `bound`, `noise` of it its own (interpreter_lanes.h). */
void hr_sum_add(hr_sum *sum, double value, double bound, double noise);
/* An addend that is 0 times what is not finite, where such ones count as nothing or as NaN: it counts as
 * nothing, and the error of the sum is infinite. */
bool hr_sum_leaves_out(const hr_sum *sum, double value, double noise);
/* All that was added so far is multiplied. */
void hr_sum_scale(hr_sum *sum, double factor);
/* The error of all, of the same two kinds: that of the values and of adding them up. */
void hr_sum_end(hr_sum *sum, double *bound, double *noise);
void hr_sum_destroy(hr_sum *sum);

/* ---- interpreter_scatter.c ---- */

/* The element of the statement's tensor after a statement that writes places. */
hr_status hr_scatter_value(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, hr_known *out);
/* The element will be asked for: where points are many, all such are found together. */
hr_status hr_scatter_expect(hr_reference *reference, hr_rule *rule, const int64_t *subscripts);
void hr_scatter_destroy(hr_scatter *scatter);

/* ---- interpreter_memo.c ---- */

typedef struct hr_memo_key {
    uint64_t low, high;
} hr_memo_key;

typedef enum hr_memo_kind { HR_MEMO_RULE, HR_MEMO_FOLD } hr_memo_kind;

hr_memo_key hr_memo_key_of(hr_memo_kind kind, int number, int count, const int64_t *words);
/* Of the current values of indices, all uniform. */
hr_memo_key hr_memo_key_at(const hr_reference *reference, hr_memo_kind kind, int number, int index_count,
                           const int *indices);
hr_status hr_memo_create(hr_memo **out);
void hr_memo_destroy(hr_memo *memo);
const hr_known *hr_memo_find(const hr_memo *memo, hr_memo_key key);
/* Forgets everything when it is full. */
hr_status hr_memo_insert(hr_memo *memo, hr_memo_key key, const hr_known *known);

hr_memo_key hr_strips_key_of(const hr_reference *reference, const hr_rule *rule, int count);
hr_status hr_strips_create(hr_strips **out);
void hr_strips_destroy(hr_strips *strips);
/* Copies what is known into `out`. */
hr_status hr_strips_find(hr_reference *reference, hr_memo_key key, int count, hr_lanes *out, bool *found);
hr_status hr_strips_insert(hr_reference *reference, hr_memo_key key, int count, const hr_lanes *lanes,
                           bool whole);

/* ---- inexact.c ---- */

/* The function as the interpreter computes it, in `arena`, or the same one. HR_OUT_OF_MEMORY. */
hr_status hr_inexact_function(const hr_function *function, hr_arena *arena, const hr_function **out);

#endif
