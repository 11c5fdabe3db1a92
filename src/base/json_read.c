#include "base/json_read.h"

#include <errno.h>
#include <stdbool.h>

typedef struct reading {
    json_t *value;
    json_error_t error;
    bool lacks_memory;
} reading;

/* Of a file where there are no bytes. */
static reading read_once(const char *data, size_t length, const char *path) {
    reading r;
    errno = 0;
    r.value = data ? json_loadb(data, length, JSON_REJECT_DUPLICATES, &r.error)
                   : json_load_file(path, JSON_REJECT_DUPLICATES, &r.error);
    /* without memory it mostly has no words for it */
    r.lacks_memory = !r.value && (errno == ENOMEM || !r.error.text[0]);
    return r;
}

static hr_status read_twice(const char *data, size_t length, const char *name, int line, json_t **out) {
    reading first = read_once(data, length, name), second = read_once(data, length, name);
    const bool same = first.value && second.value && json_equal(first.value, second.value);
    const bool wrong = !first.value && !second.value && !first.lacks_memory && !second.lacks_memory;
    json_decref(second.value);
    if (same) {
        *out = first.value;
        return HR_OK;
    }
    json_decref(first.value);
    return wrong ? hr_fail(HR_BAD_INPUT, "%s:%d: %s", name, line + first.error.line - 1, first.error.text)
                 : hr_fail(HR_OUT_OF_MEMORY, "%s: no memory to read its JSON", name);
}

hr_status hr_json_read(const char *data, size_t length, const char *name, int line, json_t **out) {
    return read_twice(data, length, name, line, out);
}

hr_status hr_json_read_file(const char *path, json_t **out) {
    return read_twice(NULL, 0, path, 1, out);
}
