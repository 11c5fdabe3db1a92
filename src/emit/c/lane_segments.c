/* Runs of lanes whose values change their form. In: segments. Out: text. See lane_segments.h. */
#include "emit/c/lane_segments.h"

#include "emit/c/lane_sums.h"

#include <string.h>

static int value_count(const hr_segments *segments) {
    return segments->run / HR_SEGMENT * segments->count;
}

bool hr_segmented_begin(hr_printer *p, const hr_segments *segments, hr_segmented *out) {
    const hr_stage *whole = p->stage;
    hr_stage *stage = hr_arena_alloc(p->arena, sizeof *stage);
    *stage = *whole;
    stage->row = hr_arena_alloc(p->arena, (size_t)(whole->row_count + 1) * sizeof *stage->row);
    memcpy(stage->row, whole->row, (size_t)whole->row_count * sizeof *stage->row);
    if (segments->group >= 0) stage->row[stage->row_count++ - 1] = segments->group;
    stage->row[stage->row_count - 1] = segments->lane;
    *out = (hr_segmented){.segments = segments};
    out->runs = stage->row_count > 1 ? stage->row[stage->row_count - 2] : -1;
    if (!hr_printer_beside(p, stage, &out->printer)) return false;
    for (int i = 0; i < value_count(segments); i++)
        hr_expr_prepare(&out->printer, segments->value[i], HR_AT_TASK);
    hr_printer_switch_to(p, &out->printer);
    return true;
}

void hr_segmented_end(hr_segmented *s) {
    hr_printer_end(&s->printer);
}

/* ---- what a run reads ---- */

/* By how much a subscript grows from run to run, at least. */
static int64_t growth_of(const hr_expr *subscript, int runs) {
    if (subscript->op == HR_OP_INDEX) return subscript->index == runs;
    if (subscript->op == HR_OP_ADD || subscript->op == HR_OP_SUB)
        return growth_of(subscript->args[0], runs) + growth_of(subscript->args[1], runs);
    if (subscript->arg_count != 2 || subscript->args[1]->op != HR_OP_NUMBER || subscript->args[1]->whole < 1)
        return 0;
    const int64_t of = growth_of(subscript->args[0], runs), number = subscript->args[1]->whole;
    return subscript->op == HR_OP_MUL ? of * number : subscript->op == HR_OP_FLOORDIV ? of / number : 0;
}

/* It is another row's for other tasks: what all of them read is in the caches. */
static hr_visit is_in_row(const hr_expr *node, const void *context) {
    const hr_segmented *s = context;
    return hr_visit_until(node->op == HR_OP_INDEX && node->index != s->runs &&
                          node->index != s->segments->lane);
}

static bool stands_in_row(const hr_segmented *s, const hr_expr *element) {
    return hr_expr_find(element, is_in_row, s);
}

/* Prefetches what lies as many runs ahead as `ahead` elements are, of each element that is read along the
 * run.
 */
typedef struct prefetching {
    hr_segmented *s;
    const char *ahead;
} prefetching;

static hr_visit is_of_lanes(void *context, const hr_expr *node) {
    return hr_expr_level(&((const prefetching *)context)->s->printer, node) == HR_AT_LANE ? HR_VISIT_ON
                                                                                          : HR_VISIT_PAST;
}

static void prefetch_run(void *context, const hr_expr *node) {
    const prefetching *asked = context;
    hr_segmented *s = asked->s;
    hr_printer *p = &s->printer;
    if (node->op != HR_OP_ELEMENT || !stands_in_row(s, node)) return;
    const hr_tensor *tensor = &p->function->tensors[node->tensor];
    int axis = 0;
    while (axis < tensor->rank && !growth_of(node->args[axis], s->runs))
        axis++;
    if (axis == tensor->rank) return;
    const char *grows = hr_format(p, "%lld", (long long)growth_of(node->args[axis], s->runs));
    while (++axis < tensor->rank)
        grows = hr_format(p, "%s * %s", grows, hr_emit_size(p, tensor->shape[axis]));
    hr_print(p, "prefetch_read(%s + %s + %s / %d * %s);", hr_emit_tensor(p, node->tensor),
             hr_emit_offset(p, node->tensor, node->args, tensor->rank), asked->ahead, s->segments->run,
             grows);
}

static void print_prefetched(hr_segmented *s, const char *ahead) {
    hr_printer *p = &s->printer;
    hr_print(p, "{");
    p->indent++;
    hr_print(p, "const int64_t i = 0;");
    p->vector = false;
    hr_printer_forget(p, HR_AT_LANE);
    prefetching asked = {s, ahead};
    hr_walk walk = {.enter = is_of_lanes, .leave = prefetch_run, .context = &asked};
    for (int i = 0; i < s->segments->count; i++)
        hr_walk_through(&walk, s->segments->value[i]);
    hr_printer_walked(p, &walk);
    p->vector = true;
    p->indent--;
    hr_print(p, "}");
}

hr_printer *hr_segmented_run(hr_printer *p, hr_segmented *s, const char *at, const char *ahead) {
    hr_printer *q = hr_printer_switch_to(&s->printer, p);
    hr_printer_forget(q, HR_AT_OUTER);
    if (s->segments->group >= 0)
        hr_print(q, "const int64_t %s = %s / %d;", hr_emit_index(q, s->segments->group), at,
                 s->segments->run);
    for (int i = 0; i < value_count(s->segments); i++) {
        hr_expr_prepare(q, s->segments->value[i], HR_AT_TASK);
        hr_expr_prepare(q, s->segments->value[i], HR_AT_OUTER);
    }
    if (s->runs >= 0) print_prefetched(s, ahead);
    return q;
}

void hr_segmented_open(hr_segmented *s) {
    hr_printer *p = &s->printer;
    hr_text_format(p->out, "#pragma GCC unroll %d\n", HR_SEGMENT / 4);
    hr_print(p, "for (int64_t i = 0; i < %d; i += HR_LANES) {", HR_SEGMENT);
    p->indent++;
}

void hr_lane_runs(hr_printer *p, const hr_lane_pass *pass, hr_segmented *s, const char *last) {
    enum { LANES_AHEAD = 1024 };
    const hr_segments *segments = s->segments;
    const int run = segments->run;
    hr_print(p, "for (; i %% %d == 0 && i + %d <= %s; i += %d) {", run, run, last, run);
    p->indent++;
    hr_printer *q = hr_segmented_run(p, s, "i", hr_format(p, "%d", LANES_AHEAD));
    for (int i = 0; i < run / HR_SEGMENT; i++) {
        hr_expr *const *values = segments->value + i * segments->count;
        hr_segmented_open(s);
        hr_printer_forget(q, HR_AT_LANE);
        for (int step = 0; step < pass->step_count; step++)
            hr_expr_count_uses(q, values[step]);
        q->way = hr_format(q, "%d", i % pass->ways);
        for (int step = 0; step < pass->step_count; step++)
            hr_lane_add(q, &pass->steps[step], hr_expr_lanes(q, values[step]));
        q->indent--;
        hr_print(q, "}");
    }
    hr_printer_switch_to(p, q)->indent--;
    hr_print(p, "}");
}
