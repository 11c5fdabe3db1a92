/* Code -> lanes: runs the instructions of a statement or of a reduction's body, a strip of points at a time.
 */
#include "base/dtype.h"
#include "reference/interpreter.h"
#include "reference/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MAX = 1 << 16, DEPTH_MAX = 64 };

/* ---- faults ---- */

hr_status hr_fault_carry(hr_reference *reference, hr_lanes *lanes, int lane, int32_t fault) {
    size_t size = (size_t)reference->width * sizeof *lanes->fault;
    if (!lanes->fault) {
        if (hr_arena_room(reference->arena) < size + 64)
            return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        lanes->fault = hr_arena_alloc(reference->arena, size);
    }
    if (!lanes->faulty) memset(lanes->fault, 0, size);
    lanes->faulty = true;
    if (!lanes->fault[lane]) lanes->fault[lane] = fault;
    return HR_OK;
}

hr_status hr_fault_mark(hr_reference *reference, hr_lanes *lanes, int lane, const hr_fault_record *record) {
    if (reference->fault_count < FAULTS_MAX - 1) ++reference->fault_count;
    reference->faults[reference->fault_count] = *record;
    return hr_fault_carry(reference, lanes, lane, reference->fault_count);
}

hr_status hr_fault_fail(const hr_reference *reference, const hr_fault_record *record) {
    const hr_function *function = reference->function;
    return hr_fail(
        HR_OUT_OF_RANGE,
        "%s:%d: subscript %d of %s is %lld, but that axis has %lld elements; mend the data or guard "
        "the access with where()",
        function->origin && function->origin->path ? function->origin->path : function->name, record->line,
        record->axis + 1, function->tensors[record->tensor].name, (long long)record->value,
        (long long)reference->shapes[record->tensor][record->axis]);
}

static hr_status carry_all(hr_reference *reference, hr_lanes *out, const hr_lanes *from, int n) {
    if (!from->faulty) return HR_OK;
    for (int i = 0; i < n; ++i) {
        int32_t fault = from->fault[from->form == HR_FORM_UNIFORM ? 0 : i];
        if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
    }
    return HR_OK;
}

/* ---- copies and conversions ---- */

static hr_status copy_lanes(hr_reference *reference, hr_lanes *out, const hr_lanes *in, bool whole, int n) {
    size_t lanes = in->form == HR_FORM_VARYING ? (size_t)n : 1;
    out->form = in->form;
    out->base = in->base;
    out->step = in->step;
    out->spread = whole ? 0 : 1;
    out->faulty = false;
    memcpy(out->value, in->value, lanes * sizeof *in->value);
    if (!whole) memcpy(out->scale, in->scale, lanes * sizeof *in->scale);
    return carry_all(reference, out, in, (int)lanes);
}

typedef struct element {
    double value, scale;
    int64_t whole;
} element;

/* `type`: what it was computed as. A whole dtype may stay a float: inexact.c. */
static element convert(element from, hr_dtype type, hr_dtype dtype, bool to_whole) {
    union {
        double f64;
        int64_t i64;
    } room;
    bool from_whole = !hr_dtype_is_float(type);
    if (!from_whole && !to_whole) {
        hr_lanes_round(type, dtype, 1, &from.value, &from.scale);
        return from;
    }
    if (from_whole)
        hr_dtype_store_whole(dtype, &room, 0, from.whole);
    else
        hr_dtype_store(dtype, &room, 0, from.value);
    if (to_whole) return (element){.whole = hr_dtype_load_whole(dtype, &room, 0)};
    double value = hr_dtype_load(dtype, &room, 0);
    return (element){.value = value, .scale = fabs(value)};
}

static element element_at(const hr_lanes *lanes, bool whole, int lane) {
    if (whole) return (element){.whole = hr_lanes_whole_at(lanes, lane)};
    if (lanes->form == HR_FORM_UNIFORM) lane = 0;
    return (element){.value = lanes->value[lane], .scale = lanes->scale[lane]};
}

static void set_element(hr_lanes *lanes, bool whole, int lane, element from) {
    if (whole) {
        lanes->whole[lane] = from.whole;
    } else {
        lanes->value[lane] = from.value;
        lanes->scale[lane] = from.scale;
    }
}

