/* The search against a machine whose costs are known, and the database against all that can befall a file. */
#define _GNU_SOURCE
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define MEETING_MOST 60000 /* milliseconds until a thread that never comes counts as a fault */

/* ---- a machine with known costs ---- */

typedef struct machine {
    double cost[HR_TRIED_MAX];
    bool broken[HR_TRIED_MAX]; /* does not compile */
    int prepared[HR_TRIED_MAX], timed[HR_TRIED_MAX];
    double noise, drift; /* relative spread; growth a run */
    double factor;
    uint32_t random;
    atomic_int preparing, most_preparing;
    int prepare_us, runs, cancel_after;
    int meets; /* the first preparing waits until so many are */
    double last_done;
    bool progress_odd;
} machine;

/* A candidate's number, which is a knob of its first stage. */
static int number_of(const hr_choice *choice) {
    return hr_choice_knobs(choice, 0).chunk;
}

static hr_choice numbered(int number) {
    return hr_choice_of(0, &(hr_knobs){.chunk = number});
}

static double uniform(machine *machine) {
    machine->random = machine->random * 1664525u + 1013904223u;
    return (machine->random >> 8) * 0x1p-24;
}

static hr_status machine_prepare(void *context, const hr_choice *choice) {
    machine *machine = context;
    int together = atomic_fetch_add(&machine->preparing, 1) + 1, most = machine->most_preparing;
    while (together > most && !atomic_compare_exchange_weak(&machine->most_preparing, &most, together)) {
    }
    for (int wait = 0; machine->most_preparing < machine->meets && wait < MEETING_MOST; wait++)
        usleep(1000);
    usleep((useconds_t)machine->prepare_us);
    machine->prepared[number_of(choice)]++;
    atomic_fetch_sub(&machine->preparing, 1);
    if (machine->broken[number_of(choice)])
        return hr_fail(HR_NOT_AVAILABLE, "candidate %d does not compile", number_of(choice));
    return HR_OK;
}

static hr_status machine_time(void *context, const hr_choice *choice, double *seconds) {
    machine *machine = context;
    machine->timed[number_of(choice)]++;
    machine->runs++;
    machine->factor *= 1 + machine->drift;
    *seconds = machine->cost[number_of(choice)] * machine->factor * (1 + machine->noise * uniform(machine));
    if (uniform(machine) < 0.05) *seconds *= 3; /* somebody else's turn */
    return HR_OK;
}

static bool machine_progress(void *context, const char *what, double done, double total) {
    machine *machine = context;
    bool timing = strcmp(what, "timing candidates") == 0;
    if (done > total || (timing && done != machine->last_done + 1)) machine->progress_odd = true;
    if (timing) machine->last_done = done;
    return !machine->cancel_after || machine->runs < machine->cancel_after;
}

static void candidates_number(hr_choice *candidates, int count) {
    for (int i = 0; i < count; i++)
        candidates[i] = numbered(i);
}

static const hr_tune_budget ample = {
    .candidates = HR_TRIED_MAX, .prepare_seconds = 5, .measure_seconds = 5, .rounds = 31};

static hr_status choose(machine *machine, int count, const hr_tune_budget *budget, hr_tuned *out) {
    hr_choice candidates[HR_TRIED_MAX];
    hr_trial trial = {.prepare = machine_prepare, .time = machine_time, .context = machine, .parallel = 2};
    candidates_number(candidates, count);
    if (machine->factor == 0) machine->factor = 1;
    return hr_tune_choose(candidates, count, budget, &trial, machine_progress, machine, out);
}

static void test_fastest_wins_through_noise(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        machine machine = {.noise = 0.06, .random = seed};
        hr_tuned tuned;
        for (int i = 0; i < 12; i++)
            machine.cost[i] = 0.010 * (1 + 0.10 * ((i + 5) % 12)); /* 7 is the fastest, by 10% */
        assert_int_equal(choose(&machine, 12, &ample, &tuned), HR_OK);
        assert_int_equal(number_of(&tuned.best), 7);
        assert_int_equal(tuned.tried_count, 12);
        assert_int_equal(number_of(&tuned.tried[0].choice), 7);
        for (int i = 1; i < 12; i++)
            assert_true(tuned.tried[i].seconds >= tuned.tried[i - 1].seconds);
        assert_false(tuned.cached);
        assert_false(machine.progress_odd);
    }
}

