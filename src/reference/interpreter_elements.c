/* Elements of tensors -> lanes: of operands from memory, of what a statement assigns by running its rule. In:
 * an access. Out: its lanes, with faults where a subscript leaves its axis. */
#include "base/memory.h"
#include "reference/interpreter_values.h"

#include "base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* The subscripts of an access, axis by axis. */
typedef struct access {
    const hr_code *code;
    const hr_instruction *made;
    int rank, n;
    const int64_t *shape;
} access;

static const hr_lanes *subscript(const access *at, int axis) {
    return &at->code->lanes[at->made->args[axis]];
}

/* No lane varies freely and both ends are in range: so is all between. */
static bool in_range_throughout(const access *at) {
    const int64_t far = (int64_t)1 << 40;
    for (int k = 0; k < at->rank; ++k) {
        const hr_lanes *s = subscript(at, k);
        if (s->form == HR_FORM_VARYING || s->base < 0 || s->base >= at->shape[k]) return false;
        if (s->step > far || s->step < -far || s->base > INT64_MAX / 2) return false;
        int64_t last = s->base + s->step * (at->n - 1);
        if (last < 0 || last >= at->shape[k]) return false;
    }
    return true;
}

/* A value that is the same in all lanes is wanted where any is. */
static bool lane_wanted(const access *at, int lane) {
    return at->n == 1 || hr_lane_live(at->code, at->made->region, lane);
}

static int first_axis_out_of_range(const access *at, int lane) {
    for (int k = 0; k < at->rank; ++k) {
        int64_t value = hr_lanes_whole_at(subscript(at, k), lane);
        if (value < 0 || value >= at->shape[k]) return k;
    }
    return -1;
}

/* Marks the lanes of `out` whose access is out of range and wanted, and those whose subscripts are faulty. */
static hr_status mark_faults(hr_reference *reference, const access *at, hr_lanes *out) {
    for (int i = 0; i < at->n; ++i) {
        if (!lane_wanted(at, i)) continue;
        for (int k = 0; k < at->rank; ++k) {
            const hr_lanes *s = subscript(at, k);
            int32_t fault = s->faulty ? s->fault[s->form == HR_FORM_UNIFORM ? 0 : i] : 0;
            if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
        }
        int axis = first_axis_out_of_range(at, i);
        if (axis < 0 || (out->faulty && out->fault[i])) continue;
        const hr_expr *expr = at->made->expr;
        hr_fault_record record = {.tensor = expr->tensor,
                                  .axis = axis,
                                  .line = expr->place.line,
                                  .value = hr_lanes_whole_at(subscript(at, axis), i)};
        HR_TRY(hr_fault_mark(reference, out, i, &record));
    }
    return HR_OK;
}

static bool any_faulty(const access *at) {
    for (int k = 0; k < at->rank; ++k)
        if (subscript(at, k)->faulty) return true;
    return false;
}

static void fetch_value(hr_dtype dtype, const void *data, int64_t base, int64_t step, int n, double *out) {
    if (dtype == HR_F32) {
        const float *from = (const float *)data + base;
        for (int i = 0; i < n; ++i)
            out[i] = (double)from[step * i];
    } else if (dtype == HR_BF16) {
        const uint16_t *from = (const uint16_t *)data + base;
        for (int i = 0; i < n; ++i) {
            uint32_t bits = (uint32_t)from[step * i] << 16;
            float value;
            memcpy(&value, &bits, sizeof value);
            out[i] = (double)value;
        }
    } else {
        for (int i = 0; i < n; ++i)
            out[i] = hr_dtype_load(dtype, data, (size_t)(base + step * i));
    }
}

static void need(const hr_operand *operand, int64_t base, int64_t step, int64_t count) {
    if (operand->need) operand->need(operand->need_context, base, step, count);
}

