/* Rows in order: scans and the largest elements. A block of threads has a row, which it goes through tile by
 * tile.
 */
/* h = factor * before + rest. SUM: the factor is 1. */
template <bool SUM, class T>
static __device__ inline void scan_join(T &factor, T &rest, T factor_before, T rest_before) {
    rest = SUM ? rest_before + rest : factor * rest_before + rest;
    if (!SUM) factor *= factor_before;
}

/* Of a warp's neighbouring elements, one a lane. */
template <bool SUM, class T> static __device__ inline void scan_warp(T &factor, T &rest) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const T rest_before = __shfl_up_sync(0xffffffffu, rest, distance);
        const T factor_before = SUM ? factor : __shfl_up_sync(0xffffffffu, factor, distance);
        if (lane >= distance) scan_join<SUM>(factor, rest, factor_before, rest_before);
    }
}

/* Where item `item` of a thread stands in its tile: a warp has neighbouring elements, 32 at a time. */
template <int ITEMS> static __device__ inline int scan_place(int item) {
    return ((int)threadIdx.x / 32 * ITEMS + item) * 32 + (int)threadIdx.x % 32;
}

template <class STATE> struct scan_slot { STATE factor, rest; };

/* A thread's items behind each other, and what its warp makes of what is carried to it. */
template <bool SUM, int ITEMS, class T, class STATE>
static __device__ inline void scan_items(T (&factor)[ITEMS], T (&rest)[ITEMS], scan_slot<STATE> *slots) {
    T product = 1, sum = 0;
#pragma unroll
    for (int item = 0; item < ITEMS; item++)
        scan_warp<SUM>(factor[item], rest[item]);
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        scan_join<SUM>(factor[item], rest[item], product, sum);
        sum = __shfl_sync(0xffffffffu, rest[item], 31);
        if (!SUM) product = __shfl_sync(0xffffffffu, factor[item], 31);
    }
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = {(STATE)product, (STATE)sum};
    __syncthreads();
}

/* What a tile makes of what is carried to it, behind what those before it do. */
template <bool SUM, int THREADS, int ITEMS, class T, class STATE>
static __device__ inline void scan_part(T (&factor)[ITEMS], T (&rest)[ITEMS], scan_slot<STATE> &part,
                                        scan_slot<STATE> *slots) {
    scan_items<SUM>(factor, rest, slots);
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) {
        part.rest = SUM ? part.rest + slots[w].rest : slots[w].factor * part.rest + slots[w].rest;
        if (!SUM) part.factor *= slots[w].factor;
    }
}

/* A tile's factors and rests become its values; returns what is carried to the next. `slots`: of the warps,
 * not in use since the barrier before the last. */
template <bool SUM, int THREADS, int ITEMS, class T, class STATE>
static __device__ inline STATE scan_tile(T (&factor)[ITEMS], T (&rest)[ITEMS], STATE carry,
                                         scan_slot<STATE> *slots) {
    const int warp = threadIdx.x / 32;
    scan_items<SUM>(factor, rest, slots);
    STATE before = carry;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) {
        if (w == warp) before = carry;
        carry = SUM ? carry + slots[w].rest : slots[w].factor * carry + slots[w].rest;
    }
#pragma unroll
    for (int item = 0; item < ITEMS; item++)
        rest[item] = SUM ? (T)before + rest[item] : factor[item] * (T)before + rest[item];
    return carry;
}

/* ---- the largest in order ---- */

