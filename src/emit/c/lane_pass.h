/* One pass over a row, as the lane loops take it: its steps, its limits, what it stashes and prefetches. */
#ifndef HR_EMIT_C_LANE_PASS_H
#define HR_EMIT_C_LANE_PASS_H

#include "emit/expression.h"

/* What the loop does with a step's value, lane by lane. KEEP: nothing but what keeping it in a row buffer
 * takes. */
typedef enum hr_lane_use { HR_LANE_STORE, HR_LANE_REDUCE, HR_LANE_COLUMN, HR_LANE_KEEP } hr_lane_use;

typedef struct hr_lane_step {
    hr_lane_use use;
    const hr_expr *value;
    hr_op reduce;  /* HR_LANE_REDUCE and HR_LANE_COLUMN */
    hr_dtype type; /* compute type of the reduced value */
    int tensor;    /* HR_LANE_STORE */
    hr_expr *const *subscripts;
    bool stream;    /* HR_LANE_STORE: past the caches */
    bool late;      /* with `stream`: only at the end of a block, see lane_store.h */
    bool collected; /* HR_LANE_STORE: into a collector, collected_ID, of row `r` */
    bool held;      /* HR_LANE_COLUMN: the sums are vectors of the caller, held_ID[way - from] */
    int id;         /* unique in the stage: names its variables */
} hr_lane_step;

typedef struct hr_lane_pass {
    int step_count;
    const hr_lane_step *steps;
    const char *first,
        *last;         /* of the lane axis, as C expressions; last: NULL = all of it, see hr_lane_last */
    const char *block; /* NULL, or: what lies beside these lanes is stored much later: where this holds, whole
                        * lines leave past the caches
                        */
    int64_t tile;      /* elements a tile; 0 = none is needed */
    int stash_count;   /* values to be stored into row buffers as they are first computed */
    hr_expr *const *stash;
    const char *const *stash_name;
    bool *stash_done;
    int prefetch_count; /* lane elements whose next row is prefetched */
    const hr_expr *const *prefetched;
    const char *const *prefetch_from; /* the row after this one, where its place depends on data; else NULL */
    const char *prefetch;             /* prefetch_read or prefetch_near */
    const char *prefetch_gathered;    /* the same for prefetch_from */
    const char *prefetch_place;       /* what is prefetched, in elements from the lane elements' own row */
    int prefetch_bytes;               /* where prefetch_place is NULL: so many bytes ahead of the lanes */
    int prefetch_near;                /* so many bytes ahead into the first-level cache; 0 = not */
    int prefetch_part, prefetch_of;   /* for each vector of lanes, this part of a vector is prefetched */
    int prefetch_before;              /* parts that earlier passes prefetch */
    bool prefetch_first;              /* all at once, before the lanes: rows of few vectors */
    int ways;                         /* vectors a step: accumulators side by side, bf16 stored in pairs */
    int64_t chain; /* addends of an accumulator of f32 before it goes to a total of f64; 0 = all there are */
    /* Where the accumulators stand, "row->", if the loop covers only a part of a row; else NULL. */
    const char *state;
    int unit;            /* vectors that hr_lane_step_body prints, from the way `from` on */
    const char *aligned; /* of such vectors: where it holds, all that is streamed is aligned; NULL = ask */
    /* With `state`: streamed results begin `shift` lanes into the row, where they are aligned. The pass
     * covers first + shift to last + shift, from 0 where first is 0. */
    bool shifts;
    /* The step whose rows leave in whole lines where they meet: their ends go by way of a collector, which
     * stands at `meeting_at`. NULL = of none */
    const hr_lane_step *meeting;
    const char *meeting_at;
    const hr_segments *segments; /* of the steps' values, where these are all that is reduced; NULL = none */
    int group; /* with `whole`: how many such rows lie between one that is read and the one that is stored */
} hr_lane_pass;

/* Where the lanes of the pass end, as an operand. */
const char *hr_lane_last(hr_printer *printer, const hr_lane_pass *pass);

#endif
