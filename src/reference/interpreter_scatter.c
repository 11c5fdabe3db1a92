/* += : the value of an element is what it held plus the sum over all points of the domain that hit it.
 *
 * Which points hit is found once a statement: every point's target is computed, checked and chained to the
 * others of its bucket. An axis whose subscript is an index of its own (the `c` of dtable[token[t], c]) needs
 * no search: the element asked for says what that index is, so only the rest of the domain is walked.
 */
#include "base/dtype.h"
#include "reference/interpreter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCATTER_DEPTH_MAX = 256 };

struct hr_scatter {
    int direct[HR_RANK_MAX];      /* per axis: the index that alone determines it, or -1 */
    int rest_count, *rest;        /* the other indices of the domain */
    int64_t points;               /* of those; 0 where the domain is empty */
    int64_t buckets;              /* a power of two */
    int64_t *keys, *next, *heads; /* one a point, one a point, one a bucket; -1 ends a chain */
    hr_sum *sum;                  /* what the additions to one element err */
};

void hr_scatter_destroy(hr_scatter *scatter) {
    if (!scatter) return;
    free(scatter->rest);
    free(scatter->keys);
    free(scatter->next);
    free(scatter->heads);
    hr_sum_destroy(scatter->sum);
    free(scatter);
}

/* ---- the axes ---- */

static bool mentions(const hr_reference *reference, const hr_code *code, int index) {
    for (int i = 0; i < code->count; ++i) {
        const hr_instruction *made = &code->instructions[i];
        if (made->op == HR_OP_INDEX && made->expr->index == index) return true;
        if (made->op >= HR_OP_COUNT || !(hr_op_is_reduction((hr_op)made->op) || made->op == HR_OP_SOFTMAX))
            continue;
        const hr_fold *fold = &reference->folds[made->target];
        for (int k = 0; k < fold->free_count; ++k)
            if (fold->free[k] == index) return true;
    }
    return false;
}

static int direct_index(const hr_reference *reference, const hr_rule *rule, int axis) {
    const hr_expr *expr = rule->statement->subscripts[axis];
    if (expr->op != HR_OP_INDEX) return -1;
    for (int k = 0; k < rule->statement->subscript_count; ++k)
        if (k != axis && mentions(reference, &rule->subscripts[k], expr->index)) return -1;
    return expr->index;
}

static void split_domain(const hr_reference *reference, const hr_rule *rule, hr_scatter *scatter) {
    const hr_statement *statement = rule->statement;
    bool empty = false;
    scatter->points = 1;
    for (int k = 0; k < statement->subscript_count; ++k)
        scatter->direct[k] = direct_index(reference, rule, k);
    for (int i = 0; i < statement->domain_count; ++i) {
        int index = statement->domain[i];
        bool direct = false;
        for (int k = 0; k < statement->subscript_count; ++k)
            direct |= scatter->direct[k] == index;
        int64_t extent = reference->index_extents[index];
        empty |= extent == 0;
        if (direct) continue;
        scatter->rest[scatter->rest_count++] = index;
        if (__builtin_mul_overflow(scatter->points, extent, &scatter->points)) scatter->points = INT64_MAX;
    }
    if (empty) scatter->points = 0;
}

/* ---- the chains ---- */

static int64_t bucket_of(const hr_scatter *scatter, int64_t key) {
    uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15ull;
    return (int64_t)((hash ^ hash >> 32) & (uint64_t)(scatter->buckets - 1));
}

/* The rest of the domain at point `number`, into one lane. */
static void set_point(const hr_reference *reference, const hr_scatter *scatter, int64_t number, int lane) {
    for (int i = scatter->rest_count - 1; i >= 0; --i) {
        int64_t extent = reference->index_extents[scatter->rest[i]];
        reference->indices[scatter->rest[i]].whole[lane] = number % extent;
        number /= extent;
    }
}

static void set_forms(const hr_reference *reference, const hr_rule *rule, const hr_scatter *scatter) {
    for (int i = 0; i < rule->statement->domain_count; ++i)
        hr_lanes_set_whole(&reference->indices[rule->statement->domain[i]], 0);
    for (int i = 0; i < scatter->rest_count; ++i)
        reference->indices[scatter->rest[i]].form = HR_FORM_VARYING;
}

