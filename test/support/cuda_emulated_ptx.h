/* The PTX wrappers of src/emit/templates/ptx/ and the products of emit/cuda/tensor_core.c for emulated
 * source: the same names and parameters. What they do is the emulator's (cuda_emulation_mbarrier.c, _copy.c,
 * _tensor.c). */
#pragma once

#include "support/cuda_emulation_tensor.h"

typedef unsigned emulated_address;

extern "C" {
emulated_address emulated_shared_address(const void *place);
emulated_address emulated_cluster_address(emulated_address address, int rank);
void *emulated_shared_pointer(emulated_address address);
void emulated_mbarrier_init(emulated_address barrier, int arrivals);
void emulated_fence_mbarrier_init(void);
void emulated_mbarrier_arrive(emulated_address barrier, int bytes);
int emulated_mbarrier_wait(emulated_address barrier, int parity, int peeks);
void emulated_named_barrier(int id, int threads, int waits);
void emulated_fence_proxy(void);
void emulated_registers(int count, int gives);
void emulated_bulk_load(emulated_address to, const void *from, int bytes, emulated_address barrier);
void emulated_bulk_store(void *to, emulated_address from, int bytes, int adds);
void emulated_bulk_commit(void);
void emulated_bulk_wait(int left, int read);
void emulated_cluster_send(emulated_address to, unsigned value, emulated_address barrier);
void emulated_tensor_load(emulated_address to, const void *map, int rank, const int *at,
                          emulated_address barrier, unsigned blocks);
void emulated_tensor_store(const void *map, int rank, const int *at, emulated_address from, int adds);
void emulated_matrices(emulated_address address, unsigned *words, int count, int transposed, int stores);
void emulated_mma(int type_a, int type_b, int sum, void *d, const unsigned *a, const unsigned *b);
void emulated_wgmma(const emulated_product *what, void *d, emulated_word a, const unsigned *words,
                    emulated_word b, int accumulate);
void emulated_wgmma_fence(void);
void emulated_wgmma_commit(void);
void emulated_wgmma_wait(int left);
}

struct alignas(64) tensor_map {
    emulated_word words[16];
};

/* ---- addresses ---- */

EMULATED emulated_address ptx_shared_address(const void *place) {
    return emulated_shared_address(place);
}
EMULATED int ptx_cluster_rank() {
    return (int)emulated_cluster_rank();
}
EMULATED emulated_address ptx_cluster_address(emulated_address address, int rank) {
    return emulated_cluster_address(address, rank);
}
EMULATED_RAW void ptx_cluster_store_4(emulated_address address, unsigned value) {
    unsigned *there = (unsigned *)emulated_shared_pointer(address);
    emulated_access(there, sizeof *there, 1, 0);
    *there = value;
}
EMULATED_RAW uint4 ptx_cluster_load_16(emulated_address address) {
    const uint4 *there = (const uint4 *)emulated_shared_pointer(address);
    emulated_access(there, sizeof *there, 0, 0);
    return *there;
}
EMULATED void ptx_cluster_send_4(emulated_address address, unsigned value, emulated_address barrier) {
    emulated_cluster_send(address, value, barrier);
}

/* ---- barriers ---- */

