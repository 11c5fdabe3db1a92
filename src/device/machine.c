/* Which processor this is: its name, caches, vectors, and how many threads may run.
 *
 * In: /proc/cpuinfo, sysfs, the scheduler, the control group. Out: hr_device_limits, a product name and a
 * hash of all that code generation for "native" depends on.
 */
#include "base/cache.h"
#include "base/file.h"
#include "device/device_cpu.h"
#include "device/team.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define INFO_MAX     (16 * 1024) /* the first processor's block of /proc/cpuinfo */
#define LITTLE_WORK  16384       /* some microseconds of one core; to start and join threads takes as long */
#define CACHE_FOLDER "/sys/devices/system/cpu/cpu0/cache"

/* ---- name ---- */

/* The value of "key : value" in `info`; false where there is none. */
static bool info_field(const char *info, const char *key, char *out, size_t size) {
    for (const char *line = info; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, key, strlen(key)) == 0 && (line[strlen(key)] == '\t' || line[strlen(key)] == ' ')) {
            const char *value = memchr(line, ':', length);
            if (!value) return false;
            value += 1 + (value[1] == ' ');
            snprintf(out, size, "%.*s", (int)(line + length - value), value);
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

static void name_find(const char *info, char *name, size_t size) {
    char maker[32], part[32];
    struct utsname system;
    if (info_field(info, "model name", name, size) || info_field(info, "Model", name, size)) return;
    if (info_field(info, "CPU implementer", maker, sizeof maker) &&
        info_field(info, "CPU part", part, sizeof part))
        snprintf(name, size, "ARM %s/%s", maker, part);
    else
        snprintf(name, size, "%.60s", uname(&system) == 0 ? system.machine : "unknown processor");
}

/* Everything in the block but what changes from moment to moment. */
static void hash_find(const char *info, char hash[33]) {
    static const char *const keys[] = {"vendor_id", "cpu family",      "model",    "model name",  "stepping",
                                       "flags",     "CPU implementer", "CPU part", "CPU variant", "Features"};
    hr_text text = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char value[8192];
        if (info_field(info, keys[i], value, sizeof value)) hr_text_format(&text, "%s %s\n", keys[i], value);
    }
    hr_cache_hash(hr_text_data(&text), text.length, hash);
    hr_text_clear(&text);
}

/* ---- caches ---- */

static int64_t size_parse(const char *text) {
    char *end;
    int64_t value = strtoll(text, &end, 10);
    return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : value;
}

/* How many processors "0-3,8-11" names. */
static int list_count(const char *list) {
    int count = 0;
    while (*list >= '0' && *list <= '9') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        count += (int)(last - first + 1);
        list = end + (*end == ',');
    }
    return count;
}

static void cache_field(int i, const char *field, char *out, size_t size) {
    char path[128];
    snprintf(path, sizeof path, CACHE_FOLDER "/index%d/%s", i, field);
    hr_file_first(path, out, size);
}

/* The sizes that the kernel tells; a last-level cache counts once for each group of processors that shares
 * it. */
static void caches_find(hr_device_limits *limits) {
    char text[256];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < 8; i++) {
        cache_field(i, "level", text, sizeof text);
        int level = atoi(text);
        if (!level) break;
        cache_field(i, "type", text, sizeof text);
        if (*text == 'I') continue;
        cache_field(i, "size", text, sizeof text);
        int64_t size = size_parse(text);
        cache_field(i, "shared_cpu_list", text, sizeof text);
        int sharing = list_count(text);
        if (level == 1) limits->l1_bytes = size;
        if (level == 2) limits->l2_bytes = size;
        if (level == 3 && sharing > 0) limits->l3_bytes = size * ((online + sharing - 1) / sharing);
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (limits->l1_bytes <= 0) limits->l1_bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (limits->l2_bytes <= 0) limits->l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (limits->l3_bytes <= 0) limits->l3_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (limits->l1_bytes <= 0) limits->l1_bytes = 32 << 10;
    if (limits->l2_bytes <= 0) limits->l2_bytes = 512 << 10;
    if (limits->l3_bytes < 0) limits->l3_bytes = 0;
}

/* ---- threads and vectors ---- */

static int threads_find(void) {
    int threads = hr_team_processors();
    int quota = hr_load_quota_read(); /* more threads than that would wait for each other */
    if (quota && quota < threads) threads = quota;
    return threads > 0 ? threads : 1;
}

