/* JSON, whole or not at all: one reading where there is memory for it, and never a value that the text has
 * not. */
#include "base/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Words and numbers longer than what jansson begins with, so that it asks for more within them. */
static const char *const texts[] = {
    "{}",
    " [ ] ",
    "{\"model\": {\"merges\": [[\"\\u0120a\", \"b\"], [\"\\\\\", \"\\\"\\/\\b\\f\", \"\\n\\r\\t\"]], "
    "\"none\": "
    "null}}",
    "[true, false, null, -0, 0.5, -1.25e-3, 9223372036854775807, 1E+2, 123456789012345678, "
    "0.1234567890123456789]",
    "[\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\", \"\\u00e4\\u20AC\\ud83d\\ude00\", "
    "\"\\ue000\\uffff!\"]",
    "{\"a longer name than sixteen signs\": \"and a longer word than thirty-two of these signs\", \"b\": "
    "[[[{}]]]}",
    "[1.000000000000000000000000000000000000000000000000000000000000000000000000001, \"more digits than "
    "compared\"]",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static int taken, failing; /* allocations so far; the one that fails, 0 = none */

static void *take(size_t size) {
    return ++taken == failing ? NULL : malloc(size);
}

static json_t *wanted_of(const char *text) {
    json_t *wanted = json_loads(text, 0, NULL);
    assert_non_null(wanted);
    return wanted;
}

static void test_values(void **state) {
    (void)state;
    for (int i = 0; i < TEXTS; i++) {
        json_t *wanted = wanted_of(texts[i]), *got = NULL;
        assert_int_equal(hr_json_read(texts[i], strlen(texts[i]), "x.json", 7, &got), HR_OK);
        assert_true(json_equal(wanted, got));
        json_decref(got);
        json_decref(wanted);
    }
}

static int allocations(const char *text, bool ours) {
    json_t *value = NULL;
    taken = failing = 0;
    if (ours)
        assert_int_equal(hr_json_read(text, strlen(text), "x.json", 1, &value), HR_OK);
    else
        value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_decref(value);
    return taken;
}

static void test_once(void **state) {
    (void)state;
    json_set_alloc_funcs(take, free);
    for (int i = 0; i < TEXTS - 1; i++) /* but for a number that is too long to be compared */
        assert_int_equal(allocations(texts[i], true), allocations(texts[i], false));
    json_set_alloc_funcs(malloc, free);
}

/* Each allocation fails once; but within a long word's escapes, where jansson 2.14 ends the program. */
static void test_without_memory(void **state) {
    (void)state;
    for (int i = 0; i < TEXTS; i++) {
        if (strstr(texts[i], "\\ud83d")) continue;
        json_t *wanted = wanted_of(texts[i]);
        json_set_alloc_funcs(take, free);
        const int count = allocations(texts[i], true);
        for (int nth = 1; nth <= count; nth++) {
            json_t *got = NULL;
            taken = 0;
            failing = nth;
            const hr_status status = hr_json_read(texts[i], strlen(texts[i]), "x.json", 1, &got);
            failing = 0;
            if (status != HR_OK)
                assert_int_equal(status, HR_OUT_OF_MEMORY);
            else
                assert_true(json_equal(wanted, got));
            json_decref(got);
        }
        json_set_alloc_funcs(malloc, free);
        json_decref(wanted);
    }
}

static void test_mistakes(void **state) {
    static const char *const wrong[] = {"",      "[1,]", "{\"a\": 1, \"a\": 2}", "[\"\\ud800\"]",
                                        "[1] 2", "[nul]"};
    json_t *got;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(hr_json_read(wrong[i], strlen(wrong[i]), "x.json", 41, &got), HR_BAD_INPUT);
        assert_non_null(strstr(hr_last_error(), "x.json:41: "));
    }
    assert_int_equal(hr_json_read_file("/nowhere/x.json", &got), HR_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_once),
                                       cmocka_unit_test(test_without_memory),
                                       cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
