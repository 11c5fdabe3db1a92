/* Writes every kernel of the library as C to paste, in bf16 and in f32, planned for a core with vectors of
 * that many 32-bit lanes at usual extents: what a test compiles with the compilers that users have.
 *
 *   emit_c_library FOLDER LANES     out: FOLDER/kernel_NAME_DTYPE.c and .h
 */
#include "emit/emit.h"
#include "schedule/target.h"
#include "support/kernel_library.h"

#include "base/file.h"
#include "ir/extent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hr_status save(const char *folder, const char *name, const char *ending, const hr_text *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return hr_file_save(path, hr_text_data(text), text->length);
}

static hr_status write_kernel(const char *folder, const hr_device_limits *limits,
                              const hr_function *function) {
    int64_t extents[64];
    hr_plan *plan;
    hr_emitted emitted;
    for (int e = 0; e < function->extent_count; e++)
        extents[e] = HR_EXTENT_UNKNOWN;
    HR_TRY(hr_extent_default(function, extents));
    HR_TRY(hr_schedule_create(function, extents, NULL, limits, NULL, &plan));
    hr_status status = hr_emit_source(plan, extents, NULL, &emitted);
    hr_plan_destroy(plan);
    if (status != HR_OK) return status;
    status = save(folder, function->symbol, ".c", &emitted.source);
    if (status == HR_OK) status = save(folder, function->symbol, ".h", &emitted.header);
    hr_emitted_clear(&emitted);
    return status;
}

static hr_status write_all(const char *folder, const hr_device_limits *limits) {
    kernel_library library;
    hr_status status = kernel_library_open(&library);
    if (status != HR_OK) return status;
    for (int f = 0; f < library.count && status == HR_OK; f++)
        for (int k = 0; k < library.files[f].program->function_count && status == HR_OK; k++)
            status = write_kernel(folder, limits, &library.files[f].program->functions[k]);
    kernel_library_close(&library);
    return status;
}

int main(int count, char **words) {
    const int lanes = count == 3 ? atoi(words[2]) : 0;
    if (lanes != 4 && lanes != 8 && lanes != 16) {
        fprintf(stderr, "usage: emit_c_library FOLDER 4|8|16\n");
        return 2;
    }
    const hr_device_limits limits = {.threads = 8,
                                     .vector_bytes = 4 * lanes,
                                     .l1_bytes = 32 << 10,
                                     .l2_bytes = 1 << 20,
                                     .l3_bytes = 32 << 20};
    if (write_all(words[1], &limits) == HR_OK) return 0;
    fprintf(stderr, "%s\n", hr_last_error());
    return 1;
}
