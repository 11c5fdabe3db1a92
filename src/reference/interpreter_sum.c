/* How a sum errs: docs/check.md derives it.
 *
 * In: values with their own errors, and in how many chains of what length code adds them. Out: what the error
 * of the sum is at most, and how much of that is its own. Two limits are kept, and the smaller one counts:
 * - `most`: whatever the order within chains of that length and however roundings fall, all errors add up;
 * - roundings of values that differ fall independently of each other, so that by Hoeffding's inequality only
 *   the root of their sum of squares adds up. Values that are alike are rounded alike: they meet in one bin
 * and add up linearly.
 */
#include "base/memory.h"
#include "reference/interpreter.h"

#include "base/dtype.h"
#include "base/saturate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS_MAX = 1 << 16,
    BINS_UNKNOWN = 1 << 10, /* of sums of an unknown number of values */
    BINS_EACH = 4,          /* a value, so that few meet by chance */
    CHAINS_MAX = 256,
    GRAIN_NONE = 1 << 12
};

/* n independent roundings, each anywhere within +-h: their sum passes s sqrt(n / 3) h with probability
 * 2 exp(-s^2 / 2), as a uniform variable is no wider than a normal one of its variance. Here that is 2^-40:
 * s = 7.54. */
#define HR_SURE (7.54 / 1.7320508075688772)

/* Values are alike when they agree within so much of the unit to which they are rounded. */
#define ALIKE 0x1p-3

struct hr_sum {
    hr_dtype type;
    double unit, growth, rounding, cut;
    int chains, digits;
    int64_t addends;     /* of a chain, before a total takes it; 0 = all */
    int64_t count, step; /* so far, and in each chain so far */
    int64_t longest;     /* chain */
    int64_t rounded;     /* values that are not exactly 0: adding that is exact */
    bool overflows, lost, leaves_out;
    double partial[CHAINS_MAX];
    double powers[CHAINS_MAX]; /* the sum of squares of what a chain added so far */
    double ended,
        ended_size;       /* what chains that have ended have come to; of all of them, taken as positive */
    double size;          /* of the values, all taken as positive */
    int grain;            /* all values are multiples of 2^grain */
    double bound, common; /* of the values: at most, and what they share of it */
    double cuts;          /* lost in one direction while adding up */
    uint64_t bin_count;
    double bins[]; /* what is rounded independently */
};

hr_status hr_sum_begin(hr_sum **out, hr_dtype type, hr_sum_order order, int64_t total) {
    const int64_t wanted = total > 0 ? hr_saturate_product(total, BINS_EACH) : BINS_UNKNOWN;
    uint64_t bins = BINS_EACH;
    while (bins < BINS_MAX && (int64_t)bins < wanted)
        bins *= 2;
    if (*out && (*out)->bin_count < bins) {
        free(*out);
        *out = NULL;
    }
    if (!*out) {
        *out = hr_memory_take(sizeof **out + bins * sizeof *(*out)->bins);
        if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    }
    hr_sum *sum = *out;
    memset(sum, 0, sizeof *sum + bins * sizeof *sum->bins);
    sum->bin_count = bins;
    sum->type = type;
    sum->unit = hr_dtype_rounding(type == HR_F64 ? HR_F64 : HR_F32);
    sum->digits = type == HR_F64 ? 53 : 24;
    sum->growth = order.growth > 0 ? order.growth : 1;
    sum->rounding = order.rounding;
    sum->cut = order.cut;
    sum->leaves_out = order.leaves_out;
    sum->chains = order.chains < 1 ? 1 : order.chains > CHAINS_MAX ? CHAINS_MAX : order.chains;
    sum->addends = order.addends;
    sum->grain = GRAIN_NONE;
    return HR_OK;
}

void hr_sum_destroy(hr_sum *sum) {
    free(sum);
}

/* ---- what is rounded, and to what ---- */

/* The exponent of the last bit that is set. */
static inline int grain_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t digits = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    return (int)(bits >> 52 & 0x7ff) - 1075 + __builtin_ctzll(digits);
}

/* What adds up linearly with `amount`: values that are alike beside `half` a unit in the last place of what
 * they are added to. */
static inline double *bin_of(hr_sum *sum, double value, double half) {
    uint64_t bits;
    const double grid = 2 * half * ALIKE;
    if (grid > 0) value = rint(value / grid) * grid;
    memcpy(&bits, &value, sizeof bits);
    bits *= 0x9E3779B97F4A7C15ull;
    return &sum->bins[(bits >> 32 ^ bits >> 48) & (sum->bin_count - 1)];
}

/* ---- chains ---- */

/* Chains become one pair by pair. */
static void join_chains(hr_sum *sum) {
    for (int count = sum->chains; count > 1; count = (count + 1) / 2)
        for (int c = 0; c < count / 2; ++c) {
            const double one = sum->partial[c], other = sum->partial[count - 1 - c];
            const double half = sum->growth * sum->unit * hr_power_in(one + other);
            if (half > 0 && one != 0 && other != 0) *bin_of(sum, one, half) += half;
            sum->partial[c] = one + other;
        }
}

