/* Subscripts as linear forms. In: whole-number expressions. Out: their parts, and signs that are certain. */
#include "grad/affine.h"
#include "ir/visit.h"

#include <string.h>

/* ---- arithmetic ---- */

static bool is_number(const hr_expr *expr, int64_t value) {
    return expr->op == HR_OP_NUMBER && expr->whole == value;
}

/* The value of an operation between numbers of the text; false where it overflows or one is none. */
static bool folds(hr_op op, const hr_expr *a, const hr_expr *b, int64_t *out) {
    if (a->op != HR_OP_NUMBER || b->op != HR_OP_NUMBER) return false;
    if (op == HR_OP_ADD) return !__builtin_add_overflow(a->whole, b->whole, out);
    if (op == HR_OP_SUB) return !__builtin_sub_overflow(a->whole, b->whole, out);
    return !__builtin_mul_overflow(a->whole, b->whole, out);
}

static hr_expr *whole_made(hr_algebra *algebra, hr_op op, hr_expr *a, hr_expr *b) {
    int64_t value;
    if (folds(op, a, b, &value)) return hr_graph_whole(algebra->graph, value);
    hr_expr *args[] = {a, b};
    return hr_whole_remade(algebra, hr_make_binary(algebra, op, a, b), args);
}

hr_expr *hr_whole_add(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    if (is_number(a, 0)) return b;
    if (is_number(b, 0)) return a;
    if (b->op == HR_OP_SUB && b->args[1] == a) return b->args[0];
    if (a->op == HR_OP_SUB && a->args[1] == b) return a->args[0];
    return whole_made(algebra, HR_OP_ADD, a, b);
}

hr_expr *hr_whole_subtract(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    if (is_number(b, 0)) return a;
    if (a == b) return hr_graph_whole(algebra->graph, 0);
    if (a->op == HR_OP_ADD && a->args[1] == b) return a->args[0];
    if (b->op == HR_OP_SUB && b->args[0] == a) return b->args[1];
    if (b->op == HR_OP_NUMBER && b->whole < 0 && b->whole > INT64_MIN)
        return hr_whole_add(algebra, a, hr_graph_whole(algebra->graph, -b->whole));
    return whole_made(algebra, HR_OP_SUB, a, b);
}

hr_expr *hr_whole_multiply(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    if (is_number(a, 1)) return b;
    if (is_number(b, 1)) return a;
    if (is_number(a, 0) || is_number(b, 0)) return hr_graph_whole(algebra->graph, 0);
    return whole_made(algebra, HR_OP_MUL, a, b);
}

/* ---- linear parts ---- */

static bool split_product(hr_algebra *algebra, hr_expr *expr, int index, hr_expr **factor, hr_expr **rest) {
    const hr_index_set bit = hr_index_bit(algebra, index);
    const int side = hr_free_indices(algebra, expr->args[0]) & bit ? 0 : 1;
    hr_expr *other = expr->args[1 - side];
    if (hr_free_indices(algebra, other) & bit) return false;
    if (!hr_split_linear(algebra, expr->args[side], index, factor, rest)) return false;
    *factor = hr_whole_multiply(algebra, other, *factor);
    *rest = hr_whole_multiply(algebra, other, *rest);
    return true;
}

bool hr_split_linear(hr_algebra *algebra, hr_expr *expr, int index, hr_expr **factor, hr_expr **rest) {
    hr_expr *zero = hr_graph_whole(algebra->graph, 0), *factors[2], *rests[2];
    *factor = zero;
    *rest = expr;
    if (!(hr_free_indices(algebra, expr) & hr_index_bit(algebra, index))) return true;
    switch (expr->op) {
    case HR_OP_INDEX:
        *factor = hr_graph_whole(algebra->graph, 1);
        *rest = zero;
        return true;
    case HR_OP_NEG:
        if (!hr_split_linear(algebra, expr->args[0], index, factor, rest)) return false;
        *factor = hr_whole_subtract(algebra, zero, *factor);
        *rest = hr_whole_subtract(algebra, zero, *rest);
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
        for (int i = 0; i < 2; i++)
            if (!hr_split_linear(algebra, expr->args[i], index, &factors[i], &rests[i])) return false;
        if (expr->op == HR_OP_ADD) {
            *factor = hr_whole_add(algebra, factors[0], factors[1]);
            *rest = hr_whole_add(algebra, rests[0], rests[1]);
        } else {
            *factor = hr_whole_subtract(algebra, factors[0], factors[1]);
            *rest = hr_whole_subtract(algebra, rests[0], rests[1]);
        }
        return true;
    case HR_OP_MUL:
        return split_product(algebra, expr, index, factor, rest);
    default:
        return false;
    }
}