static hr_status load_scattered(hr_reference *reference, const access *at, hr_lanes *out, hr_dtype dtype,
                                const hr_operand *operand) {
    int64_t *offsets = reference->offsets;
    bool bad = any_faulty(at);
    for (int i = 0; i < at->n; ++i) {
        offsets[i] = 0;
        bool outside = first_axis_out_of_range(at, i) >= 0;
        for (int k = 0; k < at->rank && !outside; ++k)
            offsets[i] += hr_lanes_whole_at(subscript(at, k), i) * operand->strides[k];
        if (outside) offsets[i] = INT64_MIN;
        bad |= outside;
    }
    for (int i = 0; i < at->n; ++i) {
        hr_element loaded = {0};
        if (offsets[i] != INT64_MIN) need(operand, offsets[i], 0, 1);
        if (offsets[i] != INT64_MIN && at->made->whole)
            loaded.whole = hr_dtype_load_whole(dtype, operand->data, (size_t)offsets[i]);
        else if (offsets[i] != INT64_MIN)
            fetch_value(dtype, operand->data, offsets[i], 0, 1, &loaded.value);
        hr_element_set(out, at->made->whole, i, loaded);
    }
    hr_lanes_settle(out, at->n == 1, at->made->whole);
    return bad ? mark_faults(reference, at, out) : HR_OK;
}

static hr_status load_operand(hr_reference *reference, const access *at, hr_lanes *out) {
    int tensor = at->made->expr->tensor;
    const hr_operand *operand = &reference->operands[tensor];
    hr_dtype dtype = reference->function->tensors[tensor].dtype;
    if (!at->rank) {
        hr_known known = hr_operand_known(reference, tensor, NULL);
        if (at->made->whole)
            hr_lanes_set_whole(out, known.whole);
        else
            hr_lanes_set_value(out, known.value, 0);
        return HR_OK;
    }
    if (!in_range_throughout(at) || any_faulty(at)) return load_scattered(reference, at, out, dtype, operand);
    int64_t base = 0, step = 0;
    for (int k = 0; k < at->rank; ++k) {
        base += subscript(at, k)->base * operand->strides[k];
        step += subscript(at, k)->step * operand->strides[k];
    }
    need(operand, base, step, at->n);
    if (at->made->whole) {
        for (int i = 0; i < at->n; ++i)
            out->whole[i] = hr_dtype_load_whole(dtype, operand->data, (size_t)(base + step * i));
    } else {
        fetch_value(dtype, operand->data, base, step, at->n, out->value);
        memset(out->bound, 0, (size_t)at->n * sizeof *out->bound);
        memset(out->noise, 0, (size_t)at->n * sizeof *out->noise);
    }
    hr_lanes_settle(out, at->n == 1, at->made->whole);
    return HR_OK;
}

hr_known hr_operand_known(const hr_reference *reference, int tensor, const int64_t *subscripts) {
    const hr_operand *operand = &reference->operands[tensor];
    const hr_tensor *t = &reference->function->tensors[tensor];
    hr_known known = {0};
    int64_t offset = 0;
    for (int k = 0; k < t->rank; ++k)
        offset += subscripts[k] * operand->strides[k];
    bool array = t->rank || operand->data; /* an inout of rank 0 is an array of one hr_element */
    if (array) need(operand, offset, 0, 1);
    if (hr_dtype_is_float(t->dtype)) {
        known.value = array ? hr_dtype_load(t->dtype, operand->data, (size_t)offset)
                            : hr_dtype_round(t->dtype, operand->scalar);
    } else {
        known.whole =
            array ? hr_dtype_load_whole(t->dtype, operand->data, (size_t)offset)
                  : hr_element_convert((hr_element){.value = operand->scalar}, HR_F64, t->dtype, true).whole;
    }
    return known;
}

/* ---- rules ---- */

static hr_status defer(hr_reference *reference, const hr_rule *rule, int count) {
    if (reference->pending_count == reference->pending_capacity) {
        int capacity = reference->pending_capacity ? 2 * reference->pending_capacity : 16;
        hr_pending *larger = hr_memory_resize(reference->pending, (size_t)capacity * sizeof *larger);
        if (!larger) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        reference->pending = larger;
        reference->pending_capacity = capacity;
    }
    int indices = rule->statement->domain_count;
    size_t array = (size_t)count * sizeof(int64_t);
    hr_lanes *copies = hr_memory_zeros(1, (size_t)indices * (sizeof *copies + array) + 1);
    if (!copies) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
    int64_t *room = (int64_t *)(void *)(copies + indices);
    for (int i = 0; i < indices; ++i) {
        copies[i] = reference->indices[rule->statement->domain[i]];
        if (copies[i].form == HR_FORM_VARYING) memcpy(room, copies[i].whole, array);
        copies[i].whole = room;
        room += count;
    }
    reference->pending[reference->pending_count++] = (hr_pending){rule->number, count, copies};
    return HR_DEFERRED;
}

