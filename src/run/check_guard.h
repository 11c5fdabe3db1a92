/* What a launch must not rely on, and must not change.
 *
 * In: a kernel's arrays. Out: results and scratch memory that hold nothing useful; digests of the inputs.
 */
#ifndef HR_RUN_CHECK_GUARD_H
#define HR_RUN_CHECK_GUARD_H

#include "run/kernel.h"

/* Fills the results with what no launch would leave, and the scratch memory that `prepared` has. */
hr_status hr_guard_poison(hr_kernel *kernel);
/* One digest an input; arrays with gaps have 0. Not owned. */
hr_status hr_guard_digest(hr_kernel *kernel, uint64_t *digests);

/* check_cuda.c: of memory of the device. */
hr_status hr_digest_cuda(hr_kernel *kernel, const void *data, int64_t bytes, uint64_t *out);
uint64_t hr_digest_host(const void *data, int64_t bytes);

bool hr_binding_is_dense(const hr_tensor *tensor, const hr_binding *binding);

#endif
