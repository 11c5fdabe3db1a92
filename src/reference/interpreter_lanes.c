/* Arithmetic on lanes: plain loops over arrays, each value with its scale.
 *
 * The scale of f(x) is |f(x)| or |f'(x)| * scale(x), whichever is larger: first-order propagation of a
 * rounding error, with x's own scale as its size. The scale of a sum is the sum of the scales. Where f jumps
 * within the error of x (floor, round and their kin), it is what makes the jump an error of one rounding.
 */
#include "reference/interpreter_lanes.h"
#include "base/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

const int64_t *hr_lanes_spread_whole(hr_lanes *lanes, int n) {
    if (lanes->form != HR_FORM_VARYING && lanes->spread < n) {
        for (int i = 0; i < n; ++i)
            lanes->whole[i] = lanes->base + lanes->step * i;
        lanes->spread = n;
    }
    return lanes->whole;
}

const double *hr_lanes_spread_value(hr_lanes *lanes, int n) {
    if (lanes->form == HR_FORM_UNIFORM && lanes->spread < n) {
        for (int i = 1; i < n; ++i) {
            lanes->value[i] = lanes->value[0];
            lanes->scale[i] = lanes->scale[0];
        }
        lanes->spread = n;
    }
    return lanes->value;
}

/* ---- floats ---- */

/* Infinite or undefined scales say nothing about a finite value. */
static inline double scale_of(double value, double scale) {
    double size = fabs(value);
    return scale <= DBL_MAX && scale > size ? scale : size;
}

/* Of arithmetic in `type`. */
static inline double rounding_of(hr_dtype type) {
    return hr_dtype_rounding(type == HR_F64 ? HR_F64 : HR_F32);
}

static inline double larger(double a, double b) {
    return a > b ? a : b;
}

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static inline double floor_modulo(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0) return (rest < 0) != (b < 0) ? rest + b : rest;
    return copysign(0, b);
}

/* A whole power by products: what a reader expects of x^2, and exact where the products are. */
static double power(double base, double exponent) {
    if (exponent != rint(exponent) || fabs(exponent) > 64) return pow(base, exponent);
    double product = 1;
    for (int left = (int)fabs(exponent); left; left >>= 1, base *= base)
        if (left & 1) product *= base;
    return exponent < 0 ? 1 / product : product;
}

static double power_scale(double base, double base_scale, double exponent, double exponent_scale,
                          double value) {
    double slope = base == 0 ? 0 : fabs(exponent) * base_scale / fabs(base);
    double growth = base > 0 && exponent != rint(exponent) ? fabs(log(base)) * exponent_scale : 0;
    return fabs(value) * larger(slope, growth);
}

static const double sqrt_2_over_pi = 0.79788456080286535588;
static const double sqrt_half = 0.70710678118654752440;

static inline double gelu_argument(double x) {
    return sqrt_2_over_pi * (x + 0.044715 * x * x * x);
}

static double gelu_tanh_slope(double x) {
    double s = sigmoid(2 * gelu_argument(x));
    return s + x * s * (1 - s) * 2 * sqrt_2_over_pi * (1 + 3 * 0.044715 * x * x);
}

/* x times what vanishes faster than -x grows: 0 in the limit, where the formula says inf * 0. */
static inline double times_vanishing(double x, double factor) {
    return x == -INFINITY ? -0.0 : x * factor;
}

static double unary(hr_op op, double x) {
    switch (op) {
    case HR_OP_NEG:
        return -x;
    case HR_OP_EXP:
        return exp(x);
    case HR_OP_EXP2:
        return exp2(x);
    case HR_OP_LOG:
        return log(x);
    case HR_OP_LOG2:
        return log2(x);
    case HR_OP_SQRT:
        return sqrt(x);
    case HR_OP_RSQRT:
        return 1 / sqrt(x);
    case HR_OP_SIN:
        return sin(x);
    case HR_OP_COS:
        return cos(x);
    case HR_OP_TANH:
        return tanh(x);
    case HR_OP_ERF:
        return erf(x);
    case HR_OP_SIGMOID:
        return sigmoid(x);
    case HR_OP_RELU:
        return x < 0 ? 0 : x;
    case HR_OP_GELU:
        return times_vanishing(x, 0.5 * erfc(-x * sqrt_half));
    case HR_OP_GELU_TANH:
        return times_vanishing(x, sigmoid(2 * gelu_argument(x)));
    case HR_OP_SILU:
        return times_vanishing(x, sigmoid(x));
    case HR_OP_ABS:
        return fabs(x);
    case HR_OP_FLOOR:
        return floor(x);
    case HR_OP_CEIL:
        return ceil(x);
    default:
        return nearbyint(x);
    }
}

