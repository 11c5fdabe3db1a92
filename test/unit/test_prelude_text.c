/* What of the prelude is appended to a body of C, and that it compiles. */
#include "emit/prelude.h"
#include "run/roof_functions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void only_what_is_used(void **state) {
    (void)state;
    hr_text out = {0};
    assert_int_equal(hr_prelude_append(HR_PRELUDE_C, "float f(float x) { return f32_relu(x); }", NULL, &out),
                     HR_OK);
    const char *text = hr_text_data(&out);
    assert_non_null(strstr(text, "#include <stdint.h>"));
    assert_non_null(strstr(text, "f32_relu(float x)"));
    assert_non_null(strstr(text, "f32_max(float a")); /* which relu uses */
    assert_null(strstr(text, "f32_min"));
    assert_null(strstr(text, "vf_relu"));
    assert_null(strstr(text, "exp2_table"));
    hr_text_clear(&out);
}

static void definitions_precede_uses_at_each_instruction_set(void **state) {
    (void)state;
    hr_text out = {0};
    assert_int_equal(hr_prelude_append(HR_PRELUDE_C, "vf_exp", NULL, &out), HR_OK);
    const char *text = hr_text_data(&out), *first = strstr(text, "vf_exp(vf x)");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "vf_exp(vf x)")); /* the one without AVX-512 */
    assert_true(strstr(text, "exp2_table[32]") < first && strstr(text, "typedef float vf") < first);
    assert_null(strstr(text, "log_table"));
    hr_text_clear(&out);
}

static void nothing_for_an_empty_body(void **state) {
    (void)state;
    hr_text out = {0};
    assert_int_equal(hr_prelude_append(HR_PRELUDE_C, "", NULL, &out), HR_OK);
    assert_null(strstr(hr_text_data(&out), "inline"));
    hr_text_clear(&out);
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

/* Of two paragraphs of the CUDA text that define a name the first counts: overloads share one. */
static void overloads_come_together(void **state) {
    (void)state;
    hr_text out = {0};
    assert_int_equal(hr_prelude_append(HR_PRELUDE_CUDA, "add_group", NULL, &out), HR_OK);
    assert_int_equal(count_of(hr_text_data(&out), "inline void add_to("), 4);
    assert_int_equal(count_of(hr_text_data(&out), "inline void add_group("), 2);
    hr_text_clear(&out);
}

/* Every section, and the text that measures rates, without a warning at each instruction set. */
static void it_compiles(void **state) {
    (void)state;
    hr_text out = {0};
    assert_int_equal(hr_roof_functions_source(&out), HR_OK);
    const char *flags[] = {
        "",
#if defined __x86_64__
        "-mavx2 -mfma -mf16c",
        "-mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        char command[200];
        snprintf(command, sizeof command, "cc -x c -fopenmp -O0 -Wall -Wextra -Werror -fsyntax-only %s -",
                 flags[i]);
        FILE *compiler = popen(command, "w");
        assert_non_null(compiler);
        assert_int_equal(fwrite(out.data, 1, out.length, compiler), out.length);
        assert_int_equal(pclose(compiler), 0);
    }
    hr_text_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_used),
        cmocka_unit_test(definitions_precede_uses_at_each_instruction_set),
        cmocka_unit_test(nothing_for_an_empty_body),
        cmocka_unit_test(overloads_come_together),
        cmocka_unit_test(it_compiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
