/* The annotated trace for ui.perfetto.dev: Chrome's JSON.
 *
 * In: a diagnosis. Out: a process for each rank's host and each of its devices, arrows from calls to what
 * they started, and a process "headroom" with the critical path and the places of each finding as tracks.
 * What overlaps on a stream or a finding's track without nesting stands on rows of its own: of two such
 * slices on one row ui.perfetto.dev drops the second.
 */
#include "base/handle.h"
#include "report/diagnosis_page.h"
#include "report/track_rows.h"

#include <stdlib.h>
#include <string.h>

#define OWN_PROCESS    1
#define RANK_PROCESSES 1000 /* ids from 10 on: a rank's host, then its devices */
#define PATH_THREAD    1
#define FINDING_THREAD 10
#define FINDING_ROWS   100 /* ids for the rows of a finding */

/* Correlations of device work, sorted: arrows begin only at calls that started some. */
typedef struct started {
    int64_t *items; /* rank << 40 ^ correlation */
    int64_t count;
} started;

static int64_t started_key(const hr_trace *trace, const hr_event *event) {
    return (int64_t)((uint64_t)trace->tracks.items[event->track].rank << 40) ^ event->correlation;
}

static bool is_device_work(const hr_event *event) {
    return event->kind == HR_EVENT_KERNEL || event->kind == HR_EVENT_COPY || event->kind == HR_EVENT_FILL ||
           event->kind == HR_EVENT_GRAPH;
}

