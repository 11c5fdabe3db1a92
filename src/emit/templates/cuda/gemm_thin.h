/* A matrix whose numbers are unpacked in registers, times vectors, on the tensor cores of sm_80 and later.
 * What it costs is to read the matrix: its numbers are unpacked in registers, as the left operand of
 * mma.sync; the vectors are the columns of the right one.
 *
 * A block has 32 rows of the matrix for each of P::row_warps, P::vectors of the vectors, and a part of k. A
 * warp takes every k_warps-th line of 128 bytes of its rows, through a ring of P::places of its own in shared
 * memory that cp.async fills: no other warp waits for it. What warps along k have is added up in shared
 * memory, in their order. Where there are parts of k, each leaves its sums in scratch memory, and
 * thin_fold(), the kernel after this one, adds them up in their order.
 *
 * The order of k in a product is free. A lane's numbers are a unit of P::unit_bytes as they lie in memory,
 * the four lanes of a row have neighbouring units: so a product has neighbours along k alone, of one group.
 * The vectors stand in shared memory as the lanes need them, 16 bytes for two products, for P::part_lines
 * lines at once: P::rounds of them make a part. Sums of a group are multiplied by its scale in f32. Where a
 * scale is not finite, the row is computed again as the text says.
 *
 * Pieces of 16 bytes are swapped within a line so that lanes that read at once ask different banks.
 *
 * P, which the printer makes for a stage (stage_cuda_thin.c):
 *
 * - splits, vectors, all_vectors, row_warps, k_warps, places, part_lines, rounds; rows, k; is_left: the
 * matrix is the left operand.
 *
 * - part_groups (0 = no scales), scale_pitch, scale_run, group; scale(a, batch, row, k), scales() and
 * scale_of() where scale_run is not 1.
 *
 * - word_numbers, unit_bytes, row_bytes; numbers(word, registers); place(a, batch, row).
 *
 * - vector(a, batch, at, k), its bits; vectors_lie and vectors_at(); apart, piece_apart, order(slot): where
 *   the number in slot 0 to 7 of a unit's registers stands along k, from the first of the four units; run,
 *   start(j), pick(slot): runs of so many neighbours, and which number of those that are read is the slot's.
 *
 * - multiply(d, a, b); product(a, batch, row, at, k); store(a, batch, row, at, sum).
 */
template <class P> struct thin_memory {
    static constexpr int unit_numbers = P::unit_bytes / 4 * P::word_numbers;
    static constexpr int line_numbers = 32 * P::word_numbers, line_units = 128 / P::unit_bytes;
    static constexpr int runs = line_units / 4,
                         pieces = unit_numbers / 8; /* runs of four units; of a vector */
    static constexpr int columns = (P::vectors + 7) / 8;
    static constexpr int rows = 32 * P::row_warps, warps = P::row_warps * P::k_warps;
    /* Lanes that read at once ask different banks: words of eight rows by 16 bytes between rows, larger units
     * by pieces that are swapped within a row. */
    static constexpr int line_pitch = P::unit_bytes == 4 ? 144 : 128, place_bytes = 32 * line_pitch;
    static constexpr int vectors_at = warps * P::places * place_bytes;
    static constexpr int line_bytes = line_numbers * P::vectors * 2; /* of the vectors */
    static constexpr int scales_at = vectors_at + P::part_lines * line_bytes;
    static constexpr int odd_at = scales_at + rows * P::scale_pitch * 4;
    /* Groups of a line, and runs that share one. */
    static constexpr int line_groups = P::group >= line_numbers ? 1 : line_numbers / (int)P::group;
    static constexpr int group_runs = runs / line_groups;
    /* Groups whose scales are read at once, where registers have room for them. */
    static constexpr int together = line_groups % 4 == 0 && columns <= 4 ? 4 : 1;
    static constexpr int pitch = 8 * columns + 1; /* of a row's sums */
};

struct thin_item {
    int64_t batch, row, vector; /* its first ones */
    int part, line, end;        /* of the part */
};

