/* Proves that a plan writes each element of each result exactly once and defines before it uses. In: a plan.
 *
 * It reads only the finished plan, none of the planner's own bookkeeping: a second opinion.
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const hr_plan *plan;
    const hr_function *function;
    int *written; /* tensor -> how many times all of it is written */
    int *parts; /* tensor -> the axis that is written out, from 1, in bits 8 and up; which elements of it are
                 */
    int *stage_of; /* tensor -> the stage that defines it, -1 before */
    int *step_of;  /* tensor -> the step within that stage */
    int stage, step;
} checker;

static const char *name_of(const checker *c, int tensor) {
    return c->function->tensors[tensor].name;
}

static bool stage_has(const hr_stage *stage, int index) {
    for (int i = 0; i < stage->task_count; i++)
        if (stage->task[i] == index) return true;
    for (int i = 0; i < stage->row_count; i++)
        if (stage->row[i] == index) return true;
    return false;
}

static hr_status check_element(const checker *c, const hr_expr *element) {
    const hr_stage *stage = &c->plan->stages[c->stage];
    int tensor = element->tensor, from = c->stage_of[tensor];
    bool parameter = tensor < c->plan->source->parameter_count;
    if (parameter) return HR_OK;
    if (stage->contract && hr_contract_makes(stage->contract, tensor)) return HR_OK;
    for (int i = 0; i < stage->dots_count; i++)
        if (tensor == stage->dots[i].sum) return HR_OK;
    if (from < 0) return hr_fail(HR_INTERNAL, "%.40s is used before it is defined", name_of(c, tensor));
    if (from < c->stage) {
        bool declared = tensor < hr_function_arguments(c->plan->source);
        if (declared || c->plan->materialised[tensor] || c->plan->storage[tensor] != tensor) return HR_OK;
        return hr_fail(HR_INTERNAL, "%.40s is not kept for a later stage", name_of(c, tensor));
    }
    const hr_step *made = &stage->steps[c->step_of[tensor]], *step = &stage->steps[c->step];
    bool reduced = made->kind == HR_STEP_REDUCE_ROW && !made->estimated;
    bool is_row = made->kind == HR_STEP_ROW || made->kind == HR_STEP_REDUCE_ROW;
    if (is_row && made->pass + reduced <= step->pass) return HR_OK;
    return hr_fail(HR_INTERNAL, "%.40s is not finished where it is used", name_of(c, tensor));
}

static hr_status check_use(const checker *c, const hr_expr *node) {
    const hr_stage *stage = &c->plan->stages[c->stage];
    if (node->op == HR_OP_INDEX && !stage_has(stage, node->index) && !stage->contract)
        return hr_fail(HR_INTERNAL, "index %.40s has no loop", c->function->indices[node->index].name);
    return node->op == HR_OP_ELEMENT ? check_element(c, node) : HR_OK;
}

static hr_visit is_misused(const hr_expr *node, const void *checker) {
    return hr_visit_until(check_use(checker, node) != HR_OK);
}

static hr_status count_whole(checker *c, int tensor) {
    if (c->written[tensor]++) return hr_fail(HR_INTERNAL, "%.40s is written twice", name_of(c, tensor));
    return HR_OK;
}

/* An axis is covered by an index over it, or, one of them, by steps with all its numbers. */
static hr_status check_axes(checker *c, const hr_step *step, int tensor) {
    const hr_tensor *shape = &c->function->tensors[tensor];
    int numbered = -1;
    for (int a = 0; a < shape->rank; a++) {
        const hr_expr *subscript = step->subscripts[a], *size = shape->shape[a];
        bool number = subscript->op == HR_OP_NUMBER && size->op == HR_OP_NUMBER && numbered < 0 &&
                      size->whole <= 8 && subscript->whole >= 0 && subscript->whole < size->whole;
        if (number)
            numbered = a;
        else if (subscript->op != HR_OP_INDEX || c->function->indices[subscript->index].extent != size)
            return hr_fail(HR_INTERNAL, "axis %d of %.40s is not covered", a, shape->name);
    }
    if (numbered < 0) return count_whole(c, tensor);
    int *parts = &c->parts[tensor], axis = (numbered + 1) << 8, part = 1 << step->subscripts[numbered]->whole;
    if ((*parts && *parts >> 8 != axis >> 8) || *parts & part)
        return hr_fail(HR_INTERNAL, "a part of %.40s is written twice", shape->name);
    *parts |= axis | part;
    bool all = *parts == (axis | ((1 << shape->shape[numbered]->whole) - 1));
    return all ? count_whole(c, tensor) : HR_OK;
}

static hr_status check_step(checker *c, const hr_step *step) {
    const hr_statement *statement = &c->function->statements[step->statement];
    const hr_expr *misused = hr_expr_find(step->value, is_misused, c);
    if (misused) return check_use(c, misused);
    bool declared = statement->tensor < hr_function_arguments(c->plan->source);
    if ((declared || c->plan->storage[statement->tensor] != statement->tensor) && !step->stored)
        return hr_fail(HR_INTERNAL, "%.40s is never stored", name_of(c, statement->tensor));
    if (statement->store != HR_STORE_WHOLE) return count_whole(c, statement->tensor);
    return check_axes(c, step, statement->tensor);
}

static hr_status check_stages(checker *c) {
    for (c->stage = 0; c->stage < c->plan->stage_count; c->stage++) {
        const hr_stage *stage = &c->plan->stages[c->stage];
        for (int i = 0; i < stage->step_count; i++) {
            int tensor = c->function->statements[stage->steps[i].statement].tensor;
            c->stage_of[tensor] = c->stage;
            c->step_of[tensor] = i;
        }
        for (c->step = 0; c->step < stage->step_count; c->step++)
            HR_TRY(check_step(c, &stage->steps[c->step]));
    }
    for (int t = 0; t < hr_function_arguments(c->plan->source); t++)
        if (c->function->tensors[t].role == HR_ROLE_RESULT && c->written[t] != 1)
            return hr_fail(HR_INTERNAL, "result %.40s is written %d times", name_of(c, t), c->written[t]);
    return HR_OK;
}

hr_status hr_pass_check(const hr_plan *plan) {
    const hr_function *function = plan->normal;
    size_t tensors = (size_t)function->tensor_count + 1;
    checker c = {.plan = plan, .function = function};
    c.written = hr_memory_zeros(tensors, sizeof *c.written);
    c.parts = hr_memory_zeros(tensors, sizeof *c.parts);
    c.stage_of = hr_memory_take(tensors * sizeof *c.stage_of);
    c.step_of = hr_memory_zeros(tensors, sizeof *c.step_of);
    hr_status status = HR_OK;
    if (!c.written || !c.parts || !c.stage_of || !c.step_of)
        status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while checking a plan");
    else {
        memset(c.stage_of, -1, tensors * sizeof *c.stage_of);
        status = check_stages(&c);
    }
    free(c.written);
    free(c.parts);
    free(c.stage_of);
    free(c.step_of);
    return status == HR_OK ? HR_OK : hr_fail_context(status, "kernel %.60s", function->name);
}
