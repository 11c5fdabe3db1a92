/* One line a kernel: share, spread, what limits its occupancy, how far from the roof it is.
 *
 * In: joined works with their steps. Out: summaries by falling share. Bytes and operations come from hardware
 * counters where the trace has them, else from the operator's shapes, else they are not known.
 */
#include "base/saturate.h"
#include "diagnose/shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of those launches that have the value. */
typedef struct mean {
    double sum;
    int64_t count;
} mean;

/* What is added up over the launches of a kernel. */
typedef struct sums {
    int64_t known;        /* launches with bytes or operations */
    double known_seconds; /* their time */
    double floor;         /* least time for their work */
    double memory, math;  /* least time by each roof */
    double bytes, flops;
    int64_t counted; /* launches with hardware counters */
    int64_t floored; /* launches that say their floor */
    mean dram, dram_of_peak, sm_of_peak, l1_hit, l2_hit, load, store, tensor, vector, tensor_active;
} sums;

typedef struct table {
    hr_analysis *analysis;
    hr_arena *keep;
    hr_kernel_summary *kernels;
    sums *sums;
    int32_t *by_name; /* 1 + kernel, 0 = none yet */
    int count;
} table;

static bool is_counted(const hr_analysis *analysis, const hr_work *work) {
    return work->device == analysis->device && work->step >= analysis->steps.first;
}

/* ---- occupancy ---- */

static int64_t at_most(int64_t blocks, int64_t limit, hr_limiter limiter, hr_kernel_summary *kernel) {
    if (limit >= blocks) return blocks;
    kernel->limiter = limiter;
    return limit;
}

/* Of three sizes, which a recording may hold of any size. */
static int64_t product(const int32_t sizes[3]) {
    return hr_saturate_product((int64_t)sizes[0] * sizes[1], sizes[2]);
}

/* Registers are given to a warp in units of 256, shared memory to a block with 1 KB on top since sm_80. */
static void occupy(const hr_ceiling *ceiling, const hr_kernel_work *work, hr_kernel_summary *kernel) {
    int64_t threads = product(work->block), grid = product(work->grid), warps = hr_divide_up(threads, 32);
    int64_t shared = (int64_t)work->shared_static + work->shared_dynamic;
    kernel->registers = work->registers;
    kernel->shared = hr_saturate_int(shared);
    kernel->block = hr_saturate_int(threads);
    kernel->grid = hr_saturate_int(grid);
    kernel->achieved = work->occupancy;
    if (threads <= 0 || grid <= 0 || ceiling->warps <= 0 || ceiling->multiprocessors <= 0) return;
    kernel->limiter = HR_LIMITER_NONE;
    int64_t blocks = at_most(INT32_MAX, ceiling->warps / warps, HR_LIMITER_NONE, kernel);
    blocks = at_most(blocks, ceiling->blocks, HR_LIMITER_BLOCK, kernel);
    int64_t registers = hr_saturate_product(hr_round_up((int64_t)work->registers * 32, 256), warps);
    if (registers > 0) blocks = at_most(blocks, ceiling->registers / registers, HR_LIMITER_REGISTERS, kernel);
    if (shared > 0)
        blocks = at_most(blocks, ceiling->shared / (shared + (ceiling->compute >= 80 ? 1024 : 0)),
                         HR_LIMITER_SHARED, kernel);
    if (blocks <= 0) blocks = 1; /* it did run: what is known of the device is not enough */
    kernel->occupancy = fmin(1, (double)(blocks * warps) / ceiling->warps);
    kernel->waves = (double)grid / (double)(blocks * ceiling->multiprocessors);
    if (kernel->waves < 1) kernel->limiter = HR_LIMITER_GRID;
}

/* ---- the roof ---- */

static double math_rate(const hr_ceiling *ceiling, const hr_work *work, int element) {
    if (work->kind != HR_TIME_MATRIX) return ceiling->vector_f32;
    if (element == 2) return ceiling->tensor_half;
    if (work->flags & HR_WORK_FULL) return ceiling->vector_f32;
    return ceiling->tensor_tf32 > 0 ? ceiling->tensor_tf32 : ceiling->vector_f32;
}

