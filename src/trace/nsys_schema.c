/* Asks a database of Nsight Systems what it has. In: sqlite_master. Out: names and queries. */
#include "trace/nsys_schema.h"

#include <stdio.h>
#include <string.h>

#define VERSION_MAX 9

bool hr_nsys_table_is_there(sqlite3 *handle, const char *table) {
    static const char query[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND "
                                "sql LIKE 'CREATE TABLE%'";
    sqlite3_stmt *statement = NULL;
    bool there = sqlite3_prepare_v2(handle, query, -1, &statement, NULL) == SQLITE_OK &&
                 sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC) == SQLITE_OK &&
                 sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return there;
}

bool hr_nsys_table_find(sqlite3 *handle, const char *table, char *name, size_t room) {
    for (int version = VERSION_MAX; version >= 2; version--) {
        snprintf(name, room, "%s_V%d", table, version);
        if (hr_nsys_table_is_there(handle, name)) return true;
    }
    snprintf(name, room, "%s", table);
    return hr_nsys_table_is_there(handle, name);
}

bool hr_nsys_query_make(sqlite3 *handle, const char *table, const char *const *columns, char *query,
                        size_t room) {
    bool have[HR_NSYS_COLUMNS] = {false};
    char ask[128];
    sqlite3_stmt *statement = NULL;
    snprintf(ask, sizeof ask, "PRAGMA table_info(%s)", table);
    if (sqlite3_prepare_v2(handle, ask, -1, &statement, NULL) != SQLITE_OK) return false;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *column = (const char *)sqlite3_column_text(statement, 1);
        for (int i = 0; column && i < HR_NSYS_COLUMNS && columns[i]; i++)
            have[i] = have[i] || strcmp(column, columns[i]) == 0;
    }
    sqlite3_finalize(statement);
    size_t length = (size_t)snprintf(query, room, "SELECT ");
    for (int i = 0; i < HR_NSYS_COLUMNS && columns[i]; i++)
        length += (size_t)snprintf(query + length, room - length, "%s%s", i ? ", " : "",
                                   have[i] ? columns[i] : "NULL");
    snprintf(query + length, room - length, " FROM %s", table);
    return have[0];
}

void hr_nsys_tables_each(sqlite3 *handle, const char *prefix, void (*take)(void *context, const char *name),
                         void *context) {
    static const char query[] =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?1) = ?2 "
        "AND length(name) < 80 AND sql LIKE 'CREATE TABLE%' LIMIT 64";
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(handle, query, -1, &statement, NULL) != SQLITE_OK) return;
    sqlite3_bind_int(statement, 1, (int)strlen(prefix));
    sqlite3_bind_text(statement, 2, prefix, -1, SQLITE_STATIC);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (name) take(context, name);
    }
    sqlite3_finalize(statement);
}
