/* The main loop of a matrix product: sum over k of left(batch, m, k) * right(batch, n, k), then whatever the
 * kernel does with the finished sums.
 *
 * In: a contract_fxx with three callbacks: two evaluate a block of an operand into memory, the third takes a
 * tile of finished sums; and a unit that packs operands and multiplies what it packed. Out: each sum is
 * handed to `finish` exactly once.
 *
 * Both operands are packed into panels as wide as the unit's register tile, whatever their layout and dtype.
 * A chunk of the right operand stays in L1 while all panels of the left operand's block pass by from L2; the
 * sums of that block and one panel stay in a tile near L1 until k is done. Where k is long they end after a
 * chain of addends: totals in f64 take them, and they begin at 0 again. Depths and k count packed elements,
 * which may hold several neighbours along k.
 */
struct arguments; /* of the kernel: the callbacks read its arrays */

/* Evaluates rows [row, row + rows) x [k, k + depth) of an operand. Along k: to[i * stride + j] is row i at
 * depth j; otherwise to[j * stride + i]. Prefetches what lies `ahead` places further along k. */
typedef void contract_fxx_fill_fn(const struct arguments *arguments, int64_t batch, int64_t row, int64_t rows,
                                  int64_t k, int64_t depth, FLOAT *to, int64_t stride, int64_t ahead);
/* Takes the sums of rows [m, m + rows) x columns [n, n + columns); sum (i, j) is tile[i * stride + j]. */
typedef void contract_fxx_finish_fn(const struct arguments *arguments, int64_t batch, int64_t m, int64_t rows,
                                    int64_t n, int64_t columns, const FLOAT *tile, int64_t stride);

struct contract_fxx_operand {
    contract_fxx_fill_fn *fill;
    bool along_k; /* its vectors run along k */
};

/* How far a product of a batch goes, where data say so. */
typedef int64_t contract_fxx_limit_fn(const struct arguments *arguments, int64_t batch);

struct contract_fxx {
    int64_t batch, m, n, k;
    struct contract_fxx_operand left, right;
    contract_fxx_finish_fn *finish;
    const struct arguments *arguments;
    /* Columns that count, the others of which nobody reads; depths that count, beyond which operands are 0.
     * NULL = all. */
    contract_fxx_limit_fn *columns, *depths;
    /* 1 where a product counts, else 0, over rows of the left operand: what the right one holds elsewhere
     * changes nothing. Without a `fill` all count. */
    struct contract_fxx_operand seen;
    int64_t first; /* depth of its sums: those before it, or from k on, do not count */
};

struct contract_fxx_unit;

/* One product as its team of threads sees it. */
struct contract_fxx_team {
    const struct contract_fxx *product;
    const struct contract_fxx_unit *unit;
    const struct contract_choice *choice;
    const struct contract_blocks *blocks;
    int64_t batch, rank;
    char *shared, *own; /* this team's and this thread's memory */
};

/* One panel of the left operand times one chunk of the right operand. Both are packed; `sums` is a tile of
 * the unit's columns. Past the last row and column both packed operands are 0. */
struct contract_fxx_piece {
    int64_t rows, columns, depth;
    bool first;    /* the sums begin at 0 */
    intxx_t least; /* what packing both operands returned, added up */
    const FLOAT *left, *right;
    FLOAT *sums;
    const char *ahead; /* what comes next, worth prefetching: `step` bytes for each step along k */
    int64_t step;
};

/* What multiplies. Packing returns what the unit wants to know of the values: for several panels the least of
 * all. */
struct contract_fxx_unit {
    intxx_t (*pack_left)(const struct contract_fxx_team *team, int64_t row, int64_t rows, int64_t k,
                         int64_t depth, FLOAT *to);
    intxx_t (*pack_right)(const struct contract_fxx_team *team, int64_t row, int64_t rows, int64_t k,
                          int64_t depth, FLOAT *to);
    void (*multiply)(const struct contract_fxx_piece *piece);
};

/* ---- packing ---- */

/* Panels that a thread takes side by side. A line of each row of the right operand is what a panel is where
 * rows run along its columns: of few rows of the left operand most of the work is to read that, and memory
 * gives neighbours faster. */
