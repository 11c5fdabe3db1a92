/* What follows from numbers in an expression. In: an operation and its arguments. Out: a node. See fold.h. */
#include "plan/fold.h"

static bool is_number(const hr_expr *e) {
    return e->op == HR_OP_NUMBER && (e->type == HR_I64 || e->type == HR_I32 || e->type == HR_BOOL);
}

static bool fold_arithmetic(const hr_expr *node, int64_t a, int64_t b, int64_t *out) {
    switch (node->op) {
    case HR_OP_ADD:
        return !__builtin_add_overflow(a, b, out);
    case HR_OP_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case HR_OP_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case HR_OP_NEG:
        return !__builtin_sub_overflow(0, a, out);
    case HR_OP_MOD:
        *out = a;
        return a >= 0 && b > a;
    case HR_OP_FLOORDIV:
        *out = 0;
        return a >= 0 && b > a;
    default:
        return false;
    }
}

static bool fold_comparison(const hr_expr *node, int64_t a, int64_t b, int64_t *out) {
    switch (node->op) {
    case HR_OP_EQ:
        *out = a == b;
        return true;
    case HR_OP_NE:
        *out = a != b;
        return true;
    case HR_OP_LT:
        *out = a < b;
        return true;
    case HR_OP_LE:
        *out = a <= b;
        return true;
    case HR_OP_GT:
        *out = a > b;
        return true;
    case HR_OP_GE:
        *out = a >= b;
        return true;
    default:
        return false;
    }
}

/* The number or the branch that an operation on numbers is; NULL where it is neither. */
static hr_expr *fold_numbers(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    int64_t value;
    bool first = node->arg_count > 0 && is_number(args[0]),
         both = first && (node->arg_count == 1 || is_number(args[1]));
    if (node->op == HR_OP_WHERE && first) return args[args[0]->whole ? 1 : 2];
    if (node->arg_count > 2 || !both) return NULL;
    int64_t a = args[0]->whole, b = node->arg_count > 1 ? args[1]->whole : 0;
    bool folds = node->type == HR_I64 ? fold_arithmetic(node, a, b, &value)
                                      : node->type == HR_BOOL && fold_comparison(node, a, b, &value);
    hr_expr number = {.op = HR_OP_NUMBER, .type = node->type, .whole = value};
    return folds ? hr_graph_intern(graph, &number) : NULL;
}

/* i + 0 and i - 0. */
static hr_expr *fold_nothing(const hr_expr *node, hr_expr *const *args) {
    if ((node->op != HR_OP_ADD && node->op != HR_OP_SUB) || node->type != HR_I64) return NULL;
    if (is_number(args[1]) && args[1]->whole == 0) return args[0];
    return node->op == HR_OP_ADD && is_number(args[0]) && args[0]->whole == 0 ? args[1] : NULL;
}

/* 1 * x is x and -1 * x is -x, whatever x is. */
static hr_expr *fold_sign(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    for (int side = 0; side < 2 && node->op == HR_OP_MUL && node->type == HR_F32; side++) {
        if (args[side]->op != HR_OP_NUMBER) continue;
        if (args[side]->number == 1) return args[1 - side];
        if (args[side]->number == -1) return hr_graph_unary(graph, HR_OP_NEG, HR_F32, args[1 - side]);
    }
    return NULL;
}

hr_expr *hr_fold(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    hr_expr *result = fold_numbers(graph, node, args);
    if (!result) result = fold_sign(graph, node, args);
    if (!result) result = fold_nothing(node, args);
    return result ? result : hr_graph_with_args(graph, node, args);
}
