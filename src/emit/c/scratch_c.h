/* The scratch memory of emitted C: locals, behind them what stages use one after the other. One tree of sizes
 * answers for the library, which lays it out, and for the text that does the same. */
#ifndef HR_EMIT_C_SCRATCH_C_H
#define HR_EMIT_C_SCRATCH_C_H

#include "emit/expression.h"

/* A local begins with a line, and ends with room for a vector more than it has. */
enum { HR_C_LOCAL_MORE = 191, HR_C_LOCAL_UNIT = 64 };

/* How many pieces the share of a thread has; `sums`: each of them has sums of its own. */
const hr_size *hr_c_pieces_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                                int threads);
/* What a stage takes of what stages use one after the other; 0 where it takes nothing. */
const hr_size *hr_c_work_size(hr_sizes *sizes, const hr_plan *plan, int number, bool sums, int threads);

/* ---- what one thread of a stage has for itself: rows that are stashed between passes, results that are
 * collected, column sums, strips of locals, totals ----
 *
 * Rows of 4-byte values come first (stashed ones, then in the order of the steps column sums, or as many rows
 * of results as are jammed, and strips), then rows of 8-byte sums (totals of column sums among them), then a
 * line a total. The library computes the size in numbers, the emitted code over its extents: of one hr_size.
 */

/* Rows of a thread's area start at different places of a page: a load that only seems to follow a store to
 * the same place, 4 KB apart, waits for it. */
enum { HR_AREA_PADDING = 1152 };

/* Whether threads may take the stage in pieces of their shares (prelude/shares.h), and whether it adds over
 * tasks, so that each piece has an area of its own: which one adds what is then always the same. */
bool hr_stage_goes_in_pieces(const hr_plan *plan, const hr_stage *stage);
bool hr_stage_has_sums(const hr_stage *stage);
/* Bytes of scratch memory that one thread of the stage needs, or one piece. */
const hr_size *hr_stage_thread_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
const char *hr_stage_thread_text(hr_printer *printer, const hr_stage *stage);
/* Whether a step gives a result its values in the order of memory, without gaps: tasks, and `row_count`
 * indices of the row in each. */
bool hr_stage_stores_in_order(const hr_plan *plan, const hr_stage *stage, const hr_step *step, int row_count);
/* Whether a step's results are put together in cache: rows that are no whole cache lines and follow each
 * other in memory. */
bool hr_stage_collects(const hr_plan *plan, const hr_stage *stage, const hr_step *step);
/* Where a step's sums or what is collected of its results stand, or where stashed value `stash_index` >= 0
 * does: bytes from the start of the thread's area. */
const char *hr_stage_area_offset(hr_printer *printer, const hr_stage *stage, int step_index, int stash_index);
/* Column sums of f32 whose chains end in totals of f64; where those stand, and where it says how often chains
 * have ended: without that the totals are not there. */
bool hr_step_has_column_totals(const hr_plan *plan, const hr_step *step);
const char *hr_stage_totals_offset(hr_printer *printer, const hr_stage *stage, int step_index);
const char *hr_stage_folds_offset(hr_printer *printer, const hr_stage *stage, int step_index);
/* Where the strip in hand of the local stands that a step makes. */
const char *hr_stage_strip_offset(hr_printer *printer, const hr_stage *stage, int step_index);
/* Whether a row is stashed where the one before it was: of two passes side by side, the second, which goes
 * first, has read a place before the first writes there. */
bool hr_stage_shares_stash(const hr_stage *stage);
/* Rows side by side that a stashed value needs: one for each jammed row, or in flight of a pipelined stage,
 * or for each two that share. */
int hr_stage_stash_slots(const hr_stage *stage, int stash_index);
/* Elements of a row: the product of the sizes of the row's indices, "1" where it has none. */
const char *hr_stage_row_size(hr_printer *printer, const hr_stage *stage);

#endif
