/* Sums of products. In: expressions. Out: their form as sums of terms, and expressions again. */
#include "grad/algebra.h"
#include "grad/affine.h"
#include "ir/types.h"
#include "ir/visit.h"

#include <string.h>

enum { MEMO_START = 1024, ROOM_LEAST = 16 << 20, FACTORS_MOST = 256 };

hr_algebra *hr_algebra_create(hr_graph *graph) {
    hr_algebra *algebra = hr_arena_alloc(graph->arena, sizeof *algebra);
    algebra->graph = graph;
    return algebra;
}

void *hr_algebra_take(hr_algebra *algebra, size_t size) {
    if (hr_arena_room(algebra->graph->arena) < size + ROOM_LEAST) algebra->graph->full = true;
    return hr_arena_alloc(algebra->graph->arena, size);
}

/* ---- indices ---- */

hr_index_set hr_index_bit(hr_algebra *algebra, int index) {
    for (int i = 0; i < algebra->index_count; i++)
        if (algebra->indices[i] == index) return UINT64_C(1) << i;
    if (algebra->index_count == HR_GRAD_INDICES) {
        algebra->graph->full = true;
        return 0;
    }
    algebra->indices[algebra->index_count] = index;
    return UINT64_C(1) << algebra->index_count++;
}

hr_index_set hr_index_bits(hr_algebra *algebra, const hr_expr *node) {
    hr_index_set bound = 0;
    for (int i = 0; i < node->bound_count; i++)
        bound |= hr_index_bit(algebra, node->bound[i]);
    return bound;
}

int hr_index_list(const hr_algebra *algebra, hr_index_set set, int *out) {
    int count = 0;
    for (int i = 0; i < algebra->index_count; i++)
        if (set >> i & 1) out[count++] = algebra->indices[i];
    return count;
}

static void memo_grow(hr_algebra *algebra, int needed) {
    if (needed < algebra->memo_capacity) return;
    int capacity = algebra->memo_capacity ? algebra->memo_capacity : MEMO_START;
    while (capacity <= needed)
        capacity *= 2;
    hr_index_set *free = hr_algebra_take(algebra, (size_t)capacity * sizeof *free);
    bool *known = hr_algebra_take(algebra, (size_t)capacity * sizeof *known);
    if (algebra->memo_capacity) {
        memcpy(free, algebra->free, (size_t)algebra->memo_capacity * sizeof *free);
        memcpy(known, algebra->free_known, (size_t)algebra->memo_capacity * sizeof *known);
    }
    algebra->free = free;
    algebra->free_known = known;
    algebra->memo_capacity = capacity;
}

static hr_visit free_enter(void *context, const hr_expr *node) {
    hr_algebra *algebra = context;
    memo_grow(algebra, node->id);
    return algebra->free_known[node->id] ? HR_VISIT_PAST : HR_VISIT_ON;
}

static void free_leave(void *context, const hr_expr *node) {
    hr_algebra *algebra = context;
    hr_index_set set = node->op == HR_OP_INDEX ? hr_index_bit(algebra, node->index) : 0;
    for (int i = 0; i < node->arg_count; i++)
        set |= algebra->free[node->args[i]->id];
    if (hr_op_is_reduction(node->op))
        for (int i = 0; i < node->bound_count; i++)
            set &= ~hr_index_bit(algebra, node->bound[i]);
    if (hr_op_is_scan(node->op)) set |= hr_index_bit(algebra, node->bound[0]);
    algebra->free[node->id] = set;
    algebra->free_known[node->id] = true;
}

hr_index_set hr_free_indices(hr_algebra *algebra, const hr_expr *expr) {
    memo_grow(algebra, expr->id);
    if (!algebra->free_known[expr->id]) {
        hr_walk walk = {.enter = free_enter, .leave = free_leave, .context = algebra};
        hr_walk_through(&walk, expr);
        if (hr_walk_end(&walk) != HR_OK) algebra->graph->full = true;
    }
    return algebra->free[expr->id];
}

