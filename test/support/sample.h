/* Which cases of a long list a test takes: `make test` a fixed part of them, `make test-long` all, which
 * HR_TEST_LONG=2/16 shares among sixteen runs. For tests only.
 *
 * In: the number of a case. Out: whether it is taken. Of `of` neighbours one is, each time at another place,
 * so that two nested loops meet in all ways in the end.
 */
#ifndef HR_TEST_SUPPORT_SAMPLE_H
#define HR_TEST_SUPPORT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Of a long list that all runs go through: whether this run does what is long for that number. */
static inline bool sample_is_long(size_t number) {
    const char *all = getenv("HR_TEST_LONG");
    const char *parts = all ? strchr(all, '/') : NULL;
    return all && (!parts || number % strtoul(parts + 1, NULL, 10) == strtoul(all, NULL, 10));
}

static inline bool sample_takes(size_t number, size_t of) {
    return getenv("HR_TEST_LONG") ? sample_is_long(number) : number % of == number / of % of;
}

/* Whether this run is one of several that share what is long: what holds of all of it need not hold here. */
static inline bool sample_is_shared(void) {
    const char *all = getenv("HR_TEST_LONG");
    return all && strchr(all, '/');
}

#endif
