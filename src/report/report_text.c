/* Reports for a terminal: about ten lines a run, a table of roofs, the bench table.
 *
 * In: results and the terminal's style. Out: lines of text. Colours and signs beyond ASCII only where the
 * style allows them; control characters of the user's text are shown as '?'.
 */
#include "base/handle.h"
#include "device/load.h"
#include "report/sheet.h"

#include <math.h>
#include <string.h>

#define HANG        24 /* columns before what is said of a number, and of the lines that go on */
#define LABELLED    12 /* of those where no number stands in between */
#define BAR_LEAST   8
#define ROOF_PASSED 1.05 /* more than one sample beside another */
#define KEPT_NEAR   0.1  /* a roof that is no further from now goes without a word */

static const hr_ink grade_inks[] = {HR_INK_GOOD, HR_INK_FAIR, HR_INK_POOR};

/* ---- a run ---- */

static void put_title(hr_sheet *paper, const hr_run_result *run) {
    hr_sheet_put(paper, HR_INK_BOLD, run->kernel);
    hr_sheet_format(paper, HR_INK_PLAIN, "  %s", run->file);
    for (int i = 0; i < run->dtype_count; i++)
        hr_sheet_format(paper, HR_INK_PLAIN, "%s%s=%s", i ? " " : hr_sheet_dot(paper), run->dtype_names[i],
                        hr_dtype_name(run->dtypes[i]));
    for (int i = 0; i < run->extent_count; i++)
        hr_sheet_format(paper, HR_INK_PLAIN, "%s%s=%lld", i || run->dtype_count ? " " : hr_sheet_dot(paper),
                        run->extent_names[i], (long long)run->extents[i]);
    hr_sheet_format(paper, HR_INK_DIM, "%s%s: %s", hr_sheet_dot(paper), run->device_kind, run->device_name);
    if (run->roof.threads > 0)
        hr_sheet_format(paper, HR_INK_DIM, ", %d %s", run->roof.threads, hr_roof_threads_word(&run->roof));
    hr_sheet_end_wrapped(paper, LABELLED);
}

static void put_tuning(hr_sheet *paper, const hr_run_result *run) {
    const char *chosen = NULL;
    for (int i = 0; i < run->variant_count; i++)
        if (run->variants[i].chosen) chosen = run->variants[i].label;
    if (!chosen && run->tune.tried == 0 && !run->tune.cached) return;
    hr_sheet_label(paper, "tuning");
    if (run->tune.cached)
        hr_sheet_put(paper, HR_INK_PLAIN, "as found by an earlier search");
    else if (run->tune.tried > 0)
        hr_sheet_format(paper, HR_INK_PLAIN, "%d choices in %s", run->tune.tried,
                        hr_words_time(run->tune.seconds, paper->style.unicode).text);
    else
        hr_sheet_put(paper, HR_INK_PLAIN, "the cost model's choice");
    if (chosen && chosen[0] && strcmp(chosen, "default") != 0)
        hr_sheet_format(paper, HR_INK_PLAIN, ": %s", chosen);
    hr_sheet_end_wrapped(paper, LABELLED);
}

static void put_time(hr_sheet *paper, const hr_run_result *run) {
    bool unicode = paper->style.unicode;
    const hr_timing *timing = &run->seconds;
    double flops = run->floor.tensor_flops + run->floor.vector_flops;
    hr_sheet_label(paper, "time");
    hr_sheet_padded(paper, HR_INK_BOLD, hr_words_time(timing->median, unicode).text, 12);
    if (run->floor.bytes > 0)
        hr_sheet_put(paper, HR_INK_PLAIN, hr_words_rate(run->floor.bytes / timing->median, "B/s").text);
    if (run->floor.bytes > 0 && flops > 0) hr_sheet_put(paper, HR_INK_PLAIN, hr_sheet_dot(paper));
    if (flops > 0) hr_sheet_put(paper, HR_INK_PLAIN, hr_words_rate(flops / timing->median, "FLOP/s").text);
    bool first = run->floor.bytes == 0 && flops == 0;
    hr_sheet_format(paper, HR_INK_DIM, "%s%s to %s in %d runs", first ? "" : hr_sheet_dot(paper),
                    hr_words_time(timing->min, unicode).text, hr_words_time(timing->max, unicode).text,
                    timing->runs);
    hr_sheet_end_wrapped(paper, HANG);
}

