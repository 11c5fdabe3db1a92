/* What limits a program: a trace and the device's roofs -> steps, time accounted for, findings with their
 * gain.
 *
 * In: a trace (trace/trace.h) and what the device can do. Out: one hr_diagnosis, which reports print and
 * never change. Pure: no device, no file, no clock is touched. Times are ns of the trace, amounts of a step
 * are seconds. Event numbers index trace->events.
 */
#ifndef HR_DIAGNOSE_DIAGNOSE_H
#define HR_DIAGNOSE_DIAGNOSE_H

#include "base/arena.h"
#include "base/handle.h"
#include "diagnose/memory_use.h"
#include "trace/trace.h"

/* Where a moment of a step went. Every moment has exactly one kind. name in JSON, words, group */
#define HR_TIME_KINDS(X)                                                                                     \
    X(MATRIX, "matrix", "matrix products and convolutions", COMPUTE)                                         \
    X(ATTENTION, "attention", "fused attention", COMPUTE)                                                    \
    X(NORMALISATION, "normalisation", "normalisation and softmax", COMPUTE)                                  \
    X(ELEMENTWISE, "elementwise", "elementwise", COMPUTE)                                                    \
    X(OPTIMIZER, "optimizer", "optimizer", COMPUTE)                                                          \
    X(REDUCTION, "reduction", "reductions", COMPUTE)                                                         \
    X(INDEXING, "indexing", "gathers, scatters, sorts", COMPUTE)                                             \
    X(FOURIER, "fourier", "Fourier transforms", COMPUTE)                                                     \
    X(COPY, "copy", "copies and fills in device memory", COMPUTE)                                            \
    X(OTHER, "other", "other kernels", COMPUTE)                                                              \
    X(COMMUNICATION, "exposed-communication", "communication that nothing hides", WAIT)                      \
    X(HOST_LINK, "host-link", "copies to and from the host", WAIT)                                           \
    X(QUEUED, "queued", "idle: queued behind the device", IDLE)                                              \
    X(GAP, "kernel-gap", "idle: between kernels launched ahead", IDLE)                                       \
    X(LAUNCH, "launch", "idle: waiting for launches", IDLE)                                                  \
    X(SYNCHRONISATION, "synchronisation", "idle: the host waited for the device", IDLE)                      \
    X(LOADER, "data-loader", "idle: waiting for input data", IDLE)                                           \
    X(HOST, "host-compute", "idle: other work of the host", IDLE)                                            \
    X(ALLOCATION, "allocation", "idle: memory was allocated or freed", IDLE)                                 \
    X(FIRST_USE, "first-use", "idle: code was loaded or compiled", IDLE)                                     \
    X(UNRECORDED, "unrecorded", "idle, or work that was not recorded", IDLE)

typedef enum hr_time_kind {
#define HR_TIME_KIND_ENUM(id, name, words, group) HR_TIME_##id,
    HR_TIME_KINDS(HR_TIME_KIND_ENUM)
#undef HR_TIME_KIND_ENUM
        HR_TIME_KIND_COUNT
} hr_time_kind;

typedef enum hr_time_group { HR_GROUP_COMPUTE, HR_GROUP_WAIT, HR_GROUP_IDLE } hr_time_group;
const char *hr_time_kind_name(hr_time_kind kind);  /* "data-loader" */
const char *hr_time_kind_words(hr_time_kind kind); /* "idle: waiting for input data" */
hr_time_group hr_time_kind_group(hr_time_kind kind);

/* What the device can do: measured roofs where they are known, else figures of the product. 0 = not known. */
typedef struct hr_ceiling {
    char source[96];                 /* "measured on NVIDIA H200", "its maker's figures for H200, ...", "" */
    double memory;                   /* bytes a second */
    double vector_f32;               /* FLOP/s without tensor cores */
    double tensor_tf32, tensor_half; /* FLOP/s dense */
    double link;                     /* bytes a second to or from pinned host memory, one direction */
    double launch;                   /* seconds from launch to launch of empty kernels */
    int multiprocessors, compute;    /* 132, 90 */
    int warps, threads, blocks;      /* resident on a multiprocessor */
    int64_t registers, shared;       /* of a multiprocessor */
} hr_ceiling;

typedef struct hr_step {
    int64_t start, end; /* as the device lived it: a step begins when the last one's device work has ended */
    int64_t host_start, host_end;
} hr_step;

