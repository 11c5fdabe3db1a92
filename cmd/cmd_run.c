/* headroom run: the main job. Compiles a kernel, tunes it, checks it against the text's meaning, measures it
 * and says how far from the limit it is. */
#include "command.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUTS_MAX 64

/* -o NAME[:u2]=FILE */
typedef struct output {
    char *name;
    const char *path;
    bool as_unsigned;
} output;

typedef struct outputs {
    const arguments *arguments;
    const subject *subject;
    int count;
    output list[OUTPUTS_MAX];
} outputs;

static void outputs_free(outputs *outputs) {
    for (int i = 0; i < outputs->count; i++)
        free(outputs->list[i].name);
}

static int output_unknown(const arguments *arguments, const subject *subject, const hr_argument *argument) {
    fprintf(stderr, "headroom run: -o %s=...: %s is an input. What can be saved:", argument->name,
            argument->name);
    for (int i = 0; i < hr_kernel_argument_count(subject->kernel); i++) {
        hr_argument other;
        if (hr_kernel_argument(subject->kernel, i, &other) == HR_OK && other.role != HR_ARGUMENT_INPUT)
            fprintf(stderr, " %s", other.name);
    }
    fprintf(stderr, "\n");
    (void)arguments;
    return EXIT_USAGE;
}

/* What carries a dtype that NumPy has not: -o y:u2=FILE. */
static int output_carry(const arguments *arguments, const hr_argument *argument, const char *carried,
                        bool *as_unsigned) {
    bool two = argument->dtype == HR_BF16, one = argument->dtype == HR_F8E4M3 || argument->dtype == HR_F8E5M2;
    *as_unsigned = carried[0] == 'u';
    if ((two && (!strcmp(carried, "u2") || !strcmp(carried, "V2"))) ||
        (one && (!strcmp(carried, "u1") || !strcmp(carried, "V1"))))
        return 0;
    if (!two && !one)
        return complain(arguments, "-o %s:%s=...: %s is %s, which NumPy has; leave :%s away", argument->name,
                        carried, argument->name, hr_dtype_name(argument->dtype), carried);
    return complain(arguments, "-o %s:%s=...: %s can be written as %s", argument->name, carried,
                    hr_dtype_name(argument->dtype), two ? "V2 or u2" : "V1 or u1");
}

/* The file that a word names: FILE.hr[:KERNEL] for the first, tensor=FILE.npy for the others. */
static const char *word_file(const arguments *arguments, int word, char path[PATH_MAX]) {
    const char *text = arguments->words[word], *equals = strchr(text, '=');
    if (word) return equals ? equals + 1 : NULL;
    snprintf(path, PATH_MAX, "%s", text);
    char *colon = strrchr(path, ':');
    if (colon && access(path, F_OK) != 0) *colon = 0;
    return path;
}

static int output_check_file(const outputs *outputs, const char *path, int before) {
    const arguments *arguments = outputs->arguments;
    char text[PATH_MAX];
    int code = output_check(arguments, path);
    for (int i = 0; i < arguments->word_count && code == 0; i++)
        code = output_check_apart(arguments, path, word_file(arguments, i, text), NULL);
    for (int i = 0; i < before && code == 0; i++)
        code = output_check_apart(arguments, path, NULL, outputs->list[i].path);
    return code;
}

/* No output takes the place of an input or of another output. */
static int output_check_files(const outputs *outputs, const char *page) {
    int code = 0;
    for (int i = 0; i < outputs->count && code == 0; i++)
        code = output_check_file(outputs, outputs->list[i].path, i);
    return code == 0 && page ? output_check_file(outputs, page, outputs->count) : code;
}

static int output_add(outputs *outputs, const subject *subject, const char *text) {
    const arguments *arguments = outputs->arguments;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return complain(arguments, "-o %s: say which result goes where: -o TENSOR=FILE.npy", text);
    if (outputs->count == OUTPUTS_MAX) return complain(arguments, "more than %d outputs", OUTPUTS_MAX);
    char *name = strndup(text, (size_t)(equals - text));
    if (!name) return complain_memory(arguments);
    output *output = &outputs->list[outputs->count++];
    output->name = name;
    output->path = equals + 1;
    char *carried = strchr(name, ':');
    if (carried) *carried++ = 0;
    hr_argument argument;
    int code = subject_argument(arguments, subject, name, &argument);
    if (code == 0 && argument.role == HR_ARGUMENT_INPUT) code = output_unknown(arguments, subject, &argument);
    if (code == 0 && carried) code = output_carry(arguments, &argument, carried, &output->as_unsigned);
    return code;
}

