/* Which tunables make this plan fastest on this device: the cost model's order, then measurement, then the
 * database.
 *
 * In: a function, extents, layouts, a device, a way to time one choice. Out: the best tunables and what was
 * tried.
 */
#ifndef HR_TUNE_TUNE_H
#define HR_TUNE_TUNE_H

#include "device/device.h"
#include "plan/plan.h"

/* Seconds of one launch with these tunables; compiles where needed. May be called in any order, repeatedly.
 * Failure other than HR_CANCELLED drops the candidate. */
typedef struct hr_trial {
    hr_status (*prepare)(void *context, const hr_tunables *tunables); /* plan, emit, compile, keep loaded */
    hr_status (*time)(void *context, const hr_tunables *tunables, double *seconds);
    void *context;
} hr_trial;

typedef struct hr_tried {
    hr_tunables tunables;
    double seconds; /* median */
    int runs;
} hr_tried;

#define HR_TRIED_MAX 128
typedef struct hr_tuned {
    hr_tunables best;
    int tried_count;
    hr_tried tried[HR_TRIED_MAX]; /* fastest first */
    double seconds;               /* spent searching */
    bool cached; /* from the database: nothing was tried now; `tried` holds what was tried then */
} hr_tuned;

/* `key`: text, kernel, extents, dtypes, layouts, device, compiler, version - made by the caller (src/run).
 * HR_TUNE_NONE looks into the database only. HR_TUNE_QUICK is satisfied by an earlier quick or full result;
 * FULL by a full one. */
hr_status hr_tune_search(const hr_plan *plan, const int64_t *extents, const char *key, hr_tune mode,
                         double floor_seconds, const hr_trial *trial, hr_progress_fn progress,
                         void *progress_context, hr_tuned *out);

#endif
