/* A report for a terminal while it is written. Colours and signs beyond ASCII only where the style allows
 * them. */
#ifndef HR_REPORT_SHEET_H
#define HR_REPORT_SHEET_H

#include "report/report.h"

typedef enum hr_ink {
    HR_INK_PLAIN,
    HR_INK_BOLD,
    HR_INK_DIM,
    HR_INK_GOOD,
    HR_INK_FAIR,
    HR_INK_POOR,
    HR_INK_ACCENT
} hr_ink;

/* A report while it is written. */
typedef struct hr_sheet {
    hr_text text;
    hr_report_style style;
    int wrap;    /* columns of a terminal that is known; 0 = none is */
    size_t line; /* where in the text the line that is being written begins */
} hr_sheet;

/* `style` may be NULL. */
hr_sheet hr_sheet_begin(const hr_report_style *style);
void hr_sheet_put(hr_sheet *paper, hr_ink colour, const char *text);
void hr_sheet_format(hr_sheet *paper, hr_ink colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void hr_sheet_end_line(hr_sheet *paper);
/* The same, where a terminal is known to be narrower than the line broken between its words: what follows
 * begins in column `hang`. */
void hr_sheet_end_wrapped(hr_sheet *paper, int hang);
/* A name in front of a line, dim. */
void hr_sheet_label(hr_sheet *paper, const char *name);
/* Columns that a text takes, for padding beside signs of several bytes. */
int hr_sheet_columns(const char *text);
void hr_sheet_padded(hr_sheet *paper, hr_ink colour, const char *text, int width);
/* " · " or ", " */
const char *hr_sheet_dot(const hr_sheet *paper);
/* A bar of `width` columns, filled to `part` of it, in eighths of a column where the terminal can. */
void hr_sheet_bar(hr_sheet *paper, hr_ink colour, double part, int width);

#endif
