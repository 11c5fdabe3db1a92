/* What a plan takes for granted of the extents. In: choices. Out: assumptions, and words. See assumption.h.
 */
#include "plan/assumption.h"

#include "ir/extent_form.h"
#include "ir/function_text.h"
#include "ir/visit.h"
#include "plan/whole_range.h"

enum { WORDS_MOST = 200 };

bool hr_assumption_holds(const hr_function *function, const hr_assumption *assumption,
                         const int64_t *extents) {
    const interval value = hr_whole_range_of(function, extents, assumption->value);
    if (!assumption->least) return value.known;
    return interval_within(value, hr_whole_range_of(function, extents, assumption->least),
                           hr_whole_range_of(function, extents, assumption->most));
}

/* Of an element the subscripts are no part of its interval, of WHERE the condition is none. */
static hr_visit is_expr(const hr_expr *node, const void *expr) {
    if (node == expr) return HR_VISIT_STOP;
    return node->op == HR_OP_ELEMENT || node->op == HR_OP_WHERE ? HR_VISIT_PAST : HR_VISIT_ON;
}

/* What an assumption says of a value it says of all that the value is computed from. */
static bool is_said(const hr_graph *graph, const hr_assumption *assumption) {
    for (const hr_assumption *a = graph->assumptions; a; a = a->next) {
        if (!assumption->least && hr_expr_find(a->value, is_expr, assumption->value)) return true;
        if (a->value == assumption->value && a->least == assumption->least && a->most == assumption->most)
            return true;
    }
    return false;
}

void hr_assume(hr_graph *graph, const hr_expr *value, const hr_expr *least, const hr_expr *most) {
    const hr_assumption assumption = {value, least, most, graph->assumptions};
    if (hr_assumption_holds(graph->function, &assumption, NULL) || is_said(graph, &assumption)) return;
    hr_assumption *kept = hr_arena_alloc(graph->arena, sizeof *kept);
    *kept = assumption;
    graph->assumptions = kept;
}

void hr_assume_fits(hr_graph *graph, const hr_expr *value) {
    hr_assume(graph, value, NULL, NULL);
}

void hr_assume_fixed(hr_graph *graph) {
    for (int e = 0; graph->fixed && e < graph->function->extent_count; e++) {
        if (!graph->fixed_extent[e]) continue;
        const hr_expr *number = hr_graph_whole(graph, graph->fixed[e]);
        hr_assume(graph, graph->fixed_extent[e], number, number);
    }
}

void hr_assumption_words(const hr_function *function, const hr_assumption *assumption, hr_text *out) {
    if (!assumption->least) hr_text_format(out, "every part of ");
    hr_expr_append(function, assumption->value, WORDS_MOST, out);
    if (!assumption->least) {
        hr_text_format(out, " stays below 2^30");
        return;
    }
    if (hr_extent_identical(assumption->least, assumption->most)) {
        hr_text_format(out, " is ");
    } else {
        hr_text_format(out, " stays from ");
        hr_extent_append(function, assumption->least, WORDS_MOST, out);
        hr_text_format(out, " to ");
    }
    hr_extent_append(function, assumption->most, WORDS_MOST, out);
}
