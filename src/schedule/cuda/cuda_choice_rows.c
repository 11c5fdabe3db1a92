/* Rows that threads hold between their passes. In: a stage of rows. Out: threads of a row, rows of a block,
 * blocks of a row. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "ir/visit.h"
#include "plan/row_bounds.h"
#include "schedule/schedule.h"

/* EARLY_BYTES: what a thread of a row loads at once, what is the same for all rows among it.
 * SHORT_ROW_GROUPS: of a block of rows side by side; blocks of fewer come no faster than 0.8 a ns, larger
 * ones end later. UNEVEN_*: of rows whose ends are inside groups; the fewer threads have them, the less the
 * ends cost. */
enum {
    EARLY_BYTES = 192,
    ROW_THREADS_MAX = 512,
    SHORT_ROW_THREADS = 256,
    SHORT_ROW_GROUPS = 192,
    ONCE_THREADS = 256,
    UNEVEN_LEAST = 128,
    UNEVEN_MOST = 1792,
    UNEVEN_UNROLL = 7
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A large element that varies with the index. */
typedef struct stream {
    const hr_cuda_chooser *chooser;
    int index;
    double large;
} stream;

static hr_visit streams_along(const hr_expr *e, const void *context) {
    const stream *s = context;
    if (e->op != HR_OP_ELEMENT || !e->arg_count || hr_cuda_elements_of(s->chooser, e->tensor) < s->large)
        return HR_VISIT_ON;
    return hr_expr_has_index(e, s->index) ? HR_VISIT_STOP : HR_VISIT_PAST;
}

/* A few rows side by side read the same of what is large, once: of a matrix times some vectors. Threads of a
 * warp hold a row, so that a block holds them all and the L1 serves them. */
static bool shares_rows(const hr_cuda_chooser *s) {
    enum { FEW = 8 };
    const hr_stage *stage = s->stage;
    double largest = 0;
    if (stage->task_count < 2 || s->c->columns || hr_cuda_passes_of(s) != 1 ||
        hr_stage_knobs(s->stage)->row_threads)
        return false;
    int last = stage->task[stage->task_count - 1];
    if (hr_cuda_index_size(s, last) < 2 || hr_cuda_index_size(s, last) > FEW) return false;
    for (int i = 0; i < s->tensor_count; i++)
        if (hr_cuda_elements_of(s, s->tensors[i]) > largest) largest = hr_cuda_elements_of(s, s->tensors[i]);
    const stream along = {s, last, largest / 2};
    for (int i = 0; i < stage->step_count; i++)
        if (hr_expr_find(stage->steps[i].value, streams_along, &along)) return false;
    return true;
}

/* Of a row's groups: its ends are inside some, of which few threads should have one; sums over rows of so
 * narrow elements that a thread has many groups. */
typedef struct row_form {
    bool uneven, single;
    bool shared; /* rows side by side read the same */
} row_form;

static row_form form_of(const hr_cuda_chooser *s, int64_t groups) {
    const hr_cuda_choice *c = s->c;
    return (row_form){.uneven = c->ends == HR_CUDA_ENDS_SHIFTED && c->vector > 4 && groups > UNEVEN_LEAST &&
                                groups <= UNEVEN_MOST,
                      .single = c->columns && c->vector * s->widest < 8 && groups > 256,
                      .shared = shares_rows(s)};
}

/* Groups that a thread loads at once, so that as many threads hold the row. */
static int few_groups(const hr_cuda_chooser *s, int64_t groups, row_form form) {
    const hr_cuda_choice *c = s->c;
    int asked = hr_stage_knobs(s->stage)->groups;
    if (asked) return asked;
    if (form.single) return 8;
    if (c->columns) return groups <= 128 ? 4 : 1; /* each element of a group has a sum in a register, too */
    if (form.uneven) return UNEVEN_UNROLL;
    return s->streams >= 3 ? 1 : s->streams == 2 ? 2 : 4;
}

/* Whole warps; a power of two where many of them reduce together. */
static int threads_for(const hr_cuda_chooser *s, int64_t groups, int64_t wanted, row_form form) {
    int asked = hr_stage_knobs(s->stage)->row_threads;
    if (wanted <= 32) return (int)hr_cuda_power_up(wanted);
    if (!asked && !form.uneven && wanted <= 40) return 32;
    int threads =
        hr_saturate_int(wanted <= 256 || form.single ? hr_round_up(wanted, 32) : hr_cuda_power_up(wanted));
    if (threads > ROW_THREADS_MAX && !asked)
        threads = groups > 2560 && groups <= 4096 && !s->c->columns ? 1024 : ROW_THREADS_MAX;
    return threads < 1024 ? threads : 1024;
}

/* Enough threads that each has a few groups to load at once. */
static void choose_row_threads(hr_cuda_chooser *s, int64_t groups, row_form form) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    int64_t wanted =
        knobs->row_threads ? knobs->row_threads : hr_divide_up(groups, few_groups(s, groups, form));
    c->row_threads = threads_for(s, groups, form.shared && wanted > 32 ? 32 : wanted, form);
    c->groups = knobs->groups                                             ? knobs->groups
                : form.uneven                                             ? UNEVEN_UNROLL
                : form.single                                             ? 16
                : form.shared                                             ? 4
                : c->row_threads <= 32 || c->ends == HR_CUDA_ENDS_SHIFTED ? 5
                                                                          : 4;
}

