/* A sum over a product, taken apart. In: the factors and the indices of the sum.
 * Out: which of both are a sum of their own.
 *
 *     sum[j, k](a[i, j] * b[j, k] * c[k, l]) = sum[k](sum[j](a[i, j] * b[j, k]) * c[k, l])
 *
 * The left side has a term for each i, j, k, l, the right side one for each i, j, k and one for each i, k, l.
 * The inner sum is a local: it is worth one where that spares most of the terms, and many.
 *
 * Factors that do not vary along the sum leave it, where the others are then operands as they lie in memory.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <stdlib.h>

enum { TERMS_LEAST = 1 << 14 };

typedef struct terms {
    const hr_function *function;
    const int64_t *extents;
    bool *uses[HR_FACTORS_MOST]; /* by factor, by index */
    int factor_count;
} terms;

/* The factors that vary with the index, as bits. */
static unsigned factors_of(const terms *t, int index) {
    unsigned set = 0;
    for (int f = 0; f < t->factor_count; f++)
        set |= (unsigned)t->uses[f][index] << f;
    return set;
}

/* The product of the sizes of all indices that the factors vary with, but for those. */
static double points_of(const terms *t, unsigned factors, const int *without, int count) {
    double points = 1;
    for (int i = 0; i < t->function->index_count; i++) {
        int64_t size;
        if (!(factors_of(t, i) & factors) || hr_indices_have(without, count, i)) continue;
        if (hr_extent_value(t->function, t->function->indices[i].extent, t->extents, &size) != HR_OK)
            return 0;
        points *= (double)size;
    }
    return points;
}

/* The factors that vary with bound index `index`, and all bound indices that no other factor varies with. */
static hr_factoring inner_sum(const terms *t, const int *bound, int count, int index) {
    hr_factoring inner = {.factors = factors_of(t, index)};
    for (int i = 0; i < count; i++)
        if (!(factors_of(t, bound[i]) & ~inner.factors)) inner.bound[inner.bound_count++] = bound[i];
    return inner;
}

static bool factor(const terms *t, const int *bound, int count, hr_factoring *out) {
    const unsigned all = (1u << t->factor_count) - 1;
    const double direct = points_of(t, all, NULL, 0);
    double least = direct / 2;
    bool found = false;
    for (int i = 0; i < count; i++) {
        const hr_factoring inner = inner_sum(t, bound, count, bound[i]);
        if (!inner.factors || inner.factors == all) continue;
        const double cost =
            points_of(t, inner.factors, NULL, 0) + points_of(t, all, inner.bound, inner.bound_count);
        if (!(cost <= least) || direct - cost < TERMS_LEAST) continue;
        least = cost;
        *out = inner;
        found = true;
    }
    return found;
}

bool hr_sum_factored(const hr_function *function, const int64_t *extents, const int *bound, int bound_count,
                     hr_expr *const *factors, int factor_count, hr_factoring *out) {
    terms t = {.function = function, .extents = extents, .factor_count = factor_count};
    const size_t indices = (size_t)function->index_count + 1;
    if (factor_count < 2 || factor_count > HR_FACTORS_MOST || bound_count > HR_FACTORS_MOST) return false;
    bool *uses = hr_memory_zeros(indices * (size_t)factor_count, sizeof *uses);
    if (!uses) return false; /* only operations are lost */
    for (int f = 0; f < factor_count; f++) {
        t.uses[f] = uses + (size_t)f * indices;
        hr_expr_mark_indices(factors[f], t.uses[f]);
    }
    *out = (hr_factoring){0};
    const bool found = factor(&t, bound, bound_count, out);
    free(uses);
    return found;
}

/* ---- factors that leave a sum ---- */

static hr_visit varies(const hr_expr *e, const void *context) {
    (void)context;
    return hr_visit_until(e->op == HR_OP_INDEX || e->op == HR_OP_ELEMENT || e->op == HR_OP_RANDOM);
}

static hr_visit draws(const hr_expr *e, const void *context) {
    (void)context;
    return hr_visit_until(e->op == HR_OP_RANDOM);
}

static bool has_some(const hr_expr *factor, const int *bound, int count) {
    for (int i = 0; i < count; i++)
        if (hr_expr_has_index(factor, bound[i])) return true;
    return false;
}

bool hr_factor_stays(const hr_expr *factor, const int *bound, int bound_count, bool narrow) {
    if (!hr_expr_find(factor, varies, NULL)) return false;
    return !narrow || has_some(factor, bound, bound_count) || hr_expr_find(factor, draws, NULL);
}

bool hr_factors_are_narrow(const hr_function *function, hr_expr *const *factors, int factor_count,
                           const int *bound, int bound_count) {
    hr_dtype first = HR_DTYPE_COUNT;
    for (int f = 0; f < factor_count; f++) {
        const hr_expr *factor = factors[f];
        if (!has_some(factor, bound, bound_count)) continue;
        if (factor->op != HR_OP_ELEMENT) return false;
        const hr_dtype dtype = function->tensors[factor->tensor].dtype;
        const bool f8 = dtype == HR_F8E4M3 || dtype == HR_F8E5M2;
        if (dtype != HR_BF16 && dtype != HR_F16 && !f8) return false;
        if (first != HR_DTYPE_COUNT && dtype != first && !(f8 && hr_dtype_size(first) == 1)) return false;
        first = dtype;
    }
    return first != HR_DTYPE_COUNT;
}
