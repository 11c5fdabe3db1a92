/* The public handle of a kernel from within: what is bound, what was made ready for it, what is launched.
 *
 * bind.c fills bindings, instance.c makes the kernel one of their dtypes, prepare.c and prepared_code.c make
 * hr_prepared states from them, launch.c runs the current one, execute.c any of them without bindings;
 * kernel_check.c, measure.c and run.c stand on those three.
 */
#ifndef HR_RUN_KERNEL_H
#define HR_RUN_KERNEL_H

#include "base/arena.h"
#include "base/handle.h"
#include "device/device.h"
#include "device/roof_store.h"
#include "emit/emit.h"
#include "ir/count.h"
#include "ir/extent.h"
#include "lang/program.h"
#include "plan/plan.h"
#include "run/list.h"
#include "run/members.h"
#include "run/shape_cache.h"
#include "tune/tune.h"

/* What hr_kernel_fill puts into an array: the same for one seed, however many threads fill. */
typedef struct hr_filling {
    uint64_t seed;
    double mean;       /* floats: added to a normal number */
    bool magnitude;    /* floats: without its sign */
    int64_t low, high; /* whole numbers: uniform in [low, high] */
    bool distinct; /* whole numbers: one after the other, round and round, from one that the seed chooses */
} hr_filling;

/* What an argument is bound to. */
typedef struct hr_binding {
    bool bound;
    void *data;       /* not owned, but for `owned` */
    int64_t *shape;   /* rank entries, in one allocation with `strides` */
    int64_t *strides; /* in elements */
    hr_layout layout;
    hr_dtype dtype; /* of the array; what a dtype variable stands for may have changed since */
    double given;   /* a scalar as it was given, */
    double scalar;  /* and rounded to its dtype */
    bool owned;     /* memory of the device that hr_kernel_fill took */
    size_t owned_size;
    hr_filling filling;  /* owned inputs and inouts */
    hr_list *list;       /* HR_LAYOUT_LIST: `data` is NULL */
    hr_members *members; /* HR_LAYOUT_MEMBERS: the strides are those of the members side by side */
} hr_binding;

/* A kernel made ready for one set of extents and layouts. */
typedef struct hr_prepared hr_prepared;
struct hr_prepared {
    hr_prepared *next; /* most recently used first */
    int64_t *extents;
    hr_layout *layouts;
    bool unfused;
    int threads; /* as asked for: 0 = all */

    hr_plan *plan;
    hr_choice choice; /* of the plan */
    hr_tuned tuned;
    char tuning_key[33]; /* what `tuned` is kept under */
    hr_tune searched;    /* the most thorough search that `tuned` comes from */
    hr_emitted loadable; /* with hr_part(), what the module is compiled from; empty until compiled */
    hr_emitted paste;    /* without, what hr_kernel_emit() gave last */
    hr_text explained;   /* empty until asked */
    hr_text refused;     /* what the assembler refused before this choice was taken, a line each */
    hr_module *module;   /* NULL until compiled */
    hr_launch *launches; /* devices with grids only */
    int launch_count;
    hr_tensor_set aligned; /* of hr_execution */
    int launch_threads;
    int64_t scratch_size;
    int64_t piece; /* elements of a piece of a list, at most */
};

struct hr_kernel {
    hr_handle handle;
    hr_device *device;
    hr_program *program;  /* as it was loaded: names for the caller come from here */
    hr_program *instance; /* of other dtypes, which `function` belongs to; NULL = it is the program's */
    const hr_function *function;
    hr_dtype given_dtypes[HR_DTYPE_VARIABLE_MAX]; /* by hr_kernel_bind_dtype, else HR_DTYPE_COUNT */
    char *file;
    int argument_count; /* parameters, then results: tensor ids of the function */
    hr_binding *bindings;
    int64_t *given;    /* extents by hr_kernel_bind_extent, else HR_EXTENT_UNKNOWN */
    int64_t *defaults; /* extents that hr_kernel_fill chose, else HR_EXTENT_UNKNOWN */

    hr_prepared *prepared;
    int prepared_most;      /* states that are kept */
    hr_shape_cache *shapes; /* of hr_kernel_execute; NULL in the instances that it makes */
    hr_prepared *current;   /* what hr_kernel_launch runs; NULL after a binding changed */
    bool unfused;           /* of the last explicit hr_kernel_prepare */
    bool rows_alike;        /* of hr_kernel_execute, from its first one on: see hr_preparing */
    int threads;

