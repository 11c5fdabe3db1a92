/* The scratch memory of one thread in a stage: stashed rows, column sums, totals. In: a stage. Out: sizes and
 * places. */
#include "emit/c/stage_area.h"
#include "schedule/schedule.h"

enum { TOTAL_BYTES = 64 }; /* a line each */

const char *hr_stage_row_size(hr_printer *p, const hr_stage *stage) {
    return hr_emit_points(p, stage->row, stage->row_count);
}

bool hr_stage_shares_stash(const hr_stage *stage) {
    return hr_cpu_walk_of(stage)->pipeline.depth && hr_stage_main_passes(stage) == 2;
}

int hr_stage_stash_slots(const hr_stage *stage, int stash_index) {
    if (hr_stash_of(stage)->once[stash_index]) return 1;
    if (hr_stage_jam(stage)) return hr_stage_jam(stage);
    if (!hr_cpu_walk_of(stage)->pipeline.depth) return 1;
    return (hr_stage_shares_stash(stage) ? 1 : stage->pass_count) * hr_cpu_walk_of(stage)->jam;
}

bool hr_stage_stores_in_order(const hr_plan *plan, const hr_stage *stage, const hr_step *step,
                              int row_count) {
    int tensor = plan->normal->statements[step->statement].tensor, tasks = stage->task_count;
    if (plan->normal->tensors[tensor].role != HR_ROLE_RESULT || plan->storage[tensor] != tensor ||
        hr_plan_layout(plan, tensor) != HR_LAYOUT_DENSE ||
        plan->normal->tensors[tensor].rank != tasks + row_count)
        return false;
    for (int a = 0; a < tasks + row_count; a++) {
        const hr_expr *subscript = step->subscripts[a];
        int index = a < tasks ? stage->task[a] : stage->row[a - tasks];
        if (subscript->op != HR_OP_INDEX || subscript->index != index) return false;
    }
    return true;
}

bool hr_stage_collects(const hr_plan *plan, const hr_stage *stage, const hr_step *step) {
    return hr_cpu_walk_of(stage)->row_ends == HR_ROWS_COLLECTED && step->kind == HR_STEP_ELEMENT &&
           step->stored && hr_stage_stores_in_order(plan, stage, step, 1);
}

static int stash_before(const hr_stage *stage, int stash_index) {
    int rows = 0;
    for (int k = 0; k < stash_index; k++)
        rows += hr_stage_stash_slots(stage, k);
    return rows;
}

static bool makes_strip(const hr_plan *plan, const hr_step *step) {
    return hr_plan_is_in_strips(plan, plan->normal->statements[step->statement].tensor);
}

/* Of sums of columns. */
static bool is_wide(const hr_plan *plan, const hr_step *step) {
    const hr_dtype type = plan->normal->statements[step->statement].value->type;
    return type == HR_F64 || type == HR_I64;
}

bool hr_step_has_column_totals(const hr_plan *plan, const hr_step *step) {
    return step->kind == HR_STEP_REDUCE_COLUMN && step->reduce == HR_OP_REDUCE_SUM &&
           plan->normal->statements[step->statement].value->type == HR_F32;
}

/* Rows of 4-byte elements for a step's sums or for what is collected of it. */
static int narrow_rows(const hr_plan *plan, const hr_stage *stage, const hr_step *step) {
    if (hr_stage_collects(plan, stage, step)) return hr_stage_jam(stage);
    return step->kind == HR_STEP_REDUCE_COLUMN && !is_wide(plan, step);
}

/* Rows of 4-byte and 8-byte elements, each padded so that whole vectors fit, and how many totals. */
typedef struct areas {
    int narrow, wide, totals;
} areas;

/* Those of the stash and of the steps before `end`: of a step its sums or what is collected of it, then
 * its strip. */
static areas areas_before(const hr_plan *plan, const hr_stage *stage, int end) {
    areas count = {stash_before(stage, hr_stash_of(stage)->count), 0, 0};
    for (int i = 0; i < end; i++) {
        const hr_step *step = &stage->steps[i];
        const bool totals = hr_step_has_column_totals(plan, step);
        if (step->kind == HR_STEP_REDUCE_ALL || totals) count.totals++;
        if ((step->kind == HR_STEP_REDUCE_COLUMN && is_wide(plan, step)) || totals) count.wide++;
        count.narrow += narrow_rows(plan, stage, step) + makes_strip(plan, step);
    }
    return count;
}

