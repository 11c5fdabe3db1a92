/* Starts a program and waits for its end.
 *
 * In: its arguments, where it writes, how long it may take. Out: its wait status.
 */
#include "device/process.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define POLL_SECONDS    0.001
#define ENVIRONMENT_MAX 10

/* What would send a compiler to other headers, libraries or programs than its own is left out. */
static const char *const kept_variables[] = {"PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "SYSTEMROOT"};

typedef struct environment_copy {
    char text[ENVIRONMENT_MAX][PATH_MAX + 64];
    char *list[ENVIRONMENT_MAX + 1];
    int count;
} environment_copy;

static void environment_add(environment_copy *copy, const char *name, const char *value) {
    char *text = copy->text[copy->count];
    int length = snprintf(text, sizeof copy->text[0], "%s=%s", name, value);
    if (length > 0 && (size_t)length < sizeof copy->text[0]) copy->list[copy->count++] = text;
}

static void environment_make(environment_copy *copy, const char *folder, const char *const *more) {
    copy->count = 0;
    for (size_t i = 0; i < sizeof kept_variables / sizeof *kept_variables; i++) {
        const char *value = getenv(kept_variables[i]);
        if (value) environment_add(copy, kept_variables[i], value);
    }
    environment_add(copy, "TMPDIR", folder);
    environment_add(copy, "LC_ALL", "C");
    for (; more && *more; more++)
        copy->list[copy->count++] = (char *)(uintptr_t)*more;
    copy->list[copy->count] = NULL;
}

static int process_wait(pid_t process, double seconds) {
    double end = hr_clock_seconds() + seconds;
    for (;;) {
        int status;
        pid_t ended = waitpid(process, &status, WNOHANG);
        if (ended == process) return status;
        if (ended < 0 && errno != EINTR) return HR_PROCESS_TAKEN;
        if (hr_clock_seconds() > end) {
            kill(-process, SIGKILL);
            while (waitpid(process, &status, 0) < 0 && errno == EINTR)
                continue;
            return HR_PROCESS_TIMED_OUT;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(POLL_SECONDS * 1e9)}, NULL);
    }
}

/* In a group of its own, so that a time-out ends its children too; with default signals. */
static int process_start(const char *const *arguments, char **variables, const char *log, pid_t *out) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int error =
        posix_spawn(out, arguments[0], &files, &attributes, (char *const *)(uintptr_t)arguments, variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

hr_status hr_process_run(const char *const *arguments, const char *const *more, const char *folder,
                         const char *log, double seconds, int *ended) {
    environment_copy *variables = malloc(sizeof *variables);
    if (!variables) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while starting %s", arguments[0]);
    environment_make(variables, folder, more);
    pid_t process;
    int error = process_start(arguments, variables->list, log, &process);
    free(variables);
    if (error)
        return hr_fail(HR_NOT_AVAILABLE, "the program %s cannot be started: %s", arguments[0],
                       strerror(error));
    *ended = process_wait(process, seconds);
    return HR_OK;
}
