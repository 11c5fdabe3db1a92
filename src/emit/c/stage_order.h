/* Tasks in the order of the rows that they use. In: a stage that the plan ordered. Out: text.
 *
 * Rows that are added to belong to one thread each, so that a thread goes through all tasks for those of its
 * own (stage_scatter.h). Where rows are only read, each thread puts its own share of the tasks in order: a
 * row that several of them read comes from memory once, and rows come as they lie.
 */
#ifndef HR_EMIT_C_STAGE_ORDER_H
#define HR_EMIT_C_STAGE_ORDER_H

#include "emit/c/stage_parts.h"

/* Bytes of scratch memory that putting tasks in order needs, for all threads together. */
const hr_size *hr_order_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads);

/* Where in it rows of totals stand, one a thread, of a stage that adds to rows. */
const char *hr_order_totals_text(hr_stage_printer *s);

/* Prints what says which row a task uses: the row's number. */
typedef const char *(*hr_order_place)(hr_stage_printer *s);
/* All tasks, a million at a time, of which `order` holds those whose rows, of `rows` in all, are the
 * thread's; `print_adds` prints what goes through them. */
void hr_order_added(hr_stage_printer *s, const char *rows, hr_order_place print_place,
                    void (*print_adds)(hr_stage_printer *));

/* The thread's tasks, some ten thousands at a time, in the order of the rows that they gather; `print_task`
 * prints one, `task`. Within it the tasks to come are order.tasks[n + 1] and so on, up to order.count. */
void hr_order_loop(hr_stage_printer *s, void (*print_task)(hr_stage_printer *));

#endif
