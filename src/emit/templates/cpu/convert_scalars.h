/* Scalar conversions: <storage>_from_<compute type> rounds once and saturates, <compute type>_from_<storage>
 * widens exactly.
 */
/* To f32 by chopping, with the last bit set where that lost something: rounding the result again, to a format
 * with fewer bits, is then right. */
STATIC_INLINE float f32_odd_from_f64(double x) {
    float nearest = (float)x;
    int32_t bits = f32_bits(nearest);
    bool away = fabs((double)nearest) > fabs(x);
    bool odd = (double)nearest != x && x == x;
    return f32_of_bits((bits - away) | odd);
}

/* The bits below f64's reach are gathered into the lowest that it keeps. */
STATIC_INLINE float f32_odd_from_i64(int64_t x) {
    bool long_number = x > INT64_C(1) << 53 || x < -(INT64_C(1) << 53);
    int64_t kept = (x & ~INT64_C(2047)) | ((x & 2047) != 0 ? 2048 : 0);
    return f32_odd_from_f64((double)(long_number ? kept : x));
}

/* ---- from storage ---- */

STATIC_INLINE float f32_from_f16(uint16_t x) {
#ifdef __F16C__
    float result;
    __asm__("vmovd %1, %0\n\tvcvtph2ps %0, %0" : "=x"(result) : "r"((int)x));
    return result;
#else
    return f32_of_f16_bits(x);
#endif
}

STATIC_INLINE float f32_from_bf16(uint16_t x) {
    return f32_of_bf16_bits(x);
}

STATIC_INLINE float f32_from_f8e4m3(uint8_t x) {
    return f32_of_f8e4m3_bits(x);
}

STATIC_INLINE float f32_from_f8e5m2(uint8_t x) {
    return f32_of_f8e5m2_bits(x);
}

STATIC_INLINE int32_t i32_from_i16(int16_t x) {
    return x;
}

STATIC_INLINE int32_t i32_from_i8(int8_t x) {
    return x;
}

STATIC_INLINE int32_t i32_from_u8(uint8_t x) {
    return x;
}

STATIC_INLINE bool b_from_bool(uint8_t x) {
    return x != 0;
}

/* ---- to f64 ---- */

STATIC_INLINE double f64_from_f64(double x) {
    return x;
}

STATIC_INLINE double f64_from_f32(float x) {
    return (double)x;
}

STATIC_INLINE double f64_from_i64(int64_t x) {
    return (double)x;
}

STATIC_INLINE double f64_from_i32(int32_t x) {
    return (double)x;
}

STATIC_INLINE double f64_from_b(bool x) {
    return x;
}

/* ---- to f32 ---- */

STATIC_INLINE float f32_from_f64(double x) {
    return (float)x;
}

STATIC_INLINE float f32_from_f32(float x) {
    return x;
}

/* NaN without the bits below those that bf16 keeps */
STATIC_INLINE float f32_short_nan(float x) {
    return x == x ? x : NAN;
}

STATIC_INLINE float f32_from_i64(int64_t x) {
    return (float)x;
}

STATIC_INLINE float f32_from_i32(int32_t x) {
    return (float)x;
}

STATIC_INLINE float f32_from_b(bool x) {
    return x;
}

/* ---- to f16 ---- */

