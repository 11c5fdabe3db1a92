/* Teams of threads: every part runs once and beside the others; callers, forks and wants of threads. */
#include "device/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 40
#define PARTS  9

typedef struct record {
    int64_t parts;
    atomic_int runs[64];
    int64_t sum[64]; /* of a part, at its last meeting */
    atomic_int wrong;
} record;

/* After each meeting a part sees what all others wrote before it. Only parts that run at once get past one.
 */
static void count_part(void *context, int64_t part, int64_t parts) {
    record *all = context;
    if (part == 0) all->parts = parts;
    atomic_fetch_add(&all->runs[part], 1);
    for (int64_t round = 1; round <= ROUNDS; round++) {
        all->sum[part] = round * (part + 1);
        hr_team_wait();
        for (int64_t other = 0; other < parts; other++)
            if (all->sum[other] != round * (other + 1)) atomic_fetch_add(&all->wrong, 1);
        hr_team_wait();
    }
}

static bool counts_are_right(int64_t wanted) {
    record all = {0};
    hr_team_run(wanted, count_part, &all);
    if (all.parts < 1 || all.parts > wanted || all.wrong) return false;
    for (int64_t part = 0; part < 64; part++)
        if (all.runs[part] != (part < all.parts)) return false;
    return true;
}

static void test_parts_meet(void **state) {
    (void)state;
    static const int64_t wanted[] = {1, 2, 3, PARTS, 4, 1, 2, PARTS + 8, 5};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        record all = {0};
        hr_team_run(wanted[i], count_part, &all);
        assert_int_equal(all.parts, wanted[i]);
        assert_int_equal(all.wrong, 0);
        for (int64_t part = 0; part < 64; part++)
            assert_int_equal(all.runs[part], part < wanted[i]);
    }
}

static void nothing(void *context, int64_t part, int64_t parts) {
    (void)part, (void)parts;
    atomic_fetch_add((atomic_int *)context, 1);
}

/* Many short jobs, some after all have gone to sleep. */
static void test_many_jobs(void **state) {
    (void)state;
    atomic_int runs = 0;
    for (int i = 0; i < 8000; i++) {
        hr_team_run(1 + i % 4, nothing, &runs);
        if (i % 2000 == 1999) usleep(20000);
    }
    assert_int_equal(runs, 8000 / 4 * (1 + 2 + 3 + 4));
}

static void *call_from_thread(void *good) {
    for (int i = 0; i < 8; i++)
        if (!counts_are_right(2 + i % 3)) return NULL;
    return good;
}

static void test_many_callers(void **state) {
    (void)state;
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_from_thread, threads), 0);
    for (int i = 0; i < 6; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_ptr_equal(good, threads);
    }
}

static int status_of(pid_t process) {
    int status = -1;
    if (process < 0 || waitpid(process, &status, 0) != process) return -1;
    return status;
}

/* A child starts threads of its own, and so does its child; the parent's go on. */
static void test_forked_child(void **state) {
    (void)state;
    assert_true(counts_are_right(3));
    pid_t process = fork();
    if (process == 0) {
        alarm(600); /* a hang ends by it */
        if (!counts_are_right(3) || !counts_are_right(5)) _exit(1);
        process = fork();
        if (process == 0) _exit(counts_are_right(4) ? 0 : 2);
        _exit(status_of(process) == 0 ? 0 : 3);
    }
    assert_int_equal(status_of(process), 0);
    assert_true(counts_are_right(3));
}

/* Without room for a stack there is no thread: the caller does the work alone. */
static void test_no_threads(void **state) {
    (void)state;
    pid_t process = fork();
    if (process == 0) {
        const struct rlimit none = {0, 0};
        record all = {0};
        alarm(600);
        if (setrlimit(RLIMIT_AS, &none) != 0) _exit(1);
        hr_team_run(4, count_part, &all);
        _exit(all.parts == 1 && all.runs[0] == 1 && !all.wrong ? 0 : 2);
    }
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    (void)status_of(process); /* a sanitizer needs memory of its own */
#else
    assert_int_equal(status_of(process), 0);
#endif
}

/* ---- threads of the caller's ---- */

typedef struct hosted_part {
    hr_part_fn part;
    void *job;
    int64_t number, parts;
} hosted_part;

static void *run_hosted(void *argument) {
    const hosted_part *own = argument;
    own->part(own->job, own->number, own->parts);
    return NULL;
}

static void run_on_own_threads(void *context, int64_t parts, hr_part_fn part, void *job) {
    pthread_t threads[PARTS];
    hosted_part own[PARTS];
    atomic_fetch_add((atomic_int *)context, 1);
    for (int64_t i = 0; i < parts; i++) {
        own[i] = (hosted_part){part, job, i, parts};
        assert_int_equal(pthread_create(&threads[i], NULL, run_hosted, &own[i]), 0);
    }
    for (int64_t i = 0; i < parts; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_of_the_caller(void **state) {
    (void)state;
    atomic_int jobs = 0;
    const hr_team_host host = {run_on_own_threads, &jobs};
    const hr_team_host *before = hr_team_host_set(&host);
    assert_null(before);
    assert_true(counts_are_right(PARTS));
    assert_true(counts_are_right(1)); /* alone it needs nobody */
    assert_ptr_equal(hr_team_host_set(NULL), &host);
    assert_true(counts_are_right(2));
    assert_int_equal(jobs, 1);
}

static void test_processors(void **state) {
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    const int all = hr_team_processors();
    assert_true(all >= 1);
    setenv("OMP_NUM_THREADS", "1,4", 1);
    assert_int_equal(hr_team_processors(), 1);
    setenv("OMP_NUM_THREADS", "many", 1);
    assert_int_equal(hr_team_processors(), all);
    unsetenv("OMP_NUM_THREADS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_threads), /* first: stacks of threads that have ended are used again */
        cmocka_unit_test(test_parts_meet),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_many_callers),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_threads_of_the_caller),
        cmocka_unit_test(test_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