    /* hr_execution's tables, true while `current` is set */
    void **pointers;
    double *scalars;
    int64_t *strides, *bytes;
    int64_t stride_count;
    void *scratch;
    size_t scratch_size;
    hr_list_tables tables;

    hr_roof roof;
    bool roof_known;
    hr_kernel *next_on_device; /* of device->kernels */
    hr_module *filler;         /* fill_cuda.c; NULL until needed */
    hr_module *comparer;       /* check_cuda.c; NULL until needed */
};

static inline const hr_tensor *hr_kernel_tensor(const hr_kernel *kernel, int i) {
    return &kernel->function->tensors[i];
}
/* The function as it was loaded: its numbers of tensors, extents and variables are those of every instance.
 */
const hr_function *hr_kernel_loaded(const hr_kernel *kernel);
int64_t hr_shape_elements(int rank, const int64_t *shape);

/* ---- kernel.c ---- */

/* HR_BAD_INPUT where the device has not so many; 0 = all. */
hr_status hr_threads_check(const hr_device *device, int threads);

/* ---- bind.c ---- */

hr_status hr_argument_find(const hr_kernel *kernel, const char *name, int *out);
/* From an array's lowest to past its highest byte, relative to its first element; not for empty ones. */
void hr_binding_span(const hr_tensor *tensor, const hr_binding *binding, int64_t *low, int64_t *high);
/* Where the element is that the strides say is `offset` elements from the first. */
char *hr_binding_element(const hr_tensor *tensor, const hr_binding *binding, int64_t offset);
/* HR_BAD_INPUT where no such array may be bound to tensor `i`, whatever else is bound. */
hr_status hr_array_check(const hr_kernel *kernel, int i, const hr_array *array);
/* Whether its strides say no more than its shape. */
bool hr_array_is_dense(const hr_array *array);
void hr_strides_dense(int rank, const int64_t *shape, int64_t *strides);
/* HR_BAD_INPUT where a whole number is wanted and `value` is none that fits. */
hr_status hr_scalar_round(const hr_kernel *kernel, int i, double value, double *out);
/* Takes over nothing; the shape and strides are copied. */
hr_status hr_binding_set(hr_kernel *kernel, int i, void *data, const int64_t *shape, const int64_t *strides);
void hr_binding_clear(hr_kernel *kernel, int i);
/* Extents from what is bound; those not known stay HR_EXTENT_UNKNOWN. */
hr_status hr_kernel_solve(const hr_kernel *kernel, int64_t *extents);
/* The same, and every extent is known, every tensor bound with the shape that its declaration has. */
hr_status hr_kernel_resolve(const hr_kernel *kernel, int64_t *extents);
/* HR_BAD_INPUT names the scalars that have neither value nor default. */
hr_status hr_kernel_scalars_known(const hr_kernel *kernel);
void hr_kernel_array_of(const hr_kernel *kernel, int i, hr_array *out);

/* ---- instance.c ---- */

/* HR_BAD_INPUT where no array of `dtype` may be bound to tensor `i`; `member` of a list, -1 = the array
 * itself. */
hr_status hr_binding_dtype_check(const hr_kernel *kernel, int i, int member, hr_dtype dtype);
/* The kernel becomes the one whose tensor `i` is of `dtype`, which has been checked. */
hr_status hr_kernel_follow(hr_kernel *kernel, int i, hr_dtype dtype);
/* HR_BAD_INPUT where arrays were bound whose dtypes give one variable two meanings. */
hr_status hr_kernel_dtypes_agree(const hr_kernel *kernel);

/* ---- overlap.c ---- */

/* Where an array lies. */
typedef struct hr_placed {
    const void *data;
    const int64_t *shape, *strides;
} hr_placed;

/* HR_BAD_INPUT where an array that is written shares an element with another one or with itself. */
hr_status hr_overlap_check(const hr_kernel *kernel);
/* The same of arrays by position; a shape of NULL: this one is not there. */
hr_status hr_overlap_check_arrays(const hr_kernel *kernel, const hr_placed *arrays);

/* ---- fill.c ---- */

void hr_fill_array(hr_dtype dtype, void *data, int64_t count, const hr_filling *filling);
/* Fills an owned array as its binding's filling says: in place, or by a kernel of the device. */
hr_status hr_fill_binding(hr_kernel *kernel, int i);
/* The bits of every level of a normal number in a float dtype of one or two bytes, 65536 entries for free();
 * NULL where memory is short. */
uint16_t *hr_fill_table(hr_dtype dtype, const hr_filling *filling);

/* ---- fill_cuda.c ---- */

