/* Sums of products as expressions. In: terms. Out: an expression that takes few operations: common factors
 * stand in front of brackets, and what is one a row is multiplied once a row. */
#include "grad/affine.h"
#include "ir/visit.h"

#include <stdlib.h>
#include <string.h>

/* ---- products ---- */

static void class_add(hr_algebra *algebra, hr_term_classes *out, hr_index_set set, hr_factor factor) {
    int i = 0;
    while (i < out->count && out->sets[i] != set)
        i++;
    if (i > HR_GRAD_INDICES) {
        algebra->graph->full = true;
        return;
    }
    if (i == out->count) {
        out->sets[out->count] = set;
        out->classes[out->count++] = (hr_term){.coefficient = 1};
    }
    hr_term *term = &out->classes[i];
    hr_factor *factors = hr_algebra_take(algebra, (size_t)(term->factor_count + 1) * sizeof *factors);
    if (term->factor_count) memcpy(factors, term->factors, (size_t)term->factor_count * sizeof *factors);
    factors[term->factor_count++] = factor;
    term->factors = factors;
}

static void class_remove(hr_term_classes *out, int at) {
    out->count--;
    memmove(&out->sets[at], &out->sets[at + 1], (size_t)(out->count - at) * sizeof *out->sets);
    memmove(&out->classes[at], &out->classes[at + 1], (size_t)(out->count - at) * sizeof *out->classes);
}

static void classes_sort(hr_term_classes *out) {
    for (int i = 1; i < out->count; i++)
        for (int j = i; j && __builtin_popcountll(out->sets[j - 1]) < __builtin_popcountll(out->sets[j]);
             j--) {
            const hr_term term = out->classes[j];
            const hr_index_set set = out->sets[j];
            out->classes[j] = out->classes[j - 1];
            out->sets[j] = out->sets[j - 1];
            out->classes[j - 1] = term;
            out->sets[j - 1] = set;
        }
}

void hr_term_classify(hr_algebra *algebra, const hr_term *term, hr_term_classes *out) {
    out->count = 0;
    out->all = 0;
    for (int f = 0; f < term->factor_count; f++) {
        const hr_index_set set = hr_free_indices(algebra, term->factors[f].base);
        class_add(algebra, out, set, term->factors[f]);
        out->all |= set;
    }
    classes_sort(out);
    const double size = term->coefficient < 0 ? -term->coefficient : term->coefficient;
    const int last = out->count - 1;
    const bool numbers = last >= 0 && !out->sets[last];
    if (numbers && last > 0 && out->sets[last - 1] != out->all) { /* go with the row */
        for (int f = 0; f < out->classes[last].factor_count; f++)
            class_add(algebra, out, out->sets[last - 1], out->classes[last].factors[f]);
        class_remove(out, last);
    } else if (size != 1 && (last < 0 || (!numbers && out->sets[last] == out->all))) {
        out->sets[out->count] = 0;
        out->classes[out->count++] = (hr_term){.coefficient = 1};
    }
    if (size != 1) out->classes[out->count - 1].coefficient = size;
}

static bool is_reduction(const hr_term *term) {
    for (int f = 0; f < term->factor_count; f++)
        if (hr_op_is_reduction(term->factors[f].base->op)) return true;
    return false;
}

static hr_expr *times(hr_algebra *algebra, hr_expr *product, hr_expr *factor) {
    return product ? hr_make_binary(algebra, HR_OP_MUL, product, factor) : factor;
}

/* The extent that the factor is, -1: another. */
static int extent_of(const hr_factor *factor) {
    const hr_expr *base = factor->base;
    return base->op == HR_OP_CONVERT && base->args[0]->op == HR_OP_EXTENT ? base->args[0]->extent : -1;
}

/* The extents among the factors of one sign, multiplied in their order as whole numbers: B * S. NULL = none.
 */
static hr_expr *points_compose(hr_algebra *algebra, const hr_term *term, int sign) {
    hr_expr *points = NULL;
    hr_dtype type = HR_F32;
    for (int extent = 0; extent < algebra->graph->function->extent_count; extent++)
        for (int f = 0; f < term->factor_count; f++) {
            const hr_factor *factor = &term->factors[f];
            if (extent_of(factor) != extent || factor->power * sign <= 0) continue;
            type = factor->base->type;
            for (int i = 0; i < abs(factor->power); i++)
                points = times(algebra, points, factor->base->args[0]);
        }
    return points ? hr_graph_convert(algebra->graph, type, points) : NULL;
}

