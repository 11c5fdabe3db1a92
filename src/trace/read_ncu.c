/* Nsight Compute's CSV: the details page (a row a metric) and the raw page (a column a metric).
 *
 * In: text in which lines of the profiler and of the program may stand between the rows; numbers with
 * separators of thousands as the writer's locale has them, in any of several units: a first pass over the
 * text finds out which locale that was. Out: kernels with counters. The file has no times, only durations, so
 * that kernels stand one behind the other in the order of the file.
 */
#define _GNU_SOURCE /* memmem */
#include "trace/locale_number.h"
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
    DRAM_BYTES, /* both directions */
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

/* Rows of ncu_metrics.def. */
static const struct {
    const char *name;
    metric metric;
    const char *unit; /* needed somewhere in the unit, where one name has several */
} metrics[] = {
#define NCU_METRIC(name, metric, unit) {name, metric, unit},
#include "trace/ncu_metrics.def"
#undef NCU_METRIC
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
    int metric;     /* -1 = none of interest */
    double scale;   /* to seconds, bytes, fractions, counts */
    bool is_metric; /* of the raw page: its values are numbers of the locale */
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
    int64_t size;   /* of the text */
    hr_event event; /* of the kernel whose rows are being read */
    char id[32];    /* its ID; "" = none */
    hr_kernel_work work;
    double values[METRIC_COUNT];
    int64_t time, kernels;
    int64_t tells[HR_NUMBER_TELLS_COUNT]; /* how many numbers of the file tell what of its separators */
    char fraction;                        /* what begins a fraction in this file */
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

static double cell_number(const ncu *n, int64_t column) {
    size_t length;
    const char *bytes = cell_text(n, column, &length);
    hr_number_tells tells = hr_number_tell(bytes, length); /* what a number tells itself counts first */
    char fraction = tells == HR_NUMBER_TELLS_POINT ? '.' : tells == HR_NUMBER_TELLS_COMMA ? ',' : n->fraction;
    return hr_number_read(bytes, length, fraction);
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
    bytes = cell_text(n, n->places[COMPUTE], &length);
    double compute = hr_number_read(bytes, length, '.'); /* a version, not a number of the locale */
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
    /* some have both directions together, the details page their rate */
    if (isnan(counters.dram_read) && !isnan(values[DRAM_BYTES])) {
        counters.dram_read = values[DRAM_BYTES];
        counters.dram_written = 0;
    }
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
        n->columns[i] = (column){.metric = n->raw ? metric_find(name, length, NULL, 0) : -1,
                                 .scale = 1,
                                 .is_metric = memmem(name, length, "__", 2) != NULL};
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

/* Rows of metrics may end behind their value, before the columns of rules. */
static bool row_is_whole(const ncu *n) {
    return n->cells.count == n->column_count ||
           (!n->raw && n->cells.count < n->column_count && n->cells.count > n->places[METRIC_VALUE]);
}

/* Whether the row is one of values; the header is taken on the way. */
static hr_status row_begin(ncu *n, bool *has_values) {
    *has_values = false;
    if (!n->columns) {
        if (cell_is(n, 0, "ID") && n->cells.count > 4) return header_take(n);
        return HR_OK; /* what the program printed before */
    }
    *has_values = !cell_is(n, 0, "ID"); /* a table behind the first one repeats it */
    return HR_OK;
}

/* First pass: what the values tell of the locale that wrote them. */
static hr_status row_scan(ncu *n) {
    bool has_values;
    HR_TRY(row_begin(n, &has_values));
    if (!has_values || !row_is_whole(n)) return HR_OK;
    for (int64_t i = 0; i < n->column_count; i++) {
        size_t length;
        const char *bytes = cell_text(n, i, &length);
        if (n->raw ? n->columns[i].is_metric : i == n->places[METRIC_VALUE])
            n->tells[hr_number_tell(bytes, length)]++;
    }
    return HR_OK;
}

static hr_status row_take(ncu *n) {
    bool has_values;
    HR_TRY(row_begin(n, &has_values));
    if (!has_values) return HR_OK;
    if (!row_is_whole(n)) {
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

/* Calls `take` for each row that is whole; *last says how the text ended. */
static hr_status rows_each(ncu *n, hr_trace_input *input, char *chunk, hr_status (*take)(ncu *n),
                           where *last) {
    int64_t done = 0;
    size_t got;
    *last = LINE_START;
    do {
        HR_TRY(hr_trace_input_read(input, chunk, CHUNK_SIZE, &got));
        for (size_t i = 0; i < got; i++) {
            bool ended = false;
            if (*last == LINE_START) n->offset = done + (int64_t)i;
            *last = step(n, *last, chunk[i], &ended);
            if (ended) HR_TRY(take(n));
            if (n->failed) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", n->path);
            if (n->length > ROW_MAX)
                return hr_fail(HR_BAD_INPUT, "%s: byte %lld: a row is longer than 64 MB: a quote is missing",
                               n->path, (long long)n->offset);
        }
        done += (int64_t)got;
        HR_TRY(hr_trace_build_progress(n->build, hr_trace_input_done(input), hr_trace_input_size(input)));
    } while (got == CHUNK_SIZE);
    n->size = done;
    return HR_OK;
}

/* Which sign begins a fraction: what most numbers tell. Where none tells, a point: so ncu writes in English,
 * and numbers that a reader elsewhere might take for thousands are counted. */
static void fraction_choose(ncu *n) {
    int64_t points = n->tells[HR_NUMBER_TELLS_POINT], commas = n->tells[HR_NUMBER_TELLS_COMMA];
    n->fraction = commas > points ? ',' : '.';
    for (int64_t i = 0; points && commas && i < (points < commas ? points : commas); i++)
        hr_trace_build_skip(
            n->build, "numbers whose separators contradict most others of the file, read as they stand", -1);
    for (int64_t i = 0; !points && !commas && i < n->tells[HR_NUMBER_TELLS_EITHER]; i++)
        hr_trace_build_skip(n->build,
                            "numbers like 117.344 of which the file does not tell whether the sign parts "
                            "thousands",
                            -1);
}

static hr_status text_read(ncu *n, hr_trace_input *input, char *chunk) {
    where last;
    HR_TRY(rows_each(n, input, chunk, row_take, &last));
    if (last > OTHER_LINE) cell_end(n);
    bool short_row = n->columns && !row_is_whole(n);
    if (last == QUOTED || (last == CELL_START && short_row) || (last > OTHER_LINE && short_row)) {
        hr_trace_build_rank(n->build)->truncated = true;
        hr_trace_build_skip(n->build, "files that break off; what came before is kept", n->offset);
    } else if (last > OTHER_LINE) /* no newline at the end */
        HR_TRY(row_take(n));
    kernel_end(n);
    if (n->kernels) return HR_OK;
    return hr_fail(HR_BAD_INPUT, "%s: byte %lld: %s", n->path, (long long)n->size,
                   n->columns
                       ? "the file ends without a kernel: none was profiled"
                       : "the file ends without a line of column names that begins with \"ID\"; make it "
                         "with ncu --csv --page details or raw");
}

static void columns_clear(ncu *n) {
    free(n->columns);
    n->columns = NULL;
    n->cells.count = n->column_count = 0;
    n->length = 0;
}

/* The whole text once, by a function of its rows. */
static hr_status pass(ncu *n, char *chunk, hr_status (*read)(ncu *n, hr_trace_input *input, char *chunk)) {
    hr_trace_input *input = NULL;
    HR_TRY(hr_trace_input_open(n->path, &input));
    hr_status status = read(n, input, chunk);
    hr_trace_input_close(input);
    return status;
}

static hr_status text_scan(ncu *n, hr_trace_input *input, char *chunk) {
    where last;
    return rows_each(n, input, chunk, row_scan, &last);
}

hr_status hr_trace_read_ncu(hr_trace_build *build, const char *path) {
    ncu n = {.build = build, .path = path};
    char *chunk = malloc(CHUNK_SIZE);
    hr_trace_build_file_begin(build, path, "ncu");
    hr_status status = chunk ? pass(&n, chunk, text_scan)
                             : hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", path);
    fraction_choose(&n);
    columns_clear(&n);
    if (status == HR_OK) status = pass(&n, chunk, text_read);
    hr_trace_build_file_end(build);
    free(n.text);
    free(n.cells.items);
    free(n.columns);
    free(chunk);
    return status;
}
