/* What the lanes of a stage read and write. In: a stage and numbers for the extents. Out: what each choice
 * asks of it. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

int64_t hr_cuda_index_size(const hr_cuda_chooser *s, int index) {
    int64_t size = 0;
    hr_status status = hr_extent_value(s->function, s->function->indices[index].extent, s->extents, &size);
    return status == HR_OK ? size : 0;
}

int64_t hr_cuda_power_up(int64_t x) {
    int64_t power = 1;
    while (power < x && power <= INT64_MAX / 2)
        power *= 2;
    return power;
}

double hr_cuda_row_count(const hr_cuda_chooser *s) {
    double rows = 1;
    for (int i = 0; i < s->stage->task_count; i++)
        rows *= (double)hr_cuda_index_size(s, s->stage->task[i]);
    return rows;
}

int hr_cuda_passes_of(const hr_cuda_chooser *s) {
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

bool hr_cuda_is_whole(const hr_plan *plan, const hr_cuda_choice *choice, int tensor,
                      hr_expr *const *subscripts, const int64_t *extents) {
    const hr_tensor *t = &plan->normal->tensors[tensor];
    if (t->rank != choice->order_count || hr_layout_has_strides(hr_plan_layout(plan, tensor))) return false;
    for (int a = 0; a < t->rank; a++) {
        int64_t axis, size;
        if (subscripts[a]->op != HR_OP_INDEX || subscripts[a]->index != choice->order[a]) return false;
        const hr_expr *extent = plan->normal->indices[choice->order[a]].extent;
        if (hr_extent_value(plan->normal, t->shape[a], extents, &axis) != HR_OK) return false;
        if (hr_extent_value(plan->normal, extent, extents, &size) != HR_OK || size != axis) return false;
    }
    return true;
}

static void add_tensor(hr_cuda_chooser *s, int tensor, hr_expr *const *subscripts, bool reads) {
    int last = s->function->tensors[tensor].rank - 1, lane = s->c->order[s->c->order_count - 1];
    if (last < 0 || !hr_expr_has_index(subscripts[last], lane)) return;
    bool whole = hr_cuda_is_whole(s->plan, s->c, tensor, subscripts, s->extents);
    if (whole) s->whole = true;
    int size = (int)hr_dtype_size(s->function->tensors[tensor].dtype);
    if (whole && reads) s->staged_bytes += size;
    if (whole && reads && (!s->narrowest || size < s->narrowest)) s->narrowest = size;
    for (int i = 0; i < s->tensor_count; i++)
        if (s->tensors[i] == tensor) return;
    if (s->tensor_count < HR_CUDA_STREAMED_MAX) s->tensors[s->tensor_count++] = tensor;
}

static hr_visit add_element(void *chooser_of, const hr_expr *e) {
    hr_cuda_chooser *s = chooser_of;
    if (e->op == HR_OP_ELEMENT) add_tensor(s, e->tensor, e->args, true);
    if (e->op == HR_OP_ELEMENT && e->arg_count && hr_expr_has_index(e, s->c->order[s->c->order_count - 1]))
        s->bytes += (int)hr_dtype_size(s->function->tensors[e->tensor].dtype);
    return HR_VISIT_ON;
}

double hr_cuda_elements_of(const hr_cuda_chooser *s, int tensor) {
    return hr_extent_elements(s->function, &s->function->tensors[tensor], s->extents);
}

/* Elements of 16 bytes of the widest of the tensors that are as large as the largest, within a factor of 2.
 */
static void choose_vector(hr_cuda_chooser *s, int written) {
    double largest = 0;
    size_t widest = 1;
    for (int i = 0; i < s->tensor_count; i++)
        if (hr_cuda_elements_of(s, s->tensors[i]) > largest) largest = hr_cuda_elements_of(s, s->tensors[i]);
    for (int i = 0; i < s->tensor_count; i++) {
        if (hr_cuda_elements_of(s, s->tensors[i]) * 2 < largest) {
            s->shared |= i >= written;
            continue;
        }
        size_t size = hr_dtype_size(s->function->tensors[s->tensors[i]].dtype);
        if (size > widest) widest = size;
        s->writes |= i < written;
        if (i < written) continue;
        s->streams++;
        s->read_bytes += hr_cuda_elements_of(s, s->tensors[i]) * (double)size;
    }
    s->widest = (int)widest;
    s->c->vector = s->tensor_count ? HR_CUDA_GROUP_BYTES / (int)widest : 1;
    if (s->streams < 1) s->streams = 1;
}

hr_status hr_cuda_survey(hr_cuda_chooser *s) {
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
