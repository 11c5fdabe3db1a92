/* Reductions over the threads that hold a row: shuffles in a warp, shared memory among warps, each other's
 * shared memory among the blocks of a cluster. Always in the same order, so results do not depend on timing.
 */
struct reduce_sum {
    template <class T> static __device__ inline T of(T a, T b) { return a + b; }
};

struct reduce_prod {
    template <class T> static __device__ inline T of(T a, T b) { return a * b; }
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
    /* One more element, which comes after all that `a` has seen. */
    template <class T> static __device__ inline void find(found<T> &a, T value, int64_t at) {
        bool worse = LARGEST ? value <= a.value : value >= a.value;
        if (a.at >= 0 && (worse || a.value != a.value)) return;
        a.value = value;
        a.at = at;
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

/* Two values at once, half of the lanes for each: hardly more exchanges than for one. */
template <int LANES, class OP, class T> static __device__ inline T reduce_halves(T a, T b) {
    const bool upper = threadIdx.x % LANES >= LANES / 2;
    const T other = shuffle_xor(upper ? a : b, LANES / 2);
    return reduce_lanes<LANES / 2, OP>(OP::of(upper ? b : a, other));
}

/* What the two halves have, for all lanes. */
template <int LANES, class T> static __device__ inline void share_halves(T x, T &a, T &b) {
    const bool upper = threadIdx.x % LANES >= LANES / 2;
    const T other = shuffle_xor(x, LANES / 2);
    a = upper ? other : x;
    b = upper ? x : other;
}

/* Over THREADS threads of a block, in two halves with a barrier between them: each warp leaves its share in
 * `slots`, shared memory not in use since the barrier before the last; then all threads add the shares. */
template <int THREADS, class OP, class T> static __device__ inline void leave_share(T x, T *slots) {
    x = reduce_lanes<32, OP>(x);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = x;
}

template <int THREADS, class OP, class T> static __device__ inline T take_shares(const T *slots) {
    const int warps = THREADS / 32;
    const bool lanes = warps > 8 && (warps & (warps - 1)) == 0;
    if (lanes) return reduce_lanes<(lanes ? warps : 1), OP>(slots[threadIdx.x % warps]);
    T x = slots[0];
#pragma unroll
    for (int w = 1; w < warps; w++)
        x = OP::of(x, slots[w]);
    return x;
}

/* The same for two values at once; `slots` has room for twice as many shares. */
template <int THREADS, class OP, class T> static __device__ inline void leave_two_shares(T a, T b, T *slots) {
    const T x = reduce_halves<32, OP>(a, b);
    if (threadIdx.x % 16 == 0) slots[threadIdx.x % 32 / 16 * (THREADS / 32) + threadIdx.x / 32] = x;
}

template <int THREADS, class OP, class T>
static __device__ inline void take_two_shares(T &a, T &b, const T *slots) {
    const int warps = THREADS / 32;
    if (warps == 16) {
        share_halves<32>(reduce_lanes<16, OP>(slots[threadIdx.x % 32]), a, b);
    } else if (warps == 32) {
        share_halves<32>(reduce_halves<32, OP>(slots[threadIdx.x % 32], slots[32 + threadIdx.x % 32]), a, b);
    } else {
        a = slots[0], b = slots[warps];
#pragma unroll
        for (int w = 1; w < warps; w++)
            a = OP::of(a, slots[w]), b = OP::of(b, slots[warps + w]);
    }
}

/* The same at once; where a row is held by neighbouring threads of a warp, THREADS is fewer and `slots` is
 * not used. */
template <int THREADS, class OP, class T> static __device__ inline T reduce_row(T x, T *slots) {
    if (THREADS <= 32) return reduce_lanes<(THREADS < 32 ? THREADS : 32), OP>(x);
    leave_share<THREADS, OP>(x, slots);
    __syncthreads();
    return take_shares<THREADS, OP>(slots);
}

/* Two values of a row that neighbouring threads of a warp hold. */
template <int THREADS, class OP, class T> static __device__ inline void reduce_two(T &a, T &b) {
    if (THREADS > 1) share_halves<THREADS>(reduce_halves<THREADS, OP>(a, b), a, b);
}

/* Over the BLOCKS blocks of a cluster, each of which has its own sum `x` in all threads. */
template <int BLOCKS, class OP, class T> static __device__ inline T reduce_cluster(T x, T *slots) {
    uint32_t word[sizeof(T) / 4];
    memcpy(word, &x, sizeof x);
    if (threadIdx.x < BLOCKS)
#pragma unroll
        for (int w = 0; w < (int)(sizeof(T) / 4); w++)
            cluster_store_4((uint32_t *)(slots + ptx_cluster_rank()) + w, (int)threadIdx.x, word[w]);
    cluster_barrier();
    x = slots[0];
#pragma unroll
    for (int b = 1; b < BLOCKS; b++)
        x = OP::of(x, slots[b]);
    return x;
}

/* Two blocks have left COUNT sums each at `left`: each of them adds up its half of them, the sum of rank 0
 * first. */
template <int THREADS, class OP, int COUNT, class T>
static __device__ inline void add_partners(T *partial, const T *left) {
    const int vector = 16 / (int)sizeof(T), half = (COUNT / vector + 1) / 2, rank = ptx_cluster_rank();
    for (int g = rank * half + (int)threadIdx.x; g < (rank ? COUNT / vector : half); g += THREADS) {
        const uint4 first = cluster_load_16(left + g * vector, 0),
                    second = cluster_load_16(left + g * vector, 1);
        T a[vector], b[vector];
        memcpy(a, &first, 16);
        memcpy(b, &second, 16);
#pragma unroll
        for (int v = 0; v < vector; v++)
            a[v] = OP::of(a[v], b[v]);
        store_group<true>(partial + g * vector, group_of(a));
    }
}

/* The largest so far and the sum of exp(x - peak), in one pass: as the peak rises the sum is scaled down.
 * Where the peak is infinite, exp(x) itself is added up. */
static __device__ inline float online_base(float peak) {
    return fabsf(peak) == INFINITY ? 0.0f : peak;
}

/* exp(x - base) is 2^(x log2(e) - online_power(base)): one operation beside the power of 2. */
static __device__ inline float online_power(float base) {
    return machine_product(base, 1.44269504088896341f);
}

template <int V> static __device__ inline void online_add(float &peak, float &sum, const float (&values)[V]) {
    float top = peak;
#pragma unroll
    for (int v = 0; v < V; v++)
        top = f32_max(top, values[v]);
    const float power = online_power(online_base(top));
    if (top != peak && sum != 0) sum *= machine_exp2(online_power(online_base(peak)) - power);
#pragma unroll
    for (int v = 0; v < V; v++)
        sum += machine_exp2(fmaf(values[v], 1.44269504088896341f, -power));
    peak = top;
}

/* Such a sum goes to a total in f64, for the peak that it is for, and begins at 0 again. */
static __device__ inline void online_fold(double &total, float &total_peak, float peak, float &sum) {
    const float power = online_power(online_base(total_peak)) - online_power(online_base(peak));
    if (total_peak != peak && total != 0) total *= (double)machine_exp2(power);
    total += (double)sum;
    sum = 0;
    total_peak = peak;
}

/* What such a sum is for another shift than its peak. */
static __device__ inline float online_total(float sum, float peak, float shift) {
    const float power = online_power(online_base(peak));
    return sum == 0 ? 0.0f : sum * machine_exp2(fmaf(shift, -1.44269504088896341f, power));
}

/* Elements before `first` and from `end` on do not count. */
template <int V> static __device__ inline void leave_outside(float (&values)[V], int64_t first, int64_t end) {
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < first || v >= end) values[v] = -INFINITY;
}

/* A thread's sum, as it is for the peak of all threads that the others' sums are for. */
static __device__ inline float online_sum(float sum, float peak, float shift) {
    return sum == 0 ? 0.0f : sum * fast_exp(online_base(peak) - shift);
}
