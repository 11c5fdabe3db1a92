/* Sums over indices. In: terms. Out: terms with reductions as factors, as few and as small as can be. */
#include "grad/algebra.h"
#include "ir/visit.h"

#include <string.h>

/* ---- values that an element holds ---- */

static void value_add(hr_algebra *algebra, hr_known_value **list, int *count, int *capacity,
                      hr_known_value one) {
    if (*count == *capacity) {
        const int more = *capacity ? 2 * *capacity : 16;
        hr_known_value *grown = hr_algebra_take(algebra, (size_t)more * sizeof *grown);
        if (*count) memcpy(grown, *list, (size_t)*count * sizeof *grown);
        *list = grown;
        *capacity = more;
    }
    (*list)[(*count)++] = one;
}

void hr_known_add(hr_algebra *algebra, hr_expr *value, hr_expr *element) {
    value_add(algebra, &algebra->known, &algebra->known_count, &algebra->known_capacity,
              (hr_known_value){value, element});
}

void hr_made_add(hr_algebra *algebra, hr_expr *sum, hr_expr *value) {
    value_add(algebra, &algebra->made, &algebra->made_count, &algebra->made_capacity,
              (hr_known_value){sum, value});
}

hr_expr *hr_made_value(const hr_algebra *algebra, const hr_expr *sum) {
    for (int i = 0; i < algebra->made_count; i++)
        if (algebra->made[i].value == sum) return algebra->made[i].element;
    return NULL;
}

hr_expr *hr_known_element(const hr_algebra *algebra, hr_expr *value) {
    for (int i = 0; i < algebra->known_count; i++)
        if (algebra->known[i].value == value) return algebra->known[i].element;
    return value;
}

hr_expr *hr_known_meaning(const hr_algebra *algebra, hr_expr *element) {
    for (int i = 0; i < algebra->known_count; i++)
        if (algebra->known[i].element == element) return algebra->known[i].value;
    return element;
}

/* ---- one group of indices that factors have in common ---- */

/* `term` in two: what depends on indices of `over`, which grows by those of `all` that come with it, and the
 * rest. */
static hr_term split_off(hr_algebra *algebra, hr_term *term, hr_index_set all, hr_index_set *over) {
    hr_term part = {.coefficient = 1};
    part.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
    part.guards = hr_algebra_take(algebra, (size_t)term->guard_count * sizeof(hr_expr *));
    hr_term rest = *term;
    rest.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
    rest.guards = hr_algebra_take(algebra, (size_t)term->guard_count * sizeof(hr_expr *));
    for (hr_index_set before = 0; before != *over;) {
        before = *over;
        part.factor_count = part.guard_count = rest.factor_count = rest.guard_count = 0;
        for (int f = 0; f < term->factor_count; f++) {
            const hr_index_set set = hr_free_indices(algebra, term->factors[f].base);
            hr_term *to = set & before ? &part : &rest;
            to->factors[to->factor_count++] = term->factors[f];
            if (to == &part) *over |= set & all;
        }
        for (int g = 0; g < term->guard_count; g++) {
            const hr_index_set set = hr_free_indices(algebra, term->guards[g]);
            hr_term *to = set & before ? &part : &rest;
            to->guards[to->guard_count++] = term->guards[g];
            if (to == &part) *over |= set & all;
        }
    }
    *term = rest;
    return part;
}

/* Each index has a number of the text as its extent. */
static bool is_short(hr_algebra *algebra, hr_index_set over) {
    int indices[HR_GRAD_INDICES];
    const int count = hr_index_list(algebra, over, indices);
    for (int i = 0; i < count; i++)
        if (algebra->graph->function->indices[indices[i]].extent->op != HR_OP_NUMBER) return false;
    return true;
}

static hr_visit is_division(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_FLOORDIV || node->op == HR_OP_MOD);
}

