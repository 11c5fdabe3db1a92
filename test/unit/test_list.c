/* Kernels over lists of arrays of unequal length: one launch does what the kernel does to the arrays laid end
 * to end, which the meaning of the text checks; and what no list can be is refused with a sentence. */
#include "headroom.h"

#include "base/pieces.h"
#include "support/cpu_device.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum { MEMBERS_MAX = 1024, TENSORS_MAX = 6 };

/* One tensor as a list, and as the same elements end to end. */
typedef struct list {
    const char *name;
    hr_dtype dtype;
    int size;
    char *memory, *whole; /* the members, apart from each other; end to end */
    hr_array arrays[MEMBERS_MAX];
} list;

typedef struct lists {
    int member_count, tensor_count;
    int64_t lengths[MEMBERS_MAX], total;
    list tensors[TENSORS_MAX];
} lists;

static uint32_t random_state = 1;

static uint32_t random_next(void) {
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8;
}

static void lengths_set(lists *lists, int count, const int64_t *lengths) {
    lists->member_count = count;
    lists->total = 0;
    for (int k = 0; k < count; k++) {
        lists->lengths[k] = lengths[k];
        lists->total += lengths[k];
    }
}

/* Members lie `odd` elements further from each other than they are long, so that they begin anywhere. */
static void tensor_add(lists *lists, const char *name, hr_dtype dtype, int size, int odd) {
    list *list = &lists->tensors[lists->tensor_count++];
    *list = (struct list){.name = name, .dtype = dtype, .size = size};
    size_t room = (size_t)((lists->total + (int64_t)odd * lists->member_count + 64) * size);
    list->memory = calloc(1, room);
    list->whole = malloc((size_t)(lists->total + 1) * (size_t)size);
    assert_non_null(list->memory);
    assert_non_null(list->whole);
    char *from = list->whole, *to = list->memory;
    for (int64_t i = 0; i < lists->total; i++) {
        float value = (float)random_next() / (1 << 24) + (i % 3 ? 0 : -0.5f);
        uint32_t bits;
        if (strcmp(name, "v") == 0) value = fabsf(value);
        memcpy(&bits, &value, 4);
        bits = size == 2 ? bits >> 16 : bits;
        memcpy(from + i * size, &bits, (size_t)size);
    }
    for (int k = 0; k < lists->member_count; k++) {
        size_t bytes = (size_t)(lists->lengths[k] * size);
        to += odd * size;
        memcpy(to, from, bytes);
        list->arrays[k] = (hr_array){
            .size = sizeof(hr_array), .data = to, .dtype = dtype, .rank = 1, .shape = &lists->lengths[k]};
        from += bytes;
        to += bytes;
    }
}

static void lists_free(lists *lists) {
    for (int t = 0; t < lists->tensor_count; t++) {
        free(lists->tensors[t].memory);
        free(lists->tensors[t].whole);
    }
    free(lists);
}

static hr_kernel *load(const char *text, const char *name) {
    hr_kernel *kernel = NULL;
    hr_status status = hr_kernel_load(device, "list.hr", text, strlen(text), name, &kernel);
    if (status != HR_OK) fail_msg("%s", hr_last_error());
    return kernel;
}

static hr_kernel *load_file(const char *file, const char *name) {
    char path[512];
    hr_kernel *kernel = NULL;
    snprintf(path, sizeof path, "%s/kernels/%s", HR_SOURCE_DIR, file);
    if (hr_kernel_load_file(device, path, name, &kernel) != HR_OK) fail_msg("%s", hr_last_error());
    return kernel;
}

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static void bind_lists(hr_kernel *kernel, lists *lists) {
    for (int t = 0; t < lists->tensor_count; t++)
        good(hr_kernel_bind_list(kernel, lists->tensors[t].name, lists->tensors[t].arrays,
                                 lists->member_count));
}

