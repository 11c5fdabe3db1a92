/* Every kernel of kernels/ as CUDA, and products of all kinds of operands, compiled by NVRTC for sm_80,
 * sm_90a and sm_100a where NVRTC is installed: no spills, no stack frames, no registers beyond what its
 * blocks can have.
 *
 * HR_TEST_LONG=1 adds sizes and every choice that the tuner may make; HR_ONLY=softmax keeps to one kernel;
 * HR_VERBOSE=1 prints a line a source. */
#include "base/cache.h"
#include "device/compiler_cuda.h"
#include "emit/emit.h"
#include "ir/extent.h"
#include "ir/visit.h"
#include "lang/program.h"
#include "model/family_text.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_case.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

enum { EXTENTS_MAX = 16, GRIDS_MAX = 16, CANDIDATES_MAX = 64, JOBS_MAX = 1 << 10, WORKERS = 2 };

/* Extents by their position among the kernel's; {0}: the defaults of `headroom run`. */
static const struct compile_case {
    int64_t extents[4];
    int compute;
    bool slow;
} cases[] = {
    {{0}, 80, false},
    {{0}, 90, false},
    {{0}, 100, false},
    {{4096, 1023, 512, 63}, 90, false},
    {{64, 131072, 64, 64}, 90, true},
    {{65536, 1024, 64, 64}, 90, true},
    {{511, 16383, 33, 31}, 90, true},
    {{4096, 33, 31, 17}, 80, true},
};

typedef struct job {
    char label[160];
    char arch[16];
    char *source;
    hr_launch launches[GRIDS_MAX];
    int launch_count, registers[GRIDS_MAX]; /* of each grid's entry */
    int stack_most;                         /* bytes of local memory that what it computes needs */
    hr_status status;
    char sentence[1024];
    hr_cuda_usage usage;
} job;

static job *jobs;
static int job_count, next_job; /* of those that lie in `jobs`: they are compiled where it is full */
static int compiled_count, wrong_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hr_cuda_compiler compiler;

/* ---- compiling ---- */

/* What the assembler says of one entry function: "Compiling entry function 'stage_0' ... Used 40 registers".
 */
static int registers_of(const char *log, const char *entry) {
    char name[96];
    int registers = 0;
    snprintf(name, sizeof name, "entry function '%s'", entry);
    const char *at = strstr(log, name);
    at = at ? strstr(at, ": Used ") : NULL;
    return at && sscanf(at, ": Used %d registers", &registers) == 1 ? registers : 0;
}

/* The more of the grid's two functions, 0 where one of them is not there. */
static void registers_read(job *job, int g, const char *log) {
    const hr_launch *launch = &job->launches[g];
    int registers = registers_of(log, launch->entry);
    int apart = launch->unaligned[0] ? registers_of(log, launch->unaligned) : registers;
    job->registers[g] = registers && apart ? registers > apart ? registers : apart : 0;
}

static void job_run(job *job) {
    void *cubin = NULL;
    size_t size;
    hr_text log = {0};
    job->status = hr_cuda_compiler_run(&compiler, job->arch, job->source, &cubin, &size, &log);
    job->usage = hr_cuda_usage_read(hr_text_data(&log));
    for (int g = 0; g < job->launch_count; g++)
        registers_read(job, g, hr_text_data(&log));
    if (job->status != HR_OK) snprintf(job->sentence, sizeof job->sentence, "%s", hr_last_error());
    free(cubin);
    hr_text_clear(&log);
}

static void *work(void *context) {
    (void)context;
    for (;;) {
        pthread_mutex_lock(&lock);
        int mine = next_job < job_count ? next_job++ : -1;
        pthread_mutex_unlock(&lock);
        if (mine < 0) return NULL;
        job_run(&jobs[mine]);
    }
}

