/* Where the library's kernels lie. Out: the folder of the installation or of the source tree. */
#define _GNU_SOURCE /* dladdr */
#include "base/status.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PREFIX/bin/headroom and PREFIX/lib/libheadroom.so have PREFIX/share/headroom; build/ and build/test/ have
 * the source tree. `file` is written over. */
static bool find_beside(char *file, char *out, size_t size) {
    static const char *const places[] = {"share/headroom/kernels", "kernels"};
    char known[PATH_MAX];
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(file, '/');
        if (!slash) return false;
        *slash = 0;
        for (int i = 0; i < 2; i++) {
            snprintf(known, sizeof known, "%.3900s/%s/layernorm.hr", file, places[i]);
            const int written = snprintf(out, size, "%s/%s", file, places[i]);
            if (written > 0 && (size_t)written < size && access(known, R_OK) == 0) return true;
        }
    }
    return false;
}

static bool find_beside_program(char *out, size_t size) {
    char file[PATH_MAX - 64];
    const ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    if (length <= 0) return false;
    file[length] = 0;
    return find_beside(file, out, size);
}

/* For a program of somebody else's that has loaded the library: Python, an engine. */
static bool find_beside_library(char *out, size_t size) {
    static const char anchor = 0;
    char file[PATH_MAX];
    Dl_info here;
    return dladdr(&anchor, &here) && here.dli_fname && realpath(here.dli_fname, file) &&
           find_beside(file, out, size);
}

hr_status hr_library_folder(char *out, size_t size) {
    const char *given = getenv("HEADROOM_KERNELS");
    if (!out || !size) return hr_fail(HR_BAD_INPUT, "hr_library_folder got no place for the path");
    *out = 0;
    if (given && *given && snprintf(out, size, "%s", given) < (int)size) return HR_OK;
    if (find_beside_program(out, size) || find_beside_library(out, size)) return HR_OK;
    *out = 0;
    return hr_fail(HR_NOT_AVAILABLE, "the library's kernels are beside neither this program nor the library; "
                                     "say where they are with HEADROOM_KERNELS");
}