static void bind_whole(hr_kernel *kernel, lists *lists) {
    for (int t = 0; t < lists->tensor_count; t++) {
        list *list = &lists->tensors[t];
        hr_array array = {.size = sizeof array,
                          .data = list->whole,
                          .dtype = list->dtype,
                          .rank = 1,
                          .shape = &lists->total};
        good(hr_kernel_bind(kernel, list->name, &array));
    }
}

static void bind_total(hr_kernel *kernel, const char *name, float *total) {
    hr_array array = {.size = sizeof array, .data = total, .dtype = HR_F32};
    good(hr_kernel_bind(kernel, name, &array));
}

/* The members hold, bit for bit, what the whole arrays hold, and nothing beside them was touched. */
static void same(lists *lists, int odd) {
    for (int t = 0; t < lists->tensor_count; t++) {
        list *list = &lists->tensors[t];
        const char *whole = list->whole, *gap = list->memory;
        for (int k = 0; k < lists->member_count; k++) {
            size_t bytes = (size_t)(lists->lengths[k] * list->size);
            for (int b = 0; b < odd * list->size; b++)
                assert_int_equal(gap[b], 0);
            if (memcmp(list->arrays[k].data, whole, bytes) != 0)
                fail_msg("`%s` differs in array %d of %lld elements", list->name, k,
                         (long long)lists->lengths[k]);
            whole += bytes;
            gap = (char *)list->arrays[k].data + bytes;
        }
        for (int b = 0; b < 16; b++)
            assert_int_equal(gap[b], 0);
    }
}

static void check_adamw(bool narrow, int count, const int64_t *lengths, int odd) {
    lists *lists = calloc(1, sizeof *lists);
    assert_non_null(lists);
    lengths_set(lists, count, lengths);
    tensor_add(lists, "p", HR_F32, 4, odd);
    tensor_add(lists, "m", HR_F32, 4, odd);
    tensor_add(lists, "v", HR_F32, 4, odd);
    tensor_add(lists, "g", narrow ? HR_BF16 : HR_F32, narrow ? 2 : 4, odd);
    if (narrow) tensor_add(lists, "w", HR_BF16, 2, odd);
    hr_kernel *over_list = load_file("adamw.hr", narrow ? "adamw" : "adamw_in_place");
    hr_kernel *whole = load_file("adamw.hr", narrow ? "adamw" : "adamw_in_place");
    bind_lists(over_list, lists);
    bind_whole(whole, lists);
    hr_check check;
    good(hr_kernel_check(whole, 300, &check));
    assert_true(check.ok);
    good(hr_kernel_launch(over_list));
    same(lists, odd);
    good(hr_kernel_launch(over_list)); /* the tables stand */
    good(hr_kernel_launch(whole));
    same(lists, odd);
    hr_kernel_destroy(over_list);
    hr_kernel_destroy(whole);
    lists_free(lists);
}

static void test_map_over_members(void **state) {
    (void)state;
    static const int64_t few[] = {5, 0, 1, 31, 33, 1023, 65537, 0};
    check_adamw(true, 8, few, 3);
    check_adamw(false, 8, few, 1);
    check_adamw(false, 8, few, 0);
    check_adamw(true, 1, few + 6, 0);
}

static void test_thousand_members(void **state) {
    (void)state;
    int64_t lengths[1000];
    for (int k = 0; k < 1000; k++)
        lengths[k] = k % 50 == 49 ? 20000 + k : (int)(random_next() % 200);
    check_adamw(true, 1000, lengths, 5);
}

