/* NVTX's calls. In: ranges and marks of the program's threads. Out: records.
 *
 * A thread logs into a block of its own under a lock that only the drain thread shares; full blocks queue up.
 * The log of a thread that ended is freed once it was drained. */
#include "record/inject/nvtx_abi.h"
#include "record/inject/recorder.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#define BLOCK_EVENTS 512
#define BLOCK_MOST   256 /* of one thread that wait: beyond that its ranges are dropped */
#define DEPTH_MOST   64  /* nested ranges whose names the window needs */

typedef struct logged {
    int64_t time, name, domain, id;
    uint8_t kind; /* hr_trace_record_kind */
} logged;

typedef struct block {
    struct block *next;
    int count;
    logged events[BLOCK_EVENTS];
} block;

typedef struct range_log {
    struct range_log *next;
    pthread_mutex_t lock;
    block *first, *last;
    int blocks, depth;
    int64_t thread, dropped;
    int64_t open_names[DEPTH_MOST];
    bool ended; /* its thread */
} range_log;

/* What NVTX's domains and registered strings point to. */
typedef struct handle {
    int64_t name;
} handle;

static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;
static range_log *logs;
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static __thread range_log *own_log;
static atomic_llong range_ids;

/* ---- a thread's log ---- */

static void end_log(void *value) {
    range_log *log = value;
    pthread_mutex_lock(&log->lock);
    log->ended = true;
    pthread_mutex_unlock(&log->lock);
}

static void make_thread_key(void) {
    pthread_key_create(&thread_key, end_log);
}

