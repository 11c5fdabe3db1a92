/* Reports for a terminal: about ten lines a run, a table of roofs, the bench table.
 *
 * In: results and the terminal's style. Out: lines of text. Colours and signs beyond ASCII only where the
 * style allows them; control characters of the user's text are shown as '?'.
 */
#include "report/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef enum ink { INK_PLAIN, INK_BOLD, INK_DIM, INK_GOOD, INK_FAIR, INK_POOR, INK_ACCENT } ink;

static const char *const ink_codes[] = {"",         "\033[1m",  "\033[2m", "\033[32m",
                                        "\033[33m", "\033[31m", "\033[36m"};
static const ink grade_inks[] = {INK_GOOD, INK_FAIR, INK_POOR};

/* A report while it is written. */
typedef struct sheet {
    hr_text text;
    hr_report_style style;
} sheet;

static sheet sheet_begin(const hr_report_style *style) {
    sheet paper = {.style = {.size = sizeof paper.style}};
    if (style) memcpy(&paper.style, style, style->size < sizeof *style ? style->size : sizeof *style);
    if (paper.style.width <= 0) paper.style.width = 100;
    return paper;
}

static void put(sheet *paper, ink colour, const char *text) {
    if (paper->style.colour && colour != INK_PLAIN) hr_text_format(&paper->text, "%s", ink_codes[colour]);
    for (const char *at = text; *at; at++) { /* nothing of the user's may drive the terminal */
        bool control = (unsigned char)*at < 32 || *at == 127;
        hr_text_append(&paper->text, control ? "?" : at, 1);
    }
    if (paper->style.colour && colour != INK_PLAIN) hr_text_format(&paper->text, "\033[0m");
}

static void __attribute__((format(printf, 3, 4))) putf(sheet *paper, ink colour, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put(paper, colour, line);
}

static void end_line(sheet *paper) {
    hr_text_append(&paper->text, "\n", 1);
}

static void label(sheet *paper, const char *name) {
    putf(paper, INK_DIM, "  %-9s ", name);
}

/* Columns that a text takes, for padding beside signs of several bytes. */
static int columns(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static void put_padded(sheet *paper, ink colour, const char *text, int width) {
    put(paper, colour, text);
    putf(paper, INK_PLAIN, "%*s", width > columns(text) ? width - columns(text) : 0, "");
}

static const char *dot(const sheet *paper) {
    return paper->style.unicode ? " · " : ", ";
}

/* A bar of `width` columns, filled to `part` of it, in eighths of a column where the terminal can. */
static void put_bar(sheet *paper, ink colour, double part, int width) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    bool unicode = paper->style.unicode;
    hr_text bar = {0}, rest = {0};
    part = part > 0 ? part < 1 ? part : 1 : 0;
    int eighth = (int)lround(part * width * (unicode ? 8 : 1)) * (unicode ? 1 : 8);
    for (int i = 0; i < eighth / 8; i++)
        hr_text_format(&bar, "%s", unicode ? "█" : "#");
    hr_text_format(&bar, "%s", eighths[eighth % 8]);
    for (int i = (eighth + 7) / 8; i < width; i++)
        hr_text_format(&rest, "%s", unicode ? "·" : ".");
    put(paper, colour, hr_text_data(&bar));
    if (rest.length) put(paper, INK_DIM, hr_text_data(&rest));
    hr_text_clear(&bar);
    hr_text_clear(&rest);
}

/* ---- a run ---- */

static void put_title(sheet *paper, const hr_run_result *run) {
    put(paper, INK_BOLD, run->kernel);
    putf(paper, INK_PLAIN, "  %s", run->file);
    for (int i = 0; i < run->extent_count; i++)
        putf(paper, INK_PLAIN, "%s%s=%lld", i ? " " : dot(paper), run->extent_names[i],
             (long long)run->extents[i]);
    putf(paper, INK_DIM, "%s%s: %s", dot(paper), run->device_kind, run->device_name);
    if (run->roof.threads > 0) putf(paper, INK_DIM, ", %d threads", run->roof.threads);
    end_line(paper);
}

static void put_tuning(sheet *paper, const hr_run_result *run) {
    const char *chosen = NULL;
    for (int i = 0; i < run->variant_count; i++)
        if (run->variants[i].chosen) chosen = run->variants[i].label;
    if (!chosen && run->tune.tried == 0 && !run->tune.cached) return;
    label(paper, "tuning");
    if (run->tune.cached)
        put(paper, INK_PLAIN, "as found by an earlier search");
    else if (run->tune.tried > 0)
        putf(paper, INK_PLAIN, "%d choices in %s", run->tune.tried,
             hr_words_time(run->tune.seconds, paper->style.unicode).text);
    else
        put(paper, INK_PLAIN, "the cost model's choice");
    if (chosen && chosen[0] && strcmp(chosen, "default") != 0) putf(paper, INK_PLAIN, ": %s", chosen);
    end_line(paper);
}

