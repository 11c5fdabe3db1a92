/* Intervals of whole numbers, while nothing on the way to them reaches 2^30: so a lane of 32 bits holds them
 * all. In: the intervals of what a value is computed from. Out: the value's own; not known where it, or any
 * part of it, may be larger.
 *
 * The planner computes with them at the extents that it knows. Emitted functions hold the same text, and ask
 * it at the extents they are called with.
 */
#ifndef HR_BASE_INTERVAL_H
#define HR_BASE_INTERVAL_H

/* Emitted text includes these itself, and is C++, too. */
#include <stdbool.h>
#include <stdint.h>

typedef struct interval {
    int64_t low, high; /* both are reached, or may be */
    bool known;
} interval;

static inline interval interval_unknown(void) {
    const interval unknown = {0, 0, false};
    return unknown;
}

static inline interval interval_of(int64_t low, int64_t high) {
    const int64_t limit = (int64_t)1 << 30;
    const interval of = {low, high, true};
    return low <= -limit || high >= limit ? interval_unknown() : of;
}

static inline interval interval_number(int64_t number) {
    return interval_of(number, number);
}

/* The values of an index of this extent. */
static inline interval interval_index(interval extent) {
    if (!extent.known) return extent;
    return interval_of(0, extent.high > 0 ? extent.high - 1 : 0);
}

static inline interval interval_both(interval a, interval b, int64_t low, int64_t high) {
    return a.known && b.known ? interval_of(low, high) : interval_unknown();
}

static inline int64_t interval_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t interval_most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline interval interval_neg(interval a) {
    return interval_both(a, a, -a.high, -a.low);
}

static inline interval interval_add(interval a, interval b) {
    return interval_both(a, b, a.low + b.low, a.high + b.high);
}

static inline interval interval_sub(interval a, interval b) {
    return interval_both(a, b, a.low - b.high, a.high - b.low);
}

static inline interval interval_mul(interval a, interval b) {
    const int64_t ll = a.low * b.low, lh = a.low * b.high, hl = a.high * b.low, hh = a.high * b.high;
    return interval_both(a, b, interval_least(interval_least(ll, lh), interval_least(hl, hh)),
                         interval_most(interval_most(ll, lh), interval_most(hl, hh)));
}

static inline int64_t interval_floor(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* By one number above 0. */
static inline interval interval_floordiv(interval a, interval b) {
    if (b.low <= 0 || b.low != b.high) return interval_unknown();
    return interval_both(a, b, interval_floor(a.low, b.low), interval_floor(a.high, b.low));
}

/* By numbers above 0. */
static inline interval interval_mod(interval a, interval b) {
    if (b.low <= 0) return interval_unknown();
    if (a.low >= 0 && a.high < b.low) return interval_both(a, b, a.low, a.high);
    return interval_both(a, b, 0, b.high - 1);
}

static inline interval interval_min(interval a, interval b) {
    return interval_both(a, b, interval_least(a.low, b.low), interval_least(a.high, b.high));
}

static inline interval interval_max(interval a, interval b) {
    return interval_both(a, b, interval_most(a.low, b.low), interval_most(a.high, b.high));
}

/* One of the two. */
static inline interval interval_either(interval a, interval b) {
    return interval_both(a, b, interval_least(a.low, b.low), interval_most(a.high, b.high));
}

/* No value is below all of `least` or above all of `most`. */
static inline bool interval_within(interval value, interval least, interval most) {
    return value.known && least.known && most.known && value.low >= least.high && value.high <= most.low;
}

/* Emitted text has the paragraphs that it uses: this one is none of them. */
#endif
