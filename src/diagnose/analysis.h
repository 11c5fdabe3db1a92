/* The trace of one rank, joined up: what the passes of a diagnosis share and fill in their order.
 *
 * In: a trace. Out: device work with its launching call, calls with their operators and the gap before them,
 * steps, the dependency graph. The passes stand in diagnose.c in the order in which they run; each says above
 * its prototype what it needs. All memory comes from one arena, reserved for the size of the trace.
 */
#ifndef HR_DIAGNOSE_ANALYSIS_H
#define HR_DIAGNOSE_ANALYSIS_H

#include "diagnose/diagnose.h"

/* ---- classes of names ---- */

typedef enum hr_call_class {
    HR_CALL_OTHER,
    HR_CALL_LAUNCH,
    HR_CALL_GRAPH_LAUNCH,
    HR_CALL_COPY,
    HR_CALL_SYNCHRONISE,
    HR_CALL_EVENT_RECORD,
    HR_CALL_STREAM_WAIT,
    HR_CALL_ALLOCATE,
    HR_CALL_FIRST_USE
} hr_call_class;
hr_call_class hr_classify_call(const char *name);

enum {
    HR_WORK_FUSABLE = 1,     /* elementwise, or a cast: an operand of a fused kernel */
    HR_WORK_TENSOR = 2,      /* runs on tensor cores */
    HR_WORK_FULL = 4,        /* a product in f32 without them */
    HR_WORK_MULTI = 8,       /* one kernel for many tensors */
    HR_WORK_SOFTMAX = 16,    /* of a score */
    HR_WORK_MISALIGNED = 32, /* its name says that operands are aligned to one element */
    HR_WORK_REDUCES = 64,
    HR_WORK_ROOT = 128,     /* a reciprocal root, root or exponential: part of a normalisation written out */
    HR_WORK_STEPPING = 256, /* what optimizers do: addcmul, addcdiv, root, lerp */
    HR_WORK_FIRST = 1024,   /* the first launch of its kernel in the trace */
    HR_WORK_CONVOLUTION = 512, /* its operands don't stand in the shapes of a product */
    HR_WORK_LOSS = 2048,       /* a softmax of a loss or of a router: no attention's */
    HR_WORK_OLD = 4096         /* a product by a kernel made for tensor cores of compute capability 7 */
};
typedef struct hr_kernel_class {
    uint8_t kind; /* hr_time_kind */
    uint16_t flags;
} hr_kernel_class;
hr_kernel_class hr_classify_kernel(const char *name);

typedef enum hr_range_class {
    HR_RANGE_OTHER = 0,
    HR_RANGE_LOADER = 1,
    HR_RANGE_OPTIMIZER = 2,
    HR_RANGE_BACKWARD = 4,
    HR_RANGE_COMPILE = 8,
    HR_RANGE_NORMALISATION = 16,
    HR_RANGE_ATTENTION = 32,
    HR_RANGE_MATRIX = 64
} hr_range_class; /* bits */
unsigned hr_classify_range(const char *name);

/* ---- tables ---- */

#define HR_BEFORE_TRACE INT64_MIN /* launched before the recording began */

/* Work of a device: kernel, copy, fill, graph. In order of start. */
typedef struct hr_work {
    int64_t start, end;
    int32_t event, call; /* call: into calls, -1 = not known */
    int32_t stream;      /* track */
    int32_t next;        /* the next work of the same call, -1 = none */
    int32_t step;        /* -1 = before the first one, or after the last */
    int32_t device;
    int64_t launched; /* when its call began, as far as the trace tells; HR_BEFORE_TRACE */
    int64_t alone;    /* ns of the counted steps that the account gives to it */
    uint16_t flags;
    uint8_t kind; /* hr_time_kind */
} hr_work;

/* A call of a host thread to the runtime or driver. In order of start; calls inside calls are left out. */
typedef struct hr_host_call {
    int64_t start, end;
    int64_t gap;           /* ns since its predecessor ended; 0 for the first one */
    int64_t gap_loader;    /* of it: inside of a loader's range */
    int64_t gap_first_use; /* of it: code was loaded or compiled */
    int32_t event, track;
    int32_t previous;         /* the call it follows: of its thread, or the one that handed over; -1 = none */
    int32_t work, last_work;  /* chain of the works that it started, -1 = none */
    int32_t operation, outer; /* innermost and outermost operator around it, -1 = none */
    int32_t wait;             /* the event of its synchronisation, -1 = none */
    int32_t step;
    uint8_t kind;    /* hr_call_class */
    uint8_t within;  /* hr_range_class bits */
    bool lost;       /* it launched work that is not in the file */
    bool after_lost; /* such work may still have run when it began: nobody had waited for it */
} hr_host_call;

/* Stretches of host time of one thread, apart and in order. */
typedef struct hr_stretch {
    int64_t start, end;
} hr_stretch;
typedef struct hr_thread {
    int32_t track;
    int32_t *calls; /* in order */
    int call_count;
    hr_stretch *loader, *first_use;
    int loader_count, first_use_count;
    bool launches; /* it gives work to a device */
} hr_thread;

