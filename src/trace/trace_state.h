/* What a trace is while it is being built; shared by trace_build.c, trace_window.c and trace_finish.c. */
#ifndef HR_TRACE_TRACE_STATE_H
#define HR_TRACE_TRACE_STATE_H

#include "trace/trace_build.h"
#include "trace/trace_strings.h"

#define HR_TIME_MAX  (INT64_C(1) << 62) /* ns on a file's own clock: 146 years */
#define HR_TRACK_MAX 65536

typedef struct hr_trace_file {
    int32_t first_rank, rank_end; /* into ranks */
    int64_t first_event;
    bool clock_known;
    int64_t epoch;
} hr_trace_file;

/* The part of time that is kept of the file being read: whole from its beginning to `cut`. */
typedef struct hr_trace_window {
    int64_t limit; /* events of the file */
    int64_t cut;   /* events that start at or after it are left out */
} hr_trace_window;

struct hr_trace_build {
    hr_trace_options options;
    hr_trace *trace;
    int file_count;
    int64_t packed; /* see hr_trace_build_packed */
    bool failed;    /* memory ran out */
    HR_TABLE(hr_trace_file) files;
    hr_trace_window window;
    const char *path, *source; /* of the file being read */
    int32_t rank;              /* chosen */
    int32_t *track_slots;      /* number + 1, 0 = free; twice HR_TRACK_MAX */
    int32_t last_track;
};

/* kind, table and type of the details */
#define HR_TRACE_DETAILS(X)                                                                                  \
    X(OPERATOR, operators, hr_operator)                                                                      \
    X(CALL, calls, hr_call)                                                                                  \
    X(KERNEL, kernels, hr_kernel_work)                                                                       \
    X(COPY, copies, hr_copy)                                                                                 \
    X(SYNCHRONISE, waits, hr_wait)                                                                           \
    X(ALLOCATION, allocations, hr_allocation)                                                                \
    X(COUNTER, samples, hr_sample)

/* Room for one more item in a table of `count`; NULL when there is no memory. */
void *hr_table_grow(void *items, int64_t count, int64_t *capacity, size_t item_size);

/* Whether an event that starts then is kept; makes room for it where the limit is reached. */
bool hr_trace_window_admits(hr_trace_build *build, int64_t start);

/* Brings calls together with what they started; false when memory ran out. */
bool hr_trace_join(hr_trace_build *build, int64_t first_event);

#endif
