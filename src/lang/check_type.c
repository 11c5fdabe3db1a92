/* Types of operations. In: an operator or function and its typed arguments. Out: one node whose arguments
 * have the compute types that docs/language.md says, with conversions where a type changes.
 *
 * A number of the text is weak: it takes the type of what it meets. Operations on numbers alone are done
 * here, in f64 or i64.
 */
#include "lang/checker.h"

#include <math.h>
#include <string.h>

#define PRODUCT_POWER_MAX 64 /* whole powers beyond are computed by exp and log */

hr_dtype hr_compute_type(hr_dtype dtype) {
    switch (dtype) {
    case HR_F64:
    case HR_I64:
    case HR_BOOL:
        return dtype;
    case HR_I32:
    case HR_I16:
    case HR_I8:
    case HR_U8:
        return HR_I32;
    default:
        return HR_F32;
    }
}

static bool is_float(hr_dtype type) {
    return type == HR_F32 || type == HR_F64;
}

static bool is_weak(const hr_expr *expr) {
    return expr->op == HR_OP_NUMBER && expr->type != HR_BOOL;
}

static bool fits_i32(const hr_expr *expr) {
    return expr->whole >= INT32_MIN && expr->whole <= INT32_MAX;
}

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

static hr_expr *node_of(hr_checker *checker, hr_op op, hr_dtype type, hr_place place, int count,
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
    if (is_weak(expr)) return hr_check_number(checker, expr->place, type, expr->number, expr->whole);
    return node_of(checker, HR_OP_CONVERT, type, expr->place, 1, &expr);
}

/* ---- which type two operands meet in ---- */

static int width(hr_dtype type) {
    return type == HR_F64 ? 4 : type == HR_F32 ? 3 : type == HR_I64 ? 2 : type == HR_I32 ? 1 : 0;
}

static hr_dtype at_least(hr_dtype type, hr_dtype least) {
    return width(type) < width(least) ? least : type;
}

static hr_dtype weak_meets(const hr_expr *weak, hr_dtype other) {
    if (is_float(weak->type)) return at_least(other, HR_F32);
    if (is_float(other)) return other;
    return fits_i32(weak) ? at_least(other, HR_I32) : HR_I64;
}

static hr_dtype common_type(int count, hr_expr **args) {
    hr_dtype type = HR_BOOL;
    int strong = 0;
    for (int i = 0; i < count; i++) {
        if (is_weak(args[i])) continue;
        type = at_least(args[i]->type, type);
        strong++;
    }
    for (int i = 0; i < count; i++)
        if (is_weak(args[i])) type = strong ? weak_meets(args[i], type) : at_least(args[i]->type, type);
    return type;
}

static hr_dtype float_type(hr_dtype type) {
    return type == HR_F64 ? HR_F64 : HR_F32;
}

/* op over args, all brought to `type`; the node itself has type `result`. */
static hr_expr *over(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args, hr_dtype type,
                     hr_dtype result) {
    hr_expr *inner[3] = {0};
    for (int i = 0; i < count; i++)
        inner[i] = converted(checker, args[i], type);
    return node_of(checker, op, result, place, count, inner);
}

/* ---- numbers of the text among themselves ---- */

