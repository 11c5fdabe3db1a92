/* Element types: names, sizes, and the one exact conversion of each from and to f64.
 *
 * In: an element's bytes or a value. Out: the value, or the bytes after the one rounding that the language
 * asks for: to nearest even, once, straight from f64. Decisions beyond the header:
 *   - f8e4m3 is OCP's "fn": no infinities, 0x7f is NaN, 448 the largest value. f8e5m2 is IEEE-like; its
 *     infinities are read as such, but no store makes one: both f8s turn infinity into their largest value.
 *   - f16, bf16 and f32 overflow to infinity. In 8 and 16 bits a NaN is stored as the positive quiet one.
 *   - bool is true for whatever is not equal to zero, NaN included, and is read as 0 or 1.
 */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

/* A binary format of 8 or 16 bits: sign, exponent, mantissa, with subnormals. */
typedef struct small_float {
    int mantissa;      /* bits, without the implicit one */
    int exponent_min;  /* of the smallest normal value */
    uint32_t nan;      /* the code that a NaN is stored as */
    uint32_t overflow; /* the code of what lies beyond the largest value: infinity, or that value */
    uint32_t infinity; /* codes from here on are infinity, then NaNs */
    uint32_t sign;
} small_float;

static const small_float half_format = {10, -14, 0x7e00, 0x7c00, 0x7c00, 0x8000};
static const small_float bfloat_format = {7, -126, 0x7fc0, 0x7f80, 0x7f80, 0x8000};
static const small_float e4m3_format = {3, -6, 0x7f, 0x7e, 0x80, 0x80};
static const small_float e5m2_format = {2, -14, 0x7e, 0x7b, 0x7c, 0x80};

static const struct {
    const char *name;
    size_t size;
} dtypes[HR_DTYPE_COUNT] = {
#define DTYPE_ROW(name, text, size) [HR_##name] = {text, size},
    HR_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

/* With the implicit one; 0 for whole numbers. */
static int significand_digits(hr_dtype dtype) {
    switch (dtype) {
    case HR_F64:
        return 53;
    case HR_F32:
        return 24;
    case HR_F16:
        return 11;
    case HR_BF16:
        return 8;
    case HR_F8E4M3:
        return 4;
    case HR_F8E5M2:
        return 3;
    default:
        return 0;
    }
}

const char *hr_dtype_name(hr_dtype dtype) {
    return (size_t)dtype < HR_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

size_t hr_dtype_size(hr_dtype dtype) {
    return (size_t)dtype < HR_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

bool hr_dtype_is_float(hr_dtype dtype) {
    return significand_digits(dtype) > 0;
}

double hr_dtype_rounding(hr_dtype dtype) {
    int digits = significand_digits(dtype);
    return digits ? ldexp(1, -digits) : 0;
}

bool hr_dtype_parse(const char *name, size_t length, hr_dtype *out) {
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; ++dtype)
        if (strlen(dtypes[dtype].name) == length && !memcmp(dtypes[dtype].name, name, length)) {
            *out = (hr_dtype)dtype;
            return true;
        }
    return false;
}

/* ---- 8- and 16-bit floats ---- */

static double double_from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double small_decode(const small_float *format, uint32_t code) {
    uint32_t magnitude = code & (format->sign - 1);
    uint64_t sign = code & format->sign ? 1ull << 63 : 0;
    if (magnitude >= format->infinity || magnitude == format->nan)
        return magnitude == format->infinity ? double_from_bits(sign | 0x7ffull << 52) : NAN;
    uint64_t mantissa = magnitude & ((1u << format->mantissa) - 1);
    uint64_t exponent = magnitude >> format->mantissa;
    if (!exponent) {
        double value = ldexp((double)mantissa, format->exponent_min - format->mantissa);
        return sign ? -value : value;
    }
    uint64_t biased = exponent - 1 + (uint64_t)(format->exponent_min + 1023);
    return double_from_bits(sign | biased << 52 | mantissa << (52 - format->mantissa));
}

/* The significand is shifted down to the format's unit in the last place and rounded; a carry out of it moves
 * into the exponent by itself. Below the smallest normal value the unit stays that of the subnormals. */
static uint32_t small_encode(const small_float *format, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 63 ? format->sign : 0;
    int biased = (int)(bits >> 52 & 0x7ff);
    uint64_t significand = bits & ((1ull << 52) - 1);
    if (biased == 0x7ff) return significand ? format->nan : sign | format->overflow;
    if (biased == 0) return sign; /* an f64 subnormal is far below half of any format's smallest value */
    significand |= 1ull << 52;
    int above = biased - 1023 - format->exponent_min;
    int shift = 52 - format->mantissa + (above < 0 ? -above : 0);
    if (shift > 54) return sign;
    uint64_t kept = significand >> shift, half = 1ull << (shift - 1);
    uint64_t rest = significand & (2 * half - 1);
    kept += rest > half || (rest == half && kept & 1);
    uint64_t code = kept + ((uint64_t)(above > 0 ? above : 0) << format->mantissa);
    return sign | (uint32_t)(code > format->overflow ? format->overflow : code);
}

static const small_float *small_format(hr_dtype dtype) {
    switch (dtype) {
    case HR_F16:
        return &half_format;
    case HR_BF16:
        return &bfloat_format;
    case HR_F8E4M3:
        return &e4m3_format;
    default:
        return &e5m2_format;
    }
}

/* ---- one element ---- */

static void whole_range(hr_dtype dtype, int64_t *low, int64_t *high) {
    if (dtype == HR_U8) {
        *low = 0, *high = UINT8_MAX;
        return;
    }
    int bits = 8 * (int)hr_dtype_size(dtype);
    *high = (int64_t)(UINT64_MAX >> (65 - bits));
    *low = -*high - 1;
}

int64_t hr_dtype_load_whole(hr_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case HR_I64:
        return ((const int64_t *)data)[i];
    case HR_I32:
        return ((const int32_t *)data)[i];
    case HR_I16:
        return ((const int16_t *)data)[i];
    case HR_I8:
        return ((const int8_t *)data)[i];
    case HR_U8:
        return ((const uint8_t *)data)[i];
    case HR_BOOL:
        return ((const uint8_t *)data)[i] != 0;
    default: {
        int64_t whole;
        hr_dtype_store(HR_I64, &whole, 0, hr_dtype_load(dtype, data, i));
        return whole;
    }
    }
}

double hr_dtype_load(hr_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case HR_F64:
        return ((const double *)data)[i];
    case HR_F32:
        return (double)((const float *)data)[i];
    case HR_F16:
    case HR_BF16:
        return small_decode(small_format(dtype), ((const uint16_t *)data)[i]);
    case HR_F8E4M3:
    case HR_F8E5M2:
        return small_decode(small_format(dtype), ((const uint8_t *)data)[i]);
    default:
        return (double)hr_dtype_load_whole(dtype, data, i);
    }
}

