/* How a stage lies on a CUDA device. In: a stage. Out: numbers. See cuda_choice.h. */
#include "schedule/cuda/cuda_choice.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cuda/cuda_choice_parts.h"
#include "schedule/schedule.h"

#include <string.h>

#define SHARED_RESERVE 3072               /* bytes of a block for what is exchanged, and for the system */
#define REGISTERS      65536              /* of a multiprocessor */
#define NARROW_MAX     (INT64_C(1) << 30) /* positions below it may be doubled and stay 32 bits wide */

/* L2_TIMES: as large as the L2 so many times is what is read where it is to leave the L2 last.
 * FLAT_BYTES: what a thread of a flat stage loads at once, with a byte to spare a group. EARLY_BYTES: what a
 * thread of a row loads at once, what is the same for all rows among it. SHORT_ROW_GROUPS: of a block of rows
 * side by side; blocks of fewer come no faster than 0.8 a ns, larger ones end later. UNEVEN_*: of rows whose
 * ends are inside groups; the fewer threads have them, the less the ends cost. PLACES_*: of sums into few
 * places. */
enum {
    GROUP_BYTES = 16,
    FLAT_BYTES = 68,
    EARLY_BYTES = 192,
    ROW_THREADS_MAX = 512,
    FLAT_THREADS = 256,
    PAIR_THREADS = 512,
    SHORT_ROW_THREADS = 256,
    SHORT_ROW_GROUPS = 192,
    ONCE_THREADS = 256,
    UNEVEN_LEAST = 128,
    UNEVEN_MOST = 1792,
    UNEVEN_UNROLL = 7,
    COLUMN_ELEMENTS = 24,
    L2_TIMES = 4,
    PLACES_BYTES = 16384,
    PLACES_TIMES = 64,
    SIZES_MAX = 64
};

typedef struct chooser {
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    const int64_t *extents;
    hr_cuda_choice *c;
    int tensor_count; /* that lanes read or write */
    int tensors[SIZES_MAX];
    int streams;       /* of those, the ones that are read and as large as the largest */
    int staged_bytes;  /* of an element of all that is read whole */
    int bytes;         /* of an element of everything that is read along the lane */
    double read_bytes; /* of the streams */
    bool writes;       /* something as large as they are is written */
    int widest;        /* bytes of an element of the streams */
    int narrowest;     /* and of what is read whole; 0: nothing is */
    bool whole;        /* some of them are whole */
    bool shared;       /* something smaller is read beside them, the same for many rows */
} chooser;

static int64_t size_of(const chooser *s, const hr_expr *extent) {
    int64_t size = 0;
    return hr_extent_value(s->function, extent, s->extents, &size) == HR_OK ? size : 0;
}

static int64_t index_size(const chooser *s, int index) {
    return size_of(s, s->function->indices[index].extent);
}

static int64_t power_up(int64_t x) {
    int64_t power = 1;
    while (power < x && power <= INT64_MAX / 2)
        power *= 2;
    return power;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- which extents are numbers ---- */

static bool is_plain(const hr_expr *e, int extent) {
    return e->op == HR_OP_EXTENT && e->extent == extent;
}

/* A stage's outermost index may have any extent, as long as no axis but the first of a tensor does. */
bool hr_cuda_is_constant(const hr_plan *plan, int extent) {
    const hr_function *function = plan->normal;
    if (plan->general) return false;
    for (int t = 0; t < function->tensor_count; t++)
        for (int a = 0; a < function->tensors[t].rank; a++)
            if (hr_expr_has_extent(function->tensors[t].shape[a], extent) &&
                (a > 0 || !is_plain(function->tensors[t].shape[a], extent)))
                return true;
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        for (int k = 0; k < stage->task_count + stage->row_count; k++) {
            int index = k < stage->task_count ? stage->task[k] : stage->row[k - stage->task_count];
            const hr_expr *size = function->indices[index].extent;
            if (!hr_expr_has_extent(size, extent)) continue;
            bool rows = k == 0 && stage->task_count > 0;
            bool flat = k == 0 && !hr_stage_has(stage, HR_STEP_REDUCE_ROW) &&
                        (!hr_stage_has(stage, HR_STEP_ROW) || hr_stage_can_split(plan, stage)) &&
                        !hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
            if ((!rows && !flat) || !is_plain(size, extent)) return true;
        }
        const hr_contract *contract = stage->contract;
        for (int k = 0; contract && k < contract->k_count; k++)
            if (hr_expr_has_extent(function->indices[contract->k[k]].extent, extent)) return true;
    }
    return false;
}

