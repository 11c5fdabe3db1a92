/* Scatters to gathers. In: subscripts of an access. Out: its indices in terms of the axes. */
#include "grad/invert.h"
#include "grad/affine.h"
#include "ir/extent_form.h"
#include "ir/visit.h"

typedef struct solver {
    hr_algebra *algebra;
    hr_index_set scope, solved; /* indices of the access */
    hr_index_set scope_before;  /* with those that step aside */
    int count;                  /* of those that were solved */
    int from[HR_GRAD_INDICES];
    hr_expr *to[HR_GRAD_INDICES];
    int guard_count;
    hr_expr *guards[4 * HR_RANK_MAX + 4];
    hr_index_set taken; /* indices of the sum and of the axes */
    hr_index_set more;  /* indices that came with what was solved, to be summed */
} solver;

static hr_expr *value_of(const solver *s, int index) {
    return hr_graph_index_value(s->algebra->graph, index);
}

static hr_expr *extent_of(const solver *s, int index) {
    return s->algebra->graph->function->indices[index].extent;
}

static void guard(solver *s, hr_op op, hr_expr *a, hr_expr *b) {
    if (s->guard_count < (int)(sizeof s->guards / sizeof *s->guards))
        s->guards[s->guard_count++] = hr_make_binary(s->algebra, op, a, b);
    else
        s->algebra->graph->full = true;
}

static void solve(solver *s, int index, hr_expr *value) {
    if (s->count == HR_GRAD_INDICES) {
        s->algebra->graph->full = true;
        return;
    }
    s->solved |= hr_index_bit(s->algebra, index);
    s->from[s->count] = index;
    s->to[s->count++] = value;
}

/* a >= b, unless that is certain. */
static void guard_at_least(solver *s, hr_expr *a, hr_expr *b) {
    if (!hr_is_never_negative(s->algebra, hr_whole_subtract(s->algebra, a, b))) guard(s, HR_OP_GE, a, b);
}

/* a < b, unless that is certain. */
static void guard_less(solver *s, hr_expr *a, hr_expr *b) {
    hr_algebra *algebra = s->algebra;
    hr_expr *one = hr_graph_whole(algebra->graph, 1);
    hr_expr *room = hr_whole_subtract(algebra, hr_whole_subtract(algebra, b, a), one);
    if (!hr_is_never_negative(algebra, room)) guard(s, HR_OP_LT, a, b);
}

/* Indices of the access that no axis fixes yet. */
static hr_index_set open_indices(const solver *s, const hr_expr *subscript) {
    return hr_free_indices(s->algebra, subscript) & s->scope & ~s->solved;
}

static bool is_number(const hr_expr *expr, int64_t value) {
    return expr->op == HR_OP_NUMBER && expr->whole == value;
}

/* axis = index + rest, or rest - index. */
static bool solve_shift(solver *s, hr_expr *axis, int index, hr_expr *factor, hr_expr *rest) {
    hr_expr *extent = extent_of(s, index);
    if (is_number(factor, 1)) {
        guard_at_least(s, axis, rest);
        guard_less(s, axis, hr_whole_add(s->algebra, extent, rest));
        solve(s, index, hr_whole_subtract(s->algebra, axis, rest));
        return true;
    }
    if (!is_number(factor, -1)) return false;
    guard_at_least(s, rest, axis);
    guard_less(s, hr_whole_subtract(s->algebra, rest, axis), extent);
    solve(s, index, hr_whole_subtract(s->algebra, rest, axis));
    return true;
}

static bool is_positive(hr_algebra *algebra, hr_expr *factor) {
    return hr_is_never_negative(algebra,
                                hr_whole_subtract(algebra, factor, hr_graph_whole(algebra->graph, 1)));
}

/* axis = factor * index + rest: of a rest from 0 to factor - 1 that is an index, both are known; of any
 * other, where the division comes out even. */
static bool solve_steps(solver *s, hr_expr *axis, int index, hr_expr *factor, hr_expr *rest) {
    hr_algebra *algebra = s->algebra;
    if (!is_positive(algebra, factor)) return false;
    hr_expr *zero = hr_graph_whole(algebra->graph, 0);
    const bool alone = rest->op == HR_OP_INDEX && open_indices(s, rest) &&
                       hr_extent_compare(extent_of(s, rest->index), factor) == HR_SAME;
    hr_expr *place = alone ? axis : hr_whole_subtract(algebra, axis, rest);
    hr_expr *whole = hr_make_binary(algebra, HR_OP_FLOORDIV, place, factor);
    if (alone) {
        solve(s, rest->index, hr_make_binary(algebra, HR_OP_MOD, axis, factor));
    } else {
        guard_at_least(s, axis, rest);
        guard(s, HR_OP_EQ, hr_make_binary(algebra, HR_OP_MOD, place, factor), zero);
    }
    guard_less(s, place, hr_whole_multiply(algebra, factor, extent_of(s, index)));
    solve(s, index, whole);
    return true;
}

