/* Slopes of functions. In: arguments and value as expressions. Out: the slope as an expression. */
#include "grad/slope.h"
#include "ir/types.h"

#include <math.h>

static hr_expr *where(hr_algebra *algebra, hr_op comparison, hr_expr *a, hr_expr *b, hr_expr *holds,
                      hr_expr *otherwise) {
    if (comparison == HR_OP_GT && a->op == HR_OP_NUMBER && hr_type_is_float(a->type) && b->op == HR_OP_NUMBER)
        return a->number > b->number ? holds : otherwise; /* the base of a power */
    hr_expr *args[] = {hr_make_binary(algebra, comparison, a, b), holds, otherwise};
    return hr_make(algebra, HR_OP_WHERE, 3, args);
}

#define A                     at->args[0]
#define B                     at->args[1]
#define C                     at->args[2]
#define Y                     at->value
#define NUMBER(value)         hr_make_number(at->algebra, value)
#define NEGATIVE(a)           hr_make_unary(at->algebra, HR_OP_NEG, a)
#define CALL(op, a)           hr_make_unary(at->algebra, HR_OP_##op, a)
#define CALL2(op, a, b)       hr_make_binary(at->algebra, HR_OP_##op, a, b)
#define PRODUCT(a, b)         CALL2(MUL, a, b)
#define QUOTIENT(a, b)        CALL2(DIV, a, b)
#define DIFFERENCE(a, b)      CALL2(SUB, a, b)
#define TOTAL(a, b)           CALL2(ADD, a, b)
#define POWER(a, power)       hr_make_power(at->algebra, a, power)
#define WHERE(op, a, b, c, d) where(at->algebra, HR_OP_##op, a, b, c, d)

/* s * (1 + a * (1 - s)) with s = sigmoid(a) */
static hr_expr *slope_of_silu(const hr_slope_point *at) {
    hr_expr *s = CALL(SIGMOID, A);
    return PRODUCT(s, TOTAL(NUMBER(1), PRODUCT(A, DIFFERENCE(NUMBER(1), s))));
}

/* (1 + erf(a / sqrt 2)) / 2: what gelu weighs its argument with. */
static hr_expr *weight_of_gelu(const hr_slope_point *at) {
    return PRODUCT(NUMBER(0.5), TOTAL(NUMBER(1), CALL(ERF, PRODUCT(A, NUMBER(M_SQRT1_2)))));
}

/* weight + a * exp(-a^2 / 2) / sqrt(2 pi) */
static hr_expr *slope_of_gelu(const hr_slope_point *at) {
    hr_expr *bell = CALL(EXP, PRODUCT(POWER(A, 2), NUMBER(-0.5)));
    return TOTAL(weight_of_gelu(at), PRODUCT(A, PRODUCT(bell, NUMBER(0.5 * M_2_SQRTPI * M_SQRT1_2))));
}

static const double tanh_linear = M_2_SQRTPI * M_SQRT1_2, tanh_cubic = 0.044715 * M_2_SQRTPI * M_SQRT1_2;

/* tanh(sqrt(2 / pi) * (a + 0.044715 a^3)) */
static hr_expr *tanh_of_gelu(const hr_slope_point *at) {
    return CALL(TANH, PRODUCT(A, TOTAL(NUMBER(tanh_linear), PRODUCT(NUMBER(tanh_cubic), POWER(A, 2)))));
}

static hr_expr *weight_of_gelu_tanh(const hr_slope_point *at) {
    return TOTAL(NUMBER(0.5), PRODUCT(NUMBER(0.5), tanh_of_gelu(at)));
}

/* weight + a * (1 - t^2) / 2 times the slope of what tanh is taken of */
static hr_expr *slope_of_gelu_tanh(const hr_slope_point *at) {
    hr_expr *inner = TOTAL(NUMBER(0.5 * tanh_linear), PRODUCT(NUMBER(1.5 * tanh_cubic), POWER(A, 2)));
    hr_expr *rest = DIFFERENCE(NUMBER(1), POWER(tanh_of_gelu(at), 2));
    return TOTAL(weight_of_gelu_tanh(at), PRODUCT(PRODUCT(A, inner), rest));
}

/* k * a^(k - 1) */
static hr_expr *slope_of_power(const hr_slope_point *at) {
    const hr_expr *power = B;
    if (power->op != HR_OP_NUMBER) return PRODUCT(B, CALL2(POW, A, DIFFERENCE(B, NUMBER(1))));
    if (hr_type_is_float(power->type))
        return PRODUCT(NUMBER(power->number), CALL2(POW, A, NUMBER(power->number - 1)));
    if (power->whole == 0) return NUMBER(0);
    if (power->whole == 1) return NUMBER(1);
    return PRODUCT(NUMBER((double)power->whole), POWER(A, (int)power->whole - 1));
}

hr_expr *hr_slope(hr_algebra *algebra, hr_op op, int argument, hr_expr *const *args, hr_expr *value) {
    const hr_slope_point point = {algebra, args, value}, *at = &point;
#define DERIVATIVE(operation, number, slope)                                                                 \
    if (op == HR_OP_##operation && argument == number) return slope;
#include "grad/derivatives.def"
#undef DERIVATIVE
    return NULL;
}

hr_expr *hr_value_beside_slope(hr_algebra *algebra, hr_op op, hr_expr *arg) {
    const hr_slope_point point = {algebra, &arg, NULL}, *at = &point;
    switch (op) {
    case HR_OP_SILU:
        return PRODUCT(A, CALL(SIGMOID, A));
    case HR_OP_GELU:
        return PRODUCT(A, weight_of_gelu(at));
    case HR_OP_GELU_TANH:
        return PRODUCT(A, weight_of_gelu_tanh(at));
    default:
        return hr_make_unary(algebra, op, arg);
    }
}
