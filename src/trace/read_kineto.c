/* PyTorch's profiler traces: Chrome JSON with Kineto's arguments.
 *
 * In: the text through a window of a megabyte that slides over it, so that memory does not grow with the
 * file. Out: events of the model, through kineto_add.c. An event that cannot be understood is counted and
 * left out, and reading goes on at the next one; a text that breaks off gives what came before.
 */
#include "trace/kineto.h"
#include "trace/trace_readers.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_FIRST ((size_t)1 << 20)
#define WINDOW_MAX   ((size_t)64 << 20) /* of one event */

typedef struct reader {
    hr_trace_build *build;
    hr_trace_input *input;
    const char *path;
    char *window;
    size_t capacity; /* without the padding */
    int64_t offset;  /* of the window's first byte in the text */
    bool ended;      /* the text's last byte is in the window */
    hr_json json;
    hr_kineto_keys keys;
    hr_kineto_adder adder;
    bool has_events;
} reader;

static int64_t offset_of(const reader *r, const char *at) {
    return r->offset + (at - r->window);
}

/* Slides the window so that it begins at `keep`, and fills it; grows it where `keep` is its beginning
 * already. */
static hr_status window_slide(reader *r, const char *keep) {
    size_t kept = (size_t)(r->json.end - keep), got = 0;
    if (keep == r->window && kept == r->capacity) {
        if (r->capacity * 2 > WINDOW_MAX)
            return hr_fail(HR_BAD_INPUT, "%s: byte %lld: a single piece is longer than 64 MB", r->path,
                           (long long)r->offset);
        char *grown = realloc(r->window, r->capacity * 2 + HR_JSON_PAD);
        if (!grown) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", r->path);
        r->window = grown;
        r->capacity *= 2;
    } else {
        r->offset += keep - r->window;
        memmove(r->window, keep, kept);
    }
    HR_TRY(hr_trace_input_read(r->input, r->window + kept, r->capacity - kept, &got));
    r->ended = got < r->capacity - kept;
    memset(r->window + kept + got, 0, HR_JSON_PAD);
    r->json = (hr_json){.at = r->window, .end = r->window + kept + got};
    return hr_trace_build_progress(r->build, hr_trace_input_done(r->input), hr_trace_input_size(r->input));
}

/* Where an attempt from `mark` ran into the window's end: makes room, so that it can be tried again. False at
 * the text's end. */
static bool try_again(reader *r, const char *mark, hr_status *status) {
    if (*status != HR_OK || !r->json.more || r->ended) return false;
    *status = window_slide(r, mark);
    return *status == HR_OK;
}

/* ---- events ---- */

/* The next place behind `at` that looks like the beginning of an event; NULL where there is none. */
static const char *next_event(const char *at, const char *end) {
    static const char *const keys[] = {"\"ph\"", "\"name\"", "\"cat\"", "\"pid\"", "\"ts\"", "\"args\""};
    while ((at = memchr(at, '{', (size_t)(end - at)))) {
        const char *key = at + 1;
        while (*key == ' ' || *key == '\n' || *key == '\r' || *key == '\t')
            key++;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (strncmp(key, keys[i], strlen(keys[i])) == 0) return at;
        at++;
    }
    return NULL;
}

/* Behind something that is no event: on to the next. */
static hr_status events_resume(reader *r, const char *from) {
    hr_trace_build_skip(r->build, "events that are not JSON", offset_of(r, from));
    const char *found;
    hr_status status = HR_OK;
    from++;
    while (!(found = next_event(from, r->json.end)) && !r->ended && status == HR_OK) {
        size_t tail = (size_t)(r->json.end - from) < 256 ? (size_t)(r->json.end - from) : 256;
        status = window_slide(r, r->json.end - tail);
        from = r->window;
    }
    r->json.at = found ? found : r->json.end;
    r->json.more = r->json.bad = false;
    return status;
}

static void events_end(reader *r) {
    hr_trace_build_rank(r->build)->truncated = true;
    hr_trace_build_skip(r->build, "files that break off; what came before is kept", offset_of(r, r->json.at));
}

