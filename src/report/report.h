/* What the reports share: numbers as people read them, names of a floor's bound, text made safe.
 *
 * In: results. Out: pieces of text. Nothing here knows a terminal or a page.
 */
#ifndef HR_REPORT_REPORT_H
#define HR_REPORT_REPORT_H

#include "base/text.h"

/* "14.2 ms", "-" for what was not measured. Three significant digits. */
typedef struct hr_words {
    char text[48];
} hr_words;

hr_words hr_words_time(double seconds, bool unicode);
/* Scaled by thousands: (38.5e9, "B/s") -> "38.5 GB/s". */
hr_words hr_words_rate(double value, const char *unit);
/* (1.019, "x") -> "1.02x"; (0.981) -> "98 %". */
hr_words hr_words_ratio(double ratio, const char *sign);
hr_words hr_words_percent(double part);
/* Scaled by 1024: (49152) -> "48 KB". */
hr_words hr_words_capacity(double bytes);
/* "stop", "most" and so on: why a text ended. */
const char *hr_text_end_word(hr_text_end end);

/* All operations of a floor, whatever unit does them. */
double hr_floor_operations(const hr_floor *floor);
/* The special unit that bounds a floor, HR_SPECIAL_NONE where none does. */
hr_special hr_floor_special(const hr_floor *floor);
/* ", from 1/8 of the work" where the unfused version was timed on a part; "" otherwise. */
hr_words hr_unfused_part(const hr_run_result *run);
/* What hr_roof.threads counts: "threads" or "multiprocessors". */
const char *hr_roof_threads_word(const hr_roof *roof);
/* "537 MB at 38.5 GB/s": what the bound counts and at which rate. */
hr_words hr_floor_words(const hr_floor *floor, const hr_roof *roof);

/* How good a headroom is: 0 at the roof (to 1.11x), 1 near it (to 1.5x), 2 far. */
int hr_headroom_grade(double headroom);

/* A row of the table of roofs. Rates of one family can be compared. */
typedef enum hr_roof_family { HR_ROOF_BANDWIDTH, HR_ROOF_ARITHMETIC, HR_ROOF_FUNCTIONS } hr_roof_family;
typedef struct hr_roof_row {
    const char *group, *name, *unit;
    hr_roof_family family;
    double value;
} hr_roof_row;
#define HR_ROOF_ROWS_MAX 64
int hr_roof_rows(const hr_roof *roof, hr_roof_row rows[HR_ROOF_ROWS_MAX]);

/* Appends `text` with & < > " ' as entities; bytes that are no UTF-8 become U+FFFD. */
void hr_html_escape(hr_text *out, const char *text);
/* Appends `text` with bytes that are no UTF-8 replaced, for JSON and pages. */
void hr_utf8_clean(hr_text *out, const char *text);
/* Length of the UTF-8 sequence at `at`, 0 where there is none. */
int hr_utf8_length(const char *at);

/* Gives the finished text away, or frees it and says that memory ran out. */
hr_status hr_text_give(hr_text *text, char **out);

/* ---- parts of a page ---- */

/* Pieces of CSS, NULL at the end. */
extern const char *const hr_style_sheet[];
void hr_html_head(hr_text *out, const char *title);
void hr_html_foot(hr_text *out, double measured_at);
/* The roofline plot; `result` NULL draws the roofs alone. */
void hr_svg_roofline(hr_text *out, const hr_roof *roof, const hr_run_result *result);
/* Horizontal bars, a label and a value each. */
typedef struct hr_bar {
    const char *label, *value, *kind; /* kind: a class of the style sheet, "" = plain */
    double length, low, high;         /* low < high: a whisker between them */
} hr_bar;
void hr_svg_bars(hr_text *out, const hr_bar *bars, int count, double mark, const char *mark_label);
/* C with its comments, keywords, numbers and strings in spans. */
void hr_html_source(hr_text *out, const char *source);

#endif
