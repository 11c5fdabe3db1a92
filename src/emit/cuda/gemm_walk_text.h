/* What the structs of products in a walk say of each other. In: a stage. Out: text. */
#ifndef HR_EMIT_CUDA_GEMM_WALK_TEXT_H
#define HR_EMIT_CUDA_GEMM_WALK_TEXT_H

#include "emit/cuda/gemm_side.h"
#include "schedule/cuda/gemm_walk.h"

/* stage_N_size(), where the product is in a walk. */
void hr_gemm_print_size_function(gemm_printer *g);
/* Members of struct stage_N_SUFFIX: terms_after, and with terms `more` and size(). */
void hr_gemm_print_terms(hr_printer *printer, int number, const char *suffix);
/* Members walks, after, along_m, and in a walk `next` and size(). */
void hr_gemm_print_walk_members(gemm_printer *g);
/* struct stage_N_maps. */
void hr_gemm_print_maps_struct(gemm_printer *g);
/* The parameters of a walk's kernel that are maps, in the order of its launch. */
const char *hr_gemm_map_parameters(const gemm_printer *g);
/* The kernel's `maps`. */
const char *hr_gemm_maps_text(const gemm_printer *g);

#endif
