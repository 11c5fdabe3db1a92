/* A line that is typed on a terminal. In: keys. Out: the line.
 *
 * libedit edits it and brings back those before, where this machine has it: it is opened at run time, and
 * asked for a key only once one is there, so that an interrupt is seen between two. Elsewhere the terminal's
 * own editing is what there is.
 */
#include "command.h"

#include <dlfcn.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What of libedit is used, by its names there. */
typedef struct editor {
    void (*install)(const char *prompt, void (*take)(char *line));
    void (*read_key)(void);
    void (*remove)(void);
    int (*add)(const char *line);
    FILE **shown;
    int *catches; /* signals, to send them to the whole process group */
} editor;

/* libedit gives a line to a function without an argument for whose line it is. */
static struct {
    editor editor;
    char *text;
    bool is_there;
} taken;

static void line_is_there(char *text) {
    taken.text = text;
    taken.is_there = true;
    taken.editor.remove(); /* else it shows the next prompt at once */
}

/* False where libedit is not there, or has not all of these. */
static bool editor_open(editor *out) {
    static const char *const names[] = {"libedit.so.2", "libedit.so.0"};
    if (out->install) return true;
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    editor found;
    *(void **)&found.install = dlsym(library, "rl_callback_handler_install");
    *(void **)&found.read_key = dlsym(library, "rl_callback_read_char");
    *(void **)&found.remove = dlsym(library, "rl_callback_handler_remove");
    *(void **)&found.add = dlsym(library, "add_history");
    found.shown = dlsym(library, "rl_outstream");
    found.catches = dlsym(library, "rl_catch_signals");
    if (!found.install || !found.read_key || !found.remove || !found.add || !found.shown || !found.catches) {
        dlclose(library);
        return false;
    }
    setlocale(LC_CTYPE, ""); /* how many bytes a character has */
    *found.shown = stderr;
    *found.catches = 0;
    *out = found;
    return true;
}

/* Waits for a key. False where an interrupt comes first. */
static bool key_wait(void) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (!terminal_interrupted() && poll(&in, 1, 100) == 0) /* ms: a signal may come just before it waits */
        ;
    return !terminal_interrupted();
}

/* A line that was typed can be had again; the oldest one makes room. */
static bool keep(line_editor *line) {
    if (line->before_count == LINES_BEFORE) {
        free(line->before[0]);
        memmove(line->before, line->before + 1, (LINES_BEFORE - 1) * sizeof *line->before);
        line->before_count--;
    }
    line->before[line->before_count] = strdup(line->text);
    return line->before[line->before_count] && ++line->before_count;
}

static line_end line_edited(line_editor *line, const char *prompt) {
    const editor *editor = &taken.editor;
    taken.is_there = false;
    editor->install(prompt, line_is_there);
    for (int i = 0; i < line->before_count; i++) /* it forgets them with its handler */
        editor->add(line->before[i]);
    while (!taken.is_there && key_wait())
        editor->read_key();
    if (!taken.is_there) {
        editor->remove();
        fprintf(stderr, "\n");
        return LINE_INTERRUPTED;
    }
    if (!taken.text) {
        fprintf(stderr, "\n");
        return LINE_CLOSED;
    }
    free(line->text);
    line->text = taken.text;
    line->room = 0;
    line->text[strcspn(line->text, "\r\n")] = 0;
    return *line->text && !keep(line) ? LINE_NO_MEMORY : LINE_TYPED;
}

static line_end line_plain(line_editor *line, const char *prompt) {
    fprintf(stderr, "%s", prompt);
    if (!key_wait() || getline(&line->text, &line->room, stdin) < 0) {
        fprintf(stderr, "\n");
        return terminal_interrupted() ? LINE_INTERRUPTED : LINE_CLOSED;
    }
    line->text[strcspn(line->text, "\n")] = 0;
    return LINE_TYPED;
}

line_end line_take(line_editor *line, const char *prompt, bool is_edited) {
    return is_edited && editor_open(&taken.editor) ? line_edited(line, prompt) : line_plain(line, prompt);
}

void line_editor_clear(line_editor *line) {
    for (int i = 0; i < line->before_count; i++)
        free(line->before[i]);
    free(line->text);
    *line = (line_editor){0};
}
