/* Scans and topk as CUDA. In: a stage. Out: text. See stage_cuda_order.h.
 *
 * A scan along memory: a block a row, tile by tile, joined in f64 (templates/cuda/cuda_order.h). Of few long
 * rows blocks take parts, once to see what each comes to and once more for its values. Across memory: a
 * thread a column, which goes along it. topk: a block a row, of short rows a warp.
 */
#include "emit/cuda/stage_cuda_order.h"
#include "emit/reduce.h"

#include "emit/cuda/stage_cuda.h"
#include "ir/types.h"
#include "schedule/cuda/choose_scan.h"
#include "schedule/cuda/launches_cuda.h"

enum { COLUMN_ITEMS = 8 };

static const hr_statement *statement_of(const hr_function *function, const hr_stage *stage) {
    return &function->statements[stage->steps[0].statement];
}

static const hr_expr *value_of(const hr_cuda_stage *s) {
    return statement_of(s->function, s->stage)->value;
}

/* ---- loops ---- */

static void open(hr_printer *p, const char *loop) {
    hr_print(p, "%s {", loop);
    p->indent++;
    hr_printer_forget(p, HR_AT_TASK);
}

static void shut(hr_printer *p, const char *end) {
    p->indent--;
    hr_print(p, "}%s", end);
    hr_printer_forget(p, HR_AT_TASK);
}

static void print_place(hr_cuda_stage *s, const char *at) {
    hr_emit_scan_place(s->p, value_of(s), s->stage->row[0], at);
}

static void print_store(hr_cuda_stage *s, const char *text, hr_dtype type) {
    hr_printer *p = s->p;
    const hr_statement *statement = statement_of(s->function, s->stage);
    hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, s->stage->steps[0].subscripts, statement->subscript_count),
             hr_emit_stored(p, text, type, s->function->tensors[statement->tensor].dtype));
}

static const char *state_type(const hr_expr *scan) {
    return hr_type_is_float(scan->type) ? "double" : "int64_t";
}

static const char *scalar(hr_cuda_stage *s, const hr_expr *value) {
    hr_expr_prepare(s->p, value, HR_AT_TASK);
    return hr_expr_text(s->p, value);
}

static void print_carry(hr_cuda_stage *s, const char *name) {
    const hr_expr *scan = value_of(s);
    hr_print(s->p, "%s %s = (%s)%s;", state_type(scan), name, state_type(scan), scalar(s, scan->args[2]));
}

/* Factors and rests of a thread's elements, `at` the place of one; beyond the row what changes nothing. */
static void print_elements(hr_cuda_stage *s, int items, const char *at) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    const char *type = hr_c_compute(scan->type), *size = hr_emit_index_size(p, s->stage->row[0]);
    hr_print(p, "%s factor[%d], rest[%d];", type, items, items);
    hr_print(p, "#pragma unroll");
    open(p, hr_format(p, "for (int item = 0; item < %d; item++)", items));
    hr_print(p, "factor[item] = 1, rest[item] = 0;");
    hr_print(p, "if (%s >= %s) continue;", at, size);
    print_place(s, at);
    hr_print(p, "rest[item] = %s;", hr_expr_text(p, scan->args[1]));
    if (!hr_scan_is_sum(scan)) hr_print(p, "factor[item] = %s;", hr_expr_text(p, scan->args[0]));
    shut(p, "");
}

static void print_stores(hr_cuda_stage *s, int items, const char *at) {
    hr_printer *p = s->p;
    hr_print(p, "#pragma unroll");
    open(p, hr_format(p, "for (int item = 0; item < %d; item++)", items));
    hr_print(p, "if (%s >= %s) continue;", at, hr_emit_index_size(p, s->stage->row[0]));
    print_place(s, at);
    print_store(s, "rest[item]", value_of(s)->type);
    shut(p, "");
}

/* ---- the kernels ---- */

static int threads_of(const hr_cuda_stage *s) {
    return hr_cuda_ordered_threads(s->plan, s->stage);
}

/* The tiles of a row, or of the block's part of it: `begin` to `end`. */
static void open_tiles(hr_cuda_stage *s, int parts) {
    hr_printer *p = s->p;
    const char *size = hr_emit_index_size(p, s->stage->row[0]);
    const int tile = threads_of(s) * HR_CUDA_SCAN_ITEMS;
    if (parts > 1) {
        hr_print(p, "const int64_t tiles = (%s + %d) / %d, part = blockIdx.x %% %d;", size, tile - 1, tile,
                 parts);
        hr_print(p, "const int64_t begin = tiles * part / %d * %d, end = tiles * (part + 1) / %d * %d;",
                 parts, tile, parts, tile);
    }
    open(p, parts > 1
                ? hr_format(p, "for (int64_t tile = begin; tile < end; tile += %d, buffer ^= 1)", tile)
                : hr_format(p, "for (int64_t tile = 0; tile < %s; tile += %d, buffer ^= 1)", size, tile));
}

