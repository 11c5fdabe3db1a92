/* Rows that pass through shared memory: the multiprocessor's copy engine brings them in and takes them out,
 * so that no thread waits for memory behind what others have asked for.
 *
 * `arrived` is a barrier in shared memory. A phase of it ends when all its threads have come and all bytes
 * that they expect are there; `parity` is 0 for its first phase, 1 for the next, and so on in turn. Emulated,
 * a barrier of all threads stands for it, and copies are made by the thread that begins them.
 */
static __device__ inline uint32_t shared_place(const void *place) {
#ifdef HR_EMULATED
    return 0;
#else
    return (uint32_t)__cvta_generic_to_shared(place);
#endif
}

static __device__ inline void begin_arrivals(uint64_t *arrived, int threads) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_place(arrived)), "r"(threads) : "memory");
#endif
}

/* Before a barrier of all: what was begun is seen by the copy engine and by the other blocks. */
static __device__ inline void publish_arrivals() {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* This thread has come, and so many bytes will. */
static __device__ inline void expect_bytes(uint64_t *arrived, int bytes) {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_place(arrived)), "r"(bytes)
                 : "memory");
#endif
}

static __device__ inline void wait_for_arrivals(uint64_t *arrived, int parity) {
#if defined HR_EMULATED
    __syncthreads();
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    uint32_t ended = 0;
    while (!ended)
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(ended)
                     : "r"(shared_place(arrived)), "r"(parity)
                     : "memory");
#endif
}

/* Begins a copy from memory to shared memory; `arrived` expects it. Places and bytes are multiples of 16, and
 * there may be none. */
static __device__ inline void copy_in(void *to, const void *from, int bytes, uint64_t *arrived, bool last) {
#if defined HR_EMULATED
    for (int at = 0; at < bytes / 16; at++)
        ((uint4 *)to)[at] = ((const uint4 *)from)[at];
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    if (last)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], "
            "%2, [%3], %4;" ::"r"(shared_place(to)),
            "l"(from), "r"(bytes), "r"(shared_place(arrived)), "l"(leaves_last())
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_place(to)),
            "l"(from), "r"(bytes), "r"(shared_place(arrived))
            : "memory");
#endif
}

/* Begins a copy from shared memory to memory. */
static __device__ inline void copy_out(void *to, const void *from, int bytes) {
#if defined HR_EMULATED
    for (int at = 0; at < bytes / 16; at++)
        ((uint4 *)to)[at] = ((const uint4 *)from)[at];
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    if (bytes == 0) return;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_place(from)), "r"(bytes)
                 : "memory");
#endif
}

/* All that the block's threads wrote to shared memory may be copied out after this. */
static __device__ inline void hand_over() {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
}

/* What this thread copied out until here is one run of copies; all runs but the last LEFT have been read from
 * shared memory. */
static __device__ inline void end_run_out() {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

template <int LEFT> static __device__ inline void wait_for_runs_out() {
#if !defined HR_EMULATED && defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
#endif
}

/* Writes a word to where `place` stands in the block of that rank; its `arrived` expects 4 bytes. Unlike a
 * store and a barrier of the cluster this waits for none of the thread's stores to memory. */
static __device__ inline void send_4(void *place, int rank, uint32_t value, uint64_t *arrived) {
#if defined HR_EMULATED
    hr_emulated_cluster_store(place, rank, &value, 4);
#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    uint32_t there, signal;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_place(place)), "r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(signal)
                 : "r"(shared_place(arrived)), "r"(rank));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(there),
                 "r"(value), "r"(signal)
                 : "memory");
#endif
}

/* As wait_for_arrivals, for what the blocks of a cluster sent. */
static __device__ inline void wait_for_blocks(uint64_t *arrived, int parity) {
#ifdef HR_EMULATED
    cluster_barrier();
#else
    wait_for_arrivals(arrived, parity);
#endif
}

/* Each block of a cluster sends its own `x` to all of them: that of block b comes to slots[b]. */
template <int BLOCKS, class T>
static __device__ inline void send_share(const T &x, T *slots, uint64_t *arrived) {
    uint32_t word[sizeof(T) / 4];
    memcpy(word, &x, sizeof x);
    if (threadIdx.x == 0) expect_bytes(arrived, BLOCKS * (int)sizeof(T));
    if (threadIdx.x < BLOCKS)
#pragma unroll
        for (int w = 0; w < (int)(sizeof(T) / 4); w++)
            send_4((uint32_t *)(slots + cluster_rank()) + w, (int)threadIdx.x, word[w], arrived);
}

/* As reduce_cluster, by messages. */
template <int BLOCKS, class OP, class T>
static __device__ inline T meet_cluster(T x, T *slots, uint64_t *arrived, int parity) {
    send_share<BLOCKS>(x, slots, arrived);
    wait_for_blocks(arrived, parity);
    x = slots[0];
#pragma unroll
    for (int b = 1; b < BLOCKS; b++)
        x = OP::of(x, slots[b]);
    return x;
}

/* The next `count` rows that nobody has taken: multiprocessors differ in speed by a quarter, so a fixed share
 * each would wait for the slowest. */
static __device__ inline int64_t take_rows(char *counter, int count) {
    return (int64_t)atomicAdd((unsigned long long *)counter, (unsigned long long)count);
}

/* One warp of a cluster tells all blocks the row that its first lane knows, the first thread of each block
 * expects it, and all threads hear it. */
template <int BLOCKS> static __device__ inline void tell_row(int64_t *place, int64_t row, uint64_t *arrived) {
    const uint32_t low = __shfl_sync(0xffffffffu, (uint32_t)row, 0);
    const uint32_t high = __shfl_sync(0xffffffffu, (uint32_t)((uint64_t)row >> 32), 0);
    if (threadIdx.x % 32 >= BLOCKS) return;
    send_4(place, (int)threadIdx.x % 32, low, arrived);
    send_4((uint32_t *)place + 1, (int)threadIdx.x % 32, high, arrived);
}

static __device__ inline void expect_row(uint64_t *arrived) {
    if (threadIdx.x == 0) expect_bytes(arrived, 8);
}

static __device__ inline int64_t hear_row(const int64_t *place, uint64_t *arrived, int parity) {
    wait_for_blocks(arrived, parity);
    return *place;
}

/* What was unpacked from the groups is not kept: registers hold them packed, and a later pass unpacks anew.
 */
template <class T, int V, int GROUPS> static __device__ inline void keep_packed(group<T, V> (&x)[GROUPS]) {
#ifndef HR_EMULATED
#pragma unroll
    for (int u = 0; u < GROUPS; u++)
#pragma unroll
        for (int w = 0; w < (int)(sizeof x[u].word / 4); w++)
            asm("" : "+r"(x[u].word[w]));
#endif
}

/* A group of a result: to its place in shared memory, from where it is copied out, or straight to memory. */
template <bool ALIGNED, int V, class T>
static __device__ inline void leave_group(group<T, V> *slot, T *place, const group<T, V> &x) {
    if (ALIGNED)
        *slot = x;
    else
        store_group<false>(place, x);
}
