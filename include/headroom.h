/* headroom: write the math, run it at the roof, know how far you are.
 *
 * The whole public API, from simple to detailed: status, devices, kernels, launching, measuring, roofs,
 * reports. Every fallible function returns an hr_status and gives its results through trailing pointers,
 * which stay untouched on failure. hr_last_error() is the sentence that explains the calling thread's last
 * failure. Options structs begin with their size: set it with `{.size = sizeof(hr_...)}`; absent fields are
 * defaults. Destroy functions accept NULL. The library never prints and never exits.
 *
 * A pointer of NULL where one is expected is HR_BAD_INPUT and a sentence, or nothing where no status is
 * given; a build of type Debug knows a destroyed handle, too.
 *
 * A device and its kernels are used by one thread at a time, but for hr_kernel_execute, which many threads
 * may call at once. Threads that do anything else side by side open a device each; these share the cache
 * folder, nothing else.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0

#define HR_API __attribute__((visibility("default")))

/* ---- status ---- */

/* name, exit code of the command, text */
#define HR_STATUSES(X)                                                                                       \
    X(OK, 0, "good")                                                                                         \
    X(WRONG_RESULT, 1, "a result differs from the text's meaning")                                           \
    X(BAD_INPUT, 2, "bad usage or input")                                                                    \
    X(OUT_OF_RANGE, 2, "a subscript left its axis while the kernel ran")                                     \
    X(NOT_AVAILABLE, 3, "the device or a tool it needs is not there")                                        \
    X(OUT_OF_MEMORY, 3, "not enough memory")                                                                 \
    X(IO, 2, "a file could not be read or written")                                                          \
    X(CANCELLED, 2, "stopped by the caller")                                                                 \
    X(INTERNAL, 3, "a fault in headroom itself")

typedef enum hr_status {
#define HR_STATUS_ENUM(name, exit_code, text) HR_##name,
    HR_STATUSES(HR_STATUS_ENUM)
#undef HR_STATUS_ENUM
} hr_status;

HR_API const char *hr_status_name(hr_status status);
HR_API int hr_status_exit_code(hr_status status);
/* The sentence of this thread's last failure; valid until its next one. Never NULL. */
HR_API const char *hr_last_error(void);
/* Whether a terminal may be sent the first character of `text`, of `left` bytes. Sentences, names of files
 * and what models say come from others: a control of 7 or 8 bits, a break of lines, an override of the
 * direction of writing, a sign without width and what is no UTF-8 may not. `length`: its bytes, 1 where it is
 * no UTF-8. Both may be NULL. */
HR_API bool hr_character_is_shown(const char *text, size_t left, size_t *length);
HR_API const char *hr_version(void);
/* The folder of the library's kernels, where `use "rmsnorm.hr"` of a text finds them: $HEADROOM_KERNELS, else
 * that of the installation or of the source tree that this program, or the shared library, is of. `out`:
 * `size` bytes. HR_NOT_AVAILABLE where there is none. */
HR_API hr_status hr_library_folder(char *out, size_t size);
/* The tunables in words, as `headroom help tuning` prints them: what the labels of hr_variant say. */
HR_API const char *hr_tuning_help(void);

/* ---- dtypes ---- */

/* name in the language, bytes an element */
#define HR_DTYPES(X)                                                                                         \
    X(F64, "f64", 8)                                                                                         \
    X(F32, "f32", 4)                                                                                         \
    X(F16, "f16", 2)                                                                                         \
    X(BF16, "bf16", 2)                                                                                       \
    X(F8E4M3, "f8e4m3", 1)                                                                                   \
    X(F8E5M2, "f8e5m2", 1)                                                                                   \
    X(I64, "i64", 8)                                                                                         \
    X(I32, "i32", 4)                                                                                         \
    X(I16, "i16", 2)                                                                                         \
    X(I8, "i8", 1)                                                                                           \
    X(U8, "u8", 1)                                                                                           \
    X(BOOL, "bool", 1)

typedef enum hr_dtype {
#define HR_DTYPE_ENUM(name, text, size) HR_##name,
    HR_DTYPES(HR_DTYPE_ENUM)
#undef HR_DTYPE_ENUM
        HR_DTYPE_COUNT
} hr_dtype;

HR_API const char *hr_dtype_name(hr_dtype dtype);

/* ---- devices ---- */

typedef struct hr_device hr_device;

/* `name`: "cpu", "cuda", "cuda:1", or NULL for the best there is: cuda where a GPU can be used, else cpu.
 * "cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a" are targets: kernels are planned and emitted for them, on a
 * machine with or without a GPU, and nothing runs. HR_NOT_AVAILABLE where it is not there. */
HR_API hr_status hr_device_open(const char *name, hr_device **out);
HR_API void hr_device_destroy(hr_device *device);
HR_API const char *hr_device_kind(const hr_device *device); /* "cpu" or "cuda" */
HR_API const char *hr_device_name(const hr_device *device); /* the product's name */

/* A CPU's kernels run on threads of the library's own, which sleep between launches. A program with threads
 * of its own gives them: `run` calls part(job, i, parts) for each i from 0 to parts - 1, each in a thread of
 * its own and all at the same time, since they wait for each other, and returns when all have returned. `run`
 * NULL: the library's own again. Holds for launches from here on; to be set while none runs. HR_NOT_AVAILABLE
 * where the device is no CPU. */
typedef void (*hr_part_fn)(void *job, int64_t part, int64_t parts);
typedef void (*hr_parallel_fn)(void *context, int64_t parts, hr_part_fn part, void *job);
HR_API hr_status hr_device_threads_set(hr_device *device, hr_parallel_fn run, void *context);

/* Memory of the device, which arrays are bound to: aligned to at least 64 bytes, not cleared. `size` at the
 * release is that of the allocation. On the CPU any other memory is as good. */
HR_API hr_status hr_device_allocate(hr_device *device, size_t size, void **out);
HR_API void hr_device_release(hr_device *device, void *data, size_t size);
/* Memory of the host that the device copies to and from by itself, while the host and its kernels go on: for
 * hr_sequence_copy, and for fast hr_device_upload. */
HR_API hr_status hr_device_allocate_pinned(hr_device *device, size_t size, void **out);
HR_API void hr_device_release_pinned(hr_device *device, void *data, size_t size);
/* Between the host's memory and the device's, after all that was launched before; complete on return. */
HR_API hr_status hr_device_upload(hr_device *device, void *to, const void *from, size_t size);
HR_API hr_status hr_device_download(hr_device *device, void *to, const void *from, size_t size);
/* Whether the host may read and write the device's memory in place: true on the CPU. */
HR_API bool hr_device_memory_is_host(const hr_device *device);
/* Waits until all launches are complete. HR_OUT_OF_RANGE where a data-dependent subscript left its axis in
 * one of them, with its place in the text. */
HR_API hr_status hr_device_synchronise(hr_device *device);
/* Launches go to this CUstream of the device's primary context (PyTorch's current stream, say) from now on;
 * NULL = a stream of the device's own. Without meaning on the CPU. */
HR_API void hr_device_stream_set(hr_device *device, void *stream);

/* Called from long work: `done` of `total` (total 0 = not known), `what` in words. Return false to stop. */
typedef bool (*hr_progress_fn)(void *context, const char *what, double done, double total);

/* ---- roofs ---- */

/* The special-function units that are measured beside plain arithmetic. */
#define HR_SPECIALS(X)                                                                                       \
    X(NONE, "none")                                                                                          \
    X(EXP, "exp")                                                                                            \
    X(LOG, "log")                                                                                            \
    X(TANH, "tanh")                                                                                          \
    X(ERF, "erf")                                                                                            \
    X(TRIG, "trig")                                                                                          \
    X(ROOT, "root") /* square root, reciprocal root and division */                                          \
    X(RANDOM, "random")

