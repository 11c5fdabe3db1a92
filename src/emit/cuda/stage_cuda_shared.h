/* Rows of a block in shared memory. In: a stage. Out: text. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_SHARED_H
#define HR_EMIT_CUDA_STAGE_CUDA_SHARED_H

#include "emit/cuda/stage_cuda.h"

/* ---- rows that wait between their passes, each thread's groups in places of its own ---- */

/* It comes through the places of rows in shared memory. */
bool hr_cuda_is_staged_element(const hr_cuda_stage *s, const hr_expr *e);
/* It is the same for all rows and waits in shared memory, too. */
bool hr_cuda_is_same_shared(const hr_cuda_stage *s, const hr_expr *e);
/* The elements that wait in shared memory; returns how many. */
int hr_cuda_staged_elements(hr_cuda_stage *s, const hr_expr **out, int max);
/* Their places there. */
void hr_cuda_print_places(hr_cuda_stage *s);
/* Where group u of an element waits, in the place of that number. */
const char *hr_cuda_slot(hr_cuda_stage *s, const hr_expr *e, const char *place);
/* A thread's own group of row `task`, not by the copy engine. */
void hr_cuda_print_stage_group(hr_cuda_stage *s, const hr_expr *e, const char *task, const char *place,
                               bool aligned);
/* Before the loop over rows, which a block takes `step` apart: the places of staged rows, and the first rows
 * are prefetched, all that have a place but one. */
void hr_cuda_print_staging(hr_cuda_stage *s, const char *step);
/* In the loop, where several rows have places: one more is prefetched; then the one in hand is waited for. */
void hr_cuda_print_next_staging(hr_cuda_stage *s);
/* After the loads of a pass: the groups of the row after this one take the places in shared memory of those
 * that were used for the last time. */
void hr_cuda_print_restaging(hr_cuda_stage *s, const hr_expr *const *elements, int count, int pass);

/* ---- short rows that begin anywhere in memory, staged ----
 *
 * All rows of a block come to shared memory and leave it in one run of whole pieces of 16 bytes, because so
 * many of them follow each other that they begin and end there. Threads take their elements from shared
 * memory, where rows may begin anywhere.
 */

/* Where a tensor's rows stand in shared memory; NULL where they do not come (leave) this way. */
const char *hr_cuda_block_slot_in(const hr_cuda_stage *s, const hr_expr *element);
const char *hr_cuda_block_slot_out(const hr_cuda_stage *s, int tensor);
/* Whether the groups of a row begin inside words, as text. Where a warp has a row it takes two, one after the
 * other, of which the second, `odd`, begins so and the first does not. */
const char *hr_cuda_block_slot_apart(const hr_cuda_stage *s);
/* Before the loop over rows. */
void hr_cuda_print_block_slots(hr_cuda_stage *s);
/* In the loop: copies of the block's rows begin and are waited for, and a thread's first row is begun; its
 * last is ended; the block's rows are sent back. */
void hr_cuda_print_block_in(hr_cuda_stage *s);
/* Around the values of a row before its first pass: single elements that they ask for are taken from shared
 * memory, too. A load of their own would wait behind all that the copy engine has asked for. */
void hr_cuda_begin_block_values(hr_cuda_stage *s);
void hr_cuda_end_block_values(hr_cuda_stage *s);
void hr_cuda_print_block_out(hr_cuda_stage *s);
void hr_cuda_print_returning(hr_cuda_stage *s);

#endif