static int compare_whole(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static bool started_collect(const hr_trace *trace, started *out) {
    out->items = malloc((size_t)(trace->events.count + 1) * sizeof *out->items);
    for (int64_t i = 0; out->items && i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (is_device_work(event) && event->correlation) out->items[out->count++] = started_key(trace, event);
    }
    if (out->count) qsort(out->items, (size_t)out->count, sizeof *out->items, compare_whole);
    return out->items != NULL;
}

static bool has_started(const hr_trace *trace, const started *all, const hr_event *call) {
    int64_t key = started_key(trace, call);
    return call->correlation && all->count &&
           bsearch(&key, all->items, (size_t)all->count, sizeof key, compare_whole);
}

/* ---- rows ---- */

/* On which row of its track each event stands, and how many rows each track has. */
typedef struct rows {
    int32_t *of_event; /* rows are few, but nothing bounds them */
    int32_t *of_track;
} rows;

static bool is_slice(const hr_event *event) {
    return event->kind != HR_EVENT_ALLOCATION && event->kind != HR_EVENT_COUNTER;
}

static bool rows_collect(const hr_trace *trace, rows *out) {
    size_t tracks = (size_t)trace->tracks.count;
    hr_track_rows *open = calloc(tracks + 1, sizeof *open);
    out->of_event = calloc((size_t)trace->events.count + 1, sizeof *out->of_event);
    out->of_track = calloc(tracks + 1, sizeof *out->of_track);
    bool good = open && out->of_event && out->of_track;
    for (int64_t i = 0; good && i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (!is_slice(event)) continue;
        out->of_event[i] =
            hr_track_rows_place(&open[event->track], event->start, event->start + event->duration);
        good = out->of_event[i] >= 0;
    }
    for (size_t i = 0; open && i < tracks; i++) {
        if (out->of_track) out->of_track[i] = open[i].count;
        hr_track_rows_clear(&open[i]);
    }
    free(open);
    return good;
}

static int64_t thread_of(const hr_trace *trace, int64_t track, int32_t row) {
    return track + 1 + (int64_t)row * trace->tracks.count;
}

/* ---- names of processes and threads ---- */

static int process_of(const hr_track *track) {
    int of_rank = 10 + track->rank * RANK_PROCESSES;
    return track->is_stream ? of_rank + 1 + (track->device & 511) : of_rank;
}

static void write_name(hr_text *out, const char *what, int process, int64_t thread, const char *name) {
    hr_text_format(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%lld,\"args\":{\"name\":", what,
                   process, (long long)thread);
    hr_json_string(out, name);
    hr_text_format(out, "}},\n");
}

/* Rows of a track follow each other in the picture. */
static void write_thread(hr_text *out, int process, int64_t thread, const char *title, int row,
                         int64_t place) {
    char name[288];
    if (row)
        snprintf(name, sizeof name, "%s (row %d)", title, row + 1);
    else
        snprintf(name, sizeof name, "%s", title);
    write_name(out, "thread_name", process, thread, name);
    hr_text_format(out,
                   "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%lld,\"args\":{"
                   "\"sort_index\":%lld}},\n",
                   process, (long long)thread, (long long)place);
}

static void write_track_names(hr_text *out, const hr_trace *trace, const rows *rows) {
    char name[256];
    int64_t place = 0;
    for (int64_t i = 0; i < trace->tracks.count; i++) {
        const hr_track *track = &trace->tracks.items[i];
        const hr_rank *rank = &trace->ranks.items[track->rank];
        int number = rank->rank >= 0 ? rank->rank : track->rank;
        if (track->is_stream)
            snprintf(name, sizeof name, "rank %d, gpu %d", number, track->device);
        else
            snprintf(name, sizeof name, "rank %d, host", number);
        write_name(out, "process_name", process_of(track), 0, name);
        if (track->is_stream)
            snprintf(name, sizeof name, "stream %lld", (long long)track->id);
        else if (track->name >= 0)
            snprintf(name, sizeof name, "%.200s", hr_trace_string(trace, track->name));
        else
            snprintf(name, sizeof name, "thread %lld", (long long)track->id);
        for (int32_t row = 0; row == 0 || row < rows->of_track[i]; row++)
            write_thread(out, process_of(track), thread_of(trace, i, row), name, row, place++);
    }
}

/* ---- events ---- */

static void write_time(hr_text *out, const char *key, int64_t nanoseconds) {
    hr_text_format(out, ",\"%s\":%lld.%03lld", key, (long long)(nanoseconds / 1000),
                   (long long)(nanoseconds % 1000));
}

static void write_slice(hr_text *out, const char *name, int process, int64_t thread, int64_t start,
                        int64_t duration) {
    hr_text_format(out, "{\"ph\":\"X\",\"name\":");
    hr_json_string(out, name);
    hr_text_format(out, ",\"pid\":%d,\"tid\":%lld", process, (long long)thread);
    write_time(out, "ts", start);
    write_time(out, "dur", duration);
}

static void write_arrow(hr_text *out, const hr_trace *trace, const hr_event *event, int64_t thread,
                        bool begins) {
    const hr_track *track = &trace->tracks.items[event->track];
    hr_text_format(
        out, "{\"ph\":\"%s\",\"name\":\"starts\",\"cat\":\"starts\",\"id\":%lld,\"pid\":%d,\"tid\":%lld",
        begins ? "s" : "f\",\"bp\":\"e", (long long)started_key(trace, event), process_of(track),
        (long long)thread);
    write_time(out, "ts", event->start);
    hr_text_format(out, "},\n");
}

static void write_event(hr_text *out, const hr_diagnosis *diagnosis, int64_t number, const started *all,
                        const rows *rows) {
    const hr_trace *trace = diagnosis->trace;
    const hr_event *event = &trace->events.items[number];
    const hr_track *track = &trace->tracks.items[event->track];
    const char *name = hr_trace_string(trace, event->name);
    if (event->kind == HR_EVENT_ALLOCATION) return;
    if (event->kind == HR_EVENT_COUNTER) {
        if (event->detail < 0) return;
        hr_text_format(out, "{\"ph\":\"C\",\"name\":");
        hr_json_string(out, name);
        hr_text_format(out, ",\"pid\":%d", process_of(track));
        write_time(out, "ts", event->start);
        hr_text_format(out, ",\"args\":{\"value\":%.9g}},\n", trace->samples.items[event->detail].value);
        return;
    }
    int64_t thread = thread_of(trace, event->track, rows->of_event[number]);
    write_slice(out, name, process_of(track), thread, event->start, event->duration);
    uint8_t kind = diagnosis->event_kinds ? diagnosis->event_kinds[number] : 255;
    if (kind < HR_TIME_KIND_COUNT)
        hr_text_format(out, ",\"args\":{\"kind\":\"%s\"}", hr_time_kind_name((hr_time_kind)kind));
    hr_text_format(out, "},\n");
    if (event->kind == HR_EVENT_CALL && has_started(trace, all, event))
        write_arrow(out, trace, event, thread, true);
    if (is_device_work(event) && event->correlation) write_arrow(out, trace, event, thread, false);
}

static void write_path(hr_text *out, const hr_diagnosis *diagnosis) {
    write_name(out, "process_name", OWN_PROCESS, 0, "headroom");
    write_name(out, "thread_name", OWN_PROCESS, PATH_THREAD, "critical path");
    for (int i = 0; i < diagnosis->path_count; i++) {
        const hr_path_piece *piece = &diagnosis->path[i];
        const char *name =
            piece->event >= 0
                ? hr_trace_string(diagnosis->trace, diagnosis->trace->events.items[piece->event].name)
                : hr_time_kind_words(piece->kind);
        write_slice(out, name, OWN_PROCESS, PATH_THREAD, piece->start, piece->end - piece->start);
        hr_text_format(out, ",\"args\":{\"kind\":\"%s\"}},\n", hr_time_kind_name(piece->kind));
    }
}

/* Numbers of events follow their starts. */
static int compare_events(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

static bool write_finding(hr_text *out, const hr_diagnosis *diagnosis, int number) {
    const hr_finding *finding = &diagnosis->findings[number];
    const hr_trace *trace = diagnosis->trace;
    int64_t thread = FINDING_THREAD + (int64_t)number * FINDING_ROWS;
    hr_track_rows open = {0};
    bool good = true;
    char title[160];
    snprintf(title, sizeof title, "%s: %.0f %% of a step", finding->id, 100 * finding->gain);
    int32_t events[256];
    int count = finding->event_count < 256 ? finding->event_count : 256;
    memcpy(events, finding->events, (size_t)count * sizeof *events);
    qsort(events, (size_t)count, sizeof *events, compare_events);
    for (int i = 0; i < count && good; i++) {
        const hr_event *event = &trace->events.items[events[i]];
        int row = hr_track_rows_place(&open, event->start, event->start + event->duration);
        good = row >= 0;
        if (!good || row >= FINDING_ROWS) continue;
        write_slice(out, finding->id, OWN_PROCESS, thread + row, event->start, event->duration);
        hr_text_format(out, ",\"args\":{\"of\":");
        hr_json_string(out, hr_trace_string(trace, event->name));
        hr_text_format(out, ",\"remedy\":");
        hr_json_string(out, finding->remedy);
        hr_text_format(out, "}},\n");
    }
    for (int row = 0; row < open.count && row < FINDING_ROWS; row++)
        write_thread(out, OWN_PROCESS, thread + row, title, row, thread + row);
    hr_track_rows_clear(&open);
    return good;
}

static bool write_all(hr_text *out, const hr_diagnosis *diagnosis, const started *all, const rows *rows) {
    const hr_trace *trace = diagnosis->trace;
    bool good = true;
    hr_text_format(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    write_track_names(out, trace, rows);
    write_path(out, diagnosis);
    for (int i = 0; i < diagnosis->finding_count; i++)
        good = write_finding(out, diagnosis, i) && good;
    for (int64_t i = 0; i < trace->events.count; i++)
        write_event(out, diagnosis, i, all, rows);
    hr_text_format(out,
                   "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":-1}}\n"
                   "],\"headroom\":{\"verdict\":",
                   OWN_PROCESS);
    hr_json_string(out, diagnosis->verdict);
    hr_text_format(out, "}}\n");
    return good;
}

hr_status hr_report_diagnosis_perfetto(const hr_diagnosis *diagnosis, char **out) {
    HR_TRY(hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (diagnosis->after) diagnosis = diagnosis->after;
    hr_text text = {0};
    started all = {0};
    rows rows = {0};
    bool good = started_collect(diagnosis->trace, &all) && rows_collect(diagnosis->trace, &rows) &&
                write_all(&text, diagnosis, &all, &rows);
    free(all.items);
    free(rows.of_event);
    free(rows.of_track);
    if (good) return hr_text_give(&text, out);
    hr_text_clear(&text);
    return hr_fail(HR_OUT_OF_MEMORY, "no memory to write the trace");
}
