/* Matrix products beside OpenBLAS, in one process, in turns: A B A B ...
 *
 *   products_openblas KERNEL.hr NAME M N K [REPEATS [THREADS [DTYPE]]]
 *
 * The kernel's first two tensors are x[M, K] and w[N, K] or w[K, N], in f32 or bf16; OpenBLAS always
 * multiplies f32, and only multiplies. Prints both rates and the median of the ratios of neighbouring runs;
 * on a busy machine with one thread, by the time that the processor gave to it.
 *
 * Both sides' threads must sleep while the other works: OMP_WAIT_POLICY=passive OPENBLAS_THREAD_TIMEOUT=4.
 */
#define _GNU_SOURCE
#include "headroom.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { REPEATS_MAX = 1000, ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };

typedef void sgemm_fn(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct blas {
    sgemm_fn *multiply;
    const char *core;
} blas;

typedef struct bench {
    hr_kernel *kernel;
    hr_dtype dtype;
    blas blas;
    int m, n, k, repeats, threads;
    bool turned; /* w[N, K] */
    float *x, *w, *y;
    double ours[REPEATS_MAX], theirs[REPEATS_MAX], ratio[REPEATS_MAX];
} bench;

static double seconds(const bench *b) {
    struct timespec now;
    clock_gettime(b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static bool open_blas(bench *b) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return false;
    *(void **)&b->blas.multiply = dlsym(library, "cblas_sgemm");
    void (*set_threads)(int);
    const char *(*core)(void);
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&core = dlsym(library, "openblas_get_corename");
    if (set_threads) set_threads(b->threads);
    b->blas.core = core ? core() : "?";
    return b->blas.multiply != NULL;
}

/* On huge pages, as the kernel's own arrays are. */
static float *random_floats(size_t count) {
    size_t page = (size_t)1 << 21, size = (count * sizeof(float) / page + 1) * page;
    float *data = aligned_alloc(page, size);
    if (data) madvise(data, size, MADV_HUGEPAGE);
    for (size_t i = 0; data && i < count; i++)
        data[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return data;
}

static hr_status open_kernel(bench *b, char **arguments) {
    hr_device *device;
    hr_status status = hr_device_open("cpu", &device);
    if (status == HR_OK) status = hr_kernel_load_file(device, arguments[1], arguments[2], &b->kernel);
    if (status == HR_OK) status = hr_kernel_bind_dtype(b->kernel, "T", b->dtype);
    if (status == HR_OK) status = hr_kernel_bind_extent(b->kernel, "M", b->m);
    if (status == HR_OK) status = hr_kernel_bind_extent(b->kernel, "N", b->n);
    if (status == HR_OK) status = hr_kernel_bind_extent(b->kernel, "K", b->k);
    if (status == HR_OK) status = hr_kernel_fill(b->kernel, 1);
    hr_prepare_options options = {.size = sizeof options, .threads = b->threads};
    if (status == HR_OK) status = hr_kernel_prepare(b->kernel, &options);
    hr_argument weight;
    hr_array array;
    if (status == HR_OK) status = hr_kernel_argument(b->kernel, 1, &weight);
    if (status == HR_OK) status = hr_kernel_array(b->kernel, weight.name, &array);
    if (status == HR_OK)
        b->turned = array.shape[0] == b->n && (b->n != b->k || strstr(arguments[2], "linear"));
    return status;
}

static void multiply(const bench *b) {
    b->blas.multiply(ROW_MAJOR, PLAIN, b->turned ? TURNED : PLAIN, b->m, b->n, b->k, 1, b->x, b->k, b->w,
                     b->turned ? b->k : b->n, 0, b->y, b->n);
}

static hr_status run(bench *b) {
    struct timespec pause = {0, 1500000};
    for (int i = -1; i < b->repeats; i++) {
        nanosleep(&pause, NULL);
        double start = seconds(b);
        hr_status status = hr_kernel_launch(b->kernel);
        if (status != HR_OK) return status;
        double ours = seconds(b) - start;
        nanosleep(&pause, NULL);
        start = seconds(b);
        multiply(b);
        double theirs = seconds(b) - start;
        if (i < 0) continue; /* warms up */
        b->ours[i] = ours, b->theirs[i] = theirs, b->ratio[i] = theirs / ours;
    }
    return HR_OK;
}

int main(int count, char **arguments) {
    static bench b;
    if (count < 6)
        return fprintf(stderr, "usage: %s KERNEL.hr NAME M N K [REPEATS [THREADS [DTYPE]]]\n", arguments[0]),
               2;
    b.m = atoi(arguments[3]), b.n = atoi(arguments[4]), b.k = atoi(arguments[5]);
    b.repeats = count > 6 ? atoi(arguments[6]) : 21;
    b.threads = count > 7 ? atoi(arguments[7]) : 2;
    b.dtype = count > 8 && strcmp(arguments[8], "bf16") == 0 ? HR_BF16 : HR_F32;
    if (b.repeats < 1 || b.repeats > REPEATS_MAX || b.m < 1 || b.n < 1 || b.k < 1 || b.threads < 1) return 2;
    b.x = random_floats((size_t)b.m * (size_t)b.k);
    b.w = random_floats((size_t)b.n * (size_t)b.k);
    b.y = random_floats((size_t)b.m * (size_t)b.n);
    if (!b.x || !b.w || !b.y || !open_blas(&b))
        return fprintf(stderr, "no libopenblas.so.0, or no memory\n"), 3;
    if (open_kernel(&b, arguments) != HR_OK || run(&b) != HR_OK)
        return fprintf(stderr, "%s\n", hr_last_error()), 2;
    double work = 2e-9 * b.m * b.n * b.k, ratio = median(b.ratio, b.repeats);
    printf(
        "%s %d x %d x %d, %d threads: %.1f GFLOP/s; OpenBLAS (%s) %.1f GFLOP/s; ratio %.3f, %.3f to %.3f\n",
        arguments[2], b.m, b.n, b.k, b.threads, work / median(b.ours, b.repeats), b.blas.core,
        work / median(b.theirs, b.repeats), ratio, b.ratio[b.repeats / 4], b.ratio[b.repeats * 3 / 4]);
    return 0;
}
