/* Sizes as numbers and as text. In: arithmetic over extents. Out: either. */
#include "ir/size.h"
#include "base/dtype.h"
#include "base/status.h"
#include "ir/extent.h"

#include <inttypes.h>
#include <string.h>

/* ---- making them ---- */

static const hr_size *keep(hr_sizes *sizes, hr_size size) {
    if (sizes->count == HR_SIZES_MOST) {
        sizes->nodes[HR_SIZES_MOST] = (hr_size){.kind = HR_SIZE_SUM}; /* of nothing */
        return &sizes->nodes[HR_SIZES_MOST];
    }
    hr_size *kept = &sizes->nodes[sizes->count++];
    *kept = size;
    return kept;
}

const hr_size *hr_size_number(hr_sizes *sizes, int64_t number) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_NUMBER, .number = number});
}

const hr_size *hr_size_word(hr_sizes *sizes, const char *word, int64_t number) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_WORD, .word = word, .number = number});
}

const hr_size *hr_size_name(hr_sizes *sizes, const char *word, int id, const char *after, int64_t number) {
    return keep(sizes,
                (hr_size){.kind = HR_SIZE_NAME, .word = word, .id = id, .after = after, .number = number});
}

const hr_size *hr_size_extent(hr_sizes *sizes, const hr_expr *extent) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_EXTENT, .extent = extent});
}

const hr_size *hr_size_sum(hr_sizes *sizes, const hr_size *a, const hr_size *b) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_SUM, .a = a, .b = b});
}

const hr_size *hr_size_product(hr_sizes *sizes, const hr_size *a, const hr_size *b) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_PRODUCT, .a = a, .b = b});
}

const hr_size *hr_size_least(hr_sizes *sizes, const hr_size *a, const hr_size *b) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_LEAST, .a = a, .b = b});
}

const hr_size *hr_size_brackets(hr_sizes *sizes, const hr_size *a) {
    return keep(sizes, (hr_size){.kind = HR_SIZE_BRACKETS, .a = a});
}

/* (a + more) / unit */
static const hr_size *quotient(hr_sizes *sizes, const hr_size *a, int64_t more, const hr_size *unit) {
    const hr_size *sum = hr_size_sum(sizes, a, hr_size_number(sizes, more));
    return keep(sizes, (hr_size){.kind = HR_SIZE_QUOTIENT, .a = sum, .b = unit});
}

const hr_size *hr_size_rounded(hr_sizes *sizes, const hr_size *a, int64_t more, int64_t unit) {
    const hr_size *by = hr_size_number(sizes, unit);
    return hr_size_product(sizes, quotient(sizes, a, more, by), by);
}

const hr_size *hr_size_parts(hr_sizes *sizes, const hr_size *a, int64_t unit) {
    return quotient(sizes, a, unit - 1, hr_size_number(sizes, unit));
}

const hr_size *hr_size_call(hr_sizes *sizes, const hr_size_function *function, const void *context, int count,
                            const hr_size *const *args) {
    const hr_size *list = NULL;
    for (int i = count - 1; i >= 0; i--)
        list = keep(sizes, (hr_size){.kind = HR_SIZE_ARGUMENT, .a = args[i], .b = list});
    return keep(sizes, (hr_size){.kind = HR_SIZE_CALL, .function = function, .context = context, .a = list});
}

const hr_size *hr_size_points(hr_sizes *sizes, const hr_function *function, const int *indices, int count) {
    const hr_size *points = NULL;
    for (int i = 0; i < count; i++) {
        const hr_size *extent = hr_size_extent(sizes, function->indices[indices[i]].extent);
        points = points ? hr_size_product(sizes, points, extent) : extent;
    }
    return points ? points : hr_size_number(sizes, 1);
}

const hr_size *hr_size_elements(hr_sizes *sizes, const hr_tensor *tensor, int axis, int64_t each) {
    const hr_size *elements = hr_size_number(sizes, each);
    for (int a = axis; a < tensor->rank; a++)
        elements = hr_size_product(sizes, elements, hr_size_extent(sizes, tensor->shape[a]));
    return elements;
}

const hr_size *hr_size_bytes(hr_sizes *sizes, const hr_tensor *tensor, int axis) {
    return hr_size_elements(sizes, tensor, axis, (int64_t)hr_dtype_size(tensor->dtype));
}

/* ---- numbers ---- */

static hr_status too_large(const hr_function *function) {
    return hr_fail(HR_BAD_INPUT, "kernel %.60s: at these extents a size is beyond i64; make them smaller",
                   function->name);
}

static hr_status value_of(const hr_size *size, const hr_function *function, const int64_t *extents,
                          int64_t *out);

static hr_status call_value(const hr_size *call, const hr_function *function, const int64_t *extents,
                            int64_t *out) {
    int64_t args[HR_SIZE_ARGS_MOST] = {0};
    int count = 0;
    for (const hr_size *arg = call->a; arg && count < HR_SIZE_ARGS_MOST; arg = arg->b)
        HR_TRY(value_of(arg->a, function, extents, &args[count++]));
    *out = call->function->value(call->context, args);
    return HR_OK;
}

