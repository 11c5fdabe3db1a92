/* What a sum of terms needs less of, because of what else it has. In: terms. Out: the same value in fewer.
 */
#include "grad/algebra.h"
#include "ir/types.h"
#include "ir/visit.h"

/* ---- sums above and below a line ---- */

/* The term over `part` where that is a product of some of its factors: coefficient 0 = it is none. */
static hr_term quotient(hr_algebra *algebra, const hr_term *term, const hr_term *part) {
    hr_term rest = *term;
    rest.factors = hr_algebra_take(algebra, (size_t)(term->factor_count + 1) * sizeof(hr_factor));
    rest.factor_count = 0;
    int found = 0;
    for (int f = 0; f < term->factor_count; f++) {
        hr_factor factor = term->factors[f];
        for (int g = 0; g < part->factor_count; g++) {
            if (part->factors[g].base != factor.base) continue;
            if (part->factors[g].power <= 0 || factor.power < part->factors[g].power) return (hr_term){0};
            factor.power -= part->factors[g].power;
            found++;
        }
        if (factor.power) rest.factors[rest.factor_count++] = factor;
    }
    if (found < part->factor_count || part->guard_count) return (hr_term){0};
    rest.coefficient = term->coefficient / part->coefficient;
    return rest;
}

static int place_of(hr_terms sum, const hr_term *term, const bool *taken) {
    for (int i = 0; i < sum.count; i++)
        if (!taken[i] && sum.terms[i].coefficient == term->coefficient &&
            hr_term_is_like(&sum.terms[i], term))
            return i;
    return -1;
}

/* Marks each part times `rest` in the sum; false where it lacks one. */
static bool take_parts(hr_algebra *algebra, hr_terms sum, hr_terms parts, const hr_term *rest, bool *taken) {
    for (int k = 0; k < parts.count; k++) {
        const hr_terms product = hr_terms_times(algebra, (hr_terms){1, (hr_term *)rest},
                                                hr_term_compose(algebra, &parts.terms[k]));
        const int at = product.count == 1 ? place_of(sum, product.terms, taken) : -1;
        if (at < 0) return false;
        taken[at] = true;
    }
    return true;
}

/* The sum with a/(a + b) + b/(a + b) as 1, by the divisor of term `i`; false where there is none such. */
static bool reduced_by(hr_algebra *algebra, hr_terms *sum, int i, const hr_factor *divisor) {
    const hr_terms parts = hr_terms_of(algebra, hr_known_meaning(algebra, divisor->base));
    if (divisor->power >= 0 || parts.count < 2 || parts.count > sum->count) return false;
    const hr_term rest = quotient(algebra, &sum->terms[i], &parts.terms[0]);
    bool *taken = hr_algebra_take(algebra, (size_t)sum->count);
    if (rest.coefficient == 0 || !take_parts(algebra, *sum, parts, &rest, taken)) return false;
    hr_terms left = {.terms = hr_algebra_take(algebra, (size_t)sum->count * sizeof(hr_term))};
    for (int k = 0; k < sum->count; k++)
        if (!taken[k]) left.terms[left.count++] = sum->terms[k];
    const hr_terms whole = hr_terms_times(algebra, (hr_terms){1, (hr_term *)&rest}, divisor->base);
    *sum = hr_terms_add(algebra, left, whole);
    return true;
}

static bool reduced_once(hr_algebra *algebra, hr_terms *sum) {
    for (int i = 0; i < sum->count; i++)
        for (int f = 0; f < sum->terms[i].factor_count; f++)
            if (reduced_by(algebra, sum, i, &sum->terms[i].factors[f])) return true;
    return false;
}

hr_terms hr_terms_reduced(hr_algebra *algebra, hr_terms sum) {
    while (sum.count > 1 && !algebra->graph->full && reduced_once(algebra, &sum)) {
    }
    return sum;
}

/* ---- conditions ---- */

enum { DEPTH_MOST = 8 }; /* of an expression: what is deeper is not looked at */

static bool implies(const hr_expr *condition, const hr_expr *guard) {
    if (condition == guard) return true;
    return condition->op == HR_OP_AND &&
           (implies(condition->args[0], guard) || implies(condition->args[1], guard));
}

