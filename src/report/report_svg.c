/* Pictures as inline SVG: the roofline plot and horizontal bars.
 *
 * In: roofs, a result, bars. Out: <svg> elements whose colours are the page's CSS variables, so that one
 * picture serves light and dark.
 */
#include "report/report.h"

#include <math.h>
#include <string.h>

#define PLOT_WIDTH  1000.0
#define PLOT_HEIGHT 440.0
#define PLOT_LEFT   76.0
#define PLOT_RIGHT  22.0
#define PLOT_TOP    18.0
#define PLOT_BOTTOM 50.0

/* A log-log plane: decades of operations a byte across, of operations a second upwards. */
typedef struct plane {
    double x_low, x_high, y_low, y_high; /* exponents of ten */
} plane;

static double plane_x(const plane *p, double intensity) {
    return PLOT_LEFT +
           (log10(intensity) - p->x_low) / (p->x_high - p->x_low) * (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT);
}

static double plane_y(const plane *p, double rate) {
    return PLOT_HEIGHT - PLOT_BOTTOM -
           (log10(rate) - p->y_low) / (p->y_high - p->y_low) * (PLOT_HEIGHT - PLOT_TOP - PLOT_BOTTOM);
}

/* A rate that no program passes: flat. `scale` of a special function: all operations an one of its own. */
typedef struct ceiling {
    char label[80];
    double rate;
    bool main; /* drawn strong */
} ceiling;

/* A bandwidth: diagonal. */
typedef struct slope {
    char label[80];
    double bandwidth;
    bool main;
} slope;

#define LINES_MAX   8
#define NAMES_APART 0.12 /* factors of ten between slopes whose names have room above each other */
#define NAME_WIDTH  110

typedef struct roofline {
    plane plane;
    int slope_count, ceiling_count;
    slope slopes[LINES_MAX];
    ceiling ceilings[LINES_MAX];
    double intensity, rate, floor_rate, unfused_rate; /* of the kernel; 0 = not shown */
} roofline;

static void add_slope(roofline *plot, const char *name, double bandwidth, bool main) {
    if (!(bandwidth > 0) || plot->slope_count == LINES_MAX) return;
    slope *line = &plot->slopes[plot->slope_count++];
    *line = (slope){.bandwidth = bandwidth, .main = main};
    snprintf(line->label, sizeof line->label, "%s %s", name, hr_words_rate(bandwidth, "B/s").text);
}

/* One line for rates that nearly coincide. */
static void add_ceiling(roofline *plot, const char *name, double rate, bool main) {
    if (!(rate > 0) || plot->ceiling_count == LINES_MAX) return;
    for (int i = 0; i < plot->ceiling_count; i++)
        if (fabs(log10(rate / plot->ceilings[i].rate)) < 0.04) return;
    ceiling *line = &plot->ceilings[plot->ceiling_count++];
    *line = (ceiling){.rate = rate, .main = main};
    snprintf(line->label, sizeof line->label, "%s %s", name, hr_words_rate(rate, "OP/s").text);
}

static void place_kernel(roofline *plot, const hr_run_result *run) {
    double operations = hr_floor_operations(&run->floor);
    if (!(run->floor.bytes > 0) || !(run->seconds.median > 0)) return;
    /* pure copying has no operations: it is drawn where one a 16 bytes would stand */
    double shown = operations > 0 ? operations : run->floor.bytes / 16;
    plot->intensity = shown / run->floor.bytes;
    plot->rate = shown / run->seconds.median;
    if (run->floor.seconds > 0) plot->floor_rate = shown / run->floor.seconds;
    if (run->unfused.runs && run->unfused.median > 0) plot->unfused_rate = shown / run->unfused.median;
    hr_special unit = hr_floor_special(&run->floor);
    char name[40]; /* the plot counts all operations, of which the unit's are a part */
    snprintf(name, sizeof name, "%s in this mix", hr_special_name(unit));
    if (unit != HR_SPECIAL_NONE) add_ceiling(plot, name, plot->floor_rate, true);
}