/* ---- certain signs ---- */

enum { MONOMIALS = 32, DEGREE = 4, DEPTH = 24, QUOTIENTS_MOST = 16 };

/* A number times extents, and at most one index. An extent may be a quotient of extents, D // 2: those have
 * the numbers behind the extents'. */
typedef struct monomial {
    int64_t number;
    int index, degree, extents[DEGREE]; /* index -1: none; extents ascending */
} monomial;

typedef struct form {
    bool unsure;
    int count;
    monomial all[MONOMIALS];
} form;

static void form_add(form *to, monomial one) {
    for (int i = 0; i < to->count; i++) {
        monomial *old = &to->all[i];
        if (old->index != one.index || old->degree != one.degree ||
            memcmp(old->extents, one.extents, (size_t)one.degree * sizeof(int)) != 0)
            continue;
        to->unsure |= __builtin_add_overflow(old->number, one.number, &old->number);
        return;
    }
    if (to->count == MONOMIALS)
        to->unsure = true;
    else
        to->all[to->count++] = one;
}

static void form_add_product(form *to, const monomial *a, const monomial *b) {
    monomial one = {.index = a->index < 0 ? b->index : a->index};
    if ((a->index >= 0 && b->index >= 0) || a->degree + b->degree > DEGREE ||
        __builtin_mul_overflow(a->number, b->number, &one.number)) {
        to->unsure = true;
        return;
    }
    for (int i = 0, j = 0; i < a->degree || j < b->degree;) {
        const bool left = j == b->degree || (i < a->degree && a->extents[i] <= b->extents[j]);
        one.extents[one.degree++] = left ? a->extents[i++] : b->extents[j++];
    }
    form_add(to, one);
}

/* The number of a quotient of two that are extents or numbers; -1 = it is none. */
static int quotient_number(hr_algebra *algebra, const hr_expr *expr) {
    for (int i = 0; i < 2; i++)
        if (expr->args[i]->op != HR_OP_EXTENT &&
            !(expr->args[i]->op == HR_OP_NUMBER && expr->args[i]->whole > 0))
            return -1;
    if (!algebra->quotients)
        algebra->quotients = hr_algebra_take(algebra, QUOTIENTS_MOST * sizeof *algebra->quotients);
    int i = 0;
    while (i < algebra->quotient_count && algebra->quotients[i] != expr)
        i++;
    if (i == QUOTIENTS_MOST) return -1;
    if (i == algebra->quotient_count) algebra->quotients[algebra->quotient_count++] = expr;
    return algebra->graph->function->extent_count + i;
}

static const hr_expr *quotient_of(const hr_algebra *algebra, int number) {
    const int extents = algebra->graph->function->extent_count;
    return number < extents ? NULL : algebra->quotients[number - extents];
}

