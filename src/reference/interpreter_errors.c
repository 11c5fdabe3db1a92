/* Arithmetic on lanes of floats, each value with what honest arithmetic may make of it: docs/check.md derives
 * the rules.
 *
 * In: operands with their errors. Out: the value in f64; `bound`, which grows linearly by first derivatives;
 * `noise`, the standard deviation of roundings, to which each operation adds its own. Where an error is no
 * small part of its operand, the function itself is asked what it does at both ends. An infinite bound says
 * that honest arithmetic may give anything: it overflowed, or divided by what may be 0.
 */
#include "reference/interpreter_lanes.h"

#include "base/dtype.h"
#include "reference/interpreter_functions.h"

#include <float.h>
#include <math.h>

static inline double larger(double a, double b) {
    return a > b ? a : b;
}

/* Half a unit in the last place, relative: of arithmetic in `type`. */
static inline double rounding_of(hr_dtype type) {
    return hr_dtype_rounding(type == HR_F64 ? HR_F64 : HR_F32);
}

typedef struct number {
    double value, bound, noise;
} number;

static inline number number_at(const hr_lanes *lanes, int i) {
    return (number){lanes->value[i], lanes->bound[i], lanes->noise[i]};
}

static inline double reach(number x) {
    return hr_error_reach(x.bound, x.noise);
}

/* ---- what every operation ends with ---- */

/* Values that only one side has, and those that the type does not have. */
static number settled(number x, hr_dtype type, bool lost) {
    const double most = type == HR_F64 ? DBL_MAX : (double)FLT_MAX;
    if (!(fabs(x.value) <= DBL_MAX)) { /* NaN or infinite by the text itself, if the operands are sure */
        x.bound = lost ? INFINITY : 0;
        x.noise = 0;
        return x;
    }
    if (lost || fabs(x.value) > most || !(x.bound <= DBL_MAX) || !(x.noise <= DBL_MAX)) {
        x.bound = INFINITY;
        x.noise = 0;
    }
    return x;
}

static inline bool is_lost(number x) {
    return !(x.bound <= DBL_MAX);
}

/* The rounding of an operation that is exact but for it: none where the type holds the value. */
static inline double rounded(number x, double unit, hr_dtype type) {
    const bool sure = x.bound == 0 && x.noise == 0;
    if (sure && (type == HR_F64 ? false : (double)(float)x.value == x.value)) return 0;
    return HR_ROUNDING_DEVIATION * unit * fabs(x.value);
}

/* ---- sums, products, quotients ---- */

static number sum_of(number a, number b, hr_dtype type, double unit) {
    number out = {a.value + b.value, a.bound + b.bound, a.noise + b.noise};
    out.noise += rounded(out, unit, type);
    return settled(out, type, is_lost(a) || is_lost(b));
}

static number product_of(number a, number b, hr_dtype type, double unit) {
    const double x = fabs(a.value), y = fabs(b.value);
    number out = {a.value * b.value, x * b.bound + y * a.bound, x * b.noise + y * a.noise};
    out.bound += reach(a) * reach(b);
    out.noise += rounded(out, unit, type);
    return settled(out, type, is_lost(a) || is_lost(b));
}

/* Quotients may be products with an approximated reciprocal. */
static number quotient_of(number a, number b, hr_dtype type, double unit) {
    const double quotient = a.value / b.value, least = fabs(b.value) - reach(b), size = fabs(quotient);
    const bool lost = is_lost(a) || is_lost(b) || (least <= 0 && reach(b) > 0);
    number out = {quotient, (a.bound + size * b.bound) / least, (a.noise + size * b.noise) / least};
    if (b.value == 0) out.bound = out.noise = 0;
    if (isinf(b.value) && isfinite(a.value)) out.bound = out.noise = 0;
    out.noise += HR_ROUNDING_DEVIATION * HR_QUOTIENT_ROUNDINGS * unit * size;
    return settled(out, type, lost);
}

/* ---- functions of one number ---- */

/* What the function itself may be off, in units of its value's rounding: twice the ulp that docs/facts.md
 * gives for the worse of both targets. */
static double function_roundings(hr_op op) {
    switch (op) {
    case HR_OP_NEG:
    case HR_OP_ABS:
    case HR_OP_RELU:
        return 0;
    case HR_OP_SIGMOID:
    case HR_OP_SILU:
    case HR_OP_GELU:
    case HR_OP_GELU_TANH:
        return 8;
    default:
        return 4;
    }
}

/* The size to which its error is relative. */
static double function_scale(hr_op op, double x, double y) {
    switch (op) {
    case HR_OP_GELU:
    case HR_OP_GELU_TANH:
        return larger(fabs(y), 0.5 * fabs(x)); /* x/2 (1 - 1) */
    case HR_OP_SIN:
    case HR_OP_COS:
        return larger(fabs(y), 0x1p-2 * fmin(fabs(x), 1));
    default:
        return fabs(y);
    }
}

