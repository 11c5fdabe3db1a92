/* Planted faults: the first finding names them, and its prediction agrees with the fixed twin. Programs are
 * simulated (support/simulated_program.h), so that cause and effect are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose/diagnose.h"
#include "support/simulated_program.h"

#include <math.h>
#include <string.h>

#define STEPS   8
#define PRODUCT "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
#define POINTWISE                                                                                            \
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluFunctor, std::array<char*, 2ul> >"
#define FULL "grid=1056,1,1 block=256,1,1 registers=32"

typedef void (*body_fn)(simulated_program *program, bool fixed);

static hr_diagnosis *diagnose_program(body_fn body, bool fixed, hr_trace **trace) {
    simulated_program program;
    hr_diagnosis *diagnosis = NULL;
    simulate_begin(&program);
    for (int i = 0; i < STEPS; i++) {
        simulate_step_begin(&program);
        body(&program, fixed);
        simulate_step_end(&program);
    }
    *trace = simulate_end(&program);
    if (!*trace || hr_diagnose_trace(*trace, NULL, &diagnosis) != HR_OK) print_error("%s\n", hr_last_error());
    assert_non_null(diagnosis);
    return diagnosis;
}

static void products(simulated_program *program, int count, double duration) {
    for (int i = 0; i < count; i++)
        simulate_launch(program, 3, PRODUCT, duration, 5,
                        "grid=528,1,1 block=384,1,1 registers=168 shared=200000");
}

/* ---- programs, each with its fault and without ---- */

static void slow_loader(simulated_program *program, bool fixed) {
    simulate_range(program, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", fixed ? 20 : 4000);
    products(program, 10, 300);
}

static void pageable(simulated_program *program, bool fixed) {
    simulate_copy_in(program, 40e6, fixed);
    products(program, 10, 400);
}

static void item_each_step(simulated_program *program, bool fixed) {
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 8; i++)
            simulate_launch(program, 3, PRODUCT, 60, 15, "grid=528,1,1 block=384,1,1 registers=168");
        if (!fixed) simulate_item(program);
        simulate_host(program, 150);
    }
}

static void tiny_kernels(simulated_program *program, bool fixed) {
    if (fixed) program->gap = 0.05; /* in a graph */
    for (int i = 0; i < 300; i++)
        if (fixed && i)
            simulate_launch(program, 3, i % 2 ? PRODUCT : "my_kernel", 3, -6, "grid=200,1,1 block=256,1,1");
        else
            simulate_launch(program, 3, i % 2 ? PRODUCT : "my_kernel", 3, 15, "grid=200,1,1 block=256,1,1");
}

static void host_work(simulated_program *program, bool fixed) {
    products(program, 5, 200);
    simulate_item(program);
    simulate_host(program, fixed ? 0 : 3000);
    products(program, 5, 200);
}

static void allocations(simulated_program *program, bool fixed) {
    for (int i = 0; i < 10; i++) {
        if (!fixed) simulate_call(program, "cudaMalloc", 300);
        products(program, 1, 150);
        if (!fixed) simulate_call(program, "cudaFree", 200);
    }
}

static void elementwise_chain(simulated_program *program, bool fixed) {
    products(program, 2, 200);
    for (int i = 0; i < (fixed ? 1 : 12); i++)
        simulate_launch(program, 3, POINTWISE, 100, 5, "grid=65536,1,1 block=128,1,1 registers=20");
}

static void written_normalisation(simulated_program *program, bool fixed) {
    static const char *const names[] = {
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        "std::array<char*, 2ul> >",
        "void at::native::vectorized_elementwise_kernel<4, at::native::pow_tensor_scalar_kernel, "
        "std::array<char*, 2ul> >",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >",
        "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda, std::array<char*, "
        "2ul> >",
        "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor, std::array<char*, 2ul> >"};
    products(program, 2, 200);
    for (int i = 0; i < 4; i++) {
        if (fixed) {
            simulate_launch(program, 3, "void at::native::vectorized_layer_norm_kernel<float>", 75, 5, FULL);
        } else {
            for (int k = 0; k < 6; k++)
                simulate_launch(program, 3, names[k],
                                k == 4             ? 2
                                : k == 0 || k == 3 ? 30
                                                   : 50,
                                5, k == 4 ? "grid=8,1,1 block=128,1,1" : FULL);
        }
        products(program, 1, 100);
    }
}

