/* Whether short rows that begin anywhere in memory come and go through shared memory. In: a stage. Out:
 * numbers. See stage_cuda_shared.h for what is made of them. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

#include <string.h>

/* GROUPS_LEAST: of a thread, so that what is done once a row weighs little; GROUPS_MOST, HELD_MOST: so that
 * they stay in registers; ROWS_LEAST: of 2 bytes an element, they begin at a multiple of 16 bytes.
 * TOGETHER: blocks of a multiprocessor, as measured: layernorm with 9, and registers for no more, lost up to
 * 4 %. GUESSED: registers of a thread beside its elements where a variance is about a guess. */
enum {
    GROUPS_LEAST = 8,
    GROUPS_MOST = 20,
    SINGLES_MOST = 12,
    HELD_MOST = 40,
    ROWS_LEAST = 8,
    THREADS = 128,
    TOGETHER = 7,
    GUESSED = 48,
    PIECE = 16,
    BYTES_MOST = 48 << 10
};

typedef struct chooser {
    const hr_plan *plan;
    const hr_stage *stage;
    const int64_t *extents;
    hr_cuda_choice *c;
    int narrowest, widest, reads;
    bool fits;
} chooser;

static int size_of(const chooser *s, int tensor) {
    return (int)hr_dtype_size(s->plan->normal->tensors[tensor].dtype);
}

static void add_slot(chooser *s, hr_cuda_block_slot slot) {
    int size = size_of(s, slot.in >= 0 ? slot.in : slot.out);
    if (s->c->block_slot_count == HR_CUDA_BLOCK_SLOTS_MAX) {
        s->fits = false;
        return;
    }
    s->c->block_slots[s->c->block_slot_count++] = slot;
    if (size < s->narrowest) s->narrowest = size;
    if (size > s->widest) s->widest = size;
}

static hr_visit add_read(void *chooser_of, const hr_expr *e) {
    chooser *s = chooser_of;
    if (e->op == HR_OP_ELEMENT && !hr_stage_makes(s->plan, s->stage, e->tensor) &&
        !hr_element_is_guarded(s->plan->normal, e) &&
        hr_cuda_is_whole(s->plan, s->c, e->tensor, e->args, s->extents)) {
        bool known = false;
        for (int i = 0; i < s->c->block_slot_count; i++)
            known = known || s->c->block_slots[i].in == e->tensor;
        if (!known) add_slot(s, (hr_cuda_block_slot){.in = e->tensor, .out = -1});
    }
    return HR_VISIT_ON;
}

/* A result's rows take the place of what was read for them, where that is of its type: an element is written
 * by the thread that read it. */
static void add_write(chooser *s, int tensor) {
    hr_dtype dtype = s->plan->normal->tensors[tensor].dtype;
    for (int i = 0; i < s->c->block_slot_count; i++) {
        hr_cuda_block_slot *slot = &s->c->block_slots[i];
        if (slot->out >= 0 || slot->in < 0 || s->plan->normal->tensors[slot->in].dtype != dtype) continue;
        slot->out = tensor;
        return;
    }
    add_slot(s, (hr_cuda_block_slot){.in = -1, .out = tensor});
}

static void add_all(chooser *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        hr_expr_visit(s->stage->steps[i].value, add_read, s);
    s->reads = s->c->block_slot_count;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->plan->normal->statements[step->statement];
        if (step->kind == HR_STEP_SCATTER || step->kind == HR_STEP_REDUCE_ALL) s->fits = false;
        if (step->kind == HR_STEP_ELEMENT && step->stored &&
            hr_cuda_is_whole(s->plan, s->c, statement->tensor, statement->subscripts, s->extents))
            add_write(s, statement->tensor);
    }
}

/* Blocks that have the registers for it, so that nothing spills: a variance of sums about a first guess takes
 * more. */
static int together_of(const hr_stage *stage, int elements) {
    bool guessed = false;
    for (int i = 0; i < stage->step_count; i++)
        guessed |= stage->steps[i].variance != NULL;
    int fitting = HR_CUDA_REGISTERS / (THREADS * (elements + GUESSED));
    return guessed && fitting < TOGETHER ? fitting : TOGETHER;
}

/* Threads and rows of a block; false where the rows are too long. */
static bool lay_out(chooser *s) {
    hr_cuda_choice *c = s->c;
    int vector = s->widest == 2 ? 2 : 1;
    int64_t groups = hr_divide_up(c->row, vector), bytes = 0;
    int threads = 32;
    while (threads > 1 && groups < (int64_t)GROUPS_LEAST * threads)
        threads /= 2;
    c->row_rounds = c->row % vector && threads == 32 ? 2 : 1;
    int rows =
        THREADS / threads * c->row_rounds > ROWS_LEAST ? THREADS / threads * c->row_rounds : ROWS_LEAST;
    int64_t held = hr_divide_up(groups, threads);
    if (held > (vector > 1 ? GROUPS_MOST : SINGLES_MOST) || held * s->reads > HELD_MOST) return false;
    for (int i = 0; i < c->block_slot_count; i++) {
        hr_cuda_block_slot *slot = &c->block_slots[i];
        slot->offset = bytes;
        bytes += rows * c->row * size_of(s, slot->in >= 0 ? slot->in : slot->out);
    }
    if (bytes > BYTES_MOST) return false;
    c->shared_bytes = bytes;
    c->vector = vector;
    c->ends = c->row % vector == 0 ? HR_CUDA_ENDS_EXACT : HR_CUDA_ENDS_RAGGED;
    c->row_threads = threads;
    c->block_rows = rows;
    c->threads = threads * rows / c->row_rounds;
    c->groups = (int)held;
    if (c->row_rounds > 1 && held * s->reads <= GROUPS_MOST)
        c->together = together_of(s->stage, hr_saturate_int(held * vector));
    return true;
}

bool hr_cuda_choose_staged_block(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                 hr_cuda_choice *c) {
    const hr_knobs *k = hr_stage_knobs(stage);
    chooser s = {.plan = plan, .stage = stage, .extents = extents, .c = c, .narrowest = PIECE, .fits = true};
    if (plan->limits.compute < 90 || stage->row_count != 1 || c->columns || c->totals) return false;
    if (k->row_threads || k->groups || k->blocks || k->staging || k->cluster) return false;
    add_all(&s);
    if (!s.fits || !c->block_slot_count || s.narrowest < 2 || s.widest > 4 || !lay_out(&s)) {
        c->block_slot_count = 0;
        return false;
    }
    c->rows = HR_CUDA_ROWS_BLOCK;
    c->position_bits = 32;
    c->slices = 1;
    c->chunks = 1;
    c->blocks_limit = INT32_MAX;
    return true;
}
