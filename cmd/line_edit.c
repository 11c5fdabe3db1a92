/* A line that is typed on a terminal, with arrow keys and what was typed before. In: keys, one byte after
 * another. Out: the line.
 *
 * The terminal gives keys as they come only while a line is read; signals stay the terminal's. A line that is
 * longer than the screen is wide shows the part around the cursor.
 */
#include "command.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { ESCAPE = 27, DELETE = 127, WIDTH = 80 };

/* What keys ask for, those of escape sequences among them. */
typedef enum action {
    INSERT,
    NOTHING,
    LEFT,
    RIGHT,
    FIRST,
    LAST,
    BEFORE,
    BEHIND,
    CUT_LEFT,
    CUT_RIGHT,
    CUT_WORD,
    CUT_ALL,
    CUT_REST,
    ENTER,
    CLOSE
} action;

/* ---- text ---- */

static bool is_inside(const line_editor *line, size_t at) {
    return at < line->length && ((unsigned char)line->text[at] & 0xc0) == 0x80;
}

static size_t left_of(const line_editor *line, size_t at) {
    if (at > 0) at--;
    while (at > 0 && is_inside(line, at))
        at--;
    return at;
}

static size_t right_of(const line_editor *line, size_t at) {
    if (at < line->length) at++;
    while (is_inside(line, at))
        at++;
    return at;
}

static size_t word_before(const line_editor *line, size_t at) {
    while (at > 0 && line->text[at - 1] == ' ')
        at--;
    while (at > 0 && line->text[at - 1] != ' ')
        at--;
    return at;
}

static bool room_make(line_editor *line, size_t more) {
    if (line->length + more + 1 <= line->room) return true;
    const size_t room = 2 * (line->length + more) + 64;
    char *grown = realloc(line->text, room);
    if (!grown) return false;
    line->text = grown;
    line->room = room;
    return true;
}

static void cut(line_editor *line, size_t from, size_t to) {
    memmove(line->text + from, line->text + to, line->length - to + 1);
    line->length -= to - from;
    line->cursor = from;
}

static bool insert(line_editor *line, const char *text, size_t length) {
    if (!room_make(line, length)) return false;
    memmove(line->text + line->cursor + length, line->text + line->cursor, line->length - line->cursor + 1);
    memcpy(line->text + line->cursor, text, length);
    line->cursor += length;
    line->length += length;
    return true;
}

/* A line that was typed before; behind the last one, an empty one. */
static bool recall(line_editor *line, int number) {
    if (number < 0 || number > line->before_count) return true;
    const char *text = number < line->before_count ? line->before[number] : "";
    cut(line, 0, line->length);
    line->number = number;
    return insert(line, text, strlen(text));
}

/* ---- keys ---- */

/* A byte; -1 where an interrupt came, -2 at the end. `wait`: as long as it takes. */
static int byte_read(bool wait) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready;
    while ((ready = poll(&in, 1, wait ? 100 : 50)) <= 0) /* ms: a signal may come just before it waits */
        if (terminal_interrupted() || !wait) return -1;
    unsigned char byte;
    return read(STDIN_FILENO, &byte, 1) == 1 ? byte : -2;
}

/* ESC [ 3 ~ and their kin. One that is not known does nothing, and none of it gets into the line. */
static action sequence_action(void) {
    int byte = byte_read(false), number = 0;
    if (byte != '[' && byte != 'O') return NOTHING;
    while ((byte = byte_read(false)) >= 0 && byte < '@')
        number = byte >= '0' && byte <= '9' && number < 100 ? 10 * number + byte - '0' : number;
    switch (byte) {
    case 'A':
        return BEFORE;
    case 'B':
        return BEHIND;
    case 'C':
        return RIGHT;
    case 'D':
        return LEFT;
    case 'H':
        return FIRST;
    case 'F':
        return LAST;
    case '~':
        return number == 3                  ? CUT_RIGHT
               : number == 1 || number == 7 ? FIRST
               : number == 4 || number == 8 ? LAST
                                            : NOTHING;
    default:
        return NOTHING;
    }
}

