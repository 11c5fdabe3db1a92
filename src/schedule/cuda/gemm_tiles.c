/* Tiles of a product and what they cost. In: sizes. Out: tiles, the best first.
 *
 * The model counts clocks. What all tiles share, the first load, is left out.
 *
 * - Tensor cores: a product of 64 rows, N columns and 16 of k takes max(N / 2, 16 + N / 4), for both operands
 *   come out of shared memory.
 *
 * - L2: a multiprocessor takes 64 bytes a clock, all of them together 7000.
 *
 * - Waves: a block takes tiles one after the other; the last wave counts whole.
 *
 * - Epilogue: a tile's results on their way out, where no other warpgroup multiplies meanwhile.
 *
 * - Memory: operands come once and results leave, 13 bytes a clock and multiprocessor.
 *
 * - Parts of k: their sums go out in f32 and come back, by way of the L2, and a second kernel adds them up.
 *
 * - Stream-K: the tiles of a last wave that is not full are shared, so that it takes its part of a wave;
 * their pieces go the way of the sums over parts of k. Where pieces begin at different places along k, no two
 * clusters read the same of an operand at a time: what the L2 does not hold comes from memory for each of
 * them.
 *
 * Measured: docs/facts.md, "Tensor cores".
 */
#include "base/dtype.h"
#include "schedule/cuda/choose_gemm.h"

#include <math.h>

enum {
    STEP = 64,
    OPERAND_BYTES = 2,
    GROUPS = 2,
    GROUP_ROWS = 64,
    STAGES_ENOUGH = 4,
    FLAT_COLUMNS = 256,
    SMALL_COLUMNS = 128,
    SECTOR = 32,
    WIDE_ROWS = 64,
    STACKED_PARTIAL_SUMS = 64
};

/* Steps of a part of k. */
enum { PART_STEPS_LEAST = 4, PART_WAVES = 4, STREAM_PIECES = 2 };

/* Of a row, that a warp of the kernel takes which adds parts up; its warps. */
enum { FOLD_COLUMNS = 128, FOLD_WARPS = HR_GEMM_FOLD_THREADS / 32 };

/* Two barriers of eight bytes for each stage, and one for what each warpgroup's epilogue carries. */
enum { BARRIER_BYTES = 16 };

/* Bytes a clock, of a multiprocessor and of all. */
static const double l2_one = 64, l2_all = 7000;
/* Rows that straddle one sector of 32 bytes more than they fill, and often one line more. */
static const double straddling_loss = 2.2;
/* How far two that overlap keep out of each other's way: 1 = not at all. */
static const double together = 8;
/* Of an element of a tile of 128 x 256 that leaves in pieces. */
static const double leave_clocks = 1780.0 / 32768;
/* A ring of three stages runs dry where one warpgroup takes from it. */
static const double shallow_loss = 1.2;
/* Results leave in rows of 64 bytes. */
static const double narrow_loss = 1.07;
/* Of a wave: a cluster waits for its slower block at the end. */
static const double cluster_loss = 0.12;
/* Of memory, bytes a clock and multiprocessor; and what it takes longer where the blocks of a cluster wait
 * for each other's tiles. */
static const double memory_one = 13, cluster_memory = 1.25;
/* Bytes of operands that stay in the L2 while tiles are walked. */
static const double l2_holds = 24e6;
/* One warpgroup stores a tile alone; and one that has 64 rows of a wide tile waits for more of shared memory.
 */
static const double alone = 1.7, flat_loss = 1.1;
/* Tiles are shared where the model finds them so much faster: what it does not know of it. */
static const double stream_margin = 1.03;
/* A second kernel begins when the first one has ended. */
static const double fold_launch_clocks = 2000;

/* Blocks of 384 threads: 128 x 256 has the least to read of the L2 for a product; ping-pong hides the
 * epilogue where k is short; smaller tiles are for products that are less than a wave. */
