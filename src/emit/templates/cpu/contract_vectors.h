/* The vector unit of a matrix product: packs operands into panels [k][rows of the panel] of f32 and
 * multiplies them by a register tile of CONTRACT_F32_ROWS x CONTRACT_F32_VECTORS vectors.
 *
 * In: the main loop's callbacks. Out: contract_f32_vectors, a contract_f32_unit.
 *
 * The emitter makes the f64 version of this text by renaming, and defines CONTRACT_F32_ROWS,
 * CONTRACT_F32_VECTORS and CONTRACT_F32_STRIP before it.
 */
typedef float contract_f32_vector __attribute__((vector_size(4 * HR_LANES)));
typedef float contract_f32_loose
    __attribute__((vector_size(4 * HR_LANES), aligned(sizeof(float)), may_alias));
typedef int32_t contract_f32_mask __attribute__((vector_size(4 * HR_LANES)));

enum {
    CONTRACT_F32_LANES = sizeof(contract_f32_vector) / sizeof(float),
    CONTRACT_F32_COLUMNS = CONTRACT_F32_VECTORS * CONTRACT_F32_LANES,
    /* The columns that any unit finishes at a time, and a vector that begins at the last of them. */
    CONTRACT_F32_FINISH = (CONTRACT_F32_COLUMNS > 32 ? CONTRACT_F32_COLUMNS : 32) + CONTRACT_F32_LANES
};

/* ---- packing ---- */

#if defined __clang__ || __GNUC__ >= 12
#define CONTRACT_F32_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CONTRACT_F32_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (contract_f32_mask){__VA_ARGS__})
#endif
#if HR_LANES == 16
#define CONTRACT_F32_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define CONTRACT_F32_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif HR_LANES == 8
#define CONTRACT_F32_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define CONTRACT_F32_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif HR_LANES == 4
#define CONTRACT_F32_LOW  0, 4, 1, 5
#define CONTRACT_F32_HIGH 2, 6, 3, 7
#else
#define CONTRACT_F32_LOW  0, 2
#define CONTRACT_F32_HIGH 1, 3
#endif

/* Turns a square of vectors: log2(lanes) perfect shuffles of the rows. */
static inline __attribute__((always_inline)) void contract_f32_transpose(contract_f32_vector square[]) {
    contract_f32_vector mixed[CONTRACT_F32_LANES];
    CONTRACT_UNROLL for (int round = 1; round < CONTRACT_F32_LANES; round *= 2) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES / 2; i++) {
            contract_f32_vector a = square[i], b = square[i + CONTRACT_F32_LANES / 2];
            mixed[2 * i] = CONTRACT_F32_SHUFFLE(a, b, CONTRACT_F32_LOW);
            mixed[2 * i + 1] = CONTRACT_F32_SHUFFLE(a, b, CONTRACT_F32_HIGH);
        }
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) square[i] = mixed[i];
    }
}

/* lines[i * CONTRACT_LINE + j], i < lanes, j < depth -> to[j * width + i], i < count. */
static inline __attribute__((always_inline)) void
contract_f32_transpose_lines(const float *lines, int64_t depth, int count, int width, float *to) {
    contract_f32_vector square[CONTRACT_F32_LANES];
    for (int64_t k = 0; k < depth; k += CONTRACT_F32_LANES) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) {
            square[i] = *(const contract_f32_loose *)(lines + i * CONTRACT_LINE + k);
        }
        contract_f32_transpose(square);
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) {
            if (k + i < depth) {
                __builtin_memcpy(to + (k + i) * width, &square[i], (size_t)count * sizeof(float));
            }
        }
    }
}

/* A panel: to[j * width + i] is row i at depth j; rows past `rows` are 0. */
static inline __attribute__((always_inline)) void
contract_f32_pack(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                  int64_t row, int64_t rows, int64_t k, int64_t depth, int width, float *to) {
    const struct arguments *arguments = team->product->arguments;
    if (!operand->along_k) {
        operand->fill(arguments, team->batch, row, rows, k, depth, to, width, CONTRACT_AHEAD_ACROSS);
        if (rows == width) return;
        for (int64_t j = 0; j < depth; j++) {
            for (int64_t i = rows; i < width; i++)
                to[j * width + i] = 0;
        }
        return;
    }
    float *lines = (float *)(team->own + team->blocks->lines);
    for (int i = 0; i < width; i += CONTRACT_F32_LANES) {
        int64_t there = contract_max(0, contract_min(CONTRACT_F32_LANES, rows - i));
        for (int64_t line = there; line < CONTRACT_F32_LANES; line++) {
            for (int64_t j = 0; j < CONTRACT_STRIP; j++)
                lines[line * CONTRACT_LINE + j] = 0;
        }
        for (int64_t j = 0; j < depth; j += CONTRACT_STRIP) {
            int64_t strip = contract_min(CONTRACT_STRIP, depth - j);
            if (there)
                operand->fill(arguments, team->batch, row + i, there, k + j, strip, lines, CONTRACT_LINE,
                              CONTRACT_AHEAD_ALONG);
            float *corner = to + j * width + i;
            if (i + CONTRACT_F32_LANES <= width)
                contract_f32_transpose_lines(lines, strip, CONTRACT_F32_LANES, width, corner);
            else
                contract_f32_transpose_lines(lines, strip, width % CONTRACT_F32_LANES, width, corner);
        }
    }
}