/* e^x is 2^(x log2 e) here and there, whose rounding grows with x. */
static double exponent_growth(hr_op op, double x) {
    switch (op) {
    case HR_OP_EXP:
    case HR_OP_SIGMOID:
    case HR_OP_SILU:
        return HR_EXPONENT_ROUNDINGS * fmin(fabs(x), 150);
    case HR_OP_EXP2:
        return fmin(fabs(x), 150);
    default:
        return 0;
    }
}

/* How far f goes within the error of x, both ways. */
static double deviation(hr_op op, number x, double y) {
    const double low = fabs(hr_unary(op, x.value - reach(x)) - y),
                 high = fabs(hr_unary(op, x.value + reach(x)) - y);
    return low <= DBL_MAX && high <= DBL_MAX ? larger(low, high) : INFINITY;
}

static number jump_of(hr_op op, number x, hr_dtype type) {
    number out = {hr_unary(op, x.value), 0, 0};
    if (reach(x) > 0) out.bound = deviation(op, x, out.value);
    return settled(out, type, is_lost(x));
}

static number unary_of(hr_op op, number x, hr_dtype type, double unit) {
    number out = {.value = hr_unary(op, x.value)};
    if (x.bound > 0 || x.noise > 0) {
        const double slope = hr_unary_slope(op, x.value, out.value), error = reach(x);
        out.bound = slope * x.bound;
        out.noise = slope * x.noise;
        if (error > 0x1p-12 * fabs(x.value)) {
            const double far = deviation(op, x, out.value);
            if (!(far <= hr_error_reach(out.bound, out.noise))) {
                out.bound = far;
                out.noise = 0;
            }
        }
    }
    const bool lost = is_lost(x) || (!(fabs(out.value) <= DBL_MAX) && reach(x) > 0 && isfinite(x.value));
    const double own = (function_roundings(op) + exponent_growth(op, x.value)) * unit;
    if (own > 0 && isfinite(out.value))
        out.noise += HR_ROUNDING_DEVIATION * own * function_scale(op, x.value, out.value);
    return settled(out, type, lost);
}

/* ---- functions of two ---- */

static bool whole_power(double exponent) {
    return exponent == rint(exponent) && fabs(exponent) <= 64;
}

static number power_of(number x, number y, hr_dtype type, double unit) {
    number out = {.value = hr_power(x.value, y.value)};
    const double size = fabs(out.value), error = reach(x);
    double own = whole_power(y.value) ? fabs(y.value) - 1 + (y.value < 0 ? HR_QUOTIENT_ROUNDINGS : 0)
                                      : 8 + 2 * fabs(y.value * log2(fabs(x.value)));
    if (y.value == 0 || x.value == 1) own = 0;
    if (error > 0) {
        const double slope = x.value == 0 ? 0 : size * fabs(y.value / x.value);
        out.bound = slope * x.bound;
        out.noise = slope * x.noise;
        if (error > 0x1p-12 * fabs(x.value)) {
            const double low = fabs(hr_power(x.value - error, y.value) - out.value),
                         high = fabs(hr_power(x.value + error, y.value) - out.value);
            out.bound = low <= DBL_MAX && high <= DBL_MAX ? larger(low, high) : INFINITY;
            out.noise = 0;
        }
    }
    if (reach(y) > 0 && x.value != 0) out.bound += size * fabs(log(fabs(x.value))) * reach(y);
    const bool exact = error == 0 && reach(y) == 0 && type != HR_F64 && whole_power(y.value) &&
                       y.value >= 0 && (double)(float)out.value == out.value;
    if (!exact && isfinite(size)) out.noise += HR_ROUNDING_DEVIATION * own * unit * size;
    return settled(out, type, is_lost(x) || is_lost(y));
}

/* floor(x / y), and how far it may jump. */
static number floor_quotient(number x, number y, hr_dtype type, double unit) {
    number quotient = quotient_of(x, y, type, unit);
    return jump_of(HR_OP_FLOOR, quotient, type);
}

static number modulo_of(number x, number y, hr_dtype type, double unit) {
    const number whole = floor_quotient(x, y, type, unit);
    const double times = fabs(whole.value);
    number out = {.value = hr_floor_modulo(x.value, y.value)};
    out.bound = x.bound + times * y.bound + fabs(y.value) * whole.bound;
    out.noise = x.noise + times * y.noise;
    if (reach(x) > 0 || reach(y) > 0) out.noise += HR_ROUNDING_DEVIATION * unit * fabs(x.value);
    return settled(out, type, is_lost(x) || is_lost(y) || is_lost(whole));
}

/* The side that is taken; the other one as well, where the errors reach it. A NaN on either side wins. */
static number side_of(bool first, number x, number y) {
    number out = first ? x : y;
    if (x.value != x.value || y.value != y.value) {
        if (is_lost(x) || is_lost(y)) out.bound = INFINITY;
        return out;
    }
    if (fabs(x.value - y.value) <= reach(x) + reach(y)) {
        out.bound = larger(x.bound, y.bound);
        out.noise = larger(x.noise, y.noise);
    }
    return out;
}

static number smallest(number x, number y) {
    return side_of(x.value != x.value || x.value < y.value || (x.value == y.value && y.value == y.value), x,
                   y);
}

