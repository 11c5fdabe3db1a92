/* The loops of one pass over a row. In: steps. Out: text. See lane_loop.h. */
#include "emit/c/lane_loop.h"

#include "base/dtype.h"
#include "emit/c/lane_block.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_gather.h"
#include "emit/c/lane_match.h"
#include "emit/c/lane_segments.h"
#include "emit/c/lane_store.h"
#include "emit/c/lane_sums.h"
#include "emit/c/stage_area.h"

#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* ---- the body ---- */

/* Where row-long buffers of this stage stand for the current outer indices: "base + (outer) * n". */
static const char *row_place(hr_printer *p, const char *base) {
    const char *flat = hr_emit_outer(p);
    return flat ? hr_format(p, "%s + (%s) * %s", base, flat, hr_emit_index_size(p, p->lane)) : base;
}

/* A value that later passes reuse gets a name here: one line computes it, one keeps it. */
static void print_stash(hr_printer *p, const hr_lane_pass *pass) {
    for (int k = 0; k < pass->stash_count; k++) {
        const hr_expr *stash = pass->stash[k];
        if (pass->stash_done[k] || !p->uses[stash->id] || p->buffer[stash->id]) continue;
        if (stash == p->given && p->given_stashed) continue;
        p->uses[stash->id]++;
        hr_print(p, "vf_store_%s(k%d + i, %s);", hr_expr_is_words(stash) ? "bf16" : "f32", k,
                 hr_expr_lanes(p, stash));
    }
}

void hr_lane_prefetches(hr_printer *p, const hr_lane_pass *pass, int vectors) {
    const int lanes = hr_limits_lanes(&p->plan->limits);
    if (pass->prefetch_first) return; /* all was asked for before the loop */
    for (int i = 0; i < pass->prefetch_count; i++) {
        const hr_expr *element = pass->prefetched[i];
        int size = (int)hr_dtype_size(p->function->tensors[element->tensor].dtype);
        int bytes = vectors * lanes * size;
        const char *from = pass->prefetch_from ? pass->prefetch_from[i] : NULL, *place = "i";
        if (!from && !p->pointer[element->id]) continue;
        if (!from && pass->prefetch_of) bytes = bytes * pass->prefetch_part / pass->prefetch_of;
        if (!from)
            place = pass->prefetch_place ? pass->prefetch_place
                                         : hr_format(p, "i + %d", pass->prefetch_bytes / size);
        for (int line = 0; line < bytes; line += LINE) {
            hr_print(p, line ? "%s(%s + %s + %d);" : "%s(%s + %s);",
                     from ? pass->prefetch_gathered : pass->prefetch, from ? from : p->pointer[element->id],
                     place, line / size);
            if (!from && pass->prefetch_near)
                hr_print(p, "prefetch_near(%s + i + %d);", p->pointer[element->id],
                         (pass->prefetch_near + line) / size);
        }
    }
}

/* A line at a time, where vectors would ask for most lines twice. */
static void print_prefetches_first(hr_printer *p, const hr_lane_pass *pass) {
    const char *last = pass->last;
    if (pass->prefetch_of) last = hr_format(p, "%s * %d / %d", last, pass->prefetch_part, pass->prefetch_of);
    for (int i = 0; i < pass->prefetch_count; i++) {
        const hr_expr *element = pass->prefetched[i];
        const int size = (int)hr_dtype_size(p->function->tensors[element->tensor].dtype);
        if (!p->pointer[element->id]) continue;
        hr_print(p, "for (int64_t i = 0; i < %s; i += %d)", last, LINE / size);
        hr_print(p, "    %s(%s + %s + i);", pass->prefetch, p->pointer[element->id], pass->prefetch_place);
    }
}

/* The value of a step, under a name where all values are read before the first is stored. */
static const char *step_value(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *value = p->vector ? hr_expr_lanes(p, s->value) : hr_expr_text(p, s->value);
    const bool reduces = s->use == HR_LANE_REDUCE;
    if (p->vector && s->type == HR_BOOL && reduces) value = hr_format(p, "vi_from_vm(%s)", value);
    if (s->use == HR_LANE_KEEP || (!hr_op_finds_position(s->reduce) && pass->step_count == 1)) return value;
    const hr_dtype type = s->value->type;
    hr_print(p, "const %s e%d = %s;",
             p->vector ? hr_lane_prefix(reduces ? hr_lane_reduced(type) : type) : hr_c_compute(type), s->id,
             value);
    return hr_format(p, "e%d", s->id);
}

