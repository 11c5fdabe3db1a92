/* Recognises sum[k](left * right) whose factors have different free indices. In: a statement. Out: its
 * groups, and what its operands' values are. */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "plan/packed.h"
#include "plan/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACTORS_MAX = 16 };

typedef struct factor_list {
    int count;
    hr_expr *factor[FACTORS_MAX];
} factor_list;

static bool collect_factors(factor_list *list, hr_expr *expr, hr_dtype type) {
    if (expr->op == HR_OP_MUL && expr->type == type)
        return collect_factors(list, expr->args[0], type) && collect_factors(list, expr->args[1], type);
    if (list->count == FACTORS_MAX) return false;
    list->factor[list->count++] = expr;
    return true;
}

static hr_expr *multiply(hr_graph *graph, hr_expr *a, hr_expr *b) {
    return a ? hr_graph_binary(graph, HR_OP_MUL, b->type, a, b) : b;
}

/* Some index of the domain is in `factor`, but not in the operand. */
static bool has_more(const hr_statement *s, const hr_expr *factor, const hr_expr *operand) {
    for (int i = 0; i < s->domain_count; i++)
        if (hr_expr_has_index(factor, s->domain[i]) && !(operand && hr_expr_has_index(operand, s->domain[i])))
            return true;
    return false;
}

/* Right takes the factors that have the last index of the domain, left those that have one which these have
 * not. Others have indices of the right operand's alone, and are its own where the left one has not them all.
 */
static void split_factors(hr_graph *graph, const factor_list *list, const hr_statement *s, hr_contract *out) {
    const int last = s->domain[s->domain_count - 1];
    hr_expr *core = NULL;
    bool placed[FACTORS_MAX] = {false};
    for (int i = 0; i < list->count; i++) {
        placed[i] = hr_expr_has_index(list->factor[i], last);
        if (placed[i]) out->right = core = multiply(graph, out->right, list->factor[i]);
    }
    for (int i = 0; i < list->count; i++) {
        if (placed[i] || !has_more(s, list->factor[i], core)) continue;
        placed[i] = true;
        out->left = multiply(graph, out->left, list->factor[i]);
    }
    const hr_expr *left = out->left;
    for (int i = 0; i < list->count; i++) {
        if (placed[i]) continue;
        hr_expr **side = left && has_more(s, list->factor[i], left) ? &out->right : &out->left;
        *side = multiply(graph, *side, list->factor[i]);
    }
}

static bool split_indices(hr_graph *graph, const hr_statement *s, const bool *left, const bool *right,
                          hr_contract *out) {
    size_t size = (size_t)(s->domain_count + s->value->bound_count + 1) * sizeof(int);
    out->batch = hr_arena_alloc(graph->arena, size);
    out->m = hr_arena_alloc(graph->arena, size);
    out->n = hr_arena_alloc(graph->arena, size);
    out->k = hr_arena_alloc(graph->arena, size);
    for (int i = 0; i < s->domain_count; i++) {
        int index = s->domain[i];
        if (left[index] && right[index])
            out->batch[out->batch_count++] = index;
        else if (left[index])
            out->m[out->m_count++] = index;
        else if (right[index])
            out->n[out->n_count++] = index;
        else
            return false;
    }
    for (int i = 0; i < s->value->bound_count; i++) {
        int index = s->value->bound[i];
        if (!left[index] || !right[index]) return false;
        out->k[out->k_count++] = index;
    }
    return out->m_count && out->n_count && out->k_count;
}

static hr_expr *guarded(hr_graph *graph, hr_expr *condition, hr_expr *side) {
    return hr_graph_where(graph, condition, side, hr_graph_number(graph, side->type, 0));
}

/* where(c, a * b, 0) is where(c, a, 0) * where(c, b, 0), whatever is where c does not hold. Where c has
 * indices that b lacks, who multiplies has to leave out the products itself. False where it has one that a
 * lacks. */
