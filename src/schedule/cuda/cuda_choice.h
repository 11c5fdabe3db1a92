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

enum { HR_CUDA_BLOCK_SLOTS_MAX = 8, HR_CUDA_FEW_ROWS = 1 << 30 };

/* ALONG: groups of a tile's run of results. ACROSS: such runs that a block writes at once. */
enum { HR_CUDA_TILE_ACROSS = 32, HR_CUDA_TILE_ALONG = 8 };

/* A place in shared memory for a block's rows of a tensor that is read, of one that is written, or of both;
 * -1 = none. */
typedef struct hr_cuda_block_slot {
    int in, out;
    int64_t offset; /* bytes */
} hr_cuda_block_slot;

typedef struct hr_cuda_choice {
    bool flat;
    bool once;   /* flat, and something is one for the whole stage: the first block stores it */
    bool list;   /* flat, and over lists of arrays: persistent blocks take pieces of them */
    bool staged; /* rows wait in shared memory: the groups of each thread, the next row prefetched as they are
                    used */
    bool
        ring; /* rows wait in shared memory, `depth` at a time, and leave through it; see stage_cuda_ring.h */
    bool ahead;    /* the loads of the next row are in flight while one is computed */
    bool early;    /* what is the same for all rows is asked for with each row, not where it is used */
    bool narrow;   /* positions fit 32 bits */
    bool exact;    /* groups end where rows do; otherwise the first and last of a row are compared element by
                      element */
    bool straddle; /* a group may go over an end of the innermost index: indices are computed for each element
                    */
    bool shifted;  /* not exact, and a row's groups begin where memory is aligned, up to vector - 1 elements
                      before it */
    bool staged_block; /* rows come and go through shared memory, a block's at a time: stage_cuda_staged.h */
    bool resident;    /* a row stays in registers between its passes; otherwise each pass reads it in `chunks`
                         runs */
    bool same_shared; /* staged, and what is the same for all rows waits in shared memory, too; otherwise in
                         registers */
    int columns;      /* sums over tasks, one an element of a row: how many */
    bool column_memory; /* they are kept in memory, because registers do not hold them */
    bool totals;        /* sums over everything */
    bool exchange;      /* slices are a cluster of blocks, which exchange what they reduce */
    bool fast;          /* no result is stored as f32: see cuda_math.h */
    bool last;          /* what is read once is the last to leave the L2 */
    bool few;        /* rows, HR_CUDA_FEW_ROWS at most: their numbers are 32 bits, for registers are scarce */
    bool persistent; /* a block takes row after row; otherwise it has those that it begins with */
    int vector, groups, row_threads, block_rows, slices, threads;
    int both; /* flat: the place in `order` of an index of two values whose groups a thread has together, for
                 what is read for the one is read for the other, too; 0 = none */
    int row_rounds; /* of a staged block, the rows that a thread takes one after the other */
    int64_t chunks;
    int64_t row;          /* elements; 0 in a flat stage */
    int64_t lane;         /* elements of the innermost index */
    int64_t blocks_limit; /* of blocks / slices; persistent blocks take the rows beyond */
    int depth;            /* rows that have a place in shared memory */
    int leaving;          /* of those, in a ring, the ones that may be on their way out */
    int partners; /* blocks of a cluster that add up their sums over tasks before they leave them; 1 = none */
    int together; /* blocks of a multiprocessor that the registers must suffice for; 0 = any */
    int64_t shared_bytes; /* of staged rows */
    int block_slot_count; /* of a staged block */
    hr_cuda_block_slot block_slots[HR_CUDA_BLOCK_SLOTS_MAX];
    int64_t work_bytes; /* of partial results, which the blocks leave for the end of the stage */
    bool tile; /* flat: neighbouring threads are neighbours along `across`, by its place in `order`: see
                  stage_cuda_tile.h */
    int across;
    int places; /* flat: sums into no more places than these, so many that a block has its own in shared
                   memory; 0 = none */
    int order_count, order[HR_AXES_MAX * 2]; /* task indices, then row indices */
} hr_cuda_choice;

/* Blocks of a cluster: those that share a row or add up their sums; 1 = none. */
static inline int hr_cuda_cluster_blocks(const hr_cuda_choice *c) {
    return c->exchange ? c->slices : c->partners;
}

/* Of rows, arrays that begin at whole 16 bytes and others have a function each. A map asks itself: it gains
 * nothing by it, and of two functions the compiler adds up the keys of random numbers anew for each group. */
static inline bool hr_cuda_asks_before(const hr_cuda_choice *c) {
    return !c->flat && (c->vector > 1 || c->ring || c->staged_block);
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
