/* What hr_kernel_execute keeps of earlier calls: for each set of shapes what serves it, and memory for
 * locals.
 *
 * A set of shapes is a key of words: dtypes, which results are wanted, extents of every axis. It is served by
 * a prepared state, which serves other extents, too, where its code is right for them. All of it is used by
 * many threads at once: what is found stays until it is given back.
 *
 * In: keys, prepared states. Out: served shapes, scratch.
 */
#ifndef HR_RUN_SHAPE_CACHE_H
#define HR_RUN_SHAPE_CACHE_H

#include "device/device.h"

#include <pthread.h>

struct hr_kernel;
struct hr_prepared;

#define HR_EXECUTE_ARGUMENTS 128  /* that a call may have, */
#define HR_EXECUTE_WORDS     2048 /* and words of its key: they live on the stack of the call */

typedef struct hr_shape_key {
    int count;
    uint64_t hash;
    int64_t words[HR_EXECUTE_WORDS];
} hr_shape_key;

/* A kernel of the same text for certain dtypes of the arrays and without certain results. */
typedef struct hr_instance {
    struct hr_instance *next;
    struct hr_kernel *kernel;
    hr_dtype dtypes[HR_EXECUTE_ARGUMENTS]; /* of what is given */
    bool left_out[HR_EXECUTE_ARGUMENTS];   /* results that nobody wants */
} hr_instance;

/* Shapes and what serves them. Nothing of it changes once it can be found, but what the cache's lock guards.
 */
typedef struct hr_shapes {
    struct hr_shapes *next; /* most recently used first */
    uint64_t hash;          /* of the key */
    int word_count;
    int64_t *words;
    const hr_instance *instance;
    struct hr_prepared *state; /* of instance->kernel; several shapes may have one */
    int64_t *extents;          /* of the instance's function; in one allocation with `words` */
    int threads;
    double operations; /* hr_prepared_operations; 0 on devices with grids */
    int64_t scratch_size;
    hr_launch *launches; /* at these extents, where they are not the state's own; NULL = they are */
    int calls;           /* that use it now */
} hr_shapes;

typedef struct hr_scratch_block {
    struct hr_scratch_block *next;
    void *data;
    size_t size;
    void *stream;     /* whose launches use it, on devices that only queue them */
    uint64_t capture; /* the graph whose launches use it, whenever that runs; 0 = none */
    bool taken;
} hr_scratch_block;

typedef struct hr_shape_cache {
    pthread_mutex_t making; /* held while something is prepared; */
    pthread_mutex_t lock;   /* for moments, also within the former: all of these */
    hr_instance *instances; /* under `making` */
    hr_shapes *shapes;
    hr_scratch_block *blocks;
} hr_shape_cache;

hr_status hr_shape_cache_create(hr_shape_cache **out);
/* No call is under way any more. */
void hr_shape_cache_destroy(struct hr_device *device, hr_shape_cache *cache);

/* What serves these shapes, until hr_shapes_release; NULL where nothing is known of them. */
hr_shapes *hr_shapes_find(hr_shape_cache *cache, const hr_shape_key *key);
void hr_shapes_release(hr_shape_cache *cache, hr_shapes *shapes);
/* Copies the key and the extents. In use by the caller; what served these shapes before is not found any
 * more, and where there are many the least recently used goes. Under `making`. */
hr_status hr_shapes_add(hr_shape_cache *cache, const hr_shape_key *key, const hr_instance *instance,
                        struct hr_prepared *state, const int64_t *extents, hr_shapes **out);

/* Memory for one call. On a device that only queues launches, those of one stream share it; those of one
 * graph have their own for as long as the kernel lives. */
hr_status hr_scratch_take(struct hr_device *device, hr_shape_cache *cache, size_t size, void *stream,
                          hr_scratch_block **out);
void hr_scratch_give(hr_shape_cache *cache, hr_scratch_block *block);

#endif
