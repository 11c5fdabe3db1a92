/* Teams of threads. In: a job and how many parts are wanted. Out: the job, done.
 *
 * Who waits looks at a word for some microseconds, then looks between others' turns (sched_yield), then
 * sleeps on it (futex). Between launches that follow each other nobody sleeps: to wake sixteen threads took a
 * third of a millisecond on a virtual machine. On a busy machine nobody keeps a processor from the one that
 * is waited for. Each thread that is woken wakes two more before it works, so that a large team is awake
 * after few steps. A worker that shares its processor with another part of the team moves to one that none
 * has.
 */
#define _GNU_SOURCE
#include "device/team.h"

#include "base/clock.h"
#include "device/team_places.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_SECONDS  5e-6
#define AWAKE_SECONDS 5e-3
#define SPIN_ROUND    32 /* looks between two looks at the clock */
#define PARTS_MOST    1024
#define STACK_BYTES   ((size_t)1 << 20)
#define PATIENCE      256 /* jobs after a refusal before more threads are asked for again */
#define AFFINITY_SETS 8

typedef struct hr_signal {
    atomic_uint word;
    atomic_int sleepers;
} hr_signal;

/* The parts of one job, where they wait for each other. */
typedef struct meeting {
    hr_signal round;
    atomic_int arrived;
    int64_t parts;
} meeting;

typedef struct team team;

typedef struct worker {
    _Alignas(64) hr_signal order; /* how many jobs it was given */
    team *team;
    int64_t part;
    hr_place place;
} worker;

struct team {
    team *next; /* of those without a job */
    worker *workers[PARTS_MOST];
    int count;    /* of workers */
    int patience; /* jobs until the next try to have more */
    hr_places places;
    hr_place place; /* of the thread that gives the jobs */
    /* The job: */
    hr_part_fn work;
    void *context;
    meeting meeting;
    atomic_int left; /* workers that have not ended */
    hr_signal ended; /* how many jobs have */
};

/* Of the process, as threads are; a device that is destroyed leaves them for the next one. */
static struct {
    pthread_mutex_t lock;
    team *idle; /* the last one to end a job first: its threads are awake, its data near */
    pthread_once_t once;
    bool forks; /* a child will be told */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static _Thread_local meeting *here; /* of the part that this thread runs */
static _Thread_local const hr_team_host *host;

/* ---- waiting ---- */

static void futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void pause_briefly(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* False where the word still has this value after a while. */
static bool spin_while(atomic_uint *word, unsigned value) {
    double begun = 0, waited = 0;
    for (int looks = 1; atomic_load_explicit(word, memory_order_acquire) == value; looks++) {
        if (waited > SPIN_SECONDS)
            sched_yield();
        else
            pause_briefly();
        if (looks % SPIN_ROUND && waited <= SPIN_SECONDS) continue;
        const double now = hr_clock_seconds();
        if (begun == 0) begun = now;
        waited = now - begun;
        if (waited > AWAKE_SECONDS) return false;
    }
    return true;
}

static void signal_wait(hr_signal *signal, unsigned value) {
    if (spin_while(&signal->word, value)) return;
    atomic_fetch_add(&signal->sleepers, 1);
    while (atomic_load(&signal->word) == value)
        futex_wait(&signal->word, value);
    atomic_fetch_sub(&signal->sleepers, 1);
}

/* The order of both accesses is total with that of signal_wait(): who sleeps is seen, or does not sleep. */
static void signal_give(hr_signal *signal) {
    atomic_fetch_add(&signal->word, 1);
    if (atomic_load(&signal->sleepers)) futex_wake(&signal->word, INT_MAX);
}

static void meeting_wait(meeting *meeting) {
    const unsigned round = atomic_load_explicit(&meeting->round.word, memory_order_acquire);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 < meeting->parts) {
        signal_wait(&meeting->round, round);
        return;
    }
    atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
    signal_give(&meeting->round);
}

void hr_team_wait(void) {
    if (here && here->parts > 1) meeting_wait(here);
}

/* ---- parts ---- */

static void part_run(meeting *meeting, int64_t part, hr_part_fn work, void *context) {
    struct meeting *const before = here;
    here = meeting;
    work(context, part, meeting->parts);
    here = before;
}

static hr_place *place_of(team *team, int64_t part) {
    return part ? &team->workers[part - 1]->place : &team->place;
}

static void team_part(team *team, int64_t part) {
    const int crowded = hr_place_enter(&team->places, place_of(team, part), (int)part, sched_getcpu());
    if (crowded > 0 && crowded < team->meeting.parts)
        atomic_fetch_add_explicit(&place_of(team, crowded)->shared, 1, memory_order_relaxed);
    for (int64_t next = 2 * part + 1; next <= 2 * part + 2 && next < team->meeting.parts; next++)
        signal_give(&team->workers[next - 1]->order);
    part_run(&team->meeting, part, team->work, team->context);
}

/* To a processor of its own, if there is one. Afterwards it may run wherever it might before: the system's
 * kernel moves it where others need the processor more. */
static void worker_move(worker *own, int64_t parts) {
    cpu_set_t allowed[AFFINITY_SETS], unused[AFFINITY_SETS];
    hr_place *others[PARTS_MOST];
    if (sched_getaffinity(0, sizeof allowed, allowed) != 0) return;
    for (int64_t part = 0; part < parts; part++)
        others[part] = place_of(own->team, part);
    if (!hr_places_free(allowed, sizeof allowed, others, (int)parts, unused)) return;
    sched_setaffinity(0, sizeof unused, unused);
    sched_setaffinity(0, sizeof allowed, allowed);
}

static void *worker_main(void *argument) {
    worker *own = argument;
    team *team = own->team;
    for (unsigned jobs = 0;; jobs++) {
        signal_wait(&own->order, jobs);
        const int64_t parts = team->meeting.parts; /* of the next job once this one has ended */
        team_part(team, own->part);
        const bool moves = hr_place_is_due(&own->place);
        if (atomic_fetch_sub(&team->left, 1) == 1) signal_give(&team->ended);
        if (moves) worker_move(own, parts);
    }
    return NULL;
}

/* ---- teams ---- */

static void forget_teams(void) {
    pool.idle = NULL; /* their threads stayed with the parent */
    pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void watch_forks(void) {
    pool.forks = pthread_atfork(NULL, NULL, forget_teams) == 0;
}

static bool worker_start(team *team) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    worker *added = aligned_alloc(_Alignof(worker), sizeof *added);
    if (!added) return false;
    if (pthread_attr_init(&attributes) != 0) {
        free(added);
        return false;
    }
    *added = (worker){.team = team, .part = team->count + 1};
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are for threads of the program */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread, &attributes, worker_main, added) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (started)
        team->workers[team->count++] = added;
    else
        free(added);
    return started;
}

