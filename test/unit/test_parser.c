/* The shape of expressions and statements, and texts that mean harm. */
#include "lang/program.h"
#include "support/lang_text.h"

#include "base/text.h"
#include <math.h>

/* The value of the only statement's expression with brackets around every operation. */
static void spell(const hr_function *function, const hr_expr *expr, hr_text *out) {
    const char *name = hr_op_info_of(expr->op)->name;
    if (expr->op == HR_OP_NUMBER && (expr->type == HR_I64 || expr->type == HR_I32))
        hr_text_format(out, "%lld", (long long)expr->whole);
    else if (expr->op == HR_OP_NUMBER)
        hr_text_format(out, "%g", expr->number);
    else if (expr->op == HR_OP_INDEX)
        hr_text_format(out, "%s", function->indices[expr->index].name);
    else if (expr->op == HR_OP_ELEMENT)
        hr_text_format(out, "%s", function->tensors[expr->tensor].name);
    else if (expr->op == HR_OP_CONVERT)
        spell(function, expr->args[0], out);
    else {
        hr_text_format(out, "(");
        if (expr->arg_count == 2) spell(function, expr->args[0], out);
        hr_text_format(out, "%s", name);
        spell(function, expr->args[expr->arg_count - 1], out);
        hr_text_format(out, ")");
    }
}

static void assert_spelled(const char *text, const char *want) {
    hr_program *program =
        kernel_of("a: f32, b: f32, c: f32, d: f32, p: bool, q: bool, i: i32, j: i32", "f32", text);
    const hr_function *function = &program->functions[0];
    hr_text out = {0};
    spell(function, function->statements[0].value, &out);
    assert_string_equal(hr_text_data(&out), want);
    hr_text_clear(&out);
    hr_program_destroy(program);
}

static void test_precedence(void **state) {
    (void)state;
    assert_spelled("y = a + b * c", "(a+(b*c))");
    assert_spelled("y = a - b - c", "((a-b)-c)");
    assert_spelled("y = a / b * c // d % a", "((((a/b)*c)//d)%a)");
    assert_spelled("y = -a^b^c", "(-(a^(b^c)))");
    assert_spelled("y = a^-b * c", "((a^(-b))*c)");
    assert_spelled("y = -a * -b", "((-a)*(-b))");
    assert_spelled("y = (a + b) * c", "((a+b)*c)");
    assert_spelled("y = p or q and not a < b + c", "(por(qand(not(a<(b+c)))))");
    assert_spelled("y = not not p", "(not(notp))");
    assert_spelled("y = not a == b and q", "((not(a==b))andq)");
    assert_spelled("y = (a < b) == (c != d)", "((a<b)==(c!=d))");
    assert_spelled("y = a - 2^3 * b", "(a-(8*b))");
}

static void test_lines(void **state) {
    (void)state;
    assert_spelled("y = a +\n b", "(a+b)");
    assert_spelled("y = a\n + b # comment\n\n  # more\n  - c", "((a+b)-c)");
    assert_spelled("y = (a\n * b)", "(a*b)");
    assert_spelled("y = p\n or\n q", "(porq)");
    assert_spelled("y\n= a", "a");
    assert_spelled("y = max(a\n, b\n)", "(amaxb)");
}

static void test_words_are_not_reserved(void **state) {
    (void)state;
    hr_program *program = program_of(
        "kernel kernel(mean: f32[N], exp: f32[N], f32: f32, inout: inout f32[N], for: f32, int: i32[N])\n"
        "    -> (def: f32[N], sum: f32)\n"
        "{\n"
        "    def[max] = mean[max] + exp(exp[max]) * f32 + for - f32(int[max])\n"
        "    sum = sum[kernel](def[kernel] * mean[kernel])\n"
        "    inout[double] = def[double]\n"
        "}\n");
    assert_int_equal(program->functions[0].statement_count, 3);
    assert_string_equal(program->functions[0].name, "kernel");
    hr_program_destroy(program);
}

