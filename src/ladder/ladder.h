/* A ladder: one text of the library as steps of hand-written CUDA, from its naive form to the tool's own
 * kernel. A step changes one thing, and its file says what and why.
 *
 * A step's file holds kernels that take `arguments`: the text's arrays and extents by their names
 * (hr_ladder_source prints the struct). What it launches stands in a table here.
 */
#ifndef HR_LADDER_LADDER_H
#define HR_LADDER_LADDER_H

#include "base/launch.h"
#include "base/limits.h"
#include "base/text.h"
#include "emit/cuda/tensor_core.h"
#include "ir/function.h"

#define HR_LADDER_LAUNCHES_MAX 3
#define HR_LADDER_EXTENTS_MAX  6
#define HR_LADDER_STEPS_MAX    16

/* How many blocks there are. Tiles: extents over what a block takes, rounded up. */
typedef enum hr_ladder_blocks {
    HR_LADDER_TILES,     /* one block a tile: tiles of the last extent along x, of the one before along y */
    HR_LADDER_PERSISTENT /* as many as run at once, at most one a tile, along x */
} hr_ladder_blocks;

/* A side of the tiles that a copy engine brings. */
typedef struct hr_ladder_map {
    int tensor; /* of the function */
    int rows;   /* of a box; its row is 64 elements of 16 bits, and swizzled */
} hr_ladder_map;

typedef struct hr_ladder_launch {
    const char *entry;
    int threads, cluster;
    int64_t shared;
    hr_ladder_blocks blocks;
    int tile[2]; /* rows and columns of the result's last two axes; 0 columns: all of them */
    hr_ladder_map maps[3];
    int map_count;
} hr_ladder_launch;

typedef struct hr_ladder_step {
    const char *name;
    const unsigned char *text;        /* the step's file, terminated */
    const unsigned char *shared_text; /* what several steps share, in front of it; NULL: nothing */
    const char *needs; /* "sm_80": from there on; "sm_90a": that alone, its tensor cores have no successor */
    hr_ladder_launch launches[HR_LADDER_LAUNCHES_MAX]; /* the first without an entry: it is the tool's own */
    int launch_count;
    const hr_tensor_core *products; /* of tensor cores that the texts call */
    int product_count;
    int64_t scratch_a_score; /* bytes of scratch for each element of rows x columns that the step leaves in
                                memory */
} hr_ladder_step;

typedef struct hr_ladder {
    const char *name, *kernel; /* "gemm", "matmul" */
    const char *title, *sizes;
    const hr_ladder_step *steps;
    int step_count;
    struct {
        const char *name;
        int64_t size, unit, most; /* the default; steps take multiples of `unit`, up to `most` (0 = any) */
    } extents[HR_LADDER_EXTENTS_MAX];
} hr_ladder;

/* Number `i` from 0 on, NULL past the last. */
const hr_ladder *hr_ladder_at(int i);
bool hr_ladder_step_is_planned(const hr_ladder_step *step);
/* Whether a GPU of this compute capability has what the step needs. */
bool hr_ladder_step_fits(const hr_ladder_step *step, int compute);

/* What the compiler gets: the types, `arguments` of this function, what the step uses of the emitter's
 * prelude, the step. */
hr_status hr_ladder_source(const hr_ladder_step *step, const hr_function *function, hr_text *out);
/* HR_BAD_INPUT names the extent that the steps do not take. */
hr_status hr_ladder_extents_check(const hr_ladder *ladder, const hr_function *function,
                                  const int64_t *extents);
/* For these extents; `out` has room for HR_LADDER_LAUNCHES_MAX. */
hr_status hr_ladder_launches(const hr_ladder_step *step, const hr_function *function, const int64_t *extents,
                             const hr_device_limits *limits, hr_launch *out);
/* Bytes of scratch memory that it takes: scores that exist. */
int64_t hr_ladder_scratch(const hr_ladder_step *step, const hr_function *function, const int64_t *extents);

#endif
