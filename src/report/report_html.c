/* One self-contained page a run, or of the roofs: no script, nothing fetched.
 *
 * In: results. Out: HTML whose colours follow the reader's light or dark scheme. All text from outside passes
 * hr_html_escape.
 */
#include "base/handle.h"
#include "device/load.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VARIANTS_SHOWN 20

static const char *const grades[] = {"good", "fair", "poor"};

void hr_html_head(hr_text *out, const char *title) {
    hr_text_format(out, "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
                        "<meta name='viewport' content='width=device-width,initial-scale=1'>\n<title>");
    hr_html_escape(out, title);
    hr_text_format(out, "</title>\n<style>");
    for (int i = 0; hr_style_sheet[i]; i++)
        hr_text_append(out, hr_style_sheet[i], strlen(hr_style_sheet[i]));
    hr_text_format(out, "</style></head>\n<body><main>\n");
}

void hr_html_foot(hr_text *out, double measured_at) {
    char date[64] = "";
    time_t seconds = (time_t)measured_at;
    struct tm parts;
    if (measured_at > 0 && gmtime_r(&seconds, &parts))
        strftime(date, sizeof date, ", roofs measured on %Y-%m-%d at %H:%M UTC", &parts);
    hr_text_format(out, "<footer>headroom %s%s</footer>\n</main></body></html>\n", hr_version(), date);
}

/* ---- parts of a run's page ---- */

static void write_header(hr_text *out, const hr_run_result *run) {
    hr_text_format(out, "<header><div><h1>");
    hr_html_escape(out, run->kernel);
    hr_text_format(out, "</h1><p class='about'>");
    hr_html_escape(out, run->file);
    for (int i = 0; i < run->dtype_count; i++) {
        hr_text_format(out, "%s", i ? ", " : " · ");
        hr_html_escape(out, run->dtype_names[i]);
        hr_text_format(out, " = %s", hr_dtype_name(run->dtypes[i]));
    }
    for (int i = 0; i < run->extent_count; i++) {
        hr_text_format(out, "%s", i || run->dtype_count ? ", " : " · ");
        hr_html_escape(out, run->extent_names[i]);
        hr_text_format(out, " = %lld", (long long)run->extents[i]);
    }
    hr_text_format(out, "<br>");
    hr_html_escape(out, run->device_kind);
    hr_text_format(out, ": ");
    hr_html_escape(out, run->device_name);
    if (run->roof.threads > 0)
        hr_text_format(out, ", %d %s", run->roof.threads, hr_roof_threads_word(&run->roof));
    hr_text_format(out,
                   "</p></div><div class='big'><b class='%s'>%s</b><span>headroom: %s of the roof"
                   "</span></div></header>\n",
                   grades[hr_headroom_grade(run->headroom)], hr_words_ratio(run->headroom, "×").text,
                   hr_words_percent(run->roof_fraction).text);
}

static void write_fact(hr_text *out, const char *name, const char *kind, const char *value,
                       const char *note) {
    hr_text_format(out, "<div class='fact'><dt>%s</dt><dd class='%s'>", name, kind);
    hr_html_escape(out, value);
    hr_text_format(out, "<small>");
    hr_html_escape(out, note);
    hr_text_format(out, "</small></dd></div>\n");
}

static void write_facts(hr_text *out, const hr_run_result *run) {
    char value[64], note[320];
    double flops = run->floor.tensor_flops + run->floor.vector_flops;
    hr_text_format(out, "<dl class='facts'>\n");
    snprintf(note, sizeof note, "%s to %s in %d runs", hr_words_time(run->seconds.min, true).text,
             hr_words_time(run->seconds.max, true).text, run->seconds.runs);
    write_fact(out, "time", "", hr_words_time(run->seconds.median, true).text, note);
    snprintf(note, sizeof note, "%s: %s", run->floor.bound, hr_floor_words(&run->floor, &run->roof).text);
    write_fact(out, "floor", "", hr_words_time(run->floor.seconds, true).text, note);
    snprintf(note, sizeof note, "%s",
             flops > 0 ? hr_words_rate(flops / run->seconds.median, "FLOP/s").text : "");
    write_fact(out, "bandwidth", "", hr_words_rate(run->floor.bytes / run->seconds.median, "B/s").text, note);
    if (run->baseline.copy > 0) {
        snprintf(note, sizeof note, "measured alternately, %s",
                 hr_words_rate(run->baseline.rate, "B/s").text);
        write_fact(out, "part of a plain copy", "", hr_words_ratio(run->baseline.copy, "").text, note);
    }
    if (run->busy > HR_LOAD_BUSY)
        write_fact(out, "other programs", "poor", hr_words_percent(run->busy).text,
                   "measured while other programs ran");
    if (run->unfused.runs) {
        snprintf(value, sizeof value, "%s",
                 hr_words_ratio(run->unfused.median / run->seconds.median, "×").text);
        snprintf(note, sizeof note, "over one pass per statement, %s%s",
                 hr_words_time(run->unfused.median, true).text, hr_unfused_part(run).text);
        write_fact(out, "gain of fusion", "", value, note);
    }
    if (run->verify_done) {
        snprintf(note, sizeof note, "error %.2g of %.2g allowed", run->verified.max_error,
                 run->verified.tolerance);
        write_fact(out, "check", run->verified.ok ? "good" : "poor", run->verified.ok ? "right" : "wrong",
                   note);
    } else
        write_fact(out, "check", "fair", "not checked", "");
    hr_text_format(out, "</dl>\n");
}

