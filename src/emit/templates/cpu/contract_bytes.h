/* Two operands of bytes, packed as eight neighbours along k, for dots of four (AVX512-VNNI): eight times the
 * rate of f64.
 *
 * In: the main loop's callbacks, which give bytes as f64. Out: contract_bytes_unit, where the compiler may
 * use the instruction (then CONTRACT_BYTES_UNIT is defined); contract_bytes_serve says whether it is worth
 * its packing.
 *
 * Panels lie as the vector unit's do: eight bytes are as large as an f64. Each half of a column's eight has a
 * sum of its own in 32 bits, which hold all of a piece; a piece ends by adding both to a sum of f64. All of
 * this is exact.
 *
 * The instruction multiplies unsigned bytes by signed ones. Where both operands are of one kind, the left
 * one's bytes are turned into the other by their top bit: that adds 128 to them or takes it away. Sums begin
 * without what it adds: dots of the right operand with bytes of which the top bit alone is set.
 */
#if defined __AVX512VNNI__ && HR_LANES == 16
#define CONTRACT_BYTES_UNIT

typedef int32_t contract_bytes_sums __attribute__((vector_size(64)));
typedef uint64_t contract_bytes_vector __attribute__((vector_size(64)));
typedef int64_t contract_bytes_whole __attribute__((vector_size(64)));
typedef uint64_t contract_bytes_element __attribute__((may_alias));
typedef int32_t contract_bytes_eight __attribute__((vector_size(32)));
typedef int8_t contract_bytes_packed __attribute__((vector_size(8)));

enum {
    CONTRACT_BYTES = 8,       /* of a packed element */
    CONTRACT_BYTES_STRIP = 32 /* of k, filled at a time across rows */
};

#define CONTRACT_BYTES_TOP UINT64_C(0x8080808080808080)

/* ---- packing ---- */

/* Fills a strip of k: lines along k, or across rows. Zeros where the operand ends inside. */
static inline __attribute__((always_inline)) void
contract_bytes_fill(const struct contract_f64_team *team, const struct contract_f64_operand *operand,
                    int64_t row, int64_t rows, int64_t width, int64_t k, int64_t strip, double *lines) {
    const int64_t filled = contract_max(0, contract_min(strip, team->product->k - k));
    const int64_t stride = operand->along_k ? CONTRACT_LINE : width;
    if (rows < width || filled < strip)
        __builtin_memset(lines, 0, (size_t)((operand->along_k ? width : strip) * stride) * sizeof *lines);
    if (rows > 0 && filled > 0)
        operand->fill(team->product->arguments, team->batch, row, rows, k, filled, lines, stride,
                      operand->along_k ? CONTRACT_AHEAD_ALONG : CONTRACT_AHEAD_ACROSS);
}

/* A line's first elements become its bytes. */
static inline __attribute__((always_inline)) void contract_bytes_along(double *line, int64_t depth,
                                                                       uint64_t turned) {
    for (int64_t i = 0; i < depth; i++) {
        const contract_f64_vector eight = *(const contract_f64_loose *)(line + i * CONTRACT_BYTES);
        const contract_bytes_eight whole = __builtin_convertvector(eight, contract_bytes_eight);
        const contract_bytes_packed bytes = __builtin_convertvector(whole, contract_bytes_packed);
        ((contract_bytes_element *)line)[i] = (uint64_t)bytes ^ turned;
    }
}

/* Eight lines across rows: of each row its bytes. */
static inline __attribute__((always_inline)) contract_f64_vector
contract_bytes_across(const double *lines, int64_t width, uint64_t turned) {
    contract_bytes_vector bytes = turned - (contract_bytes_vector){0};
    CONTRACT_UNROLL for (int i = 0; i < CONTRACT_BYTES; i++) {
        /* So large a number's last bits count ones. */
        const contract_f64_vector counts = *(const contract_f64_loose *)(lines + i * width) + 0x1.8p52;
        bytes ^= ((contract_bytes_vector)counts & 0xff) << (CONTRACT_BYTES * i);
    }
    return (contract_f64_vector)bytes;
}

static inline __attribute__((always_inline)) void
contract_bytes_pack_along(const struct contract_f64_team *team, const struct contract_f64_operand *operand,
                          int64_t row, int64_t rows, int64_t k, int64_t depth, int width, uint64_t turned,
                          double *to) {
    enum { LANES = CONTRACT_F64_LANES, STRIP = CONTRACT_STRIP / CONTRACT_BYTES };
    double *lines = (double *)(team->own + team->blocks->lines);
    for (int i = 0; i < width; i += LANES) {
        for (int64_t j = 0; j < depth; j += STRIP) {
            const int64_t strip = contract_min(STRIP, depth - j);
            contract_bytes_fill(team, operand, row + i, contract_min(LANES, rows - i), LANES,
                                (k + j) * CONTRACT_BYTES, strip * CONTRACT_BYTES, lines);
            for (int line = 0; line < LANES; line++)
                contract_bytes_along(lines + line * CONTRACT_LINE, strip, turned);
            if (i + LANES <= width)
                contract_f64_transpose_lines(lines, strip, LANES, width, to + j * width + i);
            else
                contract_f64_transpose_lines(lines, strip, width % LANES, width, to + j * width + i);
        }
    }
}