/* The first n lanes of the arrays are the value. */
static void settle(hr_lanes *out, bool uniform, bool whole) {
    out->form = uniform ? HR_FORM_UNIFORM : HR_FORM_VARYING;
    out->spread = 1;
    out->step = 0;
    out->faulty = false;
    if (uniform && whole) out->base = out->whole[0];
}

static hr_status convert_lanes(hr_reference *reference, hr_lanes *out, hr_lanes *in, hr_dtype type,
                               hr_dtype dtype, bool to_whole, int count) {
    bool uniform = in->form == HR_FORM_UNIFORM, from_whole = !hr_dtype_is_float(type);
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i)
        set_element(out, to_whole, i, convert(element_at(in, from_whole, i), type, dtype, to_whole));
    settle(out, uniform, to_whole);
    return carry_all(reference, out, in, n);
}

/* ---- arithmetic ---- */

/* A sum or product that leaves a whole number affine; false where it does not. */
static bool affine(hr_op op, hr_lanes *out, const hr_lanes *a, const hr_lanes *b) {
    if (a->form == HR_FORM_VARYING || (b && b->form == HR_FORM_VARYING)) return false;
    uint64_t base = (uint64_t)a->base, step = (uint64_t)a->step;
    uint64_t other = b ? (uint64_t)b->base : 0, stride = b ? (uint64_t)b->step : 0;
    switch (op) {
    case HR_OP_ADD:
        base += other, step += stride;
        break;
    case HR_OP_SUB:
        base -= other, step -= stride;
        break;
    case HR_OP_NEG:
        base = 0 - base, step = 0 - step;
        break;
    case HR_OP_MUL:
        if (step && stride) return false;
        step = step * other + stride * base;
        base *= other;
        break;
    default:
        return false;
    }
    out->form = step ? HR_FORM_AFFINE : HR_FORM_UNIFORM;
    out->base = (int64_t)base;
    out->step = (int64_t)step;
    out->spread = 0;
    out->faulty = false;
    return true;
}

static bool is_comparison(int op) {
    return op >= HR_OP_LT && op <= HR_OP_NE;
}

static hr_status compute(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                         hr_lanes *out) {
    hr_lanes *args[3] = {NULL, NULL, NULL};
    bool uniform = true, whole_args = true, faulty = false;
    for (int i = 0; i < made->arg_count; ++i) {
        args[i] = &code->lanes[made->args[i]];
        uniform &= args[i]->form == HR_FORM_UNIFORM;
        whole_args &= code->instructions[made->args[i]].whole;
        faulty |= args[i]->faulty;
    }
    int n = uniform ? 1 : count;
    hr_op op = (hr_op)made->op;
    if (made->whole && whole_args && !faulty && !uniform && affine(op, out, args[0], args[1])) return HR_OK;
    const int64_t *whole[3] = {NULL, NULL, NULL};
    for (int i = 0; i < made->arg_count; ++i)
        if (whole_args)
            whole[i] = hr_lanes_spread_whole(args[i], n);
        else
            hr_lanes_spread_value(args[i], n);
    if (whole_args)
        hr_lanes_whole(op, n, out->whole, whole[0], whole[1], whole[2]);
    else if (is_comparison(op))
        hr_lanes_compare(op, n, out->whole, args[0]->value, args[1]->value);
    else
        hr_lanes_float(op, made->expr->type, n, out, args[0], args[1], args[2]);
    settle(out, uniform, made->whole);
    for (int i = 0; faulty && i < made->arg_count; ++i)
        HR_TRY(carry_all(reference, out, args[i], n));
    return HR_OK;
}

static hr_status change_class(hr_reference *reference, const hr_code *code, const hr_instruction *made,
                              int count, hr_lanes *out) {
    hr_lanes *in = &code->lanes[made->args[0]];
    bool uniform = in->form == HR_FORM_UNIFORM, from_whole = code->instructions[made->args[0]].whole;
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i) {
        element from = element_at(in, from_whole, i), to = {0};
        if (made->op == HR_CODE_TO_FLOAT) {
            to.value = (double)from.whole;
            to.scale = fabs(to.value);
        } else if (made->op == HR_CODE_TO_WHOLE) {
            to.whole = hr_lanes_truncate(from.value);
        } else {
            to.whole = from_whole ? from.whole != 0 : from.value != 0;
        }
        set_element(out, made->whole, i, to);
    }
    settle(out, uniform, made->whole);
    return carry_all(reference, out, in, n);
}

