/* A matrix product on the tensor cores of a CUDA device: which main loop, how operands come, which tile.
 *
 * In: a stage with a contract, numbers for the extents. Out: numbers and words; nothing is printed here.
 * Where the tensor cores cannot take a product, `why` says what in the text keeps them from it.
 */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_GEMM_H
#define HR_SCHEDULE_CUDA_CHOOSE_GEMM_H

#include "plan/packed.h"
#include "schedule/cuda/gemm_view.h"
#include "schedule/schedule.h"

typedef enum hr_gemm_mainloop {
    HR_GEMM_PLAIN,  /* no tensor cores: arithmetic of threads */
    HR_GEMM_THIN,   /* cp.async, numbers unpacked in registers, mma.sync, for few vectors: sm_80 and later */
    HR_GEMM_AMPERE, /* cp.async, ldmatrix, mma.sync: sm_80 and later */
    HR_GEMM_HOPPER, /* tensor maps, wgmma, a warpgroup that loads: sm_90a */
} hr_gemm_mainloop;

/* Who multiplies, of the two warpgroups that do, under HR_GEMM_HOPPER. */
typedef enum hr_gemm_roles {
    HR_GEMM_COOPERATIVE, /* both, half of a tile's rows each */
    HR_GEMM_PING_PONG,   /* one, a whole tile, while the other stores its own */
} hr_gemm_roles;

/* One operand: what it is at (batch, m or n, k). */
typedef struct hr_gemm_side {
    const hr_expr *value;
    hr_dtype dtype; /* in which it is multiplied */
    bool k_major;   /* neighbours along k are neighbours in memory; otherwise those along m or n */
    hr_gemm_load load;
    hr_gemm_view view; /* rank 0 where the copy engine cannot bring its tiles */
    int parts; /* it is laid out anew in scratch memory, in so many parts; 0 = it is read as it lies */
    const hr_expr *scale[HR_PACKED_FACTORS_MAX]; /* factors that are one for groups along k: of f8, of each
                                                    128; else of hr_cuda_gemm.scale_k */
    int scale_count;
    /* The left one, where it is computed in registers: the element whose tiles come as they lie, what it
     * becomes before the factors, and bytes of 64 along k. gemm_raw.c */
    const hr_expr *raw, *number;
    int raw_bytes;
    const hr_expr
        *choice; /* a subscript that follows from the batch: which matrix it is, read as the code runs */
} hr_gemm_side;

/* Its factors that are one for groups along k. */
static inline void hr_gemm_scales_take(const hr_packed *factors, hr_gemm_side *side) {
    side->scale_count = factors->scale_count;
    for (int s = 0; s < factors->scale_count; s++)
        side->scale[s] = factors->scale[s];
}

/* The tile of a block and how it is walked. */
typedef struct hr_gemm_tile {
    hr_gemm_roles roles;
    int m, n;   /* sums: of stacked products those of all */
    int stages; /* of the ring of tiles, each 64 along k */
    int pieces; /* HR_GEMM_HOPPER: places of a warpgroup for results on their way out, 64 rows of 128 bytes; 0
                   = for all that it has */
    int cluster; /* blocks along m that share the right tile */
    int raster;  /* tiles of a cluster along m before the next column of tiles */
    int splits;  /* HR_GEMM_HOPPER: parts of k, each a tile of its own; 1 = k is whole */
    /* HR_GEMM_HOPPER: tiles of clusters, the last ones, that so many clusters share along k; 0 = each tile
     * has one cluster. */
    int stream, stream_clusters;
} hr_gemm_tile;

/* Sums of a thread under HR_GEMM_HOPPER: two warpgroups share a tile, or each has one. */
static inline int hr_gemm_sums(const hr_gemm_tile *tile) {
    return tile->m * tile->n / (tile->roles == HR_GEMM_PING_PONG ? 128 : 256);
}

