/* Reports for programs: JSON and CSV.
 *
 * In: results. Out: one JSON object, or lines of comma-separated values. A number that JSON cannot hold
 * (infinite, not a number) becomes null; bytes that are no UTF-8 are replaced.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "report/json_value.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *device_value(const char *kind, const char *name) {
    json_t *device = json_object();
    hr_value_set_text(device, "kind", kind);
    hr_value_set_text(device, "name", name);
    return device;
}

/* "mean, rstd" -> ["mean", "rstd"] */
static json_t *names_value(const char *names) {
    json_t *list = json_array();
    for (names += strspn(names, ", "); *names; names += strspn(names, ", ")) {
        size_t length = strcspn(names, ", ");
        hr_value_append(list, json_stringn(names, length));
        names += length;
    }
    return list;
}

static json_t *plan_value(const hr_run_result *run) {
    json_t *plan = json_object(), *stages = json_array();
    for (int i = 0; i < run->stage_count; i++) {
        const hr_stage_info *stage = &run->stages[i];
        json_t *object = json_object();
        hr_value_set_text(object, "shape", stage->shape);
        hr_value_set_text(object, "name", stage->name);
        hr_value_set_text(object, "why", stage->why);
        hr_value_set(object, "materialised", names_value(stage->materialised ? stage->materialised : ""));
        hr_value_set_real(object, "bytes", stage->bytes);
        hr_value_set_real(object, "flops", stage->flops);
        hr_value_set_real(object, "floor_seconds", run->floor.bound ? stage->floor_seconds : NAN);
        hr_value_append(stages, object);
    }
    hr_value_set_text(plan, "summary", run->plan_summary);
    hr_value_set(plan, "stages", stages);
    return plan;
}

static json_t *timing_value(const hr_timing *timing) {
    json_t *seconds = json_object();
    hr_value_set_real(seconds, "median", timing->median);
    hr_value_set_real(seconds, "min", timing->min);
    hr_value_set_real(seconds, "max", timing->max);
    hr_value_set_whole(seconds, "runs", timing->runs);
    return seconds;
}

/* The timing, and every run of it. */
static json_t *seconds_value(const hr_run_result *run) {
    json_t *seconds = timing_value(&run->seconds), *samples = json_array();
    for (int i = 0; run->samples && i < run->seconds.runs; i++)
        hr_value_append(samples, hr_value_real(run->samples[i]));
    hr_value_set(seconds, "samples", samples);
    return seconds;
}

/* null where it was not measured. */
static json_t *unfused_value(const hr_run_result *run) {
    if (!run->unfused.runs) return json_null();
    json_t *unfused = timing_value(&run->unfused);
    hr_value_set_real(unfused, "part", run->unfused_part > 0 ? run->unfused_part : 1);
    return unfused;
}

static json_t *variants_value(const hr_run_result *run) {
    json_t *variants = json_array();
    for (int i = 0; i < run->variant_count; i++) {
        json_t *variant = json_object();
        hr_value_set_text(variant, "label", run->variants[i].label);
        hr_value_set_real(variant, "seconds", run->variants[i].seconds);
        hr_value_set(variant, "chosen", json_boolean(run->variants[i].chosen));
        hr_value_append(variants, variant);
    }
    return variants;
}

static json_t *verified_value(const hr_run_result *run) {
    if (!run->verify_done) return json_null();
    json_t *verified = json_object();
    hr_value_set_whole(verified, "points", run->verified.points);
    hr_value_set_real(verified, "max_error", run->verified.max_error);
    hr_value_set_real(verified, "tolerance", run->verified.tolerance);
    hr_value_set(verified, "ok", json_boolean(run->verified.ok));
    hr_value_set_whole(verified, "compared", run->verified.compared);
    hr_value_set_real(verified, "relative_error", run->verified.relative_error);
    hr_value_set_text(verified, "warning", run->verified.warning);
    return verified;
}

