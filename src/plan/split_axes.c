/* Axes that are counted in groups: heads that share keys, `k[b, h // (H // J), t, d]`. In: a normalised graph
 * and numbers for extents. Out: the same, where such an index is two, the group and the place in it, and so
 * are the axes that it walks: an array without gaps is the same with one axis or two.
 *
 * So what a group shares is read once for all of it, and what were vectors times a matrix is a product. Where
 * a target asks for it, heads that share nothing are groups of one: the one query of a head is a product's
 * only row then.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/assumption.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { SPLITS_MOST = 4 };

typedef struct splitting {
    hr_graph *graph;
    const int64_t *extents;
    const hr_plan *plan;
    int first;            /* the index that it begins with; -1 = none was found */
    int query;            /* of groups of one the tensor of queries; -1 = groups are the text's */
    hr_expr *groups, *by; /* of the axis: groups and elements of a group */
    int64_t size;         /* of the axis */
    bool *index;          /* by index: it walks a split axis */
    bool *axis;           /* by tensor * HR_AXES_MAX + axis */
    int *group, *place;   /* by index: what it becomes */
    hr_rewriting rewriting;
    bool changed, good;
} splitting;

static bool value_of(const splitting *s, const hr_expr *extent, int64_t *out) {
    return hr_extent_value(s->graph->function, extent, s->extents, out) == HR_OK;
}

/* ---- where one begins ---- */

static hr_visit is_other(const hr_expr *node, const void *context) {
    (void)context;
    return hr_visit_until(node->op == HR_OP_NUMBER ? node->type != HR_I64
                                                   : node->op != HR_OP_EXTENT && node->op != HR_OP_FLOORDIV &&
                                                         node->op != HR_OP_MUL);
}

/* Products and quotients of whole numbers and extents, and nothing else. */
static bool is_of_extents(const hr_expr *node) {
    return !hr_expr_find(node, is_other, NULL);
}

/* The subscript counts groups, as many as its axis has. */
static bool counts_groups(const splitting *s, const hr_expr *subscript, hr_expr *axis) {
    int64_t by, size, groups;
    if (subscript->op != HR_OP_FLOORDIV || subscript->args[0]->op != HR_OP_INDEX) return false;
    const hr_expr *extent = s->graph->function->indices[subscript->args[0]->index].extent;
    return is_of_extents(subscript->args[1]) && value_of(s, subscript->args[1], &by) &&
           value_of(s, extent, &size) && value_of(s, axis, &groups) &&
           by >= (hr_plan_knows(s->plan, HR_FACT_FEW_QUERIES) ? 1 : 2) && groups > 0 && groups * by == size;
}

static hr_visit find_division(void *context, const hr_expr *node) {
    splitting *s = context;
    const hr_tensor *tensor = node->op == HR_OP_ELEMENT ? &s->graph->function->tensors[node->tensor] : NULL;
    for (int a = 0; tensor && a < tensor->rank; a++)
        if (counts_groups(s, node->args[a], tensor->shape[a])) {
            s->groups = tensor->shape[a];
            s->by = node->args[a]->args[1];
            s->first = node->args[a]->args[0]->index;
            return HR_VISIT_STOP;
        }
    return HR_VISIT_ON;
}

/* A sum of products that is no product of matrices as it stands. */
static bool is_lone(const splitting *s, const hr_statement *statement) {
    hr_contract found;
    const hr_expr *value = statement->value;
    return value->op == HR_OP_REDUCE_SUM && value->args[0]->op == HR_OP_MUL &&
           !hr_contract_match(s->graph, statement, HR_FACT_BYTE_PRODUCTS, &found);
}

static bool is_narrow(const splitting *s, const hr_expr *factor) {
    if (factor->op != HR_OP_ELEMENT) return false;
    const hr_dtype dtype = s->graph->function->tensors[factor->tensor].dtype;
    return hr_dtype_is_float(dtype) && hr_dtype_size(dtype) <= 2;
}

/* Elements of 16 bits or 8, of which one alone walks the last index: queries and keys. */
static bool has_keys(const splitting *s, const hr_statement *statement) {
    const hr_expr *product = statement->value->args[0];
    const int last = statement->domain_count ? statement->domain[statement->domain_count - 1] : -1;
    return last >= 0 && is_narrow(s, product->args[0]) && is_narrow(s, product->args[1]) &&
           product->args[0]->tensor != product->args[1]->tensor &&
           hr_expr_has_index(product->args[0], last) != hr_expr_has_index(product->args[1], last);
}

