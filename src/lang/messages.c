/* Collects mistakes and renders them. In: places and sentences. Out: one text for hr_last_error(). */
#include "lang/messages.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SHOWN 100 /* bytes of a source line around its caret */

hr_shown hr_text_shown(const char *text, size_t length) {
    hr_shown shown = {{0}};
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (at > 40) {
            memcpy(shown.text + at, "...", 4);
            break;
        }
        unsigned char byte = (unsigned char)text[i];
        if (byte >= ' ' && byte < 0x7f)
            shown.text[at++] = (char)byte;
        else
            at += (size_t)snprintf(shown.text + at, sizeof shown.text - at, "\\x%02x", byte);
    }
    return shown;
}

void hr_messages_add(hr_messages *messages, hr_place place, const char *format, ...) {
    hr_message message = {.place = place};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.sentence, sizeof message.sentence, format, arguments);
    va_end(arguments);
    for (int i = 0; i < messages->kept; i++) { /* a def's mistake comes back with each of its calls */
        const hr_message *old = &messages->kept_messages[i];
        if (old->place.line == place.line && old->place.column == place.column &&
            strcmp(old->sentence, message.sentence) == 0)
            return;
    }
    messages->total++;
    if (messages->kept < HR_MESSAGES_SHOWN) messages->kept_messages[messages->kept++] = message;
}

/* One source line with what a terminal must not see replaced, and below it the caret. */
static void append_line(hr_text *out, const char *line, size_t length, size_t column) {
    size_t first = column > LINE_SHOWN / 2 ? column - LINE_SHOWN / 2 : 0;
    size_t last = length - first > LINE_SHOWN ? first + LINE_SHOWN : length;
    if (last == length && length > LINE_SHOWN && first > length - LINE_SHOWN) first = length - LINE_SHOWN;
    hr_text caret = {0};
    hr_text_format(out, "    %s", first ? "..." : "");
    hr_text_format(&caret, "    %s", first ? "   " : "");
    for (size_t i = first; i < last;) {
        size_t step;
        const bool shown = hr_character_is_shown(line + i, last - i, &step) || line[i] == '\t';
        hr_text_append(out, shown ? line + i : "?", shown ? step : 1);
        if (i < column) hr_text_append(&caret, line[i] == '\t' ? "\t" : " ", 1);
        i += step;
    }
    hr_text_format(out, "%s\n%s^\n", last < length ? "..." : "", hr_text_data(&caret));
    hr_text_clear(&caret);
}

static int by_place(const void *left, const void *right) {
    const hr_message *a = left, *b = right;
    if (a->place.line != b->place.line) return a->place.line < b->place.line ? -1 : 1;
    if (a->place.column != b->place.column) return a->place.column < b->place.column ? -1 : 1;
    return strcmp(a->sentence, b->sentence);
}

/* The text of the place's line, NULL where there is none; `number`: as its own file counts. */
static const char *line_of(const hr_messages *messages, hr_place place, int *number, size_t *length) {
    const hr_source *source = hr_origin_source(&messages->origin, place.line);
    const char *line = source ? source->text : messages->origin.text;
    const char *end = line + (source ? source->length : messages->origin.length);
    *number = place.line;
    hr_origin_path(&messages->origin, number);
    for (int i = 1; i < *number && line; i++) {
        line = memchr(line, '\n', (size_t)(end - line));
        if (line) line++;
    }
    if (!line || line > end) return NULL;
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    *length = (size_t)((stop ? stop : end) - line);
    if (*length && line[*length - 1] == '\r') --*length;
    return line;
}

bool hr_place_follows(const hr_messages *messages, hr_place place, const char *text) {
    int number;
    size_t length, size = strlen(text), at = (size_t)place.column - 1;
    const char *line = line_of(messages, place, &number, &length);
    if (!line || at > length) return false;
    while (at > 0 && line[at - 1] == ' ')
        at--;
    return at >= size && memcmp(line + at - size, text, size) == 0;
}

static void append_message(hr_text *out, const hr_messages *messages, const hr_message *message) {
    int number = message->place.line;
    const char *name = hr_origin_path(&messages->origin, &number);
    hr_shown path = hr_text_shown(name, strlen(name));
    bool short_path = strlen(name) <= 200 && !strpbrk(name, "\x1b\n\r");
    hr_text_format(out, "%s:%d:%d: error: %s\n", short_path ? name : path.text, number, message->place.column,
                   message->sentence);
    size_t length;
    const char *line = line_of(messages, message->place, &number, &length);
    if (!line) return;
    append_line(out, line, length, (size_t)message->place.column - 1);
}

hr_status hr_messages_status(hr_messages *messages) {
    if (!messages->total) return HR_OK;
    qsort(messages->kept_messages, (size_t)messages->kept, sizeof *messages->kept_messages, by_place);
    hr_text text = {0};
    for (int i = 0; i < messages->kept; i++)
        append_message(&text, messages, &messages->kept_messages[i]);
    if (messages->total > messages->kept)
        hr_text_format(&text, "and %ld more mistakes\n", messages->total - messages->kept);
    hr_status status = hr_text_status(&text);
    if (status == HR_OK) {
        if (text.length && text.data[text.length - 1] == '\n') text.data[text.length - 1] = 0;
        status = hr_fail(HR_BAD_INPUT, "%s", hr_text_data(&text));
    }
    hr_text_clear(&text);
    return status;
}
