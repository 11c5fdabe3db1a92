/* What the backward pass takes of the forward kernel where nobody says: chosen by cost.
 *
 * In: a function. Out: the same with the logsumexp of each softmax as a local, and the names of the locals
 * that are better saved than computed again.
 *
 * A local that is saved is written once and read once. One that is not takes the operations that make it, and
 * what those read. Both are counted on derived kernels themselves, with bytes and operations in one unit, so
 * that what a saved value makes needless counts, too: a product of 1024 terms is saved, statistics of rows
 * are, and scores and what is elementwise are computed again.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "grad/derivation.h"
#include "ir/extent.h"
#include "ir/extent_form.h"
#include "ir/types.h"

#include <string.h>

/* Operations in the time of a byte, below those of processors and GPUs alike but for products, of which a GPU
 * computes more: what is saved must pay there, too. A function takes the time of some bytes. */
static const double products_a_byte = 200, operations_a_byte = 10, bytes_a_function = 2;

/* Extents nobody knows: heads are as small as this where an extent stands in no matrix. */
enum { EXTENT_USUAL = 1024, EXTENT_OF_HEADS = 64, LOCALS_MOST = 64 };

/* ---- values without a name that are worth one ---- */

typedef struct naming {
    hr_graph *graph;
    const hr_statement *statement; /* at hand */
    bool chooses;                  /* it may leave parts of its value unread */
    bool *seen;                    /* by index */
    int count;
    hr_expr *value[LOCALS_MOST], *element[LOCALS_MOST]; /* that have a local now */
} naming;

static hr_visit unsee_bound(void *context, const hr_expr *node) {
    naming *n = context;
    for (int i = 0; i < node->bound_count; i++)
        n->seen[node->bound[i]] = false;
    return HR_VISIT_ON;
}

/* The indices that the value depends on, those of the statement first; -1: too many. */
static int indices_of(naming *n, const hr_expr *value, int *out) {
    const hr_function *function = n->graph->function;
    int count = 0;
    memset(n->seen, 0, (size_t)function->index_count + 1);
    hr_expr_mark_indices(value, n->seen);
    hr_expr_visit(value, unsee_bound, n);
    for (int own = 1; own >= 0; own--)
        for (int i = 0; i < function->index_count && count < HR_RANK_MAX; i++)
            if (n->seen[i] && own == hr_indices_have(n->statement->domain, n->statement->domain_count, i))
                out[count++] = i;
    for (int i = 0; i < function->index_count; i++)
        if (n->seen[i] && !hr_indices_have(out, count, i)) return -1;
    return count;
}

/* An element is not in range just so: a choice around it may say where it is read. */
static hr_visit is_conditional(const hr_expr *node, const void *context) {
    const hr_function *function = context;
    for (int a = 0; node->op == HR_OP_ELEMENT && a < node->arg_count; a++)
        if (node->args[a]->op != HR_OP_INDEX ||
            !hr_extent_identical(function->indices[node->args[a]->index].extent,
                                 function->tensors[node->tensor].shape[a]))
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

/* The element of a local that holds the value; NULL: it can have none. */
static hr_expr *named(naming *n, const char *name, hr_expr *value) {
    hr_graph *graph = n->graph;
    int indices[HR_RANK_MAX];
    hr_expr *shape[HR_RANK_MAX], *subscripts[HR_RANK_MAX];
    for (int i = 0; i < n->count; i++)
        if (n->value[i] == value) return n->element[i];
    const bool read_elsewhere = n->chooses && hr_expr_find(value, is_conditional, graph->function);
    const int count = read_elsewhere || n->count == LOCALS_MOST ? -1 : indices_of(n, value, indices);
    if (count < 0) return NULL;
    for (int i = 0; i < count; i++) {
        shape[i] = graph->function->indices[indices[i]].extent;
        subscripts[i] = hr_graph_index_value(graph, indices[i]);
    }
    const int local = hr_graph_add_local(graph, hr_name_fresh(n->graph, name), value->type, count, shape, -1);
    hr_graph_add_statement(graph, local, count, indices, value, n->statement->place);
    n->value[n->count] = value;
    return n->element[n->count++] = hr_graph_element(graph, local, count, subscripts);
}

static hr_visit is_product(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_REDUCE_SUM && node->args[0]->op == HR_OP_MUL);
}

/* A function of what a matrix product gives: its slope wants that. */
static bool is_activation(const hr_expr *node, const hr_expr *arg) {
    return node->op >= HR_OP_EXP && node->op <= HR_OP_ABS && hr_type_is_float(node->type) &&
           hr_expr_find(arg, is_product, NULL);
}

/* One node, but for those in a reduction. */
static hr_visit is_outside(const hr_expr *node, const void *other) {
    return hr_op_is_reduction(node->op) && node != other ? HR_VISIT_PAST : hr_visit_until(node == other);
}

