/* The terminal: its style, a progress bar, signals. In: the environment and progress. Out: stderr, and a
 * screen that is clean whatever happens. */
#include "command.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* The one thing that a signal's handler may write to. */
static volatile sig_atomic_t interrupted;

static void on_signal(int signal) {
    interrupted = signal;
}

int terminal_interrupted(void) {
    return interrupted;
}

void terminal_die(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool locale_is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8") ||
                   strstr(value, "utf-8");
    }
    return false;
}

/* The first signal asks the work to stop, the next one does not ask. */
static void handlers_set(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void terminal_resume(void) {
    interrupted = 0;
    handlers_set();
}

void terminal_open(terminal *terminal) {
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool dumb = !kind || !kind[0] || strcmp(kind, "dumb") == 0;
    struct winsize size = {0};
    *terminal = (struct terminal){.style = {.size = sizeof terminal->style}};
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        terminal->style.width = size.ws_col;
    terminal->style.colour = isatty(STDOUT_FILENO) && !dumb && !(no_color && no_color[0]);
    terminal->style.unicode = locale_is_utf8();
    terminal->progress_allowed = isatty(STDERR_FILENO) && !dumb;

    handlers_set();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe and a full disk are errors of the write */
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- progress ---- */

#define PROGRESS_WORTH    2.0  /* seconds of work from which a bar is shown */
#define PROGRESS_GUESS    0.3  /* seconds after which the rest can be guessed */
#define PROGRESS_INTERVAL 0.05 /* seconds between two pictures */
#define PROGRESS_WIDTH    24

static void progress_draw(const terminal *terminal, double part, double left) {
    char bar[PROGRESS_WIDTH * 3 + 1] = "";
    const char *full = terminal->style.unicode ? "━" : "=", *empty = terminal->style.unicode ? "─" : "-";
    for (int i = 0; i < PROGRESS_WIDTH; i++)
        strcat(bar, part >= 0 && i < part * PROGRESS_WIDTH ? full : empty);
    fprintf(stderr, "\r\033[K  %.40s  %s", terminal->progress_what, bar);
    if (part >= 0 && left >= 60)
        fprintf(stderr, "  %.0f min %02.0f s left", floor(left / 60), fmod(left, 60));
    else if (part >= 0)
        fprintf(stderr, "  %.0f s left", ceil(left));
    fflush(stderr);
}

bool terminal_progress(void *context, const char *what, double done, double total) {
    terminal *terminal = context;
    if (interrupted) return false;
    if (!terminal->progress_allowed) return true;
    double now = now_seconds();
    if (strncmp(terminal->progress_what, what, sizeof terminal->progress_what - 1) != 0) {
        snprintf(terminal->progress_what, sizeof terminal->progress_what, "%s", what);
        terminal->progress_began = now;
    }
    double elapsed = now - terminal->progress_began, part = total > 0 ? fmin(fmax(done / total, 0), 1) : -1;
    double whole = part > 0 ? elapsed / part : 0;
    bool worth = elapsed > PROGRESS_WORTH || (elapsed > PROGRESS_GUESS && whole > PROGRESS_WORTH);
    if ((worth || terminal->progress_shown) && now - terminal->progress_drawn > PROGRESS_INTERVAL) {
        progress_draw(terminal, part, part > 0 ? whole - elapsed : 0);
        terminal->progress_drawn = now;
        terminal->progress_shown = true;
    }
    return true;
}

void terminal_progress_end(terminal *terminal) {
    if (terminal->progress_shown) fprintf(stderr, "\r\033[K");
    fflush(stderr);
    terminal->progress_shown = false;
    terminal->progress_what[0] = 0;
}

int terminal_flush(const arguments *arguments) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    errno = 0;
    bool failed = fflush(stdout) == EOF || ferror(stdout);
    int error = errno;
    if (failed && poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) return 0; /* the reader has read enough */
    if (failed) /* of a write before this one the reason is not known any more */
        return complain(arguments, "cannot write to standard output%s%s", error ? ": " : "",
                        error ? strerror(error) : "");
    return 0;
}

/* Where a line is broken that the terminal has no room for: its last space there, past its own indentation; 0
 * = nowhere. */
static size_t wrap_at(const char *line, size_t length, size_t width, size_t indent) {
    size_t at = length <= width ? 0 : width;
    while (at > indent && line[at] != ' ')
        at--;
    return at > indent ? at : 0;
}

void terminal_print_lines(const terminal *terminal, const char *text) {
    size_t width = terminal->style.width > 0 ? (size_t)terminal->style.width : SIZE_MAX;
    while (*text) {
        size_t length = strcspn(text, "\n"), indent = strspn(text, " "), at, room = width, shown = indent;
        while ((at = wrap_at(text, length, room, shown))) {
            printf("%.*s\n%*s", (int)at, text, (int)indent + 2, "");
            text += at + 1;
            length -= at + 1;
            room = width > indent + 2 ? width - indent - 2 : 1;
            shown = 0;
        }
        printf("%.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

int terminal_print(const arguments *arguments, char *text) {
    fputs(text, stdout);
    free(text);
    return terminal_flush(arguments);
}
