/* headroom emit: the generated source of a kernel, to paste into a program. */
#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the folders of a path that ends with '/', or the ones before its last part. */
static int make_folders(const arguments *arguments, const char *path) {
    char *part = strdup(path);
    if (!part) return complain_memory(arguments);
    int code = 0;
    for (char *at = strchr(part + 1, '/'); at && code == 0; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            code = complain(arguments, "-o %s: cannot make the folder %s: %s", path, part, strerror(errno));
        *at = '/';
    }
    free(part);
    return code;
}

static int save(const arguments *arguments, const char *path, const char *text) {
    hr_status status = hr_file_save(path, text, strlen(text));
    if (status == HR_OK) printf("wrote %s\n", path);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* What --target may be: the device that it is planned for, and the ending of the source. */
static const struct target {
    const char *name, *device, *ending;
    bool every; /* processor of its kind */
} targets[] = {
    {"c", "cpu", ".c", false},
    {"c:x86-64", "cpu", ".c", true},
    {"cuda", "cuda:sm_90a", ".cu", false},
    {"cuda:sm_80", "cuda:sm_80", ".cu", false},
    {"cuda:sm_90a", "cuda:sm_90a", ".cu", false},
    {"cuda:sm_100a", "cuda:sm_100a", ".cu", false},
};

/* Where both files go. */
typedef struct output {
    char *source, *header; /* paths */
    const char *name;      /* of the header, without its folders */
} output;

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), more = strlen(ending);
    return length > more && strcmp(text + length - more, ending) == 0;
}

/* -o is a folder, in which files bear the name of the function, or the path of the source. */
static int output_of(const char *given, const char *name, const char *ending, output *out) {
    const bool file = ends_with(given, ending);
    int length = file ? (int)(strlen(given) - strlen(ending)) : (int)strlen(given);
    while (!file && length > 1 && given[length - 1] == '/')
        length--;
    const size_t size = strlen(given) + strlen(name) + 16;
    out->source = malloc(size);
    out->header = malloc(size);
    if (!out->source || !out->header) return EXIT_USAGE;
    snprintf(out->source, size, "%.*s%s%s%s", length, given, file ? "" : "/", file ? "" : name, ending);
    snprintf(out->header, size, "%.*s%s%s.h", length, given, file ? "" : "/", file ? "" : name);
    const char *slash = strrchr(out->header, '/');
    out->name = slash ? slash + 1 : out->header;
    return 0;
}

static int write_files(const arguments *arguments, hr_kernel *kernel, hr_emit_options *options,
                       const output *output) {
    const char *source, *header;
    options->header = output->name;
    hr_status status = hr_kernel_emit(kernel, options, &source, &header);
    if (status != HR_OK) return complain_status(arguments, status);
    int code = make_folders(arguments, output->source);
    if (code == 0) code = save(arguments, output->header, header);
    return code ? code : save(arguments, output->source, source);
}

static hr_source_form form_of(const arguments *arguments, const struct target *target) {
    if (target->every) return HR_SOURCE_EVERY_PROCESSOR;
    return arguments_has(arguments, "fixed") ? HR_SOURCE_THESE_EXTENTS : HR_SOURCE_AS_PLANNED;
}

static int emit(const arguments *arguments, hr_kernel *kernel, const struct target *target) {
    const char *source, *header, *given = arguments_value(arguments, "output", NULL);
    hr_emit_options options = {.size = sizeof options,
                               .name = arguments_value(arguments, "name", NULL),
                               .form = form_of(arguments, target)};
    const char *name = options.name ? options.name : hr_kernel_symbol(kernel);
    if (given) {
        output output = {0};
        int code = output_of(given, name, target->ending, &output);
        code = code ? complain_memory(arguments) : write_files(arguments, kernel, &options, &output);
        free(output.source);
        free(output.header);
        return code;
    }
    hr_status status = hr_kernel_emit(kernel, &options, &source, &header);
    if (status != HR_OK) return complain_status(arguments, status);
    printf("/* ---- %s.h ---- */\n%s\n/* ---- %s%s ---- */\n%s", name, header, name, target->ending, source);
    return 0;
}

static int run_emit(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    const char *name = arguments_value(arguments, "target", "c");
    const struct target *target = NULL;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) target = &targets[i];
    if (!target)
        return complain(arguments,
                        "--target is c, c:x86-64, cuda, cuda:sm_80, cuda:sm_90a or cuda:sm_100a, not \"%s\"",
                        name);
    subject subject;
    int code = subject_open_on(arguments, arguments_value(arguments, "device", target->device), &subject);
    if (code == 0 &&
        strcmp(hr_device_kind(subject.device), strcmp(target->ending, ".c") == 0 ? "cpu" : "cuda") != 0)
        code = complain(arguments, "--target %s is not for --device %s", name,
                        arguments_value(arguments, "device", ""));
    subject.plans = true;
    if (code == 0) code = subject_bind(arguments, &subject);
    if (code == 0) code = emit(arguments, subject.kernel, target);
    subject_close(&subject);
    return code;
}

static const flag flags[] = {
    {0, "target", "NAME", "c, c:x86-64, or CUDA C: cuda[:sm_80|:sm_90a|:sm_100a], sm_90a by default"},
    {'o', "output", "PATH", "a folder for kernel_NAME.c (.cu) and .h, or the .c itself; else to stdout"},
    {0, "name", "SYMBOL", "what the function is called; kernel_NAME otherwise"},
    {0, "fixed", NULL, "the fast path for these extents alone, no general one beside it"},
    {0, "device", "NAME", "whose vectors and caches it is planned for: cpu, cuda"},
    {0, NULL, NULL, NULL},
};

const command command_emit = {
    "emit",
    "emit FILE.hr[:KERNEL]|NAME|- [EXTENT=N]... [T=DTYPE]... [tensor=FILE.npy]... [FLAG]...",
    "write a kernel as C or CUDA C that needs nothing of headroom",
    "Writes the generated source of a kernel: a .c or a .cu that needs no header of headroom's,\n"
    "with a comment that says how to call it, and a .h for its callers. Neither a GPU nor CUDA\n"
    "is needed to write CUDA C. Extents are arguments of the function; those given here are what\n"
    "its plan is made for. What a dtype variable stands for is in the function's name: a file\n"
    "for each dtype; --name calls it otherwise. The function returns a negative number, and does\n"
    "nothing, for extents that its plan does not hold for: its comment says which these are.\n"
    "c:x86-64 is for any such processor:\n"
    "AVX-512, AVX2 and what all have in one file, chosen as it runs.\n"
    "-o makes the folders that are missing.\n\n"
    "  headroom emit kernels/layernorm.hr --target c -o generated\n"
    "  headroom emit kernels/layernorm.hr M=32768 N=4096 --target cuda -o generated\n"
    "  headroom emit softmax T=bf16 -o generated",
    flags,
    run_emit};
