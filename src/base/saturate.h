/* Arithmetic on sizes that stops at the largest number where it would pass it.
 *
 * A text may ask for any extent. What is chosen from a size (threads, blocks, room) is limited anyway, so a
 * size that is too large to count compares as what it is: too large. In: sizes of at least 0.
 */
#ifndef HR_BASE_SATURATE_H
#define HR_BASE_SATURATE_H

#include <limits.h>
#include <stdint.h>

static inline int64_t hr_saturate_product(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static inline int64_t hr_saturate_sum(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* a / b, upwards; `b` is at least 1. */
static inline int64_t hr_divide_up(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

static inline int64_t hr_round_up(int64_t a, int64_t unit) {
    return hr_saturate_product(hr_divide_up(a, unit), unit);
}

/* Of any number. */
static inline int hr_saturate_int(int64_t a) {
    return a > INT_MAX ? INT_MAX : a < INT_MIN ? INT_MIN : (int)a;
}

#endif
