/* Code that was emitted for some extents and runs at others: it is right there, or it refuses them by its
 * return code; what is for any extents is right at all of them. Random programs at small extents, compared
 * with their meaning; whole numbers that leave 32 bits, positions that f32 does not hold, at up to 2^33
 * points, compared with plain C.
 */
#include "device/device.h"
#include "emit/emit.h"
#include "plan/assumption.h"
#include "run/kernel.h"
#include "schedule/target.h"
#include "support/cpu_device.h"
#include "support/random_program.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* ---- what was emitted ---- */

typedef struct emitted_code {
    hr_plan *plan;
    hr_module *module;
} emitted_code;

static const hr_schedule_options as_planned = {0}, for_any = {.general = true};

static void code_of(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                    const hr_schedule_options *options, emitted_code *out) {
    hr_emitted emitted;
    good(hr_schedule_create(function, extents, layouts, &device->limits, options, &out->plan));
    if (options->general) assert_null(out->plan->graph->assumptions);
    good(hr_emit_c_loaded(out->plan, &emitted));
    good(device->ops->compile(device, hr_text_data(&emitted.source), emitted.source.length,
                              HR_COMPILE_VECTOR_512, &out->module));
    hr_emitted_clear(&emitted);
}

static void code_end(emitted_code *code) {
    device->ops->unload(device, code->module);
    hr_plan_destroy(code->plan);
}

/* As the emitted function asks. */
static bool holds(const hr_plan *plan, const int64_t *extents) {
    for (const hr_assumption *a = plan->graph->assumptions; a; a = a->next)
        if (!hr_assumption_holds(plan->normal, a, extents)) return false;
    return true;
}

/* ---- random programs ---- */

/* HR_OK, HR_WRONG_RESULT, or what the launch said, of a kernel that is prepared for its own extents and runs
 * the other code. */
static hr_status run_other(hr_kernel *kernel, const emitted_code *code, hr_check *check) {
    hr_prepared *state = kernel->current;
    hr_module *own = state->module;
    const int64_t size = state->scratch_size;
    hr_status status =
        hr_emit_scratch(code->plan, state->extents, state->launch_threads, &state->scratch_size);
    if (status == HR_OK) status = hr_launch_refresh(kernel, state);
    state->module = code->module;
    if (status == HR_OK) status = hr_kernel_check(kernel, 200, check);
    state->module = own;
    state->scratch_size = size;
    return status;
}

static void bind_extents(hr_kernel *kernel, const hr_random_extent *extents, uint64_t shift) {
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 16, 33, 64, 100, 129, 260, 1000};
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++) {
        const char *name;
        int64_t value;
        hr_kernel_extent(kernel, e, &name, &value);
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            if (strcmp(name, extents[i].name) == 0)
                good(hr_kernel_bind_extent(
                    kernel, name,
                    shift ? sizes[(shift * 5 + (uint64_t)i * 7) % (sizeof sizes / sizeof *sizes)]
                          : extents[i].value));
    }
}

#define RELATIVE_MOST 1e-4

static void check_program(uint64_t seed, int others, const hr_schedule_options *options) {
    hr_text text = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    emitted_code code = {0};
    int ran = 0;
    assert_int_equal(hr_random_program(seed, &text, extents), HR_OK);
    for (int n = 0; n <= others; n++) {
        hr_kernel *kernel;
        hr_check check = {0};
        good(hr_kernel_load(device, "random.hr", hr_text_data(&text), text.length, NULL, &kernel));
        bind_extents(kernel, extents, n ? seed * 31 + (uint64_t)n : 0);
        good(hr_kernel_fill(kernel, seed));
        good(hr_kernel_prepare(kernel, NULL));
        const hr_prepared *state = kernel->current;
        if (n == 0) code_of(kernel->function, state->extents, state->layouts, options, &code);
        hr_status status = run_other(kernel, &code, &check);
        const bool accepts = holds(code.plan, state->extents);
        /* sums that are planned for few terms may be a little less exact over many */
        const bool right = status == HR_OK && (check.ok || check.relative_error < RELATIVE_MOST);
        if (accepts ? !right : status == HR_OK)
            fail_msg("seed %llu, extents %d: %s %s\n%s", (unsigned long long)seed, n,
                     status == HR_OK ? check.where : hr_last_error(), accepts ? "" : "(should be refused)",
                     hr_text_data(&text));
        ran += accepts;
        hr_kernel_destroy(kernel);
    }
    assert_true(ran > 0);
    code_end(&code);
    hr_text_clear(&text);
}

