/* How a stage lies on a CUDA device: which threads hold which elements.
 *
 * A group is `vector` neighbouring elements, 16 bytes of the widest streamed tensor. A thread holds `groups`
 * of them at a time, so that as many loads are in flight. A row is held by `row_threads` threads of each of
 * `slices` blocks; a block holds `block_rows` rows side by side and takes row after row. A flat stage has no
 * rows: all its indices are one long axis.
 *
 * In: a stage and numbers for the extents. Out: numbers that the emitter prints and the launch uses.
 */
#ifndef HR_SCHEDULE_CUDA_CUDA_CHOICE_H
#define HR_SCHEDULE_CUDA_CUDA_CHOICE_H

#include "base/saturate.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "schedule/knobs.h"

enum { HR_CUDA_BLOCK_SLOTS_MAX = 8, HR_CUDA_FEW_ROWS = 1 << 30 };

/* ALONG: groups of a tile's run of results. ACROSS: such runs that a block writes at once. */
enum { HR_CUDA_TILE_ACROSS = 32, HR_CUDA_TILE_ALONG = 8 };

/* A place in shared memory for a block's rows of a tensor that is read, of one that is written, or of both;
 * -1 = none. */
typedef struct hr_cuda_block_slot {
    int in, out;
    int64_t offset; /* bytes */
} hr_cuda_block_slot;

/* What threads share out. */
typedef enum hr_cuda_walk {
    HR_CUDA_WALK_ROWS,
    HR_CUDA_WALK_MAP,   /* all indices are one long axis */
    HR_CUDA_WALK_LISTS, /* the same over lists of arrays: persistent blocks take pieces of them */
    HR_CUDA_WALK_TILES /* a map whose neighbouring threads are neighbours along `across`: stage_cuda_tile.h */
} hr_cuda_walk;

/* Where a row is between the passes over it. Of a map: HELD. */
typedef enum hr_cuda_rows {
    HR_CUDA_ROWS_HELD,         /* in registers */
    HR_CUDA_ROWS_AHEAD,        /* in registers, while the loads of the next one are in flight */
    HR_CUDA_ROWS_AGAIN,        /* each pass reads it in `chunks` runs */
    HR_CUDA_ROWS_SHARED,       /* in shared memory; the next one is loaded as groups are used */
    HR_CUDA_ROWS_SHARED_AHEAD, /* the same, but rows to come have places of their own, of `depth` */
    HR_CUDA_ROWS_SHARED_HELD,  /* they come through shared memory, and registers hold them */
    HR_CUDA_ROWS_RING,         /* they come and leave through a ring of `depth`: stage_cuda_ring.h */
    HR_CUDA_ROWS_BLOCK         /* a block's rows come and leave together: stage_cuda_shared.h */
} hr_cuda_rows;

/* How groups lie over the ends of rows. */
typedef enum hr_cuda_ends {
    HR_CUDA_ENDS_RAGGED,    /* the last group of a row is compared element by element */
    HR_CUDA_ENDS_EXACT,     /* groups end where rows do */
    HR_CUDA_ENDS_STRADDLED, /* a group may go over an end: indices are computed for each element */
    HR_CUDA_ENDS_SHIFTED    /* groups begin where memory is aligned, up to vector - 1 elements before a row */
} hr_cuda_ends;

/* When what is the same for all rows is loaded. */
typedef enum hr_cuda_same {
    HR_CUDA_SAME_AT_USE,
    HR_CUDA_SAME_EARLY, /* with each row */
    HR_CUDA_SAME_SHARED /* once: it waits in shared memory beside the rows */
} hr_cuda_same;

/* Where sums over tasks, one an element of a row, are kept. */
typedef enum hr_cuda_sums { HR_CUDA_SUMS_REGISTERS, HR_CUDA_SUMS_MEMORY } hr_cuda_sums;

/* FAST: no result is stored as f32, see cuda_math.h. */
typedef enum hr_cuda_math { HR_CUDA_MATH_F32, HR_CUDA_MATH_FAST } hr_cuda_math;

