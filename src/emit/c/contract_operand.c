/* How an operand's elements are evaluated while a product packs them. In: a stage. Out: C. See
 * contract_operand.h. */
#include "emit/c/contract_operand.h"

#include "emit/c/function_c.h"

#include <string.h>

/* The values of a flattened group's indices: `last` gets the last one's value, NULL = that index does.
 * `type`: of the variables. */
static void print_digits_as(hr_printer *p, const char *type, const int *group, int count, const char *flat,
                            const char *last) {
    const char *rest = flat;
    for (int i = count - 1; i >= 0; i--) {
        const char *name = i == count - 1 && last ? last : hr_emit_index(p, group[i]);
        const char *size = i ? hr_emit_index_size(p, group[i]) : "";
        hr_print(p, i == 0 ? "%s %s = %s;" : "%s %s = %s %% (%s);", type, name, rest, size);
        if (i > 0) rest = hr_format(p, "%s / (%s)", rest, size);
    }
}

void hr_product_digits(hr_printer *p, const int *group, int count, const char *flat, const char *last) {
    print_digits_as(p, "const int64_t", group, count, flat, last);
}

/* One element or vector of the operand into line[...]. `whole`: there is room for a whole vector. */
static void print_value(hr_printer *p, const hr_expr *value, const char *line, const char *origin,
                        bool whole) {
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, value);
    const char *at = strcmp(origin, "0") == 0 ? "i" : hr_format(p, "(i - %s)", origin);
    if (!p->vector) {
        const char *text = hr_expr_text(p, value);
        hr_print(p, "%s[%s] = %s;", line, at, text);
        return;
    }
    const char *text = hr_expr_lanes(p, value);
    if (p->body == HR_BODY_PART && !whole)
        hr_print(p, "vf_store_part_f32(%s + %s, %s, lanes);", line, at, text);
    else
        hr_print(p, "vf_store_f32(%s + %s, %s);", line, at, text);
}

/* How far an element's memory goes on; NULL where that is not plain. */
static const char *ahead_text(hr_printer *p, const hr_walked_operand *operand, const hr_expr *element) {
    const hr_tensor *tensor = &p->function->tensors[element->tensor];
    const char *text = "ahead";
    if (operand->ahead == p->lane) return text;
    int axis = 0;
    while (axis < tensor->rank &&
           !(element->args[axis]->op == HR_OP_INDEX && element->args[axis]->index == operand->ahead))
        axis++;
    if (axis == tensor->rank) return NULL;
    while (++axis < tensor->rank)
        text = hr_format(p, "%s * %s", text, hr_emit_size(p, tensor->shape[axis]));
    return text;
}

/* Blocks of an operand are so short along memory that nobody else would fetch the next one. The place need
 * not be in range: to prefetch never faults. */
typedef struct prefetching {
    hr_printer *p;
    const hr_walked_operand *operand;
} prefetching;

static hr_visit is_of_lanes(void *context, const hr_expr *node) {
    return hr_expr_level(((const prefetching *)context)->p, node) == HR_AT_LANE ? HR_VISIT_ON : HR_VISIT_PAST;
}

static void print_prefetch(void *context, const hr_expr *node) {
    const prefetching *a = context;
    hr_printer *p = a->p;
    if (node->op != HR_OP_ELEMENT || !p->pointer[node->id]) return;
    const char *text = ahead_text(p, a->operand, node);
    if (text) hr_print(p, "prefetch_read(%s + i + %s);", hr_expr_pointer(p, node), text);
}

static void print_ahead(hr_printer *p, const hr_walked_operand *operand) {
    prefetching a = {p, operand};
    hr_walk walk = {.enter = is_of_lanes, .leave = print_prefetch, .context = &a};
    hr_walk_through(&walk, operand->value);
    hr_printer_walked(p, &walk);
}