/* |f'(x)|, given f(x) = y. */
static double slope(hr_op op, double x, double y) {
    switch (op) {
    case HR_OP_EXP:
        return y;
    case HR_OP_EXP2:
        return M_LN2 * y;
    case HR_OP_LOG:
        return 1 / fabs(x);
    case HR_OP_LOG2:
        return M_LOG2E / fabs(x);
    case HR_OP_SQRT:
        return 0.5 / y;
    case HR_OP_RSQRT:
        return 0.5 * y / fabs(x);
    case HR_OP_TANH:
        return 1 - y * y;
    case HR_OP_ERF:
        return M_2_SQRTPI * exp(-x * x);
    case HR_OP_SIGMOID:
        return y * (1 - y);
    case HR_OP_GELU:
        return fabs(0.5 * erfc(-x * sqrt_half) + x * exp(-0.5 * x * x) * 0.5 * sqrt_2_over_pi);
    case HR_OP_GELU_TANH:
        return fabs(gelu_tanh_slope(x));
    case HR_OP_SILU:
        return fabs(sigmoid(x) * (1 + x * (1 - sigmoid(x))));
    default:
        return 1;
    }
}

/* How far apart honest arithmetic may end at x, whose scale is given: as a scale. */
static double jump_scale(hr_op op, double unit, double x, double scale) {
    double error = 16 * unit * scale, low = unary(op, x - error), high = unary(op, x + error);
    return low < high ? (high - low) / unit : 0;
}

static void jump_lanes(hr_op op, double unit, int n, hr_lanes *out, const hr_lanes *a) {
    for (int i = 0; i < n; ++i) {
        out->value[i] = unary(op, a->value[i]);
        out->scale[i] = scale_of(out->value[i], jump_scale(op, unit, a->value[i], a->scale[i]));
    }
}

static void unary_lanes(hr_op op, int n, hr_lanes *out, const hr_lanes *a) {
    for (int i = 0; i < n; ++i) {
        double x = a->value[i], y = unary(op, x);
        out->value[i] = y;
        double scale = slope(op, x, y) * a->scale[i];
        if (op == HR_OP_GELU || op == HR_OP_GELU_TANH) scale = larger(scale, 0.5 * fabs(x)); /* x/2 (1 - 1) */
        out->scale[i] = scale_of(y, scale);
    }
}

/* The operands that most kernels consist of, in loops that become vector instructions. */
static void sum_lanes(int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b, double sign) {
    for (int i = 0; i < n; ++i) {
        out->value[i] = a->value[i] + sign * b->value[i];
        out->scale[i] = a->scale[i] + b->scale[i];
    }
}

static void product_lanes(int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    for (int i = 0; i < n; ++i) {
        double x = a->value[i], y = b->value[i];
        out->value[i] = x * y;
        out->scale[i] = larger(fabs(x) * b->scale[i], a->scale[i] * fabs(y));
    }
}

static void quotient_lanes(int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    for (int i = 0; i < n; ++i) {
        double y = b->value[i], quotient = a->value[i] / y;
        out->value[i] = quotient;
        out->scale[i] = scale_of(quotient, larger(a->scale[i], fabs(quotient) * b->scale[i]) / fabs(y));
    }
}

static void binary_lanes(hr_op op, double unit, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    for (int i = 0; i < n; ++i) {
        double x = a->value[i], y = b->value[i], xs = a->scale[i], ys = b->scale[i], z, zs;
        switch (op) {
        case HR_OP_POW:
            z = power(x, y);
            zs = power_scale(x, xs, y, ys, z);
            break;
        case HR_OP_FLOORDIV:
            z = floor(x / y);
            zs = jump_scale(HR_OP_FLOOR, unit, x / y, larger(xs, fabs(x / y) * ys) / fabs(y));
            break;
        case HR_OP_MOD:
            z = floor_modulo(x, y);
            zs = jump_scale(HR_OP_FLOOR, unit, x / y, larger(xs, fabs(x / y) * ys) / fabs(y));
            zs = larger(larger(xs, fabs(x / y) * ys), zs * fabs(y));
            break;
        default: { /* MIN, MAX; a NaN on either side wins */
            bool left = x != x || (op == HR_OP_MIN ? x < y : x > y) || (x == y && y == y);
            z = left ? x : y;
            zs = left ? xs : ys;
        }
        }
        out->value[i] = z;
        out->scale[i] = scale_of(z, zs);
    }
}

static void clamp_lanes(int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *low, const hr_lanes *high) {
    for (int i = 0; i < n; ++i) {
        const hr_lanes *from = a;
        if (!(low->value[i] <= a->value[i]) && a->value[i] == a->value[i]) from = low;
        if (!(from->value[i] <= high->value[i]) && from->value[i] == from->value[i]) from = high;
        out->value[i] = from->value[i];
        out->scale[i] = from->scale[i];
    }
}

/* Below f32's normal numbers precision runs out, or all of a number: what it is multiplied with multiplies
 * that error. silu(x) is a product itself, of x and what may be as small. */
