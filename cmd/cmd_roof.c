/* headroom roof: the ceilings of this machine, measured. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

static int report(const arguments *arguments, const terminal *terminal, const hr_device *device,
                  const hr_roof *roof) {
    const char *page = arguments_value(arguments, "html", NULL);
    char *text;
    hr_status status = HR_OK;
    if (page) {
        status = hr_report_roof_html(device, roof, &text);
        if (status != HR_OK) return complain_status(arguments, status);
        status = hr_file_save(page, text, strlen(text));
        free(text);
    }
    if (status == HR_OK)
        status = arguments_has(arguments, "json")
                     ? hr_report_roof_json(device, roof, &text)
                     : hr_report_roof_text(device, roof, &terminal->style, &text);
    return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
}

static int run_roof(const arguments *arguments, terminal *terminal) {
    hr_device *device = NULL;
    hr_roof roof;
    if (arguments->word_count)
        return complain(arguments, "\"%s\" is not understood; roof takes flags alone", arguments->words[0]);
    const char *page = arguments_value(arguments, "html", NULL);
    int code = page ? output_check(arguments, page) : 0;
    if (code) return code;
    hr_status status = hr_device_open(arguments_value(arguments, "device", NULL), &device);
    if (status == HR_OK)
        status =
            hr_device_roof(device, arguments_has(arguments, "again"), terminal_progress, terminal, &roof);
    terminal_progress_end(terminal);
    code = status == HR_OK ? report(arguments, terminal, device, &roof) : complain_status(arguments, status);
    hr_device_destroy(device);
    return code;
}

static const flag flags[] = {
    {0, "again", NULL, "measure anew rather than take what was measured before"},
    {0, "device", "NAME", "cpu, cuda or cuda:I; the best there is otherwise"},
    {0, "json", NULL, "print one JSON object"},
    {0, "html", "FILE", "write a page with the roofline plot"},
    {0, NULL, NULL, NULL},
};

const command command_roof = {
    "roof",
    "roof [FLAG]...",
    "measure what this machine can do at best: memory, caches, arithmetic",
    "Shows what this machine can do at best, all of it measured: bandwidth of memory\n"
    "and of each cache, rates of arithmetic and of special functions, the time to\n"
    "start and join all threads. Kept in the cache folder once measured.",
    flags,
    run_roof};
