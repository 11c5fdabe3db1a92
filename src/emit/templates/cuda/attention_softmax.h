/* Softmax over scores in the registers of tensor cores, and what follows from a row's sums: what kernels of
 * attention share. attention_hopper.h says what P is.
 *
 * G is a thread's part of scores, rows m and m + 8 of a product: scores, which become weights, two of them to
 * a register; of a row the largest open score (peak), the base of exponents and their sum (total).
 */

/* |x| < 2^22, by two additions: a conversion goes through the unit of exponentials, at its rate. */
static __device__ inline float f32_of_small(int x) {
    return f32_of_bits(0x4b400000 + x) - 12582912.0f;
}

/* Scores that a row does not see become -inf. */
template <class P, class A, class G>
static __device__ inline void attention_mask(const A &a, const attention_size &size, int batch, G &g,
                                             int block, const int (&rows)[2]) {
    const int64_t n = (int64_t)block * P::tile_n + (int)threadIdx.x % 4 * 2;
    const int64_t last = size.n - 1; /* stands for keys past it, of which no mask is to be asked */
    int begin[2], end[2];            /* keys of the tile, less those of the thread's place */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int64_t bound = P::bounded ? P::bound(a, batch, rows[r]) : size.n;
        end[r] = attention_clamp((bound < size.n ? bound : size.n) - n, P::tile_n);
        begin[r] = P::bounded && P::begins ? attention_clamp(P::begin(a, batch, rows[r]) - n, P::tile_n) : 0;
    }
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++) {
        const int key = i / 4 * 8 + i % 2, r = i / 2 % 2;
        bool seen = key < end[r] && (!P::begins || key >= begin[r]);
        if (!P::bounded) seen = seen & P::sees(a, batch, rows[r], n + key < last ? n + key : last);
        if (P::plain)
            g.scores[i] = seen ? g.scores[i] : -INFINITY;
        else
            g.scores[i] = seen ? P::open_score(a, batch, rows[r], n + key, g.scores[i]) : -INFINITY;
    }
}

/* Scores become weights. True where what was added up before is to be multiplied by `shrink`. */
template <class P, bool MASKED, class A, class G>
static __device__ inline bool attention_softmax(const A &a, const attention_size &size, int batch, G &g,
                                                int block, float (&shrink)[2]) {
    const int end = (int)size.m - 1, rows[2] = {g.m < end ? g.m : end, g.m + 8 < end ? g.m + 8 : end};
    if constexpr (MASKED) {
        attention_mask<P>(a, size, batch, g, block, rows);
    } else if constexpr (!P::plain) {
        const int64_t n = (int64_t)block * P::tile_n + (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < P::tile_n / 2; i++)
            g.scores[i] = P::open_score(a, batch, rows[i / 2 % 2], n + i / 4 * 8 + i % 2, g.scores[i]);
    }
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++)
        g.peak[i / 2 % 2] = fmaxf(g.peak[i / 2 % 2], g.scores[i]);
    const float factor = P::factor(a);
    float less[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        g.peak[r] = fmaxf(g.peak[r], __shfl_xor_sync(0xffffffffu, g.peak[r], 1));
        g.peak[r] = fmaxf(g.peak[r], __shfl_xor_sync(0xffffffffu, g.peak[r], 2));
        const float largest = g.peak[r] * factor, before = g.base[r];
        if (!(largest <= before + 8)) g.base[r] = largest;
        less[r] = g.base[r] == -INFINITY ? 0.0f : -g.base[r];
        shrink[r] = before == g.base[r] ? 1.0f : machine_exp2(before + less[r]);
    }
    const bool shrinks = __any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1);
    if (shrinks) {
        g.total[0] *= shrink[0];
        g.total[1] *= shrink[1];
    }
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++) {
        g.scores[i] = machine_exp2(fmaf(g.scores[i], factor, less[i / 2 % 2]));
        g.total[i / 2 % 2] += g.scores[i];
    }
    if constexpr (P::has_pairs) {
        const int64_t n = (int64_t)block * P::tile_n + (int)threadIdx.x % 4 * 2, last = size.n - 1;
#pragma unroll
        for (int i = 0; i < P::tile_n / 2; i++) {
            const int64_t key = n + i / 4 * 8 + i % 2;
            g.scores[i] *= P::pair_factor(a, batch, rows[i / 2 % 2], key < last ? key : last);
        }
    }
    return shrinks;
}