static void test_random_programs(void **state) {
    (void)state;
    for (size_t seed = 0; seed < 60; seed++)
        if (sample_takes(seed, 15))
            check_program(5000 + seed, getenv("HR_TEST_LONG") ? 8 : 4, seed % 2 ? &for_any : &as_planned);
}

/* ---- whole numbers ---- */

typedef struct place {
    int64_t m, n, m_extent, n_extent;
} place;

static bool is_fifth(place p) {
    return (p.m * p.n_extent + p.n) % 5 == 0;
}

static bool is_past_diagonal(place p) {
    return 3 * p.n - 2 * p.m > p.n_extent;
}

static bool is_in_third_block(place p) {
    return (p.n * p.m_extent + p.m) / 1000 % 3 == 1;
}

static bool is_squared(place p) {
    return (p.n * p.n + p.m) % 7 < 3;
}

static bool is_clamped(place p) {
    const int64_t least = p.n < p.m ? p.n : p.m;
    return least * 4097 % 11 == 4;
}

static bool is_never(place p) {
    return p.n < 0;
}

static bool is_last(place p) {
    return p.n > p.n_extent - 3;
}

/* w[m] = the largest n % 1009 of all n that `text` chooses. */
static const struct whole_case {
    const char *text;
    bool (*chosen)(place p);
} wholes[] = {
    {"(m * N + n) % 5 == 0", is_fifth},
    {"3 * n - 2 * m > N", is_past_diagonal},
    {"(n * M + m) // 1000 % 3 == 1", is_in_third_block},
    {"(n * n + m) % 7 < 3", is_squared},
    {"min(n, m) * 4097 % 11 == 4", is_clamped},
};

/* ---- random ones: sums, products, quotients and remainders of m, n, M, N and small numbers ---- */

enum { NODES_MOST = 17 }; /* of three levels, and a remainder of all that */

typedef struct whole_node {
    char op; /* + - * / % for what the language calls // and %; m n M N; 0 = a number */
    int64_t value;
    int a, b; /* nodes before this one */
} whole_node;

typedef struct whole_tree {
    whole_node nodes[NODES_MOST];
    int count;
} whole_tree;

static whole_tree drawn; /* the case in hand */

static uint64_t chance;

static int draw(int below) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((chance >> 33) % (uint64_t)below);
}

static int tree_add(whole_node node) {
    assert_true(drawn.count < NODES_MOST);
    drawn.nodes[drawn.count] = node;
    return drawn.count++;
}

/* Divisors are numbers above 0; a product has a side that is an index or an extent. */
static int tree_draw(int depth) {
    static const char leaves[] = "mnnMN", ops[] = "+-**/%";
    if (depth == 0 || draw(4) == 0)
        return draw(4) ? tree_add((whole_node){.op = leaves[draw(5)]})
                       : tree_add((whole_node){.value = 1 + draw(draw(2) ? 9 : 5000)});
    const char op = ops[draw(6)];
    const int a = tree_draw(depth - 1);
    const int b = op == '/' || op == '%' ? tree_add((whole_node){.value = 2 + draw(draw(2) ? 9 : 5000)})
                                         : tree_draw(op == '*' ? 0 : depth - 1);
    return tree_add((whole_node){.op = op, .a = a, .b = b});
}

static void tree_print(int node, hr_text *out) {
    const whole_node *at = &drawn.nodes[node];
    if (!at->op)
        hr_text_format(out, "%lld", (long long)at->value);
    else if (strchr("mnMN", at->op))
        hr_text_format(out, "%c", at->op);
    else {
        hr_text_format(out, "(");
        tree_print(at->a, out);
        hr_text_format(out, at->op == '/' ? " // " : " %c ", at->op);
        tree_print(at->b, out);
        hr_text_format(out, ")");
    }
}

