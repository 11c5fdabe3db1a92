/* One step as the page's script draws it.
 *
 * In: a diagnosis. Out: JSON: strings once, a track a row of arrays (starts as differences), so that a step
 * of some thousand events takes some hundred kilobytes. Of more events than can be drawn the shortest are
 * left out.
 */
#include "report/diagnosis_page.h"

#include <stdlib.h>
#include <string.h>

#define SLICES_MAX      40000
#define LEVELS_MAX      12
#define PATH_PIECES_MAX 20000
#define SAMPLES_MAX     2000 /* of a kind; more are drawn as means of neighbours */

/* Beside the kinds of time of device work; timeline.js has their words. */
enum {
    SOFT_RANGE = HR_TIME_KIND_COUNT,
    SOFT_OPERATOR,
    SOFT_CALL,
    SOFT_WAIT,
    SOFT_OVERHEAD,
    SOFT_ANNOTATION,
    SOFT_STREAM_WAIT
};

typedef struct slice {
    int32_t event, level, place; /* place: in its track's arrays, -1 = left out */
} slice;

typedef struct timeline {
    const hr_diagnosis *diagnosis;
    const hr_trace *trace;
    int64_t start, end;
    slice *slices; /* by start */
    int64_t count, left_out;
    int32_t *track_number; /* of the page, -1 = not drawn */
    int64_t *track_slices;
    int32_t first_track;  /* the thread of the longest range, -1 = none: it is drawn first */
    int32_t *name_number; /* of the page, by string id; 0 = not yet */
    hr_text names;
    int32_t name_count;
} timeline;

void hr_json_string(hr_text *out, const char *text) {
    hr_text_append(out, "\"", 1);
    while (*text) {
        int length = hr_utf8_length(text);
        unsigned char byte = (unsigned char)*text;
        if (length == 0)
            hr_text_append(out, "\xef\xbf\xbd", 3);
        else if (byte < 0x20 || byte == '<' || byte == '>' || byte == '&' || byte == '"' || byte == '\\')
            hr_text_format(out, "\\u%04x", byte);
        else
            hr_text_append(out, text, (size_t)length);
        text += length ? length : 1;
    }
    hr_text_append(out, "\"", 1);
}

/* ---- which events ---- */

static bool is_drawn(const timeline *line, const hr_event *event) {
    const hr_track *track = &line->trace->tracks.items[event->track];
    if (track->rank != line->diagnosis->lane->rank) return false;
    if (event->kind == HR_EVENT_ALLOCATION || event->kind == HR_EVENT_COUNTER) return false;
    return event->start < line->end && event->start + event->duration > line->start;
}

/* Of the device that is diagnosed. */
static bool is_sample(const timeline *line, const hr_event *event) {
    if (event->kind != HR_EVENT_COUNTER || event->detail < 0) return false;
    const hr_track *track = &line->trace->tracks.items[event->track];
    const hr_lane *lane = line->diagnosis->lane;
    return track->is_stream && track->rank == lane->rank && track->device == lane->device &&
           event->start >= line->start && event->start < line->end;
}

