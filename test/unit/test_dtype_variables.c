/* Dtype variables: what a text says of them, what arrays, names and devices bind them to, what becomes of a
 * kernel whose dtype changes, and that instances share nothing. Messages for mistakes stand in
 * test/golden/errors. */
#include "headroom.h"

#include "base/dtype.h"
#include "lang/program.h"
#include "support/cpu_device.h"
#include "support/lang_text.h"
#include "support/random_program.h"

#include <math.h>
#include <pthread.h>

static const char mixed_text[] =
    "kernel mixed(x: T[M, N], w: W[N], a: f32 = 0.1) -> (y: T[M, N], total: f32[M])\n"
    "where T: f32 | bf16 | f64,\n"
    "      W: f16 | i8\n"
    "{\n"
    "    y[m, n] = T(x[m, n] + a) * w[n]\n"
    "    total[m] = sum[n](y[m, n])\n"
    "}\n";

static const hr_function *only(const hr_program *program) {
    const hr_function *function = NULL;
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    return function;
}

static void refuses(hr_status status, const char *part) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), part)) fail_msg("missing \"%s\" in: %s", part, hr_last_error());
}

/* ---- the language ---- */

static void test_defaults(void **state) {
    (void)state;
    hr_program *program = program_of(mixed_text);
    const hr_function *f = only(program);
    assert_int_equal(f->variable_count, 2);
    assert_string_equal(f->variables[0].name, "T");
    assert_int_equal(f->variables[0].dtype, HR_F32);
    assert_int_equal(f->variables[1].dtype, HR_F16); /* f32 is forbidden: the first that is named */
    assert_int_equal(f->variables[0].allowed, 1u << HR_F32 | 1u << HR_BF16 | 1u << HR_F64);
    assert_int_equal(f->tensors[0].dtype, HR_F32);
    assert_ptr_equal(f->tensors[0].variable, &f->variables[0]);
    assert_ptr_equal(f->tensors[1].variable, &f->variables[1]);
    assert_null(f->tensors[2].variable);
    assert_string_equal(f->name, "mixed");
    assert_string_equal(f->title, "mixed T=f32 W=f16");
    assert_string_equal(f->symbol, "kernel_mixed_f32_f16");
    hr_program_destroy(program);
    hr_parse_options options = {.dtype_default = HR_BF16};
    assert_int_equal(hr_program_parse_for("test.hr", mixed_text, strlen(mixed_text), &options, &program),
                     HR_OK);
    assert_string_equal(only(program)->title, "mixed T=bf16 W=f16");
    hr_program_destroy(program);
}

static void test_an_instance_is_the_text_with_its_dtypes(void **state) {
    (void)state;
    hr_program *program = program_of(mixed_text), *made = NULL;
    const hr_function *f = NULL;
    assert_int_equal(hr_function_instantiate(only(program), (hr_dtype[]){HR_F64, HR_I8}, &made, &f), HR_OK);
    hr_program_destroy(program); /* nothing of the instance is the program's */
    assert_string_equal(f->title, "mixed T=f64 W=i8");
    assert_string_equal(f->symbol, "kernel_mixed_f64_i8");
    assert_int_equal(f->tensors[tensor_named(f, "y")].dtype, HR_F64);
    assert_int_equal(f->tensors[tensor_named(f, "w")].dtype, HR_I8);
    assert_int_equal(f->tensors[tensor_named(f, "total")].dtype, HR_F32);
    const hr_expr *product = f->statements[0].value;
    assert_int_equal(product->type, HR_F64);
    assert_int_equal(product->args[0]->op, HR_OP_CONVERT);
    assert_int_equal(product->args[0]->dtype, HR_F64);
    assert_ptr_equal(f->origin, &made->origin);
    hr_program_destroy(made);
}

static void test_instances_that_are_refused(void **state) {
    (void)state;
    hr_program *program = program_of(mixed_text), *made = NULL;
    const hr_function *f = NULL;
    refuses(hr_function_instantiate(only(program), (hr_dtype[]){HR_F16, HR_I8}, &made, &f),
            "the dtype T of kernel mixed (test.hr, line 1) cannot be f16: it is f64 or f32 or bf16");
    refuses(hr_function_instantiate(only(program), (hr_dtype[]){HR_F32, HR_DTYPE_COUNT}, &made, &f),
            "no dtype");
    hr_program_destroy(program);
    program = program_of("kernel k(x: f32[N], at: T[M]) -> (y: f32[M]) where T: i32 | f64\n"
                         "{ y[m] = x[at[m]] }");
    refuses(hr_function_instantiate(only(program), (hr_dtype[]){HR_F64}, &made, &f),
            "kernel k has no meaning with T = f64: ");
    assert_non_null(strstr(hr_last_error(),
                           "test.hr:2:12: error: a subscript is a whole number, and this is a "
                           "float where T is f64"));
    assert_null(made);
    hr_program_destroy(program);
}

