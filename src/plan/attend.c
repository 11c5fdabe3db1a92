/* Two products with rows between them, as in attention: on a CPU a block of rows goes through all before the
 * next block does. In: scheduled stages. Out: `joins`, `in_blocks`, `reach`.
 *
 * Scores are as many as queries times keys, far more than what they are made from. A thread that takes a block
 * of queries through both products has its scores in cache between them, and no others are ever in memory.
 */
#include "base/dtype.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct attend {
    const hr_function *function;
    hr_plan *plan;
    int first, last; /* stages: products; those between are rows */
    bool *visited;   /* by expr id */
    bool *read;      /* by tensor */
} attend;

static const hr_contract *scores_of(const attend *a) {
    return a->plan->stages[a->first].contract;
}

static const hr_statement *statement_of(const attend *a, const hr_step *step) {
    return &a->function->statements[step->statement];
}

/* The step before the last product that gives the tensor its values. */
static const hr_step *maker_of(const attend *a, int tensor) {
    for (int k = a->first; k < a->last; k++)
        for (int i = 0; i < a->plan->stages[k].step_count; i++)
            if (statement_of(a, &a->plan->stages[k].steps[i])->tensor == tensor)
                return &a->plan->stages[k].steps[i];
    return NULL;
}

/* ---- which stages ---- */

/* The indices are those of a product's batches and rows, in this order. */
static bool are_rows(const hr_contract *c, const int *indices, int count) {
    if (count != c->batch_count + c->m_count) return false;
    for (int i = 0; i < count; i++)
        if (indices[i] != (i < c->batch_count ? c->batch[i] : c->m[i - c->batch_count])) return false;
    return true;
}

static bool multiplies(const attend *a, const hr_stage *stage) {
    return stage->shape == HR_SHAPE_CONTRACT && stage->contract->left->type == HR_F32 &&
           stage->contract->batch_count + stage->contract->m_count < HR_AXES_MAX &&
           !hr_plan_has_lists(a->plan);
}

static bool is_between(const attend *a, const hr_stage *stage) {
    const hr_contract *c = scores_of(a);
    if (stage->shape != HR_SHAPE_ROW || (!stage->vector && !a->plan->limits.compute) || stage->row_count != 1 || stage->row[0] != c->n[0] ||
        stage->gathered || !are_rows(c, stage->task, stage->task_count))
        return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step_kind kind = stage->steps[i].kind;
        if (kind != HR_STEP_ELEMENT && kind != HR_STEP_ROW && kind != HR_STEP_REDUCE_ROW) return false;
    }
    return true;
}

static bool ends(const attend *a, const hr_stage *stage) {
    const hr_contract *c = scores_of(a), *values = stage->contract;
    int rows[HR_AXES_MAX];
    if (!multiplies(a, stage) || values->batch_count != c->batch_count || values->k_count != 1 ||
        values->k[0] != c->n[0])
        return false;
    for (int i = 0; i < values->batch_count + values->m_count; i++)
        rows[i] = i < values->batch_count ? values->batch[i] : values->m[i - values->batch_count];
    return are_rows(c, rows, values->batch_count + values->m_count);
}

/* Some stage of rows and a product follow the one at `first`. */
static bool find_stages(attend *a, int first) {
    const hr_plan *plan = a->plan;
    a->first = a->last = first;
    if (!multiplies(a, &plan->stages[first]) || scores_of(a)->n_count != 1) return false;
    do
        a->last++;
    while (a->last < plan->stage_count && is_between(a, &plan->stages[a->last]));
    return a->last > first + 1 && a->last < plan->stage_count && ends(a, &plan->stages[a->last]);
}

/* ---- what they make and read ---- */

/* The subscripts begin with those of a row. */
static bool begins_with_row(const attend *a, hr_expr *const *subscripts, int count) {
    int indices[HR_AXES_MAX], rows = scores_of(a)->batch_count + scores_of(a)->m_count;
    for (int i = 0; i < rows; i++) {
        if (i >= count || subscripts[i]->op != HR_OP_INDEX) return false;
        indices[i] = subscripts[i]->index;
    }
    return are_rows(scores_of(a), indices, rows);
}