static bool is_taken(const hr_function *function, const char *name) {
    for (int i = 0; i < function->index_count; i++)
        if (strcmp(function->indices[i].name, name) == 0) return true;
    for (int t = 0; t < function->tensor_count; t++)
        if (strcmp(function->tensors[t].name, name) == 0) return true;
    return false;
}

const char *hr_name_fresh(const hr_graph *graph, const char *name) {
    const char *free_name = name;
    for (int number = 2; is_taken(graph->function, free_name); number++)
        free_name = hr_arena_format(graph->arena, "%s%d", name, number);
    return free_name;
}

int hr_index_fresh(hr_algebra *algebra, const char *name, hr_expr *extent) {
    hr_graph *graph = algebra->graph;
    const int index = hr_graph_add_index(graph, hr_name_fresh(graph, name), extent);
    hr_index_bit(algebra, index);
    return index;
}

/* `name`, or that with a number behind it. */
static bool is_called(const char *full, const char *name) {
    const size_t length = strlen(name);
    if (strncmp(full, name, length) != 0) return false;
    return strspn(full + length, "0123456789") == strlen(full + length);
}

int hr_index_like(hr_algebra *algebra, const char *name, hr_expr *extent, hr_index_set taken) {
    const hr_function *function = algebra->graph->function;
    for (int i = 0; i < algebra->index_count; i++) {
        const hr_index *index = &function->indices[algebra->indices[i]];
        if (taken >> i & 1 || index->extent != extent || !is_called(index->name, name)) continue;
        return algebra->indices[i];
    }
    return hr_index_fresh(algebra, name, extent);
}

typedef struct replacement {
    hr_algebra *algebra;
    int count;
    const int *from;
    hr_expr *const *to;
    hr_index_set replaced, brought; /* indices that go, and those that come with what they become */
} replacement;

/* A reduction under a replacement: its own indices are left alone, and step aside where others would be
 * caught. */
static hr_expr *replaced_reduction(const replacement *all, const hr_expr *node) {
    hr_algebra *algebra = all->algebra;
    hr_graph *graph = algebra->graph;
    int from[HR_GRAD_INDICES + HR_DOMAIN_MAX], bound[HR_DOMAIN_MAX], count = 0;
    hr_expr *to[HR_GRAD_INDICES + HR_DOMAIN_MAX];
    const hr_index_set body = hr_free_indices(algebra, node->args[0]);
    hr_index_set brought = 0;
    for (int i = 0; i < all->count; i++) {
        if (hr_indices_have(node->bound, node->bound_count, all->from[i])) continue;
        if (!(body & hr_index_bit(algebra, all->from[i]))) continue;
        from[count] = all->from[i];
        to[count++] = all->to[i];
        brought |= hr_free_indices(algebra, all->to[i]);
    }
    for (int i = 0; i < node->bound_count; i++) {
        bound[i] = node->bound[i];
        if (!(brought & hr_index_bit(algebra, bound[i]))) continue;
        const hr_index old = graph->function->indices[bound[i]];
        bound[i] = hr_index_fresh(algebra, old.name, old.extent);
        from[count] = node->bound[i];
        to[count++] = hr_graph_index_value(graph, bound[i]);
    }
    return hr_graph_reduce(graph, node->op, node->type, node->bound_count, bound,
                           hr_replace_indices(algebra, node->args[0], count, from, to));
}

static hr_expr *replaced_before(void *context, hr_expr *node) {
    const replacement *all = context;
    if (!(hr_free_indices(all->algebra, node) & all->replaced)) return node;
    if (hr_op_is_reduction(node->op)) return replaced_reduction(all, node);
    if (node->op != HR_OP_INDEX) return NULL;
    for (int i = 0; i < all->count; i++)
        if (all->from[i] == node->index) return all->to[i];
    return node;
}

static hr_expr *replaced_after(void *context, const hr_expr *node, hr_expr *const *args) {
    const replacement *all = context;
    return hr_whole_remade(all->algebra, node, args);
}

