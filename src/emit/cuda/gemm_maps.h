/* The tensor maps of a product's launch. In: how a product lies on the tensor cores. Out: maps, in the order
 * of its kernel's parameters: left, right, results, what is staged. */
#ifndef HR_EMIT_CUDA_GEMM_MAPS_H
#define HR_EMIT_CUDA_GEMM_MAPS_H

#include "base/launch.h"
#include "schedule/cuda/choose_gemm.h"

/* `work`: bytes of the scratch memory in front of the first local. Nothing where the main loop takes no maps.
 */
hr_status hr_cuda_gemm_maps(const hr_plan *plan, const int64_t *extents, const hr_cuda_gemm *gemm,
                            int64_t work, hr_launch *launch);

#endif
