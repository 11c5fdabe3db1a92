/* Start, end, window and the drain thread. In: the environment that `headroom record` sets, the CUDA driver's
 * and NVTX's calls. Out: a file a process.
 *
 * The recorder is loaded into a program that knows nothing of it, and neither CUPTI nor NVTX pass anything
 * along, so its state stands in file-local variables here and beside. */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_SECONDS 0.25 /* at most this long until what was handed over is in the file */
#define FLUSH_SECONDS 1.0  /* and until CUPTI is asked for what it holds */

typedef struct taken_buffer {
    struct taken_buffer *next;
    uint8_t *data;
    size_t valid;
} taken_buffer;

/* A sentence, or the window's opening or closing. */
typedef struct noted {
    struct noted *next;
    int64_t time;
    bool is_window, opens;
    char text[];
} noted;

enum window { WINDOW_WAITS, WINDOW_OPEN, WINDOW_CLOSED };

typedef struct recorder {
    pthread_mutex_t start_lock, lock; /* `lock` guards the queues */
    pthread_cond_t wake;
    pthread_t thread;
    bool tried, running, thread_running, ending;
    bool stirred;       /* there is news for the drain thread */
    bool watches_forks; /* forget_parent() is registered */
    atomic_int window;  /* enum window */
    atomic_bool cuda;   /* the driver started and CUPTI is there */
    double seconds;     /* that the window stays open, 0 = until the end */
    uint64_t opened;
    char from[256]; /* range that opens it, "" = the start */
    int64_t steps;  /* ranges after which it closes, 0 = never */
    atomic_llong steps_left;
    taken_buffer *first, *last;
    noted *notes;
    char loading[4200]; /* the file that says so */
} recorder;

static recorder state = {.start_lock = PTHREAD_MUTEX_INITIALIZER,
                         .lock = PTHREAD_MUTEX_INITIALIZER,
                         .wake = PTHREAD_COND_INITIALIZER};

uint64_t recorder_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool recorder_is_open(void) {
    return atomic_load_explicit(&state.window, memory_order_relaxed) == WINDOW_OPEN;
}

/* ---- what is handed over ---- */

static void note_text(const char *text, bool is_window, bool opens) {
    size_t length = strlen(text) + 1;
    noted *note = malloc(sizeof *note + length);
    if (!note) {
        record_lacks_memory();
        return;
    }
    *note = (noted){.time = (int64_t)recorder_clock(), .is_window = is_window, .opens = opens};
    memcpy(note->text, text, length);
    pthread_mutex_lock(&state.lock);
    noted **end = &state.notes;
    while (*end)
        end = &(*end)->next;
    *end = note;
    state.stirred = true;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.lock);
}

void recorder_note(const char *format, ...) {
    char text[2048];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    note_text(text, false, false);
}

void recorder_take_buffer(uint8_t *buffer, size_t valid) {
    taken_buffer *taken = malloc(sizeof *taken);
    if (!taken) {
        record_lacks_memory();
        free(buffer);
        return;
    }
    *taken = (taken_buffer){NULL, buffer, valid};
    pthread_mutex_lock(&state.lock);
    if (state.last)
        state.last->next = taken;
    else
        state.first = taken;
    state.last = taken;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.lock);
}

/* ---- the window ---- */

static void open_window(void) {
    int waits = WINDOW_WAITS;
    if (!atomic_compare_exchange_strong(&state.window, &waits, WINDOW_OPEN)) return;
    state.opened = recorder_clock();
    note_text("", true, true);
    activity_open();
}

static void close_window(void) {
    int open = WINDOW_OPEN;
    if (!atomic_compare_exchange_strong(&state.window, &open, WINDOW_CLOSED)) return;
    note_text("", true, false);
    activity_close();
}

/* A range belongs to NAME where it is called that, or that and something that is no letter: "step", "step
 * 12". */
static bool is_named(const char *name, size_t length, const char *wanted) {
    size_t start = strlen(wanted);
    if (length < start || strncmp(name, wanted, start) != 0) return false;
    char after = name[start] | 0x20;
    return length == start || after < 'a' || after > 'z';
}

