/* Special functions on AVX2 with FMA. Exponentials and logarithms ask first whether all lanes are ordinary
 * numbers with ordinary results: what else there is (denormals, infinities, NaN) costs a branch that is
 * rarely taken, not operations of every vector. A lane's result is the same either way.
 *
 * Most sums are in short chains (pairs of terms first): the core looks about 128 vector operations ahead, so
 * that a function of n operations, of which a chain of l cycles hangs together, takes n l / 128 cycles or
 * more. A division is one operation and keeps its divider for 3.5 cycles: no more than a Newton step from
 * vrcpps costs. Coefficients come from tools/fit_prelude.py.
 */
static inline bool vm_any(vm m) {
    return __builtin_ia32_movmskps256((vf)m) != 0;
}

/* Whether all are finite and at least 2^-126. */
static inline bool vf_all_normal(vf x) {
    return __builtin_expect(!vm_any((vi)((vu)vf_bits(x) + 0x7f800000) > -0x1000001), 1);
}

/* Whether |x| <= limit everywhere, as no NaN is. */
static inline bool vf_all_within(vf x, float limit) {
    return __builtin_expect(!vm_any((vf_bits(x) & INT32_MAX) > vf_bits(vf_of(limit))), 1);
}

/* 2^r, 0 <= r <= 1, by a polynomial of so many terms: 6 are all that an f32 holds; 5 leave 1.7e-7 where it is
 * 1 and 9e-8 where it is 2, as there all that is rounded adds up. Term by term: beside others the number of
 * operations counts, not how long they hang together. */
static inline vf vf_part_power(vf r, int terms) {
    const bool all = terms == 6;
    vf p = all ? vf_fma(r, vf_of(0x1.cd5828p-13f), vf_of(0x1.43d930p-10f)) : vf_of(0x1.f2eba4p-10f);
    p = vf_fma(p, r, vf_of(all ? 0x1.3d74f6p-7f : 0x1.249158p-7f));
    p = vf_fma(p, r, vf_of(all ? 0x1.c67bd8p-5f : 0x1.c9ba76p-5f));
    p = vf_fma(p, r, vf_of(all ? 0x1.ebfe12p-3f : 0x1.ebce1ap-3f));
    p = vf_fma(p, r, vf_of(all ? 0x1.62e428p-1f : 0x1.62e514p-1f));
    return vf_fma(p, r, vf_of(1));
}

/* x * 2^n, a whole number n, where x is about 1; in one step where the result is `normal` everywhere */
static inline vf vf_times_power(vf x, vf n, bool normal) {
    vi t = vf_bits(n + 0x1.8p23f);
    return normal ? vf_of_bits((vi)((vu)vf_bits(x) + ((vu)t << 23))) : vf_scale_by(x, t - 0x4b400000);
}

/* What is left of x / log 2 above the whole number n; 1 / log 2 is in two parts. */
static inline vf vf_above_whole(vf x, vf n) {
    return vf_fma(x, vf_of(0x1.4ae0c0p-26f), vf_fma(x, vf_of(0x1.715476p+0f), -n));
}

/* Whether |x| <= limit everywhere in all of them */
static inline bool vf_ways_within(const vf *x, int ways, float limit) {
    vi size = vf_bits(x[0]) & INT32_MAX;
#pragma GCC unroll 8
    for (int way = 1; way < ways; way++)
        size = vi_max(size, vf_bits(x[way]) & INT32_MAX);
    return vf_all_within(vf_of_bits(size), limit);
}

/* Functions of several vectors go in parts, each part for all of them before the next: so the core finds
 * operations that are ready in what it sees ahead. Here 2^(x + n), of so many terms. */
static inline void vf_ways_power(vf *x, const vf *n, int ways, bool normal, int terms)
    __attribute__((always_inline));
static inline void vf_ways_power(vf *x, const vf *n, int ways, bool normal, int terms) {
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = vf_part_power(x[way], terms);
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = vf_times_power(x[way], n[way], normal);
}

static inline void vf_exp_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_exp_ways(vf *x, int ways) {
    bool normal = vf_ways_within(x, ways, 87);
    vf n[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        if (!normal) x[way] = vf_smaller(vf_of(89), vf_larger(vf_of(-104), x[way]));
        n[way] = vf_floor(x[way] * 0x1.715476p+0f);
        x[way] = vf_above_whole(x[way], n[way]);
    }
    vf_ways_power(x, n, ways, normal, 6);
}

