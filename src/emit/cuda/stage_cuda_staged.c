/* Short rows that begin anywhere in memory. In: a stage. Out: text. See stage_cuda_staged.h. */
#include "emit/cuda/stage_cuda_staged.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

/* GROUPS_LEAST: of a thread, so that what is done once a row weighs little; GROUPS_MOST, HELD_MOST: so that
 * they stay in registers; ROWS_LEAST: of 2 bytes an element, they begin at a multiple of 16 bytes.
 * TOGETHER: blocks of a multiprocessor, as measured: with 9, and registers for no
 * more, layernorm is 2 to 4 % slower. */
enum {
    GROUPS_LEAST = 8,
    GROUPS_MOST = 20,
    SINGLES_MOST = 12,
    HELD_MOST = 40,
    ROWS_LEAST = 8,
    THREADS = 128,
    TOGETHER = 7,
    PIECE = 16,
    BYTES_MOST = 48 << 10
};

/* ---- the choice ---- */

typedef struct chooser {
    const hr_plan *plan;
    const hr_stage *stage;
    const int64_t *extents;
    hr_cuda_choice *c;
    bool *visited;
    int narrowest, widest, reads;
    bool fits;
} chooser;

static int size_of(const chooser *s, int tensor) {
    return (int)hr_dtype_size(s->plan->normal->tensors[tensor].dtype);
}

static void add_slot(chooser *s, hr_cuda_carrier slot) {
    int size = size_of(s, slot.in >= 0 ? slot.in : slot.out);
    if (s->c->carrier_count == HR_CUDA_CARRIERS_MAX) {
        s->fits = false;
        return;
    }
    s->c->carriers[s->c->carrier_count++] = slot;
    if (size < s->narrowest) s->narrowest = size;
    if (size > s->widest) s->widest = size;
}

static void add_reads(chooser *s, const hr_expr *e) {
    if (s->visited[e->id]) return;
    s->visited[e->id] = true;
    if (e->op == HR_OP_ELEMENT && !hr_stage_makes(s->plan, s->stage, e->tensor) &&
        !hr_element_is_guarded(s->plan->normal, e) &&
        hr_cuda_is_whole(s->plan, s->c, e->tensor, e->args, s->extents)) {
        bool known = false;
        for (int i = 0; i < s->c->carrier_count; i++)
            known = known || s->c->carriers[i].in == e->tensor;
        if (!known) add_slot(s, (hr_cuda_carrier){.in = e->tensor, .out = -1});
    }
    for (int i = 0; i < e->arg_count; i++)
        add_reads(s, e->args[i]);
}

/* A result's rows take the place of what was read for them, where that is of its type: an element is written
 * by the thread that read it. */
static void add_write(chooser *s, int tensor) {
    hr_dtype dtype = s->plan->normal->tensors[tensor].dtype;
    for (int i = 0; i < s->c->carrier_count; i++) {
        hr_cuda_carrier *slot = &s->c->carriers[i];
        if (slot->out >= 0 || slot->in < 0 || s->plan->normal->tensors[slot->in].dtype != dtype) continue;
        slot->out = tensor;
        return;
    }
    add_slot(s, (hr_cuda_carrier){.in = -1, .out = tensor});
}

static void add_all(chooser *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        add_reads(s, s->stage->steps[i].value);
    s->reads = s->c->carrier_count;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->plan->normal->statements[step->statement];
        if (step->kind == HR_STEP_SCATTER || step->kind == HR_STEP_REDUCE_ALL) s->fits = false;
        if (step->kind == HR_STEP_ELEMENT && step->stored &&
            hr_cuda_is_whole(s->plan, s->c, statement->tensor, statement->subscripts, s->extents))
            add_write(s, statement->tensor);
    }
}

/* Threads and rows of a block; false where the rows are too long. */
static bool lay_out(chooser *s) {
    hr_cuda_choice *c = s->c;
    int vector = s->widest == 2 ? 2 : 1;
    int64_t groups = (c->row + vector - 1) / vector, bytes = 0;
    int threads = 32;
    while (threads > 1 && groups < (int64_t)GROUPS_LEAST * threads)
        threads /= 2;
    c->row_turns = c->row % vector && threads == 32 ? 2 : 1;
    int rows = THREADS / threads * c->row_turns > ROWS_LEAST ? THREADS / threads * c->row_turns : ROWS_LEAST;
    int64_t held = (groups + threads - 1) / threads;
    if (held > (vector > 1 ? GROUPS_MOST : SINGLES_MOST) || held * s->reads > HELD_MOST) return false;
    for (int i = 0; i < c->carrier_count; i++) {
        hr_cuda_carrier *slot = &c->carriers[i];
        slot->offset = bytes;
        bytes += rows * c->row * size_of(s, slot->in >= 0 ? slot->in : slot->out);
    }
    if (bytes > BYTES_MOST) return false;
    c->shared_bytes = bytes;
    c->vector = vector;
    c->exact = c->row % vector == 0;
    c->row_threads = threads;
    c->block_rows = rows;
    c->threads = threads * rows / c->row_turns;
    c->groups = (int)held;
    if (c->row_turns > 1 && held * s->reads <= GROUPS_MOST) c->together = TOGETHER;
    return true;
}

