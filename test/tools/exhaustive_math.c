/* The vector functions of the prelude over all 2^32 floats: the largest error of each, in ulp of f32.
 *
 * in:   nothing; the instruction set is the one it was compiled for
 * out:  a line a function: largest error, where it is, seconds. A NaN or infinity out of place counts as
 * infinite. The tests sample; this is the whole of it, in a minute or two: ninja exhaustive_math &&
 * ./exhaustive_math
 */
#include "prelude_all.h"

#include <omp.h>
#include <stdio.h>

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

static double error_of(float got, double want) {
    float rounded = (float)want;
    if (want != want) return got != got ? 0 : INFINITY;
    if (got == rounded) return 0;
    if (got != got) return INFINITY;
    double limited = fmin(fmax(want, -0x1p128), 0x1p128), seen = fmin(fmax((double)got, -0x1p128), 0x1p128);
    return fabs(seen - limited) / ulp_beside(want);
}

static void measure_vector(uint32_t first, vf (*function)(vf), double (*meaning)(double), worst *found) {
    float x[HR_LANES], y[HR_LANES];
    for (int k = 0; k < HR_LANES; k++)
        x[k] = float_of(first + (uint32_t)k);
    vf_store_f32(y, function(vf_load_f32(x)));
    for (int k = 0; k < HR_LANES; k++) {
        double error = error_of(y[k], meaning((double)x[k]));
        if (error > found->error) *found = (worst){error, first + (uint32_t)k};
    }
}

static void measure(const char *name, vf (*function)(vf), double (*meaning)(double)) {
    worst all = {0, 0};
    double begun = omp_get_wtime();
#pragma omp parallel
    {
        worst own = {0, 0};
#pragma omp for schedule(dynamic, 65536)
        for (int64_t first = 0; first < INT64_C(1) << 32; first += HR_LANES)
            measure_vector((uint32_t)first, function, meaning, &own);
#pragma omp critical
        if (own.error > all.error) all = own;
    }
    printf("%-5s %.3f ulp at %a (%.0f s)\n", name, all.error, (double)float_of(all.bits),
           omp_get_wtime() - begun);
}

int main(void) {
    measure("exp", vf_exp, exp);
    measure("exp2", vf_exp2, exp2);
    measure("log", vf_log, log);
    measure("log2", vf_log2, log2);
    measure("tanh", vf_tanh, tanh);
    measure("erf", vf_erf, erf);
    return 0;
}
