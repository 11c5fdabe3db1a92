/* The kernel against its own text: sampled elements in f64 from the operands as they are, one launch,
 * comparison.
 *
 * In: a prepared kernel on its bound arrays. Out: how far the worst element is off, and where. The results
 * hold one execution afterwards, inout arrays as well.
 */
#define _GNU_SOURCE
#include "run/check.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "run/mirror.h"

#include <math.h>
#include <stdlib.h>

#define POINTS_DEFAULT  512 /* a tensor, where time allows */
#define POINTS_MIN      8   /* a tensor, whatever it takes */
#define DEFAULT_SECONDS 1.5

typedef struct sample {
    int tensor;
    hr_meaning meaning;
    int64_t offset; /* of the element, in elements from the array's data */
} sample;

typedef struct samples {
    hr_kernel *kernel;
    hr_mirror *mirrors; /* the operands as the host sees them */
    hr_reference *reference;
    sample *list;
    int64_t *subscripts; /* rank_max a sample */
    int64_t count, capacity,
        each; /* each: of a tensor, which is looked at whole where it has no more elements */
    int rank_max;
} samples;

/* ---- what is written, and by which statement ---- */

static const hr_statement *statement_of(const hr_function *function, int tensor) {
    for (int s = function->statement_count - 1; s >= 0; s--)
        if (function->statements[s].tensor == tensor) return &function->statements[s];
    return NULL;
}

static bool is_checked(const hr_kernel *kernel, int i) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    return tensor->role != HR_ROLE_INPUT && statement_of(kernel->function, i) &&
           hr_shape_elements(tensor->rank, kernel->bindings[i].shape) > 0;
}

/* ---- points that a += with subscripts from data really hits ---- */

/* A whole-number expression of indices, extents and elements of bound whole arrays. */
static bool whole_value(const samples *samples, const hr_prepared *prepared, const hr_expr *expr,
                        const int64_t *indices, int depth, int64_t *out) {
    const hr_kernel *kernel = samples->kernel;
    int64_t left, right;
    if (depth > 32) return false;
    switch (expr->op) {
    case HR_OP_NUMBER:
        *out = expr->whole;
        return true;
    case HR_OP_EXTENT:
        *out = prepared->extents[expr->extent];
        return true;
    case HR_OP_INDEX:
        *out = indices[expr->index];
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        if (!whole_value(samples, prepared, expr->args[0], indices, depth + 1, &left) ||
            !whole_value(samples, prepared, expr->args[1], indices, depth + 1, &right))
            return false;
        return !(expr->op == HR_OP_ADD   ? __builtin_add_overflow(left, right, out)
                 : expr->op == HR_OP_SUB ? __builtin_sub_overflow(left, right, out)
                                         : __builtin_mul_overflow(left, right, out));
    case HR_OP_ELEMENT: {
        const hr_tensor *tensor = &kernel->function->tensors[expr->tensor];
        int64_t offset = 0, subscript;
        if (expr->tensor >= kernel->argument_count || tensor->role != HR_ROLE_INPUT || !tensor->rank ||
            hr_dtype_is_float(tensor->dtype))
            return false;
        const hr_binding *binding = &kernel->bindings[expr->tensor];
        for (int axis = 0; axis < tensor->rank; axis++) {
            if (!whole_value(samples, prepared, expr->args[axis], indices, depth + 1, &subscript) ||
                subscript < 0 || subscript >= binding->shape[axis])
                return false;
            offset += subscript * binding->strides[axis];
        }
        hr_mirror *mirror = &samples->mirrors[expr->tensor];
        hr_mirror_need(mirror, offset, 0, 1);
        *out = hr_dtype_load_whole(tensor->dtype, mirror->data + offset * (int64_t)mirror->element, 0);
        return true;
    }
    default:
        return false;
    }
}

