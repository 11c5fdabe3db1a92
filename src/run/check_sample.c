/* Samples of a kernel's results: chosen, evaluated in f64 from the operands as they are, compared. In and
 * out: see check_sample.h. */
#define _GNU_SOURCE
#include "run/check_sample.h"
#include "device/team.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "ir/visit.h"
#include "run/check.h"
#include "run/check_guard.h"
#include "run/mirror.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_DEFAULT  512 /* a tensor, where time allows */
#define POINTS_MIN      8   /* a tensor, whatever it takes */
#define DEFAULT_SECONDS 1.5
#define EXTREMES_FROM   3 /* after the corners and the middle */
#define EXTREMES_MOST   8
#define BLOCK           ((int64_t)1 << 16) /* elements that a thread takes at a time */
#define SMALL           1e-3               /* of a tensor's elements, what is as good as 0 to its user */
#define LOSS            1e-3 /* what its user takes to be no digits of a result's dtype any more */

typedef struct sample {
    int tensor;
    hr_meaning meaning;
    int64_t offset; /* of the element, in elements from the array's data */
} sample;

/* The largest element of an input. */
typedef struct extreme {
    int input;
    int64_t subscripts[HR_RANK_MAX];
} extreme;

struct hr_samples {
    hr_kernel *kernel;
    const hr_prepared *prepared;
    hr_mirror *mirrors; /* the operands as the host sees them */
    hr_reference *reference;
    sample *list;
    int64_t *subscripts; /* rank_max a sample */
    int64_t count, capacity,
        each; /* each: of a tensor, which is looked at whole where it has no more elements */
    int rank_max;
    int extreme_count;
    extreme extremes[EXTREMES_MOST];
    double *sizes;  /* one a tensor: the root of the mean square of its samples */
    double *errors; /* one a tensor: the middle one of their errors */
    double worst;   /* error over tolerance of what stands in the result */
    struct {
        double loss;
        int tensor;
        double got, value;
        int64_t subscripts[HR_RANK_MAX];
    } lost; /* the element of which the user gets least, as the text asks for it */
};

const hr_statement *hr_statement_of(const hr_function *function, int tensor) {
    for (int s = function->statement_count - 1; s >= 0; s--)
        if (function->statements[s].tensor == tensor) return &function->statements[s];
    return NULL;
}

bool hr_kernel_writes(const hr_kernel *kernel, int i) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    return tensor->role != HR_ROLE_INPUT && hr_statement_of(kernel->function, i) &&
           hr_shape_elements(tensor->rank, kernel->bindings[i].shape) > 0;
}

/* ---- sampling ---- */

static int64_t elements_of(const hr_kernel *kernel, int i) {
    return hr_shape_elements(hr_kernel_tensor(kernel, i)->rank, kernel->bindings[i].shape);
}

/* Moves a point into the row where an input has its largest element. */
static void extreme_row(const hr_samples *samples, int place, int rank, const int64_t *shape,
                        int64_t *subscripts) {
    const extreme *at = &samples->extremes[place];
    const hr_binding *input = &samples->kernel->bindings[at->input];
    const int axes = hr_kernel_tensor(samples->kernel, at->input)->rank;
    for (int axis = 0; axis < axes && axis < rank; axis++)
        if (input->shape[axis] == shape[axis]) subscripts[axis] = at->subscripts[axis];
}

/* Where an input that lies without gaps in the host's memory has its largest magnitude; NaN is larger. */
typedef struct largest_job {
    hr_dtype dtype;
    const void *data;
    int64_t elements;
    pthread_mutex_t lock; /* of what all parts found: */
    double size;
    int64_t at;
} largest_job;