static int compare_durations(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

/* The duration below which slices are left out, so that no more than SLICES_MAX stay. */
static int64_t shortest_drawn(const timeline *line, int64_t *durations) {
    if (line->count <= SLICES_MAX) return 0;
    for (int64_t i = 0; i < line->count; i++)
        durations[i] = line->trace->events.items[line->slices[i].event].duration;
    qsort(durations, (size_t)line->count, sizeof *durations, compare_durations);
    return durations[SLICES_MAX] + 1;
}

static hr_status slices_collect(timeline *line) {
    const hr_trace *trace = line->trace;
    int64_t count = 0;
    for (int64_t i = 0; i < trace->events.count; i++)
        count += is_drawn(line, &trace->events.items[i]);
    line->slices = calloc((size_t)count + 1, sizeof *line->slices);
    int64_t *durations = malloc((size_t)(count + 1) * sizeof *durations);
    if (!line->slices || !durations) {
        free(durations);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to draw %lld events", (long long)count);
    }
    for (int64_t i = 0; i < trace->events.count; i++)
        if (is_drawn(line, &trace->events.items[i]))
            line->slices[line->count++] = (slice){.event = (int32_t)i, .place = -1};
    int64_t least = shortest_drawn(line, durations), kept = 0;
    free(durations);
    for (int64_t i = 0; i < line->count; i++)
        if (trace->events.items[line->slices[i].event].duration >= least)
            line->slices[kept++] = line->slices[i];
    line->left_out = line->count - kept;
    line->count = kept;
    return HR_OK;
}

/* Nested slices stand below each other; those too deep are left out. */
static hr_status levels_set(timeline *line) {
    int64_t longest = -1;
    size_t tracks = (size_t)line->trace->tracks.count;
    int64_t(*open)[LEVELS_MAX] = calloc(tracks + 1, sizeof *open); /* where the last one of a level ends */
    if (!open) return hr_fail(HR_OUT_OF_MEMORY, "no memory to draw %zu tracks", tracks);
    for (int64_t i = 0; i < line->count; i++) {
        const hr_event *event = &line->trace->events.items[line->slices[i].event];
        int level = 0;
        while (level < LEVELS_MAX && open[event->track][level] > event->start)
            level++;
        if (level == LEVELS_MAX) {
            line->left_out++;
            continue;
        }
        /* levels below stay behind the one above: a child is never drawn over its parent */
        open[event->track][level] = event->start + event->duration;
        if (event->kind == HR_EVENT_RANGE && event->duration > longest) {
            longest = event->duration;
            line->first_track = event->track;
        }
        line->slices[i].level = level;
        line->slices[i].place = (int32_t)line->track_slices[event->track]++;
    }
    free(open);
    return HR_OK;
}

/* ---- writing ---- */

static int32_t name_of(timeline *line, int32_t id) {
    if (id < 0) return 0;
    if (!line->name_number[id]) {
        hr_text_append(&line->names, ",", 1);
        hr_json_string(&line->names, hr_trace_string(line->trace, id));
        line->name_number[id] = ++line->name_count;
    }
    return line->name_number[id];
}

static int slice_kind(const timeline *line, int32_t number) {
    const hr_event *event = &line->trace->events.items[number];
    uint8_t kind = line->diagnosis->event_kinds ? line->diagnosis->event_kinds[number] : 255;
    if (kind < HR_TIME_KIND_COUNT) return kind;
    const char *name = hr_trace_string(line->trace, event->name);
    switch ((hr_event_kind)event->kind) {
    case HR_EVENT_OPERATOR:
        return SOFT_OPERATOR;
    case HR_EVENT_CALL:
        return strstr(name, "Synchronize") ? SOFT_WAIT : SOFT_CALL;
    case HR_EVENT_SYNCHRONISE:
        return line->trace->tracks.items[event->track].is_stream ? SOFT_STREAM_WAIT : SOFT_WAIT;
    case HR_EVENT_OVERHEAD:
        return SOFT_OVERHEAD;
    case HR_EVENT_DEVICE_RANGE:
        return SOFT_ANNOTATION;
    case HR_EVENT_KERNEL:
    case HR_EVENT_COPY:
    case HR_EVENT_FILL:
    case HR_EVENT_GRAPH:
        return HR_TIME_OTHER;
    default:
        return SOFT_RANGE;
    }
}

/* "grid 8 × 1 × 1, block 256 × 1 × 1, 32 registers", "4 MB, pageable": number of the text, 0 = nothing. */
static int32_t slice_detail(timeline *line, const hr_event *event) {
    static const char *const kinds[] = {"", "pageable", "pinned", "device", "managed", "peer"};
    char text[160] = "";
    if (event->detail < 0) return 0;
    if (event->kind == HR_EVENT_KERNEL) {
        const hr_kernel_work *work = &line->trace->kernels.items[event->detail];
        if (!work->grid[0]) return 0;
        snprintf(text, sizeof text, "grid %d × %d × %d, block %d × %d × %d, %d registers", work->grid[0],
                 work->grid[1], work->grid[2], work->block[0], work->block[1], work->block[2],
                 work->registers);
    } else if (event->kind == HR_EVENT_COPY || event->kind == HR_EVENT_FILL) {
        const hr_copy *copy = &line->trace->copies.items[event->detail];
        bool known = copy->from && copy->to && copy->from < 6 && copy->to < 6;
        snprintf(text, sizeof text, "%s%s%s%s%s", hr_words_rate((double)copy->bytes, "B").text,
                 known ? ", from " : "", known ? kinds[copy->from] : "", known ? " to " : "",
                 known ? kinds[copy->to] : "");
    }
    if (!text[0]) return 0;
    hr_text_append(&line->names, ",", 1); /* repeated ones cost little */
    hr_json_string(&line->names, text);
    return ++line->name_count;
}

typedef int64_t (*slice_value)(timeline *line, const slice *of);

static int64_t value_duration(timeline *line, const slice *of) {
    return line->trace->events.items[of->event].duration;
}

static int64_t value_name(timeline *line, const slice *of) {
    return name_of(line, line->trace->events.items[of->event].name);
}

static int64_t value_kind(timeline *line, const slice *of) {
    return slice_kind(line, of->event);
}

static int64_t value_level(timeline *line, const slice *of) {
    (void)line;
    return of->level;
}

static int64_t value_detail(timeline *line, const slice *of) {
    return slice_detail(line, &line->trace->events.items[of->event]);
}

static int64_t value_link(timeline *line, const slice *of) {
    const hr_event *event = &line->trace->events.items[of->event];
    return event->kind == HR_EVENT_OPERATOR ? 0 : event->correlation;
}

/* The starts, each less the one before it. */
static void write_starts(hr_text *out, const timeline *line, int32_t track) {
    int64_t last = line->start;
    const char *comma = "";
    hr_text_format(out, "\"s\":[");
    for (int64_t i = 0; i < line->count; i++) {
        const hr_event *event = &line->trace->events.items[line->slices[i].event];
        if (event->track != track || line->slices[i].place < 0) continue;
        hr_text_format(out, "%s%lld", comma, (long long)(event->start - last));
        last = event->start;
        comma = ",";
    }
    hr_text_append(out, "]", 1);
}

static void write_values(hr_text *out, timeline *line, int32_t track, char key, slice_value value) {
    const char *comma = "";
    hr_text_format(out, ",\"%c\":[", key);
    for (int64_t i = 0; i < line->count; i++) {
        const slice *of = &line->slices[i];
        if (line->trace->events.items[of->event].track != track || of->place < 0) continue;
        hr_text_format(out, "%s%lld", comma, (long long)value(line, of));
        comma = ",";
    }
    hr_text_append(out, "]", 1);
}

static void write_title(hr_text *out, const timeline *line, const hr_track *track) {
    char title[160];
    const char *name = hr_trace_string(line->trace, track->name);
    if (track->is_stream)
        snprintf(title, sizeof title, "gpu %d · stream %lld", track->device, (long long)track->id);
    else if (name[0])
        snprintf(title, sizeof title, "%.140s", name);
    else
        snprintf(title, sizeof title, "thread %lld", (long long)track->id);
    hr_json_string(out, title);
}

static void write_track(hr_text *out, timeline *line, int32_t number) {
    static const struct {
        char key;
        slice_value value;
    } arrays[] = {{'d', value_duration}, {'n', value_name},   {'k', value_kind},
                  {'l', value_level},    {'i', value_detail}, {'c', value_link}};
    const hr_track *track = &line->trace->tracks.items[number];
    hr_text_format(out, "{\"title\":");
    write_title(out, line, track);
    hr_text_format(out, ",\"host\":%s,", track->is_stream ? "false" : "true");
    write_starts(out, line, number);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        write_values(out, line, number, arrays[i].key, arrays[i].value);
    hr_text_append(out, "}", 1);
}

/* The thread of the longest range, other threads, streams; only those that have something to show. */
static void write_tracks(hr_text *out, timeline *line) {
    int32_t number = 0;
    hr_text_format(out, "\"tracks\":[");
    for (int turn = 0; turn < 3; turn++)
        for (int64_t i = 0; i < line->trace->tracks.count; i++) {
            int of_track = line->trace->tracks.items[i].is_stream ? 2 : i != line->first_track;
            if (of_track != turn || !line->track_slices[i]) continue;
            hr_text_format(out, "%s\n", number ? "," : "");
            line->track_number[i] = number++;
            write_track(out, line, (int32_t)i);
        }
    hr_text_format(out, "]");
}

static void write_path(hr_text *out, const timeline *line) {
    const hr_diagnosis *diagnosis = line->diagnosis;
    int64_t least = 0;
    const char *comma = "";
    if (diagnosis->path_count > PATH_PIECES_MAX) least = (line->end - line->start) / PATH_PIECES_MAX;
    hr_text_format(out, ",\n\"path\":[");
    for (int i = 0; i < diagnosis->path_count; i++) {
        const hr_path_piece *piece = &diagnosis->path[i];
        if (piece->end - piece->start < least) continue;
        hr_text_format(out, "%s[%lld,%lld,%d]", comma, (long long)(piece->start - line->start),
                       (long long)(piece->end - piece->start), (int)piece->kind);
        comma = ",";
    }
    hr_text_format(out, "]");
}

/* Of the lane's device in the window: the mean of each `stride` samples of a kind, in thousandths. */
static void write_samples_of(hr_text *out, const timeline *line, hr_sample_kind kind, int64_t count) {
    const hr_trace *trace = line->trace;
    int64_t stride = count / SAMPLES_MAX + 1, taken = 0, last = line->start, first = 0;
    double sum = 0;
    hr_text values = {0};
    hr_text_format(out, "{\"title\":\"%s\",\"s\":[", hr_sample_kind_words(kind));
    const char *comma = "";
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (!is_sample(line, event) || trace->samples.items[event->detail].kind != kind) continue;
        if (taken == 0) first = event->start;
        sum += trace->samples.items[event->detail].value;
        if (++taken < stride) continue;
        hr_text_format(out, "%s%lld", comma, (long long)(first - last));
        double mean = sum / (double)taken;
        hr_text_format(&values, "%s%d", comma, mean > 0 ? (int)(1000 * (mean < 1 ? mean : 1)) : 0);
        last = first;
        comma = ",";
        taken = 0;
        sum = 0;
    }
    hr_text_format(out, "],\"v\":[%s]}", hr_text_data(&values));
    hr_text_clear(&values);
}

