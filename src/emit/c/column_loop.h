/* Sums over a group of tasks, one for each lane: the loop over the lanes is outside, that over the tasks
 * inside, so that the sums stay in registers for as many tasks as the group has.
 *
 * In: the column steps of a stage, none of which needs a value that the tasks compute. Out: the loop's text.
 */
#ifndef HR_EMIT_C_COLUMN_LOOP_H
#define HR_EMIT_C_COLUMN_LOOP_H

#include "emit/c/lane_pass.h"

/* Tasks whose sums are added up together: with 4 pages read side by side, reading alone is at its best. */
enum { HR_COLUMN_GROUP = 4 };

typedef struct hr_column_tasks {
    const char *first, *last; /* the tasks of the group, as C expressions; last NULL: it is a whole group */
    void (*print_indices)(void *context);
    void *context;
} hr_column_tasks;

void hr_column_loop(hr_printer *printer, const hr_lane_pass *pass, const hr_column_tasks *tasks);

#endif
