/* What a stage prefetches. In: a stage whose loop is chosen. Out: `prefetch`, for each of its passes.
 *
 * How far ahead is the tunable. In a stage of one pass, or of passes side by side: 2 to 16 KB. In one of
 * several passes, one after the other, the next row: 2 KB is in the last pass, into the first-level cache, 4
 * KB into the second, 8 and 16 KB over all passes, most of it in the last. Unset: choice_of; a stage of one
 * pass with more than two streams prefetches half as far, groups of rows the next group. Unset, rows that
 * column sums alone read one by one are prefetched COLUMN_BYTES ahead into the first-level cache, and
 * gathered rows, too, by cores that see far and whose stores do not wait: lines that miss there make the
 * hardware read on past the ends of rows that nothing follows.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cpu/passes_cpu.h"
#include "schedule/dependence.h"

enum { NEAR_BYTES = 1536, NEAR_BYTES_F32 = 2048, COLUMN_BYTES = 8192, MANY_STREAMS = 2 };

typedef struct prefetching {
    const hr_plan *plan;
    const hr_stage *stage;
    int number;
    hr_dependence depends;
    hr_prefetch_knob choice; /* the tunable, or what it stands for where it is not set */
    bool ahead;              /* one pass, or passes side by side */
} prefetching;

/* ---- streams ---- */

/* table[token[t], c] in a stage over t and c: the next rows' places are known ahead. */
static bool is_gathered_row(const prefetching *a, const hr_expr *node) {
    const hr_stage *stage = a->stage;
    const hr_function *function = a->plan->normal;
    return stage->pass_count == 1 && stage->task_count == 1 && function->tensors[node->tensor].rank == 2 &&
           stage->row_count == 1 && hr_element_is_checked(function, node) &&
           !hr_element_is_guarded(function, node) && !hr_varies_by_lane(&a->depends, node->args[0]);
}

/* The subscript above those that the loops of the row walk; numbers are no loops. */
static const hr_expr *subscript_above(const prefetching *a, const hr_expr *node) {
    int loops = a->stage->row_count;
    for (int axis = a->plan->normal->tensors[node->tensor].rank - 1; axis >= 0; axis--) {
        if (node->args[axis]->op == HR_OP_NUMBER) continue;
        if (loops-- == 0) return node->args[axis];
    }
    return NULL;
}

/* Under loops of the row, the lanes of all of a tensor's elements walk the same memory, unless a number keeps
 * them apart. */
static bool walks_same(const prefetching *a, const hr_expr *one, const hr_expr *other) {
    if (a->stage->row_count < 2 || one->tensor != other->tensor) return false;
    for (int axis = 0; axis < a->plan->normal->tensors[one->tensor].rank; axis++) {
        const hr_expr *left = one->args[axis], *right = other->args[axis];
        if (left->op == HR_OP_NUMBER && right->op == HR_OP_NUMBER && left != right) return false;
    }
    return true;
}

/* Rows of parameters that the first pass reads lane by lane and that the next task will read again. */
typedef struct stream_list {
    const prefetching *of;
    hr_prefetch *out;
} stream_list;

static hr_visit is_of_lanes(void *context, const hr_expr *node) {
    const stream_list *list = context;
    return hr_varies_by_lane(&list->of->depends, node) ? HR_VISIT_ON : HR_VISIT_PAST;
}

static void add_stream(hr_prefetch *out, const hr_expr *node, bool gathered) {
    out->gathered[out->count] = gathered;
    out->element[out->count++] = node;
}

static void find_stream(void *context, const hr_expr *node) {
    stream_list *list = context;
    const prefetching *a = list->of;
    const hr_stage *stage = a->stage;
    hr_prefetch *out = list->out;
    if (node->op != HR_OP_ELEMENT || out->count == HR_STREAMS_MAX || !hr_lies_along_lanes(&a->depends, node))
        return;
    const bool gathered = is_gathered_row(a, node);
    if (stage->task_count == 0) { /* one long row, shared out in pieces */
        add_stream(out, node, gathered);
        return;
    }
    const hr_expr *above = subscript_above(a, node);
    if (!above) return;
    for (int i = 0; i < out->count; i++)
        if (walks_same(a, out->element[i], node)) return;
    if (gathered || (above->op == HR_OP_INDEX && above->index == stage->task[stage->task_count - 1]))
        add_stream(out, node, gathered);
}