/* ---- what is streamed ---- */

bool hr_cuda_is_whole(const hr_plan *plan, const hr_cuda_choice *choice, int tensor,
                      hr_expr *const *subscripts, const int64_t *extents) {
    const hr_tensor *t = &plan->normal->tensors[tensor];
    if (t->rank != choice->order_count || hr_plan_layout(plan, tensor) == HR_LAYOUT_STRIDED) return false;
    for (int a = 0; a < t->rank; a++) {
        int64_t axis, size;
        if (subscripts[a]->op != HR_OP_INDEX || subscripts[a]->index != choice->order[a]) return false;
        const hr_expr *extent = plan->normal->indices[choice->order[a]].extent;
        if (hr_extent_value(plan->normal, t->shape[a], extents, &axis) != HR_OK) return false;
        if (hr_extent_value(plan->normal, extent, extents, &size) != HR_OK || size != axis) return false;
    }
    return true;
}

static void add_tensor(chooser *s, int tensor, hr_expr *const *subscripts, bool reads) {
    int last = s->function->tensors[tensor].rank - 1, lane = s->c->order[s->c->order_count - 1];
    if (last < 0 || !hr_expr_has_index(subscripts[last], lane)) return;
    bool whole = hr_cuda_is_whole(s->plan, s->c, tensor, subscripts, s->extents);
    if (whole) s->whole = true;
    int size = (int)hr_dtype_size(s->function->tensors[tensor].dtype);
    if (whole && reads) s->staged_bytes += size;
    if (whole && reads && (!s->narrowest || size < s->narrowest)) s->narrowest = size;
    for (int i = 0; i < s->tensor_count; i++)
        if (s->tensors[i] == tensor) return;
    if (s->tensor_count < SIZES_MAX) s->tensors[s->tensor_count++] = tensor;
}

static hr_visit add_element(void *chooser_of, const hr_expr *e) {
    chooser *s = chooser_of;
    if (e->op == HR_OP_ELEMENT) add_tensor(s, e->tensor, e->args, true);
    if (e->op == HR_OP_ELEMENT && e->arg_count && hr_expr_has_index(e, s->c->order[s->c->order_count - 1]))
        s->bytes += (int)hr_dtype_size(s->function->tensors[e->tensor].dtype);
    return HR_VISIT_ON;
}

static double elements_of(const chooser *s, int tensor) {
    return hr_extent_elements(s->function, &s->function->tensors[tensor], s->extents);
}

/* Elements of 16 bytes of the widest of the tensors that are as large as the largest, within a factor of 2.
 */
static void choose_vector(chooser *s, int written) {
    double largest = 0;
    size_t widest = 1;
    for (int i = 0; i < s->tensor_count; i++)
        if (elements_of(s, s->tensors[i]) > largest) largest = elements_of(s, s->tensors[i]);
    for (int i = 0; i < s->tensor_count; i++) {
        if (elements_of(s, s->tensors[i]) * 2 < largest) {
            s->shared |= i >= written;
            continue;
        }
        size_t size = hr_dtype_size(s->function->tensors[s->tensors[i]].dtype);
        if (size > widest) widest = size;
        s->writes |= i < written;
        if (i < written) continue;
        s->streams++;
        s->read_bytes += elements_of(s, s->tensors[i]) * (double)size;
    }
    s->widest = (int)widest;
    s->c->vector = s->tensor_count ? GROUP_BYTES / (int)widest : 1;
    if (s->streams < 1) s->streams = 1;
}

static hr_status survey(chooser *s) {
    hr_walk walk = {.enter = add_element, .context = s};
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        if (step->kind == HR_STEP_ELEMENT && step->stored)
            add_tensor(s, statement->tensor, statement->subscripts, false);
    }
    int written = s->tensor_count;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_walk_through(&walk, step->value);
        for (int a = 0; step->kind == HR_STEP_SCATTER && a < statement->subscript_count; a++)
            hr_walk_through(&walk, statement->subscripts[a]);
    }
    choose_vector(s, written);
    return hr_walk_end(&walk);
}

/* ---- threads ---- */

