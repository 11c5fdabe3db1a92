/* The emitted code's functions against libm in f64. */
#include "prelude_all.h"

#include "unit/prelude_host.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void random_is_philox(void **state) {
    (void)state;
    /* Known answers of Philox4x32-10: counter and key all zero. */
    const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    float out[4];
    random_fill(0, 0, 4, out);
    for (int i = 0; i < 4; i++) {
        assert_true(out[i] == (float)(words[i] >> 8) * 0x1p-24f);
        assert_true(f32_random(0, (uint64_t)i) == out[i]);
    }
}

int main(void) {
    if (!host_runs_this()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_is_philox)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
