/* Two reductions with one exchange. In: a stage. Out: text. See stage_cuda_merge.h. */
#include "emit/cuda/stage_cuda_merge.h"

#include "emit/cuda/stage_cuda_ring.h"

#include <inttypes.h>

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

static int second_of(const hr_cuda_stage *s, int first) {
    for (int i = first + 1; i < s->stage->step_count; i++)
        if (s->merged[i] == first + 1) return i;
    return -1;
}

bool hr_cuda_is_merged(const hr_cuda_stage *s, int step) {
    return s->merged[step] || second_of(s, step) >= 0;
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
        hr_print(p, "send_share<%d>(block_%d, shares_%d[turn], met_%d + turn);", c->slices, i, first, first);
        hr_print(p, "wait_for_arrivals(met_%d + turn, parity);", first);
        if (uneven) print_held_by_blocks(s);
        hr_print(p, "const auto merged_%d = shares_%d[turn][threadIdx.x %% %d].of_lanes<%d>(%s);", i, first,
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