static hr_status events_read(reader *r) {
    hr_kineto_event event;
    hr_status status = HR_OK;
    r->has_events = true;
    for (;;) {
        const char *mark = r->json.at;
        bool another = hr_json_element(&r->json);
        if (!another && !r->json.more) return HR_OK;
        const char *begin = r->json.at;
        bool is_event = another && *begin == '{';
        if (is_event) {
            r->json.at++;
            if (hr_kineto_parse(&r->keys, &r->json, &event)) {
                event.offset = offset_of(r, begin);
                hr_kineto_add(&r->adder, &event);
                continue;
            }
        } else if (another && hr_json_take(&r->json, &event.fields[0])) {
            hr_trace_build_skip(r->build, "elements that are no events", offset_of(r, begin));
            continue;
        }
        if (try_again(r, mark, &status)) continue;
        if (status != HR_OK) return status;
        if (r->json.more) {
            r->json.at = begin;
            events_end(r);
            return HR_OK;
        }
        HR_TRY(events_resume(r, begin));
    }
}

/* ---- what stands around them ---- */

/* Calls `take` for each member of the object, as long as the text is sound. */
static void members_each(reader *r, const hr_json_slice *object, void *context,
                         void (*take)(reader *, void *, const hr_json_slice *key,
                                      const hr_json_slice *value)) {
    if (object->kind != HR_JSON_OBJECT) return;
    hr_json json = {.at = object->text + 1, .end = object->text + object->length};
    hr_json_slice key, value;
    while (hr_json_member(&json, &key) && hr_json_take(&json, &value))
        take(r, context, &key, &value);
}

static double number_of(const hr_json_slice *value) {
    double number;
    return hr_json_real(value, &number) && number >= 0 && number < 1e18 ? number : 0;
}

static int32_t small_of(const hr_json_slice *value) {
    double number = number_of(value);
    return number <= INT32_MAX ? (int32_t)number : 0;
}

static void property_id_take(reader *r, void *context, const hr_json_slice *key, const hr_json_slice *value) {
    (void)r;
    if (hr_json_is(key, "id")) *(int32_t *)context = small_of(value);
}

static void property_take(reader *r, void *context, const hr_json_slice *key, const hr_json_slice *value) {
    hr_trace_device *device = context;
    (void)r;
    if (hr_json_is(key, "name")) {
        size_t length = value->length < sizeof device->name - 1 ? value->length : sizeof device->name - 1;
        for (size_t i = 0; i < length; i++)
            device->name[i] = (char)(value->text[i] >= 32 && value->text[i] < 127 ? value->text[i] : '?');
        device->name[length] = 0;
    } else if (hr_json_is(key, "computeMajor"))
        device->compute += 10 * (small_of(value) % 1000);
    else if (hr_json_is(key, "computeMinor"))
        device->compute += small_of(value) % 10;
    else if (hr_json_is(key, "numSms"))
        device->multiprocessors = small_of(value);
    else if (hr_json_is(key, "maxThreadsPerMultiprocessor")) {
        device->threads_multiprocessor = small_of(value);
        device->warps_multiprocessor = device->threads_multiprocessor / 32;
    } else if (hr_json_is(key, "regsPerMultiprocessor"))
        device->registers_multiprocessor = small_of(value);
    else if (hr_json_is(key, "sharedMemPerMultiprocessor"))
        device->shared_multiprocessor = (int64_t)number_of(value);
    else if (hr_json_is(key, "sharedMemPerBlockOptin"))
        device->shared_block = (int64_t)number_of(value);
    else if (hr_json_is(key, "totalGlobalMem"))
        device->memory_bytes = number_of(value);
}

static void devices_take(reader *r, const hr_json_slice *array) {
    if (array->kind != HR_JSON_ARRAY) return;
    hr_json json = {.at = array->text + 1, .end = array->text + array->length};
    hr_json_slice element;
    while (hr_json_element(&json) && hr_json_take(&json, &element)) {
        int32_t id = 0;
        members_each(r, &element, &id, property_id_take);
        hr_trace_device *device = hr_trace_build_device(r->build, id);
        if (!device) return;
        device->compute = 0;
        members_each(r, &element, device, property_take);
    }
}

