/* Kernels over lists of arrays on a GPU: the same elements end to end on the CPU say what must come out.
 *
 *   gpu_lists
 *
 * Members are of odd lengths, empty, aligned and not; a thousand of them as well. Exit code 0, 1 where
 * something is wrong, 77 where there is no GPU.
 */
#include "headroom.h"

#include "base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 1000, ARGUMENTS_MAX = 16, SKIPPED = 77 };

typedef struct list_case {
    const char *file, *kernel;
    int count;
    int64_t lengths[MEMBERS_MAX], total, odd; /* odd: elements between members */
    hr_dtype dtype;
} list_case;

typedef struct tensor {
    hr_argument argument;
    int64_t elements, memory; /* of all members; with what lies between them */
    char *whole, *spread;     /* end to end; as on the device */
    void *device;
    hr_array arrays[MEMBERS_MAX];
} tensor;

static hr_device *cpu, *gpu;

static void need(hr_status status) {
    if (status == HR_OK) return;
    fprintf(stderr, "%s\n", hr_last_error());
    exit(1);
}

static void *room(int64_t bytes) {
    void *memory = calloc(1, (size_t)bytes + 1);
    if (memory) return memory;
    fprintf(stderr, "no memory\n");
    exit(1);
}

static size_t size_of(const tensor *t) {
    return hr_dtype_size(t->argument.dtype);
}

/* Copies between the elements end to end and those with gaps. */
static void spread(const list_case *c, const tensor *t, bool out) {
    char *whole = t->whole, *apart = t->spread;
    for (int k = 0; k < c->count; k++) {
        size_t bytes = (size_t)c->lengths[k] * size_of(t);
        memcpy(out ? apart : whole, out ? whole : apart, bytes);
        whole += bytes;
        apart += bytes + (size_t)c->odd * size_of(t);
    }
}

static void tensor_make(const list_case *c, tensor *t, int number) {
    bool list = t->argument.rank > 0;
    t->elements = list ? c->total : 1;
    t->memory = list ? (c->total + c->odd * c->count) * (int64_t)size_of(t) : (int64_t)size_of(t);
    t->whole = room(t->elements * (int64_t)size_of(t));
    t->spread = room(t->memory);
    for (int64_t i = 0; i < t->elements; i++) {
        double value = 0.5 + (double)((i * 7919 + number * 31) % 1021) / 1021;
        bool negative = i % 3 == 0 && strcmp(t->argument.name, "v") != 0;
        hr_dtype_store(t->argument.dtype, t->whole, (size_t)i, negative ? -value : value);
    }
    if (list) spread(c, t, true);
    need(hr_device_allocate(gpu, (size_t)t->memory + 64, &t->device));
    need(hr_device_upload(gpu, t->device, t->spread, (size_t)t->memory));
    char *at = t->device;
    for (int k = 0; list && k < c->count; k++) {
        t->arrays[k] =
            (hr_array){.size = sizeof(hr_array), .data = at, .dtype = t->argument.dtype, .rank = 1};
        t->arrays[k].shape = &c->lengths[k];
        at += (c->lengths[k] + c->odd) * (int64_t)size_of(t);
    }
}

