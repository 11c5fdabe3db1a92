/* Sums over groups of whole-number dots, hr_dots. In: a stage. Out: text. See stage_dots.h.
 *
 * A lane is a result. A vector of words, four bytes a lane, meets one word of the other factor, which all
 * lanes share; each product of the text has a sum of its own, so that none waits for the one before. A
 * group's sum is exact and becomes f32 in the value of the step. So many groups add up in f32 before a total
 * takes them.
 */
#include "emit/c/stage_dots.h"

#include "emit/c/lane_store.h"
#include "ir/visit.h"

#include <inttypes.h>

static void open_loop(hr_printer *p, int index) {
    const char *name = hr_emit_index(p, index);
    hr_print(p, "for (int64_t %s = 0; %s < %s; %s++) {", name, name, hr_emit_index_size(p, index), name);
    p->indent++;
}

static void close_loops(hr_printer *p, int count) {
    for (; count > 0; count--)
        hr_print_close(p);
}

/* ---- a group's dots ---- */

static const char *bytes_text(hr_printer *p, const hr_expr *node);

static const char *bytes_operation(hr_printer *p, const hr_expr *node, const char *sign, int64_t number) {
    const char *left = bytes_text(p, node->args[0]);
    if (number >= 0) return hr_format(p, "(%s %s %" PRId64 ")", left, sign, number);
    return hr_format(p, "(%s %s %s)", left, sign, bytes_text(p, node->args[1]));
}

/* Vectors of four bytes a lane. */
static const char *bytes_text(hr_printer *p, const hr_expr *node) {
    const int axes = node->op == HR_OP_ELEMENT ? p->function->tensors[node->tensor].rank - 2 : 0;
    switch (node->op) {
    case HR_OP_ELEMENT:
        return hr_format(p, "vb_load(%s + %s + i * 4)", hr_emit_tensor(p, node->tensor),
                         hr_emit_offset(p, node->tensor, node->args, axes));
    case HR_OP_NUMBER:
        return hr_format(p, "vb_of(%" PRId64 ")", node->whole);
    case HR_OP_MOD:
        return bytes_operation(p, node, "&", node->args[1]->whole - 1);
    case HR_OP_FLOORDIV:
        return bytes_operation(p, node, ">>", __builtin_ctzll((uint64_t)node->args[1]->whole));
    case HR_OP_SHIFT_RIGHT:
        return bytes_operation(p, node, ">>", node->args[1]->whole);
    case HR_OP_BIT_AND:
        return bytes_operation(p, node, "&", -1);
    case HR_OP_BIT_OR:
        return bytes_operation(p, node, "|", -1);
    case HR_OP_MUL:
        return bytes_operation(p, node, "*", -1);
    default:
        return bytes_operation(p, node, "+", -1);
    }
}

static void print_vector_dots(hr_printer *p, const hr_dots *dots, int number) {
    p->vector = false; /* places are scalars */
    for (int i = 0; i < dots->count; i++) {
        const hr_expr *word = dots->dot[i].word;
        const int axes = p->function->tensors[word->tensor].rank - 1;
        hr_print(p, "dot_%d_%d = vi_dot_bytes(dot_%d_%d, %s, %s + %s);", number, i, number, i,
                 bytes_text(p, dots->dot[i].bytes), hr_emit_tensor(p, word->tensor),
                 hr_emit_offset(p, word->tensor, word->args, axes));
    }
    p->vector = true;
}

static void print_scalar_dots(hr_printer *p, const hr_dots *dots, int number) {
    open_loop(p, dots->byte);
    for (int i = 0; i < dots->count; i++)
        hr_print(p, "dot_%d_%d += %s * %s;", number, i, hr_expr_text(p, dots->dot[i].bytes),
                 hr_expr_text(p, dots->dot[i].word));
    close_loops(p, 1);
}

