/* A program to record, without CUDA: it does what the driver and NVTX do when they start, and plays its part
 * on the fake CUPTI.
 *
 * in:  recorded_program WORD...   out: what each word says, in this order
 *   cuda          starts the driver: loads CUDA_INJECTION64_PATH
 *   step N        N steps: a range "step i" of 10 launches and a copy
 *   stream        makes a stream: from now on events matter
 *   events        an event from stream to stream, a wait
 *   threads N     N threads of 100 ranges and launches each
 *   flood N       N launches with names of their own
 *   sleep S       seconds
 *   crash, kill   SIGSEGV, SIGKILL
 *   fork          a child that makes ranges and exits; waits for it
 *   spawn WORD... a child that becomes this program again, with one word; waits for it
 *   end N         exit: handlers run
 *   exit N        _exit: none does
 * Where it has no memory for a library or a thread it says so and ends with 3: a real driver goes on without
 * the recorder and tells nobody.
 */
#include "base/nvtx_abi.h"
#include "support/fake_cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static fake_launch_function launch;
static fake_copy_function copy;
static fake_events_function events;
static fake_stream_function make_stream;

/* ---- NVTX, as a program carries it ---- */

static nvtx_function core[NVTX_CORE_SIZE], core2[NVTX_CORE2_SIZE];
static nvtx_function *core_places[NVTX_CORE_SIZE + 1], *core2_places[NVTX_CORE2_SIZE + 1];

static int find_module(int module, nvtx_function ***table, unsigned *size) {
    if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2) return 0;
    *table = module == NVTX_MODULE_CORE ? core_places : core2_places;
    *size = NVTX_CORE_SIZE;
    return 1;
}

static const void *export_table(uint32_t id) {
    static const nvtx_callbacks callbacks = {sizeof callbacks, find_module};
    return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void stop(const char *why) {
    fprintf(stderr, "recorded_program: %s\n", why);
    exit(3);
}

static void *open_library(const char *path) {
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (path && !library) stop(dlerror());
    return library;
}

static void start_nvtx(void) {
    void *library = open_library(getenv("NVTX_INJECTION64_PATH"));
    int (*initialize)(nvtx_export_table) = NULL;
    for (int i = 0; i < NVTX_CORE_SIZE; i++) {
        core_places[i] = &core[i];
        core2_places[i] = &core2[i];
    }
    if (library) *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    if (initialize) initialize(export_table);
}

static void push(const char *name) {
    if (core[NVTX_RANGE_PUSH_A]) ((int (*)(const char *))core[NVTX_RANGE_PUSH_A])(name);
}

static void pop(void) {
    if (core[NVTX_RANGE_POP]) ((int (*)(void))core[NVTX_RANGE_POP])();
}

/* ---- the parts ---- */

static void start_cuda(void) {
    void *cupti = open_library(getenv("HEADROOM_CUPTI"));
    if (!cupti) exit(9);
    *(void **)&launch = dlsym(cupti, "fake_launch");
    *(void **)&copy = dlsym(cupti, "fake_copy");
    *(void **)&events = dlsym(cupti, "fake_events");
    *(void **)&make_stream = dlsym(cupti, "fake_stream");
    void *library = open_library(getenv("CUDA_INJECTION64_PATH"));
    int (*initialize)(void) = NULL;
    if (library) *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize && initialize() != 1) exit(9);
}

static void run_steps(int count) {
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", i);
        push(name);
        for (int k = 0; launch && k < 10; k++)
            launch("_Z3addIfEvPT_i", 7, 1000);
        if (copy) copy(4096);
        pop();
    }
}

static void *run_thread(void *unused) {
    for (int i = 0; i < 100; i++) {
        push("work");
        if (launch) launch("plain_kernel", 7, 500);
        pop();
    }
    return unused;
}

static void run_threads(int count) {
    pthread_t threads[64];
    for (int i = 0; i < count && i < 64; i++)
        if (pthread_create(&threads[i], NULL, run_thread, NULL) != 0) stop("no memory for a thread");
    for (int i = 0; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
}

static void flood(int count) {
    char *name = malloc((size_t)count * 24); /* CUPTI's names live on */
    for (int i = 0; name && i < count; i++) {
        snprintf(name + 24 * i, 24, "kernel_%d", i);
        launch(name + 24 * i, 7, 100);
    }
}

static void wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0) exit(9);
}

static void run_forked(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        push("in the child");
        pop();
        exit(0);
    }
    wait_for(child);
}

static void spawn(char *self, char *word) {
    char *values[] = {self, (char *)"cuda", word, (char *)"2", NULL};
    pid_t child = fork();
    if (child == 0) {
        execv(self, values);
        _exit(9);
    }
    wait_for(child);
}

int main(int count, char **words) {
    start_nvtx();
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        char *next = i + 1 < count ? words[i + 1] : (char *)"0";
        if (strcmp(word, "cuda") == 0) start_cuda();
        if (strcmp(word, "step") == 0) run_steps(atoi(next));
        if (strcmp(word, "stream") == 0) make_stream();
        if (strcmp(word, "events") == 0) events();
        if (strcmp(word, "threads") == 0) run_threads(atoi(next));
        if (strcmp(word, "flood") == 0) flood(atoi(next));
        if (strcmp(word, "sleep") == 0) usleep((useconds_t)(1e6 * atof(next)));
        if (strcmp(word, "crash") == 0) raise(SIGSEGV);
        if (strcmp(word, "kill") == 0) raise(SIGKILL);
        if (strcmp(word, "fork") == 0) run_forked();
        if (strcmp(word, "spawn") == 0) spawn(words[0], next);
        if (strcmp(word, "end") == 0) exit(atoi(next));
        if (strcmp(word, "exit") == 0) _exit(atoi(next));
    }
    return 3;
}
