/* What the device's memory held. In: a diagnosis. Out: lines, a section of a page, JSON. */
#include "report/report_memory.h"
#include "report/json_value.h"

#include <math.h>
#include <string.h>

#define LEAST_SHOWN 0.005 /* of the peak */
#define LEAST_IDLE  0.05  /* of what is reserved, for it to be worth a line */
#define WIDTH       1000.0
#define HEIGHT      160.0

static double part_of_peak(const hr_memory_use *memory, int category) {
    return memory->peak > 0 ? (double)memory->at_peak[category] / (double)memory->peak : 0;
}

/* "12.3 GB of 80.0 GB, 45.0 ms into the trace": times of a trace begin at its own zero. */
static void peak_words(const hr_memory_use *memory, bool unicode, char *out, size_t room) {
    char capacity[40] = "";
    if (memory->capacity > 0)
        snprintf(capacity, sizeof capacity, " of %.20s", hr_words_rate(memory->capacity, "B").text);
    snprintf(out, room, "%.20s%s, %s into the trace", hr_words_rate((double)memory->peak, "B").text, capacity,
             hr_words_time((double)memory->peak_time * 1e-9, unicode).text);
}

/* What limits the batch; "" where it is not known. */
static const char *batch_words(const hr_memory_use *memory, char *out, size_t room) {
    double growing =
        (double)(memory->at_peak[HR_MEMORY_ACTIVATIONS_USE] + memory->at_peak[HR_MEMORY_INPUTS_USE] +
                 memory->at_peak[HR_MEMORY_TEMPORARY_USE]);
    *out = 0;
    if (memory->batch_factor > 1)
        snprintf(
            out, room,
            "A batch about %.2g times as large would fit: %s of the peak grow with it, the rest does not.",
            memory->batch_factor, hr_words_rate(growing, "B").text);
    else if (memory->capacity > 0 && !memory->of_driver && growing > 0.02 * (double)memory->peak)
        snprintf(
            out, room,
            "Memory limits the batch: %s of the peak grow with it. Activations can be computed again in the "
            "backward pass (checkpointing).",
            hr_words_rate(growing, "B").text);
    return out;
}

/* What the caching allocator holds in pieces that do not fit; "" where it is little or not known. */
static const char *idle_words(const hr_memory_use *memory, char *out, size_t room) {
    *out = 0;
    if (memory->reserved > 0 && (double)memory->idle_reserved > LEAST_IDLE * (double)memory->reserved)
        snprintf(out, room,
                 "The caching allocator holds %.20s, of which %.20s (%.0f %%) lie unused in pieces: "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins them.",
                 hr_words_rate((double)memory->reserved, "B").text,
                 hr_words_rate((double)memory->idle_reserved, "B").text,
                 100 * (double)memory->idle_reserved / (double)memory->reserved);
    return out;
}

static const char *source_words(const hr_memory_use *memory) {
    return memory->of_driver
               ? "as the driver gave it out; what a caching allocator does within is not recorded"
               : "";
}

/* ---- the terminal ---- */

void hr_memory_text(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const hr_memory_use *memory = &diagnosis->memory;
    char words[256];
    if (memory->peak <= 0) return;
    hr_sheet_end_line(paper);
    hr_sheet_put(paper, HR_INK_BOLD, "Memory of the device");
    peak_words(memory, paper->style.unicode, words, sizeof words);
    hr_sheet_format(paper, HR_INK_PLAIN, "%speak %s", hr_sheet_dot(paper), words);
    hr_sheet_end_line(paper);
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++) {
        double part = part_of_peak(memory, i);
        if (part < LEAST_SHOWN) continue;
        hr_sheet_format(paper, HR_INK_PLAIN, "  %9s %4.0f %%  %s",
                        hr_words_rate((double)memory->at_peak[i], "B").text, 100 * part,
                        hr_memory_use_words((hr_memory_category)i));
        hr_sheet_end_line(paper);
    }
    const char *lines[] = {batch_words(memory, words, sizeof words), NULL, source_words(memory)};
    char idle[256];
    lines[1] = idle_words(memory, idle, sizeof idle);
    for (int i = 0; i < 3; i++) {
        if (!lines[i][0]) continue;
        hr_sheet_format(paper, HR_INK_PLAIN, "  %s", lines[i]);
        hr_sheet_end_wrapped(paper, 2);
    }
}

/* ---- the page ---- */

