/* Hardware counters of single launches. In: the moments before and after each launch. Out: records with what
 * was counted.
 *
 * The first launches of each kernel (function, grid and block) are counted one at a time by CUPTI's range
 * profiler. What a kernel counts in one run takes 15 ms; more needs several runs over the same memory, which
 * CUPTI saves and puts back: 0.1 s, and 30 ms for each GB that the program has. So the launches that follow
 * run free, and the recording stays one of the program as it is. Launches into a graph that is being captured
 * run free too, and so do collectives: they wait for other GPUs.
 *
 * While one launch is counted no other may begin: the lock is for that one alone, and shared by those that
 * run free. */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES_EACH    2    /* of a kernel: the first may find caches and clocks cold */
#define LAUNCHES_MOST    600  /* of a process: a minute or two */
#define SEEN_SLOTS       8192 /* kernels */
#define PROFILERS        8    /* contexts */
#define IMAGE_RANGES     4
#define PATIENCE_SECONDS 1
#define WAITS_MOST       3 /* that outlasted the patience */
#define CUDA_NOT_READY   600

typedef struct profiler {
    void *context, *object;
    counter_set set;
    uint8_t *image;
    size_t image_bytes;
} profiler;

typedef struct seen_kernel {
    uint64_t key; /* 0 = free */
    int launches;
} seen_kernel;

static const cupti_library *cupti;
static const char *const *metrics; /* COUNTED_VALUES of them */
static cupti_counter_library library;
static atomic_bool counting, counted_any;
static atomic_int waits;
static pthread_rwlock_t one_at_a_time = PTHREAD_RWLOCK_INITIALIZER;

static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static seen_kernel seen[SEEN_SLOTS];
static int seen_count, launches_left = LAUNCHES_MOST;

static profiler profilers[PROFILERS]; /* whoever has the lock alone */
static int profiler_count;

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static hr_record_counters *done; /* until they are drained */
static int done_count, done_capacity;

/* What this thread holds while it launches. */
static __thread enum { HOLDS_NOTHING, HOLDS_SHARE, HOLDS_ALL } held;
static __thread profiler *chosen;
static __thread int64_t begun;

/* ---- which launches ---- */

/* Of the driver, which the program has loaded; each gives a CUDA error. */
static int (*stream_capture)(void *stream, int *status);
static int (*stream_query)(void *stream);