static range_log *find_log(void) {
    if (own_log) return own_log;
    range_log *log = calloc(1, sizeof *log);
    if (!log) return NULL;
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

static bool has_room(range_log *log) {
    if (log->last && log->last->count < BLOCK_EVENTS) return true;
    block *more = log->blocks < BLOCK_MOST ? malloc(sizeof *more) : NULL;
    if (!more) return false;
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

static void append(range_log *log, logged event) {
    pthread_mutex_lock(&log->lock);
    if (has_room(log))
        log->last->events[log->last->count++] = event;
    else
        log->dropped++;
    pthread_mutex_unlock(&log->lock);
}

static void log_event(int kind, int64_t name, const handle *domain, int64_t id) {
    if (!recorder_is_open()) return;
    range_log *log = find_log();
    if (!log) return;
    append(log, (logged){(int64_t)recorder_clock(), name, domain ? domain->name : -1, id, (uint8_t)kind});
}

/* ---- messages ---- */

static int64_t wide_string(const wchar_t *wide) {
    char text[1024];
    size_t length = 0;
    for (; *wide && length < sizeof text - 4; wide++) { /* UTF-32 -> UTF-8 */
        uint32_t point = (uint32_t)*wide;
        if (point < 0x80) {
            text[length++] = (char)point;
            continue;
        }
        int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        text[length++] = (char)((0xf00 >> more) | (int)(point >> (6 * more)));
        while (more-- > 0)
            text[length++] = (char)(0x80 | (point >> (6 * more) & 0x3f));
    }
    return record_string(text, length);
}

static int64_t plain_string(const char *text) {
    return text ? record_string(text, strlen(text)) : -1;
}

static int64_t message_of(const nvtx_attributes *attributes) {
    if (!attributes || attributes->size < sizeof *attributes || !attributes->message) return -1;
    switch (attributes->message_kind) {
    case NVTX_MESSAGE_ASCII:
        return plain_string(attributes->message);
    case NVTX_MESSAGE_WIDE:
        return wide_string(attributes->message);
    case NVTX_MESSAGE_REGISTERED:
        return ((const handle *)attributes->message)->name;
    }
    return -1;
}

/* ---- ranges ---- */

static int push(const handle *domain, int64_t name) {
    size_t length;
    range_log *log = find_log();
    if (!log) return -1;
    const char *text = record_string_text(name, &length);
    recorder_range_begins(text, length);
    if (log->depth < DEPTH_MOST) log->open_names[log->depth] = name;
    log_event(HR_RECORD_range_begin, name, domain, 0);
    return log->depth++;
}

static int pop(const handle *domain) {
    size_t length;
    range_log *log = find_log();
    if (!log || log->depth == 0) return -1;
    log_event(HR_RECORD_range_end, -1, domain, 0);
    log->depth--;
    if (log->depth < DEPTH_MOST) {
        const char *text = record_string_text(log->open_names[log->depth], &length);
        recorder_range_ends(text, length);
    }
    return log->depth;
}

static uint64_t start(const handle *domain, int64_t name) {
    size_t length;
    const char *text = record_string_text(name, &length);
    int64_t id = 1 + atomic_fetch_add(&range_ids, 1);
    recorder_range_begins(text, length);
    log_event(HR_RECORD_range_begin, name, domain, id);
    return (uint64_t)id;
}

static handle *make_handle(int64_t name) {
    handle *handle = malloc(sizeof *handle); /* for the life of the program, as NVTX's are */
    if (handle) handle->name = name;
    return handle;
}

/* ---- what stands in NVTX's tables ---- */

static void mark_ex(const nvtx_attributes *attributes) {
    log_event(HR_RECORD_mark, message_of(attributes), NULL, 0);
}
static void mark_a(const char *text) {
    log_event(HR_RECORD_mark, plain_string(text), NULL, 0);
}
static void mark_w(const wchar_t *text) {
    log_event(HR_RECORD_mark, wide_string(text), NULL, 0);
}
static uint64_t range_start_ex(const nvtx_attributes *attributes) {
    return start(NULL, message_of(attributes));
}
static uint64_t range_start_a(const char *text) {
    return start(NULL, plain_string(text));
}
static uint64_t range_start_w(const wchar_t *text) {
    return start(NULL, wide_string(text));
}
static void range_end(uint64_t id) {
    log_event(HR_RECORD_range_end, -1, NULL, (int64_t)id);
}
static int range_push_ex(const nvtx_attributes *attributes) {
    return push(NULL, message_of(attributes));
}
static int range_push_a(const char *text) {
    return push(NULL, plain_string(text));
}
static int range_push_w(const wchar_t *text) {
    return push(NULL, wide_string(text));
}
static int range_pop(void) {
    return pop(NULL);
}
static void domain_mark_ex(const handle *domain, const nvtx_attributes *attributes) {
    log_event(HR_RECORD_mark, message_of(attributes), domain, 0);
}
static uint64_t domain_range_start_ex(const handle *domain, const nvtx_attributes *attributes) {
    return start(domain, message_of(attributes));
}
static void domain_range_end(const handle *domain, uint64_t id) {
    log_event(HR_RECORD_range_end, -1, domain, (int64_t)id);
}
static int domain_range_push_ex(const handle *domain, const nvtx_attributes *attributes) {
    return push(domain, message_of(attributes));
}
static int domain_range_pop(const handle *domain) {
    return pop(domain);
}
static handle *domain_register_a(const handle *domain, const char *text) {
    (void)domain;
    return make_handle(plain_string(text));
}
static handle *domain_register_w(const handle *domain, const wchar_t *text) {
    (void)domain;
    return make_handle(wide_string(text));
}
static handle *domain_create_a(const char *name) {
    return make_handle(plain_string(name));
}
static handle *domain_create_w(const wchar_t *name) {
    return make_handle(wide_string(name));
}

#define ENTRY(function) (nvtx_function)(function)

static const nvtx_function core[NVTX_CORE_SIZE] = {
    [NVTX_MARK_EX] = ENTRY(mark_ex),
    [NVTX_MARK_A] = ENTRY(mark_a),
    [NVTX_MARK_W] = ENTRY(mark_w),
    [NVTX_RANGE_START_EX] = ENTRY(range_start_ex),
    [NVTX_RANGE_START_A] = ENTRY(range_start_a),
    [NVTX_RANGE_START_W] = ENTRY(range_start_w),
    [NVTX_RANGE_END] = ENTRY(range_end),
    [NVTX_RANGE_PUSH_EX] = ENTRY(range_push_ex),
    [NVTX_RANGE_PUSH_A] = ENTRY(range_push_a),
    [NVTX_RANGE_PUSH_W] = ENTRY(range_push_w),
    [NVTX_RANGE_POP] = ENTRY(range_pop),
};

static const nvtx_function core2[NVTX_CORE2_SIZE] = {
    [NVTX_DOMAIN_MARK_EX] = ENTRY(domain_mark_ex),
    [NVTX_DOMAIN_RANGE_START_EX] = ENTRY(domain_range_start_ex),
    [NVTX_DOMAIN_RANGE_END] = ENTRY(domain_range_end),
    [NVTX_DOMAIN_RANGE_PUSH_EX] = ENTRY(domain_range_push_ex),
    [NVTX_DOMAIN_RANGE_POP] = ENTRY(domain_range_pop),
    [NVTX_DOMAIN_REGISTER_STRING_A] = ENTRY(domain_register_a),
    [NVTX_DOMAIN_REGISTER_STRING_W] = ENTRY(domain_register_w),
    [NVTX_DOMAIN_CREATE_A] = ENTRY(domain_create_a),
    [NVTX_DOMAIN_CREATE_W] = ENTRY(domain_create_w),
};

static void fill_table(const nvtx_callbacks *callbacks, int module, const nvtx_function *ours,
                       unsigned count) {
    nvtx_function **table = NULL;
    unsigned size = 0;
    if (!callbacks->module(module, &table, &size) || !table) return;
    for (unsigned i = 1; i < count && i < size; i++)
        if (ours[i] && table[i]) *table[i] = ours[i];
}

/* NVTX calls this from each library that carries it, at its first range. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_export_table export) {
    const nvtx_callbacks *callbacks = export ? export(NVTX_TABLE_CALLBACKS) : NULL;
    if (!callbacks || callbacks->size < sizeof *callbacks || !recorder_start()) return 0;
    fill_table(callbacks, NVTX_MODULE_CORE, core, NVTX_CORE_SIZE);
    fill_table(callbacks, NVTX_MODULE_CORE2, core2, NVTX_CORE2_SIZE);
    return 1;
}

/* ---- draining ---- */

static void put_logged(const range_log *log, const logged *at) {
    record_thread(log->thread);
    switch (at->kind) {
    case HR_RECORD_range_begin:
        record_put(HR_RECORD_range_begin,
                   &(hr_record_range_begin){at->time, log->thread, at->name, at->domain, at->id});
        break;
    case HR_RECORD_range_end:
        record_put(HR_RECORD_range_end, &(hr_record_range_end){at->time, log->thread, at->domain, at->id});
        break;
    default:
        record_put(HR_RECORD_mark, &(hr_record_mark){at->time, log->thread, at->name, at->domain});
    }
}

/* True where its thread ended and nothing is left. */
static bool drain_log(range_log *log) {
    pthread_mutex_lock(&log->lock);
    block *at = log->first;
    int64_t dropped = log->dropped;
    bool ended = log->ended;
    log->first = log->last = NULL;
    log->blocks = 0;
    log->dropped = 0;
    pthread_mutex_unlock(&log->lock);
    while (at) {
        for (int i = 0; i < at->count; i++)
            put_logged(log, &at->events[i]);
        block *next = at->next;
        free(at);
        at = next;
    }
    if (dropped) record_put(HR_RECORD_dropped, &(hr_record_dropped){dropped});
    return ended;
}

void ranges_drain(void) {
    pthread_mutex_lock(&logs_lock);
    for (range_log **place = &logs; *place;) {
        range_log *log = *place;
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

void ranges_forget(void) {
    pthread_mutex_init(&logs_lock, NULL);
    logs = NULL; /* the other threads' are not in this process; a page or two is lost */
    if (own_log) pthread_setspecific(thread_key, NULL);
    own_log = NULL;
}
