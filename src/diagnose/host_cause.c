/* Host time -> the code it went to.
 *
 * Each slice gets the time that it shares with the stretches, once for each name that is open. Python's
 * frames stand inside of each other from the program's first to the innermost: wanted is the deepest function
 * of the user's own files that still fills most of the time, else the deepest range, module or operator.
 */
#include "diagnose/host_cause.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 512
#define MOST      0.5 /* of the time: below, no slice is the cause */
#define SPECIFIC  0.8 /* of what the one around it fills: then the inner one says more */
#define MODULE    "nn.Module: "

/* ---- names of frames ---- */

/* "video.py(57): preprocess" */
static bool frame_of_kineto(const char *name, hr_frame *out) {
    const char *end = strstr(name, "): ");
    const char *open = end;
    while (open && open > name && *open != '(')
        open--;
    if (!end || *open != '(' || open == name || !isdigit((unsigned char)open[1])) return false;
    *out = (hr_frame){name, end + 3, (int)(open - name), (int)strlen(end + 3), atoi(open + 1)};
    return true;
}

/* "$video.py:57 preprocess" */
static bool frame_of_jax(const char *name, hr_frame *out) {
    const char *blank = strchr(name, ' '), *colon = blank;
    if (name[0] != '$' || !blank) return false;
    while (colon > name && *colon != ':')
        colon--;
    if (*colon != ':' || !isdigit((unsigned char)colon[1])) return false;
    *out = (hr_frame){name + 1, blank + 1, (int)(colon - name - 1), (int)strlen(blank + 1), atoi(colon + 1)};
    return true;
}

bool hr_frame_read(const char *name, hr_frame *out) {
    return frame_of_kineto(name, out) || frame_of_jax(name, out);
}

static bool path_holds(const hr_frame *frame, const char *part) {
    size_t length = strlen(part);
    for (int i = 0; i + (int)length <= frame->file_length; i++)
        if (strncmp(frame->file + i, part, length) == 0) return true;
    return false;
}

/* Profilers cut the folders of packages off, so that a library's file begins with its package. */
bool hr_frame_is_library(const hr_frame *frame) {
    static const char *const folders[] = {"site-packages/", "dist-packages/", "/lib/python", "<frozen", NULL};
    static const char *const packages[] = {"torch/",         "torchvision/",
                                           "torchaudio/",    "transformers/",
                                           "accelerate/",    "datasets/",
                                           "deepspeed/",     "numpy/",
                                           "PIL/",           "cv2/",
                                           "scipy/",         "pandas/",
                                           "jax/",           "jaxlib/",
                                           "flax/",          "optax/",
                                           "cupy/",          "triton/",
                                           "vllm/",          "sglang/",
                                           "lightning/",     "pytorch_lightning/",
                                           "ray/",           "tqdm/",
                                           "json/",          "asyncio/",
                                           "concurrent/",    "multiprocessing/",
                                           "importlib/",     "logging/",
                                           "collections/",   "unittest/",
                                           "xml/",           "urllib/",
                                           "http/",          "email/",
                                           "ctypes/",        "threading.py",
                                           "contextlib.py",  "runpy.py",
                                           "socket.py",      "selectors.py",
                                           "queue.py",       "pickle.py",
                                           "copy.py",        "functools.py",
                                           "random.py",      "re.py",
                                           "os.py",          "posixpath.py",
                                           "tempfile.py",    "subprocess.py",
                                           "traceback.py",   "inspect.py",
                                           "typing.py",      "abc.py",
                                           "enum.py",        "warnings.py",
                                           "weakref.py",     "heapq.py",
                                           "bisect.py",      "struct.py",
                                           "glob.py",        "shutil.py",
                                           "dataclasses.py", NULL};
    for (int i = 0; folders[i]; i++)
        if (path_holds(frame, folders[i])) return true;
    for (int i = 0; packages[i]; i++)
        if (strncmp(frame->file, packages[i], strlen(packages[i])) == 0) return true;
    return false;
}

