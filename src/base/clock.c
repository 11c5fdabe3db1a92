/* Seconds that pass, and the middle of several measured values. See clock.h. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

double hr_clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int hr_compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hr_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, hr_compare_doubles);
    return values[count / 2];
}