static int64_t contract_fxx_group(const struct contract_fxx_team *team) {
    return team->product->right.along_k ? 1 : contract_max(1, team->blocks->group);
}

/* How deep the chunks of a block are: even, so that none is short. */
static int64_t contract_fxx_chunk(const struct contract_fxx_team *team, int64_t depth) {
    const bool grouped = contract_fxx_group(team) > 1;
    int64_t most = grouped ? CONTRACT_GROUP_DEPTH / team->choice->together : team->choice->depth;
    int64_t chunks = contract_max(1, contract_ceil(depth, most));
    return contract_depth(team->choice, contract_ceil(depth, chunks));
}

/* [chunk][panel], the order in which the block is read. */
static intxx_t contract_fxx_pack_left(const struct contract_fxx_team *team, int64_t row, int64_t rows,
                                      int64_t k, int64_t depth) {
    FLOAT *to = (FLOAT *)(team->own + team->blocks->left);
    const int64_t chunk = contract_fxx_chunk(team, depth), width = team->choice->rows;
    intxx_t least = INT16_MAX;
    for (int64_t j = 0; j < depth; j += chunk) {
        int64_t deep = contract_min(chunk, depth - j);
        for (int64_t i = 0; i < rows; i += width) {
            intxx_t found =
                team->unit->pack_left(team, row + i, contract_min(width, rows - i), k + j, deep, to);
            if (found < least) least = found;
            to += deep * width;
        }
    }
    return least;
}

static intxx_t contract_fxx_pack_right(const struct contract_fxx_team *team, int64_t column, int64_t k,
                                       int64_t depth, FLOAT *to) {
    int64_t columns = contract_min(team->choice->columns, team->product->n - column);
    return team->unit->pack_right(team, column, columns, k, depth, to);
}

/* ---- blocks ---- */

struct contract_fxx_range {
    int64_t m, rows, n, columns, k, depth;
    int64_t begin; /* of these depths in the packed left block */
    int64_t chunk; /* depth of a chunk of that */
    intxx_t least; /* of the packed left block */
};

/* A panel of the right operand; NULL: it is packed when it is needed, a chunk at a time. */
struct contract_fxx_panel {
    const FLOAT *packed;
    intxx_t least;
};

/* The packed left block times one panel of the right operand, into the thread's tile. */
static void contract_fxx_pass(const struct contract_fxx_team *team, const struct contract_fxx_range *range,
                              struct contract_fxx_panel right, bool first, FLOAT *tile) {
    const int64_t width = team->choice->rows, columns = team->choice->columns;
    const int64_t panels = contract_ceil(range->rows, width), line = columns * (int64_t)sizeof(FLOAT);
    const int64_t chunk = range->chunk;
    FLOAT *own = (FLOAT *)team->own;
    struct contract_fxx_piece piece = {.columns = range->columns};
    piece.left = (const FLOAT *)(team->own + team->blocks->left) + range->begin * panels * width;
    piece.step = right.packed ? contract_ceil(line, panels * 8) * 8 : 0;
    for (int64_t k = 0; k == 0 || k < range->depth; k += chunk) {
        piece.depth = contract_min(chunk, range->depth - k);
        if (!right.packed)
            right.least = contract_fxx_pack_right(team, range->n, range->k + k, piece.depth, own);
        piece.right = right.packed ? right.packed + k * columns : own;
        piece.ahead = (const char *)(right.packed ? piece.right + piece.depth * columns : own);
        piece.first = first && k == 0;
        piece.least = range->least + right.least;
        for (int64_t i = 0; i < range->rows; i += width) {
            piece.rows = contract_min(width, range->rows - i);
            piece.sums = tile + i * columns;
            team->unit->multiply(&piece);
            piece.left += piece.depth * width;
            piece.ahead += piece.depth * piece.step;
        }
    }
}

/* A chain ends: totals take the sums, the first of all begins them. */
static void contract_fxx_fold(const FLOAT *tile, double *totals, int64_t count, bool first) {
    for (int64_t i = 0; i < count; i++)
        totals[i] = (first ? 0 : totals[i]) + tile[i];
}

static void contract_fxx_unfold(const double *totals, int64_t count, FLOAT *tile) {
    for (int64_t i = 0; i < count; i++)
        tile[i] = (FLOAT)totals[i];
}