bool hr_stage_goes_in_pieces(const hr_plan *plan, const hr_stage *stage) {
    const hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    return !hr_stage_is_ordered(stage) && !walk->strip && walk->sums != HR_SUMS_IN_REGISTERS &&
           !walk->gathered && !walk->chunk && walk->loop != HR_LOOP_SCATTER &&
           walk->loop != HR_LOOP_TRANSPOSED && walk->loop != HR_LOOP_SHARES && !hr_plan_has_lists(plan);
}

bool hr_stage_has_sums(const hr_stage *stage) {
    return hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || hr_stage_has(stage, HR_STEP_REDUCE_ALL);
}

/* Of its columns a thread holds the sums of all or of a strip. */
static const hr_size *sums_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    return hr_cpu_walk_of(stage)->strip ? hr_size_number(sizes, hr_cpu_walk_of(stage)->strip)
                                        : hr_size_points(sizes, plan->normal, stage->row, stage->row_count);
}

/* Bytes of `rows` padded rows of elements of `element` bytes. */
static const hr_size *rows_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int rows,
                              int element) {
    const hr_size *row = hr_size_product(sizes, hr_size_brackets(sizes, sums_of(sizes, plan, stage)),
                                         hr_size_number(sizes, element));
    const hr_size *padded = hr_size_brackets(sizes, hr_size_rounded(sizes, row, HR_AREA_PADDING, 64));
    return hr_size_product(sizes, hr_size_number(sizes, rows), padded);
}

const hr_size *hr_stage_thread_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const areas all = areas_before(plan, stage, stage->step_count);
    const hr_size *size = hr_size_number(sizes, all.totals * TOTAL_BYTES);
    if (all.wide) size = hr_size_sum(sizes, rows_of(sizes, plan, stage, all.wide, 8), size);
    if (all.narrow) size = hr_size_sum(sizes, rows_of(sizes, plan, stage, all.narrow, 4), size);
    return size;
}

const char *hr_stage_thread_text(hr_printer *p, const hr_stage *stage) {
    hr_sizes sizes = {0};
    return hr_size_text(p, hr_stage_thread_size(&sizes, p->plan, stage));
}

const char *hr_stage_strip_offset(hr_printer *p, const hr_stage *stage, int step_index) {
    const areas before = areas_before(p->plan, stage, step_index);
    const int own = narrow_rows(p->plan, stage, &stage->steps[step_index]);
    hr_sizes sizes = {0};
    return hr_size_text(p, rows_of(&sizes, p->plan, stage, before.narrow + own, 4));
}

/* Where the step's row of 8-byte sums stands, or else its line. Order: narrow rows (the stash first), wide
 * rows, lines. */
static const hr_size *wide_offset(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int step_index,
                                  bool row) {
    const areas all = areas_before(plan, stage, stage->step_count),
                before = areas_before(plan, stage, step_index);
    const hr_size *offset = row ? rows_of(sizes, plan, stage, before.wide, 8)
                                : hr_size_number(sizes, before.totals * TOTAL_BYTES);
    if (!row && all.wide) offset = hr_size_sum(sizes, rows_of(sizes, plan, stage, all.wide, 8), offset);
    return all.narrow ? hr_size_sum(sizes, rows_of(sizes, plan, stage, all.narrow, 4), offset) : offset;
}

static const hr_size *area_offset(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                  int step_index) {
    const hr_step *step = &stage->steps[step_index];
    if (narrow_rows(plan, stage, step))
        return rows_of(sizes, plan, stage, areas_before(plan, stage, step_index).narrow, 4);
    return wide_offset(sizes, plan, stage, step_index, step->kind == HR_STEP_REDUCE_COLUMN);
}

const char *hr_stage_totals_offset(hr_printer *p, const hr_stage *stage, int step_index) {
    hr_sizes sizes = {0};
    return hr_size_text(p, wide_offset(&sizes, p->plan, stage, step_index, true));
}

const char *hr_stage_folds_offset(hr_printer *p, const hr_stage *stage, int step_index) {
    hr_sizes sizes = {0};
    return hr_size_text(p, wide_offset(&sizes, p->plan, stage, step_index, false));
}

const char *hr_stage_area_offset(hr_printer *p, const hr_stage *stage, int step_index, int stash_index) {
    hr_sizes sizes = {0};
    return hr_size_text(p, stash_index >= 0
                               ? rows_of(&sizes, p->plan, stage, stash_before(stage, stash_index), 4)
                               : area_offset(&sizes, p->plan, stage, step_index));
}
