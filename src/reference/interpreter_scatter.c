/* += : the value of an element is what it held plus the sum over all points of the domain that hit it. An
 * element of a statement that assigns places is the value of the one point that hits it, or what it held.
 *
 * Which points hit is found once a statement: every point's target is computed, checked and chained to the
 * others of its bucket. Of many points such chains would take more memory than the arrays: there the elements
 * that are expected (hr_reference_expect) are added up together in one walk over the points, and one more
 * each time that others are asked for. An axis whose subscript is an index of its own (the `c` of
 * dtable[token[t], c]) needs no search: the element asked for says what that index is, so only the rest of
 * the domain is walked.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "base/text.h"
#include "reference/interpreter.h"
#include "reference/interpreter_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCATTER_DEPTH_MAX = 256,
    CHAINED_MOST = 1 << 19, /* points */
    NOWHERE = -1            /* the key of a point that is left out */
};

typedef struct tally {
    double sum, error;
    hr_sum *errors;
    uint64_t whole;
    bool doubt;
    int32_t fault;
    int64_t hits;      /* of a statement that assigns places */
    hr_element placed; /* what the point that hits gives */
} tally;

/* An element that is expected, or was asked for, where points are not chained. */
typedef struct expected {
    int64_t subscripts[HR_RANK_MAX], key;
    int next; /* of its bucket; -1 ends it */
    bool known;
    hr_known value;
    tally tally;
} expected;

struct hr_scatter {
    int direct[HR_RANK_MAX];      /* per axis: the index that alone determines it, or -1 */
    int rest_count, *rest;        /* the other indices of the domain */
    int64_t points;               /* of those; 0 where the domain is empty */
    int64_t buckets;              /* a power of two */
    int64_t *keys, *next, *heads; /* one a point, one a point, one a bucket; -1 ends a chain */
    hr_sum *sum;                  /* what the additions to one element err */
    bool chained;
    int expected_count, expected_capacity, *expected_heads; /* expected_capacity buckets */
    expected *expected;
};

void hr_scatter_destroy(hr_scatter *scatter) {
    if (!scatter) return;
    free(scatter->rest);
    free(scatter->keys);
    free(scatter->next);
    free(scatter->heads);
    hr_sum_destroy(scatter->sum);
    for (int i = 0; i < scatter->expected_count; ++i)
        hr_sum_destroy(scatter->expected[i].tally.errors);
    free(scatter->expected);
    free(scatter->expected_heads);
    free(scatter);
}

/* ---- the axes ---- */