static void add_work_done(sums *sum, const hr_ceiling *ceiling, double seconds, double bytes, double flops,
                          double rate) {
    double memory = bytes > 0 && ceiling->memory > 0 ? bytes / ceiling->memory : 0;
    double math = flops > 0 && rate > 0 ? flops / rate : 0;
    if (memory <= 0 && math <= 0) return;
    sum->known++;
    sum->known_seconds += seconds;
    sum->memory += memory;
    sum->math += math;
    sum->floor += fmax(memory, math);
    sum->bytes += bytes;
    sum->flops += flops;
}

static void add_to_mean(mean *mean, double value) {
    if (!isfinite(value)) return;
    mean->sum += value;
    mean->count++;
}

static double mean_of(const mean *mean) {
    return mean->count ? mean->sum / (double)mean->count : -1;
}

static void add_counters(sums *sum, const hr_counters *counters) {
    add_to_mean(&sum->dram, counters->dram_read + counters->dram_written);
    add_to_mean(&sum->dram_of_peak, counters->dram_of_peak);
    add_to_mean(&sum->sm_of_peak, counters->sm_of_peak);
    add_to_mean(&sum->l1_hit, counters->l1_hit);
    add_to_mean(&sum->l2_hit, counters->l2_hit);
    add_to_mean(&sum->load, counters->sectors_per_load);
    add_to_mean(&sum->store, counters->sectors_per_store);
    add_to_mean(&sum->tensor, counters->tensor_instructions);
    add_to_mean(&sum->vector, counters->vector_instructions);
    add_to_mean(&sum->tensor_active, counters->tensor_active);
}

static const hr_kernel_work *kernel_work(const hr_analysis *analysis, const hr_work *work) {
    const hr_trace *trace = analysis->trace;
    const hr_event *event = &trace->events.items[work->event];
    return event->kind == HR_EVENT_KERNEL && event->detail >= 0 && event->detail < trace->kernels.count
               ? &trace->kernels.items[event->detail]
               : NULL;
}

/* A kernel of headroom's own, alone in the range that says what it must move. */
static bool add_floor(sums *sum, const hr_analysis *analysis, const hr_work *work, double seconds) {
    if (work->call < 0 || analysis->calls[work->call].operation < 0) return false;
    int32_t call = work->call, range = analysis->calls[call].operation;
    const hr_event *event = &analysis->trace->events.items[range];
    hr_own_floor own;
    if (!hr_own_floor_read(hr_trace_string(analysis->trace, event->name), &own)) return false;
    for (int other = call - 1; other <= call + 1; other += 2)
        if (other >= 0 && other < analysis->call_count && analysis->calls[other].operation == range &&
            analysis->calls[other].work >= 0)
            return true; /* one of several: its part of the work is not known */
    bool memory = strcmp(own.bound, "memory") == 0;
    sum->known++;
    sum->known_seconds += seconds;
    sum->floor += own.seconds;
    sum->memory += memory ? own.seconds : 0;
    sum->math += memory ? 0 : own.seconds;
    sum->bytes += own.bytes;
    sum->flops += own.flops;
    return true;
}

/* Bytes and operations by the operator's shapes; false where they are not known. */
static bool work_by_shapes(const hr_analysis *analysis, int number, double *bytes, double *flops,
                           double *rate) {
    const hr_work *work = &analysis->works[number];
    hr_shapes shapes;
    const char *name;
    bool single =
        work->call >= 0 && analysis->calls[work->call].work == analysis->calls[work->call].last_work;
    if (!single || (work->flags & HR_WORK_CONVOLUTION) || !hr_work_shapes(analysis, number, &shapes, &name))
        return false;
    hr_shapes_work(name, &shapes, work->kind, bytes, flops);
    *rate = math_rate(&analysis->ceiling, work, shapes.bytes[0]);
    return true;
}

static void add_launch(table *table, int kernel, int number) {
    const hr_analysis *analysis = table->analysis;
    const hr_trace *trace = analysis->trace;
    const hr_work *work = &analysis->works[number];
    const hr_kernel_work *launch = kernel_work(analysis, work);
    sums *sum = &table->sums[kernel];
    double seconds = (double)(work->end - work->start) * 1e-9, bytes = 0, flops = 0, rate = 0;
    const hr_counters *counters = launch && launch->counters >= 0 && launch->counters < trace->counters.count
                                      ? &trace->counters.items[launch->counters]
                                      : NULL;
    if (counters) add_counters(sum, counters);
    int64_t known = sum->known;
    if (add_floor(sum, analysis, work, seconds)) {
        sum->floored += sum->known > known;
        return;
    }
    bool shaped = work_by_shapes(analysis, number, &bytes, &flops, &rate);
    if (!shaped) bytes = flops = rate = 0;
    if (counters && isfinite(counters->dram_read + counters->dram_written)) {
        bytes = counters->dram_read + counters->dram_written; /* what was moved, not what must be */
        sum->counted++;
    } else if (!shaped)
        return;
    add_work_done(sum, &analysis->ceiling, seconds, bytes, flops, rate);
}

