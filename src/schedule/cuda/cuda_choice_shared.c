/* Whether long rows wait in shared memory between their passes. In: a stage of rows and how it would lie
 * otherwise. Out: the same, or rows in shared memory. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "schedule/schedule.h"

/* UNROLL_MOST: groups of a thread that are written out. THREADS: of a multiprocessor. VAST: groups of a row
 * that registers hold worse than shared memory, those of WIDE_MOST at most even where nothing is read beside
 * them. */
enum { UNROLL_MOST = 8, SLICES_MOST = 8, THREADS = 1536, VAST = 4096, VAST_ALONE = 8192, DEEP = 2 };

/* Why a row would wait there. */
typedef enum reason {
    REASON_NONE,
    REASON_CHOSEN, /* by the tuner, or because registers do not hold it */
    REASON_SUMS,   /* sums over rows take the registers that would hold it */
    REASON_VAST    /* it would fit, but few registers are left for anything else */
} reason;

static reason reason_of(const hr_cuda_chooser *s, int64_t groups) {
    const hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    bool chosen = knobs->staging || knobs->cluster || knobs->row_threads;
    bool beside = s->shared || c->ends == HR_CUDA_ENDS_SHIFTED;
    if (knobs->staging)
        return knobs->staging == HR_STAGING_SHARED || knobs->staging == HR_STAGING_DOUBLE ? REASON_CHOSEN
                                                                                          : REASON_NONE;
    if (c->columns) return c->groups > 2 && c->row_threads > 32 ? REASON_SUMS : REASON_NONE;
    if (!chosen && groups > VAST && s->streams == 1 && (beside || groups <= VAST_ALONE)) return REASON_VAST;
    return hr_cuda_is_resident(c) ? REASON_NONE : REASON_CHOSEN;
}

/* Blocks that share a row so that each has room for its part of it, `depth` times. */
static int64_t slices_of(const hr_cuda_chooser *s, reason reason, int64_t bytes, int64_t room) {
    const hr_cuda_choice *c = s->c;
    int asked = hr_stage_knobs(s->stage)->cluster;
    int64_t slices = asked ? asked : 1, most = s->plan->limits.cluster_blocks > 1 ? SLICES_MOST : 1;
    if (c->slices > slices && !asked && reason != REASON_VAST) slices = c->slices;
    if (reason == REASON_VAST && !s->shared && c->ends != HR_CUDA_ENDS_SHIFTED) slices = most;
    while (slices < most && hr_divide_up(bytes, slices) > room)
        slices *= 2;
    return slices;
}

static int threads_of(const hr_cuda_chooser *s, reason reason, int64_t share) {
    int asked = hr_stage_knobs(s->stage)->row_threads;
    if (asked) return asked;
    if (reason == REASON_SUMS) return 1024;
    if (reason == REASON_VAST) return 256;
    return share >= 2048 ? 512 : share >= 512 ? 256 : 128;
}

/* Sums over rows stay in registers: all of a thread's groups are written out. */
static int unroll_of(const hr_cuda_chooser *s, reason reason, int64_t share, int threads) {
    int asked = hr_stage_knobs(s->stage)->groups;
    if (s->c->columns) return hr_saturate_int(hr_divide_up(share, threads));
    return asked ? asked : reason == REASON_VAST ? 4 : 2;
}

/* Persistent blocks: as many as the multiprocessors have room for. */
static int64_t blocks_of(const hr_cuda_chooser *s, reason reason, int64_t room) {
    const hr_cuda_choice *c = s->c;
    int asked = hr_stage_knobs(s->stage)->blocks;
    int64_t fitting = (room + HR_CUDA_SHARED_RESERVE) / (c->shared_bytes + HR_CUDA_SHARED_RESERVE);
    if (fitting > THREADS / c->threads) fitting = THREADS / c->threads;
    if (fitting < 1 || reason == REASON_SUMS) fitting = 1;
    int64_t blocks = (int64_t)s->plan->limits.threads * (asked ? asked : fitting) / c->slices;
    return blocks > 1 ? blocks : 1;
}

void hr_cuda_choose_shared(hr_cuda_chooser *s, int64_t groups) {
    hr_cuda_choice *c = s->c;
    reason reason = reason_of(s, groups);
    int64_t room = s->plan->limits.shared_bytes - HR_CUDA_SHARED_RESERVE, element = s->staged_bytes;
    if (reason == REASON_NONE || !s->staged_bytes || hr_cuda_passes_of(s) < 2 || c->vector < 4 || room <= 0 ||
        c->ends == HR_CUDA_ENDS_STRADDLED)
        return;
    /* Rows with sums are read late, when the next one is on its way: it has a place of its own. */
    int depth = hr_stage_knobs(s->stage)->staging == HR_STAGING_DOUBLE || c->columns ? DEEP : 1;
    int64_t bytes = hr_saturate_product(groups, (int64_t)c->vector * element);
    int64_t slices = slices_of(s, reason, hr_saturate_product(bytes, depth), room);
    int64_t share = hr_divide_up(groups, slices);
    int threads = threads_of(s, reason, share), unroll = unroll_of(s, reason, share, threads);
    if (unroll > UNROLL_MOST) return;
    int64_t chunks = hr_divide_up(share, (int64_t)threads * unroll);
    int64_t shared = hr_saturate_product(chunks, (int64_t)threads * unroll * c->vector * element * depth);
    if (shared > room) return;
    c->rows = HR_CUDA_ROWS_SHARED;
    c->depth = depth;
    c->slices = c->cluster = (int)slices;
    c->row_threads = c->threads = threads;
    c->block_rows = 1;
    c->groups = unroll;
    c->chunks = chunks;
    c->shared_bytes = shared;
    c->blocks_limit = blocks_of(s, reason, room);
}
