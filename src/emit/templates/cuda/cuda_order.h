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

static __device__ inline void topk_lower(uint32_t *least, uint32_t order) {
    atomicMin(least, order);
}
static __device__ inline void topk_lower(uint64_t *least, uint64_t order) {
    atomicMin((unsigned long long *)least, (unsigned long long)order);
}

/* What a block shares while it looks for them: of those that may be wanted `count`, in no order. A tile of
 * elements, all of which may be, has its place behind those that are. */
enum { TOPK_THREADS = 256, TOPK_MOST = 1024, TOPK_ITEMS = 8, TOPK_TILE = TOPK_THREADS * TOPK_ITEMS };
enum { TOPK_LIST = TOPK_MOST + TOPK_TILE };
template <class ORDER> struct topk_shared {
    ORDER order[TOPK_LIST], least;
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
static __device__ inline bool topk_digit(topk_shared<ORDER> &s, NUMBER number, int shift, KEY &prefix,
                                         KEY &mask, uint32_t &wanted) {
    s.bins[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < s.count; at += TOPK_THREADS) {
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

/* Of a longer list the `most` first in order stay, and s.least is the last of them. The digits of that one
 * are found from the first on, then those of its place where several are equal. */
template <class ORDER> static __device__ inline void topk_shrink(topk_shared<ORDER> &s, int most) {
    enum { EACH = TOPK_LIST / TOPK_THREADS };
    ORDER prefix = 0, mask = 0, order[EACH];
    uint32_t wanted = (uint32_t)most, place_prefix = 0, place_mask = 0, place[EACH];
    bool found = false;
    const auto by_order = [&](uint32_t at, ORDER &key) {
        key = s.order[at];
        return true;
    };
    const auto by_place = [&](uint32_t at, uint32_t &key) {
        key = ~s.place[at];
        return s.order[at] == prefix;
    };
    for (int shift = 8 * (int)sizeof(ORDER) - 8; shift >= 0 && !found; shift -= 8)
        found = topk_digit(s, by_order, shift, prefix, mask, wanted);
    for (int shift = 24; shift >= 0 && !found; shift -= 8)
        found = topk_digit(s, by_place, shift, place_prefix, place_mask, wanted);
    uint32_t stays = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t at = threadIdx.x + TOPK_THREADS * i;
        order[i] = 0, place[i] = 0;
        if (at >= s.count) continue;
        order[i] = s.order[at], place[i] = s.place[at];
        const bool equal = (order[i] & mask) == prefix && (~place[i] & place_mask) >= place_prefix;
        stays |= (uint32_t)((order[i] & mask) > prefix || equal) << i;
    }
    __syncthreads();
    if (threadIdx.x == 0) s.count = 0, s.least = ~(ORDER)0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (!(stays >> i & 1)) continue;
        const uint32_t slot = atomicAdd(&s.count, 1u);
        s.order[slot] = order[i], s.place[slot] = place[i];
        topk_lower(&s.least, order[i]);
    }
    __syncthreads();
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

/* The places of the `most` largest of a row of `count`, in order, in s.place. `most` is at most TOPK_MOST;
 * order(at) is an element's. The row is read once: what is no more than the least of as many as are wanted is
 * left out, and the list shrinks when the next tile may have no room in it. */
template <class ORDER, class ELEMENT>
static __device__ inline void topk_select(topk_shared<ORDER> &s, ELEMENT order, int64_t count, int most) {
    bool full = false;
    if (threadIdx.x == 0) s.count = 0;
    __syncthreads();
    for (int64_t tile = 0; tile < count; tile += TOPK_TILE) {
        ORDER key[TOPK_ITEMS];
#pragma unroll
        for (int i = 0; i < TOPK_ITEMS; i++) {
            const int64_t at = tile + TOPK_THREADS * i + threadIdx.x;
            key[i] = at < count ? order(at) : 0;
        }
        const ORDER least = full ? s.least : 0;
#pragma unroll
        for (int i = 0; i < TOPK_ITEMS; i++) {
            const int64_t at = tile + TOPK_THREADS * i + threadIdx.x;
            if (at >= count || (full && key[i] <= least)) continue;
            const uint32_t slot = atomicAdd(&s.count, 1u);
            s.order[slot] = key[i], s.place[slot] = (uint32_t)at;
        }
        __syncthreads();
        const uint32_t held = s.count;
        __syncthreads();
        if (held <= TOPK_MOST) continue;
        topk_shrink(s, most);
        full = true;
    }
    if (s.count > (uint32_t)most) topk_shrink(s, most);
    topk_sort(s, most);
}

/* The place of the `lane`th largest of a row of `count`, which a warp's registers hold; `most` is at most 32.
 */
template <int ITEMS, class ELEMENT>
static __device__ inline uint32_t topk_warp(ELEMENT order, int count, int most) {
    const int lane = threadIdx.x % 32;
    uint32_t key[ITEMS], found = 0, left = 0; /* left: the items that are not taken yet */
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = 32 * i + lane;
        key[i] = at < count ? order(at) : 0;
        left |= (uint32_t)(at < count) << i;
    }
    for (int rank = 0; rank < most; rank++) {
        uint32_t largest = 0, item = ITEMS;
#pragma unroll
        for (int i = ITEMS - 1; i >= 0; i--) {
            const bool larger = (left >> i & 1) && (item == ITEMS || key[i] >= largest);
            largest = larger ? key[i] : largest;
            item = larger ? i : item;
        }
        const uint32_t all = __reduce_max_sync(0xffffffffu, largest);
        const bool here = item < ITEMS && largest == all;
        const uint32_t place = __reduce_min_sync(0xffffffffu, here ? 32 * item + lane : 0xffffffffu);
        if (here && place == 32 * item + lane) left &= ~(1u << item);
        if (lane == rank) found = place;
    }
    return found;
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
