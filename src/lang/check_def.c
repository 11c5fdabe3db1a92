/* Defs by themselves. In: their trees. Out: messages for unknown names, wrong numbers of arguments and
 * recursion, whether anybody calls them or not; hr_def_syntax.failed where they cannot be expanded.
 */
#include "base/dtype.h"
#include "lang/checker.h"

#include <string.h>

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

bool hr_check_small(hr_checker *checker, const hr_symbol *symbol, hr_place place, const char *what) {
    if (symbol->name[0] < 'A' || symbol->name[0] > 'Z') return true;
    hr_shown small = shown(symbol);
    small.text[0] = (char)(small.text[0] - 'A' + 'a');
    hr_messages_add(checker->messages, place,
                    "capital letters begin the names of extents and dtype variables only; call this %s %s",
                    what, small.text);
    return false;
}

/* ---- names ---- */

static bool declare(hr_checker *checker, hr_def_syntax *def) {
    const char *name = def->symbol->name;
    hr_dtype dtype;
    if (def->standard && def->symbol->def) return false;
    bool known = hr_dtype_parse(name, def->symbol->length, &dtype);
    for (hr_op op = HR_OP_EXP; op <= HR_OP_SCAN; op++)
        known |= strcmp(hr_op_info_of(op)->name, name) == 0;
    if (!hr_check_small(checker, def->symbol, def->place, "function")) return false;
    if (known)
        hr_messages_add(checker->messages, def->place,
                        "%s is a function of the language already; choose another name", name);
    else if (def->symbol->def)
        hr_messages_add(checker->messages, def->place, "%s is defined a second time (first on line %d)",
                        shown(def->symbol).text, def->symbol->def->place.line);
    else
        def->symbol->def = def;
    return def->symbol->def == def;
}

static bool note_call(hr_checker *checker, hr_def_syntax *caller, hr_def_syntax *callee) {
    if (hr_arena_room(checker->arena) < 4096) return false;
    hr_def_call *call = hr_arena_alloc(checker->arena, sizeof *call);
    *call = (hr_def_call){.caller = caller, .next = callee->callers};
    callee->callers = call;
    caller->calls++;
    return true;
}

static bool check_call(hr_checker *checker, hr_def_syntax *def, const hr_syntax *syntax) {
    hr_def_syntax *callee = syntax->symbol->def;
    if (callee)
        return hr_check_arity(checker, syntax, callee->parameter_count) && note_call(checker, def, callee);
    hr_op op = hr_check_function_named(syntax->symbol->name);
    hr_dtype dtype;
    if (op != HR_OP_COUNT) return hr_check_arity(checker, syntax, hr_op_info_of(op)->arity);
    if (hr_dtype_parse(syntax->symbol->name, syntax->symbol->length, &dtype))
        return hr_check_arity(checker, syntax, 1);
    hr_check_unknown_function(checker, syntax);
    return false;
}

/* A def is elementwise: its parameters, numbers, operators, functions. */
static bool check_body(hr_checker *checker, hr_def_syntax *def, const hr_syntax *syntax) {
    const char *trouble = NULL;
    if (syntax->kind == HR_SYNTAX_NAMED)
        trouble = "the arguments of a function have no names";
    else if (syntax->kind == HR_SYNTAX_REDUCTION || syntax->kind == HR_SYNTAX_ELEMENT)
        trouble = "a def has no subscripts and no reductions; hand it the element or the sum as an argument";
    else if (syntax->kind == HR_SYNTAX_NAME && syntax->symbol->frame != def)
        trouble = "a def sees nothing but its own parameters; hand it this as an argument";
    if (trouble) {
        hr_messages_add(checker->messages, syntax->place, "%s", trouble);
        return false;
    }
    bool good = syntax->kind != HR_SYNTAX_CALL || check_call(checker, def, syntax);
    for (const hr_syntax *item = syntax->items; item; item = item->next)
        good &= check_body(checker, def, item);
    return good;
}

static void check_def(hr_checker *checker, hr_def_syntax *def) {
    for (const hr_syntax *p = def->parameters; p; p = p->next) {
        if (p->symbol->frame == def) {
            hr_messages_add(checker->messages, p->place, "two parameters are called %s",
                            shown(p->symbol).text);
            def->failed = true;
        }
        p->symbol->frame = def;
    }
    if (!def->body || !check_body(checker, def, def->body)) def->failed = true;
}

/* ---- recursion ---- */

/* Takes away, again and again, the defs that call none that is left. Those that stay never end: they call
 * themselves or another that does. */
static void mark_endless(hr_checker *checker) {
    hr_def_syntax *ready = NULL;
    for (hr_def_syntax *def = checker->file->defs; def; def = def->next) {
        def->endless = def->calls > 0;
        if (def->endless) continue;
        def->ready = ready;
        ready = def;
    }
    while (ready) {
        hr_def_syntax *done = ready;
        ready = done->ready;
        for (const hr_def_call *call = done->callers; call; call = call->next) {
            if (--call->caller->calls) continue;
            call->caller->endless = false;
            call->caller->ready = ready;
            ready = call->caller;
        }
    }
}

static hr_def_syntax *endless_callee(const hr_syntax *syntax) {
    if (syntax->kind == HR_SYNTAX_CALL && syntax->symbol->def && syntax->symbol->def->endless)
        return syntax->symbol->def;
    for (const hr_syntax *item = syntax->items; item; item = item->next) {
        hr_def_syntax *found = endless_callee(item);
        if (found) return found;
    }
    return NULL;
}

/* From an endless def one endless call after another leads into a circle. */
static void check_recursion(hr_checker *checker) {
    int walk = 0;
    mark_endless(checker);
    for (hr_def_syntax *start = checker->file->defs; start; start = start->next) {
        hr_def_syntax *def = start;
        for (walk++; def && def->endless && !def->walk; def = endless_callee(def->body))
            def->walk = walk;
        if (def && def->endless && def->walk == walk)
            hr_messages_add(
                checker->messages, def->place,
                "%s calls itself, perhaps through another; a def is written out, so it cannot recur",
                shown(def->symbol).text);
        start->failed |= start->endless;
    }
}

void hr_check_defs(hr_checker *checker) {
    for (hr_def_syntax *def = checker->file->defs; def; def = def->next)
        def->failed = !declare(checker, def);
    for (hr_def_syntax *def = checker->file->defs; def; def = def->next)
        check_def(checker, def);
    check_recursion(checker);
}
