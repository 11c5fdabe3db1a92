/* Emitted CUDA source to a shared object of the host's C++ compiler, kept by hash. */
#define _GNU_SOURCE
#include "support/cuda_emulation_parts.h"

#include "base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

/* Accesses stay as wide as they were written: nothing is merged, split or found again. The hooks of the
 * thread sanitizer are called before each. */
static const char *const flags[] = {"-std=c++17",
                                    "-O1",
                                    "-fPIC",
                                    "-w",
                                    "-fsanitize=thread",
                                    "--param",
                                    "tsan-instrument-func-entry-exit=0",
                                    "-fno-tree-sra",
                                    "-fno-tree-fre",
                                    "-fno-tree-pre",
                                    "-fno-store-merging",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-ffp-contract=off",
                                    "-fno-strict-aliasing",
                                    "-nostdlib",
                                    "-fno-builtin-memcpy",
                                    "-DHR_EMULATED",
                                    "-D__CUDACC_RTC__",
                                    "-I" HR_SOURCE_DIR "/test"};
enum { FLAGS = sizeof flags / sizeof *flags };

static const char *compiler(void) {
    const char *given = getenv("HEADROOM_CXX");
    return given && *given ? given : "g++";
}

/* ---- compiling ---- */

static hr_status run(char *const *arguments, const char *log) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int error = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return hr_fail(HR_NOT_AVAILABLE, "%s cannot be run: %s", arguments[0], strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return HR_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return hr_fail(HR_NOT_AVAILABLE, "there is no C++ compiler %s", arguments[0]);
    char text[2048] = "";
    FILE *file = fopen(log, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    return hr_fail(HR_INTERNAL, "the emitted CUDA does not compile: %s", text);
}

static hr_status compile(const char *source, const char *object, const char *const *more, int more_count) {
    char log[600];
    const char *arguments[FLAGS + 12];
    int count = 0;
    snprintf(log, sizeof log, "%s.log", object);
    arguments[count++] = compiler();
    for (int i = 0; i < FLAGS; i++)
        arguments[count++] = flags[i];
    for (int i = 0; i < more_count; i++)
        arguments[count++] = more[i];
    arguments[count++] = "-o";
    arguments[count++] = object;
    arguments[count++] = source;
    arguments[count] = NULL;
    hr_status status = run((char *const *)(uintptr_t)arguments, log);
    if (status == HR_OK) unlink(log);
    return status;
}

/* The folder of objects, beside the program or the library that this is a part of. */
static hr_status folder_make(char *out, size_t size) {
    char self[PATH_MAX] = "";
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)&flags, &info) || !realpath(info.dli_fname, self)) {
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        self[length < 0 ? 0 : length] = 0;
    }
    char *slash = strrchr(self, '/');
    if (!slash) return hr_fail(HR_IO, "the running program has no folder");
    *slash = 0;
    snprintf(out, size, "%s/cuda_objects", self);
    if (mkdir(out, 0777) != 0 && errno != EEXIST) return hr_fail(HR_IO, "%s: %s", out, strerror(errno));
    return HR_OK;
}

/* Read in front of each source. */
static const char *const headers[] = {HR_SOURCE_DIR "/test/support/cuda_emulated.h",
                                      HR_SOURCE_DIR "/test/support/cuda_emulated_ptx.h",
                                      HR_SOURCE_DIR "/test/support/cuda_emulation_tensor.h"};

static hr_status header_read(const char *path, hr_text *out) {
    FILE *file = fopen(path, "r");
    char part[4096];
    if (!file) return hr_fail(HR_IO, "%s: %s", path, strerror(errno));
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        hr_text_append(out, part, got);
    fclose(file);
    return HR_OK;
}

/* Folder and hash of all that is made of the text: compiler, flags, headers. */
static hr_status object_name(const char *text, char *out, size_t size) {
    char folder[440];
    hr_text all = {0};
    HR_TRY(folder_make(folder, sizeof folder));
    hr_status status = HR_OK;
    hr_text_format(&all, "%s\n", compiler());
    for (size_t i = 0; i < sizeof headers / sizeof *headers && status == HR_OK; i++)
        status = header_read(headers[i], &all);
    for (int i = 0; i < FLAGS; i++)
        hr_text_format(&all, "%s ", flags[i]);
    hr_text_append(&all, text, strlen(text));
    if (status == HR_OK) status = hr_text_status(&all);
    if (status == HR_OK)
        snprintf(out, size, "%s/%016llx", folder, (unsigned long long)XXH3_64bits(all.data, all.length));
    hr_text_clear(&all);
    return status;
}

static hr_status file_write(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return hr_fail(HR_IO, "%s: %s", path, strerror(errno));
    fputs(text, file);
    fclose(file);
    return HR_OK;
}