/* Values as whole numbers in their order: NaN is the largest, and 0 and -0 are one. */
static __device__ inline uint32_t order_of(float x) {
    x += 0.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return 0xffffffffu;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static __device__ inline uint32_t order_of(int32_t x) {
    return (uint32_t)x ^ 0x80000000u;
}
static __device__ inline uint64_t order_of(double x) {
    x += 0.0;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return ~(uint64_t)0;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
static __device__ inline uint64_t order_of(int64_t x) {
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

/* What a block shares while it looks for them. */
enum { TOPK_THREADS = 256, TOPK_LIST = 1024 };
template <class ORDER> struct topk_shared {
    ORDER order[TOPK_LIST];
    uint32_t place[TOPK_LIST];
    uint32_t bins[256], warps[TOPK_THREADS / 32];
    uint32_t digit, above, held, count;
};

/* Of `wanted` elements from the largest digit down, the digit at which they are found, and how many have a
 * larger one: thread t has the count of digit 255 - t. */
template <class ORDER> static __device__ inline void topk_find_digit(topk_shared<ORDER> &s, uint32_t wanted) {
    const int t = threadIdx.x, lane = t % 32;
    const uint32_t own = s.bins[255 - t];
    uint32_t sum = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const uint32_t before = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += before;
    }
    if (lane == 31) s.warps[t / 32] = sum;
    __syncthreads();
    for (int w = 0; w < t / 32; w++)
        sum += s.warps[w];
    if (sum >= wanted && sum - own < wanted) {
        s.digit = 255 - t;
        s.above = sum - own;
        s.held = own;
    }
    __syncthreads();
}

/* A digit of the numbers that agree with `prefix` where `mask` says. True where all that agree then are
 * wanted. */
template <class ORDER, class KEY, class NUMBER>
static __device__ inline bool topk_digit(topk_shared<ORDER> &s, NUMBER number, int64_t count, int shift,
                                         KEY &prefix, KEY &mask, uint32_t &wanted) {
    s.bins[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t at = threadIdx.x; at < count; at += TOPK_THREADS) {
        KEY key;
        if (number(at, key) && (key & mask) == prefix) atomicAdd(&s.bins[(key >> shift) & 255], 1u);
    }
    __syncthreads();
    topk_find_digit(s, wanted);
    prefix |= (KEY)s.digit << shift;
    mask |= (KEY)255 << shift;
    wanted -= s.above;
    return s.held == wanted;
}

/* The list in order, by a network for `most` elements or more. */
template <class ORDER> static __device__ inline void topk_sort(topk_shared<ORDER> &s, int most) {
    int size = 1;
    while (size < most)
        size *= 2;
    for (int at = (int)s.count + (int)threadIdx.x; at < size; at += TOPK_THREADS)
        s.order[at] = 0, s.place[at] = 0xffffffffu;
    for (int length = 2; length <= size; length *= 2)
        for (int distance = length / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int at = threadIdx.x; at < size; at += TOPK_THREADS) {
                const int other = at ^ distance;
                if (other < at) continue;
                const ORDER a = s.order[at], b = s.order[other];
                const uint32_t x = s.place[at], y = s.place[other];
                const bool swapped = b > a || (b == a && y < x);
                if (swapped != ((at & length) == 0)) continue;
                s.order[at] = b, s.order[other] = a;
                s.place[at] = y, s.place[other] = x;
            }
        }
    __syncthreads();
}

/* The places of the `most` largest of a row of `count`, in order, in s.place. `most` is at most TOPK_LIST;
 * order(at) is an element's. The digits of the last one that is wanted are found from the first on, of its
 * place where several are equal; then all that are no less are collected. */
template <class ORDER, class ELEMENT>
static __device__ inline void topk_select(topk_shared<ORDER> &s, ELEMENT order, int64_t count, int most) {
    ORDER prefix = 0, mask = 0;
    uint32_t wanted = (uint32_t)most, place_prefix = 0, place_mask = 0;
    bool found = false;
    const auto by_order = [&](int64_t at, ORDER &key) {
        key = order(at);
        return true;
    };
    const auto by_place = [&](int64_t at, uint32_t &key) {
        key = ~(uint32_t)at;
        return order(at) == prefix;
    };
    for (int shift = 8 * (int)sizeof(ORDER) - 8; shift >= 0 && !found; shift -= 8)
        found = topk_digit(s, by_order, count, shift, prefix, mask, wanted);
    for (int shift = 24; shift >= 0 && !found; shift -= 8)
        found = topk_digit(s, by_place, count, shift, place_prefix, place_mask, wanted);
    if (threadIdx.x == 0) s.count = 0;
    __syncthreads();
    for (int64_t at = threadIdx.x; at < count; at += TOPK_THREADS) {
        const ORDER key = order(at);
        const bool equal = (key & mask) == prefix && (~(uint32_t)at & place_mask) >= place_prefix;
        if ((key & mask) <= prefix && !equal) continue;
        const uint32_t slot = atomicAdd(&s.count, 1u);
        s.order[slot] = key, s.place[slot] = (uint32_t)at;
    }
    __syncthreads();
    topk_sort(s, most);
}

/* How many elements come before the one at `at`. */
template <class ELEMENT>
static __device__ inline int64_t topk_rank(ELEMENT order, int64_t count, int64_t at) {
    const auto own = order(at);
    int64_t rank = 0;
    for (int64_t other = 0; other < count; other++) {
        const auto key = order(other);
        rank += key > own || (key == own && other < at);
    }
    return rank;
}