/* How deep a chain is: whole chunks. */
static int64_t contract_fxx_chain(const struct contract_fxx_team *team, int64_t chunk) {
    return chunk * contract_max(1, contract_chain(team->choice) / contract_max(1, chunk));
}

/* All depths of the range, a chain at a time; `totals` NULL: they are one, or part of one. */
static void contract_fxx_chains(const struct contract_fxx_team *team, const struct contract_fxx_range *range,
                                struct contract_fxx_panel right, FLOAT *tile, double *totals) {
    const int64_t columns = team->choice->columns;
    const int64_t chain = totals ? contract_fxx_chain(team, range->chunk) : contract_max(1, range->depth);
    for (int64_t k = 0; k == 0 || k < range->depth; k += chain) {
        struct contract_fxx_range part = *range;
        part.k += k, part.begin += k, part.depth = contract_min(chain, range->depth - k);
        struct contract_fxx_panel panel = {right.packed ? right.packed + k * columns : NULL, right.least};
        contract_fxx_pass(team, &part, panel, true, tile);
        if (totals) contract_fxx_fold(tile, totals, range->rows * columns, part.k == 0);
    }
}

/* ---- sums that a mask leaves products out of ---- */

enum { CONTRACT_FXX_AGAIN = 64 }; /* depths at a time */

/* One row of the operand at some depths. */
static void contract_fxx_row(const struct contract_fxx *product, const struct contract_fxx_operand *operand,
                             int64_t batch, int64_t row, int64_t k, int64_t depth, FLOAT *to) {
    operand->fill(product->arguments, batch, row, 1, k, depth, to, operand->along_k ? CONTRACT_FXX_AGAIN : 1,
                  0);
}

/* A sum, of the products that count. */
static FLOAT contract_fxx_again(const struct contract_fxx *product, const struct contract_fxx_operand *left,
                                const struct contract_fxx_operand *right, int64_t batch, int64_t m,
                                int64_t n) {
    FLOAT a[CONTRACT_FXX_AGAIN], b[CONTRACT_FXX_AGAIN], seen[CONTRACT_FXX_AGAIN];
    double sum = 0;
    for (int64_t k = product->first; k < product->k && sum == sum; k += CONTRACT_FXX_AGAIN) {
        const int64_t depth = contract_min(CONTRACT_FXX_AGAIN, product->k - k);
        contract_fxx_row(product, left, batch, m, k, depth, a);
        contract_fxx_row(product, right, batch, n, k, depth, b);
        contract_fxx_row(product, &product->seen, batch, m, k, depth, seen);
        for (int64_t i = 0; i < depth; i++)
            if (seen[i] != 0) sum += (double)a[i] * b[i];
    }
    return (FLOAT)sum;
}

/* 0 times infinity or NaN is NaN: sums that are not finite are made again. */
static __attribute__((noinline)) void contract_fxx_mend(const struct contract_fxx *product,
                                                        const struct contract_fxx_operand *left,
                                                        const struct contract_fxx_operand *right,
                                                        int64_t batch, int64_t m, int64_t rows, int64_t n,
                                                        int64_t columns, FLOAT *tile, int64_t stride) {
    for (int64_t i = 0; i < rows; i++) {
        FLOAT *sums = tile + i * stride, none = 0;
#pragma omp simd reduction(+ : none)
        for (int64_t j = 0; j < columns; j++)
            none += sums[j] - sums[j];
        for (int64_t j = 0; j < columns && none != 0; j++)
            if (sums[j] - sums[j] != 0)
                sums[j] = contract_fxx_again(product, left, right, batch, m + i, n + j);
    }
}

