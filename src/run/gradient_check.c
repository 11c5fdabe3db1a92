/* A gradient against central differences. In: a function. Out: the worst difference.
 *
 * L(x) = <w, f(x)> with a random cotangent w. The derived kernel gives g = dL/dx. Along a random direction v
 * of one parameter, (L(x + h v) - L(x - h v)) / 2h must be <g, v>.
 */
#include "run/gradient_check.h"
#include "base/dtype.h"
#include "grad/gradient.h"
#include "ir/count.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "lang/program.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXTENT_TRIES = 60,
    POINTS = 2,
    DIRECTIONS = 2,
    ELEMENTS_MOST = 1 << 14,
    ARENA = HR_PLAN_RESERVE + (64 << 20)
};
static const double step = 1e-5, tolerance = 1e-6, rounding = 1e-11;

/* A function with arrays: all floats are f64. */
typedef struct evaluated {
    const hr_function *function;
    const int64_t *extents;
    hr_operand *operands; /* one a parameter */
    double **arrays;      /* of floats: a parameter's elements */
    int64_t (*shapes)[HR_RANK_MAX], (*strides)[HR_RANK_MAX];
    int64_t *counts;
} evaluated;

typedef struct comparison {
    hr_arena *arena;
    hr_program *program, *tangent_program;               /* of the derived texts */
    const hr_function *source;                           /* in f64 */
    const hr_function *derived;                          /* in f64 */
    const hr_function *tangent;                          /* forward mode, in f64 */
    hr_gradient_argument *arguments, *tangent_arguments; /* of the derived kernels */
    int64_t *extents, *derived_extents, *tangent_extents;
    evaluated forward, backward, ahead;
    uint64_t random;
    hr_gradient_check *out;
} comparison;

/* ---- numbers ---- */

