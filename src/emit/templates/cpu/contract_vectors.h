/* The vector unit of a matrix product: packs operands into panels [k][rows of the panel] of fxx and
 * multiplies them by a register tile of CONTRACT_FXX_ROWS x CONTRACT_FXX_VECTORS vectors.
 *
 * In: the main loop's callbacks. Out: contract_fxx_vectors, a contract_fxx_unit.
 *
 * The emitter defines CONTRACT_FXX_ROWS, CONTRACT_FXX_VECTORS and CONTRACT_FXX_STRIP before it.
 */
typedef FLOAT contract_fxx_vector __attribute__((vector_size(4 * HR_LANES)));
typedef FLOAT contract_fxx_loose
    __attribute__((vector_size(4 * HR_LANES), aligned(sizeof(FLOAT)), may_alias));
typedef intxx_t contract_fxx_mask __attribute__((vector_size(4 * HR_LANES)));

enum {
    CONTRACT_FXX_LANES = sizeof(contract_fxx_vector) / sizeof(FLOAT),
    CONTRACT_FXX_COLUMNS = CONTRACT_FXX_VECTORS * CONTRACT_FXX_LANES,
    /* The columns that any unit finishes at a time, and a vector that begins at the last of them. */
    CONTRACT_FXX_FINISH = (CONTRACT_FXX_COLUMNS > 32 ? CONTRACT_FXX_COLUMNS : 32) + CONTRACT_FXX_LANES
};

/* ---- packing ---- */

#if defined __clang__ || __GNUC__ >= 12
#define CONTRACT_FXX_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CONTRACT_FXX_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (contract_fxx_mask){__VA_ARGS__})
#endif
#if LANES == 16
#define CONTRACT_FXX_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define CONTRACT_FXX_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define CONTRACT_FXX_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define CONTRACT_FXX_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif LANES == 4
#define CONTRACT_FXX_LOW  0, 4, 1, 5
#define CONTRACT_FXX_HIGH 2, 6, 3, 7
#else
#define CONTRACT_FXX_LOW  0, 2
#define CONTRACT_FXX_HIGH 1, 3
#endif

/* Turns a square of vectors: log2(lanes) perfect shuffles of the rows. */
static inline __attribute__((always_inline)) void contract_fxx_transpose(contract_fxx_vector square[]) {
    contract_fxx_vector mixed[CONTRACT_FXX_LANES];
    CONTRACT_UNROLL for (int round = 1; round < CONTRACT_FXX_LANES; round *= 2) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_FXX_LANES / 2; i++) {
            contract_fxx_vector a = square[i], b = square[i + CONTRACT_FXX_LANES / 2];
            mixed[2 * i] = CONTRACT_FXX_SHUFFLE(a, b, CONTRACT_FXX_LOW);
            mixed[2 * i + 1] = CONTRACT_FXX_SHUFFLE(a, b, CONTRACT_FXX_HIGH);
        }
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_FXX_LANES; i++) square[i] = mixed[i];
    }
}

/* lines[i * CONTRACT_LINE + j], i < lanes, j < depth -> to[j * width + i], i < count. */
static inline __attribute__((always_inline)) void
contract_fxx_transpose_lines(const FLOAT *lines, int64_t depth, int count, int width, FLOAT *to) {
    contract_fxx_vector square[CONTRACT_FXX_LANES];
    for (int64_t k = 0; k < depth; k += CONTRACT_FXX_LANES) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_FXX_LANES; i++) {
            square[i] = *(const contract_fxx_loose *)(lines + i * CONTRACT_LINE + k);
        }
        contract_fxx_transpose(square);
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_FXX_LANES; i++) {
            if (k + i < depth) {
                __builtin_memcpy(to + (k + i) * width, &square[i], (size_t)count * sizeof(FLOAT));
            }
        }
    }
}

/* A panel: to[j * width + i] is row i at depth j; rows past `rows` are 0. */
static inline __attribute__((always_inline)) void
contract_fxx_pack(const struct contract_fxx_team *team, const struct contract_fxx_operand *operand,
                  int64_t row, int64_t rows, int64_t k, int64_t depth, int width, FLOAT *to) {
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
    FLOAT *lines = (FLOAT *)(team->own + team->blocks->lines);
    for (int i = 0; i < width; i += CONTRACT_FXX_LANES) {
        int64_t there = contract_max(0, contract_min(CONTRACT_FXX_LANES, rows - i));
        for (int64_t line = there; line < CONTRACT_FXX_LANES; line++) {
            for (int64_t j = 0; j < CONTRACT_STRIP; j++)
                lines[line * CONTRACT_LINE + j] = 0;
        }
        for (int64_t j = 0; j < depth; j += CONTRACT_STRIP) {
            int64_t strip = contract_min(CONTRACT_STRIP, depth - j);
            if (there)
                operand->fill(arguments, team->batch, row + i, there, k + j, strip, lines, CONTRACT_LINE,
                              CONTRACT_AHEAD_ALONG);
            FLOAT *corner = to + j * width + i;
            if (i + CONTRACT_FXX_LANES <= width)
                contract_fxx_transpose_lines(lines, strip, CONTRACT_FXX_LANES, width, corner);
            else
                contract_fxx_transpose_lines(lines, strip, width % CONTRACT_FXX_LANES, width, corner);
        }
    }
}