static void judge(table *table, int number) {
    hr_kernel_summary *kernel = &table->kernels[number];
    const sums *sum = &table->sums[number];
    kernel->l1_hit = mean_of(&sum->l1_hit);
    kernel->l2_hit = mean_of(&sum->l2_hit);
    kernel->sectors_per_load = mean_of(&sum->load);
    kernel->sectors_per_store = mean_of(&sum->store);
    kernel->tensor_instructions = mean_of(&sum->tensor);
    kernel->vector_instructions = mean_of(&sum->vector);
    kernel->dram_bytes = mean_of(&sum->dram);
    kernel->tensor_active = mean_of(&sum->tensor_active);
    kernel->dram_of_peak = mean_of(&sum->dram_of_peak);
    kernel->sm_of_peak = mean_of(&sum->sm_of_peak);
    kernel->counted = sum->counted > 0;
    if (sum->known) {
        kernel->bytes = sum->bytes / (double)sum->known;
        kernel->flops = sum->flops / (double)sum->known;
        kernel->roof_fraction = sum->known_seconds > 0 ? fmin(1, sum->floor / sum->known_seconds) : 0;
        kernel->bound = sum->math > sum->memory ? HR_BOUND_COMPUTE : HR_BOUND_MEMORY;
    }
    bool peaks = kernel->dram_of_peak >= 0 && !sum->floored;
    if (peaks) { /* the hardware's own word, which knows of caches */
        double dram = kernel->dram_of_peak, sm = fmax(0, kernel->sm_of_peak);
        kernel->bound = dram > sm ? HR_BOUND_MEMORY : HR_BOUND_COMPUTE;
        kernel->roof_fraction = fmin(1, fmax(dram, sm));
        if (kernel->roof_fraction < 0.6 && kernel->waves > 0 && kernel->waves < 1)
            kernel->bound = HR_BOUND_LATENCY;
    }
    if (kernel->roof_fraction < 0.2 && (sum->known || peaks) &&
        ((kernel->waves > 0 && kernel->waves < 0.5) || kernel->median < 4e-6))
        kernel->bound = HR_BOUND_LATENCY;
}

/* ---- the table ---- */

static int kernel_of_work(table *table, const hr_work *work) {
    const hr_analysis *analysis = table->analysis;
    const hr_event *event = &analysis->trace->events.items[work->event];
    if (event->name < 0) return -1;
    int32_t *slot = &table->by_name[event->name];
    if (*slot) return *slot - 1;
    int number = table->count++;
    const hr_kernel_work *launch = kernel_work(analysis, work);
    hr_kernel_summary *kernel = &table->kernels[number];
    *kernel = (hr_kernel_summary){.name = event->name,
                                  .operator_name = -1,
                                  .kind = work->kind,
                                  .occupancy = -1,
                                  .achieved = -1,
                                  .shortest = INFINITY};
    kernel->short_name = hr_kernel_short_name(table->keep, hr_trace_string(analysis->trace, event->name));
    if (launch) occupy(&analysis->ceiling, launch, kernel);
    if (work->kind == HR_TIME_MATRIX)
        kernel->unit = work->flags & HR_WORK_TENSOR ? HR_UNIT_TENSOR
                       : work->flags & HR_WORK_FULL ? HR_UNIT_VECTOR
                                                    : HR_UNIT_UNKNOWN;
    kernel->full_precision = work->kind == HR_TIME_MATRIX && (work->flags & HR_WORK_FULL);
    kernel->misaligned = work->kind == HR_TIME_MATRIX && (work->flags & HR_WORK_MISALIGNED);
    if (work->call >= 0 && analysis->calls[work->call].operation >= 0)
        kernel->operator_name = analysis->trace->events.items[analysis->calls[work->call].operation].name;
    *slot = number + 1;
    return number;
}

