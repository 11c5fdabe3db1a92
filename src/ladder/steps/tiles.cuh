// Tiles of 16-bit elements in shared memory: rows of 64, which are 128 bytes, eight chunks of 16 bytes each.
// A layout says where chunk `chunk` of row `row` stands, in bytes.

// What a warp's ldmatrix reads at once, a chunk of eight rows, lies in the same four banks: eight accesses.
struct rows_as_they_lie {
    static __device__ inline int place(int row, int chunk) {
        return row * 128 + chunk * 16;
    }
};

// The same in eight different places: one access.
struct rows_swizzled {
    static __device__ inline int place(int row, int chunk) {
        return row * 128 + ((chunk ^ row % 8) << 4);
    }
};

// ROWS rows of a matrix by THREADS threads, through their registers.
template <class LAYOUT, int ROWS, int THREADS>
static __device__ inline void tile_load(char *tile, const uint16_t *from, int64_t stride) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * 8; i += THREADS)
        *(uint4 *)(tile + LAYOUT::place(i / 8, i % 8)) = *(const uint4 *)(from + i / 8 * stride + i % 8 * 8);
}

// The same by copies that go on by themselves.
template <class LAYOUT, int ROWS, int THREADS>
static __device__ inline void tile_copy(uint32_t tile, const uint16_t *from, int64_t stride) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * 8; i += THREADS)
        ptx_copy_part_past_l1(tile + LAYOUT::place(i / 8, i % 8), from + i / 8 * stride + i % 8 * 8, 16);
}

// The left operand of a warp's product: 16 rows from `row` on, step `step` of 16 along k, which runs along the rows.
template <class LAYOUT>
static __device__ inline void left_fragment(uint32_t (&r)[4], uint32_t tile, int row, int step) {
    const int lane = threadIdx.x % 32;
    ptx_load_matrix_4(r, tile + LAYOUT::place(row + lane % 16, step * 2 + lane / 16));
}

// The right operand of two products of 8 columns. Its 16 columns are rows of the tile, k runs along them:
template <class LAYOUT>
static __device__ inline void right_of_rows(uint32_t (&r)[2][2], uint32_t tile, int row, int step) {
    const int lane = threadIdx.x % 32;
    uint32_t four[4];
    ptx_load_matrix_4(four, tile + LAYOUT::place(row + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
    r[0][0] = four[0], r[0][1] = four[1], r[1][0] = four[2], r[1][1] = four[3];
}

// or they are neighbours in a row, and k counts the rows.
template <class LAYOUT>
static __device__ inline void right_of_columns(uint32_t (&r)[2][2], uint32_t tile, int column, int step) {
    const int lane = threadIdx.x % 32;
    uint32_t four[4];
    ptx_load_matrix_4_transposed(four, tile + LAYOUT::place(step * 16 + lane % 16, column / 8 + lane / 16));
    r[0][0] = four[0], r[0][1] = four[1], r[1][0] = four[2], r[1][1] = four[3];
}
