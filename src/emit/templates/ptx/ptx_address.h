/* Addresses of shared memory as the instructions take them: 32 bits. That of a block of the cluster differs
 * from the same place in another block, and every instruction on shared::cluster takes either. */

static __device__ inline uint32_t ptx_shared_address(const void *place) {
    return (uint32_t)__cvta_generic_to_shared(place);
}

/* The place of this block in its cluster. */
static __device__ inline int ptx_cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

/* Where `address` of this block stands in the block of that rank. */
static __device__ inline uint32_t ptx_cluster_address(uint32_t address, int rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

static __device__ inline void ptx_cluster_store_4(uint32_t address, uint32_t value) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

static __device__ inline uint4 ptx_cluster_load_16(uint32_t address) {
    uint4 x;
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}

/* Stores 4 bytes in a block of the cluster; the barrier, of the same block, counts them when they are there.
 */
static __device__ inline void ptx_cluster_send_4(uint32_t address, uint32_t value, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
                 "r"(value), "r"(barrier)
                 : "memory");
}