/* `product` (NULL = 1) times the factors of one class. */
static hr_expr *times_class(hr_algebra *algebra, hr_expr *product, const hr_term *term, bool divides) {
    hr_expr *sides[2] = {NULL, NULL}; /* above and below the line */
    for (int f = 0; f < term->factor_count; f++) {
        const hr_factor *factor = &term->factors[f];
        hr_expr **side = &sides[factor->power < 0];
        if (extent_of(factor) >= 0) continue;
        *side = times(algebra, *side, hr_make_power(algebra, factor->base, abs(factor->power)));
    }
    for (int i = 0; i < 2; i++) {
        hr_expr *points = points_compose(algebra, term, i ? -1 : 1);
        if (points) sides[i] = times(algebra, sides[i], points);
    }
    hr_expr *above = sides[0], *below = sides[1];
    if (term->coefficient != 1) above = times(algebra, above, hr_make_number(algebra, term->coefficient));
    if (product && divides && !above) return hr_make_binary(algebra, HR_OP_DIV, product, below);
    if (below) above = hr_make_binary(algebra, HR_OP_DIV, above ? above : hr_make_number(algebra, 1), below);
    return above ? times(algebra, product, above) : product;
}

/* Of the size of the number, without its sign and without guards. */
static hr_expr *product_compose(hr_algebra *algebra, const hr_term *term) {
    hr_term_classes *classes = hr_algebra_take(algebra, sizeof *classes);
    hr_term_classify(algebra, term, classes);
    const bool divides = is_reduction(term) || __builtin_popcountll(classes->all) < algebra->widest;
    hr_expr *product = NULL;
    for (int i = 0; i < classes->count; i++)
        product =
            times_class(algebra, product, &classes->classes[i], divides || classes->sets[i] == classes->all);
    return product ? product : hr_make_number(algebra, 1);
}

static hr_expr *negative(hr_algebra *algebra, hr_expr *expr) {
    return expr->op == HR_OP_NUMBER ? hr_graph_number(algebra->graph, expr->type, -expr->number)
                                    : hr_make_unary(algebra, HR_OP_NEG, expr);
}

/* Both sides of `and` are evaluated: a condition that may read out of range stands inside the others. */
static hr_expr *guarded(hr_algebra *algebra, const hr_term *term, hr_expr *value) {
    hr_expr *sorted[2][HR_GRAD_INDICES];
    int counts[2] = {0};
    if (term->guard_count > HR_GRAD_INDICES) algebra->graph->full = true;
    for (int g = 0; g < term->guard_count && !algebra->graph->full; g++) {
        const int inner = !hr_is_in_range(algebra, term->guards[g]);
        sorted[inner][counts[inner]++] = term->guards[g];
    }
    for (int inner = 2; inner--;) {
        if (!counts[inner]) continue;
        hr_expr *args[] = {hr_make_and(algebra, counts[inner], sorted[inner]), value,
                           hr_make_number(algebra, 0)};
        value = hr_make(algebra, HR_OP_WHERE, 3, args);
    }
    return value;
}

hr_expr *hr_term_compose(hr_algebra *algebra, const hr_term *term) {
    hr_expr *product = product_compose(algebra, term);
    return guarded(algebra, term, term->coefficient < 0 ? negative(algebra, product) : product);
}

/* ---- sums ---- */

static int power_of(const hr_term *term, const hr_expr *base) {
    for (int f = 0; f < term->factor_count; f++)
        if (term->factors[f].base == base) return term->factors[f].power;
    return 0;
}

/* The power of `base` that terms have in common on the side of `sign`; `count` of them do. */
static int common_power(hr_terms sum, const hr_expr *base, int sign, int *count) {
    int common = 0;
    *count = 0;
    for (int i = 0; i < sum.count; i++) {
        const int power = power_of(&sum.terms[i], base) * sign;
        if (power <= 0) continue;
        common = *count ? (power < common ? power : common) : power;
        ++*count;
    }
    return common * sign;
}

/* Products that the term takes for each of its points: what is one a row is multiplied together before. */
static int products_of(hr_algebra *algebra, const hr_term *term, hr_index_set all) {
    hr_term_classes *classes = hr_algebra_take(algebra, sizeof *classes);
    hr_term_classify(algebra, term, classes);
    int operands = 0;
    if (classes->all != all) return 0; /* it is itself one a row */
    for (int i = 0; i < classes->count; i++)
        operands += classes->sets[i] == all ? classes->classes[i].factor_count : 1;
    return operands > 1 ? operands - 1 : 0;
}