/* Subscripts that the statement writes at a random point of its domain; false where they cannot be told. */
static bool point_hit(const samples *samples, const hr_prepared *prepared, const hr_statement *statement,
                      int64_t number, int64_t *subscripts) {
    const hr_kernel *kernel = samples->kernel;
    const hr_function *function = kernel->function;
    int64_t extents[statement->domain_count + 1], point[statement->domain_count + 1];
    int64_t *indices = calloc((size_t)function->index_count + 1, sizeof *indices);
    bool known = indices != NULL;
    for (int k = 0; known && k < statement->domain_count; k++) {
        const hr_expr *extent = function->indices[statement->domain[k]].extent;
        known = hr_extent_value(function, extent, prepared->extents, &extents[k]) == HR_OK && extents[k] > 0;
    }
    if (known) {
        hr_check_point(statement->domain_count, extents, number, 7, point);
        for (int k = 0; k < statement->domain_count; k++)
            indices[statement->domain[k]] = point[k];
    }
    for (int axis = 0; known && axis < statement->subscript_count; axis++)
        known = whole_value(samples, prepared, statement->subscripts[axis], indices, 0, &subscripts[axis]) &&
                subscripts[axis] >= 0 && subscripts[axis] < kernel->bindings[statement->tensor].shape[axis];
    free(indices);
    return known;
}

/* ---- sampling ---- */

static int64_t elements_of(const hr_kernel *kernel, int i) {
    return hr_shape_elements(hr_kernel_tensor(kernel, i)->rank, kernel->bindings[i].shape);
}

static hr_status sample_add(samples *samples, const hr_prepared *prepared, int tensor, int64_t number) {
    const hr_kernel *kernel = samples->kernel;
    const hr_binding *binding = &kernel->bindings[tensor];
    const hr_statement *statement = statement_of(kernel->function, tensor);
    int rank = hr_kernel_tensor(kernel, tensor)->rank;
    int64_t *subscripts = samples->subscripts + samples->count * samples->rank_max;
    sample *sample = &samples->list[samples->count];
    if (elements_of(kernel, tensor) <= samples->each)
        hr_check_element(rank, binding->shape, number, subscripts);
    else if (!(statement->accumulate && number % 4 &&
               point_hit(samples, prepared, statement, number, subscripts)))
        hr_check_point(rank, binding->shape, number, (uint64_t)tensor, subscripts);
    *sample = (struct sample){.tensor = tensor};
    for (int axis = 0; axis < rank; axis++)
        sample->offset += subscripts[axis] * binding->strides[axis];
    HR_TRY(hr_reference_value(samples->reference, tensor, subscripts, &sample->meaning));
    samples->count++;
    return HR_OK;
}

/* Point after point of every tensor in turn, until there are enough or time is up. */
static hr_status samples_take(samples *samples, const hr_prepared *prepared, double seconds,
                              hr_progress_fn progress, void *progress_context) {
    double begun = hr_clock_seconds();
    int64_t each = samples->each;
    for (int64_t number = 0; number < each; number++) {
        if (seconds > 0 && number >= POINTS_MIN && hr_clock_seconds() - begun > seconds) break;
        for (int i = 0; i < samples->kernel->argument_count; i++) {
            if (!is_checked(samples->kernel, i)) continue;
            int64_t elements = elements_of(samples->kernel, i);
            if (elements <= each && number >= elements) continue; /* all of it was seen */
            HR_TRY(sample_add(samples, prepared, i, number));
        }
        if (progress && !progress(progress_context, "checking", (double)number + 1, (double)each))
            return hr_fail(HR_CANCELLED, "checking was stopped");
    }
    return HR_OK;
}

