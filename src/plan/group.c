/* Statements are gathered into stages. In: a unified graph and numbers for extents. Out: plan->stages.
 *
 * A stage is a split of some indices into task indices (spread over threads) and row indices (walked inside a
 * task). For each split that a remaining statement suggests, the statements that fit it are counted in order;
 * the split with the best score becomes the next stage. What fits where is in step_fits().
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AHEAD = 64, SUGGESTERS = 12 };

typedef struct attempt {
    int task_count, row_count;
    int task[HR_AXES_MAX * 2], row[HR_AXES_MAX * 2];
    int step_count;
    hr_step steps[LOOK_AHEAD];
    double score;
} attempt;

/* What an attempt knows of a tensor that one of its steps defines. */
typedef struct in_stage {
    int step;  /* -1: not defined here */
    int ready; /* the first pass in which its value can be used */
} in_stage;

typedef struct grouper {
    hr_graph *graph;
    const hr_function *function;
    hr_plan *plan;
    int64_t *size;          /* of each index, in numbers */
    bool *done;             /* statement is in a stage */
    int *producer;          /* tensor -> the statement that defines it, -1 for parameters */
    in_stage *here;         /* by tensor */
    hr_contract **contract; /* of each statement that is a product of two tensors, else NULL */
    hr_contract **thin;     /* of those that are rows instead, see hr_contracts_part_thin(); else NULL */
    int remaining;
} grouper;

/* ---- statements ---- */

static bool is_reduction(const hr_statement *statement) {
    return hr_op_is_reduction(statement->value->op);
}
static const int *bound_of(const hr_statement *statement, int *count) {
    *count = is_reduction(statement) ? statement->value->bound_count : 0;
    return statement->value->bound;
}

/* ---- walking the elements of an expression ---- */

typedef struct element_walk {
    bool (*visit)(void *context, const hr_expr *element); /* false stops */
    void *context;
} element_walk;

static hr_visit visit_element(void *context, const hr_expr *node) {
    const element_walk *w = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT && !w->visit(w->context, node));
}

static bool walk_elements(grouper *g, const hr_statement *s, bool (*visit)(void *, const hr_expr *),
                          void *context) {
    element_walk w = {visit, context};
    hr_walk walk = {.enter = visit_element, .context = &w};
    bool stopped = hr_walk_through(&walk, s->value);
    for (int a = 0; a < s->subscript_count && !stopped; a++)
        stopped = hr_walk_through(&walk, s->subscripts[a]);
    if (hr_walk_end(&walk) != HR_OK) g->graph->full = true;
    return !stopped;
}

/* ---- does a statement fit a split? ---- */

typedef struct fit {
    grouper *g;
    const attempt *attempt;
    const hr_statement *statement;
    hr_step step;
    bool row_level; /* the step's value is one a task */
} fit;

static bool is_identity(const hr_expr *element, const hr_statement *producer) {
    for (int a = 0; a < producer->domain_count; a++)
        if (element->args[a]->op != HR_OP_INDEX || element->args[a]->index != producer->domain[a])
            return false;
    return true;
}

/* Is the element available to this step, and from which pass on? */
static bool element_fits(void *context, const hr_expr *element) {
    fit *f = context;
    grouper *g = f->g;
    int tensor = element->tensor, producer = g->producer[tensor];
    if (producer < 0 || g->done[producer]) return true;
    const in_stage *here = &g->here[tensor];
    if (here->step < 0) return false;
    const hr_step *made = &f->attempt->steps[here->step];
    bool per_row = made->kind == HR_STEP_ROW || made->kind == HR_STEP_REDUCE_ROW;
    if (!per_row && made->kind != HR_STEP_ELEMENT) return false;
    if (made->kind == HR_STEP_ELEMENT && f->row_level) return false;
    if (!is_identity(element, &g->function->statements[producer])) return false;
    if (here->ready > f->step.pass) f->step.pass = here->ready;
    return true;
}

static bool reads_old(void *context, const hr_expr *element) {
    return element->tensor != *(int *)context;
}

