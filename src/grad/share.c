/* The statements of a derived kernel. In: what each gradient is. Out: statements in which common parts are
 * computed once and have names, sums over indices stand alone, and what is one a row is one a row.
 *
 * Parts are shared last: a name that came earlier would hide what cancels.
 */
#include "grad/affine.h"
#include "grad/derivation.h"
#include "ir/types.h"

#include <math.h>
#include <string.h>

/* A product of factors as it stands somewhere in the kernel. */
typedef struct product {
    hr_term term;
    int uses;
} product;

/* Two factors that several products have in common, and the local that holds their product. */
typedef struct pair {
    hr_expr *a, *b, *element;
    bool written; /* its statement is there */
} pair;

typedef struct pair_score {
    int count, width; /* places where the two meet; indices of their product */
    int whole;        /* places that are just the two */
    bool unguarded;   /* one of them has no condition */
} pair_score;

typedef struct use {
    int count;      /* of products and functions that the node is a part of */
    bool unguarded; /* in one of them without a condition */
    bool entered;
    hr_expr *settled; /* what it becomes */
} use;

typedef struct sharing {
    hr_derivation *derivation;
    hr_algebra *algebra;
    int product_count, product_capacity, pair_count, pair_capacity, use_capacity;
    hr_index_set domain; /* of the gradient at hand */
    int wraps;           /* locals made that are 0 where their condition does not hold */
    hr_expr *inside;     /* the condition under which the value at hand is read; NULL = always */
    product *products;
    pair *pairs;
    use *uses; /* by the number of the node */
} sharing;

enum { PRODUCTS_MOST = 4096 };

static void *grown(sharing *s, void *old, int count, int *capacity, size_t size, int needed) {
    if (needed < *capacity) return old;
    int larger = *capacity ? *capacity : 64;
    while (larger <= needed)
        larger *= 2;
    void *data = hr_algebra_take(s->algebra, (size_t)larger * size);
    if (count) memcpy(data, old, (size_t)count * size);
    *capacity = larger;
    return data;
}

static use *use_of(sharing *s, const hr_expr *node) {
    s->uses = grown(s, s->uses, s->use_capacity, &s->use_capacity, sizeof *s->uses, node->id);
    return &s->uses[node->id];
}

/* ---- what there is ---- */

static bool is_leaf(const hr_expr *expr) {
    return !expr->arg_count || expr->op == HR_OP_ELEMENT;
}

/* Whether the product is a new one. */
static bool note_product(sharing *s, const hr_term *term) {
    for (int i = 0; i < s->product_count; i++) {
        if (!hr_term_is_like(&s->products[i].term, term)) continue;
        s->products[i].uses++;
        return false;
    }
    if (s->product_count == PRODUCTS_MOST) return false;
    s->products =
        grown(s, s->products, s->product_count, &s->product_capacity, sizeof *s->products, s->product_count);
    s->products[s->product_count++] = (product){*term, 1};
    return true;
}

static void note_value(sharing *s, const hr_expr *value, bool guarded);

static void note_node(sharing *s, const hr_expr *node, bool guarded) {
    use *at = use_of(s, node);
    at->count++;
    at->unguarded = at->unguarded || !guarded;
    const hr_held_value *wanted = hr_held_by(s->algebra, node);
    if (wanted && !use_of(s, wanted->element)->entered) {
        use_of(s, wanted->element)->entered = true;
        note_value(s, wanted->value, false);
    }
    at = use_of(s, node);
    if (at->entered || is_leaf(node)) return;
    at->entered = true;
    const bool chosen = node->op == HR_OP_WHERE;
    for (int i = 0; i < node->arg_count; i++)
        if (hr_type_is_float(node->args[i]->type))
            note_value(s, node->args[i], guarded || (chosen && i));
        else
            note_node(s, node->args[i], guarded);
}

