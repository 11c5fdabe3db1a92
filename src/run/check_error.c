/* Whether an element may stand for its meaning, and the choice of points.
 *
 * An element is right when some value within the error of honest arithmetic of its meaning rounds to it: so
 * the rounding of the result's dtype costs no sharpness, and a bf16 result is held to f32's accuracy. The
 * error is the meaning's own (reference.h; docs/check.md derives it).
 *
 * In: an element and its meaning. Out: how far it is beyond its rounding.
 */
#include "run/check.h"

#include "base/dtype.h"

#include <math.h>

#define TINY 0x1p-125 /* below f32's normal numbers precision runs out, in intermediate results too */

/* ---- the values beside one ---- */

static uint64_t bits_of(hr_dtype dtype, double value) {
    uint64_t bits = 0;
    hr_dtype_store(dtype, &bits, 0, value); /* little-endian: the low bytes */
    return bits;
}

/* The next value of a float dtype after `value` in the direction of `toward`; may be infinite or, of f8, NaN.
 */
static double neighbour(hr_dtype dtype, double value, double toward) {
    uint64_t sign = 1ull << (8 * hr_dtype_size(dtype) - 1), bits = bits_of(dtype, value);
    bool negative = bits & sign, up = toward > value;
    if ((bits & ~sign) == 0)
        bits = (up ? 0 : sign) | 1;
    else
        bits += up != negative ? 1 : (uint64_t)-1;
    return hr_dtype_load(dtype, &bits, 0);
}

/* How far the meaning lies outside of all that rounds to `got`. */
static double float_excess(hr_dtype dtype, double got, double value) {
    double rounded = hr_dtype_round(dtype, value);
    if (isnan(got) || isnan(value)) return isnan(got) && isnan(rounded) ? 0 : INFINITY;
    if (got == rounded) return 0;
    if (isinf(value) || (isinf(got) && signbit(got) != signbit(value))) return INFINITY;
    if (isinf(got)) return fabs(neighbour(dtype, got, 0)) - fabs(value);
    double beside = neighbour(dtype, got, value);
    if (!isfinite(beside)) beside = got + (got - neighbour(dtype, got, -value));
    return fabs(value - 0.5 * (got + beside));
}

/* Of a float stored as a whole number, which truncates and saturates. */
static double truncation_excess(hr_dtype dtype, double got, double value) {
    double rounded = hr_dtype_round(dtype, value);
    if (got == rounded) return 0;
    if (isnan(value)) return INFINITY;
    double low = got > 0 ? got : got - 1, high = got < 0 ? got : got + 1;
    return value < low ? low - value : value > high ? value - high : 0;
}

static bool is_float(hr_dtype dtype) {
    return hr_dtype_is_float(dtype);
}

double hr_check_excess(hr_dtype type, hr_dtype dtype, double got, const hr_meaning *meaning) {
    if (isinf(meaning->error)) return 0;
    if (!is_float(type) || dtype == HR_BOOL) {                  /* exact */
        double rounded = hr_dtype_round(dtype, meaning->value); /* infinite where f16 ends */
        if (got == rounded) return 0;
        return isfinite(got - rounded) ? fabs(got - rounded) : INFINITY;
    }
    double excess = is_float(dtype) ? float_excess(dtype, got, meaning->value)
                                    : truncation_excess(dtype, got, meaning->value);
    if (!(excess > 0)) return 0;
    return type != HR_F64 && excess < TINY ? 0 : excess;
}

double hr_check_ratio(hr_dtype type, hr_dtype dtype, double got, const hr_meaning *meaning) {
    const double excess = hr_check_excess(type, dtype, got, meaning);
    if (excess == 0) return 0;
    return meaning->error > 0 ? excess / meaning->error : INFINITY;
}

hr_dtype hr_check_type(const hr_function *function, const hr_statement *statement) {
    hr_dtype type = statement->value->type;
    hr_dtype sum = hr_compute_type(function->tensors[statement->tensor].dtype);
    return statement->store == HR_STORE_ADD && is_float(sum) && !is_float(type) ? sum : type;
}

/* ---- where to look ---- */

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Beside a border that code may have: of vectors and tiles, multiples of powers of two, or of shares that
 * threads take. */
static int64_t border(int64_t extent, int64_t number, uint64_t random) {
    const int64_t power = (int64_t)1 << (3 + random % 9), parts = 2 + (int64_t)(random >> 8) % 63;
    const int64_t tiles = extent / power, side = (int64_t)(random >> 16 & 1);
    int64_t at = number % 2 && tiles > 0 ? (1 + (int64_t)(random >> 17) % tiles) * power
                                         : extent / parts * (1 + (int64_t)(random >> 17) % (parts - 1));
    at -= side;
    return at < 0 ? 0 : at >= extent ? extent - 1 : at;
}

void hr_check_point(int rank, const int64_t *shape, int64_t number, uint64_t seed, int64_t *subscripts) {
    int64_t edges = 2 * (int64_t)rank;
    for (int axis = 0; axis < rank; axis++) {
        int64_t last = shape[axis] - 1;
        uint64_t random = mix(seed ^ mix((uint64_t)number * 64 + (uint64_t)axis));
        if (number == 0)
            subscripts[axis] = 0;
        else if (number == 1)
            subscripts[axis] = last;
        else if (number == 2)
            subscripts[axis] = last / 2;
        else if (number < 3 + edges) /* one axis at its end and the others at their start, and the reverse */
            subscripts[axis] = ((number - 3) / 2 == axis) == (number % 2 == 1) ? last : 0;
        else if (number % 4 == 1 && axis == rank - 1 && last >= 64)
            subscripts[axis] = last - (int64_t)(random % 64);
        else if (number % 4 == 3)
            subscripts[axis] = border(shape[axis], number / 4, random);
        else
            subscripts[axis] = (int64_t)(random % (uint64_t)shape[axis]);
    }
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void hr_check_element(int rank, const int64_t *shape, int64_t number, int64_t *subscripts) {
    int64_t elements = 1;
    for (int axis = 0; axis < rank; axis++)
        elements *= shape[axis];
    int64_t inner = elements - 2, step = (int64_t)(0.618 * (double)inner) + 1, place = number;
    if (number == 1) place = elements - 1;
    if (number > 1) {
        while (common_divisor(step, inner) != 1)
            step++;
        place = 1 + (number - 2) % inner * step % inner;
    }
    for (int axis = rank - 1; axis >= 0; axis--) {
        subscripts[axis] = place % shape[axis];
        place /= shape[axis];
    }
}
