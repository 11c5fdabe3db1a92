/* Tensors bound to arrays that lie apart, one a step of their first axis, on a CPU: the same arrays side by
 * side say what must come out, and the meaning of the text does; and what no list can be is refused with a
 * sentence.
 */
#include "headroom.h"

#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { MEMBERS_MAX = 8, TENSORS_MAX = 4, RANK_MAX = 3 };

/* How the members of a tensor lie. */
typedef enum placing {
    ASCENDING,
    DESCENDING,
    ODD,   /* not at whole 16 bytes */
    TWICE, /* inputs: every other member is the one before */
    FAR,   /* each in a mapping of its own */
} placing;

static const struct members_case {
    const char *text;
    int64_t extents[4];
    struct {
        const char *name;
        hr_dtype dtype;
        int rank;
        int shape[RANK_MAX]; /* numbers of extents */
    } tensors[TENSORS_MAX];
} cases[] = {
    {"kernel k(a: f32[B, M, K], b: f32[B, K, N]) -> (c: f32[B, M, N]) {\n"
     "    c[p, m, n] = sum[k](a[p, m, k] * b[p, k, n]) }",
     {5, 37, 50, 45},
     {{"a", HR_F32, 3, {0, 1, 2}}, {"b", HR_F32, 3, {0, 2, 3}}, {"c", HR_F32, 3, {0, 1, 3}}}},
    {"kernel k(a: bf16[B, M, K], b: bf16[B, N, K], c: inout f32[B, M, N]) {\n"
     "    c[p, m, n] = c[p, m, n] + sum[k](a[p, m, k] * b[p, n, k]) }",
     {4, 33, 64, 48},
     {{"a", HR_BF16, 3, {0, 1, 2}}, {"b", HR_BF16, 3, {0, 3, 2}}, {"c", HR_F32, 3, {0, 1, 3}}}},
    {"kernel k(x: f32[B, N]) -> (y: f32[B, N]) {\n"
     "    s[b] = mean[n](x[b, n])\n"
     "    y[b, n] = x[b, n] - s[b] }",
     {7, 130, 0, 0},
     {{"x", HR_F32, 2, {0, 1}}, {"y", HR_F32, 2, {0, 1}}}},
    {"kernel k(x: f32[B, M, N]) -> (y: f32[B, M, N], t: f32[B, N]) {\n"
     "    y[b, m, n] = x[b, M - 1 - m, n] * 2\n"
     "    t[b, n] = sum[m](x[b, m, n]) }",
     {3, 20, 21, 0},
     {{"x", HR_F32, 3, {0, 1, 2}}, {"y", HR_F32, 3, {0, 1, 2}}, {"t", HR_F32, 2, {0, 2}}}},
    {"kernel k(x: f32[B, N], t: i32[N], y: inout f32[B, N]) { y[b, t[n]] += x[b, n] }",
     {3, 40, 0, 0},
     {{"x", HR_F32, 2, {0, 1}}, {"y", HR_F32, 2, {0, 1}}}},
};

typedef struct tensor {
    char *whole, *members[MEMBERS_MAX], *memory;
    int64_t shape[RANK_MAX], count, each; /* members; bytes of one */
    hr_array arrays[MEMBERS_MAX];
} tensor;

static uint32_t random_state = 1;

static float random_next(void) {
    random_state = random_state * 1664525 + 1013904223;
    return (float)(random_state >> 8) / (1 << 23) - 1;
}

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static hr_kernel *load(const char *text) {
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "members.hr", text, strlen(text), NULL, &kernel));
    return kernel;
}

static bool is_input(const hr_kernel *kernel, const char *name) {
    hr_argument argument;
    for (int i = 0; hr_kernel_argument(kernel, i, &argument) == HR_OK; i++)
        if (strcmp(argument.name, name) == 0) return argument.role == HR_ARGUMENT_INPUT;
    return false;
}