static void store_in_range(hr_dtype dtype, void *data, size_t i, int64_t value) {
    switch (dtype) {
    case HR_I64:
        ((int64_t *)data)[i] = value;
        break;
    case HR_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case HR_I16:
        ((int16_t *)data)[i] = (int16_t)value;
        break;
    case HR_I8:
        ((int8_t *)data)[i] = (int8_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

void hr_dtype_store(hr_dtype dtype, void *data, size_t i, double value) {
    int64_t low, high;
    switch (dtype) {
    case HR_F64:
        ((double *)data)[i] = value;
        return;
    case HR_F32:
        ((float *)data)[i] = (float)value;
        return;
    case HR_F16:
    case HR_BF16:
        ((uint16_t *)data)[i] = (uint16_t)small_encode(small_format(dtype), value);
        return;
    case HR_F8E4M3:
    case HR_F8E5M2:
        ((uint8_t *)data)[i] = (uint8_t)small_encode(small_format(dtype), value);
        return;
    case HR_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        return;
    default:
        break;
    }
    whole_range(dtype, &low, &high);
    int64_t whole = 0;
    if (value >=
        (double)high) /* f64 rounds the i64 limit up to 2^63: still the first value that is too large */
        whole = high;
    else if (value <= (double)low)
        whole = low;
    else if (value == value)
        whole = (int64_t)value;
    store_in_range(dtype, data, i, whole);
}

/* f64 holds 53 bits. Rounded to odd here, a later rounding to fewer bits comes out as if it were the only
 * one. */
static double to_odd(int64_t value) {
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53) magnitude = (magnitude & ~0xfffull) | (magnitude & 0xfff ? 0x1000 : 0);
    return value < 0 ? -(double)magnitude : (double)magnitude;
}

void hr_dtype_store_whole(hr_dtype dtype, void *data, size_t i, int64_t value) {
    int64_t low, high;
    switch (dtype) {
    case HR_F64:
        ((double *)data)[i] = (double)value;
        return;
    case HR_F32:
        ((float *)data)[i] = (float)value;
        return;
    case HR_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        return;
    default:
        break;
    }
    if (hr_dtype_is_float(dtype)) {
        hr_dtype_store(dtype, data, i, to_odd(value));
        return;
    }
    whole_range(dtype, &low, &high);
    store_in_range(dtype, data, i, value < low ? low : value > high ? high : value);
}

double hr_dtype_round(hr_dtype dtype, double value) {
    union {
        double f64;
        int64_t i64;
    } room; /* as large and as aligned as any element */
    hr_dtype_store(dtype, &room, 0, value);
    return hr_dtype_load(dtype, &room, 0);
}