static hr_status add_axis(hr_reference *reference, const hr_rule *rule, int axis, int count, int64_t *keys) {
    hr_code *code = &rule->subscripts[axis];
    int64_t extent = reference->shapes[rule->statement->tensor][axis];
    HR_TRY(hr_code_run(reference, code, count, true));
    const hr_lanes *subscript = hr_code_result(code);
    for (int i = 0; i < count; ++i) {
        int32_t fault = subscript->faulty ? subscript->fault[subscript->form == HR_FORM_UNIFORM ? 0 : i] : 0;
        if (fault) return hr_fault_fail(reference, &reference->faults[fault]);
        int64_t value = hr_lanes_whole_at(subscript, i);
        if (value < 0 || value >= extent) {
            hr_fault_record record = {.tensor = rule->statement->tensor,
                                      .axis = axis,
                                      .line = rule->statement->place.line,
                                      .value = value};
            return hr_fault_fail(reference, &record);
        }
        keys[i] = keys[i] * extent + value;
    }
    return HR_OK;
}

static hr_status chain(hr_reference *reference, const hr_rule *rule, hr_scatter *scatter) {
    for (int64_t start = 0; start < scatter->points; start += reference->width) {
        int64_t left = scatter->points - start;
        int count = left < reference->width ? (int)left : reference->width;
        set_forms(reference, rule, scatter);
        for (int i = 0; i < count; ++i)
            set_point(reference, scatter, start + i, i);
        for (int k = 0; k < rule->statement->subscript_count; ++k)
            if (scatter->direct[k] < 0) HR_TRY(add_axis(reference, rule, k, count, scatter->keys + start));
        for (int64_t point = start; point < start + count; ++point) {
            int64_t *head = &scatter->heads[bucket_of(scatter, scatter->keys[point])];
            scatter->next[point] = *head;
            *head = point;
        }
    }
    return HR_OK;
}

static hr_status build(hr_reference *reference, const hr_rule *rule, hr_scatter *scatter) {
    scatter->rest = calloc((size_t)rule->statement->domain_count + 1, sizeof *scatter->rest);
    if (!scatter->rest) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    split_domain(reference, rule, scatter);
    scatter->buckets = 1;
    while (scatter->buckets < scatter->points && scatter->buckets < (int64_t)1 << 40)
        scatter->buckets *= 2;
    size_t points = (size_t)scatter->points;
    scatter->keys = calloc(points + 1, sizeof *scatter->keys);
    scatter->next = calloc(points + 1, sizeof *scatter->next);
    scatter->heads = malloc((size_t)scatter->buckets * sizeof *scatter->heads);
    if (!scatter->keys || !scatter->next || !scatter->heads)
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to find what the %lld points of line %d add to",
                       (long long)scatter->points, rule->statement->place.line);
    memset(scatter->heads, 0xff, (size_t)scatter->buckets * sizeof *scatter->heads);
    return chain(reference, rule, scatter);
}

static hr_status scatter_of(hr_reference *reference, hr_rule *rule) {
    if (rule->scatter) return HR_OK;
    hr_scatter *scatter = calloc(1, sizeof *scatter);
    if (!scatter) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    hr_status status = build(reference, rule, scatter);
    if (status == HR_OK)
        rule->scatter = scatter;
    else
        hr_scatter_destroy(scatter);
    return status;
}

/* ---- the sum ---- */

typedef struct tally {
    double sum, error;
    hr_sum *errors;
    uint64_t whole;
    bool doubt;
    int32_t fault;
} tally;

static void add(tally *t, double value, double bound, double noise) {
    double sum = t->sum + value;
    t->error += fabs(t->sum) >= fabs(value) ? (t->sum - sum) + value : (value - sum) + t->sum;
    t->sum = sum;
    hr_sum_add(t->errors, value, bound, noise);
}

static void tally_lanes(tally *t, hr_lanes *lanes, bool whole, int n) {
    if (whole)
        hr_lanes_spread_whole(lanes, n);
    else
        hr_lanes_spread_value(lanes, n);
    for (int i = 0; i < n; ++i) {
        if (whole) {
            t->whole += (uint64_t)lanes->whole[i];
            t->doubt |= hr_lanes_doubt_at(lanes, i) > 0;
            add(t, (double)lanes->whole[i], 0, 0);
        } else {
            add(t, lanes->value[i], lanes->bound[i], lanes->noise[i]);
        }
        if (lanes->faulty && !t->fault) t->fault = lanes->fault[lanes->form == HR_FORM_UNIFORM ? 0 : i];
    }
}

