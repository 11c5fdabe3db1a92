/* Whole numbers that floats are rounded to, i8(round(x / scale)), and what is computed from them: one
 * rounding of f32 on the way may move them by 1. In: a function. Out: the same, where such numbers are f64:
 * so they have a scale of error as floats do, and the same values.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "reference/interpreter.h"

#include <stdlib.h>
#include <string.h>

typedef struct rewriting {
    const hr_function *function;
    hr_arena *arena;
    hr_expr **made; /* by expr id */
    bool *rounded;  /* by tensor id: it has such numbers */
    bool any, full;
} rewriting;

static void *room(rewriting *w, size_t size) {
    if (hr_arena_room(w->arena) < size + 64) {
        w->full = true;
        return NULL;
    }
    return hr_arena_alloc(w->arena, size ? size : 1);
}

static bool is_number(hr_dtype type) {
    return type == HR_I32 || type == HR_I64;
}

/* The arguments from which a whole number is computed as one: their number, from the first such. */
static int value_arguments(const hr_expr *node, int *first) {
    *first = node->op == HR_OP_WHERE;
    switch (node->op) {
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
    case HR_OP_NEG:
    case HR_OP_ABS:
    case HR_OP_RELU:
    case HR_OP_MIN:
    case HR_OP_MAX:
    case HR_OP_CLAMP:
    case HR_OP_WHERE:
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_MIN:
    case HR_OP_REDUCE_PROD:
    case HR_OP_SCAN:
    case HR_OP_SCAN_BACK:
        return node->arg_count;
    default:
        return 0;
    }
}

static bool is_rounded(const rewriting *w, const hr_expr *node, hr_expr *const *args) {
    int first;
    if (!is_number(node->type)) return false;
    if (node->op == HR_OP_ELEMENT) return w->rounded[node->tensor];
    if (node->op == HR_OP_CONVERT)
        return !hr_dtype_is_float(node->dtype) && node->dtype != HR_BOOL && hr_dtype_is_float(args[0]->type);
    const int last = value_arguments(node, &first);
    for (int i = first; i < last; ++i)
        if (is_number(node->args[i]->type) && hr_dtype_is_float(args[i]->type)) return true;
    return false;
}

static hr_expr *rewritten(rewriting *w, hr_expr *node) {
    if (w->made[node->id]) return w->made[node->id];
    hr_expr **args = node->args;
    bool changed = false;
    for (int i = 0; i < node->arg_count && !w->full; ++i) {
        hr_expr *arg = rewritten(w, node->args[i]);
        if (arg != node->args[i] && !changed) {
            changed = true;
            args = room(w, (size_t)node->arg_count * sizeof *args);
            if (args) memcpy(args, node->args, (size_t)node->arg_count * sizeof *args);
        }
        if (args) args[i] = changed ? arg : args[i];
    }
    if (w->full) return node;
    const bool rounded = is_rounded(w, node, args);
    hr_expr *result = changed || rounded ? room(w, sizeof *result) : node;
    if (!result) return node;
    if (result != node) {
        *result = *node;
        result->args = args;
        if (rounded) result->type = HR_F64;
    }
    return w->made[node->id] = result;
}

static void rewrite_statements(rewriting *w, hr_function *out) {
    const size_t statements = (size_t)w->function->statement_count * sizeof *out->statements,
                 tensors = (size_t)w->function->tensor_count * sizeof *out->tensors;
    out->statements = room(w, statements);
    out->tensors = room(w, tensors);
    if (w->full) return;
    if (statements) memcpy(out->statements, w->function->statements, statements);
    if (tensors) memcpy(out->tensors, w->function->tensors, tensors);
    for (int i = 0; i < out->statement_count && !w->full; ++i) {
        hr_statement *statement = &out->statements[i];
        hr_tensor *tensor = &out->tensors[statement->tensor];
        if (statement->store != HR_STORE_WHOLE) continue;
        hr_expr *value = rewritten(w, statement->value);
        w->any = w->any || value != statement->value;
        if (is_number(statement->value->type) && hr_dtype_is_float(value->type) &&
            tensor->role != HR_ROLE_INOUT) {
            w->rounded[statement->tensor] = true;
            if (tensor->role == HR_ROLE_LOCAL) tensor->dtype = HR_F64;
        }
        statement->value = value;
    }
}

hr_status hr_inexact_function(const hr_function *function, hr_arena *arena, const hr_function **out) {
    rewriting w = {.function = function, .arena = arena};
    hr_function *copy = room(&w, sizeof *copy);
    w.made = hr_memory_zeros((size_t)function->expr_count + 1, sizeof(hr_expr *));
    w.rounded = hr_memory_zeros((size_t)function->tensor_count + 1, sizeof *w.rounded);
    const bool there = copy && w.made && w.rounded;
    if (there) {
        *copy = *function;
        rewrite_statements(&w, copy);
    }
    free(w.made);
    free(w.rounded);
    if (!there || w.full)
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel: it is too large");
    *out = w.any ? copy : function;
    return HR_OK;
}
