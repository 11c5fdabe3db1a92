/* The ground that everything stands on: sentences of errors, growing texts, arenas. */
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void sentence_is_kept_and_prefixed(void **state) {
    (void)state;
    assert_int_equal(hr_fail(HR_BAD_INPUT, "row %d has %s", 3, "no end"), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "row 3 has no end");
    assert_int_equal(hr_fail_context(HR_BAD_INPUT, "while reading %s", "x.npy"), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "while reading x.npy: row 3 has no end");
}

static void sentence_may_quote_the_last_one(void **state) {
    (void)state;
    hr_fail(HR_IO, "the disk is full");
    hr_fail(HR_IO, "cannot save: %s", hr_last_error());
    assert_string_equal(hr_last_error(), "cannot save: the disk is full");
}

static void our_own_faults_name_their_place(void **state) {
    (void)state;
    int line = __LINE__ + 1;
    hr_fail(HR_INTERNAL, "two writers");
    char expected[64];
    snprintf(expected, sizeof expected, "test_base.c:%d)", line);
    assert_non_null(strstr(hr_last_error(), "two writers ("));
    assert_non_null(strstr(hr_last_error(), expected));
}

static void long_sentences_are_cut_not_overrun(void **state) {
    (void)state;
    static char name[40000];
    memset(name, 'n', sizeof name - 1);
    hr_fail(HR_BAD_INPUT, "%s", name);
    assert_int_equal(strlen(hr_last_error()), 16383);
    hr_fail_context(HR_BAD_INPUT, "%s", name);
    assert_in_range(strlen(hr_last_error()), 16000, 16383);
}

static void *fail_elsewhere(void *unused) {
    hr_fail(HR_IO, "elsewhere");
    return unused;
}

static void each_thread_has_its_own_sentence(void **state) {
    (void)state;
    hr_fail(HR_IO, "here");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(hr_last_error(), "here");
}

static void statuses_have_names_and_exit_codes(void **state) {
    (void)state;
    assert_string_equal(hr_status_name(HR_OUT_OF_RANGE), "OUT_OF_RANGE");
    assert_int_equal(hr_status_exit_code(HR_OK), 0);
    assert_int_equal(hr_status_exit_code(HR_WRONG_RESULT), 1);
    assert_int_equal(hr_status_exit_code(HR_BAD_INPUT), 2);
    assert_int_equal(hr_status_exit_code(HR_NOT_AVAILABLE), 3);
    assert_string_equal(hr_status_name((hr_status)99), "UNKNOWN");
    assert_int_equal(hr_status_exit_code((hr_status)99), 3);
    assert_string_equal(hr_special_name(HR_SPECIAL_TANH), "tanh");
    assert_string_equal(hr_special_name((hr_special)99), "unknown");
}

static void text_grows_past_its_first_room(void **state) {
    (void)state;
    hr_text text = {0};
    assert_string_equal(hr_text_data(&text), "");
    for (int i = 0; i < 1000; i++)
        hr_text_format(&text, "%d,", i);
    hr_text_append(&text, "end", 3);
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_int_equal(strlen(text.data), text.length);
    assert_memory_equal(text.data, "0,1,2,", 6);
    assert_string_equal(text.data + text.length - 7, "999,end");
    assert_int_equal(hr_text_status(&text), HR_OK);
    hr_text_clear(&text);
    assert_string_equal(hr_text_data(&text), "");
}

static void text_that_failed_stays_failed(void **state) {
    (void)state;
    hr_text text = {.failed = true};
    hr_text_format(&text, "%d", 1);
    hr_text_append(&text, "x", 1);
    assert_int_equal(text.length, 0);
    assert_int_equal(hr_text_status(&text), HR_OUT_OF_MEMORY);
    hr_text_clear(&text);
}

static void arena_gives_zeroed_aligned_memory(void **state) {
    (void)state;
    hr_arena *arena = NULL;
    assert_int_equal(hr_arena_create(1000, &arena), HR_OK);
    assert_int_equal(hr_arena_room(arena), 1000);
    char *first = hr_arena_alloc(arena, 1);
    char *second = hr_arena_alloc(arena, 17);
    assert_int_equal((uintptr_t)first % 16, 0);
    assert_int_equal(second - first, 16);
    for (int i = 0; i < 17; i++)
        assert_int_equal(second[i], 0);
    assert_int_equal(hr_arena_room(arena), 1000 - 16 - 32);
    assert_string_equal(hr_arena_copy(arena, "kernel", 3), "ker");
    assert_string_equal(hr_arena_format(arena, "%s%d", "x", 42), "x42");
    hr_arena_destroy(arena);
    hr_arena_destroy(NULL);
}

/* What is released can be had again, zeroed, whatever part of a page it began and ended in. */
static void arena_releases_to_a_mark(void **state) {
    (void)state;
    hr_arena *arena = NULL;
    assert_int_equal(hr_arena_create(1 << 20, &arena), HR_OK);
    char *kept = hr_arena_copy(arena, "kept", 4);
    static const size_t sizes[] = {0, 1, 16, 4000, 4096, 5000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t mark = hr_arena_mark(arena), room = hr_arena_room(arena);
        char *memory = hr_arena_alloc(arena, sizes[i]);
        memset(memory, 7, sizes[i]);
        hr_arena_release(arena, mark);
        assert_int_equal(hr_arena_room(arena), room);
        char *again = hr_arena_alloc(arena, sizes[i]);
        assert_ptr_equal(again, memory);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(again[k], 0);
        assert_string_equal(kept, "kept");
    }
    hr_arena_destroy(arena);
}

static void arena_that_is_too_large_is_an_error(void **state) {
    (void)state;
    hr_arena *arena = NULL;
    assert_int_equal(hr_arena_create((size_t)1 << 62, &arena), HR_OUT_OF_MEMORY);
    assert_null(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentence_is_kept_and_prefixed),
        cmocka_unit_test(sentence_may_quote_the_last_one),
        cmocka_unit_test(our_own_faults_name_their_place),
        cmocka_unit_test(long_sentences_are_cut_not_overrun),
        cmocka_unit_test(each_thread_has_its_own_sentence),
        cmocka_unit_test(statuses_have_names_and_exit_codes),
        cmocka_unit_test(text_grows_past_its_first_room),
        cmocka_unit_test(text_that_failed_stays_failed),
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(arena_releases_to_a_mark),
        cmocka_unit_test(arena_that_is_too_large_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