/* An inout may be written here when whoever reads its old elements is done, or reads just the one that is
 * replaced. */
typedef struct overwrite {
    int tensor;
    const hr_statement *writer;
} overwrite;

static bool reads_only_replaced(void *context, const hr_expr *element) {
    const overwrite *o = context;
    return element->tensor != o->tensor || is_identity(element, o->writer);
}

static bool overwrite_fits(grouper *g, const attempt *a, const hr_statement *statement) {
    int tensor = g->graph->storage[statement->tensor];
    if (tensor == statement->tensor) return true;
    overwrite o = {tensor, statement};
    for (int s = 0; s < g->function->statement_count; s++) {
        const hr_statement *other = &g->function->statements[s];
        if (g->done[s] || other == statement) continue;
        bool here = false;
        for (int i = 0; i < a->step_count; i++)
            here = here || a->steps[i].statement == s;
        bool fits = here ? walk_elements(g, other, reads_only_replaced, &o)
                         : walk_elements(g, other, reads_old, &tensor);
        if (!fits) return false;
    }
    return statement->store != HR_STORE_WHOLE || walk_elements(g, statement, reads_only_replaced, &o);
}

/* A value of a task that replaces what every thread of the task reads: the threads must have met in between.
 * They do where the row is reduced before; those of one task that is shared out never do. */
static bool meets_before(const grouper *g, const attempt *a, const hr_step *step) {
    const hr_statement *statement = &g->function->statements[step->statement];
    if (step->kind != HR_STEP_ROW || g->graph->storage[statement->tensor] == statement->tensor) return true;
    if (hr_plan_knows(g->plan, HR_FACT_THREAD_A_TASK)) return a->task_count > 0;
    for (int i = 0; i < a->step_count; i++)
        if (a->steps[i].kind == HR_STEP_REDUCE_ROW) return true;
    return false;
}

/* A reduction as a step of the attempt: along its rows, of all of it, or of its columns. */
static bool reduction_fits(fit *f, const int *all, int all_count) {
    const attempt *a = f->attempt;
    const hr_statement *s = f->statement;
    int bound_count;
    const int *bound = bound_of(s, &bound_count);
    f->step.reduce = s->value->op;
    bool arg = hr_op_finds_position(s->value->op);
    /* Positions are counted in the order in which the text names the indices. */
    bool along =
        arg ? bound_count == a->row_count && memcmp(bound, a->row, (size_t)bound_count * sizeof *bound) == 0
            : hr_indices_same(bound, bound_count, a->row, a->row_count);
    if (a->row_count && hr_indices_same(s->domain, s->domain_count, a->task, a->task_count) && along &&
        (a->task_count || (arg && hr_plan_knows(f->g->plan, HR_FACT_THREAD_A_TASK)))) {
        f->step.kind = HR_STEP_REDUCE_ROW;
        return true;
    }
    if (arg && (a->task_count || !along)) return false;
    if (s->domain_count == 0 && (hr_indices_same(bound, bound_count, all, all_count) ||
                                 hr_indices_same(bound, bound_count, a->task, a->task_count))) {
        f->step.kind = HR_STEP_REDUCE_ALL;
        f->row_level = !hr_indices_same(bound, bound_count, all, all_count);
        return true;
    }
    f->step.kind = HR_STEP_REDUCE_COLUMN;
    return a->task_count && a->row_count &&
           hr_indices_same(s->domain, s->domain_count, a->row, a->row_count) &&
           hr_indices_same(bound, bound_count, a->task, a->task_count);
}

