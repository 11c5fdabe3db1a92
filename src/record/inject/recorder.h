/* The recorder inside another program: libheadroom_record.so.
 *
 * In: CUPTI's buffers of activity and NVTX's calls, from any of the program's threads. Out: the file that
 * base/trace_file.h describes. A thread of the recorder's own turns buffers into records and writes them, so
 * that the program's threads only hand over what they have. Nothing here may stop the program: every failure
 * becomes a sentence in the file (or on standard error where there is no file), and the program runs on
 * without.
 *
 *   recorder.c       start, end, the window that is recorded, the drain thread
 *   record_file.c    strings, chunks, the file
 *   cupti_open.c     finds and opens libcupti
 *   driver_devices.c what the GPUs are
 *   cupti_activity.c switches activities on and off, CUPTI's buffers -> records
 *   cupti_callbacks.c events, waits and allocations of programs with several streams
 *   counter_set.c    names of metrics -> what the hardware is to count, counts -> values
 *   kernel_counters.c hardware counters of single launches
 *   sampled_counters.c hardware counters of a device at an interval
 *   nvtx_ranges.c    NVTX's calls -> records
 *   thread_log.c     records of the program's own threads, until they are drained
 */
#ifndef HR_RECORD_RECORDER_H
#define HR_RECORD_RECORDER_H

#include "base/trace_file.h"
#include "record/inject/cupti_abi.h"
#include "record/inject/cupti_counters_abi.h"
#include <pthread.h>

/* How `headroom record` speaks to the recorder. */
#define RECORD_VARIABLE_FILE     "HEADROOM_RECORD_FILE" /* + .PROCESS.hrt */
#define RECORD_VARIABLE_FOR      "HEADROOM_RECORD_FOR"  /* seconds */
#define RECORD_VARIABLE_FROM     "HEADROOM_RECORD_FROM" /* name of a range */
#define RECORD_VARIABLE_STEPS    "HEADROOM_RECORD_STEPS"
#define RECORD_VARIABLE_CUPTI    "HEADROOM_CUPTI"           /* path of libcupti */
#define RECORD_VARIABLE_COUNTERS "HEADROOM_RECORD_COUNTERS" /* "kernels", "replayed" or "sampled" */

/* ---- recorder.c ---- */

/* Starts the recorder once a process. False where the program is not to be recorded or no file can be made.
 */
bool recorder_start(void);
/* ns of the one clock that all records use. */
uint64_t recorder_clock(void);
/* Whether what happens now is recorded. */
bool recorder_is_open(void);
/* A range of this name begins or ends: may open or close the window. */
void recorder_range_begins(const char *name, size_t length);
void recorder_range_ends(const char *name, size_t length);
/* Hands over a full buffer of CUPTI; it is freed once it was written. */
void recorder_take_buffer(uint8_t *buffer, size_t valid);
/* The recorder is to end before what was loaded up to now: at exit the last to come is the first to go. */
void recorder_end_before(void);
void recorder_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- record_file.c: all but record_string() are called by the drain thread, or before and after it ---- */

bool record_file_open(const char *path);
/* The id of a string; safe from any thread. */
int64_t record_string(const char *bytes, size_t length);
const char *record_string_text(int64_t id, size_t *length);
void record_put(hr_trace_record_kind kind, const void *record);
/* Names a thread at its first record. */
void record_thread(int64_t thread);
/* Writes the chunk that is being filled. */
void record_file_flush(void);
void record_file_close(void);
bool record_file_failed(void);
/* The process has no memory for something that was to be recorded: the file says so once. From any thread. */
void record_lacks_memory(void);
/* The first bytes of a file of the kernel's, 0 behind them; their number. Allocates nothing. */
size_t read_start(const char *path, char *out, size_t size);
/* In a child of fork: the file is its parent's. */
void record_file_forget(void);

/* ---- cupti_open.c ---- */

/* dlopen(), which says where it fails for want of memory. */
void *library_open(const char *path, int flags);
/* Fills `out` with the nearest CUPTI that works; otherwise false, with a sentence of what was tried. */
bool cupti_open(cupti_library *out, char *sentence, size_t size);

/* ---- driver_devices.c ---- */

/* Records what the program's GPUs are; the driver has started. */
void driver_put_devices(void);

/* ---- cupti_activity.c ---- */

/* Called once the CUDA driver starts, and by each further recording of this process. False where CUPTI is not
 * to be had; a note says why. */
bool activity_start(void);
void activity_open(void);
void activity_close(void);
/* One thread at a time switches something of CUPTI's: where two do, CUPTI's own locks have been seen to stand
 * still. Not to be held by what CUPTI calls but around a launch that is counted. */
void activity_lock(void);
void activity_unlock(void);
/* Asks CUPTI for what it has; `all`: also what is not complete. */
void activity_flush(bool all);
void activity_decode(uint8_t *buffer, size_t valid);
/* In a child of fork: CUDA does not work there, and its CUPTI is not ours. */
void activity_forget(void);

/* ---- cupti_callbacks.c ---- */

