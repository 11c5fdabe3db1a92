/* Emitted CUDA over lists of arrays, on a device without a GPU: the same elements end to end on the CPU say
 * what must come out. Members are of odd lengths, empty, aligned and not. */
#include "headroom.h"

#include "base/dtype.h"
#include "base/pieces.h"
#include "device/compiler_cuda.h"
#include "device/device.h"
#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum { LISTS_MAX = 8, GRIDS_MAX = 8, WORDS_MAX = 128 };

static hr_device *cpu;
static cuda_emulation *emulation;

typedef struct run {
    const hr_program *program;
    const hr_function *function;
    int64_t extents[1];
    int count, tensor_count; /* members; arguments */
    const int64_t *lengths;
    int64_t total, piece_count, odd;
    void *members[LISTS_MAX * 2][16];
    char *whole[LISTS_MAX * 2]; /* what the CPU computes on; scalars that are results as well */
    hr_layout layouts[LISTS_MAX * 2];
    uint64_t words[WORDS_MAX];
} run;

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static bool is_scalar(const hr_tensor *tensor) {
    return tensor->rank == 0 && tensor->role == HR_ROLE_INPUT;
}

static unsigned access_of(const hr_tensor *tensor) {
    return tensor->role == HR_ROLE_INPUT   ? CUDA_READ | CUDA_FILLED
           : tensor->role == HR_ROLE_INOUT ? CUDA_READ | CUDA_FILLED | CUDA_WRITE | CUDA_ONCE
                                           : CUDA_READ | CUDA_WRITE | CUDA_ONCE;
}

/* Values in [0.5, 1.5) with signs for some; the same in the members and end to end. */
static void tensor_make(run *r, int t) {
    const hr_tensor *tensor = &r->function->tensors[t];
    size_t size = hr_dtype_size(tensor->dtype);
    char *whole = r->whole[t] = calloc((size_t)r->total + 1, size);
    assert_non_null(whole);
    for (int64_t i = 0; i < r->total; i++) {
        double value = 0.5 + (double)((i * 7919 + t * 31) % 1021) / 1021;
        hr_dtype_store(tensor->dtype, whole, (size_t)i,
                       i % 3 || strcmp(tensor->name, "v") == 0 ? value : -value);
    }
    for (int k = 0; k < r->count; k++) {
        size_t bytes = (size_t)r->lengths[k] * size;
        size_t offset = (size_t)(k % 3 == 1 ? r->odd : 0) * size; /* every third is unaligned */
        r->members[t][k] = cuda_emulation_array(emulation, tensor->name, bytes, offset, access_of(tensor));
        assert_non_null(r->members[t][k]);
        if (tensor->role != HR_ROLE_RESULT) memcpy(r->members[t][k], whole, bytes);
        whole += bytes;
    }
}

static hr_pieces *pieces_make(run *r, int64_t most) {
    int64_t count = 0;
    for (int k = 0; k < r->count; k++)
        count += (r->lengths[k] + most - 1) / most;
    hr_pieces *pieces = cuda_emulation_array(emulation, "pieces",
                                             sizeof *pieces + ((size_t)count + 1) * sizeof *pieces->piece, 0,
                                             CUDA_READ | CUDA_FILLED);
    assert_non_null(pieces);
    pieces->count = 0;
    for (int k = 0; k < r->count; k++)
        for (int64_t start = 0; start < r->lengths[k]; start += most) {
            int64_t rest = r->lengths[k] - start;
            pieces->piece[pieces->count++] = (hr_piece){start, k, (int32_t)(rest < most ? rest : most)};
        }
    r->piece_count = count;
    return pieces;
}

static void words_make(run *r, const hr_plan *plan) {
    uint64_t *word = r->words;
    int64_t scratch_bytes;
    hr_pieces *pieces = pieces_make(r, hr_emit_piece(plan));
    good(hr_cuda_scratch(plan, r->extents, &scratch_bytes));
    void *scratch =
        cuda_emulation_array(emulation, "scratch", (size_t)scratch_bytes + 1, 0, CUDA_READ | CUDA_WRITE);
    void *fault = cuda_emulation_array(emulation, "fault", 16, 0, CUDA_READ | CUDA_WRITE | CUDA_FILLED);
    assert_non_null(scratch);
    memset(fault, 0, 16);
    for (int t = 0; t < r->tensor_count; t++, word++) {
        const hr_tensor *tensor = &r->function->tensors[t];
        if (is_scalar(tensor)) continue;
        if (tensor->rank == 0) {
            *word = (uint64_t)(uintptr_t)r->members[t][0];
            continue;
        }
        void **table = cuda_emulation_array(emulation, "addresses", (size_t)(r->count + 1) * sizeof *table, 0,
                                            CUDA_READ | CUDA_FILLED);
        assert_non_null(table);
        memcpy(table, r->members[t], (size_t)r->count * sizeof *table);
        *word = (uint64_t)(uintptr_t)table;
    }
    for (int t = 0; t < r->tensor_count; t++, word++)
        if (is_scalar(&r->function->tensors[t])) memcpy(word, &r->function->tensors[t].default_value, 8);
    *word++ = (uint64_t)r->total;
    for (int t = 0; t < r->tensor_count; t++)
        if (r->function->tensors[t].rank) *word++ = (uint64_t)(uintptr_t)pieces;
    *word++ = (uint64_t)(uintptr_t)scratch;
    *word++ = (uint64_t)(uintptr_t)fault;
}