/* A sum that is all of a sum, maybe under conditions: one over the indices of both. That over heads which
 * share a key stays apart: the inner one is a matrix product. */
static hr_expr *summed_at_once(hr_algebra *algebra, const hr_term *term, hr_index_set over) {
    const hr_expr *inner = term->factors[0].base;
    const hr_index_set bound = hr_index_bits(algebra, inner);
    hr_index_set guards = 0;
    for (int g = 0; g < term->guard_count; g++) {
        guards |= hr_free_indices(algebra, term->guards[g]);
        if (hr_expr_find(term->guards[g], is_division, NULL)) return NULL;
    }
    if (bound & (guards | over)) return NULL;
    if (!term->guard_count && !is_short(algebra, over))
        return NULL; /* the inner sum may be wanted elsewhere */
    hr_terms body = hr_terms_of(algebra, inner->args[0]);
    for (int g = 0; g < term->guard_count; g++)
        body = hr_terms_guard(algebra, body, term->guards[g]);
    return hr_make_reduction(algebra, HR_OP_REDUCE_SUM, over | bound, hr_terms_compose(algebra, body));
}

static hr_expr *summed(hr_algebra *algebra, const hr_term *term, hr_index_set over) {
    if (term->factor_count == 1 && term->factors[0].power == 1 &&
        term->factors[0].base->op == HR_OP_REDUCE_SUM) {
        hr_expr *both = summed_at_once(algebra, term, over);
        if (both) return both;
    }
    return hr_make_reduction(algebra, HR_OP_REDUCE_SUM, over, hr_term_compose(algebra, term));
}

/* The sum of sums that a sum of terms is. */
static hr_terms apart(hr_algebra *algebra, const hr_expr *sum) {
    const hr_index_set bound = hr_index_bits(algebra, sum);
    return hr_terms_over(algebra, hr_terms_of(algebra, sum->args[0]), bound);
}

static hr_terms each_times(hr_algebra *algebra, hr_terms a, hr_terms b) {
    hr_terms all = {0};
    for (int i = 0; i < b.count; i++)
        all = hr_terms_add(algebra, all, hr_terms_times(algebra, a, hr_term_compose(algebra, &b.terms[i])));
    return all;
}

/* Each element of the sum written as what it means, sums of sums as theirs. */
static hr_terms meaning_of(hr_algebra *algebra, hr_terms sum) {
    hr_terms all = {0};
    for (int i = 0; i < sum.count; i++) {
        hr_term number = sum.terms[i];
        number.factor_count = 0;
        hr_terms product = {1, &number};
        for (int f = 0; f < sum.terms[i].factor_count; f++) {
            const hr_factor factor = sum.terms[i].factors[f];
            hr_expr *meaning = hr_known_meaning(algebra, factor.base);
            if (meaning->op == HR_OP_REDUCE_SUM && factor.power == 1)
                product = each_times(algebra, product, apart(algebra, meaning));
            else
                product = hr_terms_times(algebra, product, hr_make_power(algebra, meaning, factor.power));
        }
        all = hr_terms_add(algebra, all, product);
    }
    return all;
}

/* What is left of a sum that is taken off its own mean adds up to nothing: sum[n](x[n] - mean) = 0. */
static bool cancels(hr_algebra *algebra, const hr_term *part, hr_index_set over) {
    if (part->factor_count != 1 || part->guard_count || part->factors[0].power != 1) return false;
    const hr_expr *base = part->factors[0].base;
    if (base->op != HR_OP_ADD && base->op != HR_OP_SUB) return false;
    const hr_terms apart = hr_terms_over(algebra, hr_terms_of(algebra, base), over);
    return meaning_of(algebra, apart).count == 0;
}

