/* Which elements of a stage are read a group at a time. In: a stage. Out: elements of its expressions. */
#include "emit/cuda/stage_cuda_elements.h"

#include "base/dtype.h"

#include <string.h>

/* ---- what a pass does ---- */

static bool in_groups(const hr_cuda_stage *s, const hr_step *step) {
    if (step->kind == HR_STEP_ELEMENT) return step->stored;
    if (step->kind == HR_STEP_REDUCE_ALL) return !hr_step_is_row_total(s->plan, s->stage, step);
    return step->kind != HR_STEP_ROW;
}

bool hr_cuda_runs_in(const hr_cuda_stage *s, const hr_step *step, int pass) {
    return step->pass == pass && in_groups(s, step) && !s->beside[step - s->stage->steps];
}

/* ---- which elements are loaded a group at a time ---- */

/* A whole number of a shape-like expression; false where it depends on anything but extents. */
static bool known(const hr_cuda_stage *s, const hr_expr *e, int64_t *out) {
    int64_t a, b;
    switch (e->op) {
    case HR_OP_NUMBER:
        *out = e->whole;
        return true;
    case HR_OP_EXTENT:
        *out = s->extents[e->extent];
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        if (!known(s, e->args[0], &a) || !known(s, e->args[1], &b)) return false;
        *out = e->op == HR_OP_ADD ? a + b : e->op == HR_OP_SUB ? a - b : a * b;
        return true;
    default:
        return false;
    }
}

/* Of lane + rest: is the rest a whole number of groups? */
static bool rest_is_aligned(const hr_cuda_stage *s, const hr_expr *e) {
    int64_t rest;
    if (e->op == HR_OP_INDEX && e->index == s->p->lane) return true;
    if (e->op != HR_OP_ADD && e->op != HR_OP_SUB) return false;
    for (int side = 0; side < 2; side++)
        if (known(s, e->args[side], &rest))
            return rest % s->c->vector == 0 && rest_is_aligned(s, e->args[1 - side]);
    return false;
}

bool hr_cuda_whole(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return hr_cuda_is_whole(s->plan, s->c, tensor, subscripts, s->extents);
}

/* Groups of it are contiguous in memory, with no check of their own. */
bool hr_cuda_is_grouped(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (e->op != HR_OP_ELEMENT || s->p->value[e->tensor] || tensor->rank == 0) return false;
    if (hr_expr_level(s->p, e) != HR_AT_LANE) return false;
    if (s->c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row)
        return !hr_element_is_guarded(s->function, e) && hr_cuda_whole(s, e->tensor, e->args);
    return hr_expr_is_row_form(s->p, e);
}

/* Its groups begin at whole groups of memory, if the tensor does. */
bool hr_cuda_is_aligned(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    int rank = s->function->tensors[tensor].rank;
    int64_t axis;
    if (hr_cuda_whole(s, tensor, subscripts))
        return s->c->ends == HR_CUDA_ENDS_EXACT || hr_cuda_is_map(s->c) || s->c->ends == HR_CUDA_ENDS_SHIFTED;
    bool rows = s->c->ends == HR_CUDA_ENDS_EXACT ||
                (rank == 1 && !hr_cuda_is_map(s->c) && s->c->ends != HR_CUDA_ENDS_SHIFTED &&
                 s->c->ends != HR_CUDA_ENDS_STRADDLED);
    if (!rows || !rest_is_aligned(s, subscripts[rank - 1])) return false;
    if (rank == 1) return true;
    return hr_extent_value(s->function, s->function->tensors[tensor].shape[rank - 1], s->extents, &axis) ==
               HR_OK &&
           axis % s->c->vector == 0;
}

/* Elements that a value loads; what is held in registers already is not looked into. */
typedef struct element_search {
    hr_cuda_stage *s;
    hr_cuda_element_list *out;
} element_search;

static hr_visit find_element(void *context, const hr_expr *node) {
    const element_search *in = context;
    hr_cuda_stage *s = in->s;
    if (s->stash[node->id]) return HR_VISIT_PAST;
    if (!hr_cuda_is_grouped(s, node)) return HR_VISIT_ON;
    if (!s->held[node->id] && in->out->count < HR_CUDA_ELEMENTS_MAX)
        in->out->element[in->out->count++] = node;
    return HR_VISIT_PAST;
}

/* It, and the values of the task level that its place needs, are there before the first pass. */
static hr_visit is_not_there(const hr_expr *node, const void *stage) {
    const hr_cuda_stage *s = stage;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    return hr_visit_until(
        hr_stage_makes(s->plan, s->stage, node->tensor) ||
        (s->function->tensors[node->tensor].role == HR_ROLE_LOCAL && !s->plan->materialised[node->tensor]));
}

bool hr_cuda_is_placeable(const hr_cuda_stage *s, const hr_expr *element) {
    return !hr_expr_find(element, is_not_there, s);
}

static hr_visit is_of_task(const hr_expr *node, const void *stage) {
    const hr_stage *of = stage;
    return hr_visit_until(node->op == HR_OP_INDEX && hr_indices_have(of->task, of->task_count, node->index));
}

bool hr_cuda_varies_by_task(const hr_cuda_stage *s, const hr_expr *element) {
    return hr_expr_find(element, is_of_task, s->stage);
}

/* What a pass needs; a row that stays in registers is loaded as a whole before its first pass. What is the
 * same for every row is in cache, and is loaded where it is used. */
void hr_cuda_elements_of_pass(hr_cuda_stage *s, int pass, hr_cuda_element_list *out) {
    element_search in = {s, out};
    hr_walk walk = {.enter = find_element, .context = &in};
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass)) continue;
        hr_walk_through(&walk, step->value);
        for (int a = 0; step->kind == HR_STEP_SCATTER && a < hr_cuda_statement(s, step)->subscript_count; a++)
            hr_walk_through(&walk, hr_cuda_statement(s, step)->subscripts[a]);
    }
    const int here = out->count;
    const bool whole = pass == 0 && hr_cuda_is_resident(s->c);
    for (int i = 0; i < s->stage->step_count && whole; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (in_groups(s, step) && step->pass > 0) hr_walk_through(&walk, step->value);
    }
    hr_printer_walked(s->p, &walk);
    for (int i = here; i < out->count;)
        if (!hr_cuda_is_placeable(s, out->element[i]) ||
            (!hr_cuda_loads_ahead(s->c) && s->c->same != HR_CUDA_SAME_EARLY &&
             !hr_cuda_varies_by_task(s, out->element[i])))
            out->element[i] = out->element[--out->count];
        else
            i++;
}

void hr_cuda_all_elements(hr_cuda_stage *s, hr_cuda_element_list *out) {
    element_search in = {s, out};
    hr_walk walk = {.enter = find_element, .context = &in};
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], s->stage->steps[i].pass))
            hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(s->p, &walk);
}
