/* Host and device of a simulated program, and the lines of its trace. */
#include "support/simulated_program.h"
#include "support/text_trace.h"

#include <math.h>

#define CALL     6.0 /* of a launch */
#define LATENCY  5.0 /* from the call to the kernel */
#define PAGEABLE 5e3 /* bytes a us */
#define PINNED   46.8e3

void simulate_begin(simulated_program *program) {
    *program = (simulated_program){.host = 100, .gap = 1};
    hr_text_format(&program->text,
                   "device 0 \"NVIDIA H200\" multiprocessors=132 compute=90 bandwidth=4.8e12 memory=141e9\n");
}

void simulate_step_begin(simulated_program *program) {
    program->step_start = program->host;
}

void simulate_step_end(simulated_program *program) {
    hr_text_format(&program->text, "range main %.3f %.3f ProfilerStep#%d\n", program->step_start,
                   program->host - program->step_start, program->step++);
}

void simulate_host(simulated_program *program, double duration) {
    program->host += duration;
}

void simulate_range(simulated_program *program, const char *name, double duration) {
    hr_text_format(&program->text, "range main %.3f %.3f \"%s\"\n", program->host, duration, name);
    program->host += duration;
}

void simulate_call(simulated_program *program, const char *name, double duration) {
    hr_text_format(&program->text, "call main %.3f %.3f %s #%d\n", program->host, duration, name,
                   ++program->correlation);
    program->host += duration;
}

void simulate_launch(simulated_program *program, int stream, const char *name, double duration, double before,
                     const char *details) {
    program->host += before;
    simulate_call(program, "cudaLaunchKernel", CALL);
    double start = fmax(program->host - CALL + LATENCY, program->device[stream] + program->gap);
    hr_text_format(&program->text, "kernel gpu0:%d %.3f %.3f \"%s\" #%d %s\n", stream, start, duration, name,
                   program->correlation, details);
    program->device[stream] = start + duration;
}

void simulate_operator(simulated_program *program, const char *operation, const char *shapes,
                       const char *dtypes, const char *kernel, double duration, const char *details) {
    double start = program->host;
    simulate_launch(program, 7 & 3, kernel, duration, 4, details);
    program->host += 1;
    hr_text_format(&program->text, "operator main %.3f %.3f %s shapes=\"%s\" dtypes=\"%s\"\n", start,
                   program->host - start, operation, shapes, dtypes);
}

void simulate_copy_in(simulated_program *program, double bytes, bool pinned) {
    double call = program->host, start = fmax(call + LATENCY, program->device[3] + 1);
    double end = start + bytes / (pinned ? PINNED : PAGEABLE), duration = pinned ? CALL : end - call + 3;
    hr_text_format(&program->text, "call main %.3f %.3f cudaMemcpyAsync #%d\n", call, duration,
                   ++program->correlation);
    hr_text_format(&program->text, "copy gpu0:3 %.3f %.3f \"Memcpy HtoD\" #%d bytes=%.0f from=%s to=device\n",
                   start, end - start, program->correlation, bytes, pinned ? "pinned" : "pageable");
    program->device[3] = end;
    program->host = call + duration;
    if (!pinned) {
        simulate_host(program, 1);
        simulate_call(program, "cudaStreamSynchronize", 3);
    }
}

void simulate_item(simulated_program *program) {
    double start = fmax(program->host + LATENCY, program->device[3] + 1);
    simulate_call(program, "cudaMemcpyAsync", CALL);
    hr_text_format(&program->text, "copy gpu0:3 %.3f 1.5 \"Memcpy DtoH\" #%d bytes=4 from=device to=pinned\n",
                   start, program->correlation);
    program->device[3] = start + 1.5;
    program->host += 1;
    simulate_call(program, "cudaStreamSynchronize", fmax(3, program->device[3] + 4 - program->host));
}

void simulate_stream_wait(simulated_program *program, int waiting, int stream) {
    program->host += 1;
    simulate_call(program, "cudaEventRecord", 1);
    simulate_call(program, "cudaStreamWaitEvent", 1);
    program->device[waiting] = fmax(program->device[waiting], program->device[stream]);
}

hr_trace *simulate_end(simulated_program *program) {
    hr_trace *trace = NULL;
    hr_status status = hr_text_status(&program->text);
    if (status == HR_OK) status = hr_text_trace(hr_text_data(&program->text), &trace);
    hr_text_clear(&program->text);
    return status == HR_OK ? trace : NULL;
}