/* Empty where all is well. */
static const char *verdict(const job *job) {
    static char text[200];
    if (job->status != HR_OK) return job->sentence;
    text[0] = 0;
    if (job->usage.stores || job->usage.loads)
        snprintf(text, sizeof text, "spills %d bytes and reads %d back", job->usage.stores, job->usage.loads);
    else if (job->usage.remark)
        snprintf(text, sizeof text, "the assembler remarks C%d", job->usage.remark);
    else if (job->usage.stack > job->stack_most)
        snprintf(text, sizeof text, "has %d bytes of local memory", job->usage.stack);
    for (int g = 0; g < job->launch_count && !*text; g++) {
        const hr_launch *launch = &job->launches[g];
        if (job->registers[g] == 0)
            snprintf(text, sizeof text, "the assembler does not say how many registers %s has",
                     launch->entry);
        else if ((job->registers[g] + 7) / 8 * 8 * launch->threads > 65536)
            snprintf(text, sizeof text, "%s: %d threads of %d registers are no block", launch->entry,
                     launch->threads, job->registers[g]);
    }
    return text;
}

/* What lies in `jobs`, which is empty then. */
static void compile_all(void) {
    pthread_t workers[WORKERS];
    next_job = 0;
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(pthread_create(&workers[w], NULL, work, NULL), 0);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    for (int i = 0; i < job_count; i++) {
        const char *text = verdict(&jobs[i]);
        wrong_count += *text != 0;
        if (*text || getenv("HR_VERBOSE"))
            print_message("%s  %3d registers, %d threads  %s\n", jobs[i].label, jobs[i].registers[0],
                          jobs[i].launches[0].threads, text);
        free(jobs[i].source);
    }
    compiled_count += job_count;
    job_count = 0;
}

/* The rest, and what came of all since the last end. */
static void compile_end(int least) {
    compile_all();
    const int wrong = wrong_count, compiled = compiled_count;
    wrong_count = compiled_count = 0;
    if (wrong) fail_msg("%d of %d sources are not as they should be", wrong, compiled);
    assert_true(compiled >= least);
}

/* ---- sources ---- */

