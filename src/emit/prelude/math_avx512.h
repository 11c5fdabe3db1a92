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

/* x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline vf vf_gelu_tanh(vf x) {
    vf twice_u = x * vf_fma(x * x, vf_of(0x1.2444f2p-4f), vf_of(0x1.988454p+0f));
    return vf_over_denominator(vf_in_logistic_range(twice_u), x, vf_logistic_denominator(twice_u));
}
