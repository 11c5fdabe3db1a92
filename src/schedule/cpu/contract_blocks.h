/* How one matrix product is cut: threads, cache blocks, and where each piece lies in the scratch memory.
 *
 * In: the sizes of a product and the choices of a plan. Out: block sizes, byte offsets and the total. The
 * library and the emitted code include this one text, so both lay the scratch out alike.
 *
 * The right operand is packed for all of a block's depth and shared by a team of threads; the left operand is
 * packed a task at a time into the L2 cache of the thread that multiplies it. A product with few rows packs
 * the right operand just in time instead, a chunk that stays in L1, because nobody else would use it again.
 */
/* CONTRACT_UNROLL stands before loops whose trip count is known where they are inlined: their arrays become
 * registers. CONTRACT_UNROLL_STEPS stands before a loop of unknown length: gcc does that after it has chosen
 * registers; steps that are written out spill. More than 8 push each other out of the decoded instructions.
 */
#ifdef __clang__
#define CONTRACT_UNROLL       _Pragma("clang loop unroll(full)")
#define CONTRACT_UNROLL_STEPS _Pragma("clang loop unroll_count(8)")
#else
#define CONTRACT_UNROLL       _Pragma("GCC unroll 32")
#define CONTRACT_UNROLL_STEPS _Pragma("GCC unroll 8")
#endif

struct contract_choice {
    int64_t element;        /* bytes of a packed element */
    int64_t rows, columns;  /* of the register tile */
    int64_t depth;          /* of a chunk: depth * columns elements of the right operand stay in L1 */
    int64_t left_bytes;     /* of the left operand's block, in L2 */
    int64_t right_bytes;    /* of the right operand's blocks of all teams, in L3 */
    int64_t flat_bytes;     /* of all threads' copies of a whole left operand, in L3 */
    int64_t task_rows;      /* of the left operand that a thread packs at once, where they fit left_bytes */
    int64_t tile_m, tile_n; /* 0 = from the bytes above */
    int64_t together;       /* neighbours along k in a packed element: depths count packed elements */
    int64_t step;           /* of the register tile along k: depths are multiples of it */
    int64_t group_rows;     /* of the left operand, for which most of the work is to read the right one */
    int64_t beside;         /* panels of the right operand that are packed side by side */
    int64_t parts;          /* of each of the last groups of rows that threads take */
    int64_t thin_m;         /* so few rows leave the right operand, which lies along k, in its place */
    int64_t thin_n;         /* so few columns the left one */
};

struct contract_blocks {
    bool swapped;        /* m and n changed places: the sums are those of the transposed product */
    int64_t teams, team; /* products at a time, threads a product */
    bool just_in_time;   /* the right operand is packed by the thread that uses it */
    bool thin;           /* the right operand is not packed */
    int64_t parts;       /* of k, which threads take one by one; 0 = each sum is one thread's */
    int64_t stride;      /* then: elements from one row of the left operand to the next */
    int64_t group; /* then: so many of its panels may be taken side by side, a few rows of k at a time */
    int64_t m_block, n_block, k_block;      /* of a pass; partial sums are kept between passes over k */
    int64_t depth, passes;                  /* of all of k, and how many times k_block it is */
    bool chained;                           /* it is more than a chain: sums have totals in f64 */
    int64_t task_rows;                      /* rows of the left operand that a thread packs at once */
    int64_t right, least, partial, threads; /* byte offsets in a team's memory */
    int64_t left, tile, lines, totals;      /* byte offsets in a thread's memory */
    int64_t team_bytes, thread_bytes, bytes;
};

