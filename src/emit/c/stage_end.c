/* The end of a stage: the parts' results become one. In: a stage. Out: text. See stage_end.h. */
#include "emit/c/stage_end.h"

#include "emit/c/scratch_c.h"
#include "emit/reduce.h"

/* Of all parts' sums a block of columns at a time, so that vectors add them. */
enum { BLOCK = 64 };

static void print_block_sums(hr_printer *p, const hr_stage *stage, int i) {
    const hr_step *step = &stage->steps[i];
    const hr_dtype type = step->value->type;
    const char *part = hr_c_compute(type);
    hr_print(p, "%s sum[%d];", hr_reduce_type(step->reduce, type), BLOCK);
    hr_print(p, "for (int64_t k = 0; k < %d; k++)", BLOCK);
    hr_print(p, "    sum[k] = %s;", hr_reduce_identity(step->reduce, type));
    hr_print(p, "for (int64_t t = 0; t < parts; t++) {");
    hr_print(p, "    const %s *const part = (const %s *)(work + t * area + %s) + from;", part, part,
             hr_stage_area_offset(p, stage, i, -1));
    hr_print(p, "    for (int64_t k = 0; k < until - from; k++)");
    hr_print(p, "        sum[k] = %s;", hr_reduce_combine(p, step->reduce, type, "sum[k]", "part[k]"));
    if (hr_step_has_column_totals(p->plan, step)) {
        hr_print(p, "    if (*(const int64_t *)(work + t * area + %s) == 0) continue;",
                 hr_stage_folds_offset(p, stage, i));
        hr_print(p, "    const double *const total = (const double *)(work + t * area + %s) + from;",
                 hr_stage_totals_offset(p, stage, i));
        hr_print(p, "    for (int64_t k = 0; k < until - from; k++)");
        hr_print(p, "        sum[k] += total[k];");
    }
    hr_print(p, "}");
}

static void print_column_end(hr_printer *p, const hr_stage *stage, int i) {
    const hr_step *step = &stage->steps[i];
    const hr_statement *statement = &p->function->statements[step->statement];
    hr_dtype reduced = statement->value->type, dtype = p->function->tensors[statement->tensor].dtype;
    const char *place = "j";
    if (i < HR_EVEN_ODD_MAX && p->even_odd_ways[i])
        place = hr_format(p, "even_odd_place(j, points / (%d * HR_LANES) * (%d * HR_LANES))",
                          p->even_odd_ways[i], p->even_odd_ways[i]);
    hr_print(p, "for (int64_t block = blocks * thread / threads; block < blocks * (thread + 1) / threads; "
                "block++) {");
    p->indent++;
    hr_print(p, "const int64_t from = block * %d, until = points - from < %d ? points : from + %d;", BLOCK,
             BLOCK, BLOCK);
    print_block_sums(p, stage, i);
    hr_print(p, "for (int64_t j = from; j < until; j++) {");
    p->indent++;
    hr_print(p, "int64_t rest = j;");
    hr_emit_indices(p, "const int64_t ", stage->row, stage->row_count);
    hr_print(
        p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
        hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
        hr_emit_stored(p, hr_format(p, "(%s)sum[%s - from]", hr_c_compute(reduced), place), reduced, dtype));
    p->indent--;
    hr_print(p, "}");
    p->indent--;
    hr_print(p, "}");
}

static void print_total_end(hr_printer *p, const hr_stage *stage, int i) {
    const hr_step *step = &stage->steps[i];
    const hr_statement *statement = &p->function->statements[step->statement];
    hr_dtype type = statement->value->type, dtype = p->function->tensors[statement->tensor].dtype;
    const char *c_type = hr_reduce_type(step->reduce, type);
    hr_print(p, "if (thread == 0) {");
    p->indent++;
    hr_print(p, "%s sum = %s;", c_type, hr_reduce_identity(step->reduce, type));
    hr_print(p, "for (int64_t t = 0; t < parts; t++)");
    const char *part =
        hr_format(p, "*(const %s *)(work + t * area + %s)", c_type, hr_stage_area_offset(p, stage, i, -1));
    hr_print(p, "    sum = %s;", hr_reduce_combine(p, step->reduce, type, "sum", part));
    hr_print(p, "%s[0] = %s;", hr_emit_tensor(p, statement->tensor),
             hr_emit_stored(p, hr_format(p, "(%s)sum", hr_c_compute(type)), type, dtype));
    p->indent--;
    hr_print(p, "}");
}

void hr_emit_stage_end(hr_printer *p, const hr_stage *stage) {
    bool vector = p->vector;
    p->vector = false;
    hr_print(p, "const int64_t area = %s, points = %s;", hr_stage_thread_text(p, stage),
             hr_stage_row_size(p, stage));
    hr_print(p, "const int64_t blocks = (points + %d) / %d;", BLOCK - 1, BLOCK);
    hr_print(p, "(void)blocks;");
    for (int i = 0; i < stage->step_count; i++) {
        if (stage->steps[i].kind == HR_STEP_REDUCE_COLUMN) print_column_end(p, stage, i);
        if (stage->steps[i].kind == HR_STEP_REDUCE_ALL) print_total_end(p, stage, i);
    }
    p->vector = vector;
}