/* ---- the dependency graph ---- */

/* Each call i has the vertices 2i (start) and 2i+1 (end), each work w those of the node calls + w. The last
 * node is the origin: both of its vertices stand where the first step begins. */
typedef enum hr_edge_kind {
    HR_EDGE_CALL,   /* start to end of a call */
    HR_EDGE_GAP,    /* end of a call to the start of the thread's next: host work */
    HR_EDGE_LAUNCH, /* start of a call to the start of its work */
    HR_EDGE_WORK,   /* start to end of a work */
    HR_EDGE_STREAM, /* order of a stream */
    HR_EDGE_WAIT,   /* a stream waits for another */
    HR_EDGE_RETURN, /* end of a work to the end of the call that waits for it */
    HR_EDGE_QUEUE,  /* a launch that waited for room in the queue */
    HR_EDGE_ORDER   /* order of a thread where another one handed over */
} hr_edge_kind;

typedef struct hr_edge {
    int32_t from, to; /* vertices */
    uint8_t kind;
} hr_edge;

typedef struct hr_graph {
    int node_count, call_count; /* nodes: calls, then works, then the origin */
    int32_t *order;             /* vertices by observed time */
    int64_t *observed;          /* ns, a vertex */
    int32_t *first;             /* edges into vertex v: first[v] up to first[v + 1] */
    hr_edge *edges;
    int64_t *latency; /* ns, an edge; as observed */
    int edge_count;
} hr_graph;

#define HR_NEVER (INT64_MIN / 4) /* the latency of an edge that is taken away */

/* ---- time ---- */

/* Boundaries of steps as the host saw them. */
typedef struct hr_bounds {
    int64_t *times; /* count + 1 */
    int count;      /* of steps */
    int32_t track;  /* whose ranges they are, -1 = nobody's */
    const char *found_by;
} hr_bounds;

typedef enum hr_step_marks {
    HR_MARKS_STEPS,     /* ranges that repeat, or a pass that holds the work */
    HR_MARKS_OPTIMIZER, /* a step ends with its optimizer's range */
    HR_MARKS_ONCE       /* any one range that holds the work */
} hr_step_marks;

/* A stretch in which nothing changes on the device. `work`: the one it belongs to, -1 = idle until `next`
 * begins. */
typedef struct hr_moment {
    int64_t from, to;
    int32_t work, next; /* next: -1 = none */
    bool communicates;
} hr_moment;
typedef void (*hr_moment_visit)(void *context, const hr_moment *moment);

/* Idle time of the device and why. */
typedef struct hr_cause {
    int64_t from, to;
    int32_t call; /* what the host was in, -1 = not known */
    uint8_t kind; /* hr_time_kind */
} hr_cause;

/* ns by kind: of the counted steps, of the slow ones among them. */
typedef struct hr_account {
    int64_t all[HR_TIME_KIND_COUNT], slow[HR_TIME_KIND_COUNT];
} hr_account;

/* ---- the whole ---- */

typedef struct hr_analysis {
    const hr_trace *trace;
    hr_arena *arena; /* of the tables, freed after the diagnosis */
    hr_ceiling ceiling;
    int32_t rank;   /* into trace->ranks */
    int32_t device; /* the one diagnosed, -1 = no device work */
    hr_work *works;
    int work_count;
    hr_host_call *calls;
    int call_count;
    hr_thread *threads;
    int thread_count;
    int64_t *keys; /* correlation -> call, open addressing */
    int32_t *values;
    uint64_t mask;
    int32_t *thread_of;    /* a track -> into threads, -1 = none */
    int64_t start, end;    /* of all of its events */
    int64_t *launch_times; /* of all works, sorted */
    hr_steps steps;
    hr_cause *causes; /* apart, in order */
    int cause_count, cause_room;
    int32_t *
        pending; /* a work -> of it and all later ones of the device the one launched first, -1 = not known */
    int64_t queued_ns; /* a launch that takes longer to reach an idle device waits there for something */
    hr_integrity integrity;
    int64_t origin;     /* when the host began the first step: the first call of a thread follows it */
    int32_t step_track; /* the thread whose ranges are steps, -1 = none */
    hr_graph graph;
    const hr_kernel_summary *kernels;
    int kernel_count;
    int32_t *kernel_of; /* a work -> into kernels, -1 = none */
    double accounted[HR_TIME_KIND_COUNT];
    const int32_t *places; /* of an excerpt: each event's number in the whole trace; NULL = it is the whole */
    struct hr_known_shapes *shapes; /* of operators: shapes.h */
    double step_seconds;            /* of the chosen step */
} hr_analysis;

