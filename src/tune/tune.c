/* Database, then search, then database. In: a plan, a key, a trial. Out: the best tunables for this device.
 */
#include "tune/tune.h"

#include "base/cache.h"
#include "emit/emit.h"

#include <stdlib.h>

static hr_tune_database *database_open(void) {
    char folder[4096];
    return hr_cache_folder(folder, sizeof folder) == HR_OK ? hr_tune_database_open(folder) : NULL;
}

hr_status hr_tune_search(const hr_plan *plan, const int64_t *extents, const char *key, hr_tune mode,
                         double floor_seconds, const hr_trial *trial, hr_progress_fn progress,
                         void *progress_context, hr_tuned *out) {
    hr_tunables candidates[HR_TRIED_MAX];
    hr_tune_database *database = database_open();
    hr_tune_budget budget = hr_tune_budget_of(mode);
    bool searching = mode == HR_TUNE_QUICK || mode == HR_TUNE_FULL;
    hr_status status = HR_OK;
    budget.floor_seconds = floor_seconds;
    if (hr_tune_database_find(database, key, searching ? mode : HR_TUNE_NONE, out)) goto done;
    *out = (hr_tuned){0};
    int count = hr_emit_candidates(plan, extents, candidates, searching ? budget.candidates : 1);
    if (count > 0) out->best = candidates[0];
    if (searching && count > 1) {
        status = hr_tune_choose(candidates, count, &budget, trial, progress, progress_context, out);
        if (status == HR_OK) hr_tune_database_keep(database, key, mode, out);
    }
done:
    hr_tune_database_close(database);
    return status;
}