static hr_status draw(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                      hr_lanes *out) {
    hr_lanes *seed = &code->lanes[made->args[0]], *counter = &code->lanes[made->args[1]];
    bool uniform = seed->form == HR_FORM_UNIFORM && counter->form == HR_FORM_UNIFORM;
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i)
        out->value[i] = out->scale[i] =
            hr_philox_uniform(hr_lanes_whole_at(seed, i), hr_lanes_whole_at(counter, i));
    settle(out, uniform, false);
    HR_TRY(carry_all(reference, out, seed, n));
    return carry_all(reference, out, counter, n);
}

/* ---- where ---- */

static void take_branch(hr_code *code, const hr_instruction *made, int count) {
    hr_region *chosen = &code->regions[made->target], *other = chosen + 1;
    chosen->live = other->live = false;
    if (!code->regions[made->region].live) return;
    const hr_lanes *condition = &code->lanes[made->args[0]];
    int n = condition->form == HR_FORM_UNIFORM ? 1 : count;
    for (int i = 0; i < n; ++i)
        if (hr_lanes_whole_at(condition, i))
            chosen->live = true;
        else
            other->live = true;
}

bool hr_lane_live(const hr_code *code, int region, int lane) {
    for (; region; region = code->regions[region].parent) {
        const hr_lanes *condition = &code->lanes[code->regions[region].condition];
        if ((hr_lanes_whole_at(condition, lane) != 0) != code->regions[region].side) return false;
    }
    return true;
}

static hr_status choose(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                        hr_lanes *out) {
    const hr_lanes *condition = &code->lanes[code->regions[made->target].condition];
    bool first = code->regions[made->target].live, second = code->regions[made->target + 1].live;
    if (first != second) {
        HR_TRY(copy_lanes(reference, out, &code->lanes[made->args[first ? 1 : 2]], made->whole, count));
        if (!condition->faulty) return HR_OK;
        hr_lanes_spread_value(out, made->whole ? 0 : count);
        if (made->whole) hr_lanes_spread_whole(out, count);
        if (out->form == HR_FORM_UNIFORM && condition->form == HR_FORM_UNIFORM)
            return carry_all(reference, out, condition, 1);
        if (out->form == HR_FORM_UNIFORM && out->faulty)
            for (int i = 1; i < count; ++i)
                HR_TRY(hr_fault_carry(reference, out, i, out->fault[0]));
        out->form = HR_FORM_VARYING;
        return carry_all(reference, out, condition, count);
    }
    bool faulty = condition->faulty;
    const hr_lanes *sides[2] = {&code->lanes[made->args[2]], &code->lanes[made->args[1]]};
    for (int i = 0; i < count; ++i)
        set_element(out, made->whole, i,
                    element_at(sides[hr_lanes_whole_at(condition, i) != 0], made->whole, i));
    settle(out, false, made->whole);
    faulty |= sides[0]->faulty || sides[1]->faulty;
    for (int i = 0; faulty && i < count; ++i) {
        const hr_lanes *from[2] = {sides[hr_lanes_whole_at(condition, i) != 0], condition};
        for (int k = 0; k < 2; ++k) {
            int32_t fault = from[k]->faulty ? from[k]->fault[from[k]->form == HR_FORM_UNIFORM ? 0 : i] : 0;
            if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
        }
    }
    return HR_OK;
}

/* ---- elements ---- */

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
        element loaded = {0};
        if (offsets[i] != INT64_MIN) need(operand, offsets[i], 0, 1);
        if (offsets[i] != INT64_MIN && at->made->whole)
            loaded.whole = hr_dtype_load_whole(dtype, operand->data, (size_t)offsets[i]);
        else if (offsets[i] != INT64_MIN)
            fetch_value(dtype, operand->data, offsets[i], 0, 1, &loaded.value);
        loaded.scale = fabs(loaded.value);
        set_element(out, at->made->whole, i, loaded);
    }
    settle(out, at->n == 1, at->made->whole);
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
            hr_lanes_set_value(out, known.value, known.scale);
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
        for (int i = 0; i < at->n; ++i)
            out->scale[i] = fabs(out->value[i]);
    }
    settle(out, at->n == 1, at->made->whole);
    return HR_OK;
}

