/* Rows that are normalised and multiplied: x times the row's factor, rounded to 16 bits, is an operand of a
 * product. In: such a local. Out: whether it is kept.
 *
 * The stage that finds the factor has the row in hand: it makes the operand as well, and x is read once. Made
 * anew as an operand, x would be read again, by a kernel that lays the operand out, or for each tile of
 * columns. Where tiles are few it is made anew all the same, in the registers that are multiplied.
 */
#include "ir/visit.h"
#include "plan/passes.h"

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
    return hr_expr_find(made->value, follows, &(following){function, made, 0}) != NULL;
}
