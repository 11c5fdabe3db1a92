/* Database, then search, then database. In: a plan, a key, a trial. Out: the best knobs for this device.
 */
#include "tune/tune.h"

#include "base/cache.h"
#include "emit/emit.h"
#include "schedule/target.h"

#include <string.h>

typedef char identity[33];

static bool is_known(const identity *known, int count, const char *identity) {
    for (int i = 0; i < count; i++)
        if (strcmp(known[i], identity) == 0) return true;
    return false;
}

int hr_tune_distinct(hr_knobs *candidates, int count, int most, const hr_trial *trial) {
    identity known[HR_TRIED_MAX];
    int kept = 0;
    most = most < HR_TRIED_MAX ? most : HR_TRIED_MAX;
    for (int i = 0; i < count && kept < most; i++) {
        known[kept][0] = 0;
        bool told = trial->identify && trial->identify(trial->context, &candidates[i], known[kept]) == HR_OK;
        if (!told || !is_known((const identity *)known, kept, known[kept]))
            candidates[kept++] = candidates[i];
    }
    return kept;
}

static hr_tune_database *database_open(void) {
    char folder[4096];
    return hr_cache_folder(folder, sizeof folder) == HR_OK ? hr_tune_database_open(folder) : NULL;
}

/* The next search begins anew; until then what this one found is known. */
static hr_status keep_stopped(hr_tune_database *database, const char *key, const hr_tuned *found) {
    char label[128];
    hr_tuned whole;
    if (hr_tune_database_find(database, key, HR_TUNE_QUICK, &whole))
        return hr_fail(HR_CANCELLED, "tuning was stopped; what an earlier search found stays");
    if (!found->tried_count || !hr_tune_database_keep(database, key, HR_TUNE_NONE, found))
        return hr_fail(HR_CANCELLED, "tuning was stopped; nothing is kept of it");
    hr_knobs_label(&found->best, label, sizeof label);
    return hr_fail(HR_CANCELLED,
                   "tuning was stopped: of the %d candidates that were timed the fastest, %s, is kept",
                   found->tried_count, label);
}

hr_status hr_tune_search(const hr_plan *plan, const char *key, hr_tune mode, double floor_seconds,
                         const hr_trial *trial, hr_progress_fn progress, void *progress_context,
                         hr_tuned *out) {
    hr_knobs candidates[HR_TRIED_MAX];
    hr_tune_database *database = database_open();
    hr_tune_budget budget = hr_tune_budget_of(mode);
    bool searching = mode == HR_TUNE_QUICK || mode == HR_TUNE_FULL;
    hr_status status = HR_OK;
    budget.floor_seconds = floor_seconds;
    if (hr_tune_database_find(database, key, searching ? mode : HR_TUNE_NONE, out) &&
        hr_knobs_check(&out->best, hr_target_of(&plan->limits)->scope) == HR_OK)
        goto done;
    *out = (hr_tuned){0};
    int count = hr_schedule_candidates(plan, candidates, searching ? HR_TRIED_MAX : 1);
    if (count > 0) out->best = candidates[0];
    if (searching) count = hr_tune_distinct(candidates, count, budget.candidates, trial);
    if (searching && count > 1) {
        status = hr_tune_choose(candidates, count, &budget, trial, progress, progress_context, out);
        if (status == HR_OK) hr_tune_database_keep(database, key, mode, out);
        if (status == HR_CANCELLED) status = keep_stopped(database, key, out);
    }
done:
    hr_tune_database_close(database);
    return status;
}

void hr_tune_forget(const char *key) {
    hr_tune_database *database = database_open();
    hr_tune_database_forget(database, key);
    hr_tune_database_close(database);
}
