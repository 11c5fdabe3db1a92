/* The matrix unit (AMX) of a product of two operands whose values are all bf16: sixteen times the vector
 * unit's rate.
 *
 * In: the main loop's callbacks, which give bf16 values as f32. Out: contract_tiles_run, where the compiler
 * may use the unit (then CONTRACT_TILES is defined); contract_tiles_serve says whether to call it.
 *
 * A packed element is a pair of neighbours along k. A panel is [step of 16 pairs][half of the panel's 32
 * rows], each a tile of 16 lines of 64 bytes: a line is a row of the left operand, a pair of the right one,
 * as tdpbf16ps takes them. Values stay as they are: narrowing takes the upper half of an f32.
 *
 * The unit takes denormals for 0, operands and sums. Packing finds the least exponent of a panel that is not
 * of a 0. Where both operands' together say that each product is a multiple of 2^-126, no sum can be
 * denormal; elsewhere the same packed pairs are multiplied by f32 vectors.
 */
#if (defined __AMX_BF16__ || defined __AMXBF16__) && defined __AVX512BW__ && defined __linux__ &&            \
    HR_LANES == 16
#define CONTRACT_TILES

typedef uint16_t contract_halves __attribute__((vector_size(64)));
typedef uint32_t contract_pairs __attribute__((vector_size(64)));
typedef uint32_t contract_pair __attribute__((may_alias));
typedef uint32_t contract_pairs_loose __attribute__((vector_size(64), aligned(4), may_alias));

enum {
    CONTRACT_TILE = 16,                                 /* lines of a tile, 32-bit elements of a line */
    CONTRACT_TILE_SIZE = CONTRACT_TILE * CONTRACT_TILE, /* of a step's half panel */
    CONTRACT_TILES_WIDTH = 2 * CONTRACT_TILE,           /* rows of a panel, and columns */
    CONTRACT_TILES_STRIP = 64,                          /* of k, filled at a time across rows */
    CONTRACT_TILES_LEAST = 142,     /* biased exponents: 2^-7 2^-7 2^(142 - 254) = 2^-126 */
    CONTRACT_TILES_DENORMAL = -256, /* no other operand makes up for it */
};

/* ---- permission ---- */

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); 0 = granted to the process. */
static long contract_tiles_ask(void) {
    long result = 158;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return result;
}

/* The first answer counts, so that all threads of a team act alike. */
static bool contract_tiles_granted(void) {
    static int answer; /* 0 = not asked, 1 = yes, 2 = no */
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == 0) {
        int mine = contract_tiles_ask() == 0 ? 1 : 2;
        bool first =
            __atomic_compare_exchange_n(&answer, &known, mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (first) known = mine;
    }
    return known == 1;
}

/* ---- packing ---- */

/* Smaller than any other magnitude is none: 0 counts as the largest. */
static inline contract_halves contract_tiles_smaller(contract_halves least, contract_pairs pairs) {
    contract_halves magnitude = (contract_halves)(pairs & 0x7fff7fffu) - 1;
    __asm__("vpminuw %1, %0, %0" : "+v"(least) : "v"(magnitude));
    return least;
}

static int32_t contract_tiles_exponent(contract_halves least) {
    int32_t smallest = UINT16_MAX;
    for (int i = 0; i < 32; i++) {
        if (least[i] < smallest) smallest = least[i];
    }
    return smallest + 1 < 0x80 ? CONTRACT_TILES_DENORMAL : (smallest + 1) >> 7;
}

/* The odd ones of 32 + 32: the upper halves of both vectors' f32. */
#define CONTRACT_TILES_UPPER(a, b)                                                                           \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, \
                            41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63)

/* Sixteen lines of 32 values along k: square[row] is the row's pairs. */
static inline __attribute__((always_inline)) void contract_tiles_along(const float *lines,
                                                                       contract_f32_vector square[]) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        contract_halves low = (contract_halves) * (const contract_pairs_loose *)(lines + i * CONTRACT_LINE);
        contract_halves high =
            (contract_halves) * (const contract_pairs_loose *)(lines + i * CONTRACT_LINE + CONTRACT_TILE);
        square[i] = (contract_f32_vector)CONTRACT_TILES_UPPER(low, high);
    }
}