EMULATED void ptx_mbarrier_init(emulated_address barrier, int arrivals) {
    emulated_mbarrier_init(barrier, arrivals);
}
EMULATED void ptx_fence_mbarrier_init() {
    emulated_fence_mbarrier_init();
}
EMULATED void ptx_mbarrier_arrive(emulated_address barrier) {
    emulated_mbarrier_arrive(barrier, 0);
}
EMULATED void ptx_mbarrier_arrive_expect(emulated_address barrier, int bytes) {
    emulated_mbarrier_arrive(barrier, bytes);
}
EMULATED void ptx_mbarrier_arrive_cluster(emulated_address barrier) {
    emulated_mbarrier_arrive(barrier, 0);
}
EMULATED bool ptx_mbarrier_try_wait(emulated_address barrier, int parity) {
    return emulated_mbarrier_wait(barrier, parity, 1) != 0;
}
EMULATED void ptx_mbarrier_wait(emulated_address barrier, int parity) {
    emulated_mbarrier_wait(barrier, parity, 0);
}
EMULATED void ptx_mbarrier_arrive_after_copies(emulated_address barrier) {
    emulated_copy_commit();
    emulated_copy_wait(0);
    emulated_mbarrier_arrive(barrier, 0);
}
EMULATED void ptx_barrier_sync(int id, int threads) {
    emulated_named_barrier(id, threads, 1);
}
EMULATED void ptx_barrier_arrive(int id, int threads) {
    emulated_named_barrier(id, threads, 0);
}
EMULATED void ptx_cluster_arrive() {
    emulated_cluster_arrive();
}
EMULATED void ptx_cluster_wait() {
    emulated_cluster_wait();
}
EMULATED bool ptx_elect() {
    __ballot_sync(0xffffffffu, 1);
    return threadIdx.x % 32 == 0;
}
EMULATED void ptx_fence_proxy_async() {
    emulated_fence_proxy();
}
EMULATED void ptx_fence_proxy_async_global() {}
/* Blocks run one after the other: who comes later in turn comes later here. */
EMULATED void ptx_wait_value(const int *place, int value) {
    const int there = atomicAdd((int *)place, 0);
    if (there != value) emulated_fail("waits for a value that no block before it stored");
}
EMULATED void ptx_store_release(int *place, int value) {
    atomicExch(place, value);
}
template <int COUNT> EMULATED void ptx_registers_give() {
    emulated_registers(COUNT, 1);
}
template <int COUNT> EMULATED void ptx_registers_take() {
    emulated_registers(COUNT, 0);
}
EMULATED void ptx_launch_wait() {}
EMULATED void ptx_launch_dependents() {}
EMULATED void ptx_prefetch_l2(const void *place) {
    (void)place;
}

/* ---- copies ---- */

template <int BYTES> EMULATED void ptx_copy(emulated_address to, const void *from) {
    emulated_copy(emulated_shared_pointer(to), from, BYTES, BYTES);
}
template <int BYTES> EMULATED void ptx_copy_part(emulated_address to, const void *from, int filled) {
    emulated_copy(emulated_shared_pointer(to), from, (__SIZE_TYPE__)filled, BYTES);
}
EMULATED void ptx_copy_part_past_l1(emulated_address to, const void *from, int filled) {
    emulated_copy(emulated_shared_pointer(to), from, (__SIZE_TYPE__)filled, 16);
}
EMULATED void ptx_copy_commit() {
    emulated_copy_commit();
}
template <int LEFT> EMULATED void ptx_copy_wait() {
    emulated_copy_wait(LEFT);
}
EMULATED void ptx_copy_wait_all() {
    emulated_copy_commit();
    emulated_copy_wait(0);
}
EMULATED emulated_word ptx_evict_normal() {
    return 0;
}
EMULATED emulated_word ptx_evict_first() {
    return 1;
}
EMULATED emulated_word ptx_evict_last() {
    return 2;
}
EMULATED void ptx_bulk_load(emulated_address to, const void *from, int bytes, emulated_address barrier) {
    emulated_bulk_load(to, from, bytes, barrier);
}
EMULATED void ptx_bulk_load_hint(emulated_address to, const void *from, int bytes, emulated_address barrier,
                                 emulated_word) {
    emulated_bulk_load(to, from, bytes, barrier);
}
EMULATED void ptx_bulk_store(void *to, emulated_address from, int bytes) {
    emulated_bulk_store(to, from, bytes, 0);
}
EMULATED void ptx_bulk_add_f32(void *to, emulated_address from, int bytes) {
    emulated_bulk_store(to, from, bytes, 1);
}
EMULATED void ptx_bulk_commit() {
    emulated_bulk_commit();
}
template <int LEFT> EMULATED void ptx_bulk_wait_read() {
    emulated_bulk_wait(LEFT, 1);
}
template <int LEFT> EMULATED void ptx_bulk_wait() {
    emulated_bulk_wait(LEFT, 0);
}

/* ---- tensor maps ---- */

EMULATED void ptx_tensor_prefetch(const void *) {}