hr_status hr_rule_known(hr_reference *reference, hr_rule *rule, hr_known *out) {
    const hr_statement *statement = rule->statement;
    hr_memo_key key =
        hr_memo_key_at(reference, HR_MEMO_RULE, rule->number, statement->domain_count, statement->domain);
    const hr_known *found = hr_memo_find(reference->memo, key);
    if (found) {
        *out = *found;
        return HR_OK;
    }
    if (reference->depth >= DEPTH_MAX) return defer(reference, rule, 1);
    ++reference->depth;
    HR_TRY(hr_code_run(reference, &rule->value, 1, true));
    --reference->depth;
    const hr_lanes *result = hr_code_result(&rule->value);
    hr_element e = hr_element_at(result, !hr_dtype_is_float(statement->value->type), 0);
    *out = (hr_known){.value = e.value,
                      .bound = e.bound,
                      .noise = e.noise,
                      .whole = e.whole,
                      .fault = result->faulty ? result->fault[0] : 0};
    return hr_memo_insert(reference->memo, key, out);
}

hr_status hr_rule_lanes(hr_reference *reference, hr_rule *rule, int count) {
    hr_lanes *result = hr_code_result(&rule->value);
    hr_memo_key key = hr_strips_key_of(reference, rule, count);
    bool found;
    HR_TRY(hr_strips_find(reference, key, count, result, &found));
    if (found) return HR_OK;
    if (reference->depth >= DEPTH_MAX) return defer(reference, rule, count);
    ++reference->depth;
    HR_TRY(hr_code_run(reference, &rule->value, count, true));
    --reference->depth;
    return hr_strips_insert(reference, key, count, result, !hr_dtype_is_float(rule->statement->value->type));
}

/* One element of what a rule assigns, as a later statement reads it. */
static hr_status read_known(hr_reference *reference, const access *at, hr_rule *rule, int lane,
                            hr_known *out) {
    const hr_statement *statement = rule->statement;
    const hr_tensor *tensor = &reference->function->tensors[statement->tensor];
    hr_dtype type = statement->value->type;
    if (statement->store != HR_STORE_WHOLE) {
        int64_t subscripts[HR_RANK_MAX];
        for (int k = 0; k < at->rank; ++k)
            subscripts[k] = hr_lanes_whole_at(subscript(at, k), lane);
        HR_TRY(hr_scatter_value(reference, rule, subscripts, out));
        type = hr_dtype_is_float(tensor->dtype) ? (tensor->dtype == HR_F64 ? HR_F64 : HR_F32) : HR_I64;
    } else {
        for (int k = 0; k < at->rank; ++k)
            hr_lanes_set_whole(&reference->indices[statement->subscripts[k]->index],
                               hr_lanes_whole_at(subscript(at, k), lane));
        HR_TRY(hr_rule_known(reference, rule, out));
    }
    if (tensor->role == HR_ROLE_LOCAL) return HR_OK;
    hr_element e = hr_element_convert((hr_element){out->value, out->bound, out->noise, out->whole}, type,
                                      tensor->dtype, at->made->whole);
    out->value = e.value;
    out->bound = e.bound;
    out->noise = e.noise;
    out->whole = e.whole;
    return HR_OK;
}

static hr_status read_each(hr_reference *reference, const access *at, hr_rule *rule, hr_lanes *out) {
    hr_lanes_settle(out, at->n == 1, false);
    for (int i = 0; i < at->n; ++i) {
        hr_known known = {0};
        if (lane_wanted(at, i) && first_axis_out_of_range(at, i) < 0)
            HR_TRY(read_known(reference, at, rule, i, &known));
        hr_element_set(out, at->made->whole, i,
                       (hr_element){known.value, known.bound, known.noise, known.whole});
        if (known.fault) HR_TRY(hr_fault_carry(reference, out, i, known.fault));
    }
    hr_doubt_find(out, at->made->whole, at->n);
    if (at->n == 1 && at->made->whole) out->base = out->whole[0];
    return mark_faults(reference, at, out);
}

