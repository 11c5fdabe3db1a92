/* In: a function, extents, how its arrays lie. Out: HR_OK, or what a GPU would have done wrong. */
#include "support/cuda_case.h"
#include "ir/count.h"
#include "ir/extent.h"
#include "lang/program.h"

#include "base/dtype.h"
#include "device/device.h"
#include "emit/emit.h"
#include "reference/reference.h"
#include "run/check.h"
#include "run/fill.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MANY, FEW: one of so many elements is spoiled. */
enum { GRIDS_MAX = 64, ARGUMENTS_MAX = 48, MANY = 61, FEW = 4999 };

typedef struct case_array {
    int64_t shape[HR_RANK_MAX], strides[HR_RANK_MAX], elements,
        span; /* span: from the first to past the last */
    char *data;
    char **members; /* NULL = it is one */
    int64_t each;   /* elements of one */
    int64_t *table; /* where they begin, elements from `data` on */
    void *before;   /* a copy of it as it was; NULL for results and scalars */
    double scalar;
} case_array;

typedef struct case_state {
    const cuda_case *one;
    cuda_emulation *device;
    int count; /* of arguments */
    case_array arrays[ARGUMENTS_MAX];
    hr_layout layouts[ARGUMENTS_MAX];
    hr_plan *plan;
    hr_emitted emitted;
    cuda_object *object;
    hr_launch launches[GRIDS_MAX];
    int launch_count;
    hr_fault *fault;
    void *scratch;
    hr_reference *reference;
    uint64_t words[4 * ARGUMENTS_MAX + ARGUMENTS_MAX * HR_RANK_MAX];
} case_state;

hr_device_limits cuda_case_limits(int compute, int processors) {
    hr_device_limits limits = {.threads = processors ? processors : 132,
                               .vector_bytes = 16,
                               .l2_bytes = 50 << 20,
                               .compute = compute,
                               .shared_bytes = compute == 80 ? 166912 : 232448,
                               .cluster_blocks = compute == 80 ? 1 : 8,
                               .tensor_maps = compute >= 90};
    snprintf(limits.isa, sizeof limits.isa, compute == 80 ? "sm_80" : compute == 90 ? "sm_90a" : "sm_100a");
    return limits;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const hr_statement *statement_of(const hr_function *function, int tensor) {
    for (int s = function->statement_count - 1; s >= 0; s--)
        if (function->statements[s].tensor == tensor) return &function->statements[s];
    return NULL;
}

/* ---- arrays ---- */

static hr_status array_shape(const case_state *state, int i, case_array *array) {
    const hr_function *function = state->one->function;
    const hr_tensor *tensor = &function->tensors[i];
    array->elements = 1;
    for (int k = 0; k < tensor->rank; k++) {
        HR_TRY(hr_extent_value(function, tensor->shape[k], state->one->extents, &array->shape[k]));
        array->elements *= array->shape[k];
    }
    int64_t stride = state->one->strided ? 2 : 1;
    for (int k = tensor->rank; k-- > 0;) {
        array->strides[k] = stride;
        stride = stride * array->shape[k] + (state->one->strided ? 3 : 0);
    }
    array->span = array->elements > 0;
    for (int k = 0; k < tensor->rank && array->elements; k++)
        array->span += (array->shape[k] - 1) * array->strides[k];
    return HR_OK;
}

/* Where element number `i`, counted row-major, lies. */
static int64_t element_offset(const case_array *array, int rank, int64_t i) {
    int64_t offset = 0;
    for (int k = rank; k-- > 0; i /= array->shape[k])
        offset += i % array->shape[k] * array->strides[k];
    return offset;
}

static char *element_at(const case_array *array, int rank, size_t size, int64_t i) {
    if (array->members) return array->members[i / array->each] + i % array->each * (int64_t)size;
    return array->data + element_offset(array, rank, i) * (int64_t)size;
}

static void array_spoil(hr_dtype dtype, char *values, int64_t count, int64_t every) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e-40, -0.0};
    for (int64_t i = 0; i < count && hr_dtype_is_float(dtype); i++)
        if (i % every == 17) hr_dtype_store(dtype, values, (size_t)i, odd[i / every % 5]);
}

