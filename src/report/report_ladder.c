/* Reports on a ladder: a table with a bar a step, a JSON object, a page.
 *
 * In: the rows of a ladder. Out: text. A step's bar is its share of the roof. */
#include "base/handle.h"
#include "base/memory.h"
#include "report/json_value.h"
#include "report/sheet.h"

#include <math.h>
#include <string.h>

#define BAR_WIDTH     24
#define ROWS_MAX      32
#define SCRATCH_WORTH (1 << 20) /* bytes that are worth a word */

/* Operations a second, or bytes a second where the floor is memory's. */
static hr_words rate_words(const hr_ladder_result *result, double seconds) {
    const double operations = hr_floor_operations(&result->floor);
    if (strcmp(result->floor.bound, "memory") == 0)
        return hr_words_rate(result->floor.bytes / seconds, "B/s");
    return hr_words_rate(operations / seconds, "FLOP/s");
}

static double part_of(const hr_ladder_row *row) {
    return row->headroom > 0 ? 1 / row->headroom : 0;
}

static hr_words gain_words(const hr_ladder_row *row) {
    return row->gain > 0 ? hr_words_ratio(row->gain, "x") : (hr_words){""};
}

static const char *check_word(const hr_ladder_row *row) {
    return row->verified.ok ? "right" : "WRONG";
}

/* ---- text ---- */

static void put_row(hr_sheet *paper, const hr_ladder_result *result, const hr_ladder_row *row) {
    static const hr_ink inks[] = {HR_INK_GOOD, HR_INK_FAIR, HR_INK_POOR};
    hr_sheet_format(paper, HR_INK_PLAIN, "  %2d  %-24s ", row->number, row->name);
    if (row->fault) {
        hr_sheet_put(paper, HR_INK_DIM, row->fault);
        hr_sheet_end_wrapped(paper, 8);
        return;
    }
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_time(row->seconds.median, paper->style.unicode).text, 9);
    hr_sheet_format(paper, HR_INK_PLAIN, " %-13s %7s ", rate_words(result, row->seconds.median).text,
                    gain_words(row).text);
    hr_sheet_format(paper, inks[hr_headroom_grade(row->headroom)], "%8s ",
                    hr_words_ratio(row->headroom, "x").text);
    hr_sheet_bar(paper, inks[hr_headroom_grade(row->headroom)], part_of(row), BAR_WIDTH);
    hr_sheet_format(paper, row->verified.ok ? HR_INK_DIM : HR_INK_POOR, " %s", check_word(row));
    if (row->scratch >= SCRATCH_WORTH)
        hr_sheet_format(paper, HR_INK_DIM, ", %s of intermediate results",
                        hr_words_capacity(row->scratch).text);
    hr_sheet_end_line(paper);
    if (!row->verified.ok) {
        hr_sheet_format(paper, HR_INK_POOR, "      %s", row->verified.where);
        hr_sheet_end_wrapped(paper, 8);
    }
}

