/* headroom: the command. In: a subcommand and its arguments. Out: the subcommand's exit code.
 *
 * The table below is the list of subcommands; each has its own file. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

static const command *const commands[] = {&command_run,
                                          &command_explain,
                                          &command_emit,
                                          &command_grad,
                                          &command_roof,
                                          &command_bench,
                                          &command_sweep,
                                          &command_ladder,
                                          &command_generate,
                                          &command_record,
                                          &command_diagnose,
                                          &command_help,
                                          NULL};

const command *const *command_list(void) {
    return commands;
}

const command *command_find(const char *name) {
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int command_unknown(const char *name) {
    const char *names[16];
    int count = 0;
    for (; commands[count]; count++)
        names[count] = commands[count]->name;
    const char *closest = closest_name(name, names, count);
    fprintf(stderr, "headroom: there is no command \"%s\"", name);
    complain_closest("", closest);
    fprintf(stderr, " Possible are");
    for (int i = 0; i < count; i++)
        fprintf(stderr, " %s", names[i]);
    fprintf(stderr, "; `headroom help` says what they do.\n");
    return EXIT_USAGE;
}

int main(int count, char **values) {
    terminal terminal;
    terminal_open(&terminal);
    if (count < 2) {
        command_print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(values[1], "--version") == 0) {
        printf("headroom %s\n", hr_version());
        return 0;
    }
    bool asks_help = strcmp(values[1], "--help") == 0 || strcmp(values[1], "-h") == 0;
    const command *command = asks_help ? &command_help : command_find(values[1]);
    if (!command) return command_unknown(values[1]);
    arguments arguments;
    int code = arguments_parse(command, count - 2, values + 2, &arguments);
    if (code == 0 && arguments_has(&arguments, "help"))
        command_print_help(stdout, command);
    else if (code == 0)
        code = command->run(&arguments, &terminal);
    terminal_progress_end(&terminal);
    if (code == 0) code = terminal_flush(&arguments);
    arguments_free(&arguments);
    if (terminal_interrupted()) terminal_die(terminal_interrupted());
    return code;
}