/* False where a direct subscript lies beyond its index: nothing hits there. */
static bool set_direct(hr_reference *reference, const hr_rule *rule, const int64_t *subscripts) {
    const hr_scatter *scatter = rule->scatter;
    set_forms(reference, rule, scatter);
    for (int k = 0; k < rule->statement->subscript_count; ++k) {
        if (scatter->direct[k] < 0) continue;
        if (subscripts[k] >= reference->index_extents[scatter->direct[k]]) return false;
        hr_lanes_set_whole(&reference->indices[scatter->direct[k]], subscripts[k]);
    }
    return true;
}

static hr_status tally_hits(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, tally *t) {
    const hr_scatter *scatter = rule->scatter;
    int64_t key = 0;
    for (int k = 0; k < rule->statement->subscript_count; ++k)
        if (scatter->direct[k] < 0) key = key * reference->shapes[rule->statement->tensor][k] + subscripts[k];
    int64_t point = scatter->points ? scatter->heads[bucket_of(scatter, key)] : -1;
    while (point >= 0) {
        int count = 0;
        if (!set_direct(reference, rule, subscripts)) return HR_OK;
        for (; point >= 0 && count < reference->width; point = scatter->next[point])
            if (scatter->keys[point] == key) set_point(reference, scatter, point, count++);
        if (!count) continue;
        HR_TRY(hr_code_run(reference, &rule->value, count, true));
        tally_lanes(t, hr_code_result(&rule->value), !hr_dtype_is_float(rule->statement->value->type), count);
    }
    return HR_OK;
}

static hr_known finish(const hr_reference *reference, const hr_rule *rule, const hr_known *old,
                       const tally *t) {
    const hr_tensor *tensor = &reference->function->tensors[rule->statement->tensor];
    hr_known known = {.fault = t->fault};
    double sum = isfinite(t->sum) ? t->sum + t->error : t->sum;
    hr_sum_end(t->errors, &known.bound, &known.noise);
    if (hr_dtype_is_float(tensor->dtype)) {
        known.value = old->value + sum;
        if (t->doubt) known.bound = INFINITY;
        if (!isfinite(known.value) && isfinite(known.bound)) known.bound = known.noise = 0;
        return known;
    }
    if (hr_dtype_is_float(rule->statement->value->type)) {
        const double error = hr_error_reach(known.bound, known.noise), low = sum - error, high = sum + error;
        known.whole = hr_lanes_truncate((double)old->whole + sum);
        known.bound = hr_lanes_truncate((double)old->whole + low) != known.whole ||
                      hr_lanes_truncate((double)old->whole + high) != known.whole;
    } else {
        known.whole = (int64_t)((uint64_t)old->whole + t->whole);
        known.bound = t->doubt;
    }
    known.noise = 0;
    return known;
}

/* Additions to one place may come in any order, one after the other. */
static hr_status sum_hits(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, hr_known *out) {
    const hr_tensor *tensor = &reference->function->tensors[rule->statement->tensor];
    const hr_sum_order order = {.chains = 1};
    hr_known old = {0};
    tally t = {0};
    if (tensor->role == HR_ROLE_INOUT) old = hr_operand_known(reference, rule->statement->tensor, subscripts);
    HR_TRY(scatter_of(reference, rule));
    HR_TRY(hr_sum_begin(&rule->scatter->sum, tensor->dtype == HR_F64 ? HR_F64 : HR_F32, order,
                        rule->scatter->points));
    t.errors = rule->scatter->sum;
    if (hr_dtype_is_float(tensor->dtype)) hr_sum_add(t.errors, old.value, 0, 0);
    ++reference->scatter_depth;
    HR_TRY(tally_hits(reference, rule, subscripts, &t));
    --reference->scatter_depth;
    *out = finish(reference, rule, &old, &t);
    return HR_OK;
}

hr_status hr_scatter_value(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, hr_known *out) {
    hr_memo_key key =
        hr_memo_key_of(HR_MEMO_RULE, rule->number, rule->statement->subscript_count, subscripts);
    const hr_known *found = hr_memo_find(reference->memo, key);
    if (found) {
        *out = *found;
        return HR_OK;
    }
    if (reference->scatter_depth >= SCATTER_DEPTH_MAX)
        return hr_fail(HR_BAD_INPUT, "line %d: more than %d += statements build on each other",
                       rule->statement->place.line, SCATTER_DEPTH_MAX);
    HR_TRY(sum_hits(reference, rule, subscripts, out));
    return hr_memo_insert(reference->memo, key, out);
}
