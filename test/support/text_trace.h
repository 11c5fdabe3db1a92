/* A trace written as text, so that a test of a diagnosis is a few lines and a table. For tests only.
 *
 * A line an event: kind, track, start and duration in us, name, then what is known of it:
 *
 *     rank 0 of 2                                      # begins a rank; without it there is one, rank unknown
 *     device 0 "NVIDIA H200" multiprocessors=132 compute=90 bandwidth=4.8e12 memory=141e9
 *     range      main    0    1000  ProfilerStep#0
 *     operator   main    10   50    aten::mm  shapes="[[64, 32], [32, 64]]" dtypes="[\"float\"]" external=7
 *     call       main    12   5     cudaLaunchKernel #1 external=7
 *     kernel     gpu0:7  20   100   "void gemm<float>(int)" #1 grid=8,1,1 block=256 registers=32 shared=1024
 *     copy       gpu0:7  130  10    "Memcpy HtoD" #2 bytes=4096 from=pageable to=device asynchronous
 *     fill       gpu0:7  145  1     "Memset" #3 bytes=64
 *     synchronise main   150  30    cudaStreamSynchronize #4 wait=stream stream=gpu0:7
 *     synchronise gpu0:9 150  0     "Stream Wait Event" wait=stream-event stream=gpu0:7 event=12
 *     device-range, graph, overhead: as range; allocation main 3 0 cudaMalloc bytes=1024 memory=device
 *     counter    main    5    0     "GPU used" value=0.5
 *     counter    gpu0:-2 5    100   "SM active" value=0.5 of=sm   # tensor, warps, dram, dram-read,
 * dram-written
 *
 * Times count from the first event on. A track `gpuD:S` is stream S of device D, any other word a thread of
 * that name. `#N` is the correlation. Further keys: sequence, python, result, occupancy, cluster, graph,
 * node, queued, submitted (us), collective, group, ranks, bytes, dram_read, dram_written, l1_hit, l2_hit,
 * sectors_per_load, sectors_per_store, tensor, vector, tensor_active, warps_active,
 * dram_of_peak, sm_of_peak, seconds, address. '#' at the start of a
 * line is a comment.
 */
#ifndef HR_TEST_SUPPORT_TEXT_TRACE_H
#define HR_TEST_SUPPORT_TEXT_TRACE_H

#include "trace/trace.h"

/* HR_BAD_INPUT with the line that could not be understood. The caller destroys the trace. */
hr_status hr_text_trace(const char *text, hr_trace **out);

#endif
