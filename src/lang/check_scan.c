/* Scans: sums so far, and recurrences of first order. In: typed expressions. Out: HR_OP_SCAN.
 *
 * h[t, c] = a[t, c] * h[t - 1, c] + b[t, c] reads the element before the one that it assigns. Its right side
 * is checked with a node in the place of that element, and taken apart into what multiplies it and the rest.
 */
#include "ir/types.h"
#include "ir/visit.h"
#include "lang/checker.h"

#include <string.h>

static hr_shown name_of(const hr_checker *checker, int tensor) {
    const char *name = checker->function->tensors[tensor].name;
    return hr_text_shown(name, strlen(name));
}

/* ---- the element before ---- */

bool hr_check_may_be_before(const hr_checker *checker, int tensor, const hr_syntax *syntax) {
    const hr_role role = checker->function->tensors[tensor].role;
    return checker->recurrence && tensor == checker->target && syntax->item_count > 0 &&
           syntax->item_count == checker->recurrence->statement->subscript_count &&
           (role == HR_ROLE_LOCAL || role == HR_ROLE_RESULT);
}

hr_dtype hr_check_before_type(const hr_checker *checker, int tensor) {
    const hr_tensor *t = &checker->function->tensors[tensor];
    const hr_dtype type = t->role == HR_ROLE_LOCAL ? HR_I32 : hr_compute_type(t->dtype);
    return type == HR_BOOL ? HR_I32 : type;
}

/* index - 1 or index + 1; 0 = neither. */
static int step_from(const hr_expr *subscript, int index) {
    if (subscript->op != HR_OP_ADD && subscript->op != HR_OP_SUB) return 0;
    const hr_expr *first = subscript->args[0], *second = subscript->args[1];
    const bool plain = first->op == HR_OP_INDEX && first->index == index && second->op == HR_OP_NUMBER;
    if (!plain || (second->whole != 1 && second->whole != -1)) return 0;
    return (int)(subscript->op == HR_OP_ADD ? second->whole : -second->whole);
}

bool hr_check_before(hr_checker *checker, const hr_expr *element) {
    hr_recurrence *recurrence = checker->recurrence;
    const hr_statement *statement = recurrence->statement;
    int axis = -1, step = 0;
    bool good = true;
    for (int a = 0; a < element->arg_count && good; a++) {
        const hr_expr *subscript = element->args[a];
        const int index = statement->subscripts[a]->index, moved = step_from(subscript, index);
        if (subscript->op == HR_OP_INDEX && subscript->index == index) continue;
        good = moved != 0 && axis < 0;
        axis = a;
        step = moved;
    }
    for (int a = 0; a < element->arg_count && good; a++)
        good = !checker->indices[statement->subscripts[a]->index].normalised;
    const hr_op scanned = step > 0 ? HR_OP_SCAN_BACK : HR_OP_SCAN;
    if (good && axis >= 0 &&
        (recurrence->axis < 0 || (recurrence->axis == axis && recurrence->scan == scanned))) {
        recurrence->axis = axis;
        recurrence->scan = scanned;
        return true;
    }
    hr_messages_add(
        checker->messages, element->place,
        "of %s, which this statement assigns, it may read only the element before the assigned one along "
        "one axis, as in h[t - 1, c], or the one behind it, h[t + 1, c]",
        name_of(checker, element->tensor).text);
    return false;
}

/* ---- a * before + b ---- */

/* NULL = 0. */
typedef struct line {
    hr_expr *factor, *rest;
} line;

typedef struct parting {
    hr_checker *checker;
    int tensor;
    bool failed;
    hr_place place; /* of what is not affine */
} parting;

static bool has_before(const parting *p, const hr_expr *expr) {
    return hr_expr_reads(expr, p->tensor);
}

static hr_expr *combine(parting *p, hr_op op, hr_place place, hr_expr *a, hr_expr *b) {
    hr_expr *args[] = {a, b};
    if (!a || !b) p->failed = true;
    hr_expr *made = p->failed ? NULL : hr_check_operation(p->checker, op, place, 2, args);
    if (!made) p->failed = true;
    return made;
}

static hr_expr *number(parting *p, hr_place place, int64_t value) {
    hr_expr *made = hr_check_number(p->checker, place, HR_I64, (double)value, value);
    if (!made) p->failed = true;
    return made;
}

static hr_expr *negated(parting *p, hr_place place, hr_expr *a) {
    return a ? combine(p, HR_OP_MUL, place, number(p, place, -1), a) : NULL;
}

static hr_expr *added(parting *p, hr_place place, hr_expr *a, hr_expr *b) {
    return a && b ? combine(p, HR_OP_ADD, place, a, b) : a ? a : b;
}

static line part(parting *p, hr_expr *expr);

