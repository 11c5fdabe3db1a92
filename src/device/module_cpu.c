/* Source -> loaded code, through the cache folder.
 *
 * An entry is the compiled shared object followed by a trailer: the full key (source, flags, compiler,
 * machine, version), its length, and a hash of all of it. It is read and compared before the loader sees it,
 * because a truncated object kills the process that loads it. What does not match is built again.
 *
 * In: source text. Out: a module with its entry function.
 */
#include "base/cache.h"
#include "device/device_cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_DIGITS 32
#define MARK        "headroom module 1"
#define ENTRY_MAX   (256l << 20)

/* The end of an entry: the key stands before it, the object before the key. */
typedef struct trailer {
    char mark[24];
    uint64_t key_length;
    char hash[HASH_DIGITS + 8]; /* of all bytes before the trailer, terminated */
} trailer;

/* ---- the key ---- */

static hr_status key_make(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                          hr_text *key) {
    hr_text_format(key, "headroom %s\ncompiler %s\nmachine %s\nflags ", hr_version(),
                   device->compiler.identity, device->machine);
    hr_compiler_describe(flags, key);
    hr_text_append(key, "\n", 1);
    hr_text_append(key, source, length);
    return hr_text_status(key);
}

/* ---- reading an entry ---- */

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

/* Whether the file at `path` is whole and was made from this key. */
static bool entry_is_good(const char *path, const hr_text *key) {
    bool good = false;
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_size > 0 &&
        info.st_size < ENTRY_MAX) {
        size_t size = (size_t)info.st_size;
        char *data = malloc(size);
        size_t done = 0;
        while (data && done < size) {
            ssize_t count = read(file, data + done, size - done);
            if (count <= 0) break;
            done += (size_t)count;
        }
        good = data && done == size && entry_matches(data, size, key);
        free(data);
    }
    close(file);
    return good;
}

/* ---- writing one ---- */

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

static hr_status file_write(const char *path, const char *data, size_t size) {
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

/* Appends the key and the trailer to a fresh object. */
static hr_status object_seal(const char *path, const hr_text *key) {
    hr_status status = HR_OK;
    struct stat info;
    trailer end = {.mark = MARK, .key_length = key->length};
    int file = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) || !file_append(file, key->data, key->length))
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
    if (file >= 0) close(file);
    return status;
}

static hr_status build_in(const hr_device_cpu *device, const char *folder, const char *source, size_t length,
                          unsigned flags, const hr_text *key, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/kernel.c", folder);
    HR_TRY(file_write(path, source, length));
    HR_TRY(
        hr_compiler_run(&device->compiler, flags, folder, "kernel.c", "kernel.so", device->compile_seconds));
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    HR_TRY(object_seal(path, key));
    return hr_cache_put(path, name);
}

static hr_status build(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                       const hr_text *key, const char *name) {
    char folder[PATH_MAX - 32];
    HR_TRY(hr_cache_scratch_create(folder, sizeof folder));
    hr_status status = build_in(device, folder, source, length, flags, key, name);
    hr_cache_scratch_remove(folder);
    return status;
}

/* ---- loading ---- */

static hr_status module_open(const char *path, hr_module **out) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return hr_fail(HR_INTERNAL, "the compiled kernel cannot be loaded: %s", dlerror());
    void *entry = dlsym(handle, HR_ENTRY_NAME);
    hr_module *module = malloc(sizeof *module);
    if (!entry || !module) {
        dlclose(handle);
        free(module);
        if (entry) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while loading a kernel");
        return hr_fail(HR_INTERNAL, "the compiled kernel has no function %s", HR_ENTRY_NAME);
    }
    module->handle = handle;
    memcpy(&module->entry, &entry, sizeof entry);
    *out = module;
    return HR_OK;
}

static hr_status module_get(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                            const hr_text *key, hr_module **out) {
    char folder[PATH_MAX - 64], hash[HASH_DIGITS + 1], name[HASH_DIGITS + 8], path[PATH_MAX];
    HR_TRY(hr_cache_folder(folder, sizeof folder));
    hr_cache_hash(key->data, key->length, hash);
    snprintf(name, sizeof name, "%s.so", hash);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (entry_is_good(path, key) && module_open(path, out) == HR_OK) return HR_OK;
    HR_TRY(build(device, source, length, flags, key, name));
    return module_open(path, out);
}

hr_status hr_module_cpu_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                hr_module **out) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    if (cpu->compiler_status != HR_OK) HR_TRY(hr_compiler_find(&cpu->compiler));
    cpu->compiler_status = HR_OK;
    hr_text key = {0};
    hr_status status = key_make(cpu, source, length, flags, &key);
    if (status == HR_OK) status = module_get(cpu, source, length, flags, &key, out);
    hr_text_clear(&key);
    return status;
}

void hr_module_cpu_unload(struct hr_device *device, hr_module *module) {
    (void)device;
    if (!module) return;
    dlclose(module->handle);
    free(module);
}

void *hr_module_cpu_symbol(hr_module *module, const char *name) {
    return dlsym(module->handle, name);
}