static const hr_gemm_tile hopper[] = {
    {HR_GEMM_COOPERATIVE, 128, 256, 4, 2, 2, 8, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 128, 256, 4, 2, 1, 16, 1, 0, 0},
    {HR_GEMM_PING_PONG, 128, 192, 4, 2, 2, 6, 1, 0, 0},
    {HR_GEMM_PING_PONG, 128, 160, 5, 4, 2, 6, 1, 0, 0},
    {HR_GEMM_PING_PONG, 128, 128, 6, 2, 2, 8, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 128, 128, 6, 2, 1, 16, 1, 0, 0},
    {HR_GEMM_PING_PONG, 64, 256, 5, 2, 2, 8, 1, 0, 0},
    {HR_GEMM_PING_PONG, 64, 128, 8, 2, 1, 16, 1, 0, 0},
    {HR_GEMM_PING_PONG, 64, 128, 8, 2, 2, 16, 1, 0, 0}, /* of rows that straddle */
    {HR_GEMM_PING_PONG, 64, 64, 12, 1, 1, 16, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 128, 192, 4, 2, 2, 8, 1, 0, 0},
    {HR_GEMM_PING_PONG, 64, 192, 6, 1, 1, 16, 1, 0, 0},
};

static const hr_gemm_tile ampere[] = {
    {HR_GEMM_COOPERATIVE, 128, 128, 4, 0, 1, 8, 1, 0, 0}, {HR_GEMM_COOPERATIVE, 128, 64, 4, 0, 1, 8, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 64, 128, 4, 0, 1, 8, 1, 0, 0},  {HR_GEMM_COOPERATIVE, 64, 64, 4, 0, 1, 8, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 128, 192, 4, 0, 1, 8, 1, 0, 0}, {HR_GEMM_COOPERATIVE, 64, 192, 4, 0, 1, 8, 1, 0, 0},
    {HR_GEMM_COOPERATIVE, 64, 256, 4, 0, 1, 8, 1, 0, 0},
};

/* A tile and the others of its cluster count as they run, whole. */
static int64_t tiles_of(const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    int64_t down = hr_saturate_product(hr_divide_up(s->m, (int64_t)tile->m * tile->cluster), tile->cluster);
    int64_t products = hr_saturate_product(s->batch, tile->splits > 1 ? tile->splits : 1);
    return hr_saturate_product(products, hr_saturate_product(down, hr_divide_up(s->n, tile->n)));
}

int64_t hr_gemm_blocks(const hr_plan *plan, const hr_gemm_sizes *sizes, hr_gemm_mainloop mainloop,
                       const hr_gemm_tile *tile) {
    int64_t tiles = tiles_of(sizes, tile),
            together = hr_limits_threads(&plan->limits) / tile->cluster * tile->cluster;
    if (tile->stream) return together;
    int64_t most = mainloop == HR_GEMM_HOPPER ? together > 0 ? together : tile->cluster : INT32_MAX;
    return tiles < most ? tiles : most; /* which are persistent: they take the others as well */
}

/* A result's piece has rows of 128 bytes, or of 64 where the tile is no whole number of those. */
static int piece_columns(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    return hr_dtype_size(gemm->result_dtype) == 4 || hr_gemm_right_columns(gemm, tile) % 64 ? 32 : 64;
}

/* Of a tile whose rows run along k, a block brings its share of the rows; of one whose rows run along m or n,
 * its share of k. */