/* line[i - first] = value for i from `begin` to `last` of the lane's index. */
static void print_lanes(hr_printer *p, const hr_walked_operand *operand, const char *first, const char *begin,
                        const char *last) {
    const hr_expr *value = operand->value;
    if (!p->vector) {
        p->checks = false;
        hr_text body, *out = hr_print_aside(p, &body);
        print_value(p, value, "line", first, false);
        hr_print_back(p, out);
        if (!p->checks) hr_print(p, "#pragma omp simd");
        hr_print(p, "for (int64_t i = %s; i < %s; i++) {", begin, last);
        hr_print_body(p, &body);
        hr_print(p, "}");
        return;
    }
    hr_print(p, "int64_t i = %s;", begin);
    hr_print_open(p, hr_format(p, "for (; i + HR_LANES <= %s; i += HR_LANES) {", last));
    if (operand->ahead >= 0) print_ahead(p, operand);
    print_value(p, value, "line", first, false);
    hr_print_close(p);
    hr_print_open(p, hr_format(p, "if (i < %s) {", last));
    hr_print(p, "const int lanes = (int)(%s - i);", last);
    p->body = HR_BODY_PART;
    print_value(p, value, "line", first, operand->whole);
    p->body = HR_BODY_VECTOR;
    hr_print_close(p);
}

static void prepare_run(hr_printer *p, const hr_expr *value) {
    hr_expr_prepare(p, value, HR_AT_TASK);
    hr_expr_prepare(p, value, HR_AT_OUTER);
}

/* Where the next run of a group begins: divided once, then counted on. */
static void print_next_digits(hr_printer *p, const hr_walked_group *lane) {
    hr_print(p, "first = 0;");
    for (int i = lane->count - 2; i > 0; i--) {
        const char *name = hr_emit_index(p, lane->index[i]);
        hr_print_open(p, hr_format(p, "if (++%s == (%s)) {", name, hr_emit_index_size(p, lane->index[i])));
        hr_print(p, "%s = 0;", name);
    }
    hr_print(p, "%s++;", hr_emit_index(p, lane->index[0]));
    for (int i = lane->count - 2; i > 0; i--)
        hr_print_close(p);
}

void hr_product_begin(hr_printer *p, const hr_stage *of, const hr_walked_group *outer,
                      const hr_walked_group *lane, bool vector) {
    hr_stage *stage = hr_arena_alloc(p->arena, sizeof *stage);
    *stage = *of;
    stage->row_count = outer->count + lane->count;
    stage->row = hr_arena_alloc(p->arena, (size_t)stage->row_count * sizeof *stage->row);
    memcpy(stage->row, outer->index, (size_t)outer->count * sizeof *stage->row);
    memcpy(stage->row + outer->count, lane->index, (size_t)lane->count * sizeof *stage->row);
    stage->schedule = hr_arena_alloc(p->arena, sizeof *stage->schedule);
    *stage->schedule = *of->schedule;
    stage->schedule->lanes = vector ? HR_LANES_VECTOR : HR_LANES_SCALAR;
    hr_printer_stage(p, stage);
}

/* ---- operands in segments ---- */

/* A whole run, from line[at] on. */
static void print_segments(hr_segmented *s, const char *at) {
    hr_printer *q = &s->printer;
    for (int i = 0; i < s->segments->run / HR_SEGMENT; i++) {
        hr_segmented_open(s);
        print_value(q, s->segments->value[i], hr_format(q, "line + %s + %d", at, i * HR_SEGMENT), "0", true);
        hr_print_close(q);
    }
}

/* Whole runs from `first` on, which begin at multiples of their length. The next one begins at `at` then. */
static void print_counted_runs(hr_printer *p, hr_segmented *s, const char *first) {
    const int run = s->segments->run;
    hr_print(p, "int64_t at = %s;", first);
    hr_print_open(p, hr_format(p, "for (; at %% %d == 0 && at + %d <= last; at += %d) {", run, run, run));
    hr_segmented_run(p, s, "at", "ahead");
    print_segments(s, hr_format(p, "(at - %s)", first));
    hr_print_close(hr_printer_switch_to(p, &s->printer));
}

/* Runs that are all of the group's last index, up to the next that is not. */
static void print_whole_runs(hr_printer *p, hr_segmented *s, const hr_walked_group *lane, const char *line) {
    const int run = s->segments->run;
    const char *size = hr_emit_index_size(p, lane->index[lane->count - 1]);
    hr_print_open(p, hr_format(p, "for (; (%s) == %d && first == 0 && %s - done >= %d; done += %d) {", size,
                               run, lane->length, run, run));
    hr_print(p, "float *const line = %s + done;", line);
    hr_segmented_run(p, s, "first", "ahead");
    print_segments(s, "0");
    print_next_digits(hr_printer_switch_to(p, &s->printer), lane);
    hr_print_close(p);
    hr_print(p, "if (done == %s) break;", lane->length);
}