/* The total takes all chains, and they begin anew. */
static void end_chains(hr_sum *sum) {
    join_chains(sum);
    sum->ended += sum->partial[0];
    if (sum->step > sum->longest) sum->longest = sum->step;
    memset(sum->partial, 0, (size_t)sum->chains * sizeof *sum->partial);
    memset(sum->powers, 0, (size_t)sum->chains * sizeof *sum->powers);
    sum->step = 0;
}

/* The chain that the next addend goes to. */
static int next_chain(hr_sum *sum) {
    const int chain = sum->chains == 1 ? 0 : (int)(sum->count % sum->chains);
    if (chain == 0 && sum->addends && sum->step == sum->addends) end_chains(sum);
    sum->step += chain == 0;
    ++sum->count;
    return chain;
}

/* Half a unit in the last place of the partial sum that takes the value. In another order of the same values
 * it is another one, of the size to which they come by chance. */
static inline double half_unit(hr_sum *sum, int chain, double value) {
    const double partial = sum->partial[chain] += value, power = sum->powers[chain] += value * value;
    return sum->unit * hr_power_in(fmax(fabs(partial), sqrt(power)));
}

bool hr_sum_leaves_out(const hr_sum *sum, double value, double noise) {
    return sum->leaves_out && hr_number_is_nothing(value, noise);
}

void hr_sum_add(hr_sum *sum, double value, double bound, double noise) {
    const int chain = next_chain(sum);
    if (!(bound <= HUGE_VAL) || isinf(bound)) sum->lost = true;
    if (hr_sum_leaves_out(sum, value, noise)) sum->lost = true;
    if (!isfinite(value)) return;
    const double half = half_unit(sum, chain, value), size = fabs(value);
    if (!(fabs(sum->partial[chain]) <= (sum->type == HR_F64 ? DBL_MAX : (double)FLT_MAX))) {
        sum->overflows = true;
        return;
    }
    const int grain = value != 0 && bound == 0 ? grain_of(value) : bound > 0 ? -GRAIN_NONE : GRAIN_NONE;
    if (grain < sum->grain) sum->grain = grain;
    sum->size += size;
    sum->bound += bound + sum->rounding * size;
    sum->common += bound - noise;
    double own = noise + sum->rounding * size;
    const bool nothing = value == 0 && bound == 0;
    sum->rounded += !nothing;
    if (sum->step > 1) {
        own += nothing ? 0 : sum->growth * half;
        sum->cuts += sum->cut * half;
    }
    if (own > 0) *bin_of(sum, value, half) += own;
}

void hr_sum_scale(hr_sum *sum, double factor) {
    for (int c = 0; c < sum->chains; ++c) {
        sum->partial[c] *= factor;
        sum->powers[c] *= factor * factor;
    }
    sum->ended *= factor;
    sum->size *= factor;
    sum->grain = -GRAIN_NONE;
    sum->bound *= factor;
    sum->common *= factor;
    sum->cuts *= factor;
    for (uint64_t b = 0; b < sum->bin_count; ++b)
        sum->bins[b] *= factor;
}

/* ---- the sum ---- */

/* How many additions a value takes part in at most: those of its chain, of joining chains, and a total's. */
static double additions_of(const hr_sum *sum) {
    double steps = (double)sum->longest - 1;
    for (int64_t count = sum->count < sum->chains ? sum->count : sum->chains; count > 1;
         count = (count + 1) / 2)
        ++steps;
    return fmin(steps, fmax(0, (double)sum->rounded - 1));
}

/* No sum of values on one grid is rounded until it has too many digits. Values that come to 0 may have
 * errors. */
static bool is_exact(const hr_sum *sum) {
    return sum->bound == 0 &&
           (sum->size == 0 || (sum->grain > -GRAIN_NONE && sum->size <= ldexp(1, sum->grain + sum->digits) &&
                               sum->rounding == 0));
}

void hr_sum_end(hr_sum *sum, double *bound, double *noise) {
    const bool totalled = sum->count > sum->step * sum->chains;
    double squares = 0, common = sum->common + sum->cuts;
    end_chains(sum);
    for (uint64_t b = 0; b < sum->bin_count; ++b)
        squares += sum->bins[b] * sum->bins[b];
    const double last = totalled ? sum->unit * fabs(sum->ended) : 0; /* a total that is rounded */
    const double most = sum->bound + sum->cuts + sum->growth * sum->unit * additions_of(sum) * sum->size;
    *bound = last + fmin(most, common + HR_SURE * sqrt(squares));
    *noise = fmax(0, *bound - common);
    if (is_exact(sum)) *bound = *noise = 0;
    if (sum->lost || sum->overflows || !(*bound <= HUGE_VAL)) {
        *bound = INFINITY;
        *noise = 0;
    }
}
