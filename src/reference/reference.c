/* The public side of the interpreter: binds operands, answers one element at a time.
 *
 * A chain of statements may be longer than the C stack is deep. A request that lies too deep is put aside
 * (HR_DEFERRED), met by itself from the top, remembered, and the question asked again.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "reference/interpreter.h"
#include "reference/interpreter_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Address space only: code, lanes and shapes. */
static const size_t arena_capacity = (size_t)1 << 31;
enum { FAULT_RECORDS = 1 << 16 };

/* ---- creation ---- */

static hr_status room(hr_reference *reference, size_t size, void **out) {
    if (hr_arena_room(reference->arena) < size + 64)
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel: it is too large");
    *out = hr_arena_alloc(reference->arena, size ? size : 1);
    return HR_OK;
}

static hr_status bind_shapes(hr_reference *reference) {
    const hr_function *function = reference->function;
    HR_TRY(room(reference, (size_t)function->tensor_count * sizeof(int64_t *), (void **)&reference->shapes));
    for (int i = 0; i < function->tensor_count; ++i) {
        const hr_tensor *tensor = &function->tensors[i];
        HR_TRY(room(reference, (size_t)tensor->rank * sizeof(int64_t), (void **)&reference->shapes[i]));
        for (int k = 0; k < tensor->rank; ++k)
            HR_TRY(hr_extent_value(function, tensor->shape[k], reference->extents, &reference->shapes[i][k]));
    }
    HR_TRY(room(reference, (size_t)function->index_count * sizeof(hr_lanes), (void **)&reference->indices));
    HR_TRY(
        room(reference, (size_t)function->index_count * sizeof(int64_t), (void **)&reference->index_extents));
    for (int i = 0; i < function->index_count; ++i)
        HR_TRY(hr_extent_value(function, function->indices[i].extent, reference->extents,
                               &reference->index_extents[i]));
    return HR_OK;
}

static hr_status bind_operands(hr_reference *reference, const hr_operand *operands) {
    const hr_function *function = reference->function;
    size_t count = (size_t)function->parameter_count;
    HR_TRY(room(reference, count * sizeof *operands, (void **)&reference->operands));
    if (count) memcpy(reference->operands, operands, count * sizeof *operands);
    for (int i = 0; i < function->parameter_count; ++i) {
        const hr_tensor *tensor = &function->tensors[i];
        hr_operand *operand = &reference->operands[i];
        if (!tensor->rank) continue;
        size_t size = (size_t)tensor->rank * sizeof(int64_t);
        bool empty = false;
        for (int k = 0; k < tensor->rank; ++k) {
            empty |= reference->shapes[i][k] == 0;
            if (operand->shape && operand->shape[k] != reference->shapes[i][k])
                return hr_fail(
                    HR_BAD_INPUT, "axis %d of %s has %lld elements, but the kernel's extents say %lld", k + 1,
                    tensor->name, (long long)operand->shape[k], (long long)reference->shapes[i][k]);
        }
        if (!empty && (!operand->data || !operand->strides))
            return hr_fail(HR_BAD_INPUT, "%s is not bound to an array", tensor->name);
        int64_t *strides = NULL;
        HR_TRY(room(reference, size, (void **)&strides));
        if (operand->strides) memcpy(strides, operand->strides, size);
        operand->strides = strides;
        operand->shape = reference->shapes[i];
    }
    return HR_OK;
}

/* What the interpreter relies on; the checker of src/lang refuses anything else. */
static hr_status bind_statements(hr_reference *reference) {
    const hr_function *function = reference->function;
    HR_TRY(room(reference, (size_t)function->tensor_count * sizeof(int), (void **)&reference->writer));
    for (int i = 0; i < function->tensor_count; ++i)
        reference->writer[i] = -1;
    for (int i = 0; i < function->statement_count; ++i) {
        const hr_statement *statement = &function->statements[i];
        reference->writer[statement->tensor] = i;
        for (int k = 0; k < statement->subscript_count && statement->store == HR_STORE_WHOLE; ++k)
            if (statement->subscripts[k]->op != HR_OP_INDEX)
                return hr_fail(HR_INTERNAL, "line %d: subscript %d on the left is not an index",
                               statement->place.line, k + 1);
    }
    return HR_OK;
}

