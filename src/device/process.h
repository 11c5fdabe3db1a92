/* Programs of others, run to their end: a fixed argument vector, a cleaned environment, no shell. */
#ifndef HR_DEVICE_PROCESS_H
#define HR_DEVICE_PROCESS_H

#include "base/status.h"

enum { HR_PROCESS_TAKEN = -1 /* another part of this process took its end */, HR_PROCESS_TIMED_OUT = -2 };

/* Runs arguments[0] (a path) with all that it writes in the file `log` and its temporary files in `folder`.
 * `more`, up to two variables of the form NAME=VALUE and NULL, or NULL, go into its environment. It and its
 * children are killed after `seconds`. In `ended` its wait status or one of the above; HR_NOT_AVAILABLE where
 * it does not start. */
hr_status hr_process_run(const char *const *arguments, const char *const *more, const char *folder,
                         const char *log, double seconds, int *ended);

#endif
