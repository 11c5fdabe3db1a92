/* One stage of any shape but contract as CUDA kernels. In: a stage and how it lies on the device. Out: text.
 *
 * A stage is up to three kernels, launched in order:
 *     stage_N_begin  clears what is added into
 *     stage_N        the work itself
 *     stage_N_end    combines what the blocks left
 */
#ifndef HR_EMIT_STAGE_CUDA_H
#define HR_EMIT_STAGE_CUDA_H

#include "emit/cuda_choice.h"
#include "emit/expression.h"

enum { HR_CUDA_CLEAR_THREADS = 256, HR_CUDA_END_THREADS = 512, HR_CUDA_END_COLUMNS = 32 };

typedef struct hr_stage_kernels {
    bool begin, end; /* the stage has these */
} hr_stage_kernels;

/* What every file begins with: types and constants. */
extern const char hr_cuda_file_head[];
hr_stage_kernels hr_stage_kernels_of(const hr_plan *plan, const hr_stage *stage);
hr_status hr_emit_stage_cuda(hr_printer *printer, int number, const int64_t *extents,
                             const hr_cuda_choice *choice);
/* Prints a kernel: `before`, the signature, declarations of the arguments that the body uses, the body. */
void hr_emit_kernel(hr_printer *printer, const char *signature, const hr_text *body);
/* The number of tasks, of rows in a row of blocks and of flat elements, as C expressions over extents. */
const char *hr_cuda_task_total(hr_printer *printer, const hr_stage *stage);

/* ---- between stage_cuda.c, which prints kernels, and stage_cuda_pass.c, which prints the passes over a row
 * ---- */

typedef struct hr_cuda_stage {
    hr_printer *p;
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    const hr_cuda_choice *c;
    const int64_t *extents;
    int number;
    const char **held;     /* by expr id: the register array that holds an element's groups */
    bool *kept;            /* by expr id: its values are in registers since an earlier pass */
    const char *positions; /* the type of a position: int, or int64_t where that is too narrow */
} hr_cuda_stage;

static inline const hr_statement *hr_cuda_statement(const hr_cuda_stage *s, const hr_step *step) {
    return &s->function->statements[step->statement];
}
/* The C type that a step accumulates in. */
const char *hr_cuda_sum_type(const hr_cuda_stage *s, const hr_step *step);
/* The value that changes nothing, of that type. */
const char *hr_cuda_identity(hr_cuda_stage *s, const hr_step *step);
/* reduce_sum, reduce_max, ... */
const char *hr_cuda_reducer(const hr_step *step);
/* Arrays of values that one pass computes and a later one uses. */
void hr_cuda_declare_kept(hr_cuda_stage *s);
void hr_cuda_print_loads(hr_cuda_stage *s, int pass);
void hr_cuda_print_pass(hr_cuda_stage *s, int pass);

#endif