static void print_body(hr_printer *p, const hr_lane_pass *pass, bool in_ways) {
    const char *values[256];
    hr_printer_forget(p, HR_AT_LANE);
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_count_uses(p, pass->steps[i].value);
    if (!in_ways) hr_lane_prefetches(p, pass, 1);
    print_stash(p, pass);
    for (int i = 0; i < pass->step_count; i++)
        if (!in_ways || !hr_lane_is_move(p, pass, &pass->steps[i]))
            values[i] = step_value(p, pass, &pass->steps[i]);
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (in_ways && hr_lane_is_move(p, pass, s)) continue;
        if (in_ways && hr_lane_is_paired(p, pass, s))
            hr_print(p, "w%d[way%s] = %s;", s->id, pass->unit < pass->ways ? " - from" : "",
                     hr_emit_stored(p, values[i], s->value->type, HR_BF16));
        else if (s->use == HR_LANE_STORE)
            hr_lane_print_store(p, s, values[i]);
        hr_lane_add(p, s, values[i]);
    }
}

/* ---- the loops ---- */

/* At most a vector of lanes. */
static void print_part(hr_printer *p, const hr_lane_pass *pass, const char *condition, const char *count) {
    hr_print(p, "%s {", condition);
    p->indent++;
    hr_print(p, "const int lanes = %s;", count);
    p->part = true;
    p->way = "0";
    print_body(p, pass, false);
    p->part = false;
    p->indent--;
}

const hr_lane_step *hr_lane_first_stream(const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].use == HR_LANE_STORE && pass->steps[i].stream) return &pass->steps[i];
    return NULL;
}

/* A streamed element's bytes, and how many vectors leave as one: those of a cache line, where a step has as
 * many. */
static const char *stream_sizes(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s, bool paired) {
    int size = (int)hr_dtype_size(p->function->tensors[s->tensor].dtype);
    int vectors = LINE / (hr_limits_lanes(&p->plan->limits) * size);
    return hr_format(p, "%d, %d", size, pass->ways > 1 && vectors > 1 + paired ? vectors : 1 + paired);
}

static const char *step_sizes(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return stream_sizes(p, pass, s, hr_lane_is_paired(p, pass, s));
}

/* Those of the first step that streams, which the others follow. */
static const char *first_sizes(hr_printer *p, const hr_lane_pass *pass) {
    return stream_sizes(p, pass, hr_lane_first_stream(pass), hr_lane_has_pairs(p, pass));
}

/* `last`: of a block, else NULL. */
static void print_alignments(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_STORE || !s->stream || s->id == p->begun) continue;
        if (last)
            hr_print(p, "const bool aligned_%d = %s && stream_lines(q%d + i, (%s - i) * %d);", s->id,
                     pass->block, s->id, last, (int)hr_dtype_size(p->function->tensors[s->tensor].dtype));
        else
            hr_print(p, "const bool aligned_%d = %s%sstream_aligned(q%d + i, %s);", s->id,
                     pass->aligned ? pass->aligned : "", pass->aligned ? " || " : "", s->id,
                     step_sizes(p, pass, s));
    }
}

static const char *stream_head(hr_printer *p, const hr_lane_pass *pass, const char *lane) {
    return hr_format(p, "stream_head(q%d%s, %s)", hr_lane_first_stream(pass)->id, lane, first_sizes(p, pass));
}

/* Beside other rows lanes keep their order, so that sums come out the same: unaligned vectors leave as they
 * are. */
static bool goes_by_head(const hr_lane_pass *pass) {
    return hr_lane_first_stream(pass) && !pass->block && (!pass->state || pass->whole);
}

/* The lines in which a row's results end, once a row. */
static void ask_for_ends(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_STORE || !s->stream || s == pass->meeting) continue;
        hr_print(p, "%sstream_ask_end(q%d + %s, %s);", pass->whole ? "if (!first) " : "", s->id,
                 hr_emit_index_size(p, p->lane), step_sizes(p, pass, s));
    }
}

/* Where streamed results begin to be aligned, those of the first of them: the others are as aligned as it, or
 * leave by ordinary stores. */
static void print_begin(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    const hr_lane_step *first = hr_lane_first_stream(pass);
    if (!goes_by_head(pass)) return;
    hr_print(p, "const int64_t begin = stream_begin(q%d, %s, i, %s);", first->id, first_sizes(p, pass), last);
    p->begun = first->id;
    if (pass->meeting)
        hr_print(p, "const bool joins = (uintptr_t)q%d %% %d == 0;", pass->meeting->id,
                 (int)hr_dtype_size(p->function->tensors[pass->meeting->tensor].dtype));
    if (!p->flat && p->stage->task_count) ask_for_ends(p, pass);
}

