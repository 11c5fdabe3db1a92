/* Indices of different statements that walk the same axes become one. In: a normalised graph. Out: the same
 * graph.
 *
 * Two indices are merged where they subscript the same axis of the same tensor on their own, have the same
 * extent, and no statement uses both. What a statement hands to another through a local counts first, shared
 * parameters after, and last left sides of the same shape whose statements read a tensor in common, however
 * they read it: its parts (`x[t, h + H]`) and windows (`x[2 * h + i]`) are then walked together.
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

/* A plain use of an index: statement `s` has it as the whole subscript of axis `axis` of `tensor`. */
typedef struct plain_use {
    int tensor, axis, index, statement;
} plain_use;

typedef struct unifier {
    hr_graph *graph;
    int *parent;  /* index -> a member of its class nearer to the root */
    bool *occurs; /* [class root * statement_count + statement] */
    plain_use *uses;
    int use_count, use_capacity;
    int statement; /* at hand */
    bool *reads;   /* [tensor * statement_count + statement] */
    bool failed;
} unifier;

static int root_of(unifier *u, int index) {
    while (u->parent[index] != index)
        index = u->parent[index] = u->parent[u->parent[index]];
    return index;
}

static void note_use(unifier *u, int tensor, int axis, int index, int statement) {
    if (u->use_count == u->use_capacity) {
        int capacity = u->use_capacity ? u->use_capacity * 2 : 64;
        plain_use *uses = hr_memory_resize(u->uses, (size_t)capacity * sizeof *uses);
        if (!uses) {
            u->failed = true;
            return;
        }
        u->uses = uses;
        u->use_capacity = capacity;
    }
    u->uses[u->use_count++] = (plain_use){tensor, axis, index, statement};
}

static hr_visit collect(void *context, const hr_expr *node) {
    unifier *u = context;
    const hr_function *function = u->graph->function;
    const int statement = u->statement;
    bool *occurs = &u->occurs[statement];
    if (node->op == HR_OP_INDEX) occurs[node->index * function->statement_count] = true;
    for (int i = 0; i < node->bound_count; i++)
        occurs[node->bound[i] * function->statement_count] = true;
    if (node->op == HR_OP_ELEMENT) u->reads[node->tensor * function->statement_count + statement] = true;
    if (node->op == HR_OP_ELEMENT)
        for (int a = 0; a < function->tensors[node->tensor].rank; a++)
            if (node->args[a]->op == HR_OP_INDEX)
                note_use(u, u->graph->storage[node->tensor], a, node->args[a]->index, statement);
    return HR_VISIT_ON;
}

static void collect_all(unifier *u) {
    const hr_function *function = u->graph->function;
    for (int s = 0; s < function->statement_count; s++) {
        const hr_statement *statement = &function->statements[s];
        hr_walk walk = {.enter = collect, .context = u};
        u->statement = s;
        hr_walk_through(&walk, statement->value);
        for (int a = 0; a < statement->subscript_count; a++) {
            hr_walk_through(&walk, statement->subscripts[a]);
            if (statement->subscripts[a]->op == HR_OP_INDEX)
                note_use(u, u->graph->storage[statement->tensor], a, statement->subscripts[a]->index, s);
        }
        for (int i = 0; i < statement->domain_count; i++)
            u->occurs[statement->domain[i] * function->statement_count + s] = true;
        u->failed = hr_walk_end(&walk) != HR_OK || u->failed;
    }
}

static void merge(unifier *u, int a, int b) {
    const hr_function *function = u->graph->function;
    int statements = function->statement_count;
    a = root_of(u, a);
    b = root_of(u, b);
    if (a == b || function->indices[a].extent != function->indices[b].extent) return;
    for (int s = 0; s < statements; s++)
        if (u->occurs[a * statements + s] && u->occurs[b * statements + s]) return;
    int keep = a < b ? a : b, drop = a < b ? b : a;
    for (int s = 0; s < statements; s++)
        u->occurs[keep * statements + s] |= u->occurs[drop * statements + s];
    u->parent[drop] = keep;
}

