/* Scans and topk in C. In: a stage. Out: text. See stage_scan.h.
 *
 * Elements are computed a block at a time, in loops that the compiler makes vectors of; templates/cpu/scans.h
 * joins those of a block. Along an axis that is not the last one a task is a strip of columns, each with a
 * state of its own. Where there are fewer rows than threads, each thread first finds what its part of a row
 * comes to.
 */
#include "emit/c/stage_scan.h"

#include "emit/reduce.h"
#include "ir/types.h"
#include "ir/visit.h"

enum { BLOCK = 256, STRIP = 128 };

/* ---- what the stage is ---- */

static const hr_step *step_of(const hr_stage *stage) {
    return &stage->steps[0];
}

static const hr_expr *value_of(const hr_stage_printer *s) {
    return hr_stage_statement(s, step_of(s->stage))->value;
}

/* The last index of what is written, where it is not the one that the scan goes along; -1 = it is. */
static int column_of(const hr_function *function, const hr_stage *stage) {
    const hr_statement *statement = &function->statements[step_of(stage)->statement];
    const int last = statement->domain[statement->domain_count - 1];
    return last == stage->row[0] ? -1 : last;
}

bool hr_stage_has_parts(const hr_stage *stage) {
    return stage->shape == HR_SHAPE_SCAN;
}

static const char *state_type(const hr_expr *scan) {
    return hr_type_is_float(scan->type) ? "double" : "int64_t";
}

/* ---- loops ---- */

static void open(hr_printer *p, const char *loop) {
    hr_print(p, "%s {", loop);
    p->indent++;
    hr_printer_forget(p, HR_AT_TASK);
}

static void shut(hr_printer *p) {
    p->indent--;
    hr_print(p, "}");
    hr_printer_forget(p, HR_AT_TASK);
}

/* The place of element `at` along the row: a scan from the end counts back. */
static void print_place(hr_stage_printer *s, const char *at) {
    hr_printer *p = s->p;
    const int along = s->stage->row[0];
    hr_emit_scan_place(p, value_of(s), along, at);
    hr_print(p, "(void)%s;", hr_emit_index(p, along));
}

static void print_store(hr_stage_printer *s, const char *text, hr_dtype type) {
    hr_printer *p = s->p;
    const hr_step *step = step_of(s->stage);
    const hr_statement *statement = hr_stage_statement(s, step);
    hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, step->subscripts, statement->subscript_count),
             hr_emit_stored(p, text, type, hr_stage_target(s, step)->dtype));
}

/* ---- a scan along memory ---- */

/* Factors and rests of `count` elements from `block` on. */
static void print_elements(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    const char *type = hr_c_compute(scan->type);
    hr_print(p, "%s rest[%d]%s;", type, BLOCK,
             hr_scan_is_sum(scan) ? "" : hr_format(p, ", factor[%d]", BLOCK));
    open(p, "for (int64_t k = 0; k < count; k++)");
    print_place(s, "block + k");
    const char *rest = hr_expr_text(p, scan->args[1]);
    hr_print(p, "rest[k] = %s;", rest);
    if (!hr_scan_is_sum(scan)) hr_print(p, "factor[k] = %s;", hr_expr_text(p, scan->args[0]));
    shut(p);
}

/* rest[] becomes the values, `carry` the last. */
static void print_join(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    if (scan->type == HR_F32) {
        hr_print(p, hr_scan_is_sum(scan) ? "carry = scan_sums_f32(rest, count, carry);"
                                         : "carry = scan_affine_f32(factor, rest, count, carry);");
        return;
    }
    hr_print(p, "for (int64_t k = 0; k < count; k++)");
    hr_print(p, "    rest[k] = carry = %scarry + rest[k];", hr_scan_is_sum(scan) ? "" : "factor[k] * ");
}

static void open_blocks(hr_stage_printer *s, const char *first, const char *last) {
    hr_printer *p = s->p;
    open(p, hr_format(p, "for (int64_t block = %s; block < %s; block += %d)", first, last, BLOCK));
    hr_print(p, "const int64_t count = %s - block < %d ? %s - block : %d;", last, BLOCK, last, BLOCK);
}

/* The elements from `first` to `last` of a row. */
static void print_row(hr_stage_printer *s, const char *first, const char *last) {
    hr_printer *p = s->p;
    open_blocks(s, first, last);
    print_elements(s);
    print_join(s);
    open(p, "for (int64_t k = 0; k < count; k++)");
    print_place(s, "block + k");
    print_store(s, "rest[k]", value_of(s)->type);
    shut(p);
    shut(p);
}

