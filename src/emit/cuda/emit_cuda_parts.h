/* What the two files that make CUDA source of a plan share: emit_cuda.c, which prints it, and
 * launcher_cuda.c, which prints its launches (schedule/cuda/launches_cuda.h) as C++ to paste. */
#ifndef HR_EMIT_CUDA_EMIT_CUDA_PARTS_H
#define HR_EMIT_CUDA_EMIT_CUDA_PARTS_H

#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_gemm.h"
#include "emit/emit.h"
#include "schedule/cuda/launches_cuda.h"

/* One plan as code: all that is to paste, or a part of it. */
typedef struct hr_cuda_emitter {
    const hr_plan *plan;
    const hr_function *function;
    const int64_t *extents;
    const hr_plan *fast; /* of the part that this one stands in for; NULL = it is none */
    hr_printer printer;
    hr_printer *p;
    int declared;                   /* parameters and results */
    hr_cuda_gemm *gemms, *siblings; /* of the stages that are products */
    int64_t work_bytes;
} hr_cuda_emitter;

/* ---- emit_cuda.c ---- */

/* Bytes of a tensor in the scratch memory, as C. */
const char *hr_cuda_local_size(hr_cuda_emitter *emitter, int tensor);

/* ---- launcher_cuda.c ---- */

/* Some kernel copies by tensor maps, which are made for the extents of this source. */
bool hr_cuda_has_maps(const hr_cuda_emitter *emitter);
/* It does, or some product leaves parts in scratch memory: the source is for these extents alone. */
bool hr_cuda_is_for_extents(const hr_cuda_emitter *emitter);
/* scratch_bytes(), holds() and launch() of a part, behind its kernels. */
hr_status hr_cuda_print_launcher(hr_cuda_emitter *emitter);
/* "void *stream, int64_t n_N, ..." and "stream, n_N, ..."; of extents alone. */
void hr_cuda_append_parameters(hr_cuda_emitter *emitter, hr_text *out);
void hr_cuda_append_arguments(hr_cuda_emitter *emitter, hr_text *out);
const char *hr_cuda_extents_declared(hr_cuda_emitter *emitter);
const char *hr_cuda_extents_passed(hr_cuda_emitter *emitter);

#endif
