/* Reports on a sweep: a row a value with a bar of its rate, a JSON object, a page with the plot.
 *
 * In: runs of one kernel at rising values of one extent. Out: text. The knee is the smallest value whose rate
 * is within a tenth of the best. */
#include "base/handle.h"
#include "base/memory.h"
#include "device/load.h"
#include "report/json_value.h"
#include "report/sheet.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BAR_WIDTH 30
#define KNEE      0.9

static const hr_ink grade_inks[] = {HR_INK_GOOD, HR_INK_FAIR, HR_INK_POOR};

/* ---- rates ---- */

/* Products count operations, all else bytes. */
static bool counts_operations(const hr_extent_sweep *sweep) {
    for (int i = 0; i < sweep->count; i++)
        if (sweep->points[i].result && sweep->points[i].result->floor.tensor_flops > 0) return true;
    return false;
}

/* 0 where the point failed. */
static double rate_of(const hr_extent_sweep *sweep, int i) {
    const hr_run_result *run = sweep->points[i].result;
    if (!run || !(run->seconds.median > 0)) return 0;
    const double work = counts_operations(sweep) ? hr_floor_operations(&run->floor) : run->floor.bytes;
    return work / run->seconds.median;
}

static const char *unit_of(const hr_extent_sweep *sweep) {
    return counts_operations(sweep) ? "FLOP/s" : "B/s";
}

static double rate_best(const hr_extent_sweep *sweep) {
    double best = 0;
    for (int i = 0; i < sweep->count; i++)
        best = fmax(best, rate_of(sweep, i));
    return best;
}

/* -1 where nothing was measured. */
static int knee_of(const hr_extent_sweep *sweep) {
    const double best = rate_best(sweep);
    for (int i = 0; i < sweep->count && best > 0; i++)
        if (rate_of(sweep, i) >= KNEE * best) return i;
    return -1;
}

/* The first that was measured; NULL where none was. */
static const hr_run_result *any_run(const hr_extent_sweep *sweep) {
    for (int i = 0; i < sweep->count; i++)
        if (sweep->points[i].result) return sweep->points[i].result;
    return NULL;
}

/* The point in whose time other programs were most in the way; NULL where they were in none. */
static const hr_extent_point *busiest_of(const hr_extent_sweep *sweep) {
    const hr_extent_point *busiest = NULL;
    double most = HR_LOAD_BUSY;
    for (int i = 0; i < sweep->count; i++) {
        const hr_run_result *run = sweep->points[i].result;
        if (!run || !(run->busy > most)) continue;
        most = run->busy;
        busiest = &sweep->points[i];
    }
    return busiest;
}

/* "measured while other programs ran: up to 40 % (M=64)" */
static void busy_append(hr_text *out, const hr_extent_sweep *sweep, const hr_extent_point *busiest) {
    hr_text_format(out, "measured while other programs ran: up to %s (%s=%" PRId64 ")",
                   hr_words_percent(busiest->result->busy).text, sweep->extent, busiest->value);
}

static hr_status sweep_check(const hr_extent_sweep *sweep, char **out, const char *caller) {
    HR_TRY(hr_pointer_check(sweep, "sweep", caller));
    HR_TRY(hr_pointer_check(out, "place for the result", caller));
    return sweep->count > 0 && sweep->points
               ? HR_OK
               : hr_fail(HR_BAD_INPUT, "%s: a sweep without points has nothing to report", caller);
}

/* What is the same at all points: "T=bf16 N=4096". */
static void fixed_append(hr_text *out, const hr_extent_sweep *sweep, const hr_run_result *run) {
    const char *between = "";
    for (int i = 0; i < run->dtype_count; i++, between = " ")
        hr_text_format(out, "%s%s=%s", between, run->dtype_names[i], hr_dtype_name(run->dtypes[i]));
    for (int i = 0; i < run->extent_count; i++) {
        if (strcmp(run->extent_names[i], sweep->extent) == 0) continue;
        hr_text_format(out, "%s%s=%" PRId64, between, run->extent_names[i], run->extents[i]);
        between = " ";
    }
}

/* ---- text ---- */

static void put_title(hr_sheet *paper, const hr_extent_sweep *sweep) {
    const hr_run_result *run = any_run(sweep);
    hr_text fixed = {0};
    if (!run) return;
    fixed_append(&fixed, sweep, run);
    hr_sheet_put(paper, HR_INK_BOLD, run->kernel);
    hr_sheet_format(paper, HR_INK_PLAIN, "  %s%s%s", run->file, hr_sheet_dot(paper), hr_text_data(&fixed));
    hr_sheet_format(paper, HR_INK_DIM, "%s%s: %s", hr_sheet_dot(paper), run->device_kind, run->device_name);
    hr_sheet_end_wrapped(paper, 12);
    hr_text_clear(&fixed);
}