/* Streams of a pass: those that it is the first to read where passes run side by side, else those of the
 * first pass. */
static hr_status find_streams(const prefetching *a, int pass, hr_prefetch *out) {
    const hr_stage *stage = a->stage;
    stream_list list = {a, out};
    hr_walk walk = {.enter = is_of_lanes, .leave = find_stream, .context = &list};
    const int last = hr_cpu_walk_of(stage)->loop == HR_LOOP_PIPELINE ? pass : 0;
    for (int before = 0; before <= last; before++) {
        out->count = 0;
        for (int i = 0; i < stage->step_count; i++)
            if (stage->steps[i].pass == before) hr_walk_through(&walk, stage->steps[i].value);
    }
    return hr_walk_end(&walk);
}

/* ---- parts of the next row ---- */

static bool pass_computes_special(const hr_stage *stage, int pass) {
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].pass == pass && stage->steps[i].kind == HR_STEP_REDUCE_ROW &&
            hr_expr_computes_special(stage->steps[i].value))
            return true;
    return false;
}

/* Those that a pass prefetches, eight in all for two or three passes: most in the last pass, where they mix
 * with the stores, or in one that computes for long. */
static int part_of(const hr_stage *stage, int pass) {
    int last = stage->pass_count - 1, passes = hr_stage_main_passes(stage);
    bool long_before = false;
    if (pass == stage->fallback_pass && pass) return 0;
    for (int other = 0; other < last; other++)
        long_before = long_before || pass_computes_special(stage, other);
    if (pass == last)
        return hr_cpu_walk_sums_apart(hr_cpu_walk_of(stage)) ? 4 : !long_before ? 6 : passes == 2 ? 4 : 3;
    if (pass < last && pass_computes_special(stage, pass)) return 4;
    return passes == 2 ? 2 : 1;
}

static void share_out(const hr_stage *stage, int pass, hr_prefetch *out) {
    out->part = part_of(stage, pass);
    for (int other = 0; other < stage->pass_count + hr_cpu_walk_sums_apart(hr_cpu_walk_of(stage)); other++) {
        const int part = part_of(stage, other);
        out->of += part;
        if (other < pass) out->before += part;
    }
}

/* ---- how far ---- */

static hr_prefetch_knob choice_of(const prefetching *a) {
    const hr_prefetch_knob asked = hr_stage_knobs(a->stage)->prefetch;
    if (asked) return asked;
    if (hr_cpu_walk_of(a->stage)->loop == HR_LOOP_PIPELINE && !hr_limits_stores_wait(&a->plan->limits))
        return HR_PREFETCH_16K;
    return a->ahead || hr_stage_is_bound_by_operations(a->plan, a->stage) ? HR_PREFETCH_4K : HR_PREFETCH_8K;
}

static bool prefetches(const prefetching *a, int pass) {
    if (a->choice == HR_PREFETCH_OFF || hr_cpu_walk_of(a->stage)->loop == HR_LOOP_BLOCK) return false;
    if (pass && pass == a->stage->fallback_pass) return false;
    return a->ahead || a->choice >= HR_PREFETCH_8K || pass >= a->stage->pass_count - 1;
}

static bool is_narrow_or_summed(const prefetching *a, const hr_prefetch *out) {
    if (hr_stage_has(a->stage, HR_STEP_REDUCE_COLUMN)) return true;
    for (int i = 0; i < out->count; i++)
        if (hr_dtype_size(a->plan->normal->tensors[out->element[i]->tensor].dtype) < 4) return true;
    return false;
}

/* Beside other rows, what was prefetched into the second-level cache is prefetched again so many bytes before
 * it is used; so it is where cores are long busy with results, in one pass, too. Whole f32 lines go by so
 * fast that on some machines it costs more than it gains: only where the tuner does not choose how far ahead.
 */
static int near_bytes(const prefetching *a, const hr_prefetch *out) {
    if (hr_cpu_walk_of(a->stage)->loop != HR_LOOP_PIPELINE &&
        !(hr_limits_stores_wait(&a->plan->limits) && hr_stage_main_passes(a->stage) == 1))
        return 0;
    if (is_narrow_or_summed(a, out)) return NEAR_BYTES;
    return hr_stage_knobs(a->stage)->prefetch ? 0 : NEAR_BYTES_F32;
}