static inline __attribute__((always_inline)) void
contract_bytes_pack_across(const struct contract_f64_team *team, const struct contract_f64_operand *operand,
                           int64_t row, int64_t rows, int64_t k, int64_t depth, int width, uint64_t turned,
                           double *to) {
    enum { LANES = CONTRACT_F64_LANES, STRIP = CONTRACT_BYTES_STRIP / CONTRACT_BYTES };
    double *lines = (double *)(team->own + team->blocks->lines);
    for (int64_t j = 0; j < depth; j += STRIP) {
        const int64_t strip = contract_min(STRIP, depth - j);
        contract_bytes_fill(team, operand, row, rows, width, (k + j) * CONTRACT_BYTES, strip * CONTRACT_BYTES,
                            lines);
        for (int64_t deep = 0; deep < strip; deep++) {
            const double *eight = lines + deep * CONTRACT_BYTES * width;
            for (int i = 0; i < width; i += LANES) {
                const contract_f64_vector bytes = contract_bytes_across(eight + i, width, turned);
                double *element = to + (j + deep) * width + i;
                if (i + LANES <= width)
                    *(contract_f64_loose *)element = bytes;
                else
                    __builtin_memcpy(element, &bytes, (size_t)(width % LANES) * sizeof *element);
            }
        }
    }
}

/* A panel: to[j * width + i] are the bytes of row i at depth j. */
static inline __attribute__((always_inline)) int64_t
contract_bytes_pack(const struct contract_f64_team *team, const struct contract_f64_operand *operand,
                    int64_t row, int64_t rows, int64_t k, int64_t depth, int width, uint64_t turned,
                    double *to) {
    if (operand->along_k)
        contract_bytes_pack_along(team, operand, row, rows, k, depth, width, turned, to);
    else
        contract_bytes_pack_across(team, operand, row, rows, k, depth, width, turned, to);
    return 0;
}

static __attribute__((noinline)) int64_t contract_bytes_left(const struct contract_f64_team *team,
                                                             int64_t row, int64_t rows, int64_t k,
                                                             int64_t depth, double *to) {
    return contract_bytes_pack(team, &team->product->left, row, rows, k, depth, CONTRACT_F64_ROWS, 0, to);
}

static __attribute__((noinline)) int64_t contract_bytes_left_turned(const struct contract_f64_team *team,
                                                                    int64_t row, int64_t rows, int64_t k,
                                                                    int64_t depth, double *to) {
    return contract_bytes_pack(team, &team->product->left, row, rows, k, depth, CONTRACT_F64_ROWS,
                               CONTRACT_BYTES_TOP, to);
}

static __attribute__((noinline)) int64_t contract_bytes_right(const struct contract_f64_team *team,
                                                              int64_t row, int64_t rows, int64_t k,
                                                              int64_t depth, double *to) {
    return contract_bytes_pack(team, &team->product->right, row, rows, k, depth, CONTRACT_F64_COLUMNS, 0, to);
}

/* ---- the register tile ---- */

static inline __attribute__((always_inline)) contract_bytes_sums
contract_bytes_dot(contract_bytes_sums sum, contract_bytes_vector of_unsigned,
                   contract_bytes_vector of_signed) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(of_unsigned), "v"(of_signed));
    return sum;
}

/* One of a row's elements with a vector of the right operand's. */
static inline __attribute__((always_inline)) contract_bytes_sums
contract_bytes_add(bool left_unsigned, contract_bytes_sums sum, uint64_t left, contract_bytes_vector right) {
    const contract_bytes_vector row = left - (contract_bytes_vector){0};
    return left_unsigned ? contract_bytes_dot(sum, row, right) : contract_bytes_dot(sum, right, row);
}

/* What every row's sums of a vector of columns begin with. */
static inline __attribute__((always_inline)) contract_bytes_sums
contract_bytes_begin(bool left_unsigned, bool turned, const struct contract_f64_piece *piece, int vector) {
    contract_bytes_sums added = {0};
    const double *right = piece->right + vector * CONTRACT_F64_LANES;
    for (int64_t k = 0; turned && k < piece->depth; k++)
        added = contract_bytes_add(left_unsigned, added, CONTRACT_BYTES_TOP,
                                   *(const contract_bytes_vector *)(right + k * CONTRACT_F64_COLUMNS));
    return -added;
}

/* Both halves of eight columns. */
static inline __attribute__((always_inline)) contract_f64_vector contract_bytes_end(contract_bytes_sums sum) {
    const contract_bytes_whole low = (contract_bytes_whole)((contract_bytes_vector)sum << 32) >> 32;
    return __builtin_convertvector(low + ((contract_bytes_whole)sum >> 32), contract_f64_vector);
}

