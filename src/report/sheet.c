/* A report for a terminal while it is written: inks, labels, bars.
 *
 * In: pieces of text and the terminal's style. Out: lines. What of the user's text would drive the
 * terminal or change the order of its signs is shown as '?'.
 */
#include "report/sheet.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const char *const ink_codes[] = {"",         "\033[1m",  "\033[2m", "\033[32m",
                                        "\033[33m", "\033[31m", "\033[36m"};

hr_sheet hr_sheet_begin(const hr_report_style *style) {
    hr_sheet paper = {.style = {.size = sizeof paper.style}};
    if (style) memcpy(&paper.style, style, style->size < sizeof *style ? style->size : sizeof *style);
    hr_text_append(&paper.text, "", 0); /* from here on, nothing that fails goes unseen */
    if (paper.style.width > 0)
        paper.wrap = paper.style.width;
    else
        paper.style.width = 100;
    return paper;
}

void hr_sheet_put(hr_sheet *paper, hr_ink colour, const char *text) {
    if (paper->style.colour && colour != HR_INK_PLAIN) hr_text_format(&paper->text, "%s", ink_codes[colour]);
    for (const char *at = text; *at;) { /* nothing of the user's may drive the terminal */
        size_t length;
        bool shown = hr_character_is_shown(at, 4, &length); /* the end of the text ends a sequence, too */
        hr_text_append(&paper->text, shown ? at : "?", shown ? length : 1);
        at += length;
    }
    if (paper->style.colour && colour != HR_INK_PLAIN) hr_text_format(&paper->text, "\033[0m");
}

void hr_sheet_format(hr_sheet *paper, hr_ink colour, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    hr_sheet_put(paper, colour, line);
}

void hr_sheet_end_line(hr_sheet *paper) {
    hr_text_append(&paper->text, "\n", 1);
    paper->line = paper->text.length;
}

/* Past the colour that begins at `at`; `at` itself where none does. */
static const char *skip_colour(const char *at) {
    return *at == '\033' ? at + strcspn(at, "m") + 1 : at;
}

/* Where a line of more than `width` columns is broken: a space within them, past column `hang`, that does not
 * part a number from its unit; the last one behind a mark or before a bracket where that leaves the line half
 * full. NULL where the line fits or has none. */
static const char *line_break(const char *line, int width, int hang) {
    const char *last = NULL, *good = NULL;
    char before = 0;
    int column = 0;
    for (const char *at = line; *at; at++) {
        while (*at == '\033')
            at = skip_colour(at);
        if (!*at) break;
        bool number = before >= '0' && before <= '9';
        if (*at == ' ' && column <= width && column > hang && before != ' ' && !number) {
            bool marked = before && strchr(",;:\xb7", before);
            last = at;
            if ((marked || at[1] == '(') && column >= width / 2) good = at;
        }
        column += ((unsigned char)*at & 0xc0) != 0x80;
        before = *at;
    }
    return column <= width ? NULL : good ? good : last;
}

void hr_sheet_end_wrapped(hr_sheet *paper, int hang) {
    hr_text whole = {0};
    const char *at = hr_text_data(&paper->text) + paper->line, *next;
    hr_text_append(&whole, at, strlen(at));
    paper->text.length = paper->line;
    at = hr_text_data(&whole);
    for (int from = hang; paper->wrap && (next = line_break(at, paper->wrap - (hang - from), from));
         from = 0) {
        hr_text_append(&paper->text, at, (size_t)(next - at));
        hr_text_format(&paper->text, "\n%*s", hang, "");
        at = next + strspn(next, " ");
    }
    hr_text_append(&paper->text, at, strlen(at));
    paper->text.failed |= whole.failed;
    hr_text_clear(&whole);
    hr_sheet_end_line(paper);
}

void hr_sheet_label(hr_sheet *paper, const char *name) {
    hr_sheet_format(paper, HR_INK_DIM, "  %-9s ", name);
}

/* Columns that a text takes, for padding beside signs of several bytes. */
int hr_sheet_columns(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void hr_sheet_padded(hr_sheet *paper, hr_ink colour, const char *text, int width) {
    hr_sheet_put(paper, colour, text);
    hr_sheet_format(paper, HR_INK_PLAIN, "%*s",
                    width > hr_sheet_columns(text) ? width - hr_sheet_columns(text) : 0, "");
}

const char *hr_sheet_dot(const hr_sheet *paper) {
    return paper->style.unicode ? " · " : ", ";
}

/* A bar of `width` columns, filled to `part` of it, in eighths of a column where the terminal can. */
void hr_sheet_bar(hr_sheet *paper, hr_ink colour, double part, int width) {
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
    hr_sheet_put(paper, colour, hr_text_data(&bar));
    if (rest.length) hr_sheet_put(paper, HR_INK_DIM, hr_text_data(&rest));
    hr_text_clear(&bar);
    hr_text_clear(&rest);
}