/* Elements are read at that index and, as x[t, 1 - p, d] is, at a value that is computed from it. */
static hr_visit is_shifted(const hr_expr *e, const void *index) {
    for (int a = 0; e->op == HR_OP_ELEMENT && a + 1 < e->arg_count; a++)
        if (e->args[a]->op != HR_OP_INDEX && hr_expr_has_index(e->args[a], *(const int *)index))
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

static int find_both(const chooser *s) {
    const hr_cuda_choice *c = s->c;
    if (!c->exact || c->totals || c->list || c->once) return 0;
    for (int k = 1; k + 1 < c->order_count; k++) {
        const hr_expr *extent = s->function->indices[c->order[k]].extent;
        if (extent->op != HR_OP_NUMBER || extent->whole != 2) continue;
        for (int i = 0; i < s->stage->step_count; i++)
            if (hr_expr_find(s->stage->steps[i].value, is_shifted, &c->order[k])) return k;
    }
    return 0;
}

/* Places that are added into by far more elements than they are, if they fit a block's shared memory several
 * times. */
static int few_places(const chooser *s, double elements) {
    const hr_step *step = &s->stage->steps[0];
    const hr_statement *statement = &s->function->statements[step->statement];
    if (step->kind != HR_STEP_SCATTER || hr_plan_layout(s->plan, statement->tensor) != HR_LAYOUT_DENSE)
        return 0;
    double places = elements_of(s, statement->tensor);
    size_t size = hr_dtype_size(hr_compute_type(s->function->tensors[statement->tensor].dtype));
    if (size == sizeof(float)) size = sizeof(double); /* a block's sums of f32 are f64 */
    bool few = places >= 1 && places * (double)size <= PLACES_BYTES && places * PLACES_TIMES <= elements;
    return few ? hr_saturate_int(power_up((int64_t)places)) : 0;
}

static void choose_flat(chooser *s) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    c->resident = true;
    bool pair = s->streams == 2 && !s->shared && !c->list; /* of tensors: one group of each a thread */
    c->row_threads = c->threads = knobs->row_threads ? knobs->row_threads
                                  : pair             ? PAIR_THREADS
                                                     : FLAT_THREADS;
    c->block_rows = c->slices = 1;
    int fitting = pair ? 1 : FLAT_BYTES / (s->bytes * c->vector + 1);
    c->groups = knobs->groups ? knobs->groups : fitting < 1 ? 1 : fitting > 4 ? 4 : fitting;
    c->exact = c->order_count > 1 && c->lane % c->vector == 0;
    c->straddle = c->order_count > 1 && !c->exact;
    c->chunks = 1;
    c->both = find_both(s);
    if (c->both) c->groups = 2;
    int64_t total = 1;
    for (int k = 0; k < c->order_count && total >= 0; k++)
        if (__builtin_mul_overflow(total, index_size(s, c->order[k]), &total)) total = -1;
    c->narrow = total >= 0 && total < NARROW_MAX;
    c->blocks_limit = INT32_MAX;
    c->places = few_places(s, (double)total);
    if (c->totals || c->places || knobs->blocks)
        c->blocks_limit = (int64_t)s->plan->limits.threads * (knobs->blocks ? knobs->blocks : 8);
    hr_cuda_choose_tile(s->plan, s->stage, s->extents, c);
}

/* Passes over a row, those that are made beside another left out. */
static int passes_of(const chooser *s) {
    bool used[64] = {false};
    int passes = 0;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        bool lanes = step->kind == HR_STEP_REDUCE_ROW || step->kind == HR_STEP_REDUCE_COLUMN ||
                     (step->kind == HR_STEP_ELEMENT && step->stored);
        const hr_expr *shift;
        for (int k = 0; k < i && lanes; k++)
            lanes = hr_cuda_online_sum(s->plan, s->stage, k, &shift) != i;
        if (!lanes || step->pass >= 64 || used[step->pass]) continue;
        used[step->pass] = true;
        passes++;
    }
    return passes;
}

/* Blocks that share a row where a thread would hold more than it may: c->groups, which become fewer where
 * that is enough. */
static void choose_slices(chooser *s, int64_t groups, int64_t tasks, bool shared) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    bool reduces = hr_stage_has(s->stage, HR_STEP_REDUCE_ROW);
    int64_t held = (int64_t)c->row_threads * c->groups;
    int64_t limit = reduces ? (s->plan->limits.cluster_blocks > 1
                                   ? smaller(s->plan->limits.cluster_blocks, knobs->cluster > 8 ? 16 : 8)
                                   : 1)
                            : INT32_MAX / 2;
    int64_t wanted = knobs->cluster ? knobs->cluster : hr_divide_up(groups, held);
    if (passes_of(s) < 2 && groups > held && !c->columns &&
        !knobs->cluster) { /* read once: nothing to keep */
        if (!knobs->row_threads && !shared) c->row_threads = ONCE_THREADS;
        held = (int64_t)c->row_threads * c->groups;
        wanted = 1;
        while (reduces && wanted < 8 && hr_saturate_product(wanted * 2, tasks) <= s->plan->limits.threads &&
               wanted * held < groups)
            wanted *= 2;
        if (!reduces) wanted = hr_divide_up(groups, held);
    }
    if (reduces && wanted > 1 && c->row_threads < 32) c->row_threads = 32; /* blocks exchange one row */
    c->slices = hr_saturate_int(smaller(reduces ? power_up(wanted) : wanted, limit));
    c->exchange = reduces && c->slices > 1;
    c->groups = (int)smaller(hr_divide_up(groups, (int64_t)c->row_threads * c->slices), c->groups);
    if (c->groups < 1) c->groups = 1;
    c->chunks = hr_divide_up(groups, (int64_t)c->row_threads * c->slices * c->groups);
    c->resident = c->chunks <= 1;
}