static bool has_axis(const hr_expr *element, int index) {
    for (int a = 0; a < element->arg_count; a++)
        if (element->args[a]->op == HR_OP_INDEX && element->args[a]->index == index) return true;
    return false;
}

/* ---- what goes with it ---- */

static bool *axis_of(const splitting *s, int tensor, int axis) {
    return &s->axis[tensor * HR_AXES_MAX + axis];
}

/* A split axis is walked by split indices alone, and such an index walks split axes. Not the last one of an
 * argument, along which lanes are, but where a few queries are a kernel of their own. */
static void meet(splitting *s, int tensor, int axis, const hr_expr *subscript) {
    const bool plain = subscript->op == HR_OP_INDEX;
    bool *split = axis_of(s, tensor, axis);
    const bool walks = plain && s->index[subscript->index];
    int64_t size;
    if (*split == walks) return;
    if (!plain) {
        s->good = false;
        return;
    }
    const hr_function *function = s->graph->function;
    const int memory = s->graph->storage[tensor];
    const bool dense =
        memory >= hr_function_arguments(s->plan->source) || s->plan->layouts[memory] == HR_LAYOUT_DENSE;
    const bool lanes = axis == function->tensors[tensor].rank - 1 &&
                       function->tensors[tensor].role != HR_ROLE_LOCAL &&
                       !hr_plan_knows(s->plan, HR_FACT_FEW_QUERIES);
    if (!dense || lanes || !value_of(s, function->indices[subscript->index].extent, &size) ||
        size != s->size || !value_of(s, function->tensors[tensor].shape[axis], &size) || size != s->size)
        s->good = false;
    *split = s->index[subscript->index] = s->changed = true;
}

static hr_visit meet_all(void *context, const hr_expr *node) {
    splitting *s = context;
    const int rank = node->op == HR_OP_ELEMENT ? s->graph->function->tensors[node->tensor].rank : 0;
    for (int a = 0; a < rank; a++)
        meet(s, node->tensor, a, node->args[a]);
    return HR_VISIT_ON;
}

/* Nothing asks for a split index but axes and the number of its group. */
static hr_visit verify(void *context, const hr_expr *node) {
    splitting *s = context;
    const int rank = node->op == HR_OP_ELEMENT ? s->graph->function->tensors[node->tensor].rank : 0;
    const bool divides = node->op == HR_OP_FLOORDIV && node->args[1] == s->by;
    if (hr_op_is_ordered(node->op) && s->index[node->bound[0]]) s->good = false;
    for (int i = 0; i < node->arg_count; i++) {
        const hr_expr *arg = node->args[i];
        const bool split = arg->op == HR_OP_INDEX && s->index[arg->index];
        if (split && i >= rank && !(divides && i == 0)) s->good = false;
    }
    return HR_VISIT_ON;
}

static void walk_statements(splitting *s, hr_visit (*enter)(void *context, const hr_expr *node)) {
    const hr_function *function = s->graph->function;
    hr_walk walk = {.enter = enter, .context = s};
    for (int i = 0; i < function->statement_count; i++) {
        const hr_statement *statement = &function->statements[i];
        for (int a = 0; a < statement->subscript_count; a++)
            hr_walk_through(&walk, statement->subscripts[a]);
        hr_walk_through(&walk, statement->value);
    }
    hr_walk_end(&walk); /* twice is no harm */
}

/* Marks all that goes together; false where something cannot. */
static bool mark_split(splitting *s) {
    const hr_function *function = s->graph->function;
    for (s->changed = true; s->changed && s->good;) {
        s->changed = false;
        for (int i = 0; i < function->statement_count; i++)
            for (int a = 0; a < function->statements[i].subscript_count; a++)
                meet(s, function->statements[i].tensor, a, function->statements[i].subscripts[a]);
        walk_statements(s, meet_all);
    }
    for (int i = 0; i < function->statement_count; i++) {
        const hr_expr *value = function->statements[i].value;
        if (value->op == HR_OP_INDEX && s->index[value->index]) s->good = false;
    }
    walk_statements(s, verify);
    for (int t = 0; t < function->tensor_count; t++) {
        int rank = function->tensors[t].rank;
        for (int a = 0; a < function->tensors[t].rank; a++)
            rank += *axis_of(s, t, a);
        if (rank > HR_RANK_MAX) s->good = false;
    }
    return s->good;
}