static void array_make_wild(hr_dtype dtype, char *values, int64_t count) {
    for (int64_t i = 3; i < count && (dtype == HR_I32 || dtype == HR_I64); i += 10)
        hr_dtype_store_whole(dtype, values, (size_t)i, i % 20 == 3 ? 1 << 30 : -1);
}

static hr_status array_fill(const cuda_case *one, case_array *array, const hr_tensor *tensor,
                            const hr_filling *filling) {
    size_t size = hr_dtype_size(tensor->dtype);
    char *values = malloc((size_t)array->elements * size + 1);
    array->before = malloc((size_t)array->span * size + 1);
    if (!values || !array->before) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %s", tensor->name);
    hr_fill_array(tensor->dtype, values, array->elements, filling);
    if (one->give) one->give(one, tensor->name, values, array->elements);
    if (one->nonfinite) array_spoil(tensor->dtype, values, array->elements, MANY);
    if (one->spoiled && strcmp(one->spoiled, tensor->name) == 0)
        array_spoil(tensor->dtype, values, array->elements, FEW);
    if (one->wild) array_make_wild(tensor->dtype, values, array->elements);
    for (int64_t i = 0; i < array->elements; i++)
        memcpy(element_at(array, tensor->rank, size, i), values + i * (int64_t)size, size);
    for (int64_t i = 0; i < array->elements; i++)
        memcpy((char *)array->before + element_offset(array, tensor->rank, i) * (int64_t)size,
               element_at(array, tensor->rank, size, i), size);
    free(values);
    return HR_OK;
}

/* What emitted code may do with an array. */
static unsigned access_of(const case_state *state, int i) {
    const hr_tensor *tensor = &state->one->function->tensors[i];
    const hr_statement *statement = statement_of(state->one->function, i);
    unsigned once = statement && statement->store == HR_STORE_WHOLE ? CUDA_ONCE : 0;
    if (tensor->role == HR_ROLE_INPUT) return CUDA_READ | CUDA_FILLED;
    if (tensor->role == HR_ROLE_RESULT) return CUDA_READ | CUDA_WRITE | once;
    return statement ? CUDA_READ | CUDA_FILLED | CUDA_WRITE | once : CUDA_READ | CUDA_FILLED;
}

/* The table counts from the lowest one, or from one element before it, as run/members.c does. */
static hr_status members_place(case_state *state, int i, case_array *array) {
    const hr_tensor *tensor = &state->one->function->tensors[i];
    const size_t size = hr_dtype_size(tensor->dtype), bytes = (size_t)array->each * size;
    const int64_t count = array->shape[0];
    array->members = calloc((size_t)count, sizeof *array->members);
    array->table = cuda_emulation_array(state->device, "table", (size_t)count * sizeof *array->table, 0,
                                        CUDA_READ | CUDA_FILLED);
    if (!array->members || !array->table) return hr_fail(HR_OUT_OF_MEMORY, "no room for a table");
    for (int64_t k = count; k-- > 0;) {
        const bool odd = state->one->members == CUDA_MEMBERS_ODD && k % 3 == 1;
        const size_t past = odd ? size : 16 * ((size_t)(k * (2 * i + 1)) % 7); /* apart in every array */
        array->members[k] = k == count - 2 && tensor->role == HR_ROLE_INPUT
                                ? array->members[count - 1]
                                : cuda_emulation_array(state->device, tensor->name, bytes, past, 0);
        if (!array->members[k])
            return hr_fail(HR_OUT_OF_MEMORY, "the emulated device has no room for %s", tensor->name);
    }
    bool all = true;
    array->data = array->members[0];
    for (int64_t k = 0; k < count; k++) {
        if (array->members[k] < array->data) array->data = array->members[k];
        all = all && (uintptr_t)array->members[k] % 16 == 0;
    }
    if (!all && (uintptr_t)array->data % 16 == 0) array->data -= size;
    for (int64_t k = 0; k < count; k++)
        array->table[k] = (array->members[k] - array->data) / (int64_t)size;
    return HR_OK;
}

