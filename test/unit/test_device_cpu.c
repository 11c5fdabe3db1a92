/* The CPU device: memory, compiling through the cache, launching, timing, and everything that can go wrong
 * there. */
#define _GNU_SOURCE
#include "base/cache.h"
#include "device/device_cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LAUNCH_TEXT                                                                                          \
    "#include <stdint.h>\n"                                                                                  \
    "typedef struct { void *const *pointers; const double *scalars; const int64_t *extents, *strides;\n"     \
    "  void *scratch; int64_t threads; const int64_t *tuning; } launch;\n"                                   \
    "typedef struct { int64_t access, value; } fault;\n"

#define ADD_SOURCE                                                                                           \
    LAUNCH_TEXT                                                                                              \
    "const struct { void (*run)(int64_t, void (*)(void *, int64_t, int64_t), void *); } *hr_team;\n"         \
    "static void part(void *all, int64_t part, int64_t parts) {\n"                                           \
    "  const launch *l = all;\n"                                                                             \
    "  float *x = l->pointers[0];\n"                                                                         \
    "  for (int64_t i = part; i < l->extents[0]; i += parts) x[i] += (float)l->scalars[1];\n"                \
    "}\n"                                                                                                    \
    "int hr_entry(const launch *l, fault *f) {\n"                                                            \
    "  (void)f;\n"                                                                                           \
    "  hr_team->run(l->threads, part, (void *)l);\n"                                                         \
    "  return 0; }\n"

#define FAULT_SOURCE                                                                                         \
    LAUNCH_TEXT                                                                                              \
    "int hr_entry(const launch *l, fault *f) { (void)l; f->access = 3; f->value = -7; return 0; }\n"

static char folder[64];
static char *old_path;

static int cache_set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/headroom-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setenv("HEADROOM_CACHE", folder, 1);
    unsetenv("HEADROOM_CC");
    old_path = strdup(getenv("PATH"));
    return 0;
}

static int cache_tear_down(void **state) {
    (void)state;
    char command[256];
    setenv("PATH", old_path, 1);
    free(old_path);
    unsetenv("HEADROOM_CC");
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", folder, folder);
    return system(command);
}

static hr_device_cpu *device_open(void) {
    hr_device *device = NULL;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    return (hr_device_cpu *)device;
}

static hr_status compile(hr_device_cpu *cpu, const char *source, hr_module **out) {
    return cpu->base.ops->compile(&cpu->base, source, strlen(source), HR_COMPILE_VECTOR_512, out);
}

/* The number of entries whose names contain `part`; `last` gets the path of one of them. */
static int entries(const char *part, char *last, size_t size) {
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (*entry->d_name != '.' && strstr(entry->d_name, part)) {
            count++;
            if (last) snprintf(last, size, "%s/%s", folder, entry->d_name);
        }
    closedir(listing);
    return count;
}

static void add_check(hr_device_cpu *cpu, hr_module *module) {
    float x[1001];
    for (int i = 0; i < 1001; i++)
        x[i] = (float)i;
    hr_execution execution = {.pointers = (void *[]){x, NULL},
                              .scalars = (double[]){0, 2.5},
                              .extents = (int64_t[]){1001},
                              .threads = 2};
    hr_fault fault = {9, 9};
    assert_int_equal(cpu->base.ops->launch(&cpu->base, module, &execution, &fault), HR_OK);
    assert_int_equal(fault.access, 0);
    for (int i = 0; i < 1001; i++)
        assert_true(x[i] == (float)i + 2.5f);
}

static void test_open(void **state) {
    (void)state;
    hr_device *device = NULL;
    assert_int_equal(hr_device_open(NULL, &device), HR_OK); /* a GPU's where there is one */
    hr_device_destroy(device);
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    assert_string_equal(hr_device_kind(device), "cpu");
    assert_true(strlen(hr_device_name(device)) > 0);
    assert_true(device->limits.threads >= 1);
    assert_true(device->limits.l1_bytes >= 8 << 10);
    assert_true(device->limits.l2_bytes >= device->limits.l1_bytes);
    assert_true(device->limits.vector_bytes == 16 || device->limits.vector_bytes == 32 ||
                device->limits.vector_bytes == 64);
    hr_device_destroy(device);
    hr_device_destroy(NULL);
    hr_device *untouched = NULL;
    assert_int_equal(hr_device_open("tpu", &untouched), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "'tpu'"));
    assert_null(untouched);
}

