/* Which thread of a team moves, from given processors: no clock and no second processor is needed. */
#define _GNU_SOURCE
#include "device/team_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

enum { PARTS = 4, JOBS = 64, LONG = 100 * JOBS };

typedef struct facts {
    hr_places places;
    hr_place place[PARTS];
    int moves[PARTS], first[PARTS]; /* the job of the first move */
} facts;

/* So many jobs on these processors, whose parts begin from `begins` on. */
static void run(facts *all, const int *processors, int jobs, int begins) {
    for (int job = 0; job < jobs; job++) {
        for (int i = 0; i < PARTS; i++) {
            const int p = (begins + i) % PARTS;
            const int crowded = hr_place_enter(&all->places, &all->place[p], p, processors[p]);
            if (crowded > 0) all->place[crowded].shared++;
        }
        for (int p = 1; p < PARTS; p++) {
            if (!hr_place_is_due(&all->place[p])) continue;
            if (!all->moves[p]++) all->first[p] = job;
        }
    }
}

static int *moves_on(const int *processors, int jobs, int begins) {
    static int moves[PARTS];
    facts *all = calloc(1, sizeof *all);
    assert_non_null(all);
    run(all, processors, jobs, begins);
    for (int p = 0; p < PARTS; p++)
        moves[p] = all->moves[p];
    if (moves[PARTS - 1]) assert_int_equal(all->first[PARTS - 1], JOBS - 1);
    free(all);
    return moves;
}

static void test_who_shares_moves(void **state) {
    (void)state;
    static const int apart[] = {0, 1, 2, 3}, with_caller[] = {5, 1, 2, 5}, of_workers[] = {5, 1, 2, 2},
                     unknown[] = {-1, -1, 1 << 20, 1 << 20};
    for (int begins = 0; begins < PARTS; begins++) {
        const int *moves = moves_on(apart, LONG, begins);
        assert_true(moves[1] + moves[2] + moves[3] == 0);
        moves = moves_on(unknown, LONG, begins);
        assert_true(moves[1] + moves[2] + moves[3] == 0);
        moves = moves_on(with_caller, JOBS, begins);
        assert_true(moves[1] == 0 && moves[2] == 0 && moves[3] == 1);
        moves = moves_on(of_workers, JOBS, begins);
        assert_true(moves[1] == 0 && moves[2] == 0 && moves[3] == 1);
    }
}

/* Where moving does not help, it is tried less and less often: after 1, 2, 4, ... windows. */
static void test_it_rests_where_moving_is_no_help(void **state) {
    (void)state;
    static const int shared[] = {0, 1, 2, 0};
    assert_int_equal(moves_on(shared, JOBS, 1)[3], 1);
    assert_int_equal(moves_on(shared, 3 * JOBS, 1)[3], 2);
    assert_int_equal(moves_on(shared, 6 * JOBS, 1)[3], 3);
    assert_int_equal(moves_on(shared, 100 * JOBS, 1)[3], 7);
}

/* A stray meeting, as a thread moves while it works, is no reason. */
static void test_few_meetings_are_no_reason(void **state) {
    (void)state;
    hr_place place = {0};
    for (int job = 0; job < LONG; job++) {
        place.shared += job % 3 == 0;
        assert_false(hr_place_is_due(&place));
    }
}

static void test_where_to(void **state) {
    (void)state;
    cpu_set_t allowed, out;
    hr_place places[3] = {{.processor = 2}, {.processor = 3}, {.processor = 2}};
    hr_place *const others[] = {&places[0], &places[1], &places[2]};
    CPU_ZERO(&allowed);
    CPU_SET(2, &allowed);
    CPU_SET(3, &allowed);
    assert_false(hr_places_free(&allowed, sizeof allowed, others, 3, &out));
    CPU_SET(7, &allowed);
    CPU_SET(9, &allowed);
    assert_true(hr_places_free(&allowed, sizeof allowed, others, 3, &out));
    assert_true(CPU_COUNT(&out) == 2 && CPU_ISSET(7, &out) && CPU_ISSET(9, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_shares_moves), cmocka_unit_test(test_it_rests_where_moving_is_no_help),
        cmocka_unit_test(test_few_meetings_are_no_reason), cmocka_unit_test(test_where_to)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
