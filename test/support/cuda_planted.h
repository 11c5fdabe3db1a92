/* Kernels on the emulated device with a planted fault, or without one: what is told of each in several orders
 * of its threads. For programs of tests, after cmocka.h. */
#ifndef HR_TEST_SUPPORT_CUDA_PLANTED_H
#define HR_TEST_SUPPORT_CUDA_PLANTED_H

#include "support/cuda_test.h"

#include <stdio.h>
#include <string.h>

typedef struct cuda_planted {
    const char *name, *opening, *body; /* of the entry `k` */
    const char *fault;                 /* part of the sentence; NULL: there is none */
    bool some;                         /* it is enough that one order of the threads shows the fault */
    int orders;
    /* The sentence of one run of `one`, "" where all is right. */
    const char *(*sentence_of)(const void *one, const cuda_object *object, uint64_t order);
    const void *one;
} cuda_planted;

/* Ends the program with 77 where the host has no compiler for it; HR_VERBOSE=1 prints the sentences. */
static inline cuda_object *compile_or_skip(const cuda_planted *planted) {
    static const char *const entries[] = {"k"};
    char source[8192];
    cuda_object *object;
    snprintf(source, sizeof source, "%s%s\n}\n", planted->opening, planted->body);
    hr_status status = cuda_object_compile(source, entries, 1, &object);
    if (status == HR_NOT_AVAILABLE) {
        print_message("skipped: %s\n", hr_last_error());
        exit(77);
    }
    if (status != HR_OK) fail_msg("%s: %s", planted->name, hr_last_error());
    return object;
}

/* Fails where a fault is not told, or told where there is none. */
static inline void expect_told(const cuda_planted *planted) {
    cuda_object *object = compile_or_skip(planted);
    bool shown = false;
    for (int order = 0; order < planted->orders; order++) {
        const char *got = planted->sentence_of(planted->one, object, (uint64_t)order);
        const bool right = planted->fault ? *got && strstr(got, planted->fault) : !*got;
        if (getenv("HR_VERBOSE") && planted->fault)
            print_message("%s, order %d: %s\n", planted->name, order, got);
        shown |= right;
        if (!right && !planted->some)
            fail_msg("%s, order %d: \"%s\", expected %s", planted->name, order, got,
                     planted->fault ? planted->fault : "none");
    }
    if (!shown) fail_msg("%s: %s is never told", planted->name, planted->fault ? planted->fault : "");
    cuda_object_destroy(object);
}

#endif