/* The lanes before. */
static void print_head(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    if (!hr_lane_first_stream(pass)) return;
    if (goes_by_head(pass)) {
        hr_lane_end_begin(p, pass);
        print_part(p, pass, "while (i < begin)", "begin - i < HR_LANES ? (int)(begin - i) : HR_LANES");
        hr_print(p, "    i += lanes;");
        hr_print(p, "}");
        hr_lane_end_leave(p, pass);
    }
    print_alignments(p, pass, pass->block ? last : NULL);
}

typedef struct pass_of {
    hr_printer *p;
    const hr_lane_pass *pass;
} pass_of;

static hr_visit is_read(const hr_expr *node, const void *context) {
    const pass_of *of = context;
    if (hr_expr_level(of->p, node) != HR_AT_LANE) return HR_VISIT_PAST;
    for (int k = 0; k < of->pass->stash_count; k++)
        if (of->pass->stash[k] == node) return HR_VISIT_PAST;
    return hr_visit_until(node->op == HR_OP_ELEMENT);
}

/* Beside other rows, results of rows of 4 KB and more go some lines ahead of what is read, unless that goes
 * ahead of them: where rows are a multiple of 4 KB long, each load would otherwise wait for the store just
 * before it to the same place of another page. */
static const char *stream_shift(hr_printer *p, const hr_lane_pass *pass) {
    enum { PAGE_BYTES = 4096, BYTES_AHEAD = 256 };
    int size = (int)hr_dtype_size(p->function->tensors[hr_lane_first_stream(pass)->tensor].dtype);
    const char *head = stream_head(p, pass, "");
    bool first = hr_stage_shares_stash(p->stage);
    for (int i = 0; i < pass->step_count; i++)
        first = first || hr_expr_find(pass->steps[i].value, is_read, &(pass_of){p, pass});
    if (!first || hr_cpu_walk_of(p->stage)->pipeline.direction == HR_REVERSED) return head;
    return hr_format(p, "%s + (%s < %d ? 0 : %d)", head, pass->whole, PAGE_BYTES / size / pass->group,
                     BYTES_AHEAD / size);
}

/* Parts of a row whose results are streamed begin at its aligned vectors. */
static void print_shifted(hr_printer *p, const hr_lane_pass *pass, const char **first, const char **last) {
    if (!pass->whole || !hr_lane_first_stream(pass)) return;
    hr_print(p, "const int64_t shift = %s;", stream_shift(p, pass));
    hr_print(p, "const int64_t start = %s ? %s + shift : 0, stop = %s + shift < %s ? %s + shift : %s;",
             *first, *first, *last, pass->whole, *last, pass->whole);
    *first = "start";
    *last = "stop";
}

/* For each vector of a step, or of the part of one that `unit` is. */
static void begin_way_loop(hr_printer *p, const hr_lane_pass *pass) {
    int unit = pass->unit;
    hr_text_format(p->out, "#pragma GCC unroll %d\n", unit);
    if (unit < pass->ways)
        hr_print(p, "for (int way = from; way < from + %d; way++, i += HR_LANES) {", unit);
    else
        hr_print(p, "for (int way = 0; way < %d; way++, i += HR_LANES) {", unit);
    p->indent++;
    p->way = "way";
}

static void end_way_loop(hr_printer *p) {
    p->indent--;
    hr_print(p, "}");
}

/* The functions of the body that are done for several vectors side by side; counts them. */
typedef struct calls {
    hr_printer *p;
    int count;
    const hr_expr *last;
} calls;

static hr_visit count_calls(void *context, const hr_expr *node) {
    calls *found = context;
    hr_ways_call call;
    if (found->p->buffer[node->id] || hr_expr_level(found->p, node) != HR_AT_LANE) return HR_VISIT_PAST;
    if (hr_expr_in_ways(found->p, node, &call)) {
        found->last = node;
        found->count++;
    }
    return HR_VISIT_ON;
}

enum { WAYS_MOST = 8 }; /* as in the prelude */

/* The one such function of a step; NULL where there is none or are more. */
static const hr_expr *called_node(hr_printer *p, const hr_lane_pass *pass) {
    calls found = {.p = p};
    hr_walk walk = {.enter = count_calls, .context = &found};
    for (int i = 0; i < pass->step_count; i++)
        if (!hr_lane_is_move(p, pass, &pass->steps[i])) hr_walk_through(&walk, pass->steps[i].value);
    hr_printer_walked(p, &walk);
    return found.count == 1 && pass->unit >= 2 && pass->unit <= WAYS_MOST ? found.last : NULL;
}