static void largest_part(void *context, int64_t part, int64_t parts) {
    largest_job *job = context;
    const int64_t blocks = (job->elements + BLOCK - 1) / BLOCK, begin = blocks * part / parts * BLOCK;
    const int64_t limit = blocks * (part + 1) / parts * BLOCK,
                  end = limit < job->elements ? limit : job->elements;
    int64_t at = begin;
    double most = -1;
    for (int64_t i = begin; i < end; i++) {
        const double x = job->dtype == HR_F32 ? (double)fabsf(((const float *)job->data)[i])
                                              : fabs(hr_dtype_load(job->dtype, job->data, (size_t)i));
        if (x > most || (x != x && most < INFINITY)) most = x != x ? INFINITY : x, at = i;
    }
    pthread_mutex_lock(&job->lock);
    if (most > job->size || (most == job->size && at < job->at)) job->size = most, job->at = at;
    pthread_mutex_unlock(&job->lock);
}

static int64_t largest_element(hr_dtype dtype, const void *data, int64_t elements) {
    largest_job job = {dtype, data, elements, PTHREAD_MUTEX_INITIALIZER, -1, 0};
    hr_team_run(elements > BLOCK ? 0 : 1, largest_part, &job);
    return job.at;
}

static void extremes_find(hr_samples *samples) {
    const hr_kernel *kernel = samples->kernel;
    for (int i = 0; i < kernel->argument_count && samples->extreme_count < EXTREMES_MOST; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        const hr_binding *binding = &kernel->bindings[i];
        if (tensor->role == HR_ROLE_RESULT || !tensor->rank || !hr_dtype_is_float(tensor->dtype) ||
            !hr_device_memory_is_host(kernel->device) || !hr_binding_is_dense(tensor, binding) ||
            hr_shape_elements(tensor->rank, binding->shape) == 0)
            continue;
        extreme *out = &samples->extremes[samples->extreme_count++];
        int64_t at =
            largest_element(tensor->dtype, binding->data, hr_shape_elements(tensor->rank, binding->shape));
        out->input = i;
        for (int axis = tensor->rank; axis-- > 0; at /= binding->shape[axis])
            out->subscripts[axis] = at % binding->shape[axis];
    }
}

/* Where sample `number` of a tensor is. */
static void sample_place(const hr_samples *samples, int tensor, int64_t number, int64_t *subscripts) {
    const hr_kernel *kernel = samples->kernel;
    const hr_binding *binding = &kernel->bindings[tensor];
    const hr_statement *statement = hr_statement_of(kernel->function, tensor);
    const int rank = hr_kernel_tensor(kernel, tensor)->rank;
    if (elements_of(kernel, tensor) <= samples->each) {
        hr_check_element(rank, binding->shape, number, subscripts);
        return;
    }
    if (!(statement->store != HR_STORE_WHOLE && number % 4 &&
          hr_point_hit(kernel, samples->mirrors, samples->prepared->extents, statement, number, subscripts)))
        hr_check_point(rank, binding->shape, number, (uint64_t)tensor, subscripts);
    if (number >= EXTREMES_FROM && number < EXTREMES_FROM + samples->extreme_count)
        extreme_row(samples, (int)(number - EXTREMES_FROM), rank, binding->shape, subscripts);
}

/* How many samples of a tensor there can be. */
static int64_t samples_of(const hr_samples *samples, int tensor) {
    const int64_t elements = elements_of(samples->kernel, tensor);
    if (!hr_kernel_writes(samples->kernel, tensor)) return 0;
    return elements < samples->each ? elements : samples->each;
}

/* Sums of many scattered points are found together. */
static hr_status samples_expect(const hr_samples *samples) {
    int64_t subscripts[HR_RANK_MAX];
    for (int i = 0; i < samples->kernel->argument_count; i++) {
        if (!hr_kernel_writes(samples->kernel, i) ||
            hr_statement_of(samples->kernel->function, i)->store == HR_STORE_WHOLE)
            continue;
        const int64_t count = samples_of(samples, i);
        for (int64_t number = 0; number < count; number++) {
            sample_place(samples, i, number, subscripts);
            HR_TRY(hr_reference_expect(samples->reference, i, subscripts));
        }
    }
    return HR_OK;
}

