/* Code -> lanes: runs the instructions of a statement or of a reduction's body, a strip of points at a time.
 */
#include "reference/interpreter_values.h"

#include "base/dtype.h"
#include "reference/philox.h"

#include <float.h>
#include <math.h>
#include <string.h>

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
    out->doubtful = false;
    return true;
}

/* A sum or difference that is small beside its operands keeps their errors. */
static void watch_loss(hr_reference *reference, const hr_instruction *made, int n, const hr_lanes *out,
                       const hr_lanes *first) {
    for (int i = 0; i < n; ++i) {
        const double from = fabs(first->value[i]), to = fabs(out->value[i]);
        const double error = out->bound[i];
        if (!(error > 0) || !(error <= DBL_MAX) || !(to > 0) || from <= reference->loss.ratio * to) continue;
        reference->loss.ratio = from / to;
        reference->loss.place = made->expr->place;
    }
}

/* What leaves them is gone. */
static void cut_to_32_bits(hr_lanes *out, int n) {
    for (int i = 0; i < n; ++i)
        out->whole[i] = (int32_t)out->whole[i];
}

/* Of what the arguments are. */
typedef struct traits {
    bool uniform, whole, faulty, doubtful;
} traits;

static traits traits_of(const hr_code *code, const hr_instruction *made, hr_lanes **args) {
    traits of = {true, true, false, false};
    for (int i = 0; i < made->arg_count; ++i) {
        args[i] = &code->lanes[made->args[i]];
        of.uniform &= args[i]->form == HR_FORM_UNIFORM;
        of.whole &= code->instructions[made->args[i]].whole;
        of.faulty |= args[i]->faulty;
        of.doubtful |= args[i]->doubtful;
    }
    return of;
}

/* `whole`: where whole numbers are given back; NULL = they are none. */
static void broadcast_out(hr_lanes **args, int count, int n, const int64_t **whole) {
    for (int i = 0; i < count; ++i)
        if (whole)
            whole[i] = hr_lanes_broadcast_whole(args[i], n);
        else
            hr_lanes_broadcast_value(args[i], n);
}

static hr_status compute(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                         hr_lanes *out) {
    hr_lanes *args[3] = {NULL, NULL, NULL};
    const traits of = traits_of(code, made, args);
    const bool uniform = of.uniform, whole_args = of.whole, faulty = of.faulty;
    bool compared = false;
    int n = uniform ? 1 : count;
    hr_op op = (hr_op)made->op;
    if (made->whole && whole_args && !faulty && !of.doubtful && !uniform && affine(op, out, args[0], args[1]))
        return HR_OK;
    const int64_t *whole[3] = {NULL, NULL, NULL};
    broadcast_out(args, made->arg_count, n, whole_args ? whole : NULL);
    if (whole_args)
        hr_lanes_whole(op, n, out->whole, whole[0], whole[1], whole[2]);
    else if (hr_op_is_comparison(op))
        compared = hr_lanes_compare(op, n, out, args[0], args[1]);
    else
        hr_lanes_float(op, made->expr->type, n, out, args[0], args[1], args[2]);
    if (op == HR_OP_SHIFT_LEFT && made->expr->type == HR_I32) cut_to_32_bits(out, n);
    if (!made->whole && (op == HR_OP_ADD || op == HR_OP_SUB)) watch_loss(reference, made, n, out, args[0]);
    hr_lanes_settle(out, uniform, made->whole);
    out->doubtful = compared;
    for (int i = 0; i < made->arg_count && whole_args; ++i)
        hr_doubt_carry(out, args[i], n);
    for (int i = 0; faulty && i < made->arg_count; ++i)
        HR_TRY(hr_faults_carry(reference, out, args[i], n));
    return HR_OK;
}

/* How far a doubtful whole number may be off: a comparison by 1, others are not known. */
static double whole_doubt(const hr_code *code, const hr_instruction *made) {
    return code->instructions[made->args[0]].expr->type == HR_BOOL ? 1 : INFINITY;
}

