/* Rows in shared memory: between their passes, each thread's groups in places of its own; or on their way in
 * and out. In: a stage. Out: text. See stage_cuda_shared.h. */
#include "emit/cuda/stage_cuda_shared.h"

#include "base/dtype.h"
#include "emit/cuda/stage_cuda_elements.h"

#include <inttypes.h>
#include <string.h>

/* ---- rows that wait between their passes ---- */

bool hr_cuda_is_staged_element(const hr_cuda_stage *s, const hr_expr *e) {
    return hr_cuda_is_staged(s->c) && hr_cuda_whole(s, e->tensor, e->args);
}

const char *hr_cuda_slot(hr_cuda_stage *s, const hr_expr *e, const char *buffer) {
    const hr_cuda_choice *c = s->c;
    if (c->rows == HR_CUDA_ROWS_RING)
        return hr_format(s->p, "staged_%d + (%s * %d + u) * %d + (int)threadIdx.x", e->id, buffer, c->groups,
                         c->threads);
    const char *group = c->chunks > 1 ? hr_format(s->p, "(chunk * %d + u)", c->groups) : "u";
    const char *slot = hr_format(s->p, "staged_%d + %s * %d + (int)threadIdx.x", e->id, group, c->threads);
    return c->depth > 1 && buffer
               ? hr_format(s->p, "%s + %s * %" PRId64, slot, buffer, c->chunks * c->groups * c->threads)
               : slot;
}

static bool used_after(hr_cuda_stage *s, const hr_expr *e, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass > pass && hr_cuda_runs_in(s, step, step->pass) && hr_expr_contains(step->value, e))
            return true;
    }
    return false;
}

/* The group of row `task`, whose first position is `pos`. */
void hr_cuda_print_stage_group(hr_cuda_stage *s, const hr_expr *e, const char *task, const char *buffer,
                               bool may_be_aligned) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *aligned = may_be_aligned && hr_cuda_is_aligned(s, e->tensor, e->args) ? "ALIGNED" : "false";
    const char *place =
        hr_format(p, "%s + %s * %" PRId64 " + pos", hr_emit_tensor(p, e->tensor), task, c->row);
    if (c->ends == HR_CUDA_ENDS_EXACT)
        hr_print(p, "stage_group<%s>(%s, %s, 0, %d);", aligned, hr_cuda_slot(s, e, buffer), place, c->vector);
    else
        hr_print(p, "stage_group<%s>(%s, %s, -pos, %" PRId64 " - pos);", aligned, hr_cuda_slot(s, e, buffer),
                 place, c->row);
}

void hr_cuda_print_restaging(hr_cuda_stage *s, const hr_expr *const *elements, int count, int pass) {
    hr_printer *p = s->p;
    bool any = false;
    if (s->c->depth > 1 || s->c->rows == HR_CUDA_ROWS_RING) return;
    for (int i = 0; i < count; i++)
        any = any || (hr_cuda_is_staged_element(s, elements[i]) && !used_after(s, elements[i], pass));
    if (!any) return;
    hr_print(p, "if (ahead < tasks) {");
    p->indent++;
    if (s->c->ends == HR_CUDA_ENDS_SHIFTED) hr_print(p, "const int shift = ahead_shift;");
    hr_cuda_open_groups(s);
    for (int i = 0; i < count; i++)
        if (hr_cuda_is_staged_element(s, elements[i]) && !used_after(s, elements[i], pass))
            hr_cuda_print_stage_group(s, elements[i], "ahead", "0", true);
    hr_cuda_close(p);
    hr_cuda_close(p);
}

/* All of row `row` into the places of that buffer. */
static void print_staging_of_row(hr_cuda_stage *s, const hr_cuda_element_list *all, const char *row,
                                 const char *buffer) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "if (%s < tasks) {", row);
    p->indent++;
    hr_print(p, "const int64_t task = %s;", row);
    if (c->ends == HR_CUDA_ENDS_SHIFTED)
        hr_print(p, "const int shift = (int)((uint64_t)task * %" PRId64 " %% %d);", c->row, c->vector);
    if (c->chunks > 1) {
        hr_print(p, "for (int64_t chunk = 0; chunk < %" PRId64 "; chunk++) {", c->chunks);
        p->indent++;
    }
    hr_cuda_open_groups(s);
    for (int i = 0; i < all->count; i++)
        if (hr_cuda_is_staged_element(s, all->element[i]))
            hr_cuda_print_stage_group(s, all->element[i], "task", buffer, true);
    hr_cuda_close(p);
    if (c->chunks > 1) hr_cuda_close(p);
    hr_cuda_close(p);
    if (c->depth > 1) hr_print(p, "ptx_copy_commit();");
}

