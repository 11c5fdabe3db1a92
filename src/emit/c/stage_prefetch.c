/* What a stage asks for before it needs it. In: a pass. Out: what, when and how much. See stage_prefetch.h.
 */
#include "emit/c/stage_prefetch.h"

#include "base/dtype.h"
#include "emit/c/column_loop.h"
#include "emit/c/stage_area.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <string.h>

enum {
    NEAR_BYTES = 1536,
    NEAR_BYTES_F32 = 2048,
    COLUMN_BYTES = 8192,
    ROWS_AHEAD = 8192,
    GATHERED_AHEAD = 16384,
    MANY_STREAMS = 2
};

/* table[token[t], c] in a stage over t and c: the next rows' places are known ahead. */
static bool is_gathered_row(hr_stage_printer *s, const hr_expr *node) {
    const hr_tensor *tensor = &s->function->tensors[node->tensor];
    return s->stage->pass_count == 1 && s->stage->task_count == 1 && tensor->rank == 2 &&
           s->stage->row_count == 1 && hr_element_is_checked(s->function, node) &&
           !hr_element_is_guarded(s->function, node) && hr_expr_level(s->p, node->args[0]) == HR_AT_TASK;
}

/* Printed once a task. The place need not be in range: asking for memory never faults. */
const char *hr_stage_next_row(hr_stage_printer *s, int tensor, hr_expr *const *subscripts, int count) {
    hr_printer *p = s->p, after;
    if (hr_printer_begin(&after, p->plan, p->arena, p->out) != HR_OK)
        return NULL; /* only a prefetch is lost */
    hr_printer_stage(&after, s->stage);
    after.indent = p->indent;
    after.number = p->number;
    after.next_task = true;
    const char *offset = hr_emit_offset(&after, tensor, subscripts, count);
    p->number = after.number + 1;
    const char *name = hr_format(p, "n%d", p->number);
    hr_print(p, "const %s *const %s = %s + %s;", hr_c_storage(s->function->tensors[tensor].dtype), name,
             hr_emit_tensor(p, tensor), offset);
    hr_printer_end(&after);
    return name;
}

/* The task whose rows are prefetched: GATHERED_AHEAD bytes of rows after this one. */
static void print_next_task(hr_stage_printer *s, const hr_expr *node) {
    const hr_tensor *tensor = &s->function->tensors[node->tensor];
    hr_print(s->p, "const int64_t row = %s * %d;", hr_emit_size(s->p, tensor->shape[1]),
             (int)hr_dtype_size(tensor->dtype));
    hr_print(s->p, "const int64_t ahead = row < 1 || row > %d ? 1 : %d / row;", GATHERED_AHEAD,
             GATHERED_AHEAD);
    hr_print(s->p, hr_cpu_walk_of(s->stage)->gathered
                       ? "const int64_t next = order.tasks[n + ahead < order.count ? n + ahead : n];"
                       : "const int64_t next = task + ahead < tasks ? task + ahead : task;");
}

void hr_stage_next_rows(hr_stage_printer *s, hr_lane_pass *lanes) {
    bool any = false;
    for (int i = 0; i < lanes->prefetch_count; i++) {
        s->next_row[i] = NULL;
        if (!is_gathered_row(s, lanes->prefetched[i])) continue;
        if (!any) print_next_task(s, lanes->prefetched[i]);
        any = true;
        s->next_row[i] = hr_stage_next_row(s, lanes->prefetched[i]->tensor, lanes->prefetched[i]->args, 1);
    }
    if (any) lanes->prefetch_from = s->next_row;
}

/* The subscript above those that the loops of the row walk; numbers are no loops. */
static const hr_expr *subscript_above(const hr_stage_printer *s, const hr_expr *node) {
    int loops = s->stage->row_count;
    for (int a = s->function->tensors[node->tensor].rank - 1; a >= 0; a--) {
        if (node->args[a]->op == HR_OP_NUMBER) continue;
        if (loops-- == 0) return node->args[a];
    }
    return NULL;
}

/* Under loops of the row, the lanes of all of a tensor's elements walk the same memory, unless a number keeps
 * them apart. */
static bool walks_same(const hr_stage_printer *s, const hr_expr *a, const hr_expr *b) {
    if (s->stage->row_count < 2 || a->tensor != b->tensor) return false;
    for (int axis = 0; axis < s->function->tensors[a->tensor].rank; axis++) {
        const hr_expr *left = a->args[axis], *right = b->args[axis];
        if (left->op == HR_OP_NUMBER && right->op == HR_OP_NUMBER && left != right) return false;
    }
    return true;
}