/* The products of the value, and what they are made from. */
static void note_value(sharing *s, const hr_expr *value, bool guarded) {
    const hr_terms sum = hr_terms_of(s->algebra, value);
    for (int i = 0; i < sum.count; i++) {
        const hr_term *term = &sum.terms[i];
        if (!note_product(s, term)) {
            if (term->factor_count == 1) use_of(s, term->factors[0].base)->count++;
            continue;
        }
        for (int f = 0; f < term->factor_count; f++)
            note_node(s, term->factors[f].base, guarded || term->guard_count);
        for (int g = 0; g < term->guard_count; g++)
            note_node(s, term->guards[g], guarded);
    }
}

/* ---- pairs of factors ---- */

static int place_of(const hr_term *term, const hr_expr *base) {
    for (int f = 0; f < term->factor_count; f++)
        if (term->factors[f].base == base && term->factors[f].power == 1) return f;
    return -1;
}

/* How often the two meet, and are not one a row of what they meet in. */
static int meetings(sharing *s, const hr_expr *a, const hr_expr *b, pair_score *score) {
    const hr_index_set left = hr_free_indices(s->algebra, a), right = hr_free_indices(s->algebra, b);
    *score = (pair_score){.width = __builtin_popcountll(left | right)};
    for (int i = 0; i < s->product_count && score->width; i++) {
        const hr_term *term = &s->products[i].term;
        if (place_of(term, a) < 0 || place_of(term, b) < 0) continue;
        hr_index_set all = 0;
        for (int f = 0; f < term->factor_count; f++)
            all |= hr_free_indices(s->algebra, term->factors[f].base);
        if (all != (left | right) && left != right) continue;
        score->count += s->products[i].uses;
        score->whole += term->factor_count == 2;
        score->unguarded = score->unguarded || !term->guard_count;
    }
    return score->count;
}

static bool pairs_up(const hr_factor *factor) {
    return factor->power == 1 && !hr_op_is_reduction(factor->base->op);
}

static bool is_better(const pair_score *a, const pair_score *b) {
    if (a->count != b->count) return a->count > b->count;
    if (a->width != b->width) return a->width > b->width;
    return a->whole > b->whole;
}

static bool best_pair(sharing *s, pair *best) {
    pair_score most = {.count = 1, .width = HR_GRAD_INDICES}, score;
    for (int i = 0; i < s->product_count; i++) {
        const hr_term *term = &s->products[i].term;
        for (int f = 0; f < term->factor_count; f++)
            for (int g = f + 1; g < term->factor_count; g++) {
                hr_expr *a = term->factors[f].base, *b = term->factors[g].base;
                if (!pairs_up(&term->factors[f]) || !pairs_up(&term->factors[g])) continue;
                if (meetings(s, a, b, &score) < 2 || !is_better(&score, &most)) continue;
                if (!score.unguarded && !(hr_is_in_range(s->algebra, a) && hr_is_in_range(s->algebra, b)))
                    continue;
                most = score;
                *best = (pair){.a = a, .b = b};
            }
    }
    return most.count > 1;
}

static hr_term without_pair(sharing *s, const hr_term *term, const pair *p) {
    hr_term rest = *term;
    rest.factors = hr_algebra_take(s->algebra, (size_t)(term->factor_count + 1) * sizeof(hr_factor));
    rest.factor_count = 0;
    for (int f = 0; f < term->factor_count; f++)
        if (term->factors[f].base != p->a && term->factors[f].base != p->b)
            rest.factors[rest.factor_count++] = term->factors[f];
    rest.factors[rest.factor_count++] = (hr_factor){p->element, 1}; /* the newest number is the largest */
    return rest;
}

static bool holds_pair(const hr_term *term, const pair *p) {
    return place_of(term, p->a) >= 0 && place_of(term, p->b) >= 0;
}

static hr_expr *pair_product(sharing *s, hr_expr *a, hr_expr *b) {
    return hr_terms_compose(s->algebra, hr_terms_times(s->algebra, hr_terms_of(s->algebra, a), b));
}