static __attribute__((noinline)) int32_t contract_f32_vectors_left(const struct contract_f32_team *team,
                                                                   int64_t row, int64_t rows, int64_t k,
                                                                   int64_t depth, float *to) {
    contract_f32_pack(team, &team->product->left, row, rows, k, depth, CONTRACT_F32_ROWS, to);
    return 0;
}

static __attribute__((noinline)) int32_t contract_f32_vectors_right(const struct contract_f32_team *team,
                                                                    int64_t row, int64_t rows, int64_t k,
                                                                    int64_t depth, float *to) {
    contract_f32_pack(team, &team->product->right, row, rows, k, depth, CONTRACT_F32_COLUMNS, to);
    return 0;
}

/* ---- the register tile ---- */

/* One step along k: `rows` x `vectors` products, both known where this is inlined. */
static inline __attribute__((always_inline)) void
contract_f32_step(int rows, int vectors, const float *left, const float *right,
                  contract_f32_vector sum[][CONTRACT_F32_VECTORS]) {
    contract_f32_vector column[CONTRACT_F32_VECTORS];
    CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
        column[j] = *(const contract_f32_vector *)(right + j * CONTRACT_F32_LANES);
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        contract_f32_vector row = left[i] - (contract_f32_vector){0};
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += row * column[j];
    }
}

/* Prefetches the bytes [ahead, ahead + bytes). */
static inline __attribute__((always_inline)) void contract_f32_prefetch(const char *ahead, int64_t bytes) {
    for (int64_t byte = 0; byte < bytes; byte += 64)
        __builtin_prefetch(ahead + byte, 0, 2);
}

/* `rows` x `vectors` sums of the piece. A tile of few products has little to hide its loop's own instructions
 * behind, and those of each request: such loops take CONTRACT_F32_STRIP steps in one piece. */
static inline __attribute__((always_inline)) void
contract_f32_multiply(int rows, int vectors, const struct contract_f32_piece *piece) {
    const float *restrict left = piece->left, *restrict right = piece->right;
    const char *ahead = piece->ahead;
    float *restrict tile = piece->sums;
    const bool first = piece->first;
    const int64_t depth = piece->depth, step = piece->step;
    contract_f32_vector sum[CONTRACT_F32_ROWS][CONTRACT_F32_VECTORS];
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            const float *from = tile + i * CONTRACT_F32_COLUMNS + j * CONTRACT_F32_LANES;
            sum[i][j] = first ? (contract_f32_vector){0} : *(const contract_f32_vector *)from;
        }
    }
    if (CONTRACT_F32_STRIP == 1) {
        for (int64_t k = 0; k < depth; k++) {
            __builtin_prefetch(ahead, 0, 2);
            contract_f32_step(rows, vectors, left, right, sum);
            left += CONTRACT_F32_ROWS;
            right += CONTRACT_F32_COLUMNS;
            ahead += step;
        }
    } else {
        for (int64_t k = 0; k < depth; k += CONTRACT_F32_STRIP) {
            const int64_t strip = contract_min(CONTRACT_F32_STRIP, depth - k);
            contract_f32_prefetch(ahead, strip * step);
            CONTRACT_UNROLL_STEPS for (int64_t i = 0; i < strip; i++) {
                contract_f32_step(rows, vectors, left, right, sum);
                left += CONTRACT_F32_ROWS;
                right += CONTRACT_F32_COLUMNS;
            }
            ahead += strip * step;
        }
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            float *to = tile + i * CONTRACT_F32_COLUMNS + j * CONTRACT_F32_LANES;
            *(contract_f32_vector *)to = sum[i][j];
        }
    }
}

/* Ragged ends and products of few rows use fewer registers: half the rows, a quarter, two or one. */
static inline __attribute__((always_inline)) void
contract_f32_multiply_rows(int vectors, const struct contract_f32_piece *piece) {
    enum { ROWS = CONTRACT_F32_ROWS, HALF = (ROWS + 1) / 2, QUARTER = (HALF + 1) / 2 };
    if (piece->rows > HALF)
        contract_f32_multiply(ROWS, vectors, piece);
    else if (piece->rows > QUARTER)
        contract_f32_multiply(HALF, vectors, piece);
    else if (piece->rows > 2)
        contract_f32_multiply(QUARTER, vectors, piece);
    else if (piece->rows > 1)
        contract_f32_multiply(2, vectors, piece);
    else
        contract_f32_multiply(1, vectors, piece);
}

static __attribute__((noinline)) void contract_f32_vectors_multiply(const struct contract_f32_piece *piece) {
    if (piece->columns > CONTRACT_F32_LANES)
        contract_f32_multiply_rows(CONTRACT_F32_VECTORS, piece);
    else
        contract_f32_multiply_rows(1, piece);
}

static const struct contract_f32_unit contract_f32_vectors = {
    contract_f32_vectors_left, contract_f32_vectors_right, contract_f32_vectors_multiply};
