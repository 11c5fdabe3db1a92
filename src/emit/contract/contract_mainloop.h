/* The main loop of a matrix product: sum over k of left(batch, m, k) * right(batch, n, k), then whatever the
 * kernel does with the finished sums.
 *
 * In: a contract_f32 with three callbacks: two evaluate a block of an operand into memory, the third takes a
 * tile of finished sums. Out: each sum is handed to `finish` exactly once.
 *
 * Both operands are packed into panels, [panel][k][rows of the panel], whatever their layout and dtype. A
 * register tile of CONTRACT_F32_ROWS x CONTRACT_F32_VECTORS vectors walks down k; a chunk of the right
 * operand stays in L1 while all panels of the left operand's block pass by from L2; the sums of that block
 * and one panel stay in a tile near L1 until k is done.
 *
 * The emitter makes the f64 version of this text by renaming, and defines CONTRACT_F32_ROWS and
 * CONTRACT_F32_VECTORS before it.
 */
typedef float contract_f32_vector __attribute__((vector_size(4 * HR_LANES)));
typedef float contract_f32_loose
    __attribute__((vector_size(4 * HR_LANES), aligned(sizeof(float)), may_alias));
typedef int32_t contract_f32_mask __attribute__((vector_size(4 * HR_LANES)));

enum {
    CONTRACT_F32_LANES = sizeof(contract_f32_vector) / sizeof(float),
    CONTRACT_F32_COLUMNS = CONTRACT_F32_VECTORS * CONTRACT_F32_LANES
};

struct arguments; /* of the kernel: the callbacks read its arrays */

/* Evaluates rows [row, row + rows) x [k, k + depth) of an operand. Along k: to[i * stride + j] is row i at
 * depth j; otherwise to[j * stride + i]. */
typedef void contract_f32_fill_fn(const struct arguments *arguments, int64_t batch, int64_t row, int64_t rows,
                                  int64_t k, int64_t depth, float *to, int64_t stride);
/* Takes the sums of rows [m, m + rows) x columns [n, n + columns); sum (i, j) is tile[i * stride + j]. */
typedef void contract_f32_finish_fn(const struct arguments *arguments, int64_t batch, int64_t m, int64_t rows,
                                    int64_t n, int64_t columns, const float *tile, int64_t stride);

struct contract_f32_operand {
    contract_f32_fill_fn *fill;
    bool along_k; /* its vectors run along k and are turned while packing */
};

struct contract_f32 {
    int64_t batch, m, n, k;
    struct contract_f32_operand left, right;
    contract_f32_finish_fn *finish;
    const struct arguments *arguments;
};

/* One product as its team of threads sees it. */
struct contract_f32_team {
    const struct contract_f32 *product;
    const struct contract_choice *choice;
    const struct contract_blocks *blocks;
    int64_t batch, rank;
    char *shared, *own; /* this team's and this thread's memory */
};

/* ---- packing ---- */

#if defined __clang__ || __GNUC__ >= 12
#define CONTRACT_F32_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CONTRACT_F32_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (contract_f32_mask){__VA_ARGS__})
#endif
#if HR_LANES == 16
#define CONTRACT_F32_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define CONTRACT_F32_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif HR_LANES == 8
#define CONTRACT_F32_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define CONTRACT_F32_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif HR_LANES == 4
#define CONTRACT_F32_LOW  0, 4, 1, 5
#define CONTRACT_F32_HIGH 2, 6, 3, 7
#else
#define CONTRACT_F32_LOW  0, 2
#define CONTRACT_F32_HIGH 1, 3
#endif

/* Turns a square of vectors: log2(lanes) perfect shuffles of the rows. */
static inline __attribute__((always_inline)) void contract_f32_turn(contract_f32_vector square[]) {
    contract_f32_vector mixed[CONTRACT_F32_LANES];
    CONTRACT_UNROLL for (int round = 1; round < CONTRACT_F32_LANES; round *= 2) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES / 2; i++) {
            contract_f32_vector a = square[i], b = square[i + CONTRACT_F32_LANES / 2];
            mixed[2 * i] = CONTRACT_F32_SHUFFLE(a, b, CONTRACT_F32_LOW);
            mixed[2 * i + 1] = CONTRACT_F32_SHUFFLE(a, b, CONTRACT_F32_HIGH);
        }
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) square[i] = mixed[i];
    }
}

