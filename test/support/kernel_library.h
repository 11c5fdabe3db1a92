/* Every kernel of kernels/, for tests that go through all of them. */
#ifndef HR_TEST_KERNEL_LIBRARY_H
#define HR_TEST_KERNEL_LIBRARY_H

#include "lang/program.h"

typedef struct kernel_library {
    int count;
    struct {
        const char *path;
        hr_program *program;
    } files[128]; /* by name */
} kernel_library;

hr_status kernel_library_open(kernel_library *out);
void kernel_library_close(kernel_library *library);
/* NULL: there is none of that name. */
const hr_function *kernel_library_function(const kernel_library *library, const char *name);

#endif