static bool kind_fits(fit *f) {
    const attempt *a = f->attempt;
    const hr_statement *s = f->statement;
    int all_count = a->task_count + a->row_count, all[HR_AXES_MAX * 4];
    memcpy(all, a->task, (size_t)a->task_count * sizeof *all);
    memcpy(all + a->task_count, a->row, (size_t)a->row_count * sizeof *all);
    f->row_level = false;
    if (hr_op_is_ordered(s->value->op)) return false;
    if (s->store != HR_STORE_WHOLE) {
        f->step.kind = HR_STEP_SCATTER;
        return a->step_count == 0 && hr_indices_same(s->domain, s->domain_count, all, all_count);
    }
    if (is_reduction(s)) return reduction_fits(f, all, all_count);
    bool element = hr_indices_same(s->domain, s->domain_count, all, all_count);
    f->row_level = !element || a->row_count == 0;
    f->step.kind = element ? HR_STEP_ELEMENT : HR_STEP_ROW;
    return element || hr_indices_same(s->domain, s->domain_count, a->task, a->task_count);
}

/* An operand that a later stage makes as well, for which that reads nothing more. */
static bool waits(const grouper *g, int statement) {
    for (int s = 0; s < statement && hr_plan_knows(g->plan, HR_FACT_ROWS_KEPT); s++)
        if (!g->done[s] && g->here[g->function->statements[s].tensor].step < 0 &&
            hr_operand_is_summed_by(g->function, statement, s))
            return true;
    return false;
}

static bool step_fits(grouper *g, const attempt *a, int statement, hr_step *out) {
    fit f = {.g = g, .attempt = a, .statement = &g->function->statements[statement]};
    f.step.statement = statement;
    if (a->step_count && a->steps[0].kind == HR_STEP_SCATTER) return false;
    if (!kind_fits(&f)) return false;
    if (!walk_elements(g, f.statement, element_fits, &f)) return false;
    if (!overwrite_fits(g, a, f.statement) || !meets_before(g, a, &f.step)) return false;
    if (waits(g, statement)) return false;
    *out = f.step;
    return true;
}

/* ---- how good is a split? ---- */

typedef struct lane_count {
    int lane, rank_of_last;
    const hr_function *function;
    int contiguous, strided;
} lane_count;

static void count_subscripts(lane_count *c, hr_expr *const *subscripts, int rank) {
    for (int a = 0; a < rank; a++) {
        if (subscripts[a]->op != HR_OP_INDEX && !hr_expr_is_affine(subscripts[a])) continue;
        if (!hr_expr_has_index(subscripts[a], c->lane)) continue;
        if (a == rank - 1)
            c->contiguous++;
        else
            c->strided++;
    }
}

static bool count_element(void *context, const hr_expr *element) {
    lane_count *c = context;
    count_subscripts(c, element->args, c->function->tensors[element->tensor].rank);
    return true;
}

/* A lane that strides through an array costs a line of memory an element: whatever else a split gathers, it
 * is the last choice but for one without lanes. */
enum { STRIDED = 1000, NO_LANES = 1000000, ONE_THREAD = 50, SHORT_AXIS = 12, TRANSPOSED = 40 };

/* The last task index is a short axis of the text, which a map would write out if it were in the row. */
static bool parts_short_axis(const grouper *g, const attempt *a) {
    if (!a->task_count || !a->row_count || !hr_plan_knows(g->plan, HR_FACT_AXES_WRITTEN_OUT)) return false;
    const hr_expr *extent = g->function->indices[a->task[a->task_count - 1]].extent;
    return extent->op == HR_OP_NUMBER && extent->whole <= HR_WRITTEN_MOST;
}

/* What the shape of an attempt costs, whatever it computes. */
static int shape_cost(const grouper *g, const attempt *a, bool reduces_rows, bool strided) {
    const double rows = hr_indices_points(g->size, a->task, a->task_count),
                 row = hr_indices_points(g->size, a->row, a->row_count);
    int cost = a->row_count;
    if (!a->row_count) cost += a->task_count ? NO_LANES : 60;
    if (!a->task_count && a->row_count > 1 && hr_plan_knows(g->plan, HR_FACT_THREAD_A_TASK))
        cost += ONE_THREAD;
    if (row < 256 && rows > 1) cost += 20 + (row < 32 ? 20 : 0);
    if (reduces_rows) return cost + (rows < g->plan->limits.threads ? 15 : 0);
    if (parts_short_axis(g, a)) cost += SHORT_AXIS;
    if (strided && a->row_count > 1 && hr_plan_knows(g->plan, HR_FACT_TASKS_TRANSPOSED)) cost += TRANSPOSED;
    if (a->task_count && rows < 4 * g->plan->limits.threads) cost += 8;
    return cost;
}

