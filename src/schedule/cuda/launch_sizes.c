/* How many blocks the kernels of a stage take on a CUDA device, as sizes over extents: what they share out
 * and what a block takes of it. In: a stage and its schedule. Out: sizes, shapes. See launches_cuda.h. */
#include "schedule/cuda/launches_cuda.h"

#include "schedule/cuda/choose_scan.h"

enum { CLEAR_WAVES = 8 };
/* Positions below it are 32 bits wide in a flat stage. */
enum { POSITIONS_NARROW = (1 << 30) - 1 };
enum { SCAN_THREADS = 256 };
enum { NARROW_COLUMNS = 8, WIDE_COLUMNS = 32, END_BLOCKS = 64 };
/* Of a piece: enough that its own lines cost nothing, few enough to share out. On an H200 AdamW over 148
 * arrays runs at 0.951, 0.965 and 0.976 of a copy with pieces of 8192, 4096 and 2048. */
enum { PIECE_ELEMENTS = 2048 };

/* ---- maps, rows, columns, scatters ---- */

static bool starts_at_zero(const hr_plan *plan, const hr_stage *stage) {
    if (!hr_stage_has(stage, HR_STEP_SCATTER)) return false;
    int tensor = plan->normal->statements[stage->steps[0].statement].tensor;
    return plan->storage[tensor] == tensor && plan->normal->tensors[tensor].role != HR_ROLE_INOUT;
}

hr_stage_kernels hr_stage_kernels_of(const hr_plan *plan, const hr_stage *stage,
                                     const hr_cuda_choice *choice) {
    return (hr_stage_kernels){choice->rows == HR_CUDA_ROWS_RING || starts_at_zero(plan, stage),
                              hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) ||
                                  hr_stage_has(stage, HR_STEP_REDUCE_ALL)};
}

hr_launch_shape hr_cuda_shape_of(const hr_cuda_choice *c) {
    hr_launch_shape s = {.run = (int64_t)c->block_rows * c->partners,
                         .least = c->columns || c->totals || c->once || c->followed,
                         .limit = hr_cuda_parts_limit(c),
                         .slices = (int64_t)c->slices * c->partners,
                         .cluster = hr_cuda_cluster_blocks(c) > 1};
    if (hr_cuda_is_map(c)) s.run = (int64_t)c->threads * c->groups * c->vector;
    return s;
}

/* Of what blocks share out. */
const hr_size *hr_cuda_total_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                  const hr_cuda_choice *c) {
    return hr_cuda_is_map(c) ? hr_size_points(sizes, plan->normal, c->order, c->order_count)
                             : hr_size_points(sizes, plan->normal, stage->task, stage->task_count);
}

int64_t hr_cuda_total_most(const hr_cuda_choice *c) {
    int64_t most = INT64_MAX;
    if (hr_cuda_is_map(c) && c->position_bits == 32) most = POSITIONS_NARROW;
    if (!hr_cuda_is_map(c) && !c->persistent) most = hr_saturate_product(c->blocks_limit, c->block_rows);
    if (!hr_cuda_is_map(c) && c->row_bits == 32) most = HR_CUDA_FEW_ROWS;
    return most;
}

/* Columns of a block of the kernel that ends a stage: a whole sector of memory, and few enough that all
 * multiprocessors have a block. */
int hr_cuda_end_columns(const hr_cuda_choice *c) {
    return hr_saturate_product(c->columns, c->row) <= (int64_t)WIDE_COLUMNS * END_BLOCKS ? NARROW_COLUMNS
                                                                                         : WIDE_COLUMNS;
}

int64_t hr_cuda_end_blocks(const hr_cuda_choice *c) {
    int width = hr_cuda_end_columns(c);
    int64_t columns = hr_saturate_product(c->columns, hr_divide_up(c->row, width));
    return columns > 1 ? columns : 1;
}

hr_launch_shape hr_cuda_clear_shape(const hr_plan *plan) {
    return (hr_launch_shape){HR_CUDA_CLEAR_THREADS, 0, (int64_t)plan->limits.threads * CLEAR_WAVES, 1, false};
}

/* What the kernel before a scatter clears. */
const hr_size *hr_cuda_cleared_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const int tensor = plan->normal->statements[stage->steps[0].statement].tensor;
    return hr_size_elements(sizes, &plan->normal->tensors[tensor], 0, 1);
}

bool hr_cuda_may_be_aligned(const hr_plan *plan, int tensor) {
    const hr_layout layout = plan->layouts[tensor];
    return plan->normal->tensors[tensor].rank > 0 &&
           (layout == HR_LAYOUT_DENSE || layout == HR_LAYOUT_MEMBERS);
}

/* ---- a stage for any extents ---- */

/* The one statement of the stage. */
const hr_step *hr_cuda_general_step(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (hr_step_is_emitted(&stage->steps[i])) return &stage->steps[i];
    return NULL;
}

static void append(int *out, int *count, const int *indices, int more) {
    for (int i = 0; i < more && *count < 2 * HR_AXES_MAX; i++)
        out[(*count)++] = indices[i];
}

