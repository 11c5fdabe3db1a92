/* What else runs on this machine while something is measured.
 *
 * In: a device, whose readings a test may replace. Out: readings; of two of them the share of the time in
 * between that other programs took.
 */
#ifndef HR_DEVICE_LOAD_H
#define HR_DEVICE_LOAD_H

#include <stdbool.h>

struct hr_device;

/* Sums from any beginning on. What this machine does not tell stays 0. */
typedef struct hr_load_reading {
    double seconds;   /* of a clock that nobody sets */
    double waited;    /* seconds in which a thread of any program had to wait for a processor */
    double stolen;    /* seconds a processor that went to other machines of the same host */
    double throttled; /* seconds for which a control group's quota stopped processors, together */
    double switches;  /* how often another program took a processor from a thread of this process */
} hr_load_reading;

/* Where readings come from. read = NULL: from this machine. */
typedef struct hr_load_source {
    void (*read)(void *context, hr_load_reading *out);
    void *context;
} hr_load_source;

/* Above this share measured times are not the machine's own: they are told with it, and no roof is kept. */
#define HR_LOAD_BUSY 0.1

/* A GPU's time is its own: of one, only the clock is read. */
void hr_load_read(const struct hr_device *device, hr_load_reading *out);
/* Whether somebody says the load, in place of the machine. */
bool hr_load_is_given(const struct hr_device *device);
/* The share of the time between two readings in which other programs were in the way of `threads` threads:
 * 0 to 1. */
double hr_load_between(const hr_load_reading *begun, const hr_load_reading *ended, int threads);

/* The parts of a reading, of the text that the system gives; 0 where it is another. */
double hr_load_waited(const char *pressure); /* /proc/pressure/cpu */
/* /proc/stat, which counts in ticks, for all processors together. */
double hr_load_stolen(const char *stat, double ticks_a_second, long processors);
double hr_load_throttled(const char *stat); /* cpu.stat of a control group, version 1 or 2 */
/* How many processors a control group's quota lets run at once, rounded up; 0 = no limit. Version 2 has
 * "QUOTA PERIOD" in one file; version 1 a file for each, of which `period` is the second's text. */
int hr_load_quota(const char *quota, const char *period);
/* That of this process's group. */
int hr_load_quota_read(void);

#endif