enum {
    CONTRACT_DEPTH_MAX = 3072,         /* deeper products are added up in several passes */
    CONTRACT_CHAIN = 1024,             /* addends along k of a sum of f32, before a total takes it */
    CONTRACT_ROWS_MAX = 256,           /* of a task: its tile of sums stays near L1 */
    CONTRACT_FLAT_MAX = 512,           /* of a product whose left operand each thread holds */
    CONTRACT_LINE = 144,               /* elements a line of the transposition's buffer: 128 and an offset */
    CONTRACT_STRIP = 128,              /* elements of a line in use */
    CONTRACT_SWAPPED_MAX = 16,         /* columns of a product that is swapped */
    CONTRACT_GROUP_MAX = 16,           /* panels of the right operand side by side: lines of its rows */
    CONTRACT_GROUP_DEPTH = 32,         /* of k at a time */
    CONTRACT_PARTS_COLUMNS = 512,      /* of a product whose k is in parts: of more there are panels enough */
    CONTRACT_PARTS_LEAST = 4,          /* of k, */
    CONTRACT_PARTS_BYTES = 1 << 20,    /* whose sums are kept till all are there; of a part's left operand */
    CONTRACT_BESIDE_DEPTH = 8,         /* of k at a time, where panels are packed side by side */
    CONTRACT_LANES_MAX = 16,           /* lines of that buffer */
    CONTRACT_PARTIAL_BYTES = 16 << 20, /* of partial sums */
    CONTRACT_AHEAD_ALONG = 512,        /* what packing prefetches: the next chunk of the same row */
    CONTRACT_AHEAD_PAIRS = 128,        /* of pairs: the next strip */
    CONTRACT_MEETING = 1000,           /* products that one thread makes while it would wait for each other */
    CONTRACT_AHEAD_ACROSS = 64,        /* and rows that many on, which lie apart */
    CONTRACT_THIN_ROWS = 4,            /* of the right operand at a time, where it is not packed */
    CONTRACT_THIN_DEPTH = 512,         /* elements along k of them */
    CONTRACT_THIN_AHEAD = 1024,        /* prefetched while those before are multiplied */
    CONTRACT_THIN_STRIDE = CONTRACT_THIN_DEPTH + 16, /* rows that lie apart by more than a cache's sets */
};