static void test_allocate(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    static const size_t sizes[] = {0, 1, 63, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 33 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *data = NULL;
        assert_int_equal(cpu->base.ops->allocate(&cpu->base, sizes[i], (void **)&data), HR_OK);
        assert_int_equal((uintptr_t)data % 64, 0);
        for (size_t j = 0; j < sizes[i]; j += 4095)
            assert_int_equal(data[j], 0);
        if (sizes[i]) data[sizes[i] - 1] = 1;
        cpu->base.ops->release(&cpu->base, data, sizes[i]);
    }
    void *never = NULL;
    assert_int_equal(cpu->base.ops->allocate(&cpu->base, SIZE_MAX / 2, &never), HR_OUT_OF_MEMORY);
    assert_int_equal(cpu->base.ops->allocate(&cpu->base, SIZE_MAX, &never), HR_OUT_OF_MEMORY);
    assert_null(never);
    hr_device_destroy(&cpu->base);
}

static void test_compile_and_cache(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    add_check(cpu, module);
    cpu->base.ops->unload(&cpu->base, module);
    assert_int_equal(entries(".so", NULL, 0), 1);
    assert_int_equal(entries("scratch-", NULL, 0), 0);

    /* The second time nothing is compiled: the compiler is gone. */
    snprintf(cpu->compiler.path, sizeof cpu->compiler.path, "/nowhere/cc");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
        add_check(cpu, module);
        cpu->base.ops->unload(&cpu->base, module);
    }
    hr_device_destroy(&cpu->base);
}

static void test_fault(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    hr_fault fault = {0};
    assert_int_equal(compile(cpu, FAULT_SOURCE, &module), HR_OK);
    assert_int_equal(cpu->base.ops->launch(&cpu->base, module, &(hr_execution){.threads = 1}, &fault),
                     HR_OUT_OF_RANGE);
    assert_int_equal(fault.access, 3);
    assert_int_equal(fault.value, -7);
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
}

static void test_time_flushes_and_loses_nothing(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    int64_t count = 1 << 17, bytes[] = {count * 4 - 5, 0};
    float *x;
    assert_int_equal(cpu->base.ops->allocate(&cpu->base, (size_t)count * 4, (void **)&x), HR_OK);
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    hr_execution execution = {.pointers = (void *[]){x, NULL},
                              .scalars = (double[]){0, 1},
                              .extents = &count,
                              .threads = 1,
                              .count = 2,
                              .bytes = bytes};
    for (int i = 0; i < 20; i++) {
        double seconds = -1;
        assert_int_equal(cpu->base.ops->launch(&cpu->base, module, &execution, NULL), HR_OK);
        assert_int_equal(cpu->base.ops->time(&cpu->base, module, &execution, &seconds), HR_OK);
        assert_true(seconds > 0);
    }
    for (int64_t i = 0; i < count; i++)
        assert_true(x[i] == 40); /* one launch each, and a flush loses nothing */
    cpu->base.ops->release(&cpu->base, x, (size_t)count * 4);
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
}

static void file_put(const char *path, const char *text, mode_t mode) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static void script_put(const char *text) {
    static char path[96];
    snprintf(path, sizeof path, "%s/.compiler", folder);
    file_put(path, text, 0700);
    setenv("HEADROOM_CC", path, 1);
}

static void test_bad_source(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    assert_int_equal(compile(cpu, "int hr_entry(void) { return undeclared_thing; }\n", &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "undeclared_thing"));
    assert_null(strstr(hr_last_error(), "scratch-"));
    assert_int_equal(compile(cpu, "int other(void) { return 0; }\n", &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "hr_entry"));
    assert_int_equal(entries("scratch-", NULL, 0), 0);
    assert_null(module);
    hr_device_destroy(&cpu->base);
}