/* How HR_GEMM_THIN walks the matrix: a warp has 32 of its rows, and of k every `k_warps`th line of 128 bytes.
 */
typedef struct hr_gemm_thin {
    hr_packed_product product;
    int vectors;            /* of a block */
    int64_t all_vectors;    /* blocks have them in turn */
    int64_t rows, k;        /* of the matrix */
    int row_warps, k_warps; /* of a block, which has the rows of all row_warps */
    int places;             /* of a warp's ring, a line of its rows each */
    int part_lines;         /* of k, for which vectors stand in shared memory at once */
    int part_groups;        /* that have scales of their own, 0 = there are no scales */
    int rounds;             /* of so many lines: a part of k */
    int scale_run;          /* scales that are read at once */
    bool vectors_lie;       /* as they are multiplied, without gaps along k */
    int order[8];           /* along k: the numbers of two products of a lane, as its registers have them */
    int piece_apart;        /* along k, to those of the next two products */
    int run;                /* of those eight, neighbours along k: 8, 4 or 1 */
    int ahead;  /* chunks of 64 bytes of a row that are on their way into registers: gemm_direct.h; 0 = there
                   are  rings: gemm_thin.h */
    bool early; /* what it reads but for the vectors is there before the launch before it has ended */
} hr_gemm_thin;

/* Products of parts of both operands that count: those beyond are smaller than what f32 holds. */
enum { HR_GEMM_PARTS_MAX = 3, HR_GEMM_PAIRS_MAX = 6, HR_GEMM_RIGHTS_MAX = 1 + HR_STACKED_MAX };

typedef struct hr_gemm_pair {
    int left, right; /* parts */
} hr_gemm_pair;

enum {
    HR_GEMM_RANKED = 16,
    HR_GEMM_RESULTS_MAX = 4,
    HR_GEMM_COLUMNS_MAX = 4,
    HR_GEMM_SPLITS_MAX = 32,
    HR_GEMM_FOLD_THREADS = 256,
    HR_GEMM_LAY_THREADS = 256,
    HR_GEMM_SORT_THREADS = HR_CONTRACT_GROUPS_MAX,
    HR_GEMM_LAY_WAVES = 8,
    HR_GEMM_SUMS_MOST = 192,
    HR_GEMM_SUMS_TWICE = 96,
    HR_GEMM_SUMS_COMPUTED = 128,
    HR_GEMM_SUMS_COMPUTED_TWICE = 64,
    HR_GEMM_SUMS_COMPUTED_RUNS = 32,
    HR_GEMM_DIRECT_BLOCKS = 2 /* of a multiprocessor: 128 registers a thread */
};

/* hr_gemm_view.tensor of what stands in scratch memory, at hr_gemm_view.offset. */
#define HR_GEMM_SCRATCH (-1)