template <class P, class G> static __device__ inline void attention_pack(G &g) {
#pragma unroll
    for (int i = 0; i < P::tile_n / 4; i++)
        g.weights[i / 4][i % 4] = P::pair(g.scores[2 * i], g.scores[2 * i + 1]);
}

/* ---- a row ---- */

/* A sum over no keys is 0. Where a row's peak is -inf it may have seen some, whose scores all are. */
template <class P, class A>
static __device__ inline bool attention_is_empty(const A &a, const attention_size &size, int batch, int64_t m,
                                                 float peak) {
    if (size.n == 0) return true;
    if constexpr (!P::summed_under_mask) return false;
    const int begin = P::begins ? attention_clamp(P::begin(a, batch, m), size.n) : 0;
    const int end = attention_clamp(P::bound(a, batch, m), size.n);
    if constexpr (P::bounded) return end <= begin;
    if (peak != -INFINITY) return false;
    bool empty = true;
#pragma unroll 1
    for (int n = begin; n < end && empty; n++)
        empty = !P::sees(a, batch, m, n);
    return empty;
}

/* Row `m` again, key by key: sum[x] becomes that of column lane + 32 x. */
template <class P, class A>
static __device__ inline void attention_again(const A &a, const attention_size &size, int batch, int64_t m,
                                              float base, float (&sum)[(P::wide + 31) / 32]) {
    const int lane = (int)threadIdx.x % 32;
    const int begin = P::begins ? attention_clamp(P::begin(a, batch, m), size.n) : 0;
    const int end = attention_clamp(P::bound(a, batch, m), size.n);
    const float factor = P::factor(a);
#pragma unroll
    for (int x = 0; x < (P::wide + 31) / 32; x++)
        sum[x] = 0;
#pragma unroll 1
    for (int n = begin; n < end; n++) {
        if (!P::bounded && !P::sees(a, batch, m, n)) continue;
        float score = 0;
#pragma unroll 1
        for (int k = lane; k < P::deep; k += 32)
            score = fmaf(P::number(P::query::element(a, batch, m, k)),
                         P::number(P::key::element(a, batch, n, k)), score);
#pragma unroll
        for (int step = 16; step; step /= 2)
            score += __shfl_xor_sync(0xffffffffu, score, step);
        float weight = machine_exp2(fmaf(P::open_score(a, batch, m, n, score), factor, -base));
        if constexpr (P::has_pairs) weight *= P::pair_factor(a, batch, m, n);
#pragma unroll
        for (int x = 0; x < (P::wide + 31) / 32; x++)
            if (x * 32 + lane < P::wide)
                sum[x] = fmaf(weight, P::number(P::value::element(a, batch, n, x * 32 + lane)), sum[x]);
    }
}

/* What the text has of a row. Its totals are relative to the peak; those of infinite peaks are other ones. */
struct attention_row {
    float peak, total, total_replaced;
};

template <class P, class A>
static __device__ inline attention_row attention_row_of(const A &a, const attention_size &size, float peak,
                                                        float base, float total) {
    const bool infinite = peak == -INFINITY || peak == INFINITY;
    const float sum = infinite ? total : total * machine_exp2(fmaf(-peak, P::factor(a), base));
    return {peak * P::unit(a), peak == -INFINITY && size.n > 0 ? NAN : sum,
            peak == INFINITY ? INFINITY : sum};
}

/* Results of which there is one a row. */
template <class P, class A>
static __device__ inline void attention_leave_row(const A &a, const attention_size &size, int batch,
                                                  int64_t m, float peak, float base, float total) {
    const attention_row row = attention_row_of<P>(a, size, peak, base, total);
    P::rows(a, batch, m, row.peak, row.total, row.total_replaced, base, total);
}

/* What a row's sums are multiplied by. */
template <class P, class A>
static __device__ inline float attention_row_weight(const A &a, const attention_size &size, int batch,
                                                    int64_t m, float peak, float base, float total) {
    if constexpr (P::normalised) {
        return 1.0f / total;
    } else {
        const attention_row row = attention_row_of<P>(a, size, peak, base, total);
        return P::row_weight(a, batch, m, row.peak, row.total, row.total_replaced, base, total);
    }
}
