/* Evaluates every element of every result of a kernel with the interpreter, for scripts that compare.
 *
 *     interpret FILE.hr KERNEL FOLDER [EXTENT=N | T=DTYPE | scalar=X]...
 *
 * In: FOLDER/NAME.bin, the raw elements of parameter NAME (zeros where it is missing). Out: FOLDER/NAME.f64
 * for each result and inout, the elements before the store's rounding.
 */
#include "base/dtype.h"
#include "support/fixture.h"

#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t capacity = 1 << 20;
    char *data = calloc(capacity + 1, 1);
    *length = data ? fread(data, 1, capacity, file) : 0;
    fclose(file);
    return data;
}

static void apply(hr_fixture *fixture, const char *setting, bool scalars) {
    const char *equals = strchr(setting, '=');
    char name[64];
    if (!equals || (size_t)(equals - setting) >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    if (!scalars)
        hr_fixture_extent(fixture, name, atoll(equals + 1));
    else if (hr_fixture_tensor(fixture, name) >= 0)
        hr_fixture_set_scalar(fixture, name, atof(equals + 1));
}

/* The kernel with the dtypes that the settings give its variables. */
static hr_status instantiate(hr_fixture *fixture, int count, char **settings) {
    const hr_function *function = fixture->function;
    hr_dtype dtypes[HR_DTYPE_VARIABLE_MAX];
    hr_program *program;
    for (int i = 0; i < function->variable_count; ++i) {
        const hr_dtype_variable *variable = &function->variables[i];
        size_t length = strlen(variable->name);
        dtypes[i] = variable->dtype;
        for (int s = 0; s < count; ++s)
            if (!strncmp(settings[s], variable->name, length) && settings[s][length] == '=')
                hr_dtype_parse(settings[s] + length + 1, strlen(settings[s] + length + 1), &dtypes[i]);
    }
    HR_TRY(hr_function_instantiate(function, dtypes, &program, &fixture->function));
    hr_program_destroy(fixture->program);
    fixture->program = program;
    return HR_OK;
}

static void load(hr_fixture *fixture, const char *folder) {
    for (int i = 0; i < fixture->function->parameter_count; ++i) {
        const hr_tensor *tensor = &fixture->function->tensors[i];
        char path[1024];
        size_t length = 0, wanted = (size_t)hr_fixture_count(fixture, i) * hr_dtype_size(tensor->dtype);
        snprintf(path, sizeof path, "%s/%s.bin", folder, tensor->name);
        char *data = tensor->rank ? read_file(path, &length) : NULL;
        if (data)
            memcpy((void *)(uintptr_t)fixture->operands[i].data, data, length < wanted ? length : wanted);
        free(data);
    }
}

static hr_status save(hr_fixture *fixture, const char *folder, int tensor) {
    const char *name = fixture->function->tensors[tensor].name;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.f64", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) return hr_fail(HR_IO, "cannot write %s", path);
    hr_status status = HR_OK;
    for (int64_t i = 0; i < hr_fixture_count(fixture, tensor) && status == HR_OK; ++i) {
        hr_meaning meaning = {0};
        status = hr_fixture_value(fixture, name, i, &meaning);
        fwrite(&meaning.value, sizeof meaning.value, 1, file);
    }
    fclose(file);
    return status;
}

static hr_status interpret(hr_fixture *fixture, int argc, char **argv) {
    size_t length;
    char *text = read_file(argv[1], &length);
    if (!text) return hr_fail(HR_IO, "cannot read %s", argv[1]);
    hr_status status = hr_fixture_open(text, argv[2], fixture);
    free(text);
    HR_TRY(status);
    HR_TRY(instantiate(fixture, argc - 4, argv + 4));
    for (int i = 4; i < argc; ++i)
        apply(fixture, argv[i], false);
    HR_TRY(hr_fixture_allocate(fixture));
    for (int i = 4; i < argc; ++i)
        apply(fixture, argv[i], true);
    load(fixture, argv[3]);
    for (int i = 0; i < fixture->function->parameter_count + fixture->function->result_count; ++i)
        if (fixture->function->tensors[i].role != HR_ROLE_INPUT) HR_TRY(save(fixture, argv[3], i));
    return HR_OK;
}

int main(int argc, char **argv) {
    hr_fixture fixture = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: interpret FILE.hr KERNEL FOLDER [NAME=VALUE]...\n");
        return 2;
    }
    hr_status status = interpret(&fixture, argc, argv);
    if (status != HR_OK) fprintf(stderr, "%s\n", hr_last_error());
    hr_fixture_close(&fixture);
    return hr_status_exit_code(status);
}
