/* Scans on a GPU: rows shorter than a tile take fewer threads, few long ones are shared by blocks. In: a
 * stage and extents. Out: a choice. See choose_scan.h. */
#include "schedule/cuda/choose_scan.h"

/* Threads of a block, at most; parts of a row are no less than so many tiles, and so many blocks a
 * multiprocessor. */
enum { THREADS_MOST = 256, TILES_LEAST = 4, BLOCKS_EACH = 4 };

/* Rows whose largest a warp finds: of four bytes an element and short, few of which are wanted. */
static hr_status warp_fits(const hr_plan *plan, const hr_stage *stage, const int64_t *extents, int64_t size,
                           bool *out) {
    const hr_expr *topk = plan->normal->statements[stage->steps[0].statement].value;
    const hr_dtype type = stage->steps[0].value->type;
    int64_t most;
    HR_TRY(hr_plan_points(plan, &topk->args[1]->index, 1, extents, &most));
    *out = size <= HR_CUDA_TOPK_WARP && most <= 32 && type != HR_F64 && type != HR_I64;
    return HR_OK;
}

hr_status hr_cuda_choose_scan(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_cuda_choice *out) {
    int64_t tasks, size, threads = 32;
    HR_TRY(hr_plan_points(plan, stage->task, stage->task_count, extents, &tasks));
    HR_TRY(hr_plan_points(plan, stage->row, 1, extents, &size));
    while (threads < THREADS_MOST && threads * HR_CUDA_SCAN_ITEMS < size)
        threads *= 2;
    *out = (hr_cuda_choice){.threads = (int)threads, .slices = 1, .block_rows = 1};
    if (stage->shape == HR_SHAPE_TOPK) {
        bool fits;
        HR_TRY(warp_fits(plan, stage, extents, size, &fits));
        if (fits) out->block_rows = HR_CUDA_TOPK_ROWS;
        return HR_OK;
    }
    const int64_t blocks = (int64_t)plan->limits.threads * BLOCKS_EACH;
    const int64_t most = size / (threads * HR_CUDA_SCAN_ITEMS * TILES_LEAST);
    if (tasks < 1 || tasks * 2 > plan->limits.threads || most < 2) return HR_OK;
    const int64_t parts = blocks / tasks < most ? blocks / tasks : most;
    out->slices = (int)parts;
    out->work_bytes = tasks * parts * HR_CUDA_SCAN_SLOT;
    return HR_OK;
}
