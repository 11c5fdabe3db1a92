/* What the names of XLA's profiler mean, in its Chrome JSON and in its XPlane files alike.
 *
 * In: names of processes (or planes), threads (or lines) and events, and details as text. Out: devices,
 * streams, kinds of events, details of the model.
 */
#ifndef HR_TRACE_XLA_NAMES_H
#define HR_TRACE_XLA_NAMES_H

#include "trace/trace.h"

/* "/device:GPU:0" is device 0; -1 for what is none. */
int32_t hr_xla_device(const char *process);
/* "Stream #20(Compute,MemcpyD2D)" is 20; -1 for a line that is derived from others. */
int64_t hr_xla_stream(const char *thread);
/* The line of a device without streams (a TPU) that holds its work. */
bool hr_xla_is_work_line(const char *thread);
/* Of an event on a stream: a copy, a fill, a kernel. */
hr_event_kind hr_xla_work_kind(const char *name);
/* Whether a host event is a call of the driver or runtime: cuLaunchKernel, hipMemcpyAsync. */
bool hr_xla_is_call(const char *name);
/* "regs:32 static_shared:0 dynamic_shared:0 grid:528,1,1 block:256,1,1 occ_pct:100" */
hr_kernel_work hr_xla_kernel(const char *details);
/* "kind_src:pageable kind_dst:device size:16 dest:0 async:1"; the name tells where the details don't. */
hr_copy hr_xla_copy(const char *name, const char *details);

#endif
