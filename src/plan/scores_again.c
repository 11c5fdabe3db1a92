/* Scores that are made again for sums over queries. In: a unified graph whose operands are inlined. Out: the
 * same, where what the gradients of keys and values are sums of has locals of its own, keys before queries;
 * and plan->again, which says which locals these are.
 *
 *     s[i, j] = sum[d](q[i, d] * k[j, d])         dq[i, d] = sum[j](f(s[i, j]) * k[j, d])
 *     t[j, i] = sum[d](k[j, d] * q[i, d])         dk[j, d] = sum[i](f(t[j, i]) * q[i, d])
 *
 * So the sums over keys are rows of the first, those over queries rows of the second, and both go through a
 * block of rows at a time (plan/region.c): no scores are ever in memory. That takes two products more beside
 * the five of attention's gradients. Where a mask leaves out half of all seven, or documents of each other,
 * it is less work all the same. Without one it is more, and done where the scores would take too much memory.
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SIDE_LEAST: queries and keys; PACKED_MOST: elements of what a batch packs, as in attend_blocks.c;
 * SCORES_MOST: bytes of scores that are worth five products in place of seven. */
enum { SIDE_LEAST = 256, DEEP_MOST = 256, PACKED_MOST = 10 << 20, SCORES_MOST = 1 << 30 };

/* What a statement is to the sums, and their order: what they do not need, scores and what follows from them,
 * sums over keys and what follows, the scores again, sums over queries and what follows. */
typedef enum again_class { BEFORE, SCORES, OVER_KEYS, AGAIN, OVER_QUERIES } again_class;

typedef struct again {
    hr_graph *graph;
    const int64_t *extents;
    hr_plan *plan;
    hr_contract scores;
    const hr_statement *product; /* makes them */
    int query, key;              /* indices */
    again_class *class_of;       /* by tensor */
    bool *needed;                /* by tensor: sums over queries need it */
    int *copy;                   /* by tensor: the local with keys before queries; 0 = none */
    again_class highest;         /* of what the expression in hand reads */
    bool masked, good;
    hr_rewriting rewriting;
} again;

static int axis_of(const hr_statement *statement, int index) {
    for (int i = 0; i < statement->domain_count; i++)
        if (statement->domain[i] == index) return i;
    return -1;
}

/* ---- what there is ---- */

static bool is_over_scores(const again *g, const hr_statement *s) {
    return memcmp(s->domain, g->product->domain, (size_t)s->domain_count * sizeof *s->domain) == 0;
}

/* A local over batches, queries and keys in the order of the product: itself a product, or a map. */
static bool is_score(again *g, const hr_statement *s) {
    hr_contract product;
    if (g->graph->function->tensors[s->tensor].role != HR_ROLE_LOCAL || s->store != HR_STORE_WHOLE ||
        s->domain_count != g->product->domain_count || !is_over_scores(g, s))
        return false;
    return !hr_op_is_reduction(s->value->op) ||
           (hr_contract_match(g->graph, s, g->plan->facts.set, &product) && !product.group);
}

/* Of scores just the one in hand is read. */
static hr_visit look(void *context, const hr_expr *node) {
    again *g = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const again_class class = g->class_of[node->tensor];
    if (class > g->highest) g->highest = class;
    if (class != SCORES) return HR_VISIT_ON;
    g->good = g->good && node->arg_count == g->product->domain_count;
    for (int i = 0; i < node->arg_count && g->good; i++)
        g->good = node->args[i]->op == HR_OP_INDEX && node->args[i]->index == g->product->domain[i];
    return HR_VISIT_ON;
}

static again_class highest_read(again *g, const hr_statement *s) {
    hr_walk walk = {.enter = look, .context = g};
    g->highest = BEFORE;
    hr_walk_through(&walk, s->value);
    if (hr_walk_end(&walk) != HR_OK) g->graph->full = true;
    return g->highest;
}

static hr_visit is_element(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_ELEMENT);
}

/* Data say which keys a query sees: documents that are not each other's. */
static bool is_masked_by_data(const again *g, const hr_expr *condition) {
    if (condition->op == HR_OP_AND)
        return is_masked_by_data(g, condition->args[0]) || is_masked_by_data(g, condition->args[1]);
    return condition->op == HR_OP_EQ && hr_expr_find(condition, is_element, NULL) &&
           hr_expr_has_index(condition, g->query) && hr_expr_has_index(condition, g->key);
}

/* Keys past a place that goes on with the query do not count, but for those that data name: a prefix. */
static bool is_bounded(const again *g, const hr_expr *condition) {
    hr_key_bounds bounds;
    if (condition->op == HR_OP_OR)
        return is_bounded(g, condition->args[0]) || is_bounded(g, condition->args[1]);
    hr_key_bounds_find(g->plan, &g->scores, condition, &bounds);
    return bounds.bound && hr_expr_has_index(bounds.bound, g->query);
}

