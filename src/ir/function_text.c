/* A function as text. In: what src/lang makes of a text, or a graph that holds no more than that. Out: .hr.
 *
 * A conversion is left out where reading the text puts it in again, by the same table of types: ir/types.h.
 */
#include "ir/function_text.h"
#include "base/dtype.h"
#include "ir/extent_form.h"
#include "ir/types.h"
#include "ir/visit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 16 << 20, LINE_LONG = 100 };

/* How tightly what is written holds together, loosest first. */
enum {
    LEVEL_OR = 1,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_BIT_OR,
    LEVEL_BIT_XOR,
    LEVEL_BIT_AND,
    LEVEL_SHIFT,
    LEVEL_SUM,
    LEVEL_PRODUCT,
    LEVEL_SIGN,
    LEVEL_POWER,
    LEVEL_WHOLE /* names, numbers, calls, brackets */
};

typedef struct writer {
    const hr_function *function;
    hr_text *out;
    size_t most;
    const hr_statement *statement; /* at hand */
} writer;

/* An argument as it is written: without its conversion, or a float as a whole number, where that says the
 * same. */
typedef struct written {
    const hr_expr *expr;
    bool whole;
} written;

static void write_expr(writer *w, written what, int least);

static bool is_full(const writer *w) {
    return w->out->length > w->most;
}

/* ---- numbers ---- */

static bool is_whole_number(double number) {
    return number == floor(number) && fabs(number) < 0x1p63 && !(number == 0 && signbit(number));
}

static void write_float(writer *w, double number) {
    char digits[40];
    if (!isfinite(number)) {
        hr_text_format(w->out, "%s%s", signbit(number) ? "-" : "", isnan(number) ? "nan" : "inf");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number) break;
    }
    const bool plain = !strpbrk(digits, ".,e");
    for (char *c = strchr(digits, ','); c; c = NULL) /* the host program's locale is its own affair */
        *c = '.';
    hr_text_format(w->out, "%s%s", digits, plain ? ".0" : "");
}

static void write_number(writer *w, const hr_expr *number, bool whole) {
    if (number->type == HR_BOOL)
        hr_text_format(w->out, "%s", number->whole ? "true" : "false");
    else if (!hr_type_is_float(number->type) && number->whole == INT64_MIN) /* its digits are beyond i64 */
        hr_text_format(w->out, "(-%" PRId64 " - 1)", INT64_MAX);
    else if (!hr_type_is_float(number->type))
        hr_text_format(w->out, "%" PRId64, number->whole);
    else if (whole)
        hr_text_format(w->out, "%.0f", number->number);
    else
        write_float(w, number->number);
}

static bool is_negative(const hr_expr *number) {
    if (number->type == HR_BOOL) return false;
    return hr_type_is_float(number->type) ? signbit(number->number) : number->whole < 0;
}

/* ---- operations ---- */

/* 0: the operation is written as a whole. */
static const unsigned char levels[HR_OP_COUNT] = {
    [HR_OP_OR] = LEVEL_OR,
    [HR_OP_AND] = LEVEL_AND,
    [HR_OP_NOT] = LEVEL_NOT,
    [HR_OP_LT] = LEVEL_COMPARE,
    [HR_OP_LE] = LEVEL_COMPARE,
    [HR_OP_GT] = LEVEL_COMPARE,
    [HR_OP_GE] = LEVEL_COMPARE,
    [HR_OP_EQ] = LEVEL_COMPARE,
    [HR_OP_NE] = LEVEL_COMPARE,
    [HR_OP_BIT_OR] = LEVEL_BIT_OR,
    [HR_OP_BIT_XOR] = LEVEL_BIT_XOR,
    [HR_OP_BIT_AND] = LEVEL_BIT_AND,
    [HR_OP_SHIFT_LEFT] = LEVEL_SHIFT,
    [HR_OP_SHIFT_RIGHT] = LEVEL_SHIFT,
    [HR_OP_ADD] = LEVEL_SUM,
    [HR_OP_SUB] = LEVEL_SUM,
    [HR_OP_MUL] = LEVEL_PRODUCT,
    [HR_OP_DIV] = LEVEL_PRODUCT,
    [HR_OP_FLOORDIV] = LEVEL_PRODUCT,
    [HR_OP_MOD] = LEVEL_PRODUCT,
    [HR_OP_NEG] = LEVEL_SIGN,
    [HR_OP_POW] = LEVEL_POWER,
};

