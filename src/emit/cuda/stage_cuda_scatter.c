/* What is written into places that depend on data, on a GPU. In: a stage. Out: text.
 *
 * Where the places are few, as a histogram's, many elements meet in one, and the memory adds them one after
 * the other: each block has sums of its own in shared memory and adds those to the places at its end.
 */
#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/element.h"
#include "emit/reduce.h"

#include <inttypes.h>

/* ---- what is added, and where ---- */

bool hr_cuda_is_grouped_scatter(const hr_cuda_stage *s, const hr_step *step) {
    const hr_statement *statement = hr_cuda_statement(s, step);
    int last = statement->subscript_count - 1;
    if (step->kind != HR_STEP_SCATTER || statement->store != HR_STORE_ADD || last < 0 ||
        s->c->ends == HR_CUDA_ENDS_STRADDLED || s->c->places)
        return false;
    if (hr_plan_layout(s->plan, statement->tensor) != HR_LAYOUT_DENSE) return false;
    if (statement->subscripts[last]->op != HR_OP_INDEX || statement->subscripts[last]->index != s->p->lane)
        return false;
    for (int a = 0; a < last; a++)
        if (hr_expr_level(s->p, statement->subscripts[a]) == HR_AT_LANE) return false;
    return true;
}

const char *hr_cuda_scatter_type(const hr_cuda_stage *s, const hr_step *step) {
    return hr_c_compute(hr_compute_type(s->function->tensors[hr_cuda_statement(s, step)->tensor].dtype));
}

void hr_cuda_print_scatter(hr_cuda_stage *s, const hr_step *step, const char *value) {
    hr_printer *p = s->p;
    const hr_statement *statement = hr_cuda_statement(s, step);
    int rank = statement->subscript_count, id = (int)(step - s->stage->steps);
    if (hr_cuda_is_grouped_scatter(s, step)) {
        hr_print(p, "y%d[v] = (%s)%s;", id, hr_cuda_scatter_type(s, step), value);
        return;
    }
    const char *condition = hr_emit_scatter_condition(s->p, step, rank);
    const char *tensor = hr_emit_tensor(p, statement->tensor);
    const char *offset = hr_emit_offset(p, statement->tensor, statement->subscripts, rank);
    const char *added = hr_format(p, "(%s)%s", hr_cuda_scatter_type(s, step), value);
    if (condition) hr_print(p, "if (%s)", condition);
    p->indent += condition != NULL;
    if (statement->store == HR_STORE_PLACE)
        hr_print(p, "%s[%s] = %s;", tensor, offset,
                 hr_emit_stored(p, value, step->value->type, s->function->tensors[statement->tensor].dtype));
    else if (s->c->places)
        hr_print(p, "add_near(few ? places : nullptr, %s, %s, %s);", tensor, offset, added);
    else
        hr_print(p, "add_to(%s + %s, %s);", tensor, offset, added);
    p->indent -= condition != NULL;
}

void hr_cuda_print_group_scatter(hr_cuda_stage *s, const hr_step *step) {
    hr_printer *p = s->p;
    const hr_statement *statement = hr_cuda_statement(s, step);
    int rank = statement->subscript_count, id = (int)(step - s->stage->steps);
    const char *aligned =
        hr_cuda_is_aligned(s, statement->tensor, statement->subscripts) ? "ALIGNED" : "false";
    const char *condition = hr_emit_scatter_condition(s->p, step, rank - 1);
    const char *row = hr_format(p, "%s + %s + %s", hr_emit_tensor(p, statement->tensor),
                                hr_emit_offset(p, statement->tensor, statement->subscripts, rank - 1),
                                hr_cuda_group_start(s));
    if (s->c->ends == HR_CUDA_ENDS_EXACT)
        hr_print(p, "%s%s%sadd_group<%s>(%s, y%d);", condition ? "if (" : "", condition ? condition : "",
                 condition ? ") " : "", aligned, row, id);
    else
        hr_print(p, "%s%s%sadd_part(%s, y%d, %s, %s - pos);", condition ? "if (" : "",
                 condition ? condition : "", condition ? ") " : "", row, id,
                 hr_cuda_is_map(s->c) ? "0" : "-pos", hr_cuda_row_end(s));
}

/* ---- sums of a block's own ---- */

/* What is added is 0 or 1, and elements are so few that 32 bits hold any sum. */
static bool is_count(const hr_cuda_stage *s, const hr_expr *value) {
    while (value->op == HR_OP_CONVERT && (value->dtype == HR_I64 || value->dtype == HR_I32))
        value = value->args[0];
    bool number = value->op == HR_OP_NUMBER && value->type == HR_I64;
    return s->c->position_bits == 32 &&
           (value->type == HR_BOOL || (number && value->whole >= 0 && value->whole <= 1));
}

void hr_cuda_print_places_begin(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    const hr_dtype dtype = hr_compute_type(s->function->tensors[hr_cuda_statement(s, step)->tensor].dtype);
    /* a place has as many addends as there are elements */
    const char *type = is_count(s, step->value) ? "int32_t"
                       : dtype == HR_F32        ? "double"
                                                : hr_cuda_scatter_type(s, step);
    if (!s->c->places) return;
    hr_print(p, "__shared__ %s places[%d];", type, s->c->places);
    hr_print(p, "const int64_t size = %s;", hr_emit_elements(p, hr_cuda_statement(s, step)->tensor));
    hr_print(p, "const bool few = size <= %d;", s->c->places);
    hr_print(p, "for (int64_t k = threadIdx.x; few && k < size; k += %d)", s->c->threads);
    hr_print(p, "    places[k] = 0;");
    hr_print(p, "__syncthreads();");
}

void hr_cuda_print_places_end(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    if (!s->c->places) return;
    hr_print(p, "__syncthreads();");
    hr_print(p, "for (int64_t k = threadIdx.x; few && k < size; k += %d)", s->c->threads);
    hr_print(p, "    if (places[k] != 0) add_to(%s + k, (%s)places[k]);",
             hr_emit_tensor(p, hr_cuda_statement(s, step)->tensor), hr_cuda_scatter_type(s, step));
}
