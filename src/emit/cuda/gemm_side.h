/* The operands of a product on the tensor cores, as text. In: a stage and how its operands come. Out: for
 * each side the functions and the struct that a main loop of src/emit/templates/cuda/ asks for. */
#ifndef HR_EMIT_CUDA_GEMM_SIDE_H
#define HR_EMIT_CUDA_GEMM_SIDE_H

#include "emit/expression.h"
#include "schedule/cuda/choose_gemm.h"

typedef struct gemm_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    const hr_cuda_gemm *gemm;
    const hr_gemm_side *side; /* the one that is printed */
    int number;               /* of the stage */
    int result;               /* the one that is printed */
} gemm_printer;

/* "left", "right" or, of a stacked one, "right_1". */
const char *hr_gemm_side_name(gemm_printer *g, const hr_gemm_side *side);
/* struct stage_N_left_side or stage_N_right_side, what it calls, and stage_N_left_scale() where the side has
 * factors. */
void hr_gemm_print_side(gemm_printer *g, const hr_gemm_side *side);
/* A member NAME_scale() of the kernel's parameters. */
void hr_gemm_print_scale_member(gemm_printer *g, const hr_gemm_side *side, const char *name);
/* left_at(), left_number() and left_pair() as members of the kernel's parameters. */
void hr_gemm_print_raw_members(gemm_printer *g);
/* stage_N_group(): which right operand a row chose. */
void hr_gemm_print_group(gemm_printer *g);
/* stage_N_result_R_place() of results that are members; store_box() as a member of the kernel's parameters.
 */
void hr_gemm_print_result_places(gemm_printer *g);
void hr_gemm_print_box_stores(gemm_printer *g);
/* The coordinates of a box behind the first two, of `batch`: a number or, of members, a place. */
const char *hr_gemm_batch_coordinates(hr_printer *printer, const hr_gemm_view *view, const char *batch);

#endif