static void put_point(hr_sheet *paper, const hr_extent_sweep *sweep, int i) {
    const hr_extent_point *point = &sweep->points[i];
    const hr_run_result *run = point->result;
    hr_sheet_format(paper, HR_INK_PLAIN, "  %10" PRId64 "  ", point->value);
    if (!run) {
        hr_sheet_put(paper, HR_INK_POOR, point->error ? point->error : "failed");
        hr_sheet_end_wrapped(paper, 14);
        return;
    }
    hr_sheet_padded(paper, HR_INK_PLAIN, hr_words_time(run->seconds.median, paper->style.unicode).text, 9);
    hr_sheet_format(paper, HR_INK_PLAIN, " %-13s", hr_words_rate(rate_of(sweep, i), unit_of(sweep)).text);
    hr_sheet_format(paper, grade_inks[hr_headroom_grade(run->headroom)], " %8s",
                    hr_words_ratio(run->headroom, "x").text);
    hr_sheet_format(paper, HR_INK_DIM, "  %-7s ", run->floor.bound ? run->floor.bound : "");
    hr_sheet_bar(paper, HR_INK_ACCENT, rate_of(sweep, i) / rate_best(sweep), BAR_WIDTH);
    if (i == knee_of(sweep)) hr_sheet_put(paper, HR_INK_BOLD, paper->style.unicode ? " ◂ knee" : " < knee");
    if (run->verify_done && !run->verified.ok) hr_sheet_put(paper, HR_INK_POOR, " WRONG");
    hr_sheet_end_line(paper);
    if (run->verify_done && !run->verified.ok) {
        hr_sheet_format(paper, HR_INK_POOR, "              %s", run->verified.where);
        hr_sheet_end_wrapped(paper, 14);
    }
}

static void put_busy(hr_sheet *paper, const hr_extent_sweep *sweep) {
    const hr_extent_point *busiest = busiest_of(sweep);
    hr_text words = {0};
    if (!busiest) return;
    busy_append(&words, sweep, busiest);
    hr_sheet_label(paper, "busy");
    hr_sheet_put(paper, HR_INK_FAIR, hr_text_data(&words));
    hr_sheet_end_wrapped(paper, 12);
    hr_text_clear(&words);
}

hr_status hr_report_sweep_text(const hr_extent_sweep *sweep, const hr_report_style *style, char **out) {
    HR_TRY(sweep_check(sweep, out, __func__));
    const int knee = knee_of(sweep);
    hr_sheet paper = hr_sheet_begin(style);
    put_title(&paper, sweep);
    hr_sheet_format(&paper, HR_INK_DIM, "  %10s  %-9s %-13s %8s  %-7s %s", sweep->extent, "time", "rate",
                    "headroom", "bound", "rate, of the best");
    hr_sheet_end_line(&paper);
    for (int i = 0; i < sweep->count; i++)
        put_point(&paper, sweep, i);
    if (knee >= 0) {
        hr_sheet_label(&paper, "knee");
        hr_sheet_format(
            &paper, HR_INK_PLAIN, "%s=%" PRId64 ": the smallest whose rate is within 10 %% of the best, %s",
            sweep->extent, sweep->points[knee].value, hr_words_rate(rate_best(sweep), unit_of(sweep)).text);
        hr_sheet_end_wrapped(&paper, 12);
    }
    put_busy(&paper, sweep);
    return hr_text_give(&paper.text, out);
}

/* ---- JSON ---- */

static json_t *point_value(const hr_extent_sweep *sweep, int i) {
    const hr_extent_point *point = &sweep->points[i];
    json_t *object = json_object();
    hr_value_set_whole(object, "value", point->value);
    if (!point->result) {
        hr_value_set_text(object, "error", point->error);
        return object;
    }
    hr_value_set_real(object, "seconds", point->result->seconds.median);
    hr_value_set_real(object, "rate", rate_of(sweep, i));
    hr_value_set_real(object, "floor_seconds", point->result->floor.seconds);
    hr_value_set_text(object, "bound", point->result->floor.bound);
    hr_value_set_real(object, "headroom", point->result->headroom);
    hr_value_set_real(object, "busy", point->result->busy);
    hr_value_set(object, "ok",
                 point->result->verify_done ? json_boolean(point->result->verified.ok) : json_null());
    return object;
}