static void test_drift_hits_all_alike(void **state) {
    (void)state;
    machine machine = {.drift = 0.01, .random = 3}; /* after 70 runs all takes twice as long */
    hr_tuned tuned;
    for (int i = 0; i < 6; i++)
        machine.cost[i] = i == 4 ? 0.95 : 1;
    assert_int_equal(choose(&machine, 6, &ample, &tuned), HR_OK);
    assert_int_equal(number_of(&tuned.best), 4);
}

static void test_slow_ones_drop_out(void **state) {
    (void)state;
    machine machine = {.noise = 0.02, .random = 9};
    hr_tuned tuned;
    for (int i = 0; i < 20; i++)
        machine.cost[i] = i < 2 ? 1 + 0.004 * i : 4;
    assert_int_equal(choose(&machine, 20, &ample, &tuned), HR_OK);
    for (int i = 2; i < 20; i++)
        assert_in_range(machine.timed[i], 3, 5);
    assert_true(machine.timed[0] > 5);
}

static void test_incumbent_stays_unless_beaten(void **state) {
    (void)state;
    machine machine = {.cost = {1, 0.996}, .noise = 0, .random = 1};
    hr_tuned tuned;
    assert_int_equal(choose(&machine, 2, &ample, &tuned), HR_OK);
    assert_int_equal(number_of(&tuned.best), 0);
    machine.cost[1] = 0.97;
    machine.last_done = 0;
    assert_int_equal(choose(&machine, 2, &ample, &tuned), HR_OK);
    assert_int_equal(number_of(&tuned.best), 1);
}

static void test_broken_candidates(void **state) {
    (void)state;
    machine machine = {.cost = {5, 1, 3, 2}, .broken = {true, true}, .random = 1};
    hr_tuned tuned;
    assert_int_equal(choose(&machine, 4, &ample, &tuned), HR_OK);
    assert_int_equal(number_of(&tuned.best), 3);
    assert_int_equal(tuned.tried_count, 2);
    assert_int_equal(machine.timed[0] + machine.timed[1], 0);

    machine.broken[2] = machine.broken[3] = true;
    assert_int_equal(choose(&machine, 4, &ample, &tuned), HR_NOT_AVAILABLE);
    assert_string_equal(hr_last_error(), "candidate 0 does not compile");
}

static void test_cancelled(void **state) {
    (void)state;
    machine machine = {.cost = {3, 1, 2}, .random = 1, .cancel_after = 1};
    hr_tuned tuned = {.tried_count = 77};
    assert_int_equal(choose(&machine, 3, &ample, &tuned), HR_CANCELLED);
    assert_int_equal(tuned.tried_count, 77); /* of one candidate nothing is found */
    assert_int_equal(machine.runs, 1);
    machine.cancel_after = 3;
    assert_int_equal(choose(&machine, 3, &ample, &tuned), HR_CANCELLED);
    assert_int_equal(tuned.tried_count, 2); /* one run was before the second search */
    assert_int_equal(number_of(&tuned.best), 1);
    machine.cancel_after = 7;
    assert_int_equal(choose(&machine, 3, &ample, &tuned), HR_CANCELLED);
    assert_int_equal(tuned.tried_count, 3);
    assert_int_equal(machine.runs, 7);
}