static void tiny_lanes(hr_op op, double unit, int n, hr_lanes *out, const hr_lanes *a) {
    const double tiny = 0x1p-125;
    for (int i = 0; i < n; ++i) {
        const double below = op == HR_OP_SILU ? tiny * larger(1, fabs(a->value[i])) : tiny;
        const double scale = below / (16 * unit);
        const bool lost = fabs(out->value[i]) < below && out->value[i] != 0 && out->scale[i] < scale;
        out->scale[i] = lost ? scale : out->scale[i];
    }
}

void hr_lanes_float(hr_op op, hr_dtype type, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b,
                    const hr_lanes *c) {
    double unit = rounding_of(type);
    switch (op) {
    case HR_OP_ADD:
        sum_lanes(n, out, a, b, 1);
        break;
    case HR_OP_SUB:
        sum_lanes(n, out, a, b, -1);
        break;
    case HR_OP_MUL:
        product_lanes(n, out, a, b);
        break;
    case HR_OP_DIV:
        quotient_lanes(n, out, a, b);
        break;
    case HR_OP_CLAMP:
        clamp_lanes(n, out, a, b, c);
        break;
    case HR_OP_FLOOR:
    case HR_OP_CEIL:
    case HR_OP_ROUND:
        jump_lanes(op, unit, n, out, a);
        break;
    default:
        if (b)
            binary_lanes(op, unit, n, out, a, b);
        else
            unary_lanes(op, n, out, a);
    }
    if (type != HR_F64) tiny_lanes(op, unit, n, out, a);
}

void hr_lanes_compare(hr_op op, int n, int64_t *out, const double *a, const double *b) {
    for (int i = 0; i < n; ++i)
        switch (op) {
        case HR_OP_LT:
            out[i] = a[i] < b[i];
            break;
        case HR_OP_LE:
            out[i] = a[i] <= b[i];
            break;
        case HR_OP_GT:
            out[i] = a[i] > b[i];
            break;
        case HR_OP_GE:
            out[i] = a[i] >= b[i];
            break;
        case HR_OP_EQ:
            out[i] = a[i] == b[i];
            break;
        default:
            out[i] = a[i] != b[i];
        }
}

void hr_lanes_round(hr_dtype type, hr_dtype dtype, int n, double *value, double *scale) {
    if (dtype == HR_F64) return;
    double unit = rounding_of(type);
    for (int i = 0; i < n; ++i) {
        double error = 16 * unit * scale[i], x = value[i];
        value[i] = hr_dtype_round(dtype, x);
        if (dtype == HR_F32 || !(fabs(x) <= DBL_MAX)) continue;
        double low = hr_dtype_round(dtype, x - error), high = hr_dtype_round(dtype, x + error);
        scale[i] = scale_of(value[i], low < high ? (high - low) / unit : fabs(value[i]));
    }
}

/* ---- whole numbers: exact, wrapping at 64 bits; x // 0 and x % 0 are 0 ---- */

int64_t hr_lanes_truncate(double value) {
    int64_t whole;
    hr_dtype_store(HR_I64, &whole, 0, value);
    return whole;
}

static int64_t floor_quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t whole_power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t product = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1) product *= square;
    return (int64_t)product;
}

static int64_t whole_of(hr_op op, int64_t a, int64_t b, int64_t c) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case HR_OP_ADD:
        return (int64_t)(x + y);
    case HR_OP_SUB:
        return (int64_t)(x - y);
    case HR_OP_MUL:
        return (int64_t)(x * y);
    case HR_OP_FLOORDIV:
        return floor_quotient(a, b);
    case HR_OP_MOD:
        return (int64_t)(x - (uint64_t)floor_quotient(a, b) * y) * (b != 0);
    case HR_OP_POW:
        return whole_power(a, b);
    case HR_OP_NEG:
        return (int64_t)(0 - x);
    case HR_OP_ABS:
        return a < 0 ? (int64_t)(0 - x) : a;
    case HR_OP_RELU:
        return a < 0 ? 0 : a;
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
    case HR_OP_NE:
        return a != b;
    case HR_OP_AND:
        return a && b;
    case HR_OP_OR:
        return a || b;
    case HR_OP_NOT:
        return !a;
    case HR_OP_MIN:
        return a < b ? a : b;
    case HR_OP_MAX:
        return a > b ? a : b;
    case HR_OP_CLAMP:
        a = a > b ? a : b;
        return a < c ? a : c;
    default:
        return a; /* FLOOR, CEIL, ROUND */
    }
}

void hr_lanes_whole(hr_op op, int n, int64_t *out, const int64_t *a, const int64_t *b, const int64_t *c) {
    for (int i = 0; i < n; ++i)
        out[i] = whole_of(op, a[i], b ? b[i] : 0, c ? c[i] : 0);
}
