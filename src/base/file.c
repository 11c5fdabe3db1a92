/* A whole file or none of it: write aside, sync, rename. In: a path and bytes. Out: a file or a sentence. */
#include "base/file.h"
#include "base/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hr_status file_failure(const char *path, const char *doing) {
    int error = errno;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return hr_fail(HR_IO, "%s: no room is left to write it (%s); free some or choose another place", path,
                       strerror(error));
    return hr_fail(HR_IO, "%s: cannot %s: %s", path, doing, strerror(error));
}

/* The folder of the target as a path that can be opened. */
static void file_folder(const char *path, char folder[PATH_MAX]) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(folder, PATH_MAX, "%s", dirname(copy));
}

/* A name beside the target that no other process takes: the process id, then a counter until one is free. */
static void file_temporary_name(hr_file *file, int attempt) {
    snprintf(file->temporary, sizeof file->temporary, "%s.%ld.%d.part", file->path, (long)getpid(), attempt);
}

static hr_status file_open_named(hr_file *file) {
    for (int attempt = 0; attempt < 100; attempt++) {
        file_temporary_name(file, attempt);
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->descriptor >= 0) return HR_OK;
        if (errno != EEXIST) break;
    }
    return file_failure(file->path, "create a file in its folder");
}

hr_status hr_file_begin(const char *path, hr_file *out) {
    hr_file file = {.path = path, .descriptor = -1};
    struct stat info;
    if (strlen(path) + 64 > sizeof file.temporary)
        return hr_fail(HR_BAD_INPUT,
                       "the path of a file to write is %zu bytes long; at most %zu are possible",
                       strlen(path), sizeof file.temporary - 64);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return hr_fail(HR_IO, "%s: is a folder; give the name of a file", path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        file.direct = true;
        file.descriptor = open(path, O_WRONLY | O_CLOEXEC);
        if (file.descriptor < 0) return file_failure(path, "open it");
        *out = file;
        return HR_OK;
    }
    char folder[PATH_MAX];
    file_folder(path, folder);
#ifdef O_TMPFILE
    file.descriptor = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    file.unnamed = file.descriptor >= 0;
#endif
    if (!file.unnamed) HR_TRY(file_open_named(&file));
    *out = file;
    return HR_OK;
}

hr_status hr_file_append(hr_file *file, const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t wrote = write(file->descriptor, at, length < (64u << 20) ? length : 64u << 20);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return file_failure(file->path, "write it");
        at += wrote;
        length -= (size_t)wrote;
    }
    return HR_OK;
}

/* Gives the nameless file a temporary name, so that it can replace a target that exists. */
static hr_status file_give_name(hr_file *file) {
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", file->descriptor);
    for (int attempt = 0; attempt < 100; attempt++) {
        file_temporary_name(file, attempt);
        if (linkat(AT_FDCWD, source, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
            file->unnamed = false;
            return HR_OK;
        }
        if (errno != EEXIST) break;
    }
    return file_failure(file->path, "name it");
}

hr_status hr_file_commit(hr_file *file) {
    hr_status status = HR_OK;
    if (!file->direct && fsync(file->descriptor) != 0) status = file_failure(file->path, "write it");
    if (status == HR_OK && file->unnamed) status = file_give_name(file);
    if (status != HR_OK) {
        hr_file_abandon(file);
        return status;
    }
    int closed = close(file->descriptor);
    file->descriptor = -1;
    if (closed != 0) status = file_failure(file->path, "write it");
    if (status == HR_OK && !file->direct && rename(file->temporary, file->path) != 0)
        status = file_failure(file->path, "rename it into place");
    if (status != HR_OK && !file->direct) unlink(file->temporary);
    return status;
}

void hr_file_abandon(hr_file *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
    if (!file->direct && !file->unnamed) unlink(file->temporary);
}

hr_status hr_file_save(const char *path, const void *data, size_t length) {
    HR_TRY(hr_pointer_check(path, "path", __func__));
    if (length) HR_TRY(hr_pointer_check(data, "data", __func__));
    hr_file file;
    HR_TRY(hr_file_begin(path, &file));
    hr_status status = hr_file_append(&file, data, length);
    if (status == HR_OK) return hr_file_commit(&file);
    hr_file_abandon(&file);
    return status;
}

size_t hr_file_first(const char *path, char *out, size_t size) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t count = 0;
    while (file >= 0 && length + 1 < size && (count = read(file, out + length, size - 1 - length)) != 0) {
        if (count > 0)
            length += (size_t)count;
        else if (errno != EINTR)
            break;
    }
    if (file >= 0) close(file);
    out[length] = 0;
    return length;
}
