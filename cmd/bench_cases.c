/* Reads the table of what is benched. In: a folder. Out: cases, or a sentence with the table's line. */
#include "bench_cases.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bench_case *case_add(bench_cases *cases, const char *path, const char *kernel, size_t kernel_length) {
    if (cases->count == cases->capacity) {
        int capacity = cases->capacity ? 2 * cases->capacity : 64;
        bench_case *list = realloc(cases->list, (size_t)capacity * sizeof *list);
        if (!list) return NULL;
        cases->list = list;
        cases->capacity = capacity;
    }
    bench_case *added = &cases->list[cases->count];
    *added = (bench_case){.path = strdup(path), .kernel = strndup(kernel, kernel_length)};
    cases->count++;
    return added->path && added->kernel ? added : NULL;
}

void bench_cases_free(bench_cases *cases) {
    for (int i = 0; i < cases->count; i++) {
        free(cases->list[i].path);
        free(cases->list[i].kernel);
        for (int e = 0; e < cases->list[i].extent_count; e++)
            free(cases->list[i].extent_names[e]);
        for (int t = 0; t < cases->list[i].dtype_count; t++)
            free(cases->list[i].dtype_names[t]);
    }
    free(cases->list);
}

static FILE *table_open(const char *folder, char path[PATH_MAX]) {
    static const char *const places[] = {"cases.txt", "../bench/cases.txt"};
    for (int i = 0; i < 2; i++) {
        if (snprintf(path, PATH_MAX, "%s/%s", folder, places[i]) >= PATH_MAX) return NULL;
        FILE *file = fopen(path, "r");
        if (file) return file;
    }
    return NULL;
}

/* ---- with a table ---- */

/* T=DTYPE or EXTENT=N */
static int parse_name(const arguments *arguments, bench_case *to, const char *word, const char *where) {
    const char *equals = strchr(word, '=');
    hr_dtype dtype = equals ? dtype_named(equals + 1) : HR_DTYPE_COUNT;
    bool is_dtype = dtype != HR_DTYPE_COUNT;
    if (!equals || !isupper((unsigned char)word[0]) ||
        (is_dtype ? to->dtype_count : to->extent_count) == CASE_EXTENTS_MAX ||
        (!is_dtype && !parse_whole(equals + 1, &to->extents[to->extent_count])))
        return complain(arguments, "%s: \"%s\" is no EXTENT=N or T=DTYPE", where, word);
    char *name = strndup(word, (size_t)(equals - word));
    if (!name) return complain_memory(arguments);
    if (!is_dtype) {
        to->extent_names[to->extent_count++] = name;
        return 0;
    }
    to->dtypes[to->dtype_count] = dtype;
    to->dtype_names[to->dtype_count++] = name;
    return 0;
}

static int parse_line(const arguments *arguments, bench_cases *cases, const char *folder, char *line,
                      const char *where) {
    char path[PATH_MAX], *rest;
    line[strcspn(line, "#\n")] = 0;
    char *word = strtok_r(line, " \t\r", &rest);
    if (!word) return 0;
    char *kernel = strchr(word, ':');
    if (!kernel || !kernel[1]) return complain(arguments, "%s: \"%s\" is no FILE.hr:KERNEL", where, word);
    *kernel++ = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, word) >= (int)sizeof path)
        return complain(arguments, "%s: a path of more than %d bytes", where, PATH_MAX);
    bench_case *added = case_add(cases, path, kernel, strlen(kernel));
    if (!added) return complain_memory(arguments);
    for (word = strtok_r(NULL, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        int code = parse_name(arguments, added, word, where);
        if (code) return code;
    }
    return 0;
}

static int read_table(const arguments *arguments, const char *folder, FILE *file, const char *path,
                      bench_cases *out) {
    char line[1024], where[PATH_MAX + 32];
    int code = 0;
    for (int number = 1; code == 0 && fgets(line, sizeof line, file); number++) {
        snprintf(where, sizeof where, "%s:%d", path, number);
        code = parse_line(arguments, out, folder, line, where);
    }
    return code;
}

/* ---- without one ---- */

/* Every line that begins with `kernel NAME(`. */
static int read_kernels(const arguments *arguments, const char *path, bench_cases *out) {
    char line[1024];
    FILE *file = fopen(path, "r");
    if (!file) return complain(arguments, "%s: cannot read it: %s", path, strerror(errno));
    int code = 0;
    while (code == 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, "kernel ", 7) != 0) continue;
        const char *name = line + 7 + strspn(line + 7, " ");
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (length && !case_add(out, path, name, length)) code = complain_memory(arguments);
    }
    fclose(file);
    return code;
}

static int read_folder(const arguments *arguments, const char *folder, bench_cases *out) {
    char pattern[PATH_MAX];
    glob_t found;
    if (snprintf(pattern, sizeof pattern, "%s/*.hr", folder) >= (int)sizeof pattern ||
        glob(pattern, 0, NULL, &found) != 0)
        return complain(arguments, "%s: holds no kernels (*.hr)", folder);
    int code = 0;
    for (size_t i = 0; i < found.gl_pathc && code == 0; i++)
        code = read_kernels(arguments, found.gl_pathv[i], out);
    globfree(&found);
    return code;
}

int bench_cases_read(const arguments *arguments, const char *folder, bench_cases *out) {
    char own[PATH_MAX], path[PATH_MAX];
    *out = (bench_cases){0};
    if (!folder) {
        if (hr_library_folder(own, sizeof own) != HR_OK)
            return complain(arguments,
                            "the library's kernels are not beside this program; name their folder");
        folder = own;
    }
    FILE *table = table_open(folder, path);
    if (!table) return read_folder(arguments, folder, out);
    int code = read_table(arguments, folder, table, path, out);
    fclose(table);
    return code;
}