static int level_of(const hr_expr *expr) {
    if (expr->op == HR_OP_NUMBER) return is_negative(expr) ? LEVEL_SIGN : LEVEL_WHOLE;
    return levels[expr->op] ? levels[expr->op] : LEVEL_WHOLE;
}

/* A conversion that reading puts in where a type changes; a number of the text takes its type without. */
static bool may_be_left_out(const hr_expr *arg) {
    return arg->op == HR_OP_CONVERT && !arg->variable && arg->dtype == arg->type && arg->type != HR_BOOL &&
           arg->args[0]->type != arg->type && arg->args[0]->op != HR_OP_NUMBER;
}

static bool may_be_whole(const hr_expr *arg) {
    return arg->op == HR_OP_NUMBER && hr_type_is_float(arg->type) && is_whole_number(arg->number);
}

/* What reading makes of the argument before it knows what it meets. */
static hr_argument_type type_written(written what) {
    hr_argument_type type = hr_argument_type_of(what.expr);
    if (!type.weak) return type;
    if (what.whole) type.whole = (int64_t)what.expr->number;
    type.type = what.whole || !hr_type_is_float(type.type) ? HR_I64 : HR_F32;
    return type;
}

static bool reads_back(const hr_expr *node, const written *args) {
    hr_argument_type types[HR_ARGS_MOST];
    for (int i = 0; i < node->arg_count; i++)
        types[i] = type_written(args[i]);
    const hr_op_types made = hr_op_types_of(node->op, node->arg_count, types);
    for (int i = 0; i < node->arg_count; i++)
        if (made.args[i] != node->args[i]->type) return false;
    return made.result == node->type;
}

/* The shortest way to write the arguments that reads back as they are: as few conversions as can be, then as
 * few points. A bit an argument: whole numbers in the lower ones, conversions left out above them. */
static void choose_args(const hr_expr *node, written args[HR_ARGS_MOST]) {
    unsigned candidates = 0;
    for (int i = 0; i < node->arg_count; i++)
        candidates |= (unsigned)may_be_whole(node->args[i]) << i | (unsigned)may_be_left_out(node->args[i])
                                                                       << (HR_ARGS_MOST + i);
    for (unsigned shorter = candidates;; shorter = (shorter - 1) & candidates) {
        for (int i = 0; i < node->arg_count; i++) {
            const hr_expr *arg = node->args[i];
            const bool left_out = shorter >> (HR_ARGS_MOST + i) & 1;
            args[i] = (written){left_out ? arg->args[0] : arg, shorter >> i & 1};
        }
        if (!shorter || reads_back(node, args)) return;
    }
}

static void write_list(writer *w, const written *args, int count) {
    for (int i = 0; i < count; i++) {
        if (i) hr_text_append(w->out, ", ", 2);
        write_expr(w, args[i], LEVEL_OR);
    }
}

static void write_binary(writer *w, const hr_expr *node, const written *args, int level) {
    const bool sum = level == LEVEL_SUM, compare = level == LEVEL_COMPARE;
    const bool signed_part = sum && level_of(args[1].expr) == LEVEL_SIGN; /* a - (-b) */
    write_expr(w, args[0], compare ? level + 1 : level);
    hr_text_format(w->out, " %s ", hr_op_info_of(node->op)->name);
    write_expr(w, args[1], signed_part ? LEVEL_POWER : level + 1);
}

