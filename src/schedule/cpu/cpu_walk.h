/* How a CPU walks the tasks and rows of a stage: parameters that combine. schedule_cpu.c fills them in,
 * check_schedule.c says which combinations are none, and the printers in src/emit/c obey.
 */
#ifndef HR_SCHEDULE_CPU_CPU_WALK_H
#define HR_SCHEDULE_CPU_CPU_WALK_H

#include "plan/plan.h"
#include "schedule/knobs.h"

/* The loop that goes through a stage's tasks. */
typedef enum hr_cpu_loop {
    HR_LOOP_TASKS,      /* task after task */
    HR_LOOP_LANES,      /* there is no task: threads share out the lanes */
    HR_LOOP_FLAT,       /* the same of all indices as one axis */
    HR_LOOP_SHARES,     /* each thread has a share of each task's lanes */
    HR_LOOP_JAM,        /* several short rows go through each pass */
    HR_LOOP_PIPELINE,   /* the passes of several rows run side by side */
    HR_LOOP_TRANSPOSED, /* groups of tasks that read an array across the lanes */
    HR_LOOP_GATHERED,   /* tasks in the order of the rows that they gather */
    HR_LOOP_GROUPS,     /* the passes of a group of tasks, then its column sums */
    HR_LOOP_COLUMNS,    /* column sums alone, over a group of tasks in registers */
    HR_LOOP_STRIPS,     /* the same of a strip of columns at a time */
    HR_LOOP_JOINED,     /* each strip of columns goes through it and the stages beside it */
    HR_LOOP_BLOCK,      /* rows between two products, a block of them at a time */
    HR_LOOP_ORDERED,    /* rows in order: scans and topk */
    HR_LOOP_SCATTER     /* each thread adds to its share of the places */
} hr_cpu_loop;

/* What a thread takes. */
typedef enum hr_partition {
    HR_PARTITION_TASKS,
    HR_PARTITION_LANES,  /* a share of every row: rows are few */
    HR_PARTITION_COLUMNS /* strips of columns, each through all tasks */
} hr_partition;

typedef enum hr_order {
    HR_ORDER_LYING,   /* tasks as they lie */
    HR_ORDER_ADDED,   /* in the order of the rows that they add to */
    HR_ORDER_GATHERED /* in the order of the rows that they gather */
} hr_order;

/* Where sums over tasks are added up. */
typedef enum hr_column_sums {
    HR_SUMS_IN_CACHE,
    HR_SUMS_IN_REGISTERS, /* of a few tasks, before they go to the cache */
    HR_SUMS_OF_GROUPS     /* the same beside other passes: in a loop of their own over a group of tasks */
} hr_column_sums;

typedef enum hr_row_ends {
    HR_ROWS_OF_LINES,
    HR_ROWS_RAGGED, /* rows of results so short, and no whole cache lines, that they do not pay to leave past
                       the caches one by one */
    HR_ROWS_COLLECTED /* such rows are put together in cache and leave in whole lines */
} hr_row_ends;

/* What leaves past the caches. */
typedef enum hr_store { HR_STORES_CACHED, HR_RESULTS_PAST_CACHES, HR_STORES_PAST_CACHES } hr_store;

typedef enum hr_direction { HR_FORWARD, HR_REVERSED } hr_direction;

/* Software pipelining: pass p works on row r - p while pass 0 works on row r. */
typedef struct hr_pipeline {
    int depth;              /* passes in flight; 0 = pass after pass */
    hr_direction direction; /* of the last pass: it may walk its row from the end */
    hr_throttle throttle;
} hr_pipeline;

typedef enum hr_cache_level { HR_CACHE_SECOND, HR_CACHE_FIRST } hr_cache_level;

/* What a pass prefetches, from where its lanes are. */
typedef enum hr_prefetch_ahead {
    HR_AHEAD_BYTES,    /* so many bytes further */
    HR_AHEAD_JAM,      /* the same place of the row that comes after those side by side */
    HR_AHEAD_GROUP,    /* the same place of the next group of tasks */
    HR_AHEAD_STRIP,    /* the same place of the next strip */
    HR_AHEAD_NEXT_ROW, /* of the row after this one or, of short ones, some kilobytes of rows later */
    HR_AHEAD_NEXT_GROUP
} hr_prefetch_ahead;

enum { HR_STREAMS_MAX = 8, HR_ACROSS_MAX = 2 };
/* One vector a step, or two of bf16 that are a line where they are walked as even and odd lanes. */
enum { HR_UNROLL_PAIR = 0 };

typedef struct hr_prefetch {
    int count; /* lane elements; 0 = the pass prefetches nothing */
    const hr_expr *element[HR_STREAMS_MAX];
    bool gathered[HR_STREAMS_MAX]; /* its row depends on data: that of a later task is prefetched */
    hr_prefetch_ahead ahead;
    int bytes; /* with HR_AHEAD_BYTES */
    hr_cache_level level, gathered_level;
    int near_bytes;       /* so many bytes ahead into the first-level cache, too; 0 = not */
    int part, of, before; /* with HR_AHEAD_NEXT_*: this part of the row, after what earlier passes prefetch;
                             of 0 = all of it, each lane's own place */
} hr_prefetch;

typedef struct hr_cpu_walk {
    hr_cpu_loop loop;
    const char *written_out; /* an axis each of whose elements is a step of its own; NULL = none */
    hr_partition partition;
    int64_t strip; /* columns, with HR_PARTITION_COLUMNS */
    int chunk;     /* tasks that a thread takes at a time; 0 = one run of tasks a thread */
    hr_order order;
    hr_expr *gathered; /* with HR_ORDER_GATHERED: the element whose rows these are */
    hr_pipeline pipeline;
    int jam; /* rows side by side: of a pipeline through each block of columns, else through each pass before
                the next; 0 and 1 = one by one */
    int accumulators; /* side by side in a reduction; 0 = as many as long rows pay for */
    int random_strip; /* elements for which random numbers are drawn at a time */
    hr_column_sums sums;
    hr_row_ends row_ends;
    hr_store store;
    bool whole_lines; /* results that are less than a line each are put together to whole ones */
    int tile_rows;    /* tasks of dots that are rows of the matrix unit's tiles; 0 = none */
    int across_count; /* with HR_LOOP_TRANSPOSED: the elements that are read across the lanes */
    const hr_expr *across[HR_ACROSS_MAX];
    int *unroll;           /* by pass: vectors a step, or HR_UNROLL_PAIR */
    hr_prefetch *prefetch; /* by pass; one more for the column sums' own loop */
    hr_segments segments;  /* of the values that the only pass sums up, in the order of its steps */
} hr_cpu_walk;

/* Rows that go through a pass together where passes are no pipeline; 0 = one by one. */
static inline int hr_cpu_walk_jam(const hr_cpu_walk *walk) {
    return !walk->pipeline.depth && walk->jam > 1 ? walk->jam : 0;
}

/* Column sums have a loop of their own. */
static inline bool hr_cpu_walk_sums_apart(const hr_cpu_walk *walk) {
    return walk->sums != HR_SUMS_IN_CACHE;
}

/* Whether vectors of the tensor that a stage makes leave past the caches. */
bool hr_cpu_walk_streams(const hr_cpu_walk *walk, const hr_tensor *target);

#endif
