/* Interned expressions and a growing function. In: a checked function. Out: the copy that the passes rewrite.
 */
#include "ir/graph.h"
#include "base/status.h"
#include "ir/visit.h"

#include <string.h>

enum { TABLE_START = 1024, GRAPH_RESERVE = HR_PLAN_RESERVE + (1 << 16) };

/* ---- growth ---- */

static void *grow(hr_graph *graph, void *old, int count, int *capacity, size_t size) {
    if (count < *capacity) return old;
    int wanted = *capacity ? *capacity * 2 : 16;
    if (hr_arena_room(graph->arena) < (size_t)wanted * size + GRAPH_RESERVE) {
        graph->full = true;
        return NULL;
    }
    void *data = hr_arena_alloc(graph->arena, (size_t)wanted * size);
    if (count) memcpy(data, old, (size_t)count * size);
    *capacity = wanted;
    return data;
}

/* From here on numbers stand for them. */
static void fix_extents(hr_graph *graph, const int64_t *fixed) {
    const int count = graph->function->extent_count;
    if (!fixed) return;
    graph->fixed_extent = hr_arena_alloc(graph->arena, (size_t)(count + 1) * sizeof *graph->fixed_extent);
    for (int e = 0; e < count; e++)
        graph->fixed_extent[e] =
            fixed[e] == HR_EXTENT_UNKNOWN
                ? NULL
                : hr_graph_intern(graph, &(hr_expr){.op = HR_OP_EXTENT, .type = HR_I64, .extent = e});
    graph->fixed = fixed;
}

hr_graph *hr_graph_create(const hr_function *source, hr_arena *arena) {
    return hr_graph_create_fixed(source, NULL, arena);
}

hr_graph *hr_graph_create_fixed(const hr_function *source, const int64_t *fixed, hr_arena *arena) {
    hr_graph *graph = hr_arena_alloc(arena, sizeof *graph);
    hr_function *function = hr_arena_alloc(arena, sizeof *function);
    *function = *source;
    graph->arena = arena;
    graph->source = source;
    graph->function = function;
    graph->table_size = TABLE_START;
    graph->table = hr_arena_alloc(arena, TABLE_START * sizeof *graph->table);
    function->expr_count = 0;
    function->statement_count = 0;
    function->statements = NULL;
    graph->placeholder = hr_graph_whole(graph, 0);
    fix_extents(graph, fixed);

    int declared = source->parameter_count + source->result_count;
    graph->tensor_capacity = declared + 16;
    function->tensors = hr_arena_alloc(arena, (size_t)graph->tensor_capacity * sizeof *function->tensors);
    graph->storage = hr_arena_alloc(arena, (size_t)graph->tensor_capacity * sizeof *graph->storage);
    function->tensor_count = declared;
    for (int t = 0; t < declared; t++) {
        hr_tensor *tensor = &function->tensors[t];
        *tensor = source->tensors[t];
        graph->storage[t] = t;
        tensor->shape = hr_arena_alloc(arena, (size_t)tensor->rank * sizeof *tensor->shape);
        for (int a = 0; a < tensor->rank; a++)
            tensor->shape[a] = hr_graph_substitute(graph, source->tensors[t].shape[a], 0, NULL, NULL);
    }
    graph->index_capacity = source->index_count + 16;
    function->indices = hr_arena_alloc(arena, (size_t)graph->index_capacity * sizeof *function->indices);
    for (int i = 0; i < source->index_count; i++) {
        function->indices[i] = source->indices[i];
        function->indices[i].extent = hr_graph_substitute(graph, source->indices[i].extent, 0, NULL, NULL);
    }
    return graph;
}

hr_status hr_graph_too_large(const hr_graph *graph) {
    return hr_fail(HR_BAD_INPUT, "kernel %.60s is too large to plan: split it into several",
                   graph->source->name);
}

hr_status hr_graph_status(const hr_graph *graph) {
    return graph->full ? hr_graph_too_large(graph) : HR_OK;
}

/* ---- interning ---- */