static void write_operation(writer *w, const hr_expr *node, int level) {
    written args[HR_ARGS_MOST];
    choose_args(node, args);
    switch (node->op) {
    case HR_OP_NEG:
        hr_text_append(w->out, "-", 1);
        write_expr(w, args[0], LEVEL_POWER);
        break;
    case HR_OP_NOT:
        hr_text_append(w->out, "not ", 4);
        write_expr(w, args[0], LEVEL_NOT);
        break;
    case HR_OP_POW:
        write_expr(w, args[0], LEVEL_WHOLE);
        hr_text_append(w->out, "^", 1);
        write_expr(w, args[1], LEVEL_SIGN);
        break;
    default:
        if (level < LEVEL_WHOLE) {
            write_binary(w, node, args, level);
            break;
        }
        hr_text_format(w->out, "%s(", hr_op_info_of(node->op)->name);
        write_list(w, args, node->arg_count);
        hr_text_append(w->out, ")", 1);
    }
}

/* ---- extents of indices ---- */

typedef struct plain_use {
    const hr_function *function;
    int index;
    const hr_expr *extent; /* of the first axis that the index subscripts on its own; NULL = none yet */
} plain_use;

static void note_axes(void *context, const hr_expr *node) {
    plain_use *use = context;
    const int rank = node->op == HR_OP_ELEMENT ? use->function->tensors[node->tensor].rank : 0;
    for (int a = 0; a < rank && !use->extent; a++)
        if (node->args[a]->op == HR_OP_INDEX && node->args[a]->index == use->index)
            use->extent = use->function->tensors[node->tensor].shape[a];
}

/* The extent that reading gives the index where no range stands; NULL = none. */
static const hr_expr *extent_without_range(const hr_function *function, const hr_statement *statement,
                                           int index) {
    plain_use use = {.function = function, .index = index};
    hr_walk walk = {.leave = note_axes, .context = &use};
    const hr_tensor *tensor = &function->tensors[statement->tensor];
    for (int a = 0; a < statement->subscript_count; a++) {
        const hr_expr *subscript = statement->subscripts[a];
        hr_walk_through(&walk, subscript);
        if (!use.extent && tensor->role != HR_ROLE_LOCAL && subscript->op == HR_OP_INDEX &&
            subscript->index == index)
            use.extent = tensor->shape[a];
    }
    hr_walk_through(&walk, statement->value);
    hr_walk_end(&walk);
    return use.extent;
}

/* The index where it is bound, with a range where it needs one. */
static void write_binding(writer *w, int index) {
    const hr_index *bound = &w->function->indices[index];
    const hr_expr *found = extent_without_range(w->function, w->statement, index);
    hr_text_format(w->out, "%s", bound->name);
    if (found && hr_extent_identical(found, bound->extent)) return;
    hr_text_append(w->out, " < ", 3);
    hr_extent_append(w->function, bound->extent, w->most, w->out);
}

static void write_reduction(writer *w, const hr_expr *node) {
    written arg[HR_ARGS_MOST];
    choose_args(node, arg);
    hr_text_format(w->out, "%s[", hr_op_info_of(node->op)->name);
    for (int i = 0; i < node->bound_count; i++) {
        if (i) hr_text_append(w->out, ", ", 2);
        if (hr_op_leaves_free(node->op))
            hr_text_format(w->out, "%s", w->function->indices[node->bound[i]].name);
        else
            write_binding(w, node->bound[i]);
    }
    if (node->op == HR_OP_TOPK)
        hr_text_format(w->out, ", %s", w->function->indices[node->args[1]->index].name);
    hr_text_append(w->out, "](", 2);
    if (hr_op_is_scan(node->op)) arg[0] = (written){.expr = node->args[1]};
    write_list(w, arg, 1);
    hr_text_append(w->out, ")", 1);
}

/* ---- expressions ---- */

static void write_element(writer *w, const hr_expr *node) {
    const hr_tensor *tensor = &w->function->tensors[node->tensor];
    hr_text_format(w->out, "%s", tensor->name);
    for (int a = 0; a < tensor->rank; a++) {
        hr_text_append(w->out, a ? ", " : "[", a ? 2 : 1);
        write_expr(w, (written){.expr = node->args[a]}, LEVEL_OR);
    }
    if (tensor->rank) hr_text_append(w->out, "]", 1);
}

