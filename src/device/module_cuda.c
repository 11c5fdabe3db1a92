/* Source -> cubin -> loaded code, through the cache folder.
 *
 * An entry is the cubin, sealed with its full key (source, architecture, the compiler's file, version). A
 * file that does not match is compiled again; so is one that the driver refuses.
 *
 * In: CUDA C. Out: a module and, for the grids of a plan, its functions.
 */
#include "base/cache.h"
#include "base/sealed.h"
#include "device/device_cuda.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cache ---- */

static hr_status key_make(const hr_device_cuda *cuda, const char *source, size_t length, unsigned flags,
                          hr_text *key) {
    hr_text_format(key, "headroom %s\nnvrtc %s\narch %s%s\n", hr_version(), cuda->compiler.identity,
                   cuda->arch, flags & HR_COMPILE_STRICT ? " strict" : "");
    hr_text_append(key, source, length);
    return hr_text_status(key);
}

/* A cubin that cannot be kept is as good: the cache is a help, not a condition. */
static void cubin_keep(const hr_text *key, const char *name, const void *cubin, size_t size) {
    char path[PATH_MAX];
    hr_scratch scratch;
    if (hr_cache_scratch_create(&scratch) != HR_OK) return;
    snprintf(path, sizeof path, "%s/kernel.cubin", scratch.path);
    if (hr_sealed_payload(path, cubin, size) == HR_OK && hr_sealed_close(path, key) == HR_OK)
        hr_cache_put(path, name);
    hr_cache_scratch_remove(&scratch);
}

/* Of the assembler's words. */
static hr_status usage_check(const char *log) {
    const hr_cuda_usage usage = hr_cuda_usage_read(log);
    if (usage.remark)
        return hr_fail(HR_NOT_AVAILABLE, "the assembler remarks C%d: its tensor cores would wait",
                       usage.remark);
    if (usage.stores || usage.loads)
        return hr_fail(HR_NOT_AVAILABLE, "its registers spill: %d bytes are stored and %d read back",
                       usage.stores, usage.loads);
    return HR_OK;
}

static hr_status cubin_build(hr_device_cuda *cuda, const char *source, unsigned flags, const hr_text *key,
                             const char *name, void **cubin, size_t *size) {
    hr_text log = {0};
    hr_status status = hr_cuda_compiler_run(&cuda->compiler, cuda->arch, source, cubin, size, &log);
    if (status == HR_OK && flags & HR_COMPILE_STRICT) {
        status = usage_check(hr_text_data(&log));
        if (status != HR_OK) free(*cubin);
    }
    hr_text_clear(&log);
    if (status == HR_OK) cubin_keep(key, name, *cubin, *size);
    return status;
}

/* `again`: whatever the cache holds is not to be believed. */
static hr_status cubin_get(hr_device_cuda *cuda, const char *source, size_t length, unsigned flags,
                           bool again, void **cubin, size_t *size) {
    char folder[PATH_MAX - 64], hash[33], name[48], path[PATH_MAX];
    hr_text key = {0};
    HR_TRY(hr_cuda_compiler_find(&cuda->compiler, cuda->driver.version));
    hr_status status = key_make(cuda, source, length, flags, &key);
    if (status == HR_OK) status = hr_cache_folder(folder, sizeof folder);
    if (status == HR_OK) {
        hr_cache_hash(key.data, key.length, hash);
        snprintf(name, sizeof name, "%s.cubin", hash);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (again || !hr_sealed_read(path, &key, cubin, size))
            status = cubin_build(cuda, source, flags, &key, name, cubin, size);
    }
    hr_text_clear(&key);
    return status;
}

/* ---- fault words ---- */

static hr_status faults_grow(hr_device_cuda *cuda) {
    hr_cuda_faults *page = NULL;
    size_t count = (size_t)cuda->fault_count + HR_CUDA_FAULTS_A_PAGE;
    hr_fault **list = realloc(cuda->free_faults, count * sizeof *list);
    if (!list) return hr_fail(HR_OUT_OF_MEMORY, "no memory for fault words");
    cuda->free_faults = list;
    hr_cu_result result =
        cuda->driver.host_allocate((void **)&page, sizeof *page, HR_CU_HOST_PORTABLE | HR_CU_HOST_MAPPED);
    if (result) return hr_cuda_fail(&cuda->driver, result, "allocating fault words");
    memset(page, 0, sizeof *page);
    page->next = cuda->faults;
    cuda->faults = page;
    cuda->fault_count = (int)count;
    for (int i = 0; i < HR_CUDA_FAULTS_A_PAGE; i++)
        cuda->free_faults[cuda->free_fault_count++] = &page->list[i];
    return HR_OK;
}

