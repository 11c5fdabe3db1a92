/* Fills a trace: what every reader calls.
 *
 * In: events with their details, in any order and on any clock, a file at a time; strings as bytes. Out: a
 * finished hr_trace: sorted, host slices nested, times from its own zero. Running out of memory is remembered
 * and said by hr_trace_build_finish(), so that readers need not check each call. All input may be hostile:
 * what does not fit the model is counted as skipped, never stored.
 */
#ifndef HR_TRACE_TRACE_BUILD_H
#define HR_TRACE_TRACE_BUILD_H

#include "trace/trace.h"
#include <stddef.h>

typedef struct hr_trace_build hr_trace_build;

/* `files` is how many will be read: the event limit is shared among them. `options` may be NULL. */
hr_status hr_trace_build_create(const hr_trace_options *options, int files, hr_trace_build **out);
void hr_trace_build_destroy(hr_trace_build *build);
/* Sorts, nests, aligns. The build is destroyed in any case. */
hr_status hr_trace_build_finish(hr_trace_build *build, hr_trace **out);

/* The next file is packed with gzip into so many bytes, 0 = it is not. Each event takes some of them, so that
 * a small file that claims to hold many keeps fewer: it cannot fill the memory. */
void hr_trace_build_packed(hr_trace_build *build, int64_t bytes);
/* Each file stands between these two: its events share one clock. `source` as in hr_rank. The file's first
 * rank begins with it. */
void hr_trace_build_file_begin(hr_trace_build *build, const char *path, const char *source);
void hr_trace_build_file_end(hr_trace_build *build);
/* Bytes read so far of `total` (0 = not known). HR_CANCELLED where the caller wants to stop. */
hr_status hr_trace_build_progress(hr_trace_build *build, int64_t done, int64_t total);
/* Time 0 of this file's clock is so many ns after the epoch. Not called: not known. */
void hr_trace_build_clock(hr_trace_build *build, int64_t epoch);

/* Begins another rank of this file, of the same path and source, and returns its place in the trace. */
int32_t hr_trace_build_rank_add(hr_trace_build *build);
/* What follows belongs to that rank. */
void hr_trace_build_rank_choose(hr_trace_build *build, int32_t rank);
int32_t hr_trace_build_rank_chosen(const hr_trace_build *build);
/* The chosen rank, to fill in; valid until the next one is added. */
hr_rank *hr_trace_build_rank(hr_trace_build *build);

/* The id of these bytes; the same bytes have the same id. Invalid UTF-8 and what
 * hr_character_is_shown refuses become '?'. */
int32_t hr_trace_build_string(hr_trace_build *build, const char *bytes, size_t length);
/* As bytes until the build is finished; "" for -1. */
const char *hr_trace_build_text(const hr_trace_build *build, int32_t id);

/* Tracks of the chosen rank, made on first use. -1 where there are too many; events on it are skipped. */
int32_t hr_trace_build_thread(hr_trace_build *build, int64_t process, int64_t id);
int32_t hr_trace_build_stream(hr_trace_build *build, int32_t device, int64_t id);
/* To name it or change it; NULL for -1. Valid until the next track is made. */
hr_track *hr_trace_build_track(hr_trace_build *build, int32_t track);
/* A device of the chosen rank by its id, zeroed on first use; NULL where there are too many. */
hr_trace_device *hr_trace_build_device(hr_trace_build *build, int32_t id);

/* Adds one event. `detail` is the struct of its kind (see hr_event_kind), or NULL; it is copied, and
 * event.detail is set here. Negative durations and times beyond 146 years are skipped. */
void hr_trace_build_event(hr_trace_build *build, hr_event event, const void *detail);
/* For hr_kernel_work's fields of these names; -1 when memory ran out. */
int32_t hr_trace_build_collective(hr_trace_build *build, const hr_collective *collective);
int32_t hr_trace_build_counters(hr_trace_build *build, const hr_counters *counters);

/* A sample of a device of the chosen rank at `time`, which stands for the `duration` ns behind it; `name`
 * only for HR_SAMPLE_OTHER. */
void hr_trace_build_sample(hr_trace_build *build, int32_t device, int64_t time, int64_t duration,
                           hr_sample sample, int32_t name);
/* Launches of this file's kernels (name, grid and block) of which some have counters get the mean of those.
 */
void hr_trace_build_share_counters(hr_trace_build *build);

/* Counts something that is left out. `reason` is a phrase in the plural; it is copied. Those of
 * what nobody knows here begin with "unknown ". */
void hr_trace_build_skip(hr_trace_build *build, const char *reason, int64_t offset);

#endif