static void write_bare(writer *w, written what, int level) {
    const hr_expr *node = what.expr;
    switch (node->op) {
    case HR_OP_NUMBER:
        write_number(w, node, what.whole);
        break;
    case HR_OP_EXTENT:
        hr_text_format(w->out, "%s", w->function->extents[node->extent]);
        break;
    case HR_OP_INDEX:
        hr_text_format(w->out, "%s", w->function->indices[node->index].name);
        break;
    case HR_OP_ELEMENT:
        write_element(w, node);
        break;
    case HR_OP_CONVERT:
        hr_text_format(w->out, "%s(", node->variable ? node->variable->name : hr_dtype_name(node->dtype));
        write_expr(w, (written){.expr = node->args[0]}, LEVEL_OR);
        hr_text_append(w->out, ")", 1);
        break;
    default:
        if (hr_op_is_reduction(node->op) || hr_op_leaves_free(node->op))
            write_reduction(w, node);
        else
            write_operation(w, node, level);
    }
}

static void write_expr(writer *w, written what, int least) {
    if (is_full(w)) return;
    const int level = level_of(what.expr);
    if (level < least) hr_text_append(w->out, "(", 1);
    write_bare(w, what, level);
    if (level < least) hr_text_append(w->out, ")", 1);
}

/* ---- declarations ---- */

/* Operations of extents are not done at once, so every bracket that changes the tree is kept. */
static void write_extent(writer *w, const hr_expr *extent, int least) {
    if (is_full(w)) return;
    if (!extent->arg_count) {
        write_bare(w, (written){.expr = extent}, LEVEL_WHOLE);
        return;
    }
    const int level = level_of(extent);
    if (level < least) hr_text_append(w->out, "(", 1);
    write_extent(w, extent->args[0], level);
    hr_text_format(w->out, " %s ", hr_op_info_of(extent->op)->name);
    write_extent(w, extent->args[1], level + 1);
    if (level < least) hr_text_append(w->out, ")", 1);
}

void hr_extent_append(const hr_function *function, const hr_expr *extent, size_t most, hr_text *out) {
    writer w = {.function = function, .out = out, .most = out->length + most};
    write_extent(&w, extent, LEVEL_OR);
}

void hr_expr_append(const hr_function *function, const hr_expr *expr, size_t most, hr_text *out) {
    writer w = {.function = function, .out = out, .most = out->length + most};
    write_expr(&w, (written){.expr = expr}, LEVEL_OR);
}

void hr_tensor_append_type(const hr_function *function, const hr_tensor *tensor, hr_text *out) {
    hr_text_format(out, "%s", tensor->variable ? tensor->variable->name : hr_dtype_name(tensor->dtype));
    for (int axis = 0; axis < tensor->rank; axis++) {
        hr_text_append(out, axis ? ", " : "[", axis ? 2 : 1);
        hr_extent_append(function, tensor->shape[axis], TEXT_MOST, out);
    }
    if (tensor->rank) hr_text_append(out, "]", 1);
}

static void write_default(writer *w, const hr_tensor *scalar) {
    const bool whole = !hr_type_is_float(hr_compute_type(scalar->dtype));
    hr_text_append(w->out, " = ", 3);
    if (whole || is_whole_number(scalar->default_value))
        hr_text_format(w->out, "%.0f", scalar->default_value);
    else
        write_float(w, scalar->default_value);
}

/* Takes `piece` over to a new line where the one that begins at `*line` becomes too long with it. */
static void append_piece(writer *w, hr_text *piece, size_t *line, const char *indent) {
    if (w->out->length + piece->length - *line > LINE_LONG) {
        while (w->out->length > *line && w->out->data[w->out->length - 1] == ' ')
            w->out->length--;
        *line = w->out->length + 1;
        hr_text_format(w->out, "\n%s", indent);
    }
    hr_text_append(w->out, hr_text_data(piece), piece->length);
    w->out->failed = w->out->failed || piece->failed;
    hr_text_clear(piece);
}

/* "x: f32[N], y: f32[N])" after what opens the bracket at the beginning of `line`. A result that was made a
 * local is not declared. */