bool hr_cuda_choose_carried(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                            hr_cuda_choice *c) {
    const hr_tunables *t = &plan->tunables;
    size_t ids = (size_t)plan->normal->expr_count + 1;
    chooser s = {.plan = plan, .stage = stage, .extents = extents, .c = c, .narrowest = PIECE, .fits = true};
    if (plan->limits.compute < 90 || stage->row_count != 1 || c->columns || c->totals) return false;
    if (t->row_threads || t->unroll || t->waves || t->prefetch || t->cluster) return false;
    s.visited = hr_arena_alloc(plan->arena, ids);
    memset(s.visited, 0, ids);
    add_all(&s);
    if (!s.fits || !c->carrier_count || s.narrowest < 2 || s.widest > 4 || !lay_out(&s)) {
        c->carrier_count = 0;
        return false;
    }
    c->carried = c->resident = c->narrow = true;
    c->shifted = c->straddle = false;
    c->slices = 1;
    c->chunks = 1;
    c->blocks_limit = INT32_MAX;
    return true;
}

/* ---- text ---- */

const char *hr_cuda_carried_in(const hr_cuda_stage *s, const hr_expr *e) {
    for (int i = 0; i < s->c->carrier_count; i++)
        if (s->c->carriers[i].in == e->tensor && !hr_element_is_guarded(s->function, e) &&
            hr_cuda_whole(s, e->tensor, e->args))
            return hr_format(s->p, "carried_%d", i);
    return NULL;
}

const char *hr_cuda_carried_out(const hr_cuda_stage *s, int tensor) {
    for (int i = 0; i < s->c->carrier_count; i++)
        if (s->c->carriers[i].out == tensor) return hr_format(s->p, "carried_%d", i);
    return NULL;
}

const char *hr_cuda_carried_apart(const hr_cuda_stage *s) {
    if (s->c->row_turns > 1) return "odd";
    return s->c->row % s->c->vector ? "true" : "false";
}

void hr_cuda_print_carriers(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int reads = 0;
    for (int i = 0; i < c->carrier_count; i++) {
        const hr_cuda_carrier *slot = &c->carriers[i];
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
    hr_print(p, "    publish_arrivals();");
    hr_print(p, "}");
    hr_print(p, "__syncthreads();");
}

static void print_arriving(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool any = false;
    for (int i = 0; i < c->carrier_count; i++) {
        if (c->carriers[i].in < 0) continue;
        hr_print(p,
                 "begin_rows<ALIGNED, %d>(carried_%d, %s + first * %" PRId64 ", rows * %" PRId64
                 ", &arrived, %s);",
                 c->threads, i, hr_emit_tensor(p, c->carriers[i].in), c->row, c->row,
                 c->last ? "true" : "false");
        any = true;
    }
    if (!any) return;
    hr_print(p, "wait_for_arrivals(&arrived, round);");
    hr_print(p, "if (!ALIGNED || rows < %d) __syncthreads();", c->block_rows);
    hr_print(p, "round ^= 1;");
}

void hr_cuda_print_carrying(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "uint32_t thread = threadIdx.x;");
    hr_print(p, "stay_inside(thread);");
    hr_print(p, "const int lane = (int)(thread %% %d);", c->row_threads);
    hr_print(p, "const int rows = tasks - first < %d ? (int)(tasks - first) : %d;", c->block_rows,
             c->block_rows);
    print_arriving(s);
    if (c->row_turns > 1) {
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int odd = 0; odd < 2; odd++) { /* which row begins inside a word is known */");
        p->indent++;
    }
    hr_print(p, "const int row = (int)(thread / %d)%s, place = row * %" PRId64 ";", c->row_threads,
             c->row_turns > 1 ? " * 2 + odd" : "", c->row);
    if (!hr_cuda_asks_live(c)) hr_print(p, "if (row < rows) {");
    p->indent += !hr_cuda_asks_live(c);
}

void hr_cuda_print_carried(hr_cuda_stage *s) {
    if (!hr_cuda_asks_live(s->c)) hr_cuda_close(s->p);
    if (s->c->row_turns > 1) hr_cuda_close(s->p);
}

void hr_cuda_print_returning(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "hand_over();");
    for (int i = 0; i < c->carrier_count; i++)
        if (c->carriers[i].out >= 0)
            hr_print(p, "return_rows<ALIGNED, %d>(%s + first * %" PRId64 ", carried_%d, rows * %" PRId64 ");",
                     c->threads, hr_emit_tensor(p, c->carriers[i].out), c->row, i, c->row);
    hr_print(p, "end_run_out();");
    hr_print(p, "wait_for_runs_out<0>();");
    hr_print(p, "if (first + (int64_t)gridDim.x * %d < tasks) __syncthreads();", c->block_rows);
}