typedef struct hr_cuda_gemm {
    hr_gemm_mainloop mainloop;
    hr_dtype dtype; /* of both operands: bf16 or f16, or of 8 bits: hr_gemm_side.dtype says which */
    hr_gemm_side left, right, stacked[HR_STACKED_MAX];
    int rights; /* right operands, whose columns of a tile follow each other: 1 and those that are stacked */
    hr_gemm_pair pairs[HR_GEMM_PAIRS_MAX]; /* the smallest products first; one of whole operands */
    int pair_count;
    int scale_k; /* of a left operand that is computed: neighbours along k for which its factors are one; 0 =
                    all */
    int64_t lay_blocks;        /* of the kernel that lays operands out; 0 = there is none */
    bool by_threads_unaligned; /* HR_GEMM_AMPERE cannot multiply them: where the copy engine cannot, threads
                                  do */
    hr_gemm_tile tile;
    int left_rows;    /* HR_GEMM_HOPPER: of a left tile that come; the others stay zeros */
    int left_columns; /* elements of such a row */
    bool k_whole;     /* k is whole steps */
    int threads, warps_m;
    int producer_registers, consumer_registers; /* HR_GEMM_HOPPER */
    int n_run;        /* columns that end together where a tile goes past the end along n; 0 = none does */
    int column_count; /* values of the epilogue that are one for each column */
    const hr_expr *columns[HR_GEMM_COLUMNS_MAX];
    const hr_expr *staged_block; /* an element that comes to where the result leaves from; NULL = none */
    hr_gemm_view staged_view;
    bool throttled; /* it reads memory element by element: few columns at a time, for registers are scarce */
    double epilogue_clocks; /* of an element, of a multiprocessor */
    int sums_most;          /* of a thread, so that its epilogue finds registers */
    int64_t blocks, shared_bytes;
    int64_t group_bytes, column_bytes; /* HR_GEMM_HOPPER, of shared memory for each warpgroup: results on
                                          their way out, values of columns; in a walk the most of all */
    int64_t work_bytes;  /* of scratch memory: flags of blocks, operands laid out, sums over parts of k */
    int64_t stream_at;   /* there: sums of the pieces of tiles that clusters share */
    int64_t fold_blocks; /* of the kernel that adds up the sums over parts of k and has the epilogue */
    int result_count;    /* that the copy engine stores; 0 = threads store them, one by one */
    hr_gemm_view results[HR_GEMM_RESULTS_MAX];
    int result_steps[HR_GEMM_RESULTS_MAX]; /* into hr_stage.steps */
    hr_dtype result_dtype;
    int partial_count; /* sums over neighbours of what it makes, which leave with the results */
    int partial_steps[HR_PARTIALS_MOST];
    hr_gemm_thin thin;
    /* HR_GEMM_AMPERE where each row chooses its right operand: how many there are, 0 = it is one; and tiles
     * of rows that chose the same, at most. A kernel before it sorts the rows. */
    int64_t groups, group_tiles;
    int64_t tiles_at; /* where those are listed in its scratch memory, behind the sorted rows */
    hr_knobs ranked[HR_GEMM_RANKED]; /* what the tuner may ask for, the best first by the model */
    int ranked_count;
    char why[320];
} hr_cuda_gemm;

typedef struct hr_gemm_sizes {
    int64_t batch, m, n, k;
} hr_gemm_sizes;

/* Elements along k of a row of a tile, which is 128 bytes. */
static inline int hr_gemm_step(const hr_cuda_gemm *gemm) {
    return gemm->dtype == HR_BF16 || gemm->dtype == HR_F16 ? 64 : 128;
}

/* Columns of a tile of each right operand. */
static inline int hr_gemm_right_columns(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile) {
    return tile->n / gemm->rights;
}

static inline const hr_gemm_side *hr_gemm_right(const hr_cuda_gemm *gemm, int i) {
    return i ? &gemm->stacked[i - 1] : &gemm->right;
}

/* Bytes: sums are whole numbers of 32 bits. */
static inline bool hr_gemm_is_whole(const hr_cuda_gemm *gemm) {
    return gemm->dtype == HR_I8 || gemm->dtype == HR_U8;
}

/* The tensor cores keep 13 bits of a sum of f8. */
static inline bool hr_gemm_is_f8(const hr_cuda_gemm *gemm) {
    return gemm->dtype == HR_F8E4M3 || gemm->dtype == HR_F8E5M2;
}

/* Sums over 128 of k of f8 are multiplied by scales as they are added up outside of the tensor cores. */
static inline bool hr_gemm_is_scaled(const hr_cuda_gemm *gemm) {
    return gemm->left.scale_count || gemm->right.scale_count;
}

/* The left operand is computed in registers. */
static inline bool hr_gemm_is_raw(const hr_cuda_gemm *gemm) {
    return gemm->left.raw != NULL;
}

/* They cut sums, always toward zero. Where that would show, what so many steps come to is added up outside of
 * them: of f8, and of f32 in parts. 0 = all steps stay inside. */