static void check_clip(int count, const int64_t *lengths, float limit) {
    lists *lists = calloc(1, sizeof *lists);
    assert_non_null(lists);
    float norm = -1, whole_norm = -1;
    double squares = 0;
    lengths_set(lists, count, lengths);
    tensor_add(lists, "g", HR_F32, 4, 1);
    for (int64_t i = 0; i < lists->total; i++) {
        double value = ((float *)lists->tensors[0].whole)[i];
        squares += value * value;
    }
    hr_kernel *over_list = load_file("clip_norm.hr", "clip_norm");
    hr_kernel *whole = load_file("clip_norm.hr", "clip_norm");
    bind_lists(over_list, lists);
    bind_whole(whole, lists);
    bind_total(over_list, "norm", &norm);
    bind_total(whole, "norm", &whole_norm);
    good(hr_kernel_bind_scalar(over_list, "limit", limit));
    good(hr_kernel_bind_scalar(whole, "limit", limit));
    good(hr_kernel_launch(over_list));
    good(hr_kernel_launch(whole));
    assert_float_equal(norm, sqrt(squares), 1e-6 * sqrt(squares));
    assert_float_equal(whole_norm, sqrt(squares), 1e-6 * sqrt(squares));
    const float *expected = (float *)lists->tensors[0].whole;
    for (int k = 0; k < count; k++)
        for (int64_t i = 0; i < lengths[k]; i++, expected++)
            assert_float_equal(((float *)lists->tensors[0].arrays[k].data)[i], *expected,
                               1e-6 * fabs(*expected));
    hr_kernel_destroy(over_list);
    hr_kernel_destroy(whole);
    lists_free(lists);
}

static void test_norm_and_clipping(void **state) {
    (void)state;
    static const int64_t few[] = {70000, 0, 1, 31, 33, 1023, 17};
    check_clip(7, few, 1.0f);
    check_clip(7, few, 1e9f);
    check_clip(1, few + 2, 0.25f);
}

/* An empty list, and one of empty arrays: totals are those of nothing. */
static void test_nothing_at_all(void **state) {
    (void)state;
    static const int64_t none[] = {0, 0};
    for (int count = 0; count <= 2; count += 2) {
        lists *lists = calloc(1, sizeof *lists);
        assert_non_null(lists);
        float norm = -1;
        lengths_set(lists, count, none);
        tensor_add(lists, "g", HR_F32, 4, 1);
        hr_kernel *kernel = load_file("clip_norm.hr", "clip_norm");
        bind_lists(kernel, lists);
        bind_total(kernel, "norm", &norm);
        good(hr_kernel_launch(kernel));
        assert_float_equal(norm, 0, 0);
        hr_kernel_destroy(kernel);
        lists_free(lists);
    }
}

/* Three passes, two totals, a number of elements, matrices as members. */
static void test_several_passes(void **state) {
    (void)state;
    static const int64_t lengths[] = {6, 35, 1};
    static const int64_t shapes[][2] = {{2, 3}, {5, 7}, {1, 1}};
    lists *lists = calloc(1, sizeof *lists);
    assert_non_null(lists);
    float top = 0, other_top = 0;
    lengths_set(lists, 3, lengths);
    tensor_add(lists, "x", HR_F32, 4, 1);
    tensor_add(lists, "y", HR_F32, 4, 1);
    static const char text[] = "kernel k(x: f32[N]) -> (y: f32[N], top: f32)\n"
                               "{\n"
                               "    top = max[i](x[i])\n"
                               "    y[i] = softmax[i](x[i]) * N + top\n"
                               "}\n";
    hr_kernel *over_list = load(text, NULL), *whole = load(text, NULL);
    for (int k = 0; k < 3; k++) {
        lists->tensors[0].arrays[k].rank = 2;
        lists->tensors[0].arrays[k].shape = shapes[k];
    }
    bind_lists(over_list, lists);
    bind_whole(whole, lists);
    bind_total(over_list, "top", &top);
    bind_total(whole, "top", &other_top);
    good(hr_kernel_launch(over_list));
    hr_check check;
    good(hr_kernel_check(whole, 42, &check));
    assert_true(check.ok);
    assert_float_equal(top, other_top, 0);
    const float *expected = (float *)lists->tensors[1].whole;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < lengths[k]; i++, expected++)
            assert_float_equal(((float *)lists->tensors[1].arrays[k].data)[i], *expected, 1e-5);
    hr_kernel_destroy(over_list);
    hr_kernel_destroy(whole);
    lists_free(lists);
}