static void find_pairs(sharing *s) {
    pair found;
    while (!s->algebra->graph->full && best_pair(s, &found)) {
        hr_expr *product = pair_product(s, found.a, found.b);
        found.element = hr_local_create(s->algebra, hr_name_of_product(s->derivation, product), product,
                                        hr_free_indices(s->algebra, product));
        if (hr_carries_cotangent(s->derivation, product))
            hr_carry_cotangent(s->derivation, found.element->tensor);
        s->pairs = grown(s, s->pairs, s->pair_count, &s->pair_capacity, sizeof *s->pairs, s->pair_count);
        s->pairs[s->pair_count++] = found;
        int replaced = 0;
        for (int i = 0; i < s->product_count; i++) {
            if (!holds_pair(&s->products[i].term, &found)) continue;
            s->products[i].term = without_pair(s, &s->products[i].term, &found);
            replaced++;
        }
        use_of(s, found.a)->count -= replaced - 1;
        use_of(s, found.b)->count -= replaced - 1;
        use_of(s, found.element)->count = replaced;
    }
}

/* ---- what things become ---- */

static hr_expr *settled(sharing *s, const hr_expr *value, bool alone);

static void write_local(sharing *s, hr_expr *element, hr_expr *value) {
    int domain[HR_RANK_MAX];
    for (int i = 0; i < element->arg_count; i++)
        domain[i] = element->args[i]->index;
    hr_graph_add_statement(s->algebra->graph, element->tensor, element->arg_count, domain, value,
                           (hr_place){0});
}

/* The local that holds `value` already, or NULL. */
static hr_expr *holder_of(sharing *s, const hr_expr *value) {
    const hr_function *function = s->algebra->graph->function;
    for (int i = 0; i < function->statement_count; i++) {
        const hr_statement *statement = &function->statements[i];
        if (statement->value == value && statement->store == HR_STORE_WHOLE)
            return hr_graph_element(s->algebra->graph, statement->tensor, statement->subscript_count,
                                    statement->subscripts);
    }
    return NULL;
}

/* A local that holds `value`, which is settled; `meaning` is what it was before. */
static hr_expr *held(sharing *s, const hr_expr *meaning, hr_expr *value) {
    const hr_index_set set = hr_free_indices(s->algebra, value);
    hr_expr *holder = holder_of(s, value);
    if (holder) return holder;
    hr_expr *element = hr_local_create(s->algebra, hr_name_of(s->derivation, meaning, value), value, set);
    if (s->algebra->graph->full) return element;
    if (hr_carries_cotangent(s->derivation, meaning)) hr_carry_cotangent(s->derivation, element->tensor);
    write_local(s, element, value);
    return element;
}

/* The local is 0 where it would read out of range. */
static hr_expr *held_inside(sharing *s, const hr_expr *meaning, hr_expr *value) {
    s->wraps++;
    const hr_index_set bound = hr_index_bits(s->algebra, value);
    int from[HR_GRAD_INDICES];
    hr_expr *to[HR_GRAD_INDICES], *body = value->args[0];
    hr_index_set own = bound & ~hr_free_indices(s->algebra, s->inside);
    const int clashes = hr_index_list(s->algebra, bound & ~own, from);
    for (int i = 0; i < clashes; i++) { /* the condition is about another one of that name */
        const hr_index old = s->algebra->graph->function->indices[from[i]];
        const int fresh = hr_index_fresh(s->algebra, old.name, old.extent);
        own |= hr_index_bit(s->algebra, fresh);
        to[i] = hr_graph_index_value(s->algebra->graph, fresh);
    }
    if (clashes)
        value = hr_make_reduction(s->algebra, value->op, own,
                                  hr_replace_indices(s->algebra, body, clashes, from, to));
    hr_expr *args[] = {s->inside, value, hr_graph_number(s->algebra->graph, value->type, 0)};
    return held(s, meaning, hr_make(s->algebra, HR_OP_WHERE, 3, args));
}