static void test_def_shares_arguments(void **state) {
    (void)state;
    hr_text text = {0};
    hr_text_format(&text, "def square(x) = x * x\nkernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = ");
    for (int i = 0; i < 60; i++)
        hr_text_format(&text, "square(");
    hr_text_format(&text, "x[i]");
    for (int i = 0; i < 60; i++)
        hr_text_format(&text, ")");
    hr_text_format(&text, "\n}\n");
    hr_program *program = program_of(hr_text_data(&text));
    assert_true(program->functions[0].expr_count < 100);
    const hr_expr *value = program->functions[0].statements[0].value;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(value->op, HR_OP_MUL);
        assert_ptr_equal(value->args[0], value->args[1]);
        value = value->args[0];
    }
    assert_int_equal(value->op, HR_OP_ELEMENT);
    hr_program_destroy(program);
    hr_text_clear(&text);
}

static void test_def_arguments_are_their_own(void **state) {
    (void)state;
    hr_program *program = program_of("def f(a, b) = a - b\ndef g(b, a) = f(b, a) * f(a, b)\n"
                                     "kernel k(p: f32, q: f32) -> (y: f32)\n{\n    y = g(p, f(q, 1))\n}\n");
    const hr_expr *value = program->functions[0].statements[0].value;
    assert_int_equal(value->op, HR_OP_MUL);
    assert_string_equal(program->functions[0].tensors[value->args[0]->args[0]->tensor].name, "p");
    assert_int_equal(value->args[0]->args[1]->op, HR_OP_SUB);
    assert_ptr_equal(value->args[0]->args[1], value->args[1]->args[0]);
    hr_program_destroy(program);
}

/* ---- texts that mean harm: an error in little time, never a crash ---- */

static char *repeated(const char *before, const char *unit, size_t times, const char *after, size_t *length) {
    size_t size = strlen(before) + times * strlen(unit) + strlen(after);
    char *text = malloc(size + 1), *at = text;
    assert_non_null(text);
    at += strlen(strcpy(at, before));
    for (size_t i = 0; i < times; i++, at += strlen(unit))
        memcpy(at, unit, strlen(unit));
    strcpy(at, after);
    *length = size;
    return text;
}

static void test_hostile_repetition(void **state) {
    (void)state;
    const char *head = "kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = ";
    const struct {
        const char *before, *unit;
        size_t times;
        const char *after, *words;
    } cases[] = {
        {head, "(", 200000, "x[i]", "nest deeper than 1000 levels"},
        {head, "x[", 200000, "i", "nest deeper than 1000 levels"},
        {head, "-", 200000, "x[i]", "nest deeper than 1000 levels"},
        {head, "not ", 200000, "true", "deeper than 1000 levels"},
        {head, "2^", 200000, "x[i]", "nest deeper than 1000 levels"},
        {head, "1+", 200000, "x[i]", "more than 1000 levels deep"},
        {head, "exp(", 200000, "x[i]", "nest deeper than 1000 levels"},
        {"", "[", 200000, "", "expected 'kernel' or 'def'"},
        {"", "kernel\n", 100000, "", "more mistakes"},
        {"", "kernel k(\n", 100000, "", "more mistakes"},
        {"kernel k(x: f32[", "N+", 100, "N]) -> (y: f32) {\n y = 1\n}\n", "at most 64 levels deep"},
        {"kernel k(x: f32[", "N*(", 200000, "N", "nest deeper"},
        {"kernel ", "a", 1000000, "(", "expected the name of a parameter"},
        {"kernel k(x: f32[N]) -> (y: f32[N]) {\n y[i] = ", "b", 1000000, "[i]\n}\n",
         "there is no tensor 'bbbb"},
        {"kernel k() -> (y: f32) {\n y = ", "9", 1000000, "\n}\n", "at most 1000 digits"},
        {"", "\xf0\x9f\x98\x80 ", 100000, "", "more mistakes"},
        {"# ", "x", 16 << 20, "", "at most 16 MB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        char *text = repeated(cases[i].before, cases[i].unit, cases[i].times, cases[i].after, &length);
        assert_mistake(text, length, cases[i].words);
        assert_true(strlen(hr_last_error()) < 16384);
        free(text);
    }
}

static void test_hostile_defs(void **state) {
    (void)state;
    hr_text text = {0};
    hr_text_format(&text, "def d0(x, y) = x * y\n");
    for (int i = 1; i < 70; i++) /* 2^70 different operations */
        hr_text_format(&text, "def d%d(x, y) = d%d(x, y + %d) - d%d(y, x)\n", i, i - 1, i, i - 1);
    hr_text_format(&text, "kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = d69(x[i], 2)\n}\n");
    assert_mistake(hr_text_data(&text), text.length, "more than 262144 operations");
    hr_text_clear(&text);
    hr_text_format(&text, "def d0(x) = x + 1\n");
    for (int i = 1; i < 20000; i++)
        hr_text_format(&text, "def d%d(x) = d%d(x) + 1\n", i, i - 1);
    hr_text_format(&text, "kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = d19999(x[i])\n}\n");
    assert_mistake(hr_text_data(&text), text.length, "levels deep");
    hr_text_clear(&text);
}

static void test_hostile_bytes(void **state) {
    (void)state;
    assert_mistake("", 0, "holds no kernel");
    assert_mistake("kernel\0k", 8, "a byte 0 stands here");
    uint32_t seed = 1;
    char bytes[2000];
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (char)(seed >> 24 ? seed >> 24 : 1);
        }
        assert_mistake(bytes, sizeof bytes, "error: ");
        for (const char *c = hr_last_error(); *c; c++) /* nothing that drives a terminal */
            assert_true((unsigned char)*c >= ' ' || *c == '\n' || *c == '\t');
    }
}

