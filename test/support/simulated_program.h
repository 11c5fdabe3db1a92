/* A program that trains on a simulated device, written as a text trace. For tests of the diagnosis only.
 *
 * Host and device run as CUDA's do: a launch costs the host its call, work begins once it is launched and its
 * stream is free, waits hold the host. So a planted fault costs what it would, and its fixed twin can be run
 * and compared with the prediction. Times in us.
 */
#ifndef HR_TEST_SUPPORT_SIMULATED_PROGRAM_H
#define HR_TEST_SUPPORT_SIMULATED_PROGRAM_H

#include "base/text.h"
#include "trace/trace.h"

typedef struct simulated_program {
    hr_text text;
    double host;      /* now */
    double device[4]; /* when each stream is free */
    double step_start;
    double gap; /* from a kernel to the next one of its stream; 1 at first */
    int correlation, step;
} simulated_program;

void simulate_begin(simulated_program *program);
void simulate_step_begin(simulated_program *program);
void simulate_step_end(simulated_program *program);
/* Work of the host without any call. */
void simulate_host(simulated_program *program, double duration);
/* The same inside of a range of that name. */
void simulate_range(simulated_program *program, const char *name, double duration);
/* The host spends `before` on the way to a launch of 6 us. `details`: further keys of the kernel. */
void simulate_launch(simulated_program *program, int stream, const char *name, double duration, double before,
                     const char *details);
/* A launch inside of an operator with shapes and dtypes as in a text trace. */
void simulate_operator(simulated_program *program, const char *operation, const char *shapes,
                       const char *dtypes, const char *kernel, double duration, const char *details);
/* Host to device. From pageable memory the host waits for the copy and the framework synchronises behind it.
 */
void simulate_copy_in(simulated_program *program, double bytes, bool pinned);
/* A scalar to the host: a small copy and a wait. */
void simulate_item(simulated_program *program);
void simulate_call(simulated_program *program, const char *name, double duration);
/* Stream `waiting` waits for all that was launched to `stream`. */
void simulate_stream_wait(simulated_program *program, int waiting, int stream);
/* The trace, and the mean step once the device has ended, without the first step. */
hr_trace *simulate_end(simulated_program *program);

#endif