/* A fifth of bench/whatif's on an H200: a pass over the scores, their softmax, and what its products take
 * where they move the scores and where they do not. */
static void written_attention(simulated_program *program, bool fixed) {
    for (int i = 0; i < 4; i++) {
        products(program, 1, fixed ? 29.6 : 65.6);
        if (!fixed) {
            simulate_launch(program, 3, POINTWISE, 101, 5, FULL);
            simulate_launch(
                program, 3,
                "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, "
                "11, false, false>",
                232, 5, FULL);
        }
        products(program, 1, fixed ? 29.6 : 56.8);
        simulate_launch(program, 3, "void at::native::vectorized_layer_norm_kernel<float>", 40, 5, FULL);
    }
}

static void loop_optimizer(simulated_program *program, bool fixed) {
    products(program, 4, 300);
    double start = program->host;
    for (int i = 0; i < (fixed ? 4 : 400); i++)
        simulate_launch(program, 3, fixed ? "multi_tensor_apply_kernel<FusedAdamMathFunctor>" : POINTWISE,
                        fixed ? 12 : 2.5, 6, "grid=64,1,1 block=128,1,1");
    hr_text_format(&program->text, "range main %.3f %.3f Optimizer.step#AdamW.step\n", start,
                   program->host - start);
}

static void small_products(simulated_program *program, bool fixed) {
    products(program, 2, 200);
    for (int i = 0; i < (fixed ? 1 : 40); i++)
        simulate_launch(
            program, 3, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_tilesize64x64x64", fixed ? 38 : 12, 3,
            fixed ? "grid=640,1,1 block=128,1,1 registers=128" : "grid=16,1,1 block=128,1,1 registers=128");
}

static void full_precision(simulated_program *program, bool fixed) {
    for (int i = 0; i < 8; i++)
        simulate_launch(program, 3,
                        fixed ? "sm90_xmma_gemm_f32f32_tf32f32_f32_tn"
                              : "sm80_xmma_gemm_f32f32_f32f32_f32_tn_simt",
                        fixed ? 92 : 517, 5, "grid=1056,1,1 block=256,1,1 registers=128");
}

static void odd_sizes(simulated_program *program, bool fixed) {
    for (int i = 0; i < 8; i++)
        simulate_operator(
            program, "aten::mm", fixed ? "[[4096, 1024], [1024, 1024]]" : "[[4096, 1023], [1023, 1023]]",
            "[\\\"c10::BFloat16\\\", \\\"c10::BFloat16\\\"]", "cutlass_80_tensorop_bf16_s16816gemm_align1",
            fixed ? 130 : 200, "grid=1056,1,1 block=256,1,1 registers=128");
}

static void starved_device(simulated_program *program, bool fixed) {
    for (int i = 0; i < 20; i++)
        simulate_launch(program, 3, i % 2 ? PRODUCT : "my_rows_kernel", fixed ? 50 : 100, 5,
                        "grid=16,1,1 block=128,1,1 registers=64");
}

static void slow_reading(simulated_program *program, bool fixed) {
    products(program, 2, 100);
    simulate_operator(program, "aten::sum", "[[32768, 4096]]", "[\\\"float\\\"]",
                      "void my_reduction_kernel<float>", fixed ? 140 : 600, FULL);
}

static void scattered(simulated_program *program, bool fixed) {
    products(program, 2, 100);
    simulate_launch(program, 3, "my_gather_kernel", fixed ? 188 : 600, 5,
                    "grid=1056,1,1 block=256,1,1 registers=32 sectors_per_load=32 sectors_per_store=4");
}

static void few_warps(simulated_program *program, bool fixed) {
    products(program, 2, 100);
    simulate_launch(
        program, 3, "my_heavy_kernel", fixed ? 150 : 600, 5,
        "grid=4096,1,1 block=128,1,1 registers=255 shared=100000 dram_of_peak=0.1 sm_of_peak=0.2");
}

static void exposed(simulated_program *program, bool fixed) {
    products(program, 10, 100);
    simulate_stream_wait(program, 2, 3);
    simulate_launch(program, 2, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", fixed ? 1 : 600, 5,
                    "grid=24,1,1 block=512,1,1");
    simulate_stream_wait(program, 3, 2);
}

static void late_loading(simulated_program *program, bool fixed) {
    products(program, 5, 100);
    if (!fixed) simulate_call(program, "cuModuleLoadDataEx", 2000);
    products(program, 5, 100);
}