static inline vf vf_exp(vf x) {
    vf_exp_ways(&x, 1);
    return x;
}

/* Where 2^x is 0 below and infinite above */
static inline vf vf_power_range(vf x) {
    return vf_smaller(vf_of(129), vf_larger(vf_of(-151), x));
}

static inline vf vf_exp2(vf x) {
    bool normal = vf_all_within(x, 126);
    if (!normal) x = vf_power_range(x);
    vf n = vf_floor(x);
    return vf_times_power(vf_part_power(x - n, 6), n, normal);
}

static inline void vf_powers_of_two(vf *x, int ways) __attribute__((always_inline));
static inline void vf_powers_of_two(vf *x, int ways) {
    bool normal = vf_ways_within(x, ways, 126);
    vf n[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        if (!normal) x[way] = vf_power_range(x[way]);
        n[way] = vf_floor(x[way]);
        x[way] = x[way] - n[way];
    }
    vf_ways_power(x, n, ways, normal, 5);
}

/* ---- logarithms: x = m * 2^n with m between sqrt(1/2) and sqrt(2) ---- */

/* log(x / 2^below), bits being those of x */
static inline vf vf_log_of(vi bits, vf below) {
    vi past = bits - 0x3f3504f3;
    vf r = vf_of_bits((past & 0x7fffff) + 0x3f3504f3) - 1, square = r * r, fourth = square * square;
    vf a = vf_fma(r, vf_of(0x1.555554p-2f), vf_of(-0.5f)),
       b = vf_fma(r, vf_of(0x1.99a056p-3f), vf_of(-0x1.000232p-2f));
    vf c = vf_fma(r, vf_of(0x1.22d004p-3f), vf_of(-0x1.546f36p-3f)),
       d = vf_fma(r, vf_of(0x1.05b362p-3f), vf_of(-0x1.0d9a78p-3f));
    d = vf_fma(square, vf_of(-0x1.392534p-4f), d);
    vf p = vf_fma(fourth, vf_fma(square, d, c), vf_fma(square, b, a));
    return vf_fma(vf_from_vi(past >> 23) - below, vf_of(0x1.62e430p-1f), vf_fma(square, p, r));
}

static inline vf vf_log(vf x) {
    if (vf_all_normal(x)) return vf_log_of(vf_bits(x), vf_of(0));
    vm tiny = vf_lt(x, vf_of(0x1p-126f));
    vi bits = vf_bits(vf_select(tiny, x * 0x1p23f, x));
    return vf_log_limits(x, vf_log_of(bits, vf_select(tiny, vf_of(23), vf_of(0))));
}

/* The same of the logarithm of base 2 */
static inline vf vf_log2_of(vi bits, vf below) {
    vi past = bits - 0x3f3504f3;
    vf r = vf_of_bits((past & 0x7fffff) + 0x3f3504f3) - 1, square = r * r;
    vf a = vf_fma(r, vf_of(0x1.ec71fep-2f), vf_of(-0x1.715476p-1f));
    vf b = vf_fma(r, vf_of(0x1.273ca4p-2f), vf_of(-0x1.7156d0p-2f));
    vf c = vf_fma(r, vf_of(0x1.ab38f4p-3f), vf_of(-0x1.eb179cp-3f));
    vf d = vf_fma(r, vf_of(0x1.521abep-3f), vf_of(-0x1.8b6618p-3f));
    d = vf_fma(square, vf_of(-0x1.5181cep-4f), d);
    vf p = vf_fma(square * square, vf_fma(square, d, c), vf_fma(square, b, a));
    return vf_fma(r, vf_fma(r, p, vf_of(0x1.715476p+0f)), vf_from_vi(past >> 23) - below);
}

static inline vf vf_log2(vf x) {
    if (vf_all_normal(x)) return vf_log2_of(vf_bits(x), vf_of(0));
    vm tiny = vf_lt(x, vf_of(0x1p-126f));
    vi bits = vf_bits(vf_select(tiny, x * 0x1p23f, x));
    return vf_log_limits(x, vf_log2_of(bits, vf_select(tiny, vf_of(23), vf_of(0))));
}

/* ---- logistic functions: of / (1 + 2^y) ----
 *
 * A biased exponent of 255 makes an infinity, whose share is 0; one of 27 nothing beside 1. */

/* 2^n, n whole and -126 .. 128 */
static inline vf vf_power(vf n) {
    return vf_of_bits((vi)((vu)vf_bits(n + (0x1.8p23f + 127)) << 23));
}

