/* Copies of a called kernel's trees, in which what the caller gave stands for its names. See check_call.h. */
#include "lang/check_call.h"

#include <string.h>

/* ---- names ---- */

void *hr_call_room(hr_expansion *e, size_t size) {
    if (!e->full && hr_arena_room(e->checker->arena) > size + 65536)
        return hr_arena_alloc(e->checker->arena, size);
    if (!e->full)
        hr_messages_add(e->checker->messages, e->call->place,
                        "the text with its calls written out is too large");
    e->full = true;
    return NULL;
}

hr_call_binding *hr_call_binding_of(const hr_expansion *e, const hr_symbol *name) {
    for (hr_call_binding *b = e->bindings; b; b = b->next)
        if (b->name == name) return b;
    return NULL;
}

hr_call_binding *hr_call_bind(hr_expansion *e, const hr_symbol *name) {
    hr_call_binding *new = hr_call_room(e, sizeof *new);
    if (!new) return NULL;
    *new = (hr_call_binding){.name = name, .next = e->bindings};
    e->count++;
    return e->bindings = new;
}

/* A name that stands nowhere in the text. */
static hr_symbol *fresh_symbol(hr_expansion *e, const char *stem) {
    hr_symbols *symbols = e->checker->symbols;
    for (int number = 0; number < HR_CALL_NAMES_MOST; number++) {
        if (!hr_call_room(e, 64)) return NULL;
        const char *name = number ? hr_arena_format(e->checker->arena, "%.200s_%d", stem, number + 1)
                                  : hr_arena_format(e->checker->arena, "%.200s", stem);
        const size_t known = symbols->count;
        hr_symbol *symbol = hr_symbol_intern(symbols, name, strlen(name));
        if (!symbol || symbols->count > known) return symbol;
    }
    return NULL;
}

hr_symbol *hr_call_fresh_name(hr_expansion *e, const hr_symbol *of) {
    if (!hr_call_room(e, 512)) return NULL;
    return fresh_symbol(
        e, hr_arena_format(e->checker->arena, "%.100s_%.100s", e->callee->symbol->name, of->name));
}

/* ---- trees ---- */

hr_syntax *hr_call_copy_node(hr_expansion *e, const hr_syntax *from) {
    hr_syntax *new = hr_call_room(e, sizeof *new);
    if (!new) return NULL;
    *new = *from;
    new->next = NULL;
    return new;
}

/* Copies of the items at the end of `parent`'s list. */
static bool copy_items(hr_expansion *e, hr_syntax *parent, const hr_syntax *items) {
    hr_syntax **end = &parent->items;
    while (*end)
        end = &(*end)->next;
    for (; items; items = items->next) {
        *end = hr_call_copy_tree(e, items);
        if (!*end) return false;
        end = &(*end)->next;
    }
    return true;
}

/* What the caller wrote: taken as it is. */
static hr_syntax *taken(hr_expansion *e, const hr_syntax *value) {
    hr_syntax *new = hr_call_copy_node(e, value);
    if (!new) return NULL;
    new->in_brackets = true;
    return new;
}

static bool take_items(hr_expansion *e, hr_syntax *parent, const hr_syntax *items) {
    hr_syntax **end = &parent->items;
    for (; items; items = items->next) {
        *end = hr_call_copy_node(e, items);
        if (!*end) return false;
        end = &(*end)->next;
    }
    return true;
}

/* An index keeps its name where the caller has no tensor of that name. */
static hr_symbol *index_name(hr_expansion *e, hr_symbol *symbol) {
    if (hr_check_bind(e->checker, symbol)->tensor < 0) return symbol;
    hr_call_binding *new = hr_call_bind(e, symbol);
    if (new) new->symbol = hr_call_fresh_name(e, symbol);
    return new ? new->symbol : NULL;
}

static hr_syntax *copy_named(hr_expansion *e, const hr_syntax *from) {
    const hr_call_binding *b = hr_call_binding_of(e, from->symbol);
    if (b && b->value && from->kind == HR_SYNTAX_NAME) return taken(e, b->value);
    hr_syntax *new = hr_call_copy_node(e, from);
    if (!new) return NULL;
    new->items = NULL;
    new->symbol = b && b->symbol ? b->symbol : from->symbol;
    if (!b && !hr_symbol_is_capital(from->symbol) && from->kind == HR_SYNTAX_NAME)
        new->symbol = index_name(e, from->symbol);
    if (!new->symbol) return NULL;
    if (b && b->fixed_count) {
        new->kind = HR_SYNTAX_ELEMENT;
        new->item_count += b->fixed_count;
        if (!take_items(e, new, b->fixed)) return NULL;
    }
    return copy_items(e, new, from->items) ? new : NULL;
}