hr_status hr_report_sweep_json(const hr_extent_sweep *sweep, char **out) {
    HR_TRY(sweep_check(sweep, out, __func__));
    const long before = hr_memory_wants();
    const hr_run_result *run = any_run(sweep);
    const int knee = knee_of(sweep);
    json_t *object = json_object(), *points = json_array(), *device = json_object();
    hr_value_set_text(object, "command", sweep->command);
    hr_value_set_text(object, "kernel", run ? run->kernel : "");
    hr_value_set_text(device, "kind", run ? run->device_kind : "");
    hr_value_set_text(device, "name", run ? run->device_name : "");
    hr_value_set(object, "device", device);
    hr_value_set_text(object, "extent", sweep->extent);
    hr_value_set_text(object, "rate_unit", unit_of(sweep));
    hr_value_set(object, "knee", knee >= 0 ? json_integer(sweep->points[knee].value) : json_null());
    for (int i = 0; i < sweep->count; i++)
        hr_value_append(points, point_value(sweep, i));
    hr_value_set(object, "points", points);
    return hr_value_give(object, before, out);
}

/* ---- page ---- */

enum { WIDTH = 1000, HEIGHT = 420, LEFT = 90, RIGHT = 30, TOP = 20, BOTTOM = 50 };

/* Both axes by powers. */
typedef struct axes {
    double x_low, x_high, y_low, y_high; /* logarithms */
} axes;

static double x_at(const axes *axes, double value) {
    return LEFT + (log(value) - axes->x_low) / (axes->x_high - axes->x_low) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const axes *axes, double seconds) {
    return HEIGHT - BOTTOM -
           (log(seconds) - axes->y_low) / (axes->y_high - axes->y_low) * (HEIGHT - TOP - BOTTOM);
}

static double shown_value(const hr_extent_point *point) {
    return point->value > 0 ? (double)point->value : 0.5;
}

static double seconds_of(const hr_run_result *run, bool floor) {
    return floor ? run->floor.seconds : run->seconds.median;
}

/* False where there are no two values to draw. */
static bool axes_choose(const hr_extent_sweep *sweep, axes *out) {
    *out = (axes){INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int i = 0; i < sweep->count; i++) {
        const hr_run_result *run = sweep->points[i].result;
        if (!run || !(run->seconds.median > 0)) continue;
        const double low =
            run->floor.seconds > 0 ? fmin(run->floor.seconds, run->seconds.median) : run->seconds.median;
        out->x_low = fmin(out->x_low, log(shown_value(&sweep->points[i])));
        out->x_high = fmax(out->x_high, log(shown_value(&sweep->points[i])));
        out->y_low = fmin(out->y_low, log(low));
        out->y_high = fmax(out->y_high, log(run->seconds.median));
    }
    out->y_low -= 0.2;
    out->y_high += 0.2;
    return out->x_high > out->x_low;
}

static void draw_axes(hr_text *page, const hr_extent_sweep *sweep, const axes *axes) {
    for (double power = pow(10, floor(axes->y_low / log(10))); log(power) <= axes->y_high; power *= 10) {
        if (log(power) < axes->y_low) continue;
        const double y = y_at(axes, power);
        hr_text_format(page, "<line class='grid' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/>", LEFT, y,
                       WIDTH - RIGHT, y);
        hr_text_format(page, "<text class='tick' x='%d' y='%.1f' text-anchor='end'>%s</text>", LEFT - 8,
                       y + 4, hr_words_time(power, true).text);
    }
    double last = -100;
    for (int i = 0; i < sweep->count; i++) {
        const double x = x_at(axes, shown_value(&sweep->points[i]));
        if (x - last < 48 || x > WIDTH) continue;
        hr_text_format(page, "<text class='tick' x='%.1f' y='%d' text-anchor='middle'>%" PRId64 "</text>", x,
                       HEIGHT - BOTTOM + 18, sweep->points[i].value);
        last = x;
    }
    hr_text_format(page, "<text class='axis' x='%d' y='%d' text-anchor='middle'>", (LEFT + WIDTH - RIGHT) / 2,
                   HEIGHT - 8);
    hr_html_escape(page, sweep->extent);
    hr_text_format(page, "</text>");
}

static void draw_line(hr_text *page, const hr_extent_sweep *sweep, const axes *axes, bool floor) {
    hr_text_format(page, "<polyline class='%s' fill='none' points='", floor ? "roof main" : "drop");
    for (int i = 0; i < sweep->count; i++) {
        const hr_run_result *run = sweep->points[i].result;
        if (!run || !(seconds_of(run, floor) > 0)) continue;
        hr_text_format(page, "%.1f,%.1f ", x_at(axes, shown_value(&sweep->points[i])),
                       y_at(axes, seconds_of(run, floor)));
    }
    hr_text_format(page, "'/>");
}

