/* The loop of products with rows between them: blocks of rows go through all.
 *
 * In: the products and their units, and a callback that takes a block of rows through all. Out: each block
 * is handed to it once, with the right operands packed.
 */

/* A product, and what multiplies it. */
struct contract_attend_part {
    const struct contract_f32 *product;
    const struct contract_f32_unit *unit;
    const struct contract_choice *choice;
};

/* What one thread knows. */
struct contract_attend {
    struct contract_attend_blocks blocks;
    struct contract_f32_team team[CONTRACT_ATTEND_PRODUCTS];
    int64_t products, batch;
    char *own;    /* this thread's memory */
    bool limited; /* what lies past a block's limit may be left out */
};

/* Takes rows [m, m + rows) of attend->batch through all products. */
typedef void contract_attend_fn(const struct arguments *arguments, const struct contract_attend *attend,
                                int64_t m, int64_t rows);

/* Keys up to which a block goes: `most` in whole steps of every unit. */
static inline int64_t contract_attend_limit(const struct contract_attend *attend, int64_t most) {
    const int64_t n = attend->team[0].product->n;
    if (!attend->limited) return n;
    return contract_min(n, contract_round(contract_max(most, 1), CONTRACT_ATTEND_STEP));
}

/* Keys from which a block goes: before `least` none counts. A step of them is left at least. */
static inline int64_t contract_attend_begin(const struct contract_attend *attend, int64_t least,
                                            int64_t limit) {
    if (!attend->limited) return 0;
    least = contract_min(least, limit - CONTRACT_ATTEND_STEP);
    return contract_max(least, 0) / CONTRACT_ATTEND_STEP * CONTRACT_ATTEND_STEP;
}

/* Columns or depths of a product, from `begin`, a whole step, to below `end`. */
struct contract_attend_span {
    int64_t begin, end;
};

/* Whether one of the rows sees one of the keys [key, key + keys). `seen` holds zeros, as long as none does.
 */
static bool contract_attend_sees(const struct contract_f32_operand *mask, const struct arguments *arguments,
                                 int64_t batch, int64_t m, int64_t rows, int64_t key, int64_t keys,
                                 float *seen) {
    const int64_t stride = mask->along_k ? CONTRACT_ATTEND_STEP : CONTRACT_ATTEND_ROWS;
    for (int64_t row = 0; row < rows; row += CONTRACT_ATTEND_ROWS) {
        float any = 0;
        mask->fill(arguments, batch, m + row, contract_min(rows - row, CONTRACT_ATTEND_ROWS), key, keys, seen,
                   stride, 0);
#pragma omp simd reduction(+ : any)
        for (int i = 0; i < CONTRACT_ATTEND_ROWS * CONTRACT_ATTEND_STEP; i++)
            any += seen[i];
        if (any > 0) return true;
    }
    return false;
}

/* Of the block's keys those from the first step on that a row sees, to the last one. A step is left at least.
 */
static struct contract_attend_span contract_attend_seen(const struct contract_f32_operand *mask,
                                                        const struct arguments *arguments, int64_t batch,
                                                        int64_t m, int64_t rows,
                                                        struct contract_attend_span keys) {
    enum { STEP = CONTRACT_ATTEND_STEP, SEEN = CONTRACT_ATTEND_ROWS * STEP };
    float first[SEEN] = {0}, last[SEEN] = {0};
    if (keys.end - keys.begin < CONTRACT_ATTEND_LOOKED) return keys;
    while (keys.end - keys.begin >= 2 * STEP &&
           !contract_attend_sees(mask, arguments, batch, m, rows, keys.begin, STEP, first))
        keys.begin += STEP;
    for (int64_t end; (end = (keys.end - 1) / STEP * STEP) - keys.begin >= STEP; keys.end = end)
        if (contract_attend_sees(mask, arguments, batch, m, rows, end, keys.end - end, last)) break;
    return keys;
}

/* Rows [m, m + rows) of a product whose right operand stands packed: of its columns and of k these. Chains
 * end at the same places of k wherever they begin, so that sums do not depend on how rows are cut. */