#define EMULATED_AT_1 int c1
#define EMULATED_AT_2 EMULATED_AT_1, int c2
#define EMULATED_AT_3 EMULATED_AT_2, int c3
#define EMULATED_AT_4 EMULATED_AT_3, int c4
#define EMULATED_AT_5 EMULATED_AT_4, int c5
#define EMULATED_TENSOR(rank, ...)                                                                           \
    EMULATED_RAW void ptx_tensor_load_##rank##d_multicast(emulated_address to, const void *map,              \
                                                          EMULATED_AT_##rank, emulated_address barrier,      \
                                                          unsigned short blocks) {                           \
        const int at[] = {__VA_ARGS__};                                                                      \
        if (!blocks) emulated_fail("multicasts to no block");                                                \
        emulated_tensor_load(to, map, rank, at, barrier, blocks);                                            \
    }                                                                                                        \
    EMULATED_RAW void ptx_tensor_load_##rank##d(emulated_address to, const void *map, EMULATED_AT_##rank,    \
                                                emulated_address barrier) {                                  \
        const int at[] = {__VA_ARGS__};                                                                      \
        emulated_tensor_load(to, map, rank, at, barrier, 0);                                                 \
    }                                                                                                        \
    EMULATED_RAW void ptx_tensor_load_##rank##d_hint(                                                        \
        emulated_address to, const void *map, EMULATED_AT_##rank, emulated_address barrier, emulated_word) { \
        ptx_tensor_load_##rank##d(to, map, __VA_ARGS__, barrier);                                            \
    }                                                                                                        \
    EMULATED_RAW void ptx_tensor_load_##rank##d_multicast_hint(emulated_address to, const void *map,         \
                                                               EMULATED_AT_##rank, emulated_address barrier, \
                                                               unsigned short blocks, emulated_word) {       \
        ptx_tensor_load_##rank##d_multicast(to, map, __VA_ARGS__, barrier, blocks);                          \
    }                                                                                                        \
    EMULATED_RAW void ptx_tensor_store_##rank##d(const void *map, EMULATED_AT_##rank,                        \
                                                 emulated_address from) {                                    \
        const int at[] = {__VA_ARGS__};                                                                      \
        emulated_tensor_store(map, rank, at, from, 0);                                                       \
    }                                                                                                        \
    EMULATED_RAW void ptx_tensor_add_##rank##d(const void *map, EMULATED_AT_##rank, emulated_address from) { \
        const int at[] = {__VA_ARGS__};                                                                      \
        emulated_tensor_store(map, rank, at, from, 1);                                                       \
    }
EMULATED_TENSOR(1, c1)
EMULATED_TENSOR(2, c1, c2)
EMULATED_TENSOR(3, c1, c2, c3)
EMULATED_TENSOR(4, c1, c2, c3, c4)
EMULATED_TENSOR(5, c1, c2, c3, c4, c5)

/* ---- matrices ---- */

EMULATED void ptx_load_matrix_1(unsigned (&x)[1], emulated_address address) {
    emulated_matrices(address, x, 1, 0, 0);
}
EMULATED void ptx_load_matrix_2(unsigned (&x)[2], emulated_address address) {
    emulated_matrices(address, x, 2, 0, 0);
}
EMULATED void ptx_load_matrix_4(unsigned (&x)[4], emulated_address address) {
    emulated_matrices(address, x, 4, 0, 0);
}
EMULATED void ptx_load_matrix_2_transposed(unsigned (&x)[2], emulated_address address) {
    emulated_matrices(address, x, 2, 1, 0);
}
EMULATED void ptx_load_matrix_4_transposed(unsigned (&x)[4], emulated_address address) {
    emulated_matrices(address, x, 4, 1, 0);
}
EMULATED void ptx_store_matrix_2(emulated_address address, const unsigned (&x)[2]) {
    emulated_matrices(address, (unsigned *)x, 2, 0, 1);
}
EMULATED void ptx_store_matrix_4(emulated_address address, const unsigned (&x)[4]) {
    emulated_matrices(address, (unsigned *)x, 4, 0, 1);
}
EMULATED void ptx_store_matrix_4_transposed(emulated_address address, const unsigned (&x)[4]) {
    emulated_matrices(address, (unsigned *)x, 4, 1, 1);
}

/* ---- products ---- */

