/* Conversions of storage formats that the machine has instructions for; the others are those of the CPU. */
static __device__ inline float f32_from_bf16(uint16_t x) {
    return f32_of_bits((int32_t)((uint32_t)x << 16));
}

static __device__ inline float f32_from_f16(uint16_t x) {
#ifdef HR_EMULATED
    return hr_emulated_f32_from_f16(x);
#else
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
#endif
}

static __device__ inline uint16_t bf16_from_f32(float x) {
    return (uint16_t)bf16_pair(x, 0);
}

static __device__ inline uint16_t f16_from_f32(float x) {
    return (uint16_t)f16_pair(x, 0);
}

static __device__ inline uint16_t bf16_from_f64(double x) {
    return bf16_from_f32(f32_odd_from_f64(x));
}

static __device__ inline uint16_t bf16_from_i64(int64_t x) {
    return bf16_from_f32(f32_odd_from_i64(x));
}

static __device__ inline uint16_t bf16_from_i32(int32_t x) {
    return bf16_from_f32(f32_odd_from_f64(x));
}

static __device__ inline uint16_t bf16_from_b(bool x) {
    return bf16_from_f32(x);
}

static __device__ inline uint16_t f16_from_f64(double x) {
    return f16_from_f32(f32_odd_from_f64(x));
}

static __device__ inline uint16_t f16_from_i64(int64_t x) {
    return f16_from_f32(f32_odd_from_i64(x));
}

static __device__ inline uint16_t f16_from_i32(int32_t x) {
    return f16_from_f32(f32_odd_from_f64(x));
}

static __device__ inline uint16_t f16_from_b(bool x) {
    return f16_from_f32(x);
}