static hr_status sample_add(hr_samples *samples, int tensor, int64_t number) {
    const hr_binding *binding = &samples->kernel->bindings[tensor];
    const int rank = hr_kernel_tensor(samples->kernel, tensor)->rank;
    int64_t *subscripts = samples->subscripts + samples->count * samples->rank_max;
    sample *sample = &samples->list[samples->count];
    sample_place(samples, tensor, number, subscripts);
    *sample = (struct sample){.tensor = tensor};
    for (int axis = 0; axis < rank; axis++)
        sample->offset += subscripts[axis] * binding->strides[axis];
    HR_TRY(hr_reference_value(samples->reference, tensor, subscripts, &sample->meaning));
    samples->count++;
    return HR_OK;
}

/* Point after point of every tensor in turn, until there are enough or time is up. */
static hr_status samples_take(hr_samples *samples, double seconds, hr_progress_fn progress,
                              void *progress_context) {
    double begun = hr_clock_seconds();
    int64_t each = samples->each;
    HR_TRY(samples_expect(samples));
    for (int64_t number = 0; number < each; number++) {
        if (seconds > 0 && number >= POINTS_MIN && hr_clock_seconds() - begun > seconds) break;
        for (int i = 0; i < samples->kernel->argument_count; i++) {
            if (number < samples_of(samples, i)) HR_TRY(sample_add(samples, i, number));
        }
        if (number == 0) begun = hr_clock_seconds(); /* the first may have made what the others read */
        if (progress && !progress(progress_context, "checking", (double)number + 1, (double)each))
            return hr_fail(HR_CANCELLED, "checking was stopped");
    }
    return HR_OK;
}

hr_status hr_samples_poison(const hr_samples *samples) {
    for (int64_t s = 0; s < samples->count; s++) {
        const sample *sample = &samples->list[s];
        const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, sample->tensor);
        if (tensor->role != HR_ROLE_RESULT) continue;
        const hr_binding *binding = &samples->kernel->bindings[sample->tensor];
        size_t size = hr_dtype_size(tensor->dtype);
        uint64_t other = 0;
        if (hr_dtype_is_float(tensor->dtype))
            hr_dtype_store(tensor->dtype, &other, 0, isnan(sample->meaning.value) ? 0 : NAN);
        else
            hr_dtype_store(tensor->dtype, &other, 0,
                           hr_dtype_round(tensor->dtype, sample->meaning.value) == 0);
        HR_TRY(hr_device_upload(samples->kernel->device, hr_binding_element(tensor, binding, sample->offset),
                                &other, size));
    }
    return HR_OK;
}

/* ---- comparing ---- */

static void element_name(const hr_tensor *tensor, const int64_t *subscripts, hr_text *out) {
    hr_text_format(out, "%.64s", tensor->name);
    for (int axis = 0; axis < tensor->rank; axis++)
        hr_text_format(out, "%s%lld", axis ? ", " : "[", (long long)subscripts[axis]);
    if (tensor->rank) hr_text_append(out, "]", 1);
}

static hr_status where_write(const hr_tensor *tensor, const int64_t *subscripts, double got, double value,
                             const char *between, char *where, size_t size) {
    hr_text text = {0};
    element_name(tensor, subscripts, &text);
    hr_text_format(&text, " = %.9g, %s %.9g", got, between, value);
    snprintf(where, size, "%s", hr_text_data(&text));
    const hr_status status = hr_text_status(&text);
    hr_text_clear(&text);
    return status;
}

/* To the size of the meaning; absolute where that is 0 or infinite. */
static double relative(double error, const hr_meaning *meaning) {
    const double size = fabs(meaning->value);
    return size > 0 && isfinite(size) && error > 0 ? error / size : error;
}

/* What the user gets: how far the element is from its meaning, to its size or that of its tensor's elements
 * where it is next to nothing beside them. */
