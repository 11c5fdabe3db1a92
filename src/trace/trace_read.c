/* Files to a trace: what kind each is, from its first bytes, and the reader for it. */
#include "base/trace_file.h"
#include "trace/trace_readers.h"

#include <ctype.h>
#include <string.h>

#define HEAD_SIZE 4096

typedef struct head {
    char bytes[HEAD_SIZE + 1]; /* unpacked; terminated */
    size_t length;
    int64_t packed; /* bytes of the file where it is gzip, 0 = it is not */
} head;

static bool is_json(const head *head) {
    const char *at = head->bytes;
    if (memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
    while (isspace((unsigned char)*at))
        at++;
    return *at == '{' || *at == '[';
}

static bool is_sqlite(const head *head) {
    return memcmp(head->bytes, "SQLite format 3", 16) == 0;
}

/* Lines of the profiler may come first. */
static bool is_ncu(const head *head) {
    return strstr(head->bytes, "\"ID\",\"Process ID\"") || strncmp(head->bytes, "==", 2) == 0 ||
           strstr(head->bytes, "\n==PROF== ");
}

static bool is_own(const head *head) {
    return head->length >= 8 && memcmp(head->bytes, HR_TRACE_FILE_MAGIC, 8) == 0;
}

static bool is_xplane(const head *head) {
    return hr_trace_is_xplane(head->bytes, head->length);
}

/* In the order in which they are asked. */
static const struct {
    bool (*is)(const head *head);
    hr_status (*read)(hr_trace_build *build, const char *path);
} kinds[] = {
    {is_sqlite, hr_trace_read_nsys}, {is_own, hr_trace_read_own}, {is_xplane, hr_trace_read_xplane},
    {is_json, hr_trace_read_kineto}, {is_ncu, hr_trace_read_ncu},
};

static hr_status head_read(const char *path, head *head) {
    hr_trace_input *input;
    HR_TRY(hr_trace_input_open(path, &input));
    hr_status status = hr_trace_input_read(input, head->bytes, HEAD_SIZE, &head->length);
    head->bytes[head->length] = 0;
    head->packed = hr_trace_input_packed(input);
    hr_trace_input_close(input);
    if (status == HR_OK && head->length == 0)
        return hr_fail(HR_BAD_INPUT, "%s: is empty: no trace was written to it", path);
    return status;
}

static hr_status file_read(hr_trace_build *build, const char *path) {
    head head;
    HR_TRY(head_read(path, &head));
    hr_trace_build_packed(build, head.packed);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(&head)) return kinds[i].read(build, path);
    return hr_fail(HR_BAD_INPUT,
                   "%s: byte 0: not a trace. Known are files of headroom record, PyTorch's profiler (.json, "
                   ".json.gz), JAX's (.trace.json.gz, .xplane.pb), Nsight Systems (nsys export --type "
                   "sqlite) and Nsight Compute (ncu --csv)",
                   path);
}

hr_status hr_trace_read(const char *const *paths, int count, const hr_trace_options *options,
                        hr_trace **out) {
    hr_trace_build *build;
    if (count < 1) return hr_fail(HR_BAD_INPUT, "no trace files were given");
    HR_TRY(hr_trace_build_create(options, count, &build));
    for (int i = 0; i < count; i++) {
        hr_status status = file_read(build, paths[i]);
        if (status != HR_OK) {
            hr_trace_build_destroy(build);
            return status;
        }
    }
    return hr_trace_build_finish(build, out);
}
