/* A function without some of its results, as text. In: a function, which results nobody wants. Out: .hr.
 *
 * Such a result becomes a local. Then statements are kept, from the last to the first, that write what is
 * declared or what a kept one reads.
 */
#include "ir/without_results.h"

#include "base/arena.h"
#include "base/dtype.h"
#include "ir/function_text.h"
#include "ir/types.h"
#include "ir/visit.h"

#include <string.h>

#define STATEMENT_ROOM 512 /* bytes of the arena for one: itself, and a conversion with its argument */

typedef struct leaving_out {
    hr_function function; /* that is written: the given one's nodes, tensors and statements of its own */
    bool *read;           /* of each tensor: a kept statement needs it */
} leaving_out;

static hr_visit note_read(void *context, const hr_expr *node) {
    leaving_out *l = context;
    if (node->op == HR_OP_ELEMENT) l->read[node->tensor] = true;
    return HR_VISIT_ON;
}

static void note_statement(leaving_out *l, const hr_statement *statement) {
    for (int a = 0; a < statement->subscript_count; a++)
        hr_expr_visit(statement->subscripts[a], note_read, l);
    hr_expr_visit(statement->value, note_read, l);
}

/* A result holds what its dtype can; so does the local that stands for it. */
static void round_value(const hr_function *given, hr_statement *statement, hr_arena *arena) {
    const hr_dtype dtype = given->tensors[statement->tensor].dtype;
    if (hr_compute_type(dtype) == dtype) return;
    hr_expr *rounded = hr_arena_alloc(arena, sizeof *rounded);
    *rounded = (hr_expr){.op = HR_OP_CONVERT,
                         .type = hr_compute_type(dtype),
                         .dtype = dtype,
                         .id = statement->value->id,
                         .place = statement->place,
                         .arg_count = 1,
                         .args = hr_arena_alloc(arena, sizeof *rounded->args)};
    rounded->args[0] = statement->value;
    statement->value = rounded;
}

/* The kept statements, at the end of an array of all. */
static void statements_keep(leaving_out *l, const hr_function *given, const bool *left_out, hr_arena *arena) {
    hr_statement *all = hr_arena_alloc(arena, ((size_t)given->statement_count + 1) * sizeof *all);
    const int declared = hr_function_arguments(given);
    int first = given->statement_count;
    for (int i = given->statement_count - 1; i >= 0; i--) {
        const hr_statement *statement = &given->statements[i];
        const bool out = statement->tensor < declared && left_out[statement->tensor];
        if (!l->read[statement->tensor] && (out || statement->tensor >= declared)) continue;
        note_statement(l, statement);
        all[--first] = *statement;
        if (out) round_value(given, &all[first], arena);
    }
    l->function.statements = all + first;
    l->function.statement_count = given->statement_count - first;
}

hr_status hr_function_text_without(const hr_function *function, const bool *left_out, hr_text *out) {
    const size_t tensors = (size_t)function->tensor_count + 1;
    const int declared = hr_function_arguments(function);
    hr_arena *arena;
    HR_TRY(hr_arena_create(tensors * (sizeof(hr_tensor) + sizeof(bool)) +
                               ((size_t)function->statement_count + 1) * STATEMENT_ROOM + 4096,
                           &arena));
    leaving_out l = {.function = *function, .read = hr_arena_alloc(arena, tensors * sizeof(bool))};
    l.function.tensors = hr_arena_alloc(arena, tensors * sizeof(hr_tensor));
    memcpy(l.function.tensors, function->tensors, (tensors - 1) * sizeof(hr_tensor));
    for (int i = 0; i < declared; i++)
        if (left_out[i]) l.function.tensors[i].role = HR_ROLE_LOCAL;
    statements_keep(&l, function, left_out, arena);
    hr_status status =
        l.function.statement_count
            ? hr_function_text(&l.function, out)
            : hr_fail(HR_BAD_INPUT, "kernel %s would have nothing left to compute", function->name);
    hr_arena_destroy(arena);
    return status;
}
