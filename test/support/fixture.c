/* In: a text, extents, values. Out: the interpreter's answers, by name and row-major position. */
#include "support/fixture.h"
#include "base/dtype.h"
#include "ir/extent.h"
#include "lang/program.h"

#include <stdlib.h>
#include <string.h>

hr_status hr_fixture_open(const char *text, const char *kernel, hr_fixture *out) {
    *out = (hr_fixture){0};
    HR_TRY(hr_program_parse("test.hr", text, strlen(text), &out->program));
    HR_TRY(hr_program_find(out->program, kernel, &out->function));
    int extents = out->function->extent_count;
    out->extents = calloc((size_t)extents + 1, sizeof *out->extents);
    for (int i = 0; i < extents; ++i)
        out->extents[i] = HR_EXTENT_UNKNOWN;
    return HR_OK;
}

void hr_fixture_close(hr_fixture *fixture) {
    hr_reference_destroy(fixture->reference);
    for (int i = 0; fixture->operands && i < fixture->function->parameter_count; ++i)
        free((void *)(uintptr_t)fixture->operands[i].data);
    free(fixture->operands);
    free(fixture->shapes);
    free(fixture->strides);
    free(fixture->extents);
    hr_program_destroy(fixture->program);
    *fixture = (hr_fixture){0};
}

int hr_fixture_tensor(const hr_fixture *fixture, const char *name) {
    for (int i = 0; i < fixture->function->tensor_count; ++i)
        if (!strcmp(fixture->function->tensors[i].name, name)) return i;
    return -1;
}

void hr_fixture_extent(hr_fixture *fixture, const char *name, int64_t value) {
    for (int i = 0; i < fixture->function->extent_count; ++i)
        if (!strcmp(fixture->function->extents[i], name)) fixture->extents[i] = value;
}

int64_t hr_fixture_count(const hr_fixture *fixture, int tensor) {
    int64_t count = 1;
    for (int k = 0; k < fixture->function->tensors[tensor].rank; ++k)
        count *= fixture->shapes[tensor][k];
    return count;
}

hr_status hr_fixture_allocate(hr_fixture *fixture) {
    const hr_function *function = fixture->function;
    size_t tensors = (size_t)function->tensor_count + 1;
    fixture->shapes = calloc(tensors, sizeof *fixture->shapes);
    fixture->strides = calloc(tensors, sizeof *fixture->strides);
    fixture->operands = calloc(tensors, sizeof *fixture->operands);
    for (int i = 0; i < function->parameter_count + function->result_count; ++i) {
        const hr_tensor *tensor = &function->tensors[i];
        for (int k = 0; k < tensor->rank; ++k)
            HR_TRY(hr_extent_value(function, tensor->shape[k], fixture->extents, &fixture->shapes[i][k]));
        int64_t stride = 1;
        for (int k = tensor->rank; k-- > 0; stride *= fixture->shapes[i][k])
            fixture->strides[i][k] = stride;
        if (i >= function->parameter_count) continue;
        hr_operand *operand = &fixture->operands[i];
        operand->scalar = tensor->default_value;
        if (!tensor->rank) continue;
        operand->shape = fixture->shapes[i];
        operand->strides = fixture->strides[i];
        operand->data = calloc((size_t)hr_fixture_count(fixture, i) + 1, hr_dtype_size(tensor->dtype));
    }
    return HR_OK;
}

void hr_fixture_set(hr_fixture *fixture, const char *name, const double *values) {
    int tensor = hr_fixture_tensor(fixture, name);
    void *data = (void *)(uintptr_t)fixture->operands[tensor].data;
    for (int64_t i = 0; i < hr_fixture_count(fixture, tensor); ++i)
        hr_dtype_store(fixture->function->tensors[tensor].dtype, data, (size_t)i, values[i]);
}

void hr_fixture_set_scalar(hr_fixture *fixture, const char *name, double value) {
    fixture->operands[hr_fixture_tensor(fixture, name)].scalar = value;
}

hr_status hr_fixture_value(hr_fixture *fixture, const char *name, int64_t position, hr_meaning *out) {
    int tensor = hr_fixture_tensor(fixture, name);
    int64_t subscripts[HR_RANK_MAX];
    if (!fixture->reference)
        HR_TRY(
            hr_reference_create(fixture->function, fixture->extents, fixture->operands, &fixture->reference));
    for (int k = fixture->function->tensors[tensor].rank; k-- > 0; position /= fixture->shapes[tensor][k])
        subscripts[k] = position % fixture->shapes[tensor][k];
    return hr_reference_value(fixture->reference, tensor, subscripts, out);
}
