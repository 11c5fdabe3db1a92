/* Sums over rows, one an element of a row, as CUDA: registers of the block that walks the rows, a partial
 * result of each block in memory, and their sum, always in the same order. In: a stage. Out: text.
 */
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_exchange.h"

#include <inttypes.h>

static const char *block_of(hr_cuda_stage *s) {
    int blocks = s->c->slices * s->c->partners;
    return blocks > 1 ? hr_format(s->p, "(int64_t)blockIdx.x / %d", blocks) : "(int64_t)blockIdx.x";
}

/* A sum too long for registers stands in memory from the beginning. */
static void print_column_memory(hr_cuda_stage *s, int i, const char *type, const char *identity) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "%s *const column_%d = partial_%d;", type, i, i);
    hr_print(p, "for (int64_t group = (int)threadIdx.x%s; group * %d < %" PRId64 "; group += %" PRId64 ")",
             c->slices > 1 ? hr_format(p, " + (int)blockIdx.x %% %d * %d", c->slices, c->row_threads) : "",
             c->vector, c->row, (int64_t)c->row_threads * c->slices);
    hr_print(p, "    for (int64_t k = group * %d; k < group * %d + %d && k < %" PRId64 "; k++)", c->vector,
             c->vector, c->vector, c->row);
    hr_print(p, "        column_%d[k] = %s;", i, identity);
}

void hr_cuda_print_column_begin(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const hr_step *step = &s->stage->steps[i];
    const char *type = hr_cuda_sum_type(s, step), *identity = hr_cuda_identity(step);
    hr_print(p, "%s *const partial_%d = (%s *)(%s) + %s * %" PRId64 ";", type, i, type,
             hr_cuda_work_place(s, i), block_of(s), c->row);
    if (c->sums == HR_CUDA_SUMS_MEMORY) {
        print_column_memory(s, i, type, identity);
        return;
    }
    hr_print(p, "%s column_%d[%d];", type, i, c->groups * c->vector);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int k = 0; k < %d; k++)", c->groups * c->vector);
    hr_print(p, "    column_%d[k] = %s;", i, identity);
}

/* A block with several rows side by side adds them up: lanes of a warp by shuffles, then warp after warp. */
static void print_column_sharing(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const hr_step *step = &s->stage->steps[i];
    const char *reducer = hr_cuda_reducer(step);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int k = 0; k < %d; k++) {", c->groups * c->vector);
    hr_print(p, "    for (int distance = %d; distance < 32; distance *= 2)", c->row_threads);
    hr_print(p, "        column_%d[k] = %s::of(column_%d[k], shuffle_xor(column_%d[k], distance));", i,
             reducer, i, i);
    hr_print(p, "}");
    hr_print(p, "__shared__ %s shared_%d[%d];", hr_cuda_sum_type(s, step), i,
             c->groups * c->vector * c->row_threads);
    hr_print(p, "for (int warp = 0; warp < %d; warp++) {", c->threads / 32);
    hr_print(p, "    if ((int)threadIdx.x / 32 == warp && (int)threadIdx.x %% 32 < %d)", c->row_threads);
    hr_print(p, "#pragma unroll");
    hr_print(p, "        for (int k = 0; k < %d; k++) {", c->groups * c->vector);
    const char *own = c->slices > 1 ? hr_format(p, "(int)threadIdx.x %% %d", c->row_threads) : "lane";
    hr_print(p, "            const int at = k * %d + %s;", c->row_threads, own);
    hr_print(p, "            column_%d[k] = warp ? %s::of(shared_%d[at], column_%d[k]) : column_%d[k];", i,
             reducer, i, i, i);
    hr_print(p, "            shared_%d[at] = column_%d[k];", i, i);
    hr_print(p, "        }");
    hr_print(p, "    __syncthreads();");
    hr_print(p, "}");
}

/* The sums stand together in memory as they do in the thread. */
static bool is_grouped(const hr_cuda_stage *s, const hr_step *step) {
    int size = hr_cuda_partial_size(s->plan, step);
    return !hr_op_finds_position(step->reduce) && s->c->ends == HR_CUDA_ENDS_EXACT &&
           s->c->vector * size % 16 == 0;
}

/* Where in shared memory a block leaves a step's sums for its partner. */
static int64_t left_offset(const hr_cuda_stage *s, int step) {
    int64_t offset = 0;
    for (int i = 0; i < step; i++)
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_COLUMN)
            offset += s->c->row * hr_cuda_partial_size(s->plan, &s->stage->steps[i]);
    return offset;
}

void hr_cuda_print_column_partial(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const hr_step *step = &s->stage->steps[i];
    if (c->block_rows > 1) {
        print_column_sharing(s, i);
        hr_print(p, "if ((int)threadIdx.x / 32 == %d && (int)threadIdx.x %% 32 < %d)", c->threads / 32 - 1,
                 c->row_threads);
    }
    if (c->partners > 1)
        hr_print(p, "%s *const left_%d = (%s *)(staged_memory() + %" PRId64 ");", hr_cuda_sum_type(s, step),
                 i, hr_cuda_sum_type(s, step), left_offset(s, i));
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int u = 0; u < %d; u++) {", c->groups);
    p->indent++;
    hr_print(p, "const int64_t pos = ((int64_t)u * %" PRId64 " + lane) * %d;",
             (int64_t)c->row_threads * c->slices, c->vector);
    if (is_grouped(s, step)) {
        hr_print(p, "%s part[%d];", hr_cuda_sum_type(s, step), c->vector);
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int v = 0; v < %d; v++)", c->vector);
        hr_print(p, "    part[v] = column_%d[u * %d + v];", i, c->vector);
        hr_print(p, "if (pos < %" PRId64 ") store_group<true>(%s_%d + pos, group_of(part));", c->row,
                 c->partners > 1 ? "left" : "partial", i);
    } else {
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int v = 0; v < %d; v++)", c->vector);
        hr_print(p, "    if (pos + v < %" PRId64 ") partial_%d[pos + v] = column_%d[u * %d + v];", c->row, i,
                 i, c->vector);
    }
    hr_cuda_close(p);
}

