/* A function written as text reads back as the same function: all kernels of the library, random programs,
 * and what is easily read as something else. */
#include "ir/extent_form.h"
#include "ir/function_text.h"
#include "lang/program.h"
#include "support/kernel_library.h"
#include "support/random_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANDOM_PROGRAMS = 400 };

/* ---- whether two functions are the same ---- */

static bool is_float(hr_dtype type) {
    return type == HR_F32 || type == HR_F64;
}

static bool same_number(const hr_expr *a, const hr_expr *b) {
    if (!is_float(a->type)) return a->whole == b->whole;
    return (a->number != a->number && b->number != b->number) ||
           memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

static bool same_expr(const hr_expr *a, const hr_expr *b) {
    if (a->op != b->op || a->type != b->type || a->arg_count != b->arg_count ||
        a->bound_count != b->bound_count)
        return false;
    if (a->op == HR_OP_NUMBER && !same_number(a, b)) return false;
    if (a->op == HR_OP_CONVERT && a->dtype != b->dtype) return false;
    if (a->extent != b->extent || a->index != b->index || a->tensor != b->tensor) return false;
    for (int i = 0; i < a->bound_count; i++)
        if (a->bound[i] != b->bound[i]) return false;
    for (int i = 0; i < a->arg_count; i++)
        if (!same_expr(a->args[i], b->args[i])) return false;
    return true;
}

static bool same_tensor(const hr_tensor *a, const hr_tensor *b) {
    if (strcmp(a->name, b->name) != 0 || a->role != b->role || a->dtype != b->dtype || a->rank != b->rank ||
        a->has_default != b->has_default || a->default_value != b->default_value ||
        !a->variable != !b->variable || (a->variable && strcmp(a->variable->name, b->variable->name) != 0))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!hr_extent_identical(a->shape[i], b->shape[i])) return false;
    return true;
}

static bool same_statement(const hr_statement *a, const hr_statement *b) {
    if (a->tensor != b->tensor || a->store != b->store || a->domain_count != b->domain_count ||
        a->subscript_count != b->subscript_count || !same_expr(a->value, b->value))
        return false;
    for (int i = 0; i < a->domain_count; i++)
        if (a->domain[i] != b->domain[i]) return false;
    for (int i = 0; i < a->subscript_count; i++)
        if (!same_expr(a->subscripts[i], b->subscripts[i])) return false;
    return true;
}

static bool same_function(const hr_function *a, const hr_function *b) {
    if (strcmp(a->name, b->name) != 0 || strcmp(a->symbol, b->symbol) != 0 ||
        a->extent_count != b->extent_count || a->parameter_count != b->parameter_count ||
        a->result_count != b->result_count || a->tensor_count != b->tensor_count ||
        a->index_count != b->index_count || a->statement_count != b->statement_count ||
        a->variable_count != b->variable_count)
        return false;
    bool same = true;
    for (int i = 0; i < a->extent_count; i++)
        same = same && strcmp(a->extents[i], b->extents[i]) == 0;
    for (int i = 0; i < a->variable_count; i++)
        same = same && a->variables[i].allowed == b->variables[i].allowed &&
               a->variables[i].dtype == b->variables[i].dtype;
    for (int i = 0; i < a->tensor_count; i++)
        same = same && same_tensor(&a->tensors[i], &b->tensors[i]);
    for (int i = 0; i < a->index_count; i++)
        same = same && strcmp(a->indices[i].name, b->indices[i].name) == 0 &&
               hr_extent_identical(a->indices[i].extent, b->indices[i].extent);
    for (int i = 0; i < a->statement_count; i++)
        same = same && same_statement(&a->statements[i], &b->statements[i]);
    return same;
}

/* ---- round trips ---- */

static void comes_back(const hr_function *function) {
    hr_text text = {0};
    hr_program *again = NULL;
    hr_dtype dtypes[HR_DTYPE_VARIABLE_MAX];
    for (int i = 0; i < function->variable_count; i++)
        dtypes[i] = function->variables[i].dtype;
    hr_parse_options options = {.dtype_default = HR_F32, .kernel = function->name, .dtypes = dtypes};
    assert_int_equal(hr_function_text(function, &text), HR_OK);
    hr_status status = hr_program_parse_for("again.hr", hr_text_data(&text), text.length, &options, &again);
    if (status != HR_OK) fail_msg("%s\nof\n%s", hr_last_error(), hr_text_data(&text));
    const hr_function *read = &again->functions[0];
    if (!same_function(function, read)) {
        hr_text second = {0};
        hr_function_text(read, &second);
        fail_msg("read back as another function:\n%s\nof\n%s", hr_text_data(&second), hr_text_data(&text));
    }
    hr_program_destroy(again);
    hr_text_clear(&text);
}