static void team_grow(team *team, int64_t workers) {
    if (team->count >= workers) return;
    if (team->patience) {
        team->patience--;
        return;
    }
    while (team->count < workers)
        if (!worker_start(team)) {
            team->patience = PATIENCE;
            return;
        }
}

/* NULL where there is no memory for one. */
static team *team_take(void) {
    pthread_once(&pool.once, watch_forks);
    if (!pool.forks) return NULL; /* a child would wait for threads that it does not have */
    pthread_mutex_lock(&pool.lock);
    team *team = pool.idle;
    if (team) pool.idle = team->next;
    pthread_mutex_unlock(&pool.lock);
    return team ? team : calloc(1, sizeof *team);
}

static void team_give_back(team *team) {
    pthread_mutex_lock(&pool.lock);
    team->next = pool.idle;
    pool.idle = team;
    pthread_mutex_unlock(&pool.lock);
}

static void team_work(team *team, int64_t parts, hr_part_fn work, void *context) {
    const unsigned jobs = atomic_load(&team->ended.word);
    team->work = work;
    team->context = context;
    team->meeting.parts = parts;
    atomic_store(&team->left, (int)parts - 1);
    team_part(team, 0);
    if (parts > 1) signal_wait(&team->ended, jobs);
}

static void run_alone(hr_part_fn work, void *context) {
    meeting one = {.parts = 1};
    part_run(&one, 0, work, context);
}

/* ---- threads of the caller's ---- */

typedef struct hosted {
    meeting meeting;
    hr_part_fn work;
    void *context;
} hosted;

static void hosted_part(void *context, int64_t part, int64_t parts) {
    hosted *job = context;
    (void)parts;
    part_run(&job->meeting, part, job->work, job->context);
}

const hr_team_host *hr_team_host_set(const hr_team_host *given) {
    const hr_team_host *before = host;
    host = given;
    return before;
}

/* ---- jobs ---- */

int hr_team_processors(void) {
    cpu_set_t sets[AFFINITY_SETS];
    int count = sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets)
                                                             : (int)sysconf(_SC_NPROCESSORS_ONLN);
    const char *text = getenv("OMP_NUM_THREADS");
    const long wanted = text ? strtol(text, NULL, 10) : 0;
    if (wanted > 0 && wanted < count) count = (int)wanted;
    return count > 0 ? count : 1;
}

void hr_team_run(int64_t wanted, hr_part_fn work, void *context) {
    if (wanted == 0) wanted = hr_team_processors();
    if (wanted > PARTS_MOST) wanted = PARTS_MOST;
    if (host && wanted > 1) {
        hosted job = {.meeting = {.parts = wanted}, .work = work, .context = context};
        host->run(host->context, wanted, hosted_part, &job);
        return;
    }
    team *team = wanted > 1 ? team_take() : NULL;
    if (!team) {
        run_alone(work, context);
        return;
    }
    team_grow(team, wanted - 1);
    team_work(team, team->count + 1 < wanted ? team->count + 1 : wanted, work, context);
    team_give_back(team);
}

const hr_team_calls hr_team_calls_given = {hr_team_run, hr_team_wait};
