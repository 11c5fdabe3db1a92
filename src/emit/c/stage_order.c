/* Tasks in the order of the rows that they use. In: a stage. Out: text. See stage_order.h. */
#include "emit/c/stage_order.h"

/* Of tasks put in order together: the ends of their groups of places, no more than there are tasks, then the
 * tasks, 8 bytes each; beside that, for a thread, two ends more and what fills a line. */
enum { TASK_BYTES = 16, THREAD_BYTES = 128 };
/* Rows are read by so many of a thread's tasks at a time: enough to meet most rows of a large table that are
 * read twice, while scratch memory does not grow with the tasks. */
enum { GATHERED_TASKS = 1 << 15 };
/* Rows are added to by so many tasks at a time: they mean a hundred times as much of other memory, and one
 * row of a table goes through the caches once more for each. */
enum { ADDED_TASKS = 1 << 20 };

/* What is added to. */
static const hr_tensor *added_tensor(const hr_plan *plan, const hr_stage *stage) {
    return &plan->normal->tensors[plan->normal->statements[stage->steps[0].statement].tensor];
}

/* The order of the tasks that add to rows. */
static const hr_size *tasks_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                 const hr_size *threads) {
    const hr_size *tasks = hr_size_points(sizes, plan->normal, stage->task, 1);
    tasks = hr_size_least(sizes, tasks, hr_size_number(sizes, ADDED_TASKS));
    return hr_size_sum(sizes, hr_size_product(sizes, hr_size_number(sizes, THREAD_BYTES), threads),
                       hr_size_product(sizes, hr_size_number(sizes, TASK_BYTES), tasks));
}

const hr_size *hr_order_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads) {
    const hr_size *count = hr_size_word(sizes, "threads", threads);
    if (hr_cpu_walk_of(stage)->gathered) {
        const int64_t bytes = THREAD_BYTES + TASK_BYTES * GATHERED_TASKS;
        return hr_size_product(sizes, hr_size_name(sizes, "(int64_t)", (int)bytes, "", bytes), count);
    }
    const hr_size *row = hr_size_elements(sizes, added_tensor(plan, stage),
                                          added_tensor(plan, stage)->rank - 1, (int64_t)sizeof(double));
    return hr_size_sum(sizes, tasks_size(sizes, plan, stage, count),
                       hr_size_product(sizes, hr_size_brackets(sizes, row), count));
}

const char *hr_order_totals_text(hr_stage_printer *s) {
    hr_sizes sizes = {0};
    const hr_size *count = hr_size_word(&sizes, "threads", 0);
    return hr_size_text(s->p, hr_size_brackets(&sizes, tasks_size(&sizes, s->plan, s->stage, count)));
}

/* Prints the tasks from `begin` to `end` twice: to be counted, to be placed in `order`. */
static void print_tasks(hr_stage_printer *s, hr_order_place print_place) {
    hr_printer *p = s->p;
    hr_print(p, "for (int counted = 0; counted < 2; counted++) {");
    p->indent++;
    hr_print(p, "for (int64_t task = begin; task < end; task++) {");
    p->indent++;
    hr_printer_forget(p, HR_AT_TASK);
    hr_stage_task_indices(s);
    const char *place = print_place(s);
    hr_print(p, "task_order_add(&order, task, %s, counted);", place);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "if (!counted) task_order_begin(&order);");
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "task_order_end(&order);");
    hr_printer_forget(p, HR_AT_TASK);
}

static const char *gathered_rows(hr_stage_printer *s) {
    return hr_emit_size(s->p, s->function->tensors[hr_cpu_walk_of(s->stage)->gathered->tensor].shape[0]);
}

/* Rows that are not there count as one after the last. */
static const char *print_gathered_row(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_expr *row = hr_cpu_walk_of(s->stage)->gathered;
    hr_expr_prepare(p, row->args[0], HR_AT_TASK);
    hr_expr_print_pointer(p, row);
    return hr_format(p, "%s ? %s : %s", p->valid[row->id], hr_expr_text(p, row->args[0]), gathered_rows(s));
}

void hr_order_loop(hr_stage_printer *s, void (*print_task)(hr_stage_printer *)) {
    hr_printer *p = s->p;
    hr_print(p, "const int64_t tasks = %s, share = tasks * (thread + 1) / threads;", hr_stage_task_total(s));
    hr_print(p, "char *const own = work + thread * %d;", THREAD_BYTES + TASK_BYTES * GATHERED_TASKS);
    hr_print(p, "for (int64_t begin = tasks * thread / threads; begin < share; begin += %d) {",
             GATHERED_TASKS);
    p->indent++;
    hr_print(p, "const int64_t end = share - begin < %d ? share : begin + %d;", GATHERED_TASKS,
             GATHERED_TASKS);
    hr_print(p, "task_order order = task_order_of(own, begin, end - begin, %s + 1, 0, 1);", gathered_rows(s));
    print_tasks(s, print_gathered_row);
    hr_print(p, "for (int64_t n = 0; n < order.count; n++) {");
    p->indent++;
    hr_print(p, "const int64_t task = order.tasks[n];");
    print_task(s);
    p->indent--;
    hr_print(p, "}");
    p->indent--;
    hr_print(p, "}");
}

void hr_order_added(hr_stage_printer *s, const char *rows, hr_order_place print_place,
                    void (*print_adds)(hr_stage_printer *)) {
    hr_printer *p = s->p;
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    hr_print(p, "for (int64_t begin = 0; begin < tasks; begin += %d) {", ADDED_TASKS);
    p->indent++;
    hr_print(p, "const int64_t end = tasks - begin < %d ? tasks : begin + %d;", ADDED_TASKS, ADDED_TASKS);
    hr_print(p, "if (begin) thread_barrier(); /* other threads may still go through the tasks before */");
    hr_print(p, "task_order order = task_order_of(work, begin, end - begin, %s, thread, threads);", rows);
    print_tasks(s, print_place);
    print_adds(s);
    p->indent--;
    hr_print(p, "}");
}