static bool is_whole(hr_dtype type) {
    return type == HR_I64 || type == HR_I32 || type == HR_BOOL;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t node_hash(const hr_expr *node) {
    uint64_t bits;
    memcpy(&bits, &node->number, sizeof bits);
    uint64_t hash = mix(node->op * 31u + node->type, node->dtype);
    hash = mix(mix(hash, bits), (uint64_t)node->whole);
    hash = mix(hash, ((uint64_t)node->extent << 40) ^ ((uint64_t)node->index << 20) ^ (uint64_t)node->tensor);
    for (int i = 0; i < node->arg_count; i++)
        hash = mix(hash, (uint64_t)node->args[i]->id);
    for (int i = 0; i < node->bound_count; i++)
        hash = mix(hash, (uint64_t)node->bound[i]);
    return hash;
}

static bool node_equal(const hr_expr *a, const hr_expr *b) {
    return a->op == b->op && a->type == b->type && a->dtype == b->dtype && a->variable == b->variable &&
           a->whole == b->whole && memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
           a->extent == b->extent && a->index == b->index && a->tensor == b->tensor &&
           a->arg_count == b->arg_count && a->bound_count == b->bound_count &&
           (!a->arg_count || memcmp(a->args, b->args, (size_t)a->arg_count * sizeof *a->args) == 0) &&
           (!a->bound_count || memcmp(a->bound, b->bound, (size_t)a->bound_count * sizeof *a->bound) == 0);
}

static void table_double(hr_graph *graph) {
    int size = graph->table_size * 2;
    if (hr_arena_room(graph->arena) < (size_t)size * sizeof *graph->table + GRAPH_RESERVE) {
        graph->full = true;
        return;
    }
    hr_expr **table = hr_arena_alloc(graph->arena, (size_t)size * sizeof *table);
    for (int i = 0; i < graph->table_size; i++) {
        if (!graph->table[i]) continue;
        uint64_t slot = node_hash(graph->table[i]) & (uint64_t)(size - 1);
        while (table[slot])
            slot = (slot + 1) & (uint64_t)(size - 1);
        table[slot] = graph->table[i];
    }
    graph->table = table;
    graph->table_size = size;
}

/* Fields that an operation does not use are zeroed, so that equality can compare all of them. */
static hr_expr node_canonical(const hr_graph *graph, const hr_expr *model) {
    hr_expr node = {.op = model->op, .type = model->type, .place = model->place};
    node.arg_count = model->arg_count;
    node.args = model->args;
    switch (model->op) {
    case HR_OP_NUMBER:
        if (model->type == HR_I64 || model->type == HR_I32 || model->type == HR_BOOL)
            node.whole = model->whole;
        else
            node.number = model->number;
        break;
    case HR_OP_EXTENT:
        node.extent = model->extent;
        break;
    case HR_OP_INDEX:
        node.index = model->index;
        break;
    case HR_OP_ELEMENT:
        node.tensor = model->tensor;
        break;
    case HR_OP_CONVERT:
        node.dtype = model->dtype;
        if (graph->keeps_variables) node.variable = model->variable;
        break;
    default:
        node.bound_count = model->bound_count;
        node.bound = model->bound;
    }
    return node;
}

/* A whole number, or a choice between two, is written as f32 where it is one exactly: NULL elsewhere. */
static hr_expr *number_folded(hr_graph *graph, const hr_expr *model) {
    const hr_expr *a = model->op == HR_OP_CONVERT && model->dtype == HR_F32 ? model->args[0] : NULL;
    const int64_t exact = 1 << 24;
    if (a && a->op == HR_OP_NUMBER && is_whole(a->type) && a->whole >= -exact && a->whole <= exact)
        return hr_graph_number(graph, HR_F32, (double)a->whole);
    if (!a || a->op != HR_OP_WHERE || !is_whole(a->type)) return NULL;
    hr_expr *sides[2];
    for (int i = 0; i < 2; i++) {
        hr_expr side = {.op = HR_OP_CONVERT, .dtype = HR_F32, .args = &a->args[1 + i]};
        sides[i] = number_folded(graph, &side);
        if (!sides[i]) return NULL;
    }
    return hr_graph_where(graph, a->args[0], sides[0], sides[1]);
}

hr_expr *hr_graph_intern(hr_graph *graph, const hr_expr *model) {
    if (graph->full) return graph->placeholder;
    if (model->op == HR_OP_EXTENT && graph->fixed && graph->fixed[model->extent] != HR_EXTENT_UNKNOWN)
        return hr_graph_whole(graph, graph->fixed[model->extent]);
    hr_expr *folded = number_folded(graph, model);
    if (folded) return folded;
    hr_expr node = node_canonical(graph, model);
    uint64_t mask = (uint64_t)graph->table_size - 1, slot = node_hash(&node) & mask;
    for (; graph->table[slot]; slot = (slot + 1) & mask)
        if (node_equal(graph->table[slot], &node)) return graph->table[slot];
    if (hr_arena_room(graph->arena) <
        GRAPH_RESERVE + (size_t)node.arg_count * 8 + (size_t)node.bound_count * 4) {
        graph->full = true;
        return graph->placeholder;
    }
    hr_expr *kept = hr_arena_alloc(graph->arena, sizeof *kept);
    *kept = node;
    kept->args = hr_arena_alloc(graph->arena, (size_t)node.arg_count * sizeof *kept->args);
    if (node.arg_count) memcpy(kept->args, node.args, (size_t)node.arg_count * sizeof *kept->args);
    kept->bound = hr_arena_alloc(graph->arena, (size_t)node.bound_count * sizeof *kept->bound);
    if (node.bound_count) memcpy(kept->bound, node.bound, (size_t)node.bound_count * sizeof *kept->bound);
    kept->id = graph->function->expr_count++;
    graph->table[slot] = kept;
    if (graph->function->expr_count * 2 > graph->table_size) table_double(graph);
    return kept;
}

/* ---- small makers ---- */

hr_expr *hr_graph_whole(hr_graph *graph, int64_t value) {
    return hr_graph_intern(graph, &(hr_expr){.op = HR_OP_NUMBER, .type = HR_I64, .whole = value});
}

hr_expr *hr_graph_number(hr_graph *graph, hr_dtype type, double value) {
    hr_expr node = {.op = HR_OP_NUMBER, .type = type, .number = value};
    if (is_whole(type)) node.whole = (int64_t)value;
    return hr_graph_intern(graph, &node);
}

hr_expr *hr_graph_index_value(hr_graph *graph, int index) {
    return hr_graph_intern(graph, &(hr_expr){.op = HR_OP_INDEX, .type = HR_I64, .index = index});
}

hr_expr *hr_graph_unary(hr_graph *graph, hr_op op, hr_dtype type, hr_expr *a) {
    return hr_graph_intern(graph, &(hr_expr){.op = op, .type = type, .arg_count = 1, .args = &a});
}

hr_expr *hr_graph_binary(hr_graph *graph, hr_op op, hr_dtype type, hr_expr *a, hr_expr *b) {
    hr_expr *args[] = {a, b};
    return hr_graph_intern(graph, &(hr_expr){.op = op, .type = type, .arg_count = 2, .args = args});
}

hr_expr *hr_graph_where(hr_graph *graph, hr_expr *condition, hr_expr *a, hr_expr *b) {
    hr_expr *args[] = {condition, a, b};
    return hr_graph_intern(graph,
                           &(hr_expr){.op = HR_OP_WHERE, .type = a->type, .arg_count = 3, .args = args});
}

hr_expr *hr_graph_convert(hr_graph *graph, hr_dtype type, hr_expr *a) {
    return a->type == type ? a : hr_graph_round(graph, type, a);
}

hr_expr *hr_graph_round(hr_graph *graph, hr_dtype dtype, hr_expr *a) {
    hr_expr node = {
        .op = HR_OP_CONVERT, .type = hr_compute_type(dtype), .dtype = dtype, .arg_count = 1, .args = &a};
    if (a->type == dtype) return a;
    if (a->op == HR_OP_CONVERT && a->dtype == dtype) return a;
    return hr_graph_intern(graph, &node);
}

hr_expr *hr_graph_element(hr_graph *graph, int tensor, int count, hr_expr *const *subscripts) {
    return hr_graph_intern(graph, &(hr_expr){.op = HR_OP_ELEMENT,
                                             .type = hr_compute_type(graph->function->tensors[tensor].dtype),
                                             .tensor = tensor,
                                             .arg_count = count,
                                             .args = (hr_expr **)subscripts});
}

hr_expr *hr_graph_reduce(hr_graph *graph, hr_op op, hr_dtype type, int count, const int *bound,
                         hr_expr *body) {
    return hr_graph_intern(graph, &(hr_expr){.op = op,
                                             .type = type,
                                             .arg_count = 1,
                                             .args = &body,
                                             .bound_count = count,
                                             .bound = (int *)bound});
}

hr_expr *hr_graph_with_args(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    hr_expr model = *node;
    model.args = (hr_expr **)args;
    return hr_graph_intern(graph, &model);
}

/* ---- indices, locals, statements ---- */

int hr_graph_add_index(hr_graph *graph, const char *name, hr_expr *extent) {
    hr_function *function = graph->function;
    void *data =
        grow(graph, function->indices, function->index_count, &graph->index_capacity, sizeof(hr_index));
    if (!data) return 0;
    function->indices = data;
    function->indices[function->index_count] = (hr_index){.name = name, .extent = extent};
    return function->index_count++;
}

int hr_graph_add_local(hr_graph *graph, const char *name, hr_dtype dtype, int rank, hr_expr *const *shape,
                       int storage) {
    hr_function *function = graph->function;
    int count = function->tensor_count, capacity = graph->tensor_capacity;
    void *tensors = grow(graph, function->tensors, count, &capacity, sizeof(hr_tensor));
    void *storages = grow(graph, graph->storage, count, &graph->tensor_capacity, sizeof(int));
    if (!tensors || !storages || hr_arena_room(graph->arena) < GRAPH_RESERVE + (size_t)rank * 8) {
        graph->full = true;
        return 0;
    }
    function->tensors = tensors;
    graph->storage = storages;
    hr_tensor *tensor = &function->tensors[count];
    *tensor = (hr_tensor){.name = name, .role = HR_ROLE_LOCAL, .dtype = dtype, .rank = rank};
    tensor->shape = hr_arena_alloc(graph->arena, (size_t)rank * sizeof *tensor->shape);
    if (rank) memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
    graph->storage[count] = storage < 0 ? count : storage;
    return function->tensor_count++;
}

hr_statement *hr_graph_add_statement(hr_graph *graph, int tensor, int domain_count, const int *domain,
                                     hr_expr *value, hr_place place) {
    hr_function *function = graph->function;
    void *data = grow(graph, function->statements, function->statement_count, &graph->statement_capacity,
                      sizeof(hr_statement));
    if (!data || hr_arena_room(graph->arena) < GRAPH_RESERVE + (size_t)domain_count * 16) {
        graph->full = true;
        return &graph->nowhere;
    }
    function->statements = data;
    hr_statement *statement = &function->statements[function->statement_count++];
    *statement =
        (hr_statement){.tensor = tensor, .domain_count = domain_count, .value = value, .place = place};
    statement->domain = hr_arena_alloc(graph->arena, (size_t)domain_count * sizeof *domain);
    statement->subscripts =
        hr_arena_alloc(graph->arena, (size_t)domain_count * sizeof *statement->subscripts);
    statement->subscript_count = domain_count;
    for (int i = 0; i < domain_count; i++) {
        statement->domain[i] = domain[i];
        statement->subscripts[i] = hr_graph_index_value(graph, domain[i]);
    }
    return statement;
}

void hr_graph_move_before(hr_graph *graph, int statement, int added) {
    hr_function *function = graph->function;
    for (; added > 0 && !graph->full; added--) {
        hr_statement last = function->statements[function->statement_count - 1];
        memmove(function->statements + statement + 1, function->statements + statement,
                (size_t)(function->statement_count - 1 - statement) * sizeof last);
        function->statements[statement] = last;
    }
}

/* ---- other indices ---- */

typedef struct substitution {
    hr_graph *graph;
    int count;
    const int *from;
    hr_expr *const *to;
} substitution;

static hr_expr *replaced_index(void *context, hr_expr *node) {
    const substitution *s = context;
    for (int i = 0; node->op == HR_OP_INDEX && i < s->count; i++)
        if (s->from[i] == node->index) return s->to[i];
    return NULL;
}

static hr_expr *substituted(void *context, const hr_expr *node, hr_expr *const *args) {
    const substitution *s = context;
    hr_expr model = *node;
    int small[8], *bound = small;
    if (node->bound_count > 8)
        bound = hr_arena_alloc(s->graph->arena, (size_t)node->bound_count * sizeof *bound);
    for (int i = 0; i < node->bound_count; i++) {
        bound[i] = node->bound[i];
        for (int j = 0; j < s->count; j++)
            if (s->from[j] == node->bound[i] && s->to[j]->op == HR_OP_INDEX) bound[i] = s->to[j]->index;
    }
    model.args = (hr_expr **)args;
    model.bound = bound;
    return hr_graph_intern(s->graph, &model);
}

hr_expr *hr_graph_substitute(hr_graph *graph, hr_expr *expr, int count, const int *from, hr_expr *const *to) {
    substitution s = {.graph = graph, .count = count, .from = from, .to = to};
    hr_rewriting rewriting = {.graph = graph, .before = replaced_index, .after = substituted, .context = &s};
    hr_expr *result = hr_rewriting_of(&rewriting, expr);
    hr_rewriting_end(&rewriting);
    return result;
}

/* ---- questions ---- */

hr_status hr_function_points(const hr_function *function, const int *indices, int count,
                             const int64_t *extents, double *out) {
    *out = 1;
    for (int i = 0; i < count; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(function, function->indices[indices[i]].extent, extents, &size));
        *out *= (double)size;
    }
    return HR_OK;
}