static uint64_t next(comparison *c) {
    c->random += 0x9e3779b97f4a7c15u;
    uint64_t x = c->random;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(comparison *c, double low, double high) {
    return low + (high - low) * (double)(next(c) >> 11) * 0x1p-53;
}

/* ---- extents ---- */

static bool fits(const comparison *c, const hr_function *function, const int64_t *extents) {
    for (int t = 0; t < hr_function_arguments(function); t++) {
        double count = 1;
        for (int a = 0; a < function->tensors[t].rank; a++) {
            int64_t size;
            if (hr_extent_value(function, function->tensors[t].shape[a], extents, &size) != HR_OK || size < 1)
                return false;
            count *= (double)size;
        }
        if (count > ELEMENTS_MOST) return false;
    }
    (void)c;
    return hr_extent_check(function, extents) == HR_OK;
}

/* Small, and different where that is in range. */
static bool choose_extents(comparison *c) {
    for (int attempt = 0; attempt < EXTENT_TRIES; attempt++) {
        for (int i = 0; i < c->source->extent_count; i++)
            c->extents[i] = attempt < EXTENT_TRIES / 2 ? 2 + (int64_t)(next(c) % 4) : 4 + attempt / 4;
        if (fits(c, c->source, c->extents)) return true;
    }
    return false;
}

/* ---- arrays ---- */

static hr_status prepare(comparison *c, evaluated *e, const hr_function *function, const int64_t *extents) {
    const size_t tensors = (size_t)function->tensor_count + 1;
    *e = (evaluated){.function = function, .extents = extents};
    e->operands = hr_arena_alloc(c->arena, tensors * sizeof *e->operands);
    e->arrays = hr_arena_alloc(c->arena, tensors * sizeof *e->arrays);
    e->shapes = hr_arena_alloc(c->arena, tensors * sizeof *e->shapes);
    e->strides = hr_arena_alloc(c->arena, tensors * sizeof *e->strides);
    e->counts = hr_arena_alloc(c->arena, tensors * sizeof *e->counts);
    for (int t = 0; t < function->tensor_count; t++) {
        const hr_tensor *tensor = &function->tensors[t];
        e->counts[t] = 1;
        for (int a = tensor->rank; a-- > 0;) {
            HR_TRY(hr_extent_value(function, tensor->shape[a], extents, &e->shapes[t][a]));
            e->strides[t][a] = e->counts[t];
            e->counts[t] *= e->shapes[t][a];
        }
        if (e->counts[t] > ELEMENTS_MOST)
            return hr_fail(HR_BAD_INPUT,
                           "%.60s has %lld elements already at small extents: the gradient cannot be checked",
                           tensor->name, (long long)e->counts[t]);
        if (t >= function->parameter_count) continue;
        e->operands[t] =
            (hr_operand){.scalar = tensor->default_value, .shape = e->shapes[t], .strides = e->strides[t]};
        e->arrays[t] = hr_arena_alloc(c->arena, ((size_t)e->counts[t] + 1) * sizeof(double));
        if (tensor->rank) e->operands[t].data = e->arrays[t]; /* as wide as any dtype */
    }
    return HR_OK;
}

static int64_t least_extent(const comparison *c) {
    int64_t least = 2;
    for (int i = 0; i < c->source->extent_count; i++)
        if (c->extents[i] < least) least = c->extents[i];
    return least;
}

/* `positive`: where roots and logarithms have values. */
static void fill(comparison *c, bool positive) {
    evaluated *e = &c->forward;
    for (int t = 0; t < e->function->parameter_count; t++) {
        const hr_tensor *tensor = &e->function->tensors[t];
        const bool is_float = tensor->dtype == HR_F64;
        if (!tensor->rank) {
            if (!tensor->has_default) e->operands[t].scalar = is_float ? uniform(c, 0.5, 1.5) : 1;
            continue;
        }
        for (int64_t i = 0; i < e->counts[t]; i++) {
            const double value = positive ? uniform(c, 0.3, 1.7) : uniform(c, -1.5, 1.5);
            hr_dtype_store(tensor->dtype, e->arrays[t], (size_t)i,
                           is_float ? value : (double)(next(c) % (uint64_t)least_extent(c)));
        }
    }
}

static hr_status element(hr_reference *reference, const evaluated *e, int tensor, int64_t position,
                         double *out) {
    int64_t subscripts[HR_RANK_MAX];
    hr_meaning meaning;
    for (int a = e->function->tensors[tensor].rank; a-- > 0; position /= e->shapes[tensor][a])
        subscripts[a] = position % e->shapes[tensor][a];
    HR_TRY(hr_reference_value(reference, tensor, subscripts, &meaning));
    *out = meaning.value;
    return HR_OK;
}

/* All elements of a tensor. */
static hr_status elements(hr_reference *reference, const evaluated *e, int tensor, double *out) {
    for (int64_t i = 0; i < e->counts[tensor]; i++)
        HR_TRY(element(reference, e, tensor, i, &out[i]));
    return HR_OK;
}

/* The values in the memory of their dtype. */
static void narrow(hr_dtype dtype, double *values, int64_t count) {
    for (int64_t i = 0; i < count && dtype != HR_F64; i++) { /* never wider than a double */
        const double value = values[i];
        hr_dtype_store(dtype, values, (size_t)i, value);
    }
}

/* ---- the two sides ---- */

/* <w, f(x)> over the cotangents of the derived kernel. */
static hr_status weighed(comparison *c, double *out) {
    hr_reference *reference;
    HR_TRY(hr_reference_create(c->source, c->extents, c->forward.operands, &reference));
    hr_status status = HR_OK;
    *out = 0;
    for (int t = 0; t < c->derived->parameter_count && status == HR_OK; t++) {
        if (c->arguments[t].kind != HR_COTANGENT) continue;
        const int result = c->arguments[t].tensor;
        for (int64_t i = 0; i < c->forward.counts[result] && status == HR_OK; i++) {
            double value = 0;
            status = element(reference, &c->forward, result, i, &value);
            const double weight =
                c->derived->tensors[t].rank ? c->backward.arrays[t][i] : c->backward.operands[t].scalar;
            *out += value * weight;
        }
    }
    hr_reference_destroy(reference);
    return status;
}

/* What a derived kernel takes: random numbers for what comes from outside, the forward kernel's parameters,
 * results and locals. */
static hr_status feed(comparison *c, evaluated *to, const hr_gradient_argument *arguments) {
    hr_reference *reference;
    HR_TRY(hr_reference_create(c->source, c->extents, c->forward.operands, &reference));
    hr_status status = HR_OK;
    for (int t = 0; t < to->function->parameter_count && status == HR_OK; t++) {
        const hr_gradient_argument *argument = &arguments[t];
        const bool made =
            argument->kind == HR_FORWARD_VALUE && argument->tensor >= c->source->parameter_count;
        double *array = to->arrays[t];
        if (argument->kind == HR_COTANGENT)
            for (int64_t i = 0; i < to->counts[t]; i++)
                array[i] = uniform(c, -1, 1);
        else if (made)
            status = elements(reference, &c->forward, argument->tensor, array);
        else
            to->operands[t] = c->forward.operands[argument->tensor];
        if (!to->function->tensors[t].rank && (made || argument->kind == HR_COTANGENT))
            to->operands[t].scalar = array[0];
        if (made) narrow(to->function->tensors[t].dtype, array, to->counts[t]);
    }
    hr_reference_destroy(reference);
    return status;
}

/* L(x + h v), where v is of one parameter. */
static hr_status moved(comparison *c, int parameter, const double *v, double h, double *out) {
    evaluated *e = &c->forward;
    const double scalar = e->operands[parameter].scalar;
    double *kept = hr_arena_alloc(c->arena, ((size_t)e->counts[parameter] + 1) * sizeof *kept);
    memcpy(kept, e->arrays[parameter], (size_t)e->counts[parameter] * sizeof *kept);
    for (int64_t i = 0; i < e->counts[parameter]; i++)
        e->arrays[parameter][i] += h * v[i];
    if (!e->function->tensors[parameter].rank) e->operands[parameter].scalar += h * v[0];
    const hr_status status = weighed(c, out);
    memcpy(e->arrays[parameter], kept, (size_t)e->counts[parameter] * sizeof *kept);
    e->operands[parameter].scalar = scalar;
    return status;
}

static hr_status compare_direction(comparison *c, int parameter, const double *gradient) {
    const int64_t count = c->forward.counts[parameter];
    double *v = hr_arena_alloc(c->arena, ((size_t)count + 1) * sizeof *v);
    double along = 0, size = 0, ahead, behind;
    for (int64_t i = 0; i < count; i++) {
        v[i] = uniform(c, -1, 1);
        along += v[i] * gradient[i];
        size += fabs(v[i] * gradient[i]);
    }
    HR_TRY(moved(c, parameter, v, step, &ahead));
    HR_TRY(moved(c, parameter, v, -step, &behind));
    double difference = fabs((ahead - behind) / (2 * step) - along) / fmax(1, fmax(size, fabs(ahead)));
    if (!(ahead - ahead == 0)) return HR_OK; /* no value there */
    if (difference <= c->out->difference) return HR_OK;
    c->out->difference = isnan(difference) ? INFINITY : difference;
    snprintf(c->out->where, sizeof c->out->where, "%s", c->source->tensors[parameter].name);
    return HR_OK;
}

/* <a, b> over one argument of a derived kernel, whose elements are `values`, and what the other kernel was
 * given for the same tensor of the source. */
static void add_product(const evaluated *given, const hr_gradient_argument *arguments, int tensor,
                        const double *values, int64_t count, double *sum, double *size) {
    for (int t = 0; t < given->function->parameter_count; t++) {
        if (arguments[t].kind != HR_COTANGENT || arguments[t].tensor != tensor) continue;
        for (int64_t i = 0; i < count; i++) {
            const double product = values[i] * (given->function->tensors[t].rank ? given->arrays[t][i]
                                                                                 : given->operands[t].scalar);
            *sum += product;
            *size += fabs(product);
        }
    }
}

/* For each gradient that `from` gives: `each`, and its product with what `to` was given for it. */
static hr_status walk_gradients(comparison *c, const evaluated *from, const hr_gradient_argument *arguments,
                                const evaluated *to, const hr_gradient_argument *to_arguments,
                                hr_status (*each)(comparison *, int, const double *), double *sum,
                                double *size) {
    hr_reference *reference;
    HR_TRY(hr_reference_create(from->function, from->extents, from->operands, &reference));
    hr_status status = HR_OK;
    for (int t = 0; t < hr_function_arguments(from->function) && status == HR_OK; t++) {
        if (arguments[t].kind != HR_GRADIENT) continue;
        double *values = hr_arena_alloc(c->arena, ((size_t)from->counts[t] + 1) * sizeof *values);
        status = elements(reference, from, t, values);
        if (status == HR_OK)
            add_product(to, to_arguments, arguments[t].tensor, values, from->counts[t], sum, size);
        for (int d = 0; each && d < DIRECTIONS && status == HR_OK; d++)
            status = each(c, arguments[t].tensor, values);
    }
    hr_reference_destroy(reference);
    return status;
}

static hr_status compare_gradients(comparison *c) {
    double back = 0, ahead = 0, size = 0;
    HR_TRY(walk_gradients(c, &c->backward, c->arguments, &c->ahead, c->tangent_arguments, compare_direction,
                          &back, &size));
    HR_TRY(
        walk_gradients(c, &c->ahead, c->tangent_arguments, &c->backward, c->arguments, NULL, &ahead, &size));
    const double apart = fabs(back - ahead) / fmax(1, size);
    if (apart > c->out->transposed) c->out->transposed = apart;
    return HR_OK;
}

/* Extents of a derived kernel by their names. */
static void extents_of(const comparison *c, const hr_function *derived, int64_t *extents) {
    for (int i = 0; i < derived->extent_count; i++)
        for (int j = 0; j < c->source->extent_count; j++)
            if (strcmp(derived->extents[i], c->source->extents[j]) == 0) extents[i] = c->extents[j];
}

static hr_status compare_point(comparison *c) {
    double value = NAN;
    extents_of(c, c->derived, c->derived_extents);
    extents_of(c, c->tangent, c->tangent_extents);
    HR_TRY(prepare(c, &c->forward, c->source, c->extents));
    HR_TRY(prepare(c, &c->backward, c->derived, c->derived_extents));
    HR_TRY(prepare(c, &c->ahead, c->tangent, c->tangent_extents));
    for (int positive = 0; positive < 2 && !(value - value == 0); positive++) {
        fill(c, positive);
        HR_TRY(feed(c, &c->backward, c->arguments));
        HR_TRY(feed(c, &c->ahead, c->tangent_arguments));
        HR_TRY(weighed(c, &value));
    }
    if (value - value == 0) {
        HR_TRY(compare_gradients(c));
        c->out->points++;
    }
    return HR_OK;
}

/* Extents may belong together in a way that only subscripts say, and made-up numbers may leave a row without
 * an element: others are tried where something lies out of range or no value is finite. */
static hr_status compare_somewhere(comparison *c) {
    const size_t mark = hr_arena_mark(c->arena);
    const int points = c->out->points;
    hr_status status = HR_OUT_OF_RANGE;
    for (int attempt = 0; attempt < EXTENT_TRIES; attempt++) {
        if (!choose_extents(c))
            return hr_fail(HR_BAD_INPUT, "no small extents fit kernel %.60s: its gradient cannot be checked",
                           c->source->name);
        status = compare_point(c);
        hr_arena_release(c->arena, mark);
        if (status != HR_OUT_OF_RANGE && (status != HR_OK || c->out->points > points)) return status;
    }
    return status;
}

static hr_visit is_stop(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_STOP);
}

