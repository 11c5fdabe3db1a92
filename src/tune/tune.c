/* Database, then search, then database. In: a plan, a key, a trial. Out: the best choice for this
 * device. */
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

int hr_tune_distinct(hr_choice *candidates, int count, int most, const hr_trial *trial) {
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
static hr_status keep_stopped(hr_tune_database *database, const char *key, int stages,
                              const hr_tuned *found) {
    char label[128];
    hr_tuned whole;
    if (hr_tune_database_find(database, key, HR_TUNE_QUICK, &whole))
        return hr_fail(HR_CANCELLED, "tuning was stopped; what an earlier search found stays");
    if (!found->tried_count || !hr_tune_database_keep(database, key, HR_TUNE_NONE, found))
        return hr_fail(HR_CANCELLED, "tuning was stopped; nothing is kept of it");
    hr_choice_label(&found->best, stages, label, sizeof label);
    return hr_fail(HR_CANCELLED,
                   "tuning was stopped: of the %d candidates that were timed the fastest, %s, is kept",
                   found->tried_count, label);
}

/* In its place by time. */
static void tried_add(hr_tuned *found, const hr_tried *tried) {
    int at = found->tried_count++;
    for (; at > 0 && found->tried[at - 1].seconds > tried->seconds; at--)
        found->tried[at] = found->tried[at - 1];
    found->tried[at] = *tried;
}

/* The best of each stage beside the best so far. What does not go together is left. */
static hr_status try_together(const hr_tune_budget *budget, const hr_trial *trial, hr_progress_fn progress,
                              void *progress_context, hr_tuned *found) {
    hr_choice pair[2] = {found->best};
    hr_tuned last = {0};
    if (found->tried_count == HR_TRIED_MAX || !hr_tune_combined(found, &pair[1])) return HR_OK;
    hr_status status = hr_tune_choose(pair, 2, budget, trial, progress, progress_context, &last);
    if (status != HR_OK) return status == HR_CANCELLED ? status : HR_OK;
    found->best = last.best;
    found->seconds += last.seconds;
    for (int i = 0; i < last.tried_count; i++)
        if (hr_choice_is(&last.tried[i].choice, &pair[1])) tried_add(found, &last.tried[i]);
    return HR_OK;
}

hr_status hr_tune_search(const hr_plan *plan, const char *key, hr_tune mode, double floor_seconds,
                         const hr_trial *trial, hr_progress_fn progress, void *progress_context,
                         hr_tuned *out) {
    hr_choice candidates[HR_TRIED_MAX];
    hr_tune_database *database = database_open();
    hr_tune_budget budget = hr_tune_budget_of(mode);
    bool searching = mode == HR_TUNE_QUICK || mode == HR_TUNE_FULL;
    hr_status status = HR_OK;
    budget.floor_seconds = floor_seconds;
    if (hr_tune_database_find(database, key, searching ? mode : HR_TUNE_NONE, out) &&
        hr_choice_check(&out->best, plan->stage_count) == HR_OK &&
        hr_schedule_obeys(plan, &out->best) == HR_OK)
        goto done;
    *out = (hr_tuned){0};
    int count = hr_schedule_candidates(plan, candidates, searching ? HR_TRIED_MAX : 1);
    if (count > 0) out->best = candidates[0];
    if (searching) count = hr_tune_distinct(candidates, count, budget.candidates, trial);
    if (searching && count > 1) {
        status = hr_tune_choose(candidates, count, &budget, trial, progress, progress_context, out);
        if (status == HR_OK) status = try_together(&budget, trial, progress, progress_context, out);
        if (status == HR_OK) hr_tune_database_keep(database, key, mode, out);
        if (status == HR_CANCELLED) status = keep_stopped(database, key, plan->stage_count, out);
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
