/* Reductions over the threads that hold a row: shuffles in a warp, shared memory among warps, each other's
 * shared memory among the blocks of a cluster. Always in the same order, so results do not depend on timing.
 */
struct reduce_sum {
    template <class T> static __device__ inline T of(T a, T b) { return a + b; }
};

static __device__ inline float larger(float a, float b) {
    return f32_max(a, b);
}
static __device__ inline double larger(double a, double b) {
    return f64_max(a, b);
}
static __device__ inline int32_t larger(int32_t a, int32_t b) {
    return i32_max(a, b);
}
static __device__ inline int64_t larger(int64_t a, int64_t b) {
    return i64_max(a, b);
}

static __device__ inline float smaller(float a, float b) {
    return f32_min(a, b);
}
static __device__ inline double smaller(double a, double b) {
    return f64_min(a, b);
}
static __device__ inline int32_t smaller(int32_t a, int32_t b) {
    return i32_min(a, b);
}
static __device__ inline int64_t smaller(int64_t a, int64_t b) {
    return i64_min(a, b);
}

struct reduce_max {
    template <class T> static __device__ inline T of(T a, T b) { return larger(a, b); }
};

struct reduce_min {
    template <class T> static __device__ inline T of(T a, T b) { return smaller(a, b); }
};

/* A value and its position in the row; at < 0: none. */
template <class T> struct found {
    T value;
    int64_t at;
};

/* A NaN comes before all else; of equal ones the first counts. */
template <bool LARGEST> struct reduce_found {
    template <class T> static __device__ inline found<T> of(found<T> a, found<T> b) {
        if (b.at < 0 || a.at < 0) return a.at < 0 ? b : a;
        bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        bool better = (b_nan && !a_nan) || (!a_nan && (LARGEST ? b.value > a.value : b.value < a.value));
        bool equal = (a_nan && b_nan) || a.value == b.value;
        return better || (equal && b.at < a.at) ? b : a;
    }
};

template <class T> static __device__ inline T shuffle_xor(T x, int distance) {
    uint32_t word[sizeof(T) / 4];
    memcpy(word, &x, sizeof x);
#pragma unroll
    for (int w = 0; w < (int)(sizeof(T) / 4); w++)
        word[w] = __shfl_xor_sync(0xffffffffu, word[w], distance);
    memcpy(&x, word, sizeof x);
    return x;
}

/* Over LANES neighbouring lanes, a power of two up to 32; all get the result. */
template <int LANES, class OP, class T> static __device__ inline T reduce_lanes(T x) {
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        x = OP::of(x, shuffle_xor(x, distance));
    return x;
}

/* Over THREADS threads of a block, in two halves with a barrier between them: each warp leaves its share in
 * `slots`, shared memory not in use since the barrier before the last; then all threads add the shares. Up to
 * 8 warps or a power of two. */
template <int THREADS, class OP, class T> static __device__ inline void leave_share(T x, T *slots) {
    x = reduce_lanes<32, OP>(x);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = x;
}

template <int THREADS, class OP, class T> static __device__ inline T take_shares(const T *slots) {
    const int warps = THREADS / 32;
    if (warps > 8)
        return reduce_lanes<(warps > 8 ? warps : 1), OP>(slots[threadIdx.x % (warps > 8 ? warps : 1)]);
    T x = slots[0];
#pragma unroll
    for (int w = 1; w < warps; w++)
        x = OP::of(x, slots[w]);
    return x;
}

/* The same at once; where a row is held by neighbouring threads of a warp, THREADS is fewer and `slots` is
 * not used. */
template <int THREADS, class OP, class T> static __device__ inline T reduce_row(T x, T *slots) {
    if (THREADS <= 32) return reduce_lanes<(THREADS < 32 ? THREADS : 32), OP>(x);
    leave_share<THREADS, OP>(x, slots);
    __syncthreads();
    return take_shares<THREADS, OP>(slots);
}

/* Over the BLOCKS blocks of a cluster, each of which has its own sum `x` in all threads. */
template <int BLOCKS, class OP, class T> static __device__ inline T reduce_cluster(T x, T *slots) {
    uint32_t word[sizeof(T) / 4];
    memcpy(word, &x, sizeof x);
    if (threadIdx.x < BLOCKS)
#pragma unroll
        for (int w = 0; w < (int)(sizeof(T) / 4); w++)
            cluster_store_4((uint32_t *)(slots + cluster_rank()) + w, (int)threadIdx.x, word[w]);
    cluster_barrier();
    x = slots[0];
#pragma unroll
    for (int b = 1; b < BLOCKS; b++)
        x = OP::of(x, slots[b]);
    return x;
}

/* The largest so far and the sum of exp(x - peak), in one pass: as the peak rises the sum is scaled down.
 * Where the peak is infinite, exp(x) itself is added up. */
static __device__ inline float online_base(float peak) {
    return fabsf(peak) == INFINITY ? 0.0f : peak;
}

template <int V> static __device__ inline void online_add(float &peak, float &sum, const float (&values)[V]) {
    float top = peak;
#pragma unroll
    for (int v = 0; v < V; v++)
        top = f32_max(top, values[v]);
    const float base = online_base(top);
    if (top != peak) sum *= fast_exp(online_base(peak) - base);
#pragma unroll
    for (int v = 0; v < V; v++)
        sum += fast_exp(values[v] - base);
    peak = top;
}

/* A thread's sum, as it is for the peak of all threads that the others' sums are for. */
static __device__ inline float online_sum(float sum, float peak, float shift) {
    return sum == 0 ? 0.0f : sum * fast_exp(online_base(peak) - shift);
}