static int compare_seconds(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Medians: durations of all launches, kernel after kernel. */
static void find_medians(table *table, const int32_t *kernel_of) {
    const hr_analysis *analysis = table->analysis;
    hr_arena *arena = analysis->arena;
    double *durations = hr_arena_alloc(arena, (size_t)analysis->work_count * sizeof *durations);
    int64_t *place = hr_arena_alloc(arena, (size_t)(table->count + 1) * sizeof *place);
    for (int i = 0; i < table->count; i++)
        place[i + 1] = place[i] + table->kernels[i].count;
    for (int i = 0; i < analysis->work_count; i++)
        if (kernel_of[i] >= 0)
            durations[place[kernel_of[i]]++] =
                (double)(analysis->works[i].end - analysis->works[i].start) * 1e-9;
    for (int i = 0; i < table->count; i++) {
        hr_kernel_summary *kernel = &table->kernels[i];
        double *first = durations + place[i] - kernel->count;
        qsort(first, (size_t)kernel->count, sizeof *first, compare_seconds);
        kernel->shortest = first[0];
        kernel->median = first[(kernel->count - 1) / 2];
        kernel->longest = first[kernel->count - 1];
    }
}

typedef struct rank_entry {
    double seconds;
    int32_t kernel;
} rank_entry;

static int compare_ranks(const void *left, const void *right) {
    const rank_entry *a = left, *b = right;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? 1 : -1) : a->kernel - b->kernel;
}

/* Puts kernels by falling share and follows them in `kernel_of`. */
static void sort_table(table *table, int32_t *kernel_of) {
    hr_analysis *analysis = table->analysis;
    size_t count = (size_t)table->count;
    rank_entry *entries = hr_arena_alloc(analysis->arena, count * sizeof *entries);
    int32_t *place = hr_arena_alloc(analysis->arena, count * sizeof *place);
    hr_kernel_summary *sorted = hr_arena_alloc(table->keep, count * sizeof *sorted);
    for (int i = 0; i < table->count; i++)
        entries[i] = (rank_entry){table->kernels[i].seconds, i};
    qsort(entries, count, sizeof *entries, compare_ranks);
    for (int i = 0; i < table->count; i++) {
        sorted[i] = table->kernels[entries[i].kernel];
        place[entries[i].kernel] = i;
    }
    for (int i = 0; i < analysis->work_count; i++)
        if (kernel_of[i] >= 0) kernel_of[i] = place[kernel_of[i]];
    analysis->kernels = sorted;
    analysis->kernel_count = table->count;
    analysis->kernel_of = kernel_of;
}

void hr_analysis_kernels(hr_analysis *analysis, hr_arena *keep) {
    hr_arena *arena = analysis->arena;
    size_t works = (size_t)analysis->work_count, names = 1;
    for (int i = 0; i < analysis->work_count; i++) {
        int32_t name = analysis->trace->events.items[analysis->works[i].event].name;
        if ((size_t)(name + 1) >= names) names = (size_t)name + 2;
    }
    size_t room = works < names ? works : names;
    table table = {.analysis = analysis, .keep = keep};
    table.kernels = hr_arena_alloc(arena, room * sizeof *table.kernels);
    table.sums = hr_arena_alloc(arena, room * sizeof *table.sums);
    table.by_name = hr_arena_alloc(arena, names * sizeof *table.by_name);
    int32_t *kernel_of = hr_arena_alloc(arena, works * sizeof *kernel_of);
    int counted = analysis->steps.count - analysis->steps.first;
    double step = 0;
    for (int i = analysis->steps.first; i < analysis->steps.count; i++)
        step += (double)(analysis->steps.items[i].end - analysis->steps.items[i].start) * 1e-9 / counted;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        kernel_of[i] = is_counted(analysis, work) ? kernel_of_work(&table, work) : -1;
        if (kernel_of[i] < 0) continue;
        hr_kernel_summary *kernel = &table.kernels[kernel_of[i]];
        kernel->count++;
        kernel->seconds += (double)(work->end - work->start) * 1e-9 / counted;
        kernel->share += step > 0 ? (double)work->alone * 1e-9 / counted / step : 0;
        add_launch(&table, kernel_of[i], i);
    }
    find_medians(&table, kernel_of);
    for (int i = 0; i < table.count; i++) {
        table.kernels[i].per_step = (double)table.kernels[i].count / counted;
        judge(&table, i);
    }
    sort_table(&table, kernel_of);
}