static void write_samples(hr_text *out, const timeline *line) {
    const hr_trace *trace = line->trace;
    int64_t counts[HR_SAMPLE_KIND_COUNT] = {0};
    for (int64_t i = 0; i < trace->events.count; i++)
        if (is_sample(line, &trace->events.items[i]))
            counts[trace->samples.items[trace->events.items[i].detail].kind]++;
    const char *comma = "";
    hr_text_format(out, ",\n\"samples\":[");
    for (int kind = HR_SAMPLE_SM_ACTIVE; kind < HR_SAMPLE_KIND_COUNT; kind++) {
        if (counts[kind] < 2) continue;
        hr_text_format(out, "%s\n", comma);
        write_samples_of(out, line, (hr_sample_kind)kind, counts[kind]);
        comma = ",";
    }
    hr_text_format(out, "]");
}

static int compare_slices(const void *left, const void *right) {
    int32_t a = ((const slice *)left)->event, b = ((const slice *)right)->event;
    return (a > b) - (a < b);
}

/* The places of each finding's events: [track, slice]. */
static void write_findings(hr_text *out, const timeline *line) {
    hr_text_format(out, ",\n\"findings\":[");
    for (int i = 0; i < line->diagnosis->finding_count; i++) {
        const hr_finding *finding = &line->diagnosis->findings[i];
        const char *comma = "";
        hr_text_format(out, "%s[", i ? "," : "");
        for (int k = 0; k < finding->event_count; k++) {
            slice key = {.event = finding->events[k]};
            const slice *found = bsearch(&key, line->slices, (size_t)line->count, sizeof key, compare_slices);
            if (!found || found->place < 0) continue;
            int32_t track = line->trace->events.items[found->event].track;
            hr_text_format(out, "%s[%d,%d]", comma, line->track_number[track], found->place);
            comma = ",";
        }
        hr_text_format(out, "]");
    }
    hr_text_format(out, "]");
}