static bool guard_sides(hr_graph *graph, hr_expr *condition, const bool *left, const bool *right,
                        unsigned facts, hr_contract *out) {
    bool *own = hr_memory_zeros((size_t)graph->function->index_count + 1, 1);
    bool of_left = own != NULL, of_right = own != NULL;
    if (!own) graph->full = true;
    if (own) hr_expr_mark_indices(condition, own);
    for (int i = 0; i < graph->function->index_count && own; i++) {
        of_left = of_left && (!own[i] || left[i]);
        of_right = of_right && (!own[i] || right[i]);
    }
    free(own);
    out->leaves_out = !of_right;
    if (!of_left || (out->leaves_out && !(facts & HR_FACT_ROWS_CHOOSE))) return false;
    out->left = guarded(graph, condition, out->left);
    if (of_right) out->right = guarded(graph, condition, out->right);
    return true;
}

/* Two bytes: f64 holds a sum of 2^37 such products exactly. */
static bool are_bytes(const hr_graph *graph, const factor_list *list) {
    for (int i = 0; i < list->count; i++) {
        const hr_expr *factor = list->factor[i];
        if (factor->op != HR_OP_ELEMENT) return false;
        hr_dtype dtype = graph->function->tensors[factor->tensor].dtype;
        if (dtype != HR_I8 && dtype != HR_U8) return false;
    }
    return list->count == 2;
}

/* Of where(condition, product, 0), which a range with bounds is, the condition; NULL = all products count. */
static hr_expr *condition_of(const hr_expr *value) {
    hr_expr *body = value->args[0];
    return body->op == HR_OP_WHERE && hr_expr_is_zero(body->args[2]) ? body->args[0] : NULL;
}

static bool multiplies(const hr_expr *value, hr_expr *body, bool bytes) {
    hr_dtype type = body->type;
    if (body->op != HR_OP_MUL) return false;
    return ((type == HR_F32 || type == HR_F64) && value->type == type) ||
           (bytes && type == HR_I32 && value->type == HR_I64);
}

/* ---- rows that choose their matrix ---- */

static hr_visit is_chosen(const hr_expr *node, const void *context) {
    bool chosen = false;
    (void)context;
    for (int a = 0; node->op == HR_OP_ELEMENT && a < node->arg_count; a++)
        chosen = chosen || node->args[a]->op == HR_OP_ELEMENT;
    return hr_visit_until(chosen);
}

/* The value of an index, but not in `group`. */
typedef struct outside {
    const hr_expr *group;
    int index;
} outside;

static hr_visit has_outside(const hr_expr *node, const void *context) {
    const outside *o = context;
    if (node == o->group) return HR_VISIT_PAST;
    return hr_visit_until(node->op == HR_OP_INDEX && node->index == o->index);
}

/* An element of the right operand is chosen by another one, which alone has the indices of rows: what marks
 * them as the right operand's goes. False where that is not so. */
static bool choose_group(const hr_graph *graph, hr_contract *out, bool *left, bool *right) {
    const hr_expr *grouped = hr_expr_find(out->right, is_chosen, NULL), *group = NULL;
    if (!grouped || grouped->arg_count != graph->function->tensors[grouped->tensor].rank) return false;
    for (int a = 0; a < grouped->arg_count; a++) {
        if (grouped->args[a]->op != HR_OP_ELEMENT) continue;
        if (group) return false;
        group = grouped->args[a];
    }
    for (int i = 0; i < graph->function->index_count; i++) {
        const bool inside = hr_expr_has_index(group, i);
        left[i] = left[i] || inside;
        right[i] = hr_expr_find(out->right, has_outside, &(outside){group, i}) != NULL;
        if (inside && right[i]) return false;
    }
    out->group = group;
    out->grouped = grouped;
    return true;
}

static bool is_grouped(hr_graph *graph, const hr_statement *s, bool *left, bool *right, hr_contract *out) {
    out->batch_count = out->m_count = out->n_count = out->k_count = 0;
    return choose_group(graph, out, left, right) && split_indices(graph, s, left, right, out) &&
           out->batch_count == 0 &&
           (hr_contract_fits(graph->function, out, HR_BF16) ||
            hr_contract_fits(graph->function, out, HR_F16));
}