/* ---- the graph after it ---- */

static int *split_indices(splitting *s, const int *from, int *count) {
    int *to = hr_arena_alloc(s->graph->arena, (size_t)(2 * *count + 1) * sizeof *to), made = 0;
    for (int i = 0; i < *count; i++) {
        if (s->index[from[i]]) to[made++] = s->group[from[i]];
        to[made++] = s->index[from[i]] ? s->place[from[i]] : from[i];
    }
    *count = made;
    return to;
}

/* In a group of one, keys have no place of their own: the product's rows are the queries'. */
static hr_expr *place_in(splitting *s, int tensor, int index) {
    const bool shared =
        s->query >= 0 && tensor != s->query && s->graph->function->tensors[tensor].role == HR_ROLE_INPUT;
    return shared ? hr_graph_whole(s->graph, 0) : hr_graph_index_value(s->graph, s->place[index]);
}

/* Places with two subscripts for a split axis. */
static hr_expr **split_subscripts(splitting *s, int tensor, hr_expr *const *from, int count, int *made) {
    hr_expr **to = hr_arena_alloc(s->graph->arena, (size_t)(2 * count + 1) * sizeof *to);
    *made = 0;
    for (int a = 0; a < count; a++) {
        const bool split = from[a]->op == HR_OP_INDEX && s->index[from[a]->index];
        if (split) to[(*made)++] = hr_graph_index_value(s->graph, s->group[from[a]->index]);
        to[(*made)++] = split ? place_in(s, tensor, from[a]->index) : hr_rewriting_of(&s->rewriting, from[a]);
    }
    return to;
}

static hr_expr *group_of(void *context, hr_expr *node) {
    const splitting *s = context;
    if (node->op != HR_OP_FLOORDIV || node->args[0]->op != HR_OP_INDEX || !s->index[node->args[0]->index])
        return NULL;
    return hr_graph_index_value(s->graph, s->group[node->args[0]->index]);
}

static hr_expr *split(void *context, const hr_expr *node, hr_expr *const *args) {
    splitting *s = context;
    int count;
    if (node->op == HR_OP_ELEMENT && node->arg_count) {
        hr_expr **subscripts = split_subscripts(s, node->tensor, node->args, node->arg_count, &count);
        hr_expr *element = hr_graph_element(s->graph, node->tensor, count, subscripts);
        if (!element->place.line) element->place = node->place;
        return element;
    }
    if (!node->bound_count || hr_op_is_ordered(node->op)) return hr_graph_with_args(s->graph, node, args);
    count = node->bound_count;
    const int *bound = split_indices(s, node->bound, &count);
    return hr_graph_reduce(s->graph, node->op, node->type, count, bound, args[0]);
}

static void split_tensors(splitting *s) {
    hr_function *function = s->graph->function;
    for (int t = 0; t < function->tensor_count; t++) {
        hr_tensor *tensor = &function->tensors[t];
        hr_expr **shape = hr_arena_alloc(s->graph->arena, (size_t)(2 * tensor->rank + 1) * sizeof *shape);
        int rank = 0;
        for (int a = 0; a < tensor->rank; a++) {
            const bool split = *axis_of(s, t, a);
            if (split) shape[rank++] = s->groups;
            shape[rank++] = split ? s->by : tensor->shape[a];
        }
        tensor->shape = shape;
        tensor->rank = rank;
    }
}

/* All that walks and all that is walked is `groups` times `by` elements long. */
static void assume_split(const splitting *s) {
    const hr_function *function = s->graph->function;
    const hr_expr *all = hr_graph_binary(s->graph, HR_OP_MUL, HR_I64, s->groups, s->by);
    for (int i = 0; i < function->index_count; i++)
        if (s->index[i]) hr_assume(s->graph, all, function->indices[i].extent, function->indices[i].extent);
    for (int t = 0; t < function->tensor_count; t++)
        for (int a = 0; a < function->tensors[t].rank; a++)
            if (*axis_of(s, t, a))
                hr_assume(s->graph, all, function->tensors[t].shape[a], function->tensors[t].shape[a]);
}