bool hr_indices_have(const int *set, int count, int index) {
    for (int i = 0; i < count; i++)
        if (set[i] == index) return true;
    return false;
}

bool hr_indices_same(const int *a, int a_count, const int *b, int b_count) {
    for (int i = 0; i < a_count; i++)
        if (!hr_indices_have(b, b_count, a[i])) return false;
    return a_count == b_count;
}

double hr_indices_points(const int64_t *size, const int *set, int count) {
    double points = 1;
    for (int i = 0; i < count; i++)
        points *= (double)size[set[i]];
    return points;
}

static hr_visit mark_index(void *context, const hr_expr *node) {
    bool *seen = context;
    if (node->op == HR_OP_INDEX) seen[node->index] = true;
    for (int i = 0; i < node->bound_count; i++)
        seen[node->bound[i]] = true;
    return HR_VISIT_ON;
}

void hr_expr_mark_indices(const hr_expr *expr, bool *seen) {
    hr_expr_visit(expr, mark_index, seen);
}

static hr_visit mark_tensor(void *context, const hr_expr *node) {
    if (node->op == HR_OP_ELEMENT) ((bool *)context)[node->tensor] = true;
    return HR_VISIT_ON;
}

void hr_expr_mark_read(const hr_expr *expr, bool *read) {
    hr_expr_visit(expr, mark_tensor, read);
}

