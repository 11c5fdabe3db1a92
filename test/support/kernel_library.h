/* Every kernel of kernels/ in bf16 and in f32, for tests that go through all of them. */
#ifndef HR_TEST_KERNEL_LIBRARY_H
#define HR_TEST_KERNEL_LIBRARY_H

#include "headroom.h"
#include "lang/program.h"

typedef struct kernel_library {
    int count;
    struct {
        const char *path;
        hr_program *program;
    } files[128]; /* by name, each with its dtype variables in bf16 and again in f32 */
} kernel_library;

hr_status kernel_library_open(kernel_library *out);
void kernel_library_close(kernel_library *library);
/* Calls `take` with each kernel of kernels/, files by name; the text lives until it returns. */
typedef void (*kernel_text_fn)(void *context, const char *path, const char *text, size_t length,
                               const char *name);
hr_status kernel_texts_each(kernel_text_fn take, void *context);
/* "softmax T=f32"; NULL: there is none of that title. */
const hr_function *kernel_library_function(const kernel_library *library, const char *title);
/* How many heads of keys `heads` of queries may share in whole groups: a divisor of them. */
int64_t kernel_groups(int64_t heads);
/* What one of its extents may be: `size`, or little where a window's extents multiply the others'. */
int64_t kernel_size(const char *kernel, int extents, int64_t size);
/* The kernel's extents in turn, the fourth for all further ones, heads in whole groups, and no more of the
 * largest than there are; scalars that have no default are 0.5. */
hr_status kernel_bind_sizes(hr_kernel *kernel, const int64_t sizes[4]);
/* Every dtype variable of the kernel stands for `dtype`, or for f16 where its constraint forbids that. */
hr_status kernel_bind_dtypes(hr_kernel *kernel, hr_dtype dtype);

#endif
