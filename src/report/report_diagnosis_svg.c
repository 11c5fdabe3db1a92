/* Kernels under the roofs: operations a byte along, operations a second up, both logarithmic. In: a
 * diagnosis. Out: SVG. */
#include "report/diagnosis_page.h"

#include <math.h>
#include <string.h>

#define WIDTH      1000.0
#define HEIGHT     420.0
#define LEFT       74.0
#define RIGHT      24.0
#define TOP        18.0
#define BOTTOM     46.0
#define POINTS_MAX 24
#define LABELS_MAX 6
#define LINE       15.0 /* of text */
#define LETTER     6.6  /* its width, about */

typedef struct axes {
    double x_low, x_high, y_low, y_high; /* powers of ten */
} axes;

/* Where names stand already: new ones keep apart from them. */
typedef struct labels {
    struct {
        double left, right, y;
    } items[LABELS_MAX + 4];
    int count;
} labels;

static bool is_free(const labels *all, double left, double right, double y) {
    for (int i = 0; i < all->count; i++)
        if (left < all->items[i].right && right > all->items[i].left && fabs(y - all->items[i].y) < LINE)
            return false;
    return true;
}

/* The free line nearest to `y` for a text of so many letters that begins or ends at `x`; NAN where none is
 * near. */
static double label_place(labels *all, double x, double y, bool ends, size_t letters) {
    double width = LETTER * (double)letters, left = ends ? x - width : x;
    for (int step = 0; step <= 8; step++) {
        double at = y + (step % 2 ? -1 : 1) * ((step + 1) / 2) * LINE;
        if (at < TOP || at > HEIGHT - BOTTOM || !is_free(all, left, left + width, at)) continue;
        if (all->count < (int)(sizeof all->items / sizeof *all->items)) {
            all->items[all->count].left = left;
            all->items[all->count].right = left + width;
            all->items[all->count++].y = at;
        }
        return at;
    }
    return NAN;
}

static double highest_rate(const hr_ceiling *ceiling) {
    double rates[] = {ceiling->vector_f32, ceiling->tensor_tf32, ceiling->tensor_half, 0};
    double highest = 0;
    for (int i = 0; i < 3; i++)
        highest = fmax(highest, rates[i]);
    return highest > 0 ? highest : ceiling->memory * 100;
}

/* What lies above the roofs was counted for another kernel of the same operator: nothing to draw. */
static bool has_point(const hr_kernel_summary *kernel, const hr_ceiling *ceiling) {
    if (!(kernel->bytes > 0 && kernel->flops > 0 && kernel->median > 0)) return false;
    double rate = kernel->flops / kernel->median, memory = kernel->bytes / kernel->median;
    return rate < 1.15 * highest_rate(ceiling) && memory < 1.15 * ceiling->memory;
}

bool hr_kernels_have_roofline(const hr_diagnosis *diagnosis) {
    if (diagnosis->ceiling.memory <= 0) return false;
    for (int i = 0; i < diagnosis->kernel_count; i++)
        if (has_point(&diagnosis->kernels[i], &diagnosis->ceiling)) return true;
    return false;
}