static void put_floor(hr_sheet *paper, const hr_floor *floor, const hr_roof *roof) {
    hr_sheet_label(paper, "floor");
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_time(floor->seconds, paper->style.unicode).text, 12);
    hr_sheet_format(paper, HR_INK_PLAIN, "%s: %s", floor->bound, hr_floor_words(floor, roof).text);
    hr_sheet_end_wrapped(paper, HANG);
}

/* Arithmetic depends on nothing but the machine: a kernel that passes its roof shows that it was busy then.
 * Memory's speed is compared by the baseline copy, and caches can pass it; gelu has formulas of its
 * own, which are faster than the tanh or erf that its floor counts. */
static bool roof_is_low(const hr_run_result *run) {
    static const char *const passed_rightly[] = {"memory", "launch", "tanh", "erf"};
    for (size_t i = 0; i < sizeof passed_rightly / sizeof *passed_rightly; i++)
        if (strcmp(run->floor.bound, passed_rightly[i]) == 0) return false;
    return run->roof_fraction > ROOF_PASSED;
}

static void put_headroom(hr_sheet *paper, const hr_run_result *run) {
    hr_ink colour = grade_inks[hr_headroom_grade(run->headroom)];
    hr_sheet_label(paper, "headroom");
    hr_sheet_padded(paper, colour, hr_words_ratio(run->headroom, "x").text, 12);
    int room = paper->style.width - HANG - 18;
    hr_sheet_bar(paper, colour, run->roof_fraction, room < BAR_LEAST ? BAR_LEAST : room > 24 ? 24 : room);
    hr_sheet_format(paper, HR_INK_PLAIN, " %s of the roof%s", hr_words_percent(run->roof_fraction).text,
                    roof_is_low(run) ? "; it was measured in a slow moment: headroom roof --again" : "");
    hr_sheet_end_wrapped(paper, HANG);
}

/* A kept roof is mentioned where the speed of memory or cores is now another than it was. */
static bool is_near(double kept) {
    return fabs(kept - 1) <= KEPT_NEAR;
}

static void put_kept(hr_sheet *paper, double kept, const char *used) {
    hr_sheet_format(paper, HR_INK_PLAIN, "%s of the kept roof: ", hr_words_percent(kept).text);
    if (kept < 1)
        hr_sheet_format(paper, HR_INK_PLAIN, "others use %s", used);
    else
        hr_sheet_put(paper, HR_INK_PLAIN, "measure it anew by headroom roof --again");
}

static void put_baseline(hr_sheet *paper, const hr_run_result *run) {
    const hr_baseline *baseline = &run->baseline;
    if (!(baseline->copy > 0)) return;
    double kept = run->roof.copy > 0 ? baseline->rate / run->roof.copy : 1;
    hr_sheet_label(paper, "baseline");
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_ratio(baseline->copy, "").text, 12);
    hr_sheet_format(paper, HR_INK_PLAIN, "of a plain copy, measured alternately (%s",
                    hr_words_rate(baseline->rate, "B/s").text);
    if (!is_near(kept)) {
        hr_sheet_put(paper, HR_INK_PLAIN, "; ");
        put_kept(paper, kept, "this memory");
    }
    hr_sheet_put(paper, HR_INK_PLAIN, ")");
    hr_sheet_end_wrapped(paper, HANG);
}

