/* headroom sweep: a kernel at several values of one extent, and where its rate has its knee. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#define POINTS_MAX    512
#define WORDS_MAX     256
#define VERIFY_POINTS 100
#define SWEEP_SECONDS 0.2

/* ---- the range ---- */

/* M=1..4096, M=1..4096:64, M=1,7,64 */
typedef struct range {
    char name[64];
    int word, count; /* of the arguments; of values */
    int64_t values[POINTS_MAX];
} range;

static int compare_values(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Rising, each once. */
static void range_settle(range *range) {
    int count = 0;
    qsort(range->values, (size_t)range->count, sizeof *range->values, compare_values);
    for (int i = 0; i < range->count; i++)
        if (!count || range->values[count - 1] != range->values[i]) range->values[count++] = range->values[i];
    range->count = count;
}

static int range_wrong(const arguments *arguments, const char *word) {
    return complain(
        arguments,
        "%s: a range is FROM..TO (powers of two and one value between each two), FROM..TO:STEP, or a list "
        "A,B,C of at most %d values",
        word, POINTS_MAX);
}

static bool range_add(range *range, int64_t value) {
    if (range->count == POINTS_MAX) return false;
    range->values[range->count++] = value;
    return true;
}

static bool read_list(const char *text, range *out) {
    char item[32];
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        int64_t value;
        if (length == 0 || length >= sizeof item) return false;
        snprintf(item, sizeof item, "%.*s", (int)length, text);
        if (!parse_extent(item, &value) || !range_add(out, value)) return false;
        text += length;
        if (!*text) return true;
    }
}

/* `step` 0: powers of two and halfway between them. Both ends are always there. */
static bool range_fill(range *out, int64_t from, int64_t to, int64_t step) {
    bool fits = from >= 1 && to >= from && range_add(out, to);
    if (!fits || from == to) return fits;
    for (int64_t value = from; step && value < to && fits; value += step < to - value ? step : to - value)
        fits = range_add(out, value);
    if (step) return fits;
    fits = range_add(out, from);
    for (int64_t power = 1; power < to && fits; power = power <= to / 2 ? 2 * power : to) {
        const int64_t middle = power + power / 2;
        if (power > from) fits = range_add(out, power);
        if (middle > power && middle > from && middle < to) fits = fits && range_add(out, middle);
    }
    return fits;
}

static bool read_span(const char *text, range *out) {
    const char *dots = strstr(text, ".."), *colon = strchr(dots, ':');
    char from[32], to[32];
    int64_t values[2], step = 0;
    snprintf(from, sizeof from, "%.*s", (int)(dots - text < 31 ? dots - text : 31), text);
    snprintf(to, sizeof to, "%.*s", colon ? (int)(colon - dots - 2 < 31 ? colon - dots - 2 : 31) : 31,
             dots + 2);
    if (!parse_extent(from, &values[0]) || !parse_extent(to, &values[1])) return false;
    if (colon && (!parse_extent(colon + 1, &step) || step < 1)) return false;
    return range_fill(out, values[0], values[1], step);
}

/* Of an extent, whose name begins with a capital; x=../x.npy is a file. */
static bool is_range(const char *word) {
    const char *equals = strchr(word, '=');
    return equals && word[0] >= 'A' && word[0] <= 'Z' && (strstr(equals, "..") || strchr(equals, ','));
}

static int range_read(const arguments *arguments, range *out) {
    *out = (range){.word = 0};
    for (int i = 1; i < arguments->word_count; i++) {
        const char *word = arguments->words[i], *equals = strchr(word, '=');
        if (!is_range(word)) continue;
        if (out->word)
            return complain(arguments, "%s and %s: one extent at a time", arguments->words[out->word], word);
        out->word = i;
        snprintf(out->name, sizeof out->name, "%.*s", (int)(equals - word < 63 ? equals - word : 63), word);
        const bool good = strstr(equals, "..") ? read_span(equals + 1, out) : read_list(equals + 1, out);
        if (!good) return range_wrong(arguments, word);
    }
    if (!out->word) return complain(arguments, "which extent? Give one a range: M=1..4096");
    range_settle(out);
    return 0;
}

/* ---- running ---- */

typedef struct sweeping {
    const arguments *arguments;
    terminal *terminal;
    const range *range;
    hr_tune tune;
    subject subject;
    int position; /* the point that is measured, from 0 */
    hr_extent_sweep sweep;
    hr_extent_point points[POINTS_MAX];
    int code;
} sweeping;

/* A bar over all points; it ends the run where the user asks to. */
static bool sweep_progress(void *context, const char *what, double done, double total) {
    const sweeping *sweeping = context;
    char words[96];
    (void)what;
    const double part = total > 0 ? done / total : 0;
    snprintf(words, sizeof words, "sweeping %s", sweeping->range->name);
    return terminal_progress(sweeping->terminal, words, sweeping->position + part, sweeping->range->count);
}

static hr_status point_run(sweeping *sweeping, hr_run_result **out) {
    const hr_run_options options = {.size = sizeof options,
                                    .tune = sweeping->tune,
                                    .no_verify = arguments_has(sweeping->arguments, "no-verify"),
                                    .no_unfused = true,
                                    .points = VERIFY_POINTS,
                                    .seconds = SWEEP_SECONDS,
                                    .restore = subject_restore,
                                    .restore_context = &sweeping->subject,
                                    .progress = sweep_progress,
                                    .progress_context = sweeping};
    const hr_status status = hr_kernel_fill(sweeping->subject.kernel, 0);
    return status == HR_OK ? hr_kernel_run(sweeping->subject.kernel, &options, out) : status;
}

