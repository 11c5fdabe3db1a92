/* How products with rows between them are cut: blocks of rows that go through all, and where each piece lies
 * in the scratch memory.
 *
 * In: their sizes and the choices of a plan. Out: the rows of a block, byte offsets and the total. The
 * library and the emitted code include this one text, so both lay the scratch out alike.
 *
 * A team of threads packs the right operands of all products of a batch (keys and values) whole. Then each
 * of its threads takes blocks of rows (of queries) through the first products, the rows between and the
 * last ones, which sum over the columns of the first.
 */
enum { CONTRACT_ATTEND_PRODUCTS = 4 };

struct contract_attend_sizes {
    int64_t batch, m;                            /* of all products */
    int64_t row;                                 /* bytes of all that stands between the products for a row */
    int64_t area;                                /* bytes of a thread for the rows between */
    int64_t cache;                               /* bytes that a block's rows may take */
    int64_t count;                               /* of products */
    int64_t shape[2 * CONTRACT_ATTEND_PRODUCTS]; /* n and k of each */
};

struct contract_attend_blocks {
    int64_t teams, team; /* batches at a time, threads a batch */
    int64_t rows, count; /* of a block, and how many of those a batch has */
    /* `right` and `least` within what a team shares, others a thread's */
    struct contract_blocks product[CONTRACT_ATTEND_PRODUCTS];
    int64_t shared[CONTRACT_ATTEND_PRODUCTS]; /* byte offsets in a team's memory */
    int64_t threads;                          /* the same */
    int64_t area, between;                    /* byte offsets in a thread's memory */
    int64_t team_bytes, thread_bytes, bytes;
};

enum {
    CONTRACT_KEPT_DEPTH = 512,        /* elements along k of the left operand that are packed at a time */
    CONTRACT_ATTEND_BYTES = 16 << 20, /* of right operands, up to which each thread takes batches alone */
    CONTRACT_ATTEND_PANELS = 4,       /* of the left operand: rows are multiples of these */
    CONTRACT_ATTEND_ROWS = 64,        /* of a block, at most: more gain nothing, and cost where masks end */
    CONTRACT_ATTEND_STEP = 32,        /* of what a mask leaves: whole steps of all units */
    CONTRACT_ATTEND_LOOKED = 512,     /* keys from which on it pays to look at a mask's ends */
};

/* A product whose right operand stays packed while blocks of so many rows go by, each by one thread. */
static inline struct contract_blocks contract_blocks_kept(const struct contract_choice *choice, int64_t rows,
                                                          int64_t n, int64_t k, int64_t team) {
    const int64_t line = 64, element = choice->element;
    struct contract_blocks blocks = {.teams = 1, .team = team};
    blocks.depth = contract_round(contract_ceil(k, choice->together), choice->step);
    blocks.k_block = contract_depth(choice, contract_min(blocks.depth, CONTRACT_KEPT_DEPTH));
    blocks.passes = contract_max(1, contract_ceil(blocks.depth, blocks.k_block));
    blocks.chained = blocks.depth > contract_chain(choice);
    blocks.n_block = contract_round(n, choice->columns);
    blocks.m_block = blocks.task_rows = contract_round(rows, choice->rows);
    const int64_t panels = blocks.n_block / choice->columns, tiles = blocks.passes > 1 ? panels : 1;
    blocks.least = contract_round(blocks.n_block * blocks.depth * element, line);
    blocks.team_bytes = blocks.least + contract_round(panels * element, line);
    blocks.tile = contract_round(blocks.task_rows * blocks.k_block * element, line);
    blocks.lines = blocks.tile + contract_round(tiles * blocks.task_rows * choice->columns * element, line);
    blocks.totals = blocks.lines + contract_round(CONTRACT_LANES_MAX * CONTRACT_LINE * element, line);
    const int64_t totals = blocks.chained ? tiles * blocks.task_rows * choice->columns : 0;
    blocks.thread_bytes = blocks.totals + totals * (int64_t)sizeof(double);
    return blocks;
}

/* As many rows as the cache has room for, but some blocks for each thread. */
static inline int64_t contract_attend_rows(const struct contract_attend_sizes *sizes, int64_t panels,
                                           int64_t threads) {
    const int64_t unit = CONTRACT_ATTEND_PANELS * panels, row = contract_max(sizes->row, 1);
    const int64_t share = contract_ceil(sizes->batch * sizes->m, 4 * threads);
    int64_t rows = contract_min(sizes->cache / row, CONTRACT_ATTEND_ROWS);
    rows = contract_min(rows, contract_round(share, unit)) / unit * unit;
    return contract_min(contract_max(rows, unit), contract_max(sizes->m, 1));
}

static inline struct contract_attend_blocks
contract_attend_blocks(const struct contract_attend_sizes *sizes,
                       const struct contract_choice *const *choices, int64_t threads) {
    const int64_t line = 64, products = sizes->count;
    struct contract_attend_blocks blocks = {0};
    int64_t packed = 0;
    for (int64_t i = 0; i < products; i++)
        packed += sizes->shape[2 * i] * sizes->shape[2 * i + 1] / choices[i]->together * choices[i]->element;
    blocks.rows = contract_attend_rows(sizes, choices[products - 1]->rows, threads);
    blocks.count = contract_ceil(sizes->m, blocks.rows);
    const bool even = sizes->batch >= 4 * threads || sizes->batch % threads == 0;
    const bool apart = even && packed * threads <= CONTRACT_ATTEND_BYTES;
    blocks.teams = apart ? threads : 1;
    blocks.team = apart ? 1 : threads;
    int64_t shared = line; /* the team's task counter lies before the first */
    for (int64_t i = 0; i < products; i++) {
        struct contract_blocks *of = &blocks.product[i];
        *of = contract_blocks_kept(choices[i], blocks.rows, sizes->shape[2 * i], sizes->shape[2 * i + 1],
                                   blocks.team);
        blocks.shared[i] = shared;
        shared += of->team_bytes;
        /* The products of a thread do not work at a time. */
        blocks.area = contract_max(blocks.area, contract_round(of->thread_bytes, line));
    }
    blocks.threads = contract_round(shared, 4096);
    blocks.between = blocks.area + contract_round(sizes->area, line);
    const int64_t end = blocks.between + contract_round(blocks.rows * sizes->row, line);
    blocks.thread_bytes =
        contract_round(end, 4096) + 2 * line; /* an offset, so that threads differ in sets */
    blocks.team_bytes = blocks.threads + blocks.team * blocks.thread_bytes;
    blocks.bytes = blocks.teams * blocks.team_bytes;
    return blocks;
}

/* Enough for any number of threads up to `threads`, whichever of its two choices a product takes. */
static inline int64_t contract_attend_bytes(const struct contract_attend_sizes *sizes,
                                            const struct contract_choice *const (*choices)[2],
                                            int64_t threads) {
    int64_t bytes = 0;
    for (int64_t way = 0; way < (int64_t)1 << sizes->count; way++) {
        const struct contract_choice *chosen[CONTRACT_ATTEND_PRODUCTS];
        for (int64_t i = 0; i < sizes->count; i++)
            chosen[i] = choices[i][way >> i & 1];
        for (int64_t count = 1; count <= threads; count++)
            bytes = contract_max(bytes, contract_attend_blocks(sizes, chosen, count).bytes);
    }
    return bytes;
}
