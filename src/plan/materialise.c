/* What exists in memory between stages. In: grouped stages. Out: plan->materialised, and which steps are
 * stored. */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>

typedef struct reading {
    const hr_function *function;
    hr_plan *plan;
    int *stage_of; /* by statement */
    int *producer; /* tensor -> the statement that defines it, -1 for parameters */
    int stage;
} reading;

static hr_visit note_reading(void *context, const hr_expr *node) {
    reading *r = context;
    const int producer = node->op == HR_OP_ELEMENT ? r->producer[node->tensor] : -1;
    if (producer >= 0 && r->stage_of[producer] != r->stage) r->plan->materialised[node->tensor] = true;
    return HR_VISIT_ON;
}

static hr_status note_all(reading *r) {
    for (int s = 0; s < r->function->statement_count; s++) {
        const hr_statement *statement = &r->function->statements[s];
        hr_walk walk = {.enter = note_reading, .context = r};
        r->stage = r->stage_of[s];
        hr_walk_through(&walk, statement->value);
        for (int a = 0; a < statement->subscript_count; a++)
            hr_walk_through(&walk, statement->subscripts[a]);
        HR_TRY(hr_walk_end(&walk));
        if (statement->store != HR_STORE_WHOLE && r->plan->storage[statement->tensor] == statement->tensor)
            r->plan->materialised[statement->tensor] = true;
    }
    return HR_OK;
}

static void places_set(reading *r) {
    const hr_plan *plan = r->plan;
    for (int t = 0; t < r->function->tensor_count; t++)
        r->producer[t] = -1;
    for (int s = 0; s < r->function->statement_count; s++)
        r->producer[r->function->statements[s].tensor] = s;
    for (int i = 0; i < plan->stage_count; i++)
        for (int j = 0; j < plan->stages[i].step_count; j++)
            r->stage_of[plan->stages[i].steps[j].statement] = i;
}

static void stored_set(const reading *r) {
    const hr_plan *plan = r->plan;
    for (int i = 0; i < plan->stage_count; i++)
        for (int j = 0; j < plan->stages[i].step_count; j++) {
            const int tensor = r->function->statements[plan->stages[i].steps[j].statement].tensor;
            const bool local =
                r->function->tensors[tensor].role == HR_ROLE_LOCAL && plan->storage[tensor] == tensor;
            plan->stages[i].steps[j].stored = !local || plan->materialised[tensor];
        }
}

hr_status hr_pass_materialise(hr_graph *graph, hr_plan *plan) {
    reading r = {.function = graph->function, .plan = plan};
    r.stage_of = hr_memory_zeros((size_t)graph->function->statement_count + 1, sizeof *r.stage_of);
    r.producer = hr_memory_zeros((size_t)graph->function->tensor_count + 1, sizeof *r.producer);
    hr_status status =
        r.stage_of && r.producer
            ? HR_OK
            : hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning kernel %.60s", graph->function->name);
    if (status == HR_OK) {
        places_set(&r);
        status = note_all(&r);
    }
    if (status == HR_OK) stored_set(&r);
    free(r.stage_of);
    free(r.producer);
    return status;
}