/* Absent where nothing is known of it. */
static void set_baseline(json_t *object, const hr_run_result *run) {
    const hr_baseline *baseline = &run->baseline;
    if (!(baseline->roof_fraction > 0)) return;
    json_t *value = json_object();
    if (baseline->copy > 0) {
        hr_value_set_real(value, "copy", baseline->copy);
        hr_value_set_real(value, "bytes_per_second", baseline->rate);
        hr_value_set_real(value, "kept_roof_part", baseline->rate / run->roof.copy);
        if (run->roof_was > 0) hr_value_set_real(value, "raised_from_bytes_per_second", run->roof_was);
    }
    if (baseline->special_rate > 0) {
        hr_value_set_text(value, "special", hr_special_name(baseline->special));
        hr_value_set_real(value, "special_per_second", baseline->special_rate);
        if (run->special_was > 0)
            hr_value_set_real(value, "special_raised_from_per_second", run->special_was);
        hr_value_set_real(value, "kept_special_part",
                          baseline->special_rate / run->roof.special[baseline->special]);
    }
    hr_value_set_real(value, "floor_seconds", baseline->floor);
    hr_value_set_real(value, "roof_fraction", baseline->roof_fraction);
    hr_value_set(object, "beside", value);
}

static json_t *flops_value(const hr_floor *floor) {
    json_t *flops = json_object();
    hr_value_set_real(flops, "tensor", floor->tensor_flops);
    hr_value_set_real(flops, "vector", floor->vector_flops);
    hr_value_set_real(flops, "special", floor->special_ops);
    return flops;
}

/* null where there is no roof to reckon it by. */
static json_t *floor_value(const hr_floor *floor) {
    if (!floor->bound) return json_null();
    json_t *least = json_object();
    hr_value_set_real(least, "seconds", floor->seconds);
    hr_value_set_text(least, "bound", floor->bound);
    return least;
}

static json_t *tune_value(const hr_run_result *run) {
    json_t *tune = json_object();
    hr_value_set_whole(tune, "tried", run->tune.tried);
    hr_value_set_real(tune, "seconds", run->tune.seconds);
    hr_value_set(tune, "cached", json_boolean(run->tune.cached));
    return tune;
}

/* What is run, and what it becomes. */
static json_t *kernel_value(const hr_run_result *run) {
    json_t *object = json_object(), *extents = json_object(), *dtypes = json_object();
    for (int i = 0; i < run->extent_count; i++)
        hr_value_set_whole(extents, run->extent_names[i], run->extents[i]);
    for (int i = 0; i < run->dtype_count; i++)
        hr_value_set_text(dtypes, run->dtype_names[i], hr_dtype_name(run->dtypes[i]));
    hr_value_set_text(object, "kernel", run->kernel);
    hr_value_set_text(object, "file", run->file);
    hr_value_set(object, "device", device_value(run->device_kind, run->device_name));
    hr_value_set(object, "dtypes", dtypes);
    hr_value_set(object, "extents", extents);
    hr_value_set(object, "plan", plan_value(run));
    return object;
}

/* The object of `headroom run --json`; its keys are a contract. */
static json_t *run_value(const hr_run_result *run) {
    json_t *object = kernel_value(run);
    hr_value_set(object, "seconds", seconds_value(run));
    hr_value_set_real(object, "bytes", run->floor.bytes);
    hr_value_set(object, "flops", flops_value(&run->floor));
    hr_value_set(object, "floor", floor_value(&run->floor));
    hr_value_set_real(object, "headroom", run->headroom);
    hr_value_set_real(object, "roof_fraction", run->roof_fraction);
    hr_value_set(object, "verified", verified_value(run));
    hr_value_set(object, "tune", tune_value(run));
    hr_value_set_text(object, "version", hr_version());
    hr_value_set_whole(object, "threads", run->threads);
    hr_value_set(object, "variants", variants_value(run));
    hr_value_set(object, "unfused", unfused_value(run));
    hr_value_set_real(object, "busy", run->busy);
    set_baseline(object, run);
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
            hr_value_set(object, rows[i].group, group);
        }
        hr_value_set_real(group, rows[i].name, rows[i].value);
    }
    for (int i = 0; i < roof->cache_count && i < HR_ROOF_LEVELS; i++)
        if (json_object_get(object, roof->cache[i].name))
            hr_value_set_real(json_object_get(object, roof->cache[i].name), "bytes", roof->cache[i].bytes);
    hr_value_set_real(object, "launch", roof->launch);
    if (roof->launch_host > 0) {
        hr_value_set_real(object, "launch_graph", roof->launch_graph);
        hr_value_set_real(object, "launch_host", roof->launch_host);
        hr_value_set_real(object, "launch_driver", roof->launch_driver);
    }
    hr_value_set_whole(object, "threads", roof->threads);
    hr_value_set_real(object, "measured_at", roof->measured_at);
    hr_value_set_real(object, "busy", roof->busy);
    return object;
}