static void distributed_take(reader *r, void *context, const hr_json_slice *key, const hr_json_slice *value) {
    hr_rank *rank = hr_trace_build_rank(r->build);
    int64_t number;
    (void)context;
    if (!hr_json_whole(value, &number) || number < 0 || number > INT32_MAX) return;
    if (hr_json_is(key, "rank")) rank->rank = (int32_t)number;
    if (hr_json_is(key, "world_size")) rank->world = (int32_t)number;
}

static void member_take(reader *r, const hr_json_slice *key, const hr_json_slice *value, int64_t *base) {
    if (hr_json_is(key, "deviceProperties"))
        devices_take(r, value);
    else if (hr_json_is(key, "distributedInfo"))
        members_each(r, value, NULL, distributed_take);
    else if (hr_json_is(key, "baseTimeNanoseconds"))
        (void)hr_json_whole(value, base);
}

static hr_status not_json(const reader *r) {
    if (r->json.more)
        return hr_fail(HR_BAD_INPUT, "%s: breaks off at byte %lld, before its first event", r->path,
                       (long long)offset_of(r, r->json.end));
    return hr_fail(HR_BAD_INPUT, "%s: byte %lld: this is no JSON: expected a key or the end of the object",
                   r->path, (long long)offset_of(r, r->json.at));
}

/* The object that Kineto writes: properties and the array of events, in any order. */
static hr_status object_read(reader *r) {
    int64_t base = 0;
    hr_status status = HR_OK;
    for (;;) {
        const char *mark = r->json.at;
        hr_json_slice key, value;
        bool member = hr_json_member(&r->json, &key);
        if (!member && !r->json.more && !r->json.bad) break;
        if (member && hr_json_is(&key, "traceEvents") && hr_json_peek(&r->json) == '[') {
            r->json.at++;
            HR_TRY(events_read(r));
            continue;
        }
        if (member && !r->json.more && hr_json_take(&r->json, &value)) {
            member_take(r, &key, &value, &base);
            continue;
        }
        if (try_again(r, mark, &status)) continue;
        if (status != HR_OK) return status;
        if (!r->has_events) return not_json(r);
        if (!hr_trace_build_rank(r->build)->truncated) events_end(r);
        break;
    }
    if (!r->has_events)
        return hr_fail(HR_BAD_INPUT,
                       "%s: is JSON, but has no \"traceEvents\": not a trace of PyTorch's profiler", r->path);
    if (base) hr_trace_build_clock(r->build, base);
    return HR_OK;
}

static hr_status text_read(reader *r) {
    r->window = malloc(WINDOW_FIRST + HR_JSON_PAD);
    if (!r->window) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", r->path);
    r->capacity = WINDOW_FIRST;
    r->json = (hr_json){.at = r->window, .end = r->window};
    hr_kineto_keys_set(&r->keys);
    HR_TRY(window_slide(r, r->window));
    if (memcmp(r->window, "\xef\xbb\xbf", 3) == 0) r->json.at += 3; /* a byte-order mark */
    char first = hr_json_peek(&r->json);
    r->json.at++;
    if (first == '[') return events_read(r);
    if (first == '{') return object_read(r);
    return hr_fail(HR_BAD_INPUT, "%s: byte 0: neither an object nor an array of events", r->path);
}

hr_status hr_trace_read_kineto(hr_trace_build *build, const char *path) {
    reader *r = calloc(1, sizeof *r);
    if (!r) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", path);
    *r = (reader){.build = build, .path = path, .adder = {.build = build}};
    hr_trace_build_file_begin(build, path, "kineto");
    hr_status status = hr_trace_input_open(path, &r->input);
    if (status == HR_OK) status = text_read(r);
    hr_status added = hr_kineto_add_end(&r->adder);
    if (status == HR_OK) status = added;
    if (status == HR_OK && hr_trace_input_damaged(r->input))
        hr_trace_build_skip(build, "gzip streams that are damaged; what came before is kept",
                            hr_trace_input_done(r->input));
    hr_trace_build_file_end(build);
    hr_trace_input_close(r->input);
    free(r->window);
    free(r);
    return status;
}
