/* Rows that pass through shared memory: the multiprocessor's copy engine brings them in and takes them out,
 * so that no thread waits for memory behind the copies of others.
 *
 * `arrived` is a barrier in shared memory. A phase of it ends when all its threads have come and all bytes
 * that they expect are there; `parity` is 0 for its first phase, 1 for the next, and so on in turn.
 */
static __device__ inline void begin_arrivals(uint64_t *arrived, int threads) {
    ptx_mbarrier_init(ptx_shared_address(arrived), threads);
}

/* This thread has come, and so many bytes will. */
static __device__ inline void expect_bytes(uint64_t *arrived, int bytes) {
    ptx_mbarrier_arrive_expect(ptx_shared_address(arrived), bytes);
}

static __device__ inline void wait_for_arrivals(uint64_t *arrived, int parity) {
    ptx_mbarrier_wait(ptx_shared_address(arrived), parity);
}

/* Begins a copy from memory to shared memory; `arrived` expects it. Places and bytes are multiples of 16, and
 * there may be none. */
static __device__ inline void copy_in(void *to, const void *from, int bytes, uint64_t *arrived, bool last) {
    const uint32_t place = ptx_shared_address(to), barrier = ptx_shared_address(arrived);
    if (last)
        ptx_bulk_load_hint(place, from, bytes, barrier, ptx_evict_last());
    else
        ptx_bulk_load(place, from, bytes, barrier);
}

/* Begins a copy from shared memory to memory. */
static __device__ inline void copy_out(void *to, const void *from, int bytes) {
    if (bytes > 0) ptx_bulk_store(to, ptx_shared_address(from), bytes);
}

/* All that the block's threads wrote to shared memory may be copied out after this. */
static __device__ inline void hand_over() {
    ptx_fence_proxy_async();
    __syncthreads();
}

/* Writes a word to where `place` stands in the block of that rank; its `arrived` expects 4 bytes. Unlike a
 * store and a barrier of the cluster this waits for none of the thread's stores to memory. */
static __device__ inline void send_4(void *place, int rank, uint32_t value, uint64_t *arrived) {
    ptx_cluster_send_4(ptx_cluster_address(ptx_shared_address(place), rank), value,
                       ptx_cluster_address(ptx_shared_address(arrived), rank));
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
            send_4((uint32_t *)(slots + ptx_cluster_rank()) + w, (int)threadIdx.x, word[w], arrived);
}

/* As reduce_cluster, by messages. */
template <int BLOCKS, class OP, class T>
static __device__ inline T reduce_cluster_by_messages(T x, T *slots, uint64_t *arrived, int parity) {
    send_share<BLOCKS>(x, slots, arrived);
    wait_for_arrivals(arrived, parity);
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
template <int BLOCKS>
static __device__ inline void publish_row(int64_t *place, int64_t row, uint64_t *arrived) {
    const uint32_t low = __shfl_sync(0xffffffffu, (uint32_t)row, 0);
    const uint32_t high = __shfl_sync(0xffffffffu, (uint32_t)((uint64_t)row >> 32), 0);
    if (threadIdx.x % 32 >= BLOCKS) return;
    send_4(place, (int)threadIdx.x % 32, low, arrived);
    send_4((uint32_t *)place + 1, (int)threadIdx.x % 32, high, arrived);
}

static __device__ inline void expect_row(uint64_t *arrived) {
    if (threadIdx.x == 0) expect_bytes(arrived, 8);
}

static __device__ inline int64_t await_row(const int64_t *place, uint64_t *arrived, int parity) {
    wait_for_arrivals(arrived, parity);
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