static void form_of(hr_algebra *algebra, const hr_expr *expr, int depth, form *out) {
    form sides[2];
    int quotient;
    out->count = 0;
    out->unsure = false;
    switch (depth ? expr->op : HR_OP_COUNT) {
    case HR_OP_NUMBER:
        form_add(out, (monomial){.number = expr->whole, .index = -1});
        return;
    case HR_OP_EXTENT:
        form_add(out, (monomial){.number = 1, .index = -1, .degree = 1, .extents = {expr->extent}});
        return;
    case HR_OP_INDEX:
        form_add(out, (monomial){.number = 1, .index = expr->index});
        return;
    case HR_OP_FLOORDIV:
        quotient = quotient_number(algebra, expr);
        out->unsure = quotient < 0;
        if (!out->unsure)
            form_add(out, (monomial){.number = 1, .index = -1, .degree = 1, .extents = {quotient}});
        return;
    case HR_OP_NEG:
        form_of(algebra, expr->args[0], depth - 1, out);
        for (int i = 0; i < out->count; i++)
            out->all[i].number = -out->all[i].number;
        return;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        break;
    default:
        out->unsure = true;
        return;
    }
    for (int i = 0; i < 2; i++)
        form_of(algebra, expr->args[i], depth - 1, &sides[i]);
    out->unsure = sides[0].unsure || sides[1].unsure;
    for (int i = 0; i < sides[0].count; i++)
        for (int j = 0; expr->op == HR_OP_MUL && j < sides[1].count; j++)
            form_add_product(out, &sides[0].all[i], &sides[1].all[j]);
    for (int s = 0; s < 2 && expr->op != HR_OP_MUL; s++)
        for (int i = 0; i < sides[s].count; i++) {
            if (s && expr->op == HR_OP_SUB) sides[s].all[i].number = -sides[s].all[i].number;
            form_add(out, sides[s].all[i]);
        }
}

/* The least that a form can be: each index at the end of its range that makes it less. */
static void form_least(hr_algebra *algebra, const form *all, form *out) {
    form extent;
    out->count = 0;
    out->unsure = all->unsure;
    for (int i = 0; i < all->count; i++) {
        monomial one = all->all[i];
        const int index = one.index;
        if (index >= 0 && one.number >= 0) continue;
        one.index = -1;
        if (index < 0) {
            form_add(out, one);
            continue;
        }
        form_of(algebra, algebra->graph->function->indices[index].extent, DEPTH, &extent);
        form_add(&extent, (monomial){.number = -1, .index = -1});
        out->unsure |= extent.unsure;
        for (int e = 0; e < extent.count; e++)
            form_add_product(out, &one, &extent.all[e]);
    }
}

static void remove_extent(monomial *one, int number) {
    int kept = 0;
    bool removed = false;
    for (int i = 0; i < one->degree; i++) {
        const bool skip = !removed && one->extents[i] == number;
        removed = removed || skip;
        if (!skip) one->extents[kept++] = one->extents[i];
    }
    one->degree = kept;
}

static bool has_extent(const monomial *one, int number) {
    for (int i = 0; i < one->degree; i++)
        if (one->extents[i] == number) return true;
    return false;
}

/* The monomial without its quotient, at the end of its range that makes it less: (a // b) * b is at most a,
 * and a // b is not negative. */
static void quotient_least(hr_algebra *algebra, monomial one, int number, form *out) {
    const hr_expr *quotient = quotient_of(algebra, number), *by = quotient->args[1];
    form dividend;
    remove_extent(&one, number);
    if (one.number >= 0) return;
    form_of(algebra, quotient->args[0], DEPTH, &dividend);
    if (by->op == HR_OP_NUMBER && one.number % by->whole == 0) one.number /= by->whole;
    if (by->op == HR_OP_EXTENT && has_extent(&one, by->extent)) remove_extent(&one, by->extent);
    form_add_product(out, &one, dividend.all);
}

static void quotients_least(hr_algebra *algebra, const form *all, form *out) {
    out->count = 0;
    out->unsure = all->unsure;
    for (int i = 0; i < all->count; i++) {
        const monomial *one = &all->all[i];
        int last = one->degree ? one->extents[one->degree - 1] : 0;
        if (!one->number || !one->degree || !quotient_of(algebra, last))
            form_add(out, *one);
        else if (one->degree > 1 && quotient_of(algebra, one->extents[one->degree - 2]))
            out->unsure = true;
        else
            quotient_least(algebra, *one, last, out);
    }
}

/* ---- the shortest way to write a form ---- */

static hr_expr *product_made(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    return is_number(a, 1) ? b : hr_make_binary(algebra, HR_OP_MUL, a, b);
}