typedef enum hr_special {
#define HR_SPECIAL_ENUM(unit, name) HR_SPECIAL_##unit,
    HR_SPECIALS(HR_SPECIAL_ENUM)
#undef HR_SPECIAL_ENUM
        HR_SPECIAL_COUNT
} hr_special;

HR_API const char *hr_special_name(hr_special special);

#define HR_ROOF_LEVELS 4

/* What a device can do at best. Everything is measured on it, nothing comes from a data sheet; 0 = not
 * measured. Rates are of the whole device, a second. */
typedef struct hr_roof {
    double copy, read, write, triad; /* bytes a second from memory, counting read + written */
    struct {
        char name[8]; /* "L1", "L2", "L3" */
        double bytes; /* capacity, of one core for L1 and L2 */
        double read, copy, write, triad;
    } cache[HR_ROOF_LEVELS];
    int cache_count;
    double vector_f32, vector_f64, vector_bf16, vector_f16, vector_i32, vector_i8; /* FMA = 2 operations */
    double tensor_f32, tensor_bf16, tensor_f16,
        tensor_i8;                    /* of the unit that products run on, 2 a multiply-add */
    double special[HR_SPECIAL_COUNT]; /* f32 functions a second */
    double launch;                    /* seconds to start and join all threads, or of an empty kernel */
    int threads;                      /* or multiprocessors */
    double measured_at;               /* seconds since the epoch */
    /* CUDA, where cache[] is the shared memory of a multiprocessor and the L2: */
    double tensor_tf32, tensor_f8;
    double launch_graph;               /* seconds of an empty kernel in a graph */
    double launch_host, launch_driver; /* seconds of the host's for a launch: ours, the driver's call alone */
    double link_to, link_from;         /* bytes a second between the device and pinned memory of the host */
    double link_pageable_to, link_pageable_from;
    double link_peer;    /* to the next device */
    bool special_beside; /* special functions have units of their own: their time overlaps with arithmetic */
    bool traffic_mixed;  /* a kernel cannot read first and write later: between two measured mixes of reads
                            and writes, only these two count */
    char copy_way[32];   /* CPU: the loop that reached `copy`, and on how many threads; "" = not known */
    int copy_threads;
    double busy; /* share of the time in which other programs were in the way while it was measured. A roof of
                    more than 0.1 is not kept */
} hr_roof;

/* From the cache folder; measured where it is missing or `again`. What other programs hindered is not kept:
 * it has `busy` above 0.1. */
HR_API hr_status hr_device_roof(hr_device *device, bool again, hr_progress_fn progress, void *context,
                                hr_roof *out);
/* From the cache folder. Nothing runs: HR_NOT_AVAILABLE where none is kept. */
HR_API hr_status hr_device_roof_kept(hr_device *device, hr_roof *out);

/* What `headroom roof --json` printed, and the device's name, cut to `size` bytes with its end. */
HR_API hr_status hr_roof_load(const char *path, hr_roof *out, char *device, size_t size);

/* ---- kernels ---- */

typedef struct hr_kernel hr_kernel;

typedef enum hr_tune { HR_TUNE_DEFAULT, HR_TUNE_NONE, HR_TUNE_QUICK, HR_TUNE_FULL } hr_tune;

/* Loads one kernel of a text for a device. `path` is for messages. `name` may be NULL where the text has one
 * kernel. On a mistake hr_last_error() holds every message with its line and caret. The text is copied. */
HR_API hr_status hr_kernel_load(hr_device *device, const char *path, const char *text, size_t length,
                                const char *name, hr_kernel **out);
HR_API hr_status hr_kernel_load_file(hr_device *device, const char *path, const char *name, hr_kernel **out);
HR_API void hr_kernel_destroy(hr_kernel *kernel);
HR_API const char *hr_kernel_name(const hr_kernel *kernel);
/* What hr_kernel_source calls it: "kernel_softmax", and with dtype variables what they stand for,
 * "kernel_softmax_bf16". Valid until the next bind. */
HR_API const char *hr_kernel_symbol(const hr_kernel *kernel);

typedef enum hr_argument_role { HR_ARGUMENT_INPUT, HR_ARGUMENT_INOUT, HR_ARGUMENT_RESULT } hr_argument_role;

/* A parameter or a result of a kernel, in the order of its declaration. rank 0 = scalar. */
typedef struct hr_argument {
    const char *name;
    hr_argument_role role;
    hr_dtype dtype; /* of a dtype variable, what that stands for at present */
    int rank;
    bool has_default;
    double default_value;
    const char *dtype_variable; /* NULL = the text names the dtype itself */
    int line, column;           /* of its name in the text that declares it, from 1; columns count bytes */
} hr_argument;

HR_API int hr_kernel_argument_count(const hr_kernel *kernel);
HR_API hr_status hr_kernel_argument(const hr_kernel *kernel, int i, hr_argument *out);

/* How many elements an axis has, as arithmetic for a stack: a number or an extent's value goes on top, an
 * operation takes the two on top, the right one first, and puts its result there. One is left at the end. */
typedef enum hr_shape_op {
    HR_SHAPE_NUMBER, /* `value` */
    HR_SHAPE_EXTENT, /* of the extent number `value`: hr_kernel_extent_name */
    HR_SHAPE_ADD,
    HR_SHAPE_SUB,
    HR_SHAPE_MUL,
    HR_SHAPE_FLOORDIV /* rounded down */
} hr_shape_op;

typedef struct hr_shape_step {
    hr_shape_op op;
    int64_t value;
} hr_shape_step;

/* The steps of one axis of argument `i`, at most `most` of them in `steps`, and how many there are. `steps`
 * may be NULL, to ask for the number alone. HR_BAD_INPUT where there is no room. */
HR_API hr_status hr_argument_shape(const hr_kernel *kernel, int i, int axis, hr_shape_step *steps, int most,
                                   int *count);
/* The elements of each axis of argument `i` at these extents, one value each in the order of
 * hr_kernel_extent_name. HR_BAD_INPUT where one of them would be negative or beyond i64. */
HR_API hr_status hr_argument_sizes(const hr_kernel *kernel, int i, const int64_t *extents, int64_t *sizes);

/* Memory of the device, described. strides are in elements; NULL = row-major without gaps. Not owned. */
typedef struct hr_array {
    size_t size;
    void *data;
    hr_dtype dtype;
    int rank;
    const int64_t *shape;
    const int64_t *strides;
} hr_array;

/* Binds by name. Shapes must agree with the text's extents and with each other, or the sentence says where
 * they don't. The description is copied, the data is used in place and must live until the kernel is
 * destroyed or rebound. */
HR_API hr_status hr_kernel_bind(hr_kernel *kernel, const char *name, const hr_array *array);
/* Binds a tensor to a list of `count` arrays without gaps that lie anywhere. The descriptions are copied;
 * binding other arrays of the same lengths costs no more than handing over their addresses.
 *
 * A tensor of one axis is all of them together, of any shape and length (0, too). A kernel over one axis then
 * runs over all members in one launch: AdamW over the parameters of a model, the norm of all gradients and
 * their clipping. Every tensor with that axis must be bound to a list of the same lengths; totals go into
 * tensors without axes, or are read from them. An element of a list has no number: the text may use its index
 * in subscripts only.
 *
 * A tensor of more axes has the arrays as the steps of its first one: a[B, M, K] takes B of shape [M, K], all
 * alike, at least one: products of matrices by pointers. What the text reads may be given twice, what it
 * writes may not. Other tensors are bound as they are, to arrays or lists. HR_BAD_INPUT where an array is at
 * an address that is no multiple of its element's bytes. On a GPU a product's matrices whose rows and
 * addresses are whole 16 bytes come by the copy engine as those of one array do. hr_kernel_execute takes no
 * lists. */