int hr_cuda_staged_elements(hr_cuda_stage *s, const hr_expr **out, int max) {
    hr_cuda_element_list all = {0};
    int count = 0;
    hr_cuda_all_elements(s, &all);
    for (int i = 0; i < all.count && count < max; i++)
        if (hr_cuda_is_staged_element(s, all.element[i])) out[count++] = all.element[i];
    return count;
}

bool hr_cuda_is_same_shared(const hr_cuda_stage *s, const hr_expr *e) {
    return s->c->same == HR_CUDA_SAME_SHARED && !hr_cuda_is_staged_element(s, e) &&
           !hr_cuda_varies_by_task(s, e);
}

void hr_cuda_print_places(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_cuda_element_list all = {0};
    hr_cuda_all_elements(s, &all);
    int64_t offset = 0;
    for (int i = 0; i < all.count; i++) {
        const hr_expr *e = all.element[i];
        if (!hr_cuda_is_staged_element(s, e) && !hr_cuda_is_same_shared(s, e)) continue;
        const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
        hr_print(p, "group<%s, %d> *const staged_%d = (group<%s, %d> *)(staged_memory() + %" PRId64 ");",
                 type, c->vector, e->id, type, c->vector, offset);
        offset += (hr_cuda_is_staged_element(s, e) ? c->depth : 1) * c->chunks * c->groups * c->threads *
                  c->vector * (int64_t)hr_dtype_size(s->function->tensors[e->tensor].dtype);
    }
}

void hr_cuda_print_staging(hr_cuda_stage *s, const char *step) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_cuda_element_list all = {0};
    hr_cuda_print_places(s);
    hr_cuda_all_elements(s, &all);
    s->step = step;
    if (c->depth < 2) {
        print_staging_of_row(s, &all, "ahead", "0");
        return;
    }
    hr_print(p, "int here = 0; /* which of the places has the row in hand */");
    hr_print(p, "for (int place = 0; place < %d; place++) {", c->depth - 1);
    p->indent++;
    hr_print(p, "const %s loaded = ahead + place * %s;", hr_cuda_row_type(s), step);
    print_staging_of_row(s, &all, "loaded", "place");
    hr_cuda_close(p);
}

void hr_cuda_print_next_staging(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    hr_cuda_element_list all = {0};
    hr_cuda_all_elements(s, &all);
    hr_print(p, "const int free = here == 0 ? %d : here - 1;", s->c->depth - 1);
    if (s->c->depth > 2)
        hr_print(p, "const %s loaded = ahead + %d * %s;", hr_cuda_row_type(s), s->c->depth - 2, s->step);
    print_staging_of_row(s, &all, s->c->depth > 2 ? "loaded" : "ahead", "free");
    hr_print(p, "ptx_copy_wait<%d>();", s->c->depth - 1);
}

/* ---- short rows that begin anywhere in memory ---- */

const char *hr_cuda_block_slot_in(const hr_cuda_stage *s, const hr_expr *e) {
    for (int i = 0; i < s->c->block_slot_count; i++)
        if (s->c->block_slots[i].in == e->tensor && !hr_element_is_guarded(s->function, e) &&
            hr_cuda_whole(s, e->tensor, e->args))
            return hr_format(s->p, "slot_%d", i);
    return NULL;
}

