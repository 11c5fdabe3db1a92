/* The CUDA device's own kernels, compiled by NVRTC for each architecture: no spills, no stack, no warning
 * that wgmma is serialised. Skipped where there is no NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/compiler_cuda.h"
#include "device/cuda_text.h"
#include "run/roof_functions.h"

static hr_cuda_compiler compiler;

static const struct {
    const char *name;
    const unsigned char *text;
    int registers; /* the most that the threads of its blocks leave for each */
} texts[] = {
    {"timing_kernels", hr_cuda_timing_kernels_text, 32}, {"fill_kernels", hr_cuda_fill_kernels_text, 64},
    {"roof_memory", hr_cuda_roof_memory_text, 64},       {"roof_units", hr_cuda_roof_units_text, 64},
    {"check_kernels", hr_cuda_check_kernels_text, 64},
};

static void compiles(const char *arch) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        void *cubin = NULL;
        size_t size = 0;
        hr_text log = {0};
        if (hr_cuda_compiler_run(&compiler, arch, (const char *)texts[i].text, &cubin, &size, &log) != HR_OK)
            fail_msg("%s for %s: %s", texts[i].name, arch, hr_last_error());
        hr_cuda_usage usage = hr_cuda_usage_read(hr_text_data(&log));
        if (usage.stack + usage.stores + usage.loads != 0)
            fail_msg("%s for %s spills:\n%s", texts[i].name, arch, log.data);
        if (usage.registers == 0 || usage.registers > texts[i].registers)
            fail_msg("%s for %s: %d registers", texts[i].name, arch, usage.registers);
        if (strstr(hr_text_data(&log), "C7510")) fail_msg("%s for %s:\n%s", texts[i].name, arch, log.data);
        assert_memory_equal(cubin, "\177ELF", 4);
        free(cubin);
        hr_text_clear(&log);
    }
}

static void test_sm_80(void **state) {
    (void)state;
    compiles("sm_80");
}

static void test_sm_90a(void **state) {
    (void)state;
    compiles("sm_90a");
}

static void test_sm_100a(void **state) {
    (void)state;
    compiles("sm_100a");
}

/* The functions as they are emitted; some, such as sin, keep a table of digits on the stack. */
static void test_rates(void **state) {
    (void)state;
    void *cubin = NULL;
    size_t size = 0;
    hr_text source = {0}, log = {0};
    assert_int_equal(hr_roof_functions_cuda_source(&source), HR_OK);
    if (hr_cuda_compiler_run(&compiler, "sm_90a", source.data, &cubin, &size, &log) != HR_OK)
        fail_msg("%s", hr_last_error());
    for (int special = HR_SPECIAL_NONE + 1; special < HR_SPECIAL_COUNT; special++) {
        char name[64];
        snprintf(name, sizeof name, "entry function 'special_%s_0'", hr_special_name((hr_special)special));
        if (!strstr(log.data, name)) fail_msg("no %s in:\n%s", name, log.data);
    }
    hr_cuda_usage usage = hr_cuda_usage_read(log.data);
    assert_int_equal(usage.stores + usage.loads, 0);
    assert_true(usage.registers <= 64);
    free(cubin);
    hr_text_clear(&source);
    hr_text_clear(&log);
}

/* Of the tensor cores' products each architecture has its own; none spills. */
static void test_products(void **state) {
    (void)state;
    static const char *const names[] = {"bf16", "f16", "tf32", "f8", "i8"};
    static const struct {
        const char *arch;
        bool f8;
    } archs[] = {{"sm_80", false}, {"sm_89", true}, {"sm_90a", true}};
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        void *cubin = NULL;
        size_t size = 0;
        hr_text source = {0}, log = {0};
        assert_int_equal(hr_roof_products_cuda_source(&source), HR_OK);
        if (hr_cuda_compiler_run(&compiler, archs[a].arch, source.data, &cubin, &size, &log) != HR_OK)
            fail_msg("%s", hr_last_error());
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char name[64];
            snprintf(name, sizeof name, "entry function 'product_%s'", names[i]);
            bool there = strstr(log.data, name) != NULL;
            if (there != (archs[a].f8 || strcmp(names[i], "f8") != 0))
                fail_msg("%s, %s", archs[a].arch, name);
        }
        for (int remark = 7508; remark <= 7516; remark++) { /* products that are serialised */
            char code[16];
            snprintf(code, sizeof code, "C%d", remark);
            const char *at = strstr(log.data, code);
            if (at) fail_msg("%s: %.300s", archs[a].arch, at);
        }
        hr_cuda_usage usage = hr_cuda_usage_read(log.data);
        assert_int_equal(usage.stores + usage.loads + usage.stack, 0);
        free(cubin);
        hr_text_clear(&source);
        hr_text_clear(&log);
    }
}

static void test_refuses(void **state) {
    (void)state;
    void *cubin = NULL;
    size_t size = 0;
    hr_text log = {0};
    const char *source = "extern \"C\" __global__ void k() { int x = ; }";
    assert_int_equal(hr_cuda_compiler_run(&compiler, "sm_90a", source, &cubin, &size, &log), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "kernel.cu(1): error: expected an expression"));
    assert_null(cubin);
    hr_text_clear(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sm_80),    cmocka_unit_test(test_sm_90a),
                                       cmocka_unit_test(test_sm_100a),  cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_refuses)};
    hr_cuda_compiler_create(&compiler);
    if (hr_cuda_compiler_find(&compiler, 0) != HR_OK) {
        printf("skipped: %s\n", hr_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hr_cuda_compiler_destroy(&compiler);
    return failed;
}
