/* Guards that these extents make needless. In: a normalised graph and numbers for extents. Out: elements that
 * stay inside their axes wherever they are read, without the guard.
 *
 * A guard makes an element depend on all that its condition does: `k[b, h // G, j, d]` under `where(j <= i,
 * ...)` would be another one for each i, and no operand of a product. What is not a plain sum of indices is
 * compared with its axis as the kernel runs, with a guard or without: a text that is emitted for these
 * extents and called with others says so of an element that it does not choose, too, and reads none outside.
 */
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>

typedef struct guards {
    hr_graph *graph;
    const int64_t *extents;
    hr_expr **plain; /* by expr id: what becomes of it; NULL = not known yet */
} guards;

/* NaN: not known. */
typedef struct interval {
    double low, high;
} interval;

static const interval unknown = {NAN, NAN};

static interval between(double a, double b) {
    return (interval){fmin(a, b), fmax(a, b)};
}

enum { LEVELS = 8 }; /* of a subscript: it may be a graph that is as deep as the text is long */

static interval range_of(const guards *g, const hr_expr *node, int levels);

/* By a whole number above 0. */
static interval divided(interval a, interval b, bool remainder) {
    const double by = b.low;
    if (!(by > 0) || by != b.high || isnan(a.low)) return unknown;
    if (!remainder) return (interval){floor(a.low / by), floor(a.high / by)};
    return a.low >= 0 && a.high < by ? a : (interval){0, by - 1};
}

static interval product(interval a, interval b) {
    const interval first = between(a.low * b.low, a.high * b.high),
                   second = between(a.low * b.high, a.high * b.low);
    return (interval){fmin(first.low, second.low), fmax(first.high, second.high)};
}

static interval combined(const guards *g, const hr_expr *node, int levels) {
    const interval a = range_of(g, node->args[0], levels),
                   b = node->arg_count > 1 ? range_of(g, node->args[1], levels) : (interval){0, 0};
    if (isnan(a.low) || isnan(b.low)) return unknown;
    switch (node->op) {
    case HR_OP_ADD:
        return (interval){a.low + b.low, a.high + b.high};
    case HR_OP_SUB:
        return (interval){a.low - b.high, a.high - b.low};
    case HR_OP_MUL:
        return product(a, b);
    case HR_OP_FLOORDIV:
        return divided(a, b, false);
    case HR_OP_MOD:
        return divided(a, b, true);
    case HR_OP_MIN:
        return (interval){fmin(a.low, b.low), fmin(a.high, b.high)};
    case HR_OP_MAX:
        return (interval){fmax(a.low, b.low), fmax(a.high, b.high)};
    default:
        return unknown;
    }
}

static interval range_of(const guards *g, const hr_expr *node, int levels) {
    const hr_function *function = g->graph->function;
    const hr_expr *size = node->op == HR_OP_INDEX ? function->indices[node->index].extent : node;
    int64_t value;
    if (node->op == HR_OP_NUMBER) return (interval){(double)node->whole, (double)node->whole};
    if (node->op != HR_OP_INDEX && node->op != HR_OP_EXTENT)
        return levels && node->arg_count ? combined(g, node, levels - 1) : unknown;
    if (hr_extent_value(function, size, g->extents, &value) != HR_OK) return unknown;
    return node->op == HR_OP_INDEX ? (interval){0, fmax((double)value - 1, 0)}
                                   : (interval){(double)value, (double)value};
}

/* Each subscript cannot leave its axis, or does not at these extents and is compared all the same. */
static bool stays_inside(const guards *g, const hr_expr *element) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        int64_t size;
        if (hr_subscript_is_safe(function, subscript, tensor->shape[a])) continue;
        if (hr_expr_is_affine(subscript)) return false;
        if (hr_extent_value(function, tensor->shape[a], g->extents, &size) != HR_OK) return false;
        const interval range = range_of(g, subscript, LEVELS);
        if (!(range.low >= 0 && range.high < (double)size)) return false;
    }
    return true;
}

static hr_expr *without(guards *g, hr_expr *node) {
    if (g->plain[node->id]) return g->plain[node->id];
    hr_expr *args[HR_AXES_MAX + 1], *result = node;
    bool changed = false;
    for (int i = 0; i < node->arg_count; i++) {
        args[i] = without(g, node->args[i]);
        changed = changed || args[i] != node->args[i];
    }
    const hr_function *function = g->graph->function;
    if (node->op == HR_OP_ELEMENT && hr_element_is_guarded(function, node) && stays_inside(g, node)) {
        const hr_place place = node->place;
        result = hr_graph_element(g->graph, node->tensor, function->tensors[node->tensor].rank, args);
        result->place = place;
    } else if (changed)
        result = hr_graph_with_args(g->graph, node, args);
    return g->plain[node->id] = result;
}

hr_status hr_pass_guards(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    guards g = {.graph = graph, .extents = extents};
    g.plain = calloc((size_t)function->expr_count + 1, sizeof(hr_expr *));
    if (!g.plain) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int i = 0; i < function->statement_count; i++)
        function->statements[i].value = without(&g, function->statements[i].value);
    free(g.plain);
    return hr_graph_status(graph);
}