/* Rows of parameters that the first pass reads lane by lane and that the next task will read again. */
typedef struct stream_list {
    hr_stage_printer *s;
    const hr_expr **node;
    int count;
} stream_list;

static hr_visit is_of_lanes(void *context, const hr_expr *node) {
    const stream_list *list = context;
    return hr_expr_level(list->s->p, node) == HR_AT_LANE ? HR_VISIT_ON : HR_VISIT_PAST;
}

static void find_stream(void *context, const hr_expr *node) {
    stream_list *list = context;
    hr_stage_printer *s = list->s;
    if (node->op != HR_OP_ELEMENT || list->count == HR_STREAMS_MAX || !hr_expr_is_row_form(s->p, node))
        return;
    if (s->stage->task_count == 0) { /* one long row, shared out in pieces */
        list->node[list->count++] = node;
        return;
    }
    const hr_expr *above = subscript_above(s, node);
    if (!above) return;
    for (int i = 0; i < list->count; i++)
        if (walks_same(s, list->node[i], node)) return;
    if ((above->op == HR_OP_INDEX && above->index == s->stage->task[s->stage->task_count - 1]) ||
        is_gathered_row(s, node))
        list->node[list->count++] = node;
}

/* Streams of a pass: those that it is the first to read where passes run side by side, else those of the
 * first pass. */
static void find_pass_streams(hr_stage_printer *s, int pass, hr_lane_pass *lanes,
                              const hr_expr **prefetched) {
    stream_list list = {.s = s, .node = prefetched};
    hr_walk walk = {.enter = is_of_lanes, .leave = find_stream, .context = &list};
    for (int before = 0; before <= (hr_stage_goes_by(s, HR_LOOP_PIPELINE) ? pass : 0); before++) {
        list.count = 0;
        for (int i = 0; i < s->stage->step_count; i++)
            if (s->stage->steps[i].pass == before) hr_walk_through(&walk, s->stage->steps[i].value);
    }
    hr_printer_walked(s->p, &walk);
    lanes->prefetch_count = list.count;
    lanes->prefetched = prefetched;
}

static bool pass_computes_special(const hr_stage_printer *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].pass == pass && s->stage->steps[i].kind == HR_STEP_REDUCE_ROW &&
            hr_expr_computes_special(s->stage->steps[i].value))
            return true;
    return false;
}

/* The parts of the next row that a pass asks for, eight in all for two or three passes: most in the last
 * pass, where they mix with the stores, or in one that computes for long. */
static int prefetch_part(const hr_stage_printer *s, int pass) {
    int last = s->stage->pass_count - 1, passes = hr_stage_main_passes(s->stage);
    bool long_before = false;
    if (pass == s->stage->fallback_pass && pass) return 0;
    for (int other = 0; other < last; other++)
        long_before = long_before || pass_computes_special(s, other);
    if (pass == last)
        return hr_cpu_walk_sums_apart(hr_cpu_walk_of(s->stage)) ? 4 : !long_before ? 6 : passes == 2 ? 4 : 3;
    if (pass < last && pass_computes_special(s, pass)) return 4;
    return passes == 2 ? 2 : 1;
}

static void share_prefetch(const hr_stage_printer *s, int pass, hr_lane_pass *lanes) {
    lanes->prefetch_part = prefetch_part(s, pass);
    lanes->prefetch_before = lanes->prefetch_of = 0;
    for (int other = 0; other < s->stage->pass_count + hr_cpu_walk_sums_apart(hr_cpu_walk_of(s->stage));
         other++) {
        int part = prefetch_part(s, other);
        lanes->prefetch_of += part;
        if (other < pass) lanes->prefetch_before += part;
    }
}

static bool is_narrow_or_summed(const hr_stage_printer *s, const hr_lane_pass *lanes) {
    if (hr_stage_has(s->stage, HR_STEP_REDUCE_COLUMN)) return true;
    for (int i = 0; i < lanes->prefetch_count; i++)
        if (hr_dtype_size(s->function->tensors[lanes->prefetched[i]->tensor].dtype) < 4) return true;
    return false;
}