static bool is_step(const char *name, size_t length) {
    static const char *const usual[] = {"step", "Step", "train_step", "iteration", "ProfilerStep"};
    if (state.from[0]) return is_named(name, length, state.from);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (is_named(name, length, usual[i])) return true;
    return false;
}

void recorder_range_begins(const char *name, size_t length) {
    if (!state.from[0] || atomic_load(&state.window) != WINDOW_WAITS) return;
    if (is_named(name, length, state.from)) open_window();
}

void recorder_range_ends(const char *name, size_t length) {
    if (!state.steps || !recorder_is_open() || !is_step(name, length)) return;
    if (atomic_fetch_sub(&state.steps_left, 1) == 1) close_window();
}

/* ---- the drain thread ---- */

static void put_notes(void) {
    pthread_mutex_lock(&state.lock);
    noted *at = state.notes;
    state.notes = NULL;
    pthread_mutex_unlock(&state.lock);
    while (at) {
        noted *next = at->next;
        if (at->is_window)
            record_put(HR_RECORD_window, &(hr_record_window){at->time, at->opens});
        else
            record_put(HR_RECORD_note,
                       &(hr_record_note){at->time, record_string(at->text, strlen(at->text)), false});
        free(at);
        at = next;
    }
}

static void drain(void) {
    pthread_mutex_lock(&state.lock);
    taken_buffer *at = state.first;
    state.first = state.last = NULL;
    pthread_mutex_unlock(&state.lock);
    while (at) {
        taken_buffer *next = at->next;
        activity_decode(at->data, at->valid);
        free(at->data);
        free(at);
        at = next;
    }
    thread_logs_drain();
    kernel_counters_drain();
    put_notes();
    record_file_flush();
}

static bool wait_for_work(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(DRAIN_SECONDS * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&state.lock);
    if (!state.ending && !state.first && !state.stirred)
        pthread_cond_timedwait(&state.wake, &state.lock, &until);
    bool ending = state.ending;
    state.stirred = false;
    pthread_mutex_unlock(&state.lock);
    return !ending;
}

static void *drain_loop(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "headroom-record");
    uint64_t flushed = recorder_clock();
    while (wait_for_work()) {
        uint64_t now = recorder_clock();
        if (state.seconds > 0 && recorder_is_open() && (double)(now - state.opened) > state.seconds * 1e9)
            close_window();
        if (state.cuda) callbacks_follow();
        if (state.cuda) sampled_counters_follow(recorder_is_open());
        if (state.cuda && (double)(now - flushed) > FLUSH_SECONDS * 1e9) {
            activity_flush(false);
            flushed = now;
        }
        drain();
        if (record_file_failed()) close_window();
    }
    sampled_counters_follow(false);
    return NULL;
}

/* The program's signals are for its own threads. */
static bool start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&state.thread, NULL, drain_loop, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) { /* what comes until the program ends is written there */
        record_lacks_memory();
        record_file_flush();
    }
    return started;
}

/* ---- start and end ---- */

/* At exit, while the driver is still there. */
static void finish(void) {
    if (!state.running) return;
    state.running = false;
    close_window();
    if (state.cuda) activity_flush(true);
    pthread_mutex_lock(&state.lock);
    state.ending = true;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.lock);
    if (state.thread_running) pthread_join(state.thread, NULL);
    state.thread_running = false;
    drain();
    record_file_close();
}

void recorder_end_before(void) {
    atexit(finish);
}

/* A child of fork has neither our thread nor CUDA; its own ranges, if any, go to a file of its own. */
static void forget_parent(void) {
    pthread_mutex_init(&state.start_lock, NULL);
    pthread_mutex_init(&state.lock, NULL);
    pthread_cond_init(&state.wake, NULL);
    bool was_running = state.running;
    state.tried = state.running = state.thread_running = state.ending = false;
    atomic_store(&state.cuda, false);
    state.first = state.last = NULL;
    state.notes = NULL;
    record_file_forget();
    activity_forget();
    thread_logs_forget();
    kernel_counters_forget();
    sampled_counters_forget();
    if (!was_running) return;
    atomic_store(&state.window, WINDOW_CLOSED); /* data loaders' workers: nothing to record there */
    state.tried = true;
}