hr_general_indices hr_cuda_general_indices(const hr_plan *plan, const hr_stage *stage) {
    hr_general_indices out = {0};
    const hr_step *step = hr_cuda_general_step(stage);
    const bool columns = step->kind == HR_STEP_REDUCE_COLUMN, all = step->kind == HR_STEP_REDUCE_ALL,
               rows = step->kind == HR_STEP_REDUCE_ROW;
    if (columns || all)
        append(out.reduced, &out.reduced_count, stage->task, stage->task_count);
    else
        append(out.result, &out.result_count, stage->task, stage->task_count);
    if (rows || (all && !hr_step_is_row_total(plan, stage, step)))
        append(out.reduced, &out.reduced_count, stage->row, stage->row_count);
    else if (!all && step->kind != HR_STEP_ROW)
        append(out.result, &out.result_count, stage->row, stage->row_count);
    return out;
}

bool hr_cuda_general_sums(const hr_stage *stage) {
    const hr_step_kind kind = hr_cuda_general_step(stage)->kind;
    return kind == HR_STEP_REDUCE_ROW || kind == HR_STEP_REDUCE_COLUMN || kind == HR_STEP_REDUCE_ALL;
}

bool hr_cuda_general_begins(const hr_plan *plan, const hr_stage *stage) {
    return starts_at_zero(plan, stage);
}

const hr_size *hr_cuda_general_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const hr_general_indices indices = hr_cuda_general_indices(plan, stage);
    return hr_size_points(sizes, plan->normal, indices.result, indices.result_count);
}

hr_launch_shape hr_cuda_general_shape(const hr_plan *plan, const hr_stage *stage) {
    hr_launch_shape shape = hr_cuda_clear_shape(plan);
    shape.run = hr_cuda_general_sums(stage) ? 1 : HR_CUDA_GENERAL_THREADS;
    return shape;
}

/* ---- rows in order ---- */

bool hr_cuda_scans_along(const hr_function *function, const hr_stage *stage) {
    const hr_statement *statement = &function->statements[stage->steps[0].statement];
    return statement->domain[statement->domain_count - 1] == stage->row[0];
}

static bool is_across(const hr_plan *plan, const hr_stage *stage) {
    return stage->shape == HR_SHAPE_SCAN && !hr_cuda_scans_along(plan->normal, stage);
}

const hr_size *hr_cuda_ordered_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    return hr_size_points(sizes, plan->normal, stage->task, stage->task_count);
}

int hr_cuda_ordered_threads(const hr_plan *plan, const hr_stage *stage) {
    const int chosen = plan->general ? 0 : hr_grid_of(stage)->threads;
    return is_across(plan, stage)          ? HR_CUDA_COLUMN_THREADS
           : stage->shape == HR_SHAPE_TOPK ? HR_CUDA_TOPK_THREADS
           : chosen                        ? chosen
                                           : SCAN_THREADS;
}

int hr_cuda_ordered_parts(const hr_plan *plan, const hr_stage *stage) {
    const bool along = stage->shape == HR_SHAPE_SCAN && hr_cuda_scans_along(plan->normal, stage);
    const int parts = plan->general || !along ? 1 : hr_grid_of(stage)->slices;
    return parts > 1 ? parts : 1;
}

int64_t hr_cuda_ordered_most(const hr_plan *plan, const hr_stage *stage) {
    const int parts = hr_cuda_ordered_parts(plan, stage);
    return parts > 1 ? hr_grid_of(stage)->work_bytes / (parts * HR_CUDA_SCAN_SLOT) : INT64_MAX;
}

int hr_cuda_ordered_run(const hr_plan *plan, const hr_stage *stage) {
    if (stage->shape == HR_SHAPE_TOPK) return plan->general ? 1 : hr_grid_of(stage)->block_rows;
    return is_across(plan, stage) ? HR_CUDA_COLUMN_THREADS : 1;
}

hr_launch_shape hr_cuda_ordered_shape(const hr_plan *plan, const hr_stage *stage) {
    hr_launch_shape shape = hr_cuda_clear_shape(plan);
    shape.run = hr_cuda_ordered_run(plan, stage);
    shape.slices = hr_cuda_ordered_parts(plan, stage);
    return shape;
}

/* ---- products, lists ---- */

const hr_size *hr_cuda_contract_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const hr_contract *c = stage->contract;
    const hr_size *batch = hr_size_points(sizes, plan->normal, c->batch, c->batch_count),
                  *m = hr_size_points(sizes, plan->normal, c->m, c->m_count),
                  *n = hr_size_points(sizes, plan->normal, c->n, c->n_count);
    const hr_size *rows = hr_size_product(sizes, hr_size_brackets(sizes, batch),
                                          hr_size_parts(sizes, m, HR_CUDA_CONTRACT_TILE));
    return hr_size_product(sizes, rows, hr_size_parts(sizes, n, HR_CUDA_CONTRACT_TILE));
}

int64_t hr_cuda_piece(const hr_plan *plan) {
    int64_t most = PIECE_ELEMENTS;
    for (int i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].shape == HR_SHAPE_CONTRACT) continue;
        const hr_cuda_choice *c = hr_grid_of(&plan->stages[i]);
        if (c->walk != HR_CUDA_WALK_LISTS) continue;
        int64_t run = (int64_t)c->threads * c->groups * c->vector; /* fewer would leave threads idle */
        if (run > most) most = run;
    }
    return most;
}
