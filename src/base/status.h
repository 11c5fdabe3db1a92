/* Errors as values.
 *
 * Every fallible function returns an hr_status; the sentence that explains it is kept for the calling thread
 * and read with hr_last_error(). It is the library's one piece of thread-local state (see docs/design.md).
 * In: a code and a sentence that says what, where and how to mend it. Out: the code.
 */
#ifndef HR_BASE_STATUS_H
#define HR_BASE_STATUS_H

#include "headroom.h"

/* Records the sentence and returns `code`. The source position is kept for HR_INTERNAL only. */
hr_status hr_fail_at(const char *file, int line, hr_status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define hr_fail(...) hr_fail_at(__FILE__, __LINE__, __VA_ARGS__)

/* Records a sentence that was kept from an earlier failure, as it is, and returns its `code`. */
hr_status hr_fail_again(hr_status code, const char *sentence);

/* Prefixes the recorded sentence ("while loading x.npy: ...") and returns `code` unchanged. */
hr_status hr_fail_context(hr_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The project's only macro that hides control flow. */
#define HR_TRY(call)                                                                                         \
    do {                                                                                                     \
        hr_status hr_try_status = (call);                                                                    \
        if (hr_try_status != HR_OK) return hr_try_status;                                                    \
    } while (0)

#endif