hr_gemm_box hr_cuda_gemm_box(const hr_cuda_gemm *gemm, int map) {
    if (map > gemm->rights) return (hr_gemm_box){piece_columns(gemm, &gemm->tile), GROUP_ROWS};
    const hr_gemm_side *side = map == 0 ? &gemm->left : hr_gemm_right(gemm, map - 1);
    int rows = map == 0 ? gemm->left_rows : hr_gemm_right_columns(gemm, &gemm->tile),
        sharers = map == 0 ? 1 : gemm->tile.cluster;
    if (side->raw) return (hr_gemm_box){gemm->left_columns, rows};
    return (hr_gemm_box){hr_gemm_step(gemm), (side->k_major ? rows : STEP) / sharers};
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t hr_gemm_group_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    int64_t size = (int64_t)hr_dtype_size(gemm->result_dtype), columns = piece_columns(gemm, tile);
    int64_t rows = tile->roles == HR_GEMM_PING_PONG ? tile->m : tile->m / GROUPS;
    int64_t places =
        tile->pieces ? tile->pieces : rows / GROUP_ROWS * (hr_gemm_right_columns(gemm, tile) / columns);
    return most(gemm->group_bytes, places * gemm->result_count * GROUP_ROWS * columns * size);
}

int64_t hr_gemm_column_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    return most(gemm->column_bytes,
                (int64_t)gemm->column_count * hr_gemm_right_columns(gemm, tile) * (int64_t)sizeof(float));
}

int64_t hr_gemm_shared_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    const int64_t left_row = hr_gemm_is_raw(gemm) ? gemm->left.raw_bytes : STEP * OPERAND_BYTES;
    int64_t ring = (int64_t)tile->stages * (tile->m * left_row + (int64_t)tile->n * STEP * OPERAND_BYTES);
    if (gemm->mainloop != HR_GEMM_HOPPER) return ring;
    return ring + GROUPS * (hr_gemm_group_bytes(gemm, tile) + hr_gemm_column_bytes(gemm, tile)) +
           (tile->stages + 1) * BARRIER_BYTES;
}

/* Steps along k of one tile: parts of k differ by one. */
static int64_t steps_of(const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    return hr_divide_up(hr_divide_up(s->k, STEP), tile->splits > 1 ? tile->splits : 1);
}

static double multiply_clocks(const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    double product = tile->n / 2.0 > 16 + tile->n / 4.0 ? tile->n / 2.0 : 16 + tile->n / 4.0;
    return (double)steps_of(s, tile) * (STEP / 16) * (tile->m / 64.0) * product;
}

/* Rows of 128 bytes that begin at odd 16 bytes. */
static double straddling(const hr_cuda_gemm *gemm, const hr_gemm_side *side) {
    return side->view.stride[1] * (int64_t)hr_dtype_size(gemm->dtype) % SECTOR ? straddling_loss : 1;
}

static double fill_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                          const hr_gemm_tile *tile) {
    int64_t at_once = hr_gemm_blocks(plan, s, HR_GEMM_HOPPER, tile);
    double right = (double)tile->n / tile->cluster, row = STEP * OPERAND_BYTES;
    double bytes = (tile->m * straddling(gemm, &gemm->left) + right * straddling(gemm, &gemm->right)) * row;
    double all = bytes * (double)at_once / l2_all, one = bytes / l2_one;
    return (double)steps_of(s, tile) * (one > all ? one : all);
}

/* Two that overlap. */
static double overlap(double a, double b) {
    return pow(pow(a, together) + pow(b, together), 1 / together);
}

static double memory_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    double m = (double)s->m, n = (double)s->n, elements = (double)s->batch * ((m + n) * (double)s->k + m * n);
    return elements * OPERAND_BYTES / (memory_one * (double)hr_limits_threads(&plan->limits)) *
           (tile->cluster > 1 ? cluster_memory : 1);
}

/* Pieces of shared tiles begin at the same steps, and none goes on in a second tile. */
static bool is_aligned(const hr_gemm_tile *tile) {
    return tile->stream && tile->stream_clusters % tile->stream == 0;
}

/* Of what stands in scratch memory between the two kernels. */
static double sums_bytes(const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    if (tile->splits > 1)
        return (double)s->batch * (double)s->m * (double)s->n * tile->splits * (double)sizeof(float);
    const int64_t pieces = tile->stream_clusters + (is_aligned(tile) ? 0 : tile->stream);
    return tile->stream ? (double)pieces * tile->cluster * tile->m * tile->n * (double)sizeof(float) : 0;
}

