/* Over what an index runs. In: extents of declarations, ranges, axes that an index subscripts. Out: one
 * extent an index, or the message that two disagree. */
#include "ir/extent_form.h"
#include "lang/checker.h"

#include <string.h>

#define EXTENT_DEPTH_MAX 64

static int extent_of(hr_checker *checker, hr_symbol *symbol) {
    hr_check_bind(checker, symbol);
    if (symbol->extent >= 0) return symbol->extent;
    hr_function *function = checker->function;
    if (function->extent_count == checker->extent_capacity) {
        int capacity = checker->extent_capacity ? 2 * checker->extent_capacity : 8;
        if (hr_arena_room(checker->arena) < (size_t)capacity * sizeof(char *) + 4096) return -1;
        const char **grown = hr_arena_alloc(checker->arena, (size_t)capacity * sizeof *grown);
        if (function->extent_count)
            memcpy(grown, function->extents, (size_t)function->extent_count * sizeof *grown);
        function->extents = grown;
        checker->extent_capacity = capacity;
    }
    function->extents[function->extent_count] = symbol->name;
    return symbol->extent = function->extent_count++;
}

static hr_expr *named_extent(hr_checker *checker, const hr_syntax *syntax) {
    if (!hr_symbol_is_capital(syntax->symbol)) {
        hr_shown shown = hr_text_shown(syntax->symbol->name, syntax->symbol->length);
        char capital = shown.text[0] >= 'a' && shown.text[0] <= 'z' ? (char)(shown.text[0] - 32) : 'N';
        hr_messages_add(
            checker->messages, syntax->place,
            "an extent has a name that begins with a capital letter, and '%s' does not; write %c%s",
            shown.text, capital, shown.text + 1);
        return NULL;
    }
    int variable = hr_check_bind(checker, syntax->symbol)->variable;
    if (variable >= 0) {
        hr_messages_add(
            checker->messages, syntax->place,
            "%s is a dtype (on line %d) and an extent here; a name has one role, so give one of the "
            "two another name",
            hr_text_shown(syntax->symbol->name, syntax->symbol->length).text,
            checker->function->variables[variable].place.line);
        return NULL;
    }
    hr_expr *new = hr_check_node(checker, HR_OP_EXTENT, HR_I64, syntax->place, 0);
    if (!new) return NULL;
    new->extent = extent_of(checker, syntax->symbol);
    return new->extent >= 0 ? new : NULL;
}

hr_expr *hr_check_extent(hr_checker *checker, const hr_syntax *syntax) {
    if (syntax->depth > EXTENT_DEPTH_MAX) {
        hr_messages_add(checker->messages, syntax->place, "an extent is at most %d levels deep",
                        EXTENT_DEPTH_MAX);
        return NULL;
    }
    if (syntax->kind == HR_SYNTAX_NUMBER && syntax->is_whole && !syntax->is_bool)
        return hr_check_number(checker, syntax->place, HR_I64, syntax->number, syntax->whole);
    if (syntax->kind == HR_SYNTAX_NAME) return named_extent(checker, syntax);
    if (syntax->kind == HR_SYNTAX_OPERATION && syntax->item_count == 2 &&
        (syntax->op == HR_OP_ADD || syntax->op == HR_OP_SUB || syntax->op == HR_OP_MUL ||
         syntax->op == HR_OP_FLOORDIV)) {
        hr_expr *left = hr_check_extent(checker, syntax->items);
        hr_expr *right = hr_check_extent(checker, syntax->items->next);
        hr_expr *new = left &&right ? hr_check_node(checker, syntax->op, HR_I64, syntax->place, 2) : NULL;
        if (!new) return NULL;
        new->args[0] = left;
        new->args[1] = right;
        return new;
    }
    hr_messages_add(checker->messages, syntax->place,
                    "an extent is made of extent names, whole numbers, + - * and //, as in 2 * N");
    return NULL;
}

const char *hr_check_axis_words(hr_checker *checker, int tensor, int axis) {
    const char *name = checker->function->tensors[tensor].name;
    if (hr_arena_room(checker->arena) < 4096) return "an axis";
    return hr_arena_format(checker->arena, "axis %d of %s", axis, hr_text_shown(name, strlen(name)).text);
}

bool hr_check_has_extents(hr_checker *checker, const int *indices, int count) {
    bool good = true;
    for (int i = 0; i < count; i++) {
        const hr_index *index = &checker->function->indices[indices[i]];
        if (index->extent) continue;
        hr_shown name = hr_text_shown(index->name, strlen(index->name));
        hr_messages_add(checker->messages, index->place,
                        "%s stands alone on no axis, so its range is unknown; write %s < N with an extent N",
                        name.text, name.text);
        good = false;
    }
    return good;
}

bool hr_check_range(hr_checker *checker, int index, hr_expr *extent, hr_place place, const char *origin,
                    const char *mend) {
    hr_index *entry = &checker->function->indices[index];
    hr_index_state *state = &checker->indices[index];
    if (!entry->extent) {
        entry->extent = extent;
        state->origin = origin;
        return true;
    }
    if (state->failed || hr_extent_compare(entry->extent, extent) != HR_DIFFERENT) return true;
    hr_shown name = hr_text_shown(entry->name, strlen(entry->name));
    hr_messages_add(checker->messages, place,
                    "%s ranges over %s here (%s) and over %s before (%s), and these must agree; %s%s%s",
                    name.text, hr_extent_text(checker->function, extent).text, origin,
                    hr_extent_text(checker->function, entry->extent).text, state->origin,
                    mend ? mend : "where a part of the axis is meant write ", mend ? "" : name.text,
                    mend ? "" : " + 0");
    state->failed = true;
    return false;
}
