/* What a sequence lets its owner watch, beyond the public header. */
#ifndef HR_RUN_SEQUENCE_H
#define HR_RUN_SEQUENCE_H

#include "headroom.h"

/* `progress` is called before each call, on devices that replay before each that is another than it was:
 * "preparing" where the call was not launched yet, so that it may be compiled, else "running". A launch that
 * it stops is HR_CANCELLED. NULL = nobody watches. */
void hr_sequence_watch(hr_sequence *sequence, hr_progress_fn progress, void *context);
/* Whole launches since the times were cleared. */
int64_t hr_sequence_launches(const hr_sequence *sequence);
#endif