static hr_status fault_take(hr_device_cuda *cuda, hr_fault **out) {
    pthread_mutex_lock(&cuda->lock);
    hr_status status = cuda->free_fault_count ? HR_OK : faults_grow(cuda);
    if (status == HR_OK) {
        *out = cuda->free_faults[--cuda->free_fault_count];
        **out = (hr_fault){0};
    }
    pthread_mutex_unlock(&cuda->lock);
    return status;
}

static void fault_give(hr_device_cuda *cuda, hr_fault *fault) {
    pthread_mutex_lock(&cuda->lock);
    if (fault) cuda->free_faults[cuda->free_fault_count++] = fault;
    pthread_mutex_unlock(&cuda->lock);
}

void hr_module_cuda_faults_free(hr_device_cuda *cuda) {
    while (cuda->faults) {
        hr_cuda_faults *page = cuda->faults;
        cuda->faults = page->next;
        cuda->driver.host_release(page);
    }
    free(cuda->free_faults);
    cuda->free_faults = NULL;
}

/* ---- modules ---- */

/* The cubin and its code in the driver. What the driver refuses may be a cache entry of another driver's
 * time: it is compiled again, once. */
static hr_status code_load(hr_device_cuda *cuda, const char *source, size_t length, unsigned flags,
                           hr_cu_module *out) {
    hr_cu_result result = 0;
    for (int again = 0; again < 2; again++) {
        void *cubin;
        size_t size;
        HR_TRY(cubin_get(cuda, source, length, flags, again, &cubin, &size));
        result = cuda->driver.module_load(out, cubin);
        free(cubin);
        if (!result) return HR_OK;
    }
    return hr_cuda_fail(&cuda->driver, result, "loading a kernel for %s", cuda->arch);
}

hr_status hr_module_cuda_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                 hr_module **out) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed = false;
    hr_module *module = calloc(1, sizeof *module);
    if (!module) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a module");
    hr_status status = hr_cuda_enter(cuda, &pushed);
    if (status == HR_OK) status = code_load(cuda, source, length, flags, &module->handle);
    if (status == HR_OK) status = fault_take(cuda, &module->fault);
    if (status == HR_OK)
        *out = module;
    else
        hr_module_cuda_unload(device, module);
    hr_cuda_leave(cuda, pushed);
    return status;
}

static void functions_free(hr_cuda_function *functions, int count) {
    for (int i = 0; i < count; i++)
        free(functions[i].maps);
    free(functions);
}

void hr_module_cuda_unload(struct hr_device *device, hr_module *module) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed = false;
    if (!module) return;
    if (hr_cuda_enter(cuda, &pushed) == HR_OK) {
        cuda->driver.stream_wait(cuda->stream); /* its launches may still run, and write the fault word */
        if (module->handle) cuda->driver.module_unload(module->handle);
        hr_cuda_leave(cuda, pushed);
    }
    fault_give(cuda, module->fault);
    functions_free(module->functions, 2 * module->function_count);
    free(module);
}

/* ---- functions ---- */

static hr_status maps_room(int count, hr_cuda_function *out) {
    out->map_count = count;
    if (count == 0) return HR_OK;
    size_t size = (size_t)count * sizeof *out->maps;
    out->maps = aligned_alloc(_Alignof(hr_cuda_map), size);
    if (!out->maps) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel's tensor maps");
    memset(out->maps, 0, size);
    return HR_OK;
}

