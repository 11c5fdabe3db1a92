/* Clips the gradients of a model in one launch: one norm over arrays of unequal length, each scaled by it.
 *
 *     cc -std=c11 clip.c $(pkg-config --cflags --libs headroom) -o clip
 *     ./clip $(pkg-config --variable=kernels headroom)/clip_norm.hr
 */
#include <headroom.h>
#include <stdlib.h>

static float embedding[50257 * 8], matrix[3 * 64 * 64], bias[3 * 64], norm;

static void need(hr_status status) {
    if (status == HR_OK) return;
    fprintf(stderr, "%s\n", hr_last_error());
    exit(hr_status_exit_code(status));
}

int main(int argc, char **argv) {
    const int64_t shapes[][2] = {{50257, 8}, {3 * 64, 64}, {3 * 64, 1}};
    const hr_array gradients[] = {
        {sizeof(hr_array), embedding, HR_F32, 2, shapes[0], NULL},
        {sizeof(hr_array), matrix, HR_F32, 2, shapes[1], NULL},
        {sizeof(hr_array), bias, HR_F32, 1, shapes[2], NULL},
    };
    const hr_array total = {sizeof(hr_array), &norm, HR_F32, 0, NULL, NULL};
    hr_device *device;
    hr_kernel *kernel;
    embedding[12345] = 3;
    bias[100] = 4;
    need(hr_device_open("cpu", &device));
    need(hr_kernel_load_file(device, argc > 1 ? argv[1] : "clip_norm.hr", NULL, &kernel));
    need(hr_kernel_bind_list(kernel, "g", gradients, 3));
    need(hr_kernel_bind(kernel, "norm", &total));
    need(hr_kernel_launch(kernel));
    printf("norm %.3f, clipped to %.3f and %.3f\n", (double)norm, (double)embedding[12345],
           (double)bias[100]);
    hr_kernel_destroy(kernel);
    hr_device_destroy(device);
    return 0;
}
