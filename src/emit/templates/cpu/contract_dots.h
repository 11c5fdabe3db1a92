/* Dot products of pairs by vectors (AVX512-BF16) for two operands whose values are all bf16: twice the rate
 * of f32 where the plan says so.
 *
 * In: packed pairs. Out: contract_pairs_unit, where the compiler may use the instruction (then
 * CONTRACT_PAIRS_UNIT is defined); contract_pairs_serve says whether it is worth its packing.
 */
#ifdef CONTRACT_DOTS
#define CONTRACT_PAIRS_UNIT

static __attribute__((noinline)) void contract_dots_multiply(const struct contract_f32_piece *piece) {
    if (piece->least < CONTRACT_PAIRS_LEAST) {
        contract_pairs_multiply(piece);
        return;
    }
    for (int64_t row = 0; row < piece->rows; row += CONTRACT_PAIRS_ROWS) {
        if (piece->columns > CONTRACT_TILE)
            contract_pairs_multiply_rows(true, 2, piece, row);
        else
            contract_pairs_multiply_rows(true, 1, piece, row);
    }
}

static const struct contract_f32_unit contract_pairs_unit = {contract_pairs_left, contract_pairs_right,
                                                             contract_dots_multiply};

/* A short k is mostly packing; and so are few rows, which gain where packing turns squares: of half as many
 * words. */
static bool contract_pairs_serve(const struct contract_f32 *product) {
    const struct contract_f32_operand *large = product->m < product->n ? &product->right : &product->left;
    return (contract_min(product->m, product->n) >= 5 || large->along_k) && product->k >= 2 * CONTRACT_TILE;
}

static inline void contract_pairs_begin(void) {}

static inline void contract_pairs_end(void) {}
#endif
