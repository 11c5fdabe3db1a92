/* What this processor can do at best: measured, on this machine, with kernels compiled for it.
 *
 * Everything that is measured is a probe: a kernel of a compiled text, where it runs (registers, one cache
 * level, memory), and the rate of an hr_roof that it may raise. Many probes raise one rate: they are
 * different ways to do the same work, and the best counts. The ways through memory are compared on short
 * slices first; the best few of each operation go on. Then come batches, spread over the whole time so that
 * a busy moment of the machine spoils one and not all: in a batch each probe runs a few times in turn. Of a
 * probe of memory, which others share and caches can flatter, a batch's median counts; of the others, which
 * can only be slowed down, the best sample. The best batch is the rate: what the machine sustains when it
 * is left alone. Each rate is what its own probes reached: none takes another's place, so that a moment in
 * which others were in the way shows as what it is.
 *
 * In: a device, the text of the special functions. Out: an hr_roof.
 */
#include "base/clock.h"
#include "device/device_cpu.h"
#include "device/roof/roof_list.h"
#include "device/roof_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MB                ((int64_t)1 << 20)
#define PROBES_MAX        512
#define ROLES             3 /* that the streams take in turn */
#define PARTS             7 /* of a stream, taken in turn; prime to the roles */
#define PART_LEAST        (16 * MB)
#define REPEATS           3
#define CALIBRATE_REPEATS 3
#define SELECT_REPEATS    6
#define SELECTED          3
#define TRIES             8
#define PRESENT           0.96
#define SAMPLE_SECONDS    0.0008 /* of a probe that does not leave the caches */
#define STREAM_LEAST      (256 * MB)
#define STREAM_MOST       (704 * MB)
#define STREAM_UNIT       (4 * MB)
#define SLICE             (64 * MB)   /* of each stream, by all threads, while ways are compared, or more */
#define REGION_UNIT       (48 * 4096) /* a multiple of what every way takes at a time */
#define LAUNCH_SAMPLES    400
#define ALONE_SAMPLES     5
#define ALONE_SLACK                                                                                          \
    0.8 /* two threads of one core have less than each alone, and cores alone a faster clock */

typedef enum place { PLACE_REGISTERS, PLACE_CACHE, PLACE_MEMORY, PLACE_SPECIAL } place;

typedef struct probe {
    const char *name;
    hr_module *module;
    place place;
    int threads;
    int operation;  /* of a stream */
    int64_t kernel; /* its number within the module */
    int64_t bytes;  /* a thread and a stream */
    int64_t rounds; /* of one sample */
    double *rate;   /* what it may raise */
    double *tensor; /* and this one, or NULL */
    double samples[SELECT_REPEATS];
    int count; /* of samples; -1 = the machine cannot do it */
} probe;

typedef struct measuring {
    struct hr_device *device;
    hr_roof *roof;
    hr_module *kernels, *special;
    char *streams[ROLES];
    char *values;         /* what functions are taken of, and after it room for what they give */
    int64_t stream_bytes; /* of each */
    int64_t region;       /* of a thread, in each */
    int rotation; /* rotates the streams' roles, so that nothing is met again while it is still cached */
    int probe_count;
    probe probes[PROBES_MAX];
    double started, done, total;
    hr_progress_fn progress;
    void *context;
} measuring;

/* Of all threads together. */
static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double best_of(const double *values, int count) {
    double best = 0;
    for (int i = 0; i < count; i++)
        best = fmax(best, values[i]);
    return best;
}

static hr_status advance(measuring *m, const char *what, double step) {
    m->done = fmin(m->done + step, m->total);
    if (!m->progress || m->progress(m->context, what, m->done, m->total)) return HR_OK;
    return hr_fail(HR_CANCELLED, "measuring the roof was stopped");
}

/* ---- the probes ---- */

