/* One stage as CUDA kernels. In: a stage and how it lies on the device. Out: text. See stage_cuda.h. */
#include "emit/cuda/stage_cuda.h"

#include "emit/cuda/list_cuda.h"
#include "emit/cuda/stage_cuda_exchange.h"
#include "emit/cuda/stage_cuda_ring.h"
#include "emit/cuda/stage_cuda_shared.h"
#include "emit/cuda/stage_cuda_tile.h"
#include "emit/reduce.h"
#include "schedule/cuda/cuda_follow.h"

#include <inttypes.h>
#include <string.h>

/* ---- kernels ---- */

static void declare_tensor(hr_printer *p, int tensor) {
    const hr_tensor *t = &p->function->tensors[tensor];
    const char *name = hr_emit_tensor_name(p, tensor), *strides = hr_format(p, "%s_strides", name);
    if (p->plan->storage[tensor] != tensor || hr_emit_is_list(p, tensor)) return;
    if (hr_is_used(p, name)) {
        const char *type = hr_c_storage(t->dtype), *constant = t->role == HR_ROLE_INPUT ? "const " : "";
        if (hr_tensor_is_scalar(t))
            hr_print(p, "const %s %s = (%s)a.%s_value;", hr_c_compute(hr_compute_type(t->dtype)), name,
                     hr_c_compute(hr_compute_type(t->dtype)), name);
        else if (tensor < hr_function_arguments(p->plan->source))
            hr_print(p, "%s%s *const __restrict__ %s = a.%s;", constant, type, name, name);
        else
            hr_print(p, "%s *const __restrict__ %s = (%s *)(a.scratch + %s_place(a));", type, name, type,
                     name);
    }
    if (hr_is_used(p, strides)) hr_print(p, "const int64_t *const %s = a.%s;", strides, strides);
}

void hr_cuda_print_extents_used(hr_printer *p) {
    for (int e = 0; e < p->function->extent_count; e++) {
        const char *extent = hr_emit_extent_name(p, e);
        if (!hr_cuda_is_constant(p->plan, e) && hr_is_used(p, extent))
            hr_print(p, "const int64_t %s = a.%s;", extent, extent);
    }
}

static void print_with_body(hr_printer *p, const char *signature, hr_text *body) {
    hr_print(p, "%s {", signature);
    p->indent++;
    hr_cuda_print_extents_used(p);
    for (int t = 0; t < p->function->tensor_count; t++)
        declare_tensor(p, t);
    if (hr_is_used(p, "fault")) hr_print(p, "fault_record *const fault = a.fault;");
    p->indent--;
    hr_print_body(p, body);
    hr_print(p, "}");
    hr_print(p, "%s", "");
    hr_uses_begin(p);
}

void hr_cuda_print_function(hr_printer *p, const char *signature, void (*print)(void *), void *context) {
    hr_printer_forget(p, HR_AT_TASK);
    hr_text body, *out = hr_print_aside(p, &body);
    print(context);
    hr_print_back(p, out);
    print_with_body(p, signature, &body);
}

static void print_kernel(hr_cuda_stage *s, const char *signature, void (*print)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    hr_text body, *out = hr_print_aside(p, &body);
    print(s);
    hr_print_back(p, out);
    print_with_body(p, signature, &body);
}

void hr_cuda_print_stage(hr_cuda_stage *s, const char *suffix, int threads, void (*print)(hr_cuda_stage *)) {
    hr_printer_forget(s->p, HR_AT_TASK);
    print_kernel(s,
                 hr_format(s->p,
                           "%s void __launch_bounds__(%d) stage_%d%s(const __grid_constant__ arguments a)",
                           s->p->kernel, threads, s->number, suffix),
                 print);
}

/* ---- rows ---- */

void hr_cuda_print_digits(hr_printer *p, const int *indices, int count, const char *flat) {
    const char *rest = flat;
    for (int k = count - 1; k >= 0; k--) {
        const char *index = hr_emit_index(p, indices[k]), *size = k ? hr_emit_index_size(p, indices[k]) : "";
        hr_print(p, k ? "const int64_t %s = %s %% %s;" : "const int64_t %s = %s;", index, rest, size);
        if (k) hr_print(p, "const int64_t %s_%d = %s / %s;", flat, k, rest, size);
        rest = hr_format(p, "%s_%d", flat, k);
    }
}