static bool is_from_whole(const hr_expr *node) {
    return node->op == HR_OP_CONVERT && !hr_type_is_float(node->args[0]->type);
}

/* A choice: what stands on its sides is read under the condition, or under its opposite. */
static hr_expr *settled_choice(sharing *s, const hr_expr *node) {
    hr_expr *outer = s->inside, *args[3] = {settled(s, node->args[0], false)};
    for (int i = 1; i < 3; i++) {
        hr_expr *here = i == 1 ? args[0] : hr_make_not(s->algebra, args[0]);
        s->inside = outer ? hr_make_binary(s->algebra, HR_OP_AND, outer, here) : here;
        args[i] = settled(s, node->args[i], false);
    }
    s->inside = outer;
    return hr_make_same(s->algebra, node, args);
}

/* An operand of a product that is computed and rounded has a name: whoever has its parts at hand makes it. */
static void name_operands(sharing *s, const hr_expr *sum) {
    const hr_terms body = hr_terms_of(s->algebra, sum->args[0]);
    const hr_term *term = body.terms;
    if (body.count != 1) return;
    for (int f = 0; f < term->factor_count; f++) {
        const hr_expr *base = term->factors[f].base;
        const hr_index_set own = hr_free_indices(s->algebra, base);
        hr_index_set others = 0;
        for (int g = 0; g < term->factor_count; g++)
            if (g != f) others |= hr_free_indices(s->algebra, term->factors[g].base);
        if (!(own & ~others) || !(others & ~own)) continue;
        if (hr_rounds_to_half(base) && !is_leaf(base->args[0]) && use_of(s, base)->count == 1)
            use_of(s, base)->count = 2; /* here, and where it is made */
    }
}

static hr_expr *with_settled_args(sharing *s, const hr_expr *node) {
    hr_expr *args[HR_RANK_MAX + 1];
    if (is_leaf(node)) return (hr_expr *)node;
    if (node->op == HR_OP_WHERE) return settled_choice(s, node);
    if (node->op == HR_OP_REDUCE_SUM) name_operands(s, node);
    for (int i = 0; i < node->arg_count; i++)
        args[i] = settled(s, node->args[i], false);
    if (node->op == HR_OP_REDUCE_SUM) {
        const hr_index_set bound = hr_index_bits(s->algebra, node);
        hr_expr *holder = is_leaf(args[0]) ? NULL : holder_of(s, args[0]);
        args[0] = holder ? holder : hr_product_rounded(s->derivation, args[0], bound);
    }
    if (hr_op_is_reduction(node->op) || hr_op_is_scan(node->op))
        return hr_graph_with_args(s->algebra->graph, node, args);
    return hr_make_same(s->algebra, node, args);
}

/* A function or a sum in brackets that is used more than once has a name. */
static bool is_shared(sharing *s, const hr_expr *node) {
    const use *at = use_of(s, node);
    if (is_leaf(node) || !hr_type_is_float(node->type) || at->count < 2) return false;
    if (!hr_free_indices(s->algebra, node)) return false;
    if (is_from_whole(node) && (is_leaf(node->args[0]) || hr_expr_is_affine(node->args[0]))) return false;
    return at->unguarded || hr_is_in_range(s->algebra, node);
}

/* An element of a local that was wanted before there were statements. */
static hr_expr *settled_held(sharing *s, const hr_expr *node, hr_held_value *wanted) {
    hr_graph *graph = s->algebra->graph;
    int from[HR_RANK_MAX];
    if (!wanted->holder) {
        hr_expr *outer = s->inside;
        s->inside = NULL; /* it is read elsewhere, too */
        hr_expr *value = settled(s, wanted->value, true);
        s->inside = outer;
        hr_expr *holder = value->op == HR_OP_ELEMENT ? value : holder_of(s, value);
        wanted->holder = holder ? holder : wanted->element;
        if (!holder && !graph->full) {
            graph->function->tensors[node->tensor].name = hr_name_of(s->derivation, wanted->value, value);
            if (hr_carries_cotangent(s->derivation, wanted->value))
                hr_carry_cotangent(s->derivation, node->tensor);
            write_local(s, wanted->element, value);
        }
    }
    if (graph->full) return graph->placeholder;
    for (int i = 0; i < node->arg_count; i++)
        from[i] = wanted->element->args[i]->index;
    return hr_replace_indices(s->algebra, wanted->holder, node->arg_count, from, node->args);
}