HR_API hr_status hr_kernel_bind_list(hr_kernel *kernel, const char *name, const hr_array *arrays, int count);
/* A float is rounded to the scalar's dtype; a whole number must fit it. */
HR_API hr_status hr_kernel_bind_scalar(hr_kernel *kernel, const char *name, double value);
HR_API hr_status hr_kernel_bind_extent(hr_kernel *kernel, const char *name, int64_t value);
/* What a dtype variable of the text stands for (`T` of `x: T[M, N]`). Without it that is the dtype of the
 * array that was bound last to a tensor declared so, or before any the device's default: bf16 on CUDA, f32 on
 * a CPU, where the variable's constraint allows that, else the first that it names. With another dtype the
 * kernel is another one: what was prepared and filled for the last one is dropped. A loop over two dtypes
 * loads the kernel twice. HR_BAD_INPUT where the constraint forbids the dtype. */
HR_API hr_status hr_kernel_bind_dtype(hr_kernel *kernel, const char *name, hr_dtype dtype);

typedef struct hr_prepare_options {
    size_t size;
    hr_tune tune; /* HR_TUNE_DEFAULT = none: the cost model's choice, or what an earlier search found */
    hr_progress_fn progress;
    void *progress_context;
    bool unfused; /* a pass a statement: what this kernel costs without fusion */
    int threads;  /* 0 = all */
} hr_prepare_options;

/* Solves extents, plans, compiles and, where asked, tunes on the bound arrays: results are overwritten, inout
 * arrays are copied first and restored. Needed once after binding arrays of new shapes; options may be NULL.
 */
HR_API hr_status hr_kernel_prepare(hr_kernel *kernel, const hr_prepare_options *options);
/* One execution on the bound arrays; prepares first where needed. Complete on return on the CPU; on CUDA it
 * is queued on the device's stream, and hr_device_synchronise, hr_device_download or a later event of that
 * stream waits for it. HR_OUT_OF_RANGE where a data-dependent subscript left its axis, on CUDA in an earlier
 * launch: nothing out of range was read or written. */
HR_API hr_status hr_kernel_launch(hr_kernel *kernel);
/* One execution on `count` arrays in the order of hr_kernel_argument, whatever is bound: for engines. Many
 * threads may call it on one kernel at once, while none binds, prepares, runs or destroys that; on a CPU each
 * of them has threads of its own (hr_prepare_options.threads says how many). Nothing of the arrays is kept.
 *
 * What serves a set of shapes is planned and compiled at the first call with it, and kept: later calls only
 * look it up. Other extents within a factor of two (a batch that grows) are served by the same code, where it
 * is right for them: on a GPU where they are no numbers in it and nothing of it is a product; results may
 * then differ from those of code made for them as sums in another order do. hr_kernel_prepare says threads
 * and fusion for all calls after it.
 *
 * A scalar's array has rank 0 and its value, of any dtype, at `data` in the host's memory; NULL there is what
 * hr_kernel_bind_scalar gave, else the text's default. A result whose `data` is NULL is not wanted: the
 * kernel runs without what only that one needs, or a sentence says why the text does not allow it. `stream`
 * is a CUstream of the device's primary context, NULL that of hr_device_stream_set; without meaning on a CPU.
 * Complete on return on a CPU, queued on CUDA, errors as of hr_kernel_launch. */
HR_API hr_status hr_kernel_execute(hr_kernel *kernel, const hr_array *arrays, int count, void *stream);

/* ---- gradients ---- */

/* What is derived. Names are lists with commas; NULL = the default. */
typedef struct hr_gradient_options {
    size_t size;
    const char *of;        /* results; default: all floats but those that are there for the backward pass, as
                              rstd or lse: reductions that another statement reads */
    const char *wrt;       /* parameters; default: all float tensors */
    const char *save;      /* locals that the forward kernel is to give as results, "" = none; default: those
                              that cost less to write and read than to compute again, and, under names of their
                              own, the logsumexp of a softmax and what an activation of a product takes */
    const char *recompute; /* results that are computed again instead of taken */
    const char *name;      /* of the kernel; default: <kernel>_backward; the forward one keeps its own */
    bool accumulate;       /* gradients of weights are added into inout tensors */
} hr_gradient_options;

/* The gradient of a kernel of a text, as a kernel: it takes a cotangent of each result (dy), what it needs of
 * the parameters and results of the forward kernel, and gives the gradients (dx). Its own gradient is the
 * second derivative. `kernel` may be NULL where the text has one. `*out` and `*notes` (a line for each thing
 * to know,
 * "" = nothing) are for free(). HR_BAD_INPUT names what is not there, or an inout tensor on the way. */
HR_API hr_status hr_gradient_text(const char *path, const char *text, size_t length, const char *kernel,
                                  const hr_gradient_options *options, char **out, char **notes);
/* The forward kernel with what the gradient of the same options takes of it as results. */
HR_API hr_status hr_gradient_forward_text(const char *path, const char *text, size_t length,
                                          const char *kernel, const hr_gradient_options *options, char **out);

/* A gradient against what its kernel means, in f64 at small random points. */
typedef struct hr_gradient_check {
    size_t size;
    int points;        /* at which it was checked; 0: the kernel has no finite value at any that was tried */
    double difference; /* of central differences along random directions, relative; the worst */
    char where[64];    /* the parameter that the worst was found for */
    double transposed; /* how far <dy, J v> by forward mode and <J' dy, v> are apart, relative; the worst:
                          rounding alone, where each place finds what it is given */
    struct {
        double bytes, operations; /* what the text asks for at the extents that a plain run takes */
    } forward, backward;
} hr_gradient_check;

/* HR_WRONG_RESULT where a difference is more than 1e-6, or `transposed` more than 1e-11; `*out` is filled
 * then, too. */
HR_API hr_status hr_gradient_verify(const char *path, const char *text, size_t length, const char *kernel,
                                    const hr_gradient_options *options, hr_gradient_check *out);

/* ---- measuring ---- */

typedef struct hr_timing {
    double median, min, max; /* seconds */
    int runs;
} hr_timing;

typedef struct hr_floor {
    double seconds;
    const char *bound; /* "memory", "tensor", "vector", "exp", ..., "launch" */
    double bytes;
    double tensor_flops, vector_flops, special_ops;
    double memory, others; /* seconds that the bytes alone need, and all else; `seconds` is the longer */
} hr_floor;

/* A plain copy and a loop of special functions, measured alternately with the kernel. On a shared machine the
 * speed of memory and cores drifts within minutes, and a roof that was measured earlier says little; what was
 * measured in the same moments does. */
typedef struct hr_baseline {
    double copy;          /* median of (seconds of a copy of floor.bytes bytes, half of them read and half
                             written / seconds of the kernel); 0 = no copy was measured */
    double rate;          /* bytes a second of that copy, median */
    hr_special special;   /* the functions that take most of the floor's arithmetic, and */
    double special_rate;  /* how many a second all threads compute, median; 0 = not measured: they take little
                             of it, or the device's units are its own */
    double floor;         /* seconds: the floor, by the speeds that memory and functions had meanwhile */
    double roof_fraction; /* `floor` over the kernel's seconds, 0 = not known */
} hr_baseline;

typedef struct hr_check {
    /* The code does what the text says, as far as rounding lets it. */
    int64_t points;   /* elements compared with the text's meaning in f64 */
    double max_error; /* of the element that is nearest to its tolerance: |got - meaning| beyond what rounding
                         to the dtype explains, over |meaning| */
    double tolerance; /* what honest arithmetic may make of the text there, over the same: docs/check.md */
    bool ok;
    char where[160];  /* "y[3, 17] = 0.25, should be 0.5" of that element, or what else is wrong */
    int64_t compared; /* elements compared with those of the unfused version; 0 = there is none, or no more
                         than samples were asked for */
    /* What the user gets, however good the code is. */
    double relative_error; /* the largest |got - f64| / |f64|, or over a thousandth of the tensor's root mean
                              square where that is more */
    char relative_where[160];
    char warning[320]; /* where the text's own arithmetic loses more than a part in a thousand: a sentence
                          that says where and, where it is known, the mend. "" elsewhere */
} hr_check;