static hr_status create(hr_reference *reference, const int64_t *extents, const hr_operand *operands) {
    size_t extent_size = (size_t)reference->function->extent_count * sizeof *extents;
    HR_TRY(hr_arena_create(arena_capacity, &reference->arena));
    HR_TRY(hr_inexact_function(reference->function, reference->arena, &reference->function));
    HR_TRY(room(reference, extent_size, (void **)&reference->extents));
    if (extent_size) memcpy(reference->extents, extents, extent_size);
    HR_TRY(room(reference, FAULT_RECORDS * sizeof *reference->faults, (void **)&reference->faults));
    HR_TRY(bind_shapes(reference));
    HR_TRY(bind_operands(reference, operands));
    HR_TRY(bind_statements(reference));
    HR_TRY(hr_memo_create(&reference->memo));
    HR_TRY(hr_strips_create(&reference->strips));
    return hr_interpreter_compile(reference);
}

hr_status hr_reference_create(const hr_function *function, const int64_t *extents, const hr_operand *operands,
                              hr_reference **out) {
    hr_reference *reference = hr_memory_zeros(1, sizeof *reference);
    if (!reference) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    reference->function = function;
    hr_status status = create(reference, extents, operands);
    if (status == HR_OK)
        *out = reference;
    else
        hr_reference_destroy(reference);
    return status;
}

static void drop_pending(hr_reference *reference) {
    free(reference->pending[--reference->pending_count].indices);
}

void hr_reference_destroy(hr_reference *reference) {
    if (!reference) return;
    while (reference->pending_count)
        drop_pending(reference);
    free(reference->pending);
    for (int i = 0; reference->rules && i < reference->function->statement_count; ++i)
        hr_scatter_destroy(reference->rules[i].scatter);
    for (int i = 0; i < reference->fold_count; ++i)
        hr_sum_destroy(reference->folds[i].sum), hr_scan_rows_destroy(reference->folds[i].rows);
    free(reference->folds);
    hr_memo_destroy(reference->memo);
    hr_strips_destroy(reference->strips);
    hr_arena_destroy(reference->arena);
    free(reference);
}

hr_loss hr_reference_loss(const hr_reference *reference) {
    return reference->loss;
}

static bool same_place(hr_place a, hr_place b) {
    return a.line == b.line && a.column == b.column;
}

/* A statement that is a reduction and nothing else stands for it. */
static const hr_statement *statement_alone(const hr_function *function, const hr_expr *value) {
    for (int s = 0; s < function->statement_count; ++s)
        if (function->statements[s].value == value) return &function->statements[s];
    return NULL;
}

void hr_reference_orders(hr_reference *reference, const hr_sum_order *orders, int count) {
    for (int f = 0; f < reference->fold_count; ++f) {
        const hr_expr *expr = reference->folds[f].expr;
        const hr_statement *alone = statement_alone(reference->function, expr);
        for (int i = 0; i < count; ++i)
            if (same_place(expr->place, orders[i].place) ||
                (alone && same_place(alone->place, orders[i].place)))
                reference->folds[f].order = orders[i];
    }
    for (int s = 0; s < reference->function->statement_count; ++s)
        for (int i = 0; i < count; ++i)
            if (same_place(reference->function->statements[s].place, orders[i].place))
                reference->rules[s].order = orders[i];
}

/* ---- asking ---- */

typedef struct answer {
    hr_known known;
    bool whole;
} answer;

static hr_status ask(hr_reference *reference, int tensor, const int64_t *subscripts, answer *out) {
    const hr_tensor *asked = &reference->function->tensors[tensor];
    *out = (answer){.whole = !hr_dtype_is_float(asked->dtype)};
    if (reference->writer[tensor] < 0) {
        if (tensor >= reference->function->parameter_count)
            return hr_fail(HR_INTERNAL, "%s is never assigned", asked->name);
        out->known = hr_operand_known(reference, tensor, subscripts);
        return HR_OK;
    }
    hr_rule *rule = &reference->rules[reference->writer[tensor]];
    const hr_statement *statement = rule->statement;
    if (statement->store != HR_STORE_WHOLE) return hr_scatter_value(reference, rule, subscripts, &out->known);
    for (int k = 0; k < statement->subscript_count; ++k)
        hr_lanes_set_whole(&reference->indices[statement->subscripts[k]->index], subscripts[k]);
    out->whole = !hr_dtype_is_float(statement->value->type);
    return hr_rule_known(reference, rule, &out->known);
}

/* Meets the last request that was put aside, from a fresh stack. */
static hr_status meet(hr_reference *reference) {
    const hr_pending *pending = &reference->pending[reference->pending_count - 1];
    hr_rule *rule = &reference->rules[pending->rule];
    for (int i = 0; i < rule->statement->domain_count; ++i) {
        hr_lanes *index = &reference->indices[rule->statement->domain[i]];
        const hr_lanes *copy = &pending->indices[i];
        index->form = copy->form;
        index->base = copy->base;
        index->step = copy->step;
        index->spread = 0;
        index->faulty = false;
        if (copy->form == HR_FORM_VARYING)
            memcpy(index->whole, copy->whole, (size_t)pending->count * sizeof *index->whole);
    }
    hr_known known;
    if (pending->count == 1) return hr_rule_known(reference, rule, &known);
    return hr_rule_lanes(reference, rule, pending->count);
}