/* Other arrays of the same lengths, then of other lengths, then whole ones: each launch runs over what is
 * bound. */
static void test_binding_again(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: inout f32[N]) { x[i] = x[i] + 1 }\n";
    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[5] = {0};
    int64_t three = 3, two = 2, five = 5;
    hr_kernel *kernel = load(text, NULL);
    hr_array first[] = {
        {.size = sizeof(hr_array), .data = a, .dtype = HR_F32, .rank = 1, .shape = &three},
        {.size = sizeof(hr_array), .data = c, .dtype = HR_F32, .rank = 1, .shape = &two},
    };
    hr_array second[] = {first[0], first[1]};
    second[0].data = b;
    good(hr_kernel_bind_list(kernel, "x", first, 2));
    good(hr_kernel_launch(kernel));
    good(hr_kernel_bind_list(kernel, "x", second, 2));
    good(hr_kernel_launch(kernel));
    assert_true(a[0] == 2 && a[2] == 4 && b[0] == 11 && b[2] == 31 && c[1] == 2 && c[2] == 0);
    second[1].shape = &five;
    good(hr_kernel_bind_list(kernel, "x", second, 2));
    good(hr_kernel_launch(kernel));
    assert_true(b[2] == 32 && c[1] == 3 && c[4] == 1);
    good(hr_kernel_bind(kernel, "x", &second[1]));
    good(hr_kernel_launch(kernel));
    assert_true(b[2] == 32 && c[1] == 4 && c[4] == 2);
    hr_kernel_destroy(kernel);
}

/* A scalar that changes once a launch, after all elements were computed from what it held. */
static void test_a_scalar_that_changes(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(x: f32[N], s: inout f32) -> (y: f32[N])\n{\n    y[i] = x[i] * s\n    s = s + 1\n}\n";
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0}, s = 2;
    int64_t lengths[] = {3, 2};
    hr_kernel *kernel = load(text, NULL);
    hr_array from[2], to[2], one = {.size = sizeof one, .data = &s, .dtype = HR_F32};
    for (int k = 0; k < 2; k++) {
        from[k] = (hr_array){
            .size = sizeof(hr_array), .data = x + 3 * k, .dtype = HR_F32, .rank = 1, .shape = &lengths[k]};
        to[k] = from[k];
        to[k].data = y + 3 * k;
    }
    good(hr_kernel_bind_list(kernel, "x", from, 2));
    good(hr_kernel_bind_list(kernel, "y", to, 2));
    good(hr_kernel_bind(kernel, "s", &one));
    good(hr_kernel_launch(kernel));
    assert_true(s == 3 && y[0] == 2 && y[2] == 6 && y[3] == 8 && y[4] == 10);
    good(hr_kernel_launch(kernel));
    assert_true(s == 4 && y[0] == 3 && y[4] == 15);
    hr_kernel_destroy(kernel);
}

/* ---- what is refused ---- */

static void refused(hr_status status, const char *words) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" does not say \"%s\"", hr_last_error(), words);
}

static void refused_text(const char *text, const char *words) {
    float memory[4][8] = {0};
    int64_t four = 4;
    hr_kernel *kernel = load(text, NULL);
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
        hr_argument argument;
        good(hr_kernel_argument(kernel, i, &argument));
        hr_array array = {.size = sizeof array, .data = memory[i], .dtype = argument.dtype, .rank = 1};
        array.shape = &four;
        if (argument.rank == 1 && strcmp(argument.name, "whole") != 0)
            good(hr_kernel_bind_list(kernel, argument.name, &array, 1));
        array.rank = argument.rank;
        if (argument.rank == 0 || strcmp(argument.name, "whole") == 0)
            good(hr_kernel_bind(kernel, argument.name, &array));
    }
    refused(hr_kernel_launch(kernel), words);
    hr_kernel_destroy(kernel);
}