/* Of a swapped product the tile's rows are columns; its few rows fit the transposition's buffer. */
static void contract_fxx_finish(const struct contract_fxx_team *team, const struct contract_fxx_range *range,
                                FLOAT *tile) {
    const struct contract_fxx *product = team->product;
    if (!team->blocks->swapped) {
        if (product->seen.fill)
            contract_fxx_mend(product, &product->left, &product->right, team->batch, range->m, range->rows,
                              range->n, range->columns, tile, team->choice->columns);
        product->finish(product->arguments, team->batch, range->m, range->rows, range->n, range->columns,
                        tile, team->choice->columns);
        return;
    }
    FLOAT *sums = (FLOAT *)(team->own + team->blocks->lines);
    for (int64_t i = 0; i < range->columns; i++) {
        for (int64_t j = 0; j < range->rows; j++) {
            sums[i * CONTRACT_SWAPPED_MAX + j] = tile[j * team->choice->columns + i];
        }
    }
    if (product->seen.fill)
        contract_fxx_mend(product, &product->right, &product->left, team->batch, range->n, range->columns,
                          range->m, range->rows, sums, CONTRACT_SWAPPED_MAX);
    product->finish(product->arguments, team->batch, range->n, range->columns, range->m, range->rows, sums,
                    CONTRACT_SWAPPED_MAX);
}

/* ---- the team: tasks are taken one by one, because threads are never equally fast ---- */

static void contract_fxx_rewind(const struct contract_fxx_team *team) {
    if (team->rank == 0) __atomic_store_n((int64_t *)team->shared, 0, __ATOMIC_RELAXED);
}

static int64_t contract_fxx_next(const struct contract_fxx_team *team) {
    return __atomic_fetch_add((int64_t *)team->shared, 1, __ATOMIC_RELAXED);
}

/* Returns when all threads of the team have come. */
static void contract_fxx_barrier(const struct contract_fxx_team *team) {
    if (team->blocks->team > 1) thread_barrier();
}

/* Sums of panels [panel, end) of a product of few rows, over the range's depths, whose left operand stands
 * packed: to the thread's tiles. */
static void contract_fxx_flat_sums(const struct contract_fxx_team *team, struct contract_fxx_range range,
                                   int64_t panel, int64_t end) {
    const int64_t width = team->choice->columns, from = range.k, depth = range.depth;
    const int64_t chunk = end - panel > 1 ? range.chunk : contract_max(depth, 1);
    const int64_t size = team->blocks->task_rows * width;
    const int64_t whole = contract_fxx_chain(team, range.chunk);
    const bool chained = team->blocks->chained && depth > whole;
    const int64_t chain = chained ? whole : contract_max(depth, 1);
    FLOAT *tiles = (FLOAT *)(team->own + team->blocks->tile);
    double *totals = (double *)(team->own + team->blocks->totals);
    for (int64_t first = 0; first == 0 || first < depth; first += chain) {
        const int64_t stop = contract_min(first + chain, depth);
        for (int64_t k = first; k == first || k < stop; k += chunk) {
            range.k = from + k, range.begin = k, range.depth = contract_min(chunk, stop - k);
            for (int64_t i = panel; i < end; i++) {
                range.n = i * width, range.columns = contract_min(width, team->product->n - range.n);
                contract_fxx_pass(team, &range, (struct contract_fxx_panel){NULL, 0}, k == first,
                                  tiles + (i - panel) * size);
            }
        }
        if (chained) contract_fxx_fold(tiles, totals, (end - panel) * size, first == 0);
    }
    if (chained) contract_fxx_unfold(totals, (end - panel) * size, tiles);
}

/* The same, all of k, and what the kernel does with them. */
static void contract_fxx_flat_group(const struct contract_fxx_team *team, struct contract_fxx_range range,
                                    int64_t panel, int64_t end) {
    const int64_t width = team->choice->columns, size = team->blocks->task_rows * width;
    FLOAT *tiles = (FLOAT *)(team->own + team->blocks->tile);
    contract_fxx_flat_sums(team, range, panel, end);
    for (int64_t i = panel; i < end; i++) {
        range.n = i * width, range.columns = contract_min(width, team->product->n - range.n);
        contract_fxx_finish(team, &range, tiles + (i - panel) * size);
    }
}

/* Few rows: every thread holds the whole left operand and takes panels of the right one. */
static void contract_fxx_flat(const struct contract_fxx_team *team) {
    const struct contract_fxx *product = team->product;
    contract_fxx_rewind(team);
    struct contract_fxx_range range = {.rows = product->m, .depth = team->blocks->depth};
    range.chunk = contract_fxx_chunk(team, range.depth);
    range.least = contract_fxx_pack_left(team, 0, product->m, 0, range.depth);
    contract_fxx_barrier(team);
    const int64_t panels = contract_ceil(product->n, team->choice->columns), group = contract_fxx_group(team);
    for (int64_t panel = group * contract_fxx_next(team); panel < panels;
         panel = group * contract_fxx_next(team))
        contract_fxx_flat_group(team, range, panel, contract_min(panel + group, panels));
}

