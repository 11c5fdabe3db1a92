/* The check catches what it claims to: faults are planted into what kernels compute, and each must be called
 * wrong, on inputs of mean 0, mean 1 and one sign, small and large; the code without a fault never is.
 *
 * A fault that changes nothing by more than the text's own arithmetic may be off there cannot be told from
 * it, where the text cancels: the limit of each element that the fault changes says so. Such faults are
 * counted, and few.
 *
 * `test_mutations` takes a sample that fits into a minute; with HR_TEST_LONG=1 every kernel of the library
 * and 60 random ones (HR_TEST_LONG=2/16: of kernels, sizes and inputs those that are this run's);
 * `test_mutations NAME` the library's kernels whose names hold NAME.
 */
#include "base/dtype.h"
#include "run/check_sample.h"
#include "run/kernel.h"
#include "support/counting_device.h"
#include "support/kernel_library.h"
#include "support/random_program.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum {
    RANDOM_SEEDS = 60,
    RANDOM_TAKEN = 7, /* by `make test` */
    SAMPLE = 19,
    SCALED_BY = 64, /* units in the last place */
    CHANGES_MOST = 64
};

static bool is_long;     /* HR_TEST_LONG */
static size_t turn;      /* of the runs that share what is long */
static const char *only; /* kernels whose names hold this; NULL = all */
static counting_device device;

/* ---- faults ---- */

typedef struct target {
    void *data;
    hr_dtype dtype;
    int64_t count, columns; /* columns: of the last axis */
    int input;              /* an argument that is read alone, -1 = there is none */
    size_t input_bytes;
    char *before;     /* what the launch found */
    double left_over; /* what its scratch memory, or else the result, held */
} target;

/* The first module that runs is the one under test; the other version computes what it should. */
typedef struct fault {
    const char *name;
    void (*plant)(const target *t);
    int from_launch;
    bool exact_too; /* for whole numbers as well */
    bool needs_input;
} fault;

static const fault *planted;
static target victim;
static hr_module *tested;
static int tested_launches;

/* What the fault made of elements, and by how much: some of them, from all over the result. */
static struct {
    int64_t elements[CHANGES_MOST];
    double apart[CHANGES_MOST];
    int count;
    bool input; /* or an input is another one */
} changes;

static double load(const target *t, int64_t i) {
    return hr_dtype_load(t->dtype, t->data, (size_t)i);
}

static void store(const target *t, int64_t i, double value) {
    hr_dtype_store(t->dtype, t->data, (size_t)i, value);
}

/* A unit of f64 is none of code that computes in f32. */
static void plant_scale(const target *t) {
    const double unit = 2 * hr_dtype_rounding(t->dtype == HR_F64 ? HR_F32 : t->dtype);
    for (int64_t i = 0; i < t->count; i++)
        store(t, i, load(t, i) * (1 + SCALED_BY * unit));
}

/* Of an element that is no smaller than most: one part in a hundred of next to nothing is rounding. */
static void plant_element(const target *t) {
    double squares = 0;
    int64_t at = t->count / 3, tries = t->count;
    for (int64_t i = 0; i < t->count; i++)
        squares += isfinite(load(t, i)) ? load(t, i) * load(t, i) : 0;
    while (tries-- && !(fabs(load(t, at)) >= sqrt(squares / (double)t->count)))
        at = (at + 1) % t->count;
    const double value = load(t, at), unit = 2 * hr_dtype_rounding(t->dtype);
    store(t, at, value * (1 + fmax(0.01, 2 * unit)) + !hr_dtype_is_float(t->dtype));
}

static void plant_shift(const target *t) {
    const size_t size = hr_dtype_size(t->dtype);
    char *row = (char *)t->data + (size_t)(t->count / t->columns / 2 * t->columns) * size;
    memmove(row, row + size, (size_t)(t->columns - 1) * size);
}

static void plant_last_row(const target *t) {
    const size_t size = hr_dtype_size(t->dtype), last = (size_t)(t->count - t->columns) * size;
    memcpy((char *)t->data + last, t->before + last, (size_t)t->columns * size);
}

static void plant_last_column(const target *t) {
    const size_t size = hr_dtype_size(t->dtype);
    for (int64_t i = t->columns - 1; i < t->count; i += t->columns)
        memcpy((char *)t->data + (size_t)i * size, t->before + (size_t)i * size, size);
}

static void plant_left_over(const target *t) {
    store(t, t->count / 2, load(t, t->count / 2) + t->left_over);
}

static void plant_input(const target *t) {
    (void)t; /* see after_launch */
}