/* The worst difference from the CPU's result; NaN counts as infinite. */
static double difference(const tensor *t, const char *expected) {
    double worst = 0, tolerance = size_of(t) == 2 ? 0.008 : 3e-6;
    for (int64_t i = 0; i < t->elements; i++) {
        double got = hr_dtype_load(t->argument.dtype, t->whole, (size_t)i);
        double right = hr_dtype_load(t->argument.dtype, expected, (size_t)i);
        double error = fabs(got - right) / (tolerance * (fabs(right) + 1e-3));
        if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

static hr_kernel *load(hr_device *device, const list_case *c) {
    char path[512];
    hr_kernel *kernel;
    snprintf(path, sizeof path, "%s/kernels/%s", HR_SOURCE_DIR, c->file);
    need(hr_kernel_load_file(device, path, c->kernel, &kernel));
    need(hr_kernel_bind_dtype(kernel, "T", c->dtype));
    return kernel;
}

static void bind(hr_kernel *kernel, const list_case *c, tensor *t, bool on_gpu) {
    hr_array whole = {
        .size = sizeof whole, .data = on_gpu ? t->device : t->whole, .dtype = t->argument.dtype};
    whole.rank = t->argument.rank;
    whole.shape = &c->total;
    if (on_gpu && t->argument.rank)
        need(hr_kernel_bind_list(kernel, t->argument.name, t->arrays, c->count));
    else
        need(hr_kernel_bind(kernel, t->argument.name, &whole));
}

static int compare(const list_case *c, tensor *tensors, int count) {
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        tensor *t = &tensors[i];
        if (!t->whole || t->argument.role == HR_ARGUMENT_INPUT) continue;
        char *expected = t->whole;
        need(hr_device_download(gpu, t->spread, t->device, (size_t)t->memory));
        t->whole = room(t->elements * (int64_t)size_of(t));
        if (t->argument.rank)
            spread(c, t, false);
        else
            memcpy(t->whole, t->spread, size_of(t));
        double worst = difference(t, expected);
        if (worst > 1)
            printf("%s over %d arrays: `%s` is %g times too far off\n", c->kernel, c->count, t->argument.name,
                   worst);
        wrong += worst > 1;
        free(expected);
    }
    return wrong;
}

static int run(const list_case *c) {
    tensor *tensors = room(ARGUMENTS_MAX * (int64_t)sizeof *tensors);
    hr_kernel *there = load(gpu, c), *here = load(cpu, c);
    int count = hr_kernel_argument_count(there);
    for (int i = 0; i < count; i++) {
        need(hr_kernel_argument(there, i, &tensors[i].argument));
        if (tensors[i].argument.rank == 0 && tensors[i].argument.role == HR_ARGUMENT_INPUT) continue;
        tensor_make(c, &tensors[i], i);
        bind(there, c, &tensors[i], true);
        bind(here, c, &tensors[i], false);
    }
    for (int times = 0; times < 2; times++) {
        need(hr_kernel_launch(there));
        need(hr_kernel_launch(here));
    }
    need(hr_device_synchronise(gpu));
    int wrong = compare(c, tensors, count);
    hr_kernel_destroy(there);
    hr_kernel_destroy(here);
    for (int i = 0; i < count; i++) {
        if (!tensors[i].whole) continue;
        hr_device_release(gpu, tensors[i].device, (size_t)tensors[i].memory + 64);
        free(tensors[i].whole);
        free(tensors[i].spread);
    }
    free(tensors);
    return wrong;
}

/* `many`: a thousand members; otherwise eight. */
static list_case make_case(const char *file, const char *kernel, bool many, int64_t odd) {
    static const int64_t few[] = {5, 0, 1, 31, 33, 1023, 65537, 0};
    list_case c = {.file = file, .kernel = kernel, .count = many ? MEMBERS_MAX : 8, .odd = odd};
    for (int k = 0; k < c.count; k++) {
        c.lengths[k] = many ? k % 50 == 49 ? 20000 + k : k * 7919 % 200 : few[k];
        c.total += c.lengths[k];
    }
    return c;
}

int main(void) {
    static const struct {
        const char *file, *name;
        hr_dtype dtype;
    } kernels[] = {{"adamw.hr", "adamw", HR_BF16},
                   {"adamw.hr", "adamw_in_place", HR_F32},
                   {"clip_norm.hr", "clip_norm", HR_BF16},
                   {"clip_norm.hr", "clip_norm", HR_F32}};
    int cases = 0, wrong = 0;
    if (hr_device_open("cuda", &gpu) != HR_OK) {
        printf("skipped: %s\n", hr_last_error());
        return SKIPPED;
    }
    need(hr_device_open("cpu", &cpu));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int many = 0; many < 2; many++)
            for (int64_t odd = 0; odd < 4; odd += 3, cases++) {
                list_case c = make_case(kernels[i].file, kernels[i].name, many, odd);
                c.dtype = kernels[i].dtype;
                wrong += run(&c) > 0;
            }
    hr_device_destroy(gpu);
    hr_device_destroy(cpu);
    printf("lists of arrays: %d of %d cases right\n", cases - wrong, cases);
    return wrong > 0;
}