static void test_no_compiler(void **state) {
    (void)state;
    hr_module *module = NULL;
    setenv("PATH", "/nowhere::.", 1);
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_NOT_AVAILABLE);
    assert_string_equal(
        hr_last_error(),
        "no C compiler found: install one (Debian/Ubuntu: apt install gcc), or set HEADROOM_CC");
    setenv("HEADROOM_CC", "cc -O3; touch /tmp/pwned", 1);
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "HEADROOM_CC=cc -O3; touch /tmp/pwned: cc is no program"));
    hr_device_destroy(&cpu->base);
}

/* Each word behind the program is one argument of it, whatever a shell would make of it, and part of the key
 * that a compiled kernel is kept by. */
static void test_compiler_with_arguments(void **state) {
    (void)state;
    hr_module *module = NULL;
    hr_compiler plain;
    script_put("#!/bin/sh\nfor word; do echo \"<$word>\" >&2; done\nexit 1\n");
    assert_int_equal(hr_compiler_find(&plain), HR_OK);
    char given[160];
    snprintf(given, sizeof given, "  %s -g  -DX=$(touch;y) \t-O1 ", getenv("HEADROOM_CC"));
    setenv("HEADROOM_CC", given, 1);
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "<-g>\n<-DX=$(touch;y)>\n<-O1>\n<-std=gnu11>"));
    assert_string_equal(cpu->compiler.path, plain.path);
    assert_string_not_equal(cpu->compiler.identity, plain.identity);
    hr_device_destroy(&cpu->base);
}

static void test_compiler_crashes(void **state) {
    (void)state;
    hr_module *module = NULL;
    script_put("#!/bin/sh\necho about to die >&2\nkill -SEGV $$\n");
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "signal 11"));
    assert_non_null(strstr(hr_last_error(), "about to die"));
    hr_device_destroy(&cpu->base);
}

static void test_compiler_hangs(void **state) {
    (void)state;
    hr_module *module = NULL;
    char left[PATH_MAX], script[PATH_MAX + 64];
    snprintf(left, sizeof left, "%s/.waited", folder);
    snprintf(script, sizeof script, "#!/bin/sh\nsleep 100\ntouch %s\n", left);
    script_put(script);
    hr_device_cpu *cpu = device_open();
    cpu->compile_seconds = 0.2;
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_int_equal(access(left, F_OK), -1); /* nobody waited for its end */
    assert_non_null(strstr(hr_last_error(), "did not finish"));
    assert_int_equal(entries("scratch-", NULL, 0), 0);
    hr_device_destroy(&cpu->base);
}

static void test_compiler_writes_nothing(void **state) {
    (void)state;
    hr_module *module = NULL;
    script_put("#!/bin/sh\nexit 0\n");
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "without writing"));
    hr_device_destroy(&cpu->base);
}

/* What the seal is appended to must be the compiler's file itself. */
static void test_compiler_leaves_link(void **state) {
    (void)state;
    hr_module *module = NULL;
    char canary[96], script[512], read[32] = "";
    struct stat info;
    snprintf(canary, sizeof canary, "%s/.canary", folder);
    file_put(canary, "canary", 0644);
    snprintf(script, sizeof script, "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nln -s %s \"$2\"\n",
             canary);
    script_put(script);
    hr_device_cpu *cpu = device_open();
    assert_int_not_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    assert_non_null(strstr(hr_last_error(), "is a link"));
    FILE *file = fopen(canary, "r");
    assert_non_null(file);
    assert_non_null(fgets(read, sizeof read, file));
    fclose(file);
    assert_string_equal(read, "canary");
    assert_int_equal(stat(canary, &info), 0);
    assert_int_equal(info.st_size, 6);
    assert_int_equal(info.st_mode & 07777, 0644);
    assert_int_equal(entries(".so", NULL, 0), 0);
    hr_device_destroy(&cpu->base);
}

