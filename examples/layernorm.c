/* Runs a kernel of the library on arrays of our own, and says how far it is from this machine's limit.
 *
 *     cc -std=c11 layernorm.c $(pkg-config --cflags --libs headroom) -o layernorm
 *     ./layernorm $(pkg-config --variable=kernels headroom)/layernorm.hr
 */
#include <headroom.h>
#include <stdlib.h>

enum { M = 16384, N = 1024 };
static float x[M * N], weight[N], bias[N], y[M * N], mean[M], rstd[M];

static void need(hr_status status) {
    if (status == HR_OK) return;
    fprintf(stderr, "%s\n", hr_last_error());
    exit(hr_status_exit_code(status));
}

static void bind(hr_kernel *kernel, const char *name, float *data, int rank, const int64_t *shape) {
    hr_array array = {.size = sizeof array, .data = data, .dtype = HR_F32, .rank = rank, .shape = shape};
    need(hr_kernel_bind(kernel, name, &array));
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "layernorm.hr";
    const int64_t matrix[] = {M, N}, row[] = {N}, column[] = {M};
    hr_device *device;
    hr_kernel *kernel;
    hr_timing timing;
    hr_floor limit;
    for (int i = 0; i < M * N; i++)
        x[i] = (float)(i % 2003) / 1000;
    for (int n = 0; n < N; n++)
        weight[n] = 1;
    need(hr_device_open("cpu", &device));
    need(hr_kernel_load_file(device, path, "layernorm_f32", &kernel));
    bind(kernel, "x", x, 2, matrix);
    bind(kernel, "weight", weight, 1, row);
    bind(kernel, "bias", bias, 1, row);
    bind(kernel, "y", y, 2, matrix);
    bind(kernel, "mean", mean, 1, column);
    bind(kernel, "rstd", rstd, 1, column);
    need(hr_kernel_launch(kernel)); /* compiles at the first call for these shapes */
    printf("y[5, 7] = %.4f, mean[5] = %.4f, rstd[5] = %.4f\n", (double)y[5 * N + 7], (double)mean[5],
           (double)rstd[5]);
    need(hr_kernel_measure(kernel, &timing));
    need(hr_kernel_floor(kernel, &limit));
    printf("%.3f ms; the floor is %.3f ms (%s): %.2fx\n", 1e3 * timing.median, 1e3 * limit.seconds,
           limit.bound, timing.median / limit.seconds);
    hr_kernel_destroy(kernel);
    hr_device_destroy(device);
    return 0;
}