/* In a stage of one pass, or of passes side by side: so many bytes ahead, or where the tasks after this one
 * lie. */
static void prefetch_ahead(const prefetching *a, hr_prefetch *out) {
    const hr_cpu_walk *walk = hr_cpu_walk_of(a->stage);
    const bool asked = hr_stage_knobs(a->stage)->prefetch, pipelined = walk->loop == HR_LOOP_PIPELINE;
    if (hr_cpu_walk_sums_apart(walk)) {
        out->ahead = HR_AHEAD_GROUP;
    } else if (pipelined && walk->jam > 1) {
        out->ahead = HR_AHEAD_JAM;
    } else if (!asked && hr_stage_has_only(a->stage, HR_STEP_REDUCE_COLUMN)) {
        out->level = HR_CACHE_FIRST;
        out->bytes = COLUMN_BYTES;
    } else {
        const bool many = !asked && !pipelined && out->count > MANY_STREAMS;
        out->bytes = 1024 << ((int)a->choice - 1 - many);
    }
}

/* In one of several passes, one after the other: the next row. */
static void prefetch_next_row(const prefetching *a, int pass, hr_prefetch *out) {
    out->ahead = HR_AHEAD_NEXT_ROW;
    if (a->choice < HR_PREFETCH_8K) return;
    if (hr_cpu_walk_sums_apart(hr_cpu_walk_of(a->stage))) out->ahead = HR_AHEAD_NEXT_GROUP;
    share_out(a->stage, pass, out);
}

/* Not so a map of what is one a column. */
static bool goes_through_tasks(const hr_stage *head, const hr_stage *stage) {
    return hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || stage->task_count >= head->row_count;
}

/* Of stages that go through strips together the first reads what memory has, as always, and the last that
 * goes through all tasks prefetches the next strip; those between find all in cache. */
static void prefetch_strip(const prefetching *a, hr_prefetch *out) {
    const hr_run run = hr_schedule_run(a->plan, a->number);
    const hr_stage *head = &a->plan->stages[run.first];
    int last = run.last;
    while (!goes_through_tasks(head, &a->plan->stages[last]))
        last--;
    if (a->number == last && last > run.first)
        out->ahead = HR_AHEAD_STRIP;
    else if (a->number != run.first)
        out->count = 0;
}

static hr_status prefetch_of(const prefetching *a, int pass, hr_prefetch *out) {
    const hr_device_limits *limits = &a->plan->limits;
    *out = (hr_prefetch){0};
    if (!prefetches(a, pass)) return HR_OK;
    HR_TRY(find_streams(a, pass, out));
    if (!out->count) return HR_OK;
    if (!a->ahead && a->choice == HR_PREFETCH_2K) out->level = HR_CACHE_FIRST;
    if (!hr_stage_knobs(a->stage)->prefetch && hr_limits_see_far(limits) && !hr_limits_stores_wait(limits))
        out->gathered_level = HR_CACHE_FIRST;
    out->near_bytes = near_bytes(a, out);
    if (a->ahead)
        prefetch_ahead(a, out);
    else
        prefetch_next_row(a, pass, out);
    if (hr_cpu_walk_of(a->stage)->loop == HR_LOOP_JOINED) prefetch_strip(a, out);
    return HR_OK;
}

/* Pass pass_count is the column sums' own loop. */
hr_status hr_pass_prefetch(hr_plan *plan, int number) {
    hr_stage *stage = &plan->stages[number];
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    prefetching a = {.plan = plan, .stage = stage, .number = number};
    const int passes = stage->pass_count + 1;
    walk->prefetch = hr_arena_alloc(plan->arena, (size_t)passes * sizeof *walk->prefetch);
    if (!hr_stage_is_vector(stage) || stage->contract) return HR_OK;
    a.ahead = hr_stage_main_passes(stage) == 1 || walk->loop == HR_LOOP_PIPELINE;
    a.choice = choice_of(&a);
    HR_TRY(hr_dependence_begin(plan, stage, &a.depends));
    hr_status status = HR_OK;
    for (int pass = 0; pass < passes && status == HR_OK; pass++)
        status = prefetch_of(&a, pass, &walk->prefetch[pass]);
    hr_dependence_end(&a.depends);
    return status;
}
