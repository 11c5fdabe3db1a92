/* Sequences on a GPU: a chain of calls whose places and sizes grow with the step, as a graph and call by
 * call, gives the same bits at every step; copies of weights from pinned memory run beside kernels.
 *
 *   gpu_sequence
 *
 * Exit code 0, 1 where something is wrong, 77 where there is no GPU.
 */
#include "headroom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LAYERS = 24,
    COLUMNS = 2048,
    STEPS = 40,
    SKIPPED = 77,
    PIECES = 8,
    ROWS = 16,
    LONG = 1 << 21,
    RUNS = 50
};

static const char text[] =
    "kernel mean(rows: f32[P, N]) -> (y: f32[N]) { y[n] = sum[p](rows[p, n]) / P }\n"
    "kernel join(x: f32[M, N], h: f32[N], y: f32[M, N], a: f32) -> (z: f32[M, N])\n"
    "{ z[m, n] = x[m, n] + a * h[n] * y[m, n] }\n"
    "kernel weigh(x: f32[M, N], w: f32[N]) -> (z: f32[M, N]) { z[m, n] = x[m, n] * w[n] }\n";

static hr_device *device;
static int wrong;

static void need(hr_status status) {
    if (status == HR_OK) return;
    fprintf(stderr, "%s\n", hr_last_error());
    exit(1);
}