static void test_library(void **state) {
    (void)state;
    kernel_library *library = calloc(1, sizeof *library);
    assert_non_null(library);
    assert_int_equal(kernel_library_open(library), HR_OK);
    int count = 0;
    for (int i = 0; i < library->count; i++)
        for (int k = 0; k < library->files[i].program->function_count; k++, count++)
            comes_back(&library->files[i].program->functions[k]);
    assert_true(count > 50);
    kernel_library_close(library);
    free(library);
}

static void test_random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_PROGRAMS; seed++) {
        hr_text text = {0};
        hr_random_extent extents[HR_RANDOM_EXTENTS];
        hr_program *program = NULL;
        assert_int_equal(hr_random_program(seed, &text, extents), HR_OK);
        assert_int_equal(hr_program_parse("random.hr", hr_text_data(&text), text.length, &program), HR_OK);
        comes_back(&program->functions[0]);
        hr_program_destroy(program);
        hr_text_clear(&text);
    }
}

/* Statements over x: f32[N], i: i32[N], u: u8[N], d: f64[N]; the text that the function is written as, or
 * NULL for the same one. */
static const char *const statements[][2] = {
    {"y[n] = x[n] - (x[n] - 1)", NULL},
    {"y[n] = x[n] - x[n] - 1", NULL},
    {"y[n] = (x[n] - x[n]) - 1", "y[n] = x[n] - x[n] - 1"},
    {"y[n] = x[n] / (x[n] * 2)", NULL},
    {"y[n] = (x[n] + 1) * 2", NULL},
    {"y[n] = -x[n]^2", NULL},
    {"y[n] = (-x[n])^2", NULL},
    {"y[n] = x[n]^-2", NULL},
    {"y[n] = x[n]^2.0", NULL},
    {"y[n] = x[n]^x[n]^2", NULL},
    {"y[n] = (x[n]^x[n])^2", NULL},
    {"y[n] = -(-x[n])", NULL},
    {"y[n] = x[n] - (-x[n])", NULL},
    {"y[n] = x[n] * -x[n]", NULL},
    {"y[n] = x[n] + (-3)", NULL},
    {"y[n] = where(not (x[n] < 1) and x[n] != 2 or n >= 3, 1.0, 0)",
     "y[n] = where(not x[n] < 1 and x[n] != 2 or n >= 3, 1.0, 0)"},
    {"y[n] = where((x[n] < 1) == (x[n] < 2), x[n], 0)", NULL},
    {"y[n] = where(x[n] < 1 and (x[n] < 2 or true), x[n], -inf)", NULL},
    {"y[n] = n", NULL},
    {"y[n] = n / 2", NULL},
    {"y[n] = n // 2", NULL},
    {"y[n] = n * 2.0", NULL},
    {"y[n] = x[n] * 2.0", "y[n] = x[n] * 2"},
    {"y[n] = f32(n) * 2", "y[n] = n * 2.0"},
    {"y[n] = f32(n) * f32(x[n])", "y[n] = n * f32(x[n])"},
    {"y[n] = f64(x[n]) * f32(d[n])", NULL},
    {"y[n] = f32(d[n])", NULL},
    {"y[n] = f32(2) + x[n]", NULL},
    {"y[n] = bf16(x[n] + 0.1) - 1e-30 * 1e+20", "y[n] = bf16(x[n] + 0.1) - 1e-10"},
    {"y[n] = bool(x[n]) and true", NULL},
    {"y[n] = where(bool(i[n]), i[n], u[n])", NULL},
    {"y[n] = i[n] + u[n] * 3000000000", NULL},
    {"y[n] = i[n] % -3", NULL},
    {"y[n] = exp(2) + exp(2.5) + min(i[n], 3) + max(u[n], 1.5)", NULL},
    {"y[n] = -0.0 * x[n] + nan - inf", NULL},
    {"y[n] = random(7, n) + random(i[n], i[n])", NULL},
    {"y[n] = sum[m < N](x[m] * n) + mean[m < 2 * N + 1](m)",
     "y[n] = sum[m](x[m] * n) + mean[m < 2 * N + 1](m)"},
    {"y[n] = sum[m](1 + 0 * x[m]) + argmax[m](x[m]) + logsumexp[m](x[m])", NULL},
    {"y[n] = sum[m](x[m] * softmax[m](x[m]))", NULL},
    {"y[n] = x[i[n]] + x[where(n > 0, n - 1, 0)] + x[(n + 1) % N]", NULL},
    {"y[n] = gelu_tanh(clamp(x[n], -1, 1)) + abs(i[n]) + floor(x[n] / 3) * 3", NULL},
    {"y[n] = stop(x[n]) * stop(x[n] + 1)", NULL},
    {"y[n] = x[n] + stop(i[n])", "y[n] = x[n] + i[n]"},
    {"y[i[n]] += x[n]", NULL},
};