bool hr_contract_match(hr_graph *graph, const hr_statement *statement, unsigned facts, hr_contract *out) {
    const bool bytes = (facts & HR_FACT_BYTE_PRODUCTS) != 0;
    hr_expr *value = statement->value;
    *out = (hr_contract){.product = statement->tensor};
    if (value->op != HR_OP_REDUCE_SUM || statement->store != HR_STORE_WHOLE || statement->domain_count < 2)
        return false;
    hr_expr *condition = condition_of(value);
    hr_expr *body = condition ? value->args[0]->args[1] : value->args[0];
    factor_list list = {0};
    if (!multiplies(value, body, bytes) || !collect_factors(&list, body, body->type)) return false;
    if (body->type == HR_I32 && !are_bytes(graph, &list)) return false;
    for (int i = 0; i < list.count && body->type == HR_I32; i++)
        list.factor[i] = hr_graph_convert(graph, HR_F64, list.factor[i]);
    bool *left = hr_memory_zeros((size_t)graph->function->index_count * 2 + 1, 1);
    if (!left) {
        graph->full = true;
        return false;
    }
    bool *right = left + graph->function->index_count;
    split_factors(graph, &list, statement, out);
    bool match = out->left && out->right;
    if (match) {
        hr_expr_mark_indices(out->left, left);
        hr_expr_mark_indices(out->right, right);
        match = (split_indices(graph, statement, left, right, out) ||
                 ((facts & HR_FACT_GROUPED_PRODUCTS) && is_grouped(graph, statement, left, right, out))) &&
                (!condition || guard_sides(graph, condition, left, right, facts, out));
    }
    free(left);
    return match;
}

bool hr_value_fits(const hr_function *function, const hr_expr *value, hr_dtype dtype) {
    if (value->type != HR_F32) return false;
    switch (value->op) {
    case HR_OP_ELEMENT:
        return function->tensors[value->tensor].dtype == dtype;
    case HR_OP_CONVERT:
        return value->dtype == dtype;
    case HR_OP_NUMBER:
        return hr_dtype_round(dtype, value->number) == value->number;
    case HR_OP_NEG:
    case HR_OP_ABS:
    case HR_OP_RELU:
        return hr_value_fits(function, value->args[0], dtype);
    case HR_OP_MIN:
    case HR_OP_MAX:
        return hr_value_fits(function, value->args[0], dtype) &&
               hr_value_fits(function, value->args[1], dtype);
    case HR_OP_WHERE:
        return hr_value_fits(function, value->args[1], dtype) &&
               hr_value_fits(function, value->args[2], dtype);
    default:
        return false;
    }
}

bool hr_contract_fits(const hr_function *function, const hr_contract *contract, hr_dtype dtype) {
    return hr_value_fits(function, contract->left, dtype) && hr_value_fits(function, contract->right, dtype);
}

hr_dtype hr_value_bytes(const hr_function *function, const hr_expr *value) {
    if (value->op == HR_OP_WHERE && hr_expr_is_zero(value->args[2]))
        return hr_value_bytes(function, value->args[1]);
    if (value->op != HR_OP_CONVERT || value->type != HR_F64 || value->args[0]->op != HR_OP_ELEMENT)
        return HR_F64;
    const hr_dtype dtype = function->tensors[value->args[0]->tensor].dtype;
    return dtype == HR_I8 || dtype == HR_U8 ? dtype : HR_F64;
}

bool hr_contract_of_bytes(const hr_function *function, const hr_contract *contract) {
    return hr_value_bytes(function, contract->left) != HR_F64 &&
           hr_value_bytes(function, contract->right) != HR_F64;
}

/* Before locals are narrowed: those that are rounded to 16 bits will be of these. */
static bool will_fit(const hr_function *function, const hr_expr *value, hr_dtype dtype) {
    if (hr_value_fits(function, value, dtype)) return true;
    if (value->op != HR_OP_ELEMENT || function->tensors[value->tensor].role != HR_ROLE_LOCAL) return false;
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].tensor == value->tensor)
            return function->statements[s].store == HR_STORE_WHOLE &&
                   hr_statement_is_half(&function->statements[s]) &&
                   function->statements[s].value->dtype == dtype;
    return false;
}

