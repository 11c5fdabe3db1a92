/* Uniform numbers in [0, 1): word counter % 4 of Philox4x32-10, block number counter // 4, key seed. */
struct philox_block {
    uint32_t word[4];
};

/* The compiler keeps a key of a round instead of adding it up anew for each block, where additions are what
 * limits the generator. */
static __device__ inline uint32_t kept_key(uint32_t key) {
#ifndef HR_EMULATED
    asm("" : "+r"(key));
#endif
    return key;
}

static __device__ inline philox_block philox(uint64_t seed, uint64_t block) {
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32), c = 0, d = 0;
    uint32_t key_a = (uint32_t)seed, key_b = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)a * 0xD2511F53u, right = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(right >> 32) ^ b ^ kept_key(key_a);
        c = (uint32_t)(left >> 32) ^ d ^ kept_key(key_b);
        b = (uint32_t)right;
        d = (uint32_t)left;
        key_a += 0x9E3779B9u;
        key_b += 0xBB67AE85u;
    }
    philox_block r;
    r.word[0] = a, r.word[1] = b, r.word[2] = c, r.word[3] = d;
    return r;
}

static __device__ inline float f32_of_word(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

/* A counter is a signed whole number that was cast: block counter // 4 rounds down. */
static __device__ inline float f32_random(uint64_t seed, uint64_t counter) {
    philox_block block = philox(seed, (uint64_t)((int64_t)counter >> 2));
    uint32_t low = counter & 1 ? block.word[1] : block.word[0],
             high = counter & 1 ? block.word[3] : block.word[2];
    return f32_of_word(counter & 2 ? high : low);
}

/* The words of the numbers counter .. counter + V - 1: a block for each four, and one more where they begin
 * inside one. */
template <int V>
static __device__ inline void random_words(uint32_t (&out)[V], uint64_t seed, uint64_t counter) {
    const int shift = (int)(counter & 3);
    uint64_t first = (uint64_t)((int64_t)counter >> 2);
    uint32_t word[(V + 3) / 4 * 4 + 4];
#pragma unroll
    for (int b = 0; b < (V + 3) / 4; b++) {
        philox_block block = philox(seed, first + b);
        word[b * 4] = block.word[0], word[b * 4 + 1] = block.word[1];
        word[b * 4 + 2] = block.word[2], word[b * 4 + 3] = block.word[3];
    }
    if (shift == 0) {
#pragma unroll
        for (int v = 0; v < V; v++)
            out[v] = word[v];
        return;
    }
    philox_block last = philox(seed, first + (V + 3) / 4);
    const int end = (V + 3) / 4 * 4;
    word[end] = last.word[0], word[end + 1] = last.word[1], word[end + 2] = last.word[2],
    word[end + 3] = last.word[3];
#pragma unroll
    for (int v = 0; v < V; v++)
        out[v] = shift == 1 ? word[v + 1] : shift == 2 ? word[v + 2] : word[v + 3];
}

template <int V>
static __device__ inline void random_group(float (&out)[V], uint64_t seed, uint64_t counter) {
    uint32_t word[V];
    random_words(word, seed, counter);
#pragma unroll
    for (int v = 0; v < V; v++)
        out[v] = f32_of_word(word[v]);
}

/* The words whose numbers are at least some bound: those from `least` on, if there are any. */
struct random_bound {
    uint32_t least;
    bool any;
};

static __device__ inline random_bound random_bound_of(float bound) {
    const float number = ceilf(bound * 0x1p24f);
    return {number > 0 && number < 0x1p24f ? (uint32_t)number << 8 : 0, number < 0x1p24f};
}

static __device__ inline bool is_at_least(uint32_t word, random_bound bound) {
    return word >= bound.least && bound.any;
}
