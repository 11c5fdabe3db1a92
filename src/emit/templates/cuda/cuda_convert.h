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

/* Two numbers, the first in the low byte, as f16, which holds each of them. */
static __device__ inline uint32_t f16_pair_from_f8e4m3(uint32_t two) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 890
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)two));
    return r;
#else
    return f16_pair(f32_from_f8e4m3((uint8_t)two), f32_from_f8e4m3((uint8_t)(two >> 8)));
#endif
}

static __device__ inline uint32_t bf16_pair_from_f8e4m3(uint32_t two) {
    const uint32_t pair = f16_pair_from_f8e4m3(two);
    return bf16_pair(f32_from_f16((uint16_t)pair), f32_from_f16((uint16_t)(pair >> 16)));
}

/* Two numbers, the first in the low byte, as f16, which holds each of them. */
static __device__ inline uint32_t f16_pair_from_f8e5m2(uint32_t two) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 890
    uint32_t r;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"((uint16_t)two));
    return r;
#else
    return f16_pair(f32_from_f8e5m2((uint8_t)two), f32_from_f8e5m2((uint8_t)(two >> 8)));
#endif
}

static __device__ inline uint32_t bf16_pair_from_f8e5m2(uint32_t two) {
    const uint32_t pair = f16_pair_from_f8e5m2(two);
    return bf16_pair(f32_from_f16((uint16_t)pair), f32_from_f16((uint16_t)(pair >> 16)));
}
