/* The loops of one pass over a row. In: steps. Out: text. See lane_loop.h. */
#include "emit/c/lane_loop.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_gather.h"
#include "emit/c/lane_segments.h"
#include "emit/c/lane_step.h"
#include "emit/c/lane_store.h"
#include "emit/c/lane_sums.h"
#include "emit/c/scratch_c.h"

#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* Where row-long buffers of this stage stand for the current outer indices: "base + (outer) * n". */
static const char *row_place(hr_printer *p, const char *base) {
    const char *flat = hr_emit_outer(p);
    return flat ? hr_format(p, "%s + (%s) * %s", base, flat, hr_emit_index_size(p, p->lane)) : base;
}

/* A line at a time, where vectors would prefetch most lines twice. */
static void print_prefetches_first(hr_printer *p, const hr_lane_pass *pass) {
    const char *last = pass->prefetch_count ? hr_lane_last(p, pass) : "";
    if (pass->prefetch_of) last = hr_format(p, "%s * %d / %d", last, pass->prefetch_part, pass->prefetch_of);
    for (int i = 0; i < pass->prefetch_count; i++) {
        const hr_expr *element = pass->prefetched[i];
        const int size = (int)hr_dtype_size(p->function->tensors[element->tensor].dtype);
        if (!p->pointer[element->id]) continue;
        hr_print(p, "for (int64_t i = 0; i < %s; i += %d)", last, LINE / size);
        hr_print(p, "    %s(%s + %s + i);", pass->prefetch, hr_expr_pointer(p, element),
                 pass->prefetch_place);
    }
}

/* ---- the loops ---- */

/* At most a vector of lanes. */
static void print_part(hr_printer *p, const hr_lane_pass *pass, const char *condition, const char *count) {
    hr_print(p, "%s {", condition);
    p->indent++;
    hr_print(p, "const int lanes = %s;", count);
    p->body = HR_BODY_PART;
    p->way = "0";
    hr_lane_print_body(p, pass, false);
    p->body = HR_BODY_VECTOR;
    p->indent--;
}

/* The lanes before. */
static void print_head(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    if (!hr_lane_first_stream(pass)) return;
    if (hr_lane_goes_by_head(pass)) {
        hr_lane_end_begin(p, pass);
        print_part(p, pass, "while (i < begin)", "begin - i < HR_LANES ? (int)(begin - i) : HR_LANES");
        hr_print(p, "    i += lanes;");
        hr_print(p, "}");
        hr_lane_end_leave(p, pass);
    }
    hr_lane_print_alignments(p, pass, pass->block ? last : NULL);
}

