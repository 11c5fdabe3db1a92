/* headroom diagnose FILE...: what limits a program, what to do, and what it would gain. In: traces. Out: a
 * verdict, or one JSON object; a page, a trace for Perfetto. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

/* Files beside what is printed: `make` makes their text. */
static int save(const arguments *arguments, const hr_diagnosis *diagnosis, const char *flag,
                hr_status (*make)(const hr_diagnosis *diagnosis, char **out)) {
    const char *path = arguments_value(arguments, flag, NULL);
    char *text;
    if (!path) return 0;
    hr_status status = make(diagnosis, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_file_save(path, text, strlen(text));
    free(text);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static int report(const arguments *arguments, terminal *terminal, const hr_diagnosis *diagnosis) {
    char *text;
    hr_status status = arguments_has(arguments, "json")
                           ? hr_report_diagnosis_json(diagnosis, &text)
                           : hr_report_diagnosis_text(diagnosis, &terminal->style, &text);
    return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
}

/* --roof FILE|DEVICE: what `headroom roof --json` printed, or a device of this machine. */
static int find_roof(const arguments *arguments, terminal *terminal, hr_roof *roof, char *name, size_t size) {
    const char *value = arguments_value(arguments, "roof", NULL);
    hr_device *device;
    if (strncmp(value, "cuda", 4) != 0 && strcmp(value, "cpu") != 0) {
        hr_status status = hr_roof_load(value, roof, name, size);
        return status == HR_OK ? 0 : complain_status(arguments, status);
    }
    hr_status status = hr_device_open(value, &device);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_device_roof(device, false, terminal_progress, terminal, roof);
    if (status == HR_OK) snprintf(name, size, "%s", hr_device_name(device));
    hr_device_destroy(device);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* The page and the trace for Perfetto take the place of no trace, of no roof, and not of each other. */
static int outputs_check(const arguments *arguments) {
    static const char *const names[] = {"html", "perfetto"};
    const char *roof = arguments_value(arguments, "roof", NULL), *before = NULL;
    int code = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && code == 0; i++) {
        const char *path = arguments_value(arguments, names[i], NULL);
        if (!path) continue;
        code = output_check(arguments, path);
        if (code == 0) code = output_check_apart(arguments, path, roof, before);
        for (int k = 0; k < arguments->word_count && code == 0; k++)
            code = output_check_apart(arguments, path, arguments->words[k], NULL);
        before = path;
    }
    return code;
}

static int run_diagnose(const arguments *arguments, terminal *terminal) {
    hr_diagnose_options options = {
        .size = sizeof options, .progress = terminal_progress, .progress_context = terminal};
    hr_diagnosis *diagnosis;
    hr_roof roof;
    char roof_device[128];
    if (arguments->word_count == 0)
        return complain(
            arguments, "which trace? Give a file of `headroom record`, a trace of PyTorch's profiler (.json, "
                       ".json.gz) or JAX's (.trace.json.gz, .xplane.pb), an Nsight Systems export (.sqlite) "
                       "or an Nsight Compute table (.csv)");
    if (arguments_has(arguments, "ranks") && arguments_has(arguments, "compare"))
        return complain(arguments,
                        "--ranks and --compare exclude each other; the files are either ranks of one run, or "
                        "before and after");
    int unwritable = outputs_check(arguments);
    if (unwritable) return unwritable;
    if (arguments_has(arguments, "ranks")) options.mode = HR_DIAGNOSE_RANKS;
    if (arguments_has(arguments, "compare")) options.mode = HR_DIAGNOSE_COMPARE;
    if (arguments_has(arguments, "roof")) {
        int code = find_roof(arguments, terminal, &roof, roof_device, sizeof roof_device);
        if (code) return code;
        options.roof = &roof;
        options.roof_device = roof_device;
    }
    hr_status status = hr_diagnose(arguments->words, arguments->word_count, &options, &diagnosis);
    terminal_progress_end(terminal);
    if (status != HR_OK) return complain_status(arguments, status);
    int saved = save(arguments, diagnosis, "html", hr_report_diagnosis_html);
    if (saved == 0) saved = save(arguments, diagnosis, "perfetto", hr_report_diagnosis_perfetto);
    int code = report(arguments, terminal, diagnosis);
    if (saved != 0) code = saved;
    hr_diagnosis_destroy(diagnosis);
    return code;
}

static const flag flags[] = {
    {0, "ranks", NULL, "the files are ranks of one run"},
    {0, "compare", NULL, "the two files are one program before and after"},
    {0, "roof", "WHERE", "roofs: a file of `headroom roof --json`, or cuda, cuda:I of here"},
    {0, "json", NULL, "print one JSON object"},
    {0, "html", "FILE", "write a page with the timeline of a step and the findings"},
    {0, "perfetto", "FILE", "write the trace with the findings, for ui.perfetto.dev"},
    {0, NULL, NULL, NULL},
};

const command command_diagnose = {
    "diagnose",
    "diagnose FILE... [FLAG]...",
    "say what limits a program, what to do, and what it would gain",
    "Reads what a profiler recorded and says what limits the program, the remedy that\n"
    "gains most, and how much of a step it would gain; then where a step goes, and all\n"
    "findings with their evidence. FILE is what `headroom record` wrote, a trace of\n"
    "PyTorch's profiler (.json, .json.gz) or JAX's (.trace.json.gz, .xplane.pb), an\n"
    "Nsight Systems export (.sqlite) or an Nsight Compute table (.csv). Several files\n"
    "are the ranks of one run; two that do not say so are one program before and after\n"
    "a change. No GPU is needed.",
    flags,
    run_diagnose};