/* Measures the prepared kernel on its bound arrays: cold caches, median of repeated runs. Results and inout
 * arrays change as by so many launches. */
HR_API hr_status hr_kernel_measure(hr_kernel *kernel, hr_timing *out);
HR_API hr_status hr_kernel_floor(hr_kernel *kernel, hr_floor *out);
/* Evaluates the meaning of sampled elements on the bound inputs, launches once, compares. Writes the results.
 */
HR_API hr_status hr_kernel_check(hr_kernel *kernel, int64_t points, hr_check *out);
/* The same as hr_kernel_run checks: besides, all elements are compared with those of the unfused version, the
 * kernel runs again, on memory that holds nothing useful, and inputs must be what they were. Inout arrays
 * that hr_kernel_fill made begin with what it put there; those of the caller's beyond 32 MB together let the
 * kernel run once only, and nothing is compared but samples. */
HR_API hr_status hr_kernel_check_all(hr_kernel *kernel, hr_check *out);
/* The plan in words, `headroom explain`'s text; valid until the kernel is prepared again or destroyed. */
HR_API hr_status hr_kernel_plan(hr_kernel *kernel, const char **out);
/* The generated source, self-contained: `source` the .c or .cu, `header` the .h; valid as above. */
HR_API hr_status hr_kernel_source(hr_kernel *kernel, const char **source, const char **header);

/* What generated source is for. */
typedef enum hr_source_form {
    HR_SOURCE_AS_PLANNED, /* these extents fast, and all others beside them; C: for the processor at hand */
    HR_SOURCE_EVERY_PROCESSOR, /* C: AVX-512, AVX2 and all other x86-64 in one file, chosen as it runs */
    HR_SOURCE_THESE_EXTENTS    /* those that the fast path holds for alone: it refuses all others */
} hr_source_form;

/* How generated source is to be: begins with its own size, all zero is the default. */
typedef struct hr_emit_options {
    size_t size;
    const char *name;   /* of the function; NULL = hr_kernel_symbol() */
    const char *header; /* of the file that the source includes; NULL = the function's name and ".h" */
    hr_source_form form;
} hr_emit_options;

/* hr_kernel_source with a say; valid until the next call of either, too. HR_BAD_INPUT where the name is none
 * that a function of C can have. `options`: NULL = hr_kernel_source. */
HR_API hr_status hr_kernel_emit(hr_kernel *kernel, const hr_emit_options *options, const char **source,
                                const char **header);

/* ---- sequences: kernels in order over buffers ---- */

/* Launches in order, made once and launched often. One kernel may serve many calls. Buffers live from the
 * call that writes them to the last one that reads them, and share one arena. Sizes and places may grow with
 * a number that each launch gives, the step: a cache's length, say. Kernels and memory that are given must
 * live as long as the sequence; one thread uses it at a time. */
typedef struct hr_sequence hr_sequence;

#define HR_SEQUENCE_RANK 8

typedef struct hr_step_size {
    int64_t fixed, scaled; /* fixed + scaled * step */
} hr_step_size;

/* An array of a call: in a buffer, or in memory of the device that the caller owns. */
typedef struct hr_sequence_array {
    size_t size;
    int buffer; /* of hr_sequence_buffer, -1: `data` */
    void *data; /* a scalar's value, in the host's memory; NULL as in hr_kernel_execute */
    hr_dtype dtype;
    int rank;
    hr_step_size shape[HR_SEQUENCE_RANK];
    hr_step_size offset; /* elements from the buffer's or the memory's beginning to the array's */
    bool strided;        /* else row-major without gaps */
    int64_t strides[HR_SEQUENCE_RANK];
} hr_sequence_array;

HR_API hr_status hr_sequence_create(hr_device *device, hr_sequence **out);
HR_API void hr_sequence_destroy(hr_sequence *sequence);
/* A buffer of so many bytes; `name` is for messages. */
HR_API hr_status hr_sequence_buffer(hr_sequence *sequence, const char *name, size_t bytes, int *out);
/* Adds a call, with an array for each argument in the order of hr_kernel_argument. The descriptions are
 * copied. */
HR_API hr_status hr_sequence_call(hr_sequence *sequence, hr_kernel *kernel, const hr_sequence_array *arrays,
                                  int count);
/* Adds a copy of one array to another, both without strides and of one number of bytes: within the device, or
 * to or from memory of the host that hr_device_allocate_pinned gave. On CUDA it runs beside the calls, on a
 * stream of copies: it begins when the calls before it that use the same bytes have ended, and calls behind
 * it that use them wait. So a copy that loads a later call's weights stands as early as their buffer is free.
 */
HR_API hr_status hr_sequence_copy(hr_sequence *sequence, const hr_sequence_array *to,
                                  const hr_sequence_array *from);
/* Gives the buffers their places and takes the arena. hr_sequence_launch does so where it has not been done.
 */
HR_API hr_status hr_sequence_plan(hr_sequence *sequence);
/* All calls in their order, as by hr_kernel_execute. The first launch compiles. HR_BAD_INPUT where an array
 * does not lie in its buffer at this step; nothing has run then.
 *
 * On a CPU a launch is one job of the device's threads, which wait for each other only where a call needs
 * what another thread makes. HR_OUT_OF_RANGE: a subscript left its axis; calls that need what it makes have
 * not run.
 *
 * On CUDA a launch is queued on the device's stream, and nothing is waited for. From the second on it is one
 * CUDA graph; kernels whose arrays or scalars changed with the step are patched in it. Where the driver
 * refuses, calls are queued one by one, and hr_sequence_info_get says why. HR_OUT_OF_RANGE: a subscript left
 * its axis in an earlier launch. */
HR_API hr_status hr_sequence_launch(hr_sequence *sequence, int64_t step);
/* Compiles and patches what a launch of this step needs and launches nothing: on CUDA the launch before may
 * still run. */
HR_API hr_status hr_sequence_prepare(hr_sequence *sequence, int64_t step);

/* hr_sequence_launch call by call, each checked against its text on what the calls before it made: `points`
 * elements of each, 0 = 64. *out: the worst of all, and in `where` which call's it is. Waited for. */
HR_API hr_status hr_sequence_check(hr_sequence *sequence, int64_t step, int64_t points, hr_check *out);

typedef enum hr_sequence_timing {
    HR_TIMING_WHOLE, /* one time for all, as they overlap */
    HR_TIMING_CALLS  /* each call for itself, one behind the other */
} hr_sequence_timing;

/* hr_sequence_launch by the device's clock, waited for. On a CPU each launch is timed both ways. */
HR_API hr_status hr_sequence_launch_timed(hr_sequence *sequence, int64_t step, hr_sequence_timing timing);

typedef struct hr_sequence_info {
    int64_t launches;              /* since the times were cleared */
    size_t memory;                 /* bytes that it took: buffers, and scratch of its calls */
    double seconds, calls_seconds; /* of a launch as a whole, and of its calls one by one: means of those that
                                      were timed so; 0 = none was. What copies take of the latter and not of
                                      the former was hidden behind kernels */
    int64_t captures, patches, replays; /* of CUDA graphs: made, kernels changed in one, launched */
    const char *refusal;                /* why calls are queued one by one; "" = nothing hinders a graph */
    int64_t meetings; /* of a CPU's threads: how often all waited for each other in the last launch */
} hr_sequence_info;

HR_API hr_status hr_sequence_info_get(const hr_sequence *sequence, hr_sequence_info *out);
HR_API size_t hr_sequence_memory(const hr_sequence *sequence);  /* the same bytes */
HR_API int hr_sequence_call_count(const hr_sequence *sequence); /* with copies */