static void test_prepares_two_at_a_time_once_each(void **state) {
    (void)state;
    machine machine = {.random = 1, .meets = 2};
    hr_tuned tuned;
    for (int i = 0; i < 9; i++)
        machine.cost[i] = 1 + i;
    assert_int_equal(choose(&machine, 9, &ample, &tuned), HR_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(machine.prepared[i], 1);
    assert_int_equal(machine.most_preparing, 2);
}

static void test_budget_ends_preparing(void **state) {
    (void)state;
    machine machine = {.random = 1, .prepare_us = 20000};
    hr_tune_budget hasty = {.candidates = 100, .prepare_seconds = 0.03, .measure_seconds = 1, .rounds = 5};
    hr_tuned tuned;
    for (int i = 0; i < 100; i++)
        machine.cost[i] = 1;
    assert_int_equal(choose(&machine, 100, &hasty, &tuned), HR_OK);
    assert_in_range(tuned.tried_count, 2, 20);
    machine.last_done = 0;
    assert_int_equal(choose(&machine, 1, &hasty, &tuned), HR_OK);
    assert_int_equal(tuned.tried_count, 1);
    assert_int_equal(choose(&machine, 0, &hasty, &tuned), HR_INTERNAL);
}

static void test_near_the_floor_is_enough(void **state) {
    (void)state;
    machine machine = {.cost = {1.01, 1.009}, .noise = 0.03, .random = 5};
    hr_tune_budget budget = ample;
    hr_tuned tuned;
    budget.floor_seconds = 1.01;
    assert_int_equal(choose(&machine, 2, &budget, &tuned), HR_OK);
    assert_true(machine.timed[0] <= 12);
}

/* Candidates of one tile's last digit make the same code; that of 7 cannot be told. */
static hr_status last_digit(void *context, const hr_choice *choice, char identity[33]) {
    ++*(int *)context;
    snprintf(identity, 33, "%d", number_of(choice) % 10);
    return number_of(choice) % 10 == 7 ? hr_fail(HR_NOT_AVAILABLE, "no plan") : HR_OK;
}

static void test_same_code_is_timed_once(void **state) {
    (void)state;
    const int tiles[] = {3, 13, 1, 3, 7, 11, 17, 0, 7, 2}, first[] = {3, 1, 7, 17, 0, 7, 2};
    int asked = 0;
    hr_trial trial = {.identify = last_digit, .context = &asked};
    for (int most = 0; most < 9; most++) {
        hr_choice candidates[10];
        for (int i = 0; i < 10; i++)
            candidates[i] = numbered(tiles[i]);
        assert_int_equal(hr_tune_distinct(candidates, 10, most, &trial), most < 7 ? most : 7);
        for (int i = 0; i < most && i < 7; i++)
            assert_int_equal(number_of(&candidates[i]), first[i]);
        if (most == 2) assert_int_equal(asked, 1 + 3); /* no more than it takes */
    }
    trial.identify = NULL;
    hr_choice candidates[10] = {{0}};
    assert_int_equal(hr_tune_distinct(candidates, 10, 20, &trial), 10);
}

static void test_label(void **state) {
    (void)state;
    char label[96], small[8];
    hr_knobs_label(&(hr_knobs){0}, label, sizeof label);
    assert_string_equal(label, "default");
    hr_knobs_label(&(hr_knobs){.store = HR_STORE_STREAMING, .accumulators = 2, .prefetch = HR_PREFETCH_2K},
                   label, sizeof label);
    assert_string_equal(label, "stores streaming, prefetch 2 KB, accumulators 2");
    hr_knobs_label(&(hr_knobs){.pipeline = HR_PIPELINE_ON, .throttle = HR_THROTTLE_ADDRESSES, .jam = 2},
                   label, sizeof label);
    assert_string_equal(label, "pipeline on, throttle addresses, jam 2");
    hr_knobs_label(&(hr_knobs){.block_m = 96, .register_n = 4}, label, sizeof label);
    assert_string_equal(label, "block m 96, register n 4");
    hr_knobs_label(&(hr_knobs){.store = HR_STORE_STREAMING, .accumulators = 2}, small, sizeof small);
    assert_string_equal(small, "stores ");
}

static void test_label_of_stages(void **state) {
    (void)state;
    char label[96], small[12];
    hr_choice choice = {0};
    hr_choice_label(&choice, 3, label, sizeof label);
    assert_string_equal(label, "default");
    assert_true(hr_choice_add(&choice, 1, &(hr_knobs){.store = HR_STORE_CACHED, .jam = 2}));
    hr_choice_label(&choice, 1, label, sizeof label);
    assert_string_equal(label, "stores cached, jam 2");
    assert_true(hr_choice_add(&choice, 2, &(hr_knobs){.prefetch = HR_PREFETCH_OFF}));
    hr_choice_label(&choice, 3, label, sizeof label);
    assert_string_equal(label, "stage 2: stores cached, jam 2; stage 3: prefetch off");
    hr_choice_label(&choice, 3, small, sizeof small);
    assert_string_equal(small, "stage 2: st");
}

/* ---- stages together ---- */

static hr_tried tried(int stage, int chunk, double seconds) {
    return (hr_tried){
        .choice = hr_choice_of(stage, &(hr_knobs){.chunk = chunk}), .seconds = seconds, .runs = 5};
}

static void test_best_of_each_stage_go_together(void **state) {
    (void)state;
    hr_tuned found = {.tried_count = 6,
                      .tried = {tried(2, 3, 0.7), tried(0, 5, 0.8), tried(0, 6, 0.9), tried(1, 7, 0.999),
                                tried(0, 0, 1), tried(3, 4, 1.2)}};
    hr_choice together;
    assert_true(hr_tune_combined(&found, &together));
    assert_int_equal(together.count, 2); /* what is no faster than the schedules' own stays theirs */
    assert_int_equal(hr_choice_knobs(&together, 0).chunk, 5);
    assert_int_equal(hr_choice_knobs(&together, 2).chunk, 3);
    assert_int_equal(hr_choice_check(&together, 3), HR_OK);
    found.tried[1] = found.tried[2] = tried(2, 9, 0.8);
    assert_false(hr_tune_combined(&found, &together)); /* one stage is no combination */
    found.tried_count = 0;
    assert_false(hr_tune_combined(&found, &together));
}

/* ---- the database ---- */

typedef struct folder {
    char path[64], file[96], corrupt[128];
} folder;

static void folder_make(folder *folder) {
    strcpy(folder->path, "/tmp/hr-test-tune-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    snprintf(folder->file, sizeof folder->file, "%s/tune.sqlite", folder->path);
    snprintf(folder->corrupt, sizeof folder->corrupt, "%s.corrupt", folder->file);
}

static void folder_remove(folder *folder) {
    unlink(folder->file);
    unlink(folder->corrupt);
    assert_int_equal(rmdir(folder->path), 0); /* no journal or other file is left behind */
}

static hr_tuned sample(int tile) {
    hr_tuned tuned = {
        .best = numbered(tile),
        .tried_count = 2,
        .tried = {{.choice = numbered(tile), .seconds = 0.0015, .runs = 7},
                  {.choice = hr_choice_of(2, &(hr_knobs){.accumulators = 2}), .seconds = 0.25, .runs = 3}},
        .seconds = 1.5};
    hr_choice_add(&tuned.best, 4, &(hr_knobs){.register_m = 2, .register_n = 4});
    return tuned;
}

static void keep_one(const char *path, const char *key, hr_tune mode, int tile, bool expected) {
    hr_tune_database *database = hr_tune_database_open(path);
    hr_tuned tuned = sample(tile);
    assert_int_equal(hr_tune_database_keep(database, key, mode, &tuned), expected);
    hr_tune_database_close(database);
}

static int find_one(const char *path, const char *key, hr_tune mode) {
    hr_tune_database *database = hr_tune_database_open(path);
    hr_tuned tuned;
    bool found = hr_tune_database_find(database, key, mode, &tuned);
    hr_tune_database_close(database);
    return found ? number_of(&tuned.best) : -1;
}

static void test_database_keeps_all(void **state) {
    (void)state;
    folder folder;
    folder_make(&folder);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 640, true);
    hr_tune_database *database = hr_tune_database_open(folder.path);
    hr_tuned tuned;
    assert_true(hr_tune_database_find(database, "key", HR_TUNE_QUICK, &tuned));
    assert_true(tuned.cached);
    assert_int_equal(number_of(&tuned.best), 640);
    assert_int_equal(hr_choice_knobs(&tuned.best, 0).register_m, 0);
    assert_int_equal(hr_choice_knobs(&tuned.best, 4).register_m, 2);
    assert_int_equal(hr_choice_knobs(&tuned.best, 4).register_n, 4);
    assert_int_equal(tuned.tried_count, 2);
    assert_int_equal(hr_choice_knobs(&tuned.tried[1].choice, 2).accumulators, 2);
    assert_int_equal(tuned.tried[0].runs, 7);
    assert_true(tuned.tried[0].seconds == 0.0015 && tuned.tried[1].seconds == 0.25 && tuned.seconds == 1.5);
    assert_false(hr_tune_database_find(database, "other key", HR_TUNE_NONE, &tuned));
    hr_tune_database_forget(database, "other key");
    assert_true(hr_tune_database_find(database, "key", HR_TUNE_NONE, &tuned));
    hr_tune_database_forget(database, "key");
    assert_false(hr_tune_database_find(database, "key", HR_TUNE_NONE, &tuned));
    hr_tune_database_close(database);
    folder_remove(&folder);
}

static void test_database_modes(void **state) {
    (void)state;
    folder folder;
    folder_make(&folder);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 1, true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_NONE), 1);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_FULL), -1);
    keep_one(folder.path, "key", HR_TUNE_FULL, 2, true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 2);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 3, true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_FULL), 2);
    folder_remove(&folder);
}