static double x_of(const axes *a, double intensity) {
    return LEFT + (log10(intensity) - a->x_low) / (a->x_high - a->x_low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const axes *a, double rate) {
    return HEIGHT - BOTTOM - (log10(rate) - a->y_low) / (a->y_high - a->y_low) * (HEIGHT - TOP - BOTTOM);
}

static axes axes_choose(const hr_diagnosis *diagnosis) {
    axes a = {.x_low = -1, .x_high = 3, .y_high = log10(highest_rate(&diagnosis->ceiling)) + 0.25};
    double lowest = 1e300;
    for (int i = 0, points = 0; i < diagnosis->kernel_count && points < POINTS_MAX; i++) {
        const hr_kernel_summary *kernel = &diagnosis->kernels[i];
        if (!has_point(kernel, &diagnosis->ceiling)) continue;
        points++;
        double x = log10(kernel->flops / kernel->bytes);
        a.x_low = fmin(a.x_low, floor(x));
        a.x_high = fmax(a.x_high, ceil(x));
        lowest = fmin(lowest, kernel->flops / kernel->median);
    }
    a.y_low = fmin(floor(log10(lowest)), log10(diagnosis->ceiling.memory) + a.x_low + 1);
    a.y_low = floor(fmax(a.y_low, a.y_high - 7));
    return a;
}

static void draw_grid(hr_text *out, const axes *a) {
    for (double power = ceil(a->x_low); power <= a->x_high; power++) {
        double x = x_of(a, pow(10, power));
        hr_text_format(out, "<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>", x, x, TOP,
                       HEIGHT - BOTTOM);
        hr_text_format(out, "<text class='tick' x='%.1f' y='%.1f' text-anchor='middle'>%g</text>\n", x,
                       HEIGHT - BOTTOM + 18, pow(10, power));
    }
    for (double power = ceil(a->y_low); power <= a->y_high; power++) {
        double y = y_of(a, pow(10, power));
        hr_text_format(out, "<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>", LEFT,
                       WIDTH - RIGHT, y, y);
        hr_text_format(out, "<text class='tick' x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n", LEFT - 8,
                       y + 4, hr_words_rate(pow(10, power), "").text);
    }
    hr_text_format(out,
                   "<text class='axis' x='%.1f' y='%.1f' text-anchor='end'>operations a byte</text>"
                   "<text class='axis' x='%.1f' y='%.1f'>FLOP/s</text>\n",
                   WIDTH - RIGHT, HEIGHT - 8, LEFT + 8, TOP + 12);
}

static void draw_ceiling(hr_text *out, const axes *a, labels *all, const hr_ceiling *ceiling, double rate,
                         const char *name) {
    if (rate <= 0) return;
    double knee = rate / ceiling->memory, end = pow(10, a->x_high);
    if (knee >= end) return;
    char label[96];
    snprintf(label, sizeof label, "%s, %s", name, hr_words_rate(rate, "FLOP/s").text);
    double y = label_place(all, WIDTH - RIGHT, y_of(a, rate) - 6, true, strlen(label));
    hr_text_format(out, "<line class='ceiling' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>",
                   x_of(a, fmax(knee, pow(10, a->x_low))), x_of(a, end), y_of(a, rate), y_of(a, rate));
    if (!isnan(y))
        hr_text_format(out, "<text class='name' x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n",
                       WIDTH - RIGHT, y, label);
}

static void draw_memory(hr_text *out, const axes *a, labels *all, const hr_ceiling *ceiling) {
    double from = fmax(pow(10, a->x_low), pow(10, a->y_low) / ceiling->memory);
    double to = fmin(highest_rate(ceiling) / ceiling->memory, pow(10, a->x_high));
    if (to <= from) return;
    char label[64];
    snprintf(label, sizeof label, "memory, %s", hr_words_rate(ceiling->memory, "B/s").text);
    double x = x_of(a, sqrt(from * to)) - 10;
    double y = label_place(all, x, y_of(a, sqrt(from * to) * ceiling->memory) - 6, true, strlen(label));
    hr_text_format(out, "<line class='ceiling first' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>\n",
                   x_of(a, from), x_of(a, to), y_of(a, from * ceiling->memory),
                   y_of(a, to * ceiling->memory));
    if (!isnan(y))
        hr_text_format(out, "<text class='name main' x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n", x, y,
                       label);
}

static void draw_label(hr_text *out, labels *all, const hr_kernel_summary *kernel, double x, double y) {
    char label[48];
    bool left = x > WIDTH - 240;
    snprintf(label, sizeof label, "%.40s", kernel->short_name);
    double at = label_place(all, left ? x - 14 : x + 14, y + 4, left, strlen(label));
    if (isnan(at)) return; /* the dot's title has its name */
    hr_text_format(out, "<text class='name' x='%.1f' y='%.1f' text-anchor='%s'>", left ? x - 14 : x + 14, at,
                   left ? "end" : "start");
    hr_html_escape(out, label);
    hr_text_format(out, "</text>\n");
}

static void draw_points(hr_text *out, const axes *a, labels *all, const hr_diagnosis *diagnosis) {
    for (int i = 0, points = 0; i < diagnosis->kernel_count && points < POINTS_MAX; i++) {
        const hr_kernel_summary *kernel = &diagnosis->kernels[i];
        if (!has_point(kernel, &diagnosis->ceiling)) continue;
        double x = x_of(a, kernel->flops / kernel->bytes), rate = kernel->flops / kernel->median;
        double y = fmin(fmax(y_of(a, rate), TOP), HEIGHT - BOTTOM);
        hr_text_format(out, "<circle cx='%.1f' cy='%.1f' r='%.1f' style='fill:var(--k%d)'><title>", x, y,
                       4 + 26 * sqrt(fmin(fmax(kernel->share, 0), 1)), (int)kernel->kind);
        hr_html_escape(out, kernel->short_name);
        hr_text_format(out, ": %s, %s of a step</title></circle>", hr_words_rate(rate, "FLOP/s").text,
                       hr_words_percent(kernel->share).text);
        if (points++ < LABELS_MAX) draw_label(out, all, kernel, x, y);
    }
}

void hr_svg_kernels(hr_text *out, const hr_diagnosis *diagnosis) {
    if (!hr_kernels_have_roofline(diagnosis)) return;
    axes a = axes_choose(diagnosis);
    labels all = {.count = 0};
    hr_text_format(out,
                   "<div class='scroll'><svg class='wide' viewBox='0 0 %g %g' role='img' "
                   "aria-label='roofline of the kernels'>\n",
                   WIDTH, HEIGHT);
    draw_grid(out, &a);
    draw_ceiling(out, &a, &all, &diagnosis->ceiling, diagnosis->ceiling.vector_f32, "f32");
    draw_ceiling(out, &a, &all, &diagnosis->ceiling, diagnosis->ceiling.tensor_tf32, "tf32 on tensor cores");
    draw_ceiling(out, &a, &all, &diagnosis->ceiling, diagnosis->ceiling.tensor_half,
                 "half precision on tensor cores");
    draw_memory(out, &a, &all, &diagnosis->ceiling);
    draw_points(out, &a, &all, diagnosis);
    hr_text_format(out, "</svg></div>\n");
}
