/* What the subcommands share: their table's row, parsed arguments, the terminal, the words FILE.hr[:KERNEL]
 * and NAME=VALUE.
 *
 * A subcommand is one file with one `const command`; main.c holds the table. Only the public API is used.
 * Results go to stdout, sentences and progress to stderr. Exit codes: 0 good, 1 wrong result, 2 bad usage or
 * input, 3 the device or a tool is not there.
 */
#ifndef HEADROOM_COMMAND_H
#define HEADROOM_COMMAND_H

#include "headroom.h"

#define EXIT_USAGE 2

/* ---- the table of subcommands ---- */

typedef struct flag {
    char letter;              /* 0 = none */
    const char *name, *value; /* "device", "NAME"; value NULL: a switch */
    const char *help;
} flag;

struct arguments;
struct terminal;

typedef struct command {
    const char *name, *synopsis, *summary;
    const char *details; /* paragraphs and examples, lines of at most 80 columns */
    const flag *flags;   /* the last has no name */
    int (*run)(const struct arguments *arguments, struct terminal *terminal);
} command;

extern const command command_run, command_explain, command_emit, command_grad, command_roof, command_bench,
    command_generate, command_record, command_diagnose, command_ladder, command_sweep, command_help;

/* The subcommands in the order of the help, NULL at the end. */
const command *const *command_list(void);
const command *command_find(const char *name);
void command_print_help(FILE *out, const command *command);
void command_print_overview(FILE *out);

/* ---- arguments ---- */

typedef struct given_flag {
    const flag *flag;
    const char *value; /* NULL for a switch */
} given_flag;

typedef struct arguments {
    const command *command;
    int flag_count, word_count;
    given_flag *flags; /* in the order given */
    const char **words;
    char *line; /* the whole command line, for reports */
} arguments;

/* Exit code, 0 when good. --help alone is left as the one flag "help". */
int arguments_parse(const command *command, int count, char **values, arguments *out);
void arguments_free(arguments *arguments);
bool arguments_has(const arguments *arguments, const char *name);
/* The last value given, or `otherwise`. */
const char *arguments_value(const arguments *arguments, const char *name, const char *otherwise);
/* A whole number >= `least`, `otherwise` where it is not given. */
int arguments_whole(const arguments *arguments, const char *name, int64_t least, int64_t otherwise,
                    int64_t *out);
int arguments_tune(const arguments *arguments, hr_tune *out);
int arguments_values(const arguments *arguments, hr_values *out);
bool parse_whole(const char *text, int64_t *out);
/* The same with powers of two: "4k" is 4096, "1m" 2^20, "2g" 2^31, and "2^20" says it itself. */
bool parse_extent(const char *text, int64_t *out);

