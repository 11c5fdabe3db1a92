/* Reports for programs: JSON and CSV.
 *
 * In: results. Out: one JSON object, or lines of comma-separated values. A number that JSON cannot hold
 * (infinite, not a number) becomes null; bytes that are no UTF-8 are replaced.
 */
#include "report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *text_value(const char *text) {
    hr_text clean = {0};
    hr_utf8_clean(&clean, text ? text : "");
    json_t *value = json_string(hr_text_data(&clean));
    hr_text_clear(&clean);
    return value;
}

static json_t *real_value(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void set_text(json_t *object, const char *key, const char *text) {
    json_object_set_new(object, key, text_value(text));
}

static void set_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, real_value(value));
}

static void set_whole(json_t *object, const char *key, int64_t value) {
    json_object_set_new(object, key, json_integer(value));
}

static json_t *device_value(const char *kind, const char *name) {
    json_t *device = json_object();
    set_text(device, "kind", kind);
    set_text(device, "name", name);
    return device;
}

/* "mean, rstd" -> ["mean", "rstd"] */
static json_t *names_value(const char *names) {
    json_t *list = json_array();
    for (names += strspn(names, ", "); *names; names += strspn(names, ", ")) {
        size_t length = strcspn(names, ", ");
        json_array_append_new(list, json_stringn(names, length));
        names += length;
    }
    return list;
}

static json_t *plan_value(const hr_run_result *run) {
    json_t *plan = json_object(), *stages = json_array();
    for (int i = 0; i < run->stage_count; i++) {
        const hr_stage_info *stage = &run->stages[i];
        json_t *object = json_object();
        set_text(object, "shape", stage->shape);
        set_text(object, "name", stage->name);
        set_text(object, "why", stage->why);
        json_object_set_new(object, "materialised",
                            names_value(stage->materialised ? stage->materialised : ""));
        set_real(object, "bytes", stage->bytes);
        set_real(object, "flops", stage->flops);
        set_real(object, "floor_seconds", stage->floor_seconds);
        json_array_append_new(stages, object);
    }
    set_text(plan, "summary", run->plan_summary);
    json_object_set_new(plan, "stages", stages);
    return plan;
}

static json_t *timing_value(const hr_timing *timing) {
    json_t *seconds = json_object();
    set_real(seconds, "median", timing->median);
    set_real(seconds, "min", timing->min);
    set_real(seconds, "max", timing->max);
    set_whole(seconds, "runs", timing->runs);
    return seconds;
}

static json_t *verified_value(const hr_run_result *run) {
    if (!run->verify_done) return json_null();
    json_t *verified = json_object();
    set_whole(verified, "points", run->verified.points);
    set_real(verified, "max_error", run->verified.max_error);
    set_real(verified, "tolerance", run->verified.tolerance);
    json_object_set_new(verified, "ok", json_boolean(run->verified.ok));
    return verified;
}

/* The object of `headroom run --json`; its keys are a contract. */
static json_t *run_value(const hr_run_result *run) {
    json_t *object = json_object(), *extents = json_object(), *flops = json_object();
    json_t *least = json_object(), *tune = json_object();
    for (int i = 0; i < run->extent_count; i++)
        set_whole(extents, run->extent_names[i], run->extents[i]);
    set_real(flops, "tensor", run->floor.tensor_flops);
    set_real(flops, "vector", run->floor.vector_flops);
    set_real(flops, "special", run->floor.special_ops);
    set_real(least, "seconds", run->floor.seconds);
    set_text(least, "bound", run->floor.bound);
    set_whole(tune, "tried", run->tune.tried);
    set_real(tune, "seconds", run->tune.seconds);
    json_object_set_new(tune, "cached", json_boolean(run->tune.cached));

    set_text(object, "kernel", run->kernel);
    set_text(object, "file", run->file);
    json_object_set_new(object, "device", device_value(run->device_kind, run->device_name));
    json_object_set_new(object, "extents", extents);
    json_object_set_new(object, "plan", plan_value(run));
    json_object_set_new(object, "seconds", timing_value(&run->seconds));
    set_real(object, "bytes", run->floor.bytes);
    json_object_set_new(object, "flops", flops);
    json_object_set_new(object, "floor", least);
    set_real(object, "headroom", run->headroom);
    set_real(object, "roof_fraction", run->roof_fraction);
    json_object_set_new(object, "verified", verified_value(run));
    json_object_set_new(object, "tune", tune);
    return object;
}

static json_t *roof_value(const hr_roof *roof) {
    hr_roof_row rows[HR_ROOF_ROWS_MAX];
    json_t *object = json_object();
    int count = hr_roof_rows(roof, rows);
    for (int i = 0; i < count; i++) {
        json_t *group = json_object_get(object, rows[i].group);
        if (!group) {
            group = json_object();
            json_object_set_new(object, rows[i].group, group);
        }
        set_real(group, rows[i].name, rows[i].value);
    }
    for (int i = 0; i < roof->cache_count && i < HR_ROOF_LEVELS; i++)
        if (json_object_get(object, roof->cache[i].name))
            set_real(json_object_get(object, roof->cache[i].name), "bytes", roof->cache[i].bytes);
    set_real(object, "launch", roof->launch);
    set_whole(object, "threads", roof->threads);
    set_real(object, "measured_at", roof->measured_at);
    return object;
}

