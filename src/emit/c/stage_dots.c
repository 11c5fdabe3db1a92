/* Sums over groups of whole-number dots, hr_dots. In: a stage. Out: text. See stage_dots.h.
 *
 * A lane is a result. A vector of words, four bytes a lane, meets one word of the other factor, which all
 * lanes share; each product of the text has a sum of its own, so that none waits for the one before. A
 * group's sum is exact and becomes f32 in the value of the step. So many groups add up in f32 before a total
 * takes them.
 *
 * Where the processor's matrix unit takes bytes, sixteen tasks that are neighbours along the last index go
 * together: a group of each is a row of a tile, the lanes' words are laid out for it once.
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

static void open_chain(hr_printer *p) {
    const char *size = hr_emit_index_size(p, p->outer[0]);
    const int64_t chain = chain_of(p);
    hr_print(p, "for (int64_t chain = 0; chain < %s; chain += %" PRId64 ") {", size, chain);
    p->indent++;
    hr_print(p, "const int64_t chain_end = %s - chain < %" PRId64 " ? %s : chain + %" PRId64 ";", size, chain,
             size, chain);
}

static void open_groups(hr_printer *p) {
    const char *group = hr_emit_index(p, p->outer[0]);
    hr_print(p, "for (int64_t %s = chain; %s < chain_end; %s++) {", group, group, group);
    p->indent++;
    for (int i = 1; i < p->outer_count; i++)
        open_loop(p, p->outer[i]);
}

static void print_sum(hr_printer *p, const hr_expr *value) {
    const char *type = p->vector ? "vf" : "float", *zero = p->vector ? "vf_of(0)" : "0";
    hr_print(p, "%s total = %s;", type, zero);
    open_chain(p);
    hr_print(p, "%s sum = %s;", type, zero);
    open_groups(p);
    print_value(p, value);
    close_loops(p, p->outer_count);
    hr_print(p, "total = total + sum;");
    close_loops(p, 1);
}

/* ---- sixteen tasks by the matrix unit ---- */

enum { TILE_ROWS = 16, TILE_WORDS = 16 };

static int words_of(const hr_printer *p, const hr_dots *dots) {
    int64_t words = dots->count;
    for (int i = 0; i < dots->word_count && words <= TILE_WORDS; i++)
        words *= p->function->indices[dots->words[i]].extent->whole;
    return (int)words;
}

/* Bytes from where the group begins to the word at these values of the sum's indices, -1 where the text does
 * not say: *outside is set by the first axis whose subscript is neither. */
static int64_t word_place(const hr_printer *p, const hr_dots *dots, const hr_expr *word, const int64_t *at) {
    const hr_tensor *tensor = &p->function->tensors[word->tensor];
    int64_t place = 0, stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        const hr_expr *subscript = word->args[axis];
        int64_t value = subscript->op == HR_OP_NUMBER ? subscript->whole : 0;
        for (int i = 0; i < dots->word_count && subscript->op == HR_OP_INDEX; i++)
            if (subscript->index == dots->words[i]) value = at[i];
        if (value && stride < 0) return -1;
        place += value * stride;
        stride =
            tensor->shape[axis]->op == HR_OP_NUMBER && stride > 0 ? stride * tensor->shape[axis]->whole : -1;
    }
    return place;
}

/* The words of a group lie one behind the other, in the order of the dots and their loops. */
static bool words_follow(const hr_printer *p, const hr_dots *dots) {
    int64_t first = -1, expected = 0;
    for (int i = 0; i < dots->count; i++) {
        int64_t at[HR_DOMAIN_MAX] = {0};
        const int64_t inside = words_of(p, dots) / dots->count;
        if (dots->dot[i].word->tensor != dots->dot[0].word->tensor) return false;
        for (int64_t w = 0; w < inside; w++, expected += 4) {
            int64_t rest = w;
            for (int k = dots->word_count - 1; k >= 0; k--) {
                const int64_t size = p->function->indices[dots->words[k]].extent->whole;
                at[k] = rest % size;
                rest /= size;
            }
            const int64_t place = word_place(p, dots, dots->dot[i].word, at);
            if (first < 0) first = place;
            if (place < 0 || place - first != expected) return false;
        }
    }
    return true;
}

static hr_visit is_index_of(const hr_expr *node, const void *index) {
    return hr_visit_until(node->op == HR_OP_INDEX && node->index == *(const int *)index);
}

/* Rows are those of the last task index. */
static bool takes_tiles(const hr_stage_printer *s) {
    const hr_printer *p = s->p;
    const hr_stage *stage = s->stage;
    if (hr_cpu_walk_of(stage)->tile_rows != TILE_ROWS || !p->vector || !hr_stage_counts_tasks(s))
        return false;
    const int row = stage->task[stage->task_count - 1];
    for (int i = 0; i < stage->dots_count; i++) {
        const hr_dots *dots = &stage->dots[i];
        if (words_of(p, dots) > TILE_WORDS || words_of(p, dots) != words_of(p, &stage->dots[0]) ||
            !words_follow(p, dots))
            return false;
        for (int k = 0; k < dots->count; k++)
            if (hr_expr_find(dots->dot[k].bytes, is_index_of, &row) ||
                !hr_expr_find(dots->dot[k].word, is_index_of, &row))
                return false;
    }
    return true;
}