static inline int64_t contract_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t contract_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t contract_ceil(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline int64_t contract_round(int64_t a, int64_t unit) {
    return contract_ceil(a, unit) * unit;
}

/* Depths after which a total in f64 takes what the sums have come to. Units of packed neighbours take half as
 * long for each, or far less: of them no more than a block's. */
static inline int64_t contract_chain(const struct contract_choice *choice) {
    return choice->together > 1 ? CONTRACT_DEPTH_MAX : CONTRACT_CHAIN;
}

/* The left operand, evaluated whole; sums of a panel of the right one; and some of its rows at a time, or
 * sums that are swapped. */
static inline void contract_blocks_thin(struct contract_blocks *blocks, const struct contract_choice *choice,
                                        int64_t rows, int64_t k) {
    const int64_t line = 64, element = choice->element;
    blocks->stride = contract_round(k, 16) + 16;
    blocks->threads = line; /* the team's task counter lies before it */
    blocks->tile = contract_round(rows * blocks->stride * element, line);
    blocks->lines = blocks->tile + contract_round(rows * choice->columns * element, line);
    const int64_t lines =
        contract_max(CONTRACT_THIN_ROWS * CONTRACT_THIN_STRIDE, choice->columns * CONTRACT_SWAPPED_MAX);
    blocks->thread_bytes = contract_round(blocks->lines + lines * element, 4096) + 2 * line;
    blocks->team_bytes = blocks->threads + blocks->team * blocks->thread_bytes;
    blocks->bytes = blocks->teams * blocks->team_bytes;
}

static inline void contract_blocks_offsets(struct contract_blocks *blocks,
                                           const struct contract_choice *choice) {
    const int64_t line = 64, element = choice->element;
    int64_t right = blocks->just_in_time ? 0 : blocks->n_block * blocks->k_block;
    int64_t panels = blocks->n_block / choice->columns;
    int64_t partial = blocks->passes > 1 ? blocks->m_block * blocks->n_block * (int64_t)sizeof(double) : 0;
    if (blocks->parts) partial = blocks->parts * blocks->task_rows * blocks->n_block * element;
    int64_t chunk = blocks->just_in_time ? choice->columns * choice->depth : 0;
    blocks->right = line; /* the team's task counter lies before it */
    blocks->least = blocks->right + contract_round(right * element, line);
    blocks->partial = blocks->least + contract_round(panels * element, line);
    blocks->threads = blocks->partial + contract_round(partial, line);
    blocks->left = contract_round(chunk * element, line); /* a chunk packed just in time lies before it */
    blocks->tile = blocks->left + contract_round(blocks->task_rows * blocks->k_block * element, line);
    const int64_t tiles = contract_max(blocks->group, 1);
    blocks->lines =
        blocks->tile + contract_round(tiles * blocks->task_rows * choice->columns * element, line);
    blocks->totals = blocks->lines + contract_round(CONTRACT_LANES_MAX * CONTRACT_LINE * element, line);
    const int64_t totals = blocks->chained && blocks->passes == 1 ? tiles * blocks->task_rows : 0;
    const int64_t end = blocks->totals + totals * choice->columns * (int64_t)sizeof(double);
    blocks->thread_bytes =
        contract_round(end, 4096) + 2 * line; /* an offset, so that threads differ in sets */
    blocks->team_bytes = blocks->threads + blocks->team * blocks->thread_bytes;
    blocks->bytes = blocks->teams * blocks->team_bytes;
}

/* A product of few rows is worth no shared copy of the right operand: each thread holds all of the left one,
 * in its own cache or, of far fewer rows than columns, in its share of the last. */
static inline bool contract_is_flat(const struct contract_choice *choice, int64_t rows, int64_t columns,
                                    int64_t depth, int64_t threads) {
    const double bytes = (double)rows * (double)depth * (double)choice->element;
    if (rows <= CONTRACT_ROWS_MAX && bytes <= 2.0 * (double)choice->left_bytes) return true;
    return rows <= CONTRACT_FLAT_MAX && columns >= 4 * rows &&
           bytes * (double)threads <= (double)choice->flat_bytes;
}

/* A few columns would leave most lanes of the register tile idle; as rows they are the flat product's. */
static inline bool contract_is_tall(int64_t m, int64_t n) {
    return n <= CONTRACT_SWAPPED_MAX && m >= 4 * n;
}

/* Long sums of few rows and columns leave most threads without one: of values that few queries weigh, say.
 * Parts of k do not depend on threads, so that sums do not. */
static inline int64_t contract_parts(const struct contract_choice *choice, int64_t rows, int64_t columns,
                                     int64_t depth) {
    const int64_t sums = contract_round(rows, choice->rows) * contract_round(columns, choice->columns);
    const int64_t most = CONTRACT_PARTS_BYTES / (sums * choice->element);
    const int64_t parts = contract_min(contract_ceil(depth, contract_chain(choice)), most);
    const bool few = rows <= CONTRACT_SWAPPED_MAX && columns <= CONTRACT_PARTS_COLUMNS;
    if (!few || parts < CONTRACT_PARTS_LEAST) return 0;
    /* A thread packs the left operand's share of a part. */
    const int64_t left = contract_round(rows, choice->rows) * contract_ceil(depth, parts) * choice->element;
    return left <= CONTRACT_PARTS_BYTES ? parts : 0;
}

/* At least one step of the register tile. */
static inline int64_t contract_depth(const struct contract_choice *choice, int64_t depth) {
    return contract_max(choice->step, contract_round(depth, choice->step));
}

/* Register tiles that a thread takes at a time: some groups for each thread, or all of a part of k. 0 = none.
 */
static inline int64_t contract_group(const struct contract_choice *choice,
                                     const struct contract_blocks *blocks, int64_t rows, int64_t columns) {
    if (blocks->parts) return contract_min(CONTRACT_GROUP_MAX, columns / choice->columns);
    if (!blocks->just_in_time || rows > choice->group_rows) return 0;
    return contract_min(CONTRACT_GROUP_MAX, columns / choice->columns / (4 * blocks->team));
}

/* Whether a batch each is sooner done than shared: a meeting takes the longer the more threads there are. */
static inline bool contract_is_little(int64_t batch, double products, int64_t threads) {
    const double shared = products / (double)threads + CONTRACT_MEETING * (double)threads;
    return (double)contract_ceil(batch, threads) * products <= (double)batch * shared;
}

static inline struct contract_blocks contract_blocks(const struct contract_choice *choice, int64_t batch,
                                                     int64_t m, int64_t n, int64_t k, int64_t threads) {
    struct contract_blocks blocks = {0};
    if (batch == 0 || m == 0 || n == 0) return blocks;
    blocks.swapped = contract_is_tall(m, n);
    if (blocks.swapped) {
        int64_t columns = n;
        n = m;
        m = columns;
    }
    const int64_t row = choice->rows, column = choice->columns;
    const int64_t all_rows = contract_round(m, row), all_columns = contract_round(n, column);
    /* Batches go to threads apart where they come out even; otherwise all threads share each product, and
     * wait for each other at each: a batch of little ones goes apart, too, though threads may be left over.
     */
    bool apart = batch >= 4 * threads || batch % threads == 0 ||
                 contract_is_little(batch, (double)m * (double)n * (double)k, threads);
    blocks.teams = apart ? threads : 1;
    blocks.team = apart ? 1 : threads;
    blocks.thin = m <= (blocks.swapped ? choice->thin_n : choice->thin_m) && n > m &&
                  m * k * choice->element <= 2 * choice->left_bytes;
    if (blocks.thin) {
        contract_blocks_thin(&blocks, choice, m, k);
        return blocks;
    }
    blocks.depth = contract_round(contract_ceil(k, choice->together), choice->step);
    blocks.chained = blocks.depth > contract_chain(choice);
    blocks.parts = contract_parts(choice, m, n, blocks.depth);
    blocks.just_in_time = blocks.parts || contract_is_flat(choice, all_rows, n, blocks.depth, threads);
    blocks.passes =
        blocks.just_in_time ? 1 : contract_max(1, contract_ceil(blocks.depth, CONTRACT_DEPTH_MAX));
    blocks.k_block =
        contract_depth(choice, contract_ceil(blocks.depth, contract_max(blocks.passes, blocks.parts)));
    const int64_t depth_bytes = blocks.k_block * choice->element;
    int64_t rows = choice->tile_m;
    if (!rows) rows = contract_min(choice->left_bytes / depth_bytes, choice->task_rows);
    rows = contract_max(2 * row, contract_min(rows, CONTRACT_ROWS_MAX)) / row * row;
    blocks.task_rows = blocks.just_in_time ? all_rows : contract_min(rows, all_rows);
    int64_t columns = choice->tile_n ? choice->tile_n : choice->right_bytes / blocks.teams / depth_bytes;
    columns = contract_max(columns / column, 1) * column;
    blocks.n_block = blocks.just_in_time ? all_columns : contract_min(columns, all_columns);
    blocks.group = contract_group(choice, &blocks, all_rows, all_columns);
    rows = CONTRACT_PARTIAL_BYTES / blocks.teams / (int64_t)sizeof(double) / blocks.n_block;
    rows = contract_max(rows / blocks.task_rows, 1) * blocks.task_rows;
    blocks.m_block = blocks.passes > 1 ? contract_min(rows, all_rows) : all_rows;
    contract_blocks_offsets(&blocks, choice);
    return blocks;
}

/* Enough for any number of threads up to `threads`: the system may grant fewer than asked for. */
static inline int64_t contract_bytes(const struct contract_choice *choice, int64_t batch, int64_t m,
                                     int64_t n, int64_t k, int64_t threads) {
    int64_t bytes = 0;
    for (int64_t count = 1; count <= threads; count++) {
        bytes = contract_max(bytes, contract_blocks(choice, batch, m, n, k, count).bytes);
    }
    return bytes;
}
