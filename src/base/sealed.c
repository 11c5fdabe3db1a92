/* Payload, key, trailer: written in this order, compared as a whole.
 *
 * In: a payload and a key. Out: a file, or what it holds if that is exactly what the key asks for.
 */
#include "base/sealed.h"
#include "base/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_DIGITS 32
#define MARK        "headroom module 1"
#define ENTRY_MAX   (256l << 20)

/* The end of an entry: the key stands before it, the payload before the key. */
typedef struct trailer {
    char mark[24];
    uint64_t key_length;
    char hash[HASH_DIGITS + 8]; /* of all bytes before the trailer, terminated */
} trailer;

/* ---- reading ---- */

static bool entry_matches(const char *data, size_t size, const hr_text *key) {
    trailer end;
    char hash[HASH_DIGITS + 1];
    if (size < sizeof end + key->length) return false;
    size_t body = size - sizeof end;
    memcpy(&end, data + body, sizeof end);
    if (memcmp(end.mark, MARK, sizeof MARK) != 0 || end.key_length != key->length) return false;
    if (memcmp(data + body - key->length, key->data, key->length) != 0) return false;
    hr_cache_hash(data, body, hash);
    return memcmp(hash, end.hash, sizeof hash) == 0;
}

bool hr_sealed_read(const char *path, const hr_text *key, void **out, size_t *payload) {
    bool good = false;
    struct stat info;
    int file;
    if (hr_cache_open(path, O_RDONLY, &file) != HR_OK) return false;
    if (fstat(file, &info) == 0 && info.st_size > 0 && info.st_size < ENTRY_MAX) {
        size_t size = (size_t)info.st_size;
        char *data = malloc(size);
        size_t done = 0;
        while (data && done < size) {
            ssize_t count = read(file, data + done, size - done);
            if (count <= 0) break;
            done += (size_t)count;
        }
        good = data && done == size && entry_matches(data, size, key);
        if (good) {
            *out = data;
            *payload = size - sizeof(trailer) - key->length;
        } else
            free(data);
    }
    close(file);
    return good;
}

bool hr_sealed_matches(const char *path, const hr_text *key) {
    void *data;
    size_t size;
    if (!hr_sealed_read(path, key, &data, &size)) return false;
    free(data);
    return true;
}

/* ---- writing ---- */

static bool file_append(int file, const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t count = write(file, at, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        size -= (size_t)count;
    }
    return true;
}

hr_status hr_sealed_payload(const char *path, const void *data, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = file >= 0 && file_append(file, data, size);
    int error = errno;
    if (file >= 0 && close(file) != 0 && written) {
        error = errno;
        written = false;
    }
    if (written) return HR_OK;
    return hr_fail(HR_IO,
                   "cannot write %s of the cache: %s; make room, or set HEADROOM_CACHE to another folder",
                   path, strerror(error));
}

hr_status hr_sealed_close(const char *path, const hr_text *key) {
    hr_status status = HR_OK;
    struct stat info;
    trailer end = {.mark = MARK, .key_length = key->length};
    int file;
    HR_TRY(hr_cache_open(path, O_RDWR | O_APPEND, &file));
    if (fstat(file, &info) || !file_append(file, key->data, key->length))
        status = hr_fail(HR_IO, "cannot write %s of the cache: %s", path, strerror(errno));
    if (status == HR_OK) {
        size_t body = (size_t)info.st_size + key->length;
        void *data = mmap(NULL, body, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED)
            status = hr_fail(HR_OUT_OF_MEMORY, "cannot map %s of the cache: %s", path, strerror(errno));
        else {
            hr_cache_hash(data, body, end.hash);
            munmap(data, body);
            if (!file_append(file, &end, sizeof end))
                status = hr_fail(HR_IO, "cannot write %s of the cache: %s", path, strerror(errno));
        }
    }
    close(file);
    return status;
}
