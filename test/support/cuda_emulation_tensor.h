/* What the emulator and the emulated source call the types and places of a product's operands: in C and C++,
 * without headers of the system. */
#ifndef HR_TEST_CUDA_EMULATION_TENSOR_H
#define HR_TEST_CUDA_EMULATION_TENSOR_H

enum emulated_type {
    EMULATED_BF16,
    EMULATED_F16,
    EMULATED_TF32,
    EMULATED_E4M3,
    EMULATED_E5M2,
    EMULATED_S8,
    EMULATED_U8
};

enum emulated_sum { EMULATED_SUM_F32, EMULATED_SUM_F16, EMULATED_SUM_S32 };
enum emulated_operand_place { EMULATED_K_MAJOR, EMULATED_MN_MAJOR, EMULATED_REGISTERS };

typedef struct emulated_product {
    int a, b, sum, columns, a_place, b_place;
} emulated_product;

static inline int emulated_type_bytes(int type) {
    return type == EMULATED_TF32 ? 4 : type <= EMULATED_F16 ? 2 : 1;
}

#endif