/* One colour a category: kinds of time lend theirs. */
static const char *const colours[HR_MEMORY_USE_COUNT] = {"other",       "optimizer",   "matrix", "attention",
                                                         "data-loader", "elementwise", "copy"};

/* Categories on top of each other, a step for each point. */
static void write_area(hr_text *out, const hr_diagnosis *diagnosis, int category) {
    const hr_memory_use *memory = &diagnosis->memory;
    double from = (double)memory->points[0].time,
           length = fmax(1, (double)memory->points[memory->point_count - 1].time - from);
    hr_text_format(out, "<path style='fill:var(--kind-%s)' d='M", colours[category]);
    for (int turn = 0; turn < 2; turn++) /* along the top, and back along the bottom */
        for (int k = 0; k < memory->point_count; k++) {
            const hr_memory_point *point = &memory->points[turn ? memory->point_count - 1 - k : k];
            double sum = 0;
            for (int i = 0; i < category + !turn; i++)
                sum += (double)point->bytes[i];
            hr_text_format(out, "%s%.1f %.1f", turn || k ? "L" : "",
                           ((double)point->time - from) / length * WIDTH,
                           HEIGHT - fmax(0, sum) / (double)memory->peak * (HEIGHT - 8));
        }
    hr_text_format(out, "Z'><title>%s</title></path>\n", hr_memory_use_words((hr_memory_category)category));
}

void hr_memory_html(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_memory_use *memory = &diagnosis->memory;
    char words[256], idle[256];
    if (memory->peak <= 0 || memory->point_count < 1) return;
    peak_words(memory, true, words, sizeof words);
    hr_text_format(out, "<section><h2>Memory of the device</h2><p>Peak <b>%s</b></p>\n", words);
    hr_text_format(out,
                   "<svg viewBox='0 0 %g %g' preserveAspectRatio='none' role='img' aria-label='memory over "
                   "time' style='height:%gpx'>\n",
                   WIDTH, HEIGHT, HEIGHT);
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++)
        if (part_of_peak(memory, i) >= LEAST_SHOWN) write_area(out, diagnosis, i);
    hr_text_format(out, "</svg><div class='legend'>\n");
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++) {
        double part = part_of_peak(memory, i);
        if (part < LEAST_SHOWN) continue;
        hr_text_format(
            out,
            "<div><i style='background:var(--kind-%s)'></i><span>%s</span><span>%s</span><small>%.1f "
            "%%</small></div>\n",
            colours[i], hr_memory_use_words((hr_memory_category)i),
            hr_words_rate((double)memory->at_peak[i], "B").text, 100 * part);
    }
    hr_text_format(out, "</div><p class='note'>%s %s %s</p></section>\n",
                   batch_words(memory, words, sizeof words), idle_words(memory, idle, sizeof idle),
                   source_words(memory));
}

/* ---- JSON ---- */

static json_t *categories_value(const int64_t *bytes) {
    json_t *object = json_object();
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++)
        if (bytes[i]) hr_value_set(object, hr_memory_use_name((hr_memory_category)i), json_integer(bytes[i]));
    return object;
}

json_t *hr_memory_value(const hr_diagnosis *diagnosis) {
    const hr_memory_use *memory = &diagnosis->memory;
    if (!memory->allocations) return json_null();
    json_t *object = json_object(), *curve = json_array();
    for (int i = 0; i < memory->point_count; i++) {
        json_t *point = json_object();
        hr_value_set(point, "at", json_real((double)memory->points[i].time * 1e-9));
        hr_value_set(point, "bytes", categories_value(memory->points[i].bytes));
        hr_value_append(curve, point);
    }
    hr_value_set(object, "source", json_string(memory->of_driver ? "driver" : "caching allocator"));
    hr_value_set(object, "allocations", json_integer(memory->allocations));
    hr_value_set(object, "peak", json_integer(memory->peak));
    hr_value_set(object, "peak_at", json_real((double)memory->peak_time * 1e-9));
    hr_value_set(object, "at_peak", categories_value(memory->at_peak));
    hr_value_set(object, "capacity",
                 memory->capacity > 0 ? json_integer((json_int_t)memory->capacity) : json_null());
    hr_value_set(object, "reserved", memory->reserved > 0 ? json_integer(memory->reserved) : json_null());
    hr_value_set(object, "reserved_idle",
                 memory->reserved > 0 ? json_integer(memory->idle_reserved) : json_null());
    hr_value_set(object, "batch_factor",
                 memory->batch_factor > 0 ? json_real(memory->batch_factor) : json_null());
    hr_value_set(object, "curve", curve);
    return object;
}
