/* Findings while they are made: what a detector reads and what it notes.
 *
 * In: an analysis with its graph. Out: edits of the graph's latencies (what the remedy changes), evidence,
 * events. The driver in finding_list.c replays the edits and makes hr_findings of the drafts.
 */
#ifndef HR_DIAGNOSE_FINDING_H
#define HR_DIAGNOSE_FINDING_H

#include "diagnose/analysis.h"

typedef struct hr_draft {
    const hr_analysis *analysis;
    const hr_diagnosis *diagnosis; /* its lanes are there */
    hr_arena *keep;                /* of texts */
    bool found;
    /* Edges with their new latencies; where a new one is longer than the old one, the old one stays. */
    int32_t *edges;
    int64_t *latencies;
    int edit_count, edit_room;
    int64_t least_span; /* ns of all counted steps that no remedy of this kind goes below; 0 = none */
    double gain;        /* >= 0: known without a replay */
    bool is_bound;      /* the gain is the most that it can be */
    double
        otherwise; /* fraction of a step: the most it can be, said where a replay gains nothing; 0 = none */
    double most_seconds; /* what the cause costs of a step, which bounds the gain; < 0 = no bound */
    double confidence;
    const char *remedy, *code, *effort, *caveat; /* NULL: those of the table */
    hr_evidence evidence[8];
    int evidence_count;
    int32_t events[256];
    int event_count;
} hr_draft;

typedef void (*hr_detect_fn)(hr_draft *draft);

/* One row a finding; the ids are a contract. */
typedef struct hr_finding_row {
    const char *id, *title, *remedy, *code, *effort;
    double confidence;
    hr_detect_fn detect;
} hr_finding_row;

/* ---- edits ---- */

void hr_draft_edit(hr_draft *draft, int edge, int64_t latency);
void hr_draft_work(hr_draft *draft, int work, double nanoseconds);
/* The work takes that long and follows the one before it at once; its launch and the host time that led to it
 * no longer exist. */
void hr_draft_replace(hr_draft *draft, int work, double nanoseconds);
/* The call costs nothing, nor does the launching host time before it. */
void hr_draft_remove_call(hr_draft *draft, int call);
/* The call no longer waits for the device. */
void hr_draft_unblock(hr_draft *draft, int call);

/* ---- notes ---- */

/* `event`: one place on the timeline, -1 = none. `seconds` and `count` are of all counted steps. */
void hr_draft_note(hr_draft *draft, int32_t event, int64_t count, double seconds, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void hr_draft_event(hr_draft *draft, int32_t event);
const char *hr_draft_text(hr_draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a detector counts. Starts zeroed. */
typedef struct hr_tally {
    int64_t count;
    double seconds, most; /* of all, of the longest */
    int32_t longest;      /* the item that took longest, once there is one */
} hr_tally;

void hr_tally_add(hr_tally *tally, int32_t item, double seconds);

/* "1.23 ms" */
typedef struct hr_short_text {
    char text[64];
} hr_short_text;
hr_short_text hr_time_text(double seconds);
hr_short_text hr_bytes_text(double bytes);
/* "1 copy", "2.5 copies": `many` takes the place of `one`. */
hr_short_text hr_count_text(double count, const char *one, const char *many);

/* ---- questions ---- */

int hr_counted_steps(const hr_analysis *analysis);
/* Sum of the counted steps. */
double hr_counted_seconds(const hr_analysis *analysis);
bool hr_is_counted_call(const hr_analysis *analysis, int call);
bool hr_is_counted_work(const hr_analysis *analysis, int work);        /* of the diagnosed device */
const char *hr_event_name(const hr_analysis *analysis, int32_t event); /* "" for -1 */
const hr_copy *hr_work_copy(const hr_analysis *analysis, int work);    /* NULL where it is no copy */
const hr_kernel_work *hr_work_kernel(const hr_analysis *analysis, int work);
double hr_work_seconds(const hr_analysis *analysis, int work);
/* Part of the device that its grid fills; 0 = not known. */
double hr_work_waves(const hr_analysis *analysis, int work);
/* headroom's own launches on the host, as their ranges tell: own_launches.c. NULL = none. */
const char *hr_own_launches_text(hr_draft *draft);
/* Works of the diagnosed device in counted steps, stream after stream, each in order. */
int hr_stream_order(const hr_analysis *analysis, hr_arena *arena, int32_t **out);

/* ---- detectors, by file ---- */

void hr_find_pageable_copy(hr_draft *draft);                     /* find_host.c */
bool hr_is_pageable_copy(const hr_analysis *analysis, int work); /* of a size at which pinning gains */
void hr_find_blocking_sync(hr_draft *draft);
void hr_find_launch_bound(hr_draft *draft);
void hr_find_host_bound(hr_draft *draft);
void hr_find_input_pipeline(hr_draft *draft);
void hr_find_allocation(hr_draft *draft);
void hr_find_first_use(hr_draft *draft);
void hr_find_elementwise(hr_draft *draft); /* find_fusion.c */
void hr_find_normalisation(hr_draft *draft);
void hr_find_attention(hr_draft *draft);
void hr_find_optimizer(hr_draft *draft);
void hr_find_unbatched(hr_draft *draft); /* find_product.c */
void hr_find_full_precision(hr_draft *draft);
void hr_find_misaligned(hr_draft *draft);
void hr_find_small_batch(hr_draft *draft); /* find_kernel.c */
void hr_find_low_occupancy(hr_draft *draft);
void hr_find_low_bandwidth(hr_draft *draft);
void hr_find_uncoalesced(hr_draft *draft);
void hr_find_queued(hr_draft *draft); /* find_wait.c */
void hr_find_copies(hr_draft *draft);
void hr_find_communication(hr_draft *draft); /* find_rank.c */

/* ---- the driver ---- */

/* Needs the account. Sets caution, record and notes of `out`: doubts.c. */
void hr_integrity_judge(const hr_analysis *analysis, hr_diagnosis *out);

/* Runs all detectors and replays their edits; fills findings, combined gain and replay error of `out`. */
hr_status hr_find_all(const hr_analysis *analysis, hr_diagnosis *out);
/* Across ranks: adds a straggler where one makes the others wait. */
void hr_find_straggler(const hr_analysis *analysis, hr_diagnosis *out, hr_draft *draft);

#endif