/* What the compiler makes of NAME.INPUT, moved to `path` when it is whole: another test may make it, too. */
static hr_status object_build(const char *text, const char *name, const char *input_name,
                              const char *const *more, int more_count, const char *path) {
    char input[500], made[560];
    snprintf(input, sizeof input, "%s.%d.%s", name, (int)getpid(), input_name);
    snprintf(made, sizeof made, "%s.made", input);
    HR_TRY(file_write(input, text));
    hr_status status = compile(input, made, more, more_count);
    if (status == HR_OK && rename(made, path) != 0) status = hr_fail(HR_IO, "%s: %s", path, strerror(errno));
    if (status == HR_OK) unlink(input);
    return status;
}

/* The headers compiled once: to read them takes the compiler as long as to compile a kernel. NAME.h, where
 * the compiler looks for NAME.h.gch first. */
static hr_status headers_compile(char *out, size_t size) {
    static const char *const header[] = {"-x", "c++-header"};
    static const char text[] = "#include \"support/cuda_emulated.h\"\n";
    char name[480], path[500];
    HR_TRY(object_name(text, name, sizeof name));
    snprintf(out, size, "%s.h", name);
    snprintf(path, sizeof path, "%s.h.gch", name);
    if (access(path, R_OK) == 0) return HR_OK;
    HR_TRY(file_write(out, text));
    return object_build(text, name, "hpp", header, 2, path);
}

static hr_status kernel_compile(const char *source, const char *name, const char *path) {
    char header[500];
    HR_TRY(headers_compile(header, sizeof header));
    const char *const shared[] = {"-shared", "-include", header};
    return object_build(source, name, "cpp", shared, 3, path);
}

/* ---- loading ---- */

static int note_range(struct dl_phdr_info *info, size_t size, void *context) {
    cuda_object *object = context;
    struct link_map *map;
    (void)size;
    if (dlinfo(object->handle, RTLD_DI_LINKMAP, &map) != 0 || info->dlpi_addr != map->l_addr) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        char *low = (char *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type != PT_LOAD) continue;
        if (!object->low || low < object->low) object->low = low;
        if (low + segment->p_memsz > object->high) object->high = low + segment->p_memsz;
    }
    return 1;
}

static hr_status object_load(const char *path, const char *const *entries, int count, cuda_object *object) {
    object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object->handle) return hr_fail(HR_INTERNAL, "%s", dlerror());
    dl_iterate_phdr(note_range, object);
    char **first = dlsym(object->handle, "emulated_shared_first"),
         **end = dlsym(object->handle, "emulated_shared_end");
    object->shared = first ? *first : NULL;
    object->shared_bytes = first && *first && end ? (size_t)(*end - *first) : 0;
    for (; object->count < count; object->count++) {
        char name[96];
        snprintf(object->names[object->count], sizeof object->names[0], "%s", entries[object->count]);
        snprintf(name, sizeof name, "emulated_call_%s", entries[object->count]);
        *(void **)&object->calls[object->count] = dlsym(object->handle, name);
        if (!object->calls[object->count]) return hr_fail(HR_INTERNAL, "%s: no function %s", path, name);
    }
    return object->shared_bytes > STATIC_BYTES
               ? hr_fail(HR_INTERNAL, "%s: too much static shared memory", path)
               : HR_OK;
}

/* The source, and how its entries and its static shared variables are found. */
static hr_status source_complete(const char *source, const char *const *entries, int count, hr_text *out) {
    hr_text_format(out, "%s\n", source);
    hr_text_format(out,
                   "extern \"C\" { extern char __bss_start[] __attribute__((visibility(\"hidden\"))), _end[] "
                   "__attribute__((visibility(\"hidden\")));\n"
                   "char *emulated_shared_first = __bss_start, *emulated_shared_end = _end; }\n");
    for (int i = 0; i < count; i++)
        hr_text_format(out,
                       "extern \"C\" void emulated_call_%s(const void *const *parameters) { "
                       "emulated_call(%s, parameters); }\n",
                       entries[i], entries[i]);
    return hr_text_status(out);
}

hr_status cuda_object_compile(const char *source, const char *const *entries, int count, cuda_object **out) {
    hr_text text = {0};
    char name[480], path[500];
    cuda_object *object = calloc(1, sizeof *object);
    if (!object || count > CUDA_ENTRIES_MAX)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for an object, or too many entries");
    hr_status status = source_complete(source, entries, count, &text);
    if (status == HR_OK) status = object_name(text.data, name, sizeof name);
    if (status == HR_OK) {
        snprintf(path, sizeof path, "%s.so", name);
        if (access(path, R_OK) != 0) status = kernel_compile(text.data, name, path);
    }
    if (status == HR_OK) status = object_load(path, entries, count, object);
    hr_text_clear(&text);
    if (status == HR_OK)
        *out = object;
    else
        cuda_object_destroy(object);
    return status;
}

void cuda_object_destroy(cuda_object *object) {
    if (!object) return;
    if (object->handle) dlclose(object->handle);
    free(object);
}