typedef struct hr_call_info {
    const char *kernel; /* "copy": none */
    double seconds;     /* of all its launches together, from those that were timed by their calls */
    int64_t launches;   /* since the times were cleared */
    double bytes;       /* that the text asks for, at the step of the last launch */
    hr_floor floor;     /* by `roof`; all 0 without one */
} hr_call_info;

HR_API hr_status hr_sequence_call_info(const hr_sequence *sequence, int i, const hr_roof *roof,
                                       hr_call_info *out);
HR_API void hr_sequence_times_clear(hr_sequence *sequence);

/* ---- models ---- */

/* A language model: weights and tokenizer from a file, the calls of its family from a text, a context of the
 * tokens that it was fed. One thread uses it at a time. */
typedef struct hr_model hr_model;

typedef struct hr_model_options {
    size_t size;
    const char *text_path; /* a family's text in place of those that the library knows; NULL = these */
    int64_t context;       /* tokens that there is room for; 0 = as many as the model was taught with */
    int threads;           /* 0 = all; at most the processors there are */
} hr_model_options;

/* `path`: a GGUF file, or a folder with config.json, safetensors files and tokenizer.json; without that a
 * model is fed tokens. The file stays mapped. On a CPU weights are used where they lie, or packed as the
 * first step is built; on a GPU all are brought to its memory, what is in blocks as f16. HR_BAD_INPUT names
 * what is broken in it, or what its family does not know. `options` may be NULL. */
HR_API hr_status hr_model_open(hr_device *device, const char *path, const hr_model_options *options,
                               hr_model **out);
HR_API void hr_model_destroy(hr_model *model);

typedef struct hr_model_info {
    const char *family, *name; /* name: as the file says, "" where it does not */
    int64_t layers, vocabulary, context;
    int64_t past;        /* tokens in the context */
    double weight_bytes; /* of all tensors, as they are stored, and of those that are packed, as that */
    double cache_bytes;  /* of a full context */
    double step_bytes;   /* of the buffers of a step, the largest so far */
} hr_model_info;

HR_API hr_status hr_model_info_get(const hr_model *model, hr_model_info *out);

typedef enum hr_special_names {
    HR_SPECIAL_AS_TEXT,  /* names of special tokens in a text are text like any other: what users type */
    HR_SPECIAL_AS_TOKENS /* they are the tokens: what a chat template wrote */
} hr_special_names;

/* The tokens of a text in memory for free(), without what every text begins with. */
HR_API hr_status hr_model_encode(const hr_model *model, const char *text, size_t length,
                                 hr_special_names names, int32_t **out, size_t *count);
/* The same, behind what every text begins with. */
HR_API hr_status hr_model_prompt(const hr_model *model, const char *text, size_t length,
                                 hr_special_names names, int32_t **out, size_t *count);
/* What a text begins with, -1 = nothing. */
HR_API int32_t hr_model_begin_token(const hr_model *model);
/* Whether a text ends here. */
HR_API bool hr_model_token_ends(const hr_model *model, int32_t token);
/* The bytes of a token, owned by the model; none for one that is no text. A character may be spread over two
 * tokens. */
HR_API hr_status hr_model_token_text(const hr_model *model, int32_t token, const char **text, size_t *length);

/* What is said in a chat; "system", "user" or "assistant". */
typedef struct hr_chat_turn {
    const char *role, *text;
} hr_chat_turn;

/* The turns as the model was taught to read them, up to where it is to answer; for free(), to be encoded with
 * HR_SPECIAL_AS_TOKENS. Special names inside of a turn's text are taken apart, so that they are none.
 * HR_BAD_INPUT where the file's chat template is none of those that are known (ChatML, Llama-3, Gemma), or
 * has no system turns and a user's turn does not follow one. */
HR_API hr_status hr_model_chat(const hr_model *model, const hr_chat_turn *turns, int count, char **out);

#define HR_MODEL_ANSWERS 64

/* Appends tokens to the context and gives the logits of the last `answers` of them, at most HR_MODEL_ANSWERS:
 * rows of the vocabulary, owned by the model until the next call; `logits` may be NULL. HR_BAD_INPUT where
 * there is no room. */
HR_API hr_status hr_model_feed(hr_model *model, const int32_t *tokens, int64_t count, int64_t answers,
                               const float **logits);
/* The context is its first `tokens` tokens again. */
HR_API hr_status hr_model_keep(hr_model *model, int64_t tokens);

/* How a token is chosen: those that are likely enough are kept, then one is drawn by its probability. */
typedef struct hr_sampling {
    size_t size;
    double temperature; /* 0 = the likeliest, the first of equals */
    int64_t top_k;      /* only the k likeliest; 0 = all */
    double top_p;       /* the likeliest that have so much of the probability together; 0 or 1 = all */
    double min_p;       /* those with at least this part of the likeliest one's probability; 0 = all */
    uint64_t seed;      /* with the position, all that chance depends on */
} hr_sampling;

/* Chooses from a row of logits for the token at `position`. */
HR_API hr_status hr_model_sample(hr_model *model, const float *logits, const hr_sampling *sampling,
                                 int64_t position, int32_t *out);

/* Text as it comes, whole characters; return false to stop. */
typedef bool (*hr_said_fn)(void *context, const char *text, size_t length);

typedef struct hr_generate_options {
    size_t size;
    int64_t most; /* tokens to generate; 0 = until the text ends or the context is full */
    hr_sampling sampling;
    hr_said_fn said;
    void *said_context;
    hr_progress_fn
        progress; /* while the text that is there is read, which may compile; NULL = nobody watches */
    void *progress_context;
    /* Speculative decoding: so many tokens are guessed and checked by one step together; less than
     * HR_MODEL_ANSWERS, 0 = none. The text stays the same but where two tokens are as likely within rounding.
     */
    int64_t draft;
    hr_model *draft_model; /* guesses; of the same tokens. NULL = what followed the same words before */
} hr_generate_options;

/* Why a text ended. */
typedef enum hr_text_end { HR_END_STOP, HR_END_MOST, HR_END_CONTEXT, HR_END_CANCELLED } hr_text_end;

typedef struct hr_generation {
    int64_t prompt_tokens, fed_tokens; /* fed: those that the context did not hold already */
    int64_t tokens;
    double prompt_seconds; /* until the first token was known */
    double seconds;        /* of all tokens after the first, with what the model that guesses reads; compiling
                              their step goes before */
    hr_text_end end;
    int64_t drafted, accepted; /* tokens that were guessed, and those that were right */
} hr_generation;

/* Goes on with a text of `count` tokens. What of it the context holds from before is not fed again.
 * HR_BAD_INPUT where it is longer than the context, HR_CANCELLED where `progress` stopped it. */
HR_API hr_status hr_model_generate(hr_model *model, const int32_t *tokens, int64_t count,
                                   const hr_generate_options *options, hr_generation *out);

/* ---- many texts at once ---- */

/* A text to go on with. Chance depends on its seed and the positions of its tokens, not on what else runs. */
typedef struct hr_request {
    size_t size;
    const int32_t *tokens;
    int64_t count;
    int64_t most; /* tokens to generate; 0 = until the text ends or the context is full */
    hr_sampling sampling;
} hr_request;

typedef struct hr_response {
    int32_t *tokens; /* for free(); without the one that ended the text */
    int64_t count;
    hr_text_end end;
    int64_t reused;                /* tokens of the prompt that another request had brought already */
    double log_probability;        /* of the tokens, the one that ended the text too, at temperature 1 */
    double first_seconds, seconds; /* until its first token, and its last one, from the beginning of all */
} hr_response;

typedef struct hr_batch_options {
    size_t size;
    int at_once;             /* requests that share a step; 0 = 16, at most 64 */
    int64_t chunk;           /* tokens of a step; 0 = 256, on a GPU 1024; at most 2048 */
    hr_progress_fn progress; /* requests that have ended, of all; NULL = nobody watches */
    void *progress_context;
} hr_batch_options;