/* A long row that is read several times waits in the shared memory of as many blocks as it takes. */
static void choose_staged(chooser *s, int64_t groups) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    int64_t room = s->plan->limits.shared_bytes - SHARED_RESERVE,
            bytes = hr_saturate_product(groups, (int64_t)c->vector * s->staged_bytes);
    bool wanted = knobs->staging ? knobs->staging == HR_STAGING_SHARED || knobs->staging == HR_STAGING_DOUBLE
                                 : !c->resident && !c->columns;
    bool wide = c->columns && !knobs->staging && c->groups > 2 && c->row_threads > 32;
    int depth =
        knobs->staging == HR_STAGING_DOUBLE || c->columns ? 2 : 1; /* rows of sums are read late: the
                                                                      next one has a place of its own */
    bool chosen = knobs->staging || knobs->cluster || knobs->row_threads || c->columns;
    bool vast = !chosen && groups > 4096 && s->streams == 1 && (s->shared || c->shifted || groups <= 8192);
    wanted = wanted || wide || vast; /* what a thread holds would not fit its registers */
    if (!wanted || !s->staged_bytes || passes_of(s) < 2 || c->straddle || c->vector < 4 || room <= 0) return;
    int64_t slices = knobs->cluster ? knobs->cluster : 1, most = s->plan->limits.cluster_blocks > 1 ? 8 : 1;
    if (c->slices > slices && !knobs->cluster && !vast) slices = c->slices;
    if (vast && !s->shared && !c->shifted) slices = most;
    while (slices < most && hr_divide_up(hr_saturate_product(bytes, depth), slices) > room)
        slices *= 2;
    int64_t share = hr_divide_up(groups, slices);
    int threads = knobs->row_threads ? knobs->row_threads
                  : wide             ? 1024
                  : vast             ? 256
                  : share >= 2048    ? 512
                  : share >= 512     ? 256
                                     : 128;
    int unroll = knobs->groups ? knobs->groups : vast ? 4 : 2;
    if (c->columns)
        unroll = hr_saturate_int(hr_divide_up(share, threads)); /* sums over tasks stay in registers */
    if (unroll > 8) return;
    int64_t chunks = hr_divide_up(share, (int64_t)threads * unroll);
    int64_t shared =
        hr_saturate_product(chunks, (int64_t)threads * unroll * c->vector * s->staged_bytes * depth);
    if (shared > room) return;
    c->depth = depth;
    c->staged = true;
    c->resident = c->ahead = false;
    c->slices = (int)slices;
    c->exchange = slices > 1;
    c->row_threads = c->threads = threads;
    c->block_rows = 1;
    c->groups = unroll;
    c->chunks = chunks;
    c->shared_bytes = shared;
    int64_t fitting = (room + SHARED_RESERVE) / (shared + SHARED_RESERVE), by_threads = 1536 / threads;
    if (fitting > by_threads) fitting = by_threads;
    if (fitting < 1) fitting = 1;
    c->blocks_limit = (int64_t)s->plan->limits.threads *
                      (knobs->blocks ? knobs->blocks
                       : wide        ? 1
                                     : fitting) /
                      slices;
    if (c->blocks_limit < 1) c->blocks_limit = 1;
}

/* Threads of a block that holds several rows. */
static int side_by_side(const hr_cuda_choice *c) {
    int threads = SHORT_ROW_THREADS;
    while (threads > 64 && threads / 2 * c->groups >= SHORT_ROW_GROUPS && c->row_threads > 4 && !c->columns &&
           !c->totals)
        threads /= 2;
    return threads;
}

/* ---- rows with sums over rows beside them ---- */