/* Each of x by 1 + 2^(n + r), of so many terms */
static inline void vf_ways_shared(vf *x, const vf *n, vf *r, int ways, int terms)
    __attribute__((always_inline));
static inline void vf_ways_shared(vf *x, const vf *n, vf *r, int ways, int terms) {
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        r[way] = vf_part_power(r[way], terms);
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = x[way] / vf_fma(r[way], vf_power(n[way]), vf_of(1));
}

/* 1, or `times` x, by 1 + e^-x, which is infinite below -89 and no larger further out; not `full`: of
 * fewer terms. */
static inline void vf_logistic_ways(vf *x, int ways, bool times, bool full) __attribute__((always_inline));
static inline void vf_logistic_ways(vf *x, int ways, bool times, bool full) {
    vf n[HR_WAYS_MOST], r[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        vf inside = vf_larger(vf_of(-89), x[way]);
        vf y = full ? vf_larger(vf_of(-69), -inside) : vf_larger(vf_of(-100), inside * -0x1.715476p+0f);
        n[way] = vf_floor(full ? y * 0x1.715476p+0f : y);
        r[way] = full ? vf_above_whole(y, n[way]) : y - n[way];
        x[way] = times ? inside : vf_of(1);
    }
    vf_ways_shared(x, n, r, ways, full ? 6 : 5);
}

static inline void vf_sigmoid_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_sigmoid_ways(vf *x, int ways) {
    vf_logistic_ways(x, ways, false, true);
}

static inline void vf_silu_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_silu_ways(vf *x, int ways) {
    vf_logistic_ways(x, ways, true, true);
}

static inline vf vf_sigmoid(vf x) {
    vf_sigmoid_ways(&x, 1);
    return x;
}

static inline vf vf_silu(vf x) {
    vf_silu_ways(&x, 1);
    return x;
}

/* Of math_narrow.h */
static inline void vf_shares(vf *x, int ways, bool times) __attribute__((always_inline));
static inline void vf_shares(vf *x, int ways, bool times) {
    vf_logistic_ways(x, ways, times, false);
}

/* x / (1 + 2^y), of so many terms */
static inline void vf_ways_beside(vf *x, const vf *y, int ways, int terms) __attribute__((always_inline));
static inline void vf_ways_beside(vf *x, const vf *y, int ways, int terms) {
    vf n[HR_WAYS_MOST], r[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        vf inside = vf_smaller(vf_of(128), vf_larger(vf_of(-100), y[way]));
        n[way] = vf_floor(inside);
        r[way] = inside - n[way];
        x[way] = vf_larger(vf_of(-120), x[way]);
    }
    vf_ways_shared(x, n, r, ways, terms);
}

/* x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline void vf_gelu_tanh_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_gelu_tanh_ways(vf *x, int ways) {
    vf y[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        y[way] = x[way] * vf_fma(x[way] * x[way], vf_of(-0x1.a5a7d0p-4f), vf_of(-0x1.26aec2p+1f));
    vf_ways_beside(x, y, ways, 5);
}

static inline vf vf_gelu_tanh(vf x) {
    vf_gelu_tanh_ways(&x, 1);
    return x;
}

/* x F(x) by the logarithm of 1/F - 1, an odd function: a polynomial up to 5, from there on a straight line.
 */
static inline vf vf_gelu_exponent(vf x) {
    vf square = vf_smaller(vf_of(25), x * x), fourth = square * square;
    vf a = vf_fma(square, vf_of(-0x1.ad68a6p-4f), vf_of(-0x1.26aecap+1f)),
       b = vf_fma(square, vf_of(0x1.4c494ap-13f), vf_of(0x1.918008p-14f));
    vf c = vf_fma(square, vf_of(0x1.559476p-22f), vf_of(-0x1.736496p-17f)),
       d = vf_fma(square, vf_of(-0x1.1365c2p-32f), vf_of(0x1.5eaf54p-31f));
    d = vf_fma(fourth, vf_of(0x1.22e742p-38f), d);
    return x * vf_fma(fourth * fourth, vf_fma(fourth, d, c), vf_fma(fourth, b, a));
}

