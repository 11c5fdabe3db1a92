/* Asynchronous copies: by a thread's own cp.async, and in bulk by the copy engine. Addresses and sizes of
 * bulk copies are multiples of 16 bytes. */

/* BYTES (4, 8 or 16) from memory to shared memory by way of the L1. */
template <int BYTES> static __device__ inline void ptx_copy(uint32_t to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

/* The first `filled` come from memory, the rest are zeros. */
template <int BYTES> static __device__ inline void ptx_copy_part(uint32_t to, const void *from, int filled) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(filled)
                 : "memory");
}

/* 16 bytes past the L1, the first `filled` from memory. */
static __device__ inline void ptx_copy_part_past_l1(uint32_t to, const void *from, int filled) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(filled)
                 : "memory");
}

static __device__ inline void ptx_copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All groups of this thread but the last LEFT have landed. */
template <int LEFT> static __device__ inline void ptx_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

static __device__ inline void ptx_copy_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Policies of the L2 for what a copy brings. */
static __device__ inline uint64_t ptx_evict_normal() {
    return 0x1000000000000000;
}

static __device__ inline uint64_t ptx_evict_first() {
    return 0x12f0000000000000;
}

static __device__ inline uint64_t ptx_evict_last() {
    return 0x14f0000000000000;
}

/* Memory to shared memory of this block; `barrier` counts the bytes. */
static __device__ inline void ptx_bulk_load(uint32_t to, const void *from, int bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

static __device__ inline void ptx_bulk_load_hint(uint32_t to, const void *from, int bytes, uint32_t barrier,
                                                 uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], "
        "%2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}

static __device__ inline void ptx_bulk_store(void *to, uint32_t from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

/* Adds f32 in the L2. */
static __device__ inline void ptx_bulk_add_f32(void *to, uint32_t from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

/* This thread's bulk and tensor stores until here are one group. */
static __device__ inline void ptx_bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* All groups but the last LEFT have been read from shared memory: it may be written to. */
template <int LEFT> static __device__ inline void ptx_bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

/* All groups but the last LEFT are in memory. */
template <int LEFT> static __device__ inline void ptx_bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory");
}
