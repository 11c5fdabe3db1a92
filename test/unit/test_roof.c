/* The roof: what holds of it on every machine, and its way into the cache folder and back. */
#include "device/device_cpu.h"
#include "device/roof_store.h"
#include "run/roof_functions.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STREAM_BYTES ((int64_t)16 << 20)

static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/headroom-roof-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    return setenv("HEADROOM_LOAD", "0", 1) || setenv("HEADROOM_CACHE", folder, 1);
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static hr_device *device_open(void) {
    hr_device *device = NULL;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    ((hr_device_cpu *)device)->roof_batches = 1;
    ((hr_device_cpu *)device)->roof_seconds = 0;
    ((hr_device_cpu *)device)->roof_stream_bytes = STREAM_BYTES;
    return device;
}

typedef struct seen {
    int calls, stop_at;
    double last, total;
} seen;

static bool progress(void *context, const char *what, double done, double total) {
    seen *s = context;
    assert_true(strlen(what) > 0);
    assert_true(done >= s->last && done <= total);
    s->last = done;
    s->total = total;
    return ++s->calls != s->stop_at;
}

/* Each rate was measured, and by its own probes: two never come out the same to the last bit. */
static void check_memory(const hr_roof *roof) {
    double rates[4 * (HR_ROOF_LEVELS + 1)] = {roof->copy, roof->read, roof->write, roof->triad};
    int count = 4;
    for (int i = 0; i < roof->cache_count; i++) {
        rates[count++] = roof->cache[i].copy;
        rates[count++] = roof->cache[i].read;
        rates[count++] = roof->cache[i].write;
        rates[count++] = roof->cache[i].triad;
    }
    for (int i = 0; i < count; i++) {
        assert_true(isfinite(rates[i]) && rates[i] > 0);
        for (int j = 0; j < i; j++)
            assert_true(rates[i] != rates[j]);
    }
}

static void test_measured(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_roof roof = {0}, again = {0}, stored = {0};
    seen s = {0};
    hr_status status = hr_device_roof(device, false, progress, &s, &roof);
    if (status != HR_OK) print_error("%s\n", hr_last_error());
    assert_int_equal(status, HR_OK);
    assert_true(s.calls > 20 && s.total > 0);
    assert_int_equal(roof.threads, device->limits.threads);
    assert_true(roof.measured_at > 1.6e9);
    assert_true(strncmp(roof.copy_way, "copy_", 5) == 0);
    assert_true(roof.copy_threads > 0 && roof.copy_threads <= roof.threads);
    assert_true(roof.cache_count >= 2);
    assert_string_equal(roof.cache[0].name, "L1");
    assert_true(roof.cache[0].bytes == (double)device->limits.l1_bytes);
    check_memory(&roof);
    const double others[] = {roof.vector_f32, roof.vector_f64, roof.vector_i32, roof.vector_i8,
                             roof.tensor_f32, roof.tensor_i8,  roof.launch};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(isfinite(others[i]) && others[i] > 0);
    assert_true(roof.vector_bf16 >= 0 && roof.vector_f16 >= 0 && roof.tensor_bf16 >= roof.vector_bf16);
    assert_true(roof.special[HR_SPECIAL_NONE] == 0);
    for (int i = HR_SPECIAL_NONE + 1; i < HR_SPECIAL_COUNT; i++)
        assert_true(isfinite(roof.special[i]) && roof.special[i] > 0);

    /* From the store: the very same, at once, without a word. */
    s = (seen){0};
    assert_int_equal(hr_device_roof(device, false, progress, &s, &again), HR_OK);
    assert_int_equal(s.calls, 0);
    assert_memory_equal(&again, &roof, sizeof roof);
    assert_int_equal(hr_roof_store_read(device, &stored), HR_OK);
    assert_memory_equal(&stored, &roof, sizeof roof);
    device->limits.threads++; /* another key */
    assert_int_equal(hr_roof_store_read(device, &stored), HR_NOT_AVAILABLE);
    hr_device_destroy(device);
}

