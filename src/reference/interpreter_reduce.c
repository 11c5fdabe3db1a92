/* Reductions and softmax rows: a loop over the bound indices in strips, each strip's values folded into one.
 *
 * Sums carry what each addition loses and add it at the end: the result is good to the last bit of f64 but
 * for extreme cancellation. Decisions: the argmax of nothing is 0, the mean of nothing NaN; the largest of no
 * whole numbers is the smallest value of its type.
 */
#include "reference/interpreter.h"

#include "base/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct tally {
    hr_op op;
    hr_dtype type;
    bool whole, any, doubt, lost;
    double sum, error;                   /* of values or of exponentials */
    hr_sum *errors;                      /* theirs */
    double best, best_bound, best_noise; /* the largest, smallest or peak */
    double rival;                        /* argmax: the most that any other may be; argmin: the least */
    double product, reach, own_reach;    /* of values; with their errors, and with those that are their own */
    double above, below; /* products of the sizes over 1 and under 1: no partial product is beyond */
    int64_t count;
    int64_t whole_sum, whole_best, position;
    int32_t fault;
} tally;

static double rounding_of(hr_dtype type) {
    return hr_dtype_rounding(type == HR_F64 ? HR_F64 : HR_F32);
}

/* ---- one strip ---- */

/* Adds without loss: what `sum` cannot hold of the two goes to `error` (Knuth's two-sum, no branch). */
static inline void add_exactly(double *sum, double *error, double value) {
    double total = *sum + value, left = total - value, right = total - left;
    *error += (*sum - left) + (value - right);
    *sum = total;
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

static void fold_sum(tally *t, hr_lanes *lanes, int n) {
    if (t->whole) {
        uint64_t sum = (uint64_t)t->whole_sum;
        for (int i = 0; i < n; ++i)
            sum += (uint64_t)lanes->whole[i];
        t->whole_sum = (int64_t)sum;
        return;
    }
    for (int i = 0; i < n; ++i) {
        hr_sum_add(t->errors, lanes->value[i], lanes->bound[i], lanes->noise[i]);
        if (hr_sum_leaves_out(t->errors, lanes->value[i], lanes->noise[i])) lanes->value[i] = 0;
    }
    add_strip(t, lanes->value, n);
}

/* Each factor is off by its error, and each product by a rounding. */
static void fold_product(tally *t, const hr_lanes *lanes, int n) {
    const double unit = rounding_of(t->type);
    if (t->whole) {
        uint64_t product = (uint64_t)t->whole_sum;
        for (int i = 0; i < n; ++i)
            product *= (uint64_t)lanes->whole[i];
        t->whole_sum = (int64_t)product;
        return;
    }
    for (int i = 0; i < n; ++i) {
        const double value = lanes->value[i], size = fabs(value);
        if (!(lanes->bound[i] <= HUGE_VAL) || isinf(lanes->bound[i])) t->lost = true;
        t->product *= value;
        t->reach *= (size + lanes->bound[i]) * (1 + unit);
        t->own_reach *= (size + lanes->noise[i]) * (1 + unit);
        if (size > 1) t->above *= size;
        if (size < 1 && size > 0) t->below *= size;
    }
    t->count += n;
}

/* What a partial product of some order may lose: all of it beyond the type's largest number, its precision
 * below the smallest. */
static void put_product(tally *t, hr_known *out) {
    const bool wide = t->type == HR_F64;
    const double largest = wide ? DBL_MAX : (double)FLT_MAX, tiny = wide ? DBL_MIN : (double)FLT_MIN;
    const double more = 0x1p-52 * (double)t->count * t->reach;
    out->value = t->product;
    out->whole = t->whole_sum;
    if (t->whole) return;
    out->bound = t->reach - fabs(t->product) + more;
    out->noise = fmin(out->bound, t->own_reach - fabs(t->product) + more);
    if (t->below < tiny) out->bound += tiny * (double)t->count * t->above;
    if (t->product != t->product && !t->lost) return;
    if (t->above > largest && t->product == t->product && t->reach > 0) t->lost = true;
    if (isinf(t->product) && t->below < tiny) t->lost = true;
    if (t->lost) out->bound = INFINITY, out->noise = 0;
}

static bool seeks_largest(const tally *t) {
    return t->op != HR_OP_REDUCE_MIN && t->op != HR_OP_REDUCE_ARGMIN;
}

/* A value that the errors let stand for the best one makes its error theirs; positions hang on it. */
static void fold_best_error(tally *t, const hr_lanes *lanes, int i, bool better) {
    const double value = lanes->value[i], bound = lanes->bound[i], noise = lanes->noise[i];
    const double error = bound, best_error = t->best_bound;
    const double sign = seeks_largest(t) ? 1 : -1, old = sign * t->best, new = sign *value;
    if (!(bound <= HUGE_VAL) || isinf(bound)) t->lost = true;
    const bool near = t->any && fabs(old - new) <= error + best_error;
    if (t->any) t->rival = fmax(t->rival, better ? old + best_error : new + error);
    if (better || near) {
        t->best_bound = near ? fmax(bound, t->best_bound) : bound;
        t->best_noise = near ? fmax(noise, t->best_noise) : noise;
    }
}

/* The first best one stays; so does the first NaN. */
static void fold_best(tally *t, const hr_lanes *lanes, int n, int64_t position) {
    const bool largest = seeks_largest(t);
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
            fold_best_error(t, lanes, i, better);
            if (better) t->best = value;
        }
        if (better) t->position = position + i;
        t->any = true;
    }
}

