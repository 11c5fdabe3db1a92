/* What callers give: handles that are there, pointers that are not NULL.
 *
 * Every public function asks first, so that a mistake of the caller becomes a sentence. In builds with
 * HR_DEBUG_HANDLES a destroyed handle is known for one: its first word stays, and tells. In others its memory
 * is gone, and only NULL is found.
 */
#ifndef HR_BASE_HANDLE_H
#define HR_BASE_HANDLE_H

#include "base/status.h"

#include <stddef.h>

#define HR_HANDLES(X)                                                                                        \
    X(DEVICE, "device")                                                                                      \
    X(KERNEL, "kernel")                                                                                      \
    X(RESULT, "result")                                                                                      \
    X(NPY, ".npy file")                                                                                      \
    X(RECORDING, "recording")                                                                                \
    X(DIAGNOSIS, "diagnosis")                                                                                \
    X(SEQUENCE, "sequence")                                                                                  \
    X(MODEL, "model")

typedef enum hr_handle_kind {
    HR_HANDLE_BEFORE = 0x6464, /* none: no count of anything */
#define HANDLE_KIND(name, word) HR_HANDLE_##name,
    HR_HANDLES(HANDLE_KIND)
#undef HANDLE_KIND
} hr_handle_kind;

/* The first member of what a handle points to. */
typedef struct hr_handle {
    int kind; /* hr_handle_kind */
} hr_handle;

/* HR_BAD_INPUT where `handle` is NULL or, in debug builds, none of this kind that lives. `function`: the
 * public function's name, for the sentence. */
hr_status hr_handle_check(const void *handle, hr_handle_kind kind, const char *function);
/* HR_BAD_INPUT where `pointer` is NULL; `what` in words: "array". */
hr_status hr_pointer_check(const void *pointer, const char *what, const char *function);
/* Frees a handle that was given by malloc or calloc; NULL is none. In debug builds its first words stay, so
 * that whoever uses it hereafter is told. */
void hr_handle_free(void *handle);

#endif
