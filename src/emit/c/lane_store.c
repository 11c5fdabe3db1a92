/* How a pass's results leave. In: a step. Out: text. See lane_store.h. */
#include "emit/c/lane_store.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_stream.h"

#include <string.h>

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
    if (hr_plan_layout(p->plan, s->tensor) == HR_LAYOUT_STRIDED) return false;
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

/* Where the elements at the ends of a row go. */
static const char *end_text(hr_printer *p, const hr_lane_step *s) {
    return hr_format(p, s->id == p->joined ? "end_%d + i" : "q%d + i", s->id);
}

/* The last argument of a streaming store: whether its address is a multiple of the vector's size. */
static const char *aligned_text(hr_printer *p, const hr_lane_step *s) {
    return !streams(s) ? "" : p->whole || s->id == p->begun ? ", true" : hr_format(p, ", aligned_%d", s->id);
}

/* Two vectors of bf16 are the words of one of f32. */
static void print_move(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *valid = p->valid[s->value->id];
    for (int way = pass->unit; way > 0; way -= 2) {
        const char *words = hr_format(p, "vf_load_f32((const float *)(const void *)(%s + i - %d * HR_LANES))",
                                      p->pointer[s->value->id], way);
        hr_print(p, "vf_%s_f32((float *)(void *)(%s - %d * HR_LANES), %s%s);",
                 streams(s) ? "stream" : "store", hr_lane_target(p, s), way,
                 valid ? hr_format(p, "(%s ? %s : vf_of(0))", valid, words) : words, aligned_text(p, s));
    }
}

/* Words that were made once leave, and stay where a later pass needs them. */
static void print_words(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *aligned = aligned_text(p, s), *target = hr_lane_target(p, s);
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
    return element ? hr_format(p, "bf16_pair_is_tiny(%s + i - %d * HR_LANES, %s)", p->pointer[element->id],
                               back, hr_expr_text(p, factor))
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
        const char *target = hr_lane_target(p, s);
        for (int way = 0; way < pass->unit; way += 2)
            hr_print(p, "vf_%s_%s_bf16(%s - %d * HR_LANES, w%d[%d], w%d[%d], %s%s);",
                     streams(s) ? "stream" : "store", p->even_odd ? "even_odd" : "pair", target,
                     pass->unit - way, s->id, way, s->id, way + 1,
                     kinds_text(p, s, tiny_text(p, s, pass->unit - way)), aligned_text(p, s));
    }
}

/* A line that leaves in parts, or by both kinds of stores, is merged with what memory holds. */
static bool leaves_in_parts(const hr_printer *p, hr_dtype dtype) {
    enum { LINE = 64 };
    return p->leftover && (size_t)hr_limits_lanes(&p->plan->limits) * hr_dtype_size(dtype) < LINE;
}

void hr_lane_print_store(hr_printer *p, const hr_lane_step *s, const char *value) {
    hr_dtype dtype = p->function->tensors[s->tensor].dtype;
    const char *stored = hr_emit_stored(p, value, s->value->type, dtype);
    const char *v = hr_compute_type(dtype) == HR_F32 ? "vf" : "vi", *name = hr_dtype_name(dtype);
    bool joined = s->id == p->joined;
    if (p->vector && streams(s) && !p->part && !joined && !leaves_in_parts(p, dtype))
        hr_print(p, "%s_stream_%s(q%d + i, %s%s);", v, name, s->id, stored, aligned_text(p, s));
    else if (p->vector && p->part)
        hr_print(p, "%s_store_part_%s(%s, %s, lanes);", v, name, end_text(p, s), stored);
    else if (p->vector)
        hr_print(p, "%s_store_%s(%s, %s);", v, name, joined ? end_text(p, s) : hr_lane_target(p, s), stored);
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