/* Puts the subscripts into the indices of the rule's statement. A lane that is out of range follows the first
 * one that is not; false where there is none. */
static bool pass_subscripts(hr_reference *reference, const access *at, const hr_rule *rule) {
    bool plain = in_range_throughout(at);
    int stand_in = 0;
    while (!plain && stand_in < at->n && first_axis_out_of_range(at, stand_in) >= 0)
        ++stand_in;
    if (stand_in == at->n) return false;
    for (int k = 0; k < at->rank; ++k) {
        const hr_lanes *from = subscript(at, k);
        hr_lanes *to = &reference->indices[rule->statement->subscripts[k]->index];
        to->form = plain || from->form == HR_FORM_UNIFORM ? from->form : HR_FORM_VARYING;
        to->base = from->base;
        to->step = from->step;
        to->spread = 0;
        to->faulty = false;
        to->doubtful = false;
        for (int i = 0; to->form == HR_FORM_VARYING && i < at->n; ++i)
            to->whole[i] = hr_lanes_whole_at(from, first_axis_out_of_range(at, i) < 0 ? i : stand_in);
    }
    return true;
}

static hr_status read_rule(hr_reference *reference, const access *at, hr_lanes *out) {
    hr_rule *rule = &reference->rules[at->made->target];
    const hr_statement *statement = rule->statement;
    const hr_tensor *tensor = &reference->function->tensors[statement->tensor];
    if (at->n == 1 || rule->value.heavy || statement->store != HR_STORE_WHOLE)
        return read_each(reference, at, rule, out);
    if (!pass_subscripts(reference, at, rule)) {
        for (int i = 0; i < at->n; ++i)
            hr_element_set(out, at->made->whole, i, (hr_element){0});
        hr_lanes_settle(out, false, at->made->whole);
        return mark_faults(reference, at, out);
    }
    HR_TRY(hr_rule_lanes(reference, rule, at->n));
    hr_lanes *result = hr_code_result(&rule->value);
    if (tensor->role == HR_ROLE_LOCAL)
        HR_TRY(hr_lanes_copy(reference, out, result, at->made->whole, at->n));
    else
        HR_TRY(hr_lanes_convert(reference, out, result, statement->value->type, tensor->dtype,
                                at->made->whole, at->n));
    if (in_range_throughout(at) && !any_faulty(at)) return HR_OK;
    if (out->form != HR_FORM_VARYING) { /* faults are a matter of lanes */
        if (at->made->whole)
            hr_lanes_broadcast_whole(out, at->n);
        else
            hr_lanes_broadcast_value(out, at->n);
        out->form = HR_FORM_VARYING;
        for (int i = 1; out->faulty && i < at->n; ++i)
            HR_TRY(hr_fault_carry(reference, out, i, out->fault[0]));
    }
    return mark_faults(reference, at, out);
}

/* Where a subscript is in doubt any element may have been read. */
static void spoil_doubtful(const access *at, const hr_lanes *s, hr_lanes *out) {
    for (int i = 0; i < at->n && s->doubtful; ++i) {
        if (!(hr_lanes_doubt_at(s, i) > 0)) continue;
        if (out->form == HR_FORM_AFFINE) hr_lanes_broadcast_whole(out, at->n);
        if (at->made->whole && !out->doubtful) memset(out->bound, 0, (size_t)at->n * sizeof *out->bound);
        if (out->form == HR_FORM_AFFINE) out->form = HR_FORM_VARYING;
        out->doubtful = at->made->whole;
        out->bound[out->form == HR_FORM_UNIFORM ? 0 : i] = INFINITY;
    }
}

hr_status hr_element_read(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                          hr_lanes *out) {
    access at = {code, made, made->arg_count, 1, reference->shapes[made->expr->tensor]};
    for (int k = 0; k < at.rank; ++k)
        if (subscript(&at, k)->form != HR_FORM_UNIFORM) at.n = count;
    HR_TRY(made->target < 0 ? load_operand(reference, &at, out) : read_rule(reference, &at, out));
    for (int k = 0; k < at.rank; ++k)
        spoil_doubtful(&at, subscript(&at, k), out);
    return HR_OK;
}
