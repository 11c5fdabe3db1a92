/* NVTX's calls. In: ranges and marks of the program's threads. Out: records in the log of the calling thread.
 */
#include "base/nvtx_abi.h"
#include "record/inject/recorder.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* What NVTX's domains and registered strings point to. */
typedef struct handle {
    int64_t name;
} handle;

static atomic_llong range_ids;
static __thread int depth; /* of the ranges that this thread has open */

static int64_t domain_name(const handle *domain) {
    return domain ? domain->name : -1;
}

static void log_begin(int64_t name, const handle *domain, int64_t id) {
    if (!recorder_is_open()) return;
    hr_record_range_begin record = {(int64_t)recorder_clock(), thread_log_thread(), name, domain_name(domain),
                                    id};
    thread_log_append(HR_RECORD_range_begin, &record, sizeof record);
}

static void log_end(const handle *domain, int64_t id) {
    if (!recorder_is_open()) return;
    hr_record_range_end record = {(int64_t)recorder_clock(), thread_log_thread(), domain_name(domain), id};
    thread_log_append(HR_RECORD_range_end, &record, sizeof record);
}

static void log_mark(int64_t name, const handle *domain) {
    if (!recorder_is_open()) return;
    hr_record_mark record = {(int64_t)recorder_clock(), thread_log_thread(), name, domain_name(domain)};
    thread_log_append(HR_RECORD_mark, &record, sizeof record);
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
    const char *text = record_string_text(name, &length);
    recorder_range_begins(text, length);
    int64_t *open_ranges = thread_log_open_ranges();
    if (open_ranges && depth < RANGE_DEPTH_MOST) open_ranges[depth] = name;
    log_begin(name, domain, 0);
    return depth++;
}

static int pop(const handle *domain) {
    size_t length;
    if (depth == 0) return -1;
    log_end(domain, 0);
    depth--;
    const int64_t *open_ranges = thread_log_open_ranges();
    if (open_ranges && depth < RANGE_DEPTH_MOST) {
        const char *text = record_string_text(open_ranges[depth], &length);
        recorder_range_ends(text, length);
    }
    return depth;
}

static uint64_t start(const handle *domain, int64_t name) {
    size_t length;
    const char *text = record_string_text(name, &length);
    int64_t id = 1 + atomic_fetch_add(&range_ids, 1);
    recorder_range_begins(text, length);
    log_begin(name, domain, id);
    return (uint64_t)id;
}

static handle *make_handle(int64_t name) {
    handle *handle = malloc(sizeof *handle); /* for the life of the program, as NVTX's are */
    if (handle)
        handle->name = name;
    else
        record_lacks_memory();
    return handle;
}

/* ---- what stands in NVTX's tables ---- */

static void mark_ex(const nvtx_attributes *attributes) {
    log_mark(message_of(attributes), NULL);
}
static void mark_a(const char *text) {
    log_mark(plain_string(text), NULL);
}
static void mark_w(const wchar_t *text) {
    log_mark(wide_string(text), NULL);
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
    log_end(NULL, (int64_t)id);
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
    log_mark(message_of(attributes), domain);
}
static uint64_t domain_range_start_ex(const handle *domain, const nvtx_attributes *attributes) {
    return start(domain, message_of(attributes));
}
static void domain_range_end(const handle *domain, uint64_t id) {
    log_end(domain, (int64_t)id);
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