/* A product or a quotient: the other side multiplies both. */
static line scaled(parting *p, const hr_expr *expr) {
    const bool first = has_before(p, expr->args[0]);
    line inner = part(p, expr->args[first ? 0 : 1]);
    hr_expr *other = expr->args[first ? 1 : 0];
    if (has_before(p, other) || (expr->op == HR_OP_DIV && !first)) {
        p->failed = true;
        return inner;
    }
    const bool one = inner.factor && inner.factor->op == HR_OP_NUMBER && inner.factor->whole == 1;
    if (one && expr->op == HR_OP_MUL)
        inner.factor = other;
    else if (inner.factor)
        inner.factor = combine(p, expr->op, expr->place, inner.factor, other);
    if (inner.rest) inner.rest = combine(p, expr->op, expr->place, inner.rest, other);
    return inner;
}

static hr_expr *chosen(parting *p, const hr_expr *where, hr_expr *a, hr_expr *b) {
    if (!a && !b) return NULL;
    hr_expr *args[] = {where->args[0], a ? a : number(p, where->place, 0),
                       b ? b : number(p, where->place, 0)};
    hr_expr *made = p->failed ? NULL : hr_check_operation(p->checker, HR_OP_WHERE, where->place, 3, args);
    if (!made) p->failed = true;
    return made;
}

static line part(parting *p, hr_expr *expr) {
    if (p->failed || !has_before(p, expr)) return (line){NULL, expr};
    line a, b = {0};
    switch (expr->op) {
    case HR_OP_ELEMENT:
        if (expr->tensor == p->tensor) return (line){number(p, expr->place, 1), NULL};
        break;
    case HR_OP_CONVERT:
        if (expr->dtype != expr->type || expr->type == HR_BOOL) break;
        return part(p, expr->args[0]);
    case HR_OP_NEG:
        a = part(p, expr->args[0]);
        return (line){negated(p, expr->place, a.factor), negated(p, expr->place, a.rest)};
    case HR_OP_ADD:
    case HR_OP_SUB:
        a = part(p, expr->args[0]);
        b = part(p, expr->args[1]);
        if (expr->op == HR_OP_SUB)
            b = (line){negated(p, expr->place, b.factor), negated(p, expr->place, b.rest)};
        return (line){added(p, expr->place, a.factor, b.factor), added(p, expr->place, a.rest, b.rest)};
    case HR_OP_MUL:
    case HR_OP_DIV:
        return scaled(p, expr);
    case HR_OP_WHERE:
        if (has_before(p, expr->args[0])) break;
        a = part(p, expr->args[1]);
        b = part(p, expr->args[2]);
        return (line){chosen(p, expr, a.factor, b.factor), chosen(p, expr, a.rest, b.rest)};
    default:
        break;
    }
    if (!p->failed) p->place = expr->place;
    p->failed = true;
    return (line){NULL, NULL};
}

/* ---- the start ---- */

static bool is_minus_one(const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_NUMBER) return syntax->is_whole && syntax->whole == -1;
    return syntax->kind == HR_SYNTAX_OPERATION && syntax->op == HR_OP_NEG && syntax->item_count == 1 &&
           syntax->items->kind == HR_SYNTAX_NUMBER && syntax->items->is_whole && syntax->items->whole == 1;
}

/* Arithmetic of extents. */
static bool has_extent(const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_NAME) return hr_symbol_is_capital(syntax->symbol);
    bool any = false;
    for (const hr_syntax *item = syntax->kind == HR_SYNTAX_OPERATION ? syntax->items : NULL; item;
         item = item->next) {
        if (item->kind != HR_SYNTAX_NUMBER && !has_extent(item)) return false;
        any = any || item->kind != HR_SYNTAX_NUMBER;
    }
    return any;
}

static bool is_beyond(const hr_syntax *syntax) {
    return is_minus_one(syntax) || has_extent(syntax);
}

bool hr_check_start(hr_checker *checker, const hr_statement_syntax *syntax) {
    const hr_syntax *left = syntax->left;
    if (!left || left->next || left->kind != HR_SYNTAX_ELEMENT || !syntax->right || syntax->accumulate)
        return false;
    const int id = hr_check_bind(checker, left->symbol)->tensor;
    int beyond = 0;
    for (const hr_syntax *item = left->items; item; item = item->next)
        beyond += is_beyond(item);
    if (id < 0 || beyond != 1) return false;
    const hr_role role = checker->function->tensors[id].role;
    if (role != HR_ROLE_LOCAL && role != HR_ROLE_RESULT) return false;
    hr_tensor_state *state = &checker->tensors[id];
    if (state->start || state->assigned || syntax->condition)
        hr_messages_add(
            checker->messages, left->place,
            "what stands before the first element of %s is given once, in a line above its recurrence",
            name_of(checker, id).text);
    state->start = syntax;
    return true;
}

