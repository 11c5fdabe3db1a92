/* Stage -> source. One expression printer, one file a target; a mainloop with holes for the contract shape.
 *
 * The emitted C is self-contained: a trimmed prelude (src/emit/templates/cpu/), one static function a stage,
 * one public function with typed arguments, or hr_part() that unpacks an hr_execution for the loader. Only
 * identifiers of ours stand in it: a name of the user's appears as `t3_mean` after it passed the lexer's
 * [a-z0-9_] check.
 */
#ifndef HR_EMIT_EMIT_H
#define HR_EMIT_EMIT_H

#include "base/launch.h"
#include "base/text.h"
#include "plan/plan.h"

/* What emitted functions return for extents that they do not hold for. */
enum { HR_EMITTED_REFUSES = -1 };

typedef struct hr_emitted {
    hr_text source; /* the .c */
    hr_text header; /* the .h of the public function */
} hr_emitted;

/* ---- of the plan's target (emit_target.c) ---- */

/* The source to paste; `options`: NULL = as they are by default. */
hr_status hr_emit_source(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                         hr_emitted *out);
/* The source for the loader. */
hr_status hr_emit_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out);
/* Bytes of hr_execution.scratch at these extents with so many threads; the emitted code lays it out the same
 * way. */
hr_status hr_emit_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out);
/* Where a module has several functions to launch: the launches of one execution, at most `max`; returns how
 * many through `count`, 0 where hr_part() is all. */
hr_status hr_emit_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max, int *count);
/* Whether the source for the loader, made for the extents `made`, may be launched at these, too; hr_part()
 * refuses those itself that it does not hold for. */
bool hr_emit_serves(const hr_plan *plan, const int64_t *made, const int64_t *extents);
/* The parameters and results that those launches ask about before they start: hr_tensors_are_aligned(). */
void hr_emit_aligned(const hr_plan *plan, hr_tensor_set *out);
/* The most elements of a piece that a plan over lists wants; a multiple of 64. */
int64_t hr_emit_piece(const hr_plan *plan);

/* ---- a CPU's: C (c/emit_c.c) ---- */

/* For the extents that the plan's assumptions hold for: it refuses all others. */
hr_status hr_emit_c(const hr_plan *plan, const hr_emit_options *options, hr_emitted *out);
/* The source to paste, in parts where it takes several: for what a plan assumes of extents and for any, and
 * for AVX-512, AVX2 and what every x86-64 processor has, each planned for the extents; chosen as it runs. */
hr_status hr_emit_c_parts(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                          hr_emitted *out);
/* With hr_part() in place of the public function. hr_part() returns 0, or HR_EMITTED_REFUSES before
 * anything is read or written where the source does not hold for the extents. */
hr_status hr_emit_c_loaded(const hr_plan *plan, hr_emitted *out);
hr_status hr_emit_c_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out);

/* ---- a CUDA device's: the .cu and .h to paste, with a plain C launcher, and CUDA C for NVRTC (cuda/) ----
 */

/* The source may be special to the extents of the plan. */
hr_status hr_emit_cuda(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                       hr_emitted *out);
hr_status hr_emit_cuda_loaded(const hr_plan *plan, const int64_t *extents, hr_emitted *out);

/* A function of C can have that name. */
bool hr_emit_name_is_good(const char *name);
void hr_emitted_clear(hr_emitted *emitted);

#endif