/* Sums of one part of k, kept as [part][panel]. */
static void contract_fxx_part(const struct contract_fxx_team *team, int64_t part) {
    const struct contract_blocks *blocks = team->blocks;
    const int64_t panels = contract_ceil(team->product->n, team->choice->columns),
                  group = contract_fxx_group(team), size = blocks->task_rows * team->choice->columns;
    const FLOAT *tiles = (const FLOAT *)(team->own + blocks->tile);
    FLOAT *partial = (FLOAT *)(team->shared + blocks->partial) + part * panels * size;
    struct contract_fxx_range range = {.rows = team->product->m, .k = part * blocks->k_block};
    range.depth = contract_min(blocks->k_block, blocks->depth - range.k);
    range.chunk = contract_fxx_chunk(team, range.depth);
    range.least = contract_fxx_pack_left(team, 0, range.rows, range.k, range.depth);
    for (int64_t panel = 0; panel < panels; panel += group) {
        const int64_t end = contract_min(panel + group, panels);
        contract_fxx_flat_sums(team, range, panel, end);
        for (int64_t i = 0; i < (end - panel) * size; i++)
            partial[panel * size + i] = tiles[i];
    }
}

/* A panel's sums of all parts, added up in their order. */
static void contract_fxx_add_parts(const struct contract_fxx_team *team, int64_t parts, int64_t panel) {
    const struct contract_blocks *blocks = team->blocks;
    const int64_t width = team->choice->columns, size = blocks->task_rows * width;
    const int64_t panels = contract_ceil(team->product->n, width);
    const FLOAT *partial = (const FLOAT *)(team->shared + blocks->partial) + panel * size;
    FLOAT *tile = (FLOAT *)(team->own + blocks->tile);
    double *totals = (double *)(team->own + blocks->totals);
    struct contract_fxx_range range = {.rows = team->product->m, .n = panel * width};
    range.columns = contract_min(width, team->product->n - range.n);
    for (int64_t part = 0; part < parts; part++)
        contract_fxx_fold(partial + part * panels * size, totals, size, part == 0);
    contract_fxx_unfold(totals, size, tile);
    contract_fxx_finish(team, &range, tile);
}

/* Few rows and columns, a long k: threads take parts of that, then panels of the sums. */
static void contract_fxx_parts(const struct contract_fxx_team *team) {
    const struct contract_blocks *blocks = team->blocks;
    const int64_t parts = contract_max(1, contract_ceil(blocks->depth, blocks->k_block));
    const int64_t panels = contract_ceil(team->product->n, team->choice->columns);
    contract_fxx_rewind(team);
    contract_fxx_barrier(team);
    for (int64_t part = contract_fxx_next(team); part < parts; part = contract_fxx_next(team))
        contract_fxx_part(team, part);
    contract_fxx_barrier(team);
    const int64_t taken = parts + blocks->team; /* each thread has asked once in vain */
    for (int64_t i = contract_fxx_next(team) - taken; i < panels; i = contract_fxx_next(team) - taken)
        contract_fxx_add_parts(team, parts, i);
}

/* Where the totals of a panel stand, between passes over k as well; NULL where all of k is one chain. */
static double *contract_fxx_totals(const struct contract_fxx_team *team,
                                   const struct contract_fxx_range *block, int64_t m, int64_t panel) {
    const struct contract_blocks *blocks = team->blocks;
    if (!blocks->chained) return NULL;
    if (blocks->passes == 1) return (double *)(team->own + blocks->totals);
    double *partial = (double *)(team->shared + blocks->partial);
    return partial + (panel * blocks->m_block + m - block->m) * team->choice->columns;
}

