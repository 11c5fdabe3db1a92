/* A whole file or none of it.
 *
 * In: a path and what is to stand there. Out: the file, complete, or a sentence and whatever stood there
 * before. The bytes go to a file without a name (or a temporary name beside the target where the file system
 * has none), which takes the target's name when it is complete and synced.
 */
#ifndef HR_BASE_FILE_H
#define HR_BASE_FILE_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_file {
    const char *path; /* of the target; not owned */
    char temporary[4096];
    int descriptor;
    bool unnamed; /* the bytes stand in a file without a name */
    bool direct;  /* the target is no regular file (/dev/stdout): written in place */
} hr_file;

hr_status hr_file_begin(const char *path, hr_file *out);
hr_status hr_file_append(hr_file *file, const void *data, size_t length);
/* Gives the target's name to what was appended. The file is closed in any case. */
hr_status hr_file_commit(hr_file *file);
/* Closes and leaves nothing behind. */
void hr_file_abandon(hr_file *file);

/* Of a file that the system keeps (/proc, /sys) or that is small: its first bytes, at most size - 1,
 * terminated. How many; 0 where it cannot be read. Takes no memory. */
size_t hr_file_first(const char *path, char *out, size_t size);

#endif
