/* Keeps what serves which shapes, and scratch. See shape_cache.h. */
#include "run/shape_cache.h"

#include "run/kernel.h"

#include <stdlib.h>
#include <string.h>

#define SHAPES_MOST 256

hr_status hr_shape_cache_create(hr_shape_cache **out) {
    hr_shape_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel");
    pthread_mutex_init(&cache->making, NULL); /* cannot fail without attributes */
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return HR_OK;
}

static void shapes_free(hr_shapes *shapes) {
    free(shapes->launches);
    free(shapes->words);
    free(shapes);
}

static void block_free(struct hr_device *device, hr_scratch_block *block) {
    device->ops->release(device, block->data, block->size);
    free(block);
}

void hr_shape_cache_destroy(struct hr_device *device, hr_shape_cache *cache) {
    if (!cache) return;
    while (cache->shapes) {
        hr_shapes *first = cache->shapes;
        cache->shapes = first->next;
        shapes_free(first);
    }
    while (cache->blocks) {
        hr_scratch_block *first = cache->blocks;
        cache->blocks = first->next;
        block_free(device, first);
    }
    while (cache->instances) { /* with their states */
        hr_instance *first = cache->instances;
        cache->instances = first->next;
        hr_kernel_destroy(first->kernel);
        free(first);
    }
    pthread_mutex_destroy(&cache->making);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* ---- shapes ---- */

static bool has_key(const hr_shapes *shapes, const hr_shape_key *key) {
    return shapes->hash == key->hash && shapes->word_count == key->count &&
           memcmp(shapes->words, key->words, (size_t)key->count * sizeof *key->words) == 0;
}

/* Where the shapes stand in the list, or its end. */
static hr_shapes **shapes_place(hr_shape_cache *cache, const hr_shape_key *key) {
    hr_shapes **at = &cache->shapes;
    while (*at && !has_key(*at, key))
        at = &(*at)->next;
    return at;
}

hr_shapes *hr_shapes_find(hr_shape_cache *cache, const hr_shape_key *key) {
    pthread_mutex_lock(&cache->lock);
    hr_shapes **at = shapes_place(cache, key), *found = *at;
    if (found) {
        *at = found->next;
        found->next = cache->shapes;
        cache->shapes = found;
        found->calls++;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

void hr_shapes_release(hr_shape_cache *cache, hr_shapes *shapes) {
    pthread_mutex_lock(&cache->lock);
    shapes->calls--;
    pthread_mutex_unlock(&cache->lock);
}

static bool state_serves(const hr_shape_cache *cache, const hr_prepared *state) {
    for (const hr_shapes *shapes = cache->shapes; shapes; shapes = shapes->next)
        if (shapes->state == state) return true;
    return false;
}

/* The last that nobody uses and the state that served no other; what is queued may use its code. */
static void shapes_drop_oldest(hr_shape_cache *cache) {
    hr_shapes **oldest = NULL;
    int count = 0;
    for (hr_shapes **at = &cache->shapes; *at; at = &(*at)->next) {
        count++;
        if ((*at)->calls == 0) oldest = at;
    }
    if (count < SHAPES_MOST || !oldest) return;
    hr_shapes *gone = *oldest;
    *oldest = gone->next;
    if (!state_serves(cache, gone->state)) {
        hr_kernel *kernel = gone->instance->kernel;
        if (kernel->device->ops->synchronise) kernel->device->ops->synchronise(kernel->device);
        hr_prepared_drop(kernel, gone->state);
    }
    shapes_free(gone);
}

static hr_status shapes_create(const hr_shape_key *key, const int64_t *extents, int extent_count,
                               hr_shapes **out) {
    hr_shapes *made = calloc(1, sizeof *made);
    if (made) made->words = malloc(((size_t)key->count + (size_t)extent_count) * sizeof *made->words);
    if (!made || !made->words) {
        free(made);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to remember the shapes of an execution");
    }
    made->hash = key->hash;
    made->word_count = key->count;
    made->extents = made->words + key->count;
    memcpy(made->words, key->words, (size_t)key->count * sizeof *made->words);
    memcpy(made->extents, extents, (size_t)extent_count * sizeof *extents);
    *out = made;
    return HR_OK;
}

hr_status hr_shapes_add(hr_shape_cache *cache, const hr_shape_key *key, const hr_instance *instance,
                        hr_prepared *state, const int64_t *extents, hr_shapes **out) {
    const hr_kernel *kernel = instance->kernel;
    hr_shapes *made = NULL;
    HR_TRY(shapes_create(key, extents, kernel->function->extent_count, &made));
    made->instance = instance;
    made->state = state;
    made->calls = 1;
    hr_status status = hr_prepared_sizes(kernel, state, extents, &made->threads, &made->scratch_size);
    if (kernel->device->limits.little_work > 0) made->operations = hr_prepared_operations(state, extents);
    if (status == HR_OK) status = hr_prepared_launches(kernel, state, extents, &made->launches);
    if (status != HR_OK) {
        shapes_free(made);
        return status;
    }
    pthread_mutex_lock(&cache->lock);
    shapes_drop_oldest(cache);
    made->next = cache->shapes;
    cache->shapes = made;
    pthread_mutex_unlock(&cache->lock);
    *out = made;
    return HR_OK;
}

/* ---- scratch ---- */

typedef struct hr_scratch_user {
    void *stream;
    uint64_t capture;
} hr_scratch_user;

/* Whether a block may serve: what a graph has captured has to stay where it is. */
static bool block_suits(const hr_scratch_block *block, size_t size, const hr_scratch_user *user) {
    return !block->taken && block->stream == user->stream && block->capture == user->capture &&
           (!user->capture || block->size >= size);
}

/* The smallest that is large enough, else any, for another to take its place. */
static hr_scratch_block *block_find(const hr_shape_cache *cache, size_t size, const hr_scratch_user *user) {
    hr_scratch_block *best = NULL;
    for (hr_scratch_block *block = cache->blocks; block; block = block->next) {
        if (!block_suits(block, size, user)) continue;
        bool better = !best || (block->size >= size ? best->size < size || block->size < best->size
                                                    : best->size < size && block->size > best->size);
        if (better) best = block;
    }
    return best;
}

static hr_status block_grow(struct hr_device *device, hr_scratch_block *block, size_t size) {
    void *data = NULL;
    if (size <= block->size) return HR_OK;
    HR_TRY(device->ops->allocate(device, size, &data));
    if (block->data) device->ops->release(device, block->data, block->size);
    block->data = data;
    block->size = size;
    return HR_OK;
}

static hr_status block_take(struct hr_device *device, hr_shape_cache *cache, size_t size,
                            const hr_scratch_user *user, hr_scratch_block **out) {
    hr_scratch_block *block = block_find(cache, size, user);
    if (!block) {
        block = calloc(1, sizeof *block);
        if (!block) return hr_fail(HR_OUT_OF_MEMORY, "no memory for an execution");
        block->stream = user->stream;
        block->capture = user->capture;
        block->next = cache->blocks;
        cache->blocks = block;
    }
    HR_TRY(block_grow(device, block, size));
    block->taken = true;
    *out = block;
    return HR_OK;
}

hr_status hr_scratch_take(struct hr_device *device, hr_shape_cache *cache, size_t size, void *stream,
                          hr_scratch_block **out) {
    const hr_device_ops *ops = device->ops;
    *out = NULL;
    if (size == 0) return HR_OK;
    const hr_scratch_user user = {.stream = ops->synchronise ? stream : NULL,
                                  .capture = ops->capture ? ops->capture(device, stream) : 0};
    pthread_mutex_lock(&cache->lock);
    hr_status status = block_take(device, cache, size, &user, out);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void hr_scratch_give(hr_shape_cache *cache, hr_scratch_block *block) {
    if (!block) return;
    pthread_mutex_lock(&cache->lock);
    block->taken = false;
    pthread_mutex_unlock(&cache->lock);
}
