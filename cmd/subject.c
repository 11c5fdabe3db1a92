/* FILE.hr[:KERNEL] NAME=VALUE... -> a kernel on a device with everything bound. In: the words of a command
 * line. Out: a subject, or a sentence that lists what the kernel has. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

#define INPUT_STEP (1 << 14)
#define INPUT_MOST (1 << 26) /* more than the library takes: it says so */

/* Reads a file to its end; `*text` is for free(). */
static int read_all(const arguments *arguments, FILE *file, const char *name, char **text, size_t *length) {
    size_t room = 0, count = 1;
    *text = NULL;
    *length = 0;
    while (count > 0 && *length < INPUT_MOST) {
        if (room - *length < INPUT_STEP) {
            char *grown = realloc(*text, room = 2 * room + INPUT_STEP);
            if (!grown) return complain_memory(arguments);
            *text = grown;
        }
        count = fread(*text + *length, 1, room - *length, file);
        *length += count;
    }
    return ferror(file) ? complain(arguments, "cannot read %s", name) : 0;
}

static int load_input(const arguments *arguments, const char *name, subject *out) {
    char *text;
    size_t length;
    int code = read_all(arguments, stdin, "standard input", &text, &length);
    if (code == 0) {
        hr_status status = hr_kernel_load(out->device, "<stdin>", text, length, name, &out->kernel);
        if (status != HR_OK) code = complain_status(arguments, status);
    }
    free(text);
    return code;
}

