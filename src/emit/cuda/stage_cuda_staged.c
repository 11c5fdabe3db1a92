/* Short rows that begin anywhere in memory. In: a stage. Out: text. See stage_cuda_staged.h. */
#include "emit/cuda/stage_cuda_staged.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

const char *hr_cuda_block_slot_in(const hr_cuda_stage *s, const hr_expr *e) {
    for (int i = 0; i < s->c->block_slot_count; i++)
        if (s->c->block_slots[i].in == e->tensor && !hr_element_is_guarded(s->function, e) &&
            hr_cuda_whole(s, e->tensor, e->args))
            return hr_format(s->p, "carried_%d", i);
    return NULL;
}

const char *hr_cuda_block_slot_out(const hr_cuda_stage *s, int tensor) {
    for (int i = 0; i < s->c->block_slot_count; i++)
        if (s->c->block_slots[i].out == tensor) return hr_format(s->p, "carried_%d", i);
    return NULL;
}

const char *hr_cuda_block_slot_apart(const hr_cuda_stage *s) {
    if (s->c->row_rounds > 1) return "odd";
    return s->c->row % s->c->vector ? "true" : "false";
}

void hr_cuda_print_block_slots(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int reads = 0;
    for (int i = 0; i < c->block_slot_count; i++) {
        const hr_cuda_block_slot *slot = &c->block_slots[i];
        int tensor = slot->in >= 0 ? slot->in : slot->out;
        const char *type = hr_c_storage(s->function->tensors[tensor].dtype);
        hr_print(p, "%s *const carried_%d = (%s *)(staged_memory() + %" PRId64 ");", type, i, type,
                 slot->offset);
        reads += slot->in >= 0;
    }
    if (!reads) return;
    hr_print(p, "__shared__ uint64_t arrived;");
    hr_print(p, "int round = 0;");
    hr_print(p, "if (threadIdx.x == 0) {");
    hr_print(p, "    begin_arrivals(&arrived, %d);", reads);
    hr_print(p, "    ptx_fence_mbarrier_init();");
    hr_print(p, "}");
    hr_print(p, "__syncthreads();");
}

static void print_arriving(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool any = false;
    for (int i = 0; i < c->block_slot_count; i++) {
        if (c->block_slots[i].in < 0) continue;
        hr_print(p,
                 "begin_rows<ALIGNED, %d>(carried_%d, %s + first * %" PRId64 ", rows * %" PRId64
                 ", &arrived, %s);",
                 c->threads, i, hr_emit_tensor(p, c->block_slots[i].in), c->row, c->row,
                 c->eviction == HR_EVICTION_LAST ? "true" : "false");
        any = true;
    }
    if (!any) return;
    hr_print(p, "wait_for_arrivals(&arrived, round);");
    hr_print(p, "if (!ALIGNED || rows < %d) __syncthreads();", c->block_rows);
    hr_print(p, "round ^= 1;");
}

void hr_cuda_print_block_in(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "uint32_t thread = threadIdx.x;");
    hr_print(p, "stay_inside(thread);");
    hr_print(p, "const int lane = (int)(thread %% %d);", c->row_threads);
    hr_print(p, "const int rows = tasks - first < %d ? (int)(tasks - first) : %d;", c->block_rows,
             c->block_rows);
    print_arriving(s);
    if (c->row_rounds > 1) {
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int odd = 0; odd < 2; odd++) { /* which row begins inside a word is known */");
        p->indent++;
    }
    hr_print(p, "const int row = (int)(thread / %d)%s, place = row * %" PRId64 ";", c->row_threads,
             c->row_rounds > 1 ? " * 2 + odd" : "", c->row);
    if (!hr_cuda_asks_live(c)) hr_print(p, "if (row < rows) {");
    p->indent += !hr_cuda_asks_live(c);
}

void hr_cuda_print_block_out(hr_cuda_stage *s) {
    if (!hr_cuda_asks_live(s->c)) hr_cuda_close(s->p);
    if (s->c->row_rounds > 1) hr_cuda_close(s->p);
}

void hr_cuda_print_returning(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "hand_over();");
    for (int i = 0; i < c->block_slot_count; i++)
        if (c->block_slots[i].out >= 0)
            hr_print(p, "return_rows<ALIGNED, %d>(%s + first * %" PRId64 ", carried_%d, rows * %" PRId64 ");",
                     c->threads, hr_emit_tensor(p, c->block_slots[i].out), c->row, i, c->row);
    hr_print(p, "ptx_bulk_commit();");
    hr_print(p, "ptx_bulk_wait_read<0>();");
    hr_print(p, "if (first + (int64_t)gridDim.x * %d < tasks) __syncthreads();", c->block_rows);
}
