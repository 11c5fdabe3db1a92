/* Which code of the user's ran in given stretches of host time.
 *
 * In: stretches of threads; the slices on those threads: Python's frames (Kineto's with_stack, JAX's tracer),
 * ranges, modules, operators. Out: the most specific one that fills most of them, in words.
 */
#ifndef HR_DIAGNOSE_HOST_CAUSE_H
#define HR_DIAGNOSE_HOST_CAUSE_H

#include "diagnose/finding.h"

typedef struct hr_host_time {
    int32_t track;
    int64_t start, end; /* ns; those of one track do not overlap */
} hr_host_time;

/* A frame's name apart: "video.py(57): preprocess" of Kineto, "$video.py:57 preprocess" of JAX. */
typedef struct hr_frame {
    const char *file, *function; /* not terminated */
    int file_length, function_length, line;
} hr_frame;
bool hr_frame_read(const char *name, hr_frame *out);
/* Whether the frame lies in Python itself or in a package that many programs use, not in the user's own
 * files. */
bool hr_frame_is_library(const hr_frame *frame);

/* Adds a note that names the code and its share: "`preprocess` in video.py, line 57: 217 ms of these 218 ms a
 * step". False where nothing fills half of the time. Sorts `times`. */
bool hr_draft_note_cause(hr_draft *draft, hr_host_time *times, int count, int32_t known);

#endif
