/* Finds libcupti: the one that the program has loaded already, else the nearest. In: the program's loaded
 * libraries and the usual places. Out: its functions, or a sentence that lists what was tried. */
#define _GNU_SOURCE /* dlinfo, dl_iterate_phdr */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    cupti_library *library;
    bool found;
    char *tried; /* the sentence */
    size_t size, length;
} search;

static void tell(search *search, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(search *search, const char *format, ...) {
    va_list values;
    va_start(values, format);
    size_t room = search->size - search->length;
    int length = vsnprintf(search->tried + search->length, room, format, values);
    va_end(values);
    if (length > 0) search->length += (size_t)length < room ? (size_t)length : room - 1;
}

void *library_open(const char *path, int flags) {
    errno = 0;
    void *handle = dlopen(path, flags);
    if (!handle && errno == ENOMEM) record_lacks_memory();
    return handle;
}

/* Whether the opened library has all functions and a version that is known here. */
static bool take_functions(search *search, const char *path) {
    cupti_library *library = search->library;
    const char *missing = NULL;
#define CUPTI_TAKE(member, symbol, needed, parameters)                                                       \
    *(void **)&library->member = dlsym(library->handle, #symbol);                                            \
    if (needed && !library->member && !missing) missing = #symbol;
    CUPTI_FUNCTIONS(CUPTI_TAKE)
#undef CUPTI_TAKE
    if (missing) {
        tell(search, " %s (has no %s)", path, missing);
        return false;
    }
    if (library->version(&library->api) != CUPTI_OK || library->api < CUPTI_VERSION_LEAST) {
        tell(search, " %s (older than CUDA 12)", path);
        return false;
    }
    return true;
}

static bool try_path(search *search, const char *path, int more_flags) {
    void *handle = library_open(path, RTLD_NOW | RTLD_LOCAL | more_flags);
    if (!handle) {
        if (!more_flags && strchr(path, '/')) tell(search, " %s (%s)", path, dlerror());
        return false;
    }
    search->library->handle = handle;
    if (!take_functions(search, path)) {
        dlclose(handle);
        return false;
    }
    struct link_map *map = NULL;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    snprintf(search->library->path, sizeof search->library->path, "%s", map ? map->l_name : path);
    return search->found = true;
}

static bool try_pattern(search *search, const char *pattern) {
    glob_t places;
    int code = glob(pattern, 0, NULL, &places);
    if (code == GLOB_NOSPACE) record_lacks_memory();
    if (code != 0) return false;
    for (size_t i = places.gl_pathc; i-- > 0 && !search->found;) /* later versions sort last */
        try_path(search, places.gl_pathv[i], 0);
    globfree(&places);
    return search->found;
}

/* Beside a loaded library of CUDA: wheels and toolkits keep CUPTI in one of these folders. */
static int try_beside(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    search *search = context;
    static const char *const neighbours[] = {".", "../cuda_cupti/lib", "../../cuda_cupti/lib",
                                             "../extras/CUPTI/lib64", "../../../extras/CUPTI/lib64"};
    const char *slash = strrchr(info->dlpi_name, '/');
    if (!slash || !strstr(slash, "cuda") || strstr(slash, "libcuda.so")) return 0;
    for (size_t i = 0; i < sizeof neighbours / sizeof *neighbours && !search->found; i++) {
        char pattern[1024];
        snprintf(pattern, sizeof pattern, "%.*s/%s/libcupti.so.1[23]", (int)(slash - info->dlpi_name),
                 info->dlpi_name, neighbours[i]);
        try_pattern(search, pattern);
    }
    return search->found;
}

static bool try_usual_places(search *search) {
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    static const char *const places[] = {"%s/extras/CUPTI/lib64/libcupti.so.1[23]",
                                         "%s/lib64/libcupti.so.1[23]"};
    static const char *const roots[] = {"/usr/local/cuda", "/usr/local/cuda-1[23]*", "/opt/cuda"};
    char pattern[1024];
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < 2; i++) {
            const char *root = getenv(variables[i]);
            snprintf(pattern, sizeof pattern, places[p], root ? root : "");
            if (root && try_pattern(search, pattern)) return true;
        }
        for (int i = 0; i < 3; i++) {
            snprintf(pattern, sizeof pattern, places[p], roots[i]);
            if (try_pattern(search, pattern)) return true;
        }
    }
    return false;
}

bool cupti_open(cupti_library *out, char *sentence, size_t size) {
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12"};
    *out = (cupti_library){0};
    search search = {.library = out, .tried = sentence, .size = size};
    tell(&search, "CUPTI, which records CUDA's activity, was not found; tried");
    const char *wanted = getenv(RECORD_VARIABLE_CUPTI);
    if (wanted && *wanted) {
        if (!try_path(&search, wanted, 0)) tell(&search, ", as %s says", RECORD_VARIABLE_CUPTI);
        return search.found;
    }
    for (int i = 0; i < 2 && !search.found; i++) /* two copies in one process do not get on */
        try_path(&search, names[i], RTLD_NOLOAD);
    if (!search.found) dl_iterate_phdr(try_beside, &search);
    for (int i = 0; i < 2 && !search.found; i++)
        if (!try_path(&search, names[i], 0)) tell(&search, " %s", names[i]);
    if (!search.found) try_usual_places(&search);
    if (!search.found)
        tell(&search, ". Install it (pip install nvidia-cuda-cupti, or the CUDA toolkit) or name it in %s",
             RECORD_VARIABLE_CUPTI);
    return search.found;
}
