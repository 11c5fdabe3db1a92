/* Floors from known roofs: memory by the mix of traffic, arithmetic by its unit, and the name of the limit.
 */
#include "ir/count.h"
#include "lang/program.h"
#include "run/kernel.h"
#include "schedule/target.h"
#include "support/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static const hr_roof roof = {.read = 40e9,
                             .triad = 36e9,
                             .copy = 30e9,
                             .write = 20e9,
                             .vector_f32 = 100e9,
                             .vector_f64 = 50e9,
                             .tensor_f32 = 80e9,
                             .tensor_bf16 = 800e9,
                             .special = {[HR_SPECIAL_EXP] = 10e9, [HR_SPECIAL_ROOT] = 5e9},
                             .launch = 2e-6};

static hr_program *program;

static const hr_function *function_of(const char *text) {
    const hr_function *function = NULL;
    hr_program_destroy(program);
    program = NULL;
    assert_int_equal(hr_program_parse("test.hr", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    return function;
}

static const char copy_text[] = "kernel copy(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n";

static hr_floor floor_of(const char *text, hr_work work, const hr_roof *with) {
    hr_floor floor;
    hr_floor_of(function_of(text), &work, with, &floor);
    return floor;
}

static void near(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) print_message("%.15g, not %.15g\n", got, expected);
    assert_true(fabs(got - expected) <= 1e-12 * fabs(expected));
}

static void test_memory_by_the_mix(void **state) {
    (void)state;
    near(floor_of(copy_text, (hr_work){.bytes_read = 4e9}, &roof).seconds, 4 / 40.0);
    near(floor_of(copy_text, (hr_work){.bytes_written = 4e9}, &roof).seconds, 4 / 20.0);
    near(floor_of(copy_text, (hr_work){.bytes_read = 3e9, .bytes_written = 3e9}, &roof).seconds, 6 / 30.0);
    near(floor_of(copy_text, (hr_work){.bytes_read = 2e9, .bytes_written = 1e9}, &roof).seconds, 3 / 36.0);
    /* one in four: half way between reading alone and copying, or three quarters of the way to triad - the
     * better */
    double by_copy = 0.5 / 40 + 0.5 / 30, by_triad = 0.25 / 40 + 0.75 / 36;
    near(floor_of(copy_text, (hr_work){.bytes_read = 3e9, .bytes_written = 1e9}, &roof).seconds,
         4 * fmin(by_copy, by_triad));
}

/* Where reads and writes come mixed, the nearest two measured mixes count, also where others would be faster.
 */
static void test_memory_mixed(void **state) {
    (void)state;
    hr_roof mixed = roof;
    mixed.copy = 25e9; /* slower than reading and then writing */
    hr_work copy = {.bytes_read = 3e9, .bytes_written = 3e9},
            quarter = {.bytes_read = 3e9, .bytes_written = 1e9};
    near(floor_of(copy_text, copy, &mixed).seconds, 6 * (0.75 / 36 + 0.25 / 20));
    mixed.traffic_mixed = true;
    near(floor_of(copy_text, copy, &mixed).seconds, 6 / 25.0);
    near(floor_of(copy_text, quarter, &mixed).seconds, 4 * (0.25 / 40 + 0.75 / 36));
}

/* Functions with units of their own run beside the arithmetic. */
static void test_special_beside(void **state) {
    (void)state;
    hr_roof beside = roof;
    hr_work work = {.vector_flops = 50e9, .special = {[HR_SPECIAL_EXP] = 8e9}};
    near(floor_of(copy_text, work, &beside).seconds, 0.5 + 0.8);
    beside.special_beside = true;
    near(floor_of(copy_text, work, &beside).seconds, 0.8);
    work.vector_flops = 90e9;
    near(floor_of(copy_text, work, &beside).seconds, 0.9);
    assert_string_equal(floor_of(copy_text, work, &beside).bound, "vector");
}

static void test_a_slow_measurement_does_not_weaken_the_floor(void **state) {
    (void)state;
    hr_roof slow = roof; /* triad was disturbed: reading and copying in turn would beat it */
    slow.triad = 10e9;
    near(floor_of(copy_text, (hr_work){.bytes_read = 2e9, .bytes_written = 1e9}, &slow).seconds,
         3 * (1 / 40.0 / 3 + 2 / 30.0 / 3));
    hr_roof copy_alone = {.copy = 30e9};
    near(floor_of(copy_text, (hr_work){.bytes_read = 3e9}, &copy_alone).seconds, 3 / 30.0);
}

static void test_the_bound_is_named(void **state) {
    (void)state;
    hr_work work = {.bytes_read = 1e9, .bytes_written = 1e9, .vector_flops = 1e9};
    assert_string_equal(floor_of(copy_text, work, &roof).bound, "memory");
    work.vector_flops = 20e9;
    assert_string_equal(floor_of(copy_text, work, &roof).bound, "vector");
    near(floor_of(copy_text, work, &roof).seconds, 0.2);
    work.special[HR_SPECIAL_EXP] = 3e9;
    work.special[HR_SPECIAL_ROOT] = 0.5e9;
    hr_floor floor = floor_of(copy_text, work, &roof); /* one set of ports: the times add up */
    near(floor.seconds, 0.2 + 0.3 + 0.1);
    assert_string_equal(floor.bound, "exp");
    near(floor.special_ops, 3.5e9);
    near(floor.bytes, 2e9);
    hr_floor none = floor_of(copy_text, (hr_work){0}, &roof);
    assert_string_equal(none.bound, "launch");
    near(none.seconds, 2e-6);
}

static void test_products_by_their_operands(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double rate;
    } cases[] = {
        {"kernel mm(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N])\n{\n    c[m, n] = sum[k](a[m, k] * b[k, "
         "n])\n}\n",
         80e9},
        {"kernel mm(a: bf16[M, K], b: bf16[K, N]) -> (c: f32[M, N])\n{\n    c[m, n] = sum[k](a[m, k] * b[k, "
         "n])\n}\n",
         800e9},
        {"kernel mm(a: bf16[M, K], b: f32[K, N]) -> (c: f32[M, N])\n{\n    c[m, n] = sum[k](a[m, k] * b[k, "
         "n])\n}\n",
         80e9},
        {"kernel mm(a: bf16[M, K], b: bf16[K, N]) -> (c: f32[M, N])\n{\n    c[m, n] = sum[k](exp(a[m, k]) * "
         "b[k, n])\n}\n",
         80e9},
        {"kernel mm(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N])\n{\n    c[m, n] = sum[k](bf16(a[m, k]) * "
         "bf16(b[k, n]))\n}\n",
         800e9},
        {"kernel mm(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N])\n{\n    d[m, k] = bf16(a[m, k])\n"
         "    e[k, n] = bf16(b[k, n])\n    c[m, n] = sum[k](d[m, k] * e[k, n])\n}\n",
         800e9},
        {"kernel mm(a: f64[M, K], b: f64[K, N]) -> (c: f64[M, N])\n{\n    c[m, n] = sum[k](a[m, k] * b[k, "
         "n])\n}\n",
         50e9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const int64_t extents[] = {1000, 8000, 500};
        hr_work work;
        assert_int_equal(hr_work_count(function_of(cases[i].text), extents, &work), HR_OK);
        work = (hr_work){.tensor_flops = work.tensor_flops,
                         .products = {[HR_F32] = work.products[HR_F32],
                                      [HR_F64] = work.products[HR_F64],
                                      [HR_BF16] = work.products[HR_BF16]}};
        hr_floor floor = floor_of(cases[i].text, work, &roof);
        assert_string_equal(floor.bound, "tensor");
        near(floor.seconds, 8e9 / cases[i].rate);
    }
}

static void test_f64_counts_at_its_own_rate(void **state) {
    (void)state;
    const char *text = "kernel copy(x: f64[N]) -> (y: f64[N])\n{\n    y[n] = x[n] + 1\n}\n";
    near(floor_of(text, (hr_work){.vector_flops = 10e9}, &roof).seconds, 0.2);
}

static int end(void **state) {
    (void)state;
    hr_program_destroy(program);
    return 0;
}

/* Two locals, the name of one inside the other's, go to memory for a stage whose lanes run across them. */
static void test_names_of_what_is_materialised(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: f32[M, N]) -> (y: f32[N, M])\n{\n"
                               "    std[m] = sum[n](x[m, n]^2)\n    st[m] = sum[n](x[m, n])\n"
                               "    y[n, m] = std[m] * st[m] + f32(n)\n}\n";
    const hr_device_limits limits = {.threads = 2, .vector_bytes = 64, .isa = "avx512"};
    const int64_t extents[] = {64, 64};
    hr_arena *arena;
    hr_plan *plan;
    hr_stage_info stages[4];
    assert_int_equal(hr_arena_create(1 << 20, &arena), HR_OK);
    assert_int_equal(hr_schedule_create(function_of(text), extents, NULL, &limits, NULL, &plan), HR_OK);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(hr_stages_describe(plan, extents, &roof, stages, arena), HR_OK);
    assert_string_equal(stages[0].materialised, "std, st");
    assert_string_equal(stages[1].materialised, "");
    hr_plan_destroy(plan);
    hr_arena_destroy(arena);
}

/* A stage's product is counted once, what its operands are made with once an element of theirs. */
static void test_stages_of_products(void **state) {
    (void)state;
    static const char text[] =
        "kernel mlp(x: bf16[M, K], s: f32[K], u: bf16[N, K], w: bf16[K, N]) -> (y: bf16[M, K])\n{\n"
        "    h[m, n] = bf16(sum[k](bf16(x[m, k] * s[k]) * u[n, k]))\n"
        "    y[m, k] = sum[n](h[m, n] * w[k, n])\n}\n";
    const double products = 2.0 * 512 * 1024 * 2048;
    const hr_function *function = function_of(text);
    for (int gpu = 0; gpu < 2; gpu++) {
        const hr_device_limits cpu = {.threads = 2, .vector_bytes = 64, .isa = "avx512", .dots_bf16 = 1},
                               limits = gpu ? cuda_case_limits(90, 132) : cpu;
        const int64_t extents[] = {512, 1024, 2048}; /* M, K, N */
        hr_stage_info stages[4];
        hr_arena *arena;
        hr_plan *plan;
        assert_int_equal(hr_arena_create(1 << 20, &arena), HR_OK);
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(plan->stage_count, 2);
        assert_int_equal(hr_stages_describe(plan, extents, &roof, stages, arena), HR_OK);
        near(stages[0].flops, products + 2 * 512.0 * 1024 + 512.0 * 2048); /* roundings count, too */
        near(stages[1].flops, products);
        hr_plan_destroy(plan);
        hr_arena_destroy(arena);
    }
}

/* Both products of attention in one kernel are of bf16: its floor is theirs, not that of f32 in parts. */
static void test_weights_of_attention_are_rounded(void **state) {
    (void)state;
    static const char text[] =
        "kernel attention(q: bf16[H, I, D], k: bf16[H, J, D], v: bf16[H, J, D]) -> (o: bf16[H, I, D])\n{\n"
        "    s[h, i, j] = sum[d](q[h, i, d] * k[h, j, d]) * rsqrt(D)\n"
        "    o[h, i, e] = sum[j](softmax[j](s[h, i, j]) * v[h, j, e])\n}\n";
    const hr_function *function = function_of(text);
    const hr_device_limits limits = cuda_case_limits(90, 0);
    const int64_t extents[] = {16, 4096, 128, 4096}; /* H, I, D, J */
    struct hr_device device = {.limits = limits};
    const hr_kernel kernel = {.device = &device, .function = function, .roof = roof};
    hr_prepared prepared = {.launch_threads = limits.threads};
    hr_work work;
    hr_floor floor;
    assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &prepared.plan), HR_OK);
    assert_int_equal(hr_plan_work(prepared.plan, extents, &work), HR_OK);
    hr_floor_of_state(&kernel, &prepared, &work, &floor);
    assert_string_equal(floor.bound, "tensor");
    near(floor.seconds, 4.0 * 16 * 4096 * 4096 * 128 / roof.tensor_bf16);
    hr_plan_destroy(prepared.plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_what_is_materialised),
        cmocka_unit_test(test_memory_by_the_mix),
        cmocka_unit_test(test_memory_mixed),
        cmocka_unit_test(test_special_beside),
        cmocka_unit_test(test_a_slow_measurement_does_not_weaken_the_floor),
        cmocka_unit_test(test_the_bound_is_named),
        cmocka_unit_test(test_products_by_their_operands),
        cmocka_unit_test(test_f64_counts_at_its_own_rate),
        cmocka_unit_test(test_weights_of_attention_are_rounded),
        cmocka_unit_test(test_stages_of_products),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
