/* Elements whose meaning in f64 is known, and what a launch made of them.
 *
 * In: a prepared kernel on its bound arrays, before a launch. Out: after it, an hr_check.
 */
#ifndef HR_RUN_CHECK_SAMPLE_H
#define HR_RUN_CHECK_SAMPLE_H

#include "reference/reference.h"
#include "run/kernel.h"

typedef struct hr_samples hr_samples;

/* Takes and evaluates them: `points` in all, 0 = as many as a second or two allow. The arrays must hold what
 * they held before the launch. */
hr_status hr_samples_create(hr_kernel *kernel, const hr_prepared *prepared, int64_t points,
                            hr_progress_fn progress, void *progress_context, hr_samples **out);
void hr_samples_destroy(hr_samples *samples);
/* Puts something else where results are to come, so that an element that is not written shows. */
hr_status hr_samples_poison(const hr_samples *samples);
/* All of them as the arrays hold them now. */
hr_status hr_samples_compare(hr_samples *samples, hr_check *out);
/* What one more element is to be, and may be off; inout arrays must hold their old values. */
hr_status hr_samples_meaning(const hr_samples *samples, int tensor, const int64_t *subscripts,
                             hr_meaning *out);
/* One more element, which a launch made `got`; inout arrays must hold their old values again. */
hr_status hr_samples_judge(hr_samples *samples, int tensor, const int64_t *subscripts, double got,
                           hr_check *out);
/* What elements of this tensor may be off, in the middle of all samples. */
double hr_samples_error(const hr_samples *samples, int tensor);
/* Where the text's own arithmetic lost what the user gets: `warning` of `out` becomes a sentence. */
hr_status hr_samples_explain(hr_samples *samples, hr_check *out);

/* Written by a launch, and not empty. */
bool hr_kernel_writes(const hr_kernel *kernel, int i);
const hr_statement *hr_statement_of(const hr_function *function, int tensor);

/* ---- check_hits.c ---- */

typedef struct hr_mirror hr_mirror;
/* Subscripts that the += writes at a random point of its domain; false where they cannot be told. */
bool hr_point_hit(const hr_kernel *kernel, hr_mirror *mirrors, const int64_t *extents,
                  const hr_statement *statement, int64_t number, int64_t *subscripts);

#endif
