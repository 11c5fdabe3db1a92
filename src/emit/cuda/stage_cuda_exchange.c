/* What a thread adds up, and what threads that hold a row reduce together. In: steps. Out: text: types,
 * shared memory for their shares, and after each pass the exchange. See stage_cuda_exchange.h. */
#include "emit/cuda/stage_cuda_exchange.h"

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

static bool sums_alike(const hr_cuda_stage *s, const hr_step *a, const hr_step *b) {
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

static int second_of(const hr_cuda_stage *s, int first) {
    for (int i = first + 1; i < s->stage->step_count; i++)
        if (s->merged[i] == first + 1) return i;
    return -1;
}

/* The step is exchanged together with another. */
static bool is_merged(const hr_cuda_stage *s, int step) {
    return s->merged[step] || second_of(s, step) >= 0;
}

static bool is_reduced_in(const hr_cuda_stage *s, int i, int pass) {
    return s->stage->steps[i].kind == HR_STEP_REDUCE_ROW && s->stage->steps[i].pass == pass &&
           !is_merged(s, i);
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
        if (!is_reduced_in(s, k, steps[i].pass) || !sums_alike(s, &steps[k], &steps[i])) continue;
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
    if (is_merged(s, i)) return !s->merged[i];
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
        hr_print(p,
                 "a%d = reduce_cluster_by_messages<%d, %s>(a%d, shares_%d[buffer], met_%d + buffer, parity);",
                 i, c->slices, hr_cuda_reducer(step), i, i, i);
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
    if (any && !s->exchanged) hr_cuda_print_postponed_loads(s, hr_cuda_print_task_indices);
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
                 "int buffer = 0; /* of two sets of shared memory, so that one barrier a reduction is enough "
                 "*/");
    if (c->rows == HR_CUDA_ROWS_RING) hr_cuda_print_ring_arrivals(s);
    if (c->cluster > 1) hr_print(p, "cluster_barrier(); /* all blocks of the cluster run */");
}

/* ---- two reductions with one exchange ---- */

enum { MERGED_THREADS = 512 };

static bool is_variance(const hr_step *step) {
    return step->variance != NULL;
}

/* What the second step takes from the first: the mean or the peak. */
static const hr_expr *taken_by(const hr_cuda_stage *s, int i) {
    const hr_step *step = &s->stage->steps[i];
    const hr_expr *shift = NULL;
    if (is_variance(step)) return step->variance->about;
    hr_cuda_online_sum(s->plan, s->stage, s->merged[i] - 1, &shift);
    return shift;
}

static int first_of(const hr_cuda_stage *s, int i) {
    const hr_step *steps = s->stage->steps;
    const hr_expr *shift;
    if (is_variance(&steps[i]))
        return steps[steps[i].variance->sum].pass == steps[i].pass - 1 ? steps[i].variance->sum : -1;
    for (int k = 0; k < i; k++)
        if (steps[k].pass == steps[i].pass - 1 && hr_cuda_online_sum(s->plan, s->stage, k, &shift) == i)
            return k;
    return -1;
}

/* What is kept of the pass can be set right: nothing, or just the value that is added up. */
static bool keeps_only_itself(const hr_cuda_stage *s, int i) {
    const hr_stage *stage = s->stage;
    for (int k = 0; k < hr_stash_of(stage)->count; k++)
        if (hr_expr_contains(hr_stash_of(stage)->value[k], taken_by(s, i)) &&
            (is_variance(&stage->steps[i]) || hr_stash_of(stage)->value[k] != stage->steps[i].value))
            return false;
    return true;
}

static void leave_apart(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].pass == pass) s->merged[i] = 0;
}

void hr_cuda_find_merged(hr_cuda_stage *s) {
    const hr_stage *stage = s->stage;
    bool taken[HR_CUDA_STEPS_MAX] = {false};
    for (int pass = 1; pass < stage->pass_count; pass++) {
        bool all = !hr_cuda_is_merged_pass(s, pass - 1);
        for (int i = 0; i < stage->step_count && all; i++) {
            if (!hr_cuda_runs_in(s, &stage->steps[i], pass)) continue;
            int first = stage->steps[i].kind == HR_STEP_REDUCE_ROW ? first_of(s, i) : -1;
            all = first >= 0 && !taken[first];
            if (!all) continue;
            taken[first] = true;
            s->merged[i] = first + 1;
            all = keeps_only_itself(s, i);
        }
        if (!all) leave_apart(s, pass);
    }
}