/* The value is 0 where the guard does not hold. */
static bool is_within(const hr_expr *value, const hr_expr *guard, int depth) {
    if (!depth) return false;
    switch (value->op) {
    case HR_OP_WHERE:
        return hr_expr_is_zero(value->args[2]) && implies(value->args[0], guard);
    case HR_OP_MUL:
        return is_within(value->args[0], guard, depth - 1) || is_within(value->args[1], guard, depth - 1);
    case HR_OP_ADD:
    case HR_OP_SUB:
        return is_within(value->args[0], guard, depth - 1) && is_within(value->args[1], guard, depth - 1);
    case HR_OP_NEG:
    case HR_OP_DIV:
    case HR_OP_CONVERT:
        return is_within(value->args[0], guard, depth - 1);
    default:
        return false;
    }
}

bool hr_term_implies(const hr_term *term, const hr_expr *guard) {
    for (int f = 0; f < term->factor_count; f++)
        if (term->factors[f].power > 0 && is_within(term->factors[f].base, guard, DEPTH_MOST)) return true;
    return false;
}

hr_terms hr_terms_within(hr_algebra *algebra, hr_terms sum, const hr_expr *factor) {
    const hr_terms times = hr_terms_of(algebra, factor);
    hr_terms result = {.terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    if (times.count != 1) return sum;
    for (int i = 0; i < sum.count; i++) {
        hr_term term = sum.terms[i];
        term.guards = hr_algebra_take(algebra, (size_t)term.guard_count * sizeof(hr_expr *));
        term.guard_count = 0;
        for (int g = 0; g < sum.terms[i].guard_count; g++)
            if (!hr_term_implies(times.terms, sum.terms[i].guards[g]))
                term.guards[term.guard_count++] = sum.terms[i].guards[g];
        const hr_terms one = {1, &term};
        result = hr_terms_add(algebra, result, one);
    }
    return result;
}

static hr_expr *both(hr_algebra *algebra, hr_expr *a, hr_expr *b) {
    return a ? hr_make_binary(algebra, HR_OP_AND, a, b) : b;
}

static hr_expr *term_condition(hr_algebra *algebra, const hr_term *term, hr_index_set bound) {
    hr_expr *all = NULL;
    for (int g = 0; g < term->guard_count; g++)
        if (!(hr_free_indices(algebra, term->guards[g]) & bound)) all = both(algebra, all, term->guards[g]);
    for (int f = 0; f < term->factor_count; f++) {
        const hr_expr *base = term->factors[f].base;
        if (term->factors[f].power > 0 && base->op == HR_OP_WHERE && hr_expr_is_zero(base->args[2]) &&
            !(hr_free_indices(algebra, base->args[0]) & bound))
            all = both(algebra, all, base->args[0]);
    }
    return all;
}

hr_expr *hr_terms_condition(hr_algebra *algebra, hr_terms sum) {
    hr_expr *all = NULL;
    if (sum.count != 1) return NULL;
    all = term_condition(algebra, sum.terms, 0);
    for (int f = 0; f < sum.terms->factor_count; f++) {
        const hr_expr *base = sum.terms->factors[f].base;
        if (sum.terms->factors[f].power < 0 || base->op != HR_OP_REDUCE_SUM) continue;
        const hr_terms body = hr_terms_of(algebra, base->args[0]);
        hr_expr *inner =
            body.count == 1 ? term_condition(algebra, body.terms, hr_index_bits(algebra, base)) : NULL;
        if (inner) all = both(algebra, all, inner);
    }
    return all;
}

/* ---- weights ---- */

static hr_visit is_float(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_type_is_float(node->type));
}

/* exp(a), or that under a mask; NULL = another. */
static const hr_expr *exponential_of(const hr_expr *base) {
    const hr_expr *inner = base->op == HR_OP_WHERE && hr_expr_is_zero(base->args[2]) ? base->args[1] : base;
    return inner->op == HR_OP_EXP ? inner : NULL;
}

/* The factor that stands with index sets like `weight`, and one more index: an operand of a product. */
static bool has_operand(hr_algebra *algebra, const hr_term *term, int weight, hr_index_set over) {
    const hr_index_set own = hr_free_indices(algebra, term->factors[weight].base);
    for (int f = 0; f < term->factor_count; f++) {
        const hr_index_set set = hr_free_indices(algebra, term->factors[f].base);
        if (f != weight && term->factors[f].power > 0 && set & own & over) return true;
    }
    return false;
}