static void write_roofline(hr_text *out, const hr_run_result *run) {
    hr_text_format(out, "<section><h2>Where it stands under the roof</h2>\n");
    hr_svg_roofline(out, &run->roof, run);
    hr_text_format(
        out, "<p class='note'>Solid: what memory and plain arithmetic can do on this machine, as measured. "
             "Dashed: caches and other units. The short bar is this kernel's floor, the dot is what it "
             "reaches.</p></section>\n");
}

typedef struct bar_list {
    int count;
    hr_bar bars[VARIANTS_SHOWN];
    hr_words values[VARIANTS_SHOWN];
} bar_list;

static void add_bar(bar_list *list, const char *label, const char *kind, double seconds) {
    hr_words *value = &list->values[list->count];
    *value = hr_words_time(seconds, true);
    list->bars[list->count++] = (hr_bar){label, value->text, kind, seconds, 0, 0};
}

static void write_times(hr_text *out, const hr_run_result *run) {
    bar_list list = {0};
    hr_text_format(out, "<section><h2>Time against the floor</h2>\n");
    add_bar(&list, "floor", "bound", run->floor.seconds);
    add_bar(&list, "measured", "chosen", run->seconds.median);
    list.bars[1].low = run->seconds.min;
    list.bars[1].high = run->seconds.max;
    if (run->unfused.runs) add_bar(&list, "one pass per statement", "slow", run->unfused.median);
    hr_svg_bars(out, list.bars, list.count, 0, "");
    hr_text_format(out, "</section>\n");
}

/* Fastest first, as they come. */
static void write_variants(hr_text *out, const hr_run_result *run) {
    bar_list list = {0};
    if (run->variant_count == 0) return;
    hr_text_format(out, "<section><h2>Time of each variant</h2>\n");
    for (int i = 0; i < run->variant_count && i < VARIANTS_SHOWN; i++)
        add_bar(&list, run->variants[i].label[0] ? run->variants[i].label : "as planned",
                run->variants[i].chosen ? "chosen" : "", run->variants[i].seconds);
    hr_svg_bars(out, list.bars, list.count, run->floor.seconds, "floor");
    if (run->tune.cached)
        hr_text_format(out, "<p class='note'>As measured by an earlier search.</p>");
    else if (run->tune.tried > 0)
        hr_text_format(out, "<p class='note'>%d tried in %s%s.</p>", run->tune.tried,
                       hr_words_time(run->tune.seconds, true).text,
                       run->variant_count > list.count ? "; the fastest are shown" : "");
    hr_text_format(out, "</section>\n");
}

static void write_cell(hr_text *out, const char *kind, const char *text) {
    hr_text_format(out, "<td class='%s'>", kind);
    hr_html_escape(out, text && text[0] ? text : "–");
    hr_text_format(out, "</td>");
}

static void write_plan(hr_text *out, const hr_run_result *run) {
    hr_text_format(out, "<section><h2>Plan</h2><p style='margin:0 0 10px'>");
    hr_html_escape(out, run->plan_summary);
    hr_text_format(out, "</p><div class='scroll'><table><tr><th>shape</th><th>stage and why</th>"
                        "<th style='white-space:nowrap'>in memory</th><th class='right'>bytes</th><th "
                        "class='right'>operations</th>"
                        "<th class='right'>floor</th></tr>\n");
    for (int i = 0; i < run->stage_count; i++) {
        const hr_stage_info *stage = &run->stages[i];
        hr_text_format(out, "<tr><td><span class='tag'>");
        hr_html_escape(out, stage->shape ? stage->shape : "");
        hr_text_format(out, "</span></td><td>");
        hr_html_escape(out, stage->name ? stage->name : "");
        hr_text_format(out, "<br><span style='color:var(--quiet)'>");
        hr_html_escape(out, stage->why ? stage->why : "");
        hr_text_format(out, "</span></td>");
        write_cell(out, "", stage->materialised);
        write_cell(out, "right", hr_words_rate(stage->bytes, "B").text);
        write_cell(out, "right", hr_words_rate(stage->flops, "").text);
        write_cell(out, "right", hr_words_time(stage->floor_seconds, true).text);
        hr_text_format(out, "</tr>\n");
    }
    hr_text_format(out, "</table></div></section>\n");
}