/* Of what the stages make, just the row in hand is read. */
static bool reads_own_rows(attend *a, const hr_expr *node) {
    if (a->visited[node->id]) return true;
    a->visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT && maker_of(a, node->tensor)) {
        if (!begins_with_row(a, node->args, node->arg_count) || hr_element_is_checked(a->function, node))
            return false;
    }
    for (int i = 0; i < node->arg_count; i++)
        if (!reads_own_rows(a, node->args[i])) return false;
    return true;
}

static bool stage_reads_own_rows(attend *a, const hr_stage *stage) {
    memset(a->visited, 0, (size_t)a->function->expr_count + 1);
    for (int i = 0; i < stage->step_count; i++)
        if (!reads_own_rows(a, stage->steps[i].value)) return false;
    return !stage->contract || reads_own_rows(a, stage->contract->left);
}

static void mark_stage(attend *a, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_statement *statement = statement_of(a, &stage->steps[i]);
        hr_expr_mark_read(stage->steps[i].value, a->visited, a->read);
        for (int s = 0; s < statement->subscript_count; s++)
            hr_expr_mark_read(statement->subscripts[s], a->visited, a->read);
    }
}

/* Sets `read` for what the stages may not make: other stages read it, or the right operand of the last. */
static void mark_read_elsewhere(attend *a) {
    memset(a->visited, 0, (size_t)a->function->expr_count + 1);
    memset(a->read, 0, (size_t)a->function->tensor_count + 1);
    for (int k = 0; k < a->plan->stage_count; k++) {
        const hr_stage *stage = &a->plan->stages[k];
        bool own = k >= a->first && k <= a->last;
        if (!own) mark_stage(a, stage);
        if (stage->contract) hr_expr_mark_read(stage->contract->right, a->visited, a->read);
        if (stage->contract && k != a->last) hr_expr_mark_read(stage->contract->left, a->visited, a->read);
    }
}

static bool is_own(const attend *a, const hr_step *step) {
    const hr_statement *made = statement_of(a, step);
    int t = made->tensor;
    for (int other = 0; other < a->function->tensor_count; other++)
        if (other != t && a->plan->storage[other] == a->plan->storage[t]) return false;
    return a->function->tensors[t].role == HR_ROLE_LOCAL && a->plan->storage[t] == t && !made->accumulate &&
           !a->read[t] && begins_with_row(a, made->subscripts, made->subscript_count);
}

static bool make_own_rows(attend *a) {
    mark_read_elsewhere(a);
    for (int k = a->first; k < a->last; k++)
        for (int i = 0; i < a->plan->stages[k].step_count; i++)
            if (!is_own(a, &a->plan->stages[k].steps[i])) return false;
    for (int k = a->first; k <= a->last; k++)
        if (!stage_reads_own_rows(a, &a->plan->stages[k])) return false;
    return true;
}

static void join(attend *a) {
    for (int k = a->first; k <= a->last; k++) {
        hr_stage *stage = &a->plan->stages[k];
        stage->joins = k > a->first;
        stage->skew = stage->few = stage->ragged = stage->backward = false;
        stage->group = stage->abreast = 0;
        if (stage->joins)
            stage->why = hr_arena_format(a->plan->arena, "%s; each block of rows right after stage %d's%s",
                                         stage->why, k,
                                         a->plan->stages[a->first].reach ? ", up to where its mask ends" : "");
        for (int i = 0; i < stage->step_count && k < a->last; i++) {
            int t = statement_of(a, &stage->steps[i])->tensor;
            a->plan->in_blocks[t] = a->plan->materialised[t];
        }
    }
}

hr_status hr_pass_attend(const hr_graph *graph, hr_plan *plan) {
    attend a = {.function = graph->function, .plan = plan};
    size_t tensors = (size_t)a.function->tensor_count + 1;
    plan->in_blocks = hr_arena_alloc(plan->arena, tensors * sizeof *plan->in_blocks);
    memset(plan->in_blocks, 0, tensors * sizeof *plan->in_blocks);
    a.visited = malloc(((size_t)a.function->expr_count + 1) * sizeof *a.visited);
    a.read = malloc(tensors * sizeof *a.read);
    hr_status status = HR_OK;
    if (!a.visited || !a.read) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int k = 0; k < plan->stage_count && status == HR_OK; k++) {
        if (!find_stages(&a, k) || !make_own_rows(&a)) continue;
        hr_reach_find(plan, a.first, a.last);
        if (!plan->limits.compute && plan->tunables.group != 1) join(&a);
        k = a.last;
    }
    free(a.visited);
    free(a.read);
    return status;
}