static hr_status gets_merge(hr_samples *samples, int tensor, const int64_t *subscripts, double got,
                            double excess, const hr_meaning *meaning, hr_check *out) {
    const hr_tensor *t = hr_kernel_tensor(samples->kernel, tensor);
    const double size = fmax(fabs(meaning->value), SMALL * samples->sizes[tensor]);
    const double rounded = hr_dtype_round(t->dtype, meaning->value); /* infinite or saturated: as asked for */
    const bool same = got == rounded && (!isfinite(rounded) || !hr_dtype_is_float(t->dtype) ||
                                         fabs(rounded - meaning->value) > 0.1 * fabs(meaning->value));
    const double far = same || (isnan(got) && isnan(rounded)) ? 0 : fabs(got - meaning->value);
    const double error = far == 0 ? 0 : isfinite(far) && size > 0 ? far / size : INFINITY;
    if (error > out->relative_error) {
        out->relative_error = error;
        HR_TRY(where_write(t, subscripts, got, meaning->value, "f64 says", out->relative_where,
                           sizeof out->relative_where));
    }
    const double loss = !hr_dtype_is_float(t->dtype) || excess == 0 ? 0
                        : isfinite(got - meaning->value)
                            ? excess / fmax(fabs(meaning->value), samples->sizes[tensor])
                            : INFINITY;
    if (!(loss > LOSS) || loss <= samples->lost.loss) return HR_OK;
    samples->lost.loss = loss;
    samples->lost.tensor = tensor;
    samples->lost.got = got;
    samples->lost.value = meaning->value;
    memcpy(samples->lost.subscripts, subscripts, (size_t)t->rank * sizeof *subscripts);
    return HR_OK;
}

/* Of a position that has rivals: whether it may stand. Inputs are what they were before the launch; inout
 * arrays are not, and what hangs on them is believed. */
static hr_status rival_check(const hr_samples *samples, int tensor, const int64_t *subscripts, double got,
                             bool *out) {
    const hr_kernel *kernel = samples->kernel;
    for (int i = 0; i < kernel->argument_count; i++)
        if (hr_kernel_tensor(kernel, i)->role == HR_ROLE_INOUT) return HR_OK;
    return hr_reference_rivals(samples->reference, tensor, subscripts, (int64_t)got, out);
}

/* The worst point is the one that comes closest to, or most exceeds, what its own tolerance allows. */
static hr_status merge(hr_samples *samples, int tensor, const int64_t *subscripts, double got,
                       const hr_meaning *meaning, hr_check *out) {
    const hr_function *function = samples->kernel->function;
    const hr_dtype dtype = hr_kernel_tensor(samples->kernel, tensor)->dtype;
    hr_dtype type = meaning->rounded ? HR_F32 : hr_check_type(function, hr_statement_of(function, tensor));
    double ratio = hr_check_ratio(type, dtype, got, meaning);
    bool stands = true;
    if (meaning->rivals && got != meaning->value)
        HR_TRY(rival_check(samples, tensor, subscripts, got, &stands));
    if (!stands) ratio = INFINITY;
    const double allowed = isinf(meaning->error) ? 0 : relative(meaning->error, meaning);
    const hr_meaning sure = {.value = meaning->value, .rounded = meaning->rounded};
    HR_TRY(
        gets_merge(samples, tensor, subscripts, got, hr_check_excess(type, dtype, got, &sure), meaning, out));
    if (ratio > 1) out->ok = false;
    if (ratio < samples->worst || (ratio == samples->worst && !(ratio == 0 && allowed > out->tolerance)))
        return HR_OK;
    samples->worst = ratio;
    out->max_error =
        relative(stands ? hr_check_excess(type, dtype, got, meaning) : fabs(got - meaning->value), meaning);
    out->tolerance = allowed;
    return where_write(hr_kernel_tensor(samples->kernel, tensor), subscripts, got,
                       hr_dtype_round(dtype, meaning->value), "should be", out->where, sizeof out->where);
}

hr_status hr_samples_compare(hr_samples *samples, hr_check *out) {
    for (int64_t s = 0; s < samples->count; s++) {
        const sample *sample = &samples->list[s];
        const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, sample->tensor);
        const hr_binding *binding = &samples->kernel->bindings[sample->tensor];
        size_t size = hr_dtype_size(tensor->dtype);
        uint64_t bits = 0;
        HR_TRY(hr_device_download(samples->kernel->device, &bits,
                                  hr_binding_element(tensor, binding, sample->offset), size));
        HR_TRY(merge(samples, sample->tensor, samples->subscripts + s * samples->rank_max,
                     hr_dtype_load(tensor->dtype, &bits, 0), &sample->meaning, out));
    }
    out->points = samples->count;
    return HR_OK;
}