/* Cut anywhere, a kernel is an error or still a kernel, and nothing beyond the given length is read. */
static void test_every_prefix(void **state) {
    (void)state;
    const char *text =
        "def f(x) = x^2\nkernel k(x: bf16[M, 2 * N], s: f32 = -1e-5) -> (y: f32[M], z: f32[M, N])\n{\n"
        "    y[m] = sum[n < 2 * N](f(x[m, n])) / N # mean\n    z[m, n] = where(n > 0, x[m, n - 1], inf)\n}\n";
    for (size_t length = 0; length < strlen(text); length++) {
        char *cut = malloc(length ? length : 1);
        memcpy(cut, text, length);
        hr_program *program = NULL;
        if (hr_program_parse("cut.hr", cut, length, &program) == HR_OK) {
            assert_true(length > strlen(text) - 3);
            hr_program_destroy(program);
        }
        free(cut);
    }
}

static void test_program_find(void **state) {
    (void)state;
    hr_program *program =
        program_of("kernel one() -> (y: f32)\n{\n    y = 1\n}\nkernel two() -> (y: f32)\n{\n    y = 2\n}\n");
    const hr_function *function = NULL;
    assert_int_equal(hr_program_find(program, "two", &function), HR_OK);
    assert_ptr_equal(function, &program->functions[1]);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(),
                        "test.hr holds 2 kernels; choose one with test.hr:KERNEL, of: one, two");
    assert_int_equal(hr_program_find(program, "tow", &function), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(),
                        "test.hr holds no kernel 'tow'; did you mean two?; it holds: one, two");
    assert_ptr_equal(function, &program->functions[1]);
    size_t length;
    assert_memory_equal(hr_program_line(program, 3, &length), "    y = 1", 9);
    assert_int_equal(length, 9);
    hr_program_line(program, 99, &length);
    assert_int_equal(length, 0);
    hr_program_destroy(program);
    hr_program_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_precedence),
                                       cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_words_are_not_reserved),
                                       cmocka_unit_test(test_def_shares_arguments),
                                       cmocka_unit_test(test_def_arguments_are_their_own),
                                       cmocka_unit_test(test_hostile_repetition),
                                       cmocka_unit_test(test_hostile_defs),
                                       cmocka_unit_test(test_hostile_bytes),
                                       cmocka_unit_test(test_every_prefix),
                                       cmocka_unit_test(test_program_find)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
