/* The matrix unit (AMX) of a product of two operands whose values are all bf16: sixteen times the vector
 * unit's rate.
 *
 * In: packed pairs, whose tiles are as tdpbf16ps takes them. Out: contract_pairs_unit, where the compiler may
 * use the unit (then CONTRACT_PAIRS_UNIT is defined); contract_pairs_serve says whether to call it.
 */
#if (defined __AMX_BF16__ || defined __AMXBF16__) && defined CONTRACT_PAIRS && defined __linux__
#define CONTRACT_PAIRS_UNIT

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
contract_tiles_begin(bool tall, bool wide, bool first, const float *sums, const float *below) {
    const int64_t line = CONTRACT_PAIRS_WIDTH * sizeof(float);
    if (first) {
        CONTRACT_TILE_ZERO(0);
        if (wide) CONTRACT_TILE_ZERO(1);
        if (tall) CONTRACT_TILE_ZERO(2);
        if (tall && wide) CONTRACT_TILE_ZERO(3);
        return;
    }
    CONTRACT_TILE_LOAD(0, sums, line);
    if (wide) CONTRACT_TILE_LOAD(1, sums + CONTRACT_TILE, line);
    if (tall) CONTRACT_TILE_LOAD(2, below, line);
    if (tall && wide) CONTRACT_TILE_LOAD(3, below + CONTRACT_TILE, line);
}

static inline __attribute__((always_inline)) void contract_tiles_add(bool tall, bool wide, const float *left,
                                                                     const float *right) {
    const int64_t whole = CONTRACT_TILE * sizeof(float);
    CONTRACT_TILE_LOAD(4, left, whole);
    CONTRACT_TILE_LOAD(6, right, whole);
    CONTRACT_TILE_MULTIPLY(0, 4, 6);
    if (wide) CONTRACT_TILE_LOAD(7, right + CONTRACT_TILE_SIZE, whole);
    if (wide) CONTRACT_TILE_MULTIPLY(1, 4, 7);
    if (tall) CONTRACT_TILE_LOAD(5, left + CONTRACT_TILE_SIZE, whole);
    if (tall) CONTRACT_TILE_MULTIPLY(2, 5, 6);
    if (tall && wide) CONTRACT_TILE_MULTIPLY(3, 5, 7);
}

static inline __attribute__((always_inline)) void contract_tiles_end(bool tall, bool wide, float *sums,
                                                                     float *below) {
    const int64_t line = CONTRACT_PAIRS_WIDTH * sizeof(float);
    CONTRACT_TILE_STORE(0, sums, line);
    if (wide) CONTRACT_TILE_STORE(1, sums + CONTRACT_TILE, line);
    if (tall) CONTRACT_TILE_STORE(2, below, line);
    if (tall && wide) CONTRACT_TILE_STORE(3, below + CONTRACT_TILE, line);
}

static inline __attribute__((always_inline)) void
contract_tiles_multiply_part(bool tall, bool wide, const struct contract_f32_piece *piece) {
    const float *left = piece->left, *right = piece->right;
    float *sums = piece->sums, *below = sums + CONTRACT_TILE * CONTRACT_PAIRS_WIDTH;
    const char *ahead = piece->ahead;
    contract_tiles_begin(tall, wide, piece->first, sums, below);
    for (int64_t k = 0; k < piece->depth; k += CONTRACT_TILE) {
        for (int64_t byte = 0; byte < CONTRACT_TILE * piece->step; byte += 64)
            __builtin_prefetch(ahead + byte, 0, 2);
        ahead += CONTRACT_TILE * piece->step;
        contract_tiles_add(tall, wide, left, right);
        left += 2 * CONTRACT_TILE_SIZE;
        right += 2 * CONTRACT_TILE_SIZE;
    }
    contract_tiles_end(tall, wide, sums, below);
}

/* ---- the unit ---- */

static __attribute__((noinline)) void contract_tiles_multiply(const struct contract_f32_piece *piece) {
    const bool tall = piece->rows > CONTRACT_TILE, wide = piece->columns > CONTRACT_TILE;
    if (piece->least < CONTRACT_PAIRS_LEAST) {
        contract_pairs_multiply(piece);
    } else if (tall && wide) {
        contract_tiles_multiply_part(true, true, piece);
    } else if (tall) {
        contract_tiles_multiply_part(true, false, piece);
    } else {
        contract_tiles_multiply_part(false, wide, piece);
    }
}

static const struct contract_f32_unit contract_pairs_unit = {contract_pairs_left, contract_pairs_right,
                                                             contract_tiles_multiply};

/* Whether the unit is there and worth its packing: few rows wait for memory, a short k fills no tile. */
static bool contract_pairs_serve(const struct contract_f32 *product) {
    return contract_min(product->m, product->n) >= 4 && product->k >= 2 * CONTRACT_TILE && tiles_granted();
}

/* Before and after the unit is used; only where granted. */
static inline void contract_pairs_begin(void) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t line_bytes[16];
        uint8_t lines[16];
    } shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

static inline void contract_pairs_end(void) {
    __asm__ volatile("tilerelease");
}
#endif