hr_known hr_operand_known(const hr_reference *reference, int tensor, const int64_t *subscripts) {
    const hr_operand *operand = &reference->operands[tensor];
    const hr_tensor *t = &reference->function->tensors[tensor];
    hr_known known = {0};
    int64_t offset = 0;
    for (int k = 0; k < t->rank; ++k)
        offset += subscripts[k] * operand->strides[k];
    bool array = t->rank || operand->data; /* an inout of rank 0 is an array of one element */
    if (array) need(operand, offset, 0, 1);
    if (hr_dtype_is_float(t->dtype)) {
        known.value = array ? hr_dtype_load(t->dtype, operand->data, (size_t)offset)
                            : hr_dtype_round(t->dtype, operand->scalar);
        known.scale = fabs(known.value);
    } else {
        known.whole = array ? hr_dtype_load_whole(t->dtype, operand->data, (size_t)offset)
                            : convert((element){.value = operand->scalar}, HR_F64, t->dtype, true).whole;
    }
    return known;
}

/* ---- rules ---- */

static hr_status defer(hr_reference *reference, const hr_rule *rule, int count) {
    if (reference->pending_count == reference->pending_capacity) {
        int capacity = reference->pending_capacity ? 2 * reference->pending_capacity : 16;
        hr_pending *larger = realloc(reference->pending, (size_t)capacity * sizeof *larger);
        if (!larger) return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        reference->pending = larger;
        reference->pending_capacity = capacity;
    }
    int indices = rule->statement->domain_count;
    size_t array = (size_t)count * sizeof(int64_t);
    hr_lanes *copies = calloc(1, (size_t)indices * (sizeof *copies + array) + 1);
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
    element e = element_at(result, !hr_dtype_is_float(statement->value->type), 0);
    *out = (hr_known){
        .value = e.value, .scale = e.scale, .whole = e.whole, .fault = result->faulty ? result->fault[0] : 0};
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
    if (statement->accumulate) {
        int64_t subscripts[HR_RANK_MAX];
        double hits;
        for (int k = 0; k < at->rank; ++k)
            subscripts[k] = hr_lanes_whole_at(subscript(at, k), lane);
        HR_TRY(hr_scatter_value(reference, rule, subscripts, out, &hits));
        type = hr_dtype_is_float(tensor->dtype) ? (tensor->dtype == HR_F64 ? HR_F64 : HR_F32) : HR_I64;
    } else {
        for (int k = 0; k < at->rank; ++k)
            hr_lanes_set_whole(&reference->indices[statement->subscripts[k]->index],
                               hr_lanes_whole_at(subscript(at, k), lane));
        HR_TRY(hr_rule_known(reference, rule, out));
    }
    if (tensor->role == HR_ROLE_LOCAL) return HR_OK;
    element e = convert((element){out->value, out->scale, out->whole}, type, tensor->dtype, at->made->whole);
    out->value = e.value;
    out->scale = e.scale;
    out->whole = e.whole;
    return HR_OK;
}

static hr_status read_each(hr_reference *reference, const access *at, hr_rule *rule, hr_lanes *out) {
    settle(out, at->n == 1, false);
    for (int i = 0; i < at->n; ++i) {
        hr_known known = {0};
        if (lane_wanted(at, i) && first_axis_out_of_range(at, i) < 0)
            HR_TRY(read_known(reference, at, rule, i, &known));
        set_element(out, at->made->whole, i, (element){known.value, known.scale, known.whole});
        if (known.fault) HR_TRY(hr_fault_carry(reference, out, i, known.fault));
    }
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
        for (int i = 0; to->form == HR_FORM_VARYING && i < at->n; ++i)
            to->whole[i] = hr_lanes_whole_at(from, first_axis_out_of_range(at, i) < 0 ? i : stand_in);
    }
    return true;
}