static hr_expr *monomial_made(hr_algebra *algebra, const monomial *one) {
    hr_graph *graph = algebra->graph;
    const int64_t size = one->number < 0 ? -one->number : one->number;
    hr_expr *product = hr_graph_whole(graph, size);
    for (int i = 0; i < one->degree; i++) {
        hr_expr *extent =
            hr_graph_intern(graph, &(hr_expr){.op = HR_OP_EXTENT, .type = HR_I64, .extent = one->extents[i]});
        const hr_expr *quotient = quotient_of(algebra, one->extents[i]);
        product = product_made(algebra, product, quotient ? (hr_expr *)quotient : extent);
    }
    return one->index < 0 ? product : product_made(algebra, product, hr_graph_index_value(graph, one->index));
}

/* What is added first; of these indices before extents before the number. */
static hr_expr *form_made(hr_algebra *algebra, const form *all) {
    hr_expr *sum = NULL;
    for (int negative = 0; negative < 2; negative++)
        for (int kind = 0; kind < 3; kind++)
            for (int i = 0; i < all->count; i++) {
                const monomial *one = &all->all[i];
                const int own = one->index >= 0 ? 0 : one->degree ? 1 : 2;
                if (own != kind || !one->number || (one->number < 0) != negative) continue;
                hr_expr *product = monomial_made(algebra, one);
                if (!sum)
                    sum = negative ? hr_make_unary(algebra, HR_OP_NEG, product) : product;
                else
                    sum = hr_make_binary(algebra, negative ? HR_OP_SUB : HR_OP_ADD, sum, product);
            }
    return sum ? sum : hr_graph_whole(algebra->graph, 0);
}

hr_expr *hr_whole_remade(hr_algebra *algebra, const hr_expr *node, hr_expr *const *args) {
    form all;
    hr_expr *made = hr_graph_with_args(algebra->graph, node, args);
    if (node->type != HR_I64 || (node->op != HR_OP_ADD && node->op != HR_OP_SUB && node->op != HR_OP_MUL))
        return made;
    form_of(algebra, made, DEPTH, &all);
    for (int i = 0; i < all.count; i++)
        all.unsure = all.unsure || all.all[i].number == INT64_MIN;
    return all.unsure ? made : form_made(algebra, &all);
}

static bool is_at_least(hr_algebra *algebra, hr_expr *a, hr_expr *b, int64_t by) {
    hr_expr *difference = hr_whole_subtract(algebra, a, b);
    return hr_is_never_negative(algebra,
                                hr_whole_subtract(algebra, difference, hr_graph_whole(algebra->graph, by)));
}

bool hr_is_certain(hr_algebra *algebra, const hr_expr *condition) {
    if (!condition->arg_count || condition->args[0]->type != HR_I64) return false;
    hr_expr *const *args = condition->args;
    switch (condition->op) {
    case HR_OP_GE:
        return is_at_least(algebra, args[0], args[1], 0);
    case HR_OP_GT:
        return is_at_least(algebra, args[0], args[1], 1);
    case HR_OP_LE:
        return is_at_least(algebra, args[1], args[0], 0);
    case HR_OP_LT:
        return is_at_least(algebra, args[1], args[0], 1);
    default:
        return false;
    }
}

bool hr_is_never_negative(hr_algebra *algebra, hr_expr *expr) {
    form all, bounded, least;
    form_of(algebra, expr, DEPTH, &all);
    form_least(algebra, &all, &bounded);
    quotients_least(algebra, &bounded, &least);
    if (least.unsure) return false;
    int64_t number = 0;
    for (int i = 0; i < least.count; i++) { /* extents are at least 1 */
        if (least.all[i].degree && least.all[i].number < 0) return false;
        if (__builtin_add_overflow(number, least.all[i].number, &number)) return false;
    }
    return number >= 0;
}

/* ---- elements ---- */

enum { CHOICES_DEEP = 12 };

/* What is known where an element is read: conditions of the choices around it. */
typedef struct assumption {
    const struct assumption *outer;
    const hr_expr *condition;
    bool holds; /* or its opposite does */
} assumption;

typedef struct range_question {
    hr_algebra *algebra;
    const assumption *known;
    int depth;
} range_question;