const char *hr_cuda_block_slot_out(const hr_cuda_stage *s, int tensor) {
    for (int i = 0; i < s->c->block_slot_count; i++)
        if (s->c->block_slots[i].out == tensor) return hr_format(s->p, "slot_%d", i);
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
        hr_print(p, "%s *const slot_%d = (%s *)(staged_memory() + %" PRId64 ");", type, i, type,
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
                 "begin_rows<ALIGNED, %d>(slot_%d, %s + first * %" PRId64 ", rows * %" PRId64
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
    if (!hr_cuda_checks_live(c)) hr_print(p, "if (row < rows) {");
    p->indent += !hr_cuda_checks_live(c);
}

/* Both are of one row: what says which is the same, the rest is known for a row. */
static bool is_of_row(hr_cuda_stage *s, const hr_expr *e, const hr_expr *whole) {
    if (e == whole || hr_expr_level(s->p, e) > HR_AT_TASK) return false;
    for (int a = 0; a < s->function->tensors[e->tensor].rank; a++)
        if (e->args[a] != whole->args[a] && hr_cuda_varies_by_task(s, whole->args[a])) return false;
    return true;
}

/* Values before the first pass: after it, a place may have a result. */
typedef struct first_values {
    hr_cuda_stage *s;
    hr_cuda_element_list whole; /* rows that may stand in shared memory */
    int count;                  /* elements that were named */
} first_values;

static hr_visit name_value(void *context, const hr_expr *node) {
    const first_values *values = context;
    hr_cuda_stage *s = values->s;
    if (node->op != HR_OP_ELEMENT || hr_element_is_checked(s->function, node)) return HR_VISIT_ON;
    for (int i = 0; i < values->whole.count; i++) {
        const hr_expr *whole = values->whole.element[i];
        const char *slot = whole->tensor == node->tensor ? hr_cuda_block_slot_in(s, whole) : NULL;
        if (!slot || !is_of_row(s, node, whole)) continue;
        const char *offset =
            hr_emit_offset(s->p, node->tensor, node->args, s->function->tensors[node->tensor].rank);
        const char *bits =
            hr_format(s->p, "%s[place + (int)(%s - task * %" PRId64 ")]", slot, offset, s->c->row);
        if (hr_cuda_checks_live(s->c)) bits = hr_format(s->p, "(live ? %s : 0)", bits);
        s->p->buffer[node->id] = hr_cuda_value_of(s, node, bits);
    }
    return HR_VISIT_PAST;
}

static hr_visit forget_value(void *context, const hr_expr *node) {
    first_values *values = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    values->count += values->s->p->buffer[node->id] != NULL;
    values->s->p->buffer[node->id] = NULL;
    return HR_VISIT_ON;
}

static void visit_first_values(first_values *values, hr_visit (*visit)(void *, const hr_expr *)) {
    hr_walk walk = {.enter = visit, .context = values};
    const hr_stage *stage = values->s->stage;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_ROW && stage->steps[i].pass == 0)
            hr_walk_through(&walk, stage->steps[i].value);
    hr_printer_walked(values->s->p, &walk);
}

void hr_cuda_begin_block_values(hr_cuda_stage *s) {
    first_values values = {.s = s};
    hr_cuda_all_elements(s, &values.whole);
    visit_first_values(&values, name_value);
}

void hr_cuda_end_block_values(hr_cuda_stage *s) {
    first_values values = {.s = s};
    visit_first_values(&values, forget_value);
    if (values.count && s->c->row_threads <= 32)
        hr_print(s->p, "__syncwarp(); /* the row's lanes have read what one of them will write over */");
}

void hr_cuda_print_block_out(hr_cuda_stage *s) {
    if (!hr_cuda_checks_live(s->c)) hr_cuda_close(s->p);
    if (s->c->row_rounds > 1) hr_cuda_close(s->p);
}

void hr_cuda_print_returning(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "hand_over();");
    for (int i = 0; i < c->block_slot_count; i++)
        if (c->block_slots[i].out >= 0)
            hr_print(p, "return_rows<ALIGNED, %d>(%s + first * %" PRId64 ", slot_%d, rows * %" PRId64 ");",
                     c->threads, hr_emit_tensor(p, c->block_slots[i].out), c->row, i, c->row);
    hr_print(p, "ptx_bulk_commit();");
    hr_print(p, "ptx_bulk_wait_read<0>();");
    hr_print(p, "if (first + (int64_t)gridDim.x * %d < tasks) __syncthreads();", c->block_rows);
}
