/* One stage of any shape but contract as CUDA kernels. In: a stage and how it lies on the device. Out: text.
 *
 * A stage is up to three kernels, launched in order:
 *     stage_N_begin  clears what is added into
 *     stage_N        the work itself
 *     stage_N_end    combines what the blocks left
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_H
#define HR_EMIT_CUDA_STAGE_CUDA_H

#include "emit/expression.h"
#include "schedule/cuda/launches_cuda.h"

enum { HR_CUDA_STEPS_MAX = 64, HR_CUDA_TILES_MAX = 4 };

hr_status hr_emit_stage_cuda(hr_printer *printer, int number, const int64_t *extents,
                             const hr_cuda_choice *choice);
/* The kernels of one launch start while the one before still ends. */
void hr_cuda_print_overlap(hr_printer *printer, int number, hr_stage_kernels kernels);
/* The first half of that. */
void hr_cuda_print_next_start(hr_printer *printer, int number, hr_stage_kernels kernels);
/* Prints `const int64_t n_N = a.n_N;` for each extent that the body in hand uses and no constant names. */
void hr_cuda_print_extents_used(hr_printer *p);
/* A function of the device with this text; `print` prints its body. */
void hr_cuda_print_function(hr_printer *printer, const char *signature, void (*print)(void *), void *context);
/* The values of indices from their flattened place, which the variable `flat` holds. */
void hr_cuda_print_digits(hr_printer *printer, const int *indices, int count, const char *flat);

/* ---- between stage_cuda.c, which prints kernels, and stage_cuda_pass.c, which prints the passes over a row
 * ---- */

typedef struct hr_cuda_stage {
    hr_printer *p;
    const hr_plan *plan;
    const hr_function *function;
    const hr_stage *stage;
    const hr_cuda_choice *c;
    const int64_t *extents;
    int number;
    const char **held; /* by expr id: the register array that holds an element's groups */
    bool bounded;      /* rows begin at `from` and end at `until`, variables of the row in hand */
    bool exchanged;    /* the row's first exchange is printed */
    bool waits_late;   /* the work waits for the launch before by itself, behind what it prefetches */
    bool loads_ahead;  /* what is printed loads the row after the one in hand */
    int same_count;    /* elements that are the same for all rows and were loaded before the first */
    const hr_expr *same[HR_CUDA_STEPS_MAX];
    const char *step; /* rows between two of a block */
    int ahead_count;  /* elements that are loaded a row ahead */
    const hr_expr **ahead;
    int late_count; /* elements that are held for one group only */
    const hr_expr *late[HR_CUDA_STEPS_MAX];
    int ahead_value_count; /* and values of the task level that are */
    const hr_expr *ahead_value[HR_CUDA_STEPS_MAX];
    int tiled_count, tiled_bytes; /* elements that a tile in shared memory holds */
    const hr_expr *tiled[HR_CUDA_TILES_MAX];
    int wide_count; /* elements of a group's pass that are part of a longer run of memory: stage_cuda_load.c
                     */
    const hr_expr *wide[HR_CUDA_STEPS_MAX];
    const char *wide_run[HR_CUDA_STEPS_MAX];
    bool *stash;     /* by expr id: its values are in registers since an earlier pass */
    bool one_row;    /* what is printed is for a group of a straddling stage that lies in one row: `start` and
                        `above` say where */
    const char *set; /* which of two sets of shared memory, where a block is persistent; otherwise "" */
    const char *positions;          /* the type of a position: int, or int64_t where that is too narrow */
    int online[HR_CUDA_STEPS_MAX];  /* by step: 1 + the sum that is made beside this peak, 0 = none */
    bool beside[HR_CUDA_STEPS_MAX]; /* by step: a sum that an earlier pass made beside its peak */
    const hr_expr *shift[HR_CUDA_STEPS_MAX]; /* what such a sum's peak is in the text */
    int merged[HR_CUDA_STEPS_MAX]; /* by step: 1 + the one before it that it shares an exchange with; 0: none
                                    */
    const hr_expr *exit[HR_CUDA_STEPS_MAX]; /* by step: the element in whose place its result leaves a ring */
} hr_cuda_stage;

/* Kernel stage_N with a suffix, of so many threads a block; `print` prints its body. */
void hr_cuda_print_stage(hr_cuda_stage *stage, const char *suffix, int threads,
                         void (*print)(hr_cuda_stage *));

/* A thread may have no row where others of its warp have one. */
static inline bool hr_cuda_checks_live(const hr_cuda_choice *c) {
    return c->block_rows > 1 && c->row_threads != 32;
}
static inline const hr_statement *hr_cuda_statement(const hr_cuda_stage *s, const hr_step *step) {
    return &s->function->statements[step->statement];
}
/* Arrays of values that one pass computes and a later one uses. */
void hr_cuda_declare_stash(hr_cuda_stage *s);
/* The type of a row's number. */
const char *hr_cuda_row_type(const hr_cuda_stage *s);
/* Where a step's partial results stand. */
const char *hr_cuda_work_place(hr_cuda_stage *s, int step);
/* The body of a kernel whose blocks of so many threads clear what a stage adds into. */
void hr_cuda_print_clear(hr_printer *p, int tensor, int threads);
/* Stores what the end of a stage added up. */
void hr_cuda_print_stored_sum(hr_cuda_stage *s, const hr_step *step, const char *sum);
/* ---- sums over rows (stage_cuda_column.c) ---- */

