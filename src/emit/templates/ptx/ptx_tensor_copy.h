/* The copies of one rank. RANKd, PARAMETERS, COORDINATES, and the lists of operands from 2, 3, 4 and 5 on are
 * holes, filled for ranks 1 to 5 as the library is built (tools/make_prelude.c). */

static __device__ inline void ptx_tensor_load_RANKd(uint32_t to, const void *map, PARAMETERS,
                                                    uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{COORDINATES_FROM_3}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), COORDINATES
                 : "memory");
}

static __device__ inline void ptx_tensor_load_RANKd_hint(uint32_t to, const void *map, PARAMETERS,
                                                         uint32_t barrier, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {COORDINATES_FROM_4}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "l"(policy), COORDINATES
        : "memory");
}

/* To the same address, and counted by the barrier of the same address, in each block of the cluster whose bit
 * is set. */
static __device__ inline void ptx_tensor_load_RANKd_multicast(uint32_t to, const void *map, PARAMETERS,
                                                              uint32_t barrier, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {COORDINATES_FROM_4}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), COORDINATES
                 : "memory");
}

static __device__ inline void ptx_tensor_load_RANKd_multicast_hint(uint32_t to, const void *map, PARAMETERS,
                                                                   uint32_t barrier, uint16_t blocks,
                                                                   uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1, {COORDINATES_FROM_5}], [%2], %3, %4;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "l"(policy), COORDINATES
        : "memory");
}

static __device__ inline void ptx_tensor_store_RANKd(const void *map, PARAMETERS, uint32_t from) {
    asm volatile(
        "cp.async.bulk.tensor.RANKd.global.shared::cta.bulk_group [%0, {COORDINATES_FROM_2}], [%1];" ::"l"(
            map),
        "r"(from), COORDINATES
        : "memory");
}

/* Adds in the L2, in the map's type. */
static __device__ inline void ptx_tensor_add_RANKd(const void *map, PARAMETERS, uint32_t from) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.RANKd.global.shared::cta.add.bulk_group [%0, {COORDINATES_FROM_2}], "
        "[%1];" ::"l"(map),
        "r"(from), COORDINATES
        : "memory");
}
