/* How a sum errs: docs/check.md derives it.
 *
 * In: values with their own errors, and in how many chains code adds them. Out: the error of the sum, in two
 * parts. Adding up is played through in the type of the sum, chain by chain, with totals in f64 where the
 * code has them: what these additions lose in one direction is met by the code as well, and is `bound`; the
 * rest is `noise`, by the size of each partial sum. Values that are equal err alike, so their noise adds up
 * linearly, and that of different ones as the root of squares: bins by the value's bits tell them apart.
 */
#include "base/memory.h"
#include "reference/interpreter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum {
    BINS_MAX = 1 << 16,
    SHORT = 32,       /* values that code may add in any order */
    FIRST_STEPS = 16, /* of a chain: the same */
};

/* What is lost in one direction may be a little more in the code's order than in ours. */
#define DRIFT_MARGIN 1.5

struct hr_sum {
    hr_dtype type;
    double unit, growth, rounding, cut;
    int chains;
    int64_t addends;            /* of a chain, before a total takes it; 0 = all */
    int64_t total, count, step; /* in all, so far, in each chain so far */
    double ended;               /* the total: what chains that have ended have come to */
    bool overflows, lost;
    double partial[HR_SUM_CHAINS_MAX];
    double sizes[HR_SUM_CHAINS_MAX];  /* of what a chain added so far, all taken as positive */
    double powers[HR_SUM_CHAINS_MAX]; /* the sum of squares of that */
    double drift, drift_most;         /* of all chains together, so far and at most */
    double squares, reach;            /* of partial sums: sum of squares, sum of sizes */
    double chain_squares;             /* of those of the chains that have not ended */
    double bound;                     /* of the values */
    uint64_t bin_count;
    double bins[]; /* noise of the values */
};

hr_status hr_sum_begin(hr_sum **out, hr_dtype type, hr_sum_order order, int64_t total) {
    uint64_t bins = 1;
    while (bins < BINS_MAX && (int64_t)bins < total)
        bins *= 2;
    if (!*out) {
        *out = hr_memory_take(sizeof **out + bins * sizeof *(*out)->bins);
        if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        (*out)->bin_count = bins;
    }
    hr_sum *sum = *out;
    bins = sum->bin_count;
    memset(sum, 0, sizeof *sum + bins * sizeof *sum->bins);
    sum->bin_count = bins;
    sum->type = type;
    sum->unit = hr_dtype_rounding(type == HR_F64 ? HR_F64 : HR_F32);
    sum->growth = order.growth > 0 ? order.growth : 1;
    sum->rounding = order.rounding;
    sum->cut = order.cut;
    sum->chains = order.chains < 1 || total <= SHORT ? 1
                  : order.chains > HR_SUM_CHAINS_MAX ? HR_SUM_CHAINS_MAX
                                                     : order.chains;
    sum->addends = order.addends;
    sum->total = total;
    return HR_OK;
}

void hr_sum_destroy(hr_sum *sum) {
    free(sum);
}

/* What `type` makes of a + b, and what that loses. */
static inline double added(hr_dtype type, double a, double b, double *lost) {
    const double total = a + b;
    if (type != HR_F64) {
        const double rounded = (double)(float)total;
        *lost = rounded - total;
        return rounded;
    }
    const double left = total - b, right = total - left;
    *lost = -((a - left) + (b - right));
    return total;
}

static inline void drift_by(hr_sum *sum, double lost) {
    sum->drift += lost;
    if (fabs(sum->drift) > sum->drift_most) sum->drift_most = fabs(sum->drift);
}

static inline double *bin_of(hr_sum *sum, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits *= 0x9E3779B97F4A7C15ull;
    return &sum->bins[(bits >> 32 ^ bits >> 48) & (sum->bin_count - 1)];
}

/* What the squares of partial sums come to in any other order: those of a straight way to the sum, and of a
 * walk around it. */