/* An object that is cut anywhere is neither sealed nor loaded: the loader would end the process. */
static void test_compiler_cuts_object(void **state) {
    (void)state;
    static const char *const kept[] = {"10", "64", "500", "4000", "$((size / 2))", "$((size - 1))"};
    hr_module *module = NULL;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char script[512];
        snprintf(script, sizeof script,
                 "#!/bin/sh\ncc \"$@\" || exit 1\nwhile [ \"$1\" != -o ]; do shift; done\n"
                 "size=$(stat -c %%s \"$2\")\ntruncate -s %s \"$2\"\n",
                 kept[i]);
        script_put(script);
        hr_device_cpu *cpu = device_open();
        assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
        assert_non_null(strstr(hr_last_error(), "the compiler left"));
        assert_int_equal(entries(".so", NULL, 0), 0);
        hr_device_destroy(&cpu->base);
    }
}

/* As long as it should be, but with other bytes where the loader looks: it crashes the loader, not this
 * process. */
static void test_compiler_spoils_object(void **state) {
    (void)state;
    hr_module *module = NULL;
    script_put("#!/bin/sh\ncc \"$@\" || exit 1\nwhile [ \"$1\" != -o ]; do shift; done\n"
               "at=$(readelf -SW \"$2\" | sed -n 's/.* \\.dynamic  *DYNAMIC  *[0-9a-f]*  *\\([0-9a-f]*\\) "
               ".*/\\1/p')\n"
               "yes | dd of=\"$2\" bs=1 seek=$((0x$at)) count=200 conv=notrunc 2>/dev/null\n");
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_non_null(strstr(hr_last_error(), "crashes the loader"));
    assert_int_equal(entries(".so", NULL, 0), 0);
    hr_device_destroy(&cpu->base);
}

/* A disk that is full where the compiler writes: on a small file system of its own, where this process may
 * make one. */
static int compile_without_room(void) {
    hr_module *module = NULL;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", folder, "tmpfs", 0, "size=8k,mode=700"))
        return 77;
    hr_device_cpu *cpu = device_open();
    hr_status status = compile(cpu, ADD_SOURCE, &module);
    bool told = strstr(hr_last_error(), "no room to compile in") && strstr(hr_last_error(), folder);
    hr_device_destroy(&cpu->base);
    return status == HR_IO && told ? 0 : 1;
}

static void test_compiler_without_room(void **state) {
    (void)state;
    int status = 0;
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) _exit(compile_without_room());
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_environment_is_clean(void **state) {
    (void)state;
    hr_module *module = NULL;
    script_put("#!/bin/sh\nenv >&2\nexit 1\n");
    setenv("CPATH", "/evil-headers", 1);
    setenv("GCC_EXEC_PREFIX", "/evil-prefix", 1);
    setenv("LD_PRELOAD_NOT", "/evil-preload", 1);
    hr_device_cpu *cpu = device_open();
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_INTERNAL);
    assert_null(strstr(hr_last_error(), "evil"));
    assert_non_null(strstr(hr_last_error(), "LC_ALL=C"));
    unsetenv("CPATH");
    unsetenv("GCC_EXEC_PREFIX");
    unsetenv("LD_PRELOAD_NOT");
    hr_device_destroy(&cpu->base);
}

/* Each way to spoil an entry: the kernel is rebuilt, nothing dies. */
static void test_corrupt_entries(void **state) {
    (void)state;
    enum { EMPTY, SHORT, FLIPPED, TEXT, FOLDER, FULL_FOLDER, FIFO, LINK, WAYS };
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    char path[PATH_MAX], inner[PATH_MAX + 8];
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    cpu->base.ops->unload(&cpu->base, module);
    assert_int_equal(entries(".so", path, sizeof path), 1);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    for (int way = 0; way < WAYS; way++) {
        if (way > TEXT) assert_int_equal(unlink(path), 0);
        snprintf(inner, sizeof inner, "%s/inner", path);
        if (way == EMPTY) assert_int_equal(truncate(path, 0), 0);
        if (way == SHORT) assert_int_equal(truncate(path, info.st_size / 3), 0);
        if (way == FLIPPED) {
            FILE *file = fopen(path, "r+");
            assert_non_null(file);
            fseek(file, 200, SEEK_SET);
            int byte = fgetc(file);
            fseek(file, 200, SEEK_SET);
            fputc(byte ^ 0x10, file);
            fclose(file);
        }
        if (way == TEXT) file_put(path, "no object at all\n", 0600);
        if (way == FOLDER || way == FULL_FOLDER) assert_int_equal(mkdir(path, 0700), 0);
        if (way == FULL_FOLDER) file_put(inner, "x", 0600);
        if (way == FIFO) assert_int_equal(mkfifo(path, 0600), 0);
        if (way == LINK) assert_int_equal(symlink("/dev/zero", path), 0);
        assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
        add_check(cpu, module);
        cpu->base.ops->unload(&cpu->base, module);
        assert_int_equal(lstat(path, &info), 0);
        assert_true(S_ISREG(info.st_mode));
    }
    hr_device_destroy(&cpu->base);
}