static void open_rows(hr_cuda_stage *s, int parts) {
    hr_printer *p = s->p;
    const char *state = state_type(value_of(s));
    hr_print(p, "__shared__ scan_slot<%s> slots[2][%d];", state, threads_of(s) / 32);
    hr_print(p, "int buffer = 0; /* of two sets of slots, so that one barrier a tile is enough */");
    if (parts > 1) hr_print(p, "scan_slot<%s> *const all = (scan_slot<%s> *)a.scratch;", state, state);
    open(p, parts > 1
                ? hr_format(p, "for (int64_t task = blockIdx.x / %d; task < total; task = total)", parts)
                : "for (int64_t task = blockIdx.x; task < total; task += gridDim.x)");
    hr_cuda_print_task_indices(s);
}

static const char *tile_place(hr_printer *p) {
    return hr_format(p, "tile + scan_place<%d>(item)", HR_CUDA_SCAN_ITEMS);
}

/* What each part makes of what is carried to it. */
static void print_parts(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    const int parts = hr_cuda_ordered_parts(s->plan, s->stage);
    open_rows(s, parts);
    hr_print(p, "scan_slot<%s> sum = {1, 0};", state_type(scan));
    open_tiles(s, parts);
    print_elements(s, HR_CUDA_SCAN_ITEMS, tile_place(p));
    hr_print(p, "scan_part<%s, %d>(factor, rest, sum, slots[buffer]);",
             hr_scan_is_sum(scan) ? "true" : "false", threads_of(s));
    shut(p, "");
    hr_print(p, "if (threadIdx.x == 0) all[blockIdx.x] = sum;");
    shut(p, "");
}

static void print_along(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    const int parts = hr_cuda_ordered_parts(s->plan, s->stage);
    open_rows(s, parts);
    print_carry(s, "carry");
    if (parts > 1) {
        hr_print(p, "for (int64_t k = (int64_t)blockIdx.x - blockIdx.x %% %d; k < blockIdx.x; k++)", parts);
        hr_print(p, "    carry = %scarry + all[k].rest;", hr_scan_is_sum(scan) ? "" : "all[k].factor * ");
    }
    open_tiles(s, parts);
    print_elements(s, HR_CUDA_SCAN_ITEMS, tile_place(p));
    hr_print(p, "carry = scan_tile<%s, %d>(factor, rest, carry, slots[buffer]);",
             hr_scan_is_sum(scan) ? "true" : "false", threads_of(s));
    print_stores(s, HR_CUDA_SCAN_ITEMS, tile_place(p));
    shut(p, "");
    shut(p, "");
}

static void print_across(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_expr *scan = value_of(s);
    open(p, hr_format(p,
                      "for (int64_t task = (int64_t)blockIdx.x * %d + threadIdx.x; task < total; task += "
                      "(int64_t)gridDim.x * %d)",
                      HR_CUDA_COLUMN_THREADS, HR_CUDA_COLUMN_THREADS));
    hr_cuda_print_task_indices(s);
    print_carry(s, "carry");
    open(p, hr_format(p, "for (int64_t begin = 0; begin < %s; begin += %d)",
                      hr_emit_index_size(p, s->stage->row[0]), COLUMN_ITEMS));
    print_elements(s, COLUMN_ITEMS, "begin + item");
    hr_print(p, "#pragma unroll");
    open(p, hr_format(p, "for (int item = 0; item < %d; item++)", COLUMN_ITEMS));
    hr_print(p, "carry = %scarry + rest[item];", hr_scan_is_sum(scan) ? "" : "factor[item] * ");
    hr_print(p, "rest[item] = (%s)carry;", hr_c_compute(scan->type));
    shut(p, "");
    print_stores(s, COLUMN_ITEMS, "begin + item");
    shut(p, "");
    shut(p, "");
}

/* `order`: the element at a place of the task's row as a number in its order. */
static void print_order(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_expr *body = s->stage->steps[0].value;
    hr_cuda_print_task_indices(s);
    open(p, "const auto order = [&](int64_t place)");
    print_place(s, "place");
    hr_print(p, "return order_of((%s)%s);", hr_c_compute(body->type), hr_expr_text(p, body));
    shut(p, ";");
}