static void write_check(hr_text *out, const hr_run_result *run) {
    if (!run->verify_done) return;
    const hr_check *check = &run->verified;
    hr_text_format(out,
                   "<section><h2>Check against the text's meaning in f64</h2><p style='margin:0'>"
                   "<b class='%s'>%s</b>: %lld elements compared, largest error %.3g of %.3g allowed",
                   check->ok ? "good" : "poor", check->ok ? "Right" : "Wrong", (long long)check->points,
                   check->max_error, check->tolerance);
    if (check->points > 0 && check->where[0]) {
        hr_text_format(out, ", at <code>");
        hr_html_escape(out, check->where);
        hr_text_format(out, "</code>");
    }
    if (check->compared > 0)
        hr_text_format(out, "; %lld compared with the unfused version", (long long)check->compared);
    hr_text_format(out, ". Largest relative error against f64: %.3g", check->relative_error);
    if (check->warning[0]) {
        hr_text_format(out, ". <b class='fair'>Warning</b>: ");
        hr_html_escape(out, check->warning);
    }
    hr_text_format(out, ".</p></section>\n");
}

hr_status hr_report_run_html(const hr_run_result *run, char **out) {
    HR_TRY(hr_pointer_check(run, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text page = {0};
    char title[256];
    snprintf(title, sizeof title, "%s: %s headroom", run->kernel, hr_words_ratio(run->headroom, "×").text);
    hr_html_head(&page, title);
    write_header(&page, run);
    write_facts(&page, run);
    write_roofline(&page, run);
    write_times(&page, run);
    write_variants(&page, run);
    write_plan(&page, run);
    write_check(&page, run);
    if (run->source && run->source[0]) {
        hr_text_format(&page, "<section><details open><summary>Generated source</summary>\n");
        hr_html_source(&page, run->source);
        hr_text_format(&page, "</details></section>\n");
    }
    hr_html_foot(&page, run->roof.measured_at);
    return hr_text_give(&page, out);
}

/* ---- roofs ---- */

static void write_family(hr_text *out, const hr_roof *roof, hr_roof_family family, const char *title) {
    hr_roof_row rows[HR_ROOF_ROWS_MAX];
    hr_bar bars[HR_ROOF_ROWS_MAX];
    hr_words values[HR_ROOF_ROWS_MAX];
    char labels[HR_ROOF_ROWS_MAX][48];
    int count = hr_roof_rows(roof, rows), shown = 0;
    for (int i = 0; i < count; i++) {
        if (rows[i].family != family) continue;
        snprintf(labels[shown], sizeof labels[shown], "%.20s %.20s", rows[i].group, rows[i].name);
        values[shown] = hr_words_rate(rows[i].value, rows[i].unit);
        bars[shown] = (hr_bar){labels[shown],
                               values[shown].text,
                               strcmp(rows[i].group, "memory") == 0 ? "chosen" : "slow",
                               rows[i].value,
                               0,
                               0};
        shown++;
    }
    if (shown == 0) return;
    hr_text_format(out, "<section><h2>%s</h2>\n", title);
    hr_svg_bars(out, bars, shown, 0, "");
    hr_text_format(out, "</section>\n");
}

hr_status hr_report_roof_html(const hr_device *device, const hr_roof *roof, char **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(roof, "roof", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text page = {0};
    hr_html_head(&page, "headroom: roofs");
    hr_text_format(&page, "<header><div><h1>");
    hr_html_escape(&page, hr_device_name(device));
    hr_text_format(&page, "</h1><p class='about'>%s, %d %s, %s to start %s</p></div></header>\n",
                   hr_device_kind(device), roof->threads, hr_roof_threads_word(roof),
                   hr_words_time(roof->launch, true).text,
                   roof->launch_host > 0 ? "an empty kernel" : "and join them");
    hr_text_format(&page, "<section><h2>Roofline</h2>\n");
    hr_svg_roofline(&page, roof, NULL);
    hr_text_format(&page, "</section>\n");
    write_family(&page, roof, HR_ROOF_BANDWIDTH, "Bandwidth, bytes read and written");
    write_family(&page, roof, HR_ROOF_ARITHMETIC, "Arithmetic, a multiply-add counted as two");
    write_family(&page, roof, HR_ROOF_FUNCTIONS, "Functions in f32");
    hr_html_foot(&page, roof->measured_at);
    return hr_text_give(&page, out);
}
