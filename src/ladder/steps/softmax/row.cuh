// What the steps share: the exponential, reductions over a warp, eight elements as numbers.

static __device__ inline float exponential(float x) {
    return machine_exp2(x * 1.44269504f);
}

static __device__ inline float warp_max(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    return x;
}

static __device__ inline float warp_sum(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

static __device__ inline void eight_of(const uint4 &word, float (&x)[8]) {
    const uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = f32_from_bf16((uint16_t)(words[i / 2] >> i % 2 * 16));
}

// exp(x - peak) * factor of eight elements.
static __device__ inline void eight_leave(uint16_t *to, const uint4 &word, float peak, float factor) {
    float x[8];
    eight_of(word, x);
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = exponential(x[i] - peak) * factor;
    store_16(to, bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
}