/* Before all else: it is then there as x[way]. */
static bool print_call(hr_printer *p, const hr_lane_pass *pass) {
    const hr_expr *node = called_node(p, pass);
    hr_ways_call call;
    if (!node || p->given) return false;
    hr_expr_in_ways(p, node, &call);
    const char *place = hr_format(p, "x%d[way%s]", node->id, pass->unit < pass->ways ? " - from" : "");
    hr_print(p, "vf x%d[%d];", node->id, pass->unit);
    bool pairs = p->pairs;
    p->pairs = pass->ways % 2 == 0; /* nothing is stored between them here */
    begin_way_loop(p, pass);
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, call.argument);
    hr_print(p, "%s = %s;", place, hr_expr_lanes(p, call.argument));
    end_way_loop(p);
    p->pairs = pairs;
    hr_print(p, "i -= %d * HR_LANES;", pass->unit);
    hr_print(p, "vf_%s_ways(x%d, %d%s);", call.name, node->id, pass->unit,
             call.peak ? hr_format(p, ", %s", hr_expr_text(p, call.peak)) : "");
    p->given = node;
    p->given_text = place;
    return true;
}

static void print_way_loop(hr_printer *p, const hr_lane_pass *pass) {
    bool called = print_call(p, pass);
    begin_way_loop(p, pass);
    print_body(p, pass, true);
    end_way_loop(p);
    if (called) p->given = NULL;
}

static void print_ways(hr_printer *p, const hr_lane_pass *pass) {
    hr_lane_near_and_far(p, pass, pass->unit, print_way_loop);
}

static void print_vector(hr_printer *p, const hr_lane_pass *pass) {
    p->way = "0";
    print_body(p, pass, false);
}

/* First what leaves as words, then all that needs what the words say. */
static void print_rounded(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *rounded,
                          const hr_expr *rounding) {
    hr_lane_step others[HR_EVEN_ODD_MAX];
    hr_lane_pass first = *pass, rest = *pass;
    const char *words = "";
    first.steps = rounded;
    first.step_count = 1;
    print_ways(p, &first);
    const char *kinds = hr_lane_rounded_kinds(p, rounded);
    for (int way = 0; way < pass->unit; way += 2)
        words = hr_format(p, "%s%svu_turns_bf16(w%d[%d], w%d[%d], %s)", words, way ? ", " : "", rounded->id,
                          way, rounded->id, way + 1, kinds);
    hr_print(p, "const vu b%d[%d] = {%s};", rounded->id, pass->unit / 2, words);
    hr_print(p, "i -= %d * HR_LANES;", pass->unit);
    rest.steps = others;
    rest.step_count = 0;
    for (int i = 0; i < pass->step_count && rest.step_count < HR_EVEN_ODD_MAX; i++)
        if (&pass->steps[i] != rounded) others[rest.step_count++] = pass->steps[i];
    p->given = rounding;
    p->given_text = hr_format(p, "vf_turn_bf16(b%d[%s / 2], way)", rounded->id,
                              pass->unit < pass->ways ? "(way - from)" : "way");
    p->given_stashed = true;
    print_ways(p, &rest);
    p->given = NULL;
    p->given_stashed = false;
}

/* A step of several vectors, or the part of one that `unit` is. */
static void print_step(hr_printer *p, const hr_lane_pass *pass) {
    if (pass->ways == 1) {
        print_vector(p, pass);
        return;
    }
    hr_lane_prefetches(p, pass, pass->unit);
    if (hr_lane_is_all_moves(p, pass)) {
        hr_print(p, "i += %d * HR_LANES;", pass->unit);
        hr_lane_print_pairs(p, pass, NULL);
        return;
    }
    for (int i = 0; i < pass->step_count; i++)
        if (hr_lane_is_paired(p, pass, &pass->steps[i]) && !hr_lane_is_move(p, pass, &pass->steps[i]))
            hr_print(p, "vf w%d[%d];", pass->steps[i].id, pass->unit);
    const hr_expr *rounding = NULL;
    const hr_lane_step *rounded = hr_lane_rounded(p, pass, &rounding);
    p->even_odd = hr_lane_is_even_odd(p, pass, rounding);
    p->pairs = pass->ways % 2 == 0 && !hr_lane_stores_between(p, pass);
    if (!p->even_odd) rounded = NULL;
    if (rounded)
        print_rounded(p, pass, rounded, rounding);
    else
        print_ways(p, pass);
    for (int i = 0; i < pass->step_count && p->even_odd; i++)
        if (pass->steps[i].use == HR_LANE_COLUMN) p->even_odd_ways[pass->steps[i].id] = pass->ways;
    hr_lane_print_pairs(p, pass, rounded);
    p->even_odd = p->pairs = false;
}

/* The function that is done for several vectors at a time, for all vectors of a block before all else: it is
 * then there as made[vector]. */