/* lines[i * CONTRACT_LINE + j], i < lanes, j < depth -> to[j * width + i], i < count. */
static inline __attribute__((always_inline)) void contract_f32_turn_lines(const float *lines, int64_t depth,
                                                                          int count, int width, float *to) {
    contract_f32_vector square[CONTRACT_F32_LANES];
    for (int64_t k = 0; k < depth; k += CONTRACT_F32_LANES) {
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) {
            square[i] = *(const contract_f32_loose *)(lines + i * CONTRACT_LINE + k);
        }
        contract_f32_turn(square);
        CONTRACT_UNROLL for (int i = 0; i < CONTRACT_F32_LANES; i++) {
            if (k + i < depth) {
                __builtin_memcpy(to + (k + i) * width, &square[i], (size_t)count * sizeof(float));
            }
        }
    }
}

/* A panel: to[j * width + i] is row i at depth j; rows past `rows` are 0. */
static inline __attribute__((always_inline)) void
contract_f32_pack(const struct contract_f32_team *team, const struct contract_f32_operand *operand,
                  int64_t row, int64_t rows, int64_t k, int64_t depth, int width, float *to) {
    const struct arguments *arguments = team->product->arguments;
    if (!operand->along_k) {
        operand->fill(arguments, team->batch, row, rows, k, depth, to, width);
        if (rows == width) return;
        for (int64_t j = 0; j < depth; j++) {
            for (int64_t i = rows; i < width; i++)
                to[j * width + i] = 0;
        }
        return;
    }
    float *lines = (float *)(team->own + team->blocks->lines);
    for (int i = 0; i < width; i += CONTRACT_F32_LANES) {
        int64_t there = contract_max(0, contract_min(CONTRACT_F32_LANES, rows - i));
        for (int64_t line = there; line < CONTRACT_F32_LANES; line++) {
            for (int64_t j = 0; j < CONTRACT_STRIP; j++)
                lines[line * CONTRACT_LINE + j] = 0;
        }
        for (int64_t j = 0; j < depth; j += CONTRACT_STRIP) {
            int64_t strip = contract_min(CONTRACT_STRIP, depth - j);
            if (there)
                operand->fill(arguments, team->batch, row + i, there, k + j, strip, lines, CONTRACT_LINE);
            float *corner = to + j * width + i;
            if (i + CONTRACT_F32_LANES <= width)
                contract_f32_turn_lines(lines, strip, CONTRACT_F32_LANES, width, corner);
            else
                contract_f32_turn_lines(lines, strip, width % CONTRACT_F32_LANES, width, corner);
        }
    }
}

/* How deep the chunks of a block are: even, so that none is short. */
static int64_t contract_f32_chunk(const struct contract_f32_team *team, int64_t depth) {
    int64_t chunks = contract_max(1, contract_ceil(depth, team->choice->depth));
    return contract_max(1, contract_ceil(depth, chunks));
}

/* [chunk][panel][k][row], the order in which the block is read. */
static __attribute__((noinline)) void contract_f32_pack_left(const struct contract_f32_team *team,
                                                             int64_t row, int64_t rows, int64_t k,
                                                             int64_t depth) {
    float *to = (float *)(team->own + team->blocks->left);
    int64_t chunk = contract_f32_chunk(team, depth);
    for (int64_t j = 0; j < depth; j += chunk) {
        int64_t deep = contract_min(chunk, depth - j);
        for (int64_t i = 0; i < rows; i += CONTRACT_F32_ROWS) {
            contract_f32_pack(team, &team->product->left, row + i, contract_min(CONTRACT_F32_ROWS, rows - i),
                              k + j, deep, CONTRACT_F32_ROWS, to);
            to += deep * CONTRACT_F32_ROWS;
        }
    }
}

