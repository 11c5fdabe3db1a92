/* What tables and columns an export of Nsight Systems has.
 *
 * In: an open database whose schema is not trusted. Out: names of its tables, whose versions carry suffixes;
 * queries that ask for NULL in place of columns that are absent.
 */
#ifndef HR_TRACE_NSYS_SCHEMA_H
#define HR_TRACE_NSYS_SCHEMA_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#define HR_NSYS_COLUMNS 24 /* of a query */

/* Whether there is such an ordinary table (no view and no virtual one: those run code of the file's choice).
 */
bool hr_nsys_table_is_there(sqlite3 *handle, const char *table);
/* The table's name in this file: with the highest suffix of a version (_V2, _V3), else as it is. False where
 * it is not there. */
bool hr_nsys_table_find(sqlite3 *handle, const char *table, char *name, size_t room);
/* "SELECT a, NULL, c FROM t" for up to HR_NSYS_COLUMNS names, the last one followed by NULL where they are
 * fewer. False where the first column is absent. */
bool hr_nsys_query_make(sqlite3 *handle, const char *table, const char *const *columns, char *query,
                        size_t room);
/* Each ordinary table whose name begins with `prefix`, at most 64 of them. */
void hr_nsys_tables_each(sqlite3 *handle, const char *prefix, void (*take)(void *context, const char *name),
                         void *context);

#endif
