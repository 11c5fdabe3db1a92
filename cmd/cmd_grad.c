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

/* Its stages on a processor, and the work that its text asks for. */
static void tell_plan(const char *what, hr_kernel *kernel, double bytes, double operations) {
    const char *plan = NULL, *stages = "";
    int length = 0;
    if (hr_kernel_plan(kernel, &plan) == HR_OK && (plan = strstr(plan, "\nplan "))) {
        stages = plan + 6 + strspn(plan + 6, " ");
        length = (int)strcspn(stages, "\n");
    }
    fprintf(stderr, "  %-9s %.*s%s%.4g MB, %.4g million operations\n", what, length, stages,
            length ? "; " : "", bytes * 1e-6, operations * 1e-6);
}

/* Scalars that the text gives no value: the cotangents of totals, and what the forward kernel is given. */
static hr_status bind_scalars(hr_kernel *kernel) {
    hr_status status = HR_OK;
    for (int i = 0; i < hr_kernel_argument_count(kernel) && status == HR_OK; i++) {
        hr_argument argument;
        status = hr_kernel_argument(kernel, i, &argument);
        if (status == HR_OK && argument.rank == 0 && argument.role == HR_ARGUMENT_INPUT &&
            !argument.has_default)
            status = hr_kernel_bind_scalar(kernel, argument.name, 1);
    }
    return status;
}

/* The kernel on a processor at small extents, in f32: code against text. */
static hr_status run_small(hr_kernel *kernel, hr_check *out) {
    const char *name;
    int64_t value;
    for (int i = 0; i < hr_kernel_extent_count(kernel); i++) {
        hr_status status = hr_kernel_extent(kernel, i, &name, &value);
        if (status == HR_OK || status == HR_BAD_INPUT)
            status = hr_kernel_bind_extent(kernel, name, 16 + 3 * i);
        if (status != HR_OK) return status;
    }
    hr_status status = bind_scalars(kernel);
    if (status == HR_OK) status = hr_kernel_fill(kernel, 1);
    if (status == HR_OK) status = hr_kernel_launch(kernel);
    return status == HR_OK ? hr_kernel_check(kernel, 256, out) : status;
}

static int check_run(const arguments *arguments, const kernel_text *text, const char *derived,
                     const hr_gradient_check *found) {
    hr_device *device;
    hr_kernel *forward = NULL, *backward = NULL;
    hr_check run;
    hr_status status = hr_device_open("cpu", &device);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_kernel_load(device, text->path, text->text, text->length, text->kernel, &forward);
    if (status == HR_OK)
        status = hr_kernel_load(device, "derived.hr", derived, strlen(derived), NULL, &backward);
    if (status == HR_OK) {
        tell_plan("forward", forward, found->forward.bytes, found->forward.operations);
        tell_plan("backward", backward, found->backward.bytes, found->backward.operations);
        status = run_small(backward, &run);
    }
    if (status == HR_OK)
        fprintf(stderr, "  %-9s right: largest error %.1e in %lld elements\n", "run", run.max_error,
                (long long)run.points);
    const int code = status == HR_OK ? 0 : complain_status(arguments, status);
    hr_kernel_destroy(forward);
    hr_kernel_destroy(backward);
    hr_device_destroy(device);
    return code;
}

static int check(const arguments *arguments, const kernel_text *text, const hr_gradient_options *options,
                 const char *derived) {
    hr_gradient_check found = {.size = sizeof found};
    const hr_status status =
        hr_gradient_verify(text->path, text->text, text->length, text->kernel, options, &found);
    if (status != HR_OK) return complain_status(arguments, status);
    if (!found.points)
        return complain(arguments, "the kernel has no finite value at the points that were tried");
    fprintf(stderr,
            "headroom %s: right: differences in f64 agree to %.1e, forward mode to %.1e, at %d points\n",
            arguments->command->name, found.difference, found.transposed, found.points);
    return check_run(arguments, text, derived, &found);
}

static int print_gradient(const arguments *arguments, const kernel_text *text,
                          const hr_gradient_options *options) {
    char *kernel, *notes;
    const hr_status status =
        hr_gradient_text(text->path, text->text, text->length, text->kernel, options, &kernel, &notes);
    if (status != HR_OK) return complain_status(arguments, status);
    tell(arguments, notes);
    int code = deliver(arguments, kernel);
    if (code == 0 && arguments_has(arguments, "check")) code = check(arguments, text, options, kernel);
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
    {0, "save", "NAMES", "locals that the forward kernel gives; by cost otherwise; --save= for none"},
    {0, "recompute", "NAMES", "results that are computed again instead of taken"},
    {0, "name", "NAME", "what the kernel is called; KERNEL_backward otherwise, KERNEL with --forward"},
    {0, "accumulate", NULL, "add the gradients of weights into inout tensors"},
    {0, "forward", NULL, "print the forward kernel that gives what the backward pass takes of it"},
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
