/* Source -> loaded code, through the cache folder.
 *
 * An entry is the compiled shared object, sealed with its full key (source, flags, compiler, machine,
 * version). It is read and compared before the loader sees it, because a truncated object kills the process
 * that loads it. What does not match is built again.
 *
 * In: source text. Out: a module with its function.
 */
#define _GNU_SOURCE
#include "base/cache.h"
#include "base/sealed.h"
#include "device/device_cpu.h"
#include "device/team.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define HASH_DIGITS 32

/* ---- the key ---- */

static hr_status key_make(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                          hr_text *key) {
    hr_text_format(key, "headroom %s\ncompiler %s\nmachine %s\nflags ", hr_version(),
                   device->compiler.identity, device->machine);
    hr_compiler_describe(flags, key);
    hr_text_append(key, "\n", 1);
    hr_text_append(key, source, length);
    return hr_text_status(key);
}

/* ---- building ---- */

static hr_status build_in(const hr_device_cpu *device, const char *folder, const char *source, size_t length,
                          unsigned flags, const hr_text *key, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/kernel.c", folder);
    HR_TRY(hr_sealed_payload(path, source, length));
    HR_TRY(
        hr_compiler_run(&device->compiler, flags, folder, "kernel.c", "kernel.so", device->compile_seconds));
    HR_TRY(hr_elf_object_check(folder, "kernel.so"));
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    HR_TRY(hr_sealed_close(path, key));
    return hr_cache_put(path, name);
}

static hr_status build(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                       const hr_text *key, const char *name) {
    hr_scratch scratch;
    HR_TRY(hr_cache_scratch_create(&scratch));
    hr_status status = build_in(device, scratch.path, source, length, flags, key, name);
    hr_cache_scratch_remove(&scratch);
    return status;
}

/* ---- loading ---- */

/* In a program that was linked with -static the C library loads objects, but what they need crashes in a
 * second C library. */
static hr_status need_loader(void) {
    if (hr_elf_loader()) return HR_OK;
    return hr_fail(HR_NOT_AVAILABLE, "this program was linked with -static and cannot load compiled kernels: "
                                     "link it without (libheadroom.a may stay)");
}

/* An object may be loaded twice, and run while it is given the same again. */
static void team_give(void *handle) {
    const hr_team_calls **place = dlsym(handle, HR_TEAM_NAME);
    if (place) __atomic_store_n(place, &hr_team_calls_given, __ATOMIC_RELEASE);
}

static hr_status module_open(const char *path, hr_module **out) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return hr_fail(HR_INTERNAL, "the compiled kernel cannot be loaded: %s", dlerror());
    void *part = dlsym(handle, HR_PART_NAME), *entry = dlsym(handle, HR_ENTRY_NAME);
    const int64_t *shares = dlsym(handle, HR_SHARES_NAME);
    hr_module *module = calloc(1, sizeof *module);
    const bool known = entry || (part && shares);
    if (!known || !module) {
        dlclose(handle);
        free(module);
        if (known) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while loading a kernel");
        return hr_fail(HR_INTERNAL, "the compiled kernel has no function %s or %s", HR_PART_NAME,
                       HR_ENTRY_NAME);
    }
    team_give(handle);
    module->handle = handle;
    module->shares = shares ? *shares : 0;
    memcpy(&module->part, &part, sizeof part);
    memcpy(&module->entry, &entry, sizeof entry);
    *out = module;
    return HR_OK;
}

static hr_status module_get(const hr_device_cpu *device, const char *source, size_t length, unsigned flags,
                            const hr_text *key, hr_module **out) {
    char folder[PATH_MAX - 64], hash[HASH_DIGITS + 1], name[HASH_DIGITS + 8], path[PATH_MAX];
    HR_TRY(hr_cache_folder(folder, sizeof folder));
    hr_cache_hash(key->data, key->length, hash);
    snprintf(name, sizeof name, "%s.so", hash);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (hr_sealed_matches(path, key) && module_open(path, out) == HR_OK) return HR_OK;
    HR_TRY(build(device, source, length, flags, key, name));
    return module_open(path, out);
}

/* Looked for again where there was none when the device was opened. Once found it is never written again. */
static hr_status need_compiler(hr_device_cpu *cpu) {
    pthread_mutex_lock(&cpu->finding);
    if (cpu->compiler_status != HR_OK) cpu->compiler_status = hr_compiler_find(&cpu->compiler);
    hr_status status = cpu->compiler_status;
    pthread_mutex_unlock(&cpu->finding);
    return status;
}

hr_status hr_module_cpu_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                hr_module **out) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    HR_TRY(need_loader());
    HR_TRY(need_compiler(cpu));
    hr_text key = {0};
    hr_status status = key_make(cpu, source, length, flags, &key);
    if (status == HR_OK) status = module_get(cpu, source, length, flags, &key, out);
    hr_text_clear(&key);
    return status;
}

void hr_module_cpu_unload(struct hr_device *device, hr_module *module) {
    (void)device;
    if (!module) return;
    dlclose(module->handle);
    free(module);
}