hr_expr *hr_replace_indices(hr_algebra *algebra, hr_expr *expr, int count, const int *from,
                            hr_expr *const *to) {
    replacement all = {.algebra = algebra, .count = count, .from = from, .to = to};
    for (int i = 0; i < count; i++)
        if (to[i]->op != HR_OP_INDEX || to[i]->index != from[i])
            all.replaced |= hr_index_bit(algebra, from[i]);
    hr_rewriting rewriting = {
        .graph = algebra->graph, .before = replaced_before, .after = replaced_after, .context = &all};
    hr_expr *result = hr_rewriting_of(&rewriting, expr);
    hr_rewriting_end(&rewriting);
    return result;
}

/* ---- expressions ---- */

static hr_expr *brought_to(hr_graph *graph, hr_dtype type, hr_expr *arg) {
    if (arg->type == type) return arg;
    if (arg->op == HR_OP_NUMBER && type != HR_BOOL)
        return hr_graph_number(graph, type, hr_type_is_float(arg->type) ? arg->number : (double)arg->whole);
    return hr_graph_convert(graph, type, arg);
}

hr_expr *hr_make(hr_algebra *algebra, hr_op op, int count, hr_expr *const *args) {
    hr_argument_type types[HR_ARGS_MOST] = {0};
    hr_expr *brought[HR_ARGS_MOST] = {0};
    for (int i = 0; i < count; i++)
        types[i] = hr_argument_type_of(args[i]);
    const hr_op_types made = hr_op_types_of(op, count, types);
    for (int i = 0; i < count; i++)
        brought[i] = brought_to(algebra->graph, made.args[i], args[i]);
    return hr_graph_intern(algebra->graph,
                           &(hr_expr){.op = op, .type = made.result, .arg_count = count, .args = brought});
}

hr_expr *hr_make_unary(hr_algebra *algebra, hr_op op, hr_expr *a) {
    return hr_make(algebra, op, 1, &a);
}

hr_expr *hr_make_binary(hr_algebra *algebra, hr_op op, hr_expr *a, hr_expr *b) {
    hr_expr *args[] = {a, b};
    return hr_make(algebra, op, 2, args);
}

hr_expr *hr_make_number(hr_algebra *algebra, double value) {
    return hr_graph_number(algebra->graph, HR_F32, value);
}

hr_expr *hr_make_same(hr_algebra *algebra, const hr_expr *node, hr_expr *const *args) {
    return node->op == HR_OP_CONVERT ? hr_graph_with_args(algebra->graph, node, args)
                                     : hr_make(algebra, node->op, node->arg_count, args);
}

hr_expr *hr_make_power(hr_algebra *algebra, hr_expr *base, int power) {
    return power == 1 ? base
                      : hr_make_binary(algebra, HR_OP_POW, base, hr_graph_whole(algebra->graph, power));
}

hr_expr *hr_make_reduction(hr_algebra *algebra, hr_op op, hr_index_set bound, hr_expr *body) {
    int indices[HR_GRAD_INDICES];
    const int count = hr_index_list(algebra, bound, indices);
    if (!count) return body;
    const hr_argument_type type = hr_argument_type_of(body);
    const hr_op_types made = hr_op_types_of(op, 1, &type);
    if (count > HR_DOMAIN_MAX) algebra->graph->full = true;
    return hr_graph_reduce(algebra->graph, op, made.result, count, indices,
                           brought_to(algebra->graph, made.args[0], body));
}

/* Of numbers that are no NaN. */
static hr_op comparison_inverse(hr_op op) {
    static const hr_op inverse[] = {HR_OP_GE, HR_OP_GT, HR_OP_LE, HR_OP_LT, HR_OP_NE, HR_OP_EQ};
    return inverse[op - HR_OP_LT];
}

hr_expr *hr_make_not(hr_algebra *algebra, hr_expr *condition) {
    if (condition->op == HR_OP_NOT) return condition->args[0];
    if (hr_op_is_comparison(condition->op) && !hr_type_is_float(condition->args[0]->type))
        return hr_make(algebra, comparison_inverse(condition->op), 2, condition->args);
    return hr_make_unary(algebra, HR_OP_NOT, condition);
}