static void file_write(const char *path, long offset, const char *bytes, size_t length) {
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, length, offset), (ssize_t)length);
    close(file);
}

static void test_database_corrupt_is_rebuilt(void **state) {
    (void)state;
    char garbage[4096];
    folder folder;
    folder_make(&folder);
    memset(garbage, 0x5a, sizeof garbage);
    file_write(folder.file, 0, garbage, sizeof garbage); /* not a database at all */
    keep_one(folder.path, "key", HR_TUNE_QUICK, 5, true);
    assert_int_equal(access(folder.corrupt, F_OK), 0);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 5);

    unlink(folder.corrupt); /* a page of rows is damaged: the header and the schema are whole */
    file_write(folder.file, 4096, garbage, sizeof garbage);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), -1);
    assert_int_equal(access(folder.corrupt, F_OK), 0);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 6, true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 6);

    assert_int_equal(truncate(folder.file, 700), 0);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 7, true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 7);
    assert_int_equal(truncate(folder.file, 0), 0); /* empty is a new database */
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), -1);
    folder_remove(&folder);
}

static void sql(const char *path, const char *text) {
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

/* Puts a row's text in place, with the hash that belongs to it where `sealed`. */
static void put_row(const folder *folder, const char *body, bool sealed) {
    char text[1024], seal[32] = "";
    if (sealed)
        snprintf(seal, sizeof seal, "= %016llx\n",
                 (unsigned long long)XXH3_64bits_withSeed(body, strlen(body), XXH3_64bits("key", 3)));
    snprintf(text, sizeof text, "UPDATE tuned SET result = '%s%s'", body, seal);
    sql(folder->file, text);
}

/* Ranges hold even where the hash is right; and a row without it, or of another key, is none. */
static void test_database_hostile_rows_and_versions(void **state) {
    (void)state;
    folder folder;
    folder_make(&folder);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 5, true);
    static const char *const rows[] = {
        "nonsense\n",
        "\n",
        "1 2",
        "x\n",
        "nan 1\n",
        "-1 1\n",
        "1 1 0.chunk=99999999999\n",
        "1 1 0.chunk=1000000\n",
        "1 1 -1.chunk=16\n",
        "1 1 99999999999.chunk=16\n",
        "1 1 0.chunks=16\n",
        "1 1 0.chunk\n",
        "1 1 0.=16\n",
        "1 1 chunk=16\n",
        "0.1 3 0.store=3\n",
        "0.1 3 0.accumulators=9\n",
        "0.1 3 0.chunk=-1\n",
        "0.1 3 0.chunk=7\n0.1 3 0.prefetch=6\n",
        "0.1 3 0.chunk=7 0.chunk=8\n",
        "0.1 3 1.chunk=7 0.chunk=8\n",
        "0.1 3 0.chunk=7 0.jam=2\n",
        "0.1 3 7 0 0\n", /* one set for all stages, as versions before kept */
        "0.1 3 0.chunk=1 1.chunk=1 2.chunk=1 3.chunk=1 4.chunk=1 5.chunk=1 6.chunk=1 7.chunk=1 8.chunk=1 "
        "9.chunk=1 10.chunk=1 11.chunk=1 12.chunk=1 13.chunk=1 14.chunk=1 15.chunk=1 16.chunk=1\n"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int sealed = 0; sealed < 2; sealed++) {
            put_row(&folder, rows[i], sealed);
            assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), -1);
        }
    put_row(&folder, "0.5 3 0.chunk=7\n", false);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), -1);
    put_row(&folder, "0.5 3 0.chunk=7\n", true);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 7);
    sql(folder.file, "UPDATE tuned SET key = 'other'");
    assert_int_equal(find_one(folder.path, "other", HR_TUNE_QUICK), -1);
    sql(folder.file, "PRAGMA user_version = 4"); /* a newer headroom's: hands off */
    assert_null(hr_tune_database_open(folder.path));
    assert_int_equal(access(folder.corrupt, F_OK), -1);
    folder_remove(&folder);
}