/* ---- time that slices share with the stretches ---- */

/* What is looked for first; `library` stands for code that nobody here can change. */
typedef enum rank { USER_FRAME, RANGE, MODULE_FRAME, OPERATOR, LIBRARY, RANK_COUNT } rank;

typedef struct candidate {
    int64_t shared; /* ns */
    double depth;   /* summed over ns */
    int32_t event;  /* the slice that shares most */
    int64_t most;
    int32_t open; /* how often it is open now: recursion counts once */
} candidate;

typedef struct cause {
    const hr_analysis *analysis;
    const hr_host_time *times; /* by track and start */
    int64_t *sums;             /* before each, of the lengths of all before it */
    int count;
    candidate *names; /* by string */
    int32_t name_count;
} cause;

static int compare_times(const void *left, const void *right) {
    const hr_host_time *a = left, *b = right;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

/* Of the stretches of that track: how much of them lies before a moment. */
static int64_t before(const cause *cause, int32_t track, int64_t moment) {
    int low = 0, high = cause->count;
    while (low < high) {
        int middle = (low + high) / 2;
        const hr_host_time *time = &cause->times[middle];
        if (time->track < track || (time->track == track && time->start < moment))
            low = middle + 1;
        else
            high = middle;
    }
    int64_t sum = cause->sums[low];
    const hr_host_time *last = low ? &cause->times[low - 1] : NULL;
    if (last && last->track == track && last->end > moment) sum -= last->end - moment;
    return sum;
}

typedef struct opened {
    int64_t end;
    int32_t name;
} opened;

/* What is open on a thread. */
typedef struct frames {
    opened items[DEPTH_MAX];
    int depth;
} frames;

static void frames_close(cause *cause, frames *open, int64_t until) {
    while (open->depth && open->items[open->depth - 1].end <= until)
        cause->names[open->items[--open->depth].name].open--;
}

static void slice_add(cause *cause, frames *open, int32_t number) {
    const hr_event *event = &cause->analysis->trace->events.items[number];
    int64_t end = event->start + event->duration;
    frames_close(cause, open, event->start);
    if (event->name < 0 || event->name >= cause->name_count || open->depth == DEPTH_MAX) return;
    candidate *of = &cause->names[event->name];
    open->items[open->depth++] = (opened){end, event->name};
    if (of->open++) return;
    int64_t shared = before(cause, event->track, end) - before(cause, event->track, event->start);
    of->shared += shared;
    of->depth += (double)shared * open->depth;
    if (shared > of->most) {
        of->most = shared;
        of->event = number;
    }
}

static void slices_add(cause *cause) {
    const hr_trace *trace = cause->analysis->trace;
    for (int i = 0; i < cause->count;) { /* track after track */
        int32_t track = cause->times[i].track;
        int last = i;
        while (last + 1 < cause->count && cause->times[last + 1].track == track)
            last++;
        frames *open = hr_arena_alloc(cause->analysis->arena, sizeof *open);
        for (int32_t k = 0; k < trace->events.count && trace->events.items[k].start < cause->times[last].end;
             k++) {
            const hr_event *event = &trace->events.items[k];
            bool slice = event->track == track && event->kind <= HR_EVENT_OPERATOR && event->duration > 0;
            if (slice && event->start + event->duration > cause->times[i].start) slice_add(cause, open, k);
        }
        frames_close(cause, open, INT64_MAX);
        i = last + 1;
    }
}

/* ---- the one to name ---- */

static rank rank_of(const cause *cause, int32_t event) {
    const hr_trace *trace = cause->analysis->trace;
    const hr_event *of = &trace->events.items[event];
    const char *name = hr_trace_string(trace, of->name);
    hr_frame frame;
    if (hr_frame_read(name, &frame)) return hr_frame_is_library(&frame) ? LIBRARY : USER_FRAME;
    if (strncmp(name, MODULE, strlen(MODULE)) == 0) return MODULE_FRAME;
    if (of->kind == HR_EVENT_RANGE) return strncmp(name, "ProfilerStep", 12) == 0 ? LIBRARY : RANGE;
    bool python = of->detail >= 0 && of->detail < trace->operators.count &&
                  trace->operators.items[of->detail].is_python;
    return python ? LIBRARY : OPERATOR; /* <built-in method sleep> */
}

/* Whether `one` says more than `other`: nearly as much time, deeper. */
static bool says_more(const candidate *one, const candidate *other) {
    double deeper = one->depth / (double)one->shared - other->depth / (double)other->shared;
    return deeper > 0 ? (double)one->shared >= SPECIFIC * (double)other->shared
                      : (double)other->shared < SPECIFIC * (double)one->shared;
}

static const candidate *choose(const cause *cause, int64_t all) {
    const candidate *best[RANK_COUNT] = {NULL};
    for (int32_t i = 0; i < cause->name_count; i++) {
        const candidate *one = &cause->names[i];
        if ((double)one->shared < MOST * (double)all || !one->shared) continue;
        rank rank = rank_of(cause, one->event);
        if (!best[rank] || says_more(one, best[rank])) best[rank] = one;
    }
    for (int rank = 0; rank < LIBRARY; rank++)
        if (best[rank]) return best[rank];
    return NULL;
}

static void cause_words(const cause *cause, int32_t event, char *out, size_t room) {
    const hr_trace *trace = cause->analysis->trace;
    const char *name = hr_trace_string(trace, trace->events.items[event].name);
    hr_frame frame;
    if (hr_frame_read(name, &frame)) {
        int cut = frame.file_length > 120 ? frame.file_length - 120 : 0;
        snprintf(out, room, "`%.*s` in %.*s, line %d",
                 frame.function_length < 120 ? frame.function_length : 120, frame.function,
                 frame.file_length - cut, frame.file + cut, frame.line);
    } else if (strncmp(name, MODULE, strlen(MODULE)) == 0)
        snprintf(out, room, "module %.160s", name + strlen(MODULE));
    else
        snprintf(out, room, "%s %.160s",
                 trace->events.items[event].kind == HR_EVENT_RANGE ? "range" : "operator", name);
}

bool hr_draft_note_cause(hr_draft *draft, hr_host_time *times, int count, int32_t known) {
    const hr_analysis *analysis = draft->analysis;
    const hr_trace *trace = analysis->trace;
    cause cause = {.analysis = analysis, .times = times, .count = count};
    if (!count) return false;
    qsort(times, (size_t)count, sizeof *times, compare_times);
    for (int64_t i = 0; i < trace->events.count; i++)
        if (trace->events.items[i].name >= cause.name_count)
            cause.name_count = trace->events.items[i].name + 1;
    cause.sums = hr_arena_alloc(analysis->arena, (size_t)(count + 1) * sizeof *cause.sums);
    cause.names = hr_arena_alloc(analysis->arena, (size_t)cause.name_count * sizeof *cause.names);
    for (int i = 0; i < count; i++)
        cause.sums[i + 1] = cause.sums[i] + times[i].end - times[i].start;
    slices_add(&cause);
    const candidate *found = choose(&cause, cause.sums[count]);
    if (!found) return false;
    const hr_event *named = &trace->events.items[found->event];
    if (known >= 0 && trace->events.items[known].name == named->name) return true;
    char words[320];
    int steps = hr_counted_steps(analysis);
    cause_words(&cause, found->event, words, sizeof words);
    hr_draft_note(draft, found->event, 0, (double)found->shared * 1e-9, "%s: %s of these %s a step", words,
                  hr_time_text((double)found->shared * 1e-9 / steps).text,
                  hr_time_text((double)cause.sums[count] * 1e-9 / steps).text);
    return true;
}
