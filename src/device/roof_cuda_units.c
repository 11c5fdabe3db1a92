/* What the arithmetic gives: shared memory, plain units, tensor cores, functions as they are emitted.
 *
 * In: kernels that repeat one instruction. Out: operations a second of the whole device. Products run for a
 * tenth of a second on random operands before they count: the power that they draw lowers the clock.
 */
#include "device/cuda_text.h"
#include "device/roof_cuda.h"

#include <stdlib.h>

#define UNIT_THREADS   1024
#define UNIT_CHAINS    8
#define UNIT_STEPS     16
#define RUNS           9
#define SAMPLE_SECONDS 0.001
#define TENSOR_SECONDS 0.02
#define TENSOR_WARM    0.15
#define ROUNDS_MOST    (1 << 24)
#define RANDOM_WORDS   16384
#define WGMMA_SHARED   (2 * (2 * 64 * 128 + 256 * 128))

typedef struct unit_words {
    hr_cu_address never;
    int rounds;
} unit_words;

typedef struct tensor_words {
    hr_cu_address never, random;
    int rounds;
} tensor_words;

/* ---- plain units ---- */

typedef struct unit {
    const char *name;
    size_t field;      /* of hr_roof */
    double operations; /* an instruction and thread */
} unit;

static const unit units[] = {
    {"hr_unit_f32", offsetof(hr_roof, vector_f32), 2},
    {"hr_unit_f64", offsetof(hr_roof, vector_f64), 2},
    {"hr_unit_f16", offsetof(hr_roof, vector_f16), 4},
    {"hr_unit_bf16", offsetof(hr_roof, vector_bf16), 4},
    {"hr_unit_i32", offsetof(hr_roof, vector_i32), 2},
    {"hr_unit_i8", offsetof(hr_roof, vector_i8), 8},
    {"hr_shared_read", offsetof(hr_roof, cache[0].read), 16.0 / UNIT_CHAINS},
};

/* Seconds of `rounds` found so that a launch takes about `target`; `rounds` is the launch's own. */
static hr_status rounds_find(hr_roof_cuda *roof, const hr_roof_launch *launch, int *rounds, double target) {
    double seconds = 0;
    for (*rounds = 16; *rounds < ROUNDS_MOST; *rounds *= 2) {
        HR_TRY(hr_roof_cuda_time(roof, launch, &seconds));
        if (seconds > target / 8) break;
    }
    double wanted = *rounds * target / (seconds > 0 ? seconds : target);
    *rounds = wanted < ROUNDS_MOST ? wanted > 1 ? (int)wanted : 1 : ROUNDS_MOST;
    return HR_OK;
}

static hr_status unit_measure(hr_roof_cuda *roof, const hr_module *module, const unit *unit) {
    unit_words words = {.never = roof->streams[0]};
    hr_roof_launch launch = {.blocks = 2 * (int64_t)roof->cuda->base.limits.threads,
                             .threads = UNIT_THREADS,
                             .parameters = &words};
    double seconds;
    if (!hr_roof_cuda_function(roof, module, unit->name, 0, &launch.function)) return HR_OK;
    HR_TRY(rounds_find(roof, &launch, &words.rounds, SAMPLE_SECONDS));
    HR_TRY(hr_roof_cuda_median(roof, &launch, RUNS, &seconds));
    double count = (double)launch.blocks * UNIT_THREADS * words.rounds * UNIT_STEPS * UNIT_CHAINS;
    *(double *)((char *)roof->roof + unit->field) = count * unit->operations / seconds;
    return hr_roof_cuda_advance(roof, "arithmetic", 0.05);
}

/* ---- products ---- */

typedef struct product {
    const char *name;
    size_t field;
    double k;      /* elements of k an instruction: 32 bytes of them (wgmma, and mma of 16 bytes twice) */
    unsigned keep; /* bits of each word of random operands: ordinary numbers, no NaN, near 1 */
    unsigned set;
} product;

static const product products[] = {
    {"product_bf16", offsetof(hr_roof, tensor_bf16), 16, 0x81ff81ffu, 0x3e003e00u},
    {"product_f16", offsetof(hr_roof, tensor_f16), 16, 0x87ff87ffu, 0x38003800u},
    {"product_tf32", offsetof(hr_roof, tensor_tf32), 8, 0x81ffffffu, 0x3e000000u},
    {"product_f8", offsetof(hr_roof, tensor_f8), 32, 0x8f8f8f8fu, 0x30303030u},
    {"product_i8", offsetof(hr_roof, tensor_i8), 32, 0xffffffffu, 0},
};