/* 32 lines of sixteen rows: square[pair] is the pair of each row. */
static inline __attribute__((always_inline)) void contract_tiles_across(const float *lines,
                                                                        contract_f32_vector square[]) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        contract_pairs even = *(const contract_pairs_loose *)(lines + 2 * i * CONTRACT_TILES_WIDTH);
        contract_pairs odd = *(const contract_pairs_loose *)(lines + (2 * i + 1) * CONTRACT_TILES_WIDTH);
        square[i] = (contract_f32_vector)(even >> 16 | (odd & 0xffff0000u));
    }
}

static inline __attribute__((always_inline)) contract_halves
contract_tiles_store(contract_f32_vector square[], bool turn, contract_halves least, float *to) {
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        least = contract_tiles_smaller(least, (contract_pairs)square[i]);
    }
    if (turn) contract_f32_turn(square);
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILE; i++) {
        *(contract_f32_vector *)(to + i * CONTRACT_TILE) = square[i];
    }
    return least;
}

/* Sixteen rows from `row` on, of which `rows` are there. */
static inline __attribute__((always_inline)) contract_halves
contract_tiles_pack_along(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                          bool turn, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    contract_f32_vector square[CONTRACT_TILE];
    contract_halves least = (contract_halves){0} - 1;
    float *lines = (float *)(team->own + team->blocks->lines);
    const int64_t there = contract_min(rows, CONTRACT_TILE);
    for (int64_t line = contract_max(there, 0); line < CONTRACT_TILE; line++)
        __builtin_memset(lines + line * CONTRACT_LINE, 0, CONTRACT_STRIP * sizeof(float));
    for (int64_t j = 0; j < depth; j += CONTRACT_STRIP) {
        const int64_t strip = contract_min(CONTRACT_STRIP, depth - j);
        const int64_t filled = contract_max(0, contract_min(strip, team->product->k - k - j));
        if (there > 0 && filled > 0)
            operand->fill(team->product->arguments, team->batch, row, there, k + j, filled, lines,
                          CONTRACT_LINE);
        for (int64_t line = 0; line < there && filled < strip; line++)
            __builtin_memset(lines + line * CONTRACT_LINE + filled, 0,
                             (size_t)(strip - filled) * sizeof(float));
        for (int64_t i = 0; i < strip; i += 2 * CONTRACT_TILE) {
            contract_tiles_along(lines + i, square);
            least = contract_tiles_store(square, turn, least, to);
            to += 2 * CONTRACT_TILE_SIZE;
        }
    }
    return least;
}

static inline __attribute__((always_inline)) contract_halves
contract_tiles_pack_across(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                           bool turn, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    contract_f32_vector square[CONTRACT_TILE];
    contract_halves least = (contract_halves){0} - 1;
    float *lines = (float *)(team->own + team->blocks->lines);
    for (int64_t j = 0; j < depth; j += CONTRACT_TILES_STRIP) {
        const int64_t strip = contract_min(CONTRACT_TILES_STRIP, depth - j);
        const int64_t filled = contract_max(0, contract_min(strip, team->product->k - k - j));
        if (rows < CONTRACT_TILES_WIDTH || filled < strip)
            __builtin_memset(lines, 0, (size_t)(strip * CONTRACT_TILES_WIDTH) * sizeof(float));
        if (filled > 0)
            operand->fill(team->product->arguments, team->batch, row, rows, k + j, filled, lines,
                          CONTRACT_TILES_WIDTH);
        for (int64_t i = 0; i < strip; i += 2 * CONTRACT_TILE) {
            for (int half = 0; half < 2; half++) {
                contract_tiles_across(lines + i * CONTRACT_TILES_WIDTH + half * CONTRACT_TILE, square);
                least = contract_tiles_store(square, turn, least, to);
                to += CONTRACT_TILE_SIZE;
            }
        }
    }
    return least;
}

/* `left` decides what a tile's lines are, and with the operand's own lines whether a square is turned. */
static inline __attribute__((always_inline)) int32_t
contract_tiles_pack(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                    bool left, int64_t row, int64_t rows, int64_t k, int64_t depth, float *to) {
    if (!operand->along_k)
        return contract_tiles_exponent(
            contract_tiles_pack_across(team, operand, left, row, rows, 2 * k, 2 * depth, to));
    int32_t least = INT16_MAX;
    for (int half = 0; half < CONTRACT_TILES_WIDTH; half += CONTRACT_TILE) {
        int32_t found = contract_tiles_exponent(
            contract_tiles_pack_along(team, operand, !left, row + half, rows - half, 2 * k, 2 * depth, to));
        least = found < least ? found : least;
        to += CONTRACT_TILE_SIZE;
    }
    return least;
}

