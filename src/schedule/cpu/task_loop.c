/* Which loop goes through a stage's tasks. In: a stage, all else of whose walk is chosen. Out: `loop`, where
 * column sums beside other passes are added up, what a map reads across its lanes.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/cpu/passes_cpu.h"
#include "schedule/dependence.h"

/* Random numbers drawn at a time: a group of the generator's, of short vectors two, few enough for memory to
 * work meanwhile. */
enum { RANDOM_STRIP = 256, RANDOM_STRIP_SHORT = 192 };

/* ---- maps whose arrays all lie as they are walked: their axes are one, of all elements ----
 *
 * Why: each end of a row costs. Prefetched lines beyond it are lost and its last vector is partial. Few long
 * rows would also leave threads idle.
 */

typedef struct flattening {
    const hr_plan *plan;
    int order[HR_AXES_MAX + 1]; /* the stage's indices, the lane's last */
    int count;
    hr_walk walk; /* of the values of its steps */
} flattening;

static bool is_index(const hr_expr *node, int index) {
    return node->op == HR_OP_INDEX && node->index == index;
}

/* All indices in order, each along a whole axis of an array without gaps. */
static bool is_walked(const flattening *f, int tensor, hr_expr *const *subscripts, int count) {
    const hr_function *function = f->plan->normal;
    const hr_tensor *of = &function->tensors[tensor];
    if (hr_plan_layout(f->plan, tensor) != HR_LAYOUT_DENSE || of->rank != f->count || count != f->count)
        return false;
    for (int a = 0; a < f->count; a++)
        if (!is_index(subscripts[a], f->order[a]) || of->shape[a] != function->indices[f->order[a]].extent)
            return false;
    return true;
}

/* (i * J + j) * K + k for the first `count` indices: the element's number. */
static bool is_position(const flattening *f, const hr_expr *node, int count) {
    if (count == 1) return is_index(node, f->order[0]);
    const hr_expr *extent = f->plan->normal->indices[f->order[count - 1]].extent;
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
        const hr_statement *statement = &f->plan->normal->statements[step->statement];
        if (step->kind != HR_STEP_ELEMENT || hr_walk_through(&f->walk, step->value)) return false;
        if (step->stored && !is_walked(f, statement->tensor, step->subscripts, statement->subscript_count))
            return false;
    }
    return true;
}

static hr_status find_flat(const hr_plan *plan, const hr_stage *stage, bool *out) {
    flattening f = {.plan = plan};
    const int indices = stage->task_count + stage->row_count;
    *out = false;
    if (stage->shape != HR_SHAPE_MAP || !stage->row_count || stage->pass_count != 1 ||
        hr_cpu_walk_of(stage)->pipeline.depth || hr_stash_of(stage)->count || hr_plan_has_lists(plan) ||
        indices < 2 || indices > HR_AXES_MAX)
        return HR_OK;
    for (int i = 0; i < stage->task_count; i++)
        f.order[f.count++] = stage->task[i];
    for (int i = 0; i < stage->row_count; i++)
        f.order[f.count++] = stage->row[i];
    f.walk = (hr_walk){.enter = is_not_flat, .context = &f};
    *out = steps_are_flat(&f, stage);
    return hr_walk_end(&f.walk);
}

/* ---- maps that read an array across the lanes: transposing copies, and whatever reads beside it ---- */

typedef struct search {
    hr_dependence depends;
    hr_cpu_walk *walk;
} search;

/* Plain indices or numbers, the last of them the last task's, one of those before the lane. */
static bool lies_across(const search *s, const hr_expr *element) {
    const hr_stage *stage = s->depends.stage;
    const hr_function *function = s->depends.plan->normal;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    bool lane = false;
    if (element->type != HR_F32 || tensor->rank < 2 || element->arg_count != tensor->rank) return false;
    if (hr_element_is_checked(function, element)) return false;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        if (subscript->op != HR_OP_INDEX && subscript->op != HR_OP_NUMBER) return false;
        bool last = subscript->op == HR_OP_INDEX && subscript->index == stage->task[stage->task_count - 1];
        if (last != (a == tensor->rank - 1)) return false;
        lane = lane || (subscript->op == HR_OP_INDEX && subscript->index == hr_stage_lane(stage));
    }
    return lane;
}

static hr_visit find_element(void *context, const hr_expr *node) {
    search *s = context;
    hr_cpu_walk *walk = s->walk;
    if (!hr_varies_by_lane(&s->depends, node)) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT || hr_lies_along_lanes(&s->depends, node)) return HR_VISIT_ON;
    if (lies_across(s, node) && walk->across_count < HR_ACROSS_MAX) walk->across[walk->across_count++] = node;
    return HR_VISIT_PAST;
}