static hr_status extents_of(const hr_function *function, const struct compile_case *one, int64_t *extents) {
    int64_t heads = 0;
    for (int e = 0; e < function->extent_count; e++) {
        const int64_t size = kernel_size(function->name, function->extent_count, one->extents[e < 4 ? e : 3]);
        extents[e] = one->extents[0] ? size : HR_EXTENT_UNKNOWN;
        if (strcmp(function->extents[e], "H") == 0) heads = extents[e];
    }
    for (int e = 0; e < function->extent_count; e++)
        if (strcmp(function->extents[e], "G") == 0 && heads > 0) extents[e] = kernel_groups(heads);
    return hr_extent_default(function, extents);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Choices may differ in their grids alone: the same source, in blocks as large, is compiled once. */
static bool is_new(const job *job) {
    static void *seen;
    char key[200], hash[33];
    hr_cache_hash(job->source, strlen(job->source), hash);
    int length = snprintf(key, sizeof key, "%s %s", job->arch, hash);
    for (int g = 0; g < job->launch_count; g++)
        length += snprintf(key + length, sizeof key - (size_t)length, " %d", job->launches[g].threads);
    char *kept = strdup(key), **found = kept ? tsearch(kept, &seen, compare_keys) : NULL;
    assert_non_null(found);
    if (*found == kept) return true;
    free(kept);
    return false;
}

/* CUDA's sine and cosine of f64 turn a large angle by the bits of 2 / pi at its exponent: an array whose
 * index is not known beforehand, and so in local memory, of each entry. */
enum { TURN_BYTES = 40 };

static hr_visit turns_wide(const hr_expr *e, const void *context) {
    (void)context;
    return (e->op == HR_OP_SIN || e->op == HR_OP_COS) && e->type == HR_F64 ? HR_VISIT_STOP : HR_VISIT_ON;
}

static int stack_needed(const hr_function *function, const hr_launch *launches, int count) {
    bool turns = false;
    int entries = 0;
    for (int i = 0; i < function->statement_count; i++)
        turns = turns || hr_expr_find(function->statements[i].value, turns_wide, NULL);
    for (int g = 0; g < count; g++)
        entries += launches[g].unaligned[0] ? 2 : 1;
    return turns ? entries * TURN_BYTES : 0;
}

static hr_status job_make_at(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                             int compute, const hr_choice *choice, int number) {
    hr_device_limits limits = cuda_case_limits(compute, 0);
    hr_schedule_options options = {0};
    hr_plan *plan;
    hr_emitted emitted = {0};
    if (job_count == JOBS_MAX) compile_all();
    job *job = &jobs[job_count];
    if (choice) options.choice = *choice;
    HR_TRY(hr_schedule_create(function, extents, layouts, &limits, &options, &plan));
    hr_status status = hr_emit_cuda_loaded(plan, extents, &emitted);
    if (status == HR_OK)
        status = hr_cuda_launches(plan, extents, job->launches, GRIDS_MAX, &job->launch_count);
    if (status == HR_OK) {
        job->source = strdup(hr_text_data(&emitted.source));
        job->stack_most = stack_needed(function, job->launches, job->launch_count);
        hr_cuda_arch_name(compute, job->arch, sizeof job->arch);
        snprintf(job->label, sizeof job->label, "%-26s %-7s %6lld %6lld choice %d", function->title,
                 job->arch, (long long)extents[0], (long long)(function->extent_count > 1 ? extents[1] : 0),
                 number);
        if (is_new(job))
            job_count++;
        else
            free(job->source);
    }
    hr_emitted_clear(&emitted);
    hr_plan_destroy(plan);
    return status;
}

static hr_status job_make(const hr_function *function, const struct compile_case *one,
                          const hr_choice *choice, int number) {
    int64_t extents[EXTENTS_MAX];
    HR_TRY(extents_of(function, one, extents));
    return job_make_at(function, extents, NULL, one->compute, choice, number);
}

static void candidates_make(const hr_function *function, const struct compile_case *one) {
    int64_t extents[EXTENTS_MAX];
    hr_choice choices[CANDIDATES_MAX];
    hr_device_limits limits = cuda_case_limits(one->compute, 0);
    hr_plan *plan;
    assert_int_equal(extents_of(function, one, extents), HR_OK);
    assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
    int count = hr_schedule_candidates(plan, choices, CANDIDATES_MAX);
    hr_plan_destroy(plan);
    for (int i = 0; i < count; i++)
        if (job_make(function, one, &choices[i], i) != HR_OK)
            fail_msg("%s, choice %d: %s", function->title, i, hr_last_error());
}

static void function_make(const hr_function *function, size_t number) {
    bool slow = getenv("HR_TEST_LONG") != NULL;
    const size_t count = sizeof cases / sizeof *cases;
    for (size_t c = 0; c < count; c++) {
        if (cases[c].slow && !slow) continue;
        if (!sample_takes(number * count + c, 17)) continue;
        if (job_make(function, &cases[c], NULL, 0) != HR_OK)
            fail_msg("%s: %s", function->title, hr_last_error());
        if (slow && cases[c].compute == 90) candidates_make(function, &cases[c]);
    }
}

static void test_library_compiles(void **state) {
    (void)state;
    kernel_library library;
    const char *only = getenv("HR_ONLY");
    size_t number = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++) {
            const hr_function *function = &library.files[f].program->functions[k];
            if (!only || strstr(function->title, only)) function_make(function, number++);
        }
    compile_end(only ? 0 : 30);
    kernel_library_close(&library);
}

/* ---- what a model's step calls ---- */

static const struct {
    const unsigned char *text;
    int64_t tokens;
} step_texts[] = {{hr_layers_text, 1},   {hr_cached_text, 1}, {hr_paged_text, 1},    {hr_alone_text, 1},
                  {hr_sampling_text, 1}, {hr_blocks_text, 1}, {hr_together_text, 64}};

/* A Llama of a billion parameters; extents of no name here are the defaults. Those of
 * models/blocks.hr have other names: G of their groups of S numbers. */
static const struct {
    const char *name;
    int64_t extent;
} step_extents[] = {{"O", 2048}, {"C", 2048}, {"F", 8192}, {"H", 32},   {"K", 8},    {"R", 4},
                    {"D", 64},   {"E", 32},   {"S", 4096}, {"M", 2048}, {"N", 2048}, {"V", 128256},
                    {"P", 100},  {"G", 64},   {"B", 64},   {"Q", 64},   {"A", 1}};

