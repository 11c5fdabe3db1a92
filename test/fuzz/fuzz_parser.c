/* Any bytes as a text of kernels: no crash, no leak, no hang; what parses also solves, checks and counts.
 *
 * cmake -B build-fuzz -DHEADROOM_FUZZ=ON -DCMAKE_C_COMPILER=clang
 * build-fuzz/test/fuzz_parser -dict=test/fuzz/kernels.dict NEW_FOLDER test/fuzz/corpus
 */
#include "ir/count.h"
#include "ir/extent.h"
#include "lang/program.h"
#include <stdlib.h>

#define EXTENTS_MAX 64

static void fill(const hr_function *function, int64_t *extents, int64_t value) {
    for (int i = 0; i < function->extent_count; i++)
        extents[i] = value;
}

static void exercise(const hr_function *function) {
    int64_t extents[EXTENTS_MAX];
    hr_work work;
    if (function->extent_count > EXTENTS_MAX) return;
    for (int64_t value = 0; value < 3; value++) {
        fill(function, extents, value);
        if (hr_extent_check(function, extents) == HR_OK && hr_work_count(function, extents, &work) != HR_OK)
            abort();
    }
    fill(function, extents, HR_EXTENT_UNKNOWN);
    for (int i = 0; i < function->parameter_count; i++)
        for (int axis = 0; axis < function->tensors[i].rank; axis++)
            (void)hr_extent_solve(function, i, axis, 12, extents);
    if (hr_extent_default(function, extents) != HR_OK) abort();
    for (int i = 0; i < function->extent_count; i++)
        if (extents[i] < 0) abort();
}

/* With every dtype: an instance, or a sentence. */
static void instantiate(const hr_function *function) {
    hr_dtype dtypes[HR_DTYPE_VARIABLE_MAX];
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
        hr_program *program = NULL;
        const hr_function *instance = NULL;
        for (int i = 0; i < function->variable_count; i++)
            dtypes[i] = (hr_dtype)dtype;
        if (hr_function_instantiate(function, dtypes, &program, &instance) == HR_OK)
            exercise(instance);
        else if (program || !*hr_last_error())
            abort();
        hr_program_destroy(program);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hr_program *program = NULL;
    if (hr_program_parse("fuzz.hr", (const char *)data, size, &program) != HR_OK) {
        if (program || !*hr_last_error()) abort();
        return 0;
    }
    for (int i = 0; i < program->function_count; i++) {
        exercise(&program->functions[i]);
        if (program->functions[i].variable_count) instantiate(&program->functions[i]);
    }
    hr_program_destroy(program);
    return 0;
}