static const fault faults[] = {{"scaled by 1 + 64 units", plant_scale, 0, false, false},
                               {"one element off by 1 %", plant_element, 0, true, false},
                               {"a row shifted by one place", plant_shift, 0, true, false},
                               {"the last row left out", plant_last_row, 0, true, false},
                               {"the last column left out", plant_last_column, 0, true, false},
                               {"scratch memory not cleared", plant_left_over, 0, true, false},
                               {"wrong from the second launch on", plant_element, 1, true, false},
                               {"an input overwritten", plant_input, 0, true, true}};
enum { FAULTS = sizeof faults / sizeof *faults };

static bool is_under_test(void) {
    if (!tested) tested = device.running;
    return planted && device.running == tested;
}

static void before_launch(const hr_execution *execution) {
    if (!is_under_test()) return;
    const size_t bytes = (size_t)victim.count * hr_dtype_size(victim.dtype);
    memcpy(victim.before, victim.data, bytes);
    float left = 0;
    if (execution->scratch && execution->scratch_bytes >= 4) memcpy(&left, execution->scratch, sizeof left);
    victim.left_over = execution->scratch ? (double)left : load(&victim, victim.count / 2);
}

/* Of `right` and what the victim is now; 0 and -0 are the same. The largest change of each part of the
 * result. */
static void changes_note(const char *right) {
    const int64_t part = victim.count / CHANGES_MOST + 1;
    for (int64_t i = 0; i < victim.count; i++) {
        const double was = hr_dtype_load(victim.dtype, right, (size_t)i), is = load(&victim, i);
        const double apart = isfinite(is - was) ? fabs(is - was) : INFINITY;
        if (was == is || (isnan(was) && isnan(is))) continue;
        int c = (int)(i / part);
        if (!(apart > changes.apart[c])) continue;
        changes.apart[c] = apart;
        changes.elements[c] = i;
        changes.count++;
    }
}

static void after_launch(const hr_execution *execution) {
    if (!is_under_test() || tested_launches++ < planted->from_launch) return;
    const size_t bytes = (size_t)victim.count * hr_dtype_size(victim.dtype);
    char *right = malloc(bytes + 1);
    assert_non_null(right);
    memcpy(right, victim.data, bytes);
    planted->plant(&victim);
    changes_note(right);
    free(right);
    if (!planted->needs_input || victim.input < 0) return;
    ((char *)execution->pointers[victim.input])[victim.input_bytes / 2] += 1;
    changes.input = true;
}

/* ---- one kernel ---- */

typedef struct trial {
    const char *path, *text, *name;
    size_t length;
    int64_t sizes[4];
    const hr_random_extent *extents; /* of a random program; NULL: `sizes` by place */
    hr_values values;
} trial;

static void bind(hr_kernel *kernel, const trial *t) {
    assert_int_equal(kernel_bind_sizes(kernel, t->sizes), HR_OK);
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++) {
        const char *name = hr_kernel_extent_name(kernel, e);
        for (int k = 0; t->extents && k < HR_RANDOM_EXTENTS; k++)
            if (strcmp(name, t->extents[k].name) == 0)
                assert_int_equal(hr_kernel_bind_extent(kernel, name, t->extents[k].value), HR_OK);
    }
}

static int64_t array_of(hr_kernel *kernel, int i, hr_argument *argument, hr_array *array) {
    int64_t count = 1;
    *array = (hr_array){.size = sizeof *array};
    assert_int_equal(hr_kernel_argument(kernel, i, argument), HR_OK);
    if (argument->role == HR_ARGUMENT_INPUT && !argument->rank) return 0;
    assert_int_equal(hr_kernel_array(kernel, argument->name, array), HR_OK);
    for (int k = 0; k < array->rank; k++)
        count *= array->shape[k];
    return count;
}

static void victim_make(hr_kernel *kernel, int i, target *out) {
    hr_argument argument;
    hr_array array;
    *out = (target){.input = -1};
    for (int k = 0; k < hr_kernel_argument_count(kernel); k++) {
        const int64_t count = array_of(kernel, k, &argument, &array);
        if (argument.role != HR_ARGUMENT_INPUT || !count) continue;
        out->input = k;
        out->input_bytes = (size_t)count * hr_dtype_size(array.dtype);
    }
    out->count = array_of(kernel, i, &argument, &array);
    if (argument.role == HR_ARGUMENT_INPUT) out->count = 0;
    out->data = array.data;
    out->dtype = array.dtype;
    out->columns = array.rank ? array.shape[array.rank - 1] : 1;
    out->before = malloc((size_t)out->count * 8 + 8);
    assert_non_null(out->before);
}

