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
    snprintf(path, size, "%s/kernel_%s%s", folder, name, ending);
    hr_status status = hr_file_save(path, text, strlen(text));
    if (status == HR_OK) printf("wrote %s\n", path);
    free(path);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static int emit(const arguments *arguments, hr_kernel *kernel) {
    const char *source, *header, *folder = arguments_value(arguments, "output", NULL);
    const char *name = hr_kernel_name(kernel);
    hr_status status = hr_kernel_source(kernel, &source, &header);
    if (status != HR_OK) return complain_status(arguments, status);
    if (!folder) {
        printf("/* ---- kernel_%s.h ---- */\n%s\n/* ---- kernel_%s.c ---- */\n%s", name, header, name,
               source);
        return 0;
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return complain(arguments, "-o %s: cannot make this folder: %s", folder, strerror(errno));
    int code = save(arguments, folder, name, ".h", header);
    return code ? code : save(arguments, folder, name, ".c", source);
}

static int run_emit(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    const char *target = arguments_value(arguments, "target", "c");
    if (strcmp(target, "c") != 0) return complain(arguments, "--target is c, not \"%s\"", target);
    subject subject;
    int code = subject_open(arguments, &subject);
    subject.plans = true;
    if (code == 0) code = subject_bind(arguments, &subject);
    if (code == 0) code = emit(arguments, subject.kernel);
    subject_close(&subject);
    return code;
}

static const flag flags[] = {
    {0, "target", "NAME", "the language to write: c"},
    {'o', "output", "FOLDER", "write FOLDER/kernel_NAME.c and .h; to stdout otherwise"},
    {0, "device", "NAME", "whose vectors and caches it is planned for: cpu"},
    {0, NULL, NULL, NULL},
};

const command command_emit = {
    "emit",
    "emit FILE.hr[:KERNEL] [EXTENT=N]... [tensor=FILE.npy]... [FLAG]...",
    "write a kernel as a .c and a .h that need nothing of headroom",
    "Writes the generated source of a kernel: a .c that needs no header of headroom's,\n"
    "with a comment that says how to call it, and a .h for its callers. Extents are\n"
    "arguments of the function; those given here are what its plan is made for.\n\n"
    "  headroom emit kernels/layernorm.hr --target c -o generated",
    flags,
    run_emit};