static void choose_plane(roofline *plot) {
    double x_low = -1, x_high = 2, y_low = 15, y_high = 0;
    for (int i = 0; i < plot->ceiling_count; i++) {
        y_high = fmax(y_high, log10(plot->ceilings[i].rate));
        if (plot->slope_count)
            x_high = fmax(x_high, log10(plot->ceilings[i].rate / plot->slopes[0].bandwidth) + 0.3);
    }
    if (plot->intensity > 0) {
        x_low = fmin(x_low, log10(plot->intensity) - 0.5);
        x_high = fmax(x_high, log10(plot->intensity) + 0.7);
    }
    if (plot->slope_count) y_low = log10(plot->slopes[0].bandwidth) + x_low + 0.2;
    if (plot->rate > 0) y_low = fmin(y_low, log10(plot->rate) - 0.5);
    if (plot->unfused_rate > 0) y_low = fmin(y_low, log10(plot->unfused_rate) - 0.4);
    if (y_high < y_low + 1) y_high = y_low + 2;
    plot->plane = (plane){floor(x_low * 2) / 2, ceil(x_high * 2) / 2, floor(y_low * 2) / 2, y_high + 0.35};
}

static void draw_grid(hr_text *out, const plane *p) {
    for (int power = (int)ceil(p->x_low); power <= (int)floor(p->x_high); power++) {
        double x = plane_x(p, pow(10, power));
        hr_text_format(out, "<line class='grid' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", x, PLOT_TOP, x,
                       PLOT_HEIGHT - PLOT_BOTTOM);
        hr_text_format(out, "<text class='tick' x='%.1f' y='%.1f' text-anchor='middle'>%g</text>", x,
                       PLOT_HEIGHT - PLOT_BOTTOM + 18, pow(10, power));
    }
    for (int power = (int)ceil(p->y_low); power <= (int)floor(p->y_high); power++) {
        double y = plane_y(p, pow(10, power));
        hr_text_format(out, "<line class='grid' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", PLOT_LEFT, y,
                       PLOT_WIDTH - PLOT_RIGHT, y);
        static const char prefixes[] = " kMGTPE";
        static const char *const mantissas[] = {"1", "10", "100"};
        hr_text_format(out, "<text class='tick' x='%.1f' y='%.1f' text-anchor='end'>%s %c</text>",
                       PLOT_LEFT - 8, y + 4, mantissas[power % 3], power / 3 < 7 ? prefixes[power / 3] : '?');
    }
    hr_text_format(out,
                   "<text class='axis' x='%.1f' y='%.1f' text-anchor='middle'>operations per byte</text>",
                   (PLOT_LEFT + PLOT_WIDTH - PLOT_RIGHT) / 2, PLOT_HEIGHT - 8);
    hr_text_format(out,
                   "<text class='axis' transform='translate(16 %.1f) rotate(-90)' text-anchor='middle'>"
                   "operations per second</text>",
                   (PLOT_TOP + PLOT_HEIGHT - PLOT_BOTTOM) / 2);
}

static double highest_rate(const roofline *plot) {
    double highest = 0;
    for (int i = 0; i < plot->ceiling_count; i++)
        highest = fmax(highest, plot->ceilings[i].rate);
    return highest > 0 ? highest : pow(10, plot->plane.y_high);
}

/* A diagonal from the plot's lower left to the highest ceiling, its name along it. */
static void draw_slope(hr_text *out, const roofline *plot, const slope *line) {
    const plane *p = &plot->plane;
    double from = fmax(pow(10, p->x_low), pow(10, p->y_low) / line->bandwidth);
    double to = fmin(pow(10, p->x_high), highest_rate(plot) / line->bandwidth);
    if (to <= from) return;
    double x1 = plane_x(p, from), y1 = plane_y(p, from * line->bandwidth);
    double x2 = plane_x(p, to), y2 = plane_y(p, to * line->bandwidth);
    double angle = atan2(y2 - y1, x2 - x1) * 180 / M_PI;
    hr_text_format(out, "<line class='roof%s' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>",
                   line->main ? " main" : "", x1, y1, x2, y2);
    double begin = 14, length = hypot(x2 - x1, y2 - y1);
    for (const slope *other = plot->slopes; other < line && !line->main; other++)
        if (!other->main && fabs(log10(other->bandwidth / line->bandwidth)) < NAMES_APART)
            begin += NAME_WIDTH; /* beside its name, which lies where this one would */
    double along = begin / fmax(length, begin);
    hr_text_format(out,
                   "<text class='name%s' transform='translate(%.1f %.1f) rotate(%.2f)' dy='%d'>%s</text>",
                   line->main ? " main" : "", x1 + along * (x2 - x1), y1 + along * (y2 - y1), angle,
                   line->main ? 16 : -6, line->label);
}