static __attribute__((noinline)) void contract_f32_pack_right(const struct contract_f32_team *team,
                                                              int64_t column, int64_t k, int64_t depth,
                                                              float *to) {
    int64_t columns = contract_min(CONTRACT_F32_COLUMNS, team->product->n - column);
    contract_f32_pack(team, &team->product->right, column, columns, k, depth, CONTRACT_F32_COLUMNS, to);
}

/* ---- the register tile ---- */

/* tile += left panel * right chunk for `rows` x `vectors`, both known where this is inlined. While it runs it
 * asks for the next chunk, `step` bytes a step of k. */
static inline __attribute__((always_inline)) void
contract_f32_multiply(int rows, int vectors, bool first, int64_t depth, const float *restrict left,
                      const float *restrict right, float *restrict tile, const char *ahead, int64_t step) {
    contract_f32_vector sum[CONTRACT_F32_ROWS][CONTRACT_F32_VECTORS];
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            const float *from = tile + i * CONTRACT_F32_COLUMNS + j * CONTRACT_F32_LANES;
            sum[i][j] = first ? (contract_f32_vector){0} : *(const contract_f32_vector *)from;
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        contract_f32_vector column[CONTRACT_F32_VECTORS];
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            column[j] = *(const contract_f32_vector *)(right + j * CONTRACT_F32_LANES);
        }
        __builtin_prefetch(ahead, 0, 2);
        CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
            contract_f32_vector row = left[i] - (contract_f32_vector){0};
            CONTRACT_UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += row * column[j];
        }
        left += CONTRACT_F32_ROWS;
        right += CONTRACT_F32_COLUMNS;
        ahead += step;
    }
    CONTRACT_UNROLL for (int i = 0; i < rows; i++) {
        CONTRACT_UNROLL for (int j = 0; j < vectors; j++) {
            float *to = tile + i * CONTRACT_F32_COLUMNS + j * CONTRACT_F32_LANES;
            *(contract_f32_vector *)to = sum[i][j];
        }
    }
}

/* Ragged ends use a smaller tile of registers: half the rows or one, and one vector. */
static __attribute__((noinline)) void contract_f32_tile(int64_t rows, int64_t columns, bool first,
                                                        int64_t depth, const float *left, const float *right,
                                                        float *tile, const char *ahead, int64_t step) {
    enum { ROWS = CONTRACT_F32_ROWS, HALF = (ROWS + 1) / 2, VECTORS = CONTRACT_F32_VECTORS };
    if (columns > CONTRACT_F32_LANES) {
        if (rows > HALF)
            contract_f32_multiply(ROWS, VECTORS, first, depth, left, right, tile, ahead, step);
        else if (rows > 1)
            contract_f32_multiply(HALF, VECTORS, first, depth, left, right, tile, ahead, step);
        else
            contract_f32_multiply(1, VECTORS, first, depth, left, right, tile, ahead, step);
    } else {
        if (rows > HALF)
            contract_f32_multiply(ROWS, 1, first, depth, left, right, tile, ahead, step);
        else if (rows > 1)
            contract_f32_multiply(HALF, 1, first, depth, left, right, tile, ahead, step);
        else
            contract_f32_multiply(1, 1, first, depth, left, right, tile, ahead, step);
    }
}

/* ---- blocks ---- */

struct contract_f32_range {
    int64_t m, rows, n, columns, k, depth;
};

/* The packed left block times one panel of the right operand, into the thread's tile. `right` is the packed
 * panel, or NULL to pack it here, a chunk at a time. */
static void contract_f32_panel(const struct contract_f32_team *team, const struct contract_f32_range *range,
                               bool first, const float *right, float *tile) {
    const float *left = (const float *)(team->own + team->blocks->left);
    int64_t panels = contract_ceil(range->rows, CONTRACT_F32_ROWS);
    int64_t chunk = contract_f32_chunk(team, range->depth);
    int64_t line = CONTRACT_F32_COLUMNS * (int64_t)sizeof(float);
    int64_t step = right ? contract_ceil(line, panels * 8) * 8 : 0;
    for (int64_t k = 0; k == 0 || k < range->depth; k += chunk) {
        int64_t depth = contract_min(chunk, range->depth - k);
        const float *columns = right ? right + k * CONTRACT_F32_COLUMNS : (float *)team->own;
        if (!right) contract_f32_pack_right(team, range->n, range->k + k, depth, (float *)team->own);
        const char *ahead = (const char *)columns + (right ? depth * line : 0);
        for (int64_t i = 0; i < range->rows; i += CONTRACT_F32_ROWS) {
            contract_f32_tile(range->rows - i, range->columns, first && k == 0, depth, left, columns,
                              tile + i * CONTRACT_F32_COLUMNS, ahead, step);
            left += depth * CONTRACT_F32_ROWS;
            ahead += depth * step;
        }
    }
}