/* Puts something else where results are to come, so that an element that is not written shows. */
static hr_status samples_poison(const samples *samples) {
    for (int64_t s = 0; s < samples->count; s++) {
        const sample *sample = &samples->list[s];
        const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, sample->tensor);
        if (tensor->role != HR_ROLE_RESULT) continue;
        char *data = samples->kernel->bindings[sample->tensor].data;
        size_t size = hr_dtype_size(tensor->dtype);
        uint64_t other = 0;
        if (hr_dtype_is_float(tensor->dtype))
            hr_dtype_store(tensor->dtype, &other, 0, isnan(sample->meaning.value) ? 0 : NAN);
        else
            hr_dtype_store(tensor->dtype, &other, 0,
                           hr_dtype_round(tensor->dtype, sample->meaning.value) == 0);
        HR_TRY(
            hr_device_upload(samples->kernel->device, data + sample->offset * (int64_t)size, &other, size));
    }
    return HR_OK;
}

/* ---- comparing ---- */

static void where_write(const samples *samples, int64_t s, double got, char *where, size_t size) {
    const sample *sample = &samples->list[s];
    const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, sample->tensor);
    const int64_t *subscripts = samples->subscripts + s * samples->rank_max;
    hr_text text = {0};
    hr_text_format(&text, "%.64s", tensor->name);
    for (int axis = 0; axis < tensor->rank; axis++)
        hr_text_format(&text, "%s%lld", axis ? ", " : "[", (long long)subscripts[axis]);
    if (tensor->rank) hr_text_append(&text, "]", 1);
    hr_text_format(&text, " = %.9g, should be %.9g", got,
                   hr_dtype_round(tensor->dtype, sample->meaning.value));
    snprintf(where, size, "%s", hr_text_data(&text));
    hr_text_clear(&text);
}

static bool holds_f32(const hr_expr *expr, bool *visited) {
    if (visited[expr->id]) return false;
    visited[expr->id] = true;
    if (expr->type == HR_F32) return true;
    for (int i = 0; i < expr->arg_count; i++)
        if (holds_f32(expr->args[i], visited)) return true;
    return false;
}

/* A result is held to f64's accuracy where no statement of its kernel computes in f32. */
static bool computes_in_f32(const hr_function *function) {
    bool found = false, *visited = calloc((size_t)function->expr_count + 1, 1);
    for (int s = 0; visited && s < function->statement_count && !found; s++)
        found = holds_f32(function->statements[s].value, visited);
    free(visited);
    return found;
}

/* The worst point is the one that comes closest to, or most exceeds, what its own tolerance allows. */
static hr_status samples_compare(const samples *samples, hr_check *out) {
    double worst = -1;
    bool single = computes_in_f32(samples->kernel->function);
    *out = (hr_check){.points = samples->count, .ok = true};
    for (int64_t s = 0; s < samples->count; s++) {
        const sample *sample = &samples->list[s];
        const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, sample->tensor);
        const char *data = samples->kernel->bindings[sample->tensor].data;
        size_t size = hr_dtype_size(tensor->dtype);
        uint64_t bits = 0;
        HR_TRY(
            hr_device_download(samples->kernel->device, &bits, data + sample->offset * (int64_t)size, size));
        double got = hr_dtype_load(tensor->dtype, &bits, 0);
        const hr_statement *statement = statement_of(samples->kernel->function, sample->tensor);
        hr_dtype type =
            sample->meaning.rounded ? HR_F32 : hr_check_type(samples->kernel->function, statement);
        if (type == HR_F64 && single) type = HR_F32;
        double error = hr_check_error(type, tensor->dtype, got, &sample->meaning);
        /* += adds one by one: equal addends err in one direction */
        double terms = sample->meaning.terms * (statement->accumulate ? fmin(sample->meaning.terms, 256) : 1);
        double tolerance = hr_check_tolerance(type, terms);
        double ratio = error == 0 ? 0 : tolerance > 0 ? error / tolerance : INFINITY;
        if (ratio > 1) out->ok = false;
        if (ratio < worst || (ratio == worst && !(ratio == 0 && tolerance > out->tolerance))) continue;
        worst = ratio;
        out->max_error = error;
        out->tolerance = tolerance;
        where_write(samples, s, got, out->where, sizeof out->where);
    }
    return HR_OK;
}

