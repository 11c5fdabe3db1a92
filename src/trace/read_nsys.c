/* Nsight Systems' SQLite exports.
 *
 * In: tables that are made only where there was something to put in, with columns that come and go between
 * versions: what is there is asked first, and what is absent reads as NULL. Out: events of the model, a rank
 * for each process that used the device. The file is opened read-only and immutable, and nothing in its
 * schema is trusted. A damaged file gives what could be read.
 */
#include "trace/nsys.h"
#include "trace/trace_readers.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS_A_REPORT 65536

/* ---- reading one table ---- */

static bool table_is_known(const char *name) {
    for (int64_t i = 0; i < hr_nsys_table_count; i++) {
        size_t length = strlen(hr_nsys_tables[i].name);
        if (strncmp(name, hr_nsys_tables[i].name, length) != 0) continue;
        if (!name[length] || strncmp(name + length, "_V", 2) == 0) return true;
    }
    return false;
}

static void unknown_table_note(void *context, const char *name) {
    hr_trace_build *build = context;
    if (table_is_known(name)) return;
    if (strcmp(name, "CUPTI_ACTIVITY_KIND_CUDA_EVENT") == 0) return; /* records of events: no work, no wait */
    char reason[160];
    snprintf(reason, sizeof reason, "unknown tables: %s",
             hr_trace_build_text(build, hr_trace_build_string(build, name, strlen(name))));
    hr_trace_build_skip(build, reason, -1);
}

static hr_status progress(hr_nsys *n) {
    return hr_trace_build_progress(n->build, n->size / hr_nsys_table_count * n->tables_done, n->size);
}

static hr_status table_read(hr_nsys *n, const hr_nsys_table *table) {
    char query[1024], name[96];
    sqlite3_stmt *statement = NULL;
    hr_status status = HR_OK;
    if (!hr_nsys_table_find(n->handle, table->name, name, sizeof name) ||
        !hr_nsys_query_make(n->handle, name, table->columns, query, sizeof query))
        return HR_OK;
    int code = sqlite3_prepare_v2(n->handle, query, -1, &statement, NULL);
    while (code == SQLITE_OK && status == HR_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        table->take((hr_nsys_row){n, statement});
        code = SQLITE_OK;
        if (++n->rows % ROWS_A_REPORT == 0) status = progress(n);
    }
    sqlite3_finalize(statement);
    if (code == SQLITE_OK || code == SQLITE_DONE) return status;
    for (int i = 0; i < n->process_count || i == 0; i++) {
        if (n->process_count) hr_trace_build_rank_choose(n->build, n->processes[i].rank);
        hr_trace_build_rank(n->build)->truncated = true;
    }
    hr_trace_build_skip(n->build, "tables that are damaged; what could be read of them is kept", -1);
    return status;
}

static hr_status tables_read(hr_nsys *n) {
    for (n->tables_done = 0; n->tables_done < hr_nsys_table_count; n->tables_done++) {
        HR_TRY(progress(n));
        HR_TRY(table_read(n, &hr_nsys_tables[n->tables_done]));
        if (n->tables_done == 0) hr_nsys_names_sort(n);
        if (n->failed) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", n->path);
    }
    hr_nsys_tables_each(n->handle, "CUPTI_ACTIVITY_KIND_", unknown_table_note, n->build);
    if (n->events) return HR_OK;
    if (hr_nsys_table_is_there(n->handle, "META_DATA_EXPORT") ||
        hr_nsys_table_is_there(n->handle, "TARGET_INFO_SESSION_START_TIME"))
        return hr_fail(HR_BAD_INPUT,
                       "%s: an Nsight Systems export without any CUDA or NVTX event: record with --trace "
                       "cuda,nvtx",
                       n->path);
    return hr_fail(HR_BAD_INPUT, "%s: a SQLite database, but no export of Nsight Systems%s", n->path,
                   sqlite3_errcode(n->handle) == SQLITE_OK || sqlite3_errcode(n->handle) == SQLITE_DONE
                       ? ""
                       : " that could be read: it is damaged");
}

/* ---- the file ---- */

/* A path as SQLite's URIs have it. */
static void uri_make(const char *path, char *uri, size_t room) {
    size_t length = (size_t)snprintf(uri, room, "file:");
    for (const char *at = path; *at && length + 24 < room; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                     strchr("/._-", *at);
        length += (size_t)snprintf(uri + length, room - length, plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    snprintf(uri + length, room - length, "?mode=ro&immutable=1");
}

static hr_status file_open(hr_nsys *n) {
    char uri[3 * PATH_MAX + 32];
    struct stat info;
    if (stat(n->path, &info) == 0) n->size = (int64_t)info.st_size;
    uri_make(n->path, uri, sizeof uri);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(uri, &n->handle, flags, NULL) != SQLITE_OK)
        return hr_fail(HR_BAD_INPUT, "%s: cannot be opened as a SQLite database: %s", n->path,
                       n->handle ? sqlite3_errmsg(n->handle) : "no memory");
    sqlite3_db_config(n->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(n->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(n->handle, SQLITE_LIMIT_LENGTH, 64 << 20);
    return HR_OK;
}

hr_status hr_trace_read_nsys(hr_trace_build *build, const char *path) {
    hr_nsys *n = calloc(1, sizeof *n);
    if (!n) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", path);
    n->build = build;
    n->path = path;
    hr_trace_build_file_begin(build, path, "nsys");
    hr_status status = file_open(n);
    if (status == HR_OK) status = tables_read(n);
    hr_trace_build_file_end(build);
    sqlite3_close(n->handle);
    free(n->strings.items);
    free(n);
    return status;
}