/* Of a turned product the tile's rows are columns; its few rows fit the transposition's buffer. */
static void contract_f32_finish(const struct contract_f32_team *team, const struct contract_f32_range *range,
                                const float *tile) {
    const struct contract_f32 *product = team->product;
    if (!team->blocks->turned) {
        product->finish(product->arguments, team->batch, range->m, range->rows, range->n, range->columns,
                        tile, CONTRACT_F32_COLUMNS);
        return;
    }
    float *sums = (float *)(team->own + team->blocks->lines);
    for (int64_t i = 0; i < range->columns; i++) {
        for (int64_t j = 0; j < range->rows; j++) {
            sums[i * CONTRACT_TURNED_MAX + j] = tile[j * CONTRACT_F32_COLUMNS + i];
        }
    }
    product->finish(product->arguments, team->batch, range->n, range->columns, range->m, range->rows, sums,
                    CONTRACT_TURNED_MAX);
}

/* ---- the team: tasks are taken one by one, because threads are never equally fast ---- */

static void contract_f32_rewind(const struct contract_f32_team *team) {
    if (team->rank == 0) __atomic_store_n((int64_t *)team->shared, 0, __ATOMIC_RELAXED);
}

static int64_t contract_f32_next(const struct contract_f32_team *team) {
    return __atomic_fetch_add((int64_t *)team->shared, 1, __ATOMIC_RELAXED);
}

/* Returns when all threads of the team have come. */
static void contract_f32_meet(const struct contract_f32_team *team) {
    if (team->blocks->team == 1) return;
#ifdef _OPENMP
#pragma omp barrier
#endif
}

/* Few rows: every thread holds the whole left operand and takes panels of the right one. */
static void contract_f32_flat(const struct contract_f32_team *team) {
    const struct contract_f32 *product = team->product;
    float *tile = (float *)(team->own + team->blocks->tile);
    contract_f32_rewind(team);
    contract_f32_pack_left(team, 0, product->m, 0, product->k);
    contract_f32_meet(team);
    int64_t panels = contract_ceil(product->n, CONTRACT_F32_COLUMNS);
    for (int64_t panel = contract_f32_next(team); panel < panels; panel = contract_f32_next(team)) {
        int64_t n = panel * CONTRACT_F32_COLUMNS;
        struct contract_f32_range range = {
            0, product->m, n, contract_min(CONTRACT_F32_COLUMNS, product->n - n), 0, product->k};
        contract_f32_panel(team, &range, true, NULL, tile);
        contract_f32_finish(team, &range, tile);
    }
}

/* Where the sums of a panel are kept between passes over k; the tile itself where one pass is all. */
static float *contract_f32_sums(const struct contract_f32_team *team, const struct contract_f32_range *block,
                                int64_t m, int64_t panel) {
    const struct contract_blocks *blocks = team->blocks;
    if (blocks->passes == 1) return (float *)(team->own + blocks->tile);
    float *partial = (float *)(team->shared + blocks->partial);
    return partial + (panel * blocks->m_block + m - block->m) * CONTRACT_F32_COLUMNS;
}

/* One task: some rows of the block, and the panels [panel, end) of the packed right operand. */
static void contract_f32_task(const struct contract_f32_team *team, const struct contract_f32_range *block,
                              struct contract_f32_range task, int64_t panel, int64_t end) {
    const float *right = (const float *)(team->shared + team->blocks->right);
    bool last = block->k + block->depth == team->product->k;
    for (; panel < end; panel++) {
        task.n = block->n + panel * CONTRACT_F32_COLUMNS;
        task.columns = contract_min(CONTRACT_F32_COLUMNS, block->n + block->columns - task.n);
        float *sums = contract_f32_sums(team, block, task.m, panel);
        contract_f32_panel(team, &task, block->k == 0, right + panel * CONTRACT_F32_COLUMNS * block->depth,
                           sums);
        if (last) contract_f32_finish(team, &task, sums);
    }
}