/* Roles of one name are its kernel's: T is a dtype in one and an extent in the other. */
static void test_names_are_of_a_kernel(void **state) {
    (void)state;
    hr_program *program =
        program_of("kernel a(x: T[M]) -> (y: T[M]) { y[m] = x[m] }\n"
                   "kernel b(x: M[T]) -> (y: M[T]) { y[t] = x[t] * T }\n"
                   "kernel c(where: f32[N]) -> (y: T) where T: bf16 { y = sum[n](where[n]) }\n"
                   "kernel d(x: Weight_2) -> (y: Weight_2) { y = where(x > 0, x, Weight_2(1)) }\n");
    const hr_function *f = program->functions;
    assert_string_equal(f[0].title, "a T=f32");
    assert_string_equal(f[1].title, "b M=f32");
    assert_string_equal(f[1].extents[0], "T");
    assert_string_equal(f[2].title, "c T=bf16");
    assert_string_equal(f[3].symbol, "kernel_d_f32");
    hr_program_destroy(program);
}

static void test_symbols_keep_their_dtypes(void **state) {
    (void)state;
    char text[512], name[201];
    memset(name, 'k', 200);
    name[200] = 0;
    snprintf(text, sizeof text, "kernel %s(a: A, b: B) -> (y: f32) { y = a + b }", name);
    hr_program *program = program_of(text), *made = NULL;
    const hr_function *f;
    assert_int_equal(hr_function_instantiate(only(program), (hr_dtype[]){HR_F8E4M3, HR_BF16}, &made, &f),
                     HR_OK);
    assert_int_equal(strlen(f->symbol), HR_SYMBOL_MAX);
    assert_string_equal(f->symbol + HR_SYMBOL_MAX - 12, "_f8e4m3_bf16");
    assert_string_equal(f->title + 200, " A=f8e4m3 B=bf16");
    hr_program_destroy(made);
    hr_program_destroy(program);
}

static void *instantiate_often(void *program) {
    static const hr_dtype dtypes[] = {HR_F32, HR_BF16, HR_F64};
    for (int i = 0; i < 60; i++) {
        hr_program *made;
        const hr_function *f;
        if (hr_function_instantiate(only(program), (hr_dtype[]){dtypes[i % 3], HR_I8}, &made, &f) != HR_OK)
            return NULL;
        bool right = f->tensors[0].dtype == dtypes[i % 3] && f->statement_count == 2;
        hr_program_destroy(made);
        if (!right) return NULL;
    }
    return program;
}

static void test_threads_share_a_program(void **state) {
    (void)state;
    hr_program *program = program_of(mixed_text);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, instantiate_often, program), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_ptr_equal(good, program);
    }
    hr_program_destroy(program);
}

/* ---- the API ---- */

