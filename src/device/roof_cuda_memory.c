/* What HBM and the L2 give: each way through memory is tried on a few runs, the best three are measured.
 *
 * In: three streams in the device's memory. Out: copy, read, write, triad of memory and of the L2.
 */
#include "device/cuda_text.h"
#include "device/roof_cuda.h"

#include <string.h>

#define PART         16 /* bytes of an access */
#define SELECT_RUNS  3
#define MEASURE_RUNS 15
#define SELECTED     3
#define WAYS_MAX     64
#define L2_SHARE     4 /* of the L2: what stays in it whichever half a line belongs to */
#define L2_ROUNDS    64
#define BULK_SHARED  (6 * 16384)
#define BULK_PIECE   16384

/* As in roof_memory.cuh. */
typedef struct stream_words {
    hr_cu_address to, from, beside;
    unsigned long long count;
    int rounds, threads;
} stream_words;

typedef enum operation { READ, WRITE, COPY, TRIAD, OPERATIONS } operation;
static const struct {
    const char *name;
    int streams; /* bytes moved, in streams */
} operations[] = {{"read", 1}, {"write", 1}, {"copy", 2}, {"triad", 3}};

typedef struct way {
    hr_cu_function function;
    int side, threads,
        blocks; /* side: parts a thread and turn; blocks: a multiprocessor, 0 = one turn each */
    bool bulk;
    double seconds;
} way;

/* ---- one way ---- */

static hr_status way_time(hr_roof_cuda *roof, const way *way, size_t bytes, int rounds, int runs,
                          double *seconds) {
    stream_words words = {.to = roof->streams[0],
                          .from = roof->streams[1],
                          .beside = roof->streams[2],
                          .rounds = rounds,
                          .threads = way->threads};
    size_t unit = way->bulk ? BULK_PIECE : (size_t)(way->threads * way->side * PART);
    int64_t units = (int64_t)(bytes / unit), most = (int64_t)way->blocks * roof->cuda->base.limits.threads;
    words.count = (unsigned long long)units * unit / PART;
    hr_roof_launch launch = {.function = way->function,
                             .blocks = way->blocks && most < units ? most : units,
                             .threads = way->bulk ? 1 : way->threads,
                             .shared = way->bulk ? BULK_SHARED : 0,
                             .parameters = &words};
    HR_TRY(hr_roof_cuda_median(roof, &launch, runs, seconds));
    *seconds *= (double)bytes / ((double)units * (double)unit); /* as if nothing had been cut off */
    return HR_OK;
}

/* ---- all ways of an operation ---- */

static int ways_list(hr_roof_cuda *roof, const hr_module *module, operation operation, bool bulk_too,
                     way *ways) {
    static const int sides[] = {1, 2, 4, 8}, threads[] = {256, 512, 1024};
    int count = 0;
    for (int hint = 0; hint < 2; hint++)
        for (int s = 0; s < 4; s++) {
            char name[32];
            hr_cu_function function;
            snprintf(name, sizeof name, "hr_%s_%d_%d", operations[operation].name, sides[s], hint);
            if (!hr_roof_cuda_function(roof, module, name, 0, &function)) continue;
            for (int t = 0; t < 3; t++)
                for (int turn = 0; turn < 2; turn++)
                    ways[count++] = (way){.function = function,
                                          .side = sides[s],
                                          .threads = threads[t],
                                          .blocks = turn ? 2048 / threads[t] : 0};
        }
    hr_cu_function bulk;
    if (operation == COPY && bulk_too && roof->cuda->base.limits.compute >= 90 &&
        hr_roof_cuda_function(roof, module, "hr_copy_bulk", BULK_SHARED, &bulk))
        for (int blocks = 1; blocks <= 2; blocks++)
            ways[count++] = (way){.function = bulk, .bulk = true, .blocks = blocks};
    return count;
}

static void fastest_first(way *ways, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && ways[k].seconds < ways[k - 1].seconds; k--) {
            way other = ways[k];
            ways[k] = ways[k - 1];
            ways[k - 1] = other;
        }
}

