/* What emitters ask of a finished plan. In: a plan. Out: answers. Declared in plan.h. */
#include "base/dtype.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/plan.h"

bool hr_stage_has(const hr_stage *stage, hr_step_kind kind) {
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == kind) return true;
    return false;
}

bool hr_stage_has_only(const hr_stage *stage, hr_step_kind kind) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != kind && (step->kind != HR_STEP_ELEMENT || step->stored)) return false;
    }
    return hr_stage_has(stage, kind);
}

bool hr_stage_makes(const hr_plan *plan, const hr_stage *stage, int tensor) {
    for (int i = 0; i < stage->step_count; i++)
        if (plan->normal->statements[stage->steps[i].statement].tensor == tensor) return true;
    return false;
}

bool hr_stage_overwrites(const hr_plan *plan, const hr_stage *stage, int tensor) {
    for (int i = 0; i < stage->step_count; i++) {
        int made = plan->normal->statements[stage->steps[i].statement].tensor;
        if (plan->storage[made] == plan->storage[tensor]) return true;
    }
    return false;
}

/* What it depends on is there before the stage, and is none of its tasks. */
typedef struct before {
    const hr_plan *plan;
    const hr_stage *stage;
} before;

static hr_visit is_of_tasks(const hr_expr *node, const void *context) {
    const before *b = context;
    if (node->op == HR_OP_INDEX)
        return hr_visit_until(hr_indices_have(b->stage->task, b->stage->task_count, node->index));
    return hr_visit_until(
        node->op == HR_OP_RANDOM ||
        (node->op == HR_OP_ELEMENT && (hr_element_is_checked(b->plan->normal, node) ||
                                       hr_stage_overwrites(b->plan, b->stage, node->tensor))));
}

const hr_expr *hr_stage_columns_chosen(const hr_plan *plan, const hr_stage *stage) {
    const hr_expr *chosen = NULL;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        const hr_expr *value = step->value;
        if (step->reduce != HR_OP_REDUCE_SUM || value->op != HR_OP_WHERE ||
            !hr_expr_is_zero(value->args[2]) || (chosen && chosen != value->args[0]))
            return NULL;
        chosen = value->args[0];
    }
    return chosen && !hr_expr_find(chosen, is_of_tasks, &(before){plan, stage}) ? chosen : NULL;
}

/* Some stage other than the one that makes it reads its elements. */
static bool is_read_elsewhere(const hr_plan *plan, int tensor) {
    for (int k = 0; k < plan->stage_count; k++) {
        const hr_stage *stage = &plan->stages[k];
        const hr_contract *c = stage->contract;
        if (c && (hr_expr_reads(c->left, tensor) || hr_expr_reads(c->right, tensor))) return true;
        for (int i = 0; i < stage->step_count && !hr_stage_makes(plan, stage, tensor); i++) {
            const hr_step *step = &stage->steps[i];
            const hr_statement *statement = &plan->normal->statements[step->statement];
            if (hr_expr_reads(step->value, tensor)) return true;
            for (int a = 0; a < statement->subscript_count; a++)
                if (hr_expr_reads(statement->subscripts[a], tensor)) return true;
        }
    }
    return false;
}

bool hr_plan_result_is_optional(const hr_plan *plan, int tensor) {
    int makers = 0;
    if (plan->normal->tensors[tensor].role != HR_ROLE_RESULT || plan->storage[tensor] != tensor) return false;
    for (int t = 0; t < plan->normal->tensor_count; t++)
        if (t != tensor && plan->storage[t] == tensor) return false; /* it is written over */
    for (int k = 0; k < plan->stage_count; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const hr_step *step = &plan->stages[k].steps[i];
            if (plan->normal->statements[step->statement].tensor != tensor) continue;
            if (step->kind != HR_STEP_ROW && step->kind != HR_STEP_REDUCE_ROW) return false;
            makers++;
        }
    return makers == 1 && plan->source->result_count > 1 && !is_read_elsewhere(plan, tensor);
}

bool hr_stage_estimates(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].estimated) return true;
    return false;
}

bool hr_stage_is_narrow(const hr_plan *plan, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        int tensor = plan->normal->statements[stage->steps[i].statement].tensor;
        if (hr_dtype_size(plan->normal->tensors[tensor].dtype) < 4) return true;
    }
    return false;
}

bool hr_plan_is_in_strips(const hr_plan *plan, int tensor) {
    return plan->in_strips && plan->in_strips[tensor];
}

