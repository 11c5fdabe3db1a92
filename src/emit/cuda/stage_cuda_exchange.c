/* What a thread adds up, and what threads that hold a row reduce together. In: steps. Out: text: types,
 * shared memory for their shares, and after each pass the exchange. */
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_merge.h"
#include "emit/cuda/stage_cuda_ring.h"
#include "emit/reduce.h"

#include <inttypes.h>

/* ---- reductions ---- */

bool hr_cuda_is_total_of_parts(const hr_cuda_stage *s, const hr_step *step) {
    return step->kind == HR_STEP_REDUCE_ALL && step->reduce == HR_OP_REDUCE_SUM &&
           hr_cuda_statement(s, step)->value->type == HR_F32;
}

/* What a step's sum is, found positions aside. */
static hr_dtype sum_dtype(const hr_cuda_stage *s, const hr_step *step) {
    const bool sum = step->reduce == HR_OP_REDUCE_SUM;
    const hr_dtype type = sum ? hr_cuda_statement(s, step)->value->type : step->value->type;
    if (hr_cuda_is_total_of_parts(s, step)) return HR_F64;
    if (sum && type != HR_F32 && type != HR_F64) return HR_I64;
    return type == HR_BOOL ? HR_I32 : type;
}

bool hr_cuda_sums_f32(const hr_cuda_stage *s, const hr_step *step) {
    return step->reduce == HR_OP_REDUCE_SUM && sum_dtype(s, step) == HR_F32;
}

bool hr_cuda_sums_alike(const hr_cuda_stage *s, const hr_step *a, const hr_step *b) {
    return a->reduce == b->reduce && sum_dtype(s, a) == sum_dtype(s, b);
}

const char *hr_cuda_sum_type(const hr_cuda_stage *s, const hr_step *step) {
    const char *type = hr_c_compute(sum_dtype(s, step));
    return hr_op_finds_position(step->reduce) ? hr_format(s->p, "found<%s>", type) : type;
}

const char *hr_cuda_identity(const hr_step *step) {
    if (hr_op_finds_position(step->reduce)) return "{0, -1}";
    return hr_reduce_identity(step->reduce, step->value->type);
}

const char *hr_cuda_reducer(const hr_step *step) {
    if (step->reduce == HR_OP_REDUCE_SUM) return "reduce_sum";
    if (step->reduce == HR_OP_REDUCE_PROD) return "reduce_prod";
    if (hr_op_finds_position(step->reduce))
        return hr_op_seeks_largest(step->reduce) ? "reduce_found<true>" : "reduce_found<false>";
    return hr_op_seeks_largest(step->reduce) ? "reduce_max" : "reduce_min";
}

void hr_cuda_print_add(hr_cuda_stage *s, const hr_step *step, const char *sum, const char *value) {
    const char *type = hr_c_compute(sum_dtype(s, step));
    if (hr_op_finds_position(step->reduce)) {
        hr_print(s->p, "%s::find(%s, (%s)%s, pos + v);", hr_cuda_reducer(step), sum, type, value);
        return;
    }
    if (step->value->type == HR_BOOL || step->value->type == HR_I32)
        value = hr_format(s->p, "(%s)%s", type, value);
    if (step->reduce == HR_OP_REDUCE_SUM)
        hr_print(s->p, "%s += %s;", sum, value);
    else
        hr_print(s->p, "%s = %s::of(%s, %s);", sum, hr_cuda_reducer(step), sum, value);
}

/* ---- the exchange ---- */

static bool is_reduced_in(const hr_cuda_stage *s, int i, int pass) {
    return s->stage->steps[i].kind == HR_STEP_REDUCE_ROW && s->stage->steps[i].pass == pass &&
           !hr_cuda_is_merged(s, i);
}

/* A sum that was made beside its peak: each thread has its own peak until here. */
static void print_online(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        if (is_reduced_in(s, i, pass) && s->online[i])
            hr_print(p, "const float peak_%d = a%d;", s->online[i] - 1, i);
        if (!is_reduced_in(s, i, pass) || !s->beside[i]) continue;
        hr_expr_prepare(p, s->shift[i], HR_AT_TASK);
        const char *shift = hr_expr_text(p, s->shift[i]);
        hr_print(p, "a%d = online_total(a%d, peak_%d, %s);", i, i, i, shift);
    }
}

/* A ring's block may have any number of warps: slots beyond them hold what changes nothing. */
static int exchange_threads(const hr_cuda_choice *c) {
    return c->rows == HR_CUDA_ROWS_RING ? hr_cuda_ring_warps(c) * 32 : c->row_threads;
}

/* The other reduction that is made together with this one: of the same kind, in the same pass. `first` of the
 * two is the earlier step; -1: none. */
static int partner_of(const hr_cuda_stage *s, int i, int *first) {
    const hr_step *steps = s->stage->steps;
    int open = -1;
    for (int k = 0; k < s->stage->step_count; k++) {
        if (!is_reduced_in(s, k, steps[i].pass) || !hr_cuda_sums_alike(s, &steps[k], &steps[i])) continue;
        if (open >= 0 && (k == i || open == i)) {
            *first = open;
            return k == i ? open : k;
        }
        open = open < 0 ? k : -1;
    }
    *first = i;
    return -1;
}

