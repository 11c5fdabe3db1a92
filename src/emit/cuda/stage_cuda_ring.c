/* Rows through a ring of places in shared memory. In: a stage. Out: text. See stage_cuda_ring.h. */
#include "emit/cuda/stage_cuda_ring.h"
#include "emit/cuda/stage_cuda_shared.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda_exchange.h"

#include <inttypes.h>

enum { STAGED_MAX = 32 };

static int element_size(const hr_cuda_stage *s, int tensor) {
    return (int)hr_dtype_size(s->function->tensors[tensor].dtype);
}

int hr_cuda_ring_warps(const hr_cuda_choice *c) {
    int warps = 1;
    while (warps * 32 < c->threads)
        warps *= 2;
    return warps;
}

void hr_cuda_print_ring_begin(hr_cuda_stage *s) {
    hr_print(s->p, "wait_for_launch_before();");
    hr_print(s->p, "if (threadIdx.x == 0) *(int64_t *)a.scratch = 0; /* the next row to take */");
}

void hr_cuda_print_ring_arrivals(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "__shared__ uint64_t arrived[%d];", c->depth);
    if (c->cluster > 1) hr_print(p, "__shared__ uint64_t published[3];");
    hr_print(p, "__shared__ int64_t published_row[3]; /* the next row, in turn, and the first */");
    if (c->cluster > 1) hr_print(p, "int parity = 0; /* of what comes once in two turns */");
    hr_print(p, "if (threadIdx.x == 0) {");
    hr_print(p, "    for (int k = 0; k < %d; k++)", c->depth);
    hr_print(p, "        begin_arrivals(arrived + k, 1);");
    if (c->cluster > 1) hr_print(p, "    for (int k = 0; k < 3; k++)");
    if (c->cluster > 1) hr_print(p, "        begin_arrivals(published + k, 1);");
    for (int i = 0; i < s->stage->step_count && c->cluster > 1; i++)
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_ROW && hr_cuda_slot_type(s, i))
            hr_print(p, "    begin_arrivals(met_%d, 1), begin_arrivals(met_%d + 1, 1);", i, i);
    hr_print(p, "    ptx_fence_mbarrier_init();");
    hr_print(p, "}");
    for (int i = 0; i < s->stage->step_count && hr_cuda_ring_warps(c) * 32 > c->threads; i++) {
        const char *type = hr_cuda_has_slots(s, i) ? hr_cuda_slot_type(s, i) : NULL;
        if (!type) continue;
        hr_print(p, "if (threadIdx.x < 2)");
        hr_print(p, "    for (%s &slot : slots_%d[threadIdx.x])", type, i);
        hr_print(p, "        slot = %s;", hr_cuda_slot_identity(s, i));
    }
    if (c->cluster < 2) hr_print(p, "__syncthreads();");
}

void hr_cuda_print_packing(hr_cuda_stage *s) {
    hr_expr *const *table = s->plan->graph->table;
    for (int i = 0; i < s->plan->graph->table_size; i++)
        if (table[i] && s->held[table[i]->id]) hr_print(s->p, "keep_packed(%s);", s->held[table[i]->id]);
}

/* ---- copies: a block's share of a row is one piece of memory, and its first thread begins them ---- */

static void print_copies_in(hr_cuda_stage *s, const hr_expr *const *staged, int count, const char *row,
                            const char *place) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += element_size(s, staged[i]->tensor);
    hr_print(p, "if (%s < tasks && ALIGNED) {", row);
    hr_print(p, "    if (threadIdx.x == 0) {");
    hr_print(p, "        expect_bytes(arrived + %s, share * %d);", place, bytes);
    for (int i = 0; i < count; i++)
        hr_print(p,
                 "        copy_in(staged_%d + %s * %d, %s + %s * %" PRId64
                 " + share_first, share * %d, arrived + %s, %s);",
                 staged[i]->id, place, c->groups * c->threads, hr_emit_tensor(p, staged[i]->tensor), row,
                 c->row, element_size(s, staged[i]->tensor), place,
                 hr_cuda_leaves_last(s, staged[i]->tensor, staged[i]->args) ? "true" : "false");
    hr_print(p, "    }");
    hr_print(p, "} else if (%s < tasks) {", row);
    p->indent++;
    hr_cuda_open_groups(s);
    for (int i = 0; i < count; i++)
        hr_cuda_print_stage_group(s, staged[i], row, place, false);
    hr_cuda_close(p);
    p->indent--;
    hr_print(p, "}");
}

static void print_copies_out(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool any = false;
    for (int i = 0; i < s->stage->step_count; i++)
        any |= s->exit[i] != NULL;
    hr_print(p, any ? "hand_over();" : "__syncthreads(); /* all have read the place in hand */");
    if (!any) return;
    hr_print(p, "if (ALIGNED && threadIdx.x == 0) {");
    for (int i = 0; i < s->stage->step_count; i++) {
        if (!s->exit[i]) continue;
        int tensor = hr_cuda_statement(s, &s->stage->steps[i])->tensor;
        hr_print(p, "    copy_out(%s + task * %" PRId64 " + share_first, staged_%d + here * %d, share * %d);",
                 hr_emit_tensor(p, tensor), c->row, s->exit[i]->id, c->groups * c->threads,
                 element_size(s, tensor));
    }
    hr_print(p, "    ptx_bulk_commit();");
    hr_print(p, "    ptx_bulk_wait_read<%d>();", c->leaving);
    hr_print(p, "}");
}