static double squares_of_walks(const hr_sum *sum) {
    const double steps = (double)sum->step;
    double squares = 0;
    if (sum->step < 2) return 0; /* nothing was added to anything */
    for (int c = 0; c < sum->chains; ++c)
        squares += steps * (sum->partial[c] * sum->partial[c] / 3 + sum->powers[c] / 2);
    return squares;
}

/* Chains become one pair by pair. */
static void join_chains(hr_sum *sum) {
    double lost;
    for (int count = sum->chains; count > 1; count = (count + 1) / 2)
        for (int c = 0; c < count / 2; ++c) {
            const double partial = added(sum->type, sum->partial[c], sum->partial[count - 1 - c], &lost);
            drift_by(sum, lost);
            sum->partial[c] = partial;
            sum->squares += partial * partial;
            sum->reach += fabs(partial);
        }
}

/* The total takes all chains, and they begin anew. */
static void end_chains(hr_sum *sum) {
    sum->squares += fmax(sum->chain_squares, squares_of_walks(sum));
    sum->chain_squares = 0;
    join_chains(sum);
    sum->ended += sum->partial[0];
    memset(sum->partial, 0, (size_t)sum->chains * sizeof *sum->partial);
    memset(sum->sizes, 0, (size_t)sum->chains * sizeof *sum->sizes);
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

void hr_sum_add(hr_sum *sum, double value, double bound, double noise) {
    const int chain = next_chain(sum);
    const int64_t step = sum->step - 1;
    if (!(bound <= HUGE_VAL) || isinf(bound)) sum->lost = true;
    if (!isfinite(value)) return;
    double lost;
    const double partial = added(sum->type, sum->partial[chain], value, &lost);
    if (!isfinite(partial)) {
        sum->overflows = true;
        return;
    }
    sum->sizes[chain] += fabs(value);
    sum->powers[chain] += value * value;
    const double size = step < FIRST_STEPS || sum->total <= SHORT ? sum->sizes[chain] : fabs(partial);
    sum->partial[chain] = partial;
    if (step > 0) {
        drift_by(sum, lost);
        sum->chain_squares += size * size;
        sum->reach += size;
        sum->bound += sum->cut * sum->unit * size;
    }
    sum->bound += bound;
    noise += sum->rounding * fabs(value) / sqrt(3);
    if (noise > 0) *bin_of(sum, value) += noise;
}

void hr_sum_scale(hr_sum *sum, double factor) {
    for (int c = 0; c < sum->chains; ++c) {
        sum->partial[c] *= factor;
        sum->sizes[c] *= factor;
        sum->powers[c] *= factor * factor;
    }
    sum->drift *= factor;
    sum->drift_most *= factor;
    sum->ended *= factor;
    sum->squares *= factor * factor;
    sum->chain_squares *= factor * factor;
    sum->reach *= factor;
    sum->bound *= factor;
    for (uint64_t b = 0; b < sum->bin_count; ++b)
        sum->bins[b] *= factor;
}

void hr_sum_end(hr_sum *sum, double *bound, double *noise) {
    const bool totalled = sum->count > sum->step * sum->chains;
    end_chains(sum);
    if (totalled) sum->squares += sum->ended * sum->ended, sum->reach += fabs(sum->ended); /* back to f32 */
    double squares = 0;
    for (uint64_t b = 0; b < sum->bin_count; ++b)
        squares += sum->bins[b] * sum->bins[b];
    const double unit = sum->unit * sum->growth;
    const double adding = HR_ROUNDING_DEVIATION * unit * sqrt(sum->squares),
                 drift = DRIFT_MARGIN * sum->growth * sum->drift_most, most = unit * sum->reach;
    if (most < drift + HR_NOISE_REACH * adding) {
        *bound = sum->bound + most;
        *noise = sqrt(squares);
    } else {
        *bound = sum->bound + drift;
        *noise = sqrt(squares + adding * adding);
    }
    if (sum->lost || sum->overflows || !(*bound <= HUGE_VAL) || !(*noise <= HUGE_VAL)) {
        *bound = INFINITY;
        *noise = 0;
    }
}