static bool is_rounded_reduction(const hr_expr *node) {
    return node->op == HR_OP_CONVERT && hr_type_is_float(node->type) && hr_op_is_reduction(node->args[0]->op);
}

static hr_expr *settled_node(sharing *s, const hr_expr *node) {
    hr_held_value *wanted = hr_held_by(s->algebra, node);
    if (wanted) return settled_held(s, node, wanted);
    if (use_of(s, node)->settled) return use_of(s, node)->settled;
    hr_expr *value = NULL;
    const int wraps = s->wraps;
    const bool sum = node->op == HR_OP_ADD || node->op == HR_OP_SUB;
    if (is_rounded_reduction(node)) { /* one local, not a sum and what it is rounded to */
        value = with_settled_args(s, node->args[0]);
        value = held(s, node, hr_graph_with_args(s->algebra->graph, node, &value));
    } else {
        value = sum && hr_type_is_float(node->type) ? settled(s, node, true) : with_settled_args(s, node);
        if (hr_op_is_reduction(node->op) && s->inside && !hr_is_in_range(s->algebra, node))
            return held_inside(s, node, value);
        if (is_shared(s, node) && is_from_whole(node)) /* the whole number is kept */
            value = hr_graph_convert(s->algebra->graph, node->type, held(s, node->args[0], value->args[0]));
        else if (hr_op_is_reduction(node->op) || is_shared(s, node))
            value = held(s, node, value);
    }
    if (s->wraps == wraps) use_of(s, node)->settled = value; /* else it is right here only */
    return value;
}

/* The term with its pairs as locals. */
static hr_term with_pairs(sharing *s, const hr_term *term) {
    hr_term result = *term;
    for (int i = 0; i < s->pair_count; i++)
        if (holds_pair(&result, &s->pairs[i])) result = without_pair(s, &result, &s->pairs[i]);
    return result;
}

static bool is_pair(const sharing *s, const hr_expr *base, int *which) {
    for (*which = 0; *which < s->pair_count; ++*which)
        if (s->pairs[*which].element == base) return true;
    return false;
}

static int reductions_of(const hr_term *term) {
    int count = 0;
    for (int f = 0; f < term->factor_count; f++)
        count += hr_op_is_reduction(term->factors[f].base->op);
    return count;
}

static hr_terms settled_term(sharing *s, const hr_term *term, bool alone);

static hr_expr *settled_factor(sharing *s, hr_expr *base, bool stays);

/* A product of what a mask leaves out is left out: 0 times what is not finite would be NaN. */
static hr_expr *within_masks(const sharing *s, hr_expr *const *factors, hr_expr *product) {
    for (int i = 0; i < 2; i++) {
        hr_expr *mask = hr_mask_of_local(s->derivation, factors[i]);
        if (!mask || hr_free_indices(s->algebra, factors[1 - i]) & ~hr_free_indices(s->algebra, factors[i]))
            continue;
        hr_expr *args[] = {mask, product, hr_make_number(s->algebra, 0)};
        return hr_make(s->algebra, HR_OP_WHERE, 3, args);
    }
    return product;
}

static void write_pair(sharing *s, pair *p) {
    if (p->written) return;
    hr_expr *outer = s->inside;
    p->written = true;
    s->inside = NULL;
    hr_expr *args[2] = {settled_factor(s, p->a, false), settled_factor(s, p->b, false)};
    s->inside = outer;
    write_local(s, p->element, within_masks(s, args, pair_product(s, args[0], args[1])));
}