/* Before the loop over rows: a step's sums, and where its partial result goes. */
void hr_cuda_print_column_begin(hr_cuda_stage *s, int step);
/* `any`: whether the thread met a column of which it holds, among those that threads of a block share. */
void hr_cuda_print_columns_chosen(hr_cuda_stage *s, const hr_expr *chosen);
/* After it: the partial result of this block. */
void hr_cuda_print_column_partial(hr_cuda_stage *s, int step);
/* Where blocks have partners: those add up what they left in shared memory. */
void hr_cuda_print_column_meeting(hr_cuda_stage *s);
/* In the kernel that ends the stage: the sum of all partial results, for the column sum of that number. */
void hr_cuda_print_column_end(hr_cuda_stage *s, int step, int number);
/* The indices of the row `task`. */
void hr_cuda_print_task_indices(hr_cuda_stage *s);
/* ---- groups (stage_cuda_elements.c, stage_cuda_group.c, stage_cuda_load.c) ---- */

/* The step does something for each element in that pass. */
bool hr_cuda_runs_in(const hr_cuda_stage *s, const hr_step *step, int pass);
/* As hr_cuda_is_whole. */
bool hr_cuda_whole(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts);
/* Its groups begin at whole groups of memory, if the tensor does. */
bool hr_cuda_is_aligned(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts);
/* That all tensors of the arguments `a` begin at whole 16 bytes of which the kernels ask that. */
const char *hr_cuda_aligned_condition(hr_printer *p);
/* It is read once and leaves the L2 last. */
bool hr_cuda_leaves_last(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts);
/* The loop over the groups of a thread, up to the position `pos` of a group's first element. */
void hr_cuda_open_groups(hr_cuda_stage *s);
/* Element v of the group in hand is in the row. */
const char *hr_cuda_element_guard(hr_cuda_stage *s);
void hr_cuda_close(hr_printer *p);
/* Indices of the position `at`; the lane's is what `lane` names. */
void hr_cuda_print_indices(hr_cuda_stage *s, const char *at, const char *lane);
void hr_cuda_print_group_indices(hr_cuda_stage *s);
/* Two indices, of which the inner one ends at most once in a group: one division a group is enough. */
bool hr_cuda_wraps_once(const hr_cuda_stage *s);
/* Where in its row a group's first element stands, for a pointer that leaves the lane out. */
const char *hr_cuda_group_start(const hr_cuda_stage *s);
bool hr_cuda_group_starts_at_pos(const hr_cuda_stage *s);
const char *hr_cuda_row_end(hr_cuda_stage *s);
/* The row (flat: the tensor) that a whole element's positions count from. */
const char *hr_cuda_whole_base(hr_cuda_stage *s, int tensor);
/* Loads of what a pass needs and that is not in registers yet. */
void hr_cuda_print_loads(hr_cuda_stage *s, int pass);
/* In the loop over groups: what that left out, for one group. */
void hr_cuda_print_late_loads(hr_cuda_stage *s, int pass);
void hr_cuda_drop_late_loads(hr_cuda_stage *s);
/* Before the loop over rows: what is the same for all of them, and the first row of what is not, as
 * `ahead_...`. */
void hr_cuda_print_first_loads(hr_cuda_stage *s, void (*print_indices)(hr_cuda_stage *));
/* In the loop: the row that was loaded ahead becomes the one in hand, and the next is prefetched. */
void hr_cuda_print_next_loads(hr_cuda_stage *s, void (*print_indices)(hr_cuda_stage *));
/* After the first exchange of a row: what was not loaded before. */
void hr_cuda_print_postponed_loads(hr_cuda_stage *s, void (*print_indices)(hr_cuda_stage *));
/* Before the loop over rows: what is the same for all of them, into registers. */
void hr_cuda_print_same_loads(hr_cuda_stage *s);
/* After a pass whose groups do not stay in registers. */
void hr_cuda_forget_groups(hr_cuda_stage *s);
void hr_cuda_print_pass(hr_cuda_stage *s, int pass);
/* The value of an element whose bits are there. */
const char *hr_cuda_value_of(hr_cuda_stage *s, const hr_expr *element, const char *bits);
/* ---- elements apart (stage_cuda_load.c) ---- */

/* In the loop over groups: their runs, and what they are called; then no more. */
void hr_cuda_print_wide_loads(hr_cuda_stage *s, int pass);
void hr_cuda_drop_wide_loads(hr_cuda_stage *s);
/* ---- sums into places that depend on data (stage_cuda_scatter.c) ---- */

/* Rows are added into: all subscripts but the last are the same for a group, and the last is the lane. */
bool hr_cuda_is_grouped_scatter(const hr_cuda_stage *s, const hr_step *step);
const char *hr_cuda_scatter_type(const hr_cuda_stage *s, const hr_step *step);
/* The addition of an element, or its value for the group's; then the group's. */
void hr_cuda_print_scatter(hr_cuda_stage *s, const hr_step *step, const char *value);
void hr_cuda_print_group_scatter(hr_cuda_stage *s, const hr_step *step);
/* Around the loop over elements: a block's own sums. */
void hr_cuda_print_places_begin(hr_cuda_stage *s);
void hr_cuda_print_places_end(hr_cuda_stage *s);

#endif