bool hr_cuda_has_slots(const hr_cuda_stage *s, int i) {
    int first;
    if (s->stage->steps[i].kind != HR_STEP_REDUCE_ROW) return false;
    if (hr_cuda_is_merged(s, i)) return !s->merged[i];
    partner_of(s, i, &first);
    return first == i;
}

static bool has_barrier(const hr_cuda_choice *c) {
    return c->row_threads > 32;
}

/* Before the barrier: what each warp has. */
static void print_shares(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *reducer = hr_cuda_reducer(&s->stage->steps[i]);
    int first, partner = partner_of(s, i, &first);
    if (!has_barrier(c) || first != i) return;
    if (partner < 0)
        hr_print(p, "leave_share<%d, %s>(a%d, slots_%d%s);", exchange_threads(c), reducer, i, i, s->set);
    else
        hr_print(p, "leave_two_shares<%d, %s>(a%d, a%d, slots_%d%s);", exchange_threads(c), reducer, i,
                 partner, i, s->set);
}

/* After it: all threads have the sum. */
static void print_taking(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *reducer = hr_cuda_reducer(&s->stage->steps[i]);
    int first, partner = partner_of(s, i, &first);
    if (first != i) return;
    if (partner < 0 && has_barrier(c))
        hr_print(p, "a%d = take_shares<%d, %s>(slots_%d%s);", i, exchange_threads(c), reducer, i, s->set);
    else if (partner < 0)
        hr_print(p, "a%d = reduce_row<%d, %s>(a%d, &a%d);", i, c->row_threads, reducer, i, i);
    else if (has_barrier(c))
        hr_print(p, "take_two_shares<%d, %s>(a%d, a%d, slots_%d%s);", exchange_threads(c), reducer, i,
                 partner, i, s->set);
    else
        hr_print(p, "reduce_two<%d, %s>(a%d, a%d);", c->row_threads, reducer, i, partner);
}

/* What blocks of a cluster have of it, and its value. */
static void print_reduced(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const hr_step *step = &s->stage->steps[i];
    if (c->cluster > 1 && c->rows == HR_CUDA_ROWS_RING)
        hr_print(p, "a%d = meet_cluster<%d, %s>(a%d, shares_%d[turn], met_%d + turn, parity);", i, c->slices,
                 hr_cuda_reducer(step), i, i, i);
    else if (c->cluster > 1)
        hr_print(p, "a%d = reduce_cluster<%d, %s>(a%d, shares_%d%s);", i, c->slices, hr_cuda_reducer(step), i,
                 i, s->set);
    hr_dtype type = hr_cuda_statement(s, step)->value->type;
    const char *text = hr_op_finds_position(step->reduce) ? hr_format(p, "(a%d.at < 0 ? 0 : a%d.at)", i, i)
                       : type == HR_BOOL                  ? hr_format(p, "(a%d != 0)", i)
                                                          : hr_format(p, "(%s)a%d", hr_c_compute(type), i);
    hr_emit_step_value(p, step, text, type);
}

void hr_cuda_print_exchange(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    bool any = false;
    print_online(s, pass);
    for (int i = 0; i < s->stage->step_count; i++) {
        if (!is_reduced_in(s, i, pass)) continue;
        print_shares(s, i);
        any = true;
    }
    if (any && has_barrier(s->c)) hr_print(p, "__syncthreads();");
    if (any && !s->exchanged) hr_cuda_print_late_asking(s, hr_cuda_print_task_indices);
    s->exchanged |= any;
    for (int i = 0; i < s->stage->step_count; i++)
        if (is_reduced_in(s, i, pass)) print_taking(s, i);
    for (int i = 0; i < s->stage->step_count; i++)
        if (is_reduced_in(s, i, pass)) print_reduced(s, i);
}

void hr_cuda_print_slots(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *sets = c->persistent ? "[2]" : "";
    bool any = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_REDUCE_ROW) continue;
        const char *type = hr_cuda_slot_type(s, i);
        if (!type) continue;
        int first, partner = partner_of(s, i, &first);
        if (has_barrier(c) && first == i)
            hr_print(p, "__shared__ %s slots_%d%s[%d];", type, i, sets,
                     exchange_threads(c) / 32 * (partner < 0 ? 1 : 2));
        if (c->cluster > 1)
            hr_print(p, "__shared__ %s shares_%d%s[%d];", hr_cuda_share_type(s, i), i, sets, c->slices);
        if (c->cluster > 1 && c->rows == HR_CUDA_ROWS_RING) hr_print(p, "__shared__ uint64_t met_%d[2];", i);
        any = true;
    }
    if (!any || (!has_barrier(c) && c->cluster < 2)) return;
    if (c->persistent)
        hr_print(p,
                 "int turn = 0; /* of two sets of shared memory, so that one barrier a reduction is enough "
                 "*/");
    if (c->rows == HR_CUDA_ROWS_RING) hr_cuda_print_ring_arrivals(s);
    if (c->cluster > 1) hr_print(p, "cluster_barrier(); /* all blocks of the cluster run */");
}