hr_status hr_module_cuda_function(const hr_device_cuda *cuda, const hr_module *module, const char *name,
                                  const hr_launch *launch, int map_count, hr_cuda_function *out) {
    const hr_cuda_driver *driver = &cuda->driver;
    size_t offset;
    *out = (hr_cuda_function){0};
    hr_cu_result result = driver->module_function(&out->handle, module->handle, name);
    if (!result) result = driver->function_attribute(&out->registers, HR_CU_FUNCTION_REGISTERS, out->handle);
    if (!result)
        result = driver->function_attribute(&out->local_bytes, HR_CU_FUNCTION_LOCAL_BYTES, out->handle);
    if (!result)
        result = driver->function_attribute(&out->shared_bytes, HR_CU_FUNCTION_SHARED_BYTES, out->handle);
    if (!result && launch->shared > 0)
        result = driver->function_set(out->handle, HR_CU_FUNCTION_DYNAMIC_SHARED_MOST, (int)launch->shared);
    if (!result && launch->cluster > 8)
        result = driver->function_set(out->handle, HR_CU_FUNCTION_CLUSTER_NON_PORTABLE, 1);
    if (result) return hr_cuda_fail(driver, result, "preparing kernel %s", name);
    if (!driver->parameter_info ||
        driver->parameter_info(out->handle, (size_t)map_count, &offset, &out->parameter_bytes))
        out->parameter_bytes = 0;
    return maps_room(map_count, out);
}

static bool grid_exists(const hr_launch *launch) {
    static const int64_t most[3] = {INT_MAX, 65535, 65535};
    for (int axis = 0; axis < 3; axis++)
        if (launch->grid[axis] < 0 || launch->grid[axis] > most[axis]) return false;
    return true;
}

static hr_status maps_check(const hr_device_cuda *cuda, const hr_launch *launch) {
    if (launch->map_count == 0) return HR_OK;
    if (launch->map_count < 0 || launch->map_count > HR_LAUNCH_MAPS_MAX)
        return hr_fail(HR_INTERNAL, "kernel %s has %d tensor maps; %d are possible", launch->entry,
                       launch->map_count, HR_LAUNCH_MAPS_MAX);
    if (cuda->base.limits.compute < 90)
        return hr_fail(HR_NOT_AVAILABLE,
                       "kernel %s copies by tensor maps, which %s (%s) does not have: they begin with sm_90",
                       launch->entry, cuda->base.name, cuda->arch);
    if (!cuda->driver.tensor_map)
        return hr_fail(
            HR_NOT_AVAILABLE,
            "kernel %s copies by tensor maps, which this CUDA driver cannot make: update it to CUDA "
            "12.0 or newer",
            launch->entry);
    for (int i = 0; i < launch->map_count; i++)
        HR_TRY(hr_cuda_map_check(&launch->maps[i], launch->entry));
    return HR_OK;
}

static hr_status launch_check(const hr_device_cuda *cuda, const hr_launch *launch) {
    const hr_device_limits *limits = &cuda->base.limits;
    if (grid_exists(launch) && launch->threads > 0 && launch->threads <= 1024 && launch->cluster >= 1 &&
        launch->cluster <= limits->cluster_blocks && launch->grid[0] % launch->cluster == 0 &&
        launch->shared >= 0 && launch->shared <= limits->shared_bytes)
        return maps_check(cuda, launch);
    return hr_fail(HR_INTERNAL,
                   "kernel %s asks for %lld x %lld x %lld blocks of %d threads and %lld bytes, %d a cluster, "
                   "which %s cannot "
                   "launch",
                   launch->entry, (long long)launch->grid[0], (long long)launch->grid[1],
                   (long long)launch->grid[2], launch->threads, (long long)launch->shared, launch->cluster,
                   cuda->base.name);
}

hr_status hr_module_cuda_launches(struct hr_device *device, hr_module *module, const hr_launch *launches,
                                  int count) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    hr_cuda_function *functions = calloc(2 * (size_t)count + 1, sizeof *functions);
    if (!functions) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel's functions");
    hr_status status = hr_cuda_enter(cuda, &pushed);
    for (int i = 0; i < count && status == HR_OK; i++) {
        const hr_launch *launch = &launches[i];
        status = launch_check(cuda, launch);
        if (status == HR_OK)
            status = hr_module_cuda_function(cuda, module, launch->entry, launch, launch->map_count,
                                             &functions[i]);
        if (status == HR_OK && launch->unaligned[0])
            status =
                hr_module_cuda_function(cuda, module, launch->unaligned, launch, 0, &functions[count + i]);
    }
    hr_cuda_leave(cuda, pushed);
    if (status != HR_OK) {
        functions_free(functions, 2 * count);
        return status;
    }
    functions_free(module->functions, 2 * module->function_count);
    module->functions = functions;
    module->function_count = count;
    return HR_OK;
}