/* Filling gives new memory: the launch's own arrays are looked up again. */
static hr_check checked(hr_kernel *kernel, const trial *t, int argument, const fault *fault) {
    hr_check check = {0};
    assert_int_equal(hr_kernel_fill_as(kernel, 11, t->values), HR_OK);
    free(victim.before);
    victim_make(kernel, argument, &victim);
    planted = fault;
    tested_launches = 0;
    tested = NULL;
    memset(&changes, 0, sizeof changes);
    const hr_status status = hr_kernel_check_all(kernel, &check);
    const bool refused = status == HR_OUT_OF_RANGE && fault && fault->needs_input; /* it was a subscript */
    if (status != HR_OK && !refused)
        fail_msg("%s, %s: %s", t->name, fault ? fault->name : "right", hr_last_error());
    planted = NULL;
    return check;
}

static void describe(const trial *t, const char *what, const hr_check *check) {
    print_message("%s at %lld %lld %lld, values %d: %s: error %g of %g, %s\n", t->name,
                  (long long)t->sizes[0], (long long)t->sizes[1], (long long)t->sizes[2], (int)t->values,
                  what, check->max_error, check->tolerance, check->where);
}

static int missed, tried, hidden;

/* The f64 meaning and its limit, of elements that were changed: whether each change is no more than two right
 * values may be apart. */
static bool is_within_limits(hr_kernel *kernel, const trial *t, int argument) {
    hr_preparing preparing = {.tune = HR_TUNE_NONE, .threads = kernel->threads};
    hr_prepared *prepared;
    hr_samples *samples;
    bool within = !changes.input;
    assert_int_equal(hr_kernel_fill_as(kernel, 11, t->values), HR_OK);
    assert_int_equal(hr_kernel_ready(kernel, &preparing, &prepared), HR_OK);
    assert_int_equal(hr_samples_create(kernel, prepared, 1, NULL, NULL, &samples), HR_OK);
    for (int c = 0; c < CHANGES_MOST && within; c++) {
        const hr_binding *binding = &kernel->bindings[argument];
        int64_t at[HR_RANK_MAX] = {0}, element = changes.elements[c];
        hr_meaning meaning;
        if (!(changes.apart[c] > 0)) continue;
        for (int axis = hr_kernel_tensor(kernel, argument)->rank; axis-- > 0; element /= binding->shape[axis])
            at[axis] = element % binding->shape[axis];
        assert_int_equal(hr_samples_meaning(samples, argument, at, &meaning), HR_OK);
        const double unit = 2 * hr_dtype_rounding(victim.dtype) * fabs(meaning.value);
        within = changes.apart[c] <= 2 * meaning.error + unit;
    }
    hr_samples_destroy(samples);
    return within;
}

static void fault_try(hr_kernel *kernel, const trial *t, int argument, const fault *fault) {
    hr_argument described;
    assert_int_equal(hr_kernel_fill_as(kernel, 11, t->values), HR_OK);
    free(victim.before);
    victim_make(kernel, argument, &victim);
    assert_int_equal(hr_kernel_argument(kernel, argument, &described), HR_OK);
    const bool fits = victim.count > 0 && (fault->exact_too || hr_dtype_is_float(victim.dtype)) &&
                      (!fault->needs_input || victim.input >= 0);
    if (fits) {
        const hr_check check = checked(kernel, t, argument, fault);
        const bool made = changes.count > 0 || changes.input;
        tried += made;
        if (made && check.ok) {
            const bool within = is_within_limits(kernel, t, argument);
            missed += !within;
            hidden += within;
            print_message("%s of %s: ", within ? "within its limits" : "MISSED", described.name);
            describe(t, fault->name, &check);
        }
    }
}

