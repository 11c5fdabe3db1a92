/* Sums over the results of a product: of its rows, its columns, or all. In: a unified graph. Out: the same,
 * where such a sum (or a maximum) is one over partial sums, each of a few neighbours, which the product's
 * kernel can leave beside its results: nobody reads the results again. Where a later stage has to do so for
 * what it makes of each, it has these sums as well.
 *
 * c[n] = sum[m](f(y[m, n])) becomes
 *     part[t, n] = sum[i < 16](f(y[16 t + i, n])), which hr_graph.partials names,
 *     c[n]       = sum[t](part[t, n]).
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fewer rows or columns may be another kernel's, which leaves none. */
enum { ROWS_LEAST = 256 };

typedef struct partials {
    hr_graph *graph;
    const hr_plan *plan;
    const int64_t *extents;
    hr_contract contract;
    int product;         /* its statement */
    unsigned char *made; /* by tensor: what its kernel's epilogue has of it */
} partials;

/* A map over the product's results: of what is at hand without it, or of them. */
enum { NOT_MADE, MADE_BESIDE, MADE_OF_IT };

/* ---- what the product's kernel makes ---- */

/* What an expression reads. */
typedef struct readings {
    const partials *p;
    bool some, other; /* of what the kernel makes; of what is made after the product, elsewhere */
} readings;

static int producer_of(const hr_function *function, int tensor) {
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].tensor == tensor) return s;
    return -1;
}

static hr_visit look(void *context, const hr_expr *node) {
    readings *r = context;
    const hr_function *function = r->p->graph->function;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const int producer = producer_of(function, node->tensor);
    if (!r->p->made[node->tensor]) {
        r->other = r->other || producer >= r->p->product;
        return HR_VISIT_ON;
    }
    r->some = r->some || r->p->made[node->tensor] == MADE_OF_IT;
    const hr_statement *s = &function->statements[producer];
    for (int a = 0; a < s->domain_count; a++)
        if (node->args[a]->op != HR_OP_INDEX || node->args[a]->index != s->domain[a]) r->other = true;
    return HR_VISIT_ON;
}

static readings readings_of(const partials *p, const hr_expr *value) {
    readings r = {.p = p};
    hr_expr_visit(value, look, &r);
    return r;
}

static bool reads_made(const partials *p, const hr_expr *value) {
    const readings r = readings_of(p, value);
    return r.some && !r.other;
}

static bool is_over_results(const partials *p, const int *indices, int count) {
    const int both[] = {p->contract.m[0], p->contract.n[0]};
    return hr_indices_same(indices, count, both, 2);
}

static bool is_map_over_results(const partials *p, const hr_statement *s) {
    return s->store == HR_STORE_WHOLE && !hr_op_is_reduction(s->value->op) &&
           is_over_results(p, s->domain, s->domain_count);
}

/* Maps over the product's results that follow it. */
static void find_made(partials *p) {
    const hr_function *function = p->graph->function;
    memset(p->made, NOT_MADE, (size_t)function->tensor_count);
    p->made[p->contract.product] = MADE_OF_IT;
    for (int i = p->product + 1; i < function->statement_count; i++) {
        const hr_statement *s = &function->statements[i];
        if (!is_map_over_results(p, s)) continue;
        const readings r = readings_of(p, s->value);
        if (!r.other) p->made[s->tensor] = r.some ? MADE_OF_IT : MADE_BESIDE;
    }
}

/* A later stage does all the same, for a map over them that its kernel cannot make: sums cost it little. */
static bool are_read_again(const partials *p) {
    const hr_function *function = p->graph->function;
    for (int i = p->product + 1; i < function->statement_count; i++) {
        const hr_statement *s = &function->statements[i];
        if (!is_map_over_results(p, s) || p->made[s->tensor] != NOT_MADE) continue;
        if (readings_of(p, s->value).some) return true;
    }
    return false;
}

/* ---- sums that are taken apart ---- */

/* The index over which neighbours are summed: the last of those of a sum over its rows, or over all of the
 * results, the other one of a sum over columns. -1 = it is none. */
static int along_of(const partials *p, const hr_statement *s) {
    const int m = p->contract.m[0], n = p->contract.n[0];
    const hr_expr *value = s->value;
    const bool kind =
        value->op == HR_OP_REDUCE_SUM || value->op == HR_OP_REDUCE_MAX || value->op == HR_OP_REDUCE_MIN;
    if (!kind || s->store != HR_STORE_WHOLE || value->type != HR_F32 || value->args[0]->type != HR_F32 ||
        !reads_made(p, value->args[0]))
        return -1;
    if (s->domain_count == 0 && is_over_results(p, value->bound, value->bound_count)) return n;
    if (s->domain_count != 1 || value->bound_count != 1) return -1;
    if (s->domain[0] == m && value->bound[0] == n) return n;
    return s->domain[0] == n && value->bound[0] == m ? m : -1;
}

/* The neighbours' body, 0 (or what changes nothing) past the end. */
static hr_expr *neighbour(hr_graph *graph, const hr_expr *value, int along, hr_expr *at) {
    const double none = value->op == HR_OP_REDUCE_SUM   ? 0
                        : value->op == HR_OP_REDUCE_MAX ? -INFINITY
                                                        : INFINITY;
    hr_expr *extent = graph->function->indices[along].extent;
    hr_expr *body = hr_graph_substitute(graph, value->args[0], 1, &along, &at);
    return hr_graph_where(graph, hr_graph_binary(graph, HR_OP_LT, HR_BOOL, at, extent), body,
                          hr_graph_number(graph, HR_F32, none));
}