static void put_time(sheet *paper, const hr_run_result *run) {
    bool unicode = paper->style.unicode;
    const hr_timing *timing = &run->seconds;
    double flops = run->floor.tensor_flops + run->floor.vector_flops;
    label(paper, "time");
    put_padded(paper, INK_BOLD, hr_words_time(timing->median, unicode).text, 12);
    if (run->floor.bytes > 0)
        put(paper, INK_PLAIN, hr_words_rate(run->floor.bytes / timing->median, "B/s").text);
    if (run->floor.bytes > 0 && flops > 0) put(paper, INK_PLAIN, dot(paper));
    if (flops > 0) put(paper, INK_PLAIN, hr_words_rate(flops / timing->median, "FLOP/s").text);
    putf(paper, INK_DIM, "%s%s to %s in %d runs", dot(paper), hr_words_time(timing->min, unicode).text,
         hr_words_time(timing->max, unicode).text, timing->runs);
    end_line(paper);
}

static void put_floor(sheet *paper, const hr_floor *floor, const hr_roof *roof) {
    label(paper, "floor");
    put_padded(paper, INK_PLAIN, hr_words_time(floor->seconds, paper->style.unicode).text, 12);
    putf(paper, INK_PLAIN, "%s: %s", floor->bound, hr_floor_words(floor, roof).text);
    end_line(paper);
}

static void put_headroom(sheet *paper, const hr_run_result *run) {
    ink colour = grade_inks[hr_headroom_grade(run->headroom)];
    label(paper, "headroom");
    put_padded(paper, colour, hr_words_ratio(run->headroom, "x").text, 12);
    put_bar(paper, colour, run->roof_fraction, 24);
    putf(paper, INK_PLAIN, " %s of the roof", hr_words_percent(run->roof_fraction).text);
    end_line(paper);
}

static void put_fusion(sheet *paper, const hr_run_result *run) {
    if (run->unfused.runs == 0) return;
    double gain = run->unfused.median / run->seconds.median;
    label(paper, "fusion");
    put_padded(paper, INK_PLAIN, hr_words_ratio(gain, "x").text, 12);
    putf(paper, INK_PLAIN, "the speed of one pass per statement (%s)",
         hr_words_time(run->unfused.median, paper->style.unicode).text);
    end_line(paper);
}

static void put_check(sheet *paper, const hr_run_result *run) {
    const hr_check *check = &run->verified;
    label(paper, "check");
    if (!run->verify_done) {
        put(paper, INK_FAIR, "not checked");
        end_line(paper);
        return;
    }
    put_padded(paper, check->ok ? INK_GOOD : INK_POOR, check->ok ? "right" : "WRONG", 12);
    putf(paper, INK_PLAIN, "largest error %.2g of %.2g allowed, in %lld elements", check->max_error,
         check->tolerance, (long long)check->points);
    end_line(paper);
    if (check->points > 0 && check->where[0]) {
        label(paper, "");
        putf(paper, INK_DIM, "%12s%s", "", check->where);
        end_line(paper);
    }
}

hr_status hr_report_run_text(const hr_run_result *run, const hr_report_style *style, char **out) {
    sheet paper = sheet_begin(style);
    put_title(&paper, run);
    label(&paper, "plan");
    put(&paper, INK_PLAIN, run->plan_summary);
    end_line(&paper);
    put_tuning(&paper, run);
    put_time(&paper, run);
    put_floor(&paper, &run->floor, &run->roof);
    put_headroom(&paper, run);
    put_fusion(&paper, run);
    put_check(&paper, run);
    return hr_text_give(&paper.text, out);
}

hr_status hr_report_floor_text(const hr_floor *floor, const hr_roof *roof, const hr_report_style *style,
                               char **out) {
    sheet paper = sheet_begin(style);
    const struct {
        double amount;
        const char *unit, *name;
    } work[] = {{floor->bytes, "B", "moved"},
                {floor->tensor_flops, "FLOP", "of products"},
                {floor->vector_flops, "FLOP", "of vectors"},
                {floor->special_ops, "", "functions"}};
    bool first = true;
    put_floor(&paper, floor, roof);
    label(&paper, "work");
    for (int i = 0; i < 4; i++) {
        if (!(work[i].amount > 0)) continue;
        putf(&paper, INK_PLAIN, "%s%s %s", first ? "" : dot(&paper),
             hr_words_rate(work[i].amount, work[i].unit).text, work[i].name);
        first = false;
    }
    put(&paper, INK_PLAIN, first ? "none" : "");
    end_line(&paper);
    return hr_text_give(&paper.text, out);
}

/* ---- roofs ---- */