STATIC_INLINE uint16_t f16_from_f64(double x) {
    return (uint16_t)i32_f16_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint16_t f16_from_f32(float x) {
    return (uint16_t)i32_f16_bits(x);
}

STATIC_INLINE uint16_t f16_from_i64(int64_t x) {
    return (uint16_t)i32_f16_bits(f32_odd_from_i64(x));
}

STATIC_INLINE uint16_t f16_from_i32(int32_t x) {
    return (uint16_t)i32_f16_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint16_t f16_from_b(bool x) {
    return (uint16_t)i32_f16_bits(x);
}

/* ---- to bf16 ---- */

STATIC_INLINE uint16_t bf16_from_f64(double x) {
    return (uint16_t)i32_bf16_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint16_t bf16_from_f32(float x) {
    return (uint16_t)i32_bf16_bits(x);
}

STATIC_INLINE uint16_t bf16_from_i64(int64_t x) {
    return (uint16_t)i32_bf16_bits(f32_odd_from_i64(x));
}

STATIC_INLINE uint16_t bf16_from_i32(int32_t x) {
    return (uint16_t)i32_bf16_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint16_t bf16_from_b(bool x) {
    return (uint16_t)i32_bf16_bits(x);
}

/* ---- to f8e4m3 ---- */

STATIC_INLINE uint8_t f8e4m3_from_f64(double x) {
    return (uint8_t)i32_f8e4m3_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint8_t f8e4m3_from_f32(float x) {
    return (uint8_t)i32_f8e4m3_bits(x);
}

STATIC_INLINE uint8_t f8e4m3_from_i64(int64_t x) {
    return (uint8_t)i32_f8e4m3_bits(f32_odd_from_i64(x));
}

STATIC_INLINE uint8_t f8e4m3_from_i32(int32_t x) {
    return (uint8_t)i32_f8e4m3_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint8_t f8e4m3_from_b(bool x) {
    return (uint8_t)i32_f8e4m3_bits(x);
}

/* ---- to f8e5m2 ---- */

STATIC_INLINE uint8_t f8e5m2_from_f64(double x) {
    return (uint8_t)i32_f8e5m2_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint8_t f8e5m2_from_f32(float x) {
    return (uint8_t)i32_f8e5m2_bits(x);
}

STATIC_INLINE uint8_t f8e5m2_from_i64(int64_t x) {
    return (uint8_t)i32_f8e5m2_bits(f32_odd_from_i64(x));
}

STATIC_INLINE uint8_t f8e5m2_from_i32(int32_t x) {
    return (uint8_t)i32_f8e5m2_bits(f32_odd_from_f64(x));
}

STATIC_INLINE uint8_t f8e5m2_from_b(bool x) {
    return (uint8_t)i32_f8e5m2_bits(x);
}

/* ---- to i64 ---- */

STATIC_INLINE int64_t i64_from_f64(double x) {
    return x >= 0x1p63 ? INT64_MAX : x > -0x1p63 ? (int64_t)x : x == x ? INT64_MIN : 0;
}

STATIC_INLINE int64_t i64_from_f32(float x) {
    return x >= 0x1p63f ? INT64_MAX : x > -0x1p63f ? (int64_t)x : x == x ? INT64_MIN : 0;
}

STATIC_INLINE int64_t i64_from_i64(int64_t x) {
    return x;
}

STATIC_INLINE int64_t i64_from_i32(int32_t x) {
    return x;
}

STATIC_INLINE int64_t i64_from_b(bool x) {
    return x;
}

/* ---- to i32 ---- */

STATIC_INLINE int32_t i32_from_f64(double x) {
    return x >= 0x1p31 ? INT32_MAX : x > -0x1p31 ? (int32_t)x : x == x ? INT32_MIN : 0;
}

STATIC_INLINE int32_t i32_from_f32(float x) {
    return x >= 0x1p31f ? INT32_MAX : x > -0x1p31f ? (int32_t)x : x == x ? INT32_MIN : 0;
}

STATIC_INLINE int32_t i32_from_i64(int64_t x) {
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

STATIC_INLINE int32_t i32_from_i32(int32_t x) {
    return x;
}

STATIC_INLINE int32_t i32_from_b(bool x) {
    return x;
}

/* ---- to i16 ---- */

STATIC_INLINE int16_t i16_from_f64(double x) {
    return x >= 0x1p15 ? 32767 : x > -0x1p15 ? (int16_t)x : x == x ? -32768 : 0;
}

STATIC_INLINE int16_t i16_from_f32(float x) {
    return x >= 0x1p15f ? 32767 : x > -0x1p15f ? (int16_t)x : x == x ? -32768 : 0;
}

STATIC_INLINE int16_t i16_from_i64(int64_t x) {
    return (int16_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}

STATIC_INLINE int16_t i16_from_i32(int32_t x) {
    return (int16_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}

STATIC_INLINE int16_t i16_from_b(bool x) {
    return x;
}

/* ---- to i8 ---- */

STATIC_INLINE int8_t i8_from_f64(double x) {
    return x >= 0x1p7 ? 127 : x > -0x1p7 ? (int8_t)x : x == x ? -128 : 0;
}

STATIC_INLINE int8_t i8_from_f32(float x) {
    return x >= 0x1p7f ? 127 : x > -0x1p7f ? (int8_t)x : x == x ? -128 : 0;
}

STATIC_INLINE int8_t i8_from_i64(int64_t x) {
    return (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x);
}

STATIC_INLINE int8_t i8_from_i32(int32_t x) {
    return (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x);
}

STATIC_INLINE int8_t i8_from_b(bool x) {
    return x;
}

/* ---- to u8 ---- */

STATIC_INLINE uint8_t u8_from_f64(double x) {
    return x >= 0x1p8 ? 255 : x > 0 ? (uint8_t)x : x == x ? 0 : 0;
}

STATIC_INLINE uint8_t u8_from_f32(float x) {
    return x >= 0x1p8f ? 255 : x > 0 ? (uint8_t)x : x == x ? 0 : 0;
}

STATIC_INLINE uint8_t u8_from_i64(int64_t x) {
    return (uint8_t)(x > 255 ? 255 : x < 0 ? 0 : x);
}

STATIC_INLINE uint8_t u8_from_i32(int32_t x) {
    return (uint8_t)(x > 255 ? 255 : x < 0 ? 0 : x);
}

STATIC_INLINE uint8_t u8_from_b(bool x) {
    return x;
}

/* ---- to bool ---- */

STATIC_INLINE uint8_t bool_from_f64(double x) {
    return x != 0;
}

STATIC_INLINE uint8_t bool_from_f32(float x) {
    return x != 0;
}

STATIC_INLINE uint8_t bool_from_i64(int64_t x) {
    return x != 0;
}

STATIC_INLINE uint8_t bool_from_i32(int32_t x) {
    return x != 0;
}

STATIC_INLINE uint8_t bool_from_b(bool x) {
    return x;
}

/* ---- to bool, as a compute type ---- */

STATIC_INLINE bool b_from_f64(double x) {
    return x != 0;
}

STATIC_INLINE bool b_from_f32(float x) {
    return x != 0;
}

STATIC_INLINE bool b_from_i64(int64_t x) {
    return x != 0;
}

STATIC_INLINE bool b_from_i32(int32_t x) {
    return x != 0;
}

STATIC_INLINE bool b_from_b(bool x) {
    return x != 0;
}

/* ---- rounding through a dtype in an expression ---- */

STATIC_INLINE float f32_round_f16(float x) {
    return f32_from_f16(f16_from_f32(x));
}

STATIC_INLINE float f32_round_bf16(float x) {
    return f32_from_bf16(bf16_from_f32(x));
}

STATIC_INLINE float f32_round_f8e4m3(float x) {
    return f32_from_f8e4m3(f8e4m3_from_f32(x));
}

STATIC_INLINE float f32_round_f8e5m2(float x) {
    return f32_from_f8e5m2(f8e5m2_from_f32(x));
}

STATIC_INLINE int32_t i32_round_i16(int32_t x) {
    return i16_from_i32(x);
}

STATIC_INLINE int32_t i32_round_i8(int32_t x) {
    return i8_from_i32(x);
}

STATIC_INLINE int32_t i32_round_u8(int32_t x) {
    return u8_from_i32(x);
}
