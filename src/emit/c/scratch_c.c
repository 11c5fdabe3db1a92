/* The scratch memory of emitted C. In: a plan. Out: sizes, as numbers and as text; places. See scratch_c.h.
 */
#include "emit/c/scratch_c.h"

#include "emit/c/attend_c.h"
#include "emit/c/emit_c_contract.h"
#include "emit/c/stage_order.h"
#include "emit/c/stage_scan.h"
#include "emit/c/stage_scatter.h"
#include "emit/emit.h"
#include "emit/templates/cpu/shares.h"
#include "schedule/schedule.h"

/* ---- what one thread of a stage has for itself ---- */

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

/* ---- what a stage takes, and a plan ---- */

static int64_t sums_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_sums_of(args[0], args[1], args[2]);
}

static int64_t pieces_value(const void *nothing, const int64_t *args) {
    (void)nothing;
    return work_pieces_of(args[0], args[1]);
}

const hr_size *hr_c_pieces_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                                int threads) {
    static const hr_size_function pieces = {.name = "work_pieces_of", .value = pieces_value},
                                  own_sums = {.name = "work_sums_of", .value = sums_value};
    const hr_size *tasks = hr_size_points(sizes, plan->normal, stage->task, stage->task_count),
                  *row = hr_size_points(sizes, plan->normal, stage->row, stage->row_count);
    const hr_size *all = hr_size_product(sizes, tasks, row), *word = hr_size_word(sizes, "threads", threads);
    if (!sums) return hr_size_call(sizes, &pieces, NULL, 2, (const hr_size *[]){all, word});
    return hr_size_call(sizes, &own_sums, NULL, 3,
                        (const hr_size *[]){all, hr_stage_thread_size(sizes, plan, stage), word});
}

/* Of what threads or pieces have for themselves. */
static const hr_size *areas_of(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                               int threads) {
    const hr_size *area = hr_stage_thread_size(sizes, plan, stage), *count;
    if (hr_size_is_zero(area)) return area;
    count = hr_size_word(sizes, "threads", threads);
    if (sums) count = hr_size_product(sizes, count, hr_c_pieces_size(sizes, plan, stage, sums, threads));
    return hr_size_product(sizes, count, hr_size_brackets(sizes, area));
}

const hr_size *hr_c_work_size(hr_sizes *sizes, const hr_plan *plan, int number, bool sums, int threads) {
    const hr_stage *stage = &plan->stages[number];
    if (hr_schedule_attends(plan, number)) return hr_attend_size(sizes, plan, number, threads);
    if (stage->shape == HR_SHAPE_CONTRACT) return hr_contract_size(sizes, plan, number, threads);
    if (hr_stage_is_ordered(stage)) return hr_ordered_size(sizes, plan, stage, threads);
    if (hr_cpu_walk_of(stage)->order != HR_ORDER_LYING) return hr_order_size(sizes, plan, stage, threads);
    if (hr_scatter_may_be_totalled(plan, stage)) return hr_scatter_size(sizes, plan, stage, threads);
    return areas_of(sizes, plan, stage, sums, threads);
}

static hr_status work_bytes(const hr_plan *plan, int number, const int64_t *extents, int threads,
                            int64_t *out) {
    hr_sizes sizes = {0};
    const hr_stage *stage = &plan->stages[number];
    const bool sums = hr_stage_goes_in_pieces(plan, stage) && hr_stage_has_sums(stage);
    return hr_size_add(hr_c_work_size(&sizes, plan, number, sums, threads), plan->normal, extents, out);
}

hr_status hr_emit_c_scratch(const hr_plan *plan, const int64_t *extents, int threads, int64_t *out) {
    int64_t work = 0, together = 0; /* of the stages that go together */
    for (int i = 0; i < plan->stage_count; i++) {
        if (!plan->stages[i].schedule->joins) together = 0;
        HR_TRY(work_bytes(plan, i, extents, threads, &together));
        if (together > work) work = together;
    }
    HR_TRY(hr_plan_locals_bytes(plan, plan->normal->tensor_count, extents, HR_C_LOCAL_MORE, HR_C_LOCAL_UNIT,
                                out));
    if (__builtin_add_overflow(*out, work, out))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s needs more memory than there are addresses",
                       plan->source->name);
    return HR_OK;
}
