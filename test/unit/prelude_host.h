/* Whether this machine has the instructions that a test of the prelude was compiled for; says so where not.
 */
#ifndef PRELUDE_HOST_H
#define PRELUDE_HOST_H

#include <stdbool.h>
#include <stdio.h>

static inline bool host_runs_this(void) {
#if defined __x86_64__ && defined __AVX2__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("skipped: this machine has no AVX2\n");
        return false;
    }
#endif
    return true;
}

#endif
