/* The parts of a diagnosis, each on a trace of a few lines with the numbers that must come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose/analysis.h"
#include "diagnose/host_cause.h"
#include "diagnose/shapes.h"
#include "support/text_trace.h"

#include <stdlib.h>
#include <string.h>

static hr_diagnosis *diagnosis_of(const char *text) {
    hr_trace *trace;
    hr_diagnosis *diagnosis;
    if (hr_text_trace(text, &trace) != HR_OK || hr_diagnose_trace(trace, NULL, &diagnosis) != HR_OK)
        fail_msg("%s", hr_last_error());
    diagnosis->owned = trace;
    return diagnosis;
}

static int64_t part(const hr_diagnosis *diagnosis, hr_time_kind kind) {
    return diagnosis->lane->accounted_ns[kind];
}

/* ---- where time goes ---- */

/* Two works side by side, communication under compute and alone, a copy, and each cause of idleness once. */
static void test_account(void **state) {
    (void)state;
    hr_diagnosis *diagnosis =
        diagnosis_of("range main 0 10000 ProfilerStep#0\n"
                     "call main 0 10 cudaLaunchKernel #1\n"
                     "kernel gpu0:7 10 990 ampere_sgemm_128x64_nn #1\n" /* 10..1000 */
                     "call main 20 10 cudaLaunchKernel #2\n"
                     "kernel gpu0:8 500 1000 ncclDevKernel_AllReduce #2\n" /* 500..1500 */
                     "call main 40 10 cudaMemcpyAsync #3\n"
                     "copy gpu0:9 1400 300 \"Memcpy HtoD\" #3 bytes=4096 from=pinned to=device\n" /* ..1700 */
                     "call main 60 2000 cudaMalloc\n"                    /* 60..2060 */
                     "range main 2060 940 \"enumerate(DataLoader)#1\"\n" /* ..3000 */
                     "call main 3000 10 cudaLaunchKernel #4\n"
                     "kernel gpu0:7 3005 95 \"elementwise_kernel\" #4\n" /* ..3100 */
                     "call main 3020 85 cudaStreamSynchronize\n"         /* ..3105 */
                     "call main 3120 10 cudaLaunchKernel #5\n"
                     "kernel gpu0:7 3125 75 \"elementwise_kernel\" #5\n" /* ..3200 */
                     "call main 8000 10 cudaLaunchKernel #6\n"
                     "kernel gpu0:7 8005 1995 \"elementwise_kernel\" #6\n");
    assert_int_equal(part(diagnosis, HR_TIME_MATRIX), 990000);
    assert_int_equal(part(diagnosis, HR_TIME_COMMUNICATION), 500000);
    assert_int_equal(part(diagnosis, HR_TIME_HOST_LINK), 200000);
    assert_int_equal(part(diagnosis, HR_TIME_ALLOCATION), 360000);
    assert_int_equal(part(diagnosis, HR_TIME_LOADER), 940000);
    assert_int_equal(part(diagnosis, HR_TIME_ELEMENTWISE), 2165000);
    assert_int_equal(part(diagnosis, HR_TIME_SYNCHRONISATION), 25000); /* from 3100 to the kernel at 3125 */
    assert_int_equal(part(diagnosis, HR_TIME_HOST), 4800000); /* 3200..8000; the first 10 us are a launch */
    assert_int_equal(part(diagnosis, HR_TIME_LAUNCH), 20000);
    hr_diagnosis_destroy(diagnosis);
}

/* ---- steps ---- */

