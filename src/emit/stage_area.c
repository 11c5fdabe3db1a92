/* The scratch memory of one thread in a stage: kept rows, column sums, totals. In: a stage. Out: sizes and
 * places. */
#include "emit/stage_area.h"

#include <inttypes.h>

static int accumulator_size(hr_dtype type) {
    return type == HR_F64 || type == HR_I64 ? 8 : 4;
}

static hr_dtype reduced_type(const hr_plan *plan, const hr_step *step) {
    return plan->normal->statements[step->statement].value->type;
}

const char *hr_stage_row_size(hr_printer *p, const hr_stage *stage) {
    return hr_emit_points(p, stage->row, stage->row_count);
}

/* Of its columns a thread holds the sums of all or of a strip. */
static const char *sums_size(hr_printer *p, const hr_stage *stage) {
    return stage->strip ? hr_format(p, "%" PRId64, stage->strip) : hr_stage_row_size(p, stage);
}

bool hr_stage_shares_kept(const hr_stage *stage) {
    return stage->skew && hr_stage_turns(stage) == 2;
}

int hr_stage_kept_slots(const hr_stage *stage, int kept_index) {
    if (stage->kept_once[kept_index]) return 1;
    if (stage->abreast) return stage->abreast;
    if (!stage->skew) return 1;
    return (hr_stage_shares_kept(stage) ? 1 : stage->pass_count) * stage->group;
}

bool hr_stage_collects(const hr_plan *plan, const hr_stage *stage, const hr_step *step) {
    int tensor = plan->normal->statements[step->statement].tensor, tasks = stage->task_count;
    if (!stage->abreast || !stage->ragged || plan->tunables.stream) return false;
    if (step->kind != HR_STEP_ELEMENT || !step->stored) return false;
    if (plan->normal->tensors[tensor].role != HR_ROLE_RESULT || plan->storage[tensor] != tensor ||
        hr_plan_layout(plan, tensor) != HR_LAYOUT_DENSE || plan->normal->tensors[tensor].rank != tasks + 1)
        return false;
    for (int a = 0; a <= tasks; a++) {
        const hr_expr *subscript = step->subscripts[a];
        int index = a < tasks ? stage->task[a] : stage->row[0];
        if (subscript->op != HR_OP_INDEX || subscript->index != index) return false;
    }
    return true;
}

static int kept_before(const hr_stage *stage, int kept_index) {
    int rows = 0;
    for (int k = 0; k < kept_index; k++)
        rows += hr_stage_kept_slots(stage, k);
    return rows;
}

static bool makes_strip(const hr_plan *plan, const hr_step *step) {
    return hr_plan_is_in_strips(plan, plan->normal->statements[step->statement].tensor);
}

/* Rows of 4-byte and 8-byte accumulators and how many totals; each row is padded so that whole vectors fit.
 */
static void count_areas(const hr_plan *plan, const hr_stage *stage, int *narrow, int *wide, int *totals) {
    *narrow = 0;
    for (int k = 0; k < stage->kept_count; k++)
        *narrow += hr_stage_kept_slots(stage, k);
    *wide = *totals = 0;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_ALL) ++*totals;
        if (hr_stage_collects(plan, stage, step)) *narrow += stage->abreast;
        if (makes_strip(plan, step)) ++*narrow;
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        if (accumulator_size(plan->normal->statements[step->statement].value->type) == 4)
            ++*narrow;
        else
            ++*wide;
    }
}

hr_status hr_stage_thread_bytes(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                int64_t *out) {
    int narrow, wide, totals;
    int64_t row;
    count_areas(plan, stage, &narrow, &wide, &totals);
    HR_TRY(hr_plan_points(plan, stage->row, stage->row_count, extents, &row));
    if (stage->strip) row = stage->strip;
    int64_t row4 = (row * 4 + HR_AREA_PADDING) / 64 * 64, row8 = (row * 8 + HR_AREA_PADDING) / 64 * 64;
    *out = (narrow ? narrow * row4 : 0) + (wide ? wide * row8 : 0) + totals * 64;
    return HR_OK;
}

const char *hr_stage_thread_size(hr_printer *p, const hr_stage *stage) {
    int narrow, wide, totals;
    count_areas(p->plan, stage, &narrow, &wide, &totals);
    const char *size = hr_format(p, "%d", totals * 64), *row = sums_size(p, stage);
    if (wide) size = hr_format(p, "%d * (((%s) * 8 + %d) / 64 * 64) + %s", wide, row, HR_AREA_PADDING, size);
    if (narrow)
        size = hr_format(p, "%d * (((%s) * 4 + %d) / 64 * 64) + %s", narrow, row, HR_AREA_PADDING, size);
    return size;
}

const char *hr_stage_strip_offset(hr_printer *p, const hr_stage *stage, int step_index) {
    int narrow, wide, totals;
    count_areas(p->plan, stage, &narrow, &wide, &totals);
    for (int i = step_index; i < stage->step_count; i++)
        narrow -= makes_strip(p->plan, &stage->steps[i]);
    return hr_format(p, "%d * (((%s) * 4 + %d) / 64 * 64)", narrow, sums_size(p, stage), HR_AREA_PADDING);
}

/* Where in a thread's area a step's accumulators stand. Order: narrow rows (kept first), wide rows, totals.
 */
const char *hr_stage_area_offset(hr_printer *p, const hr_stage *stage, int step_index, int kept_index) {
    int narrow, wide, totals, narrow_before = 0, wide_before = 0, totals_before = 0;
    count_areas(p->plan, stage, &narrow, &wide, &totals);
    const char *row = sums_size(p, stage);
    const char *row4 = hr_format(p, "(((%s) * 4 + %d) / 64 * 64)", row, HR_AREA_PADDING);
    const char *row8 = hr_format(p, "(((%s) * 8 + %d) / 64 * 64)", row, HR_AREA_PADDING);
    if (kept_index >= 0) return hr_format(p, "%d * %s", kept_before(stage, kept_index), row4);
    narrow_before = kept_before(stage, stage->kept_count);
    const hr_step *step = NULL;
    for (int i = 0; i <= step_index; i++) {
        step = &stage->steps[i];
        if (i == step_index) break;
        if (hr_stage_collects(p->plan, stage, step)) narrow_before += stage->abreast;
        if (step->kind == HR_STEP_REDUCE_ALL) totals_before++;
        if (step->kind == HR_STEP_REDUCE_COLUMN && accumulator_size(reduced_type(p->plan, step)) == 4)
            narrow_before++;
        if (step->kind == HR_STEP_REDUCE_COLUMN && accumulator_size(reduced_type(p->plan, step)) == 8)
            wide_before++;
    }
    bool summed = step->kind == HR_STEP_REDUCE_COLUMN && accumulator_size(reduced_type(p->plan, step)) == 4;
    if (summed || step->kind == HR_STEP_ELEMENT) return hr_format(p, "%d * %s", narrow_before, row4);
    const char *rows = narrow ? hr_format(p, "%d * %s + ", narrow, row4) : "";
    if (step->kind == HR_STEP_REDUCE_COLUMN) return hr_format(p, "%s%d * %s", rows, wide_before, row8);
    if (wide) rows = hr_format(p, "%s%d * %s + ", rows, wide, row8);
    return hr_format(p, "%s%d", rows, totals_before * 64);
}