static void place(tensor *t, placing how, bool input) {
    const int64_t room = t->each + 256;
    t->memory = malloc((size_t)(room * t->count));
    assert_non_null(t->memory);
    for (int64_t k = 0; k < t->count; k++) {
        const int64_t at = how == DESCENDING ? t->count - 1 - k : k;
        const uintptr_t begin = ((uintptr_t)t->memory + (uintptr_t)(room * at) + 63) / 64 * 64;
        t->members[k] = (char *)begin + (how == ODD ? 4 * (k % 3) : 16 * (k % 3));
        if (how == TWICE && input && k % 2) t->members[k] = t->members[k - 1];
        if (how == FAR)
            t->members[k] =
                mmap(NULL, (size_t)t->each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(t->members[k] != MAP_FAILED);
    }
}

static void tensor_make(const struct members_case *c, int i, placing how, bool input, tensor *t) {
    const int size = c->tensors[i].dtype == HR_F32 ? 4 : 2;
    *t = (tensor){.count = c->extents[c->tensors[i].shape[0]], .each = size};
    for (int axis = 0; axis < c->tensors[i].rank; axis++) {
        t->shape[axis] = c->extents[c->tensors[i].shape[axis]];
        if (axis) t->each *= t->shape[axis];
    }
    t->whole = malloc((size_t)(t->each * t->count));
    assert_non_null(t->whole);
    place(t, how, input);
    for (int64_t k = 0; k < t->count; k++) {
        char *values = t->whole + k * t->each;
        for (int64_t e = 0; e < t->each; e += size) {
            const float value = random_next();
            memcpy(values + e, (const char *)&value + 4 - size, (size_t)size);
        }
        if (how == TWICE && input && k % 2) memcpy(values, values - t->each, (size_t)t->each);
        memcpy(t->members[k], values, (size_t)t->each);
        t->arrays[k] = (hr_array){.size = sizeof(hr_array),
                                  .data = t->members[k],
                                  .dtype = c->tensors[i].dtype,
                                  .rank = c->tensors[i].rank - 1,
                                  .shape = t->shape + 1};
    }
}

static void tensor_end(tensor *t, placing how) {
    for (int64_t k = 0; k < t->count && how == FAR; k++)
        munmap(t->members[k], (size_t)t->each);
    free(t->memory);
    free(t->whole);
}

/* Sums may be in another order. */
static bool is_near(const char *got, const char *wanted, int64_t bytes) {
    for (int64_t e = 0; e < bytes; e += 4) {
        float one, other;
        memcpy(&one, got + e, 4);
        memcpy(&other, wanted + e, 4);
        if (!(fabsf(one - other) <= 1e-5f * (1 + fabsf(other)))) return false;
    }
    return true;
}

static void compare(const struct members_case *c, placing how, const hr_kernel *kernel, int i,
                    const tensor *t) {
    const bool input = is_input(kernel, c->tensors[i].name);
    for (int64_t k = 0; k < t->count; k++) {
        const char *wanted = t->whole + k * t->each;
        if (input ? memcmp(t->members[k], wanted, (size_t)t->each) == 0
                  : is_near(t->members[k], wanted, t->each))
            continue;
        fail_msg("%s: placing %d: member %lld of %s differs", c->text, (int)how, (long long)k,
                 c->tensors[i].name);
    }
}

/* `apart` and `whole` are of its text. */
static void run_case(const struct members_case *c, placing how, hr_kernel *apart, hr_kernel *whole) {
    tensor tensors[TENSORS_MAX];
    int32_t turned[40];
    for (int i = 0; i < 40; i++)
        turned[i] = 39 - i;
    hr_check check = {0};
    int count = 0;
    for (; count < TENSORS_MAX && c->tensors[count].name; count++) {
        const char *name = c->tensors[count].name;
        tensor *t = &tensors[count];
        tensor_make(c, count, how, is_input(apart, name), t);
        const hr_array array = {.size = sizeof array,
                                .data = t->whole,
                                .dtype = c->tensors[count].dtype,
                                .rank = c->tensors[count].rank,
                                .shape = t->shape};
        good(hr_kernel_bind(whole, name, &array));
        good(hr_kernel_bind_list(apart, name, t->arrays, (int)t->count));
    }
    if (strstr(c->text, "t: i32[N]")) {
        const hr_array array = {
            .size = sizeof array, .data = turned, .dtype = HR_I32, .rank = 1, .shape = &c->extents[1]};
        good(hr_kernel_bind(whole, "t", &array));
        good(hr_kernel_bind(apart, "t", &array));
    }
    good(hr_kernel_launch(whole));
    good(hr_kernel_launch(apart));
    for (int i = 0; i < count; i++)
        compare(c, how, apart, i, &tensors[i]);
    good(hr_kernel_check_all(apart, &check));
    if (!check.ok) fail_msg("%s: placing %d: %s", c->text, (int)how, check.where);
    assert_true(check.points > 0);
    for (int i = 0; i < count; i++)
        tensor_end(&tensors[i], how);
}

static void test_members(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hr_kernel *apart = load(cases[c].text), *whole = load(cases[c].text);
        for (int how = ASCENDING; how <= FAR; how++)
            run_case(&cases[c], (placing)how, apart, whole);
        hr_kernel_destroy(apart);
        hr_kernel_destroy(whole);
    }
}