/* Beside other rows, what was prefetched into the second-level cache is prefetched again so many bytes before
 * it is used; so it is where cores are long busy with results, in one pass, too. Whole f32 lines go by so
 * fast that on some machines it costs more than it gains: only where the tuner does not choose how far ahead.
 */
static int near_bytes(const hr_stage_printer *s, const hr_lane_pass *lanes) {
    if (!hr_stage_goes_by(s, HR_LOOP_PIPELINE) &&
        !(hr_limits_stores_wait(&s->plan->limits) && hr_stage_main_passes(s->stage) == 1))
        return 0;
    if (is_narrow_or_summed(s, lanes)) return NEAR_BYTES;
    return hr_stage_knobs(s->stage)->prefetch ? 0 : NEAR_BYTES_F32;
}

/* The next row or, of short ones, that after ROWS_AHEAD bytes: with less on its way a core waits for memory
 * that others use, too. Elements. */
static const char *next_row_place(const hr_stage_printer *s, const hr_lane_pass *lanes, const char *row) {
    if (strcmp(lanes->prefetch, "prefetch_near") == 0) return row;
    int size = (int)hr_dtype_size(s->function->tensors[lanes->prefetched[0]->tensor].dtype);
    return hr_format(s->p, "rows_ahead(%s, %d) * (%s)", row, ROWS_AHEAD / size, row);
}

/* Printed once a task, or before all short ones: a division takes as long as many vectors. */
static const char *print_ahead(hr_stage_printer *s, int pass, const char *elements) {
    const char *name = hr_format(s->p, "ahead_%d", pass);
    const char *line = hr_format(s->p, "const int64_t %s = %s;", name, elements);
    if (hr_stage_goes_by(s, HR_LOOP_JAM) && s->ahead_count < HR_STEPS_MAX)
        s->ahead[s->ahead_count++] = line;
    else
        hr_print(s->p, "%s", line);
    return name;
}

/* Of the row that begins at `first`: the lane's own place or, in a pass that asks for a part of it, the
 * part's. Jammed rows are prefetched at once, before their few vectors. */
static void place_ahead(hr_stage_printer *s, int pass, hr_lane_pass *lanes, const char *first,
                        const char *row) {
    hr_printer *p = s->p;
    const int part = lanes->prefetch_part, of = lanes->prefetch_of;
    if (of) first = hr_format(p, "%s + %d * (%s) / %d", first, lanes->prefetch_before, row, of);
    const char *begin = print_ahead(s, pass, first);
    lanes->prefetch_first = hr_stage_goes_by(s, HR_LOOP_JAM);
    lanes->prefetch_place = hr_stage_goes_by(s, HR_LOOP_JAM) ? begin
                            : !of                            ? hr_format(p, "%s + i", begin)
                            : of == 8                        ? hr_format(p, "%s + (%d * i >> 3)", begin, part)
                                      : hr_format(p, "%s + %d * i / %d", begin, part, of);
}

/* Not so a map of what is one a column. */
static bool goes_through_tasks(const hr_stage *head, const hr_stage *stage) {
    return hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || stage->task_count >= head->row_count;
}

/* Of stages that go through strips together the first reads what memory has, as always, and the last that
 * goes through all tasks asks for the next strip; those between find all in cache. */
static void prefetch_strip(const hr_stage_printer *s, hr_lane_pass *lanes) {
    const hr_run run = hr_schedule_run(s->plan, s->number);
    const hr_stage *head = &s->plan->stages[run.first];
    int last = run.last;
    while (!goes_through_tasks(head, &s->plan->stages[last]))
        last--;
    if (s->number == last && last > run.first)
        lanes->prefetch_place = hr_format(s->p, "%" PRId64 " + i", hr_cpu_walk_of(head)->strip);
    else if (s->number != run.first)
        lanes->prefetch_count = 0;
}

/* The tunable, or what it stands for where it is not set. */
static int choice_of(const hr_stage_printer *s, bool ahead) {
    const int asked = hr_stage_knobs(s->stage)->prefetch;
    if (asked) return asked;
    if (hr_stage_goes_by(s, HR_LOOP_PIPELINE) && !hr_limits_stores_wait(&s->plan->limits))
        return HR_PREFETCH_16K;
    return ahead || hr_stage_is_bound_by_operations(s->plan, s->stage) ? HR_PREFETCH_4K : HR_PREFETCH_8K;
}