static void put_cores(hr_sheet *paper, const hr_run_result *run) {
    const hr_baseline *baseline = &run->baseline;
    double roof = run->roof.special[baseline->special];
    double kept = roof > 0 ? baseline->special_rate / roof : 1;
    if (!(baseline->special_rate > 0) || is_near(kept)) return;
    hr_sheet_label(paper, "cores");
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_rate(baseline->special_rate, "/s").text, 12);
    hr_sheet_format(paper, HR_INK_PLAIN, "%s measured alternately, ", hr_special_name(baseline->special));
    put_kept(paper, kept, "these cores");
    hr_sheet_end_wrapped(paper, HANG);
}

static void put_raised_rate(hr_sheet *paper, const char *what, double was, double rate, const char *unit) {
    if (!(was > 0)) return;
    hr_sheet_label(paper, "roof");
    hr_sheet_format(paper, HR_INK_PLAIN, "its %s raised from %s to %s, measured alternately with this kernel",
                    what, hr_words_rate(was, unit).text, hr_words_rate(rate, unit).text);
    hr_sheet_end_wrapped(paper, HANG);
}

static void put_raised(hr_sheet *paper, const hr_run_result *run) {
    hr_special special = run->baseline.special;
    put_raised_rate(paper, "copy", run->roof_was, run->roof.copy, "B/s");
    put_raised_rate(paper, hr_special_name(special), run->special_was, run->roof.special[special], "/s");
}

static void put_busy(hr_sheet *paper, double busy, const char *more) {
    if (!(busy > HR_LOAD_BUSY)) return;
    hr_sheet_label(paper, "busy");
    hr_sheet_format(paper, HR_INK_FAIR, "measured while other programs ran: %s%s",
                    hr_words_percent(busy).text, more);
    hr_sheet_end_wrapped(paper, LABELLED);
}

static void put_fusion(hr_sheet *paper, const hr_run_result *run) {
    if (run->unfused.runs == 0) return;
    double gain = run->unfused.median / run->seconds.median;
    hr_sheet_label(paper, "fusion");
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_ratio(gain, "x").text, 12);
    hr_sheet_format(paper, HR_INK_PLAIN, "the speed of one pass per statement (%s%s)",
                    hr_words_time(run->unfused.median, paper->style.unicode).text, hr_unfused_part(run).text);
    hr_sheet_end_wrapped(paper, HANG);
}

static void put_check(hr_sheet *paper, const hr_run_result *run) {
    const hr_check *check = &run->verified;
    hr_sheet_label(paper, "check");
    if (!run->verify_done) {
        hr_sheet_put(paper, HR_INK_FAIR, "not checked");
        hr_sheet_end_wrapped(paper, HANG);
        return;
    }
    hr_sheet_padded(paper, check->ok ? HR_INK_GOOD : HR_INK_POOR, check->ok ? "right" : "WRONG", 12);
    hr_sheet_format(paper, HR_INK_PLAIN, "largest error %.2g of %.2g allowed, in %lld element%s",
                    check->max_error, check->tolerance, (long long)check->points,
                    check->points == 1 ? "" : "s");
    if (check->compared > 0)
        hr_sheet_format(paper, HR_INK_PLAIN, "; %lld compared with the unfused version",
                        (long long)check->compared);
    hr_sheet_end_wrapped(paper, HANG);
    if (check->points > 0 && check->where[0]) {
        hr_sheet_label(paper, "");
        hr_sheet_format(paper, HR_INK_DIM, "%12s%s", "", check->where);
        hr_sheet_end_wrapped(paper, HANG);
    }
    if (check->relative_where[0]) {
        hr_sheet_label(paper, "accuracy");
        hr_sheet_format(paper, HR_INK_PLAIN, "%-12.2glargest relative error against f64: %s",
                        check->relative_error, check->relative_where);
        hr_sheet_end_wrapped(paper, HANG);
    }
    if (check->warning[0]) {
        hr_sheet_label(paper, "warning");
        hr_sheet_put(paper, HR_INK_FAIR, check->warning);
        hr_sheet_end_wrapped(paper, HANG);
    }
}