hr_status hr_report_ladder_text(const hr_ladder_result *result, const hr_report_style *style, char **out) {
    HR_TRY(hr_pointer_check(result, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    hr_sheet_put(&paper, HR_INK_BOLD, result->ladder.name);
    hr_sheet_format(&paper, HR_INK_PLAIN, "  %s%s%s", result->ladder.title, hr_sheet_dot(&paper),
                    result->sizes);
    hr_sheet_format(&paper, HR_INK_DIM, "%s%s: %s", hr_sheet_dot(&paper), result->device_kind,
                    result->device_name);
    hr_sheet_end_wrapped(&paper, 12);
    hr_sheet_format(&paper, HR_INK_DIM,
                    "  floor %s (%s: %s); gain: over the step before, measured alternately",
                    hr_words_time(result->floor.seconds, paper.style.unicode).text, result->floor.bound,
                    hr_floor_words(&result->floor, &result->roof).text);
    hr_sheet_end_wrapped(&paper, 4);
    hr_sheet_format(&paper, HR_INK_DIM, "      %-24s %-9s %-13s %7s %8s %s", "step", "time", "rate", "gain",
                    "headroom", "share of the roof");
    hr_sheet_end_line(&paper);
    for (int i = 0; i < result->row_count; i++)
        put_row(&paper, result, &result->rows[i]);
    return hr_text_give(&paper.text, out);
}

/* ---- JSON ---- */

static json_t *row_value(const hr_ladder_row *row) {
    json_t *object = json_object(), *seconds = json_object();
    hr_value_set_whole(object, "number", row->number);
    hr_value_set_text(object, "name", row->name);
    if (row->fault) {
        hr_value_set_text(object, "fault", row->fault);
        json_decref(seconds);
        return object;
    }
    hr_value_set_real(seconds, "median", row->seconds.median);
    hr_value_set_real(seconds, "min", row->seconds.min);
    hr_value_set_real(seconds, "max", row->seconds.max);
    hr_value_set_whole(seconds, "runs", row->seconds.runs);
    hr_value_set(object, "seconds", seconds);
    hr_value_set_real(object, "gain", row->gain > 0 ? row->gain : NAN);
    hr_value_set_real(object, "headroom", row->headroom);
    hr_value_set_real(object, "roof_fraction", part_of(row));
    hr_value_set_real(object, "intermediate_bytes", row->scratch);
    hr_value_set(object, "ok", json_boolean(row->verified.ok));
    hr_value_set_real(object, "max_error", row->verified.max_error);
    hr_value_set_real(object, "tolerance", row->verified.tolerance);
    return object;
}

hr_status hr_report_ladder_json(const hr_ladder_result *result, char **out) {
    HR_TRY(hr_pointer_check(result, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const long before = hr_memory_wants();
    json_t *object = json_object(), *device = json_object(), *floor = json_object(), *rows = json_array();
    hr_value_set_text(object, "ladder", result->ladder.name);
    hr_value_set_text(object, "kernel", result->ladder.kernel);
    hr_value_set_text(object, "sizes", result->sizes);
    hr_value_set_text(device, "kind", result->device_kind);
    hr_value_set_text(device, "name", result->device_name);
    hr_value_set(object, "device", device);
    hr_value_set_real(floor, "seconds", result->floor.seconds);
    hr_value_set_text(floor, "bound", result->floor.bound);
    hr_value_set(object, "floor", floor);
    for (int i = 0; i < result->row_count; i++)
        hr_value_append(rows, row_value(&result->rows[i]));
    hr_value_set(object, "steps", rows);
    return hr_value_give(object, before, out);
}

/* ---- page ---- */

static void write_bars(hr_text *page, const hr_ladder_result *result) {
    static const char *const kinds[] = {"chosen", "slow", "slow"};
    hr_bar bars[ROWS_MAX];
    char labels[ROWS_MAX][64], values[ROWS_MAX][120];
    int count = 0;
    for (int i = 0; i < result->row_count && count < ROWS_MAX; i++) {
        const hr_ladder_row *row = &result->rows[i];
        if (row->fault) continue;
        snprintf(labels[count], sizeof labels[count], "%d  %.50s", row->number, row->name);
        snprintf(values[count], sizeof values[count], "%s%s%s", hr_words_percent(part_of(row)).text,
                 row->gain > 0 ? ", " : "", gain_words(row).text);
        bars[count] = (hr_bar){
            labels[count], values[count], kinds[hr_headroom_grade(row->headroom)], part_of(row), 0, 0};
        count++;
    }
    hr_text_format(page, "<section><h2>Share of the roof, and gain over the step before</h2>\n");
    hr_svg_bars(page, bars, count, 1, "the roof");
    hr_text_format(page, "</section>\n");
}

static void write_step(hr_text *page, const hr_ladder_result *result, int index, const hr_ladder_row *row) {
    hr_ladder_step_info step;
    if (hr_ladder_step_describe(index, row->number, &step) != HR_OK) return;
    hr_text_format(page, "<section><h2>%d  ", row->number);
    hr_html_escape(page, row->name);
    hr_text_format(page, "</h2><p>");
    hr_html_escape(page, step.about);
    hr_text_format(page, "</p>");
    if (row->fault) {
        hr_text_format(page, "<p class='note'>");
        hr_html_escape(page, row->fault);
        hr_text_format(page, "</p>");
    } else {
        hr_text_format(page, "<p class='note'>%s, %s, headroom %s, %s",
                       hr_words_time(row->seconds.median, true).text,
                       rate_words(result, row->seconds.median).text, hr_words_ratio(row->headroom, "×").text,
                       check_word(row));
        if (row->scratch >= SCRATCH_WORTH)
            hr_text_format(page, ", %s of intermediate results", hr_words_capacity(row->scratch).text);
        hr_text_format(page, "</p>");
    }
    hr_text_format(page, "<details><summary>Source</summary>\n");
    hr_html_source(page, step.text);
    if (step.shared[0]) {
        hr_text_format(page, "<p class='note'>What it has in common with other steps:</p>\n");
        hr_html_source(page, step.shared);
    }
    hr_text_format(page, "</details></section>\n");
}

/* The number of the result's ladder, -1 where there is none of its name. */
static int index_of(const hr_ladder_result *result) {
    hr_ladder_info info;
    for (int i = 0; hr_ladder_describe(i, &info) == HR_OK; i++)
        if (strcmp(info.name, result->ladder.name) == 0) return i;
    return -1;
}

hr_status hr_report_ladder_html(const hr_ladder_result *result, char **out) {
    HR_TRY(hr_pointer_check(result, "result", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text page = {0};
    char title[80];
    snprintf(title, sizeof title, "headroom: the ladder of %.40s", result->ladder.name);
    hr_html_head(&page, title);
    hr_text_format(&page, "<header><div><h1>The ladder of ");
    hr_html_escape(&page, result->ladder.name);
    hr_text_format(&page, "</h1><p class='about'>");
    hr_html_escape(&page, result->ladder.title);
    hr_text_format(&page, " · ");
    hr_html_escape(&page, result->sizes);
    hr_text_format(&page, " · ");
    hr_html_escape(&page, result->device_name);
    hr_text_format(&page, " · floor %s (%s: %s)</p></div></header>\n",
                   hr_words_time(result->floor.seconds, true).text, result->floor.bound,
                   hr_floor_words(&result->floor, &result->roof).text);
    write_bars(&page, result);
    for (int i = 0; i < result->row_count; i++)
        write_step(&page, result, index_of(result), &result->rows[i]);
    hr_html_foot(&page, result->roof.measured_at);
    return hr_text_give(&page, out);
}