template <class P> static __device__ inline thin_item thin_item_of() {
    const int tiles = (int)((P::rows + thin_memory<P>::rows - 1) / thin_memory<P>::rows);
    const int shares = (int)((P::all_vectors + P::vectors - 1) / P::vectors);
    const int lines = (int)((P::row_bytes + 127) / 128), each = P::part_lines * P::rounds;
    thin_item item;
    const int share = (int)blockIdx.x % shares, unit = (int)blockIdx.x / shares / P::splits;
    item.part = (int)blockIdx.x / shares % P::splits;
    item.vector = (int64_t)share * P::vectors; /* neighbours among blocks read the same lines */
    item.batch = unit / tiles;
    item.row = (int64_t)(unit % tiles) * thin_memory<P>::rows;
    item.line = each * item.part;
    item.end = item.line + each < lines ? item.line + each : lines;
    return item;
}

/* ---- the matrix ---- */

/* Where piece `piece` of 16 bytes of a line stands, in bytes. */
template <class P> static __device__ inline int thin_place(int row, int piece) {
    const int swap = P::unit_bytes == 16 ? (row & 1) * 4 : P::unit_bytes == 8 ? (row & 3) * 2 : 0;
    return row * thin_memory<P>::line_pitch + ((piece ^ swap) << 4);
}

/* 16 bytes that begin anywhere. */
static __device__ inline uint4 thin_bytes(const uint8_t *from) {
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int b = 0; b < 16; b++)
        word[b / 4] |= (uint32_t)from[b] << b % 4 * 8;
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Begins the copy of line `line` of the warp's 32 rows. Zeros stand for what is not there. */
template <class P, bool COPIES, class A>
static __device__ inline void thin_bring(const A &a, char *to, const thin_item &item, int64_t row, int line) {
    const int lane = (int)threadIdx.x % 32, piece = lane % 8;
    if (line < item.end) {
#pragma unroll(COPIES ? 8 : 1)
        for (int i = 0; i < 8; i++) {
            const int at = i * 4 + lane / 8, byte = line * 128 + piece * 16;
            const bool inside = row + at < P::rows && byte < P::row_bytes;
            const char *from =
                (const char *)P::place(a, item.batch, inside ? row + at : 0) + (inside ? byte : 0);
            char *const slot = to + thin_place<P>(at, piece);
            if constexpr (COPIES)
                ptx_copy_part_past_l1(ptx_shared_address(slot), from, inside ? 16 : 0);
            else
                *(uint4 *)slot = inside ? thin_bytes((const uint8_t *)from) : make_uint4(0, 0, 0, 0);
        }
    }
    ptx_copy_commit();
}

/* ---- numbers: gemm_unpack.h ---- */

/* The lane's unit of a row, unpacked. */
template <class P>
static __device__ inline void thin_unpack(const char *line, int row, int run,
                                          uint32_t (&r)[thin_memory<P>::unit_numbers / 2]) {
    const int words = P::unit_bytes / 4, each = P::word_numbers / 2;
    const int byte = (run * 4 + (int)threadIdx.x % 4) * P::unit_bytes;
    const char *const at = line + thin_place<P>(row, byte / 16) + byte % 16;
    uint32_t word[4];
    if constexpr (words == 4) {
        const uint4 piece = *(const uint4 *)at;
        word[0] = piece.x, word[1] = piece.y, word[2] = piece.z, word[3] = piece.w;
    } else if constexpr (words == 2) {
        const uint2 piece = *(const uint2 *)at;
        word[0] = piece.x, word[1] = piece.y;
    } else {
        word[0] = *(const uint32_t *)at;
    }
#pragma unroll
    for (int w = 0; w < words; w++) {
        uint32_t number[each];
        P::numbers(word[w], number);
#pragma unroll
        for (int i = 0; i < each; i++)
            r[w * each + i] = number[i];
    }
}

/* ---- vectors and scales ---- */

