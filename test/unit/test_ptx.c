/* The PTX wrappers one by one, by NVRTC: each call becomes its instruction, assembles for sm_90a, and for
 * sm_80 where the instruction is there and only there. So does each product of the tensor cores. */
#include "device/compiler_cuda.h"
#include "emit/cuda/launcher_text.h"
#include "emit/cuda/tensor_core.h"
#include "emit/prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

static hr_cuda_compiler compiler;

/* A kernel has: s, an address in shared memory; m, 8 bytes further on; g and map, memory; i, a number; w,
 * words. */
static const struct wrapper {
    const char *call, *instruction;
    int compute; /* from which on */
} wrappers[] = {
    {"w[0] = ptx_shared_address(g)", "cvta.to.shared.u64", 80},
    {"w[0] = ptx_cluster_rank()", "mov.u32 %r, %cluster_ctarank;", 90},
    {"w[0] = ptx_cluster_address(s, i)", "mapa.shared::cluster.u32 %r, %r, %r;", 90},
    {"ptx_cluster_store_4(s, i)", "st.shared::cluster.u32 [%r], %r;", 90},
    {"*(uint4 *)w = ptx_cluster_load_16(s)", "ld.shared::cluster.v4.u32 {%r, %r, %r, %r}, [%r];", 90},
    {"ptx_cluster_send_4(s, i, m)",
     "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r], %r, [%r];", 90},
    {"ptx_mbarrier_init(m, i)", "mbarrier.init.shared.b64 [%r], %r;", 80},
    {"ptx_fence_mbarrier_init()", "fence.mbarrier_init.release.cluster;", 90},
    {"ptx_mbarrier_arrive(m)", "mbarrier.arrive.shared.b64 _, [%r];", 80},
    {"ptx_mbarrier_arrive_expect(m, i)", "mbarrier.arrive.expect_tx.shared.b64 _, [%r], %r;", 90},
    {"ptx_mbarrier_arrive_cluster(m)", "mbarrier.arrive.shared::cluster.b64 _, [%r];", 90},
    {"w[0] = ptx_mbarrier_try_wait(m, i)", "mbarrier.try_wait.parity.shared.b64 p, [%r], %r;", 90},
    {"ptx_mbarrier_wait(m, i)", "mbarrier.try_wait.parity.shared.b64 p, [%r], %r;", 90},
    {"ptx_mbarrier_arrive_after_copies(m)", "cp.async.mbarrier.arrive.noinc.shared.b64 [%r];", 80},
    {"ptx_barrier_sync(3, 64)", "bar.sync %r, %r;", 80},
    {"ptx_barrier_arrive(3, 64)", "bar.arrive %r, %r;", 80},
    {"ptx_cluster_arrive()", "barrier.cluster.arrive.release.aligned;", 90},
    {"ptx_cluster_wait()", "barrier.cluster.wait.acquire.aligned;", 90},
    {"w[0] = ptx_elect()", "elect.sync _|p, 0xffffffff;", 90},
    {"ptx_fence_proxy_async()", "fence.proxy.async.shared::cta;", 90},
    {"ptx_registers_give<24>()", "setmaxnreg.dec.sync.aligned.u32 24;", 90},
    {"ptx_registers_take<240>()", "setmaxnreg.inc.sync.aligned.u32 240;", 90},
    {"ptx_launch_wait()", "griddepcontrol.wait;", 90},
    {"ptx_launch_dependents()", "griddepcontrol.launch_dependents;", 90},
    {"ptx_copy<4>(s, g)", "cp.async.ca.shared.global [%r], [%rd], 4;", 80},
    {"ptx_copy_part<16>(s, g, i)", "cp.async.ca.shared.global [%r], [%rd], 16, %r;", 80},
    {"ptx_copy_part_past_l1(s, g, i)", "cp.async.cg.shared.global [%r], [%rd], 16, %r;", 80},
    {"ptx_copy_commit()", "cp.async.commit_group;", 80},
    {"ptx_copy_wait<2>()", "cp.async.wait_group 2;", 80},
    {"ptx_copy_wait_all()", "cp.async.wait_all;", 80},
    {"ptx_bulk_load(s, g, i, m)",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r], [%rd], %r, [%r];", 90},
    {"ptx_bulk_load_hint(s, g, i, m, ptx_evict_last())",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r], [%rd], %r, "
     "[%r], "
     "%rd;",
     90},
    {"ptx_bulk_store(g, s, i)", "cp.async.bulk.global.shared::cta.bulk_group [%rd], [%r], %r;", 90},
    {"ptx_bulk_add_f32(g, s, i)",
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd], [%r], %r;", 90},
    {"ptx_bulk_commit()", "cp.async.bulk.commit_group;", 90},
    {"ptx_bulk_wait_read<1>()", "cp.async.bulk.wait_group.read 1;", 90},
    {"ptx_bulk_wait<1>()", "cp.async.bulk.wait_group 1;", 90},
    {"ptx_tensor_prefetch(map)", "prefetch.tensormap [%rd];", 90},
    {"ptx_tensor_load_1d(s, map, i, m)",
     "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r], [%rd, {%r}], [%r];",
     90},
    {"ptx_tensor_load_2d_hint(s, map, i, 1, m, ptx_evict_first())",
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r], [%rd, "
     "{%r, %r}], [%r], %rd;",
     90},
    {"ptx_tensor_load_3d_multicast(s, map, i, 1, 2, m, 3)",
     "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r], "
     "[%rd, {%r, %r, %r}], [%r], %rs;",
     90},
    {"ptx_tensor_load_4d_multicast_hint(s, map, i, 1, 2, 3, m, 3, ptx_evict_normal())",
     "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
     "cache_"
     "hint [%r], [%rd, {%r, %r, %r, %r}], [%r], %rs, %rd;",
     90},
    {"ptx_tensor_load_5d(s, map, i, 1, 2, 3, 4, m)",
     "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%r], [%rd, {%r, %r, %r, "
     "%r, "
     "%r}], [%r];",
     90},
    {"ptx_tensor_load_5d_multicast_hint(s, map, i, 1, 2, 3, 4, m, 3, 0)",
     "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
     "cache_"
     "hint [%r], [%rd, {%r, %r, %r, %r, %r}], [%r], %rs, %rd;",
     90},
    {"ptx_tensor_store_1d(map, i, s)",
     "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd, {%r}], [%r];", 90},
    {"ptx_tensor_store_5d(map, i, 1, 2, 3, 4, s)",
     "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%rd, {%r, %r, %r, %r, %r}], [%r];", 90},
    {"ptx_tensor_add_2d(map, i, 1, s)",
     "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd, {%r, %r}], [%r];", 90},
    {"ptx_load_matrix_1(x1, s)", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r}, [%r];", 80},
    {"ptx_load_matrix_2(x2, s)", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r, %r}, [%r];", 80},
    {"ptx_load_matrix_4(x4, s)", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r, %r, %r, %r}, [%r];", 80},
    {"ptx_load_matrix_2_transposed(x2, s)", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r, %r}, [%r];",
     80},
    {"ptx_load_matrix_4_transposed(x4, s)",
     "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r, %r, %r, %r}, [%r];", 80},
    {"ptx_store_matrix_2(s, x2)", "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r], {%r, %r};", 90},
    {"ptx_store_matrix_4(s, x4)", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r], {%r, %r, %r, %r};", 90},
    {"ptx_store_matrix_4_transposed(s, x4)",
     "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r], {%r, %r, %r, %r};", 90},
    {"ptx_wgmma_fence()", "wgmma.fence.sync.aligned;", 90},
    {"ptx_wgmma_commit()", "wgmma.commit_group.sync.aligned;", 90},
    {"ptx_wgmma_wait<1>()", "wgmma.wait_group.sync.aligned 1;", 90},
};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers };

/* ---- sources ---- */

static void source_make(const char *functions, const char *kernels, hr_text *out) {
    hr_text_format(out, "%s\n", (const char *)hr_cuda_file_head_text);
    assert_int_equal(hr_prelude_append(HR_PRELUDE_CUDA, kernels, NULL, out), HR_OK);
    hr_text_format(out, "%s%s", functions, kernels);
    assert_int_equal(hr_text_status(out), HR_OK);
}

static void kernel_make(int number, const char *call, hr_text *out) {
    hr_text_format(
        out,
        "extern \"C\" __global__ void __launch_bounds__(128, 1) k_%d(void *g, const void *map, int i,\n"
        "    uint32_t *w, uint32_t s, uint32_t m) {\n"
        "    __shared__ uint32_t array[4];\n"
        "    uint32_t x1[1] = {w[1]}, x2[2] = {w[1], w[2]}, x4[4] = {w[1], w[2], w[3], w[4]};\n"
        "    array[threadIdx.x %% 4] = x1[0] + x2[1] + x4[3];\n"
        "    %s;\n"
        "    w[5] = x1[0], w[6] = x2[0], w[7] = x4[0];\n"
        "}\n",
        number, call);
}

/* ---- what NVRTC makes of them ---- */

static char *ptx_of(const char *source) {
    const char *options[] = {"--gpu-architecture=compute_90a", "--std=c++17", "--device-int128"};
    int (*size_of)(hr_nvrtc_program, size_t *), (*read)(hr_nvrtc_program, char *);
    hr_nvrtc_program program;
    size_t size;
    *(void **)&size_of = dlsym(compiler.library, "nvrtcGetPTXSize");
    *(void **)&read = dlsym(compiler.library, "nvrtcGetPTX");
    assert_non_null(size_of);
    assert_non_null(read);
    assert_int_equal(compiler.create(&program, source, "ptx.cu", 0, NULL, NULL), 0);
    assert_int_equal(compiler.compile(program, 3, options), 0);
    assert_int_equal(size_of(program, &size), 0);
    char *ptx = malloc(size);
    assert_non_null(ptx);
    assert_int_equal(read(program, ptx), 0);
    compiler.destroy(&program);
    return ptx;
}

