/* Copies between the host's memory and the device's.
 *
 * The driver reaches pinned memory alone; ordinary memory it brings over with one processor. Large copies of
 * ordinary memory go through two pinned pieces here: while one is on its way, all processors fill (or empty)
 * the other.
 *
 * In: addresses and a size. Out: the bytes, where they shall be.
 */
#include "device/device_cuda.h"
#include "device/team.h"

#include <string.h>

#define PIECE        ((size_t)4 << 20)
#define STAGED_LEAST (2 * PIECE)
#define CHUNK        ((size_t)256 << 10)
#define THREADS      8

/* ---- ordinary memory ---- */

typedef struct copying {
    char *to;
    const char *from;
    size_t size;
} copying;

static void copy_part(void *context, int64_t part, int64_t parts) {
    const copying *all = context;
    const size_t chunks = (all->size + CHUNK - 1) / CHUNK,
                 begin = chunks * (size_t)part / (size_t)parts * CHUNK;
    size_t end = chunks * (size_t)(part + 1) / (size_t)parts * CHUNK;
    if (end > all->size) end = all->size;
    if (begin < end) memcpy(all->to + begin, all->from + begin, end - begin);
}

static void copy_by_all(char *to, const char *from, size_t size) {
    copying all = {to, from, size};
    hr_team_run(THREADS, copy_part, &all);
}

/* What is neither pinned nor the device's own has no type. */
static hr_memory_kind kind_of(const hr_cuda_driver *driver, const void *data) {
    int attribute = HR_CU_POINTER_MEMORY_TYPE;
    unsigned type = 0;
    void *values[] = {&type};
    if (driver->pointer_attributes(1, &attribute, values, (hr_cu_address)(uintptr_t)data) != 0)
        return HR_MEMORY_PAGEABLE;
    return (hr_memory_kind)type;
}

static hr_cu_result stage_make(hr_device_cuda *cuda) {
    const hr_cuda_driver *driver = &cuda->driver;
    void *data = NULL;
    hr_cu_result result = 0;
    for (int k = 0; k < 2 && !result; k++)
        if (!cuda->stage_events[k])
            result = driver->event_create(&cuda->stage_events[k], HR_CU_EVENT_NO_TIMING);
    if (!result && !cuda->stage) {
        result = driver->host_allocate(&data, 2 * PIECE, HR_CU_HOST_PORTABLE);
        cuda->stage = result ? NULL : data;
    }
    return result;
}

void hr_copy_cuda_free(hr_device_cuda *cuda) {
    if (cuda->stage) cuda->driver.host_release(cuda->stage);
    for (int k = 0; k < 2; k++)
        if (cuda->stage_events[k]) cuda->driver.event_destroy(cuda->stage_events[k]);
}

static size_t piece_size(size_t size, size_t at) {
    return size - at < PIECE ? size - at : PIECE;
}

static hr_cu_result upload_staged(hr_device_cuda *cuda, hr_cu_address to, const char *from, size_t size) {
    const hr_cuda_driver *driver = &cuda->driver;
    hr_cu_result result = 0;
    int k = 0;
    for (size_t at = 0; at < size && !result; at += PIECE, k ^= 1) {
        char *piece = cuda->stage + (size_t)k * PIECE;
        if (at >= 2 * PIECE) result = driver->event_wait(cuda->stage_events[k]);
        if (result) break;
        copy_by_all(piece, from + at, piece_size(size, at));
        result = driver->upload(to + at, piece, piece_size(size, at), cuda->stream);
        if (!result) result = driver->event_record(cuda->stage_events[k], cuda->stream);
    }
    return result;
}

static hr_cu_result download_staged(hr_device_cuda *cuda, char *to, hr_cu_address from, size_t size) {
    const hr_cuda_driver *driver = &cuda->driver;
    hr_cu_result result = 0;
    int k = 0;
    for (size_t at = 0; at < size + PIECE && !result; at += PIECE, k ^= 1) {
        if (at < size) {
            char *piece = cuda->stage + (size_t)k * PIECE;
            result = driver->download(piece, from + at, piece_size(size, at), cuda->stream);
            if (!result) result = driver->event_record(cuda->stage_events[k], cuda->stream);
        }
        if (at == 0 || result) continue;
        size_t before = at - PIECE; /* has arrived by now, or soon */
        result = driver->event_wait(cuda->stage_events[k ^ 1]);
        if (!result)
            copy_by_all(to + before, cuda->stage + (size_t)(k ^ 1) * PIECE, piece_size(size, before));
    }
    return result;
}

