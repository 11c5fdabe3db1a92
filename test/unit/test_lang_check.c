/* What a checked program says: types, roles, domains, extents; and, from test/golden/errors, every message.
 *
 * HR_UPDATE_GOLDEN=1 writes the messages as they are now; look at the difference before it is committed.
 */
#include "lang/program.h"
#include "support/lang_text.h"

#include "base/text.h"
#include <dirent.h>
#include <math.h>

/* ---- golden messages ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* The message for one file; names without their folder, so that it does not depend on where the tree is. */
static void message_of(const char *folder, const char *name, hr_text *out) {
    char path[1024];
    size_t length;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = file_text(path, &length);
    assert_non_null(text);
    hr_program *program = NULL;
    if (hr_program_parse(name, text, length, &program) == HR_OK) fail_msg("%s has no mistake", name);
    hr_text_format(out, "%s\n", hr_last_error());
    free(text);
}

static bool compare_golden(const char *folder, const char *name, const hr_text *got) {
    char path[1024];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%.*s.txt", folder, (int)strlen(name) - 3, name);
    if (getenv("HR_UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(got->data, 1, got->length, file);
        assert_int_equal(fclose(file), 0);
        return true;
    }
    char *want = file_text(path, &length);
    bool same = want && length == got->length && memcmp(want, got->data, length) == 0;
    if (!same)
        fprintf(stderr, "---- %s should say\n%s---- and says\n%s", name, want ? want : "(no golden file)\n",
                got->data);
    free(want);
    return same;
}

static void test_golden_errors(void **state) {
    (void)state;
    const char *folder = HR_SOURCE_DIR "/test/golden/errors";
    char *names[256];
    size_t count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) && count < 256;)
        if (ends_with(entry->d_name, ".hr")) names[count++] = strdup(entry->d_name);
    closedir(directory);
    qsort(names, count, sizeof *names, by_name);
    assert_true(count >= 15);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        hr_text got = {0};
        message_of(folder, names[i], &got);
        good &= compare_golden(folder, names[i], &got);
        hr_text_clear(&got);
        free(names[i]);
    }
    assert_true(good);
}

/* ---- the texts that users read are right ---- */

static int parse_blocks(const char *path) {
    size_t length;
    char *page = file_text(path, &length);
    assert_non_null(page);
    int count = 0;
    for (char *block = strstr(page, "```hr\n"); block; block = strstr(block, "```hr\n")) {
        block += 6;
        char *end = strstr(block, "```");
        assert_non_null(end);
        hr_program *program = NULL;
        if (hr_program_parse(path, block, (size_t)(end - block), &program) != HR_OK)
            fail_msg("block %d of %s\n%s", count + 1, path, hr_last_error());
        hr_program_destroy(program);
        count++;
        block = end + 3;
    }
    free(page);
    return count;
}

static void test_documented_kernels(void **state) {
    (void)state;
    assert_true(parse_blocks(HR_SOURCE_DIR "/docs/language.md") >= 10);
}

static void test_library_kernels(void **state) {
    (void)state;
    DIR *directory = opendir(HR_SOURCE_DIR "/kernels");
    assert_non_null(directory);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!ends_with(entry->d_name, ".hr")) continue;
        char path[1024];
        size_t length;
        snprintf(path, sizeof path, HR_SOURCE_DIR "/kernels/%s", entry->d_name);
        char *text = file_text(path, &length);
        hr_program *program = NULL;
        if (hr_program_parse(entry->d_name, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
        hr_program_destroy(program);
        free(text);
        count++;
    }
    closedir(directory);
    assert_true(count > 0);
}

/* ---- types ---- */

#define PARAMETERS                                                                                           \
    "a64: f64, a: f32, h: bf16, e: f8e4m3, i64x: i64, i: i32, s: i16, b: u8, c: bool, x: f32[N], t: i32[N]"

