/* Opens the CUDA device over the fake driver (test/fake/), with a cache folder of the test's own. */
#ifndef TEST_SUPPORT_FAKE_DEVICE_H
#define TEST_SUPPORT_FAKE_DEVICE_H

#include "fake/fake_cuda.h"

#include "device/device_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static fake_cuda_t *fake, fake_before;
static char fake_folder[64];

static int fake_set_up(void **state) {
    (void)state;
    void *library = dlopen(HR_FAKE_CUDA, RTLD_NOW);
    if (!library) return -1;
    fake = (fake_cuda_t *)dlsym(library, "fake_cuda");
    if (!fake) return -1;
    fake_before = *fake;
    snprintf(fake_folder, sizeof fake_folder, "/tmp/headroom-test-XXXXXX");
    if (!mkdtemp(fake_folder)) return -1;
    setenv("HEADROOM_CACHE", fake_folder, 1);
    setenv("HEADROOM_LIBCUDA", HR_FAKE_CUDA, 1);
    setenv("HEADROOM_NVRTC", HR_FAKE_CUDA, 1);
    return 0;
}

static int fake_tear_down(void **state) {
    (void)state;
    char command[128];
    *fake = fake_before;
    unsetenv("HEADROOM_LIBCUDA");
    unsetenv("HEADROOM_NVRTC");
    snprintf(command, sizeof command, "rm -rf %s", fake_folder);
    return system(command);
}

/* Nothing of the driver's is left. */
static int fake_living(void) {
    return fake->allocations + fake->host_allocations + fake->modules + fake->streams + fake->events +
           fake->graphs + fake->contexts + fake->pushed;
}

#endif