static hr_status find_across(const hr_plan *plan, const hr_stage *stage) {
    search s = {.walk = hr_cpu_walk_of(stage)};
    if (stage->shape != HR_SHAPE_MAP || !hr_stage_is_vector(stage) || stage->row_count != 1 ||
        !stage->task_count || stage->pass_count != 1 || s.walk->pipeline.depth || s.walk->chunk ||
        s.walk->gathered || hr_plan_has_lists(plan) || !hr_stage_has_only(stage, HR_STEP_ELEMENT))
        return HR_OK;
    HR_TRY(hr_dependence_begin(plan, stage, &s.depends));
    hr_walk walk = {.enter = find_element, .context = &s};
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].stored) hr_walk_through(&walk, stage->steps[i].value);
    hr_dependence_end(&s.depends);
    return hr_walk_end(&walk);
}

/* ---- column sums beside other passes ---- */

typedef struct stage_of {
    const hr_plan *plan;
    const hr_stage *stage;
} stage_of;

/* Nothing of the value is drawn, narrow, made by the stage itself or overwritten by it. To widen what is
 * narrow once more costs what the sums' way to the second-level cache does. */
static hr_visit is_not_apart(const hr_expr *node, const void *context) {
    const stage_of *of = context;
    return hr_visit_until(
        node->op == HR_OP_RANDOM ||
        (node->op == HR_OP_ELEMENT && (hr_dtype_size(of->plan->normal->tensors[node->tensor].dtype) < 4 ||
                                       hr_stage_overwrites(of->plan, of->stage, node->tensor))));
}

static bool sums_of_groups(const hr_plan *plan, const hr_stage *stage) {
    if (!hr_stage_is_vector(stage) || stage->row_count != 1 || stage->task_count == 0) return false;
    if (!hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || !hr_stage_has(stage, HR_STEP_REDUCE_ROW)) return false;
    if (hr_cpu_walk_of(stage)->pipeline.depth || hr_stage_jam(stage)) return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        if (step->value->type != HR_F32 || hr_expr_find(step->value, is_not_apart, &(stage_of){plan, stage}))
            return false;
    }
    return true;
}

/* ---- the loop ---- */

/* Where the loop follows from what other passes chose. */
static hr_cpu_loop chosen_loop(const hr_plan *plan, const hr_stage *stage) {
    const hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    if (hr_stage_has(stage, HR_STEP_SCATTER)) return HR_LOOP_SCATTER;
    if (walk->pipeline.depth) return HR_LOOP_PIPELINE;
    if (walk->strip) return HR_LOOP_STRIPS;
    if (walk->sums == HR_SUMS_IN_REGISTERS) return HR_LOOP_COLUMNS;
    if (walk->sums == HR_SUMS_OF_GROUPS) return HR_LOOP_GROUPS;
    if (hr_stage_can_split(plan, stage)) return HR_LOOP_LANES;
    return walk->gathered ? HR_LOOP_GATHERED : HR_LOOP_TASKS;
}

static hr_status loop_of(const hr_plan *plan, hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    bool flat;
    if (walk->sums == HR_SUMS_IN_CACHE && sums_of_groups(plan, stage)) walk->sums = HR_SUMS_OF_GROUPS;
    walk->loop = chosen_loop(plan, stage);
    if (walk->loop != HR_LOOP_TASKS && walk->loop != HR_LOOP_GATHERED) return HR_OK;
    HR_TRY(find_flat(plan, stage, &flat));
    if (!flat) HR_TRY(find_across(plan, stage));
    if (flat)
        walk->loop = HR_LOOP_FLAT;
    else if (walk->across_count)
        walk->loop = HR_LOOP_TRANSPOSED;
    else if (walk->loop == HR_LOOP_TASKS && walk->partition == HR_PARTITION_LANES && !walk->chunk)
        walk->loop = HR_LOOP_SHARES;
    else if (walk->loop == HR_LOOP_TASKS && hr_stage_jam(stage))
        walk->loop = HR_LOOP_JAM;
    return HR_OK;
}

hr_status hr_pass_task_loop(hr_plan *plan, int number) {
    hr_stage *stage = &plan->stages[number];
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    const hr_run run = hr_schedule_run(plan, number);
    const int strip = hr_stage_knobs(stage)->random_strip;
    walk->chunk = hr_stage_knobs(stage)->chunk;
    if (hr_schedule_attends(plan, number)) {
        walk->loop = HR_LOOP_BLOCK;
        return HR_OK;
    }
    if (run.first != run.last) {
        walk->loop = HR_LOOP_JOINED;
        return HR_OK;
    }
    walk->random_strip = strip                                ? strip
                         : hr_limits_are_short(&plan->limits) ? RANDOM_STRIP_SHORT
                                                              : RANDOM_STRIP;
    return stage->contract ? HR_OK : loop_of(plan, stage);
}