void hr_product_runs(hr_printer *p, const hr_walked_group *lane, const hr_walked_operand *operand,
                     const char *line, hr_segmented *segments) {
    const hr_expr *value = operand->value;
    if (lane->count == 1) {
        hr_print(p, "%s *const line = %s;", hr_c_compute(value->type), line);
        hr_print(p, "const int64_t last = %s + %s;", lane->from, lane->length);
        if (segments) print_counted_runs(p, segments, lane->from);
        prepare_run(p, value);
        print_lanes(p, operand, lane->from, segments ? "at" : lane->from, "last");
        return;
    }
    const char *size = hr_emit_index_size(p, lane->index[lane->count - 1]);
    print_digits_as(p, "int64_t", lane->index, lane->count, lane->from, "first");
    hr_print_open(p, hr_format(p, "for (int64_t done = 0, run; done < %s; done += run) {", lane->length));
    if (segments) print_whole_runs(p, segments, lane, line);
    hr_print(p, "run = %s - done < (%s) - first ? %s - done : (%s) - first;", lane->length, size,
             lane->length, size);
    prepare_run(p, value);
    hr_print(p, "%s *const line = %s + done;", hr_c_compute(value->type), line);
    hr_print(p, "const int64_t last = first + run;");
    print_lanes(p, operand, "first", "first", "last");
    print_next_digits(p, lane);
    hr_print_close(p);
}

void hr_product_function(hr_product_printer *s, const char *suffix, const char *parameters, hr_text *body) {
    hr_emit_function(s->p, "static void", hr_format(s->p, "stage_%d%s", s->number, suffix), parameters, body);
}

void hr_product_batch(hr_product_printer *s) {
    const hr_contract *c = s->contract;
    if (c->batch_count)
        hr_product_digits(s->p, c->batch, c->batch_count, "batch", NULL);
    else
        hr_print(s->p, "(void)batch;");
}

void hr_product_operand(hr_product_printer *s, hr_product_part part) {
    static const hr_contract_lane scalars = {.along_k = true};
    static const hr_segments none = {0};
    hr_printer *p = s->p;
    const hr_contract *c = s->contract;
    const struct {
        const char *suffix;
        const hr_expr *value;
        const hr_contract_lane *lane;
        const hr_segments *segments;
        int *rows, row_count, *deep, deep_count;
    } parts[] = {{"_left", c->left, &c->left_lane, &c->left_segments, c->m, c->m_count, c->k, c->k_count},
                 {"_right", c->right, &c->right_lane, &c->right_segments, c->n, c->n_count, c->k, c->k_count},
                 {"_seen", c->seen, &scalars, &none, c->m, c->m_count, c->k, c->k_count},
                 {"_mask", c->mask, &c->mask_lane, &none, c->m, c->m_count, c->n, c->n_count}},
      *of = &parts[part];
    const hr_expr *value = of->value;
    const hr_contract_lane *lane = of->lane;
    hr_walked_group rows = {of->rows, of->row_count, "row", "rows"};
    hr_walked_group deep = {of->deep, of->deep_count, "k", "depth"};
    const hr_walked_group *outer = lane->along_k ? &rows : &deep, *inner = lane->along_k ? &deep : &rows;
    hr_product_begin(p, s->stage, outer, inner, lane->vector);
    hr_text body, *out = hr_print_aside(p, &body);
    hr_product_batch(s);
    hr_expr_prepare(p, value, HR_AT_TASK);
    hr_segmented apart;
    const bool parted = of->segments->run && hr_segmented_begin(p, of->segments, &apart);
    hr_print_open(p, hr_format(p, "for (int64_t place = 0; place < %s; place++) {", outer->length));
    hr_product_digits(p, outer->index, outer->count, hr_format(p, "(%s + place)", outer->from), NULL);
    hr_walked_operand walked = {value, part == HR_PRODUCT_MASK ? -1 : c->k[c->k_count - 1], false};
    hr_product_runs(p, inner, &walked, "to + place * stride", parted ? &apart : NULL);
    hr_print_close(p);
    if (parted) hr_segmented_end(&apart);
    hr_print_back(p, out);
    const char *parameters =
        hr_format(p,
                  "const arguments *a, int64_t batch, int64_t row, int64_t rows, int64_t k, "
                  "int64_t depth, %s *to, int64_t stride, int64_t ahead",
                  hr_c_compute(value->type));
    hr_product_function(s, of->suffix, parameters, &body);
}