void hr_cuda_print_task_indices(hr_cuda_stage *s) {
    hr_cuda_print_digits(s->p, s->stage->task, s->stage->task_count, "task");
}

/* Values of the task level that come before a pass. */
static void print_row_steps(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        bool total = hr_step_is_row_total(s->plan, s->stage, step);
        if (step->pass != pass || (step->kind != HR_STEP_ROW && !total)) continue;
        hr_expr_prepare(p, step->value, HR_AT_TASK);
        const char *text = hr_expr_text(p, step->value);
        if (step->kind == HR_STEP_ROW) {
            hr_emit_step_value(p, step, text, step->value->type);
            continue;
        }
        const char *sum = hr_format(p, "total_%d", i);
        const char *added = hr_format(p, "(%s)%s", hr_cuda_sum_type(s, step), text);
        hr_print(p, "if (%slane == 0) %s = %s::of(%s, %s);", hr_cuda_checks_live(s->c) ? "live && " : "", sum,
                 hr_cuda_reducer(step), sum, added);
    }
}

/* All threads of the row have read what one of them is about to overwrite. */
static void print_meeting(hr_cuda_stage *s) {
    bool overwrites = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        int tensor = hr_cuda_statement(s, &s->stage->steps[i])->tensor;
        overwrites |= s->stage->steps[i].kind == HR_STEP_ROW && s->plan->storage[tensor] != tensor;
    }
    if (overwrites)
        hr_print(s->p, s->c->cluster > 1        ? "cluster_barrier();"
                       : s->c->row_threads > 32 ? "__syncthreads();"
                                                : "__syncwarp();");
}

static void print_row_stores(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    bool open = false;
    if (!hr_cuda_is_map(s->c)) print_meeting(s);
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!step->stored || (step->kind != HR_STEP_ROW && step->kind != HR_STEP_REDUCE_ROW)) continue;
        const hr_statement *statement = hr_cuda_statement(s, step);
        hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
        if (!open && hr_cuda_is_map(s->c)) hr_print(p, "if (blockIdx.x == 0 && threadIdx.x == 0) {");
        if (!open && !hr_cuda_is_map(s->c))
            hr_print(p, "if (%slane == 0) {", hr_cuda_checks_live(s->c) ? "live && " : "");
        open = true;
        hr_print(p, "    %s%s[%s] = %s;", hr_emit_if_wanted(p, statement->tensor),
                 hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, p->value[statement->tensor], hr_compute_type(dtype), dtype));
    }
    if (open) hr_print(p, "}");
}

/* Where a row whose length is no whole number of groups begins and ends. */
static void print_row_ends(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    if (s->c->ends == HR_CUDA_ENDS_SHIFTED && hr_cuda_is_resident(s->c))
        hr_print(p, "const int rest = task + 1 < tasks ? %" PRId64 " : %" PRId64 "; /* that may be read */",
                 s->c->row + s->c->vector, s->c->row);
    if (s->c->ends == HR_CUDA_ENDS_SHIFTED)
        hr_print(p, "const int shift = (int)((uint64_t)task * %" PRId64 " %% %d);", s->c->row, s->c->vector);
    if (hr_cuda_is_staged(s->c) && s->c->ends == HR_CUDA_ENDS_SHIFTED && s->c->depth < 2)
        hr_print(p, "const int ahead_shift = (int)((uint64_t)ahead * %" PRId64 " %% %d);", s->c->row,
                 s->c->vector);
}