bool hr_contract_will_fit(const hr_function *function, const hr_contract *contract, hr_dtype dtype) {
    return will_fit(function, contract->left, dtype) && will_fit(function, contract->right, dtype);
}

/* Of whole numbers, which a contract has in f64, the element. */
static const hr_expr *element_of(const hr_expr *value) {
    return value->op == HR_OP_CONVERT && value->type == HR_F64 ? value->args[0] : value;
}

/* Elements whose subscripts are the same plain indices: they lie alike. */
static bool lie_alike(const hr_expr *e, const hr_expr *other) {
    e = element_of(e);
    other = element_of(other);
    bool alike = e->op == HR_OP_ELEMENT && other->op == HR_OP_ELEMENT && e->arg_count == other->arg_count;
    for (int i = 0; alike && i < e->arg_count; i++)
        alike = e->args[i]->op == HR_OP_INDEX && e->args[i] == other->args[i];
    return alike;
}

/* In the same order. */
static bool are_same(const int *a, int a_count, const int *b, int b_count) {
    return a_count == b_count && memcmp(a, b, (size_t)a_count * sizeof *a) == 0;
}

/* An operand as products of a walk take it: of 16 bits whatever has such values, else plain elements. */
static bool is_of(const hr_function *function, const hr_expr *value, hr_dtype dtype) {
    if (dtype == HR_BF16 || dtype == HR_F16) return will_fit(function, value, dtype);
    value = element_of(value);
    return value->op == HR_OP_ELEMENT && function->tensors[value->tensor].dtype == dtype &&
           function->tensors[value->tensor].role != HR_ROLE_LOCAL;
}

bool hr_contracts_stack(const hr_function *function, const hr_facts *facts, const int64_t *size,
                        const hr_contract *contract, const hr_contract *other) {
    static const hr_dtype dtypes[][2] = {{HR_BF16, HR_BF16},     {HR_F16, HR_F16}, {HR_F8E4M3, HR_F8E4M3},
                                         {HR_F8E5M2, HR_F8E5M2}, {HR_F32, HR_F32}, {HR_I8, HR_I8},
                                         {HR_I8, HR_U8},         {HR_U8, HR_I8},   {HR_U8, HR_U8}};
    const double results = hr_indices_points(size, contract->m, contract->m_count) *
                           hr_indices_points(size, contract->n, contract->n_count);
    bool fit = false;
    if (contract->stacked_count && results > facts->stacked_most) return false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        fit = fit ||
              (is_of(function, contract->left, dtypes[i][0]) &&
               is_of(function, contract->right, dtypes[i][1]) && is_of(function, other->right, dtypes[i][1]));
    return fit && contract->stacked_count < HR_STACKED_MAX && contract->left == other->left &&
           !contract->group && !other->group && lie_alike(contract->right, other->right) &&
           are_same(contract->batch, contract->batch_count, other->batch, other->batch_count) &&
           are_same(contract->m, contract->m_count, other->m, other->m_count) &&
           are_same(contract->n, contract->n_count, other->n, other->n_count) &&
           are_same(contract->k, contract->k_count, other->k, other->k_count);
}

/* ---- a matrix times a few vectors ---- */

/* The index, or what divides it by a number, or is left over. */
static bool counts(const hr_expr *subscript, int index) {
    const bool divides = (subscript->op == HR_OP_FLOORDIV || subscript->op == HR_OP_MOD) &&
                         subscript->args[1]->op == HR_OP_NUMBER;
    const hr_expr *counted = divides ? subscript->args[0] : subscript;
    return counted->op == HR_OP_INDEX && counted->index == index;
}

/* Some element's last subscript counts along the index. */
typedef struct along {
    const hr_function *function;
    int index;
} along;

static hr_visit counts_along(const hr_expr *node, const void *context) {
    const along *a = context;
    const int last = node->op == HR_OP_ELEMENT ? a->function->tensors[node->tensor].rank - 1 : -1;
    if (last < 0) return HR_VISIT_ON;
    return counts(node->args[last], a->index) ? HR_VISIT_STOP : HR_VISIT_PAST;
}