/* What parts of k cost beside their tiles. */
static double fold_clocks(const hr_gemm_sizes *s, const hr_gemm_tile *tile) {
    const double bytes = sums_bytes(s, tile);
    return bytes > 0 ? fold_launch_clocks + 2 * bytes / l2_all : 0;
}

/* Of the tiles that are shared, where a whole one takes `loop`: multiplying, or bringing the operands. */
static double shared_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_gemm_tile *tile,
                            double loop) {
    if (!tile->stream) return 0;
    const double operands = (double)s->batch * (double)(s->m + s->n) * (double)s->k * OPERAND_BYTES,
                 all = (double)tile->stream * (tile->m * tile->cluster + tile->n) * (double)s->k *
                       OPERAND_BYTES,
                 share = loop * tile->stream / tile->stream_clusters,
                 from_memory = all / (memory_one * (double)hr_limits_threads(&plan->limits)),
                 brought = is_aligned(tile) || operands < l2_holds ? 0 : from_memory;
    /* A piece or two leave where a tile would, in f32. */
    const int pieces = is_aligned(tile) ? 1 : STREAM_PIECES;
    return (share > brought ? share : brought) + pieces * leave_clocks * tile->m * tile->n;
}

/* All waves of tiles. */
static double tiles_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                           const hr_gemm_tile *tile) {
    const int64_t blocks = hr_limits_threads(&plan->limits),
                  whole = tiles_of(s, tile) - (int64_t)tile->stream * tile->cluster;
    const double waves = (double)hr_divide_up(whole, blocks);
    double loop = overlap(multiply_clocks(s, tile), fill_clocks(plan, s, gemm, tile));
    if (tile->stages < STAGES_ENOUGH && tile->roles == HR_GEMM_PING_PONG) loop *= shallow_loss;
    if (tile->n % WIDE_ROWS) loop *= narrow_loss;
    if (tile->m == GROUP_ROWS && tile->n == FLAT_COLUMNS) loop *= flat_loss;
    double leave = (double)tile->m * hr_gemm_right_columns(gemm, tile) *
                   (leave_clocks * (gemm->result_count > 1 ? gemm->result_count : 1) + gemm->epilogue_clocks);
    double loss = tile->cluster > 1 && waves > 0 ? 1 + cluster_loss / waves : 1;
    const double shared = shared_clocks(plan, s, tile, loop);
    if (tile->roles == HR_GEMM_COOPERATIVE) return (waves * (loop + leave) + shared) * loss;
    leave *= alone;
    double pair = (loop + leave) / 2;
    return (waves * (loop > pair ? loop : pair) + leave + shared) * loss;
}

double hr_gemm_tile_clocks(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                           const hr_gemm_tile *tile) {
    const double all =
        overlap(tiles_clocks(plan, s, gemm, tile), memory_clocks(plan, s, tile)) + fold_clocks(s, tile);
    return tile->stream ? all * stream_margin : all;
}

/* With few sums a thread, beside which there is room for those of a step; ping-pong is better elsewhere. */
static bool is_for_chains(const hr_gemm_tile *tile) {
    return tile->roles == HR_GEMM_COOPERATIVE && tile->n == 192;
}

/* Right operands have a tile's columns in equal shares, of whole pieces of results; under HR_GEMM_AMPERE of
 * whole shares of its warps. Three alone need tiles of three shares there, and four the widest. */
static bool stacks(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    const bool hopper = gemm->mainloop == HR_GEMM_HOPPER;
    if (!hopper && tile->n == FLAT_COLUMNS) return gemm->rights == HR_GEMM_RIGHTS_MAX;
    if (gemm->rights == 1) return hopper ? tile->m > GROUP_ROWS || tile->n != 192 : tile->n != 192;
    return tile->n % gemm->rights == 0 && hr_gemm_right_columns(gemm, tile) % (hopper ? 32 : 64) == 0;
}