static void find_driver(void) {
    void *driver = library_open("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return;
    *(void **)&stream_capture = dlsym(driver, "cuStreamIsCapturing");
    *(void **)&stream_query = dlsym(driver, "cuStreamQuery");
}

void kernel_counters_start(const cupti_library *opened, bool replays) {
    char sentence[768];
    cupti = opened;
    metrics = replays ? counter_metrics_of_replays : counter_metrics_of_one_run;
    if (!counter_library_open(cupti, &library, sentence, sizeof sentence)) {
        recorder_note("%s", sentence);
        return;
    }
    find_driver();
    counting = true;
    callbacks_watch_launches();
}

static void give_up(const char *what, int code) {
    if (atomic_exchange(&counting, false))
        recorder_note("counters were not recorded%s: %s: %s (CUPTI's code %d)",
                      counted_any ? " from here on" : "", what, activity_code_words(code), code);
}

static uint64_t launch_key(void *function, const cuda_launch_shape *shape) {
    uint64_t key = (uint64_t)(uintptr_t)function;
    for (int i = 0; i < 3; i++)
        key = (key ^ shape->grid[i] ^ (uint64_t)shape->block[i] << 32) * 0x9e3779b97f4a7c15u ^ key >> 29;
    return key | 1;
}

/* Whether this launch is one of the first of its kernel. */
static bool is_wanted(void *function, const cuda_launch_shape *shape) {
    uint64_t key = launch_key(function, shape);
    pthread_mutex_lock(&seen_lock);
    size_t slot = (key >> 20) % SEEN_SLOTS;
    while (seen[slot].key && seen[slot].key != key)
        slot = (slot + 1) % SEEN_SLOTS;
    bool room = seen[slot].key || seen_count < SEEN_SLOTS / 2;
    bool wanted = room && seen[slot].launches < LAUNCHES_EACH && launches_left > 0;
    if (wanted) {
        seen_count += !seen[slot].key;
        seen[slot].key = key;
        seen[slot].launches++;
        launches_left--;
    }
    bool last = wanted && launches_left == 0;
    pthread_mutex_unlock(&seen_lock);
    if (last)
        recorder_note("counters were read for the first %d launches; later kernels have none", LAUNCHES_MOST);
    return wanted;
}

/* What is launched into a graph that is being captured does not run now. */
static bool is_captured(void *stream) {
    int status = 0;
    return stream_capture && (stream_capture(stream, &status) != 0 || status != 0);
}

/* A launch that is counted waits until it has run, and so for all before it on its stream. Where that waits
 * for the host in turn, nothing would move again. */
static bool becomes_idle(void *stream) {
    struct timespec pause = {.tv_nsec = 50000};
    int64_t until = (int64_t)recorder_clock() + PATIENCE_SECONDS * 1000000000;
    while (stream_query && stream_query(stream) == CUDA_NOT_READY) {
        if ((int64_t)recorder_clock() > until) return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static bool is_collective(const char *name) {
    return name && (strstr(name, "nccl") || strstr(name, "nvshmem"));
}

/* ---- counting ---- */

static int reset_image(const profiler *profiler) {
    cupti_range_image image = {.size = CUPTI_SIZE(cupti_range_image, image),
                               .profiler = profiler->object,
                               .bytes = profiler->image_bytes,
                               .image = profiler->image};
    return library.range_image(&image);
}

static int configure(profiler *profiler) {
    cupti_range_image_size size = {.size = CUPTI_SIZE(cupti_range_image_size, bytes),
                                   .profiler = profiler->object,
                                   .names = profiler->set.names,
                                   .count = (size_t)profiler->set.count,
                                   .ranges_most = IMAGE_RANGES,
                                   .nodes_most = IMAGE_RANGES};
    int code = library.range_image_size(&size);
    if (code != CUPTI_OK) return code;
    profiler->image = calloc(1, size.bytes + 1);
    profiler->image_bytes = size.bytes;
    if (!profiler->image) return CUPTI_NO_MEMORY;
    code = reset_image(profiler);
    if (code != CUPTI_OK) return code;
    cupti_range_config config = {.size = CUPTI_SIZE(cupti_range_config, level),
                                 .profiler = profiler->object,
                                 .config_bytes = profiler->set.config_bytes,
                                 .config = profiler->set.config,
                                 .image_bytes = profiler->image_bytes,
                                 .image = profiler->image,
                                 .range_mode = CUPTI_AUTO_RANGES,
                                 .replay_mode = CUPTI_KERNEL_REPLAY,
                                 .ranges_most = IMAGE_RANGES,
                                 .levels = 1,
                                 .level_least = 1};
    return library.range_config(&config);
}

/* The profiler of a context, made once; CUPTI takes one configuration in its life. */
static profiler *find_profiler(void *context) {
    char chip[64], sentence[512];
    uint32_t device = 0;
    for (int i = 0; i < profiler_count; i++)
        if (profilers[i].context == context) return profilers[i].object ? &profilers[i] : NULL;
    if (profiler_count == PROFILERS) return NULL;
    profiler *made = &profilers[profiler_count++];
    *made = (profiler){.context = context};
    if (cupti->device_id(context, &device) != CUPTI_OK) return NULL;
    if (!counter_device_prepare(&library, (int)device, CUPTI_API_RANGES, chip, sentence, sizeof sentence)) {
        if (atomic_exchange(&counting, false)) recorder_note("%s", sentence);
        return NULL;
    }
    int code = counter_set_make(&library, CUPTI_RANGE_PROFILER, chip, metrics, COUNTED_VALUES, &made->set);
    cupti_range_enable enable = {.size = CUPTI_SIZE(cupti_range_enable, profiler), .context = context};
    if (code == CUPTI_OK) code = library.range_enable(&enable);
    made->object = enable.profiler;
    if (code == CUPTI_OK) code = configure(made);
    if (code == CUPTI_OK) return made;
    made->object = NULL;
    give_up("CUPTI's range profiler does not start", code);
    return NULL;
}

static bool start(void *context) {
    chosen = find_profiler(context);
    if (!chosen) return false;
    cupti_range_object object = {.size = sizeof object, .profiler = chosen->object};
    int code = library.range_start(&object);
    if (code == CUPTI_OK) return true;
    give_up("CUPTI's range profiler does not start", code);
    return false;
}

/* A launch of another thread may wait for what this thread is about to do: then this one is not counted. */
static bool take_alone(void *stream) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    if (becomes_idle(stream) && pthread_rwlock_timedwrlock(&one_at_a_time, &until) == 0) return true;
    if (atomic_fetch_add(&waits, 1) + 1 == WAITS_MOST && atomic_exchange(&counting, false))
        recorder_note("counters were not recorded%s: work on the GPU waits for the host while that launches, "
                      "and a launch that is counted would wait for ever",
                      counted_any ? " from here on" : "");
    return false;
}

void kernel_counters_before(const cupti_callback_data *data, void *function, const cuda_launch_shape *shape) {
    held = HOLDS_NOTHING;
    if (!counting || !recorder_is_open()) return;
    bool wanted = !is_collective(data->symbol) && !is_captured(shape->stream) && is_wanted(function, shape);
    if (!wanted || !take_alone(shape->stream)) {
        pthread_rwlock_rdlock(&one_at_a_time);
        held = HOLDS_SHARE;
        return;
    }
    held = HOLDS_ALL;
    activity_lock();
    begun = (int64_t)recorder_clock();
    if (start(data->context)) return;
    activity_unlock();
    pthread_rwlock_unlock(&one_at_a_time);
    held = HOLDS_NOTHING;
}

/* ---- what was counted ---- */

static int64_t whole(double value) {
    return value >= 0 && value < 9e18 ? (int64_t)(value + 0.5) : 0;
}

static bool is_percentage(int value) {
    return metrics[value] && strstr(metrics[value], "pct");
}

static double known(double value) {
    return isnan(value) ? 0 : value;
}

static hr_record_counters make_record(const cupti_callback_data *data, double *values) {
    hr_record_counters record = {
        .time = begun, .duration = (int64_t)recorder_clock() - begun, .correlation = data->correlation};
    values[COUNTED_VECTOR] += known(values[COUNTED_ALU]) + known(values[COUNTED_HALVES]);
    values[COUNTED_TENSOR] -= known(values[COUNTED_HALVES]);
    if (!(values[COUNTED_BUSY] >= values[COUNTED_TENSOR_ACTIVE]))
        values[COUNTED_BUSY] = values[COUNTED_TENSOR_ACTIVE];
    int64_t *fields = &record.nanoseconds;
    for (int i = 0; i < COUNTED_FIELDS; i++) {
        if (isnan(values[i])) continue;
        fields[i] = whole(is_percentage(i) ? values[i] * 1e4 : values[i]);
        record.known |= INT64_C(1) << i;
    }
    record.thread = thread_log_thread();
    return record;
}

static void keep_record(const hr_record_counters *record) {
    pthread_mutex_lock(&done_lock);
    if (done_count == done_capacity) {
        int capacity = done_capacity ? 2 * done_capacity : 64;
        hr_record_counters *grown = realloc(done, (size_t)capacity * sizeof *grown);
        if (grown) {
            done = grown;
            done_capacity = capacity;
        }
    }
    if (done_count < done_capacity)
        done[done_count++] = *record;
    else
        record_lacks_memory();
    pthread_mutex_unlock(&done_lock);
}

static void read_counts(const cupti_callback_data *data) {
    double values[COUNTED_VALUES];
    cupti_range_stop stop = {.size = CUPTI_SIZE(cupti_range_stop, all_passes), .profiler = chosen->object};
    int code = library.range_stop(&stop);
    cupti_range_decode decode = {.size = CUPTI_SIZE(cupti_range_decode, dropped), .profiler = chosen->object};
    if (code == CUPTI_OK) code = library.range_decode(&decode);
    cupti_range_image_info info = {.size = CUPTI_SIZE(cupti_range_image_info, ranges),
                                   .image = chosen->image,
                                   .bytes = chosen->image_bytes};
    if (code == CUPTI_OK) code = library.range_image_info(&info);
    bool one = code == CUPTI_OK && info.ranges == 1; /* 0: the launch failed; a word of it is the program's */
    if (one)
        code = counter_set_evaluate(&library, &chosen->set, chosen->image, chosen->image_bytes, 0, values);
    if (one && code == CUPTI_OK) {
        hr_record_counters record = make_record(data, values);
        keep_record(&record);
        counted_any = true;
    }
    if (code == CUPTI_OK) code = reset_image(chosen);
    if (code != CUPTI_OK) give_up("CUPTI's range profiler failed", code);
}

void kernel_counters_after(const cupti_callback_data *data) {
    if (held == HOLDS_ALL) {
        read_counts(data);
        activity_unlock();
    }
    if (held != HOLDS_NOTHING) pthread_rwlock_unlock(&one_at_a_time);
    held = HOLDS_NOTHING;
}

void kernel_counters_drain(void) {
    pthread_mutex_lock(&done_lock);
    hr_record_counters *records = done;
    int count = done_count;
    done = NULL;
    done_count = done_capacity = 0;
    pthread_mutex_unlock(&done_lock);
    for (int i = 0; i < count; i++)
        record_put(HR_RECORD_counters, &records[i]);
    free(records);
}

void kernel_counters_forget(void) {
    counting = false;
    pthread_rwlock_init(&one_at_a_time, NULL); /* a thread of the parent may have held them */
    pthread_mutex_init(&seen_lock, NULL);
    pthread_mutex_init(&done_lock, NULL);
    done = NULL;
    done_count = done_capacity = 0;
    held = HOLDS_NOTHING;
}
