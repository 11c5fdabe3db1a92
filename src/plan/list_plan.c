/* Which plans can run over lists of arrays. In: a plan whose layouts have lists. Out: good, or what is in
 * the way.
 *
 * Over a list a stage walks one index, which stands for an element of some member: it subscripts lists,
 * alone, and has no value of its own. What a stage computes for all elements together are totals.
 */
#include "ir/visit.h"
#include "plan/plan.h"

typedef struct walk {
    const hr_plan *plan;
    const hr_function *function;
} walk;

static bool is_list(const hr_plan *plan, int tensor) {
    return hr_plan_layout(plan, tensor) == HR_LAYOUT_LIST;
}

bool hr_plan_has_lists(const hr_plan *plan) {
    for (int t = 0; t < hr_function_arguments(plan->source); t++)
        if (plan->layouts[t] == HR_LAYOUT_LIST) return true;
    return false;
}

static hr_status fail(const walk *w, const char *what) {
    return hr_fail(
        HR_BAD_INPUT,
        "kernel %.60s cannot run over a list of arrays: %s. Bind whole arrays, or write it as a map "
        "and total reductions over one axis",
        w->plan->source->name, what);
}

static hr_status fail_tensor(const walk *w, int tensor, const char *what) {
    char sentence[160];
    snprintf(sentence, sizeof sentence, "`%.60s` %s", w->function->tensors[tensor].name, what);
    return fail(w, sentence);
}

#define WHOLE "is bound to one array: bind it with hr_kernel_bind_list, too"

static hr_status check_node(const walk *w, const hr_expr *node) {
    if (node->op == HR_OP_INDEX)
        return fail(w, "it uses an index as a number, and an element of a list has none");
    if (node->op == HR_OP_ELEMENT && is_list(w->plan, node->tensor)) {
        if (node->arg_count != 1 || node->args[0]->op != HR_OP_INDEX)
            return fail_tensor(w, node->tensor, "is read at more than one place for an element");
        return HR_OK;
    }
    if (node->op == HR_OP_ELEMENT && node->arg_count == 1 && node->args[0]->op == HR_OP_INDEX)
        return fail_tensor(w, node->tensor, WHOLE);
    return HR_OK;
}

/* Elements of lists are entered no further: their one subscript is an index. */
static hr_visit is_in_the_way(const hr_expr *node, const void *walk) {
    if (check_node(walk, node) != HR_OK) return HR_VISIT_STOP;
    return node->op == HR_OP_ELEMENT && is_list(((const struct walk *)walk)->plan, node->tensor)
               ? HR_VISIT_PAST
               : HR_VISIT_ON;
}

static hr_status check_stage(const walk *w, const hr_stage *stage) {
    if (stage->contract || stage->task_count || stage->row_count > 1)
        return fail(w, "it has more than one index at a time");
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        int tensor = w->function->statements[step->statement].tensor;
        if ((step->kind != HR_STEP_ELEMENT && step->kind != HR_STEP_ROW &&
             step->kind != HR_STEP_REDUCE_ALL) ||
            hr_op_finds_position(step->reduce))
            return fail_tensor(w, tensor, "is neither an element nor a total");
        if (w->function->tensors[tensor].rank > 0 && step->stored && !is_list(w->plan, tensor))
            return fail_tensor(w, tensor, WHOLE);
        const hr_expr *found = hr_expr_find(step->value, is_in_the_way, w);
        if (found) return check_node(w, found);
    }
    return HR_OK;
}

static hr_status check_tensors(const walk *w) {
    for (int t = 0; t < w->function->tensor_count; t++)
        if (w->function->tensors[t].rank > 0 && hr_plan_is_scratch(w->plan, t))
            return fail_tensor(w, t,
                               "would need memory of its own between two passes: write it out where "
                               "it is used");
    return HR_OK;
}

hr_status hr_plan_check_lists(const hr_plan *plan) {
    walk w = {.plan = plan, .function = plan->normal};
    HR_TRY(check_tensors(&w));
    for (int i = 0; i < plan->stage_count; i++)
        HR_TRY(check_stage(&w, &plan->stages[i]));
    return HR_OK;
}
