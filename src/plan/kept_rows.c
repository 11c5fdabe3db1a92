/* Operands of products that a stage before has at hand: x times a row's factor, rounded to 16 bits; what a
 * gradient's sums of rows and columns read as well. In: such a local. Out: whether it is kept.
 *
 * The stage that finds the factor, or the sums, has x in hand: it makes the operand as well, and x is read
 * once. Made anew as an operand, x would be read again, by a kernel that lays the operand out, or for each
 * tile of columns. Where tiles are few it is made anew all the same, in the registers that are multiplied.
 */
#include "ir/visit.h"
#include "plan/passes.h"

#include <string.h>

/* Of a product, for which its other operand is computed in registers: schedule/cuda/gemm_raw.c. */
enum { COLUMNS_FEW = 256, DEPTH_MOST = 3 };

static const hr_statement *maker_of(const hr_function *function, int tensor) {
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].tensor == tensor) return &function->statements[s];
    return NULL;
}

/* Reads of one value that another one reads as well, or that it follows from, and of fewer indices. */
typedef struct following {
    const hr_function *function;
    const hr_statement *rows;
    int depth;
} following;

static hr_visit follows(const hr_expr *node, const void *context);

/* The statement is a sum over rows of what `rows` reads, or follows from one. */
static bool is_of_rows(const following *f, const hr_statement *s) {
    if (s->domain_count >= f->rows->domain_count) return false;
    if (hr_op_is_reduction(s->value->op)) {
        const hr_expr *element = hr_expr_within(s->value->args[0]);
        for (int t = 0; t < f->function->tensor_count; t++)
            if (f->function->tensors[t].rank >= f->rows->domain_count && hr_expr_reads(element, t) &&
                hr_expr_reads(f->rows->value, t))
                return true;
    }
    const following deeper = {f->function, f->rows, f->depth + 1};
    return f->depth < DEPTH_MOST && hr_expr_find(s->value, follows, &deeper);
}

static hr_visit follows(const hr_expr *node, const void *context) {
    const following *f = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_statement *made = maker_of(f->function, node->tensor);
    return hr_visit_until(made && is_of_rows(f, made));
}

/* A sum over the map's indices, before it, reads an element of as many that the map reads as well. */
bool hr_operand_is_summed_by(const hr_function *function, int map_number, int sum_number) {
    const hr_statement *map = &function->statements[map_number], *sum = &function->statements[sum_number];
    const int bound_count = hr_op_is_reduction(sum->value->op) ? sum->value->bound_count : 0;
    int all[HR_AXES_MAX * 2];
    if (!bound_count || sum->domain_count + bound_count != map->domain_count || sum_number >= map_number ||
        !hr_statement_is_half(map) || map->store != HR_STORE_WHOLE)
        return false;
    memcpy(all, sum->domain, (size_t)sum->domain_count * sizeof *all);
    memcpy(all + sum->domain_count, sum->value->bound, (size_t)bound_count * sizeof *all);
    if (!hr_indices_same(all, map->domain_count, map->domain, map->domain_count)) return false;
    for (int t = 0; t < function->tensor_count; t++)
        if (function->tensors[t].rank == map->domain_count && hr_expr_reads(map->value, t) &&
            hr_expr_reads(sum->value, t))
            return true;
    return false;
}

static bool is_summed(const hr_function *function, int map) {
    for (int s = 0; s < map; s++)
        if (hr_operand_is_summed_by(function, map, s)) return true;
    return false;
}

/* A local, but for its rounding; not scores of several heads, which attention makes anew. */
static bool is_local_rounded(const hr_function *function, const hr_contract *c, const hr_statement *made) {
    const hr_expr *whole = made->value->args[0];
    return !c->batch_count && whole->op == HR_OP_ELEMENT &&
           function->tensors[whole->tensor].role == HR_ROLE_LOCAL;
}

bool hr_operand_is_kept(const hr_function *function, const int64_t *extents, const hr_contract *c,
                        int tensor) {
    const hr_statement *made = maker_of(function, tensor);
    const bool left = c->left->op == HR_OP_ELEMENT && c->left->tensor == tensor,
               right = c->right->op == HR_OP_ELEMENT && c->right->tensor == tensor;
    double others;
    if (!made || !(left || right) || !hr_statement_is_half(made)) return false;
    if (hr_function_points(function, left ? c->n : c->m, left ? c->n_count : c->m_count, extents, &others) !=
            HR_OK ||
        others <= COLUMNS_FEW)
        return false;
    return is_local_rounded(function, c, made) || is_summed(function, (int)(made - function->statements)) ||
           hr_expr_find(made->value, follows, &(following){function, made, 0}) != NULL;
}
