/* Stores of a pass that go past the caches. In: a pass. Out: text. See lane_stream.h. */
#include "emit/c/lane_stream.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_store.h"
#include "emit/c/stage_area.h"

#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* ---- alignment ---- */

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
void hr_lane_print_alignments(hr_printer *p, const hr_lane_pass *pass, const char *last) {
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

const char *hr_lane_stream_head(hr_printer *p, const hr_lane_pass *pass, const char *lane) {
    return hr_format(p, "stream_head(q%d%s, %s)", hr_lane_first_stream(pass)->id, lane, first_sizes(p, pass));
}

/* Beside other rows lanes keep their order, so that sums come out the same: unaligned vectors leave as they
 * are. */
bool hr_lane_goes_by_head(const hr_lane_pass *pass) {
    return hr_lane_first_stream(pass) && !pass->block && (!pass->state || pass->whole);
}

/* The lines in which a row's results end, once a row. */
static void prefetch_ends(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_STORE || !s->stream || s == pass->meeting) continue;
        hr_print(p, "%sstream_ask_end(q%d + %s, %s);", pass->whole ? "if (!first) " : "", s->id,
                 hr_emit_index_size(p, p->lane), step_sizes(p, pass, s));
    }
}

/* Where streamed results begin to be aligned, those of the first of them: the others are as aligned as it, or
 * leave by ordinary stores. */
void hr_lane_print_begin(hr_printer *p, const hr_lane_pass *pass, const char *last) {
    const hr_lane_step *first = hr_lane_first_stream(pass);
    if (!hr_lane_goes_by_head(pass)) return;
    hr_print(p, "const int64_t begin = stream_begin(q%d, %s, i, %s);", first->id, first_sizes(p, pass), last);
    p->begun = first->id;
    if (pass->meeting)
        hr_print(p, "const bool joins = (uintptr_t)q%d %% %d == 0;", pass->meeting->id,
                 (int)hr_dtype_size(p->function->tensors[pass->meeting->tensor].dtype));
    if (!p->flat && p->stage->task_count) prefetch_ends(p, pass);
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
    const char *head = hr_lane_stream_head(p, pass, "");
    bool first = hr_stage_shares_stash(p->stage);
    for (int i = 0; i < pass->step_count; i++)
        first = first || hr_expr_find(pass->steps[i].value, is_read, &(pass_of){p, pass});
    if (!first || hr_cpu_walk_of(p->stage)->pipeline.direction == HR_REVERSED) return head;
    return hr_format(p, "%s + (%s < %d ? 0 : %d)", head, pass->whole, PAGE_BYTES / size / pass->group,
                     BYTES_AHEAD / size);
}

/* Parts of a row whose results are streamed begin at its aligned vectors. */
void hr_lane_print_shifted(hr_printer *p, const hr_lane_pass *pass, const char **first, const char **last) {
    if (!pass->whole || !hr_lane_first_stream(pass)) return;
    hr_print(p, "const int64_t shift = %s;", stream_shift(p, pass));
    hr_print(p, "const int64_t start = %s ? %s + shift : 0, stop = %s + shift < %s ? %s + shift : %s;",
             *first, *first, *last, pass->whole, *last, pass->whole);
    *first = "start";
    *last = "stop";
}

/* The same was asked of a step before it. */
static bool is_asked(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    for (const hr_lane_step *before = pass->steps; before < s; before++)
        if (before->stream && before->tensor == s->tensor &&
            hr_lane_is_paired(p, pass, before) == hr_lane_is_paired(p, pass, s))
            return true;
    return false;
}

const char *hr_lane_all_aligned(hr_printer *p, const hr_lane_pass *pass, const char *lane) {
    const char *all = "";
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (!s->stream || (!lane && is_asked(p, pass, s))) continue;
        const char *place = lane ? hr_format(p, "q%d + %s", s->id, lane) : hr_emit_tensor(p, s->tensor);
        all = hr_format(p, "%s && stream_aligned(%s, %s)", all, place, step_sizes(p, pass, s));
    }
    return all;
}

const char *hr_lane_shift(hr_printer *p, const hr_lane_pass *pass) {
    if (!hr_lane_first_stream(pass)) return "0";
    hr_lane_print_target(p, hr_lane_first_stream(pass));
    return stream_shift(p, pass);
}

const char *hr_lane_aligned(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (pass->steps[i].stream) hr_lane_print_target(p, &pass->steps[i]);
    return hr_lane_all_aligned(p, pass, "i") + strlen(" && ");
}

/* ---- blocks of steps ---- */

/* Leaves as whole vectors of 32-bit words. */
static bool is_of_words(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return hr_dtype_size(p->function->tensors[s->tensor].dtype) == 4 || hr_lane_is_paired(p, pass, s);
}

static bool is_late(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    if (!s->stream || !is_of_words(p, pass, s)) return false;
    for (const hr_lane_step *before = pass->steps; before < s; before++)
        if (before->stream && before->tensor != s->tensor) return true;
    return false;
}

bool hr_lane_has_late(const hr_printer *p, const hr_lane_pass *pass) {
    bool late = false;
    if (pass->ways < 2 || pass->unit < pass->ways || pass->state || pass->block ||
        p->stage->shape != HR_SHAPE_MAP || !hr_limits_are_short(&p->plan->limits))
        return false;
    for (int i = 0; i < pass->step_count; i++) {
        if (pass->steps[i].use != HR_LANE_STORE) return false;
        late = late || is_late(p, pass, &pass->steps[i]);
    }
    return late;
}

const hr_lane_step *hr_lane_begin_block(hr_printer *p, const hr_lane_pass *pass, const char *last,
                                        int count) {
    size_t size = (size_t)pass->step_count * sizeof *pass->steps;
    hr_lane_step *steps = hr_arena_alloc(p->arena, size);
    int most = count * pass->ways;
    memcpy(steps, pass->steps, size);
    hr_print(p, "const int64_t block = i, rest = %s - i, step = %d * HR_LANES, most = %d * HR_LANES;", last,
             pass->ways, most);
    hr_print(p, "const int64_t until = i + (rest < most ? rest / step * step : most);");
    for (int i = 0; i < pass->step_count; i++) {
        steps[i].late = is_late(p, pass, &pass->steps[i]);
        if (steps[i].late)
            hr_print(p, "_Alignas(64) %s late_%d[%d * HR_LANES];",
                     hr_c_storage(p->function->tensors[steps[i].tensor].dtype), steps[i].id, most);
    }
    return steps;
}

void hr_lane_end_block(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (!s->late) continue;
        hr_print(p, "stream_late(q%d + block, late_%d, (until - block) * %d, %s);", s->id, s->id,
                 (int)hr_dtype_size(p->function->tensors[s->tensor].dtype),
                 p->whole ? "true" : hr_format(p, "aligned_%d", s->id));
    }
}

const char *hr_lane_target(hr_printer *p, const hr_lane_step *s) {
    return hr_format(p, s->late ? "late_%d + (i - block)" : "q%d + i", s->id);
}
