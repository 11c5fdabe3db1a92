/* What blocks leave of sums for the end of a stage, and which two sums are one pass. In: a stage and its
 * choice. Out: places and sizes. */
#include "base/dtype.h"
#include "schedule/cuda/cuda_choice.h"

/* ---- the largest and the sum of exp in one pass ---- */

static bool is_element_of(const hr_expr *e, int tensor) {
    return e->op == HR_OP_ELEMENT && e->tensor == tensor;
}

int hr_cuda_online_sum(const hr_plan *plan, const hr_stage *stage, int peak, const hr_expr **shift) {
    const hr_step *first = &stage->steps[peak];
    int tensor = plan->normal->statements[first->statement].tensor;
    if (first->kind != HR_STEP_REDUCE_ROW || first->reduce != HR_OP_REDUCE_MAX ||
        first->value->type != HR_F32)
        return -1;
    for (int i = peak + 1; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_expr *e = step->value;
        if (step->kind != HR_STEP_REDUCE_ROW || step->reduce != HR_OP_REDUCE_SUM || e->op != HR_OP_EXP)
            continue;
        const hr_expr *difference = e->args[0];
        if (difference->op != HR_OP_SUB || difference->args[0] != first->value) continue;
        *shift = difference->args[1];
        if (is_element_of(*shift, tensor) ||
            ((*shift)->op == HR_OP_WHERE && is_element_of((*shift)->args[2], tensor)))
            return i;
    }
    return -1;
}

/* ---- partial results ---- */

int64_t hr_cuda_parts_limit(const hr_cuda_choice *c) {
    return c->blocks_limit / c->partners;
}

int hr_cuda_partial_size(const hr_plan *plan, const hr_step *step) {
    hr_dtype type = plan->normal->statements[step->statement].value->type;
    if (hr_op_finds_position(step->reduce)) return 16; /* a value and where it is */
    if (step->reduce == HR_OP_REDUCE_SUM) return type == HR_F32 && step->kind != HR_STEP_REDUCE_ALL ? 4 : 8;
    return type == HR_F64 || type == HR_I64 ? 8 : 4;
}

int64_t hr_cuda_work_offset(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *c, int step) {
    int64_t offset = 0;
    for (int i = 0; i < step; i++) {
        const hr_step *before = &stage->steps[i];
        int64_t points = before->kind == HR_STEP_REDUCE_COLUMN ? c->row
                         : before->kind == HR_STEP_REDUCE_ALL  ? c->slices
                                                               : 0;
        int64_t parts = hr_saturate_product(points, hr_cuda_parts_limit(c));
        offset = hr_saturate_sum(
            offset, hr_round_up(hr_saturate_product(parts, hr_cuda_partial_size(plan, before)), 256));
    }
    int64_t counter = c->rows == HR_CUDA_ROWS_RING && step == stage->step_count ? 256 : 0; /* of rows */
    return hr_saturate_sum(offset, counter);
}