static void contract_f32_kept(const struct contract_f32_team *team, int64_t m, int64_t rows,
                              struct contract_attend_span columns, struct contract_attend_span depths) {
    const struct contract_blocks *blocks = team->blocks;
    const int64_t width = team->choice->columns;
    const float *right = (const float *)(team->shared + blocks->right);
    const int32_t *least = (const int32_t *)(team->shared + blocks->least);
    const int64_t chain = blocks->k_block * contract_max(1, contract_chain(team->choice) / blocks->k_block);
    float *tile = (float *)(team->own + blocks->tile);
    double *totals = (double *)(team->own + blocks->totals);
    struct contract_f32_range range = {.m = m, .rows = rows};
    const int64_t begin = depths.begin / team->choice->together;
    const int64_t depth =
        contract_round(contract_ceil(depths.end, team->choice->together), team->choice->step);
    bool opens = true, folds = false; /* the next sums begin a chain; there are totals */
    range.k = begin;
    do {
        range.depth = contract_min(contract_min(blocks->k_block, chain - range.k % chain), depth - range.k);
        range.chunk = contract_f32_chunk(team, range.depth);
        const bool last = range.k + range.depth >= depth, ends = last || (range.k + range.depth) % chain == 0;
        range.least = contract_f32_pack_left(team, m, rows, range.k, range.depth);
        for (range.n = columns.begin; range.n < columns.end; range.n += width) {
            const int64_t panel = range.n / width;
            const float *packed = right + panel * width * blocks->depth + range.k * width;
            const int64_t place = blocks->passes > 1 ? panel * blocks->task_rows * width : 0;
            float *sums = tile + place;
            range.columns = contract_min(width, columns.end - range.n);
            contract_f32_pass(team, &range, (struct contract_f32_panel){packed, least[panel]}, opens, sums);
            if (blocks->chained && ends) contract_f32_fold(sums, totals + place, rows * width, !folds);
            if (last && blocks->chained) contract_f32_unfold(totals + place, rows * width, sums);
            if (last) contract_f32_finish(team, &range, sums);
        }
        opens = blocks->chained && ends;
        folds = folds || ends;
        range.k += range.depth;
    } while (range.k < depth);
}

/* The product of rows [m, m + rows), with what the arguments say of them. */
static void contract_attend_product(const struct contract_f32_team *team, const struct arguments *arguments,
                                    int64_t m, int64_t rows, struct contract_attend_span columns,
                                    struct contract_attend_span depths) {
    struct contract_f32 product = *team->product;
    struct contract_f32_team own = *team;
    product.arguments = arguments;
    product.first = depths.begin;
    if (product.seen.fill) product.k = contract_min(product.k, depths.end);
    own.product = &product;
    contract_f32_kept(&own, m, rows, columns, depths);
}

static void contract_attend_pack(const struct contract_f32_team *team) {
    const struct contract_f32_range all = {.columns = team->product->n, .depth = team->blocks->depth};
    contract_f32_pack_block(team, &all);
}

static struct contract_attend contract_attend_of(const struct contract_attend_sizes *sizes,
                                                 const struct contract_attend_part *parts, int64_t thread,
                                                 int64_t threads, char *scratch) {
    const struct contract_choice *choices[CONTRACT_ATTEND_PRODUCTS];
    for (int64_t i = 0; i < sizes->count; i++)
        choices[i] = parts[i].choice;
    struct contract_attend attend = {.blocks = contract_attend_blocks(sizes, choices, threads),
                                     .products = sizes->count};
    const struct contract_attend_blocks *blocks = &attend.blocks;
    attend.batch = thread / blocks->team;
    char *shared = scratch + attend.batch * blocks->team_bytes;
    attend.own = shared + blocks->threads + thread % blocks->team * blocks->thread_bytes;
    for (int64_t i = 0; i < attend.products; i++)
        attend.team[i] = (struct contract_f32_team){.product = parts[i].product,
                                                    .unit = parts[i].unit,
                                                    .choice = parts[i].choice,
                                                    .rank = thread % blocks->team,
                                                    .shared = shared + blocks->shared[i],
                                                    .own = attend.own};
    return attend;
}

/* Packs all right operands of the batch. */
static void contract_attend_begin_batch(struct contract_attend *attend) {
    for (int64_t i = 0; i < attend->products; i++) {
        attend->team[i].batch = attend->batch;
        contract_attend_pack(&attend->team[i]);
    }
    contract_f32_barrier(&attend->team[0]);
}

/* Called by every thread of a parallel region. `reaches`: what lies past a block's limit is 0 times a value.
 * Blocks are taken from the last, which may be the longest. */
static void contract_attend_run(struct contract_attend *attend, const struct arguments *arguments,
                                bool reaches, contract_attend_fn *block) {
    const struct contract_attend_blocks *blocks = &attend->blocks;
    const struct contract_f32_team *first = &attend->team[0];
    int64_t *next = (int64_t *)(first->shared - 64);
    const int64_t m = first->product->m;
    attend->limited = reaches;
    for (int64_t i = 0; i < attend->products; i++)
        attend->team[i].blocks = &blocks->product[i];
    for (; attend->batch < first->product->batch; attend->batch += blocks->teams) {
        if (first->rank == 0) __atomic_store_n(next, blocks->count, __ATOMIC_RELAXED);
        contract_attend_begin_batch(attend);
        int64_t left;
        while ((left = __atomic_fetch_sub(next, 1, __ATOMIC_RELAXED)) > 0) {
            const int64_t row = (left - 1) * blocks->rows;
            block(arguments, attend, row, contract_min(blocks->rows, m - row));
        }
        contract_f32_barrier(first);
    }
}
