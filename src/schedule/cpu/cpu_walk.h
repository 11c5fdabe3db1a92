/* How a CPU walks the tasks and rows of a stage: parameters that combine. schedule_cpu.c fills them in,
 * check_cpu.c says which combinations are none, and the printers in src/emit/c obey.
 */
#ifndef HR_SCHEDULE_CPU_CPU_WALK_H
#define HR_SCHEDULE_CPU_CPU_WALK_H

#include "plan/plan.h"
#include "schedule/knobs.h"

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
    HR_SUMS_IN_REGISTERS /* of a few tasks, before they go to the cache */
} hr_column_sums;

typedef enum hr_row_ends {
    HR_ROWS_OF_LINES,
    HR_ROWS_RAGGED /* rows of results so short, and no whole cache lines, that they do not pay to leave past
                      the caches one by one */
} hr_row_ends;

typedef enum hr_direction { HR_FORWARD, HR_REVERSED } hr_direction;

/* Software pipelining: pass p works on row r - p while pass 0 works on row r. */
typedef struct hr_pipeline {
    int depth;              /* passes in flight; 0 = pass after pass */
    hr_direction direction; /* of the last pass: it may walk its row from the end */
    hr_throttle throttle;
} hr_pipeline;

typedef struct hr_cpu_walk {
    const char *written_out; /* an axis each of whose elements is a step of its own; NULL = none */
    hr_partition partition;
    int64_t strip; /* columns, with HR_PARTITION_COLUMNS */
    hr_order order;
    hr_expr *gathered; /* with HR_ORDER_GATHERED: the element whose rows these are */
    hr_pipeline pipeline;
    int jam; /* rows side by side: of a pipeline through each block of columns, else through each pass before
                the next; 0 and 1 = one by one */
    int accumulators; /* side by side in a reduction; 0 = as many as long rows pay for */
    hr_column_sums sums;
    hr_row_ends row_ends;
    hr_segments segments; /* of the values that the only pass sums up, in the order of its steps */
} hr_cpu_walk;

/* Rows that go through a pass together where passes are no pipeline; 0 = one by one. */
static inline int hr_cpu_walk_jam(const hr_cpu_walk *walk) {
    return !walk->pipeline.depth && walk->jam > 1 ? walk->jam : 0;
}

#endif
