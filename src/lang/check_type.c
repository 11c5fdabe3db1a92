/* Types of operations. In: an operator or function and its typed arguments. Out: one node whose arguments
 * have the compute types that docs/language.md says, with conversions where a type changes.
 *
 * A number of the text is weak: it takes the type of what it meets. Operations on numbers alone are done
 * here, in f64 or i64.
 */
#include "ir/types.h"
#include "lang/checker.h"

#include <math.h>
#include <string.h>

/* ---- nodes ---- */

hr_expr *hr_check_node(hr_checker *checker, hr_op op, hr_dtype type, hr_place place, int arg_count) {
    size_t size = sizeof(hr_checked_expr) + (size_t)arg_count * sizeof(hr_expr *);
    if (checker->expr_total >= HR_EXPR_MAX || hr_arena_room(checker->arena) < size + 4096) {
        if (!checker->full)
            hr_messages_add(
                checker->messages, place,
                "with every def written out the file has more than %d operations; it is too large",
                HR_EXPR_MAX);
        checker->full = true;
        return NULL;
    }
    checker->expr_total++;
    hr_checked_expr *new = hr_arena_alloc(checker->arena, size);
    new->depth = 1;
    new->expr = (hr_expr){.op = op,
                          .type = type,
                          .dtype = type,
                          .id = checker->function->expr_count++,
                          .place = place,
                          .arg_count = arg_count,
                          .args = arg_count ? (hr_expr **)(new + 1) : NULL,
                          .extent = -1,
                          .index = -1,
                          .tensor = -1};
    return &new->expr;
}

hr_expr *hr_check_node_of(hr_checker *checker, hr_op op, hr_dtype type, hr_place place, int count,
                          hr_expr **args) {
    hr_expr *new = hr_check_node(checker, op, type, place, count);
    if (!new) return NULL;
    hr_checked_expr *checked = (hr_checked_expr *)new;
    for (int i = 0; i < count; i++) {
        if (!args[i]) return NULL;
        int depth = ((hr_checked_expr *)args[i])->depth;
        if (depth >= checked->depth) checked->depth = depth + 1;
        new->args[i] = args[i];
    }
    if (checked->depth <= HR_EXPR_DEPTH_MAX) return new;
    hr_messages_add(checker->messages, place,
                    "with its defs written out this expression is more than %d levels deep; "
                    "give a part of it a name of its own",
                    HR_EXPR_DEPTH_MAX);
    return NULL;
}

hr_expr *hr_check_number(hr_checker *checker, hr_place place, hr_dtype type, double number, int64_t whole) {
    hr_expr *new = hr_check_node(checker, HR_OP_NUMBER, type, place, 0);
    if (!new) return NULL;
    new->number = number;
    new->whole = whole;
    return new;
}

static hr_expr *whole_number(hr_checker *checker, hr_place place, int64_t whole) {
    return hr_check_number(checker, place, HR_I64, (double)whole, whole);
}

static hr_expr *converted(hr_checker *checker, hr_expr *expr, hr_dtype type) {
    if (!expr || expr->type == type) return expr;
    if (hr_argument_type_of(expr).weak)
        return hr_check_number(checker, expr->place, type, expr->number, expr->whole);
    return hr_check_node_of(checker, HR_OP_CONVERT, type, expr->place, 1, &expr);
}

/* The node, its arguments brought to the types that the operation asks for. */
static hr_expr *typed(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args) {
    hr_argument_type types[HR_ARGS_MOST] = {0};
    hr_expr *inner[HR_ARGS_MOST] = {0};
    for (int i = 0; i < count; i++)
        types[i] = hr_argument_type_of(args[i]);
    const hr_op_types made = hr_op_types_of(op, count, types);
    for (int i = 0; i < count; i++)
        inner[i] = converted(checker, args[i], made.args[i]);
    return hr_check_node_of(checker, op, made.result, place, count, inner);
}

/* ---- numbers of the text among themselves ---- */

static int64_t floor_division(int64_t a, int64_t b) {
    return b == -1 ? -a : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

/* What a whole number to a whole power is: 1, or -1 beyond i64. */
static int fold_power(int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    for (int64_t i = 0; i < exponent && !(*out == 1 && base == 1) && *out != 0; i++) {
        if (base == -1) return *out = exponent % 2 ? -1 : 1, 1;
        if (__builtin_mul_overflow(*out, base, out)) return -1;
    }
    return 1;
}

/* 1 done, 0 not a case for whole numbers, -1 beyond i64 */
static int fold_whole(hr_op op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case HR_OP_ADD:
        return __builtin_add_overflow(a, b, out) ? -1 : 1;
    case HR_OP_SUB:
        return __builtin_sub_overflow(a, b, out) ? -1 : 1;
    case HR_OP_MUL:
        return __builtin_mul_overflow(a, b, out) ? -1 : 1;
    case HR_OP_NEG:
        return __builtin_sub_overflow((int64_t)0, a, out) ? -1 : 1;
    case HR_OP_FLOORDIV:
        *out = floor_division(a, b);
        return 1;
    case HR_OP_MOD:
        *out = b == -1 ? 0 : a - floor_division(a, b) * b;
        return 1;
    case HR_OP_POW:
        return b < 0 ? 0 : fold_power(a, b, out);
    default:
        return 0;
    }
}

