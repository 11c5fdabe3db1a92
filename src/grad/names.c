/* Names of what a derived kernel computes, by what it means. In: values. Out: names that nothing else has. */
#include "grad/derivation.h"

#include <string.h>

/* A copy of a full array with room for as many again; what it was stays in the arena. */
static void *grown(hr_derivation *derivation, const void *items, size_t size, int *capacity) {
    const int full = *capacity;
    *capacity = full ? 2 * full : 32;
    void *out = hr_algebra_take(derivation->algebra, (size_t)*capacity * size);
    if (full) memcpy(out, items, (size_t)full * size);
    return out;
}

void hr_name_value(hr_derivation *derivation, const hr_expr *value, const char *name) {
    for (int i = 0; i < derivation->name_count; i++)
        if (derivation->names[i].value == value) return;
    if (derivation->name_count == derivation->name_capacity)
        derivation->names =
            grown(derivation, derivation->names, sizeof *derivation->names, &derivation->name_capacity);
    derivation->names[derivation->name_count++] = (hr_named_value){value, name};
}

/* Locals of the source are gone, but for those that are saved: their names are free. */
static bool is_taken(const hr_derivation *derivation, const char *name) {
    const hr_function *function = derivation->graph->function;
    for (int i = 0; i < function->index_count; i++)
        if (strcmp(function->indices[i].name, name) == 0) return true;
    for (int t = 0; t < function->tensor_count; t++) {
        const bool gone = t >= hr_function_arguments(derivation->source) &&
                          t < derivation->source->tensor_count && !derivation->saved[t];
        if (!gone && strcmp(function->tensors[t].name, name) == 0) return true;
    }
    return false;
}

const char *hr_name_free(hr_derivation *derivation, const char *name) {
    const char *free_name = name;
    for (int number = 2; is_taken(derivation, free_name); number++)
        free_name = hr_arena_format(derivation->graph->arena, "%s%d", name, number);
    return free_name;
}

void hr_carry_cotangent(hr_derivation *derivation, int tensor) {
    if (derivation->carrier_count == derivation->carrier_capacity)
        derivation->carriers = grown(derivation, derivation->carriers, sizeof *derivation->carriers,
                                     &derivation->carrier_capacity);
    derivation->carriers[derivation->carrier_count++] = tensor;
}

static hr_visit is_carrier(const hr_expr *node, const void *context) {
    const hr_derivation *derivation = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_held_value *held = hr_held_by(derivation->algebra, node);
    if (held) return hr_visit_until(hr_carries_cotangent(derivation, held->value));
    return hr_visit_until(hr_indices_have(derivation->carriers, derivation->carrier_count, node->tensor));
}

bool hr_carries_cotangent(const hr_derivation *derivation, const hr_expr *value) {
    return hr_expr_find(value, is_carrier, derivation);
}

bool hr_is_cotangent(const hr_derivation *derivation, int tensor) {
    for (int t = 0; t < derivation->source->tensor_count; t++)
        if (derivation->cotangents[t] == tensor) return true;
    return false;
}

static hr_visit is_sum(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_REDUCE_SUM);
}

/* A part of the derived kernel that carries what came from a cotangent: `along` is how much of it lies along
 * something else, `level` what it is on the whole. */
static const char *adjoint_word(const hr_expr *value) {
    const hr_expr *sum = hr_expr_find(value, is_sum, NULL);
    if (!sum) return "g";
    return sum->args[0]->op == HR_OP_MUL ? "along" : "level";
}

static const char *primal_word(const hr_expr *value) {
    switch (value->op) {
    case HR_OP_WHERE:
        return value->args[1]->op == HR_OP_EXP ? "p" : "h";
    case HR_OP_SIGMOID:
        return "s";
    case HR_OP_TANH:
        return "t";
    case HR_OP_EXP:
    case HR_OP_EXP2:
        return "p";
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        return "first";
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_MIN:
        return "peak";
    case HR_OP_REDUCE_LOGSUMEXP:
        return "lse";
    case HR_OP_REDUCE_PROD:
        return "product";
    case HR_OP_REDUCE_SUM:
        return "total";
    case HR_OP_RANDOM:
        return "drawn";
    case HR_OP_SUB:
        return "apart";
    default:
        return "h";
    }
}

const char *hr_name_of_product(hr_derivation *derivation, const hr_expr *product) {
    for (int i = 0; i < derivation->name_count; i++)
        if (derivation->names[i].value == product) return hr_name_free(derivation, derivation->names[i].name);
    return hr_name_free(derivation, hr_carries_cotangent(derivation, product) ? "g" : "h");
}

const char *hr_name_of(hr_derivation *derivation, const hr_expr *meaning, const hr_expr *value) {
    for (int i = 0; i < derivation->name_count; i++)
        if (derivation->names[i].value == meaning) return hr_name_free(derivation, derivation->names[i].name);
    return hr_name_free(derivation,
                        hr_carries_cotangent(derivation, value) ? adjoint_word(value) : primal_word(value));
}
