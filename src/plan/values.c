/* What each step of a stage computes, and in which pass. In: grouped stages. Out: stages whose values are
 * over their own indices, and their shapes. */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct valuing {
    hr_graph *graph;
    const hr_function *function;
    int *step_of; /* tensor -> step of the stage at hand that defines it, -1 elsewhere */
    const hr_stage *stage;
    hr_rewriting rewriting; /* of that stage's values */
} valuing;

/* ---- values: elements of the same stage are replaced by what they are ---- */

static hr_expr *replace(void *context, hr_expr *node) {
    valuing *s = context;
    const hr_stage *stage = s->stage;
    const int step = node->op == HR_OP_ELEMENT ? s->step_of[node->tensor] : -1;
    if (step < 0 || stage->steps[step].kind != HR_STEP_ELEMENT) return NULL;
    if (stage->contract && hr_contract_makes(stage->contract, node->tensor)) return NULL;
    const hr_statement *made = &s->function->statements[stage->steps[step].statement];
    return hr_graph_round(s->graph, s->function->tensors[node->tensor].dtype,
                          hr_rewriting_of(&s->rewriting, made->value));
}

static hr_status set_values(valuing *s, hr_stage *stage) {
    s->stage = stage;
    s->rewriting = (hr_rewriting){.graph = s->graph, .before = replace, .context = s};
    for (int t = 0; t < s->function->tensor_count; t++)
        s->step_of[t] = -1;
    for (int i = 0; i < stage->step_count; i++)
        s->step_of[s->function->statements[stage->steps[i].statement].tensor] = i;
    for (int i = 0; i < stage->step_count; i++) {
        hr_step *step = &stage->steps[i];
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_expr *value = statement->value;
        step->subscripts = statement->subscripts;
        if (hr_op_is_reduction(value->op)) value = value->args[0];
        if (step->kind == HR_STEP_PARTIAL) value = hr_partial_of(s->graph, statement->tensor)->body;
        step->value = stage->contract && hr_contract_makes(stage->contract, statement->tensor)
                          ? hr_graph_element(s->graph, statement->tensor, statement->subscript_count,
                                             statement->subscripts)
                          : hr_rewriting_of(&s->rewriting, value);
        if (statement->store != HR_STORE_WHOLE)
            step->target = hr_graph_element(s->graph, statement->tensor, statement->subscript_count,
                                            statement->subscripts);
    }
    hr_rewriting_end(&s->rewriting);
    return hr_graph_status(s->graph);
}

/* ---- passes ---- */

/* An inout is overwritten in the last pass that reads what it held. Whether a step has moved. */
static bool delay_overwrites(const valuing *s, hr_stage *stage) {
    bool moved = false;
    for (int i = 0; i < stage->step_count; i++) {
        int tensor = s->function->statements[stage->steps[i].statement].tensor;
        int memory = s->graph->storage[tensor];
        for (int j = 0; j < stage->step_count && memory != tensor; j++)
            if (stage->steps[j].pass > stage->steps[i].pass && hr_expr_reads(stage->steps[j].value, memory)) {
                stage->steps[i].pass = stage->steps[j].pass;
                moved = true;
            }
    }
    return moved;
}

/* What reads a value of the row follows it where it has moved. */
static bool follow_makers(const valuing *s, hr_stage *stage) {
    bool moved = false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *made = &stage->steps[i];
        const bool reduced = made->kind == HR_STEP_REDUCE_ROW && !made->estimated;
        if (made->kind != HR_STEP_ROW && made->kind != HR_STEP_REDUCE_ROW) continue;
        for (int j = 0; j < stage->step_count; j++)
            if (j != i && stage->steps[j].pass < made->pass + reduced &&
                hr_expr_reads(stage->steps[j].value, s->function->statements[made->statement].tensor)) {
                stage->steps[j].pass = made->pass + reduced;
                moved = true;
            }
    }
    return moved;
}

/* A step that reads what it overwrites by way of others settles nowhere: the plan's check refuses it. */
static hr_status settle_passes(valuing *s, hr_stage *stage) {
    for (int round = 0; round <= stage->step_count && delay_overwrites(s, stage); round++)
        follow_makers(s, stage);
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].pass + 1 > stage->pass_count) stage->pass_count = stage->steps[i].pass + 1;
    return HR_OK;
}

/* ---- shapes ---- */

hr_shape hr_stage_shape_of(const hr_function *function, const hr_stage *stage) {
    if (stage->contract) return HR_SHAPE_CONTRACT;
    if (stage->dots) return HR_SHAPE_DOTS;
    if (hr_stage_has(stage, HR_STEP_SCATTER)) return HR_SHAPE_SCATTER;
    if (hr_stage_is_ordered(stage))
        return stage->steps[0].reduce == HR_OP_TOPK ? HR_SHAPE_TOPK : HR_SHAPE_SCAN;
    bool contiguous = stage->row_count > 0;
    for (int i = 0; i < stage->step_count && contiguous; i++) {
        const hr_statement *statement = &function->statements[stage->steps[i].statement];
        bool element = stage->steps[i].kind == HR_STEP_ELEMENT && stage->steps[i].stored;
        if (element && statement->domain[statement->domain_count - 1] != hr_stage_lane(stage))
            contiguous = false;
    }
    if (!contiguous) return HR_SHAPE_GENERIC;
    if (hr_stage_has(stage, HR_STEP_REDUCE_ROW)) return HR_SHAPE_ROW;
    if (hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) || hr_stage_has(stage, HR_STEP_REDUCE_ALL))
        return HR_SHAPE_COLUMN;
    return HR_SHAPE_MAP;
}

const char *hr_shape_name(hr_shape shape) {
    static const char *const names[] = {"map",     "row",     "column", "contract", "dots",
                                        "scatter", "generic", "scan",   "topk"};
    return names[shape];
}

hr_status hr_pass_values(hr_graph *graph, hr_plan *plan) {
    valuing s = {.graph = graph, .function = graph->function};
    s.step_of = hr_memory_zeros((size_t)s.function->tensor_count + 1, sizeof *s.step_of);
    hr_status status = HR_OK;
    if (!s.step_of) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int i = 0; i < plan->stage_count && status == HR_OK; i++) {
        hr_stage *stage = &plan->stages[i];
        status = set_values(&s, stage);
        if (status == HR_OK) status = settle_passes(&s, stage);
        if (status == HR_OK) stage->shape = hr_stage_shape_of(s.function, stage);
    }
    free(s.step_of);
    return status == HR_OK ? hr_graph_status(graph) : status;
}
