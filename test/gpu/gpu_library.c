/* Every kernel of kernels/ on a GPU, against the meaning of its text: odd sizes, empty ones, unaligned
 * arrays, non-finite values; the same bits twice; subscripts that leave their axis reported.
 *
 *   gpu_library [--small] [--jobs N] [--part I] [--only WORD]
 *
 * --small: a few sizes a kernel, for compute-sanitizer. Kernels are spread over N processes (8), because
 * compiling is most of the work. Exit code 0, 1 where something is wrong, 77 where there is no GPU.
 */
#define _GNU_SOURCE
#include "headroom.h"

#include "support/kernel_library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 32, POINTS = 300, SKIPPED = 77, JOBS_MAX = 64 };

/* Extents by their position among the kernel's. */
static const struct gpu_case {
    const char *what;
    int64_t extents[4];
    bool unaligned, nonfinite, small;
} cases[] = {
    {"one column", {37, 1, 3, 5}, false, false, false},
    {"31 columns", {65, 31, 3, 5}, false, false, false},
    {"33 columns", {130, 33, 2, 7}, false, false, true},
    {"1023 columns", {67, 1023, 5, 33}, false, false, false},
    {"65537 columns", {3, 65537, 2, 3}, false, false, false},
    {"no rows", {0, 1023, 2, 3}, false, false, false},
    {"no columns", {5, 0, 1, 2}, false, false, false},
    {"aligned", {256, 1024, 4, 64}, false, false, false},
    {"unaligned", {67, 1023, 5, 33}, true, false, false},
    {"unaligned, even", {129, 2048, 4, 32}, true, false, false},
    {"a block a row", {5, 1023, 3, 5}, false, false, true},
    {"a cluster a row", {2, 40000, 1, 2}, false, false, true},
    {"not finite", {70, 1025, 3, 5}, false, true, false},
};

typedef struct totals {
    int kernels, cases, failures, refused;
    int64_t points;
    double worst; /* error over tolerance */
} totals;

static bool small;
static const char *only;

/* ---- binding ---- */

static size_t element_size(hr_dtype dtype) {
    static const size_t sizes[] = {
#define SIZE(name, text, size) [HR_##name] = size,
        HR_DTYPES(SIZE)
#undef SIZE
    };
    return sizes[dtype];
}

static bool is_float(hr_dtype dtype) {
    return dtype <= HR_F8E5M2;
}

/* NaN, infinities, a denormal and -0 into every 61st element: as bits of the dtype. */
static void bits_spoil(hr_dtype dtype, void *data, int64_t count) {
    static const uint32_t f32[] = {0x7fc00000, 0x7f800000, 0xff800000, 1, 0x80000000};
    static const uint16_t bf16[] = {0x7fc0, 0x7f80, 0xff80, 1, 0x8000};
    static const uint16_t f16[] = {0x7e00, 0x7c00, 0xfc00, 1, 0x8000};
    for (int64_t i = 17; i < count; i += 61) {
        if (dtype == HR_F32) ((uint32_t *)data)[i] = f32[i / 61 % 5];
        if (dtype == HR_BF16) ((uint16_t *)data)[i] = bf16[i / 61 % 5];
        if (dtype == HR_F16) ((uint16_t *)data)[i] = f16[i / 61 % 5];
    }
}

/* One argument's array anew: an element further than it was, or with values that are not finite. */
static hr_status array_move(hr_device *device, hr_kernel *kernel, const char *name,
                            const struct gpu_case *one, void **kept, size_t *kept_size) {
    hr_array array;
    int64_t shape[8], count = 1;
    hr_status status = hr_kernel_array(kernel, name, &array);
    if (status != HR_OK) return status;
    for (int axis = 0; axis < array.rank; axis++)
        count *= shape[axis] = array.shape[axis];
    size_t element = element_size(array.dtype), bytes = (size_t)count * element;
    char *host = malloc(bytes + 1);
    *kept_size = bytes + 256;
    status = hr_device_allocate(device, *kept_size, kept);
    if (status != HR_OK || !host) {
        free(host);
        return status;
    }
    char *data = (char *)*kept + (one->unaligned ? element : 0);
    status = hr_device_download(device, host, array.data, bytes);
    if (one->nonfinite && is_float(array.dtype)) bits_spoil(array.dtype, host, count);
    if (status == HR_OK) status = hr_device_upload(device, data, host, bytes);
    hr_array moved = {
        .size = sizeof moved, .data = data, .dtype = array.dtype, .rank = array.rank, .shape = shape};
    if (status == HR_OK) status = hr_kernel_bind(kernel, name, &moved);
    free(host);
    return status;
}

/* ---- one case ---- */

typedef struct kept_memory {
    void *data[ARGUMENTS_MAX];
    size_t size[ARGUMENTS_MAX];
} kept_memory;

