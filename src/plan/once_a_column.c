/* What is the same for all tasks of a column. In: a unified graph. Out: the same, where that is a local of
 * its own.
 *
 * A norm over an axis that is not the last divides by the root of each column's variance: for a lane, that is
 * a division and a root for every task, which take longer than the element itself does to arrive. What rows
 * need is one a task, and computed once as it is.
 */
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { TASKS_LEAST = 4 }; /* for which it would be computed anew */

/* What a value depends on: nothing, the place that one element of a local has, or more. */
typedef enum dependence { ON_NOTHING, ON_COLUMN, ON_MORE } dependence;

typedef struct seen {
    dependence depends;
    const hr_expr *element; /* ON_COLUMN: such an element */
    bool dear;              /* a division, a root or a function is in it */
    hr_expr *local;         /* of any statement: the element that stands for it */
} seen;

typedef struct finder {
    hr_graph *graph;
    const int64_t *extents;
    hr_statement statement; /* at hand: what is known is of its nodes */
    seen *seen;             /* by expr id */
    int capacity;
    int added; /* statements that come before the one at hand */
} finder;

/* ---- what depends on what ---- */

static bool is_place(const hr_function *function, const hr_expr *element) {
    const hr_tensor *tensor = &function->tensors[element->tensor];
    if (tensor->role != HR_ROLE_LOCAL || tensor->rank == 0 || hr_element_is_guarded(function, element))
        return false;
    for (int a = 0; a < tensor->rank; a++)
        if (element->args[a]->op != HR_OP_INDEX) return false;
    return true;
}

static bool have_same_place(const hr_function *function, const hr_expr *a, const hr_expr *b) {
    int rank = function->tensors[a->tensor].rank;
    if (rank != function->tensors[b->tensor].rank) return false;
    return !memcmp(a->args, b->args, (size_t)rank * sizeof *a->args);
}

static bool is_dear(const hr_expr *node) {
    return node->op == HR_OP_DIV || hr_op_info_of(node->op)->special != HR_SPECIAL_NONE;
}

/* After the node's arguments. */
static void look(void *context, const hr_expr *node) {
    finder *f = context;
    const hr_function *function = f->graph->function;
    seen *s = &f->seen[node->id];
    *s = (seen){.depends = ON_NOTHING, .local = s->local};
    if (node->op == HR_OP_ELEMENT && function->tensors[node->tensor].rank) {
        s->depends = is_place(function, node) ? ON_COLUMN : ON_MORE;
        s->element = node;
        return;
    }
    if (node->op == HR_OP_INDEX || node->op == HR_OP_RANDOM || hr_op_is_reduction(node->op))
        s->depends = ON_MORE;
    for (int i = 0; i < node->arg_count; i++) {
        const seen *argument = &f->seen[node->args[i]->id];
        if (argument->depends == ON_NOTHING) continue;
        bool differs = s->depends == ON_COLUMN && argument->depends == ON_COLUMN &&
                       !have_same_place(function, s->element, argument->element);
        s->depends = differs || s->depends == ON_MORE ? ON_MORE : argument->depends;
        s->element = argument->element;
        s->dear = s->dear || argument->dear;
    }
    s->dear = s->dear || is_dear(node);
}

/* ---- what is worth a local ---- */

/* Some element of more axes has the same last subscript: lanes run along the column's place. */
typedef struct column {
    const hr_function *function;
    const hr_expr *place;
} column;

static hr_visit runs_along(const hr_expr *node, const void *context) {
    const column *c = context;
    const int rank = c->function->tensors[c->place->tensor].rank;
    const int axes = node->op == HR_OP_ELEMENT ? c->function->tensors[node->tensor].rank : 0;
    return hr_visit_until(axes > rank && node->args[axes - 1] == c->place->args[rank - 1]);
}

static bool has_lanes(const finder *f, const hr_expr *place) {
    return hr_expr_find(f->statement.value, runs_along, &(column){f->graph->function, place});
}

/* How often the statement would compute it. */
static double times(const finder *f, const hr_expr *place) {
    const hr_function *function = f->graph->function;
    const hr_statement *s = &f->statement;
    int indices[HR_AXES_MAX], rank = function->tensors[place->tensor].rank;
    double all, bound, once;
    for (int a = 0; a < rank; a++)
        indices[a] = place->args[a]->index;
    if (hr_function_points(function, s->domain, s->domain_count, f->extents, &all) != HR_OK ||
        hr_function_points(function, s->value->bound, s->value->bound_count, f->extents, &bound) != HR_OK ||
        hr_function_points(function, indices, rank, f->extents, &once) != HR_OK)
        return 0;
    return once > 0 ? all * bound / once : 0;
}

static hr_expr *make_local(finder *f, const hr_expr *node, const hr_expr *place) {
    hr_graph *graph = f->graph;
    const hr_tensor *made = &graph->function->tensors[place->tensor];
    int rank = made->rank, domain[HR_AXES_MAX];
    for (int a = 0; a < rank; a++)
        domain[a] = place->args[a]->index;
    const char *name = hr_arena_format(graph->arena, "%.40s_once", made->name);
    int tensor = hr_graph_add_local(graph, name, HR_F32, rank, made->shape, -1);
    hr_place where = f->statement.place;
    hr_graph_add_statement(graph, tensor, rank, domain, (hr_expr *)node, where);
    f->added++;
    return hr_graph_element(graph, tensor, rank, place->args);
}

static hr_expr *rewrite(void *context, hr_expr *node) {
    finder *f = context;
    seen *s = &f->seen[node->id];
    if (s->local) return s->local;
    if (node->op == HR_OP_ELEMENT) return node;
    if (s->depends != ON_COLUMN || !s->dear || node->type != HR_F32 || !has_lanes(f, s->element) ||
        times(f, s->element) < TASKS_LEAST)
        return NULL;
    return s->local = make_local(f, node, s->element);
}

/* ---- statements ---- */

/* Room for all expressions that there are. */
static bool grow(finder *f) {
    int count = f->graph->function->expr_count + 1;
    if (count <= f->capacity) return true;
    seen *more = hr_memory_resize(f->seen, (size_t)count * 2 * sizeof *more);
    if (!more) return false;
    memset(more + f->capacity, 0, (size_t)(count * 2 - f->capacity) * sizeof *more);
    f->seen = more;
    f->capacity = count * 2;
    return true;
}

hr_status hr_pass_once_a_column(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    finder f = {.graph = graph, .extents = extents};
    bool memory = true;
    for (int i = 0; i < function->statement_count && !graph->full; i++) {
        memory = grow(&f);
        if (!memory) break;
        f.statement = function->statements[i];
        f.added = 0;
        hr_walk walk = {.leave = look, .context = &f};
        hr_walk_through(&walk, f.statement.value);
        hr_walk_end(&walk); /* what is known is known again */
        hr_rewriting rewriting = {.graph = graph, .before = rewrite, .context = &f};
        function->statements[i].value = hr_rewriting_of(&rewriting, f.statement.value);
        hr_rewriting_end(&rewriting);
        hr_graph_move_before(graph, i, f.added);
        i += f.added;
    }
    free(f.seen);
    return memory ? hr_graph_status(graph) : hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
}
