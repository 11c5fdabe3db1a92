/* Tokens: kinds, places, numbers, names, and bytes that are none of them. */
#include "support/lang_text.h"

#include "lang/lexer.h"
#include <locale.h>
#include <math.h>

typedef struct fixture {
    hr_arena *arena;
    hr_symbols symbols;
    hr_messages messages;
    hr_lexer lexer;
} fixture;

static fixture *lexer_of(const char *text, size_t length) {
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(hr_arena_create(1 << 24, &f->arena), HR_OK);
    assert_int_equal(hr_symbols_create(f->arena, &f->symbols), HR_OK);
    f->messages = (hr_messages){.origin = {.path = "t", .text = text, .length = length}};
    f->lexer = hr_lexer_create(text, length, &f->symbols, &f->messages);
    return f;
}

static void done(fixture *f) {
    hr_symbols_clear(&f->symbols);
    hr_arena_destroy(f->arena);
    free(f);
}

static void test_kinds(void **state) {
    (void)state;
    const char *text =
        "name 12 \"file\" ( ) [ ] { } , : -> = += + - * / // % ^ < <= > >= == != << >> & | and or not "
        "inf nan true false";
    fixture *f = lexer_of(text, strlen(text));
    for (int kind = HR_TOKEN_NAME; kind <= HR_TOKEN_FALSE; kind++)
        assert_int_equal(hr_lexer_next(&f->lexer).kind, kind);
    assert_int_equal(hr_lexer_next(&f->lexer).kind, HR_TOKEN_END);
    assert_int_equal(hr_lexer_next(&f->lexer).kind, HR_TOKEN_END);
    assert_int_equal(f->messages.total, 0);
    done(f);
}

static void test_places(void **state) {
    (void)state;
    const char *text = "a # x\n\n  b\tc\r\nd";
    const struct {
        int line, column;
        bool line_start;
    } want[] = {{1, 1, true}, {3, 3, true}, {3, 5, false}, {4, 1, true}};
    fixture *f = lexer_of(text, strlen(text));
    for (int i = 0; i < 4; i++) {
        hr_token token = hr_lexer_next(&f->lexer);
        assert_int_equal(token.place.line, want[i].line);
        assert_int_equal(token.place.column, want[i].column);
        assert_int_equal(token.line_start, want[i].line_start);
    }
    done(f);
}

static void test_numbers(void **state) {
    (void)state;
    const struct {
        const char *text;
        bool whole;
        double number;
    } cases[] = {{"0", true, 0},        {"007", true, 7},      {"1.5", false, 1.5},
                 {"1e-5", false, 1e-5}, {"1E+3", false, 1000}, {"9223372036854775807", true, 0x1p63},
                 {"0.1", false, 0.1},   {"1e-400", false, 0},  {"123456789.125", false, 123456789.125}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture *f = lexer_of(cases[i].text, strlen(cases[i].text));
        hr_token token = hr_lexer_next(&f->lexer);
        assert_int_equal(token.kind, HR_TOKEN_NUMBER);
        assert_int_equal(token.is_whole, cases[i].whole);
        assert_true(token.number == cases[i].number);
        if (cases[i].whole && cases[i].number < 100) assert_true((double)token.whole == cases[i].number);
        assert_int_equal(hr_lexer_next(&f->lexer).kind, HR_TOKEN_END);
        done(f);
    }
    fixture *f = lexer_of("9223372036854775807", 19);
    assert_true(hr_lexer_next(&f->lexer).whole == INT64_MAX);
    done(f);
}

static void test_bad_numbers(void **state) {
    (void)state;
    const char *const cases[] = {
        "9223372036854775808", "1e999", "1.", "1.e5", "1e", "1e+", "2x", "0x10", ".5", "1_000"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture *f = lexer_of(cases[i], strlen(cases[i]));
        assert_int_equal(hr_lexer_next(&f->lexer).kind, HR_TOKEN_BAD);
        assert_int_equal(hr_lexer_next(&f->lexer).kind, HR_TOKEN_END);
        assert_int_equal(f->messages.total, 1);
        done(f);
    }
}

/* A host program with a decimal comma reads the same numbers. */
static void test_locale(void **state) {
    (void)state;
    const char *old = setlocale(LC_NUMERIC, NULL);
    char kept[64];
    snprintf(kept, sizeof kept, "%s", old);
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    fixture *f = lexer_of("1.5", 3);
    assert_true(hr_lexer_next(&f->lexer).number == 1.5);
    done(f);
    setlocale(LC_NUMERIC, kept);
}

static void test_names_are_interned(void **state) {
    (void)state;
    char text[8192];
    size_t at = 0;
    for (int i = 0; i < 1000; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "n%d ", i % 500);
    fixture *f = lexer_of(text, at);
    hr_symbol *first[500];
    for (int i = 0; i < 1000; i++) {
        hr_token token = hr_lexer_next(&f->lexer);
        if (i < 500)
            first[i] = token.symbol;
        else
            assert_ptr_equal(token.symbol, first[i - 500]);
    }
    assert_int_equal(f->symbols.count, 500);
    assert_string_equal(first[321]->name, "n321");
    done(f);
}

static void test_unknown_bytes(void **state) {
    (void)state;
    fixture *f = lexer_of("a \xff\xfe\x01 b $ c", 11);
    const hr_token_kind want[] = {HR_TOKEN_NAME, HR_TOKEN_BAD,  HR_TOKEN_NAME,
                                  HR_TOKEN_BAD,  HR_TOKEN_NAME, HR_TOKEN_END};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(hr_lexer_next(&f->lexer).kind, want[i]);
    assert_int_equal(f->messages.total, 2);
    done(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_places),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_locale),       cmocka_unit_test(test_names_are_interned),
        cmocka_unit_test(test_unknown_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
