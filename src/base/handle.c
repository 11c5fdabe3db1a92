/* See handle.h. In: what callers give. Out: good, or a sentence. */
#include "base/handle.h"

#include <stdlib.h>

static const char *kind_name(hr_handle_kind kind) {
    static const char *const names[] = {
#define HANDLE_NAME(name, word) word,
        HR_HANDLES(HANDLE_NAME)
#undef HANDLE_NAME
    };
    return names[kind - HR_HANDLE_DEVICE];
}

hr_status hr_pointer_check(const void *pointer, const char *what, const char *function) {
    return pointer ? HR_OK : hr_fail(HR_BAD_INPUT, "%s got no %s (NULL)", function, what);
}

#ifdef HR_DEBUG_HANDLES

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_ignore_object(memory) ((void)(memory))
#endif

#define DESTROYED 0

hr_status hr_handle_check(const void *handle, hr_handle_kind kind, const char *function) {
    HR_TRY(hr_pointer_check(handle, kind_name(kind), function));
    const int found = ((const hr_handle *)handle)->kind;
    if (found == (int)kind) return HR_OK;
    if (found == DESTROYED)
        return hr_fail(HR_BAD_INPUT, "%s got a %s that was destroyed before", function, kind_name(kind));
    return hr_fail(HR_BAD_INPUT, "%s got something else where a %s is wanted", function, kind_name(kind));
}

/* The memory is not given back: it would be another's, and tell nothing. It is no leak. */
void hr_handle_free(void *handle) {
    if (!handle) return;
    ((hr_handle *)handle)->kind = DESTROYED;
    __lsan_ignore_object(handle);
}

#else

hr_status hr_handle_check(const void *handle, hr_handle_kind kind, const char *function) {
    return hr_pointer_check(handle, kind_name(kind), function);
}

void hr_handle_free(void *handle) {
    free(handle);
}

#endif