static int compare_uses(const void *left, const void *right) {
    const plain_use *a = left, *b = right;
    if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
    if (a->axis != b->axis) return a->axis < b->axis ? -1 : 1;
    if (a->statement != b->statement) return a->statement < b->statement ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* The text calls both alike. */
static bool is_called_alike(const unifier *u, int a, int b) {
    const hr_index *indices = u->graph->function->indices;
    return strcmp(indices[a].name, indices[b].name) == 0;
}

static void merge_uses(unifier *u, bool locals, bool alike) {
    for (int i = 0; i < u->use_count; i++) {
        bool is_local = u->graph->function->tensors[u->uses[i].tensor].role == HR_ROLE_LOCAL;
        if (is_local != locals) continue;
        for (int j = i + 1; j < u->use_count && u->uses[j].tensor == u->uses[i].tensor &&
                            u->uses[j].axis == u->uses[i].axis && j < i + 256;
             j++)
            if (!alike || is_called_alike(u, u->uses[i].index, u->uses[j].index))
                merge(u, u->uses[i].index, u->uses[j].index);
    }
}

/* An element of a local where one of as many axes is made from it: of a product that is its epilogue. */
static hr_visit merge_element(void *context, const hr_expr *node) {
    unifier *u = context;
    const hr_function *function = u->graph->function;
    const hr_statement *reader = &function->statements[u->statement], *maker = NULL;
    if (node->op != HR_OP_ELEMENT || node->arg_count != reader->domain_count ||
        function->tensors[node->tensor].role != HR_ROLE_LOCAL)
        return HR_VISIT_ON;
    for (int s = 0; s < u->statement; s++)
        if (function->statements[s].tensor == node->tensor) maker = &function->statements[s];
    if (!maker || maker->store != HR_STORE_WHOLE || maker->domain_count != node->arg_count)
        return HR_VISIT_ON;
    for (int a = 0; a < node->arg_count; a++)
        if (node->args[a]->op != HR_OP_INDEX || maker->subscripts[a]->op != HR_OP_INDEX ||
            !hr_indices_have(reader->domain, reader->domain_count, node->args[a]->index))
            return HR_VISIT_ON;
    for (int a = 0; a < node->arg_count; a++)
        merge(u, maker->subscripts[a]->index, node->args[a]->index);
    return HR_VISIT_ON;
}

static void merge_chains(unifier *u) {
    const hr_function *function = u->graph->function;
    for (u->statement = 0; u->statement < function->statement_count; u->statement++) {
        const hr_expr *value = function->statements[u->statement].value;
        if (!hr_op_is_reduction(value->op)) hr_expr_visit(value, merge_element, u);
    }
}

static bool reads_common(const unifier *u, int a, int b) {
    const hr_function *function = u->graph->function;
    for (int t = 0; t < function->tensor_count; t++)
        if (u->reads[t * function->statement_count + a] && u->reads[t * function->statement_count + b])
            return true;
    return false;
}

static bool same_shape(const hr_function *function, const hr_statement *a, const hr_statement *b) {
    if (a->domain_count != b->domain_count || a->store != HR_STORE_WHOLE || b->store != HR_STORE_WHOLE)
        return false;
    for (int i = 0; i < a->domain_count; i++)
        if (function->indices[a->domain[i]].extent != function->indices[b->domain[i]].extent) return false;
    return true;
}

static void merge_domains(unifier *u) {
    enum { STATEMENTS_AHEAD = 16 };
    const hr_function *function = u->graph->function;
    for (int s = 0; s < function->statement_count; s++)
        for (int t = s + 1; t < function->statement_count && t <= s + STATEMENTS_AHEAD; t++) {
            const hr_statement *a = &function->statements[s], *b = &function->statements[t];
            if (!same_shape(function, a, b) || !reads_common(u, s, t)) continue;
            for (int i = 0; i < a->domain_count; i++)
                merge(u, a->domain[i], b->domain[i]);
        }
}

static void rewrite_statements(unifier *u) {
    hr_graph *graph = u->graph;
    hr_function *function = graph->function;
    int count = 0, *from = hr_arena_alloc(graph->arena, (size_t)function->index_count * sizeof *from);
    hr_expr **to = hr_arena_alloc(graph->arena, (size_t)function->index_count * sizeof *to);
    for (int i = 0; i < function->index_count; i++) {
        if (root_of(u, i) == i) continue;
        from[count] = i;
        to[count++] = hr_graph_index_value(graph, root_of(u, i));
    }
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        hr_statement *statement = &function->statements[s];
        statement->value = hr_graph_substitute(graph, statement->value, count, from, to);
        for (int a = 0; a < statement->subscript_count; a++)
            statement->subscripts[a] = hr_graph_substitute(graph, statement->subscripts[a], count, from, to);
        int *domain = hr_arena_alloc(graph->arena, (size_t)(statement->domain_count + 1) * sizeof *domain);
        for (int i = 0; i < statement->domain_count; i++)
            domain[i] = root_of(u, statement->domain[i]);
        statement->domain = domain;
    }
}

hr_status hr_pass_unify(hr_graph *graph) {
    const hr_function *function = graph->function;
    size_t indices = (size_t)function->index_count + 1, statements = (size_t)function->statement_count + 1;
    size_t tensors = (size_t)function->tensor_count + 1;
    if ((indices + tensors) * statements > (size_t)64 << 20)
        return hr_fail(HR_BAD_INPUT,
                       "kernel %.60s has too many statements and indices to plan: split it into several",
                       graph->source->name);
    unifier u = {.graph = graph};
    u.parent = hr_memory_zeros(indices, sizeof *u.parent);
    u.occurs = hr_memory_zeros(indices * statements, sizeof *u.occurs);
    u.reads = hr_memory_zeros(tensors * statements, sizeof *u.reads);
    u.failed = !u.parent || !u.occurs || !u.reads;
    for (int i = 0; !u.failed && i < function->index_count; i++)
        u.parent[i] = i;
    if (!u.failed) collect_all(&u);
    if (!u.failed) {
        if (u.use_count) qsort(u.uses, (size_t)u.use_count, sizeof *u.uses, compare_uses);
        merge_chains(&u);
        merge_uses(&u, true, true); /* first: an axis that is read by two indices goes with its own name */
        merge_uses(&u, true, false);
        merge_uses(&u, false, true);
        merge_uses(&u, false, false);
        merge_domains(&u);
        rewrite_statements(&u);
    }
    free(u.parent);
    free(u.occurs);
    free(u.reads);
    free(u.uses);
    if (u.failed)
        return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning kernel %.60s", graph->source->name);
    return hr_graph_status(graph);
}