/* The start has the recurrence's own indices, and an end of the axis in the place of the one that it goes
 * along. */
static hr_expr *start_of(hr_checker *checker, const hr_recurrence *recurrence, hr_place place) {
    const hr_statement *statement = recurrence->statement;
    const hr_statement_syntax *start = checker->tensors[statement->tensor].start;
    if (!start) return hr_check_number(checker, place, HR_I64, 0, 0);
    int axis = 0;
    bool good = start->left->item_count == statement->subscript_count, right_end = true;
    for (const hr_syntax *item = start->left->items; item && good; item = item->next, axis++) {
        const int index = statement->subscripts[axis]->index;
        if (axis == recurrence->axis)
            right_end = (recurrence->scan == HR_OP_SCAN_BACK) == !is_minus_one(item);
        else
            good = item->kind == HR_SYNTAX_NAME && item->symbol->index == index;
    }
    if (good && !right_end) {
        hr_messages_add(checker->messages, start->left->place,
                        recurrence->scan == HR_OP_SCAN_BACK
                            ? "this recurrence of %s reads the element after the assigned one: what stands "
                              "after the last is given, as in h[T] = h0 where t ranges over T"
                            : "this recurrence of %s reads the element before the assigned one: what stands "
                              "before the first is given, as in h[-1] = h0",
                        name_of(checker, statement->tensor).text);
        return NULL;
    }
    hr_expr *value = good ? hr_check_expression(checker, start->right) : NULL;
    const int along = statement->subscripts[recurrence->axis]->index;
    if (good && (!value || !hr_expr_has_index(value, along))) return value;
    hr_messages_add(
        checker->messages, start->left->place,
        "what stands before the first element is given with the recurrence's other indices: h[-1, c] = "
        "h0[c], or h[T, c] = h0[c] of one that reads h[t + 1, c]");
    return NULL;
}

/* ---- scans ---- */

static hr_expr *scan(hr_checker *checker, hr_op op, hr_place place, int index, hr_expr **args) {
    hr_argument_type types[3];
    for (int i = 0; i < 3; i++) {
        if (!args[i]) return NULL;
        types[i] = hr_argument_type_of(args[i]);
    }
    const hr_dtype type = hr_op_types_of(op, 3, types).result;
    for (int i = 0; i < 3; i++)
        if (args[i]->op == HR_OP_NUMBER && args[i]->type == HR_I64)
            args[i] = hr_check_number(checker, place, type, (double)args[i]->whole, args[i]->whole);
        else if (args[i]->type != type)
            args[i] = hr_check_conversion(checker, type, place, args[i]);
    hr_expr *made = hr_check_node_of(checker, op, type, place, 3, args);
    if (!made || hr_arena_room(checker->arena) < 4096) return NULL;
    made->bound_count = 1;
    made->bound = hr_arena_alloc(checker->arena, sizeof *made->bound);
    made->bound[0] = index;
    return made;
}

hr_expr *hr_check_cumsum(hr_checker *checker, hr_place place, int index, hr_expr *arg) {
    if (!arg) return NULL;
    const bool real = hr_type_is_float(arg->type);
    const hr_dtype type = real ? arg->type : HR_I64;
    hr_expr *args[] = {hr_check_number(checker, place, type, 1, 1), arg,
                       hr_check_number(checker, place, type, 0, 0)};
    return scan(checker, HR_OP_SCAN, place, index, args);
}

hr_expr *hr_check_recurrence(hr_checker *checker, const hr_recurrence *recurrence, hr_expr *value) {
    if (recurrence->axis < 0) {
        if (!checker->tensors[recurrence->statement->tensor].start) return value;
        hr_messages_add(checker->messages, value->place,
                        "%s was given a start, but this statement does not read the element before",
                        name_of(checker, recurrence->statement->tensor).text);
        return NULL;
    }
    const hr_place place = value->place;
    parting p = {.checker = checker, .tensor = recurrence->statement->tensor, .place = place};
    const line parts = part(&p, value);
    if (p.failed) {
        hr_messages_add(checker->messages, p.place,
                        "%s does not follow from the element before by a product and a sum; write it as "
                        "a * h[t - 1] + b, in which a and b do not read h",
                        name_of(checker, p.tensor).text);
        return NULL;
    }
    hr_expr *args[] = {parts.factor ? parts.factor : hr_check_number(checker, place, HR_I64, 0, 0),
                       parts.rest ? parts.rest : hr_check_number(checker, place, HR_I64, 0, 0),
                       start_of(checker, recurrence, place)};
    const int along = recurrence->statement->subscripts[recurrence->axis]->index;
    return scan(checker, recurrence->scan, place, along, args);
}
