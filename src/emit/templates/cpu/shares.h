/* A thread's share of a stage's work in pieces: one that is done with its own takes what others have left,
 * since the system may have taken their processors for a while. Pieces of at least so many elements, so that
 * what a piece begins with costs nothing beside it. */
#define WORK_PIECE  (1 << 18)
#define WORK_PIECES 16

/* Where each piece has memory of its own, for sums over tasks: no more of them, and of no more bytes than
 * this. Few as they are, each is half of what was left before it, so that the last ones, which threads wait
 * for at the end, are short; those have at least so many elements. */
#define WORK_SUMS     5
#define WORK_AREA     (3 << 17)
#define WORK_SUM_LAST (1 << 17)

/* How many pieces of a share are taken; lines of their own */
typedef struct work_share {
    _Alignas(64) int64_t taken;
} work_share;

static inline int64_t work_pieces_of(int64_t elements, int64_t threads) {
    const int64_t pieces = elements / threads / WORK_PIECE;
    return pieces < 1 || threads < 2 ? 1 : pieces < WORK_PIECES ? pieces : WORK_PIECES;
}

static inline int64_t work_sums_of(int64_t elements, int64_t area, int64_t threads) {
    int64_t pieces = 1;
    if (area > WORK_AREA || threads < 2) return 1;
    while (pieces < WORK_SUMS && (elements / threads) >> pieces >= WORK_SUM_LAST)
        pieces++;
    return pieces;
}

/* A piece that is half of what was left of its share is a whole share of this many times the threads. */
static inline int64_t work_halving(int64_t piece, int64_t pieces) {
    const int64_t number = piece % pieces;
    return (int64_t)1 << (number + 1 < pieces ? number + 1 : number);
}

/* And whose share of those. */
static inline int64_t work_half(int64_t piece, int64_t pieces) {
    const int64_t last = piece % pieces + 1 == pieces;
    return (piece / pieces + 1) * work_halving(piece, pieces) - (last ? 1 : 2);
}

/* The number of the next piece among those of all threads, -1 where none is left. The pieces are those of
 * thread + *other, which begins at 0. */
static inline int64_t work_piece(work_share *shares, int64_t pieces, int64_t thread, int64_t threads,
                                 int64_t *other) {
    for (; *other < threads; ++*other) {
        const int64_t from = (thread + *other) % threads;
        int64_t *const taken = &shares[from].taken;
        if (__atomic_load_n(taken, __ATOMIC_RELAXED) >= pieces) continue;
        const int64_t piece = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
        if (piece < pieces) return from * pieces + piece;
    }
    return -1;
}
