/* A database of Nsight Systems while it is read: read_nsys.c asks for the rows of its tables, nsys_rows.c
 * says what they mean.
 *
 * In: rows. Out: events of the model, a rank for each process that used the device.
 */
#ifndef HR_TRACE_NSYS_H
#define HR_TRACE_NSYS_H

#include "trace/nsys_schema.h"
#include "trace/trace_build.h"

#define HR_NSYS_PROCESSES_MAX 1024
#define HR_NSYS_CONTEXTS_MAX  1024
#define HR_NSYS_METRICS_MAX   1024

typedef struct hr_nsys_string {
    int64_t id;
    int32_t name;
} hr_nsys_string;

typedef struct hr_nsys_process {
    int64_t global; /* vm << 48 | pid << 24 */
    int32_t rank;
} hr_nsys_process;

/* Synchronisations name their context rightly and their device not always. */
typedef struct hr_nsys_context {
    int32_t rank, device;
    int64_t id;
} hr_nsys_context;

/* A metric of a GPU that Nsight sampled; its type's last byte is the GPU. */
typedef struct hr_nsys_metric {
    int64_t type, id;
    hr_sample_kind kind;
    int32_t name;
} hr_nsys_metric;

typedef struct hr_nsys {
    hr_trace_build *build;
    const char *path;
    sqlite3 *handle;
    int64_t size, tables_done;
    HR_TABLE(hr_nsys_string) strings; /* sorted by id */
    hr_nsys_process processes[HR_NSYS_PROCESSES_MAX];
    int process_count;
    hr_nsys_context contexts[HR_NSYS_CONTEXTS_MAX];
    int context_count;
    hr_nsys_metric metrics[HR_NSYS_METRICS_MAX];
    int metric_count;
    int64_t events, rows;
    bool failed;
} hr_nsys;

/* A row of a table: columns in the order in which they were asked for. */
typedef struct hr_nsys_row {
    hr_nsys *of;
    sqlite3_stmt *statement;
} hr_nsys_row;

typedef struct hr_nsys_table {
    const char *name;
    const char *columns[HR_NSYS_COLUMNS];
    void (*take)(hr_nsys_row row);
} hr_nsys_table;

/* In the order in which they are read: names before what has them, processes before their threads' names. */
extern const hr_nsys_table hr_nsys_tables[];
extern const int64_t hr_nsys_table_count;
/* Once the names are read, before anything asks for one. */
void hr_nsys_names_sort(hr_nsys *n);

#endif
