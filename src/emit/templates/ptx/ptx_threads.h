/* What orders threads and what they share: named barriers, barriers of a cluster, fences, registers,
 * launches. */

/* All of `threads` (whole warps) arrive at barrier `id` (0 to 15; 0 is __syncthreads') before any goes on. */
static __device__ inline void ptx_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Counts for barrier `id` without waiting. */
static __device__ inline void ptx_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

static __device__ inline void ptx_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ inline void ptx_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* True in one thread of a whole warp. */
static __device__ inline bool ptx_elect() {
    uint32_t elected;
    asm volatile("{\n.reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(elected));
    return elected != 0;
}

/* What this thread wrote to shared memory with ordinary stores is seen by the copy engine and the tensor
 * cores. */
static __device__ inline void ptx_fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The same of memory, both ways: after another thread's word, before one's own. */
static __device__ inline void ptx_fence_proxy_async_global() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* Waits until another thread of the device has stored that value, with all that it did before. */
static __device__ inline void ptx_wait_value(const int *place, int value) {
    int there;
    do
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(there) : "l"(place) : "memory");
    while (there != value);
}

static __device__ inline void ptx_store_release(int *place, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(place), "r"(value) : "memory");
}

/* Registers of each thread of this warpgroup: fewer than before, or more (waits until others gave them back).
 * A multiple of 8 from 24 to 256. */
template <int COUNT> static __device__ inline void ptx_registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ inline void ptx_registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* What the launch before wrote may be read after this. */
static __device__ inline void ptx_launch_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

static __device__ inline void ptx_prefetch_l2(const void *place) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
}

static __device__ inline void ptx_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;");
}
