/* Elements that stand some places apart from those of the next lane: a channel's taps w[c, k], every other
 * column x[m, 2 * n + 1]. In: a stage whose groups lie in one row. Out: text.
 *
 * What a group's elements need of them, and of those between, is one run of memory: it is loaded in pieces of
 * 16 bytes, once for all that read it.
 */
#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"

#include <inttypes.h>

enum { APART_MOST = 8, RUN_BYTES_MOST = 128 };

typedef struct apart {
    int64_t by, rest; /* element v of a group is element v * by + rest of the run */
    int axis;         /* the subscript that is the lane's */
} apart;

static bool is_lane(const hr_cuda_stage *s, const hr_expr *e) {
    return e->op == HR_OP_INDEX && e->index == s->p->lane;
}

/* lane * by, lane * by + rest */
static bool is_multiple(const hr_cuda_stage *s, const hr_expr *e, apart *out) {
    if (e->op == HR_OP_ADD && e->args[1]->op == HR_OP_NUMBER) {
        out->rest = e->args[1]->whole;
        e = e->args[0];
    }
    if (e->op != HR_OP_MUL) return false;
    int number = e->args[0]->op == HR_OP_NUMBER ? 0 : 1;
    out->by = e->args[number]->whole;
    return e->args[number]->op == HR_OP_NUMBER && is_lane(s, e->args[1 - number]);
}

/* Nothing stands between it and its memory: no check, no value in hand, no strides. */
static bool is_plain_read(const hr_cuda_stage *s, const hr_expr *e) {
    return e->op == HR_OP_ELEMENT && s->p->lane >= 0 && s->function->tensors[e->tensor].rank > 0 &&
           !hr_element_is_guarded(s->function, e) && !hr_element_is_checked(s->function, e) &&
           !s->p->value[e->tensor] && hr_plan_layout(s->plan, e->tensor) == HR_LAYOUT_DENSE &&
           !hr_stage_makes(s->plan, s->stage, e->tensor);
}

static bool is_apart(const hr_cuda_stage *s, const hr_expr *e, apart *out) {
    if (!is_plain_read(s, e)) return false;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int last = tensor->rank - 1;
    *out = (apart){.axis = last};
    if (e->args[last]->op == HR_OP_NUMBER && last > 0 && is_lane(s, e->args[last - 1]) &&
        tensor->shape[last]->op == HR_OP_NUMBER)
        *out = (apart){tensor->shape[last]->whole, e->args[last]->whole, last - 1};
    else if (!is_multiple(s, e->args[last], out))
        return false;
    for (int a = 0; a < tensor->rank; a++)
        if (a != out->axis && hr_expr_level(s->p, e->args[a]) == HR_AT_LANE) return false;
    return out->by > 1 && out->by <= APART_MOST && out->rest >= 0 && out->rest < out->by &&
           out->by * s->c->vector * (int64_t)hr_dtype_size(tensor->dtype) <= RUN_BYTES_MOST;
}

/* The same run: they differ in their place between two lanes alone. */
static bool is_same_run(const hr_expr *e, const apart *a, const hr_expr *other, const apart *b) {
    bool same = e->tensor == other->tensor && a->by == b->by && a->axis == b->axis;
    for (int k = 0; k < e->arg_count && same; k++)
        same = e->args[k] == other->args[k] || k == e->arg_count - 1;
    return same;
}

/* Rows begin at whole pieces of 16 bytes, if the tensor does. */
static bool rows_are_aligned(const hr_cuda_stage *s, const hr_expr *e, const apart *a) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int64_t row = a->axis < tensor->rank - 1 ? a->by : 1, axis, size = (int64_t)hr_dtype_size(tensor->dtype);
    bool known = hr_extent_value(s->function, tensor->shape[a->axis], s->extents, &axis) == HR_OK;
    return known && (a->axis == 0 || axis * row * size % 16 == 0);
}

static const char *print_run(hr_cuda_stage *s, const hr_expr *e, const apart *a) {
    hr_printer *p = s->p;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    const char *run = hr_format(p, "run%d_%.40s", ++p->number, tensor->name);
    int64_t count = a->by * s->c->vector;
    hr_print(p, "group<%s, %" PRId64 "> %s;", hr_c_storage(tensor->dtype), count, run);
    hr_print(p, "{");
    p->indent++;
    hr_print(p, "const int64_t i = %s;", hr_cuda_group_start(s));
    const char *place = hr_emit_offset(p, e->tensor, e->args, tensor->rank);
    hr_print(p, "%s = load_group<%s, %" PRId64 ">(%s + (%s) - %" PRId64 ", stay::plain);", run,
             rows_are_aligned(s, e, a) ? "ALIGNED" : "false", count, hr_emit_tensor(p, e->tensor), place,
             a->rest);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_LANE);
    return run;
}

static hr_visit find_apart(void *stage, const hr_expr *node) {
    hr_cuda_stage *s = stage;
    apart a, other;
    const char *run = NULL;
    if (s->stash[node->id] || s->held[node->id]) return HR_VISIT_PAST;
    if (!is_apart(s, node, &a)) return HR_VISIT_ON;
    for (int i = 0; i < s->wide_count && !run; i++)
        if (is_apart(s, s->wide[i], &other) && is_same_run(node, &a, s->wide[i], &other))
            run = s->wide_run[i];
    if (s->wide_count == HR_CUDA_STEPS_MAX) return HR_VISIT_PAST;
    s->wide_run[s->wide_count] = run;
    s->wide[s->wide_count++] = node;
    if (!run) s->wide_run[s->wide_count - 1] = print_run(s, node, &a);
    return HR_VISIT_PAST;
}

void hr_cuda_print_wide_loads(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    s->wide_count = 0;
    if (s->c->ends != HR_CUDA_ENDS_EXACT || s->c->ends == HR_CUDA_ENDS_STRADDLED || s->c->vector < 2) return;
    hr_walk walk = {.enter = find_apart, .context = s};
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass)) hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(p, &walk);
    for (int i = 0; i < s->wide_count; i++) {
        const hr_expr *e = s->wide[i];
        apart a = {0};
        is_apart(s, e, &a);
        const char *bits =
            hr_format(p, "element_of(%s, v * %" PRId64 " + %" PRId64 ")", s->wide_run[i], a.by, a.rest);
        p->buffer[e->id] = hr_cuda_value_of(s, e, bits);
    }
}

void hr_cuda_drop_wide_loads(hr_cuda_stage *s) {
    for (int i = 0; i < s->wide_count; i++)
        s->p->buffer[s->wide[i]->id] = NULL;
    s->wide_count = 0;
}
