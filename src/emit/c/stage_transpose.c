/* Maps that read an array across the lanes. In: a stage. Out: text. See stage_transpose.h. */
#include "emit/c/stage_transpose.h"

#include "base/dtype.h"
#include "emit/c/lane_loop.h"
#include "schedule/schedule.h"

#include <string.h>

/* Bytes that a lane reads for a group of tasks, two lines; lanes of a block; how many of them ahead are asked
 * for: rows a large power of two apart share few places of a cache. */
enum { SPAN = 128, BLOCK = 64, AHEAD = 16 };

static int last_task(const hr_stage_printer *s) {
    return s->stage->task[s->stage->task_count - 1];
}

/* Elements from one lane to the next. */
static const char *step_of(hr_stage_printer *s, const hr_expr *element) {
    const hr_tensor *tensor = &s->function->tensors[element->tensor];
    const char *step = NULL;
    for (int a = tensor->rank - 1; a >= 0; a--) {
        if (element->args[a]->op == HR_OP_INDEX && element->args[a]->index == s->p->lane) break;
        const char *size = hr_emit_size(s->p, tensor->shape[a]);
        step = step ? hr_format(s->p, "%s * %s", step, size) : size;
    }
    return step;
}

/* A block of lanes as it lies, transposed: at the task's place of the first of the group. */
static void print_fill(hr_stage_printer *s, const hr_expr *element, int number) {
    hr_printer *p = s->p;
    const hr_tensor *tensor = &s->function->tensors[element->tensor];
    const char *name = hr_dtype_name(tensor->dtype);
    p->vector = false;
    hr_print(p, "const %s *const from = %s + %s;", hr_c_storage(tensor->dtype),
             hr_emit_tensor(p, element->tensor),
             hr_emit_offset(p, element->tensor, element->args, tensor->rank));
    p->vector = true;
    hr_print(p, "const int64_t step = %s;", step_of(s, element));
    hr_print(p, "for (int lane = 0; lane < last - first; lane += HR_LANES)");
    hr_print(p, "    for (int row = 0; row < count; row += HR_LANES) {");
    p->indent += 2;
    hr_print(p, "vf square[HR_LANES];");
    hr_text_format(p->out, "#pragma GCC unroll 16\n");
    hr_print(p, "for (int k = 0; k < HR_LANES; k++) {");
    hr_print(p, "    const %s *const at = from + (lane + k) * step + row;", hr_c_storage(tensor->dtype));
    hr_print(p, "    prefetch_read(at + %d * step);", AHEAD);
    hr_print(p, "    square[k] = lane + k >= last - first ? vf_of(0)");
    hr_print(p, "                : row + HR_LANES <= count  ? vf_load_%s(at)", name);
    hr_print(p, "                                           : vf_load_part_%s(at, count - row);", name);
    hr_print(p, "}");
    hr_print(p, "vf_transpose(square);");
    hr_text_format(p->out, "#pragma GCC unroll 16\n");
    hr_print(p, "for (int k = 0; k < HR_LANES; k++)");
    hr_print(p, "    vf_store_f32(tile_%d[row + k] + lane, square[k]);", number);
    p->indent -= 2;
    hr_print(p, "    }");
}

static int rows_of(const hr_stage_printer *s, const hr_cpu_walk *walk) {
    int size = 4;
    for (int k = 0; k < walk->across_count; k++) {
        int own = (int)hr_dtype_size(s->function->tensors[walk->across[k]->tensor].dtype);
        if (own < size) size = own;
    }
    return SPAN / size;
}

static void print_tiles(hr_stage_printer *s, const hr_cpu_walk *walk) {
    hr_printer *p = s->p;
    for (int k = 0; k < walk->across_count; k++) {
        hr_print(p, "{");
        p->indent++;
        hr_print(p, "const int64_t task = group, i = first;");
        hr_stage_task_indices(s);
        print_fill(s, walk->across[k], k);
        p->indent--;
        hr_print(p, "}");
    }
}

void hr_stage_transpose_loop(hr_stage_printer *s, void (*print_task)(hr_stage_printer *s)) {
    hr_printer *p = s->p;
    const hr_cpu_walk *walk = hr_cpu_walk_of(s->stage);
    int rows = rows_of(s, walk);
    const char *size = hr_emit_index_size(p, last_task(s)), *lanes = hr_emit_index_size(p, p->lane);
    hr_print(p, "const int64_t groups = (%s + %d) / %d, units = groups * (%s);", size, rows - 1, rows,
             hr_emit_points(p, s->stage->task, s->stage->task_count - 1));
    for (int k = 0; k < walk->across_count; k++)
        hr_print(p, "_Alignas(64) float tile_%d[%d][%d + HR_LANES];", k, rows, BLOCK);
    hr_print(
        p, "for (int64_t unit = units * thread / threads; unit < units * (thread + 1) / threads; unit++) {");
    p->indent++;
    hr_print(p, "const int64_t row = unit %% groups * %d, group = unit / groups * %s + row;", rows, size);
    hr_print(p, "const int count = %s - row < %d ? (int)(%s - row) : %d;", size, rows, size, rows);
    hr_print(p, "for (int64_t first = 0; first < %s; first += %d) {", lanes, BLOCK);
    p->indent++;
    hr_print(p, "const int64_t last = first + %d < %s ? first + %d : %s;", BLOCK, lanes, BLOCK, lanes);
    print_tiles(s, walk);
    hr_printer_forget(p, HR_AT_TASK);
    for (int k = 0; k < walk->across_count; k++)
        p->buffer[walk->across[k]->id] = hr_format(p, "tile_%d[task - group] + (i - first)", k);
    hr_print(p, "for (int64_t task = group; task < group + count; task++) {");
    p->indent++;
    print_task(s);
    p->indent--;
    hr_print(p, "}");
    for (int k = 0; k < walk->across_count; k++)
        p->buffer[walk->across[k]->id] = NULL;
    for (int i = 0; i < 2; i++) {
        p->indent--;
        hr_print(p, "}");
    }
}