/* Joins works, calls, threads and operators of one rank. */
hr_status hr_analysis_join(hr_analysis *analysis);
/* Need joined works and calls with their gaps; part of the join: infer.c. */
void hr_infer_loader(hr_analysis *analysis);
void hr_infer_optimizer(hr_analysis *analysis);
/* Needs origin. The time before calls that follow no other one. */
void hr_analysis_first_gaps(hr_analysis *analysis);
/* The call of a correlation, -1 = none. */
int32_t hr_correlated_call(const hr_analysis *analysis, int64_t correlation);
/* Needs join. Steps of the rank, as its chosen device lived them. */
void hr_analysis_steps(hr_analysis *analysis);
/* Needs launch times. The part of the works that was launched in [from, to). */
double hr_launched_part(const hr_analysis *analysis, int64_t from, int64_t to);
/* Needs work with launch times. False where nothing marks steps: steps_marked.c, steps_repeated.c. */
bool hr_marked_steps(const hr_analysis *analysis, hr_step_marks marks, hr_bounds *out);
bool hr_repeated_steps(const hr_analysis *analysis, hr_bounds *out);
/* Visits [start, end) in order: sweep.c. */
void hr_sweep(const hr_analysis *analysis, int64_t start, int64_t end, hr_moment_visit visit, void *context);
/* 2 = compute, 1 = communication, 0 = the link to the host: what a moment belongs to where several run. */
int hr_work_priority(const hr_work *work);
/* Needs steps. Why the device stood idle: fills causes, pending and queued_ns. */
void hr_analysis_idle(hr_analysis *analysis);
/* The first cause that ends after a time; cause_count = none. */
int hr_cause_after(const hr_analysis *analysis, int64_t time);
/* Needs idle. Where the ns of the counted steps went; adds up to them. Fills `alone` of the works. */
void hr_analysis_account(hr_analysis *analysis, hr_account *out);
bool hr_is_slow_step(const hr_steps *steps, int step);
/* Whether files are no ranks of one run, and why: ranks.c. */
bool hr_ranks_apart(const hr_trace *trace, char *why, size_t size);
/* Needs joined works. Counts what is missing in the file or cannot be, and marks calls whose work is lost:
 * integrity.c. */
void hr_analysis_integrity(hr_analysis *analysis);
/* Needs steps. Fraction of time with compute; seconds a step of communication, and of that hidden. */
void hr_analysis_overlap(const hr_analysis *analysis, hr_lane *lane);
/* "void at::native::foo<bar>(baz)" -> "foo": what a person calls a kernel. */
const char *hr_kernel_short_name(hr_arena *keep, const char *name);
/* Needs steps. Summaries by falling share; strings from `keep`. */
void hr_analysis_kernels(hr_analysis *analysis, hr_arena *keep);
/* Needs steps. */
void hr_analysis_graph(hr_analysis *analysis);

/* Whether a call loads, compiles or makes something that later ones find there. */
bool hr_is_first_use(const hr_analysis *analysis, const hr_host_call *call);
/* The first call of a thread or of all that starts at or after a time; call_count = none. */
int hr_call_after(const hr_analysis *analysis, int64_t time);
/* The first of sorted times that is not before a time; count = none. */
int hr_time_after(const int64_t *times, int count, int64_t time);
/* The first work that starts at or after a time. */
int hr_work_after(const hr_analysis *analysis, int64_t time);

/* Launches of headroom's own kernels carry their floor: "layernorm floor=12.3us bound=memory bytes=1e6
 * flops=2e6". */
#define HR_FLOOR_WORD " floor="
typedef struct hr_own_floor {
    int name_length; /* of the kernel's name, at the front */
    double seconds, bytes, flops;
    char bound[16];
} hr_own_floor;

/* False where the range is of something else: own_launches.c. */
bool hr_own_floor_read(const char *range, hr_own_floor *out);

/* Host gaps longer than this are work of their own, not the cost of launching: an operator of a framework
 * takes 5 to 100 us, more under a profiler. */
#define HR_LAUNCH_GAP_NS 500000

/* ---- replay ---- */

/* Times of all vertices under these latencies. */
void hr_replay(const hr_graph *graph, const int64_t *latency, int64_t *times);
/* Needs a replay's times: ns from the first step that counts to the last one's end. */
int64_t hr_replay_span(const hr_analysis *analysis, const int64_t *times);
/* The edge of that kind into a vertex, -1 = none. */
int hr_graph_edge(const hr_graph *graph, int vertex, hr_edge_kind kind);
/* The binding chain of the counted steps: the pieces of the chosen one; seconds of a step on average, and of
 * those what passed while the device stood idle. */
int hr_critical_path(const hr_analysis *analysis, hr_arena *keep, hr_path_piece **out,
                     double seconds[HR_TIME_KIND_COUNT], double idle[HR_TIME_KIND_COUNT]);

/* Where as many works lack their launch, the ids are lost and not the works. */
static inline bool hr_works_are_lost(const hr_integrity *sums) {
    return sums->lost > 2 * (sums->orphans - sums->before);
}

static inline int hr_call_vertex(int call) {
    return 2 * call;
}
static inline int hr_work_vertex(const hr_analysis *analysis, int work) {
    return 2 * (analysis->call_count + work);
}

#endif