static void print_made(hr_printer *p, const hr_lane_pass *pass, int steps) {
    const hr_expr *node = called_node(p, pass);
    hr_print(p, "vf made_%d[%d];", node->id, steps * pass->ways);
    hr_print(p, "do {");
    p->indent++;
    hr_lane_prefetches(p, pass, pass->unit);
    p->even_odd = hr_lane_is_even_odd(p, pass, NULL);
    print_call(p, pass);
    p->even_odd = false;
    hr_text_format(p->out, "#pragma GCC unroll %d\n", pass->ways);
    hr_print(p, "for (int way = 0; way < %d; way++, i += HR_LANES)", pass->ways);
    hr_print(p, "    made_%d[(i - block) / HR_LANES] = x%d[way];", node->id, node->id);
    p->indent--;
    hr_print(p, "} while (i < until);");
    hr_print(p, "i = block;");
    p->given = node;
    p->given_text = hr_format(p, "made_%d[(i - block) / HR_LANES]", node->id);
}

/* Wide results are as long in memory as such a loop is in the core. */
static bool can_be_made(hr_printer *p, const hr_lane_pass *pass) {
    const hr_expr *rounding = NULL;
    return p->narrow && !p->given && !hr_lane_rounded(p, pass, &rounding) && called_node(p, pass);
}

static void print_block(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    enum { STEPS_MADE = 8, STEPS_LATE = 4 };
    const bool made = can_be_made(p, pass);
    const int steps = made ? STEPS_MADE : STEPS_LATE;
    hr_lane_pass rest = *pass;
    rest.steps = hr_lane_begin_block(p, pass, last, steps);
    if (made) {
        print_made(p, pass, steps);
        rest.prefetch_count = 0;
    }
    hr_print(p, "do {");
    p->indent++;
    print_step(p, &rest);
    p->indent--;
    hr_print(p, "} while (i < until);");
    if (made) p->given = NULL;
    hr_lane_end_block(p, &rest);
}

static void print_steps_loop(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    hr_print(p, "for (; i + %d * HR_LANES <= %s;) {", pass->ways, last);
    p->indent++;
    if (hr_lane_has_late(p, pass))
        print_block(p, pass, last);
    else
        print_step(p, pass);
    p->indent--;
    hr_print(p, "}");
}

/* Rows of a map: mostly whole steps, whose results all begin where memory is aligned. */
static bool can_be_whole(const hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].use != HR_LANE_STORE) return false;
    return p->vector && !pass->state && p->stage->shape == HR_SHAPE_MAP &&
           (p->stage->task_count > 0 || p->flat || pass->tile);
}

/* " && ..." for each step that streams: its results are aligned from `lane` on, NULL: from the array's
 * beginning on. */
static const char *all_aligned(hr_printer *p, const hr_lane_pass *pass, const char *lane) {
    const char *all = "";
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (!s->stream) continue;
        const char *place = lane ? hr_format(p, "q%d + %s", s->id, lane) : hr_emit_tensor(p, s->tensor);
        const char *condition = hr_format(p, " && stream_aligned(%s, %s)", place, step_sizes(p, pass, s));
        if (!strstr(all, condition)) all = hr_format(p, "%s%s", all, condition);
    }
    return all;
}

static void print_whole_flag(hr_printer *p, const hr_lane_pass *pass) {
    hr_print(p, "const bool whole = %s %% (%d * HR_LANES) == 0%s;", hr_emit_lane_count(p), pass->ways,
             all_aligned(p, pass, NULL));
}

/* Nothing but whole steps. */
static void print_whole(hr_printer *p, const hr_lane_pass *pass, const char *first, const char *last) {
    hr_print(p, "for (int64_t i = %s; i < %s;%s) {", first, last, pass->ways > 1 ? "" : " i += HR_LANES");
    p->indent++;
    p->whole = true;
    p->part = false;
    if (hr_lane_has_late(p, pass))
        print_block(p, pass, last);
    else if (pass->ways > 1)
        print_step(p, pass);
    else
        hr_lane_near_and_far(p, pass, 1, print_vector);
    p->whole = false;
    p->indent--;
    hr_print(p, "}");
}

/* As far as its steps and those of the pass that stashed the value go, and results are aligned from the first
 * on. What is left is put in order. */
static void print_even_odd(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    hr_print(p, "const int64_t turned = %s / (%d * HR_LANES) * (%d * HR_LANES);", last,
             p->stash_even_odd_ways, p->stash_even_odd_ways);
    if (hr_lane_is_even_odd(p, pass, NULL)) {
        hr_print(p, "for (; %si + %d * HR_LANES <= turned;) {",
                 hr_lane_first_stream(pass) ? "begin <= i && " : "", pass->ways);
        p->indent++;
        print_step(p, pass);
        p->indent--;
        hr_print(p, "}");
    }
    hr_print(p, "turns_undone(k0, i, turned);");
    p->stash_even_odd = NULL;
}