static void print_row(hr_cuda_stage *s) {
    const bool staged = hr_cuda_is_staged(s->c) && s->c->rows != HR_CUDA_ROWS_RING;
    if (staged && s->c->depth > 1) hr_cuda_print_next_staging(s);
    if (hr_cuda_loads_ahead(s->c)) hr_cuda_print_next_loads(s, hr_cuda_print_task_indices);
    hr_cuda_print_task_indices(s);
    print_row_ends(s);
    if (staged && s->c->depth < 2) hr_print(s->p, "ptx_copy_wait_all();");
    hr_cuda_declare_stash(s);
    for (int pass = 0; pass < s->stage->pass_count; pass++) {
        const bool block_values = pass == 0 && s->c->rows == HR_CUDA_ROWS_BLOCK;
        if (block_values) hr_cuda_begin_block_values(s);
        print_row_steps(s, pass);
        if (block_values) hr_cuda_end_block_values(s);
        if (pass == 0 && s->c->rows == HR_CUDA_ROWS_RING) hr_cuda_print_ring_wait(s);
        if (hr_cuda_is_merged_pass(s, pass)) {
            hr_cuda_print_merged_values(s, pass);
            continue;
        }
        hr_cuda_print_pass(s, pass);
        hr_cuda_print_merged_walk(s, pass + 1);
        hr_cuda_print_exchange(s, pass);
        hr_cuda_print_merged_exchange(s, pass + 1);
        if (s->c->rows == HR_CUDA_ROWS_RING) hr_cuda_print_packing(s);
    }
    print_row_stores(s);
}

static bool uses_double_buffer(const hr_cuda_stage *s) {
    return hr_stage_has(s->stage, HR_STEP_REDUCE_ROW) && (s->c->row_threads > 32 || s->c->cluster > 1);
}

const char *hr_cuda_row_type(const hr_cuda_stage *s) {
    return s->c->row_bits == 32 ? "int" : "int64_t";
}

/* Texts of the loop over rows. */
typedef struct row_loop {
    const char *type;   /* of the numbers of rows */
    const char *block;  /* the block's number among those that have other rows */
    const char *blocks; /* how many they are */
    const char *run;    /* " * rows of a block" */
    const char *row;    /* " + the thread's row of its block" */
} row_loop;

static row_loop row_loop_of(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    row_loop loop = {.type = hr_cuda_row_type(s), .run = "", .row = ""};
    loop.block = hr_format(p, c->slices > 1 ? "(%s)blockIdx.x / %d" : "(%s)blockIdx.x", loop.type, c->slices);
    loop.blocks = hr_format(p, c->slices > 1 ? "(%s)gridDim.x / %d" : "(%s)gridDim.x", loop.type, c->slices);
    if (c->block_rows > 1) {
        loop.run = hr_format(p, " * %d", c->block_rows);
        loop.row = hr_format(p, " + threadIdx.x / %d", c->row_threads);
    }
    return loop;
}

/* Which lanes of its row a thread has. */
static void print_lane(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *slice =
        c->slices > 1 ? hr_format(p, " + (int)blockIdx.x %% %d * %d", c->slices,
                                  c->rows == HR_CUDA_ROWS_RING ? c->row_threads * c->groups : c->row_threads)
                      : "";
    if (c->rows == HR_CUDA_ROWS_BLOCK)
        hr_cuda_print_block_slots(s);
    else if (c->block_rows > 1)
        hr_print(p, "const int lane = (int)(threadIdx.x %% %d)%s;", c->row_threads, slice);
    else
        hr_print(p, "const int lane = (int)threadIdx.x%s;", slice);
}

/* Whether rows are asked for before it is their turn. */
static bool prefetches_rows(const hr_cuda_choice *c) {
    return hr_cuda_loads_ahead(c) || hr_cuda_is_staged(c);
}

/* The row of a thread, which may be none of the last block's. */
static void print_task(hr_cuda_stage *s, const char *first, const char *row) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool block = c->rows == HR_CUDA_ROWS_BLOCK, asks = hr_cuda_checks_live(c);
    hr_print(p, asks ? "int64_t task = %s%s;" : "const int64_t task = %s%s;", first, block ? " + row" : row);
    if (c->block_rows > 1 && !block && !asks)
        hr_print(p, "if (task >= tasks) %s;", c->persistent ? "break" : "return");
    if (asks) {
        hr_print(p, "const bool live = task < tasks; /* the others have no row */");
        hr_print(p, "task = live ? task : tasks - 1;");
        p->live = "live";
    }
}

