/* The baseline: a copy to hold a kernel's time against, in the same moments: memory that others use, too, has
 * no speed of its own that could be measured once.
 *
 * In: the roof, which says which of its copies was the fastest; the kernel's arrays; how many bytes. Out:
 * seconds. The copy reads the arrays and writes a buffer, up to 48 MB a pass, which are put out of the caches
 * before it, in as many passes as the bytes need. A pass is short: one that lost a processor to another
 * program for a slice of time says nothing of the memory, shows it clearly, and does not count. It is not
 * shorter, since a kernel starts its threads once and only one of the passes counts with that: 32 threads
 * copy 16 MB in the time of eight starts.
 *
 * The fastest copy of a busy moment need not be the fastest of another: which it is can be asked anew.
 */
#include "base/clock.h"
#include "device/device_cpu.h"
#include "device/roof/roof_list.h"
#include "device/roof_text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PASS_LONG    ((int64_t)48 << 20) /* read of the kernel's arrays, and as many written */
#define PASS_SHORT   ((int64_t)16 << 20) /* where they are shorter, and what is read is a buffer, too */
#define LINE         64
#define PAGE         4096
#define PASSES_MOST  64
#define SLOWER_MOST  3.0  /* than the fastest pass of a copy, and */
#define ROOF_PARTS   4.0  /* than the roof, before a pass counts as disturbed */
#define SECONDS_MOST 0.04 /* of one copy with its cooling; what is left of the bytes then is reckoned */
#define SAMPLES      5    /* of each copy where all are compared, and how much */
#define FASTER       1.05 /* another has to be to take the place of the one that was chosen before */

typedef struct hr_copy_cpu {
    hr_module *module;
    char *from, *to;   /* of `pass` bytes; from: for arrays shorter than those, NULL until needed */
    int64_t array, at; /* where the next pass reads */
    int64_t pass;      /* bytes */
    int way, threads;
    int64_t unit; /* bytes that the way takes at a time */
} hr_copy_cpu;

static const struct {
    const char *name;
    int way, operation, pages, past;
} ways[] = {
#define STREAM_WAY(name, operation, lines, pages, ahead, locality, past)                                     \
    {#name, ROOF_##name, ROOF_##operation, pages, past},
    ROOF_STREAMS(STREAM_WAY)
#undef STREAM_WAY
};

enum { WAYS = sizeof ways / sizeof *ways };

static const char ordinary[] = "copy_past_1_2k_second"; /* where the roof's copy writes into the caches */

/* Only stores past the caches: those of a pass would stay in them, and memory would see none. */
static bool is_candidate(int way) {
    return ways[way].operation == ROOF_COPY && ways[way].past;
}

static const char *way_name(const hr_roof *roof) {
    for (int i = 0; i < WAYS; i++)
        if (is_candidate(i) && strcmp(ways[i].name, roof->copy_way) == 0) return ways[i].name;
    return strncmp(roof->copy_way, "copy_", 5) == 0 ? ordinary : "";
}

static hr_status way_find(const hr_roof *roof, hr_copy_cpu *out) {
    const char *name = way_name(roof);
    for (int i = 0; i < WAYS; i++) {
        if (strcmp(ways[i].name, name) != 0) continue;
        out->way = ways[i].way;
        out->unit = (int64_t)ways[i].pages * PAGE;
        out->threads = roof->copy_threads;
        if (out->threads > 0) return HR_OK;
    }
    return hr_fail(HR_NOT_AVAILABLE,
                   "the roof does not say which copy was its fastest: headroom roof --again");
}

static int64_t bytes_a_thread(const hr_copy_cpu *copy) {
    int64_t bytes = copy->pass / copy->threads / copy->unit * copy->unit;
    return bytes > copy->unit ? bytes : copy->unit;
}

static hr_status buffer_make(struct hr_device *device, const hr_copy_cpu *copy, char **out) {
    int64_t each = bytes_a_thread(copy);
    void *buffer;
    HR_TRY(device->ops->allocate(device, (size_t)copy->pass, &buffer));
    *out = buffer;
    hr_touch_near((char *[]){*out}, 1, each, copy->threads);
    return HR_OK;
}

static hr_status prepare(struct hr_device *device, hr_copy_cpu *copy) {
    HR_TRY(device->ops->compile(device, (const char *)hr_roof_text, strlen((const char *)hr_roof_text),
                                HR_COMPILE_VECTOR_512, &copy->module));
    if (bytes_a_thread(copy) * copy->threads > copy->pass)
        return hr_fail(HR_NOT_AVAILABLE, "%d threads are too many for the copy's buffers", copy->threads);
    return buffer_make(device, copy, &copy->to);
}

void hr_copy_cpu_destroy(struct hr_device *device) {
    hr_copy_cpu *copy = ((hr_device_cpu *)device)->copy;
    if (!copy) return;
    device->ops->release(device, copy->from, (size_t)copy->pass);
    device->ops->release(device, copy->to, (size_t)copy->pass);
    device->ops->unload(device, copy->module);
    free(copy);
    ((hr_device_cpu *)device)->copy = NULL;
}

/* With the kernel's scratch no more than a long pass: a run may take 64 MB beside its arrays. */
static int64_t pass_bytes(const hr_execution *arrays) {
    int64_t most = PASS_LONG - arrays->scratch_bytes;
    for (int i = 0; arrays->bytes && i < arrays->count; i++)
        if (arrays->pointers[i] && arrays->bytes[i] >= most + LINE)
            return most > PASS_SHORT ? most : PASS_SHORT;
    return PASS_SHORT;
}

static hr_status copy_open(struct hr_device *device, const hr_roof *roof, const hr_execution *arrays) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    hr_copy_cpu wanted = {.pass = pass_bytes(arrays)};
    HR_TRY(way_find(roof, &wanted));
    if (cpu->copy && cpu->copy->way == wanted.way && cpu->copy->threads == wanted.threads &&
        cpu->copy->pass == wanted.pass)
        return HR_OK;
    hr_copy_cpu_destroy(device);
    cpu->copy = malloc(sizeof wanted);
    if (!cpu->copy) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the baseline copy");
    *cpu->copy = wanted;
    hr_status status = prepare(device, cpu->copy);
    if (status != HR_OK) hr_copy_cpu_destroy(device);
    return status;
}