hr_status hr_report_run_json(const hr_run_result *run, char **out) {
    HR_TRY(hr_pointer_check(run, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    return hr_value_give(run_value(run), before, out);
}

hr_status hr_report_explain_json(const hr_run_result *run, char **out) {
    HR_TRY(hr_pointer_check(run, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    json_t *object = kernel_value(run);
    hr_value_set_real(object, "bytes", run->floor.bytes);
    hr_value_set(object, "flops", flops_value(&run->floor));
    hr_value_set(object, "floor", floor_value(&run->floor));
    hr_value_set_text(object, "version", hr_version());
    return hr_value_give(object, before, out);
}

hr_status hr_report_roof_json(const hr_device *device, const hr_roof *roof, char **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(roof, "roof", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    json_t *object = json_object();
    hr_value_set(object, "device", device_value(hr_device_kind(device), hr_device_name(device)));
    hr_value_set(object, "roof", roof_value(roof));
    return hr_value_give(object, before, out);
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
        hr_value_set_text(failed, "kernel", row->kernel);
        hr_value_set_text(failed, "dtype", row->dtype);
        hr_value_set_text(failed, "error", row->error);
        return failed;
    }
    const hr_run_result *run = row->result;
    json_t *object = run_value(run);
    hr_value_set_text(object, "dtype", row->dtype);
    hr_value_set_real(object, "bytes_per_second", run->floor.bytes / run->seconds.median);
    hr_value_set_real(object, "copy_roof_fraction", run->floor.bytes / run->seconds.median / roof->copy);
    hr_value_set_real(object, "fusion_gain",
                      run->unfused.runs ? run->unfused.median / run->seconds.median : NAN);
    if (row->passes > 1) {
        json_t *passes = json_object();
        hr_value_set_whole(passes, "count", row->passes);
        hr_value_set_real(passes, "least", row->now_least > 0 ? row->now_least : NAN);
        hr_value_set_real(passes, "most", row->now_most > 0 ? row->now_most : NAN);
        hr_value_set(object, "passes", passes);
    }
    return object;
}

hr_status hr_report_bench_json(const hr_bench *bench, char **out) {
    HR_TRY(hr_pointer_check(bench, "bench", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    json_t *object = json_object(), *rows = json_array();
    char date[32];
    format_date(bench->started_at, date);
    hr_value_set_text(object, "version", hr_version());
    hr_value_set_text(object, "command", bench->command);
    hr_value_set_text(object, "date", date);
    hr_value_set(object, "device", device_value(bench->device_kind, bench->device_name));
    hr_value_set(object, "roof", roof_value(&bench->roof));
    for (int i = 0; i < bench->row_count; i++)
        hr_value_append(rows, bench_row_value(&bench->rows[i], &bench->roof));
    hr_value_set(object, "kernels", rows);
    return hr_value_give(object, before, out);
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
        hr_text_format(out, ",,,\n");
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
        hr_text_format(out, ",%.3g,%s,,", run->verified.max_error, run->verified.ok ? "right" : "wrong");
    else
        hr_text_format(out, ",,not checked,,");
    if (run->baseline.copy > 0) hr_text_format(out, "%.4f", run->baseline.copy);
    hr_text_format(out, ",");
    if (run->baseline.roof_fraction > 0) hr_text_format(out, "%.4f", run->baseline.roof_fraction);
    hr_text_format(out, ",");
    for (int i = 0; i < run->dtype_count; i++)
        hr_text_format(out, "%s%s=%s", i ? " " : "", run->dtype_names[i], hr_dtype_name(run->dtypes[i]));
    hr_text_format(out, "\n");
}

hr_status hr_report_bench_csv(const hr_bench *bench, char **out) {
    HR_TRY(hr_pointer_check(bench, "bench", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text text = {0};
    char date[32];
    format_date(bench->started_at, date);
    hr_text_format(&text, "# headroom %s, %s, %s: %s, %d %s, copy %.4g B/s\n# ", hr_version(), date,
                   bench->device_kind, bench->device_name, bench->roof.threads,
                   hr_roof_threads_word(&bench->roof), bench->roof.copy);
    hr_utf8_clean(&text, bench->command);
    hr_text_format(
        &text, "\nkernel,dtype,extents,seconds,min,max,bytes_per_second,copy_roof_fraction,floor_seconds,"
               "bound,headroom,fusion_gain,max_error,check,error,beside_copy,beside_roof_fraction,dtypes\n");
    for (int i = 0; i < bench->row_count; i++)
        csv_row(&text, &bench->rows[i], &bench->roof);
    return hr_text_give(&text, out);
}