static void vectors_find(hr_device_limits *limits) {
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        limits->vector_bytes = 64;
        snprintf(limits->isa, sizeof limits->isa, "avx512");
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        limits->vector_bytes = 32;
        snprintf(limits->isa, sizeof limits->isa, "avx2");
    } else {
        limits->vector_bytes = 16;
        snprintf(limits->isa, sizeof limits->isa, "generic");
    }
#else
    limits->vector_bytes = 16;
#if defined(__aarch64__)
    snprintf(limits->isa, sizeof limits->isa, "neon");
#else
    snprintf(limits->isa, sizeof limits->isa, "generic");
#endif
#endif
}

/* Whether the processor has instructions: " avx512_vnni". */
static bool flag_find(const char *info, const char *of) {
    char flags[8192];
    return info_field(info, "flags", flags, sizeof flags) && strstr(flags, of);
}

/* Whether products of such numbers have a unit of their own: " amx_bf16", " amx_int8". The emitted code asks
 * the system for it as it runs. */
static bool matrix_find(const char *info, const char *of) {
    return flag_find(info, " amx_tile") && flag_find(info, of);
}

/* Whether vdpbf16ps multiplies more than f32 FMAs do: twice as much on AMD's cores. Intel's have it at half
 * of the rate of f32 beside a matrix unit, which a virtual machine may hide. */
static bool dots_find(const char *info) {
    char vendor[32];
    return flag_find(info, " avx512_bf16") && info_field(info, "vendor_id", vendor, sizeof vendor) &&
           strcmp(vendor, "AuthenticAMD") == 0;
}

/* ---- the core ---- */

unsigned hr_machine_core(const char *vendor, int family, int model) {
    static const struct {
        const char *vendor;
        int family, first, last;
        unsigned facts;
    } cores[] = {
#define CORE(name, vendor, family, first, last, facts) {vendor, family, first, last, facts},
#include "device/cores.def"
#undef CORE
    };
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (strcmp(cores[i].vendor, vendor) == 0 && cores[i].family == family && cores[i].first <= model &&
            model <= cores[i].last)
            return HR_CORE_KNOWN | cores[i].facts;
    return 0;
}

static unsigned core_find(const char *info) {
    char vendor[32], family[16], model[16];
    if (!info_field(info, "vendor_id", vendor, sizeof vendor) ||
        !info_field(info, "cpu family", family, sizeof family) ||
        !info_field(info, "model", model, sizeof model))
        return 0;
    return hr_machine_core(vendor, atoi(family), atoi(model));
}

void hr_machine_describe(char *name, size_t size, hr_device_limits *limits, char hash[33]) {
    char info[INFO_MAX];
    hr_file_first("/proc/cpuinfo", info, sizeof info);
    name_find(info, name, size);
    hash_find(info, hash);
    *limits = (hr_device_limits){.threads = threads_find(), .little_work = LITTLE_WORK};
    caches_find(limits);
    vectors_find(limits);
    limits->core = core_find(info);
    limits->matrix_bf16 = limits->vector_bytes == 64 && matrix_find(info, " amx_bf16");
    limits->matrix_bytes = limits->vector_bytes == 64 && matrix_find(info, " amx_int8");
    limits->dots_bf16 = limits->vector_bytes == 64 && !limits->matrix_bf16 && dots_find(info);
    limits->dots_bytes = limits->vector_bytes == 64 && flag_find(info, " avx512_vnni");
}

/* ---- memory ---- */

static int64_t number_read(const char *path) {
    char text[64], *end;
    if (!hr_file_first(path, text, sizeof text)) return -1;
    int64_t value = strtoll(text, &end, 10);
    return end == text ? -1 : value; /* "max" is no number */
}

int64_t hr_machine_memory(void) {
    char info[8192], text[64];
    int64_t available = INT64_MAX;
    hr_file_first("/proc/meminfo", info, sizeof info);
    char *line = strstr(info, "MemAvailable:");
    if (line && sscanf(line, "MemAvailable: %40s", text) == 1) available = atoll(text) * 1024;
    int64_t limit = number_read("/sys/fs/cgroup/memory.max");
    int64_t used = number_read("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && limit - used < available) available = limit > used ? limit - used : 0;
    return available;
}
