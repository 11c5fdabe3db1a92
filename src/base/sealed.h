/* A file that says what it was made from, and shows that it is whole: the entries of the cache that are code.
 *
 * In: a payload and the key it was made from (source, flags, compiler, machine, version). Out: a file of
 * payload, key and a trailer with the hash of both. What does not match its key, byte for byte, is built
 * again.
 */
#ifndef HR_BASE_SEALED_H
#define HR_BASE_SEALED_H

#include "base/text.h"

/* Writes a fresh file; HR_IO where it exists or there is no room. */
hr_status hr_sealed_payload(const char *path, const void *data, size_t size);
/* Appends key and trailer to the payload at `path`. */
hr_status hr_sealed_close(const char *path, const hr_text *key);
/* Whether the file at `path` belongs to this user, is whole, and was made from this key. */
bool hr_sealed_matches(const char *path, const hr_text *key);
/* The same; the payload's bytes for free(). False leaves `data` and `size` alone. */
bool hr_sealed_read(const char *path, const hr_text *key, void **data, size_t *size);

#endif