static const struct {
    const char *name;
    int operation, past, pages, ahead;
} stream_ways[] = {
#define STREAM_WAY(name, operation, lines, pages, ahead, locality, past)                                     \
    {#name, ROOF_##operation, past, pages, ahead},
    ROOF_STREAMS(STREAM_WAY)
#undef STREAM_WAY
};

enum unit { UNIT_F32, UNIT_F64, UNIT_F16, UNIT_BF16, UNIT_I32, UNIT_I8, UNIT_TILE_BF16, UNIT_TILE_I8, UNITS };

static const struct {
    const char *name;
    enum unit unit;
} units[] = {
#define UNIT_ROW(name, unit) {#name, UNIT_##unit},
    ROOF_UNITS(UNIT_ROW)
#undef UNIT_ROW
};

static void probe_add(measuring *m, probe what) {
    if (m->probe_count == PROBES_MAX) return; /* the lists are constants: this would be a bug */
    what.threads = m->device->limits.threads;
    m->probes[m->probe_count++] = what;
}

static double *operation_rate(double *read, double *write, double *copy, double *triad, int operation) {
    return operation == ROOF_READ    ? read
           : operation == ROOF_WRITE ? write
           : operation == ROOF_COPY  ? copy
                                     : triad;
}

/* Half a level for all streams of an operation, in whole pages; from the last level a share for each thread,
 * and well more than the level before holds. */
static int64_t cache_bytes(const hr_device_limits *limits, int level, int operation) {
    static const int streams_of[] = {[ROOF_READ] = 1, [ROOF_WRITE] = 1, [ROOF_COPY] = 2, [ROOF_TRIAD] = 3};
    int64_t whole = level == 0   ? limits->l1_bytes
                    : level == 1 ? limits->l2_bytes
                                 : limits->l3_bytes / limits->threads;
    if (level == 2 && whole > 8 * limits->l2_bytes) whole = 8 * limits->l2_bytes;
    int64_t bytes = whole / 2 / streams_of[operation] / 4096 * 4096;
    return bytes > 4096 ? bytes : 4096;
}

static void cache_probes_add(measuring *m) {
    const hr_device_limits *limits = &m->device->limits;
    const int64_t sizes[] = {limits->l1_bytes, limits->l2_bytes, limits->l3_bytes};
    int levels = limits->l3_bytes > limits->l2_bytes ? 3 : 2;
    m->roof->cache_count = levels;
    for (int level = 0; level < levels; level++) {
        snprintf(m->roof->cache[level].name, sizeof m->roof->cache[level].name, "L%d", level + 1);
        m->roof->cache[level].bytes = (double)sizes[level];
        for (size_t i = 0; i < sizeof stream_ways / sizeof *stream_ways; i++) {
            if (stream_ways[i].past || stream_ways[i].pages > 1 || (stream_ways[i].ahead && level == 0))
                continue;
            int operation = stream_ways[i].operation;
            probe_add(m, (probe){.name = stream_ways[i].name,
                                 .module = m->kernels,
                                 .place = PLACE_CACHE,
                                 .kernel = (int64_t)i,
                                 .bytes = cache_bytes(limits, level, operation),
                                 .rate = operation_rate(
                                     &m->roof->cache[level].read, &m->roof->cache[level].write,
                                     &m->roof->cache[level].copy, &m->roof->cache[level].triad, operation)});
        }
    }
}

static void memory_probe_add(measuring *m, const char *name, int64_t kernel, int operation) {
    hr_roof *roof = m->roof;
    probe_add(
        m, (probe){.name = name,
                   .module = m->kernels,
                   .place = PLACE_MEMORY,
                   .operation = operation,
                   .kernel = kernel,
                   .rounds = 1,
                   .rate = operation_rate(&roof->read, &roof->write, &roof->copy, &roof->triad, operation)});
}

static void memory_probes_add(measuring *m) {
    for (size_t i = 0; i < sizeof stream_ways / sizeof *stream_ways; i++)
        memory_probe_add(m, stream_ways[i].name, (int64_t)i, stream_ways[i].operation);
    memory_probe_add(m, "copy_string", ROOF_copy_string, ROOF_COPY);
    memory_probe_add(m, "write_string", ROOF_write_string, ROOF_WRITE);
}

static void unit_probes_add(measuring *m) {
    hr_roof *roof = m->roof;
    const struct {
        double *rate, *tensor;
    } raises[UNITS] = {
        [UNIT_F32] = {&roof->vector_f32, &roof->tensor_f32},
        [UNIT_F64] = {&roof->vector_f64, NULL},
        [UNIT_F16] = {&roof->vector_f16, &roof->tensor_f16},
        [UNIT_BF16] = {&roof->vector_bf16, &roof->tensor_bf16},
        [UNIT_I32] = {&roof->vector_i32, NULL},
        [UNIT_I8] = {&roof->vector_i8, &roof->tensor_i8},
        [UNIT_TILE_BF16] = {&roof->tensor_bf16, NULL},
        [UNIT_TILE_I8] = {&roof->tensor_i8, NULL},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        probe_add(m, (probe){.name = units[i].name,
                             .module = m->kernels,
                             .place = PLACE_REGISTERS,
                             .kernel = ROOF_fma_f32 + (int64_t)i,
                             .rate = raises[units[i].unit].rate,
                             .tensor = raises[units[i].unit].tensor});
}

static void special_probes_add(measuring *m) {
    for (int special = HR_SPECIAL_NONE + 1; m->special && special < HR_SPECIAL_COUNT; special++)
        for (int way = 0; way < HR_SPECIAL_WAYS; way++)
            probe_add(m, (probe){.name = hr_special_name((hr_special)special),
                                 .module = m->special,
                                 .place = PLACE_SPECIAL,
                                 .kernel = special * HR_SPECIAL_WAYS + way,
                                 .bytes = HR_SPECIAL_BYTES,
                                 .rate = &m->roof->special[special]});
}

/* Everything once more with half the threads: two on one core may be in each other's way. */
static void halves_add(measuring *m) {
    int count = m->probe_count, half = m->device->limits.threads / 2;
    for (int i = 0; i < count && half > 0 && m->probe_count < PROBES_MAX; i++) {
        m->probes[m->probe_count] = m->probes[i];
        m->probes[m->probe_count++].threads = half;
    }
}

/* ---- one sample ---- */

/* What came of one run. */
typedef struct outcome {
    double rate;    /* 0 where the machine cannot */
    double present; /* the share of the time in which its threads had processors: below 1 others were in the
                       way */
} outcome;

/* Runs a probe once, from byte `at` of each thread's region on. */
static outcome sample_once(measuring *m, const probe *p, int64_t bytes, int64_t at) {
    /* Outside of memory it is always the same place, which stays warm. */
    int rotation = p->place == PLACE_MEMORY ? m->rotation++ : 0;
    bool special = p->place == PLACE_SPECIAL;
    char *values = m->values, *results = m->values + m->device->limits.threads * p->bytes;
    double work = 0;
    hr_execution execution = {
        .pointers = (void *[]){special ? results : m->streams[rotation % ROLES] + at,
                               special ? values : m->streams[(rotation + 1) % ROLES] + at,
                               m->streams[(rotation + 2) % ROLES] + at},
        .threads = p->threads,
        .scratch = &work,
        .tuning = (int64_t[]){p->kernel, bytes, special ? bytes : m->region, p->rounds},
    };
    hr_fault fault = {0};
    double start = hr_clock_seconds(), start_used = processor_seconds();
    int result = p->module->entry(&execution, &fault);
    double used = processor_seconds() - start_used, seconds = hr_clock_seconds() - start;
    if (result || seconds <= 0) return (outcome){0, 1};
    return (outcome){work / seconds, used / (seconds * p->threads)};
}

static bool is_late(const measuring *m) {
    return hr_clock_seconds() - m->started >= ((const hr_device_cpu *)m->device)->roof_seconds;
}

/* The least disturbed of a few runs; the first that was left alone ends it. On a busy machine none is, and it
 * would take minutes to try each so often. */
static double sample(measuring *m, const probe *p, int64_t bytes, int64_t at) {
    outcome best = {0};
    for (int i = 0; i < TRIES && best.present < PRESENT && (i == 0 || !is_late(m)); i++) {
        outcome next = sample_once(m, p, bytes, at);
        if (next.present > best.present) best = next;
    }
    return best.rate;
}

/* The least of a few, on one thread: waiting for others must not count. 0 where the machine cannot. */
static double sample_seconds(measuring *m, const probe *one) {
    double least = INFINITY;
    probe alone = *one, *p = &alone;
    p->threads = 1;
    for (int i = 0; i < CALIBRATE_REPEATS; i++) {
        double start = hr_clock_seconds();
        if (sample_once(m, p, p->bytes, 0).rate == 0) return 0;
        least = fmin(least, hr_clock_seconds() - start);
    }
    return least;
}

/* As many rounds as fill a sample. */
static void calibrate(measuring *m, probe *p) {
    for (p->rounds = 64; p->rounds < (int64_t)1 << 40; p->rounds *= 4) {
        double seconds = sample_seconds(m, p);
        if (seconds == 0) p->count = -1;
        if (seconds == 0 || seconds > SAMPLE_SECONDS) return;
        if (seconds > SAMPLE_SECONDS / 4) {
            p->rounds = (int64_t)((double)p->rounds * SAMPLE_SECONDS / seconds) + 1;
            return;
        }
    }
}

static void raise_rate(double *rate, double value) {
    if (rate && value > *rate) *rate = value;
}

/* What a baseline copy runs (copy_cpu.c). */
static void note_copy(hr_roof *roof, const probe *p, double rate) {
    if (p->rate != &roof->copy || rate <= roof->copy) return;
    hr_roof_name_copy(roof, p->name, p->threads);
}

/* ---- the stages of measuring ---- */

static hr_status streams_allocate(measuring *m) {
    const hr_device_cpu *cpu = (const hr_device_cpu *)m->device;
    int threads = m->device->limits.threads;
    int64_t bytes = m->device->limits.l3_bytes * 3 / 2, most = hr_machine_memory() / 6;
    if (bytes < STREAM_LEAST) bytes = STREAM_LEAST;
    if (bytes > STREAM_MOST) bytes = STREAM_MOST;
    if (cpu->roof_stream_bytes) bytes = cpu->roof_stream_bytes;
    if (bytes > most) bytes = most;
    m->region = bytes / threads / STREAM_UNIT * STREAM_UNIT;
    if (m->region == 0) m->region = REGION_UNIT * 16;
    m->stream_bytes = m->region * threads + REGION_UNIT;
    for (int i = 0; i < ROLES; i++) {
        void *data;
        HR_TRY(m->device->ops->allocate(m->device, (size_t)m->stream_bytes, &data));
        m->streams[i] = data;
    }
    hr_touch_near(m->streams, ROLES, m->region, threads);
    return advance(m, "memory", 2);
}

/* Ordinary arguments of every function: none is negative, huge, or not a number. */
static hr_status values_allocate(measuring *m) {
    int64_t count = m->device->limits.threads * HR_SPECIAL_BYTES / 4;
    void *data;
    HR_TRY(m->device->ops->allocate(m->device, (size_t)count * 8, &data));
    m->values = data;
    for (int64_t i = 0; i < count; i++)
        ((float *)data)[i] = 0.0625f + (float)(i % 61) * 0.0625f;
    return HR_OK;
}

/* A part of each thread's stream, `bytes` or more, and how many there are. Many threads' parts are larger:
 * they begin and end at different times, and a short one would time that. */
static int64_t parts_of(const measuring *m, int64_t bytes, int64_t *places) {
    if (bytes < PART_LEAST) bytes = PART_LEAST;
    if (bytes > m->region) bytes = m->region;
    *places = m->region / bytes;
    if (*places % ROLES == 0) *places -= 1;
    return bytes / REGION_UNIT * REGION_UNIT;
}

/* Compares the ways through memory on parts of it and drops all but the best of each operation. */
static hr_status memory_select(measuring *m) {
    int64_t places, bytes = parts_of(m, SLICE / m->device->limits.threads, &places), next = 0;
    for (int repeat = 0; repeat < SELECT_REPEATS; repeat++)
        for (int i = 0; i < m->probe_count; i++) {
            probe *p = &m->probes[i];
            if (p->place != PLACE_MEMORY) continue;
            p->samples[p->count++] = sample(m, p, bytes, next++ % places * bytes);
            HR_TRY(advance(m, p->name, 0.005));
        }
    double rates[PROBES_MAX];
    for (int i = 0; i < m->probe_count; i++)
        if (m->probes[i].place == PLACE_MEMORY) rates[i] = best_of(m->probes[i].samples, m->probes[i].count);
    for (int i = 0; i < m->probe_count; i++) {
        int better = 0;
        if (m->probes[i].place != PLACE_MEMORY) continue;
        for (int j = 0; j < m->probe_count; j++)
            better += m->probes[j].place == PLACE_MEMORY &&
                      m->probes[j].operation == m->probes[i].operation &&
                      (rates[j] > rates[i] || (rates[j] == rates[i] && j < i));
        m->probes[i].count = better < SELECTED ? 0 : -1;
    }
    return HR_OK;
}

static hr_status batch(measuring *m) {
    int64_t places, bytes = parts_of(m, m->region / PARTS, &places);
    for (int i = 0; i < m->probe_count; i++)
        if (m->probes[i].count > 0) m->probes[i].count = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (int i = 0; i < m->probe_count; i++) {
            probe *p = &m->probes[i];
            if (p->count < 0) continue;
            bool memory = p->place == PLACE_MEMORY;
            p->samples[p->count++] =
                sample(m, p, memory ? bytes : p->bytes, memory ? m->rotation % places * bytes : 0);
            HR_TRY(advance(m, p->name, memory ? 0.008 : SAMPLE_SECONDS));
        }
    for (int i = 0; i < m->probe_count; i++) {
        probe *p = &m->probes[i];
        if (p->count <= 0) continue;
        double rate =
            p->place == PLACE_MEMORY ? hr_median(p->samples, p->count) : best_of(p->samples, p->count);
        note_copy(m->roof, p, rate);
        raise_rate(p->rate, rate);
        raise_rate(p->tensor, rate);
    }
    return HR_OK;
}

/* The least time of an empty parallel region: where others hold a processor, most wait for it. */
static void launch_measure(measuring *m) {
    probe nothing = {.module = m->kernels,
                     .place = PLACE_REGISTERS,
                     .kernel = ROOF_empty,
                     .rounds = 1,
                     .threads = m->device->limits.threads};
    for (int i = 0; i < LAUNCH_SAMPLES; i++) {
        double start = hr_clock_seconds();
        sample_once(m, &nothing, 0, 0);
        double seconds = hr_clock_seconds() - start;
        if (m->roof->launch == 0 || seconds < m->roof->launch) m->roof->launch = seconds;
    }
}

/* ---- one thread against all ---- */

double hr_roof_shortfall(double alone, double together, int threads) {
    if (!(alone > 0 && together > 0)) return 0;
    double least = ALONE_SLACK * alone, most = threads * alone / ALONE_SLACK;
    return together < least ? 1 - together / alone : together > most ? 1 - threads * alone / together : 0;
}

/* A probe once more, on one thread. */
static double rate_alone(measuring *m, const probe *of, int64_t bytes) {
    probe alone = *of;
    double best = 0;
    alone.threads = 1;
    for (int i = 0; i < ALONE_SAMPLES; i++)
        best = fmax(best, sample(m, &alone, bytes, 0));
    return best;
}

/* What one thread does tells whether others kept all threads together from the machine's best. Memory counts
 * where a thread's share of it is no cache's. */
static void cross_check(measuring *m) {
    int64_t places, bytes = parts_of(m, m->region / PARTS, &places);
    bool memory = bytes > m->device->limits.l3_bytes;
    for (int i = 0; i < m->probe_count; i++) {
        const probe *p = &m->probes[i];
        bool copy = memory && p->count > 0 && p->place == PLACE_MEMORY && p->rate == &m->roof->copy;
        bool whole = p->threads == m->device->limits.threads;
        if (!whole || !(copy ? strcmp(p->name, m->roof->copy_way) == 0 : p->rate == &m->roof->vector_f32))
            continue;
        double alone = rate_alone(m, p, copy ? bytes : p->bytes);
        m->roof->busy = fmax(m->roof->busy, hr_roof_shortfall(alone, *p->rate, p->threads));
    }
}

static hr_status measure(measuring *m, const char *special) {
    const hr_device_ops *ops = m->device->ops;
    int batches = ((const hr_device_cpu *)m->device)->roof_batches;
    HR_TRY(advance(m, "compiling", 0));
    HR_TRY(ops->compile(m->device, (const char *)hr_roof_text, strlen((const char *)hr_roof_text),
                        HR_COMPILE_VECTOR_512, &m->kernels));
    if (special)
        HR_TRY(ops->compile(m->device, special, strlen(special), HR_COMPILE_VECTOR_512, &m->special));
    HR_TRY(advance(m, "memory", 4));
    HR_TRY(streams_allocate(m));
    HR_TRY(values_allocate(m));
    memory_probes_add(m);
    cache_probes_add(m);
    unit_probes_add(m);
    special_probes_add(m);
    for (int i = 0; i < m->probe_count; i++)
        if (m->probes[i].place != PLACE_MEMORY) calibrate(m, &m->probes[i]);
    halves_add(m);
    HR_TRY(memory_select(m));
    for (int i = 0; i < batches && (i == 0 || !is_late(m)); i++) {
        HR_TRY(batch(m));
        launch_measure(m);
    }
    cross_check(m);
    return advance(m, "measured", 0);
}

hr_status hr_roof_cpu_measure(struct hr_device *device, const hr_roof_sources *sources,
                              hr_progress_fn progress, void *context, hr_roof *out) {
    hr_roof roof = {.threads = device->limits.threads, .measured_at = (double)time(NULL)};
    measuring *m = calloc(1, sizeof *m);
    if (!m) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while measuring the roof");
    *m = (measuring){.device = device, .roof = &roof, .progress = progress, .context = context, .total = 15};
    m->started = hr_clock_seconds();
    hr_status status = measure(m, sources ? sources->functions : NULL);
    for (int i = 0; i < ROLES; i++)
        device->ops->release(device, m->streams[i], (size_t)m->stream_bytes);
    device->ops->release(device, m->values, (size_t)device->limits.threads * HR_SPECIAL_BYTES * 2);
    device->ops->unload(device, m->kernels);
    device->ops->unload(device, m->special);
    free(m);
    if (status == HR_OK) *out = roof;
    return status;
}
