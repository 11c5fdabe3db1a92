/* One file of our own recorder while it is read: its tables, and how records become events.
 *
 * In: records, decoded. Out: events in the build. Most records become events at once. Four kinds wait for the
 * end of the file, because CUPTI reports the halves of one thing apart: waits get their thread from the call
 * of the same correlation, calls on CUDA events get the event and its stream, and launches that were counted
 * get their time from their counters.
 */
#ifndef HR_TRACE_OWN_READER_H
#define HR_TRACE_OWN_READER_H

#include "base/trace_file.h"
#include "trace/trace_readers.h"

typedef struct hr_own_range {
    int64_t time, id, domain;
    int32_t name, track;
} hr_own_range;

/* A call whose event or thread somebody waits for. */
typedef struct hr_own_call {
    hr_record_call record;
    int64_t event;
    int32_t stream; /* track */
} hr_own_call;

typedef struct hr_own_reader {
    hr_trace_build *build;
    hr_trace_input *input;
    uint8_t *data; /* bytes of the file from `offset` on */
    size_t length, capacity;
    int64_t offset, process, last_time;
    bool ended, failed;
    HR_TABLE(int32_t) strings;     /* of the trace, by the file's ids; -1 = not there */
    HR_TABLE(int32_t) devices;     /* by context */
    HR_TABLE(hr_own_range) ranges; /* open ones of all threads */
    HR_TABLE(hr_own_call) calls;
    HR_TABLE(hr_record_wait) waits;
    HR_TABLE(hr_record_event_record) records;
    HR_TABLE(hr_record_kernel) counted; /* launches without times of their own */
    HR_TABLE(hr_record_counters) counters;
} hr_own_reader;

/* Room for one more item of a table; false, remembered in `failed`, without memory. */
bool hr_own_grow(hr_own_reader *reader, void *items, int64_t count, int64_t *capacity, size_t size);

#define HR_OWN_APPEND(reader, table, value)                                                                  \
    (hr_own_grow(reader, &(reader)->table.items, (reader)->table.count, &(reader)->table.capacity,           \
                 sizeof *(reader)->table.items)                                                              \
         ? (void)((reader)->table.items[(reader)->table.count++] = (value))                                  \
         : (void)0)

/* ---- tables and tracks ---- */

/* Strings by the file's ids; -1 = not there. */
void hr_own_set_string(hr_own_reader *reader, int64_t id, int32_t string);
int32_t hr_own_string(const hr_own_reader *reader, int64_t id);
void hr_own_set_device(hr_own_reader *reader, int64_t context, int64_t device);
int32_t hr_own_thread(hr_own_reader *reader, int64_t thread);
/* A stream of a context; one device where the context was never seen. */
int32_t hr_own_stream(hr_own_reader *reader, int64_t context, int64_t stream);

/* ---- events at once (own_events.c) ---- */

void hr_own_add(hr_own_reader *reader, hr_event event, const void *detail);
/* `counters`: of the build; -1 = none. */
void hr_own_add_kernel(hr_own_reader *reader, const hr_record_kernel *at, int32_t counters);
void hr_own_add_copy(hr_own_reader *reader, const hr_record_copy *at);
void hr_own_add_fill(hr_own_reader *reader, const hr_record_fill *at);
void hr_own_add_call(hr_own_reader *reader, const hr_own_call *at);
/* A call, or what waits for the end of the file to become one. */
void hr_own_take_call(hr_own_reader *reader, const hr_record_call *at);
void hr_own_add_allocation(hr_own_reader *reader, const hr_record_allocation *at);
void hr_own_add_overhead(hr_own_reader *reader, const hr_record_overhead *at);
void hr_own_add_range(hr_own_reader *reader, const hr_own_range *range, int64_t end);
void hr_own_begin_range(hr_own_reader *reader, const hr_record_range_begin *at);
void hr_own_end_range(hr_own_reader *reader, const hr_record_range_end *at);
void hr_own_add_mark(hr_own_reader *reader, const hr_record_mark *at);
void hr_own_add_sample(hr_own_reader *reader, const hr_record_sample *at);

/* ---- events at the end of the file (own_joined.c) ---- */

/* Waits, the calls that are joined with them, and ranges that are still open. */
void hr_own_add_joined(hr_own_reader *reader);
/* Launches that were counted. */
void hr_own_add_counted(hr_own_reader *reader);

#endif