/* Every thread holds as many elements of a row. */
static bool is_even(const hr_cuda_choice *c) {
    return c->row == (int64_t)c->threads * c->slices * c->groups * c->vector &&
           c->threads == hr_cuda_ring_warps(c) * 32;
}

/* Where a row is held by so many threads, an exchange takes as long as a walk. */
bool hr_cuda_may_join(const hr_cuda_choice *c) {
    if (c->rows == HR_CUDA_ROWS_RING) return true;
    return hr_cuda_is_resident(c) && c->ends == HR_CUDA_ENDS_EXACT && c->cluster < 2 &&
           c->rows != HR_CUDA_ROWS_BLOCK && !c->columns && !c->totals && c->block_rows == 1 &&
           c->threads >= MERGED_THREADS && is_even(c);
}

bool hr_cuda_is_merged_pass(const hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].pass == pass && s->merged[i]) return true;
    return false;
}

/* Of `threads` threads. */
static const char *merged_type(const hr_cuda_stage *s, int second, int64_t threads) {
    if (!is_variance(&s->stage->steps[second]))
        return s->c->rows == HR_CUDA_ROWS_RING ? "online_share<true>" : "online_share<false>";
    if (!is_even(s->c)) return "uneven_share";
    return hr_format(s->p, "even_share<%" PRId64 ">", threads * s->c->groups * s->c->vector);
}

const char *hr_cuda_slot_type(const hr_cuda_stage *s, int step) {
    if (s->merged[step]) return NULL;
    int second = second_of(s, step);
    return second < 0 ? hr_cuda_sum_type(s, &s->stage->steps[step]) : merged_type(s, second, 32);
}

const char *hr_cuda_share_type(const hr_cuda_stage *s, int step) {
    int second = second_of(s, step);
    return second < 0 ? hr_cuda_sum_type(s, &s->stage->steps[step]) : merged_type(s, second, s->c->threads);
}

const char *hr_cuda_slot_identity(hr_cuda_stage *s, int step) {
    int second = second_of(s, step);
    if (second < 0) return hr_cuda_identity(&s->stage->steps[step]);
    return is_variance(&s->stage->steps[second]) ? "{0, 0}" : "{-INFINITY, 0}";
}

static bool any_variance(const hr_cuda_stage *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->merged[i] && is_variance(&s->stage->steps[i])) return true;
    return false;
}

void hr_cuda_print_held_counts(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int warps = hr_cuda_ring_warps(c);
    if (!any_variance(s) || is_even(c)) return;
    hr_print(p, "float held = 0; /* elements of a row that this thread holds */");
    hr_cuda_open_groups(s);
    hr_print(p, "held += %d;", c->vector);
    hr_cuda_close(p);
    hr_print(p, "__shared__ float held_by_warps[%d], held_by_block;", warps);
    hr_print(p, "if (threadIdx.x < %d) held_by_warps[threadIdx.x] = 0;", warps);
    hr_print(p, "__syncthreads();");
    hr_print(p, "const float held_by_warp = reduce_lanes<32, reduce_sum>(held);");
    hr_print(p, "if (threadIdx.x %% 32 == 0) held_by_warps[threadIdx.x / 32] = held_by_warp;");
    hr_print(p, "__syncthreads();");
    hr_print(p, "const float held_by_all = reduce_lanes<%d, reduce_sum>(held_by_warps[threadIdx.x %% %d]);",
             warps, warps);
    hr_print(p, "if (threadIdx.x == 0) held_by_block = held_by_all;");
    hr_print(p, "__syncthreads();");
}

/* What a block of the cluster holds, one a lane. */
static void print_held_by_blocks(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int share = c->threads * c->groups * c->vector;
    hr_print(p, "const int rest = %" PRId64 " - (int)threadIdx.x %% %d * %d;", c->row, c->slices, share);
    hr_print(p, "const float held_by_blocks = rest < 0 ? 0 : rest < %d ? rest : %d;", share, share);
}

