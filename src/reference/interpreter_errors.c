/* Arithmetic on lanes of floats, each value with what honest arithmetic may make of it: docs/check.md derives
 * the rules.
 *
 * In: operands with their errors. Out: the value in f64; `bound`, what its error is at most: that of the
 * operands by first derivatives, and the operation's own rounding; `noise`, the part of the bound that is
 * made of roundings of this point alone. Where an error is no small part of its operand, the function itself
 * is asked what it does at both ends. An infinite bound says that honest arithmetic may give anything: it
 * overflowed, or divided by what may be 0.
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

/* A rounding of this operation alone. */
static inline number off_by(number x, double own) {
    x.bound += own;
    x.noise += own;
    return x;
}

/* The rounding of an operation that is exact but for it: none where the type holds the value. */
static inline double rounded(number x, double unit, hr_dtype type) {
    if (x.bound == 0 && type != HR_F64 && (double)(float)x.value == x.value) return 0;
    return unit * hr_power_in(fabs(x.value) + x.bound);
}

/* Of two errors that cannot both be met: the larger, and as much in common with other points as either. */
static number either(number out, number x, number y) {
    const double common = larger(x.bound - x.noise, y.bound - y.noise);
    out.bound = larger(x.bound, y.bound);
    out.noise = out.bound <= DBL_MAX ? out.bound - common : 0;
    return out;
}

/* ---- sums, products, quotients ---- */

static number sum_of(number a, number b, hr_dtype type, double unit) {
    number out = {a.value + b.value, a.bound + b.bound, a.noise + b.noise};
    out = off_by(out, rounded(out, unit, type));
    return settled(out, type, is_lost(a) || is_lost(b));
}

/* 0 for sure times what is not finite, or a product of that: NaN, which some sums leave out. Its noise says
 * so. */
static bool is_nothing(number a, number b) {
    return (a.value == 0 && a.bound == 0 && !isfinite(b.value)) || hr_number_is_nothing(a.value, a.noise);
}

static number product_of(number a, number b, hr_dtype type, double unit) {
    const double x = fabs(a.value), y = fabs(b.value);
    number out = {a.value * b.value, x * b.bound + y * a.bound + a.bound * b.bound,
                  x * b.noise + y * a.noise};
    out = off_by(out, rounded(out, unit, type));
    out = settled(out, type, is_lost(a) || is_lost(b));
    if (isnan(out.value) && (is_nothing(a, b) || is_nothing(b, a))) out.noise = HR_NOISE_NOTHING;
    return out;
}

/* x/y - a/b = (x - a - (a/b)(y - b)) / y. */
static number quotient_of(number a, number b, hr_dtype type, double unit) {
    const double quotient = a.value / b.value, least = fabs(b.value) - b.bound, size = fabs(quotient);
    const bool lost = is_lost(a) || is_lost(b) || (least <= 0 && b.bound > 0);
    number out = {quotient, (a.bound + size * b.bound) / least, (a.noise + size * b.noise) / least};
    if (b.value == 0) out.bound = out.noise = 0;
    if (isinf(b.value) && isfinite(a.value)) out.bound = out.noise = 0;
    return settled(off_by(out, HR_QUOTIENT_ROUNDINGS * unit * size), type, lost);
}

/* ---- functions of one number ---- */

/* What the function itself may be off, relative to a rounding. */
static double function_error(hr_op op, double x, double y) {
    const double X = fabs(x), Y = fabs(y);
    switch (op) {
#define ERROR(name, ulp, growth, scale)                                                                      \
    case HR_OP_##name:                                                                                       \
        return (2.0 * (ulp) + (growth)*fmin(X, HR_EXPONENT_MOST)) * (scale);
#include "reference/errors.def"
#undef ERROR
    default:
        return 0;
    }
}

double hr_exponential_error(double below) {
    return function_error(HR_OP_EXP, below, 1) + fmin(below, HR_EXPONENT_MOST);
}

/* How far f goes within the error of x, both ways. */
static double deviation(hr_op op, number x, double y) {
    const double low = fabs(hr_unary(op, x.value - x.bound) - y),
                 high = fabs(hr_unary(op, x.value + x.bound) - y);
    return low <= DBL_MAX && high <= DBL_MAX ? larger(low, high) : INFINITY;
}

static number jump_of(hr_op op, number x, hr_dtype type) {
    number out = {hr_unary(op, x.value), 0, 0};
    if (x.bound > 0) out.bound = deviation(op, x, out.value);
    return settled(out, type, is_lost(x));
}

