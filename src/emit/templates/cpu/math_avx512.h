/* Special functions on AVX-512: tables of 32 in two registers, looked up by vpermi2ps, shorten the
 * polynomials.
 *
 * The tables and coefficients come from tools/fit_prelude.py. Infinities and NaN mostly take care of
 * themselves: vscalefps turns NaN * 2^inf into inf and NaN * 2^-inf into 0, vgetexpps and vgetmantps know 0,
 * inf and signs.
 */
/* a * 2^floor(n), in one rounding */
static inline vf vf_scale(vf a, vf n) {
    vf r;
    __asm__("vscalefps %2, %1, %0" : "=v"(r) : "v"(a), "v"(n));
    return r;
}

/* table[index % 32], the index in the lowest bits of each lane */
static inline vf vf_pick(const float *table, vi index) {
    vf r = (vf)index;
    __asm__("vpermi2ps %2, %1, %0" : "+v"(r) : "v"(vf_load_f32(table)), "v"(vf_load_f32(table + 16)));
    return r;
}

/* To within 2^-14 */
static inline vf vf_near_reciprocal(vf x) {
    vf r;
    __asm__("vrcp14ps %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vf vf_exponent(vf x) {
    vf r;
    __asm__("vgetexpps %1, %0" : "=v"(r) : "v"(x));
    return r;
}

/* The significand in [1, 2); NaN where x < 0 */
static inline vf vf_significand(vf x) {
    vf r;
    __asm__("vgetmantps $8, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

/* 2^(i/32) */
static const float exp2_table[32] __attribute__((aligned(64))) = {
    0x1.000000p+0f,        0x1.059b0d3158574p+0f, 0x1.0b5586cf9890fp+0f, 0x1.11301d0125b51p+0f,
    0x1.172b83c7d517bp+0f, 0x1.1d4873168b9aap+0f, 0x1.2387a6e756238p+0f, 0x1.29e9df51fdee1p+0f,
    0x1.306fe0a31b715p+0f, 0x1.371a7373aa9cbp+0f, 0x1.3dea64c123422p+0f, 0x1.44e086061892dp+0f,
    0x1.4bfdad5362a27p+0f, 0x1.5342b569d4f82p+0f, 0x1.5ab07dd485429p+0f, 0x1.6247eb03a5585p+0f,
    0x1.6a09e667f3bcdp+0f, 0x1.71f75e8ec5f74p+0f, 0x1.7a11473eb0187p+0f, 0x1.82589994cce13p+0f,
    0x1.8ace5422aa0dbp+0f, 0x1.93737b0cdc5e5p+0f, 0x1.9c49182a3f090p+0f, 0x1.a5503b23e255dp+0f,
    0x1.ae89f995ad3adp+0f, 0x1.b7f76f2fb5e47p+0f, 0x1.c199bdd85529cp+0f, 0x1.cb720dcef9069p+0f,
    0x1.d5818dcfba487p+0f, 0x1.dfc97337b9b5fp+0f, 0x1.ea4afa2a490dap+0f, 0x1.f50765b6e4540p+0f};

/* x = n ln2 + r with 32 n whole: e^x = 2^floor(n) * 2^(n - floor(n)) * e^r. Adding 1.5 * 2^18 rounds to 1/32.
 */
static inline vf vf_exp(vf x) {
    x = vf_larger(vf_of(-200), x);
    vf t = vf_fma(x, vf_of(0x1.715476p+0f), vf_of(0x1.8p18f)), n = t - 0x1.8p18f;
    vf r = vf_fma(n, vf_of(0x1.05c610p-29f), vf_fma(n, vf_of(-0x1.62e430p-1f), x));
    vf power = vf_pick(exp2_table, (vi)t);
    vf rest = r * vf_fma(r, vf_of(0x1.000096p-1f), vf_of(0x1.0000f6p+0f));
    return vf_scale(vf_fma(power, rest, power), n);
}

/* x less the whole number below it */
static inline vf vf_past_whole(vf x) {
    vf r;
    __asm__("vreduceps $9, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

/* 2^t to within 8.2e-8 of itself, in seven operations, none of them bound to one port */
static inline void vf_powers_of_two(vf *t, int ways) __attribute__((always_inline));
static inline void vf_powers_of_two(vf *t, int ways) {
    static const float terms[] = {0x1.27784fp-7f, 0x1.c91ce8p-5f, 0x1.ebdb56p-3f, 0x1.62e4bap-1f, 1};
    vf r[HR_WAYS_MOST], p[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        r[way] = vf_past_whole(t[way]), p[way] = vf_of(0x1.e9750fp-10f);
#pragma GCC unroll 8
    for (int term = 0; term < 5; term++)
#pragma GCC unroll 8
        for (int way = 0; way < ways; way++)
            p[way] = vf_fma(r[way], p[way], vf_of(terms[term]));
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        t[way] = vf_scale(p[way], t[way]);
}

static inline vf vf_exp2(vf x) {
    vf r;
    __asm__("vreduceps $0x50, %1, %0" : "=v"(r) : "v"(x));
    vf t = x + 0x1.8p18f, power = vf_pick(exp2_table, (vi)t);
    vf rest = r * vf_fma(r, vf_of(0x1.ebfd18p-3f), vf_of(0x1.62e584p-1f));
    return vf_scale(vf_fma(power, rest, power), t - 0x1.8p18f);
}

/* 1/m in the middle of each 32nd of [1, 2), chosen so that its logarithm is almost an f32. The first cell is
 * exact at 1; the last is measured from 2, where it cancels against the exponent -1. */
static const float log_inverse[32] __attribute__((aligned(64))) = {
    0x1.000000p+0f, 0x1.e9108ap-1f, 0x1.dae26cp-1f, 0x1.cd9256p-1f, 0x1.c0f664p-1f, 0x1.b4f388p-1f,
    0x1.a9885ep-1f, 0x1.9ec00ap-1f, 0x1.94a160p-1f, 0x1.8ad852p-1f, 0x1.8193acp-1f, 0x1.78a7f4p-1f,
    0x1.702518p-1f, 0x1.680344p-1f, 0x1.6062bep-1f, 0x1.58fe20p-1f, 0x1.51e5bap-1f, 0x1.4b0196p-1f,
    0x1.44859cp-1f, 0x1.3e3290p-1f, 0x1.3822bap-1f, 0x1.32331ep-1f, 0x1.2cb5a4p-1f, 0x1.272370p-1f,
    0x1.21fda4p-1f, 0x1.1cfcc8p-1f, 0x1.18085cp-1f, 0x1.135d42p-1f, 0x1.0ebd74p-1f, 0x1.0a54e0p-1f,
    0x1.06131ep-1f, 0x1.000000p-1f};

/* minus the logarithm of log_inverse */
static const float log_table[32] __attribute__((aligned(64))) = {0,
                                                                 0x1.777088p-5f,
                                                                 0x1.343c96p-4f,
                                                                 0x1.a8b41ap-4f,
                                                                 0x1.0d13c2p-3f,
                                                                 0x1.449d2ap-3f,
                                                                 0x1.7ad84cp-3f,
                                                                 0x1.af6864p-3f,
                                                                 0x1.e1ff84p-3f,
                                                                 0x1.0a113ap-2f,
                                                                 0x1.2263e0p-2f,
                                                                 0x1.3a5c26p-2f,
                                                                 0x1.51c3aep-2f,
                                                                 0x1.68a33ap-2f,
                                                                 0x1.7e908cp-2f,
                                                                 0x1.9446d4p-2f,
                                                                 0x1.a98e70p-2f,
                                                                 0x1.bea7f2p-2f,
                                                                 0x1.d2ea36p-2f,
                                                                 0x1.e71168p-2f,
                                                                 0x1.fac398p-2f,
                                                                 0x1.073670p-1f,
                                                                 0x1.1079e0p-1f,
                                                                 0x1.1a0cf6p-1f,
                                                                 0x1.230f38p-1f,
                                                                 0x1.2bf868p-1f,
                                                                 0x1.34f342p-1f,
                                                                 0x1.3d8ec0p-1f,
                                                                 0x1.463a8ep-1f,
                                                                 0x1.4ea264p-1f,
                                                                 0x1.56e248p-1f,
                                                                 0x1.62e430p-1f};

static inline vf vf_log(vf x) {
    vf m = vf_significand(x), n = vf_exponent(x);
    vi cell = (vi)((vu)m >> 18);
    vf r = vf_fma(m, vf_pick(log_inverse, cell), vf_of(-1));
    vf whole = vf_fma(n, vf_of(0x1.62e430p-1f), vf_pick(log_table, cell));
    vf p = vf_fma(r, vf_of(-0x1.f39212p-3f), vf_of(0x1.555deap-2f));
    p = vf_fma(r, vf_fma(r, p, vf_of(-0x1.00002ap-1f)), vf_of(0x1.p+0f));
    return vf_fma(r, p, whole);
}

static const float log2_inverse[32] __attribute__((aligned(64))) = {
    0x1.000000p+0f, 0x1.e92932p-1f, 0x1.daf51ep-1f, 0x1.cd74cep-1f, 0x1.c0d48cp-1f, 0x1.b4d4c6p-1f,
    0x1.a999c0p-1f, 0x1.9edc2ep-1f, 0x1.9484fep-1f, 0x1.8abf1cp-1f, 0x1.818ad6p-1f, 0x1.78a438p-1f,
    0x1.703228p-1f, 0x1.682a30p-1f, 0x1.606114p-1f, 0x1.58ddbcp-1f, 0x1.51df0ap-1f, 0x1.4b142cp-1f,
    0x1.446a9ap-1f, 0x1.3e332ep-1f, 0x1.380a42p-1f, 0x1.324d08p-1f, 0x1.2c9a9ep-1f, 0x1.2738bcp-1f,
    0x1.21e7cep-1f, 0x1.1cd8fcp-1f, 0x1.17fcbep-1f, 0x1.1350fep-1f, 0x1.0ecfdap-1f, 0x1.0a55e0p-1f,
    0x1.0613ccp-1f, 0x1.000000p-1f};

static const float log2_table[32] __attribute__((aligned(64))) = {0,
                                                                  0x1.0da8a6p-4f,
                                                                  0x1.bbc868p-4f,
                                                                  0x1.3318ecp-3f,
                                                                  0x1.851104p-3f,
                                                                  0x1.d521a6p-3f,
                                                                  0x1.110b0ap-2f,
                                                                  0x1.36cdaep-2f,
                                                                  0x1.5c17cep-2f,
                                                                  0x1.8038f4p-2f,
                                                                  0x1.a313a0p-2f,
                                                                  0x1.c59530p-2f,
                                                                  0x1.e71614p-2f,
                                                                  0x1.03d54ap-1f,
                                                                  0x1.13f9c6p-1f,
                                                                  0x1.23e51ap-1f,
                                                                  0x1.3307fap-1f,
                                                                  0x1.420840p-1f,
                                                                  0x1.510c4ep-1f,
                                                                  0x1.5f56f6p-1f,
                                                                  0x1.6dc77ap-1f,
                                                                  0x1.7b7dcep-1f,
                                                                  0x1.895bf6p-1f,
                                                                  0x1.96b472p-1f,
                                                                  0x1.a42098p-1f,
                                                                  0x1.b120d4p-1f,
                                                                  0x1.bdd736p-1f,
                                                                  0x1.ca4470p-1f,
                                                                  0x1.d673d8p-1f,
                                                                  0x1.e2c3b4p-1f,
                                                                  0x1.eeab60p-1f,
                                                                  0x1.000000p+0f};

static inline vf vf_log2(vf x) {
    vf m = vf_significand(x), n = vf_exponent(x);
    vi cell = (vi)((vu)m >> 18);
    vf r = vf_fma(m, vf_pick(log2_inverse, cell), vf_of(-1));
    vf whole = n + vf_pick(log2_table, cell);
    vf p = vf_fma(r, vf_of(-0x1.6bc228p-2f), vf_of(0x1.ec905ep-2f));
    p = vf_fma(r, vf_fma(r, p, vf_of(-0x1.715488p-1f)), vf_of(0x1.715476p+0f));
    return vf_fma(r, p, whole);
}

/* ---- piecewise polynomials ---- */

static const float tanh_table_0[32] __attribute__((aligned(64))) = {0,
                                                                    0x1.1b9498p-2f,
                                                                    0x1.076190p-1f,
                                                                    0x1.62a5fcp-1f,
                                                                    0x1.a08960p-1f,
                                                                    0x1.c7aa6ep-1f,
                                                                    0x1.df5222p-1f,
                                                                    0x1.ed3c52p-1f,
                                                                    0x1.f54a1ep-1f,
                                                                    0x1.f9e854p-1f,
                                                                    0x1.fc8a8cp-1f,
                                                                    0x1.fe09e0p-1f,
                                                                    0x1.fee370p-1f,
                                                                    0x1.ff5ecap-1f,
                                                                    0x1.ffa4b0p-1f,
                                                                    0x1.ffcc4ap-1f,
                                                                    0x1.ffe2b8p-1f,
                                                                    0x1.ffef6ap-1f,
                                                                    0x1.fff69cp-1f,
                                                                    0x1.fffaaep-1f,
                                                                    0x1.fffcfep-1f,
                                                                    0x1.fffe4cp-1f,
                                                                    0x1.ffff08p-1f,
                                                                    0x1.ffff74p-1f,
                                                                    0x1.ffffb0p-1f,
                                                                    0x1.ffffd4p-1f,
                                                                    0x1.ffffe6p-1f,
                                                                    0x1.fffff2p-1f,
                                                                    0x1.fffff8p-1f,
                                                                    0x1.fffffcp-1f,
                                                                    0x1.fffffep-1f,
                                                                    0x1.000000p+0f};

static const float tanh_table_1[32]
    __attribute__((aligned(64))) = {0x1.000000p+0f,  0x1.d8bbcep-1f,  0x1.788330p-1f,  0x1.0a5846p-1f,
                                    0x1.5a4140p-2f,  0x1.a9e178p-3f,  0x1.fa2e24p-4f,  0x1.26ba74p-4f,
                                    0x1.532694p-5f,  0x1.839920p-6f,  0x1.b93b06p-7f,  0x1.f52994p-8f,
                                    0x1.1c4194p-8f,  0x1.423972p-9f,  0x1.6d1d6ap-10f, 0x1.9d9e6ap-11f,
                                    0x1.d4813ap-12f, 0x1.09513ap-12f, 0x1.2c7d3ap-13f, 0x1.5450c6p-14f,
                                    0x1.816a4cp-15f, 0x1.b47d04p-16f, 0x1.ee53c4p-17f, 0x1.17ea1cp-17f,
                                    0x1.3d012ep-18f, 0x1.670256p-19f, 0x1.969448p-20f, 0x1.cc73d2p-21f,
                                    0x1.04bb62p-21f, 0x1.2747a4p-22f, 0x1.4e67c6p-23f, 0};

static const float tanh_table_2[32]
    __attribute__((aligned(64))) = {0x1.3d5e28p-21f,  -0x1.05d0d2p-2f,  -0x1.835a66p-2f,  -0x1.70fde0p-2f,
                                    -0x1.19b3aap-2f,  -0x1.7b0730p-3f,  -0x1.d9db18p-4f,  -0x1.1bead0p-4f,
                                    -0x1.4c161ap-5f,  -0x1.7eff58p-6f,  -0x1.b620ecp-7f,  -0x1.f31650p-8f,
                                    -0x1.1c23eap-8f,  -0x1.41fb32p-9f,  -0x1.6b5194p-10f, -0x1.9ff9f4p-11f,
                                    -0x1.df935ep-12f, -0x1.0145dap-12f, -0x1.2c744ap-13f, -0x1.318c3ep-14f,
                                    -0x1.d388bep-15f, -0x1.0a4dacp-15f, -0x1.4e93fcp-18f, -0x1.074986p-17f,
                                    0x1.0d2a0ep-18f,  -0x1.b0b58ap-17f, 0x1.674b46p-18f,  -0x1.6a32aap-18f,
                                    -0x1.28b664p-19f, -0x1.f2ee6ep-18f, -0x1.e9fb9ep-18f, 0};

static const float tanh_table_3[32]
    __attribute__((aligned(64))) = {-0x1.555f12p-2f, -0x1.e569b8p-3f, -0x1.9dce20p-5f, 0x1.380682p-4f,
                                    0x1.c70150p-4f,  0x1.86b7e4p-4f,  0x1.12e734p-4f,  0x1.5e8feep-5f,
                                    0x1.a81d54p-6f,  0x1.f275bep-7f,  0x1.203612p-7f,  0x1.4a4734p-8f,
                                    0x1.788a38p-9f,  0x1.ac0b78p-10f, 0x1.e5cf16p-11f, 0x1.136a38p-11f,
                                    0x1.381f00p-12f, 0x1.619fe4p-13f, 0x1.9091b8p-14f, 0x1.c5b496p-15f,
                                    0x1.00ec22p-15f, 0x1.22f9d4p-16f, 0x1.498c3ep-17f, 0x1.7535bep-18f,
                                    0x1.a6acd2p-19f, 0x1.deab26p-20f, 0x1.0f0d42p-20f, 0x1.32f708p-21f,
                                    0x1.5ba482p-22f, 0x1.89b23ep-23f, 0x1.bddf06p-24f, 0};

static const float tanh_table_4[32]
    __attribute__((aligned(64))) = {0x1.6b1f0cp-11f,  0x1.309182p-3f,   0x1.34810ap-3f,   0x1.1725aep-4f,
                                    0x1.08ac86p-9f,   -0x1.76b432p-6f,  -0x1.90012ep-6f,  -0x1.2ac56ep-6f,
                                    -0x1.7e43dep-7f,  -0x1.d90d52p-8f,  -0x1.24f6dap-8f,  -0x1.5553aep-9f,
                                    -0x1.1341d6p-10f, -0x1.8cd172p-11f, -0x1.8b13dap-11f, -0x1.ae1020p-16f,
                                    0x1.8b42dap-12f,  -0x1.e40024p-12f, -0x1.942d30p-15f, -0x1.c94688p-12f,
                                    0x1.ea9c2ap-12f,  0x1.1f6a36p-12f,  -0x1.fd985cp-12f, -0x1.c91828p-16f,
                                    -0x1.c5b89ap-12f, 0x1.0806f4p-11f,  -0x1.64044ep-12f, 0x1.d54a7ap-13f,
                                    0x1.6470b8p-14f,  0x1.72751ap-12f,  0x1.71c57ep-12f,  0};

static const float tanh_table_5[32]
    __attribute__((aligned(64))) = {0x1.083af0p-3f,  0x1.eb3a24p-5f,  -0x1.717d42p-5f, -0x1.e8b020p-5f,
                                    -0x1.f40422p-6f, -0x1.b15aecp-8f, 0x1.89cf18p-9f,  0x1.372260p-8f,
                                    0x1.fd7e4cp-9f,  0x1.55fde0p-9f,  0x1.a87c54p-10f, 0x1.f84d9ep-11f,
                                    0x1.269674p-11f, 0x1.5299d6p-12f, 0x1.812480p-13f, 0x1.b90a06p-14f,
                                    0x1.f571dcp-15f, 0x1.1a8264p-15f, 0x1.407384p-16f, 0x1.6a5b0ep-17f,
                                    0x1.9d4878p-18f, 0x1.d42f7ep-19f, 0x1.07688cp-19f, 0x1.2bd4c0p-20f,
                                    0x1.51d3eap-21f, 0x1.81627cp-22f, 0x1.b26428p-23f, 0x1.ed4b7ep-24f,
                                    0x1.16c44ap-24f, 0x1.3d4610p-25f, 0x1.66273cp-26f, 0};

/* |x| is cut at the last of 32 points 0x1.232ed8p-2f apart; a polynomial about the nearest. */
static inline vf vf_tanh(vf x) {
    vf size = vf_smaller(vf_of(31 * 0x1.232ed8p-2f), vf_of_bits(vf_bits(x) & INT32_MAX));
    vf t = vf_fma(size, vf_of(0x1.c222dep+1f), vf_of(0x1.8p23f));
    vf r = vf_fma(t - 0x1.8p23f, vf_of(-0x1.232ed8p-2f), size);
    vf p = vf_fma(vf_pick(tanh_table_5, (vi)t), r, vf_pick(tanh_table_4, (vi)t));
    p = vf_fma(p, r, vf_pick(tanh_table_3, (vi)t));
    p = vf_fma(p, r, vf_pick(tanh_table_2, (vi)t));
    p = vf_fma(p, r, vf_pick(tanh_table_1, (vi)t));
    p = vf_fma(p, r, vf_pick(tanh_table_0, (vi)t));
    return vf_of_bits(vf_bits(p) | (vf_bits(x) & INT32_MIN));
}

static const float erf_table_0[32] __attribute__((aligned(64))) = {0,
                                                                   0x1.215e3ep-3f,
                                                                   0x1.1cddd4p-2f,
                                                                   0x1.a0762cp-2f,
                                                                   0x1.0c136ep-1f,
                                                                   0x1.40d040p-1f,
                                                                   0x1.6dd77cp-1f,
                                                                   0x1.93176ap-1f,
                                                                   0x1.b0f294p-1f,
                                                                   0x1.c82212p-1f,
                                                                   0x1.d99404p-1f,
                                                                   0x1.e64bb4p-1f,
                                                                   0x1.ef4742p-1f,
                                                                   0x1.f56cf2p-1f,
                                                                   0x1.f98062p-1f,
                                                                   0x1.fc1eb6p-1f,
                                                                   0x1.fdbff0p-1f,
                                                                   0x1.febb90p-1f,
                                                                   0x1.ff4e94p-1f,
                                                                   0x1.ffa1d0p-1f,
                                                                   0x1.ffcf78p-1f,
                                                                   0x1.ffe7bap-1f,
                                                                   0x1.fff438p-1f,
                                                                   0x1.fffa74p-1f,
                                                                   0x1.fffd78p-1f,
                                                                   0x1.fffee0p-1f,
                                                                   0x1.ffff84p-1f,
                                                                   0x1.ffffccp-1f,
                                                                   0x1.ffffecp-1f,
                                                                   0x1.fffff8p-1f,
                                                                   0x1.fffffcp-1f,
                                                                   0x1.000000p+0f};

static const float erf_table_1[32] __attribute__((aligned(64))) = {
    0x1.06eba8p-3f,  0x1.c52eaap-4f,  0x1.e3f9b0p-5f,  -0x1.61c2e4p-6f, -0x1.fd30c2p-4f, -0x1.ecf432p-3f,
    -0x1.72d8d6p-2f, -0x1.ec7058p-2f, -0x1.2e71e6p-1f, -0x1.5fee18p-1f, -0x1.898b30p-1f, -0x1.ab12d2p-1f,
    -0x1.c5030ap-1f, -0x1.d84e62p-1f, -0x1.e61f6ep-1f, -0x1.efa806p-1f, -0x1.f5ffe6p-1f, -0x1.fa1262p-1f,
    -0x1.fc986ep-1f, -0x1.fe1b10p-1f, -0x1.fefa9ap-1f, -0x1.ff777ep-1f, -0x1.ffbaf0p-1f, -0x1.ffde26p-1f,
    -0x1.ffefeep-1f, -0x1.fff89ap-1f, -0x1.fffcb4p-1f, -0x1.fffe94p-1f, -0x1.ffff68p-1f, -0x1.ffffc2p-1f,
    -0x1.ffffe8p-1f, -0x1.000000p+0f};

static const float erf_table_2[32]
    __attribute__((aligned(64))) = {0x1.01ccb8p-21f,  -0x1.1e52f2p-3f,  -0x1.110272p-2f,  -0x1.7a60a4p-2f,
                                    -0x1.c38bc8p-2f,  -0x1.e95402p-2f,  -0x1.ed4644p-2f,  -0x1.d46e92p-2f,
                                    -0x1.a60b24p-2f,  -0x1.6aa692p-2f,  -0x1.2a38fep-2f,  -0x1.d67bd4p-3f,
                                    -0x1.64745cp-3f,  -0x1.03d4dcp-3f,  -0x1.6ce6a2p-4f,  -0x1.ee2e08p-5f,
                                    -0x1.41e556p-5f,  -0x1.96b0bap-6f,  -0x1.ec32c2p-7f,  -0x1.218da2p-7f,
                                    -0x1.4b0e32p-8f,  -0x1.645770p-9f,  -0x1.739e64p-10f, -0x1.822c82p-11f,
                                    -0x1.ab00bap-12f, -0x1.2f9de2p-13f, -0x1.dc1d86p-15f, -0x1.217eecp-17f,
                                    -0x1.142ab0p-14f, -0x1.1ce8ecp-16f, 0x1.a6696cp-15f,  0};

static const float erf_table_3[32]
    __attribute__((aligned(64))) = {-0x1.81314ep-2f, -0x1.6f1632p-2f, -0x1.3b96d4p-2f, -0x1.dd8b4ep-3f,
                                    -0x1.26d06ap-3f, -0x1.ae5022p-5f, 0x1.eb4746p-6f,  0x1.87bb5ep-4f,
                                    0x1.1f4b38p-3f,  0x1.4e79dcp-3f,  0x1.568ceep-3f,  0x1.40eaf0p-3f,
                                    0x1.184a3ep-3f,  0x1.cd19f8p-4f,  0x1.67a9b8p-4f,  0x1.0b397cp-4f,
                                    0x1.7b8356p-5f,  0x1.020360p-5f,  0x1.50e7fap-6f,  0x1.a534d8p-7f,
                                    0x1.fb676ap-8f,  0x1.262ffcp-8f,  0x1.497590p-9f,  0x1.61c946p-10f,
                                    0x1.7ce528p-11f, 0x1.5c5eb2p-12f, 0x1.5997c2p-13f, 0x1.6c9390p-14f,
                                    0x1.79e0bap-15f, 0x1.5c1aa6p-17f, 0x1.9b2078p-17f, 0};

static const float erf_table_4[32]
    __attribute__((aligned(64))) = {0x1.01a9e0p-10f,  0x1.1ad532p-4f,  0x1.f405c0p-4f,  0x1.62d5f4p-3f,
                                    0x1.8b318cp-3f,   0x1.525622p-3f,  0x1.1f0928p-3f,  0x1.efb036p-4f,
                                    0x1.0229aap-4f,   0x1.005b9ep-6f,  -0x1.16f676p-7f, -0x1.3c9dc2p-6f,
                                    -0x1.4eeddcp-5f,  -0x1.911e9ap-5f, -0x1.629636p-5f, -0x1.d3da2ep-6f,
                                    -0x1.6f76bap-5f,  -0x1.ce76b6p-7f, -0x1.e98920p-6f, -0x1.fd99c4p-7f,
                                    -0x1.84fe36p-12f, -0x1.c103c8p-7f, -0x1.b97b6ap-7f, -0x1.28ad54p-8f,
                                    0x1.103782p-7f,   -0x1.1ed688p-7f, -0x1.b62daep-8f, -0x1.dad856p-8f,
                                    0x1.9964f4p-7f,   0x1.4f58a8p-9f,  -0x1.b682dep-7f, 0};

static const float erf_table_5[32]
    __attribute__((aligned(64))) = {0x1.ad767cp-4f,   0x1.abc048p-4f,  0x1.e27900p-5f,   0x1.eb6776p-5f,
                                    0x1.7703eap-6f,   -0x1.496cb0p-5f, -0x1.fac874p-5f,  -0x1.eefb4ap-5f,
                                    -0x1.1b8928p-4f,  -0x1.09984ap-4f, -0x1.5b50e4p-5f,  -0x1.7ec232p-6f,
                                    -0x1.e18d96p-7f,  -0x1.60e2f4p-9f, 0x1.7569a4p-8f,   0x1.53e48cp-7f,
                                    0x1.4ce58ap-7f,   0x1.6ec8d4p-7f,  0x1.c535e2p-8f,   0x1.7eb19cp-7f,
                                    0x1.2bd688p-7f,   0x1.b0ab50p-8f,  0x1.b9811ap-9f,   0x1.75304ep-9f,
                                    -0x1.591f50p-9f,  0x1.0e8c20p-8f,  0x1.6309d6p-10f,  -0x1.0b9f18p-10f,
                                    -0x1.779656p-10f, 0x1.eae24cp-11f, -0x1.e78c4ep-11f, 0};

/* |x| is cut at the last of 32 points 0x1.01cd12p-3f apart; a polynomial (less r) about the nearest. */
static inline vf vf_erf(vf x) {
    vf size = vf_smaller(vf_of(31 * 0x1.01cd12p-3f), vf_of_bits(vf_bits(x) & INT32_MAX));
    vf t = vf_fma(size, vf_of(0x1.fc6c4ep+2f), vf_of(0x1.8p23f));
    vf r = vf_fma(t - 0x1.8p23f, vf_of(-0x1.01cd12p-3f), size);
    vf p = vf_fma(vf_pick(erf_table_5, (vi)t), r, vf_pick(erf_table_4, (vi)t));
    p = vf_fma(p, r, vf_pick(erf_table_3, (vi)t));
    p = vf_fma(p, r, vf_pick(erf_table_2, (vi)t));
    p = vf_fma(p, r, vf_pick(erf_table_1, (vi)t));
    p = vf_fma(p, r, r + vf_pick(erf_table_0, (vi)t));
    return vf_of_bits(vf_bits(p) | (vf_bits(x) & INT32_MIN));
}

/* ---- logistic functions ---- */

/* 0 where m is not set. */
static inline vf vf_multiply_where(vm m, vf a, vf b) {
    vf r;
    __asm__("vmulps %2, %1, %0%{%3%}%{z%}" : "=v"(r) : "v"(a), "v"(b), "Yk"(m));
    return r;
}

/* Not below -88.5: true for NaN. Further down e^-x overflows and the logistic functions are 0. */
static inline vm vf_in_logistic_range(vf x) {
    vm m;
    __asm__("vcmpnltps %2, %1, %0" : "=k"(m) : "v"(x), "v"(vf_of(-88.5f)));
    return m;
}

/* 1 + e^-x. From x = 17 on that is 1; e^-88 would be denormal and cost an assist a vector. */
static inline vf vf_logistic_denominator(vf x) {
    x = vf_smaller(vf_of(80), x);
    vf t = vf_fma(x, vf_of(-0x1.715476p+0f), vf_of(0x1.8p18f)), n = t - 0x1.8p18f;
    vf r = vf_fma(n, vf_of(-0x1.05c610p-29f), vf_fma(n, vf_of(0x1.62e430p-1f), x));
    vf power = vf_pick(exp2_table, (vi)t);
    vf rest = r * vf_fma(r, vf_of(0x1.000096p-1f), vf_of(-0x1.0000f6p+0f));
    return 1 + vf_scale(vf_fma(power, rest, power), n);
}

/* factor / denominator, a Newton step from vrcp14ps; 0 where m is not set. */
static inline vf vf_over_denominator(vm m, vf factor, vf denominator) {
    vf near = vf_near_reciprocal(denominator);
    return vf_multiply_where(m, factor * near, vf_fma(-denominator, near, vf_of(2)));
}

static inline vf vf_sigmoid(vf x) {
    vf denominator = vf_logistic_denominator(x), near = vf_near_reciprocal(denominator);
    return vf_multiply_where(vf_in_logistic_range(x), near, vf_fma(-denominator, near, vf_of(2)));
}

static inline vf vf_silu(vf x) {
    return vf_over_denominator(vf_in_logistic_range(x), x, vf_logistic_denominator(x));
}

static inline void vf_exp_narrow_ways(vf *x, int ways) __attribute__((always_inline));

/* Of math_narrow.h: e^-x overflows to infinity, and its share is 0. A division leaves the ports of
 * multiplications free. */
static inline void vf_shares(vf *x, int ways, bool times) __attribute__((always_inline));
static inline void vf_shares(vf *x, int ways, bool times) {
    vf power[HR_WAYS_MOST];
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++) {
        if (times) x[way] = vf_larger(vf_of(-89), x[way]);
        power[way] = -x[way];
    }
    vf_exp_narrow_ways(power, ways);
#pragma GCC unroll 8
    for (int way = 0; way < ways; way++)
        x[way] = (times ? x[way] : vf_of(1)) / (1 + power[way]);
}

/* ---- gelu(x) = relu(x) - |x| Q(|x|), Q(a) = 1 - F(a): 1/2 at 0 and small far out, where F is nearly 1 ----
 */

static const float gelu_tail[5][32]
    __attribute__((aligned(64))) = {{0x1.000000p-1f,  0x1.9aecbap-2f,  0x1.3bf144p-2f,  0x1.d02200p-3f,
                                     0x1.44ed0cp-3f,  0x1.b0bdd2p-4f,  0x1.11a46ep-4f,  0x1.482a26p-5f,
                                     0x1.74bcfap-6f,  0x1.909250p-7f,  0x1.96f4e4p-8f,  0x1.86903ep-9f,
                                     0x1.61de14p-10f, 0x1.2e86eep-11f, 0x1.e7dbaep-13f, 0x1.72d946p-14f,
                                     0x1.09ad76p-15f, 0x1.66a5c8p-17f, 0x1.c80750p-19f, 0x1.110594p-20f,
                                     0x1.33ca72p-22f, 0x1.46a1d2p-24f, 0x1.463d86p-26f, 0x1.32a410p-28f,
                                     0x1.0f31c0p-30f, 0x1.c34df2p-33f, 0x1.61421cp-35f, 0x1.041940p-37f,
                                     0x1.683f36p-40f, 0x1.d54326p-43f, 0x1.1f6cb2p-45f, 0},
                                    {-0x1.988448p-2f,  -0x1.8bf296p-2f,  -0x1.6883bep-2f,  -0x1.345d5ep-2f,
                                     -0x1.ef8e82p-3f,  -0x1.7610f4p-3f,  -0x1.0940c0p-3f,  -0x1.6164a4p-4f,
                                     -0x1.ba4b98p-5f,  -0x1.0402f0p-5f,  -0x1.1f2ed4p-6f,  -0x1.29f9a6p-7f,
                                     -0x1.2270b6p-8f,  -0x1.09f168p-9f,  -0x1.c983acp-11f, -0x1.71b23ep-12f,
                                     -0x1.18a220p-13f, -0x1.903c92p-15f, -0x1.0c1cdep-16f, -0x1.517174p-18f,
                                     -0x1.8ef74cp-20f, -0x1.bb1f0ep-22f, -0x1.ce56bap-24f, -0x1.c52818p-26f,
                                     -0x1.a13d76p-28f, -0x1.68e366p-30f, -0x1.253acap-32f, -0x1.bfa1a6p-35f,
                                     -0x1.40f59ep-37f, -0x1.b05ec6p-40f, -0x1.11933ap-42f, 0},
                                    {-0x1.b7f3b8p-17f, 0x1.8bf6dap-5f,  0x1.68831ap-4f,  0x1.ce8c96p-4f,
                                     0x1.ef8d0ap-4f,   0x1.d39364p-4f,  0x1.8ddfaep-4f,  0x1.35368cp-4f,
                                     0x1.ba4a32p-5f,   0x1.248334p-5f,  0x1.66fbfap-6f,  0x1.99bb4ap-7f,
                                     0x1.b3b0bcp-8f,   0x1.b032e6p-9f,  0x1.905e4ep-10f, 0x1.5aa070p-11f,
                                     0x1.18a8bcp-12f,  0x1.a94926p-14f, 0x1.2da65ep-15f, 0x1.90bf3ep-17f,
                                     0x1.f2c0ecp-19f,  0x1.22d45ap-20f, 0x1.3de5ccp-22f, 0x1.45c0eap-24f,
                                     0x1.38fb94p-26f,  0x1.19ffa2p-28f, 0x1.dc9a8cp-31f, 0x1.79c8dcp-33f,
                                     0x1.18ebaap-35f,  0x1.87f6b2p-38f, 0x1.009242p-40f, 0},
                                    {0x1.11a530p-4f,   0x1.eda638p-5f,   0x1.67d4f0p-5f,   0x1.67c258p-6f,
                                     0x1.497638p-14f,  -0x1.16a90ep-6f,  -0x1.b839d0p-6f,  -0x1.e49248p-6f,
                                     -0x1.b9977cp-6f,  -0x1.5ff4d6p-6f,  -0x1.f6fbbcp-7f,  -0x1.469e7cp-7f,
                                     -0x1.84a93ap-8f,  -0x1.aa0da6p-9f,  -0x1.afe2e6p-10f, -0x1.95f406p-11f,
                                     -0x1.628d92p-12f, -0x1.203098p-13f, -0x1.b4904ep-15f, -0x1.347186p-16f,
                                     -0x1.96e584p-18f, -0x1.f57898p-20f, -0x1.20dbc0p-21f, -0x1.373a14p-23f,
                                     -0x1.39beb4p-25f, -0x1.2808f0p-27f, -0x1.05869ep-29f, -0x1.b0c19ep-32f,
                                     -0x1.4f68fep-34f, -0x1.e727eap-37f, -0x1.4b8baep-39f, 0},
                                    {-0x1.8cfa22p-9f, -0x1.85e8e6p-7f, -0x1.49594ep-6f, -0x1.776206p-6f,
                                     -0x1.489048p-6f, -0x1.bcdbcap-7f, -0x1.89e87ep-8f, 0x1.d0ddc0p-12f,
                                     0x1.278372p-8f,  0x1.9139c6p-8f,  0x1.832462p-8f,  0x1.35dcbap-8f,
                                     0x1.b111b4p-9f,  0x1.0ef282p-9f,  0x1.33c800p-10f, 0x1.3fd6b0p-11f,
                                     0x1.31858ep-12f, 0x1.0d228ap-13f, 0x1.b68642p-15f, 0x1.4b2bdep-16f,
                                     0x1.d0ac78p-18f, 0x1.2f43d6p-19f, 0x1.70b250p-21f, 0x1.a1e9acp-23f,
                                     0x1.b9fc68p-25f, 0x1.b47412p-27f, 0x1.92a4b4p-29f, 0x1.5b2fecp-31f,
                                     0x1.17eef8p-33f, 0x1.a64662p-36f, 0x1.2a08b4p-38f, 0}};

static const float gelu_tanh_tail[5][32]
    __attribute__((aligned(64))) = {{0x1.000000p-1f,  0x1.9aee04p-2f,  0x1.3bfa4cp-2f,  0x1.d05230p-3f,
                                     0x1.453d22p-3f,  0x1.b17960p-4f,  0x1.123c8ep-4f,  0x1.48a34ap-5f,
                                     0x1.73ef8ap-6f,  0x1.8c25e8p-7f,  0x1.8b6ccap-8f,  0x1.701ac8p-9f,
                                     0x1.3dd70ap-10f, 0x1.fa1976p-12f, 0x1.71377ep-13f, 0x1.ea754ap-15f,
                                     0x1.26a206p-16f, 0x1.3e0cc0p-18f, 0x1.326b74p-20f, 0x1.05b96ap-22f,
                                     0x1.89bbf2p-25f, 0x1.0313dep-27f, 0x1.2843dcp-30f, 0x1.246e04p-33f,
                                     0x1.eef8dcp-37f, 0x1.64c6e8p-40f, 0x1.b32432p-44f, 0x1.be052ep-48f,
                                     0x1.7da8c4p-52f, 0x1.0ed5d0p-56f, 0x1.3ca854p-61f, 0},
                                    {-0x1.988448p-2f,  -0x1.8be394p-2f,  -0x1.685430p-2f,  -0x1.341906p-2f,
                                     -0x1.ef265ap-3f,  -0x1.76151ap-3f,  -0x1.09c7e0p-3f,  -0x1.631932p-4f,
                                     -0x1.bda5d2p-5f,  -0x1.0628acp-5f,  -0x1.2042e4p-6f,  -0x1.26ff3cp-7f,
                                     -0x1.178aa6p-8f,  -0x1.e7bb74p-10f, -0x1.85409ap-11f, -0x1.1a56aep-12f,
                                     -0x1.71c0fep-14f, -0x1.b233e0p-16f, -0x1.c61f76p-18f, -0x1.a42c34p-20f,
                                     -0x1.559d82p-22f, -0x1.e4dd66p-25f, -0x1.2a570ep-27f, -0x1.3c33c4p-30f,
                                     -0x1.1eb612p-33f, -0x1.b9d8aap-37f, -0x1.1f6364p-40f, -0x1.397436p-44f,
                                     -0x1.1cb8b0p-48f, -0x1.abd8dap-53f, -0x1.0816f0p-57f, 0},
                                    {-0x1.bce2b8p-17f, 0x1.8db62ep-5f,  0x1.698178p-4f,  0x1.ceb2a8p-4f,
                                     0x1.ee605ep-4f,   0x1.d1841cp-4f,  0x1.8c09ccp-4f,  0x1.348ff6p-4f,
                                     0x1.bbbfb8p-5f,   0x1.279b84p-5f,  0x1.6d265ep-6f,  0x1.a17c08p-7f,
                                     0x1.b83122p-8f,   0x1.a9dff4p-9f,  0x1.77ce14p-10f, 0x1.2c83e6p-11f,
                                     0x1.b0a036p-13f,  0x1.166cd4p-14f, 0x1.3e4396p-16f, 0x1.40ee62p-18f,
                                     0x1.1b97c2p-20f,  0x1.b45000p-23f, 0x1.2244c6p-25f, 0x1.4bd324p-28f,
                                     0x1.43c5e0p-31f,  0x1.0be122p-34f, 0x1.756632p-38f, 0x1.b38db2p-42f,
                                     0x1.a656e0p-46f,  0x1.522bfcp-50f, 0x1.bc351ap-55f, 0},
                                    {0x1.1303ecp-4f,   0x1.ef48a0p-5f,   0x1.66ec00p-5f,   0x1.61508ep-6f,
                                     -0x1.5bc3eep-12f, -0x1.18b0d0p-6f,  -0x1.b41758p-6f,  -0x1.dcfee2p-6f,
                                     -0x1.b342a2p-6f,  -0x1.5dd288p-6f,  -0x1.fac4a0p-7f,  -0x1.4e0ac8p-7f,
                                     -0x1.91c2a6p-8f,  -0x1.b8153cp-9f,  -0x1.b5316ap-10f, -0x1.87b69ep-11f,
                                     -0x1.3a93fap-12f, -0x1.c1fda8p-14f, -0x1.1cce36p-15f, -0x1.3cfff0p-17f,
                                     -0x1.344b82p-19f, -0x1.0458aap-21f, -0x1.7b6ea0p-24f, -0x1.da380cp-27f,
                                     -0x1.f91a3ap-30f, -0x1.c7a4f8p-33f, -0x1.59f13ap-36f, -0x1.b75c34p-40f,
                                     -0x1.cfc986p-44f, -0x1.945accp-48f, -0x1.21572cp-52f, 0},
                                    {-0x1.951a98p-9f, -0x1.8f890ep-7f, -0x1.4dc7c4p-6f, -0x1.793bb0p-6f,
                                     -0x1.4675d8p-6f, -0x1.afcf58p-7f, -0x1.752352p-8f, 0x1.f8748cp-12f,
                                     0x1.19fce2p-8f,  0x1.7e8f4ap-8f,  0x1.76eaa4p-8f,  0x1.33afe8p-8f,
                                     0x1.bacc20p-9f,  0x1.1be85cp-9f,  0x1.45d784p-10f, 0x1.4df504p-11f,
                                     0x1.300ceep-12f, 0x1.e8e246p-14f, 0x1.593388p-15f, 0x1.a9e642p-17f,
                                     0x1.c89074p-19f, 0x1.a6e10ep-21f, 0x1.507ba2p-23f, 0x1.c959aap-26f,
                                     0x1.07e9fcp-28f, 0x1.01175ap-31f, 0x1.a443c6p-35f, 0x1.1e7a9ep-38f,
                                     0x1.43c1a8p-42f, 0x1.2d72f2p-46f, 0x1.cba91ep-51f, 0}};

/* |x| at most 31/4; of a NaN 31/4 */
static inline vf vf_gelu_inside(vf x) {
    vf r;
    __asm__("vrangeps $10, %2, %1, %0" : "=v"(r) : "v"(x), "v"(vf_of(7.75f)));
    return r;
}

/* x less the nearest multiple of 1/4 */
static inline vf vf_past_quarter(vf x) {
    vf r;
    __asm__("vreduceps $0x28, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

/* Adding 1.5 * 2^21 rounds to 1/4. Only relu knows inf and NaN; Q is 0 from 61/8 on. */
static inline vf vf_less_tail(vf x, const float (*tail)[32]) {
    vf size = vf_gelu_inside(x), r = vf_past_quarter(size);
    vi t = vf_bits(size + 0x1.8p21f);
    vf q = vf_fma(vf_pick(tail[4], t), r, vf_pick(tail[3], t));
    q = vf_fma(q, r, vf_pick(tail[2], t));
    q = vf_fma(q, r, vf_pick(tail[1], t));
    q = vf_fma(q, r, vf_pick(tail[0], t));
    return vf_fma(-size, q, vf_larger(vf_of(0), x));
}

static inline vf vf_gelu(vf x) {
    return vf_less_tail(x, gelu_tail);
}

static inline vf vf_gelu_tanh(vf x) {
    return vf_less_tail(x, gelu_tanh_tail);
}

/* A Newton step from vrsqrt14ps, whose infinities, zeros and NaN stay. */
static inline vf vf_rsqrt(vf x) {
    vf near;
    __asm__("vrsqrt14ps %1, %0" : "=v"(near) : "v"(x));
    vf error = vf_fma(-(x * near), near, vf_of(1)), r = near;
    vm ordered;
    __asm__("vcmpordps %1, %1, %0" : "=k"(ordered) : "v"(error));
    __asm__("vfmadd231ps %2, %1, %0%{%3%}" : "+v"(r) : "v"(0.5f * near), "v"(error), "Yk"(ordered));
    return r;
}
