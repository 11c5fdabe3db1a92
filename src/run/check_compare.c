/* Comparing on the host: blocks shared out to threads. In and out: see check_compare.h. */
#include "run/check_compare.h"

#include "base/dtype.h"
#include "device/team.h"

#include <math.h>
#include <string.h>

/* The distance between neighbours of `dtype` where x lies; 0 of whole numbers. */
static double spacing(hr_dtype dtype, double x) {
    int exponent;
    if (!hr_dtype_is_float(dtype) || x == 0) return 0;
    frexp(x, &exponent);
    return ldexp(hr_dtype_rounding(dtype), exponent);
}

double hr_compare_score(hr_dtype dtype, double got, double expected, double error) {
    if (got == expected || (isnan(got) && isnan(expected))) return 0;
    const double apart = fabs(got - expected);
    if (!(apart < INFINITY)) return INFINITY;
    const double allowed = spacing(dtype, fmax(fabs(got), fabs(expected))) + error;
    return allowed > 0 ? apart / allowed : apart;
}

/* Most elements of narrow dtypes are the same bit by bit. */
static void compare_any(const hr_comparing *comparing, int64_t from, int64_t to, hr_suspect *out) {
    const size_t size = hr_dtype_size(comparing->dtype);
    const char *got = comparing->got, *expected = comparing->expected;
    for (int64_t i = from; i < to; i++) {
        if (memcmp(got + (size_t)i * size, expected + (size_t)i * size, size) == 0) continue;
        const double score =
            hr_compare_score(comparing->dtype, hr_dtype_load(comparing->dtype, got, (size_t)i),
                             hr_dtype_load(comparing->dtype, expected, (size_t)i), comparing->error);
        if (score > out->score) *out = (hr_suspect){score, i};
    }
}

/* A unit of f32 is between 2^-24 and 2^-23 of its value: near enough to rank by. */
static void compare_f32(const hr_comparing *comparing, int64_t from, int64_t to, hr_suspect *out) {
    const float *got = comparing->got, *expected = comparing->expected;
    const float error = (float)fmin(comparing->error, 1e37) + 0x1p-126f;
    float score = 0;
    for (int64_t i = from; i < to; i++) {
        const float apart = fabsf(got[i] - expected[i]);
        if (apart <= score * (error + fabsf(expected[i]) * 0x1p-24f)) continue;
        if (got[i] == expected[i] || (got[i] != got[i] && expected[i] != expected[i])) continue;
        const float allowed = error + fabsf(expected[i]) * 0x1p-24f;
        score = apart / allowed;
        if (!(score < INFINITY)) {
            *out = (hr_suspect){INFINITY, i};
            return;
        }
        *out = (hr_suspect){(double)score, i};
    }
}

typedef struct compare_job {
    const hr_comparing *comparing;
    hr_suspect *out; /* one a block */
} compare_job;

static void compare_part(void *context, int64_t part, int64_t parts) {
    const compare_job *job = context;
    const hr_comparing *comparing = job->comparing;
    const int64_t per = (comparing->count + HR_COMPARE_BLOCKS - 1) / HR_COMPARE_BLOCKS;
    for (int64_t block = HR_COMPARE_BLOCKS * part / parts; block < HR_COMPARE_BLOCKS * (part + 1) / parts;
         block++) {
        const int64_t from = block * per, end = from + per,
                      to = end < comparing->count ? end : comparing->count;
        job->out[block] = (hr_suspect){0};
        if (from >= to) continue;
        if (comparing->dtype == HR_F32)
            compare_f32(comparing, from, to, &job->out[block]);
        else
            compare_any(comparing, from, to, &job->out[block]);
    }
}

void hr_compare_host(const hr_comparing *comparing, hr_suspect out[HR_COMPARE_BLOCKS]) {
    compare_job job = {comparing, out};
    hr_team_run(comparing->count > 1 << 16 ? 0 : 1, compare_part, &job);
}
