/* What the lanes of a pass add up. In: steps and their values. Out: text. See lane_sums.h. */
#include "emit/c/lane_sums.h"

#include "emit/reduce.h"

hr_dtype hr_lane_reduced(hr_dtype type) {
    return type == HR_BOOL ? HR_I32 : type;
}

/* An accumulator of a pass: its C type, how many lie side by side (because an addition takes several cycles
 * to finish), the value that changes nothing. */
typedef struct accumulator {
    const char *type, *name, *identity;
    int ways; /* 0 = a plain variable */
} accumulator;

/* Chains of f32 end in a total of f64. */
static bool has_total(const hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    return p->vector && pass->chain && s->use == HR_LANE_REDUCE && s->reduce == HR_OP_REDUCE_SUM &&
           s->type == HR_F32;
}

static int add_accumulators(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s,
                            accumulator out[2]) {
    hr_dtype type = p->vector ? hr_lane_reduced(s->type) : s->type;
    const char *identity = hr_reduce_identity(s->reduce, type), *v = hr_lane_prefix(type);
    if (s->use != HR_LANE_REDUCE) return 0;
    out[0] = (accumulator){.name = hr_format(p, "a%d", s->id),
                           .ways = p->vector ? pass->ways : hr_op_finds_position(s->reduce)};
    out[0].type = p->vector ? v : hr_reduce_type(s->reduce, type);
    out[0].identity = p->vector ? hr_format(p, "%s_of(%s)", v, identity) : identity;
    if (has_total(p, pass, s)) {
        out[1] = (accumulator){"double", hr_format(p, "folded_%d", s->id), "0", 1};
        return 2;
    }
    if (!hr_op_finds_position(s->reduce)) return 1;
    out[1] = (accumulator){.name = hr_format(p, "x%d", s->id), .ways = 1};
    out[1].type = p->vector ? "vi" : "int64_t";
    out[1].identity = p->vector ? "vi_of(INT32_MAX)" : "INT64_MAX";
    return 2;
}

static const accumulator *accumulators_of(hr_printer *p, const hr_lane_pass *pass, int *count) {
    accumulator *all = hr_arena_alloc(p->arena, (2 * (size_t)pass->step_count + 1) * sizeof *all);
    *count = 0;
    for (int i = 0; i < pass->step_count; i++)
        *count += add_accumulators(p, pass, &pass->steps[i], all + *count);
    return all;
}

static void declare(hr_printer *p, const hr_lane_pass *pass, const accumulator *a) {
    const char *values = "";
    for (int w = 0; w < a->ways; w++) {
        const char *value = pass->state ? hr_format(p, "%s%s[%d]", pass->state, a->name, w) : a->identity;
        values = hr_format(p, "%s%s%s", values, w ? ", " : "", value);
    }
    if (a->ways)
        hr_print(p, "%s %s[%d] = {%s};", a->type, a->name, a->ways, values);
    else
        hr_print(p, "%s %s = %s;", a->type, a->name, a->identity);
}

const char *hr_lane_last(hr_printer *p, const hr_lane_pass *pass) {
    if (pass->last) return pass->last;
    return p->stage->row_count ? hr_emit_index_size(p, p->lane) : "1";
}

void hr_lane_declare(hr_printer *p, const hr_lane_pass *pass) {
    int count;
    const accumulator *all = accumulators_of(p, pass, &count);
    for (const accumulator *a = all; a < all + count; a++)
        declare(p, pass, a);
}

void hr_lane_fields(hr_printer *p, const hr_lane_pass *pass) {
    int count;
    const accumulator *all = accumulators_of(p, pass, &count);
    for (const accumulator *a = all; a < all + count; a++)
        hr_print(p, "%s %s[%d];", a->type, a->name, a->ways);
}

void hr_lane_begin(hr_printer *p, const hr_lane_pass *pass) {
    int count;
    const accumulator *all = accumulators_of(p, pass, &count);
    for (const accumulator *a = all; a < all + count; a++)
        for (int w = 0; w < a->ways; w++)
            hr_print(p, "%s%s[%d] = %s;", pass->state, a->name, w, a->identity);
}

void hr_lane_save(hr_printer *p, const hr_lane_pass *pass, const char *from) {
    int count;
    const accumulator *all = accumulators_of(p, pass, &count);
    for (const accumulator *a = all; a < all + count; a++)
        for (int w = 0; w < a->ways; w++)
            hr_print(p, "%s%s[%d] = %s%s[%d];", pass->state, a->name, w, from, a->name, w);
}

