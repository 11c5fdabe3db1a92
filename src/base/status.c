/* The thread's last error, and the tables of status names. In: codes and sentences. Out: the sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_MAX 16384

static _Thread_local char last_error[ERROR_MAX];

static const struct {
    const char *name, *text;
    int exit_code;
} statuses[] = {
#define STATUS_ROW(name, exit_code, text) {#name, text, exit_code},
    HR_STATUSES(STATUS_ROW)
#undef STATUS_ROW
};

static bool status_known(hr_status status) {
    return (size_t)status < sizeof statuses / sizeof *statuses;
}

const char *hr_status_name(hr_status status) {
    return status_known(status) ? statuses[status].name : "UNKNOWN";
}

int hr_status_exit_code(hr_status status) {
    return status_known(status) ? statuses[status].exit_code : 3;
}

const char *hr_last_error(void) {
    return last_error;
}

#define VERSION_TEXT(major, minor, patch) #major "." #minor "." #patch
#define VERSION_OF(major, minor, patch)   VERSION_TEXT(major, minor, patch)

const char *hr_version(void) {
    return VERSION_OF(HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
}

hr_status hr_fail_at(const char *file, int line, hr_status code, const char *format, ...) {
    char sentence[ERROR_MAX]; /* the arguments may point into last_error */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (code == HR_INTERNAL)
        snprintf(last_error, sizeof last_error, "%.*s (%s:%d)", ERROR_MAX - 256, sentence, file, line);
    else
        memcpy(last_error, sentence, sizeof sentence);
    return code;
}

hr_status hr_fail_again(hr_status code, const char *sentence) {
    if (sentence != last_error) snprintf(last_error, sizeof last_error, "%s", sentence);
    return code;
}

hr_status hr_fail_context(hr_status code, const char *format, ...) {
    char prefix[1024], sentence[ERROR_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    memcpy(sentence, last_error, sizeof sentence);
    snprintf(last_error, sizeof last_error, "%s: %.*s", prefix, ERROR_MAX - 1100, sentence);
    return code;
}

const char *hr_special_name(hr_special special) {
    static const char *const names[] = {
#define SPECIAL_NAME(unit, name) name,
        HR_SPECIALS(SPECIAL_NAME)
#undef SPECIAL_NAME
    };
    return (size_t)special < HR_SPECIAL_COUNT ? names[special] : "unknown";
}
