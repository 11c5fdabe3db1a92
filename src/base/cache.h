/* The cache folder and what is kept in it.
 *
 * $HEADROOM_CACHE, else $XDG_CACHE_HOME/headroom, else ~/.cache/headroom. It holds code that will be loaded:
 * it is made 0700, and a folder (or a parent without the sticky bit) that others can write to, or that
 * another user owns, is refused with a sentence. An entry is a file named by the hash of its key; it is
 * written to a temporary name in the folder, synced and renamed, so that a killed process or a full disk
 * leaves no half entry.
 */
#ifndef HR_BASE_CACHE_H
#define HR_BASE_CACHE_H

#include "base/status.h"

enum { HR_SCRATCH_PATH = 4096 - 64 }; /* leaves room in PATH_MAX for a name in the folder */

typedef struct hr_scratch {
    char path[HR_SCRATCH_PATH];
    int lock; /* a descriptor; -1 where the file system has no locks */
} hr_scratch;

/* Makes it where it is missing and checks it. `path` gets the folder's path, at most `size` bytes. */
hr_status hr_cache_folder(char *path, size_t size);
/* Opens a file of the cache: `flags` are open's, new files get mode 0600. What is a link, no regular file, or
 * another user's is refused; HR_IO. */
hr_status hr_cache_open(const char *path, int flags, int *file);
/* XXH3 128-bit of the key as 32 hex digits. */
void hr_cache_hash(const void *data, size_t length, char out[33]);
/* A fresh private folder under the cache folder for a build; removed with all it holds by
 * hr_cache_scratch_remove. A lock on a file in it says that its owner lives: who creates the next one removes
 * those that nobody holds. */
hr_status hr_cache_scratch_create(hr_scratch *out);
void hr_cache_scratch_remove(hr_scratch *scratch);
/* Renames `from` (same file system) to entry `name`; the mode becomes 0600. */
hr_status hr_cache_put(const char *from, const char *name);

#endif