/* How the value of `y = text` is typed and converted: f32 (f32, i32) is spelled by op and argument types. */
static void assert_typed(const char *text, const char *want) {
    char body[512];
    snprintf(body, sizeof body, "v[n < N] = %s\n    y = 1", text);
    hr_program *program = kernel_of(PARAMETERS, "f32", body);
    const hr_function *function = &program->functions[0];
    const hr_expr *value = function->statements[0].value;
    hr_text got = {0};
    hr_text_format(&got, "%s", hr_dtype_name(value->type));
    for (int k = 0; k < value->arg_count; k++)
        hr_text_format(&got, " %s%s", value->args[k]->op == HR_OP_CONVERT ? "to " : "",
                       hr_dtype_name(value->args[k]->type));
    if (strcmp(hr_text_data(&got), want) != 0)
        fail_msg("%s is typed '%s', not '%s'", text, hr_text_data(&got), want);
    assert_int_equal(function->tensors[tensor_named(function, "v")].dtype, value->type);
    hr_text_clear(&got);
    hr_program_destroy(program);
}

static void test_compute_types(void **state) {
    (void)state;
    const char *const cases[][2] = {
        {"a64", "f64"},
        {"a", "f32"},
        {"h", "f32"},
        {"e", "f32"},
        {"i64x", "i64"},
        {"i", "i32"},
        {"s", "i32"},
        {"b", "i32"},
        {"c", "bool"},
        {"n", "i64"},
        {"N", "i64"},
        {"1", "i64"},
        {"1.5", "f32"},
        {"inf", "f32"},
        {"true", "bool"},
        /* mixing: the wider, a float over a whole number */
        {"a64 + a", "f64 f64 to f64"},
        {"a + i", "f32 f32 to f32"},
        {"a + i64x", "f32 f32 to f32"},
        {"i + i64x", "i64 to i64 i64"},
        {"i + s", "i32 i32 i32"},
        {"h * n", "f32 f32 to f32"},
        {"i + n", "i64 to i64 i64"},
        {"c + c", "i32 to i32 to i32"},
        {"c * a", "f32 to f32 f32"},
        {"a64 * i", "f64 f64 to f64"},
        /* numbers of the text take the other's type */
        {"a64 * 2", "f64 f64 f64"},
        {"a64 * 0.1", "f64 f64 f64"},
        {"h + 1", "f32 f32 f32"},
        {"i + 1", "i32 i32 i32"},
        {"i64x + 1", "i64 i64 i64"},
        {"i + 1.5", "f32 to f32 f32"},
        {"i + 3000000000", "i64 to i64 i64"},
        {"c + 1", "i32 to i32 i32"},
        {"c + 1.5", "f32 to f32 f32"},
        {"n - 1", "i64 i64 i64"},
        {"a - inf", "f32 f32 f32"},
        /* division */
        {"a / 2", "f32 f32 f32"},
        {"i / 2", "f32 to f32 f32"},
        {"n / N", "f32 to f32 to f32"},
        {"a64 / i", "f64 f64 to f64"},
        {"i64x / i", "f32 to f32 to f32"},
        {"i // 2", "i32 i32 i32"},
        {"i % n", "i64 to i64 i64"},
        {"a // 2", "f32 f32 f32"},
        {"a % i", "f32 f32 to f32"},
        /* powers: a whole literal stays whole */
        {"a^2", "f32 f32 i64"},
        {"a64^-2", "f64 f64 i64"},
        {"i^2", "i32 i32 i64"},
        {"c^2", "i32 to i32 i64"},
        {"i^-1", "f32 to f32 f32"},
        {"a^0.5", "f32 f32 f32"},
        {"2^a", "f32 f32 f32"},
        {"2^n", "f32 f32 to f32"},
        {"a^i", "f32 f32 to f32"},
        {"a^1000", "f32 f32 f32"},
        {"h^a64", "f64 to f64 f64"},
        /* functions */
        {"exp(i)", "f32 to f32"},
        {"exp(a64)", "f64 f64"},
        {"exp(2)", "f32 f32"},
        {"sqrt(c)", "f32 to f32"},
        {"abs(i)", "i32 i32"},
        {"relu(s)", "i32 i32"},
        {"-c", "i32 to i32"},
        {"floor(a)", "f32 f32"},
        {"floor(i)", "i32"},
        {"round(n)", "i64"},
        {"min(i, 2)", "i32 i32 i32"},
        {"max(i, a)", "f32 to f32 f32"},
        {"clamp(i, 0, 6.5)", "f32 to f32 f32 f32"},
        {"clamp(a, 0, 6)", "f32 f32 f32 f32"},
        {"random(i, n)", "f32 to i64 i64"},
        {"random(0, 1)", "f32 i64 i64"},
        {"where(c, 1, 2)", "i64 bool i64 i64"},
        {"where(c, a, 2)", "f32 bool f32 f32"},
        {"where(c, i, a64)", "f64 bool to f64 f64"},
        {"where(c, true, c)", "bool bool bool bool"},
        {"where(c, c, i)", "i32 bool to i32 i32"},
        /* conditions */
        {"a < i", "bool f32 to f32"},
        {"i == 1", "bool i32 i32"},
        {"c == c", "bool to i32 to i32"},
        {"n < N", "bool i64 i64"},
        {"c and a > 0", "bool bool bool"},
        {"not c", "bool bool"},
        {"i < 1.5", "bool to f32 f32"},
        /* conversions */
        {"bf16(a)", "f32 f32"},
        {"i8(a)", "i32 f32"},
        {"f64(i)", "f64 i32"},
        {"bool(a)", "bool f32"},
        {"i64(c)", "i64 bool"},
        {"f32(a)", "f32 f32"},
        /* reductions */
        {"sum[k](x[k])", "f32 f32"},
        {"sum[k](t[k])", "i64 i32"},
        {"sum[k](x[k] > 0)", "i64 to i32"},
        {"sum[k < N](1)", "i64 i64"},
        {"mean[k](t[k])", "f32 to f32"},
        {"max[k](t[k])", "i32 i32"},
        {"min[k](x[k] > 0)", "i32 to i32"},
        {"argmax[k](x[k])", "i64 f32"},
        {"logsumexp[k](t[k])", "f32 to f32"},
        {"sum[k](x[k] * a64)", "f64 f64"},
        {"softmax[n](t[n])", "f32 to f32"},
        {"argmin[k](t[k])", "i64 i32"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        assert_typed(cases[k][0], cases[k][1]);
}

static void assert_number(const char *text, hr_dtype type, double number) {
    char body[512];
    snprintf(body, sizeof body, "y = %s", text);
    hr_program *program = kernel_of("a: f32", "f32", body);
    const hr_expr *value = program->functions[0].statements[0].value;
    assert_int_equal(value->op, HR_OP_NUMBER);
    assert_int_equal(value->type, type);
    assert_true(value->number == number || (isnan(number) && isnan(value->number)));
    if (type == HR_I64) assert_true((double)value->whole == number);
    hr_program_destroy(program);
}

static void test_numbers_fold(void **state) {
    (void)state;
    assert_number("2 * 3 - 10", HR_I64, -4);
    assert_number("1 / 4", HR_F32, 0.25);
    assert_number("-7 // 2", HR_I64, -4);
    assert_number("(-7) // 2", HR_I64, -4);
    assert_number("(-7) % 3", HR_I64, 2);
    assert_number("7 % -3", HR_I64, -2);
    assert_number("2^10", HR_I64, 1024);
    assert_number("2^-1", HR_F32, 0.5);
    assert_number("(-1)^9223372036854775807", HR_I64, -1);
    assert_number("0^9223372036854775807", HR_I64, 0);
    assert_number("7.5 // 2", HR_F32, 3);
    assert_number("-7.5 % 2", HR_F32, 0.5);
    assert_number("7.5 % -2", HR_F32, -0.5);
    assert_number("-inf", HR_F32, -INFINITY);
    assert_number("inf - inf", HR_F32, NAN);
    assert_number("1e-5 * 2", HR_F32, 2e-5);
}

/* ---- what a statement is ---- */

static void test_layernorm(void **state) {
    (void)state;
    size_t length;
    char *text = file_text(HR_SOURCE_DIR "/kernels/layernorm.hr", &length);
    assert_non_null(text);
    hr_program *program = program_of(text);
    const hr_function *f;
    assert_int_equal(hr_program_find(program, "layernorm", &f), HR_OK);
    assert_int_equal(f->parameter_count, 4);
    assert_int_equal(f->result_count, 3);
    assert_int_equal(f->tensor_count, 7);
    assert_string_equal(f->tensors[3].name, "eps");
    assert_true(f->tensors[3].has_default && f->tensors[3].default_value == 1e-5 && f->tensors[3].rank == 0);
    assert_int_equal(f->tensors[4].role, HR_ROLE_RESULT);
    assert_ptr_equal(f->tensors[0].variable, &f->variables[0]);
    assert_int_equal(f->tensors[0].dtype, HR_F32);
    assert_int_equal(f->extent_count, 2);
    const hr_statement *y = &f->statements[2];
    assert_int_equal(y->tensor, 4);
    assert_int_equal(y->domain_count, 2);
    assert_string_equal(f->indices[y->domain[1]].name, "n");
    assert_int_equal(f->indices[y->domain[1]].extent->extent, extent_named(f, "N"));
    assert_int_equal(y->subscripts[1]->index, y->domain[1]);
    size_t line_length;
    assert_memory_equal(hr_program_line(program, y->place.line, &line_length), "    y[m, n] = ", 14);
    assert_int_equal(y->place.column, 5);
    hr_program_destroy(program);
    free(text);
}

static void test_domain_of_scatter(void **state) {
    (void)state;
    hr_program *program = program_of(
        "kernel k(t: i32[T], dy: bf16[T, C], d: inout f32[V, C])\n{\n    d[t[j], c] += dy[j, c]\n}\n");
    const hr_function *f = &program->functions[0];
    const hr_statement *s = &f->statements[0];
    assert_true(s->store == HR_STORE_ADD);
    assert_int_equal(s->domain_count, 2);
    assert_string_equal(f->indices[s->domain[0]].name, "j");
    assert_string_equal(f->indices[s->domain[1]].name, "c");
    assert_int_equal(s->subscripts[0]->op, HR_OP_ELEMENT);
    assert_int_equal(f->indices[s->domain[0]].extent->extent, extent_named(f, "T"));
    hr_program_destroy(program);
    program = program_of("kernel k(x: f32[N]) -> (y: f32[N, N], h: f32[4])\n{\n    y[i, i] += x[i]\n    h[i "
                         "% 4] += x[i]\n}\n");
    assert_int_equal(program->functions[0].statements[0].domain_count, 1);
    assert_int_equal(program->functions[0].statements[1].domain_count, 1);
    hr_program_destroy(program);
    /* inside a reduction, all but its own indices */
    program = program_of("kernel k(x: i32[M, N]) -> (h: i32[5], g: i32[5])\n{\n"
                         "    h[sum[i < N](max[n, k < 4](x[j, n] + i + k)) % 5] += 1\n"
                         "    g[clamp(i32(5 * softmax[n](x[m, n])), 0, 4)] += 1\n}\n");
    assert_int_equal(program->functions[0].statements[0].domain_count, 1);
    assert_int_equal(program->functions[0].statements[1].domain_count, 2);
    hr_program_destroy(program);
}

static void test_softmax_binds_the_outer_index(void **state) {
    (void)state;
    hr_program *program = kernel_of("x: f32[M, N], v: f32[N, E]", "f32[M, E]",
                                    "y[m, e] = sum[n](softmax[n](x[m, n]) * v[n, e])");
    const hr_expr *sum = program->functions[0].statements[0].value, *softmax = sum->args[0]->args[0];
    assert_int_equal(sum->op, HR_OP_REDUCE_SUM);
    assert_int_equal(softmax->op, HR_OP_SOFTMAX);
    assert_int_equal(softmax->bound[0], sum->bound[0]);
    assert_int_equal(program->functions[0].index_count, 3);
    hr_program_destroy(program);
}

static void test_two_bindings_are_two_indices(void **state) {
    (void)state;
    hr_program *program = kernel_of("x: f32[M, N]", "f32[M]", "y[m] = sum[n](x[m, n]) + max[n](x[m, n])");
    const hr_expr *value = program->functions[0].statements[0].value;
    assert_int_not_equal(value->args[0]->bound[0], value->args[1]->bound[0]);
    hr_program_destroy(program);
}

static void test_locals(void **state) {
    (void)state;
    hr_program *program = kernel_of(
        "x: f32[M, N], k: i32[N]", "f32[N]",
        "t[n, m] = x[m, n] * 2\n    u[i < 3] = i\n    w = sum[n](k[n])\n    y[n] = t[n, 0] + u[1] + w");
    const hr_function *f = &program->functions[0];
    const hr_tensor *t = &f->tensors[tensor_named(f, "t")], *u = &f->tensors[tensor_named(f, "u")],
                    *w = &f->tensors[tensor_named(f, "w")];
    assert_int_equal(t->role, HR_ROLE_LOCAL);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0]->extent, extent_named(f, "N"));
    assert_int_equal(t->dtype, HR_F32);
    assert_int_equal(u->dtype, HR_I64);
    assert_int_equal(u->shape[0]->whole, 3);
    assert_int_equal(w->rank, 0);
    assert_int_equal(w->dtype, HR_I64);
    hr_program_destroy(program);
}