/* Vectors after the last whole step. */
static void print_leftover(hr_printer *p, const hr_lane_pass *pass) {
    p->leftover = true;
    print_vector(p, pass);
    p->leftover = false;
}

static void print_any(hr_printer *p, const hr_lane_pass *pass, const char *first, const char *last) {
    print_shifted(p, pass, &first, &last);
    hr_print(p, "int64_t i = %s;", first);
    p->part = false;
    if (p->segmented) hr_lane_runs(p, pass, p->segmented, last);
    print_begin(p, pass, last);
    if (hr_lane_uses_even_odd(p, pass)) print_even_odd(p, pass, last);
    print_head(p, pass, last);
    if (pass->ways > 1) print_steps_loop(p, pass, last);
    if (pass->ways > 1) hr_lane_tail_begin(p, pass);
    hr_print(p, "for (; i + HR_LANES <= %s; i += HR_LANES) {", last);
    p->indent++;
    if (pass->ways > 1)
        print_leftover(p, pass);
    else
        hr_lane_near_and_far(p, pass, 1, print_vector);
    p->indent--;
    hr_print(p, "}");
    if (pass->ways == 1) hr_lane_tail_begin(p, pass);
    print_part(p, pass, hr_format(p, "if (i < %s)", last), hr_format(p, "(int)(%s - i)", last));
    if (pass->meeting) hr_print(p, "    i = %s;", last);
    hr_print(p, "}");
    hr_lane_tail_leave(p, pass);
    p->begun = -1;
}

static void print_vectors(hr_printer *p, const hr_lane_pass *pass, const char *first, const char *last) {
    if (!can_be_whole(p, pass)) {
        print_any(p, pass, first, last);
        return;
    }
    const bool even_odd = p->drawn_even_odd;
    hr_print(p, "if (%s) {", even_odd ? "turned" : "whole");
    p->indent++;
    print_whole(p, pass, first, last);
    p->indent--;
    p->drawn_even_odd = false;
    hr_print(p, "} else {");
    p->indent++;
    print_any(p, pass, first, last);
    p->drawn_even_odd = even_odd;
    p->indent--;
    hr_print(p, "}");
}

/* Where whole steps may walk even and odd lanes, their words are drawn in that order. It takes fewer
 * operations. Groups of 512-bit vectors; the words of a block are put in that order together. */
static void print_even_odd_flag(hr_printer *p, const hr_lane_pass *pass, const hr_random_list *randoms) {
    p->drawn_even_odd = randoms->count > 0 && can_be_whole(p, pass) && !hr_limits_are_short(&p->plan->limits);
    p->drawn_even_odd = p->drawn_even_odd && hr_lane_is_even_odd(p, pass, NULL);
    if (!p->drawn_even_odd) return;
    const char *together = "whole";
    for (int i = 0; i < randoms->count; i++)
        together = hr_format(p, "%s && (%s + %s) %% 4 == 0", together,
                             hr_emit_lane_rest(p, randoms->node[i]->args[1]), pass->first);
    hr_print(p, "const bool turned = %s;", together);
}

/* Where a core's stores wait for long, whole lines of f32 are walked one after each round of the numbers to
 * come, the rest when these are there: all of them at once would come in bursts, between which memory has
 * nothing to do. Lanes that are narrowed keep a core busy for longer than memory. 512-bit vectors, whose
 * groups are `tile` words.
 */
static bool draws_beside(const hr_printer *p, const hr_lane_pass *pass, const hr_random_list *randoms) {
    enum { GROUP = 256 };
    return randoms->count == 1 && pass->tile == GROUP && pass->ways == 1 && can_be_whole(p, pass) &&
           hr_limits_stores_wait(&p->plan->limits) && !hr_limits_are_short(&p->plan->limits);
}

static void print_line(hr_printer *p, const hr_lane_pass *pass) {
    p->whole = true;
    p->part = false;
    hr_lane_near_and_far(p, pass, 1, print_vector);
    p->whole = false;
}