static void test_texts_that_no_list_can_run(void **state) {
    (void)state;
    refused_text("kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] + i }\n", "uses an index as a number");
    refused_text("kernel k(x: f32[N]) -> (y: i64) { y = argmax[i](x[i]) }\n",
                 "`y` is neither an element nor a total");
    refused_text("kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] + x[N - 1] }\n", "more than one place");
    refused_text("kernel k(x: f32[N], whole: f32[N]) -> (y: f32[N]) { y[i] = x[i] + whole[i] }\n",
                 "`whole` is bound to one array");
    refused_text("kernel k(x: f32[N]) -> (whole: f32[N]) { whole[i] = x[i] }\n",
                 "`whole` is bound to one array");
    refused_text("kernel k(x: f32[N], z: f32[N]) -> (y: f32[N]) { y[i] = sum[j](x[i] * z[j]) + x[i] }\n",
                 "cannot run over a list");
}

static void test_arrays_that_are_no_list(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: f32[N], z: f32[M, M]) -> (y: f32[N]) { y[i] = x[i] }\n";
    float memory[64] = {0};
    int64_t shape[] = {4, 2}, transposed[] = {1, 4}, other = 9, less = -1;
    hr_array arrays[] = {
        {.size = sizeof(hr_array), .data = memory, .dtype = HR_F32, .rank = 2, .shape = shape},
        {.size = sizeof(hr_array), .data = memory + 16, .dtype = HR_F32, .rank = 1, .shape = &other}};
    hr_array bad = arrays[0];
    hr_kernel *kernel = load(text, NULL);
    refused(hr_kernel_bind_list(kernel, "q", arrays, 2), "no argument `q`");
    refused(hr_kernel_bind_list(kernel, "z", arrays, 2),
            "array 0 of the list for `z` of kernel k has 2 axes");
    refused(hr_kernel_bind_list(kernel, "x", NULL, 2), "2 arrays");
    refused(hr_kernel_bind_list(kernel, "x", arrays, -1), "-1 arrays");
    bad.strides = transposed;
    refused(hr_kernel_bind_list(kernel, "x", &bad, 1), "gaps");
    bad = (hr_array){.size = sizeof bad, .data = memory, .dtype = HR_BF16, .rank = 1, .shape = &other};
    refused(hr_kernel_bind_list(kernel, "x", &bad, 1), "is bf16");
    bad.dtype = HR_F32, bad.shape = &less;
    refused(hr_kernel_bind_list(kernel, "x", &bad, 1), "-1 elements");
    bad.shape = &other, bad.data = NULL;
    refused(hr_kernel_bind_list(kernel, "x", &bad, 1), "no data");
    bad.data = memory, bad.size = 0;
    refused(hr_kernel_bind_list(kernel, "x", &bad, 1), "its size");
    hr_kernel_destroy(kernel);
}

static void test_lists_that_do_not_fit_each_other(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: f32[N], z: f32[N]) -> (y: f32[N]) { y[i] = x[i] + z[i] }\n";
    float memory[64] = {0};
    int64_t four = 4, five = 5;
    hr_array x[] = {
        {.size = sizeof(hr_array), .data = memory, .dtype = HR_F32, .rank = 1, .shape = &four},
        {.size = sizeof(hr_array), .data = memory + 5, .dtype = HR_F32, .rank = 1, .shape = &five}};
    hr_array z[] = {x[1], x[0]}, y[] = {x[0], x[1]};
    y[0].data = memory + 20;
    y[1].data = memory + 24;
    hr_kernel *kernel = load(text, NULL);
    hr_check check;
    good(hr_kernel_bind_list(kernel, "x", x, 2));
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    good(hr_kernel_bind_list(kernel, "z", x, 1));
    refused(hr_kernel_launch(kernel), "N is"); /* the sum of the lengths is what tells first */
    good(hr_kernel_bind_list(kernel, "z", z, 2));
    refused(hr_kernel_launch(kernel), "array 0 of `x` has 4 elements and that of `z` 5");
    good(hr_kernel_bind_list(kernel, "z", x, 2)); /* two inputs may share */
    good(hr_kernel_launch(kernel));
    y[1].data = memory + 23; /* the last element of y's first array */
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    refused(hr_kernel_launch(kernel), "share memory");
    y[1].data = memory + 1;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    refused(hr_kernel_launch(kernel), "share memory");
    y[1].data = memory + 24;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    good(hr_kernel_launch(kernel));
    refused(hr_kernel_check(kernel, 10, &check), "lists of arrays");
    refused(hr_kernel_source(kernel, &(const char *){NULL}, NULL), "lists of arrays");
    refused(hr_kernel_array(kernel, "x", &x[0]), "a list of arrays");
    hr_kernel_destroy(kernel);
}