/* ---- all of it ---- */

static hr_status reference_make(const samples *samples, const hr_prepared *prepared, hr_reference **out) {
    const hr_kernel *kernel = samples->kernel;
    int count = kernel->function->parameter_count;
    hr_operand *operands = calloc((size_t)count + 1, sizeof *operands);
    if (!operands) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check kernel %s", kernel->function->name);
    for (int i = 0; i < count; i++) {
        const hr_binding *binding = &kernel->bindings[i];
        operands[i] = (hr_operand){.scalar = binding->scalar};
        if (hr_tensor_is_scalar(hr_kernel_tensor(kernel, i))) continue;
        operands[i].data = samples->mirrors[i].data;
        operands[i].shape = binding->shape;
        operands[i].strides = binding->strides;
        if (!samples->mirrors[i].map) continue;
        operands[i].need = hr_mirror_need;
        operands[i].need_context = &samples->mirrors[i];
    }
    hr_status status = hr_reference_create(kernel->function, prepared->extents, operands, out);
    free(operands);
    return status;
}

static hr_status samples_make(hr_kernel *kernel, int64_t points, samples *out) {
    int tensors = 0;
    *out = (samples){.kernel = kernel, .rank_max = 1};
    for (int i = 0; i < kernel->argument_count; i++) {
        tensors += is_checked(kernel, i);
        if (hr_kernel_tensor(kernel, i)->rank > out->rank_max)
            out->rank_max = hr_kernel_tensor(kernel, i)->rank;
    }
    out->each = points > 0 && tensors ? (points + tensors - 1) / tensors : POINTS_DEFAULT;
    if (out->each > 1 << 24) out->each = 1 << 24;
    out->capacity = out->each * tensors;
    out->list = calloc((size_t)out->capacity + 1, sizeof *out->list);
    out->subscripts = calloc((size_t)(out->capacity + 1) * (size_t)out->rank_max, sizeof *out->subscripts);
    if (!out->list || !out->subscripts) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check so many points");
    return hr_mirrors_create(kernel, &out->mirrors);
}

hr_status hr_check_run(hr_kernel *kernel, const hr_prepared *prepared, int64_t points,
                       hr_progress_fn progress, void *progress_context, hr_check *out) {
    samples samples;
    hr_check check;
    if (hr_kernel_has_lists(kernel))
        return hr_fail(HR_BAD_INPUT, "kernel %s is bound to lists of arrays: a check takes whole ones",
                       kernel->function->name);
    hr_status status = samples_make(kernel, points, &samples);
    if (status == HR_OK) status = reference_make(&samples, prepared, &samples.reference);
    if (status == HR_OK)
        status =
            samples_take(&samples, prepared, points > 0 ? 0 : DEFAULT_SECONDS, progress, progress_context);
    hr_reference_destroy(samples.reference);
    if (status == HR_OK) status = hr_mirrors_status(kernel, samples.mirrors);
    if (status == HR_OK) status = samples_poison(&samples);
    if (status == HR_OK) status = hr_launch_refresh(kernel, prepared);
    if (status == HR_OK) status = hr_launch_once(kernel, prepared);
    if (status == HR_OK) status = samples_compare(&samples, &check);
    if (status == HR_OK) *out = check;
    hr_mirrors_destroy(kernel, samples.mirrors);
    free(samples.list);
    free(samples.subscripts);
    return status;
}

hr_status hr_kernel_check(hr_kernel *kernel, int64_t points, hr_check *out) {
    hr_preparing preparing = {.tune = HR_TUNE_NONE, .unfused = kernel->unfused, .threads = kernel->threads};
    hr_prepared *state;
    HR_TRY(hr_kernel_ready(kernel, &preparing, &state));
    hr_status status = hr_check_run(kernel, state, points, NULL, NULL, out);
    kernel->current = state;
    return status;
}