static inline __attribute__((always_inline)) void
contract_bytes_multiply(bool left_unsigned, bool turned, int rows, int vectors,
                        const struct contract_f64_piece *piece) {
    const contract_bytes_element *left = (const contract_bytes_element *)piece->left;
    const double *right = piece->right;
    const char *ahead = piece->ahead;
    contract_bytes_sums sum[CONTRACT_F64_ROWS][CONTRACT_F64_VECTORS];
    CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
        sum[0][j] = contract_bytes_begin(left_unsigned, turned, piece, j);
        CONTRACT_UNROLL for (int i = 1; i < rows; i++) sum[i][j] = sum[0][j];
    }
    for (int64_t k = 0; k < piece->depth; k++) {
        contract_bytes_vector column[CONTRACT_F64_VECTORS];
        __builtin_prefetch(ahead, 0, 2);
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            column[j] = *(const contract_bytes_vector *)(right + j * CONTRACT_F64_LANES);
        }
        CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
            CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
                sum[i][j] = contract_bytes_add(left_unsigned, sum[i][j], left[i], column[j]);
            }
        }
        left += CONTRACT_F64_ROWS;
        right += CONTRACT_F64_COLUMNS;
        ahead += piece->step;
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            contract_f64_vector *to = (contract_f64_vector *)(piece->sums + i * CONTRACT_F64_COLUMNS) + j;
            *to = (piece->first ? (contract_f64_vector){0} : *to) + contract_bytes_end(sum[i][j]);
        }
    }
}

/* Ragged ends use fewer registers: half the rows, or a quarter; or one vector. */
static inline __attribute__((always_inline)) void
contract_bytes_multiply_piece(bool left_unsigned, bool turned, const struct contract_f64_piece *piece) {
    enum { ROWS = CONTRACT_F64_ROWS, HALF = (ROWS + 1) / 2, QUARTER = (HALF + 1) / 2 };
    const bool one = piece->columns <= CONTRACT_F64_LANES;
    if (piece->rows <= QUARTER)
        contract_bytes_multiply(left_unsigned, turned, QUARTER, CONTRACT_F64_VECTORS, piece);
    else if (piece->rows <= HALF)
        contract_bytes_multiply(left_unsigned, turned, HALF, CONTRACT_F64_VECTORS, piece);
    else if (one)
        contract_bytes_multiply(left_unsigned, turned, ROWS, 1, piece);
    else
        contract_bytes_multiply(left_unsigned, turned, ROWS, CONTRACT_F64_VECTORS, piece);
}

/* ---- the unit ---- */

static __attribute__((noinline)) void contract_bytes_multiply_signed(const struct contract_f64_piece *piece) {
    contract_bytes_multiply_piece(true, true, piece);
}

static __attribute__((noinline)) void
contract_bytes_multiply_unsigned(const struct contract_f64_piece *piece) {
    contract_bytes_multiply_piece(false, true, piece);
}

static __attribute__((noinline)) void
contract_bytes_multiply_left_unsigned(const struct contract_f64_piece *piece) {
    contract_bytes_multiply_piece(true, false, piece);
}

static __attribute__((noinline)) void
contract_bytes_multiply_right_unsigned(const struct contract_f64_piece *piece) {
    contract_bytes_multiply_piece(false, false, piece);
}

static const struct contract_f64_unit contract_bytes_signed = {
    contract_bytes_left_turned, contract_bytes_right, contract_bytes_multiply_signed};

static const struct contract_f64_unit contract_bytes_unsigned = {
    contract_bytes_left_turned, contract_bytes_right, contract_bytes_multiply_unsigned};

static const struct contract_f64_unit contract_bytes_left_unsigned = {
    contract_bytes_left, contract_bytes_right, contract_bytes_multiply_left_unsigned};

static const struct contract_f64_unit contract_bytes_right_unsigned = {
    contract_bytes_left, contract_bytes_right, contract_bytes_multiply_right_unsigned};

/* For operands as the text has them: the main loop may swap both. */
static inline const struct contract_f64_unit *contract_bytes_unit(const struct contract_f64 *product,
                                                                  bool left_unsigned, bool right_unsigned) {
    const bool swapped = contract_is_tall(product->m, product->n);
    if (left_unsigned == right_unsigned)
        return left_unsigned ? &contract_bytes_unsigned : &contract_bytes_signed;
    return left_unsigned != swapped ? &contract_bytes_left_unsigned : &contract_bytes_right_unsigned;
}

/* Few rows are mostly packing, and a short k fills no element. */
static inline bool contract_bytes_serve(const struct contract_f64 *product) {
    return contract_min(product->m, product->n) >= 4 && product->k >= 2 * CONTRACT_BYTES;
}
#endif