static int64_t floor_division(int64_t a, int64_t b) {
    return b == -1 ? -a : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
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
        if (b < 0) return 0;
        *out = 1;
        for (int64_t i = 0; i < b && !(*out == 1 && a == 1) && *out != 0; i++) {
            if (a == -1) return *out = b % 2 ? -1 : 1, 1;
            if (__builtin_mul_overflow(*out, a, out)) return -1;
        }
        return 1;
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

static bool folds(hr_op op) {
    return (op >= HR_OP_ADD && op <= HR_OP_POW);
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

static hr_expr *power(hr_checker *checker, hr_place place, hr_expr **args) {
    hr_expr *base = args[0], *exponent = args[1];
    bool product = is_weak(exponent) && exponent->type == HR_I64 && exponent->whole <= PRODUCT_POWER_MAX &&
                   exponent->whole >= (is_float(base->type) ? -PRODUCT_POWER_MAX : 0);
    if (!product) {
        hr_dtype type = float_type(common_type(2, args));
        return over(checker, HR_OP_POW, place, 2, args, type, type);
    }
    hr_expr *inner[2] = {converted(checker, base, at_least(base->type, HR_I32)), exponent};
    return node_of(checker, HR_OP_POW, at_least(base->type, HR_I32), place, 2, inner);
}

static hr_expr *choice(hr_checker *checker, hr_place place, hr_expr **args) {
    if (!want_conditions(checker, HR_OP_WHERE, 1, args)) return NULL;
    hr_dtype type = common_type(2, args + 1);
    hr_expr *inner[3] = {args[0], converted(checker, args[1], type), converted(checker, args[2], type)};
    return node_of(checker, HR_OP_WHERE, type, place, 3, inner);
}

static hr_expr *random_number(hr_checker *checker, hr_place place, hr_expr **args) {
    for (int i = 0; i < 2; i++) {
        if (args[i]->type == HR_I32 || args[i]->type == HR_I64) continue;
        hr_messages_add(checker->messages, args[i]->place,
                        "random(seed, counter) takes whole numbers%s; convert with i64(...)",
                        hr_check_assumed(checker).text);
        return NULL;
    }
    return over(checker, HR_OP_RANDOM, place, 2, args, HR_I64, HR_F32);
}

static bool divides_by_zero(hr_checker *checker, hr_op op, hr_place place, hr_expr **args) {
    bool zero = (op == HR_OP_FLOORDIV || op == HR_OP_MOD) && is_weak(args[1]) && args[1]->type == HR_I64 &&
                args[1]->whole == 0 && !is_float(args[0]->type);
    if (zero)
        hr_messages_add(checker->messages, place, "a whole number has no %s by 0",
                        op == HR_OP_MOD ? "remainder" : "quotient");
    return zero;
}

hr_expr *hr_check_operation(hr_checker *checker, hr_op op, hr_place place, int count, hr_expr **args) {
    bool weak = true;
    for (int i = 0; i < count; i++) {
        if (!args[i]) return NULL;
        weak = weak && is_weak(args[i]);
    }
    if (divides_by_zero(checker, op, place, args)) return NULL;
    if (weak && folds(op)) return folded(checker, op, place, count, args);
    hr_dtype type = common_type(count, args), number = at_least(type, HR_I32);
    switch (op) {
    case HR_OP_POW:
        return power(checker, place, args);
    case HR_OP_DIV:
        return over(checker, op, place, count, args, float_type(type), float_type(type));
    case HR_OP_LT:
    case HR_OP_LE:
    case HR_OP_GT:
    case HR_OP_GE:
    case HR_OP_EQ:
    case HR_OP_NE:
        return over(checker, op, place, count, args, number, HR_BOOL);
    case HR_OP_AND:
    case HR_OP_OR:
    case HR_OP_NOT:
        if (!want_conditions(checker, op, count, args)) return NULL;
        return node_of(checker, op, HR_BOOL, place, count, args);
    case HR_OP_WHERE:
        return choice(checker, place, args);
    case HR_OP_RANDOM:
        return random_number(checker, place, args);
    case HR_OP_FLOOR:
    case HR_OP_CEIL:
    case HR_OP_ROUND:
        return is_float(type) ? over(checker, op, place, count, args, type, type) : args[0];
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
    case HR_OP_FLOORDIV:
    case HR_OP_MOD:
    case HR_OP_NEG:
    case HR_OP_ABS:
    case HR_OP_RELU:
    case HR_OP_MIN:
    case HR_OP_MAX:
    case HR_OP_CLAMP:
        return over(checker, op, place, count, args, number, number);
    default: /* exp and its kin */
        return over(checker, op, place, count, args, float_type(type), float_type(type));
    }
}

hr_expr *hr_check_reduction(hr_checker *checker, hr_op op, hr_place place, hr_expr *arg) {
    if (!arg) return NULL;
    hr_dtype number = at_least(arg->type, HR_I32);
    switch (op) {
    case HR_OP_REDUCE_SUM:
        return over(checker, op, place, 1, &arg, number, is_float(number) ? number : HR_I64);
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_MIN:
        return over(checker, op, place, 1, &arg, number, number);
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        return over(checker, op, place, 1, &arg, number, HR_I64);
    default: /* mean, logsumexp, softmax */
        return over(checker, op, place, 1, &arg, float_type(number), float_type(number));
    }
}

hr_expr *hr_check_conversion(hr_checker *checker, hr_dtype dtype, hr_place place, hr_expr *arg) {
    if (!arg) return NULL;
    hr_expr *new = node_of(checker, HR_OP_CONVERT, hr_compute_type(dtype), place, 1, &arg);
    if (new) new->dtype = dtype;
    return new;
}