typedef struct hr_batch_totals {
    int64_t prompt_tokens, reused, tokens;
    int64_t steps, rows; /* rows: tokens that steps computed, those twice whose pages were taken meanwhile */
    int64_t preempted;   /* requests whose pages were taken, which then begin anew */
    double seconds;
} hr_batch_totals;

/* Goes on with `count` texts. Requests join and leave from step to step; a step takes a token of each text
 * that is written and as much of those that are read as there is room for. Keys and values lie in pages of 16
 * tokens of the model's context, which all of them share; equal beginnings share their pages. A request's
 * tokens are the same bits whatever else runs. The context holds no text afterwards. HR_BAD_INPUT where one
 * is longer than the context; HR_CANCELLED where `progress` stopped it. `options` may be NULL. */
HR_API hr_status hr_model_respond(hr_model *model, const hr_request *requests, int count,
                                  const hr_batch_options *options, hr_response *out, hr_batch_totals *totals);
/* Frees the tokens of responses; the array is the caller's. */
HR_API void hr_responses_destroy(hr_response *responses, int count);
/* Requests from a file of one JSON object a line: "prompt", or "chat" for the turn of a user; "n",
 * "temperature", "top_k", "top_p", "min_p" and "seed" in place of the defaults. Without a seed a request has
 * that of the defaults plus the number of its line, from 0. HR_BAD_INPUT names the line. */
HR_API hr_status hr_requests_read(const hr_model *model, const char *path,
                                  const hr_generate_options *defaults, hr_request **out, int *count);
HR_API void hr_requests_destroy(hr_request *requests, int count);

/* The sequence of the last step, for its times; NULL before the first. Owned by the model. */
HR_API hr_sequence *hr_model_sequence(const hr_model *model);
#define HR_MODEL_SEQUENCES 16
/* Those of the steps that made the last text's tokens after the first, up to `most` of them, which
 * HR_MODEL_SEQUENCES always is enough for; their times are of that text alone. Gives how many there are. */
HR_API int hr_model_sequences(const hr_model *model, const hr_sequence **out, int most);

/* ---- the main job: fill, tune, check, measure ---- */

/* Gives every unbound tensor memory of the device: inputs normal (floats; magnitudes where the text takes
 * their root or logarithm) or in range (whole numbers; those used as subscripts within their axis), the same
 * for one seed; results untouched. The kernel owns it. Unbound extents get defaults first. */
HR_API hr_status hr_kernel_fill(hr_kernel *kernel, uint64_t seed);

/* What floats are filled with: random numbers of mean 0 hide that a sum loses what all addends have in
 * common.
 */
typedef enum hr_values {
    HR_VALUES_MEAN_0,  /* normal */
    HR_VALUES_MEAN_1,  /* normal, and 1 */
    HR_VALUES_POSITIVE /* magnitudes of normal numbers: one sign */
} hr_values;

/* hr_kernel_fill with other values; that one is HR_VALUES_MEAN_0. */
HR_API hr_status hr_kernel_fill_as(hr_kernel *kernel, uint64_t seed, hr_values values);
/* The array now bound to a name, for saving. */
HR_API hr_status hr_kernel_array(const hr_kernel *kernel, const char *name, hr_array *out);
/* HR_BAD_INPUT while its value is unknown; `name` is given all the same. */
HR_API hr_status hr_kernel_extent(const hr_kernel *kernel, int i, const char **name, int64_t *value);
HR_API int hr_kernel_extent_count(const hr_kernel *kernel);
HR_API const char *hr_kernel_extent_name(const hr_kernel *kernel,
                                         int i); /* NULL where there is no number i */
/* The dtype variables, and what each stands for at present; `name` and `dtype` may be NULL, and NULL is a
 * kernel without any. */
HR_API int hr_kernel_dtype_count(const hr_kernel *kernel);
HR_API const char *hr_kernel_dtype_name(const hr_kernel *kernel, int i); /* NULL where there is no number i */
HR_API hr_status hr_kernel_dtype(const hr_kernel *kernel, int i, const char **name, hr_dtype *dtype);

typedef struct hr_stage_info {
    const char *shape, *name, *why;
    const char *materialised; /* names of locals that it writes to memory, "" where none */
    double bytes, flops, floor_seconds;
} hr_stage_info;

typedef struct hr_variant {
    char label[96]; /* "stores streaming, accumulators 2", "stage 2: jam 2": hr_tuning_help() */
    double seconds;
    bool chosen;
} hr_variant;

#define HR_REPEAT_MOST 1000

typedef struct hr_run_options {
    size_t size;
    hr_tune tune;
    bool no_verify, no_unfused;
    int64_t points; /* to verify; 0 = a default that takes at most a second or two */
    double seconds; /* to spend measuring; 0 = a default */
    hr_progress_fn progress;
    void *progress_context;
    /* Called once after the checked launch, while results and inouts hold exactly one application; NULL =
     * not. */
    hr_status (*saved)(void *context, hr_kernel *kernel);
    void *saved_context;
    /* Brings the old values of an inout array that the caller bound back, after tuning has launched on it;
     * NULL = hr_kernel_run copies such arrays while it tunes. */
    hr_status (*restore)(void *context, const char *name, const hr_array *array);
    void *restore_context;
    int threads; /* 0 = what hr_kernel_prepare was told, else all; at most the processors there are */
    int repeat;  /* how often it is measured, at most HR_REPEAT_MOST; 0 = as often as `seconds` allow */
} hr_run_options;

/* All that a report says of a run. Strings and arrays belong to the result. */
typedef struct hr_run_result {
    const char *kernel, *file, *device_kind, *device_name;
    int extent_count;
    const char *const *extent_names;
    const int64_t *extents;
    const char *plan_summary;
    int stage_count;
    const hr_stage_info *stages;
    hr_timing seconds, unfused; /* unfused.runs = 0: not measured */
    hr_floor floor;
    double headroom, roof_fraction; /* seconds.median / floor.seconds and its inverse */
    bool verify_done;
    hr_check verified;
    struct {
        int tried;
        double seconds;
        bool cached;
        char left[128]; /* a choice that gave a wrong result and is not kept; "" = none */
    } tune;
    int variant_count;
    const hr_variant *variants;
    const char *source; /* generated */
    hr_roof roof;
    hr_baseline baseline; /* all 0 where the device offers no such copy or the bytes fit in its caches */
    /* Bytes a second of the kept roof's copy before the baseline copy was clearly faster, and raised
     * it; 0 = it did not. The same of baseline.special's functions. `roof` and `floor` are by the raised
     * ones.
     */
    double roof_was, special_was;
    double busy; /* share of the time in which other programs were in the way while it was measured, the
                    quieter of two times where that was more than 0.1 */
    double unfused_part; /* of the work, on which `unfused` was timed; its seconds are those of the whole */
    int dtype_count;     /* dtype variables, and what they stood for */
    const char *const *dtype_names;
    const hr_dtype *dtypes;
    int threads;           /* it ran on; CUDA: multiprocessors */
    const double *samples; /* the seconds.runs measured times, in their order; NULL where runs is 0 */
} hr_run_result;

/* Tunes, applies the kernel once and checks it, calls `saved`, measures it beside the unfused version (left
 * out where that is the same code; timed on a part of the work where its locals would need more than 32 MB,
 * and left out where there is no such part). A wrong result is no failure: HR_OK with verified.ok = false.
 * Afterwards inout arrays and results hold what measuring left. */
HR_API hr_status hr_kernel_run(hr_kernel *kernel, const hr_run_options *options, hr_run_result **out);
/* The same without running anything: plan, stages and floor, no times. The floor goes by the roof that is
 * kept; it has seconds 0 and no bound where none is. */
