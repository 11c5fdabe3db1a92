/* Keeps roofs as JSON in the cache folder, one file a device, thread count and version.
 *
 * In and out: an hr_roof. What cannot be read, or was written for another key, counts as absent.
 */
#include "device/roof_store.h"
#include "base/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define FORMAT        5
#define LOCK_NAME     "roof.lock"
#define POLL_SECONDS  0.05
#define FILE_MOST     65536
#define READINGS      2    /* without memory for a key jansson gives an object that lacks it, and no error */
#define PASSED        1.05 /* a copy is faster than the kept one, not just another sample of it */
#define RAISE_SECONDS 0.2
#define RAISE_TRIES   100

typedef struct field {
    const char *name;
    size_t offset;
} field;

#define FIELD(name)                                                                                          \
    { #name, offsetof(hr_roof, name) }
static const field fields[] = {
    FIELD(copy),
    FIELD(read),
    FIELD(write),
    FIELD(triad),
    FIELD(vector_f32),
    FIELD(vector_f64),
    FIELD(vector_bf16),
    FIELD(vector_f16),
    FIELD(vector_i32),
    FIELD(vector_i8),
    FIELD(tensor_f32),
    FIELD(tensor_bf16),
    FIELD(tensor_f16),
    FIELD(tensor_i8),
    FIELD(launch),
    FIELD(measured_at),
    FIELD(tensor_tf32),
    FIELD(tensor_f8),
    FIELD(launch_graph),
    FIELD(launch_host),
    FIELD(launch_driver),
    FIELD(link_to),
    FIELD(link_from),
    FIELD(link_pageable_to),
    FIELD(link_pageable_from),
    FIELD(link_peer),
};
#undef FIELD

#define FIELD(name)                                                                                          \
    { #name, offsetof(hr_roof, cache[0].name) - offsetof(hr_roof, cache[0]) }
static const field cache_fields[] = {FIELD(bytes), FIELD(read), FIELD(copy), FIELD(write), FIELD(triad)};
#undef FIELD

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- where ---- */

static void key_print(const struct hr_device *device, char *out, size_t size) {
    snprintf(out, size, "%s, %s, %s, %d threads, headroom %s", device->ops->kind, device->name,
             device->limits.isa, device->limits.threads, hr_version());
}

static void entry_name(const char *key, char *out, size_t size) {
    char hash[33];
    hr_cache_hash(key, strlen(key), hash);
    snprintf(out, size, "roof-%s.json", hash);
}

/* ---- JSON from and to fields ---- */

static void fields_write(json_t *object, const void *base, const field *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, list[i].name,
                            json_real(*(const double *)((const char *)base + list[i].offset)));
}

static bool fields_read(const json_t *object, void *base, const field *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, list[i].name);
        double number = json_number_value(value);
        if (!json_is_number(value) || !isfinite(number) || number < 0) return false;
        *(double *)((char *)base + list[i].offset) = number;
    }
    return true;
}

bool hr_roof_threads_read(const json_t *object, const char *name, int *out) {
    const json_int_t threads = json_integer_value(json_object_get(object, name));
    *out = (int)threads;
    return threads >= 0 && threads <= INT_MAX;
}

static json_t *roof_to_json(const char *key, const hr_roof *roof) {
    json_t *object = json_object(), *caches = json_array(), *special = json_object();
    json_object_set_new(object, "format", json_integer(FORMAT));
    json_object_set_new(object, "key", json_string(key));
    json_object_set_new(object, "threads", json_integer(roof->threads));
    json_object_set_new(object, "copy_way", json_string(roof->copy_way));
    json_object_set_new(object, "copy_threads", json_integer(roof->copy_threads));
    json_object_set_new(object, "special_beside", json_boolean(roof->special_beside));
    json_object_set_new(object, "traffic_mixed", json_boolean(roof->traffic_mixed));
    json_object_set_new(object, "busy", json_real(roof->busy));
    fields_write(object, roof, fields, COUNT(fields));
    for (int i = 0; i < roof->cache_count; i++) {
        json_t *level = json_object();
        json_object_set_new(level, "name", json_string(roof->cache[i].name));
        fields_write(level, &roof->cache[i], cache_fields, COUNT(cache_fields));
        json_array_append_new(caches, level);
    }
    for (int i = 0; i < HR_SPECIAL_COUNT; i++)
        json_object_set_new(special, hr_special_name((hr_special)i), json_real(roof->special[i]));
    json_object_set_new(object, "cache", caches);
    json_object_set_new(object, "special", special);
    return object;
}

static bool roof_from_json(const json_t *object, const char *key, hr_roof *out) {
    hr_roof roof = {0};
    int copy_threads;
    const char *stored = json_string_value(json_object_get(object, "key"));
    const json_t *caches = json_object_get(object, "cache"), *special = json_object_get(object, "special");
    if (json_integer_value(json_object_get(object, "format")) != FORMAT || !stored ||
        strcmp(stored, key) != 0)
        return false;
    if (!hr_roof_threads_read(object, "threads", &roof.threads) ||
        !hr_roof_threads_read(object, "copy_threads", &copy_threads) || roof.threads == 0 ||
        !fields_read(object, &roof, fields, COUNT(fields)))
        return false;
    const char *way = json_string_value(json_object_get(object, "copy_way"));
    hr_roof_name_copy(&roof, way ? way : "", copy_threads);
    roof.special_beside = json_is_true(json_object_get(object, "special_beside"));
    roof.traffic_mixed = json_is_true(json_object_get(object, "traffic_mixed"));
    roof.busy = json_number_value(json_object_get(object, "busy"));
    if (!json_is_array(caches) || json_array_size(caches) > HR_ROOF_LEVELS) return false;
    roof.cache_count = (int)json_array_size(caches);
    for (int i = 0; i < roof.cache_count; i++) {
        const json_t *level = json_array_get(caches, (size_t)i);
        const char *name = json_string_value(json_object_get(level, "name"));
        if (!name || !fields_read(level, &roof.cache[i], cache_fields, COUNT(cache_fields))) return false;
        snprintf(roof.cache[i].name, sizeof roof.cache[i].name, "%s", name);
    }
    for (int i = 0; i < HR_SPECIAL_COUNT; i++) {
        field one = {hr_special_name((hr_special)i), offsetof(hr_roof, special) + (size_t)i * sizeof(double)};
        if (!fields_read(special, &roof, &one, 1)) return false;
    }
    *out = roof;
    return true;
}

