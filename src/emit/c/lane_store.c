/* How a pass's results leave. In: a step, a pass. Out: text. See lane_store.h. */
#include "emit/c/lane_store.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/scratch_c.h"

#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* The address of the element that a store writes, without the lane: "t_y + offset". */
void hr_lane_print_target(hr_printer *p, const hr_lane_step *s) {
    const hr_tensor *tensor = &p->function->tensors[s->tensor];
    if (s->collected) {
        hr_print(p, "%s *const q%d = (%s *)collector_place(&collected_%d) + r * %s;",
                 hr_c_storage(tensor->dtype), s->id, hr_c_storage(tensor->dtype), s->id,
                 hr_emit_index_size(p, p->lane));
        return;
    }
    const char *offset =
        tensor->rank > 1 ? hr_emit_offset(p, s->tensor, s->subscripts, tensor->rank - 1) : "0";
    bool start = strcmp(offset, "0") == 0;
    hr_print(p, "%s *const q%d = %s%s%s;", hr_c_storage(tensor->dtype), s->id, hr_emit_tensor(p, s->tensor),
             start ? "" : " + ", start ? "" : offset);
}

bool hr_lane_stores_in_row(hr_printer *p, const hr_lane_step *s) {
    const hr_tensor *tensor = &p->function->tensors[s->tensor];
    if (hr_layout_has_strides(hr_plan_layout(p->plan, s->tensor))) return false;
    return tensor->rank > 0 && s->subscripts[tensor->rank - 1]->op == HR_OP_INDEX &&
           s->subscripts[tensor->rank - 1]->index == p->lane;
}

bool hr_lane_has_pairs(const hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (hr_lane_is_paired(p, pass, &pass->steps[i])) return true;
    return false;
}

bool hr_lane_is_move(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    if (!hr_lane_is_paired(p, pass, s) || s->value->op != HR_OP_ELEMENT) return false;
    const hr_tensor *tensor = &p->function->tensors[s->value->tensor];
    return tensor->dtype == HR_BF16 && tensor->role == HR_ROLE_INPUT && p->pointer[s->value->id] &&
           !p->buffer[s->value->id];
}

bool hr_lane_is_all_moves(const hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (!hr_lane_is_move(p, pass, &pass->steps[i])) return false;
    return true;
}

static bool streams(const hr_lane_step *s) {
    return s->stream && !s->late;
}

/* Where the step's results of the lanes from `i` on go. */
static const char *target_text(hr_printer *p, const hr_lane_step *s) {
    return hr_format(p, s->late ? "late_%d + (i - block)" : "q%d + i", s->id);
}

/* Where the elements at the ends of a row go. */
static const char *end_text(hr_printer *p, const hr_lane_step *s) {
    return hr_format(p, s->id == p->joined ? "end_%d + i" : "q%d + i", s->id);
}

/* The last argument of a streaming store: whether its address is a multiple of the vector's size. */
static const char *aligned_text(hr_printer *p, const hr_lane_step *s) {
    return !streams(s)                                     ? ""
           : p->body == HR_BODY_WHOLE || s->id == p->begun ? ", true"
                                                           : hr_format(p, ", aligned_%d", s->id);
}

/* Two vectors of bf16 are the words of one of f32. */
static void print_move(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *valid = p->valid[s->value->id];
    for (int way = pass->unit; way > 0; way -= 2) {
        const char *words = hr_format(p, "vf_load_f32((const float *)(const void *)(%s + i - %d * HR_LANES))",
                                      hr_expr_pointer(p, s->value), way);
        hr_print(p, "vf_%s_f32((float *)(void *)(%s - %d * HR_LANES), %s%s);",
                 streams(s) ? "stream" : "store", target_text(p, s), way,
                 valid ? hr_format(p, "(%s ? %s : vf_of(0))", valid, words) : words, aligned_text(p, s));
    }
}

