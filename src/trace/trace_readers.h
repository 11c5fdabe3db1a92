/* The readers behind hr_trace_read(), a kind of file each.
 *
 * Each brings the events of one file into the build between hr_trace_build_file_begin and _end. HR_BAD_INPUT
 * with the byte offset where nothing can be read.
 */
#ifndef HR_TRACE_TRACE_READERS_H
#define HR_TRACE_TRACE_READERS_H

#include "trace/trace_build.h"
#include "trace/trace_input.h"

hr_status hr_trace_read_kineto(hr_trace_build *build, const char *path); /* JSON, plain or gzip */
hr_status hr_trace_read_nsys(hr_trace_build *build, const char *path);   /* SQLite exports */
hr_status hr_trace_read_ncu(hr_trace_build *build, const char *path);    /* CSV, details or raw page */
hr_status hr_trace_read_xplane(hr_trace_build *build, const char *path); /* XLA's .xplane.pb, plain or gzip */
hr_status hr_trace_read_own(hr_trace_build *build, const char *path);    /* headroom record, plain or gzip */
/* Whether a file's first bytes are those of an XPlane file. */
bool hr_trace_is_xplane(const char *bytes, size_t length);

#endif