/* What is carried to the first element. */
static void print_start(hr_stage_printer *s) {
    const hr_expr *scan = value_of(s);
    hr_print(s->p, "%s carry = (%s)%s;", state_type(scan), state_type(scan),
             hr_stage_scalar(s, scan->args[2]));
}

/* A thread's part of a row, in whole blocks. */
static void print_part(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *size = hr_emit_index_size(p, s->stage->row[0]);
    hr_print(p, "const int64_t blocks = (%s + %d) / %d, until = blocks * (thread + 1) / threads * %d;", size,
             BLOCK - 1, BLOCK, BLOCK);
    hr_print(p, "const int64_t first = blocks * thread / threads * %d, last = until < %s ? until : %s;",
             BLOCK, size, size);
}

/* Parts are of f64, or of whole numbers that wrap: factor and rest. */
static void print_parts_of_row(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    const char *type = state_type(scan);
    hr_print(p, "%s *const parts = (%s *)(void *)work;", type, type);
    open(p, "for (int64_t task = 0; task < tasks; task++)");
    hr_stage_task_indices(s);
    hr_print(p, "%s product = 1, carry = 0;", type);
    open_blocks(s, "first", "last");
    print_elements(s);
    hr_print(p, "for (int64_t k = 0; k < count; k++)");
    hr_print(p, "    carry = %scarry + rest[k]%s;", hr_scan_is_sum(scan) ? "" : "factor[k] * ",
             hr_scan_is_sum(scan) ? "" : ", product *= factor[k]");
    shut(p);
    hr_print(p, "parts[2 * (task * threads + thread)] = product;");
    hr_print(p, "parts[2 * (task * threads + thread) + 1] = carry;");
    shut(p);
}

void hr_stage_scan_parts(hr_stage_printer *s) {
    hr_printer *p = s->p;
    if (column_of(s->function, s->stage) >= 0) {
        hr_print(p, "(void)a, (void)thread, (void)threads, (void)work;");
        return;
    }
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    hr_print(p, "if (tasks >= threads) return;");
    print_part(s);
    print_parts_of_row(s);
}

/* Few rows: every thread has a part of each. */
static void print_shared_rows(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *type = state_type(value_of(s));
    open(p, "if (tasks < threads)");
    print_part(s);
    hr_print(p, "const %s *const parts = (const %s *)(const void *)work;", type, type);
    open(p, "for (int64_t task = 0; task < tasks; task++)");
    hr_stage_task_indices(s);
    print_start(s);
    hr_print(p, "for (int64_t t = 0; t < thread; t++)");
    hr_print(p, "    carry = parts[2 * (task * threads + t)] * carry + parts[2 * (task * threads + t) + 1];");
    print_row(s, "first", "last");
    shut(p);
    hr_print(p, "return;");
    shut(p);
}

static void print_rows(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *size = hr_emit_index_size(p, s->stage->row[0]);
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    print_shared_rows(s);
    open(p, "for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++)");
    hr_stage_task_indices(s);
    print_start(s);
    print_row(s, "0", size);
    shut(p);
}

/* ---- a scan across memory ---- */

/* Tasks without the columns, a strip of which is a task. */
static void print_columns(hr_stage_printer *s, int column) {
    hr_printer *p = s->p;
    hr_stage outer = *s->stage;
    const hr_stage *whole = s->stage;
    const hr_expr *scan = value_of(s);
    const char *size = hr_emit_index_size(p, whole->row[0]), *columns = hr_emit_index_size(p, column);
    int outer_task[HR_AXES_MAX * 2];
    outer.task_count = 0;
    outer.task = outer_task;
    for (int i = 0; i < whole->task_count; i++)
        if (whole->task[i] != column) outer_task[outer.task_count++] = whole->task[i];
    hr_print(p, "const int64_t strips = (%s + %d) / %d;", columns, STRIP - 1, STRIP);
    hr_print(p, "const int64_t shares = strips * %s;", hr_emit_points(p, outer.task, outer.task_count));
    open(p,
         "for (int64_t share = shares * thread / threads; share < shares * (thread + 1) / threads; share++)");
    hr_print(p, "const int64_t task = share / strips, from = share %% strips * %d;", STRIP);
    hr_print(p, "const int64_t width = %s - from < %d ? %s - from : %d;", columns, STRIP, columns, STRIP);
    hr_print(p, "(void)task;");
    s->stage = &outer;
    hr_stage_task_indices(s);
    s->stage = whole;
    hr_print(p, "%s state[%d];", state_type(scan), STRIP);
    open(p, "for (int64_t k = 0; k < width; k++)");
    hr_print(p, "const int64_t %s = from + k;", hr_emit_index(p, column));
    hr_print(p, "(void)%s;", hr_emit_index(p, column));
    hr_print(p, "state[k] = (%s)%s;", state_type(scan), hr_stage_scalar(s, scan->args[2]));
    shut(p);
    open(p, hr_format(p, "for (int64_t at = 0; at < %s; at++)", size));
    print_place(s, "at");
    open(p, "for (int64_t k = 0; k < width; k++)");
    hr_print(p, "const int64_t %s = from + k;", hr_emit_index(p, column));
    const char *rest = hr_expr_text(p, scan->args[1]);
    const char *factor = hr_scan_is_sum(scan) ? "" : hr_format(p, "%s * ", hr_expr_text(p, scan->args[0]));
    hr_print(p, "state[k] = %sstate[k] + %s;", factor, rest);
    print_store(s, hr_format(p, "(%s)state[k]", hr_c_compute(scan->type)), scan->type);
    shut(p);
    shut(p);
    shut(p);
}