static void launch_all(run *r, const hr_plan *plan, uint64_t seed) {
    hr_launch launches[GRIDS_MAX];
    hr_emitted emitted;
    cuda_object *object;
    const char *entries[GRIDS_MAX];
    int count;
    good(hr_emit_cuda_loaded(plan, r->extents, &emitted));
    good(hr_cuda_launches(plan, r->extents, launches, GRIDS_MAX, &count));
    for (int g = 0; g < count; g++)
        entries[g] = launches[g].entry;
    hr_status status = cuda_object_compile(hr_text_data(&emitted.source), entries, count, &object);
    if (status == HR_NOT_AVAILABLE) skip();
    good(status);
    words_make(r, plan);
    for (int g = 0; g < count; g++) {
        if (launches[g].pieces) {
            launches[g].grid[0] = r->piece_count < launches[g].pieces ? r->piece_count : launches[g].pieces;
            if (launches[g].grid[0] < 1) launches[g].grid[0] = 1;
        }
        if (launches[g].grid[0])
            good(cuda_emulation_launch(emulation, object, &launches[g], r->words, seed + (uint64_t)g));
    }
    cuda_object_destroy(object);
    hr_emitted_clear(&emitted);
}

/* The same kernel on the CPU, on the elements end to end. */
static void run_whole(run *r, const char *path, const char *name) {
    hr_kernel *kernel;
    good(hr_kernel_load_file(cpu, path, name, &kernel));
    for (int t = 0; t < r->tensor_count; t++) {
        const hr_tensor *tensor = &r->function->tensors[t];
        hr_array array = {.size = sizeof array, .data = r->whole[t], .dtype = tensor->dtype};
        array.rank = tensor->rank;
        array.shape = &r->total;
        if (!is_scalar(tensor)) good(hr_kernel_bind(kernel, tensor->name, &array));
    }
    good(hr_kernel_launch(kernel));
    hr_kernel_destroy(kernel);
}

static void near(const hr_tensor *tensor, int member, int64_t i, double got, double expected) {
    double tolerance = (hr_dtype_size(tensor->dtype) == 2 ? 0.008 : 2e-6) * (fabs(expected) + 1e-3);
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s, array %d, element %lld: %.9g, should be %.9g", tensor->name, member, (long long)i, got,
                 expected);
}

static void compare(const run *r) {
    for (int t = 0; t < r->tensor_count; t++) {
        const hr_tensor *tensor = &r->function->tensors[t];
        int64_t position = 0;
        if (tensor->role == HR_ROLE_INPUT) continue;
        if (tensor->rank == 0)
            near(tensor, 0, 0, hr_dtype_load(tensor->dtype, r->members[t][0], 0),
                 hr_dtype_load(tensor->dtype, r->whole[t], 0));
        for (int k = 0; k < r->count && tensor->rank; k++) {
            size_t bytes = (size_t)r->lengths[k] * hr_dtype_size(tensor->dtype);
            assert_true(cuda_emulation_written(emulation, r->members[t][k], bytes));
            for (int64_t i = 0; i < r->lengths[k]; i++, position++)
                near(tensor, k, i, hr_dtype_load(tensor->dtype, r->members[t][k], (size_t)i),
                     hr_dtype_load(tensor->dtype, r->whole[t], (size_t)position));
        }
    }
}

static void check(const char *file, const char *name, hr_dtype dtype, int count, const int64_t *lengths,
                  int odd) {
    char path[512], *text = NULL;
    size_t size = 0;
    run r = {.count = count, .lengths = lengths, .odd = odd};
    hr_program *program;
    hr_plan *plan;
    hr_device_limits limits = {.threads = 3, .vector_bytes = 16, .compute = 90, .shared_bytes = 232448};
    limits.cluster_blocks = 8;
    snprintf(limits.isa, sizeof limits.isa, "sm_90a");
    snprintf(path, sizeof path, "%s/kernels/%s", HR_SOURCE_DIR, file);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    ssize_t length = getdelim(&text, &size, 0, stream);
    fclose(stream);
    good(hr_program_parse_for(path, text, (size_t)length, &(hr_parse_options){.dtype_default = dtype},
                              &program));
    good(hr_program_find(program, name, &r.function));
    r.tensor_count = r.function->parameter_count + r.function->result_count;
    for (int k = 0; k < count; k++)
        r.total += lengths[k];
    r.extents[0] = r.total;
    for (int t = 0; t < r.tensor_count; t++) {
        const hr_tensor *tensor = &r.function->tensors[t];
        r.layouts[t] = tensor->rank ? HR_LAYOUT_LIST : HR_LAYOUT_DENSE;
        if (tensor->rank) tensor_make(&r, t);
        if (tensor->rank || is_scalar(tensor)) continue;
        r.whole[t] = calloc(1, 8);
        r.members[t][0] = cuda_emulation_array(emulation, tensor->name, 4, 0, access_of(tensor));
    }
    good(hr_schedule_create(r.function, r.extents, r.layouts, &limits, &(hr_schedule_options){0}, &plan));
    good(hr_plan_check_lists(plan));
    launch_all(&r, plan, 5);
    run_whole(&r, path, name);
    compare(&r);
    for (int t = 0; t < r.tensor_count; t++)
        free(r.whole[t]);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
    free(text);
    cuda_emulation_clear(emulation);
}