/* One task: some rows of the block, and the panels [panel, end) of the packed right operand. */
static void contract_fxx_task(const struct contract_fxx_team *team, const struct contract_fxx_range *block,
                              struct contract_fxx_range task, int64_t panel, int64_t end) {
    const FLOAT *right = (const FLOAT *)(team->shared + team->blocks->right);
    const intxx_t *least = (const intxx_t *)(team->shared + team->blocks->least);
    const int64_t width = team->choice->columns;
    FLOAT *tile = (FLOAT *)(team->own + team->blocks->tile);
    bool last = block->k + block->depth == team->blocks->depth;
    for (; panel < end; panel++) {
        task.n = block->n + panel * width;
        task.columns = contract_min(width, block->n + block->columns - task.n);
        double *totals = contract_fxx_totals(team, block, task.m, panel);
        struct contract_fxx_panel packed = {right + panel * width * block->depth, least[panel]};
        contract_fxx_chains(team, &task, packed, tile, totals);
        if (last && totals) contract_fxx_unfold(totals, task.rows * width, tile);
        if (last) contract_fxx_finish(team, &task, tile);
    }
}

/* The team packs the block's right operand together. Where its rows run along its columns, a panel is a line
 * of each row: neighbouring panels take turns, a few rows at a time. */
static void contract_fxx_pack_block(const struct contract_fxx_team *team,
                                    const struct contract_fxx_range *block) {
    const struct contract_blocks *blocks = team->blocks;
    FLOAT *right = (FLOAT *)(team->shared + blocks->right);
    intxx_t *least = (intxx_t *)(team->shared + blocks->least);
    const int64_t width = team->choice->columns, panels = contract_ceil(block->columns, width);
    const int64_t beside = team->product->right.along_k ? 1 : contract_max(1, team->choice->beside);
    const int64_t deep = contract_depth(team->choice, beside > 1 ? CONTRACT_BESIDE_DEPTH : block->depth);
    const int64_t end = panels * (team->rank + 1) / blocks->team;
    for (int64_t panel = panels * team->rank / blocks->team; panel < end; panel += beside) {
        const int64_t stop = contract_min(panel + beside, end);
        for (int64_t i = panel; i < stop; i++)
            least[i] = INT16_MAX;
        for (int64_t k = 0; k == 0 || k < block->depth; k += deep) {
            for (int64_t i = panel; i < stop; i++) {
                intxx_t found = contract_fxx_pack_right(team, block->n + i * width, block->k + k,
                                                        contract_min(deep, block->depth - k),
                                                        right + (i * block->depth + k) * width);
                if (found < least[i]) least[i] = found;
            }
        }
    }
}

/* How a block is shared out: groups of rows, of which the last ones, from `whole` on, are cut into parts of
 * their columns. */
struct contract_fxx_shares {
    int64_t groups, whole, parts;
};

/* Where there are many groups, those that come last are cut, so that threads come to the end together. */
static struct contract_fxx_shares contract_fxx_share(const struct contract_fxx_team *team,
                                                     const struct contract_fxx_range *block) {
    const int64_t threads = team->blocks->team, row_panels = contract_ceil(block->rows, team->choice->rows);
    const int64_t panels = contract_ceil(block->columns, team->choice->columns);
    int64_t groups = contract_ceil(block->rows, team->blocks->task_rows);
    if (groups < threads)
        return (struct contract_fxx_shares){groups, 0, contract_min(panels, contract_ceil(threads, groups))};
    groups = contract_min(row_panels, contract_round(groups, threads));
    const int64_t whole = threads > 1 && groups >= 4 * threads ? groups - threads : groups;
    return (struct contract_fxx_shares){groups, whole,
                                        contract_min(panels, contract_max(1, team->choice->parts))};
}

/* A block of the product: the team packs its right operand together, then shares its rows out. Parts of the
 * last groups come in turns, so that a thread mostly goes on with the rows that it has packed. */