static bool solve_linear(solver *s, hr_expr *axis, hr_expr *subscript) {
    int indices[HR_GRAD_INDICES];
    const int count = hr_index_list(s->algebra, open_indices(s, subscript), indices);
    hr_expr *factor, *rest;
    for (int steps = 1; steps >= 0; steps--) /* 2 * i + j is solved for i and j rather than for j alone */
        for (int i = 0; i < count; i++) {
            if (!hr_split_linear(s->algebra, subscript, indices[i], &factor, &rest)) continue;
            const bool one = is_number(factor, 1) || is_number(factor, -1);
            if (one == steps) continue;
            if (steps ? solve_steps(s, axis, indices[i], factor, rest)
                      : solve_shift(s, axis, indices[i], factor, rest))
                return true;
        }
    return false;
}

/* axis = index // c: all of c * axis + r; axis = index % c: all of c * q + axis. */
static bool solve_division(solver *s, hr_expr *axis, hr_expr *subscript, int axis_index) {
    hr_algebra *algebra = s->algebra;
    if (subscript->op != HR_OP_FLOORDIV && subscript->op != HR_OP_MOD) return false;
    hr_expr *index = subscript->args[0], *divisor = subscript->args[1];
    if (index->op != HR_OP_INDEX || !open_indices(s, index) || !is_positive(algebra, divisor)) return false;
    if (divisor->op != HR_OP_NUMBER && divisor->op != HR_OP_EXTENT) return false;
    hr_expr *extent = extent_of(s, index->index), *value, *most;
    if (subscript->op == HR_OP_FLOORDIV) {
        const int r = hr_index_like(algebra, "r", divisor, s->taken | s->more);
        s->more |= hr_index_bit(algebra, r);
        value = hr_whole_add(algebra, hr_whole_multiply(algebra, divisor, axis), value_of(s, r));
        most = hr_whole_multiply(algebra, divisor, extent_of(s, axis_index));
    } else {
        hr_expr *up = hr_whole_subtract(algebra, divisor, hr_graph_whole(algebra->graph, 1));
        hr_expr *turns = hr_make_binary(algebra, HR_OP_FLOORDIV, hr_whole_add(algebra, extent, up), divisor);
        const int q = hr_index_like(algebra, "q", turns, s->taken | s->more);
        s->more |= hr_index_bit(algebra, q);
        value = hr_whole_add(algebra, hr_whole_multiply(algebra, divisor, value_of(s, q)), axis);
        guard_less(s, axis, divisor);
        most = NULL;
    }
    if (!most || hr_extent_compare(most, extent) != HR_SAME) guard_less(s, value, extent);
    solve(s, index->index, value);
    return true;
}

/* Plain indices first; then what is linear, in rounds, as each that is solved may solve others. */
static void solve_axes(solver *s, int count, hr_expr *const *subscripts, const int *axes, bool *done) {
    for (int a = 0; a < count; a++) {
        done[a] = subscripts[a]->op == HR_OP_INDEX && open_indices(s, subscripts[a]);
        if (!done[a]) continue;
        if (hr_extent_compare(extent_of(s, subscripts[a]->index), extent_of(s, axes[a])) != HR_SAME)
            guard_less(s, value_of(s, axes[a]), extent_of(s, subscripts[a]->index));
        solve(s, subscripts[a]->index, value_of(s, axes[a]));
    }
    for (bool progress = true; progress;) {
        progress = false;
        for (int a = 0; a < count; a++) {
            if (done[a] || !open_indices(s, subscripts[a])) continue;
            done[a] = solve_linear(s, value_of(s, axes[a]), subscripts[a]) ||
                      solve_division(s, value_of(s, axes[a]), subscripts[a], axes[a]);
            progress = progress || done[a];
        }
    }
}

/* ---- values that are computed once, though they are read in another order ---- */

/* Indices of the access that become something else: what depends on them would be computed again. */
typedef struct rereading {
    hr_algebra *algebra;
    hr_index_set changed;
    hr_index_set brought; /* what they become is made from these */
    hr_expr *inside;      /* what holds wherever the values at hand are read; NULL = nothing is known */
    bool is_summed;       /* over some index: a sum may yet be one with that around it */
} rereading;

static hr_visit is_reduction(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_op_is_reduction(node->op));
}

static bool is_reread(const rereading *r, const hr_expr *expr) {
    return hr_free_indices(r->algebra, expr) & r->changed && hr_expr_find(expr, is_reduction, NULL);
}