/* The words of all lanes, line by line. */
static void print_lines(hr_printer *p, const hr_dots *dots, int number) {
    hr_print(p, "_Alignas(64) uint8_t lines_%d[64 * %d], *line_%d = lines_%d;", number, words_of(p, dots),
             number, number);
    for (int i = 0; i < dots->count; i++) {
        for (int k = 0; k < dots->word_count; k++)
            open_loop(p, dots->words[k]);
        p->vector = false; /* places are scalars */
        hr_print(p, "vb_store(line_%d, %s);", number, bytes_text(p, dots->dot[i].bytes));
        p->vector = true;
        hr_print(p, "line_%d += 64;", number);
        close_loops(p, dots->word_count);
    }
}

/* Where the words of the group begin, of the first row and of the next one. */
static void print_rows(hr_printer *p, const hr_dots *dots, int number, const char *row) {
    const hr_expr *word = dots->dot[0].word;
    const int axes = p->function->tensors[word->tensor].rank - 1;
    hr_print(p, "const int8_t *rows_%d[2];", number);
    hr_print(p, "for (int64_t next = 0; next < 2; next++) {");
    p->indent++;
    hr_print(p, "const int64_t %s = tile + next;", row);
    for (int i = 0; i < dots->word_count; i++)
        hr_print(p, "const int64_t %s = 0;", hr_emit_index(p, dots->words[i]));
    p->vector = false;
    hr_print(p, "rows_%d[next] = %s + %s;", number, hr_emit_tensor(p, word->tensor),
             hr_emit_offset(p, word->tensor, word->args, axes));
    p->vector = true;
    hr_print_close(p);
}

static bool have_same_bytes(const hr_dots *a, const hr_dots *b) {
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = a->dot[i].bytes == b->dot[i].bytes;
    return same;
}

/* A group of all rows: their dots, then the value of each. */
static void print_tile(hr_printer *p, const hr_expr *value, const char *row) {
    const hr_stage *stage = p->stage;
    for (int i = 0; i < stage->dots_count; i++) {
        int same = 0;
        while (!have_same_bytes(&stage->dots[same], &stage->dots[i]))
            same++;
        if (same == i) print_lines(p, &stage->dots[i], i);
        print_rows(p, &stage->dots[i], i, row);
        hr_print(p, "_Alignas(64) int32_t sums_%d[%d * 16];", i, TILE_ROWS);
        hr_print(p, "byte_tiles_dot(sums_%d, rows_%d[0], rows_%d[1] - rows_%d[0], lines_%d);", i, i, i, i,
                 same);
    }
    hr_print(p, "for (int64_t k = 0; k < %d; k++) {", TILE_ROWS);
    p->indent++;
    hr_print(p, "const int64_t %s = tile + k;", row);
    hr_expr_prepare(p, value, HR_AT_TASK);
    hr_expr_prepare(p, value, HR_AT_OUTER);
    for (int i = 0; i < stage->dots_count; i++)
        hr_print(p, "const vi dot_%d = vi_load_i32(sums_%d + k * 16);", i, i);
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, value);
    for (int i = 0; i < stage->dots_count; i++) {
        const hr_expr *sum = hr_expr_find(value, is_sum, &stage->dots[i]);
        p->name[sum->id] = p->buffer[sum->id];
    }
    hr_print(p, "sum[k] = sum[k] + %s;", hr_expr_lanes(p, value));
    hr_printer_forget(p, HR_AT_TASK);
    hr_print_close(p);
}

static void print_tile_sums(hr_printer *p, const hr_lane_step *lane, const char *row) {
    hr_print(p, "vf total[%d] = {{0}};", TILE_ROWS);
    open_chain(p);
    hr_print(p, "vf sum[%d] = {{0}};", TILE_ROWS);
    open_groups(p);
    print_tile(p, lane->value, row);
    close_loops(p, p->outer_count);
    hr_print(p, "for (int64_t k = 0; k < %d; k++)", TILE_ROWS);
    hr_print(p, "    total[k] = total[k] + sum[k];");
    close_loops(p, 1);
    hr_print(p, "for (int64_t k = 0; k < %d; k++) {", TILE_ROWS);
    p->indent++;
    hr_print(p, "const int64_t %s = tile + k;", row);
    if (hr_lane_stores_in_row(p, lane)) hr_lane_print_target(p, lane);
    hr_lane_print_store(p, lane, "total[k]");
    hr_print_close(p);
}

/* In front of a task alone. */
static void print_tiles(hr_stage_printer *s, const hr_lane_step *lane) {
    hr_printer *p = s->p;
    const int last = s->stage->task[s->stage->task_count - 1];
    const char *row = hr_emit_index(p, last);
    hr_print(p, "if (%s - %s >= %d && tasks * (thread + 1) / threads - task >= %d && byte_tiles_begin(%d)) {",
             hr_emit_index_size(p, last), row, TILE_ROWS, TILE_ROWS, words_of(p, &s->stage->dots[0]));
    p->indent++;
    hr_print(p, "const int64_t tile = %s;", row);
    hr_print(p, "for (int64_t i = 0; i < %s; i += HR_LANES) {", hr_emit_index_size(p, p->lane));
    p->indent++;
    print_tile_sums(p, lane, row);
    close_loops(p, 1);
    hr_print(p, "byte_tiles_end();");
    hr_print(p, "task += %d, %s += %d;", TILE_ROWS - 1, row, TILE_ROWS - 1);
    hr_print(p, "continue;");
    hr_print_close(p);
}

void hr_stage_dots(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    const hr_lane_step lane = {.use = HR_LANE_STORE,
                               .value = step->value,
                               .tensor = hr_stage_statement(s, step)->tensor,
                               .subscripts = step->subscripts};
    name_sums(p, step->value, true);
    if (takes_tiles(s)) print_tiles(s, &lane);
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