hr_status hr_samples_meaning(const hr_samples *samples, int tensor, const int64_t *subscripts,
                             hr_meaning *out) {
    HR_TRY(hr_reference_value(samples->reference, tensor, subscripts, out));
    return hr_mirrors_status(samples->kernel, samples->mirrors);
}

hr_status hr_samples_judge(hr_samples *samples, int tensor, const int64_t *subscripts, double got,
                           hr_check *out) {
    hr_meaning meaning;
    HR_TRY(hr_samples_meaning(samples, tensor, subscripts, &meaning));
    return merge(samples, tensor, subscripts, got, &meaning, out);
}

double hr_samples_error(const hr_samples *samples, int tensor) {
    return samples->errors[tensor];
}

/* ---- all of them ---- */

static hr_status reference_make(const hr_samples *samples, hr_reference **out) {
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
    hr_sum_order *orders = NULL;
    int orders_count;
    hr_status status = hr_reference_create(kernel->function, samples->prepared->extents, operands, out);
    if (status == HR_OK)
        status = hr_check_orders(samples->prepared->plan, samples->prepared->extents, &orders, &orders_count);
    if (status == HR_OK) hr_reference_orders(*out, orders, orders_count);
    free(orders);
    free(operands);
    return status;
}

static hr_status samples_make(hr_kernel *kernel, int64_t points, hr_samples *out) {
    int tensors = 0;
    *out = (hr_samples){.kernel = kernel, .rank_max = 1};
    for (int i = 0; i < kernel->argument_count; i++) {
        tensors += hr_kernel_writes(kernel, i);
        if (hr_kernel_tensor(kernel, i)->rank > out->rank_max)
            out->rank_max = hr_kernel_tensor(kernel, i)->rank;
    }
    out->each = points > 0 && tensors ? (points + tensors - 1) / tensors : POINTS_DEFAULT;
    if (out->each > 1 << 24) out->each = 1 << 24;
    out->capacity = out->each * tensors;
    out->list = calloc((size_t)out->capacity + 1, sizeof *out->list);
    out->subscripts = calloc((size_t)(out->capacity + 1) * (size_t)out->rank_max, sizeof *out->subscripts);
    out->sizes = calloc(2 * (size_t)kernel->argument_count + 2, sizeof *out->sizes);
    out->errors = out->sizes ? out->sizes + kernel->argument_count + 1 : NULL;
    if (!out->list || !out->subscripts || !out->sizes)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to check so many points");
    return hr_mirrors_create(kernel, &out->mirrors);
}

/* How large the elements of each tensor are, and what they may be off. */
static hr_status samples_measure(hr_samples *samples) {
    double *sorted = calloc((size_t)samples->count + 1, sizeof *sorted);
    if (!sorted) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check so many points");
    for (int i = 0; i < samples->kernel->argument_count; i++) {
        int64_t count = 0, finite = 0;
        double squares = 0;
        for (int64_t s = 0; s < samples->count; s++) {
            const hr_meaning *meaning = &samples->list[s].meaning;
            if (samples->list[s].tensor != i) continue;
            if (isfinite(meaning->error)) sorted[count++] = meaning->error;
            if (isfinite(meaning->value)) squares += meaning->value * meaning->value, finite++;
        }
        qsort(sorted, (size_t)count, sizeof *sorted, hr_compare_doubles);
        samples->errors[i] = count ? sorted[count / 2] : 0;
        samples->sizes[i] = finite ? sqrt(squares / (double)finite) : 0;
    }
    free(sorted);
    return HR_OK;
}

