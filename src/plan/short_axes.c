/* Axes whose length is an extent, and short. In: a checked function and numbers for its extents. Out: which
 * extents are taken as numbers.
 *
 * The taps of a convolution, w[d, k] * x[l + k], are a row of K elements for each element of the result,
 * where K may be anything. Of the few that K mostly is, lanes run along the result, and each is a term of its
 * own (write_sums.c): that is planned where K is short, and holds for that K. So it is for the sum of a row
 * of three, and of three rows, each an element of the result. Whatever else is made of rows of three, as
 * softmax or a map, is less than a vector of each: loops whose length is a number are written out.
 */
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

/* As many terms as write_sums.c writes out; of rows that are added up, which may be a batch, no more than pay
 * for a plan of their own. */
enum { TAPS_MOST = 16, ROW_MOST = 8, ROWS_MOST = 4 };

typedef struct finder {
    const hr_function *function;
    const int64_t *extents;
    bool rows; /* lanes run along rows, and what is made of short ones is written out, too */
    const hr_statement *statement; /* in hand */
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

/* An element of as many axes as the statement and the sum have indices, that is read as it lies. */
static hr_visit is_largest(const hr_expr *node, const void *context) {
    if (hr_op_is_reduction(node->op)) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    bool plain = node->arg_count == *(const int *)context;
    for (int a = 0; a < node->arg_count && plain; a++)
        plain = node->args[a]->op == HR_OP_INDEX;
    return plain ? HR_VISIT_STOP : HR_VISIT_PAST;
}

static int64_t most_of(const finder *f, const hr_expr *reduction, int index) {
    const bool terms = reduction->op == HR_OP_REDUCE_SUM || reduction->op == HR_OP_REDUCE_MEAN ||
                       reduction->op == HR_OP_REDUCE_MAX || reduction->op == HR_OP_REDUCE_MIN ||
                       reduction->op == HR_OP_REDUCE_PROD || reduction->op == HR_OP_REDUCE_LOGSUMEXP ||
                       hr_op_finds_position(reduction->op);
    if (hr_expr_find(reduction->args[0], is_window, &(walked){(finder *)f, index})) return TAPS_MOST;
    if (!terms || !f->rows || !f->statement->domain_count) return 0;
    const int indices = f->statement->domain_count + reduction->bound_count;
    const hr_expr *largest = hr_expr_find(reduction->args[0], is_largest, &indices);
    if (!largest) return 0;
    return largest->args[largest->arg_count - 1]->index == index ? ROW_MOST : ROWS_MOST;
}

/* Up to `most` an index is as long as a number says. */
static void fix(finder *f, int index, int64_t most) {
    const hr_expr *extent = f->function->indices[index].extent;
    if (extent->op != HR_OP_EXTENT) return;
    const int64_t size = f->extents[extent->extent];
    if (size < 1 || size > most) return;
    f->fixed[extent->extent] = size;
    f->found++;
}

/* Rows of an array that is given, read as they lie, an element for each of the statement: the operands of a
 * product are none. */
static void look_at_rows(finder *f, const hr_expr *element) {
    const hr_tensor *tensor = &f->function->tensors[element->tensor];
    if (!f->rows || element->arg_count < 2 || element->arg_count != f->statement->domain_count ||
        (tensor->role != HR_ROLE_INPUT && tensor->role != HR_ROLE_INOUT))
        return;
    for (int a = 0; a < element->arg_count; a++)
        if (element->args[a]->op != HR_OP_INDEX ||
            !hr_indices_have(f->statement->domain, f->statement->domain_count, element->args[a]->index))
            return;
    fix(f, element->args[element->arg_count - 1]->index, ROW_MOST);
}

static void look_at(void *context, const hr_expr *node) {
    finder *f = context;
    if (node->op == HR_OP_ELEMENT) look_at_rows(f, node);
    for (int i = 0; hr_op_is_reduction(node->op) && i < node->bound_count; i++)
        fix(f, node->bound[i], most_of(f, node, node->bound[i]));
}

const int64_t *hr_short_axes(const hr_function *function, const int64_t *extents, bool rows,
                             hr_arena *arena) {
    finder f = {.function = function, .extents = extents, .rows = rows};
    f.fixed = hr_arena_alloc(arena, (size_t)(function->extent_count + 1) * sizeof *f.fixed);
    f.seen = hr_arena_alloc(arena, (size_t)(function->index_count + 1) * sizeof *f.seen);
    for (int e = 0; e < function->extent_count; e++)
        f.fixed[e] = HR_EXTENT_UNKNOWN;
    hr_walk walk = {.leave = look_at, .context = &f};
    for (int s = 0; s < function->statement_count; s++) {
        f.statement = &function->statements[s];
        hr_walk_through(&walk, f.statement->value);
    }
    hr_walk_end(&walk);
    return f.found ? f.fixed : NULL;
}
