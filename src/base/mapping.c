/* Files mapped by mmap. In: a path. Out: their bytes. See mapping.h. */
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static hr_status descriptor_map(const char *path, int descriptor, hr_mapping *out) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return hr_fail(HR_IO, "%s: cannot read it: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return hr_fail(HR_IO, "%s: is no ordinary file, and only those can be mapped", path);
    if (info.st_size == 0) return hr_fail(HR_BAD_INPUT, "%s: is empty", path);
    size_t length = (size_t)info.st_size;
    /* Not reserved: a file may be larger than memory, and hardly any of it is written to. */
    void *data = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    if (data == MAP_FAILED)
        return hr_fail(HR_IO, "%s: cannot map its %zu bytes: %s", path, length, strerror(errno));
    *out = (hr_mapping){data, length};
    return HR_OK;
}

hr_status hr_mapping_open(const char *path, hr_mapping *out) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return hr_fail(HR_IO, "%s: cannot open it: %s", path, strerror(errno));
    hr_status status = descriptor_map(path, descriptor, out);
    close(descriptor);
    return status;
}

void hr_mapping_close(hr_mapping *mapping) {
    if (mapping->data) munmap(mapping->data, mapping->length);
    *mapping = (hr_mapping){0};
}
