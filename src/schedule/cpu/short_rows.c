/* Stages of short rows. In: a stage. Out: `ragged`, `jam`.
 *
 * What a row computes between two passes, and the end of each pass's sum, takes as long as some hundred
 * elements, and a core sees no further ahead than about two short rows: it waits. Jammed, several rows go
 * through a pass before the first of them goes through the next.
 *
 * Rows that are no whole cache lines share lines with the rows beside them: a line that some of them leave
 * past the caches, and others not, is merged with what memory holds. Jammed rows are put together in cache
 * first.
 */
#include "base/dtype.h"
#include "ir/graph.h"
#include "plan/row_bounds.h"
#include "schedule/cpu/passes_cpu.h"

enum { LINE = 64, RAGGED_BYTES = 1280 };
enum {
    JAM = 8,
    JAM_MOST = 16,
    SHORT_BYTES = 512, /* of a row, half of them beside sums over tasks: longer ones are work enough for what
                          is between passes */
    ONE_WAY = 128,     /* elements: shorter rows have no vectors enough for several accumulators */
    ELEMENT_BYTES = 8  /* of a jammed row, for each element: what is read, stashed and collected */
};

typedef struct row {
    int64_t elements, bytes; /* of its results, or of its values where it has none */
    bool ragged;
} row;

static hr_status row_of(const hr_function *function, const int64_t *extents, const hr_stage *stage,
                        row *out) {
    *out = (row){0};
    HR_TRY(
        hr_extent_value(function, function->indices[hr_stage_lane(stage)].extent, extents, &out->elements));
    int64_t most = out->elements < RAGGED_BYTES ? out->elements : RAGGED_BYTES; /* longer ones are alike */
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_ELEMENT || !step->stored) continue;
        int tensor = function->statements[step->statement].tensor;
        int64_t bytes = most * (int64_t)hr_dtype_size(function->tensors[tensor].dtype);
        if (bytes > out->bytes) out->bytes = bytes;
        out->ragged = out->ragged || (bytes < RAGGED_BYTES && bytes % LINE);
    }
    if (!out->bytes) out->bytes = most * (int64_t)sizeof(float);
    return HR_OK;
}

static bool can_jam(const hr_stage *stage) {
    if (!hr_stage_is_vector(stage) || stage->contract || stage->row_count != 1 || !stage->task_count)
        return false;
    const hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    if (walk->gathered || walk->partition != HR_PARTITION_TASKS || walk->sums == HR_SUMS_IN_REGISTERS)
        return false;
    if (hr_stage_has(stage, HR_STEP_SCATTER)) return false;
    const hr_knobs *knobs = hr_stage_knobs(stage);
    return !knobs->chunk && knobs->pipeline <= HR_PIPELINE_OFF && knobs->jam != 1;
}

/* As many as the first-level cache holds half of. */
static int choose_jam(const hr_plan *plan, const hr_stage *stage, const row *row) {
    if (hr_cpu_walk_of(stage)->row_ends != HR_ROWS_RAGGED && hr_stage_main_passes(stage) < 2 &&
        !hr_stage_estimates(stage))
        return 0;
    int64_t most = hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) ? SHORT_BYTES / 2 : SHORT_BYTES;
    if (hr_cpu_walk_of(stage)->row_ends != HR_ROWS_RAGGED && row->bytes > most) return 0;
    const int jam = hr_stage_knobs(stage)->jam;
    if (jam) return jam < JAM_MOST ? jam : JAM_MOST;
    int rows = JAM;
    while (rows > 1 && rows * row->elements * ELEMENT_BYTES > hr_limits_l1(&plan->limits) / 2)
        rows /= 2;
    return rows > 1 ? rows : 0;
}

hr_status hr_pass_short_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    row row;
    if (!stage->row_count) return HR_OK;
    HR_TRY(row_of(plan->normal, extents, stage, &row));
    walk->row_ends = row.ragged ? HR_ROWS_RAGGED : HR_ROWS_OF_LINES;
    hr_row_bounds bounds; /* each row has its own */
    const bool bounded = hr_stage_row_bounds(plan, stage, &bounds);
    const int jam = can_jam(stage) && !bounded ? choose_jam(plan, stage, &row) : 0;
    if (!jam) return HR_OK;
    walk->jam = jam;
    walk->accumulators = row.elements < ONE_WAY ? 1 : 0;
    return HR_OK;
}

/* A map whose rows are fewer than would keep all threads busy, and long enough to be shared out. */
hr_status hr_pass_few_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    enum { TASKS_A_THREAD = 4, SHARE_LEAST = 1024 };
    const int64_t threads = hr_limits_threads(&plan->limits);
    int64_t row;
    double tasks;
    if (!hr_stage_is_vector(stage) || stage->row_count != 1 || !stage->task_count ||
        hr_cpu_walk_of(stage)->gathered || hr_cpu_walk_of(stage)->strip || hr_stage_knobs(stage)->chunk ||
        !hr_stage_has_only(stage, HR_STEP_ELEMENT))
        return HR_OK;
    HR_TRY(hr_extent_value(plan->normal, plan->normal->indices[stage->row[0]].extent, extents, &row));
    HR_TRY(hr_function_points(plan->normal, stage->task, stage->task_count, extents, &tasks));
    if (tasks < (double)(TASKS_A_THREAD * threads) && row / threads >= SHARE_LEAST)
        hr_cpu_walk_of(stage)->partition = HR_PARTITION_LANES;
    return HR_OK;
}