/* A value that may read out of range is 0 where it is not asked for. */
static hr_expr *value_held(const rereading *r, hr_expr *value) {
    if (r->inside && !hr_is_in_range(r->algebra, value)) {
        hr_expr *args[] = {r->inside, value, hr_graph_number(r->algebra->graph, value->type, 0)};
        value = hr_make(r->algebra, HR_OP_WHERE, 3, args);
    }
    return hr_hold(r->algebra, value);
}

static hr_expr *held_before(void *context, hr_expr *node) {
    const rereading *r = context;
    if (!is_reread(r, node)) return node;
    return hr_op_is_reduction(node->op) ? value_held(r, node) : NULL;
}

static hr_expr *condition_held(const rereading *r, hr_expr *condition) {
    hr_rewriting rewriting = {.graph = r->algebra->graph, .before = held_before, .context = (void *)r};
    hr_expr *result = hr_rewriting_of(&rewriting, condition);
    hr_rewriting_end(&rewriting);
    return result;
}

static hr_term term_held(const rereading *r, const hr_term *term);

/* Of a sum of products the body: the sum itself may yet be one with those around it. */
static hr_expr *sum_held(const rereading *r, hr_expr *sum) {
    const hr_terms body = hr_terms_of(r->algebra, sum->args[0]);
    rereading inner = *r;
    for (int i = 0; i < sum->bound_count; i++) /* an index of its own steps aside for one that is brought */
        inner.changed |= hr_index_bit(r->algebra, sum->bound[i]) & r->brought;
    hr_terms made = {0};
    for (int i = 0; i < body.count; i++) {
        hr_term term = term_held(&inner, &body.terms[i]);
        made = hr_terms_add(r->algebra, made, (hr_terms){1, &term});
    }
    hr_expr *arg = hr_terms_compose(r->algebra, made);
    return hr_graph_with_args(r->algebra->graph, sum, &arg);
}

static hr_expr *conditions_of(hr_algebra *algebra, const hr_term *term) {
    hr_expr *all = NULL;
    for (int g = 0; g < term->guard_count; g++)
        if (hr_is_in_range(algebra, term->guards[g]))
            all = all ? hr_make_binary(algebra, HR_OP_AND, all, term->guards[g]) : term->guards[g];
    return all;
}

/* Factors that are held together: the product is no larger than the largest of them. */
typedef struct value_groups {
    int count;
    hr_terms all[HR_RANK_MAX];
    hr_index_set sets[HR_RANK_MAX];
} value_groups;

static void group_add(hr_algebra *algebra, value_groups *groups, hr_expr *base, int power) {
    const hr_index_set set = hr_free_indices(algebra, base);
    int i = 0;
    while (i < groups->count && (set & ~groups->sets[i]) && (groups->sets[i] & ~set))
        i++;
    if (i == HR_RANK_MAX) {
        algebra->graph->full = true;
        return;
    }
    if (i == groups->count) {
        groups->all[i] = hr_terms_of(algebra, hr_make_number(algebra, 1));
        groups->sets[groups->count++] = 0;
    }
    groups->all[i] = hr_terms_times_power(algebra, groups->all[i], base, power);
    groups->sets[i] |= set;
}

static hr_term term_held(const rereading *outer, const hr_term *term) {
    hr_algebra *algebra = outer->algebra;
    rereading here = *outer;
    const rereading *r = &here;
    hr_expr *conditions = conditions_of(algebra, term);
    if (conditions)
        here.inside = here.inside ? hr_make_binary(algebra, HR_OP_AND, here.inside, conditions) : conditions;
    hr_term number = {.coefficient = term->coefficient, .scope = term->scope};
    hr_terms rest = {1, &number};
    value_groups groups = {0};
    for (int f = 0; f < term->factor_count; f++) {
        hr_expr *base = term->factors[f].base;
        const int power = term->factors[f].power;
        if (!is_reread(r, base))
            rest = hr_terms_times_power(algebra, rest, base, power);
        else if (r->is_summed && base->op == HR_OP_REDUCE_SUM && power == 1 && term->factor_count == 1)
            rest = hr_terms_times_power(algebra, rest, sum_held(r, base), 1);
        else
            group_add(algebra, &groups, base, power);
    }
    for (int i = 0; i < groups.count; i++)
        rest =
            hr_terms_times_power(algebra, rest, value_held(r, hr_terms_compose(algebra, groups.all[i])), 1);
    for (int g = 0; g < term->guard_count; g++)
        rest = hr_terms_guard(algebra, rest, condition_held(r, term->guards[g]));
    return rest.count == 1 ? rest.terms[0] : *term;
}

static hr_visit is_data(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_ELEMENT || node->op == HR_OP_INDEX);
}

/* h // (H // G): heads that share a key. Each key asks all heads, which adds them up in one order. */
static bool is_shared(const solver *s, const hr_expr *subscript) {
    return (subscript->op == HR_OP_FLOORDIV || subscript->op == HR_OP_MOD) &&
           subscript->args[0]->op == HR_OP_INDEX && open_indices(s, subscript->args[0]) &&
           !hr_expr_find(subscript->args[1], is_data, NULL);
}