hr_expr *hr_make_and(hr_algebra *algebra, int count, hr_expr *const *conditions) {
    hr_expr *all = conditions[0];
    for (int i = 1; i < count; i++)
        all = hr_make_binary(algebra, HR_OP_AND, all, conditions[i]);
    return all;
}

hr_expr *hr_make_points(hr_algebra *algebra, hr_index_set set) {
    int indices[HR_GRAD_INDICES];
    const int count = hr_index_list(algebra, set, indices);
    hr_expr *points = hr_make_number(algebra, 1);
    for (int i = 0; i < count; i++) {
        hr_expr *extent = algebra->graph->function->indices[indices[i]].extent;
        hr_expr *each = extent->op == HR_OP_NUMBER ? hr_make_number(algebra, (double)extent->whole)
                                                   : hr_graph_convert(algebra->graph, HR_F32, extent);
        points = i ? hr_make_binary(algebra, HR_OP_MUL, points, each) : each;
    }
    return points;
}

/* ---- terms ---- */

static hr_term term_number(double value) {
    return (hr_term){.coefficient = value};
}

static hr_terms sum_of_term(hr_algebra *algebra, hr_term term) {
    if (term.coefficient == 0) return (hr_terms){0};
    hr_term *kept = hr_algebra_take(algebra, sizeof *kept);
    *kept = term;
    return (hr_terms){1, kept};
}

static hr_term term_of_base(hr_algebra *algebra, hr_expr *base, int power) {
    hr_factor *factor = hr_algebra_take(algebra, sizeof *factor);
    *factor = (hr_factor){base, power};
    return (hr_term){.coefficient = 1, .factor_count = 1, .factors = factor};
}

static hr_term term_product(hr_algebra *algebra, const hr_term *a, const hr_term *b) {
    hr_term product = {.coefficient = a->coefficient * b->coefficient, .scope = a->scope | b->scope};
    product.factors =
        hr_algebra_take(algebra, (size_t)(a->factor_count + b->factor_count) * sizeof(hr_factor));
    for (int i = 0, j = 0; i < a->factor_count || j < b->factor_count;) {
        const int left = i < a->factor_count ? a->factors[i].base->id : INT32_MAX;
        const int right = j < b->factor_count ? b->factors[j].base->id : INT32_MAX;
        hr_factor *next = &product.factors[product.factor_count];
        *next = left <= right ? a->factors[i++] : b->factors[j++];
        if (left == right) next->power += b->factors[j++].power;
        product.factor_count += next->power != 0;
    }
    product.guards = hr_algebra_take(algebra, (size_t)(a->guard_count + b->guard_count) * sizeof(hr_expr *));
    for (int i = 0, j = 0; i < a->guard_count || j < b->guard_count;) {
        const int left = i < a->guard_count ? a->guards[i]->id : INT32_MAX;
        const int right = j < b->guard_count ? b->guards[j]->id : INT32_MAX;
        product.guards[product.guard_count] = left <= right ? a->guards[i++] : b->guards[j++];
        product.guard_count += !hr_term_implies(&product, product.guards[product.guard_count]);
        j += left == right;
    }
    return product;
}

/* To a power; that of a guard is the guard, so a negative one is for terms without. */
static hr_term term_power(hr_algebra *algebra, const hr_term *term, int power) {
    hr_term result = *term;
    result.coefficient = 1;
    for (int i = 0; i < (power < 0 ? -power : power); i++)
        result.coefficient *= term->coefficient;
    if (power < 0) result.coefficient = 1 / result.coefficient;
    result.factors = hr_algebra_take(algebra, (size_t)term->factor_count * sizeof(hr_factor));
    for (int i = 0; i < term->factor_count; i++)
        result.factors[i] = (hr_factor){term->factors[i].base, term->factors[i].power * power};
    return result;
}

bool hr_term_is_like(const hr_term *a, const hr_term *b) {
    return a->factor_count == b->factor_count && a->guard_count == b->guard_count && a->scope == b->scope &&
           (!a->factor_count ||
            memcmp(a->factors, b->factors, (size_t)a->factor_count * sizeof *a->factors) == 0) &&
           (!a->guard_count || memcmp(a->guards, b->guards, (size_t)a->guard_count * sizeof *a->guards) == 0);
}