/* `*fits`: it, and all that it is made of, is an i64. */
static int64_t tree_value(int node, const place *p, bool *fits) {
    const whole_node *at = &drawn.nodes[node];
    int64_t a, b, value = 0;
    switch (at->op) {
    case 0:
        return at->value;
    case 'm':
        return p->m;
    case 'n':
        return p->n;
    case 'M':
        return p->m_extent;
    case 'N':
        return p->n_extent;
    default:
        a = tree_value(at->a, p, fits), b = tree_value(at->b, p, fits);
    }
    if (at->op == '+')
        *fits &= !__builtin_add_overflow(a, b, &value);
    else if (at->op == '-')
        *fits &= !__builtin_sub_overflow(a, b, &value);
    else if (at->op == '*')
        *fits &= !__builtin_mul_overflow(a, b, &value);
    else if (at->op == '/')
        value = a / b - (a % b < 0);
    else
        value = a % b + (a % b < 0 ? b : 0);
    return value;
}

static bool is_drawn(place p) {
    bool fits = true;
    return tree_value(drawn.count - 1, &p, &fits) == 0;
}

/* Whether the values at both ends of both axes fit: all others lie between, or are remainders. */
static bool tree_fits(const int64_t *extents) {
    bool fits = true;
    for (int corner = 0; corner < 4 && fits; corner++) {
        const place p = {corner & 1 ? extents[0] - 1 : 0, corner & 2 ? extents[1] - 1 : 0, extents[0],
                         extents[1]};
        tree_value(drawn.count - 1, &p, &fits);
    }
    return fits;
}

static float whole_expected(const struct whole_case *one, place p) {
    int64_t most = -1;
    for (p.n = 0; p.n < p.n_extent && most < 1008; p.n++)
        if (p.n % 1009 > most && one->chosen(p)) most = p.n % 1009;
    return (float)most;
}

/* Where the factor comes from: a scalar, or an array of N elements that are all the same one, with stride 0.
 */
typedef enum factor { FACTOR_SCALAR, FACTOR_VIEW } factor;

/* Returns whether the extents, of M and N, were taken; what was computed there is right, and nothing was
 * where they were refused. */
static bool whole_runs(const struct whole_case *one, factor factor, const emitted_code *code,
                       const int64_t *extents) {
    const int threads = device->limits.threads;
    float *w = calloc((size_t)extents[0] + 1, sizeof *w);
    int64_t size;
    float unit = 1;
    void *scratch = NULL;
    const int64_t other[] = {extents[1], extents[0]}, strides[] = {0, 1}, *in_order = extents;
    if (factor == FACTOR_VIEW) in_order = other; /* N stands first in that text */
    assert_non_null(w);
    good(hr_emit_scratch(code->plan, in_order, threads, &size));
    if (size) good(device->ops->allocate(device, (size_t)size, &scratch));
    const hr_execution execution = {.pointers = (void *[]){&unit, w},
                                    .scalars = (double[]){1, 0},
                                    .extents = in_order,
                                    .strides = factor == FACTOR_VIEW ? strides : strides + 1,
                                    .scratch = scratch,
                                    .scratch_bytes = size,
                                    .threads = threads,
                                    .count = 2,
                                    .extent_count = 2,
                                    .stride_count = factor == FACTOR_VIEW ? 2 : 1};
    const bool taken = device->ops->launch(device, code->module, &execution, NULL) == HR_OK;
    assert_int_equal(taken, holds(code->plan, in_order));
    for (int64_t k = 0; k < 3 && taken; k++) {
        const place p = {(extents[0] - 1) * k / 2, 0, extents[0], extents[1]};
        if (k && p.m == (extents[0] - 1) * (k - 1) / 2) continue;
        const float expected = whole_expected(one, p);
        if (w[p.m] != expected)
            fail_msg("%s at M = %lld, N = %lld: w[%lld] is %g, not %g", one->text, (long long)extents[0],
                     (long long)extents[1], (long long)p.m, (double)w[p.m], (double)expected);
    }
    for (int64_t m = 0; m < extents[0] && !taken; m++)
        assert_true(w[m] == 0);
    if (scratch) device->ops->release(device, scratch, (size_t)size);
    free(w);
    return taken;
}