static hr_status array_make(case_state *state, int i, const hr_filling *filling) {
    const hr_tensor *tensor = &state->one->function->tensors[i];
    case_array *array = &state->arrays[i];
    size_t size = hr_dtype_size(tensor->dtype);
    if (tensor->rank == 0 && tensor->role == HR_ROLE_INPUT) {
        array->scalar = hr_dtype_round(tensor->dtype, tensor->has_default ? tensor->default_value : 0.5);
        return HR_OK;
    }
    HR_TRY(array_shape(state, i, array));
    state->layouts[i] = state->one->strided ? HR_LAYOUT_STRIDED : HR_LAYOUT_DENSE;
    array->each = tensor->rank && array->elements ? array->elements / array->shape[0] : 0;
    if (state->one->members && tensor->rank > 1 && array->elements &&
        strncmp(tensor->name, "dense", 5) != 0) {
        state->layouts[i] = HR_LAYOUT_MEMBERS;
        HR_TRY(members_place(state, i, array));
    } else
        array->data = cuda_emulation_array(state->device, tensor->name, (size_t)array->span * size,
                                           (size_t)state->one->offset * size % 256, 0);
    if (!array->data)
        return hr_fail(HR_OUT_OF_MEMORY, "the emulated device has no room for %s", tensor->name);
    for (int64_t e = 0; e < array->elements; e++)
        cuda_emulation_allow(state->device, element_at(array, tensor->rank, size, e), size,
                             access_of(state, i));
    return tensor->role == HR_ROLE_RESULT ? HR_OK : array_fill(state->one, array, tensor, filling);
}

static hr_status arrays_make(case_state *state) {
    const hr_function *function = state->one->function;
    hr_filling fillings[ARGUMENTS_MAX] = {0};
    state->count = function->parameter_count + function->result_count;
    if (state->count > ARGUMENTS_MAX)
        return hr_fail(HR_INTERNAL, "%s has too many arguments", function->name);
    HR_TRY(hr_fill_ranges(function, state->one->extents, state->count, fillings));
    for (int i = 0; i < state->count; i++) {
        fillings[i].seed = 1000003u * (unsigned)(i + 1) + 7;
        HR_TRY(array_make(state, i, &fillings[i]));
    }
    return HR_OK;
}

/* ---- code ---- */

static hr_status code_make(case_state *state) {
    const cuda_case *one = state->one;
    const char *entries[2 * GRIDS_MAX];
    int entry_count = 0;
    const int64_t *planned = one->planned ? one->planned : one->extents;
    HR_TRY(hr_schedule_create(one->function, planned, state->layouts, &one->limits, &one->options,
                              &state->plan));
    HR_TRY(hr_emit_cuda_loaded(state->plan, planned, &state->emitted));
    HR_TRY(hr_cuda_launches(state->plan, one->extents, state->launches, GRIDS_MAX, &state->launch_count));
    if (state->launch_count > GRIDS_MAX)
        return hr_fail(HR_INTERNAL, "%s: too many launches", one->function->name);
    for (int g = 0; g < state->launch_count; g++) {
        bool known = false;
        for (int e = 0; e < entry_count; e++)
            known |= strcmp(entries[e], state->launches[g].entry) == 0;
        if (!known) entries[entry_count++] = state->launches[g].entry;
        if (!known && state->launches[g].unaligned[0]) entries[entry_count++] = state->launches[g].unaligned;
    }
    return cuda_object_compile(hr_text_data(&state->emitted.source), entries, entry_count, &state->object);
}