static inline void vf_gelu_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_gelu_ways(vf *x, int ways) {
    vf y[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        y[way] = vf_gelu_exponent(x[way]);
    vf_ways_beside(x, y, ways, 6);
}

static inline vf vf_gelu(vf x) {
    vf_gelu_ways(&x, 1);
    return x;
}

/* ---- odd functions: a polynomial near 0, further out 1 less what is missing ---- */

/* `near` where |x| < limit, else `far` with the sign of x */
static inline vf vf_odd(vf x, float limit, vf near, vf far) {
    vf size = vf_of_bits(vf_bits(x) & INT32_MAX);
    return vf_of_bits(vf_bits(vf_select(size < vf_of(limit), near, far)) | (vf_bits(x) & INT32_MIN));
}

/* Near 0, x being inside */
static inline vf vf_tanh_near(vf x) {
    vf square = x * x, fourth = square * square;
    vf a = vf_fma(square, vf_of(0x1.110688p-3f), vf_of(-0x1.555530p-2f));
    vf b = vf_fma(square, vf_of(0x1.51971ap-6f), vf_of(-0x1.b826fep-5f));
    vf p = vf_fma(fourth, vf_fma(fourth, vf_of(-0x1.734efep-8f), b), a);
    return vf_fma(p * square, x, x);
}

static inline void vf_tanh_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_tanh_ways(vf *x, int ways) {
    vf far[HR_WAYS_MOST], n[HR_WAYS_MOST], r[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        vf y = vf_smaller(vf_of(10), vf_of_bits(vf_bits(x[way]) & INT32_MAX)) * 0x1.715476p+1f;
        n[way] = vf_floor(y);
        r[way] = y - n[way];
        far[way] = vf_of(2);
    }
    vf_ways_shared(far, n, r, ways, 6);
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = vf_odd(x[way], 0.625f, vf_tanh_near(x[way]), 1 - far[way]);
}

static inline vf vf_tanh(vf x) {
    vf_tanh_ways(&x, 1);
    return x;
}

static inline vf vf_erf_near(vf x) {
    vf square = x * x, fourth = square * square;
    vf a = vf_fma(square, vf_of(-0x1.812740p-2f), vf_of(0x1.06eba8p-3f));
    vf b = vf_fma(square, vf_of(-0x1.b8044ap-6f), vf_of(0x1.ce2d74p-4f));
    vf c = vf_fma(square, vf_of(-0x1.a99294p-11f), vf_of(0x1.5482a0p-8f));
    vf d = vf_fma(square, vf_of(-0x1.217f0ap-19f), vf_of(0x1.6981f6p-14f));
    vf p = vf_fma(fourth * fourth, vf_fma(fourth, d, c), vf_fma(fourth, b, a));
    return vf_fma(p, x, x);
}

/* The logarithm of erfc is almost a parabola. */
static inline vf vf_erf_exponent(vf size) {
    vf inside = vf_smaller(vf_of(4), size), inside_2 = inside * inside;
    vf e = vf_fma(inside, vf_of(-0x1.a053e4p+0f), vf_of(-0x1.c67b2cp-12f));
    vf f = vf_fma(inside, vf_of(-0x1.314b86p-3f), vf_of(-0x1.d72dbcp-1f));
    vf g = vf_fma(inside, vf_of(-0x1.190a5ep-8f), vf_of(0x1.034de6p-5f));
    g = vf_fma(inside_2, vf_of(0x1.1da68ep-12f), g);
    return vf_fma(inside_2, vf_fma(inside_2, g, f), e);
}

static inline void vf_erf_ways(vf *x, int ways) __attribute__((always_inline));
static inline void vf_erf_ways(vf *x, int ways) {
    vf far[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        far[way] = vf_erf_exponent(vf_of_bits(vf_bits(x[way]) & INT32_MAX));
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        vf n = vf_floor(far[way]);
        far[way] = vf_fma(-vf_part_power(far[way] - n, 6), vf_power(n), vf_of(1));
    }
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = vf_odd(x[way], 1, vf_erf_near(x[way]), far[way]);
}

static inline vf vf_erf(vf x) {
    vf_erf_ways(&x, 1);
    return x;
}

/* Of second order from vrsqrtps, which is good to 1.5 * 2^-12. */
static inline vf vf_rsqrt(vf x) {
    if (!vf_all_normal(x)) return 1 / vf_sqrt(x);
    vf near;
    __asm__("vrsqrtps %1, %0" : "=x"(near) : "x"(x));
    vf error = vf_fma(-(x * near), near, vf_of(1));
    return vf_fma(near * error, vf_fma(error, vf_of(0.375f), vf_of(0.5f)), near);
}