/* Registers lose their numbers: "%r12" is "%r". Of names like %cluster_ctarank nothing is lost. */
static void forget_numbers(char *text) {
    char *to = text;
    for (const char *at = text; *at; *to++ = *at++)
        if (*at >= '0' && *at <= '9' && to - text >= 2) {
            const char *name = to;
            while (name > text && name[-1] >= 'a' && name[-1] <= 'z')
                name--;
            if (name > text && name[-1] == '%' && name < to)
                while (at[1] && *at >= '0' && *at <= '9')
                    at++;
        }
    *to = 0;
}

static hr_status assemble(const char *arch, const char *source, hr_text *log) {
    void *cubin = NULL;
    size_t size;
    hr_status status = hr_cuda_compiler_run(&compiler, arch, source, &cubin, &size, log);
    if (status == HR_OK) free(cubin);
    return status;
}

/* `remark`: what the assembler must not say. */
static void expect_assembled(const char *source, const char *remark) {
    hr_text log = {0};
    if (assemble("sm_90a", source, &log) != HR_OK) fail_msg("%s", hr_last_error());
    const char *at = strstr(hr_text_data(&log), remark);
    if (at) fail_msg("%.300s", at);
    hr_text_clear(&log);
}

/* ---- tests ---- */

static void test_wrappers_become_their_instructions(void **state) {
    (void)state;
    hr_text kernels = {0}, source = {0};
    for (int i = 0; i < WRAPPERS; i++)
        kernel_make(i, wrappers[i].call, &kernels);
    source_make("", hr_text_data(&kernels), &source);
    expect_assembled(hr_text_data(&source), "C7508"); /* setmaxnreg is left out */
    char *ptx = ptx_of(hr_text_data(&source));
    for (int i = 0; i < WRAPPERS; i++) {
        char name[32];
        snprintf(name, sizeof name, ".entry k_%d(", i);
        const char *begin = strstr(ptx, name), *end = begin ? strstr(begin, "\n}") : NULL;
        assert_non_null(end);
        char *body = strndup(begin, (size_t)(end - begin));
        assert_non_null(body);
        forget_numbers(body);
        if (!strstr(body, wrappers[i].instruction))
            fail_msg("%s gives no %s:\n%s", wrappers[i].call, wrappers[i].instruction, body);
        free(body);
    }
    free(ptx);
    hr_text_clear(&kernels);
    hr_text_clear(&source);
}