static number largest(number x, number y) {
    return side_of(x.value != x.value || x.value > y.value || (x.value == y.value && y.value == y.value), x,
                   y);
}

static number clamped(number x, number low, number high) {
    number out = x;
    if (!(low.value <= x.value) && x.value == x.value) out = low;
    if (fabs(x.value - low.value) <= reach(x) + reach(low))
        out.bound = larger(x.bound, low.bound), out.noise = larger(x.noise, low.noise);
    const number inner = out;
    if (!(out.value <= high.value) && out.value == out.value) out = high;
    if (fabs(inner.value - high.value) <= reach(inner) + reach(high))
        out.bound = larger(inner.bound, high.bound), out.noise = larger(inner.noise, high.noise);
    return out;
}

/* ---- below the normal numbers ---- */

/* Below f32's normal numbers precision runs out, or all of a number: what it is multiplied with multiplies
 * that error. silu(x) is a product itself, of x and what may be as small. */
static inline double tiny_of(hr_op op, double x) {
    const double tiny = 0x1p-125;
    return op == HR_OP_SILU ? tiny * larger(1, fabs(x)) : tiny;
}

static number compute(hr_op op, hr_dtype type, double unit, number a, number b, number c) {
    switch (op) {
    case HR_OP_DIV:
        return quotient_of(a, b, type, unit);
    case HR_OP_POW:
        return power_of(a, b, type, unit);
    case HR_OP_FLOORDIV:
        return floor_quotient(a, b, type, unit);
    case HR_OP_MOD:
        return modulo_of(a, b, type, unit);
    case HR_OP_MIN:
        return smallest(a, b);
    case HR_OP_MAX:
        return largest(a, b);
    case HR_OP_CLAMP:
        return clamped(a, b, c);
    case HR_OP_RELU:
        return a.value != a.value ? a : largest(a, (number){0});
    case HR_OP_STOP:
        return a;
    case HR_OP_FLOOR:
    case HR_OP_CEIL:
    case HR_OP_ROUND:
        return jump_of(op, a, type);
    default:
        return unary_of(op, a, type, unit);
    }
}

void hr_lanes_float(hr_op op, hr_dtype type, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b,
                    const hr_lanes *c) {
    const double unit = rounding_of(type), sign = op == HR_OP_SUB ? -1 : 1;
    for (int i = 0; i < n; ++i) {
        const number x = number_at(a, i), y = b ? number_at(b, i) : (number){0};
        number z;
        if (op == HR_OP_ADD || op == HR_OP_SUB)
            z = sum_of(x, (number){sign * y.value, y.bound, y.noise}, type, unit);
        else if (op == HR_OP_MUL)
            z = product_of(x, y, type, unit);
        else
            z = compute(op, type, unit, x, y, c ? number_at(c, i) : (number){0});
        const double tiny = tiny_of(op, x.value);
        if (type != HR_F64 && z.value != 0 && fabs(z.value) < tiny) z.bound += tiny;
        out->value[i] = z.value;
        out->bound[i] = z.bound;
        out->noise[i] = z.noise;
    }
}

/* ---- comparisons ---- */

static bool holds(hr_op op, double a, double b) {
    switch (op) {
    case HR_OP_LT:
        return a < b;
    case HR_OP_LE:
        return a <= b;
    case HR_OP_GT:
        return a > b;
    case HR_OP_GE:
        return a >= b;
    case HR_OP_EQ:
        return a == b;
    default:
        return a != b;
    }
}

bool hr_lanes_compare(hr_op op, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    bool any = false;
    for (int i = 0; i < n; ++i) {
        const number x = number_at(a, i), y = number_at(b, i);
        const double error = reach(x) + reach(y);
        const bool doubt = error > 0 && !(fabs(x.value - y.value) > error);
        out->whole[i] = holds(op, x.value, y.value);
        out->bound[i] = doubt;
        any |= doubt;
    }
    return any;
}

/* ---- rounding to a dtype on the way ---- */

void hr_lanes_round(hr_dtype type, hr_dtype dtype, int n, double *value, double *bound, double *noise) {
    if (dtype == HR_F64) return;
    for (int i = 0; i < n; ++i) {
        const double x = value[i], error = hr_error_reach(bound[i], noise[i]);
        const double near = hr_dtype_round(dtype, x);
        if (dtype == HR_F32 && type != HR_F64) { /* honest arithmetic has rounded already */
            value[i] = near;
            if (error > 0 && isfinite(near)) noise[i] += HR_ROUNDING_DEVIATION * fabs(x - near);
            if (isinf(near) && isfinite(x)) bound[i] = INFINITY, noise[i] = 0;
            continue;
        }
        value[i] = near;
        noise[i] = 0;
        if (!(fabs(x) <= DBL_MAX) || !(error <= DBL_MAX)) {
            if (!(error <= DBL_MAX)) bound[i] = INFINITY;
            continue;
        }
        const double low = hr_dtype_round(dtype, x - error), high = hr_dtype_round(dtype, x + error);
        bound[i] = error == 0 ? 0 : larger(fabs(high - near), fabs(near - low));
        if (bound[i] != bound[i]) bound[i] = INFINITY;
    }
}