/* The texts of the derived kernels, read. */
static hr_status read_derived(comparison *c, const hr_gradient_choice *choice) {
    const hr_function *function = choice->function;
    hr_text text = {0}, notes = {0}, ahead = {0};
    const size_t room = 3 * (size_t)function->tensor_count + 1;
    c->arguments = hr_arena_alloc(c->arena, room * sizeof *c->arguments);
    c->tangent_arguments = hr_arena_alloc(c->arena, room * sizeof *c->tangent_arguments);
    hr_status status = hr_function_gradient(choice, c->arguments, &text, &notes);
    if (status == HR_OK)
        status = hr_function_tangent(function, &choice->options, c->tangent_arguments, &ahead);
    if (status == HR_OK)
        status = hr_program_parse("derived.hr", hr_text_data(&text), text.length, &c->program);
    if (status == HR_OK)
        status = hr_program_parse("tangent.hr", hr_text_data(&ahead), ahead.length, &c->tangent_program);
    hr_text_clear(&text);
    hr_text_clear(&notes);
    hr_text_clear(&ahead);
    return status;
}

/* What a plain run would take. */
static hr_status count_work(const hr_function *function, double *bytes, double *operations) {
    int64_t *extents = calloc((size_t)function->extent_count + 1, sizeof *extents);
    hr_work work;
    if (!extents) return hr_fail(HR_OUT_OF_MEMORY, "out of memory");
    for (int i = 0; i < function->extent_count; i++)
        extents[i] = HR_EXTENT_UNKNOWN;
    hr_status status = hr_extent_default(function, extents);
    if (status == HR_OK) status = hr_work_count(function, extents, &work);
    free(extents);
    HR_TRY(status);
    *bytes = work.bytes_read + work.bytes_written;
    *operations = work.tensor_flops + work.vector_flops;
    for (int s = 0; s < HR_SPECIAL_COUNT; s++)
        *operations += work.special[s];
    return HR_OK;
}