/* The copy reads arrays where they are long, from any address, and writes nothing of them. */
static void test_copy(void **state) {
    (void)state;
    static const char *const ways[] = {"copy_past_4", "copy_past_1_6_pages", "copy_string"};
    static const int64_t lengths[] = {0, 1000, ((int64_t)16 << 20) + 63, ((int64_t)40 << 20) + 1,
                                      ((int64_t)100 << 20) + 63};
    hr_device *device = device_open();
    hr_roof roof = {.copy = 1e5, .launch = 1e-6, .copy_threads = device->limits.threads};
    double seconds = -1;
    for (int i = 0; i < 3; i++)
        for (int l = 0; l < 5; l++) {
            char *array = lengths[l] ? malloc((size_t)lengths[l]) : NULL;
            hr_execution arrays = {.pointers = (void *[]){NULL, array ? array + 1 : NULL, array},
                                   .count = 3,
                                   .scratch_bytes = i * ((int64_t)20 << 20),
                                   .bytes = (int64_t[]){0, lengths[l] ? lengths[l] - 1 : 0, lengths[l] / 2}};
            if (array) memset(array, 7, (size_t)lengths[l]);
            snprintf(roof.copy_way, sizeof roof.copy_way, "%s", ways[i]);
            for (double bytes = 64; bytes < 2e9; bytes *= 999) {
                assert_int_equal(device->ops->time_copy(device, &roof, &arrays, bytes, &seconds), HR_OK);
                assert_true(isfinite(seconds) && seconds > 0);
            }
            for (int64_t at = 0; at < lengths[l]; at += 61)
                assert_int_equal(array[at], 7);
            free(array);
        }
    hr_execution none = {0};
    roof.copy_threads = 1;
    assert_int_equal(device->ops->time_copy(device, &roof, &none, 1e6, &seconds), HR_OK);
    assert_true(seconds > 0);
    roof.copy = 1e18; /* nothing is nearly as fast: all was disturbed */
    roof.launch = 0;
    assert_int_equal(device->ops->time_copy(device, &roof, &none, 1e6, &seconds), HR_OK);
    assert_true(seconds == 0);
    assert_int_equal(device->ops->time_copy(device, &roof, &none, 0, &seconds), HR_BAD_INPUT);
    snprintf(roof.copy_way, sizeof roof.copy_way, "read_8");
    assert_int_equal(device->ops->time_copy(device, &roof, &none, 1e6, &seconds), HR_NOT_AVAILABLE);
    roof.copy_way[0] = 0;
    assert_int_equal(device->ops->time_copy(device, &roof, &none, 1e6, &seconds), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "headroom roof --again"));
    hr_device_destroy(device);
}

/* Where the copy that the roof names is the slowest of all, another takes its place, once a device. */
static void test_choose(void **state) {
    (void)state;
    hr_device *device = device_open();
    const int64_t length = (int64_t)49 << 20;
    char *array = calloc(1, (size_t)length);
    hr_execution arrays = {.pointers = (void *[]){array}, .count = 1, .bytes = (int64_t[]){length}};
    hr_roof roof = {.copy = 1e5, .launch = 1e-6, .copy_threads = 1}, named;
    double seconds = 0;
    bool chosen = true;
    assert_non_null(array);
    assert_int_equal(device->ops->choose_copy(device, &arrays, &roof, &chosen), HR_NOT_AVAILABLE);
    assert_false(chosen);
    hr_device_destroy(device);
    device = device_open();
    snprintf(roof.copy_way, sizeof roof.copy_way, "copy_past_1_6_pages");
    named = roof;
    assert_int_equal(device->ops->choose_copy(device, &arrays, &roof, &chosen), HR_OK);
    assert_true(chosen == (strcmp(roof.copy_way, named.copy_way) != 0 || roof.copy_threads > 1));
    assert_true(roof.copy_threads > 0 && roof.copy_threads <= device->limits.threads);
    assert_int_equal(strncmp(roof.copy_way, "copy_past_", 10), 0); /* others write into the caches */
    assert_int_equal(device->ops->time_copy(device, &roof, &arrays, 1e8, &seconds), HR_OK);
    assert_true(seconds > 0);
    roof = named;
    assert_int_equal(device->ops->choose_copy(device, &arrays, &roof, &chosen), HR_OK);
    assert_false(chosen);
    assert_memory_equal(&roof, &named, sizeof roof);
    for (int64_t at = 0; at < length; at += 4093)
        assert_int_equal(array[at], 0);
    free(array);
    hr_device_destroy(device);
}

/* Every function has a rate; what it is depends on what else runs. */
static void test_special_rate(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_text source = {0};
    double rate = 0;
    assert_int_equal(hr_roof_functions_source(&source), HR_OK);
    for (int special = HR_SPECIAL_NONE + 1; special < HR_SPECIAL_COUNT; special++)
        for (int again = 0; again < 2; again++) {
            assert_int_equal(device->ops->special_rate(device, source.data, (hr_special)special, &rate),
                             HR_OK);
            assert_true(isfinite(rate) && rate >= 0);
        }
    assert_int_equal(device->ops->special_rate(device, source.data, HR_SPECIAL_NONE, &rate), HR_INTERNAL);
    static const char nothing[] = "int hr_entry(const void *l, void *fault) { return l && !fault; }\n";
    hr_device *other = device_open();
    assert_int_equal(other->ops->special_rate(other, nothing, HR_SPECIAL_EXP, &rate), HR_NOT_AVAILABLE);
    hr_device_destroy(other);
    hr_text_clear(&source);
    hr_device_destroy(device);
}