static void write_tensors(writer *w, int from, int to, size_t line, const char *indent) {
    while (to > from && w->function->tensors[to - 1].role == HR_ROLE_LOCAL)
        to--;
    for (int t = from; t < to; t++) {
        const hr_tensor *tensor = &w->function->tensors[t];
        if (tensor->role == HR_ROLE_LOCAL) continue;
        hr_text piece = {0};
        writer of = {.function = w->function, .out = &piece, .most = w->most};
        hr_text_format(&piece, "%s: %s", tensor->name,
                       tensor->role == HR_ROLE_INOUT ? "inout "
                       : tensor->constant            ? "const "
                                                     : "");
        hr_tensor_append_type(w->function, tensor, &piece);
        if (tensor->has_default) write_default(&of, tensor);
        hr_text_append(&piece, t + 1 < to ? "," : ")", 1);
        append_piece(w, &piece, &line, indent);
        if (t + 1 < to) hr_text_append(w->out, " ", 1);
    }
    if (from == to) hr_text_append(w->out, ")", 1);
}

/* What it stands for here first: without other orders it stands for that. */
static void write_constraint(writer *w, const hr_dtype_variable *variable, bool first) {
    hr_text_format(w->out, "%s%s: %s", first ? "\n    where " : ", ", variable->name,
                   hr_dtype_name(variable->dtype));
    for (int d = 0; d < HR_DTYPE_COUNT; d++)
        if (variable->allowed >> d & 1 && (hr_dtype)d != variable->dtype)
            hr_text_format(w->out, " | %s", hr_dtype_name((hr_dtype)d));
}

static bool has_results(const hr_function *function) {
    for (int t = function->parameter_count; t < hr_function_arguments(function); t++)
        if (function->tensors[t].role != HR_ROLE_LOCAL) return true;
    return false;
}

static void write_head(writer *w) {
    const hr_function *function = w->function;
    hr_text results = {0};
    writer of = {.function = function, .out = &results, .most = w->most};
    size_t line = w->out->length;
    hr_text_format(w->out, "kernel %s(", function->name);
    write_tensors(w, 0, function->parameter_count, line, "              ");
    if (has_results(function)) {
        hr_text_append(&results, "-> (", 4);
        write_tensors(&of, function->parameter_count, hr_function_arguments(function), 0, "        ");
        hr_text_append(w->out, " ", 1);
        for (size_t i = line; i < w->out->length; i++) /* the last line of the parameters */
            if (w->out->data[i] == '\n') line = i + 1;
        append_piece(w, &results, &line, "    ");
    }
    bool first = true;
    for (int i = 0; i < function->variable_count; i++) {
        const hr_dtype_variable *variable = &function->variables[i];
        if (variable->allowed == (UINT32_C(1) << HR_DTYPE_COUNT) - 1) continue;
        write_constraint(w, variable, first);
        first = false;
    }
}

/* ---- statements ---- */

/* A subscript of i32 is widened where a condition leaves it out. */
static const hr_expr *without_widening(const hr_expr *subscript) {
    const bool widened = subscript->op == HR_OP_CONVERT && subscript->dtype == HR_I64 &&
                         !subscript->variable && subscript->args[0]->type == HR_I32;
    return widened ? subscript->args[0] : subscript;
}

static bool is_number(const hr_expr *expr, int value) {
    return expr->op == HR_OP_NUMBER &&
           (hr_type_is_float(expr->type) ? expr->number == value : expr->whole == value);
}

/* A sum so far from nothing is a cumsum. */
static bool is_recurrence(const hr_expr *value) {
    return hr_op_is_scan(value->op) &&
           (value->op == HR_OP_SCAN_BACK || !is_number(value->args[0], 1) || !is_number(value->args[2], 0));
}

/* The element before: `away` stands in the place of the index that the scan goes along. */
static void write_before(writer *w, const hr_statement *statement, const char *away) {
    hr_text_format(w->out, "%s", w->function->tensors[statement->tensor].name);
    for (int a = 0; a < statement->subscript_count; a++) {
        const int index = statement->subscripts[a]->index;
        const bool along = index == statement->value->bound[0];
        hr_text_format(w->out, "%s%s%s", a ? ", " : "[", w->function->indices[index].name, along ? away : "");
    }
    hr_text_append(w->out, "]", 1);
}