EMULATED void ptx_wgmma_fence() {
    emulated_wgmma_fence();
}
EMULATED void ptx_wgmma_commit() {
    emulated_wgmma_commit();
}
template <int LEFT> EMULATED void ptx_wgmma_wait() {
    emulated_wgmma_wait(LEFT);
}
EMULATED emulated_word ptx_wgmma_descriptor(emulated_address address, int leading, int stride, int swizzle) {
    return (emulated_word)((address & 0x3ffff) >> 4) | (emulated_word)(leading >> 4) << 16 |
           (emulated_word)(stride >> 4) << 32 | (emulated_word)swizzle << 62;
}

/* ptx_wgmma_m64n64k16_f32_bf16_bf16_k_mn and its kin. */
#define EMULATED_WGMMA_PLACES(name, n, element, count, a, b, sum, a_place, b_place, a_letter, b_letter)      \
    EMULATED_RAW void name##_##a_letter##_##b_letter(element(&d)[count], emulated_word x, emulated_word y,   \
                                                     int accumulate) {                                       \
        static const emulated_product what = {a, b, sum, n, a_place, b_place};                               \
        emulated_wgmma(&what, d, x, nullptr, y, accumulate);                                                 \
    }
#define EMULATED_WGMMA_REGISTERS(name, n, element, count, a, b, sum, b_place, b_letter)                      \
    EMULATED_RAW void name##_r_##b_letter(element(&d)[count], const unsigned(&x)[4], emulated_word y,        \
                                          int accumulate) {                                                  \
        static const emulated_product what = {a, b, sum, n, EMULATED_REGISTERS, b_place};                    \
        emulated_wgmma(&what, d, 0, x, y, accumulate);                                                       \
    }
#define EMULATED_WGMMA_K(name, n, element, count, a, b, sum)                                                 \
    EMULATED_WGMMA_PLACES(name, n, element, count, a, b, sum, EMULATED_K_MAJOR, EMULATED_K_MAJOR, k, k)      \
    EMULATED_WGMMA_REGISTERS(name, n, element, count, a, b, sum, EMULATED_K_MAJOR, k)
#define EMULATED_WGMMA_ANY(name, n, element, count, a, b, sum)                                               \
    EMULATED_WGMMA_K(name, n, element, count, a, b, sum)                                                     \
    EMULATED_WGMMA_PLACES(name, n, element, count, a, b, sum, EMULATED_K_MAJOR, EMULATED_MN_MAJOR, k, mn)    \
    EMULATED_WGMMA_PLACES(name, n, element, count, a, b, sum, EMULATED_MN_MAJOR, EMULATED_K_MAJOR, mn, k)    \
    EMULATED_WGMMA_PLACES(name, n, element, count, a, b, sum, EMULATED_MN_MAJOR, EMULATED_MN_MAJOR, mn, mn)  \
    EMULATED_WGMMA_REGISTERS(name, n, element, count, a, b, sum, EMULATED_MN_MAJOR, mn)
#define EMULATED_WGMMA_F8(n, a, b, a_name, b_name)                                                           \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_f32_##a_name##_##b_name, n, float, n / 2, a, b,                  \
                     EMULATED_SUM_F32)                                                                       \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_f16_##a_name##_##b_name, n, unsigned, n / 4, a, b,               \
                     EMULATED_SUM_F16)
#define EMULATED_WGMMA(n)                                                                                    \
    EMULATED_WGMMA_ANY(ptx_wgmma_m64n##n##k16_f32_bf16_bf16, n, float, n / 2, EMULATED_BF16, EMULATED_BF16,  \
                       EMULATED_SUM_F32)                                                                     \
    EMULATED_WGMMA_ANY(ptx_wgmma_m64n##n##k16_f32_f16_f16, n, float, n / 2, EMULATED_F16, EMULATED_F16,      \
                       EMULATED_SUM_F32)                                                                     \
    EMULATED_WGMMA_ANY(ptx_wgmma_m64n##n##k16_f16_f16_f16, n, unsigned, n / 4, EMULATED_F16, EMULATED_F16,   \
                       EMULATED_SUM_F16)                                                                     \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k8_f32_tf32_tf32, n, float, n / 2, EMULATED_TF32, EMULATED_TF32,     \
                     EMULATED_SUM_F32)                                                                       \
    EMULATED_WGMMA_F8(n, EMULATED_E4M3, EMULATED_E4M3, e4m3, e4m3)                                           \
    EMULATED_WGMMA_F8(n, EMULATED_E4M3, EMULATED_E5M2, e4m3, e5m2)                                           \
    EMULATED_WGMMA_F8(n, EMULATED_E5M2, EMULATED_E4M3, e5m2, e4m3)                                           \
    EMULATED_WGMMA_F8(n, EMULATED_E5M2, EMULATED_E5M2, e5m2, e5m2)
