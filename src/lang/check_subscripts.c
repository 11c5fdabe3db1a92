/* Subscripts that are affine in the indices, held against the axes. In: a function, numbers for its extents.
 * Out: HR_OK, or all that leave their axes, each with its place. */
#include "base/memory.h"
#include "base/status.h"
#include "ir/extent.h"
#include "lang/messages.h"
#include "lang/program.h"

#include <stdlib.h>
#include <string.h>

#define TERMS_MAX 16

typedef enum form_state { FORM_UNKNOWN, FORM_AFFINE, FORM_OTHER } form_state;

/* constant + sum of factors * indices, with the extents' numbers in it */
typedef struct affine {
    form_state state;
    int count;
    int64_t constant;
    struct {
        int index;
        int64_t factor;
    } terms[TERMS_MAX];
} affine;

typedef struct subscript_check {
    const hr_function *function;
    const int64_t *extents;
    affine **forms;      /* by expr id; made as they are asked for */
    unsigned char *seen; /* by expr id: 1 unguarded */
    bool *empty;         /* by index: it runs over nothing */
    int64_t *sizes;      /* by index */
    hr_messages messages;
} subscript_check;

static const affine other = {.state = FORM_OTHER};

static void add_terms(affine *out, const affine *more, int64_t factor) {
    int64_t product;
    bool over = __builtin_mul_overflow(more->constant, factor, &product) ||
                __builtin_add_overflow(out->constant, product, &out->constant);
    for (int i = 0; i < more->count && !over; i++) {
        over = __builtin_mul_overflow(more->terms[i].factor, factor, &product);
        int at = 0;
        while (at < out->count && out->terms[at].index != more->terms[i].index)
            at++;
        if (at == TERMS_MAX) {
            over = true;
        } else if (at == out->count) {
            out->terms[out->count].index = more->terms[i].index;
            out->terms[out->count++].factor = product;
        } else {
            over |= __builtin_add_overflow(out->terms[at].factor, product, &out->terms[at].factor);
        }
    }
    if (over) *out = other;
}

static const affine *affine_of(subscript_check *check, const hr_expr *expr);

static affine combined(subscript_check *check, const hr_expr *expr) {
    affine out = {.state = FORM_AFFINE};
    const affine *a, *b;
    switch (expr->op) {
    case HR_OP_NUMBER:
        out.constant = expr->whole;
        return out;
    case HR_OP_EXTENT:
        out.constant = check->extents[expr->extent];
        return out;
    case HR_OP_INDEX:
        out.count = 1;
        out.terms[0].index = expr->index;
        out.terms[0].factor = 1;
        return out;
    case HR_OP_NEG:
        a = affine_of(check, expr->args[0]);
        if (a->state != FORM_AFFINE) return other;
        add_terms(&out, a, -1);
        return out;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        a = affine_of(check, expr->args[0]);
        b = affine_of(check, expr->args[1]);
        if (a->state != FORM_AFFINE || b->state != FORM_AFFINE) return other;
        if (expr->op == HR_OP_MUL) {
            if (a->count && b->count) return other;
            add_terms(&out, a->count ? a : b, a->count ? b->constant : a->constant);
            return out;
        }
        out = *a;
        add_terms(&out, b, expr->op == HR_OP_SUB ? -1 : 1);
        return out;
    default:
        return other;
    }
}

static const affine *affine_of(subscript_check *check, const hr_expr *expr) {
    if (expr->type != HR_I64 && expr->type != HR_I32) return &other;
    affine *form = check->forms[expr->id];
    if (form) return form;
    form = hr_memory_take(sizeof *form);
    if (!form) return &other;
    *form = combined(check, expr);
    return check->forms[expr->id] = form;
}

static void check_range(subscript_check *check, const hr_expr *subscript, const hr_tensor *tensor, int axis,
                        int64_t size) {
    const affine *form = affine_of(check, subscript);
    if (form->state != FORM_AFFINE) return;
    int64_t low = form->constant, high = form->constant, step;
    bool over = false;
    for (int i = 0; i < form->count; i++) {
        int64_t last = check->sizes[form->terms[i].index] - 1, factor = form->terms[i].factor;
        if (last < 0) return;
        over |= __builtin_mul_overflow(last, factor, &step);
        over |= __builtin_add_overflow(factor < 0 ? low : high, step, factor < 0 ? &low : &high);
    }
    hr_shown name = hr_text_shown(tensor->name, strlen(tensor->name));
    if (over || low < 0 || high >= size) {
        hr_messages_add(
            &check->messages, subscript->place,
            "a subscript of %s leaves axis %d: it runs from %lld to %lld, and the axis has %lld element%s; "
            "%s",
            name.text, axis, (long long)low, (long long)high, (long long)size, size == 1 ? "" : "s",
            form->count == 0 && low < 0 ? "places are counted from the first, and the last of N is N - 1"
                                        : "put it under where(...) or change the extents");
    } else if (subscript->op == HR_OP_INDEX && high + 1 != size) {
        const char *index = check->function->indices[subscript->index].name;
        hr_messages_add(&check->messages, subscript->place,
                        "index %s ranges over %lld here, and axis %d of %s has %lld elements",
                        hr_text_shown(index, strlen(index)).text, (long long)high + 1, axis, name.text,
                        (long long)size);
    }
}