static void split_all(splitting *s) {
    hr_graph *graph = s->graph;
    const int indices = graph->function->index_count;
    assume_split(s);
    for (int i = 0; i < indices; i++) {
        if (!s->index[i]) continue;
        const char *name = graph->function->indices[i].name;
        s->group[i] = hr_graph_add_index(graph, hr_arena_format(graph->arena, "%s_group", name), s->groups);
        s->place[i] = hr_graph_add_index(graph, name, s->by);
    }
    for (int i = 0; i < graph->function->statement_count; i++) {
        hr_statement *statement = &graph->function->statements[i];
        statement->domain = split_indices(s, statement->domain, &statement->domain_count);
        statement->subscripts = split_subscripts(s, statement->tensor, statement->subscripts,
                                                 statement->subscript_count, &statement->subscript_count);
        statement->value = hr_rewriting_of(&s->rewriting, statement->value);
    }
    split_tensors(s);
}

/* Lets go of the marks of what could not be split. */
static void forget(splitting *s) {
    memset(s->index, 0, (size_t)s->graph->function->index_count * sizeof *s->index);
    memset(s->axis, 0, (size_t)s->graph->function->tensor_count * HR_AXES_MAX * sizeof *s->axis);
}

/* The index that was found, with all that goes with it. */
static bool split_first(splitting *s) {
    s->index[s->first] = true;
    s->good = value_of(s, s->graph->function->indices[s->first].extent, &s->size);
    if (!s->good || !mark_split(s)) return false;
    split_all(s);
    return true;
}

/* Indices that both factors of a lone product have on an axis, as groups of one; the last that can be split
 * so. */
static bool split_ones(splitting *s, const hr_statement *statement) {
    const hr_expr *product = statement->value->args[0];
    const int last = statement->domain[statement->domain_count - 1];
    s->query = product->args[hr_expr_has_index(product->args[0], last)]->tensor;
    for (int i = statement->domain_count - 1; i >= 0; i--) {
        s->first = statement->domain[i];
        if (!has_axis(product->args[0], s->first) || !has_axis(product->args[1], s->first)) continue;
        s->groups = s->graph->function->indices[s->first].extent;
        s->by = hr_graph_whole(s->graph, 1);
        if (split_first(s)) return true;
        forget(s);
    }
    return false;
}

static bool split_found(splitting *s) {
    const hr_function *function = s->graph->function;
    for (int i = 0; i < function->statement_count && s->first < 0; i++)
        if (is_lone(s, &function->statements[i]))
            hr_expr_visit(function->statements[i].value, find_division, s);
    if (s->first >= 0) return split_first(s);
    for (int i = 0; i < function->statement_count && hr_plan_knows(s->plan, HR_FACT_FEW_QUERIES); i++)
        if (is_lone(s, &function->statements[i]) && has_keys(s, &function->statements[i]))
            return split_ones(s, &function->statements[i]);
    return false;
}

/* Whether one was found and split. */
static hr_status split_one(splitting *s, bool *any) {
    hr_function *function = s->graph->function;
    const size_t indices = (size_t)function->index_count + 1;
    s->index = hr_memory_zeros(indices, sizeof *s->index);
    s->axis = hr_memory_zeros((size_t)function->tensor_count * HR_AXES_MAX + 1, sizeof *s->axis);
    s->group = hr_memory_zeros(indices, sizeof *s->group);
    s->place = hr_memory_zeros(indices, sizeof *s->place);
    s->rewriting = (hr_rewriting){.graph = s->graph, .before = group_of, .after = split, .context = s};
    const bool there = s->index && s->axis && s->group && s->place;
    *any = there && split_found(s);
    free(s->index);
    free(s->axis);
    free(s->group);
    free(s->place);
    hr_rewriting_end(&s->rewriting);
    return there ? hr_graph_status(s->graph) : hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
}

hr_status hr_pass_split_axes(hr_graph *graph, const int64_t *extents, hr_plan *plan) {
    bool any = true;
    plan->splits = hr_arena_alloc(graph->arena, SPLITS_MOST * sizeof *plan->splits);
    while (any && plan->split_count < SPLITS_MOST) {
        splitting s = {.graph = graph, .extents = extents, .plan = plan, .first = -1, .query = -1};
        HR_TRY(split_one(&s, &any));
        if (any) plan->splits[plan->split_count++] = (hr_split){s.groups, s.by};
    }
    return HR_OK;
}
