/* headroom grad: the gradient of a kernel, as a kernel. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

static hr_gradient_options options_of(const arguments *arguments) {
    return (hr_gradient_options){.size = sizeof(hr_gradient_options),
                                 .of = arguments_value(arguments, "of", NULL),
                                 .wrt = arguments_value(arguments, "wrt", NULL),
                                 .save = arguments_value(arguments, "save", NULL),
                                 .recompute = arguments_value(arguments, "recompute", NULL),
                                 .name = arguments_value(arguments, "name", NULL),
                                 .accumulate = arguments_has(arguments, "accumulate")};
}

/* Prints the text, or writes it to the file of --output. */
static int deliver(const arguments *arguments, const char *text) {
    const char *path = arguments_value(arguments, "output", NULL);
    if (!path) return fputs(text, stdout) < 0 ? complain(arguments, "cannot write to standard output") : 0;
    const hr_status status = hr_file_save(path, text, strlen(text));
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* Notes go to stderr, a line each. */
static void tell(const arguments *arguments, const char *notes) {
    for (const char *at = notes; *at;) {
        const int length = (int)strcspn(at, "\n");
        fprintf(stderr, "headroom %s: note: %.*s\n", arguments->command->name, length, at);
        at += length + (at[length] == '\n');
    }
}

static int check(const arguments *arguments, const kernel_text *text, const hr_gradient_options *options) {
    hr_gradient_check found = {.size = sizeof found};
    const hr_status status =
        hr_gradient_verify(text->path, text->text, text->length, text->kernel, options, &found);
    if (status != HR_OK) return complain_status(arguments, status);
    if (!found.points)
        return complain(arguments, "the kernel has no finite value at the points that were tried");
    fprintf(stderr, "headroom %s: right: central differences in f64 agree to %.1e at %d points\n",
            arguments->command->name, found.difference, found.points);
    return 0;
}

static int print_gradient(const arguments *arguments, const kernel_text *text,
                          const hr_gradient_options *options) {
    char *kernel, *notes;
    const hr_status status =
        hr_gradient_text(text->path, text->text, text->length, text->kernel, options, &kernel, &notes);
    if (status != HR_OK) return complain_status(arguments, status);
    tell(arguments, notes);
    int code = deliver(arguments, kernel);
    if (code == 0 && arguments_has(arguments, "check")) code = check(arguments, text, options);
    free(kernel);
    free(notes);
    return code;
}

static int print_forward(const arguments *arguments, const kernel_text *text,
                         const hr_gradient_options *options) {
    char *kernel;
    const hr_status status =
        hr_gradient_forward_text(text->path, text->text, text->length, text->kernel, options, &kernel);
    if (status != HR_OK) return complain_status(arguments, status);
    const int code = deliver(arguments, kernel);
    free(kernel);
    return code;
}

static int run_grad(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    const char *path = arguments_value(arguments, "output", NULL);
    const hr_gradient_options options = options_of(arguments);
    kernel_text text;
    int code = kernel_text_open(arguments, &text);
    if (code == 0 && arguments->word_count > 1)
        code =
            complain(arguments, "\"%s\": one kernel at a time; its extents stay open", arguments->words[1]);
    if (code == 0 && path) code = output_check(arguments, path);
    if (code == 0)
        code = arguments_has(arguments, "forward") ? print_forward(arguments, &text, &options)
                                                   : print_gradient(arguments, &text, &options);
    kernel_text_close(&text);
    return code;
}

static const flag flags[] = {
    {0, "of", "NAMES", "results whose cotangents come in; all floats otherwise"},
    {0, "wrt", "NAMES", "parameters to derive for; all float tensors otherwise"},
    {0, "save", "NAMES", "locals that the forward kernel gives as results"},
    {0, "recompute", "NAMES", "results that are computed again instead of taken"},
    {0, "name", "NAME", "what the kernel is called; KERNEL_backward otherwise"},
    {0, "accumulate", NULL, "add the gradients of weights into inout tensors"},
    {0, "forward", NULL, "print the forward kernel that gives what --save names"},
    {0, "check", NULL, "compare with differences of the kernel, in f64"},
    {'o', "output", "FILE.hr", "write to a file; to stdout otherwise"},
    {0, NULL, NULL, NULL},
};

const command command_grad = {
    "grad",
    "grad FILE.hr[:KERNEL]|NAME|- [FLAG]...",
    "write the gradient of a kernel as a kernel",
    "Writes the backward pass of a kernel as a kernel of the language: it takes dy, the\n"
    "cotangent of a result y, what it needs of the parameters and results, and gives dx.\n"
    "What it prints can be read, changed, run, emitted, and derived again.\n\n"
    "  headroom grad layernorm\n"
    "  headroom grad cross_entropy --of loss --check -o cross_entropy_backward.hr",
    flags,
    run_grad};