static int point_open(sweeping *sweeping, const arguments *arguments) {
    const int code = sweeping->subject.device ? subject_reopen(arguments, &sweeping->subject)
                                              : subject_open(arguments, &sweeping->subject);
    return code ? code : subject_bind(arguments, &sweeping->subject);
}

/* The command line with this value in the place of the range. An exit code where no point can be measured. */
static int point_measure(sweeping *sweeping, int64_t value) {
    struct arguments arguments = *sweeping->arguments;
    const char *words[WORDS_MAX];
    char word[96];
    hr_extent_point *point = &sweeping->points[sweeping->position];
    hr_run_result *result = NULL;
    memcpy(words, arguments.words, (size_t)arguments.word_count * sizeof *words);
    snprintf(word, sizeof word, "%s=%lld", sweeping->range->name, (long long)value);
    words[sweeping->range->word] = word;
    arguments.words = words;
    const int code = point_open(sweeping, &arguments);
    if (code) return code;
    const hr_status status = point_run(sweeping, &result);
    if (terminal_interrupted()) {
        hr_run_result_destroy(result);
        return 0;
    }
    *point = (hr_extent_point){.value = value, .result = result};
    sweeping->sweep.count++;
    if (status == HR_OK && result->verify_done && !result->verified.ok)
        sweeping->code = hr_status_exit_code(HR_WRONG_RESULT);
    if (status == HR_OK) return 0;
    point->error = strdup(hr_last_error());
    if (!point->error) return complain_memory(sweeping->arguments);
    if (!sweeping->code) sweeping->code = hr_status_exit_code(status);
    return 0;
}

static int points_measure(sweeping *sweeping) {
    for (int i = 0; i < sweeping->range->count && !terminal_interrupted(); i++) {
        sweeping->position = i;
        const int code = point_measure(sweeping, sweeping->range->values[i]);
        if (code) return code;
    }
    return 0;
}

/* ---- reporting ---- */

static int page_save(const arguments *arguments, const hr_extent_sweep *sweep, const char *path) {
    char *page;
    hr_status status = hr_report_sweep_html(sweep, &page);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_file_save(path, page, strlen(page));
    free(page);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static int report(const sweeping *sweeping) {
    const arguments *arguments = sweeping->arguments;
    const char *page = arguments_value(arguments, "html", NULL);
    const bool json = arguments_has(arguments, "json");
    char *text;
    if (sweeping->sweep.count == 0) return 0; /* stopped before the first */
    const hr_status status = json ? hr_report_sweep_json(&sweeping->sweep, &text)
                                  : hr_report_sweep_text(&sweeping->sweep, &sweeping->terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    int code = terminal_print(arguments, text);
    if (code == 0 && page) code = page_save(arguments, &sweeping->sweep, page);
    if (code == 0 && page && !json) printf("  page      %s\n", page);
    return code;
}

static int run_sweep(const arguments *arguments, terminal *terminal) {
    range range;
    const char *page = arguments_value(arguments, "html", NULL);
    int code = page ? output_check(arguments, page) : 0;
    if (code == 0 && arguments->word_count > WORDS_MAX)
        code = complain(arguments, "more than %d words", WORDS_MAX);
    if (code == 0 && arguments->word_count && strncmp(arguments->words[0], "-", 1) == 0)
        code =
            complain(arguments, "a text on standard input can be read once; a sweep loads it for each point");
    if (code == 0 && arguments->word_count == 0)
        code = complain(arguments, "which kernel? headroom %s", arguments->command->synopsis);
    if (code == 0) code = range_read(arguments, &range);
    if (code) return code;
    sweeping *made = calloc(1, sizeof *made);
    if (!made) return complain_memory(arguments);
    *made = (sweeping){.arguments = arguments, .terminal = terminal, .range = &range};
    made->sweep = (hr_extent_sweep){
        .size = sizeof made->sweep, .command = arguments->line, .extent = range.name, .points = made->points};
    code = arguments_tune(arguments, &made->tune);
    if (code == 0) code = points_measure(made);
    terminal_progress_end(terminal);
    if (code == 0) code = report(made);
    if (code == 0) code = made->code;
    for (int i = 0; i < made->sweep.count; i++) {
        hr_run_result_destroy((hr_run_result *)made->points[i].result);
        free((char *)made->points[i].error);
    }
    subject_close(&made->subject);
    free(made);
    return code;
}

static const flag flags[] = {
    {'o', "html", "FILE", "write a page with the plot"},
    {0, "device", "NAME", "cpu, cuda or cuda:I; the best there is otherwise"},
    {0, "tune", "MODE", "none (the cost model, or what was found before), quick, full"},
    {0, "no-verify", NULL, "do not check results against the text's meaning"},
    {0, "json", NULL, "print one JSON object"},
    {0, NULL, NULL, NULL},
};

const command command_sweep = {
    "sweep",
    "sweep FILE.hr[:KERNEL]|NAME EXTENT=RANGE [NAME=VALUE]... [FLAG]...",
    "a kernel at several values of one extent, and where its rate has its knee",
    "Measures a kernel at each value of one extent, all else being as `headroom run`\n"
    "takes it, and draws time, rate and headroom. The knee is the smallest value whose\n"
    "rate is within 10 % of the best. A range is FROM..TO, which takes powers of two\n"
    "and one value between each two, FROM..TO:STEP, or a list A,B,C. Ctrl-C ends it\n"
    "and reports what was measured.\n\n"
    "  headroom sweep linear M=1..4096 N=4096 K=4096\n"
    "  headroom sweep softmax N=1k..64k M=4096 -o softmax.html",
    flags,
    run_sweep};
