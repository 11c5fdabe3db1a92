/* Whether long rows go through a ring. In: a stage. Out: numbers. See stage_cuda_ring.h for
 * what is made of them. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

#include <string.h>

/* A thread's registers, 128 of 4 bytes, hold its part of a row, what is the same for all rows, what is kept
 * between passes, and what the passes need besides. Shared memory holds a row in hand, one that leaves, and
 * two that come: with one, memory waits for each row's end. Rows of RING_GROUPS_LEAST are held by two blocks
 * of a multiprocessor, which do as well without. */
enum {
    RING_THREADS = 512, /* of a multiprocessor */
    RING_GROUPS = 7,    /* of a thread, of all that comes with a row */
    RING_BYTES_HELD = 112 * 4,
    RING_DEPTH_MIN = 4,
    RING_DEPTH_MAX = 6,
    RING_RESERVE = 6144, /* bytes of a block for what is exchanged, and for the system */
    RING_GROUPS_LEAST = 2048,
    RING_ROWS_LEAST = 8 /* for each cluster: it takes some before it knows how the others do */
};

typedef struct survey {
    const hr_plan *plan;
    const hr_stage *stage;
    const int64_t *extents;
    const hr_cuda_choice *c;
    bool refused;
    int streams;    /* elements that come with each row */
    int row_bytes;  /* and their bytes */
    int held_bytes; /* of an element of all that registers hold */
} survey;

static bool varies_by_task(const survey *s, const hr_expr *e) {
    for (int i = 0; i < s->stage->task_count; i++)
        if (hr_expr_has_index(e, s->stage->task[i])) return true;
    return false;
}

