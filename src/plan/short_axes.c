/* A window whose length is an extent, and short. In: a checked function and numbers for its extents. Out:
 * which extents are taken as numbers.
 *
 * The taps of a convolution, w[d, k] * x[l + k], are a row of K elements for each element of the result,
 * where K may be anything. Of the few that K mostly is, lanes run along the result, and each is a term of its
 * own (write_sums.c): that is planned where K is short, and holds for that K.
 */
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { TAPS_MOST = 16 }; /* as many terms as write_sums.c writes out */

typedef struct finder {
    const hr_function *function;
    const int64_t *extents;
    int64_t *fixed;
    bool *seen; /* by index */
    int found;
} finder;

/* A subscript walks the index and others together. */
typedef struct walked {
    finder *f;
    int index;
} walked;

static hr_visit is_window(const hr_expr *node, const void *context) {
    const walked *w = context;
    const hr_function *function = w->f->function;
    for (int a = 0; node->op == HR_OP_ELEMENT && a < node->arg_count; a++) {
        int others = 0;
        memset(w->f->seen, 0, (size_t)function->index_count * sizeof *w->f->seen);
        hr_expr_mark_indices(node->args[a], w->f->seen);
        for (int i = 0; i < function->index_count; i++)
            others += w->f->seen[i] && i != w->index;
        if (w->f->seen[w->index] && others) return HR_VISIT_STOP;
    }
    return HR_VISIT_ON;
}

static void look_at(void *context, const hr_expr *node) {
    finder *f = context;
    for (int i = 0; hr_op_is_reduction(node->op) && i < node->bound_count; i++) {
        const hr_expr *extent = f->function->indices[node->bound[i]].extent;
        if (extent->op != HR_OP_EXTENT) continue;
        const int64_t size = f->extents[extent->extent];
        if (size < 1 || size > TAPS_MOST) continue;
        if (!hr_expr_find(node->args[0], is_window, &(walked){f, node->bound[i]})) continue;
        f->fixed[extent->extent] = size;
        f->found++;
    }
}

const int64_t *hr_short_axes(const hr_function *function, const int64_t *extents, hr_arena *arena) {
    finder f = {.function = function, .extents = extents};
    f.fixed = hr_arena_alloc(arena, (size_t)(function->extent_count + 1) * sizeof *f.fixed);
    f.seen = hr_arena_alloc(arena, (size_t)(function->index_count + 1) * sizeof *f.seen);
    for (int e = 0; e < function->extent_count; e++)
        f.fixed[e] = HR_EXTENT_UNKNOWN;
    hr_walk walk = {.leave = look_at, .context = &f};
    for (int s = 0; s < function->statement_count; s++)
        hr_walk_through(&walk, function->statements[s].value);
    hr_walk_end(&walk);
    return f.found ? f.fixed : NULL;
}
