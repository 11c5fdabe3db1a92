/* Stacks of open slices, one a row. In: slices in order. Out: rows. */
#include "report/track_rows.h"

#include <stdlib.h>

static bool row_push(hr_row *row, int64_t end) {
    if (row->count == row->capacity) {
        int capacity = row->capacity ? 2 * row->capacity : 4;
        int64_t *ends = realloc(row->ends, (size_t)capacity * sizeof *ends);
        if (!ends) return false;
        row->ends = ends;
        row->capacity = capacity;
    }
    row->ends[row->count++] = end;
    return true;
}

int hr_track_rows_place(hr_track_rows *track, int64_t start, int64_t end) {
    int number = 0;
    for (; number < track->count; number++) {
        hr_row *row = &track->rows[number];
        while (row->count && row->ends[row->count - 1] <= start)
            row->count--;
        if (!row->count || end <= row->ends[row->count - 1]) break;
    }
    if (number == track->capacity) {
        int capacity = track->capacity ? 2 * track->capacity : 2;
        hr_row *rows = realloc(track->rows, (size_t)capacity * sizeof *rows);
        if (!rows) return -1;
        track->rows = rows;
        track->capacity = capacity;
    }
    if (number == track->count) track->rows[track->count++] = (hr_row){0};
    return row_push(&track->rows[number], end) ? number : -1;
}

void hr_track_rows_clear(hr_track_rows *track) {
    for (int i = 0; i < track->count; i++)
        free(track->rows[i].ends);
    free(track->rows);
    *track = (hr_track_rows){0};
}