static void draw_ceiling(hr_text *out, const roofline *plot, const ceiling *line) {
    const plane *p = &plot->plane;
    double fastest = 0;
    for (int i = 0; i < plot->slope_count; i++)
        fastest = fmax(fastest, plot->slopes[i].bandwidth);
    double from = fastest > 0 ? fmax(line->rate / fastest, pow(10, p->x_low)) : pow(10, p->x_low);
    double y = plane_y(p, line->rate), right = PLOT_WIDTH - PLOT_RIGHT;
    hr_text_format(out, "<line class='roof%s' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>",
                   line->main ? " main" : "", plane_x(p, from), y, right, y);
    hr_text_format(out, "<text class='name%s' x='%.1f' y='%.1f' text-anchor='end'>%s</text>",
                   line->main ? " main" : "", right - 2, y - 6, line->label);
}

/* What memory and the strongest unit leave possible, shaded. */
static void draw_possible(hr_text *out, const roofline *plot) {
    if (!plot->slope_count || !plot->ceiling_count) return;
    const plane *p = &plot->plane;
    double bandwidth = plot->slopes[0].bandwidth, top = highest_rate(plot);
    double from = fmax(pow(10, p->x_low), pow(10, p->y_low) / bandwidth), ridge = top / bandwidth;
    double bottom = PLOT_HEIGHT - PLOT_BOTTOM, right = PLOT_WIDTH - PLOT_RIGHT;
    hr_text_format(out, "<path class='possible' d='M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ'/>",
                   plane_x(p, from), bottom, plane_x(p, from), plane_y(p, from * bandwidth),
                   fmin(plane_x(p, ridge), right), plane_y(p, top), right, plane_y(p, top), right, bottom);
}

static void draw_kernel(hr_text *out, const roofline *plot, const hr_run_result *run) {
    const plane *p = &plot->plane;
    double x = plane_x(p, plot->intensity), y = plane_y(p, plot->rate);
    double lowest = plot->unfused_rate > 0 ? fmin(plot->rate, plot->unfused_rate) : plot->rate;
    hr_text_format(out, "<line class='drop' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", x,
                   plot->floor_rate > 0 ? plane_y(p, fmax(plot->floor_rate, plot->rate)) : y, x,
                   plane_y(p, lowest));
    if (plot->floor_rate > 0)
        hr_text_format(out, "<line class='least' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>", x - 13,
                       plane_y(p, plot->floor_rate), x + 13, plane_y(p, plot->floor_rate));
    if (plot->unfused_rate > 0) {
        double below = plane_y(p, plot->unfused_rate);
        hr_text_format(out, "<circle class='unfused' cx='%.1f' cy='%.1f' r='5.5'/>", x, below);
        if (fabs(below - y) > 16)
            hr_text_format(out,
                           "<text class='point quiet' x='%.1f' y='%.1f'>one pass per statement, %s</text>",
                           x + 14, below + 4, hr_words_time(run->unfused.median, true).text);
    }
    hr_text_format(out, "<circle class='kernel' cx='%.1f' cy='%.1f' r='7'/>", x, y);
    hr_text_format(out, "<text class='point' x='%.1f' y='%.1f'>", x + 15, y + 13);
    hr_html_escape(out, run->kernel);
    hr_text_format(out, ", %s</text>", hr_words_ratio(run->headroom, "×").text);
}

