/* The table of what is benched: kernels of a folder with their extents.
 *
 * In: a folder of .hr files and the table cases.txt beside or above it, a case a line:
 *     FILE.hr:KERNEL T=DTYPE EXTENT=N ...      # comment
 * Out: the cases in the table's order. A folder without a table gives each of its kernels, with default
 * extents.
 */
#ifndef HEADROOM_BENCH_CASES_H
#define HEADROOM_BENCH_CASES_H

#include "command.h"

#define CASE_EXTENTS_MAX 12

typedef struct bench_case {
    char *path, *kernel;
    int dtype_count;
    char *dtype_names[CASE_EXTENTS_MAX];
    hr_dtype dtypes[CASE_EXTENTS_MAX];
    int extent_count;
    char *extent_names[CASE_EXTENTS_MAX];
    int64_t extents[CASE_EXTENTS_MAX];
} bench_case;

typedef struct bench_cases {
    int count, capacity;
    bench_case *list;
} bench_cases;

/* `folder` NULL: the library's own kernels, of the installation or of the source tree. */
int bench_cases_read(const arguments *arguments, const char *folder, bench_cases *out);
void bench_cases_free(bench_cases *cases);

#endif