/* The score is 0 for keys past a place that goes on with the query, or of another document. */
static bool is_masked(const again *g, const hr_expr *value) {
    return hr_expr_within(value) != value &&
           (is_bounded(g, value->args[0]) || is_masked_by_data(g, value->args[0]));
}

/* The class of a statement that reads scores and is none. */
static again_class class_of_sum(again *g, const hr_statement *s) {
    hr_contract sum;
    const bool product = hr_contract_match(g->graph, s, g->plan->facts.set, &sum) && !sum.group &&
                         sum.k_count == 1 && sum.left->type == HR_F32;
    g->good = g->good && product && (sum.k[0] == g->key || sum.k[0] == g->query);
    return product && sum.k[0] == g->key ? OVER_KEYS : OVER_QUERIES;
}

static void classify(again *g, int first) {
    const hr_function *function = g->graph->function;
    int sums[OVER_QUERIES + 1] = {0};
    for (int i = first; i < function->statement_count && g->good; i++) {
        const hr_statement *s = &function->statements[i];
        const again_class read = highest_read(g, s);
        const bool ordered = g->graph->storage[s->tensor] == s->tensor && s->store == HR_STORE_WHOLE;
        again_class *class = &g->class_of[s->tensor];
        *class = is_score(g, s) ? SCORES : read == SCORES ? class_of_sum(g, s) : read;
        g->good = g->good && ordered && !(*class == SCORES && read > SCORES);
        g->masked = g->masked || (*class == SCORES && is_masked(g, s->value));
        sums[*class] += read == SCORES;
    }
    g->good = g->good && sums[OVER_KEYS] > 0 && sums[OVER_QUERIES] > 0;
}

/* ---- whether it pays ---- */

static hr_status pays(again *g) {
    const hr_function *function = g->graph->function;
    double batch, queries, keys, deep;
    HR_TRY(hr_function_points(function, g->scores.batch, g->scores.batch_count, g->extents, &batch));
    HR_TRY(hr_function_points(function, &g->query, 1, g->extents, &queries));
    HR_TRY(hr_function_points(function, &g->key, 1, g->extents, &keys));
    HR_TRY(hr_function_points(function, g->scores.k, g->scores.k_count, g->extents, &deep));
    const double scores = queries * keys, packed = 4 * fmax(queries, keys) * deep;
    g->good = g->good && fmin(queries, keys) >= SIDE_LEAST && deep <= DEEP_MOST &&
              packed <= fmax(PACKED_MOST, batch * scores / 8) &&
              (g->masked || 8 * batch * scores > SCORES_MOST);
    return HR_OK;
}

/* ---- the scores again ---- */

static hr_visit need(void *context, const hr_expr *node) {
    again *g = context;
    if (node->op == HR_OP_ELEMENT && g->class_of[node->tensor] == SCORES) g->needed[node->tensor] = true;
    return HR_VISIT_ON;
}

/* From the last statement to the first: what is needed needs what it is made from. */
static void find_needed(again *g, int first) {
    const hr_function *function = g->graph->function;
    for (int i = function->statement_count - 1; i >= first; i--) {
        const hr_statement *s = &function->statements[i];
        const again_class class = g->class_of[s->tensor];
        if (class == OVER_QUERIES || (class == SCORES && g->needed[s->tensor]))
            hr_expr_visit(s->value, need, g);
    }
}

static void exchange(again *g, hr_expr **list) {
    const int a = axis_of(g->product, g->query), b = axis_of(g->product, g->key);
    hr_expr *first = list[a];
    list[a] = list[b];
    list[b] = first;
}

static hr_expr *exchanged(void *context, const hr_expr *node, hr_expr *const *args) {
    again *g = context;
    hr_expr *list[HR_AXES_MAX];
    if (node->op != HR_OP_ELEMENT || g->class_of[node->tensor] != SCORES)
        return hr_graph_with_args(g->graph, node, args);
    memcpy(list, args, (size_t)node->arg_count * sizeof *list);
    exchange(g, list);
    return hr_graph_element(g->graph, g->copy[node->tensor], node->arg_count, list);
}

