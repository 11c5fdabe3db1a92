/* A stage as a CUDA kernel for any extents. In: a stage. Out: text. See stage_cuda_general.h.
 *
 * A map has a thread for each element. Of what is reduced a block makes one result after the other: its
 * threads share out the terms. Neighbouring threads have neighbouring elements.
 */
#include "emit/cuda/stage_cuda_general.h"
#include "emit/cuda/stage_cuda_exchange.h"

#include "emit/cuda/stage_cuda.h"
#include "emit/reduce.h"

/* ---- the kernels ---- */

static void print_clear(hr_cuda_stage *s) {
    hr_cuda_print_clear(s->p, hr_cuda_statement(s, hr_cuda_general_step(s->stage))->tensor,
                        HR_CUDA_GENERAL_THREADS);
}

static void print_map(hr_cuda_stage *s, const hr_general_indices *indices) {
    hr_printer *p = s->p;
    const hr_step *step = hr_cuda_general_step(s->stage);
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

static void print_sums(hr_cuda_stage *s, const hr_general_indices *indices) {
    hr_printer *p = s->p;
    const hr_step *step = hr_cuda_general_step(s->stage);
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
    const hr_general_indices indices = hr_cuda_general_indices(s->plan, s->stage);
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
    if (!hr_cuda_general_step(stage))
        return hr_fail(HR_INTERNAL, "stage %d of kernel %.60s computes nothing", number,
                       p->plan->source->name);
    hr_printer_stage(p, stage);
    p->vector = false;
    p->forms &= ~(unsigned)HR_FORM_FAST;
    p->lane = -1; /* every index has a name */
    p->outer_count = 0;
    hr_print(p, "/* %s", stage->name);
    hr_print(p, " * %s */", stage->why);
    if (hr_cuda_general_begins(p->plan, stage))
        hr_cuda_print_stage(&s, "_begin", HR_CUDA_GENERAL_THREADS, print_clear);
    hr_cuda_print_stage(&s, "", HR_CUDA_GENERAL_THREADS, print_work);
    return hr_text_status(p->out);
}