static double fold_float(hr_op op, double a, double b) {
    switch (op) {
    case HR_OP_ADD:
        return a + b;
    case HR_OP_SUB:
        return a - b;
    case HR_OP_MUL:
        return a * b;
    case HR_OP_DIV:
        return a / b;
    case HR_OP_FLOORDIV:
        return floor(a / b);
    case HR_OP_MOD:
        return a - floor(a / b) * b;
    case HR_OP_POW:
        return pow(a, b);
    default:
        return -a;
    }
}

static hr_expr *folded(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args) {
    hr_expr *a = args[0], *b = args[count - 1];
    if (a->type == HR_I64 && b->type == HR_I64) {
        int64_t whole = 0;
        int done = fold_whole(op, a->whole, b->whole, &whole);
        if (done > 0) return whole_number(checker, place, whole);
        if (done < 0) {
            hr_messages_add(checker->messages, place,
                            "this whole number is beyond i64; write 1.0 for 1 to compute in floats");
            return NULL;
        }
    }
    return hr_check_number(checker, place, HR_F32, fold_float(op, a->number, b->number), 0);
}

/* ---- operations ---- */

static const char *op_words(hr_op op) {
    return hr_op_info_of(op)->name;
}

static bool want_conditions(hr_checker *checker, hr_op op, int count, hr_expr **args) {
    for (int i = 0; i < count; i++) {
        if (args[i]->type == HR_BOOL) continue;
        hr_messages_add(checker->messages, args[i]->place,
                        "%s takes a condition, and this is a number%s; write a comparison, as in x != 0",
                        op_words(op), hr_check_assumed(checker).text);
        return false;
    }
    return true;
}

/* What random takes is whole before it is brought to i64. */
static bool want_whole_numbers(hr_checker *checker, hr_expr **args) {
    for (int i = 0; i < 2; i++) {
        if (args[i]->type == HR_I32 || args[i]->type == HR_I64) continue;
        hr_messages_add(checker->messages, args[i]->place,
                        "random(seed, counter) takes whole numbers%s; convert with i64(...)",
                        hr_check_assumed(checker).text);
        return false;
    }
    return true;
}

static bool divides_by_zero(hr_checker *checker, hr_op op, hr_place place, hr_expr **args) {
    bool zero = (op == HR_OP_FLOORDIV || op == HR_OP_MOD) && args[1]->op == HR_OP_NUMBER &&
                args[1]->type == HR_I64 && args[1]->whole == 0 && !hr_type_is_float(args[0]->type);
    if (zero)
        hr_messages_add(checker->messages, place, "a whole number has no %s by 0",
                        op == HR_OP_MOD ? "remainder" : "quotient");
    return zero;
}

/* What has bits. */
static bool want_bits(hr_checker *checker, hr_op op, hr_expr **args) {
    for (int i = 0; i < 2; i++) {
        if (args[i]->type == HR_I32 || args[i]->type == HR_I64) continue;
        const bool condition = args[i]->type == HR_BOOL;
        hr_messages_add(checker->messages, args[i]->place, "%s takes whole numbers, and this is %s%s%s",
                        hr_op_info_of(op)->name, condition ? "a condition" : "a float",
                        hr_check_assumed(checker).text,
                        condition ? "; write and, or, != between conditions" : "; convert with i32(...)");
        return false;
    }
    return true;
}

static bool want_kinds(hr_checker *checker, hr_op op, int count, hr_expr **args) {
    if (hr_op_is_logical(op)) return want_conditions(checker, op, count, args);
    if (op == HR_OP_WHERE) return want_conditions(checker, op, 1, args);
    if (hr_op_is_bitwise(op)) return want_bits(checker, op, args);
    return op != HR_OP_RANDOM || want_whole_numbers(checker, args);
}

/* Of a whole number it is that number. */
static bool keeps_whole(hr_op op) {
    return op == HR_OP_FLOOR || op == HR_OP_CEIL || op == HR_OP_ROUND || op == HR_OP_STOP;
}

hr_expr *hr_check_operation(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args) {
    bool weak = true, whole = true;
    for (int i = 0; i < count; i++) {
        if (!args[i]) return NULL;
        weak = weak && hr_argument_type_of(args[i]).weak;
        whole = whole && !hr_type_is_float(args[i]->type);
    }
    if (divides_by_zero(checker, op, place, args)) return NULL;
    if (weak && hr_op_folds(op)) return folded(checker, op, place, count, args);
    if (!want_kinds(checker, op, count, args)) return NULL;
    if (whole && keeps_whole(op)) return args[0];
    return typed(checker, op, place, count, args);
}

hr_expr *hr_check_reduction(hr_checker *checker, hr_op op, hr_place place, hr_expr *arg) {
    return arg ? typed(checker, op, place, 1, &arg) : NULL;
}

hr_expr *hr_check_conversion(hr_checker *checker, hr_dtype dtype, hr_place place, hr_expr *arg) {
    if (!arg) return NULL;
    hr_expr *new = hr_check_node_of(checker, HR_OP_CONVERT, hr_compute_type(dtype), place, 1, &arg);
    if (new) new->dtype = dtype;
    return new;
}