/* Pointers, scalars, extents, strides, scratch, fault: base/launch.h. */
static hr_status words_make(case_state *state) {
    const hr_function *function = state->one->function;
    uint64_t *word = state->words;
    int64_t scratch_bytes;
    HR_TRY(hr_emit_scratch(state->plan, state->one->extents, state->one->limits.threads, &scratch_bytes));
    state->scratch =
        cuda_emulation_array(state->device, "scratch", (size_t)scratch_bytes, 0, CUDA_READ | CUDA_WRITE);
    state->fault = cuda_emulation_array(state->device, "fault", sizeof *state->fault, 16,
                                        CUDA_READ | CUDA_WRITE | CUDA_FILLED | CUDA_ANY);
    if (!state->scratch || !state->fault) return hr_fail(HR_OUT_OF_MEMORY, "no room for scratch memory");
    *state->fault = (hr_fault){0};
    for (int i = 0; i < state->count; i++)
        *word++ = (uint64_t)(uintptr_t)state->arrays[i].data;
    for (int i = 0; i < state->count; i++)
        memcpy(word++, &state->arrays[i].scalar, sizeof *word);
    for (int e = 0; e < function->extent_count; e++)
        *word++ = (uint64_t)state->one->extents[e];
    for (int i = 0; i < state->count; i++)
        for (int k = 0; k < function->tensors[i].rank; k++)
            *word++ = k == 0 && state->arrays[i].members ? (uint64_t)(uintptr_t)state->arrays[i].table
                                                         : (uint64_t)state->arrays[i].strides[k];
    *word++ = (uint64_t)(uintptr_t)state->scratch;
    *word++ = (uint64_t)(uintptr_t)state->fault;
    return HR_OK;
}

static hr_status launch_all(case_state *state) {
    hr_tensor_set asked;
    hr_cuda_aligned(state->plan, &asked);
    bool aligned = hr_tensors_are_aligned(&asked, (void *const *)state->words, state->count);
    for (int g = 0; g < state->launch_count; g++) {
        hr_launch launch = state->launches[g];
        if (launch.unaligned[0] && !aligned) { /* the function without maps */
            memcpy(launch.entry, launch.unaligned, sizeof launch.entry);
            launch.map_count = 0;
        }
        if (!hr_launch_is_empty(&launch))
            HR_TRY(
                cuda_emulation_launch(state->device, state->object, &launch, state->words, state->one->seed));
    }
    if (state->fault->access)
        return hr_fail(HR_OUT_OF_RANGE, "access %lld is said to leave its axis with %lld",
                       (long long)state->fault->access, (long long)state->fault->value);
    return HR_OK;
}

/* ---- what came out ---- */

static hr_status reference_make(case_state *state) {
    const hr_function *function = state->one->function;
    hr_operand operands[ARGUMENTS_MAX] = {0};
    for (int i = 0; i < function->parameter_count; i++) {
        const case_array *array = &state->arrays[i];
        operands[i] = (hr_operand){
            .data = array->before, .shape = array->shape, .strides = array->strides, .scalar = array->scalar};
    }
    const hr_function *meaning = state->one->meaning ? state->one->meaning : function;
    HR_TRY(hr_reference_create(meaning, state->one->extents, operands, &state->reference));
    hr_sum_order *orders;
    int count;
    HR_TRY(hr_check_orders(state->plan, state->one->extents, &orders, &count));
    hr_reference_orders(state->reference, orders, count);
    free(orders);
    return HR_OK;
}

/* f64 is held to its own accuracy where nothing else is in the kernel. */
static hr_dtype compute_type(const hr_function *function, const hr_statement *statement) {
    for (int i = 0; i < function->tensor_count; i++)
        if (function->tensors[i].dtype != HR_F64 && hr_dtype_is_float(function->tensors[i].dtype) &&
            statement->value->type == HR_F64)
            return HR_F32;
    return hr_check_type(function, statement);
}

