/* Every layout of a warpgroup's operands on a GPU, by the library's own launches and tensor maps: the product
 * is compared with the host's.
 *
 *   gpu_tensor
 *
 * Exit code 0, 1 where something is wrong, 77 where there is no GPU of sm_90.
 */
#include "device/device.h"
#include "support/tensor_layouts.h"

#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, TENSORS = 4 };

static const int widths[] = {16, 32, 64, 128};
static const int columns[] = {8, 16, 64, 96, 128, 256, 0};
static struct hr_device *gpu;
static tensor_data data;
static unsigned char result[sizeof(int) * TENSOR_ROWS * TENSOR_COLUMNS];
static int wrong, right;

static void need(hr_status status) {
    if (status == HR_OK) return;
    fprintf(stderr, "%s\n", hr_last_error());
    exit(1);
}

typedef struct session {
    hr_module *module;
    hr_launch launches[TENSOR_PRODUCTS_MAX];
    int count;
    void *memory[TENSORS]; /* a, b, a with K contiguous, out */
} session;

/* One way of all products of the session: their launches, prepared together, one after the other. */
static void run_way(session *s, const hr_tensor_core *products, int width, bool by_maps) {
    tensor_launch made[TENSOR_PRODUCTS_MAX];
    for (int i = 0; i < s->count; i++) {
        tensor_launch_make(&products[i], width, by_maps, &data, &made[i]);
        s->launches[i] = made[i].launch;
    }
    need(gpu->ops->launches(gpu, s->module, s->launches, s->count));
    for (int i = 0; i < s->count; i++) {
        hr_launch alone[TENSOR_PRODUCTS_MAX];
        hr_fault fault;
        hr_execution execution = {.pointers = s->memory,
                                  .scalars = (double[TENSORS]){0},
                                  .extents = made[i].numbers,
                                  .launches = alone,
                                  .launch_count = s->count,
                                  .count = TENSORS,
                                  .extent_count = TENSOR_NUMBERS};
        memcpy(alone, s->launches, sizeof alone);
        for (int other = 0; other < s->count; other++)
            if (other != i) alone[other].grid[0] = 0;
        memset(result, 0xee, sizeof result);
        need(gpu->ops->upload(gpu, s->memory[0], made[i].a, sizeof data.a_k));
        need(gpu->ops->upload(gpu, s->memory[1], made[i].b, sizeof data.b_k));
        need(gpu->ops->upload(gpu, s->memory[3], result, sizeof result));
        need(gpu->ops->launch(gpu, s->module, &execution, &fault));
        need(gpu->ops->download(gpu, result, s->memory[3], sizeof result));
        int count = tensor_wrong(&products[i], &data, result);
        *(count ? &wrong : &right) += 1;
        if (count)
            printf("%s, swizzle %d, %s: %d elements wrong\n", s->launches[i].entry, width == 16 ? 0 : width,
                   by_maps ? "maps" : "stores", count);
    }
}

static void run_type(hr_tensor_type type) {
    static const size_t sizes[TENSORS] = {sizeof data.a_k, sizeof data.b_k, sizeof data.a_k, sizeof result};
    hr_tensor_core products[TENSOR_PRODUCTS_MAX];
    hr_text source = {0};
    session s = {.count = tensor_products(type, columns, products)};
    tensor_data_make(type, &data);
    need(tensor_source(products, s.count, &source));
    need(gpu->ops->compile(gpu, hr_text_data(&source), source.length, 0, &s.module));
    for (int i = 0; i < TENSORS; i++)
        need(gpu->ops->allocate(gpu, sizes[i], &s.memory[i]));
    need(gpu->ops->upload(gpu, s.memory[2], data.a_k, sizeof data.a_k));
    for (int w = 0; w < 4; w++)
        for (int by_maps = 0; by_maps < 2; by_maps++)
            run_way(&s, products, widths[w], by_maps);
    for (int i = 0; i < TENSORS; i++)
        gpu->ops->release(gpu, s.memory[i], sizes[i]);
    gpu->ops->unload(gpu, s.module);
    hr_text_clear(&source);
}

int main(void) {
    if (hr_device_cuda_open(0, &gpu) != HR_OK) {
        printf("gpu_tensor: skipped: %s\n", hr_last_error());
        return SKIPPED;
    }
    if (gpu->limits.compute / 10 != 9) {
        printf("gpu_tensor: skipped: %s has no products of a warpgroup\n", gpu->name);
        return SKIPPED;
    }
    for (int type = HR_TENSOR_BF16; type <= HR_TENSOR_S8; type++)
        run_type((hr_tensor_type)type);
    printf("%s: layouts of tensor cores: %d right, %d wrong\n", gpu->name, right, wrong);
    hr_device_destroy(gpu);
    return wrong != 0;
}
