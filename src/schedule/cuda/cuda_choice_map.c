/* All indices of a stage as one long axis. In: a stage without rows. Out: threads and their groups. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

/* MAP_BYTES: what a thread loads at once, with a byte to spare a group. PLACES_*: of sums into few places. */
enum { MAP_BYTES = 68, MAP_THREADS = 256, PAIR_THREADS = 512, PLACES_BYTES = 16384, PLACES_TIMES = 64 };

/* Elements are read at that index and, as x[t, 1 - p, d] is, at a value that is computed from it. */
static hr_visit is_shifted(const hr_expr *e, const void *index) {
    for (int a = 0; e->op == HR_OP_ELEMENT && a + 1 < e->arg_count; a++)
        if (e->args[a]->op != HR_OP_INDEX && hr_expr_has_index(e->args[a], *(const int *)index))
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

static int find_both(const hr_cuda_chooser *s) {
    const hr_cuda_choice *c = s->c;
    if (c->ends != HR_CUDA_ENDS_EXACT || c->totals || c->walk == HR_CUDA_WALK_LISTS || c->once) return 0;
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
static int few_places(const hr_cuda_chooser *s, double elements) {
    const hr_step *step = &s->stage->steps[0];
    const hr_statement *statement = &s->function->statements[step->statement];
    if (step->kind != HR_STEP_SCATTER || statement->store != HR_STORE_ADD ||
        hr_plan_layout(s->plan, statement->tensor) != HR_LAYOUT_DENSE)
        return 0;
    double places = hr_cuda_elements_of(s, statement->tensor);
    size_t size = hr_dtype_size(hr_compute_type(s->function->tensors[statement->tensor].dtype));
    if (size == sizeof(float)) size = sizeof(double); /* a block's sums of f32 are f64 */
    bool few = places >= 1 && places * (double)size <= PLACES_BYTES && places * PLACES_TIMES <= elements;
    return few ? hr_saturate_int(hr_cuda_power_up((int64_t)places)) : 0;
}

/* Elements of all indices; -1 = more than there are positions. */
static int64_t all_elements(const hr_cuda_chooser *s) {
    int64_t total = 1;
    for (int k = 0; k < s->c->order_count; k++)
        if (__builtin_mul_overflow(total, hr_cuda_index_size(s, s->c->order[k]), &total)) return -1;
    return total;
}

/* Groups of a thread; `pair`: two tensors, of which it has one each. */
static int groups_of(const hr_cuda_chooser *s, bool pair) {
    int asked = hr_stage_knobs(s->stage)->groups;
    int fitting = pair ? 1 : MAP_BYTES / (s->bytes * s->c->vector + 1);
    return asked ? asked : fitting < 1 ? 1 : fitting > 4 ? 4 : fitting;
}

void hr_cuda_choose_map(hr_cuda_chooser *s) {
    hr_cuda_choice *c = s->c;
    const hr_knobs *knobs = hr_stage_knobs(s->stage);
    bool pair = s->streams == 2 && !s->shared && c->walk != HR_CUDA_WALK_LISTS;
    int64_t total = all_elements(s);
    c->row_threads = c->threads = knobs->row_threads ? knobs->row_threads : pair ? PAIR_THREADS : MAP_THREADS;
    c->block_rows = c->slices = 1;
    c->groups = groups_of(s, pair);
    c->ends = c->order_count < 2         ? HR_CUDA_ENDS_RAGGED
              : c->lane % c->vector == 0 ? HR_CUDA_ENDS_EXACT
                                         : HR_CUDA_ENDS_STRADDLED;
    c->chunks = 1;
    c->both = find_both(s);
    if (c->both) c->groups = 2;
    c->position_bits = total >= 0 && total < HR_CUDA_NARROW_MAX ? 32 : 64;
    c->blocks_limit = INT32_MAX;
    c->places = few_places(s, (double)total);
    if (c->totals || c->places || knobs->blocks)
        c->blocks_limit = (int64_t)s->plan->limits.threads * (knobs->blocks ? knobs->blocks : 8);
    hr_cuda_choose_tile(s->plan, s->stage, s->extents, c);
}
