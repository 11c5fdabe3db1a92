/* Sums over 16 neighbours of a product's results, along its rows or its columns, which leave with them. In:
 * what a warp has of 16 rows and 16 columns. Out: a number for each row, or for each column.
 *
 * S, which the printer makes for a sum (gemm_partial_sums.c): along_m, its neighbours are of a column;
 * none(), what changes nothing; merge(); store(a, m, n, value), which is given any place of the 16
 * neighbours.
 */
/* Of `keep` and what the lane whose number differs by BIT hands over, lane by lane the same order. */
template <class S, int BIT> static __device__ inline float gemm_partial_exchange(float keep, float send) {
    return S::merge(keep, __shfl_xor_sync(0xffffffffu, send, BIT));
}

/* What is not there changes nothing. rows, columns: from the lane's first ones on. */
template <class S> static __device__ inline void gemm_partial_inside(int rows, int columns, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i / 2 % 2 * 8 >= rows || i % 2 + i / 4 * 8 >= columns) v[i] = S::none();
}

/* value: of the rows lane / 4 and 8 more, as wgmma and mma.sync have them: two columns of the first row, two
 * of the second, and the same eight columns further. m, n: of the first row and column. */
template <class S, class A>
static __device__ inline void gemm_leave_partial(const A &a, const gemm_size &size, int64_t m, int64_t n,
                                                 const float (&value)[8]) {
    const int lane = (int)threadIdx.x % 32;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = value[i];
    if (m + 16 > size.m || n + 16 > size.n)
        gemm_partial_inside<S>((int)(size.m - m) - lane / 4, (int)(size.n - n) - lane % 4 * 2, v);
    if constexpr (S::along_m) {
        const bool far = lane & 16, odd = lane & 8;
        const float near_0 = S::merge(v[0], v[2]), near_1 = S::merge(v[1], v[3]);
        const float far_0 = S::merge(v[4], v[6]), far_1 = S::merge(v[5], v[7]);
        const float even = gemm_partial_exchange<S, 16>(far ? far_0 : near_0, far ? near_0 : far_0);
        const float other = gemm_partial_exchange<S, 16>(far ? far_1 : near_1, far ? near_1 : far_1);
        float sum = gemm_partial_exchange<S, 8>(odd ? other : even, odd ? even : other);
        sum = gemm_partial_exchange<S, 4>(sum, sum);
        const int64_t at = n + lane % 4 * 2 + odd + far * 8;
        if (!(lane & 4) && at < size.n && m < size.m) S::store(a, m, at, sum);
    } else {
        const bool second = lane & 2;
        const float row = S::merge(S::merge(v[0], v[1]), S::merge(v[4], v[5]));
        const float next = S::merge(S::merge(v[2], v[3]), S::merge(v[6], v[7]));
        float sum = gemm_partial_exchange<S, 2>(second ? next : row, second ? row : next);
        sum = gemm_partial_exchange<S, 1>(sum, sum);
        const int64_t at = m + lane / 4 + second * 8;
        if (!(lane & 1) && at < size.m && n < size.n) S::store(a, at, n, sum);
    }
}

/* All of them, whose values are those from FIRST on. */
template <class P, int FIRST, class A, int COUNT>
static __device__ inline void gemm_leave_partials(const A &a, const gemm_size &size, int64_t m, int64_t n,
                                                  const float (&value)[COUNT][8]) {
    gemm_leave_partial<typename P::partial_0>(a, size, m, n, value[FIRST]);
    if constexpr (P::partials > 1) gemm_leave_partial<typename P::partial_1>(a, size, m, n, value[FIRST + 1]);
    if constexpr (P::partials > 2) gemm_leave_partial<typename P::partial_2>(a, size, m, n, value[FIRST + 2]);
    if constexpr (P::partials > 3) gemm_leave_partial<typename P::partial_3>(a, size, m, n, value[FIRST + 3]);
}

/* The same of values that are made anew of a thread's sums, `place(i, r)`: sum i of eight of product r. */
template <class P, class A, class F>
static __device__ inline void gemm_make_partials(const A &a, const gemm_size &size, int64_t batch, int64_t m,
                                                 int64_t n, const F &place) {
    const int lane = (int)threadIdx.x % 32;
    float value[P::partials][8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int64_t at_m = m + lane / 4 + i / 2 % 2 * 8, at_n = n + lane % 4 * 2 + i % 2 + i / 4 * 8;
        float one[P::partials], sums[P::rights];
#pragma unroll
        for (int r = 0; r < P::rights; r++)
            sums[r] = place(i, r);
        P::partial_values(a, batch, at_m < size.m ? at_m : size.m - 1, at_n < size.n ? at_n : size.n - 1,
                          sums, one);
#pragma unroll
        for (int q = 0; q < P::partials; q++)
            value[q][i] = one[q];
    }
    gemm_leave_partials<P, 0>(a, size, m, n, value);
}