static void test_statements(void **state) {
    (void)state;
    const char *head = "kernel k(x: f32[N], i: i32[N], u: u8[N], d: f64[N]) -> (y: f32[N])\n{\n    ";
    for (size_t s = 0; s < sizeof statements / sizeof *statements; s++) {
        hr_text text = {0}, written = {0}, wanted = {0};
        hr_program *program = NULL;
        hr_text_format(&text, "%s%s\n}\n", head, statements[s][0]);
        hr_text_format(&wanted, "%s%s\n}\n", head, statements[s][1] ? statements[s][1] : statements[s][0]);
        if (hr_program_parse("k.hr", hr_text_data(&text), text.length, &program) != HR_OK)
            fail_msg("%s", hr_last_error());
        assert_int_equal(hr_function_text(&program->functions[0], &written), HR_OK);
        assert_string_equal(hr_text_data(&written), hr_text_data(&wanted));
        comes_back(&program->functions[0]);
        hr_program_destroy(program);
        hr_text_clear(&text);
        hr_text_clear(&written);
        hr_text_clear(&wanted);
    }
}

static void check_text(const char *text) {
    hr_program *program = NULL;
    if (hr_program_parse("k.hr", text, strlen(text), &program) != HR_OK) fail_msg("%s", hr_last_error());
    hr_text written = {0};
    assert_int_equal(hr_function_text(&program->functions[0], &written), HR_OK);
    assert_string_equal(hr_text_data(&written), text);
    comes_back(&program->functions[0]);
    hr_text_clear(&written);
    hr_program_destroy(program);
}

static void test_declarations(void **state) {
    (void)state;
    check_text("kernel adam(p: inout f32[N], rate: f32 = 1e-05, steps: i32 = 3, half: f32 = 0.5)\n{\n"
               "    p[n] = p[n] - rate * steps * half\n}\n");
    check_text("kernel split(x: T[2 * N, (M + 1) // 2 - 1]) -> (y: T[N], z: f32[4])\n"
               "    where T: f32 | bf16\n{\n"
               "    local[i < N] = 1\n"
               "    y[n] = x[2 * n, 0] + local[n]\n"
               "    z[j] = sum[k < M, l < 3](k * l + j)\n}\n");
    check_text("kernel scatter(at: i32[T], dy: bf16[T, C], table: inout f32[V, C])\n{\n"
               "    table[at[t], c] += dy[t, c]\n}\n");
    check_text("kernel bits(a: i32[N], b: i64[N]) -> (x: i64[N], y: i32[N])\n{\n"
               "    x[n] = (a[n] | 3) & b[n] << 2 xor b[n] >> (a[n] << 1 + n)\n"
               "    y[n] = a[n] & 1 | a[n] xor (a[n] | 5)\n}\n");
    check_text("kernel places(at: i32[T], x: f32[T, C], table: inout f32[V, C])\n{\n"
               "    table[at[t], c] = x[t, c]\n}\n");
    check_text(
        "kernel places(at: i32[T], x: bf16[T, C], table: inout bf16[V, C], row: i64, b: inout i8[C, C])\n"
        "{\n    table[at[t], c] = x[t, c] if at[t] >= 0 and x[t, 0] > 1.5\n"
        "    b[row, c] += i8(x[0, c]) if c < 4\n}\n");
    check_text(
        "kernel long_head(first_parameter: bf16[Batch, Heads, Length, Width],\n"
        "              second_parameter: bf16[Batch, Heads, Length, Width])\n"
        "    -> (result_of_it: bf16[Batch, Heads, Length, Width])\n{\n"
        "    result_of_it[b, h, l, w] = first_parameter[b, h, l, w] * second_parameter[b, h, l, w]\n}\n");
}

/* What defs share is written out, but not without end. */
static void test_shared_without_end(void **state) {
    (void)state;
    hr_text text = {0}, written = {0};
    hr_program *program = NULL;
    hr_text_format(&text, "def d0(x) = x + x\n");
    for (int i = 1; i < 40; i++)
        hr_text_format(&text, "def d%d(x) = d%d(d%d(x))\n", i, i - 1, i - 1);
    hr_text_format(&text, "kernel k(x: f32[N]) -> (y: f32[N]) {\n y[n] = d2(x[n])\n}\n"
                          "kernel endless(x: f32[N]) -> (y: f32[N]) {\n y[n] = d9(x[n])\n}\n");
    assert_int_equal(hr_program_parse("k.hr", hr_text_data(&text), text.length, &program), HR_OK);
    assert_int_equal(hr_function_text(&program->functions[1], &written), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "kernel endless"));
    hr_program_destroy(program);
    hr_text_clear(&text);
    hr_text_clear(&written);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_declarations),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_shared_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
