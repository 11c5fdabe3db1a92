/* headroom emit: the generated source of a kernel, to paste into a program. */
#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The files bear the name of the function in them. */
static int save(const arguments *arguments, const char *folder, const char *name, const char *ending,
                const char *text) {
    size_t size = strlen(folder) + strlen(name) + strlen(ending) + 16;
    char *path = malloc(size);
    if (!path) return complain(arguments, "out of memory");
    snprintf(path, size, "%s/%s%s", folder, name, ending);
    hr_status status = hr_file_save(path, text, strlen(text));
    if (status == HR_OK) printf("wrote %s\n", path);
    free(path);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* What --target may be: the device that it is planned for, and the ending of the source. */
static const struct target {
    const char *name, *device, *ending;
} targets[] = {
    {"c", "cpu", ".c"},
    {"cuda", "cuda:sm_90a", ".cu"},
    {"cuda:sm_80", "cuda:sm_80", ".cu"},
    {"cuda:sm_90a", "cuda:sm_90a", ".cu"},
    {"cuda:sm_100a", "cuda:sm_100a", ".cu"},
};

static int emit(const arguments *arguments, hr_kernel *kernel, const char *ending) {
    const char *source, *header, *folder = arguments_value(arguments, "output", NULL);
    const char *name = hr_kernel_symbol(kernel);
    hr_status status = hr_kernel_source(kernel, &source, &header);
    if (status != HR_OK) return complain_status(arguments, status);
    if (!folder) {
        printf("/* ---- %s.h ---- */\n%s\n/* ---- %s%s ---- */\n%s", name, header, name, ending, source);
        return 0;
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return complain(arguments, "-o %s: cannot make this folder: %s", folder, strerror(errno));
    int code = save(arguments, folder, name, ".h", header);
    return code ? code : save(arguments, folder, name, ending, source);
}

static int run_emit(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    const char *name = arguments_value(arguments, "target", "c");
    const struct target *target = NULL;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) target = &targets[i];
    if (!target)
        return complain(arguments, "--target is c, cuda, cuda:sm_80, cuda:sm_90a or cuda:sm_100a, not \"%s\"",
                        name);
    subject subject;
    int code = subject_open_on(arguments, arguments_value(arguments, "device", target->device), &subject);
    if (code == 0 && strcmp(hr_device_kind(subject.device), target == targets ? "cpu" : "cuda") != 0)
        code = complain(arguments, "--target %s is not for --device %s", name,
                        arguments_value(arguments, "device", ""));
    subject.plans = true;
    if (code == 0) code = subject_bind(arguments, &subject);
    if (code == 0) code = emit(arguments, subject.kernel, target->ending);
    subject_close(&subject);
    return code;
}

static const flag flags[] = {
    {0, "target", "NAME", "c, or cuda[:sm_80|:sm_90a|:sm_100a], CUDA C; cuda is sm_90a"},
    {'o', "output", "FOLDER", "write FOLDER/kernel_NAME.c (.cu) and .h; to stdout otherwise"},
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
    "for each dtype.\n\n"
    "  headroom emit kernels/layernorm.hr --target c -o generated\n"
    "  headroom emit kernels/layernorm.hr M=32768 N=4096 --target cuda -o generated\n"
    "  headroom emit softmax T=bf16 -o generated",
    flags,
    run_emit};
