/* What the threads that hold a row reduce together. In: a stage. Out: text. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_EXCHANGE_H
#define HR_EMIT_CUDA_STAGE_CUDA_EXCHANGE_H

#include "emit/cuda/stage_cuda.h"

/* The C type that a step accumulates in. */
const char *hr_cuda_sum_type(const hr_cuda_stage *s, const hr_step *step);
/* It adds up f32 in f32. */
bool hr_cuda_sums_f32(const hr_cuda_stage *s, const hr_step *step);
/* The value that changes nothing, of that type. */
const char *hr_cuda_identity(const hr_step *step);
/* reduce_sum, reduce_max, ... */
const char *hr_cuda_reducer(const hr_step *step);
/* What is added up over everything: a thread's groups in f32, then totals in f64. */
bool hr_cuda_is_total_of_parts(const hr_cuda_stage *s, const hr_step *step);
/* "sum = sum + value;" of whatever reduction. */
void hr_cuda_print_add(hr_cuda_stage *s, const hr_step *step, const char *sum, const char *value);
/* The step has slots in which warps leave their shares of what is reduced: others use those of a partner. */
bool hr_cuda_has_slots(const hr_cuda_stage *s, int step);
/* Before the loop over rows: shared memory for shares of what is reduced. */
void hr_cuda_print_slots(hr_cuda_stage *s);
/* After a pass: the sums of all threads that hold the row; all those of one pass share a barrier. */
void hr_cuda_print_exchange(hr_cuda_stage *s, int pass);

/* ---- two reductions with one exchange ----
 *
 * A sum of (f - mean)^2, and a sum of exp(x - peak), need what an earlier pass reduced over all threads that
 * hold the row. Each thread walks its groups at once with its own mean or peak instead, and both values come
 * together in one exchange that sets the second right (templates/cuda/cuda_merge.h). That is also more
 * accurate than one mean for all. What was kept of exp(x - own peak) is scaled where it is used.
 */

/* Whether that pays. */
bool hr_cuda_may_join(const hr_cuda_choice *choice);
/* Sets s->merged. */
void hr_cuda_find_merged(hr_cuda_stage *s);
/* The pass is walked beside the one before it. */
bool hr_cuda_is_merged_pass(const hr_cuda_stage *s, int pass);
/* What a warp leaves for its block in a step's exchange, and what is that of no threads; NULL where the
 * exchange of another step is this one's, too. */
const char *hr_cuda_slot_type(const hr_cuda_stage *s, int step);
const char *hr_cuda_slot_identity(hr_cuda_stage *s, int step);
/* What a block sends to its cluster. */
const char *hr_cuda_share_type(const hr_cuda_stage *s, int step);
/* Before the loop over rows: how many elements each holds, where that is not the same for all. */
void hr_cuda_print_held_counts(hr_cuda_stage *s);
/* Of a pass of merged reductions, nothing of any other: its walk, its exchange after the walk of the pass
 * before it, and in its own place its values. */
void hr_cuda_print_merged_walk(hr_cuda_stage *s, int pass);
void hr_cuda_print_merged_exchange(hr_cuda_stage *s, int pass);
void hr_cuda_print_merged_values(hr_cuda_stage *s, int pass);
/* " * scale" where what was kept of the value needs it, else "". */
const char *hr_cuda_merged_scale(hr_cuda_stage *s, const hr_expr *kept);

#endif