static hr_visit is_random(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_RANDOM);
}

bool hr_expr_draws(const hr_expr *expr) {
    return hr_expr_find(expr, is_random, NULL);
}

static hr_visit is_not_constant(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op != HR_OP_NUMBER && node->op != HR_OP_EXTENT && node->op != HR_OP_ADD &&
                          node->op != HR_OP_SUB && node->op != HR_OP_MUL && node->op != HR_OP_NEG &&
                          node->op != HR_OP_FLOORDIV);
}

static bool is_constant(const hr_expr *expr) {
    return !hr_expr_find(expr, is_not_constant, NULL);
}

/* Of a sum the parts are looked at in turn, of a product the part that is not constant. */
static hr_visit is_not_affine(const hr_expr *node, const void *nothing) {
    (void)nothing;
    if (!is_whole(node->type)) return HR_VISIT_STOP;
    switch (node->op) {
    case HR_OP_INDEX:
        return HR_VISIT_PAST;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_NEG:
        return HR_VISIT_ON;
    case HR_OP_MUL:
        if (!is_constant(node->args[0]) && !is_constant(node->args[1])) return HR_VISIT_STOP;
        return HR_VISIT_ON;
    default:
        return is_constant(node) ? HR_VISIT_PAST : HR_VISIT_STOP;
    }
}

bool hr_expr_is_affine(const hr_expr *expr) {
    return !hr_expr_find(expr, is_not_affine, NULL);
}

bool hr_subscript_is_safe(const hr_function *function, const hr_expr *subscript, const hr_expr *axis_extent) {
    if (subscript->op == HR_OP_INDEX) return function->indices[subscript->index].extent == axis_extent;
    return subscript->op == HR_OP_NUMBER && axis_extent->op == HR_OP_NUMBER && subscript->whole >= 0 &&
           subscript->whole < axis_extent->whole;
}

bool hr_element_is_checked(const hr_function *function, const hr_expr *element) {
    const hr_tensor *tensor = &function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        if (hr_subscript_is_safe(function, element->args[a], tensor->shape[a])) continue;
        if (hr_element_is_guarded(function, element) || !hr_expr_is_affine(element->args[a])) return true;
    }
    return false;
}