/* What a block does with its rows in turn. */
static void print_row_in_hand(hr_cuda_stage *s, const row_loop *loop) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const bool block = c->rows == HR_CUDA_ROWS_BLOCK;
    if (block) hr_cuda_print_block_in(s);
    print_task(s, c->persistent ? "first" : hr_format(p, "%s%s", loop->block, loop->run), loop->row);
    if (prefetches_rows(c)) hr_print(p, "ahead += %s%s;", loop->blocks, loop->run);
    print_row(s);
    if (block) hr_cuda_print_block_out(s);
    if (block) hr_cuda_print_returning(s);
    p->live = NULL;
}

static void print_row_loop(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const row_loop loop = row_loop_of(s);
    const hr_expr *chosen = hr_stage_columns_chosen(s->plan, s->stage);
    if (chosen && c->persistent) hr_cuda_print_columns_chosen(s, chosen);
    if (c->persistent || c->block_rows > 1 || c->ends == HR_CUDA_ENDS_SHIFTED) {
        const char *tasks = hr_emit_points(p, s->stage->task, s->stage->task_count);
        if (chosen && c->persistent) tasks = hr_format(p, "__syncthreads_or(any) ? %s : 0", tasks);
        hr_print(p, c->row_bits == 32 ? "const %s tasks = (int)(%s);" : "const %s tasks = %s;", loop.type,
                 tasks);
    }
    print_lane(s);
    if (c->rows == HR_CUDA_ROWS_RING) {
        hr_cuda_print_held_counts(s);
        hr_cuda_print_ring_loop(s, print_row);
        return;
    }
    if (prefetches_rows(c))
        hr_print(p, "%s ahead = %s%s%s; /* the row that is loaded next */", loop.type, loop.block, loop.run,
                 loop.row);
    if (hr_cuda_is_staged(c)) hr_cuda_print_staging(s, hr_format(p, "%s%s", loop.blocks, loop.run));
    if (hr_cuda_loads_ahead(c)) hr_cuda_print_first_loads(s, hr_cuda_print_task_indices);
    if (!c->persistent) {
        print_row_in_hand(s, &loop);
        return;
    }
    hr_print(p, "for (%s first = %s%s; first < tasks; first += %s%s) {", loop.type, loop.block, loop.run,
             loop.blocks, loop.run);
    p->indent++;
    print_row_in_hand(s, &loop);
    if (uses_double_buffer(s)) hr_print(p, "buffer ^= 1;");
    if (c->depth > 1) hr_print(p, "here = here == %d ? 0 : here + 1;", c->depth - 1);
    hr_cuda_close(p);
}

static void print_flat_loop(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int run = c->threads * c->groups;
    print_row_steps(s, 0); /* every thread computes what is one for the whole stage */
    if (c->walk == HR_CUDA_WALK_LISTS) {
        hr_list_cuda_loop(s);
        print_row_stores(s);
        return;
    }
    if (c->walk == HR_CUDA_WALK_TILES) {
        hr_cuda_open_tiles(s);
        for (int pass = 0; pass < s->stage->pass_count; pass++)
            hr_cuda_print_pass(s, pass);
        hr_cuda_close_tiles(s);
        return;
    }
    const char *total = hr_emit_points(p, c->order, c->order_count);
    if (c->both) {
        total = hr_format(p, "%s * %s", hr_emit_points(p, c->order, c->both),
                          hr_emit_points(p, c->order + c->both + 1, c->order_count - c->both - 1));
        run /= 2;
    }
    hr_print(p, "const %s total = (%s)(%s);", s->positions, s->positions, total);
    /* Every other stage goes backwards: it begins with what the one before left in the cache. */
    const char *block = s->number % 2 ? "(gridDim.x - 1 - blockIdx.x)" : "blockIdx.x";
    hr_print(p, "for (%s base = (%s)%s * %d; base * %d < total; base += (%s)gridDim.x * %d) {", s->positions,
             s->positions, block, run, c->vector, s->positions, run);
    p->indent++;
    if (c->both) {
        hr_print(p, "const %s pos = (base + (int)threadIdx.x) * %d;", s->positions, c->vector);
        hr_print(p, "if (pos >= total) continue;");
    }
    for (int pass = 0; pass < s->stage->pass_count; pass++)
        hr_cuda_print_pass(s, pass);
    p->indent--;
    hr_print(p, "}");
    print_row_stores(s);
}