void hr_cuda_print_merged_walk(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    if (!hr_cuda_is_merged_pass(s, pass)) return;
    if (s->c->groups * s->c->vector * 4 > 128) hr_cuda_print_packing(s);
    for (int i = 0; i < s->stage->step_count; i++) {
        if (s->stage->steps[i].pass != pass || !s->merged[i]) continue;
        if (is_variance(&s->stage->steps[i]) && is_even(s->c))
            hr_print(p, "const float own_%d = a%d * (1.0f / %d);", i, s->merged[i] - 1,
                     s->c->groups * s->c->vector);
        else if (is_variance(&s->stage->steps[i]))
            hr_print(p, "const float own_%d = held > 0 ? machine_divide(a%d, held) : 0.0f;", i,
                     s->merged[i] - 1);
        else
            hr_print(p, "const float own_%d = online_base(a%d);", i, s->merged[i] - 1);
        p->name[taken_by(s, i)->id] = hr_format(p, "own_%d", i);
    }
    hr_cuda_print_pass(s, pass);
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].pass == pass && s->merged[i]) p->name[taken_by(s, i)->id] = NULL;
}

static void print_merged(hr_cuda_stage *s, int i) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int first = s->merged[i] - 1, warps = hr_cuda_ring_warps(c);
    bool variance = is_variance(&s->stage->steps[i]), uneven = variance && !is_even(c);
    const char *block = c->cluster > 1 ? "block" : "merged";
    hr_print(p, "const auto warp_%d = %s{a%d, a%d}.of_lanes<32>(%s);", i, merged_type(s, i, 1), first, i,
             uneven ? "held, held_by_warps[threadIdx.x / 32]" : "");
    hr_print(p, "if (threadIdx.x %% 32 == 0) slots_%d%s[threadIdx.x / 32] = warp_%d;", first, s->set, i);
    hr_print(p, "__syncthreads();");
    hr_print(p, "const auto %s_%d = slots_%d%s[threadIdx.x %% %d].of_lanes<%d>(%s);", block, i, first, s->set,
             warps, warps,
             uneven ? hr_format(p, "held_by_warps[threadIdx.x %% %d], held_by_block", warps) : "");
    if (c->cluster > 1) {
        hr_print(p, "send_share<%d>(block_%d, shares_%d[buffer], met_%d + buffer);", c->slices, i, first,
                 first);
        hr_print(p, "wait_for_arrivals(met_%d + buffer, parity);", first);
        if (uneven) print_held_by_blocks(s);
        hr_print(p, "const auto merged_%d = shares_%d[buffer][threadIdx.x %% %d].of_lanes<%d>(%s);", i, first,
                 c->slices, c->slices, uneven ? hr_format(p, "held_by_blocks, %" PRId64, c->row) : "");
    }
    hr_emit_step_value(p, &s->stage->steps[first],
                       hr_format(p, variance ? "merged_%d.sum" : "merged_%d.peak", i), HR_F32);
}

void hr_cuda_print_merged_exchange(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].pass == pass && s->merged[i]) print_merged(s, i);
}

void hr_cuda_print_merged_values(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass != pass || !s->merged[i]) continue;
        const hr_expr *taken = taken_by(s, i);
        hr_expr_prepare(p, taken, HR_AT_TASK);
        const char *text = hr_expr_text(p, taken);
        if (is_variance(step)) {
            const char *about = is_even(s->c) ? "" : hr_format(p, "<%" PRId64 ">", s->c->row);
            hr_emit_step_value(p, step, hr_format(p, "merged_%d.squares_about%s(%s)", i, about, text),
                               HR_F32);
            continue;
        }
        hr_print(p, "const float scale_%d = %s(own_%d - %s);", i,
                 s->c->math == HR_CUDA_MATH_FAST ? "fast_exp" : "f32_exp", i, text);
        hr_emit_step_value(p, step, hr_format(p, "online_sum(merged_%d.sum, merged_%d.peak, %s)", i, i, text),
                           HR_F32);
    }
}

const char *hr_cuda_merged_scale(hr_cuda_stage *s, const hr_expr *stash) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->merged[i] && !is_variance(&s->stage->steps[i]) && s->stage->steps[i].value == stash)
            return hr_format(s->p, " * scale_%d", i);
    return "";
}