static hr_status outputs_save(void *context, hr_kernel *kernel) {
    const outputs *outputs = context;
    for (int i = 0; i < outputs->count; i++) {
        hr_array array = {.size = sizeof array}, host;
        void *copy = NULL;
        hr_status status = hr_kernel_array(kernel, outputs->list[i].name, &array);
        if (status == HR_OK) status = subject_download(outputs->subject, &array, &host, &copy);
        if (status == HR_OK) status = hr_npy_save(outputs->list[i].path, &host, outputs->list[i].as_unsigned);
        free(copy);
        if (status != HR_OK) return status;
    }
    return HR_OK;
}

/* ---- reporting ---- */

static int report_page(const arguments *arguments, const hr_run_result *result, const char *path) {
    char *page;
    hr_status status = hr_report_run_html(result, &page);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_file_save(path, page, strlen(page));
    free(page);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static int report(const arguments *arguments, const terminal *terminal, const hr_run_result *result,
                  const outputs *outputs) {
    const char *page = arguments_value(arguments, "html", NULL);
    bool json = arguments_has(arguments, "json");
    char *text;
    int code = page ? report_page(arguments, result, page) : 0;
    hr_status status =
        json ? hr_report_run_json(result, &text) : hr_report_run_text(result, &terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    int printed = terminal_print(arguments, text);
    for (int i = 0; i < outputs->count && !json; i++)
        printf("  saved     %s in %s\n", outputs->list[i].name, outputs->list[i].path);
    if (page && code == 0 && !json) printf("  page      %s\n", page);
    if (code == 0) code = printed;
    bool wrong = result->verify_done && !result->verified.ok;
    if (wrong)
        complain(arguments, "kernel %s gives a wrong result: %s", result->kernel,
                 result->verified.where[0] ? result->verified.where : "see the check above");
    if (wrong && result->tune.left[0])
        complain(arguments,
                 "it is of the tunables \"%s\", which are no longer kept for it: run it again, and tell us",
                 result->tune.left);
    return code ? code : hr_status_exit_code(wrong ? HR_WRONG_RESULT : HR_OK);
}

/* What the flags say of how it is run. */
typedef struct run_flags {
    hr_tune tune;
    hr_values values;
    int64_t seed, threads, repeat;
} run_flags;

static int run_flags_read(const arguments *arguments, run_flags *out) {
    int code = arguments_tune(arguments, &out->tune);
    if (code == 0) code = arguments_values(arguments, &out->values);
    if (code == 0) code = arguments_whole(arguments, "seed", 0, 0, &out->seed);
    if (code == 0) code = arguments_whole(arguments, "threads", 1, 0, &out->threads);
    if (code == 0) code = arguments_whole(arguments, "repeat", 1, 0, &out->repeat);
    if (code == 0 && out->repeat > HR_REPEAT_MOST)
        code = complain(arguments, "--repeat is at most %d", HR_REPEAT_MOST);
    if (code == 0 && out->threads > INT32_MAX)
        code = complain(arguments, "--threads: no machine has so many");
    return code;
}

static int run_bound(const arguments *arguments, terminal *terminal, subject *subject, outputs *outputs,
                     const run_flags *flags) {
    hr_run_options options = {.size = sizeof options,
                              .tune = flags->tune,
                              .threads = (int)flags->threads,
                              .repeat = (int)flags->repeat,
                              .no_verify = arguments_has(arguments, "no-verify"),
                              .progress = terminal_progress,
                              .progress_context = terminal,
                              .restore = subject_restore,
                              .restore_context = subject};
    if (outputs->count) {
        options.saved = outputs_save;
        options.saved_context = outputs;
    }
    hr_run_result *result;
    hr_status status = hr_kernel_fill_as(subject->kernel, (uint64_t)flags->seed, flags->values);
    if (status == HR_OK) status = hr_kernel_run(subject->kernel, &options, &result);
    terminal_progress_end(terminal);
    if (status != HR_OK) return complain_status(arguments, status);
    int code = report(arguments, terminal, result, outputs);
    hr_run_result_destroy(result);
    return code;
}

static int run_run(const arguments *arguments, terminal *terminal) {
    subject subject = {0};
    outputs outputs = {.arguments = arguments, .subject = &subject};
    run_flags flags;
    int code = run_flags_read(arguments, &flags);
    if (code == 0) code = subject_open(arguments, &subject);
    if (code == 0 && flags.threads && !hr_device_memory_is_host(subject.device))
        code = complain(arguments, "--threads is for a CPU: say --device cpu, or leave it away");
    if (code == 0) code = subject_bind(arguments, &subject);
    for (int i = 0; i < arguments->flag_count && code == 0; i++)
        if (strcmp(arguments->flags[i].flag->name, "output") == 0)
            code = output_add(&outputs, &subject, arguments->flags[i].value);
    const char *page = arguments_value(arguments, "html", NULL);
    if (code == 0) code = output_check_files(&outputs, page);
    if (code == 0) code = run_bound(arguments, terminal, &subject, &outputs, &flags);
    subject_close(&subject);
    outputs_free(&outputs);
    return code;
}

static const flag flags[] = {
    {'o', "output", "TENSOR=FILE", "save a result or inout as .npy; may be repeated"},
    {0, "device", "NAME", "cpu, cuda or cuda:I; the best there is otherwise"},
    {0, "tune", "MODE", "none (the cost model, or what was found before), quick, full"},
    {0, "seed", "N", "of the tensors that are filled; 0 otherwise"},
    {0, "values", "KIND", "of floats that are filled: mean-0 (normal), mean-1, positive (one sign)"},
    {0, "threads", "N", "of the CPU that it runs on; all otherwise (the floor is that of all)"},
    {0, "repeat", "N", "measure it N times; as often as a second allows otherwise"},
    {0, "no-verify", NULL, "do not check the result against the text's meaning"},
    {0, "json", NULL, "print one JSON object"},
    {0, "html", "FILE", "write a page with the roofline plot, the variants and the source"},
    {0, NULL, NULL, NULL},
};

const command command_run = {
    "run",
    "run FILE.hr[:KERNEL]|NAME|- [EXTENT=N]... [T=DTYPE]... [scalar=X]... [tensor=FILE.npy]... [FLAG]...",
    "tune, check and measure a kernel; say how far from the limit it is",
    "Compiles a kernel for the device, tunes it where asked, checks it against the\n"
    "meaning of its text in f64, measures it, and compares the time with the floor:\n"
    "the least that this machine needs for this work.\n\n"
    "NAME is a kernel of the library, unless a file here bears it; - is a text on\n"
    "standard input. A file that holds several kernels means the one that bears its\n"
    "name, unless :KERNEL says which. Extents come from the arrays given, else from\n"
    "EXTENT=N (4096, 4k, 2^12; k, m and g are powers of 1024), else from defaults. A\n"
    "scalar is a number or a .npy without axes, as -o writes of a total. Tensors not\n"
    "given are filled: normal for floats, in range for subscripts. Random numbers of\n"
    "mean 0 hide that a sum loses what all its addends have in common; --values\n"
    "mean-1 and --values positive show it.\n\n"
    "A dtype variable (T of x: T[M, N]) stands for what T=DTYPE says, else for the dtype\n"
    "of the arrays given, else for bf16 on CUDA and f32 on a CPU.\n\n"
    "A .npy file that holds bf16 as V2 or u2, or f8 as V1 or u1, means what the\n"
    "kernel declares; x:bf16=FILE.npy says so openly. V2 binds a variable to bf16; u2\n"
    "and V1 do not say what they hold. Results are written as V2 and\n"
    "V1, or with -o y:u2=FILE.npy (y:u1) as unsigned numbers.\n\n"
    "  headroom run layernorm M=32k N=4096 --tune quick\n"
    "  headroom run kernels/softmax.hr T=bf16 x=in.npy -o y=out.npy",
    flags,
    run_run};