/* How a thread gets at the groups of its row in the passes after the first. */
typedef enum column_way {
    HELD,       /* it holds them in registers */
    READ_AGAIN, /* it reads them from shared memory again */
    ALL_SHARED, /* and what is the same for all rows, too */
    COLUMN_WAYS
} column_way;

/* Registers of a thread with so many groups of a row, as measured: sums, what is the same for all rows, and
 * what the way needs. */
static int column_registers(const chooser *s, column_way way, int groups) {
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
static int column_score(const chooser *s, const column_choice *o) {
    int elements = o->groups * s->c->vector, bytes = elements * s->widest;
    int score = o->threads * o->blocks;
    score = elements >= 16 ? score * 2 : bytes >= GROUP_BYTES ? score : score * bytes / GROUP_BYTES;
    return (score < 1024 ? score : 1024) * (o->depth < 3 ? 15 : 16);
}

static bool try_columns(const chooser *s, int64_t groups, column_choice *o) {
    int64_t registers = (column_registers(s, o->way, o->groups) + 7) / 8 * 8;
    int64_t held = (int64_t)o->threads * o->groups * s->c->vector, row = held * s->staged_bytes;
    int64_t same = o->way == ALL_SHARED ? held * (s->bytes - s->staged_bytes) : 0;
    int64_t room = s->plan->limits.shared_bytes;
    o->blocks = 1024 / o->threads; /* their warps lie on four parts, each with a quarter of the registers */
    while (o->blocks > 0 && hr_divide_up((int64_t)o->blocks * o->threads, 128) * 128 * registers > REGISTERS)
        o->blocks--;
    if (o->blocks < 1 || (int64_t)o->threads * o->groups < groups) return false;
    o->depth = (int)smaller((room / o->blocks - SHARED_RESERVE - same) / row, o->way == ALL_SHARED ? 2 : 3);
    o->shared_bytes = o->depth * row + same;
    return o->depth >= 2;
}

static double row_count(const chooser *s) {
    double rows = 1;
    for (int i = 0; i < s->stage->task_count; i++)
        rows *= (double)index_size(s, s->stage->task[i]);
    return rows;
}

/* Two blocks leave half as many partial results, which the end of the stage reads again. More have no place
 * on multiprocessors that come in pairs. Of one sum there is so little that waiting for the partner costs as
 * much. */
static bool have_partners(const chooser *s) {
    const hr_cuda_choice *c = s->c;
    int64_t bytes = 0;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        int size = hr_cuda_partial_size(s->plan, step);
        if (hr_op_finds_position(step->reduce) || c->vector * size % GROUP_BYTES) return false;
        bytes += c->row * size;
    }
    return s->plan->limits.cluster_blocks > 1 && c->columns > 1 && !c->totals && c->blocks_limit % 2 == 0 &&
           row_count(s) >= (double)c->blocks_limit && bytes <= c->shared_bytes;
}

/* Each thread asks for its groups of the rows to come, in shared memory of its own, and keeps its sums in
 * registers. False where that does not fit or the tuner wants something else. */
static bool choose_columns(chooser *s, int64_t groups) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    column_choice best = {.threads = 0};
    if (!c->columns || !c->exact || c->straddle || !hr_stage_has(s->stage, HR_STEP_REDUCE_ROW) ||
        groups <= 64 || knobs->cluster || knobs->staging ||
        c->vector * s->narrowest < 4) /* that a copy can take */
        return false;
    for (column_way way = HELD; way < COLUMN_WAYS; way++)
        for (int unroll = 1; unroll <= COLUMN_ELEMENTS && (way != ALL_SHARED || !best.threads); unroll++) {
            column_choice option = {.way = way, .groups = unroll};
            option.threads = hr_saturate_int(hr_round_up(hr_divide_up(groups, unroll), 32));
            bool wished = (!knobs->groups || knobs->groups == unroll) &&
                          (!knobs->row_threads || knobs->row_threads == option.threads);
            bool sensible = option.threads <= (way == ALL_SHARED ? 1024 : 512) &&
                            (option.threads >= 128 || unroll == 1) &&
                            unroll * c->vector <= (way == HELD ? 16 : COLUMN_ELEMENTS);
            if (!wished || option.threads > 1024 || (!sensible && !knobs->groups && !knobs->row_threads))
                continue;
            if (try_columns(s, groups, &option) && column_score(s, &option) > column_score(s, &best))
                best = option;
        }
    if (!best.threads) return false;
    c->staged = c->ahead = true;
    c->resident = best.way == HELD;
    c->same_shared = best.way == ALL_SHARED;
    c->row_threads = c->threads = best.threads;
    c->block_rows = c->slices = 1;
    c->groups = best.groups;
    c->chunks = 1;
    c->depth = best.depth;
    c->shared_bytes = best.shared_bytes;
    c->together = best.blocks;
    c->blocks_limit = (int64_t)s->plan->limits.threads * (knobs->blocks ? knobs->blocks : best.blocks);
    c->narrow = c->row < NARROW_MAX;
    c->partners = have_partners(s) ? 2 : 1;
    c->few = row_count(s) <= HR_CUDA_FEW_ROWS;
    return true;
}

