/* value[m, r], place[m, r] = topk[n, r < K](x[m, n]). In: the statement. Out: two of them.
 *
 * The places are the statement that looks for them: HR_OP_TOPK. The values are x[m, place[m, r]]: what stands
 * in the brackets, with the place read as the index.
 */
#include "ir/visit.h"
#include "lang/checker.h"

#include <stdio.h>
#include <string.h>

typedef struct hr_topk {
    const hr_syntax *place; /* the left side that gets the places; NULL = this statement makes these */
    const hr_syntax *value; /* the one that gets the values */
} hr_topk;

static const char form[] =
    "topk stands alone behind two elements: value[m, r], place[m, r] = topk[n, r < K](x[m, n])";

static bool is_topk(const hr_syntax *syntax) {
    return syntax && syntax->kind == HR_SYNTAX_REDUCTION && !syntax->in_brackets &&
           hr_check_reducer_named(syntax->symbol->name) == HR_OP_TOPK;
}

static bool is_dropped(const hr_syntax *left) {
    return left->kind == HR_SYNTAX_NAME && strcmp(left->symbol->name, "_") == 0;
}

/* ---- the two statements ---- */

/* A local of its own for places that the text drops. */
static bool name_place(hr_checker *checker, const hr_syntax *value, hr_syntax *out) {
    *out = *value;
    for (int i = 1; i < 10000; i++) {
        char name[32];
        snprintf(name, sizeof name, i > 1 ? "place_%d" : "place", i);
        hr_symbol *symbol = hr_symbol_intern(checker->symbols, name, strlen(name));
        if (!symbol) return false;
        const hr_symbol *bound = hr_check_bind(checker, symbol);
        if (bound->tensor >= 0 || bound->index >= 0) continue;
        out->symbol = symbol;
        return hr_check_add_local(checker, symbol, value->place);
    }
    return false;
}

/* Both have the same indices in the same order. */
static bool sides_agree(const hr_syntax *value, const hr_syntax *place) {
    if (value->item_count != place->item_count) return false;
    const hr_syntax *other = place->items;
    for (const hr_syntax *item = value->items; item; item = item->next, other = other->next)
        if (item->kind != HR_SYNTAX_NAME || other->kind != HR_SYNTAX_NAME || item->symbol != other->symbol)
            return false;
    return true;
}

/* A place fits where it is kept. */
static bool holds_places(hr_checker *checker, const hr_syntax *place) {
    const int id = hr_check_bind(checker, place->symbol)->tensor;
    if (id < 0) return false;
    const hr_tensor *tensor = &checker->function->tensors[id];
    if (tensor->role == HR_ROLE_LOCAL || tensor->dtype == HR_I32 || tensor->dtype == HR_I64) return true;
    hr_messages_add(checker->messages, place->place, "places are i32 or i64, and %s is %s",
                    hr_text_shown(tensor->name, strlen(tensor->name)).text, hr_dtype_name(tensor->dtype));
    return false;
}

static void check_both(hr_checker *checker, const hr_statement_syntax *syntax, hr_syntax value,
                       hr_syntax place) {
    const hr_topk places = {NULL, &value}, values = {&place, &value};
    const bool wanted = !is_dropped(&value);
    hr_statement_syntax statement = {.right = syntax->right};
    value.next = place.next = NULL;
    statement.left = &place;
    checker->topk = &places;
    hr_check_statement(checker, &statement);
    checker->topk = &values;
    statement.left = &value;
    if (wanted) hr_check_statement(checker, &statement);
    checker->topk = NULL;
}

bool hr_check_topk(hr_checker *checker, const hr_statement_syntax *syntax) {
    if (!is_topk(syntax->right) || checker->topk) return false;
    hr_syntax *value = syntax->left, *place = value ? value->next : NULL, named;
    if (!place || place->next || syntax->accumulate || syntax->condition ||
        (is_dropped(value) && is_dropped(place))) {
        hr_messages_add(checker->messages, syntax->right->place, "%s", form);
        hr_check_fail_results(checker, syntax);
        return true;
    }
    bool good = true;
    if (is_dropped(place)) {
        good = name_place(checker, value, &named);
        place = &named;
    }
    if (good && !is_dropped(value) && !sides_agree(value, place)) {
        hr_messages_add(
            checker->messages, place->place,
            "values and places have the same indices: value[m, r], place[m, r] = topk[n, r < K](...)");
        good = false;
    }
    if (good && holds_places(checker, place))
        check_both(checker, syntax, *value, *place);
    else
        hr_check_fail_results(checker, syntax);
    return true;
}

/* ---- the right side of either ---- */