static hr_status compare(comparison *c, const hr_function *given, const hr_gradient_options *options) {
    for (int s = 0; s < given->statement_count; s++)
        if (hr_expr_find(given->statements[s].value, is_stop, NULL))
            return hr_fail(HR_BAD_INPUT,
                           "kernel %.60s has stop(...), or sign(x), which is made with it: its gradient is "
                           "not that of its values, so it cannot "
                           "be compared with their differences",
                           given->name);
    hr_gradient_options plain = *options;
    plain.accumulate = false;
    hr_gradient_choice choice;
    HR_TRY(hr_gradient_choose(given, &plain, c->arena, &choice));
    const hr_function *function = choice.function;
    HR_TRY(read_derived(c, &choice));
    HR_TRY(hr_function_in_f64(function, c->arena, &c->source));
    HR_TRY(hr_function_in_f64(&c->program->functions[0], c->arena, &c->derived));
    HR_TRY(hr_function_in_f64(&c->tangent_program->functions[0], c->arena, &c->tangent));
    HR_TRY(count_work(function, &c->out->forward.bytes, &c->out->forward.operations));
    HR_TRY(count_work(&c->program->functions[0], &c->out->backward.bytes, &c->out->backward.operations));
    c->extents = hr_arena_alloc(c->arena, ((size_t)c->source->extent_count + 1) * sizeof *c->extents);
    c->derived_extents =
        hr_arena_alloc(c->arena, ((size_t)c->derived->extent_count + 1) * sizeof *c->derived_extents);
    c->tangent_extents =
        hr_arena_alloc(c->arena, ((size_t)c->tangent->extent_count + 1) * sizeof *c->tangent_extents);
    for (int point = 0; point < POINTS; point++)
        HR_TRY(compare_somewhere(c));
    if (c->out->difference <= tolerance && !(c->out->transposed <= rounding))
        return hr_fail(
            HR_WRONG_RESULT,
            "the gradient of kernel %.60s is not the transpose of its forward mode: they differ by %.1e",
            function->name, c->out->transposed);
    if (c->out->difference <= tolerance) return HR_OK;
    return hr_fail(HR_WRONG_RESULT,
                   "the gradient of kernel %.60s for %.60s differs from central differences by %.1e",
                   function->name, c->out->where, c->out->difference);
}

hr_status hr_gradient_compare(const hr_function *function, const hr_gradient_options *options,
                              hr_gradient_check *out) {
    comparison c = {.out = out, .random = 1};
    HR_TRY(hr_arena_create((size_t)3 * ARENA, &c.arena));
    const hr_status status = compare(&c, function, options);
    hr_program_destroy(c.program);
    hr_program_destroy(c.tangent_program);
    hr_arena_destroy(c.arena);
    return status;
}
