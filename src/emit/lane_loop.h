/* The loops of one pass over a row: outer indices, tiles, vectors of lanes and their tail.
 *
 * In: the steps of a pass whose task-level lines are printed. Out: the loop's text. The stage around it
 * provides the names in hr_lane_step; split stages run from `first` to `last` instead of over the whole lane
 * axis.
 */
#ifndef HR_EMIT_LANE_LOOP_H
#define HR_EMIT_LANE_LOOP_H

#include "emit/expression.h"
#include "emit/random_list.h"

/* What the loop does with a step's value, lane by lane. */
/* HR_LANE_KEEP: nothing but what keeping its value in a row buffer takes. */
typedef enum hr_lane_use { HR_LANE_STORE, HR_LANE_REDUCE, HR_LANE_COLUMN, HR_LANE_KEEP } hr_lane_use;

typedef struct hr_lane_step {
    hr_lane_use use;
    const hr_expr *value;
    hr_op reduce;  /* HR_LANE_REDUCE and HR_LANE_COLUMN */
    hr_dtype type; /* compute type of the reduced value */
    int tensor;    /* HR_LANE_STORE */
    hr_expr *const *subscripts;
    bool stream; /* HR_LANE_STORE: past the caches */
    int id;      /* unique in the stage: names its variables */
} hr_lane_step;

typedef struct hr_lane_pass {
    int step_count;
    const hr_lane_step *steps;
    const char *first, *last; /* of the lane axis, as C expressions */
    const char *block; /* NULL, or: what lies beside these lanes is stored much later: where this holds, whole
                        * lines leave past the caches
                        */
    int64_t tile;      /* elements a tile; 0 = none is needed */
    int kept_count;    /* values to be stored into row buffers as they are first computed */
    hr_expr *const *kept;
    const char *const *kept_name;
    bool *kept_done;
    int prefetch_count; /* lane elements whose next row is asked for */
    const hr_expr *const *prefetched;
    const char *const *prefetch_from; /* the row after this one, where its place depends on data; else NULL */
    const char *prefetch;             /* the function that asks, prefetch_read or prefetch_near */
    const char *prefetch_gathered;    /* the same for prefetch_from */
    const char *prefetch_place;       /* what is asked for, in elements from the lane elements' own row */
    int prefetch_bytes;               /* where prefetch_place is NULL: so many bytes ahead of the lanes */
    int prefetch_near;                /* so many bytes ahead into the first-level cache; 0 = not */
    int prefetch_part, prefetch_of;   /* for each vector of lanes, this part of a vector is asked for */
    int prefetch_before;              /* parts that earlier passes ask for */
    int ways;                         /* vectors a step: accumulators side by side, bf16 stored in pairs */
    /* Where the accumulators stand, "row->", if the loop covers only a part of a row; else NULL. */
    const char *state;
    const char *saved; /* where they stand while they are written there */
    int unit;          /* vectors that hr_lane_step_body prints, from the way `from` on */
    /* With `state`, the length of the row, in a pass whose streamed results begin `shift` lanes into the row,
     * where they are aligned: it covers first + shift to last + shift, from 0 where first is 0. Else NULL. */
    const char *whole;
    int group; /* with `whole`: how many such rows lie between one that is read and the one that is stored */
} hr_lane_pass;

/* The fields of such a struct, and what they hold before the first part. */
void hr_lane_fields(hr_printer *printer, const hr_lane_pass *pass);
void hr_lane_begin(hr_printer *printer, const hr_lane_pass *pass);
/* Writes them back from the place `from`: "" = local variables. */
void hr_lane_save(hr_printer *printer, const hr_lane_pass *pass, const char *from);
/* Names for those that `body` mentions; `qualifier` is "const " or "". */
void hr_lane_views(hr_printer *printer, const hr_lane_pass *pass, const char *body, const char *qualifier);
/* The body of the loop alone: a part of a step, `unit` vectors of lanes from `i`, which it moves. */
void hr_lane_step_body(hr_printer *printer, const hr_lane_pass *pass);
/* The least such part: a whole line of each stream. */
int hr_lane_unit(hr_printer *printer, const hr_lane_pass *pass);
/* How many lanes from the row's beginning its first streamed result has to the next aligned vector: "0" where
 * nothing is streamed. Prints the lines that it takes. */
const char *hr_lane_shift(hr_printer *printer, const hr_lane_pass *pass);

/* 0, once the streams that the pass asks for have been read from `i` on, as a sum of calls; NULL where it
 * asks for none. Prints the lines that it takes. */
const char *hr_lane_arrival(hr_printer *printer, const hr_lane_pass *pass);

/* Values that are drawn a tile at a time: HR_OP_RANDOM nodes of vector mode. */
void hr_lane_randoms(hr_printer *printer, const hr_lane_pass *pass, hr_random_list *out);

void hr_lane_loop(hr_printer *printer, const hr_lane_pass *pass);
/* The reduced value after the loop, as an operand of type `type`. */
const char *hr_lane_result(hr_printer *printer, const hr_lane_pass *pass, const hr_lane_step *step);
/* Asks for what the lanes of `vectors` vectors will need later, a cache line at a time. */
void hr_lane_prefetches(hr_printer *printer, const hr_lane_pass *pass, int vectors);
/* `a` and `b`, vectors of `type`, combined. */
const char *hr_lane_combine(hr_printer *printer, hr_op op, hr_dtype type, const char *a, const char *b);
/* The value that changes nothing: 0, -inf, ... as a C scalar. */
const char *hr_reduce_identity(hr_printer *printer, hr_op op, hr_dtype type);
/* The C type that a reduction accumulates in outside vectors. */
const char *hr_reduce_type(hr_op op, hr_dtype type);
/* `a` and `b`, operands of `type`, combined; scalars. */
const char *hr_reduce_combine(hr_printer *printer, hr_op op, hr_dtype type, const char *a, const char *b);
static inline bool hr_is_arg(hr_op op) {
    return op == HR_OP_REDUCE_ARGMAX || op == HR_OP_REDUCE_ARGMIN;
}

static inline bool hr_is_largest(hr_op op) {
    return op == HR_OP_REDUCE_MAX || op == HR_OP_REDUCE_ARGMAX;
}

#endif
