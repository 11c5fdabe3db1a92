/* Elementwise functions of f32 through libm, lane by lane. */

static inline float f32_exp(float x) {
    return expf(x);
}

static inline vf vf_exp(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_exp(x[lane]);
    return x;
}

static inline float f32_exp2(float x) {
    return exp2f(x);
}

static inline vf vf_exp2(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_exp2(x[lane]);
    return x;
}

static inline float f32_log(float x) {
    return logf(x);
}

static inline vf vf_log(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_log(x[lane]);
    return x;
}

static inline float f32_log2(float x) {
    return log2f(x);
}

static inline vf vf_log2(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_log2(x[lane]);
    return x;
}

static inline float f32_sin(float x) {
    return sinf(x);
}

static inline vf vf_sin(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_sin(x[lane]);
    return x;
}

static inline float f32_cos(float x) {
    return cosf(x);
}

static inline vf vf_cos(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_cos(x[lane]);
    return x;
}

static inline float f32_tanh(float x) {
    return tanhf(x);
}

static inline vf vf_tanh(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_tanh(x[lane]);
    return x;
}

static inline float f32_erf(float x) {
    return erff(x);
}

static inline vf vf_erf(vf x) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = f32_erf(x[lane]);
    return x;
}
