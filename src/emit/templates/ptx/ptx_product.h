/* Products of a warpgroup, without the product itself: that has a function for each type and width, printed
 * where it is used (emit/cuda/tensor_core.c). */

/* Before the first product after ordinary code touched its accumulators or its A in registers. */
static __device__ inline void ptx_wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void ptx_wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All groups but the last LEFT are done. */
template <int LEFT> static __device__ inline void ptx_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* What wgmma reads of shared memory: the first byte, the bytes from one block of columns to the next
 * (leading) and of rows to the next (stride), and the swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32. The
 * low word alone moves with the address, in units of 16 bytes. */
static __device__ inline uint64_t ptx_wgmma_descriptor(uint32_t address, int leading, int stride,
                                                       int swizzle) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)swizzle << 62;
}