/* A file of the schema before holds one set of knobs for all stages: it is begun anew, never misread. */
static void test_database_of_an_earlier_version(void **state) {
    (void)state;
    folder folder;
    folder_make(&folder);
    keep_one(folder.path, "key", HR_TUNE_FULL, 5, true);
    put_row(&folder, "0.5 3 7 0 0\n", true);
    sql(folder.file, "PRAGMA user_version = 2");
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_NONE), -1);
    keep_one(folder.path, "key", HR_TUNE_QUICK, 6, true); /* not a lesser result beside a full one */
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 6);
    folder_remove(&folder);
}

/* A link in the place of the database is not followed. */
static void test_database_is_no_link(void **state) {
    (void)state;
    folder folder;
    char canary[128];
    struct stat info;
    folder_make(&folder);
    snprintf(canary, sizeof canary, "%s/canary", folder.path);
    int file = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(symlink(canary, folder.file), 0);
    assert_null(hr_tune_database_open(folder.path));
    assert_int_equal(stat(canary, &info), 0);
    assert_int_equal(info.st_size, 0);
    unlink(canary);
    assert_null(hr_tune_database_open(folder.path)); /* nor made where the link points to */
    assert_int_equal(access(canary, F_OK), -1);
    folder_remove(&folder);
}

static void test_database_where_none_can_be(void **state) {
    (void)state;
    folder folder;
    hr_tuned tuned = sample(1);
    assert_null(hr_tune_database_open("/nonexistent/folder"));
    assert_false(hr_tune_database_find(NULL, "key", HR_TUNE_NONE, &tuned));
    assert_false(hr_tune_database_keep(NULL, "key", HR_TUNE_QUICK, &tuned));
    hr_tune_database_forget(NULL, "key");
    hr_tune_database_close(NULL);

    folder_make(&folder); /* a disk that is full */
    keep_one(folder.path, "key", HR_TUNE_QUICK, 1, true);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, 1024});
        hr_tune_database *database = hr_tune_database_open(folder.path);
        bool kept = hr_tune_database_keep(database, "other", HR_TUNE_QUICK, &tuned);
        bool found = hr_tune_database_find(database, "key", HR_TUNE_QUICK, &tuned);
        hr_tune_database_close(database);
        _exit(!kept && found ? 0 : 1);
    }
    int code = -1;
    waitpid(child, &code, 0);
    assert_int_equal(code, 0);
    assert_int_equal(find_one(folder.path, "key", HR_TUNE_QUICK), 1);
    folder_remove(&folder);
}