/* Mean seconds of those passes that nobody disturbed; 0 where there was none. */
static double mean_of(const double *passes, int count, double most) {
    double fastest = INFINITY, sum = 0;
    int good = 0;
    for (int i = 0; i < count; i++)
        fastest = fmin(fastest, passes[i]);
    for (int i = 0; i < count; i++)
        if (passes[i] <= fmin(SLOWER_MOST * fastest, most)) {
            sum += passes[i];
            good++;
        }
    return good ? sum / good : 0;
}

/* Where the next pass reads `whole` bytes: the arrays of the launch, one stretch after the other. Within 16
 * MB reading is up to 4 % faster than a kernel's can be. */
static hr_status source_next(struct hr_device *device, hr_copy_cpu *copy, const hr_execution *arrays,
                             int64_t whole, void **out) {
    for (int64_t tries = 0; arrays->bytes && tries <= arrays->count; tries++) {
        copy->array = copy->array < arrays->count ? copy->array : 0;
        char *first = arrays->pointers[copy->array];
        int64_t skip = (int64_t)(-(uintptr_t)first % LINE), length = arrays->bytes[copy->array] - skip;
        if (first && copy->at + copy->pass <= length) {
            *out = first + skip + copy->at;
            copy->at += whole;
            return HR_OK;
        }
        copy->array++;
        copy->at = 0;
    }
    if (!copy->from) HR_TRY(buffer_make(device, copy, &copy->from));
    *out = copy->from;
    return HR_OK;
}

/* `needed` passes of `each` bytes a thread, or as many as the time allows; a good one takes at most `most`.
 */
static hr_status passes_time(struct hr_device *device, hr_copy_cpu *copy, const hr_execution *arrays,
                             int64_t each, double needed, double most, double *seconds) {
    double work = 0, passes[PASSES_MOST], started = hr_clock_seconds();
    int64_t whole = each * copy->threads;
    int count = 0;
    void *pointers[3] = {copy->to};
    hr_execution execution = {
        .pointers = pointers,
        .threads = copy->threads,
        .scratch = &work,
        .tuning = (int64_t[]){copy->way, each, each, 1},
        .count = 2,
        .bytes = (int64_t[]){whole, whole},
    };
    while (count < fmin(needed, PASSES_MOST) && (count == 0 || hr_clock_seconds() - started < SECONDS_MOST)) {
        HR_TRY(source_next(device, copy, arrays, whole, &pointers[1]));
        pointers[2] = pointers[1];
        HR_TRY(device->ops->time(device, copy->module, &execution, &passes[count++]));
    }
    *seconds = mean_of(passes, count, most);
    return HR_OK;
}