#define EMULATED_WGMMA_WHOLE(n)                                                                              \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_s32_s8_s8, n, int, n / 2, EMULATED_S8, EMULATED_S8,              \
                     EMULATED_SUM_S32)                                                                       \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_s32_s8_u8, n, int, n / 2, EMULATED_S8, EMULATED_U8,              \
                     EMULATED_SUM_S32)                                                                       \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_s32_u8_s8, n, int, n / 2, EMULATED_U8, EMULATED_S8,              \
                     EMULATED_SUM_S32)                                                                       \
    EMULATED_WGMMA_K(ptx_wgmma_m64n##n##k32_s32_u8_u8, n, int, n / 2, EMULATED_U8, EMULATED_U8,              \
                     EMULATED_SUM_S32)
#define EMULATED_WIDTHS_16(one)                                                                              \
    one(16) one(32) one(48) one(64) one(80) one(96) one(112) one(128) one(144) one(160) one(176) one(192)    \
        one(208) one(224) one(240) one(256)
#define EMULATED_WIDTHS_8(one)                                                                               \
    one(8) one(24) one(40) one(56) one(72) one(88) one(104) one(120) one(136) one(152) one(168) one(184)     \
        one(200) one(216) one(232) one(248)
EMULATED_WIDTHS_16(EMULATED_WGMMA)
EMULATED_WIDTHS_8(EMULATED_WGMMA)
EMULATED_WIDTHS_16(EMULATED_WGMMA_WHOLE)
EMULATED_WGMMA_WHOLE(8)
EMULATED_WGMMA_WHOLE(24)

#define EMULATED_MMA(k, sum_name, a_name, b_name, a, b, sum, element, count)                                 \
    EMULATED_RAW void ptx_mma_m16n8k##k##_##sum_name##_##a_name##_##b_name(                                  \
        element(&d)[count], const unsigned(&x)[4], const unsigned(&y)[2]) {                                  \
        emulated_mma(a, b, sum, d, x, y);                                                                    \
    }
#define EMULATED_MMA_F8(a_name, b_name, a, b)                                                                \
    EMULATED_MMA(32, f32, a_name, b_name, a, b, EMULATED_SUM_F32, float, 4)                                  \
    EMULATED_MMA(32, f16, a_name, b_name, a, b, EMULATED_SUM_F16, unsigned, 2)
EMULATED_MMA(16, f32, bf16, bf16, EMULATED_BF16, EMULATED_BF16, EMULATED_SUM_F32, float, 4)
EMULATED_MMA(16, f32, f16, f16, EMULATED_F16, EMULATED_F16, EMULATED_SUM_F32, float, 4)
EMULATED_MMA(16, f16, f16, f16, EMULATED_F16, EMULATED_F16, EMULATED_SUM_F16, unsigned, 2)
EMULATED_MMA(8, f32, tf32, tf32, EMULATED_TF32, EMULATED_TF32, EMULATED_SUM_F32, float, 4)
EMULATED_MMA_F8(e4m3, e4m3, EMULATED_E4M3, EMULATED_E4M3)
EMULATED_MMA_F8(e4m3, e5m2, EMULATED_E4M3, EMULATED_E5M2)
EMULATED_MMA_F8(e5m2, e4m3, EMULATED_E5M2, EMULATED_E4M3)
EMULATED_MMA_F8(e5m2, e5m2, EMULATED_E5M2, EMULATED_E5M2)
EMULATED_MMA(32, s32, s8, s8, EMULATED_S8, EMULATED_S8, EMULATED_SUM_S32, int, 4)
EMULATED_MMA(32, s32, s8, u8, EMULATED_S8, EMULATED_U8, EMULATED_SUM_S32, int, 4)
EMULATED_MMA(32, s32, u8, s8, EMULATED_U8, EMULATED_S8, EMULATED_SUM_S32, int, 4)
EMULATED_MMA(32, s32, u8, u8, EMULATED_U8, EMULATED_U8, EMULATED_SUM_S32, int, 4)