static action action_of(int byte) {
    static const struct {
        int byte;
        action action;
    } keys[] = {{'\r', ENTER},         {'\n', ENTER},       {DELETE, CUT_LEFT},    {'H' - '@', CUT_LEFT},
                {'A' - '@', FIRST},    {'E' - '@', LAST},   {'B' - '@', LEFT},     {'F' - '@', RIGHT},
                {'P' - '@', BEFORE},   {'N' - '@', BEHIND}, {'W' - '@', CUT_WORD}, {'U' - '@', CUT_ALL},
                {'K' - '@', CUT_REST}, {'D' - '@', CLOSE}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].byte == byte) return keys[i].action;
    return byte == ESCAPE ? sequence_action() : byte >= ' ' || byte == '\t' ? INSERT : NOTHING;
}

/* False where there is no memory. */
static bool apply(line_editor *line, action action, int byte) {
    const size_t at = line->cursor;
    const char letter = (char)(byte == '\t' ? ' ' : byte);
    switch (action) {
    case INSERT:
        return insert(line, &letter, 1);
    case LEFT:
        line->cursor = left_of(line, at);
        return true;
    case RIGHT:
        line->cursor = right_of(line, at);
        return true;
    case FIRST:
        line->cursor = 0;
        return true;
    case LAST:
        line->cursor = line->length;
        return true;
    case BEFORE:
        return recall(line, line->number - 1);
    case BEHIND:
        return recall(line, line->number + 1);
    case CUT_LEFT:
        cut(line, left_of(line, at), at);
        return true;
    case CLOSE:
    case CUT_RIGHT:
        cut(line, at, right_of(line, at));
        return true;
    case CUT_WORD:
        cut(line, word_before(line, at), at);
        return true;
    case CUT_ALL:
        cut(line, 0, line->length);
        return true;
    case CUT_REST:
        cut(line, at, line->length);
        return true;
    default:
        return true;
    }
}

/* ---- the screen ---- */

static int screen_width(void) {
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 ? size.ws_col : WIDTH;
}

/* Characters up to `to`, each that is shown taken to be one column wide. */
static int columns(const line_editor *line, size_t from, size_t to) {
    int count = 0;
    size_t step;
    for (size_t at = from; at < to; at += step)
        count += hr_character_is_shown(line->text + at, line->length - at, &step);
    return count;
}

/* What would drive the terminal is not shown. */
static void draw(const line_editor *line, const char *prompt) {
    const int most = screen_width() - (int)strlen(prompt) - 1;
    size_t from = 0, step;
    while (columns(line, from, line->cursor) > most)
        from = right_of(line, from);
    fprintf(stderr, "\r%s", prompt);
    int count = 0;
    for (size_t at = from; at < line->length && count < most; at += step) {
        if (!hr_character_is_shown(line->text + at, line->length - at, &step)) continue;
        fwrite(line->text + at, 1, step, stderr);
        count++;
    }
    fprintf(stderr, "\033[K\r\033[%dC", (int)strlen(prompt) + columns(line, from, line->cursor));
}

/* ---- a line ---- */

static line_end keys_take(line_editor *line, const char *prompt) {
    for (;;) {
        draw(line, prompt);
        const int byte = byte_read(true);
        if (byte == -1) return LINE_INTERRUPTED;
        if (byte == -2) return LINE_CLOSED;
        const action action = action_of(byte);
        if (action == ENTER) return LINE_TYPED;
        if (action == CLOSE && line->length == 0) return LINE_CLOSED;
        if (!apply(line, action, byte)) return LINE_NO_MEMORY;
    }
}

static bool keep(line_editor *line) {
    if (line->before_count == LINES_BEFORE) {
        free(line->before[0]);
        memmove(line->before, line->before + 1, (LINES_BEFORE - 1) * sizeof *line->before);
        line->before_count--;
    }
    line->before[line->before_count] = strdup(line->text);
    return line->before[line->before_count] && ++line->before_count;
}

line_end line_edit(line_editor *line, const char *prompt) {
    struct termios before, keys;
    if (!room_make(line, 0)) return LINE_NO_MEMORY;
    line->length = line->cursor = 0;
    line->text[0] = 0;
    line->number = line->before_count;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return LINE_CLOSED;
    keys = before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_iflag &= ~(tcflag_t)ICRNL;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    line_end end = keys_take(line, prompt);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    fprintf(stderr, "\n");
    if (end == LINE_TYPED && line->length > 0 && !keep(line)) end = LINE_NO_MEMORY;
    return end;
}

void line_editor_clear(line_editor *line) {
    for (int i = 0; i < line->before_count; i++)
        free(line->before[i]);
    free(line->text);
    *line = (line_editor){0};
}