hr_status hr_samples_create(hr_kernel *kernel, const hr_prepared *prepared, int64_t points,
                            hr_progress_fn progress, void *progress_context, hr_samples **out) {
    hr_samples *samples = calloc(1, sizeof *samples);
    if (!samples) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check kernel %s", kernel->function->name);
    hr_status status = samples_make(kernel, points, samples);
    samples->prepared = prepared;
    samples->worst = -1;
    if (status == HR_OK) extremes_find(samples);
    if (status == HR_OK) status = reference_make(samples, &samples->reference);
    if (status == HR_OK)
        status = samples_take(samples, points > 0 ? 0 : DEFAULT_SECONDS, progress, progress_context);
    if (status == HR_OK) status = hr_mirrors_status(kernel, samples->mirrors);
    if (status == HR_OK) status = samples_measure(samples);
    if (status == HR_OK)
        *out = samples;
    else
        hr_samples_destroy(samples);
    return status;
}

void hr_samples_destroy(hr_samples *samples) {
    if (!samples) return;
    hr_reference_destroy(samples->reference);
    hr_mirrors_destroy(samples->kernel, samples->mirrors);
    free(samples->sizes);
    free(samples->list);
    free(samples->subscripts);
    free(samples);
}

/* ---- what the text itself loses ---- */

static bool is_square(const hr_expr *expr) {
    return (expr->op == HR_OP_POW && expr->args[1]->op == HR_OP_NUMBER && expr->args[1]->whole == 2) ||
           (expr->op == HR_OP_MUL && expr->args[0] == expr->args[1]) ||
           (expr->op == HR_OP_MUL && expr->args[0]->op == HR_OP_ELEMENT &&
            expr->args[1]->op == HR_OP_ELEMENT && expr->args[0]->tensor == expr->args[1]->tensor);
}

static hr_visit is_difference_at(const hr_expr *expr, const void *context) {
    const hr_place *place = context;
    return hr_visit_until(expr->op == HR_OP_SUB && expr->place.line == place->line &&
                          expr->place.column == place->column);
}

/* A mean of squares less the square of a mean. */
static bool is_variance_by_moments(const hr_function *function, hr_place place) {
    const hr_expr *found = NULL;
    for (int s = 0; s < function->statement_count && !found; s++)
        found = hr_expr_find(function->statements[s].value, is_difference_at, &place);
    return found && is_square(found->args[1]) && !is_square(found->args[0]);
}

hr_status hr_samples_explain(hr_samples *samples, hr_check *out) {
    const hr_function *function = samples->kernel->function;
    if (!(samples->lost.loss > 0) || !out->ok) return HR_OK;
    const hr_tensor *tensor = hr_kernel_tensor(samples->kernel, samples->lost.tensor);
    hr_reference *fresh = NULL;
    hr_meaning meaning;
    hr_loss loss = {0};
    hr_text text = {0};
    HR_TRY(reference_make(samples, &fresh));
    hr_status status = hr_reference_value(fresh, samples->lost.tensor, samples->lost.subscripts, &meaning);
    if (status == HR_OK) loss = hr_reference_loss(fresh);
    hr_reference_destroy(fresh);
    HR_TRY(status);
    const double far = fabs(samples->lost.got - samples->lost.value) / fabs(samples->lost.value);
    const double digits = fmin(7, fmax(3, round(log10(far) + 7.2)));
    hr_text_format(&text, "%s loses %.0f of 7 digits in ", loss.ratio > 16 ? "the text" : "adding up in f32",
                   far < INFINITY ? digits : 7);
    element_name(tensor, samples->lost.subscripts, &text);
    hr_text_format(&text, ": %.9g for %.9g", samples->lost.got,
                   hr_dtype_round(tensor->dtype, samples->lost.value));
    if (loss.ratio > 16)
        hr_text_format(&text, "; line %d leaves a part in %.2g of what it subtracts", loss.place.line,
                       loss.ratio);
    if (loss.ratio > 16 && is_variance_by_moments(function, loss.place))
        hr_text_format(&text, ": write the variance about the mean, mean((x - mean)^2)");
    snprintf(out->warning, sizeof out->warning, "%s", hr_text_data(&text));
    status = hr_text_status(&text);
    hr_text_clear(&text);
    return status;
}