static __attribute__((noinline)) int32_t contract_tiles_left(const struct contract_f32_team *team,
                                                             int64_t row, int64_t rows, int64_t k,
                                                             int64_t depth, float *to) {
    return contract_tiles_pack(team, &team->product->left, true, row, rows, k, depth, to);
}

static __attribute__((noinline)) int32_t contract_tiles_right(const struct contract_f32_team *team,
                                                              int64_t row, int64_t rows, int64_t k,
                                                              int64_t depth, float *to) {
    return contract_tiles_pack(team, &team->product->right, false, row, rows, k, depth, to);
}

/* ---- 2 x 2 tiles of sums ---- */

/* The number of a tile register is a part of the instruction. */
#define CONTRACT_TILE_ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)
#define CONTRACT_TILE_LOAD(tile, from, bytes)                                                                \
    __asm__ volatile("tileloadd (%0,%1), %%tmm" #tile : : "r"(from), "r"((int64_t)(bytes)) : "memory")
#define CONTRACT_TILE_STORE(tile, to, bytes)                                                                 \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1)" : : "r"(to), "r"((int64_t)(bytes)) : "memory")
#define CONTRACT_TILE_MULTIPLY(sum, left, right)                                                             \
    __asm__ volatile("tdpbf16ps %tmm" #right ", %tmm" #left ", %tmm" #sum)

/* Tiles 0 to 3 are the sums, 4 and 5 of the left operand, 6 and 7 of the right one. */
static inline __attribute__((always_inline)) void
contract_tiles_multiply_part(bool tall, bool wide, const struct contract_f32_piece *piece) {
    const float *left = piece->left, *right = piece->right;
    float *sums = piece->sums, *below = sums + CONTRACT_TILE * CONTRACT_TILES_WIDTH;
    const int64_t line = CONTRACT_TILES_WIDTH * sizeof(float), whole = CONTRACT_TILE * sizeof(float);
    const char *ahead = piece->ahead;
    if (piece->first) {
        CONTRACT_TILE_ZERO(0);
        if (wide) CONTRACT_TILE_ZERO(1);
        if (tall) CONTRACT_TILE_ZERO(2);
        if (tall && wide) CONTRACT_TILE_ZERO(3);
    } else {
        CONTRACT_TILE_LOAD(0, sums, line);
        if (wide) CONTRACT_TILE_LOAD(1, sums + CONTRACT_TILE, line);
        if (tall) CONTRACT_TILE_LOAD(2, below, line);
        if (tall && wide) CONTRACT_TILE_LOAD(3, below + CONTRACT_TILE, line);
    }
    for (int64_t k = 0; k < piece->depth; k += CONTRACT_TILE) {
        for (int64_t byte = 0; byte < CONTRACT_TILE * piece->step; byte += 64)
            __builtin_prefetch(ahead + byte, 0, 2);
        ahead += CONTRACT_TILE * piece->step;
        CONTRACT_TILE_LOAD(4, left, whole);
        CONTRACT_TILE_LOAD(6, right, whole);
        CONTRACT_TILE_MULTIPLY(0, 4, 6);
        if (wide) CONTRACT_TILE_LOAD(7, right + CONTRACT_TILE_SIZE, whole);
        if (wide) CONTRACT_TILE_MULTIPLY(1, 4, 7);
        if (tall) CONTRACT_TILE_LOAD(5, left + CONTRACT_TILE_SIZE, whole);
        if (tall) CONTRACT_TILE_MULTIPLY(2, 5, 6);
        if (tall && wide) CONTRACT_TILE_MULTIPLY(3, 5, 7);
        left += 2 * CONTRACT_TILE_SIZE;
        right += 2 * CONTRACT_TILE_SIZE;
    }
    CONTRACT_TILE_STORE(0, sums, line);
    if (wide) CONTRACT_TILE_STORE(1, sums + CONTRACT_TILE, line);
    if (tall) CONTRACT_TILE_STORE(2, below, line);
    if (tall && wide) CONTRACT_TILE_STORE(3, below + CONTRACT_TILE, line);
}

/* ---- the same by f32 vectors ---- */

enum { CONTRACT_TILES_ROWS = 8 }; /* x 2 vectors of sums stay in registers */

/* Rows [row, row + 8) of the piece. */
static void contract_tiles_multiply_rows(const struct contract_f32_piece *piece, int64_t row) {
    contract_f32_vector sum[CONTRACT_TILES_ROWS][2];
    const contract_pair *left = (const contract_pair *)piece->left + row % CONTRACT_TILE * CONTRACT_TILE +
                                row / CONTRACT_TILE * CONTRACT_TILE_SIZE;
    const contract_pairs_loose *right = (const contract_pairs_loose *)piece->right;
    float *sums = piece->sums + row * CONTRACT_TILES_WIDTH;
    CONTRACT_UNROLL for (int i = 0; i < 2 * CONTRACT_TILES_ROWS; i++) {
        const float *from = sums + i / 2 * CONTRACT_TILES_WIDTH + i % 2 * CONTRACT_TILE;
        sum[i / 2][i % 2] = piece->first ? (contract_f32_vector){0} : *(const contract_f32_vector *)from;
    }
    for (int64_t k = 0; k < piece->depth; k++) {
        const contract_pairs a = right[0], b = right[CONTRACT_TILE];
        contract_f32_vector even[2] = {(contract_f32_vector)(a << 16), (contract_f32_vector)(b << 16)};
        contract_f32_vector odd[2] = {(contract_f32_vector)(a & 0xffff0000u),
                                      (contract_f32_vector)(b & 0xffff0000u)};
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_TILES_ROWS; i++) {
            const contract_pairs pair = left[i * CONTRACT_TILE] - (contract_pairs){0};
            const contract_f32_vector low = (contract_f32_vector)(pair << 16);
            const contract_f32_vector high = (contract_f32_vector)(pair & 0xffff0000u);
            CONTRACT_UNROLL for (int j = 0; j < 2; j++) sum[i][j] += low * even[j];
            CONTRACT_UNROLL for (int j = 0; j < 2; j++) sum[i][j] += high * odd[j];
        }
        left++, right++;
        if (k % CONTRACT_TILE == CONTRACT_TILE - 1)
            left += 2 * CONTRACT_TILE_SIZE - CONTRACT_TILE, right += CONTRACT_TILE;
    }
    CONTRACT_UNROLL for (int i = 0; i < 2 * CONTRACT_TILES_ROWS; i++) {
        float *to = sums + i / 2 * CONTRACT_TILES_WIDTH + i % 2 * CONTRACT_TILE;
        *(contract_f32_vector *)to = sum[i / 2][i % 2];
    }
}

/* ---- the unit ---- */

static __attribute__((noinline)) void contract_tiles_multiply(const struct contract_f32_piece *piece) {
    const bool tall = piece->rows > CONTRACT_TILE, wide = piece->columns > CONTRACT_TILE;
    if (piece->least < CONTRACT_TILES_LEAST) {
        for (int64_t row = 0; row < piece->rows; row += CONTRACT_TILES_ROWS)
            contract_tiles_multiply_rows(piece, row);
    } else if (tall && wide) {
        contract_tiles_multiply_part(true, true, piece);
    } else if (tall) {
        contract_tiles_multiply_part(true, false, piece);
    } else {
        contract_tiles_multiply_part(false, wide, piece);
    }
}

static const struct contract_f32_unit contract_tiles = {contract_tiles_left, contract_tiles_right,
                                                        contract_tiles_multiply};

/* Whether the unit is there and worth its packing: few rows wait for memory, a short k fills no tile. */
static bool contract_tiles_serve(const struct contract_f32 *product) {
    return contract_min(product->m, product->n) >= 4 && product->k >= 2 * CONTRACT_TILE &&
           contract_tiles_granted();
}

/* As contract_f32_run; only where granted. */
static void contract_tiles_run(const struct contract_f32 *product, const struct contract_choice *choice,
                               int64_t thread, int64_t threads, char *scratch) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t line_bytes[16];
        uint8_t lines[16];
    } shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
    contract_f32_run(product, &contract_tiles, choice, thread, threads, scratch);
    __asm__ volatile("tilerelease");
}
#endif
