/* Which cases of a long list a test takes: `make test` a fixed part of them, `make test-long` all. For tests
 * only.
 *
 * In: the number of a case. Out: whether it is taken. Of `of` neighbours one is, each time at another place,
 * so that two nested loops meet in all ways in the end.
 */
#ifndef HR_TEST_SUPPORT_SAMPLE_H
#define HR_TEST_SUPPORT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline bool sample_takes(size_t number, size_t of) {
    return getenv("HR_TEST_LONG") || number % of == number / of % of;
}

#endif
