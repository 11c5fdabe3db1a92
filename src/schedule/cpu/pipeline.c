/* Software pipelining of a stage's passes over rows: pass p works on row r - p while pass 0 works on row r.
 * In: a stage with values and lanes. Out: whether it is pipelined, and how. */
#include "base/memory.h"
#include "schedule/cpu/passes_cpu.h"
#include "schedule/dependence.h"

#include "base/dtype.h"
#include "ir/visit.h"

#include <stdlib.h>

typedef struct chooser {
    const hr_plan *plan;
    const hr_function *function;
    const int64_t *extents;
    hr_dependence depends;
} chooser;

typedef struct flight {
    const chooser *chooser;
    const hr_stage *stage;
    int pass;          /* that is looked at */
    int *first, *last; /* by expr id: the passes that use it, from 1; 0 = not seen */
    int64_t row;       /* elements */
    int64_t bytes;     /* of the rows in flight */
    int64_t shared;    /* bytes of rows that all tasks read */
    bool late;         /* a pass other than the first reads what none before it did */
} flight;

/* Adds up the bytes of the rows in flight, were the passes of several rows to run side by side: what is read
 * or stashed stays from the first pass that uses it to the last. */
static hr_visit add_flight(void *context, const hr_expr *node) {
    flight *f = context;
    const chooser *s = f->chooser;
    const int pass = f->pass + 1, first = f->first[node->id];
    const int64_t since = first ? pass - first : 0;
    if (f->last[node->id] == pass || !hr_varies_by_lane(&s->depends, node)) return HR_VISIT_PAST;
    f->last[node->id] = pass;
    if (node->op == HR_OP_ELEMENT) {
        int64_t one = f->row * (int64_t)hr_dtype_size(s->function->tensors[node->tensor].dtype);
        if (!first) f->bytes += one;
        if (hr_varies_by_task(&s->depends, node))
            f->bytes += since * one, f->late = f->late || (f->pass && !since);
        else if (!first)
            f->shared += one;
        f->first[node->id] = pass;
    }
    if (hr_op_is_dear(node->op) &&
        since) { /* stashed: the row that is written and those that are read; of two one */
        f->bytes += (since + (hr_stage_main_passes(f->stage) > 2)) * f->row * 4;
        f->first[node->id] = pass;
        return HR_VISIT_PAST;
    }
    if (!f->first[node->id]) f->first[node->id] = pass;
    return HR_VISIT_ON;
}

/* It needs passes that each work through a row's lanes in order, and rows that are there when their turn
 * comes. */
static bool can_be_pipelined(const hr_stage *stage) {
    bool ends_in_fallback = stage->fallback_pass && stage->fallback_pass == stage->pass_count - 1;
    if (ends_in_fallback) return false;
    if (!hr_stage_is_vector(stage) || stage->contract || hr_stage_main_passes(stage) < 2 ||
        stage->row_count != 1 || !stage->task_count)
        return false;
    if (hr_stage_has(stage, HR_STEP_REDUCE_ALL) || hr_stage_has(stage, HR_STEP_SCATTER)) return false;
    for (int i = 0; i < stage->step_count; i++)
        if (hr_expr_draws(stage->steps[i].value)) return false;
    return true;
}

/* Bytes of the sums over tasks that each row adds to. */
static int64_t sum_bytes(const hr_stage *stage, int64_t row) {
    int64_t sums = 0;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_REDUCE_COLUMN) sums += row * 4;
    return sums;
}

/* Where the rows in flight leave the first-level cache, rows that all tasks read would come from the second
 * for each task anew: two tasks take each block of columns together, where such rows are two fifths or more
 * of all that is read. So would sums over tasks: two tasks take each up and put it back once, where lanes are
 * narrowed. Where they are not, reads and stores would come in bursts, and a core that does not see far loses
 * more by a second row in flight than it gains; one whose stores wait gains (docs/facts.md). */
static int choose_jam(const chooser *s, const hr_stage *stage, const flight *f) {
    enum { JAM_ROWS = 2, JAM_ROWS_MOST = 16 };
    int64_t l1 = hr_limits_l1(&s->plan->limits), l2 = hr_limits_l2(&s->plan->limits);
    bool sums = hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
    bool far = hr_limits_see_far(&s->plan->limits) && !hr_limits_are_short(&s->plan->limits);
    int choice = hr_stage_knobs(stage)->jam, most = sums ? JAM_ROWS : JAM_ROWS_MOST;
    if (choice > 0) return choice < most ? choice : most;
    if (f->bytes + sum_bytes(stage, f->row) <= l1) return 1;
    if (sums)
        return far && (hr_stage_is_narrow(s->plan, stage) || hr_limits_stores_wait(&s->plan->limits))
                   ? JAM_ROWS
                   : 1;
    if (f->shared * 5 < f->bytes * 2) return 1;
    return (f->bytes - f->shared) * JAM_ROWS + f->shared <= l2 / 4 * 3 ? JAM_ROWS : 1;
}