/* Words that were made once leave, and stay where a later pass needs them. */
static void print_words(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *aligned = aligned_text(p, s), *target = target_text(p, s);
    for (int way = 0; way < pass->unit; way += 2) {
        const char *words = hr_format(p, " - %d * HR_LANES), (vf)b%d[%d]", pass->unit - way, s->id, way / 2);
        hr_print(p, "vf_%s_f32((float *)(void *)(%s%s%s);", streams(s) ? "stream" : "store", target, words,
                 aligned);
        for (int k = 0; k < pass->stash_count; k++)
            if (hr_expr_is_words(pass->stash[k]) && pass->stash[k]->args[0] == s->value &&
                !pass->stash_done[k])
                hr_print(p, "vf_store_f32((float *)(void *)(k%d + i%s);", k, words);
    }
}

static const char *kinds_text(hr_printer *p, const hr_lane_step *s, const char *tiny) {
    if (hr_expr_computes_special(s->value)) tiny = "false";
    return hr_format(p, "%s, %s", tiny, hr_lane_has_long_nan(p, s) ? "true" : "false");
}

const char *hr_lane_rounded_kinds(hr_printer *p, const hr_lane_step *s) {
    return kinds_text(p, s, "true");
}

/* Of a product of bf16 elements, read here as they lie, with what is the same for all lanes: the elements. */
static const hr_expr *scaled_element(hr_printer *p, const hr_expr *product, const hr_expr **factor) {
    for (int i = 0; product->op == HR_OP_MUL && i < 2; i++) {
        const hr_expr *element = product->args[i];
        *factor = product->args[1 - i];
        if (element->op == HR_OP_ELEMENT && hr_expr_level(p, *factor) < HR_AT_LANE &&
            p->pointer[element->id] && !p->valid[element->id] && !p->buffer[element->id] &&
            !p->buffer[product->id] && p->function->tensors[element->tensor].dtype == HR_BF16)
            return element;
    }
    return NULL;
}

/* Whether denormals count in the pair that ends `back` vectors ago: such a product's are seen by its
 * elements, at half the cost. */
static const char *tiny_text(hr_printer *p, const hr_lane_step *s, int back) {
    const hr_expr *value = s->value, *factor = NULL;
    if (value->op == HR_OP_WHERE && hr_expr_is_zero(value->args[2])) value = value->args[1];
    const hr_expr *element = scaled_element(p, value, &factor);
    return element ? hr_format(p, "bf16_pair_is_tiny(%s + i - %d * HR_LANES, %s)",
                               hr_expr_pointer(p, element), back, hr_expr_text(p, factor))
                   : "true";
}

void hr_lane_print_pairs(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *rounded) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (!hr_lane_is_paired(p, pass, s)) continue;
        if (s == rounded) {
            print_words(p, pass, s);
            continue;
        }
        if (hr_lane_is_move(p, pass, s)) {
            print_move(p, pass, s);
            continue;
        }
        const char *target = target_text(p, s);
        for (int way = 0; way < pass->unit; way += 2)
            hr_print(p, "vf_%s_%s_bf16(%s - %d * HR_LANES, w%d[%d], w%d[%d], %s%s);",
                     streams(s) ? "stream" : "store", p->order == HR_ORDER_EVEN_ODD ? "even_odd" : "pair",
                     target, pass->unit - way, s->id, way, s->id, way + 1,
                     kinds_text(p, s, tiny_text(p, s, pass->unit - way)), aligned_text(p, s));
    }
}

/* A line that leaves in parts, or by both kinds of stores, is merged with what memory holds. */
static bool leaves_in_parts(const hr_printer *p, hr_dtype dtype) {
    return p->body == HR_BODY_LEFTOVER &&
           (size_t)hr_limits_lanes(&p->plan->limits) * hr_dtype_size(dtype) < LINE;
}

