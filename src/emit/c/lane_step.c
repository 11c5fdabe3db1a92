/* A step of a lane loop: the body for one vector or several. In: a pass. Out: text. See lane_step.h. */
#include "emit/c/lane_step.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_store.h"
#include "emit/c/lane_sums.h"

enum { LINE = 64 }; /* bytes of a cache line */

/* ---- one lane, or one vector of them ---- */

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
    if (pass->prefetch_first) return; /* all was prefetched before the loop */
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
                     from ? pass->prefetch_gathered : pass->prefetch,
                     from ? from : hr_expr_pointer(p, element), place, line / size);
            if (!from && pass->prefetch_near)
                hr_print(p, "prefetch_near(%s + i + %d);", hr_expr_pointer(p, element),
                         (pass->prefetch_near + line) / size);
        }
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

void hr_lane_print_body(hr_printer *p, const hr_lane_pass *pass, bool in_ways) {
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

/* ---- a match of one lane with a place ---- */

/* How many places the lane's index is compared with, and one of them. */
typedef struct places {
    hr_printer *p;
    int count;
    const hr_expr *place;
} places;

static hr_visit count_places(void *context, const hr_expr *node) {
    places *found = context;
    if (hr_expr_level(found->p, node) != HR_AT_LANE || found->p->buffer[node->id]) return HR_VISIT_PAST;
    const hr_expr *match = hr_expr_lane_match(found->p, node);
    found->count += match != NULL;
    if (match) found->place = match;
    return HR_VISIT_ON;
}

static void near_and_far(hr_printer *p, const hr_lane_pass *pass, int vectors, hr_lane_body body) {
    places found = {.p = p};
    hr_walk walk = {.enter = count_places, .context = &found};
    for (int i = 0; i < pass->step_count && p->vector; i++)
        hr_walk_through(&walk, pass->steps[i].value);
    hr_printer_walked(p, &walk);
    if (found.count != 1) {
        body(p, pass);
        return;
    }
    hr_print(p, "if (lane_near((int64_t)%s - i, %d)) {", hr_expr_text(p, found.place), vectors);
    p->indent++;
    body(p, pass);
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    p->known |= HR_KNOWN_NO_MATCH;
    body(p, pass);
    p->known &= ~(unsigned)HR_KNOWN_NO_MATCH;
    p->indent--;
    hr_print(p, "}");
}

void hr_lane_near_and_far(hr_printer *p, const hr_lane_pass *pass, int vectors, hr_lane_body body) {
    if (!(p->known & HR_KNOWN_BOUNDS)) {
        near_and_far(p, pass, vectors, body);
        return;
    }
    hr_print(p, "if (i >= inside_from && i + %d * HR_LANES <= inside_to) {", vectors);
    p->indent++;
    p->known |= HR_KNOWN_INSIDE;
    near_and_far(p, pass, vectors, body);
    p->known &= ~(unsigned)HR_KNOWN_INSIDE;
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    near_and_far(p, pass, vectors, body);
    p->indent--;
    hr_print(p, "}");
}

/* ---- several vectors ---- */

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
    const hr_lane_order order = p->order;
    if (order != HR_ORDER_EVEN_ODD) /* nothing is stored between them here */
        p->order = pass->ways % 2 == 0 ? HR_ORDER_PAIRS : HR_ORDER_PLAIN;
    begin_way_loop(p, pass);
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, call.argument);
    hr_print(p, "%s = %s;", place, hr_expr_lanes(p, call.argument));
    end_way_loop(p);
    p->order = order;
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
    hr_lane_print_body(p, pass, true);
    end_way_loop(p);
    if (called) p->given = NULL;
}

static void print_ways(hr_printer *p, const hr_lane_pass *pass) {
    hr_lane_near_and_far(p, pass, pass->unit, print_way_loop);
}

void hr_lane_print_vector(hr_printer *p, const hr_lane_pass *pass) {
    p->way = "0";
    hr_lane_print_body(p, pass, false);
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
        words = hr_format(p, "%s%svu_even_odd_bf16(w%d[%d], w%d[%d], %s)", words, way ? ", " : "",
                          rounded->id, way, rounded->id, way + 1, kinds);
    hr_print(p, "const vu b%d[%d] = {%s};", rounded->id, pass->unit / 2, words);
    hr_print(p, "i -= %d * HR_LANES;", pass->unit);
    rest.steps = others;
    rest.step_count = 0;
    for (int i = 0; i < pass->step_count && rest.step_count < HR_EVEN_ODD_MAX; i++)
        if (&pass->steps[i] != rounded) others[rest.step_count++] = pass->steps[i];
    p->given = rounding;
    p->given_text = hr_format(p, "vf_even_odd_bf16(b%d[%s / 2], way)", rounded->id,
                              pass->unit < pass->ways ? "(way - from)" : "way");
    p->given_stashed = true;
    print_ways(p, &rest);
    p->given = NULL;
    p->given_stashed = false;
}

/* A step of several vectors, or the part of one that `unit` is. */
void hr_lane_print_step(hr_printer *p, const hr_lane_pass *pass) {
    if (pass->ways == 1) {
        hr_lane_print_vector(p, pass);
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
    const bool pairs = pass->ways % 2 == 0 && !hr_lane_stores_between(p, pass);
    const bool even_odd = hr_lane_is_even_odd(p, pass, rounding);
    p->order = even_odd ? HR_ORDER_EVEN_ODD : pairs ? HR_ORDER_PAIRS : HR_ORDER_PLAIN;
    if (!even_odd) rounded = NULL;
    if (rounded)
        print_rounded(p, pass, rounded, rounding);
    else
        print_ways(p, pass);
    for (int i = 0; i < pass->step_count && even_odd; i++)
        if (pass->steps[i].use == HR_LANE_COLUMN) p->even_odd_ways[pass->steps[i].id] = pass->ways;
    hr_lane_print_pairs(p, pass, rounded);
    p->order = HR_ORDER_PLAIN;
}

/* The function that is done for several vectors at a time, for all vectors of a block before all else: it is
 * then there as made[vector]. */
static void print_made(hr_printer *p, const hr_lane_pass *pass, int steps) {
    const hr_expr *node = called_node(p, pass);
    hr_print(p, "vf made_%d[%d];", node->id, steps * pass->ways);
    hr_print(p, "do {");
    p->indent++;
    hr_lane_prefetches(p, pass, pass->unit);
    p->order = hr_lane_is_even_odd(p, pass, NULL) ? HR_ORDER_EVEN_ODD : HR_ORDER_PLAIN;
    print_call(p, pass);
    p->order = HR_ORDER_PLAIN;
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
    return (p->forms & HR_FORM_NARROW) && !p->given && !hr_lane_rounded(p, pass, &rounding) &&
           called_node(p, pass);
}

void hr_lane_print_block(hr_printer *p, const hr_lane_pass *pass, const char *last) {
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
    hr_lane_print_step(p, &rest);
    p->indent--;
    hr_print(p, "} while (i < until);");
    if (made) p->given = NULL;
    hr_lane_end_block(p, &rest);
}