hr_status hr_report_roof_text(const hr_device *device, const hr_roof *roof, const hr_report_style *style,
                              char **out) {
    sheet paper = sheet_begin(style);
    hr_roof_row rows[HR_ROOF_ROWS_MAX];
    int count = hr_roof_rows(roof, rows), width = paper.style.width - 44;
    width = width < 12 ? 12 : width > 40 ? 40 : width;
    put(&paper, INK_BOLD, hr_device_name(device));
    putf(&paper, INK_DIM, "%s%s, %d threads, launch %s", dot(&paper), hr_device_kind(device), roof->threads,
         hr_words_time(roof->launch, paper.style.unicode).text);
    end_line(&paper);
    for (int i = 0; i < count; i++) {
        bool first = i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0;
        double most = 0;
        for (int k = 0; k < count; k++)
            if (rows[k].family == rows[i].family) most = fmax(most, rows[k].value);
        putf(&paper, INK_BOLD, "  %-8s", first ? rows[i].group : "");
        putf(&paper, INK_PLAIN, "%-8s", rows[i].name);
        putf(&paper, INK_PLAIN, "%14s  ", hr_words_rate(rows[i].value, rows[i].unit).text);
        put_bar(&paper, INK_ACCENT, rows[i].value / most, width);
        bool sized = first && rows[i].family == HR_ROOF_BANDWIDTH;
        for (int level = 0; sized && level < roof->cache_count; level++)
            if (strcmp(roof->cache[level].name, rows[i].group) == 0)
                putf(&paper, INK_DIM, "  %s", hr_words_capacity(roof->cache[level].bytes).text);
        end_line(&paper);
    }
    return hr_text_give(&paper.text, out);
}

/* ---- the bench table ---- */

/* Extents are left out where the terminal is too narrow for them. */
static bool bench_is_wide(const sheet *paper) {
    return paper->style.width >= 138;
}

static void put_bench_heading(sheet *paper) {
    putf(paper, INK_DIM, "%-26s %-5s ", "kernel", "dtype");
    if (bench_is_wide(paper)) putf(paper, INK_DIM, "%-32s ", "extents");
    putf(paper, INK_DIM, "%9s %13s %6s  %-7s %8s %7s  %s", "time", "rate", "copy", "bound", "headroom",
         "fusion", "check");
}

static void put_bench_row(sheet *paper, const hr_bench_row *row, const hr_roof *roof) {
    const hr_run_result *run = row->result;
    char extents[128] = "", gain[48] = "-", copy[48] = "-";
    if (!run) {
        putf(paper, INK_PLAIN, "%-26s %-5s ", row->kernel, row->dtype);
        put(paper, INK_POOR, row->error);
        return;
    }
    size_t used = 0;
    for (int i = 0; i < run->extent_count && used < sizeof extents; i++)
        used += (size_t)snprintf(extents + used, sizeof extents - used, "%s%s=%lld", i ? " " : "",
                                 run->extent_names[i], (long long)run->extents[i]);
    double bandwidth = run->floor.bytes / run->seconds.median;
    bool arithmetic = strcmp(run->floor.bound, "tensor") == 0 || strcmp(run->floor.bound, "vector") == 0;
    hr_words rate =
        arithmetic ? hr_words_rate((run->floor.tensor_flops + run->floor.vector_flops) / run->seconds.median,
                                   "FLOP/s")
                   : hr_words_rate(bandwidth, "B/s");
    if (run->unfused.runs)
        snprintf(gain, sizeof gain, "%s",
                 hr_words_ratio(run->unfused.median / run->seconds.median, "x").text);
    if (roof->copy > 0) snprintf(copy, sizeof copy, "%s", hr_words_percent(bandwidth / roof->copy).text);
    putf(paper, INK_BOLD, "%-26s", run->kernel);
    putf(paper, INK_PLAIN, " %-5s ", row->dtype);
    if (bench_is_wide(paper)) putf(paper, INK_PLAIN, "%-32s ", extents);
    hr_words time = hr_words_time(run->seconds.median, paper->style.unicode);
    putf(paper, INK_PLAIN, "%*s%s %13s %6s  %-7s ", 9 - columns(time.text), "", time.text, rate.text, copy,
         run->floor.bound);
    putf(paper, grade_inks[hr_headroom_grade(run->headroom)], "%8s", hr_words_ratio(run->headroom, "x").text);
    putf(paper, INK_PLAIN, " %7s  ", gain);
    if (!run->verify_done)
        put(paper, INK_FAIR, "not checked");
    else
        putf(paper, run->verified.ok ? INK_GOOD : INK_POOR, "%s %.1e", run->verified.ok ? "right" : "WRONG",
             run->verified.max_error);
}

hr_status hr_report_bench_line(const hr_bench_row *row, const hr_roof *roof, const hr_report_style *style,
                               char **out) {
    sheet paper = sheet_begin(style);
    if (!style || style->width <= 0) paper.style.width = 1000; /* no terminal */
    if (row)
        put_bench_row(&paper, row, roof);
    else
        put_bench_heading(&paper);
    end_line(&paper);
    return hr_text_give(&paper.text, out);
}
