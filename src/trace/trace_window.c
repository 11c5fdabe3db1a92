/* Keeps the number of events bounded: of a file with more, the beginning of its time is kept whole.
 *
 * Files list threads one after the other, so that the first events read are no window of time. When the limit
 * is reached, the latest quarter of what was kept is dropped, and from then on only what starts before.
 */
#include "trace/trace_state.h"

#include <stdlib.h>

#define BEYOND  "events beyond the limit, at the end of the trace"
#define SAMPLES 4096

static int compare_times(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* About three quarters of the file's events start before it; INT64_MIN where nearly all start at once. */
static int64_t cut_choose(const hr_event *events, int64_t count) {
    int64_t samples[SAMPLES];
    int64_t wanted = count < SAMPLES ? count : SAMPLES;
    for (int64_t i = 0; i < wanted; i++)
        samples[i] = events[(int64_t)((double)count / (double)wanted * (double)i)].start;
    qsort(samples, (size_t)wanted, sizeof *samples, compare_times);
    int64_t cut = samples[wanted * 3 / 4];
    return cut > samples[0] ? cut : INT64_MIN;
}

/* Moves the details of kept events together, in their order. */
#define DEFINE_MOVE(NAME, TABLE, TYPE)                                                                       \
    static int32_t move_##TABLE(hr_trace *trace, int32_t detail, int64_t *to) {                              \
        trace->TABLE.items[*to] = trace->TABLE.items[detail];                                                \
        return (int32_t)(*to)++;                                                                             \
    }
HR_TRACE_DETAILS(DEFINE_MOVE)

/* Where the details of a kind that are kept so far end. */
typedef struct detail_ends {
    int64_t operators, calls, kernels, copies, waits, allocations, samples;
} detail_ends;

static void detail_move(hr_trace *trace, hr_event *event, detail_ends *ends) {
    switch ((hr_event_kind)event->kind) {
#define MOVE_CASE(NAME, TABLE, TYPE)                                                                         \
    case HR_EVENT_##NAME:                                                                                    \
        event->detail = move_##TABLE(trace, event->detail, &ends->TABLE);                                    \
        break;
        HR_TRACE_DETAILS(MOVE_CASE)
    case HR_EVENT_FILL:
        event->detail = move_copies(trace, event->detail, &ends->copies);
        break;
    default:
        break;
    }
}

/* The first detail of each table that belongs to this file's events: those before stay. */
static detail_ends ends_before(const hr_trace *trace, int64_t first_event) {
    detail_ends ends = {0};
    for (int64_t i = first_event; i-- > 0;) {
        const hr_event *event = &trace->events.items[i];
        int64_t end = (int64_t)event->detail + 1;
        switch ((hr_event_kind)event->kind) {
#define END_CASE(NAME, TABLE, TYPE)                                                                          \
    case HR_EVENT_##NAME:                                                                                    \
        ends.TABLE = end > ends.TABLE ? end : ends.TABLE;                                                    \
        break;
            HR_TRACE_DETAILS(END_CASE)
        case HR_EVENT_FILL:
            ends.copies = end > ends.copies ? end : ends.copies;
            break;
        default:
            break;
        }
    }
    return ends;
}

static void drop_from(hr_trace_build *build, int64_t first_event, int64_t cut) {
    hr_trace *trace = build->trace;
    detail_ends ends = ends_before(trace, first_event);
    int64_t kept = first_event;
    for (int64_t i = first_event; i < trace->events.count; i++) {
        hr_event event = trace->events.items[i];
        if (event.start >= cut) {
            hr_trace_build_skip(build, BEYOND, -1);
            continue;
        }
        if (event.detail >= 0) detail_move(trace, &event, &ends);
        trace->events.items[kept++] = event;
    }
    trace->events.count = kept;
#define END_TABLE(NAME, TABLE, TYPE) trace->TABLE.count = ends.TABLE;
    HR_TRACE_DETAILS(END_TABLE)
}

bool hr_trace_window_admits(hr_trace_build *build, int64_t start) {
    hr_trace_window *window = &build->window;
    if (start >= window->cut) {
        hr_trace_build_skip(build, BEYOND, -1);
        return false;
    }
    if (!build->files.count) return true;
    int64_t first = build->files.items[build->files.count - 1].first_event;
    int64_t count = build->trace->events.count - first;
    if (count < window->limit) return true;
    window->cut = cut_choose(build->trace->events.items + first, count);
    if (window->cut > INT64_MIN) drop_from(build, first, window->cut);
    return hr_trace_window_admits(build, start);
}
