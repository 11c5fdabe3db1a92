/* Finds NVRTC, loads it when it is first needed, and runs it on one source.
 *
 * In: CUDA C and an architecture. Out: a cubin. Nothing is written to disk here, no process is started, and
 * the only options are ours.
 */
#define _GNU_SOURCE
#include "device/compiler_cuda.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_SHOWN 4000 /* bytes of the compiler's log in an error */

static const char *const names_newest_first[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
static const char *const names_of_12[] = {"libnvrtc.so.12", "libnvrtc.so.13"};
#define NAME_COUNT 2

void hr_cuda_arch_name(int compute, char *out, size_t size) {
    snprintf(out, size, "sm_%d%s", compute, compute >= 90 ? "a" : "");
}

int hr_cuda_cluster_most(int compute) {
    return compute >= 120 ? 8 : compute >= 90 ? 16 : 1;
}

/* ---- where ---- */

/* Patterns under the folders that a variable lists or that are known; '%s' is the library's name. */
typedef struct place {
    const char *variable; /* its value is a list of folders to put before `pattern`; NULL = none */
    const char *pattern;
} place;

static const place places[] = {
    {"LD_LIBRARY_PATH", "/%s"},
    {"CUDA_HOME", "/lib64/%s"},
    {"CUDA_PATH", "/lib64/%s"},
    {NULL, "/usr/local/cuda/lib64/%s"},
    {NULL, "/usr/local/cuda-[0-9]*/lib64/%s"},
    {NULL, "/usr/lib/x86_64-linux-gnu/%s"},
    {NULL, "/usr/lib/aarch64-linux-gnu/%s"},
    {NULL, "/usr/lib64/%s"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib/%s"},
    {"CONDA_PREFIX", "/lib/%s"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib/%s"},
    {"PATH", "/../lib/python3*/site-packages/nvidia/*/lib/%s"},
    {NULL, "/usr/local/lib/python3*/dist-packages/nvidia/*/lib/%s"},
};

static bool is_library(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The last match of folder + pattern: of several toolkits the one with the highest number. */
static bool pattern_search(const char *folder, size_t length, const char *pattern, const char *name,
                           char *out, size_t size) {
    char file[256], whole[PATH_MAX];
    glob_t found;
    snprintf(file, sizeof file, pattern, name);
    if (snprintf(whole, sizeof whole, "%.*s%s", (int)length, folder, file) >= (int)sizeof whole) return false;
    if (glob(whole, 0, NULL, &found) != 0) return false;
    bool good = false;
    for (size_t i = found.gl_pathc; i > 0 && !good; i--) {
        good = is_library(found.gl_pathv[i - 1]) && strlen(found.gl_pathv[i - 1]) < size;
        if (good) strcpy(out, found.gl_pathv[i - 1]);
    }
    globfree(&found);
    return good;
}

/* Relative folders of a list are skipped: they would load what lies in the current folder. */
static bool place_search(const place *place, const char *name, char *out, size_t size) {
    if (!place->variable) return pattern_search("", 0, place->pattern, name, out, size);
    const char *folders = getenv(place->variable);
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        if (*folders == '/' && pattern_search(folders, length, place->pattern, name, out, size)) return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

/* Where the loader finds it by its name alone, at the cost of loading it. */
static bool loader_search(const char *name, char *out, size_t size) {
    struct link_map *map = NULL;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    bool good = library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && strlen(map->l_name) < size;
    if (good) strcpy(out, map->l_name);
    if (library) dlclose(library);
    return good;
}

static bool locate(int driver_version, char *out, size_t size) {
    const char *const *names = driver_version / 1000 == 12 ? names_of_12 : names_newest_first;
    for (int n = 0; n < NAME_COUNT; n++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            if (place_search(&places[p], names[n], out, size)) return true;
    for (int n = 0; n < NAME_COUNT; n++)
        if (loader_search(names[n], out, size)) return true;
    return false;
}

static hr_status find(hr_cuda_compiler *compiler, int driver_version) {
    const char *given = getenv("HEADROOM_NVRTC");
    char path[PATH_MAX];
    struct stat info;
    if (*compiler->path) return HR_OK;
    if (given && *given) {
        if (!is_library(given) || strlen(given) >= sizeof path)
            return hr_fail(HR_NOT_AVAILABLE, "HEADROOM_NVRTC=%.300s is no file: let it name libnvrtc.so.13",
                           given);
        strcpy(path, given);
    } else if (!locate(driver_version, path, sizeof path))
        return hr_fail(
            HR_NOT_AVAILABLE,
            "NVRTC, CUDA's run-time compiler, is not here: libnvrtc.so.13 and .12 were looked for in "
            "LD_LIBRARY_PATH, $CUDA_HOME/lib64, $CUDA_PATH/lib64, /usr/local/cuda*/lib64, the "
            "system's folders, and the wheels of Python ($VIRTUAL_ENV, $CONDA_PREFIX, ~/.local, "
            "beside PATH). pip install nvidia-cuda-nvrtc brings it, or let HEADROOM_NVRTC name it");
    if (stat(path, &info)) return hr_fail(HR_NOT_AVAILABLE, "cannot look at %s", path);
    char *real = realpath(path, NULL);
    snprintf(compiler->identity, sizeof compiler->identity, "%s %lld %lld.%09ld", real ? real : path,
             (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    free(real);
    strcpy(compiler->path, path);
    return HR_OK;
}

hr_status hr_cuda_compiler_find(hr_cuda_compiler *compiler, int driver_version) {
    pthread_mutex_lock(&compiler->lock);
    hr_status status = find(compiler, driver_version);
    pthread_mutex_unlock(&compiler->lock);
    return status;
}

/* ---- loading ---- */

typedef struct entry {
    const char *symbol;
    size_t offset;
} entry;

#define HR_NVRTC_ENTRY(member, symbol, parameters) {symbol, offsetof(hr_cuda_compiler, member)},
static const entry entries[] = {HR_NVRTC_FUNCTIONS(HR_NVRTC_ENTRY)};
#undef HR_NVRTC_ENTRY

static hr_status load(hr_cuda_compiler *compiler) {
    if (compiler->library) return HR_OK;
    void *library = dlopen(compiler->path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return hr_fail(HR_NOT_AVAILABLE, "NVRTC cannot be loaded from %s: %s", compiler->path, dlerror());
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *symbol = dlsym(library, entries[i].symbol);
        if (!symbol) {
            dlclose(library);
            return hr_fail(HR_NOT_AVAILABLE,
                           "%s has no %s: version 12 or newer is needed; let HEADROOM_NVRTC name it",
                           compiler->path, entries[i].symbol);
        }
        memcpy((char *)compiler + entries[i].offset, &symbol, sizeof symbol);
    }
    compiler->library = library;
    return HR_OK;
}

void hr_cuda_compiler_create(hr_cuda_compiler *compiler) {
    *compiler = (hr_cuda_compiler){0};
    pthread_mutex_init(&compiler->lock, NULL);
}

void hr_cuda_compiler_destroy(hr_cuda_compiler *compiler) {
    pthread_mutex_destroy(&compiler->lock);
}

/* ---- compiling ---- */

static void log_take(const hr_cuda_compiler *compiler, hr_nvrtc_program program, hr_text *log) {
    size_t size = 0;
    if (compiler->log_size(program, &size) || size <= 1) return;
    char *text = malloc(size);
    if (text && compiler->log(program, text) == 0) hr_text_append(log, text, size - 1);
    free(text);
}

static hr_status cubin_take(const hr_cuda_compiler *compiler, hr_nvrtc_program program, void **out,
                            size_t *size) {
    if (compiler->cubin_size(program, size) || *size == 0)
        return hr_fail(HR_INTERNAL, "NVRTC (%s) compiled a kernel and gave no code", compiler->path);
    *out = malloc(*size);
    if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a compiled kernel");
    if (compiler->cubin(program, *out) == 0) return HR_OK;
    free(*out);
    return hr_fail(HR_INTERNAL, "NVRTC (%s) did not give the code of a kernel", compiler->path);
}

/* From 12.9 on it keeps code in a cache of its own, and says nothing of what comes from there: not that it
 * spills, either. Ours keeps only what has been judged. */
static bool has_cache(const hr_cuda_compiler *compiler) {
    int major = 0, minor = 0;
    return compiler->version(&major, &minor) == 0 && (major > 12 || (major == 12 && minor >= 9));
}

static hr_status compile(const hr_cuda_compiler *compiler, hr_nvrtc_program program, const char *arch,
                         void **cubin, size_t *size, hr_text *log) {
    char target[64];
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    const char *options[] = {target, "--std=c++17", "--device-int128", "--ptxas-options=-v", "--no-cache"};
    const int count = (int)(sizeof options / sizeof *options) - (has_cache(compiler) ? 0 : 1);
    int result = compiler->compile(program, count, options);
    log_take(compiler, program, log);
    if (result)
        return hr_fail(HR_INTERNAL, "NVRTC (%s) refuses a kernel of ours for %s:\n%.*s", compiler->path, arch,
                       LOG_SHOWN, hr_text_data(log));
    return cubin_take(compiler, program, cubin, size);
}

hr_status hr_cuda_compiler_run(hr_cuda_compiler *compiler, const char *arch, const char *source, void **cubin,
                               size_t *size, hr_text *log) {
    hr_nvrtc_program program = NULL;
    pthread_mutex_lock(&compiler->lock);
    hr_status status = find(compiler, 0);
    if (status == HR_OK) status = load(compiler);
    pthread_mutex_unlock(&compiler->lock);
    HR_TRY(status);
    if (compiler->create(&program, source, "kernel.cu", 0, NULL, NULL))
        return hr_fail(HR_OUT_OF_MEMORY, "NVRTC (%s) does not take a kernel's source", compiler->path);
    status = compile(compiler, program, arch, cubin, size, log);
    compiler->destroy(&program);
    return status;
}

/* ---- the assembler's words ---- */

/* The number before `words`, or after them. */
static int number_before(const char *line, const char *at) {
    while (at > line && at[-1] == ' ')
        at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return atoi(at);
}

hr_cuda_usage hr_cuda_usage_read(const char *log) {
    hr_cuda_usage usage = {0};
    const char *at;
    for (at = log; (at = strstr(at, " bytes stack frame")); at++)
        usage.stack += number_before(log, at);
    for (at = log; (at = strstr(at, " bytes spill stores")); at++)
        usage.stores += number_before(log, at);
    for (at = log; (at = strstr(at, " bytes spill loads")); at++)
        usage.loads += number_before(log, at);
    for (at = log; (at = strstr(at, " registers")); at++) {
        int registers = number_before(log, at);
        if (registers > usage.registers) usage.registers = registers;
    }
    for (at = log; !usage.remark && (at = strstr(at, "(C75")); at++) {
        const int remark = atoi(at + 2);
        if (remark >= 7508 && remark <= 7516) usage.remark = remark;
    }
    return usage;
}