/* ---- partial results of a block ---- */

const char *hr_cuda_work_place(hr_cuda_stage *s, int i) {
    return hr_format(s->p, "a.scratch + %" PRId64, hr_cuda_work_offset(s->plan, s->stage, s->c, i));
}

static void print_partials_begin(hr_cuda_stage *s) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_ALL)
            hr_print(s->p, "%s total_%d = %s;", hr_cuda_sum_type(s, step), i, hr_cuda_identity(step));
        if (step->kind == HR_STEP_REDUCE_COLUMN) hr_cuda_print_column_begin(s, i);
    }
}

static void print_partials_end(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    if (c->partners > 1) hr_print(p, "__syncthreads(); /* all have read their rows: the places are free */");
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_COLUMN && c->sums != HR_CUDA_SUMS_MEMORY)
            hr_cuda_print_column_partial(s, i);
        if (step->kind != HR_STEP_REDUCE_ALL) continue;
        const char *type = hr_cuda_sum_type(s, step);
        hr_print(p, "__shared__ %s share_%d[%d];", type, i, c->threads / 32 + 1);
        hr_print(p, "total_%d = reduce_row<%d, %s>(total_%d, share_%d);", i, c->threads,
                 hr_cuda_reducer(step), i, i);
        hr_print(p, "if (threadIdx.x == 0) ((%s *)(%s))[blockIdx.x] = total_%d;", type,
                 hr_cuda_work_place(s, i), i);
    }
    if (c->partners > 1) hr_cuda_print_column_meeting(s);
}

static void print_work(hr_cuda_stage *s) {
    hr_cuda_print_slots(s);
    print_partials_begin(s);
    hr_cuda_print_places_begin(s);
    if (hr_cuda_is_map(s->c))
        print_flat_loop(s);
    else
        print_row_loop(s);
    hr_cuda_print_places_end(s);
    print_partials_end(s);
}

/* ---- the ends of a stage ---- */

void hr_cuda_print_clear(hr_printer *p, int tensor, int threads) {
    hr_print(p, "wait_for_launch_before();");
    hr_print(p, "const int64_t size = %s;", hr_emit_elements(p, tensor));
    hr_print(
        p,
        "for (int64_t k = (int64_t)blockIdx.x * %d + threadIdx.x; k < size; k += (int64_t)gridDim.x * %d) {",
        threads, threads);
    p->indent++;
    hr_emit_clear_element(p, tensor, "k");
    hr_cuda_close(p);
}

static void print_clear(hr_cuda_stage *s) {
    hr_cuda_print_clear(s->p, hr_cuda_statement(s, &s->stage->steps[0])->tensor, HR_CUDA_CLEAR_THREADS);
}

/* Blocks that left partial results, as the launch computed them. */
static void print_parts(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    if (c->walk == HR_CUDA_WALK_LISTS) {
        hr_print(p, "int64_t parts = %s->count;", hr_list_cuda_table(p));
    } else if (hr_cuda_is_map(c)) {
        int64_t run = (int64_t)c->threads * c->groups * c->vector;
        hr_print(p, "int64_t parts = (%s + %" PRId64 ") / %" PRId64 ";",
                 hr_emit_points(p, c->order, c->order_count), run - 1, run);
    } else {
        int run = c->block_rows * c->partners;
        hr_print(p, "int64_t parts = (%s + %d) / %d;",
                 hr_emit_points(p, s->stage->task, s->stage->task_count), run - 1, run);
    }
    hr_print(p, "parts = parts < 1 ? 1 : parts > %" PRId64 " ? %" PRId64 " : parts;", hr_cuda_parts_limit(c),
             hr_cuda_parts_limit(c));
}

