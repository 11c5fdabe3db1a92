/* Where the library's kernels lie. Out: the folder of the installation or of the source tree. */
#include "base/status.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PREFIX/bin/headroom has PREFIX/share/headroom; build/headroom and build/test/headroom have the source tree.
 */
static bool find_beside_program(char *out, size_t size) {
    static const char *const places[] = {"share/headroom/kernels", "kernels"};
    char base[PATH_MAX - 64], known[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", base, sizeof base - 1);
    if (length <= 0) return false;
    base[length] = 0;
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(base, '/');
        if (!slash) return false;
        *slash = 0;
        for (int i = 0; i < 2; i++) {
            snprintf(known, sizeof known, "%s/%s/layernorm.hr", base, places[i]);
            const int written = snprintf(out, size, "%s/%s", base, places[i]);
            if (written > 0 && (size_t)written < size && access(known, R_OK) == 0) return true;
        }
    }
    return false;
}

hr_status hr_library_folder(char *out, size_t size) {
    const char *given = getenv("HEADROOM_KERNELS");
    if (!out || !size) return hr_fail(HR_BAD_INPUT, "hr_library_folder got no place for the path");
    *out = 0;
    if (given && *given && snprintf(out, size, "%s", given) < (int)size) return HR_OK;
    if (find_beside_program(out, size)) return HR_OK;
    *out = 0;
    return hr_fail(
        HR_NOT_AVAILABLE,
        "the library's kernels are not beside this program; say where they are with HEADROOM_KERNELS");
}