hr_syntax *hr_call_copy_tree(hr_expansion *e, const hr_syntax *from) {
    if (from->kind == HR_SYNTAX_NAME || from->kind == HR_SYNTAX_ELEMENT) return copy_named(e, from);
    hr_syntax *new = hr_call_copy_node(e, from);
    if (!new) return NULL;
    new->items = NULL;
    const hr_call_binding *b = from->kind == HR_SYNTAX_CALL ? hr_call_binding_of(e, from->symbol) : NULL;
    if (b && b->symbol && hr_symbol_is_capital(from->symbol)) new->symbol = b->symbol; /* T(x) */
    if (!copy_items(e, new, from->items)) return NULL;
    if (from->body && !(new->body = hr_call_copy_tree(e, from->body))) return NULL;
    return new;
}

/* The extent as a tree. */
hr_syntax *hr_call_extent_tree(hr_expansion *e, const hr_expr *extent) {
    hr_syntax *new = hr_call_room(e, sizeof *new);
    if (!new) return NULL;
    *new = (hr_syntax){.place = e->call->place, .depth = 1, .in_brackets = true};
    if (extent->op == HR_OP_NUMBER) {
        new->kind = HR_SYNTAX_NUMBER;
        new->is_whole = true;
        new->whole = extent->whole;
        new->number = (double)extent->whole;
    } else if (extent->op == HR_OP_EXTENT) {
        const char *name = e->checker->function->extents[extent->extent];
        new->kind = HR_SYNTAX_NAME;
        new->symbol = hr_symbol_intern(e->checker->symbols, name, strlen(name));
        if (!new->symbol) return NULL;
    } else {
        new->kind = HR_SYNTAX_OPERATION;
        new->op = extent->op;
        new->item_count = 2;
        new->items = hr_call_extent_tree(e, extent->args[0]);
        if (!new->items || !(new->items->next = hr_call_extent_tree(e, extent->args[1]))) return NULL;
        new->depth +=
            new->items->depth > new->items->next->depth ? new->items->depth : new->items->next->depth;
    }
    return new;
}

/* ---- statements ---- */

/* y[m, n] of a result that becomes a local: y[m < M, n < N]. */
static bool give_ranges(hr_expansion *e, const hr_call_binding *b, hr_syntax *left) {
    const hr_syntax *extent = b->parameter->extents;
    for (hr_syntax **item = &left->items; *item && extent; item = &(*item)->next, extent = extent->next) {
        if ((*item)->kind != HR_SYNTAX_NAME) continue;
        hr_syntax *range = hr_call_copy_node(e, *item), *limit = hr_call_copy_tree(e, extent);
        if (!range || !limit) return false;
        hr_syntax *index = *item;
        range->kind = HR_SYNTAX_OPERATION;
        range->op = HR_OP_LT;
        range->items = index;
        range->item_count = 2;
        range->depth = limit->depth + 1;
        range->next = index->next;
        index->next = limit;
        *item = range;
    }
    return true;
}

hr_statement_syntax *hr_call_copy_statement(hr_expansion *e, const hr_statement_syntax *from) {
    hr_statement_syntax *new = hr_call_room(e, sizeof *new);
    if (!new) return NULL;
    *new = (hr_statement_syntax){.accumulate = from->accumulate};
    hr_syntax **end = &new->left;
    for (const hr_syntax *left = from->left; left; left = left->next, end = &(*end)->next) {
        *end = hr_call_copy_tree(e, left);
        const hr_call_binding *b = hr_call_binding_of(e, left->symbol);
        if (!*end || (b && b->ranged && !give_ranges(e, b, *end))) return NULL;
    }
    if (from->right && !(new->right = hr_call_copy_tree(e, from->right))) return NULL;
    if (from->condition && !(new->condition = hr_call_copy_tree(e, from->condition))) return NULL;
    return new;
}
