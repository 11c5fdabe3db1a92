/* Sine and cosine: exact libm for scalars and for lanes far from 0. */
static inline float f32_sin(float x) {
    return sinf(x);
}

static inline float f32_cos(float x) {
    return cosf(x);
}

/* sin(x + quarter * pi/2), |x| <= 65536: pi/2 is taken off in three parts. Lanes that lie further out are
 * left to libm, and so are all without FMA, where the products would not be exact. */
static inline vf vf_sin_shifted(vf x, int quarter) {
    vf t = vf_fma(x, vf_of(0x1.45f306p-1f), vf_of(0x1.8p23f)), n = t - 0x1.8p23f;
    vf r = vf_fma(n, vf_of(-0x1.921fb4p+0f), x);
    r = vf_fma(n, vf_of(-0x1.4442d2p-24f), r);
    r = vf_fma(n, vf_of(0x1.ee59dap-50f), r);
    vf square = r * r, s = vf_of(0x1.7c345ep-19f), c = vf_of(0x1.99e810p-16f);
    s = vf_fma(s, square, vf_of(-0x1.a05964p-13f));
    s = vf_fma(s, square, vf_of(0x1.111174p-7f));
    s = vf_fma(s, square, vf_of(-0x1.555556p-3f));
    s = vf_fma(s * square, r, r);
    c = vf_fma(c, square, vf_of(-0x1.6c0c28p-10f));
    c = vf_fma(c, square, vf_of(0x1.55554ap-5f));
    c = vf_fma(vf_fma(c, square, vf_of(-0.5f)), square, vf_of(1));
    vi quadrant = vf_bits(t) + quarter;
    vf value = vf_select(vm_from_vi(quadrant & 1), c, s);
    return vf_of_bits(vf_bits(value) ^ (vi)((vu)(quadrant & 2) << 30));
}

static inline bool vf_all_near(vf x) {
#if HR_AVX2
    return vf_all_within(x, 65536);
#elif defined __FMA__
    return vi_fold_max(vf_bits(x) & INT32_MAX) <= 0x47800000; /* 65536 */
#else
    (void)x;
    return false;
#endif
}

static inline vf vf_sin(vf x) {
    if (vf_all_near(x)) return vf_sin_shifted(x, 0);
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_sin(x[lane]);
    return x;
}

static inline vf vf_cos(vf x) {
    if (vf_all_near(x)) return vf_sin_shifted(x, 1);
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_cos(x[lane]);
    return x;
}
