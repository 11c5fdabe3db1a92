/* A product of few rows whose right operand lies along k: that is read once, in its place, and each of its
 * rows is multiplied with all rows of the left operand, a vector along k at a time. To turn it into panels
 * would take longer than to read it.
 *
 * In: a team whose blocks are `thin`. Out: the same sums as the main loop's.
 *
 * The emitter makes the f64 version of this text by renaming.
 */
enum {
    /* Rows of the left operand at a time. With those of the right one as many sums as a vector has lanes:
     * they are added up by turning a square. */
    CONTRACT_F32_THIN_GROUP =
        CONTRACT_F32_LANES / CONTRACT_THIN_ROWS > 1 ? CONTRACT_F32_LANES / CONTRACT_THIN_ROWS : 1,
    CONTRACT_F32_THIN_SUMS = CONTRACT_F32_THIN_GROUP * CONTRACT_THIN_ROWS,
    CONTRACT_F32_THIN_GROUPS = CONTRACT_SWAPPED_MAX / CONTRACT_F32_THIN_GROUP
};

/* Rows of `depth` elements get zeros up to a whole vector. */
static void contract_f32_thin_pad(float *lines, int64_t rows, int64_t depth, int64_t stride) {
    const int64_t end = contract_round(depth, CONTRACT_F32_LANES);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = depth; j < end; j++)
            lines[i * stride + j] = 0;
}

/* The whole left operand, a row a line. */
static void contract_f32_thin_left(const struct contract_f32_team *team) {
    const struct contract_f32 *product = team->product;
    const int64_t stride = team->blocks->stride, rows = product->m;
    float *to = (float *)team->own, *lines = (float *)(team->own + team->blocks->lines);
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
    contract_f32_thin_pad(to, rows, product->k, stride);
}

/* `rows` of the left operand times CONTRACT_THIN_ROWS of the right one. */
static inline __attribute__((always_inline)) void
contract_f32_thin_multiply(int rows, const float *left, int64_t stride, const float *right, int64_t depth,
                           contract_f32_vector *sums) {
    contract_f32_vector sum[CONTRACT_F32_THIN_GROUP][CONTRACT_THIN_ROWS];
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            sum[i][j] = sums[i * CONTRACT_THIN_ROWS + j];
        }
    }
    for (int64_t k = 0; k < depth; k += CONTRACT_F32_LANES) {
        contract_f32_vector column[CONTRACT_THIN_ROWS];
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            column[j] = *(const contract_f32_vector *)(right + j * CONTRACT_THIN_STRIDE + k);
        }
        CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
            const contract_f32_vector row = *(const contract_f32_vector *)(left + i * stride + k);
            CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) sum[i][j] += row * column[j];
        }
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < CONTRACT_THIN_ROWS; j++) {
            sums[i * CONTRACT_THIN_ROWS + j] = sum[i][j];
        }
    }
}

static __attribute__((noinline)) void contract_f32_thin_group(int64_t rows, const float *left, int64_t stride,
                                                              const float *right, int64_t depth,
                                                              contract_f32_vector *sums) {
    if (rows >= 4 && CONTRACT_F32_THIN_GROUP >= 4)
        contract_f32_thin_multiply(4, left, stride, right, depth, sums);
    else if (rows >= 3 && CONTRACT_F32_THIN_GROUP >= 3)
        contract_f32_thin_multiply(3, left, stride, right, depth, sums);
    else if (rows >= 2 && CONTRACT_F32_THIN_GROUP >= 2)
        contract_f32_thin_multiply(2, left, stride, right, depth, sums);
    else
        contract_f32_thin_multiply(1, left, stride, right, depth, sums);
}

/* Sums of each group, whose vectors are added up, to tile[row of the left][row of the right]. */
static void contract_f32_thin_fold(contract_f32_vector *sums, int64_t rows, int64_t columns, int64_t width,
                                   float *tile) {
    for (int64_t i = 0; i < rows; i += CONTRACT_F32_THIN_GROUP, sums += CONTRACT_F32_THIN_SUMS) {
        float folded[CONTRACT_F32_THIN_SUMS];
        for (int square = 0; square < CONTRACT_F32_THIN_SUMS; square += CONTRACT_F32_LANES) {
            contract_f32_vector all = {0};
            contract_f32_transpose(sums + square);
            for (int j = 0; j < CONTRACT_F32_LANES; j++)
                all += sums[square + j];
            *(contract_f32_loose *)(folded + square) = all;
        }
        for (int64_t j = 0; j < CONTRACT_F32_THIN_GROUP && i + j < rows; j++)
            for (int64_t column = 0; column < columns; column++)
                tile[(i + j) * width + column] = folded[j * CONTRACT_THIN_ROWS + column];
    }
}