/* Ends the object: its text through `out`. jansson gives NULL where memory ran out. */
static hr_status give_json(json_t *object, char **out) {
    char *dump =
        object ? json_dumps(object, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    hr_text text = {0};
    if (!dump) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while building JSON");
    hr_text_format(&text, "%s\n", dump);
    free(dump);
    return hr_text_give(&text, out);
}

hr_status hr_report_run_json(const hr_run_result *run, char **out) {
    return give_json(run_value(run), out);
}

hr_status hr_report_roof_json(const hr_device *device, const hr_roof *roof, char **out) {
    json_t *object = json_object();
    json_object_set_new(object, "device", device_value(hr_device_kind(device), hr_device_name(device)));
    json_object_set_new(object, "roof", roof_value(roof));
    return give_json(object, out);
}

/* ---- bench ---- */

static void format_date(double since_epoch, char out[32]) {
    time_t seconds = (time_t)since_epoch;
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
        strcpy(out, "unknown");
}

static json_t *bench_row_value(const hr_bench_row *row, const hr_roof *roof) {
    if (!row->result) {
        json_t *failed = json_object();
        set_text(failed, "kernel", row->kernel);
        set_text(failed, "dtype", row->dtype);
        set_text(failed, "error", row->error);
        return failed;
    }
    const hr_run_result *run = row->result;
    json_t *object = run_value(run);
    set_text(object, "dtype", row->dtype);
    set_real(object, "bytes_per_second", run->floor.bytes / run->seconds.median);
    set_real(object, "copy_roof_fraction", run->floor.bytes / run->seconds.median / roof->copy);
    json_object_set_new(object, "unfused", run->unfused.runs ? timing_value(&run->unfused) : json_null());
    set_real(object, "fusion_gain", run->unfused.runs ? run->unfused.median / run->seconds.median : NAN);
    return object;
}

hr_status hr_report_bench_json(const hr_bench *bench, char **out) {
    json_t *object = json_object(), *rows = json_array();
    char date[32];
    format_date(bench->started_at, date);
    set_text(object, "version", hr_version());
    set_text(object, "command", bench->command);
    set_text(object, "date", date);
    json_object_set_new(object, "device", device_value(bench->device_kind, bench->device_name));
    json_object_set_new(object, "roof", roof_value(&bench->roof));
    for (int i = 0; i < bench->row_count; i++)
        json_array_append_new(rows, bench_row_value(&bench->rows[i], &bench->roof));
    json_object_set_new(object, "kernels", rows);
    return give_json(object, out);
}

/* One field of CSV, quoted where it must be. */
static void csv_text(hr_text *out, const char *text) {
    if (!strpbrk(text, ",\"\n\r")) {
        hr_utf8_clean(out, text);
        return;
    }
    hr_text_append(out, "\"", 1);
    for (; *text; text++)
        hr_text_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    hr_text_append(out, "\"", 1);
}

static void csv_row(hr_text *out, const hr_bench_row *row, const hr_roof *roof) {
    const hr_run_result *run = row->result;
    csv_text(out, run ? run->kernel : row->kernel);
    hr_text_format(out, ",%s,", row->dtype);
    if (!run) {
        hr_text_format(out, ",,,,,,,,,,,,");
        csv_text(out, row->error);
        hr_text_format(out, "\n");
        return;
    }
    for (int i = 0; i < run->extent_count; i++)
        hr_text_format(out, "%s%s=%lld", i ? " " : "", run->extent_names[i], (long long)run->extents[i]);
    double bandwidth = run->floor.bytes / run->seconds.median;
    hr_text_format(out, ",%.6g,%.6g,%.6g,%.6g,%.4f,%.6g,%s,%.4f,", run->seconds.median, run->seconds.min,
                   run->seconds.max, bandwidth, bandwidth / roof->copy, run->floor.seconds, run->floor.bound,
                   run->headroom);
    if (run->unfused.runs) hr_text_format(out, "%.4f", run->unfused.median / run->seconds.median);
    if (run->verify_done)
        hr_text_format(out, ",%.3g,%s,\n", run->verified.max_error, run->verified.ok ? "right" : "wrong");
    else
        hr_text_format(out, ",,not checked,\n");
}

hr_status hr_report_bench_csv(const hr_bench *bench, char **out) {
    hr_text text = {0};
    char date[32];
    format_date(bench->started_at, date);
    hr_text_format(&text, "# headroom %s, %s, %s: %s, %d threads, copy %.4g B/s\n# ", hr_version(), date,
                   bench->device_kind, bench->device_name, bench->roof.threads, bench->roof.copy);
    hr_utf8_clean(&text, bench->command);
    hr_text_format(&text,
                   "\nkernel,dtype,extents,seconds,min,max,bytes_per_second,copy_roof_fraction,floor_seconds,"
                   "bound,headroom,fusion_gain,max_error,check,error\n");
    for (int i = 0; i < bench->row_count; i++)
        csv_row(&text, &bench->rows[i], &bench->roof);
    return hr_text_give(&text, out);
}