static hr_status arrays_make(hr_device *device, hr_kernel *kernel, const struct gpu_case *one,
                             kept_memory *kept) {
    hr_status status = hr_kernel_fill(kernel, 7);
    for (int i = 0; i < hr_kernel_argument_count(kernel) && i < ARGUMENTS_MAX && status == HR_OK; i++) {
        hr_argument argument;
        status = hr_kernel_argument(kernel, i, &argument);
        if (status != HR_OK || !(one->unaligned || one->nonfinite) ||
            (argument.rank == 0 && argument.role == HR_ARGUMENT_INPUT))
            continue;
        status = array_move(device, kernel, argument.name, one, &kept->data[i], &kept->size[i]);
    }
    return status;
}

/* The results of two launches, byte for byte; kernels with inouts change what they read and are left out. */
static hr_status repeat_check(hr_device *device, hr_kernel *kernel, bool *same) {
    *same = true;
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
        hr_argument argument;
        if (hr_kernel_argument(kernel, i, &argument) == HR_OK && argument.role == HR_ARGUMENT_INOUT)
            return HR_OK;
    }
    for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
        hr_argument argument;
        hr_array array;
        hr_status status = hr_kernel_argument(kernel, i, &argument);
        if (argument.role != HR_ARGUMENT_RESULT) continue;
        if (status == HR_OK) status = hr_kernel_array(kernel, argument.name, &array);
        if (status != HR_OK) return status;
        size_t bytes = element_size(array.dtype);
        for (int axis = 0; axis < array.rank; axis++)
            bytes *= (size_t)array.shape[axis];
        char *first = malloc(bytes + 1), *second = malloc(bytes + 1);
        status = hr_device_download(device, first, array.data, bytes);
        if (status == HR_OK) status = hr_kernel_launch(kernel);
        if (status == HR_OK) status = hr_device_download(device, second, array.data, bytes);
        if (status == HR_OK && first && second && memcmp(first, second, bytes) != 0) *same = false;
        free(first);
        free(second);
        if (status != HR_OK) return status;
    }
    return HR_OK;
}

/* The dtypes that the library was read with. */
static hr_status dtypes_bind(hr_kernel *kernel, const hr_function *function) {
    hr_status status = HR_OK;
    for (int i = 0; i < function->variable_count && status == HR_OK; i++)
        status = hr_kernel_bind_dtype(kernel, function->variables[i].name, function->variables[i].dtype);
    return status;
}

static void case_run(hr_device *device, const char *path, const hr_function *function,
                     const struct gpu_case *one, totals *totals) {
    hr_kernel *kernel;
    hr_check check = {0};
    kept_memory kept = {0};
    bool same = true, empty = one->extents[0] == 0 || one->extents[1] == 0;
    hr_status status = hr_kernel_load_file(device, path, function->name, &kernel);
    if (status == HR_OK) status = dtypes_bind(kernel, function);
    /* under compute-sanitizer, long rows only where there is nothing else */
    bool long_rows =
        small && one->extents[1] > 10000 && status == HR_OK && hr_kernel_extent_count(kernel) > 2;
    if (long_rows) {
        hr_kernel_destroy(kernel);
        return;
    }
    totals->cases++;
    if (status == HR_OK) status = kernel_bind_sizes(kernel, one->extents);
    if (status == HR_OK) status = arrays_make(device, kernel, one, &kept);
    if (status == HR_OK) status = hr_kernel_prepare(kernel, NULL);
    if (status == HR_OK) status = hr_kernel_check(kernel, POINTS, &check);
    if (status == HR_OK) status = repeat_check(device, kernel, &same);
    bool refused = status == HR_BAD_INPUT || status == HR_OUT_OF_RANGE;
    if (refused && empty) /* there is no subscript within an axis of no elements */
        totals->refused++;
    else if (status != HR_OK || !check.ok || !same) {
        totals->failures++;
        printf("%s, %s: %s\n", function->title, one->what,
               status != HR_OK ? hr_last_error()
               : !check.ok     ? check.where
                               : "two launches differ");
        fflush(stdout);
    }
    totals->points += check.points;
    if (check.tolerance > 0) totals->worst = fmax(totals->worst, check.max_error / check.tolerance);
    hr_kernel_destroy(kernel);
    for (int i = 0; i < ARGUMENTS_MAX; i++)
        if (kept.data[i]) hr_device_release(device, kept.data[i], kept.size[i]);
}

