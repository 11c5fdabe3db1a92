/* headroom ladder: a kernel in steps, from its naive form to the tool's own, each run, checked and measured.
 */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 16

/* ---- which ladder ---- */

static int ladder_unknown(const arguments *arguments, const char *name) {
    const char *names[16];
    hr_ladder_info info;
    int count = 0;
    while (count < 16 && hr_ladder_describe(count, &info) == HR_OK)
        names[count++] = info.name;
    if (!name) {
        complain_begin(arguments, "which ladder? Possible are");
    } else {
        const char *closest = closest_name(name, names, count);
        complain_begin(arguments, "there is no ladder \"%s\"", name);
        complain_closest("", closest);
        fprintf(stderr, " Possible are");
    }
    for (int i = 0; i < count; i++)
        fprintf(stderr, "%s %s", i ? "," : "", names[i]);
    fprintf(stderr, ".\n");
    return EXIT_USAGE;
}

static int ladder_find(const arguments *arguments, int *index, hr_ladder_info *out) {
    const char *name = arguments->word_count ? arguments->words[0] : NULL;
    for (*index = 0; name && hr_ladder_describe(*index, out) == HR_OK; ++*index)
        if (strcmp(out->name, name) == 0) return 0;
    return ladder_unknown(arguments, name);
}

/* ---- without a device ---- */

static int list_steps(const arguments *arguments, const terminal *terminal, int index,
                      const hr_ladder_info *ladder) {
    printf("%s: %s; %s.hr, bf16, %s\n", ladder->name, ladder->title, ladder->kernel, ladder->sizes);
    for (int number = 1; number <= ladder->step_count; number++) {
        hr_ladder_step_info step;
        char line[720];
        const hr_status status = hr_ladder_step_describe(index, number, &step);
        if (status != HR_OK) return complain_status(arguments, status);
        printf("\n  %d  %s (%s)\n", number, step.name, step.needs);
        snprintf(line, sizeof line, "     %s", step.about);
        terminal_print_lines(terminal, line);
    }
    return 0;
}

static int show_step(const arguments *arguments, int index, const char *text) {
    hr_ladder_step_info step;
    int64_t number;
    if (!parse_whole(text, &number) || number > 1000)
        return complain(arguments, "--show takes the number of a step, not \"%s\"", text);
    const hr_status status = hr_ladder_step_describe(index, (int)number, &step);
    if (status != HR_OK) return complain_status(arguments, status);
    printf("%s%s%s", step.shared, step.shared[0] ? "\n" : "", step.text);
    return 0;
}

/* ---- running ---- */

/* The words as `headroom run` would take them: the kernel, the ladder's sizes, and those given in their
 * place. A number alone is a step. */
typedef struct climb {
    const char *words[2 * WORDS_MAX];
    int count;
    char *sizes; /* what words of the defaults point into */
    int64_t only;
} climb;

static bool is_given(const arguments *arguments, const char *word) {
    const size_t length = strcspn(word, "=") + 1;
    for (int i = 1; i < arguments->word_count; i++)
        if (strncmp(arguments->words[i], word, length) == 0) return true;
    return false;
}

static int climb_read(const arguments *arguments, const hr_ladder_info *ladder, climb *out) {
    *out = (climb){.words = {ladder->kernel, "T=bf16"}, .count = 2, .sizes = strdup(ladder->sizes)};
    if (!out->sizes) return complain_memory(arguments);
    for (char *word = strtok(out->sizes, " "); word; word = strtok(NULL, " "))
        if (!is_given(arguments, word)) out->words[out->count++] = word;
    for (int i = 1; i < arguments->word_count; i++) {
        const char *word = arguments->words[i];
        if (i > WORDS_MAX) return complain(arguments, "more than %d words", WORDS_MAX);
        if (strchr(word, '='))
            out->words[out->count++] = word;
        else if (out->only || !parse_whole(word, &out->only) || out->only < 1 ||
                 out->only > ladder->step_count)
            return complain(arguments,
                            "\"%s\" is neither a size (M=4096) nor the number of one step: %s has 1 to %d",
                            word, ladder->name, ladder->step_count);
    }
    return 0;
}