static void healthy(simulated_program *program, bool fixed) {
    (void)fixed;
    simulate_copy_in(program, 1e6, true);
    products(program, 20, 400);
    simulate_launch(program, 3, "void at::native::vectorized_layer_norm_kernel<float>", 40, 5, FULL);
    simulate_launch(program, 3, "multi_tensor_apply_kernel<FusedAdamMathFunctor>", 80, 5, FULL);
}

/* error: of the predicted against the simulated step; < 0: the remedy's effect is not simulated */
static const struct planted {
    const char *id;
    body_fn body;
    double error;
} planted[] = {{"input-pipeline", slow_loader, 0.05},
               {"pageable-copy", pageable, 0.05},
               {"blocking-sync", item_each_step, 0.05},
               {"launch-bound", tiny_kernels, 0.1},
               {"host-bound", host_work, 0.05},
               {"allocation-churn", allocations, 0.05},
               {"unfused-elementwise", elementwise_chain, 0.05},
               {"unfused-normalisation", written_normalisation, 0.05},
               {"unfused-attention", written_attention, 0.05},
               {"unfused-optimizer", loop_optimizer, 0.1},
               {"unbatched-products", small_products, 0.1},
               {"full-precision-matrix", full_precision, 0.05},
               {"misaligned-dimensions", odd_sizes, 0.05},
               {"small-batch", starved_device, 0.05},
               {"low-bandwidth", slow_reading, 0.1},
               {"uncoalesced-access", scattered, 0.05},
               {"low-occupancy", few_warps, 0.1},
               {"exposed-communication", exposed, 0.05},
               {"first-use", late_loading, 0.05}};

static void check_sums(const hr_diagnosis *diagnosis) {
    const hr_steps *steps = &diagnosis->lane->steps;
    int64_t sum = 0, path = 0;
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        sum += diagnosis->lane->accounted_ns[i];
    assert_int_equal(sum, steps->items[steps->count - 1].end - steps->items[steps->first].start);
    for (int i = 0; i < diagnosis->path_count; i++)
        path += diagnosis->path[i].end - diagnosis->path[i].start;
    assert_int_equal(path, steps->items[steps->chosen].end - steps->items[steps->chosen].start);
}

static void test_planted_faults(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        hr_trace *trace, *fixed_trace;
        hr_diagnosis *faulty = diagnose_program(planted[i].body, false, &trace);
        hr_diagnosis *fixed = diagnose_program(planted[i].body, true, &fixed_trace);
        check_sums(faulty);
        check_sums(fixed);
        assert_true(faulty->replay_error < 1e-9);
        const hr_finding *first = &faulty->findings[0];
        double before = faulty->lane->steps.mean, after = fixed->lane->steps.mean;
        double predicted = before * (1 - first->gain);
        bool right = faulty->finding_count && strcmp(first->id, planted[i].id) == 0 &&
                     fabs(predicted - after) <= planted[i].error * after;
        if (!right)
            print_error("%s: first finding %s, %.0f us -> %.0f us predicted, %.0f us measured\n",
                        planted[i].id, faulty->finding_count ? first->id : "none", before * 1e6,
                        predicted * 1e6, after * 1e6);
        for (int k = 0; !right && k < faulty->finding_count; k++)
            print_error("    %s %.3f\n", faulty->findings[k].id, faulty->findings[k].gain);
        wrong += !right;
        hr_diagnosis_destroy(faulty);
        hr_diagnosis_destroy(fixed);
        hr_trace_destroy(trace);
        hr_trace_destroy(fixed_trace);
    }
    assert_int_equal(wrong, 0);
}

static void test_healthy(void **state) {
    (void)state;
    hr_trace *trace;
    hr_diagnosis *diagnosis = diagnose_program(healthy, false, &trace);
    check_sums(diagnosis);
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (diagnosis->findings[i].gain > 0.05)
            print_error("%s %.3f\n", diagnosis->findings[i].id, diagnosis->findings[i].gain);
    assert_string_equal(diagnosis->findings[0].id, "healthy");
    for (int i = 1; i < diagnosis->finding_count; i++)
        assert_true(diagnosis->findings[i].gain <= 0.05);
    hr_diagnosis_destroy(diagnosis);
    hr_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted_faults),
        cmocka_unit_test(test_healthy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