/* A softmax adds up to 1: sum[v](exp(x[v] - lse)) where lse = logsumexp[v](x[v]). */
static bool adds_up_to_one(hr_algebra *algebra, const hr_term *part, hr_index_set over) {
    if (part->factor_count != 1 || part->guard_count || part->factors[0].power != 1) return false;
    const hr_expr *base = part->factors[0].base;
    if (base->op != HR_OP_EXP || base->args[0]->op != HR_OP_SUB) return false;
    const hr_expr *total = hr_known_meaning(algebra, base->args[0]->args[1]);
    if (total->op != HR_OP_REDUCE_LOGSUMEXP || total->args[0] != base->args[0]->args[0]) return false;
    return hr_index_bits(algebra, total) == over;
}

/* sum[j](p[j] * sum[e](a[e] * v[j, e])) is sum[e](a[e] * o[e]) where o[e] = sum[j](p[j] * v[j, e]) is at
 * hand: what attention's backward pass needs of a row follows from its output. NULL elsewhere. */
static hr_expr *through_known(hr_algebra *algebra, const hr_term *part, hr_index_set over) {
    for (int f = 0; f < part->factor_count; f++) {
        const hr_factor inner = part->factors[f];
        if (inner.power != 1 || inner.base->op != HR_OP_REDUCE_SUM) continue;
        const hr_terms body = hr_terms_of(algebra, inner.base->args[0]);
        if (body.count != 1) continue;
        hr_term others = *part;
        others.factors = hr_algebra_take(algebra, (size_t)part->factor_count * sizeof(hr_factor));
        others.factor_count = 0;
        for (int i = 0; i < part->factor_count; i++)
            if (i != f) others.factors[others.factor_count++] = part->factors[i];
        hr_terms merged = {1, &others};
        merged = hr_terms_times(algebra, merged, inner.base->args[0]);
        if (merged.count != 1) continue;
        hr_term rest = merged.terms[0];
        hr_index_set grown = over;
        hr_term held = split_off(algebra, &rest, over, &grown);
        hr_expr *value = summed(algebra, &held, over), *element = hr_known_element(algebra, value);
        if (element == value) element = hr_made_value(algebra, value);
        if (!element) continue;
        element = hr_known_element(algebra, element); /* rounded and saved */
        const hr_index_set bound = hr_index_bits(algebra, inner.base);
        hr_terms result = {1, &rest};
        result = hr_terms_over(algebra, hr_terms_times(algebra, result, element), bound);
        return hr_terms_compose(algebra, result);
    }
    return NULL;
}

static hr_terms term_over(hr_algebra *algebra, hr_term term, hr_index_set over) {
    hr_terms product = {1, &term};
    hr_term rest = term;
    hr_expr *factors[HR_GRAD_INDICES];
    int count = 0;
    for (hr_index_set left = over; left;) {
        hr_index_set group = left & -left;
        hr_term part = split_off(algebra, &rest, over, &group);
        left &= ~group;
        if (!part.factor_count && !part.guard_count) {
            factors[count++] = hr_make_points(algebra, group);
            continue;
        }
        if (cancels(algebra, &part, group)) return (hr_terms){0};
        if (adds_up_to_one(algebra, &part, group)) continue;
        hr_expr *known = through_known(algebra, &part, group);
        factors[count++] = known ? known : hr_known_element(algebra, summed(algebra, &part, group));
    }
    rest.scope &= ~over;
    product.terms = &rest;
    for (int i = 0; i < count; i++)
        product = hr_terms_times(algebra, product, factors[i]);
    if (product.terms == &rest) product = hr_terms_add(algebra, product, (hr_terms){0});
    return product;
}

hr_terms hr_terms_over(hr_algebra *algebra, hr_terms sum, hr_index_set over) {
    if (!over) return sum;
    hr_terms result = {0};
    for (int i = 0; i < sum.count && !algebra->graph->full; i++) {
        const hr_terms term = hr_term_with_weights(algebra, &sum.terms[i], over);
        if (term.count) result = hr_terms_add(algebra, result, term_over(algebra, *term.terms, over));
    }
    return result;
}