bool hr_plan_is_in_blocks(const hr_plan *plan, int tensor) {
    return plan->in_blocks && plan->in_blocks[tensor];
}

bool hr_plan_is_in_hand(const hr_plan *plan, int tensor) {
    return hr_plan_is_in_strips(plan, tensor) || hr_plan_is_in_blocks(plan, tensor);
}

bool hr_plan_is_scratch(const hr_plan *plan, int tensor) {
    return tensor >= hr_function_arguments(plan->source) && plan->materialised[tensor] &&
           plan->storage[tensor] == tensor && !hr_plan_is_in_hand(plan, tensor);
}

const hr_size *hr_plan_local_size(hr_sizes *sizes, const hr_plan *plan, int tensor, int64_t more,
                                  int64_t unit) {
    return hr_size_rounded(sizes, hr_size_bytes(sizes, &plan->normal->tensors[tensor], 0), more, unit);
}

hr_status hr_plan_locals_bytes(const hr_plan *plan, int end, const int64_t *extents, int64_t more,
                               int64_t unit, int64_t *out) {
    *out = 0;
    for (int t = 0; t < end; t++) {
        hr_sizes sizes = {0};
        if (!hr_plan_is_scratch(plan, t)) continue;
        HR_TRY(hr_size_add(hr_plan_local_size(&sizes, plan, t, more, unit), plan->normal, extents, out));
    }
    return HR_OK;
}

static bool is_split(const hr_plan *plan, const hr_expr *groups, const hr_expr *by) {
    for (int i = 0; i < plan->split_count; i++)
        if (plan->splits[i].groups == groups && plan->splits[i].by == by) return true;
    return false;
}

int hr_plan_source_axis(const hr_plan *plan, int tensor, int axis) {
    const hr_tensor *of = &plan->normal->tensors[tensor];
    if (tensor >= hr_function_arguments(plan->source) || of->rank == plan->source->tensors[tensor].rank)
        return axis;
    int parts = 0;
    for (int a = 0; a < axis; a++)
        parts += is_split(plan, of->shape[a], of->shape[a + 1]);
    return axis - parts;
}

hr_status hr_plan_points(const hr_plan *plan, const int *indices, int count, const int64_t *extents,
                         int64_t *out) {
    hr_sizes sizes = {0};
    return hr_size_value(hr_size_points(&sizes, plan->normal, indices, count), plan->normal, extents, out);
}

bool hr_step_is_row_total(const hr_plan *plan, const hr_stage *stage, const hr_step *step) {
    return step->kind == HR_STEP_REDUCE_ALL && plan->normal->statements[step->statement].value->bound_count <
                                                   stage->task_count + stage->row_count;
}

static bool changes_argument(const hr_plan *plan, const hr_step *step) {
    int memory = plan->storage[plan->normal->statements[step->statement].tensor];
    return plan->normal->tensors[memory].role == HR_ROLE_INOUT;
}

bool hr_stage_can_split(const hr_plan *plan, const hr_stage *stage) {
    if (stage->task_count || stage->row_count != 1 || stage->pass_count != 1) return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_ROW || step->kind == HR_STEP_SCATTER) return false;
        if (step->kind == HR_STEP_ROW && changes_argument(plan, step)) return false;
    }
    return true;
}

bool hr_plan_access(const hr_plan *plan, int64_t access, hr_access *out) {
    const hr_graph *graph = plan->graph;
    int64_t id = (access - 1) / HR_AXES_MAX;
    for (int i = 0; i < graph->table_size && access > 0; i++) {
        const hr_expr *node = graph->table[i];
        if (!node || node->id != id || node->op != HR_OP_ELEMENT) continue;
        *out = (hr_access){
            .tensor = node->tensor, .axis = (int)((access - 1) % HR_AXES_MAX), .place = node->place};
        return out->axis < plan->normal->tensors[node->tensor].rank;
    }
    return false;
}

static hr_visit is_special(const hr_expr *node, const void *nothing) {
    (void)nothing;
    hr_special special = hr_op_info_of(node->op)->special;
    return hr_visit_until(special != HR_SPECIAL_NONE && special != HR_SPECIAL_ROOT &&
                          special != HR_SPECIAL_RANDOM);
}

bool hr_expr_computes_special(const hr_expr *expr) {
    return hr_expr_find(expr, is_special, NULL);
}
