/* The generator of random programs: every seed gives a text that parses and checks and that the interpreter
 * evaluates without an error, and together the seeds use the language. */
#include "base/dtype.h"
#include "lang/program.h"
#include "support/fixture.h"
#include "support/naive.h"
#include "support/random_program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 2000, COMPARED_SEEDS = 1000, SAMPLES = 3 };

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(hr_fixture *f, const hr_random_extent *extents, uint32_t seed) {
    for (int i = 0; i < f->function->parameter_count; ++i) {
        const hr_tensor *tensor = &f->function->tensors[i];
        void *data = (void *)(uintptr_t)f->operands[i].data;
        for (int64_t k = 0; tensor->rank && k < hr_fixture_count(f, i); ++k) {
            double value = (double)next(&seed) / (1 << 23) - 1;
            if (!strncmp(tensor->name, "at", 2))
                value = next(&seed) % extents[3].value;
            else if (!hr_dtype_is_float(tensor->dtype))
                value = next(&seed) % 8;
            hr_dtype_store(tensor->dtype, data, (size_t)k, value);
        }
    }
}

static void open_seed(uint64_t seed, hr_text *text, hr_fixture *f) {
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    assert_int_equal(hr_random_program(seed, text, extents), HR_OK);
    if (hr_fixture_open(hr_text_data(text), NULL, f) != HR_OK)
        fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, hr_last_error(), hr_text_data(text));
    for (int i = 0; i < HR_RANDOM_EXTENTS; ++i)
        hr_fixture_extent(f, extents[i].name, extents[i].value);
    if (hr_fixture_allocate(f) != HR_OK || hr_extent_check(f->function, f->extents) != HR_OK)
        fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, hr_last_error(), hr_text_data(text));
    fill(f, extents, (uint32_t)seed);
}

/* Equal but for what rounding in another order may do: in f64, which rounds 2^29 times finer than what the
 * meaning's error speaks of. */
static bool agree(const hr_meaning *m, double naive) {
    if (!isfinite(m->value) || !isfinite(naive))
        return m->value == naive || (isnan(m->value) && isnan(naive));
    return isinf(m->error) || fabs(m->value - naive) <= 1e-6 * m->error + 1e-12 * fabs(m->value);
}

static void compare(uint64_t seed, hr_fixture *f, const char *text, int tensor, int64_t position,
                    int *compared) {
    int64_t subscripts[HR_RANK_MAX], rest = position;
    const hr_tensor *t = &f->function->tensors[tensor];
    hr_meaning m;
    double naive;
    for (int k = t->rank; k-- > 0; rest /= f->shapes[tensor][k])
        subscripts[k] = rest % f->shapes[tensor][k];
    if (hr_fixture_value(f, t->name, position, &m) != HR_OK) fail_msg("%s", hr_last_error());
    if (!hr_naive_value(f, tensor, subscripts, 20000, &naive)) return;
    ++*compared;
    if (!agree(&m, naive))
        fail_msg("seed %llu: %s at %lld is %.17g, naively %.17g\n%s", (unsigned long long)seed, t->name,
                 (long long)position, m.value, naive, text);
}

/* All the interpreter's ways of being fast against a recursion that has none. */
static void test_the_interpreter_against_plain_recursion(void **state) {
    (void)state;
    int compared = 0, asked = 0;
    for (uint64_t seed = 0; seed < COMPARED_SEEDS; ++seed) {
        hr_text text = {0};
        hr_fixture f;
        open_seed(seed, &text, &f);
        for (int i = 0; i < f.function->parameter_count + f.function->result_count; ++i) {
            int64_t count = hr_fixture_count(&f, i);
            for (int k = 0; k < SAMPLES && count && f.function->tensors[i].role != HR_ROLE_INPUT;
                 ++k, ++asked)
                compare(seed, &f, hr_text_data(&text), i, k * (count - 1) / (SAMPLES - 1), &compared);
        }
        hr_fixture_close(&f);
        hr_text_clear(&text);
    }
    assert_true(compared > asked / 2);
}

static void evaluate(uint64_t seed, hr_fixture *f, const char *text, int *finite, int *asked) {
    for (int i = 0; i < f->function->parameter_count + f->function->result_count; ++i) {
        const hr_tensor *tensor = &f->function->tensors[i];
        if (tensor->role == HR_ROLE_INPUT) continue;
        int64_t count = hr_fixture_count(f, i);
        for (int k = 0; k < SAMPLES && count; ++k) {
            hr_meaning m;
            if (hr_fixture_value(f, tensor->name, k * (count - 1) / (SAMPLES - 1), &m) != HR_OK)
                fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, hr_last_error(), text);
            ++*asked;
            *finite += isfinite(m.value) != 0;
            if (!(m.error >= 0) || (!isfinite(m.value) && m.error > 0 && !isinf(m.error)))
                fail_msg("seed %llu: %s has error %g\n%s", (unsigned long long)seed, tensor->name, m.error,
                         text);
        }
    }
}

static void test_every_seed_is_valid(void **state) {
    (void)state;
    static const char *const parts[] = {"softmax[", "where(",  "+= ",     "inout ", "table[at",
                                        "random(",  " - 1 - ", "argmax[", "mean[",  "bool",
                                        "f8e4m3",   "sum[k",   "not (",   "//"};
    int uses[sizeof parts / sizeof *parts] = {0}, finite = 0, asked = 0, empty = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        hr_text text = {0};
        hr_fixture f;
        open_seed(seed, &text, &f);
        evaluate(seed, &f, hr_text_data(&text), &finite, &asked);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
            uses[i] += strstr(hr_text_data(&text), parts[i]) != NULL;
        for (int i = 0; i < f.function->extent_count; ++i)
            empty += f.extents[i] == 0;
        hr_fixture_close(&f);
        hr_text_clear(&text);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        if (uses[i] < SEEDS / 100) fail_msg("only %d seeds use '%s'", uses[i], parts[i]);
    assert_true(empty > SEEDS / 20);
    assert_true(finite > asked * 0.95);
}

static void test_a_seed_repeats(void **state) {
    (void)state;
    hr_text first = {0}, second = {0}, other = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    hr_random_program(7, &first, extents);
    hr_random_program(7, &second, extents);
    hr_random_program(8, &other, extents);
    assert_string_equal(hr_text_data(&first), hr_text_data(&second));
    assert_string_not_equal(hr_text_data(&first), hr_text_data(&other));
    hr_text_clear(&first);
    hr_text_clear(&second);
    hr_text_clear(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_seed_is_valid),
        cmocka_unit_test(test_a_seed_repeats),
        cmocka_unit_test(test_the_interpreter_against_plain_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