static hr_status check_element(case_state *state, int i, const hr_statement *statement, int64_t number) {
    const hr_function *function = state->one->function;
    const hr_tensor *tensor = &function->tensors[i];
    const case_array *array = &state->arrays[i];
    int64_t subscripts[HR_RANK_MAX], at = 0;
    hr_meaning meaning;
    hr_check_point(tensor->rank, array->shape, number, (uint64_t)i, subscripts);
    for (int k = 0; k < tensor->rank; k++)
        at = at * array->shape[k] + subscripts[k];
    HR_TRY(hr_reference_value(state->reference, i, subscripts, &meaning));
    double got =
        hr_dtype_load(tensor->dtype, element_at(array, tensor->rank, hr_dtype_size(tensor->dtype), at), 0);
    hr_dtype type = compute_type(function, statement);
    if (hr_check_ratio(type, tensor->dtype, got, &meaning) <= 1) return HR_OK;
    return hr_fail(
        HR_WRONG_RESULT, "%s[%lld, %lld, %lld, ...] = %.9g, should be %.9g: error %.3g, tolerance %.3g",
        tensor->name, (long long)subscripts[0], (long long)(tensor->rank > 1 ? subscripts[1] : 0),
        (long long)(tensor->rank > 2 ? subscripts[2] : 0), got, hr_dtype_round(tensor->dtype, meaning.value),
        hr_check_excess(type, tensor->dtype, got, &meaning), meaning.error);
}

static hr_status check_array(case_state *state, int i, cuda_outcome *out) {
    const hr_tensor *tensor = &state->one->function->tensors[i];
    const hr_statement *statement = statement_of(state->one->function, i);
    const case_array *array = &state->arrays[i];
    size_t size = hr_dtype_size(tensor->dtype);
    bool whole = tensor->role == HR_ROLE_RESULT || (statement && statement->store == HR_STORE_WHOLE);
    if (tensor->role == HR_ROLE_INPUT || !statement || array->elements == 0) return HR_OK;
    for (int64_t e = 0; e < array->elements && whole; e++)
        if (!cuda_emulation_written(state->device, element_at(array, tensor->rank, size, e), size))
            return hr_fail(HR_WRONG_RESULT, "element %lld of %lld of %s is not written", (long long)e,
                           (long long)array->elements, tensor->name);
    int64_t points = state->one->points < 4 * array->elements ? state->one->points : 4 * array->elements;
    for (int64_t number = 0; number < points; number++, out->points++)
        HR_TRY(check_element(state, i, statement, number));
    return HR_OK;
}

static hr_status case_check(case_state *state, cuda_outcome *out) {
    hr_work work;
    int64_t read, written;
    for (int i = 0; i < state->count; i++)
        HR_TRY(check_array(state, i, out));
    HR_TRY(hr_work_count(state->one->function, state->one->extents, &work));
    cuda_emulation_traffic(state->device, &read, &written);
    out->read = (double)read / fmax(1, work.bytes_read);
    out->written = (double)written / fmax(1, work.bytes_written);
    void *arrays[ARGUMENTS_MAX];
    for (int i = 0; i < state->count; i++)
        arrays[i] = state->arrays[i].data;
    return state->one->look ? state->one->look(state->one, arrays) : HR_OK;
}

static void case_end(case_state *state) {
    for (int i = 0; i < state->count && i < ARGUMENTS_MAX; i++) {
        free(state->arrays[i].before);
        free(state->arrays[i].members);
    }
    hr_reference_destroy(state->reference);
    cuda_object_destroy(state->object);
    hr_emitted_clear(&state->emitted);
    hr_plan_destroy(state->plan);
    free(state);
}

hr_status cuda_case_run(cuda_emulation *device, const cuda_case *one, cuda_outcome *out) {
    case_state *state = calloc(1, sizeof *state);
    if (!state) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a case");
    *out = (cuda_outcome){0};
    state->one = one;
    state->device = device;
    cuda_emulation_clear(device);
    double begun = now(), compiled = begun;
    hr_status status = hr_extent_check(one->function, one->extents);
    if (status == HR_OK) status = arrays_make(state);
    if (status == HR_OK) status = code_make(state);
    compiled = now();
    if (status == HR_OK) status = words_make(state);
    if (status == HR_OK) status = reference_make(state);
    if (status == HR_OK) status = launch_all(state);
    if (status == HR_OK) status = case_check(state, out);
    out->seconds_compile = compiled - begun;
    out->seconds_run = now() - compiled;
    case_end(state);
    return status;
}
