/* What else runs on this machine: pressure, steal, quotas, involuntary switches. See load.h.
 *
 * HEADROOM_LOAD, a share from 0 to 1, stands in for all of them: where a container is shown the host's
 * readings, and in tests.
 */
#define _GNU_SOURCE
#include "device/load.h"
#include "base/file.h"

#include "base/clock.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TEXT_MOST 4096
#define SLICE     0.003 /* seconds for which another program has a processor that it took: a usual time slice */

/* The group of this process, as a container sees it: its own is the root. */
#define GROUP_2 "/sys/fs/cgroup/"
#define GROUP_1 "/sys/fs/cgroup/cpu/"

static const char *file_read(const char *path, char text[TEXT_MOST]) {
    hr_file_first(path, text, TEXT_MOST);
    return text;
}

/* The number behind `key` in a text; 0 where there is none. */
static double number_behind(const char *text, const char *key) {
    const char *at = strstr(text, key);
    double number = at ? strtod(at + strlen(key), NULL) : 0;
    return isfinite(number) && number > 0 ? number : 0;
}

/* ---- texts of the system ---- */

double hr_load_waited(const char *pressure) {
    return strncmp(pressure, "some ", 5) == 0 ? 1e-6 * number_behind(pressure, "total=") : 0;
}

double hr_load_stolen(const char *stat, double ticks_a_second, long processors) {
    double stolen = 0;
    if (sscanf(stat, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &stolen) != 1) return 0;
    return stolen > 0 && ticks_a_second > 0 && processors > 0 ? stolen / ticks_a_second / (double)processors
                                                              : 0;
}

/* Version 2 counts microseconds, version 1 nanoseconds. */
double hr_load_throttled(const char *stat) {
    return strstr(stat, "throttled_usec ") ? 1e-6 * number_behind(stat, "throttled_usec ")
                                           : 1e-9 * number_behind(stat, "throttled_time ");
}

int hr_load_quota(const char *quota, const char *period) {
    double each, whole = 0;
    int read = sscanf(quota, "%lf %lf", &each, &whole);
    if (read < 2 && (read < 1 || sscanf(period, "%lf", &whole) != 1)) return 0;
    return each > 0 && whole > 0 && each / whole < 1e6 ? (int)ceil(each / whole) : 0;
}

int hr_load_quota_read(void) {
    char quota[TEXT_MOST], period[TEXT_MOST];
    int threads = hr_load_quota(file_read(GROUP_2 "cpu.max", quota), "");
    return threads ? threads
                   : hr_load_quota(file_read(GROUP_1 "cpu.cfs_quota_us", quota),
                                   file_read(GROUP_1 "cpu.cfs_period_us", period));
}

/* ---- readings ---- */

static void read_machine(hr_load_reading *out) {
    char text[TEXT_MOST];
    struct rusage usage;
    out->waited = hr_load_waited(file_read("/proc/pressure/cpu", text));
    out->stolen = hr_load_stolen(file_read("/proc/stat", text), (double)sysconf(_SC_CLK_TCK),
                                 sysconf(_SC_NPROCESSORS_ONLN));
    out->throttled = hr_load_throttled(file_read(GROUP_2 "cpu.stat", text));
    if (out->throttled == 0) out->throttled = hr_load_throttled(file_read(GROUP_1 "cpu.stat", text));
    if (getrusage(RUSAGE_SELF, &usage) == 0) out->switches = (double)usage.ru_nivcsw;
}

static const char *share_given(void) {
    const char *share = getenv("HEADROOM_LOAD");
    return share && share[0] ? share : NULL;
}

bool hr_load_is_given(const struct hr_device *device) {
    return device->load.read || share_given();
}

void hr_load_read(const struct hr_device *device, hr_load_reading *out) {
    *out = (hr_load_reading){0};
    if (device->load.read) {
        device->load.read(device->load.context, out);
        return;
    }
    const char *share = share_given();
    out->seconds = hr_clock_seconds();
    if (device->limits.compute) return;
    if (share)
        out->waited = out->seconds * strtod(share, NULL);
    else
        read_machine(out);
}

double hr_load_between(const hr_load_reading *begun, const hr_load_reading *ended, int threads) {
    double seconds = ended->seconds - begun->seconds;
    if (!(seconds > 0)) return 0;
    const double taken[] = {ended->waited - begun->waited, ended->stolen - begun->stolen,
                            (ended->throttled - begun->throttled) / (threads > 0 ? threads : 1),
                            (ended->switches - begun->switches) * SLICE / (threads > 0 ? threads : 1)};
    double most = 0;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        most = fmax(most, taken[i]);
    return fmin(most / seconds, 1);
}