/* Each result that is as wide as something that came takes its place. */
static void find_exits(hr_cuda_stage *s, const hr_expr *const *staged, int count) {
    bool taken[STAGED_MAX] = {false};
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = hr_cuda_statement(s, step);
        if (step->kind != HR_STEP_ELEMENT || !step->stored ||
            !hr_cuda_whole(s, statement->tensor, statement->subscripts))
            continue;
        for (int k = 0; k < count && !s->exit[i]; k++) {
            if (taken[k] || element_size(s, staged[k]->tensor) != element_size(s, statement->tensor))
                continue;
            taken[k] = true;
            s->exit[i] = staged[k];
        }
    }
}

/* ---- the loop ---- */

static const char *row_name(hr_cuda_stage *s, int k) {
    return k ? hr_format(s->p, "row_%d", k) : "task";
}

/* The row that was taken comes to all threads as number `buffer` of what is published, and the next one is
 * taken.
 */
static void print_telling(hr_cuda_stage *s, const char *buffer) {
    hr_printer *p = s->p;
    if (s->c->cluster > 1) {
        hr_print(p, "expect_row(published + %s);", buffer);
        hr_print(p, "if (lane < 32) publish_row<%d>(published_row + %s, taken, published + %s);",
                 s->c->slices, buffer, buffer);
    } else {
        hr_print(p, "if (lane == 0) published_row[%s] = taken;", buffer);
    }
    hr_print(p, "if (lane == 0) taken = take_rows(a.scratch, 1);");
}

static const char *heard_row(hr_cuda_stage *s, const char *buffer, const char *parity) {
    return s->c->cluster > 1
               ? hr_format(s->p, "await_row(published_row + %s, published + %s, %s)", buffer, buffer, parity)
               : hr_format(s->p, "published_row[%s]", buffer);
}

/* The first rows, a run of them, and their copies. */
static void print_first_rows(hr_cuda_stage *s, const hr_expr *const *staged, int count, int coming) {
    hr_printer *p = s->p;
    hr_print(p, "int64_t taken = 0; /* a row that the other threads have not got yet */");
    hr_print(p, "if (lane == 0) taken = take_rows(a.scratch, %d);", coming);
    print_telling(s, "2"); /* the first of a run */
    if (s->c->cluster < 2) hr_print(p, "__syncthreads();");
    hr_print(p, "int64_t task = %s;", heard_row(s, "2", "0"));
    for (int k = 1; k < coming; k++)
        hr_print(p, "int64_t row_%d = task + %d;", k, k);
    for (int k = 0; k < coming; k++)
        print_copies_in(s, staged, count, row_name(s, k), hr_format(p, "%d", k));
}

/* After a row: the next one that was taken is prefetched into the place that was left. */
static void print_next_rows(hr_cuda_stage *s, const hr_expr *const *staged, int count, int coming) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "const int64_t next = %s;", heard_row(s, "buffer", "parity"));
    hr_print(p, "const int there = here < %d ? here + %d : here - %d;", c->leaving, coming, c->leaving);
    print_copies_in(s, staged, count, "next", "there");
    for (int k = 0; k < coming; k++)
        hr_print(p, "%s = %s;", row_name(s, k), k + 1 < coming ? row_name(s, k + 1) : "next");
    hr_print(p, "buffer ^= 1;");
    if (c->cluster > 1) hr_print(p, "if (buffer == 0) parity ^= 1;");
    hr_print(p, "here++;");
    hr_print(p, "if (here == %d) {", c->depth);
    hr_print(p, "    here = 0;");
    hr_print(p, "    round ^= 1;");
    hr_print(p, "}");
}

void hr_cuda_print_ring_wait(hr_cuda_stage *s) {
    hr_print(s->p, "if (ALIGNED) wait_for_arrivals(arrived + here, round);");
}

void hr_cuda_print_ring_loop(hr_cuda_stage *s, void (*print_row)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const hr_expr *staged[STAGED_MAX];
    int run = c->threads * c->groups * c->vector, coming = c->depth - c->leaving;
    hr_cuda_print_places(s);
    int count = hr_cuda_staged_elements(s, staged, STAGED_MAX);
    find_exits(s, staged, count);
    const char *rank = c->slices > 1 ? hr_format(p, "(int)blockIdx.x %% %d * %d", c->slices, run) : "0";
    hr_print(p, "const int share_first = %s; /* of a row, the elements that this block holds */", rank);
    if (c->row == (int64_t)run * c->slices)
        hr_print(p, "const int share = %d;", run);
    else
        hr_print(p,
                 "const int share = share_first + %d <= %" PRId64 " ? %d : share_first < %" PRId64
                 " ? %" PRId64 " - share_first : 0;",
                 run, c->row, run, c->row, c->row);
    hr_cuda_print_same_loads(s);
    print_first_rows(s, staged, count, coming);
    hr_print(p, "int here = 0, round = 0; /* the place in hand, and the parity of its arrivals */");
    hr_print(p, "while (task < tasks) {");
    p->indent++;
    print_telling(s, "buffer");
    hr_cuda_print_packing(s);
    print_row(s);
    print_copies_out(s);
    print_next_rows(s, staged, count, coming);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "if (ALIGNED) ptx_bulk_wait_read<0>();");
}