/* Indices of the access that are summed. */
static hr_index_set summed_indices(const solver *s) {
    return (s->scope & ~s->solved) | s->more;
}

/* The sum with what reductions depend on `changed` in locals. A sum of what shares an element, as heads do a
 * key, stays apart from that over those: it is a matrix product yet. */
static hr_terms with_values_held(const solver *s, hr_terms sum, hr_index_set changed) {
    rereading r = {.algebra = s->algebra, .changed = changed, .is_summed = (s->scope & ~s->solved) != 0};
    for (int i = 0; i < s->count; i++)
        r.brought |= hr_free_indices(s->algebra, s->to[i]);
    hr_terms result = {sum.count, hr_algebra_take(s->algebra, (size_t)sum.count * sizeof(hr_term))};
    if (!changed) return sum;
    for (int i = 0; i < sum.count; i++)
        result.terms[i] = term_held(&r, &sum.terms[i]);
    return result;
}

/* Indices of the access that become something else. */
static hr_index_set changed_indices(const solver *s) {
    hr_index_set changed = 0;
    for (int i = 0; i < s->count; i++)
        if (s->to[i]->op != HR_OP_INDEX || s->to[i]->index != s->from[i])
            changed |= hr_index_bit(s->algebra, s->from[i]);
    return changed;
}

/* ---- all of it ---- */

/* Indices of the access that have the number of an axis step aside. */
static hr_terms with_own_indices(solver *s, hr_terms sum, int count, hr_expr **subscripts, const int *axes) {
    hr_algebra *algebra = s->algebra;
    hr_index_set taken = 0;
    int clash[HR_GRAD_INDICES], clashes;
    hr_expr *to[HR_GRAD_INDICES];
    for (int a = 0; a < count; a++)
        taken |= hr_index_bit(algebra, axes[a]);
    for (int a = 0; a < count; a++) /* one that stands for its own axis need not */
        if (subscripts[a]->op == HR_OP_INDEX && subscripts[a]->index == axes[a])
            taken &= ~hr_index_bit(algebra, axes[a]);
    s->scope_before = s->scope;
    clashes = hr_index_list(algebra, s->scope & taken, clash);
    for (int i = 0; i < clashes; i++) {
        const hr_index old = algebra->graph->function->indices[clash[i]];
        const int fresh = hr_index_like(algebra, old.name, old.extent, s->taken);
        s->taken |= hr_index_bit(algebra, fresh);
        to[i] = hr_graph_index_value(algebra->graph, fresh);
        s->scope = (s->scope & ~hr_index_bit(algebra, clash[i])) | hr_index_bit(algebra, fresh);
    }
    if (!clashes) return sum;
    sum = with_values_held(s, sum, s->scope_before & taken);
    for (int a = 0; a < count; a++)
        subscripts[a] = hr_replace_indices(algebra, subscripts[a], clashes, clash, to);
    return hr_terms_replace(algebra, sum, clashes, clash, to);
}

hr_terms hr_gather(hr_algebra *algebra, hr_terms sum, int count, hr_expr *const *given, const int *axes,
                   bool *scatters) {
    *scatters = false;
    if (!sum.count) return sum;
    solver *s = hr_algebra_take(algebra, sizeof *s);
    hr_expr *subscripts[HR_RANK_MAX];
    bool done[HR_RANK_MAX];
    *s = (solver){.algebra = algebra, .scope = sum.terms[0].scope};
    for (int a = 0; a < count; a++)
        subscripts[a] = given[a];
    s->taken = s->scope;
    for (int a = 0; a < count; a++)
        s->taken |= hr_index_bit(algebra, axes[a]);
    for (int i = 0; i < sum.count; i++)
        s->taken |= hr_term_free(algebra, &sum.terms[i]);
    sum = with_own_indices(s, sum, count, subscripts, axes);
    solve_axes(s, count, subscripts, axes, done);
    for (int a = 0; a < count; a++)
        if (!done[a]) {
            *scatters = *scatters || (open_indices(s, subscripts[a]) && !is_shared(s, subscripts[a]));
            guard(s, HR_OP_EQ, value_of(s, axes[a]), subscripts[a]);
        }
    for (int g = 0; g < s->guard_count; g++) /* solved indices stand in them, too */
        s->guards[g] = hr_replace_indices(algebra, s->guards[g], s->count, s->from, s->to);
    sum = hr_terms_replace(algebra, with_values_held(s, sum, changed_indices(s)), s->count, s->from, s->to);
    for (int g = 0; g < s->guard_count; g++)
        sum = hr_terms_guard(algebra, sum, s->guards[g]);
    return hr_terms_over(algebra, sum, summed_indices(s));
}
