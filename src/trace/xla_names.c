/* Names of XLA's profiler. In: text. Out: what it means in the model. */
#include "trace/xla_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int32_t at_most_32_bits(long long value) {
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : 0;
}

int32_t hr_xla_device(const char *process) {
    if (!starts_with(process, "/device:")) return -1;
    const char *number = strrchr(process, ':') + 1;
    if (!isdigit((unsigned char)*number)) return -1; /* "/device:CUSTOM:Megascale Trace" */
    return at_most_32_bits(strtoll(number, NULL, 10));
}

int64_t hr_xla_stream(const char *thread) {
    static const char begins[] = "Stream #";
    return starts_with(thread, begins) ? strtoll(thread + sizeof begins - 1, NULL, 10) : -1;
}

bool hr_xla_is_work_line(const char *thread) {
    return strcmp(thread, "XLA Ops") == 0;
}

hr_event_kind hr_xla_work_kind(const char *name) {
    if (starts_with(name, "Memcpy")) return HR_EVENT_COPY;
    return starts_with(name, "Memset") ? HR_EVENT_FILL : HR_EVENT_KERNEL;
}

bool hr_xla_is_call(const char *name) {
    static const char *const prefixes[] = {"cuda", "cu", "hip"};
    for (int i = 0; i < 3; i++)
        if (starts_with(name, prefixes[i]) && isupper((unsigned char)name[strlen(prefixes[i])])) return true;
    return false;
}

/* The text behind "key:", at the beginning or behind a blank; NULL where there is none. */
static const char *detail(const char *details, const char *key) {
    size_t length = strlen(key);
    for (const char *at = details; (at = strstr(at, key)); at += length)
        if ((at == details || at[-1] == ' ') && at[length] == ':') return at + length + 1;
    return NULL;
}

static int32_t detail_number(const char *details, const char *key) {
    const char *text = detail(details, key);
    return text ? at_most_32_bits(strtoll(text, NULL, 10)) : 0;
}

static void detail_triple(const char *details, const char *key, int32_t out[3]) {
    const char *text = detail(details, key);
    for (int i = 0; text && i < 3; i++) {
        char *end;
        out[i] = at_most_32_bits(strtoll(text, &end, 10));
        text = *end == ',' ? end + 1 : NULL;
    }
}

hr_kernel_work hr_xla_kernel(const char *details) {
    hr_kernel_work work = {.registers = detail_number(details, "regs"),
                           .shared_static = detail_number(details, "static_shared"),
                           .shared_dynamic = detail_number(details, "dynamic_shared"),
                           .occupancy = -1,
                           .collective = -1,
                           .counters = -1};
    detail_triple(details, "grid", work.grid);
    detail_triple(details, "block", work.block);
    return work;
}

static hr_memory_kind memory_named(const char *text) {
    static const struct {
        const char *name;
        hr_memory_kind kind;
    } names[] = {{"pageable", HR_MEMORY_PAGEABLE},
                 {"pinned", HR_MEMORY_PINNED},
                 {"device", HR_MEMORY_DEVICE},
                 {"array", HR_MEMORY_DEVICE},
                 {"managed", HR_MEMORY_MANAGED}};
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
        if (starts_with(text, names[i].name)) return names[i].kind;
    return HR_MEMORY_UNKNOWN;
}

hr_copy hr_xla_copy(const char *name, const char *details) {
    const char *size = detail(details, "size"), *both = detail(details, "kind"),
               *asynchronous = detail(details, "async");
    hr_copy copy = {.bytes = size ? strtoll(size, NULL, 10) : 0,
                    .from = (uint8_t)memory_named(detail(details, "kind_src")),
                    .to = (uint8_t)memory_named(detail(details, "kind_dst")),
                    .asynchronous = asynchronous && *asynchronous == '1'};
    if (copy.bytes < 0) copy.bytes = 0;
    hr_memory_kind host =
        both ? memory_named(both) : HR_MEMORY_UNKNOWN; /* older writers name the host's side */
    bool up = strstr(name, "H2D") || strstr(name, "HtoD"), down = strstr(name, "D2H") || strstr(name, "DtoH");
    if (!copy.from) copy.from = (uint8_t)(up ? host : down ? HR_MEMORY_DEVICE : HR_MEMORY_UNKNOWN);
    if (!copy.to) copy.to = (uint8_t)(down ? host : up ? HR_MEMORY_DEVICE : HR_MEMORY_UNKNOWN);
    return copy;
}