/* ---- what a GPU is given: the tables, the words that lead to them, and as many blocks as pieces ---- */

static int table_faults;

/* The kernel of a text with one list of two arrays and one total, on memory that is the host's. */
static void look_at_words(const char *name, void *data) {
    const int64_t *words = data;
    void *const *members = (void *const *)(uintptr_t)words[0];
    const hr_pieces *pieces = (const hr_pieces *)(uintptr_t)words[5]; /* pointers, scalars, N, stride */
    if (strcmp(name, "stage_0") != 0) return;
    float *second = members[1];
    table_faults += words[4] != 5003 || pieces->count != 3;
    table_faults += pieces->piece[0].count != 4096 || pieces->piece[0].start != 0;
    table_faults += pieces->piece[1].count != 904 || pieces->piece[1].start != 4096;
    table_faults += pieces->piece[2].count != 3 || pieces->piece[2].member != 1;
    second[2] += 1;
}

static void test_launch_on_a_gpu(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: inout f32[N]) -> (top: f32)\n"
                               "{\n"
                               "    top = max[i](x[i])\n"
                               "    x[i] = x[i] - top\n"
                               "}\n";
    static float large[5000], small[3], other[3], top;
    int64_t five = 5000, three = 3;
    hr_device *host = device;
    hr_array arrays[] = {
        {.size = sizeof(hr_array), .data = large, .dtype = HR_F32, .rank = 1, .shape = &five},
        {.size = sizeof(hr_array), .data = small, .dtype = HR_F32, .rank = 1, .shape = &three},
    };
    assert_int_equal(fake_set_up(state), 0);
    fake->kernel = look_at_words;
    good(hr_device_open("cuda", &device));
    hr_kernel *kernel = load(text, NULL);
    good(hr_kernel_bind_list(kernel, "x", arrays, 2));
    bind_total(kernel, "top", &top);
    fake->launch_count = table_faults = 0;
    good(hr_kernel_launch(kernel));
    assert_int_equal(fake->launch_count, 3); /* totals, their end, the map */
    assert_string_equal(fake->launches[1].name, "stage_0_end");
    assert_string_equal(fake->launches[2].name, "stage_1");
    assert_int_equal(fake->launches[0].grid[0], 3);
    assert_int_equal(fake->launches[2].grid[0], 3);
    arrays[1].data = other;
    good(hr_kernel_bind_list(kernel, "x", arrays, 2));
    good(hr_kernel_launch(kernel));
    assert_int_equal(table_faults, 0);
    assert_true(small[2] == 1 && other[2] == 1);
    hr_kernel_destroy(kernel);
    hr_device_destroy(device);
    assert_int_equal(fake_living(), 0);
    assert_int_equal(fake_tear_down(state), 0);
    device = host;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_over_members),
        cmocka_unit_test(test_thousand_members),
        cmocka_unit_test(test_norm_and_clipping),
        cmocka_unit_test(test_nothing_at_all),
        cmocka_unit_test(test_several_passes),
        cmocka_unit_test(test_binding_again),
        cmocka_unit_test(test_a_scalar_that_changes),
        cmocka_unit_test(test_texts_that_no_list_can_run),
        cmocka_unit_test(test_arrays_that_are_no_list),
        cmocka_unit_test(test_lists_that_do_not_fit_each_other),
        cmocka_unit_test(test_launch_on_a_gpu),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