static void note(hr_graph *graph, int tensor, hr_expr *body) {
    if (graph->full) return;
    hr_partial *noted = hr_arena_alloc(graph->arena, sizeof *noted);
    *noted = (hr_partial){tensor, body, graph->partials};
    graph->partials = noted;
}

/* Statement `number` becomes a sum over partial sums, which come before it. */
static void take_apart(const partials *p, int number, int along) {
    hr_graph *graph = p->graph;
    hr_function *function = graph->function;
    const hr_statement s = function->statements[number];
    const int m = p->contract.m[0], n = p->contract.n[0], other = along == m ? n : m;
    hr_expr *count = hr_graph_whole(graph, HR_PARTIAL), *more = hr_graph_whole(graph, HR_PARTIAL - 1);
    hr_expr *extent = function->indices[along].extent;
    hr_expr *parts = hr_graph_binary(graph, HR_OP_FLOORDIV, HR_I64,
                                     hr_graph_binary(graph, HR_OP_ADD, HR_I64, extent, more), count);
    const int part = hr_graph_add_index(graph, "part", parts), in = hr_graph_add_index(graph, "in", count);
    const int domain[] = {part, other}; /* a warp's sums stand beside each other */
    const int bound[] = {part, other}, bound_count = s.domain_count ? 1 : 2;
    hr_expr *before = hr_graph_binary(graph, HR_OP_MUL, HR_I64, hr_graph_index_value(graph, part), count);
    hr_expr *at = hr_graph_binary(graph, HR_OP_ADD, HR_I64, before, hr_graph_index_value(graph, in));
    hr_expr *shape[2], *place[2];
    for (int a = 0; a < 2; a++) {
        shape[a] = function->indices[domain[a]].extent;
        place[a] = hr_graph_index_value(graph, domain[a]);
    }
    const char *name = hr_arena_format(graph->arena, "%.40s_parts", function->tensors[s.tensor].name);
    const int tensor = hr_graph_add_local(graph, name, HR_F32, 2, shape, -1);
    hr_expr *sum = hr_graph_reduce(graph, s.value->op, HR_F32, 1, &in, neighbour(graph, s.value, along, at));
    note(graph, tensor, s.value->args[0]);
    hr_graph_add_statement(graph, tensor, 2, domain, sum, s.place);
    function->statements[number].value = hr_graph_reduce(graph, s.value->op, HR_F32, bound_count, bound,
                                                         hr_graph_element(graph, tensor, 2, place));
    hr_graph_move_before(graph, number, 1);
}

static hr_visit is_f8(const hr_expr *node, const void *function) {
    const hr_tensor *tensors = ((const hr_function *)function)->tensors;
    return hr_visit_until(node->op == HR_OP_ELEMENT && (tensors[node->tensor].dtype == HR_F8E4M3 ||
                                                        tensors[node->tensor].dtype == HR_F8E5M2));
}

/* Of 16 bits, or of f8 with or without factors. */
static bool are_narrow(const hr_function *function, const hr_contract *c) {
    return hr_contract_will_fit(function, c, HR_BF16) || hr_contract_will_fit(function, c, HR_F16) ||
           (hr_expr_find(c->left, is_f8, function) && hr_expr_find(c->right, is_f8, function));
}

/* Its kernel is one of tiles, and those of whole k fill the device. */
static hr_status leaves(const partials *p, bool *out) {
    const hr_contract *c = &p->contract;
    const hr_function *function = p->graph->function;
    double rows, columns;
    *out = c->batch_count == 0 && c->m_count == 1 && c->n_count == 1 && !c->group && !c->leaves_out &&
           are_narrow(function, c);
    if (!*out) return HR_OK;
    HR_TRY(hr_function_points(function, c->m, 1, p->extents, &rows));
    HR_TRY(hr_function_points(function, c->n, 1, p->extents, &columns));
    *out = rows >= ROWS_LEAST && columns >= ROWS_LEAST && rows * columns >= p->plan->facts.partials_least;
    return HR_OK;
}

/* All sums over the results of the product that statement `p->product` is; how many there are. */
static hr_status take_all(partials *p, int *count) {
    const hr_function *function = p->graph->function;
    bool all;
    *count = 0;
    HR_TRY(leaves(p, &all));
    if (all) find_made(p);
    all = all && !are_read_again(p);
    for (int i = p->product + 1; all && i < function->statement_count && !p->graph->full; i++) {
        if (*count == HR_PARTIALS_MOST) break;
        find_made(p);
        const int along = along_of(p, &function->statements[i]);
        if (along < 0) continue;
        take_apart(p, i++, along);
        ++*count;
    }
    return HR_OK;
}

hr_status hr_pass_partial_sums(hr_graph *graph, const int64_t *extents, const hr_plan *plan) {
    partials p = {.graph = graph, .plan = plan, .extents = extents};
    hr_status status = HR_OK;
    /* each product may add some tensors */
    p.made = hr_memory_zeros((size_t)graph->function->tensor_count +
                                 (size_t)graph->function->statement_count * HR_PARTIALS_MOST + 1,
                             sizeof *p.made);
    if (!p.made) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int i = 0; i < graph->function->statement_count && status == HR_OK && !graph->full; i++) {
        int count = 0;
        p.product = i;
        if (hr_contract_match(graph, &graph->function->statements[i], plan->facts.set, &p.contract))
            status = take_all(&p, &count);
    }
    free(p.made);
    return status == HR_OK ? hr_graph_status(graph) : status;
}
