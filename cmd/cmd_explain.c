/* headroom explain: the plan of a kernel and its floor, without running it. */
#include "command.h"

#include <string.h>

/* A target to plan for has no roof, so its kernels have no floor. */
static bool is_target(const arguments *arguments) {
    return strncmp(arguments_value(arguments, "device", ""), "cuda:sm_", 8) == 0;
}

static int explain_json(const arguments *arguments, terminal *terminal, const subject *subject) {
    hr_roof roof;
    hr_run_result *result;
    char *text;
    hr_status status = HR_OK;
    if (!is_target(arguments))
        status = hr_device_roof(subject->device, false, terminal_progress, terminal, &roof);
    terminal_progress_end(terminal);
    if (status == HR_OK) status = hr_kernel_explain(subject->kernel, &result);
    if (status != HR_OK) return complain_status(arguments, status);
    status = hr_report_explain_json(result, &text);
    hr_run_result_destroy(result);
    return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
}

static int explain_target(const arguments *arguments, const terminal *terminal, const subject *subject) {
    const char *plan;
    hr_status status = hr_kernel_plan(subject->kernel, &plan);
    if (status != HR_OK) return complain_status(arguments, status);
    terminal_print_lines(terminal, plan);
    printf("  floor     not known: %s\n", hr_device_name(subject->device));
    return 0;
}

static int explain(const arguments *arguments, terminal *terminal, const subject *subject) {
    const char *plan;
    char *text;
    hr_floor floor;
    hr_roof roof; /* the floor needs it; here its measuring can be seen */
    hr_status status = hr_device_roof(subject->device, false, terminal_progress, terminal, &roof);
    terminal_progress_end(terminal);
    if (status == HR_OK) status = hr_kernel_plan(subject->kernel, &plan);
    if (status == HR_OK) status = hr_kernel_floor(subject->kernel, &floor);
    if (status == HR_OK) status = hr_report_floor_text(&floor, &roof, &terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    terminal_print_lines(terminal, plan);
    return terminal_print(arguments, text);
}

static int run_explain(const arguments *arguments, terminal *terminal) {
    subject subject;
    int code = subject_open(arguments, &subject);
    subject.plans = true;
    if (code == 0) code = subject_bind(arguments, &subject);
    if (code == 0 && arguments_has(arguments, "json"))
        code = explain_json(arguments, terminal, &subject);
    else if (code == 0)
        code = is_target(arguments) ? explain_target(arguments, terminal, &subject)
                                    : explain(arguments, terminal, &subject);
    subject_close(&subject);
    return code;
}

static const flag flags[] = {
    {0, "device", "NAME", "cpu, cuda, cuda:I, or a target: cuda:sm_80, cuda:sm_90a, cuda:sm_100a"},
    {0, "json", NULL, "print one JSON object"},
    {0, NULL, NULL, NULL},
};

const command command_explain = {
    "explain",
    "explain FILE.hr[:KERNEL]|NAME|- [EXTENT=N]... [T=DTYPE]... [tensor=FILE.npy]... [FLAG]...",
    "show a kernel's stages, why each has its shape, and its floor",
    "Shows the stages that a kernel becomes, why each has its shape, which locals\n"
    "exist in memory, and the floor. Nothing is run; extents that are not given get\n"
    "defaults.\n\n"
    "  headroom explain layernorm_backward M=4k N=1024",
    flags,
    run_explain};