/* The place of what the weight at `weight` is divided by: one a row; -1 = nothing. */
static int divisor_of(hr_algebra *algebra, const hr_term *term, int weight) {
    const hr_index_set own = hr_free_indices(algebra, term->factors[weight].base);
    for (int f = 0; f < term->factor_count; f++) {
        const hr_index_set set = hr_free_indices(algebra, term->factors[f].base);
        if (term->factors[f].power < 0 && set && !(set & ~own) && set != own) return f;
    }
    return -1;
}

static hr_expr *weight_over(hr_algebra *algebra, hr_expr *base, hr_expr *divisor) {
    hr_expr *exponential = (hr_expr *)exponential_of(base);
    hr_expr *value = hr_make_binary(algebra, HR_OP_DIV, exponential, divisor);
    if (exponential == base) return value;
    hr_expr *args[] = {base->args[0], value, base->args[2]};
    return hr_make(algebra, HR_OP_WHERE, 3, args);
}

/* The place of a guard that says which elements of the exponential count, by their places alone; -1 = none.
 */
static int guard_of(hr_algebra *algebra, const hr_term *term, const hr_expr *base) {
    for (int g = 0; g < term->guard_count; g++)
        if (!(hr_free_indices(algebra, term->guards[g]) & ~hr_free_indices(algebra, base)) &&
            !hr_expr_find(term->guards[g], is_float, NULL))
            return g;
    return -1;
}

/* where(c, exp(a) * b, 0) with the mask where softmax has it: the term's exponential is where(c, exp(a), 0).
 */
static hr_terms with_masks(hr_algebra *algebra, const hr_term *term) {
    hr_terms same = {1, (hr_term *)term};
    for (int f = 0; f < term->factor_count; f++) {
        hr_expr *base = term->factors[f].base;
        const bool weight =
            base->op == HR_OP_EXP || (base->op == HR_OP_DIV && base->args[0]->op == HR_OP_EXP);
        const int at = weight && term->factors[f].power == 1 ? guard_of(algebra, term, base) : -1;
        if (at < 0) continue;
        hr_term rest = *term;
        rest.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
        rest.guards = hr_algebra_take(algebra, (size_t)term->guard_count * sizeof(hr_expr *));
        rest.factor_count = rest.guard_count = 0;
        for (int i = 0; i < term->factor_count; i++)
            if (i != f) rest.factors[rest.factor_count++] = term->factors[i];
        for (int g = 0; g < term->guard_count; g++)
            if (g != at) rest.guards[rest.guard_count++] = term->guards[g];
        hr_expr *args[] = {term->guards[at], base, hr_make_number(algebra, 0)};
        return hr_terms_times(algebra, (hr_terms){1, &rest}, hr_make(algebra, HR_OP_WHERE, 3, args));
    }
    return same;
}

static hr_terms with_divisors(hr_algebra *algebra, const hr_term *term, hr_index_set over) {
    hr_terms same = {1, (hr_term *)term};
    for (int f = 0; f < term->factor_count; f++) {
        hr_expr *base = term->factors[f].base;
        if (term->factors[f].power != 1 || !exponential_of(base) ||
            !(hr_free_indices(algebra, base) & over) || !has_operand(algebra, term, f, over))
            continue;
        const int by = divisor_of(algebra, term, f);
        if (by < 0) continue;
        hr_term rest = *term;
        rest.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
        rest.factor_count = 0;
        for (int i = 0; i < term->factor_count; i++) {
            hr_factor factor = term->factors[i];
            factor.power += i == by;
            if (i != f && factor.power) rest.factors[rest.factor_count++] = factor;
        }
        hr_expr *weight = weight_over(algebra, base, term->factors[by].base);
        return hr_terms_times(algebra, (hr_terms){1, &rest}, weight);
    }
    return same;
}

hr_terms hr_term_with_weights(hr_algebra *algebra, const hr_term *term, hr_index_set over) {
    const hr_terms masked = with_masks(algebra, term);
    return masked.count == 1 ? with_divisors(algebra, masked.terms, over) : masked;
}