static void count_ids(const hr_expr *expr, int *seen) {
    if (seen[expr->id]++) return;
    for (int i = 0; i < expr->arg_count; i++)
        count_ids(expr->args[i], seen);
}

static void test_ids_are_dense(void **state) {
    (void)state;
    hr_program *program =
        kernel_of("x: f32[M, 2 * N]", "f32[M]", "t[m] = sum[n](x[m, n]^2)\n    y[m] = t[m] + t[m]");
    const hr_function *f = &program->functions[0];
    int *seen = calloc((size_t)f->expr_count, sizeof *seen);
    for (int i = 0; i < f->statement_count; i++)
        count_ids(f->statements[i].value, seen); /* the sanitizer watches for ids out of range */
    free(seen);
    hr_program_destroy(program);
}

static void test_limits(void **state) {
    (void)state;
    const char *many =
        "kernel k() -> (y: f32)\n{\n    y = sum[a < 2, b < 2, c < 2, d < 2, e < 2, f < 2, g < 2, h < 2, "
        "i < 2, j < 2, k < 2, l < 2, m < 2, n < 2, o < 2, p < 2, q < 2](1)\n}\n";
    assert_mistake(many, strlen(many), "1 to 16 indices");
    hr_text text = {0};
    hr_text_format(&text, "kernel k() -> (y: f32)\n{\n    y = ");
    for (int i = 0; i < 65; i++)
        hr_text_format(&text, "sum[i%d < 2](", i);
    hr_text_format(&text, "1");
    for (int i = 0; i < 65; i++)
        hr_text_format(&text, ")");
    hr_text_format(&text, "\n}\n");
    assert_mistake(hr_text_data(&text), text.length, "at most 64 can be in use");
    hr_text_clear(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden_errors),
                                       cmocka_unit_test(test_documented_kernels),
                                       cmocka_unit_test(test_library_kernels),
                                       cmocka_unit_test(test_compute_types),
                                       cmocka_unit_test(test_numbers_fold),
                                       cmocka_unit_test(test_layernorm),
                                       cmocka_unit_test(test_domain_of_scatter),
                                       cmocka_unit_test(test_softmax_binds_the_outer_index),
                                       cmocka_unit_test(test_two_bindings_are_two_indices),
                                       cmocka_unit_test(test_locals),
                                       cmocka_unit_test(test_ids_are_dense),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