static void write_all(hr_text *out, timeline *line, const hr_step *step) {
    hr_text_format(out, "{\"length\":%lld,\"zero\":%lld,\"step\":%lld,\n\"kinds\":[",
                   (long long)(line->end - line->start), (long long)(step->start - line->start),
                   (long long)(step->end - step->start));
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        hr_text_format(out, "%s", i ? "," : "");
        hr_json_string(out, hr_time_kind_words((hr_time_kind)i));
    }
    hr_text_format(out, "],\n");
    write_tracks(out, line);
    write_path(out, line);
    write_samples(out, line);
    write_findings(out, line);
    hr_text_format(out, ",\n\"names\":[\"\"%s]}", hr_text_data(&line->names));
}

/* The device's step and the host's part of it, with a little before and after. */
static hr_step window_choose(timeline *line) {
    const hr_steps *steps = &line->diagnosis->lane->steps;
    hr_step step = {0};
    if (steps->count > 0) step = steps->items[steps->chosen];
    line->start = step.start;
    line->end = step.end;
    if (step.host_end > step.host_start && step.host_start < line->start) line->start = step.host_start;
    if (step.host_end > line->end) line->end = step.host_end;
    int64_t margin = (line->end - line->start) / 40;
    line->start = line->start > margin ? line->start - margin : 0;
    line->end += margin + 1;
    return step;
}

hr_status hr_timeline_json(hr_text *out, const hr_diagnosis *diagnosis, int64_t *left_out) {
    const hr_trace *trace = diagnosis->trace;
    timeline line = {.diagnosis = diagnosis, .trace = trace, .first_track = -1};
    hr_step step = window_choose(&line);
    int32_t strings = 0;
    for (int64_t i = 0; i < trace->events.count; i++)
        if (trace->events.items[i].name >= strings) strings = trace->events.items[i].name + 1;
    line.track_number = calloc((size_t)trace->tracks.count + 1, sizeof *line.track_number);
    line.track_slices = calloc((size_t)trace->tracks.count + 1, sizeof *line.track_slices);
    line.name_number = calloc((size_t)strings + 1, sizeof *line.name_number);
    hr_status status = line.track_number && line.track_slices && line.name_number
                           ? slices_collect(&line)
                           : hr_fail(HR_OUT_OF_MEMORY, "no memory to draw a timeline");
    if (status == HR_OK) status = levels_set(&line);
    if (status == HR_OK) write_all(out, &line, &step);
    *left_out = line.left_out;
    free(line.slices);
    free(line.track_number);
    free(line.track_slices);
    free(line.name_number);
    hr_text_clear(&line.names);
    return status;
}