static void test_map_over_members(void **state) {
    (void)state;
    static const int64_t lengths[] = {5, 31, 0, 1, 8200, 33, 1023, 0, 4096};
    check("adamw.hr", "adamw", HR_BF16, 9, lengths, 1);
    check("adamw.hr", "adamw_in_place", HR_F32, 9, lengths, 3);
    check("adamw.hr", "adamw", HR_BF16, 1, lengths + 4, 0);
}

static void test_norm_and_clipping(void **state) {
    (void)state;
    static const int64_t lengths[] = {5, 31, 0, 1, 13000, 33, 1023};
    check("clip_norm.hr", "clip_norm", HR_F32, 7, lengths, 1);
    check("clip_norm.hr", "clip_norm", HR_BF16, 7, lengths, 0);
}

static void test_nothing_at_all(void **state) {
    (void)state;
    static const int64_t none[] = {0, 0};
    check("clip_norm.hr", "clip_norm", HR_F32, 2, none, 1);
    check("clip_norm.hr", "clip_norm", HR_F32, 0, none, 1);
    check("adamw.hr", "adamw", HR_BF16, 2, none, 1);
}

/* Through NVRTC, where it is installed: nothing spills. */
static void compile(const char *file, const char *name, hr_dtype dtype, int compute) {
    char path[512], *text = NULL, arch[16];
    size_t size = 0, cubin_size = 0;
    void *cubin = NULL;
    hr_program *program;
    hr_plan *plan;
    hr_emitted emitted;
    hr_text log = {0};
    hr_cuda_compiler compiler;
    const hr_function *function;
    const int64_t extents[] = {1000000};
    hr_layout layouts[LISTS_MAX * 2] = {0};
    hr_device_limits limits = {.threads = 132, .vector_bytes = 16, .compute = compute};
    limits.cluster_blocks = compute == 80 ? 1 : 8;
    snprintf(arch, sizeof arch, compute == 80 ? "sm_80" : "sm_%da", compute);
    snprintf(limits.isa, sizeof limits.isa, "%s", arch);
    hr_cuda_compiler_create(&compiler);
    if (hr_cuda_compiler_find(&compiler, 0) != HR_OK) skip();
    snprintf(path, sizeof path, "%s/kernels/%s", HR_SOURCE_DIR, file);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    ssize_t length = getdelim(&text, &size, 0, stream);
    fclose(stream);
    good(hr_program_parse_for(path, text, (size_t)length, &(hr_parse_options){.dtype_default = dtype},
                              &program));
    good(hr_program_find(program, name, &function));
    for (int t = 0; t < function->parameter_count + function->result_count; t++)
        if (function->tensors[t].rank) layouts[t] = HR_LAYOUT_LIST;
    good(hr_schedule_create(function, extents, layouts, &limits, &(hr_schedule_options){0}, &plan));
    good(hr_emit_cuda_loaded(plan, extents, &emitted));
    good(hr_cuda_compiler_run(&compiler, arch, hr_text_data(&emitted.source), &cubin, &cubin_size, &log));
    hr_cuda_usage usage = hr_cuda_usage_read(hr_text_data(&log));
    assert_int_equal(usage.stack + usage.stores + usage.loads, 0);
    assert_in_range(usage.registers, 16, 64);
    free(cubin);
    hr_text_clear(&log);
    hr_emitted_clear(&emitted);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
    hr_cuda_compiler_destroy(&compiler);
    free(text);
}

static void test_nothing_spills(void **state) {
    (void)state;
    compile("adamw.hr", "adamw", HR_BF16, 90);
    compile("adamw.hr", "adamw_in_place", HR_F32, 90);
    compile("adamw.hr", "adamw", HR_BF16, 80);
    compile("clip_norm.hr", "clip_norm", HR_BF16, 90);
    compile("clip_norm.hr", "clip_norm", HR_F32, 100);
}

static int begin(void **state) {
    (void)state;
    if (hr_device_open("cpu", &cpu) != HR_OK) return -1;
    return cuda_emulation_create(&emulation) == HR_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    cuda_emulation_destroy(emulation);
    hr_device_destroy(cpu);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_over_members), cmocka_unit_test(test_norm_and_clipping),
        cmocka_unit_test(test_nothing_at_all), cmocka_unit_test(test_nothing_spills)};
    return cmocka_run_group_tests(tests, begin, end);
}