/* ---- any memory ---- */

typedef enum direction { TO_DEVICE, FROM_DEVICE, WITHIN } direction;

static hr_cu_result copy_directly(hr_device_cuda *cuda, void *to, const void *from, size_t size,
                                  direction direction) {
    const hr_cuda_driver *driver = &cuda->driver;
    hr_cu_address to_device = (hr_cu_address)(uintptr_t)to, from_device = (hr_cu_address)(uintptr_t)from;
    return direction == TO_DEVICE     ? driver->upload(to_device, from, size, cuda->stream)
           : direction == FROM_DEVICE ? driver->download(to, from_device, size, cuda->stream)
                                      : driver->copy_any(to_device, from_device, size, cuda->stream);
}

static hr_cu_result copy_staged(hr_device_cuda *cuda, void *to, const void *from, size_t size,
                                direction direction) {
    pthread_mutex_lock(&cuda->stage_lock);
    hr_cu_result result = stage_make(cuda);
    if (!result)
        result = direction == TO_DEVICE ? upload_staged(cuda, (hr_cu_address)(uintptr_t)to, from, size)
                                        : download_staged(cuda, to, (hr_cu_address)(uintptr_t)from, size);
    hr_cu_result ended = cuda->driver.stream_wait(cuda->stream); /* before the pieces are another's */
    pthread_mutex_unlock(&cuda->stage_lock);
    return result ? result : ended;
}

static hr_status copy(struct hr_device *device, void *to, const void *from, size_t size,
                      direction direction) {
    static const char *const words[] = {"to", "from", "within"};
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    const void *host = direction == TO_DEVICE ? from : to;
    bool pushed;
    if (size == 0) return HR_OK;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    bool staged =
        direction != WITHIN && size > STAGED_LEAST && kind_of(&cuda->driver, host) == HR_MEMORY_PAGEABLE;
    hr_cu_result result = staged ? copy_staged(cuda, to, from, size, direction)
                                 : copy_directly(cuda, to, from, size, direction);
    if (!result && !staged) result = cuda->driver.stream_wait(cuda->stream);
    hr_cuda_leave(cuda, pushed);
    return result ? hr_cuda_fail(&cuda->driver, result, "copying %.3f MB %s %s", (double)size * 1e-6,
                                 words[direction], device->name)
                  : HR_OK;
}

hr_status hr_copy_cuda_upload(struct hr_device *device, void *to, const void *from, size_t size) {
    return copy(device, to, from, size, TO_DEVICE);
}

hr_status hr_copy_cuda_upload_queued(struct hr_device *device, void *to, const void *from, size_t size) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    const hr_cu_result result = copy_directly(cuda, to, from, size, TO_DEVICE);
    hr_cuda_leave(cuda, pushed);
    return result ? hr_cuda_fail(&cuda->driver, result, "copying %.3f MB to %s", (double)size * 1e-6,
                                 device->name)
                  : HR_OK;
}

hr_status hr_copy_cuda_download(struct hr_device *device, void *to, const void *from, size_t size) {
    return copy(device, to, from, size, FROM_DEVICE);
}

hr_status hr_copy_cuda_within(struct hr_device *device, void *to, const void *from, size_t size) {
    return copy(device, to, from, size, WITHIN);
}

/* ---- pinned memory ---- */

hr_status hr_copy_cuda_allocate_pinned(struct hr_device *device, size_t size, void **out) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    hr_cu_result result = cuda->driver.host_allocate(out, size ? size : 1, HR_CU_HOST_PORTABLE);
    hr_cuda_leave(cuda, pushed);
    return result
               ? hr_cuda_fail(&cuda->driver, result, "taking %.3f MB of pinned memory", (double)size * 1e-6)
               : HR_OK;
}

void hr_copy_cuda_release_pinned(struct hr_device *device, void *data) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    if (!data || hr_cuda_enter(cuda, &pushed) != HR_OK) return;
    cuda->driver.host_release(data);
    hr_cuda_leave(cuda, pushed);
}

hr_memory_kind hr_copy_cuda_memory_kind(struct hr_device *device, const void *data) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    if (hr_cuda_enter(cuda, &pushed) != HR_OK) return HR_MEMORY_PAGEABLE;
    const hr_memory_kind kind = kind_of(&cuda->driver, data);
    hr_cuda_leave(cuda, pushed);
    return kind;
}