static hr_status read_rule(hr_reference *reference, const access *at, hr_lanes *out) {
    hr_rule *rule = &reference->rules[at->made->target];
    const hr_statement *statement = rule->statement;
    const hr_tensor *tensor = &reference->function->tensors[statement->tensor];
    if (at->n == 1 || rule->value.heavy || statement->accumulate) return read_each(reference, at, rule, out);
    if (!pass_subscripts(reference, at, rule)) {
        for (int i = 0; i < at->n; ++i)
            set_element(out, at->made->whole, i, (element){0});
        settle(out, false, at->made->whole);
        return mark_faults(reference, at, out);
    }
    HR_TRY(hr_rule_lanes(reference, rule, at->n));
    hr_lanes *result = hr_code_result(&rule->value);
    if (tensor->role == HR_ROLE_LOCAL)
        HR_TRY(copy_lanes(reference, out, result, at->made->whole, at->n));
    else
        HR_TRY(convert_lanes(reference, out, result, statement->value->type, tensor->dtype, at->made->whole,
                             at->n));
    if (in_range_throughout(at) && !any_faulty(at)) return HR_OK;
    if (out->form != HR_FORM_VARYING) { /* faults are a matter of lanes */
        if (at->made->whole)
            hr_lanes_spread_whole(out, at->n);
        else
            hr_lanes_spread_value(out, at->n);
        out->form = HR_FORM_VARYING;
        for (int i = 1; out->faulty && i < at->n; ++i)
            HR_TRY(hr_fault_carry(reference, out, i, out->fault[0]));
    }
    return mark_faults(reference, at, out);
}

static hr_status read_element(hr_reference *reference, const hr_code *code, const hr_instruction *made,
                              int count, hr_lanes *out) {
    access at = {code, made, made->arg_count, 1, reference->shapes[made->expr->tensor]};
    for (int k = 0; k < at.rank; ++k)
        if (subscript(&at, k)->form != HR_FORM_UNIFORM) at.n = count;
    return made->target < 0 ? load_operand(reference, &at, out) : read_rule(reference, &at, out);
}

/* ---- instructions ---- */

static void set_constant(const hr_reference *reference, const hr_instruction *made, hr_lanes *out) {
    const hr_expr *expr = made->expr;
    if (expr->op == HR_OP_EXTENT)
        hr_lanes_set_whole(out, reference->extents[expr->extent]);
    else if (made->whole)
        hr_lanes_set_whole(out, expr->type == HR_BOOL ? (expr->whole || expr->number != 0) : expr->whole);
    else
        hr_lanes_set_value(out, expr->number, fabs(expr->number));
}

static void set_index(const hr_reference *reference, const hr_instruction *made, int count, hr_lanes *out) {
    const hr_lanes *index = &reference->indices[made->expr->index];
    out->form = index->form;
    out->base = index->base;
    out->step = index->step;
    out->spread = 0;
    out->faulty = false;
    if (index->form == HR_FORM_VARYING) memcpy(out->whole, index->whole, (size_t)count * sizeof *out->whole);
}

static hr_status step(hr_reference *reference, hr_code *code, int number, int count) {
    const hr_instruction *made = &code->instructions[number];
    hr_lanes *out = &code->lanes[number];
    switch (made->op) {
    case HR_OP_NUMBER:
    case HR_OP_EXTENT:
        set_constant(reference, made, out);
        return HR_OK;
    case HR_OP_INDEX:
        set_index(reference, made, count, out);
        return HR_OK;
    case HR_OP_ELEMENT:
        return read_element(reference, code, made, count, out);
    case HR_OP_CONVERT:
        return convert_lanes(reference, out, &code->lanes[made->args[0]], made->expr->args[0]->type,
                             made->expr->dtype, made->whole, count);
    case HR_OP_RANDOM:
        return draw(reference, code, made, count, out);
    case HR_OP_WHERE:
        return choose(reference, code, made, count, out);
    case HR_OP_REDUCE_SUM:
    case HR_OP_REDUCE_MEAN:
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_MIN:
    case HR_OP_REDUCE_ARGMAX:
    case HR_OP_REDUCE_ARGMIN:
    case HR_OP_REDUCE_LOGSUMEXP:
    case HR_OP_SOFTMAX:
        return hr_fold_run(reference, code, number, count);
    case HR_CODE_TO_FLOAT:
    case HR_CODE_TO_WHOLE:
    case HR_CODE_TO_BOOL:
        return change_class(reference, code, made, count, out);
    default:
        return compute(reference, code, made, count, out);
    }
}

hr_status hr_code_run(hr_reference *reference, hr_code *code, int count, bool first) {
    code->regions[0].live = true;
    for (int i = 0; i < code->count; ++i) {
        const hr_instruction *made = &code->instructions[i];
        if (!first && !made->varies) continue;
        if (made->op == HR_CODE_BRANCH)
            take_branch(code, made, count);
        else if (code->regions[made->region].live)
            HR_TRY(step(reference, code, i, count));
    }
    return HR_OK;
}
