/* Tensors that are bound as lists of arrays: what is kept of them, and the tables that emitted code walks. */
#ifndef HR_RUN_LIST_H
#define HR_RUN_LIST_H

#include "base/launch.h"
#include "base/pieces.h"
#include "base/status.h"

#include <stddef.h>

struct hr_kernel;

/* What one tensor is bound to: dense arrays, taken as runs of elements. */
typedef struct hr_list {
    int count;
    void **data;
    int64_t *lengths;
} hr_list;

void hr_list_destroy(hr_list *list);

/* The tables of base/pieces.h in the device's memory: the pieces, then the addresses of each list's members.
 */
typedef struct hr_list_tables {
    void *memory;
    char *
        copy; /* of what stands there, in the host's memory: what has not changed is not brought over again */
    size_t size, written;            /* bytes; `written` of them hold something */
    int64_t piece_count, piece_most; /* as they stand in the memory; piece_most = 0: none do */
} hr_list_tables;

bool hr_kernel_has_lists(const struct hr_kernel *kernel);
/* HR_BAD_INPUT where the lists differ in their members' lengths. */
hr_status hr_lists_agree(const struct hr_kernel *kernel);
/* HR_BAD_INPUT where a member that is written, of a list or of a tensor of members, shares memory with
 * another one; beside lists with any array. */
hr_status hr_lists_overlap(const struct hr_kernel *kernel);
/* Brings the tables up to date, with pieces of at most `most` elements, and the launch's pointer and stride
 * words of every list with them. */
hr_status hr_lists_refresh(struct hr_kernel *kernel, int64_t most);
/* Sets the blocks of the launches that walk pieces. */
void hr_lists_cover(const struct hr_kernel *kernel, hr_launch *launches, int count);
void hr_lists_release(struct hr_kernel *kernel);

#endif