static void score(grouper *g, attempt *a) {
    lane_count lanes = {.lane = a->row_count ? a->row[a->row_count - 1] : -1, .function = g->function};
    bool reduces_rows = false;
    a->score = 0;
    for (int i = 0; i < a->step_count; i++) {
        const hr_statement *s = &g->function->statements[a->steps[i].statement];
        a->score += 100;
        if (a->steps[i].kind == HR_STEP_REDUCE_ROW) reduces_rows = true;
        walk_elements(g, s, count_element, &lanes);
        count_subscripts(&lanes, s->subscripts, s->subscript_count);
    }
    a->score += 10 * lanes.contiguous - STRIDED * lanes.strided;
    a->score -= shape_cost(g, a, reduces_rows, lanes.strided > 0);
}

/* ---- splits ---- */

/* Sums of columns that are long are a stage of their own. */
static bool parts_from(const grouper *g, const attempt *a, hr_step_kind kind) {
    if (!a->step_count || !hr_columns_are_long(g->plan, hr_indices_points(g->size, a->row, a->row_count)))
        return false;
    return (a->steps[0].kind == HR_STEP_REDUCE_COLUMN) != (kind == HR_STEP_REDUCE_COLUMN);
}

static void gather_steps(grouper *g, attempt *a, bool unfused) {
    for (int t = 0; t < g->function->tensor_count; t++)
        g->here[t].step = -1;
    a->step_count = 0;
    int looked = 0;
    for (int s = 0; s < g->function->statement_count && looked < LOOK_AHEAD; s++) {
        if (g->done[s]) continue;
        looked++;
        hr_step step = {0};
        const hr_statement *statement = &g->function->statements[s];
        if (unfused && a->step_count) break;
        if (g->contract[s] || !step_fits(g, a, s, &step) || parts_from(g, a, step.kind)) {
            if (unfused) break;
            continue;
        }
        a->steps[a->step_count] = step;
        bool reduces = step.kind == HR_STEP_REDUCE_ROW;
        g->here[statement->tensor] = (in_stage){a->step_count++, step.pass + (reduces ? 1 : 0)};
    }
}

typedef struct ordering {
    const hr_function *function;
    int best_count, best[HR_AXES_MAX];
} ordering;

static void order_from(ordering *o, hr_expr *const *subscripts, int rank) {
    int plain[HR_AXES_MAX], count = 0;
    for (int a = 0; a < rank && count < HR_AXES_MAX; a++)
        if (subscripts[a]->op == HR_OP_INDEX) plain[count++] = subscripts[a]->index;
    if (count <= o->best_count) return;
    o->best_count = count;
    memcpy(o->best, plain, (size_t)count * sizeof *plain);
}

static bool order_from_element(void *context, const hr_expr *element) {
    ordering *o = context;
    order_from(o, element->args, o->function->tensors[element->tensor].rank);
    return true;
}

/* The statement's indices, outermost first, as its largest access has them, but those that a position is
 * counted along as they are named; returns how many. */
static int ordered_indices(grouper *g, const hr_statement *s, int *out) {
    ordering o = {.function = g->function};
    order_from(&o, s->subscripts, s->subscript_count);
    walk_elements(g, s, order_from_element, &o);
    int bound_count, count = 0;
    const int *bound = bound_of(s, &bound_count);
    for (int i = 0; i < s->domain_count; i++)
        if (!hr_indices_have(o.best, o.best_count, s->domain[i])) out[count++] = s->domain[i];
    bool arg = is_reduction(s) && hr_op_finds_position(s->value->op);
    for (int i = 0; i < bound_count && !arg; i++)
        if (!hr_indices_have(o.best, o.best_count, bound[i])) out[count++] = bound[i];
    for (int i = 0; i < o.best_count; i++)
        if (!hr_indices_have(out, count, o.best[i]) &&
            (hr_indices_have(s->domain, s->domain_count, o.best[i]) ||
             (!arg && hr_indices_have(bound, bound_count, o.best[i]))))
            out[count++] = o.best[i];
    for (int i = 0; i < bound_count && arg; i++)
        out[count++] = bound[i];
    return count;
}