/* Bytes a second of the best way, over `bytes` a stream. */
static hr_status operation_measure(hr_roof_cuda *roof, const hr_module *module, operation operation,
                                   size_t bytes, int rounds, double *rate) {
    way ways[WAYS_MAX];
    int count = ways_list(roof, module, operation, rounds == 1, ways); /* the bulk copy goes round once */
    for (int i = 0; i < count; i++)
        HR_TRY(way_time(roof, &ways[i], bytes, rounds, SELECT_RUNS, &ways[i].seconds));
    fastest_first(ways, count);
    for (int i = 0; i < count && i < SELECTED; i++)
        HR_TRY(way_time(roof, &ways[i], bytes, rounds, MEASURE_RUNS, &ways[i].seconds));
    fastest_first(ways, count < SELECTED ? count : SELECTED);
    if (count) *rate = (double)bytes * rounds * operations[operation].streams / ways[0].seconds;
    return hr_roof_cuda_advance(roof, operations[operation].name, 0.4);
}

/* ---- the driver's own copy and fill, where they are better ---- */

typedef struct driver_work {
    const hr_roof_cuda *roof;
    bool copy;
} driver_work;

static hr_status queue_driver(void *context) {
    const driver_work *work = context;
    const hr_roof_cuda *roof = work->roof;
    const hr_cuda_driver *driver = &roof->cuda->driver;
    hr_cu_result result =
        work->copy ? driver->copy(roof->streams[0], roof->streams[1], roof->stream_bytes, roof->cuda->stream)
                   : driver->fill_bytes(roof->streams[0], 0x5a, roof->stream_bytes, roof->cuda->stream);
    return result ? hr_cuda_fail(driver, result, "copying within the device") : HR_OK;
}

static hr_status driver_measure(hr_roof_cuda *roof, bool copy, double *rate) {
    driver_work work = {roof, copy};
    double samples[MEASURE_RUNS];
    for (int i = 0; i < MEASURE_RUNS; i++)
        HR_TRY(hr_time_cuda_queue(roof->cuda, false, queue_driver, &work, &samples[i]));
    double found = (double)roof->stream_bytes * (copy ? 2 : 1) / hr_median(samples, MEASURE_RUNS);
    if (found > *rate) *rate = found;
    return HR_OK;
}

/* ---- both levels ---- */

static hr_status levels_measure(hr_roof_cuda *roof, const hr_module *module) {
    hr_roof *out = roof->roof;
    double *memory[] = {&out->read, &out->write, &out->copy, &out->triad};
    int level = out->cache_count++;
    double *cache[] = {&out->cache[level].read, &out->cache[level].write, &out->cache[level].copy,
                       &out->cache[level].triad};
    size_t small = (size_t)roof->cuda->base.limits.l2_bytes / L2_SHARE / 1048576 * 1048576;
    strcpy(out->cache[level].name, "L2");
    out->cache[level].bytes = (double)roof->cuda->base.limits.l2_bytes;
    for (int i = 0; i < OPERATIONS; i++)
        HR_TRY(operation_measure(roof, module, (operation)i, roof->stream_bytes, 1, memory[i]));
    HR_TRY(driver_measure(roof, true, &out->copy));
    HR_TRY(driver_measure(roof, false, &out->write));
    for (int i = 0; i < OPERATIONS && small; i++)
        HR_TRY(operation_measure(roof, module, (operation)i, small / (size_t)operations[i].streams, L2_ROUNDS,
                                 cache[i]));
    return HR_OK;
}

hr_status hr_roof_cuda_memory(hr_roof_cuda *roof) {
    hr_module *module;
    HR_TRY(hr_roof_cuda_compile(roof, hr_cuda_roof_memory_text, &module));
    hr_status status = levels_measure(roof, module);
    hr_module_cuda_unload(&roof->cuda->base, module);
    return status;
}