static void print_group(hr_printer *p, const hr_dots *dots, int number) {
    const char *sum = "";
    for (int i = 0; i < dots->count; i++) {
        hr_print(p, p->vector ? "vi dot_%d_%d = vi_of(0);" : "int32_t dot_%d_%d = 0;", number, i);
        sum = hr_format(p, "%s%sdot_%d_%d", sum, i ? " + " : "", number, i);
    }
    for (int i = 0; i < dots->word_count; i++) {
        hr_text_format(p->out, "#pragma GCC unroll 8\n");
        open_loop(p, dots->words[i]);
    }
    if (p->vector)
        print_vector_dots(p, dots, number);
    else
        print_scalar_dots(p, dots, number);
    close_loops(p, dots->word_count);
    hr_print(p, "const %s dot_%d = %s;", p->vector ? "vi" : "int64_t", number, sum);
}

/* ---- the sum of the groups ---- */

static hr_visit is_sum(const hr_expr *node, const void *dots) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && node->tensor == ((const hr_dots *)dots)->sum);
}

/* What no memory is read for. */
static void name_sums(hr_printer *p, const hr_expr *value, bool named) {
    for (int i = 0; i < p->stage->dots_count; i++) {
        const hr_expr *sum = hr_expr_find(value, is_sum, &p->stage->dots[i]);
        p->buffer[sum->id] = named ? hr_format(p, "dot_%d", i) : NULL;
    }
}

static void print_value(hr_printer *p, const hr_expr *value) {
    const hr_stage *stage = p->stage;
    hr_expr_prepare(p, value, HR_AT_OUTER);
    for (int i = 0; i < stage->dots_count; i++)
        print_group(p, &stage->dots[i], i);
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, value);
    for (int i = 0; i < stage->dots_count; i++) {
        const hr_expr *sum = hr_expr_find(value, is_sum, &stage->dots[i]);
        p->name[sum->id] = p->buffer[sum->id];
    }
    hr_print(p, "sum = sum + %s;", p->vector ? hr_expr_lanes(p, value) : hr_expr_text(p, value));
    hr_printer_forget(p, HR_AT_OUTER);
}

/* Groups of a chain, along the first index of the sum: all that the others come to are one step of it. */
static int64_t chain_of(const hr_printer *p) {
    int64_t inside = 1;
    for (int i = 1; i < p->outer_count; i++)
        inside *= p->function->indices[p->outer[i]].extent->whole;
    return HR_CHAIN_ADDENDS / inside;
}

static void print_sum(hr_printer *p, const hr_expr *value) {
    const char *type = p->vector ? "vf" : "float", *zero = p->vector ? "vf_of(0)" : "0";
    const char *size = hr_emit_index_size(p, p->outer[0]), *group = hr_emit_index(p, p->outer[0]);
    const int64_t chain = chain_of(p);
    hr_print(p, "%s total = %s;", type, zero);
    hr_print(p, "for (int64_t chain = 0; chain < %s; chain += %" PRId64 ") {", size, chain);
    p->indent++;
    hr_print(p, "const int64_t chain_end = %s - chain < %" PRId64 " ? %s : chain + %" PRId64 ";", size, chain,
             size, chain);
    hr_print(p, "%s sum = %s;", type, zero);
    hr_print(p, "for (int64_t %s = chain; %s < chain_end; %s++) {", group, group, group);
    p->indent++;
    for (int i = 1; i < p->outer_count; i++)
        open_loop(p, p->outer[i]);
    print_value(p, value);
    close_loops(p, p->outer_count);
    hr_print(p, "total = total + sum;");
    close_loops(p, 1);
}

void hr_stage_dots(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    const hr_lane_step lane = {.use = HR_LANE_STORE,
                               .value = step->value,
                               .tensor = hr_stage_statement(s, step)->tensor,
                               .subscripts = step->subscripts};
    name_sums(p, step->value, true);
    hr_expr_prepare(p, step->value, HR_AT_TASK);
    if (hr_lane_stores_in_row(p, &lane)) hr_lane_print_target(p, &lane);
    hr_print(p, "for (int64_t i = 0; i < %s; i += %s) {", hr_emit_index_size(p, p->lane),
             p->vector ? "HR_LANES" : "1");
    p->indent++;
    print_sum(p, step->value);
    hr_lane_print_store(p, &lane, "total");
    close_loops(p, 1);
    name_sums(p, step->value, false);
    hr_printer_forget(p, HR_AT_TASK);
}