/* Blocks of a multiprocessor for sums over rows of one array, as measured: nothing but its rows keeps
 * registers, and what is on its way for so few bytes a thread fills no memory's latency otherwise. 0: for
 * others, as below. */
static int column_blocks(const hr_cuda_chooser *s) {
    const hr_cuda_choice *c = s->c;
    if (!c->columns || s->streams != 1 || c->groups * c->vector > 32) return 0;
    return c->row_threads <= 32 || c->groups == 1 ? 4 : c->groups == 2 ? 2 : 0;
}

/* Persistent blocks: all that multiprocessors hold at once. */
static int64_t row_blocks(const hr_cuda_chooser *s, row_form form) {
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

/* Blocks that may share a row: those of a cluster where they reduce together. */
static int64_t slices_most(const hr_cuda_chooser *s, bool reduces) {
    const hr_device_limits *limits = &s->plan->limits;
    if (!reduces) return INT32_MAX / 2;
    if (limits->cluster_blocks < 2) return 1;
    return smaller(limits->cluster_blocks, hr_stage_knobs(s->stage)->cluster > 8 ? 16 : 8);
}

/* Of a row that is read once, so that there is nothing to keep: enough blocks to fill the multiprocessors. */
static int64_t slices_once(const hr_cuda_chooser *s, int64_t groups, int64_t tasks, bool reduces) {
    int64_t held = (int64_t)s->c->row_threads * s->c->groups, wanted = 1;
    if (!reduces) return hr_divide_up(groups, held);
    while (wanted < 8 && hr_saturate_product(wanted * 2, tasks) <= s->plan->limits.threads &&
           wanted * held < groups)
        wanted *= 2;
    return wanted;
}

/* Blocks that share a row where a thread would hold more than it may: c->groups, which become fewer where
 * that is enough. */
static void choose_slices(hr_cuda_chooser *s, int64_t groups, int64_t tasks, bool shared) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    bool reduces = hr_stage_has(s->stage, HR_STEP_REDUCE_ROW);
    int64_t held = (int64_t)c->row_threads * c->groups;
    int64_t wanted = knobs->cluster ? knobs->cluster : hr_divide_up(groups, held);
    if (hr_cuda_passes_of(s) < 2 && groups > held && !c->columns && !knobs->cluster) {
        if (!knobs->row_threads && !shared) c->row_threads = ONCE_THREADS;
        wanted = slices_once(s, groups, tasks, reduces);
    }
    if (reduces && wanted > 1 && c->row_threads < 32) c->row_threads = 32; /* blocks exchange one row */
    c->slices =
        hr_saturate_int(smaller(reduces ? hr_cuda_power_up(wanted) : wanted, slices_most(s, reduces)));
    c->cluster = reduces ? c->slices : 1;
    c->groups = (int)smaller(hr_divide_up(groups, (int64_t)c->row_threads * c->slices), c->groups);
    if (c->groups < 1) c->groups = 1;
    c->chunks = hr_divide_up(groups, (int64_t)c->row_threads * c->slices * c->groups);
    c->rows = c->chunks <= 1 ? HR_CUDA_ROWS_HELD : HR_CUDA_ROWS_AGAIN;
}