/* A chain of each lane ends: what the lanes have come to goes to the totals in f64 of the same places. */
static void contract_f32_thin_end(contract_f32_vector *sums, int64_t rows, int64_t columns, double *totals) {
    float tile[CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS] = {0};
    contract_f32_thin_fold(sums, rows, columns, CONTRACT_THIN_ROWS, tile);
    for (int i = 0; i < CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS; i++)
        totals[i] += tile[i];
}

static void contract_f32_thin_clear(contract_f32_vector *sums, int64_t rows) {
    for (int64_t i = 0; i < contract_ceil(rows, CONTRACT_F32_THIN_GROUP) * CONTRACT_F32_THIN_SUMS; i++)
        sums[i] = (contract_f32_vector){0};
}

/* All of k of `columns` rows of the right operand, CONTRACT_THIN_ROWS at most. */
static void contract_f32_thin_rows(const struct contract_f32_team *team, int64_t row, int64_t columns,
                                   float *tile) {
    const struct contract_f32 *product = team->product;
    const int64_t stride = team->blocks->stride;
    const float *left = (const float *)team->own;
    float *lines = (float *)(team->own + team->blocks->lines);
    contract_f32_vector sums[CONTRACT_F32_THIN_GROUPS * CONTRACT_F32_THIN_SUMS];
    double totals[CONTRACT_SWAPPED_MAX * CONTRACT_THIN_ROWS] = {0};
    contract_f32_thin_clear(sums, product->m);
    for (int64_t j = columns * CONTRACT_THIN_STRIDE; j < CONTRACT_THIN_ROWS * CONTRACT_THIN_STRIDE; j++)
        lines[j] = 0;
    for (int64_t k = 0; k < product->k; k += CONTRACT_THIN_DEPTH) {
        const int64_t depth = contract_min(CONTRACT_THIN_DEPTH, product->k - k);
        product->right.fill(product->arguments, team->batch, row, columns, k, depth, lines,
                            CONTRACT_THIN_STRIDE, CONTRACT_THIN_AHEAD);
        contract_f32_thin_pad(lines, columns, depth, CONTRACT_THIN_STRIDE);
        for (int64_t i = 0; i < product->m; i += CONTRACT_F32_THIN_GROUP)
            contract_f32_thin_group(product->m - i, left + i * stride + k, stride, lines, depth,
                                    sums + i * CONTRACT_THIN_ROWS);
        if ((k + CONTRACT_THIN_DEPTH) % (CONTRACT_CHAIN * CONTRACT_F32_LANES) != 0) continue;
        contract_f32_thin_end(sums, product->m, columns, totals);
        contract_f32_thin_clear(sums, product->m);
    }
    contract_f32_thin_end(sums, product->m, columns, totals);
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < columns; j++)
            tile[i * team->choice->columns + j] = (float)totals[i * CONTRACT_THIN_ROWS + j];
}

static void contract_f32_thin(const struct contract_f32_team *team) {
    const int64_t width = team->choice->columns, panels = contract_ceil(team->product->n, width);
    float *tile = (float *)(team->own + team->blocks->tile);
    contract_f32_rewind(team);
    contract_f32_thin_left(team);
    contract_f32_meet(team);
    for (int64_t panel = contract_f32_next(team); panel < panels; panel = contract_f32_next(team)) {
        struct contract_f32_range range = {.rows = team->product->m, .n = panel * width};
        range.columns = contract_min(width, team->product->n - range.n);
        for (int64_t i = 0; i < range.columns; i += CONTRACT_THIN_ROWS)
            contract_f32_thin_rows(team, range.n + i, contract_min(CONTRACT_THIN_ROWS, range.columns - i),
                                   tile + i);
        contract_f32_finish(team, &range, tile);
    }
}
