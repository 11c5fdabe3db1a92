/* The products of tensor cores as device functions: one for each type, width and place of the operands.
 *
 * In: which instruction. Out: the name of its function and its text. The text is printed only where it is
 * used, because there are thousands of them. src/emit/templates/ptx/ holds the instructions that stand around
 * them.
 */
#ifndef HR_EMIT_TENSOR_CORE_H
#define HR_EMIT_TENSOR_CORE_H

#include "base/text.h"

typedef enum hr_tensor_type {
    HR_TENSOR_BF16,
    HR_TENSOR_F16,
    HR_TENSOR_TF32,
    HR_TENSOR_E4M3,
    HR_TENSOR_E5M2,
    HR_TENSOR_S8,
    HR_TENSOR_U8
} hr_tensor_type;

typedef enum hr_tensor_sum { HR_TENSOR_SUM_F32, HR_TENSOR_SUM_F16, HR_TENSOR_SUM_S32 } hr_tensor_sum;

/* Where an operand of a warpgroup's product lies. */
typedef enum hr_tensor_place {
    HR_TENSOR_K_MAJOR,  /* shared memory, neighbours along k */
    HR_TENSOR_MN_MAJOR, /* shared memory, neighbours along m or n: 16-bit types */
    HR_TENSOR_REGISTERS /* A alone */
} hr_tensor_place;

/* A product of a warp has 16 rows, 8 columns and both operands in registers; one of a warpgroup has 64 rows.
 * Both take 32 bytes of k. */
typedef enum hr_tensor_threads { HR_TENSOR_WARP, HR_TENSOR_WARPGROUP } hr_tensor_threads;

typedef struct hr_tensor_core {
    hr_tensor_threads threads;
    hr_tensor_type a, b;
    hr_tensor_sum sum;
    int columns;                      /* 8 to 256 of a warpgroup, 8 of a warp */
    hr_tensor_place a_place, b_place; /* of a warpgroup */
} hr_tensor_core;

/* HR_BAD_INPUT with a sentence where there is no such instruction. */
hr_status hr_tensor_core_check(const hr_tensor_core *product);
/* "ptx_wgmma_m64n128k16_f32_bf16_bf16_k_k" (its end: where A and B lie; r: registers),
 * "ptx_mma_m16n8k16_f32_bf16_bf16" of a warp. Fits in 64 bytes. */
void hr_tensor_core_name(const hr_tensor_core *product, char *out, size_t size);

/* The functions, without repetitions:
 *   void ptx_wgmma_...(float (&d)[n / 2], uint64_t a, uint64_t b, int accumulate)  descriptors
 * (ptx_wgmma_descriptor); A in registers: const uint32_t (&a)[4]; accumulate 0 overwrites d void
 * ptx_mma_...(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])  adds to d d is of int32_t for
 * whole numbers, and for f16 of half as many uint32_t, each a pair. */
hr_status hr_tensor_core_append(const hr_tensor_core *products, int count, hr_text *out);

#endif