void hr_lane_print_store(hr_printer *p, const hr_lane_step *s, const char *value) {
    hr_dtype dtype = p->function->tensors[s->tensor].dtype;
    const char *stored = hr_emit_stored(p, value, s->value->type, dtype);
    const char *v = hr_compute_type(dtype) == HR_F32 ? "vf" : "vi", *name = hr_dtype_name(dtype);
    bool joined = s->id == p->joined;
    if (p->vector && streams(s) && p->body != HR_BODY_PART && !joined && !leaves_in_parts(p, dtype))
        hr_print(p, "%s_stream_%s(q%d + i, %s%s);", v, name, s->id, stored, aligned_text(p, s));
    else if (p->vector && p->body == HR_BODY_PART)
        hr_print(p, "%s_store_part_%s(%s, %s, lanes);", v, name, end_text(p, s), stored);
    else if (p->vector)
        hr_print(p, "%s_store_%s(%s, %s);", v, name, joined ? end_text(p, s) : target_text(p, s), stored);
    else if (hr_lane_stores_in_row(p, s))
        hr_print(p, "q%d[i] = %s;", s->id, stored);
    else
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, s->tensor),
                 hr_emit_offset(p, s->tensor, s->subscripts, p->function->tensors[s->tensor].rank), stored);
}

/* ---- the ends of rows ---- */

void hr_lane_end_begin(hr_printer *p, const hr_lane_pass *pass) {
    const hr_lane_step *s = pass->meeting;
    if (!s) return;
    const char *type = hr_c_storage(p->function->tensors[s->tensor].dtype);
    p->joined = s->id;
    hr_print(p, "const int64_t from_%d = i;", s->id);
    hr_print(p, "%s *const end_%d = joins ? (%s *)collector_place(%s) - i : q%d;", type, s->id, type,
             pass->meeting_at, s->id);
}

void hr_lane_end_leave(hr_printer *p, const hr_lane_pass *pass) {
    const hr_lane_step *s = pass->meeting;
    if (!s) return;
    hr_print(p, "if (joins) collector_leave(%s, (i - from_%d) * %d);", pass->meeting_at, s->id,
             (int)hr_dtype_size(p->function->tensors[s->tensor].dtype));
    p->joined = -1;
}

void hr_lane_tail_begin(hr_printer *p, const hr_lane_pass *pass) {
    if (!pass->meeting) return;
    hr_print(p, "if (joins) collector_pass(%s, q%d + i);", pass->meeting_at, pass->meeting->id);
    hr_print(p, "{");
    p->indent++;
    hr_lane_end_begin(p, pass);
}

void hr_lane_tail_leave(hr_printer *p, const hr_lane_pass *pass) {
    if (!pass->meeting) return;
    hr_lane_end_leave(p, pass);
    p->indent--;
    hr_print(p, "}");
}

/* ---- stores past the caches: alignment ---- */

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
    return hr_lane_first_stream(pass) && !pass->block && (!pass->state || pass->shifts);
}

/* The lines in which a row's results end, once a row. */
static void prefetch_ends(hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++) {
        const hr_lane_step *s = &pass->steps[i];
        if (s->use != HR_LANE_STORE || !s->stream || s == pass->meeting) continue;
        hr_print(p, "%sstream_prefetch_end(q%d + %s, %s);", pass->shifts ? "if (!first) " : "", s->id,
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
    return hr_format(p, "%s + (%s < %d ? 0 : %d)", head, hr_emit_index_size(p, p->lane),
                     PAGE_BYTES / size / pass->group, BYTES_AHEAD / size);
}

/* Parts of a row whose results are streamed begin at its aligned vectors. */
void hr_lane_print_shifted(hr_printer *p, const hr_lane_pass *pass, const char **first, const char **last) {
    if (!pass->shifts || !hr_lane_first_stream(pass)) return;
    const char *size = hr_emit_index_size(p, p->lane);
    hr_print(p, "const int64_t shift = %s;", stream_shift(p, pass));
    hr_print(p, "const int64_t start = %s ? %s + shift : 0, stop = %s + shift < %s ? %s + shift : %s;",
             *first, *first, *last, size, *last, size);
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
                 p->body == HR_BODY_WHOLE ? "true" : hr_format(p, "aligned_%d", s->id));
    }
}
