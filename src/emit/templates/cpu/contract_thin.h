/* A product of few rows whose right operand lies along k: that is read once, in its place, and each of its
 * rows is multiplied with all rows of the left operand, a vector along k at a time. To turn it into panels
 * would take longer than to read it.
 *
 * In: a team whose blocks are `thin`. Out: the same sums as the main loop's.
 */
enum {
    /* Rows of the left operand at a time. With those of the right one as many sums as a vector has lanes:
     * they are added up by turning a square. */
    CONTRACT_FXX_THIN_GROUP =
        CONTRACT_FXX_LANES / CONTRACT_THIN_ROWS > 1 ? CONTRACT_FXX_LANES / CONTRACT_THIN_ROWS : 1,
    CONTRACT_FXX_THIN_SUMS = CONTRACT_FXX_THIN_GROUP * CONTRACT_THIN_ROWS,
    CONTRACT_FXX_THIN_GROUPS = CONTRACT_SWAPPED_MAX / CONTRACT_FXX_THIN_GROUP
};

/* Rows of `depth` elements get zeros up to a whole vector. */
static void contract_fxx_thin_pad(FLOAT *lines, int64_t rows, int64_t depth, int64_t stride) {
    const int64_t end = contract_round(depth, CONTRACT_FXX_LANES);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = depth; j < end; j++)
            lines[i * stride + j] = 0;
}

/* The whole left operand, a row a line. */
static void contract_fxx_thin_left(const struct contract_fxx_team *team) {
    const struct contract_fxx *product = team->product;
    const int64_t stride = team->blocks->stride, rows = product->m;
    FLOAT *to = (FLOAT *)team->own, *lines = (FLOAT *)(team->own + team->blocks->lines);
    if (product->k == 0) return;
    if (product->left.along_k) {
        product->left.fill(product->arguments, team->batch, 0, rows, 0, product->k, to, stride,
                           CONTRACT_AHEAD_ALONG);
    } else {
        for (int64_t k = 0; k < product->k; k += CONTRACT_STRIP) {
            const int64_t depth = contract_min(CONTRACT_STRIP, product->k - k);
            product->left.fill(product->arguments, team->batch, 0, rows, k, depth, lines,
                               CONTRACT_SWAPPED_MAX, CONTRACT_AHEAD_ACROSS);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < depth; j++)
                    to[i * stride + k + j] = lines[j * CONTRACT_SWAPPED_MAX + i];
        }
    }
    contract_fxx_thin_pad(to, rows, product->k, stride);
}

/* `rows` of the left operand times CONTRACT_THIN_ROWS of the right one. */
static inline __attribute__((always_inline)) void
contract_fxx_thin_multiply(int rows, const FLOAT *left, int64_t stride, const FLOAT *right, int64_t depth,
                           contract_fxx_vector *sums) {
    contract_fxx_vector sum[CONTRACT_FXX_THIN_GROUP][CONTRACT_THIN_ROWS];
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            sum[i][j] = sums[i * CONTRACT_THIN_ROWS + j];
        }
    }
    for (int64_t k = 0; k < depth; k += CONTRACT_FXX_LANES) {
        contract_fxx_vector column[CONTRACT_THIN_ROWS];
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            column[j] = *(const contract_fxx_vector *)(right + j * CONTRACT_THIN_STRIDE + k);
        }
        CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
            const contract_fxx_vector row = *(const contract_fxx_vector *)(left + i * stride + k);
            CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) sum[i][j] += row * column[j];
        }
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            sums[i * CONTRACT_THIN_ROWS + j] = sum[i][j];
        }
    }
}

static __attribute__((noinline)) void contract_fxx_thin_group(int64_t rows, const FLOAT *left, int64_t stride,
                                                              const FLOAT *right, int64_t depth,
                                                              contract_fxx_vector *sums) {
    if (rows >= 4 && CONTRACT_FXX_THIN_GROUP >= 4)
        contract_fxx_thin_multiply(4, left, stride, right, depth, sums);
    else if (rows >= 3 && CONTRACT_FXX_THIN_GROUP >= 3)
        contract_fxx_thin_multiply(3, left, stride, right, depth, sums);
    else if (rows >= 2 && CONTRACT_FXX_THIN_GROUP >= 2)
        contract_fxx_thin_multiply(2, left, stride, right, depth, sums);
    else
        contract_fxx_thin_multiply(1, left, stride, right, depth, sums);
}