/* What an activation takes, in the 16 bits of what it gives where these are the statement's own. */
static hr_expr *rounded_as_given(const naming *n, const hr_expr *activation, hr_expr *value) {
    const hr_expr *whole = n->statement->value;
    const hr_tensor *tensor = &n->graph->function->tensors[n->statement->tensor];
    const bool result = tensor->role == HR_ROLE_RESULT &&
                        (tensor->variable || tensor->dtype == HR_BF16 || tensor->dtype == HR_F16);
    if (!(result || hr_rounds_to_half(whole)) || !hr_expr_find(whole, is_outside, activation)) return value;
    return hr_graph_intern(n->graph, &(hr_expr){.op = HR_OP_CONVERT,
                                                .type = value->type,
                                                .dtype = result ? tensor->dtype : whole->dtype,
                                                .variable = result ? tensor->variable : whole->variable,
                                                .arg_count = 1,
                                                .args = &value});
}

static hr_visit is_float_element(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_ELEMENT && hr_type_is_float(node->type));
}

/* Which factor is a sum of products that a gate is multiplied with: the gate's gradient wants that; -1 =
 * none.
 */
static int gated_factor(const hr_expr *node, hr_expr *const *args) {
    for (int i = 0; i < 2 && node->op == HR_OP_MUL; i++)
        if (is_product(args[i], NULL) == HR_VISIT_STOP && hr_expr_find(args[1 - i], is_float_element, NULL))
            return i;
    return -1;
}

static hr_expr *with_names(void *context, const hr_expr *node, hr_expr *const *args) {
    naming *n = context;
    hr_expr *inner[HR_ARGS_MOST];
    const int gated = gated_factor(node, args), arg = gated < 0 ? 0 : gated;
    const bool wanted = gated >= 0 || is_activation(node, args[0]);
    hr_expr *name = wanted ? named(n, "pre", rounded_as_given(n, node, args[arg])) : NULL;
    for (int i = 0; name && i < node->arg_count; i++)
        inner[i] = i == arg ? name : args[i];
    hr_expr *made = hr_graph_with_args(n->graph, node, name ? inner : args);
    if (node->op == HR_OP_SOFTMAX)
        named(n, "lse",
              hr_graph_reduce(n->graph, HR_OP_REDUCE_LOGSUMEXP, node->type, node->bound_count, node->bound,
                              args[0]));
    return made;
}

/* A choice; what stands in a softmax is chosen there, too. */
static hr_visit find_choice(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return node->op == HR_OP_SOFTMAX ? HR_VISIT_PAST : hr_visit_until(node->op == HR_OP_WHERE);
}

/* The function with a local for the logsumexp of each softmax, and for what activations of products take. */
static const hr_function *with_locals(const hr_function *function, hr_arena *arena) {
    hr_graph *graph = hr_graph_create(function, arena);
    graph->keeps_variables = true;
    naming n = {.graph = graph};
    n.seen = hr_arena_alloc(arena, (size_t)function->index_count + 1);
    for (int t = hr_function_arguments(function); t < function->tensor_count; t++) {
        const hr_tensor *local = &function->tensors[t];
        hr_graph_add_local(graph, local->name, local->dtype, local->rank, local->shape, -1);
    }
    hr_rewriting rewriting = {.graph = graph, .after = with_names, .context = &n};
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        const hr_statement *old = &function->statements[s];
        n.statement = old;
        n.chooses = old->store != HR_STORE_WHOLE || hr_expr_find(old->value, find_choice, NULL);
        hr_expr *value = hr_rewriting_of(&rewriting, old->value);
        hr_statement *statement =
            hr_graph_add_statement(graph, old->tensor, old->domain_count, old->domain, value, old->place);
        statement->store = old->store;
        statement->subscript_count = old->subscript_count;
        statement->subscripts =
            hr_arena_alloc(arena, ((size_t)old->subscript_count + 1) * sizeof *old->subscripts);
        for (int a = 0; a < old->subscript_count; a++)
            statement->subscripts[a] = hr_rewriting_of(&rewriting, old->subscripts[a]);
    }
    hr_rewriting_end(&rewriting);
    return n.count && !graph->full ? graph->function : function;
}

/* ---- what it costs ---- */

typedef struct weighing {
    const hr_function *function;
    hr_gradient_options options;
    int64_t *extents;
    int count; /* of locals that may be saved */
    int locals[LOCALS_MOST];
    bool saved[LOCALS_MOST];
    char *list; /* their names, with commas */
    double least;
} weighing;

static hr_visit note_matrix(void *context, const hr_expr *node) {
    weighing *w = context;
    if (node->op == HR_OP_EXTENT) w->extents[node->extent] = EXTENT_USUAL;
    return HR_VISIT_ON;
}

static void extents_choose(weighing *w) {
    const hr_function *function = w->function;
    for (int i = 0; i < function->extent_count; i++)
        w->extents[i] = EXTENT_OF_HEADS;
    for (int t = 0; t < hr_function_arguments(function); t++)
        for (int a = 0; a < function->tensors[t].rank && function->tensors[t].rank <= 2; a++)
            hr_expr_visit(function->tensors[t].shape[a], note_matrix, w);
}