/* What blocks of small tiles share is worth a cluster where each row is asked for twice. */
static bool is_for_straddling(const hr_gemm_tile *tile) {
    return tile->cluster > 1 && tile->m == GROUP_ROWS && tile->n == SMALL_COLUMNS;
}

/* A right tile whose rows run along memory comes 64 of them at a time. */
bool hr_gemm_tile_fits(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                       const hr_gemm_tile *tile) {
    if (hr_gemm_shared_bytes(gemm, tile) > plan->limits.shared_bytes) return false;
    if (!stacks(gemm, tile)) return false;
    if (gemm->mainloop != HR_GEMM_HOPPER) return true;
    if (hr_gemm_sums(tile) > gemm->sums_most) return false;
    if (gemm->partial_count && gemm->rights > 1 && hr_gemm_sums(tile) > STACKED_PARTIAL_SUMS &&
        tile->roles == HR_GEMM_PING_PONG)
        return false; /* they spill */
    if (hr_gemm_is_raw(gemm) && tile->roles == HR_GEMM_PING_PONG && tile->m > GROUP_ROWS)
        return false; /* a left operand of 128 rows is too many registers */
    if (is_for_chains(tile) && !hr_gemm_chain(gemm) && gemm->rights == 1) return false;
    if (is_for_straddling(tile) &&
        (straddling(gemm, &gemm->left) == 1 || straddling(gemm, &gemm->right) == 1))
        return false;
    if (!gemm->right.k_major && hr_gemm_right_columns(gemm, tile) % 64) return false;
    return tile->cluster <= plan->limits.cluster_blocks && (tile->cluster == 1 || s->m > tile->m);
}

/* Stages that fit beside the results: as many as the table says, or fewer, down to `least`. */
static bool make_fit(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                     hr_gemm_tile *tile) {
    int least = gemm->mainloop == HR_GEMM_HOPPER ? 3 : 2;
    if (gemm->staged_block) tile->pieces = 0; /* what is staged has its place while the product runs */
    while (tile->stages > least && hr_gemm_shared_bytes(gemm, tile) > plan->limits.shared_bytes)
        tile->stages--;
    return hr_gemm_tile_fits(plan, s, gemm, tile);
}

/* ---- parts of k ---- */

hr_cuda_gemm hr_gemm_in_parts(const hr_cuda_gemm *gemm, const hr_gemm_sizes *sizes, int splits) {
    hr_cuda_gemm parts = *gemm;
    int64_t line = hr_divide_up(sizes->n, 4) * 4; /* rows begin at whole 16 bytes */
    parts.result_count = 1;
    parts.result_dtype = HR_F32;
    parts.results[0] = (hr_gemm_view){.tensor = HR_GEMM_SCRATCH,
                                      .offset = gemm->work_bytes,
                                      .rank = 3,
                                      .size = {line, sizes->m, sizes->batch * splits},
                                      .stride = {1, line, sizes->m * line}};
    parts.column_count = 0;
    parts.staged_block = NULL;
    parts.throttled = false;
    parts.epilogue_clocks = leave_clocks; /* 32 bits leave, not 16 */
    parts.sums_most = hr_gemm_sums_most(gemm);
    parts.work_bytes += hr_saturate_product(parts.results[0].size[2] * 4, parts.results[0].stride[2]);
    parts.fold_blocks = hr_divide_up(
        hr_saturate_product(sizes->batch, sizes->m * hr_divide_up(sizes->n, FOLD_COLUMNS)), FOLD_WARPS);
    return parts;
}

