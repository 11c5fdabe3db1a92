/* Regions: products with rows between them, as in attention, whose inner values need not all exist.
 * In: stages with values. Out: plan->regions, and `mask_bound`; where there is none, why (hr_stage.apart).
 *
 * Scores are as many as queries times keys, far more than what they are made from. Who takes a block of
 * queries through both products needs no scores but those of the block.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct attend {
    const hr_function *function;
    hr_plan *plan;
    int first, sums, last; /* stages: products first and from `sums` on; those between are rows or products */
    bool *before;          /* by tensor: read before the first block is done */
    bool *elsewhere;       /* by tensor: read by other stages */
    const char *why;       /* in words: what is in the way */
} attend;

static const hr_contract *scores_of(const attend *a) {
    return a->plan->stages[a->first].contract;
}

static const hr_statement *statement_of(const attend *a, const hr_step *step) {
    return &a->function->statements[step->statement];
}

/* The step before the sums that gives the tensor its values. */
static const hr_step *maker_of(const attend *a, int tensor) {
    for (int k = a->first; k < a->sums; k++)
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

/* The same, but in any order where a target takes rows for themselves. */
static bool are_rows_between(const attend *a, const int *indices, int count) {
    const hr_contract *c = scores_of(a);
    if (!hr_plan_knows(a->plan, HR_FACT_FEW_QUERIES)) return are_rows(c, indices, count);
    for (int i = 0; i < count; i++)
        if (!hr_indices_have(c->batch, c->batch_count, indices[i]) &&
            !hr_indices_have(c->m, c->m_count, indices[i]))
            return false;
    return count == c->batch_count + c->m_count;
}

/* Notes what is in the way, and says no. */
static bool refuse(attend *a, const char *why) {
    a->why = why;
    return false;
}

static bool multiplies(const attend *a, const hr_stage *stage) {
    return stage->shape == HR_SHAPE_CONTRACT && !stage->contract->group &&
           stage->contract->left->type == HR_F32 &&
           stage->contract->batch_count + stage->contract->m_count < HR_AXES_MAX &&
           !hr_plan_has_lists(a->plan);
}

static bool is_between(const attend *a, const hr_stage *stage) {
    const hr_contract *c = scores_of(a);
    if (stage->shape != HR_SHAPE_ROW || stage->row_count != 1 || stage->row[0] != c->n[0] ||
        !are_rows_between(a, stage->task, stage->task_count))
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

static bool same_indices(const int *a, int a_count, const int *b, int b_count) {
    return a_count == b_count && memcmp(a, b, (size_t)a_count * sizeof *a) == 0;
}

/* Another product over the same indices. */
static bool is_beside(const attend *a, const hr_stage *stage) {
    const hr_contract *c = scores_of(a), *other = stage->contract;
    return hr_plan_knows(a->plan, HR_FACT_SCORES_AGAIN) && multiplies(a, stage) &&
           same_indices(c->batch, c->batch_count, other->batch, other->batch_count) &&
           same_indices(c->m, c->m_count, other->m, other->m_count) &&
           same_indices(c->n, c->n_count, other->n, other->n_count);
}

/* It reads what the region's first sums make, which may be there for the rows in hand alone. */
static bool reads_sums(const attend *a, const hr_stage *stage) {
    for (int k = a->sums; k <= a->last; k++)
        for (int i = 0; i < a->plan->stages[k].step_count; i++) {
            const int tensor = statement_of(a, &a->plan->stages[k].steps[i])->tensor;
            bool reads =
                hr_expr_reads(stage->contract->left, tensor) || hr_expr_reads(stage->contract->right, tensor);
            for (int other = 0; other < stage->step_count && !reads; other++)
                reads = hr_expr_reads(stage->steps[other].value, tensor);
            if (reads) return true;
        }
    return false;
}

static int product_count(const attend *a) {
    int count = 0;
    for (int k = a->first; k <= a->last; k++)
        count += a->plan->stages[k].contract != NULL;
    return count;
}

/* Sums over columns follow the product at `first`, after some stages of rows or products or none. */
static bool find_stages(attend *a, int first) {
    const hr_plan *plan = a->plan;
    const bool several = hr_plan_knows(plan, HR_FACT_SCORES_AGAIN);
    a->first = first;
    if (!multiplies(a, &plan->stages[first]))
        return refuse(a, "scores in blocks are products of f32, without rows that choose their matrix");
    if (scores_of(a)->n_count != 1) return refuse(a, "keys have several indices");
    for (a->sums = first + 1; a->sums < plan->stage_count; a->sums++)
        if (!is_between(a, &plan->stages[a->sums]) && !is_beside(a, &plan->stages[a->sums])) break;
    if (a->sums == plan->stage_count || !ends(a, &plan->stages[a->sums]))
        return refuse(
            a, hr_arena_format(plan->arena,
                               "stage %d, which comes next, is neither rows over the same keys and queries "
                               "nor the product that sums over them",
                               a->sums < plan->stage_count ? a->sums + 1 : a->sums));
    for (a->last = a->sums; several && a->last + 1 < plan->stage_count; a->last++)
        if (!ends(a, &plan->stages[a->last + 1]) || reads_sums(a, &plan->stages[a->last + 1])) break;
    if (product_count(a) > HR_REGION_PRODUCTS_MOST) return refuse(a, "there are too many products");
    return true;
}

/* ---- what they make and read ---- */

static bool is_row_index(const attend *a, const hr_expr *node) {
    const hr_contract *c = scores_of(a);
    return node->op == HR_OP_INDEX && (hr_indices_have(c->batch, c->batch_count, node->index) ||
                                       hr_indices_have(c->m, c->m_count, node->index));
}

/* Each row has elements of its own. */
static bool has_all_row_indices(const attend *a, const hr_statement *made) {
    const int rows = scores_of(a)->batch_count + scores_of(a)->m_count;
    int found = 0;
    for (int i = 0; i < made->subscript_count; i++)
        found += is_row_index(a, made->subscripts[i]); /* those of a map are distinct */
    return found == rows;
}

/* And those of a row follow those of the row before. */
static bool begins_with_row(const attend *a, const hr_statement *made) {
    int indices[HR_AXES_MAX], rows = scores_of(a)->batch_count + scores_of(a)->m_count;
    for (int i = 0; i < rows; i++) {
        if (i >= made->subscript_count || made->subscripts[i]->op != HR_OP_INDEX) return false;
        indices[i] = made->subscripts[i]->index;
    }
    return are_rows_between(a, indices, rows);
}

/* Of what the stages make, just the row in hand is read. */
static hr_visit reads_other_rows(const hr_expr *node, const void *context) {
    const attend *a = context;
    const hr_step *maker = node->op == HR_OP_ELEMENT ? maker_of(a, node->tensor) : NULL;
    const hr_statement *made = maker ? statement_of(a, maker) : NULL;
    if (made && hr_element_is_checked(a->function, node)) return HR_VISIT_STOP;
    for (int i = 0; made && i < made->subscript_count; i++)
        if (is_row_index(a, made->subscripts[i]) &&
            (node->args[i]->op != HR_OP_INDEX || node->args[i]->index != made->subscripts[i]->index))
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

static bool reads_own_rows(const attend *a, const hr_expr *expr) {
    return !hr_expr_find(expr, reads_other_rows, a);
}

static bool stage_reads_own_rows(const attend *a, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (!reads_own_rows(a, stage->steps[i].value)) return false;
    return !stage->contract || reads_own_rows(a, stage->contract->left);
}

/* Sets `before` and `elsewhere`. */
static void mark_read(attend *a) {
    memset(a->before, 0, (size_t)a->function->tensor_count + 1);
    memset(a->elsewhere, 0, (size_t)a->function->tensor_count + 1);
    for (int k = a->first; k <= a->last; k++) {
        const hr_contract *product = a->plan->stages[k].contract;
        if (!product) continue;
        hr_expr_mark_read(product->right, a->before);
        if (k < a->sums) hr_expr_mark_read(product->left, a->before);
    }
    for (int k = 0; k < a->plan->stage_count; k++) {
        const hr_stage *stage = &a->plan->stages[k];
        if (k >= a->first && k <= a->last) continue;
        for (int i = 0; i < stage->step_count; i++) {
            const hr_statement *statement = statement_of(a, &stage->steps[i]);
            hr_expr_mark_read(stage->steps[i].value, a->elsewhere);
            for (int s = 0; s < statement->subscript_count; s++)
                hr_expr_mark_read(statement->subscripts[s], a->elsewhere);
        }
        for (int side = 0; stage->contract && side < 2; side++)
            hr_expr_mark_read(side ? stage->contract->right : stage->contract->left, a->elsewhere);
    }
}

/* A local or result that no other one shares its memory with. */
static bool is_own(const attend *a, const hr_step *step) {
    const hr_statement *made = statement_of(a, step);
    const hr_role role = a->function->tensors[made->tensor].role;
    for (int other = 0; other < a->function->tensor_count; other++)
        if (other != made->tensor && a->plan->storage[other] == a->plan->storage[made->tensor]) return false;
    return (role == HR_ROLE_LOCAL || role == HR_ROLE_RESULT) && made->store == HR_STORE_WHOLE &&
           !a->before[made->tensor] && has_all_row_indices(a, made);
}

/* Of it the block in hand is enough. */
static bool is_in_blocks(const attend *a, const hr_step *step) {
    const hr_statement *made = statement_of(a, step);
    return a->plan->materialised[made->tensor] && !a->elsewhere[made->tensor] &&
           a->function->tensors[made->tensor].role == HR_ROLE_LOCAL && begins_with_row(a, made);
}

static const char *tensor_name(const attend *a, const hr_step *step) {
    return a->function->tensors[statement_of(a, step)->tensor].name;
}

static bool make_own_rows(attend *a) {
    mark_read(a);
    for (int k = a->first; k < a->sums; k++)
        for (int i = 0; i < a->plan->stages[k].step_count; i++)
            if (!is_own(a, &a->plan->stages[k].steps[i]))
                return refuse(a, hr_arena_format(a->plan->arena,
                                                 "%.60s is not a row's own, or is read before the rows",
                                                 tensor_name(a, &a->plan->stages[k].steps[i])));
    for (int k = a->first; k <= a->last; k++)
        if (!stage_reads_own_rows(a, &a->plan->stages[k]))
            return refuse(a, hr_arena_format(a->plan->arena, "stage %d reads what other rows make", k + 1));
    return true;
}

static void record(attend *a) {
    hr_plan *plan = a->plan;
    size_t tensors = (size_t)a->function->tensor_count + 1;
    hr_region *region = &plan->regions[plan->region_count++];
    *region = (hr_region){a->first, a->last, a->sums, hr_arena_alloc(plan->arena, tensors)};
    memset(region->inner, 0, tensors);
    for (int k = a->first; k < a->sums; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const hr_step *step = &plan->stages[k].steps[i];
            region->inner[statement_of(a, step)->tensor] = is_in_blocks(a, step);
        }
    hr_mask_bound_find(plan, region, a->elsewhere);
}

/* Some later stage sums over the product's columns what follows from it. */
static bool are_scores(const attend *a, int first) {
    const hr_contract *c = a->plan->stages[first].contract;
    for (int k = first + 1; c && k < a->plan->stage_count; k++) {
        const hr_contract *other = a->plan->stages[k].contract;
        if (other && hr_indices_have(other->k, other->k_count, c->n[0]) &&
            !hr_indices_have(other->batch, other->batch_count, c->m[0]) &&
            hr_indices_have(other->m, other->m_count, c->m[0]))
            return true;
    }
    return false;
}

hr_status hr_pass_regions(const hr_graph *graph, hr_plan *plan) {
    attend a = {.function = graph->function, .plan = plan};
    size_t tensors = (size_t)a.function->tensor_count + 1;
    plan->regions = hr_arena_alloc(plan->arena, ((size_t)plan->stage_count + 1) * sizeof *plan->regions);
    a.before = hr_memory_take(2 * tensors * sizeof *a.before);
    a.elsewhere = a.before + tensors;
    hr_status status = HR_OK;
    if (!a.before) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    int done = -1;
    for (int k = 0; k < plan->stage_count && status == HR_OK; k++)
        if (find_stages(&a, k) && make_own_rows(&a)) {
            record(&a);
            done = a.last;
        } else if (k > done && are_scores(&a, k)) {
            plan->stages[k].apart = a.why;
        }
    free(a.before);
    if (status == HR_OK) hr_masked_sums_find(plan);
    return status;
}
