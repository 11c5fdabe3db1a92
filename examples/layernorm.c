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
    if (status != HR_OK) fprintf(stderr, "%s\n", hr_last_error());
    if (status != HR_OK) exit(hr_status_exit_code(status));
}

int main(int argc, char **argv) {
    const char *names[] = {"x", "y", "weight", "bias", "mean", "rstd"};
    float *data[] = {x, y, weight, bias, mean, rstd};
    const int64_t matrix[] = {M, N}, *shapes[] = {matrix, matrix, matrix + 1, matrix + 1, matrix, matrix};
    hr_device *device;
    hr_kernel *kernel;
    hr_timing timing;
    hr_floor floor;
    for (int i = 0; i < M * N; i++)
        x[i] = (float)(i % 2003) / 1000, weight[i % N] = 1;
    need(hr_device_open("cpu", &device));
    need(hr_kernel_load_file(device, argc > 1 ? argv[1] : "layernorm.hr", NULL, &kernel));
    for (int i = 0; i < 6; i++)
        need(hr_kernel_bind(kernel, names[i],
                            &(hr_array){sizeof(hr_array), data[i], HR_F32, i < 2 ? 2 : 1, shapes[i], NULL}));
    need(hr_kernel_launch(kernel)); /* compiles at the first call for these shapes */
    printf("y[5, 7] = %.4f, mean[5] = %.4f, rstd[5] = %.4f\n", y[5 * N + 7], mean[5], rstd[5]);
    need(hr_kernel_measure(kernel, &timing));
    need(hr_kernel_floor(kernel, &floor));
    printf("%.3f ms; the floor is %.3f ms (%s): %.2fx\n", timing.median * 1e3, floor.seconds * 1e3,
           floor.bound, timing.median / floor.seconds);
    hr_kernel_destroy(kernel);
    hr_device_destroy(device);
}
