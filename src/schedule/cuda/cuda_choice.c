/* How a stage lies on a CUDA device. In: a stage. Out: numbers. See cuda_choice.h. */
#include "schedule/cuda/cuda_choice.h"

#include "base/dtype.h"
#include "schedule/cuda/cuda_choice_parts.h"
#include "schedule/schedule.h"

enum { L2_TIMES = 4 }; /* as large as the L2 so many times is what is read where it is to leave the L2 last */

static bool stores_f32(const hr_cuda_chooser *s) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
        if (step->kind == HR_STEP_ELEMENT && step->stored && hr_dtype_size(dtype) > 2) return true;
    }
    return false;
}

/* Much is read once and much is written. */
static hr_eviction_knob eviction_of(const hr_cuda_chooser *s) {
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    if (knobs->eviction) return knobs->eviction;
    bool much = s->writes && s->read_bytes > (double)L2_TIMES * (double)s->plan->limits.l2_bytes;
    return much ? HR_EVICTION_LAST : HR_EVICTION_USUAL;
}

/* Blocks that each have other rows are not enough of them, or something is kept from row to row. */
static bool is_persistent(const hr_cuda_chooser *s) {
    const hr_cuda_choice *c = s->c;
    double rows = hr_cuda_row_count(s);
    return c->blocks_limit < INT32_MAX / c->slices || rows > (double)c->blocks_limit * c->block_rows ||
           c->columns || c->totals || hr_cuda_is_staged(c) || hr_cuda_loads_ahead(c) ||
           c->rows == HR_CUDA_ROWS_BLOCK;
}

/* Threads share out rows where something is one a row, or sums over tasks are one an element of it. */
static hr_cuda_walk walk_of(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *c) {
    bool shared_row = hr_stage_has(stage, HR_STEP_ROW) && !hr_stage_can_split(plan, stage);
    bool rows = shared_row || hr_stage_has(stage, HR_STEP_REDUCE_ROW) || c->columns || !c->order_count;
    for (int i = 0; i < stage->step_count && !rows; i++)
        rows = stage->row_count && hr_step_is_row_total(plan, stage, &stage->steps[i]);
    return rows ? HR_CUDA_WALK_ROWS : hr_plan_has_lists(plan) ? HR_CUDA_WALK_LISTS : HR_CUDA_WALK_MAP;
}

/* The indices of the stage in order, and how long its rows are. */
static hr_status choose_order(hr_cuda_chooser *s) {
    hr_cuda_choice *c = s->c;
    for (int i = 0; i < s->stage->task_count; i++)
        c->order[c->order_count++] = s->stage->task[i];
    for (int i = 0; i < s->stage->row_count; i++) {
        c->order[c->order_count++] = s->stage->row[i];
        if (__builtin_mul_overflow(c->row, hr_cuda_index_size(s, s->stage->row[i]), &c->row))
            return hr_fail(HR_BAD_INPUT, "the extents of kernel %.60s are too large", s->plan->source->name);
    }
    if (c->order_count) c->lane = hr_cuda_index_size(s, c->order[c->order_count - 1]);
    return HR_OK;
}

hr_status hr_cuda_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *out) {
    hr_cuda_chooser s = {
        .plan = plan, .function = plan->normal, .stage = stage, .extents = extents, .c = out};
    *out = (hr_cuda_choice){
        .row = 1, .lane = 1, .partners = 1, .cluster = 1, .position_bits = 64, .row_bits = 64};
    HR_TRY(choose_order(&s));
    for (int i = 0; i < stage->step_count; i++) {
        out->columns += stage->steps[i].kind == HR_STEP_REDUCE_COLUMN;
        out->totals += stage->steps[i].kind == HR_STEP_REDUCE_ALL;
    }
    out->walk = walk_of(plan, stage, out);
    out->once = hr_cuda_is_map(out) && hr_stage_has(stage, HR_STEP_ROW);
    out->math = stores_f32(&s) ? HR_CUDA_MATH_F32 : HR_CUDA_MATH_FAST;
    if (out->order_count) HR_TRY(hr_cuda_survey(&s));
    if (out->vector < 1) out->vector = 1;
    if (hr_cuda_is_map(out))
        hr_cuda_choose_map(&s);
    else
        hr_cuda_choose_rows(&s);
    out->eviction = out->order_count ? eviction_of(&s) : HR_EVICTION_USUAL;
    out->persistent = is_persistent(&s);
    out->work_bytes = hr_cuda_work_offset(plan, stage, out, stage->step_count);
    if (out->work_bytes < INT64_MAX / 2) return HR_OK; /* what stands behind it has room in an i64, too */
    return hr_fail(HR_BAD_INPUT, "kernel %.60s: at these extents a size is beyond i64; make them smaller",
                   plan->source->name);
}