static int page_save(const arguments *arguments, const hr_ladder_result *result, const char *path) {
    char *page;
    hr_status status = hr_report_ladder_html(result, &page);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_file_save(path, page, strlen(page));
    free(page);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* A wrong step is a wrong result; one that could not run where others could is none. */
static int report(const arguments *arguments, const terminal *terminal, const hr_ladder_result *result) {
    const char *page = arguments_value(arguments, "html", NULL);
    char *text;
    const hr_status status = arguments_has(arguments, "json")
                                 ? hr_report_ladder_json(result, &text)
                                 : hr_report_ladder_text(result, &terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    int code = terminal_print(arguments, text);
    if (code == 0 && page) code = page_save(arguments, result, page);
    if (code == 0 && page && !arguments_has(arguments, "json")) printf("  page      %s\n", page);
    for (int i = 0; i < result->row_count && code == 0; i++)
        if (!result->rows[i].fault && !result->rows[i].verified.ok) {
            complain(arguments, "step %d gives a wrong result: %s", result->rows[i].number,
                     result->rows[i].verified.where);
            code = hr_status_exit_code(HR_WRONG_RESULT);
        }
    return code;
}

static int climb_run(const arguments *arguments, terminal *terminal, int index, const climb *climb) {
    struct arguments inner = *arguments;
    hr_ladder_options options = {.size = sizeof options,
                                 .only = (int)climb->only,
                                 .progress = terminal_progress,
                                 .progress_context = terminal};
    hr_ladder_result *result = NULL;
    subject subject = {0};
    inner.words = (const char **)climb->words;
    inner.word_count = climb->count;
    int code = arguments_tune(arguments, &options.tune);
    if (code == 0) code = subject_open(&inner, &subject);
    if (code == 0) code = subject_bind(&inner, &subject);
    if (code == 0) {
        const hr_status status = hr_ladder_run(subject.kernel, index, &options, &result);
        terminal_progress_end(terminal);
        code = status == HR_OK ? report(arguments, terminal, result) : complain_status(arguments, status);
    }
    hr_ladder_result_destroy(result);
    subject_close(&subject);
    return code;
}

static int run_ladder(const arguments *arguments, terminal *terminal) {
    const char *page = arguments_value(arguments, "html", NULL);
    const char *shown = arguments_value(arguments, "show", NULL);
    hr_ladder_info ladder;
    climb climb = {.sizes = NULL};
    int index, code = ladder_find(arguments, &index, &ladder);
    if (code) return code;
    if (arguments_has(arguments, "list")) return list_steps(arguments, terminal, index, &ladder);
    if (shown) return show_step(arguments, index, shown);
    if (page) code = output_check(arguments, page);
    if (code == 0) code = climb_read(arguments, &ladder, &climb);
    if (code == 0) code = climb_run(arguments, terminal, index, &climb);
    free(climb.sizes);
    return code;
}

static const flag flags[] = {
    {0, "list", NULL, "say what each step changes and why; needs no GPU"},
    {0, "show", "N", "print the CUDA of step N; needs no GPU"},
    {'o', "html", "FILE", "write a page: a bar a step, and its source"},
    {0, "tune", "MODE", "of the last step, the tool's own: none, quick, full"},
    {0, "device", "NAME", "cuda or cuda:I"},
    {0, "json", NULL, "print one JSON object"},
    {0, NULL, NULL, NULL},
};

const command command_ladder = {
    "ladder",
    "ladder gemm|softmax|attention [N] [EXTENT=SIZE]... [FLAG]...",
    "the levers one by one: a kernel in steps, each checked and measured",
    "Goes from the naive form of a kernel to the one that this tool prints, a lever a\n"
    "step. Each step is a short file of CUDA that says what it changes and why the\n"
    "hardware likes it. It is run on a GPU, checked in f64 against the text that the\n"
    "kernel has in the library, and measured with cold caches: its time, the gain\n"
    "over the step before (measured alternately), its headroom. N is the number of\n"
    "one step.\n\n"
    "  headroom ladder gemm -o gemm.html\n"
    "  headroom ladder gemm 9 M=8192 N=8192 K=8192\n"
    "  headroom ladder softmax --list",
    flags,
    run_ladder};