static hr_status check_element(subscript_check *check, int tensor, int count, hr_expr **subscripts) {
    const hr_tensor *entry = &check->function->tensors[tensor];
    for (int i = 0; i < count; i++) {
        int64_t size;
        HR_TRY(hr_extent_value(check->function, entry->shape[i], check->extents, &size));
        check_range(check, subscripts[i], entry, i, size);
    }
    return HR_OK;
}

/* There are as many elements as are asked for. */
static void check_rank(subscript_check *check, const hr_expr *topk) {
    const int64_t all = check->sizes[topk->bound[0]], most = check->sizes[topk->args[1]->index];
    if (most > all)
        hr_messages_add(&check->messages, topk->place, "topk of %lld element%s cannot give the first %lld",
                        (long long)all, all == 1 ? "" : "s", (long long)most);
}

/* Visits what is evaluated outside every `where`, and not for empty reductions. */
static hr_status check_expr(subscript_check *check, const hr_expr *expr) {
    if (check->seen[expr->id]) return HR_OK;
    check->seen[expr->id] = 1;
    if (expr->op == HR_OP_WHERE) return check_expr(check, expr->args[0]);
    if (expr->op == HR_OP_TOPK) check_rank(check, expr);
    if (hr_op_is_reduction(expr->op) || hr_op_leaves_free(expr->op))
        for (int i = 0; i < expr->bound_count; i++)
            if (check->empty[expr->bound[i]]) return HR_OK;
    if (expr->op == HR_OP_ELEMENT) HR_TRY(check_element(check, expr->tensor, expr->arg_count, expr->args));
    for (int i = 0; i < expr->arg_count; i++)
        HR_TRY(check_expr(check, expr->args[i]));
    return HR_OK;
}

static hr_status check_statements(subscript_check *check) {
    const hr_function *function = check->function;
    for (int i = 0; i < function->index_count; i++) {
        HR_TRY(hr_extent_value(function, function->indices[i].extent, check->extents, &check->sizes[i]));
        check->empty[i] = check->sizes[i] == 0;
    }
    for (int i = 0; i < function->statement_count; i++) {
        const hr_statement *statement = &function->statements[i];
        bool empty = false;
        for (int j = 0; j < statement->domain_count; j++)
            empty |= check->empty[statement->domain[j]];
        if (empty) continue;
        HR_TRY(check_element(check, statement->tensor, statement->subscript_count, statement->subscripts));
        for (int j = 0; j < statement->subscript_count; j++)
            HR_TRY(check_expr(check, statement->subscripts[j]));
        HR_TRY(check_expr(check, statement->value));
    }
    return hr_messages_status(&check->messages);
}

/* Every tensor can be addressed: its elements and bytes are countable. */
static hr_status check_sizes(const hr_function *function, const int64_t *extents) {
    for (int i = 0; i < function->tensor_count; i++) {
        const hr_tensor *tensor = &function->tensors[i];
        int64_t product = 8; /* bytes of the largest element */
        for (int j = 0; j < tensor->rank; j++) {
            int64_t size;
            HR_TRY(hr_extent_value(function, tensor->shape[j], extents, &size));
            if (__builtin_mul_overflow(product, size ? size : 1, &product))
                return hr_fail(HR_BAD_INPUT, "%s: tensor %s has more elements than memory has addresses",
                               function->name, tensor->name);
        }
    }
    return HR_OK;
}

hr_status hr_extent_check(const hr_function *function, const int64_t *extents) {
    HR_TRY(check_sizes(function, extents));
    size_t exprs = (size_t)function->expr_count + 1, indices = (size_t)function->index_count + 1;
    subscript_check check = {.function = function,
                             .extents = extents,
                             .forms = hr_memory_zeros(exprs, sizeof(affine *)),
                             .seen = hr_memory_zeros(exprs, 1),
                             .empty = hr_memory_zeros(indices, sizeof(bool)),
                             .sizes = hr_memory_zeros(indices, sizeof(int64_t)),
                             .messages = {.origin = *function->origin}};
    hr_status status =
        check.forms && check.seen && check.empty && check.sizes
            ? check_statements(&check)
            : hr_fail(HR_OUT_OF_MEMORY, "out of memory while checking the extents of %s", function->name);
    for (size_t i = 0; check.forms && i < exprs; i++)
        free(check.forms[i]);
    free(check.forms);
    free(check.seen);
    free(check.empty);
    free(check.sizes);
    return status;
}