/* The few go last: tasks side by side then read the same rows of the other operand. A
 * single one goes first where the row of the next task is prefetched: that is the next row then. */
static void place_few(const grouper *g, const hr_contract *thin, int *order, int count) {
    int sorted[HR_AXES_MAX * 2], placed = 0;
    const double m = hr_indices_points(g->size, thin->m, thin->m_count),
                 n = hr_indices_points(g->size, thin->n, thin->n_count);
    const int *few = m < n ? thin->m : thin->n, few_count = m < n ? thin->m_count : thin->n_count;
    const bool one = fmin(m, n) <= 1 && hr_plan_knows(g->plan, HR_FACT_NEXT_TASK_AHEAD);
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < count; i++)
            if (hr_indices_have(few, few_count, order[i]) == (one ? last == 0 : last == 1))
                sorted[placed++] = order[i];
    memcpy(order, sorted, (size_t)count * sizeof *order);
}

static void consider(grouper *g, attempt *a, attempt *best, bool unfused) {
    gather_steps(g, a, unfused);
    if (!a->step_count) return;
    score(g, a);
    if (!best->step_count || a->score > best->score) *best = *a;
}

static void add_split(attempt *a, const int *order, int count, const int *task, int task_count) {
    a->task_count = a->row_count = 0;
    for (int i = 0; i < count; i++) {
        if (hr_indices_have(task, task_count, order[i]))
            a->task[a->task_count++] = order[i];
        else
            a->row[a->row_count++] = order[i];
    }
}

static void consider_splits_of(grouper *g, const hr_statement *s, attempt *a, attempt *best, bool unfused) {
    int order[HR_AXES_MAX * 2], count = ordered_indices(g, s, order), bound_count;
    const int *bound = bound_of(s, &bound_count);
    const hr_contract *thin = g->thin[s - g->function->statements];
    if (thin) place_few(g, thin, order, count);
    for (int cut = 0; cut <= count; cut++) {
        add_split(a, order, count, order, cut);
        consider(g, a, best, unfused);
    }
    if (!bound_count) return;
    add_split(a, order, count, s->domain, s->domain_count);
    consider(g, a, best, unfused);
    add_split(a, order, count, bound, bound_count);
    consider(g, a, best, unfused);
}

/* ---- stages ---- */

static hr_stage *add_stage(grouper *g, const attempt *a) {
    hr_arena *arena = g->graph->arena;
    hr_stage *stage = &g->plan->stages[g->plan->stage_count++];
    stage->task_count = a->task_count;
    stage->row_count = a->row_count;
    stage->task = hr_arena_alloc(arena, sizeof a->task);
    stage->row = hr_arena_alloc(arena, sizeof a->row);
    memcpy(stage->task, a->task, sizeof a->task);
    memcpy(stage->row, a->row, sizeof a->row);
    stage->step_count = a->step_count;
    stage->steps = hr_arena_alloc(arena, (size_t)(a->step_count + 1) * sizeof *stage->steps);
    memcpy(stage->steps, a->steps, (size_t)a->step_count * sizeof *stage->steps);
    for (int i = 0; i < a->step_count; i++) {
        g->done[a->steps[i].statement] = true;
        g->remaining--;
    }
    return stage;
}

/* The product of statement `e` goes into the walk of `contract`, whose left operand it shares. False where it
 * cannot. */