hr_index_set hr_term_free(hr_algebra *algebra, const hr_term *term) {
    hr_index_set set = 0;
    for (int i = 0; i < term->factor_count; i++)
        set |= hr_free_indices(algebra, term->factors[i].base);
    for (int i = 0; i < term->guard_count; i++)
        set |= hr_free_indices(algebra, term->guards[i]);
    return set;
}

/* ---- sums ---- */

hr_terms hr_terms_add(hr_algebra *algebra, hr_terms a, hr_terms b) {
    hr_terms sum = {.terms = hr_algebra_take(algebra, (size_t)(a.count + b.count) * sizeof(hr_term))};
    for (int i = 0; i < a.count + b.count; i++) {
        const hr_term *term = i < a.count ? &a.terms[i] : &b.terms[i - a.count];
        int like = 0;
        while (like < sum.count && !hr_term_is_like(&sum.terms[like], term))
            like++;
        if (like == sum.count)
            sum.terms[sum.count++] = *term;
        else
            sum.terms[like].coefficient += term->coefficient;
    }
    int kept = 0;
    for (int i = 0; i < sum.count; i++)
        if (sum.terms[i].coefficient != 0) sum.terms[kept++] = sum.terms[i];
    sum.count = kept;
    return sum;
}

static hr_terms scaled(hr_algebra *algebra, hr_terms sum, const hr_term *factor) {
    hr_terms result = {.terms = hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    for (int i = 0; i < sum.count; i++) {
        result.terms[result.count] = term_product(algebra, &sum.terms[i], factor);
        if (result.terms[result.count].factor_count > FACTORS_MOST) algebra->graph->full = true;
        result.count += result.terms[result.count].coefficient != 0;
    }
    return result;
}

hr_terms hr_terms_negate(hr_algebra *algebra, hr_terms sum) {
    const hr_term minus = term_number(-1);
    return scaled(algebra, sum, &minus);
}

hr_terms hr_terms_guard(hr_algebra *algebra, hr_terms sum, hr_expr *condition) {
    if (condition->op == HR_OP_AND)
        return hr_terms_guard(algebra, hr_terms_guard(algebra, sum, condition->args[0]), condition->args[1]);
    if (condition->op == HR_OP_NUMBER) return condition->whole ? sum : (hr_terms){0};
    if (hr_is_certain(algebra, condition)) return sum;
    const hr_term guard = {.coefficient = 1, .guard_count = 1, .guards = &condition};
    return scaled(algebra, sum, &guard);
}

/* One term, whose factors may be a sum in brackets; 0 has none. */
hr_terms hr_terms_joined(hr_algebra *algebra, hr_terms sum) {
    if (sum.count < 2) return sum;
    const hr_index_set scope = sum.terms[0].scope;
    hr_terms joined = hr_terms_of(algebra, hr_terms_compose(algebra, sum));
    if (joined.count > 1)
        joined = sum_of_term(algebra, term_of_base(algebra, hr_terms_compose(algebra, sum), 1));
    for (int i = 0; i < joined.count; i++)
        joined.terms[i].scope = scope;
    return joined;
}

/* What a factor is: a term. */
static hr_terms as_factor(hr_algebra *algebra, const hr_expr *expr) {
    return hr_terms_joined(algebra, hr_terms_of(algebra, expr));
}

hr_terms hr_terms_times(hr_algebra *algebra, hr_terms sum, const hr_expr *factor) {
    const hr_terms term = as_factor(algebra, factor);
    return term.count ? scaled(algebra, sum, term.terms) : (hr_terms){0};
}

static hr_term term_inverse(hr_algebra *algebra, const hr_expr *divisor) {
    const hr_terms sum = as_factor(algebra, divisor);
    if (sum.count == 1 && !sum.terms->guard_count) return term_power(algebra, sum.terms, -1);
    return term_of_base(algebra, (hr_expr *)divisor, -1);
}

hr_terms hr_terms_divide(hr_algebra *algebra, hr_terms sum, const hr_expr *divisor) {
    const hr_term inverse = term_inverse(algebra, divisor);
    return scaled(algebra, sum, &inverse);
}

hr_terms hr_terms_times_power(hr_algebra *algebra, hr_terms sum, hr_expr *factor, int power) {
    return power > 0 ? hr_terms_times(algebra, sum, hr_make_power(algebra, factor, power))
                     : hr_terms_divide(algebra, sum, hr_make_power(algebra, factor, -power));
}

hr_terms hr_terms_in_scope(hr_algebra *algebra, hr_terms sum, hr_index_set scope) {
    hr_terms result = {sum.count, hr_algebra_take(algebra, (size_t)sum.count * sizeof(hr_term))};
    for (int i = 0; i < sum.count; i++) {
        result.terms[i] = sum.terms[i];
        result.terms[i].scope = scope;
    }
    return result;
}

hr_terms hr_terms_replace(hr_algebra *algebra, hr_terms sum, int count, const int *from, hr_expr *const *to) {
    hr_terms result = {0};
    for (int i = 0; i < sum.count; i++) {
        const hr_term *old = &sum.terms[i];
        hr_terms product = sum_of_term(algebra, term_number(old->coefficient));
        for (int f = 0; f < old->factor_count; f++) {
            hr_expr *base = hr_replace_indices(algebra, old->factors[f].base, count, from, to);
            const hr_term factor = term_of_base(algebra, base, old->factors[f].power);
            product = scaled(algebra, product, &factor);
        }
        for (int g = 0; g < old->guard_count; g++)
            product = hr_terms_guard(algebra, product,
                                     hr_replace_indices(algebra, old->guards[g], count, from, to));
        result = hr_terms_add(algebra, result, product);
    }
    return result;
}

/* ---- from expressions ---- */

static bool is_number(const hr_expr *expr, double *value) {
    while (expr->op == HR_OP_CONVERT && expr->args[0]->op == HR_OP_NUMBER && hr_type_is_float(expr->dtype))
        expr = expr->args[0];
    if (expr->op != HR_OP_NUMBER) return false;
    *value = hr_type_is_float(expr->type) ? expr->number : (double)expr->whole;
    return *value - *value == 0; /* inf and nan stay what they are */
}

static hr_terms of_product(hr_algebra *algebra, const hr_expr *a, const hr_expr *b) {
    const hr_terms left = as_factor(algebra, a), right = as_factor(algebra, b);
    if (!left.count || !right.count) return (hr_terms){0};
    return sum_of_term(algebra, term_product(algebra, left.terms, right.terms));
}

static bool is_whole_power(const hr_expr *exponent) {
    return exponent->op == HR_OP_NUMBER && !hr_type_is_float(exponent->type) && exponent->whole &&
           exponent->whole >= -64 && exponent->whole <= 64;
}

static hr_terms of_power(hr_algebra *algebra, const hr_expr *base, int power) {
    const hr_terms sum = as_factor(algebra, base);
    if (!sum.count && power > 0) return sum;
    if (sum.count == 1 && (power > 0 || !sum.terms->guard_count))
        return sum_of_term(algebra, term_power(algebra, sum.terms, power));
    return sum_of_term(algebra, term_of_base(algebra, (hr_expr *)base, power));
}

/* The value of a chosen side. A sum in which some are chosen again stays in brackets: it is one value. */
static hr_terms chosen(hr_algebra *algebra, const hr_expr *side) {
    const hr_terms sum = hr_terms_of(algebra, side);
    bool nested = false;
    for (int i = 0; i < sum.count; i++)
        nested = nested || sum.terms[i].guard_count;
    return nested ? as_factor(algebra, side) : sum;
}

/* An exponential, or that over what is one a row. */
static bool is_weight(hr_algebra *algebra, const hr_expr *node) {
    return node->op == HR_OP_EXP ||
           (node->op == HR_OP_DIV && node->args[0]->op == HR_OP_EXP && node->args[1]->op != HR_OP_POW &&
            hr_free_indices(algebra, node->args[1]));
}

/* A masked exponential stays one value: what it is multiplied with is a matrix product. */
static hr_terms of_where(hr_algebra *algebra, const hr_expr *node) {
    hr_expr *condition = node->args[0];
    double value;
    if (is_weight(algebra, node->args[1]))
        return sum_of_term(algebra, term_of_base(algebra, (hr_expr *)node, 1));
    if (is_number(node->args[2], &value) && value == 0)
        return hr_terms_guard(algebra, chosen(algebra, node->args[1]), condition);
    if (is_number(node->args[1], &value) && value == 0)
        return hr_terms_guard(algebra, chosen(algebra, node->args[2]), hr_make_not(algebra, condition));
    return sum_of_term(algebra, term_of_base(algebra, (hr_expr *)node, 1));
}

/* A product of extents and whole numbers. */
static bool is_of_extents(const hr_expr *expr) {
    if (expr->op == HR_OP_MUL) return is_of_extents(expr->args[0]) && is_of_extents(expr->args[1]);
    return expr->op == HR_OP_EXTENT || (expr->op == HR_OP_NUMBER && !hr_type_is_float(expr->type));
}

static hr_terms new_sum_of(hr_algebra *algebra, const hr_expr *expr) {
    double value;
    if (is_number(expr, &value)) return sum_of_term(algebra, term_number(value));
    if (algebra->graph->full || !hr_type_is_float(expr->type))
        return sum_of_term(algebra, term_of_base(algebra, (hr_expr *)expr, 1));
    switch (expr->op) {
    case HR_OP_ADD:
        return hr_terms_add(algebra, hr_terms_of(algebra, expr->args[0]),
                            hr_terms_of(algebra, expr->args[1]));
    case HR_OP_SUB:
        return hr_terms_add(algebra, hr_terms_of(algebra, expr->args[0]),
                            hr_terms_negate(algebra, hr_terms_of(algebra, expr->args[1])));
    case HR_OP_NEG:
        return hr_terms_negate(algebra, hr_terms_of(algebra, expr->args[0]));
    case HR_OP_MUL:
        return of_product(algebra, expr->args[0], expr->args[1]);
    case HR_OP_DIV:
        if (is_weight(algebra, expr)) break;
        return hr_terms_divide(algebra, as_factor(algebra, expr->args[0]), expr->args[1]);
    case HR_OP_POW:
        if (is_whole_power(expr->args[1])) return of_power(algebra, expr->args[0], (int)expr->args[1]->whole);
        break;
    case HR_OP_WHERE:
        return of_where(algebra, expr);
    case HR_OP_CONVERT: /* a number of points: each extent is a factor of its own */
        if (expr->args[0]->op == HR_OP_MUL && is_of_extents(expr->args[0]))
            return of_product(algebra, hr_graph_convert(algebra->graph, expr->type, expr->args[0]->args[0]),
                              hr_graph_convert(algebra->graph, expr->type, expr->args[0]->args[1]));
        break;
    default:
        break;
    }
    return sum_of_term(algebra, term_of_base(algebra, (hr_expr *)expr, 1));
}

typedef struct hr_known_sum {
    bool known;
    hr_terms sum;
} hr_known_sum;

static void sums_grow(hr_algebra *algebra, int needed) {
    if (needed < algebra->sum_capacity) return;
    int capacity = algebra->sum_capacity ? algebra->sum_capacity : MEMO_START;
    while (capacity <= needed)
        capacity *= 2;
    hr_known_sum *sums = hr_algebra_take(algebra, (size_t)capacity * sizeof *sums);
    if (algebra->sum_capacity) memcpy(sums, algebra->sums, (size_t)algebra->sum_capacity * sizeof *sums);
    algebra->sums = sums;
    algebra->sum_capacity = capacity;
}

hr_terms hr_terms_of(hr_algebra *algebra, const hr_expr *expr) {
    sums_grow(algebra, expr->id);
    if (algebra->sums[expr->id].known) return algebra->sums[expr->id].sum;
    const hr_terms sum = new_sum_of(algebra, expr);
    sums_grow(algebra, expr->id);
    algebra->sums[expr->id] = (hr_known_sum){true, sum};
    return sum;
}
