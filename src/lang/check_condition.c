/* The condition behind a statement, `a[at[n]] = x[n] if keep[n]`. In: its tree and the statement without it.
 * Out: a value that is stored only where it holds: see HR_LEFT_OUT of ir/function.h.
 */
#include "lang/checker.h"

#include <string.h>

static hr_expr *choose(hr_checker *checker, hr_expr *condition, hr_expr *value, hr_expr *other) {
    hr_expr *args[] = {condition, value, other};
    return other ? hr_check_operation(checker, HR_OP_WHERE, condition->place, 3, args) : NULL;
}

/* The element that the statement assigns, before it. */
static hr_expr *old_element(hr_checker *checker, const hr_statement *statement) {
    const hr_tensor *tensor = &checker->function->tensors[statement->tensor];
    hr_expr *old = hr_check_node(checker, HR_OP_ELEMENT, hr_compute_type(tensor->dtype), statement->place,
                                 statement->subscript_count);
    if (!old) return NULL;
    old->tensor = statement->tensor;
    for (int a = 0; a < statement->subscript_count; a++)
        old->args[a] = statement->subscripts[a];
    return old;
}

static bool is_plain(const hr_statement *statement) {
    bool plain = true;
    for (int a = 0; a < statement->subscript_count; a++)
        plain = plain && statement->subscripts[a]->op == HR_OP_INDEX;
    return plain;
}

/* Where the condition does not hold the subscripts leave the element out. */
static bool leave_out(hr_checker *checker, hr_statement *statement, hr_expr *condition) {
    const bool plain = is_plain(statement);
    for (int a = 0; a < statement->subscript_count; a++) {
        hr_expr **subscript = &statement->subscripts[a];
        if ((*subscript)->op == HR_OP_INDEX && !(plain && a == 0)) continue;
        hr_expr *out =
            hr_check_number(checker, (*subscript)->place, HR_I64, (double)HR_LEFT_OUT, HR_LEFT_OUT);
        *subscript = choose(checker, condition, *subscript, out);
        if (!*subscript) return false;
    }
    return true;
}

/* A value that is stored only where the condition holds. */
bool hr_check_condition(hr_checker *checker, const hr_syntax *syntax, hr_statement *statement) {
    const hr_tensor *tensor = &checker->function->tensors[statement->tensor];
    const bool whole = statement->store == HR_STORE_WHOLE;
    if (whole && tensor->role != HR_ROLE_INOUT) {
        hr_messages_add(
            checker->messages, syntax->place,
            "where this condition does not hold %s would have no value, since only an inout keeps "
            "what it held; write where(condition, a, b)",
            hr_text_shown(tensor->name, strlen(tensor->name)).text);
        return false;
    }
    hr_expr *condition = hr_check_expression(checker, syntax);
    if (!condition) return false;
    if (condition->type != HR_BOOL) {
        hr_messages_add(checker->messages, syntax->place,
                        "behind if stands a condition, and this is a number; write x != 0");
        return false;
    }
    const hr_place place = condition->place;
    hr_expr *other =
        whole ? old_element(checker, statement)
              : hr_check_number(checker, place, statement->value->type == HR_BOOL ? HR_BOOL : HR_I64, 0, 0);
    statement->value = choose(checker, condition, statement->value, other);
    const bool everywhere = whole || (statement->store == HR_STORE_ADD && is_plain(statement));
    return statement->value && (everywhere || leave_out(checker, statement, condition));
}