static hr_status change_class(hr_reference *reference, const hr_code *code, const hr_instruction *made,
                              int count, hr_lanes *out) {
    hr_lanes *in = &code->lanes[made->args[0]];
    bool uniform = in->form == HR_FORM_UNIFORM, from_whole = code->instructions[made->args[0]].whole;
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i) {
        hr_element from = hr_element_at(in, from_whole, i), to = {0};
        if (made->op == HR_CODE_TO_FLOAT) {
            to.value = (double)from.whole;
            to.bound = from.bound > 0 ? whole_doubt(code, made) : fabs(to.value - (double)(float)to.value);
        } else if (made->op == HR_CODE_TO_WHOLE) {
            to.whole = hr_lanes_truncate(from.value);
            to.bound = hr_element_truncates(from, HR_I64);
        } else {
            to.whole = from_whole ? from.whole != 0 : from.value != 0;
            to.bound = from_whole ? from.bound : fabs(from.value) <= from.bound && from.bound > 0;
        }
        hr_element_set(out, made->whole, i, to);
    }
    hr_lanes_settle(out, uniform, made->whole);
    hr_doubt_find(out, made->whole, n);
    return hr_faults_carry(reference, out, in, n);
}

static hr_status draw(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                      hr_lanes *out) {
    hr_lanes *seed = &code->lanes[made->args[0]], *counter = &code->lanes[made->args[1]];
    bool uniform = seed->form == HR_FORM_UNIFORM && counter->form == HR_FORM_UNIFORM;
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i)
        hr_element_set(out, false, i,
                       (hr_element){.value = hr_philox_uniform(hr_lanes_whole_at(seed, i),
                                                               hr_lanes_whole_at(counter, i))});
    hr_lanes_settle(out, uniform, false);
    HR_TRY(hr_faults_carry(reference, out, seed, n));
    return hr_faults_carry(reference, out, counter, n);
}

/* ---- where ---- */

static void take_branch(hr_code *code, const hr_instruction *made, int count) {
    hr_region *chosen = &code->regions[made->target], *other = chosen + 1;
    chosen->live = other->live = false;
    if (!code->regions[made->region].live) return;
    const hr_lanes *condition = &code->lanes[made->args[0]];
    int n = condition->form == HR_FORM_UNIFORM ? 1 : count;
    for (int i = 0; i < n; ++i) {
        const bool holds = hr_lanes_whole_at(condition, i) != 0, doubt = hr_lanes_doubt_at(condition, i) > 0;
        chosen->live |= holds || doubt;
        other->live |= !holds || doubt;
    }
}

bool hr_lane_live(const hr_code *code, int region, int lane) {
    for (; region; region = code->regions[region].parent) {
        const hr_lanes *condition = &code->lanes[code->regions[region].condition];
        if ((hr_lanes_whole_at(condition, lane) != 0) != code->regions[region].side) return false;
    }
    return true;
}

/* The chosen side, and how far the other one is from it where the condition may turn over. */
static hr_element chosen_side(const hr_lanes *const sides[2], bool whole, bool holds, bool doubt, int lane) {
    hr_element out = hr_element_at(sides[holds], whole, lane);
    if (!doubt) return out;
    const hr_element other = hr_element_at(sides[!holds], whole, lane);
    if (whole) {
        out.bound = out.bound > 0 || other.bound > 0 || out.whole != other.whole;
        return out;
    }
    const double apart = fabs(out.value - other.value);
    out.bound =
        out.value == other.value ? fmax(out.bound, other.bound) : apart + fmax(out.bound, other.bound);
    out.noise = fmax(out.noise, other.noise);
    if (!(out.bound <= DBL_MAX)) out.bound = INFINITY;
    return out;
}