static hr_term without_factor(hr_algebra *algebra, const hr_term *term, const hr_expr *base) {
    hr_term rest = *term;
    rest.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
    rest.factor_count = 0;
    for (int f = 0; f < term->factor_count; f++)
        if (term->factors[f].base != base || abs(term->factors[f].power) > 1)
            rest.factors[rest.factor_count++] = term->factors[f];
    return rest;
}

/* Whether the term takes a product less for each of its points once `factor` stands outside. */
static bool saves(hr_algebra *algebra, const hr_term *term, const hr_factor *factor, hr_index_set all) {
    const hr_term rest = without_factor(algebra, term, factor->base);
    return products_of(algebra, &rest, hr_term_free(algebra, &rest)) <
               products_of(algebra, term, hr_term_free(algebra, term)) &&
           hr_term_free(algebra, term) == all;
}

/* Products that are saved by taking `factor` out of the terms that have it; 0 where fewer than two do, and
 * where one is saved only to be paid outside of brackets that not all terms are in. */
static int savings(hr_algebra *algebra, hr_terms sum, const hr_factor *factor, hr_index_set all) {
    int count, saved = 0;
    common_power(sum, factor->base, factor->power > 0 ? 1 : -1, &count);
    if (count < 2) return 0;
    for (int i = 0; i < sum.count; i++)
        if (power_of(&sum.terms[i], factor->base) * factor->power > 0)
            saved += saves(algebra, &sum.terms[i], factor, all);
    return saved > 1 || count == sum.count ? saved : 0;
}

/* The factor that saves most outside of brackets; false where none does. */
static bool best_factor(hr_algebra *algebra, hr_terms sum, hr_factor *best) {
    hr_index_set all = 0;
    int most = 0, count;
    for (int i = 0; i < sum.count; i++)
        all |= hr_term_free(algebra, &sum.terms[i]);
    for (int i = 0; i < sum.count; i++)
        for (int f = 0; f < sum.terms[i].factor_count; f++) {
            const hr_factor *factor = &sum.terms[i].factors[f];
            const int saved = savings(algebra, sum, factor, all);
            if (saved < most || !saved || (saved == most && factor->base->id >= best->base->id)) continue;
            most = saved;
            const int power = common_power(sum, factor->base, factor->power > 0 ? 1 : -1, &count);
            *best = (hr_factor){factor->base, power};
        }
    return most > 0;
}

static hr_terms plain_sum_of(hr_algebra *algebra, hr_expr *expr) {
    return hr_terms_joined(algebra, hr_terms_of(algebra, expr));
}

static hr_expr *plain_compose(hr_algebra *algebra, hr_terms sum);