/* Source of one call has the wrappers that it uses and no others. */
static void test_emission_has_what_it_uses(void **state) {
    (void)state;
    for (int i = 0; i < WRAPPERS; i++) {
        hr_text kernel = {0}, source = {0};
        kernel_make(i, wrappers[i].call, &kernel);
        source_make("", hr_text_data(&kernel), &source);
        const char *text = hr_text_data(&source);
        int functions = 0;
        for (const char *at = text; (at = strstr(at, "static __device__")); at++)
            functions++;
        if (functions < 1 || functions > 2) fail_msg("%s brings %d functions", wrappers[i].call, functions);
        hr_text_clear(&kernel);
        hr_text_clear(&source);
    }
}

static void test_older_machines_refuse_what_they_lack(void **state) {
    (void)state;
    hr_text older = {0}, source = {0};
    for (int i = 0; i < WRAPPERS; i++)
        if (wrappers[i].compute <= 80) kernel_make(i, wrappers[i].call, &older);
    source_make("", hr_text_data(&older), &source);
    hr_text log = {0};
    if (assemble("sm_80", hr_text_data(&source), &log) != HR_OK) fail_msg("%s", hr_last_error());
    hr_text_clear(&log);
    hr_text_clear(&older);
    hr_text_clear(&source);
    for (int i = 0; i < WRAPPERS; i++) {
        if (wrappers[i].compute <= 80) continue;
        hr_text kernel = {0};
        kernel_make(i, wrappers[i].call, &kernel);
        source_make("", hr_text_data(&kernel), &source);
        if (assemble("sm_80", hr_text_data(&source), &log) == HR_OK)
            fail_msg("%s assembles for sm_80", wrappers[i].call);
        hr_text_clear(&log);
        hr_text_clear(&kernel);
        hr_text_clear(&source);
    }
}

/* ---- products ---- */

typedef struct product_list {
    hr_tensor_core *list;
    int count, refused;
} product_list;

static void add_product(product_list *products, hr_tensor_core product) {
    if (hr_tensor_core_check(&product) != HR_OK) {
        products->refused++;
        return;
    }
    products->list = realloc(products->list, (size_t)(products->count + 1) * sizeof product);
    assert_non_null(products->list);
    products->list[products->count++] = product;
}

/* All pairs of types, sums and places with this number of columns. */
static product_list products_of(hr_tensor_threads threads, int columns) {
    product_list products = {0};
    int places = threads == HR_TENSOR_WARP ? 1 : 3;
    for (int type = 0; type < 7 * 7 * 3; type++)
        for (int place = 0; place < places * places; place++)
            add_product(&products, (hr_tensor_core){
                                       threads, (hr_tensor_type)(type % 7), (hr_tensor_type)(type / 7 % 7),
                                       (hr_tensor_sum)(type / 49), columns, (hr_tensor_place)(place % places),
                                       (hr_tensor_place)(place / places)});
    return products;
}

/* One kernel a product: the accumulators come from memory and go there. */
static void print_use(const hr_tensor_core *product, hr_text *out) {
    char name[96];
    bool warp = product->threads == HR_TENSOR_WARP, packed = product->sum == HR_TENSOR_SUM_F16;
    int registers = (warp ? 4 : product->columns / 2) / (packed ? 2 : 1);
    const char *type = packed ? "uint32_t" : product->sum == HR_TENSOR_SUM_F32 ? "float" : "int32_t";
    hr_tensor_core_name(product, name, sizeof name);
    hr_text_format(
        out,
        "extern \"C\" __global__ void __launch_bounds__(128, 1) k_%s(%s *w, const uint32_t *v, uint64_t "
        "x, uint64_t y) {\n"
        "    %s d[%d];\n"
        "    uint32_t a[4] = {v[0], v[1], v[2], v[threadIdx.x]}, b[2] = {v[4], v[5]};\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < %d; i++) d[i] = w[i * 128 + threadIdx.x];\n",
        name, type, type, registers, registers);
    if (warp)
        hr_text_format(out, "    %s(d, a, b);\n", name);
    else
        hr_text_format(out,
                       "    asm volatile(\"\" : \"+r\"(a[0]), \"+r\"(a[1]), \"+r\"(a[2]), \"+r\"(a[3]));\n"
                       "    ptx_wgmma_fence();\n    %s(d, %s, y, (int)v[9]);\n    ptx_wgmma_commit();\n"
                       "    ptx_wgmma_wait<0>();\n",
                       name, product->a_place == HR_TENSOR_REGISTERS ? "a" : "x");
    hr_text_format(out,
                   "#pragma unroll\n"
                   "    for (int i = 0; i < %d; i++) w[i * 128 + threadIdx.x] = d[i];\n}\n",
                   registers);
}