void hr_lane_views(hr_printer *p, const hr_lane_pass *pass, const char *qualifier) {
    int count;
    const accumulator *all = accumulators_of(p, pass, &count);
    for (const accumulator *a = all; a < all + count; a++)
        if (hr_is_used(p, a->name))
            hr_print(p, "%s%s *const %s = %s%s;", qualifier, a->type, a->name, pass->state, a->name);
}

/* The accumulator of a step, its total, its position, as operands. */
static const char *sum_name(hr_printer *p, const hr_lane_step *s) {
    return hr_use(p, hr_format(p, "a%d", s->id));
}

static const char *total_name(hr_printer *p, const hr_lane_step *s) {
    return hr_use(p, hr_format(p, "folded_%d", s->id));
}

static const char *place_name(hr_printer *p, const hr_lane_step *s) {
    return hr_use(p, hr_format(p, "x%d", s->id));
}

/* Ways first..first+count-1 of the accumulators at `from`, folded pairwise into one vector. */
static const char *fold_ways(hr_printer *p, const hr_lane_step *s, const char *from, int first, int count) {
    if (count == 1) return hr_format(p, "%s%s[%d]", from, sum_name(p, s), first);
    const char *low = fold_ways(p, s, from, first, count / 2);
    const char *high = fold_ways(p, s, from, first + count / 2, count - count / 2);
    return hr_reduce_combine_lanes(p, s->reduce, hr_lane_reduced(s->type), hr_format(p, "(%s)", low),
                                   hr_format(p, "(%s)", high));
}

bool hr_lane_has_totals(const hr_printer *p, const hr_lane_pass *pass) {
    for (int i = 0; i < pass->step_count; i++)
        if (has_total(p, pass, &pass->steps[i])) return true;
    return false;
}

const char *hr_lane_chain(hr_printer *p, const hr_lane_pass *pass, int ways) {
    return hr_format(p, "%lld * HR_LANES", (long long)pass->chain * ways);
}

void hr_lane_fold(hr_printer *p, const hr_lane_pass *pass, const char *from) {
    for (const hr_lane_step *s = pass->steps; s < pass->steps + pass->step_count; s++) {
        if (!has_total(p, pass, s)) continue;
        hr_print(p, "%s%s[0] += vf_fold_sum(%s);", from, total_name(p, s),
                 fold_ways(p, s, from, 0, pass->ways));
        for (int w = 0; w < pass->ways; w++)
            hr_print(p, "%s%s[%d] = vf_of(0);", from, sum_name(p, s), w);
    }
}

void hr_lane_chains(hr_printer *p, const hr_lane_pass *pass,
                    void (*print_lanes)(hr_printer *, const hr_lane_pass *)) {
    hr_lane_pass chain = *pass;
    const char *most = hr_lane_chain(p, pass, pass->ways);
    chain.first = "chain";
    const char *last = hr_lane_last(p, pass);
    chain.last = "chain_end";
    hr_print(p, "for (int64_t chain = %s, chain_end; chain < %s; chain = chain_end) {", pass->first, last);
    p->indent++;
    hr_print(p, "chain_end = %s - chain < %s ? %s : chain + %s;", last, most, last, most);
    print_lanes(p, &chain);
    if (p->outer_count) {
        hr_print(p, "chained += chain_end - chain + %d * HR_LANES;", pass->ways * pass->ways);
        hr_print(p, "if (chained < %s) continue;", most);
        hr_print(p, "chained = 0;");
    } else {
        hr_print(p, "if (chain_end == %s) break;", last);
    }
    hr_lane_fold(p, pass, "");
    p->indent--;
    hr_print(p, "}");
}

const char *hr_lane_result(hr_printer *p, const hr_lane_pass *pass, const hr_lane_step *s) {
    const char *which = hr_op_seeks_largest(s->reduce) ? "max" : "min";
    const char *v = hr_lane_prefix(hr_lane_reduced(s->type));
    if (hr_op_finds_position(s->reduce))
        return p->vector ? hr_format(p, "%s_arg%s(%s[0], %s[0])", v, which, sum_name(p, s), place_name(p, s))
                         : hr_format(p, "(%s[0] == INT64_MAX ? 0 : x%d[0])", place_name(p, s), s->id);
    bool whole_sum = s->reduce == HR_OP_REDUCE_SUM && s->type != HR_F32 && s->type != HR_F64;
    if (!p->vector) return hr_format(p, "(%s)%s", hr_c_compute(whole_sum ? HR_I64 : s->type), sum_name(p, s));
    const char *fold = s->reduce == HR_OP_REDUCE_SUM    ? "sum"
                       : s->reduce == HR_OP_REDUCE_PROD ? "prod"
                                                        : which;
    const char *result = hr_format(p, "%s_fold_%s(%s)", v, fold, fold_ways(p, s, "", 0, pass->ways));
    return has_total(p, pass, s) ? hr_format(p, "(float)(%s[0] + %s)", total_name(p, s), result) : result;
}

