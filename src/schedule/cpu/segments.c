/* Values that change their form along an axis: 4-bit weights of which a byte holds two, a scale for each 32
 * of them. In: the products and sums of a plan. Out: for such an operand, or such sums, what they are in each
 * 16 of a run of elements, as expressions of their own.
 *
 * In a run, `k // 32` is one number, `i % 16` the lane itself and `i < 16` known: what is the same for all of
 * the run is computed once, and what remains are rows and shifts. What is not a whole run keeps its own
 * expression.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/fold.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>

enum { RUN_MOST = 256, RUN_USUAL = 32, NUMBER_MOST = 1 << 30 };

/* by_run * run's number + number + rest, with 0 <= rest <= most; rest: NULL = 0. */
typedef struct form {
    bool known;
    int64_t by_run, number, most;
    hr_expr *rest;
} form;

typedef struct rewriting {
    hr_graph *graph;
    int index;      /* along k, of the operand */
    int run, group; /* group: index of the run's number, -1 where the index counts within a run */
    int lane;       /* index of the place in a segment */
    int64_t from;   /* where the segment begins in its run */
    int known;      /* expressions before this pass: entries of the tables by id */
    hr_expr **memo;
    form *forms;
} rewriting;

/* ---- places along k ---- */

static hr_expr *expr_of(rewriting *w, const form *f) {
    hr_graph *graph = w->graph;
    hr_expr *sum = NULL;
    if (f->by_run) {
        sum = hr_graph_index_value(graph, w->group);
        if (f->by_run != 1)
            sum = hr_graph_binary(graph, HR_OP_MUL, HR_I64, sum, hr_graph_whole(graph, f->by_run));
    }
    if (f->number || (!sum && !f->rest)) {
        hr_expr *number = hr_graph_whole(graph, f->number);
        sum = sum ? hr_graph_binary(graph, HR_OP_ADD, HR_I64, sum, number) : number;
    }
    if (!f->rest) return sum;
    return sum ? hr_graph_binary(graph, HR_OP_ADD, HR_I64, sum, f->rest) : f->rest;
}

static form number_form(int64_t number) {
    return (form){.known = number > -NUMBER_MOST && number < NUMBER_MOST, .number = number};
}

static form sum_of(rewriting *w, const form *a, const form *b, int sign) {
    form f = {0};
    if (b->rest && (a->rest || sign < 0)) return f;
    f = number_form(a->number + sign * b->number);
    f.by_run = a->by_run + sign * b->by_run;
    f.rest = a->rest ? a->rest : b->rest;
    f.most = a->rest ? a->most : b->most;
    f.known = f.known && (w->group >= 0 || !f.by_run) && number_form(f.by_run).known;
    return f;
}

static form product_of(rewriting *w, const form *a, const form *b) {
    const form *number = !b->by_run && !b->rest ? b : a, *other = number == b ? a : b;
    if (number->by_run || number->rest || number->number < 1) return (form){0};
    form f = number_form(other->number * number->number);
    f.by_run = other->by_run * number->number;
    f.most = other->most * number->number;
    f.known = f.known && number_form(f.by_run).known && number_form(f.most).known;
    if (other->rest)
        f.rest = hr_graph_binary(w->graph, HR_OP_MUL, HR_I64, other->rest,
                                 hr_graph_whole(w->graph, number->number));
    return f;
}

static int64_t remainder_of(int64_t a, int64_t b) {
    return (a % b + b) % b;
}

/* By a number above 0, where run after run begins at a multiple of it. */
static form divided(rewriting *w, const form *a, int64_t by, bool quotient) {
    const int64_t left = remainder_of(a->number, by);
    if (a->by_run % by) return (form){0};
    form f = number_form(quotient ? (a->number - left) / by : left);
    f.by_run = quotient ? a->by_run / by : 0;
    if (left + a->most < by) {
        f.rest = quotient ? NULL : a->rest;
        f.most = quotient ? 0 : a->most;
        return f;
    }
    if (left || quotient) return (form){0}; /* a quotient of lanes stays one of the whole place */
    f.rest = hr_graph_binary(w->graph, HR_OP_MOD, HR_I64, a->rest, hr_graph_whole(w->graph, by));
    f.most = by - 1;
    return f;
}

static form form_of(rewriting *w, const hr_expr *node, const form *a, const form *b) {
    if (node->type != HR_I64 || !a->known || !b->known) return (form){0};
    switch (node->op) {
    case HR_OP_ADD:
        return sum_of(w, a, b, 1);
    case HR_OP_SUB:
        return sum_of(w, a, b, -1);
    case HR_OP_MUL:
        return product_of(w, a, b);
    case HR_OP_FLOORDIV:
    case HR_OP_MOD:
        if (b->by_run || b->rest || b->number < 1) return (form){0};
        return divided(w, a, b->number, node->op == HR_OP_FLOORDIV);
    default:
        return (form){0};
    }
}

static int known(bool holds, bool fails) {
    return holds ? 1 : fails ? 0 : -1;
}