static void step_kernel_make(const hr_function *function, int64_t tokens, int compute) {
    int64_t extents[EXTENTS_MAX];
    for (int e = 0; e < function->extent_count; e++) {
        extents[e] = strcmp(function->extents[e], "T") == 0 ? tokens : HR_EXTENT_UNKNOWN;
        for (size_t i = 0; i < sizeof step_extents / sizeof *step_extents; i++)
            if (strcmp(function->extents[e], step_extents[i].name) == 0) extents[e] = step_extents[i].extent;
    }
    if (hr_extent_default(function, extents) != HR_OK ||
        job_make_at(function, extents, NULL, compute, NULL, 0) != HR_OK)
        fail_msg("%s: %s", function->title, hr_last_error());
}

/* HR_TEST_LONG=1: all of them, else some. */
static void test_steps_compile(void **state) {
    static const int computes[] = {80, 90};
    const hr_parse_options options = {.dtype_default = HR_BF16};
    size_t number = 0;
    (void)state;
    for (size_t t = 0; t < sizeof step_texts / sizeof *step_texts; t++) {
        const char *text = (const char *)step_texts[t].text;
        hr_program *program;
        assert_int_equal(hr_program_parse_for("step.hr", text, strlen(text), &options, &program), HR_OK);
        for (int k = 0; k < program->function_count; k++)
            for (size_t c = 0; c < 2; c++)
                if (sample_takes(number++, 17))
                    step_kernel_make(&program->functions[k], step_texts[t].tokens, computes[c]);
        hr_program_destroy(program);
    }
    compile_end(1);
}

/* ---- products ---- */

/* Products whose operands lie and are multiplied in all ways; HR_TEST_LONG=1: by each tile. */
static const char *const products[] = {
    "kernel f8(x: f8e4m3[M, K], w: f8e5m2[N, K], a: f32[M], b: f32[N]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * w[n, k]) * a[m] * b[n] }",
    "kernel scaled(x: f8e4m3[M, N, 128], a: f32[M, N], w: f8e4m3[K, 64, N, 128], s: f32[K, N])\n"
    "    -> (y: bf16[M, K, 64]) {\n"
    "    y[m, n, j] = sum[g, i](x[m, g, i] * a[m, g] * (w[n, j, g, i] * s[n, g])) }",
    "kernel bytes(x: i8[M, K], w: u8[N, K], b: f32[N]) -> (y: f16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * w[n, k]) * b[n] }",
    "kernel parts(x: f32[K, M], w: f32[K, N], b: f32[N]) -> (y: f32[M, N]) {\n"
    "    y[m, n] = relu(sum[k](x[k, m] * w[k, n]) + b[n]) }",
    "kernel mixed(x: f16[M, K], w: bf16[N, K], r: bf16[M, N]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = gelu_tanh(sum[k](x[m, k] * w[n, k])) + r[m, n] }",
    "kernel weights(g: bf16[K, M], x: bf16[K, N], y: inout f32[M, N]) {\n"
    "    y[m, n] = y[m, n] + sum[k](g[k, m] * x[k, n]) }",
    "kernel gated(x: bf16[M, K], g: bf16[N, K], u: bf16[N, K]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = silu(sum[k](x[m, k] * g[n, k])) * sum[k](x[m, k] * u[n, k]) }",
    "kernel three(x: bf16[M, K], p: bf16[K, N], q: bf16[K, N], r: bf16[K, N], b: bf16[N])\n"
    "    -> (y: bf16[M, N], z: bf16[M, N], u: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * p[k, n]) + b[n]\n"
    "    z[m, n] = sum[k](x[m, k] * q[k, n])\n"
    "    u[m, n] = sum[k](x[m, k] * r[k, n]) }",
    "kernel gates(x: bf16[M, K], p: bf16[N, K], q: bf16[N, K], r: bf16[N, K], o: bf16[N, K], s: bf16[M, N])\n"
    "    -> (c: bf16[M, N], y: bf16[M, N]) {\n"
    "    f[m, n] = s[m, n] * sigmoid(sum[k](x[m, k] * p[n, k]))\n"
    "    c[m, n] = f[m, n] + sigmoid(sum[k](x[m, k] * q[n, k])) * tanh(sum[k](x[m, k] * r[n, k]))\n"
    "    y[m, n] = sigmoid(sum[k](x[m, k] * o[n, k])) * tanh(c[m, n]) }",
    "kernel sums(x: bf16[M, K], w: bf16[N, K], r: bf16[M, N]) -> (y: bf16[M, N], c: f32[N], q: f32[M]) {\n"
    "    y[m, n] = sum[k](x[m, k] * w[n, k]) * (1 - tanh(r[m, n])^2)\n"
    "    c[n] = sum[m](y[m, n])\n"
    "    q[m] = rsqrt(mean[n](y[m, n]^2)) }",
    /* walks of several products */
    "kernel heads(x: bf16[M, K], p: bf16[N, K], q: bf16[256, K], r: bf16[256, K], b: bf16[N])\n"
    "    -> (y: bf16[M, N], z: bf16[M, 256], u: bf16[256, M]) {\n"
    "    y[m, n] = sum[k](x[m, k] * p[n, k]) + b[n]\n"
    "    z[m, n] = sum[k](x[m, k] * q[n, k])\n"
    "    u[n, m] = gelu_tanh(sum[k](x[m, k] * r[n, k])) }",
    "kernel gradients(x: bf16[M, K], p: bf16[M, N], q: bf16[M, 384], w: inout f32[384, K]) -> (y: bf16[N, "
    "K]) {\n"
    "    y[n, k] = sum[m](p[m, n] * x[m, k])\n"
    "    w[n, k] = w[n, k] + sum[m](q[m, n] * x[m, k]) }",
    "kernel added(p: f16[M, N], q: f16[M, 256], v: f16[N, K], w: f16[256, K], r: f16[M, K]) -> (y: f16[M, "
    "K]) {\n"
    "    y[m, k] = sum[n](p[m, n] * v[n, k]) + sum[n](q[m, n] * w[n, k]) + r[m, k] }",
    "kernel apart(x: f32[M, K], p: f32[N, K], q: f32[512, K]) -> (y: f32[M, N], z: f32[M, 512]) {\n"
    "    y[m, n] = sum[k](x[m, k] * p[n, k])\n"
    "    z[m, n] = tanh(sum[k](x[m, k] * q[n, k])) }",
    /* computed in registers */
    "kernel rows(x: bf16[M, K], q: i8[N, K], s: f32[N], b: bf16[N]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = gelu_tanh(sum[k](x[m, k] * (q[n, k] * s[n])) + b[n]) }",
    "kernel normed(x: bf16[M, K], g: f32[K], r: f32[M], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](bf16(x[m, k] * r[m] * g[k]) * w[n, k]) }",
    "kernel bits(x: bf16[M, K], q: u8[N, K // 2], s: f16[N, K // 64]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * s[n, k // 64] *\n"
    "        (where(k % 2 == 0, q[n, k // 2] % 16, q[n, k // 2] // 16) - 8)) }",
};