static bool asks(const hr_stage_printer *s, int pass, int choice, bool ahead) {
    if (choice == HR_PREFETCH_OFF || hr_stage_goes_by(s, HR_LOOP_BLOCK) || !s->p->vector) return false;
    if (pass && pass == s->stage->fallback_pass) return false;
    return ahead || choice >= HR_PREFETCH_8K || pass >= s->stage->pass_count - 1;
}

/* In a stage of one pass, or of passes side by side: so many bytes ahead, or where the tasks after this one
 * lie. */
static void ask_ahead(hr_stage_printer *s, hr_lane_pass *lanes, int choice) {
    hr_printer *p = s->p;
    const hr_cpu_walk *walk = hr_cpu_walk_of(s->stage);
    const bool asked = hr_stage_knobs(s->stage)->prefetch;
    const char *row = hr_stage_row_size(p, s->stage);
    if (hr_cpu_walk_sums_apart(hr_cpu_walk_of(s->stage))) {
        lanes->prefetch_place =
            hr_format(p, "%d * %s + i", HR_COLUMN_GROUP, walk->strip ? hr_emit_index_size(p, p->lane) : row);
    } else if (hr_stage_goes_by(s, HR_LOOP_PIPELINE) &&
               walk->jam > 1) { /* the same place of the row that comes after this one */
        lanes->prefetch_place = hr_format(p, "%d * (%s) + i", walk->jam, row);
    } else if (!asked && hr_stage_has_only(s->stage, HR_STEP_REDUCE_COLUMN)) {
        lanes->prefetch = "prefetch_near";
        lanes->prefetch_bytes = COLUMN_BYTES;
    } else {
        bool many = !asked && !hr_stage_goes_by(s, HR_LOOP_PIPELINE) && lanes->prefetch_count > MANY_STREAMS;
        lanes->prefetch_bytes = 1024 << (choice - 1 - many);
    }
}

/* In one of several passes, one after the other: the next row. */
static void ask_next_row(hr_stage_printer *s, int pass, hr_lane_pass *lanes, int choice) {
    const char *row = hr_stage_row_size(s->p, s->stage);
    if (choice < HR_PREFETCH_8K) {
        place_ahead(s, pass, lanes, next_row_place(s, lanes, row), row);
        return;
    }
    const char *first = hr_cpu_walk_sums_apart(hr_cpu_walk_of(s->stage))
                            ? hr_format(s->p, "%d * (%s)", HR_COLUMN_GROUP, row)
                            : next_row_place(s, lanes, row);
    share_prefetch(s, pass, lanes);
    place_ahead(s, pass, lanes, first, row);
}

/* How far ahead the tunable `prefetch` asks. In a stage of one pass, or of passes side by side: 2 to 16 KB.
 * In one of several passes, one after the other, the next row: 2 KB is in the last pass, into the first-level
 * cache, 4 KB into the second, 8 and 16 KB over all passes, most of it in the last. Unset: choice_of; a stage
 * of one pass with more than two streams asks half as far. Groups of rows ask for the next group. Unset, rows
 * that column sums alone read one by one are asked for COLUMN_BYTES ahead into the first-level cache, and
 * gathered rows, too, by cores that see far and whose stores do not wait: lines that miss there make the
 * hardware read on past the ends of rows that nothing follows. */
void hr_stage_prefetch(hr_stage_printer *s, int pass, hr_lane_pass *lanes, const hr_expr **prefetched) {
    const hr_device_limits *limits = &s->plan->limits;
    const bool ahead = hr_stage_main_passes(s->stage) == 1 || hr_stage_goes_by(s, HR_LOOP_PIPELINE);
    const int choice = choice_of(s, ahead);
    if (!asks(s, pass, choice, ahead)) return;
    find_pass_streams(s, pass, lanes, prefetched);
    if (lanes->prefetch_count == 0) return;
    const bool near =
        !hr_stage_knobs(s->stage)->prefetch && hr_limits_see_far(limits) && !hr_limits_stores_wait(limits);
    lanes->prefetch = !ahead && choice == HR_PREFETCH_2K ? "prefetch_near" : "prefetch_read";
    lanes->prefetch_gathered = near ? "prefetch_near" : "prefetch_read";
    lanes->prefetch_near = near_bytes(s, lanes);
    if (ahead)
        ask_ahead(s, lanes, choice);
    else
        ask_next_row(s, pass, lanes, choice);
    if (hr_stage_goes_by(s, HR_LOOP_JOINED)) prefetch_strip(s, lanes);
}
