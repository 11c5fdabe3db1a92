/* Whether long rows go through a ring. In: a stage. Out: numbers. See cuda_choice_ring.h. */
#include "emit/cuda_choice_ring.h"

#include "base/dtype.h"

#include <string.h>

/* A thread's registers, 128 of 4 bytes, hold its part of a row, what is the same for all rows, what is kept
 * between passes, and what the passes need besides. Shared memory holds a row that comes, one in hand, one
 * that leaves. Shorter rows are held by two blocks of a multiprocessor, which do as well without. */
enum {
    RING_THREADS = 512,
    RING_GROUPS_MAX = 8,
    RING_BYTES_HELD = 96 * 4,
    RING_DEPTH_MIN = 3,
    RING_DEPTH_MAX = 6,
    RING_RESERVE = 6144,      /* bytes of a block for what is exchanged, and for the system */
    RING_GROUPS_LEAST = 2049, /* of a row */
    RING_ROWS_LEAST = 8       /* for each cluster: it takes some before it knows how the others do */
};

typedef struct survey {
    const hr_plan *plan;
    const hr_stage *stage;
    const int64_t *extents;
    const hr_cuda_choice *c;
    bool *visited;
    bool refused;
    int streams;    /* elements that come with each row */
    int row_bytes;  /* and their bytes */
    int held_bytes; /* of an element of all that registers hold */
} survey;

static bool is_made_here(const survey *s, int tensor) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->plan->normal->statements[s->stage->steps[i].statement].tensor == tensor) return true;
    return false;
}

static bool varies_by_task(const survey *s, const hr_expr *e) {
    for (int i = 0; i < s->stage->task_count; i++)
        if (hr_cuda_depends_on(e, s->stage->task[i])) return true;
    return false;
}

static void add_elements(survey *s, const hr_expr *e) {
    if (s->visited[e->id]) return;
    s->visited[e->id] = true;
    int lane = s->c->order[s->c->order_count - 1];
    if (e->op == HR_OP_ELEMENT && !is_made_here(s, e->tensor) && hr_cuda_depends_on(e, lane)) {
        int size = (int)hr_dtype_size(s->plan->normal->tensors[e->tensor].dtype);
        s->held_bytes += size;
        if (!varies_by_task(s, e))
            s->held_bytes += size < 4; /* room to unpack it */
        else if (hr_cuda_is_whole(s->plan, s->c, e->tensor, e->args, s->extents) &&
                 s->c->row * size % 16 == 0)
            s->row_bytes += size, s->streams++;
        else
            s->refused = true;
    }
    for (int i = 0; i < e->arg_count; i++)
        add_elements(s, e->args[i]);
}

static survey survey_of(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                        const hr_cuda_choice *c) {
    survey s = {.plan = plan, .stage = stage, .extents = extents, .c = c};
    size_t count = (size_t)plan->normal->expr_count + 1;
    s.visited = hr_arena_alloc(plan->arena, count);
    memset(s.visited, 0, count);
    for (int i = 0; i < stage->step_count; i++) {
        add_elements(&s, stage->steps[i].value);
        s.refused |= stage->steps[i].kind == HR_STEP_SCATTER;
    }
    return s;
}

static int kept_bytes(const hr_stage *stage) {
    int bytes = 0;
    for (int k = 0; k < stage->kept_count; k++)
        if (!stage->kept_once[k] && stage->kept[k]->op != HR_OP_ELEMENT) bytes += 4;
    return bytes;
}

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool is_possible(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *c) {
    bool reduces = false;
    for (int i = 0; i < stage->step_count; i++)
        reduces |= stage->steps[i].kind == HR_STEP_REDUCE_ROW;
    return plan->limits.compute >= 90 && plan->limits.cluster_blocks > 1 && reduces &&
           stage->task_count > 0 && c->exact && !c->straddle && !c->columns && !c->totals &&
           c->row < INT32_MAX / 2;
}

void hr_cuda_choose_ring(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *c) {
    const hr_tunables *tunables = &plan->tunables;
    bool asked = tunables->prefetch == 5, free = !tunables->prefetch && !tunables->cluster &&
                                                 !tunables->row_threads && !tunables->unroll &&
                                                 !tunables->waves;
    int64_t groups = c->row / c->vector, tasks = 1, size;
    if (!(asked || (free && groups >= RING_GROUPS_LEAST)) || !is_possible(plan, stage, c)) return;
    survey s = survey_of(plan, stage, extents, c);
    if (s.refused || !s.row_bytes) return;
    for (int i = 0; i < stage->task_count; i++)
        if (hr_extent_value(plan->normal, plan->normal->indices[stage->task[i]].extent, extents, &size) ==
            HR_OK)
            tasks *= size;
    int threads = asked && tunables->row_threads >= 64 ? tunables->row_threads : RING_THREADS, slices = 1;
    int64_t held = (int64_t)c->vector * (s.held_bytes + kept_bytes(stage)),
            room = plan->limits.shared_bytes - RING_RESERVE, most = RING_GROUPS_MAX, share;
    if (most > RING_BYTES_HELD / held) most = RING_BYTES_HELD / held;
    if (tunables->unroll && most > tunables->unroll) most = tunables->unroll;
    if (most > room / RING_DEPTH_MIN / ((int64_t)threads * c->vector * s.row_bytes))
        most = room / RING_DEPTH_MIN / ((int64_t)threads * c->vector * s.row_bytes);
    if (asked && tunables->cluster) slices = tunables->cluster;
    while (slices < 8 && divide_up(groups, (int64_t)threads * slices) > most)
        slices *= 2;
    share = divide_up(groups, (int64_t)threads * slices);
    int64_t clusters = plan->limits.threads / slices, place = share * threads * c->vector * s.row_bytes;
    if (share > most || clusters < 1 || (!asked && (s.streams > 1 || tasks < clusters * RING_ROWS_LEAST)))
        return;
    c->ring = c->staged = c->resident = true;
    c->ahead = false;
    c->slices = slices;
    c->exchange = slices > 1;
    c->row_threads = c->threads = threads;
    c->block_rows = 1;
    c->groups = (int)share;
    c->chunks = 1;
    c->depth = room / place > RING_DEPTH_MAX ? RING_DEPTH_MAX : (int)(room / place);
    c->leaving = c->depth > 4 ? 2 : 1;
    c->shared_bytes = c->depth * place;
    c->blocks_limit = clusters;
}
