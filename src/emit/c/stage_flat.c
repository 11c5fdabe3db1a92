/* Maps whose axes are walked as one. In: a stage. Out: whether it is one, and text. See stage_flat.h. */
#include "emit/c/stage_flat.h"

#include "emit/expression.h"

typedef struct flattening {
    hr_printer *p;
    int order[HR_AXES_MAX + 1]; /* the stage's indices, the lane's last */
    int count;
    hr_walk walk; /* of the values of its steps */
} flattening;

static bool is_index(const hr_expr *node, int index) {
    return node->op == HR_OP_INDEX && node->index == index;
}

/* All indices in order, each along a whole axis of an array without gaps. */
static bool is_walked(const flattening *f, int tensor, hr_expr *const *subscripts, int count) {
    const hr_function *function = f->p->function;
    const hr_tensor *of = &function->tensors[tensor];
    if (hr_plan_layout(f->p->plan, tensor) != HR_LAYOUT_DENSE || of->rank != f->count || count != f->count)
        return false;
    for (int a = 0; a < f->count; a++)
        if (!is_index(subscripts[a], f->order[a]) || of->shape[a] != function->indices[f->order[a]].extent)
            return false;
    return true;
}

/* (i * J + j) * K + k for the first `count` indices: the element's number. */
static bool is_position(const flattening *f, const hr_expr *node, int count) {
    if (count == 1) return is_index(node, f->order[0]);
    const hr_expr *extent = f->p->function->indices[f->order[count - 1]].extent;
    for (int side = 0; node->op == HR_OP_ADD && side < 2; side++) {
        const hr_expr *product = node->args[side];
        if (!is_index(node->args[1 - side], f->order[count - 1]) || product->op != HR_OP_MUL) continue;
        for (int factor = 0; factor < 2; factor++)
            if (product->args[factor] == extent && is_position(f, product->args[1 - factor], count - 1))
                return true;
    }
    return false;
}

/* A random number whose counter is the element's number needs a flat seed alone. */
static hr_visit is_not_flat(void *context, const hr_expr *node) {
    flattening *f = context;
    if (node->op == HR_OP_INDEX || hr_op_is_reduction(node->op)) return HR_VISIT_STOP;
    if (node->op == HR_OP_ELEMENT && node->arg_count)
        return is_walked(f, node->tensor, node->args, node->arg_count) ? HR_VISIT_PAST : HR_VISIT_STOP;
    if (node->op != HR_OP_RANDOM || !is_position(f, node->args[1], f->count)) return HR_VISIT_ON;
    return hr_walk_through(&f->walk, node->args[0]) ? HR_VISIT_STOP : HR_VISIT_PAST;
}

static bool steps_are_flat(flattening *f, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_statement *statement = &f->p->function->statements[step->statement];
        if (step->kind != HR_STEP_ELEMENT || hr_walk_through(&f->walk, step->value)) return false;
        if (step->stored && !is_walked(f, statement->tensor, step->subscripts, statement->subscript_count))
            return false;
    }
    return true;
}

static bool indices_find(flattening *f, const hr_stage *stage) {
    if (stage->task_count + stage->row_count < 2 || stage->task_count + stage->row_count > HR_AXES_MAX)
        return false;
    for (int i = 0; i < stage->task_count; i++)
        f->order[f->count++] = stage->task[i];
    for (int i = 0; i < stage->row_count; i++)
        f->order[f->count++] = stage->row[i];
    return true;
}

bool hr_stage_flatten(hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    flattening f = {.p = s->p};
    if (stage->shape != HR_SHAPE_MAP || !stage->row_count || stage->pass_count != 1 ||
        hr_cpu_walk_of(stage)->pipeline.depth || hr_stash_of(stage)->count || hr_plan_has_lists(s->plan) ||
        !indices_find(&f, stage))
        return false;
    f.walk = (hr_walk){.enter = is_not_flat, .context = &f};
    const bool flat = steps_are_flat(&f, stage);
    hr_walk_end(&f.walk);
    if (!flat) return false;
    s->p->flat = hr_format(s->p, "(%s)", hr_emit_points(s->p, f.order, f.count));
    s->p->outer_count = 0;
    return true;
}

void hr_stage_flat_indices(hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    for (int i = 0; i < stage->task_count + stage->row_count - 1; i++) {
        int index = i < stage->task_count ? stage->task[i] : stage->row[i - stage->task_count];
        hr_print(s->p, "const int64_t %s = 0;", hr_emit_index(s->p, index));
        hr_print(s->p, "(void)%s;", hr_emit_index(s->p, index));
    }
}