static inline int hr_gemm_chain(const hr_cuda_gemm *gemm) {
    if (hr_gemm_is_raw(gemm)) return gemm->scale_k ? (gemm->scale_k + 63) / 64 : 0;
    return hr_gemm_is_f8(gemm) ? 1 : gemm->pair_count > 1 ? 8 : 0;
}

/* Of a thread, beside what else it holds: those of a chain, a left operand on its way. */
static inline int hr_gemm_sums_most(const hr_cuda_gemm *gemm) {
    if (gemm->scale_k && gemm->scale_k < 64) return HR_GEMM_SUMS_COMPUTED_RUNS;
    if (hr_gemm_is_raw(gemm))
        return hr_gemm_chain(gemm) ? HR_GEMM_SUMS_COMPUTED_TWICE : HR_GEMM_SUMS_COMPUTED;
    return hr_gemm_chain(gemm) ? HR_GEMM_SUMS_TWICE : HR_GEMM_SUMS_MOST;
}

/* A product whose operands are in parts, or have scales, has a flag for each block of the kernel before it,
 * at the beginning of the scratch memory: raised, some value has no parts, or some scale is not finite. */
static inline bool hr_gemm_has_flags(const hr_cuda_gemm *gemm) {
    return gemm->pair_count > 1 || hr_gemm_is_scaled(gemm);
}

/* The device has the copy engine and the instructions of HR_GEMM_HOPPER. */
static inline bool hr_gemm_has_maps(const hr_plan *plan) {
    return plan->limits.compute == 90 && plan->limits.tensor_maps;
}

/* Some element in the operand has `index` as its last subscript: it runs along memory by it. */
bool hr_cuda_runs_along(const hr_function *function, const hr_expr *e, int index);

/* The main loop that products of the plan may have. */
static inline hr_gemm_mainloop hr_gemm_mainloop_most(const hr_plan *plan) {
    return plan->general ? HR_GEMM_PLAIN : HR_GEMM_HOPPER;
}

hr_status hr_gemm_sizes_of(const hr_plan *plan, const hr_contract *contract, const int64_t *extents,
                           hr_gemm_sizes *out);

/* `most`: the main loop that may be chosen, or one before it. */
hr_status hr_cuda_gemm_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_gemm_mainloop most, hr_cuda_gemm *out);

/* How operands come and what the epilogue does, without a tile; *complete: with one, or none is needed.
 * `sizes`: as tiles are chosen by. */
hr_status hr_gemm_prepare(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                          hr_gemm_mainloop most, hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *complete);
/* With this tile. */
void hr_gemm_tile_take(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_gemm_tile *tile,
                       hr_cuda_gemm *out);

/* The same product by HR_GEMM_AMPERE in the launch of `gemm`, for arrays that the copy engine cannot take. */
hr_status hr_cuda_gemm_sibling(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                               const hr_cuda_gemm *gemm, hr_cuda_gemm *out);

/* A box that the copy engine moves at once: elements along memory, and rows of them. */
typedef struct hr_gemm_box {
    int columns, rows;
} hr_gemm_box;

/* Of the left operand (0), a right one (1 and on), a result or what is staged (the others), under
 * HR_GEMM_HOPPER.
 */
hr_gemm_box hr_cuda_gemm_box(const hr_cuda_gemm *gemm, int map);

/* ---- gemm_operands.c ---- */

/* The dtype in which operands are multiplied, and how each comes: as it lies, or laid out anew. `most` as for
 * hr_cuda_gemm_choose. *why: what keeps the tensor cores from it, in words; NULL = nothing. */
hr_status hr_gemm_operands(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                           const hr_gemm_sizes *sizes, hr_gemm_mainloop most, hr_cuda_gemm *out,
                           const char **why);

/* `inner` of `mn` or of k runs along memory: what the side is, as it lies. */
hr_status hr_gemm_side_make(const hr_plan *plan, const int64_t *extents, const hr_contract *contract,
                            const hr_expr *value, hr_gemm_indices mn, hr_gemm_side *out);