/* place[m, r] */
static hr_expr *place_element(hr_checker *checker, const hr_syntax *place) {
    const int id = hr_check_bind(checker, place->symbol)->tensor;
    hr_expr *args[HR_RANK_MAX];
    int count = 0;
    if (id < 0 || !checker->tensors[id].assigned || checker->tensors[id].failed) return NULL;
    for (const hr_syntax *item = place->items; item && count < HR_RANK_MAX; item = item->next)
        if (!(args[count++] = hr_check_expression(checker, item))) return NULL;
    const hr_dtype type = checker->function->tensors[id].dtype;
    hr_expr *element = hr_check_node_of(checker, HR_OP_ELEMENT, type, place->place, count, args);
    if (element) element->tensor = id;
    return element;
}

/* The index of the ranks: of the left side, with a range where it says one. */
static hr_expr *rank_of(hr_checker *checker, const hr_syntax *syntax) {
    const bool ranged = syntax->kind == HR_SYNTAX_OPERATION && syntax->op == HR_OP_LT;
    const hr_syntax *name = ranged ? syntax->items : syntax;
    hr_expr *rank = name->kind == HR_SYNTAX_NAME && !hr_symbol_is_capital(name->symbol) &&
                            hr_check_bind(checker, name->symbol)->index >= 0
                        ? hr_check_expression(checker, name)
                        : NULL;
    if (!rank || rank->op != HR_OP_INDEX) {
        hr_messages_add(
            checker->messages, syntax->place,
            "behind the index that topk looks along stands the one of the ranks, which the left side "
            "has: value[m, r], place[m, r] = topk[n, r < K](x[m, n])");
        return NULL;
    }
    if (!ranged) return rank;
    hr_expr *extent = hr_check_extent(checker, name->next);
    return extent && hr_check_range(checker, rank->index, extent, name->next->place, "a range", NULL) ? rank
                                                                                                      : NULL;
}

/* Where the values are a result, its axes say how many places there are. */
static bool ranges_agree(hr_checker *checker, const hr_syntax *value) {
    const int id = is_dropped(value) ? -1 : hr_check_bind(checker, value->symbol)->tensor;
    const hr_tensor *tensor = id >= 0 ? &checker->function->tensors[id] : NULL;
    int axis = 0;
    if (!tensor || tensor->role == HR_ROLE_LOCAL || tensor->rank != value->item_count) return true;
    for (const hr_syntax *item = value->items; item; item = item->next, axis++) {
        const int index = hr_check_bind(checker, item->symbol)->index;
        if (index >= 0 && tensor->shape[axis] &&
            !hr_check_range(checker, index, tensor->shape[axis], item->place,
                            hr_check_axis_words(checker, id, axis), NULL))
            return false;
    }
    return true;
}

static hr_expr *places_of(hr_checker *checker, const hr_syntax *syntax, int index, hr_expr *rank) {
    hr_expr *body = hr_check_expression(checker, syntax->body);
    if (!body || !hr_check_has_extents(checker, &index, 1)) return NULL;
    if (body->type == HR_BOOL) body = hr_check_conversion(checker, HR_I32, body->place, body);
    if (!body) return NULL;
    if (hr_expr_has_index(body, rank->index)) {
        hr_messages_add(checker->messages, syntax->body->place,
                        "what topk looks through does not depend on the rank");
        return NULL;
    }
    hr_expr *args[] = {body, rank};
    hr_expr *made = hr_check_node_of(checker, HR_OP_TOPK, HR_I64, syntax->place, 2, args);
    if (!made || hr_arena_room(checker->arena) < 4096) return NULL;
    made->bound_count = 1;
    made->bound = hr_arena_alloc(checker->arena, sizeof *made->bound);
    made->bound[0] = index;
    return made;
}

/* The body once more, in which the index stands for the place. */
static hr_expr *value_at(hr_checker *checker, const hr_syntax *syntax, hr_expr *place) {
    const hr_function *function = checker->function;
    hr_symbol *symbol = syntax->items->symbol;
    const int index = function->statements[function->statement_count - 1].value->bound[0];
    checker->indices[index].stands_for = place;
    checker->live[checker->live_count++] = symbol;
    symbol->index = index;
    hr_expr *value = hr_check_expression(checker, syntax->body);
    hr_check_close_indices(checker, 1);
    return value;
}

hr_expr *hr_check_topk_value(hr_checker *checker, const hr_syntax *syntax) {
    const hr_topk *topk = checker->topk;
    const hr_syntax *along = syntax->items;
    checker->topk = NULL; /* not inside */
    if (!topk || syntax->item_count != 2 || along->kind != HR_SYNTAX_NAME ||
        hr_symbol_is_capital(along->symbol)) {
        hr_messages_add(checker->messages, syntax->place, "%s", form);
        return NULL;
    }
    hr_expr *rank = rank_of(checker, along->next), *place = NULL;
    if (!rank || (topk->place && !(place = place_element(checker, topk->place)))) return NULL;
    if (place) return value_at(checker, syntax, place);
    if (!ranges_agree(checker, topk->value)) return NULL;
    const int index = hr_check_open_index(checker, along->symbol, along->place);
    if (index < 0) return NULL;
    hr_expr *places = places_of(checker, syntax, index, rank);
    hr_check_close_indices(checker, 1);
    return places;
}