/* ---- rows ---- */

/* Some large element of it varies with the index. */
static bool streams_along(const chooser *s, const hr_expr *e, int index, double large) {
    if (e->op == HR_OP_ELEMENT && e->arg_count && elements_of(s, e->tensor) >= large)
        return hr_expr_has_index(e, index);
    for (int i = 0; i < e->arg_count; i++)
        if (streams_along(s, e->args[i], index, large)) return true;
    return false;
}

/* A few rows side by side read the same of what is large, once: of a matrix times some vectors. Threads of a
 * warp hold a row, so that a block holds them all and the L1 serves them. */
static bool shares_rows(const chooser *s) {
    enum { FEW = 8 };
    const hr_stage *stage = s->stage;
    double largest = 0;
    if (stage->task_count < 2 || s->c->columns || passes_of(s) != 1 || hr_stage_knobs(s->stage)->row_threads)
        return false;
    int last = stage->task[stage->task_count - 1];
    if (index_size(s, last) < 2 || index_size(s, last) > FEW) return false;
    for (int i = 0; i < s->tensor_count; i++)
        if (elements_of(s, s->tensors[i]) > largest) largest = elements_of(s, s->tensors[i]);
    for (int i = 0; i < stage->step_count; i++)
        if (streams_along(s, stage->steps[i].value, last, largest / 2)) return false;
    return true;
}

/* Of a row's groups: its ends are inside some, of which few threads should have one; sums over rows of so
 * narrow elements that a thread has many groups. */
typedef struct row_form {
    bool uneven, single;
    bool shared; /* rows side by side read the same */
} row_form;

static row_form form_of(const chooser *s, int64_t groups) {
    const hr_cuda_choice *c = s->c;
    return (row_form){.uneven = c->shifted && c->vector > 4 && groups > UNEVEN_LEAST && groups <= UNEVEN_MOST,
                      .single = c->columns && c->vector * s->widest < 8 && groups > 256,
                      .shared = shares_rows(s)};
}

/* Enough threads that each has a few groups to load at once. */
static void choose_row_threads(chooser *s, int64_t groups, row_form form) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    int few = s->streams >= 3 ? 1 : s->streams == 2 ? 2 : 4;
    if (form.uneven) few = UNEVEN_UNROLL;
    if (c->columns) few = groups <= 128 ? 4 : 1; /* each element of a group has a sum in a register, too */
    if (form.single) few = 8;
    if (knobs->groups) few = knobs->groups;
    int64_t wanted = knobs->row_threads ? knobs->row_threads : hr_divide_up(groups, few);
    if (form.shared && wanted > 32) wanted = 32;
    if (wanted <= 32 || (!knobs->row_threads && !form.uneven && wanted <= 40))
        c->row_threads = (int)(wanted < 32 ? power_up(wanted) : 32);
    else
        c->row_threads =
            hr_saturate_int(wanted <= 256 || form.single ? hr_round_up(wanted, 32) : power_up(wanted));
    if (c->row_threads > ROW_THREADS_MAX && !knobs->row_threads)
        c->row_threads = groups > 2560 && groups <= 4096 && !c->columns ? 1024 : ROW_THREADS_MAX;
    if (c->row_threads > 1024) c->row_threads = 1024;
    c->groups = knobs->groups                        ? knobs->groups
                : form.uneven                        ? UNEVEN_UNROLL
                : form.single                        ? 16
                : form.shared                        ? 4
                : c->row_threads <= 32 || c->shifted ? 5
                                                     : 4;
}

/* Blocks of a multiprocessor for sums over rows of one array, as measured: nothing but its rows keeps
 * registers, and what is on its way for so few bytes a thread fills no memory's latency otherwise. 0: for
 * others, as below. */
static int column_blocks(const chooser *s) {
    const hr_cuda_choice *c = s->c;
    if (!c->columns || s->streams != 1 || c->groups * c->vector > 32) return 0;
    return c->row_threads <= 32 || c->groups == 1 ? 4 : c->groups == 2 ? 2 : 0;
}

