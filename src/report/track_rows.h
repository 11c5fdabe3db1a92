/* Rows of a track on which no two slices overlap without nesting: ui.perfetto.dev drops the second of two
 * that do.
 *
 * In: slices by start, longer first. Out: for each the number of a row on which it nests in what is open or
 * follows it.
 */
#ifndef HR_REPORT_TRACK_ROWS_H
#define HR_REPORT_TRACK_ROWS_H

#include "base/status.h"

typedef struct hr_row {
    int64_t *ends; /* of the slices that are open, the innermost last */
    int count, capacity;
} hr_row;

typedef struct hr_track_rows {
    hr_row *rows;
    int count, capacity;
} hr_track_rows;

/* The first row that has room for a slice; a new one where none has. -1 without memory. */
int hr_track_rows_place(hr_track_rows *track, int64_t start, int64_t end);
void hr_track_rows_clear(hr_track_rows *track);

#endif