typedef struct hr_steps {
    const char *found_by; /* "ProfilerStep ranges", "repeated kernels", "the whole trace" */
    const hr_step *items; /* one after the other without gap */
    int count;
    int first;   /* steps before it are warm-up and count for nothing */
    int halted;  /* of those the ones in which the recorder read counters, and the program stood still */
    int chosen;  /* the step whose duration is the median: the one that is drawn */
    double mean; /* what every figure "of a step" is a part of */
    double median, min, max;
    int slow_count; /* steps of two lengths: so many take `slow` on average, the others `usual`; 0 = they do
                       not */
    double slow, usual; /* seconds */
    int behind; /* work that the first step begins with: the device ran older work until then; -1 = none */
} hr_steps;

/* What the file lacks or cannot be right in; counts of one rank. */
typedef struct hr_integrity {
    int64_t launches, lost;        /* calls that start work; those of them whose work is not in the file */
    int64_t copies_lost;           /* copies that held the host, without work in the file */
    int64_t captured;              /* launches that went into a graph, which did nothing yet */
    int64_t graphs, graphs_as_one; /* launches of graphs; those with one kernel in the file */
    int64_t works, orphans;        /* work of devices; without its call in the file */
    int64_t before;                /* of those launched before the recording began: they belong to no step */
    int64_t repeated;              /* calls whose correlation an earlier one has */
    int64_t timeless;              /* works of no duration */
    int64_t early;                 /* works that begin before their call */
} hr_integrity;

/* Counters of a device over the steps that count: means, parts of 1; < 0 = not sampled. */
typedef struct hr_sampled {
    int64_t samples;
    double sm_active, tensor_active, warps_active, dram; /* dram: bandwidth of its peak, both directions */
} hr_sampled;

/* A device of a rank and its share of the same steps. */
typedef struct hr_lane {
    int32_t rank, device; /* rank: into trace->ranks */
    const char *name;     /* of the product, "" = not known */
    hr_steps steps;
    double busy;                              /* fraction of the steps in which it computes */
    double accounted[HR_TIME_KIND_COUNT];     /* seconds of a step; they add up to the mean */
    int64_t accounted_ns[HR_TIME_KIND_COUNT]; /* of all counted steps */
    hr_time_kind slow_kind; /* what the slow steps have most more of, and how much in each */
    double slow_seconds;
    /* Seconds of the trace of this rank, those of them in steps, those before and behind them; of the time
     * outside the part in which the device computes. */
    double trace_seconds, in_steps, before_steps, after_steps, busy_outside;
    hr_integrity integrity;
    double communication, hidden_communication; /* seconds a step, in all and under compute */
    hr_sampled sampled;
} hr_lane;

typedef enum hr_limiter {
    HR_LIMITER_UNKNOWN,
    HR_LIMITER_NONE,
    HR_LIMITER_REGISTERS,
    HR_LIMITER_SHARED,
    HR_LIMITER_BLOCK,
    HR_LIMITER_GRID /* fewer blocks than the device can hold */
} hr_limiter;
const char *hr_limiter_name(hr_limiter limiter); /* "registers" */

typedef enum hr_bound { HR_BOUND_UNKNOWN, HR_BOUND_MEMORY, HR_BOUND_COMPUTE, HR_BOUND_LATENCY } hr_bound;
const char *hr_bound_name(hr_bound bound); /* "memory", "" for unknown */

typedef enum hr_unit { HR_UNIT_UNKNOWN, HR_UNIT_VECTOR, HR_UNIT_TENSOR } hr_unit;

/* All launches of one kernel on the lane, in the steps that count. */
typedef struct hr_kernel_summary {
    int32_t name;           /* into trace strings */
    const char *short_name; /* without template arguments and parameters */
    int32_t operator_name;  /* the operator that launched it most often, -1 = none */
    hr_time_kind kind;
    int64_t count;
    double per_step;                  /* launches */
    double seconds, share;            /* of a step, mean */
    double shortest, median, longest; /* seconds of a launch */
    hr_limiter limiter;
    double occupancy;                   /* that the launch allows, 0..1; < 0 = not known */
    double achieved;                    /* as recorded; < 0 = not known */
    double waves;                       /* grid over what the device holds at once; 0 = not known */
    int registers, shared, block, grid; /* of the first launch; blocks and threads in all */
    hr_unit unit;
    bool full_precision, misaligned; /* products in f32 without tensor cores; sizes that tensor cores pad */
    hr_bound bound;
    double bytes, flops;  /* of a launch, 0 = not known */
    double roof_fraction; /* of the roof that bounds it; 0 = not known */
    bool counted;         /* bytes come from hardware counters, else from shapes */
    double l1_hit, l2_hit, sectors_per_load, sectors_per_store; /* < 0 = not recorded */
    double tensor_instructions, vector_instructions;            /* of a launch; < 0 = not recorded */
    double dram_bytes;                                          /* of a launch; < 0 = not recorded */
    double dram_of_peak, sm_of_peak, tensor_active;             /* parts of 1; < 0 = not recorded */
} hr_kernel_summary;

