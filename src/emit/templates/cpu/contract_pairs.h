/* Two operands whose values are all bf16, packed as pairs of neighbours along k, for the units that multiply
 * pairs (contract_tiles.h, contract_dots.h).
 *
 * In: the main loop's callbacks, which give bf16 values as f32. Out: contract_pairs_left,
 * contract_pairs_right and, for pairs that no such unit may multiply, contract_pairs_multiply.
 *
 * A panel is [step of 16 pairs][half of the panel's 32 rows], each a tile of 16 lines of 64 bytes: a line is
 * a row of the left operand, a pair of the right one. Values stay as they are: narrowing takes the upper half
 * of an f32.
 *
 * The units take denormals for 0, operands and sums. Packing finds the least exponent of a panel that is not
 * of a 0. Where both operands' together say that each product is a multiple of 2^-126, no sum can be
 * denormal; elsewhere the same packed pairs are multiplied by f32 vectors.
 */
#if defined __AVX512BW__ && HR_LANES == 16
#define CONTRACT_PAIRS
#ifdef __AVX512BF16__
#define CONTRACT_DOTS
#endif

typedef uint16_t contract_halves __attribute__((vector_size(64)));
typedef uint32_t contract_pairs __attribute__((vector_size(64)));
typedef uint32_t contract_pair __attribute__((may_alias));
typedef uint32_t contract_pairs_loose __attribute__((vector_size(64), aligned(4), may_alias));

enum {
    CONTRACT_TILE = 16,                                 /* lines of a tile, 32-bit elements of a line */
    CONTRACT_TILE_SIZE = CONTRACT_TILE * CONTRACT_TILE, /* of a step's half panel */
    CONTRACT_PAIRS_WIDTH = 2 * CONTRACT_TILE,           /* rows of a panel, and columns */
    CONTRACT_PAIRS_STRIP = 64,                          /* of k, filled at a time across rows */
    CONTRACT_PAIRS_LEAST = 142,     /* biased exponents: 2^-7 2^-7 2^(142 - 254) = 2^-126 */
    CONTRACT_PAIRS_DENORMAL = -256, /* no other operand makes up for it */
};

/* ---- packing ---- */

/* Smaller than any other magnitude is none: 0 counts as the largest. */
static inline contract_halves contract_pairs_smaller(contract_halves least, contract_pairs pairs) {
    contract_halves magnitude = (contract_halves)(pairs & 0x7fff7fffu) - 1;
    __asm__("vpminuw %1, %0, %0" : "+v"(least) : "v"(magnitude));
    return least;
}

static int32_t contract_pairs_exponent(contract_halves least) {
    int32_t smallest = UINT16_MAX;
    for (int i = 0; i < 32; i++) {
        if (least[i] < smallest) smallest = least[i];
    }
    return smallest + 1 < 0x80 ? CONTRACT_PAIRS_DENORMAL : (smallest + 1) >> 7;
}

/* The odd ones of 32 + 32: the upper halves of both vectors' f32. */
#define CONTRACT_PAIRS_UPPER(a, b)                                                                           \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, \
                            41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63)

/* Sixteen lines of 32 values along k: square[row] is the row's pairs. */
static inline __attribute__((always_inline)) void contract_pairs_along(const float *lines,
                                                                       contract_f32_vector square[]) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        contract_halves low = (contract_halves) * (const contract_pairs_loose *)(lines + i * CONTRACT_LINE);
        contract_halves high =
            (contract_halves) * (const contract_pairs_loose *)(lines + i * CONTRACT_LINE + CONTRACT_TILE);
        square[i] = (contract_f32_vector)CONTRACT_PAIRS_UPPER(low, high);
    }
}

/* 32 lines of sixteen rows: square[pair] is the pair of each row. */
static inline __attribute__((always_inline)) void contract_pairs_across(const float *lines,
                                                                        contract_f32_vector square[]) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        contract_pairs even = *(const contract_pairs_loose *)(lines + 2 * i * CONTRACT_PAIRS_WIDTH);
        contract_pairs odd = *(const contract_pairs_loose *)(lines + (2 * i + 1) * CONTRACT_PAIRS_WIDTH);
        square[i] = (contract_f32_vector)(even >> 16 | (odd & 0xffff0000u));
    }
}