/* ---- files ---- */

hr_status hr_roof_store_read(const struct hr_device *device, hr_roof *out) {
    char folder[PATH_MAX - 64], key[512], name[64], path[PATH_MAX], text[FILE_MOST];
    HR_TRY(hr_cache_folder(folder, sizeof folder));
    key_print(device, key, sizeof key);
    entry_name(key, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file;
    ssize_t length = -1;
    if (hr_cache_open(path, O_RDONLY, &file) == HR_OK) {
        length = read(file, text, sizeof text);
        close(file);
    }
    bool good = false;
    for (int tries = 0; tries < READINGS && length > 0 && !good; tries++) {
        errno = 0; /* jansson does not tell a want of memory from a text that is none; malloc does */
        json_t *object = json_loadb(text, (size_t)length, 0, NULL);
        if (!object && errno == ENOMEM)
            return hr_fail(HR_OUT_OF_MEMORY, "no memory to read the kept roof of %s", device->name);
        good = object && roof_from_json(object, key, out);
        json_decref(object);
    }
    return good
               ? HR_OK
               : hr_fail(HR_NOT_AVAILABLE, "the roof of %s is not measured yet: headroom roof", device->name);
}

hr_status hr_roof_store_write(const struct hr_device *device, const hr_roof *roof) {
    char key[512], name[64], path[PATH_MAX];
    hr_scratch scratch;
    key_print(device, key, sizeof key);
    entry_name(key, name, sizeof name);
    HR_TRY(hr_cache_scratch_create(&scratch));
    snprintf(path, sizeof path, "%s/roof.json", scratch.path);
    json_t *object = roof_to_json(key, roof);
    hr_status status = HR_OK;
    if (json_dump_file(object, path, JSON_INDENT(2) | JSON_REAL_PRECISION(17)))
        status = hr_fail(HR_IO, "cannot write %s of the cache: %s", path, strerror(errno));
    json_decref(object);
    if (status == HR_OK) status = hr_cache_put(path, name);
    hr_cache_scratch_remove(&scratch);
    return status;
}

/* ---- one at a time ---- */

static int lock_open(void) {
    char folder[PATH_MAX - 64], path[PATH_MAX];
    if (hr_cache_folder(folder, sizeof folder) != HR_OK) return -1;
    snprintf(path, sizeof path, "%s/" LOCK_NAME, folder);
    int lock;
    return hr_cache_open(path, O_RDWR | O_CREAT, &lock) == HR_OK ? lock : -1;
}

hr_status hr_roof_store_lock(hr_progress_fn progress, void *context, int *out) {
    int lock = lock_open();
    if (lock < 0) return HR_IO;
    while (flock(lock, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* a file system without locks: measure all the same */
        if (progress && !progress(context, "waiting for another process that measures the roof", 0, 0)) {
            close(lock);
            return hr_fail(HR_CANCELLED, "waiting for another process that measures the roof was stopped");
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(POLL_SECONDS * 1e9)}, NULL);
    }
    *out = lock;
    return HR_OK;
}

void hr_roof_store_unlock(int lock) {
    close(lock);
}

/* ---- raising ---- */

/* Another that raises holds the lock for moments, one that measures for half a minute. */
static bool lock_soon(int lock) {
    for (int tries = 0; tries < RAISE_TRIES; tries++) {
        if (flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
        nanosleep(&(struct timespec){.tv_nsec = (long)(RAISE_SECONDS / RAISE_TRIES * 1e9)}, NULL);
    }
    return false;
}

static bool is_passed(double rate, double kept) {
    return isfinite(rate) && kept > 0 && rate > PASSED * kept;
}

static bool raises(const hr_roof_seen *seen, const hr_roof *roof) {
    return seen->copy_way || is_passed(seen->copy, roof->copy) ||
           is_passed(seen->special_rate, roof->special[seen->special]);
}

bool hr_roof_store_raise(const struct hr_device *device, const hr_roof_seen *seen, hr_roof *roof) {
    hr_roof kept;
    if (!raises(seen, roof)) return false;
    int lock = lock_open();
    if (lock < 0) return false;
    bool good = lock_soon(lock) && hr_roof_store_read(device, &kept) == HR_OK;
    if (good && raises(seen, &kept)) { /* else another process raised it already */
        if (is_passed(seen->copy, kept.copy)) kept.copy = seen->copy;
        if (is_passed(seen->special_rate, kept.special[seen->special]))
            kept.special[seen->special] = seen->special_rate;
        if (seen->copy_way) hr_roof_name_copy(&kept, seen->copy_way, seen->copy_threads);
        good = hr_roof_store_write(device, &kept) == HR_OK;
    }
    if (good) *roof = kept;
    close(lock);
    return good;
}