/* Threads of a block that holds several rows. */
static int side_by_side(const hr_cuda_choice *c) {
    int threads = SHORT_ROW_THREADS;
    while (threads > 64 && threads / 2 * c->groups >= SHORT_ROW_GROUPS && c->row_threads > 4 && !c->columns &&
           !c->totals)
        threads /= 2;
    return threads;
}

/* Groups of 16 bytes of the widest tensor, or fewer: a row has one, and a column stays with its thread. */
static void choose_ends(hr_cuda_chooser *s) {
    hr_cuda_choice *c = s->c;
    while (c->vector > 1 && c->row < c->vector)
        c->vector /= 2;
    while (c->columns && (c->row % c->vector || c->lane % c->vector))
        c->vector /= 2;
    bool one = s->stage->row_count == 1;
    if (c->row % c->vector == 0 && (one || c->lane % c->vector == 0))
        c->ends = HR_CUDA_ENDS_EXACT;
    else if (s->stage->row_count > 1 && c->lane % c->vector)
        c->ends = HR_CUDA_ENDS_STRADDLED;
    else if (!c->columns && s->whole && one)
        c->ends = HR_CUDA_ENDS_SHIFTED;
}

/* Whether loads come before what uses them: those of the next row, or of what is the same for all rows. */
static void choose_order(hr_cuda_chooser *s) {
    hr_cuda_choice *c = s->c;
    hr_staging_knob asked = hr_stage_knobs(s->stage)->staging;
    if (c->rows != HR_CUDA_ROWS_HELD) return;
    if (c->ends != HR_CUDA_ENDS_SHIFTED && (asked ? asked == HR_STAGING_AHEAD : c->columns > 0)) {
        c->rows = HR_CUDA_ROWS_AHEAD;
        return;
    }
    bool narrow = c->row_threads <= 32 || c->vector <= 4 || (c->row_threads <= 64 && c->groups <= 2);
    if (narrow && c->ends == HR_CUDA_ENDS_EXACT && !c->columns && hr_cuda_passes_of(s) > 1 &&
        c->groups * c->vector * s->bytes <= EARLY_BYTES)
        c->same = HR_CUDA_SAME_EARLY;
}

void hr_cuda_choose_rows(hr_cuda_chooser *s) {
    hr_cuda_choice *c = s->c;
    choose_ends(s);
    bool shifted = c->ends == HR_CUDA_ENDS_SHIFTED;
    hr_row_bounds bounds; /* what is beyond them is not to be read */
    const bool bounded = hr_stage_row_bounds(s->plan, s->stage, &bounds);
    if (shifted && !bounded && hr_cuda_choose_staged_block(s->plan, s->stage, s->extents, c)) return;
    int64_t groups = hr_divide_up(hr_saturate_sum(c->row, shifted ? c->vector - 1 : 0), c->vector);
    if (groups < 1) groups = 1;
    if (hr_cuda_choose_columns(s, groups)) return;
    row_form form = form_of(s, groups);
    choose_row_threads(s, groups, form);
    int64_t tasks = 1;
    for (int i = 0; i < s->stage->task_count; i++)
        tasks = hr_saturate_product(tasks, hr_cuda_index_size(s, s->stage->task[i]));
    choose_slices(s, groups, tasks, form.shared);
    int threads = form.shared ? SHORT_ROW_THREADS : side_by_side(c);
    c->block_rows = c->row_threads <= 32 && c->cluster < 2 ? threads / c->row_threads : 1;
    c->threads = c->row_threads * c->block_rows;
    c->blocks_limit = row_blocks(s, form);
    hr_cuda_choose_shared(s, groups);
    if (hr_cuda_passes_of(s) > 1) hr_cuda_choose_ring(s->plan, s->stage, s->extents, c);
    if (c->columns && c->rows == HR_CUDA_ROWS_AGAIN) c->sums = HR_CUDA_SUMS_MEMORY;
    choose_order(s);
    /* Left to itself the assembler keeps to the registers of two such blocks, and spills to reach them: one
     * where the sums, a row of each array and the next of each leave no room for a second. */
    const int held = c->groups * (c->vector + 2 * s->streams * HR_CUDA_GROUP_BYTES / 4);
    if (c->columns && c->rows == HR_CUDA_ROWS_AHEAD && c->threads == ROW_THREADS_MAX)
        c->together = held <= HR_CUDA_REGISTERS / (2 * ROW_THREADS_MAX) ? 2 : 1;
    c->position_bits = c->row < HR_CUDA_NARROW_MAX ? 32 : 64;
}