static hr_kernel *load_on(hr_device *on, const char *text) {
    hr_kernel *kernel = NULL;
    if (hr_kernel_load(on, "test.hr", text, strlen(text), NULL, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
    return kernel;
}

static hr_dtype bound_dtype(const hr_kernel *kernel, int i) {
    hr_dtype dtype = HR_DTYPE_COUNT;
    assert_int_equal(hr_kernel_dtype(kernel, i, NULL, &dtype), HR_OK);
    return dtype;
}

static hr_status bind(hr_kernel *kernel, const char *name, hr_dtype dtype, void *data, int64_t rows,
                      int64_t columns) {
    int64_t shape[2] = {rows, columns};
    hr_array array = {.size = sizeof array,
                      .data = data,
                      .dtype = dtype,
                      .rank = rows ? 2 : 1,
                      .shape = rows ? shape : shape + 1};
    return hr_kernel_bind(kernel, name, &array);
}

static const char scale_text[] = "kernel scale(x: T[M, N], w: W[N], a: T = 0.3) -> (y: T[M, N])\n"
                                 "{ y[m, n] = x[m, n] * w[n] + a }";

static void test_what_a_kernel_says_of_its_dtypes(void **state) {
    (void)state;
    const char *name = NULL;
    hr_kernel *kernel = load_on(device, scale_text);
    hr_argument argument;
    assert_int_equal(hr_kernel_dtype_count(kernel), 2);
    assert_string_equal(hr_kernel_dtype_name(kernel, 1), "W");
    assert_null(hr_kernel_dtype_name(kernel, 2));
    assert_null(hr_kernel_dtype_name(kernel, -1));
    assert_int_equal(hr_kernel_dtype(kernel, 0, &name, NULL), HR_OK);
    assert_string_equal(name, "T");
    refuses(hr_kernel_dtype(kernel, 2, NULL, NULL), "there is no number 2");
    assert_int_equal(bound_dtype(kernel, 0), HR_F32); /* the CPU's default */
    assert_string_equal(hr_kernel_symbol(kernel), "kernel_scale_f32_f32");
    assert_int_equal(hr_kernel_argument(kernel, 1, &argument), HR_OK);
    assert_string_equal(argument.dtype_variable, "W");
    refuses(hr_kernel_bind_dtype(kernel, "V", HR_BF16), "has no dtype variable `V`; it has T, W");
    refuses(hr_kernel_bind_dtype(kernel, NULL, HR_BF16), "(null)");
    refuses(hr_kernel_bind_dtype(kernel, "T", (hr_dtype)99), "no dtype");
    refuses(hr_kernel_bind_dtype(kernel, "T", HR_I32),
            "the default of a whole-number scalar is a whole number");
    assert_int_equal(bound_dtype(kernel, 0), HR_F32);
    assert_int_equal(hr_kernel_bind_dtype(kernel, "W", HR_F8E5M2), HR_OK);
    assert_string_equal(hr_kernel_symbol(kernel), "kernel_scale_f32_f8e5m2");
    assert_string_equal(argument.name, "w"); /* names outlive the instance */
    hr_kernel_destroy(kernel);
    refuses(hr_kernel_bind_dtype(NULL, "T", HR_F32), "NULL");
    refuses(hr_kernel_dtype(NULL, 0, NULL, NULL), "NULL");
    assert_int_equal(hr_kernel_dtype_count(NULL), 0);
    assert_null(hr_kernel_dtype_name(NULL, 0));
    assert_null(hr_kernel_symbol(NULL));
}

static void test_a_scalar_that_does_not_fit(void **state) {
    (void)state;
    hr_kernel *kernel = load_on(device, "kernel k(a: T) -> (y: T) { y = a }");
    assert_int_equal(hr_kernel_bind_scalar(kernel, "a", 0.5), HR_OK);
    refuses(hr_kernel_bind_dtype(kernel, "T", HR_I32), "the scalar `a` of kernel k is 0.5, which no i32 is");
    assert_int_equal(bound_dtype(kernel, 0), HR_F32);
    assert_int_equal(hr_kernel_bind_scalar(kernel, "a", -3), HR_OK);
    assert_int_equal(hr_kernel_bind_dtype(kernel, "T", HR_I8), HR_OK);
    refuses(hr_kernel_bind_dtype(kernel, "T", HR_U8), "is -3, which no u8 is");
    refuses(hr_kernel_bind_scalar(kernel, "a", 128), "is T, a scalar, and 128 is no such number");
    assert_int_equal(bound_dtype(kernel, 0), HR_I8);
    hr_kernel_destroy(kernel);
}

static void test_a_gpu_has_another_default(void **state) {
    (void)state;
    hr_device *target = NULL;
    const char *source;
    assert_int_equal(hr_device_open("cuda:sm_90a", &target), HR_OK);
    hr_kernel *kernel = load_on(target, scale_text);
    assert_string_equal(hr_kernel_symbol(kernel), "kernel_scale_bf16_bf16");
    assert_int_equal(hr_kernel_source(kernel, &source, NULL), HR_OK);
    assert_non_null(strstr(source, "int kernel_scale_bf16_bf16("));
    assert_int_equal(hr_kernel_bind_dtype(kernel, "T", HR_F16), HR_OK);
    assert_int_equal(hr_kernel_source(kernel, &source, NULL), HR_OK);
    assert_non_null(strstr(source, "int kernel_scale_f16_bf16("));
    hr_kernel_destroy(kernel);
    hr_device_destroy(target);
}

enum { ROWS = 5, COLUMNS = 37, COUNT = ROWS * COLUMNS };

typedef struct arrays {
    uint8_t x[8 * COUNT], y[8 * COUNT], w[8 * COLUMNS];
    hr_dtype t, u;
} arrays;

static void arrays_fill(arrays *a, hr_dtype t, hr_dtype u) {
    a->t = t;
    a->u = u;
    for (size_t i = 0; i < COUNT; i++)
        hr_dtype_store(t, a->x, i, (double)i / 7 - 9);
    for (size_t i = 0; i < COLUMNS; i++)
        hr_dtype_store(u, a->w, i, (double)(i % 5) - 2);
}

/* y = x * w + a, from f64 rounded once; bf16 and f16 may differ in the last place from the rounding of an
 * f32. */
static void arrays_check(const arrays *a, double scalar) {
    double step = a->t == HR_BF16 ? 0x1p-8 : a->t == HR_F16 ? 0x1p-11 : 0x1p-22;
    for (size_t i = 0; i < COUNT; i++) {
        double want = hr_dtype_load(a->t, a->x, i) * hr_dtype_load(a->u, a->w, i % COLUMNS) +
                      hr_dtype_round(a->t, scalar);
        double got = hr_dtype_load(a->t, a->y, i);
        if (fabs(got - want) > step * (fabs(want) + 1e-3)) fail_msg("%zu: %g, should be %g", i, got, want);
    }
}

static void arrays_bind(hr_kernel *kernel, arrays *a) {
    assert_int_equal(bind(kernel, "x", a->t, a->x, ROWS, COLUMNS), HR_OK);
    assert_int_equal(bind(kernel, "w", a->u, a->w, 0, COLUMNS), HR_OK);
    assert_int_equal(bind(kernel, "y", a->t, a->y, ROWS, COLUMNS), HR_OK);
}

/* One kernel, arrays of one dtype after the other; the scalar keeps the value that it was given. */
static void test_arrays_bind_dtypes(void **state) {
    (void)state;
    static const hr_dtype pairs[][2] = {
        {HR_F32, HR_F32}, {HR_BF16, HR_I8}, {HR_F64, HR_F16}, {HR_F32, HR_F32}};
    static arrays a;
    hr_kernel *kernel = load_on(device, scale_text);
    double scalar = 0.3;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        arrays_fill(&a, pairs[i][0], pairs[i][1]);
        arrays_bind(kernel, &a);
        assert_int_equal(bound_dtype(kernel, 0), a.t);
        assert_int_equal(bound_dtype(kernel, 1), a.u);
        if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
        arrays_check(&a, scalar);
        if (i == 0) assert_int_equal(hr_kernel_bind_scalar(kernel, "a", scalar = 1.0 / 3), HR_OK);
    }
    hr_kernel_destroy(kernel);
}

static void test_arrays_that_disagree(void **state) {
    (void)state;
    static arrays a;
    hr_kernel *kernel = load_on(device, scale_text);
    arrays_fill(&a, HR_F32, HR_F32);
    arrays_bind(kernel, &a);
    assert_int_equal(bind(kernel, "y", HR_BF16, a.y, ROWS, COLUMNS), HR_OK);
    refuses(hr_kernel_launch(kernel), "`x` of kernel scale is bound to an array of f32, and T, its dtype, is "
                                      "bf16 by what was given or bound "
                                      "since");
    assert_int_equal(bind(kernel, "y", HR_F32, a.y, ROWS, COLUMNS), HR_OK);
    assert_int_equal(hr_kernel_launch(kernel), HR_OK);
    assert_int_equal(hr_kernel_bind_dtype(kernel, "T", HR_F32), HR_OK); /* given: arrays follow it now */
    refuses(bind(kernel, "x", HR_BF16, a.x, ROWS, COLUMNS),
            "`x` of kernel scale is T[M, N] with T = f32 as it was given; the array given is bf16");
    assert_int_equal(hr_kernel_launch(kernel), HR_OK);
    arrays_check(&a, 0.3);
    hr_kernel_destroy(kernel);
}

static void test_what_was_filled_goes_with_its_dtype(void **state) {
    (void)state;
    hr_kernel *kernel = load_on(device, mixed_text);
    hr_array array = {.size = sizeof array};
    hr_check check;
    assert_int_equal(hr_kernel_bind_extent(kernel, "M", 9), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", 70), HR_OK);
    for (int pass = 0; pass < 3; pass++) {
        hr_dtype dtype = pass == 1 ? HR_BF16 : HR_F32;
        assert_int_equal(hr_kernel_bind_dtype(kernel, "T", dtype), HR_OK);
        if (pass) refuses(hr_kernel_launch(kernel), "tensors that are not bound: x, y");
        assert_int_equal(hr_kernel_fill(kernel, 3), HR_OK);
        assert_int_equal(hr_kernel_array(kernel, "x", &array), HR_OK);
        assert_int_equal(array.dtype, dtype);
        assert_int_equal(hr_kernel_array(kernel, "total", &array), HR_OK);
        assert_int_equal(array.dtype, HR_F32);
        if (hr_kernel_check(kernel, 100, &check) != HR_OK) fail_msg("%s", hr_last_error());
        assert_true(check.ok);
    }
    hr_kernel_destroy(kernel);
}

static void test_lists_bind_dtypes(void **state) {
    (void)state;
    static const char text[] = "kernel twice(x: T[N]) -> (y: T[N]) { y[n] = 2 * x[n] }";
    uint16_t x[2][3] = {{0x3f80, 0x4000, 0x4040}, {0x3f80, 0, 0xbf80}}, y[2][3] = {{0}};
    int64_t shape = 3;
    hr_array in[2], out[2];
    for (int i = 0; i < 2; i++) {
        in[i] = (hr_array){.size = sizeof *in, .data = x[i], .dtype = HR_BF16, .rank = 1, .shape = &shape};
        out[i] = in[i];
        out[i].data = y[i];
    }
    hr_kernel *kernel = load_on(device, text);
    assert_int_equal(hr_kernel_bind_list(kernel, "x", in, 2), HR_OK);
    assert_int_equal(bound_dtype(kernel, 0), HR_BF16);
    assert_int_equal(hr_kernel_bind_list(kernel, "y", out, 2), HR_OK);
    if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
    assert_int_equal(y[0][1], 0x4080);
    assert_int_equal(y[1][2], 0xc000);
    in[1].dtype = HR_F16;
    refuses(hr_kernel_bind_list(kernel, "x", in, 2),
            "array 1 of the list for `x` is f16 and array 0 is bf16");
    hr_kernel_destroy(kernel);
}

/* ---- nothing behind the language knows of variables ---- */

/* The source of the only kernel of a text, with its symbol and its header's guard cut out of it. */
static char *source_of(hr_device *on, const char *text, const hr_random_extent *extents,
                       const hr_random_variables *variables) {
    hr_kernel *kernel = load_on(on, text);
    const char *source;
    for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
        (void)hr_kernel_bind_extent(kernel, extents[i].name, extents[i].value);
    for (int i = 0; variables && i < variables->count; i++)
        if (hr_kernel_bind_dtype(kernel, variables->names[i], variables->dtypes[i]) != HR_OK)
            fail_msg("%s\n%s", hr_last_error(), text);
    if (hr_kernel_source(kernel, &source, NULL) != HR_OK) fail_msg("%s\n%s", hr_last_error(), text);
    char *out = malloc(strlen(source) + 1), *end = out;
    const char *symbol = hr_kernel_symbol(kernel);
    for (const char *at = source; *at;)
        if (strncmp(at, symbol, strlen(symbol)) == 0)
            at += strlen(symbol);
        else
            *end++ = *at++;
    *end = 0;
    hr_kernel_destroy(kernel);
    return out;
}

static void compare_sources(hr_device *on, uint64_t seed) {
    hr_text written = {0}, generic = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    hr_random_variables variables;
    assert_int_equal(hr_random_program(seed, &written, extents), HR_OK);
    assert_int_equal(hr_random_with_variables(&written, &generic, &variables), HR_OK);
    assert_true(variables.count > 0);
    char *one = source_of(on, written.data, extents, NULL);
    char *other = source_of(on, generic.data, extents, &variables);
    if (strcmp(one, other) != 0) fail_msg("seed %d:\n%s\n%s", (int)seed, generic.data, other);
    free(one);
    free(other);
    hr_text_clear(&written);
    hr_text_clear(&generic);
}

static void test_emitted_as_if_dtypes_were_written(void **state) {
    (void)state;
    hr_device *target;
    assert_int_equal(hr_device_open("cuda:sm_90a", &target), HR_OK);
    for (uint64_t seed = 0; seed < 60; seed++) {
        compare_sources(device, seed);
        compare_sources(target, seed);
    }
    hr_device_destroy(target);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_an_instance_is_the_text_with_its_dtypes),
                                       cmocka_unit_test(test_instances_that_are_refused),
                                       cmocka_unit_test(test_names_are_of_a_kernel),
                                       cmocka_unit_test(test_symbols_keep_their_dtypes),
                                       cmocka_unit_test(test_threads_share_a_program),
                                       cmocka_unit_test(test_what_a_kernel_says_of_its_dtypes),
                                       cmocka_unit_test(test_a_scalar_that_does_not_fit),
                                       cmocka_unit_test(test_a_gpu_has_another_default),
                                       cmocka_unit_test(test_arrays_bind_dtypes),
                                       cmocka_unit_test(test_arrays_that_disagree),
                                       cmocka_unit_test(test_what_was_filled_goes_with_its_dtype),
                                       cmocka_unit_test(test_lists_bind_dtypes),
                                       cmocka_unit_test(test_emitted_as_if_dtypes_were_written)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
