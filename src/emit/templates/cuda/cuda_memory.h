/* Groups of V neighbouring elements in registers, as the words that memory has them in. */
template <class T, int V> struct group {
    alignas(V *(int)sizeof(T) % 16 ? V * (int)sizeof(T) % 8 ? 4 : 8
                                   : 16) uint32_t word[(V * (int)sizeof(T) + 3) / 4];
};

/* Element v of a group; v is known when it is compiled. */
template <class T, int V> static __device__ inline T element_of(const group<T, V> &x, int v) {
    if (sizeof(T) == 8) {
        uint64_t bits = (uint64_t)x.word[v * 2 + 1] << 32 | x.word[v * 2];
        T r;
        memcpy(&r, &bits, sizeof r);
        return r;
    }
    if (sizeof(T) == 4) {
        T r;
        memcpy(&r, &x.word[v], sizeof r);
        return r;
    }
    const int per_word = 4 / (int)sizeof(T);
    return (T)(x.word[v / per_word] >> (8 * (int)sizeof(T) * (v % per_word)));
}

/* Sets element v of a group that begins as zeros. */
template <class T, int V> static __device__ inline void set_element(group<T, V> &x, int v, T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    if (sizeof(T) == 8) {
        x.word[v * 2] = (uint32_t)bits;
        x.word[v * 2 + 1] = (uint32_t)(bits >> 32);
        return;
    }
    const int per_word = 4 / (int)sizeof(T);
    x.word[v / per_word] |= (uint32_t)bits << (8 * (int)sizeof(T) * (v % per_word) % 32);
}

template <class T, int V> static __device__ inline group<T, V> zero_group() {
    group<T, V> x;
#pragma unroll
    for (int w = 0; w < (int)(sizeof x.word / 4); w++)
        x.word[w] = 0;
    return x;
}

/* V elements from `place` on. ALIGNED: in pieces of 16 bytes, which stay in a cache as `how` says, or all at
 * once where they are fewer. */
template <bool ALIGNED, int V, class T>
static __device__ inline group<T, V> load_group(const T *place, stay::how how) {
    const int size = V * (int)sizeof(T);
    group<T, V> x;
    if (ALIGNED && size % 16 == 0) {
#pragma unroll
        for (int w = 0; w < size / 4; w += 4) {
            uint4 piece = load_16((const char *)place + w * 4, how);
            x.word[w] = piece.x, x.word[w + 1] = piece.y, x.word[w + 2] = piece.z, x.word[w + 3] = piece.w;
        }
    } else if (ALIGNED && size == 8) {
        uint2 piece = *(const uint2 *)place;
        x.word[0] = piece.x, x.word[size / 4 - 1] = piece.y;
    } else if (ALIGNED && size == 4) {
        x.word[0] = *(const uint32_t *)place;
    } else {
        x = zero_group<T, V>();
#pragma unroll
        for (int v = 0; v < V; v++)
            set_element(x, v, place[v]);
    }
    return x;
}

/* Those of the V elements that stand at from <= v < to; zeros for the others. */
template <int V, class T, class A, class B>
static __device__ inline group<T, V> load_part(const T *place, A from, B to) {
    group<T, V> x = zero_group<T, V>();
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v >= from && v < to) set_element(x, v, place[v]);
    return x;
}

/* Moves all words down by `by` where `so`. */
template <int COUNT> static __device__ inline void move_words(uint32_t (&word)[COUNT], int by, bool so) {
#pragma unroll
    for (int w = 0; w < COUNT; w++)
        if (so && w + by < COUNT) word[w] = word[w + by];
}

/* The whole piece of RUN elements at `at`, a multiple of RUN, of an aligned array of SIZE; what is left of
 * the array where it ends before that. */
template <int SIZE, int RUN, class T>
static __device__ inline group<T, RUN> load_piece(const T *array, int at) {
    if (at + RUN <= SIZE) return load_group<true, RUN>(array + (at < 0 ? 0 : at), stay::plain);
    return load_part<RUN>(array + (SIZE - SIZE % RUN), 0, SIZE % RUN);
}

/* The V elements from `at` on of an array of SIZE, which is aligned where ALIGNED while they are not: out of
 * the aligned pieces around them. Any values for those outside of it. */
template <bool ALIGNED, int SIZE, int V, class T>
static __device__ inline group<T, V> load_across(const T *array, int at) {
    const int bytes = V * (int)sizeof(T), piece = bytes < 16 ? bytes : 16, run = piece / (int)sizeof(T);
    if (!ALIGNED || piece < 8 || bytes % piece) return load_part<V>(array + at, -at, SIZE - at);
    const int offset = at * (int)sizeof(T) & (piece - 1), first = at - offset / (int)sizeof(T);
    uint32_t word[(bytes + piece) / 4 + 1];
#pragma unroll
    for (int p = 0; p <= bytes / piece; p++) {
        group<T, run> x = load_piece<SIZE, run>(array, first + p * run);
        memcpy(word + p * (piece / 4), x.word, piece);
    }
    word[(bytes + piece) / 4] = 0;
    if (piece > 8) move_words(word, 2, offset & 8);
    move_words(word, 1, offset & 4);
    group<T, V> x;
#pragma unroll
    for (int w = 0; w < bytes / 4; w++)
        x.word[w] = (uint32_t)(((uint64_t)word[w + 1] << 32 | word[w]) >> (offset % 4 * 8));
    return x;
}