static number unary_of(hr_op op, number x, hr_dtype type, double unit) {
    number out = {.value = hr_unary(op, x.value)};
    if (x.bound > 0) {
        const double slope = hr_unary_slope(op, x.value, out.value);
        out.bound = slope * x.bound;
        out.noise = slope * x.noise;
        if (x.bound > HR_ERROR_SMALL * fabs(x.value)) {
            const double far = deviation(op, x, out.value);
            if (!(far <= out.bound)) {
                out.bound = far;
                out.noise = 0;
            }
        }
    }
    const bool lost = is_lost(x) || (!(fabs(out.value) <= DBL_MAX) && x.bound > 0 && isfinite(x.value));
    if (isfinite(out.value)) out = off_by(out, unit * function_error(op, x.value, out.value));
    return settled(out, type, lost);
}

/* ---- functions of two ---- */

static bool whole_power(double exponent) {
    return exponent == rint(exponent) && fabs(exponent) <= 64;
}

static number power_of(number x, number y, hr_dtype type, double unit) {
    number out = {.value = hr_power(x.value, y.value)};
    const double size = fabs(out.value), error = x.bound;
    double own = whole_power(y.value) ? fabs(y.value) - 1 + (y.value < 0 ? HR_QUOTIENT_ROUNDINGS : 0)
                                      : 8 + 2 * fabs(y.value * log2(fabs(x.value)));
    if (y.value == 0 || x.value == 1) own = 0;
    if (error > 0) {
        const double slope = x.value == 0 ? 0 : size * fabs(y.value / x.value);
        out.bound = slope * x.bound;
        out.noise = slope * x.noise;
        if (error > HR_ERROR_SMALL * fabs(x.value)) {
            const double low = fabs(hr_power(x.value - error, y.value) - out.value),
                         high = fabs(hr_power(x.value + error, y.value) - out.value);
            out.bound = low <= DBL_MAX && high <= DBL_MAX ? larger(low, high) : INFINITY;
            out.noise = 0;
        }
    }
    if (y.bound > 0 && x.value != 0) out.bound += size * fabs(log(fabs(x.value))) * y.bound;
    const bool exact = error == 0 && y.bound == 0 && type != HR_F64 && whole_power(y.value) && y.value >= 0 &&
                       (double)(float)out.value == out.value;
    if (!exact && isfinite(size)) out = off_by(out, own * unit * size);
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
    if (x.bound > 0 || y.bound > 0) out = off_by(out, unit * fabs(x.value));
    return settled(out, type, is_lost(x) || is_lost(y) || is_lost(whole));
}

/* The side that is taken; the other one as well, where the errors reach it. A NaN on either side wins. */
static number side_of(bool first, number x, number y) {
    number out = first ? x : y;
    if (x.value != x.value || y.value != y.value) {
        if (is_lost(x) || is_lost(y)) out.bound = INFINITY;
        return out;
    }
    return fabs(x.value - y.value) <= x.bound + y.bound ? either(out, x, y) : out;
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
    if (fabs(x.value - low.value) <= x.bound + low.bound) out = either(out, x, low);
    const number inner = out;
    if (!(out.value <= high.value) && out.value == out.value) out = high;
    return fabs(inner.value - high.value) <= inner.bound + high.bound ? either(out, inner, high) : out;
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

bool hr_lanes_compare(hr_op op, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    bool any = false;
    for (int i = 0; i < n; ++i) {
        const number x = number_at(a, i), y = number_at(b, i);
        const double error = x.bound + y.bound;
        const bool doubt = error > 0 && !(fabs(x.value - y.value) > error);
        out->whole[i] = hr_op_holds(op, x.value<y.value, x.value == y.value, x.value> y.value);
        out->bound[i] = doubt;
        any |= doubt;
    }
    return any;
}

/* ---- rounding to a dtype on the way ---- */

void hr_lanes_round(hr_dtype type, hr_dtype dtype, int n, double *value, double *bound, double *noise) {
    if (dtype == HR_F64) return;
    for (int i = 0; i < n; ++i) {
        const double x = value[i], error = bound[i];
        const double near = hr_dtype_round(dtype, x);
        if (dtype == HR_F32 && type != HR_F64) { /* honest arithmetic has rounded already */
            value[i] = near;
            if (error > 0 && isfinite(near)) bound[i] += fabs(x - near), noise[i] += fabs(x - near);
            if (isinf(near) && isfinite(x)) bound[i] = INFINITY, noise[i] = 0;
            continue;
        }
        value[i] = near;
        if (!hr_number_is_nothing(x, noise[i])) noise[i] = 0;
        if (!(fabs(x) <= DBL_MAX) || !(error <= DBL_MAX)) {
            if (!(error <= DBL_MAX)) bound[i] = INFINITY;
            continue;
        }
        const double low = hr_dtype_round(dtype, x - error), high = hr_dtype_round(dtype, x + error);
        bound[i] = error == 0 ? 0 : larger(fabs(high - near), fabs(near - low));
        if (bound[i] != bound[i]) bound[i] = INFINITY;
    }
}