/* A core that sees many steps ahead asks its second-level cache for so much at once that lines from memory
 * come late: sums over tasks are what rows ask it for most, once they and the rows in flight are more than
 * half of the first, and groups of tasks. Steps of shorter vectors are more operations, of which it sees no
 * further; those that narrow are more, too, and do not wait where the core does not see as far. Where stores
 * wait, waiting for reads, too, costs more than it saves. */
static hr_throttle choose_throttle(const chooser *s, const hr_stage *stage, int64_t row, int64_t bytes) {
    int64_t sums = sum_bytes(stage, row);
    bool narrow = hr_stage_is_narrow(s->plan, stage);
    if (hr_stage_knobs(stage)->throttle) return hr_stage_knobs(stage)->throttle;
    if (hr_limits_are_short(&s->plan->limits) || hr_limits_stores_wait(&s->plan->limits))
        return HR_THROTTLE_NONE;
    if (!sums) return hr_cpu_walk_of(stage)->jam > 1 ? HR_THROTTLE_ADDRESSES : HR_THROTTLE_NONE;
    if (bytes + sums <= hr_limits_l1(&s->plan->limits) / 2) return HR_THROTTLE_NONE;
    return narrow && !hr_limits_see_far(&s->plan->limits) ? HR_THROTTLE_NONE : HR_THROTTLE_ADDRESSES;
}

/* Where the rows in flight hardly fit the first-level cache, the last pass walks its row from the end: what
 * the first read last is still there. Not where it reads what no pass read before, which is prefetched,
 * nor where it adds up. */
static bool pays_reversed(const chooser *s, const hr_stage *stage, const flight *f) {
    int64_t l1 = hr_limits_l1(&s->plan->limits);
    int last = stage->pass_count - 1;
    if (hr_cpu_walk_of(stage)->jam > 1 || hr_stage_main_passes(stage) != 2 || f->late ||
        f->bytes <= l1 / 4 * 3)
        return false;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_REDUCE_COLUMN ||
            (stage->steps[i].kind == HR_STEP_REDUCE_ROW && stage->steps[i].pass == last))
            return false;
    return true;
}

/* Rows in flight come from the second-level cache at least. Where operations are what takes long, two passes
 * at once need more registers than short vectors have. */
static bool pays(const chooser *s, const hr_stage *stage, int64_t bytes) {
    if (hr_stage_is_bound_by_operations(s->plan, stage)) return false;
    return bytes <= hr_limits_l2(&s->plan->limits) / 4 * 3;
}

/* Sets what is in flight, were the passes side by side. */
static hr_status survey(chooser *s, const hr_stage *stage, flight *f) {
    *f = (flight){.chooser = s, .stage = stage};
    HR_TRY(
        hr_extent_value(s->function, s->function->indices[hr_stage_lane(stage)].extent, s->extents, &f->row));
    size_t ids = (size_t)s->function->expr_count + 1;
    f->first = hr_memory_zeros(ids * 2, sizeof *f->first);
    if (!f->first) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    f->last = f->first + ids;
    for (f->pass = 0; f->pass < hr_stage_main_passes(stage); f->pass++)
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].pass == hr_stage_pass_at(stage, f->pass) &&
                hr_step_is_emitted(&stage->steps[i]) && stage->steps[i].kind != HR_STEP_ROW)
                hr_expr_visit(stage->steps[i].value, add_flight, f);
    free(f->first);
    f->first = f->last = NULL;
    return HR_OK;
}

static hr_status choose_pipeline(chooser *s, hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    const hr_pipeline_knob choice = hr_stage_knobs(stage)->pipeline;
    flight f;
    HR_TRY(survey(s, stage, &f));
    if (!choice && !pays(s, stage, f.bytes)) return HR_OK;
    walk->pipeline.depth = hr_stage_main_passes(stage);
    walk->jam = choose_jam(s, stage, &f);
    walk->pipeline.throttle = choose_throttle(s, stage, f.row, f.bytes);
    return HR_OK;
}

hr_status hr_pass_pipeline(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    chooser s = {.plan = plan, .function = plan->normal, .extents = extents};
    if (hr_stage_knobs(stage)->pipeline == HR_PIPELINE_OFF || hr_stage_jam(stage) || !can_be_pipelined(stage))
        return HR_OK;
    HR_TRY(hr_dependence_begin(plan, stage, &s.depends));
    hr_status status = choose_pipeline(&s, stage);
    hr_dependence_end(&s.depends);
    return status;
}

hr_status hr_pass_pipeline_ends(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    chooser s = {.plan = plan, .function = plan->normal, .extents = extents};
    flight f;
    if (!hr_cpu_walk_of(stage)->pipeline.depth) return HR_OK;
    HR_TRY(hr_dependence_begin(plan, stage, &s.depends));
    hr_status status = survey(&s, stage, &f);
    /* A stashed row of a task lies where that of the next one is stashed, in order. */
    if (status == HR_OK && !hr_stash_has_rows(stage) && pays_reversed(&s, stage, &f))
        hr_cpu_walk_of(stage)->pipeline.direction = HR_REVERSED;
    hr_dependence_end(&s.depends);
    return status;
}