/* Planned for extents, at others: how many of them are taken. */
static int whole_taken(const struct whole_case *one, factor factor, const hr_schedule_options *options,
                       const int64_t *planned, const int64_t (*sizes)[2], int count) {
    char text[400];
    hr_program *program;
    const hr_function *function;
    emitted_code code;
    const bool view = factor == FACTOR_VIEW;
    const hr_layout layouts[] = {view ? HR_LAYOUT_STRIDED : HR_LAYOUT_DENSE, HR_LAYOUT_DENSE};
    const int64_t other[] = {planned[1], planned[0]};
    int taken = 0;
    snprintf(text, sizeof text,
             "kernel k(s: f32%s) -> (w: f32[M])\n{\n"
             "    w[m] = max[n < N](where(%s, f32(n %% 1009) * s%s, 0 - s%s))\n}\n",
             view ? "[N]" : "", one->text, view ? "[n]" : "", view ? "[n]" : "");
    good(hr_program_parse("whole.hr", text, strlen(text), &program));
    good(hr_program_find(program, NULL, &function));
    assert_string_equal(function->extents[0], view ? "N" : "M");
    code_of(function, view ? other : planned, layouts, options, &code);
    for (int i = 0; i < count; i++)
        taken += whole_runs(one, factor, &code, sizes[i]);
    code_end(&code);
    hr_program_destroy(program);
    return taken;
}

static void test_wholes(void **state) {
    (void)state;
    static const int64_t few[] = {4, 1000},
                         sizes[][2] = {{1, 1}, {7, 999}, {300, 50000}, {50000, 50000}, {3, 1 << 20}};
    static const int64_t many[] = {1, INT64_C(1) << 33}, vast[][2] = {{1, INT64_C(1) << 33}, {8, 1 << 30}};
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        const bool all = sample_is_long(i);
        assert_true(whole_taken(&wholes[i], FACTOR_SCALAR, &as_planned, few, sizes, all ? 5 : 3) > 0);
        assert_int_equal(whole_taken(&wholes[i], FACTOR_SCALAR, &for_any, few, sizes, all ? 5 : 3),
                         all ? 5 : 3);
        /* refused at once, and taken by what is planned for them */
        assert_int_equal(whole_taken(&wholes[i], FACTOR_SCALAR, &as_planned, few, vast, 2), 0);
        if (all) assert_true(whole_taken(&wholes[i], FACTOR_SCALAR, &as_planned, many, vast, 2) > 0);
    }
}

/* An array of one element, seen as many. */
static void test_views(void **state) {
    (void)state;
    static const int64_t few[] = {4, 1000}, sizes[][2] = {{7, 999}, {3, 1 << 20}, {1, INT64_C(1) << 33}};
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        assert_true(
            whole_taken(&wholes[i], FACTOR_VIEW, &as_planned, few, sizes, sample_is_long(i + 7) ? 3 : 2) > 0);
}

/* Random conditions, planned at random extents, at others: up to 2^33 points, those of an array of one
 * element with stride 0 (every eighth, in the long form). What is taken is right, what is not is refused
 * before anything is written. */
static void check_drawn(uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 7, 100, 999, 4096, 50000, 1 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes, POINTS_QUICK = 1 << 22, OTHERS = 5, VAST = 8 };
    const bool all = getenv("HR_TEST_LONG") && seed % VAST == 0;
    chance = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    drawn.count = 0;
    tree_draw(3);
    hr_text text = {0};
    tree_print(drawn.count - 1, &text);
    hr_text_format(&text, " %% %d == 0", 2 + draw(9));
    const int modulus = tree_add((whole_node){.value = atoi(strrchr(hr_text_data(&text), '%') + 2)});
    tree_add((whole_node){.op = '%', .a = modulus - 1, .b = modulus});
    int64_t others[OTHERS + 1][2], planned[2] = {sizes[draw(SIZES - 2)], sizes[draw(SIZES - 1)]};
    int count = 0;
    for (int i = 0; i < OTHERS; i++) {
        const int64_t extents[] = {sizes[draw(SIZES - 1)], sizes[draw(SIZES)]};
        if (extents[0] * extents[1] > POINTS_QUICK || !tree_fits(extents)) continue;
        memcpy(others[count++], extents, sizeof extents);
    }
    const int64_t vast[] = {1 << draw(3), INT64_C(1) << 33};
    if (all && tree_fits(vast)) {
        memcpy(others[count], vast, sizeof vast);
        others[count++][1] /= vast[0];
    }
    if (tree_fits(planned))
        whole_taken(&(struct whole_case){hr_text_data(&text), is_drawn}, (factor)draw(2), &as_planned,
                    planned, (const int64_t(*)[2])others, count);
    hr_text_clear(&text);
}

