/* Column sums over a group of tasks. In: steps. Out: text. See column_loop.h. */
#include "emit/c/column_loop.h"

#include "base/dtype.h"
#include "emit/c/lane_step.h"
#include "emit/reduce.h"

#include <string.h>

enum { WAYS = 4 };

/* Where the sum of the lanes at i stands: the first is that of the pass's first lanes. */
static const char *sum_place(const hr_lane_pass *pass) {
    return strcmp(pass->first, "0") == 0 ? "i" : "i - first";
}

static void print_sums(hr_printer *p, const hr_lane_pass *pass, int ways, const char *count) {
    for (int i = 0; i < pass->step_count; i++) {
        int id = pass->steps[i].id;
        const char *values = "";
        for (int w = 0; w < ways; w++)
            values = hr_format(p, "%s%svf_load_%sf32(column_%d + %s + %d * HR_LANES%s)", values,
                               w ? ", " : "", *count ? "part_" : "", id, sum_place(pass), w, count);
        hr_print(p, "vf s%d[%d] = {%s};", id, ways, values);
    }
}

static void print_stores(hr_printer *p, const hr_lane_pass *pass, int ways, const char *count) {
    for (int i = 0; i < pass->step_count; i++)
        for (int w = 0; w < ways; w++)
            hr_print(p, "vf_store_%sf32(column_%d + %s + %d * HR_LANES, s%d[%d]%s);", *count ? "part_" : "",
                     pass->steps[i].id, sum_place(pass), w, pass->steps[i].id, w, count);
}

static void print_adds(hr_printer *p, const hr_lane_pass *pass) {
    const char *values[64];
    hr_printer_forget(p, HR_AT_LANE);
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_count_uses(p, pass->steps[i].value);
    for (int i = 0; i < pass->step_count; i++)
        values[i] = hr_expr_lanes(p, pass->steps[i].value);
    for (int i = 0; i < pass->step_count; i++) {
        const char *sum = hr_format(p, "s%d[%s]", pass->steps[i].id, p->way);
        hr_print(p, "%s = %s;", sum,
                 hr_reduce_combine_lanes(p, pass->steps[i].reduce, HR_F32, sum, values[i]));
    }
}

/* All tasks of the group on the lanes from i on. */
static void print_tasks(hr_printer *p, const hr_lane_pass *pass, const hr_column_tasks *tasks, int ways) {
    if (tasks->last) {
        hr_print(p, "for (int64_t task = %s; task < %s; task++) {", tasks->first, tasks->last);
    } else {
        hr_text_format(p->out, "#pragma GCC unroll %d\n", HR_COLUMN_GROUP);
        hr_print(p, "for (int t = 0; t < %d; t++) {", HR_COLUMN_GROUP);
        hr_print(p, "    const int64_t task = %s + t;", tasks->first);
    }
    p->indent++;
    hr_printer_forget(p, HR_AT_TASK);
    tasks->print_indices(tasks->context);
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, HR_AT_TASK);
    for (int i = 0; i < pass->step_count && p->outer_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, HR_AT_OUTER);
    hr_lane_prefetches(p, pass, ways);
    if (ways > 1) {
        hr_print(p, "const int64_t lane = i;");
        hr_text_format(p->out, "#pragma GCC unroll %d\n", ways);
        hr_print(p, "for (int way = 0; way < %d; way++) {", ways);
        hr_print(p, "    const int64_t i = lane + way * HR_LANES;");
        p->indent++;
        p->way = "way";
    }
    print_adds(p, pass);
    if (ways > 1) {
        p->way = "0";
        p->indent--;
        hr_print(p, "}");
    }
    p->indent--;
    hr_print(p, "}");
}

void hr_column_loop(hr_printer *p, const hr_lane_pass *pass, const hr_column_tasks *tasks) {
    hr_print(p, "int64_t i = %s;", pass->first);
    hr_print(p, "for (; i + %d * HR_LANES <= %s; i += %d * HR_LANES) {", WAYS, pass->last, WAYS);
    p->indent++;
    p->way = "0";
    print_sums(p, pass, WAYS, "");
    print_tasks(p, pass, tasks, WAYS);
    print_stores(p, pass, WAYS, "");
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "for (; i < %s; i += HR_LANES) {", pass->last);
    p->indent++;
    hr_print(p, "const int lanes = %s - i < HR_LANES ? (int)(%s - i) : HR_LANES;", pass->last, pass->last);
    p->part = true;
    print_sums(p, pass, 1, ", lanes");
    print_tasks(p, pass, tasks, 1);
    print_stores(p, pass, 1, ", lanes");
    p->part = false;
    p->indent--;
    hr_print(p, "}");
    hr_printer_forget(p, HR_AT_TASK);
}