typedef struct hr_cuda_choice {
    hr_cuda_walk walk;
    hr_cuda_rows rows;
    hr_cuda_ends ends;
    hr_cuda_same same;
    hr_cuda_sums sums;
    hr_cuda_math math;
    hr_eviction_knob eviction; /* of what is read once */
    int position_bits;         /* 32 or 64 */
    int row_bits;              /* of the numbers of rows, where registers are scarce 32 */
    bool once;                 /* of a map something is one for all of it: the first block stores it */
    bool persistent;           /* a block takes row after row; otherwise it has those that it begins with */
    bool follows;              /* of a map: the launch of the stage before goes through its elements, too */
    bool followed;             /* the next stage does so */
    int columns;               /* sums over tasks, one an element of a row: how many */
    int totals;                /* sums over everything */
    int vector, groups, row_threads, block_rows, slices, threads;
    int cluster;  /* blocks of a cluster that share a row and exchange what they reduce; 1 = none */
    int partners; /* blocks of a cluster that add up their sums over tasks before they leave them; 1 = none */
    int both; /* of a map: the place in `order` of an index of two values whose groups a thread has together,
                 for what is read for the one is read for the other, too; 0 = none */
    int row_rounds; /* of a block's rows, those that a thread takes one after the other */
    int64_t chunks;
    int64_t row;          /* elements; 0 in a map */
    int64_t lane;         /* elements of the innermost index */
    int64_t blocks_limit; /* of blocks / slices; persistent blocks take the rows beyond */
    int depth;            /* rows that have a place in shared memory */
    int leaving;          /* of those, in a ring, the ones that may be on their way out */
    int together;         /* blocks of a multiprocessor that the registers must suffice for; 0 = any */
    int64_t shared_bytes; /* of rows that wait there */
    int block_slot_count; /* of a block's rows */
    hr_cuda_block_slot block_slots[HR_CUDA_BLOCK_SLOTS_MAX];
    int64_t work_bytes; /* of partial results, which the blocks leave for the end of the stage */
    int across;         /* of tiles: the place in `order` of the index along which threads are neighbours */
    int places; /* of a map: sums into no more places than these, so many that a block has its own in shared
                   memory; 0 = none */
    int order_count, order[HR_AXES_MAX * 2]; /* task indices, then row indices */
} hr_cuda_choice;

static inline bool hr_cuda_is_map(const hr_cuda_choice *c) {
    return c->walk != HR_CUDA_WALK_ROWS;
}

/* Rows come through shared memory, each thread's groups in places of its own. */
static inline bool hr_cuda_is_staged(const hr_cuda_choice *c) {
    return c->rows >= HR_CUDA_ROWS_SHARED && c->rows <= HR_CUDA_ROWS_RING;
}

/* Registers hold a row between its passes. */
static inline bool hr_cuda_is_resident(const hr_cuda_choice *c) {
    return c->rows != HR_CUDA_ROWS_AGAIN && c->rows != HR_CUDA_ROWS_SHARED &&
           c->rows != HR_CUDA_ROWS_SHARED_AHEAD;
}

/* Loads of the next rows are in flight while one is computed. */
static inline bool hr_cuda_loads_ahead(const hr_cuda_choice *c) {
    return c->rows == HR_CUDA_ROWS_AHEAD || c->rows == HR_CUDA_ROWS_SHARED_AHEAD ||
           c->rows == HR_CUDA_ROWS_SHARED_HELD;
}

/* Blocks of a cluster: those that share a row or add up their sums; 1 = none. */
static inline int hr_cuda_cluster_blocks(const hr_cuda_choice *c) {
    return c->cluster > 1 ? c->cluster : c->partners;
}

/* Of rows, arrays that begin at whole 16 bytes and others have a function each. A map asks itself: it gains
 * nothing by it, and of two functions the compiler adds up the keys of random numbers anew for each group. */
static inline bool hr_cuda_checks_alignment(const hr_cuda_choice *c) {
    return !hr_cuda_is_map(c) &&
           (c->vector > 1 || c->rows == HR_CUDA_ROWS_RING || c->rows == HR_CUDA_ROWS_BLOCK);
}

hr_status hr_cuda_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *out);
/* The element's subscripts are all indices of the stage in order over whole axes: its place is the flat
 * position. */
bool hr_cuda_is_whole(const hr_plan *plan, const hr_cuda_choice *choice, int tensor,
                      hr_expr *const *subscripts, const int64_t *extents);
/* Where in the stage's part of the scratch memory a step's partial results stand, in bytes. */
int64_t hr_cuda_work_offset(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *choice,
                            int step);
/* An extent that is a number in the source; the others are arguments, so that one object serves any of them.
 */
bool hr_cuda_is_constant(const hr_plan *plan, int extent);
/* Partial results of a step that the blocks leave, at most. */
int64_t hr_cuda_parts_limit(const hr_cuda_choice *choice);
/* Bytes of an accumulator of partial results. */
int hr_cuda_partial_size(const hr_plan *plan, const hr_step *step);
/* The step that adds up exp(x - peak) of the x whose peak step `peak` is, and what it subtracts; -1 where
 * there is none. Both can then be one pass. */
int hr_cuda_online_sum(const hr_plan *plan, const hr_stage *stage, int peak, const hr_expr **shift);

#endif