static void test_drawn(void **state) {
    (void)state;
    for (size_t seed = 0; seed < 400; seed++)
        if (sample_takes(seed, 60)) check_drawn(seed);
}

/* At 2^33 points: refused at once by 32 bits a lane that are too few, else right, as what is planned for so
 * many is. */
static void test_drawn_vast(void **state) {
    (void)state;
    static const int64_t few[] = {4, 1000}, vast[][2] = {{1, INT64_C(1) << 33}};
    static const struct whole_case never = {"n < 0", is_never}, late = {"n > N - 3", is_last};
    assert_int_equal(whole_taken(&late, FACTOR_SCALAR, &as_planned, few, vast, 1), 0);
    if (!sample_is_long(15)) return;
    whole_taken(&late, FACTOR_VIEW, &as_planned, few, vast, 1);
    assert_int_equal(whole_taken(&never, FACTOR_VIEW, &as_planned, vast[0], vast, 1), 1);
    assert_int_equal(whole_taken(&late, FACTOR_VIEW, &as_planned, vast[0], vast, 1), 1);
}

/* What is emitted for many holds for all. */
static void test_all_are_taken(void **state) {
    (void)state;
    static const int64_t many[] = {64, INT64_C(1) << 31}, sizes[][2] = {{1, 1}, {7, 999}, {300, 50000}};
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        assert_int_equal(whole_taken(&wholes[i], FACTOR_SCALAR, &as_planned, many, sizes, 3), 3);
}

/* ---- positions ---- */

/* Rows beyond 2^24 are no positions in f32, nor is an axis counted in groups that does not split so. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t planned[5], other[5], good[5];
        const char *words;
    } cases[] = {
        {"kernel am(x: bf16[M, N]) -> (a: i64[N])\n{\n    a[n] = argmax[m](x[m, n])\n}\n",
         {16384, 4096},
         {(1 << 24) + 1001, 8},
         {(1 << 24) - 1, 8},
         "M stays from 0 to 16777215"},
        {"kernel row(x: i8[M, N]) -> (a: i64[M])\n{\n    a[m] = argmax[n](x[m, n])\n}\n",
         {64, 4096},
         {1, INT64_C(1) << 31},
         {1, 1 << 29},
         "every part of N stays below 2^30"},
        {"kernel pick(x: f32[N]) -> (w: f32[M])\n{\n"
         "    w[m] = sum[n](where((m * N + n) % 5 == 0, x[n], 0))\n}\n",
         {1000, 4},
         {50000, 50000},
         {32000, 32000},
         "every part of (m * N + n) % 5 stays below 2^30"},
        {"kernel heads(q: f32[B, H, D], k: f32[B, J, T, D]) -> (s: f32[B, H, T])\n{\n"
         "    s[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d])\n}\n",
         {2, 8, 32, 2, 64},
         {2, 9, 32, 2, 64},
         {1, 12, 5, 4, 7},
         "J * (H // J) is H"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_program *program;
        const hr_function *function;
        hr_plan *plan;
        hr_emitted emitted;
        good(hr_program_parse("refused.hr", cases[i].text, strlen(cases[i].text), &program));
        good(hr_program_find(program, NULL, &function));
        good(hr_schedule_create(function, cases[i].planned, NULL, &device->limits, NULL, &plan));
        if (!holds(plan, cases[i].planned) || !holds(plan, cases[i].good) || holds(plan, cases[i].other))
            fail_msg("of case %zu the wrong extents are taken", i);
        good(hr_emit_c(plan, NULL, &emitted));
        if (!strstr(hr_text_data(&emitted.source), cases[i].words) ||
            !strstr(hr_text_data(&emitted.header), cases[i].words))
            fail_msg("nothing says that %s in\n%s", cases[i].words, hr_text_data(&emitted.header));
        hr_emitted_clear(&emitted);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_wholes),
        cmocka_unit_test(test_views),          cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_drawn_vast),     cmocka_unit_test(test_all_are_taken),
        cmocka_unit_test(test_random_programs)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