static void test_steps(void **state) {
    (void)state;
    static const struct {
        const char *text, *found_by;
        int count, first;
        double median;
    } rows[] = {
        {"range main 0 100 ProfilerStep#7\nrange main 100 110 ProfilerStep#8\nrange main 210 120 "
         "ProfilerStep#9\n"
         "kernel gpu0:7 0 10 k\n",
         "the profiler's steps", 3, 0, 110e-6},
        {"range main 0 300 \"step 0\"\nrange main 300 100 \"step 1\"\nrange main 400 100 \"step 2\"\nrange "
         "main 500 100 \"step 3\"\n"
         "kernel gpu0:7 0 10 k\n",
         "ranges of the program", 4, 1, 100e-6},
        {"range main 90 10 Optimizer.step#SGD.step\nrange main 190 10 Optimizer.step#SGD.step\n"
         "range main 290 10 Optimizer.step#SGD.step\nkernel gpu0:7 100 10 k\nkernel gpu0:7 200 10 k\n",
         "the optimizer's ranges", 2, 0, 100e-6},
        {"kernel gpu0:7 0 10 a\nkernel gpu0:7 20 10 b\nkernel gpu0:7 40 10 b\n"
         "kernel gpu0:7 100 10 a\nkernel gpu0:7 120 10 b\nkernel gpu0:7 140 10 b\n"
         "kernel gpu0:7 200 10 a\nkernel gpu0:7 220 10 b\nkernel gpu0:7 240 10 b\n"
         "kernel gpu0:7 300 10 a\nkernel gpu0:7 320 10 b\nkernel gpu0:7 340 10 b\n",
         "repetition of the kernels", 3, 0, 100e-6},
        {"kernel gpu0:7 0 10 a\nkernel gpu0:7 50 10 b\n", "the whole trace", 1, 0, 60e-6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hr_diagnosis *diagnosis = diagnosis_of(rows[i].text);
        const hr_steps *steps = &diagnosis->lane->steps;
        assert_string_equal(steps->found_by, rows[i].found_by);
        assert_int_equal(steps->count, rows[i].count);
        assert_int_equal(steps->first, rows[i].first);
        assert_true(steps->median > 0.999 * rows[i].median && steps->median < 1.001 * rows[i].median);
        hr_diagnosis_destroy(diagnosis);
    }
}

/* The host launches three steps of 100 us of work within 30 us: the steps are the device's. */
static void test_steps_of_a_host_that_runs_ahead(void **state) {
    (void)state;
    hr_diagnosis *diagnosis = diagnosis_of("range main 0 10 \"step 0\"\ncall main 1 2 cudaLaunchKernel "
                                           "#1\nkernel gpu0:7 6 100 k #1 grid=2640,1,1\n"
                                           "range main 10 10 \"step 1\"\ncall main 11 2 cudaLaunchKernel "
                                           "#2\nkernel gpu0:7 107 100 k #2 grid=2640,1,1\n"
                                           "range main 20 10 \"step 2\"\ncall main 21 2 cudaLaunchKernel "
                                           "#3\nkernel gpu0:7 208 100 k #3 grid=2640,1,1\n");
    const hr_steps *steps = &diagnosis->lane->steps;
    assert_int_equal(steps->count, 3);
    assert_int_equal(steps->items[1].start, 106000);
    assert_int_equal(steps->items[1].end, 207000);
    assert_int_equal(steps->items[2].end, 308000);
    assert_string_equal(diagnosis->findings[0].id, "healthy");
    hr_diagnosis_destroy(diagnosis);
}

/* ---- names ---- */

static void test_classes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        hr_time_kind kind;
        unsigned flags;
    } rows[] = {
        {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", HR_TIME_COMMUNICATION, 0},
        {"void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", HR_TIME_ATTENTION, 0},
        {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", HR_TIME_NORMALISATION,
         0},
        {"void (anonymous namespace)::softmax_warp_forward<float>", HR_TIME_NORMALISATION, HR_WORK_SOFTMAX},
        {"volta_sgemm_128x32_nt", HR_TIME_MATRIX, HR_WORK_FULL},
        {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_simt", HR_TIME_MATRIX, HR_WORK_FULL},
        {"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1", HR_TIME_MATRIX,
         HR_WORK_TENSOR | HR_WORK_MISALIGNED},
        {"cutlass_80_tensorop_bf16_s16816gemm_align16", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"void multi_tensor_apply_kernel<FusedAdam>", HR_TIME_OPTIMIZER, HR_WORK_MULTI},
        {"void vectorized_elementwise_kernel<4, GeluFunctor>", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
        {"void vectorized_elementwise_kernel<4, rsqrt_kernel_cuda>", HR_TIME_ELEMENTWISE,
         HR_WORK_FUSABLE | HR_WORK_ROOT | HR_WORK_STEPPING},
        {"void elementwise_kernel<direct_copy_kernel_cuda>", HR_TIME_COPY, HR_WORK_FUSABLE},
        {"void reduce_kernel<512, 1, MeanOps>", HR_TIME_REDUCTION, HR_WORK_REDUCES},
        /* AMD: hipBLASLt on matrix cores and rocBLAS off them, MIOpen, CK */
        {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1", HR_TIME_MATRIX,
         HR_WORK_TENSOR},
        {"Cijk_Ailk_Bjlk_SB_MT64x128x16_SN_1LDSB0_AF0EM1", HR_TIME_MATRIX, HR_WORK_FULL},
        {"igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1", HR_TIME_MATRIX, HR_WORK_CONVOLUTION | HR_WORK_TENSOR},
        {"_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernel", HR_TIME_ATTENTION, 0},
        {"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", HR_TIME_COMMUNICATION, 0},
        /* inference: TensorRT-LLM, FlashInfer, SageAttention, vLLM, SGLang */
        {"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128", HR_TIME_ATTENTION, 0},
        {"void qk_int_sv_f8_attn_kernel<128u, 64u, 32u, 64u, 128u>", HR_TIME_ATTENTION, 0},
        {"sage_fwd", HR_TIME_ATTENTION, 0},
        {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<true>", HR_TIME_ATTENTION, 0},
        {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", HR_TIME_COPY, 0},
        {"void vllm::moe::topkGatingSoftmax<4, 64, 4>", HR_TIME_INDEXING, HR_WORK_LOSS},
        {"void vllm::rms_norm_kernel<c10::BFloat16>", HR_TIME_NORMALISATION, 0},
        {"void marlin_moe_wna16::Marlin<1125899906909960l>", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", HR_TIME_COMMUNICATION,
         0},
        {"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16>",
         HR_TIME_COMMUNICATION, 0},
        /* CuPy and cuFFT, XLA */
        {"cupy_multiply__float32_float32_float32", HR_TIME_ELEMENTWISE, HR_WORK_FUSABLE},
        {"cupy_sum", HR_TIME_REDUCTION, HR_WORK_REDUCES},
        {"void regular_fft_factor<1920u, EPT<12u>>", HR_TIME_FOURIER, 0},
        {"loop_add_fusion_3", HR_TIME_ELEMENTWISE, 0},
        {"input_reduce_fusion_92", HR_TIME_REDUCTION, 0},
        {"input_transpose_fusion_2", HR_TIME_COPY, 0},
        {"wrapped_reduce", HR_TIME_REDUCTION, 0},
        {"wrapped_tanh", HR_TIME_ELEMENTWISE, 0},
        {"gemm_fusion_dot_265", HR_TIME_MATRIX, 0},
        {"all-gather-start", HR_TIME_COMMUNICATION, 0},
        /* Inductor: by the operations that it names */
        {"triton_poi_fused_convolution_relu_2", HR_TIME_ELEMENTWISE, 0},
        {"triton_poi_fused__scaled_dot_product_flash_attention_clone_view_7", HR_TIME_ELEMENTWISE, 0},
        {"triton_poi_fused_embedding_0", HR_TIME_INDEXING, 0},
        {"triton_red_fused_add_native_layer_norm_3", HR_TIME_NORMALISATION, 0},
        {"triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_1", HR_TIME_NORMALISATION, 0},
        {"triton_red_fused__softmax_4", HR_TIME_NORMALISATION, HR_WORK_SOFTMAX},
        {"triton_red_fused__log_softmax__log_softmax_backward_data_nll_loss_backward_0",
         HR_TIME_NORMALISATION, HR_WORK_LOSS},
        {"triton_red_fused_sum_8", HR_TIME_REDUCTION, HR_WORK_REDUCES},
        {"triton_tem_fused_mm_5", HR_TIME_MATRIX, 0},
        {"triton_tem_fused_flex_attention_0", HR_TIME_ATTENTION, 0},
        {"triton_for_fused_2", HR_TIME_OPTIMIZER, HR_WORK_MULTI},
        {"_fwd_kernel", HR_TIME_ATTENTION, 0},
        {"_layer_norm_fwd_kernel", HR_TIME_NORMALISATION, 0},
        {"__myl_MulAddResMean_myl0_1", HR_TIME_ELEMENTWISE, 0},
        {"trt_volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", HR_TIME_MATRIX,
         HR_WORK_CONVOLUTION | HR_WORK_TENSOR | HR_WORK_OLD},
        {"void soft_max_f32<true, 0, 0>", HR_TIME_NORMALISATION, HR_WORK_SOFTMAX},
        {"void mul_mat_q<(ggml_type)8, 80, 8, false>", HR_TIME_MATRIX, 0},
        {"wvSplitK_hf_sml_<__half, 64, 2, 16, 8, 2, 1>", HR_TIME_MATRIX, 0},
        /* generations and alignment */
        {"void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>", HR_TIME_MATRIX,
         HR_WORK_TENSOR | HR_WORK_MISALIGNED | HR_WORK_OLD},
        {"cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align2", HR_TIME_MATRIX,
         HR_WORK_TENSOR | HR_WORK_MISALIGNED},
        {"cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4", HR_TIME_MATRIX, HR_WORK_TENSOR},
        {"turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", HR_TIME_MATRIX, HR_WORK_TENSOR | HR_WORK_OLD},
        {"sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", HR_TIME_MATRIX,
         HR_WORK_TENSOR | HR_WORK_CONVOLUTION},
        {"void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<c10::Half>",
         HR_TIME_INDEXING, 0},
        {"my_kernel", HR_TIME_OTHER, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hr_kernel_class class = hr_classify_kernel(rows[i].name);
        if (class.kind != rows[i].kind || class.flags != rows[i].flags)
            fail_msg("%s: kind %s, flags %x", rows[i].name, hr_time_kind_name(class.kind), class.flags);
    }
    assert_int_equal(hr_classify_call("cudaLaunchKernelExC"), HR_CALL_LAUNCH);
    assert_int_equal(hr_classify_call("cudaGraphLaunch"), HR_CALL_GRAPH_LAUNCH);
    assert_int_equal(hr_classify_call("cuStreamWaitEvent"), HR_CALL_STREAM_WAIT);
    assert_int_equal(hr_classify_call("cudaFree"), HR_CALL_ALLOCATE);
    assert_int_equal(hr_classify_call("cudaGetDevice"), HR_CALL_OTHER);
    assert_int_equal(hr_classify_call("cuModuleUnload"), HR_CALL_OTHER);
    static const struct {
        const char *name;
        hr_call_class kind;
    } others[] = {{"hipExtModuleLaunchKernel", HR_CALL_LAUNCH},
                  {"hipMemcpyWithStream", HR_CALL_COPY},
                  {"hipStreamSynchronize", HR_CALL_SYNCHRONISE},
                  {"hipGraphLaunch", HR_CALL_GRAPH_LAUNCH},
                  {"hipFree", HR_CALL_ALLOCATE},
                  {"urEnqueueKernelLaunch", HR_CALL_LAUNCH},
                  {"urEnqueueUSMMemcpy", HR_CALL_COPY},
                  {"urEnqueueUSMFill", HR_CALL_LAUNCH},
                  {"urQueueFinish", HR_CALL_SYNCHRONISE},
                  {"urUSMDeviceAlloc", HR_CALL_ALLOCATE},
                  {"zeCommandListAppendLaunchKernel", HR_CALL_LAUNCH},
                  {"zeCommandListAppendMemoryCopy", HR_CALL_COPY}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (hr_classify_call(others[i].name) != others[i].kind) fail_msg("%s", others[i].name);
    assert_int_equal(hr_classify_range("Optimizer.zero_grad#SGD.zero_grad"), 0);
}

static void test_short_names(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
         "at::detail::Array<char*, 3> >(int)",
         "vectorized_elementwise_kernel<add>"},
        {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64>(Params)",
         "cutlass_80_tensorop_s1688gemm_64x64"},
        {"volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt"},
        {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1>(float*)",
         "CatArrayBatchedCopy"},
        {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
        {"", ""}};
    hr_arena *arena;
    assert_int_equal(hr_arena_create(1 << 20, &arena), HR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(hr_kernel_short_name(arena, rows[i][0]), rows[i][1]);
    hr_arena_destroy(arena);
}

static void test_shapes(void **state) {
    (void)state;
    hr_shapes shapes;
    hr_product product;
    double bytes, flops;
    assert_true(hr_shapes_parse("[[256], [128, 512], [512, 256], []]",
                                "[\"float\", \"c10::Half\", \"c10::Half\", \"Scalar\"]", &shapes));
    assert_int_equal(shapes.count, 4);
    assert_true(hr_shapes_product("aten::addmm", &shapes, &product));
    assert_int_equal(product.m, 128);
    assert_int_equal(product.n, 256);
    assert_int_equal(product.k, 512);
    assert_int_equal(product.bytes, 2);
    hr_shapes_work("aten::addmm", &shapes, HR_TIME_MATRIX, &bytes, &flops);
    assert_true(flops == 2.0 * 128 * 256 * 512 && bytes == 2.0 * (128 * 512 + 512 * 256 + 128 * 256));
    assert_false(hr_shapes_product("aten::mm", &shapes, &product)); /* [256] is no matrix */
    assert_false(hr_shapes_parse("", "", &shapes));
    hr_shapes_parse("[[10, 20], [20]]", "[\"float\", \"float\"]", &shapes);
    hr_shapes_work("aten::mul", &shapes, HR_TIME_ELEMENTWISE, &bytes, &flops);
    assert_true(bytes == 4.0 * (200 + 20 + 200));
}

/* 255 registers a thread: 2 blocks of 128 fit (65536 / (128 * 256)); 8 of 64 warps. */
static void test_occupancy(void **state) {
    (void)state;
    hr_diagnosis *diagnosis =
        diagnosis_of("device 0 \"NVIDIA H200\" multiprocessors=132 compute=90\n"
                     "kernel gpu0:7 0 100 k grid=264,1,1 block=128,1,1 registers=255\n"
                     "kernel gpu0:7 100 50 s grid=660,1,1 block=256,1,1 registers=32 shared=100000\n"
                     "kernel gpu0:7 150 10 g grid=10,1,1 block=256,1,1 registers=32\n");
    const hr_kernel_summary *kernels = diagnosis->kernels;
    assert_int_equal(diagnosis->kernel_count, 3);
    assert_int_equal(kernels[0].limiter, HR_LIMITER_REGISTERS);
    assert_true(kernels[0].occupancy == 8.0 / 64 && kernels[0].waves == 1);
    assert_int_equal(kernels[1].limiter, HR_LIMITER_SHARED); /* 2 blocks of 101024 bytes in 228 KB */
    assert_true(kernels[1].occupancy == 16.0 / 64 && kernels[1].waves == 2.5);
    assert_int_equal(kernels[2].limiter, HR_LIMITER_GRID);
    hr_diagnosis_destroy(diagnosis);
}

/* headroom's own kernels carry their floor in a range around the launch. */
static void test_own_floor(void **state) {
    (void)state;
    hr_diagnosis *diagnosis =
        diagnosis_of("range main 0 20 \"layernorm floor=12.5us bound=memory bytes=5e7 flops=1e8\"\n"
                     "call main 5 5 cuLaunchKernel #1\n"
                     "kernel gpu0:7 15 25 layernorm_kernel #1 grid=1000,1,1 block=256,1,1\n");
    const hr_kernel_summary *kernel = &diagnosis->kernels[0];
    assert_int_equal(kernel->bound, HR_BOUND_MEMORY);
    assert_true(kernel->roof_fraction > 0.499 && kernel->roof_fraction < 0.501);
    assert_true(kernel->bytes == 5e7 && kernel->flops == 1e8);
    hr_diagnosis_destroy(diagnosis);
}

/* ---- several traces ---- */

static void test_straggler(void **state) {
    (void)state;
    hr_diagnosis *diagnosis =
        diagnosis_of("rank 0 of 2\nrange main 0 1000 ProfilerStep#0\nkernel gpu0:7 0 600 ampere_sgemm_x\n"
                     "kernel gpu0:8 600 400 ncclDevKernel_AllReduce\nrange main 1000 10 x\n"
                     "rank 1 of 2\nrange main 0 1000 ProfilerStep#0\nkernel gpu0:7 0 950 ampere_sgemm_x\n"
                     "kernel gpu0:8 950 50 ncclDevKernel_AllReduce\nrange main 1000 10 x\n");
    const hr_finding *straggler = NULL;
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].id, "straggler") == 0) straggler = &diagnosis->findings[i];
    assert_int_equal(diagnosis->lane_count, 2);
    assert_int_equal(diagnosis->trace->ranks.items[diagnosis->lane->rank].rank, 1);
    assert_non_null(straggler);
    assert_true(straggler->gain > 0.17 && straggler->gain < 0.18); /* 950 against a mean of 775 */
    hr_diagnosis_destroy(diagnosis);
}

static void test_comparison(void **state) {
    (void)state;
    hr_diagnosis *before = diagnosis_of(
        "range main 0 1000 ProfilerStep#0\nkernel gpu0:7 0 600 old_kernel\nkernel gpu0:7 600 400 same\n");
    hr_diagnosis *after = diagnosis_of(
        "range main 0 700 ProfilerStep#0\nkernel gpu0:7 0 310 new_kernel\nkernel gpu0:7 310 390 same\n");
    assert_int_equal(hr_diagnosis_join(before, after), HR_OK);
    assert_int_equal(before->change_count, 3);
    assert_string_equal(before->changes[0].name, "old_kernel");
    assert_int_equal(before->changes[0].after_name, -1);
    assert_string_equal(before->changes[1].name, "new_kernel");
    assert_true(before->changes[1].before == 0 && before->changes[1].after > 309e-6);
    assert_string_equal(before->changes[2].name, "same");
    hr_diagnosis_destroy(before);
}

/* ---- products that the library has only old kernels for ---- */

/* A head of 50257 columns in bf16: an eighth of a step goes to a kernel of Turing on a Hopper. */
static void test_kernel_of_an_older_device(void **state) {
    (void)state;
    static const char text[] =
        "device 0 \"NVIDIA H100 80GB HBM3\" compute=90 multiprocessors=132\n"
        "call main 0 5 cudaLaunchKernel #1\nkernel gpu0:7 10 8800 nvjet_tst_256x128_64x4 #1 grid=132,1,1\n"
        "operator main 18 20 aten::mm shapes=\"[[8192, 768], [768, 50257]]\" "
        "dtypes=\"[\\\"c10::BFloat16\\\", \\\"c10::BFloat16\\\"]\"\n"
        "call main 20 5 cudaLaunchKernel #2\n"
        "kernel gpu0:7 8810 1200 cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1 #2 grid=132,1,1\n"
        "call main 40 9972 cudaDeviceSynchronize\n";
    hr_diagnosis *diagnosis = diagnosis_of(text);
    const hr_finding *found = &diagnosis->findings[0];
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].id, "misaligned-dimensions") == 0) found = &diagnosis->findings[i];
    assert_string_equal(found->id, "misaligned-dimensions");
    assert_true(found->gain > 0.06 && found->gain < 0.075); /* 0.57 of 1.2 ms of 10 */
    assert_non_null(strstr(found->evidence[1].text, "capability 7.x; this device has 9.0"));
    assert_non_null(strstr(found->evidence[2].text, "N=50257"));
    hr_diagnosis_destroy(diagnosis);
}

