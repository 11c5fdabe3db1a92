/* Nsight Compute's CSV: the details page (a row a metric) and the raw page (a column a metric).
 *
 * In: text in which lines of the profiler and of the program may stand between the rows; numbers with
 * separators of thousands, in any of several units. Out: kernels with counters. The file has no times, only
 * durations, so that kernels stand one behind the other in the order of the file.
 */
#define _GNU_SOURCE /* memmem */
#include "trace/trace_readers.h"
#include "trace/trace_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE ((size_t)256 << 10)
#define ROW_MAX    ((size_t)64 << 20) /* bytes of one row */

typedef enum metric {
    SECONDS,
    DRAM_READ,
    DRAM_WRITTEN,
    DRAM_RATE,
    L1_HIT,
    L2_HIT,
    LOAD_RATIO,
    STORE_RATIO,
    LOAD_SECTORS,
    LOAD_REQUESTS,
    STORE_SECTORS,
    STORE_REQUESTS,
    TENSOR,
    TENSOR_ACTIVE,
    VECTOR,
    INSTRUCTIONS,
    WARPS,
    DRAM_OF_PEAK,
    SM_OF_PEAK,
    REGISTERS,
    SHARED_STATIC,
    SHARED_DYNAMIC,
    CLUSTER,
    MULTIPROCESSORS,
    MAX_WARPS,
    MAX_REGISTERS,
    MAX_SHARED,
    MAX_SHARED_BLOCK,
    MEMORY,
    METRIC_COUNT
} metric;

/* Names on the raw page and in `--metrics`, and on the details page. What several names give is added up only
 * for TENSOR and VECTOR: their pipes are counted apart. */