void hr_svg_roofline(hr_text *out, const hr_roof *roof, const hr_run_result *run) {
    roofline plot = {0};
    add_slope(&plot, "memory", roof->copy, true);
    for (int i = roof->cache_count - 1; i >= 0; i--)
        if (i < HR_ROOF_LEVELS) add_slope(&plot, roof->cache[i].name, roof->cache[i].copy, false);
    if (run) place_kernel(&plot, run);
    add_ceiling(&plot, "f32", roof->vector_f32, true);
    add_ceiling(&plot, "f32 products", roof->tensor_f32, false);
    add_ceiling(&plot, "bf16 products", roof->tensor_bf16, false);
    if (!run || hr_floor_special(&run->floor) == HR_SPECIAL_NONE)
        add_ceiling(&plot, "exp", roof->special[HR_SPECIAL_EXP], false);
    if (!plot.slope_count && !plot.ceiling_count) return;
    choose_plane(&plot);
    hr_text_format(
        out,
        "<svg class='plot' viewBox='0 0 %.0f %.0f' role='img' aria-label='Roofline: operations a second "
        "over operations a byte'>",
        PLOT_WIDTH, PLOT_HEIGHT);
    draw_possible(out, &plot);
    draw_grid(out, &plot.plane);
    for (int i = plot.slope_count - 1; i >= 0; i--)
        draw_slope(out, &plot, &plot.slopes[i]);
    for (int i = 0; i < plot.ceiling_count; i++)
        draw_ceiling(out, &plot, &plot.ceilings[i]);
    if (plot.intensity > 0) draw_kernel(out, &plot, run);
    hr_text_format(out, "</svg>\n");
}

/* ---- bars ---- */

#define BAR_ROW   26.0
#define BAR_LABEL 300.0
#define BAR_VALUE 120.0

void hr_svg_bars(hr_text *out, const hr_bar *bars, int count, double mark, const char *mark_label) {
    double longest = mark, width = PLOT_WIDTH - BAR_LABEL - BAR_VALUE;
    for (int i = 0; i < count; i++)
        longest = fmax(longest, fmax(bars[i].length, bars[i].high));
    if (!(longest > 0) || !isfinite(longest)) return;
    double top = mark > 0 ? 20 : 4, height = top + count * BAR_ROW + 4, scale = width / longest;
    hr_text_format(out, "<svg class='bars' viewBox='0 0 %.0f %.0f' role='img'>", PLOT_WIDTH, height);
    for (int i = 0; i < count; i++) {
        const hr_bar *bar = &bars[i];
        double y = top + i * BAR_ROW, length = fmax(bar->length * scale, 1.5);
        hr_text_format(out, "<text class='label %s' x='%.0f' y='%.1f' text-anchor='end'>", bar->kind,
                       BAR_LABEL - 12, y + 17);
        hr_html_escape(out, bar->label);
        hr_text_format(out,
                       "</text><rect class='bar %s' x='%.0f' y='%.1f' width='%.1f' height='%.0f' rx='3'/>",
                       bar->kind, BAR_LABEL, y + 4, length, BAR_ROW - 8);
        if (bar->high > bar->low)
            hr_text_format(out, "<path class='whisker' d='M%.1f %.1fv8m0 -4H%.1fm0 -4v8'/>",
                           BAR_LABEL + bar->low * scale, y + BAR_ROW / 2 - 4, BAR_LABEL + bar->high * scale);
        hr_text_format(out, "<text class='value' x='%.1f' y='%.1f'>",
                       BAR_LABEL + fmax(length, bar->high * scale) + 9, y + 17);
        hr_html_escape(out, bar->value);
        hr_text_format(out, "</text>");
    }
    if (mark > 0) {
        double x = BAR_LABEL + mark * scale;
        hr_text_format(out, "<line class='mark' x1='%.1f' y1='14' x2='%.1f' y2='%.1f'/>", x, x, height - 2);
        hr_text_format(out, "<text class='mark' x='%.1f' y='10' text-anchor='middle'>", x);
        hr_html_escape(out, mark_label);
        hr_text_format(out, "</text>");
    }
    hr_text_format(out, "</svg>\n");
}
