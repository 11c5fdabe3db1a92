/* Rows that begin anywhere in memory: a block's rows follow each other there, and where they begin and end at
 * multiples of 16 bytes they come to shared memory in one copy, and leave in one, whatever the length of a
 * row is. What is beyond whole pieces of 16 bytes, at the end of a tensor, the threads copy themselves. */
template <bool ALIGNED, int THREADS, class T>
static __device__ inline void copy_rest(T *to, const T *from, int whole, int count) {
    const int first = whole + (int)threadIdx.x;
    if (ALIGNED && first < count) to[first] = from[first]; /* there are fewer than threads */
    for (int k = first; !ALIGNED && k < count; k += THREADS)
        to[k] = from[k];
}

/* Elements of `count` that whole pieces hold. */
template <bool ALIGNED, class T> static __device__ inline int whole_pieces(int count) {
    const int run = 16 / (int)sizeof(T);
    return ALIGNED ? (int)((uint32_t)count / run * run) : 0;
}

/* For all threads; what they copied themselves is there after a barrier. */
template <bool ALIGNED, int THREADS, class T>
static __device__ inline void begin_rows(T *to, const T *from, int count, uint64_t *arrived, bool last) {
    const int whole = whole_pieces<ALIGNED, T>(count), bytes = whole * (int)sizeof(T);
    if (threadIdx.x == 0) {
        expect_bytes(arrived, bytes);
        if (bytes) copy_in(to, from, bytes, arrived, last);
    }
    copy_rest<ALIGNED, THREADS>(to, from, whole, count);
}

/* After hand_over(). */
template <bool ALIGNED, int THREADS, class T>
static __device__ inline void return_rows(T *to, const T *from, int count) {
    const int whole = whole_pieces<ALIGNED, T>(count);
    if (threadIdx.x == 0) copy_out(to, from, whole * (int)sizeof(T));
    copy_rest<ALIGNED, THREADS>(to, from, whole, count);
}

/* A group from shared memory and into it; `apart`: it does not begin at a whole word. */
template <int V, class T> static __device__ inline group<T, V> load_staged(const T *place, bool apart) {
    return apart ? load_group<false, V>(place, stay::plain) : load_group<true, V>(place, stay::plain);
}

template <int V, class T>
static __device__ inline void store_staged(T *place, const group<T, V> &x, bool apart) {
    if (apart)
        store_group<false>(place, x);
    else
        store_group<true>(place, x);
}