template <bool ALIGNED, int V, class T>
static __device__ inline void store_group(T *place, const group<T, V> &x) {
    const int size = V * (int)sizeof(T);
    if (ALIGNED && size % 16 == 0) {
#pragma unroll
        for (int w = 0; w < size / 4; w += 4)
            store_16((char *)place + w * 4, x.word[w], x.word[w + 1], x.word[w + 2], x.word[w + 3]);
    } else if (ALIGNED && size == 8) {
        *(uint2 *)place = make_uint2(x.word[0], x.word[size / 4 - 1]);
    } else if (ALIGNED && size == 4) {
        *(uint32_t *)place = x.word[0];
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            place[v] = element_of(x, v);
    }
}

template <int V, class T, class A, class B>
static __device__ inline void store_part(T *place, const group<T, V> &x, A from, B to) {
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v >= from && v < to) place[v] = element_of(x, v);
}

/* Storage values made a group. */
template <class T, int V> static __device__ inline group<T, V> group_of(const T (&values)[V]) {
    group<T, V> x = zero_group<T, V>();
#pragma unroll
    for (int v = 0; v < V; v++)
        set_element(x, v, values[v]);
    return x;
}

/* f32 values rounded to bf16 two at a time. */
template <int V> static __device__ inline group<uint16_t, V> bf16_group_of(const float (&values)[V]) {
    group<uint16_t, V> x;
#pragma unroll
    for (int v = 0; v < V; v += 2)
        x.word[v / 2] = bf16_pair(values[v], v + 1 < V ? values[(v + 1) % V] : 0);
    return x;
}

template <int V> static __device__ inline group<uint16_t, V> f16_group_of(const float (&values)[V]) {
    group<uint16_t, V> x;
#pragma unroll
    for (int v = 0; v < V; v += 2)
        x.word[v / 2] = f16_pair(values[v], v + 1 < V ? values[(v + 1) % V] : 0);
    return x;
}

/* A checked subscript: one that leaves its axis is kept, and its element is neither read nor written. Both
 * words go in one store, so that they belong together; around an atomic exchange here the registers of a
 * thread's loads were spilled. */
static __device__ inline bool out_of_range(int64_t value, int64_t access, fault_record *fault) {
    *(longlong2 *)fault = make_longlong2(access, value);
    return false;
}

static __device__ inline bool in_range(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return (uint64_t)value < (uint64_t)extent || out_of_range(value, access, fault);
}

/* Of a subscript that leaves elements out: HR_LEFT_OUT of ir/function.h. */
static __device__ inline bool is_place(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return value != -((int64_t)1 << 62) && in_range(value, extent, access, fault);
}

/* *place += value, by whichever thread comes; the order of floats, and so their last bits, is not fixed.
 * (Overloads stand in one paragraph: of two paragraphs that define a name, the first counts.) */
static __device__ inline void add_to(float *place, float value) {
    atomicAdd(place, value);
}
static __device__ inline void add_to(double *place, double value) {
    atomicAdd(place, value);
}
static __device__ inline void add_to(int32_t *place, int32_t value) {
    atomicAdd(place, value);
}
static __device__ inline void add_to(int64_t *place, int64_t value) {
    atomicAdd((unsigned long long *)place, (unsigned long long)value);
}

/* 16 bytes of a run into its tile, whose runs begin at whole words; `rest`: elements up to the end of the
 * run. */
template <bool ALIGNED, class T>
static __device__ inline void fill_tile(T *slot, const T *place, int64_t rest) {
    const int count = 16 / (int)sizeof(T);
    if (ALIGNED && rest >= count) {
        group<T, count> x = load_group<true, count>(place, stay::plain);
#pragma unroll
        for (int w = 0; w < 4; w++)
            ((uint32_t *)slot)[w] = x.word[w];
        return;
    }
#pragma unroll
    for (int v = 0; v < count; v++)
        if (v < rest) slot[v] = place[v];
}

/* Adds to a block's own sum, or to the place itself where it has none. */
template <class P, class T> static __device__ inline void add_near(P *own, T *places, int64_t at, T value) {
    if (own)
        add_to(own + at, (P)value);
    else
        add_to(places + at, value);
}

/* Begins a copy of the group at `place`, to stand at `slot` in shared memory after ptx_copy_wait_all(). Where
 * it is not aligned, or in part outside of from <= v < to, it is there at once. */
template <bool ALIGNED, int V, class T>
static __device__ inline void stage_group(group<T, V> *slot, const T *place, int64_t from, int64_t to) {
    const int size = V * (int)sizeof(T);
    if (from > 0 || to < V)
        *slot = load_part<V>(place, from, to);
    else if (ALIGNED && (size % 16 == 0 || size == 8 || size == 4))
#pragma unroll
        for (int at = 0; at < size; at += 16)
            begin_copy<(size < 16 ? size : 16)>((char *)slot + at, (const char *)place + at);
    else {
        *slot = load_group<false, V>(place, stay::plain);
        keep_order(); /* one group at a time in registers */
    }
}

/* Adds a group, as add_to does an element; f32 in pieces of 16 bytes where the machine has that. */
template <bool ALIGNED, int V, class T>
static __device__ inline void add_group(T *place, const T (&values)[V]) {
#pragma unroll
    for (int v = 0; v < V; v++)
        add_to(place + v, values[v]);
}
template <bool ALIGNED, int V>
static __device__ inline void add_group(float *place, const float (&values)[V]) {
    const bool whole = ALIGNED && V % 4 == 0;
#pragma unroll
    for (int v = 0; v < V; v += whole ? 4 : 1)
        if (whole)
            add_4(place + v, values[v], values[(v + 1) % V], values[(v + 2) % V], values[(v + 3) % V]);
        else
            add_to(place + v, values[v]);
}

template <int V, class T>
static __device__ inline void add_part(T *place, const T (&values)[V], int64_t from, int64_t to) {
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v >= from && v < to) add_to(place + v, values[v]);
}
