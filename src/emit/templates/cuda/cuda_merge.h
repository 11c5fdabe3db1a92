/* Two reductions with one exchange: the second is made with what the thread, the warp or the block alone
 * knows of the first, and set right as the shares come together. x.of_lanes<N>() brings together those of N
 * neighbouring lanes, a power of two, and is what a share of that many times as much is.
 */

/* Over all lanes of a warp, without a shuffle: the order of floats as that of whole numbers. Not for a NaN of
 * negative sign, which no f32_max leaves. */
static __device__ inline float warp_peak(float x) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    const int32_t bits = f32_bits(x), key = __reduce_max_sync(0xffffffffu, bits ^ (bits >> 31 & 0x7fffffff));
    return f32_of_bits(key ^ (key >> 31 & 0x7fffffff));
#else
    return reduce_lanes<32, reduce_max>(x);
#endif
}

/* The sum of COUNT values, and the squares of their distances from their mean added up. */
template <int COUNT> struct even_share {
    float sum, squares;
    template <int LANES> __device__ inline even_share<COUNT * LANES> of_lanes() const {
        even_share<COUNT *LANES> x = {sum, squares};
        float half_share = 0.5f / COUNT;
#pragma unroll
        for (int distance = 1; distance < LANES; distance *= 2, half_share *= 0.5f) {
            const float other = shuffle_xor(x.sum, distance), apart = x.sum - other;
            x.squares += shuffle_xor(x.squares, distance) + apart * apart * half_share;
            x.sum += other;
        }
        return x;
    }
    /* The same about another value than the mean. */
    __device__ inline float squares_about(float value) const {
        const float apart = sum * (1.0f / COUNT) - value;
        return squares + COUNT * apart * apart;
    }
};

/* As even_share, of `count` values, which may be none, where the lanes together have `all` of them. */
struct uneven_share {
    float sum, squares;
    template <int LANES> __device__ inline uneven_share of_lanes(float count, float all) const {
        const float total = reduce_lanes<LANES, reduce_sum>(sum);
        const float apart = all > 0 ? sum - count * machine_divide(total, all) : 0.0f;
        const float between = count > 0 ? machine_divide(apart * apart, count) : 0.0f;
        return {total, reduce_lanes<LANES, reduce_sum>(squares + between)};
    }
    template <int COUNT> __device__ inline float squares_about(float value) const {
        const float apart = sum * (1.0f / COUNT) - value;
        return squares + COUNT * apart * apart;
    }
};

/* The largest of some values, and the sum of exp(x - peak); where the peak is infinite, of exp(x). WHOLE: the
 * lanes beyond LANES have the same once more, and the peak is found without a shuffle; that is faster for few
 * warps, slower for the many of a multiprocessor without a ring. */
template <bool WHOLE> struct online_share {
    float peak, sum;
    template <int LANES> __device__ inline online_share of_lanes() const {
        const float top = WHOLE ? warp_peak(peak) : reduce_lanes<LANES, reduce_max>(peak);
        return {top, reduce_lanes<LANES, reduce_sum>(online_sum(sum, peak, online_base(top)))};
    }
};