/* Persistent blocks: all that multiprocessors hold at once. */
static int64_t row_blocks(const chooser *s, row_form form) {
    const hr_cuda_choice *c = s->c;
    const int asked = hr_stage_knobs(s->stage)->blocks;
    bool sums = c->columns || c->totals;
    if (!sums && !asked) return INT32_MAX / c->slices;
    int64_t fitting = asked                              ? asked
                      : form.single && c->threads <= 640 ? 640 / c->threads
                      : column_blocks(s)                 ? column_blocks(s)
                      : c->columns && c->groups > 1      ? 1
                      : c->threads >= 512                ? 2
                      : c->threads >= 256                ? 3
                                                         : 6;
    int64_t blocks = (int64_t)s->plan->limits.threads * fitting / c->slices;
    return blocks > 1 ? blocks : 1;
}

/* A long row is shared by a cluster of blocks. */
static void choose_rows(chooser *s) {
    hr_cuda_choice *c = s->c;
    while (c->vector > 1 && c->row < c->vector)
        c->vector /= 2;
    while (c->columns && (c->row % c->vector || c->lane % c->vector)) /* a column stays with its thread */
        c->vector /= 2;
    c->exact = c->row % c->vector == 0 && (s->stage->row_count == 1 || c->lane % c->vector == 0);
    c->straddle = s->stage->row_count > 1 && c->lane % c->vector != 0;
    c->shifted = !c->exact && !c->columns && s->whole && s->stage->row_count == 1 && c->row % c->vector != 0;
    if (c->shifted && hr_cuda_choose_staged_block(s->plan, s->stage, s->extents, c)) return;
    int64_t groups = hr_divide_up(hr_saturate_sum(c->row, c->shifted ? c->vector - 1 : 0), c->vector);
    if (groups < 1) groups = 1;
    if (choose_columns(s, groups)) return;
    row_form form = form_of(s, groups);
    choose_row_threads(s, groups, form);
    int64_t tasks = 1;
    for (int i = 0; i < s->stage->task_count; i++)
        tasks = hr_saturate_product(tasks, index_size(s, s->stage->task[i]));
    choose_slices(s, groups, tasks, form.shared);
    int threads = form.shared ? SHORT_ROW_THREADS : side_by_side(c);
    c->block_rows = c->row_threads <= 32 && !c->exchange ? threads / c->row_threads : 1;
    c->threads = c->row_threads * c->block_rows;
    c->blocks_limit = row_blocks(s, form);
    choose_staged(s, groups);
    if (passes_of(s) > 1) hr_cuda_choose_ring(s->plan, s->stage, s->extents, c);
    c->column_memory = c->columns && !c->resident && !c->staged;
    if (c->resident && !c->shifted && !c->ring)
        c->ahead = hr_stage_knobs(s->stage)->staging ? hr_stage_knobs(s->stage)->staging == HR_STAGING_AHEAD
                                                     : c->columns;
    c->early = c->resident && c->exact && !c->ahead && !c->ring && !c->columns && passes_of(s) > 1 &&
               (c->row_threads <= 32 || c->vector <= 4 || (c->row_threads <= 64 && c->groups <= 2)) &&
               c->groups * c->vector * s->bytes <= EARLY_BYTES;
    c->narrow = c->row < NARROW_MAX;
}

/* ---- the largest and the sum of exp in one pass ---- */

static bool is_element_of(const hr_expr *e, int tensor) {
    return e->op == HR_OP_ELEMENT && e->tensor == tensor;
}

int hr_cuda_online_sum(const hr_plan *plan, const hr_stage *stage, int peak, const hr_expr **shift) {
    const hr_step *first = &stage->steps[peak];
    int tensor = plan->normal->statements[first->statement].tensor;
    if (first->kind != HR_STEP_REDUCE_ROW || first->reduce != HR_OP_REDUCE_MAX ||
        first->value->type != HR_F32)
        return -1;
    for (int i = peak + 1; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_expr *e = step->value;
        if (step->kind != HR_STEP_REDUCE_ROW || step->reduce != HR_OP_REDUCE_SUM || e->op != HR_OP_EXP)
            continue;
        const hr_expr *difference = e->args[0];
        if (difference->op != HR_OP_SUB || difference->args[0] != first->value) continue;
        *shift = difference->args[1];
        if (is_element_of(*shift, tensor) ||
            ((*shift)->op == HR_OP_WHERE && is_element_of((*shift)->args[2], tensor)))
            return i;
    }
    return -1;
}

/* ---- partial results ---- */