/* The number that a comparison makes at least 0; NULL elsewhere. */
static hr_expr *made_positive(hr_algebra *algebra, const assumption *known) {
    const hr_expr *c = known->condition;
    hr_op op = c->op;
    if (!c->arg_count || c->args[0]->type != HR_I64 || op < HR_OP_LT || op > HR_OP_GE) return NULL;
    if (!known->holds)
        op = op == HR_OP_LT ? HR_OP_GE : op == HR_OP_LE ? HR_OP_GT : op == HR_OP_GT ? HR_OP_LE : HR_OP_LT;
    const bool larger = op == HR_OP_GT || op == HR_OP_GE, strict = op == HR_OP_LT || op == HR_OP_GT;
    hr_expr *difference = hr_whole_subtract(algebra, c->args[!larger], c->args[larger]);
    return strict ? hr_whole_subtract(algebra, difference, hr_graph_whole(algebra->graph, 1)) : difference;
}

static bool follows(hr_algebra *algebra, hr_expr *expr, const assumption *known) {
    if (hr_is_never_negative(algebra, expr)) return true;
    for (; known; known = known->outer) {
        if (known->condition->op == HR_OP_AND && known->holds) {
            const assumption left = {NULL, known->condition->args[0], true},
                             right = {NULL, known->condition->args[1], true};
            if (follows(algebra, expr, &left) || follows(algebra, expr, &right)) return true;
            continue;
        }
        hr_expr *positive = made_positive(algebra, known);
        if (positive && hr_is_never_negative(algebra, hr_whole_subtract(algebra, expr, positive)))
            return true;
    }
    return false;
}

/* h // (H // G) where h goes over H, on an axis of G: inside where G divides H, and wherever else the kernel
 * itself goes beyond it. */
static bool is_shared_head(hr_algebra *algebra, const hr_expr *subscript, const hr_expr *extent) {
    const hr_expr *index = subscript->args[0], *by = subscript->args[1];
    return index->op == HR_OP_INDEX && by->op == HR_OP_FLOORDIV && by->args[1] == extent &&
           by->args[0] == algebra->graph->function->indices[index->index].extent;
}

static bool stays_inside(const range_question *q, hr_expr *subscript, hr_expr *extent) {
    hr_algebra *algebra = q->algebra;
    const bool divided = subscript->op == HR_OP_FLOORDIV, rest = subscript->op == HR_OP_MOD;
    if (divided && is_shared_head(algebra, subscript, extent)) return true;
    if ((divided || rest) && subscript->args[1]->op == HR_OP_NUMBER && subscript->args[1]->whole > 0) {
        hr_expr *divisor = subscript->args[1];
        if (rest) return is_at_least(algebra, extent, divisor, 0);
        return stays_inside(q, subscript->args[0], hr_whole_multiply(algebra, divisor, extent));
    }
    hr_expr *room = hr_whole_subtract(algebra, hr_whole_subtract(algebra, extent, subscript),
                                      hr_graph_whole(algebra->graph, 1));
    return follows(algebra, subscript, q->known) && follows(algebra, room, q->known);
}

static bool is_in_range(const range_question *q, const hr_expr *expr);

static bool is_choice_in_range(const range_question *q, const hr_expr *choice) {
    assumption here = {q->known, choice->args[0], true};
    const range_question inside = {q->algebra, &here, q->depth + 1};
    if (q->depth == CHOICES_DEEP || !is_in_range(q, choice->args[0]) ||
        !is_in_range(&inside, choice->args[1]))
        return false;
    here.holds = false;
    return is_in_range(&inside, choice->args[2]);
}

static hr_visit leaves_axis(const hr_expr *node, const void *context) {
    const range_question *q = context;
    if (node->op == HR_OP_WHERE) return is_choice_in_range(q, node) ? HR_VISIT_PAST : HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_tensor *tensor = &q->algebra->graph->function->tensors[node->tensor];
    for (int a = 0; a < tensor->rank; a++)
        if (!stays_inside(q, node->args[a], tensor->shape[a])) return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

static bool is_in_range(const range_question *q, const hr_expr *expr) {
    return !hr_expr_find(expr, leaves_axis, q);
}

bool hr_is_in_range(hr_algebra *algebra, const hr_expr *expr) {
    const range_question question = {.algebra = algebra};
    return is_in_range(&question, expr);
}
