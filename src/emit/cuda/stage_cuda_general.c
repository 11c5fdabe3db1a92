/* A stage as a CUDA kernel for any extents. In: a stage. Out: text. See stage_cuda_general.h.
 *
 * A map has a thread for each element. Of what is reduced a block makes one result after the other: its
 * threads share out the terms. Neighbouring threads have neighbouring elements.
 */
#include "emit/cuda/stage_cuda_general.h"
#include "emit/cuda/stage_cuda_exchange.h"

#include "emit/cuda/stage_cuda.h"
#include "emit/reduce.h"

/* The indices of the results, and those that are reduced over. */
typedef struct general_indices {
    int result_count, reduced_count;
    int result[2 * HR_AXES_MAX], reduced[2 * HR_AXES_MAX];
} general_indices;

/* The one statement of the stage. */
static const hr_step *step_of(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (hr_step_is_emitted(&stage->steps[i])) return &stage->steps[i];
    return NULL;
}

static void append(int *out, int *count, const int *indices, int more) {
    for (int i = 0; i < more && *count < 2 * HR_AXES_MAX; i++)
        out[(*count)++] = indices[i];
}

static general_indices indices_of(const hr_plan *plan, const hr_stage *stage) {
    general_indices out = {0};
    const hr_step *step = step_of(stage);
    const bool columns = step->kind == HR_STEP_REDUCE_COLUMN, all = step->kind == HR_STEP_REDUCE_ALL,
               rows = step->kind == HR_STEP_REDUCE_ROW;
    if (columns || all)
        append(out.reduced, &out.reduced_count, stage->task, stage->task_count);
    else
        append(out.result, &out.result_count, stage->task, stage->task_count);
    if (rows || (all && !hr_step_is_row_total(plan, stage, step)))
        append(out.reduced, &out.reduced_count, stage->row, stage->row_count);
    else if (!all && step->kind != HR_STEP_ROW)
        append(out.result, &out.result_count, stage->row, stage->row_count);
    return out;
}

bool hr_cuda_general_sums(const hr_stage *stage) {
    const hr_step_kind kind = step_of(stage)->kind;
    return kind == HR_STEP_REDUCE_ROW || kind == HR_STEP_REDUCE_COLUMN || kind == HR_STEP_REDUCE_ALL;
}

bool hr_cuda_general_begins(const hr_plan *plan, const hr_stage *stage) {
    const hr_cuda_choice none = {0};
    return hr_stage_kernels_of(plan, stage, &none).begin;
}

const hr_size *hr_cuda_general_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage) {
    const general_indices indices = indices_of(plan, stage);
    return hr_size_points(sizes, plan->normal, indices.result, indices.result_count);
}

/* ---- the kernels ---- */

static void print_clear(hr_cuda_stage *s) {
    hr_cuda_print_clear(s->p, hr_cuda_statement(s, step_of(s->stage))->tensor, HR_CUDA_GENERAL_THREADS);
}

static void print_map(hr_cuda_stage *s, const general_indices *indices) {
    hr_printer *p = s->p;
    const hr_step *step = step_of(s->stage);
    const hr_statement *statement = hr_cuda_statement(s, step);
    const hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
    hr_print(p, "for (int64_t place = (int64_t)blockIdx.x * %d + threadIdx.x; place < total;",
             HR_CUDA_GENERAL_THREADS);
    hr_print(p, "     place += (int64_t)gridDim.x * %d) {", HR_CUDA_GENERAL_THREADS);
    p->indent++;
    hr_cuda_print_digits(p, indices->result, indices->result_count, "place");
    const char *value = hr_expr_text(p, step->value);
    if (step->kind == HR_STEP_SCATTER)
        hr_cuda_print_scatter(s, step, value);
    else
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, value, step->value->type, dtype));
    hr_cuda_close(p);
}

static void print_term(hr_cuda_stage *s, const hr_step *step, const char *type) {
    hr_printer *p = s->p;
    const char *reducer = hr_cuda_reducer(step), *value = hr_expr_text(p, step->value);
    if (hr_op_finds_position(step->reduce))
        hr_print(p, "%s::find(sum, %s(%s), at);", reducer,
                 step->value->type == HR_BOOL ? "int32_t" : hr_c_compute(step->value->type), value);
    else
        hr_print(p, "sum = %s::of(sum, (%s)(%s));", reducer, type, value);
}

static void print_sums(hr_cuda_stage *s, const general_indices *indices) {
    hr_printer *p = s->p;
    const hr_step *step = step_of(s->stage);
    /* many terms lose nothing in f64 */
    const char *type = hr_cuda_sums_f32(s, step) ? "double" : hr_cuda_sum_type(s, step);
    hr_print(p, "__shared__ %s slots[%d];", type, HR_CUDA_GENERAL_THREADS / 32);
    hr_print(p, "const int64_t terms = %s;", hr_emit_points(p, indices->reduced, indices->reduced_count));
    hr_print(p, "for (int64_t place = blockIdx.x; place < total; place += gridDim.x) {");
    p->indent++;
    hr_cuda_print_digits(p, indices->result, indices->result_count, "place");
    hr_print(p, "%s sum = %s;", type, hr_cuda_identity(step));
    hr_print(p, "for (int64_t at = threadIdx.x; at < terms; at += %d) {", HR_CUDA_GENERAL_THREADS);
    p->indent++;
    hr_cuda_print_digits(p, indices->reduced, indices->reduced_count, "at");
    print_term(s, step, type);
    hr_cuda_close(p);
    hr_print(p, "sum = reduce_row<%d, %s>(sum, slots);", HR_CUDA_GENERAL_THREADS, hr_cuda_reducer(step));
    hr_print(p, "if (threadIdx.x == 0) {");
    p->indent++;
    hr_cuda_print_stored_sum(s, step, "sum");
    hr_cuda_close(p);
    hr_print(p, "__syncthreads(); /* the slots are free */");
    hr_cuda_close(p);
}

static void print_work(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const general_indices indices = indices_of(s->plan, s->stage);
    const hr_stage_kernels kernels = {.begin = hr_cuda_general_begins(s->plan, s->stage)};
    hr_cuda_print_overlap(p, s->number, kernels);
    hr_print(p, "const int64_t total = %s;", hr_emit_points(p, indices.result, indices.result_count));
    if (hr_cuda_general_sums(s->stage))
        print_sums(s, &indices);
    else
        print_map(s, &indices);
}

hr_status hr_emit_general_cuda(hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    const hr_cuda_choice choice = {.rows = HR_CUDA_ROWS_AGAIN,
                                   .ends = HR_CUDA_ENDS_STRADDLED}; /* no groups */
    hr_cuda_stage s = {.p = p, .stage = stage, .plan = p->plan, .function = p->function, .number = number};
    s.c = &choice;
    if (!step_of(stage))
        return hr_fail(HR_INTERNAL, "stage %d of kernel %.60s computes nothing", number,
                       p->plan->source->name);
    hr_printer_stage(p, stage);
    p->vector = p->fast = false;
    p->lane = -1; /* every index has a name */
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    if (hr_cuda_general_begins(p->plan, stage))
        hr_cuda_print_stage(&s, "_begin", HR_CUDA_GENERAL_THREADS, print_clear);
    hr_cuda_print_stage(&s, "", HR_CUDA_GENERAL_THREADS, print_work);
    return hr_text_status(p->out);
}