static void compile_products(const product_list *products) {
    hr_text functions = {0}, kernels = {0}, source = {0};
    for (int i = 0; i < products->count; i++)
        print_use(&products->list[i], &kernels);
    assert_int_equal(hr_tensor_core_append(products->list, products->count, &functions), HR_OK);
    source_make(hr_text_data(&functions), hr_text_data(&kernels), &source);
    expect_assembled(hr_text_data(&source), "C75"); /* any of its remarks on products */
    hr_text_clear(&functions);
    hr_text_clear(&kernels);
    hr_text_clear(&source);
}

/* 7.1: bf16, f16 twice (two sums), tf32, four pairs of f8 twice, four of whole numbers. */
static void test_products_of_a_warp(void **state) {
    (void)state;
    product_list products = products_of(HR_TENSOR_WARP, 8);
    assert_int_equal(products.count, 1 + 2 + 1 + 8 + 4);
    compile_products(&products);
    free(products.list);
}

static void test_products_of_a_warpgroup(void **state) {
    (void)state;
    product_list products = products_of(HR_TENSOR_WARPGROUP, 16);
    assert_int_equal(products.count, 6 + 12 + 2 + 16 + 8);
    compile_products(&products);
    free(products.list);
}

/* Of every width, with A in shared memory and in registers; what is no width is refused. */
static void test_widths(void **state) {
    (void)state;
    product_list floats = {0}, wholes = {0};
    for (int columns = 0; columns <= 264; columns += 4)
        for (int registers = 0; registers < 2; registers++) {
            hr_tensor_place place = registers ? HR_TENSOR_REGISTERS : HR_TENSOR_K_MAJOR;
            add_product(&floats, (hr_tensor_core){HR_TENSOR_WARPGROUP, HR_TENSOR_BF16, HR_TENSOR_BF16,
                                                  HR_TENSOR_SUM_F32, columns, place, HR_TENSOR_K_MAJOR});
            add_product(&wholes, (hr_tensor_core){HR_TENSOR_WARPGROUP, HR_TENSOR_S8, HR_TENSOR_U8,
                                                  HR_TENSOR_SUM_S32, columns, place, HR_TENSOR_K_MAJOR});
        }
    assert_int_equal(floats.count, 2 * 32);
    assert_int_equal(wholes.count, 2 * (4 + 14));
    compile_products(&floats);
    compile_products(&wholes);
    free(floats.list);
    free(wholes.list);
}

static void test_names(void **state) {
    (void)state;
    char name[96];
    hr_tensor_core product = {HR_TENSOR_WARPGROUP, HR_TENSOR_E4M3,   HR_TENSOR_E5M2, HR_TENSOR_SUM_F32, 128,
                              HR_TENSOR_REGISTERS, HR_TENSOR_K_MAJOR};
    hr_tensor_core_name(&product, name, sizeof name);
    assert_string_equal(name, "ptx_wgmma_m64n128k32_f32_e4m3_e5m2_r_k");
    product.b_place = HR_TENSOR_MN_MAJOR;
    assert_int_equal(hr_tensor_core_check(&product), HR_BAD_INPUT);
    assert_non_null(
        strstr(hr_last_error(), "ptx_wgmma_m64n128k32_f32_e4m3_e5m2_r_mn: an operand cannot lie so"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_emission_has_what_it_uses),
        cmocka_unit_test(test_wrappers_become_their_instructions),
        cmocka_unit_test(test_older_machines_refuse_what_they_lack),
        cmocka_unit_test(test_products_of_a_warp),
        cmocka_unit_test(test_products_of_a_warpgroup),
        cmocka_unit_test(test_widths),
    };
    hr_cuda_compiler_create(&compiler);
    hr_text log = {0};
    if (hr_cuda_compiler_find(&compiler, 0) != HR_OK || assemble("sm_80", "", &log) == HR_NOT_AVAILABLE) {
        print_message("skipped: %s\n", hr_last_error());
        return 77;
    }
    hr_text_clear(&log);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hr_cuda_compiler_destroy(&compiler);
    return failed;
}