/* A sum that reads out of range where the guards do not hold is a local that is 0 there. */
static hr_expr *guarded_sum(sharing *s, const hr_term *term, hr_expr *base) {
    hr_term inside = {
        .coefficient = 1, .factor_count = 1, .guard_count = term->guard_count, .guards = term->guards};
    inside.factors = &(hr_factor){base, 1};
    return held(s, base, hr_terms_compose(s->algebra, settled_term(s, &inside, true)));
}

/* A factor, settled; a reduction becomes a local unless it is all that its statement is. */
static hr_expr *settled_factor(sharing *s, hr_expr *base, bool stays) {
    int which;
    if (is_pair(s, base, &which)) {
        write_pair(s, &s->pairs[which]);
        return base;
    }
    if (stays && hr_op_is_reduction(base->op) && use_of(s, base)->count < 2)
        return with_settled_args(s, base);
    return settled_node(s, base);
}

/* What is one a row and holds a sum over the row is a local: along[m] = sum[n](...) * rstd[m] / N. */
static hr_expr *row_local(sharing *s, const hr_term *class) {
    const hr_expr *meaning = NULL;
    for (int f = 0; f < class->factor_count; f++)
        if (hr_op_is_reduction(class->factors[f].base->op)) meaning = class->factors[f].base;
    const hr_terms value = settled_term(s, class, true);
    hr_expr *composed = hr_terms_compose(s->algebra, value);
    return composed->op == HR_OP_ELEMENT ? composed : held(s, meaning, composed);
}

/* Conditions that may read out of range are read under those that do not. */
static hr_terms settled_guards(sharing *s, const hr_term *term, hr_terms product) {
    hr_expr *outer = s->inside, *inside = outer;
    for (int late = 0; late < 2; late++) {
        for (int g = 0; g < term->guard_count; g++) {
            if (hr_is_in_range(s->algebra, term->guards[g]) == late) continue;
            s->inside = late ? inside : outer;
            hr_expr *guard = settled_node(s, term->guards[g]);
            product = hr_terms_guard(s->algebra, product, guard);
            if (!late) inside = inside ? hr_make_binary(s->algebra, HR_OP_AND, inside, guard) : guard;
        }
    }
    s->inside = outer;
    return product;
}

static bool binds_domain(sharing *s, const hr_term *term) {
    hr_index_set bound = 0;
    for (int f = 0; f < term->factor_count; f++)
        bound |= hr_index_bits(s->algebra, term->factors[f].base);
    return bound & s->domain;
}

static hr_terms settled_term(sharing *s, const hr_term *given, bool alone) {
    hr_algebra *algebra = s->algebra;
    const hr_term term = with_pairs(s, given);
    hr_term number = {.coefficient = term.coefficient};
    hr_terms product = {1, &number};
    hr_term_classes *classes = hr_algebra_take(algebra, sizeof *classes);
    hr_term_classify(algebra, &term, classes);
    const bool stays = alone && reductions_of(&term) == 1 && !binds_domain(s, &term);
    s->domain = 0; /* what it is made from is not read there */
    number.coefficient = term.coefficient < 0 ? -1 : 1;
    for (int i = 0; i < classes->count; i++) {
        const hr_term *class = &classes->classes[i];
        if (reductions_of(class) && classes->sets[i] != classes->all) {
            product = hr_terms_times(algebra, product, row_local(s, class));
            continue;
        }
        for (int f = 0; f < class->factor_count; f++) {
            hr_expr *base = class->factors[f].base;
            const bool apart = term.guard_count && !alone && hr_op_is_reduction(base->op) &&
                               !hr_is_in_range(s->algebra, base);
            base = apart ? guarded_sum(s, &term, base) : settled_factor(s, base, stays);
            product = hr_terms_times_power(algebra, product, base, class->factors[f].power);
        }
        product = hr_terms_times(algebra, product, hr_make_number(algebra, class->coefficient));
    }
    product = settled_guards(s, &term, product);
    return hr_terms_in_scope(algebra, product, 0); /* no term of it lies on this stack */
}