/* A row a block, in a list in shared memory; where more are wanted than it holds, by the rank of each. */
static void print_topk_row(hr_cuda_stage *s, const char *loop) {
    hr_printer *p = s->p;
    const int ranks = value_of(s)->args[1]->index;
    const char *size = hr_emit_index_size(p, s->stage->row[0]), *rank = hr_emit_index(p, ranks);
    open(p, loop);
    print_order(s);
    open(p, "if (most <= TOPK_MOST)");
    hr_print(p, "topk_select(shared, order, %s, (int)most);", size);
    open(p, hr_format(p, "for (int64_t %s = threadIdx.x; %s < most; %s += %d)", rank, rank, rank,
                      HR_CUDA_TOPK_THREADS));
    print_store(s, hr_format(p, "(int64_t)shared.place[%s]", rank), HR_I64);
    shut(p, "");
    hr_print(p, "__syncthreads();");
    shut(p, " else {");
    p->indent++;
    open(p, hr_format(p, "for (int64_t place = threadIdx.x; place < %s; place += %d)", size,
                      HR_CUDA_TOPK_THREADS));
    hr_print(p, "const int64_t %s = topk_rank(order, %s, place);", rank, size);
    hr_print(p, "if (%s >= most) continue;", rank);
    print_store(s, "place", HR_I64);
    shut(p, "");
    shut(p, "");
    shut(p, "");
}

/* A row a warp, in registers, where it is short and few of it are wanted. */
static void print_topk_warp(hr_cuda_stage *s, int rows) {
    hr_printer *p = s->p;
    const int ranks = value_of(s)->args[1]->index;
    const char *size = hr_emit_index_size(p, s->stage->row[0]), *rank = hr_emit_index(p, ranks);
    open(p, hr_format(p, "if (%s <= %d && most <= 32)", size, HR_CUDA_TOPK_WARP));
    hr_print(p, "const int64_t task = first + threadIdx.x / 32;");
    hr_print(p, "if (task >= total) continue;");
    print_order(s);
    hr_print(p, "uint32_t place;");
    for (int items = 4; 32 * items <= HR_CUDA_TOPK_WARP; items *= 2) {
        const char *which =
            32 * items == HR_CUDA_TOPK_WARP ? "" : hr_format(p, "if (%s <= %d) ", size, 32 * items);
        hr_print(p, "%s%splace = topk_warp<%d>(order, (int)%s, (int)most);", items > 4 ? "else " : "", which,
                 items, size);
    }
    hr_print(p, "const int64_t %s = threadIdx.x %% 32;", rank);
    hr_print(p, "if (%s >= most) continue;", rank);
    print_store(s, "(int64_t)place", HR_I64);
    hr_print(p, "continue;");
    shut(p, "");
    print_topk_row(
        s, hr_format(p, "for (int64_t task = first; task < total && task < first + %d; task++)", rows));
}

static void print_topk(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_expr *body = s->stage->steps[0].value;
    const int rows = hr_cuda_ordered_run(s->plan, s->stage);
    const bool wide = body->type == HR_F64 || body->type == HR_I64;
    hr_print(p, "__shared__ topk_shared<%s> shared;", wide ? "uint64_t" : "uint32_t");
    hr_print(p, "const int64_t most = %s;", hr_emit_index_size(p, value_of(s)->args[1]->index));
    if (rows == 1) {
        print_topk_row(s, "for (int64_t task = blockIdx.x; task < total && most > 0; task += gridDim.x)");
        return;
    }
    open(p, hr_format(p,
                      "for (int64_t first = (int64_t)blockIdx.x * %d; first < total && most > 0; first += "
                      "(int64_t)gridDim.x * %d)",
                      rows, rows));
    print_topk_warp(s, rows);
    shut(p, "");
}

static void print_total(hr_cuda_stage *s) {
    hr_print(s->p, "const int64_t total = %s;", hr_emit_points(s->p, s->stage->task, s->stage->task_count));
}

static void print_begin(hr_cuda_stage *s) {
    hr_print(s->p, "let_next_launch_start();");
    hr_print(s->p, "wait_for_launch_before();");
    print_total(s);
    print_parts(s);
}

static void print_work(hr_cuda_stage *s) {
    const hr_stage_kernels kernels = {.begin = hr_cuda_ordered_parts(s->plan, s->stage) > 1};
    hr_cuda_print_overlap(s->p, s->number, kernels);
    print_total(s);
    if (s->stage->shape == HR_SHAPE_TOPK)
        print_topk(s);
    else if (hr_cuda_scans_along(s->function, s->stage))
        print_along(s);
    else
        print_across(s);
}

hr_status hr_emit_ordered_cuda(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    const hr_cuda_choice choice = {.rows = HR_CUDA_ROWS_AGAIN,
                                   .ends = HR_CUDA_ENDS_STRADDLED}; /* no groups */
    hr_cuda_stage s = {.p = p, .stage = stage, .plan = p->plan, .function = p->function, .number = number};
    s.c = &choice;
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1; /* every index has a name */
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    if (hr_cuda_ordered_parts(p->plan, stage) > 1)
        hr_cuda_print_stage(&s, "_begin", threads_of(&s), print_begin);
    hr_cuda_print_stage(&s, "", threads_of(&s), print_work);
    return hr_text_status(p->out);
}