/* Rows that choose their matrix. */
static const char *const grouped[] = {
    "kernel choose(x: bf16[M, K], w: bf16[E, N, K], e: i32[M]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[k](x[m, k] * w[e[m], n, k]) }",
};
static const struct compile_case grouped_cases[] = {{{4096, 4096, 8, 14336}, 90, false},
                                                    {{64, 1000, 64, 72}, 80, false}};

static const struct compile_case product_cases[] = {{{2304, 8192, 2048}, 90, false},
                                                    {{768, 65536, 768}, 90, false},
                                                    {{333, 1001, 515}, 90, false},
                                                    {{512, 512, 512}, 80, false},
                                                    {{333, 1001, 515}, 80, false}};

typedef struct compile_texts {
    const char *const *text;
    const struct compile_case *cases;
    size_t text_count, case_count;
    size_t of; /* so many neighbours, of which one is compiled */
} compile_texts;

static void compile_texts_all(const compile_texts *all) {
    for (size_t t = 0; t < all->text_count; t++) {
        hr_program *program;
        const hr_function *function;
        assert_int_equal(hr_program_parse("text.hr", all->text[t], strlen(all->text[t]), &program), HR_OK);
        assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
        for (size_t c = 0; c < all->case_count; c++) {
            if (!sample_takes(t * all->case_count + c, all->of)) continue;
            if (job_make(function, &all->cases[c], NULL, 0) != HR_OK) fail_msg("%s", hr_last_error());
            if (getenv("HR_TEST_LONG") && all->cases[c].compute == 90)
                candidates_make(function, &all->cases[c]);
        }
        hr_program_destroy(program);
    }
    compile_end(0);
}

