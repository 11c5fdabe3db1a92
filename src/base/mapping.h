/* A file's bytes in memory, mapped, never copied.
 *
 * In: the path of an ordinary file. Out: its bytes; what is written to them stays in this process. A file
 * that another program shortens meanwhile ends this one with SIGBUS.
 */
#ifndef HR_BASE_MAPPING_H
#define HR_BASE_MAPPING_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_mapping {
    void *data; /* NULL: nothing is mapped */
    size_t length;
} hr_mapping;

/* HR_BAD_INPUT where the file is empty, HR_IO where it cannot be read. */
hr_status hr_mapping_open(const char *path, hr_mapping *out);
void hr_mapping_close(hr_mapping *mapping);

#endif