static void expect(bool holds, const char *what) {
    if (holds) return;
    printf("wrong: %s\n", what);
    wrong = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float *device_floats(size_t count, unsigned seed) {
    void *data;
    float *host = malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = (float)((seed += 0x9e3779b9u) >> 8 & 0xffff) / 65536 - 0.5f;
    need(hr_device_allocate(device, count * sizeof *host, &data));
    need(hr_device_upload(device, data, host, count * sizeof *host));
    free(host);
    return data;
}

static void give_back(float *data, size_t count) {
    hr_device_release(device, data, count * sizeof *data);
}

static hr_sequence_array array(int buffer, void *data, hr_step_size rows, hr_step_size offset,
                               int64_t columns) {
    return (hr_sequence_array){.size = sizeof(hr_sequence_array),
                               .buffer = buffer,
                               .data = data,
                               .dtype = HR_F32,
                               .rank = 2,
                               .shape = {rows, {columns, 0}},
                               .offset = offset};
}

static hr_sequence_array row(int buffer, void *data, int64_t offset, int64_t columns) {
    hr_sequence_array out = array(buffer, data, (hr_step_size){columns, 0}, (hr_step_size){offset, 0}, 0);
    out.rank = 1;
    return out;
}

/* ---- a chain that grows ---- */

typedef struct chain {
    hr_kernel *norm, *mean, *join;
    float *x, *weight, *caches, *out; /* caches: of each layer, a row a step */
    double a;
} chain;

static const hr_step_size one = {1, 0}, none = {0, 0};

/* x -> the cache's row of this step = rmsnorm(x); the mean of all its rows; x + a * mean * row. */
static hr_sequence *chain_make(chain *c) {
    const hr_sequence_array scalar = {.size = sizeof scalar, .buffer = -1, .dtype = HR_F32};
    hr_sequence_array a = scalar;
    hr_sequence *sequence;
    int mean, held[2];
    a.data = &c->a;
    a.dtype = HR_F64;
    need(hr_sequence_create(device, &sequence));
    need(hr_sequence_buffer(sequence, "mean", COLUMNS * sizeof(float), &mean));
    for (int i = 0; i < 2; i++)
        need(hr_sequence_buffer(sequence, "x", COLUMNS * sizeof(float), &held[i]));
    hr_sequence_array x = array(-1, c->x, one, none, COLUMNS);
    for (int l = 0; l < LAYERS; l++) {
        float *cache = c->caches + (size_t)l * STEPS * COLUMNS;
        hr_sequence_array here = array(-1, cache, one, (hr_step_size){0, COLUMNS}, COLUMNS);
        hr_sequence_array all = array(-1, cache, (hr_step_size){1, 1}, none, COLUMNS);
        hr_sequence_array to = l + 1 < LAYERS ? array(held[l % 2], NULL, one, none, COLUMNS)
                                              : array(-1, c->out, one, none, COLUMNS);
        hr_sequence_array no_rstd = row(-1, NULL, 0, 1);
        need(hr_sequence_call(
            sequence, c->norm,
            (const hr_sequence_array[]){x, row(-1, c->weight, 0, COLUMNS), scalar, here, no_rstd}, 5));
        need(hr_sequence_call(sequence, c->mean,
                              (const hr_sequence_array[]){all, row(mean, NULL, 0, COLUMNS)}, 2));
        need(hr_sequence_call(sequence, c->join,
                              (const hr_sequence_array[]){x, row(mean, NULL, 0, COLUMNS), here, a, to}, 5));
        x = to;
    }
    return sequence;
}

static void kernels_load(chain *c, const char *norm_path) {
    need(hr_kernel_load_file(device, norm_path, "rmsnorm", &c->norm));
    need(hr_kernel_load(device, "gpu_sequence.hr", text, sizeof text - 1, "mean", &c->mean));
    need(hr_kernel_load(device, "gpu_sequence.hr", text, sizeof text - 1, "join", &c->join));
}

/* The same calls, each by hr_kernel_execute. */
static void chain_execute(chain *c, int step, float *mean, float *held[2]) {
    const int64_t line[] = {COLUMNS}, here_shape[] = {1, COLUMNS}, all_shape[] = {step + 1, COLUMNS};
    const hr_array scalar = {sizeof scalar, NULL, HR_F32, 0, NULL, NULL};
    const hr_array a = {sizeof a, &c->a, HR_F64, 0, NULL, NULL};
    float *x = c->x;
    for (int l = 0; l < LAYERS; l++) {
        float *cache = c->caches + (size_t)l * STEPS * COLUMNS, *to = l + 1 < LAYERS ? held[l % 2] : c->out;
        const hr_array in = {sizeof in, x, HR_F32, 2, here_shape, NULL};
        const hr_array here = {sizeof here, cache + (size_t)step * COLUMNS, HR_F32, 2, here_shape, NULL};
        const hr_array all = {sizeof all, cache, HR_F32, 2, all_shape, NULL};
        const hr_array weight = {sizeof weight, c->weight, HR_F32, 1, line, NULL};
        const hr_array middle = {sizeof middle, mean, HR_F32, 1, line, NULL};
        const hr_array out = {sizeof out, to, HR_F32, 2, here_shape, NULL};
        const hr_array no_rstd = {sizeof no_rstd, NULL, HR_F32, 1, line, NULL};
        need(hr_kernel_execute(c->norm, (const hr_array[]){in, weight, scalar, here, no_rstd}, 5, NULL));
        need(hr_kernel_execute(c->mean, (const hr_array[]){all, middle}, 2, NULL));
        need(hr_kernel_execute(c->join, (const hr_array[]){in, middle, here, a, out}, 5, NULL));
        x = to;
    }
}

static bool same_on_device(const float *first, const float *second, size_t count) {
    float *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
    need(hr_device_download(device, a, first, count * sizeof *a));
    need(hr_device_download(device, b, second, count * sizeof *b));
    bool same = memcmp(a, b, count * sizeof *a) == 0;
    free(a);
    free(b);
    return same;
}

/* Seconds of a launch, of many that nobody waits for. */
static double launches_time(hr_sequence *sequence, double *host) {
    need(hr_device_synchronise(device));
    const double begun = now();
    for (int i = 0; i < RUNS; i++)
        need(hr_sequence_launch(sequence, STEPS - 1));
    *host = (now() - begun) / RUNS;
    need(hr_device_synchronise(device));
    return (now() - begun) / RUNS;
}

static double executions_time(chain *c, float *mean, float *held[2], double *host) {
    need(hr_device_synchronise(device));
    const double begun = now();
    for (int i = 0; i < RUNS; i++)
        chain_execute(c, STEPS - 1, mean, held);
    *host = (now() - begun) / RUNS;
    need(hr_device_synchronise(device));
    return (now() - begun) / RUNS;
}

static void times_print(const hr_sequence *sequence, const char *what) {
    hr_sequence_info info;
    need(hr_sequence_info_get(sequence, &info));
    printf("%s: whole %.1f us, calls one by one %.1f us; %lld captures, %lld patches, %lld replays%s%s\n",
           what, 1e6 * info.seconds, 1e6 * info.calls_seconds, (long long)info.captures,
           (long long)info.patches, (long long)info.replays, info.refusal[0] ? "; refused: " : "",
           info.refusal);
}

static void chain_run(const char *norm_path) {
    const size_t cached = (size_t)LAYERS * STEPS * COLUMNS;
    chain c = {.a = 0.5}, other;
    hr_sequence_info info;
    double host, plain_host, patch = 0;
    kernels_load(&c, norm_path);
    c.x = device_floats(COLUMNS, 1);
    c.weight = device_floats(COLUMNS, 2);
    c.caches = device_floats(cached, 3);
    c.out = device_floats(COLUMNS, 4);
    other = c;
    other.caches = device_floats(cached, 5);
    other.out = device_floats(COLUMNS, 6);
    float *mean = device_floats(COLUMNS, 7), *held[] = {device_floats(COLUMNS, 8), device_floats(COLUMNS, 9)};
    hr_sequence *sequence = chain_make(&c);
    for (int step = 0; step < STEPS; step++) {
        c.a = other.a = 0.5 + step; /* read at each launch */
        need(hr_sequence_launch(sequence, step));
        const double begun = now();
        if (step + 1 < STEPS) need(hr_sequence_prepare(sequence, step + 1)); /* while it runs */
        if (step + 1 < STEPS && step > 33) patch += (now() - begun) / (STEPS - 35);
        chain_execute(&other, step, mean, held);
        need(hr_device_synchronise(device));
        expect(same_on_device(c.out, other.out, COLUMNS), "a step of the graph");
    }
    for (int l = 0; l < LAYERS; l++)
        expect(same_on_device(c.caches + (size_t)l * STEPS * COLUMNS,
                              other.caches + (size_t)l * STEPS * COLUMNS, (size_t)STEPS * COLUMNS),
               "what the steps wrote");
    need(hr_sequence_info_get(sequence, &info));
    expect(info.replays >= STEPS - 2 && info.captures >= 1, "the steps are launched as a graph");
    expect(info.patches > 0 && info.refusal[0] == '\0', "the graph is patched");
    hr_sequence_times_clear(sequence);
    for (int i = 0; i < 5; i++) {
        need(hr_sequence_launch_timed(sequence, STEPS - 1, HR_TIMING_WHOLE));
        need(hr_sequence_launch_timed(sequence, STEPS - 1, HR_TIMING_CALLS));
    }
    times_print(sequence, "72 calls");
    const double replayed = launches_time(sequence, &host);
    const double executed = executions_time(&other, mean, held, &plain_host);
    printf(
        "a step: %.1f us replayed (host %.1f), %.1f us call by call (host %.1f); patching all kernels %.1f "
        "us\n",
        1e6 * replayed, 1e6 * host, 1e6 * executed, 1e6 * plain_host, 1e6 * patch);
    hr_sequence_destroy(sequence);
    float *const all[] = {c.x, c.weight, c.out, other.out, mean, held[0], held[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give_back(all[i], COLUMNS);
    give_back(c.caches, cached);
    give_back(other.caches, cached);
    hr_kernel_destroy(c.norm);
    hr_kernel_destroy(c.mean);
    hr_kernel_destroy(c.join);
}

/* ---- a token of a model of 1.95 GB: its products and norms ---- */

enum { BLOCKS = 16, WIDTH = 2048, WIDER = 8192, QKV = 3072 };

typedef struct products {
    hr_kernel *norm, *line;
    uint16_t *weights, *scale, *x, *out; /* weights of all layers, one behind the other */
} products;

static uint16_t *device_halves(size_t count) {
    void *data;
    uint16_t *host = malloc(count * sizeof *host);
    unsigned seed = 1;
    for (size_t i = 0; i < count; i++, seed = seed * 1664525u + 1013904223u)
        host[i] = (uint16_t)(0x3c00 | (seed >> 16 & 0x807f)); /* +-0.008 to 0.016 */
    need(hr_device_allocate(device, count * sizeof *host, &data));
    need(hr_device_upload(device, data, host, count * sizeof *host));
    free(host);
    return data;
}

static hr_sequence_array halves(int buffer, void *data, int64_t rows, int64_t columns) {
    hr_sequence_array out = array(buffer, data, (hr_step_size){rows, 0}, none, columns);
    out.dtype = HR_BF16;
    return out;
}

static void line_add(hr_sequence *sequence, const products *p, hr_sequence_array x, uint16_t **weights,
                     int64_t n, int64_t k, hr_sequence_array y) {
    need(hr_sequence_call(sequence, p->line, (const hr_sequence_array[]){x, halves(-1, *weights, n, k), y},
                          3));
    *weights += n * k;
}

static void norm_add(hr_sequence *sequence, const products *p, hr_sequence_array x, hr_sequence_array y) {
    const hr_sequence_array scalar = {.size = sizeof scalar, .buffer = -1, .dtype = HR_F32};
    hr_sequence_array scale = halves(-1, p->scale, 1, WIDTH), no_rstd = row(-1, NULL, 0, 1);
    scale.rank = 1;
    scale.shape[0] = scale.shape[1];
    need(hr_sequence_call(sequence, p->norm, (const hr_sequence_array[]){x, scale, scalar, y, no_rstd}, 5));
}

static hr_sequence *products_make(products *p) {
    hr_sequence *sequence;
    int h, qkv, x, wide;
    uint16_t *weights = p->weights;
    need(hr_sequence_create(device, &sequence));
    need(hr_sequence_buffer(sequence, "h", WIDTH * 2, &h));
    need(hr_sequence_buffer(sequence, "qkv", QKV * 2, &qkv));
    need(hr_sequence_buffer(sequence, "x", WIDTH * 2, &x));
    need(hr_sequence_buffer(sequence, "wide", 2 * WIDER * 2, &wide));
    for (int l = 0; l < BLOCKS; l++) {
        norm_add(sequence, p, l ? halves(x, NULL, 1, WIDTH) : halves(-1, p->x, 1, WIDTH),
                 halves(h, NULL, 1, WIDTH));
        line_add(sequence, p, halves(h, NULL, 1, WIDTH), &weights, QKV, WIDTH, halves(qkv, NULL, 1, QKV));
        line_add(sequence, p, halves(qkv, NULL, 1, WIDTH), &weights, WIDTH, WIDTH, halves(x, NULL, 1, WIDTH));
        norm_add(sequence, p, halves(x, NULL, 1, WIDTH), halves(h, NULL, 1, WIDTH));
        line_add(sequence, p, halves(h, NULL, 1, WIDTH), &weights, 2 * WIDER, WIDTH,
                 halves(wide, NULL, 1, 2 * WIDER));
        line_add(sequence, p, halves(wide, NULL, 1, WIDER), &weights, WIDTH, WIDER,
                 l + 1 < BLOCKS ? halves(x, NULL, 1, WIDTH) : halves(-1, p->out, 1, WIDTH));
    }
    return sequence;
}

static void products_time(hr_sequence *sequence, const char *what) {
    hr_sequence_times_clear(sequence);
    for (int i = 0; i < 3; i++)
        need(hr_sequence_launch(sequence, 0));
    for (int i = 0; i < 9; i++)
        need(hr_sequence_launch_timed(sequence, 0, HR_TIMING_WHOLE));
    for (int i = 0; i < 3; i++)
        need(hr_sequence_launch_timed(sequence, 0, HR_TIMING_CALLS));
    times_print(sequence, what);
}

static void products_run(const char *norm_path) {
    const size_t layer = (size_t)(QKV + WIDTH + 2 * WIDER + WIDER) * WIDTH;
    products p;
    hr_check check;
    static const char line[] = "kernel line(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N])\n"
                               "{ y[m, n] = sum[k](x[m, k] * w[n, k]) }\n";
    need(hr_kernel_load_file(device, norm_path, "rmsnorm", &p.norm));
    need(hr_kernel_load(device, "gpu_sequence.hr", line, sizeof line - 1, "line", &p.line));
    p.weights = device_halves(BLOCKS * layer);
    p.scale = device_halves(WIDTH);
    p.x = device_halves(WIDTH);
    p.out = device_halves(WIDTH);
    hr_sequence *sequence = products_make(&p);
    need(hr_sequence_check(sequence, 0, 16, &check));
    expect(check.ok, check.where);
    products_time(sequence, "64 products of 1.95 GB, 32 norms");
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(p.norm);
    hr_kernel_destroy(p.line);
    hr_device_release(device, p.weights, BLOCKS * layer * 2);
    hr_device_release(device, p.scale, WIDTH * 2);
    hr_device_release(device, p.x, WIDTH * 2);
    hr_device_release(device, p.out, WIDTH * 2);
}

/* ---- weights that are loaded beside kernels ---- */

static void copies_run(void) {
    const size_t elements = (size_t)ROWS * LONG, bytes = (size_t)LONG * sizeof(float);
    float *x = device_floats(elements, 11), *out = device_floats(elements, 12), *expected;
    hr_kernel *weigh;
    hr_sequence *sequence;
    hr_sequence_info info;
    void *pinned;
    int weights[PIECES], held[2];
    need(hr_kernel_load(device, "gpu_sequence.hr", text, sizeof text - 1, "weigh", &weigh));
    need(hr_device_allocate_pinned(device, PIECES * bytes, &pinned));
    float *host = pinned;
    for (size_t i = 0; i < PIECES * (size_t)LONG; i++)
        host[i] = 1 + (float)(i % 3) / 4;
    need(hr_sequence_create(device, &sequence));
    for (int l = 0; l < PIECES; l++)
        need(hr_sequence_buffer(sequence, "weights", bytes, &weights[l]));
    for (int i = 0; i < 2; i++)
        need(hr_sequence_buffer(sequence, "x", elements * sizeof(float), &held[i]));
    const hr_step_size rows = {ROWS, 0};
    hr_sequence_array last = array(-1, x, rows, none, LONG);
    for (int l = 0; l <= PIECES; l++) {
        const hr_sequence_array from = row(-1, host, (int64_t)l * LONG, LONG);
        if (l < PIECES) {
            const hr_sequence_array to = row(weights[l], NULL, 0, LONG);
            need(hr_sequence_copy(sequence, &to, &from));
        }
        if (l == 0) continue;
        hr_sequence_array to =
            l == PIECES ? array(-1, out, rows, none, LONG) : array(held[l % 2], NULL, rows, none, LONG);
        need(hr_sequence_call(sequence, weigh,
                              (const hr_sequence_array[]){last, row(weights[l - 1], NULL, 0, LONG), to}, 3));
        last = to;
    }
    for (int i = 0; i < 4; i++) {
        need(hr_sequence_launch(sequence, 0));
        need(hr_device_synchronise(device));
    }
    expected = malloc(elements * sizeof *expected);
    float *got = malloc(elements * sizeof *got);
    need(hr_device_download(device, expected, x, elements * sizeof *expected));
    need(hr_device_download(device, got, out, elements * sizeof *got));
    for (int l = 0; l < PIECES; l++)
        for (size_t i = 0; i < elements; i++)
            expected[i] *= host[(size_t)l * LONG + i % LONG];
    expect(memcmp(expected, got, elements * sizeof *got) == 0, "weights that were copied beside kernels");
    hr_sequence_times_clear(sequence);
    for (int i = 0; i < 5; i++) {
        need(hr_sequence_launch_timed(sequence, 0, HR_TIMING_WHOLE));
        need(hr_sequence_launch_timed(sequence, 0, HR_TIMING_CALLS));
    }
    need(hr_sequence_info_get(sequence, &info));
    times_print(sequence, "8 pieces of weights, 8 calls");
    for (int i = 0; i < 2; i++) {
        hr_call_info call;
        need(hr_sequence_call_info(sequence, 1 + i, NULL, &call));
        printf("  %s: %.1f us, %.1f GB/s\n", call.kernel, 1e6 * call.seconds / (double)call.launches,
               1e-9 * call.bytes * (double)call.launches / call.seconds);
    }
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(weigh);
    hr_device_release_pinned(device, pinned, PIECES * bytes);
    give_back(x, elements);
    give_back(out, elements);
    free(expected);
    free(got);
}

int main(int count, char **words) {
    const char *norm_path = count > 1 ? words[1] : HR_SOURCE_DIR "/kernels/rmsnorm.hr";
    if (hr_device_open("cuda", &device) != HR_OK) {
        printf("skipped: %s\n", hr_last_error());
        return SKIPPED;
    }
    chain_run(norm_path);
    copies_run();
    products_run(norm_path);
    hr_device_destroy(device);
    printf("%s\n", wrong ? "sequences are wrong" : "sequences: the same bits at each step");
    return wrong;
}
