/* The vector functions of the prelude over all 2^32 floats: the largest error of each, in ulp of f32.
 *
 * in:   nothing; the instruction set is the one it was compiled for
 * out:  a line a function: largest error, where it is, seconds. A NaN or infinity out of place counts as
 * infinite. sigmoid, silu and gelu are judged at the scale of max(|result|, |x|), exp_narrow by what its
 * error has beyond 1.4 |x| 2^-24 of the result. The tests sample; this is the whole of it, in a few minutes:
 * ninja exhaustive_math && ./exhaustive_math
 */
#include "prelude_all.h"
#include "support/meanings.h"

#include <omp.h>
#include <stdio.h>

typedef enum judged { BY_RESULT, BY_LARGER, BEYOND_GROWTH } judged;

typedef struct worst {
    double error;
    uint32_t bits;
} worst;

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The distance between floats beside `value`. */
static double ulp_beside(double value) {
    int exponent;
    double size = fmin(fabs(value), 0x1.fffffep127);
    if (size < 0x1p-126) return 0x1p-149;
    frexp(size, &exponent);
    return ldexp(1, exponent - 24);
}

static double error_of(double x, float got, double want, judged by) {
    float rounded = (float)want;
    if (want != want) return got != got ? 0 : INFINITY;
    if (got == rounded) return 0;
    if (got != got || (by != BY_RESULT && isinf(x))) return INFINITY;
    double limited = fmin(fmax(want, -0x1p128), 0x1p128), seen = fmin(fmax((double)got, -0x1p128), 0x1p128);
    double error = fabs(seen - limited);
    if (by == BY_LARGER) return error / ulp_beside(fmax(fabs(want), fmax(fabs(x), 0x1p-100)));
    if (by == BEYOND_GROWTH) error = fmax(0, error - 1.4 * 0x1p-24 * fabs(x * limited));
    return error / ulp_beside(want);
}

typedef struct subject {
    const char *name;
    vf (*function)(vf);
    double (*meaning)(double);
    judged by;
} subject;

static void measure_vector(uint32_t first, const subject *s, worst *found) {
    float x[HR_LANES], y[HR_LANES];
    for (int k = 0; k < HR_LANES; k++)
        x[k] = float_of(first + (uint32_t)k);
    vf_store_f32(y, s->function(vf_load_f32(x)));
    for (int k = 0; k < HR_LANES; k++) {
        double error = error_of((double)x[k], y[k], s->meaning((double)x[k]), s->by);
        if (error > found->error) *found = (worst){error, first + (uint32_t)k};
    }
}

static void measure(const subject *s) {
    worst all = {0, 0};
    double begun = omp_get_wtime();
#pragma omp parallel
    {
        worst own = {0, 0};
#pragma omp for schedule(dynamic, 65536)
        for (int64_t first = 0; first < INT64_C(1) << 32; first += HR_LANES)
            measure_vector((uint32_t)first, s, &own);
#pragma omp critical
        if (own.error > all.error) all = own;
    }
    printf("%-14s %.3f ulp at %a (%.0f s)\n", s->name, all.error, (double)float_of(all.bits),
           omp_get_wtime() - begun);
}

int main(void) {
    const subject subjects[] = {{"exp", vf_exp, exp, BY_RESULT},
                                {"exp2", vf_exp2, exp2, BY_RESULT},
                                {"log", vf_log, log, BY_RESULT},
                                {"log2", vf_log2, log2, BY_RESULT},
                                {"tanh", vf_tanh, tanh, BY_RESULT},
                                {"erf", vf_erf, erf, BY_RESULT},
                                {"rsqrt", vf_rsqrt, rsqrt, BY_RESULT},
                                {"exp_narrow", vf_exp_narrow, exp, BEYOND_GROWTH},
                                {"sigmoid", vf_sigmoid, sigmoid, BY_LARGER},
                                {"sigmoid_narrow", vf_sigmoid_narrow, sigmoid, BY_LARGER},
                                {"silu", vf_silu, silu, BY_LARGER},
                                {"silu_narrow", vf_silu_narrow, silu, BY_LARGER},
                                {"gelu", vf_gelu, gelu, BY_LARGER},
                                {"gelu_tanh", vf_gelu_tanh, gelu_tanh, BY_LARGER}};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        measure(&subjects[i]);
    return 0;
}