static bool runs_along(const hr_function *function, const hr_expr *expr, int index) {
    return hr_expr_find(expr, counts_along, &(along){function, index});
}

static bool is_f32(const hr_function *function, const hr_expr *operand) {
    return operand->op == HR_OP_ELEMENT && function->tensors[operand->tensor].dtype == HR_F32;
}

static bool is_thin(const hr_function *function, const hr_facts *facts, const int64_t *size,
                    const hr_contract *c) {
    enum { ROWS_LEAST = 1024 };
    const double m = hr_indices_points(size, c->m, c->m_count), n = hr_indices_points(size, c->n, c->n_count);
    /* How many vectors take no longer than reading the matrix. */
    const double most =
        is_f32(function, c->left) && is_f32(function, c->right) ? facts->thin_f32 : facts->thin;
    const int k = c->k[c->k_count - 1];
    return fmin(m, n) <= most && fmax(m, n) >= ROWS_LEAST && runs_along(function, c->left, k) &&
           runs_along(function, c->right, k);
}

static bool is_narrow(const hr_function *function, const hr_expr *operand) {
    operand = hr_expr_within(operand);
    if (operand->op != HR_OP_ELEMENT) return false;
    const hr_dtype dtype = function->tensors[operand->tensor].dtype;
    return hr_dtype_is_float(dtype) && hr_dtype_size(dtype) <= 2;
}

/* Of queries with all keys, elements of 16 bits or 8, which another product sums over (plan/region.c), where
 * few queries are a kernel. */
static bool scores(const hr_function *function, const hr_facts *facts, const hr_contract *c,
                   hr_contract *const *contracts) {
    bool sums = false;
    if (!(facts->set & HR_FACT_FEW_QUERIES)) return false;
    for (int s = 0; s < function->statement_count && !sums; s++) {
        const hr_contract *values = contracts[s];
        sums = values && values->k_count == 1 && values->k[0] == c->n[0] &&
               values->batch_count == c->batch_count && is_narrow(function, values->right);
    }
    return sums && c->n_count == 1 && is_narrow(function, c->left) && is_narrow(function, c->right);
}

/* A row is as quick for one vector and numbers of 16 bits. */
static bool is_packed(const hr_function *function, const hr_facts *facts, const int64_t *extents,
                      const int64_t *size, const hr_contract *c) {
    hr_packed_product packed;
    const double m = hr_indices_points(size, c->m, c->m_count), n = hr_indices_points(size, c->n, c->n_count);
    return (facts->set & HR_FACT_PACKED_PRODUCTS) && !c->group &&
           hr_packed_product_find(function, extents, c, &packed) &&
           (fmin(m, n) > 1 || packed.matrix.word_numbers > 2);
}

/* Rows choose among matrices that are too many to sort them by. */
static bool has_many_groups(const hr_function *function, const int64_t *extents, const hr_contract *c) {
    for (int a = 0; c->group && a < c->grouped->arg_count; a++) {
        int64_t size;
        if (c->grouped->args[a] != c->group) continue;
        if (hr_extent_value(function, function->tensors[c->grouped->tensor].shape[a], extents, &size) !=
                HR_OK ||
            size > HR_CONTRACT_GROUPS_MAX)
            return true;
    }
    return false;
}

void hr_contracts_part_thin(const hr_function *function, const hr_facts *facts, const int64_t *extents,
                            const int64_t *size, hr_contract **contracts, hr_contract **thin) {
    for (int s = 0; s < function->statement_count; s++) {
        hr_contract *contract = contracts[s];
        if (contract && has_many_groups(function, extents, contract)) contract = contracts[s] = NULL;
        if (!contract || !is_thin(function, facts, size, contract) ||
            scores(function, facts, contract, contracts) ||
            is_packed(function, facts, extents, size, contract))
            continue;
        thin[s] = contract->group ? NULL : contract;
        contracts[s] = NULL;
    }
}
