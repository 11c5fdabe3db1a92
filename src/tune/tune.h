/* Which knobs of its stages make this plan fastest on this device: the cost model's order, then measurement,
 * then the database.
 *
 * In: a plan, what its best choice depends on as a key, a way to time one choice. Out: the best choice and
 * what was tried.
 *
 * The protocol of a search: candidate 0 is the cost model's choice, the incumbent. Of candidates that make
 * the same code only the first is looked at. All are prepared, two at a time, within a budget. Then they are
 * timed in turn (A B C C B A ...), so that a drift of the machine hits all alike; medians decide; the clearly
 * slower ones drop out after each few rounds; the rest go on until the best two are told apart or time is up.
 * A challenger replaces the incumbent only where it is more than half a percent faster, and in most rounds.
 * Each candidate changes one stage. At last what was best for each of several stages is tried together.
 */
#ifndef HR_TUNE_TUNE_H
#define HR_TUNE_TUNE_H

#include "device/device.h"
#include "schedule/choice.h"
#include "schedule/schedule.h"

/* Seconds of one launch with this choice; compiles where needed. May be called in any order, repeatedly.
 * Failure other than HR_CANCELLED drops the candidate. `prepare` is called from `parallel` threads at once
 * (0 counts as 1), `time` never beside anything else. */
typedef struct hr_trial {
    hr_status (*prepare)(void *context, const hr_choice *choice); /* plan, emit, compile, keep loaded */
    hr_status (*time)(void *context, const hr_choice *choice, double *seconds);
    void *context;
    int parallel;
    /* A hash of the code that this choice makes and of how it is launched, asked before anything is
     * prepared; what it took may be kept for `prepare`. NULL where all may differ. */
    hr_status (*identify)(void *context, const hr_choice *choice, char identity[33]);
} hr_trial;

typedef struct hr_tried {
    hr_choice choice;
    double seconds; /* median */
    int runs;
} hr_tried;

#define HR_TRIED_MAX 128
typedef struct hr_tuned {
    hr_choice best;
    int tried_count;
    hr_tried tried[HR_TRIED_MAX]; /* fastest first */
    double seconds;               /* spent searching */
    bool cached; /* from the database: nothing was tried now; `tried` holds what was tried then */
} hr_tuned;

/* `key`: text, kernel, extents, layouts, device, compiler, version, the code of the cost model's choice -
 * made by the caller (src/run). HR_TUNE_NONE looks into the database only. HR_TUNE_QUICK is satisfied by an
 * earlier quick or full result; FULL by a full one. Progress is told in candidates prepared, then in
 * candidate runs, so that elapsed / done * (total - done) is the time left. */
hr_status hr_tune_search(const hr_plan *plan, const char *key, hr_tune mode, double floor_seconds,
                         const hr_trial *trial, hr_progress_fn progress, void *progress_context,
                         hr_tuned *out);

/* What was found for the key gave a wrong result: nobody shall find it again. */
void hr_tune_forget(const char *key);

/* ---- the parts of it ---- */

typedef struct hr_tune_budget {
    int candidates;         /* at most so many are looked at */
    double prepare_seconds; /* at least the first two are prepared, whatever it takes */
    double measure_seconds;
    int rounds;           /* at most so many runs a candidate */
    double floor_seconds; /* the search ends when much is timed and a candidate is this near (2%) to the
                             floor; 0 = not known */
} hr_tune_budget;

hr_tune_budget hr_tune_budget_of(hr_tune mode);

/* Moves the first `most` candidates that differ to the front, in their order; their number. One that cannot
 * be told from others differs. */
int hr_tune_distinct(hr_choice *candidates, int count, int most, const hr_trial *trial);

/* The search without plan and database; candidates[0] is the incumbent. `out` is filled but for `cached`.
 * HR_CANCELLED when progress says so: what two candidates and more had come to by then is in `out`, which
 * else is left as it was; the error of candidate 0 when no candidate at all could be timed. */
hr_status hr_tune_choose(const hr_choice *candidates, int count, const hr_tune_budget *budget,
                         const hr_trial *trial, hr_progress_fn progress, void *progress_context,
                         hr_tuned *out);

/* What was faster than the schedules' own for each stage by itself, together. False where that is of one
 * stage, or of none. */
bool hr_tune_combined(const hr_tuned *found, hr_choice *out);

/* The database `tune.sqlite` in `folder`. Nothing here fails a caller: a database that cannot be opened, read
 * or written is one that holds nothing, and a corrupt file is renamed to tune.sqlite.corrupt and begun anew.
 * Safe with several processes at once. */
typedef struct hr_tune_database hr_tune_database;
hr_tune_database *hr_tune_database_open(const char *folder); /* NULL where there can be none */
void hr_tune_database_close(hr_tune_database *database);
/* False where nothing as thorough as `mode` is kept. */
bool hr_tune_database_find(hr_tune_database *database, const char *key, hr_tune mode, hr_tuned *out);
/* False where it could not be kept. A quick result never replaces a full one. */
bool hr_tune_database_keep(hr_tune_database *database, const char *key, hr_tune mode, const hr_tuned *tuned);
/* Nothing is kept of the key any more. */
void hr_tune_database_forget(hr_tune_database *database, const char *key);

#endif
