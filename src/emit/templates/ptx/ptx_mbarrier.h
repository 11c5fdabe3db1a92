/* Barriers in shared memory (8 bytes, aligned). A phase ends when all expected threads have arrived and all
 * expected bytes are there; then the next begins. `parity` is 0 for the first phase, 1 for the next, and so
 * on. */

static __device__ inline void ptx_mbarrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* After the inits, before a barrier of the block or cluster: the copy engine and other blocks see them. */
static __device__ inline void ptx_fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ inline void ptx_mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and so many bytes are expected in this phase. */
static __device__ inline void ptx_mbarrier_arrive_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* `barrier` from ptx_cluster_address. It releases reads that are over; for stores to be seen there it would
 * need .release.cluster, which puts a fence of the whole device into the loop. */
static __device__ inline void ptx_mbarrier_arrive_cluster(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Whether the phase of that parity has ended; waits a little for it. */
static __device__ inline bool ptx_mbarrier_try_wait(uint32_t barrier, int parity) {
    uint32_t ended;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}

static __device__ inline void ptx_mbarrier_wait(uint32_t barrier, int parity) {
    while (!ptx_mbarrier_try_wait(barrier, parity)) {
    }
}

/* Arrives when this thread's cp.async copies until here have landed; the phase must count this arrival. */
static __device__ inline void ptx_mbarrier_arrive_after_copies(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