hr_status hr_report_run_text(const hr_run_result *run, const hr_report_style *style, char **out) {
    HR_TRY(hr_pointer_check(run, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    put_title(&paper, run);
    hr_sheet_label(&paper, "plan");
    hr_sheet_put(&paper, HR_INK_PLAIN, run->plan_summary);
    hr_sheet_end_wrapped(&paper, HANG);
    put_tuning(&paper, run);
    put_time(&paper, run);
    put_floor(&paper, &run->floor, &run->roof);
    put_headroom(&paper, run);
    put_baseline(&paper, run);
    put_cores(&paper, run);
    put_raised(&paper, run);
    put_busy(&paper, run->busy, "");
    put_busy(&paper, run->roof.busy, " (the roof, which is not kept)");
    put_fusion(&paper, run);
    put_check(&paper, run);
    return hr_text_give(&paper.text, out);
}

hr_status hr_report_floor_text(const hr_floor *floor, const hr_roof *roof, const hr_report_style *style,
                               char **out) {
    HR_TRY(hr_pointer_check(floor, "floor", __func__));
    HR_TRY(hr_pointer_check(roof, "roof", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    const struct {
        double amount;
        const char *unit, *name;
    } work[] = {{floor->bytes, "B", "moved"},
                {floor->tensor_flops, "FLOP", "of products"},
                {floor->vector_flops, "FLOP", "of vectors"},
                {floor->special_ops, "", "functions"}};
    bool first = true;
    put_floor(&paper, floor, roof);
    hr_sheet_label(&paper, "work");
    for (int i = 0; i < 4; i++) {
        if (!(work[i].amount > 0)) continue;
        hr_sheet_format(&paper, HR_INK_PLAIN, "%s%s %s", first ? "" : hr_sheet_dot(&paper),
                        hr_words_rate(work[i].amount, work[i].unit).text, work[i].name);
        first = false;
    }
    hr_sheet_put(&paper, HR_INK_PLAIN, first ? "none" : "");
    hr_sheet_end_wrapped(&paper, HANG);
    return hr_text_give(&paper.text, out);
}

/* ---- roofs ---- */

/* What a launch costs where the device runs it later than the host asks for it. */
static void put_launches(hr_sheet *paper, const hr_roof *roof) {
    bool unicode = paper->style.unicode;
    if (!(roof->launch_host > 0)) return;
    hr_sheet_format(paper, HR_INK_DIM,
                    "  a launch costs the host %s (the driver's call alone %s), a kernel in a graph %s",
                    hr_words_time(roof->launch_host, unicode).text,
                    hr_words_time(roof->launch_driver, unicode).text,
                    hr_words_time(roof->launch_graph, unicode).text);
    hr_sheet_end_line(paper);
}

hr_status hr_report_roof_text(const hr_device *device, const hr_roof *roof, const hr_report_style *style,
                              char **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(roof, "roof", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    hr_roof_row rows[HR_ROOF_ROWS_MAX];
    int count = hr_roof_rows(roof, rows), width = paper.style.width - 44;
    width = width < 12 ? 12 : width > 40 ? 40 : width;
    hr_sheet_put(&paper, HR_INK_BOLD, hr_device_name(device));
    hr_sheet_format(&paper, HR_INK_DIM, "%s%s, %d %s, launch %s", hr_sheet_dot(&paper),
                    hr_device_kind(device), roof->threads, hr_roof_threads_word(roof),
                    hr_words_time(roof->launch, paper.style.unicode).text);
    hr_sheet_end_line(&paper);
    put_launches(&paper, roof);
    put_busy(&paper, roof->busy, "; rates are too low, and not kept");
    for (int i = 0; i < count; i++) {
        bool first = i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0;
        double most = 0;
        for (int k = 0; k < count; k++)
            if (rows[k].family == rows[i].family) most = fmax(most, rows[k].value);
        hr_sheet_format(&paper, HR_INK_BOLD, "  %-9s", first ? rows[i].group : "");
        hr_sheet_format(&paper, HR_INK_PLAIN, "%-8s", rows[i].name);
        hr_sheet_format(&paper, HR_INK_PLAIN, "%14s  ", hr_words_rate(rows[i].value, rows[i].unit).text);
        hr_sheet_bar(&paper, HR_INK_ACCENT, rows[i].value / most, width);
        bool sized = first && rows[i].family == HR_ROOF_BANDWIDTH;
        for (int level = 0; sized && level < roof->cache_count; level++)
            if (strcmp(roof->cache[level].name, rows[i].group) == 0)
                hr_sheet_format(&paper, HR_INK_DIM, "  %s", hr_words_capacity(roof->cache[level].bytes).text);
        hr_sheet_end_line(&paper);
    }
    return hr_text_give(&paper.text, out);
}

/* ---- the bench table ---- */

enum { KERNEL, DTYPE, EXTENTS, TIME, RATE, COPY, BOUND, HEADROOM, NOW, FUSION, CHECK, ERROR, COLUMNS };

/* Their widths hold the space before them. Where the terminal is too narrow for all, those with the largest
 * `leaves` are left out first; 0 stays. */
static const struct {
    const char *name;
    int width, leaves;
    bool left;
} columns[COLUMNS] = {
    [KERNEL] = {"kernel", 26, 0, true},    [DTYPE] = {" dtype", 6, 6, true},
    [EXTENTS] = {" extents", 33, 7, true}, [TIME] = {"time", 10, 0, false},
    [RATE] = {"rate", 14, 3, false},       [COPY] = {"copy", 7, 4, false},
    [BOUND] = {"  bound", 9, 1, true},     [HEADROOM] = {"headroom", 9, 0, false},
    [NOW] = {"now", 7, 0, false},          [FUSION] = {"fusion", 8, 2, false},
    [CHECK] = {"  check", 7, 0, true},     [ERROR] = {"", 8, 5, true},
};

/* What is said in each column of a line, and in which ink. */
typedef struct bench_cells {
    char text[COLUMNS][128];
    hr_ink ink[COLUMNS];
} bench_cells;

/* Up to which `leaves` the columns fit. */
static int bench_keeps(const hr_sheet *paper) {
    int keeps = 8, width;
    do {
        keeps--;
        width = 0;
        for (int c = 0; c < COLUMNS; c++)
            width += columns[c].leaves <= keeps ? columns[c].width : 0;
    } while (keeps > 0 && width > paper->style.width);
    return keeps;
}

static void put_bench_cells(hr_sheet *paper, const bench_cells *cells) {
    int keeps = bench_keeps(paper), owed = 0; /* spaces, written only before what follows them */
    for (int c = 0; c < COLUMNS; c++) {
        if (columns[c].leaves > keeps) continue;
        int gap = columns[c].width - hr_sheet_columns(cells->text[c]);
        gap = gap > 0 ? gap : 0;
        if (!cells->text[c][0]) {
            owed += gap;
            continue;
        }
        hr_sheet_format(paper, HR_INK_PLAIN, "%*s", columns[c].left ? owed : owed + gap, "");
        hr_sheet_put(paper, cells->ink[c], cells->text[c]);
        owed = columns[c].left ? gap : 0;
    }
}

static void put_bench_heading(hr_sheet *paper) {
    bench_cells cells = {0};
    for (int c = 0; c < COLUMNS; c++) {
        snprintf(cells.text[c], sizeof cells.text[c], "%s", columns[c].name);
        cells.ink[c] = HR_INK_DIM;
    }
    put_bench_cells(paper, &cells);
}

static void cell_rate(bench_cells *cells, const hr_run_result *run, const hr_roof *roof) {
    double seconds = run->seconds.median, bandwidth = run->floor.bytes / seconds;
    double flops = run->floor.tensor_flops + run->floor.vector_flops;
    bool arithmetic = strcmp(run->floor.bound, "tensor") == 0 || strcmp(run->floor.bound, "vector") == 0;
    hr_words rate = arithmetic ? hr_words_rate(flops / seconds, "FLOP/s") : hr_words_rate(bandwidth, "B/s");
    snprintf(cells->text[RATE], sizeof cells->text[RATE], " %s", rate.text);
    snprintf(cells->text[COPY], sizeof cells->text[COPY], " %s",
             roof->copy > 0 ? hr_words_percent(bandwidth / roof->copy).text : "-");
}

static void cell_extents(char *out, size_t size, const hr_run_result *run) {
    size_t used = 0;
    for (int i = 0; i < run->dtype_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " %s=%s", run->dtype_names[i],
                                 hr_dtype_name(run->dtypes[i]));
    for (int i = 0; i < run->extent_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " %s=%lld", run->extent_names[i],
                                 (long long)run->extents[i]);
}

static void put_bench_row(hr_sheet *paper, const hr_bench_row *row, const hr_roof *roof) {
    const hr_run_result *run = row->result;
    bench_cells cells = {0};
#define CELL(column, ...) snprintf(cells.text[column], sizeof cells.text[column], __VA_ARGS__)
    cells.ink[KERNEL] = HR_INK_BOLD;
    CELL(KERNEL, "%s", run->kernel);
    CELL(DTYPE, " %s", row->dtype);
    cell_extents(cells.text[EXTENTS], sizeof cells.text[EXTENTS], run);
    CELL(TIME, " %s", hr_words_time(run->seconds.median, paper->style.unicode).text);
    cell_rate(&cells, run, roof);
    CELL(BOUND, "  %s", run->floor.bound);
    CELL(HEADROOM, " %s", hr_words_ratio(run->headroom, "x").text);
    cells.ink[HEADROOM] = grade_inks[hr_headroom_grade(run->headroom)];
    double now = run->baseline.roof_fraction;
    CELL(NOW, " %s", now > 0 ? hr_words_percent(now).text : "-");
    double gain = run->unfused.runs ? run->unfused.median / run->seconds.median : 0;
    CELL(FUSION, " %s", gain > 0 ? hr_words_ratio(gain, "x").text : "-");
    const hr_check *check = &run->verified;
    cells.ink[CHECK] = cells.ink[ERROR] = !run->verify_done ? HR_INK_FAIR
                                          : check->ok       ? HR_INK_GOOD
                                                            : HR_INK_POOR;
    CELL(CHECK, "  %s", !run->verify_done ? "not checked" : check->ok ? "right" : "WRONG");
    if (run->verify_done) CELL(ERROR, " %.1e", check->max_error);
#undef CELL
    put_bench_cells(paper, &cells);
    if (row->passes > 1 && row->now_most > 0)
        hr_sheet_format(paper, HR_INK_DIM, "  now %s to %s in %d passes",
                        hr_words_percent(row->now_least).text, hr_words_percent(row->now_most).text,
                        row->passes);
}

hr_status hr_report_bench_line(const hr_bench_row *row, const hr_roof *roof, const hr_report_style *style,
                               char **out) {
    HR_TRY(hr_pointer_check(roof, "roof", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    if (!paper.wrap) paper.style.width = 1000; /* no terminal */
    if (!row)
        put_bench_heading(&paper);
    else if (row->result)
        put_bench_row(&paper, row, roof);
    else {
        hr_sheet_format(&paper, HR_INK_PLAIN, "%-26s ", row->kernel);
        hr_sheet_put(&paper, HR_INK_POOR, row->error);
    }
    hr_sheet_end_wrapped(&paper, 27);
    if (row && row->result) put_raised(&paper, row->result);
    return hr_text_give(&paper.text, out);
}