static hr_status ask_until_met(hr_reference *reference, int tensor, const int64_t *subscripts, answer *out) {
    int64_t tries = 1000 + 16 * (int64_t)reference->function->statement_count;
    hr_status status;
    do {
        reference->depth = reference->scatter_depth = 0;
        bool aside = reference->pending_count > 0;
        status = aside ? meet(reference) : ask(reference, tensor, subscripts, out);
        if (status == HR_OK && aside) {
            drop_pending(reference);
            status = HR_DEFERRED;
        }
    } while (status == HR_DEFERRED && --tries);
    while (reference->pending_count)
        drop_pending(reference);
    if (status == HR_DEFERRED)
        return hr_fail(HR_OUT_OF_MEMORY, "the statements of %s depend on each other too deeply to interpret",
                       reference->function->name);
    return status;
}

hr_status hr_reference_expect(hr_reference *reference, int tensor, const int64_t *subscripts) {
    const int writer = reference->writer[tensor];
    if (writer < 0 || reference->function->statements[writer].store == HR_STORE_WHOLE) return HR_OK;
    return hr_scatter_expect(reference, &reference->rules[writer], subscripts);
}

hr_status hr_reference_value(hr_reference *reference, int tensor, const int64_t *subscripts,
                             hr_meaning *out) {
    const hr_tensor *asked = &reference->function->tensors[tensor];
    for (int k = 0; k < asked->rank; ++k)
        if (subscripts[k] < 0 || subscripts[k] >= reference->shapes[tensor][k])
            return hr_fail(HR_BAD_INPUT, "subscript %d of %s is %lld, but that axis has %lld elements", k + 1,
                           asked->name, (long long)subscripts[k], (long long)reference->shapes[tensor][k]);
    answer got;
    HR_TRY(ask_until_met(reference, tensor, subscripts, &got));
    if (got.known.fault) return hr_fault_fail(reference, &reference->faults[got.known.fault]);
    double value = got.whole ? (double)got.known.whole : got.known.value;
    double error = got.known.bound;
    if (got.whole && error > 0) error = INFINITY;
    const int writer = reference->writer[tensor];
    const bool rounded = writer >= 0 && !got.whole && !hr_dtype_is_float(asked->dtype);
    const hr_op op = writer >= 0 ? reference->function->statements[writer].value->op : HR_OP_NUMBER;
    const bool position = hr_op_finds_position(op) || op == HR_OP_TOPK;
    *out =
        (hr_meaning){.value = value, .error = error, .rounded = rounded, .rivals = position && isinf(error)};
    return HR_OK;
}

/* What a reduction finds its position among, at one. */
static hr_status candidate_at(hr_reference *reference, hr_fold *fold, int64_t position, hr_element *out) {
    const hr_expr *expr = fold->expr;
    for (int k = expr->bound_count - 1; k >= 0; position /= fold->extents[k--])
        hr_lanes_set_whole(&reference->indices[expr->bound[k]], position % fold->extents[k]);
    HR_TRY(hr_code_run(reference, &fold->body, 1, true));
    const int last = fold->body.count - 1;
    *out = hr_element_at(hr_code_result(&fold->body), fold->body.instructions[last].whole, 0);
    return HR_OK;
}

hr_status hr_reference_rivals(hr_reference *reference, int tensor, const int64_t *subscripts,
                              int64_t position, bool *out) {
    const hr_statement *statement = reference->rules[reference->writer[tensor]].statement;
    hr_meaning meaning;
    hr_element best, other;
    hr_fold *fold = NULL;
    HR_TRY(hr_reference_value(reference, tensor, subscripts, &meaning));
    for (int f = 0; f < reference->fold_count; ++f)
        if (reference->folds[f].expr == statement->value) fold = &reference->folds[f];
    *out = fold && position >= 0 && position < fold->total;
    if (!*out) return HR_OK;
    for (int k = 0; k < statement->subscript_count; ++k)
        hr_lanes_set_whole(&reference->indices[statement->subscripts[k]->index], subscripts[k]);
    reference->depth = reference->scatter_depth = 0;
    hr_status status = candidate_at(reference, fold, (int64_t)meaning.value, &best);
    if (status == HR_OK) status = candidate_at(reference, fold, position, &other);
    while (reference->pending_count)
        drop_pending(reference);
    if (status == HR_DEFERRED) return HR_OK; /* too deep to tell */
    HR_TRY(status);
    *out = !(fabs(best.value - other.value) > best.bound + other.bound);
    return HR_OK;
}