static bool mentions(const hr_reference *reference, const hr_code *code, int index) {
    for (int i = 0; i < code->count; ++i) {
        const hr_instruction *made = &code->instructions[i];
        if (made->op == HR_OP_INDEX && made->expr->index == index) return true;
        if (!hr_code_is_fold(made->op)) continue;
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
        if (keys[i] < 0) continue;
        int32_t fault = subscript->faulty ? subscript->fault[subscript->form == HR_FORM_UNIFORM ? 0 : i] : 0;
        if (fault) return hr_fault_fail(reference, &reference->faults[fault]);
        int64_t value = hr_lanes_whole_at(subscript, i);
        if (value == HR_LEFT_OUT && hr_subscript_leaves_out(rule->statement->subscripts[axis])) {
            keys[i] = NOWHERE;
            continue;
        }
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

/* The keys, all 0 before, of the points from `start` on; how many. */
static hr_status find_keys(hr_reference *reference, const hr_rule *rule, const hr_scatter *scatter,
                           int64_t start, int64_t *keys, int *count) {
    int64_t left = scatter->points - start;
    *count = left < reference->width ? (int)left : reference->width;
    set_forms(reference, rule, scatter);
    for (int i = 0; i < *count; ++i)
        set_point(reference, scatter, start + i, i);
    for (int k = 0; k < rule->statement->subscript_count; ++k)
        if (scatter->direct[k] < 0) HR_TRY(add_axis(reference, rule, k, *count, keys));
    return HR_OK;
}

/* "[3, :, 5]": an axis whose subscript is an index of its own is all of it. */
static hr_status fail_twice(const hr_reference *reference, const hr_rule *rule, const hr_scatter *scatter,
                            int64_t key) {
    const hr_statement *statement = rule->statement;
    int64_t subscripts[HR_RANK_MAX];
    hr_text place = {0};
    for (int k = statement->subscript_count - 1; k >= 0; --k) {
        if (scatter->direct[k] >= 0) continue;
        const int64_t extent = reference->shapes[statement->tensor][k];
        subscripts[k] = key % extent;
        key /= extent;
    }
    for (int k = 0; k < statement->subscript_count; ++k)
        if (scatter->direct[k] >= 0)
            hr_text_format(&place, "%s:", k ? ", " : "");
        else
            hr_text_format(&place, "%s%lld", k ? ", " : "", (long long)subscripts[k]);
    hr_status status = hr_fail(HR_BAD_INPUT,
                               "line %d: two elements write the place [%s] of %s, and which of them stays is "
                               "not defined; write each "
                               "place once, or leave all but one out with a condition",
                               statement->place.line, hr_text_data(&place),
                               reference->function->tensors[statement->tensor].name);
    hr_text_clear(&place);
    return status;
}

static bool is_chained(const hr_scatter *scatter, int64_t key) {
    for (int64_t point = scatter->heads[bucket_of(scatter, key)]; point >= 0; point = scatter->next[point])
        if (scatter->keys[point] == key) return true;
    return false;
}

static hr_status chain(hr_reference *reference, const hr_rule *rule, hr_scatter *scatter) {
    int count;
    for (int64_t start = 0; start < scatter->points; start += count) {
        HR_TRY(find_keys(reference, rule, scatter, start, scatter->keys + start, &count));
        for (int64_t point = start; point < start + count; ++point) {
            const int64_t key = scatter->keys[point];
            if (key == NOWHERE) continue;
            if (rule->statement->store == HR_STORE_PLACE && is_chained(scatter, key))
                return fail_twice(reference, rule, scatter, key);
            int64_t *head = &scatter->heads[bucket_of(scatter, key)];
            scatter->next[point] = *head;
            *head = point;
        }
    }
    return HR_OK;
}

static hr_status build(hr_reference *reference, const hr_rule *rule, hr_scatter *scatter) {
    scatter->rest = hr_memory_zeros((size_t)rule->statement->domain_count + 1, sizeof *scatter->rest);
    if (!scatter->rest) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    split_domain(reference, rule, scatter);
    scatter->chained = scatter->points <= CHAINED_MOST;
    if (!scatter->chained) return HR_OK;
    scatter->buckets = 1;
    while (scatter->buckets < scatter->points && scatter->buckets < (int64_t)1 << 40)
        scatter->buckets *= 2;
    size_t points = (size_t)scatter->points;
    scatter->keys = hr_memory_zeros(points + 1, sizeof *scatter->keys);
    scatter->next = hr_memory_zeros(points + 1, sizeof *scatter->next);
    scatter->heads = hr_memory_take((size_t)scatter->buckets * sizeof *scatter->heads);
    if (!scatter->keys || !scatter->next || !scatter->heads)
        return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to find what the %lld points of line %d write",
                       (long long)scatter->points, rule->statement->place.line);
    memset(scatter->heads, 0xff, (size_t)scatter->buckets * sizeof *scatter->heads);
    return chain(reference, rule, scatter);
}

static hr_status scatter_of(hr_reference *reference, hr_rule *rule) {
    if (rule->scatter) return HR_OK;
    hr_scatter *scatter = hr_memory_zeros(1, sizeof *scatter);
    if (!scatter) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    hr_status status = build(reference, rule, scatter);
    if (status == HR_OK)
        rule->scatter = scatter;
    else
        hr_scatter_destroy(scatter);
    return status;
}

/* ---- the sum ---- */

static void add(tally *t, double value, double bound, double noise) {
    double sum = t->sum + value;
    t->error += fabs(t->sum) >= fabs(value) ? (t->sum - sum) + value : (value - sum) + t->sum;
    t->sum = sum;
    hr_sum_add(t->errors, value, bound, noise);
}

static void tally_lanes(tally *t, hr_lanes *lanes, bool whole, int n) {
    if (whole)
        hr_lanes_broadcast_whole(lanes, n);
    else
        hr_lanes_broadcast_value(lanes, n);
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

static int64_t key_of(const hr_reference *reference, const hr_rule *rule, const int64_t *subscripts) {
    int64_t key = 0;
    for (int k = 0; k < rule->statement->subscript_count; ++k)
        if (rule->scatter->direct[k] < 0)
            key = key * reference->shapes[rule->statement->tensor][k] + subscripts[k];
    return key;
}

/* The points in the lanes of the indices add to the element. */
static hr_status tally_points(hr_reference *reference, hr_rule *rule, int count, const int64_t *subscripts,
                              tally *t) {
    HR_TRY(hr_code_run(reference, &rule->value, count, true));
    if (rule->statement->store == HR_STORE_PLACE) {
        const hr_lanes *lanes = hr_code_result(&rule->value);
        t->hits += count;
        t->placed = hr_element_at(lanes, !hr_dtype_is_float(rule->statement->value->type), 0);
        t->fault = lanes->faulty ? lanes->fault[0] : 0;
        return t->hits > 1 ? fail_twice(reference, rule, rule->scatter, key_of(reference, rule, subscripts))
                           : HR_OK;
    }
    tally_lanes(t, hr_code_result(&rule->value), !hr_dtype_is_float(rule->statement->value->type), count);
    return HR_OK;
}

static hr_status tally_hits(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, tally *t) {
    const hr_scatter *scatter = rule->scatter;
    const int64_t key = key_of(reference, rule, subscripts);
    int64_t point = scatter->points ? scatter->heads[bucket_of(scatter, key)] : -1;
    while (point >= 0) {
        int count = 0;
        if (!set_direct(reference, rule, subscripts)) return HR_OK;
        for (; point >= 0 && count < reference->width; point = scatter->next[point])
            if (scatter->keys[point] == key) set_point(reference, scatter, point, count++);
        if (count) HR_TRY(tally_points(reference, rule, count, subscripts, t));
    }
    return HR_OK;
}

/* What the point gives, as what the tensor computes as. */
static hr_known placed(const hr_reference *reference, const hr_rule *rule, const hr_known *old,
                       const tally *t) {
    const hr_tensor *tensor = &reference->function->tensors[rule->statement->tensor];
    const hr_dtype type = rule->statement->value->type;
    if (!t->hits) return *old;
    const bool whole = !hr_dtype_is_float(tensor->dtype);
    const hr_element given = whole == !hr_dtype_is_float(type)
                                 ? t->placed
                                 : hr_element_convert(t->placed, type, whole ? tensor->dtype : HR_F64, whole);
    return (hr_known){.value = given.value,
                      .bound = given.bound,
                      .noise = given.noise,
                      .whole = given.whole,
                      .fault = t->fault};
}

static hr_known finish(const hr_reference *reference, const hr_rule *rule, const hr_known *old,
                       const tally *t) {
    const hr_tensor *tensor = &reference->function->tensors[rule->statement->tensor];
    if (rule->statement->store == HR_STORE_PLACE) return placed(reference, rule, old, t);
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
        const double error = known.bound, low = sum - error, high = sum + error;
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

/* Additions to one place may come in any order, one after the other: in one chain after the other. */
static hr_status tally_begin(const hr_reference *reference, const hr_rule *rule, const int64_t *subscripts,
                             int64_t count, hr_sum **sum, hr_known *old, tally *t) {
    const hr_tensor *tensor = &reference->function->tensors[rule->statement->tensor];
    const hr_sum_order order = {.chains = 1, .addends = rule->order.addends};
    if (tensor->role == HR_ROLE_INOUT)
        *old = hr_operand_known(reference, rule->statement->tensor, subscripts);
    HR_TRY(hr_sum_begin(sum, tensor->dtype == HR_F64 ? HR_F64 : HR_F32, order, count));
    t->errors = *sum;
    if (hr_dtype_is_float(tensor->dtype)) hr_sum_add(t->errors, old->value, 0, 0);
    return HR_OK;
}

static hr_status sum_hits(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, hr_known *out) {
    hr_known old = {0};
    tally t = {0};
    HR_TRY(tally_begin(reference, rule, subscripts, rule->scatter->points, &rule->scatter->sum, &old, &t));
    HR_TRY(tally_hits(reference, rule, subscripts, &t));
    *out = finish(reference, rule, &old, &t);
    return HR_OK;
}

/* ---- many points ---- */

static int *expected_head(const hr_scatter *scatter, int64_t key) {
    const uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15ull;
    return &scatter->expected_heads[hash >> 32 & (uint64_t)(scatter->expected_capacity - 1)];
}

static void expected_chain(hr_scatter *scatter, int place) {
    int *head = expected_head(scatter, scatter->expected[place].key);
    scatter->expected[place].next = *head;
    *head = place;
}

static hr_status expected_grow(hr_scatter *scatter) {
    if (scatter->expected_count < scatter->expected_capacity) return HR_OK;
    const int capacity = scatter->expected_capacity ? 2 * scatter->expected_capacity : 256;
    expected *larger = hr_memory_resize(scatter->expected, (size_t)capacity * sizeof *larger);
    if (larger) scatter->expected = larger;
    int *heads = hr_memory_resize(scatter->expected_heads, (size_t)capacity * sizeof *heads);
    if (heads) scatter->expected_heads = heads;
    if (!larger || !heads) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    scatter->expected_capacity = capacity;
    memset(heads, 0xff, (size_t)capacity * sizeof *heads);
    for (int i = 0; i < scatter->expected_count; ++i)
        expected_chain(scatter, i);
    return HR_OK;
}

static hr_status expected_find(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, int *out) {
    hr_scatter *scatter = rule->scatter;
    const size_t size = (size_t)rule->statement->subscript_count * sizeof *subscripts;
    const int64_t key = key_of(reference, rule, subscripts);
    HR_TRY(expected_grow(scatter));
    for (int i = *expected_head(scatter, key); i >= 0; i = scatter->expected[i].next)
        if (memcmp(scatter->expected[i].subscripts, subscripts, size) == 0) {
            *out = i;
            return HR_OK;
        }
    *out = scatter->expected_count++;
    scatter->expected[*out] = (expected){.key = key};
    memcpy(scatter->expected[*out].subscripts, subscripts, size);
    expected_chain(scatter, *out);
    return HR_OK;
}

/* Those of the points from `start` on that hit it. */
static hr_status expected_add(hr_reference *reference, hr_rule *rule, int64_t start, int count,
                              const int64_t *keys, expected *one) {
    int hits = 0;
    if (!set_direct(reference, rule, one->subscripts)) return HR_OK;
    for (int i = 0; i < count; ++i)
        if (keys[i] == one->key) set_point(reference, rule->scatter, start + i, hits++);
    return hits ? tally_points(reference, rule, hits, one->subscripts, &one->tally) : HR_OK;
}

/* All that is expected and not known: in one walk. */
static hr_status expected_walk(hr_reference *reference, hr_rule *rule, int64_t *keys, char *met) {
    hr_scatter *scatter = rule->scatter;
    int count;
    for (int64_t start = 0; start < scatter->points; start += count) {
        memset(keys, 0, (size_t)reference->width * sizeof *keys);
        HR_TRY(find_keys(reference, rule, scatter, start, keys, &count));
        memset(met, 0, (size_t)scatter->expected_count);
        for (int i = 0; i < count; ++i)
            for (int e = *expected_head(scatter, keys[i]); e >= 0; e = scatter->expected[e].next)
                met[e] |= scatter->expected[e].key == keys[i] && !scatter->expected[e].known;
        for (int e = 0; e < scatter->expected_count; ++e)
            if (met[e]) HR_TRY(expected_add(reference, rule, start, count, keys, &scatter->expected[e]));
    }
    return HR_OK;
}

static hr_status expected_sum(hr_reference *reference, hr_rule *rule) {
    hr_scatter *scatter = rule->scatter;
    hr_known *olds = hr_memory_zeros((size_t)scatter->expected_count + 1, sizeof *olds);
    int64_t *keys = hr_memory_take((size_t)reference->width * sizeof *keys);
    char *met = hr_memory_take((size_t)scatter->expected_count + 1);
    hr_status status =
        olds && keys && met ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    for (int e = 0; e < scatter->expected_count && status == HR_OK; ++e) {
        expected *one = &scatter->expected[e];
        if (!one->known)
            status =
                tally_begin(reference, rule, one->subscripts, 0, &one->tally.errors, &olds[e], &one->tally);
    }
    if (status == HR_OK) status = expected_walk(reference, rule, keys, met);
    for (int e = 0; e < scatter->expected_count && status == HR_OK; ++e) {
        expected *one = &scatter->expected[e];
        if (one->known) continue;
        one->value = finish(reference, rule, &olds[e], &one->tally);
        one->known = true;
        hr_sum_destroy(one->tally.errors);
        one->tally.errors = NULL;
    }
    free(olds);
    free(keys);
    free(met);
    return status;
}

hr_status hr_scatter_expect(hr_reference *reference, hr_rule *rule, const int64_t *subscripts) {
    int place;
    HR_TRY(scatter_of(reference, rule));
    return rule->scatter->chained ? HR_OK : expected_find(reference, rule, subscripts, &place);
}

static hr_status expected_value(hr_reference *reference, hr_rule *rule, const int64_t *subscripts,
                                hr_known *out) {
    int place;
    HR_TRY(expected_find(reference, rule, subscripts, &place));
    if (!rule->scatter->expected[place].known) HR_TRY(expected_sum(reference, rule));
    *out = rule->scatter->expected[place].value;
    return HR_OK;
}

/* ---- an element ---- */

hr_status hr_scatter_value(hr_reference *reference, hr_rule *rule, const int64_t *subscripts, hr_known *out) {
    hr_memo_key key =
        hr_memo_key_of(HR_MEMO_RULE, rule->number, rule->statement->subscript_count, subscripts);
    const hr_known *found = hr_memo_find(reference->memo, key);
    if (found) {
        *out = *found;
        return HR_OK;
    }
    if (reference->scatter_depth >= SCATTER_DEPTH_MAX)
        return hr_fail(HR_BAD_INPUT, "line %d: more than %d statements that write places build on each other",
                       rule->statement->place.line, SCATTER_DEPTH_MAX);
    HR_TRY(scatter_of(reference, rule));
    ++reference->scatter_depth;
    HR_TRY(rule->scatter->chained ? sum_hits(reference, rule, subscripts, out)
                                  : expected_value(reference, rule, subscripts, out));
    --reference->scatter_depth;
    return hr_memo_insert(reference->memo, key, out);
}