/* A subscript beyond its axis: reported with its place, nothing read there, and the device works on. */
static void out_of_range_run(hr_device *device, totals *totals) {
    static const char text[] =
        "kernel k(at: i32[T], table: f32[V]) -> (y: f32[T])\n{\n    y[t] = table[at[t]]\n}\n";
    hr_kernel *kernel = NULL;
    hr_array at;
    int32_t wild = 1 << 30, tame = 3;
    totals->cases++;
    hr_status status = hr_kernel_load(device, "gather.hr", text, sizeof text - 1, "k", &kernel);
    if (status == HR_OK) status = hr_kernel_bind_extent(kernel, "T", 1000);
    if (status == HR_OK) status = hr_kernel_bind_extent(kernel, "V", 50);
    if (status == HR_OK) status = hr_kernel_fill(kernel, 7);
    if (status == HR_OK) status = hr_kernel_array(kernel, "at", &at);
    if (status == HR_OK) status = hr_device_upload(device, (char *)at.data + 4 * 777, &wild, 4);
    if (status == HR_OK) status = hr_kernel_launch(kernel);
    if (status == HR_OK) status = hr_device_synchronise(device);
    bool reported = status == HR_OUT_OF_RANGE && strstr(hr_last_error(), "1073741824");
    if (!reported)
        printf("a wild subscript is not reported: %s\n", status == HR_OK ? "no error" : hr_last_error());
    status = hr_device_upload(device, (char *)at.data + 4 * 777, &tame, 4);
    if (status == HR_OK) status = hr_kernel_launch(kernel);
    if (status == HR_OK) status = hr_device_synchronise(device);
    if (status != HR_OK) printf("after a wild subscript: %s\n", hr_last_error());
    totals->failures += !reported || status != HR_OK;
    hr_kernel_destroy(kernel);
}

/* ---- all of them, spread over processes ---- */

static void library_run(hr_device *device, int part, int parts, totals *totals) {
    kernel_library library;
    int number = 0;
    if (kernel_library_open(&library) != HR_OK) {
        printf("%s\n", hr_last_error());
        totals->failures++;
        return;
    }
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++) {
            const hr_function *function = &library.files[f].program->functions[k];
            if ((only && !strstr(function->title, only)) || number++ % parts != part) continue;
            totals->kernels++;
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
                if (!small || cases[c].small)
                    case_run(device, library.files[f].path, function, &cases[c], totals);
        }
    kernel_library_close(&library);
    if (part == 0) out_of_range_run(device, totals);
}

static int part_run(int part, int parts, totals *totals) {
    hr_device *device;
    if (hr_device_open("cuda", &device) != HR_OK) {
        if (part == 0) printf("skipped: %s\n", hr_last_error());
        return SKIPPED;
    }
    if (part == 0) printf("%s\n", hr_device_name(device));
    fflush(stdout);
    library_run(device, part, parts, totals);
    hr_device_destroy(device);
    fflush(stdout);
    return 0;
}

/* Starts one process; returns the end of a pipe that its totals come through. */
static int part_start(int part, int parts) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        totals totals = {0};
        int code = part_run(part, parts, &totals);
        fflush(stdout);
        ssize_t sent = code == 0 ? write(ends[1], &totals, sizeof totals) : 0;
        _exit(code ? code : sent != sizeof totals);
    }
    close(ends[1]);
    return child < 0 ? -1 : ends[0];
}

static int parts_run(int parts, totals *all) {
    int pipes[JOBS_MAX], code = 0, status;
    for (int part = 0; part < parts; part++)
        pipes[part] = part_start(part, parts);
    for (int part = 0; part < parts; part++) {
        totals one;
        if (pipes[part] >= 0 && read(pipes[part], &one, sizeof one) == sizeof one) {
            all->kernels += one.kernels;
            all->cases += one.cases;
            all->failures += one.failures;
            all->refused += one.refused;
            all->points += one.points;
            all->worst = fmax(all->worst, one.worst);
        } else
            code = 1;
        if (pipes[part] >= 0) close(pipes[part]);
    }
    while (wait(&status) > 0)
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
            code = code == 0 || code == 1 ? SKIPPED : code;
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            code = 2;
    return code;
}

int main(int count, char **words) {
    int jobs = 8, part = -1;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--small") == 0) small = true;
        if (strcmp(words[i], "--only") == 0 && i + 1 < count) only = words[++i];
        if (strcmp(words[i], "--part") == 0 && i + 1 < count) part = atoi(words[++i]);
        if (strcmp(words[i], "--jobs") == 0 && i + 1 < count) jobs = atoi(words[++i]);
    }
    if (jobs < 1 || jobs > JOBS_MAX) jobs = 8;
    struct timespec begun, ended;
    totals all = {0};
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int code = part >= 0 ? part_run(part, jobs, &all) : parts_run(jobs, &all);
    if (code == SKIPPED) return SKIPPED;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%d kernels, %d cases, %lld points; %d wrong, %d refused because an axis has too few elements; "
           "worst error "
           "%.2f of its "
           "tolerance; %.0f s\n",
           all.kernels, all.cases, (long long)all.points, all.failures, all.refused, all.worst,
           (double)(ended.tv_sec - begun.tv_sec));
    if (code) printf("a process died\n");
    return code || all.failures ? 1 : 0;
}