static void read_settings(void) {
    const char *seconds = getenv(RECORD_VARIABLE_FOR), *from = getenv(RECORD_VARIABLE_FROM);
    const char *steps = getenv(RECORD_VARIABLE_STEPS);
    state.seconds = seconds ? strtod(seconds, NULL) : 0;
    state.steps = steps ? atoll(steps) : 0;
    atomic_store(&state.steps_left, state.steps);
    snprintf(state.from, sizeof state.from, "%s", from ? from : "");
}

static void put_program(void) {
    char line[1024] = "";
    size_t length = read_start("/proc/self/cmdline", line, sizeof line);
    while (length && !line[length - 1])
        length--;
    for (size_t i = 0; i < length; i++)
        if (!line[i]) line[i] = ' ';
    char version[16];
    int digits =
        snprintf(version, sizeof version, "%d.%d.%d", HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
    record_put(HR_RECORD_program,
               &(hr_record_program){record_string(line, length), record_string(version, (size_t)digits)});
}

static bool start_once(void) {
    const char *prefix = getenv(RECORD_VARIABLE_FILE);
    if (!prefix || !*prefix) return false;
    char path[4200];
    snprintf(path, sizeof path, "%s.%d%s", prefix, (int)getpid(), HR_TRACE_FILE_SUFFIX);
    snprintf(state.loading, sizeof state.loading, "%s.%d%s", prefix, (int)getpid(), HR_TRACE_LOADING_SUFFIX);
    if (!record_file_open(path)) {
        fprintf(stderr, "headroom record: %s cannot be written; the program runs unrecorded\n", path);
        return false;
    }
    read_settings();
    put_program();
    state.ending = false;
    if (!state.watches_forks) state.watches_forks = pthread_atfork(NULL, NULL, forget_parent) == 0;
    bool ends = atexit(finish) == 0;
    if (!ends || !state.watches_forks) record_lacks_memory();
    record_file_flush();
    state.thread_running = start_thread();
    atomic_store(&state.window, WINDOW_WAITS);
    state.running = true;
    if (!state.from[0]) open_window();
    return true;
}

bool recorder_start(void) {
    pthread_mutex_lock(&state.start_lock);
    if (!state.tried) {
        state.tried = true;
        start_once();
    }
    bool running = state.running;
    pthread_mutex_unlock(&state.start_lock);
    return running;
}

static void start_cuda(void) {
    int mark = open(state.loading, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (mark >= 0) close(mark);
    bool started = activity_start();
    unlink(state.loading);
    if (!started) return;
    state.cuda = true;
    if (atexit(finish) != 0)
        record_lacks_memory(); /* before the driver's own end, also where NVTX started first */
    if (recorder_is_open()) activity_open();
}

/* The CUDA driver calls this at the end of cuInit. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    if (!recorder_start()) return 1;
    pthread_mutex_lock(&state.start_lock);
    if (!state.cuda) start_cuda();
    pthread_mutex_unlock(&state.start_lock);
    return 1;
}

/* ---- in a program that calls the recorder itself: hr_recording_begin() ---- */

/* Whether the driver has started, or soon will: it asked for no recorder then. A CUPTI that was named is one
 * that the caller wants. */
static bool has_driver(void) {
    return getenv(RECORD_VARIABLE_CUPTI) || dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

__attribute__((visibility("default"))) bool headroom_record_begin(void) {
    pthread_mutex_lock(&state.start_lock);
    bool begun = !state.running;
    if (begun) {
        state.tried = true;
        begun = start_once();
        if (begun && has_driver()) start_cuda();
    }
    pthread_mutex_unlock(&state.start_lock);
    return begun;
}

__attribute__((visibility("default"))) void headroom_record_end(void) {
    pthread_mutex_lock(&state.start_lock);
    finish();
    pthread_mutex_unlock(&state.start_lock);
}
