/* What a test's program tells the fake CUPTI (fake_cupti_library.c) that it plays. */
#ifndef HR_TEST_SUPPORT_FAKE_CUPTI_H
#define HR_TEST_SUPPORT_FAKE_CUPTI_H

#include <stdint.h>

/* A call on this thread that launches `name`; the kernel runs `nanoseconds` behind the last one of its
 * stream. */
typedef void (*fake_launch_function)(const char *name, uint32_t stream, uint64_t nanoseconds);
/* A blocking copy of pageable memory, an event recorded on stream 7 that stream 9 waits for, a wait for
 * stream 7. */
typedef void (*fake_copy_function)(uint64_t bytes);
typedef void (*fake_events_function)(void);
/* A stream of the program's own. */
typedef void (*fake_stream_function)(void);

#endif