/* The same elements as hr_fill_array, by the device. */
hr_status hr_fill_cuda(hr_kernel *kernel, hr_dtype dtype, void *data, int64_t count,
                       const hr_filling *filling);

/* ---- prepare.c ---- */

/* Called for every inout array that must hold its old values again and is not the kernel's own. */
typedef hr_status (*hr_restore_fn)(void *context, const char *name, const hr_array *array);

typedef struct hr_preparing {
    hr_tune tune;
    bool unfused;
    bool rows_alike; /* a product's row has the same bits at any place; not with `tune` */
    int threads;
    hr_progress_fn progress;
    void *progress_context;
    hr_restore_fn restore; /* NULL: prepare copies what it must keep */
    void *restore_context;
    int64_t divisor;      /* above 1: for a part of the work, see hr_extents_divide */
    int64_t scratch_most; /* bytes; HR_OUT_OF_MEMORY where the plan needs more; 0 = any */
} hr_preparing;

/* The state for what is bound, compiled, in *out and at the front of kernel->prepared. */
hr_status hr_kernel_ready(hr_kernel *kernel, const hr_preparing *preparing, hr_prepared **out);
/* The same without compiling and without arrays: extents that nothing gives get defaults. */
hr_status hr_kernel_planned(hr_kernel *kernel, hr_prepared **out);
/* The first for extents that are known; nothing is bound for it, nor looked at. */
hr_status hr_kernel_ready_at(hr_kernel *kernel, const int64_t *extents, const hr_preparing *preparing,
                             hr_prepared **out);
/* Threads and bytes of scratch of a launch at other extents. */
/* Work in operations, by which it is little or not; HUGE_VAL where it is not known. */
double hr_prepared_operations(const hr_prepared *state, const int64_t *extents);
hr_status hr_prepared_sizes(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents,
                            int *threads, int64_t *scratch);
/* What a launch there is made of, the caller's to free; NULL where that is what the state has. */
hr_status hr_prepared_launches(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents,
                               hr_launch **out);
void hr_prepared_destroy(hr_kernel *kernel, hr_prepared *prepared);
/* Takes a state out of the kernel's list and destroys it. */
void hr_prepared_drop(hr_kernel *kernel, hr_prepared *prepared);

/* ---- prepared_code.c ---- */

/* Compiles and loads what is planned, unless that is done; `flags` of hr_device_ops.compile. */
hr_status hr_prepared_load(const hr_kernel *kernel, hr_prepared *state, unsigned flags);
/* A hash of what runs with this state: the source, and what else its launch depends on. */
hr_status hr_prepared_identify(hr_prepared *state, char identity[33]);

/* ---- execute.c ---- */

/* What hr_kernel_execute with these arrays is asked to do, and the least time that `roof` (NULL: not known,
 * and `floor` stays as it is) needs for it. */
hr_status hr_kernel_execute_work(hr_kernel *kernel, const hr_array *arrays, int count, const hr_roof *roof,
                                 hr_work *work, hr_floor *floor);

/* Finds or makes what serves a call with these arrays and hands its execution, which lacks scratch, to `use`
 * (NULL: to nobody) in place of launching it; tables and execution last as long as that. *out serves the call
 * until hr_shapes_release(kernel->shapes, ...). */
typedef hr_status (*hr_execution_fn)(void *context, const hr_shapes *shapes, const hr_execution *execution);
hr_status hr_kernel_execute_by(hr_kernel *kernel, const hr_array *arrays, int count, hr_execution_fn use,
                               void *context, hr_shapes **out);
/* hr_kernel_execute, waited for, by the code that serves such calls; `points` elements of what it wrote are
 * compared with what the text means. */
hr_status hr_kernel_execute_check(hr_kernel *kernel, const hr_array *arrays, int count, int64_t points,
                                  hr_check *out);

/* ---- part.c ---- */

/* Divides the outermost extent; HR_BAD_INPUT where none is outermost in all arrays that have it. */
hr_status hr_extents_divide(const hr_kernel *kernel, int64_t divisor, int64_t *extents);
/* Which share of the whole that is. */
double hr_extents_share(const hr_kernel *kernel, const int64_t *part, const int64_t *whole);

/* ---- restore.c ---- */

/* Brings the inout arrays back to what they held: owned ones by filling again, others through `restore`, else
 * from copies. */