static void draw_points(hr_text *page, const hr_extent_sweep *sweep, const axes *axes) {
    const int knee = knee_of(sweep);
    for (int i = 0; i < sweep->count; i++) {
        const hr_run_result *run = sweep->points[i].result;
        if (!run || !(run->seconds.median > 0)) continue;
        const double x = x_at(axes, shown_value(&sweep->points[i])), y = y_at(axes, run->seconds.median);
        hr_text_format(page,
                       "<circle class='kernel' cx='%.1f' cy='%.1f' r='%d'><title>%s=%" PRId64
                       ": %s, %s</title></circle>",
                       x, y, i == knee ? 8 : 5, sweep->extent, sweep->points[i].value,
                       hr_words_time(run->seconds.median, true).text,
                       hr_words_rate(rate_of(sweep, i), unit_of(sweep)).text);
        if (i == knee)
            hr_text_format(page, "<text class='point' x='%.1f' y='%.1f' text-anchor='end'>knee</text>",
                           x - 12, y - 8);
    }
}

static void write_plot(hr_text *page, const hr_extent_sweep *sweep) {
    axes axes;
    if (!axes_choose(sweep, &axes)) return;
    hr_text_format(page,
                   "<section><h2>Time and floor</h2>\n<svg class='plot' viewBox='0 0 %d %d' role='img' "
                   "aria-label='Time and floor over the extent'>",
                   WIDTH, HEIGHT);
    draw_axes(page, sweep, &axes);
    draw_line(page, sweep, &axes, true);
    draw_line(page, sweep, &axes, false);
    draw_points(page, sweep, &axes);
    hr_text_format(
        page, "</svg>\n<p class='note'>Dots: measured. Solid line: the floor, the least that this machine "
              "needs.</p></section>\n");
}

static void write_table(hr_text *page, const hr_extent_sweep *sweep) {
    hr_text_format(page, "<section><h2>All points</h2><div class='scroll'><table><tr><th>");
    hr_html_escape(page, sweep->extent);
    hr_text_format(page,
                   "</th><th>time</th><th>rate</th><th>floor</th><th>headroom</th><th>bound</th></tr>\n");
    for (int i = 0; i < sweep->count; i++) {
        const hr_run_result *run = sweep->points[i].result;
        hr_text_format(page, "<tr><td>%" PRId64 "</td>", sweep->points[i].value);
        if (run) {
            hr_text_format(page, "<td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                           hr_words_time(run->seconds.median, true).text,
                           hr_words_rate(rate_of(sweep, i), unit_of(sweep)).text,
                           hr_words_time(run->floor.seconds, true).text,
                           hr_words_ratio(run->headroom, "×").text, run->floor.bound ? run->floor.bound : "");
            continue;
        }
        hr_text_format(page, "<td colspan='5'>");
        hr_html_escape(page, sweep->points[i].error ? sweep->points[i].error : "failed");
        hr_text_format(page, "</td></tr>\n");
    }
    hr_text_format(page, "</table></div></section>\n");
}

hr_status hr_report_sweep_html(const hr_extent_sweep *sweep, char **out) {
    HR_TRY(sweep_check(sweep, out, __func__));
    const hr_run_result *run = any_run(sweep);
    hr_text page = {0}, fixed = {0}, busy = {0};
    hr_html_head(&page, "headroom: a sweep");
    hr_text_format(&page, "<header><div><h1>");
    hr_html_escape(&page, run ? run->kernel : "a sweep");
    hr_text_format(&page, " over ");
    hr_html_escape(&page, sweep->extent);
    hr_text_format(&page, "</h1><p class='about'>");
    if (run) {
        fixed_append(&fixed, sweep, run);
        hr_text_format(&fixed, " · %s: %s", run->device_kind, run->device_name);
        hr_html_escape(&page, hr_text_data(&fixed));
        hr_text_clear(&fixed);
    }
    hr_text_format(&page, "</p>");
    const hr_extent_point *busiest = busiest_of(sweep);
    if (busiest) {
        hr_text_format(&page, "<p class='about'>");
        busy_append(&busy, sweep, busiest);
        hr_html_escape(&page, hr_text_data(&busy));
        hr_text_clear(&busy);
        hr_text_format(&page, "</p>");
    }
    hr_text_format(&page, "</div></header>\n");
    write_plot(&page, sweep);
    write_table(&page, sweep);
    hr_html_foot(&page, run ? run->roof.measured_at : 0);
    return hr_text_give(&page, out);
}