static void list_write(weighing *w) {
    char *at = w->list;
    *at = 0;
    for (int i = 0; i < w->count; i++) {
        if (!w->saved[i]) continue;
        const char *name = w->function->tensors[w->locals[i]].name;
        if (at != w->list) *at++ = ',';
        memcpy(at, name, strlen(name) + 1);
        at += strlen(name);
    }
}

void hr_saved_as(const hr_function *source, int local, hr_tensor *out) {
    *out = source->tensors[local];
    out->role = HR_ROLE_RESULT;
    for (int s = 0; s < source->statement_count; s++) {
        const hr_expr *value = source->statements[s].value;
        if (source->statements[s].tensor != local || !hr_rounds_to_half(value)) continue;
        out->dtype = value->dtype;
        out->variable = value->variable;
    }
}

/* Of an array of that shape. */
static bool bytes_of(const weighing *w, const hr_tensor *tensor, double *out) {
    *out = (double)hr_dtype_size(tensor->dtype);
    for (int a = 0; a < tensor->rank; a++) {
        int64_t size;
        if (hr_extent_value(w->function, tensor->shape[a], w->extents, &size) != HR_OK) return false;
        *out *= (double)size;
    }
    return true;
}

/* In bytes: what the forward kernel writes more, and what the backward one asks for. False: it cannot be
 * derived so. */
static bool cost(weighing *w, double *out) {
    hr_work work;
    list_write(w);
    if (hr_gradient_work(w->function, &w->options, w->extents, &work) != HR_OK) return false;
    *out = work.bytes_read + work.bytes_written + work.tensor_flops / products_a_byte +
           work.vector_flops / operations_a_byte;
    for (int s = 0; s < HR_SPECIAL_COUNT; s++)
        *out += work.special[s] * bytes_a_function;
    for (int i = 0; i < w->count; i++) {
        hr_tensor local;
        double bytes;
        if (!w->saved[i]) continue;
        hr_saved_as(w->function, w->locals[i], &local);
        if (!bytes_of(w, &local, &bytes)) return false;
        *out += bytes;
    }
    return true;
}

/* Whether it is better the other way. */
static void reconsider(weighing *w, int i) {
    double changed;
    w->saved[i] = !w->saved[i];
    if (cost(w, &changed) && changed < w->least)
        w->least = changed;
    else
        w->saved[i] = !w->saved[i];
}

/* Scores are never saved, and keys are as many as rows of a matrix. */
static void locals_find(weighing *w, hr_arena *arena) {
    const hr_function *function = w->function;
    bool *scores = hr_arena_alloc(arena, (size_t)function->tensor_count + 1);
    bool *keys = hr_arena_alloc(arena, (size_t)function->extent_count + 1);
    const bool attention = hr_scores_find(function, scores, keys);
    for (int s = 0; s < function->statement_count; s++) {
        const int tensor = function->statements[s].tensor;
        if (function->tensors[tensor].role == HR_ROLE_LOCAL && w->count < LOCALS_MOST &&
            function->statements[s].store == HR_STORE_WHOLE && !(attention && scores[tensor]) &&
            hr_type_is_float(function->tensors[tensor].dtype))
            w->locals[w->count++] = tensor;
    }
    for (int i = 0; i < function->extent_count; i++)
        if (attention && keys[i]) w->extents[i] = EXTENT_USUAL;
}

/* ---- all of it ---- */

static void choose(weighing *w, hr_arena *arena) {
    extents_choose(w);
    locals_find(w, arena);
    if (!w->count || !cost(w, &w->least)) return;
    for (int i = 0; i < w->count; i++)
        reconsider(w, i);
    for (int i = 0; i < w->count; i++) /* one that is needless since others are saved */
        if (w->saved[i]) reconsider(w, i);
}

hr_status hr_gradient_choose(const hr_function *function, const hr_gradient_options *options, hr_arena *arena,
                             hr_gradient_choice *out) {
    const long before = hr_memory_wants();
    size_t room = 1;
    *out = (hr_gradient_choice){.function = function, .options = *options};
    if (options->save) return HR_OK;
    weighing w = {.function = with_locals(function, arena), .options = *options};
    for (int t = 0; t < w.function->tensor_count; t++)
        room += strlen(w.function->tensors[t].name) + 1;
    w.list = hr_arena_alloc(arena, room);
    w.extents = hr_arena_alloc(arena, ((size_t)function->extent_count + 1) * sizeof *w.extents);
    w.options.save = w.list;
    choose(&w, arena);
    HR_TRY(hr_memory_status(before, "deriving a kernel"));
    list_write(&w);
    out->function = *w.list ? w.function : function;
    out->options = w.options;
    out->chosen = true;
    return HR_OK;
}