static hr_status operands_upload(hr_roof_cuda *roof, const product *product, hr_cu_address to) {
    const hr_cuda_driver *driver = &roof->cuda->driver;
    unsigned *words = malloc(RANDOM_WORDS * sizeof *words), state = 0x9e3779b9u;
    if (!words) return hr_fail(HR_OUT_OF_MEMORY, "no memory for random operands");
    for (int i = 0; i < RANDOM_WORDS; i++) {
        state ^= state << 13; /* xorshift32 */
        state ^= state >> 17;
        state ^= state << 5;
        words[i] = (state & product->keep) | product->set;
    }
    hr_cu_result result = driver->upload(to, words, RANDOM_WORDS * sizeof *words, roof->cuda->stream);
    if (!result) result = driver->stream_wait(roof->cuda->stream);
    free(words);
    return result ? hr_cuda_fail(driver, result, "uploading operands") : HR_OK;
}

static hr_status product_measure(hr_roof_cuda *roof, const hr_module *module, const product *product) {
    bool wgmma = roof->cuda->base.limits.compute / 10 == 9;
    tensor_words words = {.never = roof->streams[0], .random = roof->streams[1]};
    hr_roof_launch launch = {.blocks = (int64_t)roof->cuda->base.limits.threads * (wgmma ? 1 : 4),
                             .threads = 256,
                             .shared = wgmma ? WGMMA_SHARED : 0,
                             .parameters = &words};
    double seconds, warm = 0;
    if (!hr_roof_cuda_function(roof, module, product->name, launch.shared, &launch.function)) return HR_OK;
    HR_TRY(operands_upload(roof, product, words.random));
    HR_TRY(rounds_find(roof, &launch, &words.rounds, TENSOR_SECONDS));
    for (seconds = 0; warm<TENSOR_WARM; warm += seconds> 0 ? seconds : TENSOR_WARM)
        HR_TRY(hr_roof_cuda_time(roof, &launch, &seconds));
    HR_TRY(hr_roof_cuda_median(roof, &launch, 3, &seconds));
    double instructions = (double)launch.blocks * words.rounds * 8; /* a warpgroup (wgmma), a warp (mma) */
    double multiplies = wgmma ? 2 * 64 * 256 * product->k : 8 * 16 * 8 * product->k;
    *(double *)((char *)roof->roof + product->field) = instructions * multiplies * 2 / seconds;
    return hr_roof_cuda_advance(roof, "products", 0.3);
}

hr_status hr_roof_cuda_products(hr_roof_cuda *roof, const char *source) {
    hr_module *module = NULL;
    HR_TRY(hr_roof_cuda_compile(roof, (const unsigned char *)source, &module));
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof products / sizeof *products && status == HR_OK; i++)
        status = product_measure(roof, module, &products[i]);
    hr_module_cuda_unload(&roof->cuda->base, module);
    return status;
}

hr_status hr_roof_cuda_units(hr_roof_cuda *roof) {
    hr_module *module = NULL;
    hr_status status = hr_roof_cuda_compile(roof, hr_cuda_roof_units_text, &module);
    for (size_t i = 0; i < sizeof units / sizeof *units && status == HR_OK; i++)
        status = unit_measure(roof, module, &units[i]);
    hr_module_cuda_unload(&roof->cuda->base, module);
    return status;
}

/* ---- functions ---- */

#define WAYS 8

static hr_status function_measure(hr_roof_cuda *roof, const hr_module *module, int special, int way) {
    char name[40];
    unit_words words = {.never = roof->streams[0]};
    hr_roof_launch launch = {.blocks = 2 * (int64_t)roof->cuda->base.limits.threads,
                             .threads = UNIT_THREADS,
                             .parameters = &words};
    double seconds;
    snprintf(name, sizeof name, "special_%s_%d", hr_special_name((hr_special)special), way);
    if (!hr_roof_cuda_function(roof, module, name, 0, &launch.function)) return HR_OK;
    HR_TRY(rounds_find(roof, &launch, &words.rounds, SAMPLE_SECONDS));
    HR_TRY(hr_roof_cuda_median(roof, &launch, RUNS, &seconds));
    double rate = (double)launch.blocks * UNIT_THREADS * words.rounds * UNIT_STEPS * UNIT_CHAINS / seconds;
    if (rate > roof->roof->special[special]) roof->roof->special[special] = rate;
    return hr_roof_cuda_advance(roof, "functions", 0.05);
}

hr_status hr_roof_cuda_special(hr_roof_cuda *roof, const char *source) {
    hr_module *module;
    HR_TRY(hr_roof_cuda_compile(roof, (const unsigned char *)source, &module));
    hr_status status = HR_OK;
    for (int special = HR_SPECIAL_NONE + 1; special < HR_SPECIAL_COUNT && status == HR_OK; special++)
        for (int way = 0; way < WAYS && status == HR_OK; way++)
            status = function_measure(roof, module, special, way);
    hr_module_cuda_unload(&roof->cuda->base, module);
    return status;
}