/* ---- whose code the host ran ---- */

static void test_frames(void **state) {
    (void)state;
    static const struct {
        const char *name, *file, *function;
        int line;
        bool library;
    } rows[] = {
        {"video.py(57): preprocess", "video.py", "preprocess", 57, false},
        {"/home/a (b)/run.py(3): <module>", "/home/a (b)/run.py", "<module>", 3, false},
        {"$train.py:12 step", "train.py", "step", 12, false},
        {"torch/utils/data/dataloader.py(634): __next__", "torch/utils/data/dataloader.py", "__next__", 634,
         true},
        {"/usr/lib/python3.11/random.py(9): choice", "/usr/lib/python3.11/random.py", "choice", 9, true},
        {"threading.py(972): run", "threading.py", "run", 972, true}};
    hr_frame frame;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(hr_frame_read(rows[i].name, &frame));
        assert_int_equal(frame.file_length, strlen(rows[i].file));
        assert_memory_equal(frame.file, rows[i].file, strlen(rows[i].file));
        assert_int_equal(frame.function_length, strlen(rows[i].function));
        assert_memory_equal(frame.function, rows[i].function, strlen(rows[i].function));
        assert_int_equal(frame.line, rows[i].line);
        assert_int_equal(hr_frame_is_library(&frame), rows[i].library);
    }
    static const char *const others[] = {"aten::mm", "nn.Module: Linear_0",    "(1): x", "f(): g", "$",
                                         "$a b",     "<built-in method sleep>"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(hr_frame_read(others[i], &frame));
}

