/* Ranges that a profiler sees: NVTX, without its headers.
 *
 * In: names of what this thread does, nested. Out: the same in the recording of headroom record, Nsight
 * Systems or whatever tool NVTX_INJECTION64_PATH names; nothing where there is none. */
#ifndef HR_BASE_RANGE_H
#define HR_BASE_RANGE_H

#include "base/status.h"

/* Whether a tool listens; asked once a process. */
bool hr_range_heard(void);
void hr_range_begin(const char *name);
void hr_range_end(void);

#endif