static inline __attribute__((always_inline)) contract_halves
contract_pairs_store(contract_f32_vector square[], bool transpose, contract_halves least, float *to) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        least = contract_pairs_smaller(least, (contract_pairs)square[i]);
    }
    if (transpose) contract_f32_transpose(square);
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        *(contract_f32_vector *)(to + i * CONTRACT_TILE) = square[i];
    }
    return least;
}

/* The buffer of lines for a strip of k, lines along k or across rows: zeros where the operand ends inside. */
static inline __attribute__((always_inline)) void
contract_pairs_fill(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                    bool along, int64_t row, int64_t rows, int64_t k, int64_t strip, float *lines) {
    const int64_t filled = contract_max(0, contract_min(strip, team->product->k - k));
    if (!along && (rows < CONTRACT_PAIRS_WIDTH || filled < strip))
        __builtin_memset(lines, 0, (size_t)(strip * CONTRACT_PAIRS_WIDTH) * sizeof(float));
    for (int64_t line = 0; along && line < rows && filled < strip; line++)
        __builtin_memset(lines + line * CONTRACT_LINE + filled, 0, (size_t)(strip - filled) * sizeof(float));
    if (rows > 0 && filled > 0)
        operand->fill(team->product->arguments, team->batch, row, rows, k, filled, lines,
                      along ? CONTRACT_LINE : CONTRACT_PAIRS_WIDTH,
                      along ? CONTRACT_AHEAD_PAIRS : CONTRACT_AHEAD_ACROSS);
}

/* Sixteen rows from `row` on, of which `rows` are there. */
static inline __attribute__((always_inline)) contract_halves
contract_pairs_pack_along(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                          bool transpose, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    contract_f32_vector square[CONTRACT_TILE];
    contract_halves least = (contract_halves){0} - 1;
    float *lines = (float *)(team->own + team->blocks->lines);
    const int64_t there = contract_min(rows, CONTRACT_TILE);
    for (int64_t line = contract_max(there, 0); line < CONTRACT_TILE; line++)
        __builtin_memset(lines + line * CONTRACT_LINE, 0, CONTRACT_STRIP * sizeof(float));
    for (int64_t j = 0; j < depth; j += CONTRACT_STRIP) {
        const int64_t strip = contract_min(CONTRACT_STRIP, depth - j);
        contract_pairs_fill(team, operand, true, row, there, k + j, strip, lines);
        for (int64_t i = 0; i < strip; i += 2 * CONTRACT_TILE) {
            contract_pairs_along(lines + i, square);
            least = contract_pairs_store(square, transpose, least, to);
            to += 2 * CONTRACT_TILE_SIZE;
        }
    }
    return least;
}

static inline __attribute__((always_inline)) contract_halves
contract_pairs_pack_across(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                           bool transpose, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    contract_f32_vector square[CONTRACT_TILE];
    contract_halves least = (contract_halves){0} - 1;
    float *lines = (float *)(team->own + team->blocks->lines);
    for (int64_t j = 0; j < depth; j += CONTRACT_PAIRS_STRIP) {
        const int64_t strip = contract_min(CONTRACT_PAIRS_STRIP, depth - j);
        contract_pairs_fill(team, operand, false, row, rows, k + j, strip, lines);
        for (int64_t i = 0; i < strip; i += 2 * CONTRACT_TILE) {
            for (int half = 0; half < 2; half++) {
                contract_pairs_across(lines + i * CONTRACT_PAIRS_WIDTH + half * CONTRACT_TILE, square);
                least = contract_pairs_store(square, transpose, least, to);
                to += CONTRACT_TILE_SIZE;
            }
        }
    }
    return least;
}

/* `left` decides what a tile's lines are, and with the operand's own lines whether a square is transposed. */
static inline __attribute__((always_inline)) int32_t
contract_pairs_pack(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                    bool left, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    if (!operand->along_k)
        return contract_pairs_exponent(
            contract_pairs_pack_across(team, operand, left, row, rows, 2 * k, 2 * depth, to));
    int32_t least = INT16_MAX;
    for (int half = 0; half < CONTRACT_PAIRS_WIDTH; half += CONTRACT_TILE) {
        int32_t found = contract_pairs_exponent(
            contract_pairs_pack_along(team, operand, !left, row + half, rows - half, 2 * k, 2 * depth, to));
        least = found < least ? found : least;
        to += CONTRACT_TILE_SIZE;
    }
    return least;
}