static void print_beside(hr_printer *p, const hr_lane_pass *pass, const hr_random_list *randoms) {
    const hr_expr *random = randoms->node[0];
    const char *counter = hr_format(p, "(%s + stop)", hr_emit_lane_rest(p, random->args[1]));
    hr_text_format(p->out, "#if HR_LANES == 16\n");
    hr_print(p, "if (stop - tile == HR_RANDOM_GROUP && random_is_group((uint64_t)%s, next - stop)%s) {",
             counter, all_aligned(p, pass, "tile"));
    p->indent++;
    hr_random_print_drawn(p, randoms);
    hr_print(p, "philox_lanes drawn[HR_RANDOM_PARTS];");
    hr_print(p, "random_group_begin(drawn, &keys_%d, (uint64_t)((int64_t)%s >> 2), false);", random->id,
             counter);
    hr_print(p, "int64_t i = tile;");
    hr_text_format(p->out, "#pragma GCC unroll 1\n");
    hr_print(p, "for (int round = 2; round < 9; round++, i += HR_LANES) {");
    p->indent++;
    hr_print(p, "random_group_round(drawn, &keys_%d, round);", random->id);
    print_line(p, pass);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "random_group_end(drawn, &keys_%d, random_%d[!turn] + HR_RANDOM_BEFORE, false);", random->id,
             random->id);
    hr_print(p, "for (; i < stop; i += HR_LANES) {");
    p->indent++;
    print_line(p, pass);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "continue;");
    p->indent--;
    hr_print(p, "}");
    hr_text_format(p->out, "#endif\n");
}

/* The words of the next tile are drawn before the lanes of this one are walked: so these wait for no store,
 * and the numbers' latency hides the memory's. Where results are streamed, the lanes before the first aligned
 * vector are a tile of their own: so all others begin at one. */
static void print_tiles(hr_printer *p, const hr_lane_pass *pass) {
    hr_random_list randoms;
    hr_lane_randoms(p, pass, &randoms);
    hr_random_print_keys(p, &randoms, pass->tile);
    long long tile = (long long)pass->tile;
    const char *first = pass->first, *last = pass->last;
    const char *lead = goes_by_head(pass) ? stream_head(p, pass, hr_format(p, " + %s", first)) : "0";
    hr_print(p, "const int64_t lead = %s, step = lead ? lead : %lld;", lead, tile);
    hr_print(p, "int64_t stop = %s - %s < step ? %s : %s + step;", last, first, last, first);
    print_even_odd_flag(p, pass, &randoms);
    hr_random_print_draws(p, &randoms, first, "stop", "0");
    hr_print(p,
             "for (int64_t tile = %s, next, turn = 0; tile < %s; tile = stop, stop = next, turn = !turn) {",
             first, last);
    p->indent++;
    hr_print(p, "next = %s - stop < %lld ? %s : stop + %lld;", last, tile, last, tile);
    if (draws_beside(p, pass, &randoms)) print_beside(p, pass, &randoms);
    hr_print(p, "if (stop < %s) {", last);
    p->indent++;
    hr_random_print_draws(p, &randoms, "stop", "next", "!turn");
    p->indent--;
    hr_print(p, "}");
    hr_random_print_drawn(p, &randoms);
    print_vectors(p, pass, "tile", "stop");
    p->indent--;
    hr_print(p, "}");
    hr_random_forget(p, &randoms);
    p->drawn_even_odd = false;
}

/* Scalar lanes: the body is printed aside first, to know whether the loop may be `omp simd`. */
static void print_scalars(hr_printer *p, const hr_lane_pass *pass) {
    p->checks = false;
    hr_text body, *out = hr_print_aside(p, &body);
    print_body(p, pass, false);
    hr_print_back(p, out);
    bool simd = !p->checks;
    const char *sums = "";
    for (int i = 0; i < pass->step_count; i++) {
        if (pass->steps[i].use == HR_LANE_REDUCE && pass->steps[i].reduce != HR_OP_REDUCE_SUM) simd = false;
        if (pass->steps[i].use == HR_LANE_REDUCE)
            sums = hr_format(p, "%s%sa%d", sums, *sums ? ", " : "", pass->steps[i].id);
    }
    if (simd && *sums) hr_print(p, "#pragma omp simd reduction(+ : %s)", sums);
    if (simd && !*sums) hr_print(p, "#pragma omp simd");
    hr_print(p, "for (int64_t i = %s; i < %s; i++) {", pass->first, pass->last);
    hr_print_body(p, &body);
    hr_print(p, "}");
}

static void prepare_all(hr_printer *p, const hr_lane_pass *pass, hr_emit_level level) {
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, level);
}

static void print_row_places(hr_printer *p, const hr_lane_pass *pass) {
    p->bounded = hr_lane_gather_bounds(p, pass);
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use == HR_LANE_STORE && hr_lane_stores_in_row(p, s)) hr_lane_print_target(p, s);
        if (s->use == HR_LANE_COLUMN && !s->held)
            hr_print(p, "%s *const c%d = %s;", hr_c_compute(s->type), s->id,
                     row_place(p, hr_format(p, "column_%d", s->id)));
    }
    for (int k = 0; k < pass->stash_count; k++) {
        const char *row = row_place(p, pass->stash_name[k]);
        if (hr_expr_is_words(pass->stash[k]))
            hr_print(p, "uint16_t *const k%d = (uint16_t *)(void *)(%s);", k, row);
        else
            hr_print(p, "float *const k%d = %s;", k, row);
        if (pass->stash_done[k]) p->buffer[pass->stash[k]->id] = hr_format(p, "k%d + i", k);
    }
}

