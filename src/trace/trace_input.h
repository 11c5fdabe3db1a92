/* The bytes of a file from its beginning to its end, unpacked where it is gzip.
 *
 * In: a path. Out: bytes in order. Damage in a gzip stream ends the bytes early and is said by `damaged`.
 */
#ifndef HR_TRACE_TRACE_INPUT_H
#define HR_TRACE_TRACE_INPUT_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_trace_input hr_trace_input;

hr_status hr_trace_input_open(const char *path, hr_trace_input **out);
void hr_trace_input_close(hr_trace_input *input);
/* Fills `room` bytes; fewer only where the file ends. */
hr_status hr_trace_input_read(hr_trace_input *input, char *to, size_t room, size_t *got);
/* Of the file as it lies on the disk, for a progress bar; the size is 0 where it is not known. */
int64_t hr_trace_input_done(const hr_trace_input *input);
int64_t hr_trace_input_size(const hr_trace_input *input);
/* The size where it is gzip; 0 where it is not, or the size is not known. */
int64_t hr_trace_input_packed(const hr_trace_input *input);
bool hr_trace_input_damaged(const hr_trace_input *input); /* broken off or corrupt gzip */

#endif