void hr_cuda_print_column_meeting(hr_cuda_stage *s) {
    hr_print(s->p, "cluster_barrier();");
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_COLUMN)
            hr_print(s->p, "add_partners<%d, %s, %" PRId64 ">(partial_%d, left_%d);", s->c->threads,
                     hr_cuda_reducer(&s->stage->steps[i]), s->c->row, i, i);
    hr_print(s->p, "cluster_barrier(); /* the partner has read what this block left */");
}

/* Of the column that is `column`. */
static void print_column_indices(hr_printer *p, const hr_cuda_stage *s) {
    const char *rest = "column";
    for (int k = s->stage->row_count - 1; k >= 0; k--) {
        const char *index = hr_emit_index(p, s->stage->row[k]),
                   *size = k ? hr_emit_index_size(p, s->stage->row[k]) : "";
        hr_print(p, k ? "const int64_t %s = %s %% %s;" : "const int64_t %s = %s;", index, rest, size);
        if (k) hr_print(p, "const int64_t rest_%d = %s / %s;", k, rest, size);
        rest = hr_format(p, "rest_%d", k);
    }
}

void hr_cuda_print_columns_chosen(hr_cuda_stage *s, const hr_expr *chosen) {
    hr_printer *p = s->p, one;
    if (!hr_printer_beside(p, s->stage, &one)) return;
    hr_print(p, "bool any = false; /* of all columns, whichever of them a block has */");
    hr_print(p, "for (int64_t column = threadIdx.x; column < %" PRId64 "; column += %d) {", s->c->row,
             s->c->threads);
    p->indent++;
    one.lane = -1; /* no lanes: each column is looked at by one thread */
    one.number = p->number;
    one.indent = p->indent;
    print_column_indices(&one, s);
    hr_print(&one, "any = any || %s;", hr_expr_text(&one, chosen));
    p->number = one.number;
    hr_printer_end(&one);
    hr_cuda_close(p);
}

/* Each block has one sum's columns, its lines of threads take the parts round robin. */
void hr_cuda_print_column_end(hr_cuda_stage *s, int i, int number) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[i];
    const char *type = hr_cuda_sum_type(s, step), *reducer = hr_cuda_reducer(step);
    int warps = HR_CUDA_END_THREADS / 32, columns = hr_cuda_end_columns(s->c), count = s->c->columns;
    const bool real = hr_cuda_sums_f32(s, step);
    const char *wide = real ? "double" : type; /* thousands of parts lose nothing in f64 */
    hr_print(p, count > 1 ? "if (blockIdx.x %% %d == %d) {" : "{", count, number);
    p->indent++;
    hr_print(p, "__shared__ %s sums[%d][%d];", wide, warps, columns);
    hr_print(p, "const %s *const partial = (const %s *)(%s);", type, type, hr_cuda_work_place(s, i));
    hr_print(p, "const int lane = (int)threadIdx.x %% %d, warp = (int)threadIdx.x / 32;", columns);
    const char *block = count > 1 ? hr_format(p, "(blockIdx.x / %d)", count) : "blockIdx.x";
    hr_print(p, "const int64_t column = (int64_t)%s * %d + lane;", block, columns);
    hr_print(p, "%s sum = %s;", wide, hr_cuda_identity(step));
    hr_print(p, "if (column < %" PRId64 ")", s->c->row);
    hr_print(p, "#pragma unroll 8");
    hr_print(p, "    for (int64_t part = (int)threadIdx.x / %d; part < parts; part += %d)", columns,
             HR_CUDA_END_THREADS / columns);
    const char *part = hr_format(p, "partial[part * %" PRId64 " + column]", s->c->row);
    hr_print(p, "        sum = %s::of(sum, %s%s);", reducer, real ? "(double)" : "", part);
    for (int distance = columns; distance < 32; distance *= 2)
        hr_print(p, "sum = %s::of(sum, shuffle_xor(sum, %d));", reducer, distance);
    hr_print(p, "if (threadIdx.x %% 32 < %d) sums[warp][lane] = sum;", columns);
    hr_print(p, "__syncthreads();");
    hr_print(p, "if (threadIdx.x < %d && column < %" PRId64 ") {", columns, s->c->row);
    p->indent++;
    hr_print(p, "for (int w = 1; w < %d; w++)", warps);
    hr_print(p, "    sum = %s::of(sum, sums[w][lane]);", reducer);
    print_column_indices(p, s);
    hr_cuda_print_stored_sum(s, step, "sum");
    p->indent--;
    hr_print(p, "}");
    p->indent--;
    hr_print(p, "}");
}