/* ---- the largest in order ---- */

static int rank_index(const hr_stage_printer *s) {
    return value_of(s)->args[1]->index;
}

/* `one` of the elements' type as a whole number in their order, and back. */
static const char *order_text(hr_printer *p, hr_dtype type, const char *one) {
    return hr_type_is_float(type) ? hr_format(p, "order_f64(%s)", one) : hr_format(p, "(int64_t)%s", one);
}

static const char *value_text(hr_printer *p, hr_dtype type, const char *order) {
    const char *c = hr_c_compute(type);
    return hr_type_is_float(type) ? hr_format(p, "(%s)order_value_f64(%s)", c, order)
                                  : hr_format(p, "(%s)%s", c, order);
}

static void print_taking(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *body = step_of(s->stage)->value;
    const char *type = hr_c_compute(body->type);
    open_blocks(s, "0", hr_emit_index_size(p, s->stage->row[0]));
    hr_print(p, "%s value[%d];", type, BLOCK);
    open(p, "for (int64_t k = 0; k < count; k++)");
    print_place(s, "block + k");
    hr_print(p, "value[k] = %s;", hr_expr_text(p, body));
    shut(p);
    hr_print(p, "int larger = held < most; /* some element is among the largest so far, or may be */");
    hr_print(p, "for (int64_t k = 0; k < count; k++)");
    hr_print(p, "    larger |= !(value[k] <= least);");
    open(p, "for (int64_t k = 0; k < count && larger; k++)");
    hr_print(p, "if (held == most && value[k] <= least) continue;");
    hr_print(p, "held = ordered_take(heap, held, most, (ordered){%s, block + k});",
             order_text(p, body->type, "value[k]"));
    hr_print(p, "least = %s;", value_text(p, body->type, "heap[0].order"));
    shut(p);
    shut(p);
}

static void print_topk(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *body = step_of(s->stage)->value;
    const char *rank = hr_emit_index(p, rank_index(s)), *type = hr_c_compute(body->type);
    hr_print(p, "const int64_t tasks = %s, most = %s;", hr_stage_task_total(s),
             hr_emit_index_size(p, rank_index(s)));
    hr_print(p, "ordered *const heap = (ordered *)(void *)work + thread * most;");
    hr_print(p, "if (most == 0) return;");
    open(p, "for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++)");
    hr_stage_task_indices(s);
    hr_print(p, "int64_t held = 0;");
    hr_print(p, "%s least = 0;", type);
    print_taking(s);
    hr_print(p, "ordered_sort(heap, held);");
    open(p, hr_format(p, "for (int64_t %s = 0; %s < held; %s++)", rank, rank, rank));
    print_store(s, hr_format(p, "heap[%s].place", rank), HR_I64);
    shut(p);
    shut(p);
}

/* ---- the stage ---- */

void hr_stage_ordered(hr_stage_printer *s) {
    const int column = s->stage->shape == HR_SHAPE_SCAN ? column_of(s->function, s->stage) : -1;
    if (s->stage->shape == HR_SHAPE_TOPK)
        print_topk(s);
    else if (column >= 0)
        print_columns(s, column);
    else
        print_rows(s);
}

const hr_size *hr_ordered_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads) {
    const hr_size *word = hr_size_word(sizes, "threads", threads);
    if (stage->shape == HR_SHAPE_TOPK) {
        const hr_expr *value = plan->normal->statements[stage->steps[0].statement].value;
        const hr_size *most = hr_size_points(sizes, plan->normal, &value->args[1]->index, 1);
        return hr_size_product(sizes, hr_size_product(sizes, word, hr_size_number(sizes, 16)), most);
    }
    if (column_of(plan->normal, stage) >= 0) return hr_size_number(sizes, 0);
    return hr_size_product(sizes, hr_size_product(sizes, word, word), hr_size_number(sizes, 16));
}
