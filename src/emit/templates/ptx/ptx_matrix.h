/* 8 x 8 blocks of 16-bit elements between shared memory and the registers of a warp, and products of a warp.
 * Lanes 8 i to 8 i + 7 give the addresses of block i's rows, 16 bytes each; then lane l has in register i the
 * elements of row l / 4, columns 2 (l % 4) and the next. Transposed: of column l / 4, rows 2 (l % 4) and the
 * next. */

static __device__ inline void ptx_load_matrix_1(uint32_t (&x)[1], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(x[0])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void ptx_load_matrix_2(uint32_t (&x)[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void ptx_load_matrix_4(uint32_t (&x)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void ptx_load_matrix_2_transposed(uint32_t (&x)[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void ptx_load_matrix_4_transposed(uint32_t (&x)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

static __device__ inline void ptx_store_matrix_2(uint32_t address, const uint32_t (&x)[2]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(x[0]),
                 "r"(x[1])
                 : "memory");
}

static __device__ inline void ptx_store_matrix_4(uint32_t address, const uint32_t (&x)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]),
                 "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}

static __device__ inline void ptx_store_matrix_4_transposed(uint32_t address, const uint32_t (&x)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}