/* A key of the same hash but another text must not be taken: here a whole entry under a foreign name. */
static void test_foreign_entry(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    char first[PATH_MAX], command[2 * PATH_MAX + 32], second[PATH_MAX];
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    cpu->base.ops->unload(&cpu->base, module);
    entries(".so", first, sizeof first);
    snprintf(second, sizeof second, "%s/../keep-%d", folder, (int)getpid());
    assert_int_equal(rename(first, second), 0);
    assert_int_equal(compile(cpu, FAULT_SOURCE, &module), HR_OK);
    cpu->base.ops->unload(&cpu->base, module);
    entries(".so", first, sizeof first);
    snprintf(command, sizeof command, "mv %s %s", second, first);
    assert_int_equal(system(command), 0);
    hr_fault fault = {0};
    assert_int_equal(compile(cpu, FAULT_SOURCE, &module), HR_OK);
    assert_int_equal(cpu->base.ops->launch(&cpu->base, module, &(hr_execution){.threads = 1}, &fault),
                     HR_OUT_OF_RANGE);
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
}

static void test_full_disk(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){100, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    hr_status status = compile(cpu, ADD_SOURCE, &module);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, HR_IO);
    assert_non_null(strstr(hr_last_error(), "make room"));
    assert_int_equal(entries("", NULL, 0), 0);
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    add_check(cpu, module);
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
}

/* Runs in a process of its own, as another program would. */
static int build_and_check(void) {
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    if (compile(cpu, ADD_SOURCE, &module) != HR_OK) return 1;
    add_check(cpu, module);
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
    return 0;
}

static pid_t build_elsewhere(void) {
    pid_t process = fork();
    if (process == 0) {
        execl("/proc/self/exe", "test_device_cpu", "build", (char *)NULL);
        _exit(9);
    }
    return process;
}

static void build_elsewhere_wait(pid_t process) {
    int status = -1;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
}

/* A child that is forked after a launch has threads of its own, on the old device and on a new one; a hang
 * would be ended by the alarm. */
static int launch_in_child(hr_device_cpu *cpu, hr_module *module) {
    hr_device *other = NULL;
    alarm(600);
    add_check(cpu, module);
    if (hr_device_open("cpu", &other) != HR_OK) return 1;
    add_check((hr_device_cpu *)other, module);
    hr_device_destroy(other);
    return 0;
}

static void test_forked_child(void **state) {
    (void)state;
    hr_device_cpu *cpu = device_open();
    hr_module *module = NULL;
    assert_int_equal(compile(cpu, ADD_SOURCE, &module), HR_OK);
    add_check(cpu, module);
    pid_t process = fork();
    if (process == 0) _exit(launch_in_child(cpu, module));
    build_elsewhere_wait(process);
    add_check(cpu, module); /* the parent is as it was */
    cpu->base.ops->unload(&cpu->base, module);
    hr_device_destroy(&cpu->base);
}

/* The tuner compiles in several threads; each may be the first to find a compiler. */
static void *compile_in_thread(void *device) {
    hr_module *module = NULL;
    hr_device_cpu *cpu = device;
    if (compile(cpu, ADD_SOURCE, &module) != HR_OK) return NULL;
    cpu->base.ops->unload(&cpu->base, module);
    return device;
}