static bool is_file_here(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

/* A name without a folder and without the ending of a text, which no file bears: one of the library's. */
static bool is_library_name(const char *word) {
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && !word[length];
}

/* The path that a word without its :KERNEL means, for free(): a file of that name here (with .hr, too) comes
 * before the library's. */
static int find_file(const arguments *arguments, const char *word, char **path, const char **kernel) {
    char here[256];
    snprintf(here, sizeof here, "%s.hr", word);
    if (!is_library_name(word) || is_file_here(word))
        *path = strdup(word);
    else if (is_file_here(here))
        *path = strdup(here);
    else
        return library_find(arguments, word, path, kernel);
    return *path ? 0 : complain_memory(arguments);
}

/* The first word, taken apart: `*word` and `*path` are for free(), `*name` points into the word; no path: a
 * text on standard input. */
static int find_text(const arguments *arguments, char **word, char **path, const char **name) {
    *word = *path = NULL;
    *name = NULL;
    if (arguments->word_count == 0 || strchr(arguments->words[0], '='))
        return complain(arguments,
                        "which kernel? Give its file, or the name of one of the library's: headroom %s",
                        arguments->command->synopsis);
    *word = strdup(arguments->words[0]);
    if (!*word) return complain_memory(arguments);
    char *colon = strrchr(*word, ':');
    if (colon && access(*word, F_OK) != 0) { /* a file may have a colon in its name */
        *colon = 0;
        *name = colon + 1;
    }
    return strcmp(*word, "-") == 0 ? 0 : find_file(arguments, *word, path, name);
}

/* On the device that is open already, else on `device`. */
static int load(const arguments *arguments, const char *device, subject *out) {
    char *word, *path;
    const char *name;
    int code = find_text(arguments, &word, &path, &name);
    hr_status status = code || out->device ? HR_OK : hr_device_open(device, &out->device);
    if (status == HR_OK && path) status = hr_kernel_load_file(out->device, path, name, &out->kernel);
    if (status != HR_OK)
        code = complain_status(arguments, status);
    else if (code == 0 && !path)
        code = load_input(arguments, name, out);
    free(path);
    free(word);
    return code;
}

int subject_open_on(const arguments *arguments, const char *device, subject *out) {
    *out = (subject){0};
    return load(arguments, device, out);
}

int kernel_text_open(const arguments *arguments, kernel_text *out) {
    *out = (kernel_text){0};
    int code = find_text(arguments, &out->word, &out->found, &out->kernel);
    out->path = out->found ? out->found : "<stdin>";
    if (code) return code;
    FILE *file = out->found ? fopen(out->found, "rb") : stdin;
    if (!file && errno == ENOMEM) return complain_memory(arguments);
    if (!file) return complain(arguments, "%s: cannot open it: %s", out->path, strerror(errno));
    code = read_all(arguments, file, out->path, &out->text, &out->length);
    if (out->found) fclose(file);
    return code;
}

void kernel_text_close(kernel_text *text) {
    free(text->word);
    free(text->found);
    free(text->text);
}

int subject_open(const arguments *arguments, subject *out) {
    return subject_open_on(arguments, arguments_value(arguments, "device", NULL), out);
}

/* From the first to past the last byte; files have no negative strides. */
static size_t array_bytes(const hr_array *array) {
    static const size_t sizes[] = {
#define DTYPE_SIZE(name, text, size) size,
        HR_DTYPES(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    int64_t last = 0, count = 1;
    for (int axis = array->rank - 1; axis >= 0; axis--) {
        if (array->shape[axis] == 0) return 0;
        last += (array->shape[axis] - 1) * (array->strides ? array->strides[axis] : count);
        count *= array->shape[axis];
    }
    return (size_t)(last + 1) * sizes[array->dtype];
}

/* All but the device. */
static void empty(subject *subject) {
    hr_kernel_destroy(subject->kernel);
    for (int i = 0; i < subject->npy_count; i++) {
        if (subject->uploads[i])
            hr_device_release(subject->device, subject->uploads[i],
                              array_bytes(hr_npy_array(subject->npys[i])));
        hr_npy_destroy(subject->npys[i]);
    }
    for (int i = 0; i < subject->name_count; i++)
        free(subject->names[i]);
    subject->kernel = NULL;
    subject->npy_count = subject->name_count = 0;
    memset(subject->uploads, 0, sizeof subject->uploads);
}

int subject_reopen(const arguments *arguments, subject *subject) {
    empty(subject);
    return load(arguments, NULL, subject);
}

void subject_close(subject *subject) {
    empty(subject);
    hr_device_destroy(subject->device);
}

hr_status subject_restore(void *context, const char *name, const hr_array *array) {
    subject *subject = context;
    (void)name;
    for (int i = 0; i < subject->npy_count; i++) {
        const hr_array *file = hr_npy_array(subject->npys[i]);
        if (subject->uploads[i] && subject->uploads[i] == array->data)
            return hr_device_upload(subject->device, array->data, file->data, array_bytes(file));
        if (file->data == array->data) return hr_npy_reset(subject->npys[i]);
    }
    return HR_OK;
}

hr_status subject_download(const subject *subject, const hr_array *array, hr_array *out, void **copy) {
    size_t bytes = array_bytes(array);
    *out = *array;
    *copy = NULL;
    if (hr_device_memory_is_host(subject->device) || bytes == 0) return HR_OK;
    *copy = malloc(bytes);
    if (!*copy) return HR_OUT_OF_MEMORY;
    out->data = *copy;
    return hr_device_download(subject->device, *copy, array->data, bytes);
}

/* ---- names ---- */

/* m for M, X for x: the same letters. */
static const char *same_letters(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcasecmp(names[i], name) == 0) return names[i];
    return NULL;
}

static int name_unknown(const arguments *arguments, const subject *subject, const char *name) {
    const char *names[BOUND_MAX];
    int count = 0, arguments_count = hr_kernel_argument_count(subject->kernel);
    for (int i = 0; i < arguments_count && count < BOUND_MAX; i++) {
        hr_argument argument;
        if (hr_kernel_argument(subject->kernel, i, &argument) == HR_OK) names[count++] = argument.name;
    }
    int small = count; /* tensors and scalars come first, then what begins with a capital letter */
    for (int i = 0; i < hr_kernel_extent_count(subject->kernel) && count < BOUND_MAX; i++)
        names[count++] = hr_kernel_extent_name(subject->kernel, i);
    for (int i = 0; i < hr_kernel_dtype_count(subject->kernel) && count < BOUND_MAX; i++)
        names[count++] = hr_kernel_dtype_name(subject->kernel, i);
    bool capital = isupper((unsigned char)name[0]);
    const char *closest = same_letters(name, names, count);
    if (!closest)
        closest = closest_name(name, names + (capital ? small : 0), capital ? count - small : small);
    fprintf(stderr, "headroom %s: kernel %s has no \"%s\"", arguments->command->name,
            hr_kernel_name(subject->kernel), name);
    complain_closest("", closest);
    fprintf(stderr, " It has");
    for (int i = 0; i < count; i++)
        fprintf(stderr, "%s %s", i ? "," : "", names[i]);
    fprintf(stderr, ".\n");
    return EXIT_USAGE;
}

int subject_argument(const arguments *arguments, const subject *subject, const char *name, hr_argument *out) {
    for (int i = 0; i < hr_kernel_argument_count(subject->kernel); i++)
        if (hr_kernel_argument(subject->kernel, i, out) == HR_OK && strcmp(out->name, name) == 0) return 0;
    return name_unknown(arguments, subject, name);
}

static bool has_extent(const subject *subject, const char *name) {
    for (int i = 0; i < hr_kernel_extent_count(subject->kernel); i++)
        if (strcmp(hr_kernel_extent_name(subject->kernel, i), name) == 0) return true;
    return false;
}

/* ---- dtypes ---- */

static bool has_dtype(const subject *subject, const char *name) {
    for (int i = 0; i < hr_kernel_dtype_count(subject->kernel); i++)
        if (strcmp(hr_kernel_dtype_name(subject->kernel, i), name) == 0) return true;
    return false;
}

hr_dtype dtype_named(const char *text) {
    int dtype = 0;
    while (dtype < HR_DTYPE_COUNT && strcmp(hr_dtype_name((hr_dtype)dtype), text) != 0)
        dtype++;
    return (hr_dtype)dtype;
}

static int bind_dtype(const arguments *arguments, subject *subject, const char *name, const char *text) {
    const char *names[HR_DTYPE_COUNT];
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        names[i] = hr_dtype_name((hr_dtype)i);
    hr_dtype dtype = dtype_named(text);
    if (dtype == HR_DTYPE_COUNT) {
        fprintf(stderr, "headroom %s: %s=%s: %s is a dtype of kernel %s, and there is none of that name",
                arguments->command->name, name, text, name, hr_kernel_name(subject->kernel));
        complain_closest("", closest_name(text, names, HR_DTYPE_COUNT));
        fprintf(stderr, "\n");
        return EXIT_USAGE;
    }
    hr_status status = hr_kernel_bind_dtype(subject->kernel, name, dtype);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* ---- binding ---- */

static int bind_extent(const arguments *arguments, subject *subject, const char *name, const char *text) {
    int64_t value;
    if (!has_extent(subject, name)) return name_unknown(arguments, subject, name);
    if (!parse_extent(text, &value))
        return complain(arguments,
                        "%s=%s: an extent is a whole number of at least 0 (4096, 4k, 2^12), below 2^63", name,
                        text);
    hr_status status = hr_kernel_bind_extent(subject->kernel, name, value);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

/* A scalar is handed over as f64, which does not hold every whole number that can be written. */
static int check_held(const arguments *arguments, const hr_argument *argument, const char *text,
                      double value) {
    static const bool whole[HR_DTYPE_COUNT] = {
        [HR_I64] = true, [HR_I32] = true, [HR_I16] = true, [HR_I8] = true, [HR_U8] = true, [HR_BOOL] = true};
    int64_t written;
    bool negative = text[0] == '-';
    if (!whole[argument->dtype] || !parse_whole(text + negative, &written) || fabs(value) >= 0x1p63) return 0;
    if ((int64_t)fabs(value) == written) return 0;
    return complain(arguments,
                    "%s=%s: a scalar is handed over as an f64, which does not hold this whole number",
                    argument->name, text);
}

static bool is_array_file(const char *text) {
    const char *ending = strrchr(text, '.');
    return ending && strcmp(ending, ".npy") == 0;
}

/* A 0-d .npy, as `-o loss=loss.npy` writes one. */
static int read_scalar(const arguments *arguments, const hr_argument *argument, const char *path,
                       double *value) {
    hr_npy *npy;
    if (hr_npy_open(path, argument->dtype, &npy) != HR_OK) return complain_status(arguments, HR_BAD_INPUT);
    const hr_status status = hr_npy_scalar(npy, value);
    hr_npy_destroy(npy);
    return status == HR_OK ? 0 : complain(arguments, "%s=%s: %s", argument->name, path, hr_last_error());
}

static int bind_scalar(const arguments *arguments, subject *subject, const hr_argument *argument,
                       const char *text) {
    const char *name = argument->name;
    bool word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    char *end;
    double value = strcmp(text, "true") == 0;
    if (is_array_file(text)) {
        int code = read_scalar(arguments, argument, text, &value);
        if (code) return code;
    } else if (!word) {
        value = strtod(text, &end);
        if (end == text || *end)
            return complain(arguments, "%s=%s: %s is a scalar, and \"%s\" is no number and no 0-d .npy", name,
                            text, name, text);
        int code = check_held(arguments, argument, text, value);
        if (code) return code;
    }
    const hr_status status = hr_kernel_bind_scalar(subject->kernel, name, value);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static hr_status upload(subject *subject, int i, hr_array *array) {
    size_t bytes = array_bytes(array);
    hr_status status = hr_device_allocate(subject->device, bytes, &subject->uploads[i]);
    if (status == HR_OK) status = hr_device_upload(subject->device, subject->uploads[i], array->data, bytes);
    array->data = subject->uploads[i];
    return status;
}

static int bind_tensor(const arguments *arguments, subject *subject, const hr_argument *argument,
                       const char *path, hr_npy *npy) {
    if (argument->role == HR_ARGUMENT_RESULT)
        return complain(arguments, "%s=%s: %s is a result; to save it, say -o %s=%s", argument->name, path,
                        argument->name, argument->name, path);
    hr_status status = npy ? HR_OK : hr_npy_open(path, argument->dtype, &npy);
    if (status != HR_OK) return complain_status(arguments, status);
    subject->npys[subject->npy_count++] = npy;
    hr_array array = *hr_npy_array(npy);
    if (!subject->plans && !hr_device_memory_is_host(subject->device))
        status = upload(subject, subject->npy_count - 1, &array);
    if (status == HR_OK) status = hr_kernel_bind(subject->kernel, argument->name, &array);
    return status == HR_OK ? 0 : complain_status(arguments, status);
}

static bool is_given(const subject *subject, const char *name) {
    for (int i = 0; i < subject->name_count; i++)
        if (strcmp(subject->names[i], name) == 0) return true;
    return false;
}

/* `x:bf16=...` says what the file's raw elements are; the kernel has to agree, or has a variable there. */
static int check_dtype(const arguments *arguments, subject *subject, const hr_argument *argument,
                       const char *dtype) {
    if (dtype && argument->dtype_variable && !is_given(subject, argument->dtype_variable))
        return bind_dtype(arguments, subject, argument->dtype_variable, dtype);
    if (!dtype || strcmp(dtype, hr_dtype_name(argument->dtype)) == 0) return 0;
    return complain(arguments, "%s:%s=...: the kernel declares %s as %s", argument->name, dtype,
                    argument->name, hr_dtype_name(argument->dtype));
}

/* NAME=VALUE and NAME:DTYPE=VALUE, taken apart. */
typedef struct bound_word {
    const char *name, *dtype, *value; /* dtype NULL: none is said */
    hr_argument argument;             /* of a small name */
    bool done;
} bound_word;

/* The name is the subject's to free. */
static int word_read(const arguments *arguments, subject *subject, const char *word, bound_word *out) {
    const char *equals = strchr(word, '=');
    *out = (bound_word){0};
    if (!equals || equals == word)
        return complain(arguments, "\"%s\" is no NAME=VALUE (EXTENT=N, T=DTYPE, scalar=X or tensor=FILE.npy)",
                        word);
    if (subject->name_count == BOUND_MAX)
        return complain(arguments, "more than %d names are given", BOUND_MAX);
    char *name = strndup(word, (size_t)(equals - word));
    if (!name) return complain_memory(arguments);
    char *dtype = strchr(name, ':');
    if (dtype) *dtype++ = 0;
    if (is_given(subject, name)) {
        complain(arguments, "%s is given twice", name);
        free(name);
        return EXIT_USAGE;
    }
    subject->names[subject->name_count++] = name;
    out->name = name;
    out->dtype = dtype;
    out->value = equals + 1;
    return isupper((unsigned char)name[0]) ? 0 : subject_argument(arguments, subject, name, &out->argument);
}

/* Extents and dtypes, which say what files may mean. */
static int bind_named(const arguments *arguments, subject *subject, bound_word *word) {
    word->done = isupper((unsigned char)word->name[0]);
    if (!word->done) return 0;
    return has_dtype(subject, word->name) ? bind_dtype(arguments, subject, word->name, word->value)
                                          : bind_extent(arguments, subject, word->name, word->value);
}

static bool is_file(const bound_word *word) {
    return word->argument.rank > 0 || word->argument.role != HR_ARGUMENT_INPUT;
}

/* A file that says what it holds says what a dtype variable stands for. */
static int bind_telling(const arguments *arguments, subject *subject, bound_word *word) {
    hr_npy *npy = NULL;
    const char *variable = word->argument.dtype_variable;
    if (word->done) return 0;
    (void)subject_argument(arguments, subject, word->name,
                           &word->argument); /* with the dtypes that were given */
    int code = check_dtype(arguments, subject, &word->argument, word->dtype);
    if (code || word->dtype || !variable || !is_file(word) || word->argument.role == HR_ARGUMENT_RESULT)
        return code;
    if (is_given(subject, variable)) return 0;
    if (hr_npy_open(word->value, HR_DTYPE_COUNT, &npy) != HR_OK) return 0; /* bind_rest will say why */
    word->done = true;
    return bind_tensor(arguments, subject, &word->argument, word->value, npy);
}

static int bind_rest(const arguments *arguments, subject *subject, bound_word *word) {
    if (word->done) return 0;
    int code =
        subject_argument(arguments, subject, word->name, &word->argument); /* its dtype may be known now */
    if (code) return code;
    return is_file(word) ? bind_tensor(arguments, subject, &word->argument, word->value, NULL)
                         : bind_scalar(arguments, subject, &word->argument, word->value);
}

int subject_bind(const arguments *arguments, subject *subject) {
    static int (*const steps[])(const struct arguments *, struct subject *,
                                bound_word *) = {bind_named, bind_telling, bind_rest};
    bound_word words[BOUND_MAX];
    int code = 0, count = arguments->word_count - 1;
    if (count > BOUND_MAX) return complain(arguments, "more than %d names are given", BOUND_MAX);
    for (int i = 0; i < count && code == 0; i++)
        code = word_read(arguments, subject, arguments->words[i + 1], &words[i]);
    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
        for (int i = 0; i < count && code == 0; i++)
            code = steps[step](arguments, subject, &words[i]);
    return code;
}