/* Prints `headroom COMMAND: sentence` and returns EXIT_USAGE. */
int complain(const arguments *arguments, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same without an end of line: more of the sentence follows. */
int complain_begin(const arguments *arguments, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the library's sentence and returns the status' exit code. Silent where the user stopped the work. */
int complain_status(const arguments *arguments, hr_status status);
int complain_memory(const arguments *arguments); /* says so; the exit code */
/* Ends a sentence on a name that is not known: "; did you mean --seed?", or a full stop without `closest`. */
void complain_closest(const char *marks, const char *closest);
/* The name of `names` that `text` was probably meant to be, or NULL. */
const char *closest_name(const char *text, const char *const *names, int count);

/* Whether a file of this name can be written: found before the work rather than after it. 0, or an exit code.
 */
int output_check(const arguments *arguments, const char *path);
/* Refuses an output that is the same file as one that is read, or as another that is written, whatever the
 * spelling; NULL: there is none. */
int output_check_apart(const arguments *arguments, const char *path, const char *read, const char *written);

/* ---- a line that is typed: line_edit.c ---- */

enum { LINES_BEFORE = 256 };

/* Zeros before the first line. */
typedef struct line_editor {
    char *text; /* terminated */
    size_t room;
    char *before[LINES_BEFORE]; /* lines that were typed before */
    int before_count;
} line_editor;

typedef enum line_end { LINE_TYPED, LINE_CLOSED, LINE_INTERRUPTED, LINE_NO_MEMORY } line_end;

/* A line in line->text, typed on the terminal of standard input and shown on that of standard error.
 * is_edited: with arrow keys, where libedit is; LINE_INTERRUPTED where a signal came first. */
line_end line_take(line_editor *line, const char *prompt, bool is_edited);
void line_editor_clear(line_editor *line);

/* ---- the terminal ---- */

typedef struct terminal {
    hr_report_style style;
    bool progress_allowed, progress_shown;
    char progress_what[64];
    double progress_began, progress_drawn;
} terminal;

void terminal_open(terminal *terminal);
/* An hr_progress_fn over a terminal: a bar with the time left, once the work looks longer than two seconds.
 */
bool terminal_progress(void *terminal, const char *what, double done, double total);
void terminal_progress_end(terminal *terminal);
/* The signal that asked to stop, 0 while none did. */
int terminal_interrupted(void);
/* What was interrupted is over; the next interrupt asks again. */
void terminal_resume(void);
/* Ends as the signal would have, now that everything is clean. */
void terminal_die(int signal);
/* 0, or the exit code of a standard output that cannot be written to; a closed pipe is none. */
int terminal_flush(const arguments *arguments);
/* Prints text that knows nothing of the terminal: its lines are broken between words where they are too long.
 */
void terminal_print_lines(const terminal *terminal, const char *text);
/* Prints and frees a report. */
int terminal_print(const arguments *arguments, char *text);

/* ---- the library's kernels ---- */

/* The file NAME.hr of the library, else the file that holds a kernel of this name (`*kernel`, where the
 * caller has none, is then the name). `*path` is for free(). 0, or an exit code. */
int library_find(const arguments *arguments, const char *name, char **path, const char **kernel);

/* ---- the text of a kernel ---- */

typedef struct kernel_text {
    const char *path, *kernel; /* kernel NULL: the only one of the text, or the one that bears its name */
    char *text;
    size_t length;
    char *word, *found; /* what the names above point into */
} kernel_text;

/* What the first word means: FILE.hr[:KERNEL], the name of one of the library's, or -[:KERNEL]. 0, or an exit
 * code; to be closed in both cases. */
int kernel_text_open(const arguments *arguments, kernel_text *out);
void kernel_text_close(kernel_text *text);

/* ---- a kernel on a device, with what the words of a command line bind to it ---- */

#define BOUND_MAX 256

typedef struct subject {
    hr_device *device;
    hr_kernel *kernel;
    bool plans; /* nothing will run: arrays are bound for their shapes alone */
    int npy_count, name_count;
    hr_npy *npys[BOUND_MAX];
    void
        *uploads[BOUND_MAX]; /* one a file: its copy in the device's memory; NULL where it is used in place */
    char *names[BOUND_MAX];  /* bound so far */
} subject;

/* Opens the device of --device and loads the kernel of the first word: FILE.hr[:KERNEL], the name of one of
 * the library's, or -[:KERNEL], a text on standard input. */
int subject_open(const arguments *arguments, subject *out);
/* The same on a device that hr_device_open knows by this name. */
int subject_open_on(const arguments *arguments, const char *device, subject *out);
/* Binds the words after the first: EXTENT=N, T=DTYPE, scalar=X, tensor[:DTYPE]=FILE.npy, in whatever order.
 */
int subject_bind(const arguments *arguments, subject *subject);
/* Loads the kernel anew, with nothing bound, on the device that is open. */
int subject_reopen(const arguments *arguments, subject *subject);
void subject_close(subject *subject);
/* hr_run_options.restore over a subject: brings back an inout array that came from a file. */
hr_status subject_restore(void *subject, const char *name, const hr_array *array);
/* The same array in the host's memory, `copy` for free() (NULL where none is needed). */
hr_status subject_download(const subject *subject, const hr_array *array, hr_array *out, void **copy);
/* HR_DTYPE_COUNT where there is no dtype of this name. */
hr_dtype dtype_named(const char *text);
/* The argument of this name; with a sentence that lists what there is, otherwise. */
int subject_argument(const arguments *arguments, const subject *subject, const char *name, hr_argument *out);

#endif