static void test_threads_find_compiler(void **state) {
    (void)state;
    pthread_t threads[4];
    setenv("PATH", "/nowhere", 1);
    hr_device_cpu *cpu = device_open();
    assert_int_equal(cpu->compiler_status, HR_NOT_AVAILABLE);
    setenv("PATH", old_path, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, cpu), 0);
    for (int i = 0; i < 4; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_ptr_equal(good, cpu);
    }
    assert_int_equal(cpu->compiler_status, HR_OK);
    hr_device_destroy(&cpu->base);
}

static void test_two_processes(void **state) {
    (void)state;
    pid_t processes[3];
    for (int i = 0; i < 3; i++)
        processes[i] = build_elsewhere();
    for (int i = 0; i < 3; i++)
        build_elsewhere_wait(processes[i]);
    assert_int_equal(entries(".so", NULL, 0), 1);
    assert_int_equal(entries("scratch-", NULL, 0), 0);
}

/* Killed in the middle of a compile: no entry, and who builds next removes the scratch folder. */
static void test_killed(void **state) {
    (void)state;
    char left[PATH_MAX];
    script_put("#!/bin/sh\nexec sleep 30\n");
    pid_t process = build_elsewhere();
    for (int i = 0; i < 6000 && !entries("scratch-", left, sizeof left); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
    assert_int_equal(entries("scratch-", left, sizeof left), 1);
    assert_int_equal(entries(".so", NULL, 0), 0);
    unsetenv("HEADROOM_CC");
    build_elsewhere_wait(build_elsewhere());
    assert_int_equal(entries("scratch-", NULL, 0), 0);
}

#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, cache_set_up, cache_tear_down)

/* What was measured on a core counts before what its caches would say; a core without a row has just these.
 */
static void test_core_facts(void **state) {
    (void)state;
    hr_device_limits limits = {.l1_bytes = 32 << 10, .l2_bytes = 1 << 20};
    limits.core = hr_machine_core("GenuineIntel", 6, 207);
    assert_true(hr_limits_see_far(&limits) && hr_limits_stores_wait(&limits));
    limits.l1_bytes = 48 << 10, limits.l2_bytes = 2 << 20;
    limits.core = hr_machine_core("AuthenticAMD", 25, 17);
    assert_false(hr_limits_see_far(&limits) || hr_limits_stores_wait(&limits));
    limits.core = hr_machine_core("AuthenticAMD", 26, 2);
    assert_true(hr_limits_see_far(&limits) && !hr_limits_stores_wait(&limits));
    limits.core = hr_machine_core("GenuineIntel", 6, 1);
    assert_int_equal(limits.core, 0);
    assert_true(hr_limits_see_far(&limits) && hr_limits_stores_wait(&limits));
    limits.l2_bytes = 1 << 20;
    assert_true(hr_limits_see_far(&limits) && !hr_limits_stores_wait(&limits));
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "build") == 0) return build_and_check();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core_facts),
        WITH_CACHE(test_open),
        WITH_CACHE(test_allocate),
        WITH_CACHE(test_compile_and_cache),
        WITH_CACHE(test_fault),
        WITH_CACHE(test_time_flushes_and_loses_nothing),
        WITH_CACHE(test_bad_source),
        WITH_CACHE(test_no_compiler),
        WITH_CACHE(test_compiler_with_arguments),
        WITH_CACHE(test_compiler_crashes),
        WITH_CACHE(test_compiler_hangs),
        WITH_CACHE(test_compiler_writes_nothing),
        WITH_CACHE(test_compiler_leaves_link),
        WITH_CACHE(test_compiler_cuts_object),
        WITH_CACHE(test_compiler_spoils_object),
        WITH_CACHE(test_compiler_without_room),
        WITH_CACHE(test_environment_is_clean),
        WITH_CACHE(test_corrupt_entries),
        WITH_CACHE(test_foreign_entry),
        WITH_CACHE(test_full_disk),
        WITH_CACHE(test_forked_child),
        WITH_CACHE(test_threads_find_compiler),
        WITH_CACHE(test_two_processes),
        WITH_CACHE(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
