/* Where the library's kernels lie, and which file holds the one of a name. In: "softmax". Out: the path of
 * softmax.hr in the installation or in the source tree, or the library's nearest name. */
#include "bench_cases.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Whether `path` is FOLDER/NAME.hr. */
static bool is_file_of(const char *path, const char *name) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t length = strlen(name);
    return strncmp(file, name, length) == 0 && strcmp(file + length, ".hr") == 0;
}

static int library_unknown(const arguments *arguments, const char *name, const bench_cases *cases) {
    const char **names = calloc((size_t)cases->count + 1, sizeof *names);
    if (!names) return complain_memory(arguments);
    for (int i = 0; i < cases->count; i++)
        names[i] = cases->list[i].kernel;
    const char *closest = closest_name(name, names, cases->count);
    complain_begin(arguments, "there is neither a file %s nor a kernel of the library of that name", name);
    complain_closest("", closest);
    fprintf(stderr, "%s\n", closest ? "" : " A file is named with its ending: FILE.hr.");
    free(names);
    return EXIT_USAGE;
}

int library_find(const arguments *arguments, const char *name, char **path, const char **kernel) {
    char folder[PATH_MAX];
    bench_cases cases;
    const bench_case *found = NULL;
    *path = NULL;
    if (hr_library_folder(folder, sizeof folder) != HR_OK)
        return complain(arguments,
                        "there is no file %s, and the library's kernels are not beside this program", name);
    int code = bench_cases_read(arguments, folder, &cases);
    for (int i = 0; i < cases.count && !found && code == 0; i++)
        if (is_file_of(cases.list[i].path, name)) found = &cases.list[i];
    for (int i = 0; i < cases.count && !found && code == 0; i++)
        if (!*kernel && strcmp(cases.list[i].kernel, name) == 0) {
            found = &cases.list[i];
            *kernel = name;
        }
    if (code == 0 && !found) code = library_unknown(arguments, name, &cases);
    if (code == 0 && !(*path = strdup(found->path))) code = complain_memory(arguments);
    bench_cases_free(&cases);
    return code;
}