static bool stack_contract(grouper *g, attempt *a, hr_contract *contract, int e) {
    const hr_statement *s = &g->function->statements[e];
    const hr_contract *other = g->contract[e];
    fit f = {.g = g, .attempt = a, .statement = s};
    if (!hr_plan_knows(g->plan, HR_FACT_STACKED_PRODUCTS) || !other ||
        !hr_contracts_stack(g->function, &g->plan->facts, g->size, contract, other) ||
        !walk_elements(g, s, element_fits, &f) || !overwrite_fits(g, a, s))
        return false;
    contract->stacked[contract->stacked_count++] = (hr_stacked){other->product, other->right};
    g->here[s->tensor].step = a->step_count;
    a->steps[a->step_count++] =
        (hr_step){.statement = e, .kind = HR_STEP_ELEMENT, .reduce = HR_OP_REDUCE_SUM};
    return true;
}

/* A sum over neighbours of what the product's stage makes. */
static bool take_partial(grouper *g, attempt *a, int e) {
    const hr_statement *s = &g->function->statements[e];
    const hr_partial *partial = hr_partial_of(g->graph, s->tensor);
    if (!partial) return false;
    const hr_statement body = {.value = partial->body};
    fit f = {.g = g, .attempt = a, .statement = &body};
    if (!walk_elements(g, &body, element_fits, &f)) return false;
    a->steps[a->step_count++] = (hr_step){.statement = e, .kind = HR_STEP_PARTIAL, .reduce = s->value->op};
    return true;
}

/* A product is ready when all that it reads is done; maps over its domain that read it join as its epilogue.
 */
static bool take_contract(grouper *g, attempt *a, bool unfused) {
    for (int t = 0; t < g->function->tensor_count; t++)
        g->here[t].step = -1;
    int first = 0;
    while (g->done[first])
        first++;
    const hr_statement *s = &g->function->statements[first];
    const hr_contract *contract = g->contract[first];
    if (!contract) return false;
    *a = (attempt){0};
    fit f = {.g = g, .attempt = a, .statement = s};
    if (!walk_elements(g, s, element_fits, &f) || !overwrite_fits(g, a, s)) return false;
    memcpy(a->task, contract->batch, (size_t)contract->batch_count * sizeof(int));
    a->task_count = contract->batch_count;
    memcpy(a->task + a->task_count, contract->m, (size_t)contract->m_count * sizeof(int));
    a->task_count += contract->m_count;
    memcpy(a->row, contract->n, (size_t)contract->n_count * sizeof(int));
    a->row_count = contract->n_count;
    a->steps[a->step_count++] =
        (hr_step){.statement = first, .kind = HR_STEP_ELEMENT, .reduce = HR_OP_REDUCE_SUM};
    g->here[s->tensor].step = 0;
    for (int e = first + 1; e < g->function->statement_count && a->step_count < LOOK_AHEAD && !unfused; e++) {
        const hr_statement *other = &g->function->statements[e];
        hr_step step = {0};
        if (!g->done[e] && (stack_contract(g, a, g->contract[first], e) || take_partial(g, a, e))) continue;
        if (g->done[e] || other->store != HR_STORE_WHOLE || is_reduction(other) || !step_fits(g, a, e, &step))
            continue;
        if (step.kind != HR_STEP_ELEMENT) continue;
        g->here[other->tensor].step = a->step_count;
        a->steps[a->step_count++] = step;
    }
    hr_stage *stage = add_stage(g, a);
    stage->contract = g->contract[first];
    return true;
}

/* What goes along an axis in order is a stage of its own: its tasks are the other indices. */
static bool take_ordered(grouper *g, attempt *a) {
    int first = 0;
    while (g->done[first])
        first++;
    const hr_statement *s = &g->function->statements[first];
    const int along = hr_ordered_along(s->value);
    const hr_step step = {.statement = first, .kind = HR_STEP_ORDERED, .reduce = s->value->op};
    if (along < 0) return false;
    *a = (attempt){.row_count = 1, .row = {s->value->bound[0]}, .step_count = 1, .steps = {step}};
    for (int i = 0; i < s->domain_count; i++)
        if (s->domain[i] != along) a->task[a->task_count++] = s->domain[i];
    return add_stage(g, a) != NULL;
}

