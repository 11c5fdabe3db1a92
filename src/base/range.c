/* NVTX's side of a program. In and out as range.h says. The tool fills a table of functions, one for the
 * process: NVTX knows no other way, so the table is file-local state. */
#include "base/range.h"
#include "base/nvtx_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static nvtx_function core[NVTX_CORE_SIZE];
static nvtx_function *places[NVTX_CORE_SIZE + 1];

static int find_module(int module, nvtx_function ***table, unsigned *size) {
    if (module != NVTX_MODULE_CORE) return 0;
    *table = places;
    *size = NVTX_CORE_SIZE;
    return 1;
}

static const void *export_table(uint32_t id) {
    static const nvtx_callbacks callbacks = {sizeof callbacks, find_module};
    return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void find_tool(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(nvtx_export_table) = NULL;
    for (int i = 0; i < NVTX_CORE_SIZE; i++)
        places[i] = &core[i];
    if (library) *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    if (initialize) initialize(export_table);
}

bool hr_range_heard(void) {
    pthread_once(&once, find_tool);
    return core[NVTX_RANGE_PUSH_A] && core[NVTX_RANGE_POP];
}

void hr_range_begin(const char *name) {
    if (hr_range_heard()) ((int (*)(const char *))core[NVTX_RANGE_PUSH_A])(name);
}

void hr_range_end(void) {
    if (hr_range_heard()) ((int (*)(void))core[NVTX_RANGE_POP])();
}