/* The terms with `factor` become one: it times what they are without it. */
static hr_expr *factored_compose(hr_algebra *algebra, hr_terms sum, hr_factor factor) {
    hr_terms with = {.terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    hr_terms rest = {.terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    for (int i = 0; i < sum.count; i++) {
        const bool has = power_of(&sum.terms[i], factor.base) * (factor.power > 0 ? 1 : -1) > 0;
        hr_terms *to = has ? &with : &rest;
        to->terms[to->count++] = sum.terms[i];
    }
    hr_expr *power = hr_make_power(algebra, factor.base, abs(factor.power));
    const hr_terms inner =
        factor.power > 0 ? hr_terms_divide(algebra, with, power) : hr_terms_times(algebra, with, power);
    hr_terms product = plain_sum_of(algebra, plain_compose(algebra, inner));
    product =
        factor.power > 0 ? hr_terms_times(algebra, product, power) : hr_terms_divide(algebra, product, power);
    return plain_compose(algebra, hr_terms_add(algebra, product, rest));
}

/* All terms have one number, and it is not 1. */
static double common_number(hr_terms sum) {
    const double first = sum.terms[0].coefficient < 0 ? -sum.terms[0].coefficient : sum.terms[0].coefficient;
    for (int i = 1; i < sum.count; i++)
        if (sum.terms[i].coefficient != first && sum.terms[i].coefficient != -first) return 1;
    return first;
}

/* Whether `a` stands before `b`: what is added before what is taken off, then by the number of indices. */
static bool comes_before(hr_algebra *algebra, const hr_term *a, const hr_term *b) {
    if ((a->coefficient > 0) != (b->coefficient > 0)) return a->coefficient > 0;
    const int left = __builtin_popcountll(hr_term_free(algebra, a));
    const int right = __builtin_popcountll(hr_term_free(algebra, b));
    if (left != right) return (a->coefficient > 0) == (left > right);
    for (int f = 0; f < a->factor_count && f < b->factor_count; f++)
        if (a->factors[f].base != b->factors[f].base) return a->factors[f].base->id < b->factors[f].base->id;
    return a->factor_count < b->factor_count;
}

static hr_expr *terms_compose(hr_algebra *algebra, hr_terms sum) {
    hr_term *terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof *terms);
    for (int i = 0; i < sum.count; i++)
        terms[i] = sum.terms[i];
    for (int i = 1; i < sum.count; i++)
        for (int j = i; j && comes_before(algebra, &terms[j], &terms[j - 1]); j--) {
            const hr_term term = terms[j];
            terms[j] = terms[j - 1];
            terms[j - 1] = term;
        }
    hr_expr *all = NULL;
    for (int i = 0; i < sum.count; i++) {
        hr_expr *product = product_compose(algebra, &terms[i]);
        const bool taken = terms[i].coefficient < 0;
        if (!all)
            all = taken ? negative(algebra, product) : product;
        else
            all = hr_make_binary(algebra, taken ? HR_OP_SUB : HR_OP_ADD, all, product);
    }
    return all;
}

/* Of terms without guards. */
static hr_expr *plain_compose(hr_algebra *algebra, hr_terms sum) {
    hr_factor factor = {0};
    if (sum.count <= 0) return hr_make_number(algebra, 0);
    if (sum.count == 1) return hr_term_compose(algebra, sum.terms);
    if (algebra->graph->full) return algebra->graph->placeholder;
    const double number = common_number(sum);
    if (number != 1) {
        hr_expr *size = hr_make_number(algebra, number);
        hr_expr *rest = plain_compose(algebra, hr_terms_divide(algebra, sum, size));
        return plain_compose(algebra, hr_terms_times(algebra, plain_sum_of(algebra, rest), size));
    }
    if (best_factor(algebra, sum, &factor)) return factored_compose(algebra, sum, factor);
    return terms_compose(algebra, sum);
}

static bool has_same_guards(const hr_term *a, const hr_term *b) {
    return a->guard_count == b->guard_count &&
           (!a->guard_count || memcmp(a->guards, b->guards, (size_t)a->guard_count * sizeof *a->guards) == 0);
}

/* The terms that stand under the guards of term `at`; none where an earlier one has the same. */
static hr_terms under_guards(hr_algebra *algebra, hr_terms sum, int at) {
    hr_terms group = {.terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    for (int i = 0; i < sum.count; i++) {
        if (!has_same_guards(&sum.terms[i], &sum.terms[at])) continue;
        if (i < at) return (hr_terms){0};
        group.terms[group.count] = sum.terms[i];
        group.terms[group.count++].guard_count = 0;
    }
    return group;
}

static bool is_all_negative(hr_terms sum) {
    for (int i = 0; i < sum.count; i++)
        if (sum.terms[i].coefficient > 0) return false;
    return true;
}

/* What is guarded stands behind what is not, unless a sum would begin with what is taken off. */
static bool begins_guarded(hr_terms sum) {
    bool plain_added = false, guarded_added = false;
    for (int i = 0; i < sum.count; i++)
        if (sum.terms[i].coefficient > 0) *(sum.terms[i].guard_count ? &guarded_added : &plain_added) = true;
    return guarded_added && !plain_added;
}

hr_expr *hr_terms_compose(hr_algebra *algebra, hr_terms sum) {
    hr_expr *all = NULL;
    const bool first = begins_guarded(sum);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < sum.count; i++) {
            if ((sum.terms[i].guard_count > 0) != (first != (pass == 1))) continue;
            hr_terms group = under_guards(algebra, sum, i);
            if (!group.count) continue;
            const bool taken = all && is_all_negative(group);
            if (taken) group = hr_terms_negate(algebra, group);
            hr_expr *value = guarded(algebra, &sum.terms[i], plain_compose(algebra, group));
            all = all ? hr_make_binary(algebra, taken ? HR_OP_SUB : HR_OP_ADD, all, value) : value;
        }
    return all ? all : hr_make_number(algebra, 0);
}