/* Numbers of parts that fill waves of blocks; 1, k as a whole, is the first. Returns how many. */
static int splits_of(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                     const hr_knobs *asked, const hr_gemm_tile *tile, int *out) {
    int64_t steps = hr_divide_up(s->k, STEP), whole = tiles_of(s, tile);
    int count = 0;
    bool can = gemm->mainloop == HR_GEMM_HOPPER && gemm->rights == 1 && whole > 0 && !gemm->partial_count &&
               !is_for_straddling(tile) && !hr_gemm_is_whole(gemm); /* parts are f32 */
    if (can && asked && asked->split_k) {
        out[count++] = asked->split_k < steps ? asked->split_k : (int)steps;
        return count;
    }
    out[count++] = 1;
    for (int waves = 1; can && waves <= PART_WAVES; waves++) {
        int64_t splits = (int64_t)hr_limits_threads(&plan->limits) * waves / whole;
        if (splits > steps / PART_STEPS_LEAST) splits = steps / PART_STEPS_LEAST;
        if (splits > HR_GEMM_SPLITS_MAX) splits = HR_GEMM_SPLITS_MAX;
        if (splits > out[count - 1]) out[count++] = (int)splits;
    }
    return count;
}

/* The tiles of a last wave that is not full, shared by all clusters or by as many as make their pieces alike:
 * in tiles, those where a cluster's share is worth the while. Returns how many. */
static int streams_of(const hr_plan *plan, const hr_gemm_sizes *s, const hr_cuda_gemm *gemm,
                      const hr_knobs *asked, const hr_gemm_tile *tile, hr_gemm_tile out[2]) {
    if (asked && (asked->split_k || asked->last_wave == HR_LAST_WAVE_WHOLE)) return 0;
    const bool must = asked && asked->last_wave == HR_LAST_WAVE_SHARED;
    /* Threads that store results, or compute operands, have no registers left for it. */
    if (!must && (!gemm->result_count || hr_gemm_is_raw(gemm))) return 0;
    if (!must && is_for_straddling(tile)) return 0; /* tiles of less than a wave: 15.7 us for 10.5 */
    /* Nor has one warpgroup of a whole tile, for several sums of its results. */
    if (!must && gemm->partial_count > 1 && tile->roles == HR_GEMM_PING_PONG) return 0;
    const int64_t clusters = hr_limits_threads(&plan->limits) / tile->cluster;
    if (gemm->mainloop != HR_GEMM_HOPPER || clusters < 1) return 0;
    const int64_t left = tiles_of(s, tile) / tile->cluster % clusters;
    const int64_t steps = hr_saturate_product(left, hr_divide_up(s->k, STEP));
    int count = 0;
    if (steps / clusters < PART_STEPS_LEAST || steps > INT32_MAX) return 0;
    for (int alike = 0; alike < 2; alike++) {
        const int64_t sharing = alike ? clusters / left * left : clusters;
        if (alike && (sharing == clusters || sharing == left)) continue;
        out[count] = *tile;
        out[count].splits = 1;
        out[count].stream = (int)left;
        out[count++].stream_clusters = (int)sharing;
    }
    return count;
}

void hr_gemm_stream_take(const hr_gemm_tile *tile, hr_cuda_gemm *out) {
    enum { UNIT_ROWS = 64, UNIT_COLUMNS = 16, UNITS = HR_GEMM_FOLD_THREADS / 128, ALIGNMENT = 256 };
    const int64_t units = (int64_t)tile->stream * tile->cluster * (tile->m / UNIT_ROWS) *
                          (hr_gemm_right_columns(out, tile) / UNIT_COLUMNS);
    const int64_t places = (int64_t)tile->stream_clusters * STREAM_PIECES * tile->cluster;
    out->stream_at = hr_divide_up(out->work_bytes, ALIGNMENT) * ALIGNMENT;
    out->work_bytes = out->stream_at + places * tile->m * tile->n * (int64_t)sizeof(float);
    out->fold_blocks = hr_divide_up(units, UNITS);
}

/* ---- ranking ---- */

/* By the tuner: a tile by its size and its cluster. */
static bool is_asked_for(const hr_knobs *knobs, const hr_gemm_tile *tile) {
    return (!knobs->tile_m || knobs->tile_m == tile->m) && (!knobs->tile_n || knobs->tile_n == tile->n) &&
           (!knobs->sharers || knobs->sharers == tile->cluster);
}

