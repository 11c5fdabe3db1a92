/* Seconds that pass, and the middle of several measured values. */
#ifndef HR_BASE_CLOCK_H
#define HR_BASE_CLOCK_H

/* Of a clock that nobody sets; from any beginning. */
double hr_clock_seconds(void);
/* For qsort(): the smaller first. */
int hr_compare_doubles(const void *a, const void *b);
/* Sorts them. count > 0; of an even count the upper of the two in the middle. */
double hr_median(double *values, int count);

#endif