static hr_status choose(hr_reference *reference, const hr_code *code, const hr_instruction *made, int count,
                        hr_lanes *out) {
    const hr_lanes *condition = &code->lanes[code->regions[made->target].condition];
    bool first = code->regions[made->target].live, second = code->regions[made->target + 1].live;
    if (first != second) {
        HR_TRY(hr_lanes_copy(reference, out, &code->lanes[made->args[first ? 1 : 2]], made->whole, count));
        if (!condition->faulty) return HR_OK;
        hr_lanes_broadcast_value(out, made->whole ? 0 : count);
        if (made->whole) hr_lanes_broadcast_whole(out, count);
        if (out->form == HR_FORM_UNIFORM && condition->form == HR_FORM_UNIFORM)
            return hr_faults_carry(reference, out, condition, 1);
        if (out->form == HR_FORM_UNIFORM && out->faulty)
            for (int i = 1; i < count; ++i)
                HR_TRY(hr_fault_carry(reference, out, i, out->fault[0]));
        out->form = HR_FORM_VARYING;
        return hr_faults_carry(reference, out, condition, count);
    }
    bool faulty = condition->faulty;
    const hr_lanes *sides[2] = {&code->lanes[made->args[2]], &code->lanes[made->args[1]]};
    for (int i = 0; i < count; ++i)
        hr_element_set(out, made->whole, i,
                       chosen_side(sides, made->whole, hr_lanes_whole_at(condition, i) != 0,
                                   hr_lanes_doubt_at(condition, i) > 0, i));
    hr_lanes_settle(out, false, made->whole);
    hr_doubt_find(out, made->whole, count);
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

/* ---- instructions ---- */

static void set_constant(const hr_reference *reference, const hr_instruction *made, hr_lanes *out) {
    const hr_expr *expr = made->expr;
    if (expr->op == HR_OP_EXTENT)
        hr_lanes_set_whole(out, reference->extents[expr->extent]);
    else if (made->whole)
        hr_lanes_set_whole(out, expr->type == HR_BOOL ? (expr->whole || expr->number != 0) : expr->whole);
    else
        hr_lanes_set_value(out, expr->number,
                           expr->type == HR_F64 ? 0 : fabs(expr->number - (double)(float)expr->number));
}

static void set_index(const hr_reference *reference, const hr_instruction *made, int count, hr_lanes *out) {
    const hr_lanes *index = &reference->indices[made->expr->index];
    out->form = index->form;
    out->base = index->base;
    out->step = index->step;
    out->spread = 0;
    out->faulty = false;
    out->doubtful = false;
    if (index->form == HR_FORM_VARYING) memcpy(out->whole, index->whole, (size_t)count * sizeof *out->whole);
}

static hr_status step(hr_reference *reference, hr_code *code, int number, int count) {
    const hr_instruction *made = &code->instructions[number];
    hr_lanes *out = &code->lanes[number];
    if (hr_code_is_fold(made->op)) return hr_fold_run(reference, code, number, count);
    switch (made->op) {
    case HR_OP_NUMBER:
    case HR_OP_EXTENT:
        set_constant(reference, made, out);
        return HR_OK;
    case HR_OP_INDEX:
        set_index(reference, made, count, out);
        return HR_OK;
    case HR_OP_ELEMENT:
        return hr_element_read(reference, code, made, count, out);
    case HR_OP_CONVERT:
        return hr_lanes_convert(reference, out, &code->lanes[made->args[0]], made->expr->args[0]->type,
                                made->expr->dtype, made->whole, count);
    case HR_OP_RANDOM:
        return draw(reference, code, made, count, out);
    case HR_OP_WHERE:
        return choose(reference, code, made, count, out);
    case HR_CODE_TO_FLOAT:
    case HR_CODE_TO_WHOLE:
    case HR_CODE_TO_BOOL:
        return change_class(reference, code, made, count, out);
    default:
        return compute(reference, code, made, count, out);
    }
}

/* What several points have in common errs in one direction for all of them. */
static void join_errors(hr_lanes *lanes, int count) {
    const int n = lanes->form == HR_FORM_UNIFORM ? 1 : count;
    for (int i = 0; i < n; ++i)
        lanes->noise[i] = 0;
}

hr_status hr_code_run(hr_reference *reference, hr_code *code, int count, bool first) {
    code->regions[0].live = true;
    for (int i = 0; i < code->count; ++i) {
        const hr_instruction *made = &code->instructions[i];
        if (!first && !made->varies) continue;
        if (made->op == HR_CODE_BRANCH)
            take_branch(code, made, count);
        else if (code->regions[made->region].live) {
            HR_TRY(step(reference, code, i, count));
            if (made->shared) join_errors(&code->lanes[i], count);
        }
    }
    return HR_OK;
}