static void contract_fxx_block(const struct contract_fxx_team *team, const struct contract_fxx_range *block) {
    const int64_t height = team->choice->rows, row_panels = contract_ceil(block->rows, height);
    const int64_t panels = contract_ceil(block->columns, team->choice->columns);
    const struct contract_fxx_shares shares = contract_fxx_share(team, block);
    const int64_t whole = shares.whole, cut = shares.groups - whole;
    contract_fxx_rewind(team);
    contract_fxx_pack_block(team, block);
    contract_fxx_barrier(team);
    int64_t packed = -1;
    struct contract_fxx_range task = *block;
    task.chunk = contract_fxx_chunk(team, task.depth);
    for (int64_t i = contract_fxx_next(team); i < whole + cut * shares.parts; i = contract_fxx_next(team)) {
        const int64_t group = i < whole ? i : whole + (i - whole) % cut;
        const int64_t part = i < whole ? 0 : (i - whole) / cut, parts = i < whole ? 1 : shares.parts;
        int64_t from = row_panels * group / shares.groups * height;
        int64_t to = contract_min(row_panels * (group + 1) / shares.groups * height, block->rows);
        task.m = block->m + from, task.rows = to - from;
        if (group != packed) task.least = contract_fxx_pack_left(team, task.m, task.rows, task.k, task.depth);
        packed = group;
        contract_fxx_task(team, block, task, panels * part / parts, panels * (part + 1) / parts);
    }
}

static void contract_fxx_blocks(const struct contract_fxx_team *team) {
    const struct contract_fxx *product = team->product;
    const struct contract_blocks *blocks = team->blocks;
    struct contract_fxx_range block = {0};
    for (block.n = 0; block.n < product->n; block.n += blocks->n_block) {
        block.columns = contract_min(blocks->n_block, product->n - block.n);
        for (block.m = 0; block.m < product->m; block.m += blocks->m_block) {
            block.rows = contract_min(blocks->m_block, product->m - block.m);
            for (block.k = 0; block.k == 0 || block.k < blocks->depth; block.k += blocks->k_block) {
                block.depth = contract_min(blocks->k_block, blocks->depth - block.k);
                if (block.n + block.m + block.k > 0) contract_fxx_barrier(team);
                contract_fxx_block(team, &block);
            }
        }
    }
}

/* ---- the whole ---- */

static void contract_fxx_thin(const struct contract_fxx_team *team);

static int64_t contract_fxx_limit(const struct contract_fxx *product, contract_fxx_limit_fn *limit,
                                  int64_t batch, int64_t most) {
    return limit ? contract_max(0, contract_min(limit(product->arguments, batch), most)) : most;
}

/* The product of a batch, as far as it goes. */
static struct contract_fxx contract_fxx_of_batch(const struct contract_fxx *product, int64_t batch,
                                                 bool swapped) {
    struct contract_fxx one = *product;
    one.n = contract_fxx_limit(product, product->columns, batch, product->n);
    one.k = contract_fxx_limit(product, product->depths, batch, product->k);
    if (swapped) {
        one.m = one.n, one.left = product->right;
        one.n = product->m, one.right = product->left;
    }
    return one;
}

/* Called by every thread of a parallel region. `scratch`: contract_blocks(choice, ...).bytes, aligned to 64.
 */
static void contract_fxx_run(const struct contract_fxx *product, const struct contract_fxx_unit *unit,
                             const struct contract_choice *choice, int64_t thread, int64_t threads,
                             char *scratch) {
    const struct contract_blocks blocks =
        contract_blocks(choice, product->batch, product->m, product->n, product->k, threads);
    if (blocks.bytes == 0) return;
    int64_t which = thread / blocks.team, rank = thread % blocks.team;
    char *shared = scratch + which * blocks.team_bytes;
    char *own = shared + blocks.threads + rank * blocks.thread_bytes;
    struct contract_fxx one;
    struct contract_blocks cut = blocks;
    struct contract_fxx_team team = {&one, unit, choice, &cut, which, rank, shared, own};
    for (; team.batch < product->batch; team.batch += blocks.teams) {
        one = contract_fxx_of_batch(product, team.batch, blocks.swapped);
        const int64_t depth = contract_depth(choice, contract_ceil(one.k, choice->together));
        cut.depth = contract_min(blocks.depth, depth);
        if (team.batch != which) contract_fxx_barrier(&team);
        if (blocks.thin)
            contract_fxx_thin(&team);
        else if (blocks.parts)
            contract_fxx_parts(&team);
        else if (blocks.just_in_time)
            contract_fxx_flat(&team);
        else
            contract_fxx_blocks(&team);
    }
}