static __attribute__((noinline, unused)) int32_t contract_pairs_left(const struct contract_f32_team *team,
                                                                     int64_t row, int64_t rows, int64_t k,
                                                                     int64_t depth, float *to) {
    return contract_pairs_pack(team, &team->product->left, true, row, rows, k, depth, to);
}

static __attribute__((noinline, unused)) int32_t contract_pairs_right(const struct contract_f32_team *team,
                                                                      int64_t row, int64_t rows, int64_t k,
                                                                      int64_t depth, float *to) {
    return contract_pairs_pack(team, &team->product->right, false, row, rows, k, depth, to);
}

/* ---- the register tile ---- */

enum { CONTRACT_PAIRS_ROWS = 8 }; /* x 2 vectors of sums stay in registers */

/* Eight rows of a pair times `vectors` vectors of the other operand's pairs: by f32, which are right for
 * every value, or by `dots`, two products a lane. */
static inline __attribute__((always_inline)) void contract_pairs_add(bool dots, int vectors,
                                                                     const contract_pair *left,
                                                                     const contract_pairs_loose *right,
                                                                     contract_f32_vector sum[][2]) {
    contract_pairs column[2];
    contract_f32_vector even[2], odd[2];
    CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
        column[j] = right[j * CONTRACT_TILE];
        even[j] = (contract_f32_vector)(column[j] << 16);
        odd[j] = (contract_f32_vector)(column[j] & 0xffff0000u);
    }
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_PAIRS_ROWS; i++) {
        const contract_pairs pair = left[i * CONTRACT_TILE] - (contract_pairs){0};
        const contract_f32_vector low = (contract_f32_vector)(pair << 16);
        const contract_f32_vector high = (contract_f32_vector)(pair & 0xffff0000u);
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
#ifdef CONTRACT_DOTS
            if (dots) {
                __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum[i][j]) : "v"(pair), "v"(column[j]));
                continue;
            }
#endif
            sum[i][j] += low * even[j];
            sum[i][j] += high * odd[j];
        }
    }
}

/* Rows [row, row + 8) of the piece. */
static inline __attribute__((always_inline)) void
contract_pairs_multiply_rows(bool dots, int vectors, const struct contract_f32_piece *piece, int64_t row) {
    contract_f32_vector sum[CONTRACT_PAIRS_ROWS][2];
    const contract_pair *left = (const contract_pair *)piece->left + row % CONTRACT_TILE * CONTRACT_TILE +
                                row / CONTRACT_TILE * CONTRACT_TILE_SIZE;
    const contract_pairs_loose *right = (const contract_pairs_loose *)piece->right;
    const char *ahead = piece->ahead;
    float *sums = piece->sums + row * CONTRACT_PAIRS_WIDTH;
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_PAIRS_ROWS; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            const float *from = sums + i * CONTRACT_PAIRS_WIDTH + j * CONTRACT_TILE;
            sum[i][j] = piece->first ? (contract_f32_vector){0} : *(const contract_f32_vector *)from;
        }
    }
    for (int64_t k = 0; k < piece->depth; k += CONTRACT_TILE) {
        /* Each eight rows ask for their share of the lines. */
        for (int64_t byte = row * 8; byte < CONTRACT_TILE * piece->step; byte += CONTRACT_PAIRS_WIDTH * 8)
            __builtin_prefetch(ahead + byte, 0, 2);
        ahead += CONTRACT_TILE * piece->step;
        for (int64_t i = 0; i < CONTRACT_TILE; i++)
            contract_pairs_add(dots, vectors, left + i, right + i, sum);
        left += 2 * CONTRACT_TILE_SIZE;
        right += 2 * CONTRACT_TILE;
    }
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_PAIRS_ROWS; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            float *to = sums + i * CONTRACT_PAIRS_WIDTH + j * CONTRACT_TILE;
            *(contract_f32_vector *)to = sum[i][j];
        }
    }
}

static __attribute__((noinline, unused)) void
contract_pairs_multiply(const struct contract_f32_piece *piece) {
    for (int64_t row = 0; row < piece->rows; row += CONTRACT_PAIRS_ROWS)
        contract_pairs_multiply_rows(false, 2, piece, row);
}
#endif