/* ---- gemm_raw.c ---- */

/* Takes the product with its left operand computed in registers, where it can be. */
hr_status hr_gemm_raw_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                             const hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *taken);
/* Whether that is so with the sides exchanged alone, which `swapped` becomes. */
hr_status hr_gemm_swap_sides(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                             hr_contract *swapped, bool *swaps);

/* ---- gemm_thin.c ---- */

/* Takes the product by HR_GEMM_THIN, where it is one of a packed matrix and few vectors. */
hr_status hr_gemm_thin_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              const hr_gemm_sizes *sizes, hr_cuda_gemm *out, bool *taken);

/* Floats from one row's scales in shared memory to the next one's: whole runs, four at a time where a line
 * has as many, and rows that are read at once in different banks. */
static inline int hr_gemm_thin_pitch(const hr_gemm_thin *thin) {
    if (!thin->part_groups) return 0;
    const int fours = (thin->part_groups + 7) / 8 * 2;
    return 4 * (fours + 1);
}

/* ---- its kernels: gemm_tiles.c ---- */

/* The kernel has a sibling, stage_N_unaligned, for arrays that do not begin at whole 16 bytes: of the same
 * launch, by HR_GEMM_AMPERE, element by element. */
bool hr_cuda_gemm_checks_alignment(const hr_cuda_gemm *gemm);
/* The kernel leaves sums over parts of k, of all tiles or of the last ones. A second one, stage_N_end, adds
 * them up and has the epilogue; where stage_N_unaligned ran, stage_N_end_unaligned has nothing to do. */
bool hr_cuda_gemm_folds(const hr_cuda_gemm *gemm);

/* ---- gemm_epilogue.c ---- */

/* What the epilogue reads, stores and costs. */
hr_status hr_gemm_epilogue(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                           hr_cuda_gemm *out);

/* ---- gemm_tiles.c: tiles, the best first by what they cost ---- */

enum { HR_GEMM_TILES_MAX = 96 };

/* Those that fit the device and these operands; of them those that the knobs ask for, where there
 * are any. Returns how many. */
int hr_gemm_tiles(const hr_plan *plan, const hr_knobs *knobs, const hr_gemm_sizes *sizes,
                  const hr_cuda_gemm *gemm, hr_gemm_tile *out);
/* What asks for such a tile, walked so. */
hr_knobs hr_gemm_tile_knobs(const hr_gemm_tile *tile);
/* The tile holds these products' sums and their epilogue. */
bool hr_gemm_tile_fits(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_cuda_gemm *gemm,
                       const hr_gemm_tile *tile);
/* What the model takes it for, in clocks. */
double hr_gemm_tile_clocks(const hr_plan *plan, const hr_gemm_sizes *sizes, const hr_cuda_gemm *gemm,
                           const hr_gemm_tile *tile);
/* Shared memory of a warpgroup's results on their way out, and of values that are one for each column. */
int64_t hr_gemm_group_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile);
int64_t hr_gemm_column_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile);
/* Shared memory of a block, and its blocks, both by `tile`. */
int64_t hr_gemm_shared_bytes(const hr_cuda_gemm *gemm, const hr_gemm_tile *tile);
int64_t hr_gemm_blocks(const hr_plan *plan, const hr_gemm_sizes *sizes, hr_gemm_mainloop mainloop,
                       const hr_gemm_tile *tile);
/* The product with sums over `splits` parts of k as its results: f32, part after part in scratch memory. */
hr_cuda_gemm hr_gemm_in_parts(const hr_cuda_gemm *gemm, const hr_gemm_sizes *sizes, int splits);

/* Takes `tile`, whose `stream` is not 0: its pieces' room in scratch memory, blocks of the kernel after it.
 */
void hr_gemm_stream_take(const hr_gemm_tile *tile, hr_cuda_gemm *out);

#endif