static void test_products_compile(void **state) {
    (void)state;
    compile_texts_all(&(compile_texts){products, product_cases, sizeof products / sizeof *products,
                                       sizeof product_cases / sizeof *product_cases, 7});
    compile_texts_all(&(compile_texts){grouped, grouped_cases, 1, 2, 7});
}

/* Matrices that lie apart. Extents: matrices, rows, k, columns; what a table chooses has one more. */
static const char *const apart[] = {
    "kernel plain(x: bf16[B, M, K], w: bf16[B, N, K]) -> (y: bf16[B, M, N]) {\n"
    "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) }",
    "kernel chosen(x: f16[B, M, K], w: f16[B, K, N], t: i32[B], c: f16[B, M, N])\n"
    "    -> (y: f16[B, M, N], z: f16[B, M, N]) {\n"
    "    s[b, m, n] = sum[k](x[t[b], m, k] * w[b, k, n]) + c[b, m, n]\n"
    "    y[b, m, n] = relu(s[b, m, n])\n"
    "    z[b, m, n] = s[b, m, n] }",
    "kernel pair(x: bf16[B, M, K], p: bf16[B, N, K], q: bf16[B, N, K]) -> (y: bf16[B, M, N]) {\n"
    "    y[b, m, n] = silu(sum[k](x[b, m, k] * p[b, n, k])) * sum[k](x[b, m, k] * q[b, n, k]) }",
    "kernel rows(x: bf16[B, M, K]) -> (y: bf16[B, M, K]) {\n"
    "    s[b, m] = sum[k](x[b, m, k])\n"
    "    y[b, m, k] = x[b, m, k] - s[b, m] / K }",
};
static const struct compile_case apart_cases[] = {
    {{40, 512, 512, 512}, 90, false}, {{8, 4096, 1024, 1024}, 90, false}, {{3, 33, 100, 71}, 80, false}};

static void test_members_compile(void **state) {
    (void)state;
    enum { EACH = 3, ARGUMENTS_MAX = 8 };
    const size_t count = sizeof apart_cases / sizeof *apart_cases;
    for (size_t t = 0; t < sizeof apart / sizeof *apart; t++) {
        hr_layout layouts[ARGUMENTS_MAX];
        hr_program *program;
        const hr_function *function;
        assert_int_equal(hr_program_parse("text.hr", apart[t], strlen(apart[t]), &program), HR_OK);
        assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
        for (int i = 0; i < ARGUMENTS_MAX && i < hr_function_arguments(function); i++)
            layouts[i] = function->tensors[i].rank > 1 ? HR_LAYOUT_MEMBERS : HR_LAYOUT_DENSE;
        for (size_t c = 0; c < count; c++)
            if (sample_takes(t * count + c, EACH) && job_make_at(function, apart_cases[c].extents, layouts,
                                                                 apart_cases[c].compute, NULL, 0) != HR_OK)
                fail_msg("%s", hr_last_error());
        hr_program_destroy(program);
    }
    compile_end(0);
}

/* Packed matrices times few vectors. Extents: rows, groups of 64 along k, vectors. */
static const char *const thin[] = {
    "kernel halves(w: bf16[N, G, 64], x: bf16[M, G, 64], b: bf16[N]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[g, i](x[m, g, i] * w[n, g, i]) + b[n] }",
    "kernel bytes(q: i8[N, G, 64], s: bf16[N, G], x: bf16[M, G, 64]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = sum[g, i](x[m, g, i] * (q[n, g, i] * s[n, g])) }",
    "kernel bits(q: u8[N, G, 32], s: f16[N, G], x: f16[M, G, 64]) -> (y: f16[M, N]) {\n"
    "    y[m, n] = silu(sum[g, i](x[m, g, i] * s[n, g] *\n"
    "        (where(i % 2 == 0, q[n, g, i // 2] & 15, q[n, g, i // 2] >> 4) - 8))) }",
};

