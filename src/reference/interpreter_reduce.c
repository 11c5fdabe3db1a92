/* Reductions and softmax rows: a loop over the bound indices in strips, each strip's values folded into one.
 *
 * Sums carry what each addition loses and add it at the end: the result is good to the last bit of f64 but
 * for extreme cancellation. Decisions: the argmax of nothing is 0, the mean of nothing NaN; the largest of no
 * whole numbers is the smallest value of its type.
 */
#include "reference/interpreter.h"

#include <math.h>
#include <string.h>

typedef struct tally {
    hr_op op;
    bool whole, any;
    double sum, error, scale; /* of values or of exponentials */
    double best, best_scale;  /* the largest, smallest or peak */
    int64_t whole_sum, whole_best, position;
    int32_t fault;
} tally;

/* ---- one strip ---- */

/* Adds without loss: what `sum` cannot hold of the two goes to `error` (Knuth's two-sum, no branch). */
static inline void add_exactly(double *sum, double *error, double value) {
    double total = *sum + value, left = total - value, right = total - left;
    *error += (*sum - left) + (value - right);
    *sum = total;
}

static double plain_sum(const double *values, int n) {
    double part[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k)
            part[k] += values[i + k];
    for (; i < n; ++i)
        part[i & 7] += values[i];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

static void add_strip(tally *t, const double *values, int n) {
    double part[8] = {0}, error[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k)
            add_exactly(&part[k], &error[k], values[i + k]);
    for (; i < n; ++i)
        add_exactly(&part[i & 7], &error[i & 7], values[i]);
    for (int k = 0; k < 8; ++k) {
        add_exactly(&t->sum, &t->error, part[k]);
        t->error += error[k];
    }
}

static double compensated(const tally *t) {
    return isfinite(t->sum) ? t->sum + t->error : t->sum;
}

static void fold_sum(tally *t, const hr_lanes *lanes, int n) {
    if (t->whole) {
        uint64_t sum = (uint64_t)t->whole_sum;
        for (int i = 0; i < n; ++i)
            sum += (uint64_t)lanes->whole[i];
        t->whole_sum = (int64_t)sum;
    } else {
        add_strip(t, lanes->value, n);
        t->scale += plain_sum(lanes->scale, n);
    }
}

/* The first best one stays; so does the first NaN. */
static void fold_best(tally *t, const hr_lanes *lanes, int n, int64_t position) {
    bool largest = t->op != HR_OP_REDUCE_MIN && t->op != HR_OP_REDUCE_ARGMIN;
    for (int i = 0; i < n; ++i) {
        bool better;
        if (t->whole) {
            int64_t value = lanes->whole[i];
            better = !t->any || (largest ? value > t->whole_best : value < t->whole_best);
            if (better) t->whole_best = value;
        } else {
            double value = lanes->value[i];
            better = !t->any || (t->best == t->best &&
                                 (value != value || (largest ? value > t->best : value < t->best)));
            if (better) t->best = value;
            if (better) t->best_scale = lanes->scale[i];
        }
        if (better) t->position = position + i;
        t->any = true;
    }
}

/* Sum of exp(value - peak), rescaled when the peak rises; while all are -inf the sum stays 0. */
static void fold_exponentials(tally *t, const hr_lanes *lanes, int n) {
    double before = t->best;
    bool had_any = t->any;
    fold_best(t, lanes, n, 0);
    if (!(fabs(t->best) <= HUGE_VAL) || isinf(t->best)) return;
    if (had_any && before != t->best) {
        double shrink = exp(before - t->best);
        t->sum *= shrink;
        t->error *= shrink;
        t->scale *= shrink;
    }
    double sum = 0, scale = 0;
    for (int i = 0; i < n; ++i) {
        double term = exp(lanes->value[i] - t->best);
        sum += term;
        if (term > 0) scale += term * (1 + lanes->scale[i] + fabs(t->best));
    }
    add_exactly(&t->sum, &t->error, sum);
    t->scale += scale;
}

static void fold_strip(tally *t, hr_lanes *lanes, int n, int64_t position) {
    if (lanes->faulty && !t->fault)
        for (int i = 0; i < (lanes->form == HR_FORM_UNIFORM ? 1 : n) && !t->fault; ++i)
            t->fault = lanes->fault[i];
    if (t->whole)
        hr_lanes_spread_whole(lanes, n);
    else
        hr_lanes_spread_value(lanes, n);
    switch (t->op) {
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MEAN:
        fold_sum(t, lanes, n);
        break;
    case HR_OP_REDUCE_LOGSUMEXP:
    case HR_OP_SOFTMAX:
        fold_exponentials(t, lanes, n);
        break;
    default:
        fold_best(t, lanes, n, position);
    }
}

/* ---- the loop ---- */

/* Sets the bound indices to the points from `start` on, in row-major order; returns how many. Rows of the
 * last index that are long enough are not crossed, so that it stays affine and the others uniform. */
static int set_points(hr_reference *reference, const hr_fold *fold, int64_t start) {
    int last = fold->expr->bound_count - 1;
    int64_t row = fold->extents[last], count = fold->total - start, rest = start;
    bool cross = last > 0 && row < 32 && row < reference->width;
    if (!cross && count > row - start % row) count = row - start % row;
    if (count > reference->width) count = reference->width;
    for (int k = last; k >= 0; rest /= fold->extents[k--]) {
        hr_lanes *index = &reference->indices[fold->expr->bound[k]];
        hr_lanes_set_whole(index, rest % fold->extents[k]);
        if (cross)
            index->form = HR_FORM_VARYING;
        else if (k == last)
            index->form = HR_FORM_AFFINE, index->step = 1;
        index->whole = fold->walk[k];
    }
    for (int64_t i = 0; cross && i < count; ++i) {
        rest = start + i;
        for (int k = last; k >= 0; rest /= fold->extents[k--])
            fold->walk[k][i] = rest % fold->extents[k];
    }
    return (int)count;
}

static hr_status loop(hr_reference *reference, hr_fold *fold, tally *t) {
    for (int64_t start = 0; start < fold->total;) {
        int count = set_points(reference, fold, start);
        HR_TRY(hr_code_run(reference, &fold->body, count, start == 0));
        fold_strip(t, hr_code_result(&fold->body), count, start);
        start += count;
    }
    return HR_OK;
}

static int64_t whole_limit(hr_op op, hr_dtype type) {
    if (type == HR_BOOL) return op == HR_OP_REDUCE_MIN;
    if (op == HR_OP_REDUCE_MAX) return type == HR_I32 ? INT32_MIN : INT64_MIN;
    return type == HR_I32 ? INT32_MAX : INT64_MAX;
}

static hr_known result_of(const hr_fold *fold, const tally *t) {
    hr_known known = {.fault = t->fault};
    double total = (double)fold->total;
    switch (t->op) {
    case HR_OP_REDUCE_SUM:
        known.value = compensated(t);
        known.scale = t->scale;
        known.whole = t->whole_sum;
        break;
    case HR_OP_REDUCE_MEAN:
        known.value = compensated(t) / total;
        known.scale = t->scale / total;
        break;
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        known.whole = t->position;
        break;
    case HR_OP_REDUCE_LOGSUMEXP:
        known.value = isfinite(t->best) ? t->best + log(compensated(t)) : t->best;
        known.scale = fabs(t->best) + t->scale / compensated(t);
        break;
    case HR_OP_SOFTMAX:
        known.peak = t->best;
        known.value = isfinite(t->best) ? compensated(t) : NAN; /* inf - inf is in the sum */
        known.scale = t->scale / compensated(t);
        break;
    default:
        known.value = t->best;
        known.scale = t->best_scale;
        known.whole = t->any ? t->whole_best : whole_limit(t->op, fold->expr->type);
    }
    if (!(known.scale >= fabs(known.value)) || isinf(known.scale)) known.scale = fabs(known.value);
    return known;
}

/* The fold where the indices of its surroundings stand now, all uniform. */
static hr_status fold_known(hr_reference *reference, int number, hr_known *out) {
    hr_fold *fold = &reference->folds[number];
    hr_memo_key key = hr_memo_key_at(reference, HR_MEMO_FOLD, number, fold->free_count, fold->free);
    const hr_known *found = hr_memo_find(reference->memo, key);
    if (found) {
        *out = *found;
        return HR_OK;
    }
    const hr_expr *expr = fold->expr;
    const hr_instruction *body = &fold->body.instructions[fold->body.count - 1];
    bool smallest = expr->op == HR_OP_REDUCE_MIN || expr->op == HR_OP_REDUCE_ARGMIN;
    tally t = {.op = expr->op, .whole = body->whole, .best = smallest ? INFINITY : -INFINITY};
    hr_lanes *saved =
        fold->saved + fold->free_count; /* a softmax's indices have a value outside it as well */
    for (int i = 0; i < expr->bound_count; ++i)
        saved[i] = reference->indices[expr->bound[i]];
    ++reference->depth;
    hr_status status = loop(reference, fold, &t);
    --reference->depth;
    for (int i = 0; i < expr->bound_count; ++i)
        reference->indices[expr->bound[i]] = saved[i];
    HR_TRY(status);
    *out = result_of(fold, &t);
    return hr_memo_insert(reference->memo, key, out);
}

/* ---- the instruction ---- */

static void put(hr_lanes *out, bool whole, int lane, const hr_known *known) {
    if (whole) {
        out->whole[lane] = known->whole;
    } else {
        out->value[lane] = known->value;
        out->scale[lane] = known->scale;
    }
}

static void put_softmax(hr_lanes *out, int lane, const hr_lanes *in, const hr_known *row) {
    int at = in->form == HR_FORM_UNIFORM ? 0 : lane;
    double share = exp(in->value[at] - row->peak) / row->value;
    double growth = share > 0 ? share * (1 + in->scale[at] + fabs(row->peak) + row->scale) : 0;
    out->value[lane] = share;
    out->scale[lane] = isfinite(growth) ? growth : fabs(share);
}

static hr_status put_lane(hr_reference *reference, const hr_code *code, int number, int lane,
                          const hr_known *known) {
    const hr_instruction *made = &code->instructions[number];
    hr_lanes *out = &code->lanes[number];
    if (made->op == HR_OP_SOFTMAX)
        put_softmax(out, lane, &code->lanes[made->args[0]], known);
    else
        put(out, made->whole, lane, known);
    return known->fault ? hr_fault_carry(reference, out, lane, known->fault) : HR_OK;
}

static hr_status fold_uniform(hr_reference *reference, const hr_code *code, int number, int count) {
    const hr_instruction *made = &code->instructions[number];
    hr_lanes *out = &code->lanes[number];
    bool softmax = made->op == HR_OP_SOFTMAX;
    int n = softmax && code->lanes[made->args[0]].form != HR_FORM_UNIFORM ? count : 1;
    hr_known known;
    HR_TRY(fold_known(reference, made->target, &known));
    out->form = n == 1 ? HR_FORM_UNIFORM : HR_FORM_VARYING;
    for (int i = 0; i < n; ++i)
        HR_TRY(put_lane(reference, code, number, i, &known));
    if (n == 1 && made->whole) out->base = out->whole[0];
    return HR_OK;
}

static hr_status fold_each(hr_reference *reference, const hr_code *code, int number, int count) {
    const hr_instruction *made = &code->instructions[number];
    const hr_fold *fold = &reference->folds[made->target];
    code->lanes[number].form = HR_FORM_VARYING;
    for (int i = 0; i < fold->free_count; ++i)
        fold->saved[i] = reference->indices[fold->free[i]];
    hr_status status = HR_OK;
    for (int lane = 0; lane < count && status == HR_OK; ++lane) {
        for (int i = 0; i < fold->free_count; ++i)
            hr_lanes_set_whole(&reference->indices[fold->free[i]], hr_lanes_whole_at(&fold->saved[i], lane));
        hr_known known = {0};
        if (hr_lane_live(code, made->region, lane)) status = fold_known(reference, made->target, &known);
        if (status == HR_OK) status = put_lane(reference, code, number, lane, &known);
    }
    for (int i = 0; i < fold->free_count; ++i)
        reference->indices[fold->free[i]] = fold->saved[i];
    return status;
}

hr_status hr_fold_run(hr_reference *reference, hr_code *code, int number, int count) {
    const hr_instruction *made = &code->instructions[number];
    const hr_fold *fold = &reference->folds[made->target];
    hr_lanes *out = &code->lanes[number];
    bool uniform = true;
    for (int i = 0; i < fold->free_count; ++i)
        uniform &= reference->indices[fold->free[i]].form == HR_FORM_UNIFORM;
    out->spread = 1;
    out->step = 0;
    out->faulty = false;
    HR_TRY(uniform ? fold_uniform(reference, code, number, count)
                   : fold_each(reference, code, number, count));
    const hr_lanes *in = made->op == HR_OP_SOFTMAX ? &code->lanes[made->args[0]] : NULL;
    for (int i = 0; in && in->faulty && i < (out->form == HR_FORM_UNIFORM ? 1 : count); ++i) {
        int32_t fault = in->fault[in->form == HR_FORM_UNIFORM ? 0 : i];
        if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
    }
    return HR_OK;
}