static void take_best_split(grouper *g, attempt *a, attempt *best, bool unfused) {
    best->step_count = 0;
    int suggested = 0;
    for (int s = 0; s < g->function->statement_count && suggested < SUGGESTERS; s++) {
        if (g->done[s]) continue;
        suggested++;
        consider_splits_of(g, &g->function->statements[s], a, best, unfused);
        if (unfused) break;
    }
    if (best->step_count) add_stage(g, best);
}

static hr_status group_all(grouper *g, bool unfused) {
    attempt *attempts = hr_memory_zeros(2, sizeof *attempts);
    if (!attempts) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    hr_status status = HR_OK;
    while (g->remaining && status == HR_OK && !g->graph->full) {
        int before = g->remaining;
        if (!take_ordered(g, &attempts[0]) && !take_contract(g, &attempts[0], unfused))
            take_best_split(g, &attempts[0], &attempts[1], unfused);
        if (g->remaining == before)
            status = hr_fail(HR_INTERNAL, "no stage fits a statement of kernel %.60s", g->function->name);
    }
    free(attempts);
    return status;
}

/* ---- the pass ---- */

static hr_status find_contracts(grouper *g, const int64_t *extents) {
    hr_arena *arena = g->graph->arena;
    const int count = g->function->statement_count;
    const unsigned facts = g->plan->facts.set;
    g->contract = hr_arena_alloc(arena, ((size_t)count + 1) * sizeof *g->contract);
    g->thin = hr_arena_alloc(arena, ((size_t)count + 1) * sizeof *g->thin);
    for (int s = 0; s < count; s++) {
        hr_contract found;
        const hr_statement *of = &g->function->statements[s];
        if (hr_dots_have(g->graph, g->plan, of) || !hr_contract_match(g->graph, of, facts, &found)) continue;
        g->contract[s] = hr_arena_alloc(arena, sizeof found);
        *g->contract[s] = found;
        HR_TRY(hr_graph_status(g->graph));
    }
    hr_contracts_part_thin(g->function, &g->plan->facts, extents, g->size, g->contract, g->thin);
    return HR_OK;
}

/* Numbers for the indices, who defines what, which statements are products. */
static hr_status survey(grouper *g, const int64_t *extents) {
    const hr_function *function = g->function;
    for (int i = 0; i < function->index_count; i++)
        HR_TRY(hr_extent_value(function, function->indices[i].extent, extents, &g->size[i]));
    for (int t = 0; t < function->tensor_count; t++)
        g->producer[t] = -1;
    for (int s = 0; s < function->statement_count; s++)
        g->producer[function->statements[s].tensor] = s;
    return find_contracts(g, extents);
}

hr_status hr_pass_group(hr_graph *graph, const int64_t *extents, hr_plan *plan, bool unfused) {
    const hr_function *function = graph->function;
    size_t statements = (size_t)function->statement_count + 1, tensors = (size_t)function->tensor_count + 1;
    grouper g = {.graph = graph, .function = function, .plan = plan, .remaining = function->statement_count};
    size_t need = statements * (sizeof *plan->stages + 1024) + statements * LOOK_AHEAD * sizeof(hr_step);
    if (hr_arena_room(graph->arena) < need + HR_PLAN_RESERVE) graph->full = true;
    HR_TRY(hr_graph_status(graph));
    plan->stages = hr_arena_alloc(graph->arena, statements * sizeof *plan->stages);
    plan->materialised = hr_arena_alloc(graph->arena, tensors);
    plan->storage = graph->storage;
    g.size = hr_memory_zeros((size_t)function->index_count + 1, sizeof *g.size);
    g.done = hr_memory_zeros(statements, sizeof *g.done);
    g.producer = hr_memory_zeros(tensors, sizeof *g.producer);
    g.here = hr_memory_zeros(tensors, sizeof *g.here);
    hr_status status = HR_OK;
    if (!g.size || !g.done || !g.producer || !g.here)
        status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning kernel %.60s", function->name);
    if (status == HR_OK) status = survey(&g, extents);
    if (status == HR_OK) status = group_all(&g, unfused);
    free(g.size);
    free(g.done);
    free(g.producer);
    free(g.here);
    return status;
}