/* 1, 0: the comparison holds, or does not, wherever the segment is; -1 = that is not known. */
static int compared(const hr_expr *node, const form *a, const form *b) {
    if (!a->known || !b->known || a->by_run != b->by_run) return -1;
    const int64_t low = a->number - b->number - b->most, high = a->number - b->number + a->most;
    const bool apart = low > 0 || high < 0, equal = low == 0 && high == 0;
    switch (node->op) {
    case HR_OP_LT:
        return known(high < 0, low >= 0);
    case HR_OP_LE:
        return known(high <= 0, low > 0);
    case HR_OP_GT:
        return known(low > 0, high <= 0);
    case HR_OP_GE:
        return known(low >= 0, high < 0);
    case HR_OP_EQ:
        return known(equal, apart);
    case HR_OP_NE:
        return known(apart, equal);
    default:
        return -1;
    }
}

/* ---- values ---- */

static hr_expr *truth(hr_graph *graph, bool value) {
    return hr_graph_intern(graph, &(hr_expr){.op = HR_OP_NUMBER, .type = HR_BOOL, .whole = value});
}

static bool is_safe(const hr_graph *graph, const hr_expr *element) {
    const hr_tensor *tensor = &graph->function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++)
        if (!hr_subscript_is_safe(graph->function, element->args[a], tensor->shape[a])) return false;
    return true;
}

/* What was compared with its axes as the kernel runs still is: a condition that always holds says so. */
static hr_expr *element_of(hr_graph *graph, const hr_expr *node, hr_expr **args) {
    const int rank = graph->function->tensors[node->tensor].rank;
    const bool checked = hr_element_is_checked(graph->function, node);
    const bool chosen = node->arg_count == rank || (args[rank]->op == HR_OP_NUMBER && args[rank]->whole);
    if (!chosen) return hr_graph_element(graph, node->tensor, rank + 1, args);
    hr_expr *plain = hr_graph_element(graph, node->tensor, rank, args);
    if (!checked || is_safe(graph, plain) || hr_element_is_checked(graph->function, plain)) return plain;
    args[rank] = truth(graph, true);
    return hr_graph_element(graph, node->tensor, rank + 1, args);
}

static hr_expr *rewritten(rewriting *w, hr_expr *node, form *out);

static hr_expr *rewrite(rewriting *w, hr_expr *node, form *out) {
    form forms[HR_AXES_MAX + 2] = {{0}};
    hr_expr *args[HR_AXES_MAX + 2];
    if (node->op == HR_OP_INDEX && node->index == w->index) {
        *out = (form){.known = true,
                      .by_run = w->group >= 0 ? w->run : 0,
                      .number = w->from,
                      .most = HR_SEGMENT - 1,
                      .rest = hr_graph_index_value(w->graph, w->lane)};
        return expr_of(w, out);
    }
    if (node->op == HR_OP_NUMBER && node->type == HR_I64) *out = number_form(node->whole);
    if (!node->arg_count) return node;
    for (int i = 0; i < node->arg_count; i++)
        args[i] = rewritten(w, node->args[i], &forms[i]);
    if (node->op == HR_OP_ELEMENT) return element_of(w->graph, node, args);
    if (node->arg_count == 2) {
        *out = form_of(w, node, &forms[0], &forms[1]);
        if (out->known) return expr_of(w, out);
        const int holds = node->type == HR_BOOL ? compared(node, &forms[0], &forms[1]) : -1;
        if (holds >= 0) return truth(w->graph, holds);
    }
    return hr_fold(w->graph, node, args);
}

static hr_expr *rewritten(rewriting *w, hr_expr *node, form *out) {
    if (!w->memo[node->id]) {
        form found = {0};
        hr_expr *result = rewrite(w, node, &found);
        w->memo[node->id] = result;
        w->forms[node->id] = found;
    }
    *out = w->forms[node->id];
    return w->memo[node->id];
}

static hr_expr *segment_of(const rewriting *in, hr_expr *value) {
    rewriting w = *in;
    form unused;
    w.known = w.graph->function->expr_count;
    w.memo = hr_memory_zeros((size_t)w.known + 1, sizeof(hr_expr *));
    w.forms = hr_memory_zeros((size_t)w.known + 1, sizeof *w.forms);
    hr_expr *result = w.graph->placeholder;
    if (w.memo && w.forms)
        result = rewritten(&w, value, &unused);
    else
        w.graph->full = true;
    free(w.memo);
    free(w.forms);
    return result;
}

/* ---- which operands ---- */

typedef struct question {
    int index;
    bool asks;       /* what the element is depends on where its index is */
    int64_t divisor; /* the largest that a run may be as long as */
} question;