/* One thread's rate and that of all bound each other. */
static void test_shortfall(void **state) {
    (void)state;
    assert_true(hr_roof_shortfall(10, 40, 4) == 0 && hr_roof_shortfall(10, 10, 4) == 0);
    assert_true(hr_roof_shortfall(10, 9, 4) == 0); /* two threads of one core */
    assert_true(fabs(hr_roof_shortfall(10, 5, 4) - 0.5) < 1e-9);
    assert_true(fabs(hr_roof_shortfall(10, 80, 4) - 0.5) < 1e-9);
    assert_true(hr_roof_shortfall(0, 80, 4) == 0 && hr_roof_shortfall(10, 0, 4) == 0);
}

static void test_stopped(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_roof roof = {.copy = 7};
    seen s = {.stop_at = 4};
    assert_int_equal(hr_device_roof(device, false, progress, &s, &roof), HR_CANCELLED);
    assert_int_equal(s.calls, 4);
    assert_true(roof.copy == 7);
    assert_int_equal(hr_roof_store_read(device, &roof), HR_NOT_AVAILABLE);
    hr_device_destroy(device);
}

static hr_roof example(void) {
    hr_roof roof = {
        .copy = 1e10 / 3, .read = 2, .write = 3, .triad = 4, .cache_count = 2, .launch = 1e-6 / 7};
    roof.cache[0].bytes = 49152;
    roof.cache[0].read = 0.1;
    roof.cache[1].triad = 1e300;
    snprintf(roof.cache[0].name, sizeof roof.cache[0].name, "L1");
    snprintf(roof.cache[1].name, sizeof roof.cache[1].name, "L2");
    roof.vector_bf16 = 5;
    roof.tensor_i8 = 6;
    roof.special[HR_SPECIAL_RANDOM] = 7.25;
    roof.link_peer = 8;
    roof.special_beside = true;
    snprintf(roof.copy_way, sizeof roof.copy_way, "copy_past_4");
    roof.copy_threads = 1;
    roof.threads = 3;
    roof.measured_at = 1.75e9;
    return roof;
}

/* The path of the one stored roof. */
static void stored_path(char *path, size_t size) {
    char command[128];
    snprintf(command, sizeof command, "ls %s/roof-*.json", folder);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    assert_non_null(fgets(path, (int)size, list));
    pclose(list);
    path[strcspn(path, "\n")] = 0;
}

static void rewrite(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_store(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_roof roof = example(), back = {0};
    char path[PATH_MAX], text[16384], spoiled[16384 + 16];
    assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "headroom roof"));
    assert_int_equal(hr_roof_store_write(device, &roof), HR_OK);
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &roof, sizeof roof);

    stored_path(path, sizeof path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    static const char *const changes[][2] = {
        {"\"format\": 5", "\"format\": 3"},
        {"\"read\": 2.0", "\"read\": -2.0"},
        {"\"write\"", "\"wrote\""},
        {"\"threads\": 3", "\"threads\": 0"},
        {"\"random\": 7.25", "\"random\": true"},
        {"\"key\": \"cpu", "\"key\": \"gpu"},
        {"\"L2\"", "2222"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *at = strstr(text, changes[i][0]);
        assert_non_null(at);
        snprintf(spoiled, sizeof spoiled, "%.*s%s%s", (int)(at - text), text, changes[i][1],
                 at + strlen(changes[i][0]));
        rewrite(path, spoiled);
        assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    }
    static const char *const texts[] = {"", "{", "[]", "null", "{\"cache\": 3}", "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rewrite(path, texts[i]);
        assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    }
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    assert_int_equal(hr_roof_store_write(device, &roof), HR_OK);
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &roof, sizeof roof);
    hr_device_destroy(device);
}

static bool copy_raise(const hr_device *device, double copy, hr_roof *roof) {
    return hr_roof_store_raise(device, &(hr_roof_seen){.copy = copy}, roof);
}