static const hr_finding *finding_of(const hr_diagnosis *diagnosis, const char *id) {
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].id, id) == 0) return &diagnosis->findings[i];
    fail_msg("no finding %s", id);
    return NULL;
}

static bool says(const hr_finding *finding, const char *words) {
    for (int i = 0; i < finding->evidence_count; i++)
        if (strstr(finding->evidence[i].text, words)) return true;
    return false;
}

/* The loader's time is the user's `preprocess`, which a library works for; the program's main function fills
 * more of it and says less. The same without a loader's range, and for work of the host that makes no input.
 */
static void test_python_as_cause(void **state) {
    (void)state;
    static const struct {
        const char *around, *id, *library, *launch;
    } rows[] = {
        {"operator main 20 2190 \"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\"\n",
         "input-pipeline", "torch/utils/data/dataloader.py(634): __next__",
         "call main 2240 8 cudaLaunchKernel #2\nkernel gpu0:7 2250 700 nvjet_tst_b #2 grid=132,1,1\n"},
        {"", "input-pipeline", "torch/utils/data/dataloader.py(634): __next__",
         "call main 2240 8 cudaMemcpyAsync #2\ncopy gpu0:7 2250 700 \"Memcpy HtoD\" #2 bytes=4194304 "
         "from=pinned to=device\n"},
        {"", "host-bound", "torch/nn/modules/module.py(1501): _call_impl",
         "call main 2240 8 cudaLaunchKernel #2\nkernel gpu0:7 2250 700 nvjet_tst_b #2 grid=132,1,1\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "operator main 0 3000 \"train.py(10): main\" python\n"
                 "call main 5 8 cudaLaunchKernel #1\nkernel gpu0:7 15 5 nvjet_tst_a #1 grid=132,1,1\n%s"
                 "operator main 30 2180 \"%s\" python\n"
                 "operator main 35 2170 \"video_classification.py(57): preprocess\" python\n"
                 "operator main 40 2000 \"PIL/Image.py(2200): resize\" python\n%s"
                 "call main 2960 20 cudaDeviceSynchronize\n",
                 rows[i].around, rows[i].library, rows[i].launch);
        hr_diagnosis *diagnosis = diagnosis_of(text);
        const hr_finding *found = finding_of(diagnosis, rows[i].id);
        if (!says(found, "`preprocess` in video_classification.py, line 57: 2.17 ms of these 2."))
            fail_msg("%s: %s, %s", rows[i].id, found->evidence[0].text,
                     found->evidence[found->evidence_count - 1].text);
        hr_diagnosis_destroy(diagnosis);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_steps_of_a_host_that_runs_ahead),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_kernel_of_an_older_device),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_python_as_cause),
        cmocka_unit_test(test_short_names),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_occupancy),
        cmocka_unit_test(test_own_floor),
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