static void print_steps_loop(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    hr_print(p, "for (; i + %d * HR_LANES <= %s;) {", pass->ways, last);
    p->indent++;
    if (hr_lane_has_late(p, pass))
        hr_lane_print_block(p, pass, last);
    else
        hr_lane_print_step(p, pass);
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

static void print_whole_flag(hr_printer *p, const hr_lane_pass *pass) {
    hr_print(p, "const bool whole = %s %% (%d * HR_LANES) == 0%s;", hr_emit_lane_count(p), pass->ways,
             hr_lane_all_aligned(p, pass, NULL));
}

/* Nothing but whole steps. */
static void print_whole(hr_printer *p, const hr_lane_pass *pass, const char *first, const char *last) {
    hr_print(p, "for (int64_t i = %s; i < %s;%s) {", first, last, pass->ways > 1 ? "" : " i += HR_LANES");
    p->indent++;
    p->body = HR_BODY_WHOLE;
    if (hr_lane_has_late(p, pass))
        hr_lane_print_block(p, pass, last);
    else if (pass->ways > 1)
        hr_lane_print_step(p, pass);
    else
        hr_lane_near_and_far(p, pass, 1, hr_lane_print_vector);
    p->body = HR_BODY_VECTOR;
    p->indent--;
    hr_print(p, "}");
}

/* As far as its steps and those of the pass that stashed the value go, and results are aligned from the first
 * on. What is left is put in order. */
static void print_even_odd(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    hr_print(p, "const int64_t even_odd = %s / (%d * HR_LANES) * (%d * HR_LANES);", last,
             p->stash_even_odd_ways, p->stash_even_odd_ways);
    if (hr_lane_is_even_odd(p, pass, NULL)) {
        hr_print(p, "for (; %si + %d * HR_LANES <= even_odd;) {",
                 hr_lane_first_stream(pass) ? "begin <= i && " : "", pass->ways);
        p->indent++;
        hr_lane_print_step(p, pass);
        p->indent--;
        hr_print(p, "}");
    }
    hr_print(p, "even_odd_undone(k0, i, even_odd);");
    p->stash_even_odd = NULL;
}

/* Vectors after the last whole step. */
static void print_leftover(hr_printer *p, const hr_lane_pass *pass) {
    p->body = HR_BODY_LEFTOVER;
    hr_lane_print_vector(p, pass);
    p->body = HR_BODY_VECTOR;
}

static void print_any(hr_printer *p, const hr_lane_pass *pass, const char *first, const char *last) {
    hr_lane_print_shifted(p, pass, &first, &last);
    hr_print(p, "int64_t i = %s;", first);
    p->body = HR_BODY_VECTOR;
    if (p->segmented) hr_lane_runs(p, pass, p->segmented, last);
    hr_lane_print_begin(p, pass, last);
    if (hr_lane_uses_even_odd(p, pass)) print_even_odd(p, pass, last);
    print_head(p, pass, last);
    if (pass->ways > 1) print_steps_loop(p, pass, last);
    if (pass->ways > 1) hr_lane_tail_begin(p, pass);
    hr_print(p, "for (; i + HR_LANES <= %s; i += HR_LANES) {", last);
    p->indent++;
    if (pass->ways > 1)
        print_leftover(p, pass);
    else
        hr_lane_near_and_far(p, pass, 1, hr_lane_print_vector);
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
    const hr_lane_order drawn = p->drawn;
    hr_print(p, "if (%s) {", drawn == HR_ORDER_EVEN_ODD ? "even_odd" : "whole");
    p->indent++;
    print_whole(p, pass, first, last);
    p->indent--;
    p->drawn = HR_ORDER_PLAIN;
    hr_print(p, "} else {");
    p->indent++;
    print_any(p, pass, first, last);
    p->drawn = drawn;
    p->indent--;
    hr_print(p, "}");
}

/* Where whole steps may walk even and odd lanes, their words are drawn in that order. It takes fewer
 * operations. Groups of 512-bit vectors; the words of a block are put in that order together. */
static void print_even_odd_flag(hr_printer *p, const hr_lane_pass *pass, const hr_random_list *randoms) {
    p->drawn = HR_ORDER_PLAIN;
    if (randoms->count == 0 || !can_be_whole(p, pass) || hr_limits_are_short(&p->plan->limits)) return;
    p->drawn = HR_ORDER_EVEN_ODD; /* which the question takes for granted */
    if (!hr_lane_is_even_odd(p, pass, NULL)) {
        p->drawn = HR_ORDER_PLAIN;
        return;
    }
    const char *together = "whole";
    for (int i = 0; i < randoms->count; i++)
        together = hr_format(p, "%s && (%s + %s) %% 4 == 0", together,
                             hr_emit_lane_rest(p, randoms->node[i]->args[1]), pass->first);
    hr_print(p, "const bool even_odd = %s;", together);
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
    p->body = HR_BODY_WHOLE;
    hr_lane_near_and_far(p, pass, 1, hr_lane_print_vector);
    p->body = HR_BODY_VECTOR;
}

static void print_beside(hr_printer *p, const hr_lane_pass *pass, const hr_random_list *randoms) {
    const hr_expr *random = randoms->node[0];
    const char *counter = hr_format(p, "(%s + stop)", hr_emit_lane_rest(p, random->args[1]));
    hr_text_format(p->out, "#if HR_LANES == 16\n");
    hr_print(p, "if (stop - tile == HR_RANDOM_GROUP && random_is_group((uint64_t)%s, next - stop)%s) {",
             counter, hr_lane_all_aligned(p, pass, "tile"));
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
    hr_print(p, "random_group_end(drawn, &keys_%d, random_%d[!half] + HR_RANDOM_BEFORE, false);", random->id,
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
    const char *first = pass->first, *last = hr_lane_last(p, pass);
    const char *head =
        hr_lane_goes_by_head(pass) ? hr_lane_stream_head(p, pass, hr_format(p, " + %s", first)) : "0";
    hr_print(p, "const int64_t head = %s, step = head ? head : %lld;", head, tile);
    hr_print(p, "int64_t stop = %s - %s < step ? %s : %s + step;", last, first, last, first);
    print_even_odd_flag(p, pass, &randoms);
    hr_random_print_draws(p, &randoms, first, "stop", "0");
    hr_print(p,
             "for (int64_t tile = %s, next, half = 0; tile < %s; tile = stop, stop = next, half = !half) {",
             first, last);
    p->indent++;
    hr_print(p, "next = %s - stop < %lld ? %s : stop + %lld;", last, tile, last, tile);
    if (draws_beside(p, pass, &randoms)) print_beside(p, pass, &randoms);
    hr_print(p, "if (stop < %s) {", last);
    p->indent++;
    hr_random_print_draws(p, &randoms, "stop", "next", "!half");
    p->indent--;
    hr_print(p, "}");
    hr_random_print_drawn(p, &randoms);
    print_vectors(p, pass, "tile", "stop");
    p->indent--;
    hr_print(p, "}");
    hr_random_forget(p, &randoms);
    p->drawn = HR_ORDER_PLAIN;
}

/* Scalar lanes: the body is printed aside first, to know whether the loop may be `omp simd`. */
static void print_scalars(hr_printer *p, const hr_lane_pass *pass) {
    p->checks = false;
    hr_text body, *out = hr_print_aside(p, &body);
    hr_lane_print_body(p, pass, false);
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
    hr_print(p, "for (int64_t i = %s; i < %s; i++) {", pass->first, hr_lane_last(p, pass));
    hr_print_body(p, &body);
    hr_print(p, "}");
}

static void prepare_all(hr_printer *p, const hr_lane_pass *pass, hr_emit_level level) {
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, level);
}

static void print_row_places(hr_printer *p, const hr_lane_pass *pass) {
    if (hr_lane_gather_bounds(p, pass)) p->known |= HR_KNOWN_BOUNDS;
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use == HR_LANE_STORE && hr_lane_stores_in_row(p, s)) hr_lane_print_target(p, s);
        if (s->use == HR_LANE_COLUMN && !s->held)
            hr_print(p, "%s *const c%d = %s;", hr_c_compute(s->type), s->id,
                     row_place(p, hr_use(p, hr_format(p, "column_%d", s->id))));
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
    p->known &= ~(unsigned)HR_KNOWN_BOUNDS;
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
    hr_lane_print_alignments(p, pass, NULL);
    p->body = HR_BODY_VECTOR;
    hr_lane_print_step(p, pass);
    p->way = "0";
    p->known &= ~(unsigned)HR_KNOWN_BOUNDS;
    for (int k = 0; k < pass->stash_count; k++)
        p->buffer[pass->stash[k]->id] = NULL;
    hr_printer_forget(p, HR_AT_LANE);
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
        print_vectors(p, pass, pass->first, hr_lane_last(p, pass));
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