static void test_raise(void **state) {
    (void)state;
    hr_device *device = device_open();
    hr_roof roof = example(), back = {0}, was;
    assert_false(copy_raise(device, 1e11, &roof)); /* nothing is kept */
    assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    assert_int_equal(hr_roof_store_write(device, &roof), HR_OK);
    const double not_faster[] = {0, -1, 1e9, 1e10 / 3, 1.04e10 / 3, INFINITY, NAN};
    was = roof;
    for (size_t i = 0; i < sizeof not_faster / sizeof *not_faster; i++)
        assert_false(copy_raise(device, not_faster[i], &roof));
    int lock;
    assert_int_equal(hr_roof_store_lock(NULL, NULL, &lock), HR_OK);
    assert_false(copy_raise(device, 1e10, &roof)); /* somebody measures it anew */
    hr_roof_store_unlock(lock);
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &was, sizeof was);
    assert_memory_equal(&roof, &was, sizeof was);

    assert_true(copy_raise(device, 1e10, &roof));
    assert_true(roof.copy == 1e10); /* and nothing else */
    was.copy = roof.copy;
    assert_memory_equal(&was, &roof, sizeof was);
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &roof, sizeof roof);
    was.copy = example().copy;
    assert_true(copy_raise(device, 0.9e10, &was)); /* another did already, and further */
    assert_memory_equal(&was, &roof, sizeof roof);

    was = roof; /* functions alone */
    hr_roof_seen seen = {.copy = 1, .special = HR_SPECIAL_RANDOM, .special_rate = 7.3};
    assert_false(hr_roof_store_raise(device, &seen, &roof));
    seen.special_rate = 8;
    assert_true(hr_roof_store_raise(device, &seen, &roof));
    assert_true(roof.special[HR_SPECIAL_RANDOM] == 8);
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &roof, sizeof roof);
    roof.special[HR_SPECIAL_RANDOM] = 7.25;
    assert_memory_equal(&was, &roof, sizeof roof);

    seen = (hr_roof_seen){.copy_way = "copy_4", .copy_threads = 2}; /* another copy, no faster */
    assert_true(hr_roof_store_raise(device, &seen, &roof));
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_memory_equal(&back, &roof, sizeof roof);
    assert_string_equal(roof.copy_way, "copy_4");
    assert_true(roof.copy_threads == 2 && roof.copy == was.copy);

    char path[PATH_MAX];
    stored_path(path, sizeof path);
    rewrite(path, "{\"format\": 5");
    assert_false(copy_raise(device, 1e12, &roof));
    assert_int_equal(hr_roof_store_read(device, &back), HR_NOT_AVAILABLE);
    hr_device_destroy(device);
}

/* Whoever comes first, what is kept is whole, and only ever raised. */
static void test_raise_by_many(void **state) {
    (void)state;
    enum { PROCESSES = 6, TIMES = 40 };
    hr_device *device = device_open();
    hr_roof roof = example(), back = {0};
    assert_int_equal(hr_roof_store_write(device, &roof), HR_OK);
    for (int p = 0; p < PROCESSES; p++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        double copy = roof.copy, last = 0;
        for (int i = 0; i < TIMES; i++) {
            copy *= 1.01 + 0.02 * p;
            copy_raise(device, copy, &roof);
            if (hr_roof_store_read(device, &back) != HR_OK || back.copy < last) _exit(1);
            if (back.read != roof.read || back.triad != roof.triad) _exit(2);
            last = back.copy;
        }
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status = -1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(hr_roof_store_read(device, &back), HR_OK);
    assert_true(back.copy > 2 * example().copy);
    hr_device_destroy(device);
}

static bool stop(void *context, const char *what, double done, double total) {
    (void)done, (void)total;
    assert_non_null(strstr(what, "another process"));
    return ++*(int *)context < 3;
}

static void test_lock(void **state) {
    (void)state;
    int first = -1, second = -1, asked = 0;
    assert_int_equal(hr_roof_store_lock(NULL, NULL, &first), HR_OK);
    assert_int_equal(hr_roof_store_lock(stop, &asked, &second), HR_CANCELLED);
    assert_int_equal(asked, 3);
    hr_roof_store_unlock(first);
    assert_int_equal(hr_roof_store_lock(NULL, NULL, &second), HR_OK);
    hr_roof_store_unlock(second);
}

/* What `headroom roof --json` prints is read; numbers that no machine has are refused. */
static void test_load(void **state) {
    static const struct {
        const char *rest;
        bool good;
    } cases[] = {{"\"threads\": 4", true},
                 {"\"launch\": 1e-6", true},
                 {"\"threads\": -1", false},
                 {"\"threads\": 4294967297", false},
                 {"\"launch\": -1", false}};
    char device[16], path[sizeof folder + 16];
    (void)state;
    snprintf(path, sizeof path, "%s/roof.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_roof roof = {0};
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "{\"device\": {\"name\": \"a machine\"}, \"roof\": {\"memory\": {\"copy\": 1e9}, %s}}",
                cases[i].rest);
        fclose(file);
        assert_int_equal(hr_roof_load(path, &roof, device, sizeof device),
                         cases[i].good ? HR_OK : HR_BAD_INPUT);
        if (cases[i].good) assert_string_equal(device, "a machine");
        if (cases[i].good) assert_true(roof.copy == 1e9);
    }
    remove(path);
}

#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CACHE(test_measured),     WITH_CACHE(test_copy),      WITH_CACHE(test_choose),
        WITH_CACHE(test_special_rate), WITH_CACHE(test_shortfall), WITH_CACHE(test_stopped),
        WITH_CACHE(test_store),        WITH_CACHE(test_raise),     WITH_CACHE(test_raise_by_many),
        WITH_CACHE(test_lock),         WITH_CACHE(test_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