/* ---- what a lane adds ---- */

static const char *position(hr_printer *p) {
    const char *flat = hr_emit_outer(p);
    return flat ? hr_format(p, "((%s) * %s + i)", flat, hr_emit_index_size(p, p->lane)) : "i";
}

/* The larger (smaller) value and its position; a NaN is taken once and kept. */
static void print_arg_update(hr_printer *p, const hr_lane_step *s, const char *value) {
    const char *at = position(p), *a = hr_format(p, "%s[0]", sum_name(p, s)),
               *x = hr_format(p, "%s[0]", place_name(p, s));
    if (!p->vector) {
        const char *symbol = hr_op_seeks_largest(s->reduce) ? ">" : "<";
        hr_print(p, "if (%s == INT64_MAX || %s %s %s || (%s != %s && %s == %s)) %s = %s, %s = %s;", x, value,
                 symbol, a, value, value, a, a, a, value, x, at);
        return;
    }
    const char *v = hr_lane_prefix(hr_lane_reduced(s->type)),
               *than = hr_op_seeks_largest(s->reduce) ? "gt" : "lt";
    hr_print(p, "vm m%d = vm_or(vi_eq(%s, vi_of(INT32_MAX)), %s_%s(%s, %s));", s->id, x, v, than, value, a);
    hr_print(p, "m%d = vm_or(m%d, vm_and(%s_ne(%s, %s), %s_eq(%s, %s)));", s->id, s->id, v, value, value, v,
             a, a);
    if (p->body == HR_BODY_PART) hr_print(p, "m%d = vm_and(m%d, vm_first(lanes));", s->id, s->id);
    hr_print(p, "%s = %s_select(m%d, %s, %s);", a, v, s->id, value, a);
    hr_print(p, "%s = vi_select(m%d, vi_iota() + (int32_t)%s, %s);", x, s->id, at, x);
}

static void print_reduced(hr_printer *p, const hr_lane_step *s, const char *value) {
    hr_dtype type = p->vector ? hr_lane_reduced(s->type) : s->type;
    if (hr_op_finds_position(s->reduce)) {
        print_arg_update(p, s, value);
        return;
    }
    if (!p->vector) {
        const char *sum = sum_name(p, s);
        hr_print(p, "%s = %s;", sum, hr_reduce_combine(p, s->reduce, type, sum, value));
        return;
    }
    const char *v = hr_lane_prefix(type);
    if (p->body == HR_BODY_PART)
        value = hr_format(p, "%s_select(vm_first(lanes), %s, %s_of(%s))", v, value, v,
                          hr_reduce_identity(s->reduce, type));
    const char *sum = hr_format(p, "%s[%s]", sum_name(p, s), p->way);
    hr_print(p, "%s = %s;", sum, hr_reduce_combine_lanes(p, s->reduce, type, sum, value));
}

static void print_column(hr_printer *p, const hr_lane_step *s, const char *value) {
    if (!p->vector) {
        const char *place = hr_format(p, "c%d[i]", s->id);
        hr_print(p, "%s = %s;", place, hr_reduce_combine(p, s->reduce, s->type, place, value));
        return;
    }
    if (s->held) {
        const char *sum = hr_format(p, "held_%d[%s - from]", s->id, p->way);
        hr_print(p, "%s = %s;", sum, hr_reduce_combine_lanes(p, s->reduce, s->type, sum, value));
        return;
    }
    const char *v = hr_lane_prefix(s->type), *dtype = hr_dtype_name(s->type);
    const char *part = p->body == HR_BODY_PART ? "part_" : "",
               *count = p->body == HR_BODY_PART ? ", lanes" : "";
    const char *old = hr_format(p, "%s_load_%s%s(c%d + i%s)", v, part, dtype, s->id, count);
    hr_print(p, "%s_store_%s%s(c%d + i, %s%s);", v, part, dtype, s->id,
             hr_reduce_combine_lanes(p, s->reduce, s->type, old, value), count);
}

void hr_lane_add(hr_printer *p, const hr_lane_step *s, const char *value) {
    if (s->use == HR_LANE_REDUCE) print_reduced(p, s, value);
    if (s->use == HR_LANE_COLUMN) print_column(p, s, value);
}