static hr_visit add_element(void *context, const hr_expr *e) {
    survey *s = context;
    int lane = s->c->order[s->c->order_count - 1];
    if (e->op == HR_OP_ELEMENT && !hr_stage_makes(s->plan, s->stage, e->tensor) &&
        hr_expr_has_index(e, lane)) {
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
    return HR_VISIT_ON;
}

static survey survey_of(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                        const hr_cuda_choice *c) {
    survey s = {.plan = plan, .stage = stage, .extents = extents, .c = c};
    hr_walk walk = {.enter = add_element, .context = &s};
    for (int i = 0; i < stage->step_count; i++)
        hr_walk_through(&walk, stage->steps[i].value);
    if (hr_walk_end(&walk) != HR_OK) s.refused = true;
    return s;
}

static int stash_bytes(const hr_stage *stage) {
    int bytes = 0;
    for (int k = 0; k < hr_stash_of(stage)->count; k++)
        if (!hr_stash_of(stage)->once[k] && hr_stash_of(stage)->value[k]->op != HR_OP_ELEMENT) bytes += 4;
    return bytes;
}

static bool is_possible(const hr_plan *plan, const hr_stage *stage, const hr_cuda_choice *c) {
    return plan->limits.compute >= 90 && plan->limits.cluster_blocks > 1 &&
           hr_stage_has(stage, HR_STEP_REDUCE_ROW) && !hr_stage_has(stage, HR_STEP_SCATTER) &&
           stage->task_count > 0 && c->ends == HR_CUDA_ENDS_EXACT && c->ends != HR_CUDA_ENDS_STRADDLED &&
           !c->columns && !c->totals && c->row > 0 && c->row < INT32_MAX / 2;
}

typedef struct shape {
    int threads, together, slices, depth;
    int64_t groups; /* of a thread */
    int64_t place;  /* bytes */
} shape;

/* A row shared by so many blocks. `depth` is 0 where that does not do: the next row is published at the
 * barrier of a row's reductions, which a block of one warp has not. */
static shape shape_of(const survey *s, int threads, int together, int slices) {
    int64_t share = hr_divide_up(s->c->row / s->c->vector, slices), most = RING_GROUPS / s->streams,
            room = s->plan->limits.shared_bytes / together - RING_RESERVE,
            held = (int64_t)s->c->vector * (s->held_bytes + stash_bytes(s->stage));
    shape shape = {.together = together, .slices = slices, .groups = hr_divide_up(share, threads)};
    if (hr_stage_knobs(s->stage)->groups) most = hr_stage_knobs(s->stage)->groups;
    if (most > RING_BYTES_HELD / held) most = RING_BYTES_HELD / held;
    shape.threads = hr_saturate_int(hr_round_up(hr_divide_up(share, shape.groups), 32));
    shape.place = hr_saturate_product(shape.groups, (int64_t)shape.threads * s->c->vector * s->row_bytes);
    int64_t depth = shape.groups > most || shape.threads == 32 ? 0 : room / shape.place;
    shape.depth = depth < RING_DEPTH_MIN ? 0 : depth > RING_DEPTH_MAX ? RING_DEPTH_MAX : (int)depth;
    return shape;
}

/* By as few blocks as do. */
static shape fewest(const survey *s, int threads, int together) {
    int slices = hr_stage_knobs(s->stage)->cluster ? hr_stage_knobs(s->stage)->cluster : 1;
    shape shape = shape_of(s, threads, together, slices);
    for (; !shape.depth && slices * 2 <= s->plan->limits.cluster_blocks; slices *= 2)
        shape = shape_of(s, threads, together, slices * 2);
    return shape;
}

/* Two blocks of a multiprocessor fill each other's waits, but each then holds less of a row. Clusters of two
 * full blocks are better made of large ones; clusters of 16 find few places, which only pays where much is
 * computed.
 */
static shape choose_shape(const survey *s) {
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    if (knobs->row_threads >= 64) {
        int threads = knobs->row_threads / 32 * 32, together = RING_THREADS / threads;
        return fewest(s, threads, knobs->blocks ? knobs->blocks : together ? together : 1);
    }
    shape one = fewest(s, RING_THREADS, 1), two = fewest(s, RING_THREADS / 2, 2);
    bool even = s->c->row == (int64_t)RING_THREADS * one.groups * one.slices * s->c->vector;
    int most = stash_bytes(s->stage) ? 16 : 8;
    return !one.depth || (two.depth && two.slices <= most && (one.slices >= 4 || !even)) ? two : one;
}

static int64_t task_count(const survey *s) {
    const hr_function *function = s->plan->normal;
    int64_t tasks = 1, size;
    for (int i = 0; i < s->stage->task_count; i++)
        if (hr_extent_value(function, function->indices[s->stage->task[i]].extent, s->extents, &size) ==
            HR_OK)
            tasks = hr_saturate_product(tasks, size);
    return tasks;
}

void hr_cuda_choose_ring(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *c) {
    const hr_knobs *knobs = hr_stage_knobs(stage);
    bool asked = knobs->staging == HR_STAGING_RING,
         free = !knobs->staging && !knobs->cluster && !knobs->row_threads && !knobs->groups && !knobs->blocks;
    if (!(asked || free) || !is_possible(plan, stage, c)) return;
    survey s = survey_of(plan, stage, extents, c);
    if (s.refused || !s.streams) return;
    shape shape = choose_shape(&s);
    int64_t clusters = (int64_t)plan->limits.threads * shape.together / shape.slices;
    bool worthwhile = s.streams <= 2 && c->row / c->vector > RING_GROUPS_LEAST * s.streams &&
                      task_count(&s) >= clusters * RING_ROWS_LEAST;
    if (!shape.depth || clusters < 1 || !(asked || worthwhile)) return;
    c->rows = HR_CUDA_ROWS_RING;
    c->slices = shape.slices;
    c->cluster = shape.slices;
    c->row_threads = c->threads = shape.threads;
    c->block_rows = 1;
    c->groups = (int)shape.groups;
    c->chunks = 1;
    c->together = shape.together;
    c->depth = shape.depth;
    c->leaving = c->depth > 4 ? 2 : 1;
    c->shared_bytes = c->depth * shape.place;
    c->blocks_limit = clusters;
}
