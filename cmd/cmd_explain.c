/* headroom explain: the plan of a kernel and its floor, without running it. */
#include "command.h"

/* By the roof that is kept: nothing runs here. A target to plan for has none. */
static int print_floor(const arguments *arguments, const terminal *terminal, const subject *subject) {
    char *text;
    hr_floor floor;
    hr_roof roof;
    hr_status status = hr_device_roof_kept(subject->device, &roof);
    if (status == HR_OUT_OF_MEMORY) return complain_status(arguments, status);
    if (status != HR_OK) {
        printf("  floor     not known: %s\n", hr_last_error());
        return 0;
    }
    status = hr_kernel_floor(subject->kernel, &floor);
    if (status == HR_OK) status = hr_report_floor_text(&floor, &roof, &terminal->style, &text);
    return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
}

static int explain_json(const arguments *arguments, const subject *subject) {
    hr_run_result *result;
    char *text;
    hr_status status = hr_kernel_explain(subject->kernel, &result);
    if (status != HR_OK) return complain_status(arguments, status);
    hr_roof roof;
    if (hr_device_roof_kept(subject->device, &roof) != HR_OK)
        complain(arguments, "the floor is not known: %s", hr_last_error());
    status = hr_report_explain_json(result, &text);
    hr_run_result_destroy(result);
    return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
}

static int explain(const arguments *arguments, const terminal *terminal, const subject *subject) {
    const char *plan;
    hr_status status = hr_kernel_plan(subject->kernel, &plan);
    if (status != HR_OK) return complain_status(arguments, status);
    terminal_print_lines(terminal, plan);
    return print_floor(arguments, terminal, subject);
}

static int run_explain(const arguments *arguments, terminal *terminal) {
    subject subject;
    int code = subject_open(arguments, &subject);
    subject.plans = true;
    if (code == 0) code = subject_bind(arguments, &subject);
    if (code == 0)
        code = arguments_has(arguments, "json") ? explain_json(arguments, &subject)
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
    "exist in memory, and the floor, where a roof is kept (headroom roof). Nothing is\n"
    "run; extents that are not given get defaults.\n\n"
    "  headroom explain layernorm_backward M=4k N=1024",
    flags,
    run_explain};