static const struct compile_case thin_cases[] = {{{4096, 64, 8}, 90, false},
                                                 {{14336, 64, 1}, 90, false},
                                                 {{1000, 60, 5}, 80, false},
                                                 {{14336, 64, 500}, 90, true}};

static void test_thin_compile(void **state) {
    (void)state;
    const size_t count = sizeof thin_cases / sizeof *thin_cases;
    compile_texts_all(&(compile_texts){thin, thin_cases, sizeof thin / sizeof *thin, count, count});
}

/* One query of each head: all keys, as many as a sequence has, in pages. Extents: batch, elements, keys. */
static const char *const decodes[] = {
    "kernel all(q: bf16[B, 64, D], k: bf16[B, J, 8, D], v: bf16[B, J, 8, D]) -> (o: bf16[B, 64, D]) {\n"
    "    s[b, h, j] = sum[d](q[b, h, d] * k[b, j, h // 8, d]) * rsqrt(D)\n"
    "    o[b, h, e] = sum[j](softmax[j](s[b, h, j]) * v[b, j, h // 8, e]) }",
    "kernel ragged(q: f16[B, 32, D], k: f16[B, J, 2, D], v: f16[B, J, 2, D], length: i32[B])\n"
    "    -> (o: f16[B, 32, D], l: f32[B, 32]) {\n"
    "    s[b, h, j] = where(j < length[b], sum[d](q[b, h, d] * k[b, j, h // 16, d]) * rsqrt(D), -inf)\n"
    "    l[b, h] = logsumexp[j](s[b, h, j])\n"
    "    o[b, h, e] = sum[j](softmax[j](s[b, h, j]) * v[b, j, h // 16, e]) }",
    "kernel paged(q: bf16[B, 8, D], k: bf16[L, 64, D], v: bf16[L, 64, D], page: i32[B, L]) -> (o: bf16[B, 8, "
    "D]) {\n"
    "    s[b, h, j < L * 64] = sum[d](q[b, h, d] * k[page[b, j // 64], j % 64, d]) * rsqrt(D)\n"
    "    o[b, h, e] = sum[j < L * 64](softmax[j](s[b, h, j]) * v[page[b, j // 64], j % 64, e]) }",
};

static const struct compile_case decode_cases[] = {{{8, 128, 8192}, 90, false},
                                                   {{64, 64, 8192}, 90, false},
                                                   {{1, 256, 8192}, 90, false},
                                                   {{8, 128, 4096}, 80, false}};

static void test_decodes_compile(void **state) {
    (void)state;
    compile_texts_all(&(compile_texts){decodes, decode_cases, sizeof decodes / sizeof *decodes,
                                       sizeof decode_cases / sizeof *decode_cases, 7});
}

/* Scores as users vary them, of many queries. Extents: batch, queries, width, keys. */
#define SCORED(name, dtype, more, score)                                                                     \
    "kernel " name "(q: " dtype "[B, I, D], k: " dtype "[B, J, D], v: " dtype "[B, J, D]" more               \
    ") -> (o: bf16[B, I, D]) {\n"                                                                            \
    "    s[b, i, j] = " score "\n"                                                                           \
    "    o[b, i, e] = sum[j](softmax[j](s[b, i, j]) * v[b, j, e]) }"
#define DOT "sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D)"
static const char *const scored[] = {
    SCORED("causal", "bf16", "", "where(j <= i, " DOT ", -inf)"),
    SCORED("window", "bf16", "", "where(j <= i and i - j < 1024, " DOT ", -inf)"),
    SCORED("softcap", "f16", "", "where(j <= i, 30 * tanh(" DOT " / 30), -inf)"),
    SCORED("documents", "bf16", ", t: i32[J]", "where(j <= i and t[i + 0] == t[j], " DOT ", -inf)"),
    SCORED("eighths", "f8e4m3", ", f: f32[B]", "where(j <= i, " DOT " * f[b], -inf)"),
};
static const struct compile_case scored_cases[] = {{{64, 4096, 64, 4096}, 90, false},
                                                   {{64, 4096, 128, 4096}, 90, false},
                                                   {{64, 4096, 192, 4096}, 90, false},
                                                   {{64, 4096, 256, 4096}, 90, false},
                                                   {{64, 4096, 128, 4096}, 80, false}};