/* Other members of the same shape are bound in the place of the first; a tensor may be one array again. */
static void test_bound_again(void **state) {
    (void)state;
    hr_kernel *kernel =
        load("kernel k(x: f32[B, N], t: i32[C]) -> (y: f32[C, N]) { y[c, n] = x[t[c], n] + 1 }");
    float rows[3][4], out[2][4] = {{0}};
    int32_t table[2] = {2, 0};
    const int64_t shape[] = {2, 4}, row[] = {4};
    hr_array arrays[3];
    for (int k = 0; k < 3; k++) {
        for (int n = 0; n < 4; n++)
            rows[k][n] = (float)(10 * k + n);
        arrays[k] = (hr_array){
            .size = sizeof(hr_array), .data = rows[2 - k], .dtype = HR_F32, .rank = 1, .shape = row};
    }
    const hr_array t = {.size = sizeof t, .data = table, .dtype = HR_I32, .rank = 1, .shape = shape};
    const hr_array y = {.size = sizeof y, .data = out, .dtype = HR_F32, .rank = 2, .shape = shape};
    good(hr_kernel_bind_list(kernel, "x", arrays, 3));
    good(hr_kernel_bind(kernel, "t", &t));
    good(hr_kernel_bind(kernel, "y", &y));
    good(hr_kernel_launch(kernel));
    assert_true(out[0][1] == 2 && out[1][1] == 22);
    arrays[0].data = rows[1];
    good(hr_kernel_bind_list(kernel, "x", arrays, 3));
    good(hr_kernel_launch(kernel));
    assert_true(out[0][1] == 2 && out[1][1] == 12);
    good(hr_kernel_bind_list(kernel, "x", arrays, 2));
    table[0] = 1;
    good(hr_kernel_launch(kernel));
    assert_true(out[0][1] == 12 && out[1][1] == 12);
    table[0] = 2;
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
    table[0] = 0;
    const hr_array x = {.size = sizeof x, .data = rows, .dtype = HR_F32, .rank = 2, .shape = shape};
    good(hr_kernel_bind(kernel, "x", &x));
    good(hr_kernel_launch(kernel));
    assert_true(out[0][1] == 2 && out[1][1] == 2);
    hr_kernel_destroy(kernel);
}

static void refused(hr_status status, const char *part) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), part)) fail_msg("`%s` is not in: %s", part, hr_last_error());
}

static void test_refused(void **state) {
    (void)state;
    hr_kernel *kernel =
        load("kernel k(x: f32[B, M, N], s: f32) -> (y: f32[B, M, N]) { y[b, m, n] = x[b, m, n] }");
    float memory[64];
    const int64_t shape[] = {2, 4}, other[] = {2, 5}, gaps[] = {5, 1};
    const hr_array good_one = {
        .size = sizeof good_one, .data = memory, .dtype = HR_F32, .rank = 2, .shape = shape};
    hr_array x[2] = {good_one, good_one}, y[2] = {good_one, good_one}, array;
    refused(hr_kernel_bind_list(kernel, "s", x, 2), "no axes");
    refused(hr_kernel_bind_list(kernel, "x", x, 0), "is empty");
    x[1].rank = 1;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "array 1 of the list for `x` of kernel k has 1 axes");
    x[1] = good_one, x[1].shape = other;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "has 5 elements on axis 1, and array 0 has 4");
    x[1] = good_one, x[1].strides = gaps;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "gaps");
    x[1] = good_one, x[1].data = NULL;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "no data");
    x[1] = good_one, x[1].data = (char *)memory + 2;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "no multiple");
    x[1] = good_one, x[1].size = 0;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "its size");
    x[1] = good_one, x[1].dtype = HR_BF16;
    refused(hr_kernel_bind_list(kernel, "x", x, 2), "bf16");
    x[1] = good_one;
    good(hr_kernel_bind_list(kernel, "x", x, 2)); /* twice the same */
    refused(hr_kernel_array(kernel, "x", &array), "list of arrays");
    good(hr_kernel_bind_scalar(kernel, "s", 1));
    y[0].data = memory + 20, y[1].data = memory + 24;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    refused(hr_kernel_launch(kernel), "array 0 of `y` and array 1 of `y` share memory");
    y[0].data = memory + 4, y[1].data = memory + 24;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    refused(hr_kernel_launch(kernel), "of `x` and array 0 of `y` share memory");
    const int64_t whole[] = {2, 2, 4};
    const hr_array one = {.size = sizeof one, .data = memory, .dtype = HR_F32, .rank = 3, .shape = whole};
    good(hr_kernel_bind(kernel, "x", &one));
    y[0].data = memory + 12;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    refused(hr_kernel_launch(kernel), "array 0 of `y` and `x` share memory");
    y[0].data = memory + 16;
    good(hr_kernel_bind_list(kernel, "y", y, 2));
    good(hr_kernel_launch(kernel));
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_bound_again),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
