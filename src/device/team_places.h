/* Which processors the threads of a team run on, and when one of them should move.
 *
 * Two threads that share a processor while another one idles take turns, and a kernel of 3 us takes 20. The
 * kernel of the system leaves them there as long as each sleeps or yields often. So each part of a job notes
 * its processor when it begins, and sees there which part noted it last.
 *
 * In: processors, as sched_getcpu() tells them. Out: whether a worker moves, and where to. No system call is
 * made here. */
#ifndef HR_DEVICE_TEAM_PLACES_H
#define HR_DEVICE_TEAM_PLACES_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#define HR_PLACES_MOST 1024 /* processors that are told apart */

/* Of a team: the part that noted a processor last, + 1, each in a cache line of its own. */
typedef struct hr_places {
    struct {
        atomic_short part;
        char apart[62];
    } last[HR_PLACES_MOST];
} hr_places;

/* Of a part. */
typedef struct hr_place {
    atomic_int processor;
    atomic_int shared; /* jobs of this window in which it shared its processor */
    int jobs;          /* of this window */
    int rest;          /* windows until it may move again */
    int moves;
} hr_place;

/* The part that has to make room, where another one was on this processor last: the later of the two, since
 * part 0 is the caller's own thread. -1: it is alone. */
int hr_place_enter(hr_places *places, hr_place *place, int part, int processor);
/* Counts a job. True at the end of a window of which it shared most jobs; each time later than the last,
 * since where moving does not help, other programs use the processors. */
bool hr_place_is_due(hr_place *place);
/* Of `allowed`, those that none of `others` is; false where there is none. Both sets have `bytes`. */
bool hr_places_free(const cpu_set_t *allowed, size_t bytes, hr_place *const *others, int count,
                    cpu_set_t *out);

#endif
