/* Records that the program's own threads make. In: a record at a time, from any thread. Out: the same to the
 * file, by the drain thread.
 *
 * A thread logs into a block of its own under a lock that only the drain thread shares; full blocks queue up.
 * The log of a thread that ended is freed once it was drained. */
#include "record/inject/recorder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK_RECORDS 512
#define BLOCK_MOST    256 /* of one thread that wait: beyond that its records are dropped */
#define FIELD_MOST    7   /* of the kinds that are logged here */

typedef struct logged {
    hr_trace_record_kind kind;
    int64_t field[FIELD_MOST];
} logged;

typedef struct block {
    struct block *next;
    int count;
    logged records[BLOCK_RECORDS];
} block;

typedef struct thread_log {
    struct thread_log *next;
    pthread_mutex_t lock;
    block *first, *last;
    int blocks;
    int64_t thread, dropped;
    int64_t open_ranges[RANGE_DEPTH_MOST];
    bool ended; /* its thread */
} thread_log;

static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_log *logs;
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static __thread thread_log *own_log;

/* ---- logging ---- */

static void end_log(void *value) {
    thread_log *log = value;
    pthread_mutex_lock(&log->lock);
    log->ended = true;
    pthread_mutex_unlock(&log->lock);
}

static void make_thread_key(void) {
    pthread_key_create(&thread_key, end_log);
}

static thread_log *find_log(void) {
    if (own_log) return own_log;
    thread_log *log = calloc(1, sizeof *log);
    if (!log) {
        record_lacks_memory();
        return NULL;
    }
    pthread_mutex_init(&log->lock, NULL);
    log->thread = syscall(SYS_gettid);
    pthread_once(&thread_key_once, make_thread_key);
    pthread_setspecific(thread_key, log);
    pthread_mutex_lock(&logs_lock);
    log->next = logs;
    logs = log;
    pthread_mutex_unlock(&logs_lock);
    return own_log = log;
}

static bool has_room(thread_log *log) {
    if (log->last && log->last->count < BLOCK_RECORDS) return true;
    block *more = log->blocks < BLOCK_MOST ? malloc(sizeof *more) : NULL;
    if (!more) {
        if (log->blocks < BLOCK_MOST) record_lacks_memory();
        return false;
    }
    more->next = NULL;
    more->count = 0;
    if (log->last)
        log->last->next = more;
    else
        log->first = more;
    log->last = more;
    log->blocks++;
    return true;
}

int64_t thread_log_thread(void) {
    thread_log *log = find_log();
    return log ? log->thread : 0;
}

int64_t *thread_log_open_ranges(void) {
    thread_log *log = find_log();
    return log ? log->open_ranges : NULL;
}

void thread_log_append(hr_trace_record_kind kind, const void *record, size_t size) {
    thread_log *log = find_log();
    if (!log || size > sizeof log->last->records->field) return;
    pthread_mutex_lock(&log->lock);
    if (has_room(log)) {
        logged *at = &log->last->records[log->last->count++];
        at->kind = kind;
        memcpy(at->field, record, size);
    } else
        log->dropped++;
    pthread_mutex_unlock(&log->lock);
}

/* ---- draining ---- */

/* True where its thread ended and nothing is left. */
static bool drain_log(thread_log *log) {
    pthread_mutex_lock(&log->lock);
    block *at = log->first;
    int64_t dropped = log->dropped;
    bool ended = log->ended;
    log->first = log->last = NULL;
    log->blocks = 0;
    log->dropped = 0;
    pthread_mutex_unlock(&log->lock);
    if (at) record_thread(log->thread);
    while (at) {
        for (int i = 0; i < at->count; i++)
            record_put(at->records[i].kind, at->records[i].field);
        block *next = at->next;
        free(at);
        at = next;
    }
    if (dropped) record_put(HR_RECORD_dropped, &(hr_record_dropped){dropped});
    return ended;
}

void thread_logs_drain(void) {
    pthread_mutex_lock(&logs_lock);
    for (thread_log **place = &logs; *place;) {
        thread_log *log = *place;
        if (!drain_log(log)) {
            place = &log->next;
            continue;
        }
        *place = log->next;
        pthread_mutex_destroy(&log->lock);
        free(log);
    }
    pthread_mutex_unlock(&logs_lock);
}

void thread_logs_forget(void) {
    pthread_mutex_init(&logs_lock, NULL);
    logs = NULL; /* the other threads' are not in this process; a page or two is lost */
    if (own_log) pthread_setspecific(thread_key, NULL);
    own_log = NULL;
}
