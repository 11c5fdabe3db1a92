/* Threads that run the parts of one job at the same time.
 *
 * A team is a caller and threads of ours beside it. It is started when it is first needed, waits for the next
 * job without taking a processor, and serves one caller at a time: callers from several threads have a team
 * each. Where the system gives no more threads, a job has fewer parts.
 *
 * A forked child has no threads but the one that forked: it starts teams of its own.
 */
#ifndef HR_DEVICE_TEAM_H
#define HR_DEVICE_TEAM_H

#include "headroom.h"

#include <stdbool.h>
#include <stdint.h>

/* How many threads may run at once: those of the process's affinity, or OMP_NUM_THREADS where that is less.
 */
int hr_team_processors(void);

/* Calls work(context, part, parts) for each part from 0 to parts - 1, all at the same time, part 0 in the
 * calling thread, and returns when all have. parts is `wanted` (0 = hr_team_processors()) or fewer, at
 * least 1. Nothing fails. */
void hr_team_run(int64_t wanted, hr_part_fn work, void *context);

/* The part that runs this waits until all parts of its job have called it as often. */
void hr_team_wait(void);

/* Jobs of this thread run on threads of the caller's from here on; NULL = on ours. Returns what was said
 * before. */
typedef struct hr_team_host {
    hr_parallel_fn run;
    void *context;
} hr_team_host;
const hr_team_host *hr_team_host_set(const hr_team_host *host);

/* What compiled code reaches these by, under the name HR_TEAM_NAME. */
typedef struct hr_team_calls {
    void (*run)(int64_t wanted, hr_part_fn work, void *context);
    void (*wait)(void);
} hr_team_calls;
#define HR_TEAM_NAME "hr_team"
extern const hr_team_calls hr_team_calls_given;

#endif
