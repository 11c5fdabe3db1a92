/* How blocks take a scan along memory or a topk. In: a stage and extents. Out: threads of a block, rows of a
 * block, and blocks that share a row. */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_SCAN_H
#define HR_SCHEDULE_CUDA_CHOOSE_SCAN_H

#include "plan/plan.h"
#include "schedule/cuda/cuda_choice.h"

/* Elements of a thread in a tile; bytes of what a part of a row comes to. */
enum { HR_CUDA_SCAN_ITEMS = 8, HR_CUDA_SCAN_SLOT = 16 };

/* A warp finds the largest of a row of so many elements at most; a block has as many rows as warps. */
enum { HR_CUDA_TOPK_WARP = 1024, HR_CUDA_TOPK_ROWS = 8 };

/* Fills in `threads`, `block_rows`, `slices` and `work_bytes`. */
hr_status hr_cuda_choose_scan(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_cuda_choice *out);

#endif