/* `subscriber` calls callbacks_call(); `library` stays where it is. */
void callbacks_start(const cupti_library *library, void *subscriber);
void callbacks_switch(bool on);
/* Tells kernel_counters.c of each launch, until the program ends. */
void callbacks_watch_launches(void);
/* Switches them to what is due now that the program may have made its first stream. */
void callbacks_follow(void);
void callbacks_call(void *user, int domain, uint32_t callback, const void *about);

/* What CUPTI's error code means to the user, as the end of a sentence. */
const char *activity_code_words(int code);

/* ---- counter_set.c ---- */

/* What is counted of a launch, by its place in hr_record_counters behind `known`; the last ones only go into
 * others. Metrics that are percentages are parts there. */
enum {
    COUNTED_TIME,
    COUNTED_DRAM_READ,
    COUNTED_DRAM_WRITTEN,
    COUNTED_DRAM_PART,
    COUNTED_TENSOR,
    COUNTED_VECTOR,
    COUNTED_WARPS,
    COUNTED_L1,
    COUNTED_L2_HITS,
    COUNTED_L2_MISSES,
    COUNTED_LOAD_SECTORS,
    COUNTED_LOAD_REQUESTS,
    COUNTED_STORE_SECTORS,
    COUNTED_STORE_REQUESTS,
    COUNTED_BUSY, /* issue slots or tensor cores, the busier */
    COUNTED_THREAD_PLACE,
    COUNTED_TENSOR_ACTIVE,
    COUNTED_FIELDS,
    COUNTED_ALU = COUNTED_FIELDS, /* added to the vector instructions, which are those of the fma pipe */
    COUNTED_HALVES,               /* of halves, on the tensor pipe: no products */
    COUNTED_VALUES
};
#define COUNTER_SET_MOST COUNTED_VALUES

/* What one run of a kernel can count at once on all chips, and what takes three runs; NULL = not counted. */
extern const char *const counter_metrics_of_one_run[COUNTED_VALUES];
extern const char *const counter_metrics_of_replays[COUNTED_VALUES];
/* In the order of hr_record_sample from sm_active on. */
enum { COUNTER_METRICS_OF_SAMPLES = 6 };
extern const char *const counter_metrics_of_samples[COUNTER_METRICS_OF_SAMPLES];

/* Metrics that are counted together. */
typedef struct counter_set {
    void *host;
    const char *names[COUNTER_SET_MOST]; /* those that the chip has */
    int places[COUNTER_SET_MOST];        /* of them in the list that was wanted */
    int count, wanted;
    uint8_t *config;
    size_t config_bytes, passes;
} counter_set;

/* Finds CUPTI's functions for counters; false, with a sentence, where this CUPTI is too old for them. */
bool counter_library_open(const cupti_library *cupti, cupti_counter_library *out, char *sentence,
                          size_t size);
/* Prepares to count on a device; false, with a sentence that says why it cannot be. */
bool counter_device_prepare(const cupti_counter_library *library, int device, int api, char chip[64],
                            char *sentence, size_t size);
/* A set of all of `names` (NULL is none) that the chip has, freed by nobody: it is needed until the program
 * ends. The code of CUPTI's that stopped it. */
int counter_set_make(const cupti_counter_library *library, enum cupti_profiler_kind kind, const char *chip,
                     const char *const *names, int count, counter_set *out);
/* Values of a range or sample of an image, in the order of the names that were wanted; NAN where the chip has
 * none. */
int counter_set_evaluate(const cupti_counter_library *library, const counter_set *set, const uint8_t *image,
                         size_t bytes, size_t range, double *values);

/* ---- kernel_counters.c ---- */

/* Counters of the first launches of each kernel, from now on; called before CUDA launches anything.
 * `replays`: all there are, by running each several times. */
void kernel_counters_start(const cupti_library *library, bool replays);
/* From the callbacks around a launch. `shape`: what is launched. */
void kernel_counters_before(const cupti_callback_data *data, void *function, const cuda_launch_shape *shape);
void kernel_counters_after(const cupti_callback_data *data);
/* Moves what was counted so far to the file. */
void kernel_counters_drain(void);
void kernel_counters_forget(void);

/* ---- sampled_counters.c: on the drain thread ---- */

void sampled_counters_start(const cupti_library *library);
/* The program has made a context; from any thread. */
void sampled_counters_context(void *context);
/* Begins, reads or ends the sampling as the window says. */
void sampled_counters_follow(bool open);
void sampled_counters_forget(void);

/* ---- thread_log.c ---- */

/* The calling thread's number, as the kernel counts. */
int64_t thread_log_thread(void);
/* Names of the ranges that the calling thread has open, RANGE_DEPTH_MOST; NULL where there is no memory. */
#define RANGE_DEPTH_MOST 64
int64_t *thread_log_open_ranges(void);
void thread_log_append(hr_trace_record_kind kind, const void *record, size_t size);
/* Moves what the program's threads have logged so far to the file. */
void thread_logs_drain(void);
/* In a child of fork: nothing of it is to be written. */
void thread_logs_forget(void);

#endif