/* A piece of the chain that determines how long the chosen step takes; from its start to its end, no gap. */
typedef struct hr_path_piece {
    int64_t start, end;
    int32_t event; /* -1: host work between calls, or latency */
    int32_t track; /* into trace->tracks */
    hr_time_kind kind;
} hr_path_piece;

typedef struct hr_evidence {
    const char *text; /* a sentence */
    int32_t event;    /* one place on the timeline, -1 = none */
    int64_t count;    /* of what it speaks of, a step; 0 = none */
    double seconds;   /* a step; 0 = none */
} hr_evidence;

/* Ids and titles stand in finding_list.c. */
typedef struct hr_finding {
    const char *id;    /* "launch-bound" */
    const char *title; /* "The device waits for launches" */
    double gain;       /* predicted fraction of a step, 0..1, this change alone */
    bool is_bound; /* the gain is the most it can be: how long the cause takes by itself is not in the file */
    double marginal; /* fraction of a step that it adds to the changes before it in the list */
    double seconds_saved;
    double confidence;  /* 0..1 */
    const char *remedy; /* in words */
    const char *code;   /* lines, "" = none */
    const char *effort; /* "one line", "hours", "days" */
    const char *caveat; /* what the prediction assumes; "" = nothing to say */
    const hr_evidence *evidence;
    int evidence_count;
    const int32_t *events; /* those of the chosen step that it concerns, in order of time, at most 256 */
    int event_count;
} hr_finding;

/* Before and after, two traces of one program. */
typedef struct hr_change {
    int32_t before_name, after_name; /* into strings of each trace, -1 = absent there */
    const char *name;
    hr_time_kind kind;
    double before, after;             /* seconds a step */
    double before_count, after_count; /* launches a step */
} hr_change;

struct hr_diagnosis {
    hr_handle handle;
    const hr_trace *trace; /* not owned, unless `owned` */
    hr_arena *arena;       /* of all that follows */
    hr_ceiling ceiling;
    const hr_lane *lanes; /* the first one is the one diagnosed: most device time, slowest rank */
    int lane_count;
    const hr_lane *lane;              /* lanes[0] */
    const char *apart;                /* why the files are not ranks of one run; NULL = nothing says so */
    const uint8_t *event_kinds;       /* an hr_time_kind for each event that is device work, 255 for others */
    const hr_kernel_summary *kernels; /* by falling share */
    int kernel_count;
    hr_memory_use memory; /* of the lane's device */
    const hr_path_piece *path;
    int path_count;
    double path_seconds[HR_TIME_KIND_COUNT]; /* of a step, on average */
    double path_idle[HR_TIME_KIND_COUNT]; /* of those, while the device stood idle: as the account has it */
    const hr_finding
        *findings; /* by falling gain; `healthy` or `incomplete-recording` before all where they hold */
    int finding_count;
    double combined_gain; /* of all findings together, replayed at once */
    int replayed_steps;   /* of a long trace: so many steps are what kernels and gains rest on; 0 = all */
    double replay_error;  /* of the replay with no change: |replayed - measured| / measured */
    const char *verdict;  /* what limits it; what could change that verdict stands first */
    const char *caution;  /* what is missing and could change the verdict; NULL = nothing */
    const char *record;   /* what to record instead; NULL = nothing */
    const char *const *missing; /* what to record to learn more, a sentence each */
    int missing_count;
    const char *const *notes; /* what else is odd about the files, a sentence each */
    int note_count;
    hr_trace *owned;
    /* Of a comparison only: this is the trace before. */
    struct hr_diagnosis *after;
    const hr_change *changes; /* kernels, by falling |after - before| */
    int change_count;
};

/* `ceiling` NULL: known figures of the trace's device. The trace must outlive the result. */
hr_status hr_diagnose_trace(const hr_trace *trace, const hr_ceiling *ceiling, hr_diagnosis **out);
/* Takes both over; the result is `before` with its `after` and `changes` set. */
hr_status hr_diagnosis_join(hr_diagnosis *before, hr_diagnosis *after);

/* Known figures of a product by its name and what the trace says of it; multiprocessors etc. from the trace.
 */
void hr_ceiling_of_product(const hr_trace_device *device, hr_ceiling *out);
/* Measured roofs in place of known figures. */
void hr_ceiling_of_roof(const hr_roof *roof, const char *device, hr_ceiling *out);

#endif