HR_API hr_status hr_kernel_explain(hr_kernel *kernel, hr_run_result **out);
HR_API void hr_run_result_destroy(hr_run_result *result);

/* ---- arrays from files ---- */

/* A NumPy .npy file as an array: mapped, never copied. The mapping is private, so a kernel may write to it
 * (an inout) and the file stays as it is. Format versions 1.0 to 3.0, C and Fortran order, little-endian.
 * NumPy has no bf16 and no f8: they are carried as raw elements of their size (V2, V1) or as u2, u1, and
 * `wanted`, the dtype that the kernel declares, says what those hold. HR_DTYPE_COUNT: the dtype that the file
 * says itself, V2 being bf16; u2 and V1 say none. HR_BAD_INPUT where the file is no such array, HR_IO
 * where it cannot be read; a file that another program shortens meanwhile ends this one with SIGBUS. */
typedef struct hr_npy hr_npy;
HR_API hr_status hr_npy_open(const char *path, hr_dtype wanted, hr_npy **out);
HR_API const hr_array *hr_npy_array(const hr_npy *npy); /* belongs to the handle, as its data does */
/* The one element of an array without axes, for hr_kernel_bind_scalar. HR_BAD_INPUT where it has axes, or is
 * a whole number that an f64 does not hold. */
HR_API hr_status hr_npy_scalar(const hr_npy *npy, double *out);
HR_API void hr_npy_destroy(hr_npy *npy);
/* Takes back what was written to the mapping: the elements are those of the file again. */
HR_API hr_status hr_npy_reset(hr_npy *npy);
/* Writes a whole file or none of it, elements in row-major order. bf16 and f8 are written as V2 and V1, so
 * that np.load(path).view(ml_dtypes.bfloat16) reads them; `as_unsigned`: as u2 and u1. */
HR_API hr_status hr_npy_save(const char *path, const hr_array *array, bool as_unsigned);
/* Writes a whole file or none of it. */
HR_API hr_status hr_file_save(const char *path, const void *data, size_t length);

/* ---- reports ---- */

/* Each function makes a text of results and gives it through `out`, for free(). */

typedef struct hr_report_style {
    size_t size;
    int width;    /* columns of the terminal; 0 = 100 */
    bool colour;  /* ANSI colours */
    bool unicode; /* bars and signs beyond ASCII */
} hr_report_style;

/* About ten lines: plan, time, floor, headroom, fusion, check. `style` may be NULL. */
HR_API hr_status hr_report_run_text(const hr_run_result *result, const hr_report_style *style, char **out);
/* One JSON object; headroom-run(1) names its keys. */
HR_API hr_status hr_report_run_json(const hr_run_result *result, char **out);
/* The stages and why each has its shape, as one JSON object: `headroom explain --json`. */
HR_API hr_status hr_report_explain_json(const hr_run_result *result, char **out);
/* One self-contained page with the roofline plot, the variants, the plan and the source. */
HR_API hr_status hr_report_run_html(const hr_run_result *result, char **out);

/* Where the time of a sequence's launches went, kernel by kernel, beside the floor by `roof` (NULL: without).
 */
HR_API hr_status hr_report_sequence_text(const hr_sequence *sequence, const hr_roof *roof,
                                         const hr_report_style *style, char **out);

/* What was generated, for a report: `sequences` are those of the steps that made tokens, of a model that
 * guessed, too; `roof` and `text` may be NULL. */
typedef struct hr_generation_report {
    size_t size;
    hr_model_info model;
    hr_generation generation;
    const hr_sequence *const *sequences;
    int sequence_count;
    const hr_roof *roof;
    const char *file, *text, *device_name;
} hr_generation_report;

/* Tokens a second, bytes a second, floor and memory, in a few lines. */
HR_API hr_status hr_report_generation_text(const hr_generation_report *report, const hr_report_style *style,
                                           char **out);
/* One JSON object; headroom-generate(1) names its keys. */
HR_API hr_status hr_report_generation_json(const hr_generation_report *report, char **out);

/* A response as one line of JSON; headroom-generate(1) names its keys. `number`: of the request, from 0. */
HR_API hr_status hr_report_response_json(const hr_model *model, const hr_request *request,
                                         const hr_response *response, int number, char **out);
/* Tokens a second, latencies at 50 and 99 in a hundred, what was shared. */
HR_API hr_status hr_report_batch_text(const hr_response *responses, int count, const hr_batch_totals *totals,
                                      const hr_report_style *style, char **out);

/* A line on the floor and one on the work that it counts. */
HR_API hr_status hr_report_floor_text(const hr_floor *floor, const hr_roof *roof,
                                      const hr_report_style *style, char **out);

HR_API hr_status hr_report_roof_text(const hr_device *device, const hr_roof *roof,
                                     const hr_report_style *style, char **out);
HR_API hr_status hr_report_roof_json(const hr_device *device, const hr_roof *roof, char **out);
HR_API hr_status hr_report_roof_html(const hr_device *device, const hr_roof *roof, char **out);

/* One line of the bench table. */
typedef struct hr_bench_row {
    const char *dtype;           /* of the arrays that carry most bytes, in words: "bf16" */
    const hr_run_result *result; /* NULL: it failed, and `kernel` and `error` say how */
    const char *kernel, *error;
    int passes;                 /* how often it was run; `result` is the one in the middle */
    double now_least, now_most; /* of all, by baseline.roof_fraction; 0 = not known */
} hr_bench_row;

typedef struct hr_bench {
    size_t size;
    const char *command; /* the command line that made it */
    const char *device_kind, *device_name;
    hr_roof roof;
    double started_at; /* seconds since the epoch */
    int row_count;
    const hr_bench_row *rows;
} hr_bench;

/* The table's heading alone (`row` NULL), or one line of it, so that it can be shown as it grows. */
HR_API hr_status hr_report_bench_line(const hr_bench_row *row, const hr_roof *roof,
                                      const hr_report_style *style, char **out);
HR_API hr_status hr_report_bench_json(const hr_bench *bench, char **out);
HR_API hr_status hr_report_bench_csv(const hr_bench *bench, char **out);

/* One extent of a kernel at several values, all else being equal. */
typedef struct hr_extent_point {
    int64_t value;
    const hr_run_result *result; /* NULL: it failed, and `error` says how */
    const char *error;
} hr_extent_point;

typedef struct hr_extent_sweep {
    size_t size;
    const char *command, *extent; /* the command line that made it; "M" */
    int count;
    const hr_extent_point *points; /* by rising value */
} hr_extent_sweep;

/* Time, rate and headroom of each, and the knee: the smallest value whose rate is within 10 % of the best. */
HR_API hr_status hr_report_sweep_text(const hr_extent_sweep *sweep, const hr_report_style *style, char **out);
HR_API hr_status hr_report_sweep_json(const hr_extent_sweep *sweep, char **out);
HR_API hr_status hr_report_sweep_html(const hr_extent_sweep *sweep, char **out);

/* ---- ladders: a kernel of the library in steps, from its naive form to the tool's own ---- */

typedef struct hr_ladder_info {
    const char *name, *kernel, *title; /* "gemm", "matmul" of the library, what it computes */
    const char *sizes;                 /* "M=4096 N=4096 K=4096": the defaults */
    int step_count;
} hr_ladder_info;

typedef struct hr_ladder_step_info {
    const char *name;
    const char *shared, *text; /* CUDA C: what it has in common with other steps ("" nothing), and its file */
    char about[640];           /* what changed, and why the hardware likes it */
    const char *needs;         /* "sm_80": from there on; "sm_90a": that alone */
} hr_ladder_step_info;

/* HR_BAD_INPUT where there is no ladder `i`, no step `number`; these count from 0 and from 1. */
HR_API hr_status hr_ladder_describe(int i, hr_ladder_info *out);
HR_API hr_status hr_ladder_step_describe(int i, int number, hr_ladder_step_info *out);