static hr_status value_of(const hr_size *size, const hr_function *function, const int64_t *extents,
                          int64_t *out) {
    int64_t a = 0, b = 0;
    bool over = false;
    if (size->kind == HR_SIZE_CALL) return call_value(size, function, extents, out);
    if (size->a) HR_TRY(value_of(size->a, function, extents, &a));
    if (size->b) HR_TRY(value_of(size->b, function, extents, &b));
    switch (size->kind) {
    case HR_SIZE_NUMBER:
    case HR_SIZE_WORD:
    case HR_SIZE_NAME:
        *out = size->number;
        break;
    case HR_SIZE_EXTENT:
        return hr_extent_value(function, size->extent, extents, out);
    case HR_SIZE_SUM:
        if (!size->a) return hr_fail(HR_INTERNAL, "kernel %.60s: a size has too many parts", function->name);
        over = __builtin_add_overflow(a, b, out);
        break;
    case HR_SIZE_PRODUCT:
        over = __builtin_mul_overflow(a, b, out);
        break;
    case HR_SIZE_QUOTIENT:
        *out = a / b;
        break;
    case HR_SIZE_LEAST:
        *out = a < b ? a : b;
        break;
    case HR_SIZE_BRACKETS:
        *out = a;
        break;
    case HR_SIZE_CALL:
    case HR_SIZE_ARGUMENT:
        break;
    }
    return over ? too_large(function) : HR_OK;
}

hr_status hr_size_value(const hr_size *size, const hr_function *function, const int64_t *extents,
                        int64_t *out) {
    return value_of(size, function, extents, out);
}

hr_status hr_size_add(const hr_size *size, const hr_function *function, const int64_t *extents,
                      int64_t *total) {
    int64_t value;
    HR_TRY(value_of(size, function, extents, &value));
    return __builtin_add_overflow(*total, value, total) ? too_large(function) : HR_OK;
}

bool hr_size_is_zero(const hr_size *size) {
    return size->kind == HR_SIZE_NUMBER && size->number == 0;
}

/* ---- text ---- */

enum { LEVEL_SUM = 1, LEVEL_PRODUCT, LEVEL_OPERAND };

static int level_of(hr_size_kind kind) {
    switch (kind) {
    case HR_SIZE_SUM:
        return LEVEL_SUM;
    case HR_SIZE_PRODUCT:
    case HR_SIZE_QUOTIENT:
        return LEVEL_PRODUCT;
    default:
        return LEVEL_OPERAND;
    }
}

static void append(const hr_size *size, const hr_size_names *names, int least, hr_text *out);

/* A quotient would take the factors before it along. */
static bool divides(const hr_size *size) {
    return size->kind == HR_SIZE_QUOTIENT ||
           (size->kind == HR_SIZE_PRODUCT && (divides(size->a) || divides(size->b)));
}

/* Sums of sums and products of products need no brackets. */
static void append_binary(const hr_size *size, const hr_size_names *names, hr_text *out) {
    const int level = level_of(size->kind);
    const bool same = size->b && size->b->kind == size->kind && !divides(size->b);
    if (!size->a) return;
    append(size->a, names, level, out);
    hr_text_format(out, " %c ", size->kind == HR_SIZE_SUM ? '+' : size->kind == HR_SIZE_PRODUCT ? '*' : '/');
    append(size->b, names, same ? level : level + 1, out);
}

static void append_call(const hr_size *call, const hr_size_names *names, hr_text *out) {
    const hr_size_function *function = call->function;
    int number = 0;
    hr_text_format(out, "%s(", function->name);
    if (function->record) hr_text_format(out, "&(struct %s){", function->record);
    for (const hr_size *arg = call->a; arg; arg = arg->b) {
        if (number) hr_text_append(out, ", ", 2);
        if (number && number == function->array) hr_text_append(out, "{", 1);
        append(arg->a, names, LEVEL_SUM, out);
        if (++number == function->fields) hr_text_format(out, "%s", function->array ? "}}" : "}");
    }
    hr_text_append(out, ")", 1);
}

static void append_least(const hr_size *size, const hr_size_names *names, hr_text *out) {
    hr_text_append(out, "(", 1);
    append(size->a, names, LEVEL_SUM, out);
    hr_text_append(out, " < ", 3);
    append(size->b, names, LEVEL_SUM, out);
    hr_text_append(out, " ? ", 3);
    append(size->a, names, LEVEL_SUM, out);
    hr_text_append(out, " : ", 3);
    append(size->b, names, LEVEL_SUM, out);
    hr_text_append(out, ")", 1);
}

static void append(const hr_size *size, const hr_size_names *names, int least, hr_text *out) {
    const bool brackets = size->kind == HR_SIZE_BRACKETS || level_of(size->kind) < least;
    if (brackets) hr_text_append(out, "(", 1);
    switch (size->kind) {
    case HR_SIZE_NUMBER:
        hr_text_format(out, "%" PRId64, size->number);
        break;
    case HR_SIZE_WORD:
        hr_text_format(out, "%s", size->word);
        break;
    case HR_SIZE_NAME:
        hr_text_format(out, "%s%d%s", size->word, size->id, size->after);
        break;
    case HR_SIZE_EXTENT:
        hr_text_format(out, "%s", names->extent(names->context, size->extent));
        break;
    case HR_SIZE_LEAST:
        append_least(size, names, out);
        break;
    case HR_SIZE_BRACKETS:
        append(size->a, names, LEVEL_SUM, out);
        break;
    case HR_SIZE_CALL:
        append_call(size, names, out);
        break;
    default:
        append_binary(size, names, out);
    }
    if (brackets) hr_text_append(out, ")", 1);
}

void hr_size_append(const hr_size *size, const hr_size_names *names, hr_text *out) {
    append(size, names, LEVEL_SUM, out);
}