static __attribute__((noinline)) intxx_t contract_fxx_vectors_left(const struct contract_fxx_team *team,
                                                                   int64_t row, int64_t rows, int64_t k,
                                                                   int64_t depth, FLOAT *to) {
    contract_fxx_pack(team, &team->product->left, row, rows, k, depth, CONTRACT_FXX_ROWS, to);
    return 0;
}

static __attribute__((noinline)) intxx_t contract_fxx_vectors_right(const struct contract_fxx_team *team,
                                                                    int64_t row, int64_t rows, int64_t k,
                                                                    int64_t depth, FLOAT *to) {
    contract_fxx_pack(team, &team->product->right, row, rows, k, depth, CONTRACT_FXX_COLUMNS, to);
    return 0;
}

/* ---- the register tile ---- */

/* One step along k: `rows` x `vectors` products, both known where this is inlined. */
static inline __attribute__((always_inline)) void
contract_fxx_step(int rows, int vectors, const FLOAT *left, const FLOAT *right,
                  contract_fxx_vector sum[][CONTRACT_FXX_VECTORS]) {
    contract_fxx_vector column[CONTRACT_FXX_VECTORS];
    CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
        column[j] = *(const contract_fxx_vector *)(right + j * CONTRACT_FXX_LANES);
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        contract_fxx_vector row = left[i] - (contract_fxx_vector){0};
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += row * column[j];
    }
}

/* Prefetches the bytes [ahead, ahead + bytes). */
static inline __attribute__((always_inline)) void contract_fxx_prefetch(const char *ahead, int64_t bytes) {
    for (int64_t byte = 0; byte < bytes; byte += 64)
        __builtin_prefetch(ahead + byte, 0, 2);
}

/* `rows` x `vectors` sums of the piece. A tile of few products has little to hide its loop's own instructions
 * behind, and those of each request: such loops take CONTRACT_FXX_STRIP steps in one piece. */
static inline __attribute__((always_inline)) void
contract_fxx_multiply(int rows, int vectors, const struct contract_fxx_piece *piece) {
    const FLOAT *restrict left = piece->left, *restrict right = piece->right;
    const char *ahead = piece->ahead;
    FLOAT *restrict tile = piece->sums;
    const bool first = piece->first;
    const int64_t depth = piece->depth, step = piece->step;
    contract_fxx_vector sum[CONTRACT_FXX_ROWS][CONTRACT_FXX_VECTORS];
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            const FLOAT *from = tile + i * CONTRACT_FXX_COLUMNS + j * CONTRACT_FXX_LANES;
            sum[i][j] = first ? (contract_fxx_vector){0} : *(const contract_fxx_vector *)from;
        }
    }
    if (CONTRACT_FXX_STRIP == 1) {
        for (int64_t k = 0; k < depth; k++) {
            __builtin_prefetch(ahead, 0, 2);
            contract_fxx_step(rows, vectors, left, right, sum);
            left += CONTRACT_FXX_ROWS;
            right += CONTRACT_FXX_COLUMNS;
            ahead += step;
        }
    } else {
        for (int64_t k = 0; k < depth; k += CONTRACT_FXX_STRIP) {
            const int64_t strip = contract_min(CONTRACT_FXX_STRIP, depth - k);
            contract_fxx_prefetch(ahead, strip * step);
            CONTRACT_UNROLL_STEPS for (int64_t i = 0; i < strip; i++) {
                contract_fxx_step(rows, vectors, left, right, sum);
                left += CONTRACT_FXX_ROWS;
                right += CONTRACT_FXX_COLUMNS;
            }
            ahead += strip * step;
        }
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            FLOAT *to = tile + i * CONTRACT_FXX_COLUMNS + j * CONTRACT_FXX_LANES;
            *(contract_fxx_vector *)to = sum[i][j];
        }
    }
}

/* Ragged ends and products of few rows use fewer registers: half the rows, a quarter, two or one. */
static inline __attribute__((always_inline)) void
contract_fxx_multiply_rows(int vectors, const struct contract_fxx_piece *piece) {
    enum { ROWS = CONTRACT_FXX_ROWS, HALF = (ROWS + 1) / 2, QUARTER = (HALF + 1) / 2 };
    if (piece->rows > HALF)
        contract_fxx_multiply(ROWS, vectors, piece);
    else if (piece->rows > QUARTER)
        contract_fxx_multiply(HALF, vectors, piece);
    else if (piece->rows > 2)
        contract_fxx_multiply(QUARTER, vectors, piece);
    else if (piece->rows > 1)
        contract_fxx_multiply(2, vectors, piece);
    else
        contract_fxx_multiply(1, vectors, piece);
}

static __attribute__((noinline)) void contract_fxx_vectors_multiply(const struct contract_fxx_piece *piece) {
    if (piece->columns > CONTRACT_FXX_LANES)
        contract_fxx_multiply_rows(CONTRACT_FXX_VECTORS, piece);
    else
        contract_fxx_multiply_rows(1, piece);
}

static const struct contract_fxx_unit contract_fxx_vectors = {
    contract_fxx_vectors_left, contract_fxx_vectors_right, contract_fxx_vectors_multiply};