/* Sum of exp(value - peak), rescaled when the peak rises; while all are -inf the sum stays 0. */
static void fold_exponentials(tally *t, const hr_lanes *lanes, int n) {
    const double before = t->best, unit = rounding_of(t->type);
    bool had_any = t->any;
    fold_best(t, lanes, n, 0);
    if (!(fabs(t->best) <= HUGE_VAL) || isinf(t->best)) return;
    if (had_any && before != t->best) {
        double shrink = exp(before - t->best);
        t->sum *= shrink;
        t->error *= shrink;
        hr_sum_scale(t->errors, shrink);
    }
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        const double below = t->best - lanes->value[i], term = exp(-below);
        sum += term;
        if (!(term > 0)) continue;
        const double own = unit * hr_exponential_error(below);
        hr_sum_add(t->errors, term, term * (lanes->bound[i] + own), term * (lanes->noise[i] + own));
    }
    add_exactly(&t->sum, &t->error, sum);
}

static void fold_strip(tally *t, hr_lanes *lanes, int n, int64_t position) {
    if (lanes->faulty && !t->fault)
        for (int i = 0; i < (lanes->form == HR_FORM_UNIFORM ? 1 : n) && !t->fault; ++i)
            t->fault = lanes->fault[i];
    for (int i = 0; lanes->doubtful && i < n && !t->doubt; ++i)
        t->doubt = hr_lanes_doubt_at(lanes, i) > 0;
    if (t->whole)
        hr_lanes_broadcast_whole(lanes, n);
    else
        hr_lanes_broadcast_value(lanes, n);
    switch (t->op) {
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MEAN:
        fold_sum(t, lanes, n);
        break;
    case HR_OP_REDUCE_PROD:
        fold_product(t, lanes, n);
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
int hr_fold_points(hr_reference *reference, const hr_fold *fold, int64_t start) {
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
        int count = hr_fold_points(reference, fold, start);
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

/* The error of a sum of exponentials is kept relative to it. */
static void put_sum(const tally *t, double divisor, hr_known *out) {
    hr_sum_end(t->errors, &out->bound, &out->noise);
    out->bound /= divisor;
    out->noise /= divisor;
}

static void put_largest(const hr_fold *fold, const tally *t, hr_known *out) {
    out->value = t->best;
    out->bound = t->lost ? INFINITY : t->best_bound;
    out->noise = t->best_noise;
    out->whole = t->any ? t->whole_best : whole_limit(t->op, fold->expr->type);
}

/* In doubt where another one may be as large, but for those that are equal without an error. */
static bool position_is_doubtful(const tally *t) {
    const double sign = seeks_largest(t) ? 1 : -1;
    const double error = t->best_bound;
    return t->lost || (error > 0 && t->rival >= sign * t->best - error);
}

/* What the type cannot hold, or was lost on the way, may be anything. */
static void settle(const tally *t, hr_known *known) {
    const bool lost = !(known->bound <= HUGE_VAL) || isinf(known->bound) || !(known->noise <= HUGE_VAL);
    if (!isfinite(known->value)) {
        known->bound = (lost && t->errors) || t->lost ? INFINITY : 0;
        known->noise = 0;
    } else if (lost || (t->type != HR_F64 && fabs(known->value) > (double)FLT_MAX)) {
        known->bound = INFINITY;
        known->noise = 0;
    }
}

/* A rounding of its own. */
static void err_by(hr_known *known, double own) {
    known->bound += own;
    known->noise += own;
}

static hr_known result_of(const hr_fold *fold, tally *t) {
    hr_known known = {.fault = t->fault};
    const double total = (double)fold->total, sum = compensated(t);
    const double unit = rounding_of(t->type);
    switch (t->op) {
    case HR_OP_REDUCE_SUM:
        known.value = sum;
        known.whole = t->whole_sum;
        if (t->errors) put_sum(t, 1, &known);
        break;
    case HR_OP_REDUCE_PROD:
        put_product(t, &known);
        break;
    case HR_OP_REDUCE_MEAN:
        known.value = sum / total;
        put_sum(t, total, &known);
        err_by(&known, 2 * unit * fabs(known.value));
        break;
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
        known.whole = t->position;
        known.bound = !t->whole && position_is_doubtful(t);
        return known;
    case HR_OP_REDUCE_LOGSUMEXP:
        known.value = isfinite(t->best) ? t->best + log(sum) : t->best;
        if (isfinite(t->best)) {
            put_sum(t, sum, &known);
            err_by(&known, unit * (fabs(known.value) + fabs(t->best) + 4 * log(sum))); /* of log: 2 ulp */
        }
        break;
    case HR_OP_SOFTMAX:
        known.peak = t->best;
        known.value = isfinite(t->best) ? sum : NAN; /* inf - inf is in the sum */
        put_sum(t, sum, &known);
        break;
    default:
        put_largest(fold, t, &known);
    }
    if (t->whole)
        known.bound = t->doubt;
    else
        settle(t, &known);
    return known;
}

static bool adds_up(hr_op op) {
    return op == HR_OP_REDUCE_SUM || op == HR_OP_REDUCE_MEAN || op == HR_OP_REDUCE_LOGSUMEXP ||
           op == HR_OP_SOFTMAX;
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
    tally t = {.op = expr->op,
               .type =
                   expr->op == HR_OP_REDUCE_ARGMAX || expr->op == HR_OP_REDUCE_ARGMIN ? HR_F32 : expr->type,
               .whole = body->whole,
               .best = smallest ? INFINITY : -INFINITY,
               .rival = -INFINITY,
               .product = 1,
               .reach = 1,
               .own_reach = 1,
               .above = 1,
               .below = 1,
               .whole_sum = expr->op == HR_OP_REDUCE_PROD};
    if (!t.whole && adds_up(expr->op)) {
        HR_TRY(hr_sum_begin(&fold->sum, t.type, fold->order, fold->total));
        t.errors = fold->sum;
    }
    hr_lanes *saved =
        fold->saved + fold->free_count; /* a softmax's indices have a value outside it as well */
    for (int i = 0; i < expr->bound_count; ++i)
        saved[i] = reference->indices[expr->bound[i]];
    ++reference->depth;
    hr_status status = hr_op_is_scan(expr->op)  ? hr_scan_known(reference, fold, out)
                       : expr->op == HR_OP_TOPK ? hr_topk_known(reference, fold, out)
                                                : loop(reference, fold, &t);
    --reference->depth;
    for (int i = 0; i < expr->bound_count; ++i)
        reference->indices[expr->bound[i]] = saved[i];
    HR_TRY(status);
    if (!hr_op_is_ordered(expr->op)) *out = result_of(fold, &t);
    return hr_memo_insert(reference->memo, key, out);
}

/* ---- the instruction ---- */

static void put(hr_lanes *out, bool whole, int lane, const hr_known *known) {
    out->bound[lane] = known->bound;
    if (whole) {
        out->whole[lane] = known->whole;
        out->doubtful |= known->bound > 0;
    } else {
        out->value[lane] = known->value;
        out->noise[lane] = known->noise;
    }
}

/* y = e / (e + others): an error of the peak is in all of them and cancels, and so does what the element
 * itself puts into the sum, as d log y = (1 - y) d log e - the others' share. That share is what the sum errs
 * without this element, and no less than (1 - y) of it. The row's sum is common to all of its elements. */
static void put_softmax(const hr_expr *expr, hr_lanes *out, int lane, const hr_lanes *in,
                        const hr_known *row) {
    const int at = in->form == HR_FORM_UNIFORM ? 0 : lane;
    const double below = row->peak - in->value[at], share = exp(-below) / row->value, rest = 1 - share;
    const double own = rounding_of(expr->type) * (hr_exponential_error(below) + HR_QUOTIENT_ROUNDINGS);
    double bound = 0, noise = 0;
    if (share > 0) {
        const double others = fmax(row->bound - share * in->bound[at], rest * row->bound);
        bound = share * (rest * in->bound[at] + others + own);
        noise = share * (rest * in->noise[at] + own);
        if (expr->type != HR_F64 && share < 0x1p-125) bound += 0x1p-125;
    }
    const bool lost = isinf(row->bound) || isinf(in->bound[at]) || !(bound <= HUGE_VAL) || isinf(bound);
    out->value[lane] = share;
    out->bound[lane] = lost ? INFINITY : bound;
    out->noise[lane] = lost ? 0 : noise;
}

static hr_status put_lane(hr_reference *reference, const hr_code *code, int number, int lane,
                          const hr_known *known) {
    const hr_instruction *made = &code->instructions[number];
    hr_lanes *out = &code->lanes[number];
    if (made->op == HR_OP_SOFTMAX)
        put_softmax(made->expr, out, lane, &code->lanes[made->args[0]], known);
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
    out->doubtful = false;
    HR_TRY(uniform ? fold_uniform(reference, code, number, count)
                   : fold_each(reference, code, number, count));
    const hr_lanes *in = made->op == HR_OP_SOFTMAX ? &code->lanes[made->args[0]] : NULL;
    for (int i = 0; in && in->faulty && i < (out->form == HR_FORM_UNIFORM ? 1 : count); ++i) {
        int32_t fault = in->fault[in->form == HR_FORM_UNIFORM ? 0 : i];
        if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
    }
    return HR_OK;
}