static void test_database_several_processes(void **state) {
    (void)state;
    enum { PROCESSES = 4, KEYS = 10 };
    folder folder;
    pid_t children[PROCESSES];
    folder_make(&folder); /* the schema does not exist yet: they race for it too */
    for (int p = 0; p < PROCESSES; p++)
        if ((children[p] = fork()) == 0) {
            int kept = 0;
            for (int k = 0; k < KEYS; k++) {
                char key[32];
                hr_tuned tuned = sample(100 * p + k);
                snprintf(key, sizeof key, "%d/%d", p, k);
                hr_tune_database *database = hr_tune_database_open(folder.path);
                kept += hr_tune_database_keep(database, key, HR_TUNE_QUICK, &tuned);
                hr_tune_database_close(database);
            }
            _exit(kept == KEYS ? 0 : 1);
        }
    for (int p = 0; p < PROCESSES; p++) {
        int code = -1;
        waitpid(children[p], &code, 0);
        assert_int_equal(code, 0);
    }
    for (int p = 0; p < PROCESSES; p++)
        for (int k = 0; k < KEYS; k++) {
            char key[32];
            snprintf(key, sizeof key, "%d/%d", p, k);
            assert_int_equal(find_one(folder.path, key, HR_TUNE_QUICK), 100 * p + k);
        }
    folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest_wins_through_noise),
        cmocka_unit_test(test_drift_hits_all_alike),
        cmocka_unit_test(test_slow_ones_drop_out),
        cmocka_unit_test(test_incumbent_stays_unless_beaten),
        cmocka_unit_test(test_broken_candidates),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_prepares_two_at_a_time_once_each),
        cmocka_unit_test(test_budget_ends_preparing),
        cmocka_unit_test(test_near_the_floor_is_enough),
        cmocka_unit_test(test_same_code_is_timed_once),
        cmocka_unit_test(test_label),
        cmocka_unit_test(test_label_of_stages),
        cmocka_unit_test(test_best_of_each_stage_go_together),
        cmocka_unit_test(test_database_keeps_all),
        cmocka_unit_test(test_database_modes),
        cmocka_unit_test(test_database_of_an_earlier_version),
        cmocka_unit_test(test_database_is_no_link),
        cmocka_unit_test(test_database_corrupt_is_rebuilt),
        cmocka_unit_test(test_database_hostile_rows_and_versions),
        cmocka_unit_test(test_database_where_none_can_be),
        cmocka_unit_test(test_database_several_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