/* `alone`: all of a statement, or of the body of a sum. */
static hr_expr *settled(sharing *s, const hr_expr *value, bool alone) {
    if (s->algebra->graph->full) return s->algebra->graph->placeholder;
    if (!hr_type_is_float(value->type)) return settled_node(s, value);
    const hr_terms sum = hr_terms_of(s->algebra, value);
    const hr_index_set all = hr_free_indices(s->algebra, value);
    hr_terms result = {0};
    for (int i = 0; i < sum.count; i++) {
        hr_term term = sum.terms[i];
        hr_terms part;
        if (sum.count > 1 && reductions_of(&term) && term.factor_count > 1 && !term.guard_count &&
            hr_term_free(s->algebra, &term) != all) {
            term.coefficient = fabs(term.coefficient);
            part = hr_terms_of(s->algebra, row_local(s, &term));
            if (sum.terms[i].coefficient < 0) part = hr_terms_negate(s->algebra, part);
        } else {
            part = settled_term(s, &term, alone && sum.count == 1);
        }
        result = hr_terms_add(s->algebra, result, part);
    }
    return hr_terms_compose(s->algebra, result);
}

/* ---- all of it ---- */

/* It adds where its subscripts say, but for what its condition leaves out. */
static void accumulates(sharing *s, const hr_gradient_statement *gradient, hr_statement *statement) {
    hr_graph *graph = s->algebra->graph;
    const int rank = graph->function->tensors[gradient->tensor].rank;
    statement->store = HR_STORE_ADD;
    statement->subscript_count = rank;
    statement->subscripts = hr_algebra_take(s->algebra, (size_t)(rank + 1) * sizeof *statement->subscripts);
    for (int a = 0; a < rank; a++)
        statement->subscripts[a] = gradient->subscripts[a];
    if (!gradient->condition) return;
    hr_expr *condition = settled_node(s, gradient->condition);
    hr_expr *zero = hr_graph_number(graph, statement->value->type, 0);
    statement->subscripts[0] =
        hr_graph_where(graph, condition, statement->subscripts[0], hr_graph_whole(graph, HR_LEFT_OUT));
    statement->value = hr_graph_where(graph, condition, statement->value, zero);
}

void hr_share(hr_derivation *derivation, int count, hr_gradient_statement *statements) {
    sharing s = {.derivation = derivation, .algebra = derivation->algebra};
    for (int i = 0; i < count; i++)
        note_value(&s, statements[i].value, false);
    find_pairs(&s);
    for (int i = 0; i < s.product_count; i++) {
        const int wide = __builtin_popcountll(hr_term_free(s.algebra, &s.products[i].term));
        if (wide > s.algebra->widest) s.algebra->widest = wide;
    }
    for (int i = 0; i < count && !derivation->graph->full; i++) {
        const hr_gradient_statement *gradient = &statements[i];
        s.domain = 0;
        for (int d = 0; d < gradient->domain_count; d++)
            s.domain |= hr_index_bit(s.algebra, gradient->domain[d]);
        hr_expr *value = settled(&s, gradient->value, true);
        hr_expr *holder = gradient->accumulate || is_leaf(value) ? NULL : holder_of(&s, value);
        if (holder) value = holder; /* two gradients that are one */
        if (value->op == HR_OP_ADD || value->op == HR_OP_SUB) value = hr_with_parts(s.algebra, value);
        hr_statement *statement =
            hr_graph_add_statement(derivation->graph, gradient->tensor, gradient->domain_count,
                                   gradient->domain, value, (hr_place){0});
        if (gradient->accumulate && !derivation->graph->full) accumulates(&s, gradient, statement);
    }
}