static hr_visit ask(void *context, const hr_expr *node) {
    question *q = context;
    const hr_expr *a = node->arg_count == 2 ? node->args[0] : NULL;
    if (a && a->op == HR_OP_INDEX && a->index == q->index && node->args[1]->op == HR_OP_NUMBER &&
        node->args[1]->type == HR_I64) {
        const int64_t number = node->args[1]->whole;
        const bool divides = node->op == HR_OP_FLOORDIV || node->op == HR_OP_MOD;
        if (divides && number > q->divisor && number % HR_SEGMENT == 0 && number <= RUN_MOST)
            q->divisor = number;
        q->asks = q->asks || (divides && number > 1) || node->type == HR_BOOL;
    }
    return HR_VISIT_ON;
}

/* The values that are asked for, along which index, and how long that is. `inner`: runs of it lie one after
 * the other in the loop over its group. */
typedef struct walked_values {
    hr_expr *const *values;
    int count, index;
    int64_t extent;
    bool inner;
} walked_values;

static bool is_within(const walked_values *walked, bool literal) {
    return (literal || walked->inner) && walked->extent <= RUN_MOST;
}

/* How long a run is; 0 = the values are the same everywhere. */
static void run_of(const walked_values *walked, bool within, int *run) {
    question q = {.index = walked->index};
    for (int i = 0; i < walked->count; i++)
        hr_expr_visit(walked->values[i], ask, &q);
    if (within)
        *run = (q.asks || walked->inner) && walked->extent % HR_SEGMENT == 0 ? (int)walked->extent : 0;
    else if (q.asks)
        *run = q.divisor ? (int)q.divisor : RUN_USUAL;
}

static hr_status find(hr_graph *graph, const int64_t *extents, walked_values walked, hr_segments *out) {
    int run = 0;
    hr_expr *extent = graph->function->indices[walked.index].extent;
    *out = (hr_segments){.group = -1};
    HR_TRY(hr_extent_value(graph->function, extent, extents, &walked.extent));
    const bool within = is_within(&walked, extent->op == HR_OP_NUMBER);
    run_of(&walked, within, &run);
    if (!run) return HR_OK;
    rewriting w = {.graph = graph, .index = walked.index, .run = run, .group = -1};
    if (!within)
        w.group = hr_graph_add_index(
            graph, hr_arena_format(graph->arena, "%ds", run), /* no name that a text can have */
            hr_graph_binary(graph, HR_OP_FLOORDIV, HR_I64, extent, hr_graph_whole(graph, run)));
    w.lane = hr_graph_add_index(graph, "place", hr_graph_whole(graph, HR_SEGMENT));
    *out = (hr_segments){.run = run, .group = w.group, .lane = w.lane, .count = walked.count};
    const int values = run / HR_SEGMENT * walked.count;
    out->value = hr_arena_alloc(graph->arena, (size_t)(values + 1) * sizeof(hr_expr *));
    for (int i = 0; i < values; i++) {
        w.from = i / walked.count * HR_SEGMENT;
        out->value[i] = segment_of(&w, walked.values[i % walked.count]);
    }
    return hr_graph_status(graph);
}

/* ---- sums of rows ---- */

/* One pass that does nothing but add up, or take the largest, of vectors. */
static bool only_reduces(const hr_stage *stage) {
    if (!hr_stage_is_vector(stage) || stage->contract || stage->pass_count != 1 || !stage->row_count ||
        !stage->task_count || hr_stage_jam(stage) || hr_cpu_walk_of(stage)->pipeline.depth ||
        hr_cpu_walk_of(stage)->gathered || hr_stash_of(stage)->count || stage->schedule->joins)
        return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind == HR_STEP_ROW || (step->kind == HR_STEP_ELEMENT && !step->stored)) continue;
        if (step->kind != HR_STEP_REDUCE_ROW || hr_op_finds_position(step->reduce) || step->estimated ||
            step->value->type == HR_BOOL || hr_expr_draws(step->value))
            return false;
    }
    return true;
}

static hr_status find_in_row(hr_graph *graph, const int64_t *extents, hr_stage *stage) {
    hr_expr **values = hr_arena_alloc(graph->arena, (size_t)(stage->step_count + 1) * sizeof *values);
    int count = 0;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind == HR_STEP_REDUCE_ROW) values[count++] = stage->steps[i].value;
    const walked_values walked = {.values = values, .count = count, .index = hr_stage_lane(stage)};
    return find(graph, extents, walked, &hr_cpu_walk_of(stage)->segments);
}

hr_status hr_pass_segments(const int64_t *extents, hr_plan *plan) {
    hr_graph *graph = plan->graph;
    for (int i = 0; i < plan->stage_count; i++) {
        hr_stage *stage = &plan->stages[i];
        hr_contract *c = stage->contract;
        const bool next_joins = i + 1 < plan->stage_count && plan->stages[i + 1].schedule->joins;
        if (!c && !next_joins && only_reduces(stage)) HR_TRY(find_in_row(graph, extents, stage));
        if (!c) continue;
        walked_values walked = {.count = 1, .index = c->k[c->k_count - 1], .inner = c->k_count > 1};
        walked.values = &c->left;
        HR_TRY(find(graph, extents, walked, &c->left_segments));
        walked.values = &c->right;
        HR_TRY(find(graph, extents, walked, &c->right_segments));
    }
    return HR_OK;
}