static void test_scores_compile(void **state) {
    (void)state;
    const size_t count = sizeof scored_cases / sizeof *scored_cases;
    compile_texts_all(
        &(compile_texts){scored, scored_cases, sizeof scored / sizeof *scored, count, 2 * count});
}

/* The gradients of attention. Extents: batch, queries, width, keys. */
#define GRADIENTS(name, more, mask)                                                                          \
    "kernel " name                                                                                           \
    "(do: bf16[B, I, D], q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, D], o: bf16[B, I, D], "           \
    "lse: f32[B, I]" more ")\n    -> (dq: bf16[B, I, D], dk: bf16[B, J, D], dv: bf16[B, J, D]) {\n"          \
    "    p[b, i, j] = where(" mask ", exp(" DOT " - lse[b, i]), 0)\n"                                        \
    "    along[b, i] = sum[d](do[b, i, d] * o[b, i, d])\n"                                                   \
    "    ds[b, i, j] = p[b, i, j] * (sum[d](do[b, i, d] * v[b, j, d]) - along[b, i])\n"                      \
    "    dv[b, j, d] = sum[i](bf16(p[b, i, j]) * do[b, i, d])\n"                                             \
    "    dq[b, i, d] = sum[j](bf16(ds[b, i, j]) * k[b, j, d]) * rsqrt(D)\n"                                  \
    "    dk[b, j, d] = sum[i](bf16(ds[b, i, j]) * q[b, i, d]) * rsqrt(D) }"
static const char *const gradients[] = {
    GRADIENTS("causal", "", "j <= i"),
    GRADIENTS("documents", ", t: i32[J]", "j <= i and t[i + 0] == t[j]"),
};
static const struct compile_case gradient_cases[] = {
    {{64, 4096, 128, 4096}, 90, false}, {{64, 4096, 64, 4096}, 90, false},
    {{64, 4096, 128, 4096}, 80, false}, {{64, 4096, 256, 4096}, 80, false},
    {{64, 4096, 256, 4096}, 90, false}, {{64, 4095, 36, 4095}, 80, false}};

static void test_gradients_compile(void **state) {
    (void)state;
    const size_t count = sizeof gradient_cases / sizeof *gradient_cases;
    compile_texts_all(
        &(compile_texts){gradients, gradient_cases, sizeof gradients / sizeof *gradients, count, count});
}

/* What the test looks for is seen where it is. */
static void test_spills_are_seen(void **state) {
    (void)state;
    static const char source[] =
        "extern \"C\" __global__ void __launch_bounds__(1024, 2) k(const float *x, float *y, int n) {\n"
        "    float a[64], s = 0;\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 64; i++) a[i] = x[i * n + threadIdx.x];\n"
        "    __syncthreads();\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 64; i++) { s += a[i] * x[i]; y[i * 1024 + threadIdx.x] = a[i] * s; }\n"
        "}\n";
    void *cubin = NULL;
    size_t size;
    hr_text log = {0};
    assert_int_equal(hr_cuda_compiler_run(&compiler, "sm_90a", source, &cubin, &size, &log), HR_OK);
    hr_cuda_usage usage = hr_cuda_usage_read(hr_text_data(&log));
    assert_int_equal(usage.registers, 32);
    assert_true(usage.stack > 0 && usage.stores > 0 && usage.loads > 0);
    free(cubin);
    hr_text_clear(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spills_are_seen),  cmocka_unit_test(test_library_compiles),
        cmocka_unit_test(test_steps_compile),    cmocka_unit_test(test_products_compile),
        cmocka_unit_test(test_members_compile),  cmocka_unit_test(test_thin_compile),
        cmocka_unit_test(test_decodes_compile),  cmocka_unit_test(test_scores_compile),
        cmocka_unit_test(test_gradients_compile)};
    hr_cuda_compiler_create(&compiler);
    if (hr_cuda_compiler_find(&compiler, 0) != HR_OK) {
        print_message("skipped: %s\n", hr_last_error());
        return 77;
    }
    jobs = calloc(JOBS_MAX, sizeof *jobs);
    if (!jobs) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(jobs);
    hr_cuda_compiler_destroy(&compiler);
    return failed;
}