static void copy_statement(again *g, int number) {
    hr_graph *graph = g->graph;
    const hr_statement from = graph->function->statements[number];
    const hr_tensor *tensor = &graph->function->tensors[from.tensor];
    const int a = axis_of(&from, g->query), b = axis_of(&from, g->key);
    hr_expr *shape[HR_AXES_MAX];
    int domain[HR_AXES_MAX];
    memcpy(shape, tensor->shape, (size_t)tensor->rank * sizeof *shape);
    memcpy(domain, from.domain, (size_t)from.domain_count * sizeof *domain);
    exchange(g, shape);
    domain[a] = g->key;
    domain[b] = g->query;
    const int copy = hr_graph_add_local(graph, tensor->name, tensor->dtype, tensor->rank, shape, -1);
    g->copy[from.tensor] = copy;
    hr_graph_add_statement(graph, copy, from.domain_count, domain, hr_rewriting_of(&g->rewriting, from.value),
                           from.place);
}

/* The copies follow all statements. */
static void copy_scores(again *g, int first) {
    hr_function *function = g->graph->function;
    const int count = function->statement_count;
    g->plan->again_begin = function->tensor_count;
    for (int i = first; i < count && !g->graph->full; i++)
        if (g->needed[function->statements[i].tensor]) copy_statement(g, i);
    g->plan->again_end = function->tensor_count;
    for (int i = first; i < count && !g->graph->full; i++) {
        hr_statement *s = &function->statements[i];
        if (g->class_of[s->tensor] == OVER_QUERIES) s->value = hr_rewriting_of(&g->rewriting, s->value);
    }
}

static again_class place_of(const again *g, const hr_statement *s) {
    const hr_plan *plan = g->plan;
    if (s->tensor >= plan->again_begin && s->tensor < plan->again_end) return AGAIN;
    return g->class_of[s->tensor];
}

/* It sums scores itself: what follows from such sums comes behind all of them. */
static bool is_sum(again *g, const hr_statement *s) {
    return highest_read(g, s) < place_of(g, s);
}

/* Those of a class keep their order, but for sums, which stand together. */
static void sort(again *g, int first) {
    hr_function *function = g->graph->function;
    const int count = function->statement_count - first;
    hr_statement *sorted = hr_arena_alloc(g->graph->arena, ((size_t)count + 1) * sizeof *sorted);
    int made = 0;
    if (g->graph->full || !sorted) return;
    for (int part = 2 * BEFORE; part <= 2 * OVER_QUERIES + 1; part++)
        for (int i = 0; i < count; i++) {
            const hr_statement *s = &function->statements[first + i];
            const again_class class = place_of(g, s);
            const bool late = (class == OVER_KEYS || class == OVER_QUERIES) && !is_sum(g, s);
            if (2 * (int)class + late == part) sorted[made++] = *s;
        }
    memcpy(function->statements + first, sorted, (size_t)count * sizeof *sorted);
}

/* Whether those of the product at `first` were made again. */
static hr_status make_again(again *g, int first, bool *made) {
    const hr_statement *s = &g->graph->function->statements[first];
    *made = false;
    if (g->graph->function->tensors[s->tensor].role != HR_ROLE_LOCAL ||
        !hr_contract_match(g->graph, s, g->plan->facts.set, &g->scores) || g->scores.group ||
        g->scores.m_count != 1 || g->scores.n_count != 1 || g->scores.left->type != HR_F32)
        return HR_OK;
    g->product = s;
    g->query = g->scores.m[0];
    g->key = g->scores.n[0];
    memset(g->class_of, 0, (size_t)g->graph->function->tensor_count * sizeof *g->class_of);
    g->good = true;
    classify(g, first);
    if (g->good) HR_TRY(pays(g));
    if (!g->good) return HR_OK;
    find_needed(g, first);
    const hr_statement product = *s; /* statements move */
    g->product = &product;
    copy_scores(g, first);
    sort(g, first);
    *made = true;
    return HR_OK;
}

hr_status hr_pass_scores_again(hr_graph *graph, const int64_t *extents, hr_plan *plan) {
    const size_t tensors = 2 * (size_t)graph->function->tensor_count + 1; /* with copies */
    again g = {.graph = graph, .extents = extents, .plan = plan};
    g.class_of = hr_memory_zeros(tensors, sizeof *g.class_of);
    g.needed = hr_memory_zeros(tensors, sizeof *g.needed);
    g.copy = hr_memory_zeros(tensors, sizeof *g.copy);
    g.rewriting = (hr_rewriting){.graph = graph, .after = exchanged, .context = &g};
    const bool there = g.class_of && g.needed && g.copy;
    hr_status status = there ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    bool made = false;
    for (int i = 0; i < graph->function->statement_count && status == HR_OK && !made; i++)
        status = make_again(&g, i, &made);
    hr_rewriting_end(&g.rewriting);
    free(g.class_of);
    free(g.needed);
    free(g.copy);
    return status == HR_OK ? hr_graph_status(graph) : status;
}
