/* Roofs from a file that `headroom roof --json` wrote, for a diagnosis on another machine.
 *
 * In: a path. Out: the roofs and whose they are. The rows of the report tell which field stands where: each
 * field is given its own number first, and the row that shows the number is the field's place in the file.
 */
#include "base/handle.h"
#include "base/json_read.h"
#include "device/roof_store.h"
#include "report/report.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIELDS (sizeof(hr_roof) / sizeof(double))

/* A roof whose every row shows the number of its field. */
static void number_fields(hr_roof *roof) {
    static const size_t plain[] = {offsetof(hr_roof, cache_count), offsetof(hr_roof, threads)};
    double number = 0;
    memset(roof, 0, sizeof *roof);
    for (size_t i = 0; i < FIELDS; i++) {
        bool other = i * sizeof number >= offsetof(hr_roof, cache) &&
                     i * sizeof number < offsetof(hr_roof, vector_f32);
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
            other |= plain[k] / sizeof number == i;
        number = (double)(i + 1);
        if (!other) memcpy((char *)roof + i * sizeof number, &number, sizeof number);
    }
    roof->special_beside = false;
}

/* `object`: the file's key "roof". False where it holds no rate, or a number that no machine has. */
static bool take_rows(const json_t *object, hr_roof *out) {
    hr_roof numbers;
    hr_roof_row rows[HR_ROOF_ROWS_MAX];
    bool some = false;
    number_fields(&numbers);
    int count = hr_roof_rows(&numbers, rows);
    for (int i = 0; i < count; i++) {
        const json_t *value = json_object_get(json_object_get(object, rows[i].group), rows[i].name);
        double rate = json_number_value(value);
        size_t field = (size_t)rows[i].value - 1;
        if (!json_is_number(value) || !(rate > 0) || field >= FIELDS) continue;
        memcpy((char *)out + field * sizeof rate, &rate, sizeof rate);
        some = true;
    }
    out->launch = json_number_value(json_object_get(object, "launch"));
    return some && out->launch >= 0 && hr_roof_threads_read(object, "threads", &out->threads);
}

hr_status hr_roof_load(const char *path, hr_roof *out, char *device, size_t size) {
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    json_t *file;
    const hr_status status = hr_json_read_file(path, &file);
    if (status == HR_BAD_INPUT)
        return hr_fail(HR_BAD_INPUT, "%s; roofs are what `headroom roof --json` prints", hr_last_error());
    if (status != HR_OK) return status;
    hr_roof roof = {0};
    bool good = take_rows(json_object_get(file, "roof"), &roof);
    const char *name = json_string_value(json_object_get(json_object_get(file, "device"), "name"));
    if (good) {
        *out = roof;
        if (device) snprintf(device, size, "%s", name ? name : "a device without a name");
    }
    json_decref(file);
    return good ? HR_OK
                : hr_fail(HR_BAD_INPUT, "%s: holds no roofs; `headroom roof --json` prints them", path);
}