int64_t hr_cuda_parts_limit(const hr_cuda_choice *c) {
    return c->blocks_limit / c->partners;
}

int hr_cuda_partial_size(const hr_plan *plan, const hr_step *step) {
    hr_dtype type = plan->normal->statements[step->statement].value->type;
    if (hr_op_finds_position(step->reduce)) return 16; /* a value and where it is */
    if (step->reduce == HR_OP_REDUCE_SUM) return type == HR_F32 && step->kind != HR_STEP_REDUCE_ALL ? 4 : 8;
    return type == HR_F64 || type == HR_I64 ? 8 : 4;
}

int64_t hr_cuda_work_offset(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *c, int step) {
    int64_t offset = 0;
    for (int i = 0; i < step; i++) {
        const hr_step *before = &stage->steps[i];
        int64_t points = before->kind == HR_STEP_REDUCE_COLUMN ? c->row
                         : before->kind == HR_STEP_REDUCE_ALL  ? c->slices
                                                               : 0;
        int64_t parts = hr_saturate_product(points, hr_cuda_parts_limit(c));
        offset = hr_saturate_sum(
            offset, hr_round_up(hr_saturate_product(parts, hr_cuda_partial_size(plan, before)), 256));
    }
    int64_t counter = c->ring && step == stage->step_count ? 256 : 0; /* of rows */
    return hr_saturate_sum(offset, counter);
}

static bool stores_f32(const chooser *s) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
        if (step->kind == HR_STEP_ELEMENT && step->stored && hr_dtype_size(dtype) > 2) return true;
    }
    return false;
}

/* Much is read once and much is written. */
static bool leaves_last(const chooser *s) {
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    if (knobs->eviction) return knobs->eviction == HR_EVICTION_LAST;
    return s->writes && s->read_bytes > (double)L2_TIMES * (double)s->plan->limits.l2_bytes;
}

/* Blocks that each have other rows are not enough of them, or something is kept from row to row. */
static bool is_persistent(const chooser *s) {
    const hr_cuda_choice *c = s->c;
    double rows = row_count(s);
    return c->blocks_limit < INT32_MAX / c->slices || rows > (double)c->blocks_limit * c->block_rows ||
           c->columns || c->totals || c->staged || c->ahead || c->staged_block;
}

hr_status hr_cuda_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *out) {
    chooser s = {.plan = plan, .function = plan->normal, .stage = stage, .extents = extents, .c = out};
    *out = (hr_cuda_choice){.row = 1, .lane = 1, .partners = 1};
    for (int i = 0; i < stage->task_count; i++)
        out->order[out->order_count++] = stage->task[i];
    for (int i = 0; i < stage->row_count; i++) {
        out->order[out->order_count++] = stage->row[i];
        if (__builtin_mul_overflow(out->row, index_size(&s, stage->row[i]), &out->row))
            return hr_fail(HR_BAD_INPUT, "the extents of kernel %.60s are too large", plan->source->name);
    }
    if (out->order_count) out->lane = index_size(&s, out->order[out->order_count - 1]);
    for (int i = 0; i < stage->step_count; i++)
        out->columns += stage->steps[i].kind == HR_STEP_REDUCE_COLUMN;
    out->totals = hr_stage_has(stage, HR_STEP_REDUCE_ALL);
    bool shared_row = hr_stage_has(stage, HR_STEP_ROW) && !hr_stage_can_split(plan, stage);
    bool rows = shared_row || hr_stage_has(stage, HR_STEP_REDUCE_ROW) || out->columns;
    for (int i = 0; i < stage->step_count && !rows; i++)
        rows = stage->row_count && hr_step_is_row_total(plan, stage, &stage->steps[i]);
    out->flat = !rows && out->order_count > 0;
    out->once = out->flat && hr_stage_has(stage, HR_STEP_ROW);
    out->list = out->flat && hr_plan_has_lists(plan);
    out->fast = !stores_f32(&s);
    if (out->order_count) HR_TRY(survey(&s));
    if (out->vector < 1) out->vector = 1;
    if (out->flat)
        choose_flat(&s);
    else
        choose_rows(&s);
    out->last = out->order_count && leaves_last(&s);
    out->persistent = is_persistent(&s);
    out->work_bytes = hr_cuda_work_offset(plan, stage, out, stage->step_count);
    if (out->work_bytes < INT64_MAX / 2) return HR_OK; /* what stands behind it has room in an i64, too */
    return hr_fail(HR_BAD_INPUT, "kernel %.60s: at these extents a size is beyond i64; make them smaller",
                   plan->source->name);
}