/* What the stashed values of a pass are to the next ones, and nothing else is known any more. */
static void end_pass(hr_printer *p, const hr_lane_pass *pass) {
    p->bounded = false;
    for (int k = 0; k < pass->stash_count; k++) {
        if (p->uses[pass->stash[k]->id]) pass->stash_done[k] = true;
        p->buffer[pass->stash[k]->id] = NULL;
    }
    hr_printer_forget(p, HR_AT_OUTER);
    hr_printer_forget(p, HR_AT_LANE);
}

int hr_lane_unit(hr_printer *p, const hr_lane_pass *pass) {
    const int lanes = hr_limits_lanes(&p->plan->limits);
    int unit = hr_lane_has_pairs(p, pass) ? 2 : 1;
    for (int i = 0; i < pass->prefetch_count; i++) {
        int size = (int)hr_dtype_size(p->function->tensors[pass->prefetched[i]->tensor].dtype);
        while (unit * size * lanes < LINE)
            unit *= 2;
    }
    return unit;
}

void hr_lane_step_body(hr_printer *p, const hr_lane_pass *pass) {
    prepare_all(p, pass, HR_AT_TASK);
    print_row_places(p, pass);
    print_alignments(p, pass, NULL);
    p->part = false;
    print_step(p, pass);
    p->way = "0";
    p->bounded = false;
    for (int k = 0; k < pass->stash_count; k++)
        p->buffer[pass->stash[k]->id] = NULL;
    hr_printer_forget(p, HR_AT_LANE);
}

const char *hr_lane_shift(hr_printer *p, const hr_lane_pass *pass) {
    if (!hr_lane_first_stream(pass)) return "0";
    hr_lane_print_target(p, hr_lane_first_stream(pass));
    return stream_shift(p, pass);
}

const char *hr_lane_aligned(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].stream) hr_lane_print_target(p, &pass->steps[i]);
    return all_aligned(p, pass, "i") + strlen(" && ");
}

void hr_lane_randoms(hr_printer *p, const hr_lane_pass *pass, hr_random_list *out) {
    const hr_expr **values = hr_arena_alloc(p->arena, (size_t)pass->step_count * sizeof *values);
    int count = p->vector ? pass->step_count : 0;
    for (int i = 0; i < count; i++)
        values[i] = pass->steps[i].value;
    hr_random_find(p, values, count, NULL, out);
}

static void print_lanes(hr_printer *p, const hr_lane_pass *pass) {
    if (p->vector && pass->tile)
        print_tiles(p, pass);
    else if (p->vector)
        print_vectors(p, pass, pass->first, pass->last);
    else
        print_scalars(p, pass);
}

void hr_lane_loop(hr_printer *p, const hr_lane_pass *pass) {
    hr_segmented runs;
    prepare_all(p, pass, HR_AT_TASK);
    if (pass->prefetch_first) print_prefetches_first(p, pass);
    hr_lane_declare(p, pass);
    hr_print(p, "{");
    p->indent++;
    if (p->vector && pass->segments && hr_segmented_begin(p, pass->segments, &runs)) p->segmented = &runs;
    if (can_be_whole(p, pass)) print_whole_flag(p, pass);
    if (hr_lane_has_totals(p, pass) && p->outer_count) hr_print(p, "int64_t chained = 0;");
    for (int i = 0; i < p->outer_count; i++) {
        const char *index = hr_emit_index(p, p->outer[i]);
        hr_print(p, "for (int64_t %s = 0; %s < %s; %s++) {", index, index, hr_emit_index_size(p, p->outer[i]),
                 index);
        p->indent++;
    }
    if (p->outer_count) prepare_all(p, pass, HR_AT_OUTER);
    print_row_places(p, pass);
    hr_lane_stash_even_odd(p, pass);
    if (hr_lane_has_totals(p, pass))
        hr_lane_chains(p, pass, print_lanes);
    else
        print_lanes(p, pass);
    for (int i = 0; i < p->outer_count; i++) {
        p->indent--;
        hr_print(p, "}");
    }
    p->indent--;
    hr_print(p, "}");
    if (p->segmented) hr_segmented_end(p->segmented);
    p->segmented = NULL;
    if (pass->state) hr_lane_save(p, pass, "");
    end_pass(p, pass);
}
