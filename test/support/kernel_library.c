/* In: the folder kernels/. Out: its texts, parsed for both dtypes, in the order of their names. */
#define _GNU_SOURCE
#include "support/kernel_library.h"
#include "lang/program.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16 };

static int is_text(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".hr") == 0;
}

/* HR_KERNELS: where a test runs that was built elsewhere. */
static const char *folder(void) {
    const char *given = getenv("HR_KERNELS");
    return given ? given : HR_SOURCE_DIR "/kernels";
}

static hr_status file_open(const char *name, hr_dtype dtype, const char **path, hr_program **out) {
    char full[512], *text = malloc(TEXT_MAX);
    snprintf(full, sizeof full, "%.250s/%.250s", folder(), name);
    FILE *file = fopen(full, "rb");
    if (!text || !file) return hr_fail(HR_IO, "%s cannot be read", full);
    size_t length = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    hr_parse_options options = {.dtype_default = dtype};
    hr_status status = hr_program_parse_for(full, text, length, &options, out);
    free(text);
    *path = strdup(full);
    return status;
}

static hr_status file_each(const char *name, kernel_text_fn take, void *context) {
    char full[512], *text = malloc(TEXT_MAX);
    snprintf(full, sizeof full, "%.250s/%.250s", folder(), name);
    FILE *file = fopen(full, "rb");
    const size_t length = text && file ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    if (file) fclose(file);
    if (length) text[length] = 0;
    for (const char *at = length ? text : NULL; at && (at = strstr(at, "kernel ")); at++) {
        char kernel[64];
        if ((at == text || at[-1] == '\n') && sscanf(at, "kernel %63[a-z0-9_]", kernel) == 1)
            take(context, full, text, length, kernel);
    }
    free(text);
    return length ? HR_OK : hr_fail(HR_IO, "%s cannot be read", full);
}

hr_status kernel_texts_each(kernel_text_fn take, void *context) {
    struct dirent **entries;
    const int count = scandir(folder(), &entries, is_text, alphasort);
    hr_status status = count > 0 ? HR_OK : hr_fail(HR_IO, "%s holds no kernels", folder());
    for (int i = 0; i < count; i++) {
        if (status == HR_OK) status = file_each(entries[i]->d_name, take, context);
        free(entries[i]);
    }
    if (count > 0) free(entries);
    return status;
}

hr_status kernel_library_open(kernel_library *out) {
    struct dirent **entries;
    int count = scandir(folder(), &entries, is_text, alphasort);
    hr_status status = count > 0 ? HR_OK : hr_fail(HR_IO, "%s holds no kernels", folder());
    *out = (kernel_library){0};
    for (int i = 0; i < count; i++) {
        for (int narrow = 1; narrow >= 0; narrow--) {
            if (status != HR_OK || out->count == (int)(sizeof out->files / sizeof *out->files)) continue;
            status = file_open(entries[i]->d_name, narrow ? HR_BF16 : HR_F32, &out->files[out->count].path,
                               &out->files[out->count].program);
            out->count += status == HR_OK;
        }
        free(entries[i]);
    }
    if (count > 0) free(entries);
    if (status != HR_OK) kernel_library_close(out);
    return status;
}

void kernel_library_close(kernel_library *library) {
    for (int i = 0; i < library->count; i++) {
        hr_program_destroy(library->files[i].program);
        free((void *)(uintptr_t)library->files[i].path);
    }
    *library = (kernel_library){0};
}

const hr_function *kernel_library_function(const kernel_library *library, const char *title) {
    for (int f = 0; f < library->count; f++)
        for (int k = 0; k < library->files[f].program->function_count; k++)
            if (strcmp(library->files[f].program->functions[k].title, title) == 0)
                return &library->files[f].program->functions[k];
    return NULL;
}

int64_t kernel_groups(int64_t heads) {
    return heads % 3 == 0 && heads ? 3 : heads % 2 == 0 && heads ? 2 : 1;
}

int64_t kernel_size(const char *kernel, int extents, int64_t size) {
    const bool has_window = extents > 6 || strstr(kernel, "_pool");
    return has_window && size > 8 ? 2 + size % 7 : size;
}

hr_status kernel_bind_sizes(hr_kernel *kernel, const int64_t sizes[4]) {
    int64_t heads = 0;
    hr_status status = HR_OK;
    for (int e = 0; e < hr_kernel_extent_count(kernel) && status == HR_OK; e++) {
        const char *name = hr_kernel_extent_name(kernel, e);
        int64_t value =
            kernel_size(hr_kernel_name(kernel), hr_kernel_extent_count(kernel), sizes[e < 4 ? e : 3]);
        if (strcmp(name, "G") == 0 && heads) value = kernel_groups(heads);
        if (strcmp(name, "H") == 0) heads = value;
        if (e == 2 && value > sizes[1] && strcmp(hr_kernel_name(kernel), "topk") == 0) value = sizes[1];
        status = hr_kernel_bind_extent(kernel, name, value);
    }
    for (int i = 0; i < hr_kernel_argument_count(kernel) && status == HR_OK; i++) {
        hr_argument argument;
        status = hr_kernel_argument(kernel, i, &argument);
        if (status == HR_OK && argument.rank == 0 && argument.role == HR_ARGUMENT_INPUT &&
            !argument.has_default)
            status = hr_kernel_bind_scalar(kernel, argument.name, 0.5);
    }
    return status;
}

hr_status kernel_bind_dtypes(hr_kernel *kernel, hr_dtype dtype) {
    hr_status status = HR_OK;
    for (int i = 0; i < hr_kernel_dtype_count(kernel) && status == HR_OK; i++) {
        const char *name = hr_kernel_dtype_name(kernel, i);
        status = hr_kernel_bind_dtype(kernel, name, dtype);
        if (status == HR_BAD_INPUT) status = hr_kernel_bind_dtype(kernel, name, HR_F16);
    }
    return status;
}