void hr_cuda_print_stored_sum(hr_cuda_stage *s, const hr_step *step, const char *sum) {
    hr_printer *p = s->p;
    const hr_statement *statement = hr_cuda_statement(s, step);
    hr_dtype type = statement->value->type, dtype = s->function->tensors[statement->tensor].dtype;
    if (hr_op_finds_position(step->reduce)) sum = hr_format(p, "(%s.at < 0 ? 0 : %s.at)", sum, sum);
    const char *text = hr_format(p, type == HR_BOOL ? "(%s)(%s != 0)" : "(%s)%s", hr_c_compute(type), sum);
    hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
             hr_emit_stored(p, text, type, dtype));
}

static void print_total_end(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[i];
    const char *type = hr_cuda_sum_type(s, step), *reducer = hr_cuda_reducer(step);
    hr_print(p, "if (blockIdx.x == 0) {");
    p->indent++;
    hr_print(p, "__shared__ %s slots[%d];", type, HR_CUDA_END_THREADS / 32);
    hr_print(p, "const %s *const partial = (const %s *)(%s);", type, type, hr_cuda_work_place(s, i));
    hr_print(p, "%s sum = %s;", type, hr_cuda_identity(step));
    hr_print(p, "for (int64_t part = threadIdx.x; part < parts * %d; part += %d)", s->c->slices,
             HR_CUDA_END_THREADS);
    hr_print(p, "    sum = %s::of(sum, partial[part]);", reducer);
    hr_print(p, "sum = reduce_row<%d, %s>(sum, slots);", HR_CUDA_END_THREADS, reducer);
    hr_print(p, "if (threadIdx.x == 0) {");
    p->indent++;
    hr_cuda_print_stored_sum(s, step, "sum");
    p->indent--;
    hr_print(p, "}");
    p->indent--;
    hr_print(p, "}");
}

static void print_end(hr_cuda_stage *s) {
    hr_print(s->p, "wait_for_launch_before();");
    print_parts(s);
    for (int i = 0, column = 0; i < s->stage->step_count; i++) {
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_COLUMN) hr_cuda_print_column_end(s, i, column++);
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_ALL) print_total_end(s, i);
    }
}

/* ---- the stage ---- */

void hr_cuda_print_next_start(hr_printer *p, int number, hr_stage_kernels kernels) {
    if (number < p->plan->stage_count - 1 || kernels.end) hr_print(p, "let_next_launch_start();");
}

static void print_wait(hr_printer *p, int number, hr_stage_kernels kernels) {
    if (number > 0 || kernels.begin) hr_print(p, "wait_for_launch_before();");
}

void hr_cuda_print_overlap(hr_printer *p, int number, hr_stage_kernels kernels) {
    hr_cuda_print_next_start(p, number, kernels);
    print_wait(p, number, kernels);
}

const char *hr_cuda_aligned_condition(hr_printer *p) {
    const char *bits = NULL;
    for (int t = 0; t < hr_function_arguments(p->plan->source); t++)
        if (hr_cuda_may_be_aligned(p->plan, t))
            bits =
                hr_format(p, "%s%s(uint64_t)a.%s", bits ? bits : "", bits ? " | " : "", hr_emit_tensor(p, t));
    return bits ? hr_format(p, "((%s) & 15) == 0", bits) : "true";
}

/* `kind`: what follows the name of the work; NULL where the function asks how its arrays begin. */
static void print_work_call(hr_printer *p, int number, const char *kind) {
    if (kind) {
        hr_print(p, "stage_%d_work%s(a);", number, kind);
        return;
    }
    hr_print(p, "if (%s)", hr_cuda_aligned_condition(p));
    hr_print(p, "    stage_%d_work<true>(a);", number);
    hr_print(p, "else");
    hr_print(p, "    stage_%d_work<false>(a);", number);
}

