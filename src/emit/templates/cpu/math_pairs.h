/* Functions of two arguments that libm does best. mod has the divisor's sign. */
static inline float f32_pow(float x, float y) {
    return y == 0.5f ? x == -INFINITY ? INFINITY : sqrtf(x + 0.0f) : powf(x, y); /* as f64_pow */
}

static inline float f32_floordiv(float a, float b) {
    return (float)floor((double)a / b);
}

static inline float f32_mod(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline vf vf_pow(vf a, vf b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = f32_pow(a[lane], b[lane]);
    return a;
}

static inline vf vf_floordiv(vf a, vf b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = f32_floordiv(a[lane], b[lane]);
    return a;
}

static inline vf vf_mod(vf a, vf b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = f32_mod(a[lane], b[lane]);
    return a;
}