/* Sums of each group, whose vectors are added up, to tile[row of the left][row of the right]. */
static void contract_fxx_thin_fold(contract_fxx_vector *sums, int64_t rows, int64_t columns, int64_t width,
                                   FLOAT *tile) {
    for (int64_t i = 0; i < rows; i += CONTRACT_FXX_THIN_GROUP, sums += CONTRACT_FXX_THIN_SUMS) {
        FLOAT folded[CONTRACT_FXX_THIN_SUMS];
        for (int square = 0; square < CONTRACT_FXX_THIN_SUMS; square += CONTRACT_FXX_LANES) {
            contract_fxx_vector all = {0};
            contract_fxx_transpose(sums + square);
            for (int j = 0; j < CONTRACT_FXX_LANES; j++)
                all += sums[square + j];
            *(contract_fxx_loose *)(folded + square) = all;
        }
        for (int64_t j = 0; j < CONTRACT_FXX_THIN_GROUP && i + j < rows; j++)
            for (int64_t column = 0; column < columns; column++)
                tile[(i + j) * width + column] = folded[j * CONTRACT_THIN_ROWS + column];
    }
}

/* A chain of each lane ends: what the lanes have come to goes to the totals in f64 of the same places. */
static void contract_fxx_thin_end(contract_fxx_vector *sums, int64_t rows, int64_t columns, double *totals) {
    FLOAT tile[CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS] = {0};
    contract_fxx_thin_fold(sums, rows, columns, CONTRACT_THIN_ROWS, tile);
    for (int i = 0; i < CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS; i++)
        totals[i] += tile[i];
}

static void contract_fxx_thin_clear(contract_fxx_vector *sums, int64_t rows) {
    for (int64_t i = 0; i < contract_ceil(rows, CONTRACT_FXX_THIN_GROUP) * CONTRACT_FXX_THIN_SUMS; i++)
        sums[i] = (contract_fxx_vector){0};
}

/* All of k of `columns` rows of the right operand, CONTRACT_THIN_ROWS at most. */
static void contract_fxx_thin_rows(const struct contract_fxx_team *team, int64_t row, int64_t columns,
                                   FLOAT *tile) {
    const struct contract_fxx *product = team->product;
    const int64_t stride = team->blocks->stride;
    const FLOAT *left = (const FLOAT *)team->own;
    FLOAT *lines = (FLOAT *)(team->own + team->blocks->lines);
    contract_fxx_vector sums[CONTRACT_FXX_THIN_GROUPS * CONTRACT_FXX_THIN_SUMS];
    double totals[CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS] = {0};
    contract_fxx_thin_clear(sums, product->m);
    for (int64_t j = columns * CONTRACT_THIN_STRIDE; j < CONTRACT_THIN_ROWS * CONTRACT_THIN_STRIDE; j++)
        lines[j] = 0;
    for (int64_t k = 0; k < product->k; k += CONTRACT_THIN_DEPTH) {
        const int64_t depth = contract_min(CONTRACT_THIN_DEPTH, product->k - k);
        product->right.fill(product->arguments, team->batch, row, columns, k, depth, lines,
                            CONTRACT_THIN_STRIDE, CONTRACT_THIN_AHEAD);
        contract_fxx_thin_pad(lines, columns, depth, CONTRACT_THIN_STRIDE);
        for (int64_t i = 0; i < product->m; i += CONTRACT_FXX_THIN_GROUP)
            contract_fxx_thin_group(product->m - i, left + i * stride + k, stride, lines, depth,
                                    sums + i * CONTRACT_THIN_ROWS);
        if ((k + CONTRACT_THIN_DEPTH) % (CONTRACT_CHAIN * CONTRACT_FXX_LANES) != 0) continue;
        contract_fxx_thin_end(sums, product->m, columns, totals);
        contract_fxx_thin_clear(sums, product->m);
    }
    contract_fxx_thin_end(sums, product->m, columns, totals);
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < columns; j++)
            tile[i * team->choice->columns + j] = (FLOAT)totals[i * CONTRACT_THIN_ROWS + j];
}

static void contract_fxx_thin(const struct contract_fxx_team *team) {
    const int64_t width = team->choice->columns, panels = contract_ceil(team->product->n, width);
    FLOAT *tile = (FLOAT *)(team->own + team->blocks->tile);
    contract_fxx_rewind(team);
    contract_fxx_thin_left(team);
    contract_fxx_barrier(team);
    for (int64_t panel = contract_fxx_next(team); panel < panels; panel = contract_fxx_next(team)) {
        struct contract_fxx_range range = {.rows = team->product->m, .n = panel * width};
        range.columns = contract_min(width, team->product->n - range.n);
        for (int64_t i = 0; i < range.columns; i += CONTRACT_THIN_ROWS)
            contract_fxx_thin_rows(team, range.n + i, contract_min(CONTRACT_THIN_ROWS, range.columns - i),
                                   tile + i);
        contract_fxx_finish(team, &range, tile);
    }
}