typedef struct hr_keeping {
    void **copies; /* one an argument; NULL where none is needed */
} hr_keeping;
hr_status hr_keeping_begin(const hr_kernel *kernel, hr_restore_fn restore, hr_keeping *out);
hr_status hr_keeping_restore(hr_kernel *kernel, const hr_keeping *keeping, hr_restore_fn restore,
                             void *restore_context);
void hr_keeping_end(const hr_kernel *kernel, hr_keeping *keeping);

/* ---- launch.c ---- */

/* Brings the launch tables up to date with the bindings and gives scratch of the size that `prepared` needs.
 */
hr_status hr_launch_refresh(hr_kernel *kernel, const hr_prepared *prepared);
void hr_launch_make(const hr_kernel *kernel, const hr_prepared *prepared, hr_execution *out);
/* A range that profilers see, around a launch of `prepared`. */
void hr_annotate_begin(hr_kernel *kernel, const hr_prepared *prepared, const int64_t *extents);
void hr_annotate_end(void);
hr_status hr_launch_once(hr_kernel *kernel, const hr_prepared *prepared);
/* The sentence for a subscript that left its axis in a launch at these extents. */
hr_status hr_launch_fault_fail(const hr_kernel *kernel, const hr_prepared *prepared, const int64_t *extents,
                               const hr_fault *fault);
/* Frees scratch beyond what `prepared` (NULL: nothing) needs. */
void hr_launch_trim(hr_kernel *kernel, const hr_prepared *prepared);

/* ---- measure.c ---- */

/* What else measuring says: the baseline's `copy`, `rate`, `special` and `special_rate`, where there were
 * enough rounds that nobody disturbed, else 0. */
typedef struct hr_measured {
    hr_baseline baseline;
    double function;     /* median of (seconds of one such function / seconds of the kernel); 0 = not known */
    hr_roof_seen steady; /* what three of four copies and functions passed; 0 = too few of them */
    double busy;         /* share of the time in which other programs were in the way */
} hr_measured;

/* Times the states alternately (A B B A ...) on the bound arrays for about `seconds` by the device's clock,
 * at least five runs each, and the baseline next to each run of the first state. A device that offers no
 * baseline leaves it 0. */
typedef struct hr_measuring {
    hr_prepared *const *states;
    int count;
    double seconds;  /* 0 = a default */
    int repeat;      /* rounds; 0 = as many as fit in `seconds` */
    double *samples; /* of HR_REPEAT_MOST: the first state's times in their order; NULL: nobody asks */
    hr_progress_fn progress;
    void *progress_context;
    double bytes;
    bool copies;           /* a copy of `bytes` bytes is part of the baseline */
    hr_special special;    /* whose rate is a part, too; HR_SPECIAL_NONE: none */
    hr_measured *measured; /* NULL: no baseline */
} hr_measuring;
hr_status hr_measure_states(hr_kernel *kernel, const hr_measuring *measuring, hr_timing *out);

/* ---- floor.c ---- */

hr_status hr_kernel_roof(hr_kernel *kernel, hr_progress_fn progress, void *progress_context);
/* The least time that this roof needs for this work. */
void hr_floor_of(const hr_function *function, const hr_work *work, const hr_roof *roof, hr_floor *out);
/* By the kernel's roof, but one thread alone is nothing to start. */
void hr_floor_of_state(const hr_kernel *kernel, const hr_prepared *state, const hr_work *work, hr_floor *out);
/* The special functions that take most of its arithmetic; HR_SPECIAL_NONE where that is less than half. */
hr_special hr_work_special(const hr_work *work, const hr_roof *roof);
/* One a stage of the plan, strings in `names`. */
hr_status hr_stages_describe(const hr_plan *plan, const int64_t *extents, const hr_roof *measured,
                             hr_stage_info *out, hr_arena *names);

/* ---- kernel_check.c ---- */

typedef struct hr_checking {
    const hr_prepared *prepared;
    const hr_prepared *other; /* another version of the kernel, of all the work or of a part, whose elements
                                 all are compared; NULL: samples alone are looked at, after one launch */
    int64_t points;           /* samples in all; 0 = as many as a second or two allow */
    hr_restore_fn restore;    /* of inout arrays; NULL: they are copied, with `other` */
    void *restore_context;
    hr_progress_fn progress;
    void *progress_context;
} hr_checking;

/* The arrays hold one execution of `prepared` afterwards. */
hr_status hr_check_run(hr_kernel *kernel, const hr_checking *checking, hr_check *out);
/* A pass a statement, plain loops, on as much of the work as leaves the memory of its locals small. */
hr_status hr_kernel_unfused(hr_kernel *kernel, int threads, hr_prepared **out);

#endif
