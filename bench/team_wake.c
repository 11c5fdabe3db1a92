/* How soon a team's threads work on a job, after pauses of several lengths: within SPIN_SECONDS of
 * src/device/team.c they look at a word, then between others' turns, then they sleep in the kernel.
 *
 * in:  team_wake [THREADS]   all otherwise
 * out: a line for each pause, in microseconds: from the call until the last part begins, and until the call
 * returns; the least, the median and the 90th percentile of RUNS. Of a machine that does nothing else.
 */
#include "base/clock.h"
#include "device/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 401, PARTS_MOST = 1024 };

typedef struct beginning {
    _Alignas(64) double seconds;
} beginning;

static void note(void *context, int64_t part, int64_t parts) {
    (void)parts;
    if (part < PARTS_MOST) ((beginning *)context)[part].seconds = hr_clock_seconds();
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *seconds) {
    qsort(seconds, RUNS, sizeof *seconds, compare);
    printf("   %s %7.2f %7.2f %7.2f", name, 1e6 * seconds[0], 1e6 * seconds[RUNS / 2],
           1e6 * seconds[RUNS * 9 / 10]);
}

static void print_pause(double pause, int threads) {
    static beginning parts[PARTS_MOST];
    static double begun[RUNS], ended[RUNS];
    for (int run = 0; run < RUNS; run++) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * pause)}, NULL);
        const double start = hr_clock_seconds();
        hr_team_run(threads, note, parts);
        ended[run] = hr_clock_seconds() - start;
        begun[run] = 0;
        for (int part = 0; part < threads && part < PARTS_MOST; part++)
            if (parts[part].seconds - start > begun[run]) begun[run] = parts[part].seconds - start;
    }
    printf("after %6.0f us:", 1e6 * pause);
    print_times("all begun", begun);
    print_times("call", ended);
    putchar('\n');
}

int main(int count, char **words) {
    static const double pauses[] = {0, 20e-6, 200e-6, 2e-3, 20e-3};
    const int threads = count > 1 ? atoi(words[1]) : hr_team_processors();
    if (threads < 1) return 2;
    printf("%d threads; least, median, 90th percentile in microseconds\n", threads);
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++)
        print_pause(pauses[i], threads);
    return 0;
}
