/* Functions of f32, so short that a pass over memory stays bound by memory.
 *
 * f32_* are right to 2 units in the last place or so. fast_* stand where the result is rounded to 16 bits or
 * added up: fast_exp(x) errs by 2 units and 1.2 |x| more, which is what rounding x itself would do;
 * fast_gelu_tanh likewise, with half the instructions, which a matrix product's epilogue has to hide.
 */
static __device__ inline float f32_exp(float x) {
    return expf(x);
}

static __device__ inline float fast_exp(float x) {
    return machine_exp2(x * 1.44269504088896341f);
}

static __device__ inline float f32_exp2(float x) {
    return exp2f(x);
}

static __device__ inline float f32_log(float x) {
    return logf(x);
}

static __device__ inline float f32_log2(float x) {
    return log2f(x);
}

static __device__ inline float f32_rsqrt(float x) {
    return rsqrtf(x);
}

static __device__ inline float f32_tanh(float x) {
    return tanhf(x);
}

static __device__ inline float f32_erf(float x) {
    return erff(x);
}

static __device__ inline float f32_pow(float x, float y) {
    return powf(x, y);
}

static __device__ inline float f32_div(float a, float b) {
    return machine_divide(a, b);
}

static __device__ inline float f32_floordiv(float a, float b) {
    return floorf(a / b);
}

static __device__ inline float f32_mod(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* e^-|x| keeps its precision where e^|x| would overflow. */
static __device__ inline float f32_sigmoid(float x) {
    float e = machine_exp2(-1.44269504088896341f * fabsf(x)), r = machine_reciprocal(1 + e);
    return x < 0 ? e * r : r;
}

/* x * sigmoid(z), where z has the sign of x. e^-|z| is taken 2^24 times too large, so that the product with x
 * does not lose bits to the end of the range; -inf counts as the lowest number, whose result is -0. */
static __device__ inline float sigmoid_product(float x, float z) {
    float e = machine_exp2(-1.44269504088896341f * fabsf(z) + 24), r = machine_reciprocal(e * 0x1p-24f + 1);
    float low = f32_max(x, -0x1.fffffep127f);
    return x < 0 ? low * e * r * 0x1p-24f : x * r;
}

static __device__ inline float f32_silu(float x) {
    return sigmoid_product(x, x);
}

static __device__ inline float f32_gelu_tanh(float x) {
    return sigmoid_product(x, x * (x * x * 0.0713548162726f + 1.5957691216057308f));
}

/* x / (1 + e^-z): what is below 2^-126 / |x| of x comes out as -0, as does -inf. */
static __device__ inline float fast_gelu_tanh(float x) {
    float low = f32_max(x, -0x1.fffffep127f);
    float e = machine_exp2(low * (x * x * -0.10294324f - 2.302208198f));
    return low * machine_reciprocal(1 + e);
}

static __device__ inline float f32_gelu(float x) {
    return f32_max(x, -0x1.fffffep127f) * normcdff(x);
}

static __device__ inline float f32_sin(float x) {
    return sinf(x);
}

static __device__ inline float f32_cos(float x) {
    return cosf(x);
}