hr_knobs hr_gemm_tile_knobs(const hr_gemm_tile *tile) {
    hr_knobs knobs = {.tile_m = tile->m, .tile_n = tile->n, .sharers = tile->cluster};
    if (tile->stream)
        knobs.last_wave = HR_LAST_WAVE_SHARED;
    else
        knobs.split_k = tile->splits;
    return knobs;
}

typedef struct ranking {
    const hr_plan *plan;
    const hr_gemm_sizes *sizes;
    const hr_cuda_gemm *gemm;
    double costs[HR_GEMM_TILES_MAX];
    hr_gemm_tile *tiles;
    int count;
} ranking;

/* In its place by cost, behind what costs as much. */
static void rank_add(ranking *r, hr_gemm_tile tile) {
    hr_cuda_gemm parts;
    const hr_cuda_gemm *gemm = r->gemm;
    if (tile.splits > 1) {
        parts = hr_gemm_in_parts(gemm, r->sizes, tile.splits);
        gemm = &parts;
    }
    if (r->count == HR_GEMM_TILES_MAX || !make_fit(r->plan, r->sizes, gemm, &tile)) return;
    double mine = hr_gemm_tile_clocks(r->plan, r->sizes, gemm, &tile);
    int at = r->count++;
    for (; at > 0 && r->costs[at - 1] > mine; at--) {
        r->costs[at] = r->costs[at - 1];
        r->tiles[at] = r->tiles[at - 1];
    }
    r->costs[at] = mine;
    r->tiles[at] = tile;
}

/* Those of the table that fit, by cost; with `asked` those that these ask for. */
static int rank(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_cuda_gemm *gemm,
                const hr_knobs *asked, hr_gemm_tile *out) {
    bool is_hopper = gemm->mainloop == HR_GEMM_HOPPER;
    const hr_gemm_tile *table = is_hopper ? hopper : ampere;
    size_t size = is_hopper ? sizeof hopper / sizeof *hopper : sizeof ampere / sizeof *ampere;
    ranking r = {.plan = plan, .sizes = sizes, .gemm = gemm, .tiles = out};
    for (size_t i = 0; i < size; i++) {
        int splits[PART_WAVES + 1];
        hr_gemm_tile tile = table[i];
        if (asked && !is_asked_for(asked, &tile)) continue;
        const bool must_share = asked && asked->last_wave == HR_LAST_WAVE_SHARED;
        int count = must_share ? 0 : splits_of(plan, sizes, gemm, asked, &tile, splits);
        for (int k = 0; k < count; k++) {
            tile = table[i];
            tile.splits = splits[k];
            rank_add(&r, tile);
        }
        hr_gemm_tile streams[2];
        count = streams_of(plan, sizes, gemm, asked, &table[i], streams);
        for (int k = 0; k < count; k++)
            rank_add(&r, streams[k]);
    }
    return r.count;
}

int hr_gemm_tiles(const hr_plan *plan, const hr_knobs *knobs, const hr_gemm_sizes *sizes,
                  const hr_cuda_gemm *gemm, hr_gemm_tile *out) {
    int count = rank(plan, sizes, gemm, knobs, out);
    return count ? count : rank(plan, sizes, gemm, NULL, out);
}

bool hr_cuda_gemm_folds(const hr_cuda_gemm *gemm) {
    if (gemm->mainloop == HR_GEMM_HOPPER && gemm->tile.stream) return true;
    return (gemm->mainloop == HR_GEMM_HOPPER || gemm->mainloop == HR_GEMM_THIN) && gemm->tile.splits > 1;
}

bool hr_cuda_gemm_checks_alignment(const hr_cuda_gemm *gemm) {
    return gemm->mainloop == HR_GEMM_HOPPER || gemm->mainloop == HR_GEMM_THIN ||
           gemm->left.load != HR_GEMM_ELEMENTS || gemm->right.load != HR_GEMM_ELEMENTS;
}
