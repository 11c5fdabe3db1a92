/* Numbers and names as people read them. In: values in base units. Out: short texts. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Three significant digits without an exponent: 1.23, 12.3, 123, 1234. */
static int digits_after(double value) {
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

hr_words hr_words_time(double seconds, bool unicode) {
    hr_words words = {"-"};
    static const struct {
        double unit;
        const char *ascii, *sign;
    } units[] = {{1, "s", "s"}, {1e-3, "ms", "ms"}, {1e-6, "us", "µs"}, {1e-9, "ns", "ns"}};
    if (!(seconds > 0) || !isfinite(seconds)) return words;
    int i = 0;
    while (i < 3 && seconds < 0.9995 * units[i].unit)
        i++;
    double value = seconds / units[i].unit;
    snprintf(words.text, sizeof words.text, "%.*f %s", digits_after(value), value,
             unicode ? units[i].sign : units[i].ascii);
    return words;
}

hr_words hr_words_rate(double value, const char *unit) {
    static const char prefixes[] = " kMGTPE";
    hr_words words = {"-"};
    if (!(value > 0) || !isfinite(value)) return words;
    int i = 0;
    for (; value >= 999.5 && prefixes[i + 1]; i++)
        value /= 1000;
    char prefix[2] = {i ? prefixes[i] : 0, 0};
    int digits = i == 0 && value == floor(value) ? 0 : digits_after(value);
    const char *space = prefix[0] || unit[0] ? " " : "";
    snprintf(words.text, sizeof words.text, "%.*f%s%s%s", digits, value, space, prefix, unit);
    return words;
}

hr_words hr_words_ratio(double ratio, const char *sign) {
    hr_words words;
    snprintf(words.text, sizeof words.text, "%.*f%s", digits_after(ratio), ratio, sign);
    return words;
}

hr_words hr_words_percent(double part) {
    hr_words words;
    snprintf(words.text, sizeof words.text, "%.*f %%", part < 0.0995 && part > 0 ? 1 : 0, 100 * part);
    return words;
}

hr_words hr_words_capacity(double bytes) {
    hr_words words;
    if (bytes < 1048576)
        snprintf(words.text, sizeof words.text, "%.0f KB", bytes / 1024);
    else
        snprintf(words.text, sizeof words.text, "%.4g MB", bytes / 1048576);
    return words;
}

const char *hr_text_end_word(hr_text_end end) {
    static const char *const words[] = {"stop", "most", "context", "cancelled"};
    return (unsigned)end < sizeof words / sizeof *words ? words[end] : "";
}

double hr_floor_operations(const hr_floor *floor) {
    return floor->tensor_flops + floor->vector_flops + floor->special_ops;
}

hr_special hr_floor_special(const hr_floor *floor) {
    for (int unit = HR_SPECIAL_NONE + 1; unit < HR_SPECIAL_COUNT; unit++)
        if (floor->bound && strcmp(floor->bound, hr_special_name((hr_special)unit)) == 0)
            return (hr_special)unit;
    return HR_SPECIAL_NONE;
}

hr_words hr_unfused_part(const hr_run_result *run) {
    hr_words words = {""};
    if (run->unfused_part > 0 && run->unfused_part < 1)
        snprintf(words.text, sizeof words.text, ", from 1/%.0f of the work", 1 / run->unfused_part);
    return words;
}

const char *hr_roof_threads_word(const hr_roof *roof) {
    return roof->launch_host > 0 ? "multiprocessors" : "threads";
}

hr_words hr_floor_words(const hr_floor *floor, const hr_roof *roof) {
    hr_words words;
    const char *bound = floor->bound ? floor->bound : "";
    hr_special unit = hr_floor_special(floor);
    bool tensor = strcmp(bound, "tensor") == 0, vector = strcmp(bound, "vector") == 0;
    if (strcmp(bound, "launch") == 0 && roof->launch_host > 0)
        snprintf(words.text, sizeof words.text, "an empty kernel");
    else if (strcmp(bound, "launch") == 0)
        snprintf(words.text, sizeof words.text, "starting %d threads", roof->threads);
    else if (unit != HR_SPECIAL_NONE)
        snprintf(words.text, sizeof words.text, "functions at %.20s",
                 hr_words_rate(roof->special[unit], "/s").text);
    else {
        double work = tensor ? floor->tensor_flops : vector ? floor->vector_flops : floor->bytes;
        hr_words amount = hr_words_rate(work, tensor || vector ? "FLOP" : "B");
        hr_words rate = hr_words_rate(floor->seconds > 0 ? work / floor->seconds : 0,
                                      tensor || vector ? "FLOP/s" : "B/s");
        snprintf(words.text, sizeof words.text, "%.20s at %.20s", amount.text, rate.text);
    }
    return words;
}

int hr_headroom_grade(double headroom) {
    return headroom <= 1.115 ? 0 : headroom <= 1.5 ? 1 : 2;
}

static hr_roof_family roof_family(const char *unit) {
    return unit[0] == 'B' ? HR_ROOF_BANDWIDTH : unit[0] == '/' ? HR_ROOF_FUNCTIONS : HR_ROOF_ARITHMETIC;
}

int hr_roof_rows(const hr_roof *roof, hr_roof_row rows[HR_ROOF_ROWS_MAX]) {
    int count = 0;
#define ROW(group, name, unit, value)                                                                        \
    rows[count++] = (hr_roof_row){group, name, unit, roof_family(unit), value}
    ROW("memory", "copy", "B/s", roof->copy);
    ROW("memory", "read", "B/s", roof->read);
    ROW("memory", "write", "B/s", roof->write);
    ROW("memory", "triad", "B/s", roof->triad);
    for (int i = 0; i < roof->cache_count && i < HR_ROOF_LEVELS; i++) {
        ROW(roof->cache[i].name, "copy", "B/s", roof->cache[i].copy);
        ROW(roof->cache[i].name, "read", "B/s", roof->cache[i].read);
        ROW(roof->cache[i].name, "write", "B/s", roof->cache[i].write);
        ROW(roof->cache[i].name, "triad", "B/s", roof->cache[i].triad);
    }
    ROW("vector", "f32", "FLOP/s", roof->vector_f32);
    ROW("vector", "f64", "FLOP/s", roof->vector_f64);
    ROW("vector", "bf16", "FLOP/s", roof->vector_bf16);
    ROW("vector", "f16", "FLOP/s", roof->vector_f16);
    ROW("vector", "i32", "OP/s", roof->vector_i32);
    ROW("vector", "i8", "OP/s", roof->vector_i8);
    ROW("tensor", "f32", "FLOP/s", roof->tensor_f32);
    ROW("tensor", "bf16", "FLOP/s", roof->tensor_bf16);
    ROW("tensor", "f16", "FLOP/s", roof->tensor_f16);
    ROW("tensor", "tf32", "FLOP/s", roof->tensor_tf32);
    ROW("tensor", "f8", "FLOP/s", roof->tensor_f8);
    ROW("tensor", "i8", "OP/s", roof->tensor_i8);
    for (int unit = HR_SPECIAL_NONE + 1; unit < HR_SPECIAL_COUNT; unit++)
        ROW("special", hr_special_name((hr_special)unit), "/s", roof->special[unit]);
    ROW("link", "to", "B/s", roof->link_to);
    ROW("link", "from", "B/s", roof->link_from);
    ROW("pageable", "to", "B/s", roof->link_pageable_to);
    ROW("pageable", "from", "B/s", roof->link_pageable_from);
    ROW("peer", "to", "B/s", roof->link_peer);
#undef ROW
    int kept = 0; /* what was not measured is not shown */
    for (int i = 0; i < count; i++)
        if (rows[i].value > 0) rows[kept++] = rows[i];
    return kept;
}

/* ---- text made safe ---- */

int hr_utf8_length(const char *at) {
    return (int)hr_utf8_take(at, 4, NULL); /* the end of the text ends a sequence, too */
}

void hr_utf8_clean(hr_text *out, const char *text) {
    while (*text) {
        int length = hr_utf8_length(text);
        hr_text_append(out, length ? text : "\xef\xbf\xbd", length ? (size_t)length : 3);
        text += length ? length : 1;
    }
}

void hr_html_escape(hr_text *out, const char *text) {
    while (*text) {
        int length = hr_utf8_length(text);
        const char *entity = *text == '&'    ? "&amp;"
                             : *text == '<'  ? "&lt;"
                             : *text == '>'  ? "&gt;"
                             : *text == '"'  ? "&quot;"
                             : *text == '\'' ? "&#39;"
                             : length == 0   ? "&#xFFFD;"
                                             : NULL;
        if (entity)
            hr_text_append(out, entity, strlen(entity));
        else
            hr_text_append(out, text, (size_t)length);
        text += length ? length : 1;
    }
}

hr_status hr_text_give(hr_text *text, char **out) {
    hr_status status = hr_text_status(text);
    if (status == HR_OK && !text->data) { /* nothing was appended: an empty text all the same */
        text->data = calloc(1, 1);
        if (!text->data) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while building a report");
    }
    if (status == HR_OK)
        *out = text->data;
    else
        hr_text_clear(text);
    return status;
}