static const struct {
    const char *name;
    metric metric;
    const char *unit; /* needed somewhere in the unit, where one name has several */
} metrics[] = {
    {"gpu__time_duration.sum", SECONDS, NULL},
    {"gpu__time_duration.avg", SECONDS, NULL},
    {"Duration", SECONDS, NULL},
    {"dram__bytes_read.sum", DRAM_READ, NULL},
    {"dram__bytes_write.sum", DRAM_WRITTEN, NULL},
    {"Memory Throughput", DRAM_RATE, "byte/s"},
    {"l1tex__t_sector_hit_rate.pct", L1_HIT, NULL},
    {"L1/TEX Hit Rate", L1_HIT, NULL},
    {"lts__t_sector_hit_rate.pct", L2_HIT, NULL},
    {"L2 Hit Rate", L2_HIT, NULL},
    {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", LOAD_RATIO, NULL},
    {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", STORE_RATIO, NULL},
    {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", LOAD_SECTORS, NULL},
    {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", LOAD_REQUESTS, NULL},
    {"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", STORE_SECTORS, NULL},
    {"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", STORE_REQUESTS, NULL},
    {"sm__inst_executed_pipe_tensor.sum", TENSOR, NULL},
    {"sm__inst_executed_pipe_tensor_op_hmma.sum", TENSOR, NULL},
    {"sm__inst_executed_pipe_tensor_op_gmma.sum", TENSOR, NULL},
    {"sm__inst_executed_pipe_tensor_op_imma.sum", TENSOR, NULL},
    {"sm__inst_executed_pipe_tensor_op_dmma.sum", TENSOR, NULL},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", TENSOR_ACTIVE, NULL},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", TENSOR_ACTIVE, NULL},
    {"sm__inst_executed_pipe_fma.sum", VECTOR, NULL},
    {"sm__inst_executed_pipe_alu.sum", VECTOR, NULL},
    {"sm__inst_executed.sum", INSTRUCTIONS, NULL},
    {"smsp__inst_executed.sum", INSTRUCTIONS, NULL},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", WARPS, NULL},
    {"Achieved Occupancy", WARPS, NULL},
    {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", DRAM_OF_PEAK, NULL},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", DRAM_OF_PEAK, NULL},
    {"DRAM Throughput", DRAM_OF_PEAK, "%"},
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed", SM_OF_PEAK, NULL},
    {"Compute (SM) Throughput", SM_OF_PEAK, "%"},
    {"launch__registers_per_thread", REGISTERS, NULL},
    {"Registers Per Thread", REGISTERS, NULL},
    {"launch__shared_mem_per_block_static", SHARED_STATIC, NULL},
    {"Static Shared Memory Per Block", SHARED_STATIC, NULL},
    {"launch__shared_mem_per_block_dynamic", SHARED_DYNAMIC, NULL},
    {"Dynamic Shared Memory Per Block", SHARED_DYNAMIC, NULL},
    {"launch__cluster_size", CLUSTER, NULL},
    {"Cluster Size", CLUSTER, NULL},
    {"device__attribute_multiprocessor_count", MULTIPROCESSORS, NULL},
    {"device__attribute_max_warps_per_multiprocessor", MAX_WARPS, NULL},
    {"device__attribute_max_registers_per_multiprocessor", MAX_REGISTERS, NULL},
    {"device__attribute_max_shared_memory_per_multiprocessor", MAX_SHARED, NULL},
    {"device__attribute_max_shared_memory_per_block_optin", MAX_SHARED_BLOCK, NULL},
    {"device__attribute_total_memory", MEMORY, NULL},
};

/* Columns that say which kernel a row is of. */
typedef enum place {
    ID,
    KERNEL,
    STREAM,
    BLOCK,
    GRID,
    DEVICE,
    COMPUTE,
    METRIC_NAME,
    METRIC_UNIT,
    METRIC_VALUE,
    DEVICE_NAME,
    PLACE_COUNT
} place;

static const char *const place_names[PLACE_COUNT] = {"ID",
                                                     "Kernel Name",
                                                     "Stream",
                                                     "Block Size",
                                                     "Grid Size",
                                                     "Device",
                                                     "CC",
                                                     "Metric Name",
                                                     "Metric Unit",
                                                     "Metric Value",
                                                     "device__attribute_display_name"};

typedef struct cell {
    size_t begin, length; /* in the row's text */
} cell;

typedef struct column {
    int metric;   /* -1 = none of interest */
    double scale; /* to seconds, bytes, fractions, counts */
} column;

typedef struct ncu {
    hr_trace_build *build;
    const char *path;
    char *text; /* of the row being read, quotes taken off */
    size_t length;
    int64_t capacity;
    HR_TABLE(cell) cells;
    column *columns; /* as many as the header has */
    int64_t column_count;
    int64_t places[PLACE_COUNT]; /* -1 = there is no such column */
    bool raw, has_units, failed;
    int64_t offset; /* of the row's first byte */
    hr_event event; /* of the kernel whose rows are being read */
    char id[32];    /* its ID; "" = none */
    hr_kernel_work work;
    double values[METRIC_COUNT];
    int64_t time, kernels;
} ncu;

/* ---- cells ---- */

static const char *cell_text(const ncu *n, int64_t column, size_t *length) {
    if (column < 0 || column >= n->cells.count || !n->text) {
        *length = 0;
        return "";
    }
    *length = n->cells.items[column].length;
    return n->text + n->cells.items[column].begin;
}

static bool cell_is(const ncu *n, int64_t column, const char *what) {
    size_t length;
    const char *bytes = cell_text(n, column, &length);
    return length == strlen(what) && memcmp(bytes, what, length) == 0;
}

/* Whether the comma or point at `at` parts thousands: three digits follow and then no more. */
static bool parts_thousands(const char *at) {
    int digits = 0;
    while (at[1 + digits] >= '0' && at[1 + digits] <= '9')
        digits++;
    return digits == 3;
}

/* "41,248", "1.5", "1.234,5", "12 345": with both signs the last one begins the fraction; a lone comma does
 * where other than three digits follow. NAN where it is no number. */
static double number_of(const char *text, size_t length) {
    char copy[64], clean[64], *end;
    size_t put = 0;
    if (!length || length >= sizeof copy) return NAN;
    memcpy(copy, text, length);
    copy[length] = 0;
    const char *comma = strrchr(copy, ','), *point = strrchr(copy, '.');
    const char *fraction = point;
    if (comma && (point ? comma > point : !parts_thousands(comma) && strchr(copy, ',') == comma))
        fraction = comma;
    if (point && fraction == point && strchr(copy, '.') != point) fraction = NULL; /* 1.234.567 */
    for (const char *at = copy; *at; at++) {
        if (at == fraction)
            clean[put++] = '.';
        else if (*at != ',' && *at != '.' && *at != ' ' && *at != '\'')
            clean[put++] = *at;
    }
    clean[put] = 0;
    double value = strtod(clean, &end);
    return end == clean || *end || isinf(value) ? NAN : value;
}

static double cell_number(const ncu *n, int64_t column) {
    size_t length;
    const char *bytes = cell_text(n, column, &length);
    return number_of(bytes, length);
}

static int32_t whole(double value) {
    return value >= 0 && value <= INT32_MAX ? (int32_t)value : 0;
}

static int32_t cell_whole(const ncu *n, int64_t column) {
    return whole(cell_number(n, column));
}

/* "(512, 1, 1)" */
static void cell_triple(const ncu *n, int64_t column, int32_t out[3]) {
    size_t length;
    const char *at = cell_text(n, column, &length), *end = at + length;
    for (int i = 0; i < 3; i++) {
        while (at < end && (*at < '0' || *at > '9'))
            at++;
        int64_t value = 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (value <= INT32_MAX) value = value * 10 + (*at - '0');
        out[i] = value <= INT32_MAX ? (int32_t)value : 0;
    }
}

/* ---- units and metrics ---- */

static bool unit_has(const char *unit, size_t length, const char *part) {
    return memmem(unit, length, part, strlen(part)) != NULL;
}

/* What a value in this unit is multiplied with: to seconds, bytes, counts, fractions. */
static double unit_scale(const char *unit, size_t length) {
    static const struct {
        const char *unit;
        double scale;
    } times[] = {{"ns", 1e-9},      {"nsecond", 1e-9}, {"us", 1e-6},  {"usecond", 1e-6}, {"ms", 1e-3},
                 {"msecond", 1e-3}, {"s", 1},          {"second", 1}, {"%", 1e-2}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (length == strlen(times[i].unit) && memcmp(unit, times[i].unit, length) == 0)
            return times[i].scale;
    if (length < 2 ||
        !(unit_has(unit + 1, length - 1, "byte") || unit_has(unit + 1, length - 1, "inst") ||
          unit_has(unit + 1, length - 1, "sector") || unit_has(unit + 1, length - 1, "request")))
        return 1;
    static const char prefixes[] = "KMGT";
    const char *prefix = strchr(prefixes, unit[0]);
    return prefix && *prefix ? pow(1000, (double)(prefix - prefixes + 1)) : 1;
}

static int metric_find(const char *name, size_t length, const char *unit, size_t unit_length) {
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        if (strlen(metrics[i].name) != length || memcmp(metrics[i].name, name, length) != 0) continue;
        if (metrics[i].unit && unit && !unit_has(unit, unit_length, metrics[i].unit)) continue;
        return (int)metrics[i].metric;
    }
    return -1;
}

static void value_set(ncu *n, int metric, double value) {
    if (metric < 0 || isnan(value) || value < 0) return;
    bool adds = (metric == TENSOR || metric == VECTOR) && !isnan(n->values[metric]);
    n->values[metric] = adds ? n->values[metric] + value : value;
}

/* ---- kernels ---- */

static void kernel_begin(ncu *n) {
    size_t length;
    const char *bytes = cell_text(n, n->places[KERNEL], &length);
    n->event = (hr_event){.kind = HR_EVENT_KERNEL, .name = hr_trace_build_string(n->build, bytes, length)};
    int32_t device = cell_whole(n, n->places[DEVICE]);
    n->event.track = hr_trace_build_stream(n->build, device, cell_whole(n, n->places[STREAM]));
    n->work = (hr_kernel_work){.occupancy = -1, .collective = -1, .counters = -1};
    cell_triple(n, n->places[GRID], n->work.grid);
    cell_triple(n, n->places[BLOCK], n->work.block);
    for (int i = 0; i < METRIC_COUNT; i++)
        n->values[i] = NAN;
    bytes = cell_text(n, n->places[ID], &length);
    snprintf(n->id, sizeof n->id, "%.*s", (int)(length < 31 ? length : 31), bytes);
    hr_trace_device *of = hr_trace_build_device(n->build, device);
    if (!of) return;
    double compute = cell_number(n, n->places[COMPUTE]);
    if (compute > 0 && compute < 100) of->compute = (int32_t)lround(compute * 10);
    bytes = cell_text(n, n->places[DEVICE_NAME], &length);
    for (size_t i = 0; i < length && i + 1 < sizeof of->name; i++)
        of->name[i] = (char)(bytes[i] >= 32 && bytes[i] < 127 ? bytes[i] : '?');
}

static double ratio(const double *values, int of, int to) {
    return values[to] > 0 ? values[of] / values[to] : NAN;
}

static hr_counters counters_of(const double *values) {
    hr_counters counters = {.seconds = values[SECONDS],
                            .dram_read = values[DRAM_READ],
                            .dram_written = values[DRAM_WRITTEN],
                            .l1_hit = values[L1_HIT],
                            .l2_hit = values[L2_HIT],
                            .sectors_per_load = values[LOAD_RATIO],
                            .sectors_per_store = values[STORE_RATIO],
                            .tensor_instructions = values[TENSOR],
                            .vector_instructions =
                                isnan(values[VECTOR]) ? values[INSTRUCTIONS] : values[VECTOR],
                            .tensor_active = values[TENSOR_ACTIVE],
                            .warps_active = values[WARPS],
                            .dram_of_peak = values[DRAM_OF_PEAK],
                            .sm_of_peak = values[SM_OF_PEAK]};
    if (isnan(counters.sectors_per_load))
        counters.sectors_per_load = ratio(values, LOAD_SECTORS, LOAD_REQUESTS);
    if (isnan(counters.sectors_per_store))
        counters.sectors_per_store = ratio(values, STORE_SECTORS, STORE_REQUESTS);
    /* the details page has the rate of both directions together */
    if (isnan(counters.dram_read) && !isnan(values[DRAM_RATE]) && !isnan(values[SECONDS])) {
        counters.dram_read = values[DRAM_RATE] * values[SECONDS];
        counters.dram_written = 0;
    }
    return counters;
}

static void device_fill(ncu *n) {
    const hr_track *track = hr_trace_build_track(n->build, n->event.track);
    hr_trace_device *device = track ? hr_trace_build_device(n->build, track->device) : NULL;
    if (!device) return;
    if (!isnan(n->values[MULTIPROCESSORS])) device->multiprocessors = whole(n->values[MULTIPROCESSORS]);
    if (!isnan(n->values[MAX_WARPS])) {
        device->warps_multiprocessor = whole(n->values[MAX_WARPS]);
        device->threads_multiprocessor = whole(n->values[MAX_WARPS] * 32);
    }
    if (!isnan(n->values[MAX_REGISTERS])) device->registers_multiprocessor = whole(n->values[MAX_REGISTERS]);
    if (!isnan(n->values[MAX_SHARED])) device->shared_multiprocessor = whole(n->values[MAX_SHARED]);
    if (!isnan(n->values[MAX_SHARED_BLOCK])) device->shared_block = whole(n->values[MAX_SHARED_BLOCK]);
    if (!isnan(n->values[MEMORY])) device->memory_bytes = n->values[MEMORY];
}

static void kernel_end(ncu *n) {
    if (!n->id[0]) return;
    hr_counters counters = counters_of(n->values);
    double nanoseconds = n->values[SECONDS] * 1e9;
    n->event.start = n->time;
    n->event.duration = nanoseconds >= 0 && nanoseconds < 1e15 ? llround(nanoseconds) : 0;
    n->time += n->event.duration;
    n->work.registers = whole(n->values[REGISTERS]);
    n->work.shared_static = whole(n->values[SHARED_STATIC]);
    n->work.shared_dynamic = whole(n->values[SHARED_DYNAMIC]);
    n->work.cluster = whole(n->values[CLUSTER]);
    if (n->values[WARPS] <= 1) n->work.occupancy = (float)n->values[WARPS];
    n->work.counters = hr_trace_build_counters(n->build, &counters);
    device_fill(n);
    hr_trace_build_event(n->build, n->event, &n->work);
    n->kernels++;
    n->id[0] = 0;
}

/* ---- rows ---- */

static hr_status header_take(ncu *n) {
    n->column_count = n->cells.count;
    n->columns = calloc((size_t)n->column_count + 1, sizeof *n->columns);
    if (!n->columns) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", n->path);
    for (int p = 0; p < PLACE_COUNT; p++) {
        n->places[p] = -1;
        for (int64_t i = 0; i < n->column_count && n->places[p] < 0; i++)
            if (cell_is(n, i, place_names[p])) n->places[p] = i;
    }
    n->raw = n->places[METRIC_NAME] < 0;
    for (int64_t i = 0; i < n->column_count; i++) {
        size_t length;
        const char *name = cell_text(n, i, &length);
        n->columns[i] = (column){.metric = n->raw ? metric_find(name, length, NULL, 0) : -1, .scale = 1};
    }
    if (n->places[KERNEL] >= 0 && (n->raw || n->places[METRIC_VALUE] >= 0)) return HR_OK;
    return hr_fail(HR_BAD_INPUT,
                   "%s: byte %lld: the table has no column %s; make it with ncu --csv --page details or raw",
                   n->path, (long long)n->offset,
                   n->places[KERNEL] < 0 ? "\"Kernel Name\"" : "\"Metric Value\"");
}

static void units_take(ncu *n) {
    for (int64_t i = 0; i < n->column_count; i++) {
        size_t length;
        const char *unit = cell_text(n, i, &length);
        n->columns[i].scale = unit_scale(unit, length);
    }
    n->has_units = true;
}

static void raw_row_take(ncu *n) {
    kernel_begin(n);
    for (int64_t i = 0; i < n->column_count; i++)
        if (n->columns[i].metric >= 0)
            value_set(n, n->columns[i].metric, cell_number(n, i) * n->columns[i].scale);
    kernel_end(n);
}

static void detail_row_take(ncu *n) {
    if (!n->id[0] || !cell_is(n, n->places[ID], n->id)) {
        kernel_end(n);
        kernel_begin(n);
    }
    size_t length, unit_length;
    const char *name = cell_text(n, n->places[METRIC_NAME], &length);
    const char *unit = cell_text(n, n->places[METRIC_UNIT], &unit_length);
    int metric = metric_find(name, length, unit, unit_length);
    if (metric < 0) return;
    value_set(n, metric, cell_number(n, n->places[METRIC_VALUE]) * unit_scale(unit, unit_length));
}

static hr_status row_take(ncu *n) {
    if (!n->columns) {
        if (cell_is(n, 0, "ID") && n->cells.count > 4) return header_take(n);
        return HR_OK; /* what the program printed before */
    }
    if (cell_is(n, 0, "ID")) return HR_OK; /* a table behind the first one repeats it */
    if (n->cells.count != n->column_count) {
        hr_trace_build_skip(n->build, "rows with missing or surplus columns", n->offset);
        return HR_OK;
    }
    if (n->raw && !n->has_units && cell_is(n, n->places[ID], ""))
        units_take(n);
    else if (n->raw)
        raw_row_take(n);
    else
        detail_row_take(n);
    return HR_OK;
}

/* ---- text to rows ---- */

typedef enum where { LINE_START, OTHER_LINE, CELL_START, PLAIN, QUOTED, QUOTE_IN_QUOTED } where;

static void byte_put(ncu *n, char byte) {
    char *text = hr_table_grow(n->text, (int64_t)n->length, &n->capacity, 1);
    if (!text) {
        n->failed = true;
        return;
    }
    n->text = text;
    text[n->length++] = byte;
}

static void cell_begin(ncu *n) {
    cell *items = hr_table_grow(n->cells.items, n->cells.count, &n->cells.capacity, sizeof *items);
    if (!items) {
        n->failed = true;
        return;
    }
    n->cells.items = items;
    items[n->cells.count++] = (cell){.begin = n->length};
}

static void cell_end(ncu *n) {
    if (n->cells.count)
        n->cells.items[n->cells.count - 1].length = n->length - n->cells.items[n->cells.count - 1].begin;
}

/* One byte further; `*ended` at the end of a row. Rows begin with a quote, other lines do not count. */
static where step(ncu *n, where at, char byte, bool *ended) {
    bool newline = byte == '\n';
    switch (at) {
    case LINE_START:
        if (byte != '"') return newline ? LINE_START : OTHER_LINE;
        n->cells.count = 0;
        n->length = 0;
        cell_begin(n);
        return QUOTED;
    case OTHER_LINE:
        return newline ? LINE_START : OTHER_LINE;
    case CELL_START:
        if (byte == '"') return QUOTED;
        break;
    case QUOTED:
        if (byte == '"') return QUOTE_IN_QUOTED;
        byte_put(n, byte);
        return QUOTED;
    case QUOTE_IN_QUOTED:
        if (byte == '"') {
            byte_put(n, byte);
            return QUOTED;
        }
        break;
    case PLAIN:
        break;
    }
    if (byte == ',' || newline) {
        cell_end(n);
        *ended = newline;
        if (!newline) cell_begin(n);
        return newline ? LINE_START : CELL_START;
    }
    if (byte != '\r') byte_put(n, byte);
    return PLAIN;
}

static hr_status text_read(ncu *n, hr_trace_input *input, char *chunk) {
    where at = LINE_START;
    int64_t done = 0;
    size_t got;
    do {
        HR_TRY(hr_trace_input_read(input, chunk, CHUNK_SIZE, &got));
        for (size_t i = 0; i < got; i++) {
            bool ended = false;
            if (at == LINE_START) n->offset = done + (int64_t)i;
            at = step(n, at, chunk[i], &ended);
            if (ended) HR_TRY(row_take(n));
            if (n->failed) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", n->path);
            if (n->length > ROW_MAX)
                return hr_fail(HR_BAD_INPUT, "%s: byte %lld: a row is longer than 64 MB: a quote is missing",
                               n->path, (long long)n->offset);
        }
        done += (int64_t)got;
        HR_TRY(hr_trace_build_progress(n->build, hr_trace_input_done(input), hr_trace_input_size(input)));
    } while (got == CHUNK_SIZE);
    if (at > OTHER_LINE) cell_end(n);
    bool short_row = n->columns && n->cells.count != n->column_count;
    if (at == QUOTED || at == CELL_START || (at > OTHER_LINE && short_row)) {
        hr_trace_build_rank(n->build)->truncated = true;
        hr_trace_build_skip(n->build, "files that break off; what came before is kept", n->offset);
    } else if (at > OTHER_LINE) /* no newline at the end */
        HR_TRY(row_take(n));
    kernel_end(n);
    if (n->kernels) return HR_OK;
    return hr_fail(HR_BAD_INPUT, "%s: byte %lld: %s", n->path, (long long)done,
                   n->columns
                       ? "the file ends without a kernel: none was profiled"
                       : "the file ends without a line of column names that begins with \"ID\"; make it "
                         "with ncu --csv --page details or raw");
}

hr_status hr_trace_read_ncu(hr_trace_build *build, const char *path) {
    ncu n = {.build = build, .path = path};
    char *chunk = malloc(CHUNK_SIZE);
    hr_trace_input *input = NULL;
    hr_trace_build_file_begin(build, path, "ncu");
    hr_status status = chunk ? hr_trace_input_open(path, &input)
                             : hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", path);
    if (status == HR_OK) status = text_read(&n, input, chunk);
    hr_trace_build_file_end(build);
    hr_trace_input_close(input);
    free(n.text);
    free(n.cells.items);
    free(n.columns);
    free(chunk);
    return status;
}