hr_status hr_copy_cpu_time(struct hr_device *device, const hr_roof *roof, const hr_execution *arrays,
                           double bytes, double *seconds) {
    if (!(bytes > 0 && roof->copy > 0)) return hr_fail(HR_BAD_INPUT, "a copy of no bytes, or without a roof");
    HR_TRY(copy_open(device, roof, arrays));
    hr_copy_cpu *copy = ((hr_device_cpu *)device)->copy;
    double units = ceil(bytes / 2 / copy->threads / (double)copy->unit), pass;
    int64_t most = bytes_a_thread(copy),
            each = units * (double)copy->unit < (double)most ? (int64_t)units * copy->unit : most;
    double whole = 2.0 * (double)(each * copy->threads), slowest = ROOF_PARTS * whole / roof->copy;
    HR_TRY(passes_time(device, copy, arrays, each, ceil(bytes / whole), roof->launch + slowest, &pass));
    double start = fmin(roof->launch, 0.5 * pass);
    *seconds = pass > 0 ? start + (pass - start) * bytes / whole : 0;
    return HR_OK;
}

/* ---- which copy ---- */

/* One of the ways on so many threads. */
typedef struct candidate {
    int way, threads;
    double seconds[SAMPLES]; /* of a pass */
} candidate;

/* With half of the threads, too: two on one core may be in each other's way. */
static int candidates_list(int threads, candidate *out) {
    int count = 0;
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < WAYS && threads >> half; i++)
            if (is_candidate(i)) out[count++] = (candidate){.way = i, .threads = threads >> half};
    return count;
}

static hr_status candidate_time(struct hr_device *device, hr_copy_cpu *copy, const hr_execution *arrays,
                                const candidate *candidate, double *seconds) {
    copy->way = ways[candidate->way].way;
    copy->unit = (int64_t)ways[candidate->way].pages * PAGE;
    copy->threads = candidate->threads;
    int64_t each = bytes_a_thread(copy);
    HR_TRY(passes_time(device, copy, arrays, each, 1, INFINITY, seconds));
    *seconds *= (double)copy->pass / (double)(each * copy->threads); /* units leave a rest */
    return HR_OK;
}

static hr_status candidates_time(struct hr_device *device, const hr_execution *arrays, candidate *list,
                                 int count) {
    hr_copy_cpu *copy = ((hr_device_cpu *)device)->copy;
    for (int sample = 0; sample < SAMPLES; sample++)
        for (int i = 0; i < count; i++)
            HR_TRY(candidate_time(device, copy, arrays, &list[i], &list[i].seconds[sample]));
    return HR_OK;
}

static bool choose(candidate *list, int count, hr_roof *roof) {
    double present = INFINITY, least = INFINITY;
    int best = 0;
    for (int i = 0; i < count; i++) {
        double seconds = hr_median(list[i].seconds, SAMPLES);
        if (strcmp(ways[list[i].way].name, way_name(roof)) == 0 && list[i].threads == roof->copy_threads)
            present = seconds;
        if (seconds < least) best = i;
        least = fmin(least, seconds);
    }
    if (least * FASTER >= present) return false;
    hr_roof_name_copy(roof, ways[list[best].way].name, list[best].threads);
    return true;
}

hr_status hr_copy_cpu_choose(struct hr_device *device, const hr_execution *arrays, hr_roof *roof,
                             bool *chosen) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    candidate list[2 * WAYS];
    *chosen = false;
    if (cpu->copy_compared) return HR_OK;
    cpu->copy_compared = true;
    HR_TRY(copy_open(device, roof, arrays));
    int count = candidates_list(device->limits.threads, list);
    hr_status status = candidates_time(device, arrays, list, count);
    if (status == HR_OK) *chosen = choose(list, count, roof);
    hr_copy_cpu_destroy(device); /* it is another's now */
    return status;
}
