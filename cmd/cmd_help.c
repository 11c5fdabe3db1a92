/* headroom help [COMMAND|tuning]: what there is, what each subcommand takes, what a tuner may choose. */
#include "command.h"

#include <string.h>

void command_print_overview(FILE *out) {
    fprintf(out, "headroom: write the math, run it at the roof, know how far you are\n\n"
                 "usage: headroom COMMAND [ARGUMENT]...\n\n");
    for (const command *const *at = command_list(); *at; at++)
        fprintf(out, "  %-9s %s\n", (*at)->name, (*at)->summary);
    fprintf(
        out,
        "\n  --version print the version\n"
        "  --help    this; `headroom help COMMAND` for one of them\n\n"
        "Exit codes: 0 good, 1 a wrong result, 2 bad usage or input, 3 the device or a tool is missing.\n");
}

void command_print_help(FILE *out, const command *command) {
    fprintf(out, "usage: headroom %s\n\n%s\n\n", command->synopsis, command->details);
    for (const flag *at = command->flags; at->name; at++) {
        char name[64];
        snprintf(name, sizeof name, "%c%c --%s%s%s", at->letter ? '-' : ' ', at->letter ? at->letter : ' ',
                 at->name, at->value && at->value[0] != '[' ? " " : "", at->value ? at->value : "");
        fprintf(out, "  %-26s %s\n", name, at->help);
    }
    fprintf(out, "  %-26s %s\n", "-h --help", "show this");
}

static int run_help(const arguments *arguments, terminal *terminal) {
    (void)terminal;
    if (arguments->word_count > 1) return complain(arguments, "one COMMAND at a time");
    if (arguments->word_count == 0) {
        command_print_overview(stdout);
        return 0;
    }
    if (strcmp(arguments->words[0], "tuning") == 0) {
        fputs(hr_tuning_help(), stdout);
        return 0;
    }
    const command *command = command_find(arguments->words[0]);
    if (!command)
        return complain(arguments, "there is no command \"%s\"; `headroom help` lists them",
                        arguments->words[0]);
    command_print_help(stdout, command);
    return 0;
}

static const flag flags[] = {{0, NULL, NULL, NULL}};

const command command_help = {"help",
                              "help [COMMAND|tuning]",
                              "say what there is, or what a command takes",
                              "Says what there is, what COMMAND takes, or what a tuner may choose.",
                              flags,
                              run_help};