/* h[-1, c] = start, where that is not 0. */
static void write_start(writer *w, const hr_statement *statement, const written *start) {
    if (is_number(start->expr, 0)) return;
    hr_text_format(w->out, "    %s", w->function->tensors[statement->tensor].name);
    for (int a = 0; a < statement->subscript_count; a++) {
        const int index = statement->subscripts[a]->index;
        hr_text_append(w->out, a ? ", " : "[", a ? 2 : 1);
        if (index != statement->value->bound[0])
            hr_text_format(w->out, "%s", w->function->indices[index].name);
        else if (statement->value->op == HR_OP_SCAN)
            hr_text_append(w->out, "-1", 2);
        else
            hr_extent_append(w->function, w->function->indices[index].extent, w->most, w->out);
    }
    hr_text_append(w->out, "] = ", 4);
    write_expr(w, *start, LEVEL_OR);
    hr_text_append(w->out, "\n", 1);
}

/* a * h[t - 1] + b */
static void write_recurrence(writer *w, const hr_statement *statement, const written *args) {
    if (!is_number(args[0].expr, 1)) {
        write_expr(w, args[0], LEVEL_PRODUCT);
        hr_text_append(w->out, " * ", 3);
    }
    write_before(w, statement, statement->value->op == HR_OP_SCAN ? " - 1" : " + 1");
    if (is_number(args[1].expr, 0)) return;
    hr_text_append(w->out, " + ", 3);
    write_expr(w, args[1], LEVEL_PRODUCT);
}

static void write_statement(writer *w, const hr_statement *statement) {
    const bool recurs = is_recurrence(statement->value);
    written args[HR_ARGS_MOST];
    w->statement = statement;
    for (int i = 0; i < 3 && recurs;
         i++) /* with their conversions: the element before has no type of its own */
        args[i] = (written){.expr = statement->value->args[i]};
    if (recurs) write_start(w, statement, &args[2]);
    hr_text_format(w->out, "    %s%s", statement->value->op == HR_OP_TOPK ? "_, " : "",
                   w->function->tensors[statement->tensor].name);
    const hr_expr *condition = hr_statement_condition(statement), *value = statement->value;
    for (int a = 0; a < statement->subscript_count; a++) {
        const hr_expr *subscript = statement->subscripts[a];
        if (subscript->op == HR_OP_WHERE && hr_subscript_leaves_out(subscript))
            subscript = without_widening(subscript->args[1]);
        hr_text_append(w->out, a ? ", " : "[", a ? 2 : 1);
        if (subscript->op == HR_OP_INDEX)
            write_binding(w, subscript->index);
        else
            write_expr(w, (written){.expr = subscript}, LEVEL_OR);
    }
    hr_text_format(w->out, "%s %s ", statement->subscript_count ? "]" : "",
                   statement->store == HR_STORE_ADD ? "+=" : "=");
    if (condition && value->op == HR_OP_WHERE) value = value->args[1];
    if (recurs)
        write_recurrence(w, statement, args);
    else
        write_expr(w, (written){.expr = value}, LEVEL_OR);
    if (condition) {
        hr_text_append(w->out, " if ", 4);
        write_expr(w, (written){.expr = condition}, LEVEL_OR);
    }
    hr_text_append(w->out, "\n", 1);
}

hr_status hr_function_text(const hr_function *function, hr_text *out) {
    writer w = {.function = function, .out = out, .most = out->length + TEXT_MOST};
    write_head(&w);
    hr_text_append(out, "\n{\n", 3);
    for (int i = 0; i < function->statement_count && !is_full(&w); i++)
        write_statement(&w, &function->statements[i]);
    hr_text_append(out, "}\n", 2);
    HR_TRY(hr_text_status(out));
    if (is_full(&w))
        return hr_fail(HR_BAD_INPUT, "kernel %.60s with its defs written out has more than %d MB of text",
                       function->name, TEXT_MOST >> 20);
    return HR_OK;
}
