/* Functions whose results are rounded to 16 bits or added up, in terms of what the wide instruction sets have
 * each their own: vf_powers_of_two; vf_shares, which divides 1, or `times` x, by 1 + e^-x. Those of several
 * vectors, `ways` of them, do each operation for all before the next: what a core may look ahead is then many
 * operations that are ready, and not the rest of one chain, in which each waits for the one before it.
 */
/* e^x within 3 ulp and 1.4 |x| 2^-24 of itself, which is what the roundings of x / log 2 make. */
static inline void vf_exp_narrow_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_exp_narrow_ways(vf *x, int ways) {
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = x[way] * 0x1.715476p+0f;
    vf_powers_of_two(x, ways);
}

/* The same of x - peak, where any number near `peak` does in its place: peak / log 2 rounded is one, as long
 * as its rounding is far from 1. The loop around it is made twice, so that neither asks. */
static inline void vf_exp_below_ways(vf *x, int ways, float peak) __attribute__((always_inline));
static inline void vf_exp_below_ways(vf *x, int ways, float peak) {
    const bool near = __builtin_expect(peak > -0x1p16f && peak < 0x1p16f, 1);
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = near ? vf_fma(x[way], vf_of(0x1.715476p+0f), vf_of(-(peak * 0x1.715476p+0f)))
                      : (x[way] - peak) * 0x1.715476p+0f;
    vf_powers_of_two(x, ways);
}

static inline vf vf_exp_narrow(vf x) {
    vf_exp_narrow_ways(&x, 1);
    return x;
}

static inline vf vf_exp_below(vf x, float peak) {
    vf_exp_below_ways(&x, 1, peak);
    return x;
}

static inline void vf_sigmoid_narrow_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_sigmoid_narrow_ways(vf *x, int ways) {
    vf_shares(x, ways, false);
}

static inline void vf_silu_narrow_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_silu_narrow_ways(vf *x, int ways) {
    vf_shares(x, ways, true);
}

static inline vf vf_sigmoid_narrow(vf x) {
    vf_sigmoid_narrow_ways(&x, 1);
    return x;
}

static inline vf vf_silu_narrow(vf x) {
    vf_silu_narrow_ways(&x, 1);
    return x;
}