typedef struct hr_ladder_options {
    size_t size;
    int only;       /* this step alone, beside the one before it; 0 = all */
    hr_tune tune;   /* of the last step, the tool's own kernel */
    double seconds; /* to spend measuring a step; 0 = a default */
    hr_progress_fn progress;
    void *progress_context;
} hr_ladder_options;

typedef struct hr_ladder_row {
    int number;
    const char *name;
    const char *fault; /* why it did not run; NULL: it did */
    hr_timing seconds;
    double gain;     /* time of the step before, measured alternately, over this one's; 0 = there is none */
    double headroom; /* seconds.median over the floor */
    double scratch;  /* bytes of intermediate results in memory */
    hr_check verified;
} hr_ladder_row;

typedef struct hr_ladder_result {
    hr_ladder_info ladder;
    const char *device_kind, *device_name, *sizes;
    hr_floor floor;
    hr_roof roof;
    int row_count;
    const hr_ladder_row *rows;
} hr_ladder_result;

/* Runs the steps of ladder `i` on the arrays of `kernel`, which is that of its name with its floats in bf16,
 * on a CUDA device: each checked in f64 against the text, measured with cold caches. The kernel's tensors are
 * filled where they are not bound. */
HR_API hr_status hr_ladder_run(hr_kernel *kernel, int i, const hr_ladder_options *options,
                               hr_ladder_result **out);
HR_API void hr_ladder_result_destroy(hr_ladder_result *result);
HR_API hr_status hr_report_ladder_text(const hr_ladder_result *result, const hr_report_style *style,
                                       char **out);
HR_API hr_status hr_report_ladder_json(const hr_ladder_result *result, char **out);
HR_API hr_status hr_report_ladder_html(const hr_ladder_result *result, char **out);

/* ---- recording a program ---- */

/* Hardware counters beside the activity. */
typedef enum hr_counters_mode {
    HR_COUNTERS_NONE,
    HR_COUNTERS_KERNELS,  /* of the first launches of each kernel: what one run can count */
    HR_COUNTERS_REPLAYED, /* the same and more, by running these launches three times over the same memory */
    HR_COUNTERS_SAMPLED   /* of the whole GPU, 5000 times a second, without touching the program */
} hr_counters_mode;

typedef struct hr_record_options {
    size_t size;
    const char *output; /* "headroom.hrt" where NULL; FILE.rank0.hrt, ... where several processes record */
    double seconds;     /* records this long only; 0 = until the program ends */
    const char *from_range;    /* begins at the first NVTX range of this name, or of this name and a number */
    int64_t steps;             /* ends after so many ranges of that name, or of one called step; 0 = never */
    hr_counters_mode counters; /* where they are not to be had, a note says why and the rest is recorded */
} hr_record_options;

typedef struct hr_recorded_file {
    size_t size;
    char path[4096];
    int64_t process, bytes, records;
    int64_t kernels, calls, ranges, dropped; /* dropped: records that there was no room for */
    int rank;                                /* -1 = not known */
    bool complete;                           /* the program came to its own end */
    char *notes;                             /* sentences for the user, a line each; NULL = none */
    int64_t counted, samples;                /* launches with hardware counters; intervals of sampled ones */
    bool out_of_memory;                      /* the process had none for some records; a note says so */
} hr_recorded_file;

typedef struct hr_recording hr_recording;

/* Runs `program` (a path or a name in PATH, its arguments, NULL) to its end with the recorder loaded into
 * each of its processes that use CUDA or NVTX. The program itself does not change and keeps the terminal;
 * SIGINT and SIGQUIT are ignored here meanwhile. Files that were there under the names of the new ones are
 * replaced. */
HR_API hr_status hr_program_record(const hr_record_options *options, const char *const *program,
                                   hr_recording **out);
/* Records the process that calls, from now until hr_recording_end(), in the same way: for one loop of a
 * program, or from an interpreter. Processes that it starts meanwhile are recorded, too. One recording at a
 * time, as often as wanted, and no other profiler beside it. NVTX's ranges are recorded where a library's
 * first one comes in a recording: NVTX asks for a recorder once. The environment is changed meanwhile.
 * Counters are not available. */
HR_API hr_status hr_recording_begin(const hr_record_options *options, hr_recording **out);
/* Waits for the device, writes the files and gives them their names; nothing where it has ended.
 * hr_recording_destroy() does the same. */
HR_API hr_status hr_recording_end(hr_recording *recording);
/* The program's; 128 + N where signal N ended it; 0 of this process. */
HR_API int hr_recording_exit_code(const hr_recording *recording);
HR_API int hr_recording_file_count(const hr_recording *recording);
/* Owned by the recording; NULL outside 0..count-1. By rank, then by process. */
HR_API const hr_recorded_file *hr_recording_file(const hr_recording *recording, int place);
HR_API void hr_recording_destroy(hr_recording *recording);

/* ---- diagnosing ---- */

typedef struct hr_diagnosis hr_diagnosis;

/* How several files belong together. */
typedef enum hr_diagnose_mode {
    HR_DIAGNOSE_AUTO,   /* two files that do not name different ranks are compared, all else are ranks */
    HR_DIAGNOSE_RANKS,  /* ranks of one run */
    HR_DIAGNOSE_COMPARE /* before and after: two files */
} hr_diagnose_mode;

typedef struct hr_diagnose_options {
    size_t size;
    hr_diagnose_mode mode;
    const hr_roof *roof;     /* measured roofs of the device, NULL = known figures of the trace's device */
    const char *roof_device; /* its name, where `roof` is given */
    hr_progress_fn progress;
    void *progress_context;
} hr_diagnose_options;

/* Reads traces (headroom record, PyTorch/Kineto JSON, Nsight Systems SQLite, Nsight Compute CSV) and says
 * what limits the program, what to do, and what each remedy would gain. HR_BAD_INPUT names the file and the
 * byte that could not be read. `options` may be NULL. */
HR_API hr_status hr_diagnose(const char *const *paths, int count, const hr_diagnose_options *options,
                             hr_diagnosis **out);
HR_API void hr_diagnosis_destroy(hr_diagnosis *diagnosis);

/* A finding; strings belong to the diagnosis. */
typedef struct hr_finding_info {
    const char *id, *title; /* "launch-bound", a sentence */
    const char *remedy, *code, *effort;
    double gain;          /* predicted fraction of a step, 0 to 1 */
    double seconds_saved; /* a step */
    double confidence;    /* 0 to 1 */
} hr_finding_info;

/* By falling gain; "healthy" comes first where no gain is above 5 %. HR_BAD_INPUT where there is no number i.
 */
HR_API int hr_diagnosis_finding_count(const hr_diagnosis *diagnosis);
HR_API hr_status hr_diagnosis_finding(const hr_diagnosis *diagnosis, int i, hr_finding_info *out);
/* Seconds of a step, the mean of those that count. */
HR_API double hr_diagnosis_step(const hr_diagnosis *diagnosis);

/* The verdict in three lines, then where a step goes, then the findings. `style` may be NULL. */
HR_API hr_status hr_report_diagnosis_text(const hr_diagnosis *diagnosis, const hr_report_style *style,
                                          char **out);
/* One JSON object; headroom-diagnose(1) names its keys. */
HR_API hr_status hr_report_diagnosis_json(const hr_diagnosis *diagnosis, char **out);
/* One self-contained page: verdict, timeline of the median step, findings with what each would gain, kernels.
 */
HR_API hr_status hr_report_diagnosis_html(const hr_diagnosis *diagnosis, char **out);
/* The trace in the JSON that ui.perfetto.dev opens, with the critical path and the findings as tracks. */
HR_API hr_status hr_report_diagnosis_perfetto(const hr_diagnosis *diagnosis, char **out);

#ifdef __cplusplus
}
#endif
#endif