/* `every`: of all pairs of a fault and a result one in so many, in turn. */
static void kernel_try(const trial *t, int every) {
    static int number;
    hr_kernel *kernel;
    if (hr_kernel_load(&device.base, t->path, t->text, t->length, t->name, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
    bind(kernel, t);
    hr_check check = checked(kernel, t, 0, NULL);
    if (!check.ok) {
        missed++;
        describe(t, "right code is called wrong", &check);
    }
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++)
        for (int f = 0; f < FAULTS; f++)
            if (number++ % every == 0) fault_try(kernel, t, i, &faults[f]);
    hr_kernel_destroy(kernel);
}

/* ---- all of them ---- */

static void trials(trial t, int every) {
    static const int64_t sizes[][2][4] = {{{37, 131, 3, 5}, {400, 3000, 2, 17}},
                                          {{5, 7, 33, 9}, {96, 64, 130, 3}},
                                          {{3, 5, 17, 33}, {2, 6, 130, 64}}};
    hr_kernel *kernel;
    assert_int_equal(hr_kernel_load(&device.base, t.path, t.text, t.length, t.name, &kernel), HR_OK);
    const int count = hr_kernel_extent_count(kernel), kind = count <= 2 ? 0 : count == 3 ? 1 : 2;
    hr_kernel_destroy(kernel);
    for (int large = 0; large < (t.extents ? 1 : 2); large++)
        for (int values = 0; values < 3; values++) {
            memcpy(t.sizes, sizes[kind][large], sizeof t.sizes);
            t.values = (hr_values)values;
            if (is_long ? sample_is_long(turn++) : large == 0 && values == every % 3)
                kernel_try(&t, is_long ? 1 : every);
        }
}

static void text_try(void *context, const char *path, const char *text, size_t length, const char *name) {
    int *number = context;
    if (only && !strstr(name, only)) return;
    if (is_long || (*number)++ % SAMPLE == 0)
        trials((trial){.path = path, .text = text, .length = length, .name = name}, 3 + *number / SAMPLE % 3);
}

static void test_kernels_of_the_library(void **state) {
    (void)state;
    int number = 0;
    missed = tried = hidden = 0;
    assert_int_equal(kernel_texts_each(text_try, &number), HR_OK);
    assert_true(sample_is_shared() || tried > (only ? 0 : is_long ? 1000 : 15));
    assert_int_equal(missed, 0);
    assert_true(sample_is_shared() || hidden <= tried / 50);
}

/* Sums of more addends than one chain of f32 could be held to 64 units for: of rows, columns, places,
 * products, all and of softmax, the first extent long. */
static void test_long_sums(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kernel k(w: f32[N], x: f32[M, N]) -> (y: f32[M])\n{\n    y[m] = sum[n](x[m, n] * w[n])\n}\n",
        "kernel k(x: f32[M, N]) -> (y: f32[N])\n{\n    y[n] = sum[m](x[m, n])\n}\n",
        "kernel k(at: u8[T], x: f32[T]) -> (y: f32[256])\n{\n    y[at[t]] += x[t]\n}\n",
        "kernel k(a: f32[K, M], b: f32[K, N]) -> (y: f32[M, N])\n{\n"
        "    y[m, n] = sum[k](a[k, m] * b[k, n])\n}\n",
        "kernel k(x: f32[M, N]) -> (y: f32)\n{\n    y = sum[m, n](x[m, n])\n}\n",
        "kernel k(w: f32[N], x: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = softmax[n](x[m, n] + "
        "w[n])\n}\n",
    };
    missed = tried = hidden = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int values = 1; values < 3; values++) {
            trial t = {.path = "long.hr", .text = texts[i], .length = strlen(texts[i]), .name = "k"};
            const int64_t sizes[4] = {is_long ? 1000003 : 60007, 19, 23, 5};
            memcpy(t.sizes, sizes, sizeof t.sizes);
            t.values = (hr_values)values;
            if (!is_long || sample_is_long(turn++)) kernel_try(&t, is_long ? 1 : 2);
        }
    assert_true(sample_is_shared() || tried > 20);
    assert_int_equal(missed, 0);
}

static void test_random_kernels(void **state) {
    (void)state;
    missed = tried = hidden = 0;
    for (uint64_t seed = 0; seed < (is_long ? RANDOM_SEEDS : RANDOM_TAKEN); seed++) {
        hr_text text = {0};
        hr_random_extent extents[HR_RANDOM_EXTENTS];
        char name[32];
        assert_int_equal(hr_random_program(seed, &text, extents), HR_OK);
        snprintf(name, sizeof name, "random_%llu", (unsigned long long)seed);
        trials((trial){.path = "random.hr",
                       .text = hr_text_data(&text),
                       .length = text.length,
                       .name = name,
                       .extents = extents},
               7 + (int)(seed % 3));
        hr_text_clear(&text);
    }
    print_message("%d faults, %d of them within what the texts' own arithmetic may do\n", tried, hidden);
    assert_true(sample_is_shared() || tried > (is_long ? 300 : 10));
    assert_int_equal(missed, 0);
    assert_true(sample_is_shared() || hidden <= tried / 5);
}

static int open_device(void **state) {
    (void)state;
    if (counting_open(&device) != HR_OK) return -1;
    device.before = before_launch;
    device.after = after_launch;
    return 0;
}

static int close_device(void **state) {
    (void)state;
    counting_close(&device);
    return 0;
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_of_the_library),
                                       cmocka_unit_test(test_long_sums),
                                       cmocka_unit_test(test_random_kernels)};
    is_long = getenv("HR_TEST_LONG");
    const struct CMUnitTest one[] = {cmocka_unit_test(test_kernels_of_the_library)};
    only = count > 1 ? arguments[1] : NULL;
    return only ? cmocka_run_group_tests(one, open_device, close_device)
                : cmocka_run_group_tests(tests, open_device, close_device);
}
