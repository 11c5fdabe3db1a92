/* Rows with sums over rows beside them. In: a stage of rows. Out: how its threads hold both. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "ir/graph.h"
#include "schedule/schedule.h"

enum { COLUMN_ELEMENTS = 24 }; /* of a thread */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* How a thread gets at the groups of its row in the passes after the first. */
typedef enum column_way {
    HELD,       /* it holds them in registers */
    READ_AGAIN, /* it reads them from shared memory again */
    ALL_SHARED, /* and what is the same for all rows, too */
    COLUMN_WAYS
} column_way;

/* Registers of a thread with so many groups of a row, as measured: sums, what is the same for all rows, and
 * what the way needs. */
static int column_registers(const hr_cuda_chooser *s, column_way way, int groups) {
    const hr_cuda_choice *c = s->c;
    int staged = s->staged_bytes * c->vector / 4, same = (s->bytes - s->staged_bytes) * c->vector / 4;
    int values = 2 * c->vector, sums = c->columns * c->vector;
    if (way == HELD) return 8 + groups * (staged + same + values + sums);
    if (way == READ_AGAIN) return 32 + staged + values + groups * (sums + same);
    return 32 + groups * sums; /* threads so many that the compiler keeps to it */
}

typedef struct column_choice {
    column_way way;
    int groups, threads, blocks, depth; /* blocks of a multiprocessor; rows of one that have a place */
    int64_t shared_bytes;
} column_choice;

/* Rows that a multiprocessor works on side by side hide each other's barriers: it takes 1024 threads, or half
 * as many where each has 16 elements at once. Two rows under way are a little fewer than it takes. */
static int column_score(const hr_cuda_chooser *s, const column_choice *o) {
    int elements = o->groups * s->c->vector, bytes = elements * s->widest;
    int score = o->threads * o->blocks;
    score = elements >= 16                 ? score * 2
            : bytes >= HR_CUDA_GROUP_BYTES ? score
                                           : score * bytes / HR_CUDA_GROUP_BYTES;
    return (score < 1024 ? score : 1024) * (o->depth < 3 ? 15 : 16);
}

static bool try_columns(const hr_cuda_chooser *s, int64_t groups, column_choice *o) {
    int64_t registers = (column_registers(s, o->way, o->groups) + 7) / 8 * 8;
    int64_t held = (int64_t)o->threads * o->groups * s->c->vector, row = held * s->staged_bytes;
    int64_t same = o->way == ALL_SHARED ? held * (s->bytes - s->staged_bytes) : 0;
    int64_t room = s->plan->limits.shared_bytes;
    o->blocks = 1024 / o->threads; /* their warps lie on four parts, each with a quarter of the registers */
    while (o->blocks > 0 &&
           hr_divide_up((int64_t)o->blocks * o->threads, 128) * 128 * registers > HR_CUDA_REGISTERS)
        o->blocks--;
    if (o->blocks < 1 || (int64_t)o->threads * o->groups < groups) return false;
    o->depth =
        (int)smaller((room / o->blocks - HR_CUDA_SHARED_RESERVE - same) / row, o->way == ALL_SHARED ? 2 : 3);
    o->shared_bytes = o->depth * row + same;
    return o->depth >= 2;
}

/* Two blocks leave half as many partial results, which the end of the stage reads again. More have no place
 * on multiprocessors that come in pairs. Of one sum there is so little that waiting for the partner costs as
 * much. */
static bool have_partners(const hr_cuda_chooser *s) {
    const hr_cuda_choice *c = s->c;
    int64_t bytes = 0;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        int size = hr_cuda_partial_size(s->plan, step);
        if (hr_op_finds_position(step->reduce) || c->vector * size % HR_CUDA_GROUP_BYTES) return false;
        bytes += c->row * size;
    }
    return s->plan->limits.cluster_blocks > 1 && c->columns > 1 && !c->totals && c->blocks_limit % 2 == 0 &&
           hr_cuda_row_count(s) >= (double)c->blocks_limit && bytes <= c->shared_bytes;
}

/* What the tuner asks for, or what registers and warps of a multiprocessor are good for. */
static bool is_candidate(const hr_cuda_chooser *s, const column_choice *o) {
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    int elements = o->groups * s->c->vector;
    if (o->threads > 1024 || (knobs->groups && knobs->groups != o->groups) ||
        (knobs->row_threads && knobs->row_threads != o->threads))
        return false;
    if (knobs->groups || knobs->row_threads) return true;
    return o->threads <= (o->way == ALL_SHARED ? 1024 : 512) && (o->threads >= 128 || o->groups == 1) &&
           elements <= (o->way == HELD ? 16 : COLUMN_ELEMENTS);
}

/* The last way is looked at where the others do not do. */
static column_choice best_columns(const hr_cuda_chooser *s, int64_t groups) {
    column_choice best = {.threads = 0};
    for (column_way way = HELD; way < COLUMN_WAYS; way++)
        for (int unroll = 1; unroll <= COLUMN_ELEMENTS && (way != ALL_SHARED || !best.threads); unroll++) {
            column_choice option = {.way = way, .groups = unroll};
            option.threads = hr_saturate_int(hr_round_up(hr_divide_up(groups, unroll), 32));
            if (is_candidate(s, &option) && try_columns(s, groups, &option) &&
                column_score(s, &option) > column_score(s, &best))
                best = option;
        }
    return best;
}

bool hr_cuda_choose_columns(hr_cuda_chooser *s, int64_t groups) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    if (!c->columns || c->ends != HR_CUDA_ENDS_EXACT || !hr_stage_has(s->stage, HR_STEP_REDUCE_ROW) ||
        groups <= 64 || knobs->cluster || knobs->staging ||
        c->vector * s->narrowest < 4) /* that a copy can take */
        return false;
    column_choice best = best_columns(s, groups);
    if (!best.threads) return false;
    c->rows = best.way == HELD ? HR_CUDA_ROWS_SHARED_HELD : HR_CUDA_ROWS_SHARED_AHEAD;
    c->same = best.way == ALL_SHARED ? HR_CUDA_SAME_SHARED : HR_CUDA_SAME_AT_USE;
    c->row_threads = c->threads = best.threads;
    c->block_rows = c->slices = 1;
    c->groups = best.groups;
    c->chunks = 1;
    c->depth = best.depth;
    c->shared_bytes = best.shared_bytes;
    c->together = best.blocks;
    c->blocks_limit = (int64_t)s->plan->limits.threads * (knobs->blocks ? knobs->blocks : best.blocks);
    c->position_bits = c->row < HR_CUDA_NARROW_MAX ? 32 : 64;
    c->partners = have_partners(s) ? 2 : 1;
    c->row_bits = hr_cuda_row_count(s) <= HR_CUDA_FEW_ROWS ? 32 : 64;
    return true;
}