/* `kind`: of the stage's own work. */
static void print_entry(hr_cuda_stage *s, const char *suffix, const char *kind) {
    hr_printer *p = s->p;
    const int first = hr_cuda_leader(s->plan, s->number);
    int partners = hr_cuda_cluster_blocks(s->c);
    const char *cluster = partners > 1 ? hr_format(p, " __cluster_dims__(%d, 1, 1)", partners) : "";
    int blocks = s->c->walk == HR_CUDA_WALK_LISTS
                     ? 4
                     : s->c->together; /* of a multiprocessor; lists: 64 registers a thread */
    const char *together = blocks > 1 ? hr_format(p, ", %d", blocks) : "";
    hr_print(p, "%s void%s __launch_bounds__(%d%s)", p->kernel, cluster, s->c->threads, together);
    hr_print(p, "stage_%d%s(const __grid_constant__ arguments a) {", first, suffix);
    p->indent++;
    const hr_stage_kernels kernels = hr_stage_kernels_of(s->plan, s->stage, s->c);
    hr_cuda_print_next_start(p, s->number, kernels);
    if (!s->waits_late) print_wait(p, first, kernels);
    for (int i = first; i < s->number; i++)
        print_work_call(p, i, hr_grid_of(&s->plan->stages[i])->vector == 1 ? "<true>" : NULL);
    print_work_call(p, s->number, kind);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

static void print_main(hr_cuda_stage *s) {
    bool list = s->c->walk == HR_CUDA_WALK_LISTS, before = hr_cuda_checks_alignment(s->c);
    print_kernel(s,
                 hr_format(s->p, "%sstatic __device__ __forceinline__ void stage_%d_work(const arguments &a)",
                           list ? "" : "template <bool ALIGNED>\n", s->number),
                 print_work);
    if (s->c->followed) return; /* with the last that follows */
    print_entry(s, "", list ? "" : before || s->c->vector == 1 ? "<true>" : NULL);
    if (before) print_entry(s, "_unaligned", "<false>");
}

static void begin_stage(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    hr_printer_stage(p, s->stage);
    p->vector = false;
    hr_printer_form(p, HR_FORM_FAST, s->c->math == HR_CUDA_MATH_FAST);
    int count = s->c->order_count, first = hr_cuda_is_map(s->c) ? 0 : s->stage->task_count;
    p->lane = count > first ? s->c->order[count - 1] : -1;
    p->outer = s->c->order + first;
    p->outer_count = count > first ? count - first - 1 : 0;
}

hr_status hr_emit_stage_cuda(hr_printer *p, int number, const int64_t *extents,
                             const hr_cuda_choice *choice) {
    const hr_stage *stage = &p->plan->stages[number];
    hr_cuda_stage s = {.p = p, .stage = stage, .plan = p->plan, .function = p->function, .number = number};
    s.c = choice;
    s.extents = extents;
    s.positions = choice->position_bits == 32 ? "int" : "int64_t";
    s.set = choice->persistent ? "[buffer]" : "";
    size_t ids = (size_t)p->function->expr_count + 1;
    s.held = hr_arena_alloc(p->arena, ids * sizeof *s.held);
    s.stash = hr_arena_alloc(p->arena, ids * sizeof *s.stash);
    memset(s.held, 0, ids * sizeof *s.held);
    memset(s.stash, 0, ids * sizeof *s.stash);
    if (stage->step_count > HR_CUDA_STEPS_MAX)
        return hr_fail(HR_BAD_INPUT, "kernel %.60s has more than %d statements in one stage",
                       p->plan->source->name, HR_CUDA_STEPS_MAX);
    for (int i = 0; i < stage->step_count && !hr_cuda_is_resident(choice); i++) {
        const hr_expr *shift;
        int sum = hr_cuda_online_sum(p->plan, stage, i, &shift);
        if (sum < 0 || s.beside[sum]) continue;
        s.online[i] = sum + 1;
        s.beside[sum] = true;
        s.shift[sum] = shift;
    }
    if (hr_cuda_may_join(choice)) hr_cuda_find_merged(&s);
    hr_stage_kernels kernels = hr_stage_kernels_of(p->plan, stage, choice);
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    begin_stage(&s);
    if (kernels.begin)
        hr_cuda_print_stage(&s, "_begin", HR_CUDA_CLEAR_THREADS,
                            choice->rows == HR_CUDA_ROWS_RING ? hr_cuda_print_ring_begin : print_clear);
    print_main(&s);
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1; /* the end names every index */
    p->outer_count = 0;
    if (kernels.end) hr_cuda_print_stage(&s, "_end", HR_CUDA_END_THREADS, print_end);
    return hr_text_status(p->out);
}