/* Eight slots of a lane: numbers of vector `at` from k on. */
template <class P, bool COPIES, class A>
static __device__ inline uint4 thin_vector(const A &a, int64_t batch, int64_t at, int64_t k) {
    uint32_t word[4] = {0, 0, 0, 0}, from[4];
    if constexpr (COPIES && P::vectors_lie && P::run > 1) {
#pragma unroll
        for (int j = 0; j < 8 / P::run; j++) {
            const void *const place = P::vectors_at(a, batch, at, k + P::start(j));
            if constexpr (P::run == 8) {
                const uint4 piece = *(const uint4 *)place;
                from[0] = piece.x, from[1] = piece.y, from[2] = piece.z, from[3] = piece.w;
            } else {
                const uint2 piece = *(const uint2 *)place;
                from[2 * j] = piece.x, from[2 * j + 1] = piece.y;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int pick = P::pick(i);
            word[i / 2] |= (from[pick / 2] >> pick % 2 * 16 & 0xffff) << i % 2 * 16;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            word[i / 2] |= (uint32_t)P::vector(a, batch, at, k + P::order(i)) << i % 2 * 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* A thread of those that share work out. */
struct thin_share {
    int thread, threads;
};

/* Whether registers have runs of neighbours along k in their order: copies put them where they are read. */
template <class P, bool COPIES> static __device__ constexpr bool thin_copies_vectors() {
    return COPIES && P::vectors_lie && P::in_order;
}

/* Begins the copies of the block's vectors along a round's k, as thin_vectors() has them. Blocks begin at
 * different places: all of them read the same. */
template <class P, class A>
static __device__ inline void thin_copy_vectors(const A &a, const thin_item &item, int line, char *to) {
    typedef thin_memory<P> memory;
    const int of_vector = P::part_lines * memory::runs * memory::pieces * 4;
    const int rotation = (int)(blockIdx.x * 32u % (unsigned)of_vector);
    const int64_t first = (int64_t)line * memory::line_numbers;
#pragma unroll 1
    for (int from = (int)threadIdx.x; from < of_vector; from += (int)blockDim.x) {
        const int here = from + rotation < of_vector ? from + rotation : from + rotation - of_vector;
        const int64_t k = first + here / 4 / memory::pieces * 4 * memory::unit_numbers;
        const int64_t along =
            k < P::k ? k + here / 4 % memory::pieces * P::piece_apart + here % 4 * P::apart : first;
        const uint32_t slot = ptx_shared_address(to) + (here / 4 * P::vectors * 4 + here % 4) * 16;
#pragma unroll 8
        for (int at = 0; at < P::vectors; at++) {
            const bool is_there = P::vectors == P::all_vectors || item.vector + at < P::all_vectors;
            const int64_t vector = P::vectors == P::all_vectors ? at : is_there ? item.vector + at : 0;
            const int filled = k < P::k && is_there ? 16 : 0;
            if constexpr (P::run == 8) {
                ptx_copy_part_past_l1(slot + at * 64,
                                      P::vectors_at(a, item.batch, vector, along + P::start(0)), filled);
            } else {
#pragma unroll
                for (int j = 0; j < 2; j++)
                    ptx_copy_part<8>(slot + at * 64 + j * 8,
                                     P::vectors_at(a, item.batch, vector, along + P::start(j)), filled / 2);
            }
        }
    }
    ptx_copy_commit();
}

/* The block's vectors along a round's k: [run of units][piece][vector][lane % 4], zeros past the end. A
 * thread has the loads of several pieces on their way before it stores the first. */
template <class P, bool COPIES, class A>
static __device__ inline void thin_vectors(const A &a, const thin_item &item, int line, char *to,
                                           const thin_share &share) {
    typedef thin_memory<P> memory;
    const int runs = P::part_lines * memory::runs, of_vector = runs * memory::pieces * 4;
    const int whole = of_vector * P::vectors, each = (whole + memory::warps * 32 - 1) / (memory::warps * 32);
    const int batch = !COPIES || !P::vectors_lie ? 1 : each < 8 ? each : 8;
    const int64_t first = (int64_t)line * memory::line_numbers;
#pragma unroll 1
    for (int from = share.thread; from < whole; from += batch * share.threads) {
        uint4 piece[batch];
#pragma unroll
        for (int u = 0; u < batch; u++) {
            const int i = from + u * share.threads, at = i / of_vector, here = i % of_vector;
            const int64_t k = first + (int64_t)(here / 4 / memory::pieces) * 4 * memory::unit_numbers;
            const bool inside = i < whole && k < P::k && item.vector + at < P::all_vectors;
            piece[u] = thin_vector<P, COPIES>(
                a, item.batch, inside ? item.vector + at : 0,
                inside ? k + here / 4 % memory::pieces * P::piece_apart + here % 4 * P::apart : first);
            if (!inside) piece[u] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < batch; u++) {
            const int i = from + u * share.threads, at = i / of_vector, here = i % of_vector;
            if (i < whole) *(uint4 *)(to + ((here / 4 * P::vectors + at) * 4 + here % 4) * 16) = piece[u];
        }
    }
}

/* The group of a line's first number. */
template <class P> static __device__ inline int thin_group(int line) {
    return (int)((int64_t)line * thin_memory<P>::line_numbers / P::group);
}

/* Scales of a round's groups. odd: of each row, whether one of them is not finite. */
template <class P, class A>
static __device__ inline void thin_scales_each(const A &a, const thin_item &item, int line, float *scales,
                                               int *odd, const thin_share &share) {
#pragma unroll 4
    for (int i = share.thread; i < thin_memory<P>::rows * P::part_groups; i += share.threads) {
        const int row = i / P::part_groups, at = i % P::part_groups;
        const int64_t k = (thin_group<P>(line) + at) * P::group;
        const bool inside = item.row + row < P::rows && k < P::k;
        const float value = inside ? P::scale(a, item.batch, item.row + row, k) : 0;
        scales[row * P::scale_pitch + at] = value;
        if (value - value != 0) odd[row] = 1;
    }
}

/* The same, P::scale_run neighbours at once; rounds begin at a whole number of them. */
template <class P, class A>
static __device__ inline void thin_scales_runs(const A &a, const thin_item &item, int line, float *scales,
                                               int *odd, const thin_share &share) {
    const int runs = (P::part_groups + P::scale_run - 1) / P::scale_run, whole = thin_memory<P>::rows * runs;
#pragma unroll 1
    for (int from = share.thread; from < whole; from += 4 * share.threads) {
        uint4 piece[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int i = from + u * share.threads, row = i / runs;
            const int64_t k = (thin_group<P>(line) + i % runs * P::scale_run) * P::group;
            const bool inside = i < whole && item.row + row < P::rows && k < P::k;
            piece[u] = *(const uint4 *)P::scales(a, item.batch, inside ? item.row + row : 0, inside ? k : 0);
            if (!inside) piece[u] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int i = from + u * share.threads, row = i / runs;
            float value[P::scale_run], sum = 0;
            P::scale_of(piece[u], value);
#pragma unroll
            for (int v = 0; v < P::scale_run; v++)
                sum = fmaf(value[v], 0.0f, sum);
            if (i >= whole) continue;
            float4 *const slot = (float4 *)(scales + row * P::scale_pitch + i % runs * P::scale_run);
#pragma unroll
            for (int v = 0; v < P::scale_run; v += 4)
                slot[v / 4] = make_float4(value[v], value[v + 1], value[v + 2], value[v + 3]);
            if (sum != 0) odd[row] = 1;
        }
    }
}

template <class P, bool COPIES, class A>
static __device__ inline void thin_scales(const A &a, const thin_item &item, int line, float *scales,
                                          int *odd, const thin_share &share) {
    if constexpr (COPIES && P::scale_run > 1)
        thin_scales_runs<P>(a, item, line, scales, odd, share);
    else
        thin_scales_each<P>(a, item, line, scales, odd, share);
}

/* ---- products ---- */

/* A lane has the rows lane / 4 and those 8, 16 and 24 further on. */
template <class P> struct thin_sums { float sum[2][thin_memory<P>::columns][4]; };

template <class P>
static __device__ inline void thin_run(const char *line, const char *vectors, int run, thin_sums<P> &g) {
    typedef thin_memory<P> memory;
    const int lane = (int)threadIdx.x % 32;
    uint32_t r[2][2][memory::unit_numbers / 2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        thin_unpack<P>(line, i * 8 + lane / 4, run, r[i / 2][i % 2]);
#pragma unroll
    for (int piece = 0; piece < memory::pieces; piece++)
#pragma unroll
        for (int c = 0; c < memory::columns; c++) {
            const int here = c * 8 + lane / 4, at = here < P::vectors ? here : P::vectors - 1;
            const uint4 b =
                *(const uint4 *)(vectors + ((run * memory::pieces + piece) * P::vectors + at) * 64 +
                                 lane % 4 * 16);
            const uint32_t low[2] = {b.x, b.y}, high[2] = {b.z, b.w};
            const int x = piece * 4;
#pragma unroll
            for (int tile = 0; tile < 2; tile++) {
                const uint32_t(&p)[memory::unit_numbers / 2] = r[tile][0],
                                                          (&q)[memory::unit_numbers / 2] = r[tile][1];
                const uint32_t first[4] = {p[x], q[x], p[x + 1], q[x + 1]},
                               second[4] = {p[x + 2], q[x + 2], p[x + 3], q[x + 3]};
                P::multiply(g.sum[tile][c], first, low);
                P::multiply(g.sum[tile][c], second, high);
            }
        }
}

/* Sums of a group times its scale. */
template <class P>
static __device__ inline void thin_take(thin_sums<P> &sums, const thin_sums<P> &group,
                                        const float (&scale)[4]) {
#pragma unroll
    for (int tile = 0; tile < 2; tile++)
#pragma unroll
        for (int c = 0; c < thin_memory<P>::columns; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums.sum[tile][c][i] =
                    fmaf(group.sum[tile][c][i], scale[tile * 2 + i / 2], sums.sum[tile][c][i]);
}

/* scales: of the lane's first row and the line's first group. */
template <class P>
static __device__ inline void thin_line(const char *line, const char *vectors, const float *scales,
                                        thin_sums<P> &sums) {
    typedef thin_memory<P> memory;
    if constexpr (P::part_groups == 0) {
#pragma unroll
        for (int run = 0; run < memory::runs; run++)
            thin_run<P>(line, vectors, run, sums);
    } else {
        const int together = memory::together;
#pragma unroll 1 /* less to compile */
        for (int first = 0; first < memory::line_groups; first += together) {
            float scale[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *const at = scales + i * 8 * P::scale_pitch + first;
                if constexpr (memory::together == 4) {
                    const float4 four = *(const float4 *)at;
                    scale[0][i] = four.x, scale[1][i] = four.y, scale[2][i] = four.z, scale[3][i] = four.w;
                } else {
                    scale[0][i] = *at;
                }
            }
#pragma unroll
            for (int group = 0; group < together; group++) {
                thin_sums<P> of_group = {};
#pragma unroll
                for (int run = 0; run < memory::group_runs; run++)
                    thin_run<P>(line, vectors, (first + group) * memory::group_runs + run, of_group);
                thin_take<P>(sums, of_group, scale[group]);
            }
        }
    }
}

/* ---- results ---- */

/* Along the part's k, as the text says. */
template <class P, class A>
static __device__ inline float thin_again(const A &a, const thin_item &item, int64_t row, int64_t at) {
    typedef thin_memory<P> memory;
    const int64_t most = (int64_t)item.end * memory::line_numbers, end = most < P::k ? most : P::k;
    float sum = 0;
#pragma unroll 1
    for (int64_t k = (int64_t)item.line * memory::line_numbers; k < end; k++)
        sum += P::product(a, item.batch, row, at, k);
    return sum;
}

template <class P> static __device__ inline void thin_share_sums(const thin_sums<P> &g, float *to) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < 2; tile++)
#pragma unroll
        for (int c = 0; c < thin_memory<P>::columns; c++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                to[(tile * 16 + i / 2 * 8 + lane / 4) * thin_memory<P>::pitch + c * 8 + lane % 4 * 2 +
                   i % 2] = g.sum[tile][c][i];
}

/* What all warps along k have. `met`: [warp along k][row][vector]. */
template <class P, class A>
static __device__ inline void thin_leave(const A &a, const thin_item &item, const float *met, const int *odd,
                                         const gemm_size &size, float *parts) {
    typedef thin_memory<P> memory;
    for (int i = (int)threadIdx.x; i < memory::rows * P::vectors; i += (int)blockDim.x) {
        const int here = i % memory::rows, column = i / memory::rows;
        const int64_t row = item.row + here, at = item.vector + column;
        if (row >= P::rows || at >= P::all_vectors) continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < P::k_warps; w++)
            sum += met[(w * memory::rows + here) * memory::pitch + column];
        if (P::part_groups > 0 && odd[here]) sum = thin_again<P>(a, item, row, at);
        if constexpr (P::splits == 1) {
            P::store(a, item.batch, row, at, sum);
        } else {
            parts[((item.part * size.batch + item.batch) * P::all_vectors + at) * P::rows + row] = sum;
        }
    }
}

/* Vectors and scales of a round. Where both are few, half of the warps bring each: they wait at once. */
template <class P, bool COPIES, class A>
static __device__ inline void thin_begin_round(const A &a, const thin_item &item, int line, char *vectors,
                                               float *scales, int *odd) {
    const int threads = thin_memory<P>::warps * 32, half = threads / 2, thread = (int)threadIdx.x;
    const bool copies = thin_copies_vectors<P, COPIES>();
    if constexpr (copies && P::part_groups > 0) {
        thin_scales<P, COPIES>(a, item, line, scales, odd, {thread, threads});
    } else if constexpr (copies) {
    } else if constexpr (P::part_groups == 0) {
        thin_vectors<P, COPIES>(a, item, line, vectors, {thread, threads});
    } else if constexpr (P::vectors > 4) {
        thin_scales<P, COPIES>(a, item, line, scales, odd, {thread, threads});
        thin_vectors<P, COPIES>(a, item, line, vectors, {thread, threads});
    } else if (thread < half) {
        thin_scales<P, COPIES>(a, item, line, scales, odd, {thread, half});
    } else {
        thin_vectors<P, COPIES>(a, item, line, vectors, {thread - half, half});
    }
}

/* COPIES: arrays begin at whole 16 bytes. `parts`: scratch memory. */
template <class P, bool COPIES, class A>
static __device__ inline void gemm_thin(const A &a, const gemm_size size, float *parts) {
    typedef thin_memory<P> memory;
    char *const shared = staged_memory();
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int row_warp = warp % P::row_warps, k_warp = warp / P::row_warps;
    const thin_item item = thin_item_of<P>();
    const int64_t row = item.row + row_warp * 32;
    char *const ring = shared + warp * P::places * memory::place_bytes;
    char *const vectors = shared + memory::vectors_at;
    float *const scales = (float *)(shared + memory::scales_at);
    int *const odd = (int *)(shared + memory::odd_at);
    const bool copies = thin_copies_vectors<P, COPIES>();
    thin_sums<P> sums = {};
    if constexpr (copies) thin_copy_vectors<P>(a, item, item.line, vectors);
#pragma unroll
    for (int s = 0; s < P::places - 1; s++)
        thin_bring<P, COPIES>(a, ring + s * memory::place_bytes, item, row,
                              item.line + k_warp + s * P::k_warps);
    if constexpr (P::part_groups > 0)
        for (int i = (int)threadIdx.x; i < memory::rows; i += (int)blockDim.x)
            odd[i] = 0;
    int place = 0, line = item.line + k_warp;
#pragma unroll 1
    for (int round = item.line; round < item.end; round += P::part_lines) {
        __syncthreads(); /* all have done with the round before */
        if constexpr (copies && P::rounds > 1)
            if (round > item.line) thin_copy_vectors<P>(a, item, round, vectors);
        thin_begin_round<P, COPIES>(a, item, round, vectors, scales, odd);
        if (copies && round == item.line) ptx_copy_wait<P::places - 1>();
        if (copies && round > item.line) ptx_copy_wait<0>();
        __syncthreads();
        const int end = round + P::part_lines < item.end ? round + P::part_lines : item.end;
#pragma unroll 1
        for (; line < end; line += P::k_warps) {
            const int next = place ? place - 1 : P::places - 1; /* the place that the line before left */
            thin_bring<P, COPIES>(a, ring + next * memory::place_bytes, item, row,
                                  line + (P::places - 1) * P::k_warps);
            ptx_copy_wait<P::places - 1>();
            __syncwarp();
            const int group = thin_group<P>(line) - thin_group<P>(round);
            thin_line<P>(ring + place * memory::place_bytes, vectors + (line - round) * memory::line_bytes,
                         scales + (row_warp * 32 + lane / 4) * P::scale_pitch + group, sums);
            __syncwarp();
            place = place == P::places - 1 ? 0 : place + 1;
        }
    }
    ptx_copy_wait<0>();
    __syncthreads();
    float *const met = (float *)shared;
    thin_share_sums<P>(sums, met + (k_warp * memory::rows + row_warp * 32) * memory::pitch);
    __syncthreads();
    thin_leave<P>(a, item, met, odd, size, parts);
}

/* Adds up what parts of k left: [part][batch][vector][row]. */
template <class P, class A>
static __device__ inline void thin_fold(const A &a, const gemm_size size, const float *parts) {
    const int64_t whole = size.batch * P::all_vectors * P::rows;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= whole) return;
    float sum = parts[i];
#pragma unroll
    for (int p = 1; p < P::splits; p++)
        sum += parts[p * whole + i];
    P::store(a, i / P::rows / P::all_vectors, i % P::rows, i / P::rows % P::all_vectors, sum);
}