/* A block of the product: the team packs its right operand together, then shares its rows out. */
static void contract_f32_block(const struct contract_f32_team *team, const struct contract_f32_range *block) {
    const struct contract_blocks *blocks = team->blocks;
    float *right = (float *)(team->shared + blocks->right);
    int64_t panels = contract_ceil(block->columns, CONTRACT_F32_COLUMNS);
    contract_f32_rewind(team);
    for (int64_t panel = team->rank; panel < panels; panel += blocks->team) {
        contract_f32_pack_right(team, block->n + panel * CONTRACT_F32_COLUMNS, block->k, block->depth,
                                right + panel * CONTRACT_F32_COLUMNS * block->depth);
    }
    contract_f32_meet(team);
    int64_t row_panels = contract_ceil(block->rows, CONTRACT_F32_ROWS);
    int64_t groups = contract_ceil(block->rows, blocks->task_rows), splits = 1;
    if (groups >= blocks->team)
        groups = contract_min(row_panels, contract_round(groups, blocks->team));
    else
        splits = contract_min(panels, contract_ceil(blocks->team, groups));
    int64_t packed = -1;
    struct contract_f32_range task = *block;
    for (int64_t i = contract_f32_next(team); i < groups * splits; i = contract_f32_next(team)) {
        int64_t group = i / splits, split = i % splits;
        int64_t from = row_panels * group / groups * CONTRACT_F32_ROWS;
        int64_t to = contract_min(row_panels * (group + 1) / groups * CONTRACT_F32_ROWS, block->rows);
        task.m = block->m + from, task.rows = to - from;
        if (group != packed) contract_f32_pack_left(team, task.m, task.rows, task.k, task.depth);
        packed = group;
        contract_f32_task(team, block, task, panels * split / splits, panels * (split + 1) / splits);
    }
}

static void contract_f32_blocks(const struct contract_f32_team *team) {
    const struct contract_f32 *product = team->product;
    const struct contract_blocks *blocks = team->blocks;
    struct contract_f32_range block;
    for (block.n = 0; block.n < product->n; block.n += blocks->n_block) {
        block.columns = contract_min(blocks->n_block, product->n - block.n);
        for (block.m = 0; block.m < product->m; block.m += blocks->m_block) {
            block.rows = contract_min(blocks->m_block, product->m - block.m);
            for (block.k = 0; block.k == 0 || block.k < product->k; block.k += blocks->k_block) {
                block.depth = contract_min(blocks->k_block, product->k - block.k);
                if (block.n + block.m + block.k > 0) contract_f32_meet(team);
                contract_f32_block(team, &block);
            }
        }
    }
}

/* ---- the whole ---- */

/* Called by every thread of a parallel region. `scratch`: contract_blocks(choice, ...).bytes, aligned to 64.
 */
static void contract_f32_run(const struct contract_f32 *product, const struct contract_choice *choice,
                             int64_t thread, int64_t threads, char *scratch) {
    const struct contract_blocks blocks =
        contract_blocks(choice, product->batch, product->m, product->n, product->k, threads);
    if (blocks.bytes == 0) return;
    int64_t which = thread / blocks.team, rank = thread % blocks.team;
    char *shared = scratch + which * blocks.team_bytes;
    char *own = shared + blocks.threads + rank * blocks.thread_bytes;
    struct contract_f32 turned = *product;
    if (blocks.turned) {
        turned.m = product->n, turned.left = product->right;
        turned.n = product->m, turned.right = product->left;
    }
    struct contract_f32_team team = {&turned, choice, &blocks, which, rank, shared, own};
    for (; team.batch < product->batch; team.batch += blocks.teams) {
        if (team.batch != which) contract_f32_meet(&team);
        if (blocks.just_in_time)
            contract_f32_flat(&team);
        else
            contract_f32_blocks(&team);
    }
}
