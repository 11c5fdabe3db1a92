/* NVRTC, opened at run time: CUDA C -> machine code for one architecture, in this process.
 *
 * In: source of ours. Out: a cubin and what the assembler said of registers and spills, or the compiler's
 * log.
 */
#ifndef HR_DEVICE_COMPILER_CUDA_H
#define HR_DEVICE_COMPILER_CUDA_H

#include "base/status.h"
#include "base/text.h"

#include <pthread.h>

typedef struct hr_nvrtc_program_s *hr_nvrtc_program;

/* member, symbol, parameters; each returns 0 or an nvrtcResult */
#define HR_NVRTC_FUNCTIONS(X)                                                                                \
    X(version, "nvrtcVersion", (int *major, int *minor))                                                     \
    X(create, "nvrtcCreateProgram",                                                                          \
      (hr_nvrtc_program * program, const char *source, const char *name, int header_count,                   \
       const char *const *headers, const char *const *names))                                                \
    X(destroy, "nvrtcDestroyProgram", (hr_nvrtc_program * program))                                          \
    X(compile, "nvrtcCompileProgram", (hr_nvrtc_program program, int count, const char *const *options))     \
    X(log_size, "nvrtcGetProgramLogSize", (hr_nvrtc_program program, size_t * size))                         \
    X(log, "nvrtcGetProgramLog", (hr_nvrtc_program program, char *log))                                      \
    X(cubin_size, "nvrtcGetCUBINSize", (hr_nvrtc_program program, size_t * size))                            \
    X(cubin, "nvrtcGetCUBIN", (hr_nvrtc_program program, char *cubin))

typedef struct hr_cuda_compiler {
    pthread_mutex_t lock; /* of finding and loading; compiling itself runs side by side */
    char path[4096];      /* "" until found */
    char identity[4352];  /* the file behind it, its size and its time of change: part of a cache key */
    void *library;        /* NULL until loaded */
#define HR_NVRTC_MEMBER(member, symbol, parameters) int(*member) parameters;
    HR_NVRTC_FUNCTIONS(HR_NVRTC_MEMBER)
#undef HR_NVRTC_MEMBER
} hr_cuda_compiler;

/* "sm_90a" for 90; architectures from 9.0 on have instructions of their own alone ("a"). */
void hr_cuda_arch_name(int compute, char *out, size_t size);
/* Blocks that a cluster may have: 16 (more than the 8 that every chip grants) from 9.0 on, 1 before. */
int hr_cuda_cluster_most(int compute);

/* Makes an empty one; destroy takes it apart (the library stays loaded). */
void hr_cuda_compiler_create(hr_cuda_compiler *compiler);
void hr_cuda_compiler_destroy(hr_cuda_compiler *compiler);

/* Finds the file, without loading it: $HEADROOM_NVRTC, LD_LIBRARY_PATH, $CUDA_HOME, $CUDA_PATH,
 * /usr/local/cuda*, the system's folders, Python's wheels, the loader's own search. `driver_version` 12080: a
 * compiler of version 12 comes first, because this driver may not load what version 13 makes; 0 = the newest
 * first. HR_NOT_AVAILABLE names the places. Safe from several threads, as all below. */
hr_status hr_cuda_compiler_find(hr_cuda_compiler *compiler, int driver_version);
/* `cubin` is for free(); `log` gets what the compiler and the assembler said ("Used 30 registers", "0 bytes
 * spill stores"). HR_INTERNAL with the log's first lines where it refuses. Finds first where needed. */
hr_status hr_cuda_compiler_run(hr_cuda_compiler *compiler, const char *arch, const char *source, void **cubin,
                               size_t *size, hr_text *log);

/* What the log says of all its entry functions together. */
typedef struct hr_cuda_usage {
    int registers;            /* the most */
    int stack, stores, loads; /* bytes of stack frames and of spills, added up */
    int remark; /* C7508 to C7516: registers asked for are not given, or tensor cores run one after the other;
                   0 = none */
} hr_cuda_usage;
hr_cuda_usage hr_cuda_usage_read(const char *log);

#endif
